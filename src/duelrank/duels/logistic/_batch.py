"""Groups of rows in arrays, and sums over them.

A *group* is m rows that take part in the same q problems. Small groups of similar size are put
together, g at a time, into a `GroupBatch` with arrays of shape (g, q, m): one call of NumPy serves
them all. An `Accumulator` sums what all batches contribute to the problems, always in the same
order. Nothing here knows of labels, duels or scikit-learn, and nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import batches
from duelrank._threads import Threads

Floats = NDArray[np.floating]
Places = list[tuple[int, int, int]]  # numbers of a batch, a group in it, a problem of the group
Result = TypeVar("Result")

# Margins of a batch, and problems whose vectors are handled together: what a cache holds.
BATCH_SIZE = 2**18
LARGEST_BATCHED = BATCH_SIZE // 8  # a group with more margins stays alone
LARGEST_COPIED = 2**17  # so does a group with more numbers in its rows: they would be copied
PROBLEMS_AT_ONCE = 1024


@dataclass(frozen=True)
class GroupBatch:
    """g groups of m rows that take part in q problems each.

    Attributes
    ----------
    single : ndarray of shape (g, d, m), or CSR array of shape (m, d) with g = 1
        The rows in single precision; a shorter group ends in rows of zeros. Dense ones are
        transposed, so that neighbours in memory are the same feature of two rows: products of few
        vectors with many rows are up to twice as fast.
    double : the same in double precision, or None
        The rows in double precision, where they are needed.
    problems : ndarray of int, of shape (g, q)
        The problems of each group; −1, with a strength of 0, fills up a group that has fewer.
    side : ndarray of shape (g, q)
        The side of the group's rows in each problem, ±1.
    strength : ndarray of shape (g, q)
        What the problem's loss on this side is multiplied with: C times a class weight.
    row_weights : ndarray of shape (g, m), or None
        Sample weights.
    padding : ndarray of int, of shape (g,)
        Number of rows of zeros at the end of each group.
    row_sides : ndarray of float32, of shape (g, q, m), or None
        Where rows of a group are on different sides: the side of each row, ±1, or 0 if it has none.
        `side` is 1 then.
    """

    single: Any
    double: Any
    problems: NDArray[np.intp]
    side: Floats
    strength: Floats
    row_weights: Floats | None
    padding: NDArray[np.intp]
    row_sides: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of a group."""
        return int(self.single.shape[-1 if isinstance(self.single, np.ndarray) else 0])

    def rows(self, dtype: type) -> Any:
        """Return the rows in one of the precisions."""
        return self.double if dtype is np.float64 else self.single

    def clear_absent(self, values: Floats) -> None:
        """Set values, (g, q, m), to zero where there is no row, or where the row has no side."""
        for g in np.flatnonzero(self.padding):
            values[g, :, -self.padding[g] :] = 0
        if self.row_sides is not None:
            values *= np.abs(self.row_sides)

    def of_problems(self, keep: NDArray[np.bool_]) -> list[GroupBatch]:
        """Keep some of all problems and number them anew; each group becomes a batch of its own."""
        number = np.cumsum(keep) - 1
        return [
            replace(
                group,
                problems=number[group.problems[:, mine]],
                side=group.side[:, mine],
                strength=group.strength[:, mine],
                row_sides=None if group.row_sides is None else group.row_sides[:, mine],
            )
            for group in self.groups()
            for mine in [keep[group.problems[0]] & (group.problems[0] >= 0)]
            if mine.any()
        ]

    def groups(self) -> list[GroupBatch]:
        """Return every group as a batch of its own; a batch with `row_sides` has one group."""
        if len(self.problems) == 1:
            return [self]
        return [
            GroupBatch(
                self.single[g : g + 1],
                None if self.double is None else self.double[g : g + 1],
                self.problems[g : g + 1],
                self.side[g : g + 1],
                self.strength[g : g + 1],
                None if self.row_weights is None else self.row_weights[g : g + 1],
                self.padding[g : g + 1],
            )
            for g in range(len(self.problems))
        ]


class Accumulator:
    """Sums the contributions of batches to problems, in the same order whatever the threads.

    Every contribution to a problem has a slot of its own, so that threads can write theirs down
    without waiting for each other. The slots are summed in their order.

    Parameters
    ----------
    batches : list of GroupBatch
        The rows.
    n_problems : int
        Number of problems Q.
    """

    def __init__(self, batches: list[GroupBatch], n_problems: int) -> None:
        self.batches = batches
        self.n_problems = n_problems
        self.slots = []
        taken = np.zeros(n_problems + 1, dtype=np.intp)  # the last column collects padding, −1
        for batch in batches:
            slots = np.empty(batch.problems.shape, dtype=np.intp)
            for own, problems in zip(slots, batch.problems, strict=True):
                own[:] = taken[problems]
                taken[problems] += 1
                taken[-1] = 0
            self.slots.append(slots)
        self.n_slots = int(taken.max())
        self.buffers: dict[tuple[type, tuple[int, ...]], Floats] = {}

    def places(self) -> list[Places]:
        """Return where the rows of every problem are."""
        places: list[Places] = [[] for _ in range(self.n_problems)]
        for b, batch in enumerate(self.batches):
            for (g, i), problem in np.ndenumerate(batch.problems):
                if problem >= 0:
                    places[problem].append((b, g, i))
        return places

    def map(self, step: Callable[[int, GroupBatch], Result], threads: Threads) -> list[Result]:
        """Apply `step` to the number of every batch and the batch."""
        return threads.map(lambda b: step(b, self.batches[b]), list(range(len(self.batches))))

    def collect(
        self,
        part: Callable[[int, GroupBatch], Floats],
        threads: Threads,
        dtype: type = np.float64,
        width: tuple[int, ...] = (),
    ) -> Floats:
        """Return ``part(number, batch)``, (g, q, *width), of all batches: (slots, Q + 1, *width).

        The last problem collects padding. The next call with the same dtype and width uses the same
        array again.
        """
        key = (dtype, width)
        if key not in self.buffers:
            self.buffers[key] = np.zeros((self.n_slots, self.n_problems + 1, *width), dtype=dtype)
        buffer = self.buffers[key]

        def put(b: int, batch: GroupBatch) -> None:
            buffer[self.slots[b], batch.problems] = part(b, batch)

        self.map(put, threads)
        return buffer

    def sum(self, part: Callable[[int, GroupBatch], Floats], threads: Threads) -> Floats:
        """Return Σ over the batches of ``part(number, batch)``, (g, q), as (Q,)."""
        total: Floats = self.collect(part, threads)[:, :-1].sum(axis=0)
        return total


def shares_of(n_problems: int) -> list[slice]:
    """Cut problems into shares whose vectors fit in a cache."""
    return list(batches(n_problems, PROBLEMS_AT_ONCE))


def join_small(groups: list[GroupBatch]) -> list[GroupBatch]:
    """Put small groups of similar size into one batch, the smaller ones padded to the largest.

    About eight batches are left at least, so that threads can share them. The number of threads
    plays no part, because padding may change the last digit of a sum.
    """
    most = min(BATCH_SIZE, sum(group.problems.size * group.n_rows for group in groups) // 8)
    joined: list[GroupBatch] = []
    pile: list[GroupBatch] = []
    size = 0
    for group in sorted(groups, key=lambda group: (group.problems.shape[1], group.n_rows)):
        n_margins = group.problems.shape[1] * group.n_rows
        if pile and not (size + n_margins <= most and _is_alike(group, pile[0])):
            joined.append(_joined(pile))
            pile, size = [], 0
        pile.append(group)
        size += n_margins
    return [*joined, _joined(pile)] if pile else joined


def _is_alike(group: GroupBatch, other: GroupBatch) -> bool:
    """Tell whether a group is small, and so similar to another one that padding costs little."""
    n_problems = group.problems.shape[1]
    return (
        isinstance(group.single, np.ndarray)
        and group.row_sides is None
        and other.row_sides is None
        and n_problems * group.n_rows <= LARGEST_BATCHED
        and group.single.size <= LARGEST_COPIED
        and n_problems <= 1.25 * other.problems.shape[1]
        and 0.8 * other.n_rows <= group.n_rows <= 1.25 * other.n_rows
    )


def _joined(groups: list[GroupBatch]) -> GroupBatch:
    if len(groups) == 1:
        return groups[0]
    n_rows = max(group.n_rows for group in groups)

    def padded(arrays: list[Any]) -> Any:
        if arrays[0] is None:
            return None
        result = np.zeros((len(arrays), *arrays[0].shape[1:-1], n_rows), dtype=arrays[0].dtype)
        for g, array in enumerate(arrays):
            result[g, ..., : array.shape[-1]] = array[0]
        return result

    n_problems = max(group.problems.shape[1] for group in groups)

    def filled(arrays: list[Any], filling: float) -> Any:
        result = np.full((len(arrays), n_problems), filling, dtype=arrays[0].dtype)
        for g, array in enumerate(arrays):
            result[g, : array.shape[1]] = array[0]
        return result

    missing = [n_rows - group.n_rows + int(group.padding[0]) for group in groups]
    return GroupBatch(
        padded([group.single for group in groups]),
        padded([group.double for group in groups]),
        filled([group.problems for group in groups], -1),
        filled([group.side for group in groups], 1),
        filled([group.strength for group in groups], 0),
        padded([group.row_weights for group in groups]),
        np.array(missing),
    )
