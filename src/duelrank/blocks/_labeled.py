"""LabeledBlocks: points, their labels and weights, block by block."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.blocks._census import Census, count_block, merge_censuses
from duelrank.blocks._passes import Passes, passes_over, passes_over_frames
from duelrank.blocks._sources import as_row_blocks, is_dask_frame


class LabeledBlocks:
    """Training data in blocks: what an engine fits that takes blocks.

    Parameters
    ----------
    X : RowBlocks, Dask array or Dask dataframe
        Points.
    y : RowBlocks, Dask array or series, or array-like
        Their labels, in the same blocks.
    sample_weight : RowBlocks, Dask array or series, or array-like, default=None
        Weights of the rows, in the same blocks.

    Attributes
    ----------
    passes : Passes
        Takes passes over blocks of points, labels and weights.
    census : Census
        What the first pass finds out, which is taken when this is first asked for.
    classes : ndarray of shape (K,), or None
        The labels in the order of their codes, where a ranker has settled it.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        self.classes: NDArray[Any] | None = None
        if all(column is None or is_dask_frame(column) for column in (X, y, sample_weight)):
            for name, column in (("y", y), ("sample_weight", sample_weight)):
                if column is not None and column.npartitions != X.npartitions:
                    raise ValueError(
                        f"{name} must come in the same blocks as X, got {column.npartitions} "
                        f"partitions for {X.npartitions}: take both from one Dask dataframe, or "
                        "repartition them alike."
                    )
            self.passes: Passes = passes_over_frames([X, y, sample_weight])
            return
        points = as_row_blocks(X)
        labels = as_row_blocks(y, like=points, name="y")
        weights = None
        if sample_weight is not None:
            weights = as_row_blocks(sample_weight, like=points, name="sample_weight")
        self.passes = passes_over([points, labels, weights])

    @cached_property
    def census(self) -> Census:
        """Take the first pass."""
        census: Census = self.passes.reduce(count_block, merge_censuses)
        if census.n_rows == 0:
            raise ValueError("X must have at least one row, got none.")
        if not census.weights.any():
            raise ValueError("sample_weight must be positive for at least one row; all are zero.")
        return census

    def check_classes(self, classes: NDArray[Any], name: str = "classes") -> None:
        """Raise unless all labels are among the classes."""
        unknown = np.setdiff1d(self.census.labels, classes)
        if len(unknown):
            raise ValueError(
                f"y holds labels that are not among {name}: {unknown[:10].tolist()}; "
                f"these are {classes.tolist()}."
            )
