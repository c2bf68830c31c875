import base64
import hashlib
import html
import json
import os
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from duelrank import DuelRanker, pairs, predict_order
from duelrank._choices import AGGREGATIONS, TIES
from duelrank.posteriors import diagnose
from duelrank.report import render_report, write_report
from duelrank.report._hardness import in_words
from duelrank.report._text import LONGEST, as_json, foreign, plain
from duelrank.scoring import top_k_scorer

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- --> ]]> {{data}}",
    "\" onload='alert(1)' \u2028 &lt;b&gt;",
    "\u202eright to left\x00\x07\ud800",
]


class Page(HTMLParser):
    """The parts of a page: tags, text by section, and the data of its script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.scripts, self.attributes = [], [], [], []
        self.elements = []
        self._in, self._glued = [], False
        self.feed(text)
        self.close()
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.elements.append((tag, attributes))
        self.attributes += [(tag, name, value) for name, value in attributes]
        self._glued = tag == "wbr"
        if tag not in ("meta", "input", "wbr"):
            self._in.append(tag)

    def handle_endtag(self, tag):
        assert self._in.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self._in.pop()

    def handle_data(self, data):
        if self._in and self._in[-1] == "script":
            self.scripts.append(data)
        elif self._glued:
            self.words[-1] += data
            self._glued = False
        elif not self._in or self._in[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))

    def field(self, name):
        packed = self.data["fields"][name]
        raw = np.frombuffer(base64.b64decode(packed["base64"]), dtype=f"<u{packed['bytes']}")
        return raw.reshape(-1, packed["columns"]) if packed["columns"] else raw


def halves(X, y):
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def digit_halves(digits):
    return halves(*digits)


@pytest.fixture(scope="module")
def ranker(digit_halves):
    X, y, _, _ = digit_halves
    return DuelRanker(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def page(ranker, digit_halves):
    return Page(render_report(ranker, *digit_halves[2:]))


def test_packed_points_are_those_of_the_library(ranker, digit_halves, page):
    _, _, X, y = digit_halves
    tournaments = ranker.tournament(X)
    order = ranker.predict_order(X)
    np.testing.assert_array_equal(page.field("order"), order)
    np.testing.assert_array_equal(page.field("truth")[:, 0], y)
    rows = np.arange(len(X))
    np.testing.assert_array_equal(page.field("place")[:, 0], ranker.predict_ranks(X)[rows, y])
    shares = np.take_along_axis(ranker.predict_proba(X), order, axis=1)
    written = [[f"{share:.1%}" for share in row] for row in shares.tolist()]
    shown = [[f"{tenths / 10:.1f}%" for tenths in row] for row in page.field("posteriors").tolist()]
    assert shown == written
    won = np.take_along_axis(9 - tournaments.losses, order, axis=1)
    np.testing.assert_array_equal(page.field("won"), won)
    in_cycle = np.take_along_axis(tournaments.in_cycle, order, axis=1)
    np.testing.assert_array_equal(page.field("cycle") > 0, in_cycle)
    sizes = [max(map(len, cycles), default=0) for cycles in tournaments.cycles]
    np.testing.assert_array_equal(page.field("largest_cycle")[:, 0], sizes)


def test_packed_duels_are_those_of_the_library(ranker, digit_halves, page):
    _, _, X, _ = digit_halves
    tournaments = ranker.tournament(X)
    order = ranker.predict_order(X)
    duels = page.field("duels")
    upsets = np.zeros(len(X), dtype=int)
    for column, (ahead, behind) in enumerate(zip(*pairs(10), strict=True)):
        for row, (a, b) in enumerate(order[:, [ahead, behind]].tolist()):
            probability = tournaments.probabilities[row, a, b]
            assert f"{duels[row, column] & 127}%" == f"{probability:.0%}"
            assert (duels[row, column] > 127) == tournaments.beats[row, b, a]
            upsets[row] += tournaments.beats[row, b, a]
    np.testing.assert_array_equal(page.field("upsets")[:, 0], upsets)


def test_summaries_are_those_of_the_library(ranker, digit_halves, page):
    _, _, X, y = digit_halves
    tournaments = ranker.tournament(X)
    for k in (1, 3):
        assert f"{top_k_scorer(k)(ranker, X, y):.1%}" in page.text
    assert f"{(~tournaments.is_transitive).mean():.1%} of rows the duels contradict" in page.text
    cycles = Counter(tuple(sorted(c.tolist())) for row in tournaments.cycles for c in row)
    small = [(-times, members) for members, times in cycles.items() if len(members) <= 6]
    for times, members in sorted(small)[:8]:
        assert f" {' , '.join(map(str, members))} {-times} " in page.text
    assert f"of {len(cycles)} different cycles" in page.text
    diagnosis = diagnose(ranker, X, y)
    first, second = pairs(10)
    for duel in diagnosis.hardest(10).tolist():
        told = (
            rf" {first[duel]} or {second[duel]} told apart easily {diagnosis.error[duel]:.1%} "
            rf"{diagnosis.error_low[duel]:.1%} to {diagnosis.error_high[duel]:.1%} "
            rf"{diagnosis.n_points[duel]} "
        )
        assert told in page.text
        exponent = diagnosis.noise_exponent[duel]
        error = diagnosis.noise_exponent_standard_error[duel]
        assert f" {exponent:.2g} ± {error:.2f} " in page.text


def test_a_full_bar_is_all_rows(ranker, digit_halves, page):
    _, _, X, y = digit_halves
    diagnosis = diagnose(ranker, X, y)
    shown = diagnosis.hardest(10)
    widths = [dict(a)["width"] for tag, a in page.elements if ("class", "part hard") in a]
    assert widths[:10] == [f"{100 * error:.1f}" for error in diagnosis.error[shown]]
    assert float(widths[0]) < 50
    marks = [dict(a) for tag, a in page.elements if tag == "line" and ("class", "mark") in a]
    assert [(mark["x1"], mark["x2"]) for mark in marks] == [("50.0", "50.0")] * len(widths)
    assert "A full bar is 100%; the mark in its middle is a coin toss." in page.text


def test_hard_duels_are_told_in_words():
    assert [in_words(error, 10) for error in (0, 0.05, 0.06, 0.24, 0.25, 1)] == [
        "told apart easily",
        "told apart easily",
        "hard to tell apart",
        "hard to tell apart",
        "often a coin toss",
        "often a coin toss",
    ]
    assert in_words(0, 9) == in_words(np.nan, 0) == "too few rows to tell"


def test_duels_are_counted_in_words(rng):
    """Three labels: two that nobody can tell apart, and one far away; a fourth has few rows."""
    codes = np.repeat([0, 1, 2, 3], [100, 100, 100, 4])
    X = np.array([[0.0], [0.0], [20.0], [90.0]])[codes] + rng.normal(size=(304, 1))
    y = np.array(["here", "here too", "there", "rare"])[codes]
    ranker = DuelRanker(random_state=0).fit(X, y)
    kept = codes < 3
    page = Page(render_report(ranker, X[kept], y[kept]))
    assert "here or here too often a coin toss" in page.text
    told = "told apart easily, none is hard to tell apart, and 1 is often a coin toss."
    assert f"Of 6 pairs of labels, 5 are {told} Pairs" in page.text
    few = np.flatnonzero(codes == 2)[:3]
    page = Page(render_report(ranker, X[few], y[few]))
    assert "No two labels have 10 rows: too few to tell how hard they are." in page.text
    page = Page(render_report(ranker, X[codes == 2], y[codes == 2]))
    assert "All 3 pairs of labels are told apart easily. 3 more pairs had fewer" in page.text


def test_noise_figures_are_folded_away(page, digit_halves, ranker):
    text = render_report(ranker, *digit_halves[2:])
    section = re.search(r'<section id="noise".*?</section>', text, re.DOTALL)[0]
    before, inside = section.split("<details>")
    assert "exponent" not in before
    assert "svg" not in before
    assert "Noise exponent α" in inside
    assert inside.count('<svg class="figure"') == 2
    assert inside.rstrip().endswith("</details>\n</section>")


@pytest.mark.parametrize(
    ("sharpness", "verdict"),
    [
        (1, "percentages of duels mean about what they say"),
        (0.05, "right more often than their percentages say"),
        (20, "surer than they should be"),
    ],
)
def test_it_is_said_whether_to_trust_percentages(rng, sharpness, verdict):
    codes = rng.integers(3, size=1200)
    X = np.array([[-1.0], [0.0], [1.0]])[codes] + rng.normal(scale=0.7, size=(1200, 1))
    ranker = DuelRanker(random_state=0).fit(X[::2], codes[::2])
    for name in ("coef_", "intercept_"):
        setattr(ranker.duels_, name, sharpness * getattr(ranker.duels_, name))
    assert verdict in Page(render_report(ranker, X[1::2], codes[1::2])).text


@pytest.fixture(scope="module")
def twenty():
    """A model and points of twenty labels; many of the first ones are taken for each other."""
    rng = np.random.default_rng(5)
    codes = rng.integers(20, size=2000)
    centres = 4 * rng.normal(size=(20, 3))
    centres[:4] = centres[0] + rng.normal(size=(4, 3))
    X = centres[codes] + rng.normal(size=(2000, 3))
    y = np.array([f"label_number_{code:02}" for code in range(20)])[codes]
    return DuelRanker(random_state=0).fit(X[::2], y[::2]), X[1::2], y[1::2]


def section_of(text, anchor):
    return re.search(rf'<section id="{anchor}".*?</section>', text, re.DOTALL)[0]


def names_in(markup):
    return re.findall("<bdi>(.*?)</bdi>", markup.replace("<wbr>", ""))


def test_of_many_labels_the_hardest_duels_come_first(twenty):
    ranker, X, y = twenty
    section = section_of(render_report(ranker, X, y), "pairs")
    shown, more, whole = section.split("<details>")
    diagnosis = diagnose(ranker, X, y)
    duels = diagnosis.hardest(50)
    first, second = (ranker.classes_[codes] for codes in pairs(20))
    both = [name for duel in duels.tolist() for name in (first[duel], second[duel])]
    n_wrong = int((diagnosis.error[duels] > 0).sum())
    assert 10 < n_wrong < 50
    assert names_in(shown) == both[:20]
    assert f"<summary>The next {n_wrong - 10} duels</summary>" in more
    folded, matrix = more.split("</details>")
    assert names_in(folded) == both[20 : 2 * n_wrong]
    ten = list(dict.fromkeys(both))[:10]
    assert names_in(matrix) == ten * 2  # and once more in the key
    assert "The other 10 labels are not shown." in matrix
    codes = np.searchsorted(ranker.classes_, ten)
    errors = np.full((20, 20), np.nan)
    errors[pairs(20)] = errors.T[pairs(20)] = diagnosis.error
    cells = re.findall('<td class="e[0-5]">(.*?)</td>', matrix)
    expected = errors[np.ix_(codes, codes)]
    assert cells == [f"{100 * error:.0f}" for error in expected[~np.isnan(expected)]]
    assert "<summary>All 20 labels against each other</summary>" in whole
    assert names_in(whole) == ranker.classes_.tolist()
    assert whole.count("<td class") == 400


def test_of_many_labels_ten_are_shown_and_all_are_folded_away(twenty):
    ranker, X, y = twenty
    text = render_report(ranker, X, y)
    shown, folded = section_of(text, "labels").split("<details>")
    assert "The 10 labels that are missed most in their own rows." in shown
    assert names_in(folded) == ranker.classes_.tolist()
    missed = ranker.predict(X) != y
    shares = {label: missed[y == label].mean() for label in ranker.classes_}
    assert set(names_in(shown)[:4]) == set(sorted(shares, key=shares.get)[-4:])
    assert len(names_in(shown)) == 10
    shown, folded = section_of(text, "top-k").split("<details>")
    dots = [markup.count('<circle class="dot ours"') for markup in (shown, folded)]
    assert dots == [10, 20]
    text = render_report(ranker, X)
    shown, folded = section_of(text, "labels").split("<details>")
    labels, times = np.unique(ranker.predict(X), return_counts=True)
    assert names_in(shown)[0] == labels[times.argmax()]
    assert "ranked first most often" in shown


def test_whole_matrices_of_very_many_labels_are_left_out(rng):
    codes = np.repeat(np.arange(101), 2)
    X = 3 * rng.normal(size=(101, 4))[codes] + rng.normal(size=(202, 4))
    text = render_report(DuelRanker(random_state=0).fit(X, codes), X, codes)
    assert text.count('<table class="matrix') == 1
    assert "The other 91 labels are not shown." in text


def test_percent_is_written_in_one_way(page):
    assert re.search(r"\d%", page.text)
    assert not re.search(r"\d[ \u00a0\u202f]%", page.text)


def test_the_baseline_ranks_by_frequency(iris):
    X, y = iris
    X, y = X[20:140], y[20:140]  # 30, 50, 40
    page = Page(render_report(DuelRanker(random_state=0).fit(X, y), X, y))
    assert re.search(rf" 1 [\d.]+% {50 / 120:.1%} 2 [\d.]+% {90 / 120:.1%} ", page.text)


def test_same_input_same_bytes(ranker, digit_halves):
    _, _, X, y = digit_halves
    assert render_report(ranker, X[:50], y[:50]) == render_report(ranker, X[:50], y[:50])


@pytest.mark.parametrize("n_classes", [10, 50])
def test_ten_thousand_rows_take_less_than_two_megabytes(n_classes, rng):
    names = np.array([f"label with a rather long name, number {code:02}" for code in range(50)])
    centres = rng.normal(size=(n_classes, 8))
    codes = rng.integers(n_classes, size=10_000)
    X = centres[codes] + rng.normal(size=(10_000, 8))
    ranker = DuelRanker(random_state=0).fit(X[:1000], names[codes[:1000]])
    text = render_report(ranker, X, names[codes])
    assert 1_000_000 < len(text.encode()) < 2_000_000
    page = Page(text)
    n_browsed = len(page.field("order"))
    assert "10,000 rows, each with a ranking" in page.text
    accuracy = (ranker.predict(X) == names[codes]).mean()
    assert f"comes first in {accuracy:.1%} of rows" in page.text
    if n_classes == 10:
        assert n_browsed == 10_000
        assert "drawn at random" not in page.text
        return
    assert 5_000 < n_browsed < 10_000
    assert f"{n_browsed:,} of 10,000 rows, drawn at random" in page.text
    assert "for the first 12 places of its ranking, out of 50" in page.text
    rows = page.field("rows")[:, 0]
    np.testing.assert_array_equal(rows, np.unique(rows))
    order = np.array(page.data["classes"])[page.field("order")]
    np.testing.assert_array_equal(order, ranker.predict_order(X)[rows])


def test_long_names_leave_room_for_fewer_rows(iris):
    X, y = iris
    X, y = np.repeat(X, 40, axis=0), np.repeat(y, 40)
    names = [f"{row:05} " + "😀" * 100 for row in range(len(X))]
    ranker = DuelRanker(random_state=0).fit(X, y)
    text = render_report(ranker, X, y, names=names)
    page = Page(text)
    assert len(text) < 2_000_000
    assert 500 < len(page.data["names"]) < 6_000
    rows = page.field("rows")[:, 0]
    assert [name[:5] for name in page.data["names"]] == [f"{row:05}" for row in rows]
    assert render_report(ranker, X, y, names=names) == text
    assert render_report(ranker, X, y, names=names, random_state=1) != text


def test_rows_keep_their_numbers(iris):
    X, y = iris
    ranker = DuelRanker(random_state=0).fit(X, y)
    numbers = np.arange(150) * 3 + 1
    ranked = []
    text = render_report(ranker, X, y, row_numbers=numbers, on_rows=ranked.append)
    np.testing.assert_array_equal(Page(text).field("rows")[:, 0], numbers)
    assert sum(ranked) == 150
    X, y = np.repeat(X, 400, axis=0), np.repeat(y, 400)
    page = Page(render_report(ranker, X, y, row_numbers=np.arange(60_000) + 7))
    rows = page.field("rows")[:, 0]
    assert len(rows) < 60_000
    np.testing.assert_array_equal(page.field("truth")[:, 0], y[rows - 7])
    for wrong in (numbers[:5], numbers.astype(float), numbers[::-1], numbers - 2, numbers + 2**32):
        with pytest.raises(ValueError, match="row_numbers must"):
            render_report(ranker, iris[0], iris[1], row_numbers=wrong)


def test_more_than_256_labels(rng):
    X = rng.normal(size=(600, 3))
    y = np.repeat(np.arange(300), 2)
    ranker = DuelRanker(random_state=0).fit(X, y)
    page = Page(render_report(ranker, X[:40], y[:40]))
    np.testing.assert_array_equal(page.field("order"), ranker.predict_order(X[:40])[:, :100])
    np.testing.assert_array_equal(page.field("truth")[:, 0], y[:40])
    assert page.field("won").shape == (40, 12)
    assert "listed down to place 100" in page.text


def test_without_labels_nothing_is_said_of_accuracy(ranker, digit_halves):
    page = Page(render_report(ranker, digit_halves[2][:30]))
    assert "truth" not in page.data["fields"]
    assert "right label" not in page.text
    assert "hardest" not in page.text
    assert "ranking of 10 labels" in page.text


def test_two_labels(iris):
    X, y = iris
    X, y = X[50:], y[50:]
    ranker = DuelRanker(random_state=0).fit(X, y)
    page = Page(render_report(ranker, X, y))
    assert "cycle" not in page.text.split("A duel is")[0]
    np.testing.assert_array_equal(page.field("order") + 1, ranker.predict_order(X))


def test_duels_without_probabilities(iris):
    X, y = iris
    ranker = DuelRanker(LinearSVC(random_state=0), random_state=0).fit(X, y)
    page = Page(render_report(ranker, X, y))
    assert page.field("posteriors").size == 0
    np.testing.assert_array_equal(page.field("order"), ranker.predict_order(X))
    assert "These duels give margins, not probabilities." in page.text
    assert "gaps are not known" in page.text


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", TIES)
def test_every_way_to_rank_is_explained(digits, aggregation, ties):
    X, y = digits
    ranker = DuelRanker(GaussianNB(), aggregation, ties, random_state=0).fit(
        X[:300, 20:24], y[:300]
    )
    page = Page(render_report(ranker, X[:60, 20:24], y[:60]))
    np.testing.assert_array_equal(page.field("order"), ranker.predict_order(X[:60, 20:24]))
    assert page.data["resolution"] in page.text


def test_pipelines_searches_frames_and_sparse_matrices(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    pipeline = make_pipeline(StandardScaler(), DuelRanker(random_state=0))
    search = GridSearchCV(pipeline, {"duelranker__ties": ["index", "probability"]}, cv=3)
    sparse_X = sparse.csr_array(X)
    for model, points in [
        (pipeline.fit(frame, y), frame),
        (search.fit(frame, y), frame),
        (DuelRanker(LogisticRegression(), random_state=0).fit(sparse_X, y), sparse_X),
    ]:
        page = Page(render_report(model, points, pd.Series(y)))
        np.testing.assert_array_equal(page.field("order"), predict_order(model, points))


def test_names_and_title_are_shown(iris):
    X, y = iris
    names = pd.Index([f"flower {row}" for row in range(150)])
    page = Page(
        render_report(DuelRanker(random_state=0).fit(X, y), X, y, title="Three irises", names=names)
    )
    assert page.data["names"] == list(names)
    assert page.text.count("Three irises") == 2


@pytest.mark.parametrize("with_labels", [True, False])
def test_hostile_text_stays_text(with_labels):
    X, codes = make_blobs(100, centers=5, cluster_std=4, random_state=0)
    y = np.array(HOSTILE, dtype=object)[codes]
    ranker = DuelRanker(random_state=0).fit(X, y)
    harmless = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])[codes]
    usual = Page(render_report(DuelRanker(random_state=0).fit(X, harmless), X, harmless))
    text = render_report(ranker, X, y if with_labels else None, title=HOSTILE[1], names=y)
    page = Page(text)
    assert set(page.tags) == set(usual.tags) if with_labels else set(page.tags) <= set(usual.tags)
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.data["classes"] == [plain(label) for label in ranker.classes_]
    assert plain(HOSTILE[0]) in page.text
    assert "\u2028" not in text
    text.encode()


def test_nothing_is_loaded_and_nothing_else_runs(page, ranker, digit_halves):
    text = render_report(ranker, digit_halves[2][:5])
    told = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert told.startswith("default-src 'none'; ")
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)[1]
    for kind, body in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in told
    assert re.findall(r"https?://[^\"']*", text) == ["http://www.w3.org/2000/svg"]
    names = {name for _, name, _ in page.attributes}
    assert "src" not in names
    assert "style" not in names
    assert {v[0] for t, a, v in page.attributes if a == "href"} == {"#"}
    # Anchors lead somewhere, and no id is given twice.
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {v[1:] for _, a, v in page.attributes if a == "href"} <= set(ids)


@given(st.text(st.characters()))
@example("\ud800 \x00 </script> \u2028")
@example(" \n ")
@example("x" * 1000)
def test_foreign_text_survives_html_and_json(text):
    shown = plain(text)
    assert 1 <= len(shown) <= LONGEST
    markup = foreign(text)
    assert markup.startswith("<bdi>")
    inside = markup[len("<bdi>") : -len("</bdi>")].replace("_<wbr>", "_")
    assert not re.search("[<>\"']", inside)
    assert html.unescape(inside) == shown
    written = as_json(shown)
    assert written.isascii()
    assert not re.search("[<>&]", written)
    assert json.loads(written) == shown


def test_labels_break_behind_underscores_only():
    assert foreign("card_not__working") == "<bdi>card_<wbr>not__<wbr>working</bdi>"
    assert foreign("_a_") == "<bdi>_a_</bdi>"
    assert foreign("a_<b>_&") == "<bdi>a_<wbr>&lt;b&gt;_<wbr>&amp;</bdi>"
    assert foreign("two words") == "<bdi>two words</bdi>"


def test_the_title_of_the_window_has_no_markup(iris):
    X, y = iris
    text = render_report(DuelRanker(random_state=0).fit(X, y), X[:9], title="my_<b>_title")
    assert "<title>my_&lt;b&gt;_title</title>" in text
    assert "<h1><bdi>my_<wbr>&lt;b&gt;_<wbr>title</bdi></h1>" in text


def test_old_report_stays_until_the_new_one_is_whole(iris, tmp_path, monkeypatch):
    X, y = iris
    ranker = DuelRanker(random_state=0).fit(X, y)
    path = tmp_path / "report.html"
    assert write_report(ranker, X, y, str(path)) == path
    before = path.read_bytes()
    assert before.decode() == render_report(ranker, X, y)

    def fails(*_):
        raise OSError("disk full")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fails)
            with pytest.raises(OSError, match="disk full"):
                write_report(ranker, X[:50], y[:50], path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["report.html"]
    write_report(ranker, X[:50], y[:50], path)
    assert path.read_bytes() != before
    plain_file = tmp_path / "plain"
    plain_file.touch()
    assert path.stat().st_mode == plain_file.stat().st_mode


def test_errors_name_the_argument(iris, tmp_path):
    X, y = iris
    ranker = DuelRanker(random_state=0)
    path = tmp_path / "report.html"
    with pytest.raises(NotFittedError):
        write_report(ranker, X, y, path)
    ranker.fit(X, y)
    with pytest.raises(TypeError, match=r"model must be a fitted DuelRanker.*LogisticRegression"):
        write_report(LogisticRegression(max_iter=1000).fit(X, y), X, y, path)
    with pytest.raises(TypeError, match=r"model must be a fitted DuelRanker.*str"):
        write_report("model.skops", X, y, path)
    with pytest.raises(ValueError, match=r"X must hold at least one row"):
        write_report(ranker, X[:0], y[:0], path)
    with pytest.raises(ValueError, match=r"names must name every row of X: 150 of them, got 2"):
        write_report(ranker, X, y, path, names=["a", "b"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        write_report(ranker, X, y[:10], path)
    with pytest.raises(ValueError, match=r"y holds labels .* not among the classes: \[7\]"):
        write_report(ranker, X[:1], [7], path)
    with pytest.raises(FileNotFoundError):
        write_report(ranker, X, y, tmp_path / "nowhere" / "report.html")
    assert not os.listdir(tmp_path)
