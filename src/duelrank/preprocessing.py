"""From a table to what duels can learn from: which columns, of what kind, and what happens to them.

`training_data` picks the columns of a table apart; `make_preprocessing` is the scikit-learn
ColumnTransformer that a model fitted from the command line begins with:

- numbers, dates and booleans: the median for a missing value, a column of its own that says so
  where there were any, and the standard scale;
- categories: one column per value, missing being one of them. Of many values the most frequent
  `MOST_CATEGORIES` − 1 keep a column and the others share one, which is also where values go that
  were not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from duelrank.tables import TableError, features, is_labelled, kinds_of, labels

__all__ = ["TrainingData", "make_preprocessing", "training_data"]

MOST_CATEGORIES = 100
MISSING_CATEGORY = "(missing)"
# Above so many values a category column is worth a word; so is a target with as many labels.
MANY_VALUES = 100
# Among fewer rows, values that are all different mean nothing.
FEW_ROWS = 20
# What a column with a few stray texts looks like.
MOSTLY_NUMBERS = 0.8
# An unnamed first column and what pandas writes are numbers of rows.
INDEX_COLUMNS = ("", "__index_level_0__", "Unnamed: 0")


@dataclass(frozen=True)
class TrainingData:
    """A table picked apart.

    Attributes
    ----------
    X : pyarrow.Table
        The features.
    y : ndarray of shape (n,)
        The labels.
    kinds : dict of str to str
        The columns of X and their kinds.
    left_out : list of str
        Columns that carry no information.
    notes : list of str
        What a user should know: columns left out, rows dropped, suspicious columns.
    """

    X: pa.Table
    y: NDArray[Any]
    kinds: dict[str, str]
    left_out: list[str]
    notes: list[str]


def training_data(
    table: pa.Table,
    target: str,
    *,
    as_text: bool,
    ignore: Collection[str] = (),
    categorical: Collection[str] = (),
) -> TrainingData:
    """Pick a table apart into features and labels.

    Parameters
    ----------
    table : pyarrow.Table
        Features and labels.
    target : str
        The column with the labels. Rows without a label are dropped.
    as_text : bool
        Whether text may stand for something else, as it does in CSV.
    ignore : collection of str
        Columns to leave out.
    categorical : collection of str
        Columns that hold categories, whatever they look like.

    Returns
    -------
    data : TrainingData
        Columns without information are left out with a note: empty ones, constant ones, row
        numbers, and text that is different in every row.
    """
    notes: list[str] = []
    for role, names in (("target", [target]), ("ignore", ignore), ("categorical", categorical)):
        for name in names:
            if name not in table.column_names:
                raise TableError(f"{role} column {name!r} is not in the table.")
    labelled = is_labelled(table[target])
    if not labelled.all():
        table = table.filter(pa.array(labelled))
        notes.append(f"{_count(int((~labelled).sum()), 'row')} without a label left out")
    if len(table) == 0:
        raise TableError(f"no row has a label in {target!r}.")
    y = labels(target, table[target])
    _note_labels(y, target, notes)
    candidates = [n for n in table.column_names if n != target and n not in set(ignore)]
    table = table.select(candidates)
    kinds = kinds_of(table, as_text=as_text, categorical=categorical)
    X = features(table, kinds)
    kinds = _informative(X, kinds, categorical, notes)
    if not kinds:
        raise TableError("the table has no column to learn from besides the target.")
    _note_categories(X, kinds, notes)
    left_out = [name for name in candidates if name not in kinds]
    return TrainingData(X.select(list(kinds)), y, kinds, left_out, notes)


def make_preprocessing(kinds: Mapping[str, str]) -> ColumnTransformer:
    """Make the transformer that turns columns of these kinds into numbers.

    Parameters
    ----------
    kinds : mapping of str to str
        Kinds by column name.

    Returns
    -------
    preprocessing : ColumnTransformer
        Not fitted yet.

    Examples
    --------
    >>> [name for name, _, _ in make_preprocessing({"age": "number"}).transformers]
    ['numbers']
    """
    categories = [name for name, kind in kinds.items() if kind == "category"]
    numbers = [name for name in kinds if name not in set(categories)]
    transformers: list[tuple[str, Any, list[str]]] = []
    if numbers:
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        transformers.append(("numbers", make_pipeline(imputer, StandardScaler()), numbers))
    if categories:
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=MOST_CATEGORIES,
            sparse_output=False,
        )
        # Dataframes differ in what they put where text is missing.
        missing = [
            SimpleImputer(missing_values=nothing, strategy="constant", fill_value=MISSING_CATEGORY)
            for nothing in (np.nan, None)
        ]
        transformers.append(("categories", make_pipeline(*missing, encoder), categories))
    return ColumnTransformer(transformers, verbose_feature_names_out=False)


def _informative(
    X: pa.Table, kinds: dict[str, str], forced: Collection[str], notes: list[str]
) -> dict[str, str]:
    """Keep the columns that could tell something about a row that was not seen."""
    reasons: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        reason = "" if name in forced else _why_useless(name, kind, X[name])
        reasons.setdefault(reason, []).append(name)
    useful = set(reasons.pop("", []))
    notes += [f"{_listed(names)} left out: {reason}" for reason, names in reasons.items()]
    return {name: kind for name, kind in kinds.items() if name in useful}


def _why_useless(name: str, kind: str, column: pa.ChunkedArray) -> str:
    if name in INDEX_COLUMNS:
        return "row numbers"
    if column.null_count == len(column):
        return "empty"
    if column.null_count == 0 and len(column) > 1 and _is_constant(column):
        return "always the same value"
    if kind == "category" and len(column) > FEW_ROWS and column.null_count == 0:
        values = pc.unique(column)
        if len(values) == len(column) and _strays(values) is None:
            return "different in every row"
    return ""


def _is_constant(column: pa.ChunkedArray) -> bool:
    first = column[0]
    return bool(pc.all(pc.equal(column, first)).as_py())


def _note_labels(y: NDArray[Any], target: str, notes: list[str]) -> None:
    n_labels = len(set(y.tolist()))
    if n_labels > MANY_VALUES and n_labels > len(y) / 2:
        notes.append(f"{target!r} has {n_labels} labels in {len(y)} rows, so it may be no label")


def _note_categories(X: pa.Table, kinds: dict[str, str], notes: list[str]) -> None:
    for name in (name for name, kind in kinds.items() if kind == "category"):
        known = X[name].drop_null()
        values = pc.unique(known)
        strays = _strays(values)
        if strays is not None:
            notes.append(
                f"{name!r} is mostly numbers but holds {strays}, so it is taken for categories; "
                "leave those cells empty to take it for numbers"
            )
        elif len(values) > MANY_VALUES:
            notes.append(
                f"{name!r} has {len(values)} different values, of which the most frequent "
                f"{MOST_CATEGORIES - 1} are told apart; --ignore leaves it out"
            )


def _strays(values: pa.Array) -> str | None:
    """Name the texts among values that are numbers otherwise, if they are few."""
    texts = values.to_pylist()
    strays = [text for text in texts if not _is_number(text)]
    if not strays or len(strays) > (1 - MOSTLY_NUMBERS) * len(texts):
        return None
    return ", ".join(map(repr, strays[:3])) + (" and others" if len(strays) > 3 else "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
