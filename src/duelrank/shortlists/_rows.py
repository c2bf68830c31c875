"""Which rows are learned from, and which calibrate."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Split(NamedTuple):
    """Numbers of rows: to learn from, to calibrate on, and those drawn to calibrate in vain.

    The last ones have labels that no other row has. They are learned from, so that their labels are
    known, and count as rows whose label was in no list: without them it would not have been known.
    """

    learning: NDArray[np.intp]
    calibrating: NDArray[np.intp]
    lost: NDArray[np.intp]


def hold_out(labels: NDArray[Any], share: float, rng: np.random.RandomState) -> Split:
    """Draw rows to calibrate on, whatever their labels are, as new ones will be.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        The labels of the rows.
    share : float
        Share of the rows to calibrate on.
    rng : RandomState
        Draws.
    """
    drawn = np.zeros(len(labels), dtype=bool)
    drawn[rng.permutation(len(labels))[: round(share * len(labels))]] = True
    known = np.isin(labels, np.unique(labels[~drawn]))
    return Split(
        *(np.flatnonzero(rows) for rows in (~(drawn & known), drawn & known, drawn & ~known))
    )


def check_share(share: Any) -> float:
    """Return the share of rows to calibrate on, if it is one."""
    if not isinstance(share, Real) or isinstance(share, bool) or not 0 < float(share) < 1:
        raise ValueError(f"calibration_size must be between 0 and 1, got {share!r}.")
    return float(share)
