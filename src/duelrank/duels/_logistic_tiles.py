"""Fitting very many duels from rows that come in blocks.

With thousands of labels the weights of all duels are too many to go through every pass. Labels are
cut into *groups* then, rows are put together by the group of their label, and the duels between two
groups, a *tile*, are one task: it gets the rows of the two groups and solves its duels in memory.
A task is no larger than the working memory allows, however many labels and tasks there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import n_pairs, pairs
from duelrank.blocks._passes import Passes
from duelrank.duels._logistic_checkpoint import Checkpoint, Fitted
from duelrank.duels._logistic_fit import Announce, Settings, fit_held
from duelrank.duels._logistic_objective import crew
from duelrank.duels._logistic_passes import CodedRows, concatenated, rows_of_block
from duelrank.duels._logistic_rows import WEIGHT_BYTES

# Bytes for each feature of a row of a tile: as it came, and scaled in both precisions.
ROW_BYTES = 20


class LabelGroup(NamedTuple):
    """Labels with the codes start..stop−1."""

    start: int
    stop: int


def label_groups(
    rows_of_labels: NDArray[np.intp], n_weights: int, working_memory: float, rows_of_block: float
) -> list[LabelGroup] | None:
    """Cut the labels into groups whose tiles fit in so many mebibytes.

    Returns None if that is not worth it, because the weights of all duels fit as well and are fewer
    than the numbers of a block, or not possible, because the rows of two labels do not fit.
    """
    n_classes = len(rows_of_labels)
    most_bytes = working_memory * 2**20
    n_duels = n_pairs(n_classes)
    most_rows = most_bytes / 2 / (2 * ROW_BYTES * n_weights)
    few = n_duels <= rows_of_block and n_duels * n_weights * WEIGHT_BYTES <= most_bytes
    if few or rows_of_labels.max() > most_rows:
        return None
    # A quarter for the coefficients of a tile; its solver takes the rest in smaller pieces.
    most_labels = max(1, int(np.sqrt(most_bytes / 4 / (8 * n_weights))))
    groups = [LabelGroup(0, 0)]
    n_rows = 0
    for code, rows in enumerate(rows_of_labels):
        start = groups[-1].start
        if code > start and (n_rows + rows > most_rows or code - start >= most_labels):
            groups.append(LabelGroup(code, code))
            start, n_rows = code, 0
        groups[-1] = LabelGroup(start, code + 1)
        n_rows += rows
    return groups


def solve_groups(
    fitted: Fitted,
    passes: Passes,
    groups: list[LabelGroup],
    classes: NDArray[Any],
    dtype: np.dtype[Any],
    settings: Settings,
    checkpoint: Checkpoint,
    announce: Announce,
) -> None:
    """Solve all duels that are not solved yet, tile by tile.

    Parameters
    ----------
    fitted : Fitted
        Where to write.
    passes : Passes
        Takes passes over blocks of points, labels and weights.
    groups : list of LabelGroup
        The groups.
    classes : ndarray of shape (K,)
        The labels in the order of their codes.
    dtype : dtype
        Precision to take the rows in.
    settings : Settings
        The parameters.
    checkpoint : Checkpoint
        Hears of solved tiles.
    announce : callable
        Hears how many tiles there are.
    """
    first, second = pairs(len(classes))
    group_of = np.repeat(np.arange(len(groups)), [group.stop - group.start for group in groups])
    tile_of = group_of[first] * len(groups) + group_of[second]
    unsolved = np.unique(tile_of[~fitted.solved])
    step = announce(len(unsolved), "tile", 0)
    rows = passes.regroup(split_block, concatenated, len(groups), classes, groups, dtype)
    tiles = [divmod(int(tile), len(groups)) for tile in unsolved]
    # The file is this process's affair.
    settings = settings._replace(checkpoint=None)
    duels_of = [np.flatnonzero(tile_of == tile) for tile in unsolved]
    tasks = [
        (rows[g], None if g == h else rows[h], groups[g], groups[h], fitted.begun(duels))
        for (g, h), duels in zip(tiles, duels_of, strict=True)
    ]
    results = passes.stream(solve_tile, tasks, settings)
    for duels, result in zip(duels_of, results, strict=True):
        fitted.put(duels, result)
        checkpoint.solved(fitted)
        step()
    checkpoint.finish(fitted, settings.tol)


def split_block(
    number: int,
    X: Any,
    y: Any,
    sample_weight: Any,
    wanted: list[int],
    classes: NDArray[Any],
    groups: list[LabelGroup],
    dtype: np.dtype[Any],
) -> list[CodedRows]:
    """Return the rows of a block that some groups have."""
    rows = rows_of_block(X, y, sample_weight, classes, dtype)
    parts = []
    for group in (groups[number] for number in wanted):
        mine = np.flatnonzero((rows.codes >= group.start) & (rows.codes < group.stop))
        weights = None if rows.weights is None else rows.weights[mine]
        parts.append(CodedRows(rows.X[mine], rows.codes[mine], weights))
    return parts


def solve_tile(
    rows: CodedRows,
    others: CodedRows | None,
    group: LabelGroup,
    other: LabelGroup,
    begun: Fitted | None,
    settings: Settings,
) -> Fitted:
    """Solve the duels between two groups of labels, or inside one, from where they have begun."""
    n_labels = group.stop - group.start
    wanted = None
    codes = rows.codes - group.start
    labels = list(range(*group))
    if others is not None:
        codes = np.concatenate([codes, others.codes - other.start + n_labels])
        labels += range(*other)
        rows = concatenated([rows, others])
        first, second = pairs(len(labels))
        wanted = (first < n_labels) & (second >= n_labels)
    if isinstance(settings.class_weight, dict):
        weights = {code: settings.class_weight.get(k, 1.0) for code, k in enumerate(labels)}
        settings = settings._replace(class_weight=weights)
    with crew() as threads:
        fitted = fit_held(
            rows.X, codes, rows.weights, len(labels), settings, threads, wanted=wanted, begun=begun
        )
    return fitted if wanted is None else fitted.of(wanted)
