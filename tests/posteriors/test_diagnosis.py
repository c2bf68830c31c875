import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from duelrank import DuelRanker, LogisticDuels, StumpDuels, pairs
from duelrank.posteriors import (
    diagnose,
    duel_probabilities,
    massart_margin,
    noise_constant,
    noise_exponent,
)

NAMES = np.array(["setosa", "versicolor", "virginica"])


@pytest.fixture
def held_out(iris):
    X, y = iris
    noisy = X + np.random.default_rng(0).normal(scale=0.5, size=X.shape)
    return train_test_split(noisy, NAMES[y], random_state=0, test_size=0.5)


def columns_of(diagnosis):
    return {name: np.asarray(column) for name, column in diagnosis.to_dict().items()}


def assert_same(one, other):
    for name, column in columns_of(one).items():
        np.testing.assert_array_equal(column, columns_of(other)[name], err_msg=name)


@pytest.mark.parametrize("engine", [None, StumpDuels(), LogisticRegression()])
def test_every_duel_is_judged_on_the_points_of_its_labels(held_out, engine):
    X, X_test, y, y_test = held_out
    ranker = DuelRanker(engine, random_state=0).fit(X, y)
    diagnosis = diagnose(ranker, X_test, y_test)
    tournament = ranker.tournament(X_test)
    for duel, (a, b) in enumerate(zip(*pairs(3), strict=True)):
        of_a, of_b = y_test == NAMES[a], y_test == NAMES[b]
        lost = np.r_[tournament.beats[of_a, b, a], tournament.beats[of_b, a, b]]
        p = tournament.probabilities[of_a | of_b, a, b]
        gaps = np.abs(2 * p - 1)
        assert diagnosis.n_points[duel] == len(lost)
        assert diagnosis.error[duel] == pytest.approx(lost.mean())
        interval = stats.binomtest(int(lost.sum()), len(lost)).proportion_ci(method="wilson")
        assert diagnosis.error_low[duel] == pytest.approx(interval.low, abs=1e-12)
        assert diagnosis.error_high[duel] == pytest.approx(interval.high)
        assert diagnosis.expected_error[duel] == pytest.approx(np.minimum(p, 1 - p).mean())
        np.testing.assert_allclose(
            diagnosis.gap_quantiles[duel], np.quantile(gaps, [0.1, 0.5, 0.9]), atol=1e-12
        )
        estimate, standard_error = noise_exponent(gaps)
        assert diagnosis.noise_exponent[duel] == pytest.approx(estimate)
        assert diagnosis.noise_exponent_standard_error[duel] == pytest.approx(
            standard_error, abs=1e-12
        )
        assert diagnosis.massart_margin[duel] == pytest.approx(massart_margin(gaps))
        assert diagnosis.noise_constant[duel] == pytest.approx(noise_constant(gaps, estimate))
        at_half = diagnose(ranker, X_test, y_test, noise_exponent=0.5).noise_constant[duel]
        assert at_half == pytest.approx(noise_constant(gaps, 0.5))


def test_known_probabilities_are_found_again():
    """An engine that knows eta: errors, gaps and exponents are those of eta."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(40_000, 1))
    eta = _known_posteriors(X[:, 0])
    y = (eta.cumsum(axis=1) > rng.uniform(size=(len(X), 1))).argmax(axis=1)
    diagnosis = diagnose(DuelRanker(_KnownDuels(), random_state=0).fit(X[:100], y[:100]), X, y)
    # The error that exact probabilities expect is the error, up to sampling.
    standard_error = np.sqrt(diagnosis.error * (1 - diagnosis.error) / diagnosis.n_points)
    assert (np.abs(diagnosis.error - diagnosis.expected_error) < 4 * standard_error).all()
    # Label 0 against 1 crosses one half linearly: α = 1/2. Label 2 is never close to another.
    score = (diagnosis.noise_exponent[0] - 0.5) / diagnosis.noise_exponent_standard_error[0]
    assert abs(score) < 4
    assert diagnosis.massart_margin[0] < 0.01
    assert (diagnosis.massart_margin[1:] > 0.2).all()
    assert diagnosis.hardest(1).tolist() == [0]


def _known_posteriors(x):
    return np.stack([0.2 + 0.5 * x, 0.7 - 0.5 * x, np.full(len(x), 0.1)], axis=1)


class _KnownDuels(LogisticDuels):
    def margins_and_probabilities(self, X):
        first, second = pairs(3)
        p = duel_probabilities(_known_posteriors(np.asarray(X)[:, 0]))[:, second, first]
        return p - 0.5, p


def test_pipelines_and_searches_are_looked_into(held_out):
    X, X_test, y, y_test = held_out
    scaler = StandardScaler().fit(X)
    ranker = DuelRanker(LogisticDuels(C=1.0), random_state=0)
    plain = diagnose(ranker.fit(scaler.transform(X), y), scaler.transform(X_test), y_test)
    pipeline = make_pipeline(StandardScaler(), ranker)
    assert_same(diagnose(pipeline.fit(X, y), X_test, y_test), plain)
    search = GridSearchCV(pipeline, {"duelranker__estimator__C": [1.0]}, cv=2)
    assert_same(diagnose(search.fit(X, y), X_test, y_test), plain)


def test_points_in_batches_are_judged_as_all_at_once(held_out, monkeypatch):
    X, X_test, y, y_test = held_out
    ranker = DuelRanker(_CountingDuels(), random_state=0).fit(X, y)
    whole = diagnose(ranker, X_test, y_test)
    assert ranker.duels_.n_asked == 1
    monkeypatch.setattr("duelrank._batches.MARGIN_BATCH_BYTES", 8 * 9 * 7)
    batches = diagnose(ranker, X_test, y_test)
    assert ranker.duels_.n_asked == 1 + np.ceil(len(X_test) / 7)
    for name in ("n_points", "error"):
        np.testing.assert_array_equal(getattr(batches, name), getattr(whole, name))
    np.testing.assert_allclose(batches.gap_quantiles, whole.gap_quantiles)


class _CountingDuels(LogisticDuels):
    n_asked = 0

    def margins_and_probabilities(self, X):
        self.n_asked += 1
        return super().margins_and_probabilities(X)


def test_duels_without_held_out_points_are_not_known(held_out):
    X, X_test, y, y_test = held_out
    ranker = DuelRanker(random_state=0).fit(X, y)
    only = y_test == "setosa"
    diagnosis = diagnose(ranker, X_test[only], y_test[only])
    assert (diagnosis.n_points == [only.sum(), only.sum(), 0]).all()
    for name, column in columns_of(diagnosis).items():
        if name not in ("first", "second", "n_points"):
            assert np.isnan(column[2]), name
            assert not np.isnan(column[:2]).any(), name
    assert sorted(diagnosis.hardest()) == [0, 1]
    assert "1 without held-out points" in repr(diagnosis)


def test_a_single_point_has_an_error_but_no_exponent(held_out):
    X, X_test, y, y_test = held_out
    ranker = DuelRanker(random_state=0).fit(X, y)
    diagnosis = diagnose(ranker, X_test[:1], y_test[:1])
    known = diagnosis.n_points == 1
    assert known.sum() == 2
    assert np.isfinite(diagnosis.massart_margin[known]).all()
    assert np.isnan(diagnosis.noise_exponent).all()
    assert np.isnan(diagnosis.noise_constant).all()
    given = diagnose(ranker, X_test[:1], y_test[:1], noise_exponent=0.5)
    assert np.isfinite(given.noise_constant[known]).all()


def test_without_probabilities_only_errors_are_known(held_out):
    X, X_test, y, y_test = held_out
    ranker = DuelRanker(LinearSVC(), random_state=0).fit(X, y)
    diagnosis = diagnose(ranker, X_test, y_test)
    assert np.isfinite(diagnosis.error).all()
    assert np.isnan(diagnosis.gap_quantiles).all()
    assert np.isnan(diagnosis.noise_exponent).all()
    assert "no probabilities" in repr(diagnosis)


def test_even_duels_go_where_the_ranker_sends_them():
    """Labels that cannot be told apart: margins of 0, decided by the order drawn at fit."""
    X, y = np.zeros((8, 1)), np.repeat(["a", "b"], 4)
    for seed in range(4):
        ranker = DuelRanker(StumpDuels(), random_state=seed).fit(X, y)
        diagnosis = diagnose(ranker, X[:4], y[:4])
        assert diagnosis.error[0] == float(ranker.predict(X[:1])[0] != "a")


def test_the_hardest_duel_is_not_one_with_hardly_any_points():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [300, 300, 30, 30])
    X = rng.normal(size=(len(y), 1)) + np.array([0, 1, 5, 9])[y][:, np.newaxis]
    ranker = DuelRanker(random_state=0).fit(X, y)
    # One point of label 2 lies among those of label 3: all points of that duel are errors.
    diagnosis = diagnose(ranker, np.r_[X[:600], [[9.0]]], np.r_[y[:600], 2])
    assert diagnosis.error[[0, 5]].tolist() == [pytest.approx(0.31, abs=0.05), 1]
    assert diagnosis.hardest()[0] == 0
    low = diagnosis.error_low[diagnosis.hardest()]
    assert (np.diff(low) <= 0).all()
    assert len(diagnosis.hardest(2)) == 2
    with pytest.raises(ValueError, match="n must be a non-negative integer or None, got -1"):
        diagnosis.hardest(-1)


def test_columns_make_a_dataframe_with_labels(held_out):
    X, X_test, y, y_test = held_out
    diagnosis = diagnose(DuelRanker(random_state=0).fit(X, y), X_test, y_test)
    frame = pd.DataFrame(diagnosis.to_dict())
    assert len(frame) == 3
    assert frame["first"].tolist() == ["setosa", "setosa", "versicolor"]
    assert frame["second"].tolist() == ["versicolor", "virginica", "virginica"]
    hardest = frame.loc[diagnosis.hardest(1)]
    assert hardest[["first", "second"]].to_numpy().tolist() == [["versicolor", "virginica"]]


def test_the_table_shows_the_hardest_first_by_name(digits):
    X, y = digits
    names = np.array([f"digit {digit}" for digit in range(10)], dtype=object)
    names[8] = "a name that is far too long for a table"
    ranker = DuelRanker(random_state=0).fit(X[:900], names[y[:900]])
    diagnosis = diagnose(ranker, X[900:], names[y[900:]])
    title, header, *rows = repr(diagnosis).splitlines()
    assert title == "10 hardest of 45 duels of 10 labels"
    assert header.split()[:4] == ["label", "label", "points", "error"]
    assert len(rows) == 10
    first, second = pairs(10)
    for row, duel in zip(rows, diagnosis.hardest(10), strict=True):
        for code in (first[duel], second[duel]):
            assert str(diagnosis.classes[code])[:20] in row
        assert f"{diagnosis.error[duel]:.1%}" in row
    assert all(len(row) < 150 for row in rows)


def test_what_is_not_fitted_says_so(held_out):
    _, X_test, _, y_test = held_out
    ranker = DuelRanker(random_state=0)
    pipeline = make_pipeline(StandardScaler(), ranker)
    search = GridSearchCV(pipeline, {"duelranker__random_state": [0]})
    for unfitted in (ranker, pipeline, search, make_pipeline(StandardScaler(), search)):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            diagnose(unfitted, X_test, y_test)


def test_a_duel_of_coins_has_an_exponent_without_error():
    X, y = np.zeros((20, 1)), np.repeat(["a", "b"], 10)
    diagnosis = diagnose(DuelRanker(StumpDuels(), random_state=0).fit(X, y), X, y)
    assert diagnosis.noise_exponent[0] == 0
    assert np.isnan(diagnosis.noise_exponent_standard_error[0])
    assert "0.00 ± ?" in repr(diagnosis)


def test_errors_are_clear(held_out):
    X, X_test, y, y_test = held_out
    ranker = DuelRanker(random_state=0)
    with pytest.raises(NotFittedError):
        diagnose(ranker, X_test, y_test)
    ranker.fit(X, y)
    with pytest.raises(ValueError, match=r"y holds labels .* among the classes: \['rose'\]"):
        diagnose(ranker, X_test, np.r_[y_test[1:], ["rose"]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        diagnose(ranker, X_test, y_test[1:])
    with pytest.raises(ValueError, match="y must hold the label of at least one held-out point"):
        diagnose(ranker, X_test[:0], y_test[:0])
    for wrong in (2, -0.1, np.nan, "a", [0.5]):
        with pytest.raises(ValueError, match="noise_exponent must lie between 0 and 1, or be None"):
            diagnose(ranker, X_test, y_test, noise_exponent=wrong)
    with pytest.raises(TypeError, match=r"estimator must be a fitted DuelRanker.*LogisticRegress"):
        diagnose(LogisticRegression().fit(X, y), X_test, y_test)
