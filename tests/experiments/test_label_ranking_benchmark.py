import os

import numpy as np
import pytest

from duelrank import pairs
from duelrank.feedback import check_feedback, outcomes
from experiments import journal, label_ranking, label_ranking_tables, results
from experiments.label_ranking import DATA_SETS, METHODS, REGIMES

needs_data = pytest.mark.skipif(
    "DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder"
)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Keep journals and results of a test to itself."""
    monkeypatch.setattr(journal, "FOLDER", tmp_path / "journals")
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def truth(rng):
    return np.argsort(rng.random((2_000, 5)), axis=1) + 1.0


@pytest.mark.parametrize(("regime", "share"), label_ranking.MISSING.items())
def test_places_are_missing_at_random_and_the_same_for_all(truth, regime, share):
    seen = label_ranking.feedback(truth, regime, repeat=0)
    missing = np.isnan(seen)
    # The order of what is left is the true one.
    said = outcomes(seen)
    np.testing.assert_array_equal(said[said != 0], outcomes(truth)[said != 0])
    first, second = pairs(5)
    np.testing.assert_array_equal(said == 0, missing[:, first] | missing[:, second])
    error = np.sqrt(share * (1 - share) / len(truth))
    assert np.all(np.abs(missing.mean(axis=0) - share) < 4 * error)
    # First places are missing as often as last ones.
    assert abs(missing[truth == 1].mean() - missing[truth == 5].mean()) < 6 * error
    np.testing.assert_array_equal(label_ranking.feedback(truth, regime, repeat=0), seen)
    assert np.any(np.isnan(label_ranking.feedback(truth, regime, repeat=1)) != missing)


def test_top_feedback_tells_the_first_label_and_nothing_else(truth):
    seen = label_ranking.feedback(truth, "top", repeat=0)
    np.testing.assert_array_equal(seen == 1, truth == 1)
    np.testing.assert_array_equal(seen == 2, truth != 1)


@needs_data
def test_truths_of_all_sets_are_feedback():
    for data in ("ranks/iris", "posteriors/iris", "posteriors/breast"):
        _, ranks = label_ranking.load(data)
        check_feedback(ranks)
        assert np.all((ranks == 1).sum(axis=1) == 1)
    assert np.any(ranks == np.roll(ranks, 1, axis=1))  # posteriors tie


@needs_data
def test_no_set_is_left_out():
    folder = os.path.join(os.environ["DUELRANK_DATA"], "label_ranking")
    there = {
        f"{kind}/{file.removesuffix('.csv')}"
        for kind in ("ranks", "posteriors")
        for file in os.listdir(os.path.join(folder, kind))
    }
    assert sorted(sum(DATA_SETS.values(), ())) == sorted(there)


@needs_data
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("regime", ["missing_60", "top"])
def test_every_method_ranks_better_than_by_chance(monkeypatch, method, regime):
    monkeypatch.setattr(label_ranking, "N_FOLDS", 2)
    monkeypatch.setattr(label_ranking, "TREES", 5)
    monkeypatch.setattr(label_ranking, "TREES_OF_MANY", 5)
    rows = label_ranking.cross_validate("posteriors/iris", method, regime, repeat=0)
    assert [row["fold"] for row in rows] == [0, 1]
    assert all(0.3 < row["tau"] <= 1 for row in rows)
    again = label_ranking.cross_validate("posteriors/iris", method, regime, repeat=0)
    assert [row["tau"] for row in again] == [row["tau"] for row in rows]


def test_differences_are_those_of_the_same_folds():
    taus = {label_ranking.DEFAULT: [0.1, 0.5, 0.3, 0.9], "other": [0.2, 0.6, 0.5]}
    rows = [
        {"data": "ranks/a", "regime": "full", "method": method, "repeat": i // 2, "fold": i % 2}
        | {"tau": tau, "fit_seconds": 1.0, "rank_seconds": 2.0}
        for method, values in taus.items()
        for i, tau in enumerate(values)
    ]
    rows = rows[:4] + rows[:3:-1]  # the other one has not seen the last fold
    default, other = label_ranking.summarise(rows)
    assert (default["difference"], default["difference_se"]) == (0, 0)
    assert other["tau"] == pytest.approx(np.mean(taus["other"]))
    assert other["se"] == pytest.approx(np.std(taus["other"], ddof=1) / np.sqrt(10))
    gaps = [0.1, 0.1, 0.2]
    assert other["difference"] == pytest.approx(np.mean(gaps))
    assert other["difference_se"] == pytest.approx(np.std(gaps, ddof=1) / np.sqrt(10))
    assert (other["repeats"], other["folds"], other["rank_seconds"]) == (2, 3, 2)


def test_who_is_as_good_as_the_best():
    difference = np.array([[0, 0.01, np.nan], [0, -0.2, 0.02], [0, -1, -2], [0, 0.01, 0.03]])
    se = np.array([[1, 0.02, np.nan], [1, 1, 0.01], [1, 1, 1], [1, 1, 0.02]])
    good = label_ranking_tables.as_good(difference, se, [0])
    np.testing.assert_array_equal(good, [True, False, True, False])
    either = label_ranking_tables.as_good(difference, se, [0, 1])
    np.testing.assert_array_equal(either, [True, False, True, True])
    best = label_ranking_tables.as_good(difference, np.zeros((4, 3)), [0])
    np.testing.assert_array_equal(best, [False, False, True, False])
    ranks = label_ranking_tables.average_ranks(difference)
    np.testing.assert_allclose(ranks, [1.5, 1.5, np.nan])


def test_tables_and_figure_come_from_the_results(folders, rng):
    rows = [
        {"data": data, "regime": regime, "method": method}
        | {"repeats": METHODS[method].repeats if data in DATA_SETS["small"] else 1, "folds": 50}
        | {"tau": 1.0 - 0.01 * place if data == "ranks/iris" else rng.random(), "se": 0.0021}
        | {"difference": 0.01 - 0.01 * place, "difference_se": 0.001}
        | {"fit_seconds": 0.1, "rank_seconds": 0.1}
        for data in DATA_SETS["large"] + DATA_SETS["small"]
        for regime in REGIMES
        for place, method in enumerate(METHODS)
        if regime
        in (
            METHODS[method].regimes
            if data in DATA_SETS["small"]
            else METHODS[method].regimes_of_large_sets
        )
    ]
    own = [name for name, method in METHODS.items() if method.is_duelrank]
    results.write("label_ranking", rows, seed=0, default=label_ranking.DEFAULT, duelrank=own)
    label_ranking.draw()
    assert (folders / "label_ranking.png").stat().st_size > 10_000
    page = (folders / "label_ranking.md").read_text()
    (iris, *_) = (line for line in page.splitlines() if line.startswith("| iris | 5 |"))
    assert "**1.000(2)**" in iris
    assert ".990(2)" in iris
    ranks = page.split("## Average ranks")[1].split("##")[0]
    for name, method in METHODS.items():  # who is not everywhere has no average
        everywhere = method.regimes_of_large_sets == method.regimes
        assert ranks.count(f"| {name} |") == (everywhere or "full" in method.regimes_of_large_sets)
    few = [method for method in METHODS if METHODS[method].repeats < label_ranking.N_REPEATS]
    heads = next(line for line in page.splitlines() if line.startswith("| set | R |"))
    assert all(f"| {method} (R = 1) |" in heads for method in few)
    assert heads.count("R = ") == len(few)


def test_results_are_committed():
    table = results.read("label_ranking")
    assert results.settings("label_ranking")["seed"] == label_ranking.SEED
    assert set(table["data"].tolist()) == set(sum(DATA_SETS.values(), ()))
    assert set(table["method"].tolist()) == set(METHODS)
    assert (results.FOLDER / "label_ranking.csv").stat().st_size < 300_000
    for ending in ("svg", "png", "md"):
        assert (results.FOLDER / f"label_ranking.{ending}").stat().st_size > 10_000
