"""Fits on clusters whose workers die, run out of memory, or get blocks that cannot be made."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")

from duelrank import DuelRanker, LogisticDuels  # noqa: E402
from duelrank.blocks import RowBlocks, write_rankings  # noqa: E402
from duelrank.duels._logistic_passes import PassedProblems  # noqa: E402

N_BLOCKS, ROWS = 12, 200


def points(number, seconds=0.0):
    """Make a block; the same wherever and whenever."""
    time.sleep(seconds)
    rng = np.random.default_rng(number)
    return rng.normal(size=(ROWS, 4)) + np.eye(4)[labels(number)]


def labels(number):
    return np.random.default_rng([1, number]).integers(0, 4, ROWS)


def missing(number):
    raise FileNotFoundError(f"there is no block {number}")


def deadly(number):
    os.kill(os.getpid(), signal.SIGKILL)


def blocks(make=points, **arguments):
    """Return points and labels, all made by tasks; block 5 may be another one."""
    parts = [partial(make if i == 5 else points, i, **arguments) for i in range(N_BLOCKS)]
    lengths = [ROWS] * N_BLOCKS
    codes = [partial(labels, i) for i in range(N_BLOCKS)]
    return RowBlocks(parts, lengths), RowBlocks(codes, lengths)


def ranker(**settings):
    return DuelRanker(LogisticDuels(**settings), random_state=0)


@pytest.fixture(scope="module")
def undisturbed():
    X = np.concatenate([points(i) for i in range(N_BLOCKS)])
    return ranker(tol=1e-12).fit(X, np.concatenate([labels(i) for i in range(N_BLOCKS)]))


@pytest.fixture
def frail():
    """A cluster of two worker processes of which some will die."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill_a_worker(client):
    """Kill one of the workers as the system would, without a word to anybody."""
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    return address


@pytest.mark.parametrize("persisted", [False, True])
def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(
    frail, undisturbed, monkeypatch, persisted
):
    X, y = blocks()
    if persisted:  # the blocks that the worker holds die with it
        da = pytest.importorskip("dask.array")
        X = da.concatenate(
            [da.from_delayed(dask.delayed(part)(), (ROWS, 4), dtype=float) for part in X.parts]
        ).persist()
        distributed.wait(X)
    else:
        X = RowBlocks([partial(points, i, seconds=0.05) for i in range(N_BLOCKS)], X.lengths)
    expected = ranker().fit(X, y)

    killed = []
    times = PassedProblems.hessian_times

    def interrupted(self, *arguments):
        if not killed:  # while the pass is on its way
            threading.Timer(0.1, lambda: killed.append(kill_a_worker(frail))).start()
        return times(self, *arguments)

    monkeypatch.setattr(PassedProblems, "hessian_times", interrupted)
    fitted = ranker().fit(X, y)
    assert len(killed) == 1
    frail.wait_for_workers(2)
    assert killed[0] not in frail.scheduler_info()["workers"]
    np.testing.assert_array_equal(fitted.duels_.coef_, expected.duels_.coef_)
    np.testing.assert_array_equal(fitted.duels_.intercept_, expected.duels_.intercept_)
    np.testing.assert_allclose(fitted.duels_.coef_, undisturbed.duels_.coef_, atol=1e-4)


def test_a_block_that_cannot_be_made_gives_one_error_and_the_cluster_goes_on(frail, tmp_path):
    X, y = blocks(missing)
    with pytest.raises(FileNotFoundError, match="there is no block 5") as raised:
        ranker().fit(X, y)
    assert raised.value.__notes__ == ["This happened in block number 5, counted from 0."]
    fitted = ranker().fit(*blocks())
    with pytest.raises(FileNotFoundError, match="there is no block 5"):
        write_rankings(fitted, X, tmp_path / "ranked")
    assert not list(tmp_path.glob("ranked/*"))
    assert len(write_rankings(fitted, blocks()[0], tmp_path / "ranked")) == N_BLOCKS


def test_a_block_that_kills_its_workers_gives_one_error_and_the_cluster_goes_on(frail):
    with pytest.raises(RuntimeError, match=r"worker after worker died .* make blocks smaller"):
        ranker().fit(*blocks(deadly))
    frail.wait_for_workers(2)
    assert ranker().fit(*blocks()).duels_.converged_.all()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory")
def test_rows_larger_than_the_memory_of_all_workers(tmp_path):
    script = Path(__file__).with_name("larger_than_memory.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    assert report["survived"]  # no worker was ended for its memory
    assert report["data"] >= 3 * 2 * report["limit"]
    assert max([*report["workers"], report["driver"]]) < report["limit"]
    assert report["converged"]
    assert report["n_ranked"] == report["n_rows"]
    assert report["accuracy"] == pytest.approx(report["best_accuracy"], abs=0.01)
