"""The scores of anchored duels: those of scikit-learn, and the minimum of their objective."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from anchored_by_hand import LAYOUTS, K, ScoreObjective, points, rankings, renamed
from duelrank import AnchoredDuels
from duelrank.duels.anchored import _points, _solver
from duelrank.feedback import SparseRanks

KINDS = ["labels", "full", "lists", "partial"]


def fitted(X, feedback, C=1.0, weights=None, n_classes=K, **parameters):
    parameters = {"tol": 1e-12, "rivals": 0} | parameters
    return AnchoredDuels(C, **parameters).fit(X, feedback, n_classes, sample_weight=weights)


def without_shift(scores):
    """Scores as far as they matter: a number that is added to all of a row says nothing."""
    return scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_of_labels_are_those_of_scikit_learn(layout, weighted, C, rng):
    """Up to the penalty on intercepts: ε b against C Σ p (1 − p), here at most 3e-3 of it.

    Without it in the way, both are the same to what the tolerances leave.
    """
    X, y = points(layout, rng)
    weights = rng.integers(0, 4, size=len(y)).astype(float) if weighted else None
    for fit_intercept, tolerance in ((True, 1e-2), (False, 2e-5)):
        peer = LogisticRegression(
            C=C, solver="newton-cg", tol=1e-10, max_iter=5000, fit_intercept=fit_intercept
        ).fit(X, y, sample_weight=weights)
        ours = fitted(X, y, C, weights, fit_intercept=fit_intercept)
        assert ours.score_converged_
        theirs = without_shift(peer.decision_function(X))
        np.testing.assert_allclose(without_shift(ours.scores(X)), theirs, atol=tolerance)
        np.testing.assert_allclose(
            ours.score_coef_ - ours.score_coef_.mean(axis=0),
            peer.coef_ - peer.coef_.mean(axis=0),
            atol=tolerance,
        )


def test_a_far_smaller_penalty_leaves_nothing_to_tell_the_two_apart(rng, monkeypatch):
    monkeypatch.setattr("duelrank.duels.anchored._fit.INTERCEPT_SIZE", 1e4)
    X, y = points("dense tall", rng)
    peer = LogisticRegression(C=2.0, solver="newton-cg", tol=1e-12, max_iter=5000).fit(X, y)
    ours = without_shift(fitted(X, y, 2.0).scores(X))
    np.testing.assert_allclose(ours, without_shift(peer.decision_function(X)), atol=2e-5)


def test_two_labels_are_one_regression_with_half_the_penalty(rng):
    """½ (‖u‖² + ‖v‖²) with margins v − u is ¼ ‖v − u‖² at best."""
    X, y = points("dense tall", rng)
    peer = LogisticRegression(C=2.0, solver="newton-cg", tol=1e-10, fit_intercept=False)
    peer.fit(X, y % 2)
    margins = fitted(X, y % 2, 1.0, n_classes=2, fit_intercept=False).margins(X)[:, 0]
    np.testing.assert_allclose(margins, peer.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", ["dense tall", "sparse tall"])
def test_the_certificate_holds_for_the_true_objective(layout, weighted, kind, rng):
    """A Newton step of an objective that is written down anew gains no more than promised."""
    X, y = points(layout, rng, n_rows=30)
    feedback = rankings(X, y, rng, kind)
    weights = rng.random(len(y)) + 0.1 if weighted else None
    objective = ScoreObjective(X, feedback, K, 2.0, weights)
    for tol in (1e-3, 1e-9):
        engine = fitted(X, feedback, 2.0, weights, tol=tol)
        assert engine.score_decrement_ <= tol
        assert objective.relative_decrement(engine) <= engine.score_decrement_


@pytest.mark.parametrize("C", [10.0, 1000.0])
@pytest.mark.parametrize("n_rows", [4, 40])
def test_the_certificate_holds_where_columns_are_nearly_the_same(n_rows, C, rng):
    """What conjugate gradients have not solved there is far more than its share of the diagonal."""
    X = rng.integers(-9, 9, size=40) + 1e-3 * rng.normal(size=(n_rows, 40))
    y = np.arange(n_rows) % 2
    engine = fitted(sparse.csr_array(X), y, C, n_classes=2, tol=1e-6, fit_intercept=False)
    objective = ScoreObjective(X, y, 2, C, fit_intercept=False)
    assert objective.relative_decrement(engine) <= 2 * max(engine.score_decrement_, 1e-12)


def test_what_is_unsolved_is_bounded_at_every_step_of_conjugate_gradients(rng):
    for least in (1e-4, 1e-2):
        values = np.geomspace(least, 1, 12) * np.where(np.arange(12) == 0, 1.5, 1)
        basis = np.linalg.qr(rng.normal(size=(12, 12)))[0]
        matrix = basis * values @ basis.T
        residual = direction = rng.normal(size=12)
        unsolved = _solver.Unsolved(least)
        ratios, plain_ratios = [], []
        for _ in range(12):
            square = residual @ residual
            left = residual @ np.linalg.solve(matrix, residual)
            ratios.append(unsolved.bound(square) / left)
            plain_ratios.append(square / least / left)
            length = square / (direction @ matrix @ direction)
            residual = residual - length * matrix @ direction
            unsolved.step(length, residual @ residual / square)
            direction = residual + residual @ residual / square * direction
        assert min(ratios) > 1 - 1e-6
        assert np.median(ratios) < 0.6 * np.median(plain_ratios)


def test_labels_that_are_never_compared(rng):
    """Two kinds of labels and one that no row places: scores of each have a zero of their own."""
    X, y = points("dense tall", rng)
    ranks = np.full((len(y), 6), np.nan)
    of_kind = np.array([[0, 1], [2, 4]])[y % 2]
    winner = (X[:, 0] + rng.normal(size=len(y)) > 2).astype(int)
    ranks[np.arange(len(y))[:, np.newaxis], of_kind] = np.array([[1.0, 2], [2, 1]])[winner]
    ranks[:3, 5] = ranks[:3, 3] = 1  # never ahead of anything, nor behind
    ranks[:3, :3] = ranks[:3, 4] = np.nan
    objective = ScoreObjective(X, ranks, 6, 2.0)
    engine = fitted(X, ranks, 2.0, n_classes=6, tol=1e-9)
    assert objective.relative_decrement(engine) <= engine.score_decrement_ <= 1e-9
    scores = engine.scores(X)
    for labels in ([0, 1], [2, 4], [3], [5]):
        np.testing.assert_allclose(scores[:, labels].sum(axis=1), 0, atol=1e-10)
    assert np.abs(scores[:, 0]).max() > 0.1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_gradient_vanishes(layout, kind, fit_intercept, rng):
    """It is below √(2 · tol · value · largest curvature), as decrement ≤ tol has it."""
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    objective = ScoreObjective(X, feedback, K, 2.0, None, fit_intercept)
    engine = fitted(X, feedback, 2.0, fit_intercept=fit_intercept)
    value, gradient = objective.value_and_gradient(objective.coef_of(engine))
    # A choice's Hessian is at most ½, and a label takes part in K − 1 of them.
    largest = 1 + 2.0 * 0.5 * (K - 1) * np.linalg.norm(objective.X, 2) ** 2
    assert np.linalg.norm(gradient) <= np.sqrt(2e-12 * value * largest)
    start = np.linalg.norm(objective.value_and_gradient(0 * gradient)[1])
    assert np.linalg.norm(gradient) < 1e-4 * start


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["dense tall", "sparse wide"])
def test_weights_are_repeated_rows(layout, kind, rng):
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    times = rng.integers(0, 4, size=len(y))
    repeated = np.repeat(np.arange(len(y)), times)
    one = fitted(X, feedback, 2.0, times.astype(float))
    other = fitted(X[repeated], feedback[repeated], 2.0)
    np.testing.assert_allclose(one.scores(X), other.scores(X), atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_other_names_of_the_labels_change_nothing(kind, rng):
    X, y = points("dense tall", rng)
    feedback = rankings(X, y, rng, kind)
    column = rng.permutation(K)
    expected = fitted(X, feedback).scores(X)
    found = fitted(X, renamed(feedback, column)).scores(X)
    np.testing.assert_allclose(found[:, column], expected, atol=1e-5)


def test_turning_and_moving_the_points_changes_nothing(rng):
    X, y = points("dense tall", rng)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    expected = fitted(X, y).scores(X)
    moved = X @ turn + 1000 * rng.normal(size=6)
    np.testing.assert_allclose(fitted(moved, y).scores(moved), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["tall", "wide"])
def test_sparse_points_have_the_scores_of_dense_ones(layout, kind, rng):
    X, y = points(f"sparse {layout}", rng)
    feedback = rankings(X, y, rng, kind)
    expected = fitted(X.toarray(), feedback).scores(X.toarray())
    np.testing.assert_allclose(fitted(X, feedback).scores(X), expected, atol=1e-5)


def test_rows_and_columns_that_are_too_many_for_an_eigenbasis(rng, monkeypatch):
    X, y = points("dense wide", rng)
    expected = fitted(X, y).scores(X)
    monkeypatch.setattr(_points, "LARGEST_BASIS", 5)
    without = fitted(X, y)
    np.testing.assert_allclose(without.scores(X), expected, atol=1e-5)


@pytest.mark.parametrize("X_layout", ["dense tall", "sparse tall"])
@pytest.mark.parametrize("unplaced", ["behind", "unknown"])
@pytest.mark.parametrize("n_labels", [8, 30])
def test_sparse_ranks_have_the_scores_of_dense_ones(n_labels, unplaced, X_layout, rng):
    """With thirty labels, gradients are sparse, too."""
    X, y = points(X_layout, rng)
    ranks = np.zeros((len(y), n_labels))
    for row in ranks:
        row[rng.choice(n_labels, 3, replace=False)] = [1, 2, 2]
    feedback = SparseRanks(sparse.csr_array(ranks), unplaced)
    weights = rng.random(len(y))
    one = fitted(X, feedback, 2.0, weights, n_classes=n_labels)
    other = fitted(X, feedback.dense(), 2.0, weights, n_classes=n_labels)
    np.testing.assert_allclose(one.scores(X), other.scores(X), atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["labels", "partial"])
def test_the_number_of_threads_changes_no_bit(layout, kind, rng, monkeypatch):
    """With parts so small that there are many for the threads to share."""
    monkeypatch.setattr(_solver, "NUMBERS_AT_ONCE", 64)
    monkeypatch.setattr(_points, "_parts", lambda n: list(_points.batches(n, 7)))
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    found = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            engine = fitted(X, feedback, tol=1e-5, rivals=None)
            found.append((engine.scores(X), engine.margins(X)))
    for scores, margins in found[1:]:
        np.testing.assert_array_equal(scores, found[0][0])
        np.testing.assert_array_equal(margins, found[0][1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(layout, kind, rng):
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    expected = fitted(X, feedback).scores(X)
    single = fitted(X.astype(np.float32), feedback, tol=1e-7)
    for engine in (single, fitted(X, feedback, tol=1e-7, dtype="float32")):
        assert engine.score_converged_
        scores = engine.scores(X)
        assert scores.dtype == engine.score_coef_.dtype == np.float32
        assert engine.score_intercept_.dtype == np.float32
        np.testing.assert_allclose(scores, expected, atol=1e-2)


@pytest.mark.parametrize("layout", ["dense tall", "sparse tall"])
@pytest.mark.parametrize("powers", [(-6, 6), (6, 6), (-6, -6), (0, 6)])
def test_columns_of_any_size(layout, powers, rng):
    X, y = points(layout, rng)
    sizes = np.logspace(*powers, X.shape[1])
    X = X * sizes if isinstance(X, np.ndarray) else sparse.csr_array(X @ sparse.diags_array(sizes))
    objective = ScoreObjective(X, y, K, 1.0)
    engine = fitted(X, y, tol=1e-9)
    assert engine.score_converged_
    value = objective.value_and_gradient(objective.coef_of(engine))[0]
    peer = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has a harder time
        peer.fit(X, y)
    coef = np.vstack([peer.coef_.T, peer.intercept_ + peer.coef_ @ objective.mean])
    coef[-1] -= coef[-1].mean()
    assert value <= objective.value_and_gradient(coef.ravel())[0] * (1 + 1e-9)


@pytest.mark.parametrize("C", [1e-6, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_penalties_of_any_size(C, kind, rng):
    X, y = points("dense tall", rng)
    engine = fitted(X, rankings(X, y, rng, kind), C, tol=1e-9)
    assert engine.score_converged_
    assert engine.score_n_iter_ < 100
    assert np.abs(engine.scores(X)).max() < (1e-2 if C < 1 else 1e5)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_points_that_are_all_the_same(convert):
    """Only intercepts are left, and they find the shares of the labels."""
    y = np.repeat([0, 1, 2], [10, 20, 30])
    for row in (np.zeros(3), np.full(3, 0.1), np.array([1e6, 0.3, 0])):
        X = convert(np.tile(row, (60, 1)))
        scores = fitted(X, y, 10.0, n_classes=3).scores(X)[0]
        shares = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(shares, [1 / 6, 1 / 3, 1 / 2], atol=1e-4)


def test_a_long_ranking_that_is_always_the_same(rng):
    ranks = np.tile(np.arange(80) + 1.0, (30, 1))
    X = rng.normal(size=(30, 3))
    engine = fitted(X, ranks, 1e4, n_classes=80, tol=1e-5)
    assert engine.score_converged_
    scores = engine.scores(X)
    assert (np.diff(scores, axis=1) < 0).all()
    assert np.ptp(scores, axis=1).min() > 750


def test_a_start_at_the_minimum_stays_there(rng):
    """The solver is also called with other choices, and with a place to start from."""
    from duelrank._threads import Threads
    from duelrank.duels.anchored._fit import Training
    from duelrank.duels.logistic._rows import TrainingRows

    X, y = points("dense tall", rng)
    training = Training.of(TrainingRows(X, y, None, K), True, Threads(None, 1))
    solution = training.fit_scores(1.0, 1e-9, 100)
    again = training.fit_scores(1.0, 1e-9, 100, start=solution.coef)
    assert again.n_iter < solution.n_iter
    np.testing.assert_allclose(again.coef, solution.coef, atol=1e-5)


def test_scores_that_cannot_be_certified_say_so(rng):
    X, y = points("dense tall", rng)
    X = (X + 1e6).astype(np.float32)  # an intercept in single precision cannot hold it
    with pytest.warns(ConvergenceWarning, match="of X are far larger or smaller than others"):
        engine = AnchoredDuels(100.0, tol=1e-9).fit(X, y, K)
    assert not engine.score_converged_


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_margins_of_points_beyond_all_measure_are_finite(convert, rng):
    X, y = points("dense tall", rng)
    engine = fitted(X, y, rivals=1)
    far = np.where(np.arange(X.size).reshape(X.shape) % 2, 1e308, -1e308)[:5]
    assert np.isfinite(engine.margins(convert(far))).all()
    assert np.isfinite(engine.scores(convert(far))).all()
