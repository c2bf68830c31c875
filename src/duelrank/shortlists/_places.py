"""Between which places the labels of a point are, where rankings are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from duelrank._batches import margin_batches
from duelrank._classifiers import known_labels
from duelrank._parameters import ParametersInside, check_choice
from duelrank._sklearn import as_indexable, input_tags_of, predictor_inside, take_rows, unwrap
from duelrank.predictions import predict_ranks
from duelrank.rankers import DuelRanker
from duelrank.rankings import check_ranks
from duelrank.shortlists._calibration import check_enough, check_single_coverage, threshold
from duelrank.shortlists._rows import check_share, hold_out

__all__ = ["PlaceIntervals"]

WIDTHS = ("auto", "constant", "duels")


class PlaceIntervals(ParametersInside, MetaEstimatorMixin, BaseEstimator):
    r"""For every point and label, between which places the label is.

    The intervals of a point hold *simultaneously*: with a share `coverage` of all rows, the places
    of all labels are inside. The guarantee is that of `Shortlister`: if calibration rows and new
    rows are exchangeable, the probability that all places are inside is at least `coverage`,
    whatever the estimator and the distribution of the data are. For n calibration rows, the
    half-width of the intervals is the k-th smallest of the largest errors of these rows, with
    k = ⌈(n + 1) · coverage⌉.

    Parameters
    ----------
    estimator : ranker, pipeline or search, default=None
        It learns from ranks. If it is a `sklearn.frozen.FrozenEstimator`, it is fitted already, on
        other rows than those given to `fit`. By default `DuelRanker()`.
    coverage : float, default=0.9
        How often all places of a row are inside their intervals, between 0 and 1.
    width : {"auto", "constant", "duels"}, default="auto"
        "constant": all intervals of all rows are equally wide, but for the ends. "duels": they are
        the wider the less sure the duels of a label are, by the standard deviation of the number of
        duels that it wins, √(1 + Σ p (1 − p)). "auto" is "duels" for a `DuelRanker` whose engine
        has probabilities, and "constant" for all others.
    calibration_size : float, default=0.2
        Share of the rows to hold out for calibration, if the estimator is not frozen.
    random_state : int, RandomState instance or None, default=None
        Draws these rows.

    Attributes
    ----------
    estimator_ : ranker
        It ranks the labels.
    classes_ : ndarray of shape (K,)
        The labels.
    half_width_ : float
        Half the width of the intervals, in places, or in standard deviations of the duels.
    width_ : {"constant", "duels"}
        Which widths are in use.
    n_calibration_ : int
        Number of calibration rows.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.datasets import make_label_ranking
    >>> X, _, eta = make_label_ranking(400, random_state=0)
    >>> ranks = 1 + np.argsort(np.argsort(-eta))
    >>> places = PlaceIntervals(coverage=0.8, random_state=0).fit(X, ranks)
    >>> places.predict_intervals(X[:1]).shape == (1, eta.shape[1], 2)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        coverage: float = 0.9,
        *,
        width: str = "auto",
        calibration_size: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.width = width
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PlaceIntervals:
        """Fit the estimator, unless it is frozen, and calibrate the intervals.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Points, as the estimator takes them.
        y : array-like of int, of shape (n, K)
            Full rankings: the place of every label, 1 to K, in the order of `classes_`.

        Returns
        -------
        self : PlaceIntervals
            The fitted estimator.
        """
        coverage = check_single_coverage(self.coverage)
        check_choice("width", self.width, WIDTHS)
        share = check_share(self.calibration_size)
        X, ranks = as_indexable(X), check_ranks(y, name="y")
        if len(ranks) != X.shape[0]:
            raise ValueError(f"y must have {X.shape[0]} rows as X has, got {len(ranks)}.")
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        if isinstance(self.estimator, FrozenEstimator):
            fitted, calibrating = self.estimator.estimator, np.arange(len(ranks))
        else:
            unfitted = DuelRanker(random_state=seed) if self.estimator is None else self.estimator
            learning, calibrating, _ = hold_out(np.zeros(len(ranks)), share, rng)
            fitted = clone(unfitted).fit(take_rows(X, learning), ranks[learning])
        classes = known_labels(fitted)
        if ranks.shape[1] != len(classes):
            raise ValueError(
                f"y must have {len(classes)} columns, one per label, got {ranks.shape[1]}."
            )
        check_enough(len(calibrating), [coverage], "calibration rows")
        width = _settled_width(self.width, fitted)
        points, truth = take_rows(X, calibrating), ranks[calibrating]
        errors = np.abs(predict_ranks(fitted, points) - truth) / _widths(fitted, points, width)
        largest = np.max(errors, axis=1)
        self.estimator_, self.classes_, self.width_ = fitted, classes, width
        self.half_width_ = threshold(largest, coverage)
        self.n_calibration_ = len(calibrating)
        return self

    def predict_intervals(self, X: Any) -> NDArray[np.int64]:
        """Return the first and the last place of every label.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        intervals : ndarray of int, of shape (n, K, 2)
            Places from 1 to K, both ends included.
        """
        check_is_fitted(self)
        X = as_indexable(X)
        places = predict_ranks(self.estimator_, X)
        reach = self.half_width_ * _widths(self.estimator_, X, self.width_)
        slack = 1e-9  # an error just as large as the half-width is inside
        ends = np.stack([np.ceil(places - reach - slack), np.floor(places + reach + slack)], axis=2)
        return np.clip(ends, 1, len(self.classes_)).astype(np.int64)

    def predict_ranks(self, X: Any) -> NDArray[np.int64]:
        """Return the place of every label.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        ranks : ndarray of int, of shape (n, K)
            Columns follow `classes_`.
        """
        check_is_fitted(self)
        return predict_ranks(self.estimator_, X)

    def _default_estimator(self) -> str:
        return "DuelRanker()"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags_of(DuelRanker() if self.estimator is None else self.estimator)
        return tags


def _settled_width(width: str, estimator: Any) -> str:
    has_duels = isinstance(predictor_inside(estimator), DuelRanker)
    if width == "duels" and not has_duels:
        raise ValueError("width='duels' needs a DuelRanker; for other rankers take 'constant'.")
    if width == "auto":
        return "duels" if has_duels else "constant"
    return width


def _widths(estimator: Any, X: Any, width: str) -> NDArray[np.float64]:
    """Return how wide the intervals of all labels are in comparison, (n, K) or (1, 1)."""
    if width == "constant":
        return np.ones((1, 1))
    ranker, points = unwrap(estimator, X)
    return np.concatenate(list(_deviations(ranker, points)))


def _deviations(ranker: DuelRanker, points: Any) -> Iterator[NDArray[np.float64]]:
    for rows in margin_batches(points.shape[0], len(ranker.classes_)):
        probabilities = ranker.tournament(take_rows(points, rows)).probabilities
        # The diagonal is one half: it gives the quarter that is taken off again.
        variances = np.sum(probabilities * (1 - probabilities), axis=2) - 0.25
        yield np.sqrt(1 + np.maximum(variances, 0))
