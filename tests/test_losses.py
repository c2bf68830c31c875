import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import top_k_accuracy_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, predict_ranks
from duelrank.losses import (
    RankingScorer,
    footrule_distance,
    hamming_distance,
    kendall_distance,
    kendall_distance_scorer,
    kendall_tau,
    kendall_tau_scorer,
    spearman_distance,
    top_k_loss,
    top_k_scorer,
    zero_one_distance,
)
from random_duels import random_ranks, ranks_of_rows

METRICS = [kendall_distance, footrule_distance, hamming_distance, zero_one_distance]
DISTANCES = [*METRICS, spearman_distance]
triples = st.integers(1, 6).flatmap(lambda n_classes: ranks_of_rows(n_classes, 3))


@pytest.mark.parametrize("distance", DISTANCES)
@given(ranks=triples)
def test_distances_are_symmetric_and_zero_only_for_equals(distance, ranks):
    first, second, _ = ranks
    assert distance(first, first) == 0
    assert distance(first, second) == distance(second, first)
    assert (distance(first, second) == 0) == np.array_equal(first, second)


@pytest.mark.parametrize("distance", METRICS)
@given(ranks=triples)
def test_metrics_satisfy_the_triangle_inequality(distance, ranks):
    first, second, third = ranks
    assert distance(first, third) <= distance(first, second) + distance(second, third)


@given(ranks=triples)
def test_root_of_spearman_satisfies_the_triangle_inequality(ranks):
    first, second, third = ranks
    direct = np.sqrt(spearman_distance(first, third))
    detour = np.sqrt(spearman_distance(first, second)) + np.sqrt(spearman_distance(second, third))
    assert direct <= detour + 1e-12


@pytest.mark.parametrize("distance", DISTANCES)
@given(ranks=triples, data=st.data())
def test_distances_do_not_depend_on_the_names_of_labels(distance, ranks, data):
    renamed = ranks[:, data.draw(st.permutations(range(ranks.shape[1])))]
    assert distance(ranks[0], ranks[1]) == distance(renamed[0], renamed[1])


@pytest.mark.parametrize("n_classes", [2, 3, 10, 300])
def test_kendall_agrees_with_scipy(rng, n_classes):
    true, pred = random_ranks(rng, 20, n_classes), random_ranks(rng, 20, n_classes)
    theirs = [stats.kendalltau(t, p).statistic for t, p in zip(true, pred, strict=True)]
    np.testing.assert_allclose(kendall_tau(true, pred), theirs, atol=1e-12)
    by_definition = [
        sum((t[i] - t[j]) * (p[i] - p[j]) < 0 for i in range(n_classes) for j in range(i))
        for t, p in zip(true.tolist(), pred.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(kendall_distance(true, pred), by_definition)


def test_extremes_at_reversal():
    true, reverse = np.array([1, 2, 3, 4]), np.array([4, 3, 2, 1])
    assert kendall_distance(true, reverse) == 6
    assert kendall_tau(true, reverse) == -1
    assert kendall_tau(true, true) == 1
    assert footrule_distance(true, reverse) == 8
    assert spearman_distance(true, reverse) == 20
    assert hamming_distance(true, reverse) == 4
    assert zero_one_distance(true, reverse) == 1


def test_top_k_loss():
    ranks = np.array([[1, 2, 3], [3, 1, 2]])
    np.testing.assert_array_equal(top_k_loss([0, 0], ranks, k=1), [0, 1])
    np.testing.assert_array_equal(top_k_loss([1, 2], ranks, k=2), [0, 0])
    assert top_k_loss(2, ranks[0], k=2) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kendall_distance([[1, 2]], [[1, 2, 3]]), "ranks_pred must have one column per"),
        (lambda: kendall_distance([[1, 2]], [[1, 2], [2, 1]]), "must have the same shape"),
        (lambda: hamming_distance([[1, 1]], [[1, 2]]), "ranks_true must hold a permutation"),
        (lambda: footrule_distance([[1, 2]], [[1, np.nan]]), "ranks_pred must place every label"),
        (lambda: kendall_tau([[1]], [[1]]), "at least 2 labels"),
        (lambda: top_k_loss([0], [[1, 2]], k=3), "k must be an integer from 1 to 2"),
        (lambda: top_k_loss([2], [[1, 2]], k=1), "codes must be integers from 0 to 1"),
        (lambda: top_k_loss([0, 1], [[1, 2]], k=1), "one label per row"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture(scope="module")
def problem():
    """Labels drawn from a known posterior, and the true ranking of every row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    logits = X @ np.array([[2.0, 0.0, -1.0, 1.0], [0.0, 2.0, 1.0, -1.0]])
    eta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array(["a", "b", "c", "d"])[[rng.choice(4, p=p) for p in eta]]
    return X, y, np.argsort(np.argsort(-eta, axis=1), axis=1) + 1


def test_scorers_through_cross_validation_and_pipelines(problem):
    X, y, ranks = problem
    model = make_pipeline(StandardScaler(), DuelRanker(random_state=0))
    with config_context(enable_metadata_routing=True):
        scoring = {
            "tau": kendall_tau_scorer().set_score_request(ranks_true=True),
            "distance": kendall_distance_scorer().set_score_request(ranks_true=True),
            "top2": top_k_scorer(2),
        }
        scores = cross_validate(
            model,
            X,
            y,
            scoring=scoring,
            cv=3,
            params={"ranks_true": ranks},
            return_indices=True,
            return_estimator=True,
        )
    for fold, (fitted, rows) in enumerate(
        zip(scores["estimator"], scores["indices"]["test"], strict=True)
    ):
        predicted = predict_ranks(fitted, X[rows])
        assert scores["test_tau"][fold] == kendall_tau(ranks[rows], predicted).mean()
        assert scores["test_distance"][fold] == -kendall_distance(ranks[rows], predicted).mean()
        assert scores["test_top2"][fold] == pytest.approx(
            top_k_accuracy_score(y[rows], -predicted, k=2, labels=fitted.classes_)
        )
    assert scores["test_tau"].mean() > 0.5


def test_scorer_drives_a_grid_search(problem):
    X, y, ranks = problem
    model = make_pipeline(StandardScaler(), DuelRanker(LogisticRegression(), random_state=0))
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            model,
            {"duelranker__estimator__C": [1e-3, 1.0]},
            scoring=kendall_tau_scorer().set_score_request(ranks_true=True),
            cv=3,
        ).fit(X, y, ranks_true=ranks)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert predict_ranks(search, X[:5]).shape == (5, 4)


def test_scorers_weigh_rows(problem):
    X, y, ranks = problem
    ranker = DuelRanker(random_state=0).fit(X, y)
    weights = np.zeros(len(X))
    weights[:10] = 1
    assert top_k_scorer(1)(ranker, X, y, sample_weight=weights) == ranker.score(X[:10], y[:10])
    weighted = kendall_tau_scorer()(ranker, X, y, ranks_true=ranks, sample_weight=weights)
    assert weighted == kendall_tau_scorer()(ranker, X[:10], y[:10], ranks_true=ranks[:10])


def test_scorers_work_on_any_classifier(problem):
    X, y, ranks = problem
    model = LogisticRegression().fit(X, y)
    assert kendall_tau_scorer()(model, X, y, ranks_true=ranks) > 0.5


def test_scoring_errors(problem):
    X, y, _ = problem
    ranker = DuelRanker(random_state=0).fit(X, y)
    with pytest.raises(
        ValueError, match=r"not among the classes: \['z'\]; these are \['a', 'b', 'c', 'd'"
    ):
        top_k_scorer(1)(ranker, X[:2], ["a", "z"])
    with pytest.raises(ValueError, match="needs the true rankings"):
        kendall_tau_scorer()(ranker, X, y)
    with pytest.raises(ValueError, match="ranks_true must have one column per label: 4, got 3"):
        kendall_tau_scorer()(ranker, X[:1], y[:1], ranks_true=[[1, 2, 3]])
    with pytest.raises(ValueError, match="k must be an integer from 1 to 4, got 5"):
        top_k_scorer(5)(ranker, X, y)
    with pytest.raises(ValueError, match=r"not among the classes: \[1, 2\]"):
        top_k_scorer(1)(ranker, X[:2], [1, 2])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        top_k_scorer(1)(ranker, X, y[:3])
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        top_k_scorer(1)(ranker, X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="k must be a positive integer, got 0"):
        top_k_scorer(0)
    with pytest.raises(TypeError, match="measure must be a function"):
        RankingScorer("kendall")


def test_true_rankings_in_a_dataframe_go_by_their_names(problem):
    X, y, ranks = problem
    ranker = DuelRanker(random_state=0).fit(X, y)
    score = kendall_tau_scorer()(ranker, X, y, ranks_true=ranks)
    frame = pd.DataFrame(ranks, columns=["a", "b", "c", "d"])[["d", "b", "a", "c"]]
    assert kendall_tau_scorer()(ranker, X, y, ranks_true=frame) == score


def test_tau_of_a_reversal_is_exact():
    for n_classes in (23, 34, 59):
        ranks = np.arange(1, n_classes + 1)
        assert kendall_tau(ranks, ranks[::-1]) == -1
