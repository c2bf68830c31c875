"""Products between the rows of duels, for many duels at once.

`DuelGrams` holds one matrix for every duel. `GridGrams` holds the duels between some labels and
others, all against all: the products inside a label are held once and multiplied with the vectors
of all its duels at once. So a product of all duels reads a third to a quarter of the numbers, and
numbers that have to be read are what its time goes into.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from duelrank.duels.logistic._batch import Floats


class Gram(Protocol):
    """Gram matrices G of Q duels with N rows each; a shorter duel has zeros."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision."""

    def times(self, vectors: Floats) -> Floats:
        """Return G v of every duel, for vectors v, (Q, F, N)."""

    def of_duel(self, duel: int) -> Floats:
        """Return the matrix of one duel, (N, N)."""

    def lengths(self) -> Floats:
        """Return the lengths of all rows, (Q, N): the roots of the diagonals."""

    def only(self, duels: NDArray[Any]) -> Gram:
        """Return some of the duels, by number or mask."""

    def astype(self, dtype: type) -> Gram:
        """Return the same in a precision."""


class DuelGrams(NamedTuple):
    """Gram matrices of duels, one by one, (Q, N, N)."""

    matrices: Floats

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision."""
        return self.matrices.dtype

    def times(self, vectors: Floats) -> Floats:
        """Return G v of every duel, for vectors v, (Q, F, N)."""
        product: Floats = vectors @ self.matrices  # they are symmetric
        return product

    def of_duel(self, duel: int) -> Floats:
        """Return the matrix of one duel, (N, N)."""
        return self.matrices[duel]

    def lengths(self) -> Floats:
        """Return the lengths of all rows, (Q, N): the roots of the diagonals."""
        return _roots_of_diagonals(self.matrices)

    def only(self, duels: NDArray[Any]) -> DuelGrams:
        """Return some of the duels, by number or mask."""
        return DuelGrams(self.matrices[duels])

    def astype(self, dtype: type) -> DuelGrams:
        """Return the same in a precision."""
        return DuelGrams(self.matrices.astype(dtype, copy=False))


class GridGrams(NamedTuple):
    """Gram matrices of the duels of A labels on the left with B labels on the right.

    Duel a B + b is that of left label a and right label b. Its first M rows are those of the left
    label, the other ones those of the right label.

    Attributes
    ----------
    left : ndarray of shape (A, M, M)
        Products inside the left labels.
    right : ndarray of shape (B, N − M, N − M)
        Products inside the right labels.
    cross : ndarray of shape (A, B, M, N − M)
        Products between a left and a right label.
    """

    left: Floats
    right: Floats
    cross: Floats

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision."""
        return self.cross.dtype

    def times(self, vectors: Floats) -> Floats:
        """Return G v of every duel, for vectors v, (Q, F, N)."""
        n_left, n_right, n_ahead, n_behind = self.cross.shape
        n_duels, n_models = vectors.shape[:2]
        cross = self.cross.reshape(n_duels, n_ahead, n_behind)
        ahead, behind = vectors[..., :n_ahead], vectors[..., n_ahead:]
        result = np.empty(vectors.shape, dtype=self.dtype)
        np.add(
            (ahead.reshape(n_left, -1, n_ahead) @ self.left).reshape(ahead.shape),
            behind @ cross.transpose(0, 2, 1),
            out=result[..., :n_ahead],
        )
        # By label on the right, which all labels on the left have a duel with.
        grid = n_left, n_right, n_models, n_behind
        by_right = behind.reshape(grid).transpose(1, 0, 2, 3).reshape(n_right, -1, n_behind)
        of_right = (by_right @ self.right).reshape(n_right, n_left, n_models, n_behind)
        np.add(
            of_right.transpose(1, 0, 2, 3).reshape(behind.shape),
            ahead @ cross,
            out=result[..., n_ahead:],
        )
        return result

    def of_duel(self, duel: int) -> Floats:
        """Return the matrix of one duel, (N, N)."""
        a, b = divmod(duel, self.cross.shape[1])
        cross = self.cross[a, b]
        return np.block([[self.left[a], cross], [cross.T, self.right[b]]])

    def lengths(self) -> Floats:
        """Return the lengths of all rows, (Q, N): the roots of the diagonals."""
        n_left, n_right = self.cross.shape[:2]
        left, right = _roots_of_diagonals(self.left), _roots_of_diagonals(self.right)
        return np.hstack([np.repeat(left, n_right, axis=0), np.tile(right, (n_left, 1))])

    def only(self, duels: NDArray[Any]) -> DuelGrams:
        """Return some of the duels, by number or mask."""
        numbers = np.flatnonzero(duels) if duels.dtype == bool else duels
        return DuelGrams(np.stack([self.of_duel(int(duel)) for duel in numbers]))

    def astype(self, dtype: type) -> GridGrams:
        """Return the same in a precision."""
        return GridGrams(*(part.astype(dtype, copy=False) for part in self))


def _roots_of_diagonals(matrices: Floats) -> Floats:
    diagonals = np.einsum("qnn->qn", matrices)
    roots: Floats = np.sqrt(np.maximum(diagonals, 0))
    return roots
