"""Approximate inverse Hessians of many logistic problems, for conjugate gradients.

A preconditioner is asked to ``update`` itself from the curvatures of an iteration, to ``apply`` its
inverses to vectors, and hears in ``needed`` how many inner iterations they led to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import spotrf, spotri

from duelrank.duels._logistic_objective import (
    Batch,
    Block,
    Crew,
    Floats,
    Places,
    against_rows,
    hessian,
    squares_against,
)

# Up to so many weights and rows of a group, all Hessians of a block are one product.
FEW_WEIGHTS, FEW_ROWS = 24, 2048
SLOW_INNER = 4  # from so many inner iterations on, a Hessian is worth building
# Curvature that a Hessian may leave out, relative to the d-th largest of a problem with d weights.
NEGLIGIBLE = 0.02
LEAST_CURVATURE = 1e-6  # of all rows, relative to the largest seen, that is believed


class Diagonal:
    """Approximate inverse Hessians: diagonal, once the rows of a problem are centred.

    With c the curvatures of a problem's rows, κ = Σ c and x̄ = Σ c x / κ, its Hessian is taken for
    that of uncorrelated features, variances Σ c (x − x̄)² plus penalty, and of the intercept, κ, in
    centred coordinates. In an eigenbasis of the rows this comes close for all problems at once.

    Parameters
    ----------
    penalty : ndarray of shape (d,)
        Penalty of every weight.
    n_problems : int
        Number of problems Q.
    """

    def __init__(self, penalty: Floats, n_problems: int) -> None:
        self.penalty = penalty.astype(np.float32)
        self.has_intercept = bool(penalty[-1] == 0)
        self.variance = np.ones((n_problems, len(penalty)), dtype=np.float32)
        self.centre = np.zeros_like(self.variance)
        self.largest = np.zeros(n_problems, dtype=np.float32)

    def update(
        self, batch: Batch, active: NDArray[np.intp], curved: list[Floats], crew: Crew
    ) -> None:
        """Learn from the curvatures at the current weights."""
        width = (len(self.penalty),)
        second = batch.collect(
            lambda b, block: squares_against(curved[b], block), crew, np.float32, width
        )[:, :-1].sum(axis=0)
        if self.has_intercept:
            total = second[:, -1]
            self.largest[active] = np.maximum(self.largest[active], total)
            # Past a step too far all curvatures may be gone; do not divide by what is left.
            total = np.maximum(total, LEAST_CURVATURE * self.largest[active])[:, np.newaxis]
            first = batch.collect(
                lambda b, block: against_rows(curved[b], block.single), crew, np.float32, width
            )[:, :-1].sum(axis=0)
            centre = first / total
            centre[:, -1] = 0
            # Rounding may leave nothing, or less, of a variance that the mean dwarfs.
            second = np.maximum(second - total * centre**2, 1e-6 * second)
            second[:, -1:] = total
            self.centre[active] = centre
        self.variance[active] = np.maximum(second + self.penalty, np.finfo(np.float32).tiny)

    def apply(self, vectors: Floats, active: NDArray[np.intp]) -> Floats:
        """Return the approximate inverse Hessians times vectors, (Q, d)."""
        if not self.has_intercept:
            return vectors / self.variance[active]
        centre = self.centre[active]
        result = vectors - centre * vectors[:, -1:]
        result /= self.variance[active]
        result[:, -1] -= np.einsum("qj,qj->q", centre, result)
        return result

    def needed(self, inner: int) -> None:
        """Hear how many inner iterations were needed."""


class OwnHessians:
    """Inverses of every problem's own Hessian, as it was when they were last built.

    They are built at the start and again whenever conjugate gradients get slow, from the rows whose
    curvature counts. At zero weights all curvatures are equal, and the Gram matrices of the groups
    serve all problems.

    Parameters
    ----------
    penalty : ndarray of shape (d,)
        Penalty of every weight.
    n_problems : int
        Number of problems Q.
    cold : bool
        Whether the weights are zero at first.
    """

    def __init__(self, penalty: Floats, n_problems: int, cold: bool) -> None:
        self.penalty = penalty.astype(np.float32)
        self.inverses = np.empty((n_problems, len(penalty), len(penalty)), dtype=np.float32)
        self.equal_curvatures = cold
        self.stale = True

    def update(
        self, batch: Batch, active: NDArray[np.intp], curved: list[Floats], crew: Crew
    ) -> None:
        """Build the Hessians of the active problems, if that is due."""
        if not self.stale:
            return
        # Unless rows that say nothing are left out, each time others.
        alike = self.equal_curvatures and all(block.sides is None for block in batch.blocks)
        grams = batch.map(_grams, crew) if alike else None
        n_weights = len(self.penalty)
        together: Floats | None = None
        if grams is None and n_weights <= FEW_WEIGHTS and _are_small(batch.blocks):
            parts = batch.collect(
                lambda b, block: _all_hessians(block, curved[b]), crew, np.float32, (n_weights**2,)
            )
            together = parts[:, :-1].sum(axis=0).reshape(-1, n_weights, n_weights)

        def build(item: tuple[int, int, Places]) -> None:
            number, problem, places = item
            if together is not None:
                matrix = together[number]
            elif grams is None:
                matrix = _hessian(batch.blocks, curved, places)
            else:
                matrix = _sum_of_grams(batch.blocks, grams, places)
            matrix[np.diag_indices_from(matrix)] += self.penalty
            self.inverses[problem] = _inverse(matrix)

        places = batch.places() if together is None else [[]] * len(active)
        crew.map(build, list(zip(range(len(active)), active, places, strict=True)))
        self.equal_curvatures = self.stale = False

    def apply(self, vectors: Floats, active: NDArray[np.intp]) -> Floats:
        """Return the inverse Hessians times vectors, (Q, d)."""
        consecutive = active[-1] - active[0] == len(active) - 1
        # The inverses are large, and a slice copies nothing.
        which = slice(active[0], active[-1] + 1) if consecutive else active
        with np.errstate(invalid="ignore"):  # see the products of the objective
            product: Floats = np.matmul(self.inverses[which], vectors[:, :, np.newaxis])[:, :, 0]
        return product

    def needed(self, inner: int) -> None:
        """Hear how many inner iterations were needed."""
        self.stale = inner >= SLOW_INNER


Preconditioner = Diagonal | OwnHessians


def own_hessians_pay(
    rows_of_problem: float, n_weights: int, n_problems: int, most_bytes: float
) -> bool:
    """Tell whether to build a Hessian per problem: with many more rows than weights, if they fit.

    Parameters
    ----------
    rows_of_problem : float
        Average number of rows of a problem.
    n_weights : int
        Number of weights d.
    n_problems : int
        Number of problems Q.
    most_bytes : float
        Memory that Hessians and their inverses may take.
    """
    return rows_of_problem > 8 * n_weights and 12 * n_problems * n_weights**2 <= most_bytes


def _are_small(blocks: list[Block]) -> bool:
    return all(block.n_rows <= FEW_ROWS for block in blocks)


def _all_hessians(block: Block, curved: Floats) -> Floats:
    """Return the parts of all Hessians of a block, (g, q, d²): one product with all xᵢ xᵢᵀ."""
    rows = block.single
    squares = rows[..., :, np.newaxis] * rows[..., np.newaxis, :]
    return against_rows(curved, squares.reshape(*rows.shape[:2], -1))


def _grams(number: int, block: Block) -> Floats:
    """Return ¼ Σ_i xᵢ xᵢᵀ of every group of a block, (g, d, d): Hessians where p = 1/2."""
    curved = np.full((len(block.single), block.n_rows), 0.25, dtype=np.float32)
    if block.row_weights is not None:
        curved *= block.row_weights.astype(np.float32)
    return np.stack([hessian(*group, 0.0) for group in zip(block.single, curved, strict=True)])


def _sum_of_grams(blocks: list[Block], grams: list[Floats], places: Places) -> Floats:
    """Return the rows' part of a problem's Hessian where p = 1/2."""
    _, _, n_weights = grams[0].shape
    total = np.zeros((n_weights, n_weights), dtype=np.float32)
    for b, g, i in places:
        total += np.float32(blocks[b].scale[g, i]) * grams[b][g]
    return total


def _hessian(blocks: list[Block], curved: list[Floats], places: Places) -> Floats:
    """Return the rows' part of a problem's Hessian, from the rows whose curvature counts.

    It takes d rows to span all directions, so what counts goes by the d-th largest curvature: a few
    rows far on the wrong side may have nearly all of it, and a separable problem has hardly any.
    """
    n_weights = blocks[0].single.shape[-1]
    total = np.zeros((n_weights, n_weights), dtype=np.float32)
    all_curved = np.concatenate([curved[b][g, i] for b, g, i in places])
    negligible = 0.0
    if len(all_curved) > n_weights:
        negligible = NEGLIGIBLE * float(np.partition(all_curved, -n_weights)[-n_weights])
    for b, g, i in places:
        total += hessian(blocks[b].single[g], curved[b][g, i], negligible)
    return total


def _inverse(matrix: Floats) -> Floats:
    """Invert a Hessian, lifted so far that its inverse is definite in single precision."""
    lift = 1e-6 * float(np.trace(matrix)) / len(matrix)
    while True:
        matrix[np.diag_indices_from(matrix)] += lift
        factor, failed = spotrf(matrix, lower=1)
        if not failed:
            inverse, _ = spotri(factor, lower=1)  # its lower triangle
            inverse += np.tril(inverse, k=-1).T
            return inverse
        lift *= 10
