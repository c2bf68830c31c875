"""Which rows go together: groups of rows, and their sides in the duels that they take part in.

The rows of one label win all duels of that label: they are a group with one side in each of K−1
duels. A row with a ranking is grouped in one of two ways, whichever is cheaper:

- once under every label that it places ahead of others, in the K−1 duels of that label. So a top-m
  list is in m groups; it says nothing in the few duels that the label loses.
- with others in all K(K−1)/2 duels, where each row has its own sides.

Groups are divided further by *pattern*, the folds that rows take part in.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank.duels._sides import split_by
from duelrank.duels.logistic._batch import Floats
from duelrank.feedback import outcomes

# Rows that take part in all duels are cut into chunks of so many margins, which threads share.
CHUNK_SIZE, MOST_CHUNKS = 2**16, 16


class Group(NamedTuple):
    """Rows that take part in the same problems.

    Attributes
    ----------
    rows : ndarray of int
        The rows.
    label : int or None
        The code of the label whose duels they are in and win, or None for all duels.
    pattern : int
        The folds they take part in, by the number of the pattern.
    """

    rows: NDArray[np.intp]
    label: int | None
    pattern: int


class Sides(NamedTuple):
    """The duels that a group takes part in, (q,), and on which side.

    Attributes
    ----------
    duels : ndarray of int, of shape (q,)
        Numbers inside the set of duels asked for.
    side : ndarray of shape (q,)
        1 for the second label's side, −1 for the first one's; 1 where rows have their own sides.
    row_sides : ndarray of float32, of shape (q, m), or None
        Sides of every row: 1, −1, or 0 where it says nothing. None if all are on the same side.
    """

    duels: NDArray[np.intp]
    side: Floats
    row_sides: Floats | None


class GroupedRows:
    """Rows with their feedback, in groups.

    Parameters
    ----------
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks in which equal ones and NaN say nothing.
    n_classes : int
        Number of labels K.
    pattern : ndarray of int, of shape (n,), default=None
        Pattern of every row; by default all have the same.

    Attributes
    ----------
    groups : list of Group
        All groups that have rows, by label and pattern.
    rows_of_duels : ndarray of int, of shape (P,)
        Number of rows in the groups that take part in a duel.
    """

    def __init__(
        self,
        feedback: NDArray[Any],
        n_classes: int,
        pattern: NDArray[np.intp] | None = None,
    ) -> None:
        self.feedback = feedback
        self.n_classes = n_classes
        self.pairs = first, second = pairs(n_classes)
        if feedback.ndim == 1:
            rows_of, everywhere = split_by(feedback, n_classes), np.arange(0)
        else:
            rows_of, everywhere = _by_winner(feedback)
        counts = np.array([len(rows) for rows in rows_of])
        self.rows_of_duels = counts[first] + counts[second] + len(everywhere)
        pattern = np.zeros(len(feedback), dtype=np.intp) if pattern is None else pattern
        n_patterns = int(pattern.max(initial=0)) + 1
        n_chunks = min(MOST_CHUNKS, max(1, len(everywhere) * len(first) // CHUNK_SIZE))
        self.groups = [
            Group(part, label, number)
            for label, rows in [*enumerate(rows_of), (None, everywhere)]
            for number, places in enumerate(split_by(pattern[rows], n_patterns))
            for part in np.array_split(rows[places], n_chunks if label is None else 1)
            if len(part)
        ]

    def with_groups(self, groups: list[Group]) -> GroupedRows:
        """Return the same rows in other groups."""
        other = copy(self)
        other.groups = groups
        return other

    def sides(self, group: Group, duels: NDArray[np.intp]) -> Sides:
        """Return the sides of a group in those of some duels that it takes part in."""
        first, second = (codes[duels] for codes in self.pairs)
        if group.label is None:
            row_sides = outcomes(self.feedback[group.rows], duels).T.astype(np.float32)
            return Sides(np.arange(len(duels)), np.ones(len(duels)), row_sides)
        mine = np.flatnonzero((first == group.label) | (second == group.label))
        side = np.where(second[mine] == group.label, 1.0, -1.0)
        if self.feedback.ndim == 1:
            return Sides(mine, side, None)
        ranks = self.feedback[group.rows]
        others = np.where(side > 0, first[mine], second[mine])
        wins = ranks[:, [group.label]] < ranks[:, others]
        row_sides = wins.T.astype(np.float32) * side[:, np.newaxis].astype(np.float32)
        return Sides(mine, np.ones(len(mine)), row_sides)


def _by_winner(ranks: NDArray[np.float64]) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """Return the rows to be grouped under every label, and those that go through all duels."""
    n_classes = ranks.shape[1]
    last = np.fmax.reduce(ranks, axis=1)[:, np.newaxis]
    ahead = ranks < last
    n_ahead = np.count_nonzero(ahead, axis=1)
    # A row takes part in K−1 duels for every label that it places ahead, or in all K(K−1)/2 duels
    # in fewer and larger products. So groups by label must save half of the work.
    everywhere = n_ahead > n_classes / 4
    ahead[everywhere] = False
    return [np.flatnonzero(column) for column in ahead.T], np.flatnonzero(everywhere)
