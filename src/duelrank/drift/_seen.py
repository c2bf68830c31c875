"""What the steps of a fitted model have seen of columns: categories, words, mean vectors.

The profile is small, so it cannot name every category and every word of the training data. The
model knows them already, if its first step is one of ours or a well-known one of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from duelrank._sklearn import columns_of, transformers_inside
from duelrank.preprocessing import TextFeatures, VectorFeatures

WHOLE = "text"  # the name of texts that are no column of a table


@dataclass(frozen=True)
class Words:
    """The words that a model knows of a column of text.

    Attributes
    ----------
    split : callable
        Returns the words of every cell of a list.
    known : collection of str
        All words that the model knows.
    """

    split: Callable[[list[Any]], list[list[str]]]
    known: Collection[str]


@dataclass(frozen=True)
class Seen:
    """What a model has seen, by the names of columns.

    Attributes
    ----------
    values : dict of str to set of str
        All categories.
    words : dict of str to Words
        The vocabularies.
    means : dict of str to ndarray
        The mean of vectors.
    """

    values: dict[str, frozenset[str]] = field(default_factory=dict)
    words: dict[str, Words] = field(default_factory=dict)
    means: dict[str, NDArray[np.float64]] = field(default_factory=dict)


def seen_by(model: Any) -> Seen:
    """Find out what the first step of a fitted model has seen.

    Parameters
    ----------
    model : fitted classifier, pipeline or search
        If its first step tells nothing, neither does the answer.
    """
    seen = Seen()
    for step, columns in _first_steps(model):
        if isinstance(step, TextFeatures) and len(columns) == 1:
            seen.words[columns[0]] = Words(step.words_in, frozenset(step.words_.tolist()))
        elif isinstance(step, CountVectorizer) and step.analyzer == "word" and len(columns) == 1:
            seen.words[columns[0]] = _words_of(step)
        elif isinstance(step, VectorFeatures) and len(columns) == 1:
            seen.means[columns[0]] = step.mean_
        elif isinstance(step, (OneHotEncoder, OrdinalEncoder)):
            for name, values in zip(columns, step.categories_, strict=True):
                seen.values[name] = frozenset(str(value) for value in values.tolist())
    return seen


def _first_steps(model: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield the steps that get columns as they are, or nearly so, with the names of these."""
    first = next(iter(transformers_inside(model)), None)
    if isinstance(first, ColumnTransformer):
        for name, part, _ in first.transformers_:
            columns = [str(column) for column in columns_of(first, name)]
            steps = [step for _, step in part.steps] if isinstance(part, Pipeline) else [part]
            for step in steps:
                if len(getattr(step, "categories_", columns)) == len(columns):
                    yield step, columns
    elif first is not None:
        names = getattr(first, "feature_names_in_", None)
        yield first, [WHOLE] if names is None else [str(name) for name in names]


def _words_of(vectorizer: CountVectorizer) -> Words:
    prepare, cut = vectorizer.build_preprocessor(), vectorizer.build_tokenizer()

    def split(cells: list[Any]) -> list[list[str]]:
        return [cut(prepare("" if cell is None else str(cell))) for cell in cells]

    return Words(split, frozenset(vectorizer.vocabulary_))
