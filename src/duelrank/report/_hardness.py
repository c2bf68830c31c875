"""The sections about hard duels: which label pairs, and what the noise condition says.

All numbers are those of `duelrank.posteriors.diagnose`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank.posteriors import Diagnosis
from duelrank.report import _figures as figures
from duelrank.report._markup import Cell, Section, table_of
from duelrank.report._points import DUELLING
from duelrank.report._text import count, counted, foreign, percent

PAIRS_SHOWN = 10
ERROR_LEVELS = (0.005, 0.02, 0.05, 0.1, 0.2)  # where the shades of the duel matrix change
BINS = 10
DOTS = 2_000
# The script draws matrices by the same two rules.
SMALL_MATRIX = 6  # labels, up to which a matrix is not wide
SHORT_NAME = 3  # characters, up to which names fit above columns


def hardest_pairs(diagnosis: Diagnosis, names: Sequence[str]) -> Section:
    """List the duels that err most."""
    shown = diagnosis.hardest(PAIRS_SHOWN)
    worst = float(np.nanmax(diagnosis.error, initial=0.0)) or 1.0
    rows = [
        [
            Cell(_pair(duel, names)),
            Cell(percent(diagnosis.error[duel]), "number"),
            Cell(figures.meter(diagnosis.error[duel] / worst, "hard"), "gauge"),
            Cell(
                f"{percent(diagnosis.error_low[duel])} to {percent(diagnosis.error_high[duel])}",
                "number interval",
            ),
            Cell(count(int(diagnosis.n_points[duel])), "number"),
        ]
        for duel in shown.tolist()
    ]
    head = [
        Cell("Labels"),
        Cell("Duel error", "number"),
        Cell(""),
        Cell("95% interval", "number"),
        Cell("Rows", "number"),
    ]
    caption = (
        f"The {counted(len(rows), 'hardest duel')} of {count(len(diagnosis.error))}: share of the "
        "rows of the two labels in which the wrong one of the two wins; hardest by the lower end "
        "of the interval."
    )
    body = table_of(head, rows, caption)
    untold = int((diagnosis.n_points == 0).sum())
    if untold:
        body += f'<p class="note">{counted(untold, "duel")} had no rows of either label.</p>'
    if 2 < len(names) <= DUELLING:
        body += _matrix(diagnosis, names)
    return Section("pairs", "The hardest label pairs", body)


def noise(diagnosis: Diagnosis, names: Sequence[str]) -> Section:
    """Show how close to a coin the duels are."""
    known = ~np.isnan(diagnosis.massart_margin)
    if not known.any():
        body = "<p>The duels give no probabilities, so that gaps are not known.</p>"
        return Section("noise", "How noisy the duels are", body)
    weights = diagnosis.n_points[known]
    seen = float(np.average(diagnosis.error[known], weights=weights))
    expected = float(np.average(diagnosis.expected_error[known], weights=weights))
    parts = [
        "<p>The gap of a duel at a row is |2p − 1|, with p the probability that one label beats "
        "the other: 0 is a coin, 1 is certainty. The noise exponent α says how rare small gaps "
        "are: near 1 they hardly occur and few rows suffice to learn the duel; near 0 they abound."
        "</p>",
        f"<p>Over all duels, {percent(seen)} of outcomes are wrong; by their own probabilities "
        f"{percent(expected)} should be. Where the two are far apart, gaps and exponents cannot "
        "be trusted.</p>",
        '<div class="side">',
        _errors(diagnosis),
        _histogram(
            diagnosis.noise_exponent[known], "Duels by their noise exponent", "noise exponent α"
        ),
        "</div>",
    ]
    head = [
        Cell("Labels"),
        Cell("Error seen", "number"),
        Cell("Error expected", "number"),
        Cell("Median gap", "number"),
        Cell("Smallest gap", "number"),
        Cell("Noise exponent α", "number"),
        Cell("Noise constant B", "number"),
    ]
    rows = [
        [
            Cell(_pair(duel, names)),
            Cell(percent(diagnosis.error[duel]), "number"),
            Cell(_share(diagnosis.expected_error[duel]), "number"),
            Cell(_number(diagnosis.gap_quantiles[duel, 1]), "number"),
            Cell(_number(diagnosis.massart_margin[duel]), "number"),
            Cell(_exponent(diagnosis, duel), "number interval"),
            Cell(_number(diagnosis.noise_constant[duel]), "number interval"),
        ]
        for duel in diagnosis.hardest(PAIRS_SHOWN).tolist()
    ]
    parts.append(table_of(head, rows, "The noise condition of the hardest duels."))
    return Section("noise", "How noisy the duels are", "\n".join(parts))


def _pair(duel: int, names: Sequence[str]) -> str:
    first, second = pairs(len(names))
    return (
        f"{foreign(names[first[duel]])} <span class='versus'>or</span> "
        f"{foreign(names[second[duel]])}"
    )


def _matrix(diagnosis: Diagnosis, names: Sequence[str]) -> str:
    """Return the errors of all duels as a square table."""
    n_classes = len(names)
    first, second = pairs(n_classes)
    errors = np.full((n_classes, n_classes), np.nan)
    errors[first, second] = errors[second, first] = diagnosis.error
    # Long names would make the columns too wide, so the columns have numbers instead.
    short = all(len(name) <= SHORT_NAME for name in names)
    numbers = ["" if short else f"<b>{number}</b>" for number in range(1, n_classes + 1)]
    heads = [foreign(name) for name in names] if short else numbers
    top = "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{number}<span>{foreign(name)}</span></th>'
        f"{''.join(_shaded(error) for error in row)}</tr>"
        for number, name, row in zip(numbers, names, errors.tolist(), strict=True)
    )
    key = "".join(f"<li>{number} {foreign(name)}</li>" for number, name in enumerate(names, 1))
    size = " small" if n_classes <= SMALL_MATRIX else " short" if short else ""
    return (
        '<h3>All duels</h3><p class="note" id="errors-caption">Duel error in percent, label '
        f'against label.</p><table class="matrix{size}" aria-describedby="errors-caption">'
        f"<thead><tr><td></td>{top}</tr></thead><tbody>{body}</tbody></table>"
        f'<ul class="key">{key}</ul>'
    )


def _shaded(error: float) -> str:
    if np.isnan(error):
        return '<td class="self">·</td>'
    level = int(np.searchsorted(ERROR_LEVELS, error, side="right"))
    return f'<td class="e{level}">{100 * error:.0f}</td>'


def _errors(diagnosis: Diagnosis) -> str:
    """Draw the errors seen against the errors expected, for the hardest duels if there are many."""
    hardest = diagnosis.hardest()
    hardest = hardest[~np.isnan(diagnosis.expected_error[hardest])]
    shown = hardest[:DOTS]
    figure = figures.scatter(
        "Error seen against error expected, one dot a duel",
        list(zip(diagnosis.expected_error[shown], diagnosis.error[shown], strict=True)),
        "error expected from the duel’s probabilities",
        "error seen",
    )
    which = "One dot a duel" if len(shown) == len(hardest) else f"The {count(DOTS)} hardest duels"
    return (
        f"<figure>{figure}<figcaption>{which}; on the dashed line, probabilities expect what is "
        "seen.</figcaption></figure>"
    )


def _histogram(values: NDArray[np.float64], title: str, x_label: str) -> str:
    values = values[~np.isnan(values)]
    heights, _ = np.histogram(values, bins=BINS, range=(0, 1))
    named = [(f"{low / BINS:.1f}", float(n)) for low, n in enumerate(heights.tolist())]
    values_above = [count(n) if n else "" for n in heights.tolist()]
    figure = figures.bars(title, named, x_label, values=values_above, end="1.0")
    return (
        f"<figure>{figure}<figcaption>{title}; half of the duels lie below "
        f"{np.median(values):.2f}.</figcaption></figure>"
    )


def _exponent(diagnosis: Diagnosis, duel: int) -> str:
    estimate = _number(diagnosis.noise_exponent[duel])
    error = diagnosis.noise_exponent_standard_error[duel]
    return estimate if np.isnan(error) else f"{estimate} ± {error:.2f}"


def _share(value: float) -> str:
    return "?" if np.isnan(value) else percent(value)


def _number(value: float) -> str:
    """Write a number with two significant digits; `Diagnosis` prints three."""
    if np.isnan(value):
        return "?"
    if np.isinf(value):
        return "∞"
    return f"{value:.2g}" if value < 99.5 else count(round(float(f"{value:.2g}")))
