"""P-values are right or too large, and tests see what they are for."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from duelrank.drift._profile import Bins, Values, count_buckets
from duelrank.drift._statistics import (
    holm,
    nothing_new,
    same_mean,
    same_order,
    same_share,
    same_shares,
    smallest_of,
    smallest_told,
    total_variation,
)

counts = arrays(np.int64, 7, elements=st.integers(0, 200))


@given(counts, counts)
def test_tests_of_shares_are_symmetric_and_between_0_and_1(old, new):
    for p_value, turned in [
        (same_shares(old, new), same_shares(new, old)),
        (same_order(old, new)[1], same_order(new, old)[1]),
    ]:
        assert 0 <= p_value <= 1
        assert p_value == pytest.approx(turned)
    assert 0 <= total_variation(old, new) <= 1
    assert total_variation(old, old) == 0
    assert same_shares(old, old) == pytest.approx(1)


def test_frequent_groups_are_tested_as_scipy_does():
    old, new = np.array([120, 80, 50, 60]), np.array([40, 60, 30, 20])
    expected = stats.chi2_contingency(np.stack([old, new]), correction=False).pvalue
    assert same_shares(old, new) == pytest.approx(expected)


def test_rare_groups_are_joined():
    """Many groups of a row each make one group."""
    old = np.array([1000, 1000, *[1] * 100, *[0] * 100])
    new = np.array([1000, 1000, *[0] * 100, *[1] * 100])
    assert same_shares(old, new) == pytest.approx(1)


def test_holm_is_the_textbook_one():
    adjusted = holm(np.array([0.01, 0.04, 0.03]))
    assert adjusted == pytest.approx([0.03, 0.06, 0.06])
    assert len(holm(np.zeros(0))) == 0
    assert smallest_of(0.01, 0.5) == pytest.approx(0.02)
    assert smallest_of() == 1


def test_means_are_tested_as_scipy_does(rng):
    a, b = rng.normal(size=30), rng.normal(1, 2, size=50)
    told = [(np.array([x.mean()]), np.array([x.std(ddof=1)]), len(x)) for x in (a, b)]
    assert same_mean(*told)[0] == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    constant = np.array([1.0]), np.array([0.0]), 10
    assert same_mean(constant, constant)[0] == 1


def test_nothing_compared_with_something_is_no_difference():
    none, some = np.array([0, 0]), np.array([3, 4])
    assert same_shares(none, some) == same_order(none, some)[1] == 1
    assert same_share((0, 0), (3, 4)) == 1
    assert nothing_new(np.zeros(0, dtype=int), 3, 5, 100, 50) == 1


def test_a_new_value_in_many_rows_is_no_chance():
    assert nothing_new(np.array([20]), 0, 5, 1000, 200) < 1e-10
    assert nothing_new(np.array([1]), 30, 100, 1000, 200) > 0.5
    assert nothing_new(np.ones(50, dtype=int), 3, 100, 1000, 200) < 1e-10


@pytest.mark.parametrize("sizes", [(400, 200), pytest.param((100, 300), marks=pytest.mark.slow)])
def test_p_values_are_not_too_small(sizes):
    """At the level 1%, of samples of one distribution; 400 draws allow for about 2.5%."""
    rng = np.random.default_rng(3)
    n, m = sizes
    made = {"order": [], "values": [], "shares of values": [], "new values": [], "missing": []}
    for _ in range(400):
        bins = Bins.of(rng.normal(size=n))
        made["order"].append(same_order(np.array(bins.counts), bins.count(rng.normal(size=m)))[1])
        bins = Bins.of(rng.poisson(3.0, size=n).astype(float))
        new = bins.count(rng.poisson(3.0, size=m).astype(float))
        made["values"].append(same_shares(np.array(bins.counts), new))
        old, new = (np.minimum(rng.zipf(1.6, size=k), 500).astype(str).tolist() for k in (n, m))
        values = Values.of(old)
        counter = Counter(new)
        buckets = count_buckets(counter, values.salt)
        made["shares of values"].append(same_shares(np.array(values.buckets), buckets))
        unseen = np.array([k for value, k in counter.items() if value not in set(old)], dtype=int)
        p_value = nothing_new(unseen, values.n_single, values.n_values, n, m)
        made["new values"].append(p_value)
        shares = [(int(rng.binomial(k, 0.1)), k) for k in (n, m)]
        made["missing"].append(same_share(*shares))
    for name, p_values in made.items():
        assert np.mean(np.array(p_values) < 0.01) <= 0.025, name


def test_the_smallest_change_that_is_told_shrinks_with_the_rows():
    told = [smallest_told(10_000, n_new, 0.01) for n_new in (1, 20, 200, 2_000)]
    assert told == sorted(told, reverse=True)
    assert told[0] == 1
    # Of samples that moved by as much, about half are found.
    rng = np.random.default_rng(0)
    old = rng.random(10_000)
    found = []
    for _ in range(100):
        new = rng.random(200)
        new[rng.random(200) < told[2]] = 2.0
        found.append(stats.ks_2samp(old, new).pvalue < 0.01)
    assert 0.2 < np.mean(found) < 0.9
