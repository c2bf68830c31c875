"""LabelwiseRanker: one regression per label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.linear_model import Ridge
from sklearn.utils.parallel import Parallel, delayed

from duelrank._sklearn import take_rows
from duelrank._threads import one_blas_thread
from duelrank.competitors._embeddings import expected_places
from duelrank.competitors._subestimators import CompetitorOverEstimator, fit_weights, seeded_clones


class LabelwiseRanker(CompetitorOverEstimator):
    """Rank labels by their places, each regressed on its own.

    A label's regressor is fitted on the rows that place it. Places that these rows leave open are
    averaged: labels that are tied, such as those behind a top-m list, share their places evenly,
    and where m of K labels are placed, place j counts as j (K + 1) / (m + 1).

    Cheng, Henzgen & Hüllermeier (2013) estimate the distribution of every label's place and assign
    the places for the least expected loss; here the mean place is regressed, and labels are sorted
    by it.

    Parameters
    ----------
    estimator : regressor, default=None
        Any scikit-learn regressor, pipelines and searches included; None means ``Ridge()``.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`.
    n_jobs : int, default=None
        Number of jobs over the labels.
    random_state : int, RandomState instance or None, default=None
        Source of the label order that decides between equal predictions, and of the seeds that the
        regressor leaves open.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    label_order_ : ndarray of int, of shape (K,)
        Codes of the labels. Of two labels that nothing else tells apart, the first one here wins.
    estimators_ : list of K regressors
        In the order of `label_order_`; None for a label that no row places.
    unplaced_ : {"behind", "unknown"}
        Where labels without a place were taken to be.
    n_silent_rows_ : int
        Number of rows that place no label ahead of another.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from duelrank.competitors import LabelwiseRanker
    >>> X, ranks = [[0], [1], [2], [3]], [[1, 2, 3], [1, 3, 2], [2, 3, 1], [3, 2, 1]]
    >>> LabelwiseRanker(random_state=0).fit(X, ranks).predict_ranks([[0], [2.5]])
    array([[1, 2, 3],
           [2, 3, 1]])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        classes: Any = None,
        unplaced: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.classes = classes
        self.unplaced = unplaced
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self,
        X: Any,
        ranks: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        rng: np.random.RandomState,
    ) -> dict[str, Any]:
        places = expected_places(ranks)
        regressors = seeded_clones(self._inner(), ranks.shape[1], rng, is_regressor)
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_label)(regressor, X, column, weights)
            for regressor, column in zip(regressors, places.T)
        )
        return {"estimators_": list(fitted)}

    def _scores(self, X: Any) -> NDArray[np.float64]:
        middle = (len(self.classes_) + 1) / 2
        places = [
            np.full(X.shape[0], middle) if regressor is None else np.ravel(regressor.predict(X))
            for regressor in self.estimators_
        ]
        return -np.round(np.stack(places, axis=1), 10)

    def _inner(self) -> Any:
        return Ridge() if self.estimator is None else self.estimator


def _fit_label(
    regressor: Any, X: Any, places: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> Any:
    rows = np.flatnonzero(~np.isnan(places))
    if len(rows) == 0:
        return None
    own_weights = None if weights is None else weights[rows]
    with one_blas_thread():
        return regressor.fit(
            take_rows(X, rows), places[rows], **fit_weights(regressor, own_weights)
        )
