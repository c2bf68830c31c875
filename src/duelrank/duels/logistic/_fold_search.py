"""Models of duels on folds: fitted from the smallest C to the largest, and scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from duelrank._threads import Threads
from duelrank.duels.logistic._assembly import Assembly
from duelrank.duels.logistic._batch import Floats, GroupBatch, join_small
from duelrank.duels.logistic._checkpoint import Checkpoint
from duelrank.duels.logistic._fit import Steps, solve_tiles
from duelrank.duels.logistic._folds import (
    Folds,
    FoldScores,
    ahead,
    point_scores,
    scores_from_sides,
)
from duelrank.duels.logistic._loss import folded_margins
from duelrank.duels.logistic._newton import State
from duelrank.duels.logistic._problems import Problems, ProblemsInMemory


class FoldSearch:
    """Fits models of sets of duels on folds, from one C to the next, and scores them.

    Parameters
    ----------
    assembly : Assembly
        What the problems are made of, with C = 1.
    folds : Folds
        The folds.
    found : FoldScores
        Takes down scores and certificates, and says which C's were chosen.
    checkpoint : Checkpoint
        Holds the duels, without a file.
    """

    def __init__(
        self, assembly: Assembly, folds: Folds, found: FoldScores, checkpoint: Checkpoint
    ) -> None:
        self.assembly = assembly
        self.folds = folds
        self.found = found
        self.checkpoint = checkpoint
        self.starts: dict[int, Floats] = {}  # by the first duel of a tile that was searched

    @property
    def n_solves(self) -> int:
        """How many steps there will be."""
        return len(self.assembly.plan.tiles) * (len(self.found.Cs) + 1)

    def search(self, step: Callable[[], None]) -> None:
        """Score all C's on all duels, and leave the choice to somebody else.

        Parameters
        ----------
        step : callable
            Called after every C of a tile.
        """
        for duels in self.assembly.plan.tiles:
            self.starts[int(duels[0])] = self.search_tile(duels, step)

    def fit(self, step: Callable[[], None]) -> None:
        """Fit all duels with their C's; a tile that was not searched yet chooses its own.

        Parameters
        ----------
        step : callable
            Called after every C of a tile, and after a tile is fitted.
        """
        assembly, found, starts = self.assembly, self.found, self.starts

        def start_of(duels: NDArray[np.intp]) -> Floats:
            if int(duels[0]) not in starts:
                starts[int(duels[0])] = self.search_tile(duels, step)
                found.choose_for_each(duels)
            return starts.pop(int(duels[0]))[np.arange(len(duels)), found.chosen[duels]]

        def problems_of(duels: NDArray[np.intp]) -> Problems:
            objective = assembly.objective._replace(C=found.Cs[found.chosen])
            everyone = np.ones((self.folds.n_patterns, 1), dtype=bool)
            return assembly._replace(objective=objective).problems(duels, everyone)

        steps = Steps(iteration=lambda: None, tile=step)
        solve_tiles(assembly, self.checkpoint, steps, start_of, problems_of)

    def search_tile(self, duels: NDArray[np.intp], step: Callable[[], None]) -> Floats:
        """Fit some duels on every fold, C by C from the smallest to the largest, and score them.

        A model starts where its own last two solutions lead, never from a model that has seen the
        rows it is scored on.

        Returns
        -------
        averages : ndarray of shape (n_duels, n_Cs, d)
            Coefficients, averaged over the folds.
        """
        assembly, folds, found = self.assembly, self.folds, self.found
        Cs = found.Cs
        n_duels, n_coefficients = len(duels), len(assembly.table.penalty)
        averages = np.zeros((n_duels, len(Cs), n_coefficients), dtype=np.float32)
        training = assembly.batches(duels, folds.train)
        both = _has_both_sides(training, n_duels * folds.n_folds)
        if not both.any():
            return averages
        complete = both.reshape(n_duels, folds.n_folds)
        models_of_duel = np.maximum(complete.sum(axis=1), 1)[:, np.newaxis]
        training = join_small([part for batch in training for part in batch.of_problems(both)])
        testing = assembly.batches(duels, folds.test)
        testing = [part for batch in testing for part in batch.of_problems(both)]
        where = duels[np.nonzero(complete)[0]], np.nonzero(complete)[1]
        duel_of = np.unique(where[0], return_inverse=True)[1]
        anchor = assembly.anchor(duels)
        anchor = None if anchor is None else anchor[both]
        latest: Floats = np.zeros((np.count_nonzero(complete), n_coefficients))
        latest = latest if anchor is None else anchor
        before = latest
        for c, C in enumerate(Cs):
            batches = [replace(batch, strength=C * batch.strength) for batch in training]
            problems = ProblemsInMemory(batches, len(latest), assembly.threads)
            start = State.at(ahead(Cs[: c + 1], latest, before))
            solution = assembly.solve(problems, start, found.tol, anchor=anchor, duel_of=duel_of)
            latest, before = solution.coef, latest
            found.decrement[*where, c] = solution.decrement
            found.scores[*where, c] = _held_out_scores(
                testing, latest, found.scoring, assembly.threads
            )
            by_fold = np.zeros((n_duels, folds.n_folds, n_coefficients))
            by_fold[complete] = latest
            averages[:, c] = by_fold.sum(axis=1) / models_of_duel
            step()
        return averages


def _has_both_sides(batches: list[GroupBatch], n_problems: int) -> NDArray[np.bool_]:
    """Tell which problems have rows on both sides, (n_problems,)."""
    sides = np.zeros((2, n_problems), dtype=bool)
    for batch in batches:
        for side, has_rows in enumerate(_rows_on_sides(batch)):
            sides[side, batch.problems[0]] |= has_rows.any(axis=1)
    return sides[0] & sides[1]


def _rows_on_sides(batch: GroupBatch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which rows of a group are on the first and the second sides of its problems, (q, m)."""
    if batch.row_sides is not None:
        return batch.row_sides[0] < 0, batch.row_sides[0] > 0
    second = np.broadcast_to(batch.side[0][:, np.newaxis] > 0, (batch.side.size, batch.n_rows))
    return ~second, second


def _held_out_scores(
    batches: list[GroupBatch], coef: Floats, scoring: str, threads: Threads
) -> Floats:
    """Return the score of every problem on the rows of its test batches."""

    def part(batch: GroupBatch) -> list[tuple[Floats, Floats]]:
        dtype = np.float32 if batch.double is None else np.float64
        margins = folded_margins(batch, coef, dtype)[0]
        row_weights = np.ones(batch.n_rows) if batch.row_weights is None else batch.row_weights[0]
        sums_and_totals = []
        for side, mine in enumerate(_rows_on_sides(batch)):
            values = np.where(mine, point_scores(margins, side == 1, scoring), 0)
            sums_and_totals.append((values @ row_weights, mine @ row_weights))
        return sums_and_totals

    sums = np.zeros((2, len(coef)))  # by side
    totals = np.zeros((2, len(coef)))
    for batch, sides in zip(batches, threads.map(part, batches), strict=True):
        for side, (values, total) in enumerate(sides):
            sums[side, batch.problems[0]] += values
            totals[side, batch.problems[0]] += total
    return scores_from_sides(sums, totals, scoring)
