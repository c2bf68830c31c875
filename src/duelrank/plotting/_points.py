"""Labelled points: what displays are made from, checked once.

`codes` are the true labels of the points as integers 0..K−1, `places` are the ranks of these
labels, and `weights` say how much every point counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from duelrank._classifiers import known_labels
from duelrank._sklearn import check_sample_weight, predictor_inside
from duelrank.rankings import codes_from_labels

__all__ = [
    "check_classes",
    "codes_of",
    "model_name",
    "places_of",
    "true_codes",
    "weights_of",
]


def codes_of(estimator: Any, X: Any, y: Any) -> NDArray[np.intp]:
    """Return the codes of the labels y of the rows of X among the estimator's classes."""
    classes = known_labels(estimator)
    check_consistent_length(X, y)
    return true_codes(y, classes, "y")


def check_classes(y_true: Any, classes: Any, n_classes: int) -> NDArray[Any]:
    """Return the labels of the columns of predictions; by default the sorted labels of y_true."""
    if classes is None:
        labels = np.unique(column_or_1d(y_true))
        if len(labels) != n_classes:
            raise ValueError(
                f"classes must be given: y_true holds {len(labels)} different labels, "
                f"the predictions have {n_classes} columns."
            )
        return labels
    labels = np.asarray(classes)
    if labels.shape != (n_classes,) or len(set(labels.tolist())) != n_classes:
        raise ValueError(
            f"classes must name the {n_classes} columns of the predictions by different labels, "
            f"got {labels.tolist()}."
        )
    return labels


def true_codes(y: Any, classes: NDArray[Any], name: str = "y_true") -> NDArray[np.intp]:
    """Return the codes of the labels y."""
    codes = codes_from_labels(y, classes, name)
    if len(codes) == 0:
        raise ValueError(f"{name} must hold at least one label, got none.")
    return codes


def places_of(codes: NDArray[np.intp], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of every point's true label."""
    return np.take_along_axis(ranks, codes[:, np.newaxis], axis=1)[:, 0]


def weights_of(sample_weight: Any, codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return how much every point counts: 1 by default."""
    if sample_weight is None:
        return np.ones(len(codes))
    return check_sample_weight(sample_weight, codes)


def model_name(estimator: Any) -> str:
    """Return the class name of the predictor inside pipelines and searches."""
    return type(predictor_inside(estimator)).__name__
