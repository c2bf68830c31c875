"""Fitting duels from rows that come in blocks.

The first pass is a census (`duelrank.blocks`): it checks all rows, counts labels and measures
features. The second draws a *sample*, as many rows of every label as it takes for good Hessians.
The duels are solved on the sample, here; from there the solver goes on with passes over all blocks,
and the Hessians of the sample precondition it. Few passes are left to take, for the sample's
solution is close.

With so many labels that the weights of their duels are too many to go through every pass, tasks
solve some duels each (`_logistic_tiles`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import pairs
from duelrank.blocks._census import Census
from duelrank.blocks._labeled import LabeledBlocks
from duelrank.duels._logistic_checkpoint import Checkpoint, Fitted, facts_of
from duelrank.duels._logistic_fit import Announce, Settings, solve_tiles
from duelrank.duels._logistic_groups import GroupedRows
from duelrank.duels._logistic_held import HeldProblems
from duelrank.duels._logistic_objective import Crew, Floats, stack
from duelrank.duels._logistic_passes import (
    CodedRows,
    PassedProblems,
    Terms,
    concatenated,
    rows_of_block,
)
from duelrank.duels._logistic_rows import (
    EVERYONE,
    ClassWeights,
    Plan,
    RowTable,
    duel_blocks,
)
from duelrank.duels._logistic_scaling import Scaling
from duelrank.duels._logistic_solver import SINGLE_TOL, solve
from duelrank.duels._logistic_tiles import label_groups, solve_groups

SEED = 20200101  # which rows are sampled changes how fast a fit is, and only its last digits
# Rows of every label in the sample, for each weight of a duel: with 100 rows per weight the
# curvatures of a duel are known to about 10 %.
SAMPLE_ROWS_PER_WEIGHT = 50
LEAST_SAMPLE_ROWS = 500
LEAST_SAMPLE_ROWS_OF_MANY = 50.0  # when the labels are so many that memory is short
SAMPLE_SHARE = 4  # of the working memory, a quarter is for the sample


class LabelCounts(NamedTuple):
    """The labels of a fit, in the order of their codes, (K,), and what a census knows of them."""

    classes: NDArray[Any]
    rows: NDArray[np.intp]
    weights: Floats
    means: Floats

    @classmethod
    def of(cls, census: Census, classes: NDArray[Any]) -> LabelCounts:
        """Put what a census has counted in the order of the classes, which hold all its labels."""
        codes = np.searchsorted(classes, census.labels)
        rows = np.zeros(len(classes), dtype=np.intp)
        weights, means = np.zeros(len(classes)), np.zeros(len(classes))
        rows[codes], weights[codes] = census.counts, census.weights
        means[codes] = census.projected / np.maximum(census.weights, np.finfo(np.float64).tiny)
        return cls(classes, rows, weights, means)

    def sides(self) -> Floats:
        """Return how much the rows on the two sides of all duels weigh, (2, P)."""
        return np.stack([self.weights[side] for side in pairs(len(self.classes))])


def fit_blocks(
    blocks: LabeledBlocks,
    classes: NDArray[Any],
    dtype: Any,
    settings: Settings,
    crew: Crew,
    announce: Announce,
) -> Fitted:
    """Fit all duels.

    Parameters
    ----------
    blocks : LabeledBlocks
        The rows.
    classes : ndarray of shape (K,)
        All labels, sorted.
    dtype : dtype or None
        Precision of the coefficients; by default that of the rows.
    settings : Settings
        The parameters.
    crew : Crew
        The threads of this process.
    announce : callable
        Hears how many steps there will be.
    """
    census = blocks.census
    labels = LabelCounts.of(census, classes)
    dtype = census.dtype if dtype is None else np.dtype(dtype)
    n_classes, n_features = len(classes), len(census.mean)
    sides = labels.sides()
    scaling = Scaling.of_census(census, settings.fit_intercept, dtype)
    class_weights = ClassWeights(settings.class_weight, n_classes, sides)
    checkpoint = Checkpoint(
        settings.checkpoint,
        settings.checkpoint_every,
        lambda: facts_of(scaling, labels.means, sides, settings.C, settings.class_weight),
    )
    fitted = Fitted.unsolved(sides, n_features, dtype)
    checkpoint.resume(fitted, settings.tol)
    groups = label_groups(
        labels.rows,
        len(scaling.penalty),
        settings.working_memory,
        census.n_rows / len(blocks.passes.blocks),
    )
    if groups is not None:
        solve_groups(fitted, blocks.passes, groups, classes, dtype, settings, checkpoint, announce)
        return fitted
    sample = _sample(blocks, labels, n_features, dtype, settings)
    grouped = GroupedRows(sample.codes, n_classes)
    rows_of_duels = np.where(fitted.solved, 0, grouped.touched)
    plan = Plan.of(
        sample.X, rows_of_duels, n_classes, len(scaling.penalty), 1, settings.working_memory
    )
    rotate = not plan.own_hessians
    table = RowTable(sample.X, grouped.groups, sample.weights, scaling, rotate, crew, False)
    terms = Terms(classes, np.arange(0), scaling, dtype, settings.C, class_weights)

    def held(duels: NDArray[np.intp]) -> HeldProblems:
        parts = duel_blocks(table, grouped, duels, settings.C, class_weights, EVERYONE)
        return HeldProblems(stack(parts), len(duels), crew)

    def problems(duels: NDArray[np.intp]) -> PassedProblems:
        return PassedProblems(blocks.passes, terms._replace(duels=duels), held(duels), table)

    def solution_on_sample(duels: NDArray[np.intp]) -> Floats:
        return solve(
            held(duels),
            table.penalty,
            np.zeros((len(duels), len(table.penalty))),
            tol=max(settings.tol, SINGLE_TOL),
            max_iter=settings.max_iter,
            crew=crew,
            preconditioner=plan.preconditioner(table.penalty, len(duels), cold=True),
        ).weights

    solve_tiles(
        fitted, plan, table, problems, solution_on_sample, settings, checkpoint, crew, announce
    )
    return fitted


def _sample(
    blocks: LabeledBlocks,
    labels: LabelCounts,
    n_features: int,
    dtype: np.dtype[Any],
    settings: Settings,
) -> CodedRows:
    """Draw rows of every label, weighted so that those of a label weigh as much as all of them."""
    most = settings.working_memory * 2**20 / SAMPLE_SHARE / (8 * max(1, n_features))
    wanted = max(LEAST_SAMPLE_ROWS, SAMPLE_ROWS_PER_WEIGHT * (n_features + 1))
    rows_per_label = max(LEAST_SAMPLE_ROWS_OF_MANY, min(wanted, most / len(labels.classes)))
    share = rows_per_label / np.maximum(labels.rows, 1)
    sample: CodedRows = blocks.passes.reduce(
        sample_block, concatenated, labels.classes, share, dtype
    )
    drawn = np.bincount(sample.codes, sample.weights, minlength=len(labels.classes))
    inflation = labels.weights / np.maximum(drawn, np.finfo(np.float64).tiny)
    assert sample.weights is not None
    return sample._replace(weights=sample.weights * inflation[sample.codes])


def sample_block(
    number: int,
    X: Any,
    y: Any,
    sample_weight: Any,
    classes: NDArray[Any],
    share: Floats,
    dtype: np.dtype[Any],
) -> CodedRows:
    """Return about such a share of every label's rows in a block; all of them from 1 on."""
    rows = rows_of_block(X, y, sample_weight, classes, dtype)
    drawn = np.random.default_rng([SEED, number]).random(len(rows.codes)) / share[rows.codes]
    kept = drawn < 1
    weights = np.ones(len(kept)) if rows.weights is None else rows.weights
    return CodedRows(rows.X[kept], rows.codes[kept], weights[kept])
