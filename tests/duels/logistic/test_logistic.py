import os
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from duelrank import DuelRanker, EstimatorDuels, LogisticDuels, LogisticDuelsCV, pairs
from duelrank._threads import Threads
from duelrank.blocks import RowBlocks
from duelrank.datasets import load_images
from duelrank.duels.logistic._batch import GroupBatch
from duelrank.duels.logistic._newton import NewtonSolver
from duelrank.duels.logistic._plan import Workload, tiles
from duelrank.duels.logistic._preconditioner import Diagonal, OwnHessians
from duelrank.duels.logistic._problems import ProblemsInMemory

TIGHT = 1e-11


def duel_rows(codes, first, second):
    rows = np.flatnonzero((codes == first) | (codes == second))
    return rows, codes[rows] == second


def value(X, is_second, coef, intercept, C, weights=None):
    """scikit-learn's objective of one duel."""
    margins = np.where(is_second, 1, -1) * (X @ coef + intercept)
    losses = np.logaddexp(0, -margins)
    return 0.5 * coef @ coef + C * (losses if weights is None else weights * losses).sum()


def worst_gap(duels, X, codes, C, weights=None, **options):
    """Largest relative excess of our objectives over those of newton-cholesky."""
    gaps = []
    for d, (a, b) in enumerate(zip(*pairs(duels.n_classes_), strict=True)):
        rows, is_second = duel_rows(codes, a, b)
        w = None if weights is None else weights[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = LogisticRegression(
                C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000, **options
            ).fit(X[rows], is_second, sample_weight=w)
        theirs = value(X[rows], is_second, peer.coef_[0], peer.intercept_[0], C, w)
        ours = value(
            X[rows], is_second, duels.coef_[d].astype(float), float(duels.intercept_[d]), C, w
        )
        gaps.append((ours - theirs) / theirs)
    return max(gaps)


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_objectives_on_digits(digits, C, fit_intercept):
    X, y = digits
    duels = LogisticDuels(C, fit_intercept=fit_intercept, tol=TIGHT).fit(X, y, 10)
    assert duels.converged_.all()
    assert worst_gap(duels, X, y, C, fit_intercept=fit_intercept) < 1e-9


def test_default_tolerance_is_tight_enough(digits):
    X, y = digits
    assert worst_gap(LogisticDuels().fit(X, y, 10), X, y, 1.0) < 1e-6


def hard_cases():
    rng = np.random.default_rng(0)
    X, y = make_classification(
        400, 12, n_informative=6, n_classes=4, n_clusters_per_class=1, flip_y=0.1, random_state=0
    )
    yield "plain", X, y, 1.0
    yield "badly scaled", X * np.logspace(-6, 6, 12), y, 1.0
    yield "shifted far", X + 1e6, y, 1.0
    yield "duplicate columns", np.hstack([X, X, X]), y, 10.0
    yield "constant columns", np.hstack([X, np.ones((400, 1)), np.zeros((400, 1))]), y, 1.0
    yield "separable", np.eye(4)[y] * 3 + 0.01 * rng.normal(size=(400, 4)), y, 1e4
    outliers = np.where(np.arange(400) < 5, (y + 1) % 4, y)
    yield "a few outliers", np.eye(4)[y] * 3 + 0.1 * rng.normal(size=(400, 4)), outliers, 1e4
    yield "barely separable", 5 * np.eye(4, 30)[y] + rng.normal(size=(400, 30)), y, 1e6
    yield "more features than rows", rng.normal(size=(60, 200)), y[:60], 1.0
    yield "one feature", X[:, :1], y, 1.0
    yield (
        "many rows",
        np.repeat(X, 20, axis=0) + 0.1 * rng.normal(size=(8000, 12)),
        y.repeat(20),
        1.0,
    )
    yield "strong penalty", X, y, 1e-6
    yield "weak penalty", X, y, 1e6


@pytest.mark.parametrize(("name", "X", "y", "C"), list(hard_cases()), ids=lambda v: str(v)[:24])
def test_objectives_on_hard_cases(name, X, y, C):
    duels = LogisticDuels(C, tol=1e-10, max_iter=300).fit(X, y, 4)
    assert duels.converged_.all()
    assert worst_gap(duels, X, y, C) < 1e-6


def test_float32_stays_float32(digits):
    X, y = digits
    duels = LogisticDuels(0.01).fit(X.astype(np.float32), y, 10)
    assert duels.coef_.dtype == duels.intercept_.dtype == np.float32
    assert duels.margins(X[:5].astype(np.float32)).dtype == np.float32
    assert worst_gap(duels, X, y, 0.01) < 1e-5
    assert LogisticDuels(dtype="float32").fit(X, y, 10).coef_.dtype == np.float32
    assert LogisticDuels(dtype="float64").fit(X.astype("f"), y, 10).coef_.dtype == np.float64


def test_sample_and_class_weights(digits, rng):
    X, y = digits[0][:500], digits[1][:500]
    weights = rng.exponential(size=500)
    duels = LogisticDuels(0.1, tol=TIGHT).fit(X, y, 10, sample_weight=weights)
    assert worst_gap(duels, X, y, 0.1, weights) < 1e-8
    given = {k: 1.0 + k for k in range(10)}
    by_dict = LogisticDuels(0.1, class_weight=given, tol=TIGHT).fit(X, y, 10)
    assert worst_gap(by_dict, X, y, 0.1, np.array([given[k] for k in y])) < 1e-8
    balanced = LogisticDuels(0.1, class_weight="balanced", tol=TIGHT).fit(X, y, 10)
    theirs = EstimatorDuels(
        LogisticRegression(
            C=0.1, class_weight="balanced", solver="newton-cholesky", tol=1e-10, max_iter=500
        )
    ).fit(X, y, 10)
    np.testing.assert_allclose(balanced.margins(X), theirs.margins(X), rtol=1e-4, atol=1e-4)


def test_gradients_numerically(rng):
    batches = [
        GroupBatch(
            None,
            rng.normal(size=(1, 3, 7)),
            np.array([problems]),
            rng.choice([-1.0, 1.0], size=(1, len(problems))),
            rng.random((1, len(problems))),
            weights,
            np.zeros(1, dtype=int),
        )
        for problems, weights in [([0, 1], None), ([1, 2], rng.random((1, 7))), ([0, 2], None)]
    ]
    problems = ProblemsInMemory(batches, 3, Threads(None, 1))
    penalty = np.array([1.0, 0.5, 0.0])
    solver = NewtonSolver(penalty, Diagonal(penalty, 3), problems.threads, 1e-8, 100)
    coef = rng.normal(size=(3, 3))

    def evaluate(w):
        at = problems.evaluate(w.reshape(3, 3), np.float64)
        return solver._with_penalty(at, at.coef)

    numeric = approx_fprime(coef.ravel(), lambda w: evaluate(w)[0].sum(), 1e-7)
    np.testing.assert_allclose(evaluate(coef)[1].ravel(), numeric, atol=1e-5)


def test_models_of_a_duel_share_the_average_of_their_hessians(rng):
    rows = rng.normal(size=(3, 1, 3, 40)).astype(np.float32)
    taking_part = [[0, 1, 2], [0, 2], [1, 2]]  # models 0 and 1 are of duel 0
    batches = [
        GroupBatch(
            part,
            part.astype(np.float64),
            np.array([problems]),
            np.ones((1, len(problems))),
            rng.random((1, len(problems))),
            None,
            np.zeros(1, dtype=int),
        )
        for part, problems in zip(rows, taking_part, strict=True)
    ]
    problems = ProblemsInMemory(batches, 3, Threads(None, 1))
    penalty = np.ones(3)
    for cold, coef in [(True, np.zeros((3, 3))), (False, rng.normal(size=(3, 3)))]:
        at = problems.evaluate(coef, np.float64)
        everything = np.ones(3, dtype=bool)
        hessians = np.zeros((3, 3, 3))
        for j, unit in enumerate(np.eye(3, dtype=np.float32)):
            products = problems.hessian_times(at, np.tile(unit, (3, 1)), everything)
            hessians[:, :, j] = products(slice(0, 3))
        own = OwnHessians(penalty, np.array([0, 0, 1]), cold)
        problems.update_preconditioner(own, np.arange(3), at)
        for inverse, hessian in zip(own.inverses, [hessians[:2].mean(0), hessians[2]], strict=True):
            np.testing.assert_allclose(inverse @ (hessian + np.eye(3)), np.eye(3), atol=1e-4)
        vectors = rng.normal(size=(3, 3)).astype(np.float32)
        expected = [own.inverses[duel] @ v for duel, v in zip([0, 0, 1], vectors, strict=True)]
        np.testing.assert_allclose(own.apply(vectors, np.arange(3)), expected, atol=1e-6)


def test_gradient_vanishes_at_the_solution(digits):
    X, y = digits
    duels = LogisticDuels(0.01, tol=1e-13).fit(X, y, 10)
    for d, (a, b) in enumerate(zip(*pairs(10), strict=True)):
        rows, is_second = duel_rows(y, a, b)
        residual = expit(X[rows] @ duels.coef_[d] + duels.intercept_[d]) - is_second
        gradient_norm = np.linalg.norm(duels.coef_[d] + 0.01 * X[rows].T @ residual)
        assert gradient_norm < 1e-5 * np.linalg.norm(duels.coef_[d])
        assert abs(residual.sum()) < 1e-4


@pytest.mark.parametrize("preconditioner", ["own Hessians", "eigenbasis", "diagonal"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_all_preconditioners_agree(digits, monkeypatch, preconditioner, fit_intercept):
    X, y = digits
    reference = LogisticDuels(0.1, tol=TIGHT, fit_intercept=fit_intercept).fit(X, y, 10)
    monkeypatch.setattr(
        "duelrank.duels.logistic._plan.own_hessians_pay",
        lambda *_: preconditioner == "own Hessians",
    )
    if preconditioner == "diagonal":
        monkeypatch.setattr("duelrank.duels.logistic._table.LARGEST_BASIS", 0)
    again = LogisticDuels(0.1, tol=TIGHT, max_iter=500, fit_intercept=fit_intercept).fit(X, y, 10)
    np.testing.assert_allclose(again.coef_, reference.coef_, atol=1e-5)


def test_little_memory_gives_the_same_duels(digits):
    X, y = digits
    whole = LogisticDuels(0.1, tol=TIGHT).fit(X, y, 10)
    tiled = LogisticDuels(0.1, tol=TIGHT, working_memory=0.1).fit(X, y, 10)
    np.testing.assert_allclose(tiled.coef_, whole.coef_, atol=1e-6)


def test_groups_of_labels_of_different_size():
    """Tiles between 9 and 8 labels: padding must not pass for the last duel."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = np.arange(17).repeat(20)
        X = rng.normal(size=(17, 30))[y] + rng.normal(size=(340, 30))
        whole = LogisticDuels(tol=TIGHT).fit(X, y, 17)
        memory = 82 * (40 * 40 + 80 * 31) / 2**20
        tiled = LogisticDuels(tol=TIGHT, working_memory=memory).fit(X, y, 17)
        assert tiled.converged_.all()
        np.testing.assert_allclose(tiled.coef_, whole.coef_, atol=1e-6)


@pytest.mark.parametrize("shift", [1e3, 1e4])
@pytest.mark.parametrize("n_features", [5, 150])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_a_label_far_away_spoils_no_other_duel(rng, shift, n_features, convert):
    """A sentinel value in one label makes a column that the other duels hardly use."""
    y = np.arange(3).repeat(150)
    X = rng.normal(size=(450, n_features)) + 0.5 * np.eye(3, n_features)[y]
    X[y == 2, 0] += shift
    duels = LogisticDuels().fit(convert(X), y, 3)
    assert duels.converged_.all()
    rows, is_second = duel_rows(y, 0, 1)
    peer = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=500)
    peer.fit(X[rows], is_second)
    theirs = value(X[rows], is_second, peer.coef_[0], peer.intercept_[0], 1.0)
    ours = value(X[rows], is_second, duels.coef_[0], duels.intercept_[0], 1.0)
    assert (ours - theirs) / theirs < 1e-6


def test_tiles_cover_every_duel_once():
    counts = np.array([5, 0, 9, 3, 4, 8, 1, 2])
    first, second = pairs(8)
    both = np.flatnonzero((counts[first] > 0) & (counts[second] > 0))
    rows = np.zeros(len(first), dtype=int)
    rows[both] = counts[first[both]] + counts[second[both]]
    for most_bytes in (1e9, 6000, 1):
        parts = list(tiles(Workload(rows, 8, 3), most_bytes))
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), both)
    assert len(parts) == len(both)
    assert list(tiles(Workload(np.array([0]), 2, 3), 1e9)) == []


def test_the_same_bytes_whatever_the_threads(digits):
    X, y = digits
    with threadpool_limits(1):
        one = LogisticDuels().fit(X, y, 10)
    with threadpool_limits(2):
        two = LogisticDuels().fit(X, y, 10)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    with threadpool_limits(1):
        one_cv = LogisticDuelsCV(Cs=2, cv=2).fit(X, y, 10).margins(X)
    with threadpool_limits(2):
        two_cv = LogisticDuelsCV(Cs=2, cv=2).fit(X, y, 10).margins(X)
    np.testing.assert_array_equal(one_cv, two_cv)


@pytest.mark.parametrize("engine", [LogisticDuels(), LogisticDuelsCV(Cs=2, cv=2)])
def test_sums_over_many_rows_do_not_depend_on_threads(engine, rng):
    # So many rows that BLAS would share a sum over them among its threads.
    y = np.arange(12_000) % 2
    X = 100 * rng.random(size=(12_000, 150)) + 10 * y[:, np.newaxis]
    fitted = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            fitted.append(clone(engine).fit(X, y, 2).coef_)
    np.testing.assert_array_equal(*fitted)


def test_sparse_equals_dense(rng):
    X = rng.poisson(0.3, size=(300, 40)) * rng.random((300, 40))
    y = (X[:, :4].argmax(axis=1) + rng.integers(2, size=300)) % 4
    for fit_intercept in (True, False):
        dense = LogisticDuels(tol=TIGHT, fit_intercept=fit_intercept).fit(X, y, 4)
        for convert in (sparse.csr_array, sparse.csc_matrix):
            duels = LogisticDuels(tol=TIGHT, fit_intercept=fit_intercept).fit(convert(X), y, 4)
            np.testing.assert_allclose(duels.coef_, dense.coef_, atol=1e-5)
            np.testing.assert_allclose(duels.margins(convert(X)), dense.margins(X), atol=1e-4)
            wins = DuelRanker(random_state=0).fit(convert(X), y).predict_ranks(convert(X))
            np.testing.assert_array_equal(
                wins, DuelRanker(random_state=0).fit(X, y).predict_ranks(X)
            )


def test_wide_sparse_text_is_not_densified():
    """100,000 features and 2,000 documents: dense, X alone would take 1.6 GB."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 500)
    row = np.arange(2000).repeat(50)
    column = rng.integers(100_000, size=(2000, 50))
    column[:, :20] = y[:, None] * 500 + rng.integers(700, size=(2000, 20))  # words of the topic
    X = sparse.csr_array((np.ones(len(row)), (row, column.ravel())), shape=(2000, 100_000))
    ranker = DuelRanker(random_state=0).fit(X, y)
    assert ranker.duels_.converged_.all()
    assert ranker.score(X, y) > 0.95
    rows, is_second = duel_rows(y, 0, 1)
    peer = LogisticRegression(tol=1e-8, max_iter=1000).fit(X[rows], is_second)
    np.testing.assert_allclose(ranker.duels_.margins(X)[:, 0], peer.decision_function(X), atol=1e-3)


def test_certificates_and_warning(digits):
    X, y = digits
    with pytest.warns(ConvergenceWarning, match=r"45 of 45 duels did not converge .* 0-1, 0-2,"):
        duels = LogisticDuels(max_iter=2).fit(X, y, 10)
    assert not duels.converged_.any()
    assert (duels.n_iter_ == 2).all()
    assert (duels.decrement_ > duels.tol).all()
    # The decrement is what the objective still has to lose, before the last step.
    loose = LogisticDuels(tol=1e-2).fit(X, y, 10)
    assert (loose.decrement_ <= 1e-2).all()
    assert worst_gap(loose, X, y, 1.0) < 1e-2


def test_duels_that_make_no_progress_give_up(digits):
    """Single precision cannot get there, and tries no longer than it takes to see that."""
    X, y = digits
    with pytest.warns(ConvergenceWarning, match="45 of 45 duels"):
        duels = LogisticDuels(tol=1e-30, max_iter=500).fit(X.astype(np.float32), y, 10)
    assert (duels.n_iter_ < 100).all()
    assert worst_gap(duels, X, y, 1.0) < 1e-4


def test_counted_wins_equal_the_tournaments(digits):
    X, y = digits
    for dtype in (np.float64, np.float32):
        ranker = DuelRanker(LogisticDuels(0.01), random_state=0).fit(X.astype(dtype), y)
        tournament = ranker.tournament(X.astype(dtype))
        wins, expected = ranker.duels_.wins(X.astype(dtype), ranker.label_order_)
        np.testing.assert_array_equal(wins, 9 - tournament.losses)
        np.testing.assert_allclose(expected, tournament.probabilities.sum(axis=2) - 0.5, rtol=1e-4)
        np.testing.assert_array_equal(ranker.decision_function(X.astype(dtype)), tournament.scores)


def test_counted_wins_of_many_labels_and_blocks(rng, monkeypatch):
    X = rng.normal(size=(120, 5))
    y = np.arange(120) % 40
    ranker = DuelRanker(random_state=0).fit(X, y)
    expected = ranker.predict_ranks(X)
    for module in ("_counting", "_linear"):
        monkeypatch.setattr(f"duelrank.duels.logistic.{module}.FEW_LABELS", 2)
    np.testing.assert_array_equal(ranker.predict_ranks(X), expected)
    monkeypatch.setattr("duelrank.duels.logistic._linear.WIN_ROWS", 7)
    monkeypatch.setattr("duelrank.duels.logistic._margins.RUN_COLUMNS", 11)
    np.testing.assert_array_equal(ranker.predict_ranks(X), expected)
    monkeypatch.setattr("duelrank.duels.logistic._linear.MOST_LABELS_IN_DOUBLE", 2)
    assert (ranker.predict_ranks(X) == expected).mean() > 0.999


def test_undecided_duels_go_by_the_drawn_order():
    duels = LogisticDuels(fit_intercept=False).fit(np.eye(4)[[0, 1, 2, 3]], [0, 1, 2, 3], 4)
    for order in ([3, 1, 0, 2], [0, 1, 2, 3], [2, 3, 1, 0]):
        wins, expected = duels.wins(np.zeros((1, 4)), np.array(order))
        np.testing.assert_array_equal(wins[0, order], [3, 2, 1, 0])
        np.testing.assert_allclose(expected, 1.5)


def test_one_sided_and_empty_duels():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    for duels in (LogisticDuels(), LogisticDuelsCV(Cs=2, cv=2)):
        margins = duels.fit(X, np.array([0, 0, 2, 2]), n_classes=4).margins(X)
        first, second = pairs(4)
        seen = {0: 1, 1: 0, 2: 1, 3: 0}
        for d, (a, b) in enumerate(zip(first, second, strict=True)):
            if seen[a] != seen[b]:
                assert (np.sign(margins[:, d]) == seen[b] - seen[a]).all()
        assert (margins[:, 4] == 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C must be a positive number or 'scale', got 0"),
        ({"C": "1"}, "C must be a positive number or 'scale', got '1'"),
        ({"tol": -1}, "tol must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a positive integer, got 0"),
        ({"working_memory": 0}, "working_memory must be a positive number"),
        ({"dtype": "int32"}, "dtype must be None, 'float32' or 'float64'"),
        ({"class_weight": "heavy"}, "class_weight must be None, 'balanced' or a dictionary"),
        ({"class_weight": {0: -1}}, "class_weight must be a positive number, got -1"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        LogisticDuels(**options).fit(np.eye(2), [0, 1], 2)


@pytest.mark.skipif("DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder")
def test_mnist():
    """Objectives next to newton-cholesky's, and the accuracies of the paper's Table 1."""
    X, y, X_test, y_test = load_images("mnist")
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X.astype(np.float64))
    X, X_test = pca.transform(X.astype(np.float64)), pca.transform(X_test.astype(np.float64))
    ranker = DuelRanker(LogisticDuels(1e-4), ties="index").fit(X, y)
    assert ranker.duels_.converged_.all()
    ranks = ranker.predict_ranks(X_test)
    place = ranks[np.arange(len(y_test)), y_test]
    assert abs(np.mean(place == 1) - 0.943) < 0.002
    assert abs(np.mean(place <= 5) - 0.997) < 0.001
    first, second = pairs(10)
    for d in range(0, 45, 9):
        rows, is_second = duel_rows(y, first[d], second[d])
        peer = LogisticRegression(C=1e-4, solver="newton-cholesky", tol=1e-10, max_iter=100)
        peer.fit(X[rows], is_second)
        theirs = value(X[rows], is_second, peer.coef_[0], peer.intercept_[0], 1e-4)
        coef, intercept = ranker.duels_.coef_[d], ranker.duels_.intercept_[d]
        ours = value(X[rows], is_second, coef, intercept, 1e-4)
        assert (ours - theirs) / theirs < 1e-6


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_C_may_go_by_the_scale_of_the_rows(fit_intercept, weighted, rng):
    X = rng.normal(size=(60, 4)) * [1, 2, 3, 4] + 5
    y = np.arange(60) % 3
    weights = rng.integers(0, 4, size=60) if weighted else np.ones(60, dtype=int)
    centre = np.average(X, axis=0, weights=weights) if fit_intercept else 0
    square = np.average(((X - centre) ** 2).sum(axis=1), weights=weights)
    for rows in (X, sparse.csr_array(X), X.astype(np.float32), 1000 * X):
        duels = LogisticDuels("scale", fit_intercept=fit_intercept)
        duels.fit(rows, y, 3, sample_weight=weights)
        factor = 1e6 if rows is not X and np.ndim(rows) == 2 and abs(rows).max() > 1000 else 1
        assert pytest.approx(100 / (factor * square), rel=1e-5) == duels.C_
    # Other units of X change nothing but the coefficients.
    np.testing.assert_allclose(
        duels.margins(1000 * X),
        LogisticDuels("scale", fit_intercept=fit_intercept)
        .fit(X, y, 3, sample_weight=weights)
        .margins(X),
        atol=1e-4,
    )


def test_C_by_the_scale_of_blocks(rng):
    X, y = rng.normal(size=(60, 4)) * [1, 2, 3, 4] + 5, np.arange(60) % 3
    blocks = RowBlocks.from_array(X, 7), RowBlocks.from_array(y, 7)
    for fit_intercept in (True, False):
        expected = LogisticDuels("scale", fit_intercept=fit_intercept).fit(X, y, 3).C_
        duels = LogisticDuels("scale", fit_intercept=fit_intercept).fit(*blocks, 3)
        assert pytest.approx(expected) == duels.C_


def test_C_of_rows_that_are_all_the_same():
    assert LogisticDuels("scale").fit(np.ones((4, 2)), [0, 0, 1, 1], 2).C_ == 100
    assert LogisticDuels(2).fit(np.ones((4, 2)), [0, 0, 1, 1], 2).C_ == 2


@pytest.mark.parametrize("C", ["auto", 0, -1, None, np.nan])
def test_bad_C(C):
    with pytest.raises(ValueError, match="C must be"):
        LogisticDuels(C).fit(np.ones((4, 2)), [0, 0, 1, 1], 2)
