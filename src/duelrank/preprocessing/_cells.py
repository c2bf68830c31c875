"""The cells of a single column, whatever holds it."""

from __future__ import annotations

from typing import Any

import numpy as np


def cells_of(X: Any) -> list[Any]:
    """Return the cells of a dataframe or array with one column; missing ones are None.

    Parameters
    ----------
    X : dataframe, series, list or array with one column
        Of pandas, polars, pyarrow or numpy.
    """
    column = X
    if hasattr(type(X), "column_names"):  # pyarrow
        column = X.column(0)
    elif hasattr(X, "iloc"):  # pandas
        column = X.iloc[:, 0] if X.ndim == 2 else X
    elif hasattr(X, "to_series") and len(X.shape) == 2:  # polars
        column = X.to_series(0)
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        column = X[:, 0]
    if hasattr(column, "to_pylist"):
        cells = column.to_pylist()
    else:
        cells = column.tolist() if hasattr(column, "tolist") else list(column)
    return [None if _is_missing(cell) else cell for cell in cells]


def check_one_column(X: Any) -> None:
    """Raise unless X has a single column."""
    if hasattr(X, "shape") and len(X.shape) == 2 and X.shape[1] != 1:
        raise ValueError(f"X must have a single column, got {X.shape[1]}.")


def column_of(X: Any, name: Any) -> Any:
    """Return one column of a dataframe by its name, or of an array by its number."""
    if hasattr(type(X), "column_names"):  # pyarrow
        return X.select([name])
    return X[:, [name]] if isinstance(X, np.ndarray) else X[[name]]


def name_of(transformer: Any) -> str:
    """Return the name of the column that a transformer was fitted on."""
    names = getattr(transformer, "feature_names_in_", ["x0"])
    return str(names[0])


def _is_missing(cell: Any) -> bool:
    # NaN, and pandas' NA and NaT: the first has no truth value, the second is no scalar.
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return bool(np.isscalar(cell) and cell != cell)
