"""What a case, a find and a kind of cases are."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PARTS_OF_SIGNATURE = 2  # frames that tell one place of an error from another


@dataclass
class Case:
    """One input.

    Attributes
    ----------
    files : dict of str to bytes
        The files that are read; they are written down if the case is a find.
    story : list of str
        What was done to them, one line each.
    facts : dict
        Whatever else `Kind.run_case` has to know.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Find(Exception):
    """What happened is not documented.

    Parameters
    ----------
    signature : str
        The same for finds that have the same cause, as far as one can tell.
    report : str
        What happened.
    """

    def __init__(self, signature: str, report: str = "") -> None:
        super().__init__(signature)
        self.signature = signature
        self.report = report or signature


@dataclass(frozen=True)
class Kind:
    """A kind of cases.

    Attributes
    ----------
    name : str
        Its name in commands.
    make_case : callable
        ``make_case(random, materials)`` returns a `Case`; the same source of random numbers makes
        the same bytes.
    run_case : callable
        ``run_case(case, folder)`` returns an outcome, such as "accepted", or raises a `Find`.
        Every other exception and every warning that it lets out is a find as well.
    make_materials : callable
        ``make_materials(folder)`` writes what cases are made of, once, in a process of its own.
    read_materials : callable
        ``read_materials(folder)`` reads it.
    cases : int
        How many there are if nobody says how many.
    seconds : float
        A case that takes longer hangs.
    megabytes : int
        How much memory a case may take.
    """

    name: str
    make_case: Callable[[random.Random, Any], Case]
    run_case: Callable[[Case, Path], str]
    make_materials: Callable[[Path], None] = lambda folder: None
    read_materials: Callable[[Path], Any] = lambda folder: None
    cases: int = 1000
    seconds: float = 60.0
    megabytes: int = 1024


def random_of(kind: str, seed: int, number: int) -> random.Random:
    """Return the source of all random choices of a case."""
    return random.Random(f"{kind}:{seed}:{number}")


def find_of(error: BaseException, what: str = "") -> Find:
    """Turn an exception that nobody documents into a find."""
    if isinstance(error, Find):
        return error
    frames = traceback.extract_tb(error.__traceback__)[-PARTS_OF_SIGNATURE:]
    places = " < ".join(f"{Path(f.filename).name}:{f.name}" for f in reversed(frames))
    prefix = f"{what}: " if what else ""
    return Find(
        f"{prefix}{type(error).__name__} at {places}",
        "".join(traceback.format_exception(error)),
    )


def memory_error_in(error: BaseException) -> bool:
    """Tell whether an error, or one behind it, is that memory was not enough."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__ or error
    return False
