"""FittedDuels: what a fit knows of all duels, from the first moment to the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._newton import State
from duelrank.duels.logistic._table import RowTable

# A duel with rows of one label only has no finite intercept; its probability rounds to 1 here.
ONE_SIDED_MARGIN = 100.0


@dataclass
class FittedDuels:
    """What is known of all P duels.

    Attributes
    ----------
    coef, intercept : ndarrays of shape (P, n_features) and (P,)
        Coefficients and intercepts of the rows of X.
    decrement, n_iter : ndarrays of shape (P,)
        Certificates and iterations.
    solved : ndarray of bool, of shape (P,)
        Which duels are finished.
    """

    coef: Floats
    intercept: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]
    solved: NDArray[np.bool_]

    @classmethod
    def unsolved(cls, sides: Floats, n_features: int, dtype: Any) -> FittedDuels:
        """Begin: duels with rows of one label are solved, and duels without rows have margin 0.

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

    def only(self, duels: NDArray[Any]) -> FittedDuels:
        """Return some of the duels, by number or mask."""
        return FittedDuels(*(values[duels] for values in vars(self).values()))

    def put(self, duels: NDArray[Any] | slice, some: FittedDuels) -> None:
        """Write down what is known of some duels, by number, mask or slice."""
        for name, values in vars(some).items():
            getattr(self, name)[duels] = values

    def has_begun(self, duels: NDArray[np.intp]) -> bool:
        """Tell whether any of some duels has gone through an iteration."""
        return bool(self.n_iter[duels].any())

    def take(self, duels: NDArray[np.intp], table: RowTable, state: State) -> None:
        """Write down how far some duels have come."""
        self.coef[duels], self.intercept[duels] = table.unscale(state.coef)
        self.decrement[duels], self.n_iter[duels] = state.decrement, state.n_iter

    def state(self, duels: NDArray[np.intp], table: RowTable) -> State:
        """Return how far some duels have come, for the solver to go on from; undoes `take`."""
        state = State.at(table.rescale(self.coef[duels], self.intercept[duels]))
        state.decrement[:] = self.decrement[duels]
        state.n_iter[:] = self.n_iter[duels]
        return state
