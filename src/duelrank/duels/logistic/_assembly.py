"""Problems of duels, assembled: from rows to batches that the solver can work on.

The `Objective` says what is minimised. The `Assembly` brings it together with the rows: groups,
scaled rows, and a plan. A fit in memory, the sample of a fit from blocks and the folds of a
cross-validation all make theirs here, and blocks of rows use `problem_batches` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank._threads import Threads
from duelrank.blocks import Census
from duelrank.duels._sides import count_sides
from duelrank.duels.logistic._anchor import Anchor, LastSolution
from duelrank.duels.logistic._batch import Floats, GroupBatch, join_small
from duelrank.duels.logistic._extremes import Extremes
from duelrank.duels.logistic._groups import GroupedRows
from duelrank.duels.logistic._newton import NewtonSolver, State
from duelrank.duels.logistic._plan import Plan, Workload
from duelrank.duels.logistic._problems import Problems, ProblemsInMemory
from duelrank.duels.logistic._rows import Settings, TrainingRows
from duelrank.duels.logistic._table import RowTable, Scaling, SideOfProblems


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

    def most(self) -> float:
        """Return the largest sum of weights that a duel has."""
        totals = self.side_totals.sum(axis=0).max(initial=0.0)
        largest = max([1.0, *self.given.values()]) if isinstance(self.given, dict) else 1.0
        return float(totals * largest)

    def of_sides(self, duels: NDArray[np.intp]) -> Floats:
        """Return the weights of the first and the second sides of some duels, (2, n_duels)."""
        if self.given is None:
            return np.ones((2, len(duels)))
        if self.given == "balanced":
            totals = self.side_totals[:, duels]
            return totals.sum(axis=0) / (2 * totals)
        by_code = np.array([self.given.get(code, 1.0) for code in range(self.n_classes)])
        return np.stack([by_code[side[duels]] for side in pairs(self.n_classes)])


class Objective(NamedTuple):
    """What the duels minimise, whatever part of the rows is at hand.

    Attributes
    ----------
    C : float or ndarray of shape (P,)
        Inverse strength of the penalty, one for all duels or one for each.
    class_weights : ClassWeights
        Weights of the two sides of every duel.
    scaling : Scaling
        What is done to the features.
    anchor : Anchor, LastSolution or None
        What deviations are penalised from; None for zero.
    """

    C: float | Floats
    class_weights: ClassWeights
    scaling: Scaling
    anchor: Anchor | LastSolution | None = None

    @classmethod
    def from_rows(
        cls,
        rows: TrainingRows,
        settings: Settings,
        anchor: Anchor | LastSolution | None = None,
    ) -> Objective:
        """Return the objective of rows in memory."""
        sides = count_sides(rows.feedback, rows.n_classes, rows.weights)
        class_weights = ClassWeights(settings.class_weight, rows.n_classes, sides)
        intercept_penalty = 0.0 if anchor is None else anchor.intercept_penalty
        scaling = Scaling.from_rows(
            rows.X,
            rows.weights,
            settings.fit_intercept,
            intercept_penalty,
            settings.C * class_weights.most(),
        )
        return cls(settings.C, class_weights, scaling, anchor)

    @classmethod
    def from_census(
        cls, census: Census, label_weights: Floats, dtype: np.dtype[Any], settings: Settings
    ) -> Objective:
        """Return the objective of rows in blocks, from how much the rows of each label weigh."""
        n_classes = len(label_weights)
        sides = np.stack([label_weights[side] for side in pairs(n_classes)])
        class_weights = ClassWeights(settings.class_weight, n_classes, sides)
        strength = settings.C * class_weights.most()
        scaling = Scaling.from_census(census, settings.fit_intercept, dtype, strength)
        return cls(settings.C, class_weights, scaling)

    @property
    def extremes(self) -> Extremes:
        """What is not ordinary about the columns."""
        return self.scaling.extremes

    @property
    def sides(self) -> Floats:
        """How much the rows on the two sides of every duel weigh, (2, P)."""
        return self.class_weights.side_totals

    def strength_of_sides(self, duels: NDArray[np.intp]) -> Floats:
        """Return C times the class weight of both sides of some duels, (2, n_duels)."""
        C = self.C[duels] if isinstance(self.C, np.ndarray) else self.C
        return C * self.class_weights.of_sides(duels)


class Membership(NamedTuple):
    """Which rows take part in which folds.

    Attributes
    ----------
    pattern : ndarray of int, of shape (n,), or None
        Rows that take part in the same folds have the same pattern; None if all do.
    takes_part : ndarray of bool, of shape (n_patterns, n_folds)
        Whether the rows of a pattern take part in a fold.
    """

    pattern: NDArray[np.intp] | None
    takes_part: NDArray[np.bool_]


ALL_ROWS = Membership(None, np.ones((1, 1), dtype=bool))


class Assembly(NamedTuple):
    """What the problems of all duels are made of.

    Attributes
    ----------
    objective : Objective
        What is minimised.
    grouped : GroupedRows
        Rows that take part in the same problems, and their sides.
    plan : Plan
        Which duels are solved together.
    table : RowTable
        The rows, scaled.
    max_iter : int
        Most Newton iterations.
    threads : Threads
        The threads.
    """

    objective: Objective
    grouped: GroupedRows
    plan: Plan
    table: RowTable
    max_iter: int
    threads: Threads

    @classmethod
    def of(
        cls,
        rows: TrainingRows,
        objective: Objective,
        settings: Settings,
        threads: Threads,
        *,
        wanted: NDArray[np.bool_],
        folds: Membership = ALL_ROWS,
        precise: bool = True,
    ) -> Assembly:
        """Assemble the problems of duels.

        Parameters
        ----------
        rows : TrainingRows
            Rows of positive weight.
        objective : Objective
            What is minimised.
        settings : Settings
            The parameters.
        threads : Threads
            The threads.
        wanted : ndarray of bool, of shape (P,)
            Which duels are to be solved.
        folds : Membership, default=ALL_ROWS
            The folds, one model of a duel for each of them.
        precise : bool, default=True
            Whether to take gradients in double precision, if X is.
        """
        grouped = GroupedRows(rows.feedback, rows.n_classes, folds.pattern)
        n_coefficients = len(objective.scaling.penalty)
        rows_of_duels = np.where(wanted, grouped.rows_of_duels, 0)
        work = Workload(rows_of_duels, rows.n_classes, n_coefficients, folds.takes_part.shape[1])
        plan = Plan.of(work, isinstance(rows.X, np.ndarray), settings.working_memory)
        rotate = not plan.own_hessians
        table = RowTable(rows, grouped.groups, objective.scaling, threads, rotate, precise)
        return cls(objective, grouped, plan, table, settings.max_iter, threads)

    def batches(
        self, duels: NDArray[np.intp], takes_part: NDArray[np.bool_] = ALL_ROWS.takes_part
    ) -> list[GroupBatch]:
        """Return the groups of all problems of some duels; see `problem_batches`."""
        return problem_batches(self.table, self.grouped, self.objective, duels, takes_part)

    def problems(
        self, duels: NDArray[np.intp], takes_part: NDArray[np.bool_] = ALL_ROWS.takes_part
    ) -> ProblemsInMemory:
        """Return the problems of some duels, with the rows in memory."""
        batches = join_small(self.batches(duels, takes_part))
        return ProblemsInMemory(batches, len(duels) * takes_part.shape[1], self.threads)

    def solve(
        self,
        problems: Problems,
        start: State,
        tol: float,
        on_iteration: Callable[[State], None] = lambda state: None,
        anchor: Floats | None = None,
        duel_of: NDArray[np.intp] | None = None,
    ) -> State:
        """Minimise problems from a starting point, which is changed in place.

        The penalty is on deviations from the anchor, (Q, d), or from zero. `duel_of` are the
        numbers of the problems' duels, (Q,) in ascending order, if some are models of the same one.
        """
        penalty = self.table.penalty
        duel_of = np.arange(len(start.coef)) if duel_of is None else duel_of
        preconditioner = self.plan.preconditioner(penalty, duel_of, not start.coef.any())
        solver = NewtonSolver(penalty, preconditioner, self.threads, tol, self.max_iter, anchor)
        return solver.solve(problems, start, on_iteration)

    def anchor(self, duels: NDArray[np.intp]) -> Floats | None:
        """Return the coefficients from which deviations are penalised; None for zero.

        They are (n_duels · M, d) for M models of every duel.
        """
        anchor = self.objective.anchor
        return None if anchor is None else anchor.in_table(duels, self.table)

    def start(self, duels: NDArray[np.intp]) -> Floats:
        """Return coefficients to start from, (n_duels, d): the anchor, or zeros."""
        anchor = self.anchor(duels)
        return np.zeros((len(duels), len(self.table.penalty))) if anchor is None else anchor


def problem_batches(
    table: RowTable,
    grouped: GroupedRows,
    objective: Objective,
    duels: NDArray[np.intp],
    takes_part: NDArray[np.bool_] = ALL_ROWS.takes_part,
) -> list[GroupBatch]:
    """Return every group as a batch of the problems of some duels.

    Problem (duel, fold) has the number duel · F + fold, the duel counted inside the set.

    Parameters
    ----------
    table : RowTable
        Rows of the groups.
    grouped : GroupedRows
        The groups, and their sides.
    objective : Objective
        What is minimised.
    duels : ndarray of int
        The duels.
    takes_part : ndarray of bool, of shape (n_patterns, F)
        As in `Membership`.
    """
    strengths = objective.strength_of_sides(duels)
    n_folds = takes_part.shape[1]
    batches = []
    for number, group in enumerate(grouped.groups):
        folds = np.flatnonzero(takes_part[group.pattern])
        mine, side, row_sides = grouped.sides(group, duels)
        if len(mine) == 0 or len(folds) == 0:
            continue
        problems = np.add.outer(mine * n_folds, folds).ravel()
        for part in _of_one_strength(row_sides, strengths[:, mine]):
            second = side > 0 if part is None else part.max(axis=1) > 0
            strength = strengths[second.astype(np.intp), mine]
            sides = SideOfProblems(
                problems,
                np.repeat(side, len(folds)),
                np.repeat(strength, len(folds)),
                None if part is None else np.repeat(part, len(folds), axis=0),
            )
            batches.append(table.batch(number, sides))
    return batches


def _of_one_strength(row_sides: Floats | None, strengths: Floats) -> list[Floats | None]:
    """Separate rows on the second side from those on the first, where their strengths differ."""
    if row_sides is None or np.array_equal(*strengths):
        return [row_sides]
    return [np.maximum(row_sides, 0), np.minimum(row_sides, 0)]
