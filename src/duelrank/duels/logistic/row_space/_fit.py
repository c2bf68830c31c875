"""The fit of all duels that are solved in the space of their rows."""

from __future__ import annotations

import numpy as np

from duelrank._threads import Threads
from duelrank.duels._sides import count_sides
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._certificate import can_be_checked
from duelrank.duels.logistic._checkpoint import Checkpoint
from duelrank.duels.logistic._result import ByRows
from duelrank.duels.logistic._rows import Settings, StartProgress, TrainingRows
from duelrank.duels.logistic.row_space._appearances import Appearances
from duelrank.duels.logistic.row_space._duels import Cut, DuelsInRows, Tile, goes_by_rows
from duelrank.duels.logistic.row_space._newton import solve

BATCHES_AT_ONCE = 16  # between two reports of progress


def plan_by_rows(rows: TrainingRows, objective: Objective, settings: Settings) -> ByRows:
    """Tell which duels are solved in the space of their rows.

    Duels without enough rows to be solved have no coefficients, and count as such duels.
    """
    n_rows = count_sides(rows.feedback, rows.n_classes).sum(axis=0).astype(np.intp)
    by_rows = goes_by_rows(n_rows, rows.X, objective.scaling, settings.working_memory)
    if objective.anchor is None and objective.extremes.need_care:
        by_rows &= ~can_be_checked(n_rows, rows.X.shape[1])  # checks are made by features
    if not by_rows.any():
        return ByRows(by_rows, (0, 0))
    anchor = objective.anchor
    enough = np.any if anchor is not None and anchor.corrects_one_sided else np.all
    by_rows |= ~enough(objective.sides, axis=0)
    n_appearances = len(Appearances.of(rows.feedback, rows.n_classes).rows)
    return ByRows(by_rows, (n_appearances, rows.n_classes))


def solve_by_rows(
    rows: TrainingRows,
    objective: Objective,
    settings: Settings,
    threads: Threads,
    checkpoint: Checkpoint,
    start_progress: StartProgress,
) -> None:
    """Solve all duels that go by rows and are not solved yet.

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
    checkpoint : Checkpoint
        Holds the duels, and writes them to its file.
    start_progress : callable
        Is told how many steps there will be.
    """
    fitted = checkpoint.fitted
    wanted = fitted.by_rows & ~fitted.solved
    if not wanted.any():
        return
    duels_in_rows = DuelsInRows(rows, objective, settings.working_memory, threads)
    tiles = duels_in_rows.tiles(wanted)
    cut = [duels_in_rows.cut(duels) for duels in tiles]
    step = start_progress(sum(map(len, cut)), "batch of duels", 0)
    for tile_duels, parts in zip(tiles, cut, strict=True):
        tile = duels_in_rows.tile(tile_duels)

        def solve_part(part: Cut, tile: Tile = tile) -> None:
            batch = tile.batch(part)
            strengths = objective.C * batch.problems.strengths
            problems = batch.problems._replace(strengths=strengths)
            state = duels_in_rows.read(batch, fitted)
            solve(problems, state, settings.tol, settings.max_iter)
            duels_in_rows.write(batch, state, fitted)

        for start in range(0, len(parts), BATCHES_AT_ONCE):
            some = parts[start : start + BATCHES_AT_ONCE]
            threads.map(solve_part, some)
            checkpoint.solved()
            for _ in some:
                step()
