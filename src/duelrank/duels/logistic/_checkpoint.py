"""Checkpoints: a file from which a fit that was stopped goes on.

The file is a NumPy archive. It holds coefficients and intercepts of X as it was given, so that a
fit may go on with other blocks, on another machine, or with another tolerance. It also holds a
fingerprint of the data and the parameters, by which a fit recognises its own file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from duelrank._files import replacing
from duelrank._pairs import pairs
from duelrank.blocks import projection
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._newton import State
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings
from duelrank.duels.logistic._table import RowTable

# After a file was written, the next one has to wait this many times as long as writing took.
WAIT_PER_WRITING = 20
SHORT_WRITING = 0.2  # seconds; writing that is not longer costs no wait

Arrays = dict[str, NDArray[Any]]


class Checkpoint:
    """The file of a fit, and the duels whose progress it holds.

    Parameters
    ----------
    fitted : FittedDuels
        What is known of all duels. If the file is there, they go on from where it stopped.
    settings : Settings
        The parameters; without a path in `checkpoint` nothing is read or written.
    fingerprint : callable
        Returns what tells this fit from others; see `fingerprint_of`.
    takes_rows : bool, default=False
        Whether the fit has its rows in memory, so that duels may be kept as coefficients of these.
        If it has, `fitted` takes over from the file which duels are.
    """

    def __init__(
        self,
        fitted: FittedDuels,
        settings: Settings,
        fingerprint: Callable[[], Arrays] = dict,
        takes_rows: bool = False,
    ) -> None:
        self.fitted = fitted
        self.tol = settings.tol
        self.every = settings.checkpoint_every
        self.path = _check_path(settings.checkpoint)
        self.fingerprint = {} if self.path is None else fingerprint()
        self.steps = 0
        self.written = self.writing = 0.0  # when it was written, and how long that took
        self.saved: Arrays = {}
        if self.path is not None and self.path.exists():
            self.saved = _read(self.path)
            self._check(takes_rows)
            fitted.restore(self.saved)
            # Duels that have not reached the tolerance go on.
            fitted.solved &= fitted.decrement <= self.tol

    @property
    def iterations(self) -> int:
        """How many iterations are behind the duels that were being solved."""
        return int(self.saved["progress"][1]) if self.saved else 0

    def start(self, duels: NDArray[np.intp], table: RowTable) -> State | None:
        """Return where some duels have stopped, None if they have not begun."""
        if not self.fitted.has_begun(duels):
            return None
        state = self.fitted.state(duels, table)
        if self.saved and np.array_equal(self.saved["duels"], duels):
            # A duel may have been done for another stage or tolerance.
            state.done[:] = self.saved["done"] & (state.decrement <= self.tol)
            state.stage, state.iterations, state.iterations_in_stage = (
                int(number) for number in self.saved["progress"]
            )
        return state

    def iterated(self, duels: NDArray[np.intp], table: RowTable, state: State) -> None:
        """Write after an iteration of some duels, if it is time."""
        if self._is_time():
            self.fitted.take(duels, table, state)
            progress = [state.stage, state.iterations, state.iterations_in_stage]
            self._write(duels=duels, done=state.done, progress=np.array(progress))

    def solved(self) -> None:
        """Write after more duels are solved, if it is time."""
        if self._is_time():
            self._write_solved()

    def finish(self) -> None:
        """Remove the file, unless a duel has not converged: a later fit may go on with it."""
        if self.path is None:
            return
        if np.all(self.fitted.decrement <= self.tol):
            self.path.unlink(missing_ok=True)
        else:
            self._write_solved()

    def _is_time(self) -> bool:
        self.steps += 1
        # Writing a file of many duels takes long; it must not take most of the fit's time.
        early = time.monotonic() < self.written + WAIT_PER_WRITING * self.writing
        return self.path is not None and self.steps % self.every == 0 and not early

    def _write_solved(self) -> None:
        nothing = np.zeros(0, dtype=np.intp)
        self._write(duels=nothing, done=nothing, progress=np.zeros(3, dtype=np.intp))

    def _write(self, **current: NDArray[Any]) -> None:
        assert self.path is not None
        arrays = {**self.fingerprint, **vars(self.fitted), **current}
        started = time.monotonic()
        with replacing(self.path) as partial, partial.open("wb") as file:
            np.savez(file, **arrays)
        self.written = time.monotonic()
        taken = self.written - started
        self.writing = taken if taken > SHORT_WRITING else 0.0

    def _check(self, takes_rows: bool) -> None:
        by_rows = np.any(self.saved.get("by_rows", False))
        if by_rows and not takes_rows:
            raise ValueError(
                f"checkpoint names the file of a fit of rows in memory, {self.path}; a fit of "
                "blocks cannot go on with it."
            )
        for name, value in self.fingerprint.items():
            if name == "row_order" and not by_rows:
                continue
            saved = self.saved.get(name, np.zeros(0))
            same = saved.shape == value.shape
            if same and value.dtype.kind == "f":
                same = np.allclose(saved, value, rtol=1e-5, atol=1e-4)
            elif same:
                same = np.array_equal(saved, value)
            if not same:
                what = "rows, or rows in another order" if name == "row_order" else "data"
                if name == "parameters" and saved.dtype.kind == "U":
                    theirs, ours = json.loads(str(saved)), json.loads(str(value))
                    what = " and ".join(key for key in ours if ours[key] != theirs.get(key))
                raise ValueError(
                    f"checkpoint names the file of another fit, {self.path}, with other {what}; "
                    "remove it or name another."
                )


def fingerprint_of(
    objective: Objective, label_means: Floats, row_order: Floats | None = None
) -> Arrays:
    """Return what tells one fit from another: parameters, labels and features.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    label_means : ndarray of shape (K,)
        Means of the labels' rows, projected; see `duelrank.blocks.projection`.
    row_order : ndarray of shape (1,), default=None
        A number that depends on the order of the rows as well, if that matters.
    """
    scaling, class_weight = objective.scaling, objective.class_weights.given
    n_classes = len(label_means)
    first, second = pairs(n_classes)
    sides = objective.sides
    won = np.bincount(first, sides[0], n_classes) + np.bincount(second, sides[1], n_classes)
    by_code = class_weight
    if isinstance(class_weight, dict):
        by_code = sorted((int(code), float(weight)) for code, weight in class_weight.items())
    parameters = {
        "C": float(objective.C),
        "fit_intercept": bool(scaling.fit_intercept),
        "class_weight": by_code,
    }
    direction = projection(len(scaling.scale))
    spread = np.sqrt(direction**2 @ scaling.scale**2)
    in_order = {} if row_order is None else {"row_order": row_order / spread}
    return {
        "parameters": np.array(json.dumps(parameters)),
        "label_weights": won,
        "feature_scales": np.log(scaling.scale),
        "feature_means": scaling.mean / scaling.scale,
        "label_means": (label_means - direction @ scaling.mean) / spread,
        **in_order,
    }


def _check_path(path: str | os.PathLike[str] | None) -> Path | None:
    if path is None:
        return None
    file = Path(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(
            f"checkpoint must name a file in a folder that is there, got {file}."
        )
    return file


def _read(path: Path) -> Arrays:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
            if all(isinstance(array, np.ndarray) for array in arrays.values()):
                return arrays
            raise ValueError("not an array")
    except (OSError, ValueError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise ValueError(
            f"checkpoint must name a file written by a fit; {path} is none."
        ) from error
