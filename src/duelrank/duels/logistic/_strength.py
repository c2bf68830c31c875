"""The inverse strength of the penalty, C: a number, or "scale" for one that goes by the rows.

A penalty of ½‖w‖² / C says that margins x·w are about √C ‖x‖ large before any row is seen. So the C
that suits rows of length 1, as those of TF-IDF, is far too large for raw pixels. "scale" divides by
the mean squared distance of the rows from their mean, as SVMlight's default does by their mean
square, and lets margins be about 10 large. docs/engines.md says how 10 was chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank._batches import batches
from duelrank._threads import one_blas_thread
from duelrank.blocks import Census
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._rows import TrainingRows

LARGE_MARGIN = 10.0
ROUNDING = 1e-13  # of a mean, relative; rows that are no farther from it are all the same
NUMBERS_AT_ONCE = 2**15  # that are centred in a cache


def strength_for_rows(C: Any, rows: TrainingRows, centre: bool) -> float:
    """Return C as a number, for rows whose distance from their mean matters, or from zero."""
    if not isinstance(C, str):
        return float(C)
    return LARGE_MARGIN**2 / mean_square(rows.X, rows.weights, centre)


def strength_for_census(C: Any, census: Census, centre: bool) -> float:
    """Return the same for rows in blocks."""
    if not isinstance(C, str):
        return float(C)
    square = float(census.deviations.sum() / census.weights.sum())
    if not centre:
        square += float(np.square(census.mean).sum())
    return LARGE_MARGIN**2 / _positive(square)


@one_blas_thread()  # of its means the last bits depend on the threads
def mean_square(X: Any, weights: Floats | None, centre: bool) -> float:
    """Return the mean squared distance of rows from their mean, or from zero; 1 if it is zero."""
    share = np.full(X.shape[0], 1.0) if weights is None else weights.astype(np.float64)
    share = share / share.sum()
    mean = share @ X if centre else np.zeros(X.shape[1])
    of_mean = float(mean @ mean)
    total = 0.0
    if isinstance(X, np.ndarray):
        for part in batches(len(X), NUMBERS_AT_ONCE // max(1, X.shape[1])):
            total += float(share[part] @ np.square(X[part] - mean).sum(axis=1))
        rounding = ROUNDING**2 * of_mean
    else:
        squares = np.square(X.data, dtype=np.float64)
        total = float(squares @ np.repeat(share, np.diff(X.indptr))) - of_mean
        rounding = ROUNDING * of_mean
    return _positive(total if total > rounding else 0.0)


def _positive(square: float) -> float:
    return square if np.isfinite(square) and square > 0 else 1.0
