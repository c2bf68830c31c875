"""What is private in scikit-learn, or differs between its versions; nowhere else is.

Supported: scikit-learn 1.6 and newer. The callback mechanism exists from 1.9 on; before that
`CallbackSupportMixin` is empty and `with_callbacks` does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils._metadata_requests import _MetadataRequester as MetadataRequester
from sklearn.utils._metadata_requests import _raise_for_params, _routing_enabled
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import _check_method_params as take_metadata_rows
from sklearn.utils.validation import _check_sample_weight

__all__ = [
    "CallbackSupportMixin",
    "MetadataRequester",
    "as_indexable",
    "check_sample_weight",
    "route_fit_metadata",
    "routing_enabled",
    "take_metadata_rows",
    "take_rows",
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


routing_enabled: Callable[[], bool] = _routing_enabled


def as_indexable(X: Any) -> Any:
    """Let arrays, dataframes and sparse matrices be, in a form whose rows can be taken."""
    if sparse.issparse(X):
        return X.tocsr()  # type: ignore[attr-defined]
    return X if hasattr(X, "shape") else np.asarray(X)


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
