"""Threads of BLAS, and threads in their place: results must not depend on how many there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

_lock = Lock()
_inside = 0  # how many have entered `one_blas_thread` and not left it
_limited: list[tuple[Any, int]] = []  # the libraries that are limited, and what they had before


def blas_threads() -> int:
    """Return how many threads BLAS would use now."""
    return max((library.num_threads for library in _blas_libraries()), default=1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread; the last one to leave gives the others back."""
    global _inside
    with _lock:
        if _inside == 0:
            _limit()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside = max(0, _inside - 1)  # a child that was forked inside begins anew
            if _inside == 0:
                _give_back()


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
        # One task per thread: handing out single small items would cost more than they do.
        shares = [items[start :: self.n_threads] for start in range(self.n_threads)]
        done = list(self.pool.map(lambda share: [step(item) for item in share], shares))
        results: list[Any] = [None] * len(items)
        for start, share in enumerate(done):
            results[start :: self.n_threads] = share
        return results


@contextmanager
def threads_of_blas() -> Iterator[Threads]:
    """Open as many threads as BLAS would use, and limit BLAS to one thread in each of them."""
    n_threads = blas_threads()
    with one_blas_thread():
        if n_threads == 1:
            yield Threads(None, 1)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            yield Threads(pool, n_threads)


def _limit() -> None:
    # The limits of threadpoolctl do the same, and take longer than the ranking of one point.
    for library in _blas_libraries():
        n_threads = library.num_threads
        if n_threads is not None and n_threads > 1:
            library.set_num_threads(1)
            _limited.append((library, n_threads))


def _give_back() -> None:
    while _limited:
        library, n_threads = _limited.pop()
        library.set_num_threads(n_threads)


def _begin_anew() -> None:
    """Let a child of a fork have its threads, whatever other threads of its parent were doing."""
    global _lock, _inside
    _lock, _inside = Lock(), 0
    _give_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@cache
def _blas_libraries() -> list[Any]:
    # Looking for the libraries takes longer than many a fit: once is enough.
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries
