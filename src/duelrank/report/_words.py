"""The texts of the rows that can be browsed, with the words marked that spoke.

A word speaks for the label in the first place, or for the one in the second. How strongly is a
*level*: 3 and −3 are about as strong as the strongest word of the text, 0 is not marked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._sklearn import take_rows
from duelrank.explanations import can_explain, explain_points
from duelrank.preprocessing import Piece
from duelrank.report._text import clean

LEVELS = 3
LONGEST_TEXT = 1_000  # characters of a text that the page shows

# A column, and parts of its text with their levels.
MarkedText = tuple[str, list[tuple[str, int]]]


def marked_texts(model: Any, X: Any, rows: NDArray[np.intp]) -> list[list[MarkedText]] | None:
    """Return the texts of some rows, cut into parts with levels.

    Parameters
    ----------
    model : fitted ranker, pipeline or search
        Any.
    X : dataframe or array with n rows
        As the model takes it.
    rows : ndarray of int
        The rows that are wanted.

    Returns
    -------
    texts : list of lists, or None
        The texts of every row; None if the model has no text, or duels that are not linear.
    """
    if not can_explain(model):
        return None
    found = []
    for explanation in explain_points(model, take_rows(X, rows)):
        if not explanation.texts:
            return None
        largest = max(
            (abs(piece.value) for pieces in explanation.texts.values() for piece in pieces),
            default=0.0,
        )
        found.append([(clean(name), _parts(p, largest)) for name, p in explanation.texts.items()])
    return found


def _parts(pieces: list[Piece], largest: float) -> list[tuple[str, int]]:
    """Give pieces their levels, and join neighbours that are not marked."""
    parts: list[tuple[str, int]] = []
    length = 0
    for piece in pieces:
        if length > LONGEST_TEXT:
            return [*parts, ("…", 0)]
        level = round(LEVELS * piece.value / largest) if largest > 0 else 0
        text, space = clean(piece.text)[: LONGEST_TEXT - length + 1], " " * piece.spaced
        length += len(text) + 1
        if level:
            parts += [(text, level), (space, 0)]
        else:
            parts.append((text + space, 0))
    joined: list[tuple[str, int]] = []
    for text, level in parts:
        if joined and level == 0 == joined[-1][1]:
            joined[-1] = joined[-1][0] + text, 0
        elif text:
            joined.append((text, level))
    return joined
