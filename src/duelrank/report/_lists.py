"""Lists: what a shortlister makes of the rows, as facts and as a section of the page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from duelrank._batches import margin_batches
from duelrank._intervals import wilson_interval
from duelrank._sklearn import as_indexable, take_rows
from duelrank.report import _figures as figures
from duelrank.report._facts import Facts
from duelrank.report._markup import Cell, Section, folded, table_of
from duelrank.report._text import count, counted, foreign, percent
from duelrank.shortlists import (
    LengthCurve,
    Shortlister,
    length_curve,
    n_labels_together,
    shortlister_inside,
)

# Up to so many labels are all shown; of more the first ten, and all folded away.
MOST_SHOWN, FIRST_SHOWN = 15, 10
LONGEST_SHOWN, LABELS_SHOWN = 10, 4
OFTEN_ASKED = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
N_COVERAGES = 60
# Lengths up to the first number stand alone, those behind are taken together up to the next ones.
ALONE, ENDS = 5, (10, 20, 50, 100, 200, 500, 1000)
FOR_WHOM = {
    "all": "all rows together",
    "label": "the rows of every label",
    "cluster": "the rows of clusters of labels",
    "group": "every group of rows",
}


@dataclass(frozen=True)
class Lists:
    """What the lists of n rows amount to, for m coverages.

    Attributes
    ----------
    shortlister : Shortlister
        It makes the lists.
    lengths : ndarray of int, of shape (m, n)
        Number of labels in the lists.
    holds : ndarray of bool, of shape (m, n), or None
        Whether they hold the right label, if it is known.
    curve : LengthCurve
        Lists of any length for many coverages. What is reached means nothing without labels.
    longest : list of (row, first labels)
        The rows with the longest lists, longest first.
    listed : ndarray of uint8, with one row for every point that can be browsed
        One bit for every place of its ranking: whether the label is in the list. All of these are
        about the first coverage.
    """

    shortlister: Shortlister
    lengths: NDArray[np.intp]
    holds: NDArray[np.bool_] | None
    curve: LengthCurve
    longest: list[tuple[int, list[Any]]]
    listed: NDArray[np.uint8]

    @property
    def asked(self) -> list[float]:
        """The coverages asked for."""
        return [float(coverage) for coverage in self.shortlister.coverages_]


def lists_of(model: Any, X: Any) -> tuple[Shortlister, Any] | None:
    """Return the shortlister of a model, and X as it sees it; None if there is none."""
    shortlister, transformers = shortlister_inside(model)
    if shortlister is None:
        return None
    for transformer in transformers:
        X = transformer.transform(X)
    return shortlister, as_indexable(X)


def gather_lists(
    shortlister: Shortlister,
    X: Any,
    groups: Any,
    codes: NDArray[np.intp] | None,
    browsed: NDArray[np.intp],
    order: NDArray[Any],
) -> Lists:
    """Make the lists of all rows, batch by batch.

    Parameters
    ----------
    shortlister : Shortlister
        Fitted.
    X : array, dataframe or sparse matrix with n rows
        As the shortlister sees it.
    groups : array-like of shape (n,) or None
        The groups of the rows, if lists are made by group.
    codes : ndarray of shape (n,) or None
        Observed labels.
    browsed : ndarray of int
        Increasing numbers of the rows that can be browsed.
    order : ndarray of int
        The first places of their rankings.
    """
    n_rows, n_classes = X.shape[0], len(shortlister.classes_)
    groups = None if groups is None else np.asarray(groups)
    coverages = _coverages(shortlister)
    lengths, holds, bits = [], [], []
    reached, long = np.zeros(len(coverages)), np.zeros(len(coverages))
    for rows in margin_batches(n_rows, n_classes):
        points = X if rows == slice(0, n_rows) else take_rows(X, rows)
        own = None if groups is None else groups[rows]
        ranked = shortlister.ranked_lists(points, own)
        masks = ranked.masks
        lengths.append(masks.sum(axis=2))
        truth = np.zeros(masks.shape[1], dtype=np.intp) if codes is None else codes[rows]
        holds.append(masks[:, np.arange(len(truth)), truth])
        curve = length_curve(ranked.p_values, truth, coverages)
        reached += len(truth) / n_rows * curve.coverage
        long += len(truth) / n_rows * curve.mean_length
        here = slice(*np.searchsorted(browsed, [rows.start, rows.stop]))
        along = masks[0][browsed[here] - rows.start]
        bits.append(np.packbits(np.take_along_axis(along, order[here].astype(np.intp), 1), axis=1))
    whole = np.concatenate(lengths, axis=1)
    return Lists(
        shortlister=shortlister,
        lengths=whole,
        holds=None if codes is None else np.concatenate(holds, axis=1),
        curve=LengthCurve(coverages, np.minimum(reached, 1), long),
        longest=_longest(shortlister, X, groups, whole[0]),
        listed=np.concatenate(bits),
    )


def in_short(lists: Lists) -> str:
    """Return the lists in one sentence."""
    length = f"{lists.lengths[0].mean():.2f} labels on average"
    if lists.holds is None:
        return f"Lists made to hold the right label in {_asked(lists.asked[0])} have {length}."
    return (
        f"Lists made to hold it in {_asked(lists.asked[0])} have {length} and hold it in "
        f"{percent(float(lists.holds[0].mean()))}."
    )


def section(lists: Lists, facts: Facts, labels: list[str], rows: list[str]) -> Section:
    """Show how long lists are, and how often they hold the right label.

    Parameters
    ----------
    lists : Lists
        Of all rows.
    facts : Facts
        About the same rows.
    labels : list of str
        The labels, by code.
    rows : list of str
        What rows are called.
    """
    parts = [_promise(lists)]
    if lists.holds is not None:
        parts.append(_verdict(lists, facts.accuracy(1)))
    if len(lists.asked) > 1:
        parts.append(_every_coverage(lists))
        parts.append(
            f'<p class="note">All that follows is about lists for {_asked(lists.asked[0])}.</p>'
        )
    parts += [_by_length(lists), _along_coverages(lists)]
    if facts.codes is not None:
        parts.append(_by_label(lists, facts.codes, labels))
    parts.append(_longest_lists(lists, rows))
    return Section("lists", "Lists", "\n".join(parts))


def _promise(lists: Lists) -> str:
    made = lists.shortlister
    whom = FOR_WHOM[made.by]
    how = "held-out rows" if made.cv is None else "rows in cross-validation"
    labels = "the first labels of its ranking, as many as it takes"
    if made.label_groups_ is not None or made.cv is not None:  # others may be in before these
        labels = "labels in the order of its ranking, as many as it takes"
    words = (
        f"Every row gets a list: {labels} to hold the right one in {_asked(lists.asked[0])} of "
        f"{whom}. What that takes was learned on {count(made.n_calibration_)} {how}."
    )
    n_together = n_labels_together(made)
    if n_together:
        words += f" {counted(n_together, 'label')} with few of these rows were taken together."
    if made.max_length is not None:
        words += (
            f" Lists of more than {counted(made.max_length, 'label')} are "
            f"{'cut' if made.longer == 'cut' else 'not given at all'}, which lowers the coverage."
        )
    return f"<p>{words}</p>"


def _verdict(lists: Lists, right_first: float) -> str:
    """Say what was reached, and whether chance explains it."""
    assert lists.holds is not None
    n_held, n_rows = int(lists.holds[0].sum()), lists.holds.shape[1]
    reached = n_held / n_rows
    words = (
        f"Of {counted(n_rows, 'list')} here, {count(n_held)} hold the right label: "
        f"<b>{percent(reached)}</b>, with a 95% confidence interval from "
        f"{_interval(reached, n_rows)}."
    )
    expected = _by_chance(lists.shortlister, n_rows)
    first_is_in = not lists.shortlister.allow_empty and lists.shortlister.longer != "abstain"
    if first_is_in and reached >= right_first >= lists.asked[0]:
        words += (
            " More than was asked for, because the first label is always in the list, and it "
            f"alone is right in {percent(right_first)}."
        )
    elif expected is not None:
        low, high = expected
        words += (
            " If these rows and the calibration rows are drawn alike, it is between "
            f"{percent(low)} and {percent(high)} in 19 of 20 cases."
        )
        if reached < low:
            words += (
                " It is less: these rows are not like the calibration rows, or the model was "
                "fitted on the latter."
            )
    return f"<p>{words}</p>"


def _by_chance(made: Shortlister, n_rows: int) -> tuple[float, float] | None:
    """Return between which shares the coverage is in 19 of 20 cases, if that is known."""
    n = made.n_calibration_
    place = math.ceil((n + 1) * float(made.coverages_[0]) - 1e-9)
    if made.by != "all" or made.cv is not None or made.max_length is not None or place > n:
        return None
    # The calibration rows draw the coverage, and these rows draw what is seen of it.
    low, high = betabinom(n_rows, place, n + 1 - place).interval(0.95)
    return float(low) / n_rows, float(high) / n_rows


def _every_coverage(lists: Lists) -> str:
    head = [Cell("Asked for"), Cell("Mean length", "number"), Cell("Only one label", "number")]
    if lists.holds is not None:
        head.insert(1, Cell("Reached", "number"))
        head.append(Cell("95% confidence interval", "number interval"))
    rows = []
    for number, (asked, lengths) in enumerate(zip(lists.asked, lists.lengths, strict=True)):
        one = percent(float((lengths == 1).mean()))
        row = [Cell(_asked(asked)), Cell(f"{lengths.mean():.2f}", "number"), Cell(one, "number")]
        if lists.holds is not None:
            share = float(lists.holds[number].mean())
            row.insert(1, Cell(percent(share), "number"))
            row.append(Cell(_interval(share, len(lengths)), "number interval"))
        rows.append(row)
    return table_of(head, rows, "The coverages that this model was made for.")


def _by_length(lists: Lists) -> str:
    """Draw how many rows have lists of each length."""
    lengths = lists.lengths[0]
    ranges = _ranges(lengths)
    shares, rows = [], []
    for low, high in ranges:
        here = (lengths >= low) & (lengths <= high)
        name = str(low) if low == high else f"{low}–{high}"
        share = float(here.mean())
        shares.append((name, share))
        row = [Cell(name), Cell(count(int(here.sum())), "number"), Cell(percent(share), "number")]
        if lists.holds is not None:
            held = percent(float(lists.holds[0][here].mean())) if here.any() else "–"
            row.append(Cell(held, "number"))
        rows.append(row)
    head = [Cell("Labels"), Cell("Rows", "number"), Cell("Share", "number")]
    if lists.holds is not None:
        head.append(Cell("Hold the right label", "number"))
    figure = figures.bars(
        "Share of rows, by the length of their list", shares, "labels in the list"
    )
    note = ""
    if lists.shortlister.longer == "abstain" and (lengths == 0).any():
        note = '<p class="note">Rows with 0 labels got no list, because it would be too long.</p>'
    return (
        f'<h3>By length</h3><div class="side"><figure>{figure}<figcaption>Rows by the length of '
        f"their list. The mean is {lengths.mean():.2f} labels.</figcaption></figure><div>"
        f"{table_of(head, rows, 'Lists by their length.', stack=False)}{note}</div></div>"
    )


def _along_coverages(lists: Lists) -> str:
    """Draw what other coverages would cost."""
    curve, made = lists.curve, lists.shortlister
    marked = [
        (asked, float(lengths.mean()))
        for asked, lengths in zip(lists.asked, lists.lengths, strict=True)
    ]
    points = list(zip(curve.asked.tolist(), curve.mean_length.tolist(), strict=True))
    figure = figures.lengths("Mean length of a list, over the coverage asked for", points, marked)
    head = [Cell("Asked for"), Cell("Mean length", "number")]
    if lists.holds is not None:
        head.insert(1, Cell("Reached", "number"))
    rows = []
    for number, asked in enumerate(curve.asked.tolist()):
        if asked not in OFTEN_ASKED and asked not in lists.asked:
            continue
        row = [Cell(_asked(asked)), Cell(f"{curve.mean_length[number]:.2f}", "number")]
        if lists.holds is not None:
            row.insert(1, Cell(percent(float(curve.coverage[number])), "number"))
        rows.append(row)
    cut = "" if made.max_length is None else " Curve and table show lists that are not cut."
    return (
        "<h3>Other coverages</h3>"
        f'<div class="side"><figure>{figure}<figcaption>What more coverage costs in labels. Dots: '
        f"what this model was made for.{cut}</figcaption></figure><div>"
        f"{table_of(head, rows, 'From the same calibration rows.', stack=False)}"
        "</div></div>"
    )


def _by_label(lists: Lists, codes: NDArray[np.intp], labels: list[str]) -> str:
    """Show the coverage of every label, worst first."""
    assert lists.holds is not None
    n_classes = len(labels)
    rows = np.bincount(codes, minlength=n_classes)
    held = np.bincount(codes[lists.holds[0]], minlength=n_classes)
    total = np.bincount(codes, lists.lengths[0], minlength=n_classes)
    seen = np.flatnonzero(rows)
    n = rows[seen].astype(np.float64)
    # As elsewhere, so that a label with a handful of rows is not first by chance.
    at_least, _ = wilson_interval(1 - held[seen] / n, n)
    worst = seen[np.lexsort((held[seen] / n, -at_least))].tolist()
    head = [
        Cell("Label"),
        Cell("Rows", "number"),
        Cell("In its list", "number"),
        Cell("", "gauge"),
        Cell("Mean length", "number"),
    ]
    body = [
        [
            Cell(foreign(labels[code])),
            Cell(count(int(rows[code])), "number"),
            Cell(percent(held[code] / rows[code]), "number"),
            Cell(figures.meter(held[code] / rows[code], mark=lists.asked[0]), "gauge"),
            Cell(f"{total[code] / rows[code]:.2f}", "number"),
        ]
        for code in worst
    ]
    few = len(worst) <= MOST_SHOWN
    caption = (
        f"How often lists of its own rows hold a label, {'' if few else 'the ten '}lowest first; "
        "the mark is what was asked for."
    )
    table = table_of(head, body if few else body[:FIRST_SHOWN], caption)
    if not few:
        every = table_of(head, body, "Labels with rows, lowest first.")
        table += folded(f"All {count(len(worst))} labels", every)
    return f"<h3>By label</h3>{table}"


def _longest_lists(lists: Lists, rows: list[str]) -> str:
    head = [Cell("Row"), Cell("Labels", "number"), Cell("Its first labels", "listing")]
    body = []
    for row, first in lists.longest:
        length = int(lists.lengths[0][row])
        told = ", ".join(foreign(label) for label in first)
        told += f" and {count(length - len(first))} more" if length > len(first) else ""
        listing = Cell(told, "listing")
        body.append([Cell(foreign(rows[row])), Cell(count(length), "number"), listing])
    if not body:
        return "<p>No list has more than one label.</p>"
    return "<h3>Longest lists</h3>" + table_of(head, body, "Where the ranking is least sure.")


def _coverages(made: Shortlister) -> NDArray[np.float64]:
    """Return coverages to draw: evenly spread on the scale of the figure, and round ones."""
    allowed = 1 - 1 / (made.n_calibration_ + 1)
    high = max(min(0.999, allowed), float(made.coverages_.max()))
    low = min(0.8, float(made.coverages_.min()))
    spread = np.linspace(figures.log_odds(low), figures.log_odds(high), N_COVERAGES)
    between = 1 / (1 + np.exp(-spread[1:-1]))
    often = [asked for asked in OFTEN_ASKED if low <= asked <= high]
    return np.unique(np.concatenate([between, [low, high], often, made.coverages_]))


def _longest(
    made: Shortlister, X: Any, groups: Any, lengths: NDArray[np.intp]
) -> list[tuple[int, list[Any]]]:
    rows = np.argsort(-lengths, kind="stable")[:LONGEST_SHOWN]
    rows = rows[lengths[rows] > 1]
    if len(rows) == 0:
        return []
    found = made.predict_shortlist(take_rows(X, rows), None if groups is None else groups[rows])
    lists = found[float(made.coverages_[0])] if isinstance(found, dict) else found
    return [(row, own[:LABELS_SHOWN]) for row, own in zip(rows.tolist(), lists, strict=True)]


def _ranges(lengths: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Cut the lengths that occur into ranges."""
    shortest, longest = int(min(lengths.min(), 1)), int(lengths.max())
    ranges = [(length, length) for length in range(shortest, min(longest, ALONE) + 1)]
    low = ALONE + 1
    for high in (*ENDS, longest):
        if low > longest:
            break
        high = max(high, low)
        ranges.append((low, min(high, longest)))
        low = high + 1
    return ranges


def _interval(share: float, n_rows: int) -> str:
    low, high = wilson_interval(np.array(share), np.array(float(n_rows)))
    return f"{percent(float(low))} to {percent(float(high))}"


def _asked(coverage: float) -> str:
    """Return a coverage as it was asked for."""
    return f"{100 * coverage:.6g}%"
