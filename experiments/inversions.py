"""How often every two labels come in the wrong order, by sample size.

For every two labels: the share of test points at which the learned and the optimal ranking order
them differently, averaged over trials, next to the share at which their own duel is wrong.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from experiments import journal, results
from experiments.results import Row
from experiments.synthetic_grid import (
    FIRST,
    N_CLASSES,
    N_TEST,
    NOISE_EXPONENTS,
    SECOND,
    SEED,
    inversions,
    rank_test_points,
)

NAME = "inversions"
SAMPLE_SIZES = (1_000, 10_000, 100_000)
N_TRIALS = 100


def compute() -> None:
    """Count inversions in all trials."""
    tasks = [
        {"noise_exponent": noise_exponent, "n_samples": n_samples}
        for n_samples in reversed(SAMPLE_SIZES)
        for noise_exponent in NOISE_EXPONENTS
    ]
    settings = {"seed": SEED, "trials": N_TRIALS, "test_points": N_TEST, "depth": 2}
    rows = journal.run(NAME, count_inversions, tasks, settings)
    results.write(NAME, rows, **settings)


def draw() -> None:
    """Draw a matrix per noise exponent and sample size."""
    table = results.read(NAME)
    figure, panels = plt.subplots(
        len(NOISE_EXPONENTS), len(SAMPLE_SIZES), figsize=(9, 6.2), layout="constrained"
    )
    for row, noise_exponent in zip(panels, NOISE_EXPONENTS, strict=True):
        for axes, n_samples in zip(row, SAMPLE_SIZES, strict=True):
            mine = (table["noise_exponent"] == noise_exponent) & (table["n_samples"] == n_samples)
            matrix = np.full((N_CLASSES, N_CLASSES), np.nan)
            first, second = table["first"][mine] - 1, table["second"][mine] - 1
            matrix[second, first] = 100 * table["inverted"][mine]
            image = axes.imshow(matrix, cmap="viridis", vmin=0, vmax=50)
            for a, b in zip(second, first, strict=True):
                dark = matrix[a, b] < 30
                axes.text(
                    b, a, f"{matrix[a, b]:.0f}", ha="center", va="center", fontsize=8,
                    color="white" if dark else "black",
                )  # fmt: skip
            axes.set(
                title=f"α = {noise_exponent}, n = {n_samples:,}",
                xticks=range(N_CLASSES),
                yticks=range(N_CLASSES),
                xticklabels=range(1, N_CLASSES + 1),
                yticklabels=range(1, N_CLASSES + 1),
            )
    figure.colorbar(image, ax=panels, label="points with the two labels inverted (%)", shrink=0.7)
    results.save_figure(figure, NAME)
    plt.close(figure)


def count_inversions(noise_exponent: float, n_samples: int) -> list[Row]:
    """Return, for every two labels, the share of inverted rankings and of wrong duels."""
    inverted, wrong_duel = np.zeros((2, N_TRIALS, len(FIRST)))
    for trial in range(N_TRIALS):
        ranks_true, ranks, beats = rank_test_points(noise_exponent, n_samples, trial)
        inverted[trial] = inversions(ranks_true, ranks).mean(axis=0)
        second_is_better = ranks_true[:, SECOND] < ranks_true[:, FIRST]
        wrong_duel[trial] = np.mean(second_is_better != beats[:, SECOND, FIRST], axis=0)
    return [
        {
            "first": int(FIRST[duel]) + 1,
            "second": int(SECOND[duel]) + 1,
            "inverted": float(inverted[:, duel].mean()),
            "standard_error": float(inverted[:, duel].std(ddof=1) / np.sqrt(N_TRIALS)),
            "wrong_duel": float(wrong_duel[:, duel].mean()),
        }
        for duel in range(len(FIRST))
    ]
