"""Steps before a ranker that skl2onnx leaves out, or whose results differ from scikit-learn's.

- `SimpleImputer`: onnxruntime imputes no doubles, and skl2onnx writes no columns that say where
  values were missing.
- `OneHotEncoder`: skl2onnx writes infrequent categories only for columns that come one by one, and
  turns numbers into whole ones.
- `TfidfVectorizer`: skl2onnx counts words, but weighs them in single precision, and logarithms of
  counts differently.

Texts have no value that is missing in ONNX: the empty text stands for it. The converters here are
handed to skl2onnx for one conversion at a time; what it does elsewhere stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from duelrank.export._nodes import Nodes

ML_DOMAIN = "ai.onnx.ml"
NO_TEXT = ""  # stands for a missing text
WORDS = r"(?u)\b\w\w+\b"  # scikit-learn's default
WORDS_OF_ONNX = r"[\pL\pN_][\pL\pN_]+"  # the same in the language of onnxruntime
LOCALE = "C.UTF-8"  # for lower case; it comes with Linux, unlike en_US.UTF-8


def converters(dtype: Any) -> tuple[dict[type, Any], dict[type, Any]]:
    """Return converters and calculators of shapes by class, for features of a type."""
    convert: dict[type, Callable[..., None]] = {
        SimpleImputer: _impute,
        OneHotEncoder: partial(_encode, dtype=dtype),
        TfidfVectorizer: partial(_weigh_words, dtype=dtype),
    }
    shapes: dict[type, Callable[..., None]] = {
        SimpleImputer: _imputed_shape,
        OneHotEncoder: partial(_encoded_shape, dtype=dtype),
        TfidfVectorizer: partial(_words_shape, dtype=dtype),
    }
    return convert, shapes


def tensor_type(dtype: Any) -> Any:
    """Return skl2onnx's class of tensors of a type; numbers are single or double."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    if np.dtype(dtype).kind != "f":
        return StringTensorType
    return DoubleTensorType if np.dtype(dtype) == np.float64 else FloatTensorType


def dtype_of(variable: Any) -> Any:
    """Return the type of the numbers of a variable of skl2onnx; object for texts."""
    name = type(variable.type).__name__
    by_name: dict[str, Any] = {"DoubleTensorType": np.float64, "StringTensorType": object}
    return by_name.get(name, np.float32)


def joined(nodes: Nodes, variables: list[Any]) -> str:
    """Return the columns of several variables as one table."""
    names = [variable.full_name for variable in variables]
    return names[0] if len(names) == 1 else nodes("Concat", *names, axis=1)


def _impute(scope: Any, operator: Any, container: Any) -> None:
    imputer, nodes = operator.raw_operator, Nodes(scope, container)
    values, output = joined(nodes, operator.inputs), operator.outputs[0].full_name
    if dtype_of(operator.inputs[0]) is object:
        missing = nodes("Equal", values, nodes.constant(np.array([NO_TEXT], dtype=object)))
        filled = nodes.constant(imputer.statistics_.astype(object)[np.newaxis])
        nodes("Where", missing, filled, values, output=output)
        return
    dtype = dtype_of(operator.inputs[0])
    if np.isnan(imputer.missing_values):
        missing = nodes("IsNaN", values)
    else:
        missing = nodes("Equal", values, nodes.constant(imputer.missing_values, dtype))
    known = _columns_that_stay(imputer)
    statistics = nodes.constant(imputer.statistics_.astype(float)[np.newaxis], dtype)
    parts = [nodes("Where", missing, statistics, values)]
    if len(known) < len(imputer.statistics_):
        parts = [nodes("Gather", parts[0], nodes.constant(known, np.int64), axis=1)]
    if _indicated(imputer) is not None:
        indicated = nodes.constant(_indicated(imputer), np.int64)
        parts.append(nodes.cast(nodes("Gather", missing, indicated, axis=1), dtype))
    nodes("Concat", *parts, output=output, axis=1)


def _imputed_shape(operator: Any) -> None:
    imputer, dtype = operator.raw_operator, dtype_of(operator.inputs[0])
    if dtype is object and (imputer.add_indicator or imputer.strategy != "constant"):
        raise TypeError(
            "SimpleImputer of texts can be written as ONNX with strategy='constant' and without "
            f"add_indicator; got {imputer!r}."
        )
    n_columns = len(imputer.statistics_)
    if dtype is not object:
        n_columns = len(_columns_that_stay(imputer))
        indicated = _indicated(imputer)
        n_columns += 0 if indicated is None else len(indicated)
    operator.outputs[0].type = tensor_type(dtype)([None, n_columns])


def _columns_that_stay(imputer: Any) -> NDArray[np.intp]:
    """Return the columns that an imputer of numbers does not drop for being empty."""
    everything = np.arange(len(imputer.statistics_))
    if imputer.keep_empty_features:
        return everything
    return everything[~np.isnan(imputer.statistics_.astype(float))]


def _indicated(imputer: Any) -> NDArray[np.intp] | None:
    """Return the columns of which an imputer says where values were missing."""
    return imputer.indicator_.features_ if imputer.add_indicator else None


def _encode(scope: Any, operator: Any, container: Any, dtype: Any) -> None:
    encoder, nodes = operator.raw_operator, Nodes(scope, container)
    places = _places_of_categories(encoder)
    columns = [
        (variable, column)
        for variable in operator.inputs
        for column in range(variable.type.shape[1] or len(places))
    ]
    encoded = []
    for (variable, column), categories, (place, unknown, width) in zip(
        columns, encoder.categories_, places, strict=True
    ):
        values = variable.full_name
        if variable.type.shape[1] != 1:
            values = nodes("Gather", values, nodes.constant([column], np.int64), axis=1)
        look_up = _place_of_text if dtype_of(variable) is object else _place_of_number
        found = look_up(nodes, values, categories, place, unknown, dtype_of(variable))
        hot = nodes("Equal", found, nodes.constant(np.arange(width)[np.newaxis], np.int64))
        encoded.append(nodes.cast(hot, dtype))
    nodes("Concat", *encoded, output=operator.outputs[0].full_name, axis=1)


def _place_of_text(
    nodes: Nodes, values: str, categories: NDArray[Any], place: Any, unknown: int, dtype: Any
) -> str:
    """Look up the columns of texts, (n, 1)."""
    texts = [category if isinstance(category, str) else NO_TEXT for category in categories]
    return nodes(
        "LabelEncoder",
        values,
        domain=ML_DOMAIN,
        keys_strings=texts,
        values_int64s=place.tolist(),
        default_int64=int(unknown),
    )


def _place_of_number(
    nodes: Nodes, values: str, categories: NDArray[Any], place: Any, unknown: int, dtype: Any
) -> str:
    """Look up the columns of numbers, (n, 1)."""
    if any(isinstance(category, str) for category in categories):
        raise TypeError(
            "a OneHotEncoder has categories that are texts, but the model was fitted on columns "
            "without names, which are taken for numbers; fit it on a dataframe."
        )
    known = np.asarray(categories, dtype=float)
    is_it = nodes("Equal", values, nodes.constant(known[np.newaxis], dtype))
    if np.isnan(known).any():
        missing = nodes("And", nodes("IsNaN", values), nodes.constant(np.isnan(known)[np.newaxis]))
        is_it = nodes("Or", is_it, missing)
    offset = nodes.constant(place - unknown, np.int64)
    picked = nodes("Mul", nodes.cast(is_it, np.int64), offset)
    axis = nodes.constant([1], np.int64)
    return nodes(
        "Add", nodes("ReduceSum", picked, axis, keepdims=1), nodes.constant(unknown, np.int64)
    )


def _encoded_shape(operator: Any, dtype: Any) -> None:
    width = sum(width for _, _, width in _places_of_categories(operator.raw_operator))
    operator.outputs[0].type = tensor_type(dtype)([None, width])


def _places_of_categories(encoder: Any) -> list[tuple[NDArray[np.intp], int, int]]:
    """Tell which columns an encoder makes of the categories of every column.

    Returns
    -------
    places : list of tuples
        For every column: the place of every category among the columns that are made of it, −1 if
        it has none; the same of a category that is not known; and how many columns are made.
    """
    rare = getattr(encoder, "infrequent_categories_", None)
    dropped = encoder.drop_idx_
    return [
        _places_in_column(
            known,
            None if rare is None else rare[column],
            None if dropped is None else dropped[column],
            encoder.handle_unknown,
        )
        for column, known in enumerate(encoder.categories_)
    ]


def _places_in_column(
    known: NDArray[Any], rare: NDArray[Any] | None, dropped: int | None, handle_unknown: str
) -> tuple[NDArray[np.intp], int, int]:
    is_rare = np.zeros(len(known), dtype=bool)
    if rare is not None:
        is_rare = np.isin(np.arange(len(known)), [_index(known, category) for category in rare])
    place = np.where(is_rare, np.count_nonzero(~is_rare), np.cumsum(~is_rare) - 1)
    width, unknown = int(place.max()) + 1, -1
    if rare is not None and handle_unknown in ("infrequent_if_exist", "warn"):
        unknown = width - 1  # rare categories share the last column
    if dropped is not None:
        gone, width = int(place[dropped]), width - 1
        place = np.where(place == gone, -1, place - (place > gone))
        unknown = -1 if unknown == gone else unknown - (unknown > gone)
    return place, int(unknown), width


def _index(known: NDArray[Any], category: Any) -> int:
    """Return where a category is; NaN is equal to itself here."""
    return next(
        number
        for number, other in enumerate(known)
        if other is category or other == category or (other != other and category != category)
    )


def _weigh_words(scope: Any, operator: Any, container: Any, dtype: Any) -> None:
    """Write counts by skl2onnx, which are exact, and their weights."""
    from skl2onnx.common.data_types import FloatTensorType

    vectorizer, nodes = operator.raw_operator, Nodes(scope, container)
    counter = CountVectorizer(
        lowercase=vectorizer.lowercase,
        ngram_range=vectorizer.ngram_range,
        binary=vectorizer.binary,
    )
    counter.vocabulary_ = vectorizer.vocabulary_
    counting = scope.declare_local_operator("SklearnCountVectorizer", counter)
    counting.inputs = operator.inputs
    counted = scope.declare_local_variable("counts", FloatTensorType([None, _n_words(vectorizer)]))
    counting.outputs.append(counted)
    values = nodes.cast(counted.full_name, dtype)
    zero, one = nodes.constant(0, dtype), nodes.constant(1, dtype)
    if vectorizer.sublinear_tf:
        at_least_one = nodes("Max", values, one)
        weight = nodes("Add", nodes("Log", at_least_one), one)
        values = nodes("Where", nodes("Greater", values, zero), weight, values)
    if vectorizer.use_idf:
        values = nodes("Mul", values, nodes.constant(vectorizer.idf_, dtype))
    if vectorizer.norm is not None:
        operator_of = {"l1": "ReduceL1", "l2": "ReduceL2"}[vectorizer.norm]
        length = nodes(operator_of, values, nodes.constant([1], np.int64), keepdims=1)
        is_empty = nodes("Equal", length, zero)
        values = nodes("Div", values, nodes("Where", is_empty, one, length))
    nodes("Identity", values, output=operator.outputs[0].full_name)


def _words_shape(operator: Any, dtype: Any) -> None:
    operator.outputs[0].type = tensor_type(dtype)([None, _n_words(operator.raw_operator)])


def _n_words(vectorizer: Any) -> int:
    return max(vectorizer.vocabulary_.values()) + 1


def check_vectorizer(vectorizer: CountVectorizer) -> None:
    """Raise unless ONNX finds the same words in texts as a vectorizer does."""
    name = type(vectorizer).__name__
    for parameter, accepted in (
        ("analyzer", "word"),
        ("token_pattern", WORDS),
        ("tokenizer", None),
        ("preprocessor", None),
        ("strip_accents", None),
    ):
        given = getattr(vectorizer, parameter)
        if given != accepted:
            raise TypeError(
                f"{name} can be written as ONNX with {parameter}={accepted!r} only, got {given!r}; "
                "the ranker behind it can be exported alone, to_onnx(model[-1])."
            )
    if vectorizer.stop_words is not None and vectorizer.ngram_range != (1, 1):
        raise TypeError(
            f"{name} can be written as ONNX with stop_words=None only, if it has n-grams of words; "
            "the ranker behind it can be exported alone, to_onnx(model[-1])."
        )
