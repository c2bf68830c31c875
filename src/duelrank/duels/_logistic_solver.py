"""Newton's method for many logistic problems at once.

Every iteration computes the gradients of all problems that have not converged, solves for their
Newton directions by preconditioned conjugate gradients, and searches along them. What it needs of
the rows it asks `Problems` for, which hold them (`_logistic_held`) or take passes over blocks of
them (`_logistic_passes`). The cost is these data passes; what is done to save them:

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
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from duelrank.duels._logistic_objective import Crew, Floats, shares_of
from duelrank.duels._logistic_preconditioner import Preconditioner

# Conjugate gradients stop when the preconditioned residual has shrunk so far: little is asked for
# while the decrement is large and the model of the objective crude.
FORCING_FAR, NEAR = 0.5, 0.1
FORCING_DONE = 0.1  # what has all but converged only needs its certificate
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
    adaptive: bool = False  # whether to ask for less as long as the decrement is larger


# Sums over all rows, asked for some of the problems at a time: so their vectors stay in a cache.
Sums = Callable[[slice], Floats]


class Evaluation(NamedTuple):
    """The losses of Q problems at some weights, without the penalty.

    Attributes
    ----------
    weights : ndarray of shape (Q, d)
        The weights.
    value : ndarray of shape (Q,)
        The losses.
    gradient : Sums
        Their gradients, (Q, d).
    rows : anything
        What the problems remember of their rows.
    """

    weights: Floats
    value: Floats
    gradient: Sums
    rows: Any


class Problems(Protocol):
    """Logistic problems, as the solver sees them."""

    precise: bool  # whether gradients can be had in double precision
    costly: bool  # whether every question is a pass over rows that have to be made first

    def evaluate(self, weights: Floats, dtype: type) -> Evaluation:
        """Return losses and gradients at weights (Q, d), in single or double precision."""

    def hessian_times(self, at: Evaluation, vectors: Floats, live: NDArray[np.bool_]) -> Sums:
        """Return the Hessians of the losses times vectors (Q, d), in single precision.

        For problems that are not live it is anything finite.
        """

    def slopes_along(self, at: Evaluation, direction: Floats) -> Callable[[Floats], Floats]:
        """Return a function of step lengths (Q,): the slopes of the losses after these steps."""

    def teach(
        self, preconditioner: Preconditioner, active: NDArray[np.intp], at: Evaluation
    ) -> None:
        """Let a preconditioner learn the curvatures, `active` being the problems' numbers."""

    def only(self, active: NDArray[np.intp]) -> Problems:
        """Return some of the problems that there were at first, by their numbers."""


@dataclass
class State:
    """How far Q problems have come.

    Attributes
    ----------
    weights : ndarray of shape (Q, d)
        Their weights.
    decrement : ndarray of shape (Q,)
        Relative Newton decrements before the last step; infinite before the first.
    n_iter : ndarray of int, of shape (Q,)
        Iterations.
    done : ndarray of bool, of shape (Q,)
        Which problems are through with the current stage.
    stage : int
        Number of the stage.
    iterations, iterations_in_stage : int
        Iterations in which any problem took part.
    """

    weights: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]
    done: NDArray[np.bool_]
    stage: int = 0
    iterations: int = 0
    iterations_in_stage: int = 0

    @classmethod
    def at(cls, weights: Floats) -> State:
        """Start from some weights."""
        n_problems = len(weights)
        return cls(
            weights.astype(np.float64),
            np.full(n_problems, np.inf),
            np.zeros(n_problems, dtype=np.intp),
            np.zeros(n_problems, dtype=bool),
        )

    def enter(self, stage: int) -> None:
        """Go on to another stage."""
        self.stage, self.iterations_in_stage = stage, 0
        self.done[:] = False


def solve(
    problems: Problems,
    penalty: Floats,
    start: Floats | State,
    *,
    tol: float,
    max_iter: int,
    crew: Crew,
    preconditioner: Preconditioner,
    on_iteration: Callable[[State], None] = lambda state: None,
) -> State:
    """Minimise all problems.

    Parameters
    ----------
    problems : Problems
        The problems.
    penalty : ndarray of shape (d,)
        Penalty of every weight; 0 for an intercept.
    start : ndarray of shape (Q, d), or State
        Where to start, zeros if nothing better is known; or how far the problems have come, which
        is changed in place.
    tol : float
        Relative Newton decrement below which a problem has converged.
    max_iter : int
        Most iterations.
    crew : Crew
        The threads.
    preconditioner : Preconditioner
        Learns while the problems are solved.
    on_iteration : callable
        Called after every iteration with the state.

    Returns
    -------
    state : State
        A problem has converged if its decrement is at most `tol`; one that has not may have gone
        through fewer than `max_iter` iterations.
    """
    state = start if isinstance(start, State) else State.at(start)
    stages = _stages(problems, tol, max_iter)
    state.stage = min(state.stage, len(stages) - 1)  # others may have brought it here
    for number in range(state.stage, len(stages)):
        if number > state.stage:
            state.enter(number)
        budget = min(stages[number].budget - state.iterations_in_stage, max_iter - state.iterations)
        for active, decrement in _newton(
            problems, penalty, state, stages[number], budget, preconditioner, crew
        ):
            state.decrement[active] = decrement
            state.n_iter[active] += 1
            state.iterations += 1
            state.iterations_in_stage += 1
            on_iteration(state)
    return state


def _stages(problems: Problems, tol: float, max_iter: int) -> list[Stage]:
    """Go most of the way in single precision; if that gets stuck, half of the iterations are left.

    The directions of the last stage are solved for well: its one step is then as good as two. Where
    passes are costly, precision saves little, and directions are as good as the decrement deserves.
    """
    single = Stage(np.float32, tol, forcing=0.2, most_inner=12, stragglers=0.1, budget=max_iter)
    if problems.costly:
        dtype: type = np.float64 if problems.precise else np.float32
        return [single._replace(dtype=dtype, forcing=0.001, stragglers=0.0, adaptive=True)]
    if not problems.precise:
        return [single]
    return [
        single._replace(tol=max(tol, SINGLE_TOL), budget=(max_iter + 1) // 2),
        Stage(np.float64, tol, forcing=0.001, most_inner=50, stragglers=0.0, budget=max_iter),
    ]


def _newton(
    problems: Problems,
    penalty: Floats,
    state: State,
    stage: Stage,
    budget: int,
    preconditioner: Preconditioner,
    crew: Crew,
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """Move the weights of all problems that are not done until their decrements are small enough.

    Yields the problems that took part in an iteration and their decrements.
    """
    active = np.flatnonzero(~state.done)
    if len(active) == 0:
        return
    going = np.ones(len(active), dtype=bool)
    progress = _Progress(len(state.done))
    some = problems if len(active) == len(state.done) else problems.only(active)
    for _ in range(budget):
        weights = state.weights[active]
        at = some.evaluate(weights, stage.dtype)
        value, gradient = _with_penalty(at, penalty, crew)
        some.teach(preconditioner, active, at)
        direction, unsolved = _directions(
            some, active, going, at, value, gradient, penalty, stage, preconditioner, crew
        )
        slope = np.einsum("qj,qj->q", gradient, direction)
        decrement = np.where(going, 0.5 * (np.abs(slope) + unsolved) / value, 0)
        step: Floats = np.ones(len(active))
        if np.any(decrement > (NEAR if problems.costly else SEARCH_ABOVE)):
            step = _search(some, at, direction, slope, penalty)
        state.weights[active] = weights + step[:, np.newaxis] * direction
        taking_part = going
        going = going & (decrement > stage.tol) & ~progress.stuck(active, decrement, value)
        state.done[active] = ~going
        yield active[taking_part], decrement[taking_part]

        if not going.any():
            return
        # Leaving means arranging rows anew: only when it saves more than it costs.
        if going.mean() < WORTH_LEAVING:
            active = active[going]
            some = problems.only(active)
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


def _with_penalty(at: Evaluation, penalty: Floats, crew: Crew) -> tuple[Floats, Floats]:
    """Return objectives (Q,) and gradients (Q, d)."""
    value = at.value.copy()
    gradient = np.empty_like(at.weights)

    def add(q: slice) -> None:
        pull_back = at.weights[q] * penalty
        value[q] += 0.5 * np.einsum("qj,qj->q", at.weights[q], pull_back)
        np.add(at.gradient(q), pull_back, out=gradient[q])

    crew.map(add, shares_of(len(value)))
    return np.maximum(value, np.finfo(np.float64).tiny), gradient


def _directions(
    problems: Problems,
    active: NDArray[np.intp],
    going: NDArray[np.bool_],
    at: Evaluation,
    value: Floats,
    gradient: Floats,
    penalty: Floats,
    stage: Stage,
    preconditioner: Preconditioner,
    crew: Crew,
) -> tuple[Floats, Floats]:
    """Solve H x = −g for all problems still going by preconditioned conjugate gradients.

    Returns x and what its residual r leaves open, rᵀM⁻¹r with M the preconditioner: gᵀH⁻¹g is
    about −gᵀx plus that. Where M has lost its definiteness, nothing is known: infinity.
    """
    shares = shares_of(len(active))
    penalty = penalty.astype(np.float32)
    residual = np.empty(gradient.shape, dtype=np.float32)
    conjugate = np.empty_like(residual)
    solution = np.zeros_like(residual)
    gain = np.empty(len(active), dtype=np.float32)

    def begin(q: slice) -> None:
        residual[q] = -gradient[q]
        conjugate[q] = preconditioner.apply(residual[q], active[q])
        gain[q] = np.einsum("qj,qj->q", residual[q], conjugate[q])

    crew.map(begin, shares)
    unsolved = np.where(gain < 0, np.inf, gain)
    near: Any = stage.forcing
    if stage.adaptive:  # a step leaves a decrement of about the square of what it started from
        near = np.clip(np.sqrt(np.maximum(gain, 0) / value), stage.forcing, FORCING_FAR)
        near = np.where(gain > 2 * stage.tol * value, near, FORCING_DONE)
    forcing = np.where(gain > 2 * NEAR * value, FORCING_FAR, near)
    enough = (forcing**2 * gain).astype(np.float32)
    live = going & (gain > 0)

    def advance(q: slice) -> None:
        image = penalty * conjugate[q]
        image += product(q)
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
        product = problems.hessian_times(at, conjugate, live)
        crew.map(advance, shares)
    preconditioner.needed(inner)
    lost = ~np.isfinite(solution).all(axis=1)
    solution[lost], unsolved[lost] = 0, np.inf
    return solution.astype(np.float64), unsolved.astype(np.float64)


def _search(
    problems: Problems, at: Evaluation, direction: Floats, slope: Floats, penalty: Floats
) -> Floats:
    """Find steps at which the slope along each direction has all but vanished.

    The objectives are convex, so their slopes along a direction increase: a secant inside a bracket
    that grows while slopes are negative.
    """
    losses = problems.slopes_along(at, direction)
    linear = np.einsum("qj,qj,j->q", at.weights, direction, penalty)
    quadratic = np.einsum("qj,qj,j->q", direction, direction, penalty)

    def slopes_at(step: Floats) -> Floats:
        return linear + step * quadratic + losses(step)

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
