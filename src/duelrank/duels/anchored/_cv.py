"""AnchoredDuelsCV: both strengths of anchored duels, chosen by cross-validation.

First C, by how probable the scores make what held-out rows say; then C_own, by the log loss of the
duels that held-out rows decide. All folds share the rows as they were prepared once: a row that a
fold holds out weighs nothing there. Scores go from the smallest C to the largest, each fold from
its own last solution. So do corrections, whose models on all folds are solved together, and share
their products in the space of rows.
"""

from __future__ import annotations

from contextlib import ExitStack
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from duelrank._pairs import labels_of_duels, n_pairs
from duelrank._parameters import check_positive
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank._threads import Threads, threads_of_blas
from duelrank.blocks import refuse_blocks
from duelrank.duels.anchored._corrections import Corrections
from duelrank.duels.anchored._engine import (
    AnchoredDuels,
    LinearScores,
    check_parameters,
    check_rivals,
)
from duelrank.duels.anchored._fit import Training, correct
from duelrank.duels.anchored._rivals import sums_of_duels
from duelrank.duels.anchored._solver import ScoreProblem, Solution
from duelrank.duels.logistic._anchor import Anchor
from duelrank.duels.logistic._assembly import Assembly, Membership, Objective
from duelrank.duels.logistic._checkpoint import Checkpoint
from duelrank.duels.logistic._extremes import quiet
from duelrank.duels.logistic._fold_search import FoldSearch
from duelrank.duels.logistic._folds import Folds, FoldScores
from duelrank.duels.logistic._result import ByRows, FittedDuels
from duelrank.duels.logistic._rows import Settings, TrainingRows, no_progress
from duelrank.duels.logistic._strength import mean_square
from duelrank.duels.logistic.row_space import DuelsInRows, RowFoldSearch, plan_by_rows

Floats = NDArray[Any]

# The range of C's and C_own's that a number of them stands for, times the mean squared distance of
# the rows from their mean.
SMALLEST, LARGEST = 0.1, 1e4
FOLD_TOL = 1e-4  # better fits no longer change the losses on folds
PATIENCE = 2  # larger C's that are tried after one that was better


class AnchoredDuelsCV(LinearScores):
    """Anchored duels whose two strengths are chosen by cross-validation.

    First the C of the scores is chosen, the one that makes held-out rows most probable. Then the
    C_own of the corrections to these scores is, by the log loss of the duels that held-out rows
    decide. If no correction is better than none, the duels follow the scores (``C_own_`` is 0).

    Parameters
    ----------
    Cs : int or array-like of float, default=6
        Inverse strengths of the penalty on the scores to choose from. An integer means so many on a
        logarithmic scale, from 0.1 to 10,000 divided by the mean squared distance of the rows from
        their mean. They are tried from the smallest on, until two in a row are no better.
    C_owns : int or array-like of float, default=6
        The same for the corrections, all of which are tried.
    rivals : int, default=None
        How many rivals of every label have their duels corrected, as in `AnchoredDuels`.
    cv : int, cross-validation generator or iterable, default=5
        Folds over all rows, stratified by first label if an integer; labels with fewer rows than
        folds count as one.
    fit_intercept : bool, default=True
        Whether scores and corrections have intercepts.
    tol : float, default=1e-4
        Relative Newton decrement below which scores and corrections have converged.
    max_iter : int, default=200
        Most iterations.
    dtype : {"float64", "float32"}, default=None
        Precision of the coefficients; by default that of X.
    working_memory : float, default=512
        Mebibytes that the intermediate results of the corrections should take, by estimate.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    C_, C_own_ : float
        The strengths that were chosen; a C_own of 0 means that no duel is corrected.
    Cs_, C_owns_ : ndarrays
        The strengths to choose from; C_owns_ begins with 0, which is all of it if `rivals` is 0.
    score_losses_ : ndarray of shape (n_Cs,)
        Mean −log p of held-out rows for every C; NaN for those that were not tried.
    own_losses_ : ndarray of the shape of C_owns_
        Mean log loss of the duels of held-out rows for every C_own.
    score_coef_, score_intercept_, corrected_duels_, own_coef_, own_intercept_ : arrays
        As in `AnchoredDuels`, and so are its other attributes.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from duelrank import AnchoredDuelsCV, DuelRanker, predict_order
    >>> X, y = load_wine(return_X_y=True)
    >>> ranker = DuelRanker(AnchoredDuelsCV(), random_state=0)
    >>> model = make_pipeline(StandardScaler(), ranker).fit(X, y)
    >>> predict_order(model, X[[0, 100]])
    array([[0, 1, 2],
           [1, 0, 2]])
    """

    def __init__(
        self,
        Cs: Any = 6,
        C_owns: Any = 6,
        rivals: int | None = None,
        *,
        cv: Any = 5,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 200,
        dtype: Any = None,
        working_memory: float = 512,
        verbose: bool = False,
    ) -> None:
        self.Cs = Cs
        self.C_owns = C_owns
        self.rivals = rivals
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.working_memory = working_memory
        self.verbose = verbose

    @with_callbacks
    def fit(
        self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None
    ) -> AnchoredDuelsCV:
        """Choose both strengths, and fit scores and corrections.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Finite numbers, at most 1e150 in absolute value. Sparse X stays sparse.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K), or SparseRanks
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self : AnchoredDuelsCV
            The fitted engine.
        """
        check_rivals(self.rivals)
        check_parameters(self)
        _check_strengths("Cs", self.Cs)
        _check_strengths("C_owns", self.C_owns)
        refuse_blocks(X, "LogisticDuels takes blocks")
        rows = self._check_rows(X, feedback, n_classes, sample_weight)
        centre = bool(self.fit_intercept)
        with quiet(), threads_of_blas() as threads, ExitStack() as opened:
            folds = Folds.of(self.cv, rows, join_rare=True)
            rows = rows.with_weight().without_empty_columns()
            square = mean_square(rows.X, rows.weights, centre)
            Cs, C_owns = (_strengths(given, square) for given in (self.Cs, self.C_owns))
            training = Training.of(rows, centre, threads)
            n_steps = folds.n_folds * len(Cs) + 2
            progress = opened.enter_context(
                Progress(self, n_steps, "solve", bool(self.verbose), at_most=True)
            )
            search = _Search(self, training, folds, progress.step)
            chosen, losses, of_folds = search.choose_C(Cs)
            solution = training.fit_scores(Cs[chosen], self.tol, self.max_iter)
            progress.step()
            C_owns = np.concatenate([[0.0], C_owns])
            C_own, own_losses, corrections = 0.0, np.zeros(1), Corrections.none(rows)
            if self.rivals != 0:
                anchor = training.anchor([solution])
                duels = training.rivals(anchor.scores[0], self.rivals)
                own_losses = search.losses_of_corrections(of_folds, duels, C_owns[1:])
                C_own = float(C_owns[np.argmin(own_losses)])
                if C_own > 0:
                    settings = self._settings(C_own)
                    corrections = correct(training, anchor, duels, settings, no_progress)
            progress.step()
        self.Cs_, self.score_losses_ = Cs, losses
        self.C_owns_, self.own_losses_ = C_owns[: len(own_losses)], own_losses
        self.C_, self.C_own_ = float(Cs[chosen]), C_own
        self._keep(training, solution, corrections, n_classes)
        return self

    def settled(self) -> AnchoredDuels:
        """Return an engine, not fitted, with the strengths that were found.

        Returns
        -------
        engine : AnchoredDuels
            Without corrections, if none were better than no corrections.
        """
        check_is_fitted(self, "C_")
        names = set(AnchoredDuels().get_params()) - {"C", "C_own", "rivals"}
        params = {name: value for name, value in self.get_params().items() if name in names}
        if self.C_own_ == 0:
            return AnchoredDuels(self.C_, rivals=0, **params)
        return AnchoredDuels(self.C_, self.C_own_, self.rivals, **params)


class _Search:
    """Models on folds, and their losses on held-out rows."""

    def __init__(
        self, engine: AnchoredDuelsCV, training: Training, folds: Folds, step: Any
    ) -> None:
        self.engine, self.training, self.folds, self.step = engine, training, folds, step
        self.tol = max(engine.tol, FOLD_TOL)
        weights = training.rows.weights
        share = np.ones(training.points.shape[0]) if weights is None else weights
        train, test = (part[folds.pattern].T for part in (folds.train, folds.test))
        self.seen = [training.choices.weighted(share * mask) for mask in train]
        self.held_out = [training.choices.weighted(share * mask) for mask in test]

    def choose_C(self, Cs: Floats) -> tuple[int, Floats, list[Solution]]:
        """Return the place of the best C, the losses of all, and its models on the folds."""
        training, max_iter = self.training, self.engine.max_iter
        losses = np.full(len(Cs), np.nan)
        latest: list[Any] = [None] * self.folds.n_folds
        best: list[Solution] = []
        for number, C in enumerate(Cs):
            for fold, choices in enumerate(self.seen):
                start = None if latest[fold] is None else latest[fold].coef
                latest[fold] = training.fit_scores(C, self.tol, max_iter, start, choices)
                self.step()
            losses[number] = self._loss(latest)
            chosen = int(np.nanargmin(losses))
            if chosen == number:
                best = list(latest)
            elif number - chosen >= PATIENCE:
                break
        return chosen, losses, best

    def _loss(self, solutions: list[Solution]) -> float:
        """Return the mean loss of held-out rows."""
        training, total, weight = self.training, 0.0, 0.0
        for solution, choices in zip(solutions, self.held_out, strict=True):
            penalty = np.zeros(training.points.shape[1] + 1)
            problem = ScoreProblem(training.points, choices, 1.0, penalty, training.threads)
            total += problem.evaluate(problem.scores(solution.coef))[0]
            weight += float(np.sum(choices.weights))
        return total / max(weight, np.finfo(np.float64).tiny)

    def losses_of_corrections(
        self, solutions: list[Solution], duels: NDArray[np.intp], C_owns: Floats
    ) -> Floats:
        """Return the mean log loss of held-out duels, without corrections and for every C_own."""
        training, folds = self.training, self.folds
        anchor = training.anchor(solutions)
        rows = training.with_dense_feedback()
        settings = self.engine._settings(1.0)
        found = FoldScores(n_pairs(rows.n_classes), folds.n_folds, C_owns, "neg_log_loss", self.tol)
        _search_corrections(rows, anchor, duels, folds, found, settings, training.threads)
        losses, weights = self._losses_of_scores(anchor, duels)
        total = [losses.sum()]
        for number in range(len(C_owns)):
            scores = found.scores[duels, :, number]
            # A fold without rows of both labels has no correction.
            total.append(np.where(np.isnan(scores), losses, -scores * weights).sum())
        return np.array(total) / max(weights.sum(), np.finfo(np.float64).tiny)

    def _losses_of_scores(self, anchor: Anchor, duels: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return log losses and weights of held-out duels on every fold, (n_duels, F), summed."""
        n_classes = anchor.n_classes
        first, second = labels_of_duels(duels, n_classes)

        def of_duels(measure: Any) -> Floats:
            sums = []
            for scores, choices in zip(anchor.scores, self.held_out, strict=True):
                gathered = choices.gather(slice(0, choices.n_rows), scores).astype(np.float64)
                square = sums_of_duels(choices, gathered, n_classes, measure)
                sums.append(square[first, second] + square[second, first])
            return np.stack(sums, axis=1)

        return of_duels(lambda lead: np.logaddexp(0, lead)), of_duels(np.ones_like)


def _search_corrections(
    rows: TrainingRows,
    anchor: Anchor,
    duels: NDArray[np.intp],
    folds: Folds,
    found: FoldScores,
    settings: Settings,
    threads: Threads,
) -> None:
    """Fit corrections of duels on all folds, for every C_own, and score them."""
    objective = Objective.from_rows(rows, settings, anchor)
    wanted = np.zeros(objective.sides.shape[1], dtype=bool)
    wanted[duels] = True
    wanted &= np.all(objective.sides, axis=0)
    by_rows = plan_by_rows(rows, objective, settings)
    by_rows = ByRows(by_rows.duels | ~wanted, by_rows.shape)
    fitted = FittedDuels.unsolved(objective.sides, rows.X.shape[1], rows.X.dtype, by_rows)
    fitted.solved |= ~wanted
    in_features = ~(fitted.by_rows | fitted.solved)
    if np.any(fitted.by_rows & ~fitted.solved):
        in_rows = DuelsInRows(rows, objective, settings.working_memory, threads)
        RowFoldSearch(in_rows, folds, found, fitted, settings).search(lambda: None)
    if in_features.any():
        members = Membership(folds.pattern, folds.train)
        assembly = Assembly.of(
            rows, objective, settings, threads, wanted=in_features, folds=members
        )
        FoldSearch(assembly, folds, found, Checkpoint(fitted, settings)).search(lambda: None)


def _check_strengths(name: str, given: Any) -> None:
    """Raise unless strengths are a number of them, or positive numbers."""
    if isinstance(given, Integral) and not isinstance(given, bool) and int(given) > 0:
        return
    values = np.atleast_1d(np.asarray(given, dtype=object))
    if values.ndim != 1 or len(values) == 0 or isinstance(given, (Integral, str)):
        raise ValueError(
            f"{name} must be a positive integer or a list of positive numbers, got {given!r}."
        )
    for value in values:
        check_positive(name, value)


def _strengths(given: Any, square: float) -> Floats:
    """Return strengths to choose from, increasing."""
    if isinstance(given, Integral):
        return np.geomspace(SMALLEST, LARGEST, int(given)) / square
    return np.unique(np.asarray(given, dtype=np.float64))
