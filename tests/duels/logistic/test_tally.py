"""Wins of many labels: counted label by label, and ties decided in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from duelrank import LogisticDuels, pairs
from duelrank._threads import threads_of_blas
from duelrank.duels.logistic import _linear
from duelrank.duels.logistic._tally import (
    Tally,
    close_ties,
    sum_again,
    ties_among,
    unsure_margins,
)

K, N_FEATURES = 300, 5


def fitted(coef: np.ndarray, intercept: np.ndarray, n_classes: int = K) -> LogisticDuels:
    """Return an engine with these duels, without a fit of its own."""
    engine = LogisticDuels()
    engine.coef_, engine.intercept_ = coef, intercept
    engine.n_classes_, engine.n_features_in_ = n_classes, coef.shape[1]
    return engine


def random_duels(seed: int, n_classes: int = K) -> tuple[np.ndarray, np.ndarray]:
    """Return duels of scores with noise, so that many labels tie."""
    rng = np.random.default_rng(seed)
    first, second = pairs(n_classes)
    scores = rng.standard_normal((n_classes, N_FEATURES))
    coef = scores[second] - scores[first] + rng.standard_normal((len(first), N_FEATURES))
    return coef, 0.3 * rng.standard_normal(len(first))


def by_definition(
    engine: LogisticDuels, X: np.ndarray, label_order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    margins, n_classes = engine.margins(X), engine.n_classes_
    place = np.argsort(label_order)
    wins, expected = np.zeros((2, len(X), n_classes))
    first, second = pairs(n_classes)
    won = (margins > 0) | ((margins == 0) & (place[second] < place[first]))
    chance = expit(margins)
    for label in range(n_classes):
        mine, others = second == label, first == label
        wins[:, label] = won[:, mine].sum(axis=1) + (~won[:, others]).sum(axis=1)
        expected[:, label] = chance[:, mine].sum(axis=1) + (1 - chance[:, others]).sum(axis=1)
    return wins.astype(np.int64), expected


@pytest.mark.parametrize("n_points", [5, 33, 150])
@pytest.mark.parametrize("n_classes", [257, 300])
def test_wins_are_those_of_the_definition(n_points: int, n_classes: int) -> None:
    engine = fitted(*random_duels(0, n_classes), n_classes)
    rng = np.random.default_rng(1)
    X, label_order = rng.standard_normal((n_points, N_FEATURES)), rng.permutation(n_classes)
    X[0] = 0
    wins, expected = by_definition(engine, X, label_order)
    counted, summed = engine.wins(X, label_order)
    np.testing.assert_array_equal(counted, wins)
    np.testing.assert_allclose(summed, expected, atol=1e-3)
    np.testing.assert_array_equal(engine.wins(X, label_order, with_expected=False)[0], wins)
    tops, of_tops = engine.top_wins(X, label_order, 4)
    np.testing.assert_array_equal(tops, wins)
    decisive = ties_among(tops, 4)
    assert decisive.any()
    np.testing.assert_allclose(of_tops[decisive], expected[decisive], atol=1e-9)


@pytest.mark.parametrize("n_points", [3, 40])
def test_at_margins_of_zero_the_favoured_label_wins(n_points: int) -> None:
    coef, intercept = random_duels(2)
    engine = fitted(coef, np.zeros_like(intercept))
    label_order = np.random.default_rng(0).permutation(K)
    wins, _ = engine.wins(np.zeros((n_points, N_FEATURES)), label_order)
    assert np.all(np.argsort(-wins, axis=1) == label_order)


@pytest.mark.parametrize("n_points", [3, 40])
@pytest.mark.parametrize("n_features", [5, 300])
def test_whole_numbers_cancel_to_zero(n_points: int, n_features: int) -> None:
    """Coefficients and intercepts that cancel leave a duel to the label order."""
    rng = np.random.default_rng(9)
    first, _ = pairs(K)
    coef = rng.integers(-2, 3, size=(len(first), n_features)).astype(np.float64)
    engine = fitted(coef, rng.integers(-3, 4, size=len(first)).astype(np.float64))
    X, label_order = rng.integers(-1, 2, size=(n_points, n_features)), rng.permutation(K)
    X = X.astype(np.float64)
    assert np.mean(engine.margins(X) == 0) > 0.005
    wins, expected = by_definition(engine, X, label_order)
    counted, summed = engine.wins(X, label_order)
    np.testing.assert_array_equal(counted, wins)
    np.testing.assert_allclose(summed, expected, atol=1e-3)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_points_far_from_zero_are_ranked_alike_in_every_batch(offset: float) -> None:
    """Single precision does not tell margins from zero, so double precision does."""
    coef, intercept = random_duels(10)
    engine = fitted(coef, intercept - coef.sum(axis=1) * offset)
    X = np.random.default_rng(11).standard_normal((70, N_FEATURES)) + offset
    wins, expected = by_definition(engine, X, np.arange(K))
    together = engine.wins(X, np.arange(K))
    apart = [engine.wins(X[rows : rows + 10], np.arange(K)) for rows in range(0, 70, 10)]
    alone = engine.wins(X[:1], np.arange(K))
    for counted in (together[0], np.concatenate([part[0] for part in apart])):
        np.testing.assert_array_equal(counted, wins)
    np.testing.assert_array_equal(alone[0], wins[:1])
    tied = ties_among(wins)
    np.testing.assert_allclose(together[1][tied], expected[tied], atol=1e-3)


@pytest.mark.parametrize("n_points", [1, 8, 9, 300])
@pytest.mark.parametrize("size", [1e25, 1e39, 1e100])
def test_numbers_beyond_single_precision_are_counted_in_double(n_points: int, size: float) -> None:
    """Sums of them may be infinite or no numbers there."""
    coef, intercept = random_duels(2)
    coef[::3, 0] = 0
    engine, rng = fitted(coef, intercept), np.random.default_rng(3)
    X = size * rng.standard_normal((n_points, N_FEATURES))
    X[1:] /= size
    wins, _ = engine.wins(X, np.arange(K))
    np.testing.assert_array_equal(wins, by_definition(engine, X, np.arange(K))[0])


def test_sums_that_cancel_but_for_rounding_are_decided_alike_in_every_batch() -> None:
    """How double precision rounds a product depends on how many points there are."""
    rng = np.random.default_rng(4)
    engine = fitted(*random_duels(0))
    engine.intercept_[:] = 0
    engine.coef_[:, :3] = rng.permuted(np.tile([0.1, 0.2, -0.3], (len(engine.coef_), 1)), axis=1)
    X = np.ones((1500, N_FEATURES))
    X[:, 3:] = 0
    wins = [engine.wins(X[:n], np.arange(K))[0][0] for n in (1, 8, 9, 100, 1500)]
    np.testing.assert_array_equal(wins[1:], wins[:-1])


def test_duels_that_were_set_anew_are_counted() -> None:
    coef, intercept = random_duels(12)
    engine = fitted(coef, intercept)
    X, label_order = np.random.default_rng(13).standard_normal((40, N_FEATURES)), np.arange(K)
    engine.wins(X, label_order)
    engine.intercept_ = -intercept
    np.testing.assert_array_equal(
        engine.wins(X, label_order)[0], by_definition(engine, X, label_order)[0]
    )
    backwards = label_order[::-1]
    np.testing.assert_array_equal(
        engine.wins(X, backwards)[0], by_definition(engine, X, backwards)[0]
    )


def test_close_ties_are_decided_alike_in_every_batch() -> None:
    """Pairs of labels whose expected wins differ by less than single precision can tell."""
    coef, intercept = random_duels(3)
    X = np.random.default_rng(4).standard_normal((200, N_FEATURES))
    engine, label_order = fitted(coef, intercept), np.arange(K)
    single = Tally.of(coef, intercept, label_order, engine._longest())
    wins, rough = single.wins(X, with_expected=True)
    close = close_ties(wins, rough, single.longest * unsure_margins(X))
    assert 0 < close.mean() < 0.1
    _, expected = engine.wins(X, label_order)
    for rows in (slice(0, 1), slice(1, 30), slice(30, 100), slice(100, 200)):
        _, part = engine.wins(X[rows], label_order)
        np.testing.assert_allclose(part[close[rows]], expected[rows][close[rows]], rtol=1e-13)
        tops = engine.top_wins(X[rows], label_order, 5)
        np.testing.assert_array_equal(tops[0], wins[rows])


def test_sums_are_those_of_double_precision() -> None:
    coef, intercept = random_duels(5)
    X = np.random.default_rng(6).standard_normal((20, N_FEATURES))
    engine = fitted(coef, intercept)
    _, exact = by_definition(engine, X, np.arange(K))
    expected, wanted = np.zeros((20, K)), np.zeros((20, K), dtype=bool)
    wanted[::3, ::7] = wanted[:, [0, K - 1]] = True
    with threads_of_blas() as threads:
        sum_again(X, coef, intercept, expected, wanted, threads)
    np.testing.assert_allclose(expected[wanted], exact[wanted], rtol=1e-12)
    assert not expected[~wanted].any()


def test_few_points_are_counted_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fitted(*random_duels(7))
    X = np.random.default_rng(8).standard_normal((_linear.FEW_POINTS, N_FEATURES))
    by_run = engine.wins(X, np.arange(K))[0]
    monkeypatch.setattr(_linear, "FEW_POINTS", 0)
    np.testing.assert_array_equal(engine.wins(X, np.arange(K))[0], by_run)
