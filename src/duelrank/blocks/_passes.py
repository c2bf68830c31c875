"""Passes over blocks of rows: a kernel applied to every block, its results put together as a tree.

Here, block after block, or on Dask with one task per block. The tree is the same in both, whatever
the number of workers and whichever of them dies, and so are the digits of its sums.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from operator import getitem
from typing import Any, Protocol
from uuid import uuid4

import numpy as np

from duelrank._threads import blas_threads
from duelrank.blocks._sources import RowBlocks, load

FAN_IN = 8  # how many results are put together at a time
LARGE_GRAPH = 10_000_000  # bytes of a graph that Dask warns of
TASKS_PER_THREAD = 4  # of those that are sent off together

Kernel = Callable[..., Any]
Merge = Callable[[list[Any]], Any]
Done = Callable[[], None]


class Passes(Protocol):
    """Whatever can take passes over blocks of rows."""

    blocks: list[Any]

    def reduce(self, kernel: Kernel, merge: Merge, *shared: Any) -> Any:
        """Apply ``kernel(number, *columns, *shared)`` to all blocks, and merge the results.

        Parameters
        ----------
        kernel : callable
            Takes the number of a block, the block of every column, None for a column that is
            missing, and what all blocks share. A function of a module, since it travels.
        merge : callable
            Takes a list of results and returns one that stands for all of them.
        *shared : anything
            What goes to every block, such as weights.
        """

    def each(self, kernel: Kernel, *shared: Any, done: Done | None = None) -> list[Any]:
        """Apply ``kernel(number, *columns, *shared)`` to all blocks, and list the results.

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
            A kernel that takes a list of groups, by number, before what is shared, and returns a
            list of what a block has for each of them.
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
            A function of a module, since it travels.
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
    return OnDask(blocks) if from_dask or has_client() else Here(blocks)


def passes_over_frames(frames: list[Any]) -> Passes:
    """Take passes over the partitions of Dask dataframes and series; None for a missing one.

    They are put together before Dask optimizes them: it reads what comes from one file at once, and
    would else choose different partitions for columns of different width.
    """
    packed = frames[0].map_partitions(
        _packed,
        *frames[1:],
        meta=frames[0]._meta,
        align_dataframes=False,
        enforce_metadata=False,
    )
    return OnDask(packed.to_delayed())


def has_client() -> bool:
    """Tell whether this process is connected to a Dask cluster."""
    if "distributed" not in sys.modules:
        return False
    from distributed import get_client

    try:
        get_client()
    except ValueError:
        return False
    return True


class Here:
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
            results.append(_on_block(kernel, number, block, shared))
            if done is not None:
                done()
        return results

    def regroup(self, split: Kernel, merge: Merge, n_groups: int, *shared: Any) -> list[Any]:
        """Put rows together that belong together: a pass over all blocks for every group."""
        return [partial(self._group, split, merge, group, shared) for group in range(n_groups)]

    def stream(self, kernel: Kernel, tasks: list[tuple[Any, ...]], *shared: Any) -> Iterator[Any]:
        """Yield the results of tasks."""
        yield from _one_by_one(kernel, tasks, shared, load)

    def _group(self, split: Kernel, merge: Merge, group: int, shared: tuple[Any, ...]) -> Any:
        return merge([part for (part,) in self._results(split, ([group], *shared))])

    def _results(self, kernel: Kernel, shared: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the results of all blocks in their order, some of them made at the same time."""
        numbers = range(len(self.blocks))

        def on_block(number: int) -> Any:
            return _on_block(kernel, number, self.blocks[number], shared)

        with ThreadPoolExecutor(self.n_threads) as pool:
            for start in numbers[:: self.n_threads]:
                yield from pool.map(on_block, numbers[start : start + self.n_threads])

    @staticmethod
    def _carry(levels: list[list[Any]], merge: Merge, at: int) -> None:
        """Merge the results of every level that has so many, and hand them to the next one."""
        level = 0
        while level < len(levels):
            last = level == len(levels) - 1
            if len(levels[level]) >= at and not (last and len(levels[level]) == 1):
                if last:
                    levels.append([])
                levels[level + 1].append(merge(levels[level]))
                levels[level] = []
            level += 1


class OnDask:
    """Passes by Dask's scheduler: that of the client, or else the one Dask is set to."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks

    @cached_property
    def graph(self) -> dict[Any, Any]:
        """The tasks that make the blocks, of those that are Dask's."""
        parts = (part for block in self.blocks for part in _flat(block))
        graphs = (part.__dask_graph__() for part in parts if hasattr(part, "__dask_graph__"))
        tasks: dict[Any, Any] = {}
        for graph in {id(graph): graph for graph in graphs}.values():  # blocks may share them
            tasks.update(graph)
        return tasks

    def reduce(self, kernel: Kernel, merge: Merge, *shared: Any) -> Any:
        """Apply a kernel to all blocks, and merge the results.

        The graph is written down by hand: to build it from single Delayed objects would take longer
        than to run it.
        """
        from dask.delayed import Delayed

        graph, results = self._mapped(kernel, shared)
        last = Delayed(_tree(graph, results, merge), graph)
        return compute([last], shared, optimize_graph=False)[0]

    def each(self, kernel: Kernel, *shared: Any, done: Done | None = None) -> list[Any]:
        """Apply a kernel to all blocks, and list the results."""
        tasks = self._tasks(kernel, shared)
        if done is None:
            return compute(tasks, shared)
        return _compute_watched(tasks, shared, done)

    def regroup(self, split: Kernel, merge: Merge, n_groups: int, *shared: Any) -> list[Any]:
        """Put rows together that belong together: once, to stay on the cluster if there is one.

        In this process they would all be held, so there every group is a pass of its own.
        """
        if not has_client():
            return [self._groups(split, merge, [group], shared)[0] for group in range(n_groups)]
        import dask

        groups = self._groups(split, merge, list(range(n_groups)), shared)
        with _explaining(shared):
            return list(dask.persist(*groups, optimize_graph=False))

    def _groups(
        self, split: Kernel, merge: Merge, wanted: list[int], shared: tuple[Any, ...]
    ) -> list[Any]:
        """Return the tasks that put some groups together."""
        from dask.delayed import Delayed

        graph, blocks = self._mapped(split, (wanted, *shared))
        groups = []
        for place in range(len(wanted)):
            pieces = [f"{block}-part-{place}" for block in blocks]
            graph.update({p: (getitem, b, place) for p, b in zip(pieces, blocks, strict=True)})
            groups.append(_tree(graph, pieces, merge))
        return [Delayed(group, graph) for group in groups]

    def stream(self, kernel: Kernel, tasks: list[tuple[Any, ...]], *shared: Any) -> Iterator[Any]:
        """Yield the results of tasks, as many at a time as keep all workers busy."""
        if not has_client():  # where several groups at a time would be most of all rows
            yield from _one_by_one(kernel, tasks, shared, _made)
            return
        from dask import delayed

        run = delayed(kernel, pure=False)
        at_once = TASKS_PER_THREAD * n_threads()
        for start in range(0, len(tasks), at_once):
            sources = [as_task(value) for value in shared]
            some = [run(*task, *sources) for task in tasks[start : start + at_once]]
            yield from compute(some, shared)

    def _mapped(self, kernel: Kernel, shared: Any) -> tuple[dict[Any, Any], list[str]]:
        """Return a graph that applies a kernel to all blocks, and the names of the results."""
        name = f"{kernel.__name__}-{uuid4().hex}"
        # What is shared is one task each, from which workers copy: see `as_task`. Inside a partial,
        # Dask does not look for tasks in it.
        sources = {f"shared-{name}-{i}": (partial(_keep, v),) for i, v in enumerate(shared)}
        graph = {**self.graph, **sources}
        results: list[str] = []
        for number, block in enumerate(self.blocks):
            results.append(f"{name}-{number}")
            graph[results[-1]] = (_on_block, kernel, number, _named(block), list(sources))
        return graph, results

    def _tasks(self, kernel: Kernel, shared: Any) -> list[Any]:
        from dask import delayed

        sources = [as_task(value) for value in shared]
        task = delayed(_on_block, pure=False)
        return [task(kernel, number, block, sources) for number, block in enumerate(self.blocks)]


def _tree(graph: dict[Any, Any], results: list[str], merge: Merge) -> str:
    """Add tasks to a graph that merge results a few at a time; return the name of the last one."""
    level = 0
    while len(results) > 1:
        level += 1
        groups = [results[start : start + FAN_IN] for start in range(0, len(results), FAN_IN)]
        results = [f"{group[0]}-merged-{level}" for group in groups]
        graph.update({name: (merge, group) for name, group in zip(results, groups, strict=True)})
    return results[0]


def _one_by_one(
    kernel: Kernel,
    tasks: list[tuple[Any, ...]],
    shared: tuple[Any, ...],
    make: Callable[[Any], Any],
) -> Iterator[Any]:
    """Yield the results of tasks in this process; what the next one needs as well is kept."""
    made: dict[int, Any] = {}
    for task in tasks:
        made = {id(part): made[id(part)] for part in task if id(part) in made}
        for part in task:
            if id(part) not in made:
                made[id(part)] = make(part)
        yield kernel(*(made[id(part)] for part in task), *shared)


def _made(part: Any) -> Any:
    return compute([part], ())[0] if hasattr(part, "__dask_graph__") else part


def n_threads() -> int:
    """Return how many tasks a cluster can run at a time."""
    from distributed import get_client

    return max(1, sum(get_client().nthreads().values()))


def compute(tasks: list[Any], shared: tuple[Any, ...], **options: Any) -> list[Any]:
    """Let Dask compute, and say clearly what is wrong when workers die of it."""
    import dask

    with _explaining(shared):
        return list(dask.compute(*tasks, **options))


def as_task(value: Any) -> Any:
    """Make a value that all blocks share the result of one task, from which workers copy it.

    In the tasks of all blocks it would go through the scheduler as many times. It is not scattered,
    so it can be made again when the worker dies that has it.
    """
    from dask import delayed

    return delayed(_keep, pure=False)(value)


def add_up(results: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Merge tuples of arrays by adding them up, in their order."""
    if len(results) == 1:
        return results[0]
    totals = tuple(np.add(*pair) for pair in zip(results[0], results[1], strict=True))
    for result in results[2:]:
        for total, value in zip(totals, result, strict=True):
            total += value
    return totals


def _zipped(columns: list[RowBlocks | None]) -> list[tuple[Any, ...]]:
    n_blocks = max(len(column) for column in columns if column is not None)
    missing = [None] * n_blocks
    return list(zip(*(missing if c is None else c.parts for c in columns), strict=True))


def _packed(*columns: Any) -> tuple[Any, ...]:
    return columns


def _flat(block: Any) -> list[Any]:
    """List the parts of a block; one that Dask has packed is a single part."""
    return [block] if hasattr(block, "__dask_graph__") else list(block)


def _named(block: Any) -> Any:
    """Name the tasks that make the parts of a block, for a graph."""
    names = [part.key if hasattr(part, "__dask_graph__") else part for part in _flat(block)]
    return names[0] if hasattr(block, "__dask_graph__") else names


def _on_block(kernel: Kernel, number: int, block: Any, shared: Any) -> Any:
    try:
        return kernel(number, *map(load, block), *shared)
    except Exception as error:
        error.add_note(f"This happened in block number {number}, counted from 0.")
        raise


def _keep(value: Any) -> Any:
    return value


@contextmanager
def _explaining(shared: tuple[Any, ...]) -> Iterator[None]:
    try:
        with _quiet_about(shared):
            yield
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        raise RuntimeError(
            "A task was given up because worker after worker died of it. Most often a block does "
            "not fit into a worker's memory limit: make blocks smaller, with rechunk, repartition "
            "or rows_per_block, or working_memory, or raise the limit. Dask says: "
            f"{error}"
        ) from error


def _quiet_about(shared: tuple[Any, ...]) -> AbstractContextManager[Any]:
    """Let Dask not warn of a graph that is large for its weights: they have to travel."""
    n_bytes = sum(getattr(value, "nbytes", 0) for value in shared)
    if n_bytes < LARGE_GRAPH / 2:
        return nullcontext()
    import dask
    import distributed  # noqa: F401, its settings have to be there before one of them is changed

    threshold = LARGE_GRAPH + 2 * n_bytes
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": threshold})


def _compute_watched(tasks: list[Any], shared: tuple[Any, ...], done: Done) -> list[Any]:
    """Compute tasks and hear of every one that is done, from a cluster or from this process."""
    if not has_client():
        from dask.callbacks import Callback

        keys = {task.key for task in tasks}
        with Callback(posttask=lambda key, *_: done() if key in keys else None):
            return compute(tasks, shared)
    from distributed import as_completed, get_client

    if _in_a_task():  # whose thread would be taken while it waits: Dask knows how to give it back
        results = compute(tasks, shared)
        for _ in results:
            done()
        return results
    client = get_client()
    with _explaining(shared):
        futures = client.compute(tasks)
        try:
            for _ in as_completed(futures, with_results=True):
                done()
            return list(client.gather(futures))
        finally:  # or what an error leaves undone would go on
            for future in futures:
                future.release()


def _in_a_task() -> bool:
    """Tell whether this process is a worker that runs us as a task."""
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True
