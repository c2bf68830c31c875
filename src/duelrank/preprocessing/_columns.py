"""The transformer of all columns of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from duelrank.preprocessing._dates import DateFeatures
from duelrank.preprocessing._text import TextFeatures
from duelrank.preprocessing._vectors import VectorFeatures

# Those of `duelrank.tables`, which needs pyarrow; a test keeps them equal.
KINDS = ("number", "boolean", "date", "category", "text", "vector")
MOST_CATEGORIES = 100
MISSING_CATEGORY = "(missing)"


def make_preprocessing(kinds: Mapping[str, str], *, by_place: bool = False) -> ColumnTransformer:
    """Make the transformer that turns columns of these kinds into numbers.

    Parameters
    ----------
    kinds : mapping of str to str
        Kinds by column name, as in `duelrank.tables`.
    by_place : bool, default=False
        Whether the transformers name columns by their places in `kinds`. Then the table to fit on
        must have these columns in this order, and no others; new rows are still taken by name.
        ColumnTransformer looks for one name after the other, so with names, the time of a fit grows
        with the square of the number of columns.

    Returns
    -------
    preprocessing : ColumnTransformer
        Not fitted yet. Its result is sparse if there is text, and dense otherwise.

    Examples
    --------
    >>> [name for name, _, _ in make_preprocessing({"age": "number", "body": "text"}).transformers]
    ['numbers', 'text body']
    """
    unknown = [kind for kind in kinds.values() if kind not in KINDS]
    if unknown:
        raise ValueError(f"kinds must be some of {', '.join(KINDS)}; got {unknown[0]!r}.")
    of_kind: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        of_kind.setdefault(kind, []).append(name)
    others = ("date", "category", "text", "vector")
    dates, categories, texts, vectors = (of_kind.pop(kind, []) for kind in others)
    numbers = [name for name in kinds if kinds[name] in of_kind]
    transformers: list[tuple[str, Any, list[Any]]] = []
    if numbers:
        transformers.append(("numbers", make_pipeline(_median(), StandardScaler()), numbers))
    if dates:
        steps = (DateFeatures(), _median(), StandardScaler())
        transformers.append(("dates", make_pipeline(*steps), dates))
    if categories:
        transformers.append(("categories", _one_hot(bool(texts)), categories))
    transformers += [(f"vector {name}", VectorFeatures(), [name]) for name in vectors]
    transformers += [(f"text {name}", TextFeatures(), [name]) for name in texts]
    if by_place:
        place_of = {name: place for place, name in enumerate(kinds)}
        transformers = [
            (part, step, [place_of[n] for n in names]) for part, step, names in transformers
        ]
    return ColumnTransformer(
        transformers, verbose_feature_names_out=False, sparse_threshold=1.0 if texts else 0.0
    )


def _median() -> SimpleImputer:
    return SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)


def _one_hot(sparse: bool) -> Any:
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=MOST_CATEGORIES,
        sparse_output=sparse,
    )
    # Where text is missing, some dataframes have NaN and others None.
    missing = [
        SimpleImputer(missing_values=nothing, strategy="constant", fill_value=MISSING_CATEGORY)
        for nothing in (np.nan, None)
    ]
    return make_pipeline(*missing, encoder)
