"""Training rows as a linear map: from coefficients of labels to their scores, and back.

Coefficients are (d + 1, K): those of d columns, and in the last row the intercepts. Rows are
centred, so that an intercept is the score of a label at the mean of the rows. Dense rows are turned
to a basis in which their columns are uncorrelated; this leaves the penalty ‖w‖² as it is, and lets
one number for every coefficient precondition the solver. Sparse rows stay sparse, and are centred
without being touched.

Sums over rows are taken over the same parts of them whatever the number of threads.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from duelrank._batches import batches
from duelrank._threads import Threads

Floats = NDArray[Any]

LARGEST_BASIS = 1500  # columns, or rows, up to which an eigenbasis is computed
PARTS = 8  # of dense rows that threads share
PARTS_OF_COLUMNS = 64  # of sparse rows; products of small parts need no fresh memory


class DensePoints:
    """Dense rows.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
        The rows.
    weights : ndarray of shape (n,), or None
        Their weights.
    fit_intercept : bool
        Whether there are intercepts; without them, rows are not centred.
    threads : Threads
        The threads.
    """

    def __init__(
        self, X: Floats, weights: Floats | None, fit_intercept: bool, threads: Threads
    ) -> None:
        self.threads, self.fit_intercept = threads, fit_intercept
        self.mean = _mean(X, weights, fit_intercept).astype(X.dtype)
        centred = X - self.mean
        self.basis = _eigenbasis(centred, weights)
        self.rows = centred if self.basis is None else centred @ self.basis
        self.parts = _parts(len(X))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns d."""
        n_rows, n_columns = self.rows.shape
        return n_rows, n_columns

    @property
    def dtype(self) -> Any:
        """Precision of the rows."""
        return self.rows.dtype

    def scores(self, coef: Floats, shift: Floats, rows: slice) -> Floats:
        """Return the scores of some rows, (m, K), for coefficients (d + 1, K) and their shift."""
        return self.rows[rows] @ coef[:-1] + shift

    def shift(self, coef: Floats) -> Floats:
        """Return what is added to the products of rows and coefficients, (K,)."""
        return coef[-1]

    def adjoint(self, of_rows: Any, out: Floats | None = None) -> Floats:
        """Return Σ_i (x_i, 1) g_iᵀ for numbers g, (n, K), dense or sparse: (d + 1, K).

        Coefficients of dense rows are few, and `out` is not made use of.
        """

        def part(rows: slice) -> Floats:
            mine = of_rows[rows]
            if isinstance(mine, np.ndarray):
                return self.rows[rows].T @ mine
            return (mine.T @ self.rows[rows]).T

        sums = self.threads.map(part, self.parts)
        return self._with_intercept(sums, of_rows)

    def adjoint_of_squares(self, of_rows: Any) -> Floats:
        """Return Σ_i (x_i², 1) g_iᵀ, (d + 1, K)."""

        def part(rows: slice) -> Floats:
            squares, mine = np.square(self.rows[rows]), of_rows[rows]
            return squares.T @ mine if isinstance(mine, np.ndarray) else (mine.T @ squares).T

        return self._with_intercept(self.threads.map(part, self.parts), of_rows)

    def _with_intercept(self, sums: list[Floats], of_rows: Any) -> Floats:
        total = self.fit_intercept * _column_sums(of_rows)
        return np.vstack([np.sum(sums, axis=0), total]).astype(self.dtype)

    def unscaled(self, coef: Floats) -> tuple[Floats, Floats]:
        """Return coefficients (n_columns, K) and intercepts (K,) of the rows as they were given."""
        of_columns = coef[:-1] if self.basis is None else self.basis @ coef[:-1]
        return of_columns, coef[-1] - self.mean @ of_columns


class SparsePoints:
    """Sparse rows.

    Parameters
    ----------
    X : CSR matrix of shape (n, d)
        The rows.
    weights : ndarray of shape (n,), or None
        Their weights.
    fit_intercept : bool
        Whether there are intercepts; without them, rows are not centred.
    threads : Threads
        The threads.
    """

    def __init__(
        self, X: Any, weights: Floats | None, fit_intercept: bool, threads: Threads
    ) -> None:
        self.rows, self.threads, self.fit_intercept = X, threads, fit_intercept
        self.mean = _mean(X, weights, fit_intercept).astype(X.dtype)
        columns = sparse.csr_array(X.T)
        # As many entries in every part.
        entries = np.linspace(0, columns.nnz, PARTS_OF_COLUMNS + 1)
        ends = np.searchsorted(columns.indptr, entries)
        ends[0], ends[-1] = 0, columns.shape[0]
        ends = np.unique(ends)
        self.parts = [slice(start, stop) for start, stop in pairwise(ends.tolist())]
        self.columns = [columns[part] for part in self.parts]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns d."""
        n_rows, n_columns = self.rows.shape
        return n_rows, n_columns

    @property
    def dtype(self) -> Any:
        """Precision of the rows."""
        return self.rows.dtype

    def scores(self, coef: Floats, shift: Floats, rows: slice) -> Floats:
        """Return the scores of some rows, (m, K), for coefficients (d + 1, K) and their shift."""
        scores: Floats = self.rows[rows] @ coef[:-1]
        scores += shift
        return scores

    def shift(self, coef: Floats) -> Floats:
        """Return what is added to the products of rows and coefficients, (K,)."""
        parts = self.threads.map(lambda part: self.mean[part] @ coef[part], self.parts)
        return coef[-1] - np.sum(parts, axis=0)

    def adjoint(self, of_rows: Any, out: Floats | None = None) -> Floats:
        """Return Σ_i (x_i, 1) g_iᵀ for numbers g, (n, K), dense or sparse: (d + 1, K)."""
        total = _column_sums(of_rows).astype(self.dtype)
        sums = np.empty((self.shape[1] + 1, len(total)), self.dtype) if out is None else out

        def write(item: tuple[slice, Any]) -> None:
            part, columns = item
            product = _dense(columns @ of_rows)
            np.subtract(product, np.outer(self.mean[part], total), out=sums[part])

        self.threads.map(write, list(zip(self.parts, self.columns, strict=True)))
        sums[-1] = self.fit_intercept * total
        return sums

    def adjoint_of_squares(self, of_rows: Floats) -> Floats:
        """Return Σ_i (x_i², 1) g_iᵀ, (d + 1, K), of rows that are not centred."""
        total = _column_sums(of_rows).astype(self.dtype)
        sums = np.empty((self.shape[1] + 1, len(total)), self.dtype)

        def write(item: tuple[slice, Any]) -> None:
            part, columns = item
            sums[part] = _dense(columns.power(2) @ of_rows)

        self.threads.map(write, list(zip(self.parts, self.columns, strict=True)))
        sums[-1] = self.fit_intercept * total
        return sums

    def unscaled(self, coef: Floats) -> tuple[Floats, Floats]:
        """Return coefficients (d, K) and intercepts (K,) of the rows as they were given."""
        return coef[:-1], coef[-1] - self.mean @ coef[:-1]


Points = DensePoints | SparsePoints


def points_of(X: Any, weights: Floats | None, fit_intercept: bool, threads: Threads) -> Points:
    """Return rows as a linear map; the arguments are those of `DensePoints`."""
    kind = DensePoints if isinstance(X, np.ndarray) else SparsePoints
    return kind(X, weights, fit_intercept, threads)


def _mean(X: Any, weights: Floats | None, fit_intercept: bool) -> Floats:
    """Return what is subtracted from rows, (n_columns,)."""
    if not fit_intercept:
        return np.zeros(X.shape[1])
    share = np.ones(X.shape[0]) if weights is None else weights
    return np.asarray((share / share.sum()) @ X).ravel()


def _eigenbasis(centred: Floats, weights: Floats | None) -> Floats | None:
    """Return an orthonormal basis, (n_columns, d), in which columns are uncorrelated.

    With fewer rows than columns, d is the number of rows: the basis spans them. None if there are
    too many of both.
    """
    n_rows, n_columns = centred.shape
    if min(n_rows, n_columns) > LARGEST_BASIS:
        return None
    exact = centred.astype(np.float64, copy=False)
    if n_columns <= n_rows:
        share = exact if weights is None else exact * weights[:, np.newaxis]
        _, basis = eigh(exact.T @ share)
        return basis.astype(centred.dtype)
    basis, _ = np.linalg.qr(exact.T)
    turned = exact @ basis
    share = turned if weights is None else turned * weights[:, np.newaxis]
    _, inner = eigh(turned.T @ share)
    return (basis @ inner).astype(centred.dtype)


def _parts(n_rows: int) -> list[slice]:
    """Cut rows into parts that threads share."""
    return list(batches(n_rows, max(1024, -(-n_rows // PARTS))))


def _dense(product: Any) -> Floats:
    """Return a product of sparse columns as an array."""
    dense: Floats = product if isinstance(product, np.ndarray) else product.toarray()
    return dense


def _column_sums(of_rows: Any) -> Floats:
    """Sum over rows in double precision, (K,)."""
    if isinstance(of_rows, np.ndarray):
        return of_rows.sum(axis=0, dtype=np.float64)
    return np.asarray(of_rows.sum(axis=0, dtype=np.float64)).ravel()
