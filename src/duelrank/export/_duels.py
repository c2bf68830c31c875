"""From features to the margins of all duels, engine by engine.

The result is a *square* for every point, (n, K, K): entry [i, a, b] is positive if a wins its duel
with b. Labels are numbered by the ranker's `label_order_`, so that the lower number is the favoured
label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import duels_by_labels, n_pairs
from duelrank.duels import (
    AnchoredDuels,
    AnchoredDuelsCV,
    AutoDuels,
    ForestDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StumpDuels,
)
from duelrank.export._nodes import Nodes
from duelrank.export._trees import rounded_down, write_leaves, write_sums


class Squares(NamedTuple):
    """The duels of points.

    Attributes
    ----------
    margins : str
        Positive where a label wins; antisymmetric, (n, K, K).
    dtype : dtype
        Type of the margins.
    evidence : str
        The probability to win minus one half, in double precision, (n, K, K).
    """

    margins: str
    dtype: Any
    evidence: str


def exported_engine(engine: Any) -> Any:
    """Return the engine that an engine asks, if it is one that can be exported.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if type(engine) is AutoDuels:
        return exported_engine(engine.engine_)
    if type(engine) not in _WRITERS:
        known = ", ".join(kind.__name__ for kind in _WRITERS)
        raise TypeError(
            f"{type(engine).__name__} cannot be written as ONNX; engines that can are {known}, and "
            "AutoDuels if it has chosen one of these."
        )
    return engine


def n_numbers(engine: Any, n_classes: int) -> int:
    """Return how many numbers an exported engine holds, but for the small arrays."""
    n_duels, n_square = n_pairs(n_classes), n_classes**2
    if isinstance(engine, ForestDuels):
        return n_square + n_duels * sum(t.tree_.n_leaves for t in engine.forest_.estimators_)
    if isinstance(engine, StumpDuels):
        return n_square
    if isinstance(engine, (AnchoredDuels, AnchoredDuelsCV)):
        n_duels = n_classes + len(engine.corrected_duels_)
    return n_square + n_duels * int(engine.n_features_in_)


def write_duels(
    nodes: Nodes, engine: Any, features: str, label_order: NDArray[np.intp], dtype: Any
) -> Squares:
    """Write the duels of an engine.

    Parameters
    ----------
    nodes : Nodes
        Where to write.
    engine : fitted engine
        As from `exported_engine`.
    features : str
        The points, (n, n_features), of the type `dtype`.
    label_order : ndarray of int, of shape (K,)
        Codes, favoured label first.
    dtype : dtype
        float32 or float64.
    """
    return _WRITERS[type(engine)](nodes, engine, features, label_order, dtype)


def _write_logistic(
    nodes: Nodes, engine: Any, features: str, label_order: NDArray[np.intp], dtype: Any
) -> Squares:
    """Write one product for all duels."""
    engine = engine.without_training_rows()
    coef, intercept = (nodes.constant(of, dtype) for of in (engine.coef_, engine.intercept_))
    margins = nodes("Gemm", features, coef, intercept, transB=1)
    square = _square(nodes, margins, label_order, dtype)
    return Squares(square, dtype, _from_log_odds(nodes, square))


def _write_anchored(
    nodes: Nodes, engine: Any, features: str, label_order: NDArray[np.intp], dtype: Any
) -> Squares:
    """Write differences of scores, and one product for the corrected duels."""
    coef = nodes.constant(engine.score_coef_[label_order], dtype)
    intercept = nodes.constant(engine.score_intercept_[label_order], dtype)
    scores = nodes("Gemm", features, coef, intercept, transB=1)
    square = nodes("Sub", nodes.unsqueeze(scores, 2), nodes.unsqueeze(scores, 1))
    duels = engine.corrected_duels_
    if len(duels):
        # One correction more, of zero, for the duels that have none.
        own_coef = np.zeros((len(duels) + 1, engine.n_features_in_), dtype=dtype)
        own_coef[:-1] = _dense(engine.own_coef_)
        own_intercept = np.append(engine.own_intercept_, 0)
        constants = nodes.constant(own_coef), nodes.constant(own_intercept, dtype)
        corrections = nodes("Gemm", features, *constants, transB=1)
        duel_of, speaks_for = _numbered(label_order)
        place = np.searchsorted(duels, duel_of)
        known = np.append(duels, -1)[place] == duel_of
        known &= speaks_for != 0
        place = np.where(known, place, len(duels))
        gathered = nodes("Gather", corrections, nodes.constant(place, np.int32), axis=1)
        signed = nodes("Mul", gathered, nodes.constant(speaks_for, dtype))
        square = nodes("Add", square, signed)
    return Squares(square, dtype, _from_log_odds(nodes, square))


def _write_stumps(
    nodes: Nodes, engine: Any, features: str, label_order: NDArray[np.intp], dtype: Any
) -> Squares:
    """Write one comparison for every duel."""
    values = nodes("Gather", features, nodes.constant(engine.feature_, np.int64), axis=1)
    threshold = nodes.constant(rounded_down(engine.threshold_, dtype))
    above = nodes("Greater", values, threshold)
    sign = engine.sign_.astype(dtype)
    margins = nodes("Where", above, nodes.constant(sign), nodes.constant(-sign))
    low, high = (nodes.constant(shares - 0.5) for shares in engine.leaf_probabilities_.T)
    evidence = nodes("Where", above, high, low)
    return Squares(
        _square(nodes, margins, label_order, dtype),
        dtype,
        _square(nodes, evidence, label_order, np.float64),
    )


def _write_forest(
    nodes: Nodes, engine: Any, features: str, label_order: NDArray[np.intp], dtype: Any
) -> Squares:
    """Write the trees, and the probabilities of all duels in their leaves."""
    trees = [tree.tree_ for tree in engine.forest_.estimators_]
    table, rows = engine.leaf_probabilities()
    leaves = write_leaves(nodes, trees, rows, nodes.cast(features, np.float32))
    total = nodes.cast(write_sums(nodes, table, leaves), np.float64)
    mean = nodes("Div", total, nodes.constant(len(trees), np.float64))
    evidence = nodes("Sub", mean, nodes.constant(0.5, np.float64))
    square = _square(nodes, evidence, label_order, np.float64)
    return Squares(square, np.float64, square)


def _dense(coef: Any) -> NDArray[Any]:
    return coef if isinstance(coef, np.ndarray) else np.asarray(coef.toarray())


def _numbered(label_order: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the duel of two labels, and 1 if its values speak for the first of them, else −1."""
    duel_of, speaks_for = duels_by_labels(len(label_order))
    drawn = np.ix_(label_order, label_order)
    return duel_of[drawn], speaks_for[drawn]


def _square(nodes: Nodes, values: str, label_order: NDArray[np.intp], dtype: Any) -> str:
    """Write values of the duels, (n, P), as antisymmetric squares."""
    duel_of, speaks_for = _numbered(label_order)
    gathered = nodes("Gather", values, nodes.constant(duel_of, np.int32), axis=1)
    return nodes("Mul", gathered, nodes.constant(speaks_for, dtype))


def _from_log_odds(nodes: Nodes, square: str) -> str:
    chances = nodes("Sigmoid", nodes.cast(square, np.float64))
    return nodes("Sub", chances, nodes.constant(0.5, np.float64))


_WRITERS: dict[type, Callable[..., Squares]] = {
    LogisticDuels: _write_logistic,
    LogisticDuelsCV: _write_logistic,
    AnchoredDuels: _write_anchored,
    AnchoredDuelsCV: _write_anchored,
    StumpDuels: _write_stumps,
    ForestDuels: _write_forest,
}
