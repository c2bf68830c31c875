"""Checks of what turns texts into columns.

A vectorizer writes the numbers that its vocabulary holds into a sparse matrix, as the numbers of
columns, and neither it nor scipy looks whether these columns exist. Compiled code then reads memory
that belongs to something else. Hashing divides by the number of columns, and zero ends the process.
So all of them are checked. Errors are ValueErrors with one sentence.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from duelrank.preprocessing import TextFeatures, VectorFeatures
from duelrank.rankers import DuelRanker
from duelrank.shortlists import Shortlister

MOST_COLUMNS = 2**31 - 1


def check_vectorizer(step: Any) -> None:
    """Check the vocabulary, the frequencies and the number of columns of a vectorizer.

    Parameters
    ----------
    step : estimator
        Any; one that makes no columns of texts passes.
    """
    if isinstance(step, (CountVectorizer, DictVectorizer)) and hasattr(step, "vocabulary_"):
        # The features of records, and what a function of the user's makes of texts, may be no text.
        may_hold_anything = isinstance(step, DictVectorizer) or callable(step.analyzer)
        _check_vocabulary(step.vocabulary_, may_hold_anything)
    if isinstance(step, (HashingVectorizer, FeatureHasher)):
        _require(
            _is_integer(step.n_features) and 1 <= step.n_features <= MOST_COLUMNS,
            "a vectorizer hashes texts into a number of columns that cannot be",
        )
    if isinstance(step, TfidfTransformer) and "idf_" in vars(step):
        _check_frequencies(step.idf_, getattr(step, "n_features_in_", None))
    if isinstance(step, TfidfVectorizer) and "_tfidf" in vars(step):
        _require(isinstance(step._tfidf, TfidfTransformer), "a vectorizer has no frequencies")
        if "idf_" in vars(step._tfidf):
            _check_frequencies(step._tfidf.idf_, len(step.vocabulary_))


def check_columns(step: Any) -> None:
    """Check that every step of a pipeline takes as many columns as the vectorizers before it make.

    Parameters
    ----------
    step : estimator
        Any; one that is neither a Pipeline nor a ColumnTransformer passes.
    """
    if isinstance(step, ColumnTransformer) and hasattr(step, "transformers_"):
        _check_places(step)
        for name, part, _ in step.transformers_:
            place = step.output_indices_[name]
            _check_count(columns_made(part), place.stop - place.start)
    if isinstance(step, Pipeline):
        steps = [part for _, part in step.steps if not _passes_on(part)]
        for before, after in pairwise(steps):
            made = columns_made(before)
            for model in _models_of(after):
                _check_count(made, columns_taken(model))
                if isinstance(model, DuelRanker) and hasattr(model, "duels_"):
                    _check_count(made, columns_taken(model.duels_))


def _models_of(step: Any) -> list[Any]:
    """Return a step, or what is frozen, or the models that fitted shortlists are made of."""
    if isinstance(step, FrozenEstimator):
        return _models_of(step.estimator)
    if isinstance(step, Shortlister) and hasattr(step, "estimator_"):
        parts = [step.estimator_, *(step.fold_estimators_ or ())]
        return [model for part in parts for model in _models_of(part)]
    return [step]


def columns_taken(step: Any) -> int | None:
    """Return how many columns a step was fitted on; None if it does not tell."""
    return getattr(step, "n_features_in_", None)


def columns_made(step: Any, known: dict[int, int | None] | None = None) -> int | None:
    """Return how many columns a fitted step makes; None if only its transform could tell.

    Parameters
    ----------
    step : estimator or str
        The step; "drop" makes none. A vectorizer is checked before it is asked.
    known : dict of int to int, default=None
        Steps that were asked before, by their ids: a file may have one step in many places.
    """
    known = {} if known is None else known
    if id(step) not in known:
        known[id(step)] = _columns_made(step, known)
    return known[id(step)]


def _columns_made(step: Any, known: dict[int, int | None]) -> int | None:
    check_vectorizer(step)
    if isinstance(step, FrozenEstimator):
        return columns_made(step.estimator, known)
    if isinstance(step, (CountVectorizer, DictVectorizer)):
        return len(step.vocabulary_) if hasattr(step, "vocabulary_") else None
    if isinstance(step, (HashingVectorizer, FeatureHasher)):
        return int(step.n_features)
    if isinstance(step, TextFeatures) and "words_" in vars(step):
        return len(step.words_) + len(step.characters_)
    if isinstance(step, VectorFeatures) and "mean_" in vars(step):
        return len(step.mean_)
    if isinstance(step, FeatureUnion):
        made = [columns_made(part, known) for _, part in step.transformer_list]
        return None if None in made else sum(n for n in made if n is not None)
    if isinstance(step, ColumnTransformer):
        return _check_places(step) if hasattr(step, "transformers_") else None
    if isinstance(step, Pipeline):
        last = [part for _, part in step.steps if not _passes_on(part)][-1:]
        return columns_made(last[0], known) if last else None
    if isinstance(step, OneToOneFeatureMixin):
        return columns_taken(step)
    return 0 if isinstance(step, str) and step == "drop" else None


def _check_places(transformer: ColumnTransformer) -> int:
    """Check that the columns of all parts stand side by side, and return how many there are."""
    sentence = "the parts of a table do not make columns side by side"
    places: Any = getattr(transformer, "output_indices_", None)
    _require(isinstance(places, dict) and all(map(_is_place, places.values())), sentence)
    names = {name for name, _, _ in transformer.transformers_}
    _require(names <= set(places), sentence)
    n_columns = 0
    for name, place in sorted(places.items(), key=lambda item: (item[1].start, item[1].stop)):
        if place.stop > place.start:
            _require(place.start == n_columns and name in names, sentence)
            n_columns = int(place.stop)
    _require(all(place.stop <= n_columns for place in places.values()), sentence)
    return n_columns


def _is_place(place: Any) -> bool:
    return (
        isinstance(place, slice)
        and place.step is None
        and _is_integer(place.start)
        and _is_integer(place.stop)
        and 0 <= place.start <= place.stop
    )


def _passes_on(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _check_vocabulary(vocabulary: Any, may_hold_anything: bool) -> None:
    """Check that terms are texts and have the numbers 0 to n − 1, each of them once."""
    _require(isinstance(vocabulary, dict), "a vocabulary is no dictionary")
    _require(
        may_hold_anything or all(isinstance(term, str) for term in vocabulary),
        "a vocabulary holds a term that is no text",
    )
    numbers = list(vocabulary.values())
    _require(
        all(map(_is_integer, numbers)) and sorted(numbers) == list(range(len(numbers))),
        "the terms of a vocabulary are not numbered right",
    )


def _is_integer(number: Any) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool)


def _check_frequencies(idf: Any, n_columns: int | None) -> None:
    _require(
        type(idf) is np.ndarray
        and idf.dtype.kind == "f"
        and idf.ndim == 1
        and n_columns in (None, len(idf))
        and bool(np.isfinite(idf).all()),
        "the frequencies of a vocabulary do not fit its terms",
    )


def _check_count(made: int | None, taken: int | None) -> None:
    _require(
        made is None or taken is None or made == taken,
        "a vectorizer makes other columns than the next step takes",
    )


def _require(correct: bool, sentence: str) -> None:
    if not correct:
        raise ValueError(sentence)
