"""Profiles as JSON, and back: what is read may come from anybody, so all of it is checked."""

from __future__ import annotations

import math
from typing import Any

from duelrank.drift._columns import KINDS, LONGEST_VALUE, MEASURES
from duelrank.drift._profile import (
    MOST_COLUMNS,
    MOST_VALUES,
    N_BINS,
    N_BUCKETS,
    N_SALTS,
    Bins,
    ColumnProfile,
    Profile,
    Values,
    count_buckets,
)
from duelrank.drift._ranked import LONGEST, MOST_LABELS, Ranked

FORMAT = 1
MOST_ROWS = 2**53  # above, JSON's numbers are not exact


def as_dict(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON can hold it."""
    ranked = profile.ranked
    return {
        "format": FORMAT,
        "rows": profile.n_rows,
        "unlike": profile.n_unlike,
        "columns": {name: _column(column) for name, column in profile.columns.items()},
        "labels": {
            "counts": list(profile.label_counts),
            "others": profile.other_labels,
            "single": profile.single_labels,
        },
        "ranked": None
        if ranked is None
        else {
            "rows": ranked.n_rows,
            "same_model": ranked.same_model,
            "first": list(ranked.first),
            "places": list(ranked.mean_places),
            "deviations": list(ranked.deviations),
            "labelled": ranked.n_labelled,
            "top_1": ranked.n_top_1,
            "top_5": ranked.n_top_5,
            "spreads": [ranked.first_spread, ranked.place_spread],
            "lengths": None if ranked.lengths is None else list(ranked.lengths),
        },
    }


def _column(column: ColumnProfile) -> dict[str, Any]:
    stored: dict[str, Any] = {"kind": column.kind, "missing": column.missing}
    for name, bins in column.measures.items():
        stored[name] = {
            "low": bins.low,
            "high": bins.high,
            "mean": bins.mean,
            "edges": list(bins.edges),
            "counts": list(bins.counts),
            "single": bins.single,
        }
    if column.values is not None:
        values = column.values
        stored["values"] = {
            "names": list(values.names),
            "counts": list(values.counts),
            "others": values.others,
            "different": values.n_values,
            "single": values.n_single,
            "salt": values.salt,
        }
        if values.others:  # otherwise the names tell
            stored["values"]["buckets"] = list(values.buckets)
    return stored


def from_dict(stored: Any) -> Profile:
    """Read a profile, and check all of it."""
    whole = _Reader(stored, "the profile")
    if whole.count("format") != FORMAT:
        raise ValueError(
            f"the profile has format {whole.count('format')}, which needs a newer duelrank."
        )
    n_rows = whole.count("rows")
    whole.require(n_rows > 0, "rows")
    columns = whole.part("columns").content
    whole.require(len(columns) <= MOST_COLUMNS, "columns")
    labels = whole.part("labels")
    label_counts = labels.counts("counts", MOST_LABELS)
    profile = Profile(
        n_rows=n_rows,
        columns={name: _read_column(name, column, n_rows) for name, column in columns.items()},
        n_unlike=whole.count("unlike", n_rows),
        label_counts=tuple(label_counts),
        other_labels=labels.count("others", n_rows),
        single_labels=labels.count("single", n_rows),
        ranked=None
        if whole.content.get("ranked") is None
        else _read_ranked(whole.part("ranked"), len(label_counts)),
    )
    n_labelled = sum(profile.label_counts) + profile.other_labels
    labels.require(n_labelled <= n_rows, "counts")
    return profile


def _read_column(name: Any, stored: Any, n_rows: int) -> ColumnProfile:
    column = _Reader(stored, f"the profile of column {name!r:.60}")
    kind: Any = column.content.get("kind")
    column.require(isinstance(kind, str) and kind in KINDS, "kind")
    n_missing = column.count("missing", n_rows)
    n_known = n_rows - n_missing
    measures = {}
    for measure in MEASURES.get(kind, ()):
        if measure in column.content:
            bins = column.part(measure)
            edges = bins.numbers("edges", N_BINS)
            low, high, mean = (bins.number(end) for end in ("low", "high", "mean"))
            inside = [low, *edges, high]
            bins.require(inside == sorted(inside) and len(set(edges)) == len(edges), "edges")
            counts = bins.counts("counts", N_BINS + 1, exactly=len(edges) + 1)
            bins.require(sum(counts) <= n_known, "counts")
            single = bins.content.get("single")
            bins.require(type(single) is bool, "single")
            # The largest value has a bin of its own, behind the last edge.
            bins.require(not single or not edges or edges[-1] < high, "edges")
            measures[measure] = Bins(low, high, mean, tuple(edges), tuple(counts), bool(single))
    values = None
    if kind in ("category", "boolean"):
        part = column.part("values")
        names: Any = part.content.get("names")
        part.require(
            isinstance(names, list)
            and len(names) <= MOST_VALUES
            and all(isinstance(n, str) and len(n) <= LONGEST_VALUE for n in names)
            and len(set(names)) == len(names),
            "names",
        )
        counts = part.counts("counts", MOST_VALUES, exactly=len(names))
        others = part.count("others", n_rows)
        part.require(sum(counts) + others <= n_known, "counts")
        different = part.count("different", n_rows)
        single, salt = part.count("single", different), part.count("salt", N_SALTS - 1)
        buckets = count_buckets(dict(zip(names, counts, strict=True)), salt).tolist()
        if others:
            buckets = part.counts("buckets", N_BUCKETS, exactly=N_BUCKETS)
            part.require(sum(buckets) == sum(counts) + others, "buckets")
        numbers = (others, different, single, salt)
        values = Values(tuple(names), tuple(counts), *numbers, tuple(buckets))
    return ColumnProfile(kind, n_missing, measures, values)


def _read_ranked(stored: _Reader, n_labels: int) -> Ranked:
    n_rows = stored.count("rows")
    stored.require(n_rows > 0, "rows")
    first = stored.counts("first", MOST_LABELS, exactly=n_labels)
    stored.require(sum(first) <= n_rows, "first")
    places, deviations = (
        stored.numbers(name, MOST_LABELS, exactly=n_labels) for name in ("places", "deviations")
    )
    stored.require(all(place >= 1 for place in places), "places")
    stored.require(all(deviation >= 0 for deviation in deviations), "deviations")
    n_labelled = stored.count("labelled", n_rows)
    same_model = stored.content.get("same_model")
    stored.require(type(same_model) is bool, "same_model")
    spreads = stored.numbers("spreads", 2, exactly=2)
    stored.require(min(spreads) >= 0, "spreads")
    lengths = None
    if stored.content.get("lengths") is not None:
        lengths = tuple(stored.counts("lengths", LONGEST + 1))
        stored.require(sum(lengths) == n_rows, "lengths")
    return Ranked(
        n_rows=n_rows,
        same_model=bool(same_model),
        first=tuple(first),
        mean_places=tuple(places),
        deviations=tuple(deviations),
        n_labelled=n_labelled,
        n_top_1=stored.count("top_1", n_labelled),
        n_top_5=stored.count("top_5", n_labelled),
        first_spread=spreads[0],
        place_spread=spreads[1],
        lengths=lengths,
    )


class _Reader:
    """A dictionary, and what it is called if something in it is wrong."""

    def __init__(self, content: Any, name: str) -> None:
        self.name = name
        self.content: dict[str, Any] = content if isinstance(content, dict) else {}
        if not isinstance(content, dict):
            raise ValueError(f"{name} must be a dictionary, got {content!r:.60}.")

    def require(self, correct: bool, what: str) -> None:
        if not correct:
            raise ValueError(f"{self.name} is damaged: {what!r} cannot be read.")

    def part(self, name: str) -> _Reader:
        self.require(isinstance(self.content.get(name), dict), name)
        return _Reader(self.content[name], self.name)

    def count(self, name: str, most: int = MOST_ROWS) -> int:
        number = self.content.get(name)
        self.require(type(number) is int and 0 <= number <= most, name)
        return int(self.content[name])

    def counts(self, name: str, most: int, exactly: int | None = None) -> list[int]:
        listed = self._listed(name, most, exactly)
        self.require(all(type(n) is int and 0 <= n <= MOST_ROWS for n in listed), name)
        return listed

    def number(self, name: str) -> float:
        number = self.content.get(name)
        self.require(_is_finite(number), name)
        return float(self.content[name])

    def numbers(self, name: str, most: int, exactly: int | None = None) -> list[float]:
        listed = self._listed(name, most, exactly)
        self.require(all(map(_is_finite, listed)), name)
        return [float(number) for number in listed]

    def _listed(self, name: str, most: int, exactly: int | None) -> list[Any]:
        listed = self.content.get(name)
        self.require(isinstance(listed, list), name)
        self.require(len(self.content[name]) <= most, name)
        self.require(exactly is None or len(self.content[name]) == exactly, name)
        return list(self.content[name])


def _is_finite(number: Any) -> bool:
    if type(number) is int:
        return abs(number) <= MOST_ROWS
    return type(number) is float and math.isfinite(number)
