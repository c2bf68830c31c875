"""Writing the nodes and the constants of an ONNX graph into what skl2onnx collects."""

from __future__ import annotations

from typing import Any

import numpy as np

OPSET = 19  # of the operators that graphs are written in
ML_OPSET = 3  # of those for trees


class Nodes:
    """The nodes of one converted estimator.

    Calling it writes a node and returns the name of its result. All names are made unique.

    Parameters
    ----------
    scope : skl2onnx scope
        Makes names unique.
    container : skl2onnx container
        Collects nodes and constants.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container
        # skl2onnx declares the newest operator that it has seen, and does not look into loops.
        container.node_domain_version_pair_sets.add(("", OPSET))

    def __call__(self, operator: str, *inputs: str, output: str | None = None, **more: Any) -> str:
        """Write a node with one result; `output` names a result that others wait for."""
        return self.several(operator, 1, *inputs, outputs=[output] if output else None, **more)[0]

    def several(
        self,
        operator: str,
        n_outputs: int,
        *inputs: str,
        outputs: list[str] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Write a node with several results, and return their names."""
        if outputs is None:
            outputs = [self.name(operator) for _ in range(n_outputs)]
        self._container.add_node(
            operator,
            list(inputs),
            outputs,
            op_domain=domain,
            op_version=ML_OPSET if domain else OPSET,
            name=self._scope.get_unique_operator_name(f"duelrank_{operator}"),
            **attributes,
        )
        return outputs

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Write an array down, and return its name."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        name = self.name("constant")
        # Not by `add_initializer`, which holds two more copies of every array.
        self._container.initializers.append(numpy_helper.from_array(array, name))
        return name

    def name(self, of: str) -> str:
        """Return a name that nothing else has."""
        return str(self._scope.get_unique_variable_name(f"duelrank_{of}"))

    def cast(self, values: str, dtype: Any, output: str | None = None) -> str:
        """Convert numbers."""
        return self("Cast", values, output=output, to=onnx_type(dtype))

    def unsqueeze(self, values: str, axis: int) -> str:
        """Insert an axis of length 1."""
        return self("Unsqueeze", values, self.constant([axis], np.int64))

    def columns(self, values: str, start: int, stop: int) -> str:
        """Take columns of a table."""
        bounds = (self.constant([bound], np.int64) for bound in (start, stop, 1))
        return self("Slice", values, *bounds)

    def running(self, operator: str, values: str, axis: int, backwards: bool = False) -> str:
        """Write the running maximum (Max) or minimum (Min) of doubles along the last axis."""
        from onnx import helper

        double = onnx_type(np.float64)
        before, value, after, out = (self.name(of) for of in ("before", "value", "after", "out"))
        shape = [None] * axis
        body = helper.make_graph(
            [
                helper.make_node(operator, [before, value], [after]),
                helper.make_node("Identity", [after], [out]),
            ],
            f"running_{operator}",
            [helper.make_tensor_value_info(name, double, shape) for name in (before, value)],
            [helper.make_tensor_value_info(name, double, shape) for name in (after, out)],
        )
        start = self("Gather", values, self.constant(-1 if backwards else 0, np.int64), axis=axis)
        found = self.several(
            "Scan",
            2,
            start,
            values,
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[axis],
            scan_output_axes=[axis],
            scan_input_directions=[int(backwards)],
            scan_output_directions=[int(backwards)],
        )
        return found[1]

    def total(self, values: str, axis: int) -> str:
        """Sum along an axis, which is dropped."""
        return self("ReduceSum", values, self.constant([axis], np.int64), keepdims=0)


def onnx_type(dtype: Any) -> int:
    """Return ONNX's number of a type."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
