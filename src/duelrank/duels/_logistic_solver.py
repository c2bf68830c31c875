"""Newton's method for many logistic problems at once.

Every iteration computes the gradients of all problems that have not converged, solves for their
Newton directions by preconditioned conjugate gradients, and searches along them. All of it runs
through the matrix products of blocks of rows (`_logistic_objective`), so the cost is data passes;
what is done to save them:

- *two stages*: the way to the neighbourhood of the solutions is gone in single precision; only the
  last step or two take gradients in double precision, and their Hessians stay in single;
- *line search without products*: along a direction margins change linearly, so a trial step costs
  one pass over the margins;
- *preconditioners*: where a Hessian per problem fits in memory and pays off, its inverse, built
  again when conjugate gradients get slow, from the rows whose curvature counts; elsewhere one
  eigenbasis for all problems, with one curvature per problem;
- *problems that have converged leave*, and so do those that make no progress any more: in single
  precision they go on to double precision, there they have failed.

The certificate of a problem is its relative Newton decrement, ½ gᵀH⁻¹g / f: what the next step
would gain. It is measured before the last step, so the error that remains is smaller still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    stack,
    wrong_side,
)
from duelrank.duels._logistic_preconditioner import Preconditioner

# Conjugate gradients stop when the preconditioned residual has shrunk so far: little is asked for
# while the decrement is large and the model of the objective crude.
FORCING_FAR, NEAR = 0.5, 0.1
SINGLE_TOL = 1e-5  # what gradients in single precision are good for
SEARCH_ABOVE = 1e-2  # relative decrement above which full steps are not trusted
MOST_TRIALS = 10
FLAT = 0.1  # a step is right when the slope has shrunk so far
WORTH_LEAVING = 0.7  # share of problems still going below which the others leave
# Progress is a decrement, or far from the solution an objective, below this share of the lowest one
# so far; a problem that made none in so many iterations is stuck.
LOWER_DECREMENT, LOWER_VALUE = 0.9, 0.999
PATIENCE = 8


class Stage(NamedTuple):
    """How precisely gradients are taken, how far to go, and how well to solve for directions."""

    dtype: type
    tol: float
    forcing: float  # what conjugate gradients must reach near the solution
    most_inner: int
    stragglers: float  # share of problems for which no further inner iteration is made
    budget: int  # most iterations


class Solution(NamedTuple):
    """Weights (Q, d), relative Newton decrements (Q,) and iterations (Q,) of all problems."""

    weights: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]


def solve(
    blocks: list[Block],
    penalty: Floats,
    start: Floats,
    *,
    tol: float,
    max_iter: int,
    crew: Crew,
    preconditioner: Preconditioner,
    on_iteration: Callable[[], None] = lambda: None,
) -> Solution:
    """Minimise all problems.

    Parameters
    ----------
    blocks : list of Block
        The rows. Without double precision copies, gradients are in single precision.
    penalty : ndarray of shape (d,)
        Penalty of every weight; 0 for an intercept.
    start : ndarray of shape (Q, d)
        Where to start; zeros if nothing better is known.
    tol : float
        Relative Newton decrement below which a problem has converged.
    max_iter : int
        Most iterations.
    crew : Crew
        The threads.
    preconditioner : Preconditioner
        Learns while the problems are solved.
    on_iteration : callable
        Called after every iteration.

    Returns
    -------
    solution : Solution
        A problem has converged if its decrement is at most `tol`; one that has not may have gone
        through fewer than `max_iter` iterations.
    """
    weights = start.astype(np.float64)
    decrement = np.full(len(weights), np.inf)
    n_iter = np.zeros(len(weights), dtype=np.intp)
    iterations = 0
    for stage in _stages(blocks[0].double is not None, tol, max_iter):
        budget = min(stage.budget, max_iter - iterations)
        for active, reached in _newton(
            blocks, penalty, weights, stage, budget, preconditioner, crew
        ):
            decrement[active] = reached
            n_iter[active] += 1
            iterations += 1
            on_iteration()
    return Solution(weights, decrement, n_iter)


def _stages(double: bool, tol: float, max_iter: int) -> list[Stage]:
    """Go most of the way in single precision; if that gets stuck, half of the iterations are left.

    The directions of the last stage are solved for well: its one step is then as good as two.
    """
    single = Stage(np.float32, tol, forcing=0.2, most_inner=12, stragglers=0.1, budget=max_iter)
    if not double:
        return [single]
    return [
        single._replace(tol=max(tol, SINGLE_TOL), budget=(max_iter + 1) // 2),
        Stage(np.float64, tol, forcing=0.001, most_inner=50, stragglers=0.0, budget=max_iter),
    ]


def _newton(
    blocks: list[Block],
    penalty: Floats,
    all_weights: Floats,
    stage: Stage,
    budget: int,
    preconditioner: Preconditioner,
    crew: Crew,
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """Move `all_weights` until every decrement is below the tolerance.

    Yields the problems that took part in an iteration and their decrements.
    """
    n_all = len(all_weights)
    active = np.arange(n_all)
    going = np.ones(n_all, dtype=bool)
    progress = _Progress(n_all)
    batch = Batch(blocks, n_all)
    for _ in range(budget):
        weights = all_weights[active]
        at = _evaluate(batch, weights, penalty, stage.dtype, crew)
        preconditioner.update(batch, active, at.curved, crew)
        direction, unsolved = _directions(
            batch, active, going, at, penalty, stage, preconditioner, crew
        )
        slope = np.einsum("qj,qj->q", at.gradient, direction)
        decrement = np.where(going, 0.5 * (np.abs(slope) + unsolved) / at.value, 0)
        step: Floats = np.ones(len(active))
        if np.any(decrement > SEARCH_ABOVE):
            step = _search(batch, at.margins, weights, direction, slope, penalty, crew)
        all_weights[active] = weights + step[:, np.newaxis] * direction
        yield active[going], decrement[going]

        going = going & (decrement > stage.tol) & ~progress.stuck(active, decrement, at.value)
        if not going.any():
            return
        # Leaving means stacking anew: only when it saves more than it costs.
        if going.mean() < WORTH_LEAVING:
            active = active[going]
            keep = np.zeros(n_all, dtype=bool)
            keep[active] = True
            parts = [part for block in blocks for part in block.of_problems(keep)]
            batch = Batch(stack(parts), len(active))
            going = np.ones(len(active), dtype=bool)


class _Progress:
    """Remembers the lowest decrements and objectives of all problems, and since when."""

    def __init__(self, n_problems: int) -> None:
        self.decrement = np.full(n_problems, np.inf)
        self.value = np.full(n_problems, np.inf)
        self.idle = np.zeros(n_problems, dtype=np.intp)

    def stuck(
        self, active: NDArray[np.intp], decrement: Floats, value: Floats
    ) -> NDArray[np.bool_]:
        """Tell which of the active problems have made no progress for too long."""
        advanced = decrement < LOWER_DECREMENT * self.decrement[active]
        advanced |= value < LOWER_VALUE * self.value[active]
        self.idle[active] = np.where(advanced, 0, self.idle[active] + 1)
        self.decrement[active] = np.fmin(self.decrement[active], decrement)
        self.value[active] = np.fmin(self.value[active], value)
        stuck: NDArray[np.bool_] = self.idle[active] >= PATIENCE
        return stuck


class _Evaluation(NamedTuple):
    """Objective (Q,) and gradient (Q, d) of all problems; of every block margins and curvatures."""

    value: Floats
    gradient: Floats
    margins: list[Floats]
    curved: list[Floats]


def _evaluate(
    batch: Batch, weights: Floats, penalty: Floats, dtype: type, crew: Crew
) -> _Evaluation:
    margins: list[Any] = [None] * len(batch.blocks)
    curved: list[Any] = [None] * len(batch.blocks)
    losses: list[Any] = [None] * len(batch.blocks)
    precise: Floats = weights.astype(dtype, copy=False)

    def part(b: int, block: Block) -> Floats:
        margins[b] = folded_margins(block, precise, dtype)
        wrong = wrong_side(margins[b])
        block.blank(wrong)
        losses[b] = loss(block, wrong)
        curved[b] = curvature(block, wrong)
        return pull(block, wrong)

    pulls = batch.collect(part, crew, dtype=dtype, width=(weights.shape[1],))
    gradient = np.empty_like(weights)
    value = batch.sum(lambda b, _: losses[b], crew)

    def add_penalty(q: slice) -> None:
        pull_back = weights[q] * penalty
        value[q] += 0.5 * np.einsum("qj,qj->q", weights[q], pull_back)
        np.add(pulls[:, q].sum(axis=0), pull_back, out=gradient[q])

    crew.map(add_penalty, batch.shares())
    return _Evaluation(np.maximum(value, np.finfo(np.float64).tiny), gradient, margins, curved)


def _directions(
    batch: Batch,
    active: NDArray[np.intp],
    going: NDArray[np.bool_],
    at: _Evaluation,
    penalty: Floats,
    stage: Stage,
    preconditioner: Preconditioner,
    crew: Crew,
) -> tuple[Floats, Floats]:
    """Solve H x = −g for all problems still going by preconditioned conjugate gradients.

    Returns x and what its residual r leaves open, rᵀM⁻¹r with M the preconditioner: gᵀH⁻¹g is
    about −gᵀx plus that. Where M has lost its definiteness, nothing is known: infinity.
    """
    shares = batch.shares()
    penalty = penalty.astype(np.float32)
    residual = np.empty(at.gradient.shape, dtype=np.float32)
    conjugate = np.empty_like(residual)
    solution = np.zeros_like(residual)
    gain = np.empty(len(active), dtype=np.float32)

    def begin(q: slice) -> None:
        residual[q] = -at.gradient[q]
        conjugate[q] = preconditioner.apply(residual[q], active[q])
        gain[q] = np.einsum("qj,qj->q", residual[q], conjugate[q])

    crew.map(begin, shares)
    unsolved = np.where(gain < 0, np.inf, gain)
    forcing = np.where(gain > 2 * NEAR * at.value, FORCING_FAR, stage.forcing)
    enough = (forcing**2 * gain).astype(np.float32)
    live = going & (gain > 0)

    def advance(q: slice) -> None:
        image = parts[:, q].sum(axis=0)
        image += penalty * conjugate[q]
        bend = np.einsum("qj,qj->q", conjugate[q], image)
        live[q] &= bend > 0
        length = np.divide(gain[q], bend, out=np.zeros_like(bend), where=live[q])[:, np.newaxis]
        solution[q] += length * conjugate[q]
        residual[q] -= length * image
        guess = preconditioner.apply(residual[q], active[q])
        new_gain = np.einsum("qj,qj->q", residual[q], guess)
        unsolved[q] = np.where(live[q], np.maximum(new_gain, 0), unsolved[q])
        live[q] &= new_gain > enough[q]
        ratio = np.divide(new_gain, gain[q], out=np.zeros_like(bend), where=live[q])
        conjugate[q] *= ratio[:, np.newaxis]
        conjugate[q] += guess
        gain[q] = new_gain

    still = going.sum()
    inner = 0
    while inner < stage.most_inner and live.sum() > stage.stragglers * still:
        inner += 1
        parts = _hessian_times(batch, at.curved, conjugate, live, crew)
        crew.map(advance, shares)
    preconditioner.needed(inner)
    lost = ~np.isfinite(solution).all(axis=1)
    solution[lost], unsolved[lost] = 0, np.inf
    return solution.astype(np.float64), unsolved.astype(np.float64)


def _hessian_times(
    batch: Batch, curved: list[Floats], vectors: Floats, live: NDArray[np.bool_], crew: Crew
) -> Floats:
    """Return Σ_i scale p(1−p) (xᵢ·v) xᵢ of the live problems, still to be summed over slots.

    For the others it is anything finite.
    """

    def part(b: int, block: Block) -> Floats:
        mine = live[block.problems[0]]
        if len(block.problems) > 1 or mine.all():
            return curve_times(block, curved[b], vectors[block.problems])
        product = np.zeros((1, len(mine), vectors.shape[1]), dtype=np.float32)
        if mine.any():
            some = vectors[block.problems[:, mine]]
            product[:, mine] = curve_times(block, curved[b][:, mine], some)
        return product

    return batch.collect(part, crew, dtype=np.float32, width=(vectors.shape[1],))


def _search(
    batch: Batch,
    margins: list[Floats],
    weights: Floats,
    direction: Floats,
    slope: Floats,
    penalty: Floats,
    crew: Crew,
) -> Floats:
    """Find steps at which the slope along each direction has all but vanished.

    The objectives are convex, so their slopes along a direction increase: a secant inside a bracket
    that grows while slopes are negative.
    """
    dtype = margins[0].dtype.type
    precise = direction.astype(dtype, copy=False)
    along = batch.map(lambda _, block: folded_margins(block, precise, dtype), crew)
    linear = np.einsum("qj,qj,j->q", weights, direction, penalty)
    quadratic = np.einsum("qj,qj,j->q", direction, direction, penalty)

    def slopes_at(step: Floats) -> Floats:
        def part(b: int, block: Block) -> Floats:
            wrong = along[b] * step[block.problems][..., np.newaxis].astype(dtype)
            wrong += margins[b]
            wrong_side(wrong, out=wrong)
            if block.row_weights is not None:
                wrong *= block.row_weights[:, np.newaxis].astype(dtype)
            return -block.scale * np.einsum("gqm,gqm->gq", wrong, along[b])

        return linear + step * quadratic + batch.sum(part, crew)

    step = np.ones(len(slope))
    low, low_slope = np.zeros(len(slope)), slope.copy()
    high = np.full(len(slope), np.inf)
    for _ in range(MOST_TRIALS):
        current = slopes_at(step)
        searching = np.abs(current) > FLAT * np.abs(slope)
        if not searching.any():
            break
        rise = np.maximum(current - low_slope, np.finfo(np.float64).tiny)
        secant = step - current * (step - low) / rise
        ahead = current < 0
        low, low_slope = np.where(ahead, step, low), np.where(ahead, current, low_slope)
        high = np.where(ahead, high, step)
        inside = np.isfinite(high)
        margin = 0.1 * np.where(inside, high - low, 0)
        bounded = np.clip(secant, low + margin, np.where(inside, high, np.inf) - margin)
        growing = np.clip(secant, 1.5 * step, 5 * step)
        step = np.where(searching, np.where(inside, bounded, growing), step)
    return step
