"""How tournaments should become rankings: the aggregations on the same duels.

Linear and stacked duels are fitted as in the benchmark of label ranking, on its sets below 1,000
rows with ten folds. Every aggregation turns their tournaments into rankings. The measures are
Kendall's τ over the label pairs whose order the truth tells, and how often the duels of a point
contradict each other.
"""

from __future__ import annotations

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, LogisticDuels, StackedDuels
from duelrank.feedback import reveals_nothing
from duelrank.losses import partial_kendall_tau
from experiments import journal, results
from experiments.label_ranking import DATA_SETS, N_FOLDS, SEED, feedback, load
from experiments.results import Row

NAME = "aggregations"
SETS = DATA_SETS["small"]
REGIMES = {"full": "full rankings", "missing_60": "60 % missing", "top": "top label only"}
ENGINES = {"linear": LogisticDuels, "stacked": StackedDuels}
AGGREGATIONS = ("copeland", "expected_wins", "coupling", "feedback_arc_set")


def compute() -> None:
    """Fit the duels of all sets, and aggregate them in all ways."""
    tasks = [
        {"data": data, "engine": engine, "regime": regime}
        for data in SETS
        for engine in reversed(ENGINES)
        for regime in REGIMES
    ]
    settings = {"seed": SEED, "folds": N_FOLDS}
    results.write(NAME, journal.run(NAME, compare, tasks, settings), **settings)


def draw() -> None:
    """Draw every aggregation's mean τ minus Copeland's, a dot for every set."""
    table = results.read(NAME)
    figure, panels = plt.subplots(
        len(ENGINES),
        len(REGIMES),
        figsize=(11, 4.6),
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    others = AGGREGATIONS[1:]
    for row, engine in zip(panels, ENGINES, strict=True):
        for axes, (regime, title) in zip(row, REGIMES.items(), strict=True):
            mine = (table["engine"] == engine) & (table["regime"] == regime)
            gains = np.stack([table[name][mine] - table["copeland"][mine] for name in others])
            for place, gain in enumerate(gains[::-1]):
                heights = place + np.linspace(-0.25, 0.25, len(gain))
                axes.scatter(gain, heights, s=13, alpha=0.55, color="#0072b2", linewidths=0)
                axes.plot([gain.mean()] * 2, [place - 0.35, place + 0.35], color="#d55e00", lw=2.2)
            axes.axvline(0, color="black", linewidth=0.8)
            axes.set_yticks(range(len(others)), [name.replace("_", " ") for name in others[::-1]])
            axes.set_title(f"{engine} duels, {title}", fontsize=10)
            axes.grid(axis="x", alpha=0.3)
    figure.supxlabel(
        "Kendall's τ minus that of Copeland's rule on the same duels (dots: sets, bars: means)",
        fontsize=10,
    )
    results.save_figure(figure, NAME)
    plt.close(figure)
    for engine in ENGINES:
        for regime in REGIMES:
            mine = (table["engine"] == engine) & (table["regime"] == regime)
            means = ", ".join(f"{name} {table[name][mine].mean():.4f}" for name in AGGREGATIONS)
            print(f"{engine}, {regime}: {means}; cycles {table['cycles'][mine].mean():.1%}")


def compare(data: str, engine: str, regime: str) -> list[Row]:
    """Return the mean τ of every aggregation over ten folds, and the share of points in cycles."""
    X, truth = load(data)
    seen = feedback(truth, regime, repeat=0)
    speaks = ~reveals_nothing(seen)
    taus: dict[str, list[float]] = {name: [] for name in AGGREGATIONS}
    cycles = []
    for fold, (train, test) in enumerate(KFold(N_FOLDS, shuffle=True, random_state=SEED).split(X)):
        train = train[speaks[train]]
        ranker = DuelRanker(ENGINES[engine](), random_state=SEED + fold, unplaced="unknown")
        model = make_pipeline(StandardScaler(), ranker)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[train], seen[train])
        points = model[0].transform(X[test])
        for name in AGGREGATIONS:
            ranks = ranker.set_params(aggregation=name).predict_ranks(points)
            taus[name].append(float(np.mean(partial_kendall_tau(truth[test], ranks))))
        cycles.append(float(np.mean(~ranker.tournament(points).is_transitive)))
    return [{name: np.mean(values) for name, values in taus.items()} | {"cycles": np.mean(cycles)}]
