"""The engine that suits the data is chosen on held-out rows, and fitted on all."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError

from duelrank import (
    AnchoredDuels,
    AutoDuels,
    DuelRanker,
    ForestDuels,
    LogisticDuels,
    StumpDuels,
    load,
    save,
)
from duelrank.duels import DuelEngine
from duelrank.duels._auto import _first_of_the_best, _hold_out, _tau_of_sparse_ranks
from duelrank.feedback import SparseRanks
from duelrank.losses import kendall_tau_of_known_pairs
from duelrank.rankings import ranks_from_choices, ranks_from_lists, ranks_from_scores

X, Y = load_iris(return_X_y=True)


def rings(n=300):
    """Three labels by distance from the centre, which no linear model can tell apart."""
    rng = np.random.RandomState(0)
    points = rng.randn(n, 2)
    return points, np.digitize((points**2).sum(axis=1), [0.6, 2.0])


def few_trees():
    return {"linear": LogisticDuels(), "forest": ForestDuels(10)}


def test_a_forest_is_chosen_where_linear_duels_fail():
    points, y = rings()
    engine = DuelRanker(AutoDuels(few_trees()), random_state=0).fit(points, y).duels_
    assert engine.chosen_ == "forest"
    assert isinstance(engine.engine_, ForestDuels)
    scores = {trial["name"]: trial["score"] for trial in engine.trials_}
    assert scores["forest"] > scores["linear"] + 0.1
    assert all(trial["seconds"] > 0 for trial in engine.trials_)
    assert engine.n_held_out_ == len(y) // 5


def test_the_chosen_engine_learns_from_all_rows():
    ranker = DuelRanker(AutoDuels({"linear": LogisticDuels(3.0)}), random_state=0).fit(X, Y)
    alone = DuelRanker(LogisticDuels(3.0), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(ranker.decision_function(X), alone.decision_function(X))
    np.testing.assert_array_equal(ranker.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(ranker.predict_top(X, 2), alone.predict_top(X, 2))
    assert ranker.duels_.n_features_in_ == 4


def test_strengths_are_chosen_by_default():
    points, y = make_classification(
        200, 8, n_informative=6, n_classes=4, n_clusters_per_class=1, random_state=0
    )
    engine = DuelRanker(AutoDuels(), random_state=0).fit(points, y).duels_
    assert [trial["name"] for trial in engine.trials_] == ["logistic", "anchored", "forest"]
    assert not hasattr(engine.engine_, "Cs")  # nothing is left to search
    on_sparse = DuelRanker(AutoDuels(), random_state=0).fit(sparse.csr_array(points), y).duels_
    assert [trial["name"] for trial in on_sparse.trials_] == ["anchored", "logistic"]


def test_the_first_within_one_standard_error_is_taken():
    rng = np.random.RandomState(0)
    best = rng.rand(100)
    noise = rng.randn(100)
    close = best - 0.01 * (noise - noise.mean()) - 0.0005  # half a standard error behind
    far = best - 0.3
    ones = np.ones(100)
    assert _first_of_the_best({"close": close, "best": best}, ones) == "close"
    assert _first_of_the_best({"far": far, "close": close, "best": best}, ones) == "close"
    assert _first_of_the_best({"far": far, "best": best}, ones) == "best"
    far[:50] = np.nan  # rows that tell nothing
    assert _first_of_the_best({"far": far, "best": best}, ones) == "best"
    silent = np.full(900, np.nan)  # they make no difference surer
    told = {name: np.append(of_rows, silent) for name, of_rows in (("close", close), ("b", best))}
    assert _first_of_the_best(told, np.ones(1000)) == "close"


@pytest.mark.parametrize("engine", [None, {"stumps": StumpDuels()}], ids=["default", "stumps"])
def test_rankings_and_choices(engine):
    rng = np.random.RandomState(0)
    points = rng.randn(80, 1 if engine else 3)
    ranks = ranks_from_scores(points @ rng.randn(points.shape[1], 4)).astype(float)
    ranker = DuelRanker(AutoDuels(engine), random_state=0).fit(points, ranks)
    assert "Kendall" in ranker.duels_.score_name_
    assert ranker.duels_.trials_[0]["score"] > 0.5
    shown = [rng.permutation(4)[:2].tolist() for _ in range(80)]
    picked = [min(row, key=lambda label, i=i: ranks[i, label]) for i, row in enumerate(shown)]
    choices = ranks_from_choices(shown, picked, range(4), sparse=True)
    of_choices = DuelRanker(AutoDuels(engine), unplaced="unknown", random_state=0)
    assert of_choices.fit(points, choices).duels_.trials_[0]["score"] > 0.4
    assert "Kendall" in of_choices.duels_.score_name_


@pytest.mark.parametrize("unplaced", ["unknown", "behind"])
def test_sparse_ranks_are_scored_like_dense_ones(unplaced):
    rng = np.random.RandomState(0)
    lists = [rng.permutation(7)[: rng.randint(1, 6)].tolist() for _ in range(60)]
    lists[3] = [2]
    feedback = SparseRanks(ranks_from_lists(lists, range(7), sparse=True), unplaced)
    ranks = ranks_from_scores(rng.randn(60, 7))
    expected = kendall_tau_of_known_pairs(feedback.dense(), ranks)
    np.testing.assert_allclose(_tau_of_sparse_ranks(feedback, ranks), expected)


def test_the_same_seed_gives_the_same_whatever_the_jobs():
    points, y = rings(150)
    one, two = (
        DuelRanker(AutoDuels(few_trees(), n_jobs=jobs), random_state=3).fit(points, y)
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.decision_function(points), two.decision_function(points))
    assert [t["score"] for t in one.duels_.trials_] == [t["score"] for t in two.duels_.trials_]


def test_weights_matter():
    weights = np.where(Y == 2, 0.0, 1.0)
    engine = AutoDuels({"linear": LogisticDuels()}, random_state=0).fit(X, Y, 3, weights)
    alone = LogisticDuels().fit(X, Y, 3, weights)
    np.testing.assert_array_equal(engine.margins(X), alone.margins(X))


@pytest.mark.parametrize("seed", range(5))
def test_held_out_rows_are_a_share_of_every_label(seed):
    rng = np.random.RandomState(seed)
    codes = rng.permutation(np.repeat([0, 1, 2], [50, 10, 3]))
    train, test = _hold_out(codes, 0.2, 1000, rng)
    counts = np.bincount(codes[test], minlength=3)
    assert np.all(np.abs(counts - [10, 2, 0.6]) < 1.5)
    assert sorted([*train, *test]) == list(range(63))
    # Rare labels have their share together, and one row of each is learned from.
    rare = rng.permutation(np.repeat(np.arange(400), 4))
    train, test = _hold_out(rare, 0.2, 10_000, rng)
    assert abs(len(test) - 0.75 * 0.2 * 1600) < 100
    assert set(rare[train]) == set(range(400))


def test_few_rows_are_held_out_of_few():
    codes = np.repeat([0, 1, 2], [50, 10, 3])
    few, _ = _hold_out(codes, 0.2, 20, np.random.RandomState(0))
    assert len(few) == 20
    train, test = _hold_out(np.arange(6), 0.2, 1000, np.random.RandomState(0))
    assert (len(train), len(test)) == (5, 1)


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_handful_of_rows():
    ranker = DuelRanker(AutoDuels(), random_state=0).fit(X[::30], Y[::30])
    assert ranker.predict_order(X).shape == (150, 3)


def test_methods_are_those_of_the_chosen_engine():
    class Bare(LogisticDuels):
        wins = top_wins = probabilities = margins_and_probabilities = property()

    points, y = rings(60)
    bare = AutoDuels({"bare": Bare()}, random_state=0)
    assert isinstance(bare, DuelEngine)
    assert not hasattr(bare, "wins")
    assert not hasattr(bare.fit(points, y, 3), "probabilities")
    full = AutoDuels(random_state=0)
    assert hasattr(full, "probabilities")
    assert not hasattr(DuelRanker(bare, random_state=0).fit(points, y), "predict_proba")


def test_it_is_saved_and_loaded(tmp_path):
    pytest.importorskip("skops")
    points, y = rings(100)
    ranker = DuelRanker(AutoDuels(few_trees()), random_state=0).fit(points, y)
    save(ranker, tmp_path / "m.skops")
    same = load(tmp_path / "m.skops")
    np.testing.assert_array_equal(same.predict_ranks(points), ranker.predict_ranks(points))
    assert same.duels_.trials_ == ranker.duels_.trials_
    for name, value in (("n_classes_", 4), ("engine_", None), ("engine_", same.duels_)):
        altered = clone(same.duels_)
        vars(altered).update(vars(same.duels_) | {name: value})
        with pytest.raises(ValueError, match="not counted right"):
            altered.check_fitted(3)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"test_size": 1.5}, "test_size must be between 0 and 1, got 1.5"),
        ({"max_rows": 0}, "max_rows"),
        ({"candidates": {}}, "candidates must be a dictionary of engines by name"),
        ({"candidates": {"a": 3}}, r"candidates\['a'\] must be a duel engine, got 3"),
        ({"candidates": {"a": LogisticDuels}}, r"candidates\['a'\] must be a duel engine"),
        ({"candidates": {"a": AutoDuels()}}, r"candidates\['a'\] must be a duel engine"),
        ({"test_size": "a"}, "test_size must be between 0 and 1, got 'a'"),
    ],
)
def test_bad_arguments_are_named(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        AutoDuels(**params).fit(X, Y, 3)


def test_many_labels_do_without_independent_duels():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(301), 2)
    points = sparse.csr_array(np.eye(301)[y] + 0.01 * rng.randn(602, 301))
    engine = AutoDuels(random_state=0).fit(points, y, 301)
    assert [trial["name"] for trial in engine.trials_] == ["anchored"]
    assert isinstance(engine.engine_, AnchoredDuels)


def test_large_dense_tables_do_without_anchored_duels(monkeypatch):
    monkeypatch.setattr("duelrank.duels._auto.MUCH_WORK", 100)
    engine = AutoDuels(random_state=0).fit(X, Y, 3)
    assert [trial["name"] for trial in engine.trials_] == ["logistic", "forest"]


def test_rows_without_weight_change_nothing():
    points, y = rings(150)
    noise = np.random.RandomState(1).randn(100, 2)
    more, labels = np.vstack([points, noise]), np.concatenate([y, np.arange(100) % 3])
    weights = np.concatenate([np.full(150, 2.0), np.zeros(100)])
    alone = AutoDuels(few_trees(), random_state=0).fit(points, y, 3)
    among = AutoDuels(few_trees(), random_state=0).fit(more, labels, 3, weights)
    for one, other in zip(alone.trials_, among.trials_, strict=True):
        assert one["score"] == pytest.approx(other["score"], abs=0.1)
    assert among.n_held_out_ == alone.n_held_out_
    # Neither do they change the strengths that are tried.
    text = sparse.csr_array(np.abs(points))
    longer = sparse.csr_array(np.vstack([np.abs(points), 1e4 * np.abs(noise)]))
    alone = AutoDuels(random_state=0).fit(text, y, 3).engine_
    among = AutoDuels(random_state=0).fit(longer, labels, 3, weights).engine_
    assert type(alone) is type(among)
    assert 0.05 < among.C / alone.C < 20  # it was 1e-7


def test_a_fit_that_fails_leaves_nothing_behind():
    engine = AutoDuels({"linear": LogisticDuels()}, random_state=0).fit(X, Y, 3)
    engine.set_params(candidates={"linear": LogisticDuels(C=-1)})
    with pytest.raises(ValueError, match="C must be"):
        engine.fit(np.hstack([X, X]), Y, 3)
    with pytest.raises(NotFittedError):
        engine.margins(X)


def test_dataframes_with_names():
    frame = load_iris(as_frame=True).data
    ranker = DuelRanker(AutoDuels({"linear": LogisticDuels()}), random_state=0).fit(frame, Y)
    assert ranker.predict(frame).shape == (150,)
    with pytest.raises(ValueError, match="feature names"):
        ranker.duels_.margins(frame.iloc[:, ::-1])


@pytest.mark.parametrize("kind", ["labels", "rankings"])
def test_forests_are_no_candidate_for_many_labels(kind, monkeypatch):
    monkeypatch.setattr("duelrank.duels._auto.MANY_LABELS_OF_TREES", 2)
    monkeypatch.setattr("duelrank.duels._auto.MANY_RANKED_LABELS", 2)
    feedback = Y if kind == "labels" else np.argsort(X[:, :3], axis=1).argsort(axis=1) + 1.0
    engine = AutoDuels(random_state=0).fit(X, feedback, 3)
    assert [trial["name"] for trial in engine.trials_] == ["logistic", "anchored"]
    monkeypatch.setattr("duelrank.duels._auto.MANY_LABELS", 2)
    monkeypatch.setattr("duelrank.duels._auto.MUCH_WORK", 1)
    engine = AutoDuels(random_state=0).fit(X, feedback, 3)
    assert [trial["name"] for trial in engine.trials_] == ["anchored"]
