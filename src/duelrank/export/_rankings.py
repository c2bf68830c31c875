"""From the duels of points to their rankings: wins, ties, places, labels.

It is what `duelrank.tournaments` does, step by step and in double precision. Labels are numbered by
the ranker's `label_order_`, and numbered back at the end. TopK prefers the lower number among equal
values, so that order decides what nothing else does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.export._duels import Squares
from duelrank.export._nodes import Nodes
from duelrank.export._probabilities import write_posteriors, write_projection
from duelrank.tournaments import EVIDENCE_DECIMALS, POSTERIOR_DECIMALS, needs_expected_wins

# Half the distance from 1 to the next number, u, as u (1 + 2u): x − |x| u (1 + 2u) is rounded to
# the number before x (Rump, Zimmermann, Boldo & Melquiond 2009).
STEP_DOWN = 2.0**-53 * (1 + 2.0**-52)
LEAST_STEP = 5e-324


class Rankings:
    """The nodes that rank. Every result is written when it is first asked for.

    Parameters
    ----------
    nodes : Nodes
        Where to write.
    ranker : fitted DuelRanker
        Says how duels become a ranking.
    duels : Squares
        The duels.
    n_places : int
        How many places are wanted, from the first one on.
    """

    def __init__(self, nodes: Nodes, ranker: Any, duels: Squares, n_places: int) -> None:
        self.nodes, self.duels, self.n_places = nodes, duels, n_places
        self.aggregation, self.ties = ranker.aggregation, ranker.ties
        self.label_order: NDArray[np.intp] = ranker.label_order_
        self.n_classes = len(self.label_order)

    def labels(self, labels: NDArray[Any], n_places: int, output: str) -> str:
        """Return the labels of the first places, (n, n_places)."""
        first = self.order
        if n_places < self.n_places:
            first = self.nodes.columns(first, 0, n_places)
        return self.nodes("Gather", self.nodes.constant(labels), first, output=output, axis=0)

    @cached_property
    def order(self) -> str:
        """The numbers of the labels, best first, (n, n_places)."""
        if self.aggregation == "copeland":
            return self._largest(self._copeland, self.n_places)
        by_wins = self._largest(self._copeland, self.n_classes)
        values = self._rounded_wins
        if self.aggregation == "coupling":
            values = self._rounded(self.posteriors, POSTERIOR_DECIMALS)
        places = self._largest(self._along(values, by_wins), self.n_places)
        return self._along(by_wins, places)

    @cached_property
    def places(self) -> str:
        """The place of every label, from 0, columns as in `classes_`, (n, K)."""
        label_order = self.nodes.constant(self.label_order, np.int64)
        codes = self.nodes("Gather", label_order, self.order, axis=0)
        return self._largest(codes, self.n_classes, largest=0)

    @cached_property
    def scores(self) -> str:
        """The scores of all labels, columns as in `classes_`, (n, K)."""
        of_labels = {
            "copeland": lambda: self._copeland,
            "expected_wins": lambda: self._rounded_wins,
            "coupling": lambda: self.posteriors,
        }[self.aggregation]()
        along = self.along(of_labels)
        if self.aggregation == "coupling":
            along = self.nodes.running("Min", along, axis=1)
        if self.aggregation != "copeland" or needs_expected_wins(self.ties, self.n_classes):
            along = self._lowered(along)
        return self._along(along, self.places)

    @cached_property
    def probabilities(self) -> str:
        """Posteriors that do not contradict the ranking, columns as in `classes_`, (n, K)."""
        return self._along(self.probabilities_along, self.places)

    @cached_property
    def probabilities_along(self) -> str:
        """The same along the ranking."""
        return write_projection(self.nodes, self.along(self.posteriors), self.n_classes)

    def along(self, values: str) -> str:
        """Return values of all labels along the ranking."""
        return self._along(values, self.order)

    @cached_property
    def posteriors(self) -> str:
        """Coupled posteriors, columns in the label order, (n, K)."""
        return write_posteriors(self.nodes, self.duels.evidence, self.n_classes)

    @cached_property
    def _copeland(self) -> str:
        """Wins, and a term between −1/2 and 1/2 that breaks ties."""
        nodes, n_classes = self.nodes, self.n_classes
        centre = nodes.constant((n_classes - 1) / 2, np.float64)
        if needs_expected_wins(self.ties, n_classes):
            decides = self._rounded_wins
        else:
            decides = nodes.constant(np.arange(n_classes)[::-1], np.float64)
        term = nodes("Sub", decides, centre)
        term = nodes("Div", term, nodes.constant(n_classes, np.float64))
        return nodes("Add", self._wins, term)

    @cached_property
    def _wins(self) -> str:
        """How many duels every label wins; an even duel goes to the lower number, (n, K)."""
        nodes, margins = self.nodes, self.duels.margins
        favoured = nodes.constant(np.triu(np.ones((self.n_classes,) * 2, dtype=bool), k=1))
        zero = nodes.constant(0, self.duels.dtype)
        even = nodes("And", nodes("Equal", margins, zero), favoured)
        beats = nodes("Or", nodes("Greater", margins, zero), even)
        return nodes.cast(nodes.total(nodes.cast(beats, np.float32), axis=2), np.float64)

    @cached_property
    def expected_wins(self) -> str:
        """How many duels every label can expect to win, columns in the label order, (n, K)."""
        surplus = self.nodes.total(self.duels.evidence, axis=2)
        half = self.nodes.constant((self.n_classes - 1) / 2, np.float64)
        return self.nodes("Add", surplus, half)

    @cached_property
    def _rounded_wins(self) -> str:
        return self._rounded(self.expected_wins, EVIDENCE_DECIMALS)

    def _rounded(self, values: str, decimals: int) -> str:
        unit = self.nodes.constant(10.0**decimals, np.float64)
        whole = self.nodes("Round", self.nodes("Mul", values, unit))
        return self.nodes("Div", whole, unit)

    def _along(self, values: str, places: str) -> str:
        return self.nodes("GatherElements", values, places, axis=1)

    def _largest(self, values: str, k: int, largest: int = 1) -> str:
        """Tell where the k largest values of every row are, or the smallest ones, in order."""
        k_of = self.nodes.constant([k], np.int64)
        return self.nodes.several("TopK", 2, values, k_of, axis=1, largest=largest)[1]

    def _lowered(self, values: str) -> str:
        """Lower equal values of a descending row by the smallest steps there are."""
        nodes, n_classes = self.nodes, self.n_classes
        is_equal = nodes("Equal", nodes.unsqueeze(values, 2), nodes.unsqueeze(values, 1))
        before = nodes.constant(np.tril(np.ones((n_classes, n_classes), dtype=bool), k=-1))
        equal = nodes("And", is_equal, before)
        n_steps = nodes.total(nodes.cast(equal, np.float32), axis=2)
        below = nodes("Mul", nodes("Abs", values), nodes.constant(STEP_DOWN, np.float64))
        step = nodes("Sub", values, nodes("Sub", values, below))
        step = nodes("Max", step, nodes.constant(LEAST_STEP, np.float64))
        return nodes("Sub", values, nodes("Mul", nodes.cast(n_steps, np.float64), step))
