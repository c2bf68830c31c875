"""The posteriors of the eight labels over [0, 1], stacked (paper, Figure 2 and supplement)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from duelrank.datasets import synthetic_posteriors
from experiments import results
from experiments.synthetic_grid import NOISE_EXPONENTS

NAME = "posterior_curves"
N_POINTS = 251


def compute() -> None:
    """Evaluate the posteriors on a grid."""
    points = np.linspace(0, 1, N_POINTS)
    rows = [
        {"noise_exponent": noise_exponent, "x": x}
        | {f"eta_{label + 1}": probability for label, probability in enumerate(eta)}
        for noise_exponent in NOISE_EXPONENTS
        for x, eta in zip(points, synthetic_posteriors(points, noise_exponent), strict=True)
    ]
    results.write(NAME, rows, noise_exponents=NOISE_EXPONENTS, depth=2, seed=None)


def draw() -> None:
    """Stack the posteriors."""
    table = results.read(NAME)
    labels = [name for name in table if name.startswith("eta_")]
    colours = plt.get_cmap("viridis")(np.linspace(0, 1, len(labels)))
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for axes, noise_exponent in zip(panels, NOISE_EXPONENTS, strict=True):
        mine = table["noise_exponent"] == noise_exponent
        stack = [table[name][mine] for name in labels]
        areas = axes.stackplot(
            table["x"][mine], stack, colors=colours, edgecolor="white", linewidth=0.4
        )
        axes.set(title=f"α = {noise_exponent}", xlabel="x", xlim=(0, 1), ylim=(0, 1))
    panels[0].set_ylabel("posterior, cumulated")
    names = [f"$\\eta_{name[4:]}$" for name in labels]
    figure.legend(areas[::-1], names[::-1], loc="outside right center", frameon=False)
    results.save_figure(figure, NAME)
    plt.close(figure)
