"""Some columns of sparse rows: those that have entries in training, or some of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

MOST_IN_A_TABLE = 2**22  # columns for which a table of their new numbers is not too large


class Columns:
    """Some columns of rows, and how to take them.

    Parameters
    ----------
    numbers : ndarray of int, of shape (d,)
        Which columns, increasing.
    n_features : int
        How many there are; they may be far more than rows have entries, as those of hashed text.
    """

    def __init__(self, numbers: NDArray[np.intp], n_features: int) -> None:
        self.numbers = numbers
        self.table: NDArray[np.int32] | None = None
        if n_features <= MOST_IN_A_TABLE:
            self.table = np.full(n_features, -1, dtype=np.int32)  # −1 for those that are left out
            self.table[numbers] = np.arange(len(numbers))

    def of(self, rows: Any) -> Any:
        """Return these columns of rows, dense or in CSR format."""
        if isinstance(rows, np.ndarray):
            return rows[:, self.numbers]
        number = self._new_numbers(rows.indices)
        mine = number >= 0
        ends = np.concatenate([[0], np.cumsum(mine)])[rows.indptr]
        # Both as small integers as those of the rows; other ones are converted in every product.
        ends, number = (v.astype(rows.indptr.dtype, copy=False) for v in (ends, number[mine]))
        shape = rows.shape[0], len(self.numbers)
        return sparse.csr_array((rows.data[mine], number, ends), shape=shape)

    def _new_numbers(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Return the new numbers of columns, −1 for those that are left out."""
        if self.table is not None:
            return self.table[columns]
        if len(self.numbers) == 0:
            return np.full(len(columns), -1)
        place = np.minimum(np.searchsorted(self.numbers, columns), len(self.numbers) - 1)
        return np.where(self.numbers[place] == columns, place, -1)
