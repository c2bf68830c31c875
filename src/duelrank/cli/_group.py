"""The command around the commands: one sentence for every mistake, and an exit code.

0 is success, 1 a problem with the data, the model or a file, 2 a mistake in the arguments, 130 an
interrupt, 141 a reader of the output that went away.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import click

import duelrank as package
from duelrank.cli._terminal import note, plain

INTERRUPTED, READER_GONE = 130, 141


class Failure(click.ClickException):
    """Ends the command with one sentence and an exit code."""

    exit_code = 1


class Interrupted(Failure):
    """Ends the command after an interrupt."""

    exit_code = INTERRUPTED


class OneSentenceGroup(click.Group):
    """Turns exceptions into sentences, and keeps the order of the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which one needs them."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _once()
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                # Nobody reads on: let the interpreter flush into nothing.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                ctx.exit(READER_GONE)
            except KeyboardInterrupt as interrupt:
                message = "interrupted; files that were there are as before."
                raise Interrupted(message) from interrupt
            except (ValueError, OSError, ImportError, MemoryError) as error:
                if ctx.params.get("debug"):
                    raise
                raise Failure(_sentence(error)) from error


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this."
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror.lower()}."
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return plain(lines[0])


def _once() -> Any:
    """Return what shows every warning as a note, and only once."""
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
