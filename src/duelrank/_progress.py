"""Progress of long fits: scikit-learn's callbacks where they exist, `verbose` everywhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from duelrank._sklearn import fit_context


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
        return self

    def step(self) -> None:
        """Report that one more step is done."""
        self.done += 1
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
