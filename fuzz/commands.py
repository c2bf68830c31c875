"""The command, in this process or in one of its own, and what it may answer."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from fuzz.cases import Find, find_of

# Until click 8.2 the two streams had to be asked for apart.
APART: Any = (
    {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
)
DOCUMENTED = (0, 1, 2, 3, 141)
READER_GONE = 141
# A terminal would obey these. Line breaks and tabs are harmless.
CONTROL, HARMLESS = ("Cc", "Cf"), "\n\t"
LONGEST = 300.0  # seconds of a process


@dataclass
class Said:
    """What a command said."""

    code: int
    output: str
    messages: str


def run(arguments: Sequence[object], input: bytes | None = None) -> Said:
    """Run the command in this process."""
    from duelrank.cli._commands import duelrank

    result = CliRunner(**APART).invoke(duelrank, [str(word) for word in arguments], input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise find_of(result.exception, "the command")
    output = result.stdout_bytes.decode(errors="replace")
    messages = (result.stderr_bytes or b"").decode(errors="replace")
    return _checked(arguments, Said(result.exit_code, output, messages))


def run_process(
    arguments: Sequence[object], input: bytes | None = None, read_all: bool = True
) -> Said:
    """Run the command in a process of its own, with pipes.

    Parameters
    ----------
    arguments : sequence
        Words of the command.
    input : bytes, default=None
        What it reads from standard input.
    read_all : bool, default=True
        Whether its output is read; if not, the pipe is closed at once.
    """
    words = [sys.executable, "-m", "duelrank", *map(str, arguments)]
    path = os.pathsep.join(part for part in sys.path if part)
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        if read_all:
            output, messages = process.communicate(input or b"", timeout=LONGEST)
        else:
            assert process.stdout is not None
            process.stdout.close()
            process.stdout = None
            output, messages = b"", process.communicate(input or b"", timeout=LONGEST)[1]
    finally:
        process.kill()
        process.wait()
    texts = (content.decode(errors="replace") for content in (output, messages))
    return _checked(arguments, Said(process.returncode, *texts))


def _checked(arguments: Sequence[object], said: Said) -> Said:
    """Raise a find if the command said what it should not."""
    command = str(arguments[0])
    told = f"{' '.join(map(str, arguments))}\nexit code {said.code}\n{said.messages}\n{said.output}"
    last = said.messages.strip().splitlines()[-1][:100] if said.messages.strip() else "nothing"
    if said.code not in DOCUMENTED:
        raise Find(f"{command}: exit code {said.code}", told)
    if "Traceback (most recent call last)" in said.messages + said.output:
        raise Find(f"{command}: a traceback", told)
    if "run with --debug for the traceback" in said.messages:
        raise Find(f"{command}: an error that nobody expected: {last[:60]}", told)
    if said.code in (1, 2) and not last.startswith("Error: "):
        raise Find(f"{command}: exit code {said.code} without a sentence", told)
    for line in said.messages.splitlines():
        # What numpy and others warn of is shown as a note.
        if line.startswith("Note: ") and any(word in line for word in NUMERICAL):
            raise Find(f"{command}: a warning of numpy: {line[:60]}", told)
    shown = said.messages if writes_table(arguments) else said.messages + said.output
    if any(unicodedata.category(sign) in CONTROL and sign not in HARMLESS for sign in shown):
        raise Find(f"{command}: control characters on the terminal", told)
    return said


NUMERICAL = (
    "encountered in",
    "invalid value",
    "overflow",
    "divide by zero",
    "Mean of empty slice",
    "Degrees of freedom",
    "ill-conditioned",
)


def writes_table(arguments: Sequence[object]) -> bool:
    """Tell whether standard output is a table, which is written as it is."""
    words = [str(word) for word in arguments]
    return words[0] == "rank" and "-o" not in words


def check_nothing_left(folder: Path, before: set[str], allowed: set[str]) -> None:
    """Raise a find if a command left files behind that it should not."""
    left = {path.name for path in folder.iterdir()} - before - allowed
    if left:
        ending = sorted(left)[0].rpartition(".")[2]
        raise Find(f"files were left behind: {ending}", str(sorted(left)))
