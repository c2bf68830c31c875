"""Dates as numbers: days since 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank.preprocessing._cells import cells_of, column_of

__all__ = ["DateFeatures"]

SECONDS_A_DAY = 86_400


class DateFeatures(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Turn columns of dates into days since 1970.

    Dates may come as text such as "2024-05-31" or "2024-05-31 12:30", as dates and moments of
    Python, numpy, pandas, polars or pyarrow, or as numbers, which are taken for days already.
    Moments with a time zone are counted in UTC. Missing dates become NaN.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if they had any.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"opened": ["1970-01-03", "1970-01-01 12:00", None]})
    >>> DateFeatures().fit_transform(frame).tolist()
    [[2.0], [0.5], [nan]]
    """

    def fit(self, X: Any, y: Any = None) -> DateFeatures:
        """Learn the names of the columns; nothing else is to be learned.

        Parameters
        ----------
        X : dataframe or array of shape (n, n_features)
            Dates.
        y : None
            Ignored.

        Returns
        -------
        self : DateFeatures
            The fitted transformer.
        """
        validate_data(self, _as_table(X), reset=True, skip_check_array=True)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the days of all dates.

        Parameters
        ----------
        X : dataframe or array of shape (n, n_features)
            Dates.

        Returns
        -------
        days : ndarray of shape (n, n_features)
            Days since 1970, NaN where a date is missing.
        """
        check_is_fitted(self, "n_features_in_")
        X = _as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        places: Any = range(self.n_features_in_)
        if not isinstance(X, np.ndarray):
            places = getattr(X, "column_names", None) or X.columns
        columns = [_days(column_of(X, place), place) for place in places]
        return np.column_stack(columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def dates_written(column: Any) -> list[str | None]:
    """Return the dates of a column as text, with their time if they are not whole days.

    Parameters
    ----------
    column : dataframe or array with one column
        Dates, as `DateFeatures` takes them.
    """
    days = _days(column, "of dates")
    seconds = np.round(np.nan_to_num(days) * SECONDS_A_DAY).astype("datetime64[s]")
    texts = np.datetime_as_string(seconds, unit="m").tolist()
    return [
        None if day != day else text.removesuffix("T00:00").replace("T", " ")
        for day, text in zip(days.tolist(), texts, strict=True)
    ]


def _as_table(X: Any) -> Any:
    """Return dates with columns; lists of lists become an array."""
    X = X if hasattr(X, "shape") else np.array(X, dtype=object)
    if len(X.shape) != 2:
        raise ValueError(
            f"X must hold columns of dates, so it must be 2D, got shape {tuple(X.shape)}. Reshape "
            "a single column with X.reshape(-1, 1)."
        )
    return X


def _days(dates: Any, column: Any) -> NDArray[np.float64]:
    """Return the days of a column; its name or number is for messages."""
    if isinstance(dates, np.ndarray) and dates.dtype.kind == "M":
        moments = dates[:, 0].astype("datetime64[us]")
        wrapped = _is_out_of_range(dates[:, 0], moments)
        if wrapped.any():
            row = int(wrapped.argmax())
            raise ValueError(
                f"column {column!r} must hold dates such as 2024-05-31, but row {row} (from 0) is "
                "out of range."
            )
        known = moments.astype(np.int64).astype(np.float64) / (1e6 * SECONDS_A_DAY)
        return np.where(np.isnat(moments), np.nan, known)
    cells = cells_of(dates)
    days = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        try:
            days[row] = _day(cell)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {column!r} must hold dates such as 2024-05-31, but row {row} (from 0) has "
                f"{cell!r}."
            ) from error
    return days


def _day(cell: Any) -> float:
    """Return the day of one cell."""
    if cell is None:
        return float("nan")
    if isinstance(cell, str):
        cell = datetime.fromisoformat(cell.strip())
    if isinstance(cell, np.datetime64):
        moment = cell.astype("datetime64[us]")
        if _is_out_of_range(cell, moment):
            raise ValueError("out of range")
        cell = moment.item()
    if isinstance(cell, datetime):  # and so is a pandas.Timestamp
        moment = cell if cell.tzinfo else cell.replace(tzinfo=UTC)
        return moment.timestamp() / SECONDS_A_DAY
    if isinstance(cell, date):
        return float(cell.toordinal() - date(1970, 1, 1).toordinal())
    day = float(cell)
    if not isfinite(day):
        raise ValueError("no day")
    return day


def _is_out_of_range(dates: Any, moments: Any) -> Any:
    """Tell which dates are no longer the same in microseconds: numpy lets them wrap around."""
    unit = np.datetime_data(dates.dtype)[0]
    if unit in ("ns", "ps", "fs", "as"):  # their range is smaller
        return np.zeros(np.shape(dates), dtype=bool)
    return (moments.astype(dates.dtype) != dates) & ~np.isnat(dates)
