"""Threads of BLAS: results must not depend on how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_limits: list[Any] = []  # the limit in force, once for everyone inside


def blas_threads() -> int:
    """Return how many threads BLAS would use now."""
    blas = _controller().select(user_api="blas")
    return max((library["num_threads"] for library in blas.info()), default=1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread; the last one to leave gives the others back."""
    with _lock:
        first = not _limits
        _limits.append(_controller().limit(limits=1, user_api="blas") if first else _limits[0])
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    # Looking for the libraries takes longer than many a fit: once is enough.
    return ThreadpoolController()
