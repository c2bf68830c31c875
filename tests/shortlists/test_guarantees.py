"""Lists hold the right label as often as promised: random splits against the closed form.

A pool of rows with fixed scores is split at random into n calibration and m test rows. Then the
number of test rows whose label is in the list is beta-binomial, with parameters m, k and n + 1 − k
for k = ⌈(n + 1) · coverage⌉, whatever the scores are, if no two are equal. The classifier looks its
answers up, so that nothing is fitted many times; lists come from the public class. There are 200
splits, and 1,000 in the slow tests.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, LogisticDuels, StumpDuels
from duelrank.datasets import load_text, make_label_ranking
from duelrank.preprocessing import TextFeatures
from duelrank.shortlists import PlaceIntervals, Shortlister

COVERAGES = (0.8, 0.9, 0.95, 0.99)
SPLITS = [200, pytest.param(1_000, marks=pytest.mark.slow)]
SCORES = ("probability", "evidence", "rank", "aps", "raps")
MANY_ERRORS = 4.5  # standard errors that a mean of all splits may be off


class Looked(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose X are the numbers of rows with known probabilities."""

    def __init__(self, proba=None):
        self.proba = proba
        self.classes_ = np.arange(proba.shape[1])

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.proba[X[:, 0]]

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


def digits():
    X, y = load_digits(return_X_y=True)
    # Few rows to learn from, so that there are errors.
    ranker = DuelRanker(LogisticDuels(C=1e-4), random_state=0).fit(X[:200], y[:200])
    return ranker.predict_proba(X[200:800]), y[200:800]


def wine():
    X, y = load_wine(return_X_y=True)
    ranker = make_pipeline(StandardScaler(), DuelRanker(LogisticDuels(C=1e-3), random_state=0))
    return cross_val_predict(ranker, X[:, :4], y, cv=5, method="predict_proba"), y


def synthetic():
    X, codes, _ = make_label_ranking(1_600, random_state=0)
    X = np.reshape(X, (len(X), -1))
    ranker = DuelRanker(StumpDuels(), random_state=0).fit(X[:800], codes[:800])
    scores = ranker.decision_function(X[800:])
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), codes[800:]


def banking77():
    try:
        texts, labels = load_text("banking77", subset="train")
        tests, truth = load_text("banking77", subset="test")
    except (ValueError, FileNotFoundError) as error:
        pytest.skip(f"needs BANKING77: {error}")
    ranker = make_pipeline(TextFeatures(), DuelRanker(LogisticDuels(C=100), random_state=0))
    ranker.fit(texts[::3], labels[::3])
    return ranker.predict_proba(tests), np.searchsorted(ranker.classes_, truth)


POOLS = {"digits": digits, "wine": wine, "synthetic": synthetic}


@pytest.fixture(scope="module")
def pool(request):
    return POOLS[request.param]()


def splits(n_rows, n_splits):
    """Yield calibration and test rows; two thirds calibrate."""
    rng = np.random.RandomState(0)
    for _ in range(n_splits):
        drawn = rng.permutation(n_rows)[:, np.newaxis]
        yield drawn[: 2 * n_rows // 3], drawn[2 * n_rows // 3 :]


def covered(proba, codes, n_splits, **options):
    """Return the share of test rows whose label is in the list, (n_splits, n_coverages)."""
    model = FrozenEstimator(Looked(proba))
    shares = []
    for seed, (calibrating, test) in enumerate(splits(len(codes), n_splits)):
        lists = Shortlister(model, COVERAGES, random_state=seed, **options)
        lists.fit(calibrating, codes[calibrating[:, 0]])
        mask = lists.shortlist_mask(test)
        shares.append(mask[:, np.arange(len(test)), codes[test[:, 0]]].mean(axis=1))
    return np.array(shares)


def band(n_rows, coverage):
    """Return the distribution of the number of covered test rows."""
    n_calibrating = 2 * n_rows // 3
    k = math.ceil((n_calibrating + 1) * coverage - 1e-9)
    return stats.betabinom(n_rows - n_calibrating, k, n_calibrating + 1 - k)


def check_mean(shares, coverage, exact):
    error = shares.std(ddof=1) / np.sqrt(len(shares))
    assert shares.mean() > coverage - MANY_ERRORS * error
    if exact:
        assert shares.mean() < coverage + MANY_ERRORS * error


@pytest.mark.parametrize("pool", POOLS, indirect=True)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("n_splits", SPLITS)
def test_randomised_lists_cover_exactly(n_splits, score, pool):
    options = {"conformity_score": score, "randomize": True, "allow_empty": True}
    shares = covered(*pool, n_splits, **options)
    for number, coverage in enumerate(COVERAGES):
        check_mean(shares[:, number], coverage, exact=True)


@pytest.mark.parametrize("pool", POOLS, indirect=True)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("n_splits", SPLITS)
def test_ordinary_lists_cover_at_least(n_splits, score, pool):
    proba, codes = pool
    shares = covered(proba, codes, n_splits, conformity_score=score)
    accuracy = np.mean(proba.argmax(axis=1) == codes)
    assert accuracy < COVERAGES[1]  # so most lists need more than the first label
    for number, coverage in enumerate(COVERAGES):
        # The first label is always in.
        check_mean(shares[:, number], max(coverage, accuracy - 1e-12), exact=False)


@pytest.mark.parametrize("pool", POOLS, indirect=True)
@pytest.mark.parametrize("n_splits", SPLITS)
def test_coverage_is_beta_binomial_where_no_scores_are_equal(n_splits, pool):
    """Not only its mean: as many splits are inside the central 90 % as the closed form says."""
    proba, codes = pool
    n_rows = len(codes)
    # Scores that differ, whatever the classifier says.
    jitter = 1 + 1e-9 * np.random.RandomState(0).random_sample(proba.shape)
    options = {"conformity_score": "probability", "allow_empty": True}
    shares = covered(proba * jitter, codes, n_splits, **options)
    n_test = n_rows - 2 * n_rows // 3
    for number, coverage in enumerate(COVERAGES):
        expected = band(n_rows, coverage)
        counts = np.round(shares[:, number] * n_test)
        check_mean(shares[:, number], expected.mean() / n_test, exact=True)
        low, high = expected.ppf([0.05, 0.95])
        inside = expected.cdf(high) - expected.cdf(low - 1)
        seen = np.mean((counts >= low) & (counts <= high))
        error = np.sqrt(inside * (1 - inside) / n_splits)
        assert abs(seen - inside) < MANY_ERRORS * error + 0.005


def test_every_label_is_served():
    proba, codes = synthetic()
    model, by_label = FrozenEstimator(Looked(proba)), []
    coverages = (0.8, 0.9)
    options = {"by": "label", "randomize": True, "allow_empty": True}
    frequent = np.flatnonzero(np.bincount(codes, minlength=proba.shape[1]) >= 60)
    assert len(frequent) > 3
    together = []
    for seed, (calibrating, test) in enumerate(splits(len(codes), 300)):
        lists = Shortlister(model, coverages, random_state=seed, **options)
        lists.fit(calibrating, codes[calibrating[:, 0]])
        truth = codes[test[:, 0]]
        holds = lists.shortlist_mask(test)[:, np.arange(len(test)), truth]
        by_label.append([[row[truth == k].mean() for k in frequent] for row in holds])
        plain = Shortlister(model, 0.9).fit(calibrating, codes[calibrating[:, 0]])
        holds = plain.shortlist_mask(test)[np.arange(len(test)), truth]
        together.append([holds[truth == k].mean() for k in frequent])
    shares = np.array(by_label)
    for number, coverage in enumerate(coverages):
        for label in range(len(frequent)):
            check_mean(shares[:, number, label], coverage, exact=True)
    # Without, some label is served worse.
    assert np.mean(together, axis=0).min() < 0.88


def test_every_group_is_served():
    proba, codes = digits()
    group = np.where(proba.max(axis=1) < np.median(proba.max(axis=1)), "hard", "easy")
    model, shares, together = FrozenEstimator(Looked(proba)), [], []
    for seed, (calibrating, test) in enumerate(splits(len(codes), 200)):
        options = {"by": "group", "randomize": True, "allow_empty": True}
        lists = Shortlister(model, 0.9, random_state=seed, **options)
        lists.fit(calibrating, codes[calibrating[:, 0]], groups=group[calibrating[:, 0]])
        truth, own = codes[test[:, 0]], group[test[:, 0]]
        holds = lists.shortlist_mask(test, own)[np.arange(len(test)), truth]
        shares.append([holds[own == name].mean() for name in ("easy", "hard")])
        plain = Shortlister(model, 0.9, allow_empty=True).fit(calibrating, codes[calibrating[:, 0]])
        holds = plain.shortlist_mask(test)[np.arange(len(test)), truth]
        together.append([holds[own == name].mean() for name in ("easy", "hard")])
    for column in np.array(shares).T:
        check_mean(column, 0.9, exact=True)
    assert np.mean(together, axis=0)[1] < 0.88  # hard rows pay if all rows are calibrated together


def test_clusters_of_labels_serve_their_rows():
    """Labels are easy or hard; each of the two kinds has its coverage."""
    rng = np.random.RandomState(0)
    codes = rng.randint(8, size=1_600)
    sure = np.where(codes < 4, 6.0, 1.0)  # the log-odds of the right label
    scores = rng.standard_normal((1_600, 8))
    scores[np.arange(1_600), codes] += sure
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    model, shares = FrozenEstimator(Looked(proba)), {"cluster": [], "all": []}
    for seed, (calibrating, test) in enumerate(splits(len(codes), 40)):
        truth = codes[test[:, 0]]
        for by, seen in shares.items():
            options = {"by": by, "randomize": True, "allow_empty": True, "random_state": seed}
            lists = Shortlister(model, 0.9, **options).fit(calibrating, codes[calibrating[:, 0]])
            holds = lists.shortlist_mask(test)[np.arange(len(test)), truth]
            seen.append([holds[truth < 4].mean(), holds[truth >= 4].mean()])
    for kind in range(2):
        check_mean(np.array(shares["cluster"])[:, kind], 0.9, exact=True)
    assert np.mean(shares["all"], axis=0)[1] < 0.85


def test_a_leaky_calibration_does_not_pass():
    """The check above can fail: calibrated on rows that were learned from, lists cover less."""
    X, y = load_digits(return_X_y=True)
    shares = []
    for seed in range(5):
        rows = np.random.RandomState(seed).permutation(len(y))
        learned, new = rows[:300], rows[300:]
        forest = RandomForestClassifier(20, random_state=0).fit(X[learned], y[learned])
        lists = Shortlister(FrozenEstimator(forest), 0.99, allow_empty=True)
        with pytest.warns(UserWarning, match="all 300 calibration rows have their label in the"):
            lists.fit(X[learned], y[learned])
        shares.append(lists.shortlist_mask(X[new])[np.arange(len(new)), y[new]].mean())
    with pytest.raises(AssertionError):
        check_mean(np.array(shares), 0.99, exact=False)


def test_cross_conformal_lists_cover():
    """What is guaranteed is 1 − 2α and less; what is seen is 1 − α."""
    X, y = load_digits(return_X_y=True)
    shares = []
    for seed in range(8):
        rows = np.random.RandomState(seed).permutation(len(y))
        learned, new = rows[:200], rows[200:]
        options = {"allow_empty": True, "randomize": True, "random_state": seed}
        lists = Shortlister(DuelRanker(LogisticDuels(C=1e-2)), 0.9, cv=4, **options)
        lists.fit(X[learned], y[learned])
        assert lists.n_calibration_ == 200
        shares.append(lists.shortlist_mask(X[new])[np.arange(len(new)), y[new]].mean())
    assert 0.9 - 0.03 < np.mean(shares) < 0.9 + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("score", SCORES)
def test_questions_to_a_bank(score):
    proba, codes = banking77()
    options = {"conformity_score": score, "randomize": True, "allow_empty": True}
    shares = covered(proba, codes, 1_000, **options)
    for number, coverage in enumerate(COVERAGES):
        check_mean(shares[:, number], coverage, exact=True)


def test_places_of_all_labels_are_inside():
    X, _, eta = make_label_ranking(1_200, random_state=0)
    X = np.reshape(X, (len(X), -1))
    noisy = eta * np.exp(0.3 * np.random.RandomState(0).standard_normal(eta.shape))
    ranks = 1 + np.argsort(np.argsort(-noisy, axis=1), axis=1)
    ranker = FrozenEstimator(DuelRanker(StumpDuels(), random_state=0).fit(X[:600], ranks[:600]))
    rng, widths = np.random.RandomState(0), {}
    for width in ("constant", "duels"):
        shares = []
        for _ in range(60):
            drawn = 600 + rng.permutation(600)
            places = PlaceIntervals(ranker, 0.9, width=width)
            places.fit(X[drawn[:400]], ranks[drawn[:400]])
            ends, truth = places.predict_intervals(X[drawn[400:]]), ranks[drawn[400:]]
            inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
            shares.append(inside.all(axis=1).mean())
        check_mean(np.array(shares), 0.9, exact=False)
        widths[width] = np.mean(ends[..., 1] - ends[..., 0])
    assert widths["duels"] < 1.05 * widths["constant"] < ranks.shape[1] - 1  # they tell something
