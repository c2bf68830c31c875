"""StackedDuels: several engines, weighted by how well they predict held-out rows.

Every engine is fitted on all rows. The log-odds of the stack are a weighted sum of the engines'
log-odds, with one weight per engine, the same for all duels. The weights are fitted to the log-odds
that engines give to rows they have not seen. Usually one of the engines suits a data set, and it
gets most of the weight.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._pairs import n_pairs
from duelrank._progress import Progress
from duelrank._sklearn import Composition, with_callbacks
from duelrank._threads import one_blas_thread
from duelrank.duels._forest import ForestDuels
from duelrank.duels._kernel import KernelDuels
from duelrank.duels._protocol import DuelEngine, Engine, check_counts, check_engine
from duelrank.duels._sides import Rows, check_rows, top_labels
from duelrank.duels.logistic import LogisticDuelsCV

Floats = NDArray[np.float64]
Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
FLOATS = (np.float64, np.float32)

# Log-odds of engines are clipped here: a single row must not decide the weight of an engine.
LARGEST_LOG_ODDS = 6.0
PENALTY = 1e-3  # of the weights, per outcome
MOST_OUTCOMES = 500_000  # from which the weights are learned


class StackedDuels(Composition, Engine):
    """Duels fought by several engines together.

    The default engines are linear logistic duels, logistic duels on features and their squares,
    kernel least squares, a random forest and a forest of randomised trees. They cover what tabular
    data usually look like, need no tuning, and each is one joint fit of all duels.

    Parameters
    ----------
    engines : list of (str, engine) tuples, default=None
        Duel engines, or pipelines of transformers with an engine at their end; their parameters
        are searched by name, as ``forest__n_estimators``. None means the five above.
    cv : int, splitter or iterable, default=5
        Folds for engines without ``held_out_margins``. Engines that search parameters, such as
        `LogisticDuelsCV`, search them on these folds too if their `cv` is None. An int means so
        many stratified folds, drawn from `random_state`; which rows are together depends on their
        order. With a splitter or an iterable, the copies of a row that counts several times stay
        together.
    n_jobs : int, default=None
        Number of jobs, for engines that have `n_jobs` and leave it None.
    random_state : int, RandomState instance or None, default=None
        Draws the folds, and seeds for engines and transformers that have a `random_state` and leave
        it None.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    engines_ : dict of str to fitted engine
        The engines, pipelines as pipelines.
    weights_ : dict of str to float
        Weights of their log-odds, not negative.
    n_classes_ : int
        Number of labels K.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(StackedDuels(), random_state=0).fit(X, y)
    >>> ranker.predict_order(X[[0, 83]])
    array([[0, 1, 2],
           [2, 1, 0]])
    >>> list(ranker.duels_.weights_)
    ['linear', 'squares', 'kernel', 'forest', 'random splits']
    """

    def __init__(
        self,
        engines: Any = None,
        *,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.engines = engines
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None) -> StackedDuels:
        """Fit all engines, and weigh them.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Finite numbers.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows. Whole numbers are counts, as long as they sum to 100,000 at most: a
            row that weighs 3 is three rows for folds and engines. Divide weights that are costs by
            their mean.

        Returns
        -------
        self : StackedDuels
            The fitted engine.
        """
        engines = _check_engines(self.engines)
        rows = check_rows(self, X, feedback, n_classes, sample_weight, dtype=FLOATS)
        rng = check_random_state(self.random_state)
        rows, splits = self._split(rows, rng)
        given_weights = None if (rows.weights == 1).all() else rows.weights
        outcomes = rows.outcomes(n_classes)
        known = _known_outcomes(outcomes)
        fitted, held_out = {}, []
        with Progress(self, len(engines), "engine", self.verbose) as progress:
            for name, given in engines:
                engine = self._configured(given, splits, rng)
                fitted[name] = _fit(engine, rows.X, rows.feedback, n_classes, given_weights)
                margins = _held_out(engine, rows.X, rows.feedback, n_classes, given_weights, splits)
                held_out.append(margins[known])
                progress.step()

        self.engines_, self.n_classes_ = fitted, n_classes
        weights = _fit_weights(held_out, outcomes[known], rows.weights[known[0]])
        self.weights_ = dict(zip(fitted, weights.tolist(), strict=True))
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters, those of the engines under their names.

        Parameters
        ----------
        deep : bool, default=True
            Whether to go into the engines.

        Returns
        -------
        params : dict
            Values by name.
        """
        params: dict[str, Any] = self._get_params("engines", deep=deep)
        return params

    def set_params(self, **params: Any) -> StackedDuels:
        """Set parameters, those of the engines by their names.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : StackedDuels
            The engine.
        """
        self._set_params("engines", **params)
        return self

    def margins(self, X: Any) -> Floats:
        """Return the margins of all duels, the log-odds that the second label wins.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Positive when the second label of the duel wins.
        """
        check_is_fitted(self, "weights_")
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        parts = [
            weight * _log_odds(self.engines_[name], X)
            for name, weight in self.weights_.items()
            if weight > 0
        ]
        margins: Floats = np.sum(parts, axis=0)
        return margins

    def probabilities(self, X: Any) -> Floats:
        """Return the probability that the second label wins, for all duels.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        probabilities : ndarray of shape (n, K(K−1)/2)
            One column per duel.
        """
        probabilities: Floats = expit(self.margins(X))
        return probabilities

    def margins_and_probabilities(self, X: Any) -> tuple[Floats, Floats]:
        """Return both; the engines are asked once.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        margins, probabilities : ndarrays of shape (n, K(K−1)/2)
            As by the methods of these names.
        """
        margins = self.margins(X)
        return margins, expit(margins)

    def check_fitted(self, n_classes: int) -> None:
        """Check that the fitted arrays fit together.

        Parameters
        ----------
        n_classes : int
            Number of labels K.

        Raises
        ------
        ValueError
            If they do not, as in a file that was altered.
        """
        engines, weights = self.engines_, self.weights_
        check_counts(
            self.n_classes_ == n_classes
            and isinstance(engines, dict)
            and isinstance(weights, dict)
            and list(weights) == list(engines)
            and all(isinstance(w, float) and 0 <= w < np.inf for w in weights.values())
            and any(weights.values())
        )
        for engine in engines.values():
            check_engine(_last_step(engine), n_classes)

    def _split(self, rows: Rows, rng: np.random.RandomState) -> tuple[Rows, Splits]:
        """Return the rows that weigh something, repeated if weights are counts, and their folds."""
        folds = self.cv
        if not isinstance(folds, Integral):  # it may know the rows by number
            strata = top_labels(rows.feedback, getattr(folds, "n_splits", 5))
            of_rows = check_cv(folds, strata, classifier=True).split(rows.X, strata)
            rows, origin = rows.counted()
            return rows, [
                (_copies(train, origin), _copies(test, origin)) for train, test in of_rows
            ]
        rows, _ = rows.counted()
        seed = rng.randint(np.iinfo(np.int32).max)
        n_folds = min(int(folds), len(rows.feedback))
        if n_folds < 2:
            raise ValueError(
                f"cv must leave two folds, got cv={folds} and {len(rows.feedback)} rows."
            )
        strata = top_labels(rows.feedback, n_folds)
        kfold = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return rows, list(kfold.split(rows.X, strata))

    def _configured(self, given: Any, splits: Any, rng: np.random.RandomState) -> Any:
        """Clone an engine, and set the parameters that it leaves None."""
        engine = clone(given)
        steps = [step for _, step in engine.steps] if isinstance(engine, Pipeline) else [engine]
        for step in steps:
            params = step.get_params(deep=False) if hasattr(step, "get_params") else {}
            if params.get("random_state", 0) is None:
                step.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
            if params.get("n_jobs", 0) is None:
                step.set_params(n_jobs=self.n_jobs)
        if hasattr(steps[-1], "settled") and params.get("cv", 0) is None:
            steps[-1].set_params(cv=splits)
        return engine


class WithSquares(TransformerMixin, BaseEstimator):
    """Appends the squares of standardised features, which are clipped at four deviations first."""

    def fit(self, X: Any, y: Any = None) -> WithSquares:
        """Remember the number of features."""
        validate_data(self, X)
        return self

    def transform(self, X: Any) -> Floats:
        """Return features and squares, (n, 2 d)."""
        X = validate_data(self, X, reset=False)
        return np.hstack([X, (np.clip(X, -4, 4) ** 2 - 1) / 2])


def default_engines() -> list[tuple[str, Any]]:
    """Return the engines of a stack for which none are given."""

    def logistic() -> LogisticDuelsCV:
        return LogisticDuelsCV(
            np.logspace(-3, 2, 6), cv=None, scoring="neg_log_loss", shared_C=True
        )

    return [
        ("linear", make_pipeline(StandardScaler(), logistic())),
        ("squares", make_pipeline(StandardScaler(), WithSquares(), logistic())),
        ("kernel", KernelDuels(300)),
        ("forest", ForestDuels(60)),
        ("random splits", ForestDuels(60, random_splits=True, max_features=1.0)),
    ]


def _check_engines(engines: Any) -> list[tuple[str, Any]]:
    if engines is None:
        return default_engines()
    named = list(engines) if isinstance(engines, (list, tuple)) else []
    for item in named:
        if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)):
            named = []
            break
        last = _last_step(item[1])
        if isinstance(last, type) or not isinstance(last, DuelEngine):
            raise TypeError(f"engines must hold duel engines; {item[0]!r} is {item[1]!r}.")
    if not named or len({name for name, _ in named}) != len(named):
        raise ValueError(
            "engines must be a list of (name, engine) tuples with different names, at least one; "
            f"got {engines!r}."
        )
    return named


def _last_step(engine: Any) -> Any:
    """Return an engine, also if it is at the end of a pipeline."""
    return engine[-1] if isinstance(engine, Pipeline) else engine


def _fit(engine: Any, X: Any, feedback: NDArray[Any], n_classes: int, sample_weight: Any) -> Any:
    if isinstance(engine, Pipeline):
        if len(engine) > 1:
            X = engine[:-1].fit_transform(X)
        engine[-1].fit(X, feedback, n_classes, sample_weight=sample_weight)
    else:
        engine.fit(X, feedback, n_classes, sample_weight=sample_weight)
    return engine


def _log_odds(engine: Any, X: Any) -> Floats:
    """Return the log-odds of points by a fitted engine, clipped."""
    if isinstance(engine, Pipeline):
        if len(engine) > 1:
            X = engine[:-1].transform(X)
        engine = engine[-1]
    return np.clip(engine.margins(X), -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)


def _copies(numbers: NDArray[np.intp], origin: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the copies of some rows, in the order of these rows."""
    start = np.searchsorted(origin, numbers, side="left")
    n_copies = np.searchsorted(origin, numbers, side="right") - start
    before = np.cumsum(n_copies) - n_copies
    copies: NDArray[np.intp] = np.arange(n_copies.sum()) + np.repeat(start - before, n_copies)
    return copies


def _known_outcomes(outcomes: NDArray[np.int8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and duels of outcomes that are not 0, evenly spaced ones if there are many."""
    rows, duels = np.nonzero(outcomes)
    if len(rows) > MOST_OUTCOMES:
        some = np.linspace(0, len(rows) - 1, MOST_OUTCOMES).astype(np.intp)
        rows, duels = rows[some], duels[some]
    return rows, duels


def _held_out(
    engine: Any,
    X: Any,
    feedback: NDArray[Any],
    n_classes: int,
    weights: Floats | None,
    splits: Splits,
) -> Floats:
    """Return log-odds of the rows by engines that have not seen them; NaN if in no test fold."""
    last = _last_step(engine)
    if hasattr(last, "held_out_margins"):
        return np.clip(last.held_out_margins(), -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    again = last.settled() if hasattr(last, "settled") else last
    if isinstance(engine, Pipeline):
        again = make_pipeline(*(step for _, step in engine.steps[:-1]), again)
    margins = np.full((len(feedback), n_pairs(n_classes)), np.nan)
    for train, test in splits:
        part = None if weights is None else weights[train]
        model = _fit(clone(again), X[train], feedback[train], n_classes, part)
        margins[test] = _log_odds(model, X[test])
    return margins


@one_blas_thread()  # the last bits of its products depend on the threads
def _fit_weights(held_out: list[Floats], outcomes: NDArray[np.int8], weights: Floats) -> Floats:
    """Fit the weights of engines, not negative, by the log loss of held-out outcomes.

    Parameters
    ----------
    held_out : list of ndarrays of shape (m,)
        Log-odds of m outcomes by every engine; NaN if not known.
    outcomes : ndarray of shape (m,)
        The outcomes, 1 or −1.
    weights : ndarray of shape (m,)
        Weights of their rows.
    """
    signed = np.stack(held_out, axis=1) * outcomes[:, np.newaxis]
    known = ~np.isnan(signed).any(axis=1)
    if not known.any():
        return np.full(len(held_out), 1 / len(held_out))
    signed = signed[known]
    share = weights[known] / weights[known].sum()

    def loss(w: Floats) -> tuple[float, Floats]:
        margins = signed @ w
        value = share @ np.logaddexp(0, -margins) + 0.5 * PENALTY * w @ w
        return float(value), PENALTY * w - (share * expit(-margins)) @ signed

    start = np.full(len(held_out), 1 / len(held_out))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(held_out))
    best: Floats = found.x
    return best if best.any() else start
