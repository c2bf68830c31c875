"""Text for the page: labels and names are shown as they are, and never read as markup.

Labels, names and titles are *foreign*: they go through `foreign` into HTML and SVG, and through
`as_json` into the data of the script. Control characters, which HTML forbids even escaped, and
halves of surrogate pairs, which UTF-8 cannot hold, become U+FFFD.

A label such as ``card_not_working`` is one word to a browser. In HTML it may break behind its
underscores, so that lines do not end inside its words.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

LONGEST = 120  # characters of a label or name that the page shows

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_BREAKS = re.compile("(?<=[^_])_+(?=[^_])")
_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def plain(value: Any) -> str:
    """Return a label, name or title as the page shows it: one line, shortened if it is long."""
    text = clean(value).strip()
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return text or "(empty)"


def clean(value: Any) -> str:
    """Return text on one line, without characters that HTML forbids."""
    return _FORBIDDEN.sub("�", re.sub(r"\s+", " ", str(value)))


def foreign(value: Any) -> str:
    """Return a label, name or title as HTML that does not change the writing direction around."""
    # No character reference has an underscore, so that escaped text can be searched for them.
    breaking = _BREAKS.sub(r"\g<0><wbr>", escaped(value))
    return f"<bdi>{breaking}</bdi>"


def escaped(value: Any) -> str:
    """Return a label, name or title for attributes and for elements that hold text only."""
    return html.escape(plain(value))


def preformatted(value: Any) -> str:
    """Return text of several lines as HTML."""
    lines = (_FORBIDDEN.sub("�", line) for line in str(value).splitlines())
    return html.escape("\n".join(lines))


def as_json(value: Any) -> str:
    """Return JSON that can stand inside a script element: ASCII without ``<``, ``>`` and ``&``."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_MARKUP)


def percent(share: float, decimals: int = 1) -> str:
    """Return a share as the library prints it."""
    return f"{share:.{decimals}%}"


def count(number: int) -> str:
    """Return a whole number with commas between thousands."""
    return f"{number:,}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and its noun, singular or plural."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
