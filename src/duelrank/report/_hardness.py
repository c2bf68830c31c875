"""The sections about hard duels: which label pairs, and how easily labels are told apart.

All numbers are those of `duelrank.posteriors.diagnose`. They are told in words first. The words go
by the error that was seen, because it needs no trust in probabilities; gaps and noise exponents are
folded away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank.posteriors import Diagnosis
from duelrank.report import _figures as figures
from duelrank.report._markup import Cell, Section, folded, table_of
from duelrank.report._points import DUELLING
from duelrank.report._text import count, counted, foreign, percent

PAIRS_SHOWN, PAIRS_FOLDED = 10, 50
LABELS_SHOWN, LABELS_FOLDED = 10, 100  # of a matrix; more labels would take too many bytes
ERROR_LEVELS = (0.005, 0.02, 0.05, 0.1, 0.2)  # where the shades of the duel matrix change
# Errors at which the words about a duel change. A coin errs in half of the rows, so that an error
# of a quarter is that of a duel in which a coin decides every other row.
EASY, COIN_TOSS = 0.05, 0.25
FEWEST_ROWS = 10  # of both labels, below which nothing is said about a duel
IN_WORDS = {
    "told apart easily": "at most 1 row in 20",
    "hard to tell apart": "more than 1 row in 20, but fewer than 1 in 4",
    "often a coin toss": "1 row in 4 or more; a coin alone would err in 2 of 4",
    "too few rows to tell": f"fewer than {FEWEST_ROWS} rows of the two labels",
}
# How far apart the errors seen and expected may be, as a ratio or a difference, to agree.
AGREE_RATIO, AGREE_DIFFERENCE = 1.5, 0.005
BINS = 10
DOTS = 2_000
# The script draws matrices by the same two rules.
SMALL_MATRIX = 6  # labels, up to which a matrix is not wide
SHORT_NAME = 3  # characters, up to which names fit above columns


def hardest_pairs(diagnosis: Diagnosis, names: Sequence[str]) -> Section:
    """List the duels that err most."""
    hardest = diagnosis.hardest()
    shown, more = hardest[:PAIRS_SHOWN], hardest[PAIRS_SHOWN:PAIRS_FOLDED]
    more = more[diagnosis.error[more] > 0]
    caption = (
        f"The {counted(len(shown), 'hardest duel')} of {count(len(diagnosis.error))}: share of the "
        "rows of the two labels in which the wrong one of the two wins; hardest by the lower end "
        "of the interval. A full bar is 100%; the mark in its middle is a coin toss."
    )
    body = _table(shown, diagnosis, names, caption)
    if len(more) > 0:
        title = f"The next {counted(len(more), 'duel')}"
        body += folded(title, _table(more, diagnosis, names, "As above."))
    untold = int((diagnosis.n_points == 0).sum())
    if untold:
        body += f'<p class="note">{counted(untold, "duel")} had no rows of either label.</p>'
    if len(names) > 2:
        body += _matrices(diagnosis, names)
    return Section("pairs", "The hardest label pairs", body)


def noise(diagnosis: Diagnosis, names: Sequence[str]) -> Section:
    """Tell how many duels are easy, hard or a coin toss, and fold away the figures about it."""
    words = [in_words(*duel) for duel in zip(diagnosis.error, diagnosis.n_points, strict=True)]
    known = ~np.isnan(diagnosis.massart_margin)
    parts = [_tally(Counter(words))]
    if known.any():
        parts += [_trust(diagnosis, known), _figures(diagnosis, names, known)]
    else:
        parts.append("<p>The duels give no probabilities, so that gaps are not known.</p>")
    return Section("noise", "How easily labels are told apart", "\n".join(parts))


def in_words(error: float, n_points: int) -> str:
    """Return how easily a duel tells its labels apart, one of the keys of `IN_WORDS`."""
    easy, hard, coin_toss, unknown = IN_WORDS
    if n_points < FEWEST_ROWS:
        return unknown
    return easy if error <= EASY else hard if error < COIN_TOSS else coin_toss


def _table(
    duels: NDArray[np.intp], diagnosis: Diagnosis, names: Sequence[str], caption: str
) -> str:
    head = [
        Cell("Labels"),
        Cell("In words"),
        Cell("Duel error", "number"),
        Cell(""),
        Cell("95% interval", "number"),
        Cell("Rows", "number"),
    ]
    rows = [
        [
            Cell(_pair(duel, names)),
            Cell(in_words(diagnosis.error[duel], diagnosis.n_points[duel]), "told"),
            Cell(percent(diagnosis.error[duel]), "number"),
            Cell(figures.meter(diagnosis.error[duel], "hard", mark=0.5), "gauge"),
            Cell(
                f"{percent(diagnosis.error_low[duel])} to {percent(diagnosis.error_high[duel])}",
                "number interval",
            ),
            Cell(count(int(diagnosis.n_points[duel])), "number"),
        ]
        for duel in duels.tolist()
    ]
    return table_of(head, rows, caption)


def _tally(duels: Counter[str]) -> str:
    """Count the duels by their words, in a sentence and in a table."""
    easy, hard, coin_toss, unknown = IN_WORDS
    judged = duels.total() - duels[unknown]
    if judged == 0:
        return f"<p>No two labels have {FEWEST_ROWS} rows: too few to tell how hard they are.</p>"
    sentence = f"All {counted(judged, 'pair')} of labels are {easy}."
    if duels[easy] < judged:
        numbers = [f"{_how_many(duels[words])} {words}" for words in (easy, hard, coin_toss)]
        sentence = f"Of {counted(judged, 'pair')} of labels, {', '.join(numbers[:2])}, and "
        sentence += f"{numbers[2]}."
    if duels[unknown]:
        sentence += (
            f" {counted(duels[unknown], 'more pair')} had fewer than {FEWEST_ROWS} rows, too few "
            "to tell."
        )
    rows = [
        [
            Cell(words[0].upper() + words[1:]),
            Cell(count(duels[words]), "number"),
            Cell(meaning, "told"),
        ]
        for words, meaning in IN_WORDS.items()
        if words != unknown
    ]
    head = [Cell("The two labels are"), Cell("Pairs", "number"), Cell("Wrong in")]
    caption = "Pairs of labels, by the share of their rows in which the wrong one of the two wins."
    return f"<p>{sentence}</p>{table_of(head, rows, caption, stack=False)}"


def _how_many(number: int) -> str:
    return "none is" if number == 0 else f"{count(number)} {'is' if number == 1 else 'are'}"


def _trust(diagnosis: Diagnosis, known: NDArray[np.bool_]) -> str:
    """Say whether the duels err as often as their probabilities expect."""
    weights = diagnosis.n_points[known]
    seen = float(np.average(diagnosis.error[known], weights=weights))
    expected = float(np.average(diagnosis.expected_error[known], weights=weights))
    agree = abs(seen - expected) <= AGREE_DIFFERENCE or (
        seen <= AGREE_RATIO * expected and expected <= AGREE_RATIO * seen
    )
    verdict = (
        "So the percentages of duels mean about what they say."
        if agree
        else "So duels are right more often than their percentages say."
        if expected > seen
        else "So duels are surer than they should be: their percentages say too much."
    )
    return (
        f"<p>Over all duels, the wrong label wins {percent(seen)} of the time; by the duels’ own "
        f"probabilities it should win {percent(expected)} of the time. {verdict}</p>"
    )


def _figures(diagnosis: Diagnosis, names: Sequence[str], known: NDArray[np.bool_]) -> str:
    """Fold away how close to a coin the duels are, in figures."""
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
    parts = [
        "<p>The gap of a duel at a row is |2p − 1|, with p the probability that one label beats "
        "the other: 0 is a coin, 1 is certainty. The noise exponent α says how rare small gaps "
        "are: near 1 they hardly occur and few rows suffice to learn the duel; near 0 they abound. "
        "Where the errors seen and expected are far apart, gaps and exponents cannot be trusted."
        "</p>",
        '<div class="side">',
        _errors(diagnosis),
        _histogram(
            diagnosis.noise_exponent[known], "Duels by their noise exponent", "noise exponent α"
        ),
        "</div>",
        table_of(head, rows, "The noise condition of the hardest duels."),
    ]
    return folded("The figures: gaps, noise exponents and constants", "\n".join(parts))


def _pair(duel: int, names: Sequence[str]) -> str:
    first, second = pairs(len(names))
    return (
        f"{foreign(names[first[duel]])} <span class='versus'>or</span> "
        f"{foreign(names[second[duel]])}"
    )


def _matrices(diagnosis: Diagnosis, names: Sequence[str]) -> str:
    """Return the errors of all duels; of many labels the hardest ones, and all folded away."""
    n_classes = len(names)
    if n_classes <= DUELLING:
        return _matrix(diagnosis, names, np.arange(n_classes), "All duels")
    first, second = pairs(n_classes)
    duels = diagnosis.hardest()
    in_turn = np.stack([first[duels], second[duels]], axis=1).ravel().tolist()
    hardest = np.array(list(dict.fromkeys(in_turn))[:LABELS_SHOWN], dtype=np.intp)
    note = f"The other {count(n_classes - len(hardest))} labels are not shown."
    matrix = _matrix(diagnosis, names, hardest, "The labels of the hardest duels", note)
    if n_classes > LABELS_FOLDED:
        return matrix
    whole = _matrix(diagnosis, names, np.arange(n_classes), "All duels", wide=True)
    return matrix + folded(f"All {count(n_classes)} labels against each other", whole)


def _matrix(
    diagnosis: Diagnosis,
    names: Sequence[str],
    codes: NDArray[np.intp],
    heading: str,
    note: str = "",
    *,
    wide: bool = False,
) -> str:
    """Return the errors of the duels between some labels as a square table."""
    n_classes = len(names)
    first, second = pairs(n_classes)
    errors = np.full((n_classes, n_classes), np.nan)
    errors[first, second] = errors[second, first] = diagnosis.error
    errors = errors[np.ix_(codes, codes)]
    shown = [names[code] for code in codes.tolist()]
    # Long names would make the columns too wide, so the columns have numbers instead.
    short = all(len(name) <= SHORT_NAME for name in shown)
    numbers = ["" if short else f"<b>{number}</b>" for number in range(1, len(shown) + 1)]
    heads = [foreign(name) for name in shown] if short else numbers
    top = "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{number}<span>{foreign(name)}</span></th>'
        f"{''.join(_shaded(error) for error in row)}</tr>"
        for number, name, row in zip(numbers, shown, errors.tolist(), strict=True)
    )
    size = " small" if len(shown) <= SMALL_MATRIX else " short" if short else ""
    caption = f"errors-of-{len(shown)}"
    table = (
        f'<table class="matrix{" wide" if wide else size}" aria-describedby="{caption}">'
        f"<thead><tr><td></td>{top}</tr></thead><tbody>{body}</tbody></table>"
    )
    if wide:
        table = (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{heading}">{table}</div>'
        )
    else:
        key = "".join(f"<li>{number} {foreign(name)}</li>" for number, name in enumerate(shown, 1))
        table += f'<ul class="key">{key}</ul>'
    return (
        f'<h3>{heading}</h3><p class="note" id="{caption}">Duel error in percent, label '
        f"against label. {note}</p>{table}"
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
