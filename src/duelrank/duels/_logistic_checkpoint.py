"""Fits that can be stopped and gone on with: what has been reached, in a file.

The file is a NumPy archive. It holds coefficients and intercepts of X as it was given, so that a
fit may go on with other blocks, on another machine, or with another tolerance; and the facts about
the data and the parameters by which a fit knows its own file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from duelrank._files import replacing
from duelrank._pairs import pairs
from duelrank.blocks._census import projection
from duelrank.duels._logistic_objective import Floats
from duelrank.duels._logistic_rows import RowTable
from duelrank.duels._logistic_scaling import Scaling
from duelrank.duels._logistic_solver import State

WRITING_SHARE = 20  # times as long as writing takes, it is not written again
SHORT_WRITING = 0.2  # seconds that do not matter
# A duel with rows of one label only has no finite intercept; its probability rounds to 1 here.
ONE_SIDED_MARGIN = 100.0


@dataclass
class Fitted:
    """What is known of all P duels.

    Attributes
    ----------
    coef, intercept : ndarrays of shape (P, n_features) and (P,)
        Their weights.
    decrement, n_iter : ndarrays of shape (P,)
        Certificates and iterations.
    solved : ndarray of bool, of shape (P,)
        Which duels are done with.
    """

    coef: Floats
    intercept: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]
    solved: NDArray[np.bool_]

    @classmethod
    def unsolved(cls, sides: Floats, n_features: int, dtype: Any) -> Fitted:
        """Begin: duels with rows on one side only are known, those with none are 0.

        Parameters
        ----------
        sides : ndarray of shape (2, P)
            How much the rows on the two sides of the duels weigh.
        n_features : int
            Number of features.
        dtype : dtype
            Precision of the coefficients.
        """
        n_duels = sides.shape[1]
        seen = (sides > 0).astype(np.float64)
        return cls(
            np.zeros((n_duels, n_features), dtype=dtype),
            (ONE_SIDED_MARGIN * (seen[1] - seen[0])).astype(dtype),
            np.zeros(n_duels),
            np.zeros(n_duels, dtype=np.intp),
            np.logical_not(np.all(sides, axis=0)),
        )

    def of(self, duels: NDArray[Any]) -> Fitted:
        """Return some of the duels, by number or mask."""
        return Fitted(*(values[duels] for values in vars(self).values()))

    def put(self, duels: NDArray[Any] | slice, some: Fitted) -> None:
        """Write down what `of` or others know of some duels."""
        for name, values in vars(some).items():
            getattr(self, name)[duels] = values

    def begun(self, duels: NDArray[np.intp]) -> Fitted | None:
        """Return some of the duels if any of them has come further than nowhere."""
        return self.of(duels) if self.n_iter[duels].any() else None

    def take(self, duels: NDArray[np.intp], table: RowTable, state: State) -> None:
        """Write down how far some duels have come."""
        self.coef[duels], self.intercept[duels] = table.unscale(state.weights)
        self.decrement[duels], self.n_iter[duels] = state.decrement, state.n_iter


class Checkpoint:
    """The file of a fit.

    Parameters
    ----------
    path : path or None
        The file; None to do nothing.
    every : int
        Iterations between two times of writing.
    facts : callable
        Returns what the fit goes by, a dictionary of arrays; see `facts_of`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        every: int,
        facts: Callable[[], dict[str, NDArray[Any]]],
    ) -> None:
        self.path = None if path is None else Path(path)
        self.every = every
        self.facts = {} if path is None else facts()
        self.steps = 0
        self.written = self.writing = 0.0  # when it was written, and how long that took
        self.saved: dict[str, NDArray[Any]] = {}
        if self.path is None:
            return
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"checkpoint must name a file in a folder that is there, got {self.path}."
            )
        if self.path.exists():
            self.saved = _read(self.path)
            self._check()

    @property
    def iterations(self) -> int:
        """How many iterations the duels that were being solved had behind them."""
        return int(self.saved["progress"][1]) if self.saved else 0

    def resume(self, fitted: Fitted, tol: float) -> None:
        """Take up what the file has; duels that did not reach the tolerance go on."""
        if not self.saved:
            return
        fitted.put(slice(None), Fitted(**{name: self.saved[name] for name in vars(fitted)}))
        fitted.solved &= fitted.decrement <= tol

    def start(
        self, fitted: Fitted, duels: NDArray[np.intp], table: RowTable, tol: float
    ) -> State | None:
        """Return where some duels have stopped, None if they have not begun."""
        if not fitted.n_iter[duels].any():
            return None
        state = State.at(table.rescale(fitted.coef[duels], fitted.intercept[duels]))
        state.decrement[:] = fitted.decrement[duels]
        state.n_iter[:] = fitted.n_iter[duels]
        if self.saved and np.array_equal(self.saved["duels"], duels):
            # What was good enough may have been so for another stage, or another tolerance.
            state.done[:] = self.saved["done"] & (state.decrement <= tol)
            state.stage, state.iterations, state.iterations_in_stage = (
                int(number) for number in self.saved["progress"]
            )
        return state

    def iterated(
        self, fitted: Fitted, duels: NDArray[np.intp], table: RowTable, state: State
    ) -> None:
        """Hear of an iteration, and write if it is time."""
        if self._is_time():
            fitted.take(duels, table, state)
            progress = [state.stage, state.iterations, state.iterations_in_stage]
            self._write(fitted, duels=duels, done=state.done, progress=np.array(progress))

    def solved(self, fitted: Fitted) -> None:
        """Hear that more duels are solved, and write if it is time."""
        if self._is_time():
            self._write_solved(fitted)

    def finish(self, fitted: Fitted, tol: float) -> None:
        """Remove the file, unless a duel has not converged and could be gone on with."""
        if self.path is None:
            return
        if np.all(fitted.decrement <= tol):
            self.path.unlink(missing_ok=True)
        else:
            self._write_solved(fitted)

    def _is_time(self) -> bool:
        self.steps += 1
        # A file of many duels takes its time to write, which shall not be most of the fit's.
        early = time.monotonic() < self.written + (WRITING_SHARE * self.writing)
        return self.path is not None and self.steps % self.every == 0 and not early

    def _write_solved(self, fitted: Fitted) -> None:
        nothing = np.zeros(0, dtype=np.intp)
        self._write(fitted, duels=nothing, done=nothing, progress=np.zeros(3, dtype=np.intp))

    def _write(self, fitted: Fitted, **current: NDArray[Any]) -> None:
        assert self.path is not None
        arrays = {**self.facts, **vars(fitted), **current}
        started = time.monotonic()
        with replacing(self.path) as partial, partial.open("wb") as file:
            np.savez(file, **arrays)
        self.written = time.monotonic()
        taken = self.written - started
        self.writing = taken if taken > SHORT_WRITING else 0.0

    def _check(self) -> None:
        for name, value in self.facts.items():
            saved = self.saved.get(name, np.zeros(0))
            same = saved.shape == value.shape
            if same and value.dtype.kind == "f":
                same = np.allclose(saved, value, rtol=1e-5, atol=1e-4)
            elif same:
                same = np.array_equal(saved, value)
            if not same:
                what = "data"
                if name == "parameters" and saved.dtype.kind == "U":
                    theirs, ours = json.loads(str(saved)), json.loads(str(value))
                    what = " and ".join(key for key in ours if ours[key] != theirs.get(key))
                raise ValueError(
                    f"checkpoint names the file of another fit, {self.path}, with other {what}; "
                    "remove it or name another."
                )


def facts_of(
    scaling: Scaling,
    label_means: Floats,
    sides: Floats,
    C: float,
    class_weight: Any,
) -> dict[str, NDArray[Any]]:
    """Return what tells one fit from another: parameters, labels and features.

    Parameters
    ----------
    scaling : Scaling
        Means and scales of the features.
    label_means : ndarray of shape (K,)
        Means of the labels' rows, projected; see `duelrank.blocks._census.projection`.
    sides : ndarray of shape (2, P)
        How much the rows on the two sides of the duels weigh.
    C : float
        Inverse strength of the penalty.
    class_weight : dict, "balanced" or None
        Weights of the labels.
    """
    n_classes = len(label_means)
    first, second = pairs(n_classes)
    won = np.bincount(first, sides[0], n_classes) + np.bincount(second, sides[1], n_classes)
    by_code = class_weight
    if isinstance(class_weight, dict):
        by_code = sorted((int(code), float(weight)) for code, weight in class_weight.items())
    parameters = {
        "C": float(C),
        "fit_intercept": bool(scaling.fit_intercept),
        "class_weight": by_code,
    }
    direction = projection(len(scaling.scale))
    spread = np.sqrt(direction**2 @ scaling.scale**2)
    return {
        "parameters": np.array(json.dumps(parameters)),
        "label_weights": won,
        "feature_scales": np.log(scaling.scale),
        "feature_means": scaling.mean / scaling.scale,
        "label_means": (label_means - direction @ scaling.mean) / spread,
    }


def _read(path: Path) -> dict[str, NDArray[Any]]:
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
