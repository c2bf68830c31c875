"""Rankers as ONNX models."""

from duelrank.export._model import to_onnx

__all__ = ["to_onnx"]
