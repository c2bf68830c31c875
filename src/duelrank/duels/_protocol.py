"""What a duel engine is.

An engine learns all P = K(K−1)/2 duels between K labels and then tells their margins. It is a
scikit-learn estimator: parameters in ``__init__``, ``get_params``, ``clone``. Anyone can write one.
Two methods are required:

- ``fit(X, feedback, n_classes, sample_weight=None)`` learns all duels and returns the engine. The
  *feedback* is codes or ranks. Codes are (n,) integers 0..K−1: duel d learns from the rows whose
  code is ``first[d]`` or ``second[d]``, where ``first, second = pairs(n_classes)``. Ranks are
  (n, K) floats: duel d learns from the rows whose two ranks differ; the lower rank wins, and NaN
  says nothing. A label may have no rows: a one-sided duel is won by the label that was seen, an
  empty one has margin 0.
- ``margins(X)`` → (n, P) floats: positive when ``second[d]`` wins, 0 when undecided.

Everything else is optional. For predictions:

- ``probabilities(X)`` → (n, P) floats: the probability that ``second[d]`` wins. Without it, a
  ranker has no ``predict_proba``, and margins stand in where evidence breaks ties.
- ``margins_and_probabilities(X)`` → both, for engines that compute both at once faster than one
  after the other.
- ``wins(X, label_order, with_expected=True)`` → (n, K) integers and (n, K) floats: how many duels
  every label wins, and how many it can expect to win (the sum of its probabilities). It is for
  engines that can count wins without holding all margins. A duel with margin 0 goes to the label
  that comes first in ``label_order``, an array of codes. Without ``with_expected`` the second array
  may hold anything.
- ``top_wins(X, label_order, k)`` → the same two arrays, for engines that save work if only the
  first k places matter. Labels that win fewer duels than the k-th best may have any number of wins
  from 0 up to one less than that one's. The second array may hold any numbers from 0 to K−1 for
  points without a tie among their first k labels or next to them, and for labels that tie with no
  other.

For explanations:

- ``duel_coefficients(duels)`` → (m, n_features) floats and (m,) floats, for engines whose margins
  are linear: the coefficients and intercepts of some duels, by number. ``X @ coef.T + intercept``
  are their margins.

For fitting:

- ``takes_blocks``, a class attribute, False by default: whether ``fit`` also takes
  `duelrank.blocks.LabeledBlocks` as X. These bring their labels and weights along, and the feedback
  is None.
- ``takes_sparse_feedback``, a class attribute, False by default: whether ``fit`` also takes
  `duelrank.feedback.SparseRanks` as feedback, which a ranker makes of sparse y. Other engines get
  its ``dense()``.
- ``n_features_in_`` and ``feature_names_in_``: attributes that a ranker takes over.
- Parameters named ``n_jobs`` and ``random_state``: a ranker or a stack sets them if they are None.
  It also sets a parameter ``verbose``. A ranker translates dictionaries in a ``class_weight`` from
  labels to codes.
- Messages name labels, not codes, if `duelrank._label_names.label_names` knows them.

For updates:

- ``partial_fit(X, codes, n_classes, sample_weight=None, known_codes=None)`` learns from more rows,
  possibly of more labels, and returns the engine. ``known_codes`` are the codes that the labels of
  before have from now on, increasing. It raises `NewLabelsError` for new labels if it cannot learn
  them. It replaces fitted arrays and never changes them, since a ranker updates a shallow copy.
- ``drop_labels(codes)`` forgets labels; those that stay are numbered anew in the same order.

For a stack:

- ``held_out_margins()`` → (n, P) floats: the margins of the rows of fit, as log-odds, each by a
  model that has not seen the row. Without it, the stack fits the engine on folds.
- ``settled()`` → an engine, not fitted, with the parameters that a search has found. It is for
  engines that search; their parameter ``cv`` gets the folds of the stack if it is None.

For model files and reports:

- ``__sklearn_tags__()``: what the columns of X may hold. They are numbers unless ``input_tags`` say
  ``string`` or ``categorical``; the command reads CSV accordingly.
- ``inner_estimator()`` → one of the fitted estimators inside that get X as the engine got it, or
  None. It is for engines that hand their columns on; that estimator tells what these may hold.
- ``check_fitted(n_classes)`` raises ValueError, with one sentence, if the fitted arrays do not fit
  together. A loaded model is checked this way before it is used; see `check_engine`.
- ``keeps_training_rows``: whether the fitted engine holds rows of X that it has learned from. An
  engine without this attribute holds none.
- ``without_training_rows()`` → a copy that holds none, with the same margins up to rounding. An
  engine that keeps rows and has no such method cannot do without them.
- A parameter named ``estimator``: a report names its class in place of the engine's.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from duelrank._sklearn import CallbackSupportMixin


@runtime_checkable
class DuelEngine(Protocol):
    """Anything that fits duels and tells their margins."""

    def fit(self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None) -> Any:
        """Learn all duels."""

    def margins(self, X: Any) -> NDArray[np.floating]:
        """Return the margins of all duels, (n, P)."""


class Engine(CallbackSupportMixin, BaseEstimator):
    """Parent of the engines of this package: an estimator with callbacks."""

    takes_blocks: ClassVar[bool] = False
    takes_sparse_feedback: ClassVar[bool] = False

    # Feedback and the number of labels are arguments of fit, but not metadata that users could
    # route. Sample weights are routed to an engine without a request.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {
        "feedback": UNUSED,
        "n_classes": UNUSED,
        "sample_weight": True,
    }


class NewLabelsError(ValueError):
    """New labels have rows, and there are no rows to fight their duels with.

    Parameters
    ----------
    codes : ndarray of int
        Their codes.
    """

    def __init__(self, codes: NDArray[np.intp]) -> None:
        self.codes = codes
        super().__init__(
            f"partial_fit without keep_rows takes labels that had rows before; {codes.tolist()} "
            "had none. Fit with keep_rows=True, which can add labels."
        )


def check_engine(engine: Any, n_classes: int) -> None:
    """Raise ValueError if a fitted engine finds that its arrays do not fit together.

    Parameters
    ----------
    engine : duel engine
        Fitted; possibly loaded from a file that nobody has checked yet.
    n_classes : int
        Number of labels K that it must have been fitted for.
    """
    # Asked of the class: a file could hide the method behind an attribute of the same name.
    check_fitted = getattr(type(engine), "check_fitted", None)
    if check_fitted is not None:
        check_fitted(engine, n_classes)


def check_counts(correct: Any) -> None:
    """Raise the error of `check_fitted` unless the arrays of an engine have the right shapes."""
    if not correct:
        raise ValueError("the duels are not counted right")


def is_finite_array(values: Any, kind: str, shape: tuple[int, ...]) -> bool:
    """Tell whether this is an array of finite numbers, of a kind ("b", "i", "f") and a shape."""
    return (
        type(values) is np.ndarray
        and values.dtype.kind == kind
        and values.shape == shape
        and bool(np.isfinite(values).all())
    )


def as_feedback(feedback: ArrayLike, n_classes: int) -> NDArray[Any]:
    """Return codes as integers after checking that they lie in 0..K−1, or ranks as floats."""
    array = np.asarray(feedback)
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}.")
    if array.ndim == 2 and array.dtype.kind in "iuf":
        if array.shape[1] != n_classes:
            raise ValueError(
                f"feedback must have one column per label if they are ranks: {n_classes}, "
                f"got shape {array.shape}."
            )
        return array.astype(np.float64, copy=False)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            "feedback must be codes, a vector of integers, or ranks with one column per label; "
            f"got shape {array.shape} and dtype {array.dtype}."
        )
    if len(array) and (array.min() < 0 or array.max() >= n_classes):
        raise ValueError(
            f"feedback must be codes between 0 and {n_classes - 1}, "
            f"got values from {array.min()} to {array.max()}."
        )
    return array.astype(np.intp, copy=False)
