"""Wins of labels, from scores and the corrections of some duels.

Duels without a correction are won by the higher score. They are never looked at one by one: a label
wins as many of them as there are labels with lower scores. A correction that turns a duel round
takes a win from one label and gives it to another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from duelrank._pairs import labels_of_duels
from duelrank.duels.logistic._tally import ties_among

Floats = NDArray[Any]


class Rivalries(NamedTuple):
    """The corrected duels, by the labels that fight them.

    Attributes
    ----------
    first, second : ndarrays of int, of shape (R,)
        Their labels.
    sides : CSR array of shape (K, R)
        1 for the second label of every duel, −1 for the first one.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    sides: sparse.csr_array

    @classmethod
    def of(cls, duels: NDArray[np.intp], n_classes: int) -> Rivalries:
        """Return those of duels by their numbers."""
        first, second = labels_of_duels(duels, n_classes)
        entries = np.tile([-1.0, 1.0], len(duels))
        ends = 2 * np.arange(len(duels) + 1)
        columns = np.stack([first, second], axis=1).ravel()
        sides = sparse.csr_array((entries, columns, ends), shape=(len(duels), n_classes))
        return cls(first, second, sparse.csr_array(sides.T))


def count_wins(
    scores: Floats,
    corrections: Floats,
    rivalries: Rivalries,
    label_order: NDArray[np.intp],
    expected_of: str,
    first_k: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Count the duels that labels win, and those that they can expect to win.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Scores of the labels.
    corrections : ndarray of shape (n, R)
        Corrections of margins.
    rivalries : Rivalries
        The corrected duels.
    label_order : ndarray of int, of shape (K,)
        Codes, favoured label first: it wins a duel with margin 0.
    expected_of : {"all", "tied", "none"}
        Which labels' expected wins are wanted; others get their wins instead.
    first_k : int, default=None
        How many places matter, for "tied": labels that tie behind these are left as they are.

    Returns
    -------
    wins : ndarray of int, of shape (n, K)
        Number of duels won.
    expected : ndarray of float, of shape (n, K)
        Sum of the probabilities to win.
    """
    n, n_classes = scores.shape
    favoured = np.argsort(label_order)
    order = label_order[np.argsort(-scores[:, label_order], axis=1, kind="stable")]
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(n_classes), order.shape), axis=1)
    wins = (n_classes - 1 - place).astype(np.int64)
    first, second = rivalries.first, rivalries.second
    margins = np.take(scores, second, axis=1)
    margins -= np.take(scores, first, axis=1)
    corrected = margins + corrections
    second_is_favoured = favoured[second] < favoured[first]
    won_before = (margins > 0) | ((margins == 0) & second_is_favoured)
    won = (corrected > 0) | ((corrected == 0) & second_is_favoured)
    turned = won.astype(np.int8) - won_before
    wins += (rivalries.sides @ turned.T).T.astype(np.int64)
    expected = wins.astype(np.float64)
    if expected_of == "none" or n == 0:
        return wins, expected
    wanted = np.ones(wins.shape, dtype=bool)
    if expected_of == "tied":
        wanted = ties_among(wins, first_k)
    rows = np.flatnonzero(wanted.any(axis=1))
    row, label = np.nonzero(wanted)
    gain = expit(corrected[rows].astype(np.float64)) - expit(margins[rows].astype(np.float64))
    by_corrections = np.zeros((n, n_classes))
    by_corrections[rows] = (rivalries.sides @ gain.T).T
    expected[row, label] = by_corrections[row, label] + _expected_by_scores(scores, row, label)
    return wins, expected


def _expected_by_scores(
    scores: Floats, row: NDArray[np.intp], label: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return how many duels some labels of some rows can expect to win by their scores alone."""
    exact = scores.astype(np.float64)
    sums = np.empty(len(row))
    at_once = max(1, 2**20 // scores.shape[1])
    for start in range(0, len(row), at_once):
        part = slice(start, start + at_once)
        own = exact[row[part], label[part]][:, np.newaxis]
        sums[part] = expit(own - exact[row[part]]).sum(axis=1)
    return sums - 0.5  # without the duel of a label with itself
