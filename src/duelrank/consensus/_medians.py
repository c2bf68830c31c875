"""Medians of rankings, computed from the duels that labels win.

The public functions take rankings. Their kernels, `MEDIANS`, take ``won`` (g, K, K) and score the
labels; the descending order of the scores is the median. Of labels with equal scores the lower code
is ahead, so callers number the labels by an order drawn at random.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from duelrank.consensus._groups import Groups, check_groups, duels_won_by_group
from duelrank.rankings import order_from_scores, ranks_from_order, ranks_from_scores
from duelrank.tournaments import MAX_SUBSETS_SIZE, solve_feedback_arc_set

# Sums of the same weights in another order differ by rounding errors, so scores are rounded to a
# grid. The grid is binary: shares of few rankings lie on it, or at least not halfway between two of
# its points.
GRID = 2.0**33
# Majorities below this share of the weight are rounding errors of weights that cancel out.
NEGLIGIBLE = 1e-12


def borda(
    ranks: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    unplaced: str = "auto",
    random_state: Any = None,
) -> NDArray[np.int64]:
    """Rank labels by the share of duels that they win.

    The score of a label is a sum over all other labels: the share of rankings that place it ahead
    of the other one, among those that compare the two; one half if none does. For full rankings
    this is the order of the mean ranks (Borda's count). Labels that are missing at random cause no
    bias.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (g, n, K)
        Rankings, in one group or in g of them. Places from 1 to K, NaN for labels not placed; tied
        labels share a place. A row of NaN says nothing, so smaller groups may be filled up with it.
    weights : array-like of shape (n,) or (g, n), default=None
        Weights of the rankings, not negative; 1 by default.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed: behind all others, as in top-m lists, or anywhere.
        "auto" looks at the rankings of all groups that leave labels out: it is "behind" if none of
        them leaves a place vacant, and "unknown" if a quarter of them or more do. In between it is
        an error.
    random_state : int, RandomState instance or None, default=None
        Draws the order of the labels that decides ties.

    Returns
    -------
    ranks : ndarray of int, of shape (K,) or (g, K)
        The consensus: place of every label, 1 = best.

    Examples
    --------
    >>> import numpy as np
    >>> borda([[1, 2, 3], [1, 3, 2], [3, 1, 2]])
    array([1, 2, 3])
    >>> borda([[1, 3, np.nan], [np.nan, 1, 3], [1, np.nan, 3]])  # labels missing here and there
    array([1, 2, 3])
    """
    groups = check_groups(ranks, weights, unplaced)
    return _of_groups(groups, borda_scores, random_state)


def copeland(
    ranks: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    unplaced: str = "auto",
    random_state: Any = None,
) -> NDArray[np.int64]:
    """Rank labels by the number of labels that a majority places behind them.

    An even duel counts one half for both; equal numbers go by the score of `borda`. A label that
    wins all of its duels (Condorcet's winner) comes first.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (g, n, K)
        Rankings, in one group or in g of them. Places from 1 to K, NaN for labels not placed; tied
        labels share a place. A row of NaN says nothing, so smaller groups may be filled up with it.
    weights : array-like of shape (n,) or (g, n), default=None
        Weights of the rankings, not negative; 1 by default.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed: behind all others, as in top-m lists, or anywhere.
        "auto" looks at the rankings of all groups that leave labels out: it is "behind" if none of
        them leaves a place vacant, and "unknown" if a quarter of them or more do. In between it is
        an error.
    random_state : int, RandomState instance or None, default=None
        Draws the order of the labels that decides ties.

    Returns
    -------
    ranks : ndarray of int, of shape (K,) or (g, K)
        The consensus: place of every label, 1 = best.

    Examples
    --------
    The majority prefers label 0 to any other, which its mean rank does not show:

    >>> ranks = [[1, 2, 3, 4], [1, 2, 3, 4], [4, 1, 2, 3]]
    >>> copeland(ranks)
    array([1, 2, 3, 4])
    >>> borda(ranks)
    array([2, 1, 3, 4])
    """
    groups = check_groups(ranks, weights, unplaced)
    return _of_groups(groups, majority_scores, random_state)


def kemeny(
    ranks: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    unplaced: str = "auto",
    random_state: Any = None,
) -> NDArray[np.int64]:
    """Find the ranking that contradicts the fewest duels.

    For full rankings it has the smallest sum of Kendall distances to them. It is exact as far as
    `duelrank.tournaments.feedback_arc_set` is: always up to 16 labels, and for more of them unless
    the majorities go round in a large cycle; then there is a warning. Of rankings that contradict
    equally few duels, the lexicographically first one is returned, with the labels numbered in the
    order of `borda`.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (g, n, K)
        Rankings, in one group or in g of them. Places from 1 to K, NaN for labels not placed; tied
        labels share a place. A row of NaN says nothing, so smaller groups may be filled up with it.
    weights : array-like of shape (n,) or (g, n), default=None
        Weights of the rankings, not negative; 1 by default.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed: behind all others, as in top-m lists, or anywhere.
        "auto" looks at the rankings of all groups that leave labels out: it is "behind" if none of
        them leaves a place vacant, and "unknown" if a quarter of them or more do. In between it is
        an error.
    random_state : int, RandomState instance or None, default=None
        Draws the order of the labels that decides ties.

    Returns
    -------
    ranks : ndarray of int, of shape (K,) or (g, K)
        The consensus: place of every label, 1 = best.

    Examples
    --------
    The majorities go round in a circle: 0 before 1 (4 to 3), 1 before 2 (5 to 2), 2 before 0 (5 to
    2). The closest ranking gives up the weakest of them:

    >>> kemeny([[1, 2, 3], [2, 3, 1], [3, 1, 2]], weights=[2, 2, 3])
    array([3, 1, 2])
    """
    groups = check_groups(ranks, weights, unplaced)
    return _of_groups(groups, _kemeny_scores_or_warn, random_state)


def borda_scores(won: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the shares of duels won; kernel of `borda`.

    Parameters
    ----------
    won : ndarray of float, of shape (g, K, K)
        ``won[i, a, b]`` is the weight of the rankings of group i that place a ahead of b. The
        diagonal is ignored.

    Returns
    -------
    scores : ndarray of float, of shape (g, K)
        From 0 to K−1; equal where they differ by rounding.
    """
    fought = won + np.swapaxes(won, 1, 2)
    share = np.divide(won, fought, out=np.full(won.shape, 0.5), where=fought > 0)
    diagonal = np.arange(won.shape[-1])
    share[:, diagonal, diagonal] = 0
    return np.rint(share.sum(axis=2) * GRID) / GRID


def majority_scores(won: NDArray[np.float64]) -> NDArray[np.float64]:
    """Count the duels that a majority decides; kernel of `copeland`.

    Parameters
    ----------
    won : ndarray of float, of shape (g, K, K)
        As in `borda_scores`.

    Returns
    -------
    scores : ndarray of float, of shape (g, K)
        Duels won, one half for even ones, and a term below one half that orders ties.
    """
    n_classes = won.shape[-1]
    # The diagonal is even: one half too many for every label.
    duels = (1 + np.sign(_majorities(won))).sum(axis=2) / 2 - 0.5
    return duels + borda_scores(won) / (2 * n_classes)


def kemeny_scores(won: NDArray[np.float64]) -> NDArray[np.float64]:
    """Score labels so that their order contradicts the fewest duels; kernel of `kemeny`.

    Parameters
    ----------
    won : ndarray of float, of shape (g, K, K)
        As in `borda_scores`.

    Returns
    -------
    scores : ndarray of float, of shape (g, K)
        Minus the place of every label: no two are equal.
    """
    return _kemeny(won)[0]


Median = Callable[[NDArray[np.float64]], NDArray[np.float64]]

MEDIANS: dict[str, Median] = {
    "borda": borda_scores,
    "copeland": majority_scores,
    "kemeny": kemeny_scores,
}


def median_ranks(
    ranks: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    median: Median,
    label_order: NDArray[np.intp],
) -> NDArray[np.int64]:
    """Rank by the scores of a median, ties by an order of the labels.

    Parameters
    ----------
    ranks : ndarray of float, of shape (g, n, K)
        As in `duelrank.feedback.Feedback`.
    weights : ndarray of float, of shape (g, n), or None
        Weights of the rankings; None if all are 1.
    median : callable
        One of `MEDIANS`.
    label_order : ndarray of int, of shape (K,)
        Codes; of two labels with equal scores the first one here is ranked first.

    Returns
    -------
    ranks : ndarray of int, of shape (g, K)
        Place of every label, 1 = best.
    """
    scores = median(duels_won_by_group(ranks[:, :, label_order], weights))
    in_drawn_order: NDArray[np.int64] = ranks_from_scores(scores)
    return in_drawn_order[:, np.argsort(label_order)]


def _of_groups(groups: Groups, median: Median, random_state: Any) -> NDArray[np.int64]:
    label_order = check_random_state(random_state).permutation(groups.ranks.shape[-1])
    ranks = median_ranks(groups.ranks, groups.weights, median, label_order)
    return ranks[0] if groups.alone else ranks


def _majorities(won: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much duels are won, 0 where that is only a rounding error."""
    lost = np.swapaxes(won, 1, 2)
    gain = won - lost
    return np.where(np.abs(gain) <= NEGLIGIBLE * (won + lost), 0.0, gain)


def _kemeny(won: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the scores, and which orders are proved to be optimal."""
    start = order_from_scores(borda_scores(won))
    # Every order contradicts at least the minority of every duel: only the rest counts.
    majorities = np.maximum(_majorities(won), 0)
    rows = np.arange(len(won))[:, np.newaxis, np.newaxis]
    in_order = majorities[rows, start[:, :, np.newaxis], start[:, np.newaxis, :]]
    inner, exact = solve_feedback_arc_set(in_order)
    ranks = ranks_from_order(np.take_along_axis(start, inner, axis=1))
    return -ranks.astype(np.float64), exact


def _kemeny_scores_or_warn(won: NDArray[np.float64]) -> NDArray[np.float64]:
    scores, exact = _kemeny(won)
    if not np.all(exact):
        warnings.warn(
            f"{np.count_nonzero(~exact)} of {len(exact)} Kemeny rankings are not proved to be "
            "optimal, as majorities go round in cycles of many labels; up to "
            f"{MAX_SUBSETS_SIZE} are always solved.",
            stacklevel=5,
        )
    return scores
