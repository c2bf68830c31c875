"""Approximate inverse Hessians of many logistic problems, for conjugate gradients.

A preconditioner can ``update`` itself by the curvatures of an iteration, if that is due, and
``apply`` its inverses to vectors. ``needed`` tells it how many inner iterations they led to.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import spotrf, spotri

from duelrank._threads import Threads
from duelrank.duels.logistic._batch import Accumulator, Floats, GroupBatch, Places
from duelrank.duels.logistic._loss import against_rows, hessian, hessian_diagonal

# Up to so many coefficients, and rows of a group, all Hessians of a batch are one product.
FEW_COEFFICIENTS, FEW_ROWS = 24, 2048
# From so many inner iterations on, it pays to build a Hessian, and to compute a diagonal anew.
SLOW_INNER, SLOW_INNER_OF_DIAGONAL = 4, 12
# A Hessian of d coefficients may leave out curvatures below this share of the d-th largest.
NEGLIGIBLE = 0.02
SMALLEST_LIFT = 1e-36  # of a Hessian's diagonal; its inverse is a number yet
LEAST_CURVATURE = 1e-6  # smallest sum of curvatures to divide by, as a share of the largest so far


class Diagonal:
    """Approximate inverse Hessians: diagonal, once the rows of a problem are centred.

    With c the curvatures of a problem's rows, κ = Σ c and x̄ = Σ c x / κ, its Hessian is taken for
    that of uncorrelated features, variances Σ c (x − x̄)² plus penalty, and of the intercept, κ, in
    centred coordinates. In an eigenbasis of the rows this comes close for all problems at once.
    It is computed in every iteration until all problems are near their solutions, where curvatures
    change little.

    Parameters
    ----------
    penalty : ndarray of shape (d,)
        Penalty of every coefficient.
    n_problems : int
        Number of problems Q.
    """

    def __init__(self, penalty: Floats, n_problems: int) -> None:
        self.penalty = penalty.astype(np.float32)
        self.has_intercept = bool(penalty[-1] == 0)
        self.variance = np.ones((n_problems, len(penalty)), dtype=np.float32)
        self.centre = np.zeros_like(self.variance)
        self.largest = np.zeros(n_problems, dtype=np.float32)
        self.stale = True

    def update(
        self,
        accumulator: Accumulator,
        active: NDArray[np.intp],
        curvatures: list[Floats],
        threads: Threads,
    ) -> None:
        """Learn from the curvatures at the current coefficients, if that is due."""
        if not self.stale:
            return
        width = (len(self.penalty),)
        second = accumulator.collect(
            lambda b, batch: hessian_diagonal(batch, curvatures[b]), threads, np.float32, width
        )[:, :-1].sum(axis=0)
        if self.has_intercept:
            total = second[:, -1]
            self.largest[active] = np.maximum(self.largest[active], total)
            # Past a step too far all curvatures may be gone; do not divide by what is left.
            total = np.maximum(total, LEAST_CURVATURE * self.largest[active])[:, np.newaxis]
            first = accumulator.collect(
                lambda b, batch: against_rows(curvatures[b], batch.single),
                threads,
                np.float32,
                width,
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

    def needed(self, inner: int, near: bool) -> None:
        """Take note of how many inner iterations were needed, and whether all problems are near."""
        self.stale = not near or inner >= SLOW_INNER_OF_DIAGONAL


class OwnHessians:
    """Inverses of every duel's own Hessian, as it was when they were last built.

    They are built at the start and again whenever conjugate gradients get slow, from the rows whose
    curvature counts. At zero coefficients all curvatures are equal, and the Gram matrices of the
    groups serve all problems. The models of a duel on folds share the average of their Hessians:
    they differ by few rows, and it takes the time of one.

    Parameters
    ----------
    penalty : ndarray of shape (d,)
        Penalty of every coefficient.
    duel_of : ndarray of int, of shape (Q,)
        Number of the duel of every problem, 0 to D−1 in ascending order.
    cold : bool
        Whether the coefficients are zero at first.
    """

    def __init__(self, penalty: Floats, duel_of: NDArray[np.intp], cold: bool) -> None:
        self.penalty = penalty.astype(np.float32)
        self.duel_of = duel_of
        n_duels = int(duel_of.max(initial=-1)) + 1
        self.inverses = np.empty((n_duels, len(penalty), len(penalty)), dtype=np.float32)
        self.equal_curvatures = cold
        self.stale = True

    def update(
        self,
        accumulator: Accumulator,
        active: NDArray[np.intp],
        curvatures: list[Floats],
        threads: Threads,
    ) -> None:
        """Build the Hessians of the duels of the active problems, if that is due."""
        if not self.stale:
            return
        # Problems share Gram matrices, unless they leave out different rows that say nothing.
        alike = self.equal_curvatures and all(
            batch.row_sides is None for batch in accumulator.batches
        )
        grams = accumulator.map(_grams, threads) if alike else None
        n_coefficients = len(self.penalty)
        together: Floats | None = None
        if grams is None and n_coefficients <= FEW_COEFFICIENTS and _are_small(accumulator.batches):
            parts = accumulator.collect(
                lambda b, batch: _all_hessians(batch, curvatures[b]),
                threads,
                np.float32,
                (n_coefficients**2,),
            )
            together = parts[:, :-1].sum(axis=0).reshape(-1, n_coefficients, n_coefficients)

        def build(models: slice) -> None:
            n_models = models.stop - models.start
            places = [place for model in places_of[models] for place in model]
            if together is not None:
                matrix = together[models].mean(axis=0)
            elif grams is None:
                matrix = _hessian(accumulator.batches, curvatures, places, n_models)
            else:
                matrix = _sum_of_grams(accumulator.batches, grams, places) / np.float32(n_models)
            matrix[np.diag_indices_from(matrix)] += self.penalty
            self.inverses[duel_of[models.start]] = _inverse(matrix)

        duel_of = self.duel_of[active]
        places_of = accumulator.places() if together is None else [[]] * len(active)
        threads.map(build, runs_of_equal(duel_of))
        self.equal_curvatures = self.stale = False

    def apply(self, vectors: Floats, active: NDArray[np.intp]) -> Floats:
        """Return the inverse Hessians times vectors, (Q, d)."""
        product = np.empty_like(vectors)
        duel_of = self.duel_of[active]
        with np.errstate(invalid="ignore"):  # see `along_rows` in `_loss`
            if len(self.inverses) == len(self.duel_of):  # one model a duel: all in one call
                consecutive = active[-1] - active[0] == len(active) - 1
                # The inverses are large, and a slice copies nothing.
                which = slice(active[0], active[-1] + 1) if consecutive else active
                np.matmul(
                    self.inverses[which], vectors[:, :, np.newaxis], out=product[:, :, np.newaxis]
                )
                return product
            for models in runs_of_equal(duel_of):
                np.matmul(
                    vectors[models], self.inverses[duel_of[models.start]], out=product[models]
                )
        return product

    def needed(self, inner: int, near: bool) -> None:
        """Take note of how many inner iterations were needed, and whether all problems are near."""
        self.stale = inner >= SLOW_INNER


Preconditioner = Diagonal | OwnHessians


def own_hessians_pay(
    rows_of_problem: float, n_coefficients: int, n_problems: int, most_bytes: float
) -> bool:
    """Tell whether to build a Hessian per problem: they must fit, and rows be many.

    Parameters
    ----------
    rows_of_problem : float
        Average number of rows of a problem.
    n_coefficients : int
        Number of coefficients d.
    n_problems : int
        Number of problems Q.
    most_bytes : float
        Memory that Hessians and their inverses may take.
    """
    return (
        rows_of_problem > 8 * n_coefficients and 12 * n_problems * n_coefficients**2 <= most_bytes
    )


def runs_of_equal(numbers: NDArray[np.intp]) -> list[slice]:
    """Return where runs of equal numbers are."""
    ends = np.flatnonzero(np.diff(numbers, append=-1)) + 1
    return [slice(start, end) for start, end in pairwise([0, *ends.tolist()])]


def _are_small(batches: list[GroupBatch]) -> bool:
    return all(batch.n_rows <= FEW_ROWS for batch in batches)


def _all_hessians(batch: GroupBatch, curvatures: Floats) -> Floats:
    """Return the parts of all Hessians of a batch, (g, q, d²): one product with all xᵢ xᵢᵀ."""
    rows = batch.single
    squares = rows[:, :, np.newaxis] * rows[:, np.newaxis]
    return against_rows(curvatures, squares.reshape(len(rows), -1, batch.n_rows))


def _grams(number: int, batch: GroupBatch) -> Floats:
    """Return ¼ Σ_i xᵢ xᵢᵀ of every group of a batch, (g, d, d): Hessians where p = 1/2."""
    curvatures = np.full((len(batch.single), batch.n_rows), 0.25, dtype=np.float32)
    if batch.row_weights is not None:
        curvatures *= batch.row_weights.astype(np.float32)
    return np.stack([hessian(*group, 0.0) for group in zip(batch.single, curvatures, strict=True)])


def _sum_of_grams(batches: list[GroupBatch], grams: list[Floats], places: Places) -> Floats:
    """Return the rows' part of a problem's Hessian where p = 1/2."""
    _, _, n_coefficients = grams[0].shape
    total = np.zeros((n_coefficients, n_coefficients), dtype=np.float32)
    for b, g, i in places:
        total += np.float32(batches[b].strength[g, i]) * grams[b][g]
    return total


def _hessian(
    batches: list[GroupBatch], curvatures: list[Floats], places: Places, n_models: int
) -> Floats:
    """Return the rows' part of the average Hessian of models, from rows whose curvature counts.

    It takes d rows to span all directions, so the d-th largest curvature decides which rows count:
    a few rows far on the wrong side may have nearly all curvature, and a separable problem has
    hardly any.
    """
    n_coefficients = batches[0].single.shape[1]
    total = np.zeros((n_coefficients, n_coefficients), dtype=np.float32)
    of_group: dict[tuple[int, int], Floats] = {}
    for b, g, i in places:
        mine = curvatures[b][g, i] / np.float32(n_models)
        of_group[b, g] = of_group[b, g] + mine if (b, g) in of_group else mine
    all_curvatures = np.concatenate(list(of_group.values()))
    negligible = 0.0
    if len(all_curvatures) > n_coefficients:
        negligible = NEGLIGIBLE * float(
            np.partition(all_curvatures, -n_coefficients)[-n_coefficients]
        )
    for (b, g), mine in of_group.items():
        total += hessian(batches[b].single[g], mine, negligible)
    return total


def _inverse(matrix: Floats) -> Floats:
    """Invert a Hessian, lifted so far that its inverse is definite in single precision.

    One of numbers that single precision does not hold has the identity in its place.
    """
    lift = max(1e-6 * float(np.trace(matrix)) / len(matrix), SMALLEST_LIFT)
    while np.isfinite(lift):
        matrix[np.diag_indices_from(matrix)] += lift
        factor, failed = spotrf(matrix, lower=1)
        if not failed:
            inverse, _ = spotri(factor, lower=1)  # its lower triangle
            inverse += np.tril(inverse, k=-1).T
            return inverse
        lift *= 10
    return np.eye(len(matrix), dtype=np.float32)
