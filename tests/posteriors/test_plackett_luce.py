from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from duelrank.posteriors import (
    complete_ranking,
    duel_probabilities,
    plackett_luce_log_likelihood,
    sample_plackett_luce,
)

weight_vectors = hnp.arrays(
    np.float64,
    st.integers(1, 5),
    elements=st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.sampled_from([1e-300, 1e300])),
)


def top_lists(n_classes, m):
    """Ranks of all top-m lists of K labels."""
    orders = list(permutations(range(n_classes), m))
    ranks = np.full((len(orders), n_classes), np.nan)
    for row, order in enumerate(orders):
        ranks[row, list(order)] = range(1, m + 1)
    return ranks


def probability_by_the_urn(weights, order):
    """Probability of drawing these labels in this order, one by one."""
    left = dict(enumerate(weights))
    probability = 1.0
    for label in order:
        total = sum(left.values())
        probability *= left[label] / total if total > 0 else 1 / len(left)
        del left[label]
    return probability


def assert_frequencies(counts, probabilities):
    """Chi-square test at a level at which a right sampler fails once in 10,000 seeds."""
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    expected = probabilities[possible] * counts.sum()
    assert expected.min() >= 5
    assert stats.chisquare(counts[possible], expected).pvalue > 1e-4


@given(weight_vectors, st.data())
def test_likelihood_sums_to_one_over_all_top_m_lists(weights, data):
    m = data.draw(st.integers(0, len(weights)))
    log_likelihood = plackett_luce_log_likelihood(weights, top_lists(len(weights), m))
    assert np.exp(log_likelihood).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("weights", [[3, 1, 0.5, 2], [1, 0, 2, 0], [0, 0, 0, 0]])
def test_likelihood_is_that_of_drawing_without_replacement(weights):
    for m in range(5):
        ranks = top_lists(4, m)
        for row, log_likelihood in zip(
            ranks, plackett_luce_log_likelihood(weights, ranks), strict=True
        ):
            order = np.argsort(row)[:m]  # NaN last
            expected = probability_by_the_urn(weights, order)
            assert np.exp(log_likelihood) == pytest.approx(expected, abs=1e-12)


def test_likelihood_of_a_top_list_is_that_of_its_completions(rng):
    weights = rng.random(5)
    full = top_lists(5, 5)
    likelihood = np.exp(plackett_luce_log_likelihood(weights, full))
    top = np.where(full <= 2, full, np.nan)
    for row in np.unique(top, axis=0):
        same = ((full == row) | np.isnan(row)).all(axis=1)
        one = np.exp(plackett_luce_log_likelihood(weights, row))
        assert one == pytest.approx(likelihood[same].sum())


def test_likelihood_agrees_with_choix(rng):
    choix = pytest.importorskip("choix")
    log_weights = rng.normal(size=6)
    ranks = sample_plackett_luce(np.exp(log_weights), n_samples=50, random_state=0)
    ours = plackett_luce_log_likelihood(np.exp(log_weights), ranks).sum()
    orders = [tuple(order.tolist()) for order in np.argsort(ranks, axis=1)]
    assert ours == pytest.approx(choix.log_likelihood_rankings(orders, log_weights))
    tops = np.where(ranks == 1, 1.0, np.nan)
    ours = plackett_luce_log_likelihood(np.exp(log_weights), tops).sum()
    choices = [(order[0], order[1:]) for order in orders]
    assert ours == pytest.approx(choix.log_likelihood_top1(choices, log_weights))


def test_likelihood_ignores_the_scale_of_the_weights(rng):
    weights = rng.random((20, 4))
    ranks = sample_plackett_luce(weights, random_state=0)
    reference = plackett_luce_log_likelihood(weights, ranks)
    for scale in (1e-300, 1e307):
        np.testing.assert_allclose(plackett_luce_log_likelihood(weights * scale, ranks), reference)


def test_likelihood_takes_one_vector_for_all_rows_and_one_row_for_all_vectors(rng):
    weights = rng.random((3, 4))
    ranks = sample_plackett_luce(weights, random_state=0)
    rows = plackett_luce_log_likelihood(weights, ranks)
    assert rows[1] == plackett_luce_log_likelihood(weights[1], ranks[1])
    one_vector = plackett_luce_log_likelihood(weights[0], ranks)
    one_ranking = plackett_luce_log_likelihood(weights, ranks[0])
    assert one_vector.shape == one_ranking.shape == (3,)
    assert one_vector[0] == one_ranking[0] == rows[0]


@pytest.mark.parametrize("weights", [[3.0, 1.0, 0.5, 2.0], [0.0, 1.0, 0.0, 2.0], [0.0] * 4])
def test_sampled_rankings_are_as_frequent_as_likely(weights):
    ranks = sample_plackett_luce(weights, n_samples=40_000, random_state=1)
    possible = top_lists(4, 4)
    counts = np.array([(ranks == row).all(axis=1).sum() for row in possible])
    assert counts.sum() == len(ranks)
    assert_frequencies(counts, np.exp(plackett_luce_log_likelihood(weights, possible)))


def test_pairwise_frequencies_are_duel_probabilities(rng):
    eta = np.array([0.4, 0.05, 0.3, 0.15, 0.1])
    n_samples = 100_000
    ranks = sample_plackett_luce(np.tile(eta, (n_samples, 1)), random_state=2)
    before = (ranks[:, :, np.newaxis] < ranks[:, np.newaxis, :]).mean(axis=0)
    expected = duel_probabilities(eta)
    standard_error = np.sqrt(expected * (1 - expected) / n_samples)
    off_diagonal = ~np.eye(5, dtype=bool)
    assert (np.abs(before - expected) <= 4.5 * standard_error)[off_diagonal].all()


def test_labels_without_weight_come_last_in_random_order():
    ranks = sample_plackett_luce([0, 5e-324, 0, 1e308, 0], n_samples=6000, random_state=0)
    assert (ranks[:, [3, 1]] == [1, 2]).all()
    counts = np.array(
        [(ranks[:, [0, 2, 4]] == p).all(axis=1).sum() for p in permutations([3, 4, 5])]
    )
    assert_frequencies(counts, np.full(6, 1 / 6))


def test_every_row_has_its_own_weights(rng):
    codes = rng.integers(0, 3, size=500)
    weights = np.eye(3)[codes] + 1e-12
    ranks = sample_plackett_luce(weights, random_state=0)
    np.testing.assert_array_equal(ranks.argmin(axis=1), codes)


def test_sampling_is_reproducible_and_has_the_documented_shapes():
    weights = [1.0, 2.0, 3.0]
    one = sample_plackett_luce(weights, random_state=3)
    many = sample_plackett_luce(weights, n_samples=7, random_state=3)
    assert (one.shape, many.shape) == ((3,), (7, 3))
    np.testing.assert_array_equal(one, many[0])
    np.testing.assert_array_equal(
        many, sample_plackett_luce(np.tile(weights, (7, 1)), random_state=3)
    )
    assert sample_plackett_luce(weights, n_samples=0).shape == (0, 3)


def test_the_label_on_top_has_law_eta_and_its_completion_is_plackett_luce(rng):
    """The coupling lemma, both ways."""
    eta = np.array([0.45, 0.1, 0.25, 0.2])
    ranks = sample_plackett_luce(eta, n_samples=40_000, random_state=4)
    assert_frequencies(np.bincount(ranks.argmin(axis=1), minlength=4), eta)

    codes = rng.choice(4, size=40_000, p=eta)
    completed = complete_ranking(np.tile(eta, (len(codes), 1)), codes, random_state=5)
    np.testing.assert_array_equal(completed.argmin(axis=1), codes)
    possible = top_lists(4, 4)
    counts = np.array([(completed == row).all(axis=1).sum() for row in possible])
    assert_frequencies(counts, np.exp(plackett_luce_log_likelihood(eta, possible)))


def test_completion_keeps_labels_without_probability_last():
    eta = np.tile([0.0, 0.3, 0.0, 0.7], (2000, 1))
    codes = np.tile([1, 3], 1000)
    ranks = complete_ranking(eta, codes, random_state=0)
    np.testing.assert_array_equal(np.argsort(ranks)[:, 0], codes)
    np.testing.assert_array_equal(np.sort(ranks[:, [1, 3]]), np.tile([1, 2], (2000, 1)))
    assert_frequencies(np.bincount(ranks[:, 0] - 3), np.array([0.5, 0.5]))
    assert complete_ranking([0.2, 0.0, 0.8], 2, random_state=0).tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_plackett_luce([1, -1]), "weights must be finite and not negative"),
        (lambda: sample_plackett_luce([1, np.inf]), "weights must be finite and not negative"),
        (lambda: sample_plackett_luce([1, 2], n_samples=-1), "n_samples must be a non-negative"),
        (lambda: sample_plackett_luce([1, 2], n_samples=1.5), "n_samples must be a non-negative"),
        (lambda: sample_plackett_luce([[1, 2]], n_samples=3), "n_samples must be None"),
        (lambda: complete_ranking([[0.5, 0.5]], [2]), "codes must be integers from 0 to 1"),
        (lambda: complete_ranking([[0.5, 0.5]], [0.0]), "codes must be integers from 0 to 1"),
        (lambda: complete_ranking([[0.5, 0.5]], [0, 1]), "codes must name one label per row"),
        (lambda: complete_ranking([[1, 0], [1, 0]], [0, 1]), "row 1 observes label 1"),
        (
            lambda: plackett_luce_log_likelihood([1, 2, 3], [1, 3, np.nan]),
            r"ranks must be full or top-m lists.*got places \[1, 3\]",
        ),
        (lambda: plackett_luce_log_likelihood([1, 2], [1, 1]), "ranks must hold distinct"),
        (lambda: plackett_luce_log_likelihood([1, 2], [1, 2, 3]), "one column per label: 2"),
        (lambda: plackett_luce_log_likelihood([[1, 2]] * 3, [[1, 2]] * 2), "got 3 and 2 rows"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
