"""Newton's method in the space of the rows, for many duels at once.

A duel with fewer rows than features has its solution in the span of its rows: w = Xᵀα. With the
Gram matrix G = X Xᵀ the margins of the rows are η = G α + b, and

    f(α, b) = ½ αᵀ G α + Σ_i strength_i log(1 + exp(−s_i η_i)),

where s_i = ±1 is the side of row i. With p_i the probability of the wrong side, the *residuals*
r_i = strength_i s_i p_i and the curvatures D_i = strength_i p_i (1 − p_i), the gradients are
Xᵀ (α − r) by w and −Σ r by b. With κ = Σ D, h = √D and the projection Π that takes h / √κ to zero,
the Newton direction follows from one well-conditioned system of N equations,

    (I + Π h G h Π) u = Π h G e,    e = α − r + D Σr / κ,
    Δα = h Π u − e,    Δb = (Σr − Dᵀ G Δα) / κ.

The systems are solved by conjugate gradients in single precision. Without an intercept Π is the
identity and κ infinite.

Corrections to an anchor (`duelrank.duels.logistic._anchor`) have margins η = G α + b + offset and
a penalty of ½ ε b² on the intercept. Then κ = ε + Σ D, Σr − ε b stands for Σr, and Π is the
symmetric matrix with Π² = I − h hᵀ / κ, which takes h not quite to zero.

Most of the way is gone with gradients in single precision. The last step or two take them in double
precision. A problem that conjugate gradients cannot finish, because its features differ by orders
of magnitude, begins again with factorisations in double precision. So does one whose rows all but
cancel in e, as equal rows of both labels do: what is left of G e is then less than the rounding of
its terms. The certificate is that of `duelrank.duels.logistic._newton`: the relative Newton
decrement before the last step.

Several models of a duel, which differ in their strengths, share its Gram matrix: arrays are
(Q, F, N) for Q duels of N rows and F models each. Rows of no strength have coefficients of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._line_search import line_search
from duelrank.duels.logistic._loss import wrong_side
from duelrank.duels.logistic.row_space._gram import Gram

SINGLE_TOL = 1e-5  # what gradients in single precision are good for
SEARCH_ABOVE = 1e-2  # relative decrement above which full steps are not trusted
WORTH_LEAVING = 0.7  # converged duels leave when fewer than this share are still going
LEAST_CURVATURE = 1e-14  # smallest κ to divide by, as a share of all strengths


class RowProblems(NamedTuple):
    """Problems of Q duels with N rows each, F models of every duel.

    Attributes
    ----------
    gram : Gram
        Products between the rows of a duel, in double precision.
    sides : ndarray of shape (Q, N)
        1 for rows on the second label's side, −1 for those on the first one's, 0 where there is no
        row.
    strengths : ndarray of shape (Q, F, N)
        C times the weight of the row in the model; 0 where it takes no part.
    fit_intercept : bool
        Whether there is an intercept.
    offset : ndarray of shape (Q, F, N), or None
        What is added to the margins; None for nothing.
    intercept_penalty : float, default=0.0
        Penalty of the intercept.
    one_sided : bool, default=False
        Whether models with rows on one side only are solved, too.
    """

    gram: Gram
    sides: Floats
    strengths: Floats
    fit_intercept: bool
    offset: Floats | None = None
    intercept_penalty: float = 0.0
    one_sided: bool = False

    def only(self, duels: NDArray[Any]) -> RowProblems:
        """Return some of the duels."""
        return self._replace(
            gram=self.gram.only(duels),
            sides=self.sides[duels],
            strengths=self.strengths[duels],
            offset=None if self.offset is None else self.offset[duels],
        )

    def margins(self, state: RowState) -> Floats:
        """Return the margins of all rows by all models, (Q, F, N)."""
        return self.gram.times(state.coef) + self.shift(state.intercept, self.gram.dtype)

    def shift(self, intercept: Floats, dtype: Any) -> Floats:
        """Return what margins are besides products with the rows, (Q, F, 1) or (Q, F, N)."""
        shift: Floats = intercept[..., np.newaxis]
        shift = shift if self.offset is None else shift + self.offset
        return shift.astype(dtype, copy=False)

    def are_solvable(self) -> NDArray[np.bool_]:
        """Tell which models have rows on both sides, (Q, F), or any rows if these suffice."""
        takes_part = self.strengths > 0
        if self.one_sided:
            return np.any(takes_part, axis=2)
        sides = self.sides[:, np.newaxis]
        both: NDArray[np.bool_] = np.any(takes_part & (sides > 0), axis=2)
        both &= np.any(takes_part & (sides < 0), axis=2)
        return both


@dataclass
class RowState:
    """How far Q duels with F models each have come.

    Attributes
    ----------
    coef : ndarray of shape (Q, F, N)
        Coefficients of the rows.
    intercept : ndarray of shape (Q, F)
        Intercepts.
    decrement : ndarray of shape (Q, F)
        Relative Newton decrements before the last step; 0 for a model without rows on both sides.
    n_iter : ndarray of int, of shape (Q, F)
        Iterations.
    """

    coef: Floats
    intercept: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]

    @classmethod
    def at(cls, coef: Floats, intercept: Floats) -> RowState:
        """Start from some coefficients and intercepts."""
        models = intercept.shape
        return cls(coef, intercept, np.full(models, np.inf), np.zeros(models, dtype=np.intp))

    def restart(self, models: NDArray[np.bool_]) -> None:
        """Let some models, (Q, F), begin again."""
        self.coef[models] = 0
        self.intercept[models] = 0

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> RowState:
        """Start from zero, of shape (Q, F, N)."""
        return cls.at(np.zeros(shape), np.zeros(shape[:2]))


class Stage(NamedTuple):
    """How directions are found, how well, and for how many iterations.

    Attributes
    ----------
    precise : bool
        Whether margins are computed anew for every gradient, in double precision.
    direct : bool
        Whether to factorise the systems rather than to take conjugate gradients.
    forcing : float
        Residual of conjugate gradients, as a share of the right side.
    budget : int
        Most iterations.
    """

    precise: bool
    direct: bool
    forcing: float
    budget: int


STAGES = (
    Stage(precise=False, direct=False, forcing=0.03, budget=25),
    Stage(precise=True, direct=False, forcing=0.001, budget=5),
    Stage(precise=True, direct=True, forcing=0.0, budget=1000),
)
MOST_INNER = 50


def solve(problems: RowProblems, state: RowState, tol: float, max_iter: int) -> None:
    """Minimise all problems, from where they are; the state is changed in place.

    Parameters
    ----------
    problems : RowProblems
        The problems.
    state : RowState
        Where to start.
    tol : float
        Relative Newton decrement at which a model has converged.
    max_iter : int
        Most iterations.
    """
    solvable = problems.are_solvable()
    state.decrement[~solvable] = 0
    for stage in STAGES:
        going = solvable & (state.n_iter < max_iter)
        if stage.direct:  # for models that have failed, whose steps may have led anywhere
            going &= ~(state.decrement <= tol)
            state.restart(going)
        if going.any():
            _iterate(
                problems,
                state,
                going,
                stage,
                tol if stage.precise else max(tol, SINGLE_TOL),
                max_iter,
            )
        if not stage.precise:  # it cannot promise more, should the iterations end here
            np.maximum(state.decrement, SINGLE_TOL, where=solvable, out=state.decrement)


def _iterate(
    problems: RowProblems,
    state: RowState,
    going: NDArray[np.bool_],
    stage: Stage,
    tol: float,
    max_iter: int,
) -> None:
    """Move the models that are going until they have converged."""
    active = np.flatnonzero(going.any(axis=1))
    some = problems if len(active) == len(going) else problems.only(active)
    systems = _Systems(some, stage)
    margins = systems.margins(state, active)
    for _ in range(stage.budget):
        at = _Point.at(some, state.coef[active], state.intercept[active], margins)
        change = systems.solve(at)
        live = going[active] & (state.n_iter[active] < max_iter)
        if not live.any():
            return
        step = np.where(live, _step_lengths(some, at, change, live), 0)
        state.coef[active] += step[..., np.newaxis] * change.coef
        state.intercept[active] += step * change.intercept
        state.decrement[active] = np.where(live, change.decrement, state.decrement[active])
        state.n_iter[active] += live
        going[active] &= change.decrement > tol

        still: NDArray[np.bool_] = np.any(going[active], axis=1)
        if not still.any():
            return
        moved = step[..., np.newaxis].astype(margins.dtype) * change.margins
        margins = margins + moved
        if still.mean() < WORTH_LEAVING:
            active, some = active[still], some.only(still)
            systems, margins = systems.only(still, some), margins[still]
        if stage.precise:
            margins = systems.margins(state, active)


def _step_lengths(
    problems: RowProblems, at: _Point, change: _Change, live: NDArray[np.bool_]
) -> Floats:
    """Return how far to go along directions, (Q, F): all the way if all models that go are near."""
    if not np.any(change.decrement[live] > SEARCH_ABOVE):
        return np.ones(live.shape)
    return line_search(lambda step: at.slopes_after(problems, change, step), change.slope)


class _Change(NamedTuple):
    """A Newton direction: of coefficients and margins (Q, F, N), intercepts and more (Q, F)."""

    coef: Floats
    margins: Floats
    intercept: Floats
    slope: Floats
    decrement: Floats


class _Point(NamedTuple):
    """All that a Newton direction is made of; (Q, F, N), and (Q, F) for κ, value and intercept."""

    coef: Floats
    intercept: Floats
    margins: Floats
    residual: Floats
    curvature: Floats
    kappa: Floats
    value: Floats

    @classmethod
    def at(cls, problems: RowProblems, coef: Floats, intercept: Floats, margins: Floats) -> _Point:
        dtype = margins.dtype
        strengths = problems.strengths.astype(dtype, copy=False)
        sides = problems.sides.astype(dtype, copy=False)[:, np.newaxis]
        folded = sides * margins
        wrong = wrong_side(folded)
        residual = strengths * wrong
        curvature = residual - residual * wrong
        residual *= sides
        kappa = np.full(intercept.shape, np.inf)
        if problems.fit_intercept:
            least = LEAST_CURVATURE * problems.strengths.sum(axis=2) + np.finfo(np.float64).tiny
            kappa = np.maximum(curvature.sum(axis=2, dtype=np.float64), least)
            kappa += problems.intercept_penalty
        losses = _dots(strengths, np.logaddexp(0, -folded))
        products = margins - problems.shift(intercept, np.float64)
        of_intercept = problems.intercept_penalty * intercept**2
        value = losses + 0.5 * (_dots(coef, products) + of_intercept)
        value = np.maximum(value, np.finfo(np.float64).tiny)
        return cls(coef, intercept, margins, residual, curvature, kappa, value)

    def slopes_after(self, problems: RowProblems, change: _Change, step: Floats) -> Floats:
        """Return the slopes along a direction after steps, (Q, F)."""
        dtype = self.margins.dtype
        sides = problems.sides.astype(dtype, copy=False)[:, np.newaxis]
        of_penalty = change.margins - change.intercept[..., np.newaxis]
        start = self.margins - problems.shift(self.intercept, np.float64)
        slope = _dots(change.coef, start) + step * _dots(change.coef, of_penalty)
        intercept = self.intercept + step * change.intercept
        slope += problems.intercept_penalty * intercept * change.intercept
        wrong = wrong_side(
            sides * (self.margins + step[..., np.newaxis].astype(dtype) * change.margins)
        )
        return slope - _dots(problems.strengths * wrong, sides * change.margins)


class _Systems:
    """The Newton systems of some duels, solved by conjugate gradients or by factorisations."""

    def __init__(self, problems: RowProblems, stage: Stage, gram: Gram | None = None) -> None:
        self.stage = stage
        self.problems = problems
        dtype = np.float64 if stage.direct else np.float32
        self.gram = problems.gram.astype(dtype) if gram is None else gram
        self.lengths = self.gram.lengths()[:, np.newaxis]  # (Q, 1, N)

    def only(self, duels: NDArray[np.bool_], problems: RowProblems) -> _Systems:
        """Return some of the duels; `problems` are theirs."""
        return _Systems(problems, self.stage, self.gram.only(duels))

    def margins(self, state: RowState, active: NDArray[np.intp]) -> Floats:
        """Return the margins of all rows, (Q, F, N), as precise as the stage is."""
        gram = self.problems.gram if self.stage.precise else self.gram
        coef = state.coef[active]
        shift = self.problems.shift(state.intercept[active], gram.dtype)
        if not coef.any():
            return np.zeros(coef.shape, gram.dtype) + shift
        return gram.times(coef.astype(gram.dtype, copy=False)) + shift

    def solve(self, at: _Point) -> _Change:
        """Return the Newton directions at a point."""
        dtype = self.gram.dtype
        total = at.residual.sum(axis=2, dtype=np.float64)  # minus the gradient by the intercept
        total -= self.problems.intercept_penalty * at.intercept
        gradient = at.coef - at.residual
        shifted = gradient + at.curvature * (total / at.kappa)[..., np.newaxis]
        root = np.sqrt(at.curvature)
        axis: Floats = root / np.sqrt(at.kappa)[..., np.newaxis]
        if self.problems.intercept_penalty:
            axis = _root_of_projection(axis)
        shifted, root, axis = (array.astype(dtype) for array in (shifted, root, axis))
        if self.stage.direct:
            coef, along, unsolved = self._factorised(shifted, root, axis)
        else:
            coef, along, unsolved = self._by_conjugate_gradients(shifted, root, axis)
        of_curvature = _dots(at.curvature.astype(dtype, copy=False), along)
        intercept = (total - of_curvature) / at.kappa
        gain = total**2 / at.kappa - _dots(shifted, along)
        unsolved += self._lost_by_rounding(at, coef)
        decrement = 0.5 * (np.abs(gain) + unsolved) / at.value
        slope = _dots(gradient, along) - total * intercept
        margins = along + intercept[..., np.newaxis].astype(dtype)
        return _Change(coef, margins, intercept, slope, decrement)

    def _by_conjugate_gradients(
        self, shifted: Floats, root: Floats, axis: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return Δα and G Δα, (Q, F, N), and what they may still lack of twice the gain, (Q, F).

        Vectors v = Xᵀν of the space of features are held as ν and G ν.
        """
        solution, along = np.zeros_like(shifted), np.zeros_like(shifted)
        residual = -shifted
        product = self.gram.times(residual)
        square = np.maximum(_dots(residual, product), 0)
        enough = self.stage.forcing**2 * square
        direction, along_direction = residual, product
        tiny = float(np.finfo(np.float32).tiny)
        for _ in range(MOST_INNER):
            going = square > enough
            if not going.any():
                break
            seen = _without(axis, root * along_direction)
            curvature = _dots(direction, along_direction) + _dots(seen, seen)
            length = np.where(going, square / np.maximum(curvature, tiny), 0)
            length = length[..., np.newaxis].astype(root.dtype)
            solution += length * direction
            along += length * along_direction
            residual = residual - length * (direction + root * self._without_again(axis, seen))
            product = self.gram.times(residual)
            next_square = np.where(going, np.maximum(_dots(residual, product), 0), square)
            ratio = np.where(going, next_square / np.maximum(square, tiny), 0)
            ratio = ratio[..., np.newaxis].astype(root.dtype)
            direction = residual + ratio * direction
            along_direction = product + ratio * along_direction
            square = next_square
        # The Hessian is at least the identity, so what is unsolved is at most the square, and what
        # rounding hides: of the square's own terms, and of the system.
        epsilon = float(np.finfo(np.float32).eps)
        hidden = epsilon * self._terms(residual) ** 2 + (epsilon * self._terms(shifted)) ** 2
        return solution, along, square + hidden

    def _terms(self, vectors: Floats) -> Floats:
        """Return how long Xᵀν could be at most if no rows cancelled, (Q, F)."""
        return _dots(np.abs(vectors), np.broadcast_to(self.lengths, vectors.shape))

    def _factorised(
        self, shifted: Floats, root: Floats, axis: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return the same from one factorisation after the other."""
        right = _without(axis, root * self.gram.times(shifted))
        solution = np.zeros_like(right)
        for q, f in np.ndindex(*right.shape[:2]):
            h, a = root[q, f], axis[q, f]
            matrix = h[:, np.newaxis] * self.gram.of_duel(q) * h
            along_axis = matrix @ a
            matrix -= np.outer(a, along_axis) + np.outer(along_axis - (a @ along_axis) * a, a)
            # The identity, and as much as rounding may take away.
            matrix[np.diag_indices_from(matrix)] += 1 + 1e-15 * float(np.trace(matrix))
            solution[q, f] = cho_solve(cho_factor(matrix, lower=True), right[q, f])
        coef = root * self._without_again(axis, solution) - shifted
        return coef, self.gram.times(coef), np.zeros(right.shape[:2])

    def _lost_by_rounding(self, at: _Point, change: Floats) -> Floats:
        """Return twice what rounded margins may cost, (Q, F).

        A product of a row with Xᵀν is known to a share ε of the length of the row times `_terms`
        of ν, however much cancels in it. What margins are wrong by, their curvatures square.
        """
        rounding = np.finfo(self.gram.dtype).eps * self._terms(change)
        rounding += np.finfo(at.margins.dtype).eps * self._terms(at.coef)
        lengths = np.broadcast_to(self.lengths, at.curvature.shape)
        return rounding**2 * _dots(at.curvature, lengths**2)

    def _without_again(self, axis: Floats, vectors: Floats) -> Floats:
        """Apply Π to vectors to which it was applied already; a projection changes nothing."""
        return _without(axis, vectors) if self.problems.intercept_penalty else vectors


def _root_of_projection(axis: Floats) -> Floats:
    """Return the axis v, (Q, F, N), with (I − v vᵀ)² = I − a aᵀ for axes a no longer than one."""
    square = np.minimum(np.einsum("qfn,qfn->qf", axis, axis), 1)[..., np.newaxis]
    # γ² = (1 − √(1 − t)) / t, written so that a short axis loses no digits.
    return axis / np.sqrt(1 + np.sqrt(1 - square))


def _without(axis: Floats, vectors: Floats) -> Floats:
    """Project vectors, (Q, F, N), so that nothing along the axis is left."""
    return vectors - axis * np.einsum("qfn,qfn->qf", axis, vectors)[..., np.newaxis]


def _dots(a: Floats, b: Floats) -> Floats:
    """Return the products of vectors, (Q, F, N) times (Q, F, N), as (Q, F) in double precision."""
    return np.einsum("qfn,qfn->qf", a, b).astype(np.float64)
