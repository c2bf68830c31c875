"""Threads of BLAS are given back, and results do not depend on them."""

import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from threadpoolctl import ThreadpoolController, threadpool_limits

from duelrank import (
    AnchoredDuels,
    AutoDuels,
    DuelRanker,
    EstimatorDuels,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    StackedDuels,
    _threads,
)
from duelrank._threads import (
    LARGE,
    blas_threads,
    one_blas_thread,
    rows_in_threads,
    threads_of_blas,
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
ignores_threads = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def set_blas_threads(n_threads):
    for library in _threads._blas_libraries():
        library.set_num_threads(n_threads)


@pytest.fixture
def two_threads():
    """BLAS with two threads, whatever the machine has."""
    libraries = _threads._blas_libraries()
    if not libraries:
        pytest.skip("BLAS has no threads to limit")
    before = [library.num_threads for library in libraries]
    set_blas_threads(2)
    if blas_threads() < 2:
        pytest.skip("BLAS was built for one thread")
    yield
    for library, n_threads in zip(libraries, before, strict=True):
        library.set_num_threads(n_threads)


def in_thread(step, *args):
    """Call a function in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(step, *args).result()


def in_child(step):
    """Tell whether a function returns something true in a child of a fork, within a minute."""
    gc.freeze()  # finalizers may wait for threads that are not in the child
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 1
        try:
            code = 0 if step() else 1
        finally:
            os._exit(code)
    gc.unfreeze()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def limited_threads():
    with one_blas_thread():
        return blas_threads()


class Visitor:
    """Someone who enters the limit in a thread, and leaves it when told to or by an error."""

    def __init__(self, error=None):
        self.error, self.seen = error, None
        self.entered, self.may_leave = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.visit)
        self.thread.start()
        assert self.entered.wait(10)

    def visit(self):
        try:
            with one_blas_thread():
                self.seen = blas_threads()
                self.entered.set()
                assert self.may_leave.wait(10)
                if self.error is not None:
                    raise self.error
        except ZeroDivisionError:
            pass

    def leave(self):
        self.may_leave.set()
        self.thread.join()


def test_limits_are_given_back_after_an_error(two_threads):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 / 0  # noqa: B018
    assert blas_threads() == 2


def test_limits_hold_in_other_threads(two_threads):
    assert limited_threads() == in_thread(limited_threads) == 1
    assert blas_threads() == in_thread(blas_threads) == 2


@pytest.mark.parametrize("error", [None, ZeroDivisionError()])
def test_the_last_thread_to_leave_gives_back(two_threads, error):
    with one_blas_thread():
        visitor = Visitor(error)
        assert visitor.seen == 1
    assert blas_threads() == 1  # another one is still inside
    visitor.leave()
    assert blas_threads() == 2

    visitor, other = Visitor(error), Visitor()
    visitor.leave()
    with one_blas_thread():
        other.leave()
        assert blas_threads() == 1
    assert blas_threads() == 2


def test_limits_that_others_raise_are_set_again(two_threads):
    with threadpool_limits(1, user_api="blas"):
        visitor = Visitor()
    assert blas_threads() == 2  # raised while the visitor is inside
    assert limited_threads() == 1
    visitor.leave()
    assert blas_threads() == 2


@needs_fork
@ignores_threads
def test_a_child_that_is_forked_inside_has_its_threads(two_threads):
    with one_blas_thread():
        assert in_child(lambda: blas_threads() == 2 and limited_threads() == 1)
    assert blas_threads() == 2


@needs_fork
@ignores_threads
def test_a_child_that_is_forked_while_threads_are_inside_has_its_threads(two_threads):
    def enters_and_leaves():
        free = blas_threads() == 2
        return free and limited_threads() == in_thread(limited_threads) == 1 != blas_threads()

    visitor = Visitor()
    assert in_child(enters_and_leaves)
    with one_blas_thread():
        assert in_child(enters_and_leaves)
    assert blas_threads() == 1
    visitor.leave()
    assert blas_threads() == 2


@needs_fork
@ignores_threads
def test_leaving_a_limit_of_the_parent_does_not_end_one_of_the_child(two_threads):
    def leaves_that_of_the_parent(limit):
        visitor = Visitor()
        limit.__exit__(None, None, None)
        still = blas_threads()
        visitor.leave()
        return (still, blas_threads()) == (1, 2)

    limit = one_blas_thread()
    with limit:
        assert in_child(lambda: leaves_that_of_the_parent(limit))
    assert blas_threads() == 2


# OpenMP has a number for every thread, and so has a BLAS that is built on it.
OPENMP = """
from threadpoolctl import ThreadpoolController
import sklearn.metrics
from duelrank import _threads
from duelrank._threads import blas_threads, threads_of_blas

libraries = ThreadpoolController().select(user_api="openmp").lib_controllers
_threads._blas_libraries = lambda: libraries
with threads_of_blas() as threads:
    assert threads.n_threads == 2
    assert threads.map(lambda _: blas_threads(), [0, 1, 2]) == [1, 1, 1]
assert blas_threads() == 2
"""


def test_every_thread_has_its_limit_where_blas_counts_by_thread(monkeypatch):
    libraries = ThreadpoolController().select(user_api="openmp").lib_controllers
    if not libraries:
        pytest.skip("OpenMP is not loaded")
    monkeypatch.setattr(_threads, "_blas_libraries", lambda: libraries)

    def raises_and_limits():
        set_blas_threads(3)
        return limited_threads(), blas_threads()

    before = blas_threads()
    with one_blas_thread():
        assert in_thread(raises_and_limits) == (1, 3)
        visitor = Visitor()
    assert blas_threads() == before
    visitor.leave()
    subprocess.run(
        [sys.executable, "-c", OPENMP], env=os.environ | {"OMP_NUM_THREADS": "2"}, check=True
    )


# Large enough for BLAS to share the work among its threads.
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 60))
UTILITIES = X @ RNG.normal(size=(60, 4)) + RNG.gumbel(size=(1000, 4))
LABELS, RANKS = UTILITIES.argmax(axis=1), (-UTILITIES).argsort(axis=1).argsort(axis=1) + 1
FAILS = DuelRanker(EstimatorDuels(LogisticRegression(C=-1)))


def bits(engine, y):
    """Fit, rank and return every byte."""
    ranker = DuelRanker(engine, random_state=0).fit(X, y)
    results = ranker.duels_.margins(X), ranker.predict_proba(X), ranker.decision_function(X)
    return b"".join(np.ascontiguousarray(result).tobytes() for result in results)


def fails():
    with pytest.raises(ValueError, match="C"):
        FAILS.fit(X, LABELS)


def by_futures(steps):
    with ThreadPoolExecutor(len(steps)) as pool:
        return [future.result() for future in [pool.submit(*step) for step in steps]]


def by_joblib(steps):
    jobs = (delayed(step)(*args) for step, *args in steps)
    return Parallel(n_jobs=len(steps), backend="threading")(jobs)


def by_dask(steps):
    tasks = [dask.delayed(step, pure=False)(*args) for step, *args in steps]
    return dask.compute(*tasks, scheduler="threads", num_workers=len(steps))


@pytest.mark.parametrize(
    ("engine", "y"),
    [
        (LogisticDuels(), LABELS),
        (LogisticDuels(C="scale"), LABELS),
        (AnchoredDuels(C="scale"), LABELS),
        (KernelDuels(100), RANKS),
        (ForestDuels(3), RANKS),
        (StackedDuels([("kernel", KernelDuels(60)), ("logistic", LogisticDuels())], cv=2), RANKS),
        (AutoDuels({"logistic": LogisticDuels(), "kernel": KernelDuels(60)}), LABELS),
        (EstimatorDuels(LogisticRegression()), LABELS),
    ],
    ids=["logistic", "scaled", "anchored", "kernel", "forest", "stacked", "auto", "estimator"],
)
def test_bits_do_not_depend_on_threads(two_threads, engine, y):
    set_blas_threads(1)
    expected = bits(engine, y)
    for n_threads in (3, 2):
        set_blas_threads(n_threads)
        assert bits(engine, y) == expected
        assert blas_threads() == n_threads
    for together in (by_futures, by_joblib, by_dask):
        found = together([(bits, engine, y), (fails,), (bits, engine, y)])
        assert list(found) == [expected, None, expected]
        assert blas_threads() == 2


@needs_fork
@ignores_threads
def test_bits_in_a_child_that_is_forked_in_the_middle_of_fits(two_threads):
    engine = KernelDuels(60)
    expected = bits(engine, RANKS)
    started, may_go = threading.Event(), threading.Event()

    class Halting(KernelDuels):
        def fit(self, *args, **kwargs):
            with one_blas_thread():
                started.set()
                assert may_go.wait(30)
                return super().fit(*args, **kwargs)

    with ThreadPoolExecutor(1) as pool:
        fit = pool.submit(bits, Halting(60), RANKS)
        assert started.wait(30)
        same = in_child(lambda: bits(engine, RANKS) == expected and blas_threads() == 2)
        may_go.set()
        assert fit.result() == expected
    assert same
    assert blas_threads() == 2


def test_an_interrupt_while_a_limit_is_set_leaves_nothing_behind(two_threads, monkeypatch):
    def interrupted(library):
        raise KeyboardInterrupt

    _threads._is_of_process.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(_threads, "_read_in_new_thread", interrupted)
        with pytest.raises(KeyboardInterrupt), one_blas_thread():
            pass
    assert blas_threads() == 2
    with one_blas_thread():
        assert blas_threads() == 1
    assert blas_threads() == 2


def test_threads_do_what_numpy_was_told(two_threads):
    """NumPy's settings are those of a thread, and warnings are errors here."""
    with threads_of_blas() as threads, np.errstate(divide="ignore"):
        assert threads.n_threads == 2
        assert threads.map(np.log, [np.zeros(1)] * 4) == [-np.inf] * 4


def test_large_rows_are_shared_among_threads_and_come_back_in_order(two_threads):
    rows = np.arange(3 * LARGE // 2).reshape(-1, 8)
    parts = []

    def double(some, same):
        np.testing.assert_array_equal(some, same)
        parts.append((len(some), threading.get_ident()))
        return 2 * some

    np.testing.assert_array_equal(rows_in_threads(double, rows, rows), 2 * rows)
    assert sum(n for n, _ in parts) == len(rows)
    assert len(parts) > 1
    assert threading.get_ident() not in {thread for _, thread in parts}
    parts.clear()
    few = rows[: LARGE // 8 - 1]
    np.testing.assert_array_equal(rows_in_threads(double, few, few), 2 * few)
    assert parts == [(len(few), threading.get_ident())]


def test_steps_of_uneven_length_come_back_in_order_and_their_errors_too(two_threads):
    def wait(number):
        threading.Event().wait(0.02 if number == 0 else 0)
        if number == 7:
            raise ValueError("seven")
        return number

    with threads_of_blas() as threads:
        assert threads.map(wait, list(range(7))) == list(range(7))
        with pytest.raises(ValueError, match="seven"):
            threads.map(wait, list(range(20)))
    assert blas_threads() == 2
