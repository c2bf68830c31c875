"""Text for people to read: results go to standard output, everything else to standard error.

Labels and names come from files. Control characters in them never reach a terminal: every function
here replaces them, whatever its callers do. They are never read as markup either.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")
LONGEST_MESSAGE = 1000  # characters; names and labels from files may have any number


def plain(text: Any) -> str:
    """Replace control characters, which could write anything to a terminal."""
    return "".join("\ufffd" if unicodedata.category(c) in CONTROL else c for c in str(text))


def plain_lines(text: Any) -> str:
    """Replace control characters except for the ends of lines."""
    return "\n".join(map(plain, str(text).split("\n")))


def shortened(message: str) -> str:
    """Cut the middle out of a message that nobody could read."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]} … {message[-half:]}"


def brief(name: Any) -> str:
    """Return a label or name as people read it: without control characters, and not too long."""
    return plain(shortened(str(name)))


def note(message: str) -> None:
    """Write a remark to standard error."""
    click.echo(f"Note: {plain(shortened(message))}", err=True)


def say(message: str = "") -> None:
    """Write a line that is no result to standard error."""
    click.echo(plain_lines(message), err=True)


def count_of(number: int, thing: str) -> str:
    """Write a number of things."""
    return f"{number} {thing}{'s' * (number != 1)}"


def is_watched() -> bool:
    """Tell whether somebody may look at progress: whether standard error is a terminal."""
    return sys.stderr.isatty()


def table(columns: Iterable[tuple[str, str]]) -> Table:
    """Make a table whose columns have a heading and are aligned "left" or "right"."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    # Two spaces between columns: one is the padding, the other one belongs to the box.
    made = Table(
        box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for heading, side in columns:
        made.add_column(heading, justify="left" if side == "left" else "right")
    return made


def show(thing: Any) -> None:
    """Write a result to standard output."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            # Is called while the error is handled; the command has an exit code of its own.
            raise BrokenPipeError

        def render_str(self, text: str, *args: Any, **kwargs: Any) -> Any:
            # All texts pass here, also the cells of tables.
            return super().render_str(plain_lines(text), *args, **kwargs)

    console = Screen(highlight=False, markup=False, emoji=False, soft_wrap=False)
    # A terminal breaks sentences by itself; in a pipe they stay whole.
    console.print(thing, soft_wrap=isinstance(thing, str))


@contextmanager
def progress(
    description: str, total: int | None, exact: bool = True
) -> Iterator[Callable[[int], None]]:
    """Draw a bar, on a terminal only; yield a function that takes the number of steps just done.

    If the total is not exact, the bar shows percents instead of steps.
    """
    if not is_watched():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if exact else TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.update(task, advance=steps)


@contextmanager
def fitting(description: str, n_fits: int = 1) -> Iterator[Callable[[], None]]:
    """Draw a bar of what fits have done, with the time that is left, on a terminal only.

    Yields a function to call after every fit.
    """
    if not is_watched():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from duelrank._progress import listening

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    done = 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=1.0, left="")

        def update(share: float) -> None:
            share = (done + share) / n_fits
            elapsed = bar.tasks[task].elapsed or 0.0
            left = _time_left(elapsed * (1 - share) / share) if share > 0 else ""
            bar.update(task, completed=share, left=left)

        def next_fit() -> None:
            nonlocal done
            done += 1
            update(0.0)

        with listening(update):
            yield next_fit


def _time_left(seconds: float) -> str:
    if seconds < 60:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left"
