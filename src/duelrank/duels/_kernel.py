"""KernelDuels: least squares on kernel features, all duels from one decomposition.

Every duel regresses its outcome, 1 where the second label won, −1 where the first did and 0 where
the row says nothing, on features of a Gaussian kernel around some of the rows (Nyström's method).
All duels share the features, so one eigendecomposition of their covariance solves them for every
penalty. It also gives the prediction for each row by a fit without the row; the penalty and the
width of the kernel are chosen by these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from duelrank._batches import batches
from duelrank._kernel_ridge import (
    Floats,
    Kernel,
    Regression,
    Solution,
    check_positives,
    solve,
)
from duelrank._pairs import n_pairs
from duelrank._parameters import check_count
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank._threads import one_blas_thread
from duelrank.duels._points import validated_points
from duelrank.duels._protocol import Engine, check_counts, is_finite_array
from duelrank.duels._sides import LARGEST, check_magnitude, check_rows

BATCH_ROWS = 8_192  # predicted together
MOST_ROWS_TO_CHOOSE = 4_000  # rows on which the kernel is chosen; the penalty is chosen on all
# Smaller eigenvalues of the kernel, relative to the largest, are rounding errors.
NEGLIGIBLE = 1e-8
# So are smaller values of one minus the leverage of a row.
LEAST_SLACK = 1e-6
LARGEST_LOG_SLOPE = 4.0
FARTHEST = 1e100  # a point in units of the scale: its square is finite, and its kernels are 0


class KernelDuels(Engine):
    """Duels fought by kernel least squares, all solved together.

    Features are standardised first. The kernel's width and the penalty are the same for all duels;
    they are those with the smallest squared error under leave-one-out cross-validation.

    This is an engine for rankings. With labels or short lists most rows say nothing about most
    duels, and the regression is close to the *difference* of two labels' probabilities. It tells
    who wins, but not how surely, and unlikely labels are hard to tell apart.

    Parameters
    ----------
    n_components : int, default=500
        Number of centres of kernels, drawn from the rows; all rows if there are fewer. The kernel
        is chosen on 4,000 rows at most.
    gammas : array-like, default=(0.1, 0.3, 1, 3)
        Kernels to choose from, exp(−gamma ‖x − z‖² / n_features).
    alphas : array-like, default=None
        Penalties to choose from; by default 10⁻⁵, 10⁻⁴·⁵, …, 10³.
    random_state : int, RandomState instance or None, default=None
        Draws the centres. If there are more rows than centres, which of them are drawn depends on
        their order.

    Attributes
    ----------
    gamma_, alpha_ : float
        The kernel and the penalty chosen.
    slope_ : float
        Log-odds of an outcome per unit of its regression.
    n_classes_ : int
        Number of labels K.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(KernelDuels(), random_state=0).fit(X, y)
    >>> ranker.predict(X[[0, 50, 100]])
    array([0, 1, 2])
    """

    slope_: float
    gamma_: float
    _mean: Floats
    _scale: Floats
    _centres: Floats
    _roots: Floats
    _coef: Floats
    _offset: Floats
    _held_out: Floats

    def __init__(
        self,
        n_components: int = 500,
        *,
        gammas: Any = (0.1, 0.3, 1.0, 3.0),
        alphas: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.gammas = gammas
        self.alphas = alphas
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None) -> KernelDuels:
        """Choose a kernel and fit all duels.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Finite numbers, at most 1e150 in absolute value.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows. Whole numbers are counts, as long as they sum to 100,000 at most: a
            row that weighs 3 is three rows, of which one is left out at a time. With other weights
            it is left out as a whole. So divide weights that are costs by their mean; a large sum
            of whole numbers also takes long.

        Returns
        -------
        self : KernelDuels
            The fitted engine.
        """
        check_count("n_components", self.n_components)
        gammas = check_positives("gammas", self.gammas)
        alphas = np.logspace(-5, 3, 17)
        if self.alphas is not None:
            alphas = check_positives("alphas", self.alphas)
        rows = check_rows(self, X, feedback, n_classes, sample_weight, dtype=np.float64)
        check_magnitude(rows.X)
        n_rows = len(rows.X)
        rows, origin = rows.counted()
        points, weights = rows.X, rows.weights
        target = rows.outcomes(n_classes).astype(np.float64, order="C")
        progress = Progress(self, len(gammas) + 1, "kernel", verbose=False)
        with one_blas_thread(), progress:  # the rounding of all sums depends on the threads
            share = weights / weights.sum()
            mean = share @ points
            scale = np.sqrt(share @ (points - mean) ** 2)
            scale[scale <= 1e-12 * np.abs(mean)] = 1
            scale[scale == 0] = 1
            points = (points - mean) / scale
            shuffled = check_random_state(self.random_state).permutation(len(points))
            centres = points[shuffled[: self.n_components]]
            few = shuffled[:MOST_ROWS_TO_CHOOSE]
            kernels = [
                Kernel.around(centres, gamma / points.shape[1], NEGLIGIBLE) for gamma in gammas
            ]
            errors = []
            for kernel in kernels:
                errors.append(_solve(kernel, points[few], target[few], weights[few], alphas).error)
                progress.step()
            chosen = int(np.argmin(errors))
            best = _solve(kernels[chosen], points, target, weights, alphas)
            known = target != 0
            known_weights = np.broadcast_to(weights[:, np.newaxis], known.shape)[known]
            slope = _slope((best.held_out * target)[known], known_weights)
            progress.step()

        self.gamma_, self.alpha_ = float(gammas[chosen]), best.penalty
        self.n_classes_ = n_classes
        self.slope_ = slope
        self._mean, self._scale = mean, scale
        _, coef, offset = best.regression
        self._centres, _, self._roots = best.regression.kernel
        # Far from its rows, a regression could let the label win that never did. The label that
        # always wins gets a constant margin instead.
        second_wins, first_wins = (target > 0).any(axis=0), (target < 0).any(axis=0)
        winner = second_wins.astype(np.float64) - first_wins
        one_sided = second_wins != first_wins
        self._coef = np.where(one_sided, 0, coef)
        self._offset = np.where(one_sided, winner, offset)
        self._held_out = np.zeros((n_rows, target.shape[1]))
        self._held_out[origin] = np.where(one_sided, winner, best.held_out)
        return self

    def margins(self, X: Any) -> Floats:
        """Return the margins of all duels, the log-odds that the second label wins.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Positive when the second label of the duel wins.
        """
        check_is_fitted(self, "slope_")
        X = validated_points(self, X, dtype=np.float64)
        kernel = Kernel(self._centres, self.gamma_ / X.shape[1], self._roots)
        regression = Regression(kernel, self._coef, self._offset)
        margins = np.empty((len(X), self._coef.shape[1]))
        with one_blas_thread():
            for batch in batches(len(X), BATCH_ROWS):
                with np.errstate(over="ignore"):
                    points = (X[batch] - self._mean) / self._scale
                points = np.clip(points, -FARTHEST, FARTHEST)
                margins[batch] = self.slope_ * regression.predict(points)
        return margins

    def probabilities(self, X: Any) -> Floats:
        """Return the probability that the second label wins, for all duels.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        probabilities : ndarray of shape (n, K(K−1)/2)
            One column per duel.
        """
        probabilities: Floats = expit(self.margins(X))
        return probabilities

    @property
    def keeps_training_rows(self) -> bool:
        """Whether it is fitted: the centres of the kernel are training rows."""
        return hasattr(self, "_centres")

    def held_out_margins(self) -> Floats:
        """Return the margins of the rows of fit, each by a fit without the row.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Log-odds; 0 for rows without weight.
        """
        check_is_fitted(self, "slope_")
        return self.slope_ * self._held_out

    def check_fitted(self, n_classes: int) -> None:
        """Check that the fitted arrays fit together.

        Parameters
        ----------
        n_classes : int
            Number of labels K.

        Raises
        ------
        ValueError
            If they do not, as in a file that was altered.
        """
        n_duels, n_features = n_pairs(n_classes), self.n_features_in_
        n_centres, n_kept = self._roots.shape
        shapes = {
            "_mean": (n_features,),
            "_scale": (n_features,),
            "_centres": (n_centres, n_features),
            "_roots": (n_centres, n_kept),
            "_coef": (n_kept, n_duels),
            "_offset": (n_duels,),
            "_held_out": (len(self._held_out), n_duels),
        }
        check_counts(
            self.n_classes_ == n_classes
            and all(is_finite_array(getattr(self, name), "f", shapes[name]) for name in shapes)
            and bool((self._scale > 0).all())
            and bool((np.abs(self._centres) <= LARGEST).all())
            and all(
                type(value) is float and 0 < value < np.inf for value in (self.gamma_, self.slope_)
            )
        )


def _solve(
    kernel: Kernel, points: Floats, target: Floats, weights: Floats, alphas: Floats
) -> Solution:
    """Regress outcomes with the best of the penalties. Outcomes of 0 do not count in its error."""
    known = target != 0
    return solve(kernel, points, target, weights, alphas, least_slack=LEAST_SLACK, counted=known)


def _slope(signed: Floats, weights: Floats) -> float:
    """Return the slope that makes log-odds of predictions, with the smallest log loss.

    Parameters
    ----------
    signed : ndarray of shape (m,)
        Predictions times outcomes: positive where they are right.
    weights : ndarray of shape (m,)
        Weights of the predictions.
    """

    def loss(log_slope: float) -> float:
        return float(weights @ np.logaddexp(0, -np.exp(log_slope) * signed))

    if len(signed) == 0:
        return 1.0
    found = minimize_scalar(loss, bounds=(-LARGEST_LOG_SLOPE, LARGEST_LOG_SLOPE), method="bounded")
    return float(np.exp(found.x))
