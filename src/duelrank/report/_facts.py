"""Facts: what the tournaments of all rows amount to, counted batch by batch.

All numbers come from `DuelRanker.tournament` and `DuelRanker.predict_proba`; nothing about a
ranking is decided here. A row's *cycles* are its components of three or more labels. Its *upsets*
are the duels that contradict its ranking: the label placed behind wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import margin_batches
from duelrank._pairs import n_pairs
from duelrank._sklearn import take_rows
from duelrank.rankers import DuelRanker
from duelrank.rankings import order_from_scores, ranks_from_scores
from duelrank.report._points import Points, pack
from duelrank.tournaments import Tournaments


@dataclass(frozen=True)
class Facts:
    """Facts about n rows and K labels.

    Attributes
    ----------
    n_rows, n_classes : int
        n and K.
    codes : ndarray of shape (n,) or None
        Observed labels, if there are any.
    first : ndarray of shape (n,)
        Code of the label in the first place.
    place : ndarray of shape (n,) or None
        Place of the observed label.
    largest_cycle : ndarray of shape (n,)
        Labels in the row's largest cycle, 0 without one.
    first_in_cycle : ndarray of bool, of shape (n,)
        Whether the first label is part of a cycle.
    upsets : ndarray of shape (n,)
        Duels that contradict the ranking.
    exact : ndarray of bool, of shape (n,)
        As in `Tournaments`.
    cycling : ndarray of shape (K,)
        Rows in which the label is part of a cycle.
    cycles : Counter
        How often each set of labels, a tuple of codes, forms a cycle.
    points : Points
        The rows that can be browsed, packed.
    """

    n_rows: int
    n_classes: int
    codes: NDArray[np.intp] | None
    first: NDArray[np.intp]
    place: NDArray[np.int64] | None
    largest_cycle: NDArray[np.int64]
    first_in_cycle: NDArray[np.bool_]
    upsets: NDArray[np.int64]
    exact: NDArray[np.bool_]
    cycling: NDArray[np.int64]
    cycles: Counter[tuple[int, ...]]
    points: Points

    @property
    def n_duels(self) -> int:
        """P, the number of duels."""
        return n_pairs(self.n_classes)

    @property
    def cyclic(self) -> NDArray[np.bool_]:
        """Whether the row has a cycle, (n,)."""
        return self.largest_cycle > 0

    def accuracy(self, k: int) -> float:
        """Return the share of rows whose observed label is among the first k."""
        assert self.place is not None
        return float((self.place <= k).mean())

    def accuracy_by_frequency(self, k: int) -> float:
        """Return the same if all rows had one ranking: the labels by their frequency."""
        assert self.codes is not None
        return float(np.sort(np.bincount(self.codes))[::-1][:k].sum() / self.n_rows)


def gather(
    ranker: DuelRanker,
    X: Any,
    codes: NDArray[np.intp] | None,
    browsed: NDArray[np.intp],
    on_rows: Callable[[int], None],
) -> Facts:
    """Count the facts in one walk through the rows of X.

    Parameters
    ----------
    ranker : DuelRanker
        Fitted.
    X : array, dataframe or sparse matrix with n rows
        As the ranker sees it.
    codes : ndarray of shape (n,) or None
        Observed labels.
    browsed : ndarray of int
        Increasing numbers of the rows to pack.
    on_rows : callable
        Is called with the number of rows of every batch that is done.
    """
    n_rows, n_classes = X.shape[0], len(ranker.classes_)
    has_probabilities = hasattr(ranker, "predict_proba")
    columns: dict[str, list[NDArray[Any]]] = {}
    packed: list[Points] = []
    cycling = np.zeros(n_classes, dtype=np.int64)
    cycles: Counter[tuple[int, ...]] = Counter()
    # The ranker cuts rows into the same batches, so both ask the engine for the same rows.
    for rows in margin_batches(n_rows, n_classes):
        points = X if rows == slice(0, n_rows) else take_rows(X, rows)
        tournaments = ranker.tournament(points)
        for name, values in _columns(tournaments, None if codes is None else codes[rows]).items():
            columns.setdefault(name, []).append(values)
        cycling += tournaments.in_cycle.sum(axis=0)
        _count_cycles(tournaments.components, cycles)
        here = browsed[(browsed >= rows.start) & (browsed < rows.stop)] - rows.start
        if len(here) < len(tournaments):
            points, tournaments = take_rows(points, here), tournaments[here]
        if len(here) > 0:
            posteriors = ranker.predict_proba(points) if has_probabilities else None
            packed.append(pack(tournaments, posteriors))
        on_rows(rows.stop - rows.start)
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Facts(
        n_rows=n_rows,
        n_classes=n_classes,
        codes=codes,
        first=whole["first"],
        place=whole.get("place"),
        largest_cycle=whole["largest_cycle"],
        first_in_cycle=whole["first_in_cycle"],
        upsets=whole["upsets"],
        exact=whole["exact"],
        cycling=cycling,
        cycles=cycles,
        points=Points.concatenate(packed),
    )


def _columns(tournaments: Tournaments, codes: NDArray[np.intp] | None) -> dict[str, NDArray[Any]]:
    """Return the facts about every row, by name."""
    ranks = ranks_from_scores(tournaments.scores)
    first = order_from_scores(tournaments.scores)[:, 0]
    components = tournaments.components
    sizes = (components[:, :, np.newaxis] == components[:, np.newaxis, :]).sum(axis=2)
    largest = sizes.max(axis=1)
    behind = ranks[:, :, np.newaxis] > ranks[:, np.newaxis, :]
    place = {} if codes is None else {"place": ranks[np.arange(len(ranks)), codes]}
    return place | {
        "first": first,
        "largest_cycle": np.where(largest > 1, largest, 0),
        "first_in_cycle": np.take_along_axis(tournaments.in_cycle, first[:, np.newaxis], 1)[:, 0],
        "upsets": (tournaments.beats & behind).sum(axis=(1, 2)),
        "exact": tournaments.exact,
    }


def _count_cycles(components: NDArray[np.int64], cycles: Counter[tuple[int, ...]]) -> None:
    """Count the label sets of all cycles."""
    for number in range(int(components.max(initial=-1)) + 1):
        members = components == number
        members = members[members.sum(axis=1) > 1]
        sets, counts = np.unique(members, axis=0, return_counts=True)
        for members_of_one, times in zip(sets, counts, strict=True):
            cycles[tuple(np.flatnonzero(members_of_one).tolist())] += int(times)
