"""Models on folds in the space of the rows, for the choice of C.

The models of a duel on all folds share its Gram matrix, for all C's: a row that a fold holds out
has no strength there, and its margin comes with those of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._folds import (
    Folds,
    FoldScores,
    ahead,
    point_scores,
    scores_from_sides,
)
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings
from duelrank.duels.logistic.row_space._duels import Batch, Cut, DuelsInRows, Tile
from duelrank.duels.logistic.row_space._newton import RowState, solve


class RowFoldSearch:
    """Fits models of duels on folds, from one C to the next, scores them, and fits the duels.

    Parameters
    ----------
    duels : DuelsInRows
        What the duels are made of.
    folds : Folds
        The folds.
    found : FoldScores
        Takes down scores and certificates, and says which C's were chosen.
    fitted : FittedDuels
        Takes down the solutions.
    settings : Settings
        The parameters.
    """

    def __init__(
        self,
        duels: DuelsInRows,
        folds: Folds,
        found: FoldScores,
        fitted: FittedDuels,
        settings: Settings,
    ) -> None:
        self.duels = duels
        self.found = found
        self.fitted = fitted
        self.settings = settings
        self.train, self.test = folds.train[folds.pattern], folds.test[folds.pattern]
        self.tiles = [(tile, duels.cut(tile)) for tile in duels.tiles(self._wanted())]
        self.searched = False

    @property
    def n_solves(self) -> int:
        """How many steps there will be."""
        return sum(len(parts) for _, parts in self.tiles) * (len(self.found.Cs) + 1)

    def search(self, step: Callable[[], None]) -> None:
        """Score all C's on all duels, and leave the choice to somebody else.

        Parameters
        ----------
        step : callable
            Called once for every C of a batch of duels.
        """
        self._map(self._search, step, len(self.found.Cs))
        self.searched = True

    def fit(self, step: Callable[[], None]) -> None:
        """Fit all duels with their C's; without a search before, every duel chooses its own.

        Parameters
        ----------
        step : callable
            Called once for every C of a batch of duels, and once for its fit.
        """
        n_steps = 1 if self.searched else len(self.found.Cs) + 1
        self._map(self._fit, step, n_steps)

    def _wanted(self) -> NDArray[np.bool_]:
        return self.fitted.by_rows & ~self.fitted.solved

    def _map(
        self,
        handle: Callable[[Tile, Cut], object],
        step: Callable[[], None],
        n_steps: int,
    ) -> None:
        """Call a function for every batch of every tile."""
        threads = self.duels.threads
        for tile_duels, parts in self.tiles:
            tile = self.duels.tile(tile_duels)
            for start in range(0, len(parts), threads.n_threads):
                some = parts[start : start + threads.n_threads]
                threads.map(partial(handle, tile), some)
                for _ in range(n_steps * len(some)):
                    step()

    def _fit(self, tile: Tile, part: Cut) -> None:
        batch, duels = tile.batch(part), part.duels
        start = RowState.zeros(batch.problems.strengths.shape)
        if not self.searched:
            coef, intercept = self._search(tile, part)
            self.found.choose_for_each(duels)
            chosen = np.arange(len(duels)), self.found.chosen[duels]
            start = RowState.at(coef[chosen][:, np.newaxis], intercept[chosen][:, np.newaxis])
        C = self.found.Cs[self.found.chosen[duels]][:, np.newaxis, np.newaxis]
        problems = batch.problems._replace(strengths=C * batch.problems.strengths)
        solve(problems, start, self.settings.tol, self.settings.max_iter)
        self.duels.write(batch, start, self.fitted)

    def _search(self, tile: Tile, part: Cut) -> tuple[Floats, Floats]:
        """Fit some duels on every fold, C by C from the smallest to the largest, and score them.

        Returns
        -------
        coef, intercept : ndarrays of shape (Q, n_Cs, N) and (Q, n_Cs)
            Averages over the folds.
        """
        found = self.found
        batch = tile.batch(part, self.train)
        problems = batch.problems
        both = problems.are_solvable()
        n_models = np.maximum(both.sum(axis=1), 1)[:, np.newaxis]
        held_out = self._held_out(batch)
        latest = RowState.zeros(problems.strengths.shape)
        before = latest
        coefs, intercepts = [], []
        for c, C in enumerate(found.Cs):
            state = RowState.at(
                ahead(found.Cs[: c + 1], latest.coef, before.coef).copy(),
                ahead(found.Cs[: c + 1], latest.intercept, before.intercept).copy(),
            )
            at_C = problems._replace(strengths=C * problems.strengths)
            solve(at_C, state, found.tol, self.settings.max_iter)
            latest, before = state, latest
            found.decrement[part.duels, :, c] = state.decrement
            scores = self._scores(at_C.sides, at_C.margins(state), held_out)
            found.scores[part.duels, :, c] = np.where(both, scores, np.nan)
            coefs.append(state.coef.sum(axis=1) / n_models)
            intercepts.append(state.intercept.sum(axis=1) / n_models[:, 0])
        return np.stack(coefs, axis=1), np.stack(intercepts, axis=1)

    def _held_out(self, batch: Batch) -> Floats:
        """Return the weights of the rows that are held out of every model, (Q, F, N)."""
        numbers = self.duels.rows_of(batch)
        weights = self.duels.rows.weights
        by_row = self.test.astype(np.float64)
        by_row = by_row if weights is None else by_row * weights[:, np.newaxis]
        by_row = np.vstack([by_row, np.zeros(by_row.shape[1])])  # for no row, −1
        return np.ascontiguousarray(by_row[numbers].transpose(0, 2, 1))

    def _scores(self, sides: Floats, margins: Floats, held_out: Floats) -> Floats:
        """Return the scores of all models, (Q, F)."""
        sides = sides[:, np.newaxis]
        sums, totals = [], []
        for side in (-1, 1):
            weights = np.where(sides == side, held_out, 0)
            values = point_scores(side * margins, side > 0, self.found.scoring)
            sums.append((values * weights).sum(axis=2))
            totals.append(weights.sum(axis=2))
        return scores_from_sides(np.stack(sums), np.stack(totals), self.found.scoring)
