"""The theorem's rate: how the error falls with n, next to the bound.

With two labels (the synthetic family at depth 0) and stumps, all assumptions of the theorem hold
exactly: the noise condition with B = 1, no model bias, ε = 1. The probability of a wrong ranking is
then known without test points: it is the distance between the learned and the true threshold. The
theorem promises n^(−α/(2−α)) up to logarithms.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from duelrank import StumpDuels
from duelrank.bounds import ranking_error_bound
from duelrank.datasets import make_label_ranking
from experiments import journal, results
from experiments.results import Row

NAME = "rates"
BOUNDS_NAME = "rates_bound"
SEED = 2020
NOISE_EXPONENTS = (0.2, 0.5, 0.8)
SAMPLE_SIZES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
N_TRIALS = 200
TRIALS_OF_TASK = 20
# The bound's other arguments. Stumps of both signs have VC dimension 2. The constant of the VC
# inequality is unknown; 1 is optimistic.
BOUND = {
    "confidence": 0.05,
    "noise_constant": 1.0,
    "min_mass": 1.0,
    "vc_dimension": 2,
    "n_classes": 2,
    "constant": 1.0,
}


def compute() -> None:
    """Run all trials."""
    tasks = [
        {"noise_exponent": noise_exponent, "n_samples": n_samples, "first_trial": first_trial}
        for n_samples in reversed(SAMPLE_SIZES)
        for noise_exponent in NOISE_EXPONENTS
        for first_trial in range(0, N_TRIALS, TRIALS_OF_TASK)
    ]
    settings = {"seed": SEED, "trials": N_TRIALS, "bound": BOUND}
    rows = journal.run(NAME, run_trials, tasks, settings)
    for row in rows:
        del row["first_trial"]
    results.write(NAME, rows, **settings)
    sizes = np.round(np.logspace(1.5, 8, 60))
    bounds = [
        {"noise_exponent": noise_exponent, "n_samples": int(n), "bound": float(bound)}
        for noise_exponent in NOISE_EXPONENTS
        for n, bound in zip(
            sizes, ranking_error_bound(sizes, noise_exponent=noise_exponent, **BOUND), strict=True
        )
    ]
    results.write(BOUNDS_NAME, bounds, **BOUND, seed=None)


def draw() -> None:
    """Draw errors, fitted and promised slopes, and the bound, on logarithmic axes."""
    table, bounds = results.read(NAME), results.read(BOUNDS_NAME)
    figure, panels = plt.subplots(
        1, len(NOISE_EXPONENTS), figsize=(11, 4), sharey=True, layout="constrained"
    )
    for axes, noise_exponent in zip(panels, NOISE_EXPONENTS, strict=True):
        n, mean, error = averages(table, noise_exponent)
        slope, slope_error = fitted_slope(table, noise_exponent)
        promised = -noise_exponent / (2 - noise_exponent)
        print(
            f"α = {noise_exponent}: slope {slope:.3f} ± {slope_error:.3f}, promised {promised:.3f}"
        )
        axes.errorbar(n, mean, yerr=2 * error, fmt="o", color="#0072b2", label="measured, ± 2 s.e.")
        anchor = mean[len(n) // 2] / n[len(n) // 2] ** promised
        axes.loglog(n, anchor * n**promised, "k--", label="slope −α/(2−α)")
        mine = bounds["noise_exponent"] == noise_exponent
        axes.loglog(
            bounds["n_samples"][mine],
            bounds["bound"][mine],
            color="#d55e00",
            label="the theorem's bound (C = 1)",
        )
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.set(
            xlabel="training points n",
        )
        axes.set_title(
            f"α = {noise_exponent}\nslope {slope:.3f} ± {slope_error:.3f}, promised {promised:.3f}",
            fontsize=10,
        )
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("probability of a wrong ranking")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    results.save_figure(figure, NAME)
    plt.close(figure)


def run_trials(noise_exponent: float, n_samples: int, first_trial: int) -> list[Row]:
    """Return the exact probability of a wrong ranking in some trials."""
    rows = []
    for trial in range(first_trial, first_trial + TRIALS_OF_TASK):
        rng = np.random.RandomState([SEED, round(1000 * noise_exponent), n_samples, trial])
        X, y, _ = make_label_ranking(n_samples, noise_exponent, depth=0, random_state=rng)
        duel = StumpDuels().fit(X, y, 2)
        off = abs(float(np.clip(duel.threshold_[0], 0, 1)) - 0.5)
        rows.append({"trial": trial, "wrong": off if duel.sign_[0] > 0 else 1 - off})
    return rows


def averages(table: dict[str, np.ndarray], noise_exponent: float) -> tuple[np.ndarray, ...]:
    """Return sample sizes, average errors and their standard errors."""
    sizes = np.unique(table["n_samples"])
    errors = [
        table["wrong"][(table["noise_exponent"] == noise_exponent) & (table["n_samples"] == n)]
        for n in sizes
    ]
    mean = np.array([values.mean() for values in errors])
    standard_error = np.array([values.std(ddof=1) / np.sqrt(len(values)) for values in errors])
    return sizes.astype(float), mean, standard_error


def fitted_slope(table: dict[str, np.ndarray], noise_exponent: float) -> tuple[float, float]:
    """Return the slope of log error on log n for n ≥ 1,000, and its standard error."""
    n, mean, error = averages(table, noise_exponent)
    large = n >= 1_000
    x, y = np.log(n[large]), np.log(mean[large])
    weights = (mean[large] / error[large]) ** 2
    centred = x - np.average(x, weights=weights)
    spread = np.sum(weights * centred**2)
    return float(np.sum(weights * centred * y) / spread), float(1 / np.sqrt(spread))
