"""Histograms of a column, of the training rows and of the new ones.

Of the training rows only counts between edges are known; inside, they are taken to be spread
evenly.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from duelrank.drift._check import Figure
from duelrank.drift._columns import Column
from duelrank.drift._profile import Bins, ColumnProfile
from duelrank.drift._unlike import written

N_BARS, MOST_VALUES = 10, 6
TAIL = 0.01  # share of rows at each end that belong to the first and to the last bar
# The words of a finding, and the measure that it is about.
ABOUT = {"unknown words": "unknown", "texts": "words", "direction": "cosine"}


def figure_of(name: str, column: Column, profile: ColumnProfile, told: str) -> Figure | None:
    """Draw what a finding tells; None if there is nothing to draw."""
    if told.endswith(("missing", "empty")):
        return _two_bars(name, column, profile, told.split()[-1])
    if column.values is not None:
        return _values(name, column, profile)
    measure = next((m for words, m in ABOUT.items() if words in told), None)
    measure = measure or next(iter(profile.measures))
    bins, numbers = profile.measures[measure], column.measures[measure]
    known = numbers[~np.isnan(numbers)]
    if bins.n_rows == 0 or len(known) == 0:
        return None
    return _numbers(name, bins, known, column.kind if measure == "value" else measure)


def _two_bars(name: str, column: Column, profile: ColumnProfile, word: str) -> Figure | None:
    counted = profile.values
    n_known = 0 if counted is None else sum(counted.counts) + counted.others
    n_known = max([n_known, *(bins.n_rows for bins in profile.measures.values())])
    share = profile.missing / max(profile.missing + n_known, 1)
    now = float(column.missing.mean())
    return Figure(name, ("there", word), (1 - share, share), (1 - now, now))


def _values(name: str, column: Column, profile: ColumnProfile) -> Figure | None:
    known = profile.values
    if column.values is None or known is None:
        return None
    there = Counter(column.values[~column.missing].tolist())
    n_old, n_new = sum(known.counts) + known.others, sum(there.values())
    if n_old == 0 or n_new == 0:
        return None
    old = {value: n / n_old for value, n in zip(known.names, known.counts, strict=True)}
    new = {value: n / n_new for value, n in there.items()}
    common = sorted({*old, *new}, key=lambda v: (-max(old.get(v, 0), new.get(v, 0)), v))
    shown = common[:MOST_VALUES]
    names, before = list(shown), [old.get(value, 0.0) for value in shown]
    now = [new.get(value, 0.0) for value in shown]
    if len(common) > MOST_VALUES or known.others:
        names.append("others")
        before.append(max(1 - sum(before), 0.0))
        now.append(max(1 - sum(now), 0.0))
    return Figure(name, tuple(names), tuple(before), tuple(now))


def _numbers(name: str, bins: Bins, known: NDArray[np.float64], kind: str) -> Figure:
    low = min(bins.quantile(TAIL), float(np.quantile(known, TAIL)))
    low = bins.low if bins.quantile(TAIL) == low else low
    high = max(bins.quantile(1 - TAIL), float(np.quantile(known, 1 - TAIL)))
    different = np.unique(known)
    if bins.single and len(different) <= N_BARS and len(bins.counts) <= N_BARS:
        values = np.unique([*bins.edges, bins.high, *different])
        if len(values) <= N_BARS:
            places = dict(zip([*bins.edges, bins.high], bins.counts, strict=True))
            old = np.array([places.get(value, 0) for value in values.tolist()])
            new = np.array([np.sum(known == value) for value in values])
            names = tuple(_name(value, kind) for value in values.tolist())
            return Figure(name, names, _shares(old), _shares(new))
    if high <= low:
        high = low + 1.0
    ends = np.linspace(low, high, N_BARS + 1)
    inner = ends[1:-1]
    edges, total = np.array([bins.low, *bins.edges, bins.high]), np.cumsum([0, *bins.counts])
    # Up to equal edges there is a step.
    share = np.interp(inner, edges, total) / bins.n_rows
    before = np.diff(np.concatenate([[0.0], share, [1.0]]))
    now = _shares(np.bincount(np.searchsorted(inner, known), minlength=N_BARS))
    names = tuple(_name(value, kind) for value in ends[:-1].tolist())
    return Figure(name, names, tuple(before.tolist()), now)


def _name(value: float, kind: str) -> str:
    return f"{value:.0%}" if kind == "unknown" else written(float(f"{value:.3g}"), kind)


def _shares(counts: NDArray[np.int64]) -> tuple[float, ...]:
    return tuple((counts / max(counts.sum(), 1)).tolist())
