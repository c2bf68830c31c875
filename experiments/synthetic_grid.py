"""Exact stumps on the synthetic family, over sample sizes (paper, Figure 2 and supplement).

There are 100 trials for every sample size and noise exponent. Each has 1,000 test points, and
measures the Kendall distance to the optimal ranking, the share of wrong rankings, and the share of
tournaments with a cycle. Ties are broken at random; the paper breaks them arbitrarily.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from duelrank import StumpDuels, pairs
from duelrank.datasets import make_label_ranking
from duelrank.posteriors import optimal_ranks
from duelrank.rankings import ranks_from_scores
from duelrank.tournaments import beats_from_margins, copeland_scores, is_transitive
from experiments import journal, results
from experiments.results import Row

NAME = "synthetic_grid"
SEED = 2020
NOISE_EXPONENTS = (0.2, 0.8)
SAMPLE_SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
N_TRIALS = 100
TRIALS_OF_TASK = 20
N_TEST = 1_000
N_CLASSES = 8
FIRST, SECOND = pairs(N_CLASSES)
# Labels 4 and 5, the neighbours in the middle, whose best rule is no stump.
HARDEST_DUEL = int(np.flatnonzero((FIRST == 3) & (SECOND == 4))[0])
MEASURES = {
    "kendall": "Kendall distance",
    "wrong": "share of wrong rankings",
    "cycles": "share of points with a cycle",
}


def compute() -> None:
    """Run all trials."""
    tasks = [
        {"noise_exponent": noise_exponent, "n_samples": n_samples, "first_trial": first_trial}
        for n_samples in reversed(SAMPLE_SIZES)
        for noise_exponent in NOISE_EXPONENTS
        for first_trial in range(0, N_TRIALS, TRIALS_OF_TASK)
    ]
    settings = {"seed": SEED, "trials": N_TRIALS, "test_points": N_TEST, "depth": 2}
    rows = journal.run(NAME, run_trials, tasks, settings)
    for row in rows:
        del row["first_trial"]
    results.write(NAME, rows, **settings)


def draw() -> None:
    """Draw one row of boxplots per measure, one column per noise exponent."""
    table = results.read(NAME)
    figure, panels = plt.subplots(
        len(MEASURES), len(NOISE_EXPONENTS), figsize=(9, 9), sharex=True, sharey="row",
        layout="constrained",
    )  # fmt: skip
    for row, (measure, title) in zip(panels, MEASURES.items(), strict=True):
        for axes, noise_exponent in zip(row, NOISE_EXPONENTS, strict=True):
            mine = table["noise_exponent"] == noise_exponent
            boxes = [table[measure][mine & (table["n_samples"] == n)] for n in SAMPLE_SIZES]
            axes.boxplot(
                boxes,
                patch_artist=True,
                flierprops={"marker": ".", "markersize": 3},
                boxprops={"facecolor": "#9ecae1"},
                medianprops={"color": "black"},
            )
            axes.grid(axis="y", alpha=0.3)
            axes.set_ylim(bottom=0)
        row[0].set_ylabel(title)
    for axes, noise_exponent in zip(panels[0], NOISE_EXPONENTS, strict=True):
        axes.set_title(f"α = {noise_exponent}")
    for axes in panels[-1]:
        axes.set_xticks(range(1, len(SAMPLE_SIZES) + 1), [f"{n:,}" for n in SAMPLE_SIZES])
        axes.tick_params(axis="x", rotation=45)
        axes.set_xlabel("training points n")
    results.save_figure(figure, NAME)
    plt.close(figure)


def run_trials(noise_exponent: float, n_samples: int, first_trial: int) -> list[Row]:
    """Run some trials and measure each."""
    rows = []
    for trial in range(first_trial, first_trial + TRIALS_OF_TASK):
        ranks_true, ranks, beats = rank_test_points(noise_exponent, n_samples, trial)
        inverted = inversions(ranks_true, ranks)
        others = np.delete(inverted, HARDEST_DUEL, axis=1)
        rows.append(
            {
                "trial": trial,
                "kendall": float(inverted.sum(axis=1).mean()),
                "wrong": float(np.mean(inverted.any(axis=1))),
                "wrong_but_4_5": float(np.mean(others.any(axis=1))),
                "cycles": float(np.mean(~is_transitive(beats))),
            }
        )
    return rows


def rank_test_points(
    noise_exponent: float, n_samples: int, trial: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit stumps, and return the optimal and predicted ranks and the tournaments of test points."""
    rng = np.random.RandomState([SEED, round(1000 * noise_exponent), n_samples, trial])
    X, y, _ = make_label_ranking(n_samples, noise_exponent, random_state=rng)
    X_test, _, eta = make_label_ranking(N_TEST, noise_exponent, random_state=rng)
    # Empty duels and ties are decided by the numbers of the labels, so these are drawn at random.
    number = rng.permutation(N_CLASSES)
    duels = StumpDuels().fit(X, number[y], N_CLASSES)
    beats = beats_from_margins(duels.margins(X_test), N_CLASSES)[:, number][:, :, number]
    drawn = copeland_scores(beats) - number / N_CLASSES
    return optimal_ranks(eta), ranks_from_scores(drawn), beats


def inversions(ranks_true: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Tell which pairs of labels two rankings order differently, (n, 28)."""
    should = ranks_true[:, SECOND] < ranks_true[:, FIRST]
    return should != (ranks[:, SECOND] < ranks[:, FIRST])
