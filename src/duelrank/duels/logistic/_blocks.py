"""Fitting duels from rows that come in blocks.

The first pass is a census (`duelrank.blocks`): it checks all rows, counts labels and measures
features. The second pass draws a *sample*, as many rows of every label as good Hessians need. The
duels are solved on the sample, in this process. From there the solver goes on with passes over all
blocks, and the Hessians of the sample precondition it. Few passes are left, because the solution on
the sample is close.

With very many labels, the coefficients of all duels are too many to be part of every pass. Tasks
solve some duels each then (`_tiles`).

Duels that need care are not checked as in memory (`_certificate`), but by those tasks: they have
not converged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._threads import Threads
from duelrank.blocks import Columns, Digests, LabeledBlocks
from duelrank.duels.logistic._assembly import Assembly, Objective
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._checkpoint import Checkpoint, fingerprint_of
from duelrank.duels.logistic._extremes import Extremes, quiet
from duelrank.duels.logistic._fit import Steps, solve_tiles
from duelrank.duels.logistic._newton import SINGLE_TOL, State
from duelrank.duels.logistic._passes import BlockProblems, Coding, ProblemsByPasses
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings, StartProgress, TrainingRows
from duelrank.duels.logistic._tiles import label_ranges, solve_tasks

SEED = 20200101  # which rows are sampled changes how fast a fit is, and only its last digits
# Rows of every label in the sample, for each coefficient of a duel. The two labels of a duel have
# 100 rows per coefficient then, and its curvatures are known to about 10 %.
SAMPLE_ROWS_PER_COEFFICIENT = 50
LEAST_SAMPLE_ROWS = 500
LEAST_SAMPLE_ROWS_OF_MANY = 50.0  # when the labels are so many that memory is short
SAMPLE_SHARE = 0.25  # of the working memory, for the sample


class LabelCounts(NamedTuple):
    """What the census knows of the labels of a fit, in the order of their codes, (K,) each."""

    rows: NDArray[np.intp]
    weights: Floats
    digests: Digests

    @classmethod
    def of(cls, blocks: LabeledBlocks) -> LabelCounts:
        """Put what the census has counted in the order of the classes."""
        census, n_classes = blocks.census, len(blocks.classes)
        codes = np.searchsorted(blocks.classes, census.labels)
        rows = np.zeros(n_classes, dtype=np.intp)
        weights, digests = np.zeros(n_classes), np.zeros(n_classes, dtype=np.uint64)
        rows[codes], weights[codes] = census.counts, census.weights
        digests[codes] = census.digests
        return cls(rows, weights, digests)


def fit_blocks(
    blocks: LabeledBlocks,
    dtype: Any,
    settings: Settings,
    threads: Threads,
    start_progress: StartProgress,
) -> tuple[FittedDuels, Extremes]:
    """Fit all duels, and tell what is not ordinary about their columns.

    Parameters
    ----------
    blocks : LabeledBlocks
        The rows, and all labels.
    dtype : dtype or None
        Precision of the coefficients; by default that of the rows.
    settings : Settings
        The parameters.
    threads : Threads
        The threads of this process.
    start_progress : callable
        Is told how many steps there will be.
    """
    census, labels = blocks.census, LabelCounts.of(blocks)
    coding = Coding(blocks.classes, census.dtype if dtype is None else np.dtype(dtype))
    objective = Objective.from_census(census, labels.weights, coding.dtype, settings)
    n_features = len(census.mean)
    fitted = FittedDuels.unsolved(objective.sides, n_features, coding.dtype)
    checkpoint = Checkpoint(fitted, settings, lambda: fingerprint_of(objective, labels.digests))
    ranges = label_ranges(
        labels.rows,
        len(objective.scaling.penalty),
        settings.working_memory,
        census.n_rows / len(blocks.passes.blocks),
    )
    if ranges is not None:
        solve_tasks(blocks.passes, ranges, coding, settings, checkpoint, start_progress)
        return fitted, objective.extremes
    rows = _sample(blocks, labels, coding, settings)
    wanted = ~fitted.solved
    sample = Assembly.of(rows, objective, settings, threads, wanted=wanted, precise=False)

    def solution_on_sample(duels: NDArray[np.intp]) -> Floats:
        tol = max(settings.tol, SINGLE_TOL)
        return sample.solve(sample.problems(duels), State.at(sample.start(duels)), tol).coef

    def problems(duels: NDArray[np.intp]) -> ProblemsByPasses:
        return ProblemsByPasses(blocks.passes, BlockProblems(coding, objective, duels), sample)

    steps = Steps.of(start_progress, sample, checkpoint)
    solve_tiles(sample, checkpoint, steps, solution_on_sample, problems)
    sizes = np.where(census.varies, objective.scaling.scale, 0)
    sizes[objective.extremes.negligible] = 0
    extremes = objective.extremes.hidden_in(rows.X, objective.scaling.mean, sizes)
    if extremes.need_care:
        fitted.decrement[wanted] = np.inf
    checkpoint.finish()
    return fitted, extremes


def _sample(
    blocks: LabeledBlocks, labels: LabelCounts, coding: Coding, settings: Settings
) -> TrainingRows:
    """Draw rows of every label, weighted so that those of a label weigh as much as all of them."""
    n_features = len(blocks.census.mean)
    most = SAMPLE_SHARE * settings.working_memory * 2**20 / (8 * max(1, n_features))
    wanted = max(LEAST_SAMPLE_ROWS, SAMPLE_ROWS_PER_COEFFICIENT * (n_features + 1))
    rows_per_label = max(LEAST_SAMPLE_ROWS_OF_MANY, min(wanted, most / len(labels.rows)))
    share = rows_per_label / np.maximum(labels.rows, 1)
    sample: TrainingRows = blocks.passes.reduce(
        sample_block, TrainingRows.concatenated, coding, share
    )
    drawn = np.bincount(sample.feedback, sample.weights, minlength=len(labels.rows))
    inflation = labels.weights / np.maximum(drawn, np.finfo(np.float64).tiny)
    assert sample.weights is not None
    return sample._replace(weights=sample.weights * inflation[sample.feedback])


def sample_block(number: int, columns: Columns, coding: Coding, share: Floats) -> TrainingRows:
    """Return about such a share of every label's rows in a block; all of them from 1 on."""
    with quiet():
        rows = coding.rows(columns)
    drawn = np.random.default_rng([SEED, number]).random(len(rows.feedback)) / share[rows.feedback]
    if rows.weights is None:
        rows = rows._replace(weights=np.ones(len(drawn)))
    return rows.only(drawn < 1)
