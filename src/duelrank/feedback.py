"""Feedback: what a row says about the duels between its labels.

A class label, a top-m list and a full ranking are all *feedback*, written as ranks (n, K): the
lower of two ranks wins the duel. Feedback may leave a duel open in two ways, and then the row *says
nothing* about it: the two labels share a place (a tie), or one of them is not placed (NaN).

A label that is not placed may still have lost. In a top-m list all other labels come *behind* those
listed. Where labels are missing by accident, their places are *unknown*. Lists fill the places 1..m
without a gap; rankings with labels missing by accident often have gaps. This tells the two apart,
unless the caller says which it is. If labels are missing by accident and the others are numbered
anew, rankings look like lists, and only the caller can tell.

>>> import numpy as np
>>> lists = np.array([[1, np.nan, np.nan], [2, np.nan, 1]])
>>> check_feedback(lists).ranks
array([[1., 2., 2.],
       [2., 3., 1.]])
>>> outcomes(check_feedback(lists).ranks)  # of the duels 0-1, 0-2, 1-2; 1: the second label wins
array([[-1, -1,  0],
       [-1,  1,  1]], dtype=int8)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank._pairs import pairs
from duelrank._parameters import check_choice
from duelrank.rankings import as_rows, describe_row

__all__ = ["Feedback", "check_feedback", "outcomes"]

UNPLACED = ("auto", "behind", "unknown")
# Gaps in a smaller share of the rows that leave labels out may be mistakes in lists.
LEAST_SHARE_OF_GAPS = 0.25


class Feedback(NamedTuple):
    """Ranks of n rows that mean the same everywhere.

    Attributes
    ----------
    ranks : ndarray of float, of shape (n, K)
        The lower rank wins; equal ranks and NaN say nothing. Labels behind a top-m list share a
        place behind it.
    unplaced : {"behind", "unknown"}
        What NaN was taken for.
    """

    ranks: NDArray[np.float64]
    unplaced: str


def check_feedback(
    ranks: ArrayLike, *, unplaced: str = "auto", n_classes: int | None = None, name: str = "ranks"
) -> Feedback:
    """Check ranks that rows are to be learned from, and settle what their NaN mean.

    Parameters
    ----------
    ranks : array-like of shape (n, K)
        Places from 1 to K, NaN for labels not placed. Tied labels share the first of the places
        that they take, 1, 2, 2, 4, or the average of these, 1, 2.5, 2.5, 4.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed:

        - "behind": behind all that are placed, as in top-m lists;
        - "unknown": anywhere; they are missing by accident;
        - "auto": looks at the rows that place some labels and leave others out. It is "behind" if
          all of them fill the places 1..m without a gap, and "unknown" if a quarter of them or more
          have gaps. In between it is an error.
    n_classes : int, default=None
        The expected K; any from 2 on by default.
    name : str, default="ranks"
        The argument's name, for the error message.

    Returns
    -------
    feedback : Feedback
        The ranks in a form in which NaN says nothing.
    """
    check_choice("unplaced", unplaced, UNPLACED)
    places = as_rows(ranks, name).astype(np.float64)
    if places.ndim != 2 or places.shape[1] < 2:
        raise ValueError(
            f"{name} must have shape (n, K), one column per label, K ≥ 2; got {places.shape}."
        )
    width = places.shape[1]
    if n_classes is not None and width != n_classes:
        raise ValueError(f"{name} must have one column per label: {n_classes}, got {width}.")
    has_gap = _check_places(places, name)
    missing = np.isnan(places)
    if unplaced == "auto":
        unplaced = _guess(has_gap, missing, name)
    if unplaced == "behind" and np.any(missing):
        n_placed = np.count_nonzero(~missing, axis=1, keepdims=True)
        last = np.fmax.reduce(places, axis=1, keepdims=True, initial=0)
        places = np.where(missing, np.maximum(last, n_placed) + 1, places)
    return Feedback(places, unplaced)


def as_ranks(feedback: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """Return feedback as ranks, whether it holds codes or ranks.

    Parameters
    ----------
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks as in `Feedback`.
    n_classes : int
        Number of labels K.
    """
    return feedback_from_codes(feedback, n_classes) if feedback.ndim == 1 else feedback


def feedback_from_codes(codes: NDArray[np.intp], n_classes: int) -> NDArray[np.float64]:
    """Write labels as ranks: 1 for the label of the row, 2 for all others.

    Parameters
    ----------
    codes : ndarray of int, of shape (n,)
        Labels as integers 0..K−1.
    n_classes : int
        Number of labels K.

    Returns
    -------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.
    """
    ranks = np.full((len(codes), n_classes), 2.0)
    ranks[np.arange(len(codes)), codes] = 1
    return ranks


def single_labels(ranks: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Return codes if every row places one label ahead of all others, which are tied; else None.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.

    Returns
    -------
    codes : ndarray of int, of shape (n,), or None
        None if some row says anything else.
    """
    if np.isnan(ranks).any():
        return None
    best = ranks.min(axis=1, keepdims=True)
    rest = np.where(ranks == best, np.inf, ranks).min(axis=1, keepdims=True)
    one_ahead = np.count_nonzero(ranks == best, axis=1) == 1
    if not np.all(one_ahead & np.all((ranks == best) | (ranks == rest), axis=1)):
        return None
    return np.argmin(ranks, axis=1)


def reveals_nothing(ranks: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which rows place no label ahead of another one.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.

    Returns
    -------
    silent : ndarray of bool, of shape (n,)
        True for rows that leave all duels open.
    """
    silent: NDArray[np.bool_] = ~(np.fmin.reduce(ranks, axis=1) < np.fmax.reduce(ranks, axis=1))
    return silent


def outcomes(
    ranks: NDArray[np.float64], duels: NDArray[np.intp] | slice = slice(None)
) -> NDArray[np.int8]:
    """Tell who wins the duels of every row.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.
    duels : ndarray of int or slice, default=all
        Which of the K(K−1)/2 duels, in the order of `duelrank.pairs`.

    Returns
    -------
    outcomes : ndarray of int8, of shape (n, number of duels)
        1 where the second label wins, −1 where the first one does, 0 where the row says nothing.
    """
    first, second = (side[duels] for side in pairs(ranks.shape[1]))
    ahead, behind = ranks[:, second], ranks[:, first]
    return (ahead < behind).astype(np.int8) - (ahead > behind).astype(np.int8)


def duels_won(
    ranks: NDArray[np.float64], weights: NDArray[np.floating] | None = None
) -> NDArray[np.float64]:
    """Sum how often every label is ahead of every other one.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `Feedback`.
    weights : ndarray of shape (n,), default=None
        Weights of the rows; 1 by default.

    Returns
    -------
    won : ndarray of float, of shape (K, K)
        ``won[a, b]`` is the weight of the rows that place a ahead of b.
    """
    share = np.ones(len(ranks)) if weights is None else weights
    return np.stack([share @ (column[:, np.newaxis] < ranks) for column in ranks.T])


def _guess(has_gap: NDArray[np.bool_], missing: NDArray[np.bool_], name: str) -> str:
    """Tell lists from rankings with labels missing by accident, or refuse to."""
    partial = np.any(missing, axis=1) & ~np.all(missing, axis=1)
    n_gaps, n_partial = np.count_nonzero(has_gap & partial), np.count_nonzero(partial)
    if n_gaps == 0:
        return "behind"
    # If some of three labels are missing by accident, two of three rows have a gap; with more
    # labels, more rows do.
    if n_gaps < LEAST_SHARE_OF_GAPS * n_partial:
        raise ValueError(
            f"{name} leaves labels out in {n_partial} rows, of which {n_gaps} have gaps between "
            f"places, for example row {int(np.argmax(has_gap & partial))}: say unplaced='behind' "
            "if they are top-m lists all the same, or unplaced='unknown' if labels are missing."
        )
    return "unknown"


def _check_places(places: NDArray[np.float64], name: str) -> NDArray[np.bool_]:
    """Raise for rows that are no rankings; tell which rows leave a place vacant, (n,)."""
    n_classes = places.shape[1]
    in_order = np.sort(places, axis=1)  # NaN last
    placed = ~np.isnan(in_order)
    out_of_range = placed & ~((in_order >= 1) & (in_order <= n_classes))
    if np.any(out_of_range):
        raise ValueError(
            f"{name} must hold places from 1 to {n_classes}, the number of labels, or NaN for no "
            f"place, but {describe_row(places, out_of_range)}."
        )
    # Tied labels take places one after another: from their own on, or around the average.
    new = np.ones((len(places), n_classes + 1), dtype=bool)
    new[:, 1:-1] = in_order[:, 1:] != in_order[:, :-1]
    column = np.arange(n_classes)
    start = np.maximum.accumulate(np.where(new[:, :-1], column, 0), axis=1)
    reversed_end = np.where(new[:, :0:-1], column[::-1], n_classes)
    end = np.minimum.accumulate(reversed_end, axis=1)[:, ::-1]
    from_own = in_order + (column - start)
    around = from_own - (end - start) / 2
    own_fits = _are_places(from_own, placed, 1.0)
    around_fits = _are_places(around, placed, 0.5)
    fits = own_fits | around_fits
    if not np.all(fits):
        raise ValueError(
            f"{name} must hold whole places, different ones unless labels are tied, and a tie "
            "takes as many places as it has labels (1, 2, 2, 4 or 1, 2.5, 2.5, 4), but "
            f"{describe_row(places, ~fits[:, np.newaxis])}."
        )
    # Where both readings fit, as for 2, 2, 2, NaN, the one without a gap counts.
    no_gap = np.zeros(len(places), dtype=bool)
    for taken, fit in ((from_own, own_fits), (around, around_fits)):
        last = np.where(placed, taken, 0).max(axis=1)
        no_gap |= fit & (last <= np.count_nonzero(placed, axis=1))
    has_gap: NDArray[np.bool_] = ~no_gap
    return has_gap


def _are_places(
    taken: NDArray[np.float64], placed: NDArray[np.bool_], unit: float
) -> NDArray[np.bool_]:
    """Tell in which rows the placed labels take places of their own, multiples of the unit."""
    inside = (taken >= 1) & (taken <= taken.shape[1]) & (taken % unit == 0)
    apart = taken[:, 1:] - taken[:, :-1] >= 1
    own: NDArray[np.bool_] = np.all(inside | ~placed, axis=1) & np.all(
        apart | ~placed[:, 1:], axis=1
    )
    return own
