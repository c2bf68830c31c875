"""Certificates of scores and corrections whose rows need care, on the rows as they were given.

The solvers measure decrements on rows as they prepared them. Where scales, offsets or weights are
extreme (`duelrank.duels.logistic._extremes`), these are replaced by Newton decrements at the
coefficients as they are kept, in double precision and from X. A decrement counts only if its step
changes no score by much, so that curvatures stay what they are. What is too large to be checked, or
cannot be told apart from rounding, has not converged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit

from duelrank._pairs import labels_of_duels
from duelrank.duels._sides import DuelRows
from duelrank.duels.anchored._corrections import Corrections
from duelrank.duels.anchored._fit import Training
from duelrank.duels.logistic._certificate import exact_sum

Floats = NDArray[Any]

# More take longer to check than to fit: coefficients of a Hessian, and products that make it.
MOST_COEFFICIENTS, MOST_PRODUCTS = 1000, 2**31
LARGEST_CHANGE = 0.5  # of a score, by a Newton step that is trusted
ROUNDING = 1e-14  # of eigenvalues, as a share of the largest
EPSILON = float(np.finfo(np.float64).eps)


def certify(
    training: Training,
    coef: Floats,
    intercept: Floats,
    C: float,
    corrections: Corrections,
    C_own: float,
) -> tuple[float, Floats]:
    """Return the relative decrements of scores and corrections, infinite where there are none.

    Parameters
    ----------
    training : Training
        The rows.
    coef, intercept : ndarrays of shapes (d, K) and (K,)
        The scores, as they are kept.
    C : float
        Inverse strength of their penalty.
    corrections : Corrections
        The corrections, as they are kept.
    C_own : float
        Inverse strength of theirs.
    """
    unknown = np.full(len(corrections.duels), np.inf)
    if not can_be_checked(training, len(unknown)):
        return np.inf, unknown
    n_rows, n_columns = training.rows.X.shape
    X = training.rows.X
    X = (X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64)
    weights = training.rows.weights
    weights = np.ones(n_rows) if weights is None else weights
    mean = training.points.mean.astype(np.float64)
    rows = _Rows(X, C * weights, mean, training)
    u = np.stack([rows.read(w, b) for w, b in zip(coef.T, intercept, strict=True)], axis=1)
    of_scores = _of_scores(training, rows, u, C)
    if len(unknown) == 0:
        return of_scores, unknown
    if not isinstance(training.rows.X, np.ndarray):
        mean = np.zeros(n_columns)  # corrections of sparse rows are not centred
    feedback = training.with_dense_feedback()
    of_duels = DuelRows(feedback.feedback, feedback.n_classes)
    scores, rounding = rows.A @ u, rows.rounding(u)
    own = corrections.coef
    own = own if isinstance(own, np.ndarray) else own.toarray()
    labels = zip(*labels_of_duels(corrections.duels, coef.shape[1]), strict=True)
    for number, (first, second) in enumerate(labels):
        mine, won = of_duels.of(int(first), int(second))
        part = _Rows(X[mine], C_own * weights[mine], mean, training)
        unknown[number] = _of_correction(
            part,
            part.read(own[:, number], corrections.intercept[number]),
            np.where(won == 1, 1.0, -1.0),
            scores[mine, second] - scores[mine, first],
            rounding[mine].max(axis=1),
        )
    return of_scores, unknown


def can_be_checked(training: Training, n_corrections: int) -> bool:
    """Tell whether scores, and so many corrections, are few enough to be checked."""
    n_rows, n_columns = training.rows.X.shape
    n_coefficients = (n_columns + 1) * training.rows.n_classes
    n_products = n_rows * n_coefficients**2 + n_corrections * n_rows * (n_columns + 1) ** 2
    return bool(n_coefficients <= MOST_COEFFICIENTS and n_products <= MOST_PRODUCTS)


class _Rows:
    """Rows A, centred and in units in which curvatures are about one, with an intercept's column.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows as they were given.
    strength : ndarray of shape (n,)
        Their weights times C.
    centre : ndarray of shape (d,)
        What is subtracted.
    training : Training
        Knows the penalty of the intercept, and whether there is one.
    """

    def __init__(self, X: Floats, strength: Floats, centre: Floats, training: Training) -> None:
        self.strength, self.centre = strength, centre
        self.fit_intercept = training.fit_intercept
        away = X - centre
        largest = np.abs(away).max(axis=0, initial=0)
        largest[largest == 0] = 1
        away /= largest
        self.unit = 1 / np.hypot(1, largest * np.sqrt(strength @ away**2 / 4))
        self.A = away * (self.unit * largest)
        self.penalty = self.unit**2
        if self.fit_intercept:
            unit = 1 / np.sqrt(training.intercept_penalty + strength.sum() / 4)
            self.A = np.column_stack([self.A, np.full(len(X), unit)])
            self.penalty = np.append(self.penalty, training.intercept_penalty * unit**2)
            self.unit = np.append(self.unit, unit)

    def read(self, coef: Floats, intercept: Any) -> Floats:
        """Return coefficients of A."""
        coef = coef.astype(np.float64)
        if self.fit_intercept:
            coef = np.append(coef, exact_sum(float(intercept), self.centre, coef))
        return coef / self.unit

    def rounding(self, u: Floats) -> Floats:
        """Return how far products with coefficients may be off."""
        rounding: Floats = 4 * EPSILON * (np.abs(self.A) @ np.abs(u))
        return rounding


def _of_scores(training: Training, rows: _Rows, u: Floats, C: float) -> float:
    """Return the relative decrement of scores A u, u (d, K)."""
    choices, every = training.choices, slice(0, len(rows.A))
    found = choices.evaluate(every, choices.gather(every, rows.A @ u))
    value = C * found.loss + 0.5 * float((rows.penalty @ u**2).sum())
    gradient = rows.penalty[:, np.newaxis] * u + C * (rows.A.T @ _dense(choices, found.gradient))
    # Scores that change alike change no loss; the others are contrasts of labels.
    n_labels = u.shape[1]
    contrasts = np.linalg.svd(np.eye(n_labels) - 1 / n_labels)[0][:, : n_labels - 1]
    alike = 0.5 * n_labels * float(rows.penalty @ u.mean(axis=1) ** 2)
    curvature = np.empty((len(rows.A), n_labels - 1, n_labels - 1))
    for number in range(n_labels - 1):
        along = np.broadcast_to(contrasts[:, number], (len(rows.A), n_labels))
        product = choices.hessian_times(every, found.state, choices.gather(every, along))
        curvature[:, :, number] = C * (_dense(choices, product) @ contrasts)
    size = n_labels - 1, len(rows.penalty)
    hessian = np.empty(size + size)
    for a in range(n_labels - 1):
        for b in range(n_labels - 1):
            hessian[a, :, b] = (rows.A.T * curvature[:, a, b]) @ rows.A
    step, gain = _newton(
        (gradient @ contrasts).T.ravel(),
        hessian.reshape(size[0] * size[1], -1),
        np.tile(rows.penalty, n_labels - 1),
    )
    change = rows.A @ step.reshape(size).T @ contrasts.T
    off = n_labels * float(rows.strength @ rows.rounding(u).max(axis=1) ** 2)
    return _relative(gain + alike + off, value, change)


def _of_correction(rows: _Rows, u: Floats, side: Floats, anchor: Floats, rounding: Floats) -> float:
    """Return the relative decrement of margins anchor + A u."""
    folded = side * (anchor + rows.A @ u)
    wrong, right = expit(-folded), expit(folded)
    losses = np.logaddexp(0, -folded)
    value = float(rows.strength @ losses) + 0.5 * float(rows.penalty @ u**2)
    gradient = rows.penalty * u - (rows.strength * side * wrong) @ rows.A
    hessian = (rows.A.T * (rows.strength * wrong * right)) @ rows.A
    step, gain = _newton(gradient, hessian, rows.penalty)
    off = float(rows.strength @ (rounding + rows.rounding(u)) ** 2)
    return _relative(gain + off, value, rows.A @ step)


def _newton(gradient: Floats, hessian: Floats, penalty: Floats) -> tuple[Floats, float]:
    """Return a Newton step and half its slope, with eigenvalues that are no larger than true ones.

    The Hessian is that of the losses alone.
    """
    hessian = hessian + np.diag(penalty)
    size = np.sqrt(np.diag(hessian))
    if not (np.isfinite(hessian).all() and np.isfinite(gradient).all() and size.all()):
        return np.full_like(gradient, np.inf), np.inf
    values, vectors = eigh(hessian / size / size[:, np.newaxis])
    least = float(np.min(penalty / size**2))
    values = np.maximum(values - ROUNDING * len(values) * values[-1], least)
    along = vectors.T @ (gradient / size)
    step = -(vectors @ (along / values)) / size
    return step, 0.5 * float(along**2 @ (1 / values))


def _relative(gain: float, value: float, change: Floats) -> float:
    """Return a decrement, infinite if scores would change by too much for it to be trusted."""
    if not (np.isfinite(gain) and np.isfinite(value) and np.abs(change).max() <= LARGEST_CHANGE):
        return np.inf
    return gain / max(value, float(np.finfo(np.float64).tiny))


def _dense(choices: Any, of_rows: Floats) -> Floats:
    """Return numbers for the scores that matter as an array (n, K)."""
    spread = choices.spread(of_rows)
    dense: Floats = spread if isinstance(spread, np.ndarray) else spread.toarray()
    return dense
