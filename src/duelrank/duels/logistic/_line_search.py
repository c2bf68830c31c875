"""Step lengths along Newton directions, for many convex problems at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from duelrank.duels.logistic._batch import Floats

MOST_TRIALS = 10
FLAT = 0.1  # a step is good when the slope has shrunk to this share of what it was


def line_search(slopes_at: Callable[[Floats], Floats], slope: Floats) -> Floats:
    """Find steps at which the slope along each direction has all but vanished.

    The objectives are convex, so their slopes along a direction increase. The search takes secants
    inside a bracket, which grows while slopes are negative.

    Parameters
    ----------
    slopes_at : callable
        Returns the slopes after steps; both have the shape of `slope`.
    slope : ndarray
        The slopes before any step, negative.
    """
    step = np.ones(slope.shape)
    low, low_slope = np.zeros(slope.shape), slope.copy()
    high = np.full(slope.shape, np.inf)
    for _ in range(MOST_TRIALS):
        current = slopes_at(step)
        searching = np.abs(current) > FLAT * np.abs(slope)
        if not searching.any():
            break
        rise = np.maximum(current - low_slope, np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):  # of a slope that hardly changes; it is clipped
            secant = step - current * (step - low) / rise
        ahead = current < 0
        low, low_slope = np.where(ahead, step, low), np.where(ahead, current, low_slope)
        high = np.where(ahead, high, step)
        inside = np.isfinite(high)
        inset = 0.1 * np.where(inside, high - low, 0)
        bounded = np.clip(secant, low + inset, np.where(inside, high, np.inf) - inset)
        growing = np.clip(secant, 1.5 * step, 5 * step)
        step = np.where(searching, np.where(inside, bounded, growing), step)
    return step
