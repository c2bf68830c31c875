"""What all rankers share: every form of a prediction out of the scores of labels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from duelrank._rank_columns import is_ranks
from duelrank.blocks import predict_by_blocks, refuse_blocks
from duelrank.predictions import order_of, ranks_of
from duelrank.rankings import check_k, top_from_scores
from duelrank.scoring import kendall_tau_scorer


class LabelRanker(ClassifierMixin, BaseEstimator):
    """Parent of estimators that rank: children have `classes_` and a method `_label_scores`.

    ``_label_scores(X)`` returns (n, K) scores, no two equal in a row: their descending order is the
    ranking.
    """

    classes_: NDArray[Any]
    rank_columns_: NDArray[Any]

    @property
    def n_classes_(self) -> int:
        """Number of labels."""
        # Not an attribute of its own: model files of older versions have none.
        return len(self.classes_)

    def _label_scores(self, X: Any) -> NDArray[np.float64]:
        raise NotImplementedError

    def _top_codes(self, X: Any, k: int) -> NDArray[np.intp]:
        """Return the codes of the first k labels, (n, k); children may save work here."""
        return top_from_scores(self._label_scores(X), k)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of every point.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        labels : ndarray of shape (n,)
            First column of `predict_order`.
        """
        return predict_by_blocks("predict", partial(_top, k=1), _first_of, self, X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores whose descending order is the ranking.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        scores : ndarray of shape (n, K), or (n,) for two labels
            No two scores of a row are equal. For two labels, as scikit-learn has it, the score of
            the second minus that of the first.
        """
        return predict_by_blocks("decision_function", _scores, _decisions_of, self, X)

    def predict_ranks(self, X: Any) -> NDArray[np.int64]:
        """Return the place of every label.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        ranks : ndarray of int, of shape (n, K)
            ``ranks[i, k]`` is the place of ``classes_[k]``: 1 is the most probable.
        """
        return predict_by_blocks("predict_ranks", _scores, ranks_of, self, X)

    def predict_order(self, X: Any) -> NDArray[Any]:
        """Return all labels from most to least probable.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        order : ndarray of labels, of shape (n, K)
            One row per point, most probable label first.
        """
        return predict_by_blocks("predict_order", _scores, order_of, self, X)

    def predict_top(self, X: Any, k: int) -> NDArray[Any]:
        """Return the k most probable labels.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.
        k : int
            How many labels, from 1 to K.

        Returns
        -------
        top : ndarray of labels, of shape (n, k)
            One row per point, most probable label first.
        """
        if not hasattr(self, "classes_"):
            check_is_fitted(self)
        check_k(k, len(self.classes_))
        return predict_by_blocks(
            "predict_top", partial(_top, k=k), partial(_labels_of, k=k), self, X
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return how good the rankings are: accuracy for labels, Kendall's τ for rankings.

        Parameters
        ----------
        X : array-like with n rows
            Query points.
        y : array-like of shape (n,) or (n, K), or sparse of shape (n, K)
            Labels, or ranks; of these only the pairs of labels count whose order a row tells, with
            labels left out taken as `unplaced` says (by "auto" as unknown if fit saw gaps, else by
            what these rows look like). Columns of an array are in the order of fit,
            `rank_columns_`; those of a dataframe go by their names.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Share of the points whose first label is theirs, or the mean τ of the rows that place
            one label ahead of another.
        """
        refuse_blocks(
            X,
            "on Dask the accuracy is (ranker.predict(X) == y).mean(), and "
            "duelrank.blocks.write_rankings writes files to compare with labels",
        )
        if not is_ranks(y):
            return float(super().score(X, y, sample_weight))
        return kendall_tau_scorer()(self, X, y, sample_weight=sample_weight)


# For `predict_by_blocks`: functions of a module, because they travel.


def _scores(ranker: LabelRanker, X: Any) -> NDArray[np.float64]:
    return ranker._label_scores(X)


def _top(ranker: LabelRanker, X: Any, k: int) -> NDArray[np.intp]:
    return ranker._top_codes(X, k)


# Of no rows, the codes are an empty array of K columns of any type.


def _labels_of(ranker: LabelRanker, codes: NDArray[Any], k: int) -> NDArray[Any]:
    return ranker.classes_[codes[:, :k].astype(np.intp)]


def _first_of(ranker: LabelRanker, codes: NDArray[Any]) -> NDArray[Any]:
    return _labels_of(ranker, codes, 1)[:, 0]


def _decisions_of(ranker: LabelRanker, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
