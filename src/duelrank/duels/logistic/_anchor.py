"""Scores that duels start from: the penalty is on how far a duel's margins are from theirs.

A *score* u_k(x) of every label is linear in x. The *anchor* of duel (k, l) is the margin u_l − u_k,
and its *correction* is what its margins differ by. With an anchor, the logistic problems penalise
corrections instead of coefficients: in the space of features, deviations from the coefficients of
the anchor; in the space of rows, coefficients of margins to which the anchor is added.
`duelrank.duels.anchored` fits the scores.
"""

from __future__ import annotations

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
