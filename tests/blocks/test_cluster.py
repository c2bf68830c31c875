"""Fits on clusters whose workers die, run out of memory, or get blocks that cannot be made."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import dask
import dask.array as da
import distributed

from duelrank import DuelRanker, LogisticDuels
from duelrank.blocks import RowBlocks, write_rankings
from duelrank.blocks._dask import OnDask
from duelrank.duels.logistic._passes import hessian_block

pytestmark = pytest.mark.xdist_group("frail")  # one cluster at a time

N_BLOCKS, ROWS = 12, 200


def points(number):
    """Make a block; the same wherever and whenever."""
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


class DeadlyOnce:
    """A kernel that kills its worker, once, when that has done two blocks and is at its third.

    If there is a victim, it is the process that dies.
    """

    def __init__(self, kernel, folder, victim=None):
        self.__name__ = kernel.__name__
        self.kernel = kernel
        self.folder = folder
        self.victim = victim
        self.driver = os.getpid()

    def __call__(self, number, *arguments):
        pid = os.getpid()
        assert pid != self.driver, "the pass has come to the driver"
        may_die = self.victim in (None, pid) and len([*self.folder.glob(f"{pid}-*")]) == 2
        if may_die and self._is_first():
            os.kill(pid, signal.SIGKILL)  # as the system would, without a word to anybody
        result = self.kernel(number, *arguments)
        (self.folder / f"{pid}-{number}").touch()
        return result

    def _is_first(self):
        try:
            with (self.folder / "killed").open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True


def noted_points(number, folder):
    """Make a block, and leave a file that tells so."""
    (folder / f"{number}-{uuid4().hex}").touch()
    time.sleep(0.05)  # long enough for both workers to get some
    return points(number)


def process_with_most(client, futures):
    """Return the number of the worker process that holds most of some results."""
    holders = [address for addresses in client.who_has(futures).values() for address in addresses]
    return client.run(os.getpid)[max(set(holders), key=holders.count)]


@pytest.mark.parametrize("persisted", [False, True])
def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(
    frail, undisturbed, monkeypatch, persisted, tmp_path
):
    made, passed = tmp_path / "made", tmp_path / "passed"
    made.mkdir()
    passed.mkdir()
    X, y = blocks()
    if persisted:  # the blocks that the worker holds die with it
        parts = [dask.delayed(noted_points)(number, made) for number in range(N_BLOCKS)]
        X = da.concatenate([da.from_delayed(part, (ROWS, 4), dtype=float) for part in parts])
        X = X.persist()
        distributed.wait(X)
    expected = ranker().fit(X, y)
    victim = None
    if persisted:
        assert len([*made.iterdir()]) == N_BLOCKS
        # Blocks that the first fit has copied to the other worker would not be lost.
        frail.replicate(distributed.futures_of(X), n=1)
        victim = process_with_most(frail, distributed.futures_of(X))

    reduce = OnDask.reduce

    def interrupted(self, kernel, *arguments):
        deadly = DeadlyOnce(kernel, passed, victim) if kernel is hessian_block else kernel
        return reduce(self, deadly, *arguments)

    monkeypatch.setattr(OnDask, "reduce", interrupted)
    fitted = ranker().fit(X, y)
    killed = int((passed / "killed").read_text())
    # It had done two blocks of the pass and was at a third one.
    assert len([*passed.glob(f"{killed}-*")]) == 2
    if persisted:
        assert len([*made.iterdir()]) > N_BLOCKS  # those that were lost
    frail.wait_for_workers(2)
    assert killed not in frail.run(os.getpid).values()
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


@pytest.fixture
def large_folder(tmp_path):
    """A folder for gigabytes, which do not stay, whatever happens."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory")
@pytest.mark.parametrize(
    ("times", "n_workers"), [(1.1, 1), pytest.param(3, 2, marks=pytest.mark.slow)]
)
def test_rows_larger_than_the_memory_of_all_workers(large_folder, times, n_workers):
    script = Path(__file__).with_name("larger_than_memory.py")
    command = [sys.executable, script, large_folder, str(times), str(n_workers)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["survived"]  # no worker was ended for its memory
    assert report["data"] >= times * n_workers * report["limit"]
    assert len(report["workers"]) == n_workers
    assert max([*report["workers"], report["driver"]]) < report["limit"]
    assert report["converged"]
    assert report["n_ranked"] == report["n_rows"]
    assert report["accuracy"] == pytest.approx(report["best_accuracy"], abs=0.01)
