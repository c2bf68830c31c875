"""StructuredRanker: kernel ridge regression of embedded rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._kernel_ridge import Kernel, Regression, Solution, check_positives
from duelrank._kernel_ridge import solve as solve_ridge
from duelrank._pairs import beats_from_square, square
from duelrank._parameters import check_choice, check_count
from duelrank._threads import one_blas_thread
from duelrank.competitors._competitor import Competitor
from duelrank.competitors._embeddings import (
    lehmer_codes,
    permutation_matrices,
    ranks_from_lehmer_codes,
    ranks_from_matrices,
)
from duelrank.feedback import outcomes
from duelrank.tournaments import solve_feedback_arc_set

DECODERS = {
    "kemeny": ("feedback_arc_set", "copeland", "borda"),
    "hamming": ("assignment",),
    "lehmer": ("insertion",),
}
SEARCH_ROWS = 1000
# Directions whose share of the kernel is smaller are rounding errors, and so are smaller slacks.
NEGLIGIBLE, LEAST_SLACK = 1e-10, 1e-10


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
        which scikit-learn calls "scale". Put a ``StandardScaler`` in front of features of different
        units. It is chosen on at most 1000 rows.
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
        Codes of the labels. Of two labels that nothing else tells apart, the first one here wins.
    gamma_, penalty_ : float
        What was chosen.
    unplaced_ : {"behind", "unknown"}
        Where labels without a place were taken to be.
    n_silent_rows_ : int
        Number of rows that place no label ahead of another.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from duelrank.competitors import StructuredRanker
    >>> X, ranks = [[0], [1], [2], [3]], [[1, 2, 3], [1, 2, 3], [2, 3, 1], [2, 3, 1]]
    >>> StructuredRanker("hamming", random_state=0).fit(X, ranks).predict_ranks([[0], [2.5]])
    array([[1, 2, 3],
           [2, 3, 1]])
    """

    _regression: Regression
    _embedding: str
    _decoder: str

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
    ) -> dict[str, Any]:
        check_choice("embedding", self.embedding, DECODERS)
        check_choice("decoder", self.decoder, ("auto", *DECODERS[self.embedding]))
        gammas = check_positives("gamma", self.gamma)
        penalties = check_positives("penalty", self.penalty)
        check_count("n_components", self.n_components)
        vectors = _embed(ranks, self.embedding)
        shares = np.ones(len(ranks)) if weights is None else weights
        spread = X.shape[1] * _variance(X, shares)
        unit = 1 / spread if spread > 0 else 1.0
        drawn = rng.permutation(len(ranks))

        def regress(rows: NDArray[np.intp], gamma: float) -> Solution:
            kernel = Kernel.around(X[rows[: self.n_components]], gamma * unit, NEGLIGIBLE)
            return solve_ridge(
                kernel, X[rows], vectors[rows], shares[rows], penalties, least_slack=LEAST_SLACK
            )

        gamma = gammas[0]
        with one_blas_thread():
            if len(gammas) > 1:
                errors = [regress(drawn[:SEARCH_ROWS], gamma).error for gamma in gammas]
                gamma = gammas[int(np.argmin(errors))]
            best = regress(drawn, gamma)
        return {
            "gamma_": float(gamma),
            "penalty_": best.penalty,
            "_regression": best.regression,
            "_embedding": self.embedding,
            "_decoder": self.decoder,
        }

    def _scores(self, X: Any) -> NDArray[np.float64]:
        # Rounded, so that chance and not a rounding error decides between equally close rankings.
        vectors = np.round(self._regression.predict(X), 10)
        n_classes = len(self.classes_)
        if self._embedding == "hamming":
            matrices = vectors.reshape(-1, n_classes, n_classes)
            return -ranks_from_matrices(matrices).astype(np.float64)
        if self._embedding == "lehmer":
            return -ranks_from_lehmer_codes(vectors).astype(np.float64)
        speaks_for = square(vectors, n_classes)
        if self._decoder == "copeland":
            return beats_from_square(speaks_for).sum(axis=2) + _below_one(speaks_for.sum(axis=2))
        if self._decoder == "borda":
            return speaks_for.sum(axis=2)
        order, _ = solve_feedback_arc_set(np.maximum(speaks_for, 0))
        return -np.argsort(order, axis=1).astype(np.float64)


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
