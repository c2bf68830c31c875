"""How wrong a predicted ranking is: distances and a correlation, functions of rankings alone.

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

`duelrank.scoring` makes scikit-learn scorers of them.

>>> kendall_distance([[1, 2, 3], [1, 3, 2]], [[3, 2, 1], [1, 2, 3]])
array([3, 1])
>>> kendall_tau([[1, 2, 3], [1, 3, 2]], [[3, 2, 1], [1, 3, 2]])
array([-1.,  1.])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from duelrank._pairs import n_pairs
from duelrank._rank_columns import column_names
from duelrank.feedback import check_feedback
from duelrank.rankings import check_codes, check_k, check_ranks

__all__ = [
    "footrule_distance",
    "hamming_distance",
    "kendall_distance",
    "kendall_tau",
    "partial_kendall_tau",
    "spearman_distance",
    "top_k_loss",
    "zero_one_distance",
]

# Scorers were here once, and old imports go on working.
MOVED_TO_SCORING = (
    "RankingScorer",
    "TopKScorer",
    "kendall_distance_scorer",
    "kendall_tau_scorer",
    "top_k_scorer",
)


def __dir__() -> list[str]:
    return sorted({*globals(), *MOVED_TO_SCORING})


def __getattr__(name: str) -> Any:
    if name in MOVED_TO_SCORING:
        from duelrank import scoring

        return getattr(scoring, name)
    raise AttributeError(f"module 'duelrank.losses' has no attribute {name!r}")


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
    return 1 - 2 * _kendall_distance(true, pred) / n_pairs(n_classes)


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
    return kendall_tau_of_known_pairs(true, pred)


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
    labels = check_codes(codes, n_classes)
    check_k(k, n_classes)
    place = np.take_along_axis(ranks, labels[..., np.newaxis], axis=-1)[..., 0]
    return (place > k).astype(np.int64)


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


def kendall_tau_of_known_pairs(
    true: NDArray[np.float64], pred: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return τ over the pairs whose order is told; ranks as in `Feedback`."""
    told, right = count_known_pairs(true, pred)
    return np.divide(2 * right - told, told, out=np.full(len(true), np.nan), where=told > 0)


def count_known_pairs(
    true: NDArray[np.float64], pred: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count the pairs whose order is told, and those of them that are right; rows by row."""
    told, right = np.zeros(len(true)), np.zeros(len(true))
    for label in range(true.shape[1] - 1):
        gap = true[:, [label]] - true[:, label + 1 :]
        decided = (gap != 0) & ~np.isnan(gap)
        agree = (gap < 0) == (pred[:, [label]] < pred[:, label + 1 :])
        told += np.count_nonzero(decided, axis=1)
        right += np.count_nonzero(decided & agree, axis=1)
    return told, right


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
