"""StructuredRanker: kernel ridge regression of embedded rankings."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.metrics.pairwise import rbf_kernel

from duelrank._pairs import beats_from_square, square
from duelrank.competitors._competitor import Competitor, check_choice
from duelrank.competitors._embeddings import (
    lehmer_codes,
    permutation_matrices,
    ranks_from_lehmer_codes,
    ranks_from_matrices,
)
from duelrank.feedback import outcomes
from duelrank.tournaments._feedback_arc_set import solve

DECODERS = {
    "kemeny": ("feedback_arc_set", "copeland", "borda"),
    "hamming": ("assignment",),
    "lehmer": ("insertion",),
}
SEARCH_ROWS = 1000
# Directions of the kernel below this share of its largest one are rounding errors.
KERNEL_PRECISION = 1e-10


class StructuredRanker(Competitor):
    """Regress rankings embedded as vectors, and predict the ranking with the closest vector.

    Korba, Garcia & d'Alché-Buc (2018). The regression is kernel ridge with the Gaussian kernel
    exp(−g ‖x − x'‖²), exact up to `n_components` rows and by Nyström's method above. Kernel and
    penalty are those with the smallest leave-one-out error of the vectors.

    Parameters
    ----------
    embedding : {"kemeny", "hamming", "lehmer"}, default="kemeny"
        What vector a ranking becomes, and with it which distance is regressed:

        - "kemeny": the signs of all duels (Kendall's distance), 0 where a row says nothing;
        - "hamming": the permutation matrix, a row per label and a column per place;
        - "lehmer": for every label, how many of those before it in `label_order_` it is ahead of.

        The last two are averaged over all full rankings that agree with a row, if it leaves
        something open.
    decoder : str, default="auto"
        How a prediction becomes a ranking. "auto" is the ranking with the closest vector:
        "feedback_arc_set" for "kemeny" (exact where cycles have up to 16 labels), "assignment" for
        "hamming" and "insertion" for "lehmer". For "kemeny" there are also "copeland", by the
        number of positive predictions, and "borda", by their sum.
    gamma : float or sequence of floats, default=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
        The kernel's g, or several to choose from, in units of 1 / (n_features · variance of X),
        which scikit-learn calls "scale". Features of different units want a ``StandardScaler`` in
        front. It is chosen on at most 1000 rows.
    penalty : float or sequence of floats, default=(1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
        Weight of the squared norm of the coefficients, or several to choose from.
    n_components : int, default=1000
        The largest number of rows that span the regression.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`.
    random_state : int, RandomState instance or None, default=None
        Source of the label order that decides between labels that nothing tells apart, and of the
        choice of rows.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    label_order_ : ndarray of int, of shape (K,)
        Codes of the labels, the one favoured where nothing else decides first.
    gamma_, penalty_ : float
        What was chosen.
    n_features_in_ : int
        Number of features seen during fit.

    Examples
    --------
    >>> from duelrank.competitors import StructuredRanker
    >>> X, ranks = [[0], [1], [2], [3]], [[1, 2, 3], [1, 2, 3], [2, 3, 1], [2, 3, 1]]
    >>> StructuredRanker("hamming", random_state=0).fit(X, ranks).predict_ranks([[0], [2.5]])
    array([[1, 2, 3],
           [2, 3, 1]])
    """

    _regression: _Regression

    def __init__(
        self,
        embedding: str = "kemeny",
        *,
        decoder: str = "auto",
        gamma: float | Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        penalty: float | Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
        n_components: int = 1000,
        classes: Any = None,
        unplaced: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.embedding = embedding
        self.decoder = decoder
        self.gamma = gamma
        self.penalty = penalty
        self.n_components = n_components
        self.classes = classes
        self.unplaced = unplaced
        self.random_state = random_state

    def _learn(
        self,
        X: Any,
        ranks: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        rng: np.random.RandomState,
    ) -> None:
        check_choice("embedding", self.embedding, tuple(DECODERS))
        check_choice("decoder", self.decoder, ("auto", *DECODERS[self.embedding]))
        gammas = _positive_numbers("gamma", self.gamma)
        penalties = _positive_numbers("penalty", self.penalty)
        if not isinstance(self.n_components, Integral) or self.n_components < 1:
            raise ValueError(f"n_components must be a positive integer, got {self.n_components!r}.")
        vectors = _embed(ranks, self.embedding)
        shares = np.ones(len(ranks)) if weights is None else weights
        spread = X.shape[1] * _variance(X, shares)
        unit = 1 / spread if spread > 0 else 1.0
        drawn = rng.permutation(len(ranks))

        def regress(rows: NDArray[np.intp], gamma: float) -> _Regression:
            kernel = _Kernel(X[rows[: self.n_components]], gamma * unit)
            return _regress(kernel, X[rows], vectors[rows], shares[rows], penalties)

        gamma = gammas[0]
        if len(gammas) > 1:
            errors = [regress(drawn[:SEARCH_ROWS], gamma).error for gamma in gammas]
            gamma = gammas[int(np.argmin(errors))]
        self._regression = regress(drawn, gamma)
        self.gamma_, self.penalty_ = gamma, self._regression.penalty

    def _scores(self, X: Any) -> NDArray[np.float64]:
        vectors = self._regression.predict(X)
        n_classes = len(self.classes_)
        if self.embedding == "hamming":
            matrices = vectors.reshape(-1, n_classes, n_classes)
            return -ranks_from_matrices(matrices).astype(np.float64)
        if self.embedding == "lehmer":
            return -ranks_from_lehmer_codes(vectors).astype(np.float64)
        speaks_for = square(np.round(vectors, 10), n_classes)
        if self.decoder == "copeland":
            return beats_from_square(speaks_for).sum(axis=2) + _below_one(speaks_for.sum(axis=2))
        if self.decoder == "borda":
            return speaks_for.sum(axis=2)
        order, _ = solve(np.maximum(speaks_for, 0))
        return -np.argsort(order, axis=1).astype(np.float64)


class _Kernel:
    """Features whose inner products are the Gaussian kernel: exactly, if the basis is all rows."""

    def __init__(self, basis: NDArray[np.float64], gamma: float) -> None:
        self.basis = basis
        self.gamma = gamma
        eigenvalues, directions = eigh(rbf_kernel(basis, gamma=gamma))
        kept = eigenvalues > KERNEL_PRECISION * eigenvalues[-1]
        self.whiten = directions[:, kept] / np.sqrt(eigenvalues[kept])

    def features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        similarity: NDArray[np.float64] = rbf_kernel(X, self.basis, gamma=self.gamma)
        return similarity @ self.whiten


class _Regression(NamedTuple):
    """Kernel ridge regression of vectors, with its leave-one-out error."""

    kernel: _Kernel
    coefficients: NDArray[np.float64]
    intercept: NDArray[np.float64]
    penalty: float
    error: float

    def predict(self, X: Any) -> NDArray[np.float64]:
        return self.kernel.features(X) @ self.coefficients + self.intercept


def _regress(
    kernel: _Kernel,
    X: NDArray[np.float64],
    vectors: NDArray[np.float64],
    weights: NDArray[np.float64],
    penalties: list[float],
) -> _Regression:
    """Minimise Σ w ‖v − B'z − b‖² + penalty ‖B‖², with the penalty of least leave-one-out error.

    One eigendecomposition serves all penalties; a residual of the fit without a row is its
    residual divided by one minus its leverage.
    """
    features = kernel.features(X)
    mass = weights.sum()
    centre, middle = weights @ features / mass, weights @ vectors / mass
    root = np.sqrt(weights)[:, np.newaxis]
    Z, V = root * (features - centre), root * (vectors - middle)
    eigenvalues, basis = eigh(Z.T @ Z)
    eigenvalues = np.maximum(eigenvalues, 0)
    rotated = Z @ basis
    moments = rotated.T @ V
    squares = rotated**2
    errors = []
    for penalty in penalties:
        shrink = 1 / (eigenvalues + penalty)
        residuals = V - rotated @ (shrink[:, np.newaxis] * moments)
        leverages = squares @ shrink + weights / mass
        kept = np.maximum(1 - leverages, 1e-10)
        errors.append(float(np.sum((residuals / kept[:, np.newaxis]) ** 2)))
    best = int(np.argmin(errors))
    shrink = 1 / (eigenvalues + penalties[best])
    coefficients = basis @ (shrink[:, np.newaxis] * moments)
    return _Regression(
        kernel, coefficients, middle - centre @ coefficients, penalties[best], errors[best]
    )


def _variance(X: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the variance of all entries together, rows weighed."""
    mean = np.average(X.mean(axis=1), weights=weights)
    return float(np.average(((X - mean) ** 2).mean(axis=1), weights=weights))


def _embed(ranks: NDArray[np.float64], embedding: str) -> NDArray[np.float64]:
    """Return one vector per row."""
    if embedding == "kemeny":
        return outcomes(ranks).astype(np.float64)
    if embedding == "hamming":
        return permutation_matrices(ranks).reshape(len(ranks), -1)
    return lehmer_codes(ranks)


def _below_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squeeze numbers into (0, 1), in their order."""
    return 0.5 + 0.5 * values / (1 + np.abs(values))


def _positive_numbers(name: str, values: Any) -> list[float]:
    numbers = [values] if isinstance(values, Real) else list(values)
    if not numbers or not all(isinstance(v, Real) and float(v) > 0 for v in numbers):
        raise ValueError(f"{name} must be a positive number, or several; got {values!r}.")
    return [float(v) for v in numbers]
