"""Rows that classifiers are evaluated on while they learn.

Boosting libraries take such rows as arguments of ``fit``, and stop when a classifier gets no better
on them. Each duel gets the rows of its own two labels, with 0 and 1 in place of these, as in the
rows that it learns from. An *evaluation set* is points and their labels. Sets come in three forms:

- ``eval_set``, a list of pairs (X, y), or one pair: XGBoost, LightGBM, CatBoost;
- ``eval_X`` and ``eval_y``, one set or a tuple of some: LightGBM;
- ``X_val`` and ``y_val``, one set: scikit-learn.

*Companions* are arguments with something for each of their rows, such as weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank._sklearn import as_indexable, take_rows
from duelrank.duels._sides import count_sides
from duelrank.rankings import codes_from_labels

PAIRS = "eval_set"
# Arguments of points and of labels.
SEPARATE = (("eval_X", "eval_y"), ("X_val", "y_val"))
COMPANION = "sample_weight_val"  # one array
COMPANIONS = (  # lists with one array for each set
    "sample_weight_eval_set",
    "base_margin_eval_set",
    "eval_sample_weight",
    "eval_init_score",
)
# They go by labels or by groups of rows, which are others in a duel.
REFUSED = ("eval_class_weight", "eval_group", "eval_qid")


class EvaluationSets:
    """The evaluation sets in one argument of ``fit``, or in two for points and labels.

    Parameters
    ----------
    names : tuple of str
        The argument of pairs, or those of points and of labels.
    X : list of array-likes
        Points of every set.
    codes : list of ndarrays of int
        Their labels, as codes.
    is_single : bool
        Whether one set was given, not a list of sets.
    """

    def __init__(
        self, names: tuple[str, ...], X: list[Any], codes: list[NDArray[np.intp]], is_single: bool
    ) -> None:
        self.names, self.X, self.codes, self.is_single = names, X, codes, is_single
        self.companions: dict[str, list[Any]] = {}

    def add_companion(self, name: str, value: Any) -> None:
        """Add an argument with something for each row of every set."""
        values = [value] if name == COMPANION else value
        rows = [None if part is None else len(part) for part in values]
        expected = [len(codes) for codes in self.codes]
        if len(rows) != len(expected) or any(
            n not in (None, m) for n, m in zip(rows, expected, strict=True)
        ):
            raise ValueError(
                f"{name} must have one value for each row of {self.names[0]}: {expected}, "
                f"got {rows}."
            )
        self.companions[name] = list(values)

    def check_labels(self, needed: NDArray[np.intp], labels: Sequence[Any]) -> None:
        """Raise if a set has no row of a label that has duels to be evaluated."""
        for number, codes in enumerate(self.codes):
            missing = [labels[code] for code in np.setdiff1d(needed, codes)]
            if missing:
                name = self.names[-1] if self.is_single else f"{self.names[0]}[{number}]"
                raise ValueError(
                    f"{name} has no row of the labels {missing[:10]}, but every duel is evaluated "
                    "on rows of both its labels."
                )

    def of(self, first: int, second: int, columns: NDArray[np.intp] | None) -> dict[str, Any]:
        """Return arguments of the ``fit`` of one duel.

        Parameters
        ----------
        first, second : int
            Codes of its labels.
        columns : ndarray of int, or None
            The rows that it learns from, if these are the columns of pairwise points.
        """
        rows = [np.flatnonzero((codes == first) | (codes == second)) for codes in self.codes]
        X = [take_rows(points, kept) for points, kept in zip(self.X, rows, strict=True)]
        if columns is not None:
            X = [np.asarray(points)[:, columns] for points in X]
        y = [(codes[kept] == second).astype(np.intp) for codes, kept in zip(self.codes, rows)]
        arguments: dict[str, Any] = {}
        for name, values in self.companions.items():
            taken = [None if v is None else take_rows(v, kept) for v, kept in zip(values, rows)]
            arguments[name] = taken[0] if name == COMPANION else taken
        if len(self.names) == 1:
            sets = list(zip(X, y, strict=True))
            arguments[self.names[0]] = sets[0] if self.is_single else sets
        else:
            for name, parts in zip(self.names, (X, y), strict=True):
                arguments[name] = parts[0] if self.is_single else tuple(parts)
        return arguments


def read_evaluation_sets(
    params: dict[str, Any], labels: Sequence[Any]
) -> tuple[dict[str, Any], list[EvaluationSets]]:
    """Take the evaluation sets out of the arguments of ``fit``.

    Parameters
    ----------
    params : dict
        Keyword arguments; those that are None stay.
    labels : sequence of length K
        The labels that sets may hold, in the order of their codes.

    Returns
    -------
    others : dict
        The other arguments.
    found : list of EvaluationSets
        None, one, or one for each form.
    """
    others = dict(params)
    found = [
        _read_pairs(name, others.pop(name), labels)
        for name, value in params.items()
        if value is not None and (name == PAIRS or _is_list_of_pairs(value))
    ]
    for names in SEPARATE:
        values = [others.get(name) for name in names]
        if any(value is not None for value in values):
            found.append(_read_separate(names, values, labels))
            others = {name: value for name, value in others.items() if name not in names}
    for name in REFUSED:
        if others.get(name) is not None:
            raise ValueError(
                f"{name} cannot be given for duels, which have other labels and rows of their own."
            )
    for name in (COMPANION, *COMPANIONS):
        if found and others.get(name) is not None:
            found[0].add_companion(name, others.pop(name))
    return others, found


def check_evaluation_labels(
    sets: list[EvaluationSets],
    labels: Sequence[Any],
    feedback: NDArray[Any],
    weights: NDArray[np.floating] | None,
) -> None:
    """Raise unless every label has rows in every set, if it has a duel that learns.

    Parameters
    ----------
    sets : list of EvaluationSets
        What was read.
    labels : sequence of length K
        The labels, in the order of their codes.
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks, to learn from.
    weights : ndarray of shape (n,), or None
        Weights of these rows.
    """
    if sets:
        learns = (count_sides(feedback, len(labels), weights) > 0).all(axis=0)
        needed = np.unique(np.stack(pairs(len(labels)))[:, learns])
        for part in sets:
            part.check_labels(needed, labels)


def _read_pairs(name: str, value: Any, labels: Sequence[Any]) -> EvaluationSets:
    is_single = isinstance(value, tuple) and len(value) == 2 and not _is_list_of_pairs(value)
    sets = [value] if is_single else value
    if not isinstance(sets, (list, tuple)) or not all(map(_is_pair, sets)):
        raise TypeError(
            f"{name} must be a list of pairs (X, y) for duels, which take their own rows of it; "
            f"got {type(value).__name__}."
        )
    numbered = [name if is_single else f"{name}[{number}]" for number in range(len(sets))]
    read = [_read_set(n, X, y, labels) for n, (X, y) in zip(numbered, sets, strict=True)]
    points, codes = ([part[place] for part in read] for place in (0, 1))
    return EvaluationSets((name,), points, codes, is_single)


def _read_separate(
    names: tuple[str, str], values: list[Any], labels: Sequence[Any]
) -> EvaluationSets:
    for name, value in zip(names, values, strict=True):
        if value is None:
            raise ValueError(f"{name} must be given, as {' and '.join(names)} belong together.")
    is_single = not isinstance(values[1], tuple)
    X, y = ([value] if is_single else list(value) for value in values)
    if len(X) != len(y):
        raise ValueError(
            f"{names[1]} must have as many parts as {names[0]}: {len(X)}, got {len(y)}."
        )
    read = [_read_set(names[1], *pair, labels) for pair in zip(X, y, strict=True)]
    points, codes = ([part[place] for part in read] for place in (0, 1))
    return EvaluationSets(names, points, codes, is_single)


def _read_set(name: str, X: Any, y: Any, labels: Sequence[Any]) -> tuple[Any, NDArray[np.intp]]:
    X = as_indexable(X)
    if np.ndim(y) != 1 or len(y) != X.shape[0]:
        raise ValueError(
            f"{name} must hold one label for each of its {X.shape[0]} rows, "
            f"got labels of shape {np.shape(y)}."
        )
    return X, codes_from_labels(y, labels, name)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2


def _is_list_of_pairs(value: Any) -> bool:
    """Tell evaluation sets from other arguments, also if they have another name in a pipeline."""
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(_is_pair(pair) and len(np.shape(pair[0])) == 2 for pair in value)
    )
