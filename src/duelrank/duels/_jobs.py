"""Jobs: fits and predictions of single duels, here, in other processes or on a Dask cluster.

What all jobs *share*, X and what the duels learn from, goes to every worker once; a job carries its
classifier and nothing else.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
from joblib import parallel_config
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.parallel import Parallel

from duelrank._threads import one_blas_thread
from duelrank.duels._sides import DuelRows

# joblib sends an argument to every Dask worker once, and not with every job, if Dask finds it
# larger than a kilobyte. Dask asks objects that it does not know for their ``__sizeof__``.
SENT_ONCE = 1024


def parallel_stream(n_jobs: int | None) -> Any:
    """Return a Parallel that hands out results as they come, where its backend can."""
    try:
        return Parallel(n_jobs=n_jobs, return_as="generator")
    except ValueError:
        return Parallel(n_jobs=n_jobs)


class Lessons:
    """What the duels learn from, besides X: their rows, and arguments for fits, not sliced yet."""

    def __init__(
        self,
        feedback: NDArray[Any],
        n_classes: int,
        weights: NDArray[np.float64] | None,
        params: dict[str, Any],
    ) -> None:
        self.rows = DuelRows(feedback, n_classes, weights)
        self.params = params

    def __sizeof__(self) -> int:
        feedback = self.rows.feedback
        return SENT_ONCE + feedback.nbytes + 8 * len(feedback) * len(self.params)


class Shared:
    """An X whose size Dask does not know, as of polars' tables and scipy's sparse arrays."""

    def __init__(self, X: Any) -> None:
        self.X = X

    def __sizeof__(self) -> int:
        n_values = getattr(self.X, "nnz", math.prod(self.X.shape))  # if sparse
        return SENT_ONCE + 8 * int(n_values)


class SharedPolars(Shared):
    """A polars table, which workers pass on as the bytes that they got.

    If a table is pickled in one thread while a job works with it in another one, both may wait
    for each other forever.
    """

    pickled: bytes | None = None

    def __getstate__(self) -> bytes:
        if self.pickled is None:
            self.pickled = pickle.dumps(self.X, protocol=5)
        return self.pickled

    def __setstate__(self, pickled: bytes) -> None:
        self.pickled = pickled
        self.X = pickle.loads(pickled)


def shared(X: Any) -> Any:
    """Wrap X, unless Dask knows its size: then users can have scattered it themselves."""
    maker = type(X).__module__.partition(".")[0]
    if maker == "polars":
        return SharedPolars(X)
    known = maker == "pandas" or isinstance(X, (np.ndarray, sparse.spmatrix))
    return X if known else Shared(X)


def unshared(X: Any) -> Any:
    return X.X if isinstance(X, Shared) else X


def work_alone(step: Any, *args: Any, **kwargs: Any) -> Any:
    """Let a classifier take a step by itself, because its job is one of many.

    BLAS gets one thread: jobs have fewer each, so that their number would leave its trace in the
    last bits. And on a Dask cluster, where `n_jobs` is all workers unless a classifier says
    otherwise, it would send jobs of its own around, at a higher price than that of most duels.
    """
    if type(get_active_backend()[0]).__name__ != "DaskDistributedBackend":
        with one_blas_thread():
            return step(*args, **kwargs)
    with one_blas_thread(), parallel_config(backend="threading", n_jobs=1):
        try:
            result = step(*args, **kwargs)
            if _can_travel(result):
                return result
            failure: Exception = TypeError(
                f"A {type(result).__name__} cannot be pickled, which is its way off a worker."
            )
        except Exception as error:
            if _can_travel(error):
                raise
            failure = RuntimeError(f"{type(error).__name__}: {error}")
    raise failure  # out here, where the other error does not travel with it


def _can_travel(outcome: Any) -> bool:
    """Tell whether an outcome can leave a Dask worker; if not, joblib would wait for it forever."""
    from distributed.protocol.pickle import dumps, loads

    buffers: list[Any] = []  # arrays are not copied
    try:
        loads(dumps(outcome, buffer_callback=buffers.append), buffers=buffers)
    except Exception:
        return False
    return True
