"""Every audited type: whatever is changed in it, it is refused or ranks to an end.

All changes of a model are tried in one child, which may crash. It says what it tries before it
tries it.
"""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from duelrank import (
    AnchoredDuels,
    AnchoredDuelsCV,
    AutoDuels,
    DuelRanker,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StackedDuels,
    StumpDuels,
    predict_order,
)
from duelrank.duels import WithSquares
from duelrank.preprocessing import DateFeatures, TextFeatures, VectorFeatures
from duelrank.shortlists import PlaceIntervals, Shortlister

pytest.importorskip("skops.io")

from duelrank.storage import ModelFileError, ModelTrustWarning, load, save, untrusted_types
from duelrank.storage._audit import audit, reset_for_caller
from duelrank.storage._audited import ANYWHERE, AUDITED, HELPERS
from duelrank.storage._ours import OURS
from duelrank.storage._packing import pack, unpack
from duelrank.storage._sklearn_models import TreePredictor

X, Y = load_iris(return_X_y=True)
X, Y = X[::3], Y[::3]
HOLES = X.copy()
HOLES[::4, 1] = np.nan
CELLS = np.array([["a", 1.0], ["b", 2.0], ["c", 1.0], ["a", 3.0], ["b", np.nan]] * 10, dtype=object)
TEXTS = ["red green", "red blue", "green blue", "red", "green"] * 10
DAYS = np.array([[f"2024-01-{1 + 7 * y + i % 7:02}"] for i, y in enumerate(Y)], dtype=object)
VECTORS = pd.DataFrame({"v": [row.tolist() for row in X]})
RANKS = np.stack([Y + 1, (Y + 1) % 3 + 1, (Y + 2) % 3 + 1], axis=1)


def before(*steps):
    return make_pipeline(*steps, DuelRanker(random_state=0))


def inside(classifier):
    return DuelRanker(classifier, random_state=0)


MODELS = {
    "scales": (before(StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()), X, Y),
    "curves": (before(QuantileTransformer(n_quantiles=9), PowerTransformer()), X, Y),
    "rows": (before(Normalizer(), FunctionTransformer(np.sqrt), VarianceThreshold()), X, Y),
    "components": (before(PCA(3), TruncatedSVD(2)), X, Y),
    "union": (before(make_union(StandardScaler(), Binarizer(threshold=2.0))), X, Y),
    "holes": (before(SimpleImputer(add_indicator=True)), HOLES, Y),
    "cells": (before(OneHotEncoder(max_categories=2, handle_unknown="ignore")), CELLS[:, :1], Y),
    "numbers": (before(OneHotEncoder(drop="first")), CELLS[:, 1:].astype(float), Y),
    "order": (before(OrdinalEncoder(min_frequency=11)), CELLS[:, :1], Y),
    "columns": (
        before(
            make_column_transformer(
                (make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]), remainder="passthrough"
            )
        ),
        HOLES,
        Y,
    ),
    "counts": (before(CountVectorizer(), TfidfTransformer()), TEXTS, Y),
    "terms": (before(TfidfVectorizer()), TEXTS, Y),
    "hashes": (before(HashingVectorizer(n_features=8, alternate_sign=False)), TEXTS, Y),
    "logistic": (inside(LogisticRegression()), X, Y),
    "machine": (inside(LinearSVC()), X, Y),
    "ridge": (inside(RidgeClassifier()), X, Y),
    "discriminant": (inside(LinearDiscriminantAnalysis()), X, Y),
    "gauss": (inside(GaussianNB()), X, Y),
    "bernoulli": (inside(BernoulliNB(binarize=2.0)), X, Y),
    "multinomial": (inside(MultinomialNB()), X, Y),
    "complement": (inside(ComplementNB()), X, Y),
    "tree": (inside(DecisionTreeClassifier(max_depth=2)), X, Y),
    "random tree": (inside(ExtraTreeClassifier(max_depth=2)), X, Y),
    "forest": (inside(RandomForestClassifier(2, max_depth=2)), X, Y),
    "random forest": (inside(ExtraTreesClassifier(2, max_depth=2)), X, Y),
    "forest of rankings": (inside(ForestDuels(2)), X, RANKS),
    "random forest of rankings": (inside(ForestDuels(2, random_splits=True)), X, RANKS),
    "boosting": (inside(HistGradientBoostingClassifier(max_iter=2, max_depth=2)), X, Y),
    "boosting of categories": (
        inside(HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])),
        np.column_stack([np.arange(50) % 7, X]),
        Y,
    ),
    "calibrated": (inside(CalibratedClassifierCV(GaussianNB(), cv=2)), X, Y),
    "search": (GridSearchCV(DuelRanker(random_state=0), {"ties": ["index"]}, cv=2), X, Y),
    "random search": (
        RandomizedSearchCV(
            DuelRanker(random_state=0), {"ties": ["index"]}, n_iter=1, cv=2, random_state=0
        ),
        X,
        Y,
    ),
    "frozen": (before(FrozenEstimator(StandardScaler().fit(X))), X, Y),
    "our logistic": (inside(LogisticDuels(keep_rows=True)), X, Y),
    "our logistic cv": (inside(LogisticDuelsCV(2, cv=2)), X, Y),
    "anchored": (inside(AnchoredDuels(rivals=1)), X, Y),
    "anchored cv": (inside(AnchoredDuelsCV(2, cv=2)), X, Y),
    "kernel": (inside(KernelDuels(10)), X, Y),
    "stumps": (inside(StumpDuels()), X, Y),
    "auto": (inside(AutoDuels({"stumps": StumpDuels(), "logistic": LogisticDuels()})), X, Y),
    "stack": (
        inside(
            StackedDuels(
                [("squares", make_pipeline(WithSquares(), LogisticDuels())), ("s", StumpDuels())],
                cv=2,
            )
        ),
        X,
        Y,
    ),
    "lists": (Shortlister(DuelRanker(random_state=0), 0.6, cv=2, random_state=0), X, Y),
    "places": (PlaceIntervals(DuelRanker(random_state=0), 0.6, random_state=0), X, RANKS),
    "our terms": (before(TextFeatures()), TEXTS, Y),
    "dates": (before(DateFeatures()), DAYS, Y),
    "vectors": (before(VectorFeatures()), VECTORS, Y),
}
# Some have their own tests, or need no array.
ELSEWHERE = {RandomForestRegressor, ExtraTreesRegressor}


def fitted(name):
    model, points, labels = MODELS[name]
    return model.fit(points, labels), points


def ranked(model, points):
    is_intervals = isinstance(model, PlaceIntervals)
    return model.predict_intervals(points) if is_intervals else predict_order(model, points)


def objects_in(model):
    """Return all objects with attributes that can be reached, each once."""
    found, waiting, seen = [], [model], set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            waiting += thing.values()
        elif isinstance(thing, (list, tuple)):
            waiting += thing
        elif hasattr(thing, "__dict__") and type(thing).__module__.startswith(
            ("sklearn.", "duelrank.")
        ):
            found.append(thing)
            waiting += vars(thing).values()
    return found


@pytest.mark.parametrize("name", MODELS)
def test_audited_models_are_loaded_without_being_trusted(name, tmp_path):
    model, points = fitted(name)
    save(model, tmp_path / "model.skops")  # would warn
    assert untrusted_types(tmp_path / "model.skops") == []
    same = load(tmp_path / "model.skops")
    assert np.array_equal(ranked(same, points), ranked(model, points))


def test_every_audited_type_is_tried():
    tried = {type(thing) for name in MODELS for thing in objects_in(fitted(name)[0])}
    assert {
        kind for kind in [*AUDITED, *OURS] if issubclass(kind, BaseEstimator)
    } - tried - ELSEWHERE == set()


def test_the_audited_types_are_those_of_the_security_policy():
    policy = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    listed = policy[policy.index("Audited are ") : policy.index("**All other types must be named")]
    trees = {"DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees"}
    assert "; decision trees, extra trees and their forests; and" in listed
    assert {
        *re.findall("`(.*?)`", listed),
        *(f"{tree}{task}" for tree in trees for task in ("Classifier", "Regressor")),
    } == {kind.__name__ for kind in AUDITED if not kind.__name__.startswith("_")}


def changes_of_array(array):
    yield array[:0]
    yield array[..., :-1] if array.ndim else array
    yield np.concatenate([array, array]) if array.ndim else array
    yield array[np.newaxis]
    if array.dtype.names:
        for field in array.dtype.names:
            for value in (2, 2**30):
                changed = array.copy()
                changed[field][:1] = np.array(value).astype(changed[field].dtype)
                yield changed
        return
    yield array.astype(object)
    yield array.astype(str) if array.dtype != object else array[::-1]
    if array.dtype.kind in "iuf":
        for value in (-1, 2**30, np.nan, np.inf):
            changed = array.astype(float) if value != value or value == np.inf else array.copy()
            changed.flat[-1:] = np.array(value).astype(changed.dtype)
            yield changed
        yield array[::-1].copy()


def changes_of(value):
    """Yield what a hostile file could have in place of a value."""
    yield from (None, "hostile", -1, 2**40, 2.5, np.nan, [], {}, np.zeros(0), np.array([2**40]))
    if isinstance(value, np.ndarray):
        yield from changes_of_array(value)
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        yield from (int(value) + 1, int(value) - 1, 0)
    elif isinstance(value, list):
        yield from (value[:-1], value + value[:1], value[::-1])
        for place, part in enumerate(value[:2]):
            if isinstance(part, (np.ndarray, int)):
                for changed in (c for c in changes_of(part) if c is not part):
                    yield [*value[:place], changed, *value[place + 1 :]]
    elif isinstance(value, dict) and value:
        first = next(iter(value))
        yield {key: part for key, part in value.items() if key != first}
        yield value | {first: 2**40}
        yield value | {"hostile": 0}


PARAMETERS = (None, "hostile", -1, 2**40, np.zeros(3))  # in place of parameters


def try_all(name):
    """Change everything in a model, one after the other, and rank by what is not refused."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    model, points = fitted(name)
    counts = {"refused": 0, "ranked": 0, "failed": 0}
    done = set()
    for thing in objects_in(model):
        if type(thing) in done or type(thing) not in {*AUDITED, *HELPERS, *OURS, TreePredictor}:
            continue  # one of many equal ones
        done.add(type(thing))
        attributes = dict(vars(thing))
        for attribute in [*attributes, "hostile_"]:
            old = attributes.get(attribute)
            is_parameter = attribute in getattr(thing, "_get_param_names", list)()
            all_changes = PARAMETERS if is_parameter else changes_of(old)
            for number, new in enumerate([..., *all_changes]):
                print(type(thing).__name__, attribute, number, flush=True)
                vars(thing)[attribute] = new
                if new is ...:
                    vars(thing).pop(attribute)
                counts[outcome(model, points)] += 1
                vars(thing).clear()
                vars(thing).update(attributes)
    print(counts)
    assert outcome(model, points) == "ranked"
    assert counts["refused"] > 50


def outcome(model, points):
    try:
        (same,) = unpack(pack([model]))
        audit(same)
        reset_for_caller(same)
    except Exception:  # `load` makes its own error of all of them
        return "refused"
    try:
        ranked(same, points)
    except Exception as error:
        print("failed:", type(error).__name__, str(error)[:100])
        return "failed"
    return "ranked"


def tried_in_a_child(names):
    script = "import sys; sys.path.insert(0, sys.argv[1]); import test_audit\n"
    script += "for name in sys.argv[2:]: print(name); test_audit.try_all(name)"
    folder = str(Path(__file__).parent)
    run = subprocess.run(
        [sys.executable, "-c", script, folder, *names],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    return run.returncode, "\n".join([*run.stdout.splitlines()[-3:], run.stderr[-2000:]])


# What the command makes, and where wrong numbers have crashed processes.
FIRST = ["holes", "cells", "numbers", "order", "counts", "tree"]


def test_changed_models_of_the_command_do_not_crash_the_process():
    code, told = tried_in_a_child(FIRST)
    assert code == 0, told


@pytest.mark.slow
def test_changed_models_do_not_crash_the_process():
    code, told = tried_in_a_child([name for name in MODELS if name not in FIRST])
    assert code == 0, told


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_attribute_in_the_docs_may_be_in_a_file(kind):
    parts = (kind.__doc__ or "").split("\n    Attributes\n    ----------\n")
    told = re.findall(r"^    (\w+_(?:, \w+_)*) :", "".join(parts[1:]), re.MULTILINE)
    names = {name for line in told for name in line.split(", ")}
    known = {*OURS[kind].fitted, *OURS[kind].optional, *ANYWHERE}
    computed = {name for name in names if isinstance(getattr(kind, name, None), property)}
    assert names - computed <= known


def test_columns_that_cannot_matter_come_back(tmp_path):
    rows = X * [1, 1e-200, 1, 1]
    with pytest.warns(UserWarning, match="too small to matter"):
        model = DuelRanker(LogisticDuels(), random_state=0).fit(rows, Y)
    save(model, tmp_path / "model.skops")
    same = load(tmp_path / "model.skops")
    assert same.duels_.negligible_columns_.tolist() == [1]
    assert same.predict_ranks(rows).tolist() == model.predict_ranks(rows).tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [("classes", np.sqrt), ("calibrators", []), ("calibrators", [None]), ("method", "sqrt")],
)
def test_parts_of_calibrated_classifiers_are_checked(name, value, tmp_path):
    model = inside(CalibratedClassifierCV(GaussianNB(), cv=2)).fit(X, Y)
    for classifier in model.duels_.estimators_:
        setattr(classifier.calibrated_classifiers_[0], name, value)
    with pytest.warns(ModelTrustWarning):
        save(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError):
        load(tmp_path / "model.skops")


def test_stumps_of_very_different_weights_come_back(tmp_path):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows, weights = rng.standard_normal((40, 2)), 10.0 ** rng.uniform(-9, 9, 40)
        model = DuelRanker(StumpDuels()).fit(rows, np.arange(40) % 3, sample_weight=weights)
        assert np.all(model.duels_.leaf_probabilities_ >= 0)
        save(model, tmp_path / "model.skops")
        same = load(tmp_path / "model.skops")
        assert np.array_equal(same.predict_ranks(rows), model.predict_ranks(rows))


@pytest.mark.parametrize("sign", [np.int8(-128), np.int8(2)])
def test_signs_of_stumps_are_checked(sign, tmp_path):
    model = DuelRanker(StumpDuels()).fit(X, Y)
    model.duels_.sign_ = np.full(3, sign)
    save(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError):
        load(tmp_path / "model.skops")


@pytest.mark.parametrize(
    ("classifier", "weights"),
    [
        (RandomForestClassifier(5, oob_score=True, random_state=0), None),
        (HistGradientBoostingClassifier(max_iter=2), np.linspace(1, 2, len(Y))),
    ],
    ids=["out of bag", "weighted boosting"],
)
def test_what_some_parameters_add_is_known(classifier, weights, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that few trees leave rows in every bag
        model = inside(classifier).fit(X, Y, sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(model, tmp_path / "model.skops")
    assert np.array_equal(load(tmp_path / "model.skops").predict(X), model.predict(X))
