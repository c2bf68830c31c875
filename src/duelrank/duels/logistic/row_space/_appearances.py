"""Which rows speak for which labels, and how the coefficients of rows are laid out.

A row *appears* under every label that it places ahead of others: a row with a label under this
label alone, a top-m list under m labels. Appearances are sorted by label. Those under label a take
part in the K−1 duels of a, and speak for a there; so the coefficients of all duels are a matrix
(n_appearances, K). Entry [i, b] is the coefficient of appearance i, under a, in the duel of a and
b; it is positive or zero, and zero for b = a and where the row does not place a ahead of b.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.duels._sides import split_by


class Appearances(NamedTuple):
    """Rows under the labels that they speak for.

    Attributes
    ----------
    rows : ndarray of int, of shape (n_appearances,)
        The row of every appearance.
    ends : ndarray of int, of shape (K + 1,)
        The appearances under label k are ``ends[k]`` to ``ends[k + 1]``.
    """

    rows: NDArray[np.intp]
    ends: NDArray[np.intp]

    @classmethod
    def of(cls, feedback: NDArray[Any], n_classes: int) -> Appearances:
        """Find the appearances of rows by their feedback, codes or ranks."""
        if feedback.ndim == 1:
            by_label = split_by(feedback, n_classes)
        else:
            last = np.fmax.reduce(feedback, axis=1)
            by_label = [np.flatnonzero(column < last) for column in feedback.T]
        ends = np.cumsum([0, *map(len, by_label)])
        return cls(np.concatenate(by_label).astype(np.intp), ends.astype(np.intp))

    @property
    def labels(self) -> NDArray[np.intp]:
        """The label of every appearance, (n_appearances,)."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))

    def of_label(self, label: int) -> slice:
        """Return the appearances under a label."""
        return slice(int(self.ends[label]), int(self.ends[label + 1]))
