"""FittedDuels: what a fit knows of all duels, from the first moment to the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._newton import State
from duelrank.duels.logistic._table import RowTable

# A duel with rows of one label only has no finite intercept; its probability rounds to 1 here.
ONE_SIDED_MARGIN = 100.0
# Attributes of `FittedDuels` with one number for every duel.
OF_DUELS = ("intercept", "decrement", "n_iter", "solved", "by_rows")


class ByRows(NamedTuple):
    """Which duels are kept as coefficients of rows, (P,), and the shape of these coefficients."""

    duels: NDArray[np.bool_]
    shape: tuple[int, int]


@dataclass
class FittedDuels:
    """What is known of all P duels.

    Attributes
    ----------
    coef : ndarray of shape (n_duels, n_features)
        Coefficients of the features, for the duels that are not kept by rows, in their order.
    intercept : ndarray of shape (P,)
        Intercepts.
    decrement, n_iter : ndarrays of shape (P,)
        Certificates and iterations.
    solved : ndarray of bool, of shape (P,)
        Which duels are finished.
    by_rows : ndarray of bool, of shape (P,)
        Which duels are kept as coefficients of their rows.
    row_coef : ndarray of shape (n_appearances, K)
        These coefficients; see `duelrank.duels.logistic.row_space`.
    """

    coef: Floats
    intercept: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]
    solved: NDArray[np.bool_]
    by_rows: NDArray[np.bool_]
    row_coef: Floats

    @classmethod
    def unsolved(
        cls, sides: Floats, n_features: int, dtype: Any, by_rows: ByRows | None = None
    ) -> FittedDuels:
        """Begin: duels with rows of one label are solved, and duels without rows have margin 0.

        Parameters
        ----------
        sides : ndarray of shape (2, P)
            How much the rows on the two sides of the duels weigh.
        n_features : int
            Number of features.
        dtype : dtype
            Precision of the coefficients.
        by_rows : ByRows, default=None
            Which duels are kept as coefficients of their rows; by default none.
        """
        n_duels = sides.shape[1]
        by_rows = by_rows or ByRows(np.zeros(n_duels, dtype=bool), (0, 0))
        seen = (sides > 0).astype(np.float64)
        return cls(
            np.zeros((np.count_nonzero(~by_rows.duels), n_features), dtype=dtype),
            (ONE_SIDED_MARGIN * (seen[1] - seen[0])).astype(dtype),
            np.zeros(n_duels),
            np.zeros(n_duels, dtype=np.intp),
            np.logical_not(np.all(sides, axis=0)),
            by_rows.duels,
            np.zeros(by_rows.shape, dtype=dtype),
        )

    def only(self, duels: NDArray[Any]) -> FittedDuels:
        """Return some of the duels, by number or mask; none may be kept by rows."""
        parts = {name: getattr(self, name)[duels] for name in OF_DUELS}
        return replace(self, coef=self.coef[duels], **parts)

    def put(self, duels: NDArray[Any] | slice, some: FittedDuels) -> None:
        """Write down what is known of some duels, by number, mask or slice; none kept by rows."""
        self.coef[duels] = some.coef
        for name in OF_DUELS:
            getattr(self, name)[duels] = getattr(some, name)

    def restore(self, saved: dict[str, NDArray[Any]]) -> None:
        """Take over what a file holds."""
        for name, values in vars(self).items():
            setattr(self, name, saved[name].astype(values.dtype, copy=False))

    def places(self, duels: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where the coefficients of some duels are that are not kept by rows."""
        numbers = np.cumsum(~self.by_rows) - 1
        return numbers[duels]

    def has_begun(self, duels: NDArray[np.intp]) -> bool:
        """Tell whether any of some duels has gone through an iteration."""
        return bool(self.n_iter[duels].any())

    def take(self, duels: NDArray[np.intp], table: RowTable, state: State) -> None:
        """Write down how far some duels have come: nowhere, if numbers have overflowed."""
        coef, intercept = table.unscale(state.coef)
        lost = ~(np.isfinite(coef).all(axis=1) & np.isfinite(intercept))
        coef[lost], intercept[lost] = 0, 0
        self.coef[self.places(duels)], self.intercept[duels] = coef, intercept
        self.decrement[duels] = np.where(lost, np.inf, state.decrement)
        self.n_iter[duels] = state.n_iter

    def state(self, duels: NDArray[np.intp], table: RowTable) -> State:
        """Return how far some duels have come, for the solver to go on from; undoes `take`."""
        state = State.at(table.rescale(self.coef[self.places(duels)], self.intercept[duels]))
        state.decrement[:] = self.decrement[duels]
        state.n_iter[:] = self.n_iter[duels]
        return state
