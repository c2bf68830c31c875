"""Duels with more features than rows: solved in the space of their rows."""

import csv
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from duelrank import DuelRanker, LogisticDuels, LogisticDuelsCV, pairs
from duelrank._threads import Threads
from duelrank.duels._sides import count_sides
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._checkpoint import Checkpoint
from duelrank.duels.logistic._fit import fit_in_memory
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings, TrainingRows, no_progress
from duelrank.duels.logistic._table import Scaling
from duelrank.duels.logistic.row_space import _duels as row_duels
from duelrank.duels.logistic.row_space import _products as row_products
from duelrank.duels.logistic.row_space import plan_by_rows, solve_by_rows
from duelrank.duels.logistic.row_space._gram import DuelGrams, GridGrams
from duelrank.duels.logistic.row_space._products import RowProducts
from duelrank.feedback import outcomes
from duelrank.rankings import ranks_from_lists

needs_data = pytest.mark.skipif(
    "DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder"
)


def words(rng, n_labels=5, rows=12, n_columns=300, per_row=20):
    """Sparse counts, scaled to length 1: labels have words of their own and share others."""
    y = np.repeat(np.arange(n_labels), rows)
    own = rng.integers(0, 15, size=(len(y), per_row // 3)) + 15 * y[:, np.newaxis]
    shared = (n_columns * rng.random((len(y), per_row - per_row // 3)) ** 3).astype(int)
    columns = np.hstack([own, shared])
    counts = np.zeros((len(y), n_columns))
    np.add.at(counts, (np.arange(len(y))[:, np.newaxis], columns), 1)
    return sparse.csr_array(counts / np.linalg.norm(counts, axis=1, keepdims=True)), y


def in_features(monkeypatch):
    """Let all duels be solved in the space of the features."""
    monkeypatch.setattr(
        "duelrank.duels.logistic.row_space._fit.goes_by_rows",
        lambda n_rows, *others: np.zeros(len(n_rows), dtype=bool),
    )


def is_by_rows(duels):
    """Tell whether the duels are kept as coefficients of rows."""
    return "kept_" in vars(duels) and len(duels.kept_["row_numbers"]) > 0


def gaps(duels, X, feedback, C, solver="newton-cg", weights=None, class_weight=None, others=()):
    """Relative excess of our objectives over scikit-learn's, for all duels with rows of both.

    With other fits to the same rows, that of the worst of them.
    """
    n_classes = duels.n_classes_
    if np.ndim(feedback) == 1:
        sides = np.zeros((len(feedback), n_classes * (n_classes - 1) // 2))
        for d, (a, b) in enumerate(zip(*pairs(n_classes), strict=True)):
            sides[:, d] = (feedback == b).astype(int) - (feedback == a)
    else:
        sides = outcomes(feedback)
    X = X if sparse.issparse(X) else sparse.csr_array(X)
    weights = np.ones(len(sides)) if weights is None else weights
    found = []
    for d, (a, b) in enumerate(zip(*pairs(n_classes), strict=True)):
        rows = np.flatnonzero((sides[:, d] != 0) & (weights > 0))
        side = sides[rows, d]
        if len(np.unique(side)) < 2:
            continue
        w = weights[rows].copy()
        if class_weight == "balanced":
            totals = {s: w[side == s].sum() for s in (-1, 1)}
            w *= np.array([w.sum() / (2 * totals[s]) for s in side])
        elif class_weight is not None:
            w *= np.array([class_weight.get(b if s > 0 else a, 1.0) for s in side])
        options = {"intercept_scaling": 1000.0} if solver == "liblinear" else {}
        peer = LogisticRegression(
            C=C,
            solver=solver,
            tol=1e-12,
            max_iter=5000,
            fit_intercept=bool(duels.fit_intercept),
            **options,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(X[rows], side > 0, sample_weight=w)

        def value(coef, intercept, rows=rows, side=side, w=w):
            margins = side * (X[rows] @ coef + intercept)
            return 0.5 * coef @ coef + C * (w * np.logaddexp(0, -margins)).sum()

        theirs = value(peer.coef_[0], peer.intercept_[0] if duels.fit_intercept else 0.0)
        ours = max(
            value(fit.coef_[d].astype(float), float(fit.intercept_[d])) for fit in (duels, *others)
        )
        found.append((ours - theirs) / theirs)
    return np.array(found)


CASES = {
    "text": lambda rng: words(rng),
    "dense": lambda rng: (rng.normal(size=(40, 200)), np.arange(40) % 4),
    "dense, far from the origin": lambda rng: (
        50 + rng.normal(size=(40, 200)),
        np.arange(40) % 4,
    ),
    "duplicated rows": lambda rng: _duplicated(*words(rng)),
    "rows of zeros": lambda rng: _with_zeros(*words(rng)),
    "one row a label": lambda rng: (rng.normal(size=(6, 30)), np.arange(6)),
    "one column differs": lambda rng: (
        np.outer(np.arange(12) % 2, np.eye(50)[3]),
        np.arange(12) % 3,
    ),
}


def _duplicated(X, y):
    numbers = np.repeat(np.arange(len(y)), 1 + np.arange(len(y)) % 3)
    return sparse.csr_array(X[numbers]), y[numbers]


def _with_zeros(X, y):
    keep = sparse.diags_array((np.arange(len(y)) % 4 > 0).astype(float))
    return sparse.csr_array(keep @ X), y


@pytest.mark.parametrize("solver", ["newton-cg", "liblinear"])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("name", CASES)
def test_the_minimum_is_that_of_scikit_learn(name, C, solver, rng):
    X, y = CASES[name](rng)
    # liblinear penalises its intercept, so it is compared without one.
    duels = LogisticDuels(C, fit_intercept=solver == "newton-cg")
    duels.fit(X, y, int(y.max()) + 1)
    n_rows = count_sides(y, int(y.max()) + 1).sum(axis=0)
    scaling = Scaling.from_rows(X, None, fit_intercept=True)
    assert row_duels.goes_by_rows(n_rows, X, scaling, 512).all()
    assert duels.converged_.all()
    assert gaps(duels, X, y, C, solver).max() < 1e-6


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.2}])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_rows_and_labels(weighted, class_weight, rng):
    X, y = words(rng)
    weights = np.where(np.arange(len(y)) % 5 == 0, 0, rng.random(len(y)) + 0.1)
    weights = weights if weighted else None
    duels = LogisticDuels(5.0, class_weight=class_weight)
    duels.fit(X, y, 5, sample_weight=weights)
    assert is_by_rows(duels)
    assert gaps(duels, X, y, 5.0, weights=weights, class_weight=class_weight).max() < 1e-6


def feedback_of_kind(kind, y, rng):
    noise = rng.random((len(y), 5))
    noise[np.arange(len(y)), y] -= 1
    ranks = 1.0 + np.argsort(np.argsort(noise, axis=1), axis=1)
    if kind == "lists":
        order = np.argsort(ranks, axis=1)
        ranks = ranks_from_lists([row[:2] for row in order], np.arange(5))
        return np.where(np.isnan(ranks), 5.0, ranks)
    if kind == "ties and gaps":
        ranks[rng.random(ranks.shape) < 0.3] = np.nan
        ranks = np.ceil(ranks / 2)
    return ranks


@pytest.mark.parametrize("convert", [sparse.csr_array, lambda X: X.toarray()])
@pytest.mark.parametrize("kind", ["rankings", "lists", "ties and gaps"])
def test_rankings_as_feedback(kind, convert, rng):
    X, y = words(rng)
    X = convert(X)
    ranks = feedback_of_kind(kind, y, rng)
    duels = LogisticDuels(5.0).fit(X, ranks, 5)
    assert duels.converged_.all()
    assert gaps(duels, X, ranks, 5.0).max() < 1e-6


def test_the_certificate_is_that_of_the_features(rng):
    """One Newton step of the raw problem, in double precision, gains no more than promised."""
    X, y = words(rng)
    duels = LogisticDuels(10.0, tol=1e-6).fit(X, y, 5)
    assert is_by_rows(duels)
    dense = np.hstack([X.toarray(), np.ones((len(y), 1))])
    penalty = np.ones(dense.shape[1])
    penalty[-1] = 0
    for d, (a, b) in enumerate(zip(*pairs(5), strict=True)):
        rows = np.flatnonzero((y == a) | (y == b))
        side = np.where(y[rows] == b, 1, -1)
        coef = np.append(duels.coef_[d], duels.intercept_[d])
        margins = side * (dense[rows] @ coef)
        wrong = 1 / (1 + np.exp(margins))
        gradient = penalty * coef - 10 * dense[rows].T @ (side * wrong)
        curvature = 10 * wrong * (1 - wrong)
        hessian = dense[rows].T @ (curvature[:, np.newaxis] * dense[rows]) + np.diag(penalty)
        value = 0.5 * coef[:-1] @ coef[:-1] + 10 * np.logaddexp(0, -margins).sum()
        decrement = 0.5 * gradient @ np.linalg.solve(hessian, gradient) / value
        assert decrement <= duels.decrement_[d] <= 1e-6


def test_features_that_differ_by_orders_of_magnitude(rng):
    X = rng.normal(size=(30, 60)) * np.logspace(-3, 3, 60)
    y = np.arange(30) % 3
    duels = LogisticDuels(1.0).fit(X, y, 3)
    assert duels.converged_.all()
    assert gaps(duels, X, y, 1.0, "newton-cholesky").max() < 1e-6


def test_few_iterations_are_reported(rng):
    X, y = words(rng)
    with pytest.warns(UserWarning, match="did not converge within max_iter=1"):
        duels = LogisticDuels(100.0, max_iter=1).fit(X, y, 5)
    assert is_by_rows(duels)
    assert not duels.converged_.any()
    assert (duels.n_iter_ == 1).all()


@pytest.mark.parametrize("convert", [sparse.csr_array, lambda X: X.toarray()])
def test_both_spaces_agree(convert, monkeypatch, rng):
    X, y = words(rng)
    X = convert(X)
    by_rows = LogisticDuels(10.0, tol=1e-12).fit(X, y, 5)
    in_features(monkeypatch)
    by_features = LogisticDuels(10.0, tol=1e-12).fit(X, y, 5)
    assert not is_by_rows(by_features)
    np.testing.assert_allclose(by_rows.coef_, by_features.coef_, atol=1e-5)
    np.testing.assert_allclose(by_rows.intercept_, by_features.intercept_, atol=1e-5)
    np.testing.assert_allclose(by_rows.margins(X), by_features.margins(X), atol=1e-5)


@pytest.mark.parametrize("kind", ["labels", "rankings"])
def test_little_memory_changes_nothing(kind, monkeypatch, rng):
    X, y = words(rng, n_labels=8, rows=30, n_columns=2000)
    feedback = y if kind == "labels" else np.argsort(np.argsort(rng.random((len(y), 8)))) + 1.0
    all_at_once = LogisticDuels(10.0).fit(X, feedback, 8)
    n_tiles = []
    cut = row_duels.DuelsInRows.tiles

    def counted(self, wanted):
        tiles = cut(self, wanted)
        n_tiles.append(len(tiles))
        return tiles

    monkeypatch.setattr(row_duels.DuelsInRows, "tiles", counted)
    monkeypatch.setattr(row_duels, "TILE_SHARE", 0.02)
    monkeypatch.setattr(row_duels, "OWN_SHARE", 0.001)
    in_tiles = LogisticDuels(10.0, working_memory=12).fit(X, feedback, 8)
    assert n_tiles[0] > 2
    assert is_by_rows(all_at_once)
    assert is_by_rows(in_tiles)
    np.testing.assert_allclose(in_tiles.coef_, all_at_once.coef_, atol=1e-6)


def test_duels_with_many_rows_stay_in_the_space_of_features(rng):
    """Label 0 has more rows than features, the others have fewer."""
    n = 60
    X = rng.normal(size=(n + 3 * 10, 40))
    y = np.repeat([0, 1, 2, 3], [n, 10, 10, 10])
    X[np.arange(len(y)), y] += 2
    duels = LogisticDuels(1.0).fit(X, y, 4)
    assert gaps(duels, X, y, 1.0).max() < 1e-6
    wide, y = words(rng, n_labels=8, rows=60, n_columns=5000, per_row=40)
    some = (y == 0) | (np.arange(len(y)) % 60 < 8)
    wide, y = wide[some], y[some]
    few = LogisticDuels(1.0, working_memory=0.5).fit(wide, y, 8)
    assert is_by_rows(few)
    assert len(few.kept_["coef_duels"]) == 7, "those of label 0 are too large for so little memory"
    assert gaps(few, wide, y, 1.0).max() < 1e-6
    expected = wide @ few.coef_.T + few.intercept_
    np.testing.assert_allclose(few.margins(wide), expected, atol=1e-9)
    np.testing.assert_allclose(few.margins(wide.toarray()), expected, atol=1e-9)


def test_the_number_of_threads_changes_no_bit(rng):
    X, y = words(rng, n_labels=9, rows=40, n_columns=3000)
    found = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            ranker = DuelRanker(LogisticDuels(10.0), random_state=0).fit(X, y)
            found.append((ranker.duels_.margins(X), ranker.decision_function(X)))
    for margins, scores in found[1:]:
        np.testing.assert_array_equal(margins, found[0][0])
        np.testing.assert_array_equal(scores, found[0][1])


def test_margins_are_those_of_the_coefficients(rng, monkeypatch):
    X, y = words(rng)
    for direct in (0.0, 1.0, 1e9):  # no columns, some, and all have coefficients of all duels
        monkeypatch.setattr("duelrank.duels.logistic._margins.DIRECT", direct)
        duels = LogisticDuels(10.0).fit(X, y, 5)
        expected = X @ duels.coef_.T + duels.intercept_
        np.testing.assert_allclose(duels.margins(X), expected, atol=1e-9)
        np.testing.assert_allclose(duels.margins(X.toarray()), expected, atol=1e-9)
        np.testing.assert_allclose(duels.margins(X[:1]), expected[:1], atol=1e-9)


def test_a_model_keeps_rows_only_where_that_is_smaller(rng):
    X, y = words(rng, n_labels=12, rows=10, n_columns=5000)
    text = LogisticDuels().fit(X, y, 12)
    assert is_by_rows(text)
    dense = LogisticDuels().fit(rng.normal(size=(120, 100)), y, 12)
    assert not is_by_rows(dense)
    assert dense.coef_ is dense.coef_
    size = len(pickle.dumps(text))
    assert size < 0.5 * 8 * 66 * 5000


def test_columns_without_an_entry_cost_nothing(rng):
    X, y = words(rng)
    wide = sparse.csr_array((X.data, 7 * X.indices + 3, X.indptr), shape=(len(y), 2**20))
    duels, narrow = LogisticDuels(10.0).fit(wide, y, 5), LogisticDuels(10.0).fit(X, y, 5)
    assert len(pickle.dumps(duels)) < 3 * len(pickle.dumps(narrow))
    np.testing.assert_allclose(duels.margins(wide), narrow.margins(X), atol=1e-12)
    assert duels.coef_.shape == (10, 2**20)
    unknown = sparse.csr_array(([5.0], [4], [0, 1]), shape=(1, 2**20))
    np.testing.assert_array_equal(duels.margins(unknown)[0], duels.intercept_)


def test_columns_without_an_entry_in_tall_data(rng):
    X = sparse.csr_array(rng.poisson(0.5, size=(300, 6)).astype(float))
    y = np.arange(300) % 3
    wide = sparse.csr_array((X.data, 100 * X.indices, X.indptr), shape=(300, 10_000))
    duels, narrow = LogisticDuels().fit(wide, y, 3), LogisticDuels().fit(X, y, 3)
    assert not is_by_rows(duels)
    np.testing.assert_allclose(duels.margins(wide), narrow.margins(X), atol=1e-8)
    np.testing.assert_allclose(duels.margins(wide.toarray()), narrow.margins(X), atol=1e-8)
    np.testing.assert_allclose(duels.coef_[:, ::100][:, :6], narrow.coef_, atol=1e-8)


def test_coefficients_that_do_not_fit_in_memory_are_refused(rng):
    X, y = words(rng)
    wide = sparse.csr_array((X.data, X.indices, X.indptr), shape=(len(y), 2**31 - 1))
    duels = LogisticDuels().fit(sparse.csr_array(wide), y, 5)
    with pytest.raises(MemoryError, match=r"coef_ would be 10 x 2147483647 numbers, 172 GB"):
        _ = duels.coef_
    assert duels.margins(X=wide).shape == (len(y), 10)


@pytest.mark.parametrize("convert", [sparse.csr_array, lambda X: X.toarray()])
def test_a_model_does_not_change_with_the_rows_it_was_given(convert, rng):
    X, y = words(rng, n_labels=12, rows=3, n_columns=200)
    X = convert(X[:, X.sum(axis=0) > 0])  # no column is left out
    duels = LogisticDuels().fit(X, y, 12)
    assert is_by_rows(duels)
    points = X.copy()
    before = duels.margins(points)
    X *= 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(duels)).margins(points), before)


def test_coefficients_before_a_fit():
    assert not hasattr(LogisticDuels(), "coef_")


def test_a_second_fit_forgets_the_first(rng):
    X, y = words(rng)
    duels = LogisticDuels().fit(X, y, 5)
    duels.margins(X)
    dense = rng.normal(size=(50, 3))
    duels.fit(dense, np.arange(50) % 2, 2)
    assert duels.margins(dense).shape == (50, 1)
    duels.fit(X[:, ::-1], y, 5)
    np.testing.assert_allclose(
        duels.margins(X[:, ::-1]), X[:, ::-1] @ duels.coef_.T + duels.intercept_, atol=1e-9
    )


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize("shared_C", [False, True])
def test_cross_validation_agrees_with_that_of_the_features(scoring, shared_C, monkeypatch, rng):
    X, y = words(rng, n_labels=5, rows=15, n_columns=1000)
    weights = rng.random(len(y)) + 0.5
    engine = LogisticDuelsCV([0.01, 1, 100], cv=3, scoring=scoring, shared_C=shared_C)
    by_rows = pickle.loads(pickle.dumps(engine)).fit(X, y, 5, sample_weight=weights)
    assert is_by_rows(by_rows)
    in_features(monkeypatch)
    by_features = engine.fit(X, y, 5, sample_weight=weights)
    np.testing.assert_allclose(by_rows.scores_, by_features.scores_, atol=2e-3)
    np.testing.assert_array_equal(by_rows.C_, by_features.C_)
    np.testing.assert_allclose(by_rows.coef_, by_features.coef_, atol=1e-3)
    assert by_rows.fold_converged_.all()


def test_cross_validation_of_rankings(monkeypatch, rng):
    X, y = words(rng)
    ranks = feedback_of_kind("lists", y, rng)
    engine = LogisticDuelsCV([0.1, 10], cv=3, scoring="neg_log_loss")
    by_rows = pickle.loads(pickle.dumps(engine)).fit(X, ranks, 5)
    in_features(monkeypatch)
    np.testing.assert_allclose(by_rows.scores_, engine.fit(X, ranks, 5).scores_, rtol=1e-2)


def test_a_fold_may_miss_a_label(rng):
    X, y = words(rng, n_labels=3, rows=6)
    folds = [(np.flatnonzero(y != 0), np.flatnonzero(y == 0)), (np.arange(18), np.arange(18))]
    duels = LogisticDuelsCV([1.0, 10.0], cv=folds).fit(X, y, 3)
    assert np.isnan(duels.scores_[:2, 0]).all()
    assert np.isfinite(duels.scores_[:, 1]).all()


def test_a_stopped_fit_goes_on(tmp_path, monkeypatch, rng):
    X, y = words(rng, n_labels=12, rows=20, n_columns=2000)
    file = tmp_path / "fit.npz"
    expected = LogisticDuels(10.0).fit(X, y, 12)
    monkeypatch.setattr(row_duels, "BATCH_NUMBERS", 40**2)
    monkeypatch.setattr("duelrank.duels.logistic.row_space._fit.BATCHES_AT_ONCE", 4)
    writes = row_duels.DuelsInRows.write
    calls = []

    def stop_after_twenty(*arguments):
        if len(calls) == 20:
            raise KeyboardInterrupt
        calls.append(0)
        return writes(*arguments)

    monkeypatch.setattr(row_duels.DuelsInRows, "write", stop_after_twenty)
    engine = LogisticDuels(10.0, checkpoint=file, checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        engine.fit(X, y, 12)
    assert file.exists()
    calls.clear()
    calls.extend([1] * 100)  # counts on, and never reaches twenty again
    engine.fit(X, y, 12)
    assert len(calls) - 100 < 66 - 12
    assert not file.exists()
    np.testing.assert_allclose(engine.margins(X), expected.margins(X), atol=1e-6)


def test_a_checkpoint_of_rows_in_another_order_is_refused(tmp_path, rng):
    X, y = words(rng)
    file = tmp_path / "fit.npz"
    with pytest.warns(UserWarning, match="did not converge"):
        LogisticDuels(10.0, checkpoint=file, max_iter=1).fit(X, y, 5)
    backwards = np.arange(len(y))[::-1]
    with pytest.raises(ValueError, match="rows in another order"):
        LogisticDuels(10.0, checkpoint=file).fit(X[backwards], y[backwards], 5)
    LogisticDuels(10.0, checkpoint=file).fit(X, y, 5)
    assert not file.exists()


def banking(n_labels=None):
    folder = Path(os.environ["DUELRANK_DATA"]) / "text"
    parts = []
    for name in ("banking77_train.csv", "banking77_test.csv"):
        with (folder / name).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        parts.append(([row["text"] for row in rows], np.array([row["category"] for row in rows])))
    (texts, y), (test_texts, y_test) = parts
    if n_labels is not None:
        known = np.unique(y)[:n_labels]
        texts = [text for text, label in zip(texts, y, strict=True) if label in known]
        test_texts = [
            text for text, label in zip(test_texts, y_test, strict=True) if label in known
        ]
        y, y_test = y[np.isin(y, known)], y_test[np.isin(y_test, known)]
    return texts, y, test_texts, y_test


@needs_data
@pytest.mark.parametrize(
    "n_labels", [12, pytest.param(None, marks=pytest.mark.slow)], ids=["12 labels", "77 labels"]
)
def test_both_spaces_rank_real_text_alike(n_labels, monkeypatch):
    texts, y, test_texts, y_test = banking(n_labels)
    vectorizer = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 4))
    X, X_test = vectorizer.fit_transform(texts), vectorizer.transform(test_texts)
    by_rows = DuelRanker(LogisticDuels(10), random_state=0).fit(X, y)
    assert is_by_rows(by_rows.duels_)
    in_features(monkeypatch)
    by_features = DuelRanker(LogisticDuels(10), random_state=0).fit(X, y)
    same = by_rows.predict_order(X_test) == by_features.predict_order(X_test)
    assert same.mean() > 0.9999
    assert by_rows.score(X_test, y_test) > 0.85


@needs_data
def test_hashed_text():
    texts, y, test_texts, y_test = banking(6)
    hashing = HashingVectorizer(n_features=2**18)
    ranker = DuelRanker(LogisticDuels(10), random_state=0).fit(hashing.transform(texts), y)
    assert ranker.score(hashing.transform(test_texts), y_test) > 0.9
    assert len(pickle.dumps(ranker)) < 5e6


def test_grids_multiply_like_single_duels(rng):
    rows = {"left": rng.normal(size=(3, 4, 9)), "right": rng.normal(size=(2, 5, 9))}
    left, right = (side @ side.transpose(0, 2, 1) for side in rows.values())
    cross = np.einsum("amd,bnd->abmn", *rows.values())
    grid = GridGrams(left, right, cross)
    single = DuelGrams(np.stack([grid.of_duel(duel) for duel in range(6)]))
    for a, b in np.ndindex(3, 2):
        together = np.vstack([rows["left"][a], rows["right"][b]])
        np.testing.assert_allclose(single.of_duel(2 * a + b), together @ together.T)
    for n_models in (1, 4):
        vectors = rng.normal(size=(6, n_models, 9))
        np.testing.assert_allclose(grid.times(vectors), single.times(vectors))
    some = np.array([True, False, True, False, False, True])
    np.testing.assert_allclose(grid.only(some).matrices, single.only(some).matrices)
    assert grid.astype(np.float32).times(vectors.astype(np.float32)).dtype == np.float32


def test_every_duel_is_in_one_batch(rng, monkeypatch):
    X, y = words(rng, n_labels=13, rows=20, n_columns=1000)
    some = np.arange(len(y)) % 20 < 3 + y  # labels of different sizes
    X, y = X[some], y[some]
    rows = TrainingRows(X, y, None, 13)
    objective = Objective.from_rows(rows, Settings(1.0, True, None, 1e-8, 100, 512))
    monkeypatch.setattr(row_duels, "BATCH_NUMBERS", 40**2)
    duels = row_duels.DuelsInRows(rows, objective, 512, Threads(None, 1))
    wanted = np.ones(78, dtype=bool)
    wanted[[5, 40]] = False  # grids with one of these are no grids
    (tile,) = duels.tiles(wanted)
    parts = duels.cut(tile)
    assert sum(part.grid is not None for part in parts) > 3
    np.testing.assert_array_equal(
        np.sort(np.concatenate([part.duels for part in parts])), np.flatnonzero(wanted)
    )


@pytest.mark.parametrize("missing", [[1, 2, 3, 4], [0, 5], [2, 3], [0, 1, 2]])
def test_some_duels_are_solved_already(missing, tmp_path, rng, monkeypatch):
    """A fit may go on with any set of duels: pairs like (0, 1) and (2, 3) are no two ranges."""
    X, y = words(rng, n_labels=4, rows=8)
    some = np.arange(len(y)) % 8 < 8 - 2 * (3 - y)  # the last label is the largest
    rows = TrainingRows(X[some], y[some], None, 4)
    settings = Settings(10.0, True, None, 1e-8, 100, 512)
    objective = Objective.from_rows(rows, settings)
    monkeypatch.setattr(row_duels, "BATCH_NUMBERS", 1)
    by_rows = plan_by_rows(rows, objective, settings)
    fitted = FittedDuels.unsolved(objective.sides, X.shape[1], X.dtype, by_rows)
    fitted.solved[missing] = True
    checkpoint = Checkpoint(fitted, settings)
    solve_by_rows(rows, objective, settings, Threads(None, 1), checkpoint, no_progress)
    everything = fit_in_memory(rows, settings, Threads(None, 1))
    asked = np.setdiff1d(np.arange(6), missing)
    np.testing.assert_allclose(fitted.intercept[asked], everything.intercept[asked], atol=1e-6)
    assert fitted.solved.all()


@pytest.mark.parametrize("factor", [1e2, 1e4, 1e5, 1e7, 1e9])
def test_a_column_in_other_units(factor, rng):
    X = rng.normal(size=(90, 60))
    y = np.arange(90) % 4
    X[np.arange(90), y] += 1
    X[:, 10] *= factor
    fits = []
    for points in (X, sparse.csr_array(X)):
        fits.append(LogisticDuels(1.0).fit(points, y, 4))
        assert fits[-1].converged_.all()
        assert DuelRanker(random_state=0).fit(points, y).score(points, y) == 1
    assert gaps(fits[0], X, y, 1.0, "newton-cholesky", others=fits[1:]).max() < 1e-6


def test_factorised_systems_begin_again(rng, monkeypatch):
    """Where conjugate gradients lead astray, factorisations find the minimum all the same."""
    X = rng.normal(size=(60, 100)) * np.append(np.full(99, 1.0), 1e4)
    y = np.arange(60) % 3
    monkeypatch.setattr(row_duels, "LARGEST_RATIO", np.inf)
    duels = LogisticDuels(1.0, tol=1e-6).fit(X, y, 3)
    assert duels.converged_.all()
    assert gaps(duels, X, y, 1.0, "newton-cholesky").max() < 1e-5


@pytest.mark.parametrize(("dtype", "n_labels"), [(np.float64, 260), (np.float32, 30)])
def test_dense_rows_far_from_the_origin(dtype, n_labels, rng):
    X = (50 + rng.normal(size=(2 * n_labels, 300))).astype(dtype)
    y = np.arange(len(X)) % n_labels
    duels = LogisticDuels().fit(X, y, n_labels)
    assert is_by_rows(duels)
    points = X[::10]
    margins = duels.margins(points)
    assert margins.dtype == dtype
    kept = duels.kept_
    rows = kept["rows"].astype(np.float64)[kept["row_numbers"]]
    products = points.astype(np.float64) @ rows.T
    sums = products[:, :, np.newaxis] * kept["row_coef"].astype(np.float64)
    sums = np.add.reduceat(sums, kept["row_ends"][:-1], axis=1)
    first, second = pairs(n_labels)
    expected = sums[:, second, first] - sums[:, first, second] + duels.intercept_
    np.testing.assert_allclose(margins, expected, atol=1e-5)
    wins, _ = duels.wins(points, np.arange(n_labels))
    won = np.zeros_like(wins)
    for d, (a, b) in enumerate(zip(first, second, strict=True)):
        won[:, b] += expected[:, d] > 0
        won[:, a] += expected[:, d] <= 0
    assert np.mean(wins == won) > 0.999


def test_what_is_set_by_hand_counts(rng):
    X, y = words(rng)
    duels = LogisticDuels(10.0).fit(X, y, 5)
    before, intercept = duels.margins(X), duels.intercept_.copy()
    duels.intercept_ += 5
    np.testing.assert_allclose(duels.margins(X), before + 5)
    duels.coef_ = 2 * duels.coef_
    np.testing.assert_allclose(duels.margins(X), 2 * (before - intercept) + intercept + 5)


@pytest.mark.parametrize("convert", [sparse.csr_array, lambda X: X.toarray() + 3])
def test_a_fit_goes_on_for_more_iterations(convert, tmp_path, rng):
    X, y = words(rng)
    X = convert(X)
    file = tmp_path / "fit.npz"
    engine = LogisticDuels(100.0, max_iter=2, checkpoint=file)
    n_fits = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while n_fits < 8 and (n_fits == 0 or file.exists()):
            engine.fit(X, y, 5)
            n_fits += 1
    assert engine.converged_.all()
    assert 1 < n_fits < 8
    assert engine.n_iter_.max() > 2
    assert gaps(engine, X, y, 100.0).max() < 1e-6


@pytest.mark.parametrize("n_labels", [5, 20, 50])
def test_no_point_depends_on_others(n_labels, rng):
    X, y = words(rng, n_labels=n_labels, rows=6, n_columns=2000)
    ranker = DuelRanker(LogisticDuels(10.0), random_state=0).fit(X, y)
    assert is_by_rows(ranker.duels_)
    together = ranker.decision_function(X)
    for i in range(0, len(y), 11):
        np.testing.assert_array_equal(ranker.decision_function(X[[i]])[0], together[i])


def test_entries_may_come_twice(rng):
    X, y = words(rng)
    halves = sparse.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    once, twice = (LogisticDuels("scale").fit(rows, y, 5) for rows in (X, halves))
    assert pytest.approx(once.C_) == twice.C_
    np.testing.assert_allclose(twice.margins(X), once.margins(X), atol=1e-6)
    assert halves.nnz == 2 * X.nnz, "the given matrix stays as it is"


@pytest.mark.parametrize("convert", [sparse.csr_array, lambda X: X.toarray()])
def test_rows_of_rankings_are_held_once(convert, rng):
    X, y = words(rng, n_labels=30, rows=3, n_columns=3000)
    X = convert(X)
    ranks = 1.0 + np.argsort(np.argsort(rng.random((len(y), 30)), axis=1), axis=1)
    duels = LogisticDuels().fit(X, ranks, 30)
    assert is_by_rows(duels)
    source = duels._margins_in(np.dtype(np.float64))
    held = source.rows.size if isinstance(X, np.ndarray) else source.other_rows.nnz
    assert held <= X.size
    expected = X @ duels.coef_.T + duels.intercept_
    np.testing.assert_allclose(duels.margins(X), expected, atol=1e-8)


def test_many_small_labels_are_cut_into_batches(rng):
    X, y = words(rng, n_labels=600, rows=1, n_columns=12_000)
    rows = TrainingRows(X, y, None, 600)
    objective = Objective.from_rows(rows, Settings(1.0, True, None, 1e-8, 100, 512))
    duels = row_duels.DuelsInRows(rows, objective, 512, Threads(None, 1))
    parts = [part for tile in duels.tiles(np.ones(179_700, bool)) for part in duels.cut(tile)]
    assert sum(len(part.duels) for part in parts) == 179_700
    assert max(len(part.duels) for part in parts) <= row_duels.BATCH_ROWS


def test_rows_can_be_left_out_of_a_model(rng):
    X, y = words(rng)
    ranker = DuelRanker(LogisticDuels(10.0), random_state=0).fit(X, y)
    order = ranker.predict_order(X)
    ranker.duels_.coef_ = ranker.duels_.coef_
    assert not is_by_rows(ranker.duels_)
    np.testing.assert_array_equal(ranker.predict_order(X), order)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_products_of_many_small_parts_are_those_of_each(rng, monkeypatch, is_sparse):
    X = rng.normal(size=(30, 40)) * (rng.random((30, 40)) < 0.3)
    X[:, :3] += 1  # columns with entries in most rows are multiplied as dense ones
    centre = None if is_sparse else X.mean(axis=0)
    threads = Threads(None, 1)
    products = RowProducts(sparse.csr_array(X) if is_sparse else X, centre, 2.0, threads)
    parts = [np.array([3, 1, 4]), np.arange(0), np.arange(10, 30), np.array([7])]
    for at_once in (2**22, 1):
        monkeypatch.setattr(row_products, "NUMBERS_AT_ONCE", at_once)
        for gram, rows in zip(products.within_each(parts), parts, strict=True):
            np.testing.assert_allclose(gram, products.within(rows), atol=1e-13)
            assert np.array_equal(gram, gram.T)
