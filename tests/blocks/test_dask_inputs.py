"""What users of Dask bring along: tables of all kinds, and mistakes."""

from types import SimpleNamespace

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="needs the extra dask")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow", reason="needs the extra dask")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

from duelrank import DuelRanker, LogisticDuels, predict_top  # noqa: E402
from duelrank.blocks import RowBlocks, write_rankings  # noqa: E402
from duelrank.blocks._ranking import UNFINISHED  # noqa: E402
from duelrank.competitors import RankingTree  # noqa: E402
from duelrank.duels.logistic import _passes  # noqa: E402


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    teams = np.array(["billing", "network", "printer"])
    codes = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, 4)) + np.eye(3, 4)[codes]
    return pd.DataFrame(X, columns=list("abcd")).assign(team=teams[codes])


@pytest.fixture
def files(table, tmp_path):
    """Three Parquet files whose partitions Dask would like to read together."""
    for number in range(3):
        table[200 * number : 200 * (number + 1)].to_parquet(tmp_path / f"{number}.parquet")
    return tmp_path


@pytest.fixture
def ranker():
    return DuelRanker(random_state=0)


FEATURES = list("abcd")


@pytest.mark.parametrize("files_read", ["0.parquet", "*.parquet"])
def test_frames_of_any_number_of_partitions_are_ranked(table, files, ranker, files_read):
    ranker.fit(table[FEATURES], table["team"])
    frame = dd.read_parquet(files / files_read)
    part = table if "*" in files_read else table[:200]
    for method in ("predict", "predict_order", "predict_ranks", "predict_proba"):
        expected = getattr(ranker, method)(part[FEATURES])
        found = getattr(ranker, method)(frame[FEATURES]).compute()
        # Products of dataframes in another memory layout may differ in their last digits.
        same = np.isclose(found, expected) if method == "predict_proba" else found == expected
        assert found.shape == expected.shape
        assert same.all()
    np.testing.assert_array_equal(
        predict_top(ranker, frame[FEATURES], 2).compute(), ranker.predict_top(part[FEATURES], 2)
    )


def test_columns_are_compared_before_rows_are_made(table, files, ranker):
    ranker.fit(table[FEATURES], table["team"])
    frame = dd.read_parquet(files / "*.parquet")
    with pytest.raises(ValueError, match="feature names"):
        ranker.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match="3 features"):
        ranker.fit(table[FEATURES].to_numpy(), table["team"]).predict(da.ones((8, 3)))


def test_columns_of_one_frame_stay_together(table, files, ranker):
    frame = dd.read_parquet(files / "*.parquet")
    X, y = RowBlocks.from_dask(frame[FEATURES]), RowBlocks.from_dask(frame["team"])
    if len(X) != len(y):  # Dask reads narrow columns of several files at once
        with pytest.raises(ValueError, match="take both from one Dask dataframe"):
            ranker.fit(X, y)
    expected = LogisticDuels(tol=1e-12).fit(
        table[FEATURES], pd.factorize(table["team"], sort=True)[0], 3
    )
    found = ranker.fit(frame[FEATURES], frame["team"]).duels_
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-4)


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan])
@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_missing_labels_are_named(table, ranker, missing, dtype):
    labels = table["team"].astype(object).where(table.index != 77, missing).astype(dtype)
    with pytest.raises(ValueError, match="y contains NaN or None; every row needs a label"):
        ranker.fit(table[FEATURES], labels)
    with dask.config.set({"dataframe.convert-string": False}):
        y = dd.from_pandas(labels, npartitions=3)
    X = dd.from_pandas(table[FEATURES], npartitions=3)
    with pytest.raises(ValueError, match="y contains NaN or None; every row needs a label"):
        ranker.fit(X, y)


def test_unfit_columns_are_named(table, ranker):
    for value in (np.inf, "much"):
        spoiled = table.astype({"c": object})
        spoiled.loc[500, "c"] = value
        X = dd.from_pandas(spoiled[FEATURES], npartitions=3)
        with (
            dask.config.set({"dataframe.convert-string": False}),
            pytest.raises(ValueError, match=r"X|float") as e,
        ):
            ranker.fit(X, dd.from_pandas(table["team"], npartitions=3))
        assert e.value.__notes__ == [
            "It is in the columns ['c'] of X.",
            "This happened in block number 2, counted from 0.",
        ]


def test_mistakes_get_one_sentence(table, ranker):
    X, y = (
        dd.from_pandas(table[FEATURES], npartitions=3),
        dd.from_pandas(table["team"], npartitions=3),
    )
    for points in (X, X.to_dask_array(lengths=True), RowBlocks.from_dask(X)):
        with pytest.raises(ValueError, match="requires y to be passed"):
            ranker.fit(points, None)
    with pytest.raises(TypeError, match="y must be in memory as X is"):
        ranker.fit(table[FEATURES], y)
    with pytest.raises(TypeError, match="sample_weight must be in memory as X is"):
        ranker.fit(table[FEATURES], table["team"], sample_weight=y)
    with pytest.raises(TypeError, match="RankingTree does not learn from blocks"):
        RankingTree().fit(X, y)
    with pytest.raises(TypeError, match="LogisticDuels learns from; EstimatorDuels needs all rows"):
        DuelRanker(LogisticRegression()).fit(X, y)
    with pytest.raises(TypeError, match="X must be rows in memory"):
        ranker.fit(table[FEATURES], table["team"]).duels_.margins(X)
    with pytest.raises(ValueError, match="got 2 partitions for 3: take both from one"):
        ranker.fit(X, y.repartition(npartitions=2))


def test_what_a_killed_process_left_behind_is_no_obstacle(table, ranker, tmp_path):
    ranker.fit(table[FEATURES], table["team"])
    left = tmp_path / f"{UNFINISHED}0123"
    left.mkdir()
    (left / "part-00000.parquet").touch()
    X = RowBlocks.from_array(table[FEATURES], 300)
    assert len(write_rankings(ranker, X, tmp_path)) == 2
    write_rankings(ranker, X, tmp_path, overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


def test_margins_of_a_label_with_most_rows_are_made_in_parts(table, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.9, 0, rng.integers(0, 5, 600))
    X = table[FEATURES].to_numpy()
    expected = LogisticDuels(tol=1e-12).fit(X, y, 5)
    sizes = []
    kernels = vars(_passes.kernels)

    def noted(batch, coef, dtype):
        margins = kernels["folded_margins"](batch, coef, dtype)
        sizes.append(margins.size)
        return margins

    # Only passes use these kernels: the sample in memory is none of their business.
    noting = SimpleNamespace(**(kernels | {"folded_margins": noted}))
    monkeypatch.setattr(_passes, "kernels", noting)
    monkeypatch.setattr(_passes, "MARGINS_AT_ONCE", 400)
    duels = LogisticDuels().fit(RowBlocks.from_array(X, 300), RowBlocks.from_array(y, 300), 5)
    assert max(sizes) <= 400
    np.testing.assert_allclose(duels.coef_, expected.coef_, atol=1e-4)
