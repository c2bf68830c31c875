"""What skl2onnx is told about our classes: their outputs, the shapes of these, and their nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from duelrank.export._duels import exported_engine, write_duels
from duelrank.export._nodes import Nodes
from duelrank.export._preprocessing import dtype_of, joined, tensor_type
from duelrank.export._rankings import Rankings
from duelrank.export._shortlists import Lists, write_shortlist
from duelrank.preprocessing import VectorFeatures
from duelrank.rankers import DuelRanker

RANKER, VECTORS = "DuelrankDuelRanker", "DuelrankVectorFeatures"


class Request(NamedTuple):
    """What is wanted of a ranker.

    Attributes
    ----------
    outputs : tuple of str
        Names of outputs.
    k : int or None
        How many labels the output "top" has.
    dtype : dtype
        Precision of the features.
    lists : Lists or None
        How the output "shortlist" is made.
    """

    outputs: tuple[str, ...] = ("label", "ranks")
    k: int | None = None
    dtype: Any = np.float32
    lists: Lists | None = None


def register() -> None:
    """Tell skl2onnx how our classes are converted; once more does no harm."""
    from skl2onnx import update_registered_converter

    update_registered_converter(
        DuelRanker, RANKER, _shapes, _convert, parser=_parse, options={"request": None}
    )
    update_registered_converter(VectorFeatures, VECTORS, _vector_shape, _convert_vectors)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs that are wanted, under their names."""
    operator = scope.declare_local_operator(RANKER, model)
    operator.inputs = inputs
    for name in _request(scope, model).outputs:
        operator.outputs.append(scope.declare_local_variable(name, _type_of(name, model)))
    return operator.outputs


def _shapes(operator: Any) -> None:
    """Types and shapes are known when outputs are declared."""


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the nodes of a ranker."""
    ranker, nodes = operator.raw_operator, Nodes(scope, container)
    request = _request(scope, ranker)
    names = {name: operator.outputs[i].full_name for i, name in enumerate(request.outputs)}
    features = nodes.cast(joined(nodes, operator.inputs), request.dtype)
    engine = exported_engine(ranker.duels_)
    duels = write_duels(nodes, engine, features, ranker.label_order_, request.dtype)
    n_classes, k = len(ranker.classes_), request.k or 1
    in_full = set(names) - {"label", "top"}
    rankings = Rankings(nodes, ranker, duels, n_classes if in_full else k)
    labels = _as_tensor(ranker.classes_)[ranker.label_order_]
    for name, output in names.items():
        if name == "label":
            first = rankings.labels(labels, 1, nodes.name("first"))
            nodes("Squeeze", first, nodes.constant([1], np.int64), output=output)
        elif name == "top":
            rankings.labels(labels, k, output)
        elif name == "order":
            rankings.labels(labels, n_classes, output)
        elif name == "ranks":
            nodes("Add", rankings.places, nodes.constant(1, np.int64), output=output)
        elif name == "scores":
            nodes("Identity", rankings.scores, output=output)
        elif name == "probabilities":
            nodes("Identity", rankings.probabilities, output=output)
        elif name == "shortlist":
            assert request.lists is not None
            write_shortlist(rankings, request.lists, output)


def _request(scope: Any, model: Any) -> Request:
    request: Request = scope.get_options(model, {"request": Request()})["request"]
    return request


def _type_of(name: str, ranker: DuelRanker) -> Any:
    """Return the type of an output, with its shape."""
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        Int64TensorType,
        StringTensorType,
    )

    n_classes, is_number = len(ranker.classes_), ranker.classes_.dtype.kind in "iu"
    if name in ("label", "top", "order"):
        shape = {"label": [None], "top": [None, None], "order": [None, n_classes]}[name]
        return (Int64TensorType if is_number else StringTensorType)(shape)
    tensor = {"ranks": Int64TensorType, "shortlist": BooleanTensorType}.get(name, DoubleTensorType)
    return tensor([None, n_classes])


def _as_tensor(labels: Any) -> Any:
    """Return labels as ONNX holds them: whole numbers, or texts."""
    return labels.astype(np.int64 if labels.dtype.kind in "iu" else object)


def _convert_vectors(scope: Any, operator: Any, container: Any) -> None:
    """Write the scaling of vectors; a row of NaN stands for a missing one."""
    vectors, nodes = operator.raw_operator, Nodes(scope, container)
    values, dtype = operator.inputs[0].full_name, dtype_of(operator.inputs[0])
    mean = nodes.constant(vectors.mean_[np.newaxis], dtype)
    filled = nodes("Where", nodes("IsNaN", values), mean, values)
    scale = nodes.constant(vectors.scale_, dtype)
    nodes("Div", filled, scale, output=operator.outputs[0].full_name)


def _vector_shape(operator: Any) -> None:
    length = len(operator.raw_operator.mean_)
    operator.outputs[0].type = tensor_type(dtype_of(operator.inputs[0]))([None, length])
