"""Blocks of rows, passes over them, and what the first pass finds out."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

from duelrank import DuelRanker
from duelrank.blocks import Columns, LabeledBlocks, RowBlocks, _dask, add_up
from duelrank.blocks._census import count_block
from duelrank.blocks._dask import OnDask
from duelrank.blocks._in_process import InProcess
from duelrank.blocks._kernels import FAN_IN

pytest.importorskip("distributed", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import dask
import dask.array as da
import dask.dataframe as dd
import pyarrow as pa
from pyarrow import parquet

COLUMNS = ["b", "a", "c"]


@pytest.fixture
def no_client(monkeypatch):
    monkeypatch.setattr(_dask, "has_client", lambda: False)
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture(params=["here", "threads", "cluster"])
def passes(request):
    """Make passes over blocks that are taken here, on Dask's threads or on a cluster."""
    if request.param == "cluster":
        with request.getfixturevalue("client").as_current():
            yield OnDask
    else:
        request.getfixturevalue("no_client")
        yield InProcess if request.param == "here" else OnDask


@pytest.fixture
def table(rng):
    return rng.normal(size=(25, 3))


def made(blocks):
    """Make all blocks of RowBlocks, wherever they come from."""
    return dask.compute(*(part if hasattr(part, "dask") else part() for part in blocks.parts))


# What the blocks are


@pytest.mark.parametrize(("rows", "lengths"), [(10, (10, 10, 5)), (25, (25,)), (99, (25,))])
def test_arrays_are_cut(table, rows, lengths):
    for array in (table, table[:, 0]):
        blocks = RowBlocks.from_array(array, rows_per_block=rows)
        assert blocks.lengths == lengths == tuple(map(len, made(blocks)))
        np.testing.assert_array_equal(np.concatenate(made(blocks)), array)
    assert repr(blocks) == f"RowBlocks({len(lengths)} block{'s'[: len(lengths) > 1]}, 25 rows)"


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i8"])
def test_files_of_arrays_are_read_by_who_needs_them(table, dtype, tmp_path):
    values = (100 * table).astype(dtype)
    np.save(tmp_path / "rows.npy", values)
    with (tmp_path / "rows.raw").open("wb") as file:
        file.write(b"header")
        values.tofile(file)
    mapped = [
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        np.memmap(tmp_path / "rows.raw", dtype, mode="r", offset=6, shape=values.shape),
    ]
    for array in mapped:
        blocks = RowBlocks.from_array(array, rows_per_block=10)
        assert max(len(pickle.dumps(part)) for part in blocks.parts) < 500  # not the rows
        assert not any(isinstance(block, np.memmap) for block in made(blocks))
        np.testing.assert_array_equal(np.concatenate(made(blocks)), values)


def test_parts_of_mapped_files(table, tmp_path):
    rows = np.arange(30_000.0).reshape(10_000, 3)  # several pages
    np.save(tmp_path / "rows.npy", rows)
    rows.tofile(tmp_path / "rows.raw")
    mapped = [
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        np.memmap(tmp_path / "rows.raw", mode="r", offset=9_600, dtype=float, shape=(9_000, 3)),
    ]
    for array, whole in zip(mapped, (rows, rows[400:9_400]), strict=True):
        for key in (np.s_[5:], np.s_[:20], np.s_[7_000:8_000]):
            blocks = RowBlocks.from_array(array[key], rows_per_block=300)
            np.testing.assert_array_equal(np.concatenate(made(blocks)), whole[key])
        nested = RowBlocks.from_array(array[100:][50:60])
        np.testing.assert_array_equal(np.concatenate(made(nested)), whole[150:160])


def test_what_is_not_contiguous_in_a_mapped_file_is_refused(table, tmp_path):
    np.save(tmp_path / "rows.npy", table)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    changed = np.load(tmp_path / "rows.npy", mmap_mode="c")
    for part in (*(mapped[key] for key in (np.s_[::2], np.s_[::-1], np.s_[:, :2])), changed):
        with pytest.raises(ValueError, match=r"array must be .*memory map"):
            RowBlocks.from_array(part)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros((0, 3)),), ValueError, "array must have at least one row"),
        ((np.zeros((2, 3, 4)),), ValueError, "array must be .* got ndarray of shape \\(2, 3, 4\\)"),
        (([[1.0], [2.0]],), ValueError, "array must be .* got list"),
        ((np.zeros((4, 3)), 0), ValueError, "rows_per_block"),
        ((sparse.csr_array(np.eye(3)),), (TypeError, ValueError), "array must be .*(csr|sparse)"),
    ],
)
def test_what_is_no_array_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        RowBlocks.from_array(*arguments)


def test_recipes_need_lengths_that_fit():
    with pytest.raises(ValueError, match="lengths must have one number for each of 2 parts, got 1"):
        RowBlocks([partial(np.zeros, 3)] * 2, [3])
    assert "unknown" in repr(RowBlocks([partial(np.zeros, 3)]))


@pytest.fixture
def files(table, tmp_path):
    """Three files with 4, 2 and 1 row groups: (4, 4, 4, 1), (4, 3) and (5) rows."""
    frame = pd.DataFrame(table, columns=sorted(COLUMNS)).assign(label=np.arange(25) % 3)
    ends, sizes = [0, 13, 20, 25], [4, 4, 5]
    paths = [tmp_path / f"part-{number}.parquet" for number in range(3)]
    for start, stop, size, path in zip(ends, ends[1:], sizes, paths):
        frame[start:stop].to_parquet(path, row_group_size=size)
    return paths, frame


@pytest.mark.parametrize(
    ("rows", "lengths"),
    [
        (3, (4, 4, 4, 1, 4, 3, 5)),  # larger row groups are not divided
        (5, (4, 4, 5, 4, 3, 5)),
        (8, (8, 5, 7, 5)),
        (100, (13, 7, 5)),  # files are not put together
    ],
)
def test_row_groups_are_put_together(files, rows, lengths):
    paths, frame = files
    points = RowBlocks.from_parquet(paths[0].parent, COLUMNS, rows_per_block=rows)
    labels = RowBlocks.from_parquet(paths[0].parent, "label", rows_per_block=rows)
    assert points.lengths == labels.lengths == lengths
    assert tuple(map(len, made(points))) == tuple(map(len, made(labels))) == lengths
    pd.testing.assert_frame_equal(pd.concat(made(points), ignore_index=True), frame[COLUMNS])
    np.testing.assert_array_equal(np.concatenate(made(labels)), frame["label"])


def test_files_by_folder_pattern_and_list(files, monkeypatch):
    paths, frame = files
    monkeypatch.chdir(paths[0].parent)
    (paths[0].parent / "readme.txt").touch()
    for path in (".", "part-?.parquet", str(paths[0].parent / "*.parquet"), paths):
        assert RowBlocks.from_parquet(path, "label").lengths == (13, 7, 5)
    assert RowBlocks.from_parquet(paths[::-1], "label").lengths == (5, 7, 13)
    blocks = RowBlocks.from_parquet("part-1.parquet", ["c"])
    monkeypatch.chdir("/")  # workers are anywhere
    np.testing.assert_array_equal(np.concatenate(made(blocks)), frame.loc[13:19, ["c"]])


def test_files_that_cannot_be_cut(files, tmp_path):
    paths, _ = files
    with pytest.raises(ValueError, match=r"part-0\.parquet; it has no 'colour'"):
        RowBlocks.from_parquet(paths[0].parent, ["a", "colour"])
    for path in (tmp_path / "none.parquet", tmp_path / "*.pq", [tmp_path / "none.parquet"], []):
        with pytest.raises(FileNotFoundError, match=r"none\.parquet|path names no Parquet file"):
            RowBlocks.from_parquet(path, "label")
    empty = pa.table({"a": pa.array([], pa.float64()), "label": pa.array([], pa.int64())})
    parquet.write_table(empty, tmp_path / "empty.parquet")
    columns = (
        RowBlocks.from_parquet(tmp_path / "empty.parquet", name) for name in (["a"], "label")
    )
    with pytest.raises(ValueError, match="X must have at least one row, got none"):
        DuelRanker().fit(*columns)


@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_blocks_of_dask(table, where, request):
    request.getfixturevalue("client" if where == "cluster" else "no_client")
    array = da.from_array(table, chunks=(10, 2))
    frame = dd.from_pandas(pd.DataFrame(table, columns=COLUMNS), npartitions=3)
    kept = array.persist()
    known = {"chunks": array, "column": array[:, 1], "persisted": kept, "sum": kept + kept - kept}
    unknown = {
        "unknown chunks": array[array[:, 0] > -9],
        "dataframe": frame,
        "series": frame["a"],
        "persisted dataframe": frame.persist(),
        "computed dataframe": frame[frame["a"] > -9],
    }
    for name, collection in {**known, **unknown}.items():
        blocks = RowBlocks.from_dask(collection)
        assert len(blocks) == 3, name
        assert blocks.lengths == ((10, 10, 5) if name in known else None), name
        expected = table if len(collection.shape) == 2 else table[:, 1]
        np.testing.assert_allclose(np.concatenate(made(blocks)), expected, rtol=1e-14, err_msg=name)
    with pytest.raises(TypeError, match=r"collection must be a Dask .* got ndarray"):
        RowBlocks.from_dask(table)


def test_columns_must_agree(table, no_client):
    X, y = RowBlocks.from_array(table, 10), np.arange(25) % 2
    frame = dd.from_pandas(pd.DataFrame(table, columns=COLUMNS), npartitions=3)
    series = dd.from_pandas(pd.Series(y), npartitions=3)
    same_blocks = "must come in the same blocks as X"
    for points, labels, weights, error, message in [
        (X, RowBlocks.from_array(y, 5), None, ValueError, f"y {same_blocks}"),
        (X, RowBlocks.from_array(y[:24], 10), None, ValueError, f"y {same_blocks}"),
        (X, y, RowBlocks.from_array(y, 5), ValueError, f"sample_weight {same_blocks}"),
        (X, y[:24], None, ValueError, r"y must have one row for each of the 25 rows .*\(24,\)"),
        (X, y, np.ones(26), ValueError, "sample_weight must have one row for each of the 25"),
        (X, da.from_array(y[:24], chunks=12), None, ValueError, f"y {same_blocks}"),
        (RowBlocks(X.parts), y, None, TypeError, "y must come in blocks .* got ndarray"),
        (frame, y, None, TypeError, "y must come in blocks .* got ndarray"),
        (frame, series.repartition(npartitions=2), None, ValueError, f"y {same_blocks}"),
        (frame, series, series.repartition(npartitions=2), ValueError, f"weight {same_blocks}"),
    ]:
        with pytest.raises(error, match=message):
            LabeledBlocks.of(points, labels, weights)
    # Dask arrays whose length is known are rechunked.
    census = LabeledBlocks.of(da.from_array(table, chunks=10), da.from_array(y, chunks=7)).census
    np.testing.assert_array_equal(census.counts, [13, 12])


# Passes


def numbered(n_blocks):
    return [(partial(np.full, 3, 0.1 * (number + 1) ** 3), None) for number in range(n_blocks)]


def own_number(number, columns):
    return number if columns.y is None else None


def scaled(number, columns, factor):
    return (np.sin(columns.X * factor),)


def failing(number, columns):
    if number == 3:
        raise ValueError("This block is bad.")
    return number


def tree(numbers):
    """Merge a few at a time, level after level."""
    while len(numbers) > 1:
        starts = range(0, len(numbers), FAN_IN)
        numbers = [tuple(numbers[start : start + FAN_IN]) for start in starts]
    return numbers[0]


@given(n_blocks=st.integers(1, 70) | st.sampled_from([512, 513, 585]))
def test_here_the_tree_has_the_shape_of_the_task_graph(n_blocks):
    assert InProcess(numbered(n_blocks)).reduce(own_number, tuple) == tree(list(range(n_blocks)))


@pytest.mark.parametrize("n_blocks", [1, 2, 8, 9, 16, 17, 64, 65, 70])
def test_everywhere_the_same_bits(n_blocks, passes):
    taken = passes(numbered(n_blocks))
    assert taken.reduce(own_number, tuple) == tree(list(range(n_blocks)))
    (total,) = taken.reduce(scaled, add_up, 0.7)
    (expected,) = InProcess(numbered(n_blocks)).reduce(scaled, add_up, 0.7)
    np.testing.assert_array_equal(total, expected)
    np.testing.assert_allclose(total, sum(np.sin(p() * 0.7) for p, _ in numbered(n_blocks)))


def test_results_of_single_blocks(passes):
    taken, heard = passes(numbered(9)), []
    assert taken.each(own_number) == list(range(9))
    assert taken.each(own_number, done=lambda: heard.append(1)) == list(range(9))
    assert len(heard) == 9


def test_errors_name_the_block(passes):
    taken = passes(numbered(9))
    for attempt in (partial(taken.reduce, failing, tuple), partial(taken.each, failing)):
        with pytest.raises(ValueError, match=r"^This block is bad\.") as caught:
            attempt()
        assert caught.value.__notes__ == ["This happened in block number 3, counted from 0."]


def test_adding_up_changes_no_part():
    parts = [(np.full(2, float(number)),) for number in range(3)]
    np.testing.assert_array_equal(add_up(parts), [[3, 3]])
    assert [part[0] for (part,) in parts] == [0, 1, 2]


# The census


def cut(array, ends):
    return RowBlocks([partial(np.asarray, part) for part in np.split(array, ends)])


@given(
    ends=st.lists(st.integers(0, 60), max_size=20).map(sorted),
    weighted=st.booleans(),
    names=st.sampled_from([["pear", "fig", "apple"], [7, -2, 40], [2.0, 1.0, 0.0], [True, False]]),
    dtype=st.sampled_from(["f4", "f8", "i4"]),
    seed=st.integers(0, 99),
)
def test_census_counts_and_measures_all_rows(ends, weighted, names, dtype, seed):
    rng = np.random.default_rng(seed)
    X = (10 * rng.normal(size=(60, 4)) * [1, 1e3, 0, 1e-2] + [5, 0, 3, 0]).astype(dtype)
    y = np.array(names)[np.sort(rng.integers(0, len(names), 60))]
    weights = rng.exponential(size=60) * (rng.random(60) < 0.7) if weighted else np.ones(60)
    weights[: 20 * weighted] = 0  # whole blocks weigh nothing
    columns = [cut(column, ends) for column in (X, y, weights)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_dask, "has_client", lambda: False)
        census = LabeledBlocks.of(*columns[: 2 + weighted]).census
    kept = weights > 0
    labels, codes = np.unique(y, return_inverse=True)
    where = np.searchsorted(labels, census.labels)
    np.testing.assert_array_equal(labels[where], census.labels)
    assert census.labels.dtype == labels.dtype
    assert census.n_rows == 60
    assert census.dtype == (np.float32 if dtype == "f4" else np.float64)
    np.testing.assert_array_equal(census.counts, np.bincount(codes[kept], minlength=3)[where])
    sums = np.bincount(codes, weights, minlength=3)
    np.testing.assert_allclose(census.weights, sums[where], rtol=1e-13)
    exact, share = X.astype(np.longdouble), weights.astype(np.longdouble) / weights.sum()
    mean = share @ exact
    deviations = (weights[:, np.newaxis] * (exact - mean) ** 2).sum(axis=0)
    np.testing.assert_allclose(census.mean, mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(census.deviations, deviations, rtol=1e-11, atol=1e-25)
    np.testing.assert_array_equal(census.least, X[kept].min(axis=0))
    np.testing.assert_array_equal(census.most, X[kept].max(axis=0))
    assert (census.lightest, census.heaviest) == (weights[kept].min(), weights.max())
    assert census.varies.tolist() == np.ptp(X[kept], axis=0).astype(bool).tolist()


@pytest.mark.parametrize("n_blocks", [1, 7, 70])
def test_deviations_that_their_mean_dwarfs(rng, n_blocks, no_client):
    X = np.array([1e8, -3e8, 1.0]) + rng.normal(size=(700, 3)) * [1, 3, 0]
    X[:, 2] = 0.1
    census = LabeledBlocks.of(RowBlocks.from_array(X, 700 // n_blocks), np.arange(700) % 2).census
    exact = X.astype(np.longdouble)
    expected = ((exact - exact.mean(axis=0)) ** 2).sum(axis=0)
    # Means of blocks are rounded to 2e-8 deviations, so their squared distances are known as well.
    np.testing.assert_allclose(census.deviations[:2], expected[:2], rtol=4e-8)
    assert census.deviations[2] < 700 * 1e-30


def test_a_census_has_the_same_bits_whatever_the_threads(rng):
    X, y = rng.normal(size=(50_000, 61)), np.arange(50_000) % 2
    with threadpool_limits(1, user_api="blas"):
        alone = count_block(0, Columns(X, y))
    with threadpool_limits(2, user_api="blas"):
        together = count_block(0, Columns(X, y))
    np.testing.assert_array_equal(alone.mean, together.mean)
    np.testing.assert_array_equal(alone.deviations, together.deviations)


ROWS, TWO, ONES = np.ones((2, 3)), np.array([0, 1]), np.ones(2)
NAMED = pd.DataFrame(ROWS, columns=COLUMNS)


@pytest.mark.parametrize(
    ("X", "y", "weights", "error", "message"),
    [
        (np.nan * ROWS, TWO, ONES, ValueError, "X contains NaN"),
        (np.inf * ROWS, TWO, ONES, ValueError, "X contains infinity"),
        (ROWS, np.array([0, np.nan]), ONES, ValueError, "y contains NaN"),
        (ROWS, np.array(["a", None]), ONES, ValueError, "y contains NaN or None"),
        (ROWS, np.array([0.5, 0.7]), ONES, ValueError, "not whole"),
        (ROWS, np.ones((2, 2)), ONES, ValueError, "y must hold one label a row .* 2 columns"),
        (ROWS, TWO, -ONES, ValueError, "sample_weight must not be negative"),
        (ROWS, TWO, np.nan * ONES, ValueError, "sample_weight contains NaN"),
        (ROWS, TWO, np.ones((2, 2)), ValueError, "(?i)sample.weight.*(1D|shape|columns)"),
        (ROWS, TWO[:1], ONES, ValueError, "y must have one row for each row of X, got 1 for 2"),
        (ROWS, TWO, ONES[:1], ValueError, "sample_weight must have one row .* got 1 for 2"),
        (ROWS[:, :2], TWO, ONES, ValueError, "X must have the same columns in all blocks"),
        (NAMED, TWO, ONES, ValueError, "X must have the same columns"),
        (
            sparse.csr_array(ROWS),
            TWO,
            ONES,
            TypeError,
            "blocks of dense rows, got blocks of csr_array",
        ),
        (ROWS[0], TWO, ONES, ValueError, "2D array"),
        (np.array([["x"] * 3] * 2), TWO, ONES, ValueError, "could not convert|'x'"),
    ],
)
def test_bad_blocks_are_found(X, y, weights, error, message, no_client):
    columns = [
        RowBlocks([partial(pickle.loads, pickle.dumps(part)) for part in (good, bad)])
        for good, bad in ((ROWS, X), (TWO, y), (ONES, weights))
    ]
    with pytest.raises(error, match=message) as caught:
        DuelRanker().fit(*columns)
    if "same columns" not in message:
        assert caught.value.__notes__ == ["This happened in block number 1, counted from 0."]


def test_labels_decide_whether_there_is_anything_to_rank(table, no_client):
    X = RowBlocks.from_array(table, 10)
    with pytest.raises(ValueError, match=r"y must hold at least two different classes .*\['a'\]"):
        DuelRanker().fit(X, ["a"] * 25)
    with pytest.raises(ValueError, match="sample_weight must be positive for at least one row"):
        DuelRanker().fit(X, np.arange(25) % 2, sample_weight=np.zeros(25))


def test_many_labels_in_small_blocks_are_no_regression(rng, no_client):
    # Blocks of 25 rows have 25 of 30 labels; warned of, they would fail this test.
    y = np.arange(250) % 30
    census = LabeledBlocks.of(RowBlocks.from_array(rng.normal(size=(250, 2)), 25), y).census
    np.testing.assert_array_equal(census.counts, np.bincount(y))
