"""The first places of many labels: the same as if all duels were counted."""

from __future__ import annotations

import numpy as np
import pytest

from duelrank import DuelRanker, LogisticDuels, pairs
from duelrank.duels.logistic import _first_places, _linear
from duelrank.duels.logistic._first_places import points_at_once, wins_of_first
from duelrank.duels.logistic._tally import Tally
from duelrank.tournaments._aggregation_and_ties import top_from_wins

K, N_FEATURES = 300, 6


@pytest.fixture(autouse=True)
def few_labels_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_first_places, "OPPONENTS", 20)
    monkeypatch.setattr(_first_places, "AT_A_TIME", 6)
    monkeypatch.setattr(_first_places, "FEWEST_POINTS", 1)


def duels_of_scores(noise: float, seed: int) -> LogisticDuels:
    """Return duels of labels that have scores; noise makes cycles and ties."""
    rng = np.random.default_rng(seed)
    first, second = pairs(K)
    scores = rng.standard_normal((K, N_FEATURES))
    engine = LogisticDuels()
    engine.coef_ = scores[second] - scores[first] + noise * rng.normal(size=(len(first), 6))
    engine.intercept_ = noise * rng.standard_normal(len(first))
    engine.n_classes_, engine.n_features_in_ = K, N_FEATURES
    return engine


def tally_of(engine: LogisticDuels, label_order: np.ndarray) -> Tally:
    return Tally.of(engine.coef_, engine.intercept_, label_order, engine._longest())


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_wins_of_the_first_labels_are_those_of_all_duels(noise: float, k: int) -> None:
    engine, rng = duels_of_scores(noise, seed=k), np.random.default_rng(1)
    points, label_order = rng.standard_normal((90, N_FEATURES)), rng.permutation(K)
    points[0] = 0
    tally = tally_of(engine, label_order)
    wins, of_first = tally.wins(points, False)[0], wins_of_first(tally, points, k)
    kth = np.sort(wins, axis=1)[:, [-k]]
    np.testing.assert_array_equal(of_first[wins >= kth], wins[wins >= kth])
    assert np.all((of_first < kth)[wins < kth])
    assert np.all(of_first >= wins)


def test_most_labels_need_few_duels() -> None:
    """If all duels were counted after all, nothing would be won."""
    engine, label_order = duels_of_scores(0.3, seed=0), np.arange(K)
    points = np.random.default_rng(1).standard_normal((200, N_FEATURES))
    tally = tally_of(engine, label_order)
    at_most = wins_of_first(tally, points, 3)
    assert np.mean(at_most > tally.wins(points, False)[0]) > 0.5


def test_random_duels_are_counted_in_full() -> None:
    engine, label_order = duels_of_scores(30.0, seed=0), np.arange(K)
    points = np.random.default_rng(1).standard_normal((50, N_FEATURES))
    tally = tally_of(engine, label_order)
    counted = wins_of_first(tally, points, 1)
    np.testing.assert_array_equal(counted, tally.wins(points, False)[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 5, 30])
def test_the_first_labels_are_those_of_the_whole_ranking(
    monkeypatch: pytest.MonkeyPatch, k: int, dtype: type
) -> None:
    """Through a ranker, with little made small: several threads, ties at every place."""
    monkeypatch.undo()
    n_classes = 800
    if k == 30:
        monkeypatch.setattr(_first_places, "OPPONENTS", 20)  # fewer than places
        monkeypatch.setattr(_first_places, "FEWEST_LABELS", 6)
    rng = np.random.default_rng(k)
    first, second = pairs(n_classes)
    scores = np.round(rng.standard_normal((n_classes, 3)), 1)  # some labels have the same
    engine = LogisticDuels()
    engine.coef_ = (scores[second] - scores[first]).astype(dtype)
    engine.intercept_ = np.zeros(len(first), dtype=dtype)
    engine.n_classes_, engine.n_features_in_ = n_classes, 3
    ranker = DuelRanker(LogisticDuels(), random_state=k)
    ranker.duels_, ranker.classes_ = engine, np.arange(n_classes)
    ranker.label_order_ = rng.permutation(n_classes)
    points = np.round(rng.standard_normal((1700, 3)), 1)
    points[0] = 0  # all labels tie
    points[1] = [1e38, 1e38, -1e38] if dtype == np.float32 else [1e39, 1e39, -1e39]
    asked = []
    monkeypatch.setattr(
        _linear, "wins_of_first", lambda *given: asked.append(given) or wins_of_first(*given)
    )
    top = ranker.predict_top(points, k)
    assert len(asked) > 1
    rows = [0, 1, *range(2, len(points), 40)]
    np.testing.assert_array_equal(top[rows], ranker.predict_order(points[rows])[:, :k])


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_a_ranker_has_the_same_first_labels(monkeypatch: pytest.MonkeyPatch, noise: float) -> None:
    engine, rng = duels_of_scores(noise, seed=3), np.random.default_rng(4)
    points, label_order = rng.standard_normal((120, N_FEATURES)), rng.permutation(K)
    asked = []
    monkeypatch.setattr(
        _linear, "wins_of_first", lambda *given: asked.append(given) or wins_of_first(*given)
    )
    first = top_from_wins(*engine.top_wins(points, label_order, 2), label_order, 2)
    assert asked
    for rows in (slice(0, 45), slice(45, 120)):  # whatever points they come with
        some = top_from_wins(*engine.top_wins(points[rows], label_order, 2), label_order, 2)
        np.testing.assert_array_equal(some, first[rows])
    assert len(asked) > 4
    monkeypatch.setattr(_linear, "points_at_once", lambda *given: 0)
    np.testing.assert_array_equal(
        first, top_from_wins(*engine.top_wins(points, label_order, 2), label_order, 2)
    )
    for rows in (slice(0, 8), slice(8, 50)):
        few = top_from_wins(*engine.top_wins(points[rows], label_order, 2), label_order, 2)
        np.testing.assert_array_equal(few, first[rows])


def test_whole_numbers_that_cancel_are_left_to_the_label_order() -> None:
    rng = np.random.default_rng(9)
    engine = duels_of_scores(0.0, seed=0)
    engine.coef_ = np.round(2 * engine.coef_)
    points = rng.integers(-1, 2, size=(60, N_FEATURES)).astype(np.float64)
    label_order = rng.permutation(K)
    assert np.mean(engine.margins(points) == 0) > 0.01
    tally = tally_of(engine, label_order)
    wins, of_first = tally.wins(points, False)[0], wins_of_first(tally, points, 4)
    kth = np.sort(wins, axis=1)[:, [-4]]
    np.testing.assert_array_equal(of_first[wins >= kth], wins[wins >= kth])


def test_few_labels_or_points_are_counted_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert points_at_once(10_000, 1000, 5) == 2500
    assert points_at_once(5000, 1000, 5) == 2000  # of which every label fights enough
    assert points_at_once(2000, 1000, 5) == 1000  # two threads
    assert points_at_once(10**6, 1000, 5) == 2**23 // 1000  # which are held
    assert points_at_once(10_000, 300, 5) == 0
    assert points_at_once(1900, 1000, 5) == 0
    assert points_at_once(10_000, 1000, 200) == 0
    assert points_at_once(10**6, 5000, 1) == 0  # too few of so many labels can be held
