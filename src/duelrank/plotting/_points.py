"""Labelled points: what displays are made from, checked once.

`codes` are the true labels of the points as integers 0..K−1, `places` the ranks that these true
labels got, `weights` what every point counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d, gen_batches

from duelrank._classifiers import known_labels
from duelrank._sklearn import as_indexable, check_sample_weight, predictor_inside, take_rows
from duelrank.rankings import codes_from_labels

__all__ = [
    "check_classes",
    "codes_of",
    "model_name",
    "own_duels",
    "places_of",
    "true_codes",
    "weights_of",
]

# Tournaments of so many bytes are looked at together.
BLOCK_BYTES = 2**26


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
    """Return the places of the labels y among the classes."""
    codes = codes_from_labels(y, classes, name)
    if len(codes) == 0:
        raise ValueError(f"{name} must hold at least one label, got none.")
    return codes


def places_of(codes: NDArray[np.intp], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of every point's true label."""
    return np.take_along_axis(ranks, codes[:, np.newaxis], axis=1)[:, 0]


def own_duels(
    ranker: Any, X: Any, codes: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return the duels of every point's true label with each label, by a DuelRanker.

    Of the tournaments only two (n, K) arrays are kept: whether label k beats the true label, and
    the probability that the true label beats k.
    """
    n_classes = len(ranker.classes_)
    X = as_indexable(X)
    lost = np.empty((len(codes), n_classes), dtype=bool)
    chances = np.empty((len(codes), n_classes))
    for rows in gen_batches(len(codes), max(1, BLOCK_BYTES // (9 * n_classes**2))):
        duels = ranker.tournament(take_rows(X, rows))
        own = np.arange(len(duels)), codes[rows]
        lost[rows] = duels.beats[own[0], :, own[1]]
        chances[rows] = duels.probabilities[own]
    return lost, chances


def weights_of(sample_weight: Any, codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return what every point counts: 1 by default."""
    if sample_weight is None:
        return np.ones(len(codes))
    return check_sample_weight(sample_weight, codes)


def model_name(estimator: Any) -> str:
    """Return the class name of the predictor inside pipelines and searches."""
    return type(predictor_inside(estimator)).__name__
