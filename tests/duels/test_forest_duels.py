"""Forests that fight all duels, against loops over trees, nodes and duels."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from duelrank import DuelRanker, ForestDuels, pairs
from duelrank._pairs import square
from duelrank.duels import _forest
from duelrank.feedback import feedback_from_codes
from duelrank.tournaments import beats_from_margins
from random_duels import feedback_of_every_kind

N_CLASSES = 4
KINDS = ["labels", "full", "lossy", "lists"]
MANY_CLASSES = 12
UNSEEN = [4, 9, 11]  # labels that no row has


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 3)).astype(np.float32)
    codes = np.clip((X[:, 0] + X[:, 1] + 2).astype(int), 0, N_CLASSES - 1)
    return X, feedback_of_every_kind(rng, codes, N_CLASSES)


@pytest.fixture
def many_labels(rng):
    """Points and codes; no row has the labels `UNSEEN`."""
    X = rng.normal(size=(90, 3)).astype(np.float32)
    seen = np.setdiff1d(np.arange(MANY_CLASSES), UNSEEN)
    place = np.clip(3 * np.abs(X[:, 0]) + 2 * np.abs(X[:, 1]), 0, len(seen) - 1).astype(int)
    return X, seen[np.where(rng.random(90) < 0.2, rng.integers(len(seen), size=90), place)]


@pytest.fixture(params=[(1, 7), (2_000, 20)], ids=str)
def small_tables(request, monkeypatch):
    """Tables of one tree each, or of some, and of some duels."""
    size, width = request.param
    monkeypatch.setattr(_forest, "TABLE_SIZE", size)
    monkeypatch.setattr(_forest, "TABLE_WIDTH", width)
    monkeypatch.setattr(_forest, "MOST_POINTS", 50)


def as_ranks(feedback, n_classes=N_CLASSES):
    return feedback_from_codes(feedback, n_classes) if feedback.ndim == 1 else feedback


def weights_in_tree(forest, number, weights):
    """Return what the rows weigh in a tree; what its nodes weigh tells how they were counted."""
    tree = forest.estimators_[number]
    drawn = np.bincount(forest.estimators_samples_[number], minlength=len(weights)) * 1.0
    if not np.isclose(drawn.sum(), tree.tree_.weighted_n_node_samples[0]):
        drawn *= weights  # scikit-learn < 1.9
    return drawn


def path(tree, point):
    """Return the nodes that a point passes, from the root to its leaf."""
    nodes = [0]
    while tree.children_left[nodes[-1]] >= 0:
        at = nodes[-1]
        goes_left = point[tree.feature[at]] <= tree.threshold[at]
        nodes.append((tree.children_left if goes_left else tree.children_right)[at])
    return nodes


def naive_probabilities(engine, X, feedback, weights, points, counts):
    """Average over the trees for which `counts(point number, row weights in tree)` is true."""
    n_classes = engine.n_classes_
    ranks = as_ranks(feedback, n_classes)
    tells = [
        w > 0 and any(a < b for a in r for b in r) for r, w in zip(ranks, weights, strict=True)
    ]
    X, ranks, weights = X[tells], ranks[tells], weights[tells] / weights[tells].mean()
    trees = []
    for number, estimator in enumerate(engine.forest_.estimators_):
        tree, drawn = estimator.tree_, weights_in_tree(engine.forest_, number, weights)
        passed = np.zeros((len(X), tree.node_count), dtype=bool)
        for row, point in enumerate(X):
            passed[row, path(tree, point)] = True
        np.testing.assert_allclose(drawn @ passed, tree.weighted_n_node_samples)
        trees.append((drawn, passed, [path(tree, point) for point in points]))
    result = np.zeros((len(points), len(pairs(n_classes)[0])))
    for duel, (first, second) in enumerate(zip(*pairs(n_classes), strict=True)):
        wins, losses = ranks[:, second] < ranks[:, first], ranks[:, second] > ranks[:, first]
        prior = (weights[wins].sum() + 0.5) / (weights[wins | losses].sum() + 1)
        found = [[] for _ in points]
        for drawn, passed, paths in trees:
            won, lost = (drawn[rows] @ passed[rows] for rows in (wins, losses))
            for row, nodes in enumerate(paths):
                if not counts(row, drawn):
                    continue
                chance = prior
                for node in nodes:
                    fought = won[node] + lost[node]
                    chance = (won[node] + engine.shrinkage * chance) / (fought + engine.shrinkage)
                found[row].append(chance)
        result[:, duel] = [np.mean(chances) if chances else prior for chances in found]
    return result


def log_odds(probabilities):
    bounded = np.clip(probabilities, 0.01, 0.99)
    return np.log(bounded / (1 - bounded))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_those_of_a_loop_over_nodes(table, rng, kind, weighted):
    X, feedback = table[0], table[1][kind]
    weights = rng.integers(4, size=len(X)) * 0.3 if weighted else np.ones(len(X))
    engine = ForestDuels(4, min_samples_leaf=3, shrinkage=0.7, random_state=0)
    engine.fit(X, feedback, N_CLASSES, sample_weight=weights if weighted else None)
    points = rng.normal(size=(9, 3)).astype(np.float32)
    expected = naive_probabilities(engine, X, feedback, weights, points, lambda row, drawn: True)
    np.testing.assert_allclose(engine.probabilities(points), expected, atol=1e-5)
    margins, probabilities = engine.margins_and_probabilities(points)
    np.testing.assert_array_equal(probabilities, engine.probabilities(points))
    np.testing.assert_array_equal(margins, engine.margins(points))
    np.testing.assert_allclose(margins, log_odds(expected), atol=1e-3)


@pytest.mark.parametrize("random_splits", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_held_out_margins_are_those_of_trees_that_have_not_seen_the_row(table, kind, random_splits):
    X, feedback = table[0], table[1][kind]
    engine = ForestDuels(3, random_splits=random_splits, random_state=1)
    engine.fit(X, feedback, N_CLASSES)
    silent = [not any(a < b for a in ranks for b in ranks) for ranks in as_ranks(feedback)]
    number = np.cumsum(~np.array(silent)) - 1  # among the rows that say something

    def has_not_seen(row, drawn):
        return not silent[row] and drawn[number[row]] == 0

    expected = naive_probabilities(engine, X, feedback, np.ones(len(X)), X, has_not_seen)
    np.testing.assert_allclose(engine.held_out_margins(), log_odds(expected), atol=1e-3)
    prior = log_odds(engine._prior)
    seen_by_all = (engine.held_out_margins() == prior).all(axis=1)
    assert 0 < seen_by_all.sum() < len(X)


@pytest.mark.parametrize("kind", KINDS)
def test_trees_can_be_looked_up_in_several_tables(table, kind, monkeypatch):
    X, feedback = table[0], table[1][kind]
    engine = ForestDuels(10, random_state=0).fit(X, feedback, N_CLASSES)
    at_once, held_out = engine.probabilities(X), engine.held_out_margins()
    assert not hasattr(engine, "wins")
    for size, width, n_batches in ((1, 1, 10), (400, 2, None)):
        monkeypatch.setattr(_forest, "TABLE_SIZE", size)
        monkeypatch.setattr(_forest, "TABLE_WIDTH", width)
        assert hasattr(engine, "wins")
        batches = list(engine._tree_batches(engine.forest_.apply(X)))
        assert len(batches) == n_batches or 1 < len(batches) < 10
        assert [t for batch in batches for t in range(10)[batch.trees]] == list(range(10))
        np.testing.assert_allclose(engine.probabilities(X), at_once, atol=1e-6)
        np.testing.assert_allclose(engine.held_out_margins(), held_out, atol=1e-4)


@pytest.mark.parametrize("random_splits", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_labels_are_those_of_a_loop_over_nodes(
    many_labels, rng, weighted, random_splits, small_tables
):
    X, codes = many_labels
    weights = rng.integers(4, size=len(X)) * 0.3 if weighted else np.ones(len(X))
    engine = ForestDuels(3, random_splits=random_splits, shrinkage=0.7, random_state=0)
    engine.fit(X, codes, MANY_CLASSES, sample_weight=weights if weighted else None)
    assert not engine._fits_in_one_table()
    points = rng.normal(size=(9, 3)).astype(np.float32)
    expected = naive_probabilities(engine, X, codes, weights, points, lambda row, drawn: True)
    np.testing.assert_allclose(engine.probabilities(points), expected, atol=1e-5)
    np.testing.assert_allclose(engine.margins(points), log_odds(expected), atol=1e-3)


def test_many_labels_are_held_out(many_labels, small_tables):
    X, codes = many_labels
    engine = ForestDuels(3, random_state=1).fit(X, codes, MANY_CLASSES)
    expected = naive_probabilities(
        engine, X, codes, np.ones(len(X)), X, lambda row, drawn: drawn[row] == 0
    )
    np.testing.assert_allclose(engine.held_out_margins(), log_odds(expected), atol=1e-3)
    seen_by_all = (engine.held_out_margins() == log_odds(engine._prior)).all(axis=1)
    assert 0 < seen_by_all.sum() < len(X)


def test_wins_are_those_of_the_margins(many_labels, rng, small_tables):
    """Duels between labels that no row has are ties, which go by the label order."""
    X, codes = many_labels
    engine = ForestDuels(5, random_state=0).fit(X, codes, MANY_CLASSES)
    margins, probabilities = engine.margins_and_probabilities(X)
    assert (np.count_nonzero(margins == 0, axis=1) >= 3).all()
    for label_order in (np.arange(MANY_CLASSES), rng.permutation(MANY_CLASSES)):
        # Labels renamed by the order: a margin of 0 goes to the lower code.
        renamed = square(margins, MANY_CLASSES)[:, label_order][:, :, label_order]
        first, second = pairs(MANY_CLASSES)
        beats = beats_from_margins(renamed[:, second, first], MANY_CLASSES)
        expected_wins = (square(probabilities - 0.5, MANY_CLASSES) + 0.5).sum(axis=2) - 0.5
        wins, expected = engine.wins(X, label_order)
        np.testing.assert_array_equal(wins[:, label_order], beats.sum(axis=2))
        np.testing.assert_allclose(expected, expected_wins, atol=1e-12)
        alone, _ = engine.wins(X, label_order, with_expected=False)
        np.testing.assert_array_equal(alone, wins)
        unseen = [label for label in label_order if label in UNSEEN]
        assert (np.diff(wins[:, unseen], axis=1) == -1).all()


@pytest.mark.parametrize("n_tables", ["one table", "several tables"])
def test_labels_can_have_other_names(many_labels, rng, n_tables, request):
    if n_tables == "several tables":
        request.getfixturevalue("monkeypatch").setattr(_forest, "TABLE_SIZE", 1)
    X, codes = many_labels
    new_name = rng.permutation(MANY_CLASSES)
    before, after = (
        square(
            ForestDuels(5, random_state=0).fit(X, c, MANY_CLASSES).probabilities(X) - 0.5,
            MANY_CLASSES,
        )
        for c in (codes, new_name[codes])
    )
    np.testing.assert_allclose(after[:, new_name][:, :, new_name], before, atol=1e-6)


@pytest.mark.parametrize(
    ("random_splits", "classifier", "regressor"),
    [
        (False, RandomForestClassifier, RandomForestRegressor),
        (True, ExtraTreesClassifier, ExtraTreesRegressor),
    ],
)
def test_labels_grow_the_trees_of_net_wins(table, random_splits, classifier, regressor):
    X, codes = table[0], table[1]["labels"]
    settings = {"max_features": 0.5, "min_samples_leaf": 4, "max_samples": len(X)}
    engine = ForestDuels(5, random_splits=random_splits, min_samples_leaf=4, random_state=0)
    engine.fit(X, codes, N_CLASSES)
    assert type(engine.forest_) is classifier
    net_wins = N_CLASSES * (codes[:, np.newaxis] == np.arange(N_CLASSES)) - 1
    forest = regressor(5, bootstrap=True, random_state=0, **settings)
    forest.fit(X, net_wins, sample_weight=np.ones(len(X)))  # weights change which rows are drawn
    np.testing.assert_array_equal(engine.forest_.apply(X), forest.apply(X))
    ranks = ForestDuels(5, random_splits=random_splits, random_state=0)
    assert type(ranks.fit(X, table[1]["full"], N_CLASSES).forest_) is regressor


def test_many_labels_are_saved_and_loaded(many_labels, small_tables, tmp_path):
    pytest.importorskip("skops.io")
    from duelrank.storage import load, save

    X, codes = many_labels
    ranker = DuelRanker(ForestDuels(5), classes=np.arange(MANY_CLASSES), random_state=0)
    ranker.fit(X, codes)
    save(ranker, tmp_path / "model.skops")
    same = load(tmp_path / "model.skops")
    for method in ("decision_function", "predict_proba", "predict_ranks"):
        assert getattr(same, method)(X).tobytes() == getattr(ranker, method)(X).tobytes()
    held_out = ranker.duels_.held_out_margins()
    np.testing.assert_array_equal(same.duels_.held_out_margins(), held_out)


@pytest.mark.parametrize("kind", ["full", "labels"])
def test_the_number_of_jobs_changes_no_byte(table, kind):
    X, feedback = table[0], table[1][kind]
    alone, together = (
        ForestDuels(8, n_jobs=n_jobs, random_state=0).fit(X, feedback, N_CLASSES)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(alone.probabilities(X), together.probabilities(X))
    np.testing.assert_array_equal(alone.held_out_margins(), together.held_out_margins())
    other = ForestDuels(8, random_state=1).fit(X, feedback, N_CLASSES)
    assert (alone.margins(X) != other.margins(X)).any()


def test_a_point_does_not_depend_on_its_batch(table):
    X, feedback = table[0], table[1]["full"]
    engine = ForestDuels(8, random_state=0).fit(X, feedback, N_CLASSES)
    one_by_one = np.vstack([engine.margins(X[[row]]) for row in range(10)])
    np.testing.assert_array_equal(engine.margins(X)[:10], one_by_one)


def test_a_point_of_many_labels_does_not_depend_on_its_batch(many_labels, small_tables):
    X, codes = many_labels
    engine = ForestDuels(8, random_state=0).fit(X, codes, MANY_CLASSES)
    one_by_one = np.vstack([engine.margins(X[[row]]) for row in range(10)])
    np.testing.assert_array_equal(engine.margins(X)[:10], one_by_one)
    label_order = np.arange(MANY_CLASSES)
    for number, of_all in enumerate(engine.wins(X, label_order)):
        one_by_one = np.vstack([engine.wins(X[[row]], label_order)[number] for row in range(10)])
        np.testing.assert_array_equal(of_all[:10], one_by_one)


def test_labels_that_weigh_nothing_are_left_out(many_labels, rng):
    X, codes = many_labels
    weights = rng.integers(3, size=len(X)) * 0.5
    left = weights > 0
    every = ForestDuels(5, random_state=0).fit(X, codes, MANY_CLASSES, sample_weight=weights)
    fewer = ForestDuels(5, random_state=0)
    fewer.fit(X[left], codes[left], MANY_CLASSES, sample_weight=weights[left])
    np.testing.assert_array_equal(every.probabilities(X), fewer.probabilities(X))
    np.testing.assert_array_equal(every.held_out_margins()[left], fewer.held_out_margins())
    prior = np.tile(log_odds(every._prior), ((~left).sum(), 1))
    np.testing.assert_array_equal(every.held_out_margins()[~left], prior)


def test_rows_that_say_or_weigh_nothing_are_left_out(table, rng):
    X, ranks = table[0], table[1]["full"].copy()
    weights = rng.uniform(0.5, 2, size=len(X))
    ranks[5], ranks[6], ranks[7] = np.nan, 2.5, [1, np.nan, np.nan, np.nan]
    weights[[0, 10, 59]] = 0
    left = np.setdiff1d(np.arange(len(X)), [0, 5, 6, 7, 10, 59])
    every = ForestDuels(5, random_state=0).fit(X, ranks, N_CLASSES, sample_weight=weights)
    fewer = ForestDuels(5, random_state=0)
    fewer.fit(X[left], ranks[left], N_CLASSES, sample_weight=weights[left])
    np.testing.assert_array_equal(every.probabilities(X), fewer.probabilities(X))
    held_out = every.held_out_margins()
    np.testing.assert_array_equal(held_out[left], fewer.held_out_margins())
    np.testing.assert_array_equal(held_out[[0, 5, 6, 7]], np.tile(log_odds(every._prior), (4, 1)))


def test_only_the_ratios_of_weights_matter_that_are_no_counts(table, rng):
    X, feedback = table[0], table[1]["labels"]
    weights = rng.integers(1, 5, size=len(X)) + 0.5
    one, other = (
        ForestDuels(5, random_state=0).fit(X, feedback, N_CLASSES, sample_weight=w).margins(X)
        for w in (weights, weights / 1024)
    )
    np.testing.assert_array_equal(one, other)


def test_heavy_rows_count_once_for_each_unit_of_weight(rng):
    """In one leaf, 300 rows of weight 3 won by the first label and 300 of weight 1 by the second.

    The share of the second is 1/4; a tree draws 600 rows, and the mean over 50 trees has a standard
    error of at most √(3/16 / 600 / 50) = 0.0025 (of rows that are weighted after they were drawn at
    most twice that).
    """
    codes = np.repeat([0, 1], 300)
    engine = ForestDuels(50, random_state=0)
    engine.fit(np.zeros((600, 1)), codes, 2, sample_weight=np.where(codes == 0, 3.0, 1.0))
    assert engine.probabilities([[0.0]])[0, 0] == pytest.approx(0.25, abs=4 * 0.005)


def test_duels_without_any_row_are_open():
    X, codes = np.arange(6.0)[:, np.newaxis], np.array([0, 0, 0, 2, 2, 2])
    engine = ForestDuels(5, random_state=0).fit(X, codes, N_CLASSES)
    between_unseen = list(zip(*pairs(N_CLASSES), strict=True)).index((1, 3))
    assert (engine.probabilities(X)[:, between_unseen] == 0.5).all()
    assert (engine.margins(X)[:, between_unseen] == 0).all()
    assert (engine.held_out_margins()[:, between_unseen] == 0).all()


def test_rows_that_all_say_nothing_leave_all_duels_open():
    engine = ForestDuels(3, random_state=0).fit(np.eye(4), np.full((4, 3), np.nan), 3)
    np.testing.assert_array_equal(engine.margins(np.eye(4)), np.zeros((4, 3)))
    np.testing.assert_array_equal(engine.held_out_margins(), np.zeros((4, 3)))


def test_labels_are_rankings_of_one_label(table):
    X, codes = table[0], table[1]["labels"]
    labels = ForestDuels(5, random_state=0).fit(X, codes, N_CLASSES)
    ranks = ForestDuels(5, random_state=0).fit(X, feedback_from_codes(codes, N_CLASSES), N_CLASSES)
    np.testing.assert_array_equal(labels.margins(X), ranks.margins(X))


def test_forests_are_cloned_and_pickled(table):
    X, feedback = table[0], table[1]["full"]
    engine = ForestDuels(5, random_splits=True, shrinkage=2.0, random_state=0)
    engine.fit(X, feedback, N_CLASSES)
    assert clone(engine).get_params() == engine.get_params()
    again = pickle.loads(pickle.dumps(engine))
    np.testing.assert_array_equal(again.margins(X), engine.margins(X))
    np.testing.assert_array_equal(again.held_out_margins(), engine.held_out_margins())
    same = clone(engine).fit(X, feedback, N_CLASSES)
    np.testing.assert_array_equal(same.margins(X), engine.margins(X))


def test_few_rows_can_be_drawn_for_a_tree(table):
    X, feedback = table[0], table[1]["full"]
    engine = ForestDuels(4, max_samples=7, random_state=0).fit(X, feedback, N_CLASSES)
    for tree in engine.forest_.estimators_:
        assert tree.tree_.n_node_samples[0] <= 7
    with pytest.raises(ValueError, match="max_samples"):
        ForestDuels(max_samples=0.5).fit(X, feedback, N_CLASSES)


def test_the_ranker_seeds_the_forest(iris):
    X, y = iris
    one, same, other = (
        DuelRanker(ForestDuels(5), random_state=seed).fit(X, y).decision_function(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a positive integer, got 0"),
        ({"n_estimators": True}, "n_estimators must be a positive integer, got True"),
        ({"max_samples": -1}, "max_samples must be a positive integer, got -1"),
        ({"shrinkage": 0}, "shrinkage must be a positive number, got 0"),
        ({"shrinkage": "all"}, "shrinkage must be a positive number, got 'all'"),
        ({"shrinkage": np.inf}, "shrinkage must be a positive number, got inf"),
    ],
)
def test_wrong_settings_are_named(iris, settings, message):
    with pytest.raises(ValueError, match=message):
        ForestDuels(**settings).fit(*iris, n_classes=3)


@pytest.mark.parametrize("kind", ["labels", "lossy"])
def test_leaf_probabilities_are_those_of_points(kind, rng):
    X = rng.normal(size=(80, 3))
    feedback = feedback_of_every_kind(rng, np.arange(80) % 4, 4)[kind]
    engine = ForestDuels(7, random_state=0).fit(X, feedback, 4)
    table, rows = engine.leaf_probabilities()
    leaves = engine.forest_.apply(X.astype(np.float32))
    places = np.stack([of_tree[leaf] for of_tree, leaf in zip(rows, leaves.T, strict=True)])
    assert places.min() >= 0
    assert sorted(np.concatenate([of_tree[of_tree >= 0] for of_tree in rows])) == list(
        range(len(table))
    )
    np.testing.assert_allclose(table[places].mean(axis=0), engine.probabilities(X), atol=1e-6)
