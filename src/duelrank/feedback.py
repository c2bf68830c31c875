"""Feedback: what a row says about the duels between its labels.

A class label, a top-m list and a full ranking are all *feedback*, written as ranks (n, K): the
lower of two ranks wins the duel. Feedback may leave a duel open in two ways, and then the row *says
nothing* about it: the two labels share a place (a tie), or one of them is not placed (NaN).

A label that is not placed may still have lost. In a top-m list all other labels come *behind* those
listed. Where labels are missing by accident, their places are *unknown*. Lists fill the places 1..m
without a gap; rankings with labels missing by accident often have gaps. This tells the two apart,
unless the caller says which it is. Choices, preferences, and rankings that lost labels by accident
and were numbered anew look like lists, and only the caller can tell.

Where labels are many, ranks are sparse: `SparseRanks` hold the places that rows give, and no array
of all labels.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from duelrank._batches import batches, bytes_of_memory
from duelrank._pairs import pairs
from duelrank._parameters import check_choice
from duelrank.rankings import as_rows, describe_row

__all__ = ["Feedback", "SparseRanks", "check_feedback", "check_sparse_feedback", "outcomes"]

UNPLACED = ("auto", "behind", "unknown")
# Gaps in a smaller share of the rows that leave labels out may be mistakes in lists.
LEAST_SHARE_OF_GAPS = 0.25
# Places of sparse rows that are checked together.
BATCH_SIZE = 2**20
MOST_PLACES_TOLD = 12


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


@dataclass(frozen=True, eq=False)
class SparseRanks:
    """Ranks of n rows that place few of many labels; `dense` makes the array of `Feedback`.

    Attributes
    ----------
    ranks : csr_array of float64, of shape (n, K)
        The stored entries are places, the lower one wins; the columns of a row are sorted. Labels
        whose entries are not stored have no place.
    unplaced : {"behind", "unknown"}
        Where labels without a place are: behind all that have one and tied, or anywhere.
    """

    ranks: csr_array
    unplaced: str

    ndim: ClassVar[int] = 2  # as of an array of ranks; codes have one dimension

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows n, and number of labels K."""
        n_rows, n_classes = self.ranks.shape
        return n_rows, n_classes

    @property
    def n_placed(self) -> NDArray[np.intp]:
        """How many labels every row places, (n,)."""
        return np.diff(self.ranks.indptr).astype(np.intp)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: NDArray[Any] | slice) -> SparseRanks:
        """Return some of the rows: those of a boolean mask, of an array of numbers, or a slice."""
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            if rows.ndim != 1:
                raise TypeError(f"rows must be a slice or a vector, got shape {rows.shape}.")
        return SparseRanks(self.ranks[rows], self.unplaced)

    def dense(self) -> NDArray[np.float64]:
        """Return the ranks as in `Feedback`, (n, K): equal ones and NaN say nothing."""
        if self.unplaced == "behind":
            rest = _place_behind(self.extremes()[1], self.n_placed)
        else:
            rest = np.full(len(self), np.nan)
        ranks = np.empty(self.shape)
        ranks[:] = rest[:, np.newaxis]
        ranks[np.repeat(np.arange(len(self)), self.n_placed), self.ranks.indices] = self.ranks.data
        return ranks

    def check_memory(self, advice: str) -> None:
        """Raise ValueError, with advice, if `dense` would take more than half of the memory."""
        n_rows, n_classes = self.shape
        n_bytes = 8 * n_rows * n_classes
        if n_bytes > bytes_of_memory() / 2:
            raise ValueError(
                f"y is sparse, and as an array of {n_rows} rows and {n_classes} labels it would "
                f"have {n_bytes / 2**30:.0f} GiB, more than half of the memory; {advice}."
            )

    def with_columns(self, order: NDArray[np.intp]) -> SparseRanks:
        """Return the same rows with other columns: column k is the one that was ``order[k]``."""
        column = np.empty(len(order), dtype=self.ranks.indices.dtype)
        column[order] = np.arange(len(order))
        entries = self.ranks.data.copy(), column[self.ranks.indices], self.ranks.indptr
        ranks = csr_array(entries, shape=self.shape)
        ranks.sort_indices()
        return SparseRanks(ranks, self.unplaced)

    def extremes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the first and the last place that every row gives, NaN if it gives none."""
        placed = self.n_placed > 0
        starts = self.ranks.indptr[:-1][placed]
        first, last = np.full((2, len(self)), np.nan)
        if len(starts):
            first[placed] = np.minimum.reduceat(self.ranks.data, starts)
            last[placed] = np.maximum.reduceat(self.ranks.data, starts)
        return first, last

    def is_ambiguous(self) -> bool:
        """Tell whether labels left out may be meant in two ways, as `is_ambiguous` does."""
        first, last = self.extremes()
        return bool(np.any((self.n_placed < self.shape[1]) & (first < last)))

    def reveals_nothing(self) -> NDArray[np.bool_]:
        """Tell which rows place no label ahead of another one, (n,)."""
        first, last = self.extremes()
        tells = first < last
        if self.unplaced == "behind":
            tells |= (self.n_placed > 0) & (self.n_placed < self.shape[1])
        return ~tells

    def single_labels(self) -> NDArray[np.intp] | None:
        """Return codes if every row places one label ahead of all others, which are tied."""
        n_classes = self.shape[1]
        full = self.n_placed == n_classes
        one = (self.n_placed == 1) & (self.unplaced == "behind")
        if not np.all(full | one):
            return None
        codes = np.empty(len(self), dtype=np.intp)
        codes[one] = self.ranks.indices[self.ranks.indptr[:-1][one]]
        if full.any():
            of_full = single_labels(
                self.ranks.data[np.repeat(full, self.n_placed)].reshape(-1, n_classes)
            )
            if of_full is None:
                return None
            codes[full] = of_full
        return codes


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
          have gaps. In between it is an error. Choices and preferences have no gaps: say "unknown".
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
    verdict = _judge(np.sort(places, axis=1), width)  # NaN last
    _refuse_bad_rows(verdict, width, name, lambda wrong: describe_row(places, wrong[:, np.newaxis]))
    missing = np.isnan(places)
    n_placed = np.count_nonzero(~missing, axis=1)
    if unplaced == "auto":
        unplaced = _guess(verdict.has_gap, n_placed, width, name)
    if unplaced == "behind" and np.any(missing):
        behind = _place_behind(np.fmax.reduce(places, axis=1, initial=0), n_placed)
        places = np.where(missing, behind[:, np.newaxis], places)
    return Feedback(places, unplaced)


def check_sparse_feedback(
    ranks: Any, *, unplaced: str = "auto", n_classes: int | None = None, name: str = "ranks"
) -> SparseRanks:
    """Check sparse ranks that rows are to be learned from; the rules are those of `check_feedback`.

    Parameters
    ----------
    ranks : sparse array or matrix of shape (n, K)
        The stored entries are places from 1 to K; labels whose entries are not stored, or are NaN,
        have no place.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `check_feedback`.
    n_classes : int, default=None
        The expected K; any from 2 on by default.
    name : str, default="ranks"
        The argument's name, for the error message.

    Returns
    -------
    ranks : SparseRanks
        The same places.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> told = check_sparse_feedback(csr_array([[1, 0, 2], [0, 1, 0]]), unplaced="unknown")
    >>> told.dense()
    array([[ 1., nan,  2.],
           [nan,  1., nan]])
    """
    check_choice("unplaced", unplaced, UNPLACED)
    shape: tuple[int, ...] = getattr(ranks, "shape", ())
    if not issparse(ranks) or len(shape) != 2 or shape[1] < 2:
        raise ValueError(
            f"{name} must be sparse of shape (n, K), one column per label, K ≥ 2; got "
            f"{type(ranks).__name__} of shape {shape}."
        )
    width = shape[1]
    if n_classes is not None and width != n_classes:
        raise ValueError(f"{name} must have one column per label: {n_classes}, got {width}.")
    places = _stored_places(ranks, name)
    verdict = _judge_stored(places)
    _refuse_bad_rows(verdict, width, name, lambda wrong: _describe_stored(places, wrong))
    if unplaced == "auto":
        unplaced = _guess(verdict.has_gap, np.diff(places.indptr), width, name)
    return SparseRanks(places, unplaced)


def is_ambiguous(places: NDArray[np.float64]) -> bool:
    """Tell whether labels left out may be meant in two ways.

    They may if some row that leaves labels out places one label ahead of another. A row with one
    label, or with several that are all tied, would say nothing if the others were unknown; so it
    means that they are behind.

    Parameters
    ----------
    places : ndarray of float, of shape (n, K)
        Ranks, NaN for labels left out.
    """
    return bool(np.any(np.isnan(places).any(axis=1) & ~reveals_nothing(places)))


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


class _Verdict(NamedTuple):
    """What is wrong with rows of places, and which of them leave a place vacant; (n,) each."""

    out_of_range: NDArray[np.bool_]
    misplaced: NDArray[np.bool_]
    has_gap: NDArray[np.bool_]


def _guess(
    has_gap: NDArray[np.bool_], n_placed: NDArray[np.integer], n_classes: int, name: str
) -> str:
    """Tell lists from rankings with labels missing by accident, or refuse to."""
    partial = (n_placed > 0) & (n_placed < n_classes)
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


def _place_behind(last: NDArray[np.float64], n_placed: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the place that all labels behind a list share, (n,)."""
    return np.fmax(last, n_placed) + 1


def _refuse_bad_rows(
    verdict: _Verdict, n_classes: int, name: str, describe: Callable[[NDArray[np.bool_]], str]
) -> None:
    """Raise for rows that are no rankings; `describe` shows the first row of a mask."""
    if np.any(verdict.out_of_range):
        raise ValueError(
            f"{name} must hold places from 1 to {n_classes}, the number of labels, or NaN for no "
            f"place, but {describe(verdict.out_of_range)}."
        )
    if np.any(verdict.misplaced):
        raise ValueError(
            f"{name} must hold whole places, different ones unless labels are tied, and a tie "
            "takes as many places as it has labels (1, 2, 2, 4 or 1, 2.5, 2.5, 4), but "
            f"{describe(verdict.misplaced)}."
        )


def _judge(in_order: NDArray[np.float64], n_classes: int) -> _Verdict:
    """Judge rows of places in increasing order, NaN last; there may be fewer columns than K."""
    width = in_order.shape[1]
    placed = ~np.isnan(in_order)
    out_of_range = np.any(placed & ~((in_order >= 1) & (in_order <= n_classes)), axis=1)
    in_order = np.clip(in_order, 0, n_classes + 1)  # infinity cannot be computed with
    # Tied labels take places one after another: from their own on, or around the average.
    new = np.ones((len(in_order), width + 1), dtype=bool)
    new[:, 1:-1] = in_order[:, 1:] != in_order[:, :-1]
    column = np.arange(width)
    start = np.maximum.accumulate(np.where(new[:, :-1], column, 0), axis=1)
    reversed_end = np.where(new[:, :0:-1], column[::-1], width)
    end = np.minimum.accumulate(reversed_end, axis=1)[:, ::-1]
    from_own = in_order + (column - start)
    around = from_own - (end - start) / 2
    own_fits = _are_places(from_own, placed, n_classes, 1.0)
    around_fits = _are_places(around, placed, n_classes, 0.5)
    # Where both readings fit, as for 2, 2, 2, NaN, the one without a gap counts.
    no_gap = np.zeros(len(in_order), dtype=bool)
    for taken, fit in ((from_own, own_fits), (around, around_fits)):
        last = np.where(placed, taken, 0).max(axis=1)
        no_gap |= fit & (last <= np.count_nonzero(placed, axis=1))
    return _Verdict(out_of_range, ~(own_fits | around_fits), ~no_gap)


def _are_places(
    taken: NDArray[np.float64], placed: NDArray[np.bool_], n_classes: int, unit: float
) -> NDArray[np.bool_]:
    """Tell in which rows the placed labels take places of their own, multiples of the unit."""
    inside = (taken >= 1) & (taken <= n_classes) & (taken % unit == 0)
    apart = taken[:, 1:] - taken[:, :-1] >= 1
    own: NDArray[np.bool_] = np.all(inside | ~placed, axis=1) & np.all(
        apart | ~placed[:, 1:], axis=1
    )
    return own


def _stored_places(ranks: Any, name: str) -> csr_array:
    """Return sparse ranks of any form as floats in sorted columns, without NaN among them."""
    if ranks.dtype.kind not in "iufb":
        raise ValueError(f"{name} must be numbers, got dtype {ranks.dtype}.")
    places = csr_array(ranks, dtype=np.float64, copy=True)
    n_stored = places.nnz
    places.sum_duplicates()  # sorts the columns too
    if places.nnz < n_stored or _n_entries(ranks) > n_stored:
        raise ValueError(f"{name} must hold every entry once, got several for the same label.")
    stored = ~np.isnan(places.data)
    if not stored.all():
        ends = np.append(0, np.cumsum(stored))[places.indptr]
        places = csr_array((places.data[stored], places.indices[stored], ends), shape=places.shape)
    return places


def _n_entries(ranks: Any) -> int:
    """Return how many entries are stored, those for the same cell counted one by one."""
    return len(ranks.data) if ranks.format == "coo" else 0


def _judge_stored(places: csr_array) -> _Verdict:
    """Judge the rows of sparse ranks; a row that places no label is all right and has no gap."""
    verdict = _Verdict(*np.zeros((3, places.shape[0]), dtype=bool))
    for rows, stored in _rows_by_length(places):
        for whole, part in zip(
            verdict, _judge(np.sort(stored, axis=1), places.shape[1]), strict=True
        ):
            whole[rows] = part
    return verdict


def _rows_by_length(
    places: csr_array,
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Yield rows that place equally many labels: which rows, and their places as an array."""
    lengths = np.diff(places.indptr)
    by_length = np.argsort(lengths, kind="stable")
    different, starts = np.unique(lengths[by_length], return_index=True)
    for length, rows in zip(different.tolist(), np.split(by_length, starts[1:]), strict=True):
        for batch in batches(len(rows), BATCH_SIZE // length) if length else ():
            some = rows[batch]
            yield some, places.data[places.indptr[some][:, np.newaxis] + np.arange(length)]


def _describe_stored(places: csr_array, wrong: NDArray[np.bool_]) -> str:
    """Name the first row with something wrong in it, and show its places and their columns."""
    row = int(np.argmax(wrong))
    entries = slice(places.indptr[row], places.indptr[row + 1])
    told = dict(zip(places.indices[entries].tolist(), places.data[entries].tolist(), strict=True))
    more = ", …" if len(told) > MOST_PLACES_TOLD else ""
    shown = ", ".join(f"{c}: {p}" for c, p in list(told.items())[:MOST_PLACES_TOLD])
    return f"row {row} is {{{shown}{more}}}, places by column"
