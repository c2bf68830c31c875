"""Text becomes numbers, whatever it is, and numbers are spread over the text again."""

import html

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer

from duelrank.preprocessing import TextFeatures

TEXTS = [
    "Where is my new card?",
    "My card has not arrived yet, where is it",
    "What is the exchange rate today?",
    "card payment declined, the card is blocked",
    "",
    None,
]


def dense(matrix):
    return matrix.toarray()


def test_it_is_the_tfidf_of_scikit_learn():
    texts = [text or "" for text in TEXTS]
    theirs = sparse.hstack(
        [
            TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)).fit_transform(texts),
            TfidfVectorizer(
                sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 5)
            ).fit_transform(texts),
        ]
    )
    features = TextFeatures()
    ours = features.fit_transform(TEXTS)
    assert sparse.issparse(ours)
    np.testing.assert_allclose(dense(ours), dense(theirs))
    np.testing.assert_allclose(dense(features.transform(TEXTS)), dense(ours))
    assert len(features.get_feature_names_out()) == ours.shape[1]
    assert len(set(features.get_feature_names_out())) == ours.shape[1]


def test_rows_without_words_are_zero():
    features = TextFeatures().fit(TEXTS)
    assert features.transform([None, "", "  ", float("nan")]).nnz == 0
    assert TextFeatures().fit_transform(["", None]).shape == (2, 0)
    punctuation = TextFeatures().fit(["?!", "!!"])
    assert len(punctuation.words_) == 0
    assert len(punctuation.characters_) > 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<p class='x'>My <b>card</b></p>", "My card"),
        ("Tom &amp; Jerry&nbsp;&lt;3", "Tom & Jerry <3"),
        ("<!-- secret <b>note</b> -->card", "card"),
        ("a < b and c > d", html.unescape("a &lt; b and c &gt; d")),
        ("CARD", "card"),
        ("ｃａｒｄ", "card"),  # full width
        ("e\u0301t\u00e9", "\u00e9te\u0301"),  # accents, composed and not
    ],
)
def test_what_looks_the_same_is_the_same(one, other):
    features = TextFeatures().fit([one, other, "something else"])
    np.testing.assert_allclose(*dense(features.transform([one, other])))


def test_comments_that_do_not_end_are_text_and_take_no_time():
    features = TextFeatures().fit(["<!--" * 20_000 + " card", "<!-- -- " * 10_000 + "--> rate"])
    assert {"card", "rate"} <= set(features.words_.tolist())


def test_a_refit_forgets_the_column():
    pd = pytest.importorskip("pandas")
    features = TextFeatures().fit(pd.DataFrame({"body": TEXTS}))
    assert features.fit(TEXTS).get_feature_names_out()[0].startswith("x0: ")


def test_signs_of_comparison_are_no_tags():
    assert "less" in TextFeatures().fit(["a <b less c> d", "x < less > y"]).words_


@pytest.mark.parametrize(
    "texts",
    [
        ["我的银行卡还没有收到", "我的银行卡丢了", "汇率是多少", "今天的汇率"],
        ["บัตรของฉันยังไม่มา", "บัตรหาย", "อัตราแลกเปลี่ยน", "อัตราวันนี้"],
        ["👍👍", "👍", "😡", "😡😡"],
        ["कार्ड नहीं आया", "कार्ड खो गया", "विनिमय दर", "आज की दर"],
    ],
)
def test_other_scripts_and_emoji_live_by_their_characters(texts):
    X = TextFeatures().fit_transform(texts)
    alike = dense(X @ X.T)
    assert alike[0, 1] > alike[0, 2]
    assert alike[2, 3] > alike[0, 3]


def test_a_very_long_text_is_cut_and_no_word_of_it_is_endless():
    blob = "x" * 1_000_000
    features = TextFeatures().fit([blob, "card " * 250_000 + "secret", "card is late"])
    assert "secret" not in features.words_
    assert "card card" in features.words_
    assert max(map(len, features.words_)) < 100
    assert np.isfinite(features.transform([blob]).data).all()


def test_signs_that_stand_for_many_are_cut_as_well():
    features = TextFeatures().fit(["card"])
    pieces = features.spread("\ufdfa" * 100_000, np.ones(len(features.get_feature_names_out())))
    assert sum(len(piece.text) + piece.spaced for piece in pieces) <= 100_001


def test_terms_are_bounded_and_rare_ones_can_be_left_out():
    few = TextFeatures(max_terms=5).fit(TEXTS)
    assert len(few.words_) == len(few.characters_) == 5
    assert "card" in few.words_
    common = TextFeatures(min_rows=2).fit(TEXTS)
    assert "card" in common.words_
    assert "declined" not in common.words_
    assert len(TextFeatures(min_rows=9).fit(TEXTS).words_) == 0


def test_containers_do_not_matter():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    expected = dense(TextFeatures().fit_transform(TEXTS))
    frame = pd.DataFrame({"body": TEXTS})
    for texts in (
        frame,
        frame["body"],
        frame.astype("string"),
        pl.DataFrame(frame),
        pl.Series(TEXTS),
        pa.table({"body": TEXTS}),
        np.array(TEXTS, dtype=object),
        np.array(TEXTS, dtype=object).reshape(-1, 1),
    ):
        np.testing.assert_array_equal(dense(TextFeatures().fit_transform(texts)), expected)
    assert TextFeatures().fit(frame).get_feature_names_out()[0].startswith("body: ")


def test_no_texts_have_no_rows():
    features = TextFeatures().fit(TEXTS)
    n_terms = len(features.get_feature_names_out())
    for empty in ([], np.zeros((0, 1), dtype=object)):
        assert features.transform(empty).shape == (0, n_terms)


def test_columns_have_the_names_that_scikit_learn_gives_them():
    pairs = np.array([["card", "late"], ["rate", "soon"]], dtype=object)
    columns = ColumnTransformer([("one", TextFeatures(), [0]), ("two", TextFeatures(), [1])])
    names = columns.fit(pairs).get_feature_names_out()
    assert {"one__x0: card", "two__x1: late"} <= set(names)
    alone = TextFeatures().fit(["card"])
    assert alone.get_feature_names_out(["body"])[0] == "body: card"
    with pytest.raises(ValueError, match="input_features must hold 1 names, got 2"):
        alone.get_feature_names_out(["body", "title"])
    pd = pytest.importorskip("pandas")
    named = TextFeatures().fit(pd.DataFrame({"body": ["card"]}))
    assert named.get_feature_names_out(["body"])[0] == "body: card"
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        named.get_feature_names_out(["title"])


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="X must hold one text per row, got the text 'my card'"):
        TextFeatures().fit("my card")
    with pytest.raises(ValueError, match="X must have a single column, got 2"):
        TextFeatures().fit(np.array([["a", "b"]], dtype=object))
    with pytest.raises(ValueError, match=r"^X must hold at least one text, got none\.$"):
        TextFeatures().fit([])
    for X, what in [
        (None, "None"),
        (7, "an object of type int"),
        (np.array("card"), "an object of type ndarray"),
        (b"card", "an object of type bytes"),
        (sparse.csr_array([[1.0], [2.0]]), "an object of type csr_array"),
    ]:
        with pytest.raises(ValueError, match=rf"^X must hold one text per row, got {what}\.$"):
            TextFeatures().fit(X)
    features = TextFeatures().fit(TEXTS)
    for cell in (["card"], ("card",), np.array(["card"]), b"card"):
        holds = rf"^X must hold .*, but row 1 \(from 0\) holds .* {type(cell).__name__}\.$"
        with pytest.raises(ValueError, match=holds):
            TextFeatures().fit(["card", cell])
        with pytest.raises(ValueError, match=holds):
            features.transform(["card", cell])
    n_terms = len(features.get_feature_names_out())
    for n in (n_terms - 1, n_terms + 1):
        with pytest.raises(ValueError, match=rf"^values must have the shape \({n_terms},\)"):
            features.spread("card", np.ones(n))
    for name in ("max_terms", "min_rows"):
        with pytest.raises(ValueError, match=name):
            TextFeatures(**{name: 0}).fit(TEXTS)


def contributions(features, text, coef):
    """What every term adds to a product with coefficients."""
    return dense(features.transform([text]))[0] * coef


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.integers(0, 5))
def test_what_is_spread_adds_up(text, seed):
    features = TextFeatures().fit([*TEXTS[:4], text, "İstanbul ǅ 我的卡 ＡＢ"])
    coef = np.random.RandomState(seed).randn(len(features.get_feature_names_out()))
    values = contributions(features, text, coef)
    pieces = features.spread(text, values)
    total = sum(piece.value for piece in pieces)
    assert total == pytest.approx((features.transform([text]) @ coef)[0], abs=1e-9)
    assert total == pytest.approx(values.sum(), abs=1e-9)


def test_words_get_what_their_terms_say():
    features = TextFeatures().fit(TEXTS)
    names = features.get_feature_names_out()
    values = np.zeros(len(names))
    values[names == "x0: card"] = 1.0
    values[names == "x0: card is"] = 0.8
    values[names == "x0: [ bl]"] = 0.5
    pieces = features.spread("Card: the CARD is blocked", values)
    assert [piece.text for piece in pieces] == ["Card:", "the", "CARD", "is", "blocked"]
    # The word occurs twice. A pair of words is divided by characters, four and two.
    expected = [0.5, 0, 0.5 + 0.8 * 4 / 6, 0.8 * 2 / 6, 0.5]
    np.testing.assert_allclose([piece.value for piece in pieces], expected)
    assert all(piece.spaced for piece in pieces)


def test_a_word_without_numbers_gets_nothing_at_all():
    features = TextFeatures().fit(["我的卡 card of mine", "qqq"])
    values = np.random.RandomState(0).randn(len(features.get_feature_names_out()))
    values[[": " in name and "q" in name for name in features.get_feature_names_out()]] = 0
    pieces = features.spread("of mine zzz card qqq 我xx卡 of", values)
    said = {piece.text: piece.value for piece in pieces}
    assert said["zzz"] == said["qqq"] == said["x"] == 0
    assert said["card"] != 0


def test_scripts_without_spaces_are_shown_by_characters():
    features = TextFeatures().fit(["我的卡 has 丢了", "card"])
    values = np.ones(len(features.get_feature_names_out()))
    pieces = features.spread("我的卡 has", values)
    assert [piece.text for piece in pieces] == ["我", "的", "卡", "has"]
    assert [piece.spaced for piece in pieces] == [False, False, True, True]


def test_it_clones_and_keeps_its_parameters():
    features = TextFeatures(max_terms=7, min_rows=2)
    assert clone(features).get_params() == {"max_terms": 7, "min_rows": 2}


def test_altered_terms_are_found():
    def altered(**attributes):
        features = TextFeatures().fit(TEXTS)
        vars(features).update(attributes)
        return features

    def without(name):
        features = altered()
        delattr(features, name)
        return features

    good = altered(n_features_in_=1, feature_names_in_=np.array(["body"], dtype=object))
    good.check_fitted()
    TextFeatures().check_fitted()
    infinite = good.word_idf_.copy()
    infinite[0] = np.inf
    for bad in (
        altered(words_=good.words_[::-1]),
        altered(words_=np.repeat(good.words_[:1], len(good.words_))),
        altered(words_=good.words_.astype(object)),
        altered(words_=good.words_.tolist()),
        altered(words_=good.words_[:-1]),
        altered(word_idf_=infinite),
        altered(character_idf_=good.character_idf_.astype(str)),
        altered(n_features_in_=2),
        altered(n_features_in_="1"),
        altered(feature_names_in_=np.array(["a", "b"], dtype=object)),
        altered(feature_names_in_=np.array([1], dtype=object)),
        altered(feature_names_in_="body"),
        *(without(name) for name in ("words_", "word_idf_", "characters_", "character_idf_")),
    ):
        with pytest.raises(ValueError, match="the words of a text are not counted right"):
            bad.check_fitted()
