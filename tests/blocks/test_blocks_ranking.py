"""Rankings of rows in blocks equal those of rows in memory, wherever they are computed."""

import inspect
import os
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from duelrank import DuelRanker, StumpDuels, predict_order, predict_ranks, predict_top
from duelrank.blocks import Columns, RowBlocks, _dask, _ranking, write_rankings
from duelrank.competitors import NeighborsRanker

pytest.importorskip("distributed", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import pyarrow as pa
from dask.callbacks import Callback
from pyarrow.parquet import ParquetFile, read_table

NAMES = np.array(["setosa", "versicolor", "virginica"])
COLUMNS = ["sepal length", "sepal width", "petal length", "petal width"]


@pytest.fixture(scope="module")
def flowers(iris):
    X, y = iris
    shuffled = np.random.default_rng(0).permutation(len(X))
    return X[shuffled], NAMES[y[shuffled]]


# Trees look at one row at a time, so all digits are the same whatever a row comes along with.
TREES = DuelRanker(DecisionTreeClassifier(max_depth=3, random_state=0), random_state=0)


@pytest.fixture(scope="module")
def ranker(flowers):
    return clone(TREES).fit(*flowers)


@pytest.fixture(params=["here", "threads", "cluster"])
def executor(request):
    """Take passes in this process, on Dask's threads, or on a cluster of two processes."""
    if request.param == "cluster":
        with request.getfixturevalue("client").as_current():
            yield request.param
    else:
        request.getfixturevalue("no_client")
        with dask.config.set(scheduler="threads"):
            yield request.param


@pytest.fixture
def no_client(monkeypatch):
    monkeypatch.setattr(_dask, "has_client", lambda: False)


def sources(X, executor):
    """Yield the same rows in blocks of several kinds, with the number of blocks."""
    named = pd.DataFrame(X, columns=COLUMNS)
    if executor != "threads":
        yield RowBlocks.from_array(X, rows_per_block=40), 4
        yield (
            RowBlocks([partial(named.iloc.__getitem__, slice(a, a + 50)) for a in (0, 50, 100)]),
            3,
        )
    if executor != "here":
        yield da.from_array(X, chunks=(40, 3)), 4
        yield dd.from_pandas(named, npartitions=2), 2


def cut(table, lengths):
    ends = np.cumsum(lengths)
    return [table[end - length : end] for end, length in zip(ends, lengths)]


def labels_of(file):
    table = read_table(file).to_pandas()
    return table[[name for name in table if name.startswith("label")]].to_numpy()


def probabilities_of(file):
    table = read_table(file).to_pandas()
    return table[[name for name in table if name.startswith("probability")]].to_numpy()


# Files


def test_files_hold_the_rankings(flowers, executor, tmp_path):
    X, y = flowers
    named = clone(TREES).fit(pd.DataFrame(X, columns=COLUMNS), y)
    unnamed = clone(TREES).fit(X, y)
    order = unnamed.predict_order(X)
    codes = np.searchsorted(NAMES, order)
    probabilities = np.take_along_axis(unnamed.predict_proba(X), codes, axis=1)
    for number, (blocks, n_blocks) in enumerate(sources(X, executor)):
        ranker = named if number % 2 else unnamed
        folder = tmp_path / str(number)
        files = write_rankings(ranker, blocks, folder, probabilities=True)
        assert files == sorted(folder.iterdir())
        assert [file.name for file in files] == [f"part-{i:05}.parquet" for i in range(n_blocks)]
        np.testing.assert_array_equal(np.vstack([*map(labels_of, files)]), order)
        np.testing.assert_array_equal(np.vstack([*map(probabilities_of, files)]), probabilities)


def test_files_are_those_of_the_command(flowers, ranker, no_client, tmp_path):
    testing = pytest.importorskip("click.testing")
    pytest.importorskip("skops")
    from duelrank import save
    from duelrank.cli._commands import duelrank

    X, _ = flowers
    save(ranker, tmp_path / "model.skops")
    pd.DataFrame(X, columns=COLUMNS).to_parquet(tmp_path / "X.parquet")
    arguments = [tmp_path / "model.skops", tmp_path / "X.parquet", "-o", tmp_path / "all.parquet"]
    done = testing.CliRunner().invoke(duelrank, ["rank", *map(str, arguments), "--top", "2"])
    assert done.exit_code == 0, done.output
    blocks = RowBlocks.from_array(X, 40)
    write_rankings(ranker, blocks, tmp_path / "parts", top=2, probabilities=True)
    ours, theirs = read_table(tmp_path / "parts"), read_table(tmp_path / "all.parquet")
    assert ours.schema == theirs.schema
    assert ours.column_names == ["label_1", "probability_1", "label_2", "probability_2"]
    assert ours.equals(theirs)


@pytest.mark.parametrize("top", [None, 1, 2])
def test_top_labels_by_any_classifier(iris, top, no_client, tmp_path):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), RidgeClassifier())
    model = GridSearchCV(pipeline, {"ridgeclassifier__alpha": [0.1, 1]}, cv=3).fit(X, y)
    write_rankings(model, RowBlocks.from_array(X, 70), tmp_path, top=top)
    table = read_table(tmp_path)
    assert table.schema.types == [pa.int64()] * (top or 3)
    written = np.column_stack([column.to_numpy() for column in table.columns])
    np.testing.assert_array_equal(written, predict_top(model, X, top or 3))


def test_files_mapped_and_parquet(flowers, ranker, executor, tmp_path):
    X, _ = flowers
    np.save(tmp_path / "X.npy", X)
    mapped = RowBlocks.from_array(np.load(tmp_path / "X.npy", mmap_mode="r"), 60)
    names = [f"x{i}" for i in range(4)]
    pd.DataFrame(X, columns=names).to_parquet(tmp_path / "X.parquet", row_group_size=60)
    stored = RowBlocks.from_parquet(tmp_path / "X.parquet", names, rows_per_block=60)
    named = clone(TREES).fit(pd.DataFrame(X, columns=names), flowers[1])
    for number, (model, blocks) in enumerate([(ranker, mapped), (named, stored)]):
        files = write_rankings(model, blocks, tmp_path / str(number))
        assert len(files) == 3
        np.testing.assert_array_equal(np.vstack([*map(labels_of, files)]), ranker.predict_order(X))


class Unmovable(np.ndarray):
    """Rows that cannot leave the process that has them."""

    def __reduce__(self):
        raise AssertionError("rows are on the move")

    __reduce_ex__ = __reduce__


def unmovable_rows(driver, number):
    assert os.getpid() != driver
    return np.full((3, 4), float(number)).view(Unmovable)


def test_rows_stay_where_they_are_made(ranker, client, tmp_path):
    recipes = [partial(unmovable_rows, os.getpid(), number) for number in range(5)]
    with client.as_current():
        files = write_rankings(ranker, RowBlocks(recipes), tmp_path, verbose=True)
    for number, file in enumerate(files):
        expected = ranker.predict_order(np.full((3, 4), float(number)))
        np.testing.assert_array_equal(labels_of(file), expected)


def test_empty_blocks_have_columns(flowers, ranker, executor, tmp_path):
    X, _ = flowers
    blocks = RowBlocks([partial(X.__getitem__, slice(a, b)) for a, b in [(0, 0), (0, 9), (9, 9)]])
    files = write_rankings(ranker, blocks, tmp_path, top=2, probabilities=True)
    tables = [read_table(file) for file in files]
    assert [len(table) for table in tables] == [0, 9, 0]
    assert tables[0].schema == tables[1].schema == tables[2].schema
    np.testing.assert_array_equal(labels_of(files[1]), ranker.predict_top(X[:9], 2))


def test_large_blocks_are_ranked_in_batches(flowers, ranker, monkeypatch, no_client, tmp_path):
    X, _ = flowers
    monkeypatch.setattr(_ranking, "RANKS_BYTES", 8 * 3 * 64)
    (file,) = write_rankings(ranker, RowBlocks.from_array(X), tmp_path, probabilities=True)
    with ParquetFile(file) as parquet:
        groups = [parquet.metadata.row_group(g).num_rows for g in range(parquet.num_row_groups)]
    assert groups == [64, 64, 22]
    np.testing.assert_array_equal(labels_of(file), ranker.predict_order(X))


def test_file_names_sort_like_rows_however_many_there_are(ranker, monkeypatch, tmp_path):
    numbers = [0, 99_999, 100_000]

    class Some:
        def each(self, kernel, *shared, done=None):
            return [kernel(number, Columns(np.zeros((1, 4))), *shared) for number in numbers]

    monkeypatch.setattr(_ranking, "passes_over", lambda columns: Some())
    files = write_rankings(ranker, RowBlocks([partial(np.zeros, (1, 4))] * 100_001), tmp_path)
    assert [file.name for file in files] == [f"part-{number:06}.parquet" for number in numbers]
    assert files == sorted(tmp_path.iterdir())


def fail_on_third(number):
    if number == 2:
        raise RuntimeError("the disk is gone")
    return np.zeros((5, 4))


def test_a_failing_block_is_named_and_leaves_nothing(ranker, executor, tmp_path):
    blocks = RowBlocks([partial(fail_on_third, number) for number in range(4)])
    for verbose in (False, True):
        with pytest.raises(RuntimeError, match="the disk is gone") as failure:
            write_rankings(ranker, blocks, tmp_path / "new", verbose=verbose)
        assert "block number 2" in "".join(failure.value.__notes__)
        assert [*(tmp_path / "new").iterdir()] == []
    before = write_rankings(ranker, RowBlocks([partial(np.ones, (2, 4))]), tmp_path / "old")
    content = before[0].read_bytes()
    with pytest.raises(RuntimeError, match="the disk is gone"):
        write_rankings(ranker, blocks, tmp_path / "old", overwrite=True)
    assert [*(tmp_path / "old").iterdir()] == before
    assert before[0].read_bytes() == content


def test_what_is_half_written_is_removed(ranker, monkeypatch, no_client, tmp_path):
    def stop(rankings):
        raise KeyboardInterrupt

    monkeypatch.setattr("duelrank.tables.wide_columns", stop)
    with pytest.raises(KeyboardInterrupt):
        write_rankings(ranker, RowBlocks([partial(np.ones, (2, 4))]), tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_folders_with_files_are_refused_or_overwritten(flowers, ranker, no_client, tmp_path):
    X, _ = flowers
    write_rankings(ranker, RowBlocks.from_array(X, 10), tmp_path)
    others = ["notes.txt", "part-1.parquet", "part-00001-other.parquet", "other-00001.parquet"]
    for name in others:
        (tmp_path / name).write_text("mine")
    blocks = RowBlocks.from_array(X, 100)
    with pytest.raises(FileExistsError, match="folder must be empty or new, unless overwrite=True"):
        write_rankings(ranker, blocks, tmp_path)
    files = write_rankings(ranker, blocks, tmp_path, top=1, overwrite=True)
    assert {file.name for file in tmp_path.iterdir()} == {*others, *(file.name for file in files)}
    assert all((tmp_path / name).read_text() == "mine" for name in others)
    np.testing.assert_array_equal(np.vstack([*map(labels_of, files)]), ranker.predict_top(X, 1))


def test_progress_is_shown_when_asked_for(flowers, ranker, executor, capfd, tmp_path):
    X, _ = flowers
    write_rankings(ranker, RowBlocks.from_array(X, 40), tmp_path / "silent")
    assert capfd.readouterr() == ("", "")
    files = write_rankings(ranker, RowBlocks.from_array(X, 40), tmp_path / "loud", verbose=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "[RowBlocks] block 4 of 4" in err
    if executor != "here":
        write_rankings(ranker, da.from_array(X, (40, 4)), tmp_path / "dask", verbose=True)
        assert "[RowBlocks] block 4 of 4" in capfd.readouterr().err
    np.testing.assert_array_equal(np.vstack([*map(labels_of, files)]), ranker.predict_order(X))


def test_the_model_travels_once(flowers, monkeypatch, no_client, tmp_path):
    heavy = clone(TREES).fit(*flowers)
    heavy.payload_ = np.random.default_rng(0).random(100_000)
    X = da.from_array(flowers[0], chunks=(10, 4))
    graphs = [heavy.predict_order(X).__dask_graph__(), heavy.predict_proba(X).__dask_graph__()]
    real = _dask.compute

    def spy(tasks, shared):
        graphs.append({key: task for t in tasks for key, task in t.__dask_graph__().items()})
        return real(tasks, shared)

    monkeypatch.setattr(_dask, "compute", spy)
    with dask.config.set(scheduler="threads"):
        write_rankings(heavy, X, tmp_path)
    assert len(graphs) == 3
    for graph in graphs:
        sizes = [len(cloudpickle.dumps(task)) for task in dict(graph).values()]
        assert len(sizes) > 15
        assert sum(size > 50_000 for size in sizes) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": np.ones((3, 4))}, TypeError, "X must be a RowBlocks or a Dask array or dataframe"),
        ({"top": 0}, ValueError, "top must be None or an integer from 1 to 3, got 0"),
        ({"top": 4}, ValueError, "top must be None or an integer from 1 to 3, got 4"),
        ({"top": True}, ValueError, "top must be"),
        ({"model": DuelRanker()}, NotFittedError, "not fitted"),
        ({"model": LinearRegression().fit([[0.0]], [0.0])}, TypeError, "single-output classifier"),
        (
            {"model": RidgeClassifier().fit(np.eye(3), NAMES), "probabilities": True},
            ValueError,
            "probabilities must be False for a model without predict_proba",
        ),
    ],
)
def test_bad_arguments_write_nothing(ranker, arguments, error, message, tmp_path):
    blocks = RowBlocks.from_array(np.ones((3, 4)))
    given = {"model": ranker, "X": blocks, "folder": tmp_path / "new"} | arguments
    with pytest.raises(error, match=message):
        write_rankings(**given)
    assert not (tmp_path / "new").exists()


def test_a_file_is_no_folder(ranker, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="folder must be a folder"):
        write_rankings(ranker, RowBlocks.from_array(np.ones((3, 4))), tmp_path / "file")


# Dask arrays

QUESTIONS = {
    "predict": lambda ranker, X: ranker.predict(X),
    "decision_function": lambda ranker, X: ranker.decision_function(X),
    "predict_ranks": lambda ranker, X: ranker.predict_ranks(X),
    "predict_order": lambda ranker, X: ranker.predict_order(X),
    "predict_top": lambda ranker, X: ranker.predict_top(X, 2),
    "predict_top by name": lambda ranker, X: ranker.predict_top(X=X, k=1),
    "predict_proba": lambda ranker, X: ranker.predict_proba(X),
    "ranks function": lambda ranker, X: predict_ranks(ranker, X),
    "order function": lambda ranker, X: predict_order(estimator=ranker, X=X),
    "top function": lambda ranker, X: predict_top(ranker, X, k=2),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("kind", ["rows", "columns too", "single precision", "frame", "unknown"])
def test_dask_in_dask_out(flowers, ask, n_labels, kind):
    X, y = flowers
    rows = np.isin(y, NAMES[:n_labels])
    X, y = X[rows], y[rows]
    if kind == "single precision":
        X = X.astype(np.float32)
    frame = pd.DataFrame(X, columns=COLUMNS)
    points = frame if kind == "frame" else X
    ranker = DuelRanker(LogisticRegression(max_iter=500), random_state=0).fit(points, y)
    lazy_frame = dd.from_pandas(frame, npartitions=3)
    lazy = {
        "frame": lazy_frame,
        "unknown": lazy_frame.to_dask_array(),
        "columns too": da.from_array(X, chunks=(40, 3)),
    }.get(kind, da.from_array(X, chunks=(40, 4)))
    lengths = lazy_frame.map_partitions(len).compute(scheduler="sync").tolist()
    if kind not in ("frame", "unknown"):
        lengths = list(lazy.chunks[0])

    answer = ask(ranker, lazy)
    expected = np.concatenate([ask(ranker, block) for block in cut(points, lengths)])
    assert isinstance(answer, da.Array)
    assert answer.dtype == expected.dtype
    assert answer._meta.dtype == expected.dtype
    assert answer.shape[1:] == expected.shape[1:]
    known = kind not in ("frame", "unknown")
    assert answer.chunks[0] == tuple(lengths) if known else np.isnan(answer.chunks[0]).all()
    computed = answer.compute(scheduler="sync")
    assert computed.dtype == expected.dtype
    if computed.dtype.kind == "f":  # last digits depend on how a block lies in memory
        np.testing.assert_allclose(computed, expected, rtol=1e-5 if X.itemsize == 4 else 1e-11)
    else:
        np.testing.assert_array_equal(computed, expected)


def test_dask_answers_equal_those_for_all_rows(flowers, ranker):
    lazy = da.from_array(flowers[0], chunks=(17, 4))
    for ask in QUESTIONS.values():
        answer = ask(ranker, lazy).compute(scheduler="sync")
        np.testing.assert_array_equal(answer, ask(ranker, flowers[0]))


def test_dask_answers_on_a_cluster(flowers, client):
    X, y = flowers
    named = pd.DataFrame(X, columns=COLUMNS)
    ranker = clone(TREES).fit(named, y)
    frame = dd.from_pandas(named, npartitions=3)
    with client.as_current():
        for ask in QUESTIONS.values():
            np.testing.assert_array_equal(ask(ranker, frame).compute(), ask(ranker, named))


class Count(Callback):
    """Counts the tasks that run in this process."""

    def __init__(self):
        super().__init__(posttask=self.count)
        self.tasks = 0

    def count(self, *_):
        self.tasks += 1


def test_nothing_is_computed_before_it_is_asked_for(ranker, flowers):
    made = []

    def make(block_info=None):
        made.append(block_info[None]["chunk-location"])
        return np.ones((5, 4))

    lazy = da.map_blocks(make, chunks=((5, 5, 5), (4,)), dtype=float, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="sync"), Count() as count:
        answers = [ask(ranker, lazy) for ask in QUESTIONS.values()]
        assert (made, count.tasks) == ([], 0)
        answers[0][:5].compute()
        assert made == [(0, 0)]  # the other blocks are not needed
        assert count.tasks > 0


def test_empty_dask_blocks(flowers, ranker):
    X, _ = flowers
    lazy = da.from_array(X, chunks=(50, 4))
    some = lazy[da.from_array(np.arange(150) < 20, chunks=50)]  # leaves two blocks empty
    for ask in QUESTIONS.values():
        answer = ask(ranker, some).compute(scheduler="sync")
        np.testing.assert_array_equal(answer, ask(ranker, X[:20]))


def test_any_classifier_and_competitors_on_dask(flowers):
    X, y = flowers
    frame = pd.DataFrame(X, columns=COLUMNS)
    pipeline = make_pipeline(StandardScaler(), DuelRanker(StumpDuels(), random_state=0))
    pipeline.fit(frame, y)
    lazy = dd.from_pandas(frame, npartitions=4)
    for ask in (predict_ranks, predict_order, partial(predict_top, k=2)):
        answer = ask(pipeline, lazy).compute(scheduler="sync")
        np.testing.assert_array_equal(answer, ask(pipeline, frame))
    neighbors = NeighborsRanker(random_state=0).fit(X, y)
    answer = neighbors.predict_order(da.from_array(X, chunks=(40, 4)))
    np.testing.assert_array_equal(answer.compute(scheduler="sync"), neighbors.predict_order(X))


def test_names_of_features_are_checked_in_blocks(flowers):
    X, y = flowers
    ranker = DuelRanker(GaussianNB()).fit(pd.DataFrame(X, columns=COLUMNS), y)
    others = dd.from_pandas(pd.DataFrame(X, columns=COLUMNS[::-1]), npartitions=2)
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.predict(others).compute(scheduler="sync")


def test_bad_arguments_are_told_at_once(ranker, flowers):
    lazy = da.ones((10, 4), chunks=(5, 4))
    with pytest.raises(NotFittedError):
        DuelRanker().predict_order(lazy)
    with pytest.raises(TypeError, match="single-output classifier"):
        predict_ranks(LinearRegression().fit([[0.0]], [0.0]), lazy)
    for ask in (ranker.predict_top, partial(predict_top, ranker)):
        with pytest.raises(ValueError, match="k must be an integer from 1 to 3, got 4"):
            ask(lazy, 4)
    no_probabilities = DuelRanker(RidgeClassifier()).fit(*flowers)
    assert not hasattr(no_probabilities, "predict_proba")


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_row_blocks_are_for_files(ranker, ask):
    with pytest.raises(TypeError, match=r"got RowBlocks\(1 block, 3 rows\).*write_rankings"):
        ask(ranker, RowBlocks.from_array(np.ones((3, 4))))


@pytest.mark.parametrize(
    "X", [da.ones((3, 4)), RowBlocks.from_array(np.ones((3, 4)))], ids=["dask", "blocks"]
)
def test_scores_and_tournaments_need_rows_in_memory(ranker, X):
    with Count() as count:
        with pytest.raises(TypeError, match=r"X must be rows in memory.*\(ranker.predict\(X\) =="):
            ranker.score(X, NAMES)
        with pytest.raises(TypeError, match=r"X must be rows in memory.*explained"):
            ranker.tournament(X)
    assert count.tasks == 0


def test_the_advice_on_accuracy_holds(flowers, ranker):
    X, y = flowers
    accuracy = (ranker.predict(da.from_array(X, chunks=(40, 4))) == y).mean()
    assert accuracy.compute(scheduler="sync") == ranker.score(X, y)


def test_methods_look_as_if_there_were_no_blocks():
    assert list(inspect.signature(DuelRanker.predict_top).parameters) == ["self", "X", "k"]
    assert list(inspect.signature(predict_order).parameters) == ["estimator", "X"]
    assert "most probable" in DuelRanker.predict.__doc__
