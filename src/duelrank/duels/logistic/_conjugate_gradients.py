"""Newton directions of many problems at once, by preconditioned conjugate gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._threads import Threads
from duelrank.duels.logistic._batch import Floats, shares_of
from duelrank.duels.logistic._preconditioner import Preconditioner
from duelrank.duels.logistic._problems import Evaluation, Problems

# Conjugate gradients stop at this share of the first residual. Far from the solution a rough
# direction is enough.
FORCING_FAR, NEAR = 0.5, 0.1
FORCING_DONE = 0.1  # a problem that has all but converged only needs its certificate
SETTLED = 1e-2  # relative decrement below which curvatures change little


class Accuracy(NamedTuple):
    """How well to solve for directions.

    Attributes
    ----------
    forcing : float
        What conjugate gradients must reach near the solution.
    most_inner : int
        Most inner iterations.
    unsolved_share : float
        Inner iterations stop when no more than this share of the problems is left to solve.
    tol : float
        Relative decrement at which a problem has converged.
    adaptive : bool, default=False
        Whether to ask for less as long as the decrement is larger.
    """

    forcing: float
    most_inner: int
    unsolved_share: float
    tol: float
    adaptive: bool = False


class NewtonSystems(NamedTuple):
    """The systems H x = −g of the problems that take part in an iteration.

    Attributes
    ----------
    problems : Problems
        The problems.
    at : Evaluation
        Their losses at the current coefficients.
    value : ndarray of shape (Q,)
        Their objectives.
    gradient : ndarray of shape (Q, d)
        The gradients of the objectives.
    penalty : ndarray of shape (d,)
        Penalty of every coefficient.
    active : ndarray of int, of shape (Q,)
        Numbers of the problems among the original ones.
    """

    problems: Problems
    at: Evaluation
    value: Floats
    gradient: Floats
    penalty: Floats
    active: NDArray[np.intp]


def solve_systems(
    systems: NewtonSystems,
    going: NDArray[np.bool_],
    accuracy: Accuracy,
    preconditioner: Preconditioner,
    threads: Threads,
) -> tuple[Floats, Floats]:
    """Solve the systems of all problems that are still going.

    Returns x, and what its residual r leaves open, rᵀM⁻¹r with M the preconditioner: gᵀH⁻¹g is
    about −gᵀx plus that. Where M has lost its definiteness, nothing is known: infinity.
    """
    active, gradient, value = systems.active, systems.gradient, systems.value
    shares = shares_of(len(active))
    penalty = systems.penalty.astype(np.float32)
    residual = np.empty(gradient.shape, dtype=np.float32)
    conjugate = np.empty_like(residual)
    solution = np.zeros_like(residual)
    gain = np.empty(len(active), dtype=np.float32)

    def begin(q: slice) -> None:
        residual[q] = -gradient[q]
        conjugate[q] = preconditioner.apply(residual[q], active[q])
        gain[q] = np.einsum("qj,qj->q", residual[q], conjugate[q])

    threads.map(begin, shares)
    unsolved = np.where(gain < 0, np.inf, gain)
    near = not np.any(going & (gain > 2 * SETTLED * value))
    enough = (_forcing(gain, value, accuracy) ** 2 * gain).astype(np.float32)
    live = going & (gain > 0)

    def advance(q: slice) -> None:
        image = penalty * conjugate[q]
        image += product(q)
        curvature_along = np.einsum("qj,qj->q", conjugate[q], image)
        live[q] &= curvature_along > 0
        length = np.divide(
            gain[q], curvature_along, out=np.zeros_like(curvature_along), where=live[q]
        )[:, np.newaxis]
        solution[q] += length * conjugate[q]
        residual[q] -= length * image
        preconditioned = preconditioner.apply(residual[q], active[q])
        new_gain = np.einsum("qj,qj->q", residual[q], preconditioned)
        unsolved[q] = np.where(live[q], np.maximum(new_gain, 0), unsolved[q])
        live[q] &= new_gain > enough[q]
        ratio = np.divide(new_gain, gain[q], out=np.zeros_like(new_gain), where=live[q])
        conjugate[q] *= ratio[:, np.newaxis]
        conjugate[q] += preconditioned
        gain[q] = new_gain

    n_going = going.sum()
    inner = 0
    while inner < accuracy.most_inner and live.sum() > accuracy.unsolved_share * n_going:
        inner += 1
        product = systems.problems.hessian_times(systems.at, conjugate, live)
        threads.map(advance, shares)
    preconditioner.needed(inner, near)
    lost = ~np.isfinite(solution).all(axis=1)
    solution[lost], unsolved[lost] = 0, np.inf
    return solution.astype(np.float64), unsolved.astype(np.float64)


def _forcing(gain: Floats, value: Floats, accuracy: Accuracy) -> Floats:
    """Return how far the residual of every problem has to shrink; `gain` is gᵀM⁻¹g."""
    near: Any = accuracy.forcing
    if accuracy.adaptive:  # a step leaves a decrement of about the square of what it started from
        near = np.clip(np.sqrt(np.maximum(gain, 0) / value), accuracy.forcing, FORCING_FAR)
        near = np.where(gain > 2 * accuracy.tol * value, near, FORCING_DONE)
    return np.where(gain > 2 * NEAR * value, FORCING_FAR, near)
