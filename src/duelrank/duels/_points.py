"""Query points, checked.

scikit-learn's checks take longer than one point takes to rank. Points that are plainly in order
pass without them; all others, and all that is wrong, go through these checks and get their errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._threads import one_blas_thread

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# In sums of more numbers threads of OpenBLAS take part. Then they wait for more work in a loop, for
# longer than it takes to rank thousands of points, and keep other threads from their cores.
BLAS_THREADS_ABOVE = 10_000


def check_fitted_attribute(engine: Any, name: str) -> None:
    """Raise NotFittedError unless a fit has set an attribute."""
    if name not in vars(engine):
        check_is_fitted(engine, name)


def check_points(engine: Any, X: Any, *dtypes: np.dtype[Any]) -> Any:
    """Return points as finite floats, an array or CSR, with the columns of fit.

    Points that are in none of the precisions are converted to the first one.
    """
    plain = _plain_points(engine, X, dtypes)
    if plain is not None:
        return plain
    return validated_points(engine, X, accept_sparse="csr", dtype=dtypes)


def validated_points(engine: Any, X: Any, **checks: Any) -> Any:
    """Return points as scikit-learn checks them; NumPy does not warn of what is refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        return validate_data(engine, X, reset=False, **checks)


def in_precision(points: Any, dtype: np.dtype[Any]) -> Any:
    """Return points, an array or CSR, in a precision; without a copy if they are in it."""
    if points.dtype == dtype or isinstance(points, np.ndarray):
        return points.astype(dtype, copy=False)
    # It takes half as long as astype for one row.
    parts = points.data.astype(dtype), points.indices, points.indptr
    return type(points)(parts, shape=points.shape)


def _plain_points(engine: Any, X: Any, dtypes: tuple[np.dtype[Any], ...]) -> Any:
    """Return what scikit-learn would return for points that are plainly in order, else None."""
    known = vars(engine)
    if (
        type(X) not in (np.ndarray, sparse.csr_array, sparse.csr_matrix)
        or X.dtype not in FLOATS
        or X.ndim != 2
        or X.shape[0] == 0
        or X.shape[1] != known.get("n_features_in_")
        or "feature_names_in_" in known
    ):
        return None
    with np.errstate(over="ignore"):  # what overflows is not finite any more
        points = in_precision(X, X.dtype if X.dtype in dtypes else dtypes[0])
    values = points if isinstance(points, np.ndarray) else points.data
    return points if _are_finite(values) else None


def _are_finite(values: np.ndarray[Any, Any]) -> bool:
    """Tell whether all numbers are finite; the sum of their squares tells it in half the time."""
    if values.flags.c_contiguous:
        flat = values.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            if flat.size <= BLAS_THREADS_ABOVE:
                square = flat @ flat
            else:
                with one_blas_thread():
                    square = flat @ flat
            if np.isfinite(square):
                return True
    return bool(np.isfinite(values).all())
