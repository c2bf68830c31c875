"""Lists that hold the right label as often as promised, beside MAPIE's sets of the same models.

The models are duels and a multinomial logistic regression on MNIST, Fashion-MNIST and BANKING77,
fitted on the training rows. Their test rows are split at random, 20 times, into halves that
calibrate and that are measured. Lists differ by the conformity score alone: all methods see the
same probabilities of the same rows, and "evidence" is the probability of a label among those at its
place. MAPIE's sets may be empty, ours may not, unless it is said. The last column is the lowest
coverage among the lists of one length, if these are a twentieth of all or more.

MAPIE is needed: ``pip install mapie``.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from duelrank import AnchoredDuels, DuelRanker, LogisticDuels
from duelrank.datasets import load_images, load_text
from duelrank.preprocessing import TextFeatures
from duelrank.shortlists import Shortlister, measure_shortlists
from side_by_side import skipped

COVERAGES = (0.9, 0.95)
SPLITS = 20
LEAST_SHARE = 0.05  # of the lists, to count in the last column
MAPIE_SCORES = ("lac", "aps", "raps", "top_k")
OURS = {
    "probability (default)": {},
    "probability, may be empty": {"conformity_score": "probability", "allow_empty": True},
    "evidence": {"conformity_score": "evidence"},
    "rank": {"conformity_score": "rank"},
}

Mask = np.ndarray


class Looked(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose X are numbers of rows with known answers."""

    def __init__(self, proba: np.ndarray, scores: np.ndarray) -> None:
        self.proba, self.scores = proba, scores
        self.classes_ = np.arange(proba.shape[1])
        self.n_features_in_ = 1
        self.is_fitted_ = True

    def fit(self, X: Any, y: Any) -> Looked:
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self.scores[_numbers(X)]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.proba[_numbers(X)]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.scores[_numbers(X)].argmax(axis=1)


def _numbers(X: np.ndarray) -> np.ndarray:
    return X[:, 0].astype(np.intp)


def images(name: str) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield models, the probabilities and scores of the test rows, and their codes."""
    data = load_images(name)
    components = PCA(0.95, random_state=0).fit(data.X_train.astype(np.float64))
    X, X_test = (components.transform(part.astype(np.float64)) for part in (data[0], data[2]))
    X, X_test = X / X.std(), X_test / X.std()
    C = 1e-4 * float(np.var(components.transform(data.X_train.astype(np.float64))))
    models = {
        "duels": DuelRanker(LogisticDuels(C=C), random_state=0),
        "multinomial": LogisticRegression(max_iter=200),
    }
    for kind, model in models.items():
        yield kind, *_answers(model.fit(X, data.y_train), X_test), data.y_test


def text() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    (texts, y), (texts_test, y_test) = load_text("banking77"), load_text("banking77", subset="test")
    features = TextFeatures()
    X, X_test = features.fit_transform(texts), features.transform(texts_test)
    models = {
        "anchored duels": DuelRanker(AnchoredDuels(C="scale", rivals=0, tol=1e-2), random_state=0),
        "duels": DuelRanker(LogisticDuels(C="scale"), random_state=0),
        "multinomial": LogisticRegression(C=50, max_iter=300),
    }
    for kind, model in models.items():
        codes = np.searchsorted(model.fit(X, y).classes_, y_test)
        yield kind, *_answers(model, X_test), codes


def _answers(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    return model.predict_proba(X), model.decision_function(X)


def ours(options: dict[str, Any]) -> Callable[..., Mask]:
    def lists(model: Looked, rows: np.ndarray, y: np.ndarray, new: np.ndarray) -> Mask:
        made = Shortlister(FrozenEstimator(model), COVERAGES, random_state=0, **options)
        return made.fit(rows, y).shortlist_mask(new)

    return lists


def mapie(score: str) -> Callable[..., Mask]:
    from mapie.classification import SplitConformalClassifier

    def lists(model: Looked, rows: np.ndarray, y: np.ndarray, new: np.ndarray) -> Mask:
        made = SplitConformalClassifier(
            model,
            confidence_level=list(COVERAGES),
            conformity_score=score,
            prefit=True,
            random_state=0,
        )
        sets = made.conformalize(rows, y).predict_set(new)[1]
        return np.moveaxis(sets, 2, 0)

    return lists


def measure(
    lists: Callable[..., Mask], proba: np.ndarray, scores: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """Return coverage, length, share of empty lists and lowest coverage, (n_coverages, 4)."""
    rng, model, seen = np.random.RandomState(0), Looked(proba, scores), []
    for _ in range(SPLITS):
        drawn = rng.permutation(len(codes))
        rows, new = np.array_split(drawn[:, np.newaxis], 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            masks = lists(model, rows, codes[rows[:, 0]], new)
        seen.append([_figures(mask, codes[new[:, 0]]) for mask in masks])
    return np.mean(seen, axis=0)


def _figures(mask: Mask, codes: np.ndarray) -> tuple[float, float, float, float]:
    quality = measure_shortlists(mask, codes)
    often = quality.rows_by_length >= LEAST_SHARE * len(codes)
    lowest = float(np.min(quality.coverage_by_length[often]))
    empty = float(quality.rows_by_length[0] / len(codes))
    return quality.coverage, quality.mean_length, empty, lowest


def main() -> None:
    if importlib.util.find_spec("mapie") is None:
        return skipped("all lists", "pip install mapie")
    if "DUELRANK_DATA" not in os.environ:
        return skipped("all lists", "set DUELRANK_DATA to a folder with mnist, text etc.")
    sets = {
        "MNIST": lambda: images("mnist"),
        "Fashion-MNIST": lambda: images("fashion-mnist"),
        "BANKING77": text,
    }
    methods = {f"duelrank: {name}": ours(options) for name, options in OURS.items()}
    methods |= {f"MAPIE: {score}": mapie(score) for score in MAPIE_SCORES}
    heading = "  ".join(f"{c:.0%}: reached length empty lowest" for c in COVERAGES)
    for name, models in sets.items():
        for kind, proba, scores, codes in models():
            accuracy = np.mean(scores.argmax(axis=1) == codes)
            print(f"\n{name}, {kind}: top-1 {accuracy:.4f}\n{'':36}{heading}", flush=True)
            for method, lists in methods.items():
                figures = measure(lists, proba, scores, codes)
                cells = [
                    f"     {reached:7.4f} {length:6.3f} {empty:5.1%} {lowest:6.3f}"
                    for reached, length, empty, lowest in figures
                ]
                print(f"{method:36}{'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
