"""Training rows as the logistic engines take them, and their parameters, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._parameters import check_count, check_dtype, check_positive
from duelrank.duels._sides import check_magnitude, check_rows
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._columns import Columns
from duelrank.duels.logistic._extremes import quiet

# Takes the number of steps that there will be, their name, and how many of them were done before.
# Returns what to call after each step.
StartProgress = Callable[[int, str, int], Callable[[], None]]


def no_progress(n_steps: int, name: str, done: int) -> Callable[[], None]:
    """Show no progress."""
    return lambda: None


class TrainingRows(NamedTuple):
    """Rows to learn from.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
        The points.
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks in which equal ones and NaN say nothing.
    weights : ndarray of shape (n,), or None
        Weights of the rows.
    n_classes : int
        Number of labels K.
    columns : ndarray of int, of shape (n_features,), or None
        The columns of the given X that are left, because they have entries; None for all.
    """

    X: Any
    feedback: NDArray[Any]
    weights: Floats | None
    n_classes: int
    columns: NDArray[np.intp] | None = None

    def with_weight(self) -> TrainingRows:
        """Leave out the rows that weigh nothing."""
        if self.weights is None or self.weights.all():
            return self
        return self.only(self.weights > 0)

    def only(self, which: NDArray[Any]) -> TrainingRows:
        """Return some of the rows, by number or mask."""
        weights = None if self.weights is None else self.weights[which]
        return self._replace(X=self.X[which], feedback=self.feedback[which], weights=weights)

    def without_empty_columns(self) -> TrainingRows:
        """Leave out the columns of sparse X that have no entry."""
        if isinstance(self.X, np.ndarray):
            return self
        n_features = self.X.shape[1]
        used = np.unique(self.X.indices)
        if len(used) in (0, n_features):
            return self
        return self._replace(X=Columns(used, n_features).of(self.X), columns=used.astype(np.intp))

    @classmethod
    def concatenated(cls, parts: list[TrainingRows]) -> TrainingRows:
        """Put rows together, all of them with weights or none."""
        weights = [part.weights for part in parts if part.weights is not None]
        return cls(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.feedback for part in parts]),
            np.concatenate(weights) if weights else None,
            parts[0].n_classes,
        )


class Settings(NamedTuple):
    """The parameters that matter to the solver of a logistic engine; class weights by code."""

    C: float
    fit_intercept: bool
    class_weight: Any
    tol: float
    max_iter: int
    working_memory: float
    checkpoint: Any = None
    checkpoint_every: int = 5


def check_settings(engine: Any) -> None:
    """Check the parameters that all logistic engines share."""
    check_positive("tol", engine.tol)
    check_positive("working_memory", engine.working_memory)
    check_count("max_iter", engine.max_iter)
    weights = engine.class_weight
    if not (weights is None or weights == "balanced" or isinstance(weights, dict)):
        raise ValueError(f"class_weight must be None, 'balanced' or a dictionary, got {weights!r}.")
    if isinstance(weights, dict):
        for weight in weights.values():
            check_positive("class_weight", weight)
    check_dtype(engine.dtype)


def check_training_rows(
    engine: Any, X: Any, feedback: Any, n_classes: int, sample_weight: Any
) -> TrainingRows:
    """Validate the arguments of a fit: rows, dense or sparse, their feedback, and weights if any.

    Rows that weigh nothing are still there.
    """
    dtype = (np.float64, np.float32) if engine.dtype is None else np.dtype(engine.dtype)
    with quiet():  # what overflows is refused
        rows = check_rows(
            engine, X, feedback, n_classes, sample_weight, accept_sparse="csr", dtype=dtype
        )
    weights = None if sample_weight is None else rows.weights
    X = rows.X
    if not (isinstance(X, np.ndarray) or X.has_canonical_format):
        X = X.copy()
        X.sum_duplicates()
    check_magnitude(X)
    return TrainingRows(X, rows.feedback, weights, n_classes)
