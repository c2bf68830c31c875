"""LogisticDuelsCV: penalties by cross-validation, the models of all duels and folds in one solve.

From the smallest C to the largest, all duels on all folds are solved together; then all duels on
all rows, each with its best C.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from duelrank._pairs import n_pairs
from duelrank._parameters import check_positive
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank.duels._logistic import (
    LinearDuels,
    LogisticDuels,
    warn_unless_converged,
)
from duelrank.duels._logistic_checkpoint import Fitted
from duelrank.duels._logistic_groups import GroupedRows
from duelrank.duels._logistic_held import HeldProblems
from duelrank.duels._logistic_objective import (
    Block,
    Crew,
    Floats,
    crew,
    folded_margins,
    stack,
)
from duelrank.duels._logistic_rows import (
    ClassWeights,
    Plan,
    RowTable,
    check_logistic_rows,
    check_settings,
    drop_weightless,
    duel_blocks,
)
from duelrank.duels._logistic_scaling import Scaling
from duelrank.duels._logistic_solver import State, solve
from duelrank.duels._sides import count_sides, top_labels

SCORINGS = ("accuracy", "balanced_accuracy", "neg_log_loss")
# Of models on folds, only the scores matter: they do not move any more when fits are this good.
FOLD_TOL = 1e-6


class LogisticDuelsCV(LinearDuels):
    """Logistic duels whose penalties are chosen by cross-validation.

    For every duel, every C and every fold a model is fitted, as scikit-learn's
    ``LogisticRegressionCV`` does one by one. Here all duels and folds of a C are solved together,
    from the smallest C to the largest, each model from where its own solutions for smaller C's
    lead to, never from a model that has seen its held-out rows; at last all duels on all rows, with
    the best C's.

    Parameters
    ----------
    Cs : int or array-like of float, default=10
        Inverse strengths of the penalty to choose from; an integer means so many on a logarithmic
        scale between 1e-4 and 1e4.
    cv : int, cross-validation generator or iterable, default=5
        Folds over all rows, stratified by label if an integer; every duel sees its part of them.
    scoring : {"accuracy", "balanced_accuracy", "neg_log_loss"}, default="accuracy"
        What is averaged over the folds, weighted by the sample weights.
    shared_C : bool, default=False
        Whether all duels share the C with the best average score; otherwise each has its own. Of
        equal scores the smallest C wins.
    fit_intercept : bool, default=True
        Whether the duels have an intercept.
    class_weight : dict or "balanced", default=None
        As in `LogisticDuels`; "balanced" goes by all rows, in every fold.
    tol : float, default=1e-8
        Relative Newton decrement below which a duel has converged, for the models on all rows; for
        those on folds, 1e-6 if that is larger.
    max_iter : int, default=100
        Most Newton iterations, for every C.
    dtype : {"float64", "float32"}, default=None
        Precision of the coefficients; by default that of X. In "float64" only the last iterations
        take gradients in double precision.
    working_memory : float, default=512
        Mebibytes that the intermediate results of a fit should take, by estimate; folds that
        overlap, as those of ShuffleSplit, take more, and so does ``shared_C=True``: it keeps a
        starting point for every duel and C.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    Cs_ : ndarray of shape (n_Cs,)
        The C's to choose from.
    C_ : ndarray of shape (K(K−1)/2,)
        The chosen C of every duel.
    scores_ : ndarray of shape (K(K−1)/2, n_folds, n_Cs)
        Scores on the held-out rows; NaN where a duel misses a label in a fold.
    fold_converged_ : ndarray of bool, of shape (K(K−1)/2, n_folds, n_Cs)
        Whether the models behind the scores converged; a warning counts those that did not.
    coef_, intercept_, decrement_, converged_, n_iter_, n_classes_
        As in `LogisticDuels`, for the models on all rows with the chosen C's.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker, LogisticDuelsCV
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(LogisticDuelsCV(Cs=[0.01, 1, 100]), random_state=0).fit(X, y)
    >>> ranker.duels_.C_
    array([1.e-02, 1.e-02, 1.e+02])
    """

    def __init__(
        self,
        Cs: Any = 10,
        *,
        cv: Any = 5,
        scoring: str = "accuracy",
        shared_C: bool = False,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-8,
        max_iter: int = 100,
        dtype: Any = None,
        working_memory: float = 512,
        verbose: bool = False,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.shared_C = shared_C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.working_memory = working_memory
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, codes: Any, n_classes: int, sample_weight: Any = None) -> LogisticDuelsCV:
        """Choose C and fit all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Finite numbers. Sparse X stays sparse.
        codes : array-like of int, of shape (n,), or of float, of shape (n, K)
            Labels as integers 0..K−1; or ranks, of which the lower one wins a duel, while equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self : LogisticDuelsCV
            The fitted engine.
        """
        Cs = _check_Cs(self.Cs)
        check_settings(self)
        if self.scoring not in SCORINGS:
            raise ValueError(f"scoring must be one of {SCORINGS}, got {self.scoring!r}.")
        X, feedback, weights = check_logistic_rows(self, X, codes, n_classes, sample_weight)
        train, test = _split(self.cv, X, feedback)
        weights, X, feedback, train, test = drop_weightless(weights, X, feedback, train, test)
        folds = Folds(train, test)
        grouped = GroupedRows(feedback, n_classes, folds.pattern)
        sides = count_sides(feedback, n_classes, weights)
        class_weights = ClassWeights(self.class_weight, n_classes, sides)

        n_duels = n_pairs(n_classes)
        fitted = Fitted.unsolved(sides, X.shape[1], X.dtype)
        scores = np.full((n_duels, folds.n_folds, len(Cs)), np.nan)
        fold_decrement = np.zeros(scores.shape)
        fold_tol = max(self.tol, FOLD_TOL)
        chosen = np.zeros(n_duels, dtype=np.intp)
        n_weights = X.shape[1] + self.fit_intercept
        rows_of_duels = np.where(sides.all(axis=0), grouped.touched, 0)
        plan = Plan.of(X, rows_of_duels, n_classes, n_weights, folds.n_folds, self.working_memory)
        progress = Progress(self, len(plan.tiles) * (len(Cs) + 1), "solve", bool(self.verbose))
        with crew() as threads, progress:
            rotate = not plan.own_hessians
            scaling = Scaling.of(X, weights, self.fit_intercept)
            table = RowTable(X, grouped.groups, weights, scaling, rotate, threads)
            models = _Models(table, grouped, folds, class_weights, plan, self.max_iter, threads)

            def refit(duels: NDArray[np.intp], starts: Floats) -> None:
                start = starts[np.arange(len(duels)), chosen[duels]]
                solution = models.on_all_rows(duels, Cs[chosen[duels]], start, self.tol)
                fitted.take(duels, table, solution)
                progress.step()

            waiting = []
            for duels in plan.tiles:
                scores[duels], fold_decrement[duels], starts = models.on_folds(
                    duels, Cs, fold_tol, self.scoring, progress
                )
                if self.shared_C:  # it is known when all duels have been scored
                    waiting.append((duels, starts))
                else:
                    chosen[duels] = _choose(scores[duels])
                    refit(duels, starts)
            if self.shared_C:
                chosen[:] = _choose_one(scores)
            for duels, starts in waiting:
                refit(duels, starts)

        self.Cs_, self.C_, self.scores_ = Cs, Cs[chosen], scores
        self.coef_, self.intercept_ = fitted.coef, fitted.intercept
        self.decrement_, self.n_iter_ = fitted.decrement, fitted.n_iter
        self.converged_ = fitted.decrement <= self.tol
        self.fold_converged_ = fold_decrement <= fold_tol
        self.n_classes_ = n_classes
        warn_unless_converged(self.fold_converged_, n_classes, self.max_iter, "models on folds")
        warn_unless_converged(self.converged_, n_classes, self.max_iter)
        return self

    def settled(self) -> LogisticDuels:
        """Return an engine, not fitted, with the C that was found and nothing left to search.

        Returns
        -------
        engine : LogisticDuels
            With the geometric mean of the chosen C's, which is the C if they share one.
        """
        check_is_fitted(self, "C_")
        names = set(LogisticDuels().get_params()) - {"C"}
        params = {name: value for name, value in self.get_params().items() if name in names}
        return LogisticDuels(float(np.exp(np.log(self.C_).mean())), **params)


class Folds:
    """Rows numbered by pattern, and which patterns train and test in which folds.

    Rows that train and test in the same folds share a *pattern*.
    """

    def __init__(self, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> None:
        patterns, first_row, pattern = np.unique(
            np.hstack([train, test]), axis=0, return_index=True, return_inverse=True
        )
        self.pattern = np.ravel(pattern)
        self.n_patterns = len(patterns)
        self.n_folds = train.shape[1]
        # What the rows of every pattern do, (n_patterns, F).
        self.train, self.test = train[first_row], test[first_row]


class _Models(NamedTuple):
    """Fits models of sets of duels: on folds, from one C to the next, and on all rows."""

    table: RowTable
    grouped: GroupedRows
    folds: Folds
    class_weights: ClassWeights
    plan: Plan
    max_iter: int
    threads: Crew

    def on_folds(
        self, duels: NDArray[np.intp], Cs: Floats, tol: float, scoring: str, progress: Progress
    ) -> tuple[Floats, Floats, Floats]:
        """Fit every duel on every fold, C by C from the smallest to the largest, and score it.

        A model starts where its own last two solutions lead to, never from a model that has seen
        the rows it is scored on.

        Returns
        -------
        scores : ndarray of shape (n_duels, F, n_Cs)
            Scores on held-out rows; NaN where a fold lacks one of the labels.
        decrement : ndarray of shape (n_duels, F, n_Cs)
            Certificates; 0 where there is no model.
        averages : ndarray of shape (n_duels, n_Cs, d)
            Weights, averaged over the folds.
        """
        n_duels, n_folds, n_weights = len(duels), self.folds.n_folds, len(self.table.penalty)
        shape = (n_duels, n_folds, len(Cs))
        scores, decrement = np.full(shape, np.nan), np.zeros(shape)
        averages = np.zeros((n_duels, len(Cs), n_weights), dtype=np.float32)
        training = self._blocks(duels, 1.0, self.folds.train)
        both = _has_both_sides(training, n_duels * n_folds)
        complete = both.reshape(n_duels, n_folds)
        if not complete.any():
            return scores, decrement, averages
        training = stack([part for block in training for part in block.of_problems(both)])
        testing = self._blocks(duels, 1.0, self.folds.test)
        testing = [part for block in testing for part in block.of_problems(both)]
        models_of_duel = np.maximum(complete.sum(axis=1), 1)[:, np.newaxis]
        latest: Floats = np.zeros((np.count_nonzero(complete), n_weights))
        before = latest
        for c, C in enumerate(Cs):
            blocks = [replace(block, scale=C * block.scale) for block in training]
            start = _ahead(Cs[: c + 1], latest, before)
            solution = self._solve(blocks, start, tol, cold=c == 0)
            latest, before = solution.weights, latest
            decrement[complete, c] = solution.decrement
            scores[complete, c] = _held_out_scores(testing, latest, scoring, self.threads)
            by_fold = np.zeros((n_duels, n_folds, n_weights))
            by_fold[complete] = latest
            averages[:, c] = by_fold.sum(axis=1) / models_of_duel
            progress.step()
        return scores, decrement, averages

    def on_all_rows(self, duels: NDArray[np.intp], C: Floats, start: Floats, tol: float) -> State:
        """Fit every duel with its own C."""
        everyone = np.ones((self.folds.n_patterns, 1), dtype=bool)
        return self._solve(stack(self._blocks(duels, C, everyone)), start, tol, cold=False)

    def _blocks(
        self, duels: NDArray[np.intp], C: float | Floats, takes_part: NDArray[np.bool_]
    ) -> list[Block]:
        return duel_blocks(self.table, self.grouped, duels, C, self.class_weights, takes_part)

    def _solve(self, blocks: list[Block], start: Floats, tol: float, cold: bool) -> State:
        penalty = self.table.penalty
        return solve(
            HeldProblems(blocks, len(start), self.threads),
            penalty,
            start,
            tol=tol,
            max_iter=self.max_iter,
            crew=self.threads,
            preconditioner=self.plan.preconditioner(penalty, len(start), cold),
        )


def _split(cv: Any, X: Any, feedback: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which rows train and which test in every fold, (n, F) each."""
    n_folds = int(cv) if isinstance(cv, Integral) else 5
    strata = feedback if feedback.ndim == 1 else top_labels(feedback, n_folds)
    splits = list(check_cv(cv, strata, classifier=True).split(X, strata))
    train = np.zeros((len(strata), len(splits)), dtype=bool)
    test = np.zeros_like(train)
    for fold, (training, testing) in enumerate(splits):
        train[training, fold] = True
        test[testing, fold] = True
    return train, test


def _has_both_sides(blocks: list[Block], n_problems: int) -> NDArray[np.bool_]:
    """Tell which problems have rows on both sides, (n_problems,)."""
    sides = np.zeros((2, n_problems), dtype=bool)
    for block in blocks:
        for side, has_rows in enumerate(_rows_on_sides(block)):
            sides[side, block.problems[0]] |= has_rows.any(axis=1)
    return sides[0] & sides[1]


def _rows_on_sides(block: Block) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which rows of a group are on the first and the second sides of its problems, (q, m)."""
    if block.sides is not None:
        return block.sides[0] < 0, block.sides[0] > 0
    second = np.broadcast_to(block.sign[0][:, np.newaxis] > 0, (block.sign.size, block.n_rows))
    return ~second, second


def _ahead(Cs: Floats, latest: Floats, before: Floats) -> Floats:
    """Return where to start with the last of some C's, from the solutions of the two before.

    Along log C, separable problems have solutions on straight lines, and others on smooth curves.
    """
    if len(Cs) < 3 or Cs[-2] == Cs[-3]:
        return latest
    stride = np.log(Cs[-1] / Cs[-2]) / np.log(Cs[-2] / Cs[-3])
    return latest + min(stride, 1.0) * (latest - before)


def _held_out_scores(blocks: list[Block], weights: Floats, scoring: str, threads: Crew) -> Floats:
    """Return the score of every problem on the rows of its test blocks."""

    def part(block: Block) -> list[tuple[Floats, Floats]]:
        dtype = np.float32 if block.double is None else np.float64
        margins = folded_margins(block, weights, dtype)[0]
        row_weights = np.ones(block.n_rows) if block.row_weights is None else block.row_weights[0]
        sums_and_totals = []
        for side, mine in enumerate(_rows_on_sides(block)):
            if scoring == "neg_log_loss":
                values = np.where(mine, -np.logaddexp(0, -margins), 0)
            else:
                # A margin of 0 counts for the first label, as in scikit-learn's classifiers.
                values = mine & (margins > 0 if side else margins >= 0)
            sums_and_totals.append((values @ row_weights, mine @ row_weights))
        return sums_and_totals

    sums = np.zeros((2, len(weights)))  # by side
    totals = np.zeros((2, len(weights)))
    for block, sides in zip(blocks, threads.map(part, blocks), strict=True):
        for side, (values, total) in enumerate(sides):
            sums[side, block.problems[0]] += values
            totals[side, block.problems[0]] += total
    seen = totals > 0
    with np.errstate(invalid="ignore"):  # without held-out rows the score is NaN
        if scoring == "balanced_accuracy":
            recalls = np.divide(sums, totals, out=np.zeros_like(sums), where=seen)
            return recalls.sum(axis=0) / seen.sum(axis=0)
        return sums.sum(axis=0) / totals.sum(axis=0)


def _choose(scores: Floats) -> NDArray[np.intp]:
    """Return the position of the best C of every duel; the smallest C of equals."""
    return np.argmax(_averages(scores), axis=1)


def _choose_one(scores: Floats) -> int:
    """Return the position of the C that is best for all duels on average."""
    return int(np.argmax(_averages(scores).sum(axis=0)))


def _averages(scores: Floats) -> Floats:
    """Average scores over the folds that have one, (n_duels, n_Cs); 0 where none has."""
    known = ~np.isnan(scores)
    total: Floats = np.where(known, scores, 0).sum(axis=1)
    return total / np.maximum(known.sum(axis=1), 1)


def _check_Cs(Cs: Any) -> Floats:
    if isinstance(Cs, Integral) and not isinstance(Cs, bool) and int(Cs) > 0:
        return np.logspace(-4, 4, int(Cs))
    values = np.atleast_1d(np.asarray(Cs, dtype=object))
    if values.ndim != 1 or len(values) == 0 or isinstance(Cs, (Integral, str)):
        raise ValueError(
            f"Cs must be a positive integer or a list of positive numbers, got {Cs!r}."
        )
    for value in values:
        check_positive("Cs", value)
    return np.sort(values.astype(np.float64))
