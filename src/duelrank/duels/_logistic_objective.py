"""The logistic objectives of many binary problems that share their rows.

Problem q has the weights w_q of shape (d,), the last one the intercept if there is one, and

    f_q(w) = ½ Σ_j penalty_j w_j² + Σ_i scale_iq log(1 + exp(−s_iq xᵢ·w)),

where s_iq = ±1 is the side of row i in problem q. Rows come in *blocks*: all rows of a block take
part in the same problems, on the same side. A block of m rows and its q problems are one matrix
product: *folded margins* z = s · (W Xᵀ), shape (q, m), positive where the row is on its right side.
With p = 1 / (1 + exp(z)) the chance of the wrong side,

    ∇f_q = penalty · w − Σ_i scale_iq s_iq p_iq xᵢ
    ∇²f_q = diag(penalty) + Σ_i scale_iq p_iq (1 − p_iq) xᵢ xᵢᵀ.

Nothing here knows of labels, duels or scikit-learn, and nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from duelrank._threads import blas_threads, one_blas_thread

Floats = NDArray[np.floating]
Result = TypeVar("Result")

# exp overflows beyond, and a row with such a margin has long stopped to matter.
LARGEST_MARGIN = 80.0


@dataclass(frozen=True)
class Block:
    """Rows that take the same side in the same problems.

    Attributes
    ----------
    single : ndarray or CSR array of shape (m, d)
        The rows in single precision.
    double : ndarray or CSR array of shape (m, d), or None
        The rows in double precision, where that is asked for.
    problems : ndarray of int, of shape (q,)
        The problems they take part in.
    sign : ndarray of shape (q,)
        Their side, ±1.
    scale : ndarray of shape (q,)
        Weight of the problem's loss on this side: C times a class weight.
    row_weights : ndarray of shape (m,), or None
        Sample weights.
    """

    single: Any
    double: Any
    problems: NDArray[np.intp]
    sign: Floats
    scale: Floats
    row_weights: Floats | None

    def rows(self, dtype: type) -> Any:
        return self.double if dtype is np.float64 else self.single

    def of_problems(self, keep: NDArray[np.bool_]) -> Block:
        """Keep some of all problems, numbered anew without gaps."""
        mine = keep[self.problems]
        return replace(
            self,
            problems=np.cumsum(keep)[self.problems[mine]] - 1,
            sign=self.sign[mine],
            scale=self.scale[mine],
        )


class Crew:
    """As many threads as BLAS would use, each with a BLAS of one thread.

    Blocks are independent, so threads over blocks beat threads inside their small products, and
    the result does not depend on how many there are.
    """

    def __init__(self, pool: ThreadPoolExecutor | None, n_threads: int) -> None:
        self.pool = pool
        self.n_threads = n_threads

    def map(self, step: Callable[[Any], Result], items: list[Any]) -> list[Result]:
        """Apply `step` to every item; the order of the results is that of the items."""
        if self.pool is None or len(items) < 2:
            return [step(item) for item in items]
        # One task per thread: handing out single small items would cost more than they do.
        shares = [items[start :: self.n_threads] for start in range(self.n_threads)]
        done = list(self.pool.map(lambda share: [step(item) for item in share], shares))
        results: list[Any] = [None] * len(items)
        for start, share in enumerate(done):
            results[start :: self.n_threads] = share
        return results


@contextmanager
def crew() -> Iterator[Crew]:
    """Take over the threads of BLAS for a while."""
    n_threads = blas_threads()
    with one_blas_thread():
        if n_threads == 1:
            yield Crew(None, 1)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            yield Crew(pool, n_threads)


def folded_margins(block: Block, weights: Floats, dtype: type) -> Floats:
    """Return s · (W Xᵀ) for the block's problems, shape (q, m)."""
    own: Floats = (weights[block.problems] * block.sign[:, np.newaxis]).astype(dtype, copy=False)
    rows = block.rows(dtype)
    return _along_rows(own, rows)


def wrong_side(margins: Floats) -> Floats:
    """Turn folded margins into chances of the wrong side, 1 / (1 + exp(z)), in place."""
    np.minimum(margins, LARGEST_MARGIN, out=margins)
    np.exp(margins, out=margins)
    margins += 1
    return np.reciprocal(margins, out=margins)


def loss(block: Block, wrong: Floats) -> Floats:
    """Return Σ_i scale log(1 + exp(−z)) per problem, from the chances of the wrong side."""
    right = np.maximum(1 - wrong, np.finfo(wrong.dtype).tiny)
    losses = np.log(right, out=right)
    total = losses @ block.row_weights if block.row_weights is not None else losses.sum(axis=1)
    return -block.scale * total


def pull(block: Block, wrong: Floats) -> Floats:
    """Return the block's part of the gradients, −Σ_i scale s p xᵢ, shape (q, d)."""
    if block.row_weights is not None:
        wrong = wrong * block.row_weights.astype(wrong.dtype, copy=False)
    factor = -(block.scale * block.sign)[:, np.newaxis]
    return _against_rows(wrong, block.rows(wrong.dtype.type)) * factor


def curvature(block: Block, wrong: Floats) -> Floats:
    """Return scale p (1 − p) in single precision, shape (q, m)."""
    wrong = wrong.astype(np.float32, copy=False)
    curved: Floats = wrong - wrong * wrong
    curved *= block.scale.astype(np.float32)[:, np.newaxis]
    if block.row_weights is not None:
        curved *= block.row_weights.astype(np.float32)
    return curved


def curve_times(block: Block, curved: Floats, directions: Floats) -> Floats:
    """Return the block's part of Hessian times direction, Σ_i scale p(1−p) (xᵢ·v) xᵢ."""
    along = _along_rows(directions.astype(np.float32, copy=False), block.single)
    along *= curved
    return _against_rows(along, block.single)


def hessian(block: Block, curved: Floats, negligible: float) -> Floats:
    """Return the block's part of one problem's Hessian, (d, d), from its curvatures (m,).

    Rows whose curvature is below `negligible` are left out: this is for a preconditioner.
    """
    kept = np.flatnonzero(curved > negligible)
    rows = block.single[kept]
    part: Floats = (rows * curved[kept, np.newaxis]).T @ rows
    return part


def objective(blocks: list[Block], weights: Floats, penalty: Floats) -> Floats:
    """Return f_q of every problem, accurately, in double precision."""
    values = 0.5 * (weights * weights) @ penalty
    for block in blocks:
        margins = folded_margins(block, weights, np.float64)
        losses = np.logaddexp(0, -margins)
        if block.row_weights is not None:
            losses *= block.row_weights
        values[block.problems] += block.scale * losses.sum(axis=1)
    return values


def gradient(blocks: list[Block], weights: Floats, penalty: Floats) -> Floats:
    """Return ∇f_q of every problem in double precision."""
    values = weights * penalty
    for block in blocks:
        wrong = wrong_side(folded_margins(block, weights, np.float64))
        values[block.problems] += pull(block, wrong)
    return values


def _along_rows(vectors: Floats, rows: Any) -> Floats:
    """Return vectors @ rowsᵀ, (q, d) times (d, m)."""
    if isinstance(rows, np.ndarray):
        return vectors @ rows.T
    return np.ascontiguousarray((rows @ vectors.T).T)


def _against_rows(values: Floats, rows: Any) -> Floats:
    """Return values @ rows, (q, m) times (m, d)."""
    if isinstance(rows, np.ndarray):
        return values @ rows
    return np.ascontiguousarray((rows.T @ values.T).T)
