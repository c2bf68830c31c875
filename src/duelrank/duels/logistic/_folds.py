"""Folds, the scores of models on their held-out rows, and the choice of C.

Models are fitted and scored by `_fold_search`, or by `row_space._folds` in the space of the rows.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from duelrank.duels._sides import top_labels
from duelrank.duels.logistic._batch import Floats
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
    def of(cls, cv: Any, rows: TrainingRows, join_rare: bool = False) -> Folds:
        """Split rows, stratified by their first label; rows without weight are left out after.

        Labels with fewer rows than folds are an error, unless rare ones are joined to one stratum.
        Those of rankings always are.
        """
        feedback = rows.feedback
        n_folds = int(cv) if isinstance(cv, Integral) else 5
        as_they_are = feedback.ndim == 1 and not join_rare
        strata = feedback if as_they_are else top_labels(feedback, n_folds)
        splits = list(check_cv(cv, strata, classifier=True).split(rows.X, strata))
        train = np.zeros((len(strata), len(splits)), dtype=bool)
        test = np.zeros_like(train)
        for fold, (training, testing) in enumerate(splits):
            train[training, fold] = True
            test[testing, fold] = True
        if rows.weights is None:
            return cls(train, test)
        return cls(train[rows.weights > 0], test[rows.weights > 0])


class FoldScores:
    """What a search over C's finds out about P duels.

    Parameters
    ----------
    n_duels : int
        Number of duels P.
    n_folds : int
        Number of folds F.
    Cs : ndarray of shape (n_Cs,)
        The C's, increasing.
    scoring : str
        How to score.
    tol : float
        Relative Newton decrement below which a model has converged.

    Attributes
    ----------
    scores : ndarray of shape (P, F, n_Cs)
        Scores on held-out rows; NaN where a fold lacks one of the labels.
    decrement : ndarray of shape (P, F, n_Cs)
        Certificates; 0 where there is no model.
    chosen : ndarray of int, of shape (P,)
        Positions of the chosen C's: whoever searches writes them down.
    """

    def __init__(self, n_duels: int, n_folds: int, Cs: Floats, scoring: str, tol: float) -> None:
        self.Cs = Cs
        self.scoring = scoring
        self.tol = tol
        self.scores = np.full((n_duels, n_folds, len(Cs)), np.nan)
        self.decrement = np.zeros(self.scores.shape)
        self.chosen = np.zeros(n_duels, dtype=np.intp)

    def choose_for_each(self, duels: NDArray[np.intp]) -> None:
        """Choose the best C of every one of some duels; the smallest C of equals."""
        self.chosen[duels] = np.argmax(_averages(self.scores[duels]), axis=1)

    def choose_for_all(self) -> None:
        """Choose the C that is best for all duels on average."""
        self.chosen[:] = np.argmax(_averages(self.scores).sum(axis=0))


def ahead(Cs: Floats, latest: Floats, before: Floats) -> Floats:
    """Return where to start with the last of some C's, from the solutions of the two before.

    Along log C, the solutions of a separable problem lie on a straight line, and those of others on
    a smooth curve.
    """
    if len(Cs) < 3 or Cs[-2] == Cs[-3]:
        return latest
    stride = np.log(Cs[-1] / Cs[-2]) / np.log(Cs[-2] / Cs[-3])
    return latest + min(stride, 1.0) * (latest - before)


def point_scores(margins: Floats, second: bool, scoring: str) -> NDArray[Any]:
    """Return what points add to a score, from their folded margins on one of the two sides."""
    if scoring == "neg_log_loss":
        return -np.logaddexp(0, -margins)
    # A margin of 0 counts for the first label, as in scikit-learn's classifiers.
    return margins > 0 if second else margins >= 0


def scores_from_sides(sums: Floats, totals: Floats, scoring: str) -> Floats:
    """Return scores from the sums of both sides, (2, …), and their weights; NaN without weight."""
    seen = totals > 0
    with np.errstate(invalid="ignore"):
        if scoring == "balanced_accuracy":
            recalls = np.divide(sums, totals, out=np.zeros_like(sums), where=seen)
            return recalls.sum(axis=0) / seen.sum(axis=0)
        return sums.sum(axis=0) / totals.sum(axis=0)


def _averages(scores: Floats) -> Floats:
    """Average scores over the folds that have one, (n_duels, n_Cs); 0 where none has."""
    known = ~np.isnan(scores)
    total: Floats = np.where(known, scores, 0).sum(axis=1)
    return total / np.maximum(known.sum(axis=1), 1)
