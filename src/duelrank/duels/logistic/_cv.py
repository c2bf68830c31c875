"""LogisticDuelsCV: penalties by cross-validation, the models of all duels and folds in one solve.

From the smallest C to the largest, all duels on all folds are solved together (`_folds`); then all
duels on all rows, each with its best C.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from duelrank._pairs import n_pairs
from duelrank._parameters import check_positive
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank._threads import threads_of_blas
from duelrank.duels.logistic._assembly import Assembly, Membership, Objective
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._certificate import certify
from duelrank.duels.logistic._checkpoint import Checkpoint
from duelrank.duels.logistic._engine import (
    LogisticDuels,
    tell_extremes,
    warn_unless_converged,
)
from duelrank.duels.logistic._extremes import quiet
from duelrank.duels.logistic._fold_search import FoldSearch
from duelrank.duels.logistic._folds import Folds, FoldScores
from duelrank.duels.logistic._kept import kept_duels
from duelrank.duels.logistic._linear import LinearDuels
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings, check_settings, check_training_rows
from duelrank.duels.logistic.row_space import DuelsInRows, RowFoldSearch, plan_by_rows

SCORINGS = ("accuracy", "balanced_accuracy", "neg_log_loss")
# Better fits no longer change the scores on folds.
FOLD_TOL = 1e-6


class LogisticDuelsCV(LinearDuels):
    """Logistic duels whose penalties are chosen by cross-validation.

    For every duel, every C and every fold a model is fitted, as scikit-learn's
    ``LogisticRegressionCV`` does one by one. Here all duels and folds of a C are solved together,
    from the smallest C to the largest. A model starts where its own solutions for smaller C's lead,
    never from a model that has seen its held-out rows. At last all duels are fitted on all rows,
    with the best C's.

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
        starting point for every duel and C, unless duels have fewer rows than features.
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
    def fit(
        self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None
    ) -> LogisticDuelsCV:
        """Choose C and fit all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Finite numbers, at most 1e150 in absolute value. Sparse X stays sparse.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
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
        rows = check_training_rows(self, X, feedback, n_classes, sample_weight)
        folds = Folds.of(self.cv, rows)
        rows = rows.with_weight().without_empty_columns()
        settings = self._settings()
        found = FoldScores(
            n_pairs(n_classes), folds.n_folds, Cs, self.scoring, max(self.tol, FOLD_TOL)
        )
        with quiet(), threads_of_blas() as threads:
            # Columns must matter with the largest C, if they matter at all.
            objective = Objective.from_rows(rows, settings._replace(C=float(Cs[-1])))
            objective = objective._replace(C=1.0)
            by_rows = plan_by_rows(rows, objective, settings)
            fitted = FittedDuels.unsolved(objective.sides, rows.X.shape[1], rows.X.dtype, by_rows)
            in_features = ~(fitted.by_rows | fitted.solved)
            searches: list[FoldSearch | RowFoldSearch] = []
            if np.any(fitted.by_rows & ~fitted.solved):
                duels = DuelsInRows(rows, objective, self.working_memory, threads)
                searches.append(RowFoldSearch(duels, folds, found, fitted, settings))
            if in_features.any():
                members = Membership(folds.pattern, folds.train)
                assembly = Assembly.of(
                    rows, objective, settings, threads, wanted=in_features, folds=members
                )
                searches.append(FoldSearch(assembly, folds, found, Checkpoint(fitted, settings)))
            n_solves = sum(search.n_solves for search in searches)
            with Progress(self, n_solves, "solve", bool(self.verbose)) as progress:
                if self.shared_C:
                    for search in searches:
                        search.search(progress.step)
                    found.choose_for_all()
                for search in searches:
                    search.fit(progress.step)
            chosen = objective._replace(C=Cs[found.chosen])
            certify(rows, chosen, settings, threads, fitted)
            kept = kept_duels(fitted, rows, self.n_features_in_)

        self.Cs_, self.C_, self.scores_ = Cs, Cs[found.chosen], found.scores
        self._keep(fitted, kept)
        self.fold_converged_ = found.decrement <= found.tol
        extremes = objective.extremes.in_columns(rows.columns)
        tell_extremes(self, extremes)
        warn_unless_converged(self, self.fold_converged_, "models on folds", extremes=extremes)
        warn_unless_converged(self, self.converged_, extremes=extremes)
        return self

    def _settings(self) -> Settings:
        """Return the parameters of the solver; C is 1 until it is chosen."""
        names = ("fit_intercept", "class_weight", "tol", "max_iter", "working_memory")
        return Settings(1.0, *(getattr(self, name) for name in names))

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
