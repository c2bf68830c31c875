"""Models of duels on folds: fitted from the smallest C to the largest, and scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from duelrank._threads import Threads
from duelrank.duels._sides import top_labels
from duelrank.duels.logistic._assembly import Assembly
from duelrank.duels.logistic._batch import Floats, GroupBatch, join_small
from duelrank.duels.logistic._loss import folded_margins
from duelrank.duels.logistic._newton import State
from duelrank.duels.logistic._problems import ProblemsInMemory
from duelrank.duels.logistic._rows import TrainingRows


class Folds:
    """Rows numbered by pattern, and which patterns train and test in which folds.

    Rows that train and test in the same folds share a *pattern*.

    Parameters
    ----------
    train, test : ndarrays of bool, of shape (n, F)
        Whether a row trains, and whether it tests, in every fold.

    Attributes
    ----------
    pattern : ndarray of int, of shape (n,)
        The pattern of every row.
    train, test : ndarrays of bool, of shape (n_patterns, F)
        Whether the rows of a pattern train, and whether they test, in every fold.
    """

    def __init__(self, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> None:
        patterns, first_row, pattern = np.unique(
            np.hstack([train, test]), axis=0, return_index=True, return_inverse=True
        )
        self.pattern = np.ravel(pattern)
        self.n_patterns = len(patterns)
        self.n_folds = train.shape[1]
        self.train, self.test = train[first_row], test[first_row]

    @classmethod
    def of(cls, cv: Any, rows: TrainingRows) -> Folds:
        """Split rows, stratified by their first label; rows without weight are left out after."""
        feedback = rows.feedback
        n_folds = int(cv) if isinstance(cv, Integral) else 5
        strata = feedback if feedback.ndim == 1 else top_labels(feedback, n_folds)
        splits = list(check_cv(cv, strata, classifier=True).split(rows.X, strata))
        train = np.zeros((len(strata), len(splits)), dtype=bool)
        test = np.zeros_like(train)
        for fold, (training, testing) in enumerate(splits):
            train[training, fold] = True
            test[testing, fold] = True
        if rows.weights is None:
            return cls(train, test)
        return cls(train[rows.weights > 0], test[rows.weights > 0])


class FoldSearch:
    """Fits models of sets of duels on folds, from one C to the next, and scores them.

    Parameters
    ----------
    assembly : Assembly
        What the problems are made of, with C = 1.
    folds : Folds
        The folds.
    Cs : ndarray of shape (n_Cs,)
        The C's, increasing.
    scoring : str
        How to score.
    tol : float
        Relative Newton decrement below which a model has converged.
    step : callable
        Called after every C of a set of duels.

    Attributes
    ----------
    scores : ndarray of shape (P, F, n_Cs)
        Scores on held-out rows; NaN where a fold lacks one of the labels.
    decrement : ndarray of shape (P, F, n_Cs)
        Certificates; 0 where there is no model.
    chosen : ndarray of int, of shape (P,)
        Positions of the chosen C's: whoever searches writes them down.
    """

    def __init__(
        self,
        assembly: Assembly,
        folds: Folds,
        Cs: Floats,
        scoring: str,
        tol: float,
        step: Callable[[], None],
    ) -> None:
        self.assembly = assembly
        self.folds = folds
        self.Cs = Cs
        self.scoring = scoring
        self.tol = tol
        self.step = step
        n_duels = assembly.objective.sides.shape[1]
        self.scores = np.full((n_duels, folds.n_folds, len(Cs)), np.nan)
        self.decrement = np.zeros(self.scores.shape)
        self.chosen = np.zeros(n_duels, dtype=np.intp)

    def search(self, duels: NDArray[np.intp]) -> Floats:
        """Fit some duels on every fold, C by C from the smallest to the largest, and score them.

        A model starts where its own last two solutions lead, never from a model that has seen the
        rows it is scored on.

        Returns
        -------
        averages : ndarray of shape (n_duels, n_Cs, d)
            Coefficients, averaged over the folds.
        """
        assembly, folds, Cs = self.assembly, self.folds, self.Cs
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
        latest: Floats = np.zeros((np.count_nonzero(complete), n_coefficients))
        before = latest
        for c, C in enumerate(Cs):
            batches = [replace(batch, strength=C * batch.strength) for batch in training]
            problems = ProblemsInMemory(batches, len(latest), assembly.threads)
            start = State.at(_ahead(Cs[: c + 1], latest, before))
            solution = assembly.solve(problems, start, self.tol)
            latest, before = solution.coef, latest
            self.decrement[*where, c] = solution.decrement
            self.scores[*where, c] = _held_out_scores(
                testing, latest, self.scoring, assembly.threads
            )
            by_fold = np.zeros((n_duels, folds.n_folds, n_coefficients))
            by_fold[complete] = latest
            averages[:, c] = by_fold.sum(axis=1) / models_of_duel
            self.step()
        return averages


def best_for_each(scores: Floats) -> NDArray[np.intp]:
    """Return the position of the best C of every duel; the smallest C of equals."""
    return np.argmax(_averages(scores), axis=1)


def best_for_all(scores: Floats) -> int:
    """Return the position of the C that is best for all duels on average."""
    return int(np.argmax(_averages(scores).sum(axis=0)))


def _averages(scores: Floats) -> Floats:
    """Average scores over the folds that have one, (n_duels, n_Cs); 0 where none has."""
    known = ~np.isnan(scores)
    total: Floats = np.where(known, scores, 0).sum(axis=1)
    return total / np.maximum(known.sum(axis=1), 1)


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


def _ahead(Cs: Floats, latest: Floats, before: Floats) -> Floats:
    """Return where to start with the last of some C's, from the solutions of the two before.

    Along log C, the solutions of a separable problem lie on a straight line, and those of others on
    a smooth curve.
    """
    if len(Cs) < 3 or Cs[-2] == Cs[-3]:
        return latest
    stride = np.log(Cs[-1] / Cs[-2]) / np.log(Cs[-2] / Cs[-3])
    return latest + min(stride, 1.0) * (latest - before)


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
            if scoring == "neg_log_loss":
                values = np.where(mine, -np.logaddexp(0, -margins), 0)
            else:
                # A margin of 0 counts for the first label, as in scikit-learn's classifiers.
                values = mine & (margins > 0 if side else margins >= 0)
            sums_and_totals.append((values @ row_weights, mine @ row_weights))
        return sums_and_totals

    sums = np.zeros((2, len(coef)))  # by side
    totals = np.zeros((2, len(coef)))
    for batch, sides in zip(batches, threads.map(part, batches), strict=True):
        for side, (values, total) in enumerate(sides):
            sums[side, batch.problems[0]] += values
            totals[side, batch.problems[0]] += total
    seen = totals > 0
    with np.errstate(invalid="ignore"):  # without held-out rows the score is NaN
        if scoring == "balanced_accuracy":
            recalls = np.divide(sums, totals, out=np.zeros_like(sums), where=seen)
            return recalls.sum(axis=0) / seen.sum(axis=0)
        return sums.sum(axis=0) / totals.sum(axis=0)
