"""SubsetRanker: one multiclass problem per subset of the labels."""

from __future__ import annotations

from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.parallel import Parallel, delayed

from duelrank._pairs import square
from duelrank._sklearn import take_rows
from duelrank._threads import one_blas_thread
from duelrank.competitors._subestimators import CompetitorOverEstimator, fit_weights, seeded_clones
from duelrank.feedback import outcomes

SIZES = (2, 3)


class SubsetRanker(CompetitorOverEstimator):
    """Rank labels by classifiers of the orders of all subsets of two or three labels.

    For every subset the classes are the orders of its labels: 2 for two labels, 6 for three. The
    predicted distribution over the orders says how many labels of the subset each one is expected
    to be ahead of, minus those it is behind; labels are ranked by the sum over all subsets.

    A row takes part in the subsets whose labels it all places. Ties make classes of their own ("the
    first ahead of the two others"), in which the labels tied score the same; a row in which all
    labels of the subset are tied is left out.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier, pipelines and searches included; without ``predict_proba`` the
        predicted order gets probability one. None means ``LogisticRegression(max_iter=1000)``.
    size : {2, 3}, default=2
        Number of labels in a subset; all labels if there are fewer.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`.
    n_jobs : int, default=None
        Number of jobs over the subsets.
    random_state : int, RandomState instance or None, default=None
        Source of the label order that decides between equal scores, and of the seeds that the
        classifier leaves open.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    label_order_ : ndarray of int, of shape (K,)
        Codes of the labels. Of two labels that nothing else tells apart, the first one here wins.
    subsets_ : ndarray of int, of shape (number of subsets, size)
        Places in `label_order_` of the labels of every subset.
    estimators_ : list of classifiers
        One per subset; None where fewer than two orders were seen.
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
    >>> from duelrank.competitors import SubsetRanker
    >>> X, ranks = [[0], [1], [2], [3]], [[1, 2, 3], [1, 2, 3], [2, 3, 1], [2, 3, 1]]
    >>> SubsetRanker(size=3, random_state=0).fit(X, ranks).predict_ranks([[0], [2.5]])
    array([[1, 2, 3],
           [2, 3, 1]])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        size: int = 2,
        classes: Any = None,
        unplaced: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.size = size
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
        if not isinstance(self.size, Integral) or self.size not in SIZES:
            raise ValueError(f"size must be 2 or 3, got {self.size!r}.")
        n_classes = ranks.shape[1]
        subsets = np.array(list(combinations(range(n_classes), min(self.size, n_classes))))
        classifiers = seeded_clones(self._inner(), len(subsets), rng, is_classifier)
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_subset)(classifier, X, ranks[:, subset], weights)
            for classifier, subset in zip(classifiers, subsets)
        )
        classifiers, net_wins = map(list, zip(*fitted))
        return {"subsets_": subsets, "estimators_": classifiers, "_net_wins": net_wins}

    def _scores(self, X: Any) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = np.zeros((X.shape[0], len(self.classes_)))
        predictions = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(_expected_net_wins)(classifier, net_wins, X)
            for classifier, net_wins in zip(self.estimators_, self._net_wins)
        )
        for subset, expected in zip(self.subsets_, predictions):
            scores[:, subset] += expected
        return np.round(scores, 10)

    def _inner(self) -> Any:
        return LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator


def _fit_subset(
    classifier: Any, X: Any, ranks: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> tuple[Any, NDArray[np.float64]]:
    """Return the classifier of the orders of one subset, if needed, and every order's net wins."""
    signs = outcomes(ranks)
    rows = np.flatnonzero(~np.isnan(ranks).any(axis=1) & signs.any(axis=1))
    orders, order_of_row = np.unique(signs[rows], axis=0, return_inverse=True)
    net_wins = square(orders.astype(np.float64), ranks.shape[1]).sum(axis=2)
    if len(orders) < 2:
        return None, net_wins
    own_weights = None if weights is None else weights[rows]
    with one_blas_thread():
        classifier.fit(
            take_rows(X, rows), np.ravel(order_of_row), **fit_weights(classifier, own_weights)
        )
    return classifier, net_wins


def _expected_net_wins(
    classifier: Any, net_wins: NDArray[np.float64], X: Any
) -> NDArray[np.float64]:
    """Average the net wins of the orders of one subset over their distribution, (n, size)."""
    if classifier is None:
        return np.broadcast_to(net_wins.sum(axis=0), (X.shape[0], net_wins.shape[1]))
    if hasattr(classifier, "predict_proba"):
        expected: NDArray[np.float64] = np.asarray(classifier.predict_proba(X)) @ net_wins
        return expected
    return net_wins[np.asarray(classifier.predict(X))]
