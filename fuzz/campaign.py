"""Numbers go to workers; their answers are counted, and finds are written down."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from fuzz.cases import Case, Kind, random_of
from fuzz.workers import FORK, MOST_CASES, PATIENCE, Answer, Worker, end_process, start_process

FOLDER = Path("output") / "fuzz"
MOST_ALIKE = 3  # finds of one signature that are written down
LOOK_EVERY = 0.25  # seconds
TELL_EVERY = 60  # seconds, where there is no terminal


@dataclass
class Tally:
    """What a kind's cases came to.

    Attributes
    ----------
    kind : str
        The kind.
    seed : int
        The seed.
    outcomes : Counter
        Cases by outcome; finds are one of them.
    signatures : dict of str to list of int
        The numbers of finds by their signature.
    seconds : float
        From the first case to the last.
    slowest : float
        Seconds of the slowest case that came to an end.
    peak_bytes : int
        The most memory that a case took.
    interrupted : bool
        Whether somebody stopped it.
    """

    kind: str
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    signatures: dict[str, list[int]] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0
    peak_bytes: int = 0
    interrupted: bool = False

    @property
    def cases(self) -> int:
        """How many cases there were."""
        return sum(self.outcomes.values())

    @property
    def finds(self) -> int:
        """How many of them were finds."""
        return self.outcomes["find"]

    def add(self, answer: Answer) -> int:
        """Count an answer; return how many finds had its signature so far."""
        self.outcomes[answer.outcome] += 1
        self.slowest = max(self.slowest, answer.seconds)
        self.peak_bytes = max(self.peak_bytes, answer.peak_bytes)
        if answer.outcome != "find":
            return 0
        alike = self.signatures.setdefault(answer.signature, [])
        alike.append(answer.number)
        return len(alike)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**vars(self), "outcomes": dict(self.outcomes), "cases": self.cases}


@contextmanager
def materials_of(kind: Kind) -> Iterator[Any]:
    """Make what cases are made of, in a process of its own, and read it."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-materials-"))
    try:
        process = FORK.Process(target=kind.make_materials, args=(folder,))
        start_process(process)
        if not end_process(process, PATIENCE) or process.exitcode:
            raise RuntimeError(f"the materials of {kind.name} could not be made")
        yield kind.read_materials(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_kind(
    kind: Kind,
    seed: int,
    *,
    cases: int | None = None,
    minutes: float | None = None,
    jobs: int = 1,
    first: int = 0,
    folder: Path = FOLDER,
) -> Tally:
    """Run cases of a kind.

    Parameters
    ----------
    kind : Kind
        The kind.
    seed : int
        The seed.
    cases : int, default=None
        How many; None for as many as there is time for.
    minutes : float, default=None
        How long at most; None for no limit.
    jobs : int, default=1
        How many workers.
    first : int, default=0
        The number of the first case.
    folder : Path
        Where finds go to.
    """
    tally = Tally(kind.name, seed)
    numbers = count(first) if cases is None else iter(range(first, first + cases))
    screen = _Screen(kind.name)
    try:
        with materials_of(kind) as materials:
            start = time.monotonic()
            end = start + 60 * minutes if minutes is not None else float("inf")
            for answer in _answers(kind, seed, materials, numbers, jobs, end):
                alike = tally.add(answer)
                if alike == 1:
                    screen.tell(f"find {kind.name}:{seed}:{answer.number}: {answer.signature}")
                if 0 < alike <= MOST_ALIKE:
                    case = kind.make_case(random_of(kind.name, seed, answer.number), materials)
                    write_find(folder, kind.name, seed, case, answer)
                tally.seconds = time.monotonic() - start
                screen.show(tally, cases, end - start)
    except KeyboardInterrupt:
        tally.interrupted = True
    screen.clear()
    return tally


def replay(kind: Kind, seed: int, number: int, folder: Path = FOLDER) -> tuple[Case, Answer]:
    """Run one case again, in a process of its own."""
    with materials_of(kind) as materials:
        (answer,) = _answers(kind, seed, materials, iter([number]), 1, float("inf"))
        case = kind.make_case(random_of(kind.name, seed, number), materials)
    write_find(folder / "replayed", kind.name, seed, case, answer)
    return case, answer


def write_find(folder: Path, kind: str, seed: int, case: Case, answer: Answer) -> Path:
    """Write the files of a case, what happened, and how to run it again."""
    place = folder / f"{kind}-{seed}-{answer.number}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, content in case.files.items():
        (place / name).write_bytes(content)
    lines = [
        f"python -m fuzz --replay {kind}:{seed}:{answer.number}",
        "",
        f"{answer.outcome}: {answer.signature}",
        "",
        *case.story,
        *(f"{name}: {value!r}" for name, value in case.facts.items()),
        "",
        answer.report,
    ]
    (place / "find.txt").write_text("\n".join(lines), encoding="utf-8", errors="replace")
    return place


def write_summary(folder: Path, tallies: list[Tally]) -> None:
    """Write the figures of a campaign, for those who want to add them up."""
    folder.mkdir(parents=True, exist_ok=True)
    for tally in tallies:
        path = folder / f"summary-{tally.kind}-{tally.seed}.json"
        path.write_text(json.dumps(tally.as_json(), indent=1), encoding="utf-8")


def _answers(
    kind: Kind, seed: int, materials: Any, numbers: Iterator[int], jobs: int, end: float
) -> Iterator[Answer]:
    """Hand out numbers until there are none, or time is over; yield answers as they come."""
    workers: list[Worker] = []
    try:
        for number in islice(numbers, jobs):
            workers.append(Worker(kind, seed, materials))
            workers[-1].give(number)
        while any(worker.number is not None for worker in workers):
            by_connection: dict[Any, Worker] = {
                worker.connection: worker for worker in workers if worker.number is not None
            }
            ready = wait(list(by_connection), timeout=LOOK_EVERY)
            late = [c for c, worker in by_connection.items() if worker.is_late() and c not in ready]
            for connection in [*ready, *late]:
                worker = by_connection[connection]
                answer = worker.answer() if connection in ready else worker.end_late()
                is_gone = not worker.process.is_alive()
                if is_gone or worker.n_cases >= MOST_CASES:
                    workers.remove(worker)
                    worker.close()
                    worker = Worker(kind, seed, materials)
                    workers.append(worker)
                following = next(numbers, None) if time.monotonic() < end else None
                if following is not None:
                    worker.give(following)
                yield answer
    finally:
        for worker in workers:
            if worker.number is not None:
                worker.process.kill()
            worker.close()


class _Screen:
    """What standard error shows meanwhile: a bar on a terminal, else a line a minute."""

    def __init__(self, name: str) -> None:
        self.is_terminal = sys.stderr.isatty()
        self.last = time.monotonic()
        self.tell(f"{name}: making what its cases are made of")

    def show(self, tally: Tally, cases: int | None, seconds: float) -> None:
        """Say how far it is."""
        share = tally.cases / cases if cases else tally.seconds / seconds
        share = min(1.0, max(share, tally.seconds / seconds))
        bar = "━" * round(30 * share)
        told = f"{tally.cases} cases, {tally.finds} finds, {tally.seconds:.0f} s"
        if self.is_terminal:
            print(f"\r{tally.kind:<12}{bar:<30} {told} ", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.last > TELL_EVERY:
            self.last = time.monotonic()
            self.tell(f"{tally.kind}: {told}")

    def tell(self, line: str) -> None:
        """Write a line of its own."""
        self.clear()
        print(line, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the bar."""
        if self.is_terminal:
            print(f"\r{'':100}\r", end="", file=sys.stderr)
