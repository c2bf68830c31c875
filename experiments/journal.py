"""Long computations as tasks on all cores; a run that was stopped continues where it stopped.

The rows that a task returns are appended to a journal, a file of JSON lines in
``output/experiments``. A task in the journal is not run again, unless the settings, the versions or
the code changed. When the results are written, the journal is removed: the next run computes
everything again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import joblib
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from experiments.results import Row, versions

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "output" / "experiments"

Task = dict[str, Any]


def run(
    name: str,
    function: Callable[..., list[Row]],
    tasks: Sequence[Task],
    settings: dict[str, Any],
    *,
    n_jobs: int = -1,
) -> list[Row]:
    """Run ``function(**task)`` for every task not in the journal, and return all rows.

    Parameters
    ----------
    name : str
        Name of the journal.
    function : callable
        Takes a task's items as keyword arguments and returns rows. With several processes, each
        has its share of the cores.
    tasks : sequence of dict
        Items that JSON can hold. Rows are returned in the order of the tasks, whichever task ends
        first. The longest should come first.
    settings : dict
        What else the rows depend on; if it changed, the journal starts again.
    n_jobs : int, default=-1
        Number of processes, all cores by default.

    Returns
    -------
    rows : list of dict
        The rows of all tasks, each with the items of its task in front.
    """
    path = FOLDER / f"{name}.jsonl"
    # As JSON gives it back: tuples are lists there.
    head = json.loads(json.dumps({"settings": settings, "versions": versions(), "code": _code()}))
    done = _read(path, head)
    open_tasks = [task for task in tasks if _key(task) not in done]
    if len(open_tasks) < len(tasks):
        print(f"{name}: {len(tasks) - len(open_tasks)} of {len(tasks)} tasks are done already")
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    calls = (joblib.delayed(_call)(function, task) for task in open_tasks)
    with path.open("a") as journal, _bar() as bar:
        shown = bar.add_task(name, total=len(tasks), completed=len(tasks) - len(open_tasks))
        for task, rows in parallel(calls):
            journal.write(json.dumps({"task": task, "rows": rows}) + "\n")
            journal.flush()
            done[_key(task)] = rows
            bar.advance(shown)
    return [task | row for task in tasks for row in done[_key(task)]]


def discard(name: str) -> None:
    """Remove the journal, because the results are written."""
    (FOLDER / f"{name}.jsonl").unlink(missing_ok=True)


def _call(function: Callable[..., list[Row]], task: Task) -> tuple[Task, list[Row]]:
    return task, function(**task)


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def _code() -> str:
    """Return a digest of the code that computes the rows."""
    digest = hashlib.sha256()
    for folder in (ROOT / "src" / "duelrank", ROOT / "experiments"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _read(path: Path, head: dict[str, Any]) -> dict[str, list[Row]]:
    """Return the rows of the tasks in the journal; start a new journal if it cannot be used."""
    entries = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:  # the run was stopped while it wrote this line
            continue
    if not entries or entries[0] != head:
        entries = [head]
    # The file is written again, because a line that was cut off would run into the next one.
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return {_key(entry["task"]): entry["rows"] for entry in entries[1:]}


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    )
