import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker
from duelrank._intervals import wilson_interval
from duelrank.report import render_report
from duelrank.report._figures import lengths
from duelrank.report._lists import _ranges
from duelrank.shortlists import Shortlister, length_curve, measure_shortlists
from test_report import Page, names_in, section_of


@pytest.fixture(scope="module")
def rows():
    """Rows of twenty labels, half of which are easily taken for each other."""
    rng = np.random.default_rng(1)
    codes = rng.integers(20, size=1200)
    centres = 4 * rng.normal(size=(20, 3))
    centres[:10] = centres[0] + rng.normal(size=(10, 3))
    X = centres[codes] + rng.normal(size=(1200, 3))
    y = np.array([f"label_{code:02}" for code in range(20)])[codes]
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def lists(rows):
    X, y, _, _ = rows
    return Shortlister(coverage=[0.9, 0.95], calibration_size=0.4, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def text(lists, rows):
    return render_report(lists, *rows[2:])


@pytest.fixture(scope="module")
def qualities(lists, rows):
    _, _, X, y = rows
    codes = np.searchsorted(lists.classes_, y)
    return [measure_shortlists(mask, codes) for mask in lists.shortlist_mask(X)]


def cells_of(markup):
    """Return the rows of the tables as text, cell by cell."""
    body = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>.*?</tr>", markup)
    ]
    return [[re.sub("<svg.*?</svg>|<[^>]*>", "", cell) for cell in row] for row in body]


def test_what_is_asked_and_reached_is_told(text, lists, rows, qualities):
    y = rows[3]
    section = section_of(text, "lists")
    share = qualities[0].coverage
    low, high = wilson_interval(np.array(share), np.array(float(len(y))))
    assert "hold the right one in 90% of all rows together" in section
    assert f"was learned on {lists.n_calibration_} held-out rows" in section
    assert f"<b>{share:.1%}</b>" in section
    assert f"from {low:.1%} to {high:.1%}" in section
    n = lists.n_calibration_
    place = int(np.ceil((n + 1) * 0.9))
    low, high = betabinom(len(y), place, n + 1 - place).interval(0.95)
    assert f"between {low / len(y):.1%} and {high / len(y):.1%} in 19 of 20 cases" in section
    lead = re.search('<p class="lead">.*?</p>', text)[0]
    assert f"made to hold it in 90% have {qualities[0].mean_length:.2f} labels" in lead
    assert ["95%", f"{qualities[1].coverage:.1%}", f"{qualities[1].mean_length:.2f}"] in [
        row[:3] for row in cells_of(section)
    ]


def test_lengths_are_counted(text, qualities):
    section = section_of(text, "lists")
    shown = {row[0]: row for row in cells_of(section.split("By length")[1].split("<h3>")[0])[1:]}
    quality = qualities[0]
    assert shown["1"][1:] == [
        f"{quality.rows_by_length[1]:,}",
        f"{quality.rows_by_length[1] / quality.rows_by_length.sum():.1%}",
        f"{quality.coverage_by_length[1]:.1%}",
    ]
    total = sum(int(row[1].replace(",", "")) for row in shown.values())
    assert total == quality.rows_by_length.sum()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([1, 1], [(1, 1)]),
        ([0, 2], [(0, 0), (1, 1), (2, 2)]),
        ([2, 5], [(n, n) for n in range(1, 6)]),
        ([1, 6], [*((n, n) for n in range(1, 6)), (6, 6)]),
        ([1, 77], [*((n, n) for n in range(1, 6)), (6, 10), (11, 20), (21, 50), (51, 77)]),
        ([1, 1001], [*((n, n) for n in range(1, 6)), (6, 10), (11, 20), (21, 50), (51, 100)]),
    ],
)
def test_long_lists_are_counted_in_ranges(found, expected):
    ranges = _ranges(np.array(found))
    assert ranges[: len(expected)] == expected
    assert ranges[-1][1] == max(found)
    assert all(low == before + 1 for (_, before), (low, _) in pairwise(ranges))


def test_other_coverages_are_those_of_the_library(text, lists, rows):
    _, _, X, y = rows
    codes = np.searchsorted(lists.classes_, y)
    shown = cells_of(section_of(text, "lists").split("Other coverages")[1].split("<h3>")[0])[1:]
    curve = length_curve(lists.p_values(X), codes, [0.8, 0.9, 0.95, 0.98, 0.99, 0.995])
    allowed = curve.asked <= 1 - 1 / (lists.n_calibration_ + 1)
    expected = [
        [f"{100 * asked:.6g}%", f"{coverage:.1%}", f"{length:.2f}"]
        for asked, coverage, length in zip(*(part[allowed] for part in curve), strict=True)
    ]
    assert shown == expected


def test_labels_come_worst_first_and_all_are_folded_away(text, lists, rows, qualities):
    section = section_of(text, "lists").split("By label")[1]
    shown, folded = section.split("Longest lists")[0].split("<details>")
    coverage = dict(zip(lists.classes_, qualities[0].coverage_by_label, strict=True))
    assert len(names_in(shown)) == 10
    assert sorted(names_in(folded)) == sorted(set(rows[3]))
    worst = names_in(shown)
    assert np.mean([coverage[name] for name in worst]) < np.mean(list(coverage.values()))
    assert {row[0]: row[2] for row in cells_of(folded)[1:]} == {
        name: f"{share:.1%}" for name, share in coverage.items()
    }


def test_longest_lists_are_named(text, lists, rows):
    X = rows[2]
    made = lists.predict_shortlist(X)[0.9]
    shown = cells_of(section_of(text, "lists").split("Longest lists")[1])[1:]
    assert len(shown) == 10
    assert int(shown[0][1]) == max(map(len, made))
    for row, length, told in shown:
        own = made[int(row)]
        assert int(length) == len(own)
        more = f" and {len(own) - 4} more" if len(own) > 4 else ""
        assert told == ", ".join(own[:4]) + more


@pytest.mark.parametrize("by", ["all", "label"])
def test_browsed_points_know_their_lists(rows, by):
    X, y, X_test, y_test = rows
    lists = Shortlister(coverage=0.6, by=by, calibration_size=0.5, random_state=0).fit(X, y)
    page = Page(render_report(lists, X_test, y_test, random_state=0))
    mask = lists.shortlist_mask(X_test)
    bits = np.unpackbits(page.field("listed"), axis=1)[:, :20]
    np.testing.assert_array_equal(bits, np.take_along_axis(mask, page.field("order"), axis=1))
    np.testing.assert_array_equal(page.field("length")[:, 0], mask.sum(axis=1))


def test_without_labels_only_lengths_are_told(lists, rows):
    text = render_report(lists, rows[2])
    section = section_of(text, "lists")
    assert "By label" not in section
    assert "Reached" not in section
    assert "Hold the right label" not in section
    assert "Longest lists" in section
    assert f"{lists.shortlist_mask(rows[2])[0].sum(axis=1).mean():.2f} labels" in section


def test_rankers_have_no_lists(rows):
    X, y, X_test, y_test = rows
    text = render_report(DuelRanker(random_state=0).fit(X, y), X_test, y_test)
    assert 'id="lists"' not in text
    assert "listed" not in Page(text).data["fields"]


def test_too_little_coverage_is_named(rows):
    X, y, X_test, y_test = rows
    lists = Shortlister(coverage=0.9, random_state=0).fit(X, y)
    shifted = np.roll(y_test, 1)
    assert "these rows are not like the calibration rows" in render_report(lists, X_test, shifted)


def test_more_than_asked_for_is_explained(iris):
    X, y = iris
    lists = Shortlister(coverage=0.6, random_state=0).fit(X[::2], y[::2])
    section = section_of(render_report(lists, X[1::2], y[1::2]), "lists")
    right = np.mean(lists.predict(X[1::2]) == y[1::2])
    assert f"and it alone is right in {right:.1%}" in section
    assert "No list has more than one label." in section


@pytest.mark.parametrize(
    ("longer", "words"), [("cut", "are cut, which"), ("abstain", "are not given at all, which")]
)
def test_lists_that_are_too_long(rows, longer, words):
    X, y, X_test, y_test = rows
    lists = Shortlister(coverage=0.95, max_length=2, longer=longer, random_state=0).fit(X, y)
    section = section_of(render_report(lists, X_test, y_test), "lists")
    assert f"Lists of more than 2 labels {words} lowers the coverage." in section
    assert "19 of 20 cases" not in section
    assert ("got no list" in section) == (longer == "abstain")


def test_groups_pipelines_and_searches(rows):
    X, y, X_test, y_test = rows
    groups, groups_test = np.where(X[:, 0] > 0, "a", "b"), np.where(X_test[:, 0] > 0, "a", "b")
    by_group = Shortlister(by="group", random_state=0).fit(X, y, groups)
    text = render_report(by_group, X_test, y_test, groups=groups_test)
    mask = by_group.shortlist_mask(X_test, groups_test)
    np.testing.assert_array_equal(Page(text).field("length")[:, 0], mask.sum(axis=1))
    assert "of every group of rows" in text
    with pytest.raises(ValueError, match="groups must be given"):
        render_report(by_group, X_test, y_test)

    scaler = StandardScaler().fit(X)
    ranker = DuelRanker(random_state=0).fit(scaler.transform(X[::2]), y[::2])
    lists = Shortlister(FrozenEstimator(ranker), coverage=0.9)
    inside = make_pipeline(scaler, lists).fit(X[1::2], y[1::2])
    search = GridSearchCV(
        Shortlister(DuelRanker(random_state=0), random_state=0), {"coverage": [0.8]}, cv=2
    ).fit(X, y)
    for model, made, seen in (
        (inside, inside[-1], inside[0].transform(X_test)),
        (search, search.best_estimator_, X_test),
    ):
        page = Page(render_report(model, X_test, y_test))
        expected = made.shortlist_mask(seen).sum(axis=1)
        np.testing.assert_array_equal(page.field("length")[:, 0], expected)


def test_other_classifiers_fight_no_duels(rows):
    X, y, _, _ = rows
    lists = Shortlister(GaussianNB(), random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="Shortlister around one; got GaussianNB"):
        render_report(lists, X)


@pytest.mark.parametrize("longest", [1, 1.3, 3, 9.9, 77])
def test_the_curve_stays_inside_its_figure(longest):
    points = [(0.8, 1.0), (0.9, (1 + longest) / 2), (0.999, longest)]
    figure = lengths("title", points, [(0.9, (1 + longest) / 2)])
    for x, y in re.findall(r"([\d.-]+),([\d.-]+)", re.search('points="(.*?)"', figure)[1]):
        assert 44 <= float(x) <= 346
        assert 14 <= float(y) <= 178
    assert "80%" in figure
    assert ">1</text>" in figure
