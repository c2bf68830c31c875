"""LinearDuels: duels with linear margins, and how many of them every label wins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._batches import batches
from duelrank._pairs import n_pairs, pairs, runs_of_duels, sides_of_labels
from duelrank._threads import one_blas_thread, threads_of_blas
from duelrank.blocks import refuse_blocks
from duelrank.duels._protocol import Engine, check_counts
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._loss import wrong_side
from duelrank.duels.logistic._result import FittedDuels

# Above so many labels, the sums that break ties are taken in single precision.
MOST_LABELS_IN_DOUBLE = 256
# How many points and duels are counted at a time, with many labels or few.
WIN_ROWS, WIN_COLUMNS = 256, 1024
FEW_LABELS, FEW_LABELS_ROWS = 40, 2048


class LinearDuels(Engine):
    """Duels with linear margins ``X @ coef_.T + intercept_``: the parent of the logistic ones."""

    tol: float
    max_iter: int
    coef_: Floats
    intercept_: Floats
    decrement_: Floats
    n_iter_: NDArray[np.intp]
    converged_: NDArray[np.bool_]
    n_classes_: int

    def margins(self, X: Any) -> Floats:
        """Return the margins of all duels, the log-odds that the second label wins.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Positive when the second label of the duel wins.
        """
        X = self._check_points(X)
        with one_blas_thread():
            margins: Floats = X @ self.coef_.T
        margins += self.intercept_
        return margins

    def probabilities(self, X: Any) -> Floats:
        """Return the probability that the second label wins, for all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.

        Returns
        -------
        probabilities : ndarray of shape (n, K(K−1)/2)
            One column per duel.
        """
        margins = self.margins(X)
        return expit(margins, out=margins)

    def margins_and_probabilities(self, X: Any) -> tuple[Floats, Floats]:
        """Return both from one product.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.

        Returns
        -------
        margins, probabilities : ndarrays of shape (n, K(K−1)/2)
            As by the methods of these names.
        """
        margins = self.margins(X)
        return margins, expit(margins)

    def wins(
        self, X: Any, label_order: NDArray[np.intp], with_expected: bool = True
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count the duels that every label wins, and those it can expect to win.

        Margins are computed for some points and duels at a time, and never held together.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.
        label_order : ndarray of int, of shape (K,)
            Codes, favoured label first: it wins a duel with margin 0.
        with_expected : bool, default=True
            Whether the second result is wanted.

        Returns
        -------
        wins : ndarray of int, of shape (n, K)
            Number of duels won.
        expected : ndarray of float, of shape (n, K)
            Sum of the probabilities to win; zeros if not wanted.
        """
        X = self._check_points(X)
        n_classes = self.n_classes_
        dtype = self.coef_.dtype if n_classes <= MOST_LABELS_IN_DOUBLE else np.dtype(np.float32)
        few = n_classes <= FEW_LABELS
        duels = _Duels(
            self.coef_.astype(dtype),
            self.intercept_.astype(dtype),
            _margins_to_exceed(label_order, dtype),
        )
        wins = np.empty((X.shape[0], n_classes), dtype=np.int64)
        expected = np.zeros((X.shape[0], n_classes))
        # Of K−1 duels, label k is the second one in k and the first one in the others.
        as_second = np.arange(n_classes)
        # With few labels all duels are one run, and a product sums over them.
        sides = sides_of_labels(n_classes).astype(dtype) if few else None

        def count(rows: slice) -> None:
            points = X[rows].astype(dtype, copy=False)
            won, chance = _count_wins(points, duels, n_classes, sides, with_expected)
            wins[rows] = won + (n_classes - 1 - as_second)
            if with_expected:
                expected[rows] = chance + as_second

        with threads_of_blas() as threads:
            threads.map(count, list(batches(X.shape[0], FEW_LABELS_ROWS if few else WIN_ROWS)))
        return wins, expected

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
        n_duels = n_pairs(n_classes)
        check_counts(
            self.coef_.shape == (n_duels, self.n_features_in_)
            and self.intercept_.shape == (n_duels,)
            and self.coef_.dtype.kind == self.intercept_.dtype.kind == "f"
            and self.n_classes_ == n_classes
        )

    def _keep(self, fitted: FittedDuels, n_classes: int) -> None:
        """Keep the result of a fit."""
        self.coef_, self.intercept_ = fitted.coef, fitted.intercept
        self.decrement_, self.n_iter_ = fitted.decrement, fitted.n_iter
        self.converged_ = fitted.decrement <= self.tol
        self.n_classes_ = n_classes

    def _check_points(self, X: Any) -> Any:
        check_is_fitted(self, "coef_")
        refuse_blocks(X, "a DuelRanker takes blocks")
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=self.coef_.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Duels(NamedTuple):
    """Coefficients (P, d), intercepts (P,), and the margins above which the second label wins."""

    coef: Floats
    intercept: Floats
    threshold: Floats


def _margins_to_exceed(label_order: NDArray[np.intp], dtype: np.dtype[Any]) -> Floats:
    """Return what margins must exceed for the second label to win; a favoured one wins at 0."""
    place = np.argsort(label_order)
    first, second = pairs(len(label_order))
    below_zero = -np.finfo(dtype).smallest_subnormal
    return np.where(place[second] < place[first], below_zero, 0).astype(dtype)


def _count_wins(
    points: Any, duels: _Duels, n_classes: int, sides: Floats | None, with_expected: bool
) -> tuple[NDArray[Any], Floats]:
    """Count duels won as second label minus duels lost as first label, and the same of chances.

    `sides`, (P, K), are 1 for the second and −1 for the first label of a duel. Without them, duels
    are counted label by label.
    """
    coef, intercept, threshold = duels
    n_points, dtype = points.shape[0], coef.dtype
    won = np.zeros((n_points, n_classes), dtype=np.int32 if sides is None else dtype)
    chance = np.zeros((n_points, n_classes), dtype=dtype)
    for labels, run in runs_of_duels(n_classes, WIN_COLUMNS):
        margins = points @ coef[run].T
        margins += intercept[run]
        second_wins = margins > threshold[run]
        if sides is not None:
            won += second_wins.astype(dtype) @ sides
        else:
            for label, columns in labels:
                won[:, label + 1 :] += second_wins[:, columns]
                won[:, label] -= np.count_nonzero(second_wins[:, columns], axis=1)
        if not with_expected:
            continue
        first_expects = wrong_side(margins, out=margins)
        if sides is not None:
            chance -= first_expects @ sides
        else:
            for label, columns in labels:
                chance[:, label + 1 :] -= first_expects[:, columns]
                chance[:, label] += first_expects[:, columns].sum(axis=1)
    return won, chance
