"""Which rows are learned from, and which calibrate."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def hold_out(
    labels: NDArray[Any], share: float, rng: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw rows to learn from and rows to calibrate on.

    Rows are drawn whatever their label is, as new ones will be. Only where a label would have no
    row to learn from, its rows stay there.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        The labels of the rows.
    share : float
        Share of the rows to calibrate on.
    rng : RandomState
        Draws.
    """
    drawn = rng.permutation(len(labels))
    calibrates = np.zeros(len(drawn), dtype=bool)
    calibrates[drawn[: round(share * len(drawn))]] = True
    calibrates &= np.isin(labels, np.unique(labels[~calibrates]))
    return np.flatnonzero(~calibrates), np.flatnonzero(calibrates)


def check_share(share: Any) -> float:
    """Return the share of rows to calibrate on, if it is one."""
    if not isinstance(share, Real) or isinstance(share, bool) or not 0 < float(share) < 1:
        raise ValueError(f"calibration_size must be between 0 and 1, got {share!r}.")
    return float(share)
