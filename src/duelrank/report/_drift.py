"""Drift: whether the rows are like those that the model was fitted on, as a section of the page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from duelrank.drift import Check, Figure, Finding
from duelrank.report import _figures as figures
from duelrank.report._markup import Cell, Section, folded, table_of
from duelrank.report._text import clean, count, counted, foreign, percent, plain

MOST_FIGURES, MOST_UNSEEN, MOST_ROWS = 6, 10, 10


def section(check: Check) -> Section:
    """Show what changed, worst first."""
    alarms = check.alarms
    others = [finding for finding in check.findings if not finding.alarm]
    parts = [f"<p>{_sentence(check.summary)}</p>"]
    if alarms:
        parts.append(_findings(alarms, "What changed, the largest change first."))
    if check.figures:
        parts.append(_figures(check.figures))
    parts.append(_unseen(check.unseen_values))
    parts.append(_unusual(check))
    if others:
        words = "What is as in training" if alarms else "What was compared"
        parts.append(folded(words, _findings(others, "By how probable a difference is by chance.")))
    parts.append(_how(check))
    return Section("training-data", "Is this data like the training data?", "\n".join(parts))


def _sentence(words: str) -> str:
    """Return a sentence with names of the user in it, however long it is."""
    return f"<bdi>{html.escape(clean(words))}</bdi>"


def _findings(findings: Sequence[Finding], caption: str) -> str:
    head = [Cell(word) for word in ("What", "How", "Training", "Here")]
    head += [Cell(word, "number") for word in ("Moved", "Chance")]
    body = [
        [
            Cell(foreign(finding.name)),
            Cell(_sentence(finding.told), "told listing"),
            Cell(foreign(finding.training or "–")),
            Cell(foreign(finding.new or "–")),
            Cell(percent(finding.change, 0), "number"),
            Cell(html.escape(finding.chance), "number"),
        ]
        for finding in findings
    ]
    return table_of(head, body, caption)


def _figures(drawn: Sequence[Figure]) -> str:
    legend = (
        '<ul class="legend">'
        '<li><svg viewBox="0 0 30 10" aria-hidden="true"><rect class="bar before" width="30" '
        'height="10"/></svg>training rows</li>'
        '<li><svg viewBox="0 0 30 10" aria-hidden="true"><rect class="bar" width="30" '
        'height="10"/></svg>these rows</li></ul>'
    )
    made = "".join(
        f"<figure><figcaption>{foreign(figure.name)}</figcaption>"
        f"{figures.two_bars(plain(figure.name), _bars(figure))}</figure>"
        for figure in drawn[:MOST_FIGURES]
    )
    return f'{legend}<div class="many">{made}</div>'


def _bars(figure: Figure) -> list[tuple[str, float, float]]:
    names = [plain(name) for name in figure.names]
    return list(zip(names, figure.training, figure.new, strict=True))


def _unseen(values: dict[str, dict[str, int]]) -> str:
    if not values:
        return ""
    rows = []
    for name, counts in values.items():
        some = ", ".join(
            f"{foreign(value)} ({count(number)})"
            for value, number in list(counts.items())[:MOST_UNSEEN]
        )
        more = f" and {len(counts) - MOST_UNSEEN} more" if len(counts) > MOST_UNSEEN else ""
        rows.append([Cell(foreign(name)), Cell(some + more, "listing")])
    caption = "Values that no training row had, and how many rows have them."
    return table_of([Cell("Column"), Cell("Values")], rows, caption)


def _unusual(check: Check) -> str:
    if not check.unusual_rows:
        return ""
    rows = [
        [
            Cell(str(unusual.row)),
            Cell(_sentence("; ".join(unusual.reasons)), "listing"),
        ]
        for unusual in check.unusual_rows[:MOST_ROWS]
    ]
    caption = (
        f"The most unusual of {counted(check.n_unlike, 'row')} "
        f"({percent(check.n_unlike / check.n_rows)}) with something that no training row had."
    )
    return table_of([Cell("Row"), Cell("Why")], rows, caption)


def _how(check: Check) -> str:
    notes = [
        f"If nothing had changed, a page would tell of a change in {percent(check.level, 0)} of "
        "all cases: <em>chance</em> allows for everything that was compared. Changes of less than "
        "5% of the rows are not told, nor values never seen in less than 1%. <em>Moved</em> is the "
        "share of rows, or of places, that changed.",
        *(f"{_sentence(note[:1].upper() + note[1:])}." for note in check.notes),
    ]
    return "".join(f'<p class="note">{words}</p>' for words in notes)
