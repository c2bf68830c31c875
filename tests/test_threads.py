"""Threads of BLAS are given back."""

import os

import pytest

from duelrank import _threads
from duelrank._threads import blas_threads, one_blas_thread


@pytest.fixture
def two_threads():
    """BLAS with two threads, whatever the machine has."""
    libraries = _threads._blas_libraries()
    if not libraries:
        pytest.skip("BLAS has no threads to limit")
    before = [library.num_threads for library in libraries]
    for library in libraries:
        library.set_num_threads(2)
    if blas_threads() < 2:
        pytest.skip("BLAS was built for one thread")
    yield
    for library, n_threads in zip(libraries, before, strict=True):
        library.set_num_threads(n_threads)


def test_limits_are_given_back_after_an_error(two_threads):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 / 0  # noqa: B018
    assert blas_threads() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_is_forked_inside_has_its_threads(two_threads):
    with one_blas_thread():
        child = os.fork()
        if child == 0:
            free = blas_threads() == 2 and _threads._lock.acquire(timeout=5)
            os._exit(0 if free else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert blas_threads() == 2
