"""Saved models: the same model comes back, and nothing else ever does."""

import functools
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.fixes import parse_version

from duelrank import (
    AnchoredDuels,
    AnchoredDuelsCV,
    DuelRanker,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StackedDuels,
    StumpDuels,
    predict_order,
    predict_ranks,
)

skops_io = pytest.importorskip("skops.io")

from duelrank._files import replacing  # noqa: E402
from duelrank._sklearn import predictor_inside  # noqa: E402
from duelrank.duels import WithSquares  # noqa: E402
from duelrank.losses import kendall_tau  # noqa: E402
from duelrank.rankings import ranks_from_scores  # noqa: E402
from duelrank.scoring import kendall_tau_scorer, top_k_scorer  # noqa: E402
from duelrank.storage import (  # noqa: E402
    ModelFileError,
    ModelVersionWarning,
    UntrustedTypesError,
    _archive,
    _audit,
    _names,
    _versions,
    describe,
    load,
    load_with_description,
    save,
    untrusted_types,
)
from duelrank.storage._packing import pack, unpack  # noqa: E402

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")


def load_trusting(path):
    """Load a file of our own, whatever it holds."""
    return load(path, trusted=untrusted_types(path))


X, Y = load_iris(return_X_y=True)
NAMES = np.array(["01", "1", "ü"], dtype=object)
LABELS = NAMES[Y]

STACK = StackedDuels(
    [
        ("squares", make_pipeline(StandardScaler(), WithSquares(), LogisticDuelsCV(2, cv=None))),
        ("forest", ForestDuels(3)),
        ("stumps", StumpDuels()),
    ],
    cv=2,
)
ENGINES = [
    None,
    LogisticDuelsCV(Cs=3, cv=2),
    AnchoredDuels(rivals=1),
    AnchoredDuelsCV(2, 2),
    StumpDuels(),
    ForestDuels(5),
    ForestDuels(3, random_splits=True, max_samples=20),
    KernelDuels(20),
    STACK,
    LogisticRegression(),
    SGDClassifier(loss="log_loss"),
    GaussianNB(),
    SVC(),
    SVC(kernel="linear", class_weight="balanced"),
    KNeighborsClassifier(),
    KNeighborsClassifier(algorithm="ball_tree", metric="manhattan"),
    DecisionTreeClassifier(max_depth=3),
    RandomForestClassifier(5),
    ExtraTreesClassifier(3),
    BaggingClassifier(n_estimators=3, max_features=0.5),
    AdaBoostClassifier(n_estimators=3),
    GradientBoostingClassifier(n_estimators=3),
    HistGradientBoostingClassifier(max_iter=3, categorical_features=[3]),
    CalibratedClassifierCV(DecisionTreeClassifier(max_depth=2), cv=2),
    StackingClassifier([("bayes", GaussianNB()), ("tree", DecisionTreeClassifier())], cv=2),
    make_pipeline(StandardScaler(), LinearSVC()),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
]


def fitted(engine=None, **parameters):
    return DuelRanker(engine, random_state=0, **parameters).fit(X, LABELS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: " ".join(str(e).split())[:60])
def test_what_is_saved_is_loaded(engine, path):
    ranker = fitted(engine)
    save(ranker, path)
    same = load_trusting(path)
    assert np.array_equal(same.decision_function(X), ranker.decision_function(X))
    assert same.classes_.tolist() == NAMES.tolist()
    assert same.get_params().keys() == ranker.get_params().keys()
    if hasattr(ranker, "predict_proba"):
        assert np.array_equal(same.predict_proba(X), ranker.predict_proba(X))


def full_rankings():
    """Rankings of the three labels, of which some are lost; columns in no particular order."""
    ranks = (Y[:, np.newaxis] != np.arange(3)) + np.random.RandomState(0).rand(150, 3)
    ranks = ranks.argsort(axis=1).argsort(axis=1) + 1.0
    ranks[::7, 0] = np.nan
    return pd.DataFrame(ranks, columns=NAMES)[["ü", "01", "1"]]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: " ".join(str(e).split())[:60])
def test_what_learned_from_rankings_is_loaded(engine, path):
    ranker = DuelRanker(engine, random_state=0, unplaced="unknown").fit(X, full_rankings())
    save(ranker, path)
    same = load_trusting(path)
    assert np.array_equal(same.decision_function(X), ranker.decision_function(X))
    assert same.classes_.tolist() == sorted(NAMES)
    assert (same.unplaced, same.unplaced_, same.n_silent_rows_) == ("unknown", "unknown", 0)
    assert same.score(X, full_rankings()) == ranker.score(X, full_rankings())


@pytest.mark.parametrize("classes", [["ü", "01", "1"], NAMES[[2, 0, 1]], ("ü", "01", "1")])
def test_the_names_of_columns_are_loaded(classes, path):
    ranks = full_rankings()
    model = make_pipeline(StandardScaler(), DuelRanker(random_state=0, classes=classes))
    save(model.fit(X, ranks.to_numpy()), path, target=["first", "second"])
    same = load(path)
    assert type(same[-1].classes) is type(classes)
    assert list(same[-1].classes) == list(classes)
    assert np.array_equal(same.decision_function(X), model.decision_function(X))
    again = same.fit(X, ranks.to_numpy())
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    description = describe(path)
    assert description.target == "first"
    assert description.targets == ["first", "second"]
    assert description.learned_from_lists


def test_parameters_that_a_file_does_not_know_have_their_defaults(path):
    """As in files of a version without them."""
    ranker = fitted(RandomForestClassifier(3))
    ranks = ranker.predict_ranks(X)
    for name in ("unplaced", "classes", "unplaced_", "n_silent_rows_"):
        delattr(ranker, name)
    save(make_pipeline(StandardScaler().fit(X), ranker), path, target="kind")
    same = load(path)[-1]
    assert (same.unplaced, same.classes) == ("auto", None)
    assert np.array_equal(same.predict_ranks(X), ranks)
    assert same.score(X, ranks) == 1
    assert (
        str(clone(same))
        == "DuelRanker(estimator=RandomForestClassifier(n_estimators=3), random_state=0)"
    )
    description = describe(path)
    assert description.targets == ["kind"]
    assert not description.learned_from_lists


@pytest.mark.parametrize("told", [5, [1, 2], {"a": 1}])
def test_strange_facts_about_targets_tell_nothing(told, path):
    save(fitted(), path, target="kind", facts={"targets": told})
    assert describe(path).targets == ["kind"]
    assert not describe(path).learned_from_lists


def test_pipelines_and_searches_with_trees_before_the_duels(path):
    selection = SelectFromModel(ExtraTreesClassifier(5, random_state=0))
    model = make_pipeline(StandardScaler(), selection, DuelRanker(random_state=0)).fit(X, LABELS)
    save(model, path)
    assert np.array_equal(predict_ranks(load_trusting(path), X), predict_ranks(model, X))

    search = GridSearchCV(
        make_pipeline(StandardScaler(), DuelRanker(LogisticDuels(), random_state=0)),
        {"duelranker__estimator__C": [0.1, 10.0]},
        cv=3,
    ).fit(X, LABELS)
    save(search, path)
    same = load_trusting(path)
    assert same.best_params_ == search.best_params_
    assert np.array_equal(predict_ranks(same, X), predict_ranks(search, X))


def test_one_sided_duels_are_remembered(path):
    weights = (Y != 1).astype(float)
    ranker = DuelRanker(GaussianNB(), random_state=0).fit(X, LABELS, sample_weight=weights)
    assert None in ranker.duels_.estimators_
    save(ranker, path)
    same = load(path)
    assert [e is None for e in same.duels_.estimators_] == [
        e is None for e in ranker.duels_.estimators_
    ]
    assert np.array_equal(same.predict_ranks(X), ranker.predict_ranks(X))


def test_a_kernel_remembers_the_rows_of_its_duels(path):
    kernel = X @ X.T
    ranker = DuelRanker(SVC(kernel="precomputed"), random_state=0).fit(kernel, LABELS)
    save(ranker, path)
    assert np.array_equal(load_trusting(path).predict_ranks(kernel), ranker.predict_ranks(kernel))


def test_a_loaded_model_can_be_fitted_again(path):
    ranker = fitted(RandomForestClassifier(3))
    save(ranker, path)
    again = load(path).fit(X, LABELS)
    assert np.array_equal(again.predict_ranks(X), ranker.predict_ranks(X))


def test_the_file_grows_with_arrays_not_with_duels(path):
    """Ten times the duels, and hardly a member more."""
    rng = np.random.RandomState(0)
    members = []
    for n_labels in (5, 15):
        points = rng.randn(400, 3)
        ranker = DuelRanker(RandomForestClassifier(3), random_state=0)
        save(ranker.fit(points, np.arange(400) % n_labels), path)
        with zipfile.ZipFile(path) as archive:
            members.append(len(archive.namelist()))
    assert members[1] < members[0] + 10 < 50


def test_packing_keeps_types_order_and_shape():
    objects = [
        {"a": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "b": [1, 2], "c": None},
        {"a": np.asfortranarray(np.ones((3, 4))), "b": [3], "c": np.float32(2)},
    ]
    back = unpack(pack(objects), 2)
    for before, after in zip(objects, back, strict=True):
        assert np.array_equal(before["a"], after["a"])
        assert after["a"].flags.f_contiguous
        assert after["b"] == before["b"]
    assert back[0]["c"] is None
    assert isinstance(back[1]["c"], np.float32)
    assert unpack(pack([(True, 1.5, "x"), (False, 2.5, "y")]), 2) == [
        (True, 1.5, "x"),
        (False, 2.5, "y"),
    ]
    assert unpack(pack([]), 0) == []


def test_the_description_needs_no_model(path):
    ranker = fitted(LogisticDuels(C=0.5), ties="random")
    model = make_pipeline(StandardScaler(), ranker).fit(X, LABELS)
    save(model, path, columns={"a": "number"}, target="kind", facts={"rows": 150})
    description = describe(path)
    assert description.labels == ["01", "1", "ü"]
    assert description.engine == "LogisticDuels(C=0.5)"
    assert description.steps == ["StandardScaler()"]
    assert (description.aggregation, description.ties) == ("copeland", "random")
    assert description.columns == {"a": "number"}
    assert description.target == "kind"
    assert description.facts == {"rows": 150}
    assert description.versions["numpy"] == np.__version__


def test_columns_are_those_that_the_model_remembers(path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    save(DuelRanker(random_state=0).fit(frame, Y), path)
    assert describe(path).columns == dict.fromkeys("abcd", "number")
    assert describe(path).labels == [0, 1, 2]


def test_given_kinds_are_added_to_those_that_the_model_remembers(path):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    ranker = DuelRanker(random_state=0).fit(frame, Y)
    save(ranker, path, columns={"c": "boolean", "a": "date"})
    kinds = {"a": "date", "b": "number", "c": "boolean", "d": "number"}
    assert list(describe(path).columns.items()) == list(kinds.items())
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"it does not take 'e', 'f'\.$"):
        save(ranker, path, columns={"a": "number", "e": "number", "f": "text"})
    assert path.read_bytes() == before
    # A model without names takes all names that are given, but texts are one column.
    save(fitted(), path, columns={"e": "number"})
    assert describe(path).columns == {"e": "number"}
    words = make_pipeline(CountVectorizer(token_pattern="."), DuelRanker(random_state=0))
    words.fit(CODES[Y], LABELS)
    with pytest.raises(ValueError, match=r"the one column of texts .*; got 'e', 'f'\.$"):
        save(words, path, columns={"e": "text", "f": "text"})


CODES = np.array(["1", "2", "x"])
TEXT = make_column_transformer((OneHotEncoder(), ["code"]), remainder="passthrough")
NUMBERS = {"a": "number", "b": "number"}


@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        ([TEXT, StandardScaler()], {"code": "category", **NUMBERS}),
        ([TEXT], {"code": "category", **NUMBERS}),
        ([TEXT, FunctionTransformer(np.abs)], {"code": "category", "a": None, "b": None}),
        (
            [
                make_column_transformer(
                    (make_pipeline(SimpleImputer(), StandardScaler()), slice("a", "b")),
                    (OrdinalEncoder(), [True, False, False]),
                )
            ],
            {"code": "category", **NUMBERS},
        ),
        (
            [
                SimpleImputer(strategy="most_frequent"),
                make_column_transformer(
                    (OneHotEncoder(), [0]), (KBinsDiscretizer(2, strategy="uniform"), [1, -1])
                ),
            ],
            {"code": "category", **NUMBERS},
        ),
        (
            [
                make_column_transformer(
                    (FunctionTransformer(np.abs), ["a"]),
                    (OneHotEncoder(), ["b"]),
                    (CountVectorizer(token_pattern="."), "code"),
                )
            ],
            {"code": "text", "a": None, "b": "number"},
        ),
        (
            [
                make_column_transformer(
                    (OneHotEncoder(), ["code"]),
                    (make_pipeline(CountVectorizer(token_pattern=".")), "code"),
                )
            ],
            {"code": "text", "a": "category", "b": "category"},
        ),
        (
            [make_column_transformer(("drop", ["code"]), ("passthrough", ["a", "b"]))],
            {"code": "category", **NUMBERS},
        ),
        (
            [make_column_transformer((StandardScaler(), [1]))],
            {"code": "category", "a": "number", "b": "category"},
        ),
    ],
)
def test_kinds_are_those_that_the_steps_were_fitted_on(steps, kinds, path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"code": CODES[Y], "a": X[:, 0], "b": X[:, 1]})
    model = make_pipeline(*steps, DuelRanker(GaussianNB(), random_state=0))
    for step in steps:
        step.set_params(**({"sparse_threshold": 0} if hasattr(step, "sparse_threshold") else {}))
    save(model.fit(frame, LABELS), path)
    assert describe(path).columns == kinds


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        (None, "number"),
        (GaussianNB(), "number"),
        (make_pipeline(StandardScaler(), GaussianNB()), "number"),
        (make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()), "number"),
        (make_pipeline(FunctionTransformer(), GaussianNB()), "number"),
        (make_pipeline(FunctionTransformer(np.abs), GaussianNB()), None),
        (GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2), "number"),
        (HistGradientBoostingClassifier(max_iter=1), "number"),
        (HistGradientBoostingClassifier(max_iter=1, categorical_features=[0]), None),
        (StackingClassifier([("bayes", GaussianNB())], cv=2), None),
        (ForestDuels(3), "number"),
        (KernelDuels(9), "number"),
        (STACK, "number"),
    ],
)
def test_kinds_are_those_that_the_duels_were_fitted_on(engine, kind, path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.round(X[:, :2]), columns=["a", "b"])
    save(DuelRanker(engine, random_state=0).fit(frame, LABELS), path)
    assert describe(path).columns == {"a": kind, "b": kind}


def test_text_that_duels_encode_is_a_category(path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"code": np.where(np.arange(len(Y)) % 2, "1", "2"), "flag": Y > 0})
    encoder = OneHotEncoder(handle_unknown="ignore")
    engine = make_pipeline(encoder, LogisticRegression())
    save(DuelRanker(engine, random_state=0).fit(frame, LABELS), path)
    assert describe(path).columns == {"code": "category", "flag": "boolean"}


def test_a_model_and_its_description_come_from_one_reading(path, monkeypatch):
    ranker = fitted()
    save(ranker, path)
    same, description = load_with_description(path)
    assert np.array_equal(same.predict_ranks(X), ranker.predict_ranks(X))
    assert description == describe(path)
    other = {**description.versions, "duelrank": "0"}
    monkeypatch.setattr(_versions, "installed_versions", lambda: other)
    for read in (load, load_with_description):
        with pytest.warns(ModelVersionWarning) as caught:
            read(path)
        assert caught[0].filename == __file__
    with pytest.raises(TypeError, match="trusted must be a list"):
        load_with_description(path, trusted="os.mkdir")


def test_only_fitted_rankers_are_saved(path):
    with pytest.raises(NotFittedError):
        save(DuelRanker(), path)
    with pytest.raises(TypeError, match="model must be a fitted DuelRanker"):
        save(LogisticRegression(max_iter=1000).fit(X, Y), path)
    assert not path.exists()


def test_functions_are_saved_by_name_and_must_be_trusted(path):
    model = make_pipeline(FunctionTransformer(lambda X: X), DuelRanker(random_state=0)).fit(X, Y)
    with pytest.raises(TypeError, match="it holds a lambda, which has no name"):
        save(model, path)
    assert not path.exists()
    model.steps[0][1].func = open
    save(model, path)
    with pytest.raises(ModelFileError, match="open"):
        load(path)


def test_versions_that_differ_are_told(path, monkeypatch):
    ranker = fitted()
    versions = _versions.installed_versions()
    older = versions | {"scikit-learn": "1.5.2"}
    monkeypatch.setattr(_versions, "installed_versions", lambda: older)
    save(ranker, path)
    monkeypatch.undo()
    with pytest.warns(ModelVersionWarning, match=r"saved with scikit-learn 1\.5\.2 \(here"):
        load(path)


class Stranger(StandardScaler):
    """A type that is neither ours nor scikit-learn's."""


def test_foreign_types_must_be_trusted(path):
    model = make_pipeline(Stranger(), DuelRanker(random_state=0)).fit(X, LABELS)
    save(model, path)
    name = f"{Stranger.__module__}.Stranger"
    with pytest.raises(UntrustedTypesError, match=f"not trusted: {name}. ") as caught:
        load(path)
    assert caught.value.names == [name]
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), ModelFileError)
    same = load(path, trusted=[name])
    assert np.array_equal(predict_ranks(same, X), predict_ranks(model, X))
    for wrong in (name, True):
        with pytest.raises(TypeError, match="trusted must be a list"):
            load(path, trusted=wrong)


# Damaged files


def test_truncated_files_are_refused(path):
    save(fitted(), path)
    content = path.read_bytes()
    for size in [0, 1, 3, 30, *range(100, len(content), len(content) // 20), len(content) - 1]:
        path.write_bytes(content[:size])
        for read in (load, describe):
            with pytest.raises(ModelFileError, match=r"is not a duelrank model file|is truncated"):
                read(path)


def test_altered_bytes_are_found(path):
    """Every flipped byte is noticed, except where a zip archive does not look itself."""
    ranker = fitted()
    save(ranker, path)
    content = bytearray(path.read_bytes())
    expected = ranker.predict_ranks(X)
    rng = np.random.RandomState(0)
    refused = 0
    for place in rng.randint(len(content), size=150):
        content[place] ^= 0x55
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert np.array_equal(load(path).predict_ranks(X), expected)
        except ModelFileError:
            refused += 1
        content[place] ^= 0x55
    assert refused > 120


def rewrite(path, **changes):
    """Write an archive anew, keeping its old description and checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.update(changes)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)
    return members


def test_an_altered_member_is_found_by_the_checksum(path):
    save(fitted(), path)
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".npy"))
        array = np.load(io.BytesIO(archive.read(name)))
    buffer = io.BytesIO()
    np.save(buffer, array + 1)
    rewrite(path, **{name: buffer.getvalue()})
    with pytest.raises(ModelFileError, match="altered after it was saved"):
        load(path)


def test_an_altered_description_is_found_by_the_checksum(path):
    save(fitted(), path)
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read("duelrank.json"))
    changed = description | {"labels": ["a", "b", "c"]}
    rewrite(path, **{"duelrank.json": json.dumps(changed)})
    with pytest.raises(ModelFileError, match="altered"):
        describe(path)
    rewrite(path, **{"duelrank.json": json.dumps(description | {"format": 99})})
    with pytest.raises(ModelFileError, match="format 99, which needs a newer duelrank"):
        describe(path)
    for broken in ("{", "[]", "3", '{"format": "x"}', "[" * 100_000):
        rewrite(path, **{"duelrank.json": broken})
        with pytest.raises(ModelFileError, match="is damaged"):
            describe(path)


# Hostile files: their checksum is right


def forge(path, thing):
    """Write anything as if `save` had written it."""
    save(fitted(), path)
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read("duelrank.json"))
    description.pop("checksum")
    _archive.write_archive(path, skops_io.dumps(thing), description)


def columns_of_kind(column, kind):
    """Find all columns of a kind inside a packed model."""
    if isinstance(column, dict):
        if column.get("kind") == kind:
            yield column
        for part in column.values():
            yield from columns_of_kind(part, kind)


def test_pickles_are_not_opened(path, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError, match="a pickle, which could run any code"):
        load(path)
    assert not (tmp_path / "exploded").exists()


def test_functions_in_a_file_are_not_called(path, tmp_path):
    target = str(tmp_path / "exploded")
    for bomb in (functools.partial(os.mkdir, target), os.mkdir, np.testing.assert_equal):
        forge(path, {"kind": "objects", "length": 1, "values": [bomb]})
        with pytest.raises(ModelFileError, match="not trusted"):
            load(path)
    schema = {
        "__class__": "mkdir",
        "__module__": "os",
        "__loader__": "ConstructorFromReduceNode",
        "content": {
            "__class__": "tuple",
            "__module__": "builtins",
            "__loader__": "TupleNode",
            "content": [
                {
                    "__class__": "str",
                    "__module__": "builtins",
                    "__loader__": "JsonNode",
                    "content": json.dumps(target),
                    "is_json": True,
                }
            ],
        },
        "protocol": 2,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    save(fitted(), path)
    _archive.write_archive(path, buffer.getvalue(), describe(path).__dict__)
    with pytest.raises(ModelFileError, match=r"not trusted: os\.mkdir"):
        load(path)
    assert not (tmp_path / "exploded").exists()


def test_scikit_learn_is_not_trusted_by_name_alone(path):
    """Modules of scikit-learn import much that could be called."""
    from sklearn.datasets import load_svmlight_file

    forge(path, {"kind": "objects", "length": 1, "values": [load_svmlight_file]})
    with pytest.raises(ModelFileError, match=r"not trusted: .*load_svmlight_file"):
        load(path)


NUMBER = {"kind": "same", "length": 1, "value": 3}


@pytest.mark.parametrize("thing", [[], {}, {"kind": "no"}, NUMBER])
def test_files_that_hold_no_model_are_refused(thing, path):
    forge(path, thing)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("left_child", 10**6),
        ("right_child", 10**6),
        ("left_child", 0),
        ("right_child", -7),
        ("feature", 4),
        ("feature", -9),
    ],
)
def test_trees_that_lead_out_of_their_arrays_are_refused(field, value, path):
    column = pack([fitted(DecisionTreeClassifier(max_depth=3))])
    (trees,) = columns_of_kind(column, "trees")
    trees["states"]["items"]["nodes"]["values"][0][field] = value
    forge(path, column)
    with pytest.raises(ModelFileError, match=r"form no tree|feature that is not there"):
        load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("node_count", 10**6), ("n_features", 10**6), ("n_outputs", 50), ("n_classes", np.array([9]))],
)
def test_trees_with_wrong_counts_are_refused(name, value, path):
    column = pack([fitted(RandomForestClassifier(3))])
    (trees,) = columns_of_kind(column, "trees")
    states = unpack(trees["states"], trees["states"]["length"])
    for state in states:
        state[name] = value
    trees["states"] = pack(states)
    forge(path, column)
    with pytest.raises(ModelFileError, match=r"counted right|other features"):
        load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("left", 10**6), ("feature_idx", 9), ("bitset_idx", 99), ("is_categorical", 1)],
)
def test_boosted_trees_that_lead_out_of_their_arrays_are_refused(field, value, path):
    engine = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5)
    column = pack([fitted(engine)])
    for trees in columns_of_kind(column, "tree_predictors"):
        nodes = trees["states"]["items"]["nodes"]["values"]
        nodes["is_categorical"][0] = field == "bitset_idx"
        nodes[field][0] = value
    forge(path, column)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)


def test_support_vectors_that_are_miscounted_are_refused(path):
    ranker = fitted(SVC())
    ranker.duels_.estimators_[1]._n_support = np.array([10**6, 10**6], dtype=np.int32)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="support vectors"):
        load_trusting(path)


def empty_coefficients(machine):
    machine._dual_coef_ = sparse.csr_matrix(machine._dual_coef_.shape)


def dense_coefficients(machine):
    machine._dual_coef_ = machine._dual_coef_.toarray()


def dense_vectors(machine):
    machine.support_vectors_ = machine.support_vectors_.toarray()


def turned_vectors(machine):
    machine.support_vectors_ = machine.support_vectors_.tocsc()


def called_dense(machine):
    machine._sparse = False


def promised_probabilities(machine):
    machine.probability = machine._effective_probability = True


@pytest.mark.parametrize(
    "alter",
    [
        empty_coefficients,
        dense_coefficients,
        dense_vectors,
        turned_vectors,
        called_dense,
        promised_probabilities,
    ],
)
def test_sparse_support_vectors_that_are_altered_are_refused(alter, path):
    points = sparse.csr_matrix(X)
    ranker = DuelRanker(SVC(kernel="linear"), random_state=0).fit(points, LABELS)
    save(ranker, path)
    assert np.array_equal(load_trusting(path).predict_ranks(points), ranker.predict_ranks(points))
    for machine in ranker.duels_.estimators_:
        alter(machine)
    forge(path, pack([ranker]))
    with pytest.raises(ModelFileError, match=r"of a machine|no probabilities"):
        load_trusting(path)


def test_kernels_that_are_functions_are_checked_too(path):
    from sklearn.metrics.pairwise import linear_kernel

    ranker = fitted(SVC(kernel=linear_kernel))
    save(ranker, path)
    trusted = ["sklearn.metrics.pairwise.linear_kernel", "sklearn.svm._classes.SVC"]
    assert untrusted_types(path) == trusted
    assert np.array_equal(load(path, trusted).predict_ranks(X), ranker.predict_ranks(X))
    ranker.duels_.estimators_[0].support_[0] = 10**6
    save(ranker, path)
    with pytest.raises(ModelFileError, match="support vectors of a machine"):
        load(path, trusted)


def test_neighbours_that_are_miscounted_are_refused(path):
    ranker = fitted(KNeighborsClassifier(algorithm="brute"))
    ranker.duels_.estimators_[0]._y = np.zeros(1, dtype=int)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="neighbours of a classifier"):
        load_trusting(path)


def test_sparse_matrices_that_point_outside_are_refused(path):
    ranker = DuelRanker(SVC(), random_state=0).fit(sparse.csr_matrix(X), LABELS)
    save(ranker, path)
    load_trusting(path)
    ranker.duels_.estimators_[0].support_vectors_.indices[0] = 10**6
    save(ranker, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load_trusting(path)


@pytest.mark.parametrize(
    "engine", [LogisticDuels(), StumpDuels(), GaussianNB(), ForestDuels(3), KernelDuels(9), STACK]
)
def test_duels_that_do_not_fit_the_labels_are_refused(engine, path):
    ranker = fitted(engine)
    ranker.classes_ = np.array(list("abcd"), dtype=object)
    ranker.label_order_ = np.arange(4)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="duels are not counted right"):
        load(path)


def row_beyond_the_tree(engine):
    engine._leaves[0, 0] = engine.forest_.estimators_[0].tree_.node_count


def row_before_the_tree(engine):
    engine._leaves[0, 0] = -1


def row_inside_the_tree(engine):
    engine._leaves[0, 0] = 0


def leaves_of_fewer_rows(engine):
    engine._leaves = engine._leaves[1:]


def leaves_of_fewer_trees(engine):
    engine._leaves = engine._leaves[:, 1:]


def leaves_between_numbers(engine):
    engine._leaves = engine._leaves + 0.5


def fewer_rows_drawn(engine):
    engine._drawn = engine._drawn[1:]


def endless_weight(engine):
    engine._drawn[0, 0] = np.inf


def outcomes_beside_labels(engine):
    engine._decided = np.zeros((len(X), 3), dtype=np.int8)


def labels_beyond_those_known(engine):
    engine.forest_.classes_ = engine.forest_.classes_ + 1


def label_twice(engine):
    engine.forest_.classes_ = np.array([0, 0, 1])


def labels_of_fewer_columns(engine):
    engine.forest_.classes_ = engine.forest_.classes_[1:]


def share_below_zero(engine):
    engine.forest_.estimators_[0].tree_.value[0, 0, 0] = -0.5


def share_that_is_no_number(engine):
    engine.forest_.estimators_[0].tree_.value[0, 0, 0] = np.nan


def endless_rows_of_a_node(engine):
    engine.forest_.estimators_[0].tree_.weighted_n_node_samples[0] = np.inf


def rows_without_outcome(engine):
    engine._told[0] = False


def fewer_priors(engine):
    engine._prior = engine._prior[1:]


def another_forest(engine):
    engine.forest_ = RandomForestRegressor(3).fit(X, Y)


def no_tree(engine):
    engine.forest_.estimators_ = []
    engine._leaves, engine._drawn = engine._leaves[:, :0], engine._drawn[:, :0]


def forest_of_other_features(engine):
    forest = engine.forest_
    engine.forest_ = clone(forest).fit(X[:, :2], forest.predict(X))


@pytest.mark.parametrize(
    "alter",
    [
        row_beyond_the_tree,
        row_before_the_tree,
        row_inside_the_tree,
        leaves_of_fewer_rows,
        leaves_of_fewer_trees,
        leaves_between_numbers,
        fewer_rows_drawn,
        endless_weight,
        outcomes_beside_labels,
        labels_beyond_those_known,
        label_twice,
        labels_of_fewer_columns,
        share_below_zero,
        share_that_is_no_number,
        endless_rows_of_a_node,
        rows_without_outcome,
        fewer_priors,
        another_forest,
        no_tree,
        forest_of_other_features,
    ],
)
@pytest.mark.parametrize("in_stack", [False, True])
def test_forests_that_are_altered_are_refused(alter, in_stack, path):
    ranker = fitted(StackedDuels([("forest", ForestDuels(3))]) if in_stack else ForestDuels(3))
    alter(ranker.duels_.engines_["forest"] if in_stack else ranker.duels_)
    save(ranker, path)
    with pytest.raises(ModelFileError, match=r"(duels|nodes of a tree) are not counted right"):
        load(path)


@pytest.mark.parametrize(
    "alter",
    [lambda a: a[:, 1:], lambda a: a[1:], lambda a: a + 0.5, lambda a: None],
    ids=["fewer duels", "fewer rows", "no integers", "none"],
)
def test_forests_with_other_outcomes_are_refused(alter, path):
    ranks = ranks_from_scores(np.random.default_rng(0).random((len(X), 3)))
    ranker = DuelRanker(ForestDuels(3), random_state=0).fit(X, ranks)
    save(ranker, path)
    load(path)
    ranker.duels_._decided = alter(ranker.duels_._decided)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="duels are not counted right"):
        load(path)


@pytest.mark.parametrize(
    "name", ["_mean", "_scale", "_centres", "_roots", "_coef", "_offset", "_held_out"]
)
@pytest.mark.parametrize("alter", [lambda a: a[..., 1:], lambda a: a * np.nan, lambda a: a > 0])
def test_kernels_that_are_altered_are_refused(name, alter, path):
    ranker = fitted(KernelDuels(9))
    setattr(ranker.duels_, name, alter(getattr(ranker.duels_, name)))
    save(ranker, path)
    with pytest.raises(ModelFileError, match="duels are not counted right"):
        load(path)


@pytest.mark.parametrize(
    "weights",
    [
        {"forest": 1.0},
        {"forest": 1.0, "kernel": 1.0, "other": 1.0},
        {"kernel": 1.0, "forest": 1.0},
        {"forest": -1.0, "kernel": 1.0},
        {"forest": np.inf, "kernel": 1.0},
        {"forest": "1", "kernel": 1.0},
        {"forest": 0.0, "kernel": 0.0},
        [1.0, 1.0],
    ],
)
def test_stacks_with_other_weights_are_refused(weights, path):
    ranker = fitted(StackedDuels([("forest", ForestDuels(3)), ("kernel", KernelDuels(9))]))
    save(ranker, path)
    load(path)
    ranker.duels_.weights_ = weights
    save(ranker, path)
    with pytest.raises(ModelFileError, match="duels are not counted right"):
        load(path)


def test_stacks_of_other_duels_are_refused(path):
    ranker = fitted(STACK)
    ranker.duels_.engines_["squares"][-1].coef_ = np.zeros((3, 1))
    save(ranker, path)
    with pytest.raises(ModelFileError, match="duels are not counted right"):
        load(path)


def test_labels_that_are_not_ordered_right_are_refused(path):
    ranker = fitted()
    ranker.label_order_ = np.array([0, 1, 99])
    save(ranker, path)
    with pytest.raises(ModelFileError, match="labels are not counted right"):
        load(path)


@pytest.mark.parametrize("name", ["../evil.npy", "/etc/evil.npy", "folder/a.npy", "evil.py"])
def test_paths_inside_the_archive_are_refused(name, path):
    save(fitted(), path)
    rewrite(path, **{name: b"x"})
    with pytest.raises(ModelFileError, match=f"holds '{name}', which no duelrank model file does"):
        load(path)


def same(length):
    return {"kind": "same", "length": length, "value": 1}


def dicts(length, **items):
    return {"kind": "dicts", "length": length, "bunches": False, "items": items}


def lists(lengths, items):
    lengths = np.array(lengths)
    return {
        "kind": "lists",
        "length": len(lengths),
        "tuples": False,
        "lengths": lengths,
        "items": items,
    }


MANY = 10**12
NOTHING = np.empty(10**8, dtype="V0")  # takes no memory, but its list would


@pytest.mark.parametrize(
    "column",
    [
        same(MANY),
        dicts(MANY),
        dicts(1, a=same(MANY)),
        dicts(1, a=dicts(MANY)),
        lists([MANY], same(MANY)),
        lists([MANY], dicts(MANY)),
        {
            "kind": "arrays",
            "length": 1,
            "order": "C",
            "shapes": np.array([[MANY]]),
            "items": same(MANY),
        },
        {"kind": "numbers", "length": 1, "python": True, "values": NOTHING},
        {"kind": "objects", "length": 1, "values": NOTHING},
        {**lists([1], same(1)), "lengths": NOTHING},
        {"kind": "optional", "length": 1, "present": NOTHING, "items": same(1)},
    ],
    ids=lambda column: column["kind"],
)
def test_columns_that_grow_without_end_are_refused(column, path):
    with pytest.raises(ValueError, match=r"packed arrays (do not fit|ask for more)"):
        unpack(column)
    forge(path, column)
    assert path.stat().st_size < 50_000
    with pytest.raises(ModelFileError, match=r"packed arrays (do not fit|ask for)|neither numbers"):
        load(path)


def test_columns_that_share_columns_are_not_followed_for_ever():
    column = same(1)
    for _ in range(60):
        column = dicts(1, a=column, b=column)
    try:
        unpack(column)
    except ValueError as error:
        message = str(error)
    assert "more objects than it could hold" in message  # showing the column would take for ever


def test_the_limit_counts_all_that_is_built():
    column = dicts(10, a=same(10), b=lists([2] * 10, same(20)))
    n_items = 4 + 10 + 10 + 10 + 20
    assert unpack(column, 10, most=n_items)[3] == {"a": 1, "b": [1, 1]}
    with pytest.raises(ValueError, match="more objects than it could hold"):
        unpack(column, 10, most=n_items - 1)
    with pytest.raises(ValueError, match="do not fit together"):
        unpack(column, 9)


def test_members_that_are_read_again_and_again_are_refused(path):
    """Without the number of an object, skops would read its array at every place."""
    array = np.arange(10.0)
    thing = {"kind": "objects", "length": 1, "values": [[array, array]]}
    forge(path, thing)
    with pytest.raises(ModelFileError, match="model must be a fitted DuelRanker"):
        load(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(members.pop("duelrank.json"))
    description.pop("checksum")
    schema = members["schema.json"].decode()
    members["schema.json"] = schema.replace('"__id__"', '"number"').encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    _archive.write_archive(path, buffer.getvalue(), description)
    with pytest.raises(ModelFileError, match=r"\.npy' more than once"):
        load(path)


def test_names_that_occur_twice_are_refused(path):
    save(fitted(), path)
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("schema.json", "{}")
    with pytest.raises(ModelFileError, match="a name twice"):
        load(path)


def test_other_archives_are_no_models(path):
    path.write_bytes(skops_io.dumps(fitted()))
    with pytest.raises(ModelFileError, match=r"it has no duelrank\.json"):
        load(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="is not a duelrank model file"):
        load(path)


def test_deeply_nested_schemas_are_refused(path):
    nested = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": [],
    }
    for _ in range(300):
        nested = {**nested, "content": [nested]}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps(nested | {"protocol": 2}))
    save(fitted(), path)
    _archive.write_archive(path, buffer.getvalue(), describe(path).__dict__)
    with pytest.raises(ModelFileError, match="nested in more than"):
        load(path)


def test_checks_look_inside_everything():
    hidden = fitted(SVC())
    hidden.duels_.estimators_[0]._n_support = np.array([1, 1], dtype=np.int32)
    for wrapped in ([hidden], {"a": (hidden,)}, np.array([hidden, None], dtype=object)):
        with pytest.raises(ValueError, match="support vectors"):
            _audit.audit(wrapped, [f"{SVC.__module__}.SVC"])


# Files of other versions


OLD_FILES = Path(__file__).parent / "written_by_0_1"
OLD_MODELS = sorted(file.stem for file in OLD_FILES.glob("*.skops"))
# Their classes have public names, and nothing in them is compressed but sparse matrices.
FILES_OF_0_2 = Path(__file__).parent / "written_by_0_2"
MODELS_OF_0_2 = ["logistic", "sparse_support_vectors"]


def test_there_are_files_of_version_0_1():
    assert OLD_MODELS == [
        "estimator",
        "kernel",
        "logistic",
        "logistic_cv",
        "logistic_lists",
        "search_of_labels",
        "search_of_rankings",
        "stacked",
        "stumps",
    ]


@pytest.mark.filterwarnings("ignore::duelrank.storage.ModelVersionWarning")
@pytest.mark.parametrize(
    ("folder", "name"),
    [(OLD_FILES, name) for name in OLD_MODELS] + [(FILES_OF_0_2, name) for name in MODELS_OF_0_2],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_files_of_older_versions_rank_as_they_did(folder, name, tmp_path):
    with np.load(folder / "expected.npz") as archive:
        expected = dict(archive)
    versions, here = describe(folder / f"{name}.skops").versions, _versions.installed_versions()
    if parse_version(here["scikit-learn"]) < parse_version(versions["scikit-learn"]):
        pytest.skip("an older scikit-learn need not read models of a newer one")
    model, points = load_trusting(folder / f"{name}.skops"), expected["points"]
    if name.startswith("sparse"):
        points = sparse.csr_matrix(points)
    save(model, tmp_path / "again.skops")
    for same in (model, load_trusting(tmp_path / "again.skops")):
        assert np.array_equal(predict_order(same, points), expected[f"{name}_order"])
        assert predictor_inside(same).n_classes_ == len(same.classes_)
        scores = same.decision_function(points)
        assert scores.dtype == expected[f"{name}_scores"].dtype
        # Not to the last bit: BLAS has other kernels on other processors.
        np.testing.assert_allclose(scores, expected[f"{name}_scores"], rtol=1e-12)


def test_a_search_of_version_0_1_still_has_its_scorer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelVersionWarning)
        search = load(OLD_FILES / "search_of_rankings.skops")
    assert repr(search.scoring) == repr(kendall_tau_scorer())
    assert vars(search.scoring).items() >= vars(kendall_tau_scorer()).items()


@pytest.mark.parametrize("engine", [ForestDuels(3), STACK], ids=["forest", "stack with squares"])
def test_all_names_of_version_0_1_are_known(engine, path, monkeypatch):
    """Also those that no file of that version here holds."""
    ranker = fitted(engine)
    old_names = {new: old for old, new in _names.OLD_NAMES.items()}
    with monkeypatch.context() as before:
        before.setattr(_archive, "FORMAT", 1)
        public_name = _archive.public_name
        before.setattr(_archive, "public_name", lambda name: old_names.get(public_name(name), name))
        save(ranker, path)
    assert "duelrank.duels._forest.ForestDuels" in names_in(path)
    assert np.array_equal(load(path).decision_function(X), ranker.decision_function(X))
    assert len(old_names) == len(_names.OLD_NAMES)
    for name in old_names:
        module, _, own_name = name.rpartition(".")
        assert hasattr(importlib.import_module(module), own_name)


def names_in(path):
    """Name all types and functions in a model file."""
    with zipfile.ZipFile(path) as archive:
        schema = json.loads(archive.read("schema.json"))
    return {
        f"{part['__module__']}.{part['__class__']}"
        for part in _names.dictionaries_in(schema)
        if "__module__" in part
    }


def search(scoring):
    ranker = DuelRanker(LogisticDuels(), random_state=0, unplaced="unknown")
    folds = KFold(2, shuffle=True, random_state=0)
    return GridSearchCV(ranker, {"estimator__C": [0.1, 1.0]}, scoring=scoring, cv=folds)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (DuelRanker(), ["duels.LogisticDuels"]),
        (DuelRanker(LogisticDuelsCV(2, cv=2)), ["duels.LogisticDuelsCV"]),
        (DuelRanker(GaussianNB()), ["duels.EstimatorDuels"]),
        (DuelRanker(StumpDuels()), ["duels.StumpDuels"]),
        (DuelRanker(ForestDuels(2)), ["duels.ForestDuels"]),
        (DuelRanker(KernelDuels(5)), ["duels.KernelDuels"]),
        (
            DuelRanker(STACK),
            [
                "duels.ForestDuels",
                "duels.LogisticDuelsCV",
                "duels.StackedDuels",
                "duels.StumpDuels",
                "duels.WithSquares",
            ],
        ),
        (search(top_k_scorer(1)), ["duels.LogisticDuels", "scoring.TopKScorer"]),
        (
            search(kendall_tau_scorer()),
            [
                "duels.LogisticDuels",
                "losses.kendall_tau",
                "losses.kendall_tau_of_known_pairs",
                "scoring.RankingScorer",
            ],
        ),
    ],
    ids=["logistic", "cv", "classifier", "stumps", "forest", "kernel", "stack", "top-k", "tau"],
)
def test_files_name_our_classes_where_users_find_them(model, names, path):
    with_ranks = "losses.kendall_tau" in names
    save(clone(model).fit(X, full_rankings() if with_ranks else LABELS), path)
    ours = {name for name in names_in(path) if name.startswith("duelrank")}
    assert ours == {"duelrank.rankers.DuelRanker", *(f"duelrank.{name}" for name in names)}


def test_names_that_users_do_not_find_stay_as_they_are():
    for name in (
        "duelrank.duels._protocol.Engine",
        "duelrank.duels._protocol.Nothing",
        "duelrank.no_room._module.Class",
        "sklearn.svm._classes.SVC",
        "os.mkdir",
        "mkdir",
        "",
    ):
        assert _names.public_name(name) == name
        assert _names.current_name(name) == name


def test_functions_are_renamed_wherever_they_are():
    thing = {"scorers": [functools.partial(kendall_tau, unused=[kendall_tau_scorer()])]}
    with zipfile.ZipFile(io.BytesIO(skops_io.dumps(thing))) as archive:
        schema = json.loads(archive.read("schema.json"))
    _names.rename(schema, lambda name: name.replace("duelrank.", "renamed."))
    written = json.dumps(schema)
    assert "duelrank" not in written
    assert written.count('"__module__": "renamed.losses"') == 3


def test_old_files_that_are_nested_too_deeply_are_refused(path, monkeypatch):
    monkeypatch.setattr(_archive, "FORMAT", 1)
    save(fitted(), path)
    description = describe(path).__dict__
    limit = sys.getrecursionlimit()
    for depth in (limit // 3, limit // 2, limit - 100, 3 * limit):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("schema.json", "[" * depth + "]" * depth)
        with monkeypatch.context() as as_it_is:
            as_it_is.setattr(_archive, "_renamed", lambda schema, new_name: schema)
            _archive.write_archive(path, buffer.getvalue(), description)
        with pytest.raises(ModelFileError):
            load(path)


def test_refusing_a_file_imports_nothing_heavy(tmp_path):
    script = (
        "import sys\n"
        "from duelrank.storage import ModelFileError, describe, load, load_with_description\n"
        "for read in (describe, load, load_with_description):\n"
        "    try:\n"
        "        read('foreign.skops')\n"
        "    except ModelFileError:\n"
        "        print('refused')\n"
        "print({'numpy', 'scipy', 'sklearn', 'skops'} & set(sys.modules))\n"
    )
    (tmp_path / "foreign.skops").write_text("no model")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout.split() == ["refused"] * 3 + ["set()"], done.stderr


# Writing


def test_an_interrupted_write_leaves_the_old_file(path, monkeypatch):
    save(fitted(), path)
    before = path.read_bytes()

    def interrupt(file, content):
        with file.open("wb") as partial:
            partial.write(content[: len(content) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _archive.write_archive(path, before, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_replacing_writes_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.txt"
    with replacing(target) as partial:
        partial.write_text("one")
        assert not target.exists()
    assert target.read_text() == "one"
    target.chmod(0o640)
    with pytest.raises(FileNotFoundError), replacing(target) as partial:
        partial.with_name("no such folder").joinpath("two").touch()
    assert target.read_text() == "one"
    with replacing(target) as partial:
        partial.write_text("three")
    assert target.read_text() == "three"
    assert target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out.txt"]


def test_replacing_follows_links_and_leaves_folders(tmp_path):
    real = tmp_path / "real.txt"
    real.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    with replacing(link) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        pass


@pytest.mark.parametrize("scoring", [top_k_scorer(2), kendall_tau_scorer()])
def test_searches_keep_our_scorers(tmp_path, scoring):
    search = GridSearchCV(DuelRanker(LogisticDuels(), random_state=0), {"estimator__C": [0.1, 1]})
    search.fit(X, LABELS).set_params(scoring=scoring)
    save(search, tmp_path / "search.skops")
    loaded = load(tmp_path / "search.skops")
    assert repr(loaded.scoring) == repr(scoring)
    np.testing.assert_array_equal(loaded.predict(X), search.predict(X))
