import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from duelrank.plotting import ShortlistDisplay
from duelrank.shortlists import LengthCurve, Shortlister, length_curve, measure_shortlists

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")


@pytest.fixture(autouse=True)
def only_own_figures():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def points():
    X, codes = make_classification(
        900, 6, n_informative=4, n_classes=4, n_clusters_per_class=1, class_sep=0.6, random_state=3
    )
    y = np.array(["d", "a", "c", "b"])[codes]
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def lists(points):
    X, y, _, _ = points
    return Shortlister(LogisticRegression(), coverage=[0.95, 0.8], random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def codes(points, lists):
    return np.searchsorted(lists.classes_, points[3])


def test_curves_are_those_of_the_library(points, lists, codes):
    _, _, X, y = points
    display = ShortlistDisplay.from_estimator(lists, X, y, coverages=[0.9, 0.7, 0.95])
    expected = length_curve(lists.p_values(X), codes, [0.7, 0.9, 0.95])
    for found, values in zip(display.curves[0], expected, strict=True):
        np.testing.assert_array_equal(found, values)
    (line,), (reached,) = display.lines_, display.reached_lines_
    np.testing.assert_array_equal(line.get_xydata(), np.stack(expected[::2], axis=1))
    np.testing.assert_array_equal(reached.get_xydata(), np.stack(expected[:2], axis=1))
    assert display.n_rows == len(y)


@pytest.mark.parametrize("longer", ["cut", "abstain"])
def test_marked_lists_are_those_that_the_shortlister_makes(points, codes, longer):
    X, y, X_test, y_test = points
    short = Shortlister(
        GaussianNB(), coverage=[0.8, 0.97], max_length=2, longer=longer, random_state=0
    ).fit(X, y)
    display = ShortlistDisplay.from_estimator(short, X_test, y_test)
    (marked,), (curve,) = display.marked, display.curves
    for number, mask in enumerate(short.shortlist_mask(X_test)):
        quality = measure_shortlists(mask, codes)
        assert marked.coverage[number] == quality.coverage
        assert marked.mean_length[number] == quality.mean_length
    assert marked.mean_length[1] <= 2 < curve.mean_length[curve.asked == 0.97]
    np.testing.assert_array_equal(display.points_[0].get_xdata(), [0.8, 0.97])


def test_default_coverages_begin_where_one_label_is_not_enough(points, lists):
    X, y, X_test, y_test = points
    (curve,) = ShortlistDisplay.from_estimator(lists, X_test, y_test).curves
    accuracy = lists.score(X_test, y_test)
    assert curve.asked[0] == pytest.approx(np.floor(10 * accuracy) / 10)
    assert curve.asked[-1] == pytest.approx(1 - 1 / (lists.n_calibration_ + 1))
    assert set(lists.coverages_) <= set(curve.asked)
    assert (np.diff(curve.mean_length) >= 0).all()
    low = Shortlister(LogisticRegression(), coverage=0.3, random_state=0).fit(X, y)
    (curve,) = ShortlistDisplay.from_estimator(low, X_test, y_test).curves
    assert curve.asked[0] == 0.3


def test_several_models_and_groups(points, lists):
    X, y, X_test, y_test = points
    groups, groups_test = np.where(X[:, 0] > 0, "a", "b"), np.where(X_test[:, 0] > 0, "a", "b")
    by_group = Shortlister(LogisticRegression(), by="group", random_state=0).fit(X, y, groups)
    models = {"all": lists, "by group": by_group}
    display = ShortlistDisplay.from_estimator(models, X_test, y_test, groups=groups_test)
    assert [len(curves) for curves in (display.lines_, display.reached_lines_)] == [2, 2]
    values = by_group.p_values(X_test, groups_test)
    codes = np.searchsorted(by_group.classes_, y_test)
    expected = length_curve(values, codes, display.curves[1].asked)
    np.testing.assert_array_equal(display.curves[1].mean_length, expected.mean_length)
    colours = [line.get_color() for line in display.lines_]
    assert colours == [line.get_color() for line in display.reached_lines_]
    assert len(set(colours)) == 2
    legend = display.reached_ax_.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(models)
    assert display.ax_.get_legend() is None
    display.figure_.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(display.reached_ax_.get_window_extent())


def test_a_second_display_goes_into_the_same_axes(points, lists):
    _, _, X, y = points
    first = ShortlistDisplay.from_estimator(lists, X, y)
    second = ShortlistDisplay.from_estimator(lists, X, y, ax=first.ax_, name="again")
    assert second.reached_ax_ is first.reached_ax_
    assert len(first.figure_.axes) == 2
    assert second.lines_[0].get_color() != first.lines_[0].get_color()
    assert len(second.reached_ax_.get_legend().get_texts()) == 2
    alone = second.plot(reached=False)
    assert alone.reached_ax_ is None
    assert alone.reached_lines_ == []
    assert alone.figure_.axes == [alone.ax_]
    assert alone.ax_.get_legend() is not None


def test_intervals_are_drawn_where_the_number_of_rows_is_known():
    curve = LengthCurve([0.8, 0.9], [0.82, 0.9], [1.0, 1.4])
    for n_rows, errors, n_drawn in ((100, True, 1), (100, False, 0), (None, True, 0)):
        display = ShortlistDisplay(curve, marked=curve, n_rows=n_rows).plot(errors=errors)
        assert len(display.reached_ax_.collections) == n_drawn
    assert ShortlistDisplay(curve).plot().points_ == []


@pytest.mark.parametrize("n_classes", [3, 77])
def test_nothing_is_cut_off_whatever_the_number_of_labels(n_classes):
    asked = np.array([0.5, 0.9, 0.99, 0.995])
    lengths = np.array([1, 1.2, n_classes / 2, n_classes])
    curve = LengthCurve(asked, np.array([0.5, 0.9, 0.99, 1]), lengths)
    display = ShortlistDisplay(curve, names=["a model with a rather long name"]).plot()
    assert display.ax_.get_yscale() == ("linear" if n_classes == 3 else "log")
    display.figure_.draw_without_rendering()
    drawn = display.figure_.get_tightbbox()
    width, height = display.figure_.get_size_inches()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= width
    assert drawn.y1 <= height
    shown = [text.get_text() for text in display.reached_ax_.get_xticklabels()]
    assert {"50%", "90%", "99%", "99.5%"} <= set(shown)


def test_empty_lists_can_be_drawn():
    curve = LengthCurve([0.1, 0.5, 0.99], [0.0, 0.5, 1.0], [0.0, 0.6, 40.0])
    display = ShortlistDisplay(curve).plot()
    display.figure_.draw_without_rendering()
    assert display.ax_.get_ylim()[0] > 0


CURVE = LengthCurve([0.8], [0.9], [1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShortlistDisplay([]), "curves must hold at least one LengthCurve"),
        (lambda: ShortlistDisplay([[0.8]]), "curves must be made of LengthCurve, got list"),
        (lambda: ShortlistDisplay(CURVE, names=["a", "b"]), "names must name the 1 models"),
        (lambda: ShortlistDisplay(CURVE, marked=[CURVE] * 2), "marked must hold one LengthCurve"),
        (lambda: ShortlistDisplay(CURVE, n_rows=0), "n_rows must be 1 or more, got 0"),
        (lambda: ShortlistDisplay(CURVE._replace(asked=[0.8, 0.9])), "of one shape"),
        (lambda: ShortlistDisplay(CURVE._replace(asked=[1.0])), "coverages between 0 and 1"),
        (lambda: ShortlistDisplay(CURVE._replace(mean_length=[-1])), "lengths of 0 or more"),
    ],
)
def test_bad_data_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_bad_input_is_refused_and_draws_nothing(points, lists):
    X, y, _, _ = points
    make = ShortlistDisplay.from_estimator
    with pytest.raises(TypeError, match=r"must be a fitted Shortlister .* got GaussianNB"):
        make({"a": lists, "b": GaussianNB().fit(X, y)}, X, y)
    with pytest.raises(ValueError, match="empty dict"):
        make({}, X, y)
    with pytest.raises(ValueError, match="name must be None where a dict"):
        make({"a": lists}, X, y, name="b")
    with pytest.raises(ValueError, match="y holds labels that are not among the classes"):
        make(lists, X, ["z"] * len(y))
    with pytest.raises(ValueError, match=r"between 0 and 1, such as 0\.95; got 1\.5"):
        make(lists, X, y, coverages=[0.5, 1.5])
    with pytest.raises(TypeError, match="ax must be one matplotlib Axes or None"):
        make(lists, X, y, ax=np.array([None]))
    assert plt.get_fignums() == []
