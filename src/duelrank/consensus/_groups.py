"""Groups of rankings: their checks, and how often a label is ahead of another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from duelrank._batches import batches
from duelrank.feedback import check_feedback

# Numbers in a batch: few enough for several such arrays to stay in a processor's cache.
BATCH_SIZE = 2**17


class Groups(NamedTuple):
    """Rankings of g groups.

    Attributes
    ----------
    ranks : ndarray of float, of shape (g, n, K)
        As in `duelrank.feedback.Feedback`.
    weights : ndarray of float, of shape (g, n), or None
        Weights of the rankings; None if all are 1.
    alone : bool
        Whether the ranks were given as (n, K): one group, and one result without an axis for it.
    """

    ranks: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    alone: bool


def check_groups(ranks: ArrayLike, weights: ArrayLike | None, unplaced: str) -> Groups:
    """Check rankings in one or many groups, and settle what their NaN mean.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (g, n, K)
        As in `duelrank.feedback.check_feedback`.
    weights : array-like of shape (n,) or (g, n), or None
        Weights of the rankings, not negative; (n,) for all groups.
    unplaced : {"auto", "behind", "unknown"}
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`; "auto" looks
        at the rankings of all groups together.

    Returns
    -------
    groups : Groups
        The ranks in a form in which NaN says nothing.
    """
    try:
        array = np.asarray(ranks)
    except ValueError:
        raise ValueError("ranks must have rows, and groups of rows, of equal length.") from None
    if array.ndim not in (2, 3):
        raise ValueError(
            "ranks must have shape (n, K), one ranking per row, or (g, n, K) for g groups; "
            f"got {array.shape}."
        )
    n_groups, n_rows = (1, len(array)) if array.ndim == 2 else array.shape[:2]
    n_classes = array.shape[-1]
    name = "ranks" if array.ndim == 2 else "ranks, its groups one below the other,"
    places = check_feedback(
        array.reshape(n_groups * n_rows, n_classes), unplaced=unplaced, name=name
    ).ranks
    shares = None if weights is None else _check_weights(weights, array.shape[:-1])
    return Groups(
        places.reshape(n_groups, n_rows, n_classes),
        None if shares is None else np.broadcast_to(shares, (n_groups, n_rows)),
        array.ndim == 2,
    )


def duels_won_by_group(
    ranks: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Sum how often every label is ahead of every other one, group by group.

    Parameters
    ----------
    ranks : ndarray of float, of shape (g, n, K)
        As in `duelrank.feedback.Feedback`.
    weights : ndarray of float, of shape (g, n), default=None
        Weights of the rankings; 1 by default.

    Returns
    -------
    won : ndarray of float, of shape (g, K, K)
        ``won[i, a, b]`` is the weight of the rankings of group i that place a ahead of b.
    """
    n_groups, n_rows, n_classes = ranks.shape
    shares = np.broadcast_to(np.ones(n_rows), (n_groups, n_rows)) if weights is None else weights
    won = np.empty((n_groups, n_classes, n_classes))
    for batch in batches_of_groups(ranks.shape):
        # Labels are along the first axis, so that comparisons run over contiguous rows. Places and
        # half places are exact in single precision, and twice as many of them fit in a register.
        places = np.ascontiguousarray(np.moveaxis(ranks[batch], 2, 0), dtype=np.float32)
        for label, place in enumerate(places):
            won[batch, label] = np.einsum("kgn,gn->gk", place < places, shares[batch])
    return won


def duels_won_by_cell(
    ranks: NDArray[np.float64],
    cells: NDArray[np.intp],
    n_cells: int,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Sum the same for groups of different sizes, given the group of every ranking.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `duelrank.feedback.Feedback`.
    cells : ndarray of int, of shape (n,)
        Which group a ranking is in, from 0 on.
    n_cells : int
        Number of groups g.
    weights : ndarray of float, of shape (n,), default=None
        Weights of the rankings; 1 by default.

    Returns
    -------
    won : ndarray of float, of shape (g, K, K)
        As by `duels_won_by_group`.
    """
    shares = np.ones(len(ranks)) if weights is None else weights
    sums = csr_array((shares, (cells, np.arange(len(ranks)))), shape=(n_cells, len(ranks)))
    return np.stack([sums @ (place[:, np.newaxis] < ranks) for place in ranks.T], axis=1)


def batches_of_groups(shape: tuple[int, ...]) -> Iterator[slice]:
    """Cut g groups of n rankings of K labels into slices that are small enough for the cache."""
    n_groups, n_rows, n_classes = shape
    return batches(n_groups, BATCH_SIZE // max(1, n_rows * n_classes))


def _check_weights(weights: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the weights of rankings of this shape, (n,) or (g, n), as floats."""
    try:
        array = np.asarray(weights).astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"weights must be numbers of shape {shape}, got {weights!r}.") from None
    if array.shape not in (shape, shape[-1:]):
        per_group = f", or {shape[-1:]} for all groups alike" if len(shape) == 2 else ""
        raise ValueError(
            f"weights must hold one number per ranking: shape {shape}{per_group}; "
            f"got {array.shape}."
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if np.any(wrong):
        raise ValueError(f"weights must be finite and not negative, got {array[wrong][0]}.")
    return array
