"""What a ranking is, and how its three forms turn into each other.

- `ranks[i, k]` is the place of label k in row i: 1 is the best place.
- `order[i, r]` is the code of the label at place r + 1 of row i: best first.
- `scores[i, k]` is any number that is higher for better labels.

A ranking is *partial* when it leaves labels out. A label without a place is NaN in
(float) ranks and NaN in scores; in an order the places left over at the end of a row
hold −1.

Every function takes (n, K) arrays, or (K,) for a single row, and returns the same form.

>>> import numpy as np
>>> ranks_from_scores([0.2, 0.7, 0.1])
array([2, 1, 3])
>>> order_from_ranks([2, 1, 3])
array([1, 0, 2])
>>> ranks_from_scores([0.2, np.nan, 0.9])
array([ 2., nan,  1.])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

__all__ = [
    "check_k",
    "check_ranks",
    "codes_from_labels",
    "is_full",
    "order_from_ranks",
    "order_from_scores",
    "ranks_from_lists",
    "ranks_from_order",
    "ranks_from_scores",
]

NO_LABEL = -1


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
    return _ranks_from_order(_order_from_scores(scores), scores.shape[-1])


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
    return _order_from_scores(as_rows(scores, "scores"))


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


def ranks_from_lists(lists: Iterable[Sequence[Any]], classes: ArrayLike) -> NDArray[np.float64]:
    """Turn lists of labels into partial ranks.

    Parameters
    ----------
    lists : iterable of sequences of labels
        One list a row, best label first. The lists may differ in length and may be empty; None
        and NaN at the end of a list, which fill up the rows of a table, are no labels.
    classes : array-like of shape (K,)
        All labels, in the order of the columns of the result.

    Returns
    -------
    ranks : ndarray of shape (n, K)
        Floats; NaN for a label that is not in the list.

    Examples
    --------
    >>> ranks_from_lists([["b", "a"], ["c"]], classes=["a", "b", "c"])
    array([[ 2.,  1., nan],
           [nan, nan,  1.]])
    """
    column = _code_of(classes)
    if isinstance(lists, str) or hasattr(lists, "columns"):
        rows_hint = "; pass its rows, to_numpy()" if hasattr(lists, "to_numpy") else ""
        raise TypeError(
            f"lists must be a sequence of lists of labels, got {type(lists).__name__}{rows_hint}."
        )
    rows = list(lists)
    for row, labels in enumerate(rows):
        if isinstance(labels, (str, set, frozenset, dict)) or not isinstance(labels, Iterable):
            raise TypeError(
                f"lists must hold one list of labels per row, best first; row {row} is {labels!r}."
            )
    ranks = np.full((len(rows), len(column)), np.nan)
    for row, labels in enumerate(rows):
        for place, label in enumerate(_without_end(labels), start=1):
            code = column.get(label) if isinstance(label, Hashable) else None
            if code is None:
                raise ValueError(
                    f"lists must hold labels of classes; row {row} holds {label!r}, "
                    f"classes are {list(column)}."
                )
            if not np.isnan(ranks[row, code]):
                raise ValueError(f"lists must name a label once; row {row} repeats {label!r}.")
            ranks[row, code] = place
    return ranks


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
    if any(label is None or _is_na(label) or label != label for label in labels.tolist()):
        raise ValueError("y contains NaN or None; every row needs a label.")


def _is_na(label: Any) -> bool:
    return type(label).__name__ in ("NAType", "NaTType")


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


def _without_end(labels: Iterable[Any]) -> list[Any]:
    """Return labels without the None and NaN behind the last of them."""
    row = list(labels)
    while row and (row[-1] is None or (isinstance(row[-1], float) and row[-1] != row[-1])):
        row.pop()
    return row


def _order_from_scores(scores: NDArray[Any]) -> NDArray[np.intp]:
    if scores.dtype.kind == "i":
        # The smallest integer has no negative, so integers are sorted backwards instead.
        backwards = np.argsort(scores[..., ::-1], axis=-1, kind="stable")
        return scores.shape[-1] - 1 - backwards[..., ::-1]
    # NaN sorts last, so the labels left out end up behind the others.
    order = np.argsort(-scores, axis=-1, kind="stable")
    if scores.dtype.kind == "f":
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
