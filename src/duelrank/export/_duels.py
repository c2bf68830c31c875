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

from duelrank._pairs import duels_by_labels
from duelrank.duels import LogisticDuels, LogisticDuelsCV
from duelrank.export._nodes import Nodes


class Squares(NamedTuple):
    """The duels of points.

    Attributes
    ----------
    margins : str
        Positive where a label wins; antisymmetric, (n, K, K).
    evidence : str
        The probability to win minus one half, in double precision, (n, K, K).
    dtype : dtype
        Type of the margins.
    """

    margins: str
    evidence: str
    dtype: Any


def write_duels(
    nodes: Nodes, engine: Any, features: str, label_order: NDArray[np.intp], dtype: Any
) -> Squares:
    """Write the duels of an engine.

    Parameters
    ----------
    nodes : Nodes
        Where to write.
    engine : fitted engine
        One that `is_exportable`.
    features : str
        The points, (n, n_features), of the type `dtype`.
    label_order : ndarray of int, of shape (K,)
        Codes, favoured label first.
    dtype : dtype
        Precision of margins.
    """
    return WRITERS[type(engine)](nodes, engine, features, label_order, dtype)


def _write_logistic(
    nodes: Nodes, engine: Any, features: str, label_order: NDArray[np.intp], dtype: Any
) -> Squares:
    """One product for all duels."""
    engine = engine.without_training_rows()
    coef, intercept = (nodes.constant(of, dtype) for of in (engine.coef_, engine.intercept_))
    margins = nodes("Gemm", features, coef, intercept, transB=1)
    square = _square(nodes, margins, label_order, dtype)
    return Squares(square, _log_odds_as_evidence(nodes, square), dtype)


def _square(nodes: Nodes, values: str, label_order: NDArray[np.intp], dtype: Any) -> str:
    """Write values of the duels, (n, P), as antisymmetric squares."""
    duel_of, speaks_for = duels_by_labels(len(label_order))
    drawn = np.ix_(label_order, label_order)
    gathered = nodes("Gather", values, nodes.constant(duel_of[drawn], np.int32), axis=1)
    return nodes("Mul", gathered, nodes.constant(speaks_for[drawn], dtype))


def _log_odds_as_evidence(nodes: Nodes, square: str) -> str:
    chances = nodes("Sigmoid", nodes.cast(square, np.float64))
    return nodes("Sub", chances, nodes.constant(0.5, np.float64))


WRITERS: dict[type, Callable[..., Squares]] = {
    LogisticDuels: _write_logistic,
    LogisticDuelsCV: _write_logistic,
}
