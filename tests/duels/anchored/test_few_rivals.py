"""Few rivals of many labels: what is saved changes nothing."""

import numpy as np
import pytest
from scipy import sparse

from duelrank import AnchoredDuels, pairs
from duelrank._pairs import duel_numbers, labels_of_duels
from duelrank.duels.anchored import _fit
from duelrank.duels.logistic.row_space import _duels as row_duels

K = 30


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def words(rng, n=240, d=400):
    codes = np.arange(n) % K
    rows = rng.poisson(0.02, size=(n, d)) + rng.poisson(1, size=(K, d))[codes] * (
        rng.random_sample((n, d)) < 0.1
    )
    return sparse.csr_matrix(rows / np.sqrt(1 + rows.sum(axis=1, keepdims=True))), codes


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("kind", ["labels", "lists"])
def test_products_duel_by_duel_are_those_of_all_rows(dense, kind, rng, monkeypatch):
    X, codes = words(rng)
    X = X.toarray() if dense else X
    feedback = codes
    if kind == "lists":  # the label and another one behind it
        feedback = np.full((len(codes), K), 3.0)
        feedback[np.arange(len(codes)), (codes + 1 + rng.randint(3, size=len(codes))) % K] = 2
        feedback[np.arange(len(codes)), codes] = 1
    few = AnchoredDuels(10, 10, 2, tol=1e-9).fit(X, feedback, K)
    assert 0 < len(few.corrected_duels_) <= 2 * K
    monkeypatch.setattr(row_duels, "FEW_PRODUCTS", 0.0)
    by_tiles = AnchoredDuels(10, 10, 2, tol=1e-9).fit(X, feedback, K)
    np.testing.assert_array_equal(few.corrected_duels_, by_tiles.corrected_duels_)
    np.testing.assert_allclose(few.margins(X), by_tiles.margins(X), atol=1e-6)


def test_corrections_do_not_depend_on_who_else_is_corrected(rng):
    X, codes = words(rng)
    few = AnchoredDuels(10, 10, 2, tol=1e-9).fit(X, codes, K)
    all_ = AnchoredDuels(10, 10, tol=1e-9).fit(X, codes, K)
    duels = few.corrected_duels_
    np.testing.assert_allclose(few.margins(X)[:, duels], all_.margins(X)[:, duels], atol=1e-6)
    first, second = pairs(K)
    rest = np.setdiff1d(np.arange(len(first)), duels)
    scores = few.scores(X)
    expected = scores[:, second[rest]] - scores[:, first[rest]]
    np.testing.assert_array_equal(few.margins(X)[:, rest], expected)


def test_single_precision_on_the_way_changes_nothing_but_the_way(rng, monkeypatch):
    X, codes = words(rng)
    plain = AnchoredDuels(10, rivals=0, tol=1e-10).fit(X, codes, K)
    monkeypatch.setattr(_fit, "MANY_PRODUCTS", 0)
    faster = AnchoredDuels(10, rivals=0, tol=1e-10).fit(X, codes, K)
    assert faster.score_converged_
    assert faster.score_coef_.dtype == np.float64
    np.testing.assert_allclose(faster.scores(X), plain.scores(X), atol=1e-3)


def test_numbers_of_duels():
    for n_classes in (2, 3, 7, 40):
        first, second = pairs(n_classes)
        duels = np.arange(len(first))
        np.testing.assert_array_equal(duel_numbers(first, second, n_classes), duels)
        for found, expected in zip(labels_of_duels(duels, n_classes), (first, second), strict=True):
            np.testing.assert_array_equal(found, expected)
