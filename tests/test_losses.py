import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.losses import (
    footrule_distance,
    hamming_distance,
    kendall_distance,
    kendall_tau,
    spearman_distance,
    top_k_loss,
    zero_one_distance,
)
from random_duels import random_ranks, ranks_of_rows

METRICS = [kendall_distance, footrule_distance, hamming_distance, zero_one_distance]
DISTANCES = [*METRICS, spearman_distance]
triples = st.integers(1, 6).flatmap(lambda n_classes: ranks_of_rows(n_classes, 3))


@pytest.mark.parametrize("distance", DISTANCES)
@given(ranks=triples)
def test_distances_are_symmetric_and_zero_only_for_equals(distance, ranks):
    first, second, _ = ranks
    assert distance(first, first) == 0
    assert distance(first, second) == distance(second, first)
    assert (distance(first, second) == 0) == np.array_equal(first, second)


@pytest.mark.parametrize("distance", METRICS)
@given(ranks=triples)
def test_metrics_satisfy_the_triangle_inequality(distance, ranks):
    first, second, third = ranks
    assert distance(first, third) <= distance(first, second) + distance(second, third)


@given(ranks=triples)
def test_root_of_spearman_satisfies_the_triangle_inequality(ranks):
    first, second, third = ranks
    direct = np.sqrt(spearman_distance(first, third))
    detour = np.sqrt(spearman_distance(first, second)) + np.sqrt(spearman_distance(second, third))
    assert direct <= detour + 1e-12


@pytest.mark.parametrize("distance", DISTANCES)
@given(ranks=triples, data=st.data())
def test_distances_do_not_depend_on_the_names_of_labels(distance, ranks, data):
    renamed = ranks[:, data.draw(st.permutations(range(ranks.shape[1])))]
    assert distance(ranks[0], ranks[1]) == distance(renamed[0], renamed[1])


@pytest.mark.parametrize("n_classes", [2, 3, 10, 300])
def test_kendall_agrees_with_scipy(rng, n_classes):
    true, pred = random_ranks(rng, 20, n_classes), random_ranks(rng, 20, n_classes)
    theirs = [stats.kendalltau(t, p).statistic for t, p in zip(true, pred, strict=True)]
    np.testing.assert_allclose(kendall_tau(true, pred), theirs, atol=1e-12)
    by_definition = [
        sum((t[i] - t[j]) * (p[i] - p[j]) < 0 for i in range(n_classes) for j in range(i))
        for t, p in zip(true.tolist(), pred.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(kendall_distance(true, pred), by_definition)


def test_extremes_at_reversal():
    true, reverse = np.array([1, 2, 3, 4]), np.array([4, 3, 2, 1])
    assert kendall_distance(true, reverse) == 6
    assert kendall_tau(true, reverse) == -1
    assert kendall_tau(true, true) == 1
    assert footrule_distance(true, reverse) == 8
    assert spearman_distance(true, reverse) == 20
    assert hamming_distance(true, reverse) == 4
    assert zero_one_distance(true, reverse) == 1


def test_top_k_loss():
    ranks = np.array([[1, 2, 3], [3, 1, 2]])
    np.testing.assert_array_equal(top_k_loss([0, 0], ranks, k=1), [0, 1])
    np.testing.assert_array_equal(top_k_loss([1, 2], ranks, k=2), [0, 0])
    assert top_k_loss(2, ranks[0], k=2) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kendall_distance([[1, 2]], [[1, 2, 3]]), "ranks_pred must have one column per"),
        (lambda: kendall_distance([[1, 2]], [[1, 2], [2, 1]]), "must have the same shape"),
        (lambda: hamming_distance([[1, 1]], [[1, 2]]), "ranks_true must hold a permutation"),
        (lambda: footrule_distance([[1, 2]], [[1, np.nan]]), "ranks_pred must place every label"),
        (lambda: kendall_tau([[1]], [[1]]), "at least 2 labels"),
        (lambda: top_k_loss([0], [[1, 2]], k=3), "k must be an integer from 1 to 2"),
        (lambda: top_k_loss([2], [[1, 2]], k=1), "codes must be integers from 0 to 1"),
        (lambda: top_k_loss([0, 1], [[1, 2]], k=1), "one label per row"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_tau_of_a_reversal_is_exact():
    for n_classes in (23, 34, 59):
        ranks = np.arange(1, n_classes + 1)
        assert kendall_tau(ranks, ranks[::-1]) == -1
