"""Kernels: functions that are applied to every block of rows, and what merges their results.

A kernel is a function ``kernel(number, columns, *shared)`` of a module, because it travels to other
processes. It takes the number of a block, its `Columns`, and what all blocks share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from duelrank.blocks._sources import load

FAN_IN = 8  # how many results are merged at a time

Kernel = Callable[..., Any]
Merge = Callable[[list[Any]], Any]
Done = Callable[[], None]


class Columns(NamedTuple):
    """The columns of a block: points, and labels and weights if there are any."""

    X: Any
    y: Any = None
    sample_weight: Any = None


def on_block(kernel: Kernel, number: int, block: Any, shared: Any) -> Any:
    """Make a block, and apply a kernel to it."""
    try:
        return kernel(number, Columns(*map(load, block)), *shared)
    except Exception as error:
        error.add_note(f"This happened in block number {number}, counted from 0.")
        raise


def one_by_one(
    kernel: Kernel,
    tasks: list[tuple[Any, ...]],
    shared: tuple[Any, ...],
    make: Callable[[Any], Any],
) -> Iterator[Any]:
    """Yield the results of tasks in this process; keep parts that the next task needs as well."""
    made: dict[int, Any] = {}
    for task in tasks:
        made = {id(part): made[id(part)] for part in task if id(part) in made}
        for part in task:
            if id(part) not in made:
                made[id(part)] = make(part)
        yield kernel(*(made[id(part)] for part in task), *shared)


def add_up(results: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Merge tuples of arrays by adding them up, in their order."""
    if len(results) == 1:
        return results[0]
    totals = tuple(np.add(*pair) for pair in zip(results[0], results[1], strict=True))
    for result in results[2:]:
        for total, value in zip(totals, result, strict=True):
            total += value
    return totals
