"""Logistic problems: what the solver asks of their rows, and the answers of rows in memory.

`Problems` is the protocol. `ProblemsInMemory` keeps margins and curvatures between two questions,
so that a Hessian times a vector takes two products and a trial step none. Rows that come in blocks
answer by passes over the blocks: see `_passes`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from duelrank._threads import Threads
from duelrank.duels.logistic import _loss as kernels
from duelrank.duels.logistic._batch import Accumulator, Floats, GroupBatch, join_small
from duelrank.duels.logistic._preconditioner import Preconditioner

# Returns sums over all rows for some of the problems: their vectors stay in a cache.
Sums = Callable[[slice], Floats]


class Evaluation(NamedTuple):
    """The losses of Q problems at some coefficients, without the penalty.

    Attributes
    ----------
    coef : ndarray of shape (Q, d)
        The coefficients.
    value : ndarray of shape (Q,)
        The losses.
    gradient : Sums
        Their gradients, (Q, d); to be read before the next evaluation.
    rows : anything
        What the problems remember of their rows.
    """

    coef: Floats
    value: Floats
    gradient: Sums
    rows: Any


class Problems(Protocol):
    """Logistic problems, as the solver sees them."""

    precise: bool  # whether gradients can be had in double precision
    costly: bool  # whether every question takes a pass over rows that have to be made first

    def evaluate(self, coef: Floats, dtype: type) -> Evaluation:
        """Return losses and gradients at coefficients (Q, d), in single or double precision."""

    def hessian_times(self, at: Evaluation, vectors: Floats, live: NDArray[np.bool_]) -> Sums:
        """Return the Hessians of the losses times vectors (Q, d), in single precision.

        For problems that are not live, the answer may be anything finite.
        """

    def slopes_along(self, at: Evaluation, direction: Floats) -> Callable[[Floats], Floats]:
        """Return a function of step lengths (Q,): the slopes of the losses after these steps."""

    def update_preconditioner(
        self, preconditioner: Preconditioner, active: NDArray[np.intp], at: Evaluation
    ) -> None:
        """Update a preconditioner by the curvatures; `active` are the numbers of the problems."""

    def only(self, active: NDArray[np.intp]) -> Problems:
        """Return some of the original problems, by their numbers."""


class RowsAt(NamedTuple):
    """Margins and curvatures of the rows of every batch, both (g, q, m)."""

    margins: list[Floats]
    curvatures: list[Floats]


class ProblemsInMemory:
    """Problems with all of their rows in memory.

    Parameters
    ----------
    batches : list of GroupBatch
        The rows. Without double precision copies, gradients are in single precision.
    n_problems : int
        Number of problems.
    threads : Threads
        The threads.
    """

    costly = False

    def __init__(self, batches: list[GroupBatch], n_problems: int, threads: Threads) -> None:
        self.batches = batches  # of all original problems
        self.n_problems = n_problems
        self.threads = threads
        self.precise = batches[0].double is not None
        self.accumulator = Accumulator(batches, n_problems)

    def only(self, active: NDArray[np.intp]) -> ProblemsInMemory:
        """Return some of the original problems."""
        keep = np.zeros(self.n_problems, dtype=bool)
        keep[active] = True
        parts = [part for batch in self.batches for part in batch.of_problems(keep)]
        some = copy(self)
        some.accumulator = Accumulator(join_small(parts), len(active))
        return some

    def evaluate(self, coef: Floats, dtype: type) -> Evaluation:
        """Return losses and gradients at some coefficients."""
        n_batches = len(self.accumulator.batches)
        margins: list[Any] = [None] * n_batches
        curvatures: list[Any] = [None] * n_batches
        losses: list[Any] = [None] * n_batches
        in_precision: Floats = coef.astype(dtype, copy=False)

        def part(b: int, batch: GroupBatch) -> Floats:
            margins[b] = kernels.folded_margins(batch, in_precision, dtype)
            wrong = kernels.wrong_side(margins[b])
            batch.clear_absent(wrong)
            losses[b] = kernels.loss(batch, wrong)
            curvatures[b] = kernels.curvature(batch, wrong)
            return kernels.gradient(batch, wrong)

        width = (coef.shape[1],)
        gradients = self.accumulator.collect(part, self.threads, dtype=dtype, width=width)
        value = self.accumulator.sum(lambda b, _: losses[b], self.threads)
        return Evaluation(coef, value, _over_slots(gradients), RowsAt(margins, curvatures))

    def hessian_times(self, at: Evaluation, vectors: Floats, live: NDArray[np.bool_]) -> Sums:
        """Return the Hessians of the losses times vectors."""

        def part(b: int, batch: GroupBatch) -> Floats:
            curvatures = at.rows.curvatures[b]
            mine = live[batch.problems[0]]
            if len(batch.problems) > 1 or mine.all():
                return kernels.hessian_times(batch, curvatures, vectors[batch.problems])
            product = np.zeros((1, len(mine), vectors.shape[1]), dtype=np.float32)
            if mine.any():
                some = vectors[batch.problems[:, mine]]
                product[:, mine] = kernels.hessian_times(batch, curvatures[:, mine], some)
            return product

        width = (vectors.shape[1],)
        return _over_slots(
            self.accumulator.collect(part, self.threads, dtype=np.float32, width=width)
        )

    def slopes_along(self, at: Evaluation, direction: Floats) -> Callable[[Floats], Floats]:
        """Return the slopes of the losses along directions, as a function of the steps."""
        margins = at.rows.margins
        dtype = margins[0].dtype.type
        in_precision = direction.astype(dtype, copy=False)
        changes = self.accumulator.map(
            lambda _, batch: kernels.folded_margins(batch, in_precision, dtype), self.threads
        )

        def slopes(step: Floats) -> Floats:
            return self.accumulator.sum(
                lambda b, batch: kernels.slopes_after(batch, margins[b], changes[b], step),
                self.threads,
            )

        return slopes

    def update_preconditioner(
        self, preconditioner: Preconditioner, active: NDArray[np.intp], at: Evaluation
    ) -> None:
        """Update a preconditioner by the curvatures."""
        preconditioner.update(self.accumulator, active, at.rows.curvatures, self.threads)


def _over_slots(parts: Floats) -> Sums:
    return lambda q: parts[:, q].sum(axis=0)
