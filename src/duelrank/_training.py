"""What a ranker learns from, out of the y that users give.

`encode` turns labels, top-m lists, choices or rankings into a `TrainingSet`: codes, or ranks, dense
or sparse, whose columns follow the sorted labels. `encode_blocks` does the same for rows that come
in blocks.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from duelrank._parameters import check_choice
from duelrank._rank_columns import column_names, is_ranks, ranks_by_label
from duelrank._sklearn import has_wrapped_fit
from duelrank.blocks import LabeledBlocks, in_blocks
from duelrank.feedback import (
    UNPLACED,
    SparseRanks,
    as_ranks,
    check_feedback,
    check_sparse_feedback,
    is_ambiguous,
    reveals_nothing,
    single_labels,
)
from duelrank.rankings import as_rows, codes_from_labels, refuse_missing

BEHIND_IS_A_GUESS = (
    "Labels that rows of y leave out were taken to come behind those that they place, as in top-m "
    "lists, because no row has a gap between places. Say unplaced='behind' if that is right, or "
    "unplaced='unknown' if they may be anywhere, as labels not shown in choices and preferences."
)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What a ranker learns from: rows in memory or in blocks, with their labels settled.

    Weights of rows in memory are an argument of the engine's fit, as scikit-learn routes them;
    blocks hold theirs.

    Attributes
    ----------
    X : array, dataframe or sparse matrix with n rows, or LabeledBlocks
        The points. Blocks bring their labels and weights along.
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K), or SparseRanks, or None
        Codes if every row tells one label, else ranks in which equal ones and NaN say nothing, or
        sparse ranks if y was sparse. None if X comes in blocks.
    classes : ndarray of shape (K,)
        The labels, sorted.
    rank_columns : ndarray of shape (K,)
        The labels in the order of the columns of ranks, as they were given.
    unplaced : {"behind", "unknown"}, default="behind"
        Where labels without a place are taken to be.
    n_silent_rows : int, default=0
        Number of rows that say nothing at all.
    """

    X: Any
    feedback: NDArray[Any] | SparseRanks | None
    classes: NDArray[Any]
    rank_columns: NDArray[Any]
    unplaced: str = "behind"
    n_silent_rows: int = 0

    @property
    def dense_feedback(self) -> NDArray[Any] | None:
        """The feedback with sparse ranks made dense, or an error if they would fill the memory."""
        if not isinstance(self.feedback, SparseRanks):
            return self.feedback
        self.feedback.check_memory(
            "take an engine that learns from sparse ranks, DuelRanker(AnchoredDuels(rivals=0)), or "
            "fewer rows"
        )
        return self.feedback.dense()

    @property
    def ranks(self) -> NDArray[np.float64]:
        """The feedback of rows in memory as ranks, also if it is codes or sparse."""
        feedback = self.dense_feedback
        assert feedback is not None
        return as_ranks(feedback, len(self.classes))


def encode(ranker: Any, X: Any, y: Any) -> TrainingSet:
    """Settle the labels and the feedback of rows in memory; X and y stay as they are.

    Parameters
    ----------
    ranker : estimator
        Whose fit it is. Its `unplaced` is as in `check_feedback`; its `classes`, if not None, are
        all labels in the order of the columns of ranks.
    X : array-like with n rows
        The points.
    y : array-like of shape (n,) or (n, K), or sparse of shape (n, K)
        Labels, or ranks. The columns of a dataframe name the labels; otherwise they are 0..K−1.
    """
    unplaced, classes = ranker.unplaced, ranker.classes
    _require_y(ranker, y)
    if in_blocks(y):
        raise TypeError(f"y must be in memory as X is, got {type(y).__name__}.")
    check_choice("unplaced", unplaced, UNPLACED)
    if is_ranks(y):
        return _encode_ranks(ranker, X, y, unplaced, classes)
    if issparse(y):
        raise ValueError(
            "y must have a column for every label, at least two, if it is sparse; got shape "
            f"{getattr(y, 'shape', ())}."
        )
    y = _check_labels(X, y)
    if classes is not None:
        classes, _ = _sorted_labels(classes, "classes")
        return TrainingSet(X, codes_from_labels(y, classes, "y"), classes, classes)
    classes, codes = np.unique(y, return_inverse=True)
    _check_two(classes)
    return TrainingSet(X, codes, classes, classes)


def encode_more(
    X: Any, y: Any, known: NDArray[Any], classes: Any, new_labels: str
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Settle the labels of new rows of a ranker that knows some labels.

    Parameters
    ----------
    X : array-like with n rows
        The new points.
    y : array-like of shape (n,)
        Their labels.
    known : ndarray of shape (K,)
        The labels known so far, sorted.
    classes : array-like or None
        All labels that may come, the known ones among them; None for those in y.
    new_labels : {"add", "error"}
        What to do about labels that are not known yet.

    Returns
    -------
    codes : ndarray of int, of shape (n,)
        The new rows' labels as codes.
    labels : ndarray
        All labels from now on, sorted.
    """
    if in_blocks(y) or in_blocks(X):
        raise TypeError("X and y must be in memory for partial_fit; fit takes blocks of rows.")
    if is_ranks(y) or issparse(y):
        raise ValueError(
            "y must hold class labels in partial_fit, one for every row; ranks are for fit."
        )
    y = _check_labels(X, y)
    if classes is None:
        new = np.setdiff1d(y, known)
    else:
        given = _sorted_labels(classes, "classes")[0]
        missing = np.setdiff1d(known, given).tolist()
        if missing:
            raise ValueError(
                f"classes must name all labels known so far, but {missing} are missing; "
                "drop_labels drops labels."
            )
        codes_from_labels(y, given, "y")
        new = np.setdiff1d(given, known)
    if len(new) == 0:
        return codes_from_labels(y, known, "y"), known
    if new_labels == "error":
        raise ValueError(
            f"y holds labels that are not known yet: {new.tolist()[:10]}; new_labels='add' adds "
            "them."
        )
    labels = _joined_labels(known, new)
    return codes_from_labels(y, labels, "y"), labels


def encode_blocks(ranker: Any, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
    """Settle the labels of rows that come in blocks, by the first pass over them.

    Parameters
    ----------
    ranker : estimator
        Whose fit it is; its `classes`, if not None, are all labels.
    X : RowBlocks, Dask array or Dask dataframe
        The points.
    y, sample_weight : blocks or array-like, or None for no weights
        Their labels and weights, in the same blocks.
    """
    _require_y(ranker, y)
    given = ranker.classes
    labels = None if given is None else _sorted_labels(given, "classes")[0]
    blocks = LabeledBlocks.of(X, y, sample_weight, labels)
    _check_two(blocks.classes)
    return TrainingSet(blocks, None, blocks.classes, blocks.classes)


def _check_labels(X: Any, y: Any) -> NDArray[Any]:
    """Return the labels of rows as a vector, none of them missing."""
    _refuse_lists(y)
    y = column_or_1d(y, warn=True)
    refuse_missing(y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    check_consistent_length(X, y)
    labels: NDArray[Any] = y
    return labels


def _require_y(ranker: Any, y: Any) -> None:
    """Raise if a ranker is fitted without y."""
    if y is None:
        raise ValueError(
            f"{type(ranker).__name__} requires y to be passed, but the target y is None."
        )


def _check_two(classes: NDArray[Any]) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two different classes to rank, got {len(classes)} "
            f"{'class' if len(classes) == 1 else 'classes'}: {classes.tolist()}."
        )


def _are_numbers(y: Any) -> bool:
    try:
        np.asarray(y).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _refuse_lists(y: Any) -> None:
    """Raise for lists of labels, which have to be made ranks of first."""
    if isinstance(y, (list, tuple)):
        rows = y[:1000]
    elif getattr(getattr(y, "dtype", None), "kind", "") == "O" and len(y.shape) == 1:
        rows = np.asarray(y[:1000]).tolist()
    else:
        return
    lists = [row for row in rows if isinstance(row, (list, tuple, np.ndarray))]
    texts = any(isinstance(label, str) for row in lists for label in row)
    if lists and (texts or len({len(row) for row in lists}) > 1):
        raise ValueError(
            "y holds lists; turn lists of labels into ranks first, with "
            "duelrank.rankings.ranks_from_lists(y, classes)."
        )


def _encode_ranks(ranker: Any, X: Any, y: Any, unplaced: str, classes: Any) -> TrainingSet:
    check_consistent_length(X, y)
    _refuse_lists(y)
    columns, name = classes, "classes"
    if classes is None:
        columns, name = column_names(y), "the columns of y"
    if columns is None:
        columns = np.arange(np.shape(y)[1])
    labels, order = _sorted_labels(columns, name)
    told = (_read_sparse if issparse(y) else _read_dense)(y, labels, order, unplaced)
    n_silent = int(np.count_nonzero(told.silent))
    if n_silent == len(told.silent):
        raise ValueError(
            "y must place one label ahead of another in at least one row; no row does"
            f"{', labels without a place being anywhere' if told.unplaced == 'unknown' else ''}."
        )
    stacklevel = 4 + has_wrapped_fit(ranker)
    if n_silent:
        warnings.warn(
            f"{n_silent} of {len(told.silent)} rows of y place no label ahead of another and say "
            "nothing.",
            UserWarning,
            stacklevel=stacklevel,
        )
    if unplaced == "auto" and told.unplaced == "behind" and told.is_ambiguous:
        warnings.warn(BEHIND_IS_A_GUESS, UserWarning, stacklevel=stacklevel)
    columns = labels[np.argsort(order)]
    return TrainingSet(X, told.feedback, labels, columns, told.unplaced, n_silent)


class _Told(NamedTuple):
    """What rows of ranks say."""

    feedback: NDArray[Any] | SparseRanks
    unplaced: str
    silent: NDArray[np.bool_]
    is_ambiguous: bool


def _read_dense(y: Any, labels: NDArray[Any], order: NDArray[np.intp], unplaced: str) -> _Told:
    places = _as_places(ranks_by_label(y, labels[np.argsort(order)], name="y"))
    ranks, unplaced = check_feedback(places, unplaced=unplaced, n_classes=len(labels), name="y")
    ranks = ranks[:, order]
    codes = single_labels(ranks)
    feedback = ranks if codes is None else codes
    return _Told(feedback, unplaced, reveals_nothing(ranks), is_ambiguous(places))


def _read_sparse(y: Any, labels: NDArray[Any], order: NDArray[np.intp], unplaced: str) -> _Told:
    ranks = check_sparse_feedback(y, unplaced=unplaced, n_classes=len(labels), name="y")
    ranks = ranks.with_columns(order)
    codes = ranks.single_labels()
    feedback = ranks if codes is None else codes
    return _Told(feedback, ranks.unplaced, ranks.reveals_nothing(), ranks.is_ambiguous())


def _as_places(y: Any) -> NDArray[np.float64]:
    """Return ranks as floats, NaN for labels left out."""
    if np.asarray(y).dtype.kind in "OUST" and not _are_numbers(y):
        raise ValueError(
            "y must hold ranks, which are numbers; lists of labels become ranks by "
            "duelrank.rankings.ranks_from_lists(lists, classes)."
        )
    return as_rows(y, "y").astype(np.float64)


def _joined_labels(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Return known and new labels, sorted, if they are of one type."""
    types = {type(label) for label in (*known.tolist(), *new.tolist())}
    if len(types) > 1:
        raise ValueError(
            f"y must hold labels of the type of those known so far, such as {known.tolist()[0]!r}, "
            f"got {new.tolist()[0]!r}."
        )
    as_objects = "O" in (known.dtype.kind, new.dtype.kind)
    labels = [part.astype(object) if as_objects else part for part in (known, new)]
    return np.sort(np.concatenate(labels))


def _sorted_labels(labels: Any, name: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return different labels in the order of `classes_`, and where each of them was."""
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
        raise ValueError(f"{name} must be a list of labels, got {labels!r}.")
    given = list(labels)
    if any(label is None or label != label for label in given):
        raise ValueError(f"{name} must not hold None or NaN, got {given}.")
    in_order, place = np.unique(np.asarray(given), return_index=True)
    if len(in_order) != len(given) or len(given) < 2:
        raise ValueError(f"{name} must name at least two labels, each once; got {given}.")
    if set(in_order.tolist()) != set(given):  # NumPy has made them of one type
        raise ValueError(f"{name} must name labels of one type, got {given}.")
    return in_order, place
