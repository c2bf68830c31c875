"""``duelrank`` itself: it turns every mistake into one sentence and an exit code.

0 is success, 1 a problem with the data, the model or a file, 2 a mistake in the arguments, 3 that
`check --fail-on-drift` found a change, 130 an interrupt, 141 a closed pipe at the output, 143 a
request to terminate.
"""

from __future__ import annotations

import csv
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

import duelrank as package
from duelrank.cli._terminal import note, plain, plain_lines, shortened

INTERRUPTED, READER_GONE, TERMINATED = 130, 141, 143
AS_BEFORE = "files that were there are as before"
# Errors that files and data can cause; any other error is a bug.
EXPECTED = (ValueError, OSError, ImportError, MemoryError, csv.Error)


class Failure(click.ClickException):
    """Ends the command with one sentence and an exit code."""

    exit_code = 1


class Interrupted(Failure):
    """Ends the command after an interrupt."""

    exit_code = INTERRUPTED


class Terminated(Failure):
    """Ends the command after a request to terminate."""

    exit_code = TERMINATED


class Termination(KeyboardInterrupt):
    """A request to terminate, which ends the command as an interrupt does."""


class OneSentenceGroup(click.Group):
    """Turns exceptions into sentences, and keeps the order of the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which one needs them."""
        return list(self.commands)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments; --help and --version are answered here."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            _write_into_nothing()
            raise click.exceptions.Exit(READER_GONE) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with warnings.catch_warnings(), _terminating():
            warnings.simplefilter("default")
            warnings.showwarning = _once()
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
            except BrokenPipeError:
                _write_into_nothing()
                ctx.exit(READER_GONE)
            except KeyboardInterrupt as interrupt:
                if isinstance(interrupt, Termination):
                    raise Terminated(f"terminated; {AS_BEFORE}.") from interrupt
                raise Interrupted(f"interrupted; {AS_BEFORE}.") from interrupt
            except click.ClickException as error:
                vars(error)["message"] = plain_lines(shortened(error.message))
                raise
            except (click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                if ctx.params.get("debug"):
                    raise
                raise Failure(_sentence(error)) from error


def _write_into_nothing() -> None:
    """Let the interpreter flush its output into nothing, if nobody reads it any more."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # in tests, streams need not be files
            os.dup2(nothing, stream.fileno())


@contextmanager
def _terminating() -> Iterator[None]:
    """Turn a request to terminate into an exception, so that unfinished files are removed.

    Only the main thread can do this.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(*_: object) -> None:
        raise Termination

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this."
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename else ""
        return plain(f"{named}{error.strerror.lower()}.")
    lines = str(error).strip().splitlines()
    if isinstance(error, EXPECTED):
        return plain(shortened(lines[0] if lines else type(error).__name__))
    what = f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
    return plain(
        f"{shortened(what)}; run with --debug for the traceback (duelrank --debug COMMAND)."
    )


def _once() -> Any:
    """Return a function that shows every warning as a note, and only once."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in shown:
            shown.add(text)
            note(text)

    return show


@click.group(
    cls=OneSentenceGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 90},
)
@click.version_option(package.__version__, prog_name="duelrank")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def duelrank(debug: bool) -> None:
    """Rank all labels of a row from most to least probable.

    Tables are CSV or Parquet files, or - for standard input and output. Rows are counted from 0.

    \b
      duelrank evaluate flowers.csv --target species
      duelrank fit flowers.csv --target species --output flowers.skops
      duelrank rank flowers.skops new.csv --top 3 --output ranked.csv
      duelrank explain flowers.skops new.csv --row 7
    """  # noqa: D301
