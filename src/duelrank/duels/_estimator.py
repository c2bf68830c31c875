"""EstimatorDuels: one scikit-learn classifier per duel, fitted through joblib."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from duelrank._pairs import n_pairs, pairs
from duelrank._progress import Progress
from duelrank._sklearn import (
    LinearClassifier,
    as_indexable,
    check_sample_weight,
    is_parameter,
    route_fit_metadata,
    routing_enabled,
    take_rows,
    weight_argument,
    with_callbacks,
)
from duelrank._threads import one_blas_thread
from duelrank.duels._jobs import (
    FitArguments,
    call_serially,
    parallel_generator,
    unwrap_points,
    wrap_points,
)
from duelrank.duels._protocol import Engine, as_feedback, check_counts

# The sign of their decision function is not what they predict.
OWN_THRESHOLD = (FixedThresholdClassifier, TunedThresholdClassifierCV)


def _has_probabilities(engine: EstimatorDuels) -> bool:
    return hasattr(engine.estimator, "predict_proba")


def _is_linear(engine: EstimatorDuels) -> bool:
    return isinstance(engine.estimator, LinearClassifier)


class EstimatorDuels(Engine):
    """Duels fought by any scikit-learn binary classifier.

    Each duel clones the classifier and fits it on its own rows only, so that pipelines,
    searches and class weights inside see nothing but the two labels of the duel.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier, pipelines and searches included. Its margins are its
        ``decision_function``, or else ``predict_proba`` minus one half, or else ±1/2 by
        ``predict``. A classifier with a threshold of its own is asked for ``predict``.
    n_jobs : int, default=None
        Number of jobs over the duels, as everywhere in scikit-learn. They go wherever
        ``joblib.parallel_config`` sends them; on a Dask cluster X travels to every worker once.
    random_state : int, RandomState instance or None, default=None
        If given, each duel's classifier gets its own seed, drawn from here. Otherwise the
        classifier keeps the ``random_state`` it came with.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    estimators_ : list of K(K−1)/2 classifiers
        The fitted classifiers in the order of `duelrank.pairs`; None for a duel in which at
        most one of the labels was seen.
    outcomes_ : ndarray of shape (K(K−1)/2,)
        What is known without a classifier: 1 or −1 for a one-sided duel won by its second or
        first label, 0 for an empty one, NaN where there is a classifier.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> duels = EstimatorDuels(LinearSVC(random_state=0)).fit(X, y, n_classes=3)
    >>> duels.margins(X[:1]).shape
    (1, 3)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: Any,
        feedback: Any,
        n_classes: int,
        sample_weight: Any = None,
        **fit_params: Any,
    ) -> EstimatorDuels:
        """Fit one classifier per duel.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Whatever the classifier takes.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows. A side of a duel whose rows all weigh nothing counts as not seen.
        **fit_params : dict
            Metadata for the classifier's ``fit``, sliced to the rows of each duel. Of evaluation
            sets (``eval_set``, ``eval_X`` and ``eval_y``, ``X_val`` and ``y_val``), which hold
            codes, or the labels of the ranker that fits this engine, every duel gets the rows of
            its two labels. Needs ``sklearn.set_config(enable_metadata_routing=True)``.

        Returns
        -------
        self : EstimatorDuels
            The fitted engine.
        """
        if not (hasattr(self.estimator, "fit") and is_classifier(self.estimator)):
            raise TypeError(f"estimator must be a scikit-learn classifier, got {self.estimator!r}.")
        feedback = as_feedback(feedback, n_classes)
        X = as_indexable(X)
        check_consistent_length(X, feedback)
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X)
        params, weights = self._fit_arguments(sample_weight, fit_params)
        n_duels = n_pairs(n_classes)
        arguments = FitArguments(feedback, n_classes, weights, params)
        wrapped_X = wrap_points(X)
        fit_duels = parallel_generator(self.n_jobs)(
            delayed(_fit_duel)(classifier, wrapped_X, arguments, int(a), int(b))
            for classifier, a, b in zip(self._classifiers(n_duels), *pairs(n_classes), strict=True)
        )
        fitted = []
        with Progress(self, n_duels, "duel", self.verbose) as progress:
            for duel in fit_duels:
                fitted.append(duel)
                progress.step()

        validate_data(self, X, skip_check_array=True)
        self.outcomes_ = np.array([np.nan if isinstance(d, tuple) else d for d in fitted])
        self.estimators_ = [d[0] if isinstance(d, tuple) else None for d in fitted]
        self._rows = [d[1] if isinstance(d, tuple) else None for d in fitted]
        return self

    def margins(self, X: Any) -> NDArray[np.float64]:
        """Return the margins of all duels.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Positive when the second label of the duel wins.
        """
        return self._predict(X, _margins)[0]

    @available_if(_has_probabilities)
    def probabilities(self, X: Any) -> NDArray[np.float64]:
        """Return the probability that the second label wins, for all duels.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        probabilities : ndarray of shape (n, K(K−1)/2)
            The classifier's ``predict_proba`` of the second label.
        """
        return self._predict(X, _probabilities)[1]

    @available_if(_has_probabilities)
    def margins_and_probabilities(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both; a classifier without ``decision_function`` predicts only once.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        margins, probabilities : ndarrays of shape (n, K(K−1)/2)
            As by the methods of these names.
        """
        return self._predict(X, _margins_and_probabilities)

    @available_if(_is_linear)
    def duel_coefficients(
        self, duels: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the coefficients and intercepts of some duels, if the classifier is linear.

        Parameters
        ----------
        duels : ndarray of int, of shape (m,)
            Their numbers, in the order of `duelrank.pairs`.

        Returns
        -------
        coef : ndarray of shape (m, n_features)
            Positive ones speak for the second label of a duel; zeros for a one-sided duel.
        intercept : ndarray of shape (m,)
            What margins are at a point of zeros.
        """
        coef = np.zeros((len(duels), self.n_features_in_))
        intercept = self.outcomes_[duels]
        for number, duel in enumerate(duels.tolist()):
            classifier = self.estimators_[duel]
            if classifier is not None:
                coef[number] = np.ravel(classifier.coef_)
                intercept[number] = np.ravel(classifier.intercept_)[0]
        return coef, intercept

    def inner_estimator(self) -> Any:
        """Return a fitted classifier, which tells what the columns of X may hold.

        Returns
        -------
        classifier : classifier or None
            The first one; None if all duels are one-sided.
        """
        return next((e for e in self.estimators_ if e is not None), None)

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
        n_duels = n_pairs(n_classes)
        methods = ("decision_function", "predict_proba")
        asked = [method for method in methods if hasattr(self.estimator, method)]
        check_counts(
            len(self.estimators_) == len(self._rows) == n_duels
            and self.outcomes_.shape == (n_duels,)
            and all(
                hasattr(classifier, method)
                for classifier, outcome in zip(self.estimators_, self.outcomes_, strict=True)
                if np.isnan(outcome)
                for method in asked
            )
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata to the classifier."""
        return MetadataRouter(owner=self).add(
            estimator=self.estimator,
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "fit"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _fit_arguments(
        self, sample_weight: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        """Name the arguments of the classifier's fit, not sliced yet, and the weights."""
        params = route_fit_metadata(self, sample_weight, fit_params)
        weights = params.get("sample_weight")
        if routing_enabled() or weights is None:
            return params, weights
        return {weight_argument(self.estimator): weights}, weights

    def _classifiers(self, n_duels: int) -> list[Any]:
        """Clone one classifier per duel, each with its own seed if there is one to draw from."""
        classifiers = [clone(self.estimator) for _ in range(n_duels)]
        if self.random_state is not None:
            rng = check_random_state(self.random_state)
            names = classifiers[0].get_params()
            seeded = [name for name in names if is_parameter(name, "random_state")]
            for classifier in classifiers:
                classifier.set_params(
                    **{name: rng.randint(np.iinfo(np.int32).max) for name in sorted(seeded)}
                )
        return classifiers

    def _predict(self, X: Any, predict: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Collect margins and probabilities of all duels; `predict` may leave out one of them."""
        check_is_fitted(self)
        X = as_indexable(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        known = np.isfinite(self.outcomes_)
        margins = np.zeros((X.shape[0], len(known)), order="F")
        margins[:, known] = self.outcomes_[known]
        probabilities = 0.5 + 0.5 * margins
        columns = np.flatnonzero(~known)
        wrapped_X = wrap_points(X)
        with one_blas_thread():  # jobs set this too, which is faster if it is set already
            predictions = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                # Large rows that are an argument of their own would be sent ahead, one by one.
                delayed(_predict_duel)(predict, (self.estimators_[d], self._rows[d]), wrapped_X)
                for d in columns
            )
        for d, (margin, probability) in zip(columns, predictions, strict=True):
            margins[:, d] = margin
            probabilities[:, d] = probability
        return margins, probabilities


def _fit_duel(
    classifier: Any, wrapped_X: Any, arguments: FitArguments, first: int, second: int
) -> Any:
    """Fit one duel: (classifier, rows it must remember), or the outcome of a one-sided one."""
    X = unwrap_points(wrapped_X)
    rows, second_won = arguments.rows.of(first, second)
    n_second = int(second_won.sum())
    if n_second == 0 or n_second == len(rows):
        return float(np.sign(2 * n_second - len(rows)))
    pairwise = get_tags(classifier).input_tags.pairwise
    X_duel = np.asarray(X)[np.ix_(rows, rows)] if pairwise else take_rows(X, rows)
    params = arguments.of(X, rows, (first, second), pairwise)
    _set_class_weights(classifier, first, second)
    try:
        call_serially(classifier.fit, X_duel, second_won, **params)
    except Exception as error:
        error.add_note(f"This happened in the duel between {arguments.name_of(first, second)}.")
        raise
    return classifier, rows if pairwise else None


def _predict_duel(
    predict: Any, fitted: tuple[Any, NDArray[np.intp] | None], wrapped_X: Any
) -> tuple[Any, Any]:
    """Predict one duel by a classifier and, if it is pairwise, the rows it remembers."""
    classifier, rows = fitted
    X = unwrap_points(wrapped_X)
    return call_serially(predict, classifier, X if rows is None else np.asarray(X)[:, rows])


def _margins(classifier: Any, X: Any) -> tuple[Any, Any]:
    if not isinstance(classifier, OWN_THRESHOLD):
        if hasattr(classifier, "decision_function"):
            return np.ravel(classifier.decision_function(X)), np.nan
        if hasattr(classifier, "predict_proba"):
            return np.asarray(classifier.predict_proba(X))[:, 1] - 0.5, np.nan
    return np.asarray(classifier.predict(X), dtype=np.float64) - 0.5, np.nan


def _probabilities(classifier: Any, X: Any) -> tuple[Any, Any]:
    return np.nan, np.asarray(classifier.predict_proba(X))[:, 1]


def _margins_and_probabilities(classifier: Any, X: Any) -> tuple[Any, Any]:
    _, probabilities = _probabilities(classifier, X)
    if hasattr(classifier, "decision_function") or isinstance(classifier, OWN_THRESHOLD):
        return _margins(classifier, X)[0], probabilities
    return probabilities - 0.5, probabilities


def _set_class_weights(classifier: Any, first: int, second: int) -> None:
    """Translate class weights by code into weights of the two sides of the duel."""
    for name, value in classifier.get_params().items():
        if is_parameter(name, "class_weight") and isinstance(value, dict):
            sides = {0: value.get(first, 1.0), 1: value.get(second, 1.0)}
            classifier.set_params(**{name: sides})
