"""The noise condition of every duel of the synthetic family.

Assumption 3 of the paper asks for P{|2 η_kl(X) − 1| < t} ≤ B t^(α/(1−α)) for all duels. The left
side is computed on a fine grid of points, and with it the B that t ≥ 0.01 asks for, the exponent
that the smallest gaps show, and how much the best stump of every duel errs beyond Bayes' rule.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from duelrank import pairs
from duelrank.datasets import synthetic_posteriors
from duelrank.posteriors import noise_constant
from experiments import results

NAME = "noise_condition"
NOISE_EXPONENTS = (0.2, 0.8)
N_CLASSES = 8
N_POINTS = 200_001
LEVELS = np.logspace(-2, 0, 41)


def compute() -> None:
    """Evaluate the condition for all duels."""
    rows = []
    for noise_exponent in NOISE_EXPONENTS:
        points = (np.arange(N_POINTS) + 0.5) / N_POINTS
        eta = synthetic_posteriors(points, noise_exponent)
        for first, second in zip(*pairs(N_CLASSES), strict=True):
            both = eta[:, first] + eta[:, second]
            gaps = np.abs(eta[:, second] - eta[:, first]) / both
            row = {
                "noise_exponent": noise_exponent,
                "first": first + 1,
                "second": second + 1,
                "siblings": int(first % 2 == 0 and second == first + 1),
                "B_above_0.01": noise_constant(gaps, noise_exponent, resolution=LEVELS[0]),
                "fitted_exponent": _exponent_of_small_gaps(gaps),
                "smallest_mass": both.min(),
                "stump_bias": _stump_bias(eta[:, first], eta[:, second]),
            }
            row |= {f"below_{level:.4f}": np.mean(gaps < level) for level in LEVELS}
            rows.append(row)
    results.write(NAME, rows, noise_exponents=NOISE_EXPONENTS, points=N_POINTS, seed=None)


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


def _exponent_of_small_gaps(gaps: np.ndarray) -> float:
    """Return the α of the slope of log P{gap < t} between the shares 0.001 and 0.01."""
    low, high = np.quantile(gaps, [0.001, 0.01])
    slope = np.log(10) / np.log(high / low)
    return float(slope / (1 + slope))


def _stump_bias(eta_first: np.ndarray, eta_second: np.ndarray) -> float:
    """Return how much more often than Bayes' rule the best stump errs, given the two labels."""
    total = eta_first.sum() + eta_second.sum()
    below = np.concatenate([[0], np.cumsum(eta_second - eta_first)])
    # Errors of "second above the threshold" at every threshold, and of the reverse.
    upward = (eta_first.sum() + below) / total
    best = min(upward.min(), (1 - upward).min())
    return float(best - np.minimum(eta_first, eta_second).sum() / total)
