"""Threads of BLAS, and threads in their place: results must not depend on how many there are.

Some BLAS have one number of threads for the whole process, such as the OpenBLAS of the wheels of
numpy and scipy. The first one who limits it keeps what it was, and the last one who leaves gives it
back, in whatever threads they are. Others have a number for every thread, such as an OpenBLAS with
OpenMP. There every thread limits its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread, local
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from duelrank._batches import even_batches

LARGE = 2**20  # numbers that are worth threads
IN_CACHE = 2**18  # numbers that a thread handles at a time

Result = TypeVar("Result")


class _Limits:
    """How often limits were entered and not left, and what libraries had before."""

    def __init__(self) -> None:
        self.inside = 0
        self.before: dict[Any, int] = {}

    def give_back(self) -> None:
        while self.before:
            _set_threads(*self.before.popitem())


class _LimitsOfThread(_Limits, local):
    """The limits of every thread, for libraries that have a number for every thread."""


_lock = Lock()
_limits = _Limits()  # of the process
_limits_of_thread = _LimitsOfThread()
_n_forks = 0  # on the way from the first process to this one


def blas_threads() -> int:
    """Return how many threads BLAS would use now."""
    return max((library.num_threads for library in _blas_libraries()), default=1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread; the last one to leave gives the others back."""
    n_forks = _n_forks
    with _lock:
        _limits.inside += 1
        _limits_of_thread.inside += 1
    try:
        with _lock:
            _limit()
        yield
    finally:
        if n_forks == _n_forks:  # a child that was forked inside has its threads already
            with _lock:
                _leave(_limits)
                _leave(_limits_of_thread)


class Threads:
    """Threads in place of those of BLAS, each with a BLAS of one thread.

    Independent small products gain more from threads that share them than from threads inside each
    of them. The result does not depend on the number of threads.

    Parameters
    ----------
    pool : ThreadPoolExecutor or None
        The threads; None to do everything in the calling one.
    n_threads : int
        Their number.
    """

    def __init__(self, pool: ThreadPoolExecutor | None, n_threads: int) -> None:
        self.pool = pool
        self.n_threads = n_threads

    def map(self, step: Callable[[Any], Result], items: list[Any]) -> list[Result]:
        """Apply `step` to every item; the order of the results is that of the items."""
        if self.pool is None or len(items) < 2:
            return [step(item) for item in items]
        # One task per thread, which takes the next item when it is done with one: some items take
        # longer, and so do cores that others use as well. A task for every item would cost more.
        results: list[Any] = [None] * len(items)
        pending, taking = iter(range(len(items))), Lock()
        told = np.geterr()  # new threads would not know what NumPy is told to ignore here

        def take() -> int | None:
            with taking:
                return next(pending, None)

        def work(_: int) -> None:
            with np.errstate(**told):
                while (number := take()) is not None:
                    results[number] = step(items[number])

        list(self.pool.map(work, range(self.n_threads)))
        return results


@contextmanager
def threads_of_blas() -> Iterator[Threads]:
    """Open as many threads as BLAS would use, and limit BLAS to one thread in each of them."""
    n_threads = blas_threads()
    with one_blas_thread():
        if n_threads == 1:
            yield Threads(None, 1)
            return
        with ThreadPoolExecutor(n_threads, initializer=_limit_in_new_thread) as pool:
            yield Threads(pool, n_threads)


def rows_in_threads(function: Callable[..., NDArray[Any]], *arrays: NDArray[Any]) -> NDArray[Any]:
    """Apply a function of rows, each for itself, to many of them in threads.

    BLAS has one thread meanwhile, in the whole process, although nothing here may need it.

    Parameters
    ----------
    function : callable
        Takes some rows of all arrays and returns an array with as many.
    *arrays : ndarrays of shape (n, ...)
        Where they are small, the function takes them as they are; so it does a single row, (K,).
    """
    n_rows, size = len(arrays[0]), arrays[0].size
    if size < LARGE or arrays[0].ndim == 1:
        return function(*arrays)
    parts = list(even_batches(n_rows, n_rows * IN_CACHE // size))
    with threads_of_blas() as threads:
        return np.concatenate(
            threads.map(lambda rows: function(*(array[rows] for array in arrays)), parts)
        )


def _limit() -> None:
    # The limits of threadpoolctl do the same, and take longer than the ranking of one point. Those
    # who are inside already look again: others may have raised the number meanwhile.
    for library in _blas_libraries():
        n_threads = library.num_threads
        if n_threads is not None and n_threads > 1:
            limits = _limits if _is_of_process(library) else _limits_of_thread
            limits.before[library] = n_threads
            _set_threads(library, 1)


def _limit_in_new_thread() -> None:
    """Limit BLAS in a thread that ends before its limit does."""
    with _lock:
        _limit()


def _leave(limits: _Limits) -> None:
    limits.inside -= 1
    if limits.inside == 0:
        limits.give_back()


def _set_threads(library: Any, n_threads: int) -> None:
    # From 3.8 on, threadpoolctl lets one thread set the number of a process and ignores the others
    # silently, so that they do not restore each other's limits. Ours are counted.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(n_threads)


@cache
def _is_of_process(library: Any) -> bool:
    """Tell whether other threads follow if this one sets a number of threads, more than one now."""
    n_threads = library.num_threads
    before = _read_in_new_thread(library)
    try:
        _set_threads(library, 1)
        after = _read_in_new_thread(library)
    finally:
        _set_threads(library, n_threads)
    return before != after


def _read_in_new_thread(library: Any) -> int | None:
    read: list[int | None] = []
    thread = Thread(target=lambda: read.append(library.num_threads))
    thread.start()
    thread.join()
    return read[0]


def _begin_anew() -> None:
    """Let a child of a fork have its threads, whatever the threads of its parent were doing."""
    global _lock, _n_forks
    _lock = Lock()
    _n_forks += 1
    for limits in (_limits, _limits_of_thread):
        limits.inside = 0
        limits.give_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(  # while nobody enters or leaves
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_begin_anew,
    )


@cache
def _blas_libraries() -> list[Any]:
    # Looking for the libraries takes longer than many a fit: once is enough.
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries
