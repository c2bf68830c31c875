"""Duels learned from full, partial and tied rankings: the same as peers find, and closer to σ*."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from duelrank import (
    AnchoredDuels,
    DuelRanker,
    EstimatorDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StumpDuels,
    pairs,
)
from duelrank.datasets import make_label_ranking
from duelrank.feedback import check_feedback, outcomes
from duelrank.losses import kendall_distance
from duelrank.posteriors import complete_ranking, optimal_ranks, sample_plackett_luce
from duelrank.rankings import ranks_from_lists

N, D, K = 240, 4, 5
FORMS = ["full", "missing", "top 2", "mixed", "tied"]
ENGINES = [
    LogisticDuels(),
    LogisticDuelsCV(Cs=[0.1, 1], cv=3),
    AnchoredDuels(),
    EstimatorDuels(GaussianNB()),
    StumpDuels(),
]
by_type = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)


@cache
def data():
    """Points, weights of which some are zero, and canonical rankings in every form."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * [1, 3, 0.2, 1] + 2
    weights = rng.random(N) * (rng.random(N) > 0.1)
    ranks = sample_plackett_luce(np.exp(X @ rng.normal(size=(D, K)) / 2), random_state=0) + 0.0
    lengths = rng.integers(0, K, size=(N, 1))  # 0 tells nothing
    forms = {
        "full": ranks,
        "missing": np.where(rng.random((N, K)) < 0.4, np.nan, ranks),
        "top 2": np.where(ranks <= 2, ranks, np.nan),
        "mixed": np.where(ranks <= lengths, ranks, np.nan),
        "tied": np.where(np.isin(ranks, [2, 3]), 2, ranks),
    }
    return X, weights, {form: check_feedback(given).ranks for form, given in forms.items()}


def duel_rows(ranks, duel):
    """Rows that tell who wins a duel, and whether the second label does."""
    outcome = outcomes(ranks)[:, duel]
    rows = np.flatnonzero(outcome)
    return rows, (outcome[rows] > 0).astype(int)


def side_weights(class_weight, ranks, duel, weights=None):
    """Class weights of one duel, by side."""
    first, second = pairs(ranks.shape[1])
    if class_weight == "balanced":
        rows, is_second = duel_rows(ranks, duel)
        totals = np.bincount(is_second, None if weights is None else weights[rows])
        return dict(enumerate(totals.sum() / (2 * totals)))
    given = class_weight or {}
    return {0: given.get(first[duel], 1.0), 1: given.get(second[duel], 1.0)}


def fit_peer(X, is_second, C, weights=None, class_weight=None):
    peer = LogisticRegression(
        C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000, class_weight=class_weight
    )
    return peer.fit(X, is_second, sample_weight=weights)


@cache
def peers(form, weighted, class_weight):
    """Coefficients and intercepts of scikit-learn's regressions, duel by duel."""
    X, weights, forms = data()
    given = {0: 3.0, 2: 0.5} if class_weight == "dict" else class_weight
    found = []
    for duel in range(K * (K - 1) // 2):
        rows, is_second = duel_rows(forms[form], duel)
        mine = weights[rows] if weighted else None
        sides = side_weights(given, forms[form], duel, weights if weighted else None)
        peer = fit_peer(X[rows], is_second, 0.5, mine, sides)
        found.append(np.append(peer.coef_[0], peer.intercept_))
    return np.array(found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced", "dict"])
@pytest.mark.parametrize("layout", ["dense", "sparse", "float32", "tiles", "chunks"])
def test_scikit_learn_agrees_duel_by_duel(form, weighted, class_weight, layout, monkeypatch):
    X, weights, forms = data()
    engine = LogisticDuels(
        0.5, tol=1e-11, class_weight={0: 3.0, 2: 0.5} if class_weight == "dict" else class_weight
    )
    if layout == "sparse":
        X = sparse.csr_array(X)
    elif layout == "float32":
        engine.set_params(dtype="float32", tol=1e-8)
    elif layout == "tiles":
        engine.set_params(working_memory=1e-3)
    elif layout == "chunks":
        monkeypatch.setattr("duelrank.duels.logistic._groups.CHUNK_SIZE", 500)
    engine.fit(X, forms[form], K, sample_weight=weights if weighted else None)
    assert engine.converged_.all()
    theirs = peers(form, weighted, class_weight)
    tolerance = 5e-4 if layout == "float32" else 5e-6
    np.testing.assert_allclose(engine.coef_, theirs[:, :-1], atol=tolerance)
    np.testing.assert_allclose(engine.intercept_, theirs[:, -1], atol=2 * tolerance)


def held_out_score(peer, X, is_second, weights, scoring):
    margins = peer.decision_function(X) * np.where(is_second, 1, -1)
    if scoring == "neg_log_loss":
        return np.average(-np.logaddexp(0, -margins), weights=weights)
    sides = [is_second == 0, is_second == 1] if scoring == "balanced_accuracy" else [slice(None)]
    return np.mean([np.average(margins[side] > 0, weights=weights[side]) for side in sides])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("scoring", "weighted", "class_weight"),
    [
        ("accuracy", False, None),
        ("neg_log_loss", True, None),
        ("balanced_accuracy", True, "balanced"),
        ("neg_log_loss", False, {0: 3.0, 2: 0.5}),
    ],
)
def test_scores_are_those_of_cross_validated_duels(form, scoring, weighted, class_weight):
    X, weights, forms = data()
    ranks, Cs = forms[form], [0.01, 1.0]
    weights = weights if weighted else np.ones(N)
    folds = list(ShuffleSplit(3, test_size=0.4, random_state=0).split(X))  # they overlap
    engine = LogisticDuelsCV(Cs, cv=folds, scoring=scoring, class_weight=class_weight)
    engine.fit(X, ranks, K, sample_weight=weights)
    refit = LogisticDuels(class_weight=class_weight, tol=1e-11)
    for duel in range(K * (K - 1) // 2):
        rows, is_second = duel_rows(ranks, duel)
        sides = side_weights(class_weight, ranks, duel, weights)
        for fold, parts in enumerate(folds):
            train, test = (np.isin(rows, part) & (weights[rows] > 0) for part in parts)
            own = weights[rows]
            for c, C in enumerate(Cs):
                peer = fit_peer(X[rows[train]], is_second[train], C, own[train], sides)
                theirs = held_out_score(peer, X[rows[test]], is_second[test], own[test], scoring)
                assert engine.scores_[duel, fold, c] == pytest.approx(theirs, abs=1e-4)
    np.testing.assert_array_equal(
        engine.C_, engine.Cs_[np.argmax(engine.scores_.mean(axis=1), axis=1)]
    )
    for C in Cs:
        mine = engine.C_ == C
        coef = refit.set_params(C=C).fit(X, ranks, K, sample_weight=weights).coef_
        np.testing.assert_allclose(engine.coef_[mine], coef[mine], atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_classifiers_see_the_rows_that_tell(form, weighted):
    X, weights, forms = data()
    for model in (GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)):
        engine = EstimatorDuels(model).fit(
            X, forms[form], K, sample_weight=weights if weighted else None
        )
        for duel, probability in enumerate(engine.probabilities(X).T):
            rows, is_second = duel_rows(forms[form], duel)
            mine = weights[rows] if weighted else None
            peer = clone(model).fit(X[rows], is_second, sample_weight=mine)
            np.testing.assert_array_equal(probability, peer.predict_proba(X)[:, 1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_stump_is_better(form, weighted):
    X, weights, forms = data()
    X = X.round(1)  # equal values
    weights = weights if weighted else np.ones(N)
    engine = StumpDuels().fit(X, forms[form], K, sample_weight=weights)
    for duel, margin in enumerate(engine.margins(X).T):
        rows, is_second = duel_rows(forms[form], duel)
        rows, is_second = rows[weights[rows] > 0], is_second[weights[rows] > 0]
        side, own = np.where(is_second, 1, -1), weights[rows]
        least = min(
            own[sign * np.where(X[rows, j] > cut, 1, -1) != side].sum()
            for j in range(D)
            for cut in [-np.inf, *X[rows, j]]
            for sign in (1, -1)
        )
        assert own[margin[rows] != side].sum() == pytest.approx(least)
        assert engine.training_error_[duel] == pytest.approx(least / own.sum())


@by_type
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_one_label_rankings(engine, weighted):
    X, weights, forms = data()
    weights = weights if weighted else None
    codes = np.argmin(forms["full"], axis=1)
    lists = ranks_from_lists([[code] for code in codes], range(K))
    tied = np.where(np.isnan(lists), 2, 1)
    from_labels = DuelRanker(engine, random_state=0).fit(X, codes, sample_weight=weights)
    for y in (lists, tied, np.where(tied == 2, (K + 2) / 2, 1)):
        from_ranks = DuelRanker(engine, random_state=0).fit(X, y, sample_weight=weights)
        for method in ("decision_function", "predict_proba", "predict_order"):
            np.testing.assert_array_equal(
                getattr(from_ranks, method)(X), getattr(from_labels, method)(X)
            )
        np.testing.assert_array_equal(from_ranks.duels_.margins(X), from_labels.duels_.margins(X))
        assert from_ranks.unplaced_ == "behind"
    # The engines come to the same also where nobody turns the ranks into labels.
    one = clone(engine).fit(X, codes, K, sample_weight=weights)
    other = clone(engine).fit(X, tied.astype(float), K, sample_weight=weights)
    rounding = 1e-13 if isinstance(engine, (EstimatorDuels, StumpDuels)) else 1e-4
    np.testing.assert_allclose(one.margins(X), other.margins(X), rtol=rounding, atol=rounding)
    np.testing.assert_allclose(one.probabilities(X), other.probabilities(X), atol=rounding)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_bytes_whatever_the_threads(form, monkeypatch):
    monkeypatch.setattr("duelrank.duels.logistic._groups.CHUNK_SIZE", 500)
    X, weights, forms = data()
    for engine in ENGINES[:3]:
        margins = []
        for n_threads in (1, 2):
            with threadpool_limits(n_threads):
                fitted = clone(engine).fit(X, forms[form], K, sample_weight=weights)
                margins.append(fitted.margins(X))
        np.testing.assert_array_equal(*margins)


def test_the_same_bytes_whatever_the_jobs():
    X, _, forms = data()
    model = DecisionTreeClassifier(max_features=1)
    rankers = [DuelRanker(model, n_jobs=jobs, random_state=0) for jobs in (1, 2)]
    one, two = (ranker.fit(X, forms["top 2"]) for ranker in rankers)
    np.testing.assert_array_equal(one.duels_.margins(X), two.duels_.margins(X))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def synthetic(seed):
    """Thresholds are right: points and rankings, other points and their posteriors."""
    X, y, eta = make_label_ranking(200, noise_exponent=0.7, depth=1, random_state=seed)
    points, _, truth = make_label_ranking(300, noise_exponent=0.7, depth=1, random_state=1000)
    return X, complete_ranking(eta, y, random_state=seed), points, truth


def log_linear(seed):
    """Linear margins are right."""
    rng = np.random.default_rng(seed)
    coef, X, points = (rng.normal(size=shape) for shape in ((2, 5), (50, 2), (300, 2)))
    ranks = sample_plackett_luce(np.exp(X @ coef), random_state=seed)
    return X, ranks, points, np.exp(points @ coef)


@pytest.mark.parametrize(
    ("engine", "draw", "n_seeds"),
    [
        (StumpDuels(), synthetic, 100),
        (LogisticDuels(), log_linear, 40),
        (AnchoredDuels(), log_linear, 40),
    ],
    ids=["stumps", "logistic", "anchored"],
)
def test_more_feedback_brings_rankings_closer(engine, draw, n_seeds):
    """Top 1, top 2, … up to full rankings: on average, every step helps."""
    distances = []
    for seed in range(n_seeds):
        X, ranks, points, truth = draw(seed)
        best = optimal_ranks(truth)
        distances.append([])
        for depth in range(1, ranks.shape[1]):
            lists = np.where(ranks <= depth, ranks, np.nan)
            ranker = DuelRanker(engine, unplaced="behind", random_state=0)
            predicted = ranker.fit(X, lists).predict_ranks(points)
            distances[-1].append(kendall_distance(best, predicted).mean())
    gains = -np.diff(distances, axis=1)
    errors = gains.std(axis=0, ddof=1) / np.sqrt(n_seeds)
    assert (gains.mean(axis=0) > 2 * errors).all()


ETA = np.array([0.5, 0.25, 0.15, 0.1])


def standard_scores(lists, unplaced, engine):
    """How many standard errors the duels of a constant feature are off η_l / (η_k + η_l)."""
    ranker = DuelRanker(engine, random_state=0, unplaced=unplaced)
    ranker.fit(np.zeros((len(lists), 1)), lists)
    estimate = ranker.duels_.probabilities(np.zeros((1, 1)))[0]
    first, second = pairs(4)
    truth = ETA[second] / (ETA[first] + ETA[second])
    n_rows = np.count_nonzero(outcomes(check_feedback(lists, unplaced=unplaced).ranks), axis=0)
    return (estimate - truth) / np.sqrt(truth * (1 - truth) / n_rows)


@pytest.mark.filterwarnings("ignore:.*place no label ahead of another:UserWarning")
@pytest.mark.filterwarnings("ignore:.*were taken to come behind:UserWarning")
@pytest.mark.parametrize("engine", [LogisticDuels(), DummyClassifier(strategy="prior")])
def test_what_is_missing_at_random_leaves_duels_unbiased(engine):
    rng = np.random.default_rng(0)
    ranks = sample_plackett_luce(ETA, 8000, random_state=0) + 0.0
    ranks[rng.random(ranks.shape) < 0.5] = np.nan
    renumbered = np.where(np.isnan(ranks), np.nan, ranks.argsort(axis=1).argsort(axis=1) + 1)
    for lists, unplaced in ((ranks, "auto"), (ranks, "unknown"), (renumbered, "unknown")):
        assert (np.abs(standard_scores(lists, unplaced, engine)) < 4).all()
    for lists, unplaced in ((ranks, "behind"), (renumbered, "auto"), (renumbered, "behind")):
        assert (np.abs(standard_scores(lists, unplaced, engine)) > 6).all()


@pytest.mark.filterwarnings("ignore:.*place no label ahead of another:UserWarning")
@pytest.mark.filterwarnings("ignore:.*were taken to come behind:UserWarning")
@pytest.mark.parametrize("m", [1, 2])
def test_tops_leave_duels_unbiased(m):
    """Who of two labels is drawn first does not depend on when; that both are drawn does."""
    ranks = sample_plackett_luce(ETA, 8000, random_state=1) + 0.0
    lists = np.where(ranks <= m, ranks, np.nan)
    for unplaced in ("auto", "behind"):
        assert (np.abs(standard_scores(lists, unplaced, LogisticDuels())) < 4).all()
    if m == 2:
        assert np.abs(standard_scores(lists, "unknown", LogisticDuels())).max() > 6
