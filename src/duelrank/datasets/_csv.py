"""CSV files of data sets: their cells as text, and where rows are not whole."""

from __future__ import annotations

import csv
from pathlib import Path


def read_csv(path: Path) -> tuple[list[str], list[int], list[list[str]]]:
    """Return the header, and the line numbers and cells of the rows that are not blank."""
    lines, cells = [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            columns = [column.strip() for column in next(reader, [])]
            for row in reader:
                if row:
                    lines.append(reader.line_num)
                    cells.append(row)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} must be a CSV file in UTF-8: {error}.") from error
    return columns, lines, cells


def check_rows(path: Path, n_columns: int, lines: list[int], cells: list[list[str]]) -> None:
    """Raise ValueError if there is no row, or if one has more or fewer cells than the header."""
    if not cells:
        raise ValueError(f"{path} must hold at least one row below its header; there is none.")
    for line, row in zip(lines, cells, strict=True):
        if len(row) != n_columns:
            raise ValueError(
                f"{path} must have {n_columns} cells in every row, as in its header; "
                f"line {line} has {len(row)}."
            )
