"""Corrections of duels, as coefficients of the columns of X."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._pairs import duel_numbers
from duelrank.duels.logistic._anchor import Anchor
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._rows import TrainingRows
from duelrank.duels.logistic.row_space import Appearances

Floats = NDArray[Any]


class Corrections(NamedTuple):
    """The duels whose margins are not just differences of scores.

    Attributes
    ----------
    duels : ndarray of int, of shape (R,)
        Their numbers, increasing.
    coef : ndarray or CSR array of shape (d, R)
        Coefficients of the corrections, sparse if X is.
    intercept : ndarray of shape (R,)
        Their intercepts.
    decrement, n_iter : ndarrays of shape (R,)
        Certificates and iterations.
    """

    duels: NDArray[np.intp]
    coef: Any
    intercept: Floats
    decrement: Floats
    n_iter: NDArray[np.intp]

    @classmethod
    def none(cls, rows: TrainingRows) -> Corrections:
        """Correct nothing."""
        shape = rows.X.shape[1], 0
        dense = isinstance(rows.X, np.ndarray)
        nothing = np.zeros(0, dtype=np.intp)
        return cls(
            nothing,
            np.zeros(shape, dtype=rows.X.dtype)
            if dense
            else sparse.csr_array(shape, dtype=rows.X.dtype),
            np.zeros(0, dtype=rows.X.dtype),
            np.zeros(0),
            nothing,
        )

    @classmethod
    def of(
        cls,
        fitted: FittedDuels,
        centre: Floats,
        rows: TrainingRows,
        anchor: Anchor,
        duels: NDArray[np.intp],
    ) -> Corrections:
        """Collect the corrections of some duels that were fitted.

        Parameters
        ----------
        fitted : FittedDuels
            What `fit_corrections` found.
        centre : ndarray of shape (d,)
            What was subtracted from dense rows.
        rows : TrainingRows
            The rows.
        anchor : Anchor
            The scores that were corrected.
        duels : ndarray of int
            The duels that were fitted, increasing.
        """
        if len(duels) == 0:
            return cls.none(rows)
        in_rows = fitted.by_rows[duels]
        if in_rows.all():
            coef, intercept = _from_rows(fitted, centre, rows, duels)
        elif not in_rows.any():
            coef, intercept = _from_features(fitted, rows, anchor, duels)
        else:
            parts = [
                _from_rows(fitted, centre, rows, duels[in_rows]),
                _from_features(fitted, rows, anchor, duels[~in_rows]),
            ]
            # Back in the order of the duels.
            place = np.argsort(np.concatenate([duels[in_rows], duels[~in_rows]]))
            stack = np.hstack if isinstance(rows.X, np.ndarray) else sparse.hstack
            coef = stack([part[0] for part in parts])
            coef = coef[:, place] if isinstance(coef, np.ndarray) else coef.tocsc()[:, place]
            intercept = np.concatenate([part[1] for part in parts])[place]
        if not isinstance(coef, np.ndarray):
            coef = sparse.csr_array(coef)
        dtype = rows.X.dtype
        coef = coef.astype(dtype, copy=False)
        intercept = intercept.astype(dtype, copy=False)
        decrement = fitted.decrement[duels]
        values = coef if isinstance(coef, np.ndarray) else coef.data
        if not (np.isfinite(values).all() and np.isfinite(intercept).all()):
            coef, intercept, decrement = _only_finite(coef, intercept, decrement)
        return cls(duels, coef, intercept, decrement, fitted.n_iter[duels])


def _only_finite(coef: Any, intercept: Floats, decrement: Floats) -> tuple[Any, Floats, Floats]:
    """Let duels follow the scores whose corrections are not finite; these have not converged."""
    dense = coef if isinstance(coef, np.ndarray) else coef.toarray()
    finite = np.isfinite(dense).all(axis=0) & np.isfinite(intercept)
    dense = np.where(finite, dense, 0)
    return (
        dense if isinstance(coef, np.ndarray) else sparse.csr_array(dense),
        np.where(finite, intercept, 0),
        np.where(finite, decrement, np.inf),
    )


def _from_features(
    fitted: FittedDuels, rows: TrainingRows, anchor: Anchor, duels: NDArray[np.intp]
) -> tuple[Any, Floats]:
    """Subtract the anchor from the coefficients of features."""
    coef, intercept = anchor.coefficients(duels)
    own = (fitted.coef[fitted.places(duels)] - coef[:, 0]).T
    own_intercept = fitted.intercept[duels] - intercept[:, 0]
    return own if isinstance(rows.X, np.ndarray) else sparse.csr_array(own), own_intercept


def _from_rows(
    fitted: FittedDuels, centre: Floats, rows: TrainingRows, duels: NDArray[np.intp]
) -> tuple[Any, Floats]:
    """Multiply the coefficients of rows with the rows."""
    X, n_classes = rows.X, rows.n_classes
    appearances = Appearances.of(rows.feedback, n_classes)
    number, other = np.nonzero(fitted.row_coef)
    label = appearances.labels[number]
    duel = duel_numbers(np.minimum(label, other), np.maximum(label, other), n_classes)
    place = np.minimum(np.searchsorted(duels, duel), len(duels) - 1)
    mine = duels[place] == duel
    number, other, label, place = number[mine], other[mine], label[mine], place[mine]
    values = np.where(label > other, 1.0, -1.0) * fitted.row_coef[number, other]
    of_rows = sparse.csr_array(
        (values, (place, appearances.rows[number])), shape=(len(duels), X.shape[0])
    )
    intercept = fitted.intercept[duels].astype(np.float64)
    if not isinstance(X, np.ndarray):
        return (of_rows @ sparse.csr_array(X)).T, intercept
    coef = of_rows @ X - np.outer(of_rows.sum(axis=1), centre)
    return coef.T, intercept - coef @ centre
