"""Weights of zero and whole numbers are rows that are left out and rows that are repeated."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

from duelrank import DuelRanker, ForestDuels, KernelDuels, LogisticDuels, StackedDuels
from duelrank.duels import _sides
from random_duels import feedback_of_every_kind

N_ROWS, N_CLASSES = 80, 4
ENGINES = {
    "forest": ForestDuels(6, random_state=0),
    "few of all rows": ForestDuels(6, max_samples=30, min_samples_leaf=2, random_state=0),
    "random splits": ForestDuels(6, random_splits=True, random_state=0),
    "kernel": KernelDuels(30, random_state=0),
    "all centres": KernelDuels(alphas=[0.1, 1], gammas=1, random_state=0),
    "stack": StackedDuels(
        [("kernel", KernelDuels(20)), ("linear", LogisticDuels()), ("forest", ForestDuels(4))],
        cv=3,
        random_state=0,
    ),
}
KINDS = ["labels", "full", "lists"]
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(N_ROWS, 3))
    codes = np.clip((X[:, 0] + X[:, 1] + 2).astype(int), 0, N_CLASSES - 1)
    return X, feedback_of_every_kind(rng, codes, N_CLASSES)


def margins(engine, X, feedback, weights=None, points=None):
    fitted = clone(engine).fit(X, feedback, N_CLASSES, sample_weight=weights)
    return fitted.margins(X if points is None else points)


@pytest.mark.parametrize("kind", KINDS)
@every_engine
def test_whole_weights_are_repeated_rows(table, rng, engine, kind):
    X, feedback = table[0], table[1][kind]
    counts = rng.integers(4, size=N_ROWS)
    rows = np.repeat(np.arange(N_ROWS), counts)
    repeated = margins(engine, X[rows], feedback[rows], points=X)
    np.testing.assert_array_equal(margins(engine, X, feedback, counts), repeated)


@pytest.mark.parametrize("unit", [1, 0.3])
@every_engine
def test_rows_without_weight_are_left_out(table, rng, engine, unit):
    X, feedback = table[0], table[1]["full"]
    left = rng.random(N_ROWS) < 0.7
    weights = unit * rng.integers(1, 4, size=N_ROWS) * left
    fewer = margins(engine, X[left], feedback[left], weights[left], points=X)
    np.testing.assert_array_equal(margins(engine, X, feedback, weights), fewer)


@every_engine
def test_ones_are_no_weights(table, engine):
    X, feedback = table[0], table[1]["labels"]
    ones = margins(engine, X, feedback, np.ones(N_ROWS))
    np.testing.assert_array_equal(ones, margins(engine, X, feedback))


@every_engine
def test_counts_of_a_ranker_are_repeated_rows(table, rng, engine):
    X, codes = table[0], table[1]["labels"]
    labels = np.array(["a", "b", "c", "d"])[codes]
    counts = rng.integers(1, 3, size=N_ROWS)
    weighted, repeated = (DuelRanker(engine, random_state=0) for _ in range(2))
    weighted.fit(X, labels, sample_weight=counts)
    repeated.fit(np.repeat(X, counts, axis=0), np.repeat(labels, counts))
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_weights_that_sum_to_too_much_are_no_counts(table, rng, monkeypatch):
    X, feedback = table[0], table[1]["full"]
    weights = rng.integers(1, 4, size=N_ROWS)
    weights[0] = 100
    as_counts = margins(ENGINES["forest"], X, feedback, weights)
    monkeypatch.setattr(_sides, "MOST_COPIES", weights.sum() - 1)
    too_many = margins(ENGINES["forest"], X, feedback, weights)
    np.testing.assert_array_equal(too_many, margins(ENGINES["forest"], X, feedback, weights / 4))
    assert (too_many != as_counts).any()
    monkeypatch.setattr(_sides, "MOST_COPIES", 10)
    ones = margins(ENGINES["stack"], X, feedback, np.ones(N_ROWS))
    np.testing.assert_array_equal(ones, margins(ENGINES["stack"], X, feedback))


@pytest.mark.parametrize("name", ["forest", "kernel"])
def test_held_out_margins_are_those_of_the_given_rows(table, rng, name):
    X, feedback = table[0], table[1]["full"]
    counts = rng.integers(4, size=N_ROWS)
    rows = np.repeat(np.arange(N_ROWS), counts)
    weighted = clone(ENGINES[name]).fit(X, feedback, N_CLASSES, sample_weight=counts)
    repeated = clone(ENGINES[name]).fit(X[rows], feedback[rows], N_CLASSES)
    found, of_copies = weighted.held_out_margins(), repeated.held_out_margins()
    weighted.check_fitted(N_CLASSES)
    assert found.shape == (N_ROWS, of_copies.shape[1])
    if name == "kernel":  # copies are left out one at a time, each with the same result
        np.testing.assert_allclose(found[rows], of_copies, rtol=1e-6)
    else:  # no tree that tells about a row has seen a copy of it
        seen = np.add.reduceat(repeated._drawn, np.flatnonzero(np.diff(rows, prepend=-1)))
        np.testing.assert_array_equal(weighted._drawn, seen)
        once = counts[rows] == 1
        np.testing.assert_array_equal(found[rows[once]], of_copies[once])


def test_copies_stay_together_in_folds_that_are_given(table, rng):
    X, feedback = table[0], table[1]["full"]
    counts = rng.integers(3, size=N_ROWS)
    rows = np.repeat(np.arange(N_ROWS), counts)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    of_copies = [
        tuple(np.concatenate([np.flatnonzero(rows == row) for row in part]) for part in fold)
        for fold in folds
    ]
    weighted = clone(ENGINES["stack"]).set_params(cv=folds)
    repeated = clone(ENGINES["stack"]).set_params(cv=of_copies)
    np.testing.assert_array_equal(
        margins(weighted, X, feedback, counts), margins(repeated, X[rows], feedback[rows], points=X)
    )
    splitter = clone(weighted).set_params(cv=KFold(3, shuffle=True, random_state=0))
    np.testing.assert_array_equal(
        margins(splitter, X, feedback, counts), margins(weighted, X, feedback, counts)
    )


@pytest.mark.parametrize(
    "engine",
    [
        KernelDuels(),
        # With as many folds as rows, their order does not matter.
        StackedDuels([("kernel", KernelDuels()), ("linear", LogisticDuels())], cv=1_000),
    ],
    ids=["kernel", "stack"],
)
def test_scikit_learns_check_where_the_order_of_rows_does_not_matter(engine):
    check_sample_weight_equivalence_on_dense_data("DuelRanker", DuelRanker(engine))


def test_a_forest_of_shuffled_counts_is_as_good_as_one_of_repeated_rows(rng):
    """Of rows in another order, a forest draws other rows with the same chances.

    At one point all rows are in one leaf. A tree draws 200 of its 200 rows, of which a third tells
    that the second label wins: the mean over 200 trees has a standard error of √(2/9 / 200 / 200) =
    0.0024.
    """
    counts = np.array([1, 3, 4, 2] * 20)
    codes = np.array([1, 0, 0, 1] * 20)
    codes[:4] = [0, 0, 0, 1]
    share = counts[codes == 1].sum() / counts.sum()
    for order in (np.arange(80), rng.permutation(80)):
        engine = ForestDuels(200, random_state=0)
        engine.fit(np.zeros((80, 1)), codes[order], 2, sample_weight=counts[order])
        assert engine.probabilities([[0.0]])[0, 0] == pytest.approx(share, abs=4 * 0.0024)
        drawn = engine._drawn.mean(axis=1)
        # The times that a row of weight w is drawn have mean w and variance about w.
        assert np.all(np.abs(drawn - counts[order]) < 4.5 * np.sqrt(counts[order] / 200))
