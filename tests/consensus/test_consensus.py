from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from duelrank.consensus import borda, copeland, kemeny, plackett_luce
from duelrank.consensus._groups import duels_won_by_cell, duels_won_by_group
from duelrank.consensus._medians import MEDIANS, borda_scores, majority_scores, median_ranks
from duelrank.consensus._plackett_luce import plackett_luce_weights
from duelrank.feedback import check_feedback, duels_won
from duelrank.losses import kendall_distance
from duelrank.posteriors import plackett_luce_log_likelihood, sample_plackett_luce
from random_duels import random_ranks, ranks_of_rows

nan = np.nan
RANKERS = {"borda": borda, "copeland": copeland, "kemeny": kemeny}


def random_feedback(rng, kind, n_rows, n_classes):
    """Ranks of one kind, and what their NaN mean."""
    ranks = random_ranks(rng, n_rows, n_classes).astype(float)
    if kind == "top lists":
        ranks[ranks > rng.integers(0, n_classes, size=(n_rows, 1))] = nan
        return ranks, "behind"
    if kind == "missing":
        ranks[rng.random(ranks.shape) < 0.4] = nan
        return ranks, "unknown"
    if kind == "tied":
        scores = rng.integers(0, 3, size=ranks.shape)
        return stats.rankdata(scores, method="min", axis=1).astype(float), "unknown"
    return ranks, "unknown"


kinds = pytest.mark.parametrize("kind", ["full", "top lists", "missing", "tied"])


@st.composite
def feedback_of_groups(draw):
    """Canonical (g, n, K) ranks with ties and NaN, and whole weights (g, n)."""
    n_groups, n_rows, n_classes = (
        draw(st.integers(*bounds)) for bounds in ((1, 3), (1, 5), (2, 5))
    )
    size = n_groups * n_rows * n_classes
    places = st.one_of(st.integers(1, n_classes), st.just(nan))
    ranks = np.array(draw(st.lists(places, min_size=size, max_size=size)), dtype=float)
    shares = draw(
        st.lists(st.integers(0, 3), min_size=n_groups * n_rows, max_size=n_groups * n_rows)
    )
    return (
        ranks.reshape(n_groups, n_rows, n_classes),
        np.array(shares, dtype=float).reshape(n_groups, n_rows),
    )


def won_by_brute_force(ranks, weights, unplaced):
    """Count ``won[a][b]`` in fractions, from ranks as a user gives them."""
    n_classes = ranks.shape[1]
    won = [[Fraction(0)] * n_classes for _ in range(n_classes)]
    for row, weight in zip(ranks, weights, strict=True):
        for a in range(n_classes):
            for b in range(n_classes):
                is_behind = unplaced == "behind" and not np.isnan(row[a]) and np.isnan(row[b])
                if row[a] < row[b] or is_behind:
                    won[a][b] += Fraction(int(weight))
    return won


def borda_by_brute_force(won):
    labels = range(len(won))
    return [
        sum(
            won[a][b] / (won[a][b] + won[b][a]) if won[a][b] + won[b][a] else Fraction(1, 2)
            for b in labels
            if b != a
        )
        for a in labels
    ]


def copeland_by_brute_force(won):
    labels = range(len(won))
    duels = [
        sum(
            Fraction(1 + (won[a][b] > won[b][a]) - (won[a][b] < won[b][a]), 2)
            for b in labels
            if b != a
        )
        for a in labels
    ]
    return list(zip(duels, borda_by_brute_force(won), strict=True))


def ranks_by_brute_force(scores, label_order):
    favoured = np.argsort(label_order)
    order = sorted(range(len(scores)), key=lambda a: favoured[a])
    order.sort(key=lambda a: scores[a], reverse=True)  # stable
    return np.argsort(order) + 1


def kemeny_by_brute_force(won, label_order):
    """First of the cheapest orders in the dictionary whose alphabet is Borda's order."""
    alphabet = np.argsort(ranks_by_brute_force(borda_by_brute_force(won), label_order))
    best = min(
        permutations(alphabet.tolist()),
        key=lambda order: sum(won[b][a] for a, b in combinations(order, 2)),
    )
    return np.argsort(best) + 1


@kinds
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_medians_equal_brute_force(rng, kind, n_classes, weighted):
    for seed in range(3):
        ranks, unplaced = random_feedback(rng, kind, 6, n_classes)
        weights = rng.integers(0, 4, size=6) if weighted else np.ones(6)
        options = {"unplaced": unplaced, "random_state": seed}
        if weighted:
            options["weights"] = weights
        label_order = np.random.RandomState(seed).permutation(n_classes)
        won = won_by_brute_force(ranks, weights, unplaced)
        np.testing.assert_array_equal(
            borda(ranks, **options), ranks_by_brute_force(borda_by_brute_force(won), label_order)
        )
        np.testing.assert_array_equal(
            copeland(ranks, **options),
            ranks_by_brute_force(copeland_by_brute_force(won), label_order),
        )
        np.testing.assert_array_equal(
            kemeny(ranks, **options), kemeny_by_brute_force(won, label_order)
        )


@given(st.integers(2, 5).flatmap(lambda n_classes: ranks_of_rows(n_classes, 5)))
def test_kemeny_is_the_median_and_borda_the_mean_of_full_rankings(ranks):
    def total_distance(candidate):
        return kendall_distance(ranks, np.tile(candidate, (len(ranks), 1))).sum()

    candidates = permutations(range(1, ranks.shape[1] + 1))
    assert total_distance(kemeny(ranks)) == min(map(total_distance, candidates))
    by_mean = ranks.mean(axis=0)[np.argsort(borda(ranks))]
    assert np.all(np.diff(by_mean) >= -1e-12)


@pytest.mark.parametrize("n_rows", [1, 3, 40])
def test_copeland_puts_the_condorcet_winner_first(rng, n_rows):
    ranks = random_ranks(rng, 50 * n_rows, 4).reshape(50, n_rows, 4)
    majorities = np.array([duels_won(group.astype(float)) for group in ranks])
    winners = (majorities > majorities.swapaxes(1, 2)).sum(axis=2) == 3
    assert winners.any()
    assert np.all(copeland(ranks)[winners] == 1)


@given(feedback_of_groups())
def test_duels_of_groups_are_those_of_each(feedback):
    ranks, weights = feedback
    won = duels_won_by_group(ranks, weights)
    alike = duels_won_by_group(ranks)
    for group in range(len(ranks)):
        np.testing.assert_array_equal(won[group], duels_won(ranks[group], weights[group]))
        np.testing.assert_array_equal(alike[group], duels_won(ranks[group]))


@given(feedback_of_groups(), st.randoms(use_true_random=False))
def test_duels_of_cells_are_those_of_groups(feedback, random):
    ranks, weights = feedback
    n_groups, n_rows, n_classes = ranks.shape
    rows = random.sample(range(n_groups * n_rows), n_groups * n_rows)
    cells = np.repeat(np.arange(n_groups), n_rows)[rows]
    mixed, shares = ranks.reshape(-1, n_classes)[rows], np.ravel(weights)[rows]
    np.testing.assert_allclose(
        duels_won_by_cell(mixed, cells, n_groups + 1, shares)[:-1],
        duels_won_by_group(ranks, weights),
    )
    alike = duels_won_by_cell(mixed, cells, n_groups + 1)
    np.testing.assert_array_equal(alike[:-1], duels_won_by_group(ranks))
    assert not alike[-1].any()


def test_duels_of_many_groups_are_counted_batch_by_batch(rng, monkeypatch):
    ranks = random_ranks(rng, 7 * 4, 3).reshape(7, 4, 3).astype(float)
    weights = rng.random((7, 4))
    at_once = duels_won_by_group(ranks, weights), plackett_luce(ranks, weights, penalty=0.1)
    monkeypatch.setattr("duelrank.consensus._groups.BATCH_SIZE", 2 * 4 * 3)
    in_batches = duels_won_by_group(ranks, weights), plackett_luce(ranks, weights, penalty=0.1)
    np.testing.assert_array_equal(at_once[0], in_batches[0])
    np.testing.assert_allclose(at_once[1], in_batches[1], rtol=1e-9)


@pytest.mark.parametrize("median", list(MEDIANS.values()))
@given(feedback=feedback_of_groups(), data=st.data())
def test_medians_do_not_depend_on_the_numbers_of_labels(median, feedback, data):
    ranks, weights = feedback
    n_classes = ranks.shape[2]
    label_order = np.array(data.draw(st.permutations(range(n_classes))))
    renumbered = np.array(data.draw(st.permutations(range(n_classes))))
    before = median_ranks(ranks, weights, median, label_order)
    after = median_ranks(
        ranks[:, :, renumbered], weights, median, np.argsort(renumbered)[label_order]
    )
    np.testing.assert_array_equal(after, before[:, renumbered])
    np.testing.assert_array_equal(np.sort(before, axis=1)[0], np.arange(1, n_classes + 1))


@pytest.mark.parametrize("name", list(RANKERS))
@kinds
def test_many_groups_are_ranked_as_each_alone(rng, name, kind):
    ranks, unplaced = random_feedback(rng, kind, 20 * 5, 4)
    ranks = ranks.reshape(20, 5, 4)
    weights = rng.integers(0, 3, size=(20, 5))
    options = {"unplaced": unplaced, "random_state": 3}
    together = RANKERS[name](ranks, weights, **options)
    assert together.shape == (20, 4)
    assert together.dtype.kind == "i"
    for group in range(20):
        alone = RANKERS[name](ranks[group], weights[group], **options)
        np.testing.assert_array_equal(together[group], alone)
    shared = RANKERS[name](ranks, weights[0], **options)
    np.testing.assert_array_equal(
        shared, RANKERS[name](ranks, np.tile(weights[0], (20, 1)), **options)
    )


@pytest.mark.parametrize("name", list(RANKERS))
def test_what_the_rankings_do_not_decide_is_drawn(name):
    ranker = RANKERS[name]
    nothing_said = np.full((2, 3), nan)
    tops = np.bincount(
        [int(np.argmin(ranker(nothing_said, random_state=seed))) for seed in range(300)],
        minlength=3,
    )
    assert stats.chisquare(tops).pvalue > 1e-4
    np.testing.assert_array_equal(
        ranker(nothing_said, random_state=7), ranker(np.empty((0, 3)), random_state=7)
    )
    np.testing.assert_array_equal(
        ranker([[1, 1, 1]], random_state=7),
        ranker([[1, 2, 3]], weights=[0], random_state=7),
    )


@pytest.mark.parametrize("name", list(RANKERS))
def test_rounding_errors_decide_no_duel(name):
    # 0.1 + 0.2 > 0.3 in floating point.
    results = [
        RANKERS[name]([[1, 2], [1, 2], [2, 1]], weights=[0.1, 0.2, 0.3], random_state=seed)
        for seed in range(20)
    ]
    assert {result.tolist()[0] for result in results} == {1, 2}


def test_scores():
    won = np.array([[[9, 3, 0], [1, 9, 0], [0, 0, 9]]], dtype=float)  # the diagonal says nothing
    np.testing.assert_allclose(borda_scores(won), [[0.75 + 0.5, 0.25 + 0.5, 1.0]])
    scores = majority_scores(won)
    np.testing.assert_array_equal(np.floor(2 * scores) / 2, [[1.5, 0.5, 1.0]])
    np.testing.assert_allclose(scores % 0.5, borda_scores(won) / 6)


def test_labels_missing_at_random_do_not_bias_borda(rng):
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    ranks = sample_plackett_luce(weights, 20_000, random_state=0).astype(float)
    ranks[rng.random(ranks.shape) < [0.0, 0.9, 0.0, 0.0]] = nan
    # A label that is rarely seen always has the others beside it, and its places look worse.
    among_seen = stats.rankdata(ranks, axis=1, nan_policy="omit")
    assert np.nanmean(among_seen, axis=0).argsort().tolist() == [0, 2, 1, 3]
    np.testing.assert_array_equal(borda(among_seen, unplaced="unknown"), [1, 2, 3, 4])


def test_smaller_groups_are_filled_up_with_nan(rng):
    ranks = random_ranks(rng, 5, 4).astype(float)
    filled = np.full((2, 5, 4), nan)
    filled[0], filled[1, :3] = ranks, ranks[:3]
    for ranker in RANKERS.values():
        both = ranker(filled, random_state=0)
        np.testing.assert_array_equal(both[0], ranker(ranks, random_state=0))
        np.testing.assert_array_equal(both[1], ranker(ranks[:3], random_state=0))
    both = plackett_luce(filled, penalty=0.1)
    np.testing.assert_allclose(both[1], plackett_luce(ranks[:3], penalty=0.1))


def test_no_groups():
    for ranker in RANKERS.values():
        assert ranker(np.empty((0, 3, 4))).shape == (0, 4)
    assert plackett_luce(np.empty((0, 3, 4))).shape == (0, 4)


def test_kemeny_tells_what_is_not_proved():
    circle = [np.roll(np.arange(1, 31), shift) for shift in range(30)]
    with pytest.warns(UserWarning, match="1 of 1 Kemeny rankings are not proved"):
        kemeny(circle)


def as_distribution(log_weights):
    weights = np.exp(log_weights - np.max(log_weights))
    return weights / weights.sum()


def test_plackett_luce_agrees_with_choix_on_full_rankings(rng):
    choix = pytest.importorskip("choix")
    ranks = sample_plackett_luce([5, 1, 2, 4, 3], 40, random_state=0)
    theirs = choix.opt_rankings(5, [np.argsort(row).tolist() for row in ranks], alpha=0, tol=1e-10)
    np.testing.assert_allclose(plackett_luce(ranks), as_distribution(theirs), rtol=1e-5)


def test_plackett_luce_agrees_with_choix_on_top_lists(rng):
    choix = pytest.importorskip("choix")
    ranks = sample_plackett_luce([5, 1, 2, 4, 3], 80, random_state=0).astype(float)
    ranks[ranks > rng.integers(0, 5, size=(80, 1))] = nan  # 0 to 4 labels are listed
    choices = []
    for row in ranks:
        order = np.argsort(row).tolist()
        for place in range(int(np.sum(~np.isnan(row)))):
            choices.append((order[place], order[place + 1 :]))
    theirs = choix.opt_top1(5, choices, alpha=0, tol=1e-10)
    np.testing.assert_allclose(plackett_luce(ranks), as_distribution(theirs), rtol=1e-5)
    filled = check_feedback(ranks).ranks
    np.testing.assert_array_equal(plackett_luce(filled), plackett_luce(ranks))


def test_plackett_luce_agrees_with_choix_on_rankings_of_subsets(rng):
    choix = pytest.importorskip("choix")
    ranks = sample_plackett_luce([5, 1, 2, 4, 3], 80, random_state=0).astype(float)
    ranks[rng.random(ranks.shape) < 0.4] = nan
    lists = [np.argsort(row)[: np.sum(~np.isnan(row))].tolist() for row in ranks]
    theirs = choix.opt_rankings(5, [row for row in lists if len(row) > 1], alpha=0, tol=1e-10)
    ours = plackett_luce(ranks, unplaced="unknown")
    np.testing.assert_allclose(ours, as_distribution(theirs), rtol=1e-5)


@pytest.mark.parametrize("kind", ["full", "top lists"])
def test_no_weights_are_more_likely(rng, kind):
    ranks, _ = random_feedback(rng, kind, 60, 5)
    shares = rng.random(60)
    theta = np.log(plackett_luce(ranks, shares, unplaced="behind"))

    def likelihood(theta):
        return shares @ plackett_luce_log_likelihood(np.exp(theta), ranks)

    step = 1e-4
    for direction in np.eye(5):
        slope = likelihood(theta + step * direction) - likelihood(theta - step * direction)
        assert abs(slope) / (2 * step) < 1e-6
        assert likelihood(theta + direction) < likelihood(theta)


def test_plackett_luce_in_closed_form():
    tops = np.array([[1, nan, nan]] * 6 + [[nan, 1, nan]] * 3 + [[nan, nan, 1]])
    np.testing.assert_allclose(plackett_luce(tops), [0.6, 0.3, 0.1], rtol=1e-10)
    np.testing.assert_allclose(
        plackett_luce([[1, 2], [2, 1]], weights=[1, 1e-8]), [1, 1e-8], rtol=2e-8
    )
    np.testing.assert_allclose(plackett_luce([[nan] * 4], penalty=1), [0.25] * 4)


def test_steps_do_not_overshoot():
    # From equal weights, a full Newton step would make the first label e^29 times heavier.
    tops = np.where(np.eye(30, dtype=bool), 1, nan)
    shares = np.array([1000] + [1] * 29)
    np.testing.assert_allclose(plackett_luce(tops, shares), shares / shares.sum(), rtol=1e-9)


def test_labels_that_hang_together_by_almost_nothing():
    ranks = [[1, 2, nan, nan], [2, 1, nan, nan], [nan, nan, 1, 2], [nan, nan, 2, 1]]
    fitted = plackett_luce(ranks, [3, 1, 1, 2], unplaced="unknown", penalty=1e-20)
    np.testing.assert_allclose(fitted[[0, 3]] / fitted[[1, 2]], [3, 2])


def test_weights_of_rankings_are_repetitions(rng):
    ranks = random_ranks(rng, 12, 4)
    counts = rng.integers(0, 4, size=12)
    np.testing.assert_allclose(
        plackett_luce(ranks, counts), plackett_luce(np.repeat(ranks, counts, axis=0)), rtol=1e-9
    )
    np.testing.assert_allclose(
        plackett_luce(ranks, 1e6 * counts), plackett_luce(ranks, counts), rtol=1e-9
    )


def test_penalty_adds_duels(rng):
    ranks = random_ranks(rng, 6, 4).astype(float)
    duels = np.full((12, 4), nan)
    for row, (winner, loser) in zip(duels, permutations(range(4), 2), strict=True):
        row[winner], row[loser] = 1, 3
    with_duels = plackett_luce(
        np.concatenate([ranks, duels]), [1] * 6 + [0.3] * 12, unplaced="unknown"
    )
    np.testing.assert_allclose(plackett_luce(ranks, penalty=0.3), with_duels, rtol=1e-9)


@pytest.mark.parametrize("kind", ["full", "top lists", "missing"])
def test_weights_are_recovered(rng, kind):
    n_rows, weights = 20_000, np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    ranks = sample_plackett_luce(weights, n_rows, random_state=0).astype(float)
    if kind == "top lists":
        ranks[ranks > 2] = nan
    if kind == "missing":
        ranks[rng.random(ranks.shape) < 0.4] = nan
    fitted = plackett_luce(ranks, unplaced="unknown" if kind == "missing" else "behind")
    # Standard errors from ten parts of the sample.
    parts = plackett_luce(
        ranks.reshape(10, n_rows // 10, 5), unplaced="unknown" if kind == "missing" else "behind"
    )
    standard_errors = parts.std(axis=0, ddof=1) / np.sqrt(10)
    assert np.all(standard_errors < 0.01)
    assert np.all(np.abs(fitted - weights) < 5 * standard_errors)


@given(feedback=feedback_of_groups(), data=st.data())
def test_plackett_luce_does_not_depend_on_the_numbers_of_labels(feedback, data):
    ranks, weights = feedback
    # Distinct places of the labels that are placed, as in rankings of subsets.
    ranks = np.where(np.isnan(ranks), nan, np.argsort(np.argsort(ranks, axis=2), axis=2) + 1)
    renumbered = np.array(data.draw(st.permutations(range(ranks.shape[2]))))
    before = plackett_luce_weights(ranks, weights, 0.1)
    after = plackett_luce_weights(ranks[:, :, renumbered], weights, 0.1)
    np.testing.assert_allclose(after, before[:, renumbered], rtol=1e-7)
    np.testing.assert_allclose(before.sum(axis=1), 1)
    for group in range(len(ranks)):
        alone = plackett_luce_weights(ranks[group : group + 1], weights[group : group + 1], 0.1)
        np.testing.assert_allclose(alone[0], before[group], rtol=1e-7)


def test_equal_rankings_with_a_small_penalty():
    fitted = plackett_luce([np.arange(1, 12)] * 20, penalty=1e-6)
    assert np.all(np.diff(np.log(fitted)) < -5)
    with pytest.warns(ConvergenceWarning, match="1 of 1 groups have not converged"):
        plackett_luce([np.arange(1, 31)] * 20, penalty=1e-12)


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        ([1, 2, 3], {}, r"shape \(n, K\), one ranking per row.*got \(3,\)"),
        ([[[[1, 2]]]], {}, r"got \(1, 1, 1, 2\)"),
        ([[1, 2], [1]], {}, "of equal length"),
        ([[1], [1]], {}, "K ≥ 2"),
        ([["a", "b"]], {}, "ranks must be numbers"),
        ([[1, 1, 2]], {}, "ranks must hold whole places"),
        (
            [[[1, 2]], [[1, 4]]],
            {},
            r"its groups one below the other, must hold.*row 1 is \[1.0, 4.0",
        ),
        ([[1, 2]], {"unplaced": "here"}, "unplaced must be one of"),
        ([[1, 2]], {"weights": [1, 2]}, r"one number per ranking: shape \(1,\); got \(2,\)"),
        ([[[1, 2]]], {"weights": [[1], [2]]}, r"shape \(1, 1\), or \(1,\) for all groups alike"),
        ([[1, 2]], {"weights": [-1]}, "weights must be finite and not negative, got -1.0"),
        ([[1, 2]], {"weights": [nan]}, "weights must be finite and not negative, got nan"),
        ([[1, 2]], {"weights": ["x"]}, r"weights must be numbers of shape \(1,\)"),
    ],
)
@pytest.mark.parametrize("function", [*RANKERS.values(), plackett_luce])
def test_bad_rankings(function, ranks, options, message):
    with pytest.raises(ValueError, match=message):
        function(ranks, **options)


@pytest.mark.parametrize("penalty", [-1, nan, np.inf, "0.1", None])
def test_bad_penalty(penalty):
    with pytest.raises(ValueError, match="penalty must be a finite number, not negative; got"):
        plackett_luce([[1, 2]], penalty=penalty)


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        ([[1, 2, 3], [1, 1, 3]], {}),
        ([[1, 2, 3], [1.5, 1.5, 3]], {}),
        ([[1, 2, 3], [1, 1, nan]], {"unplaced": "behind"}),
    ],
)
def test_plackett_luce_has_no_ties(ranks, options):
    with pytest.raises(ValueError, match=r"no ties but one at the end.* but row 1 is \[1"):
        plackett_luce(ranks, **options)


def test_ties_at_the_end_are_top_lists():
    tied = [[1, 2, 2], [3, 1, 2], [2, 2, 1]]
    listed = [[1, nan, nan], [3, 1, 2], [nan, nan, 1]]
    np.testing.assert_array_equal(plackett_luce(tied), plackett_luce(listed))


def test_plackett_luce_without_a_maximum():
    connected = [[1, 2, 3, 4], [4, 3, 2, 1]]
    with pytest.raises(ValueError, match=r"fit, but none of \[1, 3\] is placed ahead of any other"):
        plackett_luce([[1, 3, 2, 4], [2, 4, 1, 3]])
    with pytest.raises(ValueError, match=r"in group 1 for .* none of \[3\] is placed ahead"):
        plackett_luce([connected, [[1, 2, 3, 4], [3, 2, 1, 4]]])
    with pytest.raises(ValueError, match="pass penalty > 0"):
        plackett_luce(connected, weights=[1, 0])
    # Everyone is ahead of everyone else through those between them: 0, 3, 2, 1, 0.
    circle = [[1, nan, nan, 2], [nan, nan, 2, 1], [nan, 2, 1, nan], [2, 1, nan, nan]]
    np.testing.assert_allclose(plackett_luce(circle, unplaced="unknown"), [0.25] * 4)
    fitted = plackett_luce([[1, 3, 2, 4], [2, 4, 1, 3]], penalty=0.1)
    np.testing.assert_allclose(fitted[[0, 1]], fitted[[2, 3]])
    assert fitted[1] < fitted[0]
