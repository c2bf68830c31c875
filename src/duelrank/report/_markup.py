"""What sections are made of: a `Section` has an anchor, a heading and a body; tables have cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Section(NamedTuple):
    """A part of the page."""

    anchor: str
    heading: str
    body: str

    def html(self) -> str:
        """Return the whole section."""
        return (
            f'<section id="{self.anchor}" aria-labelledby="{self.anchor}-heading">\n'
            f'<h2 id="{self.anchor}-heading">{self.heading}</h2>\n{self.body}\n</section>\n'
        )


class Cell(NamedTuple):
    """A cell of a table: HTML, and the style-sheet class of its column."""

    html: str
    style: str = ""


def table_of(
    head: Sequence[Cell], rows: Iterable[Sequence[Cell]], caption: str, *, stack: bool = True
) -> str:
    """Return a table; with `stack`, its rows become small lists where the page is narrow."""
    top = "".join(_tagged("th", cell, ' scope="col"') for cell in head)
    body = []
    for row in rows:
        first, *others = row
        cells = _tagged("th", first, ' scope="row"')
        for name, cell in zip(head[1:], others, strict=True):
            cells += _tagged("td", cell, f' data-name="{name.html}"')
        body.append(f"<tr>{cells}</tr>")
    style = ' class="stack"' if stack else ""
    return (
        f"<table{style}><caption>{caption}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def folded(summary: str, body: str) -> str:
    """Return what is shown on demand."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def _tagged(tag: str, cell: Cell, attributes: str) -> str:
    style = f' class="{cell.style}"' if cell.style else ""
    return f"<{tag}{style}{attributes}>{cell.html}</{tag}>"
