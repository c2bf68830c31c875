"""Reading: CSV as text, Parquet as it is, at once or in batches."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from duelrank._choices import COMPRESSED_ENDINGS, STREAM, is_delimiter
from duelrank.tables._pipes import Pipe, is_pipe, waiting_for

PARQUET_MAGIC = b"PAR1"
HEADER_BYTES = 2**20
# pyarrow reads so many bytes at a time, and refuses a row that is longer.
LONGEST_ROW_BYTES = 2**24


class TableError(ValueError):
    """A table cannot be read, or does not hold what it should."""


@dataclass(frozen=True)
class Source:
    """A table that can be read.

    Attributes
    ----------
    name : str
        What to call it in messages.
    columns : list of str
        Names of its columns.
    as_text : bool
        Whether all columns come as text, as they do from CSV.
    """

    name: str
    columns: list[str]
    as_text: bool
    _read: Callable[[list[str]], pa.Table]
    _stream: Callable[[list[str], int], Iterator[pa.Table]]

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the whole table, or some of its columns."""
        with _naming(self.name):
            return self._read(list(self.columns if columns is None else columns))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Read some columns, at most so many rows at a time; there is at least one batch."""
        with _naming(self.name):
            came = False
            for table in self._stream(list(columns), rows):
                for start in range(0, len(table), rows):
                    came = True
                    yield table.slice(start, rows)
            if not came:
                yield self._nothing(list(columns))

    def _nothing(self, columns: list[str]) -> pa.Table:
        return pa.table({name: pa.array([], pa.string()) for name in columns})


def from_dataframe(frame: Any) -> pa.Table:
    """Turn any dataframe that narwhals knows into a pyarrow Table.

    Parameters
    ----------
    frame : dataframe
        Of pandas, polars, pyarrow and so on.

    Returns
    -------
    table : pyarrow.Table
        The same columns.
    """
    import narwhals as nw

    table: pa.Table = nw.from_native(frame, eager_only=True).to_arrow()
    return table


@contextmanager
def open_table(
    path: str, *, delimiter: str | None = None, encoding: str = "utf-8"
) -> Iterator[Source]:
    """Open a CSV or Parquet file.

    Parameters
    ----------
    path : str
        The file, or ``-`` for standard input. The first bytes tell whether it is Parquet;
        everything else is CSV, which may be compressed if its name says so (``.csv.gz``).
    delimiter : str, default=None
        The ASCII character that separates the cells of CSV; by default a comma, or a tab in
        ``.tsv`` files.
    encoding : str, default="utf-8"
        Encoding of CSV.

    Yields
    ------
    source : Source
        Its column names, and methods to read it at once or in batches.
    """
    check_delimiter(delimiter)
    name = "standard input" if path == STREAM else path
    with _naming(name):
        file = _open_bytes(path)
    pipe = None
    try:
        with _naming(name):
            pipe = Pipe(file) if is_pipe(file) else None
            stream = _Peekable(pipe or file)
            if stream.head.startswith(PARQUET_MAGIC):
                # What comes through a pipe comes once, and Parquet is read from its end.
                is_file = path != STREAM and Path(path).is_file()
                content = path if is_file else io.BytesIO(stream.read())
                source = _parquet(name, content)
            else:
                is_compressed = path.endswith(COMPRESSED_ENDINGS)
                unpacked = Path(path).with_suffix("") if is_compressed else Path(path)
                cut = delimiter or usual_delimiter(unpacked.suffix.lower())
                source = _csv(name, stream, cut, encoding)
            _check_columns(source)
        yield source
    finally:
        if pipe is not None:
            pipe.close()
        if path != STREAM:
            file.close()


def check_delimiter(delimiter: str | None) -> None:
    """Raise unless this can separate the cells of CSV."""
    if not (delimiter is None or is_delimiter(delimiter)):
        raise TableError(
            "delimiter must be one ASCII character other than a quote or a line break, "
            f"got {delimiter!r}."
        )


def usual_delimiter(ending: str) -> str:
    """Return what separates the cells of CSV in files with this ending."""
    return "\t" if ending == ".tsv" else ","


def _open_bytes(path: str) -> Any:
    if path == STREAM:
        return sys.stdin.buffer
    if path.endswith(COMPRESSED_ENDINGS):
        return pa.input_stream(path, compression="detect")
    return Path(path).open("rb")


class _Peekable:
    """A stream that shows its first bytes before it is read."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.file = file
        self.head: bytes = file.read(HEADER_BYTES)
        while b"\n" not in self.head and len(self.head) < LONGEST_ROW_BYTES:
            more = file.read(HEADER_BYTES)
            if not more:
                break
            self.head += more
        self._left = self.head

    def read(self, size: int | None = None) -> bytes:
        if size is None or size < 0:
            left, self._left = self._left, b""
            return bytes(left + self.file.read())
        if self._left:
            part, self._left = self._left[:size], self._left[size:]
            return part
        return bytes(self.file.read(size))


def _csv(name: str, stream: _Peekable, delimiter: str, encoding: str) -> Source:
    names = _csv_header(name, stream.head, delimiter, encoding)
    parse = pa.csv.ParseOptions(
        delimiter=delimiter,
        newlines_in_values=True,
        ignore_empty_lines=len(names) > 1,  # in a single column, an empty line is an empty cell
    )
    options = {
        "parse_options": parse,
        "read_options": pa.csv.ReadOptions(encoding=encoding, block_size=LONGEST_ROW_BYTES),
    }

    def convert(columns: list[str]) -> pa.csv.ConvertOptions:
        return pa.csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def read(columns: list[str]) -> pa.Table:
        made = {"convert_options": convert(columns), **options}
        return waiting_for(stream.file, pa.csv.read_csv, stream, **made)

    def batches(columns: list[str], rows: int) -> Iterator[pa.Table]:
        made = {"convert_options": convert(columns), **options}
        reader = waiting_for(stream.file, pa.csv.open_csv, stream, **made)
        while (batch := waiting_for(stream.file, next, reader, None)) is not None:
            yield pa.Table.from_batches([batch])

    return Source(name, names, True, read, batches)


def _csv_header(name: str, head: bytes, delimiter: str, encoding: str) -> list[str]:
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    try:
        header = next(
            filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)), []
        )
    except csv.Error as error:
        reason = _shorten(str(error))
        raise TableError(f"{name} cannot be read: its first line is no CSV ({reason}).") from error
    if not header:
        raise TableError(f"{name} is empty.")
    if any("\0" in column for column in header):
        raise TableError(f"{name} cannot be read: its first line is no text in {encoding}.")
    return header


def _parquet(name: str, content: Any) -> Source:
    file = pa.parquet.ParquetFile(content)

    def read(columns: list[str]) -> pa.Table:
        return file.read(columns=columns)

    def batches(columns: list[str], rows: int) -> Iterator[pa.Table]:
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            yield pa.Table.from_batches([batch])

    return Source(name, list(file.schema_arrow.names), False, read, batches)


def _check_columns(source: Source) -> None:
    twice = sorted(name for name, times in Counter(source.columns).items() if times > 1)
    if twice:
        raise TableError(f"{source.name} has more than one column named {twice[0]!r}.")


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Say in one sentence which table could not be read, and why."""
    try:
        yield
    except FileNotFoundError as error:
        raise TableError(f"{name} does not exist.") from error
    except IsADirectoryError as error:
        raise TableError(f"{name} is a folder, not a file.") from error
    except (UnicodeError, LookupError) as error:
        raise TableError(f"{name} cannot be read: {error}.") from error
    except (pa.ArrowException, OSError) as error:
        reason = _shorten(str(error))
        if "UTF8" in reason:
            reason = "it is not UTF-8; name its encoding, for example latin-1"
        raise TableError(f"{name} cannot be read: {reason}.") from error


def _shorten(message: str) -> str:
    lines = message.strip().splitlines() or ["unknown reason"]
    return lines[0].rstrip(".")[:200]
