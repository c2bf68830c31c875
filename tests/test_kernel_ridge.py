"""Kernel ridge regression, against scikit-learn's Ridge and fits without a row."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from duelrank._kernel_ridge import Kernel, check_positives, solve


def test_features_are_exact_with_all_rows_as_centres(rng):
    X = rng.normal(size=(30, 2))
    features = Kernel.around(X, 0.7, 1e-10).features(X)
    np.testing.assert_allclose(features @ features.T, rbf_kernel(X, gamma=0.7), atol=1e-7)


def test_negligible_directions_are_left_out(rng):
    X = rng.normal(size=(30, 2))
    values = np.linalg.eigvalsh(rbf_kernel(X, gamma=0.7))
    for negligible in (1e-2, 1e-6):
        n_kept = np.count_nonzero(values > negligible * values.max())
        assert Kernel.around(X, 0.7, negligible).roots.shape == (30, n_kept)


@pytest.mark.parametrize("some", [False, True])
def test_solution_is_ridge_and_held_out_rows_are_left_out_alone(some, rng):
    X, targets = rng.normal(size=(25, 2)), rng.normal(size=(25, 3))
    weights = rng.uniform(0.5, 2, size=25)
    counted = rng.random((25, 3)) < 0.6 if some else None
    mass = weights[:, np.newaxis] * (counted if some else np.ones((25, 3)))
    kernel = Kernel.around(X, 0.5, 1e-10)
    features = kernel.features(X)

    def ours(*penalties):
        penalties = np.array(penalties)
        return solve(kernel, X, targets, weights, penalties, least_slack=1e-10, counted=counted)

    errors = {}
    for penalty in (0.01, 1.0):
        theirs = Ridge(penalty).fit(features, targets, sample_weight=weights)
        solution = ours(penalty)
        np.testing.assert_allclose(
            solution.regression.predict(X), theirs.predict(features), atol=1e-8
        )
        held_out = np.empty((25, 3))
        for i in range(25):
            others = np.arange(25) != i
            one_out = Ridge(penalty).fit(features[others], targets[others], weights[others])
            held_out[i] = one_out.predict(features[[i]])[0]
        np.testing.assert_allclose(solution.held_out, held_out, rtol=1e-6, atol=1e-8)
        errors[penalty] = np.average((targets - held_out) ** 2, weights=mass)
        np.testing.assert_allclose(solution.error, errors[penalty], rtol=1e-6)
    assert ours(0.01, 1.0).penalty == min(errors, key=errors.get)


@pytest.mark.parametrize(
    "wrong", [None, 0, -1.0, np.inf, np.nan, "1", ["1"], [], [1, None], [[1.0]], [1, [2, 3]]]
)
def test_positive_numbers_are_asked_for(wrong):
    with pytest.raises(ValueError, match="gamma must be positive numbers, at least one; got"):
        check_positives("gamma", wrong)
    np.testing.assert_array_equal(check_positives("gamma", 2), [2.0])
