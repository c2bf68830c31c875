"""Checkpoints: a file from which a fit that was stopped goes on.

The file is a NumPy archive. It holds coefficients and intercepts of X as it was given, so that a
fit may go on with other blocks, on another machine, or with another tolerance. It also holds a
fingerprint of the data and the parameters, by which a fit recognises its own file, and a checksum
of everything in it. Both find mistakes and damage; they do not protect from whoever can write them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._files import remove_abandoned, replacing
from duelrank.blocks import Digests
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._newton import State
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import Settings
from duelrank.duels.logistic._table import RowTable

# After a file was written, the next one has to wait this many times as long as writing took.
WAIT_PER_WRITING = 20
SHORT_WRITING = 0.2  # seconds; writing that is not longer costs no wait
# What a file holds besides the fingerprint and what is known of the duels.
OF_PROGRESS = {"duels": "i", "done": "bi", "progress": "i"}
CHECKSUM = "checksum"

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
        self.failed = False
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
            try:
                self.path.unlink(missing_ok=True)
                remove_abandoned(self.path)
            except OSError as error:
                self._warn(f"cannot be removed: {error}")
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
        """Write the file; a fit that cannot write it goes on without."""
        assert self.path is not None
        arrays = {**self.fingerprint, **vars(self.fitted), **current}
        started = time.monotonic()
        try:
            arrays[CHECKSUM] = _checksum(arrays)
            with replacing(self.path) as partial, partial.open("wb") as file:
                np.savez(file, **arrays)
        except OSError as error:
            self._warn(f"cannot be written: {error}")
        self.written = time.monotonic()
        taken = self.written - started
        self.writing = taken if taken > SHORT_WRITING else 0.0

    def _warn(self, trouble: str) -> None:
        """Say once that there is trouble with the file."""
        if not self.failed:
            message = f"the checkpoint {self.path} {trouble}. The fit goes on without it."
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        self.failed = True

    def _check(self, takes_rows: bool) -> None:
        """Raise unless the file is that of this fit, and is whole."""
        if not self._is_unaltered():
            raise ValueError(
                "checkpoint names a file that another version has written or that was altered, "
                f"{self.path}; remove it or name another."
            )
        impossible = ValueError(
            f"checkpoint must name a file written by a fit; {self.path} holds numbers that no "
            "fit has."
        )
        if not self._has_types():
            raise impossible
        by_rows = self.saved["by_rows"].any()
        if by_rows and "row_order" not in self.saved:
            raise impossible
        if by_rows and not takes_rows:
            raise ValueError(
                f"checkpoint names the file of a fit of rows in memory, {self.path}; a fit of "
                "blocks cannot go on with it."
            )
        for name, value in self.fingerprint.items():
            if name == "row_order" and not by_rows:
                continue  # coefficients of features are the same in any order of the rows
            other = _difference(name, self.saved[name], value)
            if other:
                raise ValueError(
                    f"checkpoint names the file of another fit, {self.path}, with other {other}; "
                    "remove it or name another."
                )
        if not self._fits_together():
            raise impossible

    def _is_unaltered(self) -> bool:
        """Tell whether the file holds what a fit writes, and nothing was altered since."""
        expected = {*self.fingerprint, *vars(self.fitted), *OF_PROGRESS, CHECKSUM}
        # Whether a fit knows the order of its rows depends on where they are.
        return {*self.saved, "row_order"} == {*expected, "row_order"} and self.saved[
            CHECKSUM
        ].tolist() == _checksum(self.saved).tolist()

    def _has_types(self) -> bool:
        """Tell whether the arrays of the file have types that can be compared and computed with."""
        known = {**self.fingerprint, **vars(self.fitted)}
        kinds = {name: values.dtype.kind for name, values in known.items()} | OF_PROGRESS
        return all(
            self.saved[name].dtype.kind in kind
            for name, kind in kinds.items()
            if name in self.saved  # all are, but perhaps the order of the rows
        )

    def _fits_together(self) -> bool:
        """Tell whether the arrays of the file have the right shapes and possible numbers."""
        saved, fitted = self.saved, self.fitted
        n_duels = len(fitted.solved)
        n_kept = np.count_nonzero(saved["by_rows"])
        shapes = dict.fromkeys(vars(fitted), (n_duels,)) | {
            "coef": (n_duels - n_kept, fitted.coef.shape[1]),
            "row_coef": saved["row_coef"].shape if n_kept else fitted.row_coef.shape,
            "done": saved["duels"].shape,
            "progress": (3,),
        }
        return (
            all(saved[name].shape == shape for name, shape in shapes.items())
            and all(np.isfinite(saved[name]).all() for name in ("coef", "row_coef", "intercept"))
            and bool(np.all(saved["decrement"] >= 0))
        )


def fingerprint_of(
    objective: Objective, label_digests: Digests, row_order: Digests | None = None
) -> Arrays:
    """Return what tells one fit from another: parameters, labels and features.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    label_digests : ndarray of uint64, of shape (K,)
        Digests of the labels' rows; see `duelrank.blocks.row_digests`. With rankings, a row belongs
        to the label that is first in it.
    row_order : ndarray of shape (1,), default=None
        A number that depends on the order of the rows as well, if that matters.
    """
    scaling, class_weight = objective.scaling, objective.class_weights.given
    by_code = class_weight
    if isinstance(class_weight, dict):
        by_code = sorted([int(code), float(weight)] for code, weight in class_weight.items())
    parameters = {
        "C": float(objective.C),
        "fit_intercept": bool(scaling.fit_intercept),
        "class_weight": by_code,
    }
    in_order = {} if row_order is None else {"row_order": row_order}
    return {
        "parameters": np.array(json.dumps(parameters)),
        "n_features": np.array(len(scaling.scale)),
        "label_digests": label_digests,
        **in_order,
    }


def _difference(name: str, theirs: NDArray[Any], ours: NDArray[Any]) -> str:
    """Say what differs in a part of two fingerprints; nothing if they are the same."""
    if np.array_equal(theirs, ours):
        return ""
    if name == "parameters":
        try:
            then, now = dict(json.loads(str(theirs))), json.loads(str(ours))
        except (ValueError, TypeError, RecursionError):
            return "parameters"
        return " and ".join(key for key in now if not _is_same(then.get(key), now[key]))
    return "rows, or rows in another order" if name == "row_order" else "data"


def _is_same(value: Any, other: Any) -> bool:
    # C may depend on sums over the rows, which are rounded otherwise in other blocks.
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-9)
    return bool(value == other)


def _checksum(arrays: Arrays) -> NDArray[Any]:
    """Return a checksum of all arrays of a file but itself."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(set(arrays) - {CHECKSUM}):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {arrays[name].shape};".encode())
        # Some types of numpy, such as dates, have no buffer of their own; bytes always have.
        digest.update(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
    return np.array(digest.hexdigest())


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
    except Exception as error:  # numpy raises many kinds, of its own parser of headers among them
        raise ValueError(
            f"checkpoint must name a file written by a fit; {path} is none."
        ) from error
