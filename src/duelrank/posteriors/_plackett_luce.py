"""The Plackett-Luce model (Bradley-Terry-Luce-Plackett): drawing rankings, and their likelihood.

A ranking with weights w is drawn from the top: the next label is k with probability
w_k / Σ w over the labels not drawn yet. As a race: label k arrives at a time that is exponential
with rate w_k, and labels are ranked by arrival. A label of weight 0 never arrives: such labels
come last, in uniformly random order, which is the limit of equal weights going to 0.

Pairwise probabilities, w_a / (w_a + w_b), are `duel_probabilities`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from duelrank.posteriors._known import check_eta
from duelrank.rankings import check_codes, check_ranks, ranks_from_scores

# Stands for the logarithm of 0 in a race: far below that of any positive float (−745), so that
# every other label arrives before; labels of weight 0 still race among themselves.
LOG_ZERO = -1e4


def sample_plackett_luce(
    weights: ArrayLike, n_samples: int | None = None, random_state: Any = None
) -> NDArray[np.int64]:
    """Draw rankings.

    Parameters
    ----------
    weights : array-like of shape (n, K) or (K,)
        Non-negative. One ranking is drawn for every row.
    n_samples : int, default=None
        Number of rankings to draw from a single weight vector (K,).
    random_state : int, RandomState instance or None, default=None
        Source of randomness.

    Returns
    -------
    ranks : ndarray of int, of shape (n, K), (n_samples, K) or (K,)
        ``ranks[i, k]`` is the place of label k, 1 = best. Labels of weight 0 come last, in
        uniformly random order.

    Examples
    --------
    >>> sample_plackett_luce([[5, 1, 0], [0, 1, 5]], random_state=0)
    array([[1, 2, 3],
           [3, 2, 1]])
    >>> ranks = sample_plackett_luce([5, 1, 2], n_samples=10_000, random_state=0)
    >>> (ranks == 1).mean(axis=0).round(2)  # 5/8, 1/8, 2/8
    array([0.62, 0.13, 0.25])
    """
    weights = check_eta(weights, "weights")
    shape = weights.shape
    if n_samples is not None:
        if not isinstance(n_samples, (int, np.integer)) or n_samples < 0:
            raise ValueError(f"n_samples must be a non-negative integer, got {n_samples!r}.")
        if weights.ndim != 1:
            raise ValueError(
                "n_samples must be None when weights have rows, as one ranking is drawn for each; "
                f"got n_samples={n_samples} and weights of shape {shape}."
            )
        shape = (int(n_samples), *shape)
    return ranks_from_scores(-_arrivals(weights, shape, random_state))


def complete_ranking(
    eta: ArrayLike, codes: ArrayLike, random_state: Any = None
) -> NDArray[np.int64]:
    """Draw full rankings whose tops are the observed labels (coupling lemma).

    If the labels were drawn from eta, the rankings are drawn from the Plackett-Luce model with
    weights eta: observing a class label is observing the top of such a ranking.

    Parameters
    ----------
    eta : array-like of shape (n, K) or (K,)
        Non-negative.
    codes : array-like of int, of shape (n,), or int
        The observed label of every row, from 0 to K−1, of positive probability.
    random_state : int, RandomState instance or None, default=None
        Source of randomness.

    Returns
    -------
    ranks : ndarray of int, of the shape of eta
        ``ranks[i, codes[i]]`` is 1; the other labels follow as in `sample_plackett_luce`.

    Examples
    --------
    >>> complete_ranking([0.5, 0.2, 0.3], 1, random_state=0)
    array([2, 1, 3])
    """
    eta = check_eta(eta)
    labels = _check_observed(codes, eta)[..., np.newaxis]
    arrivals = _arrivals(eta, eta.shape, random_state)
    # Luce: without its top, the rest is ranked by the same model.
    np.put_along_axis(arrivals, labels, -np.inf, axis=-1)
    return ranks_from_scores(-arrivals)


def plackett_luce_log_likelihood(weights: ArrayLike, ranks: ArrayLike) -> Any:
    """Return the log-probability of full rankings or top-m lists.

    Parameters
    ----------
    weights : array-like of shape (n, K) or (K,)
        Non-negative; one vector may stand for all rows of ranks.
    ranks : array-like of shape (n, K) or (K,)
        Full rankings, or top-m lists: the first m labels have places 1..m and the others are
        NaN, which says that they come behind. The rows may differ in m, and m = 0 says nothing.

    Returns
    -------
    log_likelihood : ndarray of shape (n,), or float
        −inf where a label of weight 0 is placed before one of positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(plackett_luce_log_likelihood([5, 1, 2], [[1, 3, 2], [1, np.nan, np.nan]])).round(4)
    array([0.4167, 0.625 ])
    """
    weights = check_eta(weights, "weights")
    ranks = check_ranks(ranks, n_classes=weights.shape[-1], partial=True)
    if weights.ndim == ranks.ndim == 2 and len(weights) != len(ranks):
        raise ValueError(
            "weights must have one row per row of ranks, or be a single vector; "
            f"got {len(weights)} and {len(ranks)} rows."
        )
    in_order = np.sort(ranks, axis=-1)  # NaN last
    placed = ~np.isnan(in_order)
    n_classes = ranks.shape[-1]
    if np.any(placed & (in_order != np.arange(1, n_classes + 1))):
        raise ValueError(
            f"ranks must be full or top-m lists, with places 1..m and NaN for the other labels; "
            f"got places {_first_gap(in_order)}."
        )
    weights, order = np.broadcast_arrays(weights, np.argsort(ranks, axis=-1, kind="stable"))
    along = np.take_along_axis(weights, order, axis=-1)
    return np.where(placed, _log_choices(along), 0.0).sum(axis=-1)


def _arrivals(
    weights: NDArray[np.float64], shape: tuple[int, ...], random_state: Any
) -> NDArray[np.float64]:
    """Return logarithms of the arrival times of the race, so that no weight is too small."""
    log_weights = np.log(weights, out=np.full(weights.shape, LOG_ZERO), where=weights > 0)
    times = check_random_state(random_state).standard_exponential(shape)
    with np.errstate(divide="ignore"):  # a time of exactly 0 arrives first
        np.log(times, out=times)
    times -= log_weights
    return times


def _log_choices(along: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-probability of every choice, weights given in the order of the choices.

    Σ over the labels left is a cumulative sum from the end, in logarithms: weights of all sizes.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_along = np.log(along)
        log_left = np.logaddexp.accumulate(log_along[..., ::-1], axis=-1)[..., ::-1]
        log_choices = log_along - log_left
    n_left = np.arange(along.shape[-1], 0, -1)
    # Only labels of weight 0 are left: one is as probable as the other.
    return np.where(np.isneginf(log_left), -np.log(n_left), log_choices)


def _check_observed(codes: ArrayLike, eta: NDArray[np.float64]) -> NDArray[np.intp]:
    labels = np.asarray(codes)
    n_classes = eta.shape[-1]
    if labels.shape != eta.shape[:-1]:
        raise ValueError(
            f"codes must name one label per row of eta: shape {eta.shape[:-1]}, got {labels.shape}."
        )
    labels = check_codes(codes, n_classes)
    impossible = np.take_along_axis(eta, labels[..., np.newaxis], axis=-1)[..., 0] == 0
    if impossible.any():
        row = int(np.flatnonzero(np.atleast_1d(impossible))[0])
        raise ValueError(
            f"codes must name labels of positive probability; row {row} observes label "
            f"{int(np.atleast_1d(labels)[row])}, where eta is 0."
        )
    return labels


def _first_gap(in_order: NDArray[np.floating]) -> list[int]:
    rows = np.atleast_2d(in_order)
    wrong = ~np.isnan(rows) & (rows != np.arange(1, rows.shape[1] + 1))
    row = rows[np.flatnonzero(wrong.any(axis=1))[0]]
    return row[~np.isnan(row)].astype(int).tolist()
