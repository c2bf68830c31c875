"""Luce's choice model: what rows say about the scores of the labels.

A row that places label c ahead of others has *chosen* c among c and all labels behind it, with
probability exp(u_c) / (exp(u_c) + Σ_b exp(u_b)), b the labels behind. Every label with others
behind it is such a *choice*. A class label is one choice among all labels, which makes the loss
that of multinomial logistic regression. A full ranking is K − 1 choices, the Plackett-Luce model. A
label picked out of a few that were shown is a conditional logit. Labels at the same place say
nothing about each other, so tied labels are chosen one by one, each among itself and those behind.

The kernels take the scores of some rows and return the loss −Σ log p, its gradient by the scores
and products with its Hessian. `SetChoices` serves rows whose best labels are ahead of all others,
such as class labels, and `OrderedChoices` all other feedback. They work with a label's *lead*, its
score minus log Σ_b exp(u_b), and with shares of neighbours: nothing under- or overflows where the
best labels' scores are hundreds above those of the worst, as with long rankings that are certain.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from duelrank.feedback import SparseRanks

Floats = NDArray[Any]

# A chosen label's curvature p (1 − p) is nearly zero at first, when all labels are as probable, and
# a quarter on the way. Preconditioners take it for a quarter from the start.
CURVATURE_ON_THE_WAY = 0.25
LARGEST_SPREAD = 600.0  # of the scores of a row that exp does not take to zero


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
    components : ndarray of int, of shape (K,)
        Labels have the same number if rows compare them, or both with a third one, and so on.
    """

    def __init__(
        self, labels: NDArray[np.intp], ends: NDArray[np.intp], weights: Any, n_classes: int
    ) -> None:
        self.labels, self.ends, self.weights = labels, ends, weights
        self.rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        self.n_rows, self.width, self.n_classes = len(ends) - 1, n_classes, n_classes
        self.one_each = bool(np.all(np.diff(ends) == 1))
        self.components = np.zeros(n_classes, dtype=np.intp)
        self.n_components = 1

    def weighted(self, weights: Floats) -> SetChoices:
        """Return the same choices with other weights of the rows."""
        return SetChoices(self.labels, self.ends, weights, self.n_classes)

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
        others = scores.copy()
        others[row, label] = -np.inf
        largest = others.max(axis=1, keepdims=True)
        others -= largest
        np.exp(others, out=others)
        total = others.sum(axis=1, dtype=np.float64)
        lead = scores[row, label] - (largest[:, 0] + np.log(total))[row]
        right, wrong = sigmoids(lead)
        factor = (self._sums(row, weight * wrong, len(scores)) / total).astype(scores.dtype)
        gradient = others * factor[:, np.newaxis]
        gradient[row, label] = -weight * wrong
        loss = float(weight @ np.logaddexp(0, -lead))
        return Evaluation(loss, gradient, (others, total, factor, wrong, right))

    def hessian_times(self, rows: slice, state: Any, vectors: Floats) -> Floats:
        """Return the Hessian of every row times a vector, (m, K)."""
        row, label, weight = self.chosen(rows)
        others, total, factor, wrong, right = state
        along = others * vectors
        mean = (along.sum(axis=1, dtype=np.float64) / total)[row]  # of labels behind
        gap = vectors[row, label] - mean
        shift = self._sums(row, weight * wrong * (mean + right * gap), len(vectors)) / total
        along *= factor[:, np.newaxis]
        along -= others * shift[:, np.newaxis].astype(vectors.dtype)
        along[row, label] = weight * wrong * right * gap
        return along

    def curvature(self, rows: slice, state: Any, least: float) -> Floats:
        """Return bounds of the diagonal, (m, K), that of chosen labels at least `least`."""
        others, total, factor, wrong, right = state
        row, label, weight = self.chosen(rows)
        bound = others * factor[:, np.newaxis]
        if self.one_each:
            probability = others * (wrong / total).astype(others.dtype)[:, np.newaxis]
            bound *= 1 - probability
        bound[row, label] = weight * np.maximum(wrong * right, least)
        return bound

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
    components : ndarray of int, of shape (K,)
        Labels have the same number if rows compare them, or both with a third one, and so on.
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
        # Where the labels of the same place begin.
        self.start = np.maximum.accumulate(np.where(new, number, 0), axis=1)
        n_unplaced = np.count_nonzero(~self.placed, axis=1, keepdims=True)
        self.is_chosen = self.placed & (self.start > n_unplaced)
        self.components = self._components()
        self.n_components = int(self.components.max()) + 1

    def weighted(self, weights: Floats) -> OrderedChoices:
        """Return the same choices with other weights of the rows."""
        other = copy(self)
        other.weights = weights
        return other

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
        placed, chosen, weight = self.placed[rows], self.is_chosen[rows], self.weight(rows)
        scores_of = np.where(placed, scores, -np.inf).astype(np.float64)
        before = _logs_of_sums(scores_of)
        # A label's share of itself and all before it; these are behind it, or at its place.
        step = np.where(placed, scores_of - np.where(placed, before[:, :-1], 0), -np.inf)
        shares = sigmoids(np.ascontiguousarray(step.T))
        behind = np.take_along_axis(before, self.start[rows], axis=1)
        lead = np.where(chosen, scores_of, 0) - np.where(chosen, behind, 0)
        right, wrong = sigmoids(lead)
        # log(1 + exp(−lead))
        losses = np.maximum(-lead, 0) - np.log(np.maximum(right, wrong))
        loss = float(np.sum(weight * chosen * losses))
        wrong *= weight * chosen
        received = self._share_out(rows, shares, wrong)
        state = shares, wrong, right, received
        return Evaluation(loss, (received - wrong).astype(scores.dtype), state)

    def hessian_times(self, rows: slice, state: Any, vectors: Floats) -> Floats:
        """Return the Hessian of every row times a vector, (m, width)."""
        shares, wrong, right, received = state
        mean = self._means_behind(rows, shares, vectors)
        gap = vectors - mean
        product = received * vectors - self._share_out(rows, shares, wrong * (mean + right * gap))
        product += wrong * right * gap
        return product.astype(vectors.dtype)

    def curvature(self, rows: slice, state: Any, least: float) -> Floats:
        """Return bounds of the diagonal, that of chosen labels at least `least`."""
        _, wrong, right, received = state
        weight, chosen = self.weight(rows), self.is_chosen[rows]
        return np.asarray(received + np.maximum(wrong * right, least * weight * chosen))

    def _means_behind(self, rows: slice, shares: tuple[Floats, Floats], values: Floats) -> Floats:
        """Return the means over the labels behind every label, by their probabilities."""
        of_label, of_others = shares
        columns = np.asarray(values.T, dtype=np.float64)
        means = np.zeros((self.width + 1, len(values)))
        for place in range(self.width):
            means[place + 1] = of_others[place] * means[place] + of_label[place] * columns[place]
        return np.take_along_axis(means.T, self.start[rows], axis=1)

    def _share_out(self, rows: slice, shares: tuple[Floats, Floats], values: Floats) -> Floats:
        """Share a number of every label out to the labels behind it, by their probabilities."""
        of_label, of_others = shares
        n_rows, width = values.shape
        number = self.start[rows] * n_rows + np.arange(n_rows)[:, np.newaxis]
        size = (width + 1) * n_rows
        given = np.bincount(number.ravel(), values.ravel(), minlength=size).reshape(-1, n_rows)
        result = np.empty((width, n_rows))
        rest = np.zeros(n_rows)
        for place in reversed(range(width)):
            rest += given[place + 1]
            result[place] = of_label[place] * rest
            rest *= of_others[place]
        return result.T

    def _components(self) -> NDArray[np.intp]:
        compared = self.placed & self.is_chosen.any(axis=1, keepdims=True)
        linked = compared[:, 1:] & compared[:, :-1]
        # scipy before 1.12 wants 32 bits.
        labels = self.labels.astype(np.int32)
        links = labels[:, 1:][linked], labels[:, :-1][linked]
        graph = sparse.csr_array((np.ones(len(links[0])), links), shape=(self.n_classes,) * 2)
        return connected_components(graph, directed=False)[1].astype(np.intp)

    def weight(self, rows: slice) -> Any:
        """Return the weights of some rows, (m, 1), or 1."""
        return 1.0 if self.weights is None else self.weights[rows, np.newaxis]


Choices = SetChoices | OrderedChoices


def sigmoids(values: Floats) -> tuple[Floats, Floats]:
    """Return 1 / (1 + exp(−v)) and 1 / (1 + exp(v)), both without loss of digits."""
    small = np.exp(-np.abs(values))
    large = 1 / (1 + small)
    small *= large
    positive = values >= 0
    return np.where(positive, large, small), np.where(positive, small, large)


def _logs_of_sums(scores: Floats) -> Floats:
    """Return log Σ exp over the first 0, 1, … scores of every row, (m, width + 1)."""
    logs = np.full((len(scores), scores.shape[1] + 1), -np.inf)
    largest = scores.max(axis=1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    shifted = scores - largest
    if np.all((shifted > -LARGEST_SPREAD) | np.isneginf(shifted)):
        with np.errstate(divide="ignore"):  # of no scores
            np.log(np.cumsum(np.exp(shifted), axis=1), out=logs[:, 1:])
        logs[:, 1:] += largest
    else:
        np.logaddexp.accumulate(scores, axis=1, out=logs[:, 1:])
    return logs


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
        if np.all((first == last) | (counts == 0)):
            # A row that places all labels at once says nothing, as does one that places none.
            says = counts < n_classes
            ends = np.concatenate([[0], np.cumsum(np.where(says, counts, 0))])
            labels = ranks.indices[np.repeat(says, counts)].astype(np.intp)
            return SetChoices(labels, ends, weights, n_classes)
        feedback.check_memory("give lists of several places as codes of their first labels")
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
