"""The logistic objectives of many binary problems that share their rows.

Problem q has the weights w_q of shape (d,), the last one the intercept if there is one, and

    f_q(w) = ½ Σ_j penalty_j w_j² + Σ_i scale_iq log(1 + exp(−s_iq xᵢ·w)),

where s_iq = ±1 is the side of row i in problem q. Rows come in *groups*: all m rows of a group take
part in the same problems, on the same side. A group and its q problems are one matrix product:
*folded margins* z = s · (W Xᵀ), shape (q, m), positive where the row is on its right side. With
p = 1 / (1 + exp(z)) the chance of the wrong side,

    ∇f_q = penalty · w − Σ_i scale_iq s_iq p_iq xᵢ
    ∇²f_q = diag(penalty) + Σ_i scale_iq p_iq (1 − p_iq) xᵢ xᵢᵀ.

Small groups are stacked, g at a time, into a `Block` of shapes (g, q, m): one call of NumPy serves
them all. Nothing here knows of labels, duels or scikit-learn, and nothing is checked.
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
Places = list[tuple[int, int, int]]  # blocks, groups in them, problems in the groups
Result = TypeVar("Result")

# A row with such a margin has long stopped to matter. Far beyond, single precision gets slow (its
# numbers are subnormal), and exp overflows at last.
LARGEST_MARGIN = 50.0
# Margins of a stack, and problems whose vectors are handled together: what a cache holds.
STACK_SIZE = 2**18
LARGEST_STACKED = STACK_SIZE // 8  # margins of a group above which it gains nothing from others
PROBLEMS_AT_ONCE = 1024


@dataclass(frozen=True)
class Block:
    """g groups of m rows that take part in q problems each.

    Attributes
    ----------
    single : ndarray of shape (g, m, d), or CSR array of shape (m, d) with g = 1
        The rows in single precision; a shorter group ends in rows of zeros.
    double : the same in double precision, or None
        Where that is asked for.
    problems : ndarray of int, of shape (g, q)
        The problems of each group; −1, with a scale of 0, fills up a group that has fewer.
    sign : ndarray of shape (g, q)
        Their side, ±1.
    scale : ndarray of shape (g, q)
        Weight of the problem's loss on this side: C times a class weight.
    row_weights : ndarray of shape (g, m), or None
        Sample weights.
    padding : ndarray of int, of shape (g,)
        Number of rows of zeros at the end of each group.
    sides : ndarray of float32, of shape (g, q, m), or None
        Sides of single rows, ±1, or 0 for a row that has none, where they differ; `sign` is 1 then.
    """

    single: Any
    double: Any
    problems: NDArray[np.intp]
    sign: Floats
    scale: Floats
    row_weights: Floats | None
    padding: NDArray[np.intp]
    sides: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of a group."""
        return int(self.single.shape[-2])

    def rows(self, dtype: type) -> Any:
        """Return the rows in one of the precisions."""
        return self.double if dtype is np.float64 else self.single

    def blank(self, values: Floats) -> None:
        """Set values, (g, q, m), to zero where there are no rows, or rows have no side."""
        for g in np.flatnonzero(self.padding):
            values[g, :, -self.padding[g] :] = 0
        if self.sides is not None:
            values *= np.abs(self.sides)

    def of_problems(self, keep: NDArray[np.bool_]) -> list[Block]:
        """Keep some of all problems, numbered anew; groups have different ones then."""
        number = np.cumsum(keep) - 1
        return [
            replace(
                group,
                problems=number[group.problems[:, mine]],
                sign=group.sign[:, mine],
                scale=group.scale[:, mine],
                sides=None if group.sides is None else group.sides[:, mine],
            )
            for group in self.groups()
            for mine in [keep[group.problems[0]] & (group.problems[0] >= 0)]
            if mine.any()
        ]

    def groups(self) -> list[Block]:
        """Return every group as a block of its own."""
        if len(self.problems) == 1:
            return [self]
        return [
            Block(
                self.single[g : g + 1],
                None if self.double is None else self.double[g : g + 1],
                self.problems[g : g + 1],
                self.sign[g : g + 1],
                self.scale[g : g + 1],
                None if self.row_weights is None else self.row_weights[g : g + 1],
                self.padding[g : g + 1],
            )
            for g in range(len(self.problems))
        ]


class Batch:
    """Blocks, and how their contributions are summed: the same way whatever the threads.

    Every contribution to a problem has a slot of its own, so that threads can write theirs down
    without waiting for each other; the slots are summed in their order.

    Parameters
    ----------
    blocks : list of Block
        The rows.
    n_problems : int
        Number of problems Q.
    """

    def __init__(self, blocks: list[Block], n_problems: int) -> None:
        self.blocks = blocks
        self.n_problems = n_problems
        self.slots = []
        taken = np.zeros(n_problems + 1, dtype=np.intp)  # the last one is nobody's problem, −1
        for block in blocks:
            slots = np.empty(block.problems.shape, dtype=np.intp)
            for own, problems in zip(slots, block.problems, strict=True):
                own[:] = taken[problems]
                taken[problems] += 1
                taken[-1] = 0
            self.slots.append(slots)
        self.n_slots = int(taken.max())
        self.buffers: dict[tuple[type, tuple[int, ...]], Floats] = {}

    def places(self) -> list[Places]:
        """Return where the rows of every problem are."""
        places: list[Places] = [[] for _ in range(self.n_problems)]
        for b, block in enumerate(self.blocks):
            for (g, i), problem in np.ndenumerate(block.problems):
                if problem >= 0:
                    places[problem].append((b, g, i))
        return places

    def map(self, step: Callable[[int, Block], Result], crew: Crew) -> list[Result]:
        """Apply `step` to the number of every block and the block."""
        return crew.map(lambda b: step(b, self.blocks[b]), list(range(len(self.blocks))))

    def collect(
        self,
        part: Callable[[int, Block], Floats],
        crew: Crew,
        dtype: type = np.float64,
        width: tuple[int, ...] = (),
    ) -> Floats:
        """Return ``part(number, block)``, (g, q, *width), of all blocks as (slots, Q + 1, *width).

        The last problem is nobody's. The array is used again by the next call with the same dtype
        and width.
        """
        key = (dtype, width)
        if key not in self.buffers:
            self.buffers[key] = np.zeros((self.n_slots, self.n_problems + 1, *width), dtype=dtype)
        buffer = self.buffers[key]

        def put(b: int, block: Block) -> None:
            buffer[self.slots[b], block.problems] = part(b, block)

        self.map(put, crew)
        return buffer

    def sum(self, part: Callable[[int, Block], Floats], crew: Crew) -> Floats:
        """Return Σ over the blocks of ``part(number, block)``, (g, q), as (Q,)."""
        total: Floats = self.collect(part, crew)[:, :-1].sum(axis=0)
        return total


def shares_of(n_problems: int) -> list[slice]:
    """Cut problems into shares whose vectors fit in a cache."""
    starts = range(0, n_problems, PROBLEMS_AT_ONCE)
    return [slice(start, min(start + PROBLEMS_AT_ONCE, n_problems)) for start in starts]


def stack(blocks: list[Block]) -> list[Block]:
    """Put small groups of similar size together, the smaller ones filled up to the largest.

    At least about eight stacks are made, so that threads can share them; how many threads there are
    plays no part, for padding may change the last digit of a sum.
    """
    most = min(STACK_SIZE, sum(block.problems.size * block.n_rows for block in blocks) // 8)
    stacks: list[Block] = []
    pile: list[Block] = []
    size = 0
    for block in sorted(blocks, key=lambda block: (block.problems.shape[1], block.n_rows)):
        n_problems = block.problems.shape[1]
        fits = (
            isinstance(block.single, np.ndarray)
            and block.sides is None
            and bool(pile)
            and size + n_problems * block.n_rows <= most
            and n_problems * block.n_rows <= LARGEST_STACKED
            and n_problems <= 1.25 * pile[0].problems.shape[1]
            and pile[0].sides is None
            and 0.8 * pile[0].n_rows <= block.n_rows <= 1.25 * pile[0].n_rows
        )
        if not fits and pile:
            stacks.append(_stacked(pile))
            pile, size = [], 0
        pile.append(block)
        size += n_problems * block.n_rows
    return [*stacks, _stacked(pile)] if pile else stacks


def _stacked(pile: list[Block]) -> Block:
    if len(pile) == 1:
        return pile[0]
    n_rows = max(block.n_rows for block in pile)

    def padded(arrays: list[Any]) -> Any:
        if arrays[0] is None:
            return None
        result = np.zeros((len(arrays), n_rows, *arrays[0].shape[2:]), dtype=arrays[0].dtype)
        for g, array in enumerate(arrays):
            result[g, : array.shape[1]] = array[0]
        return result

    n_problems = max(block.problems.shape[1] for block in pile)

    def filled(arrays: list[Any], filling: float) -> Any:
        result = np.full((len(arrays), n_problems), filling, dtype=arrays[0].dtype)
        for g, array in enumerate(arrays):
            result[g, : array.shape[1]] = array[0]
        return result

    missing = [n_rows - block.n_rows + int(block.padding[0]) for block in pile]
    return Block(
        padded([block.single for block in pile]),
        padded([block.double for block in pile]),
        filled([block.problems for block in pile], -1),
        filled([block.sign for block in pile], 1),
        filled([block.scale for block in pile], 0),
        padded([block.row_weights for block in pile]),
        np.array(missing),
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
    """Return s · (W Xᵀ) for the block's problems, shape (g, q, m)."""
    own = weights[block.problems]
    own *= block.sign[..., np.newaxis]
    folded = along_rows(own.astype(dtype, copy=False), block.rows(dtype))
    if block.sides is not None:
        folded *= block.sides
    return folded


def wrong_side(margins: Floats, out: Floats | None = None) -> Floats:
    """Return the chances of the wrong side, 1 / (1 + exp(z)), of folded margins z."""
    wrong: Floats = np.minimum(margins, LARGEST_MARGIN, out=out)
    np.exp(wrong, out=wrong)
    wrong += 1
    return np.reciprocal(wrong, out=wrong)


def loss(block: Block, wrong: Floats) -> Floats:
    """Return Σ_i scale log(1 + exp(−z)) per problem, (g, q), from the chances of the wrong side.

    A row counts for 21 at most, and in single precision for nothing beyond a margin of 17: good
    enough to compare decrements with. Without weights the logarithm of products takes the place of
    four sums of logarithms.
    """
    right = np.subtract(1, wrong)
    np.maximum(right, 1e-9, out=right)
    if block.row_weights is not None:
        return -block.scale * np.einsum("gqm,gm->gq", np.log(right), block.row_weights)
    quarter = right.shape[2] // 4
    product = right[:, :, :quarter] * right[:, :, quarter : 2 * quarter]
    product *= right[:, :, 2 * quarter : 3 * quarter]
    product *= right[:, :, 3 * quarter : 4 * quarter]
    total = np.log(product, out=product).sum(axis=2)
    total += np.log(right[:, :, 4 * quarter :]).sum(axis=2)
    return -block.scale * total


def pull(block: Block, wrong: Floats) -> Floats:
    """Return the block's part of the gradients, −Σ_i scale s p xᵢ, shape (g, q, d)."""
    if block.row_weights is not None:
        wrong = wrong * block.row_weights[:, np.newaxis].astype(wrong.dtype)
    if block.sides is not None:
        wrong = wrong * block.sides
    pulled = against_rows(wrong, block.rows(wrong.dtype.type))
    pulled *= -(block.scale * block.sign)[..., np.newaxis]
    return pulled


def curvature(block: Block, wrong: Floats) -> Floats:
    """Return scale p (1 − p) in single precision, shape (g, q, m)."""
    wrong = wrong.astype(np.float32, copy=False)
    curved: Floats = wrong - wrong * wrong
    curved *= block.scale.astype(np.float32)[..., np.newaxis]
    if block.row_weights is not None:
        curved *= block.row_weights[:, np.newaxis].astype(np.float32)
    return curved


def slopes_after(block: Block, margins: Floats, along: Floats, step: Floats) -> Floats:
    """Return the slopes of the losses along directions after steps, (g, q).

    Parameters
    ----------
    block : Block
        The rows.
    margins, along : ndarrays of shape (g, q, m)
        Folded margins of the weights and of the directions.
    step : ndarray of shape (Q,)
        Length of every problem's step.
    """
    wrong: Floats = along * step[block.problems][..., np.newaxis].astype(along.dtype)
    wrong += margins
    wrong_side(wrong, out=wrong)
    if block.row_weights is not None:
        wrong *= block.row_weights[:, np.newaxis].astype(along.dtype)
    return -block.scale * np.einsum("gqm,gqm->gq", wrong, along)


def squares_against(curved: Floats, block: Block) -> Floats:
    """Return Σ_i curvature xᵢ², feature by feature, (g, q, d)."""
    rows = block.single
    squares = rows * rows if isinstance(rows, np.ndarray) else rows.power(2)
    return against_rows(curved, squares)


def curve_times(block: Block, curved: Floats, directions: Floats) -> Floats:
    """Return the block's part of Hessians times directions, Σ_i scale p(1−p) (xᵢ·v) xᵢ."""
    along = along_rows(directions, block.single)
    along *= curved
    return against_rows(along, block.single)


def hessian(rows: Floats, curved: Floats, negligible: float) -> Floats:
    """Return a group's part of one problem's Hessian, (d, d), from its curvatures (m,).

    Rows whose curvature is not above `negligible` are left out: this is for a preconditioner.
    """
    kept = np.flatnonzero(curved > negligible)
    rows = rows[kept]
    rows *= np.sqrt(curved[kept, np.newaxis])
    with np.errstate(invalid="ignore"):
        part: Floats = rows.T @ rows  # of one and the same array: half the work
    return part


# A small product may load what lies beyond its arrays into lanes that nobody reads, and the
# processor then flags an invalid operation that never was: products keep quiet. What is really not
# finite is found by the solver.


def along_rows(vectors: Floats, rows: Any) -> Floats:
    """Return vectors · rowsᵀ, (g, q, d) times (g, d, m)."""
    if isinstance(rows, np.ndarray):
        with np.errstate(invalid="ignore"):
            return vectors @ rows.transpose(0, 2, 1)
    return np.ascontiguousarray((rows @ vectors[0].T).T)[np.newaxis]


def against_rows(values: Floats, rows: Any) -> Floats:
    """Return values · rows, (g, q, m) times (g, m, d)."""
    if isinstance(rows, np.ndarray):
        with np.errstate(invalid="ignore"):
            return values @ rows
    return np.ascontiguousarray((rows.T @ values[0].T).T)[np.newaxis]
