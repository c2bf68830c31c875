"""Rivals: the pairs of labels that the scores do not tell apart, and that get a correction.

How *unsure* the scores are of a duel is the sum, over the rows that tell its outcome, of the
probability that they give to the other outcome. The rivals of a label are the labels of its
unsurest duels. A duel is corrected if either of its labels is a rival of the other.
"""

from __future__ import annotations

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
    unsure = unsureness(choices, scores, n_classes)
    unsure += unsure.T
    np.fill_diagonal(unsure, -1)
    rivals = np.argpartition(-unsure, n_rivals - 1, axis=1)[:, :n_rivals]
    label = np.repeat(np.arange(n_classes), n_rivals)
    rival = rivals.ravel()
    told = unsure[label, rival] > 0  # by any row
    first, second = np.minimum(label, rival)[told], np.maximum(label, rival)[told]
    return np.unique(duel_numbers(first, second, n_classes))


def unsureness(choices: Choices, scores: Floats, n_classes: int) -> Floats:
    """Return how unsure the scores are of duels that rows decide, (K, K), the winner first."""
    unsure = np.zeros((n_classes, n_classes))
    for rows in batches(choices.n_rows, NUMBERS_AT_ONCE // choices.width):
        if isinstance(choices, SetChoices):
            _add_sets(unsure, choices, rows, scores[rows])
        else:
            _add_orders(unsure, choices, rows, scores[rows])
    return unsure


def _add_sets(unsure: Floats, choices: SetChoices, rows: slice, scores: Floats) -> None:
    row, label, weight = choices.chosen(rows)
    wrong = expit(scores[row] - scores[row, label][:, np.newaxis])
    if choices.one_each:
        wrong[row, label] = 0
    else:  # labels that are chosen as well say nothing
        best = np.zeros(scores.shape, dtype=bool)
        best[row, label] = True
        wrong[best[row]] = 0
    shape = len(unsure), len(row)
    by_label = sparse.csr_array((weight, (label, np.arange(len(row)))), shape=shape)
    unsure += by_label @ wrong


def _add_orders(unsure: Floats, choices: OrderedChoices, rows: slice, scores: Floats) -> None:
    n_classes, labels = len(unsure), choices.labels[rows]
    weight = choices.weight(rows) * np.ones((len(scores), 1))
    number = np.arange(choices.width)
    for place in range(1, choices.width):
        start = choices.start[rows, place]
        behind = choices.placed[rows] & (number < start[:, np.newaxis])
        behind &= choices.chosen[rows, place][:, np.newaxis]
        row, other = np.nonzero(behind)
        wrong = weight[row, 0] * expit(scores[row, other] - scores[row, place])
        pair = labels[row, place] * n_classes + labels[row, other]
        unsure += np.bincount(pair, wrong, minlength=n_classes**2).reshape(n_classes, n_classes)
