"""Solving all duels, a set of them at a time, with rows that are held or that come in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.blocks._census import projection
from duelrank.duels._logistic_checkpoint import Checkpoint, Fitted, facts_of
from duelrank.duels._logistic_groups import GroupedRows
from duelrank.duels._logistic_held import HeldProblems
from duelrank.duels._logistic_objective import Crew, Floats, stack
from duelrank.duels._logistic_rows import (
    EVERYONE,
    ClassWeights,
    Plan,
    RowTable,
    duel_blocks,
)
from duelrank.duels._logistic_scaling import Scaling
from duelrank.duels._logistic_solver import Problems, State, solve
from duelrank.duels._sides import count_sides


class Settings(NamedTuple):
    """The parameters of `LogisticDuels` that matter to its solver; class weights by code."""

    C: float
    fit_intercept: bool
    class_weight: Any
    tol: float
    max_iter: int
    working_memory: float
    checkpoint: Any = None
    checkpoint_every: int = 5


# Called with the number of steps that there will be, their name, and how many of them were done
# before; returns what to call for each.
Announce = Callable[[int, str, int], Callable[[], None]]


def fit_held(
    X: Any,
    feedback: NDArray[Any],
    weights: Floats | None,
    n_classes: int,
    settings: Settings,
    crew: Crew,
    announce: Announce = lambda n_steps, name, done: lambda: None,
    wanted: NDArray[np.bool_] | None = None,
    begun: Fitted | None = None,
) -> Fitted:
    """Fit duels from rows in memory.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
        Rows of positive weight.
    feedback : ndarray of int, of shape (n,), or of float, of shape (n, K)
        Codes, or ranks.
    weights : ndarray of shape (n,), or None
        Weights of the rows.
    n_classes : int
        Number of labels K.
    settings : Settings
        The parameters.
    crew : Crew
        The threads.
    announce : callable
        Hears how many steps there will be.
    wanted : ndarray of bool, of shape (P,), default=None
        Which duels are asked for; by default all.
    begun : Fitted, default=None
        How far these have come already.
    """
    grouped = GroupedRows(feedback, n_classes)
    sides = count_sides(feedback, n_classes, weights)
    class_weights = ClassWeights(settings.class_weight, n_classes, sides)
    scaling = Scaling.of(X, weights, settings.fit_intercept)
    checkpoint = Checkpoint(
        settings.checkpoint,
        settings.checkpoint_every,
        lambda: facts_of(
            scaling,
            _label_means(X, feedback, weights, n_classes),
            sides,
            settings.C,
            settings.class_weight,
        ),
    )
    fitted = Fitted.unsolved(sides, X.shape[1], X.dtype)
    wanted = np.ones(len(fitted.solved), dtype=bool) if wanted is None else wanted
    if begun is not None:
        fitted.put(wanted, begun)
    fitted.solved |= ~wanted
    checkpoint.resume(fitted, settings.tol)
    rows_of_duels = np.where(fitted.solved, 0, grouped.touched)
    n_weights = len(scaling.penalty)
    plan = Plan.of(X, rows_of_duels, n_classes, n_weights, 1, settings.working_memory)
    table = RowTable(X, grouped.groups, weights, scaling, not plan.own_hessians, crew)

    def problems(duels: NDArray[np.intp]) -> HeldProblems:
        blocks = duel_blocks(table, grouped, duels, settings.C, class_weights, EVERYONE)
        return HeldProblems(stack(blocks), len(duels), crew)

    solve_tiles(fitted, plan, table, problems, None, settings, checkpoint, crew, announce)
    return fitted


def _label_means(X: Any, feedback: NDArray[Any], weights: Floats | None, n_classes: int) -> Floats:
    """Return the mean of every label's projected rows; of the rows it is first in, for ranks."""
    share = np.ones(X.shape[0]) if weights is None else weights
    codes = feedback if feedback.ndim == 1 else np.argmin(np.nan_to_num(feedback, nan=np.inf), 1)
    sums = np.bincount(codes, share * (X @ projection(X.shape[1])), minlength=n_classes)
    total = np.bincount(codes, share, minlength=n_classes)
    return sums / np.maximum(total, np.finfo(np.float64).tiny)


def solve_tiles(
    fitted: Fitted,
    plan: Plan,
    table: RowTable,
    problems_of: Callable[[NDArray[np.intp]], Problems],
    start_of: Callable[[NDArray[np.intp]], Floats] | None,
    settings: Settings,
    checkpoint: Checkpoint,
    crew: Crew,
    announce: Announce,
) -> None:
    """Solve one set of duels after the other, and write down how far they have come.

    Parameters
    ----------
    fitted : Fitted
        Where to write.
    plan : Plan
        The sets.
    table : RowTable
        Knows what weights mean.
    problems_of : callable
        Makes problems of a set of duels.
    start_of : callable or None
        Makes weights to start from; by default zeros.
    settings : Settings
        The parameters.
    checkpoint : Checkpoint
        Hears of every iteration.
    crew : Crew
        The threads.
    announce : callable
        Hears how many steps there will be.
    """
    one = len(plan.tiles) == 1
    n_steps, name = (settings.max_iter, "iteration") if one else (len(plan.tiles), "tile")
    step = announce(n_steps, name, checkpoint.iterations if one else 0)
    for duels in plan.tiles:
        start = checkpoint.start(fitted, duels, table, settings.tol)
        if start is None:
            shape = (len(duels), len(table.penalty))
            start = State.at(np.zeros(shape) if start_of is None else start_of(duels))
        cold = not start.weights.any()

        def iterated(state: Any, duels: NDArray[np.intp] = duels) -> None:
            checkpoint.iterated(fitted, duels, table, state)
            if one:
                step()

        solution = solve(
            problems_of(duels),
            table.penalty,
            start,
            tol=settings.tol,
            max_iter=settings.max_iter,
            crew=crew,
            preconditioner=plan.preconditioner(table.penalty, len(duels), cold=cold),
            on_iteration=iterated,
        )
        fitted.take(duels, table, solution)
        fitted.solved[duels] = True
        checkpoint.solved(fitted)
        if not one:
            step()
    checkpoint.finish(fitted, settings.tol)
