"""Tests whether two samples come from one distribution, of which one is known as counts only.

All of them return p-values that are right or too large: if nothing changed, a p-value below a level
occurs at most about as often as the level says.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

MOST_ROWS_EXACTLY = 10**7
FEWEST_EXPECTED = 5.0  # rows of a group in the smaller sample; smaller groups are joined


def same_shares(old: NDArray[np.int64], new: NDArray[np.int64], spread: float = 0.0) -> float:
    """Return the p-value of Pearson's test that two samples have the same shares of groups.

    Groups that are too rare for the approximation by χ² are joined. Which ones that are depends on
    both samples together, so it tells nothing about their difference.

    Parameters
    ----------
    old, new : ndarrays of int, of shape (k,)
        Rows of every group.
    spread : float, default=0
        How much shares differ besides, if two models made them: the mean of (difference)² / share.
        The statistic is divided by as much as that makes it larger (Rao & Scott 1981).
    """
    n_old, n_new = int(old.sum()), int(new.sum())
    if n_old == 0 or n_new == 0:
        return 1.0
    both = old + new
    order = np.argsort(both, kind="stable")
    smaller = min(n_old, n_new) / (n_old + n_new)
    # The rarest groups make one, as many as it takes for it to have the fewest rows expected.
    n_rare = int(np.sum(both * smaller < FEWEST_EXPECTED))
    joined = np.cumsum(both[order])
    while n_rare and n_rare < len(both) and joined[n_rare - 1] * smaller < FEWEST_EXPECTED:
        n_rare += 1
    rare, others = order[:n_rare], order[n_rare:]
    tables = [
        np.append(sample[others], sample[rare].sum()) if n_rare else sample[others]
        for sample in (old, new)
    ]
    if len(tables[0]) < 2:
        return 1.0
    observed = np.stack(tables).astype(np.float64)
    expected = observed.sum(axis=1, keepdims=True) * observed.sum(axis=0) / observed.sum()
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    statistic /= 1 + spread * n_old * n_new / (n_old + n_new)
    return float(stats.chi2.sf(statistic, observed.shape[1] - 1))


def same_share(
    old: tuple[int, int],
    new: tuple[int, int],
    only: Literal["two-sided", "greater", "less"] = "two-sided",
) -> float:
    """Return the p-value of Fisher's test that two samples have the same share of something.

    Parameters
    ----------
    old, new : (int, int)
        Rows with it, and all rows.
    only : {"two-sided", "greater", "less"}
        Whether a greater or a smaller share of new rows counts alone.
    """
    if old[1] == 0 or new[1] == 0:
        return 1.0
    if old[1] > MOST_ROWS_EXACTLY:  # so many know their share, and Fisher's test takes for ever
        share = (old[0] + 0.5) / (old[1] + 1)
        return float(stats.binomtest(new[0], new[1], share, alternative=only).pvalue)
    table = np.array([[new[0], new[1] - new[0]], [old[0], old[1] - old[0]]])
    return float(stats.fisher_exact(table, alternative=only)[1])


def nothing_new(rows: NDArray[np.int64], n_single: int, n_values: int, old: int, new: int) -> float:
    """Return the p-value that values which only new rows have are there by chance.

    A value that has c rows in both samples together has all of them in the new one with a
    probability of at most (new / (old + new))ᶜ. The most frequent new value is judged by that, and
    so are all new values with a single row together, against those with a single training row.

    Parameters
    ----------
    rows : ndarray of int
        How many rows every value has that no training row has.
    n_single, n_values : int
        How many values have a single training row, and how many there are in training.
    old, new : int
        Number of rows of both samples.
    """
    if len(rows) == 0:
        return 1.0
    share = new / (old + new)
    together = min(1.0, (n_values + len(rows)) * share ** int(rows.max()))
    n_new = int(np.sum(rows == 1))
    each = float(stats.binom.sf(n_new - 1, n_new + n_single, share)) if n_new else 1.0
    return smallest_of(together, each)


def same_order(old: NDArray[np.int64], new: NDArray[np.int64]) -> tuple[float, float]:
    """Return the distance of Kolmogorov and Smirnov between ordered groups, and its p-value.

    The distance is the largest difference of the shares of rows up to some group. Between the ends
    of groups it may be larger, which makes the p-value too large, never too small.

    Parameters
    ----------
    old, new : ndarrays of int, of shape (k,)
        Rows of every group, in their order.
    """
    n_old, n_new = int(old.sum()), int(new.sum())
    if n_old == 0 or n_new == 0:
        return 0.0, 1.0
    distance = float(np.max(np.abs(np.cumsum(old) / n_old - np.cumsum(new) / n_new)))
    n_effective = max(1, round(n_old * n_new / (n_old + n_new)))
    return distance, float(min(1.0, stats.kstwo.sf(distance, n_effective)))


def same_mean(
    old: tuple[NDArray[np.float64], NDArray[np.float64], int],
    new: tuple[NDArray[np.float64], NDArray[np.float64], int],
    spread: float = 0.0,
) -> NDArray[np.float64]:
    """Return the p-values of Welch's test that two samples have the same means.

    Parameters
    ----------
    old, new : (means, standard deviations, number of rows)
        Of k quantities.
    spread : float, default=0
        The variance of what the means differ by besides, if two models made them.
    """
    (mean, deviation, n), (other, other_deviation, m) = old, new
    if min(n, m) < 2:
        return np.ones(len(mean))
    a, b = deviation**2 / n + spread / 2, other_deviation**2 / m + spread / 2
    variance = a + b
    certain = variance <= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = variance**2 / (a**2 / (n - 1) + b**2 / (m - 1))
        values = 2 * stats.t.sf(np.abs(mean - other) / np.sqrt(variance), freedom)
    # Without any spread on both sides, nothing is known about chance.
    return np.asarray(np.where(certain, 1.0, np.nan_to_num(values, nan=1.0)))


def spread_of_shares(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Return how much the shares of groups differ that two models made of the same rows.

    Parameters
    ----------
    a, b : ndarrays of int, of shape (k,)
        Rows of every group, by the first and by the second model.
    """
    there = a + b > 0
    first, second = a[there] / a.sum(), b[there] / b.sum()
    together = (first + second) / 2
    return float(np.sum((first - second) ** 2 / together) / max(len(together) - 1, 1))


def total_variation(old: NDArray[np.int64], new: NDArray[np.int64]) -> float:
    """Return the share of rows that would have to change groups to make both samples alike."""
    if old.sum() == 0 or new.sum() == 0:
        return 0.0
    return min(1.0, float(np.abs(old / old.sum() - new / new.sum()).sum() / 2))


def smallest_of(*values: float) -> float:
    """Return one p-value for several tests of one thing (Bonferroni)."""
    return min(1.0, len(values) * min(values)) if values else 1.0


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values that allow for all tests together (Holm).

    If nothing changed, any of them is below a level at most as often as the level says.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    n = len(values)
    stepped = np.maximum.accumulate(values[order] * (n - np.arange(n)))
    adjusted = np.empty(n)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def smallest_told(n_old: int, n_new: int, level: float) -> float:
    """Return the distance of two distributions that a test tells at least half of the time.

    It is the distance at which Kolmogorov and Smirnov's test rejects, by its asymptotic bound; a
    sample that moved by as much is found about as often as not.
    """
    return float(min(1.0, np.sqrt(-np.log(level / 2) / 2 * (1 / n_old + 1 / n_new))))
