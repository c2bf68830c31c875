"""Numbers of extreme size: which are refused, which columns cannot matter, and who needs care.

The solver works in single precision for most of its way, on rows that are scaled column by column.
That suits ordinary rows. `Extremes` tells what is not ordinary:

- *columns that cannot matter*: their numbers are so small that no coefficient which the penalty
  allows would change an objective. They get coefficients of zero.
- *columns that need care*: of scales that differ by many orders of magnitude, or with deviations
  that single precision does not see next to an outlier or an offset. Duels of such rows are checked
  in double precision, on the rows as they were given, and solved again if need be (`_certificate`).

How large a column must be to matter follows from the objective f of a duel. With p_i the
probability of the wrong side and r_i = strength_i p_i, a coefficient w_j gains no more than
½ (Σ r_i x_ij)² ≤ ½ max x_ij² (Σ r_i)². As −log(1 − p) ≥ p, Σ r_i ≤ f, and at the minimum
f ≤ log(2) Σ strength_i. So the gain is at most ½ log(2) max x_ij² Σ strength_i, as a share of f.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.blocks import Census
from duelrank.duels.logistic._batch import Floats

NEGLIGIBLE_GAIN = 1e-12  # of all columns that cannot matter, as a share of the objective
# Columns need care beyond these: ratios of the largest scale and the smallest, of a mean and a
# scale in double and in single precision, of weights; strengths times squared scales.
LARGEST_RATIO, LARGEST_OFFSET, LARGEST_OFFSET_SINGLE = 1e6, 1e5, 1e2
LARGEST_WEIGHT_RATIO = 1e6
SMALLEST_CURVATURE, LARGEST_CURVATURE = 1e-5, 1e14
LARGEST_CURVATURE_SINGLE = 1e8  # of rows in single precision; the squares of all columns count
LARGEST_CURVATURE_WIDE = 1e12  # where they count too: coefficients of rows cancel in products
# Single precision squares gradients, which are about as large as the strengths of all rows.
SMALLEST_STRENGTH, LARGEST_STRENGTH = 1e-12, 1e15
HIDDEN = 1e-3  # typical deviation in a column, as a share of its scale
# What messages say of columns that need care.
NEED_CARE = "are far larger or smaller than others, or an offset or outlier hides how they vary"
SAMPLE_ROWS = 256  # that tell how large a typical deviation is


def quiet() -> np.errstate:
    """Ignore what NumPy says of numbers that are not finite; the solver looks for them itself."""
    return np.errstate(all="ignore")


def advice(extremes: Extremes, single: bool) -> str:
    """Say what helps duels that need care and have not converged, in single precision or double."""
    wider = ", or fit with dtype=float64" if single else ""
    if len(extremes.careful):
        return f"Columns {listed(extremes.careful)} of X {NEED_CARE}: standardise them{wider}."
    return f"X, the weights or C are very large or small: multiply them by constants{wider}."


def listed(columns: NDArray[np.intp]) -> str:
    """Name the first ten columns."""
    more = f" and {len(columns) - 10} more" if len(columns) > 10 else ""
    return f"{columns[:10].tolist()}{more}"


class Extremes(NamedTuple):
    """What is not ordinary about the columns of some rows.

    Attributes
    ----------
    negligible : ndarray of bool, of shape (n_features,)
        Columns that cannot matter, although they are not constant.
    told : ndarray of int
        Those of them that are not constant up to rounding.
    careful : ndarray of int
        Columns that need care.
    everywhere : bool
        Whether duels need care whatever the columns are, because of weights or strengths.
    """

    negligible: NDArray[np.bool_]
    told: NDArray[np.intp]
    careful: NDArray[np.intp]
    everywhere: bool

    @property
    def need_care(self) -> bool:
        """Whether duels are to be checked in double precision."""
        return self.everywhere or len(self.careful) > 0

    def in_columns(self, columns: NDArray[np.intp] | None) -> Extremes:
        """Name columns by other numbers: those that the columns left had before, or None."""
        if columns is None:
            return self
        return self._replace(told=columns[self.told], careful=columns[self.careful])

    @classmethod
    def none(cls, n_features: int) -> Extremes:
        """Return what is ordinary."""
        nothing = np.zeros(0, dtype=np.intp)
        return cls(np.zeros(n_features, dtype=bool), nothing, nothing, False)

    @classmethod
    def of(
        cls, X: Any, weights: Floats | None, mean: Floats, spread: Floats, strength: float
    ) -> Extremes:
        """Look at rows.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            The rows.
        weights : ndarray of shape (n,), or None
            Their weights.
        mean, spread : ndarrays of shape (n_features,)
            What is subtracted from the columns, and their scales then; 0 if there is nothing left.
        strength : float
            The largest sum of strengths that a duel may have.
        """
        if strength == 0:  # no row tells anything
            return cls.none(X.shape[1])
        negligible, told = _negligible(X, mean, spread, strength)
        sizes = np.where(negligible, 0, spread)
        of_scale = _of_other_scale(_sizes_of_entries(X, sizes), sizes)
        found = cls(negligible, told, of_scale, False)._with_sizes(mean, sizes, strength, X.dtype)
        if weights is not None and len(weights):
            uneven = bool(weights.max() > LARGEST_WEIGHT_RATIO * weights.min())
            found = found._replace(everywhere=found.everywhere or uneven)
        if X.shape[0] < X.shape[1] and strength * float(sizes @ sizes) > LARGEST_CURVATURE_WIDE:
            found = found._replace(everywhere=True)
        return found.hidden_in(X, mean, sizes)

    @classmethod
    def of_census(
        cls, census: Census, dtype: np.dtype[Any], mean: Floats, spread: Floats, strength: float
    ) -> Extremes:
        """Look at what a census tells; what hides deviations, it does not.

        Parameters
        ----------
        census : Census
            What is known of rows in blocks.
        dtype : dtype
            Precision in which they are learned from.
        mean, spread, strength
            As in `of`.
        """
        if strength == 0:
            return cls.none(len(mean))
        some = np.flatnonzero(_small(mean, spread, strength, dense=True))
        largest = np.maximum(census.most - mean, mean - census.least)[some]
        varies = census.varies[some] & (largest > 1e-12 * np.abs(mean[some]))
        negligible, told = _smallest(some, largest, varies, len(mean), strength)
        sizes = np.where(negligible, 0, spread)
        of_scale = _of_other_scale(sizes, sizes)
        found = cls(negligible, told, of_scale, False)._with_sizes(mean, sizes, strength, dtype)
        uneven = census.heaviest > LARGEST_WEIGHT_RATIO * census.lightest
        return found._replace(everywhere=found.everywhere or uneven)

    def hidden_in(self, X: Any, mean: Floats, sizes: Floats) -> Extremes:
        """Add columns whose deviations hide, as rows or a sample of them show; (n, n_features)."""
        varying = np.flatnonzero(sizes > 0)
        if len(varying) == 0:
            return self
        return self._with_careful(varying[_hide_deviations(X, mean, sizes, varying)])

    def _with_careful(self, columns: NDArray[np.intp]) -> Extremes:
        return self._replace(careful=np.union1d(self.careful, columns).astype(np.intp))

    def _with_sizes(self, mean: Floats, sizes: Floats, strength: float, dtype: Any) -> Extremes:
        """Add what sizes and means of columns tell, sizes of 0 where nothing varies."""
        if not sizes.any():  # intercepts alone, which weights and constants may hide
            return self._replace(everywhere=True)
        offset = LARGEST_OFFSET if dtype == np.float64 else LARGEST_OFFSET_SINGLE
        away = np.flatnonzero((sizes > 0) & (np.abs(mean) > offset * sizes))
        curvature = strength * float(sizes.max()) ** 2
        everywhere = not SMALLEST_CURVATURE <= curvature <= LARGEST_CURVATURE
        everywhere |= not SMALLEST_STRENGTH <= strength <= LARGEST_STRENGTH
        if dtype == np.float32:
            everywhere |= strength * float(sizes @ sizes) > LARGEST_CURVATURE_SINGLE
        # A constant column has products between rows in which those of all others are lost.
        everywhere |= bool(np.abs(mean).max() > offset * sizes.max())
        return self._with_careful(away)._replace(everywhere=everywhere)


def _negligible(
    X: Any, mean: Floats, spread: Floats, strength: float
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Tell which columns cannot matter: all together gain less than `NEGLIGIBLE_GAIN`.

    Returns a mask, and the numbers of those that are not constant up to rounding.
    """
    some = np.flatnonzero(_small(mean, spread, strength, isinstance(X, np.ndarray)))
    if len(some) == 0:
        return np.zeros(len(spread), dtype=bool), some
    columns = X[:, some]
    if isinstance(columns, np.ndarray):
        largest = np.abs(columns.astype(np.float64) - mean[some]).max(axis=0, initial=0)
        varies = np.any(columns != columns[:1], axis=0) & (largest > 1e-12 * np.abs(mean[some]))
    else:
        largest = np.zeros(len(some))
        np.maximum.at(largest, columns.indices, np.abs(columns.data.astype(np.float64)))
        varies = largest > 0
    return _smallest(some, largest, varies, len(spread), strength)


def _most_square(strength: float) -> float:
    """Return how large the squared largest deviations of negligible columns may be together."""
    return float(2 * NEGLIGIBLE_GAIN / (np.log(2) * strength))


def _small(mean: Floats, spread: Floats, strength: float, dense: bool) -> NDArray[np.bool_]:
    """Tell which columns may be negligible."""
    small = spread**2 <= _most_square(strength)  # the largest deviation is no smaller
    if dense:  # squares of tiny numbers are zero, as those of a constant column
        small &= (spread > 0) | (mean != 0)
    return np.asarray(small)


def _smallest(
    some: NDArray[np.intp],
    largest: Floats,
    varies: NDArray[np.bool_],
    n_columns: int,
    strength: float,
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Choose columns by their largest deviations, as `_negligible` returns them."""
    in_order = np.argsort(largest, kind="stable")
    chosen = in_order[np.cumsum(largest[in_order] ** 2) <= _most_square(strength)]
    negligible = np.zeros(n_columns, dtype=bool)
    negligible[some[chosen[largest[chosen] > 0]]] = True
    return negligible, np.sort(some[chosen[varies[chosen]]])


def _sizes_of_entries(X: Any, sizes: Floats) -> Floats:
    """Return how large columns are where they have entries: rare words are as large as others."""
    if isinstance(X, np.ndarray):
        return sizes
    counts = np.maximum(np.bincount(X.indices, minlength=X.shape[1]), 1)
    return np.asarray(np.bincount(X.indices, np.abs(X.data), minlength=X.shape[1]) / counts)


def _of_other_scale(of_entries: Floats, sizes: Floats) -> NDArray[np.intp]:
    """Return the columns that are far larger than others, or the others if these are fewer."""
    varying = np.flatnonzero(sizes > 0)
    mine = of_entries[varying]
    if len(mine) == 0 or mine.max() <= LARGEST_RATIO * mine.min():
        return varying[:0]
    larger = mine > np.sqrt(mine.max()) * np.sqrt(mine.min())
    fewer = larger if np.count_nonzero(larger) * 2 <= len(larger) else ~larger
    return varying[fewer]


def _hide_deviations(
    X: Any, mean: Floats, sizes: Floats, varying: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Tell in which columns most rows hardly differ, measured by the scale of the column."""
    if isinstance(X, np.ndarray):
        sample = X[:: -(-len(X) // SAMPLE_ROWS)][:, varying].astype(np.float64)
        scaled = (sample - mean[varying]) / sizes[varying]
        middle = len(scaled) // 2
        deviations = np.abs(scaled - np.partition(scaled, middle, axis=0)[middle])
        differs = deviations > 0
        logs = np.log(np.where(differs, deviations, 1)).sum(axis=0)
        return np.asarray(np.exp(logs / np.maximum(differs.sum(axis=0), 1)) < HIDDEN)
    n_rows, n_columns = X.shape
    column, values = X.indices, X.data.astype(np.float64)
    counts = np.maximum(np.bincount(column, minlength=n_columns), 1)
    present = values != 0
    logs = np.bincount(column, np.log(np.abs(np.where(present, values, 1))), minlength=n_columns)
    squares = sizes**2 * n_rows / counts  # of the entries; weights are left out of account
    hidden = np.exp(logs / counts) < HIDDEN * np.sqrt(squares)
    # A column that is nearly full may have an offset.
    centre = np.bincount(column, values, minlength=n_columns) / counts
    away = np.bincount(column, (values - centre[column]) ** 2, minlength=n_columns) / counts
    full = counts > n_rows / 4
    hidden |= full & (away <= HIDDEN**2 * squares) & (away > 1e-28 * squares)
    return np.asarray(hidden[varying])
