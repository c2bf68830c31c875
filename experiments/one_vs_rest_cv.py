"""One-vs-rest for Table 1: a logistic regression per label, each with C by cross-validation.

scikit-learn's ``LogisticRegressionCV(Cs=10, cv=5, solver="newton-cholesky")``; every label is a
task. The table fits the models once more, at the C's chosen here.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from experiments import journal, results
from experiments.images import DATA_SETS, components
from experiments.multinomial_cv import CS, N_FOLDS
from experiments.results import Row

NAME = "one_vs_rest_cv"
N_CLASSES = 10


def compute() -> None:
    """Choose C for every label."""
    settings = {"Cs": CS.tolist(), "folds": N_FOLDS, "seed": None}
    tasks = [{"data": name, "label": label} for name in DATA_SETS for label in range(N_CLASSES)]
    results.write(NAME, journal.run(NAME, choose_C, tasks, settings), **settings)


def draw() -> None:
    """Draw nothing: Table 1 shows these numbers."""


def choose_C(data: str, label: int) -> list[Row]:
    """Cross-validate one label against the rest."""
    X, y, _, _ = components(data)
    folds = list(StratifiedKFold(N_FOLDS).split(X, y))
    model = LogisticRegressionCV(Cs=CS, cv=folds, solver="newton-cholesky", refit=False)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y == label)
    scores = model.scores_
    scores = np.asarray(scores[True] if isinstance(scores, dict) else scores)
    averages = scores.reshape(N_FOLDS, len(CS)).mean(axis=0)
    best = int(np.argmax(averages))
    return [
        {
            "C": float(CS[best]),
            "accuracy": float(averages[best]),
            "cpu_seconds": time.process_time() - start,
        }
    ]


def cpu_minutes(data: str) -> float:
    """Return the processor time of all labels, in minutes."""
    table = results.read(NAME)
    return float(table["cpu_seconds"][table["data"] == data].sum() / 60)


def chosen_Cs(data: str) -> np.ndarray:
    """Return the C of every label, as the committed results have them."""
    table = results.read(NAME)
    return table["C"][table["data"] == data]
