"""What comes before a ranker, what an exported model says about itself, and what is refused."""

import json
import sys

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("skl2onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")
pd = pytest.importorskip("pandas")

import duelrank  # noqa: E402
from duelrank import (  # noqa: E402
    DuelRanker,
    EstimatorDuels,
    KernelDuels,
    LogisticDuels,
    StackedDuels,
    predict_ranks,
)
from duelrank.export import _model, to_onnx  # noqa: E402
from duelrank.preprocessing import make_preprocessing  # noqa: E402
from duelrank.shortlists import Shortlister  # noqa: E402
from exported import answers, random_ranker, session_of  # noqa: E402

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "in come": rng.normal(size=n),
            "city": rng.choice([f"city {i}" for i in range(120)], n).astype(object),
            "größe": rng.choice(["s", "m", "l"], n).astype(object),
            "rooms": rng.integers(1, 5, n).astype(float),
        }
    )
    labels = np.where(frame["age"] > 0.3, "hot", np.where(frame["größe"] == "m", "mild", "cold"))
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "city"] = None
    frame["vector"] = [list(row) for row in rng.normal(size=(n, 5))]
    return frame, labels


def feed(session, frame, dtype):
    """Write a dataframe as the inputs of a session."""
    given = {}
    for tensor in session.get_inputs():
        column = frame[tensor.name]
        if "string" in tensor.type:
            cells = [cell if isinstance(cell, str) else "" for cell in column]
            given[tensor.name] = np.array(cells, dtype=object)[:, np.newaxis]
        else:
            given[tensor.name] = np.array(column.tolist(), dtype=dtype).reshape(len(frame), -1)
    return given


KINDS = [
    {"age": "number", "in come": "number"},
    {"age": "number", "city": "category", "größe": "category"},
    {"vector": "vector", "größe": "category", "age": "number"},
]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tables_as_the_command_prepares_them(kinds, dtype, table):
    frame, labels = table[0][list(kinds)], table[1]
    model = make_pipeline(make_preprocessing(kinds), DuelRanker(random_state=0))
    model.fit(frame[:300], labels[:300])
    exported = to_onnx(model, outputs=["label", "ranks", "scores"], dtype=dtype)
    session = session_of(exported)
    assert [tensor.name for tensor in session.get_inputs()] == list(kinds)
    label, ranks, scores = session.run(None, feed(session, frame, dtype))
    np.testing.assert_array_equal(label, model.predict(frame))
    np.testing.assert_array_equal(ranks, predict_ranks(model, frame))
    expected = model.decision_function(frame)
    np.testing.assert_allclose(scores, expected, atol=1e-6 if dtype == "float32" else 1e-10)


def test_a_missing_vector_is_a_row_of_nan(table):
    frame, labels = table[0][["vector"]].copy(), table[1]
    model = make_pipeline(make_preprocessing({"vector": "vector"}), DuelRanker(random_state=0))
    model.fit(frame, labels)
    session = session_of(to_onnx(model, dtype="float64"))
    ranks = session.run(["ranks"], {"vector": np.full((1, 5), np.nan)})[0]
    np.testing.assert_array_equal(ranks, predict_ranks(model, pd.DataFrame({"vector": [None]})))


ENCODERS = [
    OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False),
    OneHotEncoder(drop="if_binary", sparse_output=False, handle_unknown="ignore"),
    OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist", sparse_output=False),
    OneHotEncoder(
        max_categories=4, drop="first", handle_unknown="infrequent_if_exist", sparse_output=False
    ),
]


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("encoder", ENCODERS)
def test_categories_of_texts_and_of_numbers(encoder, table):
    frame, labels = table[0][["city", "rooms", "größe"]].fillna("city 0"), table[1]
    columns = make_column_transformer((encoder, ["city", "rooms"]), (encoder, ["größe"]))
    model = make_pipeline(columns, DuelRanker(random_state=0)).fit(frame[:200], labels[:200])
    frame = frame.copy()
    frame.loc[::5, "rooms"], frame.loc[::3, "größe"] = 1.5, "xl"  # not known
    session = session_of(to_onnx(model, outputs=["scores"], dtype="float64"))
    scores = session.run(None, feed(session, frame, "float64"))[0]
    np.testing.assert_allclose(scores, model.decision_function(frame), atol=1e-10)


@pytest.mark.parametrize(
    "imputer",
    [
        SimpleImputer(strategy="mean", add_indicator=True),
        SimpleImputer(strategy="most_frequent"),
        SimpleImputer(strategy="constant", fill_value=-3.0, keep_empty_features=True),
        SimpleImputer(missing_values=-1.0, strategy="median", add_indicator=True),
    ],
)
@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_missing_numbers(imputer, rng):
    points = np.round(X.copy(), 1)
    points[rng.random(points.shape) < 0.2] = imputer.missing_values
    points[:, 2] = imputer.missing_values  # one column has no value at all
    model = make_pipeline(imputer, MinMaxScaler(), DuelRanker(random_state=0)).fit(points, Y)
    for dtype in ("float32", "float64"):
        got = answers(model, points, ("ranks",), dtype)
        np.testing.assert_array_equal(got["ranks"], predict_ranks(model, points))


TEXTS = [
    "I lost my card today",
    "card top up a fee café",
    "what's the exchange rate É È Ünï",
    "top-up failed twice twice",
    "refund 2 me!! x",
]


@pytest.mark.parametrize(
    "words",
    [
        TfidfVectorizer(),
        TfidfVectorizer(ngram_range=(1, 2)),
        TfidfVectorizer(sublinear_tf=True, norm="l1"),
        TfidfVectorizer(binary=True, use_idf=False, norm=None),
        TfidfVectorizer(stop_words=["the", "my"], lowercase=False),
        CountVectorizer(),
    ],
)
def test_words_of_texts(words):
    texts, labels = TEXTS * 4, list("abcde") * 4
    model = make_pipeline(words, DuelRanker(random_state=0)).fit(texts, labels)
    points = np.array([*TEXTS, "nothing known", "", "CARD Lost CAFÉ twice", "a b c"], dtype=object)
    got = answers(model, points, ("label", "scores"), "float64")
    np.testing.assert_array_equal(got["label"], model.predict(points))
    np.testing.assert_allclose(got["scores"], model.decision_function(points), atol=1e-7)


def test_searches_and_frozen_models_are_looked_into():
    search = GridSearchCV(
        make_pipeline(RobustScaler(), DuelRanker(random_state=0)),
        {"duelranker__ties": ["index", "probability"]},
        cv=2,
    ).fit(X, Y)
    for model in (search, FrozenEstimator(search)):
        got = answers(model, X, ("ranks",), "float64")
        np.testing.assert_array_equal(got["ranks"], predict_ranks(search, X))


@pytest.mark.parametrize("n_classes", [2, 5, 40])
@pytest.mark.parametrize("aggregation", ["copeland", "expected_wins", "coupling"])
def test_probabilities(n_classes, aggregation, rng):
    ranker = random_ranker(rng, n_classes, aggregation=aggregation)
    points = rng.normal(size=(100, 6))
    got = answers(ranker, points, ("probabilities", "ranks"), "float64")
    # Where the posteriors contradict the ranking, 1e-9 of another distribution is mixed in.
    np.testing.assert_allclose(got["probabilities"], ranker.predict_proba(points), atol=3e-9)
    order = np.argsort(-got["probabilities"], axis=1, kind="stable")
    np.testing.assert_array_equal(np.argsort(order, axis=1) + 1, got["ranks"])


LISTS = [
    {},
    {"conformity_score": "evidence"},
    {"conformity_score": "rank", "coverage": 0.97},
    {"conformity_score": "aps"},
    {"conformity_score": "raps"},
    {"by": "label"},
    {"by": "cluster", "coverage": 0.8},
    {"allow_empty": True, "coverage": 0.5},
    {"max_length": 1},
    {"max_length": 1, "longer": "abstain"},
]


@pytest.mark.filterwarnings("ignore:labels ")
@pytest.mark.parametrize("options", LISTS)
def test_shortlists(options, digits):
    points, labels = digits
    ranker = make_pipeline(StandardScaler(), DuelRanker(LogisticDuels(C=1e-3), random_state=0))
    lists = Shortlister(ranker, **{"coverage": 0.95, "random_state": 0, **options})
    lists.fit(points[:700], labels[:700])
    got = answers(lists, points[700:], ("label", "shortlist"), "float64")
    np.testing.assert_array_equal(got["shortlist"], lists.shortlist_mask(points[700:]))
    assert got["shortlist"].sum(axis=1).max() >= 1
    assert [o.name for o in to_onnx(lists).graph.output] == ["label", "ranks", "shortlist"]


def test_a_model_says_what_it_is():
    exported = to_onnx(DuelRanker(random_state=0).fit(X, np.array(["a", "b", "ä"])[Y]))
    assert (exported.producer_name, exported.producer_version) == ("duelrank", duelrank.__version__)
    facts = {entry.key: entry.value for entry in exported.metadata_props}
    assert json.loads(facts.pop("labels")) == ["a", "b", "ä"]
    assert facts == {
        "duelrank_version": duelrank.__version__,
        "engine": "LogisticDuels",
        "aggregation": "copeland",
        "ties": "probability",
        "dtype": "float32",
    }


def test_labels_keep_their_kind():
    numbers = to_onnx(DuelRanker(random_state=0).fit(X, Y.astype(np.int8) - 5), outputs="label")
    assert session_of(numbers).run(None, {"X": X[:1].astype(np.float32)})[0].dtype == np.int64
    texts = DuelRanker(random_state=0).fit(X, np.array(["a", "b", "c"], dtype=object)[Y])
    assert session_of(to_onnx(texts)).get_outputs()[0].type == "tensor(string)"
    for labels in (Y > 0, Y.astype(float)):
        with pytest.raises(TypeError, match="labels must be whole numbers or texts"):
            to_onnx(DuelRanker(random_state=0).fit(X, labels))


def test_registering_again_changes_nothing():
    from skl2onnx import supported_converters

    ranker = DuelRanker(random_state=0).fit(X, Y)
    first = to_onnx(ranker).SerializeToString()
    known = supported_converters()
    assert to_onnx(ranker).SerializeToString() == first
    assert supported_converters() == known


def fitted(estimator, **params):
    return DuelRanker(estimator, random_state=0, **params).fit(X, Y)


REFUSED = {
    "EstimatorDuels cannot be written as ONNX": lambda: fitted(
        EstimatorDuels(LogisticRegression())
    ),
    "KernelDuels cannot be written as ONNX": lambda: fitted(KernelDuels()),
    "StackedDuels cannot be written as ONNX": lambda: fitted(
        StackedDuels([("a", LogisticDuels()), ("b", LogisticDuels(C=2.0))], cv=2)
    ),
    "ties='feedback_arc_set' is a search": lambda: fitted(None, ties="feedback_arc_set"),
    "aggregation='feedback_arc_set' is": lambda: fitted(None, aggregation="feedback_arc_set"),
    "model must be a fitted DuelRanker": lambda: LogisticRegression(max_iter=500).fit(X, Y),
    "a step before the ranker cannot be written as ONNX by skl2onnx": lambda: make_pipeline(
        FunctionTransformer(np.sqrt), fitted(None)
    ),
    "the lists cannot be written as ONNX: there are no thresholds with cv": lambda: Shortlister(
        cv=3, random_state=0
    ).fit(X, Y),
    "thresholds with randomize": lambda: Shortlister(randomize=True, random_state=0).fit(X, Y),
    "thresholds with by='group'": lambda: Shortlister(by="group", random_state=0).fit(
        X, Y, groups=np.arange(150) % 2
    ),
    "lists of one coverage can be written as ONNX, got 2": lambda: Shortlister(
        coverage=[0.8, 0.9], random_state=0
    ).fit(X, Y),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_written_is_named(sentence):
    with pytest.raises(TypeError) as refusal:
        to_onnx(REFUSED[sentence]())
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("kinds", "frame", "name"),
    [
        ({"t": "text"}, {"t": TEXTS * 4}, "TextFeatures"),
        ({"d": "date"}, {"d": pd.to_datetime(["2024-01-01", "2024-02-03"] * 10)}, "DateFeatures"),
    ],
)
def test_text_and_dates_are_refused_and_the_ranker_alone_is_not(kinds, frame, name):
    frame = pd.DataFrame(frame)
    model = make_pipeline(make_preprocessing(kinds), DuelRanker(random_state=0))
    model.fit(frame, np.arange(20) % 5)
    with pytest.raises(TypeError, match=rf"{name} cannot be written .* to_onnx\(model\[-1\]\)\.$"):
        to_onnx(model)
    features = model[0].transform(frame)
    features = features.toarray() if hasattr(features, "toarray") else features
    got = answers(model[-1], features, ("ranks",), "float64")
    np.testing.assert_array_equal(got["ranks"], predict_ranks(model, frame))


@pytest.mark.parametrize(
    "words",
    [
        TfidfVectorizer(analyzer="char"),
        TfidfVectorizer(strip_accents="unicode"),
        CountVectorizer(token_pattern="[a-z]+"),
        TfidfVectorizer(ngram_range=(1, 2), stop_words=["the"]),
        TfidfVectorizer(preprocessor=str.lower),
    ],
)
def test_other_words_are_refused(words):
    model = make_pipeline(words, DuelRanker(random_state=0)).fit(TEXTS * 2, list("abcde") * 2)
    with pytest.raises(TypeError, match=r"can be written as ONNX with .* only"):
        to_onnx(model)


def test_the_empty_text_is_no_category_where_it_stands_for_missing():
    frame = pd.DataFrame({"c": np.array(["", "a", "b", None] * 5, dtype=object)})
    model = make_pipeline(make_preprocessing({"c": "category"}), DuelRanker(random_state=0))
    with pytest.raises(TypeError, match="has the empty text as a category"):
        to_onnx(model.fit(frame, np.arange(20) % 3))


def test_texts_in_arrays_without_names_are_refused(table):
    frame, labels = table
    columns = ColumnTransformer([("c", OneHotEncoder(sparse_output=False), [0])])
    model = make_pipeline(columns, DuelRanker(random_state=0))
    model.fit(frame[["größe"]].to_numpy(), labels)
    with pytest.raises(TypeError, match="fit it on a dataframe"):
        to_onnx(model)


MISTAKES = [
    ({"outputs": ["label", "places"]}, "outputs must be one of .* got 'places'"),
    ({"outputs": []}, "outputs must be one or several different names"),
    ({"outputs": ["label", "label"]}, "outputs must be one or several different names"),
    ({"outputs": ["top"]}, "k must be"),
    ({"outputs": ["top"], "k": 4}, "k must be"),
    ({"k": 2}, "k is the length of the output 'top'"),
    ({"dtype": "float16"}, "dtype must be one of 'float32', 'float64'"),
    ({"outputs": ["shortlist"]}, "'shortlist' needs a model that makes lists"),
]


@pytest.mark.parametrize(("options", "sentence"), MISTAKES)
def test_mistakes_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        to_onnx(fitted(None), **options)


def test_columns_named_like_outputs_are_refused(table):
    frame = table[0][["age", "in come"]].rename(columns={"age": "ranks"})
    model = make_pipeline(
        make_preprocessing(dict.fromkeys(frame, "number")), DuelRanker(random_state=0)
    )
    with pytest.raises(ValueError, match="column 'ranks' has the name of an output"):
        to_onnx(model.fit(frame, table[1]))


def test_models_too_large_for_a_file_are_refused(monkeypatch, rng):
    ranker = random_ranker(rng, 20)
    monkeypatch.setattr(_model, "LARGEST", 5000)
    with pytest.raises(ValueError, match=r"the model would be 0\.0 GB, and an ONNX file holds 2"):
        to_onnx(ranker)


def test_coupling_of_very_many_labels_is_refused(rng):
    ranker = random_ranker(rng, 301, n_features=1)
    with pytest.raises(ValueError, match="for up to 300 labels, got 301"):
        to_onnx(ranker, outputs=["probabilities"])
    to_onnx(ranker)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"need skl2onnx; .*: pip install 'duelrank\[onnx\]'$"):
        to_onnx(fitted(None))
