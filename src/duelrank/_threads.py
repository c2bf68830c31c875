"""Threads of BLAS: results must not depend on how many there are."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def blas_threads() -> int:
    """Return how many threads BLAS would use now."""
    blas = _controller().select(user_api="blas")
    return max((library["num_threads"] for library in blas.info()), default=1)


def one_blas_thread() -> Any:
    """Return a context in which BLAS uses one thread."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    # Looking for the libraries takes longer than many a fit: once is enough.
    return ThreadpoolController()
