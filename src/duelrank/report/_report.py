"""One page about a model and a table: check them, choose the rows that fit, write the file."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from duelrank import __version__
from duelrank._files import replacing
from duelrank._sklearn import as_indexable, unwrap
from duelrank.drift import Check
from duelrank.posteriors import diagnose
from duelrank.rankers import DuelRanker
from duelrank.rankings import codes_from_labels
from duelrank.report import _drift, _hardness, _lists, _sections
from duelrank.report._facts import Facts, gather
from duelrank.report._lists import Lists, gather_lists, lists_of
from duelrank.report._markup import Section
from duelrank.report._points import bytes_per_point, encode, small_integers
from duelrank.report._rules import RANKED_BY, TIES_BY
from duelrank.report._text import LONGEST, as_json, count, escaped, foreign, plain
from duelrank.report._words import MarkedText, marked_texts
from duelrank.shortlists import Shortlister

MOST_BYTES = 1_950_000
NOTES_BYTES = 10_000  # for sentences that are written when it is known which rows fit


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    names: Any = None,
    row_numbers: Any = None,
    groups: Any = None,
    check: Check | None = None,
    random_state: Any = 0,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Path:
    """Write a report about a fitted ranker as one self-contained HTML file.

    The file is written completely or not at all: an old file stays until the new one is complete.

    Parameters
    ----------
    model : DuelRanker, or pipeline, search or Shortlister around one
        Fitted. The page of a `duelrank.shortlists.Shortlister` has a section about its lists.
    X : array-like, dataframe or sparse matrix with n rows
        The points, as `model` takes them. Held-out points tell more than training points.
    y : array-like of shape (n,) or None
        Their labels. Without them the page has no accuracies and no diagnosis of the duels.
    path : str or path-like
        Where to write.
    title : str, default=None
        Heading of the page; "Label rankings" by default.
    names : array-like of shape (n,), default=None
        Names of the rows, for the browser of points. By default rows have their number only.
    row_numbers : array-like of int, of shape (n,), default=None
        Numbers of the rows, increasing, where X holds some rows of a larger table. By default
        rows are numbered from 0.
    groups : array-like of shape (n,), default=None
        The group of every row, for a `Shortlister` that is made by group.
    check : duelrank.drift.Check, default=None
        How these rows differ from those that the model was fitted on, as by
        `duelrank.drift.compare`; then the page has a section about it.
    random_state : int, RandomState instance or None, default=0
        Draws the rows that can be browsed if not all of them fit into two megabytes.
    on_rows : callable
        Is called with the number of rows of every batch that is ranked.

    Returns
    -------
    path : Path
        Where it was written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> from duelrank.report import write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> with TemporaryDirectory() as folder:
    ...     path = write_report(DuelRanker(random_state=0).fit(X, y), X, y, Path(folder, "r.html"))
    ...     print(path.read_text(encoding="utf-8")[:15])
    <!DOCTYPE html>
    """
    page = render_report(
        model,
        X,
        y,
        title=title,
        names=names,
        row_numbers=row_numbers,
        groups=groups,
        check=check,
        random_state=random_state,
        on_rows=on_rows,
    )
    path = Path(path)
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8", newline="\n")
    return path


def render_report(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    title: str | None = None,
    names: Any = None,
    row_numbers: Any = None,
    groups: Any = None,
    check: Check | None = None,
    random_state: Any = 0,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> str:
    """Return the page that `write_report` writes.

    Parameters
    ----------
    model, X, y, title, names, row_numbers, groups, check, random_state, on_rows
        As in `write_report`.

    Returns
    -------
    page : str
        HTML, to be encoded as UTF-8.
    """
    if not isinstance(check, Check | None):
        raise TypeError(
            "check must be a duelrank.drift.Check or None, got an instance of "
            f"{type(check).__name__}."
        )
    job = _check(model, X, y, names, row_numbers)
    rng = check_random_state(random_state)
    drawn = _draw(rng, job)
    browsed = np.sort(drawn)
    facts = gather(job.ranker, job.X, job.codes, browsed, on_rows)
    lists = None
    if job.shortlister is not None:
        order = facts.points.order
        lists = gather_lists(*job.shortlister, groups, job.codes, browsed, order)
    title = "Label rankings" if title is None else title
    sections = _all_sections(facts, job, lists, check)
    bare = _page(title, facts, job, sections, lists, browsed[:0])
    room = MOST_BYTES - NOTES_BYTES - len(bare.encode())
    rows, texts = _that_fit(drawn, job, marked_texts(job.model, job.table, drawn), room)
    packed = np.searchsorted(browsed, rows)
    return _page(title, facts, job, sections, lists, rows, packed, texts)


@dataclass(frozen=True)
class _Job:
    """The arguments of a report, checked."""

    model: Any
    ranker: DuelRanker
    table: Any  # the points as the model takes them; X is what the ranker sees
    X: Any
    shortlister: tuple[Shortlister, Any] | None  # with the points as it sees them
    codes: NDArray[np.intp] | None
    y: Any
    labels: list[str]
    names: list[str] | None
    row_numbers: NDArray[np.int64] | None
    clipped: bool

    @property
    def has_posteriors(self) -> bool:
        return hasattr(self.ranker, "predict_proba")

    @property
    def bytes_per_point(self) -> int:
        has_lists = self.shortlister is not None
        return bytes_per_point(len(self.labels), self.has_posteriors, has_lists)

    @property
    def row_names(self) -> list[str]:
        """The names of the rows, or else their numbers."""
        if self.names is not None:
            return self.names
        numbers = range(self.X.shape[0]) if self.row_numbers is None else self.row_numbers.tolist()
        return [str(number) for number in numbers]


def _check(model: Any, X: Any, y: Any, names: Any, row_numbers: Any) -> _Job:
    if hasattr(model, "fit"):
        check_is_fitted(model)
    table = as_indexable(X)
    ranker, X = unwrap(model, table)
    if not isinstance(ranker, DuelRanker):
        raise TypeError(
            "model must be a fitted DuelRanker, or a pipeline, search or Shortlister around one; "
            f"got {type(ranker).__name__}."
        )
    check_is_fitted(ranker)
    X = as_indexable(X)
    if X.shape[0] == 0:
        raise ValueError("X must hold at least one row, got none.")
    codes = None
    if y is not None:
        y = column_or_1d(y)
        check_consistent_length(X, y)
        codes = codes_from_labels(y, ranker.classes_, "y")
    texts = [str(label) for label in ranker.classes_.tolist()]
    if names is not None:
        names = [str(name) for name in column_or_1d(names).tolist()]
        if len(names) != X.shape[0]:
            raise ValueError(
                f"names must name every row of X: {X.shape[0]} of them, got {len(names)}."
            )
    return _Job(
        model=model,
        ranker=ranker,
        table=table,
        X=X,
        shortlister=lists_of(model, table),
        codes=codes,
        y=y,
        labels=[plain(text) for text in texts],
        names=None if names is None else [plain(name) for name in names],
        row_numbers=None if row_numbers is None else _check_row_numbers(row_numbers, X.shape[0]),
        clipped=any(len(text) > LONGEST for text in [*texts, *(names or [])]),
    )


def _check_row_numbers(row_numbers: Any, n_rows: int) -> NDArray[np.int64]:
    numbers = np.asarray(row_numbers)
    if numbers.dtype.kind not in "iu" or numbers.shape != (n_rows,):
        raise ValueError(
            f"row_numbers must be {n_rows} integers, one for every row of X; got an array of "
            f"{numbers.dtype} with shape {numbers.shape}."
        )
    numbers = numbers.astype(np.int64)
    if numbers[0] < 0 or numbers[-1] >= 2**32 or (np.diff(numbers) <= 0).any():
        raise ValueError("row_numbers must increase, from 0 or more to less than 2**32.")
    return numbers


def _draw(rng: np.random.RandomState, job: _Job) -> NDArray[np.intp]:
    """Draw the rows that may fit; the first ones are taken first."""
    most = MOST_BYTES // job.bytes_per_point
    return rng.permutation(job.X.shape[0])[:most]


def _that_fit(
    drawn: NDArray[np.intp], job: _Job, texts: Iterator[list[MarkedText]] | None, room: int
) -> tuple[NDArray[np.intp], list[list[MarkedText]] | None]:
    """Return, in increasing order, the first rows drawn that there is room for, at least one.

    Their texts are returned as well; no more of them are asked for than it takes to fill the page.
    """
    costs = np.full(len(drawn), job.bytes_per_point)
    if job.names is not None:
        costs += np.array([len(as_json(job.names[row])) + 1 for row in drawn.tolist()])
    totals = np.cumsum(costs)
    if texts is None:
        n_fitting = max(int(np.searchsorted(totals, room, side="right")), 1)
        return np.sort(drawn[:n_fitting]), None
    shown: list[list[MarkedText]] = []
    for total, text in zip(totals.tolist(), texts, strict=True):
        room -= len(as_json(text)) + 1
        if shown and total > room:
            break
        shown.append(text)
    in_order = np.argsort(drawn[: len(shown)])
    return drawn[in_order], [shown[place] for place in in_order.tolist()]


def _all_sections(
    facts: Facts, job: _Job, lists: Lists | None, check: Check | None
) -> list[Section]:
    sections = [_sections.glance(facts, job.model, job.ranker)]
    if check is not None:
        sections.append(_drift.section(check))
    if facts.place is not None:
        sections.append(_sections.top_k(facts))
    if lists is not None:
        sections.append(_lists.section(lists, facts, job.labels, job.row_names))
    if facts.place is not None:
        diagnosis = diagnose(job.ranker, job.X, job.y)
        sections += [
            _sections.labels(facts, job.labels),
            _hardness.hardest_pairs(diagnosis, job.labels),
            _hardness.noise(diagnosis, job.labels),
        ]
    else:
        sections.append(_sections.labels(facts, job.labels))
    if facts.n_classes > 2:
        sections.append(_sections.cycles(facts, job.labels, job.ranker))
    return sections


def _page(
    title: str,
    facts: Facts,
    job: _Job,
    sections: Sequence[Section],
    lists: Lists | None,
    rows: NDArray[np.intp],
    packed: NDArray[np.intp] | None = None,
    texts: list[list[MarkedText]] | None = None,
) -> str:
    """Put the page together, with these rows to browse."""
    style, script = _part("page.css"), _part("page.js")
    notes = _sections.notes(facts, job.has_posteriors, len(rows), job.clipped)
    links = [*((s.anchor, s.heading) for s in sections), ("points", "Point by point")]
    links.append((notes.anchor, notes.heading))
    return _fill(
        _part("page.html"),
        title=escaped(title),
        heading=foreign(title),
        version=__version__,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        lead=_sections.lead(facts, None if lists is None else _lists.in_short(lists)),
        navigation="".join(f'<li><a href="#{anchor}">{words}</a></li>' for anchor, words in links),
        sections="".join(section.html() for section in sections),
        browsing=_browsing(facts, len(rows)),
        notes=notes.html(),
        data=as_json(_data(facts, job, lists, rows, rows[:0] if packed is None else packed, texts)),
    )


def _browsing(facts: Facts, n_browsed: int) -> str:
    if n_browsed == facts.n_rows:
        return ""
    return (
        f"<p>{count(n_browsed)} of {count(facts.n_rows)} rows, drawn at random, can be looked at "
        "one by one; all summaries above are over all rows.</p>"
    )


def _data(
    facts: Facts,
    job: _Job,
    lists: Lists | None,
    rows: NDArray[np.intp],
    packed: NDArray[np.intp],
    texts: list[list[MarkedText]] | None,
) -> dict[str, Any]:
    """Return what the script reads."""
    numbers = facts.points[packed].encoded()
    small = small_integers(facts.n_classes)
    numbers["largest_cycle"] = encode(facts.largest_cycle[rows].astype(small))
    numbers["upsets"] = encode(facts.upsets[rows].astype(np.uint32))
    numbers["exact"] = encode(facts.exact[rows].astype(np.uint8))
    if facts.codes is not None and facts.place is not None:
        numbers["truth"] = encode(facts.codes[rows].astype(small))
        numbers["place"] = encode(facts.place[rows].astype(small))
    if lists is not None:
        numbers["length"] = encode(lists.lengths[0, rows].astype(small))
        numbers["listed"] = encode(lists.listed[packed])
    if job.row_numbers is not None or len(rows) < facts.n_rows:
        numbered = rows if job.row_numbers is None else job.row_numbers[rows]
        numbers["rows"] = encode(numbered.astype(np.uint32))
    return {
        "classes": job.labels,
        "names": None if job.names is None else [job.names[row] for row in rows.tolist()],
        "texts": texts,
        "hasProbabilities": job.has_posteriors,
        "resolution": f"{RANKED_BY[job.ranker.aggregation]} {TIES_BY[job.ranker.ties]}",
        "fields": numbers,
    }


def _fill(template: str, **contents: str) -> str:
    """Fill all gaps in one pass, so that contents are never searched for gaps."""
    return re.sub(r"\{\{(\w+)\}\}", lambda gap: contents[gap[1]], template)


def _part(name: str) -> str:
    return resources.files("duelrank.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
