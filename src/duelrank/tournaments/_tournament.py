"""The tournaments of query points, for explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.rankings import order_from_scores, ranks_from_scores
from duelrank.tournaments._copeland import count_losses
from duelrank.tournaments._cycles import (
    components_from_losses,
    cyclic_from_components,
    transitive_from_losses,
)


@dataclass(frozen=True, repr=False, eq=False)
class Tournaments:
    """The duels of n query points and the rankings that came out of them.

    Indexing with an integer or a slice gives the tournaments of those points; the repr of a
    single point is a table that explains its ranking.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels; all axes of length K follow them.
    beats : ndarray of bool, of shape (n, K, K)
        ``beats[i, a, b]``: label a wins its duel with b.
    probabilities : ndarray of float, of shape (n, K, K)
        Probability that a beats b; one half on the diagonal. From engines without
        probabilities, 1/2 + m / (2 + 2|m|) with m the margin, which is no probability. Where
        a classifier's probabilities contradict its margins, the margins decide who wins.
    scores : ndarray of float, of shape (n, K)
        Higher is better; their descending order is the ranking.
    exact : ndarray of bool, of shape (n,)
        False where a feedback arc set was searched for and not proved to be minimal.
    losses, ranks, order, components, in_cycle : ndarrays of shape (n, K)
        Duels lost, places, labels best first, number of the component, part of a cycle or not.
    is_transitive : ndarray of bool, of shape (n,)
        Whether the point has no cycle.
    cycles : list of n lists of arrays
        The labels of every cycle.
    """

    classes: NDArray[Any]
    beats: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    scores: NDArray[np.float64]
    exact: NDArray[np.bool_]

    @property
    def losses(self) -> NDArray[np.int64]:
        """Number of duels that every label loses, (n, K)."""
        return count_losses(self.beats)

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Place of every label, 1 = best, (n, K)."""
        return ranks_from_scores(self.scores)

    @property
    def order(self) -> NDArray[Any]:
        """Labels from best to worst, (n, K)."""
        return self.classes[order_from_scores(self.scores)]

    @property
    def is_transitive(self) -> NDArray[np.bool_]:
        """Whether the duels of the point have no cycle, (n,)."""
        transitive: NDArray[np.bool_] = transitive_from_losses(self.losses)
        return transitive

    @property
    def components(self) -> NDArray[np.int64]:
        """Number of the component of every label, 0 on top, (n, K)."""
        return components_from_losses(self.losses)

    @property
    def in_cycle(self) -> NDArray[np.bool_]:
        """Whether the label is part of a cycle, (n, K)."""
        cyclic: NDArray[np.bool_] = cyclic_from_components(self.components)
        return cyclic

    @property
    def cycles(self) -> list[list[NDArray[Any]]]:
        """Labels of every cycle of every point, best component first.

        Labels of one cycle come in the order in which they are ranked.
        """
        return [
            [
                self.classes[members]
                for members in (codes[numbers[codes] == c] for c in np.unique(numbers))
                if len(members) > 1
            ]
            for numbers, codes in zip(self.components, order_from_scores(self.scores), strict=True)
        ]

    def __len__(self) -> int:
        return len(self.beats)

    def __iter__(self) -> Iterator[Tournaments]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, rows: Any) -> Tournaments:
        if isinstance(rows, (int, np.integer)):
            row = int(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} is out of range for {len(self)} points.")
            rows = slice(row, row + 1 or None)
        return Tournaments(
            self.classes,
            self.beats[rows],
            self.probabilities[rows],
            self.scores[rows],
            self.exact[rows],
        )

    def __repr__(self) -> str:
        if len(self) == 1:
            return self._table()
        cyclic = int((~self.is_transitive).sum())
        points = "no points" if len(self) == 0 else f"{len(self)} points"
        return (
            f"Tournaments of {points} between {len(self.classes)} labels, "
            f"{cyclic} with a cycle; index one to see it"
        )

    def _table(self) -> str:
        """Explain one point: its ranking, who lost to whom, and the cycles."""
        order = order_from_scores(self.scores)[0]
        names = [str(label) for label in self.classes.tolist()]
        rows = [("place", "label", "won", "lost to")]
        for place, code in enumerate(order, start=1):
            winners = [w for w in order if self.beats[0, w, code]]
            lost_to = ", ".join(
                f"{names[w]} ({self.probabilities[0, w, code]:.0%})" for w in winners[:5]
            )
            if len(winners) > 5:
                lost_to += f" and {len(winners) - 5} more"
            won = len(names) - 1 - len(winners)
            rows.append((str(place), names[code], str(won), lost_to or "nobody"))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"{place:>{widths[0]}}  {label:<{widths[1]}}  {won:>{widths[2]}}  {lost_to}"
            for place, label, won, lost_to in rows
        ]
        cycles = self.cycles[0]
        for members in cycles:
            named = ", ".join(map(str, members.tolist()[:12]))
            more = f" and {len(members) - 12} more" if len(members) > 12 else ""
            lines.append(f"a cycle runs through these {len(members)}: {named}{more}")
        if not cycles:
            ranks = self.ranks[0]
            contradicted = bool((self.beats[0] & (ranks[:, np.newaxis] > ranks)).any())
            lines.append(
                "no cycle, but the ranking contradicts a duel"
                if contradicted
                else "no cycle: the duels agree with the ranking"
            )
        if not self.exact[0]:
            lines.append("the feedback arc set is not proved to be minimal")
        return "\n".join(lines)
