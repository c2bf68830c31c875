"""Which rows a duel learns from, and who won it in them.

*Feedback* is codes, (n,) integers, or ranks, (n, K) floats: see `duelrank.feedback`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, validate_data

from duelrank._pairs import pairs
from duelrank._sklearn import check_sample_weight
from duelrank.duels._protocol import as_feedback
from duelrank.feedback import SparseRanks, as_ranks, duels_won, outcomes

# Whole weights with a larger sum are no counts, unless none is larger than 1.
MOST_COPIES = 100_000
LARGEST = 1e150  # of a number in X: its square is finite


class Rows(NamedTuple):
    """Training data that has been checked: points, their feedback and weights.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
        The points.
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks.
    weights : ndarray of shape (n,)
        Weights of the rows; ones if none were given.
    """

    X: Any
    feedback: NDArray[Any]
    weights: NDArray[np.float64]

    def ranks(self, n_classes: int) -> NDArray[np.float64]:
        """Return the feedback as ranks, also if it is codes."""
        return as_ranks(self.feedback, n_classes)

    def outcomes(self, n_classes: int) -> NDArray[np.int8]:
        """Tell who wins which duel, (n, P), as `duelrank.feedback.outcomes` does."""
        return outcomes(self.ranks(n_classes))

    def counted(self) -> tuple[Rows, NDArray[np.intp]]:
        """Leave out rows without weight, and repeat the others if their weights are counts.

        Whole numbers are counts: a row that weighs 3 is repeated three times, and each copy weighs
        1. Any other weights are kept, and only their ratios should matter.

        Returns
        -------
        rows : Rows
            Rows that weigh something.
        origin : ndarray of int
            Which row every one of them was, in increasing order.
        """
        origin = np.flatnonzero(self.weights)
        weights = self.weights[origin]
        is_whole = (weights == np.rint(weights)).all()
        if is_whole and weights.sum() <= max(MOST_COPIES, len(weights)):
            origin = np.repeat(origin, weights.astype(np.intp))
            weights = np.ones(len(origin))
        if len(origin) == len(self.weights) and self.weights.all():
            return Rows(self.X, self.feedback, weights), origin
        return Rows(self.X[origin], self.feedback[origin], weights), origin


def check_rows(
    engine: Any, X: Any, feedback: Any, n_classes: int, sample_weight: Any, **checks: Any
) -> Rows:
    """Validate training data; `checks` are those of scikit-learn's ``validate_data``."""
    feedback = as_feedback(feedback, n_classes)
    check_consistent_length(X, feedback)
    weights = np.ones(len(feedback))
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, feedback)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
        return Rows(validate_data(engine, X, **checks), feedback, weights)


def check_magnitude(X: Any) -> None:
    """Raise ValueError if squares of the numbers in X, dense or sparse, would not be finite."""
    values = X if isinstance(X, np.ndarray) else X.data
    if values.size == 0 or values.dtype == np.float32:
        return
    largest = max(float(values.max()), -float(values.min()))
    if largest > LARGEST:
        raise ValueError(
            f"X must hold numbers between -{LARGEST:g} and {LARGEST:g}, got {largest:g} in "
            "absolute value; divide such columns by a constant."
        )


class DuelRows:
    """Which rows every duel learns from.

    Parameters
    ----------
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks.
    n_classes : int
        Number of labels K.
    weights : ndarray of shape (n,), default=None
        Weights of the rows. A side of a duel whose rows all weigh nothing is left out.
    """

    def __init__(
        self,
        feedback: NDArray[Any],
        n_classes: int,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.feedback, self.weights = feedback, weights
        if feedback.ndim == 1:
            # Rows by label; few long arrays travel better than many short ones.
            by_code = split_by(feedback, n_classes)
            self.feedback = np.concatenate(by_code)
            self.ends = np.cumsum([0] + [len(rows) for rows in by_code])

    def of(self, first: int, second: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows a duel learns from, and whether the second label won, as 0 or 1."""
        if self.feedback.ndim == 1:
            sides = [self.feedback[self.ends[k] : self.ends[k + 1]] for k in (first, second)]
        else:
            a, b = self.feedback[:, first], self.feedback[:, second]
            sides = [np.flatnonzero(a < b), np.flatnonzero(b < a)]
        if self.weights is not None:
            weights = self.weights
            sides = [rows if np.any(weights[rows] > 0) else rows[:0] for rows in sides]
        rows = np.concatenate(sides)
        in_order = np.argsort(rows, kind="stable")
        return rows[in_order], (in_order >= len(sides[0])).astype(np.intp)


def count_sides(
    feedback: NDArray[Any], n_classes: int, weights: NDArray[np.floating] | None = None
) -> NDArray[np.float64]:
    """Sum the weights of the rows on the first and the second side of every duel, (2, P)."""
    first, second = pairs(n_classes)
    if feedback.ndim == 1:
        of_label = np.bincount(feedback, weights, minlength=n_classes).astype(np.float64)
        return np.stack([of_label[first], of_label[second]])
    won = duels_won(feedback, weights)
    return np.stack([won[first, second], won[second, first]])


def first_labels(feedback: NDArray[Any] | SparseRanks) -> NDArray[np.intp]:
    """Return the code of every row's first label."""
    if isinstance(feedback, SparseRanks):
        ranks = feedback.ranks
        row = np.repeat(np.arange(len(feedback)), feedback.n_placed)
        last_first = np.lexsort((-ranks.indices, -ranks.data, -row))
        first = np.zeros(len(feedback), dtype=np.intp)
        first[row[last_first]] = ranks.indices[last_first]  # the best of a row is written last
        return first
    if feedback.ndim == 1:
        return feedback
    return np.argmin(np.where(np.isnan(feedback), np.inf, feedback), axis=1)


def top_labels(feedback: NDArray[Any], n_folds: int) -> NDArray[np.intp]:
    """Return the first label of every row, to stratify by.

    Labels that are first in fewer rows than there are folds count as one, K.
    """
    top = first_labels(feedback)
    counts = np.bincount(top)
    rare = counts < n_folds
    if counts[rare].sum() < n_folds:  # too few together as well
        rare[np.argmax(counts)] = True
    return np.where(rare[top], len(counts), top)


def split_by(numbers: NDArray[np.intp], n_parts: int) -> list[NDArray[np.intp]]:
    """Return where every number 0..n_parts−1 is, in increasing order."""
    ends = np.cumsum(np.bincount(numbers, minlength=n_parts))
    if n_parts < 2**15:  # NumPy sorts short integers by counting
        numbers = numbers.astype(np.int16)
    return np.split(np.argsort(numbers, kind="stable"), ends[:-1])
