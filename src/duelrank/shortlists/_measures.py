"""How good lists are: how often they hold the right label, and how long they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.rankings import check_codes
from duelrank.shortlists._calibration import check_coverages, exceeds

__all__ = ["LengthCurve", "ShortlistQuality", "length_curve", "measure_shortlists"]


class ShortlistQuality(NamedTuple):
    """How good the lists of some rows are.

    Attributes
    ----------
    coverage : float
        Share of the rows whose list holds the right label.
    mean_length : float
        Mean number of labels in a list.
    rows_by_length : ndarray of int, of shape (K + 1,)
        Number of lists with 0, 1, …, K labels.
    coverage_by_length : ndarray of shape (K + 1,)
        Coverage of the lists of each length; NaN where there are none.
    coverage_by_label : ndarray of shape (K,)
        Coverage of the rows of each label; NaN where there are none.
    """

    coverage: float
    mean_length: float
    rows_by_length: NDArray[np.intp]
    coverage_by_length: NDArray[np.float64]
    coverage_by_label: NDArray[np.float64]


def measure_shortlists(mask: ArrayLike, codes: ArrayLike) -> ShortlistQuality:
    """Measure lists by the right labels.

    Parameters
    ----------
    mask : array-like of bool, of shape (n, K)
        Which labels are in the lists, as by `Shortlister.shortlist_mask`.
    codes : array-like of int, of shape (n,)
        The right labels, as columns of `mask`.

    Returns
    -------
    quality : ShortlistQuality
        Coverage and lengths.

    Examples
    --------
    >>> quality = measure_shortlists([[True, False, False], [False, True, True]], [0, 0])
    >>> quality.coverage, quality.mean_length
    (0.5, 1.5)
    """
    mask = np.asarray(mask, dtype=bool)
    if mask.ndim != 2 or mask.shape[0] == 0:
        raise ValueError(f"mask must have shape (n, K) and at least one row, got {mask.shape}.")
    n_rows, n_classes = mask.shape
    codes = check_codes(codes, n_classes)
    if len(codes) != n_rows:
        raise ValueError(f"codes must have {n_rows} rows as mask has, got {len(codes)}.")
    holds = mask[np.arange(n_rows), codes]
    lengths = mask.sum(axis=1)
    return ShortlistQuality(
        float(holds.mean()),
        float(lengths.mean()),
        np.bincount(lengths, minlength=n_classes + 1),
        _means(holds, lengths, n_classes + 1),
        _means(holds, codes, n_classes),
    )


class LengthCurve(NamedTuple):
    """How long lists are for coverages.

    Attributes
    ----------
    asked : ndarray of shape (m,)
        Coverages asked for.
    coverage, mean_length : ndarrays of shape (m,)
        What lists with these have on some rows.
    """

    asked: NDArray[np.float64]
    coverage: NDArray[np.float64]
    mean_length: NDArray[np.float64]


def length_curve(p_values: ArrayLike, codes: ArrayLike, coverages: ArrayLike) -> LengthCurve:
    """Measure the lists of many coverages at once.

    Parameters
    ----------
    p_values : array-like of shape (n, K)
        As by `Shortlister.p_values`.
    codes : array-like of int, of shape (n,)
        The right labels, as columns.
    coverages : array-like of shape (m,)
        Coverages asked for.

    Returns
    -------
    curve : LengthCurve
        Coverage and mean length for each.
    """
    values = np.asarray(p_values, dtype=np.float64)
    asked = check_coverages(np.asarray(coverages).tolist())
    measured = [measure_shortlists(exceeds(values, coverage), codes) for coverage in asked]
    return LengthCurve(
        np.array(asked),
        np.array([quality.coverage for quality in measured]),
        np.array([quality.mean_length for quality in measured]),
    )


def _means(holds: NDArray[np.bool_], group: NDArray[np.intp], n_groups: int) -> NDArray[np.float64]:
    counts = np.bincount(group, minlength=n_groups)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(group, weights=holds, minlength=n_groups) / counts)
