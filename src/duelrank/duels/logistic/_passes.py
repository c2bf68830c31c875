"""Logistic problems whose rows come in blocks: every question of the solver is a pass over them.

A pass sends coefficients to all blocks. Each block computes its margins again: nothing is kept
between passes, so nothing can be lost. It returns its part of losses, gradients, Hessians times
vectors or slopes, one array of the size of the coefficients, however many rows it has. Parts are
summed as a tree, in double precision.

Preconditioners are updated from a sample of the rows, which is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank._threads import Threads, threads_of_blas
from duelrank.blocks import Columns, Passes, add_up
from duelrank.duels.logistic import _loss as kernels
from duelrank.duels.logistic._assembly import Assembly, Objective, problem_batches
from duelrank.duels.logistic._batch import Floats, GroupBatch, join_small
from duelrank.duels.logistic._extremes import quiet
from duelrank.duels.logistic._groups import GroupedRows
from duelrank.duels.logistic._preconditioner import Preconditioner
from duelrank.duels.logistic._problems import Evaluation, Sums
from duelrank.duels.logistic._rows import TrainingRows
from duelrank.duels.logistic._table import RowTable
from duelrank.rankings import codes_from_labels

MARGINS_AT_ONCE = 2**20


class Coding(NamedTuple):
    """How the rows of a block are taken: the labels in the order of their codes, and a dtype."""

    classes: NDArray[Any]
    dtype: np.dtype[Any]

    def rows(self, columns: Columns) -> TrainingRows:
        """Return a block, which the census has checked, as arrays; rows without weight are out."""
        X, y, weights = columns
        rows = TrainingRows(
            np.asarray(X, dtype=self.dtype),
            self._codes(np.asarray(y).ravel()),
            None if weights is None else np.asarray(weights, dtype=np.float64).ravel(),
            len(self.classes),
        )
        return rows.with_weight()

    def _codes(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        classes = self.classes
        if classes.dtype.kind in "OUS":
            return codes_from_labels(labels, classes)
        if classes.dtype.kind in "iu" and int(classes[-1]) - int(classes[0]) == len(classes) - 1:
            return labels.astype(np.intp) - int(classes[0])
        return np.searchsorted(classes, labels)


class BlockProblems(NamedTuple):
    """What a block has to know besides coefficients: which problems there are.

    Attributes
    ----------
    coding : Coding
        How the rows are taken.
    objective : Objective
        What is minimised.
    duels : ndarray of int, of shape (Q,)
        The duels whose problems are asked about.
    """

    coding: Coding
    objective: Objective
    duels: NDArray[np.intp]

    def batches(self, columns: Columns, precise: bool, threads: Threads) -> list[GroupBatch]:
        """Make problems of a block of points, labels and weights, or None."""
        rows = self.coding.rows(columns)
        grouped = GroupedRows(rows.feedback, rows.n_classes)
        concerned = np.unique([side[self.duels] for side in pairs(rows.n_classes)])
        groups = [
            group._replace(rows=part)
            for group in grouped.groups
            if group.label in concerned
            # However many rows a label has, so many margins are made at a time.
            for part in np.array_split(
                group.rows, 1 + len(group.rows) * rows.n_classes // MARGINS_AT_ONCE
            )
        ]
        scaling = self.objective.scaling
        table = RowTable(rows, groups, scaling, threads, precise=precise)
        grouped = grouped.with_groups(groups)
        return join_small(problem_batches(table, grouped, self.objective, self.duels))


class ProblemsByPasses:
    """Problems that take a pass over all blocks of rows for every question.

    Parameters
    ----------
    passes : Passes
        Takes passes over blocks of points, labels and weights.
    described : BlockProblems
        What the problems are.
    sample : Assembly
        The same problems with a sample of the rows, weighted like all of them. Coefficients refer
        to the basis of its table.
    """

    costly = True

    def __init__(self, passes: Passes, described: BlockProblems, sample: Assembly) -> None:
        self.passes = passes
        self.described = described
        self.table = sample.table
        self.on_sample = sample.problems(described.duels)
        self.precise = described.coding.dtype == np.float64
        self.all_duels = described.duels

    def only(self, active: NDArray[np.intp]) -> ProblemsByPasses:
        """Return some of the original problems."""
        some = copy(self)
        some.described = self.described._replace(duels=self.all_duels[active])
        some.on_sample = self.on_sample.only(active)
        return some

    def evaluate(self, coef: Floats, dtype: type) -> Evaluation:
        """Return losses and gradients at some coefficients."""
        sent: Floats = self.table.in_scaled_basis(coef).astype(dtype)
        value, gradient = self.passes.reduce(evaluate_block, add_up, self.described, sent)
        gradient = self.table.gradients_in_table_basis(gradient)
        return Evaluation(coef, value, lambda q: gradient[q], None)

    def hessian_times(self, at: Evaluation, vectors: Floats, live: NDArray[np.bool_]) -> Sums:
        """Return the Hessians of the losses times vectors."""
        described = self.described._replace(duels=self.described.duels[live])
        sent = [
            self.table.in_scaled_basis(values[live]).astype(np.float32)
            for values in (at.coef, vectors)
        ]
        (part,) = self.passes.reduce(hessian_block, add_up, described, Along(*sent))
        product = np.zeros(vectors.shape)
        product[live] = self.table.gradients_in_table_basis(part)
        return lambda q: product[q]

    def slopes_along(self, at: Evaluation, direction: Floats) -> Callable[[Floats], Floats]:
        """Return the slopes of the losses along directions, as a function of the steps."""
        along = Along(*(self.table.in_scaled_basis(v) for v in (at.coef, direction)))

        def slopes(step: Floats) -> Floats:
            (total,) = self.passes.reduce(slopes_block, add_up, self.described, along, step)
            return total

        return slopes

    def update_preconditioner(
        self, preconditioner: Preconditioner, active: NDArray[np.intp], at: Evaluation
    ) -> None:
        """Update a preconditioner by the curvatures of the sample."""
        on_sample = self.on_sample.evaluate(at.coef, np.float32)
        self.on_sample.update_preconditioner(preconditioner, active, on_sample)


class Along(NamedTuple):
    """Coefficients, and vectors to multiply with or to go along, both (Q, d)."""

    coef: Floats
    vectors: Floats

    @property
    def nbytes(self) -> int:
        """Their size, by which `blocks` sets Dask's limit for graphs."""
        return int(self.coef.nbytes + self.vectors.nbytes)


def evaluate_block(
    number: int, columns: Columns, problems: BlockProblems, coef: Floats
) -> tuple[Floats, Floats]:
    """Return a block's part of losses (Q,) and gradients (Q, d), as precise as the coefficients."""
    dtype = coef.dtype.type

    def parts(batch: GroupBatch) -> tuple[Floats, Floats]:
        wrong = kernels.folded_margins(batch, coef, dtype)
        kernels.wrong_side(wrong, out=wrong)
        batch.clear_absent(wrong)
        return kernels.loss(batch, wrong), kernels.gradient(batch, wrong)

    value, gradient = np.zeros(len(coef)), np.zeros(coef.shape)
    _add_parts(parts, problems, columns, dtype, [value, gradient])
    return value, gradient


def hessian_block(
    number: int, columns: Columns, problems: BlockProblems, along: Along
) -> tuple[Floats]:
    """Return a block's part of Hessians times vectors, (Q, d)."""

    def part(batch: GroupBatch) -> tuple[Floats]:
        # Margins and changes of margins come from one product: the rows are read once. Rows that
        # come in blocks have labels, so there are no sides of single rows.
        n_problems = batch.problems.shape[1]
        folded = along.coef[batch.problems] * batch.side.astype(np.float32)[..., np.newaxis]
        both = kernels.along_rows(
            np.concatenate([folded, along.vectors[batch.problems]], axis=1), batch.single
        )
        wrong, change = both[:, :n_problems], both[:, n_problems:]
        kernels.wrong_side(wrong, out=wrong)
        batch.clear_absent(wrong)
        change *= kernels.curvature(batch, wrong)
        return (kernels.against_rows(change, batch.single),)

    product = np.zeros(along.vectors.shape)
    _add_parts(part, problems, columns, np.float32, [product])
    return (product,)


def slopes_block(
    number: int, columns: Columns, problems: BlockProblems, along: Along, step: Floats
) -> tuple[Floats]:
    """Return a block's part of the slopes of the losses along vectors, after steps, (Q,)."""
    dtype = problems.coding.dtype.type

    def part(batch: GroupBatch) -> tuple[Floats]:
        margins, change = (kernels.folded_margins(batch, values, dtype) for values in along)
        return (kernels.slopes_after(batch, margins, change, step),)

    slopes = np.zeros(len(step))
    _add_parts(part, problems, columns, dtype, [slopes])
    return (slopes,)


def _add_parts(
    parts: Callable[[GroupBatch], tuple[Floats, ...]],
    problems: BlockProblems,
    columns: Columns,
    dtype: type,
    totals: list[Floats],
) -> None:
    """Add what all groups of rows contribute to their problems to totals, one for each part."""
    with quiet(), threads_of_blas() as threads:
        batches = problems.batches(columns, dtype is np.float64, threads)
        results = threads.map(parts, batches)
    for batch, contributions in zip(batches, results, strict=True):
        for total, contribution in zip(totals, contributions, strict=True):
            for numbers, part in zip(batch.problems, contribution, strict=True):
                real = numbers >= 0  # the others only fill up
                total[numbers[real]] += part[real]
