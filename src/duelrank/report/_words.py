"""The texts of the rows that can be browsed, with the words marked that spoke.

A word speaks for the label in the first place, or for the one in the second. How strongly is a
*level*: 3 and −3 are about as strong as the strongest word of the text, 0 is not marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._sklearn import take_rows
from duelrank.explanations import DuelExplanation, can_explain, explain_points
from duelrank.preprocessing import Piece
from duelrank.report._text import clean

LEVELS = 3
LONGEST_TEXT = 1_000  # characters of a text that the page shows
BATCH = 100  # rows that are explained at once

# A column, and parts of its text with their levels.
MarkedText = tuple[str, list[tuple[str, int]]]


def marked_texts(model: Any, X: Any, rows: NDArray[np.intp]) -> Iterator[list[MarkedText]] | None:
    """Return the texts of some rows, cut into parts with levels.

    Parameters
    ----------
    model : fitted ranker, pipeline or search
        Any.
    X : dataframe or array with n rows
        As the model takes it.
    rows : ndarray of int
        The rows that are wanted, at least one, in any order.

    Returns
    -------
    texts : iterator of lists, or None
        The texts of every row, made when they are asked for; None if the model has no text, or
        duels that are not linear.
    """
    if not can_explain(model):
        return None
    explained = _explained(model, X, rows)
    first = next(explained)
    return map(_marked, chain([first], explained)) if first.texts else None


def _explained(model: Any, X: Any, rows: NDArray[np.intp]) -> Iterator[DuelExplanation]:
    """Explain rows batch by batch, because few of them may be asked for."""
    for start in range(0, len(rows), BATCH):
        yield from explain_points(model, take_rows(X, rows[start : start + BATCH]))


def _marked(explanation: DuelExplanation) -> list[MarkedText]:
    largest = max(
        (abs(piece.value) for pieces in explanation.texts.values() for piece in pieces),
        default=0.0,
    )
    return [(clean(name), _parts(pieces, largest)) for name, pieces in explanation.texts.items()]


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
