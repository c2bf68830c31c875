"""Passes over blocks of rows in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from duelrank._threads import blas_threads
from duelrank.blocks._kernels import FAN_IN, Done, Kernel, Merge, on_block, one_by_one
from duelrank.blocks._sources import load


class InProcess:
    """Passes in this process, as many blocks at a time as BLAS would have threads."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks
        self.n_threads = blas_threads()

    def reduce(self, kernel: Kernel, merge: Merge, *shared: Any) -> Any:
        """Apply a kernel to all blocks, and merge the results."""
        levels: list[list[Any]] = [[]]
        for result in self._results(kernel, shared):
            levels[0].append(result)
            self._carry(levels, merge, FAN_IN)
        self._carry(levels, merge, 1)
        return levels[-1][0]

    def each(self, kernel: Kernel, *shared: Any, done: Done | None = None) -> list[Any]:
        """Apply a kernel to all blocks, and list the results."""
        results = []
        for number, block in enumerate(self.blocks):
            results.append(on_block(kernel, number, block, shared))
            if done is not None:
                done()
        return results

    def regroup(self, split: Kernel, merge: Merge, n_groups: int, *shared: Any) -> list[Any]:
        """Put rows together that belong together, by one pass over all blocks for every group."""
        return [partial(self._group, split, merge, group, shared) for group in range(n_groups)]

    def stream(self, kernel: Kernel, tasks: list[tuple[Any, ...]], *shared: Any) -> Iterator[Any]:
        """Yield the results of tasks."""
        yield from one_by_one(kernel, tasks, shared, load)

    def _group(self, split: Kernel, merge: Merge, group: int, shared: tuple[Any, ...]) -> Any:
        return merge([part for (part,) in self._results(split, ([group], *shared))])

    def _results(self, kernel: Kernel, shared: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the results of all blocks in their order; threads make some at the same time."""
        numbers = range(len(self.blocks))

        def result(number: int) -> Any:
            return on_block(kernel, number, self.blocks[number], shared)

        with ThreadPoolExecutor(self.n_threads) as pool:
            for start in numbers[:: self.n_threads]:
                yield from pool.map(result, numbers[start : start + self.n_threads])

    @staticmethod
    def _carry(levels: list[list[Any]], merge: Merge, at: int) -> None:
        """Merge the results of every level that has so many, and append them to the next level."""
        level = 0
        while level < len(levels):
            last = level == len(levels) - 1
            if len(levels[level]) >= at and not (last and len(levels[level]) == 1):
                if last:
                    levels.append([])
                levels[level + 1].append(merge(levels[level]))
                levels[level] = []
            level += 1
