import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import top_k_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from duelrank import DuelRanker, LogisticDuels, plotting, predict_ranks
from duelrank.plotting import (
    DuelMatrixDisplay,
    RankDistributionDisplay,
    ReliabilityDisplay,
    TopKAccuracyDisplay,
    TournamentDisplay,
)
from duelrank.plotting._canvas import display_names
from duelrank.posteriors import diagnose
from random_duels import random_ranks

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")

OF_LABELLED_POINTS = [
    TopKAccuracyDisplay,
    DuelMatrixDisplay,
    RankDistributionDisplay,
    ReliabilityDisplay,
]


@pytest.fixture(autouse=True)
def only_own_figures():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def points():
    """Half the rows of four overlapping classes, and labels that do not sort like the codes."""
    X, codes = make_classification(
        400, 6, n_informative=4, n_classes=4, n_clusters_per_class=1, class_sep=0.6, random_state=3
    )
    y = np.array(["d", "a", "c", "b"])[codes]
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def ranker(points):
    X, y, _, _ = points
    return DuelRanker(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def multinomial(points):
    X, y, _, _ = points
    return LogisticRegression().fit(X, y)


@pytest.fixture(scope="module")
def wrapped(points):
    """The same duels alone, in a pipeline, and in a search over a pipeline."""
    X, y, _, _ = points
    pipeline = make_pipeline(StandardScaler(), DuelRanker(LogisticDuels(), random_state=0))
    search = GridSearchCV(pipeline, {"duelranker__estimator__C": [1.0]}, cv=2)
    return pipeline.fit(X, y), search.fit(X, y)


def random_chances(rng, n_classes):
    upper = np.triu(rng.random((n_classes, n_classes)), k=1)
    return upper + np.tril(1 - upper.T, k=-1) + 0.5 * np.eye(n_classes)


def test_names_are_sorted():
    assert plotting.__all__ == sorted(plotting.__all__)


def test_matplotlib_is_imported_only_when_drawing():
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'matplotlib':\n"
        "            raise ModuleNotFoundError(name)\n"
        "import duelrank.plotting\n"
        "display = duelrank.plotting.TopKAccuracyDisplay([0.5, 1.0])\n"
        "assert 'matplotlib' not in sys.modules\n"
        "sys.meta_path.insert(0, Missing())\n"
        "try:\n"
        "    display.plot()\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'duelrank[plot]'" in done.stdout


def test_top_k_equals_scikit_learn(points, multinomial, ranker):
    _, _, X, y = points
    weights = np.linspace(0.5, 2, len(y))
    display = TopKAccuracyDisplay.from_estimator(
        {"duels": ranker, "multinomial": multinomial}, X, y, sample_weight=weights
    )
    np.testing.assert_array_equal(display.k, [1, 2, 3, 4])
    for row, scores in enumerate((ranker.decision_function(X), multinomial.predict_proba(X))):
        theirs = [top_k_accuracy_score(y, scores, k=k, sample_weight=weights) for k in (1, 2, 3)]
        np.testing.assert_allclose(display.accuracy[row, :3], theirs)
    assert display.names == ["duels", "multinomial"]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == display.names
    np.testing.assert_allclose(display.lines_[1].get_ydata(), display.accuracy[1])


def test_top_k_standard_errors_are_binomial(rng):
    ranks = random_ranks(rng, 200, 5)
    y = rng.integers(5, size=200)
    display = TopKAccuracyDisplay.from_predictions(y, ranks, classes=range(5), max_k=2)
    place = ranks[np.arange(200), y]
    np.testing.assert_allclose(display.accuracy[0], [np.mean(place <= 1), np.mean(place <= 2)])
    expected = [np.std(place <= k) / np.sqrt(200) for k in (1, 2)]
    np.testing.assert_allclose(display.standard_error[0], expected)


def test_top_k_of_two_labels(points):
    X, y, _, _ = points
    two = np.isin(y, ["a", "b"])
    model = LinearSVC().fit(X[two], y[two])
    display = TopKAccuracyDisplay.from_estimator(model, X[two], y[two], plot_chance_level=True)
    np.testing.assert_allclose(display.accuracy, [[model.score(X[two], y[two]), 1]])
    np.testing.assert_allclose(display.chance_line_.get_ydata(), [0.5, 1])
    assert display.names == ["LinearSVC"]


def test_curves_in_the_same_axes_differ(points, ranker, multinomial):
    _, _, X, y = points
    first = TopKAccuracyDisplay.from_estimator(ranker, X, y)
    second = TopKAccuracyDisplay.from_estimator(multinomial, X, y, ax=first.ax_, name="_$x$")
    looks = [
        (line.get_color(), line.get_marker(), line.get_linestyle()) for line in first.ax_.lines
    ]
    assert len(looks) == 2
    assert all(a != b for a, b in zip(*looks, strict=True))
    shown = [text.get_text() for text in second.ax_.get_legend().get_texts()]
    assert shown == ["DuelRanker", r" _\$x\$"]


def test_duel_matrix_equals_counting(points, ranker):
    _, _, X, y = points
    weights = np.linspace(0.5, 2, len(y))
    display = DuelMatrixDisplay.from_estimator(ranker, X, y, sample_weight=weights)
    tournaments = ranker.tournament(X)
    for a, label in enumerate(ranker.classes_):
        rows = np.flatnonzero(y == label)
        for b in range(4):
            if a == b:
                assert np.isnan(display.error[a, b])
                continue
            lost = np.array([tournaments.beats[row, b, a] for row in rows])
            expected = np.average(lost, weights=weights[rows])
            np.testing.assert_allclose(display.error[a, b], expected)
    np.testing.assert_array_equal(display.classes, ranker.classes_)
    again = DuelMatrixDisplay.from_predictions(y, tournaments.beats, sample_weight=weights)
    np.testing.assert_allclose(again.error, display.error)


def test_duel_matrix_of_pairs_equals_the_diagnosis(points, ranker):
    _, _, X, y = points
    diagnosis = diagnose(ranker, X, y)
    drawn = DuelMatrixDisplay.from_diagnosis(diagnosis, name="duels")
    computed = DuelMatrixDisplay.from_estimator(ranker, X, y, by_pair=True)
    by_label = DuelMatrixDisplay.from_estimator(ranker, X, y)
    for display in (drawn, computed):
        np.testing.assert_allclose(display.error[np.triu_indices(4, 1)], diagnosis.error)
        np.testing.assert_allclose(display.pair_error, display.error)
    np.testing.assert_allclose(by_label.pair_error, computed.error)
    assert not np.allclose(by_label.error, by_label.error.T, equal_nan=True)
    assert drawn.ax_.get_title() == "Duel error of duels"


def test_duel_matrix_of_any_classifier_is_that_of_its_ranks(points, multinomial):
    _, _, X, y = points
    display = DuelMatrixDisplay.from_estimator(multinomial, X, y)
    probabilities = multinomial.predict_proba(X)
    for a, label in enumerate(multinomial.classes_):
        rows = probabilities[y == label]
        expected = [np.mean(rows[:, b] > rows[:, a]) for b in range(4)]
        np.testing.assert_allclose(np.delete(display.error[a], a), np.delete(expected, a))
    again = DuelMatrixDisplay.from_predictions(y, predict_ranks(multinomial, X))
    np.testing.assert_allclose(again.error, display.error)


def test_labels_without_points_stay_empty(points, ranker):
    _, _, X, y = points
    kept = y != "b"
    matrix = DuelMatrixDisplay.from_estimator(ranker, X[kept], y[kept])
    assert np.isnan(matrix.error[1]).all()
    np.testing.assert_allclose(matrix.pair_error[1, [0, 2, 3]], matrix.error[[0, 2, 3], 1])
    places = RankDistributionDisplay.from_estimator(ranker, X[kept], y[kept])
    assert np.isnan(places.share[1]).all()
    assert not np.isnan(places.share[[0, 2, 3]]).any()


def test_sorting_puts_confused_labels_side_by_side():
    error = np.full((6, 6), 0.01)
    for a, b in ((0, 3), (1, 5), (2, 4)):
        error[a, b] = error[b, a] = 0.4
    display = DuelMatrixDisplay(error).plot(sort_labels=True)
    order = [int(text.get_text()) for text in display.ax_.get_yticklabels()]
    couples = {frozenset(order[start : start + 2]) for start in (0, 2, 4)}
    assert couples == {frozenset({0, 3}), frozenset({1, 5}), frozenset({2, 4})}
    drawn = display.image_.get_array().filled(np.nan)
    np.testing.assert_allclose(drawn, display.error[np.ix_(order, order)])


def test_tournament_shows_every_upset(rng):
    for _ in range(6):
        chances = random_chances(rng, 6)
        display = TournamentDisplay.from_predictions(chances)
        beats = chances > 0.5
        wins = beats.sum(axis=1)
        assert sorted(wins[display.order], reverse=True) == wins[display.order].tolist()
        expected = {
            (low + 1, high + 1)
            for high in range(6)
            for low in range(high + 1, 6)
            if beats[display.order[low], display.order[high]]
        }
        assert set(map(tuple, display.upsets.tolist())) == expected
        assert len(display.arrows_) == len(expected)
        assert [bar.get_width() for bar in display.bars_] == wins[display.order].tolist()
        np.testing.assert_allclose(
            display.expected_.get_xdata(), chances.sum(axis=1)[display.order] - 0.5
        )
        plt.close("all")


def test_percent_is_written_without_a_space_as_everywhere():
    chances = [[0.5, 0.9, 0.3], [0.1, 0.5, 0.6], [0.7, 0.4, 0.5]]
    display = TournamentDisplay.from_predictions(chances)
    assert sorted(text.get_text() for text in display.ax_.texts) == ["60%", "70%"]
    assert "(60%)" in repr(display.tournament)
    for accuracy, shown in (([0.5, 1.0], "100%"), ([0.99, 1.0], "99.8%")):
        display = TopKAccuracyDisplay(accuracy).plot()
        display.figure_.draw_without_rendering()
        ticks = [text.get_text() for text in display.ax_.get_yticklabels()]
        assert shown in ticks
        assert "100%" in ticks


def test_tournament_of_an_estimator(points, wrapped):
    _, _, X, _ = points
    pipeline, search = wrapped
    tournaments = pipeline[-1].tournament(pipeline[:-1].transform(X))
    row = int(np.flatnonzero(tournaments.is_transitive)[0])
    for model in (pipeline, search):
        display = TournamentDisplay.from_estimator(model, X, row=row - len(X), name="a point")
        assert display.ax_.get_title() == "a point: no cycle"
        assert display.arrows_ == []
        np.testing.assert_array_equal(
            display.tournament.classes[display.order], tournaments.order[row]
        )


def test_tournament_matrix_and_its_cycle():
    chances = [[0.5, 0.9, 0.3, 0.8], [0.1, 0.5, 0.6, 0.8], [0.7, 0.4, 0.5, 0.8], [0.2] * 3 + [0.5]]
    display = TournamentDisplay.from_predictions(chances, classes=list("abcd"), kind="matrix")
    assert display.ax_.get_title() == "Tournament: a cycle through a, c, b"
    assert display.order.tolist() == [0, 2, 1, 3]
    drawn = display.image_.get_array().filled(np.nan)
    expected = np.array(chances)[np.ix_(display.order, display.order)]
    np.testing.assert_allclose(drawn[~np.eye(4, dtype=bool)], expected[~np.eye(4, dtype=bool)])
    assert display.text_[0, 2].get_text() == "90"
    frames = [patch.get_width() for patch in display.ax_.patches]
    assert np.round(frames).tolist() == [3, 1, 1]


def contrast(text, image, value):
    """Return the contrast between a text and the colour of its cell, as web guidelines count it."""

    def light(colour):
        channels = np.array(matplotlib.colors.to_rgb(colour))
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        return linear @ [0.2126, 0.7152, 0.0722]

    pale, dark = sorted((light(text.get_color()), light(image.cmap(image.norm(value)))))[::-1]
    return (pale + 0.05) / (dark + 0.05)


def test_duels_have_a_diverging_scale_around_one_half(rng):
    chances = random_chances(rng, 12)
    display = TournamentDisplay.from_predictions(chances, kind="matrix")
    image = display.image_
    assert image.norm(0.5) == 0.5
    lightness = [np.mean(image.cmap(image.norm(p))[:3]) for p in (0, 0.25, 0.5, 0.75, 1)]
    assert lightness[0] < lightness[1] < lightness[2] > lightness[3] > lightness[4]
    assert lightness[2] > 0.9
    loser, winner = (np.array(image.cmap(image.norm(p))[:3]) for p in (0.1, 0.9))
    assert np.abs(loser - winner).max() > 0.3
    drawn = image.get_array()
    for (row, column), text in np.ndenumerate(display.text_):
        if text is not None:
            assert contrast(text, image, drawn[row, column]) >= 4.5
    # A matrix of errors has no middle.
    errors = DuelMatrixDisplay(chances).plot()
    shades = [np.mean(errors.image_.cmap(share)[:3]) for share in (0.0, 0.5, 1.0)]
    assert shades == sorted(shades)


def test_tournament_of_the_first_places(rng):
    display = TournamentDisplay.from_predictions(random_chances(rng, 12), top=4)
    assert len(display.bars_) == 4
    assert len(display.arrows_) == (display.upsets <= 4).all(axis=1).sum()
    assert "(first 4 of 12 places)" in display.ax_.get_title()
    display.plot(kind="matrix", top=5)
    assert display.image_.get_array().shape == (5, 5)


def test_beats_may_contradict_probabilities():
    chances = np.array([[0.5, 0.6, 0.6], [0.4, 0.5, 0.6], [0.4, 0.4, 0.5]])
    display = TournamentDisplay.from_predictions(chances, beats=np.tril(np.ones((3, 3)), -1))
    assert display.order.tolist() == [2, 1, 0]


@pytest.mark.parametrize("own", [True, False])
def test_rank_distribution_equals_counting(points, ranker, own):
    _, _, X, y = points
    weights = np.linspace(0.5, 2, len(y))
    ranks = ranker.predict_ranks(X)
    kind = "own" if own else "all"
    display = RankDistributionDisplay.from_estimator(
        ranker, X, y if own else None, points=kind, sample_weight=weights
    )
    for k, label in enumerate(ranker.classes_):
        rows = y == label if own else np.full(len(y), True)
        expected = [np.average(ranks[rows, k] == r, weights=weights[rows]) for r in range(1, 5)]
        np.testing.assert_allclose(display.share[k], expected)
        np.testing.assert_allclose(
            display.mean_rank[k], np.average(ranks[rows, k], weights=weights[rows])
        )
    again = RankDistributionDisplay.from_predictions(y, ranks, points=kind, sample_weight=weights)
    np.testing.assert_allclose(again.share, display.share)


def test_of_many_labels_the_hardest_are_drawn(rng):
    error = rng.uniform(0, 0.1, size=(77, 77))
    for number, (a, b) in enumerate(((70, 3), (3, 41), (12, 13), (20, 60), (5, 6), (8, 9))):
        error[a, b] = error[b, a] = 0.9 - number / 10
    display = DuelMatrixDisplay(error, name="duels").plot()
    assert _shown_codes(display) == [3, 5, 6, 8, 12, 13, 20, 41, 60, 70]
    title = "Duel error of duels\n(the 10 labels of the hardest duels, of 77)"
    assert display.ax_.get_title() == title
    codes = _shown_codes(display)
    np.testing.assert_allclose(
        display.image_.get_array().filled(np.nan), display.error[np.ix_(codes, codes)]
    )
    assert _shown_codes(display.plot(top=3)) == [3, 41, 70]
    assert sorted(_shown_codes(display.plot(top=3, sort_labels=True))) == [3, 41, 70]
    assert display.plot(top="all").image_.get_array().shape == (77, 77)
    assert "of 77" not in display.ax_.get_title()


@pytest.mark.parametrize("own", [True, False])
def test_of_many_labels_the_worst_or_the_best_places_are_drawn(rng, own):
    ranks = random_ranks(rng, 500, 30)
    display = RankDistributionDisplay.from_predictions(
        rng.integers(30, size=500), ranks, classes=range(30), points="own" if own else "all"
    )
    by_mean = np.argsort(-display.mean_rank if own else display.mean_rank)
    codes = _shown_codes(display)
    assert codes == sorted(by_mean[:10].tolist())
    assert display.image_.get_array().shape == (10, 11)
    which = "worst" if own else "best"
    assert f"(the 10 labels with the {which} mean places, of 30)" in display.ax_.get_title()
    np.testing.assert_allclose(
        display.means_.get_xdata(), np.minimum(display.mean_rank[codes] - 1, 10)
    )
    assert display.plot(top="all").image_.get_array().shape == (30, 11)
    assert len(_shown_codes(display.plot(top=1))) == 1


def test_of_many_labels_the_first_places_are_drawn(rng):
    display = TournamentDisplay.from_predictions(random_chances(rng, 16))
    assert len(display.bars_) == 10
    assert "(first 10 of 16 places)" in display.ax_.get_title()
    assert display.plot(kind="matrix", top="all").image_.get_array().shape == (16, 16)
    assert len(TournamentDisplay.from_predictions(random_chances(rng, 15)).bars_) == 15


def test_later_places_share_a_column(rng):
    ranks = random_ranks(rng, 300, 15)
    display = RankDistributionDisplay.from_predictions(
        rng.integers(15, size=300), ranks, classes=range(15), max_rank=6
    )
    drawn = display.image_.get_array()
    np.testing.assert_allclose(drawn[:, :6], display.share[:, :6])
    np.testing.assert_allclose(drawn[:, 6], display.share[:, 6:].sum(axis=1))
    assert display.ax_.get_xticklabels()[-1].get_text() == "7+"
    display.plot(sort_labels=True)
    assert np.all(np.diff(display.mean_rank[_shown_codes(display)]) >= 0)
    assert display.image_.get_array().shape == (15, 11)


def _shown_codes(display):
    return [int(text.get_text()) for text in display.ax_.get_yticklabels()]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("of", ["top", "labels"])
def test_reliability_equals_scikit_learn(points, multinomial, of, strategy):
    _, _, X, y = points
    display = ReliabilityDisplay.from_estimator(
        multinomial, X, y, of=of, n_bins=7, strategy=strategy
    )
    probabilities = multinomial.predict_proba(X)
    came_true = multinomial.classes_ == y[:, np.newaxis]
    if of == "top":
        came_true = came_true[np.arange(len(y)), probabilities.argmax(axis=1)]
        probabilities = probabilities.max(axis=1)
    frequency, probability = calibration_curve(
        came_true.ravel(), probabilities.ravel(), n_bins=7, strategy=strategy
    )
    np.testing.assert_allclose(display.frequency, frequency)
    np.testing.assert_allclose(display.probability, probability)
    assert display.counts.sum() == came_true.size
    assert np.all(display.edges[:, 0] <= display.probability)
    assert np.all(display.edges[:, 1] >= display.probability)
    assert np.all(display.interval[:, 0] <= display.frequency)
    assert np.all(display.interval[:, 1] >= display.frequency)
    gap = np.abs(frequency - probability)
    expected = np.average(gap, weights=display.counts)
    np.testing.assert_allclose(display.calibration_error, expected)


def test_reliability_of_duels_equals_counting(points, ranker, multinomial):
    _, _, X, y = points
    codes = np.searchsorted(ranker.classes_, y)
    posteriors = multinomial.predict_proba(X)
    of_posteriors = posteriors[:, :, None] / (posteriors[:, :, None] + posteriors[:, None, :])
    for model, chances in (
        (ranker, ranker.tournament(X).probabilities),
        (multinomial, of_posteriors),
    ):
        display = ReliabilityDisplay.from_estimator(model, X, y, of="duels", n_bins=5)
        favoured = [
            (max(chances[i, c, b], 1 - chances[i, c, b]), chances[i, c, b] > 0.5)
            for i, c in enumerate(codes)
            for b in range(4)
            if b != c
        ]
        confidence, right = map(np.array, zip(*favoured, strict=True))
        number = np.minimum(np.ceil((confidence - 0.5) * 10).astype(int), 5)
        filled = np.unique(number)
        assert display.counts.tolist() == [np.sum(number == b) for b in filled]
        expected = [right[number == b].mean() for b in filled]
        np.testing.assert_allclose(display.frequency, expected)
        again = ReliabilityDisplay.from_predictions(y, chances, of="duels", n_bins=5)
        np.testing.assert_allclose(again.frequency, display.frequency)


def test_even_duels_come_half_true():
    chances = np.full((6, 3, 3), 0.5)
    display = ReliabilityDisplay.from_predictions([0, 1, 2] * 2, chances, of="duels")
    assert (display.probability, display.frequency, display.counts) == (0.5, 0.5, 12)


def test_weights_count_like_repeated_points(points, multinomial):
    _, _, X, y = points
    counts = np.arange(len(y)) % 3
    weighted = ReliabilityDisplay.from_estimator(multinomial, X, y, sample_weight=counts)
    X, y = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    repeated = ReliabilityDisplay.from_estimator(multinomial, X, y)
    np.testing.assert_allclose(weighted.counts, repeated.counts)
    np.testing.assert_allclose(weighted.frequency, repeated.frequency)
    assert np.all(np.ptp(weighted.interval, axis=1) >= np.ptp(repeated.interval, axis=1) - 1e-12)


def test_reliability_of_two_models_shares_the_counts(points, ranker, multinomial):
    _, _, X, y = points
    _, (left, right) = plt.subplots(1, 2)
    first = ReliabilityDisplay.from_estimator(ranker, X, y, ax=left)
    second = ReliabilityDisplay.from_estimator(multinomial, X, y, ax=left)
    other = ReliabilityDisplay.from_estimator(multinomial, X, y, ax=right, counts=False)
    assert first.counts_ax_ is second.counts_ax_
    assert len(first.counts_ax_.containers) == 2
    assert other.counts_ax_ is None
    assert len(first.figure_.axes) == 3
    legend = left.get_legend()
    assert legend is not None
    assert [text.get_text().split(",")[0] for text in legend.get_texts()] == [
        "reliable",
        "DuelRanker",
        "LogisticRegression",
    ]


def legends_of(figure):
    return [ax.get_legend() for ax in figure.axes if ax.get_legend() is not None]


@pytest.mark.parametrize("n_models", [1, 2, 5])
def test_legends_cover_nothing(points, ranker, multinomial, n_models):
    _, _, X, y = points
    models = {f"a model with a long name, {number}": ranker for number in range(n_models)}
    display = TopKAccuracyDisplay.from_estimator(models, X, y)
    figures = [display.figure_]
    for counts in (True, False):
        ax = None
        for name in models:
            display = ReliabilityDisplay.from_estimator(
                ranker, X, y, name=name, ax=ax, counts=counts
            )
            ax = display.ax_
        figures.append(display.figure_)
    for kind in ("ladder", "matrix"):
        display = TournamentDisplay.from_predictions(
            [[0.5, 0.9, 0.3], [0.1, 0.5, 0.6], [0.7, 0.4, 0.5]], kind=kind
        )
        figures.append(display.figure_)
    figures.append(RankDistributionDisplay.from_estimator(multinomial, X, y).figure_)
    for figure in figures:
        figure.draw_without_rendering()
        (legend,) = legends_of(figure)
        box = legend.get_window_extent()
        for ax in figure.axes:
            assert not box.overlaps(ax.get_window_extent())
            written = ax.xaxis.get_tightbbox()
            assert written is None or not box.overlaps(written)
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
        assert box.y0 >= 0


def test_legends_stay_inside_where_nobody_makes_room(points, ranker):
    _, _, X, y = points
    figure, ax = plt.subplots()
    TopKAccuracyDisplay.from_estimator(ranker, X, y, ax=ax)
    figure.draw_without_rendering()
    inside, outside = ax.get_window_extent(), ax.get_legend().get_window_extent()
    assert inside.x0 <= outside.x0 < outside.x1 <= inside.x1
    assert inside.y0 <= outside.y0 < outside.y1 <= inside.y1


def test_counts_that_come_later_take_the_legend(points, ranker):
    _, _, X, y = points
    first = ReliabilityDisplay.from_estimator(ranker, X, y, counts=False)
    assert first.ax_.get_legend() is not None
    second = ReliabilityDisplay.from_estimator(ranker, X, y, ax=first.ax_)
    assert first.ax_.get_legend() is None
    assert len(second.counts_ax_.get_legend().get_texts()) == 3


def test_reliability_in_axes_placed_by_hand():
    ax = plt.figure().add_axes((0.2, 0.2, 0.6, 0.6))
    display = ReliabilityDisplay([0.2, 0.7], [0.3, 0.6], [10, 30]).plot(ax)
    assert display.counts_ax_.get_position().y0 == pytest.approx(0.2)
    assert ax.get_position().y1 == pytest.approx(0.8)
    assert display.counts_ax_.get_position().y1 < ax.get_position().y0


@pytest.mark.parametrize("display_class", OF_LABELLED_POINTS)
def test_pipelines_and_searches_look_like_the_ranker_inside(points, wrapped, display_class):
    _, _, X, y = points
    pipeline, search = wrapped
    inside = display_class.from_estimator(pipeline[-1], pipeline[:-1].transform(X), y)
    for model in (pipeline, search):
        display = display_class.from_estimator(model, X, y)
        for name in ("accuracy", "error", "share", "frequency", "counts"):
            if hasattr(inside, name):
                np.testing.assert_array_equal(getattr(display, name), getattr(inside, name))
        assert getattr(display, "name", None) in ("DuelRanker", None)


@pytest.mark.parametrize("display_class", OF_LABELLED_POINTS)
def test_given_axes_are_used(points, ranker, display_class):
    _, _, X, y = points
    figure, ax = plt.subplots()
    display = display_class.from_estimator(ranker, X, y, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    assert display.plot() is display
    assert display.ax_ is not ax
    assert len(plt.get_fignums()) == 2


@pytest.mark.parametrize("display_class", OF_LABELLED_POINTS)
def test_bad_input_is_refused_and_draws_nothing(points, ranker, display_class):
    _, _, X, y = points
    make = display_class.from_estimator
    with pytest.raises(NotFittedError):
        make(DuelRanker(), X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make(ranker, X, y[:-1])
    with pytest.raises(ValueError, match=r"y holds labels that are not among the classes: \['z'\]"):
        make(ranker, X, ["z"] * len(y))
    with pytest.raises(TypeError, match="ax must be one matplotlib Axes or None, got ndarray"):
        make(ranker, X, y, ax=np.array([None]))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        make(ranker, X, y, colour="red")
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        make(ranker, X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match=r"classes must be given: y_true holds 4 .* 3 columns"):
        display_class.from_predictions(y, np.full((len(y), 3), [1, 2, 3]) / _scale(display_class))
    assert plt.get_fignums() == []


def _scale(display_class):
    return 6 if display_class is ReliabilityDisplay else 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopKAccuracyDisplay([0.5, 1.2]), "accuracy must hold numbers from 0 to 1"),
        (lambda: TopKAccuracyDisplay([0.5], names=["a", "b"]), "names must name the 1 rankers"),
        (lambda: TopKAccuracyDisplay([0.5], standard_error=[0.1, 0.2]), "standard_error must have"),
        (lambda: TopKAccuracyDisplay([0.5]).plot(plot_chance_level=True), "needs n_classes"),
        (
            lambda: TopKAccuracyDisplay.from_predictions([0, 1], [[1, 2], [2, 1]], max_k=3),
            "max_k must be an integer from 1 to 2, got 3",
        ),
        (
            lambda: TopKAccuracyDisplay.from_predictions([0, 1], {"a": [[1, 2]]}),
            "one row per label of y_true: 2",
        ),
        (lambda: TopKAccuracyDisplay.from_predictions([0, 1], {}), "empty dict"),
        (lambda: DuelMatrixDisplay([[0, 2], [0, 0]]), "error must hold numbers from 0 to 1"),
        (lambda: DuelMatrixDisplay(np.zeros((2, 3))), r"error must have shape \(K, K\)"),
        (lambda: DuelMatrixDisplay([[0, 1], [0, 0]], by_pair=True), "must be symmetric"),
        (lambda: DuelMatrixDisplay(np.eye(2), classes=["a"]), "classes must have one entry"),
        (
            lambda: DuelMatrixDisplay.from_predictions([0, 1], np.ones((2, 2, 2))),
            "exactly one beats the other",
        ),
        (lambda: RankDistributionDisplay(np.ones((2, 2))), "sum to 1"),
        (lambda: RankDistributionDisplay(np.eye(2), points="none"), "points must be one of 'own'"),
        (lambda: RankDistributionDisplay(np.eye(2)).plot(max_rank=3), "max_rank must be"),
        (
            lambda: RankDistributionDisplay.from_predictions(None, [[1, 2]]),
            "y_true must be given, got None",
        ),
        (lambda: ReliabilityDisplay([0.5], [0.5], [0]), "counts must not be negative"),
        (lambda: ReliabilityDisplay([0.5], [1.5], [1]), "frequency must hold numbers"),
        (lambda: ReliabilityDisplay([0.5], [0.5], [1], [0, 1]), r"edges must have shape \(1, 2\)"),
        (
            lambda: ReliabilityDisplay.from_predictions([0, 1], np.eye(2), n_bins=0),
            "n_bins must be a positive integer, got 0",
        ),
        (
            lambda: ReliabilityDisplay.from_predictions([0, 1], np.zeros((2, 2, 2))),
            r"or \(n, K, K\) with of='duels'",
        ),
        (lambda: TournamentDisplay.from_predictions(np.ones((3, 3))), "complementary"),
        (lambda: TournamentDisplay.from_predictions([[0.5]]), r"shape \(K, K\), K ≥ 2"),
        (
            lambda: TournamentDisplay.from_predictions([[0, 1], [0, 0]], kind="circle"),
            "kind must be one of 'ladder', 'matrix'; got 'circle'",
        ),
        (
            lambda: TournamentDisplay.from_predictions([[0, 1], [0, 0]], top=1),
            "top must be an integer",
        ),
        (lambda: TournamentDisplay.from_predictions([[0, 1], [0, 0]], top="x"), "'all' or None"),
        (lambda: DuelMatrixDisplay(np.eye(2)).plot(top=3), "top must be an integer from 2 to 2"),
        (lambda: RankDistributionDisplay(np.eye(2)).plot(top=0), "integer from 1 to 2"),
    ],
)
def test_bad_data_is_refused_and_draws_nothing(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    assert plt.get_fignums() == []


def test_models_that_cannot_be_drawn_are_named(points, ranker, multinomial):
    X, y, _, _ = points
    with pytest.raises(TypeError, match="LogisticRegression fights no duels"):
        TournamentDisplay.from_estimator(multinomial, X)
    with pytest.raises(ValueError, match=f"row must be the number of one of {len(X)} rows"):
        TournamentDisplay.from_estimator(ranker, X, row=len(X))
    with pytest.raises(ValueError, match=f"tournament must be of one point, got {len(X)}"):
        TournamentDisplay(ranker.tournament(X))
    with pytest.raises(TypeError, match="must have predict_proba"):
        ReliabilityDisplay.from_estimator(LinearSVC().fit(X, y), X, y)
    model = DuelRanker(LinearSVC(), random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="must have predict_proba"):
        ReliabilityDisplay.from_estimator(model, X, y, of="duels")
    with pytest.raises(ValueError, match="name must be None where a dict"):
        TopKAccuracyDisplay.from_estimator({"a": ranker}, X, y, name="b")
    assert plt.get_fignums() == []


def test_style_arguments_replace_defaults_under_any_name(points, ranker):
    _, _, X, y = points
    curve = TopKAccuracyDisplay.from_estimator(ranker, X, y, line_kw={"c": "black", "lw": 3})
    assert (curve.lines_[0].get_color(), curve.lines_[0].get_linewidth()) == ("black", 3)
    matrix = DuelMatrixDisplay.from_estimator(
        ranker, X, y, cmap="cividis", im_kw={"vmax": 0.5}, text_kw={"size": 5}, colorbar=False
    )
    assert matrix.image_.cmap.name == "cividis"
    assert matrix.image_.get_clim() == (0, 0.5)
    assert matrix.text_[0, 1].get_fontsize() == 5
    assert matrix.figure_.axes == [matrix.ax_]
    assert matrix.plot(include_values=False).text_ is None


def test_long_names_stay_different_and_literal():
    assert display_names(["a" * 30, "a" * 29 + "b", "$x$", 3]) == [
        "a" * 10 + "…" + "a" * 9,
        "a" * 10 + "…" + "a" * 8 + "b",
        r"\$x\$",
        "3",
    ]
    middle = ["start" * 4 + str(number) + "end" * 6 for number in range(12)]
    short = display_names(middle)
    assert len(set(short)) == 12
    assert display_names(["two\nlines", ""]) == ["two lines", "''"]


@pytest.mark.parametrize(
    ("n_classes", "own_figure"), [(3, True), (10, True), (50, True), (50, False)]
)
def test_nothing_is_cut_off_and_no_names_overlap(rng, n_classes, own_figure):
    classes = [f"a long name of a label number {number}" for number in range(n_classes)]
    eta = rng.dirichlet(np.ones(n_classes), size=400)
    y = rng.choice(classes, size=400)
    ranks = random_ranks(rng, 400, n_classes)
    chances = random_chances(rng, n_classes)
    given = {"classes": classes}
    every = {"classes": classes, "top": "all"}
    draw = [
        lambda ax: TopKAccuracyDisplay.from_predictions(y, ranks, ax=ax, **given),
        lambda ax: DuelMatrixDisplay.from_predictions(y, ranks, ax=ax, **given),
        lambda ax: DuelMatrixDisplay.from_predictions(y, ranks, ax=ax, **every),
        lambda ax: RankDistributionDisplay.from_predictions(y, ranks, ax=ax, **given),
        lambda ax: RankDistributionDisplay.from_predictions(y, ranks, ax=ax, points="all", **given),
        lambda ax: RankDistributionDisplay.from_predictions(y, ranks, ax=ax, **every),
        lambda ax: ReliabilityDisplay.from_predictions(y, eta, ax=ax, **given),
        lambda ax: TournamentDisplay.from_predictions(chances, ax=ax, **given),
        lambda ax: TournamentDisplay.from_predictions(chances, ax=ax, kind="matrix", **given),
        lambda ax: TournamentDisplay.from_predictions(chances, ax=ax, **every),
        lambda ax: TournamentDisplay.from_predictions(chances, ax=ax, kind="matrix", **every),
    ]
    for make in draw:
        ax = None if own_figure else plt.subplots(figsize=(7, 6), layout="constrained")[1]
        display = make(ax)
        display.figure_.draw_without_rendering()
        drawn = display.figure_.get_tightbbox()
        width, height = display.figure_.get_size_inches()
        assert drawn.x0 >= 0
        assert drawn.y0 >= 0
        assert drawn.x1 <= width
        assert drawn.y1 <= height
        for axis in (display.ax_.xaxis, display.ax_.yaxis):
            low, high = sorted(axis.get_view_interval())
            labels = [
                tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high
            ]
            boxes = [label.get_window_extent() for label in labels if label.get_visible()]
            assert not any(a.overlaps(b) for a, b in pairwise(boxes))
        if own_figure and isinstance(display, DuelMatrixDisplay):
            n_drawn = len(display.image_.get_array())
            assert n_drawn in (n_classes, 10)
            assert len(display.ax_.get_yticks()) == n_drawn
        plt.close(display.figure_)


def test_dataframes_and_texts_as_points(points):
    pd = pytest.importorskip("pandas")
    X, y, X_test, y_test = points
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(frame, pd.Series(y))
    test = pd.DataFrame(X_test, columns=list("abcdef"))
    display = TopKAccuracyDisplay.from_estimator(model, test, pd.Series(y_test))
    assert display.accuracy[0, 0] == pytest.approx(model.score(test, y_test))
    ranker = make_pipeline(StandardScaler(), DuelRanker(random_state=0)).fit(frame, y)
    tournament = TournamentDisplay.from_estimator(ranker, test, row=3)
    assert tournament.tournament.order[0, 0] == ranker.predict(test[3:4])[0]
