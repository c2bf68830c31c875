"""Embeddings: rankings as vectors whose squared distances are distances of rankings.

- *Signs* of all duels: the squared distance is four times Kendall's.
- *Permutation matrices*, a row per label and a column per place: twice Hamming's.
- *Lehmer codes*: coordinate a counts the labels b < a that are placed behind a. Every vector of
  integers with coordinate a between 0 and a is the code of one ranking.

Feedback that leaves something open becomes an average. For matrices and codes it is the one over
all full rankings that agree with the row, each as likely as any other: labels that are tied share
their places evenly, and labels whose place is unknown are inserted anywhere. A sign is 0 where the
row says nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import comb


def expected_places(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the average place of every label, from 1 to K.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.

    Returns
    -------
    places : ndarray of float, of shape (n, K)
        NaN for labels without a place. Of m placed labels among K, the one at place j is at
        j (K + 1) / (m + 1) on average.
    """
    spans = _spans(ranks)
    middle = (spans.first + spans.last) / 2
    places: NDArray[np.float64] = middle * (ranks.shape[1] + 1) / (spans.n_placed + 1)
    return np.where(np.isnan(ranks), np.nan, places)


def permutation_matrices(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of every place for every label.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.

    Returns
    -------
    matrices : ndarray of float, of shape (n, K, K)
        Entry [i, a, p] is the probability that label a is at place p + 1; a permutation matrix for
        a full ranking, doubly stochastic otherwise.
    """
    n_classes = ranks.shape[1]
    spans = _spans(ranks)
    # up_to[m, j, p]: probability that one of the first j of m placed labels is at place p + 1.
    m, j, p = np.ogrid[: n_classes + 1, : n_classes + 1, :n_classes]
    ways = comb(p, j - 1) * comb(n_classes - 1 - p, m - j)
    up_to = np.cumsum(np.where((j >= 1) & (j <= m), ways / comb(n_classes, m), 0), axis=1)
    among = up_to[spans.n_placed, spans.last] - up_to[spans.n_placed, spans.first - 1]
    shared = among / (spans.last - spans.first + 1)[:, :, np.newaxis]
    return np.where(np.isnan(ranks)[:, :, np.newaxis], 1 / n_classes, shared)


def lehmer_codes(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Count for every label those with a lower code that are placed behind it.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.

    Returns
    -------
    lehmer : ndarray of float, of shape (n, K)
        Coordinate a is between 0 and a; whole for a full ranking.
    """
    # An unknown label comes before a placed one with probability place / (K + 1), where place is
    # the expected place of the placed one.
    depth = np.nan_to_num(expected_places(ranks) / (ranks.shape[1] + 1), nan=0.5)
    unknown = np.isnan(ranks)
    lehmer = np.zeros(ranks.shape)
    for a in range(1, ranks.shape[1]):
        own, others = ranks[:, [a]], ranks[:, :a]
        behind = (1.0 + (others > own) - (others < own)) / 2
        either_unknown = unknown[:, [a]] | unknown[:, :a]
        chance = 0.5 + depth[:, :a] - depth[:, [a]]
        lehmer[:, a] = np.where(either_unknown, chance, behind).sum(axis=1)
    return lehmer


def ranks_from_matrices(matrices: NDArray[np.float64]) -> NDArray[np.int64]:
    """Assign every label a place of its own, for the largest sum of entries.

    Parameters
    ----------
    matrices : ndarray of float, of shape (n, K, K)
        A row per label and a column per place.

    Returns
    -------
    ranks : ndarray of int, of shape (n, K)
        The permutation matrices closest to these ones.
    """
    places = np.argmax(matrices, axis=2)
    # Where no two labels have the same best place, every label gets its best one.
    in_order = np.sort(places, axis=1)
    for i in np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=1)):
        places[i] = linear_sum_assignment(matrices[i], maximize=True)[1]
    return places + 1


def ranks_from_lehmer_codes(lehmer: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to Lehmer codes of rankings, and insert one label after the other where these say.

    Parameters
    ----------
    lehmer : ndarray of float, of shape (n, K)
        Any numbers.

    Returns
    -------
    ranks : ndarray of int, of shape (n, K)
        The rankings whose Lehmer codes are closest.
    """
    highest = np.arange(lehmer.shape[1])
    n_behind = np.clip(np.rint(lehmer), 0, highest).astype(np.int64)
    ranks = np.empty(lehmer.shape, dtype=np.int64)
    for a in highest:
        ranks[:, a] = a + 1 - n_behind[:, a]
        ranks[:, :a] += ranks[:, :a] >= ranks[:, [a]]
    return ranks


class _Spans(NamedTuple):
    """The places that a label shares with those tied, counted among the placed labels of a row."""

    first: NDArray[np.int64]  # (n, K), 1 for labels without a place
    last: NDArray[np.int64]
    n_placed: NDArray[np.int64]  # (n, 1)


def _spans(ranks: NDArray[np.float64]) -> _Spans:
    ahead = np.stack([(ranks < column[:, np.newaxis]).sum(axis=1) for column in ranks.T], axis=1)
    same = np.stack([(ranks == column[:, np.newaxis]).sum(axis=1) for column in ranks.T], axis=1)
    n_placed = np.count_nonzero(~np.isnan(ranks), axis=1, keepdims=True)
    return _Spans(ahead + 1, ahead + np.maximum(same, 1), n_placed)
