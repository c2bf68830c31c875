"""Logistic problems whose rows are held in memory.

Margins and curvatures are kept between the questions of the solver, so that a Hessian times a
vector takes two products and a trial step none.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.duels._logistic_objective import (
    Batch,
    Block,
    Crew,
    Floats,
    curvature,
    curve_times,
    folded_margins,
    loss,
    pull,
    slopes_after,
    stack,
    wrong_side,
)
from duelrank.duels._logistic_preconditioner import Preconditioner
from duelrank.duels._logistic_solver import Evaluation, Sums


class HeldRows(NamedTuple):
    """Margins and curvatures of every block, both (g, q, m)."""

    margins: list[Floats]
    curved: list[Floats]


class HeldProblems:
    """Problems with all of their rows in memory.

    Parameters
    ----------
    blocks : list of Block
        The rows. Without double precision copies, gradients are in single precision.
    n_problems : int
        Number of problems.
    crew : Crew
        The threads.
    """

    costly = False

    def __init__(self, blocks: list[Block], n_problems: int, crew: Crew) -> None:
        self.blocks = blocks  # of all problems that there were at first
        self.n_problems = n_problems
        self.crew = crew
        self.precise = blocks[0].double is not None
        self.batch = Batch(blocks, n_problems)

    def only(self, active: NDArray[np.intp]) -> HeldProblems:
        """Return some of the problems that there were at first."""
        keep = np.zeros(self.n_problems, dtype=bool)
        keep[active] = True
        parts = [part for block in self.blocks for part in block.of_problems(keep)]
        some = copy(self)
        some.batch = Batch(stack(parts), len(active))
        return some

    def evaluate(self, weights: Floats, dtype: type) -> Evaluation:
        """Return losses and gradients at some weights."""
        n_blocks = len(self.batch.blocks)
        margins: list[Any] = [None] * n_blocks
        curved: list[Any] = [None] * n_blocks
        losses: list[Any] = [None] * n_blocks
        precise: Floats = weights.astype(dtype, copy=False)

        def part(b: int, block: Block) -> Floats:
            margins[b] = folded_margins(block, precise, dtype)
            wrong = wrong_side(margins[b])
            block.blank(wrong)
            losses[b] = loss(block, wrong)
            curved[b] = curvature(block, wrong)
            return pull(block, wrong)

        pulls = self.batch.collect(part, self.crew, dtype=dtype, width=(weights.shape[1],))
        value = self.batch.sum(lambda b, _: losses[b], self.crew)
        return Evaluation(weights, value, _over_slots(pulls), HeldRows(margins, curved))

    def hessian_times(self, at: Evaluation, vectors: Floats, live: NDArray[np.bool_]) -> Sums:
        """Return the Hessians of the losses times vectors."""

        def part(b: int, block: Block) -> Floats:
            curved = at.rows.curved[b]
            mine = live[block.problems[0]]
            if len(block.problems) > 1 or mine.all():
                return curve_times(block, curved, vectors[block.problems])
            product = np.zeros((1, len(mine), vectors.shape[1]), dtype=np.float32)
            if mine.any():
                some = vectors[block.problems[:, mine]]
                product[:, mine] = curve_times(block, curved[:, mine], some)
            return product

        width = (vectors.shape[1],)
        return _over_slots(self.batch.collect(part, self.crew, dtype=np.float32, width=width))

    def slopes_along(self, at: Evaluation, direction: Floats) -> Callable[[Floats], Floats]:
        """Return the slopes of the losses along directions, as a function of the steps."""
        margins = at.rows.margins
        dtype = margins[0].dtype.type
        precise = direction.astype(dtype, copy=False)
        along = self.batch.map(lambda _, block: folded_margins(block, precise, dtype), self.crew)

        def slopes(step: Floats) -> Floats:
            return self.batch.sum(
                lambda b, block: slopes_after(block, margins[b], along[b], step), self.crew
            )

        return slopes

    def teach(
        self, preconditioner: Preconditioner, active: NDArray[np.intp], at: Evaluation
    ) -> None:
        """Let a preconditioner learn the curvatures."""
        preconditioner.update(self.batch, active, at.rows.curved, self.crew)


def _over_slots(parts: Floats) -> Sums:
    return lambda q: parts[:, q].sum(axis=0)
