"""A table becomes features and labels, and notes say what was done with its columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duelrank.preprocessing._columns import MOST_CATEGORIES
from duelrank.rankings import ranks_from_choices, ranks_from_lists
from duelrank.tables import (
    TableError,
    features,
    holds_lists,
    is_labelled,
    kinds_of,
    labels,
    to_python,
)

# A note tells of category columns with more values, and of targets with more labels.
MANY_VALUES = 100
# In so few rows, all values of a useful column may be different by chance.
FEW_ROWS = 20
# If this share of its values are numbers, a column was meant to hold numbers.
MOSTLY_NUMBERS = 0.8
# How numbers and dates are written elsewhere: what all values look like, what some of them hold,
# and what is said then.
WRITTEN_OTHERWISE = (
    (r"[+-]?\d{1,3}(\.?\d{3})*,\d+", ",", "numbers with a decimal comma; write 199.50 for 199,50"),
    (r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", ",", "numbers with commas; write 1250 for 1,250"),
    (r"[+-]?\d[\d_]*(\.\d+)?", "_", "numbers with underscores; write 1000 for 1_000"),
    (r"\d{1,2}([./-])\d{1,2}\1\d{2,4}", "[./-]", "dates; write them as 2024-05-31"),
    (r"[+-]?\d[\d.,\u066b\u066c]*", r"(?![0-9])\d", "numbers in other digits; write 0 to 9"),
)
# Columns of row numbers: a first column without a name, and the names that pandas writes.
INDEX_COLUMNS = ("", "__index_level_0__", "Unnamed: 0")
LABEL_TYPES = {"O": "text", "i": "whole numbers", "b": "true and false"}


@dataclass(frozen=True)
class TrainingData:
    """A table split into features and labels.

    Attributes
    ----------
    X : pyarrow.Table
        The features.
    y : ndarray of shape (n,)
        The labels; if rows have lists, the first label of each; of choices, the labels picked.
    kinds : dict of str to str
        The columns of X and their kinds.
    left_out : list of str
        Columns that carry no information.
    notes : list of str
        Remarks for the user: columns left out, rows dropped, suspicious columns.
    lists : list of lists of labels, or None
        All labels of every row, best first, if rows may have several.
    shown : list of lists of labels, or None
        The labels that were shown in every row, the picked one among them, if rows are choices.
    """

    X: pa.Table
    y: NDArray[Any]
    kinds: dict[str, str]
    left_out: list[str]
    notes: list[str]
    lists: list[list[Any]] | None = None
    shown: list[list[Any]] | None = None

    @property
    def classes(self) -> list[Any]:
        """All labels that occur, sorted."""
        several = self.lists or self.shown
        return sorted(set(self.y.tolist()) if several is None else set(chain(*several)))

    @property
    def feedback(self) -> Any:
        """What to learn from: labels, or ranks with a column for each class, sparse of choices."""
        if self.shown is not None:
            return ranks_from_choices(self.shown, self.y, self.classes, sparse=True)
        return self.y if self.lists is None else ranks_from_lists(self.lists, self.classes)


def training_data(
    table: pa.Table,
    target: str | Sequence[str],
    *,
    as_text: bool,
    shown: Sequence[str] = (),
    ignore: Collection[str] = (),
    categorical: Collection[str] = (),
    text: Collection[str] = (),
) -> TrainingData:
    """Split a table into features and labels.

    Parameters
    ----------
    table : pyarrow.Table
        Features and labels.
    target : str or sequence of str
        The column with the labels, or with lists of labels. Several columns hold one list per
        row: the best label in the first column, and empty cells after the last label. Rows
        without a label are dropped.
    as_text : bool
        Whether text may stand for numbers, dates and booleans, as in CSV.
    shown : sequence of str
        Columns with the labels that were shown in each row, or one column of lists. Then rows are
        choices, and the target is a single column with the label that was picked; it need not be
        among those in the columns.
    ignore : collection of str
        Columns to leave out.
    categorical, text : collection of str
        Columns that hold categories, or text, whatever they look like.

    Returns
    -------
    data : TrainingData
        Columns without information are left out with a note: empty ones, constant ones, row
        numbers, and names that are different in every row.
    """
    notes: list[str] = []
    targets = [target] if isinstance(target, str) else list(target)
    roles = {
        "target": targets,
        "shown": shown,
        "ignore": ignore,
        "categorical": categorical,
        "text": text,
    }
    there = set(table.column_names)
    for role, names in roles.items():
        for name in names:
            if name not in there:
                raise TableError(f"{role} column {name!r} is not in the table.")
    both = [name for name in text if name in categorical]
    if both:
        raise TableError(f"column {both[0]!r} cannot be categorical and text.")
    has_lists = len(targets) > 1 or holds_lists(table[targets[0]])
    if has_lists and shown:
        raise TableError(
            "if there are labels that were shown, the target must be one column with the label "
            f"that was picked; got lists in {_listed(targets)}."
        )
    lists = _read_lists(table, targets) if has_lists else None
    others = shown_labels(table, shown) if shown else None
    labelled = is_labelled(table[targets[0]]) if lists is None else np.array(list(map(bool, lists)))
    if not labelled.all():
        table = table.filter(pa.array(labelled))
        notes.append(f"{_count(int((~labelled).sum()), 'row')} without a label left out")
    if len(table) == 0:
        raise TableError(f"no row has a label in {targets[0]!r}.")
    if lists is not None:
        lists = [row for row in lists if row]
    if others is not None:
        others = [row for row, stays in zip(others, labelled.tolist(), strict=True) if stays]
    y = labels(targets[0], first_labels(table[targets[0]], targets[0]))
    _note_labels(y, targets[0], notes)
    choices = None if others is None else _with_picked(others, y, targets[0], shown)
    no_features = {*targets, *shown, *ignore}
    candidates = [name for name in table.column_names if name not in no_features]
    table = table.select(candidates)
    kinds = kinds_of(table, as_text=as_text, categorical=categorical, text=text)
    X = features(table, kinds)
    kinds = _informative(X, kinds, {*categorical, *text}, notes)
    if not kinds:
        raise TableError("the table has no column to learn from besides the target.")
    _note_categories(X, kinds, notes)
    left_out = [name for name in candidates if name not in kinds]
    return TrainingData(X.select(list(kinds)), y, kinds, left_out, notes, lists, choices)


def shown_labels(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    """Return the labels that were shown in every row.

    Parameters
    ----------
    table : pyarrow.Table
        Its rows are choices.
    names : sequence of str
        Columns with labels, or one column with lists of labels. Empty cells are skipped.

    Returns
    -------
    shown : list of lists of labels
        In the order of the columns.

    Examples
    --------
    >>> shown_labels(pa.table({"left": ["a", "b"], "right": ["c", None]}), ["left", "right"])
    [['a', 'c'], ['b']]
    """
    shown: list[list[Any]] = [[] for _ in range(len(table))]
    where = f"the labels shown, in {_listed(list(names))},"
    for row, _, label in _labels_in(table, list(names), where):
        if label in shown[row]:
            raise TableError(
                f"{where} must name a label once, but row {row} (from 0) repeats {label!r}."
            )
        shown[row].append(label)
    return shown


def first_labels(column: pa.ChunkedArray, name: str = "labels") -> pa.ChunkedArray:
    """Return the label at the first place of every row.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Labels, or lists of labels.
    name : str, default="labels"
        Name of the column, for messages.

    Returns
    -------
    column : pyarrow.ChunkedArray
        Labels as they are; of a list its first label, or null if it is empty.

    Examples
    --------
    >>> first_labels(pa.chunked_array([[["b", "a"], [], None]])).to_pylist()
    ['b', None, None]
    """
    if not holds_lists(column):
        return column
    return pa.chunked_array(
        [pa.array([row[0] if row else None for row in to_python(name, column)])]
    )


def _read_lists(table: pa.Table, targets: list[str]) -> list[list[Any]]:
    """Return the labels of every row, best first."""
    lists: list[list[Any]] = [[] for _ in range(len(table))]
    where = f"the lists in {_listed(targets)}"
    for row, place, label in _labels_in(table, targets, where):
        before = lists[row]
        if len(before) < place:
            raise TableError(
                f"{where} must have no gaps, but row {row} (from 0) has {label!r} at place "
                f"{place + 1} and nothing at place {len(before) + 1}."
            )
        if label in before:
            raise TableError(
                f"{where} must name a label once, but row {row} (from 0) repeats {label!r}."
            )
        before.append(label)
    if len(targets) > 1 and _are_ranks(lists, len(targets)):
        raise TableError(
            f"{where} hold ranks, one column per label; a target is a column of labels, the best "
            "first: write the label that has rank 1 into the first column, and so on."
        )
    return lists


def _labels_in(table: pa.Table, names: list[str], where: str) -> Iterator[tuple[int, int, Any]]:
    """Yield the labels of columns or of a column of lists: their row, place (from 0) and name."""
    held: dict[str, str] = {}
    for name, rows, places, cells in _cells(table, names):
        labelled = is_labelled(cells)
        values = labels(name, cells.filter(pa.array(labelled)))
        if len(values):
            held.setdefault(_type_of(values), name)
        told = (rows[labelled].tolist(), places[labelled].tolist(), values.tolist())
        yield from zip(*told, strict=True)
    if len(held) > 1:
        kinds = " and ".join(f"{name!r} holds {kind}" for kind, name in held.items())
        raise TableError(f"{where} must hold labels of one type, but {kinds}.")


def _type_of(values: NDArray[Any]) -> str:
    return LABEL_TYPES[values.dtype.kind]


def _with_picked(
    shown: list[list[Any]], picked: NDArray[Any], target: str, names: Sequence[str]
) -> list[list[Any]]:
    """Return the labels shown in every row, the picked one included."""
    example = next(chain.from_iterable(shown), None)
    if example is not None and type(example) is not type(picked.tolist()[0]):
        raise TableError(
            f"the target {target!r} must hold labels of the type of those shown, but it holds "
            f"{_type_of(picked)}, and {_listed(list(names))} such as {example!r}."
        )
    return [
        row if label in row else [label, *row]
        for row, label in zip(shown, picked.tolist(), strict=True)
    ]


def _are_ranks(lists: list[list[Any]], n_columns: int) -> bool:
    """Tell whether every full row is a permutation of 1..K, the number of columns."""
    places = {str(place) for place in range(1, n_columns + 1)}
    full = [row for row in lists if len(row) == n_columns]
    return bool(full) and all({str(label) for label in row} == places for row in full)


def _cells(
    table: pa.Table, targets: list[str]
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.intp], pa.ChunkedArray]]:
    """Yield columns of labels: their name, the rows and places (from 0) of cells, and the cells."""
    if len(targets) == 1 and holds_lists(table[targets[0]]):
        rows = [row or [] for row in to_python(targets[0], table[targets[0]])]
        lengths = np.array([len(row) for row in rows], dtype=np.intp)
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        cells = pa.chunked_array([pa.array(list(chain(*rows)))])
        yield targets[0], np.repeat(np.arange(len(rows)), lengths), places, cells
        return
    for place, name in enumerate(targets):
        yield name, np.arange(len(table)), np.full(len(table), place), table[name]


def _informative(
    X: pa.Table, kinds: dict[str, str], forced: Collection[str], notes: list[str]
) -> dict[str, str]:
    """Keep the columns that could help to rank new rows; a note names the others."""
    reasons: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        reason = "" if name in forced else _why_useless(name, kind, X[name])
        reasons.setdefault(reason, []).append(name)
    useful = set(reasons.pop("", []))
    notes += [f"{_listed(names)} left out: {reason}" for reason, names in reasons.items()]
    return {name: kind for name, kind in kinds.items() if name in useful}


def _why_useless(name: str, kind: str, column: pa.ChunkedArray) -> str:
    if name in INDEX_COLUMNS:
        return "row numbers"
    if column.null_count == len(column):
        return "empty"
    if kind == "vector":
        return ""
    if column.null_count == 0 and len(column) > 1 and _is_constant(column):
        return "always the same value"
    if kind == "category" and len(column) > FEW_ROWS and column.null_count == 0:
        values = pc.unique(column)
        meant_otherwise = _strays(values) or _written_otherwise(values)
        if len(values) == len(column) and meant_otherwise is None:
            return "different in every row"
    return ""


def _is_constant(column: pa.ChunkedArray) -> bool:
    first = column[0]
    return bool(pc.all(pc.equal(column, first)).as_py())


def _note_labels(y: NDArray[Any], target: str, notes: list[str]) -> None:
    n_labels = len(set(y.tolist()))
    if n_labels > MANY_VALUES and n_labels > len(y) / 2:
        notes.append(f"{target!r} has {n_labels} labels in {len(y)} rows, so it may be no label")


def _note_categories(X: pa.Table, kinds: dict[str, str], notes: list[str]) -> None:
    for name in (name for name, kind in kinds.items() if kind == "category"):
        known = X[name].drop_null()
        values = pc.unique(known)
        strays = _strays(values)
        if strays is not None:
            notes.append(
                f"{name!r} is mostly numbers but holds {strays}, so it is taken for categories; "
                "leave those cells empty to take it for numbers"
            )
        elif (looks := _written_otherwise(values)) is not None:
            notes.append(f"{name!r} is taken for categories, but looks like {looks}")
        elif len(values) > MANY_VALUES:
            notes.append(
                f"{name!r} has {len(values)} different values, of which the most frequent "
                f"{MOST_CATEGORIES - 1} are told apart; --ignore leaves it out"
            )


def _strays(values: pa.Array) -> str | None:
    """Name the few texts among values that are mostly numbers; None if it is no such column."""
    texts = values.to_pylist()
    strays = [text for text in texts if not _is_number(text)]
    if not strays or len(strays) > (1 - MOSTLY_NUMBERS) * len(texts):
        return None
    return ", ".join(map(repr, strays[:3])) + (" and others" if len(strays) > 3 else "")


def _written_otherwise(values: pa.Array) -> str | None:
    """Say what values look like if all of them are numbers or dates in another notation."""
    texts = [text.strip() for text in values.to_pylist()]
    for every, some, advice in WRITTEN_OTHERWISE:
        is_it = all(re.fullmatch(every, text) for text in texts)
        if is_it and any(re.search(some, text) for text in texts):
            return advice
    return None


def _is_number(text: str) -> bool:
    """Tell whether a table takes this for a number; Python also takes 1_000 and other digits."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
