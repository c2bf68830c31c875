"""The columns of a table as what is compared: values, or numbers about the cells.

A column of categories or booleans has *values*. Any other column has one or two *measures*, numbers
with NaN where a cell is missing: a number or a date itself; of a text how many words it has, and
the share of them that the model does not know; of a vector its length, and the cosine of the angle
between it and the mean of the training rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank.drift._seen import WHOLE, Seen, Words
from duelrank.preprocessing import DateFeatures, cells_of, column_of

Numbers = NDArray[np.float64]
MEASURES = {
    "number": ("value",),
    "date": ("value",),
    "text": ("words", "unknown"),
    "vector": ("length", "cosine"),
}
KINDS = (*MEASURES, "boolean", "category")
# On which side of all training rows a number is odd: a text is not odd for being short.
SIDES = {"value": "both", "words": "above", "unknown": "above", "length": "both", "cosine": "below"}
LONGEST_VALUE = 100  # characters of a category that count


@dataclass(frozen=True)
class Column:
    """The cells of a column.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    missing : ndarray of bool, of shape (n,)
        Where there is no cell. An empty text is one.
    measures : dict of str to ndarray of shape (n,)
        Numbers about the cells; none of categories.
    values : ndarray of str objects, of shape (n,), or None
        Categories; "" where they are missing.
    cells : list or None
        Texts as they are, to show them.
    """

    kind: str
    missing: NDArray[np.bool_]
    measures: dict[str, Numbers]
    values: NDArray[np.object_] | None = None


def column_names(X: Any) -> list[str]:
    """Return the names of the columns of a table; x0, x1, ... if they have none."""
    if sparse.issparse(X):
        return []
    if len(getattr(X, "shape", (len(X),))) == 1:
        return [WHOLE]
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    if names is None:
        return [f"x{number}" for number in range(X.shape[1])]
    return [str(name) for name in names]


def read_column(X: Any, name: str, kind: str | None, seen: Seen) -> Column:
    """Read a column.

    Parameters
    ----------
    X : dataframe or array, or list or array of texts
        The table.
    name : str
        One of `column_names`.
    kind : str or None
        One of `KINDS`; None if the cells tell.
    seen : Seen
        What the model knows of columns.
    """
    cells = _cells(X, name)
    kind = kind or _kind_of(cells, name, seen)
    if kind in ("category", "boolean"):
        return _categories(cells, kind)
    if kind == "text":
        return _texts(cells, seen.words.get(name))
    if kind == "vector":
        return _vectors(cells, seen.means.get(name))
    numbers = _numbers(cells, kind)
    return Column(kind, np.isnan(numbers), {"value": numbers})


def without_themselves(column: Column, name: str, X: Any, seen: Seen, own: Any) -> Column:
    """Return a column of training rows as if the model had not seen each of them itself.

    A word that no other row has is unknown then, and a vector is not part of the mean. So these
    rows can be compared with new ones.

    Parameters
    ----------
    column : Column
        As by `read_column`.
    name, X, seen
        As there.
    own : ndarray of bool, of shape (n,)
        The rows that the model has learned from.
    """
    measures = dict(column.measures)
    if "unknown" in measures:
        words = seen.words[name]
        split = words.split(_as_list(_cells(X, name)))
        n_rows = Counter(
            word for row, learned in zip(split, own, strict=True) if learned for word in set(row)
        )
        shares = [
            _share(row, lambda w: w not in words.known or n_rows[w] <= 1) if learned else share
            for row, learned, share in zip(split, own, measures["unknown"].tolist(), strict=True)
        ]
        measures["unknown"] = np.where(column.missing, np.nan, np.array(shares))
    if "cosine" in measures and own.sum() > 1:
        vectors = _stacked(_cells(X, name), column.missing)
        n_learned = int((own & ~column.missing).sum())
        mean, rows = seen.means[name], own[~column.missing]
        others = (n_learned * mean - vectors) / max(n_learned - 1, 1)
        cosines = _cosines(vectors, np.where(rows[:, np.newaxis], others, mean))
        measures["cosine"] = _spread(cosines, column.missing)
    return Column(column.kind, column.missing, measures, column.values)


def shortened(value: Any) -> str:
    """Return a category as it is compared."""
    return str(value)[:LONGEST_VALUE]


def _cells(X: Any, name: str) -> Any:
    if name == WHOLE and len(getattr(X, "shape", (len(X),))) == 1:
        return cells_of(X)
    if isinstance(X, np.ndarray):
        return X[:, int(name[1:])]
    if hasattr(type(X), "column_names"):  # of a table, they would be listed for every column
        return X.column(name)
    return column_of(X, next(column for column in X.columns if str(column) == name))


def _as_list(cells: Any) -> list[Any]:
    return cells if isinstance(cells, list) else cells_of(cells)


def _kind_of(cells: Any, name: str, seen: Seen) -> str:
    if name in seen.words:
        return "text"
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return "boolean" if cells.dtype.kind == "b" else "number"
    known = next((cell for cell in _as_list(cells) if cell is not None), None)
    if isinstance(known, (bool, np.bool_)):
        return "boolean"
    if isinstance(known, (int, float, np.number)):
        return "number"
    if hasattr(known, "isoformat") or isinstance(known, np.datetime64):
        return "date"
    return "vector" if isinstance(known, (list, tuple, np.ndarray)) else "category"


def _numbers(cells: Any, kind: str) -> Numbers:
    if hasattr(cells, "type") and hasattr(cells, "to_numpy"):  # pyarrow
        import pyarrow as pa

        if pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type):
            cells = np.asarray(cells.cast(pa.float64()).to_numpy(), dtype=np.float64)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        numbers = cells.astype(np.float64)
    elif kind == "date":
        dates = np.array([[cell] for cell in _as_list(cells)], dtype=object).reshape(-1, 1)
        numbers = DateFeatures().fit(dates).transform(dates)[:, 0]
    else:
        listed = [np.nan if cell is None else float(cell) for cell in _as_list(cells)]
        numbers = np.array(listed, dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _categories(cells: Any, kind: str) -> Column:
    listed = _as_list(cells)
    if kind == "boolean":  # 0 and 1, or false and true
        names = {None: "", 0: "false", 1: "true"}
        values = [names.get(cell, str(cell)) for cell in listed]
    else:
        values = ["" if cell is None else shortened(cell) for cell in listed]
    missing = np.array([cell is None for cell in listed], dtype=bool)
    return Column(kind, missing, {}, np.array(values, dtype=object))


def _texts(cells: Any, words: Words | None) -> Column:
    listed = _as_list(cells)
    missing = np.array([cell is None or not str(cell).strip() for cell in listed], dtype=bool)
    if words is None:
        counts = np.array([len(str(cell or "").split()) for cell in listed], dtype=np.float64)
        return Column("text", missing, {"words": np.where(missing, np.nan, counts)})
    split = words.split(listed)
    counts = np.array([len(row) for row in split], dtype=np.float64)
    shares = np.array([_share(row, lambda word: word not in words.known) for row in split])
    return Column(
        "text",
        missing,
        {
            "words": np.where(missing, np.nan, counts),
            "unknown": np.where(missing, np.nan, shares),
        },
    )


def _share(words: list[str], is_unknown: Any) -> float:
    return sum(map(is_unknown, words)) / len(words) if words else 0.0


def _vectors(cells: Any, mean: Numbers | None) -> Column:
    listed = _as_list(cells)
    missing = np.array([cell is None for cell in listed], dtype=bool)
    vectors = _stacked(listed, missing)
    measures = {"length": _spread(np.sqrt(np.sum(vectors**2, axis=1)), missing)}
    if mean is not None and vectors.shape[1:] == mean.shape:
        measures["cosine"] = _spread(_cosines(vectors, mean), missing)
    return Column("vector", missing, measures)


def _stacked(cells: Any, missing: NDArray[np.bool_]) -> Numbers:
    known = [cell for cell, none in zip(_as_list(cells), missing, strict=True) if not none]
    return np.array(known, dtype=np.float64) if known else np.zeros((0, 0))


def _cosines(vectors: Numbers, mean: Numbers) -> Numbers:
    lengths = np.sqrt(np.sum(vectors**2, axis=1) * np.sum(mean**2, axis=-1))
    dots = np.sum(vectors * mean, axis=1)
    return np.asarray(np.divide(dots, lengths, out=np.zeros(len(vectors)), where=lengths > 0))


def _spread(numbers: Numbers, missing: NDArray[np.bool_]) -> Numbers:
    """Return numbers of cells as numbers of rows."""
    whole = np.full(len(missing), np.nan)
    whole[~missing] = numbers
    return whole


def read_columns(
    X: Any, names: list[str], kinds: Mapping[str, str | None], seen: Seen
) -> dict[str, Column]:
    """Read some columns, of the kinds that are known."""
    return {name: read_column(X, name, kinds.get(name), seen) for name in names}
