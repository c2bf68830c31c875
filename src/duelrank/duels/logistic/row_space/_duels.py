"""Duels in the space of their rows: which are solved together, and their problems.

Labels are cut into ranges. The duels between two ranges, or inside one, are a *tile*: it needs the
products between the rows of the two, which are as large as the working memory allows and are gone
before the next tile. The duels of a tile are solved in small batches that fit in a cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank._threads import Threads
from duelrank.duels._sides import count_sides
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._plan import tile_numbers
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import TrainingRows
from duelrank.duels.logistic._strength import mean_square
from duelrank.duels.logistic.row_space._appearances import Appearances
from duelrank.duels.logistic.row_space._newton import RowProblems, RowState
from duelrank.duels.logistic.row_space._products import RowProducts

BATCH_NUMBERS = 2**20  # of the Gram matrices of a batch: what a cache holds
TILE_SHARE = 0.5  # of the working memory, for the products of a tile
OWN_SHARE = 0.125  # of the working memory, for the products inside labels that are kept
# The Gram matrix of a duel in both precisions may take this share of the working memory.
DUEL_SHARE, GRAM_BYTES = 1 / 16, 12


class Batch(NamedTuple):
    """Some duels to be solved together.

    Attributes
    ----------
    duels : ndarray of int, of shape (Q,)
        Their numbers.
    members : list of pairs of arrays
        The appearances that take part in every duel, under its first and its second label.
    problems : RowProblems
        Their problems, with C = 1 and one model for every fold.
    """

    duels: NDArray[np.intp]
    members: list[tuple[NDArray[np.intp], NDArray[np.intp]]]
    problems: RowProblems

    def rows(self, appearances: Appearances) -> NDArray[np.intp]:
        """Return the number of every row, (Q, N), −1 where there is none."""
        numbers = np.full(self.problems.sides.shape, -1)
        for q, sides in enumerate(self.members):
            own = appearances.rows[np.concatenate(sides)]
            numbers[q, : len(own)] = own
        return numbers


class DuelsInRows:
    """Duels whose coefficients are those of their rows.

    Parameters
    ----------
    rows : TrainingRows
        Rows of positive weight.
    objective : Objective
        What is minimised.
    working_memory : float
        Mebibytes for products.
    threads : Threads
        The threads.

    Attributes
    ----------
    appearances : Appearances
        Which rows speak for which labels.
    scale : float
        What products are divided by.
    """

    def __init__(
        self,
        rows: TrainingRows,
        objective: Objective,
        working_memory: float,
        threads: Threads,
    ) -> None:
        X, scaling = rows.X, objective.scaling
        self.rows, self.objective, self.threads = rows, objective, threads
        self.appearances = Appearances.of(rows.feedback, rows.n_classes)
        self.most_bytes = working_memory * 2**20
        self.pairs = pairs(rows.n_classes)
        self.rows_of_duels = count_sides(rows.feedback, rows.n_classes).sum(axis=0).astype(np.intp)
        # With an intercept, dense rows may be centred: that changes nothing but the intercept.
        self.centre = scaling.mean if isinstance(X, np.ndarray) else None
        # Products are divided by their size and strengths multiplied, so that single precision can
        # handle them; coefficients are that much larger then.
        self.scale = mean_square(X, None, self.centre is not None and scaling.fit_intercept)
        self.products = RowProducts(X, self.centre, self.scale, threads)
        self.along_centre = None if self.centre is None else X @ self.centre
        self._own: dict[int, Floats] = {}
        self._latest: Tile | None = None

    def tiles(self, wanted: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """Cut the wanted duels into tiles, each within the memory."""
        counts = np.diff(self.appearances.ends)
        n_columns = self.products.frequent.shape[1]
        most = np.sqrt(n_columns**2 + TILE_SHARE * self.most_bytes / 8) - n_columns
        range_of = np.zeros(len(counts), dtype=np.intp)
        n_rows = 0
        for label in range(1, len(counts)):
            n_rows += counts[label - 1]
            full = n_rows + counts[label] > most
            range_of[label] = range_of[label - 1] + full
            n_rows = 0 if full else n_rows
        duels = np.flatnonzero(wanted)
        tile_of = tile_numbers(range_of)[duels]
        tiles = [duels[tile_of == tile] for tile in np.unique(tile_of)]
        # Tiles inside a range come first: they have products inside labels that others need, too.
        first, second = self.pairs
        return sorted(tiles, key=lambda tile: range_of[first[tile[0]]] != range_of[second[tile[0]]])

    def batches(self, duels: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Cut the duels of a tile into batches of similar size."""
        n_rows = self.rows_of_duels[duels]
        in_order = np.argsort(n_rows, kind="stable")
        cut: list[NDArray[np.intp]] = []
        stop = len(duels)
        while stop > 0:
            largest = int(n_rows[in_order[stop - 1]])
            start = max(0, stop - max(1, BATCH_NUMBERS // largest**2))
            cut.append(duels[in_order[start:stop]])
            stop = start
        return cut

    def tile(self, duels: NDArray[np.intp]) -> Tile:
        """Compute the products that the duels of a tile need; the latest ones are remembered."""
        if self._latest is None or not np.array_equal(self._latest.duels, duels):
            self._latest = None  # its products go before there are others
            self._latest = self._make_tile(duels)
        return self._latest

    def _make_tile(self, duels: NDArray[np.intp]) -> Tile:
        first, second = (np.unique(side[duels]) for side in self.pairs)
        labels = np.union1d(first, second)
        if len(labels) < len(first) + len(second):  # inside one range
            rows = _Rows.of(self.appearances, labels)
            cross = self.products.within(rows.numbers)
            places = {label: _as_slice(places) for label, places in rows.places.items()}
            own = {label: cross[place][:, place] for label, place in places.items()}
            for label, gram in own.items():
                self._remember(label, gram)
            return Tile(self, duels, rows, rows, cross, own)
        ahead, behind = _Rows.of(self.appearances, first), _Rows.of(self.appearances, second)
        cross = self.products.between(ahead.numbers, behind.numbers)
        own = {int(label): self._own_gram(int(label)) for label in labels}
        return Tile(self, duels, ahead, behind, cross, own)

    def _own_gram(self, label: int) -> Floats:
        """Return the products inside a label."""
        if label in self._own:
            return self._own[label]
        gram = self.products.within(self.appearances.rows[self.appearances.of_label(label)])
        self._remember(label, gram)
        return gram

    def _remember(self, label: int, gram: Floats) -> None:
        """Keep a copy of the products inside a label, if there is room for it."""
        kept = sum(own.nbytes for own in self._own.values())
        if kept + gram.nbytes <= OWN_SHARE * self.most_bytes:
            self._own[label] = gram.copy()

    def members(self, duel: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the appearances that take part in a duel, under its first and second label."""
        first, second = (int(side[duel]) for side in self.pairs)
        return self._ahead(first, second), self._ahead(second, first)

    def _ahead(self, label: int, other: int) -> NDArray[np.intp]:
        """Return the appearances under a label whose rows place it ahead of another one."""
        mine = self.appearances.of_label(label)
        numbers = np.arange(mine.start, mine.stop)
        feedback = self.rows.feedback
        if feedback.ndim == 1:
            return numbers
        rows = self.appearances.rows[mine]
        return numbers[feedback[rows, label] < feedback[rows, other]]

    def write(self, batch: Batch, state: RowState, fitted: FittedDuels) -> None:
        """Write down the solutions of a batch with one model of every duel."""
        row_coef = fitted.row_coef
        intercepts = state.intercept[:, 0].copy()
        first, second = (side[batch.duels] for side in self.pairs)
        fit_intercept = self.objective.scaling.fit_intercept
        for q, (ahead, behind) in enumerate(batch.members):
            n_first, n_rows = len(ahead), len(ahead) + len(behind)
            coef = state.coef[q, 0, :n_rows] / self.scale
            if self.along_centre is not None:
                # With an intercept they sum to zero, up to rounding; then centring is undone.
                coef -= coef.mean() if fit_intercept else 0
                rows = self.appearances.rows[np.concatenate([ahead, behind])]
                intercepts[q] -= coef @ self.along_centre[rows]
            row_coef[ahead, second[q]] = -coef[:n_first]
            row_coef[behind, first[q]] = coef[n_first:]
        fitted.intercept[batch.duels] = intercepts
        fitted.decrement[batch.duels] = state.decrement[:, 0]
        fitted.n_iter[batch.duels] = state.n_iter[:, 0]
        fitted.solved[batch.duels] = True


class Tile(NamedTuple):
    """The products of a tile.

    Attributes
    ----------
    duels_in_rows : DuelsInRows
        What the duels are made of.
    duels : ndarray of int
        The duels.
    ahead, behind : _Rows
        The rows of the first and of the second labels.
    cross : ndarray of shape (n_ahead, n_behind)
        Their products.
    own : dict of int to ndarray
        The products inside every label.
    """

    duels_in_rows: DuelsInRows
    duels: NDArray[np.intp]
    ahead: _Rows
    behind: _Rows
    cross: Floats
    own: dict[int, Floats]

    def batch(self, duels: NDArray[np.intp], takes_part: NDArray[np.bool_] | None = None) -> Batch:
        """Return some duels with their problems, C = 1.

        Parameters
        ----------
        duels : ndarray of int
            Numbers of duels of this tile.
        takes_part : ndarray of bool, of shape (n, F), or None
            Which rows take part in which models; by default all, in one model.
        """
        whole = self.duels_in_rows
        appearances, weights = whole.appearances, whole.rows.weights
        members = [whole.members(int(duel)) for duel in duels]
        most = max(len(a) + len(b) for a, b in members)
        gram = np.zeros((len(duels), most, most))
        sides = np.zeros((len(duels), most))
        n_models = 1 if takes_part is None else takes_part.shape[1]
        strengths = np.zeros((len(duels), n_models, most))
        of_sides = whole.scale * whole.objective.class_weights.of_sides(duels)
        first, second = (side[duels] for side in whole.pairs)
        for q, (ahead, behind) in enumerate(members):
            m, n = len(ahead), len(ahead) + len(behind)
            a, b = int(first[q]), int(second[q])
            inside_a = _as_slice(ahead - appearances.ends[a])
            inside_b = _as_slice(behind - appearances.ends[b])
            gram[q, :m, :m] = self.own[a][inside_a][:, inside_a]
            gram[q, m:n, m:n] = self.own[b][inside_b][:, inside_b]
            rows = _as_slice(self.ahead.places[a][inside_a])
            columns = _as_slice(self.behind.places[b][inside_b])
            gram[q, :m, m:n] = self.cross[rows][:, columns]
            gram[q, m:n, :m] = gram[q, :m, m:n].T
            sides[q, :m], sides[q, m:n] = -1, 1
            numbers = appearances.rows[np.concatenate([ahead, behind])]
            strength = np.repeat(of_sides[:, q], [m, n - m])
            if weights is not None:
                strength = strength * weights[numbers]
            part = 1.0 if takes_part is None else takes_part[numbers].T
            strengths[q, :, :n] = strength * part
        fit_intercept = whole.objective.scaling.fit_intercept
        return Batch(duels, members, RowProblems(gram, sides, strengths, fit_intercept))


class _Rows(NamedTuple):
    """The rows of some labels, each once, and the places of every label's appearances in them."""

    numbers: NDArray[np.intp]
    places: dict[int, NDArray[np.intp]]

    @classmethod
    def of(cls, appearances: Appearances, labels: NDArray[np.intp]) -> _Rows:
        rows_of = {int(label): appearances.rows[appearances.of_label(label)] for label in labels}
        together = np.concatenate(list(rows_of.values()))
        numbers, place = np.unique(together, return_inverse=True)
        if len(numbers) == len(together):  # rows of different labels: in the order of these
            numbers, place = together, np.arange(len(together))
        ends = np.cumsum([len(rows) for rows in rows_of.values()])
        return cls(numbers, dict(zip(rows_of, np.split(place, ends[:-1]), strict=True)))


def goes_by_rows(
    rows_of_duels: NDArray[np.intp], n_columns: int, working_memory: float
) -> NDArray[np.bool_]:
    """Tell which duels are solved in the space of their rows: those with fewer rows than columns.

    Their Gram matrices must fit in the working memory.
    """
    largest = np.sqrt(DUEL_SHARE * working_memory * 2**20 / GRAM_BYTES)
    return (rows_of_duels > 0) & (rows_of_duels < n_columns) & (rows_of_duels <= largest)


def _as_slice(places: NDArray[np.intp]) -> Any:
    """Return increasing places as a slice, which copies nothing, if they are consecutive."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(int(places[0]), int(places[-1]) + 1)
    return places
