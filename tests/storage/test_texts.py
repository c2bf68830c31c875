"""Vocabularies and other texts in model files: fast, small, and checked before they are used."""

import json
import zipfile
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from duelrank import DuelRanker

skops_io = pytest.importorskip("skops.io")

from duelrank.storage import (  # noqa: E402
    ModelFileError,
    _archive,
    _checks,
    _packing,
    load,
    save,
    untrusted_types,
)
from duelrank.storage._packing import n_items, pack, unpack  # noqa: E402

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")


def load_trusting(path):
    """Load a file of our own, whatever it holds."""
    return load(path, trusted=untrusted_types(path))


N_ROWS, N_LABELS = 60, 3
LABELS = np.arange(N_ROWS) % N_LABELS
WORDS = [f"wörd{i}" for i in range(250)]
RNG = np.random.RandomState(0)
TEXTS = [" ".join(RNG.choice(WORDS, 8)) for _ in range(N_ROWS)]
FRAME = pd.DataFrame({"body": TEXTS, "size": np.arange(N_ROWS) % 7})
RECORDS = [dict.fromkeys(text.split(), 1.0) for text in TEXTS]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def ranked(*steps):
    return make_pipeline(*steps, DuelRanker(random_state=0))


MODELS = {
    "counts": (ranked(CountVectorizer()), TEXTS),
    "frequent words": (ranked(TfidfVectorizer(min_df=2)), TEXTS),
    "given words": (ranked(CountVectorizer(vocabulary=WORDS)), TEXTS),
    "given set of words": (ranked(CountVectorizer(vocabulary=set(WORDS))), TEXTS),
    "stop words": (ranked(CountVectorizer(stop_words=WORDS[:40])), TEXTS),
    "hashed words": (ranked(HashingVectorizer(n_features=64)), TEXTS),
    "words and letters": (
        ranked(
            make_union(TfidfVectorizer(), TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)))
        ),
        TEXTS,
    ),
    "columns": (
        ranked(make_column_transformer((TfidfVectorizer(), "body"), ("passthrough", ["size"]))),
        FRAME,
    ),
    "vocabularies of duels": (
        DuelRanker(make_pipeline(CountVectorizer(), LogisticRegression()), random_state=0),
        TEXTS,
    ),
    "records": (ranked(DictVectorizer()), RECORDS),
    "categories": (ranked(OneHotEncoder()), FRAME),
}


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_texts_come_back(name, path):
    model, points = MODELS[name]
    model.fit(points, LABELS)
    save(model, path)
    # No word of the texts has a place of its own in the JSON around the arrays.
    schema = members_of(path)["schema.json"].decode("unicode_escape")
    assert "rd17" not in schema
    same = load_trusting(path)
    assert same.decision_function(points).tobytes() == model.decision_function(points).tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_files_with_a_place_for_every_word_are_read(name, path, monkeypatch):
    """As older versions have written them."""
    model, points = MODELS[name]
    model.fit(points, LABELS)
    new = ("texts", "sets", "vocabularies", "mixed")
    older = {kind: packs for kind, packs in _packing._KINDS.items() if kind not in new}
    monkeypatch.setattr(_packing, "_KINDS", older)
    save(model, path)
    monkeypatch.undo()
    same = load_trusting(path)
    assert same.decision_function(points).tobytes() == model.decision_function(points).tobytes()


@pytest.mark.parametrize("min_df", [1, 2])
def test_vocabularies_keep_their_order_and_types(min_df, path):
    model = ranked(CountVectorizer(min_df=min_df)).fit(TEXTS, LABELS)
    save(model, path)
    before, after = model[0].vocabulary_, load(path)[0].vocabulary_
    assert list(after.items()) == list(before.items())
    assert {type(index) for index in after.values()} == {type(i) for i in before.values()}


MANY = [f"{i}" for i in range(50)]


@pytest.mark.parametrize(
    "thing",
    [
        MANY,
        [*MANY, ""],
        [""] * 20 + ["ü"] * 20,
        ["a" * 300, *MANY],  # its length does not fit in a byte
        ["日本", "🦆", "\0", "\n", *MANY],
        [*MANY, "\ud800"],  # half of a surrogate pair, which UTF-8 cannot hold
        np.array(MANY, dtype=object),
        np.array(MANY * 2, dtype=object).reshape(10, 10),
        np.array(MANY),
        [*MANY, None],
        np.array([*MANY, np.nan, None, 3], dtype=object),
        [np.array(MANY, dtype=object), np.arange(3), np.array(["x", np.nan], dtype=object)],
        set(MANY),
        set(),
        {key: i for i, key in enumerate(MANY)},
        {key: i for i, key in enumerate([*MANY, "\ud800"])},
        {key: np.int32(i) for i, key in enumerate(MANY)},
        dict.fromkeys(MANY, 0.5),
        dict.fromkeys(MANY, 2**70),
        {key: i % 2 == 0 for i, key in enumerate(MANY)},
        {key: i if i % 2 else float(i) for i, key in enumerate(MANY)},
        {key: key for key in MANY},
        {i: i for i in range(50)},
        {"few": 1},
        {},
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_packing_keeps_texts(thing):
    column = pack([thing, thing])
    for back in unpack(column, 2, most=n_items(column)):
        assert type(back) is type(thing)
        assert equal(back, thing)
        if isinstance(thing, dict):
            assert list(back) == list(thing)
            assert [type(value) for value in back.values()] == [type(v) for v in thing.values()]


def equal(back, thing):
    if isinstance(thing, list) and isinstance(thing[0], np.ndarray):
        return all(map(equal, back, thing))
    if isinstance(thing, np.ndarray):
        return back.dtype == thing.dtype and repr(back.tolist()) == repr(thing.tolist())
    return back == thing


def test_one_long_word_does_not_make_the_others_long(path):
    texts = [*TEXTS, "x" * 10**6]
    model = ranked(CountVectorizer()).fit(texts, [*LABELS, 0])
    save(model, path)
    arrays = [m for name, m in members_of(path).items() if name.endswith(".npy")]
    assert sum(map(len, arrays)) < 2 * 10**6
    assert load(path)[0].vocabulary_ == model[0].vocabulary_


def test_many_words_are_few_parts(path):
    """As many members and parts of JSON for a thousand words as for a hundred."""
    sizes = []
    for n_words in (100, 1000):
        texts = [" ".join(f"w{i}" for i in range(row, n_words, 3)) for row in range(3)]
        save(ranked(CountVectorizer()).fit(texts, range(3)), path)
        members = members_of(path)
        sizes.append((len(members), members["schema.json"].count(b"{")))
    assert sizes[0] == sizes[1]


# Hostile files: their checksum is right


def refused(model, path, sentence):
    """Show that a model is loaded no more after it was altered."""
    save(model, path)
    with pytest.raises(ModelFileError, match=f"was not written by duelrank: {sentence}"):
        load_trusting(path)


def renumbered(number, as_type=int):
    """Return what gives another number to the first term."""

    def alter(vocabulary):
        vocabulary[next(iter(vocabulary))] = as_type(number)

    return alter


def with_key(key):
    def alter(vocabulary):
        vocabulary[key] = vocabulary.pop(next(iter(vocabulary)))

    return alter


NOT_NUMBERED = "the terms of a vocabulary are not numbered right"
VOCABULARIES = {
    "beyond the columns": (renumbered(10**6), NOT_NUMBERED),
    "far beyond": (renumbered(2**40), NOT_NUMBERED),
    "beyond all integers": (renumbered(2**70), NOT_NUMBERED),
    "below zero": (renumbered(-1), NOT_NUMBERED),
    "a fraction": (renumbered(0.0, float), NOT_NUMBERED),
    "true": (renumbered(1, bool), NOT_NUMBERED),
    "a number too many": (lambda vocabulary: vocabulary.update(more=10**6), NOT_NUMBERED),
    "a term too few": (lambda vocabulary: vocabulary.pop(WORDS[17]), NOT_NUMBERED),
    "a number as a term": (with_key(7), "a vocabulary holds a term that is no text"),
}


@pytest.mark.parametrize("how", VOCABULARIES)
def test_vocabularies_that_lead_out_of_the_columns_are_refused(how, path):
    alter, sentence = VOCABULARIES[how]
    model = ranked(CountVectorizer()).fit([*TEXTS, " ".join(WORDS)], [*LABELS, 0])
    alter(model[0].vocabulary_)
    refused(model, path, sentence)


PLACES = {
    "words and letters": lambda model: model[0].transformer_list[1][1],
    "columns": lambda model: model[0].transformers_[0][1],
    "vocabularies of duels": lambda model: model.duels_.estimators_[1][0],
}


@pytest.mark.parametrize("place", PLACES)
def test_vocabularies_are_found_wherever_they_are(place, path):
    model, points = MODELS[place]
    model = clone(model).fit(points, LABELS)
    renumbered(10**6)(PLACES[place](model).vocabulary_)
    refused(model, path, NOT_NUMBERED)


def test_repeated_numbers_of_terms_are_refused(path):
    model = ranked(CountVectorizer()).fit(TEXTS, LABELS)
    first, second = list(model[0].vocabulary_)[:2]
    model[0].vocabulary_[first] = model[0].vocabulary_[second]
    refused(model, path, NOT_NUMBERED)


@pytest.mark.parametrize("vocabulary", [None, [], WORDS, "words"], ids=lambda v: type(v).__name__)
def test_what_is_no_vocabulary_is_refused(vocabulary, path):
    model = ranked(CountVectorizer()).fit(TEXTS, LABELS)
    model[0].vocabulary_ = vocabulary
    refused(model, path, "a vocabulary is no dictionary")


def test_records_with_a_wrong_vocabulary_are_refused(path):
    model = ranked(DictVectorizer()).fit(RECORDS, LABELS)
    renumbered(10**6)(model[0].vocabulary_)
    refused(model, path, NOT_NUMBERED)


def letters(text):
    """Make of a text what is no text."""
    return [ord(letter) for letter in text]


def test_functions_may_make_terms_of_any_kind(path):
    model = ranked(CountVectorizer(analyzer=letters)).fit(TEXTS, LABELS)
    save(model, path)
    same = load(path, trusted=[f"{letters.__module__}.letters"])
    assert same[0].vocabulary_ == model[0].vocabulary_
    assert same.decision_function(TEXTS).tobytes() == model.decision_function(TEXTS).tobytes()


FREQUENCIES = {
    "of fewer terms": lambda idf: idf[1:],
    "of more terms": lambda idf: np.append(idf, 1.0),
    "of two axes": lambda idf: idf[:, np.newaxis],
    "that are no numbers": lambda idf: np.full_like(idf, np.nan),
    "that are infinite": lambda idf: np.where(np.arange(len(idf)) == 3, np.inf, idf),
    "that are integers": lambda idf: idf.astype(np.int64),
    "that are objects": lambda idf: idf.astype(object),
    "that are a list": lambda idf: idf.tolist(),
    "that are missing": lambda idf: None,
}


@pytest.mark.parametrize("steps", [[TfidfVectorizer()], [CountVectorizer(), TfidfTransformer()]])
@pytest.mark.parametrize("how", FREQUENCIES)
def test_frequencies_that_do_not_fit_the_terms_are_refused(how, steps, path):
    model = ranked(*steps).fit(TEXTS, LABELS)
    frequencies = getattr(model[-2], "_tfidf", model[-2])
    frequencies.idf_ = FREQUENCIES[how](frequencies.idf_)
    refused(model, path, "the frequencies of a vocabulary do not fit its terms")


def test_frequencies_of_another_type_are_refused(path):
    model = ranked(TfidfVectorizer()).fit(TEXTS, LABELS)
    model[0]._tfidf = CountVectorizer()
    refused(model, path, "a vectorizer has no frequencies")


@pytest.mark.parametrize("n_features", [0, -1, 2**31, 2**40, 2.5, True, "8", None])
@pytest.mark.parametrize("step", [HashingVectorizer(n_features=8), FeatureHasher(8)])
def test_hashing_into_columns_that_cannot_be_is_refused(step, n_features, path):
    """Zero columns would end the process."""
    points = TEXTS if isinstance(step, HashingVectorizer) else RECORDS
    model = ranked(clone(step)).fit(points, LABELS)
    save(model, path)
    load_trusting(path)
    model[0].n_features = n_features
    refused(model, path, "a vectorizer hashes texts into a number of columns that cannot be")


def fewer_terms(vectorizer):
    terms = list(vectorizer.vocabulary_)[:-5]
    vectorizer.vocabulary_ = {term: number for number, term in enumerate(terms)}


COLUMNS = {
    "pipeline": (ranked(CountVectorizer()), TEXTS, lambda m: fewer_terms(m[0])),
    "hashed": (
        ranked(HashingVectorizer(n_features=8)),
        TEXTS,
        lambda m: m[0].set_params(n_features=9),
    ),
    "step between": (
        ranked(CountVectorizer(), TfidfTransformer(use_idf=False)),
        TEXTS,
        lambda m: fewer_terms(m[0]),
    ),
    "nothing between": (
        ranked(CountVectorizer(), "passthrough"),
        TEXTS,
        lambda m: fewer_terms(m[0]),
    ),
    "union": (
        ranked(make_union(CountVectorizer(), CountVectorizer(analyzer="char"))),
        TEXTS,
        lambda m: fewer_terms(m[0].transformer_list[1][1]),
    ),
    "column": (
        ranked(make_column_transformer((CountVectorizer(), "body"))),
        FRAME,
        lambda m: fewer_terms(m[0].transformers_[0][1]),
    ),
    "columns of all": (
        ranked(make_column_transformer((OneHotEncoder(), ["size"]))),
        FRAME,
        lambda m: m[0].output_indices_.update(onehotencoder=slice(0, 10**6)),
    ),
    "columns of a pipeline": (
        ranked(make_column_transformer((make_pipeline(CountVectorizer()), "body"))),
        FRAME,
        lambda m: fewer_terms(m[0].transformers_[0][1][0]),
    ),
    "ranker": (
        ranked(CountVectorizer()),
        TEXTS,
        lambda m: setattr(m[-1], "n_features_in_", m[-1].n_features_in_ + 1),
    ),
    "duels": (
        DuelRanker(make_pipeline(CountVectorizer(), LogisticRegression()), random_state=0),
        TEXTS,
        lambda m: fewer_terms(m.duels_.estimators_[1][0]),
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_vectorizers_that_make_other_columns_than_are_taken_are_refused(name, path):
    model, points, alter = COLUMNS[name]
    model = clone(model).fit(points, LABELS)
    save(model, path)
    load_trusting(path)
    alter(model)
    refused(model, path, "a vectorizer makes other columns than the next step takes")


SLICES = {
    "below zero": {"onehotencoder": slice(-(10**13), 5)},
    "a gap": {"standardscaler": slice(8, 9)},
    "an overlap": {"standardscaler": slice(6, 8)},
    "not from the first": {"onehotencoder": slice(1, 7)},
    "backwards": {"onehotencoder": slice(7, 0)},
    "all": {"onehotencoder": slice(None)},
    "every second": {"onehotencoder": slice(0, 7, 2)},
    "between integers": {"onehotencoder": slice(0.0, 7.0)},
    "a number": {"onehotencoder": 7},
    "empty beyond the last": {"remainder": slice(9, 9)},
    "of no part": {"more": slice(8, 9)},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Fitted models with parts side by side, as they are and frozen, which can be loaded."""
    columns = make_column_transformer((OneHotEncoder(), ["size"]), (StandardScaler(), ["size"]))
    models = [ranked(columns), ranked(FrozenEstimator(clone(columns).fit(FRAME)))]
    path = tmp_path_factory.mktemp("tables") / "model.skops"
    for model in models:
        save(model.fit(FRAME, LABELS), path)
        load(path)
    return models


def output_indices(model):
    inside = model[0].estimator if isinstance(model[0], FrozenEstimator) else model[0]
    return inside.output_indices_


@pytest.mark.parametrize("changes", SLICES.values(), ids=SLICES)
def test_columns_of_a_table_that_are_not_side_by_side_are_refused(changes, tables, path):
    for model in deepcopy(tables):
        output_indices(model).update(changes)
        refused(model, path, "the parts of a table do not make columns side by side")


def test_tables_that_do_not_know_the_columns_of_a_part_are_refused(tables, path):
    for model in deepcopy(tables):
        del output_indices(model)["standardscaler"]
        refused(model, path, "the parts of a table do not make columns side by side")


def test_parts_without_columns_are_loaded(path):
    columns = make_column_transformer(
        (OneHotEncoder(), ["size"]), ("drop", ["body"]), (StandardScaler(), [])
    )
    save(ranked(columns).fit(FRAME, LABELS), path)
    load(path)


def texts_column(**changes):
    return pack([MANY]) | {"items": pack(MANY) | changes}


UTF8 = np.frombuffer("".join(MANY).encode(), dtype=np.uint8)
LENGTHS = np.array([len(text) for text in MANY], dtype=np.uint8)
VOCABULARY = pack([{key: i for i, key in enumerate(MANY)}])
HOSTILE = {
    "one byte more": texts_column(utf8=np.append(UTF8, UTF8[:1])),
    "one byte less": texts_column(utf8=UTF8[1:]),
    "no bytes": texts_column(utf8=UTF8[:0]),
    "bytes of two axes": texts_column(utf8=UTF8[:, np.newaxis]),
    "bytes of another size": texts_column(utf8=UTF8.astype(np.int64)),
    "bytes as a list": texts_column(utf8=UTF8.tolist()),
    "one length less": texts_column(lengths=LENGTHS[1:]),
    "a length that is too large": texts_column(lengths=np.append(LENGTHS[1:], np.uint8(200))),
    "lengths below zero": texts_column(lengths=LENGTHS.astype(np.int64) * -1),
    "lengths that add up to less than nothing": texts_column(
        lengths=np.append(LENGTHS[2:], np.array([2**64 - 1, 3], dtype=np.uint64))
    ),
    "lengths with a sign": texts_column(
        lengths=np.append(LENGTHS[2:].astype(np.int64), [-1, LENGTHS[:2].sum() + 1])
    ),
    "lengths between integers": texts_column(lengths=LENGTHS.astype(float)),
    "more texts": texts_column(length=51),
    "text twice in a vocabulary": VOCABULARY | {"keys": pack([*MANY[1:], MANY[1]])},
    "terms that are integers": VOCABULARY | {"keys": pack(list(range(50)))},
    "fewer terms": VOCABULARY | {"keys": pack(MANY[1:])},
    "fewer numbers": VOCABULARY | {"values": pack(list(range(49)))},
    "more terms than there are": VOCABULARY | {"lengths": np.array([51])},
    "fewer than no terms": VOCABULARY | {"lengths": np.array([-50])},
    "set of lists": pack([set(MANY)]) | {"items": pack([[[1], [2]]])},
    "set of nothing": pack([set(MANY)]) | {"items": pack([3])},
    "forms of fewer objects": {
        "kind": "mixed",
        "length": 2,
        "forms": np.zeros(2, dtype=np.uint8),
        "items": {"0": pack([1])},
    },
    "form that is not there": {
        "kind": "mixed",
        "length": 2,
        "forms": np.array([0, 2], dtype=np.uint8),
        "items": {"0": pack([1]), "2": pack(["a"])},
    },
    "forms of another type": {
        "kind": "mixed",
        "length": 1,
        "forms": np.zeros(1),
        "items": {"0": pack([1])},
    },
}


def forge(path, column):
    """Write a model file that holds this column as an attribute of its ranker."""
    packed = pack([ranked(CountVectorizer()).fit(TEXTS, LABELS)])
    packed["items"]["extra_"] = column
    content, n_objects = skops_io.dumps(packed), n_items(packed)
    save(ranked(CountVectorizer()).fit(TEXTS, LABELS), path)
    described = {
        key: value
        for key, value in json.loads(members_of(path)["duelrank.json"]).items()
        if key != "checksum"
    }
    _archive.write_archive(path, content, described, n_objects)


@pytest.mark.parametrize("how", HOSTILE)
def test_packed_texts_that_do_not_fit_together_are_refused(how, path):
    length = HOSTILE[how]["length"]
    with pytest.raises(ValueError, match="its packed arrays do not fit together"):
        unpack(HOSTILE[how], length)
    if length == 1:
        forge(path, HOSTILE[how])
        with pytest.raises(ModelFileError, match="its packed arrays do not fit together"):
            load(path)


@pytest.mark.parametrize("wrong", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"])
def test_texts_that_are_no_utf8_are_refused(wrong, path):
    """A lone surrogate is no UTF-8 either."""
    lengths = np.append(LENGTHS[1:], np.uint8(len(wrong)))
    utf8 = np.append(UTF8[LENGTHS[0] :], np.frombuffer(wrong, dtype=np.uint8))
    forge(path, texts_column(utf8=utf8, lengths=lengths))
    with pytest.raises(ModelFileError, match="its texts are no UTF-8"):
        load(path)


def test_texts_are_cut_where_they_were_joined(path):
    """Lengths that cut a letter in two are refused, though all bytes together are UTF-8."""
    column = pack([["ü"] * 10 + ["é"] * 10])
    lengths = column["items"]["lengths"].copy()
    lengths[:2] = 1, 3
    forge(path, column | {"items": column["items"] | {"lengths": lengths}})
    with pytest.raises(ModelFileError, match="its texts are no UTF-8"):
        load(path)


def test_more_texts_than_a_file_may_hold_are_refused(path):
    """Empty texts take no bytes but their lengths, which shrink to next to nothing."""
    many = 10**6
    nothing = {"utf8": UTF8[:0], "lengths": np.zeros(many, dtype=np.uint8)}
    texts = {"kind": "texts", "length": many, **nothing}
    column = {
        "kind": "lists",
        "length": 1,
        "tuples": False,
        "lengths": np.array([many]),
        "items": texts,
    }
    with pytest.raises(ValueError, match="more objects than it could hold"):
        unpack(column)
    forge(path, column)
    # `save` did not compress it, so it is large enough.
    load(path, trusted=["sklearn.pipeline.Pipeline"])  # which has an attribute too many
    members = members_of(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    with pytest.raises(ModelFileError, match="more objects than it could hold"):
        load(path)


class Shy(TransformerMixin, BaseEstimator):
    """A transformer as if it were ours, which finds that it was altered."""

    __module__ = "duelrank.preprocessing"

    def check_fitted(self):
        raise ValueError("the terms are not sorted")


def test_transformers_of_ours_check_themselves():
    _checks.check_estimator(TfidfVectorizer())
    with pytest.raises(ValueError, match="the terms are not sorted"):
        _checks.check_estimator(Shy())
