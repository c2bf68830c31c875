"""The fit of all duels: `fit_in_memory`, and the driver that every fit shares, `solve_tiles`.

`fit_again` solves some duels from where they are, for an update (`_update`).

A fit from blocks (`_blocks`) uses other problems and starts from the solution on a sample. With
thousands of labels, `_tiles` calls `fit_in_memory` for every tile. A cross-validation (`_cv`) first
finds the C of a tile's duels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._threads import Threads
from duelrank.blocks import digest_in_order, digests_of_labels, row_digests
from duelrank.duels._sides import first_labels
from duelrank.duels.logistic._anchor import Anchor, LastSolution
from duelrank.duels.logistic._assembly import Assembly, Objective
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._certificate import certify
from duelrank.duels.logistic._checkpoint import Arrays, Checkpoint, fingerprint_of
from duelrank.duels.logistic._newton import State
from duelrank.duels.logistic._problems import Problems
from duelrank.duels.logistic._result import ByRows, FittedDuels
from duelrank.duels.logistic._rows import Settings, StartProgress, TrainingRows, no_progress
from duelrank.duels.logistic.row_space import plan_by_rows, solve_by_rows


class Begun(NamedTuple):
    """Some duels of a fit, and how far they have come.

    Attributes
    ----------
    wanted : ndarray of bool, of shape (P,)
        Which duels are asked for.
    fitted : FittedDuels or None
        What is known of these, in their order.
    """

    wanted: NDArray[np.bool_]
    fitted: FittedDuels | None


def fit_in_memory(
    rows: TrainingRows,
    settings: Settings,
    threads: Threads,
    start_progress: StartProgress = no_progress,
    begun: Begun | None = None,
    objective: Objective | None = None,
) -> FittedDuels:
    """Fit duels from rows in memory.

    Parameters
    ----------
    rows : TrainingRows
        Rows of positive weight.
    settings : Settings
        The parameters.
    threads : Threads
        The threads.
    start_progress : callable
        Is told how many steps there will be.
    begun : Begun, default=None
        Which duels are asked for, and how far they have come; by default all, from the start.
    objective : Objective, default=None
        What is minimised; by default what rows and parameters say.
    """
    objective = Objective.from_rows(rows, settings) if objective is None else objective
    by_rows = None if begun is not None else plan_by_rows(rows, objective, settings)
    fitted = FittedDuels.unsolved(objective.sides, rows.X.shape[1], rows.X.dtype, by_rows)
    if begun is not None:
        if begun.fitted is not None:
            fitted.put(begun.wanted, begun.fitted)
        fitted.solved |= ~begun.wanted
    checkpoint = Checkpoint(fitted, settings, lambda: _fingerprint(rows, objective), begun is None)
    solve_by_rows(rows, objective, settings, threads, checkpoint, start_progress)
    unsolved = ~fitted.solved
    if unsolved.any():
        assembly = Assembly.of(rows, objective, settings, threads, wanted=unsolved)
        solve_tiles(assembly, checkpoint, Steps.of(start_progress, assembly, checkpoint))
    certify(rows, objective, settings, threads, fitted, None if begun is None else begun.wanted)
    checkpoint.finish()
    return fitted


class Start(NamedTuple):
    """Where some duels are solved again from; all numbers are those of the duels of now.

    Attributes
    ----------
    coefficients : callable
        Returns coefficients and intercepts of some duels, (m, d) and (m,).
    intercept : ndarray of shape (P,)
        Intercepts.
    row_coef : ndarray of shape (n_appearances, K), or None
        Coefficients of rows; None if no duel has any. They are changed in place.
    """

    coefficients: Callable[[NDArray[np.intp]], tuple[Floats, Floats]]
    intercept: Floats
    row_coef: Floats | None


def fit_again(
    rows: TrainingRows,
    settings: Settings,
    wanted: NDArray[np.bool_],
    start: Start,
    threads: Threads,
) -> FittedDuels:
    """Fit some duels of rows in memory, from where they are.

    Parameters
    ----------
    rows : TrainingRows
        Rows of positive weight.
    settings : Settings
        The parameters.
    wanted : ndarray of bool, of shape (P,)
        Which duels are asked for.
    start : Start
        Where to start.
    threads : Threads
        The threads.

    Returns
    -------
    fitted : FittedDuels
        The wanted duels. All others count as duels by rows: they take no space among the
        coefficients of features, and their coefficients of rows are those of the start.
    """
    objective = Objective.from_rows(rows, settings)
    by_rows = plan_by_rows(rows, objective, settings)
    shape = by_rows.shape if start.row_coef is None else start.row_coef.shape
    by_rows = ByRows(by_rows.duels | ~wanted, shape)
    fitted = FittedDuels.unsolved(objective.sides, rows.X.shape[1], rows.X.dtype, by_rows)
    if start.row_coef is not None:
        fitted.row_coef = start.row_coef
    fitted.solved |= ~wanted
    unsolved = ~fitted.solved
    fitted.intercept[unsolved] = start.intercept[unsolved]
    checkpoint = Checkpoint(fitted, settings)
    solve_by_rows(rows, objective, settings, threads, checkpoint, no_progress)
    unsolved = ~fitted.solved
    if unsolved.any():
        assembly = Assembly.of(rows, objective, settings, threads, wanted=unsolved)
        steps = Steps.of(no_progress, assembly, checkpoint)

        def start_of(duels: NDArray[np.intp]) -> Floats:
            coef, intercept = start.coefficients(duels)
            return assembly.table.rescale(coef.astype(np.float64), intercept.astype(np.float64))

        solve_tiles(assembly, checkpoint, steps, start_of)
    certify(rows, objective, settings, threads, fitted, wanted)
    return fitted


def fit_corrections(
    rows: TrainingRows,
    settings: Settings,
    anchor: Anchor | LastSolution,
    wanted: NDArray[np.bool_],
    threads: Threads,
    start_progress: StartProgress = no_progress,
) -> tuple[FittedDuels, Floats, NDArray[np.bool_]]:
    """Fit the corrections of some duels to the margins that their scores give them.

    In an update, margins are those of the last solution in place of scores.

    Parameters
    ----------
    rows : TrainingRows
        Rows of positive weight.
    settings : Settings
        The parameters; C is that of the corrections.
    anchor : Anchor or LastSolution
        The scores, of one model.
    wanted : ndarray of bool, of shape (P,)
        Which duels are to be corrected; those without rows of both labels are not, unless the
        anchor says so.
    threads : Threads
        The threads.
    start_progress : callable
        Is told how many steps there will be.

    Returns
    -------
    fitted : FittedDuels
        Duels by rows have coefficients and intercepts of the correction, those of centred rows; the
        others, which are wanted and have rows of both labels, those of all of the margin.
    centre : ndarray of shape (d,)
        What is subtracted from the rows of the former; zeros if they are sparse.
    corrected : ndarray of bool, of shape (P,)
        The wanted duels with rows of both labels, or with any that suffice.
    """
    objective = Objective.from_rows(rows, settings, anchor)
    enough = np.any if anchor.corrects_one_sided else np.all
    wanted = wanted & enough(objective.sides, axis=0)
    by_rows = plan_by_rows(rows, objective, settings)
    if not wanted.all():  # the others take no space among the coefficients of features
        by_rows = ByRows(by_rows.duels | ~wanted, by_rows.shape)
    fitted = FittedDuels.unsolved(objective.sides, rows.X.shape[1], rows.X.dtype, by_rows)
    fitted.solved[:] = ~wanted
    fitted.intercept[:] = 0
    checkpoint = Checkpoint(fitted, settings)
    solve_by_rows(rows, objective, settings, threads, checkpoint, start_progress)
    unsolved = ~fitted.solved
    if unsolved.any():
        assembly = Assembly.of(rows, objective, settings, threads, wanted=unsolved)
        solve_tiles(assembly, checkpoint, Steps.of(start_progress, assembly, checkpoint))
    return fitted, objective.scaling.mean, wanted


class Steps(NamedTuple):
    """What to call after every iteration and after every tile, to show progress."""

    iteration: Callable[[], None]
    tile: Callable[[], None]

    @classmethod
    def of(cls, start: StartProgress, assembly: Assembly, checkpoint: Checkpoint) -> Steps:
        """Count iterations if there is one tile, and tiles if there are more."""

        def ignore() -> None:
            pass

        n_tiles = len(assembly.plan.tiles)
        if n_tiles == 1:
            return cls(start(assembly.max_iter, "iteration", checkpoint.iterations), ignore)
        return cls(ignore, start(n_tiles, "tile", 0))


def solve_tiles(
    assembly: Assembly,
    checkpoint: Checkpoint,
    steps: Steps,
    start_of: Callable[[NDArray[np.intp]], Floats] | None = None,
    problems_of: Callable[[NDArray[np.intp]], Problems] | None = None,
) -> None:
    """Solve one tile of duels after the other, and write down how far they have come.

    Parameters
    ----------
    assembly : Assembly
        What the problems are made of.
    checkpoint : Checkpoint
        Holds the duels, and writes them to its file.
    steps : Steps
        Are called to show progress.
    start_of : callable, default=None
        Makes coefficients for some duels to start from; by default their anchor, or zeros.
    problems_of : callable, default=None
        Makes problems of some duels, after `start_of`; by default those of the assembly.
    """
    start_of = start_of or assembly.start
    problems_of = problems_of or assembly.problems
    fitted, table = checkpoint.fitted, assembly.table
    for duels in assembly.plan.tiles:
        start = checkpoint.start(duels, table)
        if start is None:
            start = State.at(start_of(duels))

        def iterated(state: State, duels: NDArray[np.intp] = duels) -> None:
            checkpoint.iterated(duels, table, state)
            steps.iteration()

        anchor = assembly.anchor(duels)
        solution = assembly.solve(problems_of(duels), start, checkpoint.tol, iterated, anchor)
        fitted.take(duels, table, solution)
        fitted.solved[duels] = True
        checkpoint.solved()
        steps.tile()


def _fingerprint(rows: TrainingRows, objective: Objective) -> Arrays:
    """Return what tells a fit of these rows from others."""
    ranks = rows.feedback if rows.feedback.ndim == 2 else None
    digests = row_digests(rows.X, rows.weights, ranks)
    of_labels = digests_of_labels(digests, first_labels(rows.feedback), rows.n_classes)
    return fingerprint_of(objective, of_labels, digest_in_order(digests))
