"""Duels against multiclass scores where the optimal ranking is known: beyond the paper.

For eleven data sets the posterior of every row is known. Labels are drawn from it. Half of the rows
are for training, and the other half is ranked: by duels, and by the scores of one multiclass model
of the same kind. The measure is the share of label pairs in the wrong order, among the pairs whose
posteriors differ (many posteriors are zero, and two impossible labels have no right order). Labels
are numbered at random in every draw, because equal scores of the multiclass model are ranked by
number.
"""

from __future__ import annotations

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, LogisticDuels, pairs, predict_ranks
from duelrank.datasets import load_label_ranking
from duelrank.posteriors import sample_labels
from experiments import journal, results
from experiments.results import Row

NAME = "known_posteriors"
SEED = 2020
DATA_SETS = (
    "pendigits", "satimage", "blocks", "segment", "vowel", "vehicle", "authorship", "glass",
    "breast", "wine", "iris",
)  # fmt: skip
MODELS = ("logistic regression", "random forest", "boosting")
# Results on sets above 5,000 rows vary less and take longer.
N_DRAWS = {"logistic regression": 30, "random forest": 30, "boosting": 30}
N_DRAWS_LARGE = {"logistic regression": 10, "random forest": 5, "boosting": 5}
LARGE = ("pendigits", "satimage", "blocks")


def compute() -> None:
    """Fit all models to all draws."""
    tasks = [
        {"data": data, "model": model, "draw": draw_number}
        for data in DATA_SETS
        for model in reversed(MODELS)
        for draw_number in range((N_DRAWS_LARGE if data in LARGE else N_DRAWS)[model])
    ]
    settings = {
        "seed": SEED,
        "draws": N_DRAWS,
        "draws_of_large_sets": N_DRAWS_LARGE,
        "test_size": 0.5,
        "trees": 100,
        "boosting_rounds": 50,
    }
    results.write(NAME, journal.run(NAME, compare, tasks, settings), **settings)


def draw() -> None:
    """Draw the advantage of duels with its confidence interval, one panel a kind of model."""
    table = results.read(NAME)
    figure, panels = plt.subplots(
        1, len(MODELS), figsize=(11, 4.2), sharey=True, layout="constrained"
    )
    places = np.arange(len(DATA_SETS))[::-1]
    for axes, model in zip(panels, MODELS, strict=True):
        for place, data in zip(places, DATA_SETS, strict=True):
            _, _, gain, half_width = advantage(table, data, model)
            colour = "#0072b2" if gain > half_width else "#d55e00" if gain < -half_width else "grey"
            axes.errorbar(
                100 * gain, place, xerr=100 * half_width, fmt="o", color=colour, capsize=3
            )
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_title(model)
        # Linear up to 5 points: two sets are far outside.
        axes.set_xscale("symlog", linthresh=5)
        shown = [-30, -10, -3, 0, 3] if model == "boosting" else [-1, 0, 1, 2, 3, 4]
        axes.set_xticks(shown, [f"{tick}" for tick in shown])
        axes.minorticks_off()
        axes.margins(x=0.1)
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(places, DATA_SETS)
    figure.supxlabel(
        "label pairs in the wrong order: multiclass minus duels "
        "(percentage points, 95 % interval)\n"
        "blue: duels better, orange: multiclass better, grey: undecided",
        fontsize=10,
    )
    results.save_figure(figure, NAME)
    plt.close(figure)
    for model in MODELS:
        outcomes = [advantage(table, data, model) for data in DATA_SETS]
        better = sum(gain > width for _, _, gain, width in outcomes)
        worse = sum(gain < -width for _, _, gain, width in outcomes)
        print(f"{model}: duels better on {better}, worse on {worse} of {len(DATA_SETS)} sets")


def compare(data: str, model: str, draw: int) -> list[Row]:
    """Draw labels, fit both, and return the shares of pairs in the wrong order."""
    X, eta = load_label_ranking(data, kind="posteriors")
    rng = np.random.RandomState([SEED, draw])
    eta = eta[:, rng.permutation(eta.shape[1])]
    codes = sample_labels(eta, random_state=rng)
    train, test = next(ShuffleSplit(1, test_size=0.5, random_state=draw).split(X))
    duels, multiclass = _models(model, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [
            {
                "duels": _wrong_pairs(duels.fit(X[train], codes[train]), X[test], eta[test]),
                "multiclass": _wrong_pairs(
                    multiclass.fit(X[train], codes[train]), X[test], eta[test]
                ),
            }
        ]


def advantage(
    table: dict[str, np.ndarray], data: str, model: str
) -> tuple[float, float, float, float]:
    """Return both average errors, their difference, and half of its 95 % confidence interval.

    The interval is for the expectation over labels and splits, which are drawn independently. The
    rows are always those of the data set, so it says nothing about other data sets.
    """
    mine = (table["data"] == data) & (table["model"] == model)
    duels, multiclass = table["duels"][mine], table["multiclass"][mine]
    gains = multiclass - duels
    half_width = float(stats.t.ppf(0.975, len(gains) - 1) * stats.sem(gains))
    return float(duels.mean()), float(multiclass.mean()), float(gains.mean()), half_width


def _models(model: str, seed: int) -> tuple[object, object]:
    """Return a ranker by duels and a multiclass model of the same kind."""
    if model == "logistic regression":
        duels, multiclass = LogisticDuels(), LogisticRegression(max_iter=1000)
        return (
            make_pipeline(StandardScaler(), DuelRanker(duels, random_state=seed)),
            make_pipeline(StandardScaler(), multiclass),
        )
    if model == "random forest":
        inner = RandomForestClassifier(100, random_state=seed)
    else:
        inner = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    return DuelRanker(inner, random_state=seed), inner


def _wrong_pairs(model: object, X: np.ndarray, eta: np.ndarray) -> float:
    """Return the share of pairs in the wrong order; labels absent from training tie at the end."""
    n_classes = eta.shape[1]
    ranks = np.full(eta.shape, n_classes + 1)
    ranks[:, model.classes_] = predict_ranks(model, X)
    first, second = pairs(n_classes)
    differ = eta[:, first] != eta[:, second]
    wrong = (eta[:, first] > eta[:, second]) != (ranks[:, first] < ranks[:, second])
    undecided = ranks[:, first] == ranks[:, second]
    return float(np.mean(np.where(undecided, 0.5, wrong)[differ]))
