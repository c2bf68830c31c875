"""Ranking medians of groups of rows, as scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from duelrank.consensus import borda_scores, kemeny_ranks, majority_scores

MEDIANS = ("borda", "copeland", "kemeny")


def won_in_leaves(
    ranks: NDArray[np.float64],
    leaves: NDArray[np.intp],
    n_leaves: int,
    weights: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Sum for every leaf how often a label is ahead of another one, (n_leaves, K, K).

    As `duelrank.consensus.duels_won_by_group` does for groups of equal size.
    """
    share = np.ones(len(ranks)) if weights is None else weights
    rows = np.arange(len(ranks))
    sums = csr_array((share, (leaves, rows)), shape=(n_leaves, len(ranks)))
    return np.stack([sums @ (ranks[:, [a]] < ranks) for a in range(ranks.shape[1])], axis=1)


def median_scores(won: NDArray[np.float64], consensus: str) -> NDArray[np.float64]:
    """Score the labels of every group, (g, K): their descending order is the median.

    Labels that nothing tells apart score the same, except with "kemeny", where the lower code is
    ahead.
    """
    if consensus == "borda":
        return borda_scores(won)
    if consensus == "copeland":
        return majority_scores(won)
    return -kemeny_ranks(won, np.arange(won.shape[1])).astype(np.float64)
