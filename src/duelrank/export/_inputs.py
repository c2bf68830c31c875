"""What an exported model takes: one table of numbers, texts, or one tensor for every column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder

from duelrank.export._preprocessing import NO_TEXT, check_vectorizer, tensor_type
from duelrank.preprocessing import DateFeatures, TextFeatures, VectorFeatures
from duelrank.storage import column_kinds, takes_texts

ALONE = "the ranker behind it can be exported alone, to_onnx(model[-1])."
TABLE = "X"  # the input of models that take all columns as one table


class Input(NamedTuple):
    """An input of an exported model.

    Attributes
    ----------
    name : str
        Its name.
    dtype : dtype
        Of its numbers; object for texts.
    shape : list of int or None
        None for the number of points.
    is_column : bool
        Whether it is one column of a table.
    """

    name: str
    dtype: Any
    shape: list[int | None]
    is_column: bool = False

    @property
    def for_skl2onnx(self) -> tuple[str, Any]:
        """Name and type; of a column of vectors, skl2onnx would take the first numbers alone."""
        return self.name, tensor_type(self.dtype)([None, 1] if self.is_column else self.shape)


def inputs_of(
    model: Any, transformers: list[Any], kinds: Mapping[str, str] | None, dtype: Any
) -> list[Input]:
    """Return the inputs of an exported model.

    Parameters
    ----------
    model : fitted model
        As it was given.
    transformers : list of transformers
        What points pass on the way to the ranker.
    kinds : mapping of str to str, or None
        Kinds of columns that the model does not tell.
    dtype : dtype
        Of numbers.
    """
    if transformers and takes_texts(model):
        return [Input(TABLE, object, [None])]
    told = column_kinds(model)
    by_columns = transformers and isinstance(transformers[0], (ColumnTransformer, FeatureUnion))
    if not (told and by_columns):
        holds_texts = set(told.values()) == {"category"}
        n_columns = getattr(model, "n_features_in_", None)
        return [Input(TABLE, object if holds_texts else dtype, [None, n_columns])]
    lengths = _vectors(transformers[0])
    told |= dict.fromkeys(lengths, "vector")
    told |= {name: kind for name, kind in (kinds or {}).items() if name in told}
    return [_input(name, kind, lengths.get(name, 1), dtype) for name, kind in told.items()]


def _input(name: str, kind: str | None, length: int, dtype: Any) -> Input:
    if kind in ("number", "boolean", "vector"):
        return Input(name, dtype, [None, length], is_column=True)
    if kind in ("category", "text"):
        return Input(name, object, [None, 1], is_column=True)
    raise ValueError(
        f"the model does not tell whether column {name!r} holds numbers or categories; pass "
        f"kinds={{{name!r}: 'number'}} or 'category', got {kind!r}."
    )


def check_transformers(transformers: list[Any]) -> None:
    """Raise TypeError if a step would do something else as ONNX than it does now."""
    parts = list(_parts(transformers))
    for part in parts:
        if isinstance(part, TextFeatures):
            raise TypeError(
                "TextFeatures cannot be written as ONNX, which has neither Unicode normalisation "
                f"nor n-grams of characters; {ALONE}"
            )
        if isinstance(part, DateFeatures):
            raise TypeError(f"DateFeatures cannot be written as ONNX, which has no dates; {ALONE}")
        if isinstance(part, CountVectorizer):
            check_vectorizer(part)
    fills_texts = any(isinstance(p, SimpleImputer) and p.statistics_.dtype == object for p in parts)
    for part in parts:
        if fills_texts and isinstance(part, OneHotEncoder):
            for known in part.categories_:
                if NO_TEXT in known.tolist():
                    raise TypeError(
                        "a OneHotEncoder behind a SimpleImputer of texts has the empty text as a "
                        "category; in ONNX the empty text says that a text is missing."
                    )


def _parts(steps: Any) -> Iterator[Any]:
    """Yield all fitted transformers inside pipelines and column transformers."""
    for step in steps:
        if isinstance(step, Pipeline):
            yield from _parts([part for _, part in step.steps])
        elif isinstance(step, ColumnTransformer):
            yield from _parts([part for _, part, _ in step.transformers_])
        elif isinstance(step, FeatureUnion):
            yield from _parts([part for _, part in step.transformer_list])
        elif isinstance(step, BaseEstimator):
            yield step


def _vectors(step: Any) -> dict[str, int]:
    """Return the columns of vectors by name, and how long these are."""
    return {
        str(part.feature_names_in_[0]): len(part.mean_)
        for part in _parts([step])
        if isinstance(part, VectorFeatures) and hasattr(part, "feature_names_in_")
    }
