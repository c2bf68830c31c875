import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from duelrank.posteriors import duel_gaps, massart_margin, noise_constant, noise_exponent

gap_samples = hnp.arrays(
    np.float64, st.integers(1, 30), elements=st.floats(1e-3, 1.0).map(lambda gap: round(gap, 2))
).map(lambda gaps: np.maximum(gaps, 0.01))


def sibling_posteriors(x, alpha, separator):
    """Two labels of the paper's synthetic family that part at the separator: (n, 2)."""
    half = np.where(x < separator, separator, 1 - separator)
    side = np.where(x < separator, -1.0, 1.0)
    h = 0.5 + 0.5 * side * (np.abs(x - separator) / half) ** ((1 - alpha) / alpha)
    return np.stack([1 - h, h], axis=1)


@given(gap_samples, st.floats(0.05, 0.9))
def test_the_constant_is_the_smallest_that_satisfies_the_condition(gaps, alpha):
    constant = noise_constant(gaps, alpha)
    power = alpha / (1 - alpha)
    t = np.concatenate([np.linspace(1e-3, 1.5, 300), gaps, np.nextafter(gaps, 2)])
    share_below = (gaps < t[:, np.newaxis]).mean(axis=1)
    assert (share_below <= constant * t**power * (1 + 1e-9)).all()
    assert (share_below > 0.999 * constant * t**power).any()
    assert constant >= 1 - 1e-12


def test_the_constant_at_both_ends_of_the_exponent():
    gaps = [0.0, 0.3, 1.0]
    assert noise_constant(gaps, 0) == 1
    assert noise_constant(gaps, 0, resolution=0) == 1
    assert noise_constant(gaps, 0.5, resolution=0) == np.inf
    assert noise_constant(gaps[1:], 1) == np.inf
    assert noise_constant([1.0, 1.0], 1) == 1
    # Towards α = 1 the constant of a sample with noise grows beyond all bounds.
    assert noise_constant([0.3, 1.0], 0.999999) == np.inf


def test_the_constant_under_massart_is_a_power_of_the_margin(rng):
    """G ≥ m with an atom at m of nearly full mass: B is nearly m^(−α/(1−α))."""
    gaps = np.r_[np.full(999, 0.2), 0.9]
    for alpha in (0.2, 0.5, 0.8):
        bound = massart_margin(gaps) ** (-alpha / (1 - alpha))
        assert 0.998 * bound < noise_constant(gaps, alpha) <= bound


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("separator", [0.5, 0.25, 0.875])
def test_siblings_of_the_synthetic_family_have_their_closed_form(alpha, separator):
    """For uniform X the gap is U^((1−α)/α): P{G < t} = t^(α/(1−α)), B = 1."""
    # Mid-points of equal cells stand for the uniform distribution.
    x = (np.arange(200_000) + 0.5) / 200_000
    gaps = duel_gaps(sibling_posteriors(x, alpha, separator))[:, 0]
    for t in (0.05, 0.3, 0.7):
        assert (gaps < t).mean() == pytest.approx(t ** (alpha / (1 - alpha)), abs=1e-4)
    # The smallest gaps of the grid are off by a constant factor, the others by less and less.
    clear = np.sort(gaps)[1000:]
    ratios = (np.arange(1001, len(gaps) + 1) / len(gaps)) / clear ** (alpha / (1 - alpha))
    np.testing.assert_allclose(ratios, 1, rtol=2e-3)
    # The point half a cell from the separator has twice the share that it should have.
    assert 1 <= noise_constant(gaps, alpha) < 2.1
    one_percent = 0.01 ** ((1 - alpha) / alpha)
    assert noise_constant(gaps, alpha, resolution=one_percent) == pytest.approx(1, abs=2e-3)
    # A larger exponent asks for too much near the separator, whatever the constant.
    assert noise_constant(gaps, (1 + alpha) / 2) > 20


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.5, 0.8, 0.95])
def test_the_exponent_of_the_synthetic_family_is_recovered(alpha):
    rng = np.random.RandomState(0)
    x = rng.uniform(size=(20_000, 20))
    gaps = np.stack([duel_gaps(sibling_posteriors(column, alpha, 0.25))[:, 0] for column in x.T], 1)
    estimate, standard_error = noise_exponent(gaps)
    assert estimate.shape == standard_error.shape == (20,)
    scores = (estimate - alpha) / standard_error
    assert np.abs(scores).max() < 4
    # The standard error is right: the squared scores average to one, up to four of theirs.
    assert np.abs((scores**2).mean() - 1) < 4 * np.sqrt(2 / 20)


def test_the_bias_of_the_exponent_is_as_documented():
    rng = np.random.RandomState(1)
    alpha, m = 0.3, 10
    gaps = rng.uniform(size=(40, 20_000)) ** ((1 - alpha) / alpha)
    estimates = noise_exponent(gaps, n_smallest=m).estimate
    bias = estimates.mean() - alpha
    standard_error = estimates.std() / np.sqrt(len(estimates))
    # The next term of the expansion is of order 1/m².
    assert bias == pytest.approx(alpha * (1 - alpha) ** 2 / m, abs=4 * standard_error + 1 / m**2)
    assert bias > 4 * standard_error


def test_gaps_below_the_resolution_only_count_as_small(rng):
    alpha, resolution = 0.3, 1e-3
    gaps = rng.random((5000, 400)) ** ((1 - alpha) / alpha)
    assert (gaps < resolution).mean() == pytest.approx(resolution ** (alpha / (1 - alpha)), rel=0.1)
    whole = noise_exponent(gaps, n_smallest=2000)
    censored = noise_exponent(gaps, n_smallest=2000, resolution=resolution)
    for estimate, standard_error in (whole, censored):
        mean_error = standard_error.mean() / np.sqrt(400)
        assert np.abs(estimate.mean() - alpha) < 4 * mean_error
        assert estimate.std() == pytest.approx(standard_error.mean(), rel=4 / np.sqrt(2 * 400))
    assert (censored.standard_error > whole.standard_error).all()
    blurred = np.where(gaps < resolution, 0.0, gaps)
    np.testing.assert_array_equal(
        noise_exponent(blurred, n_smallest=2000, resolution=resolution).estimate, censored.estimate
    )
    # The constant counts them at the resolution: the condition is checked above it.
    np.testing.assert_allclose(
        noise_constant(blurred, alpha, resolution=resolution),
        noise_constant(np.maximum(gaps, resolution), alpha),
    )


def test_the_resolution_follows_from_the_type_of_the_gaps():
    gaps = np.array([1e-6, 2e-6, 0.5, 0.9])
    assert noise_exponent(gaps, n_smallest=2).estimate > 0
    assert noise_exponent(gaps.astype(np.float32), n_smallest=2).estimate == 0
    assert noise_constant(gaps, 0.5) > noise_constant(gaps.astype(np.float32), 0.5)


def test_the_exponent_of_extreme_samples():
    # Below the resolution nothing is seen, so that the error of the estimate is not known.
    for censored in ([0.0, 0.0, 0.3, 0.9], [0.0, 0.0, 0.0]):
        np.testing.assert_array_equal(noise_exponent(censored), (0, np.nan))
        np.testing.assert_array_equal(noise_exponent(censored, resolution=0), (0, np.nan))
    two = noise_exponent(np.transpose([[0.0, 0.0, 0.3, 0.9], [0.0, 0.1, 0.3, 0.9]]))
    np.testing.assert_array_equal(np.isnan(two.standard_error), [True, False])
    assert noise_exponent([0.4, 0.4, 0.4]) == (1, 0)
    margins = np.random.RandomState(0).uniform(0.3, 1, size=100_000)
    estimates = [noise_exponent(margins, n_smallest=m).estimate for m in (50_000, 5_000, 500)]
    assert estimates == sorted(estimates)
    assert estimates[-1] > 0.99


@given(gap_samples)
def test_the_exponent_is_hills_estimator(gaps):
    if len(gaps) < 2:
        return
    m = len(gaps) // 2
    in_order = sorted(gaps)
    mean_excess = np.mean([np.log(in_order[m] / gap) for gap in in_order[:m]])
    estimate, standard_error = noise_exponent(gaps, n_smallest=m)
    assert estimate == pytest.approx(1 / (1 + mean_excess))
    assert standard_error == pytest.approx(estimate * (1 - estimate) / np.sqrt(m), abs=1e-12)


def test_columns_are_judged_one_by_one(rng):
    gaps = rng.random((50, 4))
    columns = [np.ascontiguousarray(column) for column in gaps.T]
    np.testing.assert_array_equal(massart_margin(gaps), [column.min() for column in columns])
    alphas = np.array([0.0, 0.3, 0.7, 1.0])
    np.testing.assert_allclose(
        noise_constant(gaps, alphas),
        [noise_constant(column, alpha) for column, alpha in zip(columns, alphas, strict=True)],
    )
    np.testing.assert_allclose(
        noise_constant(gaps, 0.4), [noise_constant(column, 0.4) for column in columns]
    )
    np.testing.assert_allclose(
        np.transpose(noise_exponent(gaps)), [noise_exponent(column) for column in columns]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: massart_margin([]), "gaps must have shape"),
        (lambda: massart_margin([[0.5, 0.2], [0.5]]), "gaps must be numbers, in rows of equal"),
        (lambda: noise_constant(["a"], 0.5), "gaps must be numbers, in rows of equal length"),
        (lambda: noise_constant([[0.5, 0.2], [0.5]], 0.5), "gaps must be numbers, in rows of"),
        (lambda: noise_exponent(["a", "b"]), "gaps must be numbers, in rows of equal length"),
        (lambda: noise_exponent([[0.5, 0.2], [0.5]]), "gaps must be numbers, in rows of equal"),
        (lambda: noise_constant([0.5], "a"), "noise_exponent must be a number or one per duel"),
        (lambda: noise_constant([0.5], 0.5, resolution="a"), "resolution must be at least 0"),
        (lambda: massart_margin([0.5, 1.2]), "gaps must lie between 0 and 1"),
        (lambda: noise_constant([0.5, np.nan], 0.5), "gaps must lie between 0 and 1"),
        (lambda: noise_constant([0.5], 1.5), "noise_exponent must lie between 0 and 1, got 1.5"),
        (lambda: noise_constant([0.5], np.nan), "noise_exponent must lie between 0 and 1"),
        (lambda: noise_constant([[0.5, 0.6]], [0.1] * 3), "noise_exponent must be a number or one"),
        (lambda: noise_constant([0.5], 0.5, resolution=-1), "resolution must be at least 0"),
        (lambda: noise_exponent([0.5, 0.6], resolution=1), "resolution must be at least 0"),
        (lambda: noise_exponent([0.5]), "gaps must hold at least two values"),
        (lambda: noise_exponent([0.5, 0.6], n_smallest=2), "n_smallest must be an integer from 1"),
        (lambda: noise_exponent([0.5, 0.6], n_smallest=0.5), "n_smallest must be an integer"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
