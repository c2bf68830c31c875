"""What skl2onnx is told about rankers: their outputs, the shapes of these, and their nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.export._duels import exported_engine, write_duels
from duelrank.export._nodes import Nodes, as_tensor_values
from duelrank.export._rankings import Rankings
from duelrank.rankers import DuelRanker

ALIAS = "DuelrankDuelRanker"


def register() -> None:
    """Tell skl2onnx how rankers are converted; once more does no harm."""
    from skl2onnx import update_registered_converter

    # Options are checked by `to_onnx`; skl2onnx only wants to know their names.
    update_registered_converter(
        DuelRanker, ALIAS, _shapes, _convert, parser=_parse, options={"outputs": None, "k": None}
    )


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs that were asked for, under their names."""
    operator = scope.declare_local_operator(ALIAS, model)
    operator.inputs = inputs
    for name in _options(scope, model)["outputs"]:
        operator.outputs.append(scope.declare_local_variable(name, _type_of(name, model)))
    return operator.outputs


def _shapes(operator: Any) -> None:
    """Types and shapes are known when outputs are declared."""


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the nodes of a ranker."""
    ranker, nodes = operator.raw_operator, Nodes(scope, container)
    options = _options(scope, ranker)
    names = {name: operator.outputs[i].full_name for i, name in enumerate(options["outputs"])}
    features = operator.inputs[0]
    is_double = type(features.type).__name__ == "DoubleTensorType"
    dtype = np.float64 if is_double else np.float32
    engine = exported_engine(ranker.duels_)
    duels = write_duels(nodes, engine, features.full_name, ranker.label_order_, dtype)
    n_classes, k = len(ranker.classes_), options["k"] or 1
    in_full = set(names) - {"label", "top"}
    rankings = Rankings(nodes, ranker, duels, n_classes if in_full else k)
    labels = as_tensor_values(ranker.classes_)[ranker.label_order_]
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


def _options(scope: Any, model: Any) -> dict[str, Any]:
    return scope.get_options(model, {"outputs": ("label", "ranks"), "k": None})


def _type_of(name: str, ranker: DuelRanker) -> Any:
    """Return the type of an output, with its shape."""
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    classes = ranker.classes_
    labels = Int64TensorType if classes.dtype.kind in "iu" else StringTensorType
    if name == "label":
        return labels([None])
    if name == "top":
        return labels([None, None])
    if name == "order":
        return labels([None, len(classes)])
    if name == "ranks":
        return Int64TensorType([None, len(classes)])
    return DoubleTensorType([None, len(classes)])
