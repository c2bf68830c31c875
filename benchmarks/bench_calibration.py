"""Which calibration makes the probabilities of duels right, and which keeps the rankings.

A ranker is fitted on half of the rows, calibrated on a quarter, and measured on the rest. The peer
is scikit-learn's CalibratedClassifierCV, which asks a ranker for its scores: duels won. BANKING77
is measured if the environment variable DUELRANK_DATA names a folder with the data.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from duelrank import DuelRanker, LogisticDuels, predict_ranks
from duelrank.datasets import load_text
from duelrank.plotting import ReliabilityDisplay
from duelrank.rankings import codes_from_labels
from side_by_side import skipped

SMALLEST = 1e-15  # probabilities below count as this one in the log loss


def main() -> None:
    X, y = load_digits(return_X_y=True)
    _compare("digits, logistic duels", DuelRanker(random_state=0), X / 16, y)
    forests = RandomForestClassifier(30, random_state=0)
    _compare("digits, a forest for each duel", DuelRanker(forests, random_state=0), X / 16, y)
    if "DUELRANK_DATA" in os.environ:
        texts, labels = load_text("banking77")
        duels = DuelRanker(LogisticDuels(C="scale"), random_state=0)
        words = make_pipeline(TfidfVectorizer(sublinear_tf=True), duels)
        _compare("BANKING77, logistic duels on words", words, texts, labels)
    else:
        skipped("BANKING77", "set DUELRANK_DATA to a folder with text/banking77_train.csv")


def _compare(title: str, model: Any, X: Any, y: Any) -> None:
    X_fit, X_rest, y_fit, y_rest = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    X_cal, X_test, y_cal, y_test = train_test_split(
        X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
    )
    model.fit(X_fit, y_fit)
    print(title)
    print(f"{'':44} log loss   error  accuracy  same rankings")
    _measure("predict_proba", model, X_test, y_test, model.predict_proba(X_test))
    for method in ("sigmoid", "isotonic", "temperature"):
        calibrated = _calibrated(model, method, X_cal, y_cal)
        name = f"CalibratedClassifierCV, {method}"
        _measure(name, model, X_test, y_test, calibrated.predict_proba(X_test))
    power = _power(_logarithms(model, X_cal), codes_from_labels(y_cal, model.classes_))
    tempered = softmax(power * _logarithms(model, X_test), axis=1)
    _measure(f"predict_proba to the power of {power:.2f}", model, X_test, y_test, tempered)
    prefix = "" if isinstance(model, DuelRanker) else "duelranker__"
    model.set_params(**{f"{prefix}aggregation": "coupling"})
    calibrated = _calibrated(model, "temperature", X_cal, y_cal)
    name = 'aggregation="coupling", then temperature'
    _measure(name, model, X_test, y_test, calibrated.predict_proba(X_test))


def _calibrated(model: Any, method: str, X: Any, y: Any) -> Any:
    return CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(X, y)


def _logarithms(model: Any, X: Any) -> NDArray[np.float64]:
    return np.maximum(model.predict_log_proba(X), np.log(np.finfo(np.float64).tiny))


def _power(logarithms: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    def loss(power: float) -> float:
        return _log_loss(softmax(power * logarithms, axis=1), codes)

    return float(minimize_scalar(loss, bounds=(0.01, 100), method="bounded").x)


def _log_loss(probabilities: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    own = probabilities[np.arange(len(codes)), codes]
    return -float(np.log(np.maximum(own, SMALLEST)).mean())


def _measure(name: str, model: Any, X: Any, y: Any, probabilities: NDArray[np.float64]) -> None:
    codes = codes_from_labels(y, model.classes_)
    display = ReliabilityDisplay.from_predictions(y, probabilities, classes=model.classes_)
    accuracy = np.mean(probabilities.argmax(axis=1) == codes)
    # What the probabilities say about the order of labels: strictly less, place by place.
    along = np.take_along_axis(probabilities, predict_ranks(model, X).argsort(axis=1), axis=1)
    same = np.mean((np.diff(along) < 0).all(axis=1))
    error = display.calibration_error
    loss = _log_loss(probabilities, codes)
    print(f"{name:44} {loss:8.3f}  {error:6.3f}  {accuracy:8.3f}  {same:13.1%}")


if __name__ == "__main__":
    main()
