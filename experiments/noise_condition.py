"""The noise condition of every duel of the synthetic family.

Assumption 3 of the paper is P{|2 η_kl(X) − 1| < t} ≤ B t^(α/(1−α)) for all duels. The left side is
an integral over [0, 1], computed on cells that get ever smaller towards the separators of the tree.
The results also have, for every duel, the B that is needed for t ≥ 0.01, the exponent of the
smallest gaps, and how much more often than Bayes' rule the best stump errs.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from duelrank.datasets import synthetic_posteriors
from duelrank.posteriors import duel_gaps
from experiments import results
from experiments.synthetic_grid import FIRST, N_CLASSES, NOISE_EXPONENTS, SECOND

NAME = "noise_condition"
N_CELLS = 100_000
N_REFINED = 4_000  # on each side of each separator
LEVELS = np.logspace(-2, 0, 41)


def compute() -> None:
    """Evaluate the condition for all duels."""
    rows = []
    points, widths = cells()
    for noise_exponent in NOISE_EXPONENTS:
        eta = synthetic_posteriors(points, noise_exponent)
        gaps = duel_gaps(eta)
        for duel, (first, second) in enumerate(zip(FIRST, SECOND, strict=True)):
            shares = [widths[gaps[:, duel] < level].sum() for level in LEVELS]
            row = {
                "noise_exponent": noise_exponent,
                "first": first + 1,
                "second": second + 1,
                "siblings": int(first % 2 == 0 and second == first + 1),
                "B_above_0.01": np.max(shares / LEVELS ** (noise_exponent / (1 - noise_exponent))),
                "fitted_exponent": _exponent_of_small_gaps(gaps[:, duel], widths),
                "smallest_mass": (eta[:, first] + eta[:, second]).min(),
                "stump_bias": stump_bias(eta[:, first] * widths, eta[:, second] * widths),
            }
            shown = zip(LEVELS, shares, strict=True)
            rows.append(row | {f"below_{level:.4f}": share for level, share in shown})
    results.write(NAME, rows, cells=N_CELLS, refined=N_REFINED, depth=2, seed=None)


def cells() -> tuple[np.ndarray, np.ndarray]:
    """Cut [0, 1] into cells, finer towards multiples of 1/8; return their middles and widths."""
    away = np.logspace(-13, -2, N_REFINED)
    separators = np.arange(N_CLASSES + 1) / N_CLASSES
    near = np.concatenate([(separators[:, np.newaxis] + side * away).ravel() for side in (-1, 1)])
    edges = np.unique(np.clip(np.r_[np.linspace(0, 1, N_CELLS + 1), near], 0, 1))
    return (edges[1:] + edges[:-1]) / 2, np.diff(edges)


def draw() -> None:
    """Draw the share of points with a small gap, one line a duel, on logarithmic axes."""
    table = results.read(NAME)
    columns = [name for name in table if name.startswith("below_")]
    levels = np.array([float(name[6:]) for name in columns])
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for axes, noise_exponent in zip(panels, NOISE_EXPONENTS, strict=True):
        mine = np.flatnonzero(table["noise_exponent"] == noise_exponent)
        for row in mine[np.argsort(table["siblings"][mine], kind="stable")]:
            siblings = bool(table["siblings"][row])
            shares = np.array([table[name][row] for name in columns])
            shown = shares > 0
            axes.loglog(
                levels[shown],
                shares[shown],
                color="#d95f02" if siblings else "#7570b3",
                linewidth=2.5 if siblings else 0.8,
                alpha=1 if siblings else 0.6,
            )
        bound = levels ** (noise_exponent / (1 - noise_exponent))
        axes.loglog(levels, bound, "k--", linewidth=1.2)
        axes.set(
            title=f"α = {noise_exponent}",
            xlabel="t",
            ylim=(1e-4, 1.5),
        )
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("P{|2η − 1| < t}")
    lines = [
        plt.Line2D([], [], color="#d95f02", linewidth=2.5, label="duels of sibling leaves"),
        plt.Line2D([], [], color="#7570b3", linewidth=0.8, label="the other 24 duels"),
        plt.Line2D([], [], color="black", linestyle="--", label="$t^{α/(1−α)}$"),
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False)
    results.save_figure(figure, NAME)
    plt.close(figure)


def _exponent_of_small_gaps(gaps: np.ndarray, widths: np.ndarray) -> float:
    """Return the α of the slope of log P{gap < t} between the shares 0.001 and 0.01."""
    increasing = np.argsort(gaps)
    low, high = np.interp([0.001, 0.01], np.cumsum(widths[increasing]), gaps[increasing])
    slope = np.log(10) / np.log(high / low)
    return float(slope / (1 + slope))


def stump_bias(mass_first: np.ndarray, mass_second: np.ndarray) -> float:
    """Return how much more often than Bayes' rule the best stump errs, given the two labels.

    The masses are the probabilities of a label in every cell, in the order of the cells.
    """
    total = mass_first.sum() + mass_second.sum()
    below = np.concatenate([[0], np.cumsum(mass_second - mass_first)])
    # Errors of "second above the threshold" at every threshold, and of the reverse.
    upward = (mass_first.sum() + below) / total
    best = min(upward.min(), (1 - upward).min())
    return float(best - np.minimum(mass_first, mass_second).sum() / total)
