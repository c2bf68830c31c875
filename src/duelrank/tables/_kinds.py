"""What the columns of a table hold: their kinds, and their values as numbers, texts or labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duelrank.tables._reading import TableError

KINDS = ("number", "boolean", "date", "category", "text", "vector")
MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A")
MISSING_TEXTS = pa.array(MISSING)
MICROSECONDS_A_DAY = 86_400_000_000
LARGEST = 1e150  # of a number that a model can be fitted on: its square is finite
LARGEST_WHOLE = 2.0**53  # above it, floats are not every whole number any more
# Text such as 007 is a code: as a number it would become 7.
LEADING_ZERO = r"^\s*[+-]?0[0-9]"
# Text has more words than this on average, and more different values than this share. Names of
# towns and people have fewer words, and the values of a category occur more often.
WORDS_OF_TEXT, DIFFERENT_TEXTS = 2.0, 0.5
# Scripts that put no spaces between words have letters instead, so many on average.
SPACELESS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
LETTERS_OF_TEXT = 6.0
# What pyarrow writes for dates, times and moments that are out of its range, before their number.
NOT_WRITTEN = "<value out of range"
# Short columns are converted so many cells at a time: every call of pyarrow takes microseconds.
CELLS_TOGETHER = 2**14


def kinds_of(
    table: pa.Table,
    *,
    as_text: bool,
    categorical: Iterable[str] = (),
    text: Iterable[str] = (),
) -> dict[str, str]:
    """Find out what the columns of a table hold.

    Parameters
    ----------
    table : pyarrow.Table
        The columns.
    as_text : bool
        Whether text may stand for numbers, dates and booleans, as in CSV.
    categorical, text : iterable of str
        Columns that hold categories, or text, whatever they look like.

    Returns
    -------
    kinds : dict of str to str
        One of `KINDS` for every column.
    """
    told = dict.fromkeys(categorical, "category") | dict.fromkeys(text, "text")
    columns = dict(zip(table.column_names, table.columns, strict=True))
    if as_text:
        untold = {name: column for name, column in columns.items() if name not in told}
        told |= dict.fromkeys(_clearly_numbers(untold), "number")
    return {
        name: told.get(name) or _kind(name, column, as_text) for name, column in columns.items()
    }


def features(table: pa.Table, kinds: Mapping[str, str], rows_before: int = 0) -> pa.Table:
    """Convert columns to their kinds.

    Parameters
    ----------
    table : pyarrow.Table
        Has at least the columns of `kinds`.
    kinds : mapping of str to str
        One of `KINDS` for every column that is wanted.
    rows_before : int, default=0
        Number of rows in earlier batches of the same table, for row numbers in messages.

    Returns
    -------
    table : pyarrow.Table
        The wanted columns in the order of `kinds`: categories and text as text, vectors as lists
        of floats of one length, all others as floats.
    """
    columns = dict(zip(table.column_names, table.columns, strict=True))
    converted: dict[str, Any] = {}
    for kind in dict.fromkeys(kinds.values()):
        of_kind = {name: columns[name] for name in kinds if kinds[name] == kind}
        for names, joined in _joined(of_kind):
            whole = _converted_at_once(joined, kind)
            if whole is not None:
                converted |= _cut(whole, names)
    return pa.table(
        {
            name: converted[name]
            if name in converted
            else _feature(name, _plain(columns[name]), kind, rows_before)
            for name, kind in kinds.items()
        }
    )


def is_labelled(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Tell which rows have a label: all that are neither null nor empty."""
    column = _plain(column)
    known = pc.is_valid(column)
    if pa.types.is_string(column.type):
        known = pc.and_(known, pc.not_equal(pc.fill_null(column, ""), ""))
    elif pa.types.is_floating(column.type):
        known = pc.and_(known, pc.invert(pc.fill_null(pc.is_nan(column), True)))
    mask: NDArray[np.bool_] = known.to_numpy()
    return mask


def labels(name: str, column: pa.ChunkedArray) -> NDArray[Any]:
    """Return labels as they were written.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    column : pyarrow.ChunkedArray
        Text, integers or booleans, without missing ones.

    Returns
    -------
    labels : ndarray
        Text as str objects; integers and booleans as they are. Floats that are whole numbers, as
        some programs write integers, become integers.
    """
    column = _plain(column)
    if pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).to_numpy()  # half precision cannot hold the bound
        whole = values == np.round(values)
        for wrong, what in ((~whole, "decimals"), (np.abs(values) > LARGEST_WHOLE, "numbers")):
            if wrong.any():
                raise TableError(
                    f"column {name!r} must hold labels, but it holds {what} such as "
                    f"{values[wrong][0]}."
                )
        return values.astype(np.int64)
    if pa.types.is_integer(column.type):
        try:
            return column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise TableError(
                f"column {name!r} must hold labels below 2^63, but it holds "
                f"{pc.max(column).as_py()}."
            ) from error
    if pa.types.is_boolean(column.type):
        return column.to_numpy()
    if pa.types.is_nested(column.type):
        raise TableError(f"column {name!r} must hold labels, but it holds {column.type}.")
    try:
        texts = to_text(column)
    except OutOfRange as error:
        raise TableError(f"column {name!r} must hold labels, but it holds {error}.") from error
    return np.array(texts.to_pylist(), dtype=object)


class OutOfRange(pa.ArrowInvalid):
    """A date or time is too far away to be written."""


def to_text(column: Any) -> Any:
    """Write values as text, each as itself.

    Parameters
    ----------
    column : pyarrow.Array or pyarrow.ChunkedArray
        Of any type; what has no text raises a pyarrow.ArrowException.

    Returns
    -------
    column : pyarrow.Array or pyarrow.ChunkedArray
        Text.
    """
    if pa.types.is_temporal(column.type):
        # In other time zones than UTC, years that are out of range wrap around.
        is_moment = pa.types.is_timestamp(column.type)
        in_utc = column.cast(pa.timestamp(column.type.unit)) if is_moment else column
        written = in_utc.cast(pa.string())
        is_far = pc.starts_with(written, NOT_WRITTEN)
        if pc.any(is_far).as_py():
            number = written.filter(is_far)[0].as_py().removeprefix(NOT_WRITTEN).strip(": >")
            raise OutOfRange(f"{column.type} out of range, such as {number}")
    return column.cast(pa.string())


def to_python(name: str, column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as objects of Python.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    column : pyarrow.ChunkedArray
        Of any type.
    """
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError as error:  # Python's years are 1 to 9999, and its numbers of days end too
        raise TableError(f"column {name!r} holds {column.type} out of range.") from error
    return values


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn dictionaries, decimals and the many types of text into plain types."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    is_text = pa.types.is_large_string(column.type) or str(column.type) == "string_view"
    return column.cast(pa.string()) if is_text else column


def _kind(name: str, column: pa.ChunkedArray, as_text: bool) -> str:
    is_categorical = pa.types.is_dictionary(column.type)
    column = _plain(column)
    kind = column.type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    if holds_lists(column) and _is_number_type(kind.value_type):
        return "vector"
    if pa.types.is_null(kind):
        return "category"
    if not pa.types.is_string(kind):
        raise TableError(
            f"column {name!r} holds {kind}, which cannot be a feature; leave it out with --ignore."
        )
    if is_categorical:
        return "category"
    known = _without_missing(column).drop_null()
    return _kind_of_text(known) if as_text else _category_or_text(known)


def _joined(
    columns: Mapping[str, pa.ChunkedArray],
) -> Iterator[tuple[list[str], pa.ChunkedArray]]:
    """Yield short columns of one type as one long column, below each other, with their names."""
    of_type: dict[pa.DataType, list[str]] = {}
    for name, column in columns.items():
        of_type.setdefault(column.type, []).append(name)
    for kind, names in of_type.items():
        n_rows = len(columns[names[0]])
        size = CELLS_TOGETHER // max(n_rows, 1)
        if n_rows == 0 or size < 2 or pa.types.is_nested(kind):
            continue
        for start in range(0, len(names), size):
            some = names[start : start + size]
            chunks = [chunk for name in some for chunk in columns[name].chunks]
            try:
                yield some, pa.chunked_array([pa.concat_arrays(chunks)])
            except pa.ArrowException:  # such as more text than a column can hold
                continue


def _cut(whole: pa.ChunkedArray, names: list[str]) -> dict[str, pa.ChunkedArray]:
    """Cut a long column into those that it was made of."""
    n_rows = len(whole) // len(names)
    return {name: whole.slice(place * n_rows, n_rows) for place, name in enumerate(names)}


def _converted_at_once(joined: pa.ChunkedArray, kind: str) -> pa.ChunkedArray | None:
    """Convert columns of one kind; None if a cell cannot be, which `_feature` will name."""
    try:
        column = _plain(joined)
        if pa.types.is_string(column.type):
            column = _without_missing(column)
        converted = _CASTS[kind][0](column)
    except pa.ArrowException:
        return None
    is_huge = kind == "number" and pc.any(pc.greater(pc.abs(converted), LARGEST)).as_py()
    return None if is_huge else converted


def _clearly_numbers(columns: Mapping[str, pa.ChunkedArray]) -> Iterator[str]:
    """Name columns of text that hold numbers, where all that are looked at together do."""
    texts = {name: column for name, column in columns.items() if column.type == pa.string()}
    for names, joined in _joined(texts):
        known = _without_missing(joined)
        try:
            _numbers(known)
        except pa.ArrowException:
            continue
        if not pc.any(pc.match_substring_regex(known, LEADING_ZERO)).as_py():
            cut = _cut(known, names)
            yield from (name for name in names if cut[name].null_count < len(cut[name]))


def _kind_of_text(known: pa.ChunkedArray) -> str:
    if len(known) == 0:
        return "category"
    words = pc.utf8_lower(pc.utf8_trim_whitespace(known))
    if pc.all(pc.is_in(words, pa.array(["true", "false"]))).as_py():
        return "boolean"
    for kind in ("number", "date"):
        try:
            _CASTS[kind][0](known)
        except pa.ArrowException:
            continue
        if kind == "number" and pc.any(pc.match_substring_regex(known, LEADING_ZERO)).as_py():
            return "category"
        return kind
    return _category_or_text(known)


def _category_or_text(known: pa.ChunkedArray) -> str:
    """Tell whether most values are different and have several words, as only text does."""
    n_different = pc.count_distinct(known).as_py()
    if n_different <= DIFFERENT_TEXTS * len(known):
        return "category"
    n_words = pc.mean(pc.count_substring_regex(known, r"\S+")).as_py()
    n_letters = pc.mean(pc.count_substring_regex(known, SPACELESS)).as_py()
    return "text" if n_words > WORDS_OF_TEXT or n_letters >= LETTERS_OF_TEXT else "category"


def holds_lists(column: pa.ChunkedArray) -> bool:
    """Tell whether the cells of a column are lists."""
    return bool(
        pa.types.is_list(column.type)
        or pa.types.is_large_list(column.type)
        or pa.types.is_fixed_size_list(column.type)
    )


def _is_number_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _without_missing(column: pa.ChunkedArray) -> pa.ChunkedArray:
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, MISSING_TEXTS).to_numpy()
    if not missing.any():
        return column
    # Not with if_else, which garbles slices of text in pyarrow 14 to 21.
    return column.take(pa.array(np.arange(len(column)), mask=missing))


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        return pc.utf8_trim_whitespace(column).cast(pa.float64())
    return column.cast(pa.float64(), safe=False)


def _booleans(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        column = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    return column.cast(pa.bool_()).cast(pa.uint8()).cast(pa.float64())


def _days(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        try:
            moments = column.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:  # with a time zone
            moments = column.cast(pa.timestamp("us", "UTC"))
    else:
        # Nanoseconds are cut. Seconds that are out of range would wrap around.
        is_finer = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
        moments = column.cast(pa.timestamp("us"), safe=not is_finer)
    return pc.divide(moments.cast(pa.int64()).cast(pa.float64(), safe=False), MICROSECONDS_A_DAY)


def _vectors(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn lists of numbers into lists of as many floats; a missing cell stays missing."""
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), pa.list_(pa.float64()))])
    if not holds_lists(column):
        raise pa.ArrowInvalid("no lists")
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    if len(lengths) > 1:
        raise pa.ArrowInvalid("lists of different lengths")
    values = pc.list_flatten(column).cast(pa.float64(), safe=False)
    if values.null_count or not pc.all(pc.less_equal(pc.abs(values), LARGEST)).as_py():
        raise pa.ArrowInvalid("missing, infinite or huge numbers")
    return column.cast(pa.list_(pa.float64()), safe=False)


def _feature(name: str, column: pa.ChunkedArray, kind: str, rows_before: int = 0) -> Any:
    """Convert a column, or say which row cannot be converted."""
    cast, wanted = _CASTS[kind]
    if pa.types.is_string(column.type):
        column = _without_missing(column)
    try:
        converted = cast(column)
    except pa.ArrowException as error:
        where = f"it holds {column.type}"
        if pa.types.is_string(column.type):
            row = _first_failure(column, cast)
            where = f"row {rows_before + row} (from 0) holds {column[row].as_py()!r}"
        elif pa.types.is_temporal(column.type):
            row = _first_failure(column, cast)
            where = f"row {rows_before + row} (from 0) is out of range"
        raise TableError(f"column {name!r} must hold {wanted}, but {where}.") from error
    if kind == "number":
        is_huge = pc.greater(pc.abs(converted), LARGEST)
        if pc.any(is_huge).as_py():
            row = pc.index(is_huge, True).as_py()
            value = converted[row].as_py()
            what = "infinity" if math.isinf(value) else f"{value:g}"
            raise TableError(
                f"column {name!r} holds {what} in row {rows_before + row} (from 0); numbers must "
                f"be between -{LARGEST:g} and {LARGEST:g}."
            )
    return converted


def _first_failure(column: pa.ChunkedArray, cast: Any) -> int:
    """Find the first value that cannot be converted, by bisection."""
    # The first `good` values can be converted, the first `bad` values cannot.
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            cast(column.slice(good, middle - good))
            good = middle
        except pa.ArrowException:
            bad = middle
    return good


_CASTS = {
    "number": (_numbers, "numbers"),
    "boolean": (_booleans, "true or false"),
    "date": (_days, "dates such as 2024-05-31"),
    "category": (to_text, "text"),
    "text": (to_text, "text"),
    "vector": (_vectors, "lists of finite numbers, all of one length"),
}
