"""Labels of one file among the labels of another file or a model.

Formats hold the same label differently: ``0`` is text in CSV and a number in Parquet, and whole
numbers may come as decimals. Labels are the same if they are written the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def known_codes(name: str, column: pa.ChunkedArray, known: Any) -> tuple[Any, list[str]]:
    """Find labels among known ones.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    column : pyarrow.ChunkedArray
        Labels, none of them missing.
    known : ndarray of shape (K,)
        Different labels.

    Returns
    -------
    codes : ndarray of shape (n,)
        Where the labels are in `known`; −1 for those that are not.
    written : list of str
        The labels as they are written.
    """
    import numpy as np

    from duelrank.tables import labels

    code_of = _codes_as_written(known.tolist())
    written = [str(label) for label in labels(name, column).tolist()]
    return np.array([code_of.get(label, -1) for label in written], dtype=np.intp), written


def known_code(label: str, known: Any) -> int | None:
    """Return the place of a label among known ones, as it is written; None if it is not there."""
    return _codes_as_written(known.tolist()).get(label)


def as_known(rows: Iterable[list[Any]], known: list[Any]) -> list[list[Any]]:
    """Return rows of labels as the known ones are written; unknown ones stay as they are."""
    known_as = {text: known[code] for text, code in _codes_as_written(known).items()}
    return [[known_as.get(str(label), label) for label in row] for row in rows]


def _codes_as_written(known: list[Any]) -> dict[str, int]:
    code_of: dict[str, int] = {}
    for code, label in enumerate(known):
        code_of[str(label)] = code
        if isinstance(label, float) and label.is_integer():
            code_of[str(int(label))] = code
    return code_of
