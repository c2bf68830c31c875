"""Time a function next to its peer in one process, and report the ratio."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best_of(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the shortest time of several runs, and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def report(question: str, ours: float, theirs: float, peer: str) -> None:
    """Print one line: our time, the peer's time, and the ratio."""
    print(f"{question}: duelrank {ours:.4g} s, {peer} {theirs:.4g} s, ratio {theirs / ours:.1f}x")
