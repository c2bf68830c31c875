"""The words that spoke are marked in the rows that can be browsed."""

import json
import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from duelrank import AnchoredDuels, AutoDuels, DuelRanker, ForestDuels, LogisticDuels
from duelrank.explanations import explain_duel, explain_points
from duelrank.preprocessing import TextFeatures, make_preprocessing
from duelrank.report import _report, _words, render_report

TEXTS = [
    "my card has not arrived", "where is my new card", "the card is late", "card lost again",
    "what is the exchange rate", "rates for euros", "do you exchange pounds", "a good rate",
]  # fmt: skip
TEAMS = np.repeat(["cards", "rates"], 4)
HOSTILE = "card </script><script>alert(1)</script> \u2028 <img src=x> \x07rate"


def data_of(page):
    return json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def model():
    engine = AutoDuels({"anchored": AnchoredDuels(C=100, rivals=0)})
    return make_pipeline(TextFeatures(), DuelRanker(engine, random_state=0)).fit(TEXTS, TEAMS)


def test_texts_are_whole_and_the_strongest_words_are_marked(model):
    page = render_report(model, TEXTS, TEAMS)
    assert "AnchoredDuels" in page  # the engine that was chosen is named
    texts = data_of(page)["texts"]
    assert len(texts) == len(TEXTS)
    for text, shown in zip(TEXTS, texts, strict=True):
        ((column, parts),) = shown
        assert column == "text"
        assert "".join(part for part, _ in parts).strip() == text
        assert all(-3 <= level <= 3 for _, level in parts)
        why = explain_duel(model, [text])
        strongest = max(why.texts["text"], key=lambda piece: abs(piece.value))
        assert [strongest.text, int(3 * np.sign(strongest.value))] in parts


def test_hostile_texts_are_text(model):
    page = render_report(model, [HOSTILE, "card " * 2_000, "w" * 90_000])
    assert page.count("<script") == 2  # the data and the script of the page
    ((_, parts),), ((_, long),), ((_, blob),) = data_of(page)["texts"]
    assert sum(len(part) for part, _ in blob) < 1_100
    shown = "".join(part for part, _ in parts)
    assert "alert(1)" in shown  # tags are gone, as the model reads it
    assert "\x07" not in shown
    assert long[-1] == ["…", 0]
    assert sum(len(part) for part, _ in long) < 1_100


def test_no_more_texts_are_explained_than_the_page_shows(model, monkeypatch):
    texts = [f"{text} {number}" for number in range(125) for text in TEXTS]
    whole = data_of(render_report(model, texts))["texts"]
    assert len(whole) == 1_000
    explained = []

    def counted(model, X):
        for why in explain_points(model, X):
            explained.append(why)
            yield why

    monkeypatch.setattr(_words, "explain_points", counted)
    page_without_rows = len(render_report(model, texts[:1]).encode())
    explained.clear()
    monkeypatch.setattr(_report, "MOST_BYTES", page_without_rows + 30_000)
    page = render_report(model, texts)
    assert len(page.encode()) <= page_without_rows + 30_000
    shown = data_of(page)["texts"]
    assert 50 < len(shown) < 500
    assert len(explained) == len(shown) + 1
    places = iter(whole)
    assert all(text in places for text in shown)  # in the order of the table


def test_texts_of_a_table_and_missing_ones():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"body": [None, *TEXTS[1:]], "age": np.arange(8.0)})
    kinds = {"body": "text", "age": "number"}
    ranker = DuelRanker(LogisticDuels(C=10), random_state=0)
    fitted = make_pipeline(make_preprocessing(kinds), ranker).fit(table, TEAMS)
    texts = data_of(render_report(fitted, table, TEAMS))["texts"]
    assert texts[0] == [["body", []]]
    assert texts[1][0][0] == "body"


def test_models_without_words_have_none(model):
    X = np.random.RandomState(0).randn(30, 3)
    y = np.arange(30) % 3
    linear = DuelRanker(random_state=0).fit(X, y)
    forest = DuelRanker(ForestDuels(3), random_state=0).fit(X, y)
    for ranker in (linear, forest):
        assert data_of(render_report(ranker, X, y))["texts"] is None
