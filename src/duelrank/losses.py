"""How wrong a predicted ranking is: distances, a correlation, and scikit-learn scorers.

With σ the true and σ̂ the predicted ranks of the K labels of a row (Clémençon & Vogel 2020,
Section 2.1):

- `kendall_distance`: number of label pairs that σ and σ̂ order differently;
- `footrule_distance`: Σ |σ(k) − σ̂(k)|;
- `spearman_distance`: Σ (σ(k) − σ̂(k))²;
- `hamming_distance`: number of labels whose places differ;
- `zero_one_distance`: 1 if the rankings differ at all;
- `kendall_tau`: the correlation 1 − 4 d / (K(K−1)) in [−1, 1], d the Kendall distance;
- `partial_kendall_tau`: the same over the label pairs that a partial ranking puts in order;
- `top_k_loss`: 1 if the observed label is not among the first k.

Each takes (n, K) ranks, or (K,) for one row, and returns one number a row.

The scorers plug into ``cross_validate`` and ``GridSearchCV``. `top_k_scorer` needs only the
labels. The others need the true rankings. Where rankings are what is learned, these are y, and
there is nothing to do. Where labels are, the rankings reach them as the metadata ``ranks_true``
(columns in the order of the sorted labels)::

    sklearn.set_config(enable_metadata_routing=True)
    scorer = kendall_tau_scorer().set_score_request(ranks_true=True)
    cross_validate(ranker, X, y, scoring=scorer, params={"ranks_true": ranks})

>>> kendall_distance([[1, 2, 3], [1, 3, 2]], [[3, 2, 1], [1, 2, 3]])
array([3, 1])
>>> kendall_tau([[1, 2, 3], [1, 3, 2]], [[3, 2, 1], [1, 3, 2]])
array([-1.,  1.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from duelrank._label_ranker import column_names, is_ranks, ranks_by_label
from duelrank._sklearn import MetadataRequester, check_sample_weight, predictor_inside
from duelrank.feedback import check_feedback
from duelrank.rankers import predict_ranks
from duelrank.rankings import check_k, check_ranks, codes_from_labels, is_full

__all__ = [
    "RankingScorer",
    "TopKScorer",
    "footrule_distance",
    "hamming_distance",
    "kendall_distance",
    "kendall_distance_scorer",
    "kendall_tau",
    "kendall_tau_scorer",
    "partial_kendall_tau",
    "spearman_distance",
    "top_k_loss",
    "top_k_scorer",
    "zero_one_distance",
]


def kendall_distance(ranks_true: ArrayLike, ranks_pred: ArrayLike) -> Any:
    """Count the label pairs that the two rankings order differently.

    Parameters
    ----------
    ranks_true, ranks_pred : array-like of shape (n, K) or (K,)
        Full rankings.

    Returns
    -------
    distance : ndarray of shape (n,), or int
        Integers from 0 to K(K−1)/2.
    """
    return _kendall_distance(*_check_both(ranks_true, ranks_pred))


def footrule_distance(ranks_true: ArrayLike, ranks_pred: ArrayLike) -> Any:
    """Sum the absolute differences of the ranks (Spearman's footrule).

    Parameters
    ----------
    ranks_true, ranks_pred : array-like of shape (n, K) or (K,)
        Full rankings.

    Returns
    -------
    distance : ndarray of shape (n,), or int
        Integers from 0 to ⌊K²/2⌋.
    """
    true, pred = _check_both(ranks_true, ranks_pred)
    return np.abs(true - pred).sum(axis=-1)


def spearman_distance(ranks_true: ArrayLike, ranks_pred: ArrayLike) -> Any:
    """Sum the squared differences of the ranks (Spearman's ρ distance).

    Parameters
    ----------
    ranks_true, ranks_pred : array-like of shape (n, K) or (K,)
        Full rankings.

    Returns
    -------
    distance : ndarray of shape (n,), or int
        Integers from 0 to K(K²−1)/3.
    """
    true, pred = _check_both(ranks_true, ranks_pred)
    return ((true - pred) ** 2).sum(axis=-1)


def hamming_distance(ranks_true: ArrayLike, ranks_pred: ArrayLike) -> Any:
    """Count the labels whose places differ.

    Parameters
    ----------
    ranks_true, ranks_pred : array-like of shape (n, K) or (K,)
        Full rankings.

    Returns
    -------
    distance : ndarray of shape (n,), or int
        Integers from 0 to K.
    """
    true, pred = _check_both(ranks_true, ranks_pred)
    return (true != pred).sum(axis=-1)


def zero_one_distance(ranks_true: ArrayLike, ranks_pred: ArrayLike) -> Any:
    """Return 1 where the two rankings differ and 0 where they are the same.

    Parameters
    ----------
    ranks_true, ranks_pred : array-like of shape (n, K) or (K,)
        Full rankings.

    Returns
    -------
    distance : ndarray of shape (n,), or int
        Zeros and ones.
    """
    true, pred = _check_both(ranks_true, ranks_pred)
    return (true != pred).any(axis=-1).astype(np.int64)


def kendall_tau(ranks_true: ArrayLike, ranks_pred: ArrayLike) -> Any:
    """Return Kendall's τ correlation of the two rankings.

    Parameters
    ----------
    ranks_true, ranks_pred : array-like of shape (n, K) or (K,)
        Full rankings, K ≥ 2.

    Returns
    -------
    tau : ndarray of shape (n,), or float
        From −1 (reversed) to 1 (equal), as ``scipy.stats.kendalltau`` of every row.
    """
    true, pred = _check_both(ranks_true, ranks_pred)
    n_classes = true.shape[-1]
    if n_classes < 2:
        raise ValueError(f"kendall_tau needs at least 2 labels, got {n_classes}.")
    return 1 - 4 * _kendall_distance(true, pred) / (n_classes * (n_classes - 1))


def partial_kendall_tau(
    ranks_true: ArrayLike, ranks_pred: ArrayLike, *, unplaced: str = "auto"
) -> NDArray[np.float64]:
    """Return Kendall's τ over the label pairs that the true rankings put in order.

    Parameters
    ----------
    ranks_true : array-like of shape (n, K)
        Rankings that may have ties and leave labels out (NaN), as `DuelRanker` learns from.
    ranks_pred : array-like of shape (n, K)
        Full rankings.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are left out; see `duelrank.feedback.check_feedback`.

    Returns
    -------
    tau : ndarray of shape (n,)
        Share of these pairs in the right order minus the share in the wrong one; NaN for a row
        that puts none in order.

    Examples
    --------
    >>> import numpy as np
    >>> partial_kendall_tau([[1, 2, np.nan], [1, np.nan, np.nan]], [[1, 2, 3], [2, 3, 1]])
    array([1., 0.])
    """
    _refuse_unsorted_names(ranks_true, ranks_pred)
    true = check_feedback(ranks_true, unplaced=unplaced, name="ranks_true").ranks
    pred = np.atleast_2d(check_ranks(ranks_pred, n_classes=true.shape[1], name="ranks_pred"))
    check_consistent_length(true, pred)
    return _told_tau(true, pred)


def top_k_loss(codes: ArrayLike, ranks: ArrayLike, k: int) -> Any:
    """Return 1 where the observed label is not among the first k.

    Parameters
    ----------
    codes : array-like of shape (n,), or int
        The observed label of every row as an integer from 0 to K−1.
    ranks : array-like of shape (n, K) or (K,)
        Full rankings.
    k : int
        From 1 to K.

    Returns
    -------
    loss : ndarray of shape (n,), or int
        Zeros and ones.
    """
    ranks = check_ranks(ranks)
    n_classes = ranks.shape[-1]
    labels = np.asarray(codes)
    if labels.shape != ranks.shape[:-1]:
        raise ValueError(
            f"codes must name one label per row of ranks: shape {ranks.shape[:-1]}, "
            f"got {labels.shape}."
        )
    if labels.dtype.kind not in "iu" or np.any((labels < 0) | (labels >= n_classes)):
        raise ValueError(f"codes must be integers from 0 to {n_classes - 1}, got {codes!r}.")
    check_k(k, n_classes)
    place = np.take_along_axis(ranks, labels[..., np.newaxis], axis=-1)[..., 0]
    return (place > k).astype(np.int64)


class RankingScorer(MetadataRequester):
    """Scorer that compares predicted with true rankings.

    Build one with `kendall_tau_scorer` or `kendall_distance_scorer`, or from any function
    ``(ranks_true, ranks_pred) → one number a row``.

    Parameters
    ----------
    measure : callable
        Function of (n, K) true and predicted ranks that returns one number a row.
    greater_is_better : bool, default=True
        Distances are smaller when better: their scores are negated.
    partial_measure : callable, default=None
        The measure for true rankings that have ties or leave labels out, in the form of
        `duelrank.feedback.Feedback`; NaN for rows that have none. By default such rankings are
        refused.
    """

    def __init__(
        self,
        measure: Callable[[Any, Any], Any],
        *,
        greater_is_better: bool = True,
        partial_measure: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        if not callable(measure):
            raise TypeError(f"measure must be a function of two rank arrays, got {measure!r}.")
        self.measure = measure
        self.greater_is_better = greater_is_better
        self.partial_measure = partial_measure

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        ranks_true: ArrayLike | None = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the weighted mean of the measure over the rows of X.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            Ranked by its ``decision_function`` or ``predict_proba``.
        X : array-like of shape (n, n_features)
            Query points.
        y : array-like of shape (n,) or (n, K)
            Labels, which play no part; or the true ranks, in place of `ranks_true`. Their columns
            are named by a dataframe, or else in the order of the ranker's fit.
        ranks_true : array-like of shape (n, K), default=None
            True ranks; columns follow ``estimator.classes_``, unless they are those of a
            dataframe and named by the labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        """
        name = "ranks_true"
        if ranks_true is None and is_ranks(y):
            ranks_true, name = y, "y"
        if ranks_true is None:
            raise ValueError(
                f"{self!r} needs the true rankings: request them with "
                "set_score_request(ranks_true=True) and pass params={'ranks_true': ranks}."
            )
        predicted = predict_ranks(estimator, X)
        ranker = predictor_inside(estimator)
        # What is learned from has its columns as in fit; metadata follow the sorted labels.
        columns = getattr(ranker, "rank_columns_", None) if name == "y" else None
        truth = ranks_by_label(ranks_true, estimator.classes_, columns, name)
        if self.partial_measure is not None and not is_full(truth):
            told = check_feedback(
                truth, unplaced=_unplaced(ranker), n_classes=predicted.shape[1], name=name
            ).ranks
            check_consistent_length(told, predicted)
            values = self.partial_measure(told, predicted)
        else:
            truth = check_ranks(truth, n_classes=predicted.shape[1], name=name)
            values = self.measure(truth, predicted)
        score = _average(values, sample_weight)
        return score if self.greater_is_better else -score

    # The body is never used: its signature tells metadata routing what may be requested.
    def score(self, X: Any, y: Any, ranks_true: Any = None, sample_weight: Any = None) -> None:
        """Declare the metadata that ``set_score_request`` knows."""

    def __repr__(self) -> str:
        name = getattr(self.measure, "__name__", repr(self.measure))
        negated = "" if self.greater_is_better else ", greater_is_better=False"
        return f"RankingScorer({name}{negated})"


class TopKScorer(MetadataRequester):
    """Scorer that returns the share of rows whose label is among the first k.

    Parameters
    ----------
    k : int
        From 1 to K.
    """

    def __init__(self, k: int) -> None:
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}.")
        self.k = k

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the weighted top-k accuracy.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            Ranked by its ``decision_function`` or ``predict_proba``.
        X : array-like of shape (n, n_features)
            Query points.
        y : array-like of shape (n,)
            Observed labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        """
        if is_ranks(y):
            raise ValueError(
                f"{self!r} measures labels, but y holds ranks; take kendall_tau_scorer(), or give "
                "it the first labels."
            )
        ranks = predict_ranks(estimator, X)
        check_consistent_length(ranks, y)
        codes = codes_from_labels(y, np.asarray(estimator.classes_), "y")
        return 1 - _average(top_k_loss(codes, ranks, self.k), sample_weight)

    # The body is never used: its signature tells metadata routing what may be requested.
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Declare the metadata that ``set_score_request`` knows."""

    def __repr__(self) -> str:
        return f"TopKScorer(k={self.k})"


def kendall_tau_scorer() -> RankingScorer:
    """Return a scorer for the mean Kendall τ to the true rankings, full or partial."""
    return RankingScorer(kendall_tau, partial_measure=_told_tau)


def kendall_distance_scorer() -> RankingScorer:
    """Return a scorer for the negated mean Kendall distance to the true rankings."""
    return RankingScorer(kendall_distance, greater_is_better=False)


def top_k_scorer(k: int) -> TopKScorer:
    """Return a scorer for the top-k accuracy."""
    return TopKScorer(k)


def _kendall_distance(true: NDArray[np.int64], pred: NDArray[np.int64]) -> Any:
    # Read along the true order, σ̂ should increase; every pair that does not is one discordance.
    # Labels lie along the first axis, so that each comparison runs over contiguous rows, and the
    # ranks take the smallest type that holds them, so that many fit in a register.
    n_classes = true.shape[-1]
    small = np.min_scalar_type(n_classes)
    along = np.take_along_axis(pred, np.argsort(true, axis=-1), axis=-1)
    along = np.ascontiguousarray(np.moveaxis(along, -1, 0), dtype=small)
    distance = np.zeros(true.shape[:-1], dtype=np.int64)
    for label in range(n_classes - 1):
        inversions = np.add.reduce(along[label] > along[label + 1 :], axis=0, dtype=small)
        distance += inversions
    return distance[()]


def _told_tau(true: NDArray[np.float64], pred: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return τ over the pairs whose order is told; ranks as in `Feedback`."""
    told, right = np.zeros(len(true)), np.zeros(len(true))
    for label in range(true.shape[1] - 1):
        gap = true[:, [label]] - true[:, label + 1 :]
        decided = (gap != 0) & ~np.isnan(gap)
        agree = (gap < 0) == (pred[:, [label]] < pred[:, label + 1 :])
        told += np.count_nonzero(decided, axis=1)
        right += np.count_nonzero(decided & agree, axis=1)
    return np.divide(2 * right - told, told, out=np.full(len(true), np.nan), where=told > 0)


def _refuse_unsorted_names(ranks_true: Any, ranks_pred: Any) -> None:
    """Raise for columns that are named in another order than that of predicted ranks."""
    names, others = column_names(ranks_true), column_names(ranks_pred)
    if names is None or others == names or names == sorted(names, key=str):
        return
    raise ValueError(
        f"ranks_true has columns in the order {names}, but predicted ranks have that of the sorted "
        "labels, ranker.classes_; compare ranks_true[ranker.classes_]."
    )


def _check_both(
    ranks_true: ArrayLike, ranks_pred: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    _refuse_unsorted_names(ranks_true, ranks_pred)
    true = check_ranks(ranks_true, name="ranks_true")
    pred = check_ranks(ranks_pred, n_classes=true.shape[-1], name="ranks_pred")
    if true.shape != pred.shape:
        raise ValueError(
            f"ranks_true and ranks_pred must have the same shape, got {true.shape} "
            f"and {pred.shape}."
        )
    return true, pred


def _unplaced(ranker: Any) -> str:
    """Tell what a ranker takes labels left out for."""
    # A gap among the rows it was fitted on is enough, whatever the rows at hand look like.
    if getattr(ranker, "unplaced_", None) == "unknown":
        return "unknown"
    unplaced: str = getattr(ranker, "unplaced", "auto")
    return unplaced


def _average(values: Any, sample_weight: Any) -> float:
    """Average what is known; NaN if nothing is."""
    weights = np.ones(len(values))
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, values)
    known = ~np.isnan(values)
    if not np.any(weights[known] > 0):
        return float("nan")
    return float(np.average(values[known], weights=weights[known]))
