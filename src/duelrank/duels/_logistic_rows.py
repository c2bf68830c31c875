"""From training data to blocks of rows: checked, sorted, scaled, and told their sides in duels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from duelrank._pairs import pairs
from duelrank._parameters import check_count, check_positive
from duelrank.duels._logistic_groups import Group, GroupedRows
from duelrank.duels._logistic_objective import Block, Crew, Floats
from duelrank.duels._logistic_preconditioner import (
    Diagonal,
    OwnHessians,
    Preconditioner,
    own_hessians_pay,
)
from duelrank.duels._logistic_scaling import Scaling
from duelrank.duels._sides import check_rows

WEIGHT_BYTES = 80  # per weight of a duel: the vectors of conjugate gradients
LARGEST_BASIS = 1500  # features up to which an eigenbasis is computed
EVERYONE = np.ones((1, 1), dtype=bool)  # all rows take part in the one fold that there is


class RowTable:
    """Rows sorted by group and scaled.

    If asked to, the table goes on to a basis in which the covariance of the rows inside their
    groups and the penalty are both diagonal: one that suits all problems.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
        Rows of positive weight.
    groups : list of Group
        Rows that take part in the same problems.
    weights : ndarray of shape (n,), or None
        Weights of the rows.
    scaling : Scaling
        What is done to the features.
    rotate : bool
        Whether to change the basis; sparse rows and those with very many features stay as they are.
    crew : Crew
        The threads.
    precise : bool, default=True
        Whether to keep rows in double precision as well, if X is.

    Attributes
    ----------
    single, double : lists of matrices
        Scaled rows of every group in single precision, and in double precision or None.
    row_weights : list of arrays or None
        Their weights.
    basis : ndarray of shape (n_features, n_features), or None
        The basis.
    penalty : ndarray of shape (d,)
        Penalty of the weights of the rows; 0 for the intercept.
    """

    def __init__(
        self,
        X: Any,
        groups: list[Group],
        weights: Floats | None,
        scaling: Scaling,
        rotate: bool,
        crew: Crew,
        precise: bool = True,
    ) -> None:
        self.scaling = scaling
        self.penalty = scaling.penalty.copy()
        rows_of = [group.rows for group in groups]
        self.row_weights = [None if weights is None else weights[rows] for rows in rows_of]
        precise = precise and X.dtype == np.float64
        dtype = np.float64 if precise else np.float32
        scaled = crew.map(lambda rows: scaling.rows(X, rows, dtype), rows_of)
        self.basis: Floats | None = None
        if rotate and groups and isinstance(X, np.ndarray) and X.shape[1] <= LARGEST_BASIS:
            self._rotate(scaled, crew)
        self.single = crew.map(lambda rows: rows.astype(np.float32, copy=False), scaled)
        self.double = scaled if precise else [None] * len(groups)

    def block(
        self,
        group: int,
        problems: NDArray[np.intp],
        sign: Floats,
        scale: Floats,
        sides: Floats | None = None,
    ) -> Block:
        """Return a group as a block of the problems given."""
        arrays = self.single[group], self.double[group], self.row_weights[group]
        single, double, weights = (
            rows[np.newaxis] if isinstance(rows, np.ndarray) else rows for rows in arrays
        )
        return Block(
            single,
            double,
            problems[np.newaxis],
            sign[np.newaxis],
            scale[np.newaxis],
            weights,
            np.zeros(1, dtype=np.intp),
            None if sides is None else sides[np.newaxis],
        )

    def unscale(self, weights: Floats) -> tuple[Floats, Floats]:
        """Turn weights of the table's rows into coefficients and intercepts of the rows of X."""
        return self.scaling.coefficients(self.turned(weights))

    def rescale(self, coef: Floats, intercept: Floats) -> Floats:
        """Undo `unscale`."""
        weights = self.scaling.weights(coef, intercept)
        if self.basis is not None:
            n_features = len(self.basis)
            weights[:, :n_features] = np.linalg.solve(self.basis, weights[:, :n_features].T).T
        return weights

    def turned(self, weights: Floats) -> Floats:
        """Turn weights of the table's rows into weights of scaled rows."""
        if self.basis is None:
            return weights
        n_features = len(self.basis)
        return np.hstack([weights[:, :n_features] @ self.basis.T, weights[:, n_features:]])

    def turned_back(self, gradients: Floats) -> Floats:
        """Turn gradients by weights of scaled rows into those by weights of the table's rows."""
        if self.basis is None:
            return gradients
        n_features = len(self.basis)
        return np.hstack([gradients[:, :n_features] @ self.basis, gradients[:, n_features:]])

    def _rotate(self, scaled: list[Floats], crew: Crew) -> None:
        """Solve the eigenproblem S b = λ diag(penalty) b, S the covariance inside the groups."""
        n_features = len(self.scaling.scale)

        def scatter(item: tuple[Floats, Any]) -> tuple[Floats, float]:
            rows, weights = item
            share = np.ones(len(rows)) if weights is None else weights
            features = rows[:, :n_features]
            centred = features - share @ features / share.sum()
            return (centred.T * share) @ centred, float(share.sum())

        parts = crew.map(scatter, list(zip(scaled, self.row_weights, strict=True)))
        covariance = np.sum([part for part, _ in parts], axis=0) / sum(w for _, w in parts)
        variance, basis = eigh(covariance, np.diag(self.penalty[:n_features]))
        # Features keep a size that single precision can handle: the largest has variance 1.
        largest = float(variance[-1]) if variance[-1] > 0 else 1.0
        self.basis = basis = basis / np.sqrt(largest)
        self.penalty[:n_features] = 1 / largest

        def turn(rows: Floats) -> None:
            rows[:, :n_features] = rows[:, :n_features] @ basis

        crew.map(turn, scaled)


def duel_blocks(
    table: RowTable,
    grouped: GroupedRows,
    duels: NDArray[np.intp],
    C: float | Floats,
    class_weights: ClassWeights,
    takes_part: NDArray[np.bool_],
) -> list[Block]:
    """Return the blocks of all problems of a set of duels.

    Problem (duel, fold) has the number duel · F + fold, the duel counted inside the set.

    Parameters
    ----------
    table : RowTable
        Rows of the groups.
    grouped : GroupedRows
        The groups, and their sides.
    duels : ndarray of int
        The set.
    C : float or ndarray of shape (len(duels),)
        Inverse strength of the penalty.
    class_weights : ClassWeights
        Weights of the two sides.
    takes_part : ndarray of bool, of shape (n_patterns, F)
        Whether the rows of a pattern take part in a fold.
    """
    side_weights = C * class_weights.of_sides(duels)
    n_folds = takes_part.shape[1]
    blocks = []
    for number, group in enumerate(grouped.groups):
        folds = np.flatnonzero(takes_part[group.pattern])
        mine, sign, own = grouped.sides(group, duels)
        if len(mine) == 0 or len(folds) == 0:
            continue
        problems = np.add.outer(mine * n_folds, folds).ravel()
        for sides in _of_one_weight(own, side_weights[:, mine]):
            second = sign > 0 if sides is None else sides.max(axis=1) > 0
            scale = side_weights[second.astype(np.intp), mine]
            scale, signs = (np.repeat(values, len(folds)) for values in (scale, sign))
            spread = None if sides is None else np.repeat(sides, len(folds), axis=0)
            blocks.append(table.block(number, problems, signs, scale, spread))
    return blocks


def _of_one_weight(own: Floats | None, side_weights: Floats) -> list[Floats | None]:
    """Separate rows on the second side from those on the first, where these weigh differently."""
    if own is None or np.array_equal(*side_weights):
        return [own]
    return [np.maximum(own, 0), np.minimum(own, 0)]


class Plan(NamedTuple):
    """Which duels are solved together, and how they are preconditioned.

    Attributes
    ----------
    tiles : list of arrays
        Sets of duels, together all that have rows of both labels.
    own_hessians : bool
        Whether every problem gets its own Hessian.
    """

    tiles: list[NDArray[np.intp]]
    own_hessians: bool

    @classmethod
    def of(
        cls,
        X: Any,
        rows_of_duels: NDArray[np.intp],
        n_classes: int,
        n_weights: int,
        n_models: int,
        working_memory: float,
    ) -> Plan:
        """Plan to fit `n_models` models of every duel that has rows within so many mebibytes."""
        most_bytes = working_memory * 2**20
        parts = list(tiles(rows_of_duels, n_classes, n_weights, most_bytes / n_models))
        n_problems = n_models * max(map(len, parts), default=0)
        rows_of_duel = rows_of_duels.sum() / max(1, np.count_nonzero(rows_of_duels))
        own_hessians = isinstance(X, np.ndarray) and own_hessians_pay(
            rows_of_duel, n_weights, n_problems, most_bytes
        )
        return cls(parts, own_hessians)

    def preconditioner(self, penalty: Floats, n_problems: int, cold: bool) -> Preconditioner:
        """Return a new preconditioner; `cold` if all weights are zero at first."""
        if self.own_hessians:
            return OwnHessians(penalty, n_problems, cold)
        return Diagonal(penalty, n_problems)


def tiles(
    rows_of_duels: NDArray[np.intp], n_classes: int, n_weights: int, most_bytes: float
) -> Iterator[NDArray[np.intp]]:
    """Yield sets of duels to be solved together, each within the memory given.

    Labels are cut into groups; a tile holds the duels between two groups. Duels without rows are in
    none.

    Parameters
    ----------
    rows_of_duels : ndarray of int, of shape (P,)
        Number of rows that every duel goes through; 0 for one that is not to be solved.
    n_classes : int
        Number of labels.
    n_weights : int
        Number of weights of a duel.
    most_bytes : float
        Memory for a tile.
    """
    duels = np.flatnonzero(rows_of_duels)
    if len(duels) == 0:
        return
    # Per row of a duel: margins, changes and curvatures in both precisions.
    duel_bytes = 40 * rows_of_duels[duels].mean() + WEIGHT_BYTES * n_weights
    duels_at_once = max(1.0, most_bytes / duel_bytes)
    if len(duels) <= duels_at_once:
        yield duels
        return
    first, second = pairs(n_classes)
    group = np.arange(n_classes) // max(1, int(np.sqrt(duels_at_once)))
    tile_of = group[first[duels]] * (group[-1] + 1) + group[second[duels]]
    for tile in np.unique(tile_of):
        yield duels[tile_of == tile]


class ClassWeights(NamedTuple):
    """Weights of the two sides of duels: given by code, balanced, or one.

    Attributes
    ----------
    given : dict, "balanced" or None
        What the user said.
    n_classes : int
        Number of labels.
    side_totals : ndarray of shape (2, P)
        How much the rows on the two sides of every duel weigh together.
    """

    given: Any
    n_classes: int
    side_totals: Floats

    def of_sides(self, duels: NDArray[np.intp]) -> Floats:
        """Return the weights of the first and the second sides of some duels, (2, n_duels)."""
        if self.given is None:
            return np.ones((2, len(duels)))
        if self.given == "balanced":
            totals = self.side_totals[:, duels]
            return totals.sum(axis=0) / (2 * totals)
        by_code = np.array([self.given.get(code, 1.0) for code in range(self.n_classes)])
        return np.stack([by_code[side[duels]] for side in pairs(self.n_classes)])


def check_settings(engine: Any) -> None:
    """Check the parameters that all logistic engines share."""
    check_positive("tol", engine.tol)
    check_positive("working_memory", engine.working_memory)
    check_count("max_iter", engine.max_iter)
    weights = engine.class_weight
    if not (weights is None or weights == "balanced" or isinstance(weights, dict)):
        raise ValueError(f"class_weight must be None, 'balanced' or a dictionary, got {weights!r}.")
    if isinstance(weights, dict):
        for weight in weights.values():
            check_positive("class_weight", weight)
    if engine.dtype is not None and np.dtype(engine.dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be None, 'float32' or 'float64', got {engine.dtype!r}.")


def check_logistic_rows(
    engine: Any, X: Any, codes: Any, n_classes: int, sample_weight: Any
) -> tuple[Any, NDArray[Any], Floats | None]:
    """Validate training data: rows, dense or sparse, their feedback, and weights if any."""
    dtype = (np.float64, np.float32) if engine.dtype is None else np.dtype(engine.dtype)
    rows = check_rows(engine, X, codes, n_classes, sample_weight, accept_sparse="csr", dtype=dtype)
    return rows.X, rows.feedback, None if sample_weight is None else rows.weights


def drop_weightless(weights: Floats | None, *arrays: Any) -> tuple[Floats | None, *tuple[Any, ...]]:
    """Return the weights that are not zero, and of all arrays the rows that have them."""
    if weights is None or weights.all():
        return weights, *arrays
    seen = weights > 0
    return weights[seen], *(array[seen] for array in arrays)
