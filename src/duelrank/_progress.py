"""Progress of long fits: scikit-learn's callbacks where they exist, `verbose` everywhere.

The command draws one bar for everything that a fit does, engines inside engines included. It
*listens*: `listening` calls a function with the share that is done, whenever that changes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from duelrank._sklearn import fit_context

_listener: ContextVar[Callable[[float], None] | None] = ContextVar("_listener", default=None)
# The fits that are under way, the outermost first.
_running: ContextVar[tuple[Progress, ...]] = ContextVar("_running", default=())


@contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Call a function with the share that the fits of this thread have done, from 0 to 1.

    A step of an outer fit counts as done in parts, as far as a fit inside it reports its own steps.
    Steps that take long count no more than others, so the share is a rough one.
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def _tell() -> None:
    listener = _listener.get()
    if listener is None:
        return
    share, step = 0.0, 1.0
    for fit in _running.get():
        share += step * min(fit.done / fit.n_steps, 1.0)
        step /= fit.n_steps
    listener(min(share, 1.0))


class Progress:
    """Counts the equal steps of an estimator's fit.

    Every step is told to the callbacks of the estimator (scikit-learn 1.9 or newer,
    ``estimator.set_callbacks(ProgressBar())``) and, if `verbose`, to standard error. Use it
    inside a ``fit`` that is decorated with ``with_callbacks``.

    Parameters
    ----------
    estimator : estimator
        The one being fitted.
    n_steps : int
        How many steps there will be at most.
    step_name : str
        What a step is called.
    verbose : bool
        Whether to write to standard error.
    done : int, default=0
        Steps that an earlier fit has done, from which this one goes on.
    at_most : bool, default=False
        Whether there may well be fewer steps, so that nobody knows how long they will take.
    """

    def __init__(
        self,
        estimator: Any,
        n_steps: int,
        step_name: str,
        verbose: bool,
        done: int = 0,
        at_most: bool = False,
    ) -> None:
        self.estimator = estimator
        self.n_steps = n_steps
        self.step_name = step_name
        self.verbose = verbose
        self.done = self.before = done
        self.at_most = at_most

    def __enter__(self) -> Progress:
        self.started = self.shown = time.monotonic()
        self.has_shown = False
        self.context = fit_context(self.estimator, self.n_steps)
        self._outside = _running.set((*_running.get(), self))
        _tell()
        return self

    def step(self) -> None:
        """Report that one more step is done."""
        self.done += 1
        _tell()
        if self.context is not None:
            subcontext = self.context.subcontext(task_name=self.step_name)
            subcontext.call_on_fit_task_begin(estimator=self.estimator)
            subcontext.call_on_fit_task_end(estimator=self.estimator)
        now = time.monotonic()
        # A terminal line is written over; in a log file every report stays.
        pause = 0.1 if sys.stderr.isatty() else 10
        if self.verbose and (now - self.shown > pause or self.done == self.n_steps):
            self.shown, self.has_shown = now, True
            self._show(now - self.started)

    def __exit__(self, *failure: object) -> None:
        _running.reset(self._outside)
        if self.context is not None and failure[0] is None:
            self.context.call_on_fit_task_end(estimator=self.estimator)
        if self.has_shown and sys.stderr.isatty():
            print(file=sys.stderr)

    def _show(self, elapsed: float) -> None:
        name = type(self.estimator).__name__
        steps = f"{self.done} of {'at most ' * self.at_most}{self.n_steps}"
        report = f"[{name}] {self.step_name} {steps}, {elapsed:.1f} s"
        if not self.at_most:
            remaining = elapsed / (self.done - self.before) * (self.n_steps - self.done)
            report += f", about {remaining:.1f} s left"
        if sys.stderr.isatty():
            print(f"\r{report} ", end="", file=sys.stderr, flush=True)
        else:
            print(report, file=sys.stderr, flush=True)
