"""Estimators inside competitors: checked, cloned, seeded, and given their points and weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from duelrank._parameters import ParametersInside
from duelrank._sklearn import as_indexable, is_parameter, weight_argument
from duelrank.competitors._competitor import Competitor


class CompetitorOverEstimator(ParametersInside, Competitor):
    """Parent of the competitors with an estimator inside, which gets the points as they came.

    Children have `_inner`, the estimator that is cloned.
    """

    estimator: Any

    def _inner(self) -> Any:
        raise NotImplementedError

    def _default_estimator(self) -> str:
        return repr(self._inner())

    def _as_points(self, X: Any) -> Any:
        return as_indexable(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(TypeError, AttributeError):  # fit will say what is wrong with the estimator
            tags.input_tags = get_tags(self._inner()).input_tags
        return tags


def seeded_clones(
    estimator: Any, n_clones: int, rng: np.random.RandomState, is_kind: Callable[[Any], bool]
) -> list[Any]:
    """Clone an estimator of the right kind; what it leaves without a seed gets one from `rng`."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and is_kind(estimator)):
        kind = is_kind.__name__.removeprefix("is_")
        raise TypeError(f"estimator must be an instance of a {kind}, got {estimator!r}.")
    unseeded = [
        name
        for name, value in sorted(estimator.get_params().items())
        if is_parameter(name, "random_state") and value is None
    ]
    clones = [clone(estimator) for _ in range(n_clones)]
    for copy in clones:
        copy.set_params(**{name: rng.randint(np.iinfo(np.int32).max) for name in unseeded})
    return clones


def fit_weights(
    estimator: Any, weights: NDArray[np.float64] | None
) -> dict[str, NDArray[np.float64]]:
    """Return the weights as an argument of an estimator's fit; no argument if there are none."""
    return {} if weights is None else {weight_argument(estimator): weights}
