"""Kernel least squares, against refits without a row, ridge regressions and grids."""

import pickle

import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer, StandardScaler

from duelrank import DuelRanker, KernelDuels
from duelrank.duels import _kernel
from duelrank.feedback import feedback_from_codes, outcomes
from random_duels import feedback_of_every_kind

N_CLASSES = 4
KINDS = ["labels", "full", "lossy", "lists"]
GAMMAS, ALPHAS = (0.3, 1.0, 3.0), (0.01, 0.1, 1.0, 10.0)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(40, 3)) * [1, 10, 0.1] + 5
    codes = np.arange(40) % N_CLASSES
    X[:, 0] += codes
    return X, feedback_of_every_kind(rng, codes, N_CLASSES)


def targets(feedback):
    ranks = feedback_from_codes(feedback, N_CLASSES) if feedback.ndim == 1 else feedback
    return outcomes(ranks).astype(float)


def kernel_features(X, weights, centres, gamma):
    """Standardise and return features whose inner products are those of the kernel's."""
    points = StandardScaler().fit(X, sample_weight=weights).transform(X)
    root = np.real(sqrtm(rbf_kernel(centres, gamma=gamma / X.shape[1])))
    return rbf_kernel(points, centres, gamma=gamma / X.shape[1]) @ np.linalg.inv(root)


def without_each_row(features, target, weights, alpha):
    """Predict every row by a ridge regression on the other ones."""
    predicted = np.zeros(target.shape)
    for row in range(len(features)):
        others = np.arange(len(features)) != row
        ridge = Ridge(alpha).fit(features[others], target[others], sample_weight=weights[others])
        predicted[row] = ridge.predict(features[[row]])[0]
    return predicted


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_components", [12, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_held_out_margins_are_those_of_refits_without_the_row(
    table, rng, kind, n_components, weighted
):
    X, feedback = table[0], table[1][kind]
    weights = rng.uniform(0.2, 3, size=len(X)) if weighted else np.ones(len(X))
    engine = KernelDuels(n_components, gammas=[2.0], alphas=[0.1], random_state=0)
    engine.fit(X, feedback, N_CLASSES, sample_weight=weights)
    features = kernel_features(X, weights, engine._centres, 2.0)
    assert features.shape == (40, n_components)
    expected = without_each_row(features, targets(feedback), weights, 0.1)
    held_out = engine.held_out_margins() / engine.slope_
    np.testing.assert_allclose(held_out, expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_margins_are_a_ridge_regression_on_kernel_features(table, rng, kind):
    X, feedback = table[0], table[1][kind]
    weights = rng.uniform(0.2, 3, size=len(X))
    engine = KernelDuels(12, gammas=1.0, alphas=0.3, random_state=0)
    engine.fit(X, feedback, N_CLASSES, sample_weight=weights)
    features = kernel_features(X, weights, engine._centres, 1.0)
    ridge = Ridge(0.3).fit(features, targets(feedback), sample_weight=weights)
    np.testing.assert_allclose(
        engine.margins(X), engine.slope_ * ridge.predict(features), atol=1e-5 * engine.slope_
    )
    np.testing.assert_allclose(engine.probabilities(X), 1 / (1 + np.exp(-engine.margins(X))))


def test_with_all_rows_as_centres_it_is_kernel_ridge_regression(table, rng):
    X, feedback = table[0], table[1]["full"]
    engine = KernelDuels(100, gammas=[3.0], alphas=[0.1]).fit(X, feedback, N_CLASSES)
    new = rng.normal(size=(20, 3)) * [1, 10, 0.1] + 5
    scaler, centerer = StandardScaler().fit(X), KernelCenterer()
    points = scaler.transform(X)
    kernel = centerer.fit_transform(rbf_kernel(points, gamma=1.0))
    target = targets(feedback)
    theirs = KernelRidge(alpha=0.1, kernel="precomputed").fit(kernel, target - target.mean(axis=0))
    asked = centerer.transform(rbf_kernel(scaler.transform(new), points, gamma=1.0))
    np.testing.assert_allclose(
        engine.margins(new) / engine.slope_,
        theirs.predict(asked) + target.mean(axis=0),
        atol=1e-6,
    )


def error_of_held_out(features, target, weights, alpha):
    told = target != 0
    wrong = (without_each_row(features, target, weights, alpha) - target) ** 2
    return np.average(
        wrong[told], weights=np.broadcast_to(weights[:, np.newaxis], told.shape)[told]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_and_penalty_with_the_smallest_error_are_chosen(table, rng, kind):
    X, feedback = table[0], table[1][kind]
    weights = rng.uniform(0.2, 3, size=len(X))
    engine = KernelDuels(12, gammas=GAMMAS, alphas=ALPHAS, random_state=0)
    engine.fit(X, feedback, N_CLASSES, sample_weight=weights)
    errors = {
        (gamma, alpha): error_of_held_out(
            kernel_features(X, weights, engine._centres, gamma), targets(feedback), weights, alpha
        )
        for gamma in GAMMAS
        for alpha in ALPHAS
    }
    assert (engine.gamma_, engine.alpha_) == min(errors, key=errors.get)


def test_a_kernel_is_chosen_on_some_rows_and_the_penalty_on_all(table, monkeypatch):
    X, target = table[0], targets(table[1]["full"])
    monkeypatch.setattr(_kernel, "MOST_ROWS_TO_CHOOSE", 15)
    different = 0
    for seed in (5, 6, 7):
        engine = KernelDuels(12, gammas=GAMMAS, alphas=ALPHAS, random_state=seed)
        engine.fit(X, table[1]["full"], N_CLASSES)
        some = np.random.RandomState(seed).permutation(len(X))[:15]

        def best(rows, gammas, engine=engine):
            errors = {}
            for gamma in gammas:
                features = kernel_features(X, np.ones(len(X)), engine._centres, gamma)[rows]
                for alpha in ALPHAS:
                    ones = np.ones(len(features))
                    error = error_of_held_out(features, target[rows], ones, alpha)
                    errors[gamma, alpha] = error
            return min(errors, key=errors.get)

        gamma, _ = best(some, GAMMAS)
        every = np.arange(len(X))
        assert (engine.gamma_, engine.alpha_) == best(every, [gamma])
        different += best(every, GAMMAS)[0] != gamma
    assert different > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_makes_held_out_outcomes_most_probable(table, rng, kind):
    X, feedback = table[0] + rng.normal(size=table[0].shape) * [3, 10, 0.1], table[1][kind]
    weights = rng.uniform(0.2, 3, size=len(X))
    engine = KernelDuels(12, random_state=0)
    engine.fit(X, feedback, N_CLASSES, sample_weight=weights)
    target = targets(feedback)
    held_out = engine.held_out_margins() * target

    def loss(factor):
        losses = np.where(target != 0, np.logaddexp(0, -factor * held_out), 0)
        return weights @ losses.sum(axis=1)

    assert np.exp(-4) * 1.01 < engine.slope_ < np.exp(4) * 0.99
    factors = np.linspace(0.5, 2, 301)
    assert factors[np.argmin([loss(factor) for factor in factors])] == pytest.approx(1, abs=0.01)


def test_slopes_are_bounded_where_everything_is_right():
    X, codes = np.repeat([[0.0], [1.0]], 10, axis=0), np.repeat([0, 1], 10)
    engine = KernelDuels(random_state=0).fit(X, codes, 2)
    assert engine.slope_ == pytest.approx(np.exp(4), rel=1e-3)
    assert KernelDuels().fit(X, np.full((20, 2), np.nan), 2).slope_ == 1


def test_rows_without_weight_are_left_out(table, rng):
    X, ranks = table[0], table[1]["lossy"]
    weights = rng.uniform(0.5, 2, size=len(X))
    weights[[0, 3, 17]] = 0
    left = weights > 0
    every, fewer = KernelDuels(10, random_state=0), KernelDuels(10, random_state=0)
    every.fit(np.where(left[:, np.newaxis], X, 1e6), ranks, N_CLASSES, sample_weight=weights)
    fewer.fit(X[left], ranks[left], N_CLASSES, sample_weight=weights[left])
    np.testing.assert_array_equal(every.margins(X), fewer.margins(X))
    held_out = every.held_out_margins()
    np.testing.assert_array_equal(held_out[left], fewer.held_out_margins())
    assert (held_out[~left] == 0).all()


def test_one_sided_duels_are_won_everywhere(iris):
    """Where a regression on a few rows alone would swing to the other side."""
    X, y = iris
    engine = KernelDuels(random_state=0).fit(X, 2 * y, 5)  # nobody has seen 1 and 3
    margins = np.vstack([engine.margins(X), engine.margins(3 * X), engine.held_out_margins()])
    first_wins, second_wins, open_duel = [0, 2, 7], [4, 6, 9], 5  # 01 03 23, 12 14 34, 13
    assert (margins[:, first_wins] == -engine.slope_).all()
    assert (margins[:, second_wins] == engine.slope_).all()
    assert (margins[:, open_duel] == 0).all()
    assert (margins[:, 1] < 0).any()
    assert (margins[:, 1] > 0).any()


def test_constant_features_do_no_harm(table):
    X, feedback = table[0], table[1]["full"]
    constant = np.hstack([X, np.full((40, 1), 0.1), np.zeros((40, 1))])
    settings = {"n_components": 40, "alphas": [0.1]}
    with_them = KernelDuels(**settings, gammas=[5.0], random_state=0)
    without = KernelDuels(**settings, gammas=[3.0], random_state=0)  # both over n_features: 1
    np.testing.assert_allclose(
        with_them.fit(constant, feedback, N_CLASSES).margins(constant),
        without.fit(X, feedback, N_CLASSES).margins(X),
        atol=1e-8,
    )


def test_labels_are_rankings_of_one_label(table):
    X, codes = table[0], table[1]["labels"]
    labels, ranks = (
        KernelDuels(20, random_state=0).fit(X, feedback, N_CLASSES).margins(X)
        for feedback in (codes, feedback_from_codes(codes, N_CLASSES))
    )
    np.testing.assert_array_equal(labels, ranks)


def test_kernels_are_cloned_and_pickled(table):
    X, feedback = table[0], table[1]["full"]
    engine = KernelDuels(15, gammas=[1.0], alphas=[0.1, 1.0], random_state=0)
    engine.fit(X, feedback, N_CLASSES)
    assert clone(engine).get_params() == engine.get_params()
    again = pickle.loads(pickle.dumps(engine))
    np.testing.assert_array_equal(again.margins(X), engine.margins(X))
    np.testing.assert_array_equal(again.held_out_margins(), engine.held_out_margins())


def test_the_ranker_seeds_the_centres(iris):
    X, y = iris
    one, same, other = (
        DuelRanker(KernelDuels(5), random_state=seed).fit(X, y).duels_.margins(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive integer, got 0"),
        ({"n_components": 0.5}, "n_components must be a positive integer, got 0.5"),
        ({"n_components": True}, "n_components must be a positive integer, got True"),
        ({"gammas": []}, r"gammas must be positive numbers, at least one; got \[\]"),
        ({"gammas": [1.0, 0.0]}, "gammas must be positive numbers"),
        ({"alphas": [np.nan]}, "alphas must be positive numbers"),
        ({"alphas": "best"}, "alphas must be positive numbers, at least one; got 'best'"),
        ({"alphas": [[1.0]]}, "alphas must be positive numbers"),
    ],
)
def test_wrong_settings_are_named(iris, settings, message):
    with pytest.raises(ValueError, match=message):
        KernelDuels(**settings).fit(*iris, n_classes=3)
