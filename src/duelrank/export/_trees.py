"""The trees of a forest: in which leaves points are, and sums over these leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.export._nodes import Nodes, onnx_type

ML_DOMAIN = "ai.onnx.ml"


def write_leaves(nodes: Nodes, trees: list[Any], rows: list[NDArray[np.intp]], points: str) -> str:
    """Write trees that answer with the number of a point's leaf.

    Parameters
    ----------
    nodes : Nodes
        Where to write.
    trees : list of Tree
        Trees of scikit-learn.
    rows : list of ndarrays of int
        Of every tree, the numbers of its nodes that are leaves.
    points : str
        The points in single precision, which is what trees of scikit-learn look at.

    Returns
    -------
    leaves : str
        The numbers of the leaves, (n, number of trees).
    """
    counts = [tree.node_count for tree in trees]
    is_leaf = np.concatenate([tree.children_left < 0 for tree in trees])
    tree_of = np.repeat(np.arange(len(trees)), counts)
    node_of = np.concatenate([np.arange(count) for count in counts])
    left, right, feature, threshold = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("children_left", "children_right", "feature", "threshold")
    )
    inner = ~is_leaf
    # One target for every tree: what its leaf says is a number that nothing is added to.
    numbers = nodes(
        "TreeEnsembleRegressor",
        points,
        domain=ML_DOMAIN,
        n_targets=len(trees),
        nodes_treeids=tree_of.tolist(),
        nodes_nodeids=node_of.tolist(),
        nodes_featureids=np.where(inner, feature, 0).tolist(),
        nodes_modes=np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        nodes_values=np.where(inner, rounded_down(threshold, np.float32), 0).tolist(),
        nodes_truenodeids=np.where(inner, left, 0).tolist(),
        nodes_falsenodeids=np.where(inner, right, 0).tolist(),
        target_treeids=tree_of[is_leaf].tolist(),
        target_nodeids=node_of[is_leaf].tolist(),
        target_ids=tree_of[is_leaf].tolist(),
        target_weights=np.concatenate(rows)[is_leaf].astype(float).tolist(),
    )
    return nodes.cast(numbers, np.int64)


def write_sums(nodes: Nodes, table: NDArray[np.float32], leaves: str) -> str:
    """Write the sums of the rows of a table, (N, P), over the leaves of points, (n, P).

    They are added up tree by tree in single precision, as `ForestDuels` does.
    """
    from onnx import helper

    values, width = nodes.constant(table), table.shape[1]
    n_points = nodes("Shape", leaves, start=0, end=1)
    shape = nodes("Concat", n_points, nodes.constant([width], np.int64), axis=0)
    nothing = nodes("Expand", nodes.constant(np.zeros((1, 1), dtype=np.float32)), shape)
    so_far, leaf, rows, after = (nodes.name(of) for of in ("so_far", "leaf", "rows", "after"))
    body = helper.make_graph(
        [
            helper.make_node("Gather", [values, leaf], [rows], axis=0),
            helper.make_node("Add", [so_far, rows], [after]),
        ],
        "one_tree",
        [
            helper.make_tensor_value_info(so_far, onnx_type(np.float32), [None, width]),
            helper.make_tensor_value_info(leaf, onnx_type(np.int64), [None]),
        ],
        [helper.make_tensor_value_info(after, onnx_type(np.float32), [None, width])],
    )
    return nodes("Scan", nothing, leaves, body=body, num_scan_inputs=1, scan_input_axes=[1])


def rounded_down(thresholds: NDArray[np.float64], dtype: Any) -> NDArray[Any]:
    """Round to a type without going up, so that numbers of this type compare as before."""
    rounded = thresholds.astype(dtype)
    too_high = rounded.astype(np.float64) > thresholds
    return np.where(too_high, np.nextafter(rounded, dtype(-np.inf)), rounded)
