"""Newton's method for many logistic problems at once.

Every iteration computes the gradients of all problems that have not converged, solves for their
Newton directions (`_conjugate_gradients`), and searches along them. `Problems` answer all questions
about rows. The cost is the passes over the rows, and these save some of them:

- *two stages*: most of the way is gone in single precision. Only the last step or two take
  gradients in double precision; their Hessians stay in single precision.
- *line search without products*: along a direction margins change linearly, so a trial step costs
  one pass over the margins.
- *preconditioners*: where a Hessian per problem fits in memory and pays off, its inverse; elsewhere
  one eigenbasis for all problems, with one curvature per problem (`_preconditioner`).
- *problems that have converged leave*, and so do problems that make no progress any more: from
  single precision they go on to double precision, there they have failed.

A problem has converged when its relative Newton decrement, ½ gᵀH⁻¹g / f, is at most `tol`. The
decrement is its *certificate*: it says what the next step would gain. It is measured before the
last step, so the remaining error is smaller still. A problem also stops when it is stuck, and all
stop after `max_iter` iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._threads import Threads
from duelrank.duels.logistic._batch import Floats, shares_of
from duelrank.duels.logistic._conjugate_gradients import (
    NEAR,
    Accuracy,
    NewtonSystems,
    solve_systems,
)
from duelrank.duels.logistic._line_search import line_search
from duelrank.duels.logistic._preconditioner import Preconditioner
from duelrank.duels.logistic._problems import Evaluation, Problems

SINGLE_TOL = 1e-5  # what gradients in single precision are good for
SEARCH_ABOVE = 1e-2  # relative decrement above which full steps are not trusted
WORTH_LEAVING = 0.7  # converged problems leave when fewer than this share are still going
# A problem makes progress when its decrement or its objective falls below this share of the lowest
# one so far. A problem without progress in so many iterations is stuck.
LOWER_DECREMENT, LOWER_VALUE = 0.9, 0.999
PATIENCE = 8


@dataclass
class State:
    """How far Q problems have come.

    Attributes
    ----------
    coef : ndarray of shape (Q, d)
        Their coefficients.
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

    coef: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]
    done: NDArray[np.bool_]
    stage: int = 0
    iterations: int = 0
    iterations_in_stage: int = 0

    @classmethod
    def at(cls, coef: Floats) -> State:
        """Start from some coefficients."""
        n_problems = len(coef)
        return cls(
            coef.astype(np.float64),
            np.full(n_problems, np.inf),
            np.zeros(n_problems, dtype=np.intp),
            np.zeros(n_problems, dtype=bool),
        )

    def enter(self, stage: int) -> None:
        """Go on to another stage."""
        self.stage, self.iterations_in_stage = stage, 0
        self.done[:] = False


class Stage(NamedTuple):
    """How precisely gradients are taken, how well directions, and for how many iterations."""

    dtype: type
    accuracy: Accuracy
    budget: int  # most iterations


@dataclass(frozen=True)
class NewtonSolver:
    """Newton's method with a preconditioner.

    Parameters
    ----------
    penalty : ndarray of shape (d,)
        Penalty of every coefficient; 0 for an intercept, unless it is penalised.
    preconditioner : Preconditioner
        It is updated while the problems are solved.
    threads : Threads
        The threads.
    tol : float
        Relative Newton decrement at which a problem has converged.
    max_iter : int
        Most iterations.
    anchor : ndarray of shape (Q, d), or None
        The coefficients from which a deviation is penalised; None for zero.
    """

    penalty: Floats
    preconditioner: Preconditioner
    threads: Threads
    tol: float
    max_iter: int
    anchor: Floats | None = None

    def solve(
        self,
        problems: Problems,
        start: State,
        on_iteration: Callable[[State], None] = lambda state: None,
    ) -> State:
        """Minimise all problems.

        Parameters
        ----------
        problems : Problems
            The problems.
        start : State
            How far they have come; it is changed in place.
        on_iteration : callable
            Called after every iteration with the state.

        Returns
        -------
        state : State
            A problem has converged if its decrement is at most `tol`. One that has not may have
            gone through fewer than `max_iter` iterations.
        """
        state = start
        stages = self._stages(problems)
        # A state from a checkpoint may be in a stage that these problems do not have.
        state.stage = min(state.stage, len(stages) - 1)
        for number in range(state.stage, len(stages)):
            if number > state.stage:
                state.enter(number)
            for active, decrement in self._iterations(problems, state, stages[number]):
                state.decrement[active] = decrement
                state.n_iter[active] += 1
                state.iterations += 1
                state.iterations_in_stage += 1
                on_iteration(state)
        return state

    def _stages(self, problems: Problems) -> list[Stage]:
        """Go most of the way in single precision, but leave half of the iterations for the rest.

        In the last stage directions are solved for accurately, so that one step suffices, and so
        that decrements can be trusted: a preconditioner from curvatures that an outlier had at the
        start hides what is left to gain in its direction. Rows in single precision allow less.
        Where passes are costly, single precision saves little: there is one stage, and directions
        get more accurate as the decrement falls.
        """
        tol, max_iter = self.tol, self.max_iter
        rough = Accuracy(forcing=0.2, most_inner=12, unsolved_share=0.1, tol=tol)
        if problems.costly:
            dtype: type = np.float64 if problems.precise else np.float32
            careful = rough._replace(forcing=0.001, unsolved_share=0.0, adaptive=True)
            return [Stage(dtype, careful, max_iter)]
        last, forcing = (np.float64, 0.001) if problems.precise else (np.float32, 0.01)
        fine = Accuracy(forcing, most_inner=50, unsolved_share=0.0, tol=tol)
        return [
            Stage(np.float32, rough._replace(tol=max(tol, SINGLE_TOL)), (max_iter + 1) // 2),
            Stage(last, fine, max_iter),
        ]

    def _iterations(
        self, problems: Problems, state: State, stage: Stage
    ) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """Move the coefficients of all problems that are not done until they converge or are stuck.

        Yields the problems that took part in an iteration and their decrements.
        """
        active = np.flatnonzero(~state.done)
        if len(active) == 0:
            return
        going = np.ones(len(active), dtype=bool)
        progress = _Progress(len(state.done))
        some = problems if len(active) == len(state.done) else problems.only(active)
        search_above = NEAR if problems.costly else SEARCH_ABOVE
        budget = min(stage.budget - state.iterations_in_stage, self.max_iter - state.iterations)
        for _ in range(budget):
            coef = state.coef[active]
            at = some.evaluate(coef, stage.dtype)
            deviation = coef if self.anchor is None else coef - self.anchor[active]
            value, gradient = self._with_penalty(at, deviation)
            some.update_preconditioner(self.preconditioner, active, at)
            systems = NewtonSystems(some, at, value, gradient, self.penalty, active)
            direction, unsolved = solve_systems(
                systems, going, stage.accuracy, self.preconditioner, self.threads
            )
            slope = np.einsum("qj,qj->q", gradient, direction)
            decrement = np.where(going, 0.5 * (np.abs(slope) + unsolved) / value, 0)
            step: Floats = np.ones(len(active))
            if np.any(decrement > search_above):
                step = _search(some, at, deviation, direction, slope, self.penalty)
            state.coef[active] = coef + step[:, np.newaxis] * direction
            took_part = going
            going = going & (decrement > stage.accuracy.tol)
            going &= ~progress.stuck(active, decrement, value)
            state.done[active] = ~going
            yield active[took_part], decrement[took_part]

            if not going.any():
                return
            # Rows are arranged anew when problems leave: only when that saves more than it costs.
            if going.mean() < WORTH_LEAVING:
                active = active[going]
                some = problems.only(active)
                going = np.ones(len(active), dtype=bool)

    def _with_penalty(self, at: Evaluation, deviation: Floats) -> tuple[Floats, Floats]:
        """Return objectives (Q,) and gradients (Q, d); the deviations (Q, d) are penalised."""
        value = at.value.copy()
        gradient = np.empty_like(at.coef)

        def add(q: slice) -> None:
            of_penalty = deviation[q] * self.penalty
            value[q] += 0.5 * np.einsum("qj,qj->q", deviation[q], of_penalty)
            np.add(at.gradient(q), of_penalty, out=gradient[q])

        self.threads.map(add, shares_of(len(value)))
        return np.maximum(value, np.finfo(np.float64).tiny), gradient


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


def _search(
    problems: Problems,
    at: Evaluation,
    deviation: Floats,
    direction: Floats,
    slope: Floats,
    penalty: Floats,
) -> Floats:
    """Find the lengths of steps along directions, (Q,)."""
    losses = problems.slopes_along(at, direction)
    linear = np.einsum("qj,qj,j->q", deviation, direction, penalty)
    quadratic = np.einsum("qj,qj,j->q", direction, direction, penalty)

    def slopes_at(step: Floats) -> Floats:
        return linear + step * quadratic + losses(step)

    return line_search(slopes_at, slope)
