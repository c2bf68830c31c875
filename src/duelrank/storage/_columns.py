"""The kinds of the columns that a fitted model takes, as far as the model tells.

A CSV file holds text, and ``1`` may be a number or the name of something. The first steps of a
model tell what it was fitted on: an encoder knows its categories, a scaler takes numbers, and so do
most engines. A vectorizer takes one column of text. The *kinds* are those of `duelrank.tables`. A
step that takes anything tells nothing; the next step may, if it gets the same columns. A column
that no step uses may hold any text, so it is a category. Numbers and booleans look the same here,
and are called numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils import get_tags

from duelrank.duels import DuelEngine
from duelrank.preprocessing import DateFeatures
from duelrank.rankers import DuelRanker
from duelrank.shortlists import PlaceIntervals, Shortlister

Kinds = dict[str, str | None]


def column_kinds(model: Any) -> Kinds:
    """Return the names of the columns and their kinds, None where the model does not tell.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline or search that ends in one
        If it was fitted on columns without names, nothing is returned.

    Returns
    -------
    kinds : dict of str to str or None
        In the order of the columns.
    """
    model = _ranks_by(model)
    return _kinds(model, [str(name) for name in getattr(model, "feature_names_in_", ())])


def takes_texts(model: Any) -> bool:
    """Tell whether a model takes one text per row, as a list or array of texts.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline or search that ends in one
        A model that was fitted on a dataframe or on an array of columns takes these.
    """
    model = _ranks_by(model)
    if any(hasattr(model, known) for known in ("n_features_in_", "feature_names_in_")):
        return False
    return _kinds(model, ["text"]) == {"text": "text"}


def _ranks_by(model: Any) -> Any:
    """Return what shortlists and intervals of places rank by, and what is frozen."""
    if isinstance(model, (Shortlister, PlaceIntervals)):
        return _ranks_by(model.estimator_)
    return _ranks_by(model.estimator) if isinstance(model, FrozenEstimator) else model


def _kinds(step: Any, names: list[str]) -> Kinds:
    """Find out what a step takes."""
    step = _ranks_by(step)
    if not names or not isinstance(step, BaseEstimator):  # such as "passthrough"
        return dict.fromkeys(names)
    if hasattr(step, "best_estimator_"):
        return _kinds(step.best_estimator_, names)
    if isinstance(step, Pipeline):
        return _kinds_in_a_row([part for _, part in step.steps], names)
    if isinstance(step, ColumnTransformer):
        parts = _parts(step, names)
        used = {name for _, chosen in parts for name in chosen}
        unused: Kinds = dict.fromkeys((name for name in names if name not in used), "category")
        return _agreed(names, [unused, *(_kinds(part, chosen) for part, chosen in parts)])
    if isinstance(step, FeatureUnion):
        return _agreed(names, [_kinds(part, names) for _, part in step.transformer_list])
    if isinstance(step, DuelRanker):
        return _kinds(step.duels_, names)
    if isinstance(step, DuelEngine) and hasattr(step, "inner_estimator"):
        return _kinds(step.inner_estimator(), names)
    if isinstance(step, DateFeatures):
        return dict.fromkeys(names, "date")
    if isinstance(step, SimpleImputer):
        return _each([[value] for value in step.statistics_], names)
    if isinstance(step, (OneHotEncoder, OrdinalEncoder, TargetEncoder)):
        return _each(step.categories_, names)
    return dict.fromkeys(names, _kind_taken(step))


def _kinds_in_a_row(steps: Sequence[Any], names: list[str]) -> Kinds:
    """Ask one step after the other, as long as they pass on the columns as they got them."""
    kinds: Kinds = dict.fromkeys(names)
    for number, step in enumerate(steps):
        found = _kinds(step, names)
        kinds = {name: kind or found[name] for name, kind in kinds.items()}
        after = _names_after(step, names)
        if after == names:
            continue
        if isinstance(step, ColumnTransformer) and _all_numbers(steps[number + 1 :], after):
            passed_on = {n for part, chosen in _parts(step, names) if _keeps(part) for n in chosen}
            kinds |= {name: kinds[name] or "number" for name in passed_on}
        break
    return kinds


def _all_numbers(steps: Sequence[Any], names: list[str]) -> bool:
    return bool(names) and set(_kinds_in_a_row(steps, names).values()) == {"number"}


def _keeps(step: Any) -> bool:
    """Tell whether a step passes on its columns as they are."""
    does_nothing = isinstance(step, FunctionTransformer) and step.func is None
    return does_nothing or step is None or (isinstance(step, str) and step == "passthrough")


def _names_after(step: Any, names: list[str]) -> list[str]:
    if _keeps(step):
        return names
    try:
        return [str(name) for name in step.get_feature_names_out(names)]
    except (AttributeError, ValueError):  # it makes other columns, or cannot tell
        return []


def _agreed(names: list[str], kinds_by_step: Iterable[Kinds]) -> Kinds:
    """Join the kinds that parallel steps tell; None where they contradict each other."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for kinds in kinds_by_step:
        for name, kind in kinds.items():
            found[name] |= {kind} if kind else set()
    for told in found.values():
        if told == {"category", "text"}:  # text, some of which is known as a whole
            told.remove("category")
    return {name: kinds.pop() if len(kinds) == 1 else None for name, kinds in found.items()}


def _parts(transformer: ColumnTransformer, names: list[str]) -> list[tuple[Any, list[str]]]:
    """List the parts of a fitted ColumnTransformer and the columns that each of them gets."""
    return [
        (part, _chosen(chosen, names))
        for _, part, chosen in transformer.transformers_
        if not (isinstance(part, str) and part == "drop")
    ]


def _chosen(columns: Any, names: list[str]) -> list[str]:
    """Return the names of the columns that a ColumnTransformer gives to one of its parts."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        first, last = columns.start, columns.stop
        if isinstance(first, str) or isinstance(last, str):  # by name, a slice includes its end
            first = None if first is None else names.index(first)
            last = None if last is None else names.index(last) + 1
        return names[slice(first, last, columns.step)]
    chosen = list(np.atleast_1d(columns))
    if not all(isinstance(name, str) for name in chosen):
        chosen = np.array(names, dtype=object)[np.array(chosen)].tolist()
    return [str(name) for name in chosen]


def _each(values: Iterable[Iterable[Any]], names: list[str]) -> Kinds:
    """Tell the kinds of columns by values that they had."""
    kinds = [_kind_of(column) for column in values]
    return dict(zip(names, kinds, strict=True))


def _kind_of(values: Iterable[Any]) -> str | None:
    known = [v for v in values if not (v is None or (isinstance(v, float) and np.isnan(v)))]
    if known and all(isinstance(value, str) for value in known):
        return "category"
    if known and all(isinstance(value, (bool, np.bool_)) for value in known):
        return "boolean"
    if known and all(isinstance(value, (int, float, np.number)) for value in known):
        return "number"
    return None


def _kind_taken(step: Any) -> str | None:
    """Return the kind of all columns of an estimator that takes no other kind, or None."""
    # Engines have tags, by the protocol; classes of other packages may not have set theirs.
    has_tags = type(step).__module__.startswith(("sklearn.", "duelrank."))
    if not (isinstance(step, DuelEngine) or has_tags):
        return None
    if any(getattr(step, inner, None) is not None for inner in ("estimator", "estimators")):
        return None  # it takes what the estimator inside takes
    if getattr(step, "is_categorical_", None) is not None:  # of histogram gradient boosting
        return None
    tags = get_tags(step)
    takes = tags.input_tags
    if takes.string and not takes.two_d_array:  # one text per row
        return "text"
    return None if tags.no_validation or takes.categorical or takes.string else "number"
