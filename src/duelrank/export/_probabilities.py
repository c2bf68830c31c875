"""Posteriors from the probabilities of duels, as `duelrank.tournaments` couples them.

The systems of Wu, Lin & Weng (2004) are solved by elimination, in a loop over the labels; numbers
along a ranking are made to decrease by loops over its places. So the number of nodes does not
depend on the number of labels. Everything is in double precision.
"""

from __future__ import annotations

import numpy as np

from duelrank.export._nodes import Nodes, onnx_type

MIXED_IN = 1e-9  # of a distribution that decreases along the ranking


def write_posteriors(nodes: Nodes, evidence: str, n_classes: int) -> str:
    """Write the coupling of duel probabilities.

    With r[a, b] = 1/2 + evidence[a, b], Q[a, a] = Σ_b r[b, a]² and Q[a, b] = −r[b, a] r[a, b], the
    posterior p solves Q p = −λ 1 and Σ p = 1. So it is a multiple of the solution of
    (Q + 1 1ᵀ) x = 1. That matrix is positive definite, and elimination needs no pivoting.

    Parameters
    ----------
    nodes : Nodes
        Where to write.
    evidence : str
        Probabilities minus one half, (n, K, K), with zeros on the diagonal.
    n_classes : int
        Number of labels K.

    Returns
    -------
    posteriors : str
        (n, K), each row sums to 1.
    """
    half, one = nodes.constant(0.5, np.float64), nodes.constant(1, np.float64)
    loses = nodes("Sub", half, evidence)
    product = nodes("Mul", loses, nodes("Add", half, evidence))
    squares = nodes.total(nodes("Mul", loses, loses), axis=2)
    on_diagonal = nodes("Mul", nodes.constant(np.eye(n_classes)), nodes.unsqueeze(squares, 2))
    # The diagonal of the product is 1/4, and so is that of the squares.
    system = nodes("Add", nodes("Sub", one, product), on_diagonal)
    ones = nodes("Add", nodes("Mul", squares, nodes.constant(0, np.float64)), one)
    system = nodes("Concat", system, nodes.unsqueeze(ones, 2), axis=2)
    solved = _eliminated(nodes, system, n_classes)
    solution = nodes("Gather", solved, nodes.constant(n_classes, np.int64), axis=2)
    positive = nodes("Max", solution, nodes.constant(0, np.float64))
    return nodes("Div", positive, nodes.unsqueeze(nodes.total(positive, axis=1), 1))


def write_projection(nodes: Nodes, along: str, n_classes: int) -> str:
    """Write the closest numbers that decrease strictly along the ranking.

    Parameters
    ----------
    nodes : Nodes
        Where to write.
    along : str
        Posteriors in the order of the ranking, (n, K).
    n_classes : int
        Number of labels K.

    Returns
    -------
    projected : str
        (n, K); rows that decrease stay as they are.
    """
    behind, before = nodes.columns(along, 1, n_classes), nodes.columns(along, 0, n_classes - 1)
    wrong = nodes.cast(nodes("GreaterOrEqual", behind, before), np.float32)
    n_wrong = nodes.unsqueeze(nodes.total(wrong, axis=1), 1)
    disagrees = nodes("Greater", n_wrong, nodes.constant(0, np.float32))
    slope = np.arange(n_classes, 0, -1) / (n_classes * (n_classes + 1) / 2)
    fitted = nodes("Mul", _non_increasing(nodes, along, n_classes), nodes.constant(1 - MIXED_IN))
    fitted = nodes("Add", fitted, nodes.constant(MIXED_IN * slope))
    return nodes("Where", disagrees, fitted, along)


def _non_increasing(nodes: Nodes, values: str, n_classes: int) -> str:
    """Fit non-increasing rows by least squares: fit[r] = min_{s ≤ r} max_{t ≥ r} mean(s..t)."""
    place = np.arange(n_classes)
    lengths = place + 1 - place[:, np.newaxis]
    sums = nodes("CumSum", values, nodes.constant(1, np.int64))
    before = nodes("Sub", sums, values)  # without the own value
    difference = nodes("Sub", nodes.unsqueeze(sums, 1), nodes.unsqueeze(before, 2))
    means = nodes("Div", difference, nodes.constant(np.maximum(lengths, 1), np.float64))
    backwards, nothing = nodes.constant(lengths <= 0), nodes.constant(-np.inf)
    means = nodes("Where", backwards, nothing, means)
    best_end = nodes.running("Max", means, axis=2, backwards=True)
    best_end = nodes("Where", backwards, nodes.constant(np.inf), best_end)
    least = nodes("ReduceMin", best_end, nodes.constant([1], np.int64), keepdims=0)
    # Rounding in the sums may leave steps of the wrong sign; they are flattened.
    return nodes.running("Min", least, axis=1)


def _eliminated(nodes: Nodes, system: str, n_classes: int) -> str:
    """Write Gauss-Jordan elimination of (n, K, K + 1) systems, one label a round."""
    from onnx import helper

    double, integer, boolean = (onnx_type(dtype) for dtype in (np.float64, np.int64, np.bool_))
    labels = nodes.constant(np.arange(n_classes)[:, np.newaxis])
    axis_1, axis_2 = nodes.constant([1], np.int64), nodes.constant([2], np.int64)
    names = "label go_on before row column pivot scaled other product reduced own after going"
    name = {of: nodes.name(of) for of in names.split()}
    shape = [None, n_classes, n_classes + 1]
    steps = [
        ("Gather", ["before", "label"], "row", {"axis": 1}),
        ("Gather", ["before", "label"], "column", {"axis": 2}),
        ("Gather", ["row", "label"], "pivot", {"axis": 1}),
        ("Unsqueeze", ["pivot", axis_1], "pivots", {}),
        ("Div", ["row", "pivots"], "scaled", {}),
        ("Unsqueeze", ["column", axis_2], "columns", {}),
        ("Unsqueeze", ["scaled", axis_1], "rows", {}),
        ("Mul", ["columns", "rows"], "product", {}),
        ("Sub", ["before", "product"], "reduced", {}),
        ("Equal", [labels, "label"], "own", {}),
        ("Where", ["own", "rows", "reduced"], "after", {}),
        ("Identity", ["go_on"], "going", {}),
    ]
    for _, _, output, _ in steps:
        name.setdefault(output, nodes.name(output))
    body = helper.make_graph(
        [
            helper.make_node(operator, [name.get(i, i) for i in inputs], [name[output]], **more)
            for operator, inputs, output, more in steps
        ],
        "one_label",
        [
            helper.make_tensor_value_info(name["label"], integer, []),
            helper.make_tensor_value_info(name["go_on"], boolean, []),
            helper.make_tensor_value_info(name["before"], double, shape),
        ],
        [
            helper.make_tensor_value_info(name["going"], boolean, []),
            helper.make_tensor_value_info(name["after"], double, shape),
        ],
    )
    rounds, go_on = nodes.constant(n_classes, np.int64), nodes.constant(np.True_)
    return nodes("Loop", rounds, go_on, system, body=body)
