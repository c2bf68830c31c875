"""Time a function next to its peer in one process, report the ratio, and record it.

What is reported is printed. If the environment variable DUELRANK_MEASUREMENTS names a file, it is
appended to it as a line of JSON as well, so that `run.py` gets it from any process. A key tells
what a line measures and stays the same when its words change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MEASUREMENTS = "DUELRANK_MEASUREMENTS"


def best_of(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the shortest time of several runs, and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def report(
    question: str, ours: float, theirs: float, peer: str, *, key: str, note: str = ""
) -> None:
    """Print and record one line: our time, the peer's time, and the ratio.

    A note says what else there is to know about the peer, such as how exact it was.
    """
    print(
        f"{question}: duelrank {ours:.4g} s, {peer} {theirs:.4g} s, ratio {theirs / ours:.3g}x"
        + (f" ({note})" if note else ""),
        flush=True,
    )
    record(key, question, ours, peer=peer, theirs=theirs, note=note)


def figure(question: str, value: float, unit: str, *, key: str, note: str = "") -> None:
    """Print and record a number that has no peer."""
    print(f"{question}: {value:.4g} {unit}" + (f" ({note})" if note else ""), flush=True)
    record(key, question, value, unit, note=note)


def record(
    key: str,
    question: str,
    ours: float,
    unit: str = "s",
    *,
    peer: str = "",
    theirs: float | None = None,
    note: str = "",
) -> None:
    """Record a line and print nothing, for benchmarks that print tables of their own."""
    line = {"key": key, "question": question, "unit": unit, "ours": float(ours), "note": note}
    if theirs is not None:
        line |= {"peer": peer, "theirs": float(theirs)}
    _append(line)


def skipped(what: str, why: str) -> None:
    """Print and record that something was not measured."""
    print(f"{what}: skipped, {why}", flush=True)
    _append({"skipped": what, "why": why})


def run_parts(script: str, parts: Iterable[str]) -> None:
    """Run parts of a script in processes of their own; leave with an error if some have failed."""
    failed = [part for part in parts if subprocess.run([sys.executable, script, part]).returncode]
    if failed:
        sys.exit(f"these parts failed: {', '.join(failed)}")


def _append(line: dict[str, Any]) -> None:
    if MEASUREMENTS in os.environ:
        with Path(os.environ[MEASUREMENTS]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
