"""Rows that classifiers are evaluated on while they learn: every duel gets its own of them."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import has_fit_parameter

from duelrank import DuelRanker, EstimatorDuels, pairs

NAMES = np.array(["setosa", "versicolor", "virginica"])
ALL_X, ALL_Y = load_iris(return_X_y=True)
X, XV, Y, YV = train_test_split(ALL_X, ALL_Y, random_state=0, stratify=ALL_Y)
ARGUMENTS = (
    "eval_set",
    "sample_weight_eval_set",
    "eval_init_score",
    "eval_names",
    "eval_class_weight",
    "eval_group",
    "eval_X",
    "eval_y",
    "X_val",
    "y_val",
    "sample_weight_val",
)


class Boosted(ClassifierMixin, BaseEstimator):
    """Stands for a boosting library: it keeps what it was given."""

    def __init__(self, pairwise=False):
        self.pairwise = pairwise

    def fit(
        self,
        X,
        y,
        eval_set=None,
        sample_weight_eval_set=None,
        eval_init_score=None,
        eval_names=None,
        eval_class_weight=None,
        eval_group=None,
        eval_X=None,
        eval_y=None,
        X_val=None,
        y_val=None,
        sample_weight_val=None,
    ):
        given = locals()
        self.given_ = {name: given[name] for name in ARGUMENTS if given[name] is not None}
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(X.shape[0], dtype=int)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.pairwise
        tags.input_tags.sparse = True
        return tags


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def asking(classifier, *names):
    return classifier.set_fit_request(**dict.fromkeys(names, True))


def given_to_duels(ranker):
    """Yield what every classifier was given, and the codes of its labels."""
    yield from zip(ranker.duels_.estimators_, *pairs(3), strict=True)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("as_labels", [np.asarray, pd.Series, list])
@pytest.mark.parametrize(
    "as_points", [np.asarray, pd.DataFrame, sparse.csc_array, np.ndarray.tolist]
)
def test_a_duel_is_evaluated_on_rows_of_its_labels(as_points, as_labels, n_jobs):
    weights = np.arange(len(YV)) + 1.0
    ranker = DuelRanker(asking(Boosted(), "eval_set", "sample_weight_eval_set", "eval_names"))
    with parallel_config(backend="threading"):
        ranker.set_params(n_jobs=n_jobs).fit(
            X,
            NAMES[Y],
            eval_set=[(as_points(XV), as_labels(NAMES[YV])), (X, NAMES[Y])],
            sample_weight_eval_set=[as_labels(weights), None],
            eval_names=["new", "old"],
        )
    for classifier, first, second in given_to_duels(ranker):
        (points, sides), (old_points, old_sides) = classifier.given_["eval_set"]
        rows = np.flatnonzero((first == YV) | (second == YV))
        points = points.toarray() if sparse.issparse(points) else np.asarray(points)
        np.testing.assert_array_equal(points, XV[rows])
        np.testing.assert_array_equal(sides, YV[rows] == second)
        assert sides.dtype.kind == "i"
        old = np.flatnonzero((first == Y) | (second == Y))
        np.testing.assert_array_equal(old_points, X[old])
        np.testing.assert_array_equal(old_sides, Y[old] == second)
        (new_weights, no_weights) = classifier.given_["sample_weight_eval_set"]
        np.testing.assert_array_equal(new_weights, weights[rows])
        assert no_weights is None
        assert classifier.given_["eval_names"] == ["new", "old"]


def test_one_pair_stays_one_pair():
    ranker = DuelRanker(asking(Boosted(), "eval_set")).fit(X, NAMES[Y], eval_set=(XV, NAMES[YV]))
    for classifier, first, second in given_to_duels(ranker):
        points, sides = classifier.given_["eval_set"]
        rows = (first == YV) | (second == YV)
        np.testing.assert_array_equal(points, XV[rows])
        np.testing.assert_array_equal(sides, YV[rows] == second)


@pytest.mark.parametrize("as_many", [False, True])
def test_points_and_labels_in_arguments_of_their_own(as_many):
    # As many rows as there are to learn from: they must not be taken for metadata of these.
    points, labels = ALL_X[: len(X)], NAMES[ALL_Y[: len(X)]]
    weights = np.arange(len(X)) + 0.5
    named = ("X_val", "y_val", "sample_weight_val")
    given = dict(zip(named, (points, labels, weights), strict=True))
    if as_many:
        named = ("eval_X", "eval_y", "eval_init_score")
        given = dict(zip(named, ((points, XV), (labels, NAMES[YV]), [weights, None]), strict=True))
    ranker = DuelRanker(asking(Boosted(), *named)).fit(X, NAMES[Y], **given)
    for classifier, first, second in given_to_duels(ranker):
        found = [classifier.given_[name] for name in named]
        assert all(isinstance(value, (tuple, list)) is as_many for value in found)
        if as_many:
            np.testing.assert_array_equal(found[1][1], YV[(first == YV) | (second == YV)] == second)
            assert found[2][1] is None
            found = [value[0] for value in found]
        rows = np.isin(labels, NAMES[[first, second]])
        np.testing.assert_array_equal(found[0], points[rows])
        np.testing.assert_array_equal(found[1], labels[rows] == NAMES[second])
        np.testing.assert_array_equal(found[2], weights[rows])


def test_codes_of_an_engine_alone():
    engine = EstimatorDuels(asking(Boosted(), "eval_set")).fit(X, Y, 3, eval_set=[(XV, YV)])
    for classifier, first, second in zip(engine.estimators_, *pairs(3), strict=True):
        (sides,) = [sides for _, sides in classifier.given_["eval_set"]]
        np.testing.assert_array_equal(sides, YV[(first == YV) | (second == YV)] == second)
    with pytest.raises(ValueError, match=r"eval_set\[0\] holds labels that are not among the cla"):
        engine.fit(X, Y, 3, eval_set=[(XV, YV + 1)])


def test_sets_by_another_name_in_a_pipeline():
    inner = Boosted().set_fit_request(eval_set="watched")
    ranker = DuelRanker(make_pipeline(FunctionTransformer(), inner))
    ranker.fit(X, NAMES[Y], watched=[(XV, NAMES[YV])])
    for classifier, first, second in given_to_duels(ranker):
        ((_, sides),) = classifier[-1].given_["eval_set"]
        np.testing.assert_array_equal(sides, YV[(first == YV) | (second == YV)] == second)


def test_columns_of_a_kernel_are_the_rows_of_the_duel():
    inner = asking(Boosted(pairwise=True), "X_val", "y_val")
    kernel, new = linear_kernel(X), linear_kernel(XV, X)
    ranker = DuelRanker(inner).fit(kernel, NAMES[Y], X_val=new, y_val=NAMES[YV])
    for classifier, first, second in given_to_duels(ranker):
        rows = [np.flatnonzero((y == first) | (y == second)) for y in (YV, Y)]
        np.testing.assert_array_equal(classifier.given_["X_val"], new[np.ix_(*rows)])


def test_rankings_to_learn_from_and_labels_to_evaluate():
    ranks = np.where(Y[:, np.newaxis] == np.arange(3), 1.0, 2.0)
    ranker = DuelRanker(asking(Boosted(), "eval_set"), classes=NAMES)
    ranker.fit(X, ranks, eval_set=[(XV, NAMES[YV])])
    ((_, sides),) = ranker.duels_.estimators_[2].given_["eval_set"]
    np.testing.assert_array_equal(sides, YV[YV > 0] == 2)


def test_labels_without_duels_need_no_rows():
    known = np.array([*NAMES, "tulip"])
    ranker = DuelRanker(asking(Boosted(), "eval_set"), classes=known)
    ranker.fit(X, NAMES[Y], eval_set=[(XV, NAMES[YV])])
    assert [e is None for e in ranker.duels_.estimators_].count(True) == 3


REST = YV > 0  # without the first label


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (
            {"eval_set": [(XV, NAMES[YV]), (XV[REST], NAMES[YV[REST]])]},
            ValueError,
            r"eval_set\[1\] has no row of the labels \['setosa'\], but every duel is evaluated on "
            r"rows of both its labels\.",
        ),
        (
            {"X_val": XV[YV == 1], "y_val": NAMES[YV[YV == 1]]},
            ValueError,
            r"y_val has no row of the labels \['setosa', 'virginica'\], but every duel",
        ),
        (
            {"eval_set": [(XV, np.where(REST, NAMES[YV], "rose"))]},
            ValueError,
            r"eval_set\[0\] holds labels that are not among the classes: \['rose'\]; these are "
            r"\['setosa', 'versicolor', 'virginica'\]\.",
        ),
        (
            {"eval_set": [(XV, NAMES[YV][:5])]},
            ValueError,
            r"eval_set\[0\] must hold one label for each of its 38 rows, got labels of shape \(5,",
        ),
        (
            {"eval_set": [(XV, np.ones((len(XV), 3)))]},
            ValueError,
            r"eval_set\[0\] must hold one label for each of its 38 rows, got .* \(38, 3\)\.",
        ),
        (
            {"eval_set": pd.DataFrame(XV)},
            TypeError,
            "eval_set must be a list of .*DataFrame",
        ),
        ({"eval_set": [XV, YV]}, TypeError, r"eval_set must be a list of pairs \(X, y\) for duels"),
        ({"X_val": XV}, ValueError, "y_val must be given, as X_val and y_val belong together"),
        ({"y_val": YV}, ValueError, "X_val must be given, as X_val and y_val belong together"),
        (
            {"eval_X": (XV, XV), "eval_y": (NAMES[YV],)},
            ValueError,
            "eval_y must have as many parts as eval_X: 2, got 1",
        ),
        (
            {"eval_set": [(XV, NAMES[YV])], "sample_weight_eval_set": [np.ones(5)]},
            ValueError,
            r"sample_weight_eval_set must have one value for each row of eval_set: \[38\], got \[5",
        ),
        (
            {"eval_set": [(XV, NAMES[YV])], "eval_init_score": []},
            ValueError,
            r"eval_init_score must have one value for each row of eval_set: \[38\], got \[\]",
        ),
        *(
            (
                {"eval_set": [(XV, NAMES[YV])], name: [1]},
                ValueError,
                f"{name} cannot be given for duels, which have other labels and rows of their own",
            )
            for name in ("eval_class_weight", "eval_group")
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(given, error, sentence):
    ranker = DuelRanker(asking(Boosted(), *ARGUMENTS))
    with pytest.raises(error, match=f"^{sentence}"):
        ranker.fit(X, NAMES[Y], **given)
    assert not hasattr(ranker, "duels_")


@pytest.mark.skipif(
    not has_fit_parameter(HistGradientBoostingClassifier, "X_val"),
    reason="this scikit-learn takes no rows to evaluate",
)
def test_gradient_boosting_stops_early_as_it_does_alone():
    settings = {"early_stopping": True, "n_iter_no_change": 3, "random_state": 0}
    inner = HistGradientBoostingClassifier(**settings).set_fit_request(X_val=True, y_val=True)
    ranker = DuelRanker(inner, random_state=0).fit(X, NAMES[Y], X_val=XV, y_val=NAMES[YV])
    _check_against_classifiers_alone(
        ranker,
        HistGradientBoostingClassifier(**settings),
        lambda points, y: {"X_val": points, "y_val": y},
    )
    assert min(e.n_iter_ for e in ranker.duels_.estimators_) < 100


def test_xgboost_stops_early_as_it_does_alone():
    xgboost = pytest.importorskip("xgboost")
    settings = {"early_stopping_rounds": 5, "n_estimators": 300, "n_jobs": 1, "random_state": 0}
    inner = xgboost.XGBClassifier(**settings).set_fit_request(eval_set=True, verbose=True)
    # Labels that XGBoost would take as they are, and evaluate by.
    ranker = DuelRanker(inner, random_state=0)
    ranker.fit(X, Y, eval_set=[(XV, YV)], verbose=False)
    _check_against_classifiers_alone(
        ranker,
        xgboost.XGBClassifier(**settings),
        lambda points, y: {"eval_set": [(points, y)], "verbose": False},
    )
    assert min(e.best_iteration for e in ranker.duels_.estimators_) < 299


def test_lightgbm_stops_early_as_it_does_alone():
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"n_estimators": 300, "n_jobs": 1, "random_state": 0, "verbose": -1}
    stop = [lightgbm.early_stopping(5, verbose=False)]
    requests = dict.fromkeys(("eval_X", "eval_y", "callbacks"), True)
    if not has_fit_parameter(lightgbm.LGBMClassifier, "eval_X"):
        pytest.skip("this LightGBM takes eval_set alone")
    inner = lightgbm.LGBMClassifier(**settings).set_fit_request(**requests)
    ranker = DuelRanker(inner, random_state=0)
    ranker.fit(X, NAMES[Y], eval_X=XV, eval_y=NAMES[YV], callbacks=stop)
    _check_against_classifiers_alone(
        ranker,
        lightgbm.LGBMClassifier(**settings),
        lambda points, y: {"eval_X": points, "eval_y": y, "callbacks": stop},
    )
    assert min(e.best_iteration_ for e in ranker.duels_.estimators_) < 300


def _check_against_classifiers_alone(ranker, classifier, evaluation):
    """Compare with the classifier fitted and evaluated on the rows of two labels by hand."""
    for fitted, first, second in given_to_duels(ranker):
        rows, new = ((y == first) | (y == second) for y in (Y, YV))
        alone = classifier.fit(X[rows], Y[rows] == second, **evaluation(XV[new], YV[new] == second))
        np.testing.assert_array_equal(fitted.predict_proba(XV), alone.predict_proba(XV))
