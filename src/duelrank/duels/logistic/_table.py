"""The rows of all groups: scaled so that single precision can handle them, in a basis that suits.

`Scaling` says what is done to features and how it is undone to coefficients. `RowTable` holds the
scaled rows of every group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from duelrank._batches import batches
from duelrank._threads import Threads
from duelrank.blocks import Census
from duelrank.duels.logistic._batch import Floats, GroupBatch
from duelrank.duels.logistic._extremes import Extremes
from duelrank.duels.logistic._groups import Group
from duelrank.duels.logistic._rows import TrainingRows

NUMBERS_AT_ONCE = 2**15  # that are scaled in a cache
SMALLEST_VARIANCE = 1e-8  # inside groups, as a share of that of all rows
LARGEST_BASIS = 1500  # features up to which an eigenbasis is computed


class Scaling:
    """What is done to features so that single precision can handle them, and how it is undone.

    With an intercept, features are centred and divided by their standard deviations. Without one,
    they are divided by their root mean squares. Sparse features are only divided. The penalty makes
    up for it, so the objective stays the same: features x / s have the coefficients s w and the
    penalty 1 / s².

    Parameters
    ----------
    mean, scale : ndarrays of shape (n_features,)
        What to subtract, and then to divide by.
    fit_intercept : bool
        Whether to append a column of ones, which is not penalised.
    dtype : dtype
        Precision of the rows.
    intercept_penalty : float, default=0.0
        Penalty of the intercept of scaled rows.
    extremes : Extremes, default=None
        What is not ordinary about the columns; by default nothing.

    Attributes
    ----------
    penalty : ndarray of shape (d,)
        Penalty of the coefficients of scaled rows, the last one that of the intercept.
    """

    def __init__(
        self,
        mean: Floats,
        scale: Floats,
        fit_intercept: bool,
        dtype: np.dtype[Any],
        intercept_penalty: float = 0.0,
        extremes: Extremes | None = None,
    ) -> None:
        # Rounded as the rows are, so that scaling is undone exactly.
        self.mean, self.scale = (v.astype(dtype).astype(np.float64) for v in (mean, scale))
        self.fit_intercept = fit_intercept
        self.intercept_penalty = intercept_penalty
        self.extremes = Extremes.none(len(scale)) if extremes is None else extremes
        # Divided by infinity, a column that cannot matter is zero, and so is its coefficient.
        self.scale[self.extremes.negligible] = np.inf
        penalty = np.where(self.extremes.negligible, 1, 1 / self.scale**2)
        self.penalty = np.append(penalty, [intercept_penalty] * fit_intercept)

    @classmethod
    def from_rows(
        cls,
        X: Any,
        weights: Floats | None,
        fit_intercept: bool,
        intercept_penalty: float = 0.0,
        strength: float = np.inf,
    ) -> Scaling:
        """Choose the scaling of some rows, weighted or not; `strength` is as in `Extremes.of`."""
        mean, spread = _location_and_spread(X, weights, centre=fit_intercept)
        extremes = Extremes.of(X, weights, mean, spread, strength)
        scale = np.where(np.isfinite(spread) & (spread > 0), spread, 1)
        return cls(mean, scale, fit_intercept, X.dtype, intercept_penalty, extremes)

    @classmethod
    def from_census(
        cls,
        census: Census,
        fit_intercept: bool,
        dtype: np.dtype[Any],
        strength: float = np.inf,
    ) -> Scaling:
        """Choose the scaling that `from_rows` would choose if it saw all rows."""
        total = max(float(census.weights.sum()), np.finfo(np.float64).tiny)
        mean, variance = census.mean, np.where(census.varies, census.deviations / total, 0)
        spread = np.sqrt(variance if fit_intercept else variance + mean**2)
        mean = mean if fit_intercept else np.zeros_like(mean)
        extremes = Extremes.of_census(census, dtype, mean, spread, strength)
        scale = np.where(np.isfinite(spread) & (spread > 0), spread, 1)
        return cls(mean, scale, fit_intercept, dtype, extremes=extremes)

    def scaled(self, X: Any, which: NDArray[np.intp], dtype: Any) -> Any:
        """Return some rows scaled, with a one at their end if there is an intercept.

        They are scaled in the precision of X, and returned in the one asked for: sparse rows as
        they are, dense ones transposed, (d, m).
        """
        if not isinstance(X, np.ndarray):
            rows = X[which]
            scaled = sparse.csr_array(rows.multiply(1 / self.scale), dtype=rows.dtype)
            if self.fit_intercept:
                ones = sparse.csr_array(np.ones((rows.shape[0], 1), dtype=rows.dtype))
                scaled = sparse.csr_array(sparse.hstack([scaled, ones]))
            return scaled.astype(dtype, copy=False)
        n_features = X.shape[1]
        mean, scale = self.mean.astype(X.dtype), self.scale.astype(X.dtype)
        table = np.empty((len(self.penalty), len(which)), dtype=dtype)
        table[n_features:] = 1
        for batch in batches(len(which), NUMBERS_AT_ONCE // max(1, n_features)):
            rows = X[which[batch]]
            rows -= mean
            rows /= scale
            table[:n_features, batch] = rows.T
        return table

    def unscale(self, scaled_coef: Floats) -> tuple[Floats, Floats]:
        """Turn coefficients of scaled rows into coefficients and intercepts of the rows of X."""
        coef = scaled_coef[:, : len(self.scale)] / self.scale
        if not self.fit_intercept:
            return coef, np.zeros(len(coef))
        return coef, scaled_coef[:, -1] - coef @ self.mean

    def rescale(self, coef: Floats, intercept: Floats) -> Floats:
        """Undo `unscale`."""
        scaled = coef * np.where(self.extremes.negligible, 0, self.scale)
        if not self.fit_intercept:
            return scaled
        return np.column_stack([scaled, intercept + coef @ self.mean])


class SideOfProblems(NamedTuple):
    """The problems that a group takes part in, with side and strength, as in `GroupBatch`.

    All are (q,); `row_sides` are (q, m), or None.
    """

    problems: NDArray[np.intp]
    side: Floats
    strength: Floats
    row_sides: Floats | None = None


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
        Scaled rows of every group in single precision, and in double precision or None; dense ones
        are transposed, as in `GroupBatch`.
    row_weights : list of arrays or None
        Their weights.
    basis : ndarray of shape (n_features, n_features), or None
        The basis.
    penalty : ndarray of shape (d,)
        Penalty of the coefficients of the rows, the last one that of the intercept.
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
            sides.strength[np.newaxis],
            weights,
            np.zeros(1, dtype=np.intp),
            None if sides.row_sides is None else sides.row_sides[np.newaxis],
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
            share = np.ones(rows.shape[1]) if weights is None else weights
            features = rows[:n_features]
            centred = features - (features @ share / share.sum())[:, np.newaxis]
            return (centred * share) @ centred.T, float(share.sum())

        parts = threads.map(scatter, list(zip(scaled, self.row_weights, strict=True)))
        covariance = np.sum([part for part, _ in parts], axis=0) / sum(w for _, w in parts)
        penalty = self.penalty[:n_features]
        variance, basis = eigh(covariance, np.diag(penalty))
        # Features keep a size that single precision can handle: the largest has variance 1. If
        # rows hardly differ inside their groups, as single rows do, a basis would be of rounding.
        largest = float(variance[-1])
        if not largest > SMALLEST_VARIANCE * float(np.max(1 / penalty)):
            return
        self.basis = basis = basis / np.sqrt(largest)
        self.penalty[:n_features] = 1 / largest

        def turn(rows: Floats) -> None:
            rows[:n_features] = basis.T @ rows[:n_features]

        threads.map(turn, scaled)


def _location_and_spread(X: Any, weights: Floats | None, centre: bool) -> tuple[Floats, Floats]:
    """Return what to subtract from and divide features by, 0 for nothing, in double precision."""
    share = np.ones(X.shape[0]) if weights is None else weights
    share = share / share.sum()
    mean = np.zeros(X.shape[1])
    if not isinstance(X, np.ndarray):
        spread = np.sqrt(X.multiply(X).T @ share)
    else:
        if centre:
            mean = share @ X
        squares = np.einsum("i,ij,ij->j", share, X, X)
        variance = squares - mean**2
        # Where the mean dwarfs the deviations, they cancel: look at these columns again.
        for j in np.flatnonzero(variance <= 1e-6 * squares):
            variance[j] = share @ (X[:, j] - mean[j]) ** 2
            if centre and variance[j] <= 1e-12 * squares[j]:  # so does the mean itself
                away = X[:, j].astype(np.float64) - float(X[0, j])
                mean[j] = float(X[0, j]) + share @ away
                variance[j] = share @ (away - share @ away) ** 2
        spread = np.sqrt(variance)
    return mean, spread
