"""Anchored duels by hand: data of every kind, the objectives, and their minima by other means."""

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from duelrank import pairs
from duelrank.feedback import outcomes

K = 5


def as_ranks(feedback, n_classes):
    if np.ndim(feedback) == 1:
        return np.where(np.arange(n_classes) == np.asarray(feedback)[:, np.newaxis], 1.0, 2.0)
    return feedback


def densely(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)


def points(layout, rng, n_rows=None):
    """Rows of some layout that have something to do with labels, and the labels."""
    wide = layout.endswith("wide")
    n_rows = n_rows or (24 if wide else 90)
    n_columns = 60 if wide else 6
    y = np.arange(n_rows) % K
    X = rng.normal(size=(n_rows, n_columns))
    X[np.arange(n_rows), y] += 1.5
    if layout.startswith("sparse"):
        return sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0)), y
    return X + 2, y


def renamed(feedback, column):
    """Feedback in which label k is called column[k]."""
    if np.ndim(feedback) == 1:
        return column[feedback]
    ranks = np.empty_like(feedback)
    ranks[:, column] = feedback
    return ranks


LAYOUTS = ["dense tall", "dense wide", "sparse tall", "sparse wide"]


def rankings(X, y, rng, kind):
    """Labels, or rankings that usually begin with them."""
    if kind == "labels":
        return y
    utility = rng.gumbel(size=(len(y), K))
    utility[np.arange(len(y)), y] += 2
    ranks = (-utility).argsort(axis=1).argsort(axis=1) + 1.0
    if kind == "lists":
        return np.minimum(ranks, 3)
    if kind == "partial":
        ranks = np.where(rng.random(ranks.shape) < 0.3, np.nan, np.ceil(ranks / 1.5))
    return ranks


def centre_of(X, weights=None):
    return np.average(densely(X), axis=0, weights=weights)


def intercept_penalty(X, weights=None, fit_intercept=True):
    """Return ε: as of a column of ones ten times as long as rows are far from their mean."""
    X = densely(X)
    mean = centre_of(X, weights) if fit_intercept else 0
    square = np.average(np.square(X - mean).sum(axis=1), weights=weights)
    return 1 / (100 * square)


class ScoreObjective:
    """½ ‖W‖² + ½ ε ‖b‖² + C Σ −log p, where b are the scores at the mean of the rows."""

    def __init__(self, X, feedback, n_classes, C, weights=None, fit_intercept=True):
        self.weights = np.ones(X.shape[0]) if weights is None else weights
        self.mean = centre_of(X, weights) * fit_intercept
        self.X = np.column_stack([densely(X) - self.mean, np.ones(X.shape[0]) * fit_intercept])
        self.penalty = np.ones(self.X.shape[1])
        self.penalty[-1] = intercept_penalty(X, weights, fit_intercept)
        self.C, self.shape = C, (self.X.shape[1], n_classes)
        ranks = as_ranks(feedback, n_classes)
        behind = ranks[:, np.newaxis, :] > ranks[:, :, np.newaxis]  # never of NaN
        self.row, self.chosen = np.nonzero(behind.any(axis=2))
        self.among = behind[self.row, self.chosen]
        self.among[np.arange(len(self.row)), self.chosen] = True

    def value_and_gradient(self, flat):
        coef = flat.reshape(self.shape)
        scores = np.where(self.among, (self.X @ coef)[self.row], -np.inf)
        log_p = scores - logsumexp(scores, axis=1, keepdims=True)
        weights, number = self.weights[self.row], np.arange(len(self.row))
        value = -weights @ log_p[number, self.chosen]
        of_choices = np.exp(log_p)
        of_choices[number, self.chosen] -= 1
        gradient = np.zeros((len(self.X), self.shape[1]))
        np.add.at(gradient, self.row, weights[:, np.newaxis] * of_choices)
        of_penalty = self.penalty[:, np.newaxis] * coef
        value = self.C * value + 0.5 * np.sum(coef * of_penalty)
        return value, (self.C * self.X.T @ gradient + of_penalty).ravel()

    def coef_of(self, engine):
        """Return the coefficients of a fitted engine as this objective has them."""
        coef = engine.score_coef_.astype(np.float64).T
        intercept = engine.score_intercept_ + self.mean @ coef
        return np.vstack([coef, intercept]).ravel()

    def relative_decrement(self, engine):
        """What a Newton step from the engine's scores would gain, relative to the objective."""
        flat = self.coef_of(engine)
        value, gradient = self.value_and_gradient(flat)
        hessian = np.empty((len(flat), len(flat)))
        for j in range(len(flat)):
            change = np.zeros(len(flat))
            change[j] = 1e-5
            above, below = (self.value_and_gradient(flat + s * change)[1] for s in (1, -1))
            hessian[j] = (above - below) / 2e-5
        return 0.5 * gradient @ np.linalg.solve(hessian, gradient) / value


def corrections_by_hand(X, feedback, n_classes, C_own, engine, weights=None, fit_intercept=True):
    """Return the corrections of all duels on all rows, (n, P), and which duels have any.

    A duel without rows of both outcomes has none. Intercepts are those at the mean of dense rows,
    and at zero of sparse ones.
    """
    weights = np.ones(X.shape[0]) if weights is None else weights
    scores, first_second = engine.scores(X), pairs(n_classes)
    penalty = intercept_penalty(X, weights, fit_intercept)
    dense = densely(X)
    at_mean = fit_intercept and not sparse.issparse(X)
    centred = dense - centre_of(X, weights) * at_mean
    sides = outcomes(as_ranks(feedback, n_classes))
    found = np.zeros((X.shape[0], sides.shape[1]))
    corrected = []
    for duel, (first, second) in enumerate(zip(*first_second, strict=True)):
        rows = np.flatnonzero((sides[:, duel] != 0) & (weights > 0))
        side = sides[rows, duel]
        corrected.append(len(np.unique(side)) == 2)
        if not corrected[-1]:
            continue
        offset = scores[rows, second] - scores[rows, first]
        mine = np.column_stack([centred[rows], np.ones(len(rows)) * fit_intercept])
        strength = C_own * weights[rows]
        of_penalty = np.ones(mine.shape[1])
        of_penalty[-1] = penalty

        def objective(
            coef, mine=mine, side=side, offset=offset, strength=strength, of_penalty=of_penalty
        ):
            margins = side * (offset + mine @ coef)
            value = strength @ np.logaddexp(0, -margins) + 0.5 * of_penalty @ coef**2
            return value, of_penalty * coef - mine.T @ (strength * side * expit(-margins))

        best = minimize(
            objective,
            np.zeros(mine.shape[1]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-8},
        ).x
        found[:, duel] = np.column_stack([centred, np.ones(len(dense)) * fit_intercept]) @ best
    return found, np.array(corrected)
