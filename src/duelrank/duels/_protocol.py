"""What a duel engine is.

An engine learns all P = K(K−1)/2 duels between K labels and then tells their margins. It is a
scikit-learn estimator (parameters in ``__init__``, ``get_params``, ``clone``):

- ``fit(X, feedback, n_classes, sample_weight=None)`` learns all duels and returns the engine. The
  *feedback* is codes or ranks. Codes are (n,) integers 0..K−1: duel d learns from the rows whose
  code is ``first[d]`` or ``second[d]``, where ``first, second = pairs(n_classes)``. Ranks are
  (n, K) floats: duel d learns from the rows whose two ranks differ; the lower rank wins, and NaN
  says nothing. A label may have no rows: a one-sided duel is won by the label that was seen, an
  empty one has margin 0.
- ``margins(X)`` → (n, P) floats: positive when ``second[d]`` wins, 0 when undecided.
- ``probabilities(X)`` → (n, P) floats, optional: probability that ``second[d]`` wins.
- ``margins_and_probabilities(X)`` → both, optional, where that is cheaper than one by one.
- ``wins(X, label_order, with_expected=True)`` → (n, K) integers and (n, K) floats, optional: how
  many duels every label wins and how many it can expect to win (the sum of its probabilities), for
  engines that can count them without spelling out all margins. A duel with margin 0 goes to the
  label that comes first in ``label_order``, an array of codes. Without ``with_expected`` the second
  array may hold anything.
- ``held_out_margins()`` → (n, P) floats, optional: the margins of the rows of fit, as log-odds,
  each by a model that has not seen the row. A stack asks for them.
- ``settled()`` → engine, optional, for engines that search: one, not fitted, with what was found.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

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

    # Feedback and the number of labels are arguments of fit, but not metadata that users could
    # route. Sample weights are routed to an engine without a request.
    __metadata_request__fit = {  # noqa: RUF012
        "feedback": UNUSED,
        "n_classes": UNUSED,
        "sample_weight": True,
    }


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
