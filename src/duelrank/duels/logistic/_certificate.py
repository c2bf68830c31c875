"""Certificates of duels whose columns need care, on the rows as they were given.

`certify` takes what the solver found, as it will be kept, and computes the Newton decrement of
every duel there, in double precision and from the rows of X. Nothing that was scaled, rotated or
rounded on the way has a part in it. A duel whose decrement is above the tolerance is solved again,
by Newton's method with factorisations in double precision, and checked again once its coefficients
are rounded to what is kept.

Columns are centred at their medians if there is an intercept: the difference of two numbers has a
small relative error, and an outlier does not move a median. What the intercept of centred rows is,
b + centre · w, may cancel, so it is summed exactly. A coefficient is measured in units of its own
curvature. Directions come from a QR decomposition of the rows, not of their products, which would
square how badly they are conditioned.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit

from duelrank._pairs import pairs
from duelrank._threads import Threads
from duelrank.duels._sides import DuelRows, count_sides
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings, TrainingRows

# Duels with more numbers, or more columns, are not checked, and none is if they have more numbers
# together: that would take much longer than the fit.
MOST_NUMBERS, MOST_COLUMNS = 2**24, 2**11
MOST_NUMBERS_TOGETHER = 2**28
MOST_ITERATIONS = 100
MOST_HALVINGS = 60
FAR_BELOW = 1e-4  # of the tolerance: how far to go, so that rounding leaves room
LARGEST_CHANGE = 0.5  # of a margin, by a Newton step that is trusted
MOST_ROUNDS = 6  # in which rows that change by more are set aside
ROUNDING = 1e-15  # smallest entry on the diagonal of a triangle, as a share of the largest


def certify(
    rows: TrainingRows,
    objective: Objective,
    settings: Settings,
    threads: Threads,
    fitted: FittedDuels,
    wanted: NDArray[np.bool_] | None = None,
) -> None:
    """Check duels that need care, and solve those again that are not at their minimum.

    Those that are not checked, because they are too large or solved in the space of their rows,
    get an infinite decrement: the solver's own says too little of them.

    Parameters
    ----------
    rows : TrainingRows
        Rows of positive weight.
    objective : Objective
        What is minimised, without an anchor.
    settings : Settings
        The parameters.
    threads : Threads
        The threads.
    fitted : FittedDuels
        What was found; certificates, and coefficients if need be, are replaced.
    wanted : ndarray of bool, of shape (P,), default=None
        Which duels to check; by default all.
    """
    if not objective.extremes.need_care:
        return
    both = np.all(objective.sides, axis=0)
    if wanted is not None:
        both &= wanted
    by_features = both & ~fitted.by_rows
    n_rows = count_sides(rows.feedback, rows.n_classes).sum(axis=0)
    checked = by_features & can_be_checked(np.where(by_features, n_rows, 0), rows.X.shape[1])
    fitted.decrement[both & ~checked] = np.inf
    of_duels = DuelRows(rows.feedback, rows.n_classes)
    first, second = pairs(rows.n_classes)
    places = fitted.places(np.arange(len(first)))

    def check(duel: int) -> None:
        mine, won = of_duels.of(int(first[duel]), int(second[duel]))
        problem = _Problem.of(rows, objective, duel, mine, won)
        place = places[duel]
        start = _Duel(fitted.coef[place], fitted.intercept[duel], fitted.decrement[duel])
        found, n_iter = _solve(problem, start, settings.tol, settings.max_iter)
        fitted.coef[place], fitted.intercept[duel] = found.coef, found.intercept
        fitted.decrement[duel] = found.decrement
        fitted.n_iter[duel] += n_iter

    threads.map(check, np.flatnonzero(checked).tolist())


def can_be_checked(rows_of_duels: NDArray[Any], n_columns: int) -> NDArray[np.bool_]:
    """Tell which duels are small enough to be checked; none is if they are too many together."""
    numbers = rows_of_duels.astype(np.float64) * n_columns
    few = n_columns <= MOST_COLUMNS and float(numbers.sum()) <= MOST_NUMBERS_TOGETHER
    return np.asarray((numbers <= MOST_NUMBERS) & few)


class _Duel(NamedTuple):
    """Coefficients and intercept, in the precision in which they are kept, and the decrement."""

    coef: Floats
    intercept: Any
    decrement: float


class _Problem(NamedTuple):
    """A duel with rows A, (m, d), in units in which curvatures are about one.

    Its objective is ½ Σ_j penalty_j u_j² + Σ_i strength_i log(1 + exp(−side_i (A u)_i)). The
    coefficients of X are unit · u, and the last u is that of the intercept, if there is one.
    """

    rows: Floats
    side: Floats
    strength: Floats
    penalty: Floats
    unit: Floats
    centre: Floats
    fit_intercept: bool
    dtype: Any

    @classmethod
    def of(
        cls,
        rows: TrainingRows,
        objective: Objective,
        duel: int,
        mine: NDArray[np.intp],
        won: NDArray[np.intp],
    ) -> _Problem:
        """Make the problem of a duel from its rows."""
        X, scaling = rows.X, objective.scaling
        n_columns = X.shape[1]
        points = X[mine] if isinstance(X, np.ndarray) else X[mine].toarray()
        points = points.astype(np.float64)
        strength = objective.strength_of_sides(np.array([duel]))[:, 0][won]
        if rows.weights is not None:
            strength = strength * rows.weights[mine]
        centre = np.zeros(n_columns)
        if scaling.fit_intercept:
            centre = np.median(points, axis=0)  # next to which an outlier hides nothing
            points -= centre
        points[:, np.isinf(scaling.scale)] = 0
        largest = np.abs(points).max(axis=0)
        largest[largest == 0] = 1
        points /= largest
        # 1 / √(1 + curvature), whose square may be too large.
        unit = 1 / np.hypot(1, largest * np.sqrt(strength @ points**2 / 4))
        points *= unit * largest
        penalty = unit**2
        if scaling.fit_intercept:
            of_intercept = 2 / np.sqrt(strength.sum())
            points = np.column_stack([points, np.full(len(points), of_intercept)])
            penalty, unit = np.append(penalty, 0), np.append(unit, of_intercept)
        side = np.where(won == 1, 1.0, -1.0)
        fit_intercept = scaling.fit_intercept
        return cls(points, side, strength, penalty, unit, centre, fit_intercept, X.dtype)

    def read(self, duel: _Duel) -> Floats:
        """Return what is kept of a duel as coefficients u."""
        coef = duel.coef.astype(np.float64)
        if self.fit_intercept:
            coef = np.append(coef, exact_sum(float(duel.intercept), self.centre, coef))
        return np.where(np.isfinite(coef), coef / self.unit, 0)

    def write(self, u: Floats, decrement: float) -> _Duel:
        """Return coefficients u as they are kept."""
        coef = (self.unit * u)[: len(self.centre)].astype(self.dtype)
        intercept = 0.0
        if self.fit_intercept:
            intercept = exact_sum(self.unit[-1] * u[-1], self.centre, -coef.astype(np.float64))
        return _Duel(coef, self.dtype.type(intercept), decrement)

    def value(self, u: Floats) -> float:
        """Return the objective."""
        losses = np.logaddexp(0, -self.side * (self.rows @ u))
        value = 0.5 * float(self.penalty @ u**2) + float(self.strength @ losses)
        return value if np.isfinite(value) else np.inf

    def directions(self, u: Floats) -> tuple[list[Floats], float]:
        """Return directions that lead down, the best guess first, and about what may be gained.

        A Newton step tells what may be gained if it changes no margin by much. A row whose number
        in a column dwarfs all others may have a tiny loss, and yet so much curvature that it holds
        up the others, until a step changes its margin and the curvature is gone. So rows whose
        margins change by much are set aside: no more can be gained from them than their losses, and
        the rest has a Newton step of its own.
        """
        folded = self.side * (self.rows @ u)
        wrong, right = expit(-folded), expit(folded)
        pull = self.strength * self.side * wrong
        curvature = self.strength * wrong * right
        # Margins are known up to rounding, and the objective up to what that changes.
        rounding = 4 * np.finfo(np.float64).eps * (np.abs(self.rows) @ np.abs(u))
        gain = 0.5 * float(curvature @ rounding**2)
        losses = self.strength * np.logaddexp(0, -folded)
        aside = np.zeros(len(folded), dtype=bool)
        directions: list[Floats] = []
        for _ in range(MOST_ROUNDS):
            gradient = self.penalty * u - np.where(aside, 0, pull) @ self.rows
            direction, square = self._newton(gradient, np.where(aside, 0, curvature))
            if not np.isfinite(direction).all():
                break
            directions.insert(0, direction)
            far = ~aside & (np.abs(self.rows @ direction) > LARGEST_CHANGE)
            if not far.any():
                return directions, gain + 0.5 * square + float(losses[aside].sum())
            aside |= far
        return directions, np.inf

    def _newton(self, gradient: Floats, curvature: Floats) -> tuple[Floats, float]:
        """Solve for a direction; return it and the squared gradient, in the Hessian's measure."""
        rows = np.sqrt(curvature)[:, np.newaxis] * self.rows
        stacked = np.vstack([rows, np.diag(np.sqrt(self.penalty))])
        size = np.sqrt(np.einsum("ij,ij->j", stacked, stacked))
        size = np.maximum(size, np.finfo(np.float64).tiny)
        triangle = np.linalg.qr(stacked / size, mode="r")
        diagonal = np.einsum("ii->i", triangle)
        diagonal[np.abs(diagonal) < ROUNDING] = ROUNDING
        half = solve_triangular(triangle, -gradient / size, trans="T", check_finite=False)
        direction = solve_triangular(triangle, half, check_finite=False) / size
        return direction, float(half @ half)


def _solve(problem: _Problem, start: _Duel, tol: float, max_iter: int) -> tuple[_Duel, int]:
    """Return a duel with its decrement as it is kept, and the iterations that it took."""
    kept = _checked(problem, start)
    if kept.decrement <= tol:
        return kept, 0
    u = problem.read(start)
    zero = np.zeros_like(u)
    value, value_at_zero = problem.value(u), problem.value(zero)
    if value > value_at_zero:
        u, value = zero, value_at_zero
    n_iter = 0
    while n_iter < min(max_iter, MOST_ITERATIONS):
        directions, gain = problem.directions(u)
        if gain <= FAR_BELOW * tol * value:
            break
        n_iter += 1
        moved = _moved(problem, u, value, directions)
        if moved is None:
            break
        u, value = moved
    again = _checked(problem, problem.write(u, np.inf))
    return (again if again.decrement <= kept.decrement else kept), n_iter


def _moved(
    problem: _Problem, u: Floats, value: float, directions: list[Floats]
) -> tuple[Floats, float] | None:
    """Go where it is lowest along any of some directions; None if none of them leads down."""
    found = [_lowest(problem, u, value, direction) for direction in directions]
    lower = [place for place in found if place is not None]
    return min(lower, key=lambda place: place[1], default=None)


def _lowest(
    problem: _Problem, u: Floats, value: float, direction: Floats
) -> tuple[Floats, float] | None:
    """Go along a direction as long as it leads down; None if it does not."""
    step = 1.0
    for _ in range(MOST_HALVINGS):
        there = u + step * direction
        lower = problem.value(there)
        if lower < value:
            break
        step /= 2
    else:
        return None
    for factor in (0.5, 2.0):
        while True:
            farther = u + factor * step * direction
            lowest = problem.value(farther)
            if not lowest < lower:
                break
            step, there, lower = factor * step, farther, lowest
    return there, lower


def _checked(problem: _Problem, duel: _Duel) -> _Duel:
    """Return a duel with the relative decrement at what is kept of it."""
    u = problem.read(duel)
    value = problem.value(u)
    finite = np.isfinite(duel.coef).all() and np.isfinite(duel.intercept)
    if not (finite and np.isfinite(value)):
        return duel._replace(decrement=np.inf)
    directions, gain = problem.directions(u)
    if np.isfinite(gain):  # what a step gains, and farther ones in its direction
        moved = _moved(problem, u, value, directions)
        gain = gain if moved is None else max(gain, value - moved[1])
    decrement = gain / max(value, np.finfo(np.float64).tiny)
    return duel._replace(decrement=decrement if np.isfinite(decrement) else np.inf)


def exact_sum(start: float, a: Floats, b: Floats) -> float:
    """Return start + a · b, rounded once."""
    if not (math.isfinite(start) and np.isfinite(a).all() and np.isfinite(b).all()):
        return math.inf
    # A product and its rounding error, from halves that multiply exactly; powers of two keep
    # both factors where nothing overflows.
    a_parts, a_power = np.frexp(a)
    b_parts, b_power = np.frexp(b)
    product = a_parts * b_parts
    (a_high, a_low), (b_high, b_low) = _halves(a_parts), _halves(b_parts)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    power = a_power + b_power
    with np.errstate(all="ignore"):
        parts = [start, *np.ldexp(product, power).tolist(), *np.ldexp(error, power).tolist()]
    try:
        return math.fsum(parts)
    except (OverflowError, ValueError):
        return math.inf


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """Split numbers into two with half as many digits each."""
    high = values * 134217729.0  # 2²⁷ + 1
    high = high - (high - values)
    return high, values - high
