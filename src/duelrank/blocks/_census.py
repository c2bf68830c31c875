"""The first pass over training data: it checks all rows, counts labels and measures features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array, column_or_1d

from duelrank._batches import batches
from duelrank._sklearn import check_sample_weight
from duelrank._threads import one_blas_thread
from duelrank.blocks._digest import Digests, digests_of_labels, row_digests
from duelrank.blocks._kernels import Columns
from duelrank.rankings import refuse_missing

Floats = NDArray[np.floating]

ROWS_AT_ONCE = 2048  # for sums in double precision, which need a copy of their rows


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
    digests : ndarray of uint64, of shape (K,)
        Sum of the digests of every label's rows; see `row_digests`.
    mean, deviations : ndarrays of shape (n_features,)
        Weighted mean of the features, and weighted sum of the squared deviations from it.
    least, most : ndarrays of shape (n_features,)
        Their smallest and largest numbers, in rows of positive weight.
    lightest, heaviest : float
        The smallest and the largest positive weight.
    """

    head: Any
    dtype: np.dtype[Any]
    n_rows: int
    labels: NDArray[Any]
    counts: NDArray[np.intp]
    weights: Floats
    digests: Digests
    mean: Floats
    deviations: Floats
    least: Floats
    most: Floats
    lightest: float
    heaviest: float

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which features are not constant, up to a few units in the last place."""
        largest = np.maximum(np.abs(self.least), np.abs(self.most))
        return np.asarray(self.most - self.least > 4 * np.finfo(self.dtype).eps * largest)


def count_block(number: int, columns: Columns) -> Census:
    """Check a block of points, labels and weights (or None), and take its census."""
    X, y, sample_weight = columns
    if sparse.issparse(X):
        raise TypeError(
            f"X must come in blocks of dense rows, got blocks of {type(X).__name__}. To fit sparse "
            "rows, pass one sparse matrix in memory, X.compute() of a Dask array."
        )
    head = X[:0]
    try:
        with np.errstate(all="ignore"):  # who learns from numbers that overflow refuses them
            points = check_array(
                X, dtype=(np.float64, np.float32), ensure_min_samples=0, input_name="X"
            )
    except (TypeError, ValueError) as error:
        if hasattr(X, "columns"):
            error.add_note(f"It is in the columns {_unfit_columns(X)} of X.")
        raise
    labels = check_labels(y)
    weights = np.ones(len(labels)) if sample_weight is None else _check_weights(sample_weight)
    for name, column in (("y", labels), ("sample_weight", weights)):
        if len(column) != len(points):
            raise ValueError(
                f"{name} must have one row for each row of X, got {len(column)} for {len(points)}."
            )
    n_rows = len(points)
    names, codes = np.unique(labels, return_inverse=True)  # those without weight as well
    seen = weights > 0
    if not seen.all():
        points, codes, weights = points[seen], codes[seen], weights[seen]
    with np.errstate(all="ignore"):
        mean, deviations = _moments(points, weights)
    return Census(
        head,
        points.dtype,
        n_rows,
        names,
        np.bincount(codes, minlength=len(names)),
        np.bincount(codes, weights, minlength=len(names)).astype(np.float64),
        digests_of_labels(row_digests(points, weights), codes, len(names)),
        mean,
        deviations,
        points.min(axis=0, initial=np.inf).astype(np.float64),
        points.max(axis=0, initial=-np.inf).astype(np.float64),
        float(weights.min(initial=np.inf)),
        float(weights.max(initial=0)),
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
    weights, digests = np.zeros(len(labels)), np.zeros(len(labels), dtype=np.uint64)
    for part in seen:
        place = np.searchsorted(labels, part.labels)
        counts[place] += part.counts
        weights[place] += part.weights
        digests[place] += part.digests
    with np.errstate(all="ignore"):
        mean, deviations = _merged_moments(seen)
    return Census(
        total.head,
        np.result_type(*(part.dtype for part in seen)),
        sum(part.n_rows for part in parts),
        labels,
        counts,
        weights,
        digests,
        mean,
        deviations,
        np.min([part.least for part in seen], axis=0),
        np.max([part.most for part in seen], axis=0),
        min(part.lightest for part in seen),
        max(part.heaviest for part in seen),
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
    refuse_missing(labels)
    assert_all_finite(labels, input_name="y")
    # scikit-learn's own check also warns of labels with few rows, which mean nothing in a block.
    if labels.dtype.kind == "f" and np.any(labels != np.floor(labels)):
        raise ValueError("y must hold class labels, got numbers that are not whole.")
    return labels


def _unfit_columns(frame: Any) -> list[Any]:
    """Name the columns of a dataframe that are no finite numbers."""

    def is_fit(name: Any) -> bool:
        try:
            return bool(np.isfinite(np.asarray(frame[name], dtype=np.float64)).all())
        except (TypeError, ValueError):
            return False

    return [name for name in frame.columns if not is_fit(name)]


def _check_weights(sample_weight: Any) -> Floats:
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim != 1:
        raise ValueError(f"sample_weight must be a vector, got a block of shape {weights.shape}.")
    # All weights of a block may be zero, as long as another block has positive ones.
    return check_sample_weight(np.append(weights, 1.0), np.zeros(len(weights) + 1))[:-1]


def _moments(points: Floats, weights: Floats) -> tuple[Floats, Floats]:
    n_features = points.shape[1]
    if len(points) == 0:
        return np.zeros(n_features), np.zeros(n_features)
    parts = list(batches(len(points), ROWS_AT_ONCE))
    with one_blas_thread():
        mean = np.zeros(n_features)
        for rows in parts:
            mean += weights[rows] @ points[rows].astype(np.float64)
        mean /= weights.sum()
        deviations = np.zeros(n_features)
        for rows in parts:
            centred = points[rows] - mean
            deviations += weights[rows] @ np.square(centred, out=centred)
    return mean, deviations


def _merged_moments(parts: list[Census]) -> tuple[Floats, Floats]:
    """Merge means and deviations from them without cancellation (Chan, Golub & LeVeque 1983)."""
    shares = np.array([part.weights.sum() for part in parts])
    means = np.stack([part.mean for part in parts])
    mean = shares @ means / max(shares.sum(), np.finfo(np.float64).tiny)
    within = np.sum([part.deviations for part in parts], axis=0)
    return mean, within + shares @ (means - mean) ** 2


def _check_alike(head: Any, other: Any) -> None:
    ours, theirs = (list(getattr(h, "columns", range(h.shape[1]))) for h in (head, other))
    if ours != theirs:
        raise ValueError(
            f"X must have the same columns in all blocks, got {ours[:10]} and {theirs[:10]}."
        )
