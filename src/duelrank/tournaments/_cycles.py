"""Cycles of tournaments, read off the sorted losses.

A tournament falls into *components*: inside one, every label can be reached from every other
along won duels; between two, all duels go one way. With the losses sorted increasingly, a
component ends wherever the first m of them sum to m(m−1)/2 (Landau). A component of more than
one label has at least three and holds a cycle through all of them; the tournament is
transitive when there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.tournaments._copeland import check_beats, count_losses


def is_transitive(beats: ArrayLike) -> Any:
    """Tell which tournaments have no cycle.

    Parameters
    ----------
    beats : array-like of bool, of shape (n, K, K) or (K, K)
        Tournaments.

    Returns
    -------
    transitive : ndarray of bool, of shape (n,), or bool
        True exactly when the losses of the row are a permutation of 0..K−1.
    """
    return transitive_from_losses(count_losses(check_beats(beats)))


def components(beats: ArrayLike) -> Any:
    """Return the strongly connected component of every label.

    Parameters
    ----------
    beats : array-like of bool, of shape (n, K, K) or (K, K)
        Tournaments.

    Returns
    -------
    components : ndarray of int, of shape (n, K) or (K,)
        Labels share a number when they are in the same component. Every label of component
        0 beats every label of component 1, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> beats = np.array([[0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]])
    >>> components(beats)
    array([0, 0, 0, 1])
    """
    return components_from_losses(count_losses(check_beats(beats)))


def in_cycle(beats: ArrayLike) -> Any:
    """Tell which labels are part of a cycle.

    Parameters
    ----------
    beats : array-like of bool, of shape (n, K, K) or (K, K)
        Tournaments.

    Returns
    -------
    cyclic : ndarray of bool, of shape (n, K) or (K,)
        True for the labels of components of three or more.
    """
    return cyclic_from_components(components(beats))


def transitive_from_losses(losses: NDArray[np.int64]) -> Any:
    """Tell which rows of losses are permutations of 0..K−1; kernel of `is_transitive`."""
    return (np.sort(losses, axis=-1) == np.arange(losses.shape[-1])).all(axis=-1)


def components_from_losses(losses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the components by Landau's partial sums; kernel of `components`."""
    n_classes = losses.shape[-1]
    order = np.argsort(losses, axis=-1, kind="stable")
    partial_sums = np.cumsum(np.take_along_axis(losses, order, axis=-1), axis=-1)
    size = np.arange(1, n_classes + 1)
    ends = partial_sums == size * (size - 1) // 2
    numbers = np.cumsum(ends, axis=-1) - ends
    result = np.empty_like(losses)
    np.put_along_axis(result, order, numbers, axis=-1)
    return result


def cyclic_from_components(components: NDArray[np.int64]) -> Any:
    """Tell which labels share their component with another one; kernel of `in_cycle`."""
    in_order = np.sort(components, axis=-1)
    same_as_next = in_order[..., 1:] == in_order[..., :-1]
    shared = np.zeros(components.shape, dtype=bool)
    shared[..., 1:] |= same_as_next
    shared[..., :-1] |= same_as_next
    # Sorted positions back to labels: components are numbered in sorted order, so a stable
    # argsort visits the labels in the same order.
    result = np.empty_like(shared)
    np.put_along_axis(result, np.argsort(components, axis=-1, kind="stable"), shared, axis=-1)
    return result
