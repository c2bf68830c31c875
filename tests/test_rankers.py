import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from duelrank import (
    DuelRanker,
    EstimatorDuels,
    LogisticDuels,
    StumpDuels,
    predict_order,
    predict_ranks,
    predict_top,
)
from duelrank._sklearn import as_indexable
from duelrank.blocks import RowBlocks
from duelrank.competitors import LabelwiseRanker, MulticlassRanker
from duelrank.shortlists import PlaceIntervals, Shortlister


@pytest.fixture(scope="module")
def flowers(iris):
    X, y = iris
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def test_the_path(flowers):
    X, y = flowers
    ranker = DuelRanker(random_state=0).fit(X, y)
    order = ranker.predict_order(X)
    assert order.shape == (150, 3)
    assert set(order[0]) == set(y)
    np.testing.assert_array_equal(order[:, 0], ranker.predict(X))
    np.testing.assert_array_equal(ranker.predict_top(X, 2), order[:, :2])
    ranks = ranker.predict_ranks(X)
    assert (ranker.classes_[np.argmin(ranks, axis=1)] == order[:, 0]).all()
    assert ranker.score(X, y) > 0.9


def test_free_functions_agree_with_the_methods_through_wrappers(flowers):
    X, y = flowers
    ranker = DuelRanker(GaussianNB(), random_state=0)
    pipeline = make_pipeline(StandardScaler(), ranker).fit(X, y)
    fitted = pipeline[-1]
    Xt = pipeline[:-1].transform(X)
    np.testing.assert_array_equal(predict_ranks(pipeline, X), fitted.predict_ranks(Xt))
    np.testing.assert_array_equal(predict_order(pipeline, X), fitted.predict_order(Xt))
    np.testing.assert_array_equal(predict_top(pipeline, X, 2), fitted.predict_top(Xt, 2))
    search = GridSearchCV(pipeline, {"duelranker__ties": ["probability", "index"]}, cv=3).fit(X, y)
    np.testing.assert_array_equal(predict_order(search, X)[:, 0], search.predict(X))


def test_log_probabilities_are_there_where_probabilities_are(flowers):
    X, y = flowers
    ranker = DuelRanker(random_state=0)
    pipeline = make_pipeline(StandardScaler(), ranker).fit(X, y)
    np.testing.assert_array_equal(pipeline.predict_log_proba(X), np.log(pipeline.predict_proba(X)))
    assert hasattr(ranker, "predict_log_proba")
    assert not hasattr(DuelRanker(SVC()), "predict_log_proba")
    with pytest.raises(NotFittedError):
        DuelRanker().predict_log_proba(X)


def test_the_logarithm_of_nothing_is_no_warning(flowers):
    X, y = flowers
    ranker = DuelRanker(DecisionTreeClassifier(random_state=0), random_state=0).fit(X[50:], y[50:])
    with np.errstate(divide="raise"):
        logarithms = ranker.predict_log_proba(X)
    assert (ranker.predict_proba(X) == 0).any()
    np.testing.assert_array_equal(np.isneginf(logarithms), ranker.predict_proba(X) == 0)


def test_the_number_of_labels_is_an_attribute_of_fitted_rankers(flowers):
    X, y = flowers
    ranker = DuelRanker()
    assert not hasattr(ranker, "n_classes_")
    assert ranker.fit(X, y).n_classes_ == 3
    ranks = np.tile([1, 2, 3, 4], (150, 1))
    assert DuelRanker().fit(X, ranks).n_classes_ == 4


def test_parameters_of_an_engine_that_was_not_passed(flowers):
    X, y = flowers
    ranker = DuelRanker()
    sentence = (
        "^estimator__C cannot be set while estimator is None; pass what None stands for, "
        r"DuelRanker\(LogisticDuels\(\)\), to set its parameters\.$"
    )
    pipeline = make_pipeline(StandardScaler(), ranker)
    with pytest.raises(ValueError, match=sentence):
        ranker.set_params(estimator__C=1, ties="index")
    assert ranker.ties == "probability"
    with pytest.raises(ValueError, match=sentence):
        pipeline.set_params(duelranker__estimator__C=1)
    with pytest.raises(ValueError, match=sentence):
        GridSearchCV(pipeline, {"duelranker__estimator__C": [0.1, 1.0]}).fit(X, y)
    with pytest.raises(ValueError, match=sentence):
        DuelRanker(LogisticDuels()).set_params(estimator=None, estimator__C=1)
    both = ranker.set_params(estimator__C=0.5, estimator=LogisticDuels())
    assert both is ranker
    assert ranker.estimator.C == 0.5
    assert ranker.set_params(estimator__C=2.0).estimator.C == 2
    with pytest.raises(ValueError, match="Invalid parameter 'C' for estimator DuelRanker"):
        ranker.set_params(C=1)


@pytest.mark.parametrize(
    ("model", "with_default"),
    [
        (Shortlister(), "Shortlister(DuelRanker())"),
        (PlaceIntervals(), "PlaceIntervals(DuelRanker())"),
        (LabelwiseRanker(), "LabelwiseRanker(Ridge())"),
        (MulticlassRanker(), "MulticlassRanker(LogisticRegression(max_iter=1000))"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parameters_of_other_estimators_that_were_not_passed(model, with_default):
    with pytest.raises(ValueError, match=f"^estimator__x cannot .*{re.escape(with_default)}, to"):
        model.set_params(estimator__x=1)
    model = model.set_params(random_state=3, estimator=DuelRanker(), estimator__ties="index")
    assert (model.random_state, model.estimator.ties) == (3, "index")


def test_two_labels(flowers):
    X, y = flowers
    X, y = X[50:], y[50:]
    model = LogisticRegression(max_iter=500)
    ranker = DuelRanker(model, random_state=0).fit(X, y)
    scores = ranker.decision_function(X)
    assert scores.shape == (100,)
    np.testing.assert_array_equal(ranker.predict(X), ranker.classes_[(scores > 0).astype(int)])
    plain = model.fit(X, y)
    np.testing.assert_array_equal(ranker.predict(X), plain.predict(X))
    np.testing.assert_allclose(ranker.predict_proba(X), plain.predict_proba(X))
    auc = roc_auc_score(y, scores)
    assert auc == roc_auc_score(y, plain.decision_function(X))
    np.testing.assert_array_equal(predict_ranks(ranker, X), ranker.predict_ranks(X))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, -1, 20]),
        np.array(["z", "aa", "m"]),
        np.array(["z", "aa", "m"], dtype=object),
        np.array([True, False]),
        np.array([1.0, 2.0, 5.0]),
    ],
    ids=["int", "str", "object", "bool", "float"],
)
def test_labels_keep_their_type(iris, labels):
    X, y = iris
    y = labels[y % len(labels)]
    ranker = DuelRanker(GaussianNB(), random_state=0).fit(X, y)
    order = ranker.predict_order(X[:3])
    assert order.dtype == ranker.classes_.dtype == labels.dtype
    assert set(order[0].tolist()) == set(labels.tolist())


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("engine", [LogisticRegression(max_iter=500), StumpDuels()])
def test_dataframes_with_feature_names(flowers, library, engine):
    frames = pytest.importorskip(library)
    X, y = flowers
    names = ["a", "b", "c", "d"]
    frame = frames.DataFrame(dict(zip(names, X.T, strict=True)))
    ranker = DuelRanker(engine, random_state=0).fit(frame, frames.Series(y.tolist()))
    assert ranker.feature_names_in_.tolist() == names
    expected = DuelRanker(engine, random_state=0).fit(X, y).predict_order(X)
    np.testing.assert_array_equal(ranker.predict_order(frame), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.predict(frames.DataFrame(dict(zip(["a", "b", "d", "c"], X.T, strict=True))))


def test_mixed_columns_and_text_reach_an_inner_pipeline(flowers):
    X, y = flowers
    frame = pd.DataFrame({"length": X[:, 2], "garden": np.where(X[:, 0] > 5.8, "north", "south")})
    inner = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["garden"]), remainder="passthrough"),
        LogisticRegression(),
    )
    assert DuelRanker(inner).fit(frame, y).score(frame, y) > 0.9
    texts = ["red apple", "green apple", "grey cat", "black cat", "blue car", "red car"]
    topics = ["fruit", "fruit", "pet", "pet", "vehicle", "vehicle"]
    ranker = DuelRanker(make_pipeline(TfidfVectorizer(), LogisticRegression())).fit(texts, topics)
    assert ranker.predict_order(["a cat"])[0, 0] == "pet"


def test_class_weights_are_given_by_label(flowers):
    X, y = flowers
    X, y = X[50:], y[50:]
    plain = DuelRanker(LogisticRegression(), random_state=0).fit(X, y)
    for model in (
        LogisticRegression(class_weight={"virginica": 50}),
        make_pipeline(StandardScaler(), LogisticRegression(class_weight={"virginica": 50})),
    ):
        heavy = DuelRanker(model, random_state=0).fit(X, y)
        assert (heavy.predict(X) == "virginica").sum() > (plain.predict(X) == "virginica").sum()
    by_hand = DuelRanker(LogisticRegression(), random_state=0)
    by_hand.fit(X, y, sample_weight=np.where(y == "virginica", 50.0, 1.0))
    by_label = DuelRanker(LogisticRegression(class_weight={"virginica": 50}), random_state=0)
    np.testing.assert_allclose(
        by_hand.predict_proba(X), by_label.fit(X, y).predict_proba(X), atol=1e-4
    )
    DuelRanker(LogisticRegression(class_weight="balanced")).fit(X, y)
    with pytest.raises(ValueError, match=r"class_weight must be given for labels of y; \['rose'\]"):
        DuelRanker(LogisticRegression(class_weight={"rose": 2})).fit(X, y)


def test_class_weights_by_label_in_an_inner_grid_are_refused(flowers):
    inner = GridSearchCV(LogisticRegression(), {"class_weight": [{"setosa": 2}]})
    with pytest.raises(ValueError, match="must not hold dictionaries for class_weight"):
        DuelRanker(inner).fit(*flowers)


def test_long_texts_take_their_own_room():
    texts = ["red apple", "grey cat"] * 50 + ["blue car " * 5000]
    ranker = DuelRanker(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    ranker.fit(texts, ["fruit", "pet"] * 50 + ["vehicle"])
    assert ranker.predict_order(texts[-1:]).shape == (1, 3)
    assert as_indexable(texts).dtype == object
    with pytest.raises(ValueError, match="X must hold one row per point, got 'a cat'"):
        ranker.predict("a cat")


def test_parameters_of_the_engine_can_be_searched(flowers):
    X, y = flowers
    search = GridSearchCV(
        DuelRanker(EstimatorDuels(LogisticRegression(max_iter=500))),
        {"estimator__estimator__C": [1e-4, 1.0]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_ == {"estimator__estimator__C": 1.0}


def test_the_estimator_given_is_left_alone(flowers):
    X, y = flowers
    model = RandomForestClassifier(3)
    engine = EstimatorDuels(model)
    DuelRanker(engine, n_jobs=2, random_state=0).fit(X, y)
    assert engine.n_jobs is None
    assert model.random_state is None
    assert not hasattr(model, "estimators_")


def test_pickle_and_clone(flowers):
    X, y = flowers
    ranker = DuelRanker(StumpDuels(), random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(again.decision_function(X), ranker.decision_function(X))
    assert not hasattr(clone(ranker), "duels_")


def test_calibration_wraps_a_ranker(flowers):
    X, y = flowers
    model = CalibratedClassifierCV(DuelRanker(GaussianNB(), random_state=0), cv=3).fit(X, y)
    assert predict_order(model, X).shape == (150, 3)


def test_nothing_is_half_fitted_after_an_error(flowers):
    X, y = flowers
    ranker = DuelRanker(GaussianNB(), random_state=0)
    with pytest.raises(ValueError, match="NaN"):
        ranker.fit(np.where(X > 7, np.nan, X), y)
    with pytest.raises(NotFittedError):
        ranker.predict(X)
    ranker.fit(X, y)
    before = ranker.predict_ranks(X)
    with pytest.raises(ValueError, match="NaN"):
        ranker.fit(np.full((4, 2), np.nan), [1, 1, 2, 2])
    np.testing.assert_array_equal(ranker.predict_ranks(X), before)


@pytest.mark.parametrize("estimator", [GaussianNB(), StumpDuels(), LogisticRegression()])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(X > 7, np.nan, X), y), "contains NaN"),
        (lambda X, y: (np.where(X > 7, np.inf, X), y), "contains infinity"),
        (lambda X, y: (X[:0], y[:0]), r"0 sample|at least two different classes"),
        (lambda X, y: (X, np.full(len(X), "one")), r"at least two different classes .* \['one'\]"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X, X[:, 0] / 3), "Unknown label type"),
        (lambda X, y: (X, np.where(X[:, 0] > 7, np.nan, 1.0)), "y contains NaN"),
        (lambda X, y: (X, np.where(X[:, 0] > 7, None, y)), "y contains NaN or None"),
    ],
    ids=[
        "nan",
        "inf",
        "empty",
        "one class",
        "lengths",
        "no y",
        "regression",
        "nan label",
        "no label",
    ],
)
def test_bad_training_data(flowers, estimator, change, message):
    with pytest.raises(ValueError, match=message):
        DuelRanker(estimator).fit(*change(*flowers))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"aggregation": "borda"}, ValueError, "aggregation must be one of 'copeland', .*'borda'"),
        ({"ties": "coin"}, ValueError, "ties must be one of 'probability', .* got 'coin'"),
        ({"estimator": LinearRegression()}, TypeError, "duel engine or a scikit-learn classifier"),
        ({"estimator": "forest"}, TypeError, "duel engine or a scikit-learn classifier"),
        ({"n_jobs": 1.5}, ValueError, "n_jobs must be an integer or None, got 1.5"),
        ({"estimator": GaussianNB}, TypeError, "must be an instance, got the class GaussianNB"),
    ],
)
def test_bad_parameters(flowers, options, error, message):
    is_classifier(DuelRanker(**options))  # tags can be asked for all the same
    with pytest.raises(error, match=message):
        DuelRanker(**options).fit(*flowers)


@pytest.mark.parametrize("estimator", [GaussianNB(), StumpDuels()])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[-1.0, np.ones(149)], r"sample_weight must not be negative, got -1.0 in row 0"),
        (np.zeros(150), "all are zero|Sample weights must contain at least one non-zero"),
        (np.ones(149), "sample_weight.shape"),
        (np.full(150, np.nan), "NaN"),
    ],
)
def test_bad_weights(flowers, estimator, weights, message):
    with pytest.raises(ValueError, match=message):
        DuelRanker(estimator).fit(*flowers, sample_weight=weights)


@pytest.mark.parametrize("estimator", [GaussianNB(), StumpDuels()])
def test_bad_query_points(flowers, estimator):
    X, y = flowers
    ranker = DuelRanker(estimator)
    for method in ("predict", "decision_function", "predict_ranks", "predict_order", "tournament"):
        with pytest.raises(NotFittedError):
            getattr(ranker, method)(X)
    with pytest.raises(NotFittedError):
        ranker.predict_top(X, 2)
    ranker.fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but DuelRanker is expecting 4"):
        ranker.predict_order(X[:, :3])
    with pytest.raises(ValueError, match="Reshape your data"):
        ranker.predict_order(X[0])
    with pytest.raises(ValueError, match="NaN"):
        ranker.predict_order(np.full((1, 4), np.nan))
    with pytest.raises(ValueError, match="0 sample"):
        ranker.predict_order(X[:0])
    with pytest.raises(ValueError, match="k must be an integer from 1 to 3, got 0"):
        ranker.predict_top(X, 0)


@pytest.mark.parametrize("estimator", [None, StumpDuels(), SVC()])
def test_own_duels_are_rows_of_the_tournaments(flowers, estimator, monkeypatch):
    X, y = flowers
    ranker = DuelRanker(estimator, random_state=0).fit(X, y)
    tournament = ranker.tournament(X)
    codes = np.searchsorted(ranker.classes_, y)
    own = np.arange(len(X)), codes
    monkeypatch.setattr("duelrank._batches.MARGIN_BATCH_BYTES", 7 * 8 * 3 * 3)
    won, probabilities = ranker.own_duels(X, codes)
    np.testing.assert_array_equal(won, tournament.beats[own])
    np.testing.assert_allclose(probabilities, tournament.probabilities[own], atol=1e-12)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ranker.own_duels(X, codes[1:])
    for wrong in (codes - 1, codes + 1, codes.astype(float)):
        with pytest.raises(ValueError, match="codes must be integers from 0 to 2, got"):
            ranker.own_duels(X, wrong)
    with pytest.raises(TypeError, match="X must be rows in memory, got RowBlocks"):
        ranker.own_duels(RowBlocks.from_array(X), codes)


@pytest.mark.parametrize("ties", ["probability", "feedback_arc_set", "random", "index"])
@pytest.mark.parametrize("aggregation", ["copeland", "expected_wins", "coupling"])
@pytest.mark.parametrize("n_classes", [2, 7, 45])
def test_the_top_is_the_beginning_of_the_order(n_classes, aggregation, ties, rng, monkeypatch):
    X = rng.normal(size=(6 * n_classes, 3))
    y = rng.permutation(np.repeat(np.arange(n_classes), 6))  # noise, so that cycles abound
    ranker = DuelRanker(aggregation=aggregation, ties=ties, random_state=0).fit(X, y)
    order = ranker.predict_order(X)
    for held in (2**22, 0):  # margins are held until ties are known, or computed again
        monkeypatch.setattr("duelrank.duels.logistic._counting.MOST_HELD", held)
        np.testing.assert_array_equal(ranker.predict(X), order[:, 0])
        for k in {1, 2, min(5, n_classes), n_classes}:
            np.testing.assert_array_equal(ranker.predict_top(X, k), order[:, :k])


def test_no_probabilities_where_no_tie_reaches_the_top(rng, monkeypatch):
    centres = 5 * rng.normal(size=(50, 20))
    X = np.repeat(centres, 6, axis=0) + 0.1 * rng.normal(size=(300, 20))
    y = np.repeat(np.arange(50), 6)
    ranker = DuelRanker(random_state=0).fit(X, y)
    asked = []
    monkeypatch.setattr(
        "duelrank.duels.logistic._counting.wrong_side",
        lambda margins: asked.append(len(margins)) or 1 / (1 + np.exp(margins)),
    )
    wins, _ = ranker.duels_.wins(X, ranker.label_order_, with_expected=False)
    in_order = -np.sort(-wins, axis=1)
    for k in (1, 3):
        asked.clear()
        ranker.predict_top(X, k)
        tied = (in_order[:, 1 : k + 1] == in_order[:, :k]).any(axis=1)
        assert tied.sum() < len(X) / 2
        assert sum(asked) == tied.sum() * 2  # a run of 1,024 duels, and the rest
