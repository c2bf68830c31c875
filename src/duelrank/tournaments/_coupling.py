"""Pairwise coupling: one posterior out of all duel probabilities.

Second method of Wu, Lin & Weng, *Probability estimates for multi-class classification by
pairwise coupling* (JMLR 2004). With r[a, b] the probability that a beats b, the posterior p
minimises Σ_a Σ_b (r[b, a] p[a] − r[a, b] p[b])² subject to Σ p = 1: a linear system per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank._threads import one_blas_thread


def couple(probabilities: ArrayLike) -> Any:
    """Combine duel probabilities into posteriors.

    Parameters
    ----------
    probabilities : array-like of shape (n, K, K) or (K, K)
        ``probabilities[i, a, b]``: probability that label a beats b in row i, with
        ``probabilities[i, b, a]`` its complement. The diagonal is ignored.

    Returns
    -------
    posteriors : ndarray of shape (n, K) or (K,)
        Non-negative, each row sums to 1. Consistent probabilities η_a / (η_a + η_b) give
        back η.

    Examples
    --------
    >>> import numpy as np
    >>> eta = np.array([0.5, 0.3, 0.2])
    >>> couple(eta[:, None] / (eta[:, None] + eta)).round(12)
    array([0.5, 0.3, 0.2])
    """
    return posteriors_from_probabilities(check_probabilities(probabilities))


def check_probabilities(probabilities: ArrayLike) -> NDArray[np.float64]:
    """Return pairwise probabilities as floats after checking that they are complementary."""
    array = np.asarray(probabilities, dtype=np.float64)
    if array.ndim not in (2, 3) or array.shape[-1] != array.shape[-2]:
        raise ValueError(
            f"probabilities must have shape (n, K, K), or (K, K) for one row; got {array.shape}."
        )
    off_diagonal = ~np.eye(array.shape[-1], dtype=bool)
    values = array[..., off_diagonal]
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError("probabilities must lie between 0 and 1 off the diagonal.")
    if not np.allclose(values + np.swapaxes(array, -1, -2)[..., off_diagonal], 1, atol=1e-6):
        raise ValueError(
            "probabilities must be complementary: probabilities[i, a, b] + "
            "probabilities[i, b, a] = 1."
        )
    return array


def posteriors_from_probabilities(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve the systems of Wu, Lin & Weng (2004), eq. 21; kernel of `couple`.

    Q[a, a] = Σ_b r[b, a]² and Q[a, b] = −r[b, a] r[a, b]; then [[Q, 1], [1ᵀ, 0]] [p, λ] = [0, 1].
    The system is regular even where some r are exactly 0 or 1: Q p = 0 asks for
    r[b, a] p[a] = r[a, b] p[b], so two non-zero p have the same sign and cannot sum to 0.
    """
    n_classes = probabilities.shape[-1]
    diagonal = np.arange(n_classes)
    wins = probabilities.copy()
    wins[..., diagonal, diagonal] = 0
    system = np.ones((*wins.shape[:-2], n_classes + 1, n_classes + 1))
    np.multiply(wins, np.swapaxes(wins, -1, -2), out=system[..., :-1, :-1])
    np.negative(system[..., :-1, :-1], out=system[..., :-1, :-1])
    system[..., diagonal, diagonal] = np.square(wins).sum(axis=-2)
    system[..., -1, -1] = 0
    target = np.zeros((*system.shape[:-1], 1))
    target[..., -1, :] = 1
    with one_blas_thread():  # the rounding of large systems depends on the number of threads
        posteriors = np.linalg.solve(system, target)[..., :-1, 0]
    np.maximum(posteriors, 0, out=posteriors)
    return posteriors / posteriors.sum(axis=-1, keepdims=True)


def project_onto_order(
    posteriors: NDArray[np.float64], order: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the closest posteriors that decrease strictly along the given order.

    Rows that already decrease stay as they are. The others are projected isotonically (least
    squares, non-increasing along `order`). Then a billionth of a distribution that decreases along
    the order is mixed in, so that no two values are equal.
    """
    along = np.take_along_axis(posteriors, order, axis=-1)
    disagree = ~(along[:, 1:] < along[:, :-1]).all(axis=-1)
    if disagree.any():
        n_classes = along.shape[1]
        fitted = _non_increasing(along[disagree])
        slope = np.arange(n_classes, 0, -1) / (n_classes * (n_classes + 1) / 2)
        along[disagree] = (1 - 1e-9) * fitted + 1e-9 * slope
    projected = np.empty_like(along)
    np.put_along_axis(projected, order, along, axis=-1)
    return projected


def _non_increasing(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit non-increasing rows by least squares: fit[r] = min_{s ≤ r} max_{t ≥ r} mean(s..t)."""
    n_places = values.shape[1]
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    lengths = np.arange(1, n_places + 1) - np.arange(n_places)[:, np.newaxis]
    means = np.where(
        lengths > 0,
        (sums[:, np.newaxis, 1:] - sums[:, :-1, np.newaxis]) / np.maximum(lengths, 1),
        -np.inf,
    )
    best_end = np.maximum.accumulate(means[:, :, ::-1], axis=2)[:, :, ::-1]
    best_end[:, lengths <= 0] = np.inf
    # Rounding in the sums may leave steps of the wrong sign; they are flattened.
    return np.minimum.accumulate(best_end.min(axis=1), axis=1)
