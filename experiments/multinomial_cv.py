"""The paper's baseline for Table 1: multinomial logistic regression with C by cross-validation.

scikit-learn's ``LogisticRegressionCV(Cs=10, cv=5, max_iter=2000)`` on the components of raw pixels.
Every fold is a task, so that the run can be stopped; all folds take about an hour on two cores. The
table fits the model once more, at the C chosen here.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from experiments import journal, results
from experiments.images import components
from experiments.results import Row

NAME = "multinomial_cv"
N_FOLDS = 5
MAX_ITER = 2000
CS = np.logspace(-4, 4, 10)
# The paper's two sets. The original edition of Fashion-MNIST has nearly the same images as the CSV
# edition, with another split. It takes the C of the CSV edition, which saves half of the time.
CROSS_VALIDATED = ("mnist", "fashion-mnist-csv")


def compute() -> None:
    """Score every C on every fold, and choose."""
    settings = {"Cs": CS.tolist(), "folds": N_FOLDS, "max_iter": MAX_ITER, "seed": None}
    tasks = [{"data": name, "fold": fold} for name in CROSS_VALIDATED for fold in range(N_FOLDS)]
    rows = journal.run(NAME, score_fold, tasks, settings)
    results.write(NAME, rows, **settings)
    for name in CROSS_VALIDATED:
        print(f"{name}: C = {chosen_C(name):.3g}, {cpu_minutes(name):.0f} minutes of one core")


def draw() -> None:
    """Draw nothing: Table 1 shows these numbers."""


def score_fold(data: str, fold: int) -> list[Row]:
    """Follow the path of C's on the training part of a fold; score its held-out part."""
    X, y, _, _ = components(data)
    split = list(StratifiedKFold(N_FOLDS).split(X, y))[fold]
    # Without refitting: the model on all rows is fitted once, at the C that all folds choose.
    model = LogisticRegressionCV(Cs=CS, cv=[split], max_iter=MAX_ITER, refit=False)
    start, start_cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # most C's need more iterations than the paper gives them
        model.fit(X, y)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    # Older versions give the same scores once per label.
    scores = (
        next(iter(model.scores_.values())) if isinstance(model.scores_, dict) else model.scores_
    )
    n_iter = np.ravel(model.n_iter_)
    return [
        {
            "C": C,
            "accuracy": float(accuracy),
            "iterations": int(iterations),
            "seconds_of_fold": seconds,
            "cpu_seconds_of_fold": cpu_seconds,
        }
        for C, accuracy, iterations in zip(CS.tolist(), np.ravel(scores), n_iter, strict=True)
    ]


def chosen_C(data: str) -> float:
    """Return the C with the best average accuracy, as the committed results have it."""
    table = results.read(NAME)
    mine = table["data"] == _cross_validated(data)
    averages = [table["accuracy"][mine & np.isclose(table["C"], C)].mean() for C in CS]
    return float(CS[int(np.argmax(averages))])


def cpu_minutes(data: str) -> float:
    """Return the processor time of all folds, in minutes; NaN for a set without folds."""
    table = results.read(NAME)
    mine = (table["data"] == data) & (table["C"] == table["C"].min())
    return float(table["cpu_seconds_of_fold"][mine].sum() / 60) if mine.any() else np.nan


def _cross_validated(data: str) -> str:
    return data if data in CROSS_VALIDATED else "fashion-mnist-csv"
