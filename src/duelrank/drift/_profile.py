"""A profile: what the rows looked like that a model was fitted on, in a few kilobytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from duelrank._classifiers import known_labels
from duelrank._sklearn import as_indexable, predictor_inside
from duelrank.drift._columns import (
    SIDES,
    Column,
    column_names,
    read_column,
    without_themselves,
)
from duelrank.drift._ranked import MOST_LABELS, Ranked, learned_rows, rank_unseen
from duelrank.drift._seen import seen_by

__all__ = ["Profile"]

N_BINS, MOST_VALUES = 20, 30  # of a column, where there are not many columns
MOST_BINS = 4_000  # of all columns together
FEWEST_BINS = 5
N_BUCKETS, N_SALTS = 64, 8
MOST_COLUMNS = 2_000


@dataclass(frozen=True)
class Bins:
    """How numbers are distributed: counts between edges.

    Attributes
    ----------
    low, high : float
        The smallest and the largest number.
    mean : float
        Their mean.
    edges : tuple of float
        Increasing; a number belongs to the first edge that is not below it.
    counts : tuple of int
        One more than edges: the last one is above all edges.
    single : bool
        Whether every bin is one value.
    """

    low: float
    high: float
    mean: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    single: bool

    @staticmethod
    def of(numbers: NDArray[np.float64], n_bins: int = N_BINS) -> Bins:
        """Count numbers, NaN left out, between their own quantiles."""
        known = np.sort(numbers[~np.isnan(numbers)])
        if len(known) == 0:
            return Bins(0.0, 0.0, 0.0, (), (0,), False)
        low, high, mean = float(known[0]), float(known[-1]), float(f"{known.mean():.6g}")
        single = bool(np.count_nonzero(np.diff(known)) < n_bins)
        if single:
            edges = np.unique(known)[:-1]
        else:
            # Few digits make the profile small; the counts are those of the rounded edges.
            decimals = 4 - int(np.floor(np.log10(high - low)))
            quantiles = known[np.arange(1, n_bins) * len(known) // n_bins]
            edges = np.unique(np.round(quantiles, min(max(decimals, -300), 300)))
            edges = edges[(edges >= low) & (edges < high)]
        counts = np.diff([0, *np.searchsorted(known, edges, side="right"), len(known)])
        return Bins(low, high, mean, tuple(edges.tolist()), tuple(counts.tolist()), single)

    def count(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count other numbers between the same edges."""
        known = numbers[~np.isnan(numbers)]
        places = np.searchsorted(np.array(self.edges), known, side="left")
        return np.bincount(places, minlength=len(self.edges) + 1).astype(np.int64)

    def compared_with(
        self, numbers: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return groups of these numbers and of others, to compare them.

        If bins are single values, any other value is a group too. Otherwise those below all and
        above all of these numbers are.
        """
        known, old = numbers[~np.isnan(numbers)], np.array(self.counts)
        if self.single:
            values = np.array([*self.edges, self.high])
            every, counts = np.unique(np.concatenate([values, known]), return_counts=True)
            is_old = np.isin(every, values)
            before = np.zeros(len(every), dtype=np.int64)
            before[is_old] = old
            return before, counts - is_old
        n_below, n_above = int((known < self.low).sum()), int((known > self.high).sum())
        new = self.count(known)
        new[0] -= n_below
        new[-1] -= n_above
        return np.array([0, *old, 0]), np.array([n_below, *new, n_above])

    @property
    def n_rows(self) -> int:
        """How many numbers there are."""
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """Return about the number that this share of numbers does not exceed."""
        ends, below = [*self.edges, self.high], np.cumsum(self.counts)
        if not self.single:
            at = [0, *below.tolist()]
            return float(np.interp(share * self.n_rows, at, [self.low, *ends]))
        place = int(np.searchsorted(below, share * self.n_rows - 1e-9))
        return float(ends[min(place, len(ends) - 1)])


@dataclass(frozen=True)
class Values:
    """How categories are distributed.

    Attributes
    ----------
    names : tuple of str
        The most frequent values.
    counts : tuple of int
        How many rows have them.
    others : int
        How many rows have other values.
    n_values, n_single : int
        How many values there are, and how many of them a single row has.
    salt : int
        Together with a value, it tells its bucket.
    buckets : tuple of int
        How many rows have values of every bucket. The frequent values are those that chance made
        frequent too, and they are less frequent in new rows; buckets do not depend on counts, so
        they can be compared with those of new rows.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    others: int
    n_values: int
    n_single: int
    salt: int
    buckets: tuple[int, ...]

    @staticmethod
    def of(values: Sequence[str], most: int = MOST_VALUES) -> Values:
        """Count values, none of them missing."""
        counter = Counter(values)
        common = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
        kept = common[:most]
        names = tuple(name for name, _ in kept)
        # So that the most frequent values have buckets of their own.
        salt = max(range(N_SALTS), key=lambda salt: len({_bucket(n, salt) for n in names[:10]}))
        return Values(
            names,
            tuple(number for _, number in kept),
            sum(number for _, number in common[most:]),
            len(common),
            sum(number == 1 for number in counter.values()),
            salt,
            tuple(count_buckets(counter, salt).tolist()),
        )


def count_buckets(counter: Mapping[str, int], salt: int) -> NDArray[np.int64]:
    """Count the rows of every bucket of values."""
    buckets = np.zeros(N_BUCKETS, dtype=np.int64)
    for value, number in counter.items():
        buckets[_bucket(value, salt)] += number
    return buckets


def _bucket(value: str, salt: int) -> int:
    return crc32(value.encode("utf-8", "replace"), salt) % N_BUCKETS


@dataclass(frozen=True)
class ColumnProfile:
    """What a column looked like.

    Attributes
    ----------
    kind : str
        "number", "boolean", "date", "category", "text" or "vector".
    missing : int
        How many cells were missing, or empty texts.
    measures : dict of str to Bins
        Numbers about the cells; none of categories.
    values : Values or None
        Categories.
    """

    kind: str
    missing: int
    measures: dict[str, Bins]
    values: Values | None = None

    @staticmethod
    def of(column: Column, n_bins: int = N_BINS, most_values: int = MOST_VALUES) -> ColumnProfile:
        """Describe a column."""
        values = None
        if column.values is not None:
            values = Values.of(column.values[~column.missing].tolist(), most_values)
        return ColumnProfile(
            column.kind,
            int(column.missing.sum()),
            {name: Bins.of(numbers, n_bins) for name, numbers in column.measures.items()},
            values,
        )


@dataclass(frozen=True)
class Profile:
    """What the rows looked like that a model was fitted on, in a few kilobytes.

    It holds counts, quantiles, the smallest and the largest numbers, and frequent categories; no
    rows. `save` puts it into a model file.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    columns : dict of str to ColumnProfile
        What the columns looked like. Of more than 2,000 columns only the first ones are described,
        and none of a sparse matrix.
    n_unlike : int
        How many training rows are unlike all others, by the rules of `compare`.
    label_counts : tuple of int
        How many training rows have the labels, in the order of ``classes_``. All that is said about
        labels is said about the first 1,000.
    other_labels, single_labels : int
        How many rows have labels that are not described, and how many labels a single row has.
    ranked : Ranked or None
        How the model ranks rows that it was not fitted on; None if these are too few, or the model
        was updated.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> from duelrank.drift import Profile, compare
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DuelRanker(random_state=0).fit(X, y)
    >>> profile = Profile.of(model, X, y)
    >>> profile.n_rows, profile.columns["x0"].measures["value"].high
    (150, 7.9)
    >>> compare(profile, model, X).drifted
    False
    """

    n_rows: int
    columns: dict[str, ColumnProfile]
    n_unlike: int
    label_counts: tuple[int, ...]
    other_labels: int
    single_labels: int
    ranked: Ranked | None

    @staticmethod
    def of(
        model: Any,
        X: Any,
        y: Any,
        *,
        kinds: Mapping[str, str | None] | None = None,
        random_state: Any = 0,
    ) -> Profile:
        """Describe the rows that a model was fitted on.

        How the model ranks has to be measured on rows that it was not fitted on. If it is a
        `Shortlister` with calibration rows and an int as random state, these are taken. Otherwise
        the last step of the model is fitted again, on at most 2,500 rows, and ranks at most 1,500
        other ones; engines that search for a strength take the one that they found. So does a third
        model, fitted on half of these rows: how far it differs tells how far models differ that
        were fitted on different rows, and `compare` allows for as much.

        Parameters
        ----------
        model : fitted classifier, pipeline or search
            The model.
        X : dataframe or array, or list of texts
            What it was fitted on.
        y : array-like of shape (n,) or (n, K), or sparse
            What it was fitted on: labels, or ranks.
        kinds : mapping of str to str, default=None
            Kinds of columns by their names, "number", "boolean", "date", "category", "text" or
            "vector"; by default as the cells and the model tell.
        random_state : int, RandomState instance or None, default=0
            Draws the rows that are ranked.

        Returns
        -------
        profile : Profile
            A few kilobytes.
        """
        X = as_indexable(X)
        y = y if hasattr(y, "shape") else np.asarray(y)
        check_consistent_length(X, y)
        classes = known_labels(model)
        rng = check_random_state(random_state)
        columns_of_ranks = getattr(predictor_inside(model), "rank_columns_", classes)
        first = first_codes(y, classes, columns_of_ranks)
        unseen = learned_rows(model, first)
        columns, unlike = _describe(model, X, kinds or {}, unseen.learned)
        counts = np.bincount(first[first >= 0], minlength=len(classes))
        return Profile(
            n_rows=int(X.shape[0]),
            columns=columns,
            n_unlike=unlike,
            label_counts=tuple(counts[:MOST_LABELS].tolist()),
            other_labels=int(counts[MOST_LABELS:].sum()),
            single_labels=int((counts == 1).sum()),
            ranked=rank_unseen(model, X, y, first, unseen.held_out, rng),
        )

    def of_columns(self) -> Profile:
        """Return what is said about columns, and nothing about labels and rankings.

        Returns
        -------
        profile : Profile
            What still holds of the first rows, after a model was updated with others.
        """
        return replace(self, label_counts=(), other_labels=0, single_labels=0, ranked=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as JSON can hold it.

        Returns
        -------
        stored : dict
            Numbers, texts, lists and dictionaries.
        """
        from duelrank.drift._stored import as_dict

        return as_dict(self)

    @staticmethod
    def from_dict(stored: Any) -> Profile:
        """Read a profile, and check all of it.

        Parameters
        ----------
        stored : dict
            As by `to_dict`.

        Returns
        -------
        profile : Profile
            The same.

        Raises
        ------
        ValueError
            If anything is not what `to_dict` could have written.
        """
        from duelrank.drift._stored import from_dict

        return from_dict(stored)


def first_codes(y: Any, classes: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.intp]:
    """Return the label of every row as a number in `classes`, −1 where it is none of them.

    Parameters
    ----------
    y : array of shape (n,) or (n, K), or sparse of shape (n, K)
        Labels; or ranks, of which the label at the first place counts; none if several share it.
    classes : ndarray of shape (K,)
        All labels.
    columns : ndarray of shape (K,)
        The labels of the columns of ranks.
    """
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    if len(y.shape) == 1:
        labels = y.tolist() if hasattr(y, "tolist") else list(y)
        return np.array([code_of.get(label, -1) for label in labels], dtype=np.intp)
    if hasattr(y, "tocsr"):
        first = []
        y = y.tocsr()
        for begin, end in zip(y.indptr[:-1], y.indptr[1:], strict=True):
            places, labels = y.data[begin:end], y.indices[begin:end]
            best = labels[places == places.min()] if len(places) else labels
            first.append(int(best[0]) if len(best) == 1 else -1)
        places_of_first = np.array(first, dtype=np.intp)
    else:
        ranks = np.asarray(y, dtype=np.float64)
        best = np.where(np.isnan(ranks), np.inf, ranks)
        is_single = (best == best.min(axis=1, keepdims=True)).sum(axis=1) == 1
        places_of_first = np.where(is_single, best.argmin(axis=1), -1)
    codes = np.array([*(code_of[label] for label in columns.tolist()), -1], dtype=np.intp)
    return codes[places_of_first]


def _describe(
    model: Any, X: Any, kinds: Mapping[str, str | None], learned: NDArray[np.bool_]
) -> tuple[dict[str, ColumnProfile], int]:
    """Describe all columns, and count the rows that are unlike all others."""
    names = column_names(X)[:MOST_COLUMNS]
    n_bins = max(FEWEST_BINS, min(N_BINS, MOST_BINS // max(len(names), 1)))
    most_values = max(FEWEST_BINS, min(MOST_VALUES, MOST_BINS // max(len(names), 1)))
    seen, columns, unlike = seen_by(model), {}, np.zeros(X.shape[0], dtype=bool)
    for name in names:
        column = read_column(X, name, kinds.get(name), seen)
        column = without_themselves(column, name, X, seen, learned)
        columns[name] = ColumnProfile.of(column, n_bins, most_values)
        unlike |= alone(column)
    return columns, int(unlike.sum())


def alone(column: Column) -> NDArray[np.bool_]:
    """Tell which rows would be unlike the others, if each of them were new."""
    odd = column.missing & (column.missing.sum() == 1)
    if column.values is not None:
        _, inverse, counts = np.unique(
            column.values.astype(str), return_inverse=True, return_counts=True
        )
        odd |= (counts[inverse] == 1) & ~column.missing
    for name, numbers in column.measures.items():
        if np.isnan(numbers).all():
            continue
        for end, side in ((np.nanmax(numbers), "above"), (np.nanmin(numbers), "below")):
            at_end = numbers == end
            if SIDES[name] in ("both", side) and at_end.sum() == 1:
                odd |= at_end
    return np.asarray(odd)
