"""Updates of fitted duels: rows that come, and labels that come and go.

A new row takes part in the duels of its label and in no other. So an update solves the duels of the
labels that have new rows, from where they were, and copies all other ones:

- `add_rows` has all rows of before, and finds what a fit of all rows finds;
- `add_rows_alone` has none of them, and pulls the duels from their last solution to the new rows;
- `drop_labels` solves nothing.

All of them return a new `Solution` and leave the old one as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._pairs import duel_numbers, labels_of_duels, n_pairs, pairs
from duelrank._threads import Threads
from duelrank.duels._protocol import NewLabelsError, is_finite_array
from duelrank.duels._sides import check_rows, split_by
from duelrank.duels.logistic._anchor import LastSolution
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._columns import Columns
from duelrank.duels.logistic._fit import Start, fit_again, fit_corrections
from duelrank.duels.logistic._kept import KeptDuels, are_numbers
from duelrank.duels.logistic._rows import Settings, TrainingRows
from duelrank.duels.logistic.row_space import Appearances


class Solution(NamedTuple):
    """All duels of an engine.

    Attributes
    ----------
    kept : KeptDuels
        Their coefficients.
    intercept, decrement : ndarrays of shape (P,)
        Intercepts and certificates.
    n_iter : ndarray of int, of shape (P,)
        Iterations; 0 for a duel that never had rows of both labels.
    """

    kept: KeptDuels
    intercept: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]

    def seen_labels(self) -> NDArray[np.bool_]:
        """Tell which labels had rows, (K,)."""
        first, second = pairs(self.kept.n_classes)
        solved = self.n_iter > 0
        seen = np.zeros(self.kept.n_classes, dtype=bool)
        seen[first[solved | (self.intercept < 0)]] = True
        seen[second[solved | (self.intercept > 0)]] = True
        return seen


class Numbering(NamedTuple):
    """The codes of labels after some have come.

    Attributes
    ----------
    codes : ndarray of int, of shape (K_before,)
        The codes of now of the labels of before, increasing.
    n_classes : int
        Number of labels K now.
    """

    codes: NDArray[np.intp]
    n_classes: int

    def duels(self, before: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """Return the numbers of now of the duels of before, or of some of them; increasing."""
        first, second = pairs(len(self.codes))
        if before is not None:
            first, second = first[before], second[before]
        return duel_numbers(self.codes[first], self.codes[second], self.n_classes)


def check_numbering(known_codes: Any, n_before: int, n_classes: int) -> Numbering:
    """Return the codes of now, or raise unless they are some of K, increasing, one a label."""
    codes = np.arange(n_before) if known_codes is None else np.asarray(known_codes)
    if not isinstance(n_classes, (int, np.integer)) or n_classes < n_before:
        raise ValueError(
            f"n_classes must be at least {n_before}, the labels known so far, got {n_classes!r}; "
            "drop_labels drops labels."
        )
    if (
        codes.dtype.kind not in "iu"
        or codes.shape != (n_before,)
        or codes[0] < 0
        or codes[-1] >= n_classes
        or np.any(np.diff(codes) <= 0)
    ):
        raise ValueError(
            f"known_codes must be {n_before} increasing codes between 0 and {n_classes - 1}, one "
            f"for every label known so far; got {known_codes!r}."
        )
    return Numbering(codes.astype(np.intp), int(n_classes))


def check_new_rows(
    engine: Any, X: Any, feedback: Any, n_classes: int, sample_weight: Any
) -> TrainingRows:
    """Validate the rows of an update, and leave out those that weigh nothing.

    They are dense or sparse as the rows that the engine keeps, or else as they came, or sparse if
    the duels have coefficients of some columns only.
    """
    if np.ndim(feedback) != 1:
        raise ValueError(
            "feedback must be codes in partial_fit, a vector of integers; ranks are for fit."
        )
    dtype = engine.intercept_.dtype
    checks = {"accept_sparse": "csr", "dtype": dtype, "reset": False}
    rows = check_rows(engine, X, feedback, n_classes, sample_weight, **checks)
    X = rows.X
    kept, learned = vars(engine).get("kept_"), vars(engine).get("training_rows_")
    example = X
    if learned is not None and learned["X"] is not None:
        example = learned["X"]
    elif kept is not None:
        example = kept["rows"] if len(kept["row_numbers"]) else None
    if isinstance(example, np.ndarray):
        X = X if isinstance(X, np.ndarray) else X.toarray()
    else:
        X = sparse.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    weights = None if sample_weight is None else rows.weights
    return TrainingRows(X, rows.feedback, weights, n_classes).with_weight()


def check_last_solution_suffices(
    last: Solution, new: TrainingRows, numbering: Numbering, settings: Settings
) -> None:
    """Raise if new rows cannot be learned from without the rows of before."""
    if settings.class_weight == "balanced":
        raise ValueError(
            "class_weight='balanced' needs all rows in partial_fit; fit with keep_rows=True."
        )
    seen = np.zeros(numbering.n_classes, dtype=bool)
    seen[numbering.codes[last.seen_labels()]] = True
    unseen = np.setdiff1d(new.feedback, np.flatnonzero(seen))
    if len(unseen) or numbering.n_classes > len(numbering.codes):
        codes = (
            unseen if len(unseen) else np.setdiff1d(np.arange(numbering.n_classes), numbering.codes)
        )
        raise NewLabelsError(codes)


def check_labels_left(codes: Any, n_classes: int) -> NDArray[np.intp]:
    """Return the codes of the labels that stay when some are dropped."""
    dropped = np.atleast_1d(np.asarray(codes))
    if dropped.ndim != 1 or (len(dropped) and dropped.dtype.kind not in "iu"):
        raise ValueError(f"codes must be a list of integers, got {codes!r}.")
    left = np.setdiff1d(np.arange(n_classes), dropped)
    if len(left) != n_classes - len(np.unique(dropped)):
        raise ValueError(f"codes must be between 0 and {n_classes - 1}, got {codes!r}.")
    if len(left) < 2:
        raise ValueError(f"codes must leave at least two labels, but {len(left)} would stay.")
    return left


def rows_fit_together(learned: Any, kept: KeptDuels, dtype: np.dtype[Any]) -> bool:
    """Tell whether the rows that an engine keeps have the right kinds and shapes."""
    if not isinstance(learned, dict) or set(learned) != {"X", "codes", "weights"}:
        return False
    X, codes, weights = learned["X"], learned["codes"], learned["weights"]
    if X is None:
        if not kept.has_rows:
            return False
        X = kept.rows
        labels = np.repeat(np.arange(kept.n_classes), np.diff(kept.row_ends))
        by_row = np.full(X.shape[0], -1)
        by_row[kept.row_numbers] = labels
        if not np.array_equal(codes, by_row) or len(labels) != len(by_row):
            return False
    entries = X
    if isinstance(X, sparse.csr_array):
        X.check_format(full_check=True)  # raises ValueError
        entries = X.data
    elif not isinstance(X, np.ndarray) or kept.columns is not None:
        return False
    n_columns = kept.n_features if kept.columns is None else len(kept.columns)
    return (
        X.ndim == 2
        and X.shape[1] == n_columns
        and entries.dtype == dtype
        and is_finite_array(entries, "f", entries.shape)
        and are_numbers(codes, (X.shape[0],), kept.n_classes)
        and (
            weights is None
            or (
                is_finite_array(weights, "f", (X.shape[0],))
                and bool(np.all(weights > 0))
                and float(weights.max()) < np.finfo(weights.dtype).max / len(weights)
            )
        )
    )


def duels_of(labels: NDArray[np.intp], n_classes: int) -> NDArray[np.bool_]:
    """Tell which duels any of some labels takes part in, (P,)."""
    is_one = np.zeros(n_classes, dtype=bool)
    is_one[labels] = True
    first, second = pairs(n_classes)
    return is_one[first] | is_one[second]


def join_rows(
    before: TrainingRows, new: TrainingRows, numbering: Numbering, n_features: int
) -> TrainingRows:
    """Put the rows of before and new ones together, in the columns that have entries.

    Parameters
    ----------
    before : TrainingRows
        Rows of the columns that had entries, with their codes of before.
    new : TrainingRows
        Rows of all columns, dense or sparse as those of before are, with their codes of now.
    numbering : Numbering
        The codes of now.
    n_features : int
        Number of all columns.
    """
    codes = np.concatenate([numbering.codes[before.feedback], new.feedback])
    weights = None
    if before.weights is not None or new.weights is not None:
        parts = [
            np.ones(len(part.feedback)) if part.weights is None else part.weights
            for part in (before, new)
        ]
        weights = np.concatenate(parts)
    new = in_columns(new, before.columns, n_features)
    X = _stacked(before.X, before.columns, new)
    return TrainingRows(X, codes, weights, numbering.n_classes, new.columns)


def in_columns(
    new: TrainingRows, columns: NDArray[np.intp] | None, n_features: int
) -> TrainingRows:
    """Leave out columns of new rows, unless they have entries or are among some columns."""
    if columns is None:
        return new
    columns = np.union1d(columns, new.X.indices).astype(np.intp)
    return new._replace(X=Columns(columns, n_features).of(new.X), columns=columns)


def add_rows(
    last: Solution,
    rows: TrainingRows,
    n_new: int,
    numbering: Numbering,
    settings: Settings,
    threads: Threads,
) -> Solution:
    """Solve the duels of the labels that have new rows, from all rows.

    Parameters
    ----------
    last : Solution
        The duels of the rows of before.
    rows : TrainingRows
        All rows, of positive weight, those of before first and in their order.
    n_new : int
        How many of them are new.
    numbering : Numbering
        The codes of now.
    settings : Settings
        The parameters; C as it was.
    threads : Threads
        The threads.
    """
    n_classes, kept = numbering.n_classes, last.kept
    new_codes = rows.feedback[len(rows.feedback) - n_new :]
    wanted = duels_of(np.unique(new_codes), n_classes)
    duels_now = numbering.duels()
    before = np.full(n_pairs(n_classes), -1)  # the number of before of every duel
    before[duels_now] = np.arange(len(duels_now))
    # A duel without rows of both labels had no coefficients, and an intercept of no use.
    began = np.zeros(n_pairs(n_classes), dtype=bool)
    began[duels_now] = last.n_iter > 0
    intercept = np.zeros(n_pairs(n_classes))
    intercept[began] = last.intercept[before[began]]
    columns = _places_of_columns(kept, rows.columns)

    def coefficients(duels: NDArray[np.intp]) -> tuple[Floats, Floats]:
        coef = np.zeros((len(duels), rows.X.shape[1]))
        known = np.flatnonzero(began[duels])
        coef[np.ix_(known, columns)] = kept.column_coef_of_duels(before[duels[known]])
        return coef, intercept[duels]

    appearances, row_coef = Appearances.of(rows.feedback, n_classes), None
    if kept.has_rows:
        appearances, row_coef = _with_appearances(kept, new_codes, numbering)
    start = Start(coefficients, intercept, row_coef)
    fitted = fit_again(rows, settings, wanted, start, threads)

    # Duels that are new and not wanted have no rows of one label or of both; their intercepts say
    # so already.
    stays = (before >= 0) & ~wanted
    for name in ("intercept", "decrement", "n_iter"):
        getattr(fitted, name)[stays] = getattr(last, name)[before[stays]]
    made = KeptDuels(
        kept.n_features,
        rows.columns,
        fitted.coef,
        np.flatnonzero(~fitted.by_rows),
        rows.X,
        appearances.rows,
        appearances.ends,
        fitted.row_coef,
    )
    # Duels that are not wanted stay in the form they have: in another one, their last bits would
    # differ. So coefficients of rows stay where there are any. They come where they at most double
    # the space, since labels that come later will save it.
    pays = len(rows.feedback) * n_classes < len(wanted) * rows.X.shape[1]
    in_features = np.ones(len(wanted), dtype=bool)
    if kept.has_rows or (pays and np.any(wanted & fitted.by_rows)):
        in_features[:] = False
        in_features[numbering.duels(kept.coef_duels)] = True
        in_features = (in_features & ~wanted) | ~fitted.by_rows
    put = np.flatnonzero(wanted & in_features)
    same = np.array_equal(put, made.coef_duels)
    coef = fitted.coef if same else made.column_coef_of_duels(put)
    made = _with_features(made, kept, in_features, put, coef, numbering)
    return Solution(made, fitted.intercept, fitted.decrement, fitted.n_iter)


def add_rows_alone(
    last: Solution,
    new: TrainingRows,
    margins: Callable[[], Floats],
    settings: Settings,
    threads: Threads,
) -> Solution:
    """Pull the duels of the labels of new rows from their last solution towards these rows.

    A duel minimises ½‖v − v_last‖² + C Σ losses of the new rows, v being its coefficients and its
    intercept.

    Parameters
    ----------
    last : Solution
        The duels so far.
    new : TrainingRows
        Rows of positive weight, of labels that were seen before, as by `in_columns`.
    margins : callable
        Returns what the last solution says of them, (n, P).
    settings : Settings
        The parameters; C as it was.
    threads : Threads
        The threads.
    """
    kept, n_classes = last.kept, new.n_classes
    wanted = duels_of(np.unique(new.feedback), n_classes) & (last.n_iter > 0)
    columns = _places_of_columns(kept, new.columns)
    with_ones = new._replace(X=_with_ones(new.X)) if settings.fit_intercept else new
    n_columns, n_coefficients = new.X.shape[1], with_ones.X.shape[1]

    def coefficients(duels: NDArray[np.intp]) -> Floats:
        coef = np.zeros((len(duels), n_coefficients), dtype=new.X.dtype)
        coef[:, columns] = kept.column_coef_of_duels(duels)
        if settings.fit_intercept:
            coef[:, -1] = last.intercept[duels]
        return coef

    anchor, without = LastSolution(coefficients, margins), settings._replace(fit_intercept=False)
    fitted, _, wanted = fit_corrections(with_ones, without, anchor, wanted, threads)
    by_rows = wanted & fitted.by_rows
    appearances = Appearances.of(new.feedback, n_classes)
    corrections = KeptDuels(
        n_coefficients,
        None,
        fitted.coef[:0],
        np.zeros(0, dtype=np.intp),
        with_ones.X,
        appearances.rows,
        appearances.ends,
        fitted.row_coef,
    )
    # Duels that have coefficients of features keep that form.
    in_features = wanted & ~fitted.by_rows
    in_features[kept.coef_duels] = True
    put = np.flatnonzero(wanted & in_features)
    coef = np.empty((len(put), n_coefficients), dtype=new.X.dtype)
    corrected = by_rows[put]
    coef[~corrected] = fitted.coef
    coef[corrected] = coefficients(put[corrected])
    coef[corrected] += corrections.column_coef_of_duels(put[corrected])
    intercept = last.intercept.copy()
    made = kept._replace(columns=new.columns)
    in_rows = np.flatnonzero(by_rows & ~in_features)
    if len(in_rows):
        same = Numbering(np.arange(n_classes), n_classes)
        appearances, row_coef = _with_appearances(kept, new.feedback, same)
        is_new = appearances.rows >= kept.rows.shape[0]
        row_coef[is_new] = np.where(
            _between(n_classes, in_rows)[new.feedback[corrections.row_numbers]],
            fitted.row_coef,
            0,
        )
        made = made._replace(
            rows=_stacked(kept.rows, kept.columns, new),
            row_numbers=appearances.rows,
            row_ends=appearances.ends,
            row_coef=row_coef,
        )
        if settings.fit_intercept:
            column = np.ones((new.X.shape[0], 1), dtype=new.X.dtype)
            ones = corrections._replace(coef=fitted.coef[:0, :1], rows=column)
            intercept[in_rows] += ones.column_coef_of_duels(in_rows)[:, 0]
    elif kept.has_rows:
        rows = _widened(kept.rows, kept.columns, new.columns)
        made = made._replace(rows=rows, row_coef=kept.row_coef.copy())
    same = Numbering(np.arange(n_classes), n_classes)
    made = _with_features(made, kept, in_features, put, coef[:, :n_columns], same)
    if settings.fit_intercept:
        intercept[put] = coef[:, -1]
    decrement = np.where(wanted, fitted.decrement, last.decrement)
    n_iter = np.where(wanted, fitted.n_iter, last.n_iter)
    return Solution(made, intercept, decrement, n_iter)


def drop_labels(last: Solution, left: NDArray[np.intp]) -> Solution:
    """Leave out the duels of all labels but some, and the rows that take part in no other duel.

    Parameters
    ----------
    last : Solution
        The duels so far.
    left : ndarray of int
        The codes of the labels that stay, increasing.
    """
    kept, n_classes = last.kept, last.kept.n_classes
    gone = np.setdiff1d(np.arange(n_classes), left)
    stays = np.flatnonzero(~duels_of(gone, n_classes))
    number = np.full(n_pairs(n_classes), -1)
    number[stays] = np.arange(len(stays))
    mine = number[kept.coef_duels] >= 0
    coef, coef_duels = kept.coef[mine], number[kept.coef_duels[mine]]
    if _is_fortran(kept.coef):
        coef = np.asfortranarray(coef)
    of_duels = last.intercept[stays], last.decrement[stays], last.n_iter[stays]
    if len(coef_duels) == len(stays):
        plain = KeptDuels.of_features(coef, len(left), kept.n_features, kept.columns)
        return Solution(plain, *of_duels)
    counts = np.diff(kept.row_ends)
    appears = np.isin(np.repeat(np.arange(n_classes), counts), left)
    rows_left, row_numbers = np.unique(kept.row_numbers[appears], return_inverse=True)
    smaller = kept._replace(
        coef=coef,
        coef_duels=coef_duels,
        rows=kept.rows[rows_left],
        row_numbers=row_numbers.astype(np.intp),
        row_ends=np.concatenate([[0], np.cumsum(counts[left])]).astype(np.intp),
        row_coef=kept.row_coef[np.ix_(appears, left)],
    )
    return Solution(smaller, *of_duels)


def _with_features(
    made: KeptDuels,
    last: KeptDuels,
    in_features: NDArray[np.bool_],
    put: NDArray[np.intp],
    coef: Floats,
    numbering: Numbering,
) -> KeptDuels:
    """Return duels with their coefficients of features: some that were made, and those of before.

    Parameters
    ----------
    made : KeptDuels
        All but coefficients of features. The coefficients of rows are changed in place.
    last : KeptDuels
        The duels of before.
    in_features : ndarray of bool, of shape (P,)
        Which duels have coefficients of features now.
    put : ndarray of int, of shape (m,)
        Which of them have new ones.
    coef : ndarray of shape (m, d)
        These.
    numbering : Numbering
        The codes of now.
    """
    now = numbering.duels(last.coef_duels)
    is_new = np.zeros(len(in_features), dtype=bool)
    is_new[put] = True
    stays = in_features[now] & ~is_new[now]
    place = np.cumsum(in_features) - 1
    n_columns = made.n_features if made.columns is None else len(made.columns)
    shape = np.count_nonzero(in_features), n_columns
    order: Literal["F", "C"] = "F" if _is_fortran(last.coef) or not made.dense else "C"
    all_coef = np.zeros(shape, dtype=last.coef.dtype, order=order)
    if n_columns == last.coef.shape[1]:
        all_coef[place[now[stays]]] = last.coef[stays]
    else:
        columns = _places_of_columns(last, made.columns)
        all_coef[np.ix_(place[now[stays]], columns)] = last.coef[stays]
    all_coef[place[put]] = coef
    n_classes = numbering.n_classes
    if in_features.all():
        return KeptDuels.of_features(all_coef, n_classes, made.n_features, made.columns)
    if last.has_rows:  # coefficients of rows that some of them had before
        first, second = labels_of_duels(put, n_classes)
        ends = made.row_ends
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            made.row_coef[ends[a] : ends[a + 1], b] = 0
            made.row_coef[ends[b] : ends[b + 1], a] = 0
    return made._replace(coef=all_coef, coef_duels=np.flatnonzero(in_features))


def _with_appearances(
    kept: KeptDuels, new_codes: NDArray[np.intp], numbering: Numbering
) -> tuple[Appearances, Floats]:
    """Let new rows appear behind those of before, with coefficients of zero."""
    labels = numbering.codes[np.repeat(np.arange(kept.n_classes), np.diff(kept.row_ends))]
    labels = np.concatenate([labels, new_codes])
    new_rows = kept.rows.shape[0] + np.arange(len(new_codes))
    by_label = split_by(labels, numbering.n_classes)
    in_order = np.concatenate(by_label)
    rows = np.concatenate([kept.row_numbers, new_rows])[in_order]
    ends = np.cumsum([0, *map(len, by_label)]).astype(np.intp)
    row_coef = np.zeros((len(rows), numbering.n_classes), dtype=kept.row_coef.dtype)
    place = np.empty(len(rows), dtype=np.intp)
    place[in_order] = np.arange(len(rows))
    place = place[: len(kept.row_numbers)]
    runs = np.split(
        np.arange(len(numbering.codes)), np.flatnonzero(np.diff(numbering.codes) > 1) + 1
    )
    for run in runs:  # whole stretches of a row are copied
        start, stop = numbering.codes[run[0]], numbering.codes[run[-1]] + 1
        row_coef[place, start:stop] = kept.row_coef[:, run[0] : run[-1] + 1]
    return Appearances(rows.astype(np.intp), ends), row_coef


def _between(n_classes: int, duels: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which two labels have one of some duels, (K, K)."""
    first, second = labels_of_duels(duels, n_classes)
    have = np.zeros((n_classes, n_classes), dtype=bool)
    have[first, second] = have[second, first] = True
    return have


def _places_of_columns(kept: KeptDuels, columns: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Return where the columns that duels have coefficients of are among some columns."""
    if kept.columns is None:
        return np.arange(kept.n_features)
    return kept.columns if columns is None else np.searchsorted(columns, kept.columns)


def _widened(X: Any, columns: NDArray[np.intp] | None, wider: NDArray[np.intp] | None) -> Any:
    """Return rows of some columns as rows of more columns."""
    if columns is None or wider is None or len(columns) == len(wider):
        return X
    place = np.searchsorted(wider, columns).astype(X.indices.dtype)
    return sparse.csr_array((X.data, place[X.indices], X.indptr), shape=(X.shape[0], len(wider)))


def _stacked(X: Any, columns: NDArray[np.intp] | None, new: TrainingRows) -> Any:
    """Put new rows behind those of before."""
    if isinstance(X, np.ndarray):
        return np.concatenate([X, new.X])
    parts = [_widened(X, columns, new.columns), new.X]
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _is_fortran(coef: Floats) -> bool:
    return bool(coef.flags.f_contiguous and not coef.flags.c_contiguous)


def _with_ones(X: Any) -> Any:
    """Append a column of ones."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if isinstance(X, np.ndarray):
        return np.hstack([X, ones])
    return sparse.csr_array(sparse.hstack([X, sparse.csr_array(ones)], format="csr"))
