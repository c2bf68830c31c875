"""Jobs: fits and predictions of single duels, here, in other processes or on a Dask cluster.

A job carries its classifier. X and `FitArguments` are the same for all jobs, and are sent to every
worker once.
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

from duelrank._label_names import label_names
from duelrank._sklearn import take_metadata_rows
from duelrank._threads import one_blas_thread
from duelrank.duels._evaluation_sets import check_evaluation_labels, read_evaluation_sets
from duelrank.duels._sides import DuelRows

# joblib sends an argument to every Dask worker once, and not with every job, if Dask finds it
# larger than a kilobyte. Dask asks objects that it does not know for their ``__sizeof__``.
SENT_ONCE = 1024


def parallel_generator(n_jobs: int | None) -> Any:
    """Return a Parallel that returns results one by one, if its backend can."""
    try:
        return Parallel(n_jobs=n_jobs, return_as="generator")
    except ValueError:
        return Parallel(n_jobs=n_jobs)


class FitArguments:
    """Arguments for the fits of all duels, besides X.

    Parameters
    ----------
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks.
    n_classes : int
        Number of labels K.
    weights : ndarray of shape (n,), or None
        Weights of the rows.
    params : dict
        Keyword arguments for the fits of classifiers, for all rows. Evaluation sets hold labels if
        a ranker fits the engine, else codes.

    Attributes
    ----------
    rows : DuelRows
        Which rows every duel learns from.
    params : dict
        As above, without evaluation sets.
    evaluation : list of EvaluationSets
        Rows that classifiers are evaluated on while they learn.
    labels : list or None
        What users call the labels, for messages; None if nobody said.
    """

    def __init__(
        self,
        feedback: NDArray[Any],
        n_classes: int,
        weights: NDArray[np.float64] | None,
        params: dict[str, Any],
    ) -> None:
        self.rows = DuelRows(feedback, n_classes, weights)
        self.labels = label_names(n_classes)
        labels = self.labels or range(n_classes)
        self.params, self.evaluation = read_evaluation_sets(params, labels)
        check_evaluation_labels(self.evaluation, labels, feedback, weights)

    def of(self, X: Any, rows: NDArray[np.intp], duel: tuple[int, int], pairwise: bool) -> Any:
        """Return the keyword arguments for the fit of one duel.

        Parameters
        ----------
        X : array-like with n rows
            Points.
        rows : ndarray of int
            The rows that the duel learns from.
        duel : tuple of two int
            Codes of its labels.
        pairwise : bool
            Whether the columns of points are the rows of X.
        """
        params = take_metadata_rows(X, self.params, indices=rows)
        for sets in self.evaluation:
            params |= sets.of(*duel, rows if pairwise else None)
        return params

    def name_of(self, first: int, second: int) -> str:
        """Name the labels of a duel, or their numbers if they have no names."""
        if self.labels is None:
            return f"the labels number {first} and {second}"
        return f"the labels {self.labels[first]!r} and {self.labels[second]!r}"

    def __sizeof__(self) -> int:
        feedback = self.rows.feedback
        return SENT_ONCE + feedback.nbytes + 8 * len(feedback) * len(self.params)


class WithSize:
    """Wrapper of an X whose size Dask does not know: polars' tables and scipy's sparse arrays."""

    def __init__(self, X: Any) -> None:
        self.X = X

    def __sizeof__(self) -> int:
        n_values = getattr(self.X, "nnz", math.prod(self.X.shape))  # if sparse
        return SENT_ONCE + 8 * int(n_values)


class PolarsWithSize(WithSize):
    """Wrapper of a polars table. Workers send it to other workers as the bytes that they got.

    If one thread pickles a table while a job in another thread works with it, both may wait for
    each other forever.
    """

    pickled: bytes | None = None

    def __getstate__(self) -> bytes:
        if self.pickled is None:
            self.pickled = pickle.dumps(self.X, protocol=5)
        return self.pickled

    def __setstate__(self, pickled: bytes) -> None:
        self.pickled = pickled
        self.X = pickle.loads(pickled)


def wrap_points(X: Any) -> Any:
    """Wrap X, unless Dask knows its size. X itself is what users may have scattered."""
    maker = type(X).__module__.partition(".")[0]
    if maker == "polars":
        return PolarsWithSize(X)
    known = maker == "pandas" or isinstance(X, (np.ndarray, sparse.spmatrix))
    return X if known else WithSize(X)


def unwrap_points(X: Any) -> Any:
    """Return the X that was wrapped."""
    return X.X if isinstance(X, WithSize) else X


def call_serially(method: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a method of a classifier without parallelism of its own: its job is one of many.

    BLAS gets one thread. With more, the number of jobs would change how many it gets, and with it
    the last bits of the result. On a Dask cluster, `n_jobs` of a classifier means all workers
    unless it says otherwise; sending jobs around would cost more than most duels.
    """
    if type(get_active_backend()[0]).__name__ != "DaskDistributedBackend":
        with one_blas_thread():
            return method(*args, **kwargs)
    with one_blas_thread(), parallel_config(backend="threading", n_jobs=1):
        try:
            result = method(*args, **kwargs)
            if _can_be_sent(result):
                return result
            failure: Exception = TypeError(
                f"A {type(result).__name__} cannot be pickled, which is its way off a worker."
            )
        except Exception as error:
            if _can_be_sent(error):
                raise
            failure = RuntimeError(f"{type(error).__name__}: {error}")
    raise failure  # outside of the except clause, which would attach the other error to it


def _can_be_sent(outcome: Any) -> bool:
    """Tell whether an outcome can leave a Dask worker. If not, joblib would wait for it forever."""
    from distributed.protocol.pickle import dumps, loads

    buffers: list[Any] = []  # arrays are not copied
    try:
        loads(dumps(outcome, buffer_callback=buffers.append), buffers=buffers)
    except Exception:
        return False
    return True
