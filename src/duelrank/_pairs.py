"""The order and the sign of the duels; nobody else writes them down.

K labels fight P = K(K−1)/2 duels. Duel d is fought between the codes `first[d]` and
`second[d]`, with first < second, in lexicographic order: (0, 1), (0, 2), …, (K−2, K−1).
A value attached to duel d speaks for `second[d]`: a positive margin, or a probability
above one half, means that `second[d]` beats `first[d]`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["pairs"]


def pairs(n_classes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the two codes of every duel.

    Parameters
    ----------
    n_classes : int
        Number of labels K.

    Returns
    -------
    first, second : ndarray of shape (K(K−1)/2,)
        Codes of the labels of every duel, first < second, in lexicographic order.

    Examples
    --------
    >>> from duelrank import pairs
    >>> first, second = pairs(3)
    >>> first
    array([0, 0, 1])
    >>> second
    array([1, 2, 2])
    """
    return np.triu_indices(n_classes, k=1)


def n_pairs(n_classes: int) -> int:
    """Return the number of duels between K labels."""
    return n_classes * (n_classes - 1) // 2


def square_margins(margins: NDArray[np.floating], n_classes: int) -> NDArray[np.floating]:
    """Write (n, P) margins as (n, K, K): entry [i, a, b] is positive when a beats b."""
    first, second = pairs(n_classes)
    square = np.zeros((*margins.shape[:-1], n_classes, n_classes), dtype=margins.dtype)
    square[..., second, first] = margins
    square[..., first, second] = -margins
    return square


def square_probabilities(
    probabilities: NDArray[np.floating], n_classes: int
) -> NDArray[np.floating]:
    """Write (n, P) duel probabilities as (n, K, K): entry [i, a, b] is P(a beats b)."""
    first, second = pairs(n_classes)
    square = np.full(
        (*probabilities.shape[:-1], n_classes, n_classes), 0.5, dtype=probabilities.dtype
    )
    square[..., second, first] = probabilities
    square[..., first, second] = 1 - probabilities
    return square
