"""Margins of points: from coefficients of features, or from coefficients of training rows.

Both kinds compute the margins of some points for one *run* of duels after the other, so that all
margins of many points and labels are never held together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from duelrank._batches import batches
from duelrank._pairs import n_pairs, pairs
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._columns import Columns
from duelrank.duels.logistic._counting import MarginsOfRun
from duelrank.duels.logistic._kept import KeptDuels

# In `RowMargins` a column with entries in more than P / DIRECT rows has coefficients of all duels:
# adding these up is so many times faster, number by number, than going through its rows.
DIRECT = 32
RUN_COLUMNS = 1024  # duels whose margins are computed at a time for many dense points
RUN_MARGINS = 2**18  # of few points
MARGINS_AT_ONCE = 2**22  # of the points that are handled together where all duels are one run
COLUMNS_AT_ONCE = 256  # whose coefficients are computed together


class FeatureMargins:
    """Margins from coefficients of features.

    Parameters
    ----------
    coef : ndarray of shape (P, d)
        Coefficients. Those for sparse points are in Fortran order: a sparse product takes them
        without a copy if it takes all duels at once.
    columns : Columns or None
        The columns of points that have coefficients; None if all have.
    """

    def __init__(self, coef: Floats, columns: Columns | None = None) -> None:
        self.coef, self.columns = coef, columns
        self.dtype = coef.dtype

    def run_length(self, points: Any) -> int:
        """Return how many duels are a run for such points."""
        if sparse.issparse(points):
            return len(self.coef)
        return max(RUN_COLUMNS, RUN_MARGINS // max(1, len(points)))

    def points_at_once(self, points: Any) -> int | None:
        """Return how many points may be handled together; None for any number."""
        return max(1, MARGINS_AT_ONCE // len(self.coef)) if sparse.issparse(points) else None

    def of(self, points: Any, intercept: Floats) -> MarginsOfRun:
        """Return the margins of points."""
        if self.columns is not None:
            points = self.columns.of(points)

        def margins(run: slice) -> Floats:
            product: Floats = points @ self.coef[run].T
            product += intercept[run]
            return product

        return margins


class RowMargins:
    """Margins from coefficients of rows.

    Frequent columns of sparse rows have coefficients of all duels here, so that margins are sums
    over the entries of a point. For all other columns, products with the training rows come first,
    and sums over the rows of every label after.

    Parameters
    ----------
    kept : KeptDuels
        The duels.
    dtype : dtype
        Precision.
    """

    def __init__(self, kept: KeptDuels, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.n_classes = kept.n_classes
        self.ends = kept.row_ends
        self.labels = np.repeat(np.arange(self.n_classes), np.diff(self.ends))
        self.row_coef = kept.row_coef.astype(dtype, copy=False)
        first, second = pairs(self.n_classes)
        # Where the sums of the two sides of a duel are in K × K sums, by label and other label.
        self.for_first = first * self.n_classes + second
        self.for_second = second * self.n_classes + first
        self.feature_duels = kept.coef_duels
        self.feature_coef = np.ascontiguousarray(kept.coef.T, dtype=dtype)
        self.columns = None if kept.columns is None else Columns(kept.columns, kept.n_features)
        rows = kept.rows.astype(dtype, copy=False)
        self.row_numbers = kept.row_numbers
        self.sparse = not kept.dense
        if not self.sparse:
            self.rows = rows
            return
        # Rows that appear under several labels are held once, and multiplied once.
        n_rows, n_appearances = rows.shape[0], len(self.row_numbers)
        ones = np.ones(n_appearances, dtype=dtype), (self.row_numbers, np.arange(n_appearances))
        self.appearances = sparse.csr_array(ones, shape=(n_rows, n_appearances))
        self.are_rows = n_appearances == n_rows  # every row has one label: their order suffices
        rows = rows[self.row_numbers] if self.are_rows else rows
        direct = np.bincount(rows.indices, minlength=rows.shape[1]) * DIRECT > len(first)
        columns = np.arange(kept.n_features) if kept.columns is None else kept.columns
        self.direct_columns = Columns(columns[direct], kept.n_features)
        self.other_columns = Columns(columns[~direct], kept.n_features)
        self.other_rows = sparse.csr_array(rows[:, ~direct].T)
        self.direct_coef = self._coef_of(sparse.csr_array(rows[:, direct].T))

    def run_length(self, points: Any) -> int:
        """Return how many duels are a run: all of them."""
        return n_pairs(self.n_classes)

    def points_at_once(self, points: Any) -> int | None:
        """Return how many points may be handled together."""
        return max(1, MARGINS_AT_ONCE // self.n_classes**2)

    def of(self, points: Any, intercept: Floats) -> MarginsOfRun:
        """Return the margins of points, of which there may be `points_at_once`."""
        if self.sparse:
            points = sparse.csr_array(points)
            result = self._differences(self._sums(self.other_columns.of(points) @ self.other_rows))
            result += self.direct_columns.of(points) @ self.direct_coef
        else:
            n_points, n_classes = points.shape[0], self.n_classes
            products = points @ self.rows.T
            sums = np.empty((n_points, n_classes, n_classes), dtype=self.dtype)
            for label in range(n_classes):
                mine = slice(self.ends[label], self.ends[label + 1])
                sums[:, label] = products[:, self.row_numbers[mine]] @ self.row_coef[mine]
            result = self._differences(sums)
        result += intercept
        if len(self.feature_duels):
            mine = points if self.columns is None else self.columns.of(points)
            result[:, self.feature_duels] += mine @ self.feature_coef
        return lambda run: result[:, run]

    def _sums(self, products: Any) -> Floats:
        """Sum sparse numbers times the coefficients of rows, label by label.

        Parameters
        ----------
        products : CSR array of shape (n, n_rows)
            The numbers, one for every row.

        Returns
        -------
        sums : ndarray of shape (n, K, K)
            Entry [i, a, b] sums over the rows of a, with their coefficients in the duel with b.
        """
        n_classes = self.n_classes
        if not self.are_rows:
            products = products @ self.appearances
        products.sort_indices()  # by rows, and so by their labels
        n_sums = products.shape[0] * n_classes
        number = np.repeat(np.arange(products.shape[0]), np.diff(products.indptr))
        place = number * n_classes + self.labels[products.indices]
        ends = np.zeros(n_sums + 1, dtype=products.indptr.dtype)
        np.cumsum(np.bincount(place, minlength=n_sums), out=ends[1:])
        parts = products.data, products.indices, ends
        by_label = sparse.csr_array(parts, shape=(n_sums, products.shape[1]))
        sums: Floats = by_label @ self.row_coef
        return sums.reshape(products.shape[0], n_classes, n_classes)

    def _differences(self, sums: Floats) -> Floats:
        """Return margins without intercepts, (n, P), from the sums of both sides, (n, K, K)."""
        sums = sums.reshape(len(sums), self.n_classes**2)
        margins: Floats = np.take(sums, self.for_second, axis=1)
        margins -= np.take(sums, self.for_first, axis=1)
        return margins

    def _coef_of(self, columns: Any) -> Floats:
        """Return coefficients of all duels for columns of the rows, (n_columns, P)."""
        coef = np.empty((columns.shape[0], len(self.for_first)), dtype=self.dtype)
        for part in batches(columns.shape[0], COLUMNS_AT_ONCE):
            coef[part] = self._differences(self._sums(columns[part]))
        return coef


def margins_of_kept(kept: KeptDuels, dtype: np.dtype[Any]) -> FeatureMargins | RowMargins:
    """Prepare what computes the margins of fitted duels in a precision.

    Dense rows take double precision: far from the origin, their products are large and cancel.
    """
    if kept.has_rows:
        return RowMargins(kept, np.dtype(np.float64) if kept.dense else dtype)
    columns = None if kept.columns is None else Columns(kept.columns, kept.n_features)
    return FeatureMargins(kept.coef.astype(dtype, copy=False), columns)
