"""Confidence intervals of shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution


def wilson_interval(
    share: NDArray[np.float64], n: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the two ends of Wilson's 95 % confidence interval of a share.

    Parameters
    ----------
    share : ndarray of float
        The share that was seen, from 0 to 1; NaN where nothing was seen.
    n : ndarray of float
        Number of observations behind the share; NaN where there are none. Weighted observations
        count by Kish's effective sample size, (Σ weights)² / Σ weights².

    Returns
    -------
    low, high : ndarrays of float
        Of the shape of `share`, with 0 ≤ low ≤ share ≤ high ≤ 1. A share of 0 has low = 0 and a
        share of 1 has high = 1, exactly.
    """
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(share * (1 - share) / n + (Z / (2 * n)) ** 2) / (1 + Z**2 / n)
    # Rounding may put an end a little beyond the share, 0 or 1.
    return np.clip(centre - half, 0, share), np.clip(centre + half, share, 1)
