"""Products between rows: Gram matrices, of rows that are dense or sparse.

Text has a few columns with entries in many rows and very many with entries in few. A product of two
sparse matrices spends its time on the frequent columns, so these are multiplied as dense matrices,
and the rare ones as sparse matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._batches import batches
from duelrank._threads import Threads
from duelrank.duels.logistic._batch import Floats

# A column with entries in more than this share of the rows is multiplied as a dense one: there,
# a sparse product takes more time for the pairs of rows that share it than a dense one for all.
FREQUENT = 0.08
ROWS_AT_ONCE = 512  # of a product that threads share
NUMBERS_AT_ONCE = 2**22  # of the dense parts of many small parts


class RowProducts:
    """Products between rows, in double precision.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows.
    centre : ndarray of shape (d,), or None
        What to subtract from dense rows.
    scale : float
        What to divide the products by.
    threads : Threads
        The threads.
    """

    def __init__(self, X: Any, centre: Floats | None, scale: float, threads: Threads) -> None:
        self.threads = threads
        self.factor = 1 / np.sqrt(scale)
        self.centre = centre
        self.frequent, self.rare = X, None
        if not isinstance(X, np.ndarray):
            rows_of_columns = np.bincount(X.indices, minlength=X.shape[1])
            frequent = rows_of_columns > FREQUENT * X.shape[0]
            self.frequent, self.rare = X[:, frequent], X[:, ~frequent]

    def between(
        self, rows: NDArray[np.intp], others: NDArray[np.intp], alone: bool = False
    ) -> Floats:
        """Return the products of some rows with others, (n_rows, n_others).

        Threads share the work, unless it is to be done by the calling one `alone`.
        """
        dense, sparse_part = self._matrices(rows)
        other_dense, other_sparse = self._matrices(others)
        result = np.empty((len(rows), len(others)))
        transposed = None if other_sparse is None else sparse.csr_array(other_sparse.T)

        def fill(part: slice) -> None:
            np.matmul(dense[part], other_dense.T, out=result[part])
            if transposed is not None:
                result[part] += sparse_part[part] @ transposed

        threads = Threads(None, 1) if alone else self.threads
        threads.map(fill, list(batches(len(rows), ROWS_AT_ONCE)))
        return result

    def within(self, rows: NDArray[np.intp]) -> Floats:
        """Return the products between some rows, symmetric, (n_rows, n_rows)."""
        dense, sparse_part = self._matrices(rows)
        result = np.empty((len(rows), len(rows)))
        transposed = None if sparse_part is None else sparse.csc_array(sparse_part.T)

        def fill(part: slice) -> None:
            ahead = slice(part.start, None)  # what is behind is the same, mirrored
            products = dense[part] @ dense[ahead].T
            if transposed is not None:
                products += sparse_part[part] @ transposed[:, ahead]
            result[part, ahead] = products

        def mirror(part: slice) -> None:
            own = result[part, part]
            own[:] = np.triu(own) + np.triu(own, 1).T
            result[part.stop :, part] = result[part, part.stop :].T

        parts = list(batches(len(rows), ROWS_AT_ONCE))
        self.threads.map(fill, parts)
        self.threads.map(mirror, parts)
        return result

    def within_each(self, parts: list[NDArray[np.intp]]) -> list[Floats]:
        """Return the products between the rows of every part, many small parts at once."""
        grams: list[Floats] = []
        at_once = max(1, NUMBERS_AT_ONCE // max(1, self.frequent.shape[1]))
        ends = np.cumsum([0, *map(len, parts)])
        for number in np.unique(ends[:-1] // at_once):
            some = np.flatnonzero(ends[:-1] // at_once == number)
            grams += self._within_some([parts[i] for i in some])
        return grams

    def _within_some(self, parts: list[NDArray[np.intp]]) -> list[Floats]:
        dense, sparse_part = self._matrices(np.concatenate(parts))
        counts = np.array([len(part) for part in parts])
        ends = np.cumsum([0, *counts])
        where = np.cumsum([0, *counts**2])
        numbers = np.zeros(where[-1])
        if sparse_part is not None:
            # One product for all: the entries of every part get columns of their own.
            part = np.repeat(np.arange(len(parts)), counts)
            entry_part = np.repeat(part, np.diff(sparse_part.indptr))
            columns = entry_part * sparse_part.shape[1] + sparse_part.indices
            used, columns = np.unique(columns, return_inverse=True)
            shape = sparse_part.shape[0], len(used)
            apart = sparse.csr_array((sparse_part.data, columns, sparse_part.indptr), shape=shape)
            product = sparse.coo_array(apart @ apart.T)
            mine = part[product.row]
            place = (product.row - ends[mine]) * counts[mine] + product.col - ends[mine]
            numbers[where[mine] + place] = product.data
        grams = []
        for i, count in enumerate(counts.tolist()):
            gram = numbers[where[i] : where[i + 1]].reshape(count, count)
            rows = dense[ends[i] : ends[i + 1]]
            gram += rows @ rows.T
            grams.append(np.triu(gram) + np.triu(gram, 1).T)
        return grams

    def _matrices(self, rows: NDArray[np.intp]) -> tuple[Floats, Any]:
        """Return the dense part and the sparse part, if there is one, of some rows."""
        part = self.frequent[rows]  # a copy
        dense = part.toarray() if self.rare is not None else part
        dense = dense.astype(np.float64, copy=False)
        if self.centre is not None:
            dense -= self.centre
        dense *= self.factor
        if self.rare is None:
            return dense, None
        return dense, sparse.csr_array(self.rare[rows], dtype=np.float64) * self.factor
