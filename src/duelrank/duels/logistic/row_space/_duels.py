"""Duels in the space of their rows: which are solved together, and their problems.

Labels are cut into ranges. The duels between two ranges, or inside one, are a *tile*: it needs the
products between the rows of the two, which are as large as the working memory allows and are gone
before the next tile. The duels of a tile are solved in small batches that fit in a cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import batches
from duelrank._pairs import pairs
from duelrank._threads import Threads
from duelrank.duels._sides import count_sides
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._plan import tile_numbers
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import TrainingRows
from duelrank.duels.logistic._strength import mean_square
from duelrank.duels.logistic._table import Scaling
from duelrank.duels.logistic.row_space._appearances import Appearances
from duelrank.duels.logistic.row_space._gram import DuelGrams, Gram, GridGrams
from duelrank.duels.logistic.row_space._newton import RowProblems, RowState
from duelrank.duels.logistic.row_space._products import RowProducts

BATCH_NUMBERS = 2**20  # of the Gram matrices of a batch: what a cache holds
BATCH_ROWS = 2**15  # of all duels of a batch
TILE_SHARE = 0.5  # of the working memory, for the products of a tile
OWN_SHARE = 0.125  # of the working memory, for the products inside labels that are kept
# The Gram matrix of a duel in both precisions may take this share of the working memory.
DUEL_SHARE, GRAM_BYTES = 1 / 16, 12
# A number of a Gram matrix costs so much less than an entry of a row or of a vector of features;
# so many of these vectors take part in an iteration.
GRAM_PER_ENTRY, VECTORS = 8, 5
# Where the products of the wanted duels are a smaller share of all products, they are computed duel
# by duel, for so many duels at a time.
FEW_PRODUCTS, DUELS_AT_ONCE = 0.1, 512
MANY_DUELS = 8  # of a label among those, whose products with all rows of these are one product
LARGEST_RATIO = 1e3  # of the largest column and the median one

ALL = slice(None)


class Cut(NamedTuple):
    """Numbers of some duels that are solved together.

    Attributes
    ----------
    duels : ndarray of int, of shape (Q,)
        The duels.
    grid : pair of arrays of int, or None
        The labels on the left and on the right, if these are the duels of all left labels with all
        right ones, those of the first left label first.
    """

    duels: NDArray[np.intp]
    grid: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None


class Batch(NamedTuple):
    """Some duels with their problems.

    Attributes
    ----------
    duels : ndarray of int, of shape (Q,)
        Their numbers.
    appearances : ndarray of int, of shape (Q, N)
        The appearances that take part, −1 where there is none.
    others : ndarray of int, of shape (Q, N)
        The label that every appearance speaks against.
    problems : RowProblems
        Their problems, with C = 1 and one model for every fold.
    """

    duels: NDArray[np.intp]
    appearances: NDArray[np.intp]
    others: NDArray[np.intp]
    problems: RowProblems


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
        self.labels = self.appearances.labels
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
        self.one_by_one = False
        self._own: dict[int, Floats] = {}
        self._latest: Tile | None = None

    def tiles(self, wanted: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """Cut the wanted duels into tiles, each within the memory.

        If few duels are wanted, tiles are any of them, and products are computed duel by duel.
        """
        counts = np.diff(self.appearances.ends)
        few = np.flatnonzero(wanted)
        first, second = (side[few] for side in self.pairs)
        self.one_by_one = bool(
            float(counts[first] @ counts[second]) < FEW_PRODUCTS * float(counts.sum()) ** 2 / 2
        )
        if self.one_by_one:
            return [few[part] for part in batches(len(few), DUELS_AT_ONCE)]
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

    def cut(self, duels: NDArray[np.intp]) -> list[Cut]:
        """Cut the duels of a tile into batches that fit in a cache; with labels, into grids."""
        in_grids = self.rows.feedback.ndim == 1 and not self.one_by_one
        grids = self._grids(duels) if in_grids else []
        rest = np.setdiff1d(duels, np.concatenate([duels[:0], *(grid.duels for grid in grids)]))
        return grids + [Cut(part) for part in _cut(rest, self.rows_of_duels[rest], power=2)]

    def _grids(self, duels: NDArray[np.intp]) -> list[Cut]:
        """Return the grids among the duels of a tile."""
        first, second = (side[duels] for side in self.pairs)
        labels = np.union1d(first, second)
        number = np.full((len(labels), len(labels)), -1)
        places = np.searchsorted(labels, first), np.searchsorted(labels, second)
        number[places] = number[places[::-1]] = duels
        between = self._is_between_ranges(duels)
        left = self._of_similar_size(np.unique(first) if between else labels)
        right = self._of_similar_size(np.unique(second)) if between else left
        grids = []
        for i, some in enumerate(left):
            for others in right if between else right[i + 1 :]:
                places = np.searchsorted(labels, some), np.searchsorted(labels, others)
                block = number[np.ix_(*places)]
                if np.all(block >= 0):  # all of these duels are wanted
                    grids.append(Cut(block.ravel(), (some, others)))
        return grids

    def _is_between_ranges(self, duels: NDArray[np.intp]) -> bool:
        """Tell whether the duels of a tile are between two ranges of labels, not inside one."""
        first, second = (side[duels] for side in self.pairs)
        return bool(first.max() < second.min())

    def _of_similar_size(self, labels: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Cut labels for grids that fit in a cache."""
        return _cut(labels, np.diff(self.appearances.ends)[labels], power=1)

    def tile(self, duels: NDArray[np.intp]) -> Tile:
        """Compute the products that the duels of a tile need; the latest ones are remembered."""
        if self._latest is None or not np.array_equal(self._latest.duels, duels):
            self._latest = None  # its products go before there are others
            self._latest = self._make_tile(duels)
        return self._latest

    def _make_tile(self, duels: NDArray[np.intp]) -> Tile:
        first, second = (np.unique(side[duels]) for side in self.pairs)
        labels = np.union1d(first, second)
        if self.one_by_one:
            nothing = _Rows(duels[:0], {})
            own, hubs = self._own_grams(labels.tolist()), self._hubs(duels)
            return Tile(self, duels, nothing, nothing, None, own, hubs)
        if not self._is_between_ranges(duels):
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

    def _hubs(self, duels: NDArray[np.intp]) -> dict[int, _Hub]:
        """Return products of labels that have many of some duels with all rows of these."""
        first, second = (side[duels] for side in self.pairs)
        hubs: dict[int, _Hub] = {}
        waiting = np.ones(len(duels), dtype=bool)
        counts = np.bincount(np.concatenate([first, second]), minlength=self.rows.n_classes)
        for label in np.argsort(-counts, kind="stable").tolist():
            mine = waiting & ((first == label) | (second == label))
            if np.count_nonzero(mine) < MANY_DUELS:
                break
            others = np.where(first[mine] == label, second[mine], first[mine]).tolist()
            rows_of = [self.appearances.rows[self.appearances.of_label(other)] for other in others]
            own_rows = self.appearances.rows[self.appearances.of_label(label)]
            products = self.products.between(own_rows, np.concatenate(rows_of))
            ends = np.cumsum([0, *map(len, rows_of)]).tolist()
            slices = [slice(start, stop) for start, stop in itertools.pairwise(ends)]
            hubs[label] = _Hub(products, dict(zip(others, slices, strict=True)))
            waiting &= ~mine
        return hubs

    def _own_grams(self, labels: list[int]) -> dict[int, Floats]:
        """Return the products inside labels."""
        missing = [label for label in labels if label not in self._own]
        rows_of = [self.appearances.rows[self.appearances.of_label(label)] for label in missing]
        grams = dict(zip(missing, self.products.within_each(rows_of), strict=True))
        for label, gram in grams.items():
            self._remember(label, gram)
        return {label: self._own[label] if label in self._own else grams[label] for label in labels}

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

    def rows_of(self, batch: Batch) -> NDArray[np.intp]:
        """Return the row of every appearance, (Q, N), −1 where there is none."""
        return np.where(batch.appearances >= 0, self.appearances.rows[batch.appearances], -1)

    def batch(
        self,
        duels: NDArray[np.intp],
        appearances: NDArray[np.intp],
        gram: Gram,
        takes_part: NDArray[np.bool_] | None,
    ) -> Batch:
        """Return duels with the appearances that take part in them, (Q, N), as problems, C = 1."""
        first, second = (side[duels][:, np.newaxis] for side in self.pairs)
        known = appearances >= 0
        of_first = known & (self.labels[appearances] == first)
        sides = np.where(of_first, -1.0, 1.0) * known
        for_first, for_second = self.objective.class_weights.of_sides(duels)[..., np.newaxis]
        strength = self.scale * np.where(of_first, for_first, for_second) * known
        rows = self.appearances.rows[appearances]
        if self.rows.weights is not None:
            strength *= self.rows.weights[rows]
        strengths = strength[:, np.newaxis]
        if takes_part is not None:
            strengths = strengths * takes_part[rows].transpose(0, 2, 1)
        others = np.where(of_first, second, first)
        scaling, anchor = self.objective.scaling, self.objective.anchor
        problems = RowProblems(
            gram,
            sides,
            strengths,
            scaling.fit_intercept,
            None if anchor is None else anchor.margins(rows, duels),
            self.scale * scaling.intercept_penalty,
            anchor is not None and anchor.corrects_one_sided,
        )
        return Batch(duels, appearances, others, problems)

    def read(self, batch: Batch, fitted: FittedDuels) -> RowState:
        """Return how far the duels of a batch have come, one model each; undoes `write`."""
        known = batch.appearances >= 0
        of_winner = np.where(known, fitted.row_coef[batch.appearances, batch.others], 0)
        coef = (batch.problems.sides * of_winner).astype(np.float64)
        intercept = fitted.intercept[batch.duels].astype(np.float64)
        if self.along_centre is not None:
            along = self.along_centre[self.appearances.rows[batch.appearances]]
            intercept += np.einsum("qn,qn->q", coef, along)
        return RowState.at(self.scale * coef[:, np.newaxis], intercept[:, np.newaxis])

    def write(self, batch: Batch, state: RowState, fitted: FittedDuels) -> None:
        """Write down the solutions of a batch with one model of every duel.

        Coefficients and intercepts are those of the rows as they are, but those of corrections to
        an anchor are of centred rows.
        """
        known = batch.appearances >= 0
        coef = np.where(known, state.coef[:, 0] / self.scale, 0)
        intercept = state.intercept[:, 0].copy()
        along = self._along_centre(batch)
        if along is not None and self.objective.scaling.fit_intercept:
            # They sum to zero, up to rounding.
            excess = coef.sum(axis=1) / known.sum(axis=1)
            coef = np.where(known, coef - excess[:, np.newaxis], 0)
        kept = coef.astype(fitted.row_coef.dtype).astype(np.float64)
        if along is not None:  # centring is undone
            intercept -= np.einsum("qn,qn->q", kept, along)
        of_winner = batch.problems.sides * kept
        fitted.row_coef[batch.appearances[known], batch.others[known]] = of_winner[known]
        fitted.intercept[batch.duels] = intercept
        fitted.decrement[batch.duels] = state.decrement[:, 0]
        if fitted.row_coef.dtype == np.float32:
            rounding = fitted.intercept[batch.duels] - intercept
            fitted.decrement[batch.duels] += self._lost(batch, state, kept - coef, rounding)
        fitted.n_iter[batch.duels] += state.n_iter[:, 0]
        fitted.solved[batch.duels] = True

    def _along_centre(self, batch: Batch) -> Floats | None:
        """Return the products of rows with their centre, (Q, N); None where that stays at zero."""
        if self.along_centre is None or self.objective.anchor is not None:
            return None
        along: Floats = self.along_centre[self.appearances.rows[batch.appearances]]
        return along

    def _lost(self, batch: Batch, state: RowState, coef: Floats, intercept: Floats) -> Floats:
        """Return what rounded coefficients cost at most, relative to the objective, (Q,).

        Where rows of both labels all but cancel, the rounding of single ones is all that is left.

        Parameters
        ----------
        batch : Batch
            The duels.
        state : RowState
            Their solutions.
        coef, intercept : ndarrays of shapes (Q, N) and (Q,)
            By how much those that are kept differ from them.
        """
        problems, scale = batch.problems, self.scale
        products = scale * problems.gram.times(coef[:, np.newaxis])[:, 0]
        square = np.einsum("qn,qn->q", coef, products)
        change = products + intercept[:, np.newaxis]
        along = self._along_centre(batch)
        if along is not None:
            assert self.centre is not None
            total, length = coef.sum(axis=1), float(self.centre @ self.centre)
            change += total[:, np.newaxis] * (along - length)
            square += 2 * total * np.einsum("qn,qn->q", coef, along) - total**2 * length
        strength, margins = problems.strengths[:, 0], problems.margins(state)[:, 0]
        of_products = margins - problems.shift(state.intercept, np.float64)[:, 0]
        value = 0.5 * np.einsum("qn,qn->q", state.coef[:, 0], of_products)
        value += np.einsum("qn,qn->q", strength, np.logaddexp(0, -problems.sides * margins))
        # No row curves its loss by more than a quarter of its strength.
        cost = 0.5 * scale * square + np.einsum("qn,qn,qn->q", strength, change, change) / 8
        lost: Floats = cost / np.maximum(value, np.finfo(np.float64).tiny)
        return lost


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
    cross : ndarray of shape (n_ahead, n_behind), or None
        Their products; None to compute them duel by duel.
    own : dict of int to ndarray
        The products inside every label.
    hubs : dict of int to _Hub, default={}
        Products of labels that have many of the duels, if there are no others.
    """

    duels_in_rows: DuelsInRows
    duels: NDArray[np.intp]
    ahead: _Rows
    behind: _Rows
    cross: Floats | None
    own: dict[int, Floats]
    hubs: Mapping[int, _Hub] = MappingProxyType({})

    def batch(self, cut: Cut, takes_part: NDArray[np.bool_] | None = None) -> Batch:
        """Return some duels with their problems, C = 1.

        Parameters
        ----------
        cut : Cut
            The duels, of this tile.
        takes_part : ndarray of bool, of shape (n, F), or None
            Which rows take part in which models; by default all, in one model.
        """
        if cut.grid is None:
            return self.duels_in_rows.batch(cut.duels, *self._one_by_one(cut.duels), takes_part)
        return self.duels_in_rows.batch(cut.duels, *self._grid(*cut.grid), takes_part)

    def _one_by_one(self, duels: NDArray[np.intp]) -> tuple[NDArray[np.intp], DuelGrams]:
        """Return the appearances that take part in duels, (Q, N), and their Gram matrices."""
        whole = self.duels_in_rows
        ends = whole.appearances.ends
        members = [whole.members(int(duel)) for duel in duels]
        most = max(len(a) + len(b) for a, b in members)
        taking_part = np.full((len(duels), most), -1)
        gram = np.zeros((len(duels), most, most))
        first, second = (side[duels] for side in whole.pairs)
        for q, (ahead, behind) in enumerate(members):
            m, n = len(ahead), len(ahead) + len(behind)
            taking_part[q, :m], taking_part[q, m:n] = ahead, behind
            a, b = int(first[q]), int(second[q])
            inside_a, inside_b = _as_slice(ahead - ends[a]), _as_slice(behind - ends[b])
            gram[q, :m, :m] = self.own[a][inside_a][:, inside_a]
            gram[q, m:n, m:n] = self.own[b][inside_b][:, inside_b]
            gram[q, :m, m:n] = self._cross(a, b, inside_a, inside_b)
            gram[q, m:n, :m] = gram[q, :m, m:n].T
        return taking_part, DuelGrams(gram)

    def _grid(
        self, left: NDArray[np.intp], right: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], GridGrams]:
        """Return the same of the duels of all labels on the left with all on the right."""
        on_the_left, own_left = self._labels(left)
        on_the_right, own_right = self._labels(right)
        taking_part = np.hstack(
            [np.repeat(on_the_left, len(right), axis=0), np.tile(on_the_right, (len(left), 1))]
        )
        shape = len(left), len(right), on_the_left.shape[1], on_the_right.shape[1]
        cross = np.zeros(shape)
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                products = self._cross(int(a), int(b))
                cross[i, j, : products.shape[0], : products.shape[1]] = products
        return taking_part, GridGrams(own_left, own_right, cross)

    def _labels(self, labels: NDArray[np.intp]) -> tuple[NDArray[np.intp], Floats]:
        """Return the appearances under labels, (A, M), −1 for none, and products inside each."""
        ends = self.duels_in_rows.appearances.ends
        counts = ends[labels + 1] - ends[labels]
        number = np.arange(counts.max())
        under = np.where(number < counts[:, np.newaxis], ends[labels][:, np.newaxis] + number, -1)
        own = np.zeros((len(labels), len(number), len(number)))
        for place, (label, count) in enumerate(zip(labels, counts, strict=True)):
            own[place, :count, :count] = self.own[int(label)]
        return under, own

    def _cross(self, a: int, b: int, of_a: Any = ALL, of_b: Any = ALL) -> Floats:
        """Return the products between two labels, or between some of their appearances."""
        if self.cross is None:
            for label, other, turned in ((a, b, False), (b, a, True)):
                if label in self.hubs and other in self.hubs[label].places:
                    hub = self.hubs[label]
                    products = hub.products[:, hub.places[other]]
                    return (products.T if turned else products)[of_a][:, of_b]
            whole = self.duels_in_rows
            rows_of = whole.appearances.rows
            ahead = rows_of[whole.appearances.of_label(a)][of_a]
            behind = rows_of[whole.appearances.of_label(b)][of_b]
            return whole.products.between(ahead, behind, alone=True)
        rows = _as_slice(self.ahead.places[a][of_a])
        columns = _as_slice(self.behind.places[b][of_b])
        return self.cross[rows][:, columns]


class _Hub(NamedTuple):
    """The products of a label's rows with those of others, and the columns of these."""

    products: Floats
    places: dict[int, slice]


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
    rows_of_duels: NDArray[np.intp], X: Any, scaling: Scaling, working_memory: float
) -> NDArray[np.bool_]:
    """Tell which duels are solved in the space of their rows.

    These are duels with fewer rows than columns, whose Gram matrices fit in the working memory and
    are not much larger than what there is of their sparse rows. Columns must not differ by orders
    of magnitude: products between rows would then tell nothing of the small ones.
    """
    n_columns = X.shape[1]
    largest = np.sqrt(DUEL_SHARE * working_memory * 2**20 / GRAM_BYTES)
    fewer = (rows_of_duels > 0) & (rows_of_duels < n_columns) & (rows_of_duels <= largest)
    if not isinstance(X, np.ndarray):
        # A pass in the space of features goes through the entries, and through vectors of features.
        per_row = X.nnz / X.shape[0]
        of_features = per_row * rows_of_duels + VECTORS * n_columns
        fewer &= rows_of_duels.astype(np.float64) ** 2 <= GRAM_PER_ENTRY * of_features
    if fewer.any() and _orders_of_magnitude(X, scaling):
        fewer[:] = False
    return fewer


def _orders_of_magnitude(X: Any, scaling: Scaling) -> bool:
    """Tell whether the largest column is far larger than most columns."""
    if isinstance(X, np.ndarray):
        size = scaling.scale[np.isfinite(scaling.scale)]
    else:  # where they have entries: rare words are as large as frequent ones
        total = np.bincount(X.indices, np.abs(X.data), minlength=X.shape[1])
        size = total / np.maximum(np.bincount(X.indices, minlength=X.shape[1]), 1)
        size = size[size > 0]
    return bool(len(size) and np.max(size) > LARGEST_RATIO * np.median(size))


def _cut(numbers: NDArray[np.intp], sizes: NDArray[np.intp], power: int) -> list[NDArray[np.intp]]:
    """Cut duels of similar size into parts whose Gram matrices fit in a cache.

    With a power of 1, cut labels so that the duels between two parts fit in a cache.
    """
    in_order = np.argsort(sizes, kind="stable")
    parts: list[NDArray[np.intp]] = []
    stop = len(numbers)
    while stop > 0:
        largest = max(1, int(sizes[in_order[stop - 1]]))
        n_duels = min(BATCH_NUMBERS / largest**2, BATCH_ROWS / largest)
        start = max(0, stop - max(1, int(n_duels ** (power / 2))))
        parts.append(numbers[in_order[start:stop]])
        stop = start
    return parts


def _as_slice(places: NDArray[np.intp]) -> Any:
    """Return increasing places as a slice, which copies nothing, if they are consecutive."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(int(places[0]), int(places[-1]) + 1)
    return places
