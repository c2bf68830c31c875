"""Luce's choice model: what rows say about the scores of the labels.

A row that places label c ahead of others has *chosen* c among c and all labels behind it, with
probability exp(u_c) / (exp(u_c) + Σ_b exp(u_b)), b the labels behind. Every label with others
behind it is such a *choice*. A class label is one choice among all labels, which makes the loss
that of multinomial logistic regression. A full ranking is K − 1 choices, the Plackett-Luce model. A
label picked out of a few that were shown is a conditional logit. Labels at the same place say
nothing about each other, so tied labels are chosen one by one, each among itself and those behind.

The kernels take the scores of some rows and return the loss −Σ log p, its gradient by the scores
and products with its Hessian. `SetChoices` serves rows whose best labels are ahead of all others,
such as class labels, and `OrderedChoices` all other feedback.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank.feedback import SparseRanks

Floats = NDArray[Any]

LEAST = np.finfo(np.float64).tiny
# A chosen label's curvature p (1 − p) is nearly zero at first, when all labels are as probable, and
# a quarter on the way. Preconditioners take it for a quarter from the start.
CURVATURE_ON_THE_WAY = 0.25


class Evaluation(NamedTuple):
    """The loss of some rows at their scores.

    Attributes
    ----------
    loss : float
        −Σ log p, weighted.
    gradient : ndarray of shape (m, width)
        By the scores.
    state : tuple of arrays
        What products with the Hessian need.
    """

    loss: float
    gradient: Floats
    state: Any


class SetChoices:
    """Rows whose best labels, one or several, are ahead of all others.

    Parameters
    ----------
    labels : ndarray of int
        The best labels of all rows, row by row.
    ends : ndarray of int, of shape (n + 1,)
        Those of row i are ``labels[ends[i]:ends[i + 1]]``.
    weights : ndarray of shape (n,), or None
        Weights of the rows.
    n_classes : int
        Number of labels K.

    Attributes
    ----------
    width : int
        Number of scores of a row that matter: all K.
    """

    def __init__(
        self, labels: NDArray[np.intp], ends: NDArray[np.intp], weights: Any, n_classes: int
    ) -> None:
        self.labels, self.ends, self.weights = labels, ends, weights
        self.rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        self.n_rows, self.width, self.n_classes = len(ends) - 1, n_classes, n_classes
        self.one_each = bool(np.all(np.diff(ends) == 1))

    def gather(self, rows: slice, scores: Floats) -> Floats:
        """Return the scores that matter: all of them."""
        return scores

    def spread(self, gradient: Floats) -> Any:
        """Return gradients as a matrix (n, K)."""
        return gradient

    def evaluate(self, rows: slice, scores: Floats) -> Evaluation:
        """Return the loss of some rows, its gradient, and what products with the Hessian need.

        Parameters
        ----------
        rows : slice
            The rows.
        scores : ndarray of shape (m, K)
            Their scores.
        """
        row, label, weight = self.chosen(rows)
        largest = scores.max(axis=1, keepdims=True)
        others = np.exp(scores - largest)
        chosen = others[row, label].astype(np.float64)
        others[row, label] = 0
        total = others.sum(axis=1, dtype=np.float64)
        below = np.maximum(total[row] + chosen, LEAST)
        loss = weight @ (np.log(below) - (scores[row, label] - largest[row, 0]))
        share = weight / below
        factor = self._sums(row, share, len(scores)).astype(scores.dtype)
        gradient = others * factor[:, np.newaxis]
        probability = chosen / below
        gradient[row, label] = weight * (probability - 1)
        return Evaluation(float(loss), gradient, (others, factor, chosen, below))

    def hessian_times(self, rows: slice, state: Any, vectors: Floats) -> Floats:
        """Return the Hessian of every row times a vector, (m, K)."""
        row, label, weight = self.chosen(rows)
        others, factor, chosen, below = state
        along = others * vectors
        of_chosen = vectors[row, label]
        mean = (along.sum(axis=1, dtype=np.float64)[row] + chosen * of_chosen) / below
        shift = self._sums(row, weight * mean / below, len(vectors)).astype(vectors.dtype)
        along *= factor[:, np.newaxis]
        along -= others * shift[:, np.newaxis]
        along[row, label] = weight * (chosen / below) * (of_chosen - mean)
        return along

    def curvature(self, rows: slice, state: Any, least: float) -> Floats:
        """Return the diagonal of the Hessians, (m, K), that of chosen labels at least `least`."""
        others, factor, chosen, below = state
        row, label, weight = self.chosen(rows)
        probability = others * factor[:, np.newaxis]
        if self.weights is None and self.one_each:
            probability *= 1 - probability
        own = chosen / below
        probability[row, label] = weight * np.maximum(own * (1 - own), least)
        return probability

    def chosen(self, rows: slice) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Return row, label and weight of every choice."""
        mine = slice(self.ends[rows.start], self.ends[rows.stop])
        row = self.rows[mine]
        weight = np.ones(len(row)) if self.weights is None else self.weights[row]
        return row - rows.start, self.labels[mine], weight

    def _sums(self, row: NDArray[np.intp], values: Floats, n_rows: int) -> Floats:
        """Sum values by row."""
        return values if self.one_each else np.bincount(row, values, minlength=n_rows)


class OrderedChoices:
    """Rows that place labels in any order, with ties and labels without a place.

    Parameters
    ----------
    labels : ndarray of int, of shape (n, width)
        The labels of every row from the worst to the best; K where there is none, at the front.
    ranks : ndarray of float, of shape (n, width)
        Their ranks, decreasing; NaN for labels without a place, at the front.
    weights : ndarray of shape (n,), or None
        Weights of the rows.
    n_classes : int
        Number of labels K.

    Attributes
    ----------
    width : int
        Number of scores of a row that matter.
    """

    def __init__(
        self, labels: NDArray[np.intp], ranks: Floats, weights: Any, n_classes: int
    ) -> None:
        self.labels, self.weights, self.n_classes = labels, weights, n_classes
        self.n_rows, self.width = labels.shape
        self.placed = ~np.isnan(ranks)
        number = np.arange(self.width)
        new = np.ones(ranks.shape, dtype=bool)
        new[:, 1:] = ranks[:, 1:] != ranks[:, :-1]
        # Where the labels of the same place begin, and where those of a better place do.
        self.start = np.maximum.accumulate(np.where(new, number, 0), axis=1)
        new_after = np.ones(ranks.shape, dtype=bool)
        new_after[:, :-1] = new[:, 1:]
        ends = np.where(new_after, number + 1, self.width)
        self.end = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        self.chosen = self.placed & (self.start > np.count_nonzero(~self.placed, axis=1)[:, None])

    def gather(self, rows: slice, scores: Floats) -> Floats:
        """Return the scores of the labels that matter, from the worst to the best."""
        labels = np.minimum(self.labels[rows], self.n_classes - 1)
        return np.take_along_axis(scores, labels, axis=1)

    def spread(self, gradient: Floats) -> Any:
        """Return gradients by these scores as a matrix (n, K), sparse if few labels matter."""
        n, K = self.n_rows, self.n_classes
        if 4 * self.width < K:
            known = self.labels < K
            ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
            return sparse.csr_array((gradient[known], self.labels[known], ends), shape=(n, K))
        wide = np.zeros((n, K + 1), dtype=gradient.dtype)
        np.put_along_axis(wide, self.labels, gradient, axis=1)
        return wide[:, :K]

    def evaluate(self, rows: slice, scores: Floats) -> Evaluation:
        """Return the loss of some rows, its gradient, and what products with the Hessian need.

        Parameters
        ----------
        rows : slice
            The rows.
        scores : ndarray of shape (m, width)
            Their scores, as by `gather`.
        """
        placed, chosen, weight = self.placed[rows], self.chosen[rows], self.weight(rows)
        shifted = np.where(placed, scores, -np.inf).astype(np.float64)
        largest = shifted.max(axis=1, keepdims=True, initial=-np.inf)
        shifted -= np.where(np.isfinite(largest), largest, 0)
        terms = np.exp(shifted)
        below = np.maximum(self._behind(rows, terms) + terms, LEAST)
        loss = np.sum(weight * np.where(chosen, np.log(below) - np.where(placed, shifted, 0), 0))
        share = np.where(chosen, weight / below, 0)
        factor = self._ahead(rows, share)
        gradient = terms * (factor + share) - weight * chosen
        return Evaluation(float(loss), gradient.astype(scores.dtype), (terms, below, share, factor))

    def hessian_times(self, rows: slice, state: Any, vectors: Floats) -> Floats:
        """Return the Hessian of every row times a vector, (m, width)."""
        terms, below, share, factor = state
        along = terms * vectors
        mean = (self._behind(rows, along) + along) / below
        shift = share * mean
        product = along * (factor + share) - terms * (self._ahead(rows, shift) + shift)
        return product.astype(vectors.dtype)

    def curvature(self, rows: slice, state: Any, least: float) -> Floats:
        """Return bounds of the diagonal, that of chosen labels at least `least`."""
        terms, _, share, factor = state
        own = terms * share
        weight, chosen = self.weight(rows), self.chosen[rows]
        own = np.maximum(own * (1 - own / np.maximum(weight, LEAST)), least * weight * chosen)
        return terms * factor + own

    def _behind(self, rows: slice, values: Floats) -> Floats:
        """Sum over the labels behind every label."""
        sums = np.zeros((len(values), self.width + 1))
        np.cumsum(values, axis=1, out=sums[:, 1:])
        return np.take_along_axis(sums, self.start[rows], axis=1)

    def _ahead(self, rows: slice, values: Floats) -> Floats:
        """Sum over the labels ahead of every label."""
        sums = np.zeros((len(values), self.width + 1))
        sums[:, :-1] = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
        return np.take_along_axis(sums, self.end[rows], axis=1)

    def weight(self, rows: slice) -> Any:
        return 1.0 if self.weights is None else self.weights[rows, np.newaxis]


Choices = SetChoices | OrderedChoices


def choices_of(feedback: Any, weights: Floats | None, n_classes: int) -> Choices:
    """Return what rows say as choices.

    Parameters
    ----------
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K), or SparseRanks
        Codes, or ranks in which equal ones and NaN say nothing.
    weights : ndarray of shape (n,), or None
        Weights of the rows.
    n_classes : int
        Number of labels K.
    """
    if isinstance(feedback, SparseRanks):
        return _of_sparse(feedback, weights, n_classes)
    if feedback.ndim == 1:
        return SetChoices(feedback, np.arange(len(feedback) + 1), weights, n_classes)
    best = feedback == np.fmin.reduce(feedback, axis=1)[:, np.newaxis]
    two_places = np.fmax.reduce(np.where(best, np.nan, feedback), axis=1) == np.fmin.reduce(
        np.where(best, np.nan, feedback), axis=1
    )
    if not np.isnan(feedback).any() and two_places.all():
        labels = np.nonzero(best)[1]
        ends = np.concatenate([[0], np.cumsum(best.sum(axis=1))])
        return SetChoices(labels, ends, weights, n_classes)
    # NaN sorts last, so it comes first when turned round.
    labels = np.argsort(feedback, axis=1, kind="stable")[:, ::-1]
    return OrderedChoices(
        np.ascontiguousarray(labels),
        np.take_along_axis(feedback, labels, axis=1),
        weights,
        n_classes,
    )


def _of_sparse(feedback: SparseRanks, weights: Floats | None, n_classes: int) -> Choices:
    ranks = feedback.ranks
    counts = np.diff(ranks.indptr)
    if feedback.unplaced == "behind":
        first, last = feedback.extremes()
        if np.array_equal(first, last) and np.all((counts > 0) & (counts < n_classes)):
            labels = ranks.indices.astype(np.intp)
            return SetChoices(labels, ranks.indptr.astype(np.intp), weights, n_classes)
        return choices_of(feedback.dense(), weights, n_classes)
    width = max(1, int(counts.max(initial=1)))
    place = width - counts.repeat(counts) + _places_in_rows(ranks.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    in_order = np.lexsort((-ranks.data, row))
    labels = np.full((len(counts), width), n_classes)
    values = np.full((len(counts), width), np.nan)
    labels[row, place] = ranks.indices[in_order]
    values[row, place] = ranks.data[in_order]
    return OrderedChoices(labels, values, weights, n_classes)


def _places_in_rows(ends: NDArray[Any]) -> NDArray[np.intp]:
    """Number the entries of every row from 0."""
    counts = np.diff(ends)
    return np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
