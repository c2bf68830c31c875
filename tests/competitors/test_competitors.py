"""What all competitors share: feedback, points, weights, parameters, and what goes wrong."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from duelrank import predict_ranks
from duelrank.competitors import (
    LabelwiseRanker,
    MulticlassRanker,
    NeighborsRanker,
    RankingForest,
    RankingTree,
    StructuredRanker,
    SubsetRanker,
)
from duelrank.losses import kendall_tau
from random_duels import missing_at_random, ranked_points

COMPETITORS = [
    NeighborsRanker(5, random_state=0),
    RankingTree(random_state=0),
    RankingForest(10, random_state=0),
    StructuredRanker("kemeny", random_state=0),
    StructuredRanker("hamming", random_state=0),
    StructuredRanker("lehmer", random_state=0),
    SubsetRanker(random_state=0),
    SubsetRanker(size=3, random_state=0),
    LabelwiseRanker(random_state=0),
    MulticlassRanker(random_state=0),
]
every_competitor = pytest.mark.parametrize("ranker", COMPETITORS, ids=repr)


@pytest.fixture
def table(rng):
    return ranked_points(rng)


def only_top(ranks, m):
    return np.where(ranks <= m, ranks, np.nan)


# Neighbours are counted and not weighed, and so are rows drawn for a forest's trees.
NOT_WEIGHED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "rows are counted, not weighed"
    for kind in ("dense", "sparse")
}


def expected_failures(ranker):
    return NOT_WEIGHED if isinstance(ranker, (NeighborsRanker, RankingForest)) else {}


@parametrize_with_checks(
    [
        NeighborsRanker(),
        RankingTree(min_samples_leaf=1),
        RankingForest(10),
        StructuredRanker("kemeny"),
        StructuredRanker("hamming", gamma=1.0, penalty=0.1),
        StructuredRanker("lehmer", gamma=1.0, penalty=0.1),
        SubsetRanker(),
        SubsetRanker(size=3),
        LabelwiseRanker(),
        MulticlassRanker(),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Feedback


@every_competitor
def test_labels_are_one_label_rankings(ranker, table):
    X, ranks = table
    labels = ranks.argmin(axis=1)
    assert len(np.unique(labels)) == 5
    from_labels = ranker.fit(X, labels).decision_function(X)
    from_ranks = ranker.fit(X, only_top(ranks, 1)).decision_function(X)
    np.testing.assert_array_equal(from_labels, from_ranks)


@every_competitor
@pytest.mark.parametrize("feedback", ["full", "top", "missing", "tied", "labels"])
def test_all_feedback_is_learned_from(ranker, feedback, table, rng):
    X, ranks = table
    y = {
        "full": ranks,
        "top": only_top(ranks, 3),
        "missing": missing_at_random(ranks, rng),
        "tied": np.where(ranks <= 2, 1, ranks),
        "labels": ranks.argmin(axis=1),
    }[feedback]
    # It learns nothing where the first place is shared everywhere.
    if isinstance(ranker, MulticlassRanker) and feedback == "tied":
        y[:60] = ranks[:60]
    if feedback == "top":
        with pytest.warns(UserWarning, match="were taken to come behind those that they place"):
            ranker.fit(X, y)
        ranker = clone(ranker).set_params(unplaced="behind")
    predicted = ranker.fit(X, y).predict_ranks(X)
    np.testing.assert_array_equal(np.sort(predicted, axis=1), np.tile(np.arange(1, 6), (120, 1)))
    tau = kendall_tau(ranks, predicted).mean()
    assert tau > {"full": 0.55, "top": 0.5, "missing": 0.35, "tied": 0.45, "labels": 0.2}[feedback]


@every_competitor
def test_rows_that_weigh_or_say_nothing_leave_no_trace(ranker, table):
    X, ranks = table
    expected = ranker.fit(X[:80], ranks[:80], np.ones(80)).decision_function(X)
    weighed = ranker.fit(X, ranks, sample_weight=np.arange(120) < 80).decision_function(X)
    np.testing.assert_allclose(weighed, expected, atol=1e-6)
    ranks[80:] = np.nan
    with pytest.warns(UserWarning, match="40 of 120 rows of y"):
        silent = ranker.fit(X, ranks, np.ones(120)).decision_function(X)
    np.testing.assert_allclose(silent, expected, atol=1e-6)
    assert ranker.n_silent_rows_ == 40


@every_competitor
def test_columns_of_dataframes_and_classes_name_labels(ranker, table):
    X, ranks = table
    names = ["d", "a", "c", "e", "b"]
    ranker.fit(X, pd.DataFrame(ranks, columns=names))
    assert ranker.classes_.tolist() == ["a", "b", "c", "d", "e"]
    tops = np.array(names)[ranks.argmin(axis=1)]
    assert np.mean(ranker.predict(X) == tops) > 0.5
    named = type(ranker)(**{**ranker.get_params(), "classes": names}).fit(X, ranks)
    np.testing.assert_array_equal(named.predict_order(X), ranker.predict_order(X))


@every_competitor
def test_works_in_pipelines_and_searches(ranker, table):
    X, ranks = table
    pipeline = make_pipeline(StandardScaler(), ranker)
    assert cross_val_score(pipeline, X, ranks, cv=KFold(3)).mean() > 0.35
    assert predict_ranks(pipeline.fit(X, ranks), X[:3]).shape == (3, 5)
    search = GridSearchCV(
        ranker, {"unplaced": ["behind", "unknown"]}, cv=KFold(2), error_score="raise"
    )
    assert search.fit(X, only_top(ranks, 4)).best_score_ > 0.35


@every_competitor
def test_no_label_is_favoured_for_its_index(ranker):
    # Nothing tells labels 1 and 2 apart; over seeds either one leads.
    X = np.array([[0.0], [1.0], [2.0], [3.0], [0.5], [1.5], [2.5], [3.5]])
    ranks = np.array([[1, 2, 2]] * 4 + [[3, 1, 1]] * 4)
    if isinstance(ranker, MulticlassRanker):
        ranks = np.array([[1, 2, 2]] * 8)
    leads = []
    for seed in range(20):
        order = ranker.set_params(random_state=seed).fit(X, ranks).predict_ranks(X[:1])[0]
        leads.append(order[1] < order[2])
    ranker.set_params(random_state=0)
    assert 0 < np.sum(leads) < 20


# Points


INNER = [
    (LabelwiseRanker, Ridge()),
    (SubsetRanker, LogisticRegression()),
    (MulticlassRanker, LogisticRegression()),
]


@pytest.mark.parametrize(("competitor", "inner"), INNER)
def test_points_are_whatever_the_estimator_inside_takes(competitor, inner, table):
    X, ranks = table
    frame = pd.DataFrame({"x": X[:, 0], "side": np.where(X[:, 1] > 0, "up", "down")})
    columns = ColumnTransformer([("side", OneHotEncoder(), ["side"])], remainder="passthrough")
    ranker = competitor(make_pipeline(columns, inner), random_state=0).fit(frame, ranks)
    encoded = np.column_stack([X[:, 1] <= 0, X[:, 1] > 0, X[:, 0]]).astype(float)
    plain = competitor(inner, random_state=0).fit(encoded, ranks)
    np.testing.assert_array_equal(ranker.predict_ranks(frame), plain.predict_ranks(encoded))
    assert ranker.feature_names_in_.tolist() == ["x", "side"]
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.predict(frame[["side", "x"]])


@pytest.mark.parametrize(("competitor", "inner"), INNER)
def test_points_may_be_texts(competitor, inner):
    texts, ranks = ["red", "blue", "red", "blue"], [[1, 2, 3], [3, 2, 1]] * 2
    ranker = competitor(make_pipeline(CountVectorizer(), inner), random_state=0)
    assert ranker.fit(texts, ranks).predict(["blue", "red"]).tolist() == [2, 0]


@pytest.mark.parametrize(("competitor", "inner"), INNER)
def test_missing_values_are_for_the_estimator_inside(competitor, inner, table, rng):
    X, ranks = table
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    ranker = competitor(make_pipeline(SimpleImputer(), inner), random_state=0)
    filled = SimpleImputer().fit_transform(holes)
    np.testing.assert_array_equal(
        ranker.fit(holes, ranks).predict_ranks(holes),
        competitor(inner, random_state=0).fit(filled, ranks).predict_ranks(filled),
    )
    with pytest.raises(ValueError, match="NaN"):
        competitor(inner).fit(holes, ranks)


@pytest.mark.parametrize("ranker", [RankingTree(random_state=0), RankingForest(3, random_state=0)])
def test_trees_take_missing_values_but_no_infinite_ones(ranker, table):
    X, ranks = table
    X[:10, 0] = np.nan
    assert ranker.fit(X, ranks).score(X, ranks) > 0.4
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        ranker.fit(X, ranks)
    with pytest.raises(ValueError, match="infinity"):
        ranker.predict(X)


@pytest.mark.parametrize("ranker", COMPETITORS[:3], ids=repr)
def test_sparse_points(ranker, table):
    X, ranks = table
    dense = ranker.fit(X, ranks).predict_ranks(X)
    np.testing.assert_array_equal(ranker.fit(csr_array(X), ranks).predict_ranks(X), dense)


# Reproducible, and clear about what is wrong


@pytest.mark.parametrize(
    "ranker",
    [
        RankingForest(8, random_state=5),
        SubsetRanker(DecisionTreeClassifier(max_features=1), size=3, random_state=5),
        LabelwiseRanker(RandomForestRegressor(5), random_state=5),
    ],
    ids=repr,
)
def test_same_seed_same_scores_whatever_the_jobs(ranker, table):
    X, ranks = table
    once = ranker.set_params(n_jobs=1).fit(X, ranks).decision_function(X)
    again = ranker.set_params(n_jobs=2).fit(X, ranks).decision_function(X)
    np.testing.assert_array_equal(once, again)


def test_silent_rows_are_named_where_fit_is_called(table):
    X, ranks = table
    ranks[0] = np.nan
    with pytest.warns(UserWarning, match="1 of 120 rows") as caught:
        LabelwiseRanker().fit(X, ranks)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (NeighborsRanker(0), "n_neighbors must be a positive integer, got 0"),
        (NeighborsRanker(weights="near"), "weights must be one of 'uniform', 'distance'"),
        (NeighborsRanker(consensus="mean"), "consensus must be one of 'borda'"),
        (RankingTree(consensus="plackett_luce"), "consensus must be one of 'borda'"),
        (RankingForest(2, consensus=None), "consensus must be one of 'borda'"),
        (StructuredRanker("spearman"), "embedding must be one of 'kemeny', 'hamming', 'lehmer'"),
        (StructuredRanker("lehmer", decoder="borda"), "decoder must be one of 'auto', 'insertion'"),
        (StructuredRanker(gamma=()), r"gamma must be positive numbers, at least one; got \(\)"),
        (StructuredRanker(gamma=None), "gamma must be positive numbers, at least one; got None"),
        (StructuredRanker(gamma=np.inf), "gamma must be positive numbers, at least one; got inf"),
        (StructuredRanker(penalty=-1.0), "penalty must be positive numbers, at least one; got -1"),
        (StructuredRanker(penalty=np.inf), "penalty must be positive numbers, at least one"),
        (StructuredRanker(penalty="low"), "penalty must be positive numbers, at least one"),
        (StructuredRanker(n_components=0), "n_components must be a positive integer, got 0"),
        (SubsetRanker(size=4), "size must be 2 or 3, got 4"),
        (SubsetRanker(size=2.0), "size must be 2 or 3, got 2.0"),
        (LabelwiseRanker(unplaced="last"), "unplaced must be one of 'auto', 'behind', 'unknown'"),
    ],
    ids=repr,
)
def test_wrong_parameters(ranker, message, table):
    with pytest.raises(ValueError, match=message):
        ranker.fit(*table)
    assert not hasattr(ranker, "classes_")
    assert not hasattr(ranker, "n_features_in_")


@pytest.mark.parametrize(
    "ranker",
    [
        SubsetRanker(LinearRegression()),
        MulticlassRanker(LogisticRegression),
        LabelwiseRanker(RidgeClassifier()),
    ],
    ids=repr,
)
def test_wrong_estimators(ranker, table):
    with pytest.raises(TypeError, match=r"estimator must be an instance of a (class|regress)"):
        ranker.fit(*table)


def test_weights_that_cannot_be_used(table):
    X, ranks = table
    with pytest.raises(ValueError, match="KNeighborsRegressor does not support sample weights"):
        LabelwiseRanker(KNeighborsRegressor()).fit(X, ranks, np.ones(120))
    pipeline = make_pipeline(StandardScaler(), Ridge())
    weights = 1.0 + np.arange(120)
    weighed = LabelwiseRanker(pipeline, random_state=0).fit(X, ranks, weights)
    theirs = pipeline.fit(X, ranks[:, 0], ridge__sample_weight=weights).predict(X)
    np.testing.assert_allclose(-weighed._label_scores(X)[:, 0], theirs, atol=1e-9)
    ranks[60:] = np.nan
    message = "sample_weight must be positive for a row"
    with pytest.warns(UserWarning, match="60 of"), pytest.raises(ValueError, match=message):
        LabelwiseRanker().fit(X, ranks, np.arange(120) >= 60)


@every_competitor
def test_a_refit_that_fails_leaves_no_trace(ranker, table, monkeypatch):
    X, ranks = table
    before = ranker.fit(X, ranks).decision_function(X)
    state = dict(vars(ranker))
    learn = type(ranker)._learn

    def learn_and_fail(self, *arguments):
        learn(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(ranker), "_learn", learn_and_fail)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(pd.DataFrame(X[:90, :1], columns=["x"]), ranks[:90, :4].argmin(axis=1))
    assert vars(ranker).keys() == state.keys()
    assert all(vars(ranker)[name] is value for name, value in state.items())
    np.testing.assert_array_equal(ranker.decision_function(X), before)


@pytest.mark.parametrize(
    ("ranker", "wrong"),
    [
        (NeighborsRanker(consensus="kemeny", random_state=0), {"consensus": "mean"}),
        (NeighborsRanker(weights="uniform", random_state=0), {"weights": "near"}),
        (StructuredRanker("lehmer", random_state=0), {"embedding": "hamming", "gamma": None}),
        (StructuredRanker(decoder="copeland", random_state=0), {"decoder": "insertion"}),
    ],
)
def test_rankings_are_those_of_the_last_fit(ranker, wrong, table):
    X, ranks = table
    before = ranker.fit(X, ranks).decision_function(X)
    with pytest.raises(ValueError, match="must be"):
        ranker.set_params(**wrong).fit(X, ranks)
    np.testing.assert_array_equal(ranker.decision_function(X), before)
