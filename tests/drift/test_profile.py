"""Profiles: what they hold, how small they are, and how they are read."""

import contextlib
import copy
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline

from drifting import KINDS, KINDS_WITH_TEXT, rows
from duelrank import AutoDuels, DuelRanker, LogisticDuels
from duelrank.drift import Profile, compare
from duelrank.drift._columns import read_column
from duelrank.drift._profile import Bins, Values, alone
from duelrank.drift._seen import Seen, Words
from duelrank.preprocessing import TextFeatures, VectorFeatures, make_preprocessing
from duelrank.rankings import ranks_from_choices, ranks_from_lists
from duelrank.shortlists import Shortlister

X, Y = load_iris(return_X_y=True)
finite = st.floats(-1e12, 1e12)


@given(st.lists(finite, min_size=1, max_size=300))
def test_bins_hold_every_number_once(numbers):
    bins = Bins.of(np.array([*numbers, np.nan]))
    assert bins.n_rows == len(numbers)
    assert (bins.low, bins.high) == (min(numbers), max(numbers))
    assert list(bins.edges) == sorted(set(bins.edges))
    assert bins.count(np.array(numbers)).tolist() == list(bins.counts)
    assert bins.low <= bins.quantile(0.5) <= bins.high
    if bins.single:
        assert min(bins.counts) > 0


def test_bins_are_about_equally_full(rng):
    bins = Bins.of(rng.normal(size=2000))
    assert len(bins.counts) == 20
    assert max(bins.counts) < 1.2 * min(bins.counts)
    assert bins.quantile(0.5) == pytest.approx(0, abs=0.1)


def test_bins_of_nothing():
    bins = Bins.of(np.full(3, np.nan))
    assert bins.n_rows == 0
    assert bins.count(np.array([1.0, 2.0])).sum() == 2


def test_frequent_values_are_named_and_the_others_counted():
    values = Values.of(["a"] * 5 + ["b"] * 3 + [f"c{i}" for i in range(40)], most=2)
    assert (values.names, values.counts, values.others) == (("a", "b"), (5, 3), 40)
    assert (values.n_values, values.n_single, sum(values.buckets)) == (42, 40, 48)


def test_frequent_values_have_buckets_of_their_own():
    for names in (["true", "false"], [f"value {i}" for i in range(10)]):
        assert np.count_nonzero(Values.of(names * 3).buckets) == len(names)


def test_unknown_words_are_those_that_no_other_training_text_has():
    texts = ["red green blue", "red green", "red yellow", ""]
    labels = ["a", "b", "a", "b"]
    model = make_pipeline(TextFeatures(), MultinomialNB()).fit(texts, labels)
    profile = Profile.of(model, texts, labels)
    unknown = profile.columns["text"].measures["unknown"]
    assert profile.columns["text"].missing == 1
    assert unknown.counts == (1, 1, 1)
    assert (unknown.low, unknown.high) == (0, 0.5)
    assert profile.columns["text"].measures["words"].high == 3


def test_words_of_a_vectorizer_of_scikit_learn_are_known_too():
    texts = [f"some words of text{i % 5}" for i in range(30)]
    model = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(texts, [0, 1] * 15)
    profile = Profile.of(model, texts, [0, 1] * 15)
    check = compare(profile, model, ["es ist etwas anderes"] * 30)
    assert "more unknown words" in [alarm.told for alarm in check.alarms]


def test_vectors_are_described_by_length_and_direction(rng):
    frame = pd.DataFrame({"v": [row.tolist() for row in rng.normal(3, 1, size=(120, 4))]})
    y = np.tile(["a", "b"], 60)
    model = make_pipeline(make_preprocessing({"v": "vector"}), GaussianNB()).fit(frame, y)
    profile = Profile.of(model, frame, y, kinds={"v": "vector"})
    assert set(profile.columns["v"].measures) == {"length", "cosine"}
    turned = pd.DataFrame({"v": [[-x for x in row] for row in frame["v"]]})
    assert "another direction" in [a.told for a in compare(profile, model, turned).alarms]
    longer = pd.DataFrame({"v": [[9 * x for x in row] for row in frame["v"]]})
    check = compare(profile, model, longer)
    assert "longer" in [a.told for a in check.alarms]
    assert "has length" in check.unusual_rows[0].reasons[0]


def test_vectors_of_other_lengths_are_a_note_and_no_error(rng):
    frame = pd.DataFrame({"v": [row.tolist() for row in rng.normal(3, 1, size=(120, 4))]})
    y = np.tile(["a", "b"], 60)
    model = make_pipeline(make_preprocessing({"v": "vector"}), GaussianNB()).fit(frame, y)
    profile = Profile.of(model, frame, y, kinds={"v": "vector"})
    check = compare(profile, model, pd.DataFrame({"v": [[1.0, 2.0]] * 40}))
    assert check.drifted
    assert "nothing was ranked" in check.notes[0]


def test_a_row_is_alone_where_no_other_row_is_like_it():
    numbers = read_column(np.array([[1.0], [1.0], [3.0], [2.0], [np.nan]]), "x0", None, Seen())
    assert alone(numbers).tolist() == [False, False, True, False, True]
    names = read_column(pd.DataFrame({"c": ["a", "b", "b", None, None]}), "c", None, Seen())
    assert alone(names).tolist() == [True, False, False, False, False]
    words = Words(lambda cells: [cell.split() for cell in cells], {"a", "b"})
    seen = Seen(words={"t": words})
    texts = read_column(pd.DataFrame({"t": ["a", "a", "a b b", "a b"]}), "t", None, seen)
    assert alone(texts).tolist() == [False, False, True, False]


def test_kinds_are_found_where_they_are_not_told(rng):
    frame = rows(50, rng)[0].assign(vector=[[1.0, 2.0]] * 50)
    frame["town"] = frame["town"].astype("category")
    found = {name: read_column(frame, name, None, Seen()).kind for name in frame}
    assert found == {**KINDS, "vector": "vector"}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_dataframes_of_all_kinds_have_the_same_profile(library, rng):
    frame, y = rows(80, rng, with_text=True)
    model = make_pipeline(make_preprocessing(KINDS_WITH_TEXT), LogisticRegression())
    expected = Profile.of(model.fit(frame, y), frame, y, kinds=KINDS_WITH_TEXT)
    if library == "polars":
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame({name: frame[name].tolist() for name in frame})
        frame = frame.with_columns(pl.col("amount").fill_nan(None))
    if library == "pyarrow":
        pa = pytest.importorskip("pyarrow")
        frame = pa.Table.from_pandas(frame)
    profile = Profile.of(model.fit(frame, y), frame, y, kinds=KINDS_WITH_TEXT)
    assert profile.columns == expected.columns
    assert profile.n_unlike == expected.n_unlike


def test_labels_are_counted_in_the_order_of_the_classes():
    y = np.array(["b", "a", "c"], dtype=object)[Y]
    profile = Profile.of(DuelRanker(random_state=0).fit(X, y), X, y)
    assert profile.label_counts == (50, 50, 50)
    assert profile.ranked.n_rows == 37
    assert not profile.ranked.same_model
    assert profile.ranked.n_top_1 > 30
    assert sum(profile.ranked.mean_places) == pytest.approx(6)


def test_lists_choices_and_ranks_have_profiles():
    classes = [0, 1, 2]
    lists = [[int(k), int(k + 1) % 3] for k in Y]
    ranks = ranks_from_lists(lists, classes)
    model = DuelRanker(random_state=0, unplaced="behind").fit(X, ranks)
    assert Profile.of(model, X, ranks).label_counts == (50, 50, 50)
    choices = ranks_from_choices(lists, Y.tolist(), classes, sparse=True)
    model = DuelRanker(random_state=0, unplaced="unknown", classes=[2, 1, 0]).fit(X, choices)
    profile = Profile.of(model, X, choices)
    assert profile.label_counts == (50, 50, 50)
    assert profile.ranked is not None


def test_lists_are_measured_on_their_calibration_rows():
    lists = Shortlister(DuelRanker(random_state=0), 0.8, random_state=0).fit(X, Y)
    profile = Profile.of(lists, X, Y)
    assert profile.ranked.same_model
    assert profile.ranked.n_rows == sum(profile.ranked.lengths) == lists.n_calibration_
    # Without a seed nobody knows which rows these were, and with folds there are none.
    for other in (Shortlister(random_state=None), Shortlister(cv=3, random_state=0)):
        profile = Profile.of(other.fit(X, Y), X, Y)
        assert not profile.ranked.same_model
        assert profile.ranked.lengths is None


def test_searches_are_not_repeated():
    """The engine that was chosen is fitted again, with the strength that was found."""
    model = DuelRanker(AutoDuels(), random_state=0).fit(X, Y)
    assert Profile.of(model, X, Y).ranked.n_top_1 > 30
    search = GridSearchCV(DuelRanker(random_state=0), {"ties": ["index", "random"]}, cv=2)
    assert Profile.of(search.fit(X, Y), X, Y).ranked is not None


def test_of_few_rows_nothing_is_ranked():
    model = DuelRanker(random_state=0).fit(X[::10], Y[::10])
    profile = Profile.of(model, X[::10], Y[::10])
    assert profile.ranked is None
    assert "too few training rows" in compare(profile, model, X).notes[0]


def test_a_sparse_matrix_has_no_columns():
    matrix = sparse.csr_array(X)
    model = DuelRanker(random_state=0).fit(matrix, Y)
    profile = Profile.of(model, matrix, Y)
    assert profile.columns == {}
    assert not compare(profile, model, matrix, Y).drifted


def test_the_seed_makes_the_profile():
    model = DuelRanker(random_state=0).fit(X, Y)
    assert Profile.of(model, X, Y) == Profile.of(model, X, Y)
    assert Profile.of(model, X, Y) != Profile.of(model, X, Y, random_state=1)


# Size, and reading


def test_thirty_columns_take_less_than_20_kilobytes(rng):
    frame = pd.DataFrame({f"column {i}": rng.normal(size=3000) for i in range(24)})
    for i in range(6):
        frame[f"category {i}"] = [f"a value {v}" for v in rng.integers(0, 200, size=3000)]
    y = rng.integers(0, 10, size=3000)
    numbers = frame.iloc[:, :24]
    model = GaussianNB().fit(numbers, y)
    profile = Profile.of(model, numbers, y)
    assert len(json.dumps(profile.to_dict())) < 12_000
    kinds = dict.fromkeys(numbers, "number") | {f"category {i}": "category" for i in range(6)}
    model = make_pipeline(make_preprocessing(kinds), GaussianNB()).fit(frame, y)
    assert len(json.dumps(Profile.of(model, frame, y, kinds=kinds).to_dict())) < 20_000


def test_a_thousand_labels_and_many_columns_are_bounded(rng):
    y = np.arange(3000) % 1500
    model = DummyClassifier().fit(rng.normal(size=(3000, 1)), y)
    profile = Profile.of(model, rng.normal(size=(3000, 1)), y)
    assert len(profile.label_counts) == 1000
    assert profile.other_labels == 1000
    assert len(json.dumps(profile.to_dict())) < 32_000
    wide = rng.normal(size=(40, 2050))
    model = DummyClassifier().fit(wide, np.arange(40) % 2)
    profile = Profile.of(model, wide, np.arange(40) % 2)
    assert len(profile.columns) == 2000
    assert len(json.dumps(profile.to_dict())) < 500_000


@pytest.fixture(scope="module")
def stored():
    frame, y = rows(200, np.random.default_rng(0), with_text=True)
    model = make_pipeline(make_preprocessing(KINDS_WITH_TEXT), LogisticRegression())
    lists = Shortlister(model, 0.8, random_state=0).fit(frame, y)
    return Profile.of(lists, frame, y, kinds=KINDS_WITH_TEXT).to_dict()


def test_a_profile_is_read_as_it_was_written(stored):
    assert Profile.from_dict(json.loads(json.dumps(stored))).to_dict() == stored


def changed(stored, path, value):
    damaged = copy.deepcopy(stored)
    part = damaged
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return damaged


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["rows"], -1),
        (["rows"], True),
        (["rows"], 1e3),
        (["unlike"], 10**9),
        (["columns"], []),
        (["columns"], {str(i): {} for i in range(3000)}),
        (["columns", "amount"], None),
        (["columns", "amount", "kind"], "picture"),
        (["columns", "amount", "kind"], ["number"]),
        (["columns", "amount", "missing"], 201),
        (["columns", "amount", "value"], None),
        (["columns", "amount", "value", "low"], float("nan")),
        (["columns", "amount", "value", "high"], float("inf")),
        (["columns", "amount", "value", "high"], -1e9),
        (["columns", "amount", "value", "edges"], [0.5] * 19),
        (["columns", "amount", "value", "edges"], list(range(10_000))),
        (["columns", "amount", "value", "counts"], ["1"] * 20),
        (["columns", "amount", "value", "counts"], [1] * 3),
        (["columns", "amount", "value", "single"], 1),
        (["columns", "town", "values"], None),
        (["columns", "town", "values", "names"], ["x" * 1000] * 3),
        (["columns", "town", "values", "names"], "abc"),
        (["columns", "town", "values", "counts"], [10**12] * 3),
        (["columns", "town", "values", "salt"], 100),
        (["columns", "member", "values", "names"], ["true", "true"]),
        (["labels", "counts"], [1] * 2000),
        (["labels", "counts"], [10**6] * 5),
        (["labels", "others"], None),
        (["ranked", "rows"], 0),
        (["ranked", "first"], [1, 2]),
        (["ranked", "places"], [float("nan")] * 5),
        (["ranked", "places"], [0.0] * 5),
        (["ranked", "deviations"], [-1.0] * 5),
        (["ranked", "top_1"], 10**6),
        (["ranked", "same_model"], None),
        (["ranked", "spreads"], [0.0, -1.0]),
        (["ranked", "lengths"], [1, 2, 3]),
        (["format"], 2),
        (["format"], "1"),
    ],
)
def test_a_damaged_profile_is_refused_in_one_sentence(stored, path, value):
    with pytest.raises(ValueError, match=r"^the profile .*\.$") as raised:
        Profile.from_dict(changed(stored, path, value))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=30)
@given(st.data())
def test_whatever_is_in_a_profile_it_is_read_or_refused(stored, data):
    path, part = [], stored
    while isinstance(part, dict) and (not path or data.draw(st.booleans())):
        path.append(data.draw(st.sampled_from(sorted(part))))
        part = part[path[-1]]
    damaged = changed(stored, path, data.draw(junk))
    with contextlib.suppress(ValueError):
        assert Profile.from_dict(damaged).to_dict().keys() == stored.keys()


def test_vector_features_are_found_alone():
    vectors = pd.DataFrame({"v": [[1.0, 2.0], [2.0, 1.0]] * 20})
    model = make_pipeline(VectorFeatures(), GaussianNB()).fit(vectors, [0, 1] * 20)
    profile = Profile.of(model, vectors, [0, 1] * 20)
    assert profile.columns["v"].measures["cosine"].high > 0.8


def test_profiles_that_nobody_has_made_are_refused():
    good = Profile.of(DuelRanker(random_state=0).fit(X, Y), X, Y).to_dict()
    for change in ({"rows": 0}, {"columns": []}):
        with pytest.raises(ValueError, match="the profile"):
            Profile.from_dict(good | change)
    with pytest.raises(ValueError, match="the profile must be a dictionary, got None"):
        Profile.from_dict(None)


def test_any_number_of_rows_can_be_compared_with():
    model = DuelRanker(random_state=0).fit(X, Y)
    many = Profile.from_dict(Profile.of(model, X, Y).to_dict() | {"rows": 2**53, "unlike": 5})
    assert compare(many, model, 3 * X[:60], Y[:60]).drifted


def test_columns_are_compared_when_labels_have_come_or_gone():
    ranker = DuelRanker(LogisticDuels(keep_rows=True), random_state=0).fit(X, Y)
    profile = Profile.of(ranker, X, Y)
    made = compare(profile, ranker.partial_fit(X[:9] + 5, np.full(9, 7)), X, Y)
    assert any("updated" in note for note in made.notes)
    assert {finding.part for finding in made.findings} == {"column", "row"}


def test_checkpoints_of_the_model_are_left_alone(tmp_path):
    file = tmp_path / "fit.npz"
    engine = LogisticDuels(checkpoint=file, max_iter=2, tol=1e-14)
    with pytest.warns(ConvergenceWarning):
        model = DuelRanker(engine, random_state=0).fit(X, Y)
    before = file.read_bytes()
    assert Profile.of(model, X, Y).ranked is not None
    assert file.read_bytes() == before
