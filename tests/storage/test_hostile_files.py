"""Model files that were made to do harm: they are refused, with one kind of error.

The files have the right checksum, as everyone can write it. What could crash the process, or fill
its memory, runs in a child.
"""

import copy
import json
import subprocess
import sys
import textwrap
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_array

from duelrank import (
    DuelRanker,
    EstimatorDuels,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    StumpDuels,
    predict_order,
)
from duelrank.losses import kendall_tau

skops_io = pytest.importorskip("skops.io")

from duelrank.storage import (  # noqa: E402
    ModelFileError,
    ModelTrustWarning,
    UntrustedTypesError,
    _archive,
    _saving,
    _schema,
    describe,
    load,
    save,
    untrusted_types,
)
from duelrank.storage._checks import check_trees  # noqa: E402
from duelrank.storage._text_checks import columns_made  # noqa: E402
from duelrank.storage._types import _is_arithmetic  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")

X, Y = load_iris(return_X_y=True)
CELLS = np.array([["a", "x"], ["b", "y"], ["c", "x"], ["a", "z"], ["b", "x"], ["d", "y"]] * 10)
CELLS = CELLS.astype(object)
TEXTS = ["red green", "red blue", "green blue", "red", "green", "blue"] * 10


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def simple_model():
    return DuelRanker(random_state=0).fit(X, Y)


def rewritten(path, change):
    """Write a file again after a change of its members, with the right checksum."""
    archive = _archive.read_archive(path)
    members = dict(archive.members)
    change(members)
    complete = _archive._with_description(members, archive.description)
    path.write_bytes(_archive.write_members(complete, compress=False))


def in_a_child(script, *arguments, seconds=120):
    """Run Python in another process, and return its exit code and what it wrote."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def encoder_of(**parameters):
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=2, **parameters)
    return make_pipeline(encoder, DuelRanker(random_state=0)).fit(CELLS, [0, 1, 2] * 20)


ENCODERS = {
    "fewer columns than are made": lambda e: setattr(e, "_n_features_outs", [1, 1]),
    "more columns than are made": lambda e: setattr(e, "_n_features_outs", [2, 2000]),
    "columns below zero": lambda e: setattr(e, "_n_features_outs", [5, -1]),
    "a rare category beyond the last": lambda e: e._infrequent_indices[0].__setitem__(0, 10**9),
    "no rare category": lambda e: e._infrequent_indices.__setitem__(0, np.array([], dtype=int)),
    "a place beyond the last": lambda e: e._default_to_infrequent_mappings[0].__setitem__(0, 10**9),
    "too few places": lambda e: e._default_to_infrequent_mappings.__setitem__(0, np.array([0])),
    "no places": lambda e: delattr(e, "_default_to_infrequent_mappings"),
    "categories twice": lambda e: e.categories_[0].__setitem__(0, "b"),
    "fewer categories": lambda e: e.categories_.__setitem__(0, e.categories_[0][:1]),
    "grouped by nobody": lambda e: setattr(e, "_infrequent_enabled", False),
    "an attribute more": lambda e: setattr(e, "transform", "hidden"),
}


@pytest.mark.parametrize("change", ENCODERS.values(), ids=ENCODERS)
def test_encoders_that_do_not_fit_are_refused(change, path):
    model = encoder_of()
    change(model[0])
    save(model, path)
    with pytest.raises(ModelFileError, match="OneHotEncoder"):
        load(path)


def test_numbers_as_categories_must_be_sorted(path):
    """They are looked up by bisection, which would point to a column that is not there."""
    table = np.array([[1.0], [2.0], [3.0]] * 20)
    for encoder in (OneHotEncoder(), OrdinalEncoder()):
        model = make_pipeline(encoder, DuelRanker(random_state=0)).fit(table, [0, 1, 2] * 20)
        save(model, path)
        load(path).predict(table)
        encoder.categories_ = [np.array([3.0, 1.0, 2.0])]
        save(model, path)
        with pytest.raises(ModelFileError, match="Encoder holds does not fit"):
            load(path)


def test_dropped_categories_must_be_there(path):
    model = make_pipeline(OneHotEncoder(drop="first"), DuelRanker(random_state=0))
    model.fit(CELLS, [0, 1, 2] * 20)
    save(model, path)
    load(path).predict(CELLS)
    model[0]._drop_idx_after_grouping = np.array([0, 7], dtype=object)
    save(model, path)
    with pytest.raises(ModelFileError, match="OneHotEncoder holds does not fit"):
        load(path)


def test_a_term_beyond_the_columns_is_refused(path):
    model = make_pipeline(CountVectorizer(), DuelRanker(random_state=0)).fit(TEXTS, [0, 1, 2] * 20)
    model[0].vocabulary_["red"] = 10**6
    save(model, path)
    with pytest.raises(ModelFileError, match="not numbered right"):
        load(path)


def test_hashing_into_no_columns_is_refused(path):
    hashing = HashingVectorizer(n_features=8, alternate_sign=False)
    model = make_pipeline(hashing, DuelRanker(random_state=0)).fit(TEXTS, [0, 1, 2] * 20)
    model[0].n_features = 0
    save(model, path)
    with pytest.raises(ModelFileError, match=r"n_features|cannot be"):
        load(path)


@pytest.fixture(scope="module")
def fitted_boosting():
    """A model whose trees begin with a set of categories, and a table for it."""
    table = np.column_stack([np.array([2.0, 0.0, 1.0])[Y], X[:, 1:]])
    engine = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])
    return DuelRanker(engine, random_state=0).fit(table, Y), table


@pytest.fixture
def boosting(fitted_boosting):
    """Return a copy of this model, the table, and the first tree."""
    model, table = copy.deepcopy(fitted_boosting)
    tree = model.duels_.estimators_[0]._predictors[0][0]
    assert tree.nodes["is_categorical"].tolist() == [1, 0, 0]
    assert len(tree.raw_left_cat_bitsets) == len(tree.binned_left_cat_bitsets) == 1
    return model, table, tree


@pytest.mark.parametrize("flag", ["is_categorical", "is_leaf", "missing_go_to_left"])
def test_flags_of_nodes_are_zero_or_one(flag, boosting, path):
    """Compiled code takes 2 for true; 2 & True is false."""
    model, table, tree = boosting
    save(model, path)
    load(path).predict(table)
    tree.nodes[flag][0] = 2
    save(model, path)
    with pytest.raises(ModelFileError, match="the nodes of a tree are not counted right"):
        load(path)


@pytest.mark.parametrize("place", [1, 2**31])
def test_sets_of_categories_beyond_the_last_are_refused(place, boosting, path):
    model, _, tree = boosting
    tree.nodes["bitset_idx"][0] = place
    save(model, path)
    with pytest.raises(ModelFileError, match="the categories of a tree are not counted right"):
        load(path)


NOT_AUDITED = [
    KNeighborsClassifier(3),
    KNeighborsClassifier(3, algorithm="brute"),
    GradientBoostingClassifier(n_estimators=2),
]


@pytest.mark.parametrize("classifier", NOT_AUDITED, ids=str)
def test_what_cannot_be_checked_must_be_trusted_by_name(classifier, path):
    model = DuelRanker(classifier, random_state=0).fit(X, Y)
    name = f"{type(classifier).__module__}.{type(classifier).__name__}"
    with pytest.warns(ModelTrustWarning, match=name):
        save(model, path)
    with pytest.raises(UntrustedTypesError) as caught:
        load(path)
    assert name in caught.value.names
    assert caught.value.names == untrusted_types(path)
    # The error has a call that can be copied.
    message = str(caught.value)
    call = message[message.index("load(") : message.rindex(").") + 1]
    same = eval(call, {"load": load})
    assert np.array_equal(same.predict(X), model.predict(X))


def test_lists_that_hold_each_other_are_refused_at_once(path):
    """Forty lists, each with the one before twice: skops would go through 2 ** 40 of them."""
    save(DuelRanker(random_state=0).fit(X, Y), path)

    def nest(members):
        schema = json.loads(members["schema.json"])
        part = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
        part |= {"content": "1", "is_json": True, "__id__": 1}
        for number in range(2, 42):
            again = {key: part[key] for key in ("__class__", "__module__", "__loader__", "__id__")}
            kind = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
            part = {**kind, "content": [part, again | {"content": []}], "__id__": number}
        schema["content"]["more"] = part
        members["schema.json"] = json.dumps(schema).encode()

    rewritten(path, nest)
    code, written = in_a_child(
        """
        import sys
        from duelrank.storage import ModelFileError, load
        try:
            load(sys.argv[1])
        except ModelFileError as error:
            print("refused:", error)
        """,
        path,
    )
    assert code == 0, written
    assert "one number to different objects" in written
    with pytest.raises(ModelFileError, match="one number"):
        untrusted_types(path)


def test_an_object_that_holds_itself_is_refused():
    part = {"__id__": 7, "content": [{"__id__": 7, "content": []}]}
    with pytest.raises(_schema.SchemaError, match="one number"):
        _schema.check_schema(part)
    with pytest.raises(_schema.SchemaError, match="no number"):
        _schema.check_schema({"__id__": "7"})
    _schema.check_schema([part["content"], part["content"]])


def test_deep_objects_are_refused():
    deep = []
    for _ in range(_schema.MOST_LEVELS):
        deep = [deep]
    with pytest.raises(_schema.SchemaError, match="levels"):
        _schema.check_schema(deep)
    _schema.check_schema(deep[0][0])


def array_as_bytes(descr, shape, content=b""):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


ODD_ARRAYS = {
    "nothing, often": array_as_bytes("|V0", (10**8,)),
    "empty texts, often": array_as_bytes("<U0", (10**8,)),
    "bytes": array_as_bytes("|V8", (3,), bytes(24)),
    "objects": array_as_bytes("|O", (3,), bytes(24)),
    "records": array_as_bytes([("a", "<i8")], (3,), bytes(24)),
    "too few bytes": array_as_bytes("<i8", (10**9,), bytes(24)),
    "too many bytes": array_as_bytes("<i8", (2,), bytes(24)),
    "another header": b"\x93NUMPY\x09\x00",
    "a header of which Python warns": array_as_bytes("", (3,), bytes(24)).replace(
        b"'descr': ''", rb"'\d': '<i8'"
    ),
}


def test_arrays_of_odd_elements_are_refused_before_they_are_made(tmp_path):
    files = []
    for name, member in ODD_ARRAYS.items():
        files.append(tmp_path / f"{name}.skops")
        save(simple_model(), files[-1])

        def replace(members, member=member):
            place = next(name for name in members if name.endswith(".npy"))
            members[place] = member

        rewritten(files[-1], replace)
    code, written = in_a_child(
        """
        import resource, sys
        import duelrank.storage._skops
        from duelrank.storage import ModelFileError, load
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for path in sys.argv[1:]:
            try:
                load(path)
            except ModelFileError as error:
                print("refused:", error)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 200_000, grown
        """,
        *files,
    )
    assert code == 0, written
    assert written.count("an array in it") == len(files), written


def test_every_lost_byte_is_told_as_damage(path):
    save(simple_model(), path)
    content = path.read_bytes()
    places = [*range(0, len(content), 97), *range(len(content) - 400, len(content))]
    for place in places:
        path.write_bytes(content[:place] + content[place + 1 :])
        with pytest.raises(ModelFileError):
            describe(path)


@pytest.mark.parametrize("more", [b"\0", b"\n\n", bytes(22), b"PK\x05\x06", bytes(500_000)])
def test_bytes_behind_the_end_are_told_as_damage(path, more):
    save(simple_model(), path)
    with path.open("ab") as file:
        file.write(more)
    with pytest.raises(ModelFileError, match="truncated or damaged"):
        load(path)
    with pytest.raises(ModelFileError, match="truncated or damaged"):
        describe(path)


def test_an_altered_byte_is_told_as_damage_or_changes_nothing(path):
    save(simple_model(), path)
    content, description = path.read_bytes(), describe(path)
    for place in range(len(content) - 300, len(content)):
        altered = bytearray(content)
        altered[place] ^= 0xFF
        path.write_bytes(bytes(altered))
        with suppress(ModelFileError):  # comments and dates in the directory do not matter
            assert describe(path) == description


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (LogisticRegression(), "coef_"),
        (LogisticRegression(), "intercept_"),
        (GaussianNB(), "theta_"),
    ],
    ids=str,
)
def test_coefficients_are_finite(engine, name, number, path):
    model = DuelRanker(engine, random_state=0).fit(X, Y)
    getattr(model.duels_.estimators_[1], name).flat[0] = number
    save(model, path)
    with pytest.raises(ModelFileError, match="does not fit together"):
        load(path)


@pytest.mark.parametrize(
    ("name", "number"),
    [("_scale", 0.0), ("_scale", -1.0), ("_centres", 1e200), ("gamma_", -1.0), ("slope_", np.inf)],
)
def test_kernels_can_be_computed(name, number, path):
    model = DuelRanker(KernelDuels(), random_state=0).fit(X, Y)
    if name.startswith("_"):
        getattr(model.duels_, name).flat[1] = number
    else:
        setattr(model.duels_, name, number)
    save(model, path)
    with pytest.raises(ModelFileError, match="not counted right"):
        load(path)


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_scales_are_finite(number, path):
    model = make_pipeline(StandardScaler(), DuelRanker(random_state=0)).fit(X, Y)
    model[0].scale_[0] = number
    save(model, path)
    with pytest.raises(ModelFileError, match="StandardScaler"):
        load(path)


@pytest.mark.parametrize("other", [StandardScaler(), RidgeClassifier()], ids=str)
def test_what_is_in_the_place_of_a_duel_can_answer_for_it(path, other):
    model = DuelRanker(EstimatorDuels(GaussianNB()), random_state=0).fit(X, Y)
    model.duels_.estimators_[1] = other.fit(X, Y)
    save(model, path)
    with pytest.raises(ModelFileError):
        load(path)


def test_the_file_does_not_decide_how_many_processes_work(path):
    model = DuelRanker(EstimatorDuels(LogisticRegression()), random_state=0).fit(X, Y)
    model.n_jobs = model.estimator.n_jobs = model.duels_.n_jobs = 5000
    save(model, path)
    same = load(path)
    assert same.n_jobs is same.duels_.n_jobs is same.estimator.n_jobs is None
    assert model.n_jobs == model.estimator.n_jobs == 5000
    model = DuelRanker(ForestDuels(3), random_state=0).fit(X, Y)
    model.duels_.forest_.n_jobs = 5000
    save(model, path)
    assert load(path).duels_.forest_.n_jobs is None


def test_the_file_does_not_decide_what_is_printed(path, capfd):
    model = DuelRanker(ForestDuels(3), random_state=0).fit(X, Y)
    model.verbose, model.duels_.forest_.verbose = True, 10
    save(model, path)
    same = load(path)
    assert same.verbose is False
    assert same.duels_.forest_.verbose == 0
    capfd.readouterr()
    same.predict(X)
    assert capfd.readouterr() == ("", "")


def test_methods_of_ours_cannot_be_hidden(path):
    model = DuelRanker(StumpDuels(), random_state=0).fit(X, Y)
    model.duels_.margins = "hidden"
    save(model, path)
    with pytest.raises(ModelFileError, match="has what is not known: margins"):
        load(path)


def test_parameters_of_scikit_learn_are_checked(path):
    model = make_pipeline(StandardScaler(), DuelRanker(random_state=0)).fit(X, Y)
    model[0].with_mean = "hostile"
    save(model, path)
    with pytest.raises(ModelFileError, match="with_mean"):
        load(path)


@pytest.mark.parametrize("generator", ["MT19937", "Philox", "legacy"])
def test_random_generators_point_to_their_numbers(generator, path):
    """They follow a place in a table without looking; drawing would read another's memory."""
    model = DuelRanker(LogisticRegression(), random_state=np.random.RandomState(0)).fit(X, Y)
    save(model, path)
    load(path)
    if generator == "legacy":
        state = model.random_state.get_state(legacy=False)
        state["state"]["pos"] = 10**6
        model.random_state.set_state(state)
    else:
        bits = getattr(np.random, generator)(0)
        state = bits.state
        (state if "buffer_pos" in state else state["state"]).update(buffer_pos=-9, pos=-9)
        bits.state = state
        model.random_state = np.random.Generator(bits)
    save(model, path)
    with pytest.raises(ModelFileError, match="random generator"):
        load(path)


def test_boosting_gets_all_its_columns(path):
    """It does not count what the table before it makes."""
    boosting = HistGradientBoostingClassifier(max_iter=2, categorical_features=[3])
    model = DuelRanker(boosting, random_state=0).fit(X, Y)
    save(model, path)
    load(path).predict(X)
    for estimator in model.duels_.estimators_:
        table = estimator._preprocessor
        name, part, _ = table.transformers_[1]
        table.transformers_[1] = (name, part, np.array([True, False, False, False]))
    save(model, path)
    with pytest.raises(ModelFileError, match="HistGradientBoosting"):
        load(path)


FRAME = pd.DataFrame(X, columns=list("abcd"))
BY_PLACE = [[0, 2], [-4, -2], np.array([0, 2]), slice(0, 3, 2), [True, False, True, False]]
BY_NAME = [["a", "c"], slice("a", "c"), make_column_selector("[ac]"), *BY_PLACE]


@pytest.mark.parametrize("table", [X, FRAME], ids=["array", "frame"])
def test_columns_of_a_table_may_be_told_in_many_ways(table, path):
    for columns in BY_PLACE if table is X else BY_NAME:
        parts = ColumnTransformer([("some", StandardScaler(), columns)], remainder="passthrough")
        model = make_pipeline(parts, DuelRanker(StumpDuels(), random_state=0)).fit(table, Y)
        save(model, path)
        assert np.array_equal(load(path).predict(table), model.predict(table))


ELSEWHERE = {
    "beyond the last": [10**6, 2],
    "before the first": [-5, 2],
    "others": [1, 2],
    "one less": [0],
    "of no name": ["z", "c"],
    "by another name": ["a", "d"],
    "a slice": slice(0, 2),
    "a slice of names": slice("a", "z"),
    "one": 0,
    "too few to tell": np.array([True, False, True]),
    "too many to tell": [True, False, True, False, False],
    "decimals": [0.0, 2.0],
    "nothing": None,
}


@pytest.mark.parametrize("columns", ELSEWHERE.values(), ids=ELSEWHERE)
def test_columns_that_a_table_does_not_take_are_refused(columns, path, monkeypatch):
    """On arrays it takes them as they are told, and not by the places that it holds besides."""
    monkeypatch.setattr(_saving, "column_kinds", lambda model: {})  # which looks for the columns
    for table in (X, FRAME):
        parts = ColumnTransformer([("some", StandardScaler(), [0, 2])], remainder="passthrough")
        model = make_pipeline(parts, DuelRanker(random_state=0)).fit(table, Y)
        name, part, _ = model[0].transformers_[0]
        model[0].transformers_[0] = (name, part, columns)
        save(model, path)
        with pytest.raises(ModelFileError, match="ColumnTransformer holds"):
            load(path)


def test_names_of_types_hold_no_control_characters(path):
    save(simple_model(), path)

    def rename(members):
        schema = members["schema.json"].replace(b'"DuelRanker"', b'"\\u001b[2JDuelRanker"')
        members["schema.json"] = schema

    rewritten(path, rename)
    for opens in (load, untrusted_types):
        with pytest.raises(ModelFileError, match="names types that cannot be") as caught:
            opens(path)
        assert "\x1b" not in str(caught.value)


def test_nothing_is_called_that_ought_to_be_held(path):
    """A trusted class that stands where a function or a list is expected."""
    save(simple_model(), path)

    def call(members):
        schema = json.loads(members["schema.json"])
        number = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
        number |= {"content": "1000000", "is_json": True}
        kind = {"__class__": "csr_matrix", "__module__": "scipy.sparse._csr"}
        listed = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
        arguments = {**listed, "content": [{**listed, "content": [number, number]}]}
        schema["content"]["more"] = {
            **kind,
            "__loader__": "ConstructorFromReduceNode",
            "content": arguments,
        }
        members["schema.json"] = json.dumps(schema).encode()

    rewritten(path, call)
    with pytest.raises(ModelFileError, match="csr_matrix"):
        load(path)


def test_the_model_in_memory_is_not_changed_by_saving(path):
    model = make_pipeline(StandardScaler(), DuelRanker(LogisticRegression(), n_jobs=1))
    model.fit(X, Y)
    before = copy.deepcopy(vars(model[-1]))
    save(model, path)
    assert vars(model[-1]).keys() == before.keys()
    assert model[-1].n_jobs == 1


@pytest.mark.parametrize("name", ["nodes", "values", "n_classes"])
def test_trees_of_masked_arrays_are_refused(name):
    tree = DecisionTreeClassifier(max_depth=2).fit(X, Y).tree_
    _, (n_features, n_classes, n_outputs), state = tree.__reduce__()
    state |= {"n_features": n_features, "n_classes": n_classes, "n_outputs": n_outputs}
    check_trees([state])
    with pytest.raises(ValueError, match="of a tree are not counted right"):
        check_trees([state | {name: np.ma.MaskedArray(state[name])}])


@pytest.mark.parametrize("depth", [0, 1, 10**6, -(10**30), None, 2.0])
def test_trees_have_the_depth_that_they_say(depth):
    tree = DecisionTreeClassifier(max_depth=2).fit(X, Y).tree_
    _, (n_features, n_classes, n_outputs), state = tree.__reduce__()
    state |= {"n_features": n_features, "n_classes": n_classes, "n_outputs": n_outputs}
    with pytest.raises(ValueError, match="levels of a tree"):
        check_trees([state, state | {"max_depth": depth}])


def test_trees_side_by_side_are_checked_one_by_one():
    """Nodes of trees are checked together; a child in the next tree is none."""
    tree = DecisionTreeClassifier(max_depth=2).fit(X, Y).tree_
    _, (n_features, n_classes, n_outputs), state = tree.__reduce__()
    state |= {"n_features": n_features, "n_classes": n_classes, "n_outputs": n_outputs}
    check_trees([])
    check_trees([state] * 3)
    for name, number in {"left_child": 0, "right_child": 1, "feature": 4}.items():
        nodes = state["nodes"].copy()
        nodes[name][0] = number
        if name == "left_child":
            nodes[name][0] = len(nodes)  # the root of the tree behind it
        with pytest.raises(ValueError, match=r"form no tree|not there"):
            check_trees([state, state | {"nodes": nodes}, state])


@pytest.mark.parametrize("attribute", ["label_order_", "classes_"])
def test_masked_arrays_are_refused(attribute, path):
    model = simple_model()
    setattr(model, attribute, np.ma.MaskedArray(getattr(model, attribute)))
    save(model, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)


@pytest.mark.parametrize(
    "function",
    [
        partial(np.negative, np.ones(3)),
        partial(np.positive, out=np.ones(3)),
        partial(check_array, np.zeros((2, 1))),
        int,
    ],
    ids=["an argument", "out", "another table", "a type"],
)
def test_functions_get_no_arrays_to_write_to(function, path):
    step = FunctionTransformer(check_inverse=False)
    model = make_pipeline(step, simple_model())
    step.func = function
    save(model, path)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("function", [kendall_tau, partial(kendall_tau, ranks_pred=[1, 2])])
@pytest.mark.parametrize("name", ["func", "inverse_func"])
def test_functions_of_rankings_get_no_points(name, function, path):
    step = FunctionTransformer(check_inverse=False)
    model = make_pipeline(step, simple_model())
    setattr(step, name, function)
    save(model, path)
    with pytest.raises(ModelFileError, match="FunctionTransformer"):
        load(path)


@pytest.mark.parametrize("step", [np.signbit, [np.signbit], 3.0], ids=["ufunc", "list", "number"])
def test_steps_of_pipelines_are_estimators(step, path):
    model = make_pipeline(StandardScaler(), simple_model())
    model.steps[0] = ("standardscaler", step)
    save(model, path)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize(
    "function", [np.invert, bool, check_array, kendall_tau], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("name", ["preprocessor", "tokenizer", "analyzer"])
@pytest.mark.parametrize("vectorizer", [CountVectorizer(), HashingVectorizer()], ids=str)
def test_functions_of_numbers_get_no_texts(vectorizer, name, function, path):
    step = clone(vectorizer).set_params(dtype=np.float64)
    model = make_pipeline(step, DuelRanker(random_state=0)).fit(TEXTS, Y[:60])
    vars(step)[name] = function
    save(model, path)
    with pytest.raises(ModelFileError, match="Vectorizer"):
        load(path)


@pytest.mark.parametrize("name", ["shrinkage", "_prior", "_drawn", "value"])
def test_forests_have_weights_and_probabilities(name, path):
    """These numbers are finite, but not in single precision, in which the engine computes."""
    model = DuelRanker(ForestDuels(2), random_state=0).fit(X, Y)
    engine = model.duels_
    if name == "shrinkage":
        engine.shrinkage = 1e300
    elif name == "value":
        engine.forest_.estimators_[1].tree_.value[0] = 1e300
    else:
        changed = getattr(engine, name).astype(np.float64)
        changed.flat[0] = 1e300
        setattr(engine, name, changed)
    save(model, path)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("number", [1e300, -0.1])
def test_leaves_of_classifiers_have_shares_of_labels(number, path):
    model = DuelRanker(DecisionTreeClassifier(max_depth=2), random_state=0).fit(X, Y)
    model.duels_.estimators_[0].tree_.value[-1, 0, 0] = number
    save(model, path)
    with pytest.raises(ModelFileError, match="DecisionTreeClassifier"):
        load(path)


def test_means_can_be_squared(path):
    model = DuelRanker(GaussianNB(), random_state=0).fit(X, Y)
    model.duels_.estimators_[0].theta_[0, 0] = -1e300
    save(model, path)
    with pytest.raises(ModelFileError, match="GaussianNB"):
        load(path)


def test_a_tokenizer_that_is_trusted_gets_texts(path):
    step = CountVectorizer(tokenizer=textwrap.wrap, token_pattern=None, preprocessor=str)
    model = make_pipeline(step, DuelRanker(random_state=0)).fit(TEXTS, Y[:60])
    save(model, path)
    assert untrusted_types(path) == ["textwrap.wrap"]
    loaded = load(path, trusted=["textwrap.wrap"])
    np.testing.assert_array_equal(predict_order(loaded, TEXTS), predict_order(model, TEXTS))


@pytest.mark.parametrize(
    ("name", "number"),
    [("leaf_probabilities_", 1e300), ("leaf_probabilities_", -1e-6), ("sign_", 2), ("sign_", -7)],
)
def test_stumps_have_signs_and_probabilities(name, number, path):
    model = DuelRanker(StumpDuels(), random_state=0).fit(X, Y)
    getattr(model.duels_, name).flat[1] = number
    save(model, path)
    with pytest.raises(ModelFileError, match="signs or probabilities"):
        load(path)


@pytest.mark.parametrize("attribute", ["surplus_", "__class__", "fit", "hostile"])
@pytest.mark.parametrize("engine", [LogisticDuels(), StumpDuels(), ForestDuels(2)], ids=str)
def test_attributes_that_no_fit_sets_are_refused(engine, attribute, path):
    model = DuelRanker(engine, random_state=0).fit(X, Y)
    vars(model.duels_)[attribute] = 1
    save(model, path)
    with pytest.raises(ModelFileError, match="what is not known"):
        load(path)


@pytest.mark.parametrize("order", ["m8[ns]", "f2", "U1"])
def test_the_order_of_labels_is_of_whole_numbers(order, path):
    model = simple_model()
    model.label_order_ = model.label_order_.astype(order)
    save(model, path)
    with pytest.raises(ModelFileError):
        load(path)


def test_losses_with_numbers_inside_must_be_trusted(path):
    model = DuelRanker(SGDClassifier(random_state=0), random_state=0).fit(X, Y)
    with pytest.warns(ModelTrustWarning):
        save(model, path)
    names = untrusted_types(path)
    assert "sklearn.linear_model._stochastic_gradient.SGDClassifier" in names
    assert predict_order(load(path, trusted=names), X).shape == (len(X), 3)


def test_variances_are_positive(path):
    model = DuelRanker(GaussianNB(), random_state=0).fit(X, Y)
    model.duels_.estimators_[0].var_[0, 0] = -1.0
    save(model, path)
    with pytest.raises(ModelFileError, match="GaussianNB"):
        load(path)


def test_names_that_numpy_warns_of_are_not_asked_for():
    assert not _is_arithmetic("numpy", "str")  # would warn, which is an error here


def test_a_file_says_which_types_must_be_trusted(path):
    save(DuelRanker(KNeighborsClassifier(3), random_state=0).fit(X, Y), path)
    assert describe(path).trust == untrusted_types(path) != []
    save(simple_model(), path)
    assert describe(path).trust is None


@pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")
def test_what_a_trusted_type_makes_itself_needs_no_name(path):
    """Isotonic regression makes a function of scipy's when it is loaded, which no file names."""
    X, y = load_iris(return_X_y=True)
    calibrated = CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2)
    ranker = DuelRanker(calibrated, random_state=0).fit(X, y)
    save(ranker, path)
    loaded = load(path, trusted=untrusted_types(path))
    np.testing.assert_array_equal(loaded.predict_order(X), ranker.predict_order(X))


def test_steps_in_many_places_are_asked_once():
    """Without a memory, forty levels of two would take 2^40 questions."""
    union = HashingVectorizer(n_features=1)
    for _ in range(40):
        union = FeatureUnion([("once", union), ("again", union)])
    assert columns_made(union) == 2**40
