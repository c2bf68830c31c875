"""Rankings read off any fitted classifier, pipeline or search.

The scores of the labels are those of ``decision_function``, or else of ``predict_proba``. The
``decision_function`` of a `DuelRanker` carries its whole ranking, so these functions agree with its
methods wherever it is wrapped.

>>> from sklearn.datasets import load_iris
>>> from sklearn.linear_model import LogisticRegression
>>> X, y = load_iris(return_X_y=True)
>>> predict_order(LogisticRegression(max_iter=1000).fit(X, y), X[:2])
array([[0, 1, 2],
       [0, 1, 2]])
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._classifiers import known_labels, label_scores
from duelrank.blocks import predict_by_blocks
from duelrank.rankings import check_k, order_from_scores, ranks_from_scores, top_from_scores

__all__ = ["predict_order", "predict_ranks", "predict_top"]


def predict_ranks(estimator: Any, X: Any) -> NDArray[np.int64]:
    """Return the place of every label, by any fitted classifier.

    Parameters
    ----------
    estimator : fitted classifier, pipeline or search
        Anything with ``classes_`` and ``decision_function`` or ``predict_proba``. Labels with
        equal scores are ranked in the order of ``classes_``; a `DuelRanker` has no equal scores.
    X : array-like with n rows, or Dask array or dataframe
        Query points; of Dask the answer is a Dask array, not yet computed.

    Returns
    -------
    ranks : ndarray of int, of shape (n, K)
        ``ranks[i, k]`` is the place of ``estimator.classes_[k]``: 1 is the most probable.
    """
    return predict_by_blocks("predict_ranks", label_scores, ranks_of, estimator, X)


def predict_order(estimator: Any, X: Any) -> NDArray[Any]:
    """Return all labels from most to least probable, by any fitted classifier.

    Parameters
    ----------
    estimator : fitted classifier, pipeline or search
        As in `predict_ranks`.
    X : array-like with n rows, or Dask array or dataframe
        Query points; of Dask the answer is a Dask array, not yet computed.

    Returns
    -------
    order : ndarray of labels, of shape (n, K)
        One row per point, most probable label first.
    """
    return predict_by_blocks("predict_order", label_scores, order_of, estimator, X)


def predict_top(estimator: Any, X: Any, k: int) -> NDArray[Any]:
    """Return the k most probable labels, by any fitted classifier.

    Parameters
    ----------
    estimator : fitted classifier, pipeline or search
        As in `predict_ranks`.
    X : array-like with n rows, or Dask array or dataframe
        Query points; of Dask the answer is a Dask array, not yet computed.
    k : int
        How many labels, from 1 to K.

    Returns
    -------
    top : ndarray of labels, of shape (n, k)
        One row per point, most probable label first.
    """
    check_k(k, len(known_labels(estimator)))
    return predict_by_blocks("predict_top", label_scores, partial(top_of, k=k), estimator, X)


# Answers for `predict_by_blocks`: from a classifier and the scores of its labels, (n, K).


def ranks_of(estimator: Any, scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of every label."""
    return ranks_from_scores(scores)


def order_of(estimator: Any, scores: NDArray[Any]) -> NDArray[Any]:
    """Return all labels, best first."""
    return np.asarray(estimator.classes_)[order_from_scores(scores)]


def top_of(estimator: Any, scores: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the first k labels."""
    return np.asarray(estimator.classes_)[top_from_scores(scores, k)]
