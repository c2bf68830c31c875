"""The loss of the duels: objectives of many binary problems, their gradients and Hessians.

Problem q has the coefficients w_q of shape (d,), the last one the intercept if there is one, and

    f_q(w) = ½ Σ_j penalty_j w_j² + Σ_i strength_iq log(1 + exp(−s_iq xᵢ·w)),

where s_iq = ±1 is the side of row i in problem q (`side` or `row_sides` of a `GroupBatch`) and
strength_iq is C times the class weight of that side (`strength`) times the weight of the row
(`row_weights`). A row without a side in q has no term. A group of m rows and its q problems are one
matrix product: *folded margins* z = s · (W Xᵀ), shape (q, m), which are positive where the row is
on its right side. With p = 1 / (1 + exp(z)) the probability of the wrong side,

    ∇f_q = penalty · w − Σ_i strength_iq s_iq p_iq xᵢ
    ∇²f_q = diag(penalty) + Σ_i strength_iq p_iq (1 − p_iq) xᵢ xᵢᵀ.

The functions here return what the rows of one `GroupBatch` contribute; the solver adds the penalty.
strength_iq p_iq (1 − p_iq) is called the *curvature* of row i in problem q. Nothing is checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.duels.logistic._batch import Floats, GroupBatch

# A row with such a margin no longer matters. Far beyond it, single precision gets slow (its numbers
# are subnormal), and in the end exp overflows.
LARGEST_MARGIN = 50.0
MANY_PROBLEMS = 64  # of a group, from which the other way to multiply values with rows is faster


def folded_margins(batch: GroupBatch, coef: Floats, dtype: type) -> Floats:
    """Return s · (W Xᵀ) for the problems of a batch, shape (g, q, m)."""
    own = coef[batch.problems]
    own *= batch.side[..., np.newaxis]
    folded = along_rows(own.astype(dtype, copy=False), batch.rows(dtype))
    if batch.row_sides is not None:
        folded *= batch.row_sides
    return folded


def wrong_side(margins: Floats, out: Floats | None = None) -> Floats:
    """Return the probabilities of the wrong side, 1 / (1 + exp(z)), of folded margins z."""
    wrong: Floats = np.minimum(margins, LARGEST_MARGIN, out=out)
    np.exp(wrong, out=wrong)
    wrong += 1
    return np.reciprocal(wrong, out=wrong)


def loss(batch: GroupBatch, wrong: Floats) -> Floats:
    """Return Σ_i strength log(1 + exp(−z)) per problem, (g, q), from the probabilities p.

    A row counts for 21 at most, and in single precision for nothing beyond a margin of 17. That is
    precise enough, because decrements are only compared with the sum. Without row weights, the
    logarithm of a product of four takes the place of four logarithms.
    """
    right = np.subtract(1, wrong)
    np.maximum(right, 1e-9, out=right)
    if batch.row_weights is not None:
        return -batch.strength * np.einsum("gqm,gm->gq", np.log(right), batch.row_weights)
    quarter = right.shape[2] // 4
    product = right[:, :, :quarter] * right[:, :, quarter : 2 * quarter]
    product *= right[:, :, 2 * quarter : 3 * quarter]
    product *= right[:, :, 3 * quarter : 4 * quarter]
    total = np.log(product, out=product).sum(axis=2)
    total += np.log(right[:, :, 4 * quarter :]).sum(axis=2)
    return -batch.strength * total


def gradient(batch: GroupBatch, wrong: Floats) -> Floats:
    """Return the rows' part of the gradients, −Σ_i strength s p xᵢ, shape (g, q, d)."""
    if batch.row_weights is not None:
        wrong = wrong * batch.row_weights[:, np.newaxis].astype(wrong.dtype)
    if batch.row_sides is not None:
        wrong = wrong * batch.row_sides
    part = against_rows(wrong, batch.rows(wrong.dtype.type))
    part *= -(batch.strength * batch.side)[..., np.newaxis]
    return part


def curvature(batch: GroupBatch, wrong: Floats) -> Floats:
    """Return strength p (1 − p) in single precision, shape (g, q, m)."""
    wrong = wrong.astype(np.float32, copy=False)
    curvatures: Floats = wrong - wrong * wrong
    curvatures *= batch.strength.astype(np.float32)[..., np.newaxis]
    if batch.row_weights is not None:
        curvatures *= batch.row_weights[:, np.newaxis].astype(np.float32)
    return curvatures


def slopes_after(batch: GroupBatch, margins: Floats, change: Floats, step: Floats) -> Floats:
    """Return the slopes of the losses along directions after steps, (g, q).

    Parameters
    ----------
    batch : GroupBatch
        The rows.
    margins, change : ndarrays of shape (g, q, m)
        Folded margins of the coefficients and of the directions.
    step : ndarray of shape (Q,)
        Length of every problem's step.
    """
    wrong: Floats = change * step[batch.problems][..., np.newaxis].astype(change.dtype)
    wrong += margins
    wrong_side(wrong, out=wrong)
    if batch.row_weights is not None:
        wrong *= batch.row_weights[:, np.newaxis].astype(change.dtype)
    return -batch.strength * np.einsum("gqm,gqm->gq", wrong, change)


def hessian_times(batch: GroupBatch, curvatures: Floats, directions: Floats) -> Floats:
    """Return the rows' part of Hessians times directions, Σ_i strength p(1−p) (xᵢ·v) xᵢ."""
    along = along_rows(directions, batch.single)
    along *= curvatures
    return against_rows(along, batch.single)


def hessian_diagonal(batch: GroupBatch, curvatures: Floats) -> Floats:
    """Return the rows' part of the diagonals of Hessians, Σ_i strength p(1−p) xᵢ², (g, q, d)."""
    rows = batch.single
    squares = rows * rows if isinstance(rows, np.ndarray) else rows.power(2)
    return against_rows(curvatures, squares)


def hessian(rows: Floats, curvatures: Floats, negligible: float) -> Floats:
    """Return the part of some rows, (d, m), in one problem's Hessian, from their curvatures (m,).

    Rows whose curvature is not above `negligible` are left out: this is for a preconditioner.
    """
    kept = curvatures > negligible
    if not kept.all():
        rows, curvatures = rows[:, kept], curvatures[kept]
    rows = rows * np.sqrt(curvatures)
    with np.errstate(invalid="ignore"):
        part: Floats = rows @ rows.T  # of one and the same array: half the work
    return part


# A small product may load what lies beyond its arrays into lanes that nobody reads, and the
# processor then flags an invalid operation that never was. So products ignore that flag; the solver
# finds what is really not finite.


def along_rows(vectors: Floats, rows: Any) -> Floats:
    """Return the products of vectors (g, q, d) with all rows, (g, q, m)."""
    if isinstance(rows, np.ndarray):
        with np.errstate(invalid="ignore"):
            return vectors @ rows
    return np.ascontiguousarray((rows @ vectors[0].T).T)[np.newaxis]


def against_rows(values: Floats, rows: Any) -> Floats:
    """Return the sums of all rows, each times its value, (g, q, d), for values (g, q, m)."""
    if isinstance(rows, np.ndarray):
        with np.errstate(invalid="ignore"):
            if values.shape[1] >= MANY_PROBLEMS:
                return values @ rows.transpose(0, 2, 1)
            return (rows @ values.transpose(0, 2, 1)).transpose(0, 2, 1)
    return np.ascontiguousarray((rows.T @ values[0].T).T)[np.newaxis]
