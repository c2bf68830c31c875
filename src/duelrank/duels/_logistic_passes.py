"""Logistic problems whose rows come in blocks: every question of the solver is a pass over them.

A pass sends weights to all blocks. Each block makes margins of them again (nothing is kept between
passes, so nothing can be lost) and returns its part of losses, gradients, Hessians times vectors or
slopes: one array the size of the weights, whatever the number of rows. Parts are summed as a tree,
in double precision.

What a preconditioner has to learn, it learns from a sample of the rows, which is held.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank.blocks._passes import Passes, add_up
from duelrank.duels._logistic_groups import GroupedRows
from duelrank.duels._logistic_held import HeldProblems
from duelrank.duels._logistic_objective import (
    Block,
    Crew,
    Floats,
    against_rows,
    along_rows,
    crew,
    curvature,
    folded_margins,
    loss,
    pull,
    slopes_after,
    stack,
    wrong_side,
)
from duelrank.duels._logistic_preconditioner import Preconditioner
from duelrank.duels._logistic_rows import (
    EVERYONE,
    ClassWeights,
    RowTable,
    drop_weightless,
    duel_blocks,
)
from duelrank.duels._logistic_scaling import Scaling
from duelrank.duels._logistic_solver import Evaluation, Sums
from duelrank.rankings import codes_from_labels

MARGINS_AT_ONCE = 2**20


class Terms(NamedTuple):
    """What a block has to know besides weights: which problems there are.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels in the order of their codes.
    duels : ndarray of int, of shape (Q,)
        The duels whose problems are asked about.
    scaling : Scaling
        What is done to the features.
    dtype : dtype
        Precision to take the rows in.
    C : float
        Inverse strength of the penalty.
    class_weights : ClassWeights
        Weights of the two sides.
    """

    classes: NDArray[Any]
    duels: NDArray[np.intp]
    scaling: Scaling
    dtype: np.dtype[Any]
    C: float
    class_weights: ClassWeights

    def blocks(self, X: Any, y: Any, weights: Any, precise: bool, threads: Crew) -> list[Block]:
        """Make problems of a block of points, labels and weights, or None."""
        rows = rows_of_block(X, y, weights, self.classes, self.dtype)
        grouped = GroupedRows(rows.codes, len(self.classes))
        concerned = np.unique([side[self.duels] for side in pairs(len(self.classes))])
        grouped.groups = [
            group._replace(rows=part)
            for group in grouped.groups
            if group.label in concerned
            # However many rows a label has, so many margins are made at a time.
            for part in np.array_split(
                group.rows, 1 + len(group.rows) * len(self.classes) // MARGINS_AT_ONCE
            )
        ]
        table = RowTable(
            rows.X, grouped.groups, rows.weights, self.scaling, False, threads, precise
        )
        return stack(duel_blocks(table, grouped, self.duels, self.C, self.class_weights, EVERYONE))


class CodedRows(NamedTuple):
    """Rows of positive weight, their codes, and weights or None."""

    X: Floats
    codes: NDArray[np.intp]
    weights: Floats | None


def rows_of_block(
    X: Any, y: Any, weights: Any, classes: NDArray[Any], dtype: np.dtype[Any]
) -> CodedRows:
    """Return a block, which the census has checked, as arrays."""
    codes = _codes(np.asarray(y).ravel(), classes)
    points = np.asarray(X, dtype=dtype)
    if weights is None:
        return CodedRows(points, codes, None)
    share = np.asarray(weights, dtype=np.float64).ravel()
    kept, points, codes = drop_weightless(share, points, codes)
    return CodedRows(points, codes, kept)


def concatenated(parts: list[CodedRows]) -> CodedRows:
    """Put rows together, all of them with weights or none."""
    X, codes = (np.concatenate(arrays) for arrays in list(zip(*parts, strict=True))[:2])
    weights = [part.weights for part in parts if part.weights is not None]
    return CodedRows(X, codes, np.concatenate(weights) if weights else None)


def _codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    if classes.dtype.kind in "OUS":
        return codes_from_labels(labels, classes)
    if classes.dtype.kind in "iu" and int(classes[-1]) - int(classes[0]) == len(classes) - 1:
        return labels.astype(np.intp) - int(classes[0])
    return np.searchsorted(classes, labels)


class PassedProblems:
    """Problems that take a pass over all blocks of rows for every question.

    Parameters
    ----------
    passes : Passes
        Takes passes over blocks of points, labels and weights.
    terms : Terms
        What the problems are.
    sample : HeldProblems
        The same problems with a sample of the rows, weighted like all of them.
    table : RowTable
        The sample's rows, whose basis the weights refer to.
    """

    costly = True

    def __init__(self, passes: Passes, terms: Terms, sample: HeldProblems, table: RowTable) -> None:
        self.passes = passes
        self.terms = terms
        self.sample = sample
        self.table = table
        self.precise = terms.dtype == np.float64
        self.all_duels = terms.duels

    def only(self, active: NDArray[np.intp]) -> PassedProblems:
        """Return some of the problems that there were at first."""
        some = copy(self)
        some.terms = self.terms._replace(duels=self.all_duels[active])
        some.sample = self.sample.only(active)
        return some

    def evaluate(self, weights: Floats, dtype: type) -> Evaluation:
        """Return losses and gradients at some weights."""
        sent: Floats = self.table.turned(weights).astype(dtype)
        value, gradient = self.passes.reduce(evaluate_block, add_up, self.terms, sent)
        gradient = self.table.turned_back(gradient)
        return Evaluation(weights, value, lambda q: gradient[q], None)

    def hessian_times(self, at: Evaluation, vectors: Floats, live: NDArray[np.bool_]) -> Sums:
        """Return the Hessians of the losses times vectors."""
        terms = self.terms._replace(duels=self.terms.duels[live])
        here, there = (self.table.turned(v[live]).astype(np.float32) for v in (at.weights, vectors))
        (part,) = self.passes.reduce(hessian_block, add_up, terms, here, there)
        product = np.zeros(vectors.shape)
        product[live] = self.table.turned_back(part)
        return lambda q: product[q]

    def slopes_along(self, at: Evaluation, direction: Floats) -> Callable[[Floats], Floats]:
        """Return the slopes of the losses along directions, as a function of the steps."""
        start, ahead = self.table.turned(at.weights), self.table.turned(direction)

        def slopes(step: Floats) -> Floats:
            (total,) = self.passes.reduce(slopes_block, add_up, self.terms, start, ahead, step)
            return total

        return slopes

    def teach(
        self, preconditioner: Preconditioner, active: NDArray[np.intp], at: Evaluation
    ) -> None:
        """Let a preconditioner learn the curvatures of the sample."""
        self.sample.teach(preconditioner, active, self.sample.evaluate(at.weights, np.float32))


def evaluate_block(
    number: int, X: Any, y: Any, sample_weight: Any, terms: Terms, weights: Floats
) -> tuple[Floats, Floats]:
    """Return a block's part of losses (Q,) and gradients (Q, d), as precise as the weights."""
    dtype = weights.dtype.type

    def parts(block: Block) -> tuple[Floats, Floats]:
        wrong = folded_margins(block, weights, dtype)
        wrong_side(wrong, out=wrong)
        block.blank(wrong)
        return loss(block, wrong), pull(block, wrong)

    value, gradient = np.zeros(len(weights)), np.zeros(weights.shape)
    _add_up(parts, terms, (X, y, sample_weight), dtype, value, gradient)
    return value, gradient


def hessian_block(
    number: int,
    X: Any,
    y: Any,
    sample_weight: Any,
    terms: Terms,
    weights: Floats,
    vectors: Floats,
) -> tuple[Floats]:
    """Return a block's part of Hessians at weights times vectors, (Q, d)."""

    def part(block: Block) -> tuple[Floats]:
        # Margins and changes of margins from one product: the rows are read once.
        n_problems = block.problems.shape[1]
        folded = weights[block.problems] * block.sign.astype(np.float32)[..., np.newaxis]
        both = along_rows(np.concatenate([folded, vectors[block.problems]], axis=1), block.single)
        wrong, change = both[:, :n_problems], both[:, n_problems:]
        wrong_side(wrong, out=wrong)
        block.blank(wrong)
        change *= curvature(block, wrong)
        return (against_rows(change, block.single),)

    product = np.zeros(vectors.shape)
    _add_up(part, terms, (X, y, sample_weight), np.float32, product)
    return (product,)


def slopes_block(
    number: int,
    X: Any,
    y: Any,
    sample_weight: Any,
    terms: Terms,
    weights: Floats,
    direction: Floats,
    step: Floats,
) -> tuple[Floats]:
    """Return a block's part of the slopes of the losses along directions, after steps, (Q,)."""
    dtype = terms.dtype.type

    def part(block: Block) -> tuple[Floats]:
        margins, along = (folded_margins(block, v, dtype) for v in (weights, direction))
        return (slopes_after(block, margins, along, step),)

    slopes = np.zeros(len(step))
    _add_up(part, terms, (X, y, sample_weight), dtype, slopes)
    return (slopes,)


def _add_up(
    parts: Callable[[Block], tuple[Floats, ...]],
    terms: Terms,
    columns: tuple[Any, Any, Any],
    dtype: type,
    *totals: Floats,
) -> None:
    """Add what all groups of rows contribute to their problems to totals, one for each part."""
    with crew() as threads:
        blocks = terms.blocks(*columns, dtype is np.float64, threads)
        results = threads.map(parts, blocks)
    for block, contributions in zip(blocks, results, strict=True):
        for total, contribution in zip(totals, contributions, strict=True):
            for problems, part in zip(block.problems, contribution, strict=True):
                real = problems >= 0  # the others only fill up
                total[problems[real]] += part[real]
