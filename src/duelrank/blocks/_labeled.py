"""LabeledBlocks: points, their labels and weights, block by block, with the labels settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.blocks._census import Census, count_block, merge_censuses
from duelrank.blocks._passes import Passes, passes_over, passes_over_frames
from duelrank.blocks._sources import as_row_blocks, is_dask_frame


@dataclass(frozen=True, eq=False)
class LabeledBlocks:
    """Training data in blocks: what an engine learns from that takes blocks.

    Attributes
    ----------
    passes : Passes
        Takes passes over blocks of points, labels and weights.
    census : Census
        What the first pass has found out.
    classes : ndarray of shape (K,)
        All labels in the order of their codes, those without rows included.
    """

    passes: Passes
    census: Census
    classes: NDArray[Any]

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        classes: NDArray[Any] | None = None,
        name: str = "classes",
    ) -> LabeledBlocks:
        """Take the first pass, which checks all rows and finds the labels.

        Parameters
        ----------
        X : RowBlocks, Dask array or Dask dataframe
            Points.
        y : RowBlocks, Dask array or series, or array-like
            Their labels, in the same blocks.
        sample_weight : RowBlocks, Dask array or series, or array-like, default=None
            Weights of the rows, in the same blocks.
        classes : ndarray of shape (K,), default=None
            All labels, sorted; by default those that have rows.
        name : str, default="classes"
            What to call `classes` in an error message.
        """
        passes = _passes_over(X, y, sample_weight)
        census: Census = passes.reduce(count_block, merge_censuses)
        if census.n_rows == 0:
            raise ValueError("X must have at least one row, got none.")
        if not census.weights.any():
            raise ValueError("sample_weight must be positive for at least one row; all are zero.")
        if classes is None:
            return cls(passes, census, census.labels)
        unknown = np.setdiff1d(census.labels, classes)
        if len(unknown):
            raise ValueError(
                f"y holds labels that are not among {name}: {unknown[:10].tolist()}; "
                f"these are {classes.tolist()}."
            )
        return cls(passes, census, classes)


def _passes_over(X: Any, y: Any, sample_weight: Any) -> Passes:
    if all(column is None or is_dask_frame(column) for column in (X, y, sample_weight)):
        for name, column in (("y", y), ("sample_weight", sample_weight)):
            if column is not None and column.npartitions != X.npartitions:
                raise ValueError(
                    f"{name} must come in the same blocks as X, got {column.npartitions} "
                    f"partitions for {X.npartitions}: take both from one Dask dataframe, or "
                    "repartition them alike."
                )
        return passes_over_frames([X, y, sample_weight])
    points = as_row_blocks(X)
    labels = as_row_blocks(y, like=points, name="y")
    weights = None
    if sample_weight is not None:
        weights = as_row_blocks(sample_weight, like=points, name="sample_weight")
    return passes_over([points, labels, weights])
