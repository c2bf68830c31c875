"""The fit of anchored duels: scores of the labels first, then corrections of the duels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import batches
from duelrank._pairs import n_pairs
from duelrank._threads import Threads
from duelrank.duels.anchored._corrections import Corrections
from duelrank.duels.anchored._luce import Choices, choices_of
from duelrank.duels.anchored._points import Points, points_of
from duelrank.duels.anchored._rivals import choose_rivals
from duelrank.duels.anchored._solver import NUMBERS_AT_ONCE, ScoreProblem, Solution, solve
from duelrank.duels.logistic._anchor import Anchor
from duelrank.duels.logistic._extremes import Extremes
from duelrank.duels.logistic._fit import fit_corrections
from duelrank.duels.logistic._rows import Settings, StartProgress, TrainingRows
from duelrank.duels.logistic._strength import mean_square
from duelrank.duels.logistic._table import Scaling
from duelrank.feedback import SparseRanks

Floats = NDArray[Any]

# An intercept is penalised like the coefficient of a column of ones that is so many times as large
# as rows are far from their mean: enough to keep it finite, too little to matter otherwise.
INTERCEPT_SIZE = 10.0
# Sparse rows with more products go most of the way in single precision, up to this decrement.
MANY_PRODUCTS, SINGLE_TOL = 2**24, 1e-3
LARGEST_CONSTANT = 1e3  # in rows that are all the same
LARGEST_STRENGTH = 1e10  # C times the sum of weights, up to which decrements can be estimated
# C times the sum of weights, and ratio of scales, beyond which corrections are checked if they can.
LITTLE_PENALTY, LARGEST_RATIO = 1e5, 1e5


class Training(NamedTuple):
    """Rows, prepared for all fits.

    Attributes
    ----------
    rows : TrainingRows
        Rows of positive weight; their feedback is codes, ranks or sparse ranks.
    points : Points
        The rows as a linear map.
    single : Points or None
        The same in single precision, for the first part of the way; None if that saves nothing.
    choices : Choices
        What the rows say.
    intercept_penalty : float
        Penalty of intercepts.
    threads : Threads
        The threads.
    fit_intercept : bool
        Whether there are intercepts.
    """

    rows: TrainingRows
    points: Points
    single: Points | None
    choices: Choices
    intercept_penalty: float
    threads: Threads
    fit_intercept: bool

    @classmethod
    def of(cls, rows: TrainingRows, fit_intercept: bool, threads: Threads) -> Training:
        """Prepare rows of positive weight."""
        X, weights = rows.X, rows.weights
        square = mean_square(X, weights, fit_intercept)
        single = None
        many = not isinstance(X, np.ndarray) and X.nnz * rows.n_classes > MANY_PRODUCTS
        if many and X.dtype == np.float64:
            single = points_of(X.astype(np.float32), weights, fit_intercept, threads)
        return cls(
            rows,
            points_of(X, weights, fit_intercept, threads),
            single,
            choices_of(rows.feedback, weights, rows.n_classes),
            1 / (INTERCEPT_SIZE**2 * square),
            threads,
            fit_intercept,
        )

    def extremes(self, C: float) -> Extremes:
        """Tell what is not ordinary about the rows, with the larger C of scores and corrections."""
        rows = self.rows
        total = rows.X.shape[0] if rows.weights is None else float(rows.weights.sum())
        scaling = Scaling.from_rows(
            rows.X, rows.weights, self.fit_intercept, self.intercept_penalty, C * total
        )
        extremes = scaling.extremes
        if np.abs(scaling.mean).max(initial=0) > LARGEST_CONSTANT and not np.ptp(scaling.scale):
            extremes = extremes._replace(everywhere=True)  # no column varies, and rounding does
        if C * total > LARGEST_STRENGTH:
            extremes = extremes._replace(everywhere=True)
        return extremes.in_columns(rows.columns)

    def hides_small_columns(self, C: float) -> bool:
        """Tell whether columns differ by much and are penalised little, so that rounding counts.

        Next to a column that is far larger, corrections are solved less closely than they seem.
        """
        rows = self.rows
        total = rows.X.shape[0] if rows.weights is None else float(rows.weights.sum())
        if C * total <= LITTLE_PENALTY:
            return False
        scale = Scaling.from_rows(rows.X, rows.weights, self.fit_intercept).scale
        scale = scale[np.isfinite(scale)]
        return bool(scale.max(initial=0) >= LARGEST_RATIO * scale.min(initial=np.inf))

    def fit_scores(
        self,
        C: float,
        tol: float,
        max_iter: int,
        start: Floats | None = None,
        choices: Choices | None = None,
        step: Callable[[], None] = lambda: None,
    ) -> Solution:
        """Fit the scores of all labels, to what all rows say or to other choices of theirs."""
        penalty = np.ones(self.points.shape[1] + 1)
        penalty[-1] = self.intercept_penalty
        choices = self.choices if choices is None else choices
        done = 0
        if self.single is not None:
            problem = ScoreProblem(self.single, choices, C, penalty, self.threads)
            rough = solve(problem, start, max(tol, SINGLE_TOL), max_iter // 2, step)
            start, done = rough.coef, rough.n_iter
        problem = ScoreProblem(self.points, choices, C, penalty, self.threads)
        solution = solve(problem, start, tol, max_iter - done, step)
        if not np.isfinite(solution.coef).all():  # of numbers beyond all measure
            solution = Solution(np.zeros_like(solution.coef), np.inf, solution.n_iter)
        return solution._replace(n_iter=done + solution.n_iter)

    def all_scores(self, solution: Solution) -> Floats:
        """Return the scores of all rows and labels, (n, K)."""
        points, coef = self.points, solution.coef
        scores = np.empty((points.shape[0], coef.shape[1]), dtype=points.dtype)
        shift = points.shift(coef)

        def write(rows: slice) -> None:
            scores[rows] = points.scores(coef, shift, rows)

        self.threads.map(write, list(batches(len(scores), NUMBERS_AT_ONCE // coef.shape[1])))
        return scores

    def anchor(self, solutions: list[Solution]) -> Anchor:
        """Return the scores of one model, or of several, as the anchor of corrections."""
        coefs, intercepts = zip(
            *(self.points.unscaled(solution.coef) for solution in solutions), strict=True
        )
        scores = [self.all_scores(solution) for solution in solutions]
        return Anchor(
            _together(coefs), _together(intercepts), _together(scores), self.intercept_penalty
        )

    def rivals(self, scores: Floats, n_rivals: int | None) -> NDArray[np.intp]:
        """Return the numbers of the duels that scores (n, K) leave unsure, and all by default."""
        every = slice(0, self.choices.n_rows)
        gathered = self.choices.gather(every, scores)
        duels: NDArray[np.intp] = choose_rivals(
            self.choices, gathered, self.rows.n_classes, n_rivals
        )
        return duels

    def with_dense_feedback(self) -> TrainingRows:
        """Return the rows with feedback that corrections can learn from: codes or ranks."""
        feedback = self.rows.feedback
        if not isinstance(feedback, SparseRanks):
            return self.rows
        return self.rows._replace(feedback=feedback.dense())


def correct(
    training: Training,
    anchor: Anchor,
    duels: NDArray[np.intp],
    settings: Settings,
    start_progress: StartProgress,
) -> Corrections:
    """Fit corrections of some duels to one model of the scores."""
    rows = training.with_dense_feedback()
    wanted = np.zeros(n_pairs(rows.n_classes), dtype=bool)
    wanted[duels] = True
    fitted, centre, told = fit_corrections(
        rows, settings, anchor, wanted, training.threads, start_progress
    )
    return Corrections.of(fitted, centre, rows, anchor, np.flatnonzero(told))


def _together(arrays: Any) -> Floats:
    """Stack arrays; one alone is not copied."""
    return arrays[0][np.newaxis] if len(arrays) == 1 else np.stack(arrays)
