"""Processes that run cases, one after another, with limits; one that dies of a case is replaced."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fuzz.cases import Case, Find, Kind, find_of, random_of

FORK = multiprocessing.get_context("fork")
LARGEST_FILE = 2**28
MOST_CASES = 1000  # of one worker, so that no case depends on too many others
LONGEST_REPORT = 20_000
PATIENCE = 600.0  # seconds that a process may take before its first case

_open_here: list[Connection] = []  # the parent's ends of all pipes


@dataclass
class Answer:
    """What happened to a case.

    Attributes
    ----------
    number : int
        The number of the case.
    outcome : str
        One word: what the kind says, or "find".
    signature, report : str
        Of a find, else empty.
    seconds : float
        How long it took.
    peak_bytes : int
        The most memory that the process had, more than before the case.
    """

    number: int
    outcome: str
    signature: str = ""
    report: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0


class Worker:
    """A process that runs cases of one kind and seed."""

    def __init__(self, kind: Kind, seed: int, materials: Any) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.log = self.folder / "log"
        self.log.touch()
        self.connection: Connection
        self.connection, theirs = FORK.Pipe()
        self.process = FORK.Process(
            target=_serve,
            args=(kind, seed, materials, theirs, self.folder),
        )
        _open_here.append(self.connection)
        start_process(self.process)
        theirs.close()
        if not self.connection.poll(PATIENCE):
            self.close()
            raise RuntimeError("a worker does not start")
        self.connection.recv()  # it is ready: only cases count for their time
        self.number: int | None = None
        self.started = 0.0
        self.n_cases = 0

    def give(self, number: int) -> None:
        """Let it run a case."""
        self.number, self.started = number, time.monotonic()
        self.n_cases += 1
        self.connection.send(number)

    def answer(self) -> Answer:
        """Return what it says, or what can be said of it if it died."""
        assert self.number is not None
        try:
            answer: Answer = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            answer = self._died()
        self.number = None
        return answer

    def is_late(self) -> bool:
        """Tell whether its case takes too long."""
        late = time.monotonic() - self.started > self.kind.seconds
        return self.number is not None and late

    def end_late(self) -> Answer:
        """End a process whose case takes too long, after it has said where it is."""
        assert self.number is not None
        assert self.process.pid is not None
        if self.connection.poll():  # just in time
            return self.answer()
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGUSR1)
        self.process.join(0.5)
        self.process.kill()
        self.process.join()
        signature = f"hang at {self._last_place()}"
        answer = self._found(signature, f"no answer after {self.kind.seconds:g} s")
        self.number = None
        return answer

    def close(self) -> None:
        """End the process, which has no case, and remove what it wrote."""
        _open_here.remove(self.connection)
        self.connection.close()
        end_process(self.process, 5)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _died(self) -> Answer:
        code = self.process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return self._found(f"crash by {how} at {self._last_place()}", f"the process died: {how}")

    def _found(self, signature: str, report: str) -> Answer:
        assert self.number is not None
        seconds = time.monotonic() - self.started
        return Answer(self.number, "find", signature, f"{report}\n{self._said()}", seconds)

    def _said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-LONGEST_REPORT:]

    def _last_place(self) -> str:
        """Return the function of ours, or else the innermost one, that the process died in."""
        _, _, stacks = self._said().partition("(most recent call first):")
        lines = [line.strip() for line in stacks.splitlines() if 'File "' in line]
        if not lines:
            return "an unknown place"
        ours = [line for line in lines if "/duelrank/" in line]
        path, _, rest = (ours or lines)[0].removeprefix('File "').partition('"')
        return f"{Path(path).name}:{rest.rpartition(' in ')[2]}"


def end_process(process: Any, seconds: float) -> bool:
    """Wait for a process, and kill it if that takes too long; tell whether it ended by itself."""
    process.join(seconds)
    if not process.is_alive():
        return True
    process.kill()
    process.join()
    return False


def start_process(process: Any) -> None:
    """Fork a process that never collects what the parent has left.

    Finalizers may wait for threads that are not in the child, such as those of a Dask cluster.
    """
    gc.freeze()
    try:
        process.start()
    finally:
        gc.unfreeze()


def _serve(
    kind: Kind,
    seed: int,
    materials: Any,
    connection: Connection,
    folder: Path,
) -> None:
    """Run cases until nobody asks any more."""
    # An end that was inherited would stay open after the parent has closed its own.
    for inherited in _open_here:
        inherited.close()
    log = os.open(folder / "log", os.O_RDWR | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    faulthandler.enable(log, all_threads=False)
    faulthandler.register(signal.SIGUSR1, log, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    _limit(kind)
    connection.send(None)
    while True:
        try:
            number = connection.recv()
        except (EOFError, ConnectionError):
            os._exit(0)
        os.ftruncate(log, 0)
        answer = _run(kind, seed, number, materials, folder)
        said = os.pread(log, LONGEST_REPORT, 0).decode(errors="replace")
        if said and answer.outcome != "find":
            answer.outcome, answer.report = "find", said
            answer.signature = f"output: {said.strip().splitlines()[-1][:80]}"
        connection.send(answer)


def _limit(kind: Kind) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    most = _status("VmSize") + kind.megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _run(kind: Kind, seed: int, number: int, materials: Any, folder: Path) -> Answer:
    case = kind.make_case(random_of(kind.name, seed, number), materials)
    place = folder / "case"
    place.mkdir()
    _forget_peak()
    before, start = _status("VmRSS"), time.monotonic()
    try:
        outcome, signature, report = run_one(kind, case, place), "", ""
    except Find as find:
        outcome, signature, report = "find", find.signature, find.report
    seconds = time.monotonic() - start
    peak = max(0, _status("VmHWM") - before)
    shutil.rmtree(place, ignore_errors=True)
    return Answer(number, outcome, signature, report[-LONGEST_REPORT:], seconds, peak)


def run_one(kind: Kind, case: Case, folder: Path) -> str:
    """Run a case in this process.

    Parameters
    ----------
    kind : Kind
        Its kind.
    case : Case
        The case.
    folder : Path
        An empty folder for the files that it reads and writes.

    Returns
    -------
    outcome : str
        What the kind says.

    Raises
    ------
    Find
        If something happened that is not documented, warnings included.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = kind.run_case(case, folder)
        except Exception as error:
            raise find_of(error) from error
    for warning in caught:
        name = warning.category.__name__
        place = f"{Path(warning.filename).name}: {str(warning.message)[:60]}"
        raise Find(
            f"warning {name} at {place}",
            warnings.formatwarning(
                warning.message, warning.category, warning.filename, warning.lineno
            ),
        )
    return outcome


def _forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _status(name: str) -> int:
    """Return a line of Linux's own account of this process, in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
