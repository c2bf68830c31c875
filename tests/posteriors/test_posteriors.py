from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from duelrank import pairs
from duelrank.posteriors import (
    bayes_beats,
    duel_gaps,
    duel_probabilities,
    is_strictly_transitive,
    optimal_ranks,
    sample_labels,
)
from duelrank.tournaments import couple, duel_losses, is_transitive

# Few different values, so that ties and zeros happen.
etas = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 6)),
    elements=st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 1.0]),
)


def satisfies_the_definition(probabilities):
    """Assumption of strict stochastic transitivity, word by word, for one (K, K) matrix."""
    labels = range(len(probabilities))
    if any(probabilities[i, j] == 0.5 for i, j in permutations(labels, 2)):
        return False
    return all(
        probabilities[i, k] > 0.5
        for i, j, k in permutations(labels, 3)
        if probabilities[i, j] > 0.5 and probabilities[j, k] > 0.5
    )


@given(etas)
def test_optimal_ranks_sort_by_decreasing_probability(eta):
    for row, ranks in zip(eta, optimal_ranks(eta), strict=True):
        order = sorted(range(len(row)), key=lambda label: (-row[label], label))
        assert [ranks[label] for label in order] == list(range(1, len(row) + 1))


@given(etas)
def test_duel_probabilities_are_shares_of_the_two_labels(eta):
    probabilities = duel_probabilities(eta)
    for i, row in enumerate(eta):
        for a in range(len(row)):
            for b in range(len(row)):
                total = row[a] + row[b]
                expected = 0.5 if a == b or total == 0 else row[a] / total
                assert probabilities[i, a, b] == expected
    np.testing.assert_allclose(probabilities + np.swapaxes(probabilities, 1, 2), 1)


@given(etas)
def test_gaps_are_distances_of_duel_probabilities_from_a_coin(eta):
    first, second = pairs(eta.shape[1])
    expected = np.abs(2 * duel_probabilities(eta)[:, first, second] - 1)
    np.testing.assert_allclose(duel_gaps(eta), expected, atol=1e-15)


def test_weights_near_the_ends_of_the_floats():
    largest, smallest = np.finfo(np.float64).max, np.nextafter(0, 1)
    np.testing.assert_allclose(duel_probabilities([1e308, 1.5e308])[0], [0.5, 0.4], rtol=1e-15)
    np.testing.assert_allclose(duel_gaps([1e308, 1.5e308]), 0.2, rtol=1e-15)
    np.testing.assert_array_equal(duel_probabilities([largest] * 3), np.full((3, 3), 0.5))
    # Two labels are not confounded by a third that is far more probable.
    np.testing.assert_allclose(duel_gaps([largest, 1e-290, 3e-290]), [1, 1, 0.5], rtol=1e-15)
    np.testing.assert_allclose(duel_gaps([smallest, 3 * smallest]), 0.5, rtol=1e-15)


@given(etas)
def test_bayes_duels_have_no_cycle_and_their_losses_are_the_optimal_ranks(eta):
    beats = bayes_beats(eta)
    assert is_transitive(beats).all()
    np.testing.assert_array_equal(1 + duel_losses(beats), optimal_ranks(eta))
    higher = eta[:, :, np.newaxis] > eta[:, np.newaxis, :]
    assert beats[higher].all()


def test_bayes_duels_tell_apart_what_quotients_cannot():
    eta = np.array([np.nextafter(1.0, 0.0), 1.0])
    assert duel_probabilities(eta)[1, 0] == 0.5
    assert bayes_beats(eta)[1, 0]


@given(
    st.integers(1, 5).flatmap(
        lambda n_classes: hnp.arrays(
            np.float64,
            len(pairs(n_classes)[0]),
            elements=st.sampled_from([0.0, 0.25, 0.5, 0.625, 0.75, 1.0]),
        ).map(lambda upper: (n_classes, upper))
    )
)
def test_strict_transitivity_is_the_definition_over_all_triples(drawn):
    n_classes, upper = drawn
    first, second = pairs(n_classes)
    probabilities = np.full((n_classes, n_classes), 0.5)
    probabilities[first, second] = upper
    probabilities[second, first] = 1 - upper
    assert is_strictly_transitive(probabilities) == satisfies_the_definition(probabilities)


def test_strict_transitivity_of_many_random_tournaments(rng):
    first, second = pairs(4)
    probabilities = np.full((2000, 4, 4), 0.5)
    upper = rng.random((2000, 6)).round(1)
    probabilities[:, first, second] = upper
    probabilities[:, second, first] = 1 - upper
    answers = is_strictly_transitive(probabilities)
    expected = [satisfies_the_definition(single.round(12)) for single in probabilities]
    np.testing.assert_array_equal(answers, expected)
    assert 0 < answers.sum() < len(answers)


def test_posteriors_without_ties_are_strictly_transitive_and_coupling_undoes_them(rng):
    eta = rng.dirichlet(np.ones(6), size=200)
    probabilities = duel_probabilities(eta)
    assert is_strictly_transitive(probabilities).all()
    np.testing.assert_allclose(couple(probabilities), eta, atol=1e-10)


@given(etas, st.integers(0, 2**32 - 1), st.sampled_from([1.0, 3e-310, 1e308]))
def test_labels_are_drawn_by_cumulated_weights(eta, seed, scale):
    eta = eta[eta.any(axis=1)]
    codes = sample_labels(eta * scale, random_state=seed)
    assert codes.shape == (len(eta),)
    for row, code, uniform in zip(
        eta, codes, np.random.RandomState(seed).uniform(size=len(eta)), strict=True
    ):
        assert row[code] > 0
        below, upto = row[:code].sum() / row.sum(), row[: code + 1].sum() / row.sum()
        assert below - 1e-12 <= uniform <= upto + 1e-12


class Constant(np.random.RandomState):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def uniform(self, size):
        return np.full(size, self.value)


@pytest.mark.parametrize("scale", [1.0, 0.1, 1e300, np.nextafter(0, 1)])
def test_impossible_labels_are_never_drawn(scale):
    eta = np.array([[0, 2, 0, 3, 0], [0, 0, 7, 0, 0]]) * scale
    np.testing.assert_array_equal(sample_labels(eta, Constant(0.0)), [1, 2])
    np.testing.assert_array_equal(sample_labels(eta, Constant(np.nextafter(1, 0))), [3, 2])
    assert sample_labels(eta[0], Constant(0.39)) == 1
    assert sample_labels(eta[0], Constant(0.41)) == 3


def test_shares_of_drawn_labels():
    weights = np.array([5, 0, 1, 2])
    observed = np.bincount(sample_labels(np.tile(weights, (20_000, 1)), random_state=0))
    expected = 20_000 * weights / 8
    possible = weights > 0
    assert observed[1] == 0
    assert stats.chisquare(observed[possible], expected[possible]).pvalue > 1e-3


def test_rows_without_a_possible_label_are_refused():
    with pytest.raises(ValueError, match="at least one label in every row; row 1 is all zero"):
        sample_labels([[0.5, 0.5], [0, 0]])
    with pytest.raises(ValueError, match="row 0 is all zero"):
        sample_labels([0, 0])


def test_one_row_or_many(rng):
    eta = rng.dirichlet(np.ones(5), size=4)
    for function in (optimal_ranks, duel_probabilities, duel_gaps, bayes_beats):
        np.testing.assert_array_equal(function(eta), [function(row) for row in eta])
    probabilities = duel_probabilities(eta)
    np.testing.assert_array_equal(
        is_strictly_transitive(probabilities), [is_strictly_transitive(p) for p in probabilities]
    )


@pytest.mark.parametrize(
    ("eta", "message"),
    [
        ([0.5, -0.1], "eta must be finite and not negative, got -0.1"),
        ([0.5, np.nan], "eta must be finite and not negative, got nan"),
        ([[[0.5]]], r"eta must have shape \(n, K\)"),
        ([[]], r"eta must have shape \(n, K\)"),
        ([[0.1, 0.2], [0.3]], "eta must be numbers"),
        (["a", "b"], "eta must be numbers"),
    ],
)
def test_bad_posteriors_are_named(eta, message):
    for function in (optimal_ranks, duel_probabilities, duel_gaps, bayes_beats, sample_labels):
        with pytest.raises(ValueError, match=message):
            function(eta)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (np.full((2, 3), 0.5), r"probabilities must have shape \(n, K, K\)"),
        (np.full((3, 3), 0.7), "complementary"),
        (np.array([[0.5, 1.5], [-0.5, 0.5]]), "between 0 and 1"),
        (np.full((2, 2), np.nan), "between 0 and 1"),
    ],
)
def test_bad_pairwise_probabilities_are_named(probabilities, message):
    with pytest.raises(ValueError, match=message):
        is_strictly_transitive(probabilities)
