"""DuelRanker.partial_fit and drop_labels: labels and rows that come and go."""

import copy

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from duelrank import (
    AnchoredDuels,
    AutoDuels,
    DuelRanker,
    LogisticDuels,
    LogisticDuelsCV,
    StumpDuels,
)
from duelrank.duels.logistic import _fit


def exact(**parameters):
    return DuelRanker(LogisticDuels(keep_rows=True, **parameters), random_state=0)


def assert_same_ranker(updated, scratch, X):
    assert updated.classes_.tolist() == scratch.classes_.tolist()
    assert updated.classes_.dtype == scratch.classes_.dtype
    assert np.array_equal(updated.label_order_, scratch.label_order_)
    assert updated.rank_columns_.tolist() == scratch.rank_columns_.tolist()
    np.testing.assert_allclose(updated.duels_.coef_, scratch.duels_.coef_, atol=1e-4)
    assert np.array_equal(updated.predict_ranks(X), scratch.predict_ranks(X))


# What scikit-learn's own one-vs-one classifier is tested for.


@pytest.mark.parametrize("first", [100, 60, 40])
def test_batches_predict_what_a_fit_predicts(iris, first):
    X, y = iris
    ranker = exact().partial_fit(X[:first], y[:first], np.unique(y))
    ranker.partial_fit(X[first:], y[first:])
    scratch = exact().fit(X, y)
    assert len(ranker.duels_.intercept_) == 3
    assert_same_ranker(ranker, scratch, X)
    assert np.mean(ranker.predict(X) == y) > 0.95


def test_labels_that_classes_do_not_name_are_refused(iris):
    X, y = iris
    strange = [0, 1, 2, 3, 4, 5, 2]
    ranker = exact()
    with pytest.raises(ValueError, match=r"not among the classes: \[3, 4, 5\]"):
        ranker.partial_fit(X[:7], strange, np.unique(y))
    assert not hasattr(ranker, "duels_")
    ranker.fit(X, y)
    with pytest.raises(ValueError, match=r"not among the classes: \[3, 4, 5\]"):
        ranker.partial_fit(X[:7], strange, np.unique(y))
    with pytest.raises(ValueError, match=r"not known yet: \[3, 4, 5\]; new_labels='add'"):
        ranker.partial_fit(X[:7], strange, new_labels="error")
    assert ranker.classes_.tolist() == [0, 1, 2]


def test_only_engines_that_can_have_it():
    for engine in (None, LogisticDuels()):
        assert hasattr(DuelRanker(engine), "partial_fit")
        assert hasattr(DuelRanker(engine), "drop_labels")
    others = (SVC(), LogisticRegression(), StumpDuels(), LogisticDuelsCV(), AnchoredDuels())
    for engine in (*others, AutoDuels()):
        assert not hasattr(DuelRanker(engine), "partial_fit")
        assert not hasattr(DuelRanker(engine), "drop_labels")


# What scikit-learn's cannot do.


def test_labels_come_and_go(digits):
    X, y = (part[:600] for part in digits)
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven"], object)
    few = y < 8
    X, y = X[few], names[y[few]].astype(str)
    late = np.isin(y, ["six", "zero"])
    ranker = exact(C=0.01).partial_fit(X[~late][:200], y[~late][:200])
    ranker.partial_fit(X[late], y[late])
    ranker.partial_fit(X[~late][200:], y[~late][200:])
    scratch = exact(C=0.01).fit(X, y)
    assert_same_ranker(ranker, scratch, X)
    stays = ~np.isin(y, ["one", "seven"])
    ranker.drop_labels(["seven", "one"])
    assert_same_ranker(ranker, exact(C=0.01).fit(X[stays], y[stays]), X)
    ranker.partial_fit(X[~stays], y[~stays])
    assert_same_ranker(ranker, scratch, X)


def test_class_weights_follow_their_labels(iris):
    X, y = iris
    y = np.array(["b", "d", "f"])[y]
    weights = {"d": 3.0, "f": 0.5}
    ranker = exact(class_weight=weights).fit(X, y)
    more = np.full((10, 4), 3.0) + np.random.default_rng(0).normal(size=(10, 4))
    labels = ["a"] * 5 + ["e"] * 5
    ranker.partial_fit(more, labels)
    scratch = exact(class_weight=weights).fit(np.vstack([X, more]), [*y, *labels])
    assert_same_ranker(ranker, scratch, X)
    ranker.drop_label("b")
    assert ranker.duels_.class_weight[1] == 3.0
    ranker.partial_fit(X[y == "b"], y[y == "b"])
    assert_same_ranker(ranker, scratch, X)


def test_classes_may_name_labels_without_rows(iris):
    X, y = iris
    ranker = exact().partial_fit(X, y, classes=[2, 1, 0, 7])
    assert ranker.classes is None
    assert ranker.classes_.tolist() == [0, 1, 2, 7]
    ranker.partial_fit(X[:3], y[:3], classes=[0, 1, 2, 5, 7])
    assert ranker.classes_.tolist() == [0, 1, 2, 5, 7]
    assert np.all(ranker.predict_ranks(X)[:, 3:] > 3)
    with pytest.raises(
        ValueError, match=r"classes must name all labels known so far, but \[5, 7\]"
    ):
        ranker.partial_fit(X, y, classes=[0, 1, 2])


def test_the_parameter_classes_is_that_of_a_fit(iris):
    X, y = iris
    ranker = exact().set_params(classes=[0, 1, 2, 3]).partial_fit(X, y)
    assert ranker.classes_.tolist() == [0, 1, 2, 3]


def test_label_order_is_that_of_a_fit_and_stays_while_labels_do(iris):
    X, y = iris
    ranker = DuelRanker(LogisticDuels(keep_rows=True)).fit(X, y)
    order = ranker.label_order_
    ranker.partial_fit(X[:5], y[:5])
    assert ranker.label_order_ is order
    ranker = exact().set_params(ties="index").fit(X, y).partial_fit(X[:3], [5, 5, 5])
    assert ranker.label_order_.tolist() == [0, 1, 2, 3]


def test_sparse_rows_and_dataframes(iris):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    X, y = iris
    ranker = exact().fit(sparse.csr_array(X[:120]), y[:120])
    assert_same_ranker(ranker.partial_fit(sparse.csr_array(X[120:]), y[120:]), exact().fit(X, y), X)
    table = pandas.DataFrame(X, columns=list("abcd"))
    ranker = exact().fit(table[:120], y[:120]).partial_fit(table[120:], y[120:])
    assert ranker.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        ranker.partial_fit(table[["b", "a", "c", "d"]], y)


def test_a_pipeline_is_updated_at_its_end(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), exact()).fit(X[:110], y[:110])
    pipeline[-1].partial_fit(pipeline[:-1].transform(X[110:]), y[110:])
    scratch = exact().fit(pipeline[:-1].transform(X), y)
    assert_same_ranker(pipeline[-1], scratch, pipeline[:-1].transform(X))


def test_parameters_set_later_wait_for_the_next_fit(iris):
    X, y = iris
    ranker = exact(C=0.1).fit(X[:120], y[:120])
    ranker.set_params(estimator__C=100.0, estimator__fit_intercept=False)
    ranker.partial_fit(X[120:], y[120:])
    assert_same_ranker(ranker, exact(C=0.1).fit(X, y), X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.tile([1.0, 2, 3], (5, 1)), "must hold class labels in partial_fit"),
        (sparse.csr_array(np.ones((5, 3))), "must hold class labels in partial_fit"),
        ([[0], [1, 2], [0], [1], [2]], "y holds lists"),
        (["a"] * 5, "labels of the type of those known"),
        ([0, 1, 2, np.nan, 0], "NaN|missing"),
        ([0, 1], "inconsistent numbers of samples"),
    ],
)
def test_what_cannot_be_learned_changes_nothing(iris, y, message):
    ranker = exact().fit(*iris)
    state = copy.deepcopy(vars(ranker))
    with pytest.raises(ValueError, match=message):
        ranker.partial_fit(iris[0][:5], y)
    assert vars(ranker).keys() == state.keys()
    assert np.array_equal(ranker.duels_.coef_, state["duels_"].coef_)
    assert ranker.classes_.tolist() == [0, 1, 2]


def test_blocks_are_refused(iris):
    dask_array = pytest.importorskip("dask.array", reason="needs the extra dask")
    X, y = iris
    ranker = exact().fit(X, y)
    with pytest.raises(TypeError, match="must be in memory for partial_fit"):
        ranker.partial_fit(dask_array.from_array(X), dask_array.from_array(y))


def test_an_interrupted_update_changes_nothing(iris, monkeypatch):
    X, y = iris
    ranker = exact(class_weight={0: 2.0}).fit(X, y)
    before = copy.deepcopy(ranker)

    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(_fit, "solve_tiles", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ranker.partial_fit(X[:5], [-1] * 5)
    assert ranker.classes_.tolist() == [0, 1, 2]
    assert ranker.duels_.class_weight == before.duels_.class_weight
    assert np.array_equal(ranker.label_order_, before.label_order_)
    assert np.array_equal(ranker.decision_function(X), before.decision_function(X))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "leave at least two"),
        ([5], "not among the classes"),
        (0, "must be a list of labels"),
        ("0", "must be a list of labels"),
    ],
)
def test_labels_that_cannot_be_dropped(iris, labels, message):
    ranker = exact().fit(*iris)
    with pytest.raises(ValueError, match=message):
        ranker.drop_labels(labels)
    assert len(ranker.classes_) == 3


def test_labels_are_dropped_from_a_fit_to_rankings():
    rng = np.random.default_rng(0)
    X, ranks = rng.normal(size=(40, 3)), np.argsort(rng.random((40, 4)), axis=1) + 1.0
    ranker = DuelRanker(classes=["d", "a", "c", "b"], random_state=0).fit(X, ranks)
    before = ranker.predict_ranks(X)
    ranker.drop_labels(["a"])
    assert ranker.classes_.tolist() == ["b", "c", "d"]
    assert ranker.rank_columns_.tolist() == ["d", "c", "b"]
    assert before.shape == (40, 4)
    assert ranker.predict_ranks(X).shape == (40, 3)


def test_unknown_policy_is_refused(iris):
    with pytest.raises(ValueError, match="new_labels must be one of 'add', 'error'"):
        exact().partial_fit(*iris, new_labels="maybe")


def test_without_rows_a_new_label_is_refused_by_its_name(iris):
    X, y = iris
    ranker = DuelRanker(random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    with pytest.raises(ValueError, match=r"\['d'\] had none. Fit with LogisticDuels\(keep_rows"):
        ranker.partial_fit(X[:2], ["a", "d"])
    assert ranker.classes_.tolist() == ["a", "b", "c"]


def test_without_rows_batches_come_close_to_a_fit():
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    train, test = order[:1200], order[1200:]
    engine = LogisticDuels(C=0.001)
    ranker = DuelRanker(engine, random_state=0)
    for batch in np.array_split(train, 6):
        ranker.partial_fit(X[batch], y[batch], classes=np.arange(10))
    whole = DuelRanker(engine, random_state=0).fit(X[train], y[train])
    first = DuelRanker(engine, random_state=0).fit(X[train[:200]], y[train[:200]])
    accuracy, best, of_one_batch = (r.score(X[test], y[test]) for r in (ranker, whole, first))
    assert of_one_batch < accuracy
    assert accuracy > best - 0.02


def test_what_is_kept_belongs_to_the_engine(iris):
    X, y = iris
    weights, labels, points = np.ones(150), y.copy(), X.copy()
    ranker = exact().fit(points, labels, sample_weight=weights)
    engine = LogisticDuels(keep_rows=True).fit(points, labels, 3, weights)
    weights[:], labels[:], points[:] = 100.0, 0, 0.0
    ranker.partial_fit(X[:5], y[:5])
    scratch = exact().fit(np.vstack([X, X[:5]]), np.append(y, y[:5]))
    assert_same_ranker(ranker, scratch, X)
    engine.partial_fit(X[:5], y[:5], 3)
    np.testing.assert_allclose(engine.coef_, scratch.duels_.coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "more"),
    [(np.int8, np.int8(7)), (object, "z"), (np.uint64, np.uint64(2**63 + 5)), ("<U3", "zzz")],
)
def test_labels_keep_their_type(iris, dtype, more):
    X, y = iris
    labels = np.array(["a", "b", "c"])[y] if dtype in (object, "<U3") else y
    ranker = exact().fit(X, labels.astype(dtype))
    ranker.partial_fit(X[:5] + 1, np.full(5, more, dtype=dtype))
    assert ranker.classes_.dtype == np.dtype(dtype)
    assert ranker.classes_.tolist()[-1] == more


def test_labels_of_another_type_are_refused(iris):
    X, y = iris
    ranker = exact().fit(X, y)
    for other in ("1", 5.0):
        with pytest.raises(ValueError, match="y must hold labels of the type of those known so"):
            ranker.partial_fit(X[:2], [other] * 2)
    assert ranker.classes_.tolist() == [0, 1, 2]


def test_weights_are_routed(iris):
    X, y = iris
    Y, classes = np.column_stack([y, y[::-1]]), [[0, 1, 2]] * 2
    with sklearn.config_context(enable_metadata_routing=True):
        several = MultiOutputClassifier(exact())
        several.partial_fit(X, Y, classes=classes, sample_weight=np.ones(150))
        several.partial_fit(X, Y, sample_weight=np.full(150, 2.0))
    scratch = exact().fit(np.vstack([X, X]), np.append(y, y), np.repeat([1.0, 2.0], 150))
    assert_same_ranker(several.estimators_[0], scratch, X)
