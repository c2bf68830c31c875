"""How fitted duels are kept.

Duels are kept as coefficients of the features, P × d numbers, or as coefficients of the training
rows, (K−1) for every row, together with the rows: whichever is smaller. Columns of sparse X without
an entry in training are left out of both.

`KeptDuels` is what an engine keeps, arrays only, as they are in a model file. `_margins` computes
margins from it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._batches import bytes_of_memory
from duelrank._pairs import labels_of_duels, n_pairs, pairs
from duelrank.duels._protocol import is_finite_array
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import TrainingRows
from duelrank.duels.logistic.row_space._appearances import Appearances


class KeptDuels(NamedTuple):
    """Fitted duels, of which some or all are kept as coefficients of rows.

    Attributes
    ----------
    n_features : int
        Number of features that points have.
    columns : ndarray of int, or None
        The columns of X that are left, d of them; None for all.
    coef : ndarray of shape (n_duels, d)
        Coefficients of the duels that are kept as such.
    coef_duels : ndarray of int, of shape (n_duels,)
        Their numbers.
    rows : ndarray or CSR array of shape (n, d)
        Training rows.
    row_numbers : ndarray of int, of shape (n_appearances,)
        The row of every appearance; see `duelrank.duels.logistic.row_space`.
    row_ends : ndarray of int, of shape (K + 1,)
        The appearances under label k are ``row_ends[k]`` to ``row_ends[k + 1]``.
    row_coef : ndarray of shape (n_appearances, K)
        Coefficients of rows in the other duels.
    """

    n_features: int
    columns: NDArray[np.intp] | None
    coef: Floats
    coef_duels: NDArray[np.intp]
    rows: Any
    row_numbers: NDArray[np.intp]
    row_ends: NDArray[np.intp]
    row_coef: Floats

    @classmethod
    def of_features(
        cls,
        coef: Floats,
        n_classes: int,
        n_features: int | None = None,
        columns: NDArray[np.intp] | None = None,
    ) -> KeptDuels:
        """Keep the coefficients of all duels, (P, d), and no rows."""
        n_features = coef.shape[1] if n_features is None else n_features
        nothing = np.zeros(0, dtype=np.intp)
        return cls(
            n_features,
            columns,
            coef,
            np.arange(len(coef)),
            np.zeros((0, coef.shape[1]), dtype=coef.dtype),
            nothing,
            np.zeros(n_classes + 1, dtype=np.intp),
            np.zeros((0, n_classes), dtype=coef.dtype),
        )

    @property
    def n_classes(self) -> int:
        """Number of labels K."""
        return len(self.row_ends) - 1

    @property
    def has_rows(self) -> bool:
        """Whether any duel is kept as coefficients of rows."""
        return len(self.row_numbers) > 0

    @property
    def is_plain(self) -> bool:
        """Whether these are coefficients of all duels and columns, and nothing else."""
        return not self.has_rows and self.columns is None

    def all_coef(self) -> Floats:
        """Return the coefficients of all duels, (P, n_features), as large as they are.

        Raises
        ------
        MemoryError
            If they do not fit in memory.
        """
        self._check_memory(self.n_features)
        coef = self.coef_of_columns()
        if self.columns is None:
            return coef
        spread = np.zeros((len(coef), self.n_features), dtype=coef.dtype)
        spread[:, self.columns] = coef
        return spread

    def without_rows(self) -> KeptDuels:
        """Return the same duels as coefficients of features, however large they are.

        Raises
        ------
        MemoryError
            If they do not fit in memory.
        """
        self._check_memory(self.rows.shape[1])
        coef = self.coef_of_columns()
        return KeptDuels.of_features(coef, self.n_classes, self.n_features, self.columns)

    def _check_memory(self, n_columns: int) -> None:
        n_duels = n_pairs(self.n_classes)
        n_bytes = n_duels * n_columns * self.row_coef.itemsize
        if n_bytes > bytes_of_memory() / 2:
            raise MemoryError(
                f"coef_ would be {n_duels} x {n_columns} numbers, {n_bytes / 1e9:.0f} GB, more "
                "than half of the memory of this machine; margins and rankings are computed "
                "without it."
            )

    def coef_of_columns(self) -> Floats:
        """Return the coefficients of all duels and the columns that are left, (P, d)."""
        first, second = pairs(self.n_classes)
        shape = len(first), self.rows.shape[1]
        if not self.has_rows:
            return self.coef
        # In double precision, because the rows of the two labels may all but cancel.
        coef = np.zeros(shape, order="C" if self.dense else "F")
        for label in range(self.n_classes):
            mine = slice(self.row_ends[label], self.row_ends[label + 1])
            rows = self.rows[self.row_numbers[mine]].astype(np.float64, copy=False)
            part = (rows.T @ self.row_coef[mine].astype(np.float64, copy=False)).T
            coef[second == label] += part[:label]
            coef[first == label] -= part[label + 1 :]
        coef[self.coef_duels] = self.coef
        return coef.astype(self.row_coef.dtype, copy=False)

    def coef_of_duels(self, duels: NDArray[np.intp]) -> Floats:
        """Return the coefficients of some duels and all features, (m, n_features)."""
        coef = self.column_coef_of_duels(duels)
        if self.columns is None:
            return coef
        spread = np.zeros((len(duels), self.n_features), dtype=coef.dtype)
        spread[:, self.columns] = coef
        return spread

    def column_coef_of_duels(self, duels: NDArray[np.intp]) -> Floats:
        """Return the coefficients of some duels and the columns that are left, (m, d)."""
        coef = np.zeros((len(duels), self.rows.shape[1]))
        first, second = labels_of_duels(duels, self.n_classes)
        is_kept = np.zeros(n_pairs(self.n_classes), dtype=bool)
        is_kept[self.coef_duels] = True
        by_rows = ~is_kept[duels]
        for label in np.union1d(first[by_rows], second[by_rows]).tolist():
            mine = slice(self.row_ends[label], self.row_ends[label + 1])
            rows = self.rows[self.row_numbers[mine]].astype(np.float64, copy=False)
            row_coef = self.row_coef[mine].astype(np.float64, copy=False)
            for side, other, sign in ((second, first, 1), (first, second, -1)):
                which = np.flatnonzero(by_rows & (side == label))
                if len(which):
                    coef[which] += sign * (rows.T @ row_coef[:, other[which]]).T
        places = np.searchsorted(self.coef_duels, duels[~by_rows])
        coef[~by_rows] = self.coef[places]
        return coef.astype(self.row_coef.dtype, copy=False)

    def fits_together(self, n_classes: int, n_features: int) -> bool:
        """Tell whether all arrays have the right kinds and shapes, as those of a file may not."""
        rows, duels, n_duels = self.rows, self.coef_duels, n_pairs(n_classes)
        if isinstance(rows, sparse.csr_array):
            rows.check_format(full_check=True)  # raises ValueError
            entries = rows.data
        else:
            entries = rows
        arrays = (entries, self.coef, duels, self.row_numbers, self.row_ends, self.row_coef)
        if not all(isinstance(array, np.ndarray) for array in arrays) or rows.ndim != 2:
            return False
        n_rows, n_columns = rows.shape
        n_appearances = len(self.row_numbers)
        if self.columns is None:
            knows_columns = n_columns == n_features
        else:
            knows_columns = are_numbers(self.columns, (n_columns,), n_features, increasing=True)
        return (
            knows_columns
            and type(self.n_features) is int
            and self.n_features == n_features
            and are_coefficients(entries, entries.shape)
            and are_coefficients(self.coef, (len(duels), n_columns))
            and are_coefficients(self.row_coef, (n_appearances, n_classes))
            and are_numbers(duels, (len(duels),), n_duels, increasing=True)
            and (n_appearances > 0 or len(duels) == n_duels)
            and are_numbers(self.row_numbers, (n_appearances,), n_rows)
            and are_numbers(self.row_ends, (n_classes + 1,), n_appearances + 1)
            and self.row_ends[0] == 0
            and self.row_ends[-1] == n_appearances
            and bool(np.all(np.diff(self.row_ends) >= 0))
        )

    @property
    def dense(self) -> bool:
        """Whether X was."""
        return isinstance(self.rows, np.ndarray)

    def pays(self, rows_anyway: bool = False) -> bool:
        """Tell whether rows and their coefficients take less space than coefficients of features.

        The rows take none if the engine keeps them anyway.
        """
        size = self.rows.size if self.dense else 1.5 * self.rows.nnz
        size = 0 if rows_anyway else size
        d = self.rows.shape[1]
        return self.row_coef.size + size + self.coef.size < n_pairs(self.n_classes) * d


def kept_duels(
    fitted: FittedDuels, rows: TrainingRows, n_features: int, rows_anyway: bool = False
) -> KeptDuels:
    """Keep fitted duels as coefficients of rows or of features, whichever is smaller.

    Parameters
    ----------
    fitted : FittedDuels
        The duels.
    rows : TrainingRows
        The rows of the fit.
    n_features : int
        Number of features of X as it was given.
    rows_anyway : bool, default=False
        Whether the engine keeps the rows anyway.
    """
    n_classes, dense = rows.n_classes, isinstance(rows.X, np.ndarray)
    coef = fitted.coef if dense else np.asfortranarray(fitted.coef)
    if not fitted.by_rows.any():
        return KeptDuels.of_features(coef, n_classes, n_features, rows.columns)
    appearances = Appearances.of(rows.feedback, n_classes)
    kept = KeptDuels(
        n_features,
        rows.columns,
        coef,
        np.flatnonzero(~fitted.by_rows),
        own_copy(rows.X),
        appearances.rows,
        appearances.ends,
        fitted.row_coef,
    )
    if kept.pays(rows_anyway):
        return kept
    return KeptDuels.of_features(kept.coef_of_columns(), n_classes, n_features, rows.columns)


def own_rows(rows: TrainingRows, with_points: bool) -> TrainingRows:
    """Return rows whose codes and weights, and points if asked for, are no one else's arrays."""
    return rows._replace(
        X=own_copy(rows.X) if with_points else rows.X,
        feedback=rows.feedback.copy(),
        weights=None if rows.weights is None else rows.weights.copy(),
    )


def own_copy(X: Any) -> Any:
    """Copy rows, which may be the user's; sparse ones become an array."""
    return X.copy() if isinstance(X, np.ndarray) else sparse.csr_array(X, copy=True)


def are_coefficients(values: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether this is an array of finite numbers in single or double precision."""
    return is_finite_array(values, "f", shape) and values.dtype in (np.float32, np.float64)


def are_numbers(values: Any, shape: tuple[int, ...], stop: int, increasing: bool = False) -> bool:
    """Tell whether this is an array of integers of a shape, from 0 to below `stop`."""
    return (
        is_finite_array(values, "i", shape)
        and bool(np.all((values >= 0) & (values < stop)))
        and not (increasing and np.any(np.diff(values) <= 0))
    )
