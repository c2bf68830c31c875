"""Rivals: the pairs of labels that the scores do not tell apart, and that get a correction.

How *unsure* the scores are of a duel is the sum, over the rows that tell its outcome, of the
probability that they give to the other outcome. The rivals of a label are the labels of its
unsurest duels. A duel is corrected if either of its labels is a rival of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from duelrank._batches import batches
from duelrank._pairs import duel_numbers, n_pairs
from duelrank.duels.anchored._luce import Choices, OrderedChoices, SetChoices

Floats = NDArray[Any]
NUMBERS_AT_ONCE = 2**20


def choose_rivals(choices: Choices, scores: Floats, n_classes: int, n_rivals: int | None) -> Any:
    """Return the numbers of the duels to be corrected, increasing.

    Parameters
    ----------
    choices : Choices
        What rows say.
    scores : ndarray of shape (n, width)
        Their scores, as the choices gather them.
    n_classes : int
        Number of labels K.
    n_rivals : int or None
        Rivals of a label; None for all others.
    """
    if n_rivals is None or n_rivals >= n_classes - 1:
        return np.arange(n_pairs(n_classes))
    if n_rivals == 0:
        return np.zeros(0, dtype=np.intp)
    unsure = sums_of_duels(choices, scores, n_classes, expit)
    unsure += unsure.T
    np.fill_diagonal(unsure, -1)
    rivals = np.argpartition(-unsure, n_rivals - 1, axis=1)[:, :n_rivals]
    label = np.repeat(np.arange(n_classes), n_rivals)
    rival = rivals.ravel()
    told = unsure[label, rival] > 0  # by any row
    first, second = np.minimum(label, rival)[told], np.maximum(label, rival)[told]
    return np.unique(duel_numbers(first, second, n_classes))


def sums_of_duels(
    choices: Choices, scores: Floats, n_classes: int, measure: Callable[[Floats], Floats]
) -> Floats:
    """Sum something over the rows that decide a duel, (K, K), the winner first.

    Parameters
    ----------
    choices : Choices
        What rows say.
    scores : ndarray of shape (n, width)
        Their scores, as the choices gather them.
    n_classes : int
        Number of labels K.
    measure : callable
        Takes what the score of the loser is above that of the winner, and returns what is summed.
    """
    sums = np.zeros((n_classes, n_classes))
    for rows in batches(choices.n_rows, NUMBERS_AT_ONCE // choices.width):
        if isinstance(choices, SetChoices):
            _add_sets(sums, choices, rows, scores[rows], measure)
        else:
            _add_orders(sums, choices, rows, scores[rows], measure)
    return sums


def _add_sets(
    sums: Floats,
    choices: SetChoices,
    rows: slice,
    scores: Floats,
    measure: Callable[[Floats], Floats],
) -> None:
    row, label, weight = choices.chosen(rows)
    values = measure(scores[row] - scores[row, label][:, np.newaxis])
    best = np.zeros(scores.shape, dtype=bool)
    best[row, label] = True
    values[best[row]] = 0  # labels that are chosen as well say nothing
    shape = len(sums), len(row)
    by_label = sparse.csr_array((weight, (label, np.arange(len(row)))), shape=shape)
    sums += by_label @ values


def _add_orders(
    sums: Floats,
    choices: OrderedChoices,
    rows: slice,
    scores: Floats,
    measure: Callable[[Floats], Floats],
) -> None:
    n_classes, labels = len(sums), choices.labels[rows]
    weight = choices.weight(rows) * np.ones((len(scores), 1))
    number = np.arange(choices.width)
    for place in range(1, choices.width):
        start = choices.start[rows, place]
        behind = choices.placed[rows] & (number < start[:, np.newaxis])
        behind &= choices.is_chosen[rows, place][:, np.newaxis]
        row, other = np.nonzero(behind)
        values = weight[row, 0] * measure(scores[row, other] - scores[row, place])
        pair = labels[row, place] * n_classes + labels[row, other]
        sums += np.bincount(pair, values, minlength=n_classes**2).reshape(n_classes, n_classes)
