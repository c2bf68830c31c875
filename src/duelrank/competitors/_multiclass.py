"""MulticlassRanker: the scores of one classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression

from duelrank._classifiers import label_scores
from duelrank._sklearn import take_rows
from duelrank._threads import one_blas_thread
from duelrank.competitors._subestimators import CompetitorOverEstimator, fit_weights, seeded_clones


class MulticlassRanker(CompetitorOverEstimator):
    """Rank labels by the scores of a classifier that is fitted to the first labels alone.

    It uses only the first label of every row. Rows in which labels share the first place are left
    out. Labels that are never first come last.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with ``decision_function`` or ``predict_proba``, pipelines and
        searches included; None means ``LogisticRegression(max_iter=1000)``.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`.
    random_state : int, RandomState instance or None, default=None
        Source of the label order that decides between equal scores, and of the seeds that the
        classifier leaves open.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    label_order_ : ndarray of int, of shape (K,)
        Codes of the labels. Of two labels that nothing else tells apart, the first one here wins.
    estimator_ : classifier or None
        The fitted classifier, whose classes are places in `label_order_`; None if all rows have
        the same first label.
    first_labels_ : ndarray of int
        Places in `label_order_` of the labels that are first in some row.
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
    >>> from sklearn.datasets import load_iris
    >>> from duelrank.competitors import MulticlassRanker
    >>> X, y = load_iris(return_X_y=True)
    >>> MulticlassRanker(random_state=0).fit(X, y).predict_order(X[[0, 83]])
    array([[0, 1, 2],
           [2, 1, 0]])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        classes: Any = None,
        unplaced: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.classes = classes
        self.unplaced = unplaced
        self.random_state = random_state

    def _learn(
        self,
        X: Any,
        ranks: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        rng: np.random.RandomState,
    ) -> dict[str, Any]:
        best = np.fmin.reduce(ranks, axis=1, keepdims=True)
        rows = np.flatnonzero(np.count_nonzero(ranks == best, axis=1) == 1)
        if len(rows) == 0:
            raise ValueError("y must place one label ahead of all others in at least one row.")
        first = np.nanargmin(ranks[rows], axis=1)
        (classifier,) = seeded_clones(self._inner(), 1, rng, is_classifier)
        first_labels = np.unique(first)
        if len(first_labels) == 1:
            return {"first_labels_": first_labels, "estimator_": None}
        argument = fit_weights(classifier, None if weights is None else weights[rows])
        with one_blas_thread():
            classifier.fit(take_rows(X, rows), first, **argument)
        return {"first_labels_": first_labels, "estimator_": classifier}

    def _scores(self, X: Any) -> NDArray[np.float64]:
        known = np.zeros((X.shape[0], 1))
        if self.estimator_ is not None:
            known = label_scores(self.estimator_, X)
        behind = known.min(axis=1, keepdims=True) - 1
        scores = np.repeat(behind, len(self.classes_), axis=1)
        scores[:, self.first_labels_] = known
        return scores

    def _inner(self) -> Any:
        return LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator
