"""Which duels are solved together, and how they are preconditioned, within the memory given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._preconditioner import (
    Diagonal,
    OwnHessians,
    Preconditioner,
    own_hessians_pay,
)

COEFFICIENT_BYTES = 80  # per coefficient of a duel: the vectors of conjugate gradients
# Per row of a duel: margins, changes of margins and curvatures in both precisions.
DUEL_ROW_BYTES = 40


class Workload(NamedTuple):
    """What there is to solve.

    Attributes
    ----------
    rows_of_duels : ndarray of int, of shape (P,)
        Number of rows that every duel goes through; 0 for a duel that is not to be solved.
    n_classes : int
        Number of labels.
    n_coefficients : int
        Number of coefficients of a duel.
    n_models : int, default=1
        Number of models of every duel that are solved together.
    """

    rows_of_duels: NDArray[np.intp]
    n_classes: int
    n_coefficients: int
    n_models: int = 1


class Plan(NamedTuple):
    """Which duels are solved together, and how they are preconditioned.

    Attributes
    ----------
    tiles : list of arrays
        Sets of duels, together all that have rows of both labels.
    own_hessians : bool
        Whether every duel gets its own Hessian.
    """

    tiles: list[NDArray[np.intp]]
    own_hessians: bool

    @classmethod
    def of(cls, work: Workload, dense: bool, working_memory: float) -> Plan:
        """Plan the work within so many mebibytes; `dense` tells whether the rows are."""
        most_bytes = working_memory * 2**20
        parts = list(tiles(work, most_bytes / work.n_models))
        n_problems = work.n_models * max(map(len, parts), default=0)
        n_duels = int(np.count_nonzero(work.rows_of_duels))
        rows_of_duel = float(work.rows_of_duels.sum()) / max(1, n_duels)
        own_hessians = dense and own_hessians_pay(
            rows_of_duel, work.n_coefficients, n_problems, most_bytes
        )
        return cls(parts, own_hessians)

    def preconditioner(
        self, penalty: Floats, duel_of: NDArray[np.intp], cold: bool
    ) -> Preconditioner:
        """Return a new preconditioner of problems, the duels of which are given, (Q,).

        `cold` tells whether all coefficients are zero at first.
        """
        if self.own_hessians:
            return OwnHessians(penalty, duel_of, cold)
        return Diagonal(penalty, len(duel_of))


def tiles(work: Workload, most_bytes: float) -> Iterator[NDArray[np.intp]]:
    """Yield sets of duels to be solved together, each within the memory given.

    Labels are cut into ranges. A tile holds the duels between two ranges. Duels without rows are in
    no tile.

    Parameters
    ----------
    work : Workload
        The duels.
    most_bytes : float
        Memory for a tile.
    """
    duels = np.flatnonzero(work.rows_of_duels)
    if len(duels) == 0:
        return
    mean_rows = work.rows_of_duels[duels].mean()
    duel_bytes = DUEL_ROW_BYTES * mean_rows + COEFFICIENT_BYTES * work.n_coefficients
    duels_at_once = max(1.0, most_bytes / duel_bytes)
    if len(duels) <= duels_at_once:
        yield duels
        return
    range_of = np.arange(work.n_classes) // max(1, int(np.sqrt(duels_at_once)))
    tile_of = tile_numbers(range_of)[duels]
    for tile in np.unique(tile_of):
        yield duels[tile_of == tile]


def tile_numbers(range_of: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the number of every duel's tile, (P,), from the number of every label's range, (K,).

    The tile between the ranges a ≤ b of R ranges has the number a R + b.
    """
    first, second = pairs(len(range_of))
    return range_of[first] * (int(range_of[-1]) + 1) + range_of[second]
