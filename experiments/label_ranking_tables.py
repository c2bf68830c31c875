"""The results of the benchmark of label ranking as a figure and as tables.

Methods are compared with the default on the folds that both have seen. The largest difference
between another method and the default says how far the default is *behind* on a set, in a regime.
The default is as good as the best if it is behind by no more than that method's standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from experiments import results

NAME = "label_ranking"
REGIMES = {
    "full": "full rankings",
    "missing_30": "30 % of the places missing",
    "missing_60": "60 % of the places missing",
    "top": "top label only",
}
# Kendall's τ of full rankings in a thesis of 2023, 5 × 10-fold.
THESIS_METHODS = ("pairwise forest", "label-wise forest", "label-wise linear")
THESIS = {
    "authorship": (0.936, 0.926, 0.940), "bodyfat": (0.188, 0.191, 0.283),
    "calhousing": (0.486, 0.491, 0.235), "cpu": (0.518, 0.513, 0.424),
    "elevators": (0.803, 0.779, 0.702), "fried": (0.991, 0.985, 0.995),
    "glass": (0.905, 0.906, 0.815), "housing": (0.825, 0.833, 0.583),
    "iris": (0.968, 0.959, 0.799), "pendigits": (0.975, 0.976, 0.855),
    "vehicle": (0.884, 0.886, 0.804), "vowel": (0.908, 0.892, 0.596),
    "wine": (0.956, 0.925, 0.950), "cold": (0.108,), "diau": (0.209,), "dtt": (0.130,),
    "heat": (0.066,),
}  # fmt: skip

Table = dict[str, np.ndarray]


def draw() -> None:
    """Draw how far every method is behind the best one, and write the tables as Markdown."""
    table = results.read(NAME)
    settings = results.settings(NAME)
    default = settings["default"]
    figure = _figure(table, default, settings["duelrank"])
    results.save_figure(figure, NAME)
    plt.close(figure)
    (results.FOLDER / f"{NAME}.md").write_text(_page(table, default, settings["duelrank"]))
    for regime, title in REGIMES.items():
        print(f"{title}: {', '.join(_verdict(table, regime, default, settings['duelrank']))}")


def grid(
    table: Table, regime: str, column: str, default: str
) -> tuple[list[str], list[str], np.ndarray]:
    """Return the sets, the methods, and a column's values by set and method (NaN if missing)."""
    mine = np.flatnonzero(table["regime"] == regime)
    taus: dict[str, list[float]] = {}
    for method, tau in zip(table["method"][mine].tolist(), table["tau"][mine], strict=True):
        taus.setdefault(method, []).append(tau)
    # The default, then from good to bad.
    methods = sorted(taus, key=lambda method: (method != default, -np.mean(taus[method])))
    sets = sorted(set(table["data"][mine].tolist()), key=lambda data: (data[0] != "r", data))
    values = np.full((len(sets), len(methods)), np.nan)
    for row in mine:
        place = sets.index(table["data"][row]), methods.index(table["method"][row])
        values[place] = table[column][row]
    return sets, methods, values


def as_good(differences: np.ndarray, errors: np.ndarray, own: Sequence[int]) -> np.ndarray:
    """Tell on which sets the best of some methods is as good as the best of all.

    Parameters
    ----------
    differences, errors : ndarrays of shape (n_sets, n_methods)
        Differences to the default (0 for the default), and how much the best method may be better.
    own : sequence of int
        The columns of these methods.
    """
    best = np.nanargmax(differences, axis=1)
    rows = np.arange(len(best))
    behind = differences[rows, best] - np.nanmax(differences[:, own], axis=1)
    return behind <= np.where(behind > 0, errors[rows, best], 0)


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Rank the methods that are in all sets, 1 the best, and average; NaN for the others."""
    complete = ~np.isnan(values).any(axis=0)
    averages = np.full(values.shape[1], np.nan)
    averages[complete] = stats.rankdata(-values[:, complete], axis=1).mean(axis=0)
    return averages


def _figure(table: Table, default: str, own: Sequence[str]) -> plt.Figure:
    figure, panels = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
    for axes, (regime, title) in zip(panels.flat, REGIMES.items(), strict=True):
        _, methods, difference = grid(table, regime, "difference", default)
        behind = np.nanmax(difference, axis=1, keepdims=True) - difference
        middles = np.nanmean(behind, axis=0)
        order = np.argsort(-middles)
        for place, column in enumerate(order):
            method = methods[column]
            colour = "#0072b2" if method in own else "#999999"
            # Every set has its height within a row, so that dots at zero do not hide each other.
            heights = place + np.linspace(-0.3, 0.3, len(behind))
            axes.scatter(behind[:, column], heights, s=13, color=colour, alpha=0.55, linewidths=0)
            axes.plot([middles[column]] * 2, [place - 0.36, place + 0.36], color=colour, lw=2.2)
        axes.set_yticks(range(len(methods)), [methods[column] for column in order])
        for label in axes.get_yticklabels():
            if label.get_text() in own:
                label.set_color("#0072b2")
            if label.get_text() == default:
                label.set_fontweight("bold")
        # Linear near zero, where the best are; some are far outside.
        axes.set_xscale("symlog", linthresh=0.01, linscale=1.2)
        ticks = [0, 0.003, 0.01, 0.03, 0.1, 0.3, 1]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(-0.0008, max(0.4, 1.1 * np.nanmax(behind)))
        axes.grid(axis="x", alpha=0.3)
        axes.set_title(title)
    figure.supxlabel(
        "Kendall's τ: behind the best method on the set (a dot is a set, a bar their mean)\n"
        "blue: duels, bold: the recommended ones",
        fontsize=10,
    )
    return figure


def _page(table: Table, default: str, own: Sequence[str]) -> str:
    """Return all tables as Markdown."""
    parts = [
        "# Label ranking: the tables\n",
        f"Kendall's τ by cross-validation, `python -m experiments {NAME}`. .936(2) stands for a "
        "mean of 0.936 over all test folds and a standard error of 0.002: that of ten folds, as "
        "repeats test on the same rows again. R is the number of repeats of 10-fold "
        "cross-validation; expensive methods have one where their head says so, or do not take "
        f"part. Methods are compared with {default}, the recommended ones, on the folds that both "
        "have seen: the best of a row is bold, and a ✓ stands where the recommended method is the "
        "best or behind it by no more than the best one's standard error. Sets marked η have "
        "posteriors for truths.\n",
        f"On how many sets {default} are the best, are within one standard error of the best, and "
        "within the standard error of their difference to it; and on how many some duels (linear, "
        "forest, pairwise forest or stacked) are within one standard error of the best:\n",
        _markdown(
            ["", "best", "within one SE", "of the difference", "some duels within one SE"],
            [[title, *_verdict(table, regime, default, own)] for regime, title in REGIMES.items()],
        ),
        "\n## Average ranks\n",
        "1 is the best, among the methods that take part in all sets of a regime.\n",
        _average_ranks(table, default),
    ]
    for regime, title in REGIMES.items():
        parts += [f"\n## {title.capitalize()}\n", _regime(table, regime, default)]
    parts += [
        "\n## Next to a thesis of 2023\n",
        "Full rankings, 5 × 10-fold cross-validation there; forests of other sizes, other folds.\n",
        _thesis(table, default),
        "\n## Seconds\n",
        "To fit, on one core: the median over the sets, and the largest.\n",
        _seconds(table, default),
    ]
    return "\n".join(parts) + "\n"


def _verdict(table: Table, regime: str, default: str, own: Sequence[str]) -> list[str]:
    sets, methods, difference = grid(table, regime, "difference", default)
    _, _, se = grid(table, regime, "se", default)
    _, _, difference_se = grid(table, regime, "difference_se", default)
    alone = [methods.index(default)]
    duels = [place for place, method in enumerate(methods) if method in own]
    good = [
        as_good(difference, np.zeros_like(difference), alone),
        as_good(difference, se, alone),
        as_good(difference, difference_se, alone),
        as_good(difference, se, duels),
    ]
    return [f"{np.count_nonzero(sets_of)} of {len(sets)}" for sets_of in good]


def _average_ranks(table: Table, default: str) -> str:
    ranks = {}
    for regime in REGIMES:
        _, methods, difference = grid(table, regime, "difference", default)
        averages = zip(methods, average_ranks(difference).tolist(), strict=True)
        ranks[regime] = {method: average for method, average in averages if average == average}
    cells: dict[str, list[str]] = {}
    for method in dict.fromkeys(method for own in ranks.values() for method in own):
        cells[method] = [
            _bold(f"{own[method]:.1f}", own[method] == min(own.values())) if method in own else ""
            for own in ranks.values()
        ]
    # From good to bad, by the regimes that a method takes part in.
    overall = {
        method: np.mean([own[method] for own in ranks.values() if method in own])
        for method in cells
    }
    return _markdown(
        ["method", *REGIMES.values()],
        [[method, *cells[method]] for method in sorted(cells, key=overall.__getitem__)],
    )


def _regime(table: Table, regime: str, default: str) -> str:
    sets, methods, tau = grid(table, regime, "tau", default)
    _, _, se = grid(table, regime, "se", default)
    _, _, repeats = grid(table, regime, "repeats", default)
    _, _, difference = grid(table, regime, "difference", default)
    good = as_good(difference, se, [methods.index(default)])
    # A set has as many repeats as the default; the head of a method with fewer says so.
    own_repeats = repeats[:, methods.index(default)]
    heads = [
        f"{method} (R = {np.nanmax(column):.0f})" if np.any(column < own_repeats) else method
        for method, column in zip(methods, repeats.T, strict=True)
    ]
    lines = []
    for row, data in enumerate(sets):
        cells = []
        for column, method in enumerate(methods):
            cell = ""
            if not np.isnan(tau[row, column]):
                cell = _bold(
                    with_error(tau[row, column], se[row, column]),
                    difference[row, column] == np.nanmax(difference[row]),
                )
                cell += " ✓" if method == default and good[row] else ""
            cells.append(cell)
        lines.append([_name(data), f"{own_repeats[row]:.0f}", *cells])
    return _markdown(["set", "R", *heads], lines)


def _thesis(table: Table, default: str) -> str:
    sets, methods, tau = grid(table, "full", "tau", default)
    _, _, se = grid(table, "full", "se", default)
    ours = [*THESIS_METHODS, default]
    lines = []
    for name, theirs in THESIS.items():
        if f"ranks/{name}" not in sets:
            continue
        row = sets.index(f"ranks/{name}")
        told = [_short(value) for value in theirs] + [""] * (3 - len(theirs))
        cells = [(tau[row, column], se[row, column]) for column in map(methods.index, ours)]
        here = ["" if np.isnan(mean) else with_error(mean, error) for mean, error in cells]
        lines.append([name, *told, *here])
    return _markdown(["set", *(f"thesis: {m}" for m in THESIS_METHODS), *ours], lines)


def _seconds(table: Table, default: str) -> str:
    texts = []
    for regime in REGIMES:
        _, methods, seconds = grid(table, regime, "fit_seconds", default)
        cells = zip(np.nanmedian(seconds, axis=0), np.nanmax(seconds, axis=0), strict=True)
        values = (f"{middle:.2g}, {most:.2g}" for middle, most in cells)
        texts.append(dict(zip(methods, values, strict=True)))
    methods = list(dict.fromkeys(method for own in texts for method in own))
    return _markdown(
        ["method", *REGIMES.values()],
        [[method, *(own.get(method, "") for own in texts)] for method in methods],
    )


def with_error(mean: float, error: float) -> str:
    """Write a mean with its standard error in thousandths: .936(2)."""
    return f"{_short(mean)}({1000 * error:.0f})"


def _short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def _bold(cell: str, yes: bool) -> str:
    return f"**{cell}**" if yes else cell


def _name(data: str) -> str:
    kind, name = data.split("/")
    return name if kind == "ranks" else f"{name} η"


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *lines])
