"""Fitting very many duels from rows that come in blocks.

With thousands of labels the coefficients of all duels are too many to be part of every pass. Labels
are cut into *ranges* then, and rows are put together by the range of their label. The duels between
two ranges, a *tile*, are one task: it gets the rows of the two ranges and solves its duels in
memory. A task is no larger than the working memory allows, however many labels and tasks there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import n_pairs, pairs
from duelrank._threads import threads_of_blas
from duelrank.blocks import Columns, Passes
from duelrank.duels.logistic._checkpoint import Checkpoint
from duelrank.duels.logistic._extremes import quiet
from duelrank.duels.logistic._fit import Begun, fit_in_memory
from duelrank.duels.logistic._passes import Coding
from duelrank.duels.logistic._plan import COEFFICIENT_BYTES, tile_numbers
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings, StartProgress, TrainingRows

# Bytes for each feature of a row of a task: as it came, and scaled in both precisions.
ROW_BYTES = 20


class LabelRange(NamedTuple):
    """Labels with the codes start..stop−1."""

    start: int
    stop: int


def label_ranges(
    rows_of_labels: NDArray[np.intp],
    n_coefficients: int,
    working_memory: float,
    rows_of_block: float,
) -> list[LabelRange] | None:
    """Cut the labels into ranges whose tiles fit in so many mebibytes.

    Returns None if that is not worth it, because the coefficients of all duels fit as well and are
    fewer than the numbers of a block, or not possible, because the rows of two labels do not fit.
    """
    n_classes = len(rows_of_labels)
    most_bytes = working_memory * 2**20
    n_duels = n_pairs(n_classes)
    most_rows = most_bytes / 2 / (2 * ROW_BYTES * n_coefficients)
    all_fit = n_duels * n_coefficients * COEFFICIENT_BYTES <= most_bytes
    few = n_duels <= rows_of_block and all_fit
    if few or rows_of_labels.max() > most_rows:
        return None
    # A quarter for the coefficients of a tile; its solver takes the rest in smaller pieces.
    most_labels = max(1, int(np.sqrt(most_bytes / 4 / (8 * n_coefficients))))
    ranges = [LabelRange(0, 0)]
    n_rows = 0
    for code, rows in enumerate(rows_of_labels):
        start = ranges[-1].start
        if code > start and (n_rows + rows > most_rows or code - start >= most_labels):
            ranges.append(LabelRange(code, code))
            start, n_rows = code, 0
        ranges[-1] = LabelRange(start, code + 1)
        n_rows += rows
    return ranges


def solve_tasks(
    passes: Passes,
    ranges: list[LabelRange],
    coding: Coding,
    settings: Settings,
    checkpoint: Checkpoint,
    start_progress: StartProgress,
) -> None:
    """Solve all duels that are not solved yet, tile by tile.

    Parameters
    ----------
    passes : Passes
        Takes passes over blocks of points, labels and weights.
    ranges : list of LabelRange
        The ranges of labels.
    coding : Coding
        How the rows are taken.
    settings : Settings
        The parameters.
    checkpoint : Checkpoint
        Holds the duels, and writes them to its file.
    start_progress : callable
        Is told how many tiles there are.
    """
    fitted = checkpoint.fitted
    range_of = np.repeat(np.arange(len(ranges)), [r.stop - r.start for r in ranges])
    tile_of = tile_numbers(range_of)
    unsolved = np.unique(tile_of[~fitted.solved])
    step = start_progress(len(unsolved), "tile", 0)
    rows = passes.regroup(split_block, TrainingRows.concatenated, len(ranges), ranges, coding)
    tasks, duels_of = [], []
    for tile in unsolved:
        a, b = divmod(int(tile), len(ranges))
        duels = np.flatnonzero(tile_of == tile)
        begun = fitted.only(duels) if fitted.has_begun(duels) else None
        tasks.append((rows[a], None if a == b else rows[b], Task(ranges[a], ranges[b], begun)))
        duels_of.append(duels)
    # Only this process writes the checkpoint's file.
    results = passes.stream(solve_task, tasks, settings._replace(checkpoint=None))
    for duels, result in zip(duels_of, results, strict=True):
        fitted.put(duels, result)
        checkpoint.solved()
        step()
    checkpoint.finish()


class Task(NamedTuple):
    """A tile to be solved: the duels between two ranges of labels, or inside one.

    Attributes
    ----------
    labels, others : LabelRange
        The two ranges; the same one twice for the duels inside it.
    begun : FittedDuels or None
        What is known of the duels, if any of them has begun.
    """

    labels: LabelRange
    others: LabelRange
    begun: FittedDuels | None


def split_block(
    number: int, columns: Columns, wanted: list[int], ranges: list[LabelRange], coding: Coding
) -> list[TrainingRows]:
    """Return the rows of a block that belong to each of some ranges."""
    with quiet():
        rows = coding.rows(columns)
    codes = rows.feedback
    return [
        rows.only(np.flatnonzero((codes >= ranges[r].start) & (codes < ranges[r].stop)))
        for r in wanted
    ]


def solve_task(
    rows: TrainingRows, other_rows: TrainingRows | None, task: Task, settings: Settings
) -> FittedDuels:
    """Solve the duels of a tile, from where they have begun."""
    n_labels = task.labels.stop - task.labels.start
    codes = rows.feedback - task.labels.start
    labels = list(range(*task.labels))
    if other_rows is not None:
        codes = np.concatenate([codes, other_rows.feedback - task.others.start + n_labels])
        labels += range(*task.others)
        rows = TrainingRows.concatenated([rows, other_rows])
    first, second = pairs(len(labels))
    wanted = np.ones(len(first), dtype=bool)
    if other_rows is not None:
        wanted = (first < n_labels) & (second >= n_labels)
    if isinstance(settings.class_weight, dict):
        weights = {code: settings.class_weight.get(k, 1.0) for code, k in enumerate(labels)}
        settings = settings._replace(class_weight=weights)
    rows = rows._replace(feedback=codes, n_classes=len(labels))
    with quiet(), threads_of_blas() as threads:
        fitted = fit_in_memory(rows, settings, threads, begun=Begun(wanted, task.begun))
    return fitted.only(wanted)
