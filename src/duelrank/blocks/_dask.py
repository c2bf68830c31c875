"""Passes over blocks of rows by Dask: one task for each block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from operator import getitem
from typing import Any
from uuid import uuid4

from duelrank.blocks._kernels import FAN_IN, Done, Kernel, Merge, on_block, one_by_one

LARGE_GRAPH = 10_000_000  # bytes of a graph that Dask warns of
TASKS_PER_THREAD = 4  # of those that are sent off together


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


class OnDask:
    """Passes by Dask's scheduler: that of the client, or else the one Dask is set to."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks

    @cached_property
    def graph(self) -> dict[Any, Any]:
        """The tasks that make the blocks, as far as blocks come from Dask."""
        parts = (part for block in self.blocks for part in _flat(block))
        graphs = (part.__dask_graph__() for part in parts if hasattr(part, "__dask_graph__"))
        tasks: dict[Any, Any] = {}
        for graph in {id(graph): graph for graph in graphs}.values():  # blocks may share them
            tasks.update(graph)
        return tasks

    def reduce(self, kernel: Kernel, merge: Merge, *shared: Any) -> Any:
        """Apply a kernel to all blocks, and merge the results.

        The graph is written as a plain dictionary. Building it from single Delayed objects would
        take longer than running it.
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
        """Put rows together that belong together.

        On a cluster this happens once, and the groups stay there. Without a cluster they would all
        be in the memory of this process, so each group is a pass of its own.
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
        if not has_client():  # several groups at a time could be most of all rows
            yield from one_by_one(kernel, tasks, shared, _made)
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
        # Each shared value is one task, from which workers copy it: see `as_task`. Dask does not
        # look for tasks inside a partial.
        sources = {f"shared-{name}-{i}": (partial(_keep, v),) for i, v in enumerate(shared)}
        graph = {**self.graph, **sources}
        results: list[str] = []
        for number, block in enumerate(self.blocks):
            results.append(f"{name}-{number}")
            graph[results[-1]] = (on_block, kernel, number, _named(block), list(sources))
        return graph, results

    def _tasks(self, kernel: Kernel, shared: Any) -> list[Any]:
        from dask import delayed

        sources = [as_task(value) for value in shared]
        task = delayed(on_block, pure=False)
        return [task(kernel, number, block, sources) for number, block in enumerate(self.blocks)]


def _tree(graph: dict[Any, Any], results: list[str], merge: Merge) -> str:
    """Add tasks to a graph that merge results a few at a time; return the name of the last one."""
    level = 0
    while len(results) > 1:
        level += 1
        siblings = [results[start : start + FAN_IN] for start in range(0, len(results), FAN_IN)]
        results = [f"{some[0]}-merged-{level}" for some in siblings]
        graph.update({name: (merge, some) for name, some in zip(results, siblings, strict=True)})
    return results[0]


def _made(part: Any) -> Any:
    return compute([part], ())[0] if hasattr(part, "__dask_graph__") else part


def n_threads() -> int:
    """Return how many tasks a cluster can run at a time."""
    from distributed import get_client

    return max(1, sum(get_client().nthreads().values()))


def compute(tasks: list[Any], shared: tuple[Any, ...], **options: Any) -> list[Any]:
    """Let Dask compute, and explain the error if workers die of it."""
    import dask

    with _explaining(shared):
        return list(dask.compute(*tasks, **options))


def as_task(value: Any) -> Any:
    """Make a value that all blocks share the result of one task, from which workers copy it.

    As part of the task of every block, the value would go through the scheduler once per block. It
    is not scattered, so it can be made again when the worker that has it dies.
    """
    from dask import delayed

    return delayed(_keep, pure=False)(value)


def _flat(block: Any) -> list[Any]:
    """List the parts of a block; a block that Dask has packed is a single part."""
    return [block] if hasattr(block, "__dask_graph__") else list(block)


def _named(block: Any) -> Any:
    """Name the tasks that make the parts of a block, for a graph."""
    names = [part.key if hasattr(part, "__dask_graph__") else part for part in _flat(block)]
    return names[0] if hasattr(block, "__dask_graph__") else names


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
    """Keep Dask from warning of a graph that is large because coefficients have to travel."""
    n_bytes = sum(getattr(value, "nbytes", 0) for value in shared)
    if n_bytes < LARGE_GRAPH / 2:
        return nullcontext()
    import dask
    import distributed  # noqa: F401, a setting can be changed once distributed has set it

    threshold = LARGE_GRAPH + 2 * n_bytes
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": threshold})


def _compute_watched(tasks: list[Any], shared: tuple[Any, ...], done: Done) -> list[Any]:
    """Compute tasks and call `done` after each, on a cluster or in this process."""
    if not has_client():
        from dask.callbacks import Callback

        keys = {task.key for task in tasks}
        with Callback(posttask=lambda key, *_: done() if key in keys else None):
            return compute(tasks, shared)
    from distributed import as_completed, get_client

    if _in_a_task():  # waiting would block its thread; compute gives the thread back meanwhile
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
        finally:  # after an error, tasks that are not done would go on
            for future in futures:
                future.release()


def _in_a_task() -> bool:
    """Tell whether this code runs as a task on a worker."""
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True
