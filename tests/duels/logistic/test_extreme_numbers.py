"""Extreme numbers: a duel that says it has converged is at its minimum, and NumPy is silent."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from duelrank import AnchoredDuels, DuelRanker, LogisticDuels, LogisticDuelsCV, pairs
from duelrank.duels.anchored import _engine as anchored_engine
from duelrank.duels.logistic import _certificate
from duelrank.duels.logistic._assembly import Assembly, Objective
from duelrank.duels.logistic._certificate import exact_sum
from duelrank.duels.logistic._rows import Settings, TrainingRows


def objective(X: Any, codes: Any, coef: Any, intercept: float, C: float) -> float:
    """Return the objective of a duel on the rows as they are; margins lose nothing to offsets."""
    centre = np.median(X, axis=0)
    shift = Fraction(float(intercept)) + sum(
        Fraction(float(a)) * Fraction(float(b)) for a, b in zip(centre, coef, strict=True)
    )
    margins = (X - centre) @ coef.astype(np.float64) + float(shift)
    losses = np.logaddexp(0, np.where(codes == 1, -margins, margins))
    return float(0.5 * coef.astype(np.float64) @ coef + C * losses.sum())


def fitted_quietly(engine: Any, X: Any, codes: Any, n_classes: int = 2) -> Any:
    """Fit and predict; only warnings of this package's own kinds may come."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="columns .* too small to matter")
        engine.fit(X, codes, n_classes)
        engine.margins(X)
        engine.wins(X, np.arange(n_classes))
    return engine


def assert_at_minimum(X: Any, codes: Any, C: float) -> None:
    """A duel that says it has converged has an objective that no factorisation can lower."""
    engine = fitted_quietly(LogisticDuels(C=C), X, codes)
    assert engine.converged_.all()
    dense = X.toarray() if sparse.issparse(X) else X
    peer = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    peer.fit(dense, codes)
    own = objective(dense, codes, engine.coef_[0], engine.intercept_[0], C)
    assert own <= objective(dense, codes, peer.coef_[0], peer.intercept_[0], C) * (1 + 1e-6)


def two_labels(n_rows: int = 120, n_features: int = 3, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    codes = (X.sum(axis=1) + rng.standard_normal(n_rows) > 0).astype(np.intp)
    return X, codes


@pytest.mark.parametrize("scale", [1e-18, 1e-20, 1e-100, 1e-300])
def test_a_tiny_column_changes_nothing_and_is_named(scale: float) -> None:
    X, codes = two_labels()
    alone = LogisticDuels().fit(X[:, 1:], codes, 2)
    X[:, 0] *= scale
    with pytest.warns(UserWarning, match=r"columns \[0\] of X are too small to matter"):
        engine = LogisticDuels().fit(X, codes, 2)
    assert engine.negligible_columns_.tolist() == [0]
    assert engine.converged_.all()
    assert engine.coef_[0, 0] == 0
    np.testing.assert_allclose(engine.coef_[:, 1:], alone.coef_, rtol=1e-4)


def test_a_later_fit_forgets_negligible_columns() -> None:
    X, codes = two_labels()
    engine = LogisticDuels()
    with pytest.warns(UserWarning, match="too small"):
        engine.fit(X * [1e-20, 1, 1], codes, 2)
    assert not hasattr(engine.fit(X, codes, 2), "negligible_columns_")


def test_constant_columns_are_not_named() -> None:
    X, codes = two_labels()
    X[:, 0] = 0.1
    X[::2, 0] = np.nextafter(0.1, 1)
    engine = LogisticDuels().fit(X, codes, 2)  # warnings are errors
    assert not hasattr(engine, "negligible_columns_")


EXTREMES = {
    "scales": lambda X: X * 10.0 ** np.linspace(-9, 12, X.shape[1]),
    "offset": lambda X: X + [1e9, 0, -1e7, 0, 1e9, 0],
    "outlier": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 3 * X.shape[1], 1e10, X),
    "large": lambda X: X * 1e25,
    "huge": lambda X: X * [1e140, 1, 1e100, 1, 1, 1],
    "duplicate": lambda X: np.column_stack([X[:, 1:] * 1e7, X[:, 1] * 1e7 + 1e8]),
}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_rows", [20, 150])
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("C", [1e-3, 1e4])
def test_who_has_converged_is_at_the_minimum(
    extreme: str, n_rows: int, fit_intercept: bool, C: float
) -> None:
    X, codes = two_labels(n_rows, 6, seed=1)
    X = EXTREMES[extreme](X)
    engine = fitted_quietly(LogisticDuels(C, fit_intercept=fit_intercept), X, codes)
    assert engine.converged_.all()
    ours = objective(X, codes, engine.coef_[0], engine.intercept_[0], C)
    # No step from here leads farther down: a finer tolerance, and a peer on scaled columns.
    finer = fitted_quietly(LogisticDuels(C, fit_intercept=fit_intercept, tol=1e-12), X, codes)
    best = objective(X, codes, finer.coef_[0], finer.intercept_[0], C)
    assert ours <= best * (1 + 1e-6)
    peer = LogisticRegression(C=C, fit_intercept=fit_intercept, solver="newton-cholesky")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if extreme == "huge":  # too large for the peer
            return
        peer.fit(X, codes)
    theirs = objective(X, codes, peer.coef_[0], float(np.ravel(peer.intercept_)[0]), C)
    assert ours <= theirs * (1 + 1e-6)


def test_a_huge_constant_column_leaves_the_intercept_alone() -> None:
    X, codes = two_labels(20, 26)
    X[:, 0] = 1e17
    engine = LogisticDuels(C=1e5).fit(X, codes, 2)
    alone = LogisticDuels(C=1e5).fit(X[:, 1:], codes, 2)
    assert engine.converged_.all()
    np.testing.assert_allclose(engine.margins(X), alone.margins(X[:, 1:]), rtol=1e-2, atol=1e-3)


def test_single_precision_says_that_it_cannot_hold_an_offset() -> None:
    X, codes = two_labels()
    X = (X + [1e6, 0, 0]).astype(np.float32)
    with pytest.warns(ConvergenceWarning, match=r"Columns \[0\] of X .* dtype=float64"):
        single = LogisticDuels(C=100).fit(X, codes, 2)
    assert not single.converged_.any()
    assert LogisticDuels(C=100, dtype="float64").fit(X, codes, 2).converged_.all()


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("engine", [LogisticDuels(), LogisticDuelsCV(cv=2), AnchoredDuels()])
def test_numbers_whose_squares_overflow_are_refused(engine: Any, as_sparse: bool) -> None:
    X, codes = two_labels(20)
    X[0, 0] = -2e150
    X = sparse.csr_array(X) if as_sparse else X
    with pytest.raises(ValueError, match=r"X must hold numbers between .* got 2e\+150"):
        engine.fit(X, codes, 2)
    assert not hasattr(engine, "intercept_")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e30, 3e37])
def test_numpy_does_not_warn(size: float, as_sparse: bool, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for n_rows, n_features in ((8, 12), (60, 4)):
        X = (rng.standard_normal((n_rows, n_features)) * [size, *[1] * (n_features - 1)]).astype(
            dtype
        )
        codes = np.arange(n_rows) % 3
        points = sparse.csr_array(X) if as_sparse else X
        for engine in (LogisticDuels(), LogisticDuels(C="scale"), AnchoredDuels()):
            fitted_quietly(engine, points, codes, 3)


def test_single_precision_is_refused_what_does_not_fit_without_a_warning() -> None:
    X, codes = two_labels(20)
    with pytest.raises(ValueError, match="too large for dtype"):
        LogisticDuels(dtype="float32").fit(X * 1e60, codes, 2)


def test_final_models_of_a_search_are_certified() -> None:
    X, codes = two_labels(150, 6, seed=1)
    X = EXTREMES["outlier"](X)
    engine = fitted_quietly(LogisticDuelsCV([0.01, 1.0], cv=3), X, codes)
    assert engine.converged_.all()
    C = float(engine.C_[0])
    settled = fitted_quietly(LogisticDuels(C, tol=1e-12), X, codes)
    ours, best = (
        objective(X, codes, one.coef_[0], one.intercept_[0], C) for one in (engine, settled)
    )
    assert ours <= best * (1 + 1e-6)


def test_rankers_name_labels_and_columns() -> None:
    X, codes = two_labels()
    X = (X + [1e6, 0, 0]).astype(np.float32)
    with pytest.warns(ConvergenceWarning, match="'no'-'yes'.*Columns"):
        DuelRanker(LogisticDuels(C=100), random_state=0).fit(X, np.where(codes, "yes", "no"))


def test_sums_are_exact_where_products_cancel() -> None:
    a, b = np.array([1e16, 1.0 / 3, -1e16]), np.array([1 / 3, 3.0, 1 / 3])
    exact = Fraction(0.5) + sum(
        Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)
    )
    assert exact_sum(0.5, a, b) == float(exact)


@pytest.mark.parametrize("limit", ["MOST_NUMBERS", "MOST_NUMBERS_TOGETHER", "MOST_COLUMNS"])
@pytest.mark.parametrize("engine", [LogisticDuels(), LogisticDuelsCV([0.1, 1.0], cv=2)])
def test_duels_too_large_to_be_checked_have_not_converged(
    limit: str, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, codes = two_labels()
    monkeypatch.setattr(_certificate, limit, 2)
    assert engine.fit(X, codes, 2).converged_.all()  # ordinary rows need no check
    X[:, 0] *= 1e8
    with pytest.warns(ConvergenceWarning, match=r"Columns \[0\] of X .* standardise them"):
        engine.fit(X, codes, 2)
    assert not engine.converged_.any()
    assert np.isinf(engine.decrement_).all()


def test_a_wide_duel_with_an_outlier_does_not_claim_to_be_solved() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2100))
    codes = (X[:, :5].sum(axis=1) + rng.standard_normal(3000) > 0).astype(np.intp)
    X[0, 0] = 1e10
    with pytest.warns(ConvergenceWarning, match=r"Columns \[0\] of X"):
        assert not LogisticDuels().fit(X, codes, 2).converged_.any()


def test_duels_in_the_space_of_their_rows_are_not_checked_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((20, 60)), np.arange(20) % 2
    weights = np.ones(20)
    weights[0] = 1e9
    assert LogisticDuels().fit(X, codes, 2, sample_weight=weights).converged_.all()
    monkeypatch.setattr(_certificate, "MOST_COLUMNS", 50)
    with pytest.warns(ConvergenceWarning, match="the weights or C are very large or small"):
        assert not LogisticDuels().fit(X, codes, 2, sample_weight=weights).converged_.any()


def test_only_duels_that_are_too_large_are_left_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    X, codes = two_labels(100, 3)
    X[:, 0] *= 1e8
    codes[::10] = 2
    monkeypatch.setattr(_certificate, "MOST_NUMBERS", 3 * 80)
    with pytest.warns(ConvergenceWarning, match="1 of 3 duels .*: 0-1. Columns"):
        engine = LogisticDuels().fit(X, codes, 3)
    assert engine.converged_.tolist() == [False, True, True]


def test_equal_rows_and_an_outlier_in_many_columns_are_solved() -> None:
    rng = np.random.default_rng(0)
    X = np.tile(rng.normal(size=40) * 2, (30, 1))
    X[15] *= 1e6
    y = (np.arange(30) % 3 == 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        engine = LogisticDuels().fit(X, y, 2)
    # The intercept tells the equal rows apart as well as one can, whatever the outlier does.
    equal = np.arange(30) != 15
    share = y[equal].mean()
    assert engine.converged_.all()
    assert engine.margins(X[:1])[0, 0] == pytest.approx(np.log(share / (1 - share)), abs=1e-3)


def test_coefficients_that_overflow_are_zero_and_not_converged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solve = Assembly.solve

    def overflown(*arguments: Any) -> Any:
        state = solve(*arguments)
        state.coef[1] = np.nan
        return state

    monkeypatch.setattr(Assembly, "solve", overflown)
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.warns(ConvergenceWarning, match="0-2"):
        engine = LogisticDuels().fit(X, np.arange(60) % 3, 3)
    assert engine.converged_.tolist() == [True, False, True]
    assert np.isfinite(engine.margins(X)).all()
    assert not engine.coef_[1].any()


def test_intercepts_alone_are_solved_too() -> None:
    """No column can matter, and one label weighs next to nothing."""
    X = np.tile([1e-144, 0, 1e-150, 1e-147, 0], (4, 1))
    X[:3, 3], X[0, 4], X[3, 1] = [1.054e-147, 1.012e-147, 1.054e-147], -4.58e-149, 2.24e-149
    codes, weights = np.array([1, 1, 0, 1]), np.array([19.05, 1.456e-6, 1.354e-6, 488355.8])
    engine = LogisticDuels(C=1e-6)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="columns .* too small to matter")
        engine.fit(X, codes, 2, sample_weight=weights)
    assert engine.converged_.all()
    # Intercepts have no penalty: at the minimum the probability is the share of the label.
    share = np.log(weights[codes == 1].sum() / weights[codes == 0].sum())
    np.testing.assert_allclose(engine.margins(X), share, rtol=1e-3)


def test_wide_rows_of_large_weight_in_single_precision_are_checked() -> None:
    """Equal rows that contradict each other: their coefficients cancel."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 8)).astype(np.float32)
    X[1] = X[0]
    codes, weights = np.array([0, 1, 0, 1]), np.full(4, 1e6)
    heavy = LogisticDuels(C=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        heavy.fit(X, codes, 2, sample_weight=weights)
    best = LogisticDuels(C=1e6).fit(X.astype(np.float64), codes, 2)
    mine = objective(X, codes, heavy.coef_[0], heavy.intercept_[0], 1e6)
    least = objective(X, codes, best.coef_[0], best.intercept_[0], 1e6)
    assert not heavy.converged_.all() or mine <= least * (1 + 1e-6)


@pytest.mark.parametrize("seed", [1, 6, 19])
def test_equal_rows_of_both_labels_have_no_false_certificate(seed: int) -> None:
    """Wide rows: in products between rows, what two that contradict each other pull cancels."""
    rng = np.random.default_rng(seed)
    X, codes = rng.standard_normal((30, 40)), rng.integers(0, 2, 30)
    X[1], codes[:2] = X[0], [0, 1]
    assert_at_minimum(X, codes, C=1e6)


@pytest.mark.parametrize("seed", [106, 1430, 1557])
def test_what_the_last_step_is_rounded_by_is_told(seed: int) -> None:
    """Dual coefficients of two equal rows of both labels are large, and all but cancel."""
    rng = np.random.default_rng(seed)
    centres = 30 * rng.standard_normal((3, 8))
    X = centres[[0, 0, 0, 1, 1, 0, 2, 0, 1, 0]] + rng.standard_normal((10, 8))
    X[2], codes = X[1], np.array([2, 0, 2, 1, 1, 2, 0, 2, 1, 2])
    kind: Any = {"C": 1e3, "fit_intercept": False, "class_weight": "balanced"}
    engine = fitted_quietly(LogisticDuels(**kind), X, codes, n_classes=3)
    rows = codes != 1
    X, codes = X[rows], codes[rows] // 2
    peer = LogisticRegression(**kind, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    peer.fit(X, codes)
    weights = 1e3 * len(codes) / (2 * np.bincount(codes))[codes]

    def value(coef: Any) -> float:
        losses = np.logaddexp(0, np.where(codes == 1, -1, 1) * (X @ coef))
        return float(weights @ losses + 0.5 * coef @ coef)

    own = value(engine.coef_[1].astype(np.float64))
    assert not engine.converged_[1] or own <= value(peer.coef_[0]) * (1 + 1e-6)


def test_rows_that_are_all_the_same_leave_it_to_the_intercept() -> None:
    rng = np.random.default_rng(57)
    X, codes = np.tile(rng.standard_normal(40), (12, 1)), rng.integers(0, 2, 12)
    assert_at_minimum(sparse.csr_array(X), codes, C=1e3)


@pytest.mark.parametrize("spread", [0.0, 1e-3])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_rounding_of_kept_coefficients_is_told(fit_intercept: bool, spread: float) -> None:
    """Coefficients of wide rows in single precision, where those of both labels all but cancel."""
    rng = np.random.default_rng(0)
    centre = 40 * rng.standard_normal(40)
    X = (centre + spread * rng.standard_normal((60, 40))).astype(np.float32)
    codes = np.repeat([0, 1, 2], [17, 21, 22])
    engine = LogisticDuels(class_weight="balanced", fit_intercept=fit_intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        engine.fit(X, codes, 3)
    rows, sides = X[:38].astype(np.float64), np.where(codes[:38] == 1, 1, -1)
    weights = 38 / (2 * np.array([17, 21]))[codes[:38]]

    def value(coef: Any, intercept: Any) -> float:
        margins = sides * (rows @ coef.astype(np.float64) + intercept)
        return float(weights @ np.logaddexp(0, -margins) + 0.5 * coef @ coef)

    best = LogisticDuels(class_weight="balanced", fit_intercept=fit_intercept)
    best.fit(rows, codes[:38], 2)
    assert best.converged_.all()
    least = value(best.coef_[0], best.intercept_[0])
    own = value(engine.coef_[0], engine.intercept_[0])
    assert own <= least * (1 + 1e-9 + 1.01 * engine.decrement_[0])


def test_an_outlier_does_not_hide_what_is_left_to_gain() -> None:
    """Its curvature at the start, in a preconditioner, says that its column hardly matters."""
    rng = np.random.default_rng(133)
    X, codes = rng.standard_normal((60, 2)).astype(np.float32), rng.integers(0, 4, 60)
    X[:, 0] += codes
    X[:, 1], X[8, 0] = 1, 1000
    engine = LogisticDuels(C=10, fit_intercept=False).fit(X, codes, 4)
    assert engine.converged_.all()
    for duel, (first, second) in enumerate(zip(*pairs(4), strict=True)):
        mine = (codes == first) | (codes == second)
        sides = (codes[mine] == second).astype(int)
        own = objective(X[mine], sides, engine.coef_[duel], 0.0, 10)
        best = LogisticRegression(C=10, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
        best.fit(X[mine].astype(np.float64), sides)
        least = objective(X[mine], sides, best.coef_[0], 0.0, 10)
        assert own <= least * (1 + 1e-6)


def test_no_more_is_gained_than_a_decrement_says() -> None:
    """A row that dwarfs the others has a tiny loss, and all the curvature of its column."""
    rng = np.random.default_rng(0)
    others = np.exp(np.arange(27) - 5.0)
    X = np.column_stack([np.append(others, 2e22), rng.standard_normal(28)])
    codes = np.append((others < 10).astype(int), 0)
    X[:, 1] += codes
    C = 1e3
    start = LogisticDuels(C=C).fit(X[:, 1:], codes, 2)
    rows = TrainingRows(X, codes, None, 2)
    settings = Settings(C, True, None, 1e-8, 100, 512)
    made = Objective.from_rows(rows, settings)
    problem = _certificate._Problem.of(rows, made, 0, np.arange(28), codes)
    intercept = start.intercept_[0]
    duel = _certificate._Duel(np.array([-31 / 2e22, start.coef_[0, 0]]), intercept, 0.0)
    own = problem.value(problem.read(duel))
    best, _ = _certificate._solve(problem, duel, 1e-8, 100)
    least = problem.value(problem.read(best))
    assert least < 0.9 * own
    assert _certificate._checked(problem, duel).decrement * own >= own - least


@pytest.mark.parametrize(("weight", "checked"), [(1.0, False), (1e12, True)])
def test_anchored_duels_of_very_heavy_rows_are_checked(
    weight: float, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, codes = two_labels()
    calls = []

    def certified(*args: Any) -> Any:
        calls.append(args)
        return anchored_certificate(*args)

    anchored_certificate = anchored_engine.certify
    monkeypatch.setattr(anchored_engine, "certify", certified)
    AnchoredDuels(tol=1e-6).fit(X, codes, 2, sample_weight=np.full(len(X), weight))
    assert bool(calls) == checked


@pytest.mark.parametrize("ratio", [1e-6, 2e-6])
@pytest.mark.parametrize("seed", [11, 35, 74])
def test_corrections_next_to_a_small_copy_of_a_column_are_at_their_minimum(
    seed: int, ratio: float
) -> None:
    rng = np.random.default_rng(seed)
    n_rows = int(rng.choice([4, 5, 8, 12, 100, 300]))
    x = rng.standard_normal(n_rows)
    X, codes = np.column_stack([x, ratio * x]), rng.integers(0, 3, n_rows)
    engine = AnchoredDuels(3e5, rivals=1, tol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        engine.fit(X, codes, 3)
    coef, intercept, C = engine.score_coef_, engine.score_intercept_, engine.C_own_
    own_coef = np.asarray(engine.own_coef_)
    of_centre, centre = 1 / (100 * X.var(axis=0).sum()), X.mean(axis=0)
    first, second = pairs(3)
    for number, duel in enumerate(engine.corrected_duels_):
        a, b = first[duel], second[duel]
        mine = (codes == a) | (codes == b)
        sides = np.where(codes[mine] == b, 1.0, -1.0)
        anchor = X[mine] @ (coef[b] - coef[a]) + intercept[b] - intercept[a]
        rows = np.column_stack([X[mine], np.ones(len(sides))])
        penalty = np.diag([1.0, 1.0, 0.0])
        penalty += of_centre * np.outer(np.append(centre, 1), np.append(centre, 1))

        def losses(u: Any, sides: Any = sides, anchor: Any = anchor, rows: Any = rows) -> Any:
            return np.logaddexp(0, -sides * (anchor + rows @ u))

        own = np.append(own_coef[number], engine.own_intercept_[number])
        u = own
        for _ in range(50):  # Newton's method
            wrong = -np.expm1(-losses(u))
            gradient = penalty @ u - C * rows.T @ (sides * wrong)
            hessian = penalty + C * (rows.T * (wrong * (1 - wrong))) @ rows
            step, size = np.linalg.solve(hessian, -gradient), 1.0
            while (
                size > 1e-6
                and C * losses(u + size * step).sum()
                + 0.5 * (u + size * step) @ penalty @ (u + size * step)
                >= C * losses(u).sum() + 0.5 * u @ penalty @ u
            ):
                size /= 2
            u = u + (size if size > 1e-6 else 0) * step
        value, least = (C * losses(v).sum() + 0.5 * v @ penalty @ v for v in (own, u))
        assert not engine.converged_[number] or value <= least * (1 + 1e-6)


def test_a_column_without_curvature_in_single_precision_ends() -> None:
    """Next to an outlier all squares vanish, and so do the penalties."""
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((60, 1)), np.arange(60) % 3
    X[12] = 1e100
    fitted_quietly(LogisticDuels(C=1e-3, fit_intercept=False), X, codes, 3)


def test_rows_that_do_not_differ_inside_labels_get_no_basis_of_rounding() -> None:
    """One row of every label, and so no covariance that could tell which directions matter."""
    X = np.array([[3.3, 1e6], [35.9, -10.5], [-13.9, 20.5], [16.3, -41.7]])
    codes, weights = np.array([1, 3, 0, 2]), np.array([0.0075606, 0.022456, 1164.4, 0.92118])
    engine = LogisticDuels(C=1e-3, fit_intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        engine.fit(X, codes, 4, sample_weight=weights)
    mine = codes < 2
    # One coefficient of the outlier's column is far below the other: units in which both are one.
    unit = np.array([1.0, 1e-6])
    peer = LogisticRegression(C=1e-3, fit_intercept=False, solver="newton-cholesky", tol=1e-12)

    def value(coef: Any) -> float:
        margins = np.where(codes[mine] == 1, 1, -1) * (X[mine] @ coef)
        losses = weights[mine] @ np.logaddexp(0, -margins)
        return float(0.5 * coef @ coef + 1e-3 * losses)

    found = minimize(lambda u: value(u * unit), engine.coef_[0] / unit, method="Nelder-Mead")
    peer.fit(X[mine], codes[mine], sample_weight=weights[mine])
    least = min(found.fun, value(peer.coef_[0]))
    assert not engine.converged_[0] or value(engine.coef_[0]) <= least * (1 + 1e-6)
