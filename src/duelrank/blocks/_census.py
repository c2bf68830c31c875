"""The first pass over training data: it checks all rows, counts labels and measures features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from duelrank._sklearn import check_sample_weight

Floats = NDArray[np.floating]

ROWS_AT_ONCE = 8192  # for sums of squares, which need a copy of their rows


@dataclass(frozen=True)
class Census:
    """What is known of training data after one pass.

    Attributes
    ----------
    head : array or dataframe without rows
        Tells the number of features, and their names if they have any.
    dtype : dtype
        Precision of the features, single or double.
    n_rows : int
        Number of rows.
    labels : ndarray of shape (K,)
        The labels that have rows, sorted.
    counts : ndarray of int, of shape (K,)
        Number of rows of positive weight of every label.
    weights : ndarray of shape (K,)
        How much they weigh together.
    mean, deviations : ndarrays of shape (n_features,)
        Weighted mean of the features, and weighted sum of the squared deviations from it.
    """

    head: Any
    dtype: np.dtype[Any]
    n_rows: int
    labels: NDArray[Any]
    counts: NDArray[np.intp]
    weights: Floats
    mean: Floats
    deviations: Floats


def count_block(number: int, X: Any, y: Any, sample_weight: Any) -> Census:
    """Check a block of points, labels and weights (or None), and take its census.

    Parameters
    ----------
    number : int
        Number of the block.
    X, y, sample_weight : blocks
        Points, labels, and weights or None.
    """
    head = X[:0]
    points = check_array(X, dtype=(np.float64, np.float32), ensure_min_samples=0, input_name="X")
    labels = check_labels(y)
    weights = np.ones(len(labels)) if sample_weight is None else _check_weights(sample_weight)
    for name, column in (("y", labels), ("sample_weight", weights)):
        if len(column) != len(points):
            raise ValueError(
                f"{name} must have one row for each row of X, got {len(column)} for {len(points)}."
            )
    seen = weights > 0
    n_rows = len(points)
    if not seen.all():
        points, labels, weights = points[seen], labels[seen], weights[seen]
    names, codes = np.unique(labels, return_inverse=True)
    mean, deviations = _moments(points, weights)
    return Census(
        head,
        points.dtype,
        n_rows,
        names,
        np.bincount(codes, minlength=len(names)),
        np.bincount(codes, weights, minlength=len(names)).astype(np.float64),
        mean,
        deviations,
    )


def merge_censuses(parts: list[Census]) -> Census:
    """Put the censuses of blocks together."""
    total = parts[0]
    for part in parts[1:]:
        _check_alike(total.head, part.head)
    seen = [part for part in parts if len(part.labels)]
    if not seen:
        return replace(total, n_rows=sum(part.n_rows for part in parts))
    labels = np.unique(np.concatenate([part.labels for part in seen]))
    counts = np.zeros(len(labels), dtype=np.intp)
    weights = np.zeros(len(labels))
    places = [np.searchsorted(labels, part.labels) for part in seen]
    for part, place in zip(seen, places, strict=True):
        counts[place] += part.counts
        weights[place] += part.weights
    mean, deviations = _merged_moments(seen)
    return Census(
        total.head,
        np.result_type(*(part.dtype for part in parts)),
        sum(part.n_rows for part in parts),
        labels,
        counts,
        weights,
        mean,
        deviations,
    )


def check_labels(y: Any) -> NDArray[Any]:
    """Return a block of labels as a vector after checking that there is one for every row."""
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must hold one label a row where rows come in blocks, got {shape[1]} columns; "
            "rankings are learned from rows in memory."
        )
    labels = column_or_1d(y)
    if labels.dtype == object and any(label is None or label != label for label in labels):
        raise ValueError("y contains NaN or None; every row needs a label.")
    assert_all_finite(labels, input_name="y")
    if len(labels):
        check_classification_targets(labels)
    return labels


def _check_weights(sample_weight: Any) -> Floats:
    weights = np.asarray(sample_weight, dtype=np.float64)
    # Some rows of all data have to weigh something, which a single block cannot tell.
    return check_sample_weight(np.append(weights, 1.0), np.zeros(len(weights) + 1))[:-1]


def _moments(points: Floats, weights: Floats) -> tuple[Floats, Floats]:
    n_features = points.shape[1]
    if len(points) == 0:
        return np.zeros(n_features), np.zeros(n_features)
    mean = (weights / weights.sum()) @ points.astype(np.float64, copy=False)
    deviations = np.zeros(n_features)
    for start in range(0, len(points), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        centred = points[rows] - mean
        deviations += np.einsum("i,ij,ij->j", weights[rows], centred, centred)
    return mean, deviations


def _merged_moments(parts: list[Census]) -> tuple[Floats, Floats]:
    """Merge means and deviations from them without cancellation (Chan, Golub & LeVeque 1983)."""
    shares = np.array([part.weights.sum() for part in parts])
    means = np.stack([part.mean for part in parts])
    mean = shares @ means / shares.sum()
    within = np.sum([part.deviations for part in parts], axis=0)
    return mean, within + shares @ (means - mean) ** 2


def _check_alike(head: Any, other: Any) -> None:
    ours, theirs = (list(getattr(h, "columns", range(h.shape[1]))) for h in (head, other))
    if ours != theirs:
        raise ValueError(
            f"X must have the same columns in all blocks, got {ours[:10]} and {theirs[:10]}."
        )
