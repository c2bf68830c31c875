"""What all rankers share: targets in any form, and every form of a ranking out of scores.

`encode` turns what users call y into *targets*: labels, top-m lists or rankings become codes or
ranks whose columns follow `classes`. `LabelRanker` is the parent of the estimators that rank: they
say how labels score, it does the rest.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from duelrank._parameters import check_choice
from duelrank._sklearn import has_wrapped_fit
from duelrank._templates import no_decisions, no_labels, no_order, no_ranks, no_top
from duelrank.blocks._labeled import LabeledBlocks
from duelrank.blocks._ranking import by_blocks, refuse_blocks
from duelrank.blocks._sources import in_blocks
from duelrank.feedback import UNPLACED, as_ranks, check_feedback, reveals_nothing, single_labels
from duelrank.rankings import (
    check_k,
    codes_from_labels,
    order_from_scores,
    ranks_from_scores,
    refuse_missing,
)


class Targets(NamedTuple):
    """What the rows are to be learned from.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes if every row tells one label, else ranks in which equal ones and NaN say nothing.
    unplaced : {"behind", "unknown"}
        Where labels without a place are taken to be.
    n_silent_rows : int
        Number of rows that say nothing at all.
    rank_columns : ndarray of shape (K,)
        The labels in the order of the columns of ranks, as they were given.
    """

    classes: NDArray[Any]
    feedback: NDArray[Any]
    unplaced: str
    n_silent_rows: int
    rank_columns: NDArray[Any]

    @property
    def ranks(self) -> NDArray[np.float64]:
        """Return the feedback as ranks, also if it is labels."""
        return as_ranks(self.feedback, len(self.classes))


def encode(ranker: Any, X: Any, y: Any, unplaced: str = "auto", classes: Any = None) -> Targets:
    """Return the labels and the feedback in y, a vector of labels or an (n, K) array of ranks.

    Parameters
    ----------
    ranker : estimator
        Whose fit it is, for the error message.
    X : array-like with n rows
        The points.
    y : array-like of shape (n,) or (n, K)
        Labels, or ranks. The columns of a dataframe name the labels; otherwise they are 0..K−1.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        As in `check_feedback`.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    """
    if isinstance(X, LabeledBlocks):
        return _encode_blocks(X, classes)
    if y is None:
        raise ValueError(
            f"{type(ranker).__name__} requires y to be passed, but the target y is None."
        )
    if in_blocks(y):
        raise TypeError(f"y must be in memory as X is, got {type(y).__name__}.")
    check_choice("unplaced", unplaced, UNPLACED)
    if is_ranks(y):
        return _encode_ranks(ranker, X, y, unplaced, classes)
    _refuse_lists(y)
    y = column_or_1d(y, warn=True)
    refuse_missing(y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    check_consistent_length(X, y)
    if classes is not None:
        classes, _ = _sorted_labels(classes, "classes")
        return Targets(classes, codes_from_labels(y, classes, "y"), "behind", 0, classes)
    classes, codes = np.unique(y, return_inverse=True)
    _check_two(classes)
    return Targets(classes, codes, "behind", 0, classes)


def _encode_blocks(blocks: LabeledBlocks, classes: Any) -> Targets:
    """Settle the labels of rows that come in blocks, which keep their feedback."""
    if classes is None:
        labels = blocks.census.labels
        _check_two(labels)
    else:
        labels, _ = _sorted_labels(classes, "classes")
        blocks.check_classes(labels)
    blocks.classes = labels
    return Targets(labels, np.empty(0, dtype=np.intp), "behind", 0, labels)


def _check_two(classes: NDArray[Any]) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two different classes to rank, got {len(classes)} "
            f"{'class' if len(classes) == 1 else 'classes'}: {classes.tolist()}."
        )


def is_ranks(y: Any) -> bool:
    """Tell ranks, with a column for every label, from a vector of labels."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, (list, tuple)) and len(y) and hasattr(y[0], "__len__"):
        return not isinstance(y[0], (str, bytes)) and len(y[0]) > 1
    return shape is not None and len(shape) == 2 and shape[1] > 1


def ranks_by_label(ranks: Any, classes: Any, columns: Any = None, name: str = "ranks") -> Any:
    """Put the columns of ranks in the order of the classes, if it is known which is which.

    Parameters
    ----------
    ranks : array-like of shape (n, K)
        The columns of a dataframe are named by the classes, or by numbers that name nothing.
    classes : array-like of shape (K,)
        The labels.
    columns : array-like of shape (K,), default=None
        The labels of the columns, where these are not named.
    name : str, default="ranks"
        The argument's name, for the error message.
    """
    labels = np.asarray(classes).tolist()
    named = column_names(ranks)
    if named is not None and set(named) == set(labels):
        return np.stack([_floats(ranks[label]) for label in labels], axis=1)
    if named is not None and len(named) == len(labels) and named != list(range(len(named))):
        raise ValueError(f"{name} has the columns {named}, but the labels are {labels}.")
    if columns is not None and np.shape(ranks)[1:] == np.shape(labels):
        place = {label: column for column, label in enumerate(columns)}
        return np.asarray(ranks)[:, [place[label] for label in labels]]
    return ranks


def column_names(table: Any) -> list[Any] | None:
    """Return the names of a dataframe's columns, None for an array."""
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return None if names is None else list(names)


def _floats(column: Any) -> NDArray[Any]:
    """Return a column of a dataframe; numbers that may be missing have NaN for it."""
    if hasattr(column, "dtype") and getattr(column.dtype, "na_value", 0) is not np.nan:
        with suppress(TypeError, ValueError):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column)


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


def _encode_ranks(ranker: Any, X: Any, y: Any, unplaced: str, classes: Any) -> Targets:
    check_consistent_length(X, y)
    _refuse_lists(y)
    columns, name = classes, "classes"
    if classes is None:
        columns, name = column_names(y), "the columns of y"
    if columns is None:
        columns = np.arange(np.shape(y)[1])
    labels, order = _sorted_labels(columns, name)
    y = ranks_by_label(y, labels[np.argsort(order)], name="y")
    if np.asarray(y).dtype.kind in "OUST" and not _are_numbers(y):
        raise ValueError(
            "y must hold ranks, which are numbers; lists of labels become ranks by "
            "duelrank.rankings.ranks_from_lists(lists, classes)."
        )
    ranks, unplaced = check_feedback(y, unplaced=unplaced, n_classes=len(labels), name="y")
    ranks = ranks[:, order]
    n_silent = int(np.count_nonzero(reveals_nothing(ranks)))
    if n_silent == len(ranks):
        raise ValueError(
            "y must place one label ahead of another in at least one row; no row does"
            f"{', labels without a place being anywhere' if unplaced == 'unknown' else ''}."
        )
    if n_silent:
        warnings.warn(
            f"{n_silent} of {len(ranks)} rows of y place no label ahead of another and say "
            "nothing.",
            UserWarning,
            stacklevel=4 + has_wrapped_fit(ranker),
        )
    codes = single_labels(ranks)
    feedback = ranks if codes is None else codes
    return Targets(labels, feedback, unplaced, n_silent, labels[np.argsort(order)])


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


class LabelRanker(ClassifierMixin, BaseEstimator):
    """Parent of estimators that rank: children have `classes_` and a method `_label_scores`.

    ``_label_scores(X)`` returns (n, K) scores, no two equal in a row: their descending order is the
    ranking.
    """

    classes_: NDArray[Any]
    rank_columns_: NDArray[Any]

    def _label_scores(self, X: Any) -> NDArray[np.float64]:
        raise NotImplementedError

    @by_blocks(no_labels)
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of every point.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        labels : ndarray of shape (n,)
            First column of `predict_order`.
        """
        scores = self._label_scores(X)
        return self.classes_[np.argmax(scores, axis=1)]

    @by_blocks(no_decisions)
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores whose descending order is the ranking.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        scores : ndarray of shape (n, K), or (n,) for two labels
            No two scores of a row are equal. For two labels, as scikit-learn has it, the score of
            the second minus that of the first.
        """
        scores = self._label_scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @by_blocks(no_ranks)
    def predict_ranks(self, X: Any) -> NDArray[np.int64]:
        """Return the place of every label.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        ranks : ndarray of int, of shape (n, K)
            ``ranks[i, k]`` is the place of ``classes_[k]``: 1 is the most probable.
        """
        return ranks_from_scores(self._label_scores(X))

    @by_blocks(no_order)
    def predict_order(self, X: Any) -> NDArray[Any]:
        """Return all labels from most to least probable.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        order : ndarray of labels, of shape (n, K)
            One row per point, most probable label first.
        """
        scores = self._label_scores(X)
        return self.classes_[order_from_scores(scores)]

    @by_blocks(no_top)
    def predict_top(self, X: Any, k: int) -> NDArray[Any]:
        """Return the k most probable labels.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.
        k : int
            How many labels, from 1 to K.

        Returns
        -------
        top : ndarray of labels, of shape (n, k)
            One row per point, most probable label first.
        """
        check_is_fitted(self)
        check_k(k, len(self.classes_))
        return self.predict_order(X)[:, :k]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return how good the rankings are: accuracy for labels, Kendall's τ for rankings.

        Parameters
        ----------
        X : array-like with n rows
            Query points.
        y : array-like of shape (n,) or (n, K)
            Labels, or ranks; of these only the pairs of labels count whose order a row tells, with
            labels left out taken as `unplaced` says (by "auto" as unknown if fit saw gaps, else by
            what these rows look like). Columns of an array are in the order of fit,
            `rank_columns_`; those of a dataframe go by their names.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Share of the points whose first label is theirs, or the mean τ of the rows that place
            one label ahead of another.
        """
        refuse_blocks(
            X,
            "on Dask the accuracy is (ranker.predict(X) == y).mean(), and "
            "duelrank.blocks.write_rankings writes files to compare with labels",
        )
        if not is_ranks(y):
            return float(super().score(X, y, sample_weight))
        # Losses know the rankers, so they come in late.
        from duelrank.losses import kendall_tau_scorer

        return kendall_tau_scorer()(self, X, y, sample_weight=sample_weight)
