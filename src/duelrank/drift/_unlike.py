"""Rows unlike training: those with a cell that no training row could have had.

A cell is *odd* if its number is beyond those of all training rows, if its category was never seen,
or if it is missing in a column that never lacked a cell. A text is odd for more unknown words than
any training text, or for being longer; a vector for its length or for its direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.drift._check import UnusualRow
from duelrank.drift._columns import SIDES, Column, shortened
from duelrank.drift._profile import Bins, ColumnProfile
from duelrank.drift._seen import Seen

MOST_SHOWN = 10  # unusual rows
MOST_REASONS = 5  # of a row
LONGEST_SHOWN = 40  # characters of a value


def never_seen(name: str, column: Column, profile: ColumnProfile, seen: Seen) -> NDArray[np.bool_]:
    """Tell which cells hold a category that no training row had, as far as that is known."""
    known: set[str] | None = None
    if column.values is None or profile.values is None:
        return np.zeros(len(column.missing), dtype=bool)
    if profile.values.n_values == len(profile.values.names):
        known = set(profile.values.names)
    elif name in seen.values:
        known = {shortened(value) for value in seen.values[name]} | set(profile.values.names)
    if known is None:
        return np.zeros(len(column.missing), dtype=bool)
    different = {value for value in set(column.values.tolist()) if value not in known}
    is_new = np.array([value in different for value in column.values.tolist()], dtype=bool)
    return np.asarray(is_new & ~column.missing)


def odd_cells(
    name: str, column: Column, profile: ColumnProfile, seen: Seen
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Tell which cells are odd, and how far numbers are beyond those of training.

    Returns
    -------
    odd : ndarray of bool, of shape (n,)
        Whether a cell is odd.
    far : ndarray of shape (n,)
        From 0 to 1; 1 is infinitely far.
    """
    far = np.zeros(len(column.missing))
    odd = column.missing & (profile.missing == 0)
    odd = odd | never_seen(name, column, profile, seen)
    for measure, bins in profile.measures.items():
        if measure in column.measures and bins.n_rows:
            above, below = _beyond(column.measures[measure], bins, SIDES[measure])
            odd = odd | (above > 0) | (below > 0)
            distance = np.maximum(above, below) / max(bins.high - bins.low, 1e-300)
            far = np.maximum(far, distance / (1 + distance))
    return odd, far


class Unlike(NamedTuple):
    """Rows unlike training.

    Attributes
    ----------
    rows : ndarray of bool, of shape (n,)
        Whether a row is.
    n_apart : int
        How many rows are, if every new value counts once.
    shown : tuple of UnusualRow
        The most unusual ones, with the reasons.
    """

    rows: NDArray[np.bool_]
    n_apart: int
    shown: tuple[UnusualRow, ...]


def find_unlike(
    columns: Mapping[str, Column],
    profiles: Mapping[str, ColumnProfile],
    seen: Seen,
    n_training_rows: int,
    row_numbers: NDArray[np.int64],
) -> Unlike:
    """Find the rows that are unlike training."""
    n_rows = len(row_numbers)
    n_odd, far, apart = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows, dtype=bool)
    for name, column in columns.items():
        odd, distance = odd_cells(name, column, profiles[name], seen)
        n_odd += odd
        if column.values is not None:
            _, first = np.unique(column.values.astype(str), return_index=True)
            apart[first] |= odd[first]
        else:
            apart |= odd
        far = np.maximum(far, distance)
    order = np.lexsort((np.arange(n_rows), -far, -n_odd))[:MOST_SHOWN]
    shown = []
    for row in order[n_odd[order] > 0].tolist():
        reasons = [
            reason
            for name, column in columns.items()
            if (reason := _reason(name, column, profiles[name], seen, row, n_training_rows))
        ]
        more = len(reasons) - MOST_REASONS
        if more > 0:
            reasons = [*reasons[:MOST_REASONS], f"and {more} more"]
        shown.append(UnusualRow(int(row_numbers[row]), tuple(reasons)))
    return Unlike(n_odd > 0, int(apart.sum()), tuple(shown))


def written(value: float, kind: str) -> str:
    """Write a number or a date shortly."""
    if kind != "date":
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    try:
        return str(date(1970, 1, 1) + timedelta(days=value))
    except OverflowError:
        return f"day {value:.4g}"


def quoted(value: str) -> str:
    """Write a category shortly."""
    return repr(value if len(value) <= LONGEST_SHOWN else value[: LONGEST_SHOWN - 3] + "...")


def _beyond(
    numbers: NDArray[np.float64], bins: Bins, side: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    known = np.nan_to_num(numbers, nan=bins.low)
    above = np.maximum(known - bins.high, 0) if side in ("both", "above") else 0 * known
    below = np.maximum(bins.low - known, 0) if side in ("both", "below") else 0 * known
    return above, below


def _reason(
    name: str, column: Column, profile: ColumnProfile, seen: Seen, row: int, n_rows: int
) -> str:
    """Say what is odd about a cell; nothing if it is not odd."""
    if column.missing[row]:
        return f"{name} is missing, which it never was" if profile.missing == 0 else ""
    cut = Column(
        column.kind,
        column.missing[row : row + 1],
        {measure: numbers[row : row + 1] for measure, numbers in column.measures.items()},
        None if column.values is None else column.values[row : row + 1],
    )
    if cut.values is not None and profile.values is not None:
        if never_seen(name, cut, profile, seen)[0]:
            return f"{name} = {quoted(str(cut.values[0]))} was never seen"
        return ""
    reasons = []
    for measure, bins in profile.measures.items():
        if measure not in cut.measures or not bins.n_rows:
            continue
        above, below = _beyond(cut.measures[measure], bins, SIDES[measure])
        if above[0] > 0 or below[0] > 0:
            beyond = "above" if above[0] > 0 else "below"
            end = bins.high if above[0] > 0 else bins.low
            value = float(cut.measures[measure][0])
            reasons.append(_TOLD[measure](name, value, beyond, end, column.kind, n_rows))
    return "; ".join(reasons)


def _about_value(name: str, value: float, beyond: str, end: float, kind: str, n: int) -> str:
    limit = f"{'at most' if beyond == 'above' else 'at least'} {written(end, kind)}"
    return f"{name} = {written(value, kind)} is {beyond} all {n:,} training rows ({limit})"


def _about_words(name: str, value: float, beyond: str, end: float, kind: str, n: int) -> str:
    return f"{name} has {value:,.0f} words (at most {end:,.0f} in training)"


def _about_unknown(name: str, value: float, beyond: str, end: float, kind: str, n: int) -> str:
    return f"{value:.0%} of the words of {name} are unknown (at most {end:.0%} in training)"


def _about_length(name: str, value: float, beyond: str, end: float, kind: str, n: int) -> str:
    limit = f"{'at most' if beyond == 'above' else 'at least'} {end:.4g} in training"
    return f"{name} has length {value:.4g} ({limit})"


def _about_cosine(name: str, value: float, beyond: str, end: float, kind: str, n: int) -> str:
    return (
        f"{name} points away from the training mean: cosine {value:.2f} (at least {end:.2f} "
        "in training)"
    )


_TOLD = {
    "value": _about_value,
    "words": _about_words,
    "unknown": _about_unknown,
    "length": _about_length,
    "cosine": _about_cosine,
}
