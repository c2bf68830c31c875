"""Who beats whom, and how often: beats, duel losses and Copeland scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank._pairs import beats_from_square, pairs, square


def beats_from_margins(margins: ArrayLike, n_classes: int) -> NDArray[np.bool_]:
    """Let the margins of the duels decide who beats whom.

    Parameters
    ----------
    margins : array-like of shape (n, P) or (P,)
        One column per duel in the order of `duelrank.pairs`; positive when the second label
        of the duel beats the first. A margin of exactly 0 goes to the first label; a `DuelRanker`
        decides it by its label order instead.
    n_classes : int
        Number of labels K, with P = K(K−1)/2.

    Returns
    -------
    beats : ndarray of bool, of shape (n, K, K) or (K, K)
        ``beats[i, a, b]``: label a wins its duel with b. The diagonal is False.

    Examples
    --------
    >>> beats_from_margins([1.5, -0.2, 0.3], n_classes=3).astype(int)
    array([[0, 0, 1],
           [1, 0, 0],
           [0, 1, 0]])
    """
    expected = len(pairs(n_classes)[0])
    margins = np.asarray(margins)
    if margins.dtype.kind not in "iufb":
        raise ValueError(f"margins must be numbers, got dtype {margins.dtype}.")
    if margins.ndim not in (1, 2) or margins.shape[-1] != expected:
        raise ValueError(
            f"margins must have one column per duel of {n_classes} labels: {expected}; "
            f"got shape {margins.shape}."
        )
    if np.isnan(margins).any():
        raise ValueError("margins must not contain NaN.")
    return beats_from_square(square(margins.astype(np.float64, copy=False), n_classes))


def duel_losses(beats: ArrayLike) -> Any:
    """Count the duels that every label loses.

    Parameters
    ----------
    beats : array-like of bool, of shape (n, K, K) or (K, K)
        Tournaments.

    Returns
    -------
    losses : ndarray of shape (n, K) or (K,)
        From 0 to K−1. One plus the losses are the paper's ranks before ties are broken.
    """
    return count_losses(check_beats(beats))


def copeland_scores(beats: ArrayLike) -> Any:
    """Return duels won minus duels lost for every label.

    Parameters
    ----------
    beats : array-like of bool, of shape (n, K, K) or (K, K)
        Tournaments.

    Returns
    -------
    scores : ndarray of shape (n, K) or (K,)
        Even or odd integers from 1−K to K−1, with rank = (K + 1 − score) / 2.
    """
    beats = check_beats(beats)
    return beats.shape[-1] - 1 - 2 * count_losses(beats)


def count_losses(beats: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the duels that every label loses; kernel of `duel_losses`."""
    return beats.sum(axis=-2, dtype=np.int64)


def check_beats(beats: ArrayLike) -> NDArray[np.bool_]:
    """Return `beats` as a boolean array after checking that every row is a tournament."""
    array = np.asarray(beats)
    if array.ndim not in (2, 3) or array.shape[-1] != array.shape[-2]:
        raise ValueError(
            f"beats must have shape (n, K, K), or (K, K) for one tournament; got {array.shape}."
        )
    as_bool = array.astype(bool)
    if array.dtype != bool and np.any(as_bool != array):
        raise ValueError(
            f"beats must hold booleans (or 0 and 1), got {array[as_bool != array].ravel()[0]!r}."
        )
    off_diagonal = ~np.eye(array.shape[-1], dtype=bool)
    if not np.array_equal(
        as_bool ^ np.swapaxes(as_bool, -1, -2), np.broadcast_to(off_diagonal, as_bool.shape)
    ) or np.any(as_bool & ~off_diagonal):
        raise ValueError(
            "beats must hold tournaments: for every two labels exactly one beats the other, "
            "and no label beats itself."
        )
    return as_bool
