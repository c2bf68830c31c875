import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import top_k_accuracy_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, losses, predict_ranks, scoring
from duelrank.losses import kendall_distance, kendall_tau
from duelrank.scoring import (
    RankingScorer,
    kendall_distance_scorer,
    kendall_tau_scorer,
    top_k_scorer,
)


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


@pytest.mark.parametrize("name", scoring.__all__)
def test_old_imports_go_on_working(name):
    assert getattr(losses, name) is getattr(scoring, name)
    with pytest.raises(AttributeError, match="no attribute 'top_scorer'"):
        losses.top_scorer  # noqa: B018
