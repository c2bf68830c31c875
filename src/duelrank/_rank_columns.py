"""Ranks in tables: a column for every label, and which column belongs to which label."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_ranks(y: Any) -> bool:
    """Tell ranks, with a column for every label, from a vector of labels."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, (list, tuple)) and len(y) and hasattr(y[0], "__len__"):
        return not isinstance(y[0], (str, bytes)) and len(y[0]) > 1
    return shape is not None and len(shape) == 2 and shape[1] > 1


def ranks_by_label(ranks: Any, classes: Any, columns: Any = None, name: str = "ranks") -> Any:
    """Put the columns of ranks in the order of the classes, if it is known which is which.

    Parameters
    ----------
    ranks : array-like of shape (n, K)
        The columns of a dataframe are named by the classes, or by numbers that name nothing.
    classes : array-like of shape (K,)
        The labels.
    columns : array-like of shape (K,), default=None
        The labels of the columns, where these are not named.
    name : str, default="ranks"
        The argument's name, for the error message.
    """
    labels = np.asarray(classes).tolist()
    named = column_names(ranks)
    if named is not None and set(named) == set(labels):
        return np.stack([_floats(ranks[label]) for label in labels], axis=1)
    if named is not None and len(named) == len(labels) and named != list(range(len(named))):
        raise ValueError(f"{name} has the columns {named}, but the labels are {labels}.")
    if columns is not None and np.shape(ranks)[1:] == np.shape(labels):
        place = {label: column for column, label in enumerate(columns)}
        return np.asarray(ranks)[:, [place[label] for label in labels]]
    return ranks


def column_names(table: Any) -> list[Any] | None:
    """Return the names of a dataframe's columns, None for an array."""
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return None if names is None else list(names)


def _floats(column: Any) -> NDArray[Any]:
    """Return a column of a dataframe; numbers that may be missing have NaN for it."""
    if hasattr(column, "dtype") and getattr(column.dtype, "na_value", 0) is not np.nan:
        with suppress(TypeError, ValueError):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column)
