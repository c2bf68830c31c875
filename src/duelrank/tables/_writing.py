"""Writing: CSV, Parquet and JSON lines; a file is written completely or not at all."""

from __future__ import annotations

import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from duelrank._choices import OUTPUT_ENDINGS, STREAM
from duelrank._files import replacing
from duelrank.tables._kinds import OutOfRange, to_python, to_text
from duelrank.tables._reading import TableError, check_delimiter, usual_delimiter

# An empty text must not look like a missing one.
NEEDS_QUOTES = r'^$|[",;\t\r\n]|^\s|\s$'

Write = Callable[[pa.Table], None]


def output_ending(path: str, default: str = ".csv") -> str:
    """Return the ending that says how to write a file.

    Parameters
    ----------
    path : str
        A file, or ``-`` for standard output.
    default : str, default=".csv"
        For standard output.

    Returns
    -------
    ending : str
        One of `OUTPUT_ENDINGS`.
    """
    if path == STREAM:
        return default
    ending = Path(path).suffix.lower()
    if ending not in OUTPUT_ENDINGS:
        raise TableError(
            f"{path} must end in one of {', '.join(OUTPUT_ENDINGS)}, which say how to write it."
        )
    return ending


@contextmanager
def writing(path: str, *, default: str = ".csv", delimiter: str | None = None) -> Iterator[Write]:
    """Write tables one after the other, all with the same columns.

    Parameters
    ----------
    path : str
        A file whose ending says how to write it, or ``-`` for standard output. The file appears
        when everything is written, and not at all if anything goes wrong.
    default : str, default=".csv"
        How to write to standard output.
    delimiter : str, default=None
        The ASCII character that separates the cells of CSV; by default a comma, or a tab in
        ``.tsv`` files.

    Yields
    ------
    write : callable
        Takes a table.
    """
    ending = output_ending(path, default)
    check_delimiter(delimiter)
    if path == STREAM:
        stream: Any = _Screen() if sys.stdout.isatty() else sys.stdout.buffer
        with _writer(stream, ending, delimiter) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    with (
        _naming_output(path),
        replacing(path) as partial,
        partial.open("wb") as file,
        _writer(file, ending, delimiter) as write,
    ):
        yield write


@contextmanager
def _writer(file: BinaryIO, ending: str, delimiter: str | None) -> Iterator[Write]:
    if ending == ".parquet":
        with _ParquetOutput(file) as output:
            yield output.write
    elif ending in (".csv", ".tsv"):
        yield _csv_writer(file, delimiter or usual_delimiter(ending))
    else:
        yield lambda table: _write_json_lines(file, table)


class _Screen:
    """Standard output where it is a terminal, which must not take labels for commands."""

    def write(self, content: bytes) -> int:
        text = content.decode(errors="replace")
        shown = "".join("\ufffd" if _is_control(sign) else sign for sign in text)
        return sys.stdout.buffer.write(shown.encode(errors="replace"))


def _is_control(sign: str) -> bool:
    return sign not in "\t\r\n" and unicodedata.category(sign) in ("Cc", "Cf")


class _ParquetOutput:
    """A Parquet file that takes its columns from the first table."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None

    def __enter__(self) -> _ParquetOutput:
        return self

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = pa.parquet.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)

    def __exit__(self, *failure: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _csv_writer(file: BinaryIO, delimiter: str) -> Write:
    headed = False

    def write(table: pa.Table) -> None:
        nonlocal headed
        if not headed:
            header = pa.array(table.column_names, pa.string())
            file.write(delimiter.join(_quoted(header, delimiter).to_pylist()).encode() + b"\n")
            headed = True
        for batch in table.to_batches():
            file.write(_csv_lines(batch, delimiter))

    return write


def _csv_lines(batch: pa.RecordBatch, delimiter: str) -> bytes:
    if len(batch) == 0:
        return b""
    cells = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        try:
            text = to_text(column)
        except OutOfRange as error:
            raise TableError(f"column {name!r} holds {error}.") from error
        except pa.ArrowException as error:
            kind = column.type
            raise TableError(f"column {name!r} holds {kind}, which is no text.") from error
        cells.append(text if _never_quoted(column.type) else _quoted(text, delimiter))
    lines = pc.binary_join_element_wise(
        *cells, delimiter, null_handling="replace", null_replacement=""
    )
    return ("\n".join(lines.to_pylist()) + "\n").encode()


def _never_quoted(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _quoted(text: pa.Array, delimiter: str) -> pa.Array:
    needed = pc.match_substring_regex(text, NEEDS_QUOTES)
    needed = pc.or_(needed, pc.match_substring(text, delimiter))
    doubled = pc.replace_substring(text, '"', '""')
    # if_else chooses quotes, not texts: it garbles slices of text in pyarrow 14 to 21.
    quote = pc.if_else(needed, '"', "")
    return pc.binary_join_element_wise(quote, doubled, quote, "")


def _write_json_lines(file: BinaryIO, table: pa.Table) -> None:
    names = table.column_names
    columns = [to_python(name, column) for name, column in zip(names, table.columns, strict=True)]
    for cells in zip(*columns, strict=True):
        row = dict(zip(names, cells, strict=True))
        line = json.dumps(_finite(row), ensure_ascii=False, allow_nan=False, default=str)
        file.write(line.encode() + b"\n")


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not know, such as infinity, by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value


@contextmanager
def _naming_output(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in one sentence which file could not be written, and why."""
    try:
        yield
    except FileNotFoundError as error:
        raise TableError(f"{path} cannot be written: its folder does not exist.") from error
    except (PermissionError, IsADirectoryError) as error:
        reason = error.strerror or str(error)
        raise TableError(f"{path} cannot be written: {reason.lower()}.") from error
