"""RowTable: the rows of all groups, scaled, and in a basis that suits all problems."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from duelrank._threads import Threads
from duelrank.duels.logistic._batch import Floats, GroupBatch
from duelrank.duels.logistic._groups import Group
from duelrank.duels.logistic._rows import TrainingRows
from duelrank.duels.logistic._scaling import Scaling

LARGEST_BASIS = 1500  # features up to which an eigenbasis is computed


class SideOfProblems(NamedTuple):
    """The problems that a group takes part in, their side and scale, all (q,), as in `GroupBatch`.

    `of_rows` are the sides of single rows, (q, m), or None.
    """

    problems: NDArray[np.intp]
    side: Floats
    scale: Floats
    of_rows: Floats | None = None


class RowTable:
    """Rows sorted by group and scaled.

    If asked to, the table goes on to a basis in which the penalty and the covariance of the rows
    inside their groups are both diagonal: one basis that suits all problems.

    Parameters
    ----------
    rows : TrainingRows
        Rows of positive weight.
    groups : list of Group
        Which of them take part in the same problems.
    scaling : Scaling
        What is done to the features.
    threads : Threads
        The threads.
    rotate : bool, default=False
        Whether to change the basis. Sparse rows and those with very many features stay as they are.
    precise : bool, default=True
        Whether to keep rows in double precision as well, if X is.

    Attributes
    ----------
    single, double : lists of matrices
        Scaled rows of every group in single precision, and in double precision or None.
    row_weights : list of arrays or None
        Their weights.
    basis : ndarray of shape (n_features, n_features), or None
        The basis.
    penalty : ndarray of shape (d,)
        Penalty of the coefficients of the rows; 0 for the intercept.
    """

    def __init__(
        self,
        rows: TrainingRows,
        groups: list[Group],
        scaling: Scaling,
        threads: Threads,
        rotate: bool = False,
        precise: bool = True,
    ) -> None:
        self.scaling = scaling
        self.penalty = scaling.penalty.copy()
        X, weights = rows.X, rows.weights
        self.row_weights = [None if weights is None else weights[group.rows] for group in groups]
        precise = precise and X.dtype == np.float64
        dtype = np.float64 if precise else np.float32
        scaled = threads.map(lambda group: scaling.scaled(X, group.rows, dtype), groups)
        self.basis: Floats | None = None
        if rotate and groups and isinstance(X, np.ndarray) and X.shape[1] <= LARGEST_BASIS:
            self._rotate(scaled, threads)
        self.single = threads.map(lambda part: part.astype(np.float32, copy=False), scaled)
        self.double = scaled if precise else [None] * len(groups)

    def batch(self, group: int, sides: SideOfProblems) -> GroupBatch:
        """Return a group, by its number, as a batch."""
        arrays = self.single[group], self.double[group], self.row_weights[group]
        single, double, weights = (
            rows[np.newaxis] if isinstance(rows, np.ndarray) else rows for rows in arrays
        )
        return GroupBatch(
            single,
            double,
            sides.problems[np.newaxis],
            sides.side[np.newaxis],
            sides.scale[np.newaxis],
            weights,
            np.zeros(1, dtype=np.intp),
            None if sides.of_rows is None else sides.of_rows[np.newaxis],
        )

    def unscale(self, table_coef: Floats) -> tuple[Floats, Floats]:
        """Turn coefficients of the table's rows into coefficients and intercepts of those of X."""
        return self.scaling.unscale(self.in_scaled_basis(table_coef))

    def rescale(self, coef: Floats, intercept: Floats) -> Floats:
        """Undo `unscale`."""
        table_coef = self.scaling.rescale(coef, intercept)
        if self.basis is not None:
            n_features = len(self.basis)
            table_coef[:, :n_features] = np.linalg.solve(self.basis, table_coef[:, :n_features].T).T
        return table_coef

    def in_scaled_basis(self, table_coef: Floats) -> Floats:
        """Turn coefficients of the table's rows into coefficients of scaled rows."""
        if self.basis is None:
            return table_coef
        n_features = len(self.basis)
        return np.hstack([table_coef[:, :n_features] @ self.basis.T, table_coef[:, n_features:]])

    def gradients_in_table_basis(self, gradients: Floats) -> Floats:
        """Turn gradients by coefficients of scaled rows into those by the table's coefficients."""
        if self.basis is None:
            return gradients
        n_features = len(self.basis)
        return np.hstack([gradients[:, :n_features] @ self.basis, gradients[:, n_features:]])

    def _rotate(self, scaled: list[Floats], threads: Threads) -> None:
        """Solve the eigenproblem S b = λ diag(penalty) b, S the covariance inside the groups."""
        n_features = len(self.scaling.scale)

        def scatter(item: tuple[Floats, Any]) -> tuple[Floats, float]:
            rows, weights = item
            share = np.ones(len(rows)) if weights is None else weights
            features = rows[:, :n_features]
            centred = features - share @ features / share.sum()
            return (centred.T * share) @ centred, float(share.sum())

        parts = threads.map(scatter, list(zip(scaled, self.row_weights, strict=True)))
        covariance = np.sum([part for part, _ in parts], axis=0) / sum(w for _, w in parts)
        variance, basis = eigh(covariance, np.diag(self.penalty[:n_features]))
        # Features keep a size that single precision can handle: the largest has variance 1.
        largest = float(variance[-1]) if variance[-1] > 0 else 1.0
        self.basis = basis = basis / np.sqrt(largest)
        self.penalty[:n_features] = 1 / largest

        def turn(rows: Floats) -> None:
            rows[:, :n_features] = rows[:, :n_features] @ basis

        threads.map(turn, scaled)
