"""What a ranking is, and how its three forms turn into each other.

- `ranks[i, k]` is the place of label k in row i: 1 is the best place.
- `order[i, r]` is the code of the label at place r + 1 of row i: best first.
- `scores[i, k]` is any number that is higher for better labels.

A ranking is *partial* when it leaves labels out. A label without a place is NaN in
(float) ranks and NaN in scores; in an order the places left over at the end of a row
hold −1. In *sparse* ranks the places are the stored entries: a label whose entry is not stored
has no place.

Functions between the three forms take (n, K) arrays, or (K,) for a single row, and return the same
form. What people did becomes partial ranks: `ranks_from_lists` (the best few), `ranks_from_choices`
(one picked among those shown), `ranks_from_pairs` (one preferred to another) and `ranks_from_sets`
(several right ones).

>>> import numpy as np
>>> ranks_from_scores([0.2, 0.7, 0.1])
array([2, 1, 3])
>>> order_from_ranks([2, 1, 3])
array([1, 0, 2])
>>> ranks_from_scores([0.2, np.nan, 0.9])
array([ 2., nan,  1.])
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils import column_or_1d

from duelrank._threads import rows_in_threads

__all__ = [
    "check_k",
    "check_ranks",
    "codes_from_labels",
    "is_full",
    "order_from_ranks",
    "order_from_scores",
    "ranks_from_choices",
    "ranks_from_lists",
    "ranks_from_order",
    "ranks_from_pairs",
    "ranks_from_scores",
    "ranks_from_sets",
]

NO_LABEL = -1
MOST_LABELS_TOLD = 10


def ranks_from_scores(scores: ArrayLike) -> NDArray[Any]:
    """Rank labels by decreasing score.

    Parameters
    ----------
    scores : array-like of shape (n, K) or (K,)
        Higher is better; NaN leaves a label out. Of two equal scores the one in the lower
        column comes first, as in ``np.argmax``.

    Returns
    -------
    ranks : ndarray of the same shape
        Integers, or floats with NaN where a label has no score.
    """
    scores = as_rows(scores, "scores")

    def ranks(scores: NDArray[Any]) -> NDArray[Any]:
        return _ranks_from_order(_order_from_scores(scores), scores.shape[-1])

    return rows_in_threads(ranks, scores)


def order_from_scores(scores: ArrayLike) -> NDArray[np.intp]:
    """Sort the codes of the labels by decreasing score.

    Parameters
    ----------
    scores : array-like of shape (n, K) or (K,)
        Higher is better; NaN leaves a label out. Of two equal scores the one in the lower
        column comes first, as in ``np.argmax``.

    Returns
    -------
    order : ndarray of the same shape
        Codes, best first, then −1 for the labels left out.
    """
    return rows_in_threads(_order_from_scores, as_rows(scores, "scores"))


def order_from_ranks(ranks: ArrayLike) -> NDArray[np.intp]:
    """Sort the codes of the labels by their ranks.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (K,)
        Distinct ranks in every row, NaN for a label that has no place.

    Returns
    -------
    order : ndarray of the same shape
        Codes, best first, then −1 for the labels left out.
    """
    return _order_from_scores(-check_ranks(ranks, partial=True).astype(np.float64))


def ranks_from_order(order: ArrayLike, n_classes: int | None = None) -> NDArray[Any]:
    """Return the place of every label.

    Parameters
    ----------
    order : array-like of shape (n, m) or (m,)
        Codes, best first; −1 marks a place that holds no label.
    n_classes : int, default=None
        Number of labels K. By default every label is expected to have a place: K = m.

    Returns
    -------
    ranks : ndarray of shape (n, K) or (K,)
        Integers, or floats with NaN where a label has no place.
    """
    order = as_rows(order, "order")
    if n_classes is None:
        n_classes = order.shape[-1]
    codes = order.astype(np.intp)
    if np.any(codes != order) or np.any(codes < NO_LABEL) or np.any(codes >= n_classes):
        raise ValueError(
            f"order must hold codes from 0 to {n_classes - 1}, or -1 for no label; "
            f"row {_first_bad_row((codes != order) | (codes < NO_LABEL) | (codes >= n_classes))} "
            "holds something else."
        )
    by_code = np.sort(codes, axis=-1)
    twice = (by_code[..., 1:] == by_code[..., :-1]) & (by_code[..., 1:] != NO_LABEL)
    if np.any(twice):
        raise ValueError(
            f"order must name every label once; row {_first_bad_row(twice)} repeats one."
        )
    return _ranks_from_order(codes, n_classes)


def ranks_from_lists(
    lists: Iterable[Sequence[Any]], classes: ArrayLike, *, sparse: bool = False
) -> Any:
    """Turn lists of labels into partial ranks.

    Parameters
    ----------
    lists : iterable of sequences of labels
        One list a row, best label first. The lists may differ in length and may be empty; None
        and NaN at the end of a list, which fill up the rows of a table, are no labels.
    classes : array-like of shape (K,)
        All labels, in the order of the columns of the result.
    sparse : bool, default=False
        Whether to return sparse ranks, for many labels.

    Returns
    -------
    ranks : ndarray of float or csr_array, of shape (n, K)
        NaN, or no stored entry, for a label that is not in the list.

    Examples
    --------
    >>> ranks_from_lists([["b", "a"], ["c"]], classes=["a", "b", "c"])
    array([[ 2.,  1., nan],
           [nan, nan,  1.]])
    """
    code_of = _code_of(classes)
    rows, codes, n_rows = _entries(lists, code_of, "lists", in_order=True)
    first = np.searchsorted(rows, np.arange(n_rows))
    places = np.arange(len(rows)) - first[rows] + 1
    return _partial_ranks(rows, codes, places, (n_rows, len(code_of)), sparse)


def ranks_from_choices(
    shown: ArrayLike | Iterable[Collection[Any]],
    picked: ArrayLike,
    classes: ArrayLike,
    *,
    sparse: bool = False,
) -> Any:
    """Turn choices into partial ranks: some labels were shown, and one of them was picked.

    The picked label gets place 1, the other ones shown share place 2, and labels that were not
    shown have no place. Nothing is known about these, so fit a ranker with ``unplaced="unknown"``.

    Parameters
    ----------
    shown : iterable of collections of labels, array-like of shape (n, m), or of bool, (n, K)
        The labels shown in each row, in any order; None and NaN are no labels. A boolean array
        tells which of the classes were shown (unless the classes are booleans themselves).
    picked : array-like of shape (n,)
        The label picked in each row, one of those shown. None or NaN if nothing was picked: then
        the row places no label.
    classes : array-like of shape (K,)
        All labels, in the order of the columns of the result.
    sparse : bool, default=False
        Whether to return sparse ranks, for many labels.

    Returns
    -------
    ranks : ndarray of float or csr_array, of shape (n, K)
        NaN, or no stored entry, for a label that was not shown.

    Examples
    --------
    >>> shown = [["a", "b", "d"], ["c", "d"], ["a", "c"]]
    >>> ranks_from_choices(shown, ["b", "c", None], classes=["a", "b", "c", "d"])
    array([[ 2.,  1., nan,  2.],
           [nan, nan,  1.,  2.],
           [nan, nan, nan, nan]])
    """
    code_of = _code_of(classes)
    rows, codes, n_rows = _entries(shown, code_of, "shown")
    labels = _one_a_row(picked, "picked")
    _check_lengths("picked", len(labels), "shown", n_rows)
    choice = _codes(labels, code_of)
    for row in np.flatnonzero(choice == NO_LABEL).tolist():
        if not is_missing(labels[row]):
            _refuse_label("picked", row, labels[row], code_of)
    is_picked = codes == choice[rows]
    has_picked = np.zeros(n_rows, dtype=bool)
    has_picked[rows[is_picked]] = True
    not_shown = np.flatnonzero((choice != NO_LABEL) & ~has_picked)
    if len(not_shown):
        row = int(not_shown[0])
        names = list(code_of)
        raise ValueError(
            f"picked must be among the labels shown; row {row} picks {labels[row]!r}, "
            f"shown are {_some([names[code] for code in codes[rows == row]])}."
        )
    told = choice[rows] != NO_LABEL
    places = np.where(is_picked, 1, 2)[told]
    return _partial_ranks(rows[told], codes[told], places, (n_rows, len(code_of)), sparse)


def ranks_from_pairs(
    winners: ArrayLike, losers: ArrayLike, classes: ArrayLike, *, sparse: bool = False
) -> Any:
    """Turn preferences into partial ranks: one label was preferred to another one.

    The winner gets place 1 and the loser place 2. Nothing is known about the other labels, so fit a
    ranker with ``unplaced="unknown"``.

    Parameters
    ----------
    winners, losers : array-like of shape (n,)
        The label that was preferred in each row, and the one that it was preferred to.
    classes : array-like of shape (K,)
        All labels, in the order of the columns of the result.
    sparse : bool, default=False
        Whether to return sparse ranks, for many labels.

    Returns
    -------
    ranks : ndarray of float or csr_array, of shape (n, K)
        NaN, or no stored entry, for all labels but two.

    Examples
    --------
    >>> ranks_from_pairs(["a", "c"], ["b", "a"], classes=["a", "b", "c"])
    array([[ 1.,  2., nan],
           [ 2., nan,  1.]])
    """
    code_of = _code_of(classes)
    ahead, behind = _one_a_row(winners, "winners"), _one_a_row(losers, "losers")
    _check_lengths("losers", len(behind), "winners", len(ahead))
    pairs = np.stack([_codes(ahead, code_of), _codes(behind, code_of)], axis=1)
    for name, labels, codes in (("winners", ahead, pairs[:, 0]), ("losers", behind, pairs[:, 1])):
        unknown = np.flatnonzero(codes == NO_LABEL)
        if len(unknown):
            _refuse_label(name, int(unknown[0]), labels[unknown[0]], code_of)
    equal = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(equal):
        row = int(equal[0])
        raise ValueError(
            f"losers must differ from winners; row {row} holds {ahead[row]!r} in both."
        )
    n_rows = len(ahead)
    rows, places = np.repeat(np.arange(n_rows), 2), np.tile([1, 2], n_rows)
    return _partial_ranks(rows, pairs.ravel(), places, (n_rows, len(code_of)), sparse)


def ranks_from_sets(
    sets: ArrayLike | Iterable[Collection[Any]], classes: ArrayLike, *, sparse: bool = False
) -> Any:
    """Turn sets of right labels into partial ranks: all labels of a set share place 1.

    All other labels are meant to come behind, so fit a ranker with ``unplaced="behind"``.

    Parameters
    ----------
    sets : iterable of collections of labels, array-like of shape (n, m), or of bool, (n, K)
        The right labels of each row, in any order; None and NaN are no labels. A boolean array
        tells which of the classes are right (unless the classes are booleans themselves).
    classes : array-like of shape (K,)
        All labels, in the order of the columns of the result.
    sparse : bool, default=False
        Whether to return sparse ranks, for many labels.

    Returns
    -------
    ranks : ndarray of float or csr_array, of shape (n, K)
        NaN, or no stored entry, for a label that is not in the set.

    Examples
    --------
    >>> ranks_from_sets([{"a", "c"}, {"b"}], classes=["a", "b", "c"])
    array([[ 1., nan,  1.],
           [nan,  1., nan]])
    """
    code_of = _code_of(classes)
    rows, codes, n_rows = _entries(sets, code_of, "sets")
    return _partial_ranks(rows, codes, np.ones(len(rows)), (n_rows, len(code_of)), sparse)


def codes_from_labels(
    labels: ArrayLike, classes: ArrayLike, name: str = "labels"
) -> NDArray[np.intp]:
    """Return the places of the labels among the classes.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Labels of points.
    classes : array-like of shape (K,)
        All labels, in the order of their codes.
    name : str, default="labels"
        The argument's name, for the error message.

    Returns
    -------
    codes : ndarray of int, of shape (n,)
        Integers 0..K−1.

    Examples
    --------
    >>> codes_from_labels(["b", "a", "b"], classes=["a", "b"])
    array([1, 0, 1])
    """
    place = _code_of(classes)
    column = column_or_1d(labels).tolist()
    unseen = {label: None for label in column if label not in place}
    if unseen:
        raise ValueError(
            f"{name} holds labels that are not among the classes: {list(unseen)[:10]}; "
            f"these are {list(place)}."
        )
    return np.array([place[label] for label in column], dtype=np.intp)


def refuse_missing(labels: NDArray[Any]) -> None:
    """Raise if labels are missing: None, NaN, or pandas' NA.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Labels of any type.
    """
    if labels.dtype != object:
        return
    if any(map(is_missing, labels.tolist())):
        raise ValueError("y contains NaN or None; every row needs a label.")


def is_missing(label: Any) -> bool:
    """Tell whether this stands for no label: None, NaN, or pandas' NA."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, Hashable) and bool(label != label)


def check_ranks(
    ranks: ArrayLike,
    *,
    n_classes: int | None = None,
    partial: bool = False,
    name: str = "ranks",
) -> NDArray[Any]:
    """Return `ranks` as an array after checking that its rows are rankings.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (K,)
        The ranks to check.
    n_classes : int, default=None
        The expected K; any by default.
    partial : bool, default=False
        Whether labels may be left out (NaN). Full rankings are permutations of 1..K;
        partial ones need distinct whole ranks from 1 upwards.
    name : str, default="ranks"
        The argument's name, for the error message.

    Returns
    -------
    ranks : ndarray of the same shape
        Integers for full rankings, floats for partial ones.
    """
    array = as_rows(ranks, name)
    width = array.shape[-1]
    if n_classes is not None and width != n_classes:
        raise ValueError(f"{name} must have one column per label: {n_classes}, got {width}.")
    missing = np.isnan(array)
    if not partial and np.any(missing):
        raise ValueError(
            f"{name} must place every label, but row {_first_bad_row(missing)} contains NaN."
        )
    in_order = np.sort(array, axis=-1)
    if not partial:
        wrong = in_order != np.arange(1, width + 1)
        if np.any(wrong):
            raise ValueError(
                f"{name} must hold a permutation of 1..{width} in every row, "
                f"but {describe_row(array, wrong)}."
            )
        return array.astype(np.int64)
    wrong = (in_order < 1) | np.isinf(in_order) | (in_order != np.round(in_order))
    wrong &= ~np.isnan(in_order)
    wrong[..., 1:] |= in_order[..., 1:] == in_order[..., :-1]
    if np.any(wrong):
        raise ValueError(
            f"{name} must hold distinct whole ranks from 1 upwards (NaN for no place), "
            f"but {describe_row(array, wrong)}."
        )
    return array.astype(np.float64) if np.any(missing) else array.astype(np.int64)


def is_full(ranks: ArrayLike) -> bool:
    """Tell whether every row places all labels, each at its own place 1..K.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (K,)
        Ranks.

    Returns
    -------
    full : bool
        False for ties, labels left out, and anything that is no ranking.
    """
    array = as_rows(ranks, "ranks")
    return bool(np.all(np.sort(array, axis=-1) == np.arange(1, array.shape[-1] + 1)))


def check_codes(codes: ArrayLike, n_classes: int) -> NDArray[np.intp]:
    """Return labels as integers after checking that they lie in 0..K−1.

    Parameters
    ----------
    codes : array-like of int
        The labels.
    n_classes : int
        Number of labels K.
    """
    labels = np.asarray(codes)
    if labels.size and (
        labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= n_classes
    ):
        raise ValueError(f"codes must be integers from 0 to {n_classes - 1}, got {codes!r}.")
    return labels.astype(np.intp)


def check_k(k: int, n_classes: int) -> None:
    """Check that k labels can be asked for.

    Parameters
    ----------
    k : int
        How many labels.
    n_classes : int
        How many there are.
    """
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= n_classes:
        raise ValueError(f"k must be an integer from 1 to {n_classes}, got {k!r}.")


def as_rows(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return numbers as an (n, K) or (K,) array; the first step of every check here."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length.") from None
    if array.dtype.kind not in "iufb":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be numbers, got dtype {array.dtype}.") from None
    elif array.dtype.kind in "ub":
        array = array.astype(np.int64)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise ValueError(
            f"{name} must have shape (n, K), or (K,) for one row, K ≥ 1; got {array.shape}."
        )
    return array


def describe_row(array: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    """Name the first row with something wrong in it, and show it."""
    return f"row {_first_bad_row(wrong)} is {_bad_row(array, wrong)}"


def _code_of(classes: ArrayLike) -> dict[Any, int]:
    # A list stays as it is: an array would turn labels of different types into one type.
    names = list(classes) if isinstance(classes, (list, tuple)) else np.asarray(classes).tolist()
    code_of = {}
    if isinstance(names, list) and not any(isinstance(label, list) for label in names):
        code_of = {label: code for code, label in enumerate(names)}
    if not code_of or len(code_of) != len(names):
        raise ValueError(f"classes must be different labels, at least one; got {names}.")
    return code_of


def _some(labels: Iterable[Any]) -> str:
    """Show labels; of many, only the first ones."""
    names = list(labels)
    if len(names) <= MOST_LABELS_TOLD:
        return str(names)
    return f"{str(names[:MOST_LABELS_TOLD])[:-1]}, …] ({len(names)} labels)"


def _refuse_label(name: str, row: int, label: Any, code_of: dict[Any, int]) -> None:
    raise ValueError(
        f"{name} must hold labels of classes; row {row} holds {label!r}, "
        f"classes are {_some(code_of)}."
    )


def _entries(
    collections: Any, code_of: dict[Any, int], name: str, *, in_order: bool = False
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Return the labels of all rows, one after another: their rows, their codes; and n.

    If they are in order, None and NaN are allowed at the end of a row only; otherwise anywhere.
    """
    if isinstance(collections, (str, bytes)) or hasattr(collections, "columns"):
        rows_hint = "; pass its rows, to_numpy()" if hasattr(collections, "to_numpy") else ""
        raise TypeError(
            f"{name} must be a sequence of lists of labels, got {type(collections).__name__}"
            f"{rows_hint}."
        )
    if not in_order and _is_mask(collections, code_of):
        rows, codes = np.nonzero(collections)
        return rows, codes, len(collections)
    lists = _rows_of_labels(collections, name, in_order)
    rows = np.repeat(np.arange(len(lists)), np.fromiter(map(len, lists), np.intp, len(lists)))
    labels = list(chain.from_iterable(lists))
    codes = _codes(labels, code_of)
    known = codes != NO_LABEL
    last = np.full(len(lists), NO_LABEL)  # where the last label of each row is
    last[rows[known]] = np.flatnonzero(known)
    for entry in np.flatnonzero(~known).tolist():
        is_gap = in_order and entry < last[rows[entry]]
        if is_gap or not is_missing(labels[entry]):
            _refuse_label(name, int(rows[entry]), labels[entry], code_of)
    rows, codes = rows[known], codes[known]
    _refuse_repeats(rows, codes, name, code_of)
    return rows, codes, len(lists)


def _is_mask(collections: Any, code_of: dict[Any, int]) -> bool:
    """Tell whether this is a boolean array with a column for every class."""
    return (
        isinstance(collections, np.ndarray)
        and collections.dtype == bool
        and collections.shape[1:] == (len(code_of),)
        and not any(isinstance(label, bool) for label in code_of)
    )


def _rows_of_labels(collections: Any, name: str, in_order: bool) -> list[Collection[Any]]:
    if isinstance(collections, np.ndarray) and collections.ndim == 2:
        rows: list[Any] = collections.tolist()
    else:
        rows = list(collections)
        refused = (str, bytes, dict, set, frozenset) if in_order else (str, bytes, dict)
        for row, labels in enumerate(rows):
            if isinstance(labels, refused) or not isinstance(labels, Iterable):
                best_first = ", best first" if in_order else ""
                raise TypeError(
                    f"{name} must hold one list of labels per row{best_first}; row {row} is "
                    f"{labels!r}."
                )
    return [labels if hasattr(labels, "__len__") else list(labels) for labels in rows]


def _one_a_row(labels: Any, name: str) -> list[Any]:
    # A list stays as it is: an array would turn NaN among texts into the text "nan".
    if isinstance(labels, (list, tuple)):
        return list(labels)
    column = np.asarray(labels)
    if column.ndim != 1:
        raise ValueError(f"{name} must hold one label per row, got shape {column.shape}.")
    return column.tolist()


def _check_lengths(name: str, n_labels: int, other: str, n_rows: int) -> None:
    if n_labels != n_rows:
        raise ValueError(
            f"{name} must hold one label per row of {other}: {n_rows}, got {n_labels}."
        )


def _codes(labels: list[Any], code_of: dict[Any, int]) -> NDArray[np.intp]:
    """Return the codes of labels, −1 for those that are none of the classes."""
    try:
        return np.fromiter(map(code_of.get, labels, repeat(NO_LABEL)), np.intp, len(labels))
    except TypeError:  # some are of a type that cannot be looked up
        hashable = [label if isinstance(label, Hashable) else None for label in labels]
        return np.array([code_of.get(label, NO_LABEL) for label in hashable], dtype=np.intp)


def _refuse_repeats(
    rows: NDArray[np.intp], codes: NDArray[np.intp], name: str, code_of: dict[Any, int]
) -> None:
    """Raise if a row names a label twice."""
    n_classes = len(code_of)
    cells = np.sort(rows * n_classes + codes)
    twice = np.flatnonzero(cells[1:] == cells[:-1])
    if len(twice):
        row, code = divmod(int(cells[twice[0]]), n_classes)
        raise ValueError(
            f"{name} must name a label once; row {row} repeats {list(code_of)[code]!r}."
        )


def _partial_ranks(
    rows: NDArray[np.intp],
    codes: NDArray[np.intp],
    places: NDArray[Any],
    shape: tuple[int, int],
    sparse: bool,
) -> Any:
    """Write the places of labels as ranks; the rows are in order, and no label is there twice."""
    if not sparse:
        ranks = np.full(shape, np.nan)
        ranks[rows, codes] = places
        return ranks
    ends = np.searchsorted(rows, np.arange(shape[0] + 1))
    stored = csr_array((places.astype(np.float64), codes, ends), shape=shape)
    stored.sort_indices()
    return stored


def _order_from_scores(scores: NDArray[Any]) -> NDArray[np.intp]:
    if scores.dtype.kind == "i":
        # The smallest integer has no negative, so integers are sorted backwards instead.
        backwards = np.argsort(scores[..., ::-1], axis=-1, kind="stable")
        return scores.shape[-1] - 1 - backwards[..., ::-1]
    # NaN sorts last, so the labels left out end up behind the others.
    order = np.argsort(-scores, axis=-1, kind="stable")
    if scores.dtype.kind == "f" and np.isnan(scores).any():
        missing = np.isnan(np.take_along_axis(scores, order, axis=-1))
        order[missing] = NO_LABEL
    return order


def top_from_scores(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the codes of the k highest scores of every row, best first, (n, k); no NaN.

    Equal scores are ordered by code, as in `order_from_scores`, of whose result these are the first
    columns. Only rows with equal scores around place k are sorted as a whole.
    """
    n_classes = scores.shape[1]
    if 2 * k >= n_classes or scores.dtype.kind != "f":
        return order_from_scores(scores)[:, :k]
    best = np.sort(np.argpartition(scores, n_classes - k, axis=1)[:, n_classes - k :], axis=1)
    values = np.take_along_axis(scores, best, axis=1)
    in_order = np.argsort(-values, axis=1, kind="stable")
    top = np.take_along_axis(best, in_order, axis=1)
    unclear = np.count_nonzero(scores >= values.min(axis=1, keepdims=True), axis=1) > k
    if unclear.any():
        top[unclear] = _order_from_scores(scores[unclear])[:, :k]
    return top


def _ranks_from_order(order: NDArray[np.intp], n_classes: int) -> NDArray[Any]:
    places = np.broadcast_to(np.arange(1, order.shape[-1] + 1), order.shape)
    shape = (*order.shape[:-1], n_classes)
    if order.shape == shape and np.all(order != NO_LABEL):
        ranks = np.empty(shape, dtype=np.int64)
        np.put_along_axis(ranks, order, places, axis=-1)
        return ranks
    # One more column catches the places without a label.
    partial = np.full((*order.shape[:-1], n_classes + 1), np.nan)
    np.put_along_axis(partial, np.where(order == NO_LABEL, n_classes, order), places, axis=-1)
    return partial[..., :n_classes]


def _first_bad_row(wrong: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(np.atleast_2d(wrong).any(axis=-1))[0])


def _bad_row(array: NDArray[Any], wrong: NDArray[np.bool_]) -> list[float]:
    row: list[float] = np.atleast_2d(array)[_first_bad_row(wrong)].tolist()
    return row if len(row) <= 12 else [*row[:12], ...]  # type: ignore[list-item]
