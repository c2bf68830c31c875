"""The order and the sign of the duels; nobody else writes them down.

K labels fight P = K(K−1)/2 duels. Duel d is fought between the codes `first[d]` and
`second[d]`, with first < second, in lexicographic order: (0, 1), (0, 2), …, (K−2, K−1).
A value attached to duel d speaks for `second[d]`: a positive margin, or a probability
above one half, means that `second[d]` beats `first[d]`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["pairs"]

Float = TypeVar("Float", bound=np.floating[Any])


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
    if not isinstance(n_classes, (int, np.integer)) or n_classes < 1:
        raise ValueError(f"n_classes must be a positive integer, got {n_classes!r}.")
    return np.triu_indices(n_classes, k=1)


def n_pairs(n_classes: int) -> int:
    """Return the number of duels between K labels."""
    return n_classes * (n_classes - 1) // 2


def duel_numbers(
    first: NDArray[np.intp], second: NDArray[np.intp], n_classes: int
) -> NDArray[np.intp]:
    """Return the numbers of the duels between labels, first < second."""
    numbers: NDArray[np.intp] = first * (2 * n_classes - first - 1) // 2 + second - first - 1
    return numbers


def labels_of_duels(
    duels: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the two codes of some duels, without writing down those of all."""
    starts = duel_numbers(np.arange(n_classes - 1), np.arange(1, n_classes), n_classes)
    first = np.searchsorted(starts, duels, side="right") - 1
    return first, duels - starts[first] + first + 1


def square(values: NDArray[Float], n_classes: int) -> NDArray[Float]:
    """Write (n, P) values of the duels as antisymmetric (n, K, K): entry [i, a, b] speaks for a.

    The values are margins, or probabilities minus one half.
    """
    first, second = pairs(n_classes)
    matrix = np.zeros((*values.shape[:-1], n_classes, n_classes), dtype=values.dtype)
    matrix[..., second, first] = values
    matrix[..., first, second] = -values
    return matrix


def beats_from_square(margins: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Decide all duels of antisymmetric (n, K, K) margins; an even duel goes to the lower code."""
    n_classes = margins.shape[-1]
    upper = np.triu(np.ones((n_classes, n_classes), dtype=bool), k=1)
    return np.where(upper, margins >= 0, margins > 0)


def sides_of_labels(n_classes: int) -> NDArray[np.float64]:
    """Return 1 where a label is the second of a duel, −1 where it is the first, else 0, (P, K)."""
    first, second = pairs(n_classes)
    sides = np.zeros((len(first), n_classes))
    duels = np.arange(len(first))
    sides[duels, second], sides[duels, first] = 1, -1
    return sides


def sparse_sides_of_labels(n_classes: int) -> sparse.csr_array:
    """Return the same as a sparse array, two entries for every duel, (P, K)."""
    first, second = pairs(n_classes)
    entries = np.tile([-1.0, 1.0], len(first))
    ends = 2 * np.arange(len(first) + 1)
    shape = len(first), n_classes
    return sparse.csr_array((entries, np.stack([first, second], axis=1).ravel(), ends), shape=shape)


def duels_by_labels(n_classes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of the duel of labels a and b, and 1 if its values speak for a, else −1.

    Both are (K, K); on the diagonal, where there is no duel, they are 0.
    """
    first, second = pairs(n_classes)
    number = np.zeros((n_classes, n_classes), dtype=np.intp)
    number[first, second] = number[second, first] = np.arange(len(first))
    codes = np.arange(n_classes)
    return number, np.sign(np.subtract.outer(codes, codes))
