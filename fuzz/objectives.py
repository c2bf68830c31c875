"""The best objective that is known for a logistic regression, whatever the scale of its columns.

The objective is that of `LogisticDuels`, ½‖w‖² + C Σ_i s_i log(1 + exp(−y_i (x_i·w + b))). It is
evaluated in extended precision at coefficients of the columns as they were given. Whatever has the
lowest objective is the best one known: the solution in question, a Newton method that starts from
it in columns of one scale, the same from zero, and scikit-learn's solvers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LONG = np.longdouble
STEPS = 60

Vector = NDArray[Any]


class Corrected(NamedTuple):
    """Margins to which corrections are added; the penalty is on that of the centre, too."""

    margins: Vector
    centre: Vector
    penalty: float


class Objective:
    """The objective of one duel.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    sides : ndarray of shape (n,)
        1 where the second label won, −1 elsewhere.
    weights : ndarray of shape (n,)
        Weights of rows, C included.
    fit_intercept : bool
        Whether there is an intercept.
    corrected : Corrected, default=None
        What the coefficients are corrections of, if they are.
    """

    def __init__(
        self,
        X: Vector,
        sides: Vector,
        weights: Vector,
        fit_intercept: bool,
        corrected: Corrected | None = None,
    ) -> None:
        self.corrected = corrected
        self.offset = LONG(0) if corrected is None else corrected.margins.astype(LONG)
        self.X = X.astype(LONG)
        self.sides = sides.astype(LONG)
        self.weights = weights.astype(LONG)
        self.fit_intercept = fit_intercept

    def value(self, coef: Vector, intercept: float) -> float:
        """Return the objective, rounded once."""
        coef = coef.astype(LONG)
        with np.errstate(all="ignore"):
            margins = self.sides * (self.X @ coef + LONG(intercept) + self.offset)
            losses = np.logaddexp(LONG(0), -margins)
            value = coef @ coef / 2 + self.weights @ losses
            if self.corrected is not None:
                centre, penalty = self.corrected.centre.astype(LONG), self.corrected.penalty
                value += LONG(penalty) * (LONG(intercept) + centre @ coef) ** 2 / 2
            return float(value)

    def best(self, coef: Vector, intercept: float) -> tuple[float, str]:
        """Return the lowest objective that can be found, and what found it."""
        found = [(self.value(coef, intercept), "itself")]
        starts = {"newton from it": (coef, intercept), "newton from zero": (0 * coef, 0.0)}
        for name, (start, b) in starts.items():
            for better in self._newton(start, b):
                found.append((self.value(*better), name))
        if self.corrected is None:
            found += [(self.value(*solution), name) for name, solution in self._of_sklearn()]
        return min((pair for pair in found if np.isfinite(pair[0])), default=found[0])

    def _newton(self, coef: Vector, intercept: float) -> Iterator[tuple[Vector, float]]:
        """Yield ever better coefficients, by Newton steps in columns of mean 0 and scale 1.

        All is done in extended precision but the solution of linear systems, whose matrices are
        scaled to a diagonal of 1. Extended precision has the range that squares of 1e300 need.
        """
        total = self.weights.sum()
        if not total > 0:
            return
        centre = (self.weights @ self.X) / total if self.fit_intercept else 0 * self.X[0]
        if self.corrected is not None:
            centre = self.corrected.centre.astype(LONG)
        centred = self.X - centre
        scale = np.sqrt((self.weights @ centred**2) / total)
        scale[~(scale > 0)] = 1
        Z = centred / scale
        penalty = 1 / scale**2
        n_columns = Z.shape[1]
        if self.fit_intercept:
            Z = np.column_stack([Z, np.ones(len(Z), LONG)])
            of_intercept = 0 if self.corrected is None else self.corrected.penalty
            penalty = np.append(penalty, LONG(of_intercept))
        v = coef.astype(LONG) * scale
        if self.fit_intercept:
            v = np.append(v, LONG(intercept) + centre @ coef.astype(LONG))
        value = self._scaled_value(Z, penalty, v)
        for _ in range(STEPS):
            step, decrement = self._step(Z, penalty, v)
            size = LONG(1)
            while size > 1e-9:
                new = self._scaled_value(Z, penalty, v + size * step)
                if new < value - size * decrement / 10:
                    break
                size /= 2
            else:
                break
            v, value = v + size * step, new
            if decrement <= 1e-16 * value:
                break
        # Only what doubles can hold counts. The intercept makes up for the rounding of the others.
        with np.errstate(all="ignore"):
            w = (v[:n_columns] / scale).astype(float)
            yield w, float(v[-1] - centre @ w.astype(LONG)) if self.fit_intercept else 0.0

    def _scaled_value(self, Z: Vector, penalty: Vector, v: Vector) -> Any:
        with np.errstate(all="ignore"):  # a step too far is worse than any other
            margins = self.sides * (Z @ v + self.offset)
            return penalty @ v**2 / 2 + self.weights @ np.logaddexp(LONG(0), -margins)

    def _step(self, Z: Vector, penalty: Vector, v: Vector) -> tuple[Vector, Any]:
        margins = self.sides * (Z @ v + self.offset)
        losing = np.exp(-np.logaddexp(LONG(0), margins))  # the probability of the other side
        gradient = penalty * v - Z.T @ (self.weights * self.sides * losing)
        curvature = self.weights * losing * (1 - losing)
        hessian = (Z.T * curvature) @ Z + np.diag(penalty)
        diagonal = np.sqrt(np.diag(hessian))
        diagonal[~(diagonal > 0)] = 1
        matrix = hessian / diagonal / diagonal[:, np.newaxis]
        try:
            solved = _solve(matrix, gradient / diagonal)
        except (np.linalg.LinAlgError, ValueError):
            return 0 * gradient, LONG(0)
        step = -solved / diagonal
        return step, -(gradient @ step)

    def _of_sklearn(self) -> Iterator[tuple[str, tuple[Vector, float]]]:
        """Yield what scikit-learn's solvers find, where they find anything."""
        from sklearn.linear_model import LogisticRegression

        X, y = self.X.astype(float), self.sides.astype(float)
        for solver in ("lbfgs", "newton-cholesky"):
            model = LogisticRegression(
                C=1.0, solver=solver, tol=1e-10, max_iter=200, fit_intercept=self.fit_intercept
            )
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    model.fit(X, y, sample_weight=self.weights.astype(float))
                except (ValueError, FloatingPointError, np.linalg.LinAlgError):
                    continue
            if np.isfinite(model.coef_).all():
                yield solver, (model.coef_[0], float(model.intercept_[0]))


class ScoreObjective:
    """The objective of the scores of `AnchoredDuels`, multinomial, in extended precision.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    codes : ndarray of shape (n,)
        Their labels.
    weights : ndarray of shape (n,)
        Weights of rows, C included.
    n_classes : int
        Number of labels.
    centre : ndarray of shape (d,)
        The mean of the rows, as it is rounded in the fit.
    penalty : float
        Penalty of the scores there; None without intercepts.
    """

    def __init__(
        self,
        X: Vector,
        codes: Vector,
        weights: Vector,
        n_classes: int,
        centre: Vector,
        penalty: float | None,
    ) -> None:
        self.weights = weights.astype(LONG)
        self.won = codes[:, np.newaxis] == np.arange(n_classes)
        total = self.weights.sum()
        X = X.astype(LONG)
        self.centre = centre.astype(LONG)
        centred = X - self.centre
        self.scale = np.sqrt(self.weights @ centred**2 / total)
        self.scale[~(self.scale > 0)] = 1
        self.Z, self.penalty = centred / self.scale, 1 / self.scale**2
        if penalty is not None:
            self.Z = np.column_stack([self.Z, np.ones(len(X), LONG)])
            self.penalty = np.append(self.penalty, LONG(penalty))

    def value_and_best(self, coef: Vector, intercept: Vector) -> tuple[float, float]:
        """Return the objective of coefficients (K, d), and the lowest that Newton steps find."""
        v = coef.astype(LONG) * self.scale
        if len(self.penalty) > len(self.scale):
            at_centre = intercept.astype(LONG) + coef.astype(LONG) @ self.centre
            v = np.column_stack([v, at_centre])
        value = own = self._value(v)
        for _ in range(STEPS):
            try:
                step, decrement = self._step(v)
            except np.linalg.LinAlgError:
                break
            size = LONG(1)
            while size > 1e-9 and not (new := self._value(v + size * step)) < value:
                size /= 2
            if size <= 1e-9:
                break
            v, value = v + size * step, new
            if decrement <= 1e-14 * value:
                break
        return float(own), float(value)

    def _value(self, v: Vector) -> Any:
        losses = np.logaddexp(LONG(0), -self._leads(v)[0])
        return self.weights @ losses + (self.penalty @ v.T**2).sum() / 2

    def _leads(self, v: Vector) -> tuple[Vector, Vector]:
        """Return by how much the right label leads, (n,), and the shares of the others, (n, K).

        Nothing cancels where it leads by so much that its probability rounds to one.
        """
        scores = self.Z @ v.T
        others = np.where(self.won, -np.inf, scores)
        largest = others.max(axis=1)
        shares = np.exp(others - largest[:, np.newaxis])
        total = shares.sum(axis=1)
        leads = scores[self.won] - (largest + np.log(total))
        return leads, shares / total[:, np.newaxis]

    def _step(self, v: Vector) -> tuple[Vector, Any]:
        leads, shares = self._leads(v)
        lost, kept = np.exp(-np.logaddexp(0, leads)), np.exp(-np.logaddexp(0, -leads))
        shares = np.where(self.won, kept[:, np.newaxis], shares * lost[:, np.newaxis])
        pulls = np.where(self.won, -lost[:, np.newaxis], shares)
        complement = np.where(self.won, lost[:, np.newaxis], 1 - shares)
        n_classes, n_columns = v.shape
        gradient = self.penalty * v + (pulls.T * self.weights) @ self.Z
        hessian = np.zeros((n_classes, n_columns, n_classes, n_columns), LONG)
        for k in range(n_classes):
            for j in range(n_classes):
                curvature = self.weights * shares[:, k]
                curvature = curvature * (complement[:, j] if k == j else -shares[:, j])
                hessian[k, :, j] = (self.Z.T * curvature) @ self.Z
            hessian[k, :, k] += np.diag(self.penalty)
        matrix = hessian.reshape(v.size, v.size)
        diagonal = np.sqrt(np.diag(matrix))
        step = _solve(matrix / diagonal / diagonal[:, np.newaxis], -gradient.ravel() / diagonal)
        step /= diagonal
        return step.reshape(v.shape), -(gradient.ravel() @ step)


def _solve(matrix: Vector, right: Vector) -> Vector:
    """Solve a linear system in extended precision, by Cholesky's method; LAPACK has doubles."""
    n = len(matrix)
    lower = np.zeros_like(matrix)
    for j in range(n):
        pivot = matrix[j, j] - lower[j, :j] @ lower[j, :j]
        if not pivot > 0:
            raise np.linalg.LinAlgError
        lower[j, j] = np.sqrt(pivot)
        lower[j + 1 :, j] = (matrix[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]) / lower[j, j]
    solution = np.array(right)
    for j in range(n):
        solution[j] = (solution[j] - lower[j, :j] @ solution[:j]) / lower[j, j]
    for j in reversed(range(n)):
        solution[j] = (solution[j] - lower[j + 1 :, j] @ solution[j + 1 :]) / lower[j, j]
    return solution
