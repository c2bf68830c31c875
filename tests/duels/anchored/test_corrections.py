"""The corrections of anchored duels: their minimum by other means, limits, rivals and wins."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from anchored_by_hand import (
    LAYOUTS,
    K,
    corrections_by_hand,
    densely,
    points,
    rankings,
    renamed,
)
from duelrank import AnchoredDuels, DuelRanker, LogisticDuels, pairs
from duelrank._pairs import duel_numbers, labels_of_duels, n_pairs, square
from duelrank.duels.anchored import _engine
from duelrank.duels.anchored._luce import choices_of
from duelrank.duels.anchored._rivals import choose_rivals, sums_of_duels
from duelrank.feedback import SparseRanks, outcomes
from duelrank.tournaments import duel_losses

KINDS = ["labels", "full", "partial"]


def fitted(X, feedback, C=1.0, C_own=2.0, rivals=None, weights=None, n_classes=K, **parameters):
    engine = AnchoredDuels(C, C_own, rivals, **({"tol": 1e-10} | parameters))
    return engine.fit(X, feedback, n_classes, sample_weight=weights)


def margins_of_scores(engine, X):
    first, second = pairs(engine.n_classes_)
    scores = engine.scores(X)
    return scores[:, second] - scores[:, first]


def by_features(monkeypatch):
    monkeypatch.setattr(
        "duelrank.duels.logistic.row_space._fit.goes_by_rows",
        lambda n_rows, *others: np.zeros(len(n_rows), dtype=bool),
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_corrections_are_the_minimum(layout, kind, weighted, rng):
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    weights = rng.integers(0, 3, size=len(y)) + 0.0 if weighted else None
    engine = fitted(X, feedback, weights=weights)
    assert engine.converged_.all()
    expected, corrected = corrections_by_hand(X, feedback, K, 2.0, engine, weights)
    np.testing.assert_array_equal(engine.corrected_duels_, np.flatnonzero(corrected))
    found = engine.margins(X) - margins_of_scores(engine, X)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=2e-4)
    own = densely(X) @ densely(engine.own_coef_).T + engine.own_intercept_
    np.testing.assert_allclose(own, found[:, engine.corrected_duels_], atol=1e-10)
    assert sparse.issparse(engine.own_coef_) == sparse.issparse(X)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_corrections_without_intercepts(layout, rng):
    X, y = points(layout, rng)
    engine = fitted(X, y, fit_intercept=False)
    expected, _ = corrections_by_hand(X, y, K, 2.0, engine, fit_intercept=False)
    np.testing.assert_allclose(
        engine.margins(X) - margins_of_scores(engine, X), expected, atol=2e-4
    )
    assert (engine.own_intercept_ == 0).all()
    assert (engine.score_intercept_ == 0).all()
    zero = np.zeros((1, X.shape[1]))
    assert (engine.margins(zero) == 0).all()


@pytest.mark.parametrize("layout", ["dense wide", "sparse wide"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_spaces_agree(layout, kind, rng, monkeypatch):
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    in_rows = fitted(X, feedback)
    by_features(monkeypatch)
    in_features = fitted(X, feedback)
    np.testing.assert_allclose(in_rows.margins(X), in_features.margins(X), atol=2e-4)


def test_duels_in_both_spaces_at_once(rng):
    """Label 0 has too many rows for so little memory; the others go by rows."""
    y = np.repeat(np.arange(K), [120, 8, 8, 8, 8])
    dense = rng.normal(size=(len(y), 200))
    dense[np.arange(len(y)), y] += 3
    for X in (dense, sparse.csr_array(np.where(rng.random(dense.shape) < 0.4, dense, 0))):
        mixed = fitted(X, y, working_memory=0.4, rivals=None)
        plain = fitted(X, y)
        np.testing.assert_array_equal(mixed.corrected_duels_, np.arange(10))
        np.testing.assert_allclose(mixed.margins(X), plain.margins(X), atol=5e-4)


def test_columns_that_differ_by_orders_of_magnitude(rng):
    """Conjugate gradients cannot finish these; factorisations can."""
    y = np.arange(30) % 3
    X = rng.normal(size=(30, 60)) * np.logspace(-3, 3, 60)
    engine = fitted(X, y, 1e-3, 1.0, n_classes=3, tol=1e-8)
    assert engine.converged_.all()
    expected, _ = corrections_by_hand(X, y, 3, 1.0, engine)
    found = engine.margins(X) - margins_of_scores(engine, X)
    sides = outcomes(np.where(np.arange(3) == y[:, np.newaxis], 1.0, 2.0))
    ours, theirs = (
        np.logaddexp(0, -sides * (margins_of_scores(engine, X) + own))[sides != 0].sum()
        for own in (found, expected)
    )
    assert ours <= theirs + 0.05


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_hardly_any_correction_leaves_the_scores(layout, kind, rng):
    X, y = points(layout, rng)
    engine = fitted(X, rankings(X, y, rng, kind), C_own=1e-9)
    assert len(engine.corrected_duels_) == n_pairs(K)
    np.testing.assert_allclose(engine.margins(X), margins_of_scores(engine, X), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_hardly_any_scores_leave_duels_that_share_nothing(layout, kind, rng):
    """Up to the penalty on intercepts."""
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    engine = fitted(X, feedback, 1e-10, 3.0)
    assert np.abs(engine.scores(X)).max() < 1e-5
    expected = LogisticDuels(3.0, tol=1e-10).fit(X, feedback, K).margins(X)
    found = engine.margins(X)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_duels_that_no_row_decides_follow_the_scores(layout, rng):
    """Nobody saw label 3, and all rows that tell have label 0 ahead of label 1."""
    X, y = points(layout, rng)
    ranks = rankings(X, y, rng, "full")
    ranks[:, 3] = np.nan
    swap = ranks[:, 0] > ranks[:, 1]
    ranks[np.ix_(swap, [0, 1])] = ranks[np.ix_(swap, [1, 0])]
    engine = fitted(X, ranks)
    first, second = pairs(K)
    alone = (first == 3) | (second == 3) | ((first == 0) & (second == 1))
    np.testing.assert_array_equal(engine.corrected_duels_, np.flatnonzero(~alone))
    found, expected = engine.margins(X), margins_of_scores(engine, X)
    np.testing.assert_array_equal(found[:, alone], expected[:, alone])
    assert (np.abs(found - expected).max(axis=0)[~alone] > 1e-3).all()
    assert (engine.scores(X)[:, 3] == 0).all()
    assert (expected[:, 0] < 0).mean() > 0.9


def test_a_label_that_is_never_first_is_behind_all(rng):
    X, y = points("dense tall", rng)
    ranker = DuelRanker(AnchoredDuels(), classes=[*range(K), 9], random_state=0)
    ranker.fit(X, rankings_with_unseen(y))
    assert (ranker.predict_ranks(X)[:, -1] == K + 1).all()
    # It has lost to label k in all rows of k, and in no others.
    assert (ranker.duels_.corrected_duels_ == duels_among(range(K), K + 1)).all()


def rankings_with_unseen(y):
    return np.where(np.arange(K + 1) == y[:, np.newaxis], 1.0, 2.0)


def duels_among(labels, n_classes):
    first, second = pairs(n_classes)
    return np.flatnonzero(np.isin(first, labels) & np.isin(second, labels))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["dense tall", "sparse wide"])
def test_all_rivals_and_none(layout, kind, rng):
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    every, all_rivals, more, none = (
        fitted(X, feedback, rivals=rivals) for rivals in (None, K - 1, 99, 0)
    )
    for engine in (all_rivals, more):
        np.testing.assert_array_equal(engine.margins(X), every.margins(X))
    assert len(none.corrected_duels_) == 0
    assert none.own_coef_.shape == (0, X.shape[1])
    np.testing.assert_array_equal(none.margins(X), margins_of_scores(none, X))
    np.testing.assert_array_equal(none.scores(X), every.scores(X))
    assert none.converged_.shape == none.n_iter_.shape == (0,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rivals_have_the_corrections_that_all_duels_would_have(layout, kind, rng):
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    every, some = fitted(X, feedback), fitted(X, feedback, rivals=1)
    mine = some.corrected_duels_
    assert 0 < len(mine) < n_pairs(K)
    np.testing.assert_allclose(some.margins(X)[:, mine], every.margins(X)[:, mine], atol=2e-4)
    others = np.setdiff1d(np.arange(n_pairs(K)), mine)
    np.testing.assert_array_equal(some.margins(X)[:, others], margins_of_scores(some, X)[:, others])


def unsure_by_hand(ranks, scores, weights):
    """Sum what the scores give to the other outcome of every duel that rows decide."""
    unsure = np.zeros((scores.shape[1],) * 2)
    for row, u, weight in zip(ranks, scores, weights, strict=True):
        for a, b in np.ndindex(*unsure.shape):
            if row[a] < row[b]:
                unsure[a, b] += weight * expit(u[b] - u[a])
    return unsure


@pytest.mark.parametrize("kind", ["labels", "sets", "full", "partial", "sparse"])
def test_how_unsure_scores_are_of_duels(kind, rng, monkeypatch):
    monkeypatch.setattr("duelrank.duels.anchored._rivals.NUMBERS_AT_ONCE", 7 * K)
    X, y = points("dense tall", rng)
    if kind == "sets":
        feedback = np.where(rankings(X, y, rng, "full") <= 1 + y[:, np.newaxis] % 3, 1.0, 2.0)
    elif kind == "sparse":
        stored = np.where(rankings(X, y, rng, "full") <= 3, rankings(X, y, rng, "full"), 0)
        feedback = SparseRanks(sparse.csr_array(stored), "unknown")
    else:
        feedback = rankings(X, y, rng, kind)
    ranks = feedback.dense() if kind == "sparse" else feedback
    ranks = rankings_of_labels(y) if kind == "labels" else ranks
    scores, weights = rng.normal(size=(len(y), K)), rng.random(len(y))
    choices = choices_of(feedback, weights, K)
    gathered = choices.gather(slice(0, len(y)), scores)
    expected = unsure_by_hand(ranks, scores, weights)
    np.testing.assert_allclose(sums_of_duels(choices, gathered, K, expit), expected, atol=1e-10)
    both = expected + expected.T
    np.fill_diagonal(both, -1)
    for n_rivals in (1, 2, 3):
        duels = choose_rivals(choices, gathered, K, n_rivals)
        assert (np.diff(duels) > 0).all()
        best = np.argsort(-both, axis=1)[:, :n_rivals]
        wanted = {(min(a, b), max(a, b)) for a in range(K) for b in best[a]}
        assert set(zip(*labels_of_duels(duels, K), strict=True)) == wanted
        assert K * n_rivals / 2 <= len(duels) <= K * n_rivals


def rankings_of_labels(y):
    return np.where(np.arange(K) == y[:, np.newaxis], 1.0, 2.0)


def test_rivals_are_those_that_are_mistaken_for_each_other(rng):
    """Labels come in pairs that lie close together, far from the others."""
    centres = 8 * rng.normal(size=(6, 4))
    y = np.arange(600) % 12
    X = centres[y // 2] + 0.8 * np.eye(4)[y % 2] + rng.normal(size=(600, 4))
    engine = AnchoredDuels(rivals=1).fit(X, y, 12)
    first, second = labels_of_duels(engine.corrected_duels_, 12)
    np.testing.assert_array_equal(first, np.arange(0, 12, 2))
    np.testing.assert_array_equal(second, np.arange(1, 12, 2))


@pytest.mark.parametrize("n_classes", [2, 3, 7, 400])
def test_numbers_of_duels_and_labels(n_classes):
    first, second = pairs(n_classes)
    numbers = np.arange(len(first))
    np.testing.assert_array_equal(duel_numbers(first, second, n_classes), numbers)
    for found, expected in zip(labels_of_duels(numbers, n_classes), (first, second), strict=True):
        np.testing.assert_array_equal(found, expected)


# Wins


def count_by_hand(margins, n_classes, label_order):
    """Count wins, and expected ones; the favoured label wins with margin 0."""
    favoured = np.argsort(label_order)
    wins = np.zeros((len(margins), n_classes), dtype=int)
    for d, (a, b) in enumerate(zip(*pairs(n_classes), strict=True)):
        won = np.where(margins[:, d] == 0, favoured[b] < favoured[a], margins[:, d] > 0)
        wins[:, b] += won
        wins[:, a] += ~won
    expected = expit(square(margins, n_classes)).sum(axis=2) - 0.5
    return wins, expected


@pytest.mark.parametrize("rivals", [None, 2, 1, 0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_wins_are_those_of_the_margins(layout, kind, rivals, rng):
    X, y = points(layout, rng)
    engine = fitted(X, rankings(X, y, rng, kind), 0.3, 3.0, rivals)
    points_too = X[:7].toarray() if sparse.issparse(X) else sparse.csr_array(X[:7])
    for given in (X, points_too):
        margins, label_order = engine.margins(given), rng.permutation(K)
        wins, expected = count_by_hand(margins, K, label_order)
        found = engine.wins(given, label_order)
        np.testing.assert_array_equal(found[0], wins)
        np.testing.assert_allclose(found[1], expected, atol=1e-10)
        assert found[0].dtype == np.int64
        alone, anything = engine.wins(given, label_order, with_expected=False)
        np.testing.assert_array_equal(alone, wins)
        assert anything.shape == wins.shape
        tied = (wins[:, :, np.newaxis] == wins[:, np.newaxis]).sum(axis=2) > 1
        for k in (1, 2, K):
            top, of_ties = engine.top_wins(given, label_order, k)
            np.testing.assert_array_equal(top, wins)
            reached = tied & (wins >= np.sort(wins, axis=1)[:, [K - k]])
            np.testing.assert_allclose(of_ties[reached], expected[reached], atol=1e-10)
            assert ((of_ties >= 0) & (of_ties <= K - 1)).all()
        np.testing.assert_allclose(engine.probabilities(given), expit(margins))
        both = engine.margins_and_probabilities(given)
        np.testing.assert_array_equal(both[0], margins)
        np.testing.assert_allclose(both[1], expit(margins))


def test_margins_of_zero_are_won_by_the_favoured_label(rng):
    """Scores that are equal, and corrections that make margins zero."""
    X, y = points("dense tall", rng)
    engine = fitted(X, y, rivals=2)
    duels = engine.corrected_duels_
    engine.score_intercept_ = np.round(engine.score_intercept_)
    engine.score_intercept_[1] = engine.score_intercept_[0]
    first, second = labels_of_duels(duels, K)
    engine.kept_["score_coef"][:] = 0
    engine.kept_["own_coef"][:] = 0
    scores = engine.score_intercept_
    engine.own_intercept_ = scores[first] - scores[second]
    engine.own_intercept_[1::2] = 1.0
    margins = engine.margins(X[:1])
    assert np.count_nonzero(margins == 0) >= len(duels) // 2
    for _ in range(20):
        label_order = rng.permutation(K)
        wins, expected = count_by_hand(margins, K, label_order)
        found = engine.wins(X[:1], label_order)
        np.testing.assert_array_equal(found[0], wins)
        np.testing.assert_allclose(found[1], expected)


@pytest.mark.parametrize("aggregation", ["copeland", "expected_wins"])
@pytest.mark.parametrize("rivals", [None, 2, 0])
def test_rankers_that_count_rank_like_their_tournaments(aggregation, rivals, rng):
    X, y = points("dense tall", rng)
    engine = AnchoredDuels(0.3, 3.0, rivals)
    ranker = DuelRanker(engine, aggregation=aggregation, random_state=0).fit(X, y)
    tournament = ranker.tournament(X)
    np.testing.assert_allclose(ranker.decision_function(X), tournament.scores, atol=1e-10)
    np.testing.assert_array_equal(ranker.predict_ranks(X), tournament.ranks)
    wins, _ = ranker.duels_.wins(X, ranker.label_order_)
    np.testing.assert_array_equal(wins, K - 1 - duel_losses(tournament.beats))


@pytest.mark.parametrize("rivals", [3, 0])
def test_many_labels_rank_like_their_tournaments(rivals, rng):
    """Above 256 labels, expected wins are only computed where labels tie."""
    n_labels = 300
    y = np.repeat(np.arange(n_labels), 3)
    X = np.repeat(rng.normal(size=(n_labels, 6)), 3, axis=0) + 0.5 * rng.normal(size=(900, 6))
    ranker = DuelRanker(AnchoredDuels(1.0, 100.0, rivals), random_state=0).fit(X, y)
    some = X[::90]
    wins, _ = ranker.duels_.wins(some, ranker.label_order_)
    ties = n_labels - np.array([len(np.unique(row)) for row in wins])
    assert (ties > 0).any() == (rivals > 0), "or nothing is tested"
    tournament = ranker.tournament(some)
    np.testing.assert_array_equal(ranker.predict_ranks(some), tournament.ranks)
    np.testing.assert_array_equal(ranker.predict_top(some, 5), tournament.order[:, :5])


def test_points_that_are_ranked_in_batches(rng, monkeypatch):
    X, y = points("dense tall", rng)
    engine = fitted(X, y, rivals=2)
    expected = engine.wins(X, np.arange(K))
    monkeypatch.setattr(_engine, "NUMBERS_AT_ONCE", 80)
    found = engine.wins(X, np.arange(K))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-12)


def test_single_precision(rng):
    for layout in LAYOUTS:
        X, y = points(layout, rng)
        engine = fitted(X, y, dtype="float32", tol=1e-6)
        assert engine.margins(X).dtype == np.float32
        assert engine.own_coef_.dtype == engine.own_intercept_.dtype == np.float32
        np.testing.assert_allclose(engine.margins(X), fitted(X, y).margins(X), atol=0.02)


def test_weights_are_repeated_rows(rng):
    for layout in LAYOUTS:
        X, y = points(layout, rng)
        times = rng.integers(0, 4, size=len(y))
        repeated = np.repeat(np.arange(len(y)), times)
        weighted = fitted(X, y, rivals=2, weights=times.astype(float))
        plain = fitted(X[repeated], y[repeated], rivals=2)
        np.testing.assert_array_equal(weighted.corrected_duels_, plain.corrected_duels_)
        np.testing.assert_allclose(weighted.margins(X), plain.margins(X), atol=5e-4)


@pytest.mark.parametrize("rivals", [None, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_names_of_the_labels_change_nothing(layout, kind, rivals, rng):
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    column = rng.permutation(K)
    plain = fitted(X, feedback, rivals=rivals)
    other = fitted(X, renamed(feedback, column), rivals=rivals)
    sides = column[np.stack(labels_of_duels(plain.corrected_duels_, K))]
    duels = duel_numbers(*np.sort(sides, axis=0), K)
    np.testing.assert_array_equal(other.corrected_duels_, np.sort(duels))
    assert len(duels) < n_pairs(K) or rivals is None
    expected = square(plain.margins(X), K)
    found = square(other.margins(X), K)[:, column][:, :, column]
    np.testing.assert_allclose(found, expected, atol=2e-4)
    label_order = rng.permutation(K)
    wins, of_chances = plain.wins(X, label_order)
    wins_too, of_chances_too = other.wins(X, column[label_order])
    np.testing.assert_array_equal(wins_too[:, column], wins)
    np.testing.assert_allclose(of_chances_too[:, column], of_chances, atol=2e-4)
