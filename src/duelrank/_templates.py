"""Templates of predictions: what a fitted classifier answers for no rows.

By them, whatever predicts takes points that come in blocks as well, and says of the answer what its
columns and its type will be before any of it is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from duelrank.rankings import check_k


def known_labels(estimator: Any) -> NDArray[Any]:
    """Return the labels of a fitted classifier, and raise for anything else.

    Parameters
    ----------
    estimator : fitted classifier, pipeline or search
        Anything with one vector ``classes_``.
    """
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)
    if not hasattr(estimator, "classes_") or isinstance(estimator.classes_, list):
        raise TypeError(
            "estimator must be a fitted single-output classifier, "
            f"got an instance of {type(estimator).__name__}."
        )
    return np.asarray(estimator.classes_)


def no_labels(estimator: Any) -> NDArray[Any]:
    """Return what predict answers for no rows."""
    return known_labels(estimator)[:0]


def no_scores(estimator: Any) -> NDArray[np.float64]:
    """Return what label scores and probabilities are for no rows."""
    return np.empty((0, len(known_labels(estimator))))


def no_decisions(estimator: Any) -> NDArray[np.float64]:
    """Return what decision_function answers for no rows."""
    scores = no_scores(estimator)
    return scores[:, 0] if scores.shape[1] == 2 else scores


def no_ranks(estimator: Any) -> NDArray[np.int64]:
    """Return what predict_ranks answers for no rows."""
    return no_scores(estimator).astype(np.int64)


def no_order(estimator: Any) -> NDArray[Any]:
    """Return what predict_order answers for no rows."""
    return known_labels(estimator)[no_ranks(estimator)]


def no_top(estimator: Any, k: int) -> NDArray[Any]:
    """Return what predict_top answers for no rows."""
    check_k(k, len(known_labels(estimator)))
    return no_order(estimator)[:, :k]
