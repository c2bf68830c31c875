"""Scorers: the losses as scikit-learn scorers of any ranker.

They plug into ``cross_validate`` and ``GridSearchCV``. `top_k_scorer` needs only the labels. The
others need the true rankings. If rankings are learned, these are y, and there is nothing to do. If
labels are learned, the rankings reach the scorer as the metadata ``ranks_true`` (columns in the
order of the sorted labels)::

    sklearn.set_config(enable_metadata_routing=True)
    scorer = kendall_tau_scorer().set_score_request(ranks_true=True)
    cross_validate(ranker, X, y, scoring=scorer, params={"ranks_true": ranks})

>>> from sklearn.datasets import load_iris
>>> from sklearn.model_selection import cross_val_score
>>> from duelrank import DuelRanker
>>> X, y = load_iris(return_X_y=True)
>>> cross_val_score(DuelRanker(random_state=0), X, y, scoring=top_k_scorer(2)).min()
np.float64(1.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length

from duelrank._rank_columns import is_ranks, ranks_by_label
from duelrank._sklearn import MetadataRequester, check_sample_weight, predictor_inside
from duelrank.feedback import check_feedback, check_sparse_feedback
from duelrank.losses import kendall_distance, kendall_tau, kendall_tau_of_known_pairs, top_k_loss
from duelrank.predictions import predict_ranks
from duelrank.rankings import check_ranks, codes_from_labels, is_full

__all__ = [
    "RankingScorer",
    "TopKScorer",
    "kendall_distance_scorer",
    "kendall_tau_scorer",
    "top_k_scorer",
]


class RankingScorer(MetadataRequester):
    """Scorer that compares predicted with true rankings.

    Build one with `kendall_tau_scorer` or `kendall_distance_scorer`, or from any function
    ``(ranks_true, ranks_pred) → one number a row``.

    Parameters
    ----------
    measure : callable
        Function of (n, K) true and predicted ranks that returns one number a row.
    greater_is_better : bool, default=True
        Distances are smaller when better: their scores are negated.
    partial_measure : callable, default=None
        The measure for true rankings that have ties or leave labels out, in the form of
        `duelrank.feedback.Feedback`; NaN for rows that have none. By default such rankings are
        refused.
    """

    def __init__(
        self,
        measure: Callable[[Any, Any], Any],
        *,
        greater_is_better: bool = True,
        partial_measure: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        if not callable(measure):
            raise TypeError(f"measure must be a function of two rank arrays, got {measure!r}.")
        self.measure = measure
        self.greater_is_better = greater_is_better
        self.partial_measure = partial_measure

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        ranks_true: ArrayLike | None = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the weighted mean of the measure over the rows of X.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            Ranked by its ``decision_function`` or ``predict_proba``.
        X : array-like of shape (n, n_features)
            Query points.
        y : array-like of shape (n,) or (n, K), or sparse of shape (n, K)
            Labels, which play no part; or the true ranks, in place of `ranks_true`. Their columns
            are named by a dataframe, or else in the order of the ranker's fit.
        ranks_true : array-like of shape (n, K), default=None
            True ranks; columns follow ``estimator.classes_``, unless they are those of a
            dataframe and named by the labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        """
        name = "ranks_true"
        if ranks_true is None and is_ranks(y):
            ranks_true, name = y, "y"
        if ranks_true is None:
            raise ValueError(
                f"{self!r} needs the true rankings: request them with "
                "set_score_request(ranks_true=True) and pass params={'ranks_true': ranks}."
            )
        if issparse(ranks_true):
            ranks_true = check_sparse_feedback(ranks_true, unplaced="unknown", name=name).dense()
        predicted = predict_ranks(estimator, X)
        ranker = predictor_inside(estimator)
        # The columns of y are in the order of fit; those of metadata follow the sorted labels.
        columns = getattr(ranker, "rank_columns_", None) if name == "y" else None
        truth = ranks_by_label(ranks_true, estimator.classes_, columns, name)
        if self.partial_measure is not None and not is_full(truth):
            told = check_feedback(
                truth, unplaced=_unplaced(ranker), n_classes=predicted.shape[1], name=name
            ).ranks
            check_consistent_length(told, predicted)
            values = self.partial_measure(told, predicted)
        else:
            truth = check_ranks(truth, n_classes=predicted.shape[1], name=name)
            values = self.measure(truth, predicted)
        score = _average(values, sample_weight)
        return score if self.greater_is_better else -score

    # The body is never used: its signature tells metadata routing what may be requested.
    def score(self, X: Any, y: Any, ranks_true: Any = None, sample_weight: Any = None) -> None:
        """Declare the metadata that ``set_score_request`` knows."""

    def __repr__(self) -> str:
        name = getattr(self.measure, "__name__", repr(self.measure))
        negated = "" if self.greater_is_better else ", greater_is_better=False"
        return f"RankingScorer({name}{negated})"


class TopKScorer(MetadataRequester):
    """Scorer that returns the share of rows whose label is among the first k.

    Parameters
    ----------
    k : int
        From 1 to K.
    """

    def __init__(self, k: int) -> None:
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}.")
        self.k = k

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the weighted top-k accuracy.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            Ranked by its ``decision_function`` or ``predict_proba``.
        X : array-like of shape (n, n_features)
            Query points.
        y : array-like of shape (n,)
            Observed labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        """
        if is_ranks(y):
            raise ValueError(
                f"{self!r} measures labels, but y holds ranks; take kendall_tau_scorer(), or give "
                "it the first labels."
            )
        ranks = predict_ranks(estimator, X)
        check_consistent_length(ranks, y)
        codes = codes_from_labels(y, np.asarray(estimator.classes_), "y")
        return 1 - _average(top_k_loss(codes, ranks, self.k), sample_weight)

    # The body is never used: its signature tells metadata routing what may be requested.
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Declare the metadata that ``set_score_request`` knows."""

    def __repr__(self) -> str:
        return f"TopKScorer(k={self.k})"


def kendall_tau_scorer() -> RankingScorer:
    """Return a scorer for the mean Kendall τ to the true rankings, full or partial."""
    return RankingScorer(kendall_tau, partial_measure=kendall_tau_of_known_pairs)


def kendall_distance_scorer() -> RankingScorer:
    """Return a scorer for the negated mean Kendall distance to the true rankings."""
    return RankingScorer(kendall_distance, greater_is_better=False)


def top_k_scorer(k: int) -> TopKScorer:
    """Return a scorer for the top-k accuracy."""
    return TopKScorer(k)


def _unplaced(ranker: Any) -> str:
    """Tell what a ranker takes labels left out for."""
    # If fit saw gaps, NaN means unknown here too.
    if getattr(ranker, "unplaced_", None) == "unknown":
        return "unknown"
    unplaced: str = getattr(ranker, "unplaced", "auto")
    return unplaced


def _average(values: Any, sample_weight: Any) -> float:
    """Average what is known; NaN if nothing is."""
    weights = np.ones(len(values))
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, values)
    known = ~np.isnan(values)
    if not np.any(weights[known] > 0):
        return float("nan")
    return float(np.average(values[known], weights=weights[known]))
