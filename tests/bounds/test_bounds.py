import math
import pickle
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.bounds import (
    Bound,
    classification_excess_bound,
    learning_rate,
    ranking_error_bound,
    sample_threshold,
    top_k_excess_bound,
)

DUEL = {"noise_exponent": 0.6, "noise_constant": 1.5, "min_mass": 0.3, "vc_dimension": 3}
PROBLEM = {**DUEL, "n_classes": 4}
BOUNDS = [
    ranking_error_bound,
    classification_excess_bound,
    lambda n_samples, **problem: top_k_excess_bound(2, n_samples, **problem),
    lambda n_samples, **problem: top_k_excess_bound(2, n_samples, method="union", **problem),
]

duels = st.fixed_dictionaries(
    {
        "noise_exponent": st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]),
        "noise_constant": st.floats(1e-3, 50),
        "min_mass": st.floats(0.01, 1),
        "vc_dimension": st.integers(1, 20),
        "confidence": st.floats(1e-12, 0.99),
        "constant": st.floats(0.05, 5),
    }
)
sample_sizes = st.integers(1, 10**8)


# The formulas once more, in plain floats and as the text has them: first the two terms of the
# supplement's maximum with its own β, then the theorem's.


def supplement_terms(n, noise_exponent, noise_constant, min_mass, vc_dimension, delta, constant):
    p = 1 / (2 - noise_exponent)
    beta = duel_factor(noise_exponent, noise_constant) / min_mass
    first = (16 * beta / (min_mass ** (2 - 2 * noise_exponent) * n)) ** p * (
        (4 * constant**2 * vc_dimension * math.log(n)) ** p + (2 * math.log(2 / delta)) ** p
    )
    return first, 32 * math.log(2 / delta) / (3 * min_mass * n)


def theorem_rate(n, noise_exponent, noise_constant, min_mass, vc_dimension, delta, constant=1.0):
    p = 1 / (2 - noise_exponent)
    h = min_mass ** (3 - 2 * noise_exponent) / duel_factor(noise_exponent, noise_constant)
    complexity = (64 * constant**2 * vc_dimension * math.log(n)) ** p
    return 2 * (1 / (n * h)) ** p * (complexity + (32 * math.log(2 / delta)) ** p)


def duel_factor(noise_exponent, noise_constant):
    clear = 1 - noise_exponent
    return noise_constant**clear / (clear**clear * noise_exponent**noise_exponent)


@given(duel=duels, n=sample_sizes)
def test_learning_rate_is_twice_the_larger_term(duel, n):
    symbols = {name: value for name, value in duel.items() if name != "confidence"}
    expected = 2 * max(supplement_terms(n, delta=duel["confidence"], **symbols))
    assert learning_rate(n, **duel) == pytest.approx(expected, rel=1e-9)


@given(duel=duels, n=sample_sizes)
def test_learning_rate_is_the_theorems_from_the_threshold_on(duel, n):
    symbols = {name: value for name, value in duel.items() if name != "confidence"}
    n = max(n, int(sample_threshold(**duel)))
    expected = theorem_rate(n, delta=duel["confidence"], **symbols)
    assert learning_rate(n, **duel) == pytest.approx(expected, rel=1e-9)


def test_learning_rate_below_the_threshold_exceeds_the_theorems_formula():
    duel = {"noise_exponent": 0.1, "noise_constant": 1, "min_mass": 0.9, "vc_dimension": 1}
    n_0 = sample_threshold(**duel, confidence=1e-9, constant=0.1)
    assert n_0 > 5
    rate = learning_rate(n_0 - 1, **duel, confidence=1e-9, constant=0.1)
    assert rate > theorem_rate(n_0 - 1, **duel, delta=1e-9, constant=0.1)
    assert rate == pytest.approx(64 * math.log(2e9) / (3 * 0.9 * (n_0 - 1)))


def test_labels_share_the_confidence():
    assert learning_rate(500, **DUEL, n_classes=5, confidence=0.2) == pytest.approx(
        learning_rate(500, **DUEL, confidence=0.02)
    )
    shared = sample_threshold(**DUEL, n_classes=5, confidence=0.2, constant=0.1)
    assert shared == sample_threshold(**DUEL, confidence=0.02, constant=0.1)


@given(duel=duels)
def test_exact_threshold_is_where_the_terms_cross(duel):
    symbols = {name: value for name, value in duel.items() if name != "confidence"}

    def dominance(n):
        first, second = supplement_terms(n, delta=duel["confidence"], **symbols)
        return first / second

    n_0 = int(sample_threshold(**duel))
    beyond = [n_0, n_0 + 1, 2 * n_0, 3 * n_0 + 7, 1000 * n_0]
    assert all(dominance(n) >= 1 - 1e-12 for n in beyond)
    if n_0 > 1:
        below = {n_0 - 1, (n_0 + 1) // 2, 1} - {n_0}
        assert all(dominance(n) < 1 + 1e-12 for n in below)


def test_exact_threshold_matches_a_walk_through_all_n():
    for exponent, mass, confidence in [(0.0, 1.0, 1e-9), (0.2, 0.5, 1e-6), (0.4, 1.0, 1e-12)]:
        problem = {"noise_exponent": exponent, "noise_constant": 0.05, "min_mass": mass}
        n = 1
        while np.less(
            *supplement_terms(n, **problem, vc_dimension=2, delta=confidence, constant=1)
        ):
            n += 1
        assert n > 2
        assert sample_threshold(**problem, vc_dimension=2, confidence=confidence) == n


@given(duel=duels)
def test_closed_threshold_is_an_upper_bound(duel):
    assert sample_threshold(**duel, method="closed") >= sample_threshold(**duel)


def test_closed_threshold_is_the_supplements():
    duel = {"noise_exponent": 0.3, "noise_constant": 0.01, "min_mass": 0.5, "vc_dimension": 2}
    log_term = math.log(2 / 0.001)
    beta = duel_factor(0.3, 0.01) / 0.5
    second = log_term * ((16 / 3) ** 1.7 / (32 * beta * 0.5**0.3)) ** (1 / 0.7)
    assert second > 50
    assert sample_threshold(**duel, confidence=0.001, method="closed") == math.ceil(second)
    first = (2 / 0.001) ** (1 / (2 * 0.25**2 * 2))
    assert first > 1e13
    closed = sample_threshold(**duel, confidence=0.001, constant=0.25, method="closed")
    assert closed == pytest.approx(first)


@given(duel=duels, n_classes=st.integers(2, 30))
def test_threshold_is_logarithmic_when_the_noise_constant_is_possible(duel, n_classes):
    duel = {**duel, "noise_constant": max(1.0, duel["noise_constant"])}
    log_term = math.log(n_classes * (n_classes - 1) / duel["confidence"])
    assert sample_threshold(**duel, n_classes=n_classes) <= 1 + 3.56 * log_term


def test_no_noise_needs_no_threshold():
    duel = {**DUEL, "noise_exponent": 1, "confidence": 1e-300}
    assert sample_threshold(**duel) == 1
    assert sample_threshold(**duel, constant=100, method="closed") == 2  # (2e300)^(1/60000) > 1


def test_threshold_beyond_all_integers_is_refused_or_closed():
    duel = {**DUEL, "noise_exponent": 0.5, "noise_constant": 1e-30}
    with pytest.raises(ValueError, match="noise_constant must not be so small"):
        sample_threshold(**duel)
    assert sample_threshold(**duel, method="closed") > 1e25
    assert sample_threshold(**DUEL, constant=1e-200, method="closed") == math.inf


@given(duel=duels, n=st.integers(2000, 10**8), n_classes=st.integers(2, 12))
def test_bounds_are_the_papers(duel, n, n_classes):
    # Every n is beyond the threshold, which is logarithmic for such noise constants.
    duel = {**duel, "noise_constant": max(1.0, duel["noise_constant"])}
    n_duels = math.comb(n_classes, 2)
    symbols = {name: value for name, value in duel.items() if name != "confidence"}
    rate = theorem_rate(n, delta=duel["confidence"] / n_duels, **symbols)
    exponent = duel["noise_exponent"]
    factor = duel_factor(exponent, duel["noise_constant"]) / duel["min_mass"]
    bias = 0.03
    one = factor * (rate**exponent + 2 * bias**exponent)
    problem = {**duel, "n_classes": n_classes, "bias": bias}

    assert ranking_error_bound(n, **problem) == pytest.approx(n_duels * one, rel=1e-9)
    corollary = n_classes * (n_classes - 1) * one
    assert classification_excess_bound(n, **problem) == pytest.approx(corollary, rel=1e-9)
    for k in range(1, n_classes + 1):
        counted = math.comb(n_classes, k) * k * (n_classes - k)
        paper = top_k_excess_bound(k, n, **problem)
        union = top_k_excess_bound(k, n, **problem, method="union")
        assert paper == pytest.approx(counted * one, rel=1e-9)
        assert union == pytest.approx(n_duels * one * (k < n_classes), rel=1e-9)
        assert union <= paper / 2 * (1 + 1e-9)


def test_proposition_counts_every_duel_of_every_set():
    one = ranking_error_bound(10**6, **PROBLEM) / 6
    labels = set(range(4))
    for k in range(1, 5):
        counted = sum(len(top) * len(labels - set(top)) for top in combinations(labels, k))
        assert top_k_excess_bound(k, 10**6, **PROBLEM) == pytest.approx(counted * one)


def test_corollary_is_the_proposition_at_one():
    for method in ("paper", "union"):
        assert classification_excess_bound(
            10**6, **PROBLEM, bias=0.1, method=method
        ) == top_k_excess_bound(1, 10**6, **PROBLEM, bias=0.1, method=method)


def test_one_bias_per_duel_is_summed_by_the_theorem_and_maximised_by_the_proposition():
    biases = np.array([0.1, 0.0, 0.2, 0.05, 0.0, 0.01])
    factor = duel_factor(0.6, 1.5) / 0.3
    without = ranking_error_bound(10**6, **PROBLEM)
    summed = without + 2 * factor * sum(bias**0.6 for bias in biases)
    assert ranking_error_bound(10**6, **PROBLEM, bias=biases) == pytest.approx(summed)
    union = top_k_excess_bound(3, 10**6, **PROBLEM, bias=biases, method="union")
    assert union == pytest.approx(summed)
    paper = classification_excess_bound(10**6, **PROBLEM, bias=biases)
    assert paper == pytest.approx(2 * without + 12 * 2 * factor * 0.2**0.6)


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_are_monotone(bound):
    def steps(name, values):
        numbers = bound(**{"n_samples": 10**5, "bias": 0.01, **PROBLEM, name: values})
        return np.diff(numbers)

    assert np.all(steps("n_samples", np.arange(3, 3000)) < 0)
    assert np.all(steps("n_samples", np.logspace(1, 12, 50)) < 0)
    assert np.all(steps("n_classes", np.arange(3, 60)) > 0)
    assert np.all(steps("confidence", np.linspace(0.001, 0.999, 50)) < 0)
    assert np.all(steps("min_mass", np.linspace(0.01, 1, 50)) < 0)
    assert np.all(steps("noise_constant", np.linspace(0.1, 9, 50)) > 0)
    assert np.all(steps("vc_dimension", np.arange(1, 50)) > 0)
    assert np.all(steps("constant", np.linspace(0.1, 9, 50)) > 0)
    assert np.all(steps("bias", np.linspace(0, 1, 50)[:, np.newaxis]) > 0)


@pytest.mark.parametrize("bound", [*BOUNDS, learning_rate])
@pytest.mark.parametrize(("end", "inside"), [(0.0, 1e-9), (1.0, 1 - 1e-9)])
def test_noise_exponents_at_the_ends_are_limits(bound, end, inside):
    classes = {"n_classes": 4}
    near, at = (
        bound(10**5, **{**DUEL, **classes, "noise_exponent": value}) for value in (inside, end)
    )
    assert near == pytest.approx(at, rel=1e-6)


def test_no_assumption_on_the_noise_says_nothing():
    problem = {**PROBLEM, "noise_exponent": 0, "noise_constant": 2}
    bound = ranking_error_bound(10.0 ** np.arange(1, 15), **problem)
    assert bound == pytest.approx(6 * 2 / 0.3)
    assert bound.vacuous.all()
    # bias^0 is 1, and no bias is none.
    biased = ranking_error_bound(10, **problem, bias=[0.5, 0, 0, 0, 0, 0])
    assert biased == pytest.approx(8 * 2 / 0.3)


def test_massart_margin_is_the_limit_of_exponents_below_one():
    margin, exponents = 0.5, np.array([0.99, 0.995, 0.999])
    bounds = ranking_error_bound(
        10**6,
        noise_exponent=exponents,
        noise_constant=margin ** (-exponents / (1 - exponents)),
        min_mass=0.3,
        vc_dimension=2,
        n_classes=3,
    )
    # With |2η − 1| ≥ m a disagreement costs at least m: β = 1/m, h = ε m.
    rate = 2 / (10**6 * 0.3 * margin) * (128 * math.log(10**6) + 32 * math.log(2 * 3 / 0.05))
    errors = bounds / (3 * rate / (0.3 * margin)) - 1
    assert np.all(np.diff(np.abs(errors)) < 0)
    assert abs(errors[-1]) < 0.03


def test_rate_in_n_is_the_papers():
    # n^(−α/(2−α)), up to the power of log n.
    n = np.array([1e100, 1e200])
    for exponent in (0.2, 0.5, 1.0):
        bound = ranking_error_bound(n, **{**PROBLEM, "noise_exponent": exponent})
        slope = np.diff(np.log10(bound))[0] / 100
        logs = exponent / (2 - exponent) * np.log10(2) / 100
        assert slope == pytest.approx(-exponent / (2 - exponent) + logs, abs=1e-3)


def test_arguments_broadcast():
    rest = {"noise_constant": 0.5, "min_mass": 0.9, "vc_dimension": 1}
    n = np.array([10, 10**4, 10**6])
    exponents = np.array([[0.0], [1.0]])
    classes = np.array([2, 3, 4])
    problem = {"noise_constant": 1.5, "min_mass": 0.3, "vc_dimension": 3}
    for bound in BOUNDS:
        table = bound(n, noise_exponent=exponents, n_classes=classes, **problem)
        assert table.shape == (2, 3)
        for row, column in np.ndindex(2, 3):
            one = bound(
                n[column],
                noise_exponent=exponents[row, 0],
                n_classes=classes[column],
                **problem,
            )
            assert one.shape == ()
            assert table[row, column] == pytest.approx(one)
    thresholds = sample_threshold(noise_exponent=exponents, confidence=[1e-3, 1e-30], **rest)
    assert thresholds.shape == (2, 2)
    assert thresholds.dtype.kind == "i"
    for row, column in np.ndindex(2, 2):
        assert thresholds[row, column] == sample_threshold(
            noise_exponent=exponents[row, 0], confidence=[1e-3, 1e-30][column], **rest
        )
    assert learning_rate(n, **{**DUEL, "noise_exponent": exponents}).shape == (2, 3)
    assert isinstance(learning_rate(10, **DUEL), float)


def test_places_and_biases_broadcast():
    biases = np.array([[0.0, 0.1, 0.2], [0.3, 0.0, 0.0]])
    problem = {**DUEL, "n_classes": 3}
    for method in ("paper", "union"):
        table = top_k_excess_bound(
            np.array([[1], [2], [3]]), 10**6, **problem, bias=biases, method=method
        )
        assert table.shape == (3, 2)
        for row, column in np.ndindex(3, 2):
            one = top_k_excess_bound(row + 1, 10**6, **problem, bias=biases[column], method=method)
            assert table[row, column] == pytest.approx(one)
    # An axis of length one stands for all duels.
    several = ranking_error_bound(10**6, **problem, bias=[[0.1], [0.2]])
    each = [float(ranking_error_bound(10**6, **problem, bias=bias)) for bias in (0.1, 0.2)]
    assert several == pytest.approx(each)


def test_bound_flags_and_keeps_what_says_nothing():
    bound = ranking_error_bound([10**3, 10**12], **PROBLEM)
    assert isinstance(bound, Bound)
    assert bound[0] > 1
    assert bound.vacuous.tolist() == [True, False]
    assert bound[1:].vacuous.tolist() == [False]
    assert pickle.loads(pickle.dumps(bound)).vacuous.tolist() == [True, False]
    assert np.ones(3).view(Bound).vacuous.all()


def test_bound_computes_like_a_plain_array():
    bound = ranking_error_bound([10**3, 10**12], **PROBLEM)
    results = [bound + 1, 2 * bound, bound / bound, bound < 1, np.minimum(bound, 1), np.log(bound)]
    assert all(type(result) is np.ndarray for result in results)
    assert not isinstance(bound.sum(), Bound)
    out = np.empty(2).view(Bound)
    np.add(bound, 1, out=out)
    np.testing.assert_array_equal(np.asarray(out), np.asarray(bound) + 1)


def test_single_bound_behaves_like_a_float():
    bound = ranking_error_bound(10**12, **PROBLEM)
    assert bound.shape == ()
    assert 0 < float(bound) < 1
    assert bool(bound < 1)
    assert not bound.vacuous
    assert f"{bound:.3f}" == f"{float(bound):.3f}"
    assert math.sqrt(bound) == math.sqrt(float(bound))


def test_extremes_are_infinite_and_not_an_error():
    assert top_k_excess_bound(1000, 10, **{**PROBLEM, "n_classes": 2000}) == np.inf
    assert top_k_excess_bound(2000, 10, **{**PROBLEM, "n_classes": 2000}) == 0
    tiny = {**PROBLEM, "min_mass": 1e-320}
    for method in ("paper", "union"):
        bounds = top_k_excess_bound([1, 4], 10, **tiny, bias=0.1, method=method)
        assert bounds.tolist() == [np.inf, 0]
    assert math.isfinite(learning_rate(10, **PROBLEM, confidence=5e-324))


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("n_samples", 0, "at least 1, got 0"),
        ("n_samples", [10, np.inf], "at least 1, got inf"),
        ("n_samples", np.nan, "at least 1, got nan"),
        ("confidence", 0, "between 0 and 1, exclusive, got 0"),
        ("confidence", 1, "between 0 and 1, exclusive, got 1"),
        ("noise_exponent", -0.1, "between 0 and 1, got -0.1"),
        ("noise_exponent", [0.5, 1.2], "between 0 and 1, got 1.2"),
        ("noise_constant", 0, "positive, got 0"),
        ("min_mass", 0, "positive and at most 1, got 0"),
        ("min_mass", 1.01, "positive and at most 1, got 1.01"),
        ("vc_dimension", 0, "a whole number of at least 1, got 0"),
        ("vc_dimension", 2.5, "a whole number of at least 1, got 2.5"),
        ("n_classes", 1, "a whole number of at least 2, got 1"),
        ("constant", 0, "positive, got 0"),
        ("bias", -0.1, "between 0 and 1, got -0.1"),
        ("bias", 2, "between 0 and 1, got 2"),
        ("k", 0, "a whole number from 1 to n_classes, got 0"),
        ("k", 1.5, "a whole number from 1 to n_classes, got 1.5"),
        ("k", [1, 5], "a whole number from 1 to n_classes, got 5"),
    ],
)
def test_values_outside_the_domain_are_named(name, value, accepted):
    arguments = {"k": 1, "n_samples": 10, **PROBLEM, name: value}
    with pytest.raises(ValueError, match=f"^{name} must be {accepted}"):
        top_k_excess_bound(**arguments)


@pytest.mark.parametrize("value", ["many", None, True, 1j])
def test_what_is_no_number_is_named(value):
    with pytest.raises(TypeError, match=r"^min_mass must be a number or an array of numbers, got"):
        learning_rate(10, **{**DUEL, "min_mass": value})


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"n_samples of shape \(3,\).*min_mass of shape \(2,\)"):
        learning_rate([1, 2, 3], **{**DUEL, "min_mass": [0.1, 0.2]})
    with pytest.raises(ValueError, match=r"bias .* = 6\), got shape \(3,\)"):
        ranking_error_bound(10, **PROBLEM, bias=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"bias .* per duel"):
        ranking_error_bound(10, **{**PROBLEM, "n_classes": [3, 4]}, bias=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="bias without its last axis"):
        ranking_error_bound([10, 20], **PROBLEM, bias=np.zeros((3, 6)))


def test_methods_are_named():
    with pytest.raises(ValueError, match="method must be 'exact' or 'closed', got 'open'"):
        sample_threshold(**DUEL, method="open")
    with pytest.raises(ValueError, match="method must be 'paper' or 'union', got 'exact'"):
        classification_excess_bound(10, **PROBLEM, method="exact")
