"""What is private in scikit-learn, or differs between its versions. No other module uses it.

Supported: scikit-learn 1.6 and newer. The callback mechanism exists from 1.9 on; before that
`CallbackSupportMixin` is empty and `with_callbacks` does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model._base import LinearClassifierMixin as LinearClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils import get_tags
from sklearn.utils._metadata_requests import _MetadataRequester as MetadataRequester
from sklearn.utils._metadata_requests import _raise_for_params, _routing_enabled
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.metaestimators import _BaseComposition as Composition
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    has_fit_parameter,
)
from sklearn.utils.validation import _check_method_params as take_metadata_rows

__all__ = [
    "CallbackSupportMixin",
    "Composition",
    "LinearClassifier",
    "MetadataRequester",
    "as_indexable",
    "bootstrap_weights",
    "check_feature_names",
    "check_sample_weight",
    "columns_of",
    "fit_context",
    "fit_of_subestimator",
    "has_wrapped_fit",
    "input_tags_of",
    "is_parameter",
    "predictor_inside",
    "route_fit_metadata",
    "routing_enabled",
    "take_metadata_rows",
    "take_rows",
    "transformers_inside",
    "unwrap",
    "weight_argument",
    "with_callbacks",
]

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Method) -> Method:
        """Return the method as it is."""
        return method


def has_wrapped_fit(estimator: Any) -> bool:
    """Tell whether there is one more call between an estimator's user and its fit."""
    return hasattr(type(estimator), "_init_callback_context")


def fit_context(estimator: Any, n_steps: int) -> Any:
    """Open the callback context of an estimator's fit; None where there are no callbacks."""
    if not hasattr(estimator, "_init_callback_context"):
        return None
    context = estimator._init_callback_context(max_subtasks=n_steps)
    context.call_on_fit_task_begin(estimator=estimator)
    return context


@contextmanager
def fit_of_subestimator(estimator: Any, inner: Any, task_name: str) -> Iterator[None]:
    """Fit one estimator as the only task of another one's fit, and report it to the callbacks."""
    context = fit_context(estimator, 1)
    if context is None:
        yield
        return
    task = context.subcontext(task_name=task_name)
    takes_callbacks = hasattr(inner, "set_callbacks")
    with task.propagate_callback_context(inner) if takes_callbacks else nullcontext():
        task.call_on_fit_task_begin(estimator=estimator)
        yield
        task.call_on_fit_task_end(estimator=estimator)
    context.call_on_fit_task_end(estimator=estimator)


routing_enabled: Callable[[], bool] = _routing_enabled


def as_indexable(X: Any) -> Any:
    """Return X in a form whose rows can be taken; arrays and dataframes stay as they are."""
    if sparse.issparse(X):
        return X.tocsr()  # type: ignore[attr-defined]
    if X is None or isinstance(X, (str, bytes)):
        raise ValueError(f"X must hold one row per point, got {X!r}.")
    if hasattr(X, "shape"):
        return X
    # In an array of strings, every text would take the memory of the longest.
    is_text = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], str)
    return np.asarray(X, dtype=object if is_text else None)


def unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the predictor inside pipelines and searches, and X as that predictor sees it."""
    transformers, predictor = _inside(estimator)
    for transformer in transformers:
        X = transformer.transform(X)
    return predictor, X


def predictor_inside(estimator: Any) -> Any:
    """Return the predictor inside pipelines and searches."""
    return _inside(estimator)[1]


def transformers_inside(estimator: Any) -> list[Any]:
    """Return the fitted transformers on the way to the predictor inside pipelines and searches."""
    return _inside(estimator)[0]


def _inside(estimator: Any) -> tuple[list[Any], Any]:
    """Return the fitted transformers on the way to a predictor, and the predictor."""
    transformers: list[Any] = []
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "predict_shortlist"):
            estimator = estimator.estimator_
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif isinstance(estimator, Pipeline):
            steps = [step for _, step in estimator.steps]
            transformers += [s for s in steps[:-1] if s is not None and s != "passthrough"]
            estimator = steps[-1]
        else:
            return transformers, estimator


def columns_of(transformer: Any, name: str) -> list[Any]:
    """Return the columns that a part of a fitted ColumnTransformer gets: names, or else numbers."""
    numbers = transformer._transformer_to_input_indices[name]
    names = getattr(transformer, "feature_names_in_", None)
    return [int(number) if names is None else str(names[number]) for number in numbers]


def check_feature_names(transformer: Any, input_features: Any, n_features: int) -> list[str]:
    """Return the names of what a transformer was fitted on, or else these, or else x0, x1, ..."""
    if not hasattr(transformer, "n_features_in_"):  # fitted on a list
        if input_features is None:
            return [f"x{number}" for number in range(n_features)]
        if len(input_features) != n_features:
            raise ValueError(
                f"input_features must hold {n_features} names, got {len(input_features)}."
            )
    return [str(name) for name in _check_feature_names_in(transformer, input_features)]


def input_tags_of(estimator: Any) -> Any:
    """Return what an estimator says about the X that it takes."""
    return get_tags(estimator).input_tags


def is_parameter(name: str, parameter: str) -> bool:
    """Tell whether a name from ``get_params`` is this parameter, possibly of something inside."""
    return name == parameter or name.endswith(f"__{parameter}")


def check_sample_weight(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Return one finite, non-negative weight per row, not all of them zero."""
    weights: NDArray[np.float64] = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if np.any(weights < 0):
        raise ValueError(
            f"sample_weight must not be negative, got {weights.min()} "
            f"in row {int(weights.argmin())}."
        )
    if not np.any(weights > 0):
        raise ValueError("sample_weight must be positive for at least one row; all are zero.")
    return weights


def weight_argument(estimator: Any) -> str:
    """Name the argument through which an estimator's fit takes sample weights."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline) and has_fit_parameter(estimator[-1], "sample_weight"):
        return f"{estimator.steps[-1][0]}__sample_weight"
    raise ValueError(
        f"sample_weight was given, but {type(estimator).__name__} does not support sample weights."
    )


def bootstrap_weights(forest: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what every row weighs in every tree of a forest fitted with these weights, (n, T)."""
    drawn = [np.bincount(rows, minlength=len(weights)) for rows in forest.estimators_samples_]
    times = np.stack(drawn, axis=1).astype(np.float64)
    if hasattr(forest, "_sample_weight"):  # from 1.9 on weights say how often a row is drawn
        return times
    return times * weights[:, np.newaxis]


def route_fit_metadata(router: Any, sample_weight: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments with which a meta-estimator fits its ``estimator``.

    Without metadata routing only sample weights go through, to whatever there is inside.
    """
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    if not routing_enabled():
        _raise_for_params(metadata, router, "fit")
        return weights
    routed: dict[str, Any] = process_routing(router, "fit", **weights, **metadata)["estimator"][
        "fit"
    ]
    return routed
