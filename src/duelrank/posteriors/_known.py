"""What follows from known posteriors: optimal ranks, duel probabilities, Bayes duels, labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from duelrank._pairs import pairs
from duelrank.rankings import ranks_from_scores
from duelrank.tournaments import check_probabilities, count_losses, transitive_from_losses


def optimal_ranks(eta: ArrayLike) -> NDArray[np.int64]:
    """Rank labels by decreasing probability: the paper's σ*.

    Parameters
    ----------
    eta : array-like of shape (n, K) or (K,)
        Non-negative; of two equal labels the one in the lower column comes first.

    Returns
    -------
    ranks : ndarray of int, of the same shape
        1 for the most probable label. This is one plus the duels lost in `bayes_beats`.

    Examples
    --------
    >>> optimal_ranks([0.2, 0.5, 0.3])
    array([3, 1, 2])
    """
    return ranks_from_scores(check_eta(eta))


def duel_probabilities(eta: ArrayLike) -> NDArray[np.float64]:
    """Return the probability that a beats b, for every two labels.

    Given that the label is a or b, it is a with probability eta_a / (eta_a + eta_b). The same
    number is the probability that a comes before b in a Plackett-Luce ranking with weights eta.

    Parameters
    ----------
    eta : array-like of shape (n, K) or (K,)
        Non-negative.

    Returns
    -------
    probabilities : ndarray of shape (n, K, K) or (K, K)
        ``probabilities[i, a, b]``: eta_a / (eta_a + eta_b); one half on the diagonal and between
        two labels of probability 0.

    Examples
    --------
    >>> duel_probabilities([0.2, 0.6, 0.2])
    array([[0.5 , 0.25, 0.5 ],
           [0.75, 0.5 , 0.75],
           [0.5 , 0.25, 0.5 ]])
    """
    eta = _rescale(check_eta(eta))
    a, b = eta[..., :, np.newaxis], eta[..., np.newaxis, :]
    total = a + b
    return np.divide(a, total, out=np.full(total.shape, 0.5), where=total > 0)


def duel_gaps(eta: ArrayLike) -> NDArray[np.float64]:
    """Return how far every duel is from a coin: |2p − 1|, p its probability.

    Parameters
    ----------
    eta : array-like of shape (n, K) or (K,)
        Non-negative.

    Returns
    -------
    gaps : ndarray of shape (n, K(K−1)/2) or (K(K−1)/2,)
        |eta_a − eta_b| / (eta_a + eta_b), one column per duel in the order of `duelrank.pairs`;
        0 between two labels of probability 0. Columns are what the noise condition asks for.

    Examples
    --------
    >>> duel_gaps([0.2, 0.6, 0.2]).round(3)
    array([0.5, 0. , 0.5])
    """
    eta = _rescale(check_eta(eta))
    first, second = pairs(eta.shape[-1])
    a, b = eta[..., first], eta[..., second]
    total = a + b
    return np.divide(np.abs(a - b), total, out=np.zeros(total.shape), where=total > 0)


def bayes_beats(eta: ArrayLike) -> NDArray[np.bool_]:
    """Tell who wins every duel when eta is known.

    Parameters
    ----------
    eta : array-like of shape (n, K) or (K,)
        Non-negative; a duel of two equal labels goes to the one in the lower column.

    Returns
    -------
    beats : ndarray of bool, of shape (n, K, K) or (K, K)
        ``beats[i, a, b]``: a is more probable than b. These tournaments have no cycles, and one
        plus the duels lost are the `optimal_ranks`.

    Examples
    --------
    >>> bayes_beats([0.2, 0.5, 0.3]).astype(int)
    array([[0, 0, 0],
           [1, 0, 1],
           [1, 0, 0]])
    """
    ranks = optimal_ranks(eta)
    # Ranks are compared, not probabilities: two eta may differ by less than their quotient shows.
    beats: NDArray[np.bool_] = ranks[..., :, np.newaxis] < ranks[..., np.newaxis, :]
    return beats


def is_strictly_transitive(probabilities: ArrayLike) -> Any:
    """Tell which pairwise probabilities are strictly stochastically transitive.

    That is, no two different labels are even, and a beats c with more than one half whenever a
    beats b and b beats c with more than one half. Then a unique order contradicts no duel.
    Probabilities that come from eta are strictly transitive if no two labels are equally
    probable; those of fitted duels need not be.

    Parameters
    ----------
    probabilities : array-like of shape (n, K, K) or (K, K)
        ``probabilities[i, a, b]``: probability that a beats b, with ``probabilities[i, b, a]``
        its complement. The diagonal is ignored.

    Returns
    -------
    transitive : ndarray of bool, of shape (n,), or bool
        One answer a row.

    Examples
    --------
    >>> is_strictly_transitive(duel_probabilities([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]]))
    array([ True, False])
    """
    array = check_probabilities(probabilities)
    beats = array > np.swapaxes(array, -1, -2)
    # An even duel is won by nobody, so there are too few losses for a permutation of 0..K−1.
    return transitive_from_losses(count_losses(beats))


def sample_labels(eta: ArrayLike, random_state: Any = None) -> Any:
    """Draw one label from every row of posteriors.

    Parameters
    ----------
    eta : array-like of shape (n, K) or (K,)
        Non-negative, and positive for at least one label in every row. Label k is drawn with
        probability eta_k / Σ eta.
    random_state : int, RandomState instance or None, default=None
        Source of randomness: one uniform number a row.

    Returns
    -------
    codes : ndarray of int, of shape (n,), or int
        The labels, 0..K−1. A label of probability 0 is never drawn.

    Examples
    --------
    >>> sample_labels([[0.2, 0.8, 0.0], [3, 1, 2], [0, 0, 5]], random_state=0)
    array([1, 2, 2])
    """
    eta = _rescale(check_eta(eta))
    cumulated = np.cumsum(eta, axis=-1)
    total = cumulated[..., -1:]
    impossible = np.flatnonzero(total == 0)
    if len(impossible):
        raise ValueError(
            f"eta must be positive for at least one label in every row; row {impossible[0]} is all "
            "zero."
        )
    thresholds = check_random_state(random_state).uniform(size=total.shape) * total
    return np.sum(cumulated <= thresholds, axis=-1)


def check_eta(eta: ArrayLike, name: str = "eta") -> NDArray[np.float64]:
    """Return posteriors or weights as floats after checking that they are finite and ≥ 0."""
    try:
        array = np.asarray(eta, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers in rows of equal length.") from None
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise ValueError(
            f"{name} must have shape (n, K), or (K,) for one row, K ≥ 1; got {array.shape}."
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        raise ValueError(f"{name} must be finite and not negative, got {array[wrong][0]}.")
    return array


def _rescale(eta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale rows near the ends of the floats, where sums overflow and products lose their digits.

    Only ratios matter, and powers of two leave them exactly as they are.
    """
    _, exponents = np.frexp(eta.max(axis=-1, keepdims=True))
    shifts = np.where(exponents > 1000, -24, np.where(exponents < -900, 900, 0))
    return np.ldexp(eta, shifts)
