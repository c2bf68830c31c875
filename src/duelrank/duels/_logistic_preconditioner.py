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
    against_rows,
    hessian,
    squares_against,
)

SLOW_INNER = 4  # from so many inner iterations on, a Hessian is worth building
NEGLIGIBLE = 0.01  # curvature, relative to the largest possible, that a Hessian may leave out
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

    They are built from the Gram matrices of the blocks at first (exact at zero weights, where all
    curvatures are equal), and again from the rows whose curvature counts whenever conjugate
    gradients get slow.

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
        self.penalty = penalty
        self.inverses = np.empty((n_problems, len(penalty), len(penalty)), dtype=np.float32)
        self.number = np.arange(n_problems)
        self.frozen = False
        self.stale = True
        self.equal_curvatures = cold

    def share(self, number: NDArray[np.intp]) -> OwnHessians:
        """Return one for problems that resemble those solved, ``number[q]`` the one q resembles."""
        other = object.__new__(OwnHessians)
        other.__dict__.update(self.__dict__, number=number, frozen=True, stale=False)
        return other

    def update(
        self, batch: Batch, active: NDArray[np.intp], curved: list[Floats], crew: Crew
    ) -> None:
        """Build the Hessians of the active problems, if that is due."""
        if not self.stale or self.frozen:
            return
        parts = _gram_parts if self.equal_curvatures else _hessian_parts
        hessians = np.zeros((len(active), *self.inverses.shape[1:]), dtype=np.float32)
        hessians += np.diag(self.penalty).astype(np.float32)
        for products in batch.map(lambda b, block: parts(block, curved[b]), crew):
            for problem, product in products:
                hessians[problem] += product
        for problem, matrix in zip(active, hessians, strict=True):
            self.inverses[problem] = _inverse(matrix)
        self.equal_curvatures = self.stale = False

    def apply(self, vectors: Floats, active: NDArray[np.intp]) -> Floats:
        """Return the inverse Hessians times vectors, (Q, d)."""
        inverses = self.inverses[self.number[active]]
        product: Floats = np.matmul(inverses, vectors[:, :, np.newaxis])[:, :, 0]
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


def _gram_parts(block: Block, curved: Floats) -> list[tuple[int, Floats]]:
    """Return a block's parts of the Hessians of its problems where p = 1/2 everywhere."""
    parts = []
    for g, problems in enumerate(block.problems):
        rows = block.single[g]
        weighted = rows
        if block.row_weights is not None:
            weighted = rows * block.row_weights[g][:, np.newaxis].astype(np.float32)
        gram = weighted.T @ rows
        parts += [
            (problem, gram * np.float32(scale / 4))
            for problem, scale in zip(problems, block.scale[g], strict=True)
        ]
    return parts


def _hessian_parts(block: Block, curved: Floats) -> list[tuple[int, Floats]]:
    """Return a block's parts of the Hessians of its problems."""
    return [
        (problem, hessian(block.single[g], curved[g, i], NEGLIGIBLE * block.scale[g, i] / 4))
        for g, problems in enumerate(block.problems)
        for i, problem in enumerate(problems)
    ]


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
