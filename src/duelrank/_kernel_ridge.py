"""Ridge regression on features of a Gaussian kernel, many targets and penalties at once.

The features are those of Nyström's method: the product of two points' features approximates the
kernel between the points, and equals it if kernels are centred at all rows. One eigendecomposition
of the features' covariance solves all targets for every penalty. It also gives the prediction for
each row by a fit without the row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.metrics.pairwise import rbf_kernel

Floats = NDArray[np.float64]


class Kernel(NamedTuple):
    """Features of a Gaussian kernel exp(−gamma ‖x − z‖²): k(x, centres) · roots.

    Attributes
    ----------
    centres : ndarray of float, of shape (m, n_features)
        The centres.
    gamma : float
        How fast the kernel falls.
    roots : ndarray of float, of shape (m, d)
        Inverse root of the kernel matrix of the centres, along d of its eigenvectors.
    """

    centres: Floats
    gamma: float
    roots: Floats

    @classmethod
    def around(cls, centres: Floats, gamma: float, negligible: float) -> Kernel:
        """Find the features.

        Parameters
        ----------
        centres : ndarray of float, of shape (m, n_features)
            The centres.
        gamma : float
            How fast the kernel falls.
        negligible : float
            Eigenvectors are left out if their eigenvalue is at most this share of the largest.
        """
        values, vectors = eigh(rbf_kernel(centres, gamma=gamma))
        kept = values > negligible * values[-1]
        return cls(centres, gamma, vectors[:, kept] / np.sqrt(values[kept]))

    def features(self, points: Floats) -> Floats:
        """Return the features of points, (n, d)."""
        features: Floats = rbf_kernel(points, self.centres, gamma=self.gamma) @ self.roots
        return features


class Regression(NamedTuple):
    """A regression of t targets: features · coef + offset.

    Attributes
    ----------
    kernel : Kernel
        Makes d features of a point.
    coef : ndarray of float, of shape (d, t)
        Coefficients.
    offset : ndarray of float, of shape (t,)
        Intercepts, which are not penalised.
    """

    kernel: Kernel
    coef: Floats
    offset: Floats

    def predict(self, points: Floats) -> Floats:
        """Return the predictions for points, (n, t)."""
        return self.kernel.features(points) @ self.coef + self.offset


class Solution(NamedTuple):
    """A regression, and its predictions for held-out rows.

    Attributes
    ----------
    regression : Regression
        The one with the best penalty.
    penalty : float
        That penalty.
    error : float
        Its mean squared error under leave-one-out cross-validation.
    held_out : ndarray of float, of shape (n, t)
        The prediction for every row by a fit without the row.
    """

    regression: Regression
    penalty: float
    error: float
    held_out: Floats


def solve(
    kernel: Kernel,
    points: Floats,
    targets: Floats,
    weights: Floats,
    penalties: Floats,
    *,
    least_slack: float,
    counted: NDArray[np.bool_] | None = None,
) -> Solution:
    """Minimise Σ w ‖y − Bᵀz − b‖² + penalty ‖B‖², with the penalty of least held-out error.

    The residual of a row under a fit without the row is its residual under the fit with it, divided
    by the row's *slack*, one minus its leverage.

    Parameters
    ----------
    kernel : Kernel
        Makes the features z.
    points : ndarray of float, of shape (n, n_features)
        The rows.
    targets : ndarray of float, of shape (n, t)
        The targets y.
    weights : ndarray of float, of shape (n,)
        Positive weights w of the rows.
    penalties : ndarray of float, of shape (p,)
        Penalties to choose from; the first of equally good ones is taken.
    least_slack : float
        Smaller slacks are rounding errors, and are replaced by this one.
    counted : ndarray of bool, of shape (n, t), default=None
        Which targets count in the error; all by default.
    """
    share = weights / weights.sum()
    features = kernel.features(points)
    feature_means, target_means = share @ features, share @ targets
    features -= feature_means
    centred = targets - target_means
    weighted = features * weights[:, np.newaxis]
    values, vectors = eigh(features.T @ weighted)
    values = np.maximum(values, 0)
    rotated = features @ vectors
    leverages = weights[:, np.newaxis] * rotated**2  # along every eigenvector
    covariances = vectors.T @ (weighted.T @ centred)
    error_weights = np.broadcast_to(weights[:, np.newaxis], targets.shape)
    if counted is not None:
        error_weights = counted * error_weights
    total = max(error_weights.sum(), 1e-300)
    best: Solution | None = None
    for penalty in penalties:
        leverage = leverages @ (1 / (values + penalty)) + share
        rotated_coef = covariances / (values + penalty)[:, np.newaxis]
        residual = centred - rotated @ rotated_coef
        residual /= np.maximum(1 - leverage, least_slack)[:, np.newaxis]
        error = float(np.einsum("ij,ij,ij->", error_weights, residual, residual)) / total
        if best is None or error < best.error:
            coef = vectors @ rotated_coef
            regression = Regression(kernel, coef, target_means - feature_means @ coef)
            best = Solution(regression, float(penalty), error, targets - residual)
    assert best is not None
    return best


def check_positives(name: str, values: Any) -> Floats:
    """Return a positive number, or several, as a vector."""
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:  # lists of different lengths
        array = np.array(["no numbers"])
    is_vector = array.dtype.kind in "iuf" and array.ndim == 1 and len(array) > 0
    if not is_vector or not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name} must be positive numbers, at least one; got {values!r}.")
    return array.astype(np.float64)
