"""LogisticDuelsCV: penalties by cross-validation, all fits in two batched solves."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from duelrank._pairs import n_pairs, pairs
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank.duels._logistic import (
    LinearDuels,
    one_sided_intercepts,
    warn_unless_converged,
)
from duelrank.duels._logistic_objective import Block, Crew, Floats, crew, folded_margins
from duelrank.duels._logistic_preconditioner import (
    Diagonal,
    OwnHessians,
    Preconditioner,
    own_hessians_pay,
)
from duelrank.duels._logistic_rows import (
    ClassWeights,
    RowTable,
    check_positive,
    check_rows,
    check_settings,
    tiles,
)
from duelrank.duels._logistic_solver import Solution, solve

SCORINGS = ("accuracy", "balanced_accuracy", "neg_log_loss")
# Held-out scores move by less than a row when fits are this good.
FOLD_TOL = 1e-6


class LogisticDuelsCV(LinearDuels):
    """Logistic duels whose penalties are chosen by cross-validation.

    For every duel, every C and every fold a model is fitted, as scikit-learn's
    ``LogisticRegressionCV`` does one by one. Here the models of all C's on all rows are solved
    together first, and then those of all folds, each from the solution on all rows.

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
        Relative Newton decrement below which a duel has converged, for the models on all rows.
    max_iter : int, default=100
        Most Newton iterations.
    dtype : {"float64", "float32"}, default=None
        Precision of the coefficients; by default that of X. The fits on folds are in single
        precision.
    working_memory : float, default=512
        Mebibytes that the intermediate results of a fit should take, by estimate; folds that
        overlap, as those of ShuffleSplit, take more.
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
        codes : array-like of int, of shape (n,)
            Labels as integers 0..K−1.
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
        X, codes, weights = check_rows(self, X, codes, n_classes, sample_weight)
        folds = Folds.of(self.cv, X, codes)
        if weights is not None and not weights.all():
            seen = weights > 0
            X, codes, weights = X[seen], codes[seen], weights[seen]
            folds = Folds(folds.train[seen], folds.test[seen])
        counts = np.bincount(codes, minlength=n_classes)
        class_weights = ClassWeights.of_rows(self.class_weight, codes, n_classes, weights)

        n_duels = n_pairs(n_classes)
        coef = np.zeros((n_duels, X.shape[1]), dtype=X.dtype)
        intercept = one_sided_intercepts(counts).astype(X.dtype)
        decrement, n_iter = np.zeros(n_duels), np.zeros(n_duels, dtype=np.intp)
        scores = np.full((n_duels, folds.n_folds, len(Cs)), np.nan)
        solutions = []
        most_bytes = self.working_memory * 2**20
        n_models = (folds.n_folds + 1) * len(Cs)
        parts = list(tiles(counts, X.shape[1] + self.fit_intercept, most_bytes / n_models))
        rows_of_duel = 2 * len(codes) / int(np.count_nonzero(counts))
        largest = max(map(len, parts), default=0) * len(Cs)
        own = isinstance(X, np.ndarray) and own_hessians_pay(
            rows_of_duel, X.shape[1] + self.fit_intercept, largest, most_bytes
        )
        progress = Progress(self, 2 * len(parts), "solve", bool(self.verbose))
        with crew() as threads, progress:
            groups = folds.groups(codes)
            n_groups = n_classes * folds.n_patterns
            table = RowTable(X, groups, n_groups, weights, self.fit_intercept, not own, threads)
            path = _Path(table, folds, Cs, n_classes, class_weights)
            for duels in parts:
                full = self._solve_all_rows(path, duels, own, threads)
                progress.step()
                scores[duels] = self._score_folds(path, duels, full, threads)
                progress.step()
                solutions.append((duels, full[0]))
            chosen = _choose(scores, self.shared_C)
            for duels, solution in solutions:
                picked = np.arange(len(duels)) * len(Cs) + chosen[duels]
                coef[duels], intercept[duels] = table.unscale(solution.weights[picked])
                decrement[duels] = solution.decrement[picked]
                n_iter[duels] = solution.n_iter[picked]

        self.Cs_, self.C_, self.scores_ = Cs, Cs[chosen], scores
        self.coef_, self.intercept_ = coef, intercept
        self.decrement_, self.n_iter_ = decrement, n_iter
        self.converged_ = decrement <= self.tol
        self.n_classes_ = n_classes
        warn_unless_converged(self.converged_, n_classes, self.max_iter)
        return self

    def _solve_all_rows(
        self, path: _Path, duels: NDArray[np.intp], own: bool, threads: Crew
    ) -> tuple[Solution, Any]:
        """Fit every (duel, C) on all rows."""
        blocks = path.all_rows(duels)
        n_problems = len(duels) * len(path.Cs)
        penalty = path.table.penalty
        preconditioner: Preconditioner = (
            OwnHessians(penalty, n_problems, cold=True) if own else Diagonal(penalty, n_problems)
        )
        solution = solve(
            blocks,
            penalty,
            np.zeros((n_problems, len(penalty))),
            tol=self.tol,
            max_iter=self.max_iter,
            crew=threads,
            preconditioner=preconditioner,
        )
        return solution, preconditioner

    def _score_folds(
        self,
        path: _Path,
        duels: NDArray[np.intp],
        full: tuple[Solution, Any],
        threads: Crew,
    ) -> Floats:
        """Fit every (duel, fold, C) that has rows of both labels, and score the held-out rows."""
        solution, preconditioner = full
        blocks, complete = path.train(duels)
        shape = (len(duels), path.folds.n_folds, len(path.Cs))
        if not complete.any():
            return np.full(shape, np.nan)
        # The model on all rows that each model on a fold resembles.
        models = np.arange(len(duels) * len(path.Cs)).reshape(len(duels), 1, len(path.Cs))
        resembles = np.broadcast_to(models, shape).reshape(-1)
        here = np.flatnonzero(complete)
        blocks = [part for block in blocks for part in block.of_problems(complete)]
        penalty = path.table.penalty
        if isinstance(preconditioner, OwnHessians):
            preconditioner = preconditioner.share(resembles[here])
        else:
            preconditioner = Diagonal(penalty, len(here))
        weights = np.zeros((len(resembles), len(penalty)))
        weights[here] = solve(
            [replace(block, double=None) for block in blocks],
            penalty,
            solution.weights[resembles[here]],
            tol=max(self.tol, FOLD_TOL),
            max_iter=self.max_iter,
            crew=threads,
            preconditioner=preconditioner,
        ).weights
        scores = _held_out_scores(path.test(duels), weights, self.scoring, threads)
        scores[~complete] = np.nan
        return scores.reshape(shape)


class Folds:
    """Which rows train and test in which folds, (n, F) each, and the pattern of each row, (n,).

    Rows that train and test in the same folds share a pattern.
    """

    def __init__(self, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> None:
        self.train = train
        self.test = test
        _, pattern = np.unique(np.hstack([train, test]), axis=0, return_inverse=True)
        self.pattern = np.ravel(pattern)

    @classmethod
    def of(cls, cv: Any, X: Any, codes: NDArray[np.intp]) -> Folds:
        """Split the rows."""
        splits = list(check_cv(cv, codes, classifier=True).split(X, codes))
        train = np.zeros((len(codes), len(splits)), dtype=bool)
        test = np.zeros_like(train)
        for fold, (training, testing) in enumerate(splits):
            train[training, fold] = True
            test[testing, fold] = True
        return cls(train, test)

    @property
    def n_folds(self) -> int:
        """Number of folds F."""
        return self.train.shape[1]

    @property
    def n_patterns(self) -> int:
        """Number of different patterns."""
        return int(self.pattern.max()) + 1

    def groups(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Number rows by label and pattern."""
        return codes * self.n_patterns + self.pattern

    def of_patterns(self, part: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return what the rows of every pattern do, (n_patterns, F)."""
        _, first_row = np.unique(self.pattern, return_index=True)
        return part[first_row]


class _Path:
    """Numbers the problems of a set of duels, and hands out their blocks.

    On all rows problem (duel, C) has the number duel · n_Cs + C; on folds problem (duel, fold, C)
    has the number (duel · n_folds + fold) · n_Cs + C, the duel counted inside the set.
    """

    def __init__(
        self,
        table: RowTable,
        folds: Folds,
        Cs: Floats,
        n_classes: int,
        class_weights: ClassWeights,
    ) -> None:
        self.table = table
        self.folds = folds
        self.Cs = Cs
        self.n_classes = n_classes
        self.class_weights = class_weights

    def all_rows(self, duels: NDArray[np.intp]) -> list[Block]:
        """Return the blocks of all (duel, C) on all rows."""
        everywhere = np.ones((self.folds.n_patterns, 1), dtype=bool)
        return self._blocks(duels, everywhere)

    def train(self, duels: NDArray[np.intp]) -> tuple[list[Block], NDArray[np.bool_]]:
        """Return the training blocks of all (duel, fold, C), and which have rows on both sides."""
        blocks = self._blocks(duels, self.folds.of_patterns(self.folds.train))
        sides = np.zeros((2, len(duels) * self.folds.n_folds * len(self.Cs)), dtype=bool)
        for block in blocks:
            sides[(block.sign[0] > 0).astype(int), block.problems[0]] = True
        return blocks, sides[0] & sides[1]

    def test(self, duels: NDArray[np.intp]) -> list[Block]:
        """Return the held-out blocks of all (duel, fold, C)."""
        return self._blocks(duels, self.folds.of_patterns(self.folds.test))

    def _blocks(self, duels: NDArray[np.intp], takes_part: NDArray[np.bool_]) -> list[Block]:
        """Return the blocks of all (duel, fold, C), each pattern in the folds it takes part in."""
        first, second = (side[duels] for side in pairs(self.n_classes))
        n_folds, n_Cs = takes_part.shape[1], len(self.Cs)
        side_weights = np.stack(self.class_weights.of_sides(first, second))
        blocks = []
        for label in np.union1d(first, second):
            mine = np.flatnonzero((first == label) | (second == label))
            is_second = second[mine] == label
            weights = side_weights[is_second.astype(int), mine]
            for pattern, folds in enumerate(takes_part):
                group = int(label) * self.folds.n_patterns + pattern
                folds = np.flatnonzero(folds)
                if self.table.counts[group] == 0 or len(folds) == 0:
                    continue
                problems = (mine[:, None, None] * n_folds + folds[:, None]) * n_Cs + np.arange(n_Cs)
                blocks.append(
                    self.table.block(
                        group,
                        problems.ravel(),
                        np.repeat(is_second, len(folds) * n_Cs),
                        np.tile(self.Cs, len(mine) * len(folds))
                        * np.repeat(weights, len(folds) * n_Cs),
                    )
                )
        return blocks


def _held_out_scores(blocks: list[Block], weights: Floats, scoring: str, threads: Crew) -> Floats:
    """Return the score of every problem on the rows of its test blocks."""

    def part(block: Block) -> tuple[Floats, float]:
        margins = folded_margins(block, weights, np.float32)[0]
        if scoring == "neg_log_loss":
            values = -np.logaddexp(0, -margins)
        else:
            # A margin of 0 counts for the first label, as in scikit-learn's binary classifiers.
            values = np.where(block.sign[0][:, np.newaxis] > 0, margins > 0, margins >= 0)
        weights_of_rows = block.row_weights
        row_weights = np.ones(margins.shape[1]) if weights_of_rows is None else weights_of_rows[0]
        return values @ row_weights, float(row_weights.sum())

    sums = np.zeros((2, len(weights)))  # by side
    totals = np.zeros((2, len(weights)))
    for block, (values, total) in zip(blocks, threads.map(part, blocks), strict=True):
        side = (block.sign[0] > 0).astype(int)
        sums[side, block.problems[0]] += values
        totals[side, block.problems[0]] += total
    with np.errstate(invalid="ignore", divide="ignore"):
        if scoring == "balanced_accuracy":
            return np.nanmean(sums / totals, axis=0)
        return sums.sum(axis=0) / totals.sum(axis=0)


def _choose(scores: Floats, shared: bool) -> NDArray[np.intp]:
    """Return the position of the best C of every duel; the smallest C of equals."""
    known = ~np.isnan(scores)
    summed = np.where(known, scores, 0).sum(axis=1)
    average = summed / np.maximum(known.sum(axis=1), 1)
    if shared:
        with_scores = known.any(axis=(1, 2))
        total = average[with_scores].sum(axis=0)
        return np.full(len(scores), int(np.argmax(total)))
    return np.argmax(average, axis=1)


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
