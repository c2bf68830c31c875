"""What calibration makes of probabilities and rankings, as docs/how_to/calibration.md tells."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC
from sklearn.utils import shuffle

from duelrank import DuelRanker, predict_order

X, Y = shuffle(*load_digits(return_X_y=True), random_state=0)
X, NAMES = X / 16, np.array(["zero", *(f"digit {k}" for k in range(1, 10))])
LABELS = NAMES[Y]
FIT, CAL, NEW = slice(900), slice(900, 1350), slice(1350, None)


@pytest.fixture(scope="module")
def coupled():
    return DuelRanker(aggregation="coupling", random_state=0).fit(X[FIT], LABELS[FIT])


def has_temperature():
    try:
        CalibratedClassifierCV(LinearSVC(), method="temperature", cv=2).fit(X[:300], Y[:300])
    except ValueError:
        return False
    return True


needs_temperature = pytest.mark.skipif(
    not has_temperature(), reason="this scikit-learn has no temperature scaling"
)


@pytest.mark.parametrize("engine", [None, RandomForestClassifier(20, random_state=0)])
def test_a_power_of_probabilities_calibrates_them_and_keeps_the_ranking(engine):
    ranker = DuelRanker(engine, random_state=0).fit(X[FIT], LABELS[FIT])
    logs = np.maximum(ranker.predict_log_proba(X), -700)

    def tempered(power, rows):
        return softmax(power * logs[rows], axis=1)

    power = minimize_scalar(
        lambda power: log_loss(LABELS[CAL], tempered(power, CAL)), bounds=(0.01, 100)
    ).x
    assert power > 1.5
    before, after = log_loss(LABELS[NEW], softmax(logs[NEW], axis=1)), tempered(power, NEW)
    assert log_loss(LABELS[NEW], after) < 0.6 * before
    along = np.take_along_axis(after, ranker.predict_ranks(X[NEW]).argsort(axis=1), axis=1)
    assert (np.diff(along) <= 0).all()


@needs_temperature
def test_temperature_of_coupled_duels(coupled):
    calibrated = CalibratedClassifierCV(FrozenEstimator(coupled), method="temperature")
    calibrated.fit(X[CAL], LABELS[CAL])
    before = log_loss(LABELS[NEW], coupled.predict_proba(X[NEW]))
    assert log_loss(LABELS[NEW], calibrated.predict_proba(X[NEW])) < 0.6 * before
    np.testing.assert_array_equal(predict_order(calibrated, X[NEW]), coupled.predict_order(X[NEW]))
    # They are taken for probabilities, not for scores.
    power = calibrated.calibrated_classifiers_[0].calibrators[0].beta_
    expected = softmax(power * coupled.predict_log_proba(X[NEW]), axis=1)
    np.testing.assert_allclose(calibrated.predict_proba(X[NEW]), expected, atol=1e-6)


@needs_temperature
def test_temperature_of_votes_is_worse_than_that_of_probabilities(coupled):
    losses = []
    for aggregation in ("coupling", "copeland"):
        ranker = FrozenEstimator(clone(coupled).set_params(aggregation=aggregation))
        ranker.estimator.fit(X[FIT], LABELS[FIT])
        calibrated = CalibratedClassifierCV(ranker, method="temperature").fit(X[CAL], LABELS[CAL])
        losses.append(log_loss(LABELS[NEW], calibrated.predict_proba(X[NEW])))
    assert losses[0] < 0.8 * losses[1]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("aggregation", ["copeland", "coupling"])
def test_curves_for_every_label_do_not_keep_the_ranking(aggregation, method, coupled):
    ranker = clone(coupled).set_params(aggregation=aggregation).fit(X[FIT], LABELS[FIT])
    calibrated = CalibratedClassifierCV(FrozenEstimator(ranker), method=method)
    probabilities = calibrated.fit(X[CAL], LABELS[CAL]).predict_proba(X[NEW])
    along = np.take_along_axis(probabilities, ranker.predict_ranks(X[NEW]).argsort(axis=1), axis=1)
    assert np.mean((np.diff(along) < 0).all(axis=1)) < 0.1


@needs_temperature
def test_duels_calibrated_by_temperature_are_saved(tmp_path):
    storage = pytest.importorskip("duelrank.storage")
    pytest.importorskip("skops.io")
    duels = CalibratedClassifierCV(LinearSVC(), method="temperature", cv=2)
    ranker = DuelRanker(duels, random_state=0).fit(X[:300], LABELS[:300])
    storage.save(ranker, tmp_path / "model.skops")
    assert storage.untrusted_types(tmp_path / "model.skops") == []
    same = storage.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(same.predict_proba(X[NEW]), ranker.predict_proba(X[NEW]))
