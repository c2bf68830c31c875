"""The solver of the scores: conjugate gradients, then Newton's method.

It minimises ½ Σ_j penalty_j ‖w_j‖² + C Σ_i loss_i(scores of row i) over the coefficients of all
labels at once, (d + 1, K). An iteration takes two products with the rows: coefficients to scores,
and gradients back.

- *Far away*, nonlinear conjugate gradients (Polak-Ribière). Newton steps would not pay there: while
  all of many labels are about as probable, curvatures are tiny, and the steps far too long.
- *Close by*, Newton steps, whose systems are solved by conjugate gradients.

Along a direction scores change linearly, so that a line search needs no products. Both go by the
same preconditioner, the diagonal of the Hessian. It does not know that a number added to the scores
of all labels changes no loss, so directions are made to sum to zero over labels that are compared.
The certificate is that of the logistic problems, the relative Newton decrement: what the next step
would gain, as a share of the objective. What conjugate gradients have not solved of this step
counts as gained, by a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._batches import batches
from duelrank._threads import Threads
from duelrank.duels.anchored._luce import CURVATURE_ON_THE_WAY, Choices
from duelrank.duels.anchored._points import Points

Floats = NDArray[Any]

TINY = float(np.finfo(np.float64).tiny)
NUMBERS_AT_ONCE = 2**18  # of scores, or of coefficients, that are handled together
# Newton steps begin where the preconditioned squared gradient is this share of the objective. For a
# tolerance that is not small they pay no more, and only the last one is: it is the certificate.
CLOSE, SMALL_TOL = 0.1, 1e-3
RENEW = 10  # iterations after which the preconditioner is computed again
# A line search ends where the slope is this share of the first one, or after so many steps.
FLAT, MOST_STEPS = 0.2, 8
# Conjugate gradients inside a Newton step end at this share of the first residual, where what is
# unsolved is this share of the tolerance, or after so many iterations.
FORCING, UNSOLVED, MOST_INNER = 0.1, 0.5, 30
# So many coefficients have a bound of what is unsolved; it would double the time of larger fits,
# and these have an estimate.
MOST_BOUNDED = 2**20


class Solution(NamedTuple):
    """Coefficients of the scores.

    Attributes
    ----------
    coef : ndarray of shape (d + 1, K)
        Coefficients of the points' columns, and intercepts.
    decrement : float
        Relative Newton decrement before the last step.
    n_iter : int
        Iterations.
    """

    coef: Floats
    decrement: float
    n_iter: int


class ScoreProblem:
    """The objective, its derivatives, and products that threads share.

    Parameters
    ----------
    points : Points
        The rows.
    choices : Choices
        What they say.
    C : float
        Inverse strength of the penalty.
    penalty : ndarray of shape (d + 1,)
        Penalty of the coefficients of every column, and of the intercepts.
    threads : Threads
        The threads.
    """

    def __init__(
        self, points: Points, choices: Choices, C: float, penalty: Floats, threads: Threads
    ) -> None:
        self.points, self.choices, self.C, self.threads = points, choices, C, threads
        n_rows, n_columns = points.shape
        self.penalty = penalty.astype(points.dtype)[:, np.newaxis]
        n_labels, components = choices.n_classes, choices.components
        means = 1 / np.bincount(components)[components], (np.arange(n_labels), components)
        self.means = sparse.csr_array(means)
        self.rows = list(batches(n_rows, max(16, NUMBERS_AT_ONCE // n_labels)))
        self.blocks = list(batches(n_columns + 1, max(1, NUMBERS_AT_ONCE // n_labels)))

    def scores(self, coef: Floats) -> Floats:
        """Return the scores that matter of all rows, (n, width)."""
        scores = np.empty((self.points.shape[0], self.choices.width), dtype=self.points.dtype)
        shift = self.points.shift(coef)

        def write(rows: slice) -> None:
            scores[rows] = self.choices.gather(rows, self.points.scores(coef, shift, rows))

        self.threads.map(write, self.rows)
        return scores

    def evaluate(self, scores: Floats) -> tuple[float, Floats, list[Any]]:
        """Return the loss times C, its gradient by the scores, and what its Hessian needs."""
        gradient = np.empty_like(scores)

        def part(rows: slice) -> tuple[float, Any]:
            found = self.choices.evaluate(rows, scores[rows])
            np.multiply(found.gradient, self.C, out=gradient[rows])
            return found.loss, found.state

        parts = self.threads.map(part, self.rows)
        return self.C * sum(loss for loss, _ in parts), gradient, [state for _, state in parts]

    def curved(self, states: list[Any], along: Floats) -> Floats:
        """Return C times the Hessians of the rows times changes of their scores, (n, width)."""
        product = np.empty_like(along)

        def write(item: tuple[slice, Any]) -> None:
            rows, state = item
            changes = self.choices.hessian_times(rows, state, along[rows])
            np.multiply(changes, self.C, out=product[rows])

        self.threads.map(write, list(zip(self.rows, states, strict=True)))
        return product

    def adjoint(self, of_rows: Floats, out: Floats | None = None) -> Floats:
        """Return what numbers for the scores of all rows mean for the coefficients, (d + 1, K).

        They are written to `out`, if there is one: fresh memory of that size is costly.
        """
        return self.points.adjoint(self.choices.spread(of_rows), out)

    def centre(self, block: Floats) -> None:
        """Let coefficients of some columns sum to zero over labels that are compared, in place."""
        if self.choices.n_components == 1:
            block -= block.mean(axis=1, keepdims=True)
        else:
            block -= (block @ self.means)[:, self.choices.components]

    def inverse_diagonal(self, states: list[Any], least: float) -> Floats:
        """Return one over the diagonal of the Hessian, (d + 1, K)."""
        curvature = np.empty((self.points.shape[0], self.choices.width), dtype=self.points.dtype)

        def write(item: tuple[slice, Any]) -> None:
            rows, state = item
            curvature[rows] = self.choices.curvature(rows, state, least)

        self.threads.map(write, list(zip(self.rows, states, strict=True)))
        diagonal = self.points.adjoint_of_squares(self.choices.spread(curvature))

        def invert(block: slice) -> None:
            part = diagonal[block]
            part *= self.C
            part += self.penalty[block]
            np.reciprocal(part, out=part)

        self.threads.map(invert, self.blocks)
        return diagonal

    def least_curvature(self, inverse: Floats) -> float:
        """Return the least that a Hessian can be in units of its diagonal: that of the penalty."""

        def least(block: slice) -> float:
            return float((self.penalty[block] * inverse[block]).min())

        return min(self.threads.map(least, self.blocks))

    def over_blocks(self, step: Callable[[slice], tuple[float, ...]]) -> Floats:
        """Call a function for blocks of coefficients, and sum what it returns.

        With many labels, coefficients are larger than a cache, and going through them takes about
        as long as a product with the rows. So all that is to be done with a block is done at once.
        """
        sums: Floats = np.sum(self.threads.map(step, self.blocks), axis=0)
        return sums

    def dot_of_rows(self, a: Floats, b: Floats) -> float:
        """Sum the products of numbers for the scores of all rows, in double precision."""
        return sum(self.threads.map(lambda rows: float(np.vdot(a[rows], b[rows])), self.rows))


def solve(
    problem: ScoreProblem,
    start: Floats | None,
    tol: float,
    max_iter: int,
    step: Callable[[], None] = lambda: None,
) -> Solution:
    """Minimise the objective.

    Parameters
    ----------
    problem : ScoreProblem
        The objective.
    start : ndarray of shape (d + 1, K), or None
        Where to start; from zero by default.
    tol : float
        Relative Newton decrement to reach.
    max_iter : int
        Most iterations.
    step : callable
        Called after every iteration.
    """
    shape = len(problem.penalty), problem.choices.n_classes
    dtype = problem.points.dtype
    coef = np.zeros(shape, dtype=dtype) if start is None else start.astype(dtype)
    at = _Place(problem, coef)
    close = CLOSE if tol < SMALL_TOL else tol
    n_iter = _descend(problem, at, close, max_iter // 2, step)
    decrement, led_down = np.inf, True
    while decrement > tol and led_down and n_iter < max_iter:
        decrement, led_down = _newton_step(problem, at, tol)
        n_iter += 1
        step()
    return Solution(at.coef, decrement, n_iter)


class _Place:
    """Where the solver is: coefficients, scores, loss, gradients and what the Hessian needs."""

    def __init__(self, problem: ScoreProblem, coef: Floats) -> None:
        self.problem, self.coef = problem, coef
        self.renew_scores()

    def renew_scores(self) -> None:
        """Compute the scores from the coefficients, without the rounding of many steps."""
        self.scores = self.problem.scores(self.coef)
        self.loss, self.of_scores, self.states = self.problem.evaluate(self.scores)

    def move(self, way: _Direction, along: Floats, step: float | None) -> float:
        """Go along a direction to where the slope is small, and return how far.

        Parameters
        ----------
        way : _Direction
            The direction.
        along : ndarray of shape (n, width)
            How scores change with it.
        step : float or None
            How far to try first; by default to where a parabola has its minimum.
        """
        problem = self.problem
        if step is None:
            curved = problem.dot_of_rows(along, problem.curved(self.states, along))
            step = -way.slope / max(curved + way.quadratic, TINY)
        start, taken = self.scores, step
        # Steps before and behind the minimum, with their slopes.
        before, behind = (0.0, way.slope), None
        for _ in range(MOST_STEPS):
            taken = step
            self.scores = start + along * along.dtype.type(taken)
            self.loss, self.of_scores, self.states = problem.evaluate(self.scores)
            here = problem.dot_of_rows(self.of_scores, along) + way.linear + taken * way.quadratic
            if abs(here) <= FLAT * abs(way.slope):
                break
            if here < 0:
                before = (taken, here)
            else:
                behind = (taken, here)
            step = _next_step(before, behind)
        length = self.coef.dtype.type(taken)

        def go(block: slice) -> tuple[float, ...]:
            self.coef[block] += length * way.direction[block]
            return ()

        problem.over_blocks(go)
        return taken


class _Direction(NamedTuple):
    """A direction, the slope of the objective along it, and of the penalty what is (bi)linear.

    The penalty after a step t is ½ (wᵀPw + 2 t linear + t² quadratic).
    """

    direction: Floats
    slope: float
    linear: float
    quadratic: float


def _next_step(before: tuple[float, float], behind: tuple[float, float] | None) -> float:
    """Return a step between one before the minimum and one behind it, or beyond the former."""
    if behind is None:
        return 3 * before[0]
    share = before[1] / (before[1] - behind[1])
    return before[0] + min(max(share, 0.1), 0.9) * (behind[0] - before[0])


def _descend(
    problem: ScoreProblem, at: _Place, close: float, max_iter: int, step: Callable[[], None]
) -> int:
    """Go by nonlinear conjugate gradients until Newton steps pay; return the iterations."""
    coef, penalty = at.coef, problem.penalty
    before, gradient = np.zeros_like(coef), np.empty_like(coef)
    direction = inverse = before
    last_square = 0.0
    for iteration in range(max_iter):
        renew = iteration % RENEW == 0
        if renew:
            inverse = problem.inverse_diagonal(at.states, CURVATURE_ON_THE_WAY)
        gradient = problem.adjoint(at.of_scores, gradient)

        def measure(
            block: slice,
            gradient: Floats = gradient,
            inverse: Floats = inverse,
            before: Floats = before,
            direction: Floats = direction,
        ) -> tuple[float, ...]:
            of_penalty = penalty[block] * coef[block]
            mine = gradient[block]
            mine += of_penalty
            scaled = inverse[block] * mine
            return (
                _dot(mine, scaled),
                _dot(before[block], scaled),
                _dot(direction[block], mine),
                _dot(coef[block], of_penalty),
            )

        square, change, along_last, of_penalty = problem.over_blocks(measure)
        if square <= close * (at.loss + 0.5 * of_penalty):
            return iteration
        beta = 0.0 if renew else max(0.0, (square - change) / last_square)
        if beta * along_last >= square:  # it would not lead down
            beta = 0.0
        if iteration == 0:
            direction = np.zeros_like(coef)

        def turn(
            block: slice,
            gradient: Floats = gradient,
            inverse: Floats = inverse,
            direction: Floats = direction,
            beta: float = beta,
        ) -> tuple[float, ...]:
            mine = direction[block]
            mine *= coef.dtype.type(beta)
            mine -= inverse[block] * gradient[block]
            problem.centre(mine)
            of_penalty = penalty[block] * mine
            return _dot(coef[block], of_penalty), _dot(mine, of_penalty)

        linear, quadratic = problem.over_blocks(turn)
        way = _Direction(direction, beta * along_last - square, linear, quadratic)
        at.move(way, problem.scores(direction), None)
        before, gradient, last_square = gradient, before, square
        step()
    return max_iter


def _newton_step(problem: ScoreProblem, at: _Place, tol: float) -> tuple[float, bool]:
    """Take a Newton step; return the relative decrement before it, and whether it led down."""
    at.renew_scores()
    coef, penalty = at.coef, problem.penalty
    inverse = problem.inverse_diagonal(at.states, 0.0)
    residual = problem.adjoint(at.of_scores)  # of the gradient, whose negative it is from now on
    direction = np.empty_like(coef)

    def begin(block: slice) -> tuple[float, ...]:
        mine, of_penalty = residual[block], penalty[block] * coef[block]
        mine += of_penalty
        np.negative(mine, out=mine)
        np.multiply(mine, inverse[block], out=direction[block])
        problem.centre(direction[block])
        return _dot(mine, direction[block]), _dot(coef[block], of_penalty)

    square, of_penalty = problem.over_blocks(begin)
    value = max(at.loss + 0.5 * of_penalty, TINY)
    unsolved = Unsolved(problem.least_curvature(inverse) if coef.size <= MOST_BOUNDED else None)
    rough = FORCING**2 * square
    change, along = np.zeros_like(coef), np.zeros_like(at.scores)
    image = np.empty_like(coef)
    slope = 0.0  # of the objective along the change: directions are conjugate
    for _ in range(MOST_INNER):
        is_last = 0.5 * abs(slope) <= tol * value  # if no more than this can be gained
        if unsolved.bound(square) <= UNSOLVED * tol * value or (square <= rough and not is_last):
            break
        of_rows = problem.scores(direction)
        image = problem.adjoint(problem.curved(at.states, of_rows), image)

        def add_penalty(block: slice, image: Floats = image) -> tuple[float, ...]:
            image[block] += penalty[block] * direction[block]
            return (_dot(direction[block], image[block]),)

        length = square / max(problem.over_blocks(add_penalty)[0], TINY)
        slope -= length * square

        def go(block: slice, image: Floats = image, length: float = length) -> tuple[float, ...]:
            change[block] += coef.dtype.type(length) * direction[block]
            mine = residual[block]
            mine -= coef.dtype.type(length) * image[block]
            return (_dot(mine, inverse[block] * mine),)

        last_square, square = square, problem.over_blocks(go)[0]
        unsolved.step(length, square / last_square)
        along += along.dtype.type(length) * of_rows

        def turn(block: slice, ratio: float = square / last_square) -> tuple[float, ...]:
            mine = direction[block]
            mine *= coef.dtype.type(ratio)
            mine += inverse[block] * residual[block]
            problem.centre(mine)
            return ()

        problem.over_blocks(turn)

    def measure(block: slice) -> tuple[float, ...]:
        of_penalty = penalty[block] * change[block]
        return _dot(coef[block], of_penalty), _dot(change[block], of_penalty)

    decrement = float(0.5 * (abs(slope) + unsolved.bound(square)) / value)
    if slope == 0:  # nothing is left to be gained
        return decrement, False
    linear, quadratic = problem.over_blocks(measure)
    taken = at.move(_Direction(change, slope, linear, quadratic), along, 1.0)
    after = at.loss + 0.5 * (of_penalty + 2 * taken * linear + taken**2 * quadratic)
    return decrement, bool(after < value)


class Unsolved:
    """What conjugate gradients leave unsolved: a bound of rᵀH⁻¹r for their residual r.

    This is Gauss and Radau's quadrature, by the recurrence of Meurant and Tichý (On computing
    quadrature-based bounds for the A-norm of the error in conjugate gradients, 2013). It is a bound
    if no eigenvalue of the preconditioned matrix is below the given one, up to rounding.

    Parameters
    ----------
    least : float or None
        No eigenvalue is less. None for an estimate instead of a bound, with eigenvalues about one:
        conjugate gradients are done earlier then.
    """

    def __init__(self, least: float | None) -> None:
        self.least, self.weight = least, 1.0 if least is None else 1 / max(least, TINY)

    def bound(self, square: float) -> float:
        """Return the bound, for the preconditioned square of the residual."""
        return self.weight * square

    def step(self, length: float, ratio: float) -> None:
        """Learn the length of a step, and by which ratio it has changed the square."""
        if self.least is not None:
            beyond = max(self.weight - length, 0.0)
            self.weight = beyond / max(self.least * beyond + ratio, TINY)


def _dot(a: Floats, b: Floats) -> float:
    """Return the product of two blocks, summed in double precision."""
    return float(np.einsum("jk,jk->j", a, b).sum(dtype=np.float64))
