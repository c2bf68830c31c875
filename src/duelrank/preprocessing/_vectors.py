"""Lists of numbers, such as embeddings, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._sklearn import check_feature_names
from duelrank.preprocessing._cells import cells_of, check_one_column, name_of

__all__ = ["VectorFeatures"]


class VectorFeatures(TransformerMixin, BaseEstimator):
    """Turn a column of lists of numbers into columns of numbers.

    All lists have the same length. They are divided by the root of their mean squared length, so
    that rows are about as long as those of `TextFeatures`, whatever the embedding is. A row without
    a list gets the mean of the training rows.

    Attributes
    ----------
    mean_ : ndarray of shape (d,)
        The mean list, before it is scaled.
    scale_ : float
        What numbers are divided by.
    n_features_in_ : int
        1, the column of lists.
    feature_names_in_ : ndarray of shape (1,)
        The name of the column, if it had one.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"embedding": [[3.0, 4.0], None, [0.0, 5.0]]})
    >>> VectorFeatures().fit_transform(frame).round(2).tolist()
    [[0.6, 0.8], [0.3, 0.9], [0.0, 1.0]]
    """

    def fit(self, X: Any, y: Any = None) -> VectorFeatures:
        """Learn the length of the lists, their mean and their scale.

        Parameters
        ----------
        X : dataframe or array of shape (n, 1)
            Lists, arrays or None.
        y : None
            Ignored.

        Returns
        -------
        self : VectorFeatures
            The fitted transformer.
        """
        check_one_column(X)
        validate_data(self, X, reset=True, skip_check_array=True)
        name = name_of(self)
        vectors, _ = _read(X, None, name)
        if len(vectors) == 0:
            raise ValueError(f"column {name!r} must hold lists of numbers, got none.")
        with np.errstate(over="ignore"):
            scale = float(np.sqrt(np.mean(np.sum(vectors**2, axis=1))))
        if not np.isfinite(scale):
            raise ValueError(f"column {name!r} holds numbers that are too large.")
        self.mean_, self.scale_ = vectors.mean(axis=0), scale or 1.0
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the numbers of all lists.

        Parameters
        ----------
        X : dataframe or array of shape (n, 1)
            Lists, arrays or None.

        Returns
        -------
        vectors : ndarray of shape (n, d)
            A row of the mean where there is none.
        """
        check_is_fitted(self, "mean_")
        check_one_column(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        vectors, known = _read(X, len(self.mean_), name_of(self))
        filled = np.tile(self.mean_ / self.scale_, (len(known), 1))
        filled[known] = vectors / self.scale_
        return filled

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: that of the lists, with the place in the list.

        Parameters
        ----------
        input_features : array-like of one str, default=None
            The name of the column, if it had none in fit.

        Returns
        -------
        names : ndarray of str objects, of shape (d,)
            Such as "embedding[0]".
        """
        check_is_fitted(self, "mean_")
        (name,) = check_feature_names(self, input_features, n_features=1)
        return np.array([f"{name}[{place}]" for place in range(len(self.mean_))], dtype=object)

    def check_fitted(self) -> None:
        """Raise ValueError if the fitted arrays do not fit together, as in an altered file."""
        if "mean_" not in vars(self):  # it is not fitted
            return
        mean, scale = self.mean_, self.scale_
        if not (
            isinstance(mean, np.ndarray)
            and mean.dtype == np.float64
            and mean.ndim == 1
            and bool(np.isfinite(mean).all())
            and type(scale) is float
            and 0 < scale < np.inf
        ):
            raise ValueError("the vectors of a column are not counted right")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = True
        return tags


def _read(X: Any, length: int | None, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the lists that are there as the rows of an array, and which rows have one."""
    flat = _read_arrow(X) if hasattr(X, "column_names") else None
    if flat is not None and length in (None, flat[0].shape[1]):
        vectors, known = flat
    else:
        cells = cells_of(X)
        known = np.array([cell is not None for cell in cells], dtype=bool)
        vectors = _as_rows(cells, np.flatnonzero(known).tolist(), length, name)
    if not np.isfinite(vectors).all():
        row = np.flatnonzero(known)[np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0]]
        raise ValueError(f"column {name!r} must hold finite numbers, but row {row} has others.")
    return vectors, known


def _read_arrow(table: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
    """Read lists of equal length without making a Python object of every number; None if not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(0)
    if not (pa.types.is_list(column.type) and pa.types.is_floating(column.type.value_type)):
        return None
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    values = pc.list_flatten(column)
    if len(lengths) != 1 or values.null_count:
        return None
    numbers = np.asarray(values.to_numpy(), dtype=np.float64)
    return numbers.reshape(-1, lengths[0]), column.is_valid().to_numpy()


def _as_rows(
    cells: list[Any], rows: list[int], length: int | None, name: str
) -> NDArray[np.float64]:
    """Return the lists in some rows as the rows of an array, or say which one does not fit."""
    if length is None:
        length = np.size(cells[rows[0]]) if rows else 0
    for row in rows:
        cell = cells[row]
        if isinstance(cell, str) or np.shape(cell) != (length,):
            raise ValueError(
                f"column {name!r} must hold lists of {length} numbers, but row {row} (from 0) has "
                f"{'text' if isinstance(cell, str) else f'shape {np.shape(cell)}'}."
            )
    return np.array([cells[row] for row in rows], dtype=np.float64).reshape(len(rows), length)
