"""The sections of the page above the browser of points: facts in, HTML out.

Everything that comes from the user goes through `foreign`; everything else is written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._intervals import wilson_interval
from duelrank.rankers import DuelRanker
from duelrank.report import _figures as figures
from duelrank.report._facts import Facts
from duelrank.report._markup import Cell, Section, folded, table_of
from duelrank.report._points import DUELLING, LISTED
from duelrank.report._rules import RANKED_BY, TIES_BY
from duelrank.report._text import count, counted, foreign, percent, preformatted

# Up to so many labels or places are all shown; of more the first ten, and all folded away.
MOST_SHOWN, FIRST_SHOWN = 15, 10
CURVE_PLACES = 100
CYCLES_SHOWN = 8
CYCLE_NAMES = 6
CYCLE_SIZES = 10
CYCLE_RANGES = 6


def lead(facts: Facts, about_lists: str | None = None) -> str:
    """Return the report in two or three sentences, and one about lists if there are any."""
    sentences = [
        f"{counted(facts.n_rows, 'row')}, each with a ranking of {count(facts.n_classes)} labels "
        f"from {counted(facts.n_duels, 'duel')}."
    ]
    if facts.place is not None:
        found = f"The right label comes first in {percent(facts.accuracy(1))} of rows"
        if facts.n_classes > 3:
            found += f" and among the first three in {percent(facts.accuracy(3))}"
        sentences.append(found + ".")
    if about_lists is not None:
        sentences.append(about_lists)
    if facts.n_classes > 2:
        share = percent(float(facts.cyclic.mean()))
        where = f"In {share} of rows" if facts.cyclic.any() else "Nowhere do"
        sentences.append(f"{where} the duels contradict each other.")
    return f'<p class="lead">{" ".join(sentences)}</p>'


def glance(facts: Facts, model: Any, ranker: DuelRanker) -> Section:
    """Describe data and model."""
    cards = [("Rows", count(facts.n_rows), ""), ("Labels", count(facts.n_classes), "")]
    if hasattr(model, "n_features_in_"):
        cards.append(("Features", count(model.n_features_in_), ""))
    cards.append(("Duels", count(facts.n_duels), ""))
    if facts.place is not None:
        cards.append(("Right label first", percent(facts.accuracy(1)), ""))
        cards.append(("Its mean place", f"{facts.place.mean():.2f}", ""))
    if facts.n_classes > 2:
        cards.append(("Rows with a cycle", percent(float(facts.cyclic.mean())), ""))
    duels = getattr(ranker.duels_, "engine_", ranker.duels_)  # of AutoDuels, the one it chose
    engine = type(duels).__name__
    inner = getattr(duels, "estimator", None)
    cards.append(("Duels fought by", engine if inner is None else type(inner).__name__, "words"))
    body = "".join(
        f'<div class="{style}"><dt>{name}</dt><dd>{foreign(value)}</dd></div>'
        for name, value, style in cards
    )
    parts = [f'<dl class="cards">{body}</dl>']
    if facts.place is not None:
        parts.append(
            '<p class="note">Accuracies say how the model will do only if it was not fitted on '
            "these rows.</p>"
        )
    parts.append(folded("The model and its parameters", f"<pre>{preformatted(repr(model))}</pre>"))
    return Section("glance", "At a glance", "\n".join(parts))


def labels(facts: Facts, names: Sequence[str]) -> Section:
    """Show how often every label is ranked first, found, and in a cycle."""
    ranked_first = np.bincount(facts.first, minlength=facts.n_classes)
    head = [Cell("Label"), Cell("Ranked first", "number")]
    columns: list[list[str]] = [[count(int(n)) for n in ranked_first]]
    if facts.codes is not None and facts.place is not None:
        rows = np.bincount(facts.codes, minlength=facts.n_classes)
        found = np.bincount(facts.codes[facts.place == 1], minlength=facts.n_classes)
        places = np.bincount(facts.codes, facts.place, minlength=facts.n_classes)
        head = [
            Cell("Label"),
            Cell("Rows", "number"),
            Cell("Ranked first", "number"),
            Cell("First in its own rows", "number"),
            Cell("Mean place there", "number"),
        ]
        columns = [
            [count(int(n)) for n in rows],
            *columns,
            [percent(f / n) if n else "–" for f, n in zip(found, rows, strict=True)],
            [f"{p / n:.2f}" if n else "–" for p, n in zip(places, rows, strict=True)],
        ]
    if facts.n_classes > 2:
        head.append(Cell("In a cycle", "number"))
        columns.append([percent(n / facts.n_rows) for n in facts.cycling.tolist()])
    body = [
        [Cell(foreign(name)), *(Cell(column[code], "number") for column in columns)]
        for code, name in enumerate(names)
    ]
    table = table_of(head, body, "How every label fares, in rows or shares of rows.")
    if facts.n_classes > MOST_SHOWN:
        codes, which = _first_labels(facts, ranked_first)
        first = table_of(head, [body[code] for code in codes], f"The {len(codes)} labels {which}.")
        table = first + folded(f"All {count(len(names))} labels", table)
    return Section("labels", "Labels", table)


def top_k(facts: Facts) -> Section:
    """Show how often the right label is among the first k."""
    last = min(facts.n_classes, CURVE_PLACES)
    first = last if last <= MOST_SHOWN else FIRST_SHOWN
    ours = [facts.accuracy(k) for k in range(1, last + 1)]
    theirs = [facts.accuracy_by_frequency(k) for k in range(1, last + 1)]
    rows = [
        [Cell(str(k), "number"), Cell(percent(a), "number"), Cell(percent(b), "number")]
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True), start=1)
    ]
    head = [Cell("k", "number"), Cell("This model", "number"), Cell("By frequency", "number")]
    few = [k for k in (1, 2, 3, 5, 10, 20, 50) if k < facts.n_classes][:5]
    shown = [rows[k - 1] for k in few]
    table = table_of(
        head, shown, "Share of rows whose right label is among the first k.", stack=False
    )
    if len(rows) > len(shown):
        every = table_of(head, rows, "Every k.", stack=False)
        whole = "" if first == last else f"<figure>{_curves(ours, theirs)}</figure>"
        table += folded("All k", whole + every)
    body = (
        f'<div class="side"><figure>{_curves(ours[:first], theirs[:first])}'
        '<figcaption><ul class="legend">'
        f"{_legend('ours', 'this model')}"
        f"{_legend('theirs', 'one ranking for all: labels by their frequency in these rows')}"
        f"</ul></figcaption></figure><div>{table}</div></div>"
    )
    return Section("top-k", "How many labels to suggest", body)


def cycles(facts: Facts, names: Sequence[str], ranker: DuelRanker) -> Section:
    """Show how often duels contradict each other, and how that was resolved."""
    n_cyclic = int(facts.cyclic.sum())
    inside = int(facts.first_in_cycle.sum())
    resolved = f"<p>{RANKED_BY[ranker.aggregation]} {TIES_BY[ranker.ties]}</p>"
    if n_cyclic == 0:
        body = "<p>No row has a cycle: every ranking agrees with all of its duels.</p>"
        if facts.upsets.any():
            body = "<p>No row has a cycle.</p>" + _upsets(facts)
        return Section("cycles", "Cycles", body + resolved)
    first_place = (
        f"In {count(inside)} ({percent(inside / facts.n_rows)}) the first place itself was decided "
        "inside such a cycle."
        if inside
        else "The first place was never decided inside such a cycle."
    )
    parts = [
        f"<p>In {count(n_cyclic)} of {counted(facts.n_rows, 'row')} "
        f"({percent(n_cyclic / facts.n_rows)}) some labels beat each other in a circle, so that "
        f"no ranking agrees with all duels. {first_place}</p>",
        resolved,
        _upsets(facts),
    ]
    if facts.place is not None and n_cyclic < facts.n_rows:
        right = facts.place == 1
        parts.append(
            f"<p>The right label comes first in {percent(float(right[facts.cyclic].mean()))} of "
            f"the rows with a cycle and in {percent(float(right[~facts.cyclic].mean()))} of the "
            "others.</p>"
        )
    unproved = int((~facts.exact).sum())
    if unproved:
        parts.append(
            f"<p>In {counted(unproved, 'row')} the smallest set of contradicted duels was "
            "searched for, but not proved to be smallest.</p>"
        )
    figure = figures.bars(
        "Share of rows with a cycle, by the number of labels in their largest one",
        _cycle_sizes(facts),
        "labels in the largest cycle of the row",
    )
    parts.append(
        f'<div class="side"><figure>{figure}<figcaption>Rows with a cycle, by its size.'
        f"</figcaption></figure><div>{_frequent_cycles(facts, names)}</div></div>"
    )
    return Section("cycles", "Cycles", "\n".join(parts))


def notes(facts: Facts, has_posteriors: bool, n_browsed: int, clipped: bool) -> Section:
    """Say what the words mean, and what was rounded and left out."""
    items = [
        "A <dfn>duel</dfn> is one binary classifier for two labels. The duels of a row form its "
        "<dfn>tournament</dfn>; a <dfn>cycle</dfn> is a set of labels that beat each other in a "
        "circle; an <dfn>upset</dfn> is a duel won by the label that is placed behind.",
        "Summaries are over all rows. Rows are numbered from 0.",
        "In the browser, duels are rounded to whole percents and probabilities to tenths of a "
        "percent. Who won a duel is not rounded: 50% can be a win or a defeat.",
    ]
    if not has_posteriors:
        items.append(
            "These duels give margins, not probabilities. Percents of duels are 1/2 + m / (2 + "
            "2|m|) with m the margin: larger is surer, but they are not frequencies."
        )
    if facts.n_classes > DUELLING:
        items.append(
            f"To keep this file small, probabilities and duels of a row are kept for the first "
            f"{DUELLING} places of its ranking, out of {count(facts.n_classes)}."
        )
    if facts.n_classes > LISTED:
        items.append(f"Rankings are listed down to place {LISTED}.")
    if n_browsed < facts.n_rows:
        items.append(
            f"To keep this file small, {count(n_browsed)} of {count(facts.n_rows)} rows, drawn at "
            "random, can be browsed."
        )
    if clipped:
        items.append("Very long labels and names end in “…”.")
    body = "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"
    return Section("notes", "Reading this page", body)


def _first_labels(facts: Facts, ranked_first: NDArray[np.intp]) -> tuple[list[int], str]:
    """Return the labels to show first, and in words which ones these are."""
    if facts.codes is None or facts.place is None:
        order = np.argsort(-ranked_first, kind="stable")
        return order[:FIRST_SHOWN].tolist(), "that are ranked first most often"
    rows = np.bincount(facts.codes, minlength=facts.n_classes)
    missed = np.bincount(facts.codes[facts.place > 1], minlength=facts.n_classes)
    seen = np.flatnonzero(rows)
    # As in the hardest duels, so that a label with a handful of rows is not first by chance.
    at_least, _ = wilson_interval(missed[seen] / rows[seen], rows[seen].astype(np.float64))
    order = seen[np.argsort(-at_least, kind="stable")]
    return order[:FIRST_SHOWN].tolist(), "that are missed most in their own rows"


def _curves(ours: Sequence[float], theirs: Sequence[float]) -> str:
    return figures.curves(
        "Share of rows whose right label is among the first k, over k",
        [("theirs", "by frequency", theirs), ("ours", "this model", ours)],
        "k, the number of labels suggested",
    )


def _legend(style: str, words: str) -> str:
    return (
        '<li><svg viewBox="0 0 30 10" aria-hidden="true">'
        f'<line class="curve {style}" x1="0" x2="30" y1="5" y2="5"/></svg>{words}</li>'
    )


def _upsets(facts: Facts) -> str:
    total = facts.n_duels * facts.n_rows
    upsets = int(facts.upsets.sum())
    return (
        f"<p>Rankings go against {count(upsets)} of {counted(total, 'duel')} "
        f"({percent(upsets / total, 2)}), "
        f"at most {count(int(facts.upsets.max()))} in one row.</p>"
    )


def _cycle_sizes(facts: Facts) -> list[tuple[str, float]]:
    """Return the shares of rows by the size of their largest cycle, in ranges if sizes are many."""
    sizes = facts.largest_cycle[facts.cyclic]
    largest = int(sizes.max())
    step = 1 if largest - 2 <= CYCLE_SIZES else -(-(largest - 2) // CYCLE_RANGES)
    shares = []
    for low in range(3, largest + 1, step):
        high = min(low + step - 1, largest)
        name = str(low) if high == low else f"{low}–{high}"
        shares.append((name, float(((sizes >= low) & (sizes <= high)).mean())))
    return shares


def _frequent_cycles(facts: Facts, names: Sequence[str]) -> str:
    """List the most frequent cycles, among those that are short enough to list their labels."""
    small = [item for item in facts.cycles.items() if len(item[0]) <= CYCLE_NAMES]
    if not small:
        return f"<p>Every cycle has more than {CYCLE_NAMES} labels.</p>"
    by_frequency = sorted(small, key=lambda item: (-item[1], item[0]))
    rows = [
        [Cell(", ".join(foreign(names[code]) for code in members)), Cell(count(times), "number")]
        for members, times in by_frequency[:CYCLES_SHOWN]
    ]
    caption = (
        f"The most frequent cycles of up to {CYCLE_NAMES} labels, "
        f"of {counted(len(facts.cycles), 'different cycle')}."
    )
    return table_of([Cell("Labels"), Cell("Rows", "number")], rows, caption, stack=False)
