"""Features scaled so that single precision can handle them, and coefficients scaled back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._batches import batches
from duelrank.blocks import Census
from duelrank.duels.logistic._batch import Floats

BATCH_SIZE = 2**15  # numbers that are scaled at a time, in a cache


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

    Attributes
    ----------
    penalty : ndarray of shape (d,)
        Penalty of the coefficients of scaled rows; 0 for the intercept.
    """

    def __init__(
        self, mean: Floats, scale: Floats, fit_intercept: bool, dtype: np.dtype[Any]
    ) -> None:
        # Rounded as the rows are, so that scaling is undone exactly.
        self.mean, self.scale = (v.astype(dtype).astype(np.float64) for v in (mean, scale))
        self.fit_intercept = fit_intercept
        self.penalty = np.append(1 / self.scale**2, [0.0] * fit_intercept)

    @classmethod
    def from_rows(cls, X: Any, weights: Floats | None, fit_intercept: bool) -> Scaling:
        """Choose the scaling of some rows, weighted or not."""
        mean, scale = _location_and_scale(X, weights, centre=fit_intercept)
        return cls(mean, scale, fit_intercept, X.dtype)

    @classmethod
    def from_census(cls, census: Census, fit_intercept: bool, dtype: np.dtype[Any]) -> Scaling:
        """Choose the scaling that `from_rows` would choose if it saw all rows."""
        total = max(float(census.weights.sum()), np.finfo(np.float64).tiny)
        mean, variance = census.mean, census.deviations / total
        squares = variance + mean**2
        # A constant column, up to rounding, has no variance.
        variance = np.where(variance <= 1e-24 * squares, 0, variance)
        spread = np.sqrt(variance if fit_intercept else squares)
        spread[~(np.isfinite(spread) & (spread > 0))] = 1
        return cls(mean if fit_intercept else np.zeros_like(mean), spread, fit_intercept, dtype)

    def scaled(self, X: Any, which: NDArray[np.intp], dtype: Any) -> Any:
        """Return some rows scaled, dense or sparse, with a column of ones if there is an intercept.

        They are scaled in the precision of X, and returned in the one asked for.
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
        table = np.empty((len(which), len(self.penalty)), dtype=dtype)
        table[:, n_features:] = 1
        for batch in batches(len(which), BATCH_SIZE // max(1, n_features)):
            rows = X[which[batch]]
            rows -= mean
            rows /= scale
            table[batch, :n_features] = rows
        return table

    def unscale(self, scaled_coef: Floats) -> tuple[Floats, Floats]:
        """Turn coefficients of scaled rows into coefficients and intercepts of the rows of X."""
        coef = scaled_coef[:, : len(self.scale)] / self.scale
        if not self.fit_intercept:
            return coef, np.zeros(len(coef))
        return coef, scaled_coef[:, -1] - coef @ self.mean

    def rescale(self, coef: Floats, intercept: Floats) -> Floats:
        """Undo `unscale`."""
        if not self.fit_intercept:
            return coef * self.scale
        return np.column_stack([coef * self.scale, intercept + coef @ self.mean])


def _location_and_scale(X: Any, weights: Floats | None, centre: bool) -> tuple[Floats, Floats]:
    """Return what to subtract from and divide features by, in double precision."""
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
            if variance[j] <= 1e-24 * squares[j]:  # a constant column, up to rounding
                variance[j] = 0
        spread = np.sqrt(variance)
    spread[~(np.isfinite(spread) & (spread > 0))] = 1
    return mean, spread
