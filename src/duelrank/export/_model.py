"""to_onnx: a fitted ranker or pipeline as one ONNX model."""

from __future__ import annotations

from typing import Any

from duelrank.export._converter import register
from duelrank.export._nodes import ML_OPSET, OPSET


def to_onnx(
    model: Any,
    *,
    outputs: Any = ("label", "ranks"),
    k: int | None = None,
    dtype: str = "float32",
) -> Any:
    """Write a fitted ranker as an ONNX model.

    Parameters
    ----------
    model : fitted DuelRanker or Pipeline
        The ranker.
    """
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    register()
    ranker = model[-1] if hasattr(model, "steps") else model
    tensor = {"float32": FloatTensorType, "float64": DoubleTensorType}[dtype]
    return convert_sklearn(
        model,
        initial_types=[("X", tensor([None, model.n_features_in_]))],
        options={id(ranker): {"outputs": tuple(outputs), "k": k}},
        target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
    )
