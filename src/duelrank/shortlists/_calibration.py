"""What calibration rows say about scores: p-values.

The p-value of a score s is (1 + the number of calibration scores that are s or more) / (n + 1), for
n calibration rows. If a new row is exchangeable with these, the p-value of its right label is at
most α with probability α or less: its rank among n + 1 exchangeable scores is as likely to be one
as any other. With u uniform between 0 and 1, (the number above s + u · (1 + the number equal to s))
/ (n + 1) is at most α with probability exactly α.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-9  # coverages such as 0.9 are no exact floats


@dataclass(frozen=True)
class Calibration:
    """Scores of the right labels of calibration rows, by group of rows.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Group by group, increasing inside a group.
    begins : ndarray of int, of shape (n_groups + 1,)
        Where groups begin, and n.
    """

    scores: NDArray[np.float64]
    begins: NDArray[np.intp]

    @classmethod
    def of(
        cls, scores: NDArray[np.float64], groups: NDArray[np.intp], n_groups: int
    ) -> Calibration:
        """Sort the scores of rows that belong to groups 0 to n_groups − 1."""
        in_order = np.lexsort((scores, groups))
        begins = np.searchsorted(groups[in_order], np.arange(n_groups + 1))
        return cls(scores[in_order], begins)

    def counts(self) -> NDArray[np.intp]:
        """Return the number of rows of every group."""
        return np.diff(self.begins)

    def count(
        self, scores: NDArray[np.float64], groups: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Count the calibration scores above new ones, and those equal to new ones.

        Parameters
        ----------
        scores : ndarray of shape (n, K)
            Scores of all labels of new rows.
        groups : ndarray of int, of shape (1, 1), (1, K) or (n, 1)
            The group by which all of them, those of a label, or those of a row are judged.
        """
        above = np.empty(scores.shape, dtype=np.intp)
        equal = np.empty(scores.shape, dtype=np.intp)
        by_column = groups.shape[0] == 1
        for group in np.unique(groups):
            some = np.flatnonzero(groups.ravel() == group)
            here: Any = slice(None)
            if groups.size > 1:
                here = (slice(None), some) if by_column else some
            own = self.scores[self.begins[group] : self.begins[group + 1]]
            below, upto = (np.searchsorted(own, scores[here], side) for side in ("left", "right"))
            above[here], equal[here] = len(own) - upto, upto - below
        return above, equal

    def thresholds(self, coverage: float) -> NDArray[np.float64]:
        """Return the largest score of every group whose p-value is above 1 − coverage."""
        found = []
        for begin, end in pairwise(self.begins.tolist()):
            own = self.scores[begin:end]
            # The p-value of a score that so many calibration scores reach.
            n_reaching = np.arange(len(own) + 1)
            none = np.zeros(len(own) + 1, dtype=np.intp)
            enough = exceeds(p_values(n_reaching, none, np.array([len(own)]), None), coverage)
            fewest = int(np.argmax(enough))  # all of them are always enough
            found.append(np.inf if fewest == 0 else own[len(own) - fewest])
        return np.array(found)


def p_values(
    above: NDArray[np.intp],
    equal: NDArray[np.intp],
    n_rows: NDArray[np.intp],
    drawn: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the p-values of scores; with numbers drawn for the rows, exact ones."""
    share = 1.0 if drawn is None else drawn
    return (above + share * (equal + 1)) / (n_rows + 1)


def exceeds(values: NDArray[np.float64], coverage: float) -> NDArray[np.bool_]:
    """Tell which p-values are above 1 − coverage."""
    return values > 1 - coverage + ROUNDING


def threshold(scores: NDArray[np.float64], coverage: float) -> float:
    """Return the ⌈(n + 1) · coverage⌉-th smallest of n scores."""
    place = math.ceil((len(scores) + 1) * coverage - ROUNDING)
    return float(np.partition(scores, place - 1)[place - 1])


def rows_needed(coverage: float) -> int:
    """Return how many calibration rows a coverage needs: with fewer, all labels are in all lists.

    Parameters
    ----------
    coverage : float
        How often lists are to hold the right label, between 0 and 1.

    Returns
    -------
    n_rows : int
        coverage / (1 − coverage), rounded up.

    Examples
    --------
    >>> rows_needed(0.95)
    19
    """
    coverage = check_single_coverage(coverage)
    # The smallest p-value is 1 / (n + 1), which must not be above 1 − coverage.
    return math.ceil(coverage / (1 - coverage) * (1 - ROUNDING) - ROUNDING)


def check_single_coverage(coverage: Any) -> float:
    """Return a coverage, if it is between 0 and 1."""
    if not isinstance(coverage, Real) or isinstance(coverage, bool) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be between 0 and 1, such as 0.95; got {coverage!r}.")
    return float(coverage)


def check_coverages(coverage: Any) -> list[float]:
    """Return one coverage or several as a list."""
    several = [coverage] if isinstance(coverage, Real) else coverage
    if isinstance(several, (str, bytes)) or not isinstance(several, Iterable):
        raise ValueError(
            f"coverage must be one number between 0 and 1 or several, got {coverage!r}."
        )
    values = [check_single_coverage(value) for value in several]
    if not values or len(set(values)) < len(values):
        raise ValueError(f"coverage must be one number or different ones, got {coverage!r}.")
    return values


def check_enough(n_rows: int, coverages: Sequence[float], what: str) -> None:
    """Raise unless there are enough calibration rows."""
    needed = rows_needed(max(coverages))
    if n_rows < needed:
        raise ValueError(
            f"a coverage of {max(coverages):g} needs at least {needed} {what}, got {n_rows}."
        )
