"""Passes over blocks of rows: a kernel is applied to every block, and results are merged as a tree.

Passes are taken in this process, or on Dask with one task per block. The tree is the same in both,
whatever the number of workers and whichever of them dies, and so are the digits of its sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from duelrank.blocks import _dask
from duelrank.blocks._in_process import InProcess
from duelrank.blocks._kernels import Done, Kernel, Merge
from duelrank.blocks._sources import RowBlocks


class Passes(Protocol):
    """Whatever can take passes over blocks of rows."""

    blocks: list[Any]

    def reduce(self, kernel: Kernel, merge: Merge, *shared: Any) -> Any:
        """Apply ``kernel(number, columns, *shared)`` to all blocks, and merge the results.

        Parameters
        ----------
        kernel : callable
            Takes the number of a block, its `Columns`, and what all blocks share. It is a function
            of a module, because it travels.
        merge : callable
            Takes a list of results and returns one that stands for all of them.
        *shared : anything
            What goes to every block, such as coefficients.
        """

    def each(self, kernel: Kernel, *shared: Any, done: Done | None = None) -> list[Any]:
        """Apply ``kernel(number, columns, *shared)`` to all blocks, and list the results.

        Parameters
        ----------
        kernel, *shared : callable, anything
            As in `reduce`; results should be small, as all of them come back.
        done : callable, default=None
            Called here, without arguments, whenever a block is done.
        """

    def regroup(self, split: Kernel, merge: Merge, n_groups: int, *shared: Any) -> list[Any]:
        """Put rows together that belong together, whatever blocks they are in.

        Parameters
        ----------
        split : callable
            A kernel that takes a list of group numbers before what is shared, and returns the rows
            of a block for each of these groups, as a list.
        merge : callable
            Takes a list of such parts of a group and returns one that stands for all of them.
        n_groups : int
            Number of groups.
        *shared : anything
            What goes to every block.

        Returns
        -------
        groups : list
            Recipes or tasks, to be handed to `stream`.
        """

    def stream(self, kernel: Kernel, tasks: list[tuple[Any, ...]], *shared: Any) -> Iterator[Any]:
        """Yield ``kernel(*task, *shared)`` of all tasks in their order, a few at a time.

        Parameters
        ----------
        kernel : callable
            A function of a module, because it travels.
        tasks : list of tuples
            Arguments, among them groups.
        *shared : anything
            What goes to every task.
        """


def passes_over(columns: list[RowBlocks | None]) -> Passes:
    """Choose where the passes over aligned columns are taken.

    On Dask, if a column comes from there or a client is connected to a cluster, otherwise here.
    """
    blocks = _zipped(columns)
    from_dask = any(hasattr(part, "__dask_graph__") for block in blocks for part in block)
    if from_dask or _dask.has_client():
        return _dask.OnDask(blocks)
    return InProcess(blocks)


def passes_over_frames(frames: list[Any]) -> Passes:
    """Take passes over the partitions of Dask dataframes and series; None for a missing one.

    They are put together before Dask optimizes them. Dask reads columns of one file at once, and it
    would choose different partitions for columns of different width.
    """
    packed = frames[0].map_partitions(
        _packed,
        *frames[1:],
        meta=frames[0]._meta,
        align_dataframes=False,
        enforce_metadata=False,
    )
    return _dask.OnDask(packed.to_delayed())


def _zipped(columns: list[RowBlocks | None]) -> list[tuple[Any, ...]]:
    n_blocks = max(len(column) for column in columns if column is not None)
    missing = [None] * n_blocks
    return list(zip(*(missing if c is None else c.parts for c in columns), strict=True))


def _packed(*columns: Any) -> tuple[Any, ...]:
    return columns
