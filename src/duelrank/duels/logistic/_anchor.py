"""Scores that duels start from: the penalty is on how far a duel's margins are from theirs.

A *score* u_k(x) of every label is linear in x. The *anchor* of duel (k, l) is the margin u_l − u_k,
and its *correction* is what its margins differ by. With an anchor, the logistic problems penalise
corrections instead of coefficients: in the space of features, deviations from the coefficients of
the anchor; in the space of rows, coefficients of margins to which the anchor is added.
`duelrank.duels.anchored` fits the scores.

An update that has no rows but the new ones (`_update`) anchors every duel at its own last solution:
`LastSolution` has the same methods as `Anchor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import labels_of_duels
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._table import RowTable


class Anchor(NamedTuple):
    """The scores of M models: one, or one for every fold.

    Attributes
    ----------
    coef : ndarray of shape (M, d, K)
        Coefficients of the labels' scores.
    intercept : ndarray of shape (M, K)
        Their intercepts.
    scores : ndarray of shape (M, n, K)
        Scores of all training rows.
    intercept_penalty : float
        Penalty of the intercepts of corrections. It is not zero: with no rows, or a tiny C, a
        correction is zero.
    """

    coef: Floats
    intercept: Floats
    scores: Floats
    intercept_penalty: float

    @property
    def corrects_one_sided(self) -> bool:
        """Whether duels with rows of one label only are corrected."""
        return False

    @property
    def n_classes(self) -> int:
        """Number of labels K."""
        return self.intercept.shape[1]

    def margins(self, rows: NDArray[np.intp], duels: NDArray[np.intp]) -> Floats:
        """Return the margins of rows in duels by all models, (Q, M, N) for rows (Q, N)."""
        first, second = (side[:, np.newaxis] for side in labels_of_duels(duels, self.n_classes))
        margins = self.scores[:, rows, second] - self.scores[:, rows, first]
        return np.ascontiguousarray(margins.transpose(1, 0, 2))

    def coefficients(self, duels: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts of duels by all models, (Q, M, d) and (Q, M)."""
        first, second = labels_of_duels(duels, self.n_classes)
        coef = self.coef[:, :, second] - self.coef[:, :, first]
        intercept = self.intercept[:, second] - self.intercept[:, first]
        return coef.transpose(2, 0, 1), intercept.T

    def in_table(self, duels: NDArray[np.intp], table: RowTable) -> Floats:
        """Return coefficients of the table's rows, (Q · M, d), the models of a duel together."""
        coef, intercept = self.coefficients(duels)
        return table.rescale(
            coef.reshape(-1, coef.shape[2]).astype(np.float64),
            intercept.ravel().astype(np.float64),
        )


class LastSolution(NamedTuple):
    """Where the duels are, in one model; rows have a column of ones in place of an intercept.

    Attributes
    ----------
    coefficients : callable
        Returns the coefficients of some duels, (Q, d), the last one that of the ones.
    row_margins : callable
        Returns the margins of all duels for all rows, (n, P), once they are asked for.
    """

    coefficients: Callable[[NDArray[np.intp]], Floats]
    row_margins: Callable[[], Floats]

    @property
    def intercept_penalty(self) -> float:
        """There is no intercept besides the column of ones."""
        return 0.0

    @property
    def corrects_one_sided(self) -> bool:
        """Whether duels with rows of one label only are corrected."""
        return True  # the penalty keeps them finite

    def margins(self, rows: NDArray[np.intp], duels: NDArray[np.intp]) -> Floats:
        """Return the margins of rows in duels, (Q, 1, N) for rows (Q, N)."""
        return self.row_margins()[rows, duels[:, np.newaxis]][:, np.newaxis]

    def in_table(self, duels: NDArray[np.intp], table: RowTable) -> Floats:
        """Return coefficients of the table's rows, (Q, d)."""
        coef = self.coefficients(duels).astype(np.float64)
        return table.rescale(coef, np.zeros(len(coef)))
