"""Fits of so many labels that tasks solve the duels of some of them each."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from duelrank import DuelRanker, LogisticDuels, pairs
from duelrank.blocks import RowBlocks
from duelrank.duels.logistic import _tiles
from duelrank.duels.logistic._checkpoint import Checkpoint
from duelrank.duels.logistic._tiles import LabelRange, label_ranges

N_CLASSES, N_FEATURES = 60, 5
SMALL = 0.15  # mebibytes of working memory: a few ranges of labels


@pytest.fixture(scope="module")
def table():
    """Points around the centres of 60 labels, which have from 3 to 40 rows."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(N_CLASSES), rng.integers(3, 40, N_CLASSES)))
    X = rng.normal(size=(N_CLASSES, N_FEATURES))[y] + rng.normal(size=(len(y), N_FEATURES))
    return X, y


@pytest.fixture
def tiles(monkeypatch):
    """Ranges of labels that were solved together, noted while a fit takes this way."""
    solved = []
    solve = _tiles.solve_task

    def noted(rows, other_rows, task, settings):
        solved.append((task.labels, task.others))
        return solve(rows, other_rows, task, settings)

    monkeypatch.setattr(_tiles, "solve_task", noted)
    return solved


def blocks(X, y, rows_per_block=150):
    return RowBlocks.from_array(X, rows_per_block), RowBlocks.from_array(y, rows_per_block)


def objective(duels, d, X, y, weights=None, sides=(1.0, 1.0), C=1.0):
    """Return what a duel minimises."""
    first, second = (side[d] for side in pairs(N_CLASSES))
    rows = np.flatnonzero((y == first) | (y == second))
    sign = np.where(y[rows] == second, 1, -1)
    scale = np.where(sign > 0, sides[1], sides[0])
    if weights is not None:
        scale = scale * weights[rows]
    margins = sign * (X[rows] @ duels.coef_[d] + duels.intercept_[d])
    return 0.5 * duels.coef_[d] @ duels.coef_[d] + C * scale @ np.logaddexp(0, -margins)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced", {7: 3.0, 41: 0.5}])
def test_tiles_solve_what_is_solved_in_memory(table, tiles, weighted, class_weight):
    X, y = table
    weights = np.random.default_rng(1).random(len(y)) if weighted else None
    settings = {"class_weight": class_weight, "fit_intercept": not weighted}
    expected = LogisticDuels(**settings, tol=1e-12).fit(X, y, N_CLASSES, weights)
    points, codes = blocks(X, y)
    found = LogisticDuels(**settings, working_memory=SMALL).fit(points, codes, N_CLASSES, weights)
    ranges = sorted({labels for tile in tiles for labels in tile})
    assert len(ranges) > 3
    assert len(tiles) == len(set(tiles)) == len(ranges) * (len(ranges) + 1) // 2
    assert found.converged_.all()
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-5)


def test_objectives_are_at_their_minima(table, tiles):
    X, y = table
    exact = LogisticDuels(tol=1e-13).fit(X, y, N_CLASSES)
    found = LogisticDuels(working_memory=SMALL).fit(*blocks(X, y), N_CLASSES)
    assert tiles
    for d in range(0, len(exact.coef_), 37):
        least = objective(exact, d, X, y)
        assert objective(found, d, X, y) <= least * (1 + 1e-8) + 1e-12


def test_the_cluster_gives_the_same_bits(table, client):
    X, y = table
    engine = LogisticDuels(working_memory=SMALL)
    there = DuelRanker(engine, random_state=0).fit(*blocks(X, y)).duels_
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duelrank.blocks._dask.has_client", lambda: False)
        here = DuelRanker(engine, random_state=0).fit(*blocks(X, y)).duels_
    np.testing.assert_array_equal(there.coef_, here.coef_)
    np.testing.assert_array_equal(there.n_iter_, here.n_iter_)


def test_labels_without_rows(table, tiles):
    X, y = table
    names = np.arange(N_CLASSES + 3)  # the last three are never seen
    ranker = DuelRanker(LogisticDuels(working_memory=SMALL), classes=names, random_state=0)
    duels = ranker.fit(*blocks(X, y)).duels_
    first, second = pairs(N_CLASSES + 3)
    assert tiles
    one_sided = (first < N_CLASSES) & (second >= N_CLASSES)
    assert np.all(duels.intercept_[one_sided] == -100)
    assert not duels.coef_[second >= N_CLASSES].any()
    assert duels.converged_.all()
    assert ranker.predict(X[:1])[0] < N_CLASSES


def test_tiles_go_on_from_a_checkpoint(table, tiles, tmp_path, monkeypatch):
    X, y = table
    file = tmp_path / "fit.npz"
    engine = LogisticDuels(working_memory=SMALL, checkpoint=file, checkpoint_every=1)
    whole = LogisticDuels(working_memory=SMALL).fit(*blocks(X, y), N_CLASSES)
    n_tiles = len(tiles)
    tiles.clear()
    saved = Checkpoint.solved

    def stopped(self):
        saved(self)
        if self.steps == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "solved", stopped)
        with pytest.raises(KeyboardInterrupt):
            engine.fit(*blocks(X, y), N_CLASSES)
    assert len(tiles) == 4
    resumed = engine.fit(*blocks(X, y, rows_per_block=77), N_CLASSES)
    assert len(tiles) == n_tiles
    np.testing.assert_allclose(resumed.coef_, whole.coef_, atol=1e-5)
    assert not file.exists()


def test_duels_that_have_not_converged_go_on(table, tmp_path):
    X, y = table
    whole = LogisticDuels(tol=1e-12).fit(X, y, N_CLASSES)
    engine = LogisticDuels(working_memory=SMALL, checkpoint=tmp_path / "fit.npz", max_iter=2)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        first = engine.fit(*blocks(X, y), N_CLASSES)
    iterations = first.n_iter_.copy()
    assert iterations.max() == 2
    done = first.converged_.copy()
    engine.set_params(max_iter=100)
    second = engine.fit(*blocks(X, y), N_CLASSES)
    assert second.converged_.all()
    assert np.all(second.n_iter_[~done] > iterations[~done])
    np.testing.assert_array_equal(second.n_iter_[done], iterations[done])
    np.testing.assert_allclose(second.coef_, whole.coef_, atol=1e-5)


def test_without_a_cluster_no_group_stays_in_this_process(table, monkeypatch):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    import dask

    monkeypatch.setattr("duelrank.blocks._dask.has_client", lambda: False)
    monkeypatch.setattr(dask, "persist", lambda *_, **__: pytest.fail("rows are held"))
    X, y = table
    expected = LogisticDuels(working_memory=SMALL).fit(*blocks(X, y), N_CLASSES)
    rows = da.from_array(X, chunks=(150, -1)), da.from_array(y, chunks=150)
    found = LogisticDuels(working_memory=SMALL).fit(*rows, N_CLASSES)
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_ranges_hold_what_fits():
    rows = np.array([10, 10, 10, 30] + [5] * 12)
    # Half of the memory is for the rows of two ranges: up to 40 each, 20 bytes for each number.
    memory = 2 * 2 * 40 * 20 * 10 / 2**20
    assert label_ranges(rows, 10, memory, np.inf) == [
        LabelRange(0, 3),
        LabelRange(3, 6),
        LabelRange(6, 14),
        LabelRange(14, 16),
    ]
    assert label_ranges(rows, 10, memory / 2, np.inf) is None  # label 3 alone is too much
    assert label_ranges(rows, 10, 1, 120) is None  # all duels fit
    assert label_ranges(rows, 10, 1, 119) == [LabelRange(0, 16)]  # but are more than a block
    many = np.ones(1000, dtype=np.intp)
    sizes = [labels.stop - labels.start for labels in label_ranges(many, 10, 0.1, np.inf)]
    assert sum(sizes) == 1000
    assert max(sizes) ** 2 * 10 * 8 <= 0.1 * 2**20 / 4


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory")
def test_two_thousand_labels_with_bounded_memory_per_worker():
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    rng = np.random.default_rng(0)
    n_classes, limit = 2000, 400 * 2**20
    y = np.repeat(np.arange(n_classes), 4)
    X = 2 * rng.normal(size=(n_classes, 8))[y] + rng.normal(size=(len(y), 8))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = client.run(os.getpid)
        ranker = DuelRanker(LogisticDuels(working_memory=32), random_state=0)
        ranker.fit(*blocks(X, y, 1000))
        assert client.run(os.getpid) == before  # no worker was ended for its memory
        peaks = client.run(_peak)
    assert max(peaks.values()) < limit
    assert ranker.duels_.coef_.nbytes > 120 * 2**20  # of which a worker never has more than a part
    assert ranker.duels_.converged_.all()
    assert ranker.score(X, y) > 0.9


def _peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
