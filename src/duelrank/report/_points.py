"""Points: the rows that can be browsed, in as few bytes as the page needs.

All arrays follow the ranking: column r belongs to the label in place r + 1.

- ``order``: codes of the labels in the first `LISTED` places;
- for the first `DUELLING` places: ``posteriors`` in tenths of a percent, ``won`` duels, and
  ``cycle``, the number of the label's component plus one, 0 for labels in no cycle;
- ``duels``: one byte for every two of these places, in the order of `duelrank.pairs`: the
  probability that the label placed ahead wins, in percent, plus 128 where it loses (an upset).

Numbers are rounded as the library prints them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import n_pairs, pairs
from duelrank.rankings import order_from_scores
from duelrank.tournaments import Tournaments

LISTED = 100
DUELLING = 12


@dataclass(frozen=True)
class Points:
    """Packed points; every array has one row per point and holds unsigned integers."""

    order: NDArray[np.unsignedinteger[Any]]
    posteriors: NDArray[np.unsignedinteger[Any]]
    won: NDArray[np.unsignedinteger[Any]]
    cycle: NDArray[np.unsignedinteger[Any]]
    duels: NDArray[np.unsignedinteger[Any]]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, rows: Any) -> Points:
        return Points(*(getattr(self, field.name)[rows] for field in fields(self)))

    @staticmethod
    def concatenate(parts: list[Points]) -> Points:
        """Put points one after the other."""
        return Points(
            *(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(Points))
        )

    def encoded(self) -> dict[str, dict[str, Any]]:
        """Return the arrays as JSON can hold them."""
        return {field.name: encode(getattr(self, field.name)) for field in fields(self)}


def pack(tournaments: Tournaments, posteriors: NDArray[np.float64] | None) -> Points:
    """Pack at least one tournament, and its posteriors if the engine knows them."""
    n_classes = len(tournaments.classes)
    small = small_integers(n_classes)
    order = order_from_scores(tournaments.scores)
    top = order[:, :DUELLING]
    numbers = np.where(tournaments.in_cycle, tournaments.components + 1, 0)
    along = np.zeros((len(order), 0)) if posteriors is None else _along(posteriors, top)
    return Points(
        order=order[:, :LISTED].astype(small),
        posteriors=_rounded(along, 1000).astype(np.uint16),
        won=_along(n_classes - 1 - tournaments.losses, top).astype(small),
        cycle=_along(numbers, top).astype(small),
        duels=_pack_duels(tournaments, top),
    )


def bytes_per_point(n_classes: int, has_posteriors: bool, has_lists: bool = False) -> int:
    """Return how many characters of base64 a point takes, rounded up.

    The page adds four bytes each for its row and its upsets, one byte that tells whether it is
    exact, and three small numbers: its largest cycle, its label and the place of its label. If it
    has a list, the page adds its length, and a bit for every place that is listed.
    """
    small = small_integers(n_classes)().itemsize
    top = min(n_classes, DUELLING)
    packed = small * (min(n_classes, LISTED) + 2 * top) + 2 * top * has_posteriors
    packed += n_pairs(top)
    packed += (small + -(-min(n_classes, LISTED) // 8)) * has_lists
    return -(-(packed + 9 + 3 * small) * 4 // 3)


def small_integers(n_classes: int) -> type[np.uint8] | type[np.uint16]:
    """Return the type that holds codes, places and counts of labels."""
    return np.uint8 if n_classes < 256 else np.uint16


def encode(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array of unsigned integers as base64 of its little-endian bytes."""
    little = array.astype(array.dtype.newbyteorder("<"))
    return {
        "bytes": array.dtype.itemsize,
        "columns": array.shape[1] if array.ndim == 2 else 1,
        "base64": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def _pack_duels(tournaments: Tournaments, top: NDArray[np.intp]) -> NDArray[np.uint8]:
    rows = np.arange(len(top))[:, np.newaxis]
    ahead, behind = pairs(top.shape[1])
    probabilities = tournaments.probabilities[rows, top[:, ahead], top[:, behind]]
    wins = tournaments.beats[rows, top[:, ahead], top[:, behind]]
    return _rounded(probabilities, 100).astype(np.uint8) | np.where(wins, 0, 128).astype(np.uint8)


def _along(values: NDArray[Any], order: NDArray[np.intp]) -> NDArray[Any]:
    return np.take_along_axis(values, order, axis=1)


def _rounded(values: NDArray[np.float64], scale: int) -> NDArray[np.float64]:
    """Round half to even, as Python's formats do."""
    return np.rint(values * scale)
