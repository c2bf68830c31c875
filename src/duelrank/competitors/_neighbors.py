"""NeighborsRanker: medians of the rankings nearby."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from duelrank._batches import batches
from duelrank._parameters import check_choice, check_count
from duelrank.competitors._competitor import Competitor
from duelrank.consensus import MEDIANS, duels_won_by_group, early_ties, plackett_luce_weights

BATCH_BYTES = 2**26  # of the ranks of the neighbours of a batch
# Few rows rarely determine Plackett-Luce weights. So every label also wins a duel against every
# other one, whose weight is this share of the weight of an average row that is the nearest one.
PENALTY = 0.1


class NeighborsRanker(Competitor):
    """Rank labels by the consensus of the nearest rows.

    Cheng, Hühn & Hüllermeier (2009) fit Mallows' model to the neighbours, whose centre is their
    Kemeny median (``consensus="kemeny"``, ``weights="uniform"``); the default here is the Borda
    median of neighbours weighed by distance.

    Parameters
    ----------
    n_neighbors : int, default=10
        How many rows; all of them if there are fewer. Distances are Euclidean: put a
        ``StandardScaler`` in front of features of different units.
    weights : {"uniform", "distance"}, default="distance"
        Whether all neighbours count the same or by the inverse of their distance. Sample weights
        multiply either.
    consensus : {"borda", "copeland", "kemeny", "plackett_luce"}, default="borda"
        Which median of the neighbours' rankings, as in `duelrank.consensus`. "plackett_luce" is the
        order of the labels' weights, fitted with a penalty of 0.1 after sample weights are divided
        by their mean. It takes no ties but those at the end of a ranking.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`.
    n_jobs : int, default=None
        Number of jobs of the search for neighbours.
    random_state : int, RandomState instance or None, default=None
        Source of the label order that decides between labels that nothing tells apart.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    label_order_ : ndarray of int, of shape (K,)
        Codes of the labels. Of two labels that nothing else tells apart, the first one here wins.
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
    >>> from duelrank.competitors import NeighborsRanker
    >>> X, ranks = [[0], [1], [2], [3]], [[1, 2, 3], [1, 3, 2], [2, 3, 1], [3, 2, 1]]
    >>> NeighborsRanker(1, random_state=0).fit(X, ranks).predict_ranks([[0.1], [1.9]])
    array([[1, 2, 3],
           [2, 3, 1]])
    """

    _search: NearestNeighbors
    _ranks: NDArray[np.float64]
    _row_weights: NDArray[np.float64]
    _weighting: str
    _consensus: str

    def __init__(
        self,
        n_neighbors: int = 10,
        *,
        weights: str = "distance",
        consensus: str = "borda",
        classes: Any = None,
        unplaced: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.consensus = consensus
        self.classes = classes
        self.unplaced = unplaced
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self,
        X: Any,
        ranks: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        rng: np.random.RandomState,
    ) -> dict[str, Any]:
        check_count("n_neighbors", self.n_neighbors)
        check_choice("weights", self.weights, ("uniform", "distance"))
        check_choice("consensus", self.consensus, (*MEDIANS, "plackett_luce"))
        if self.consensus == "plackett_luce" and np.any(early_ties(ranks)):
            raise ValueError(
                "consensus='plackett_luce' takes no ties but those at the end of a ranking; y has "
                "others."
            )
        n_neighbors = min(self.n_neighbors, len(ranks))
        return {
            "_search": NearestNeighbors(n_neighbors=n_neighbors, n_jobs=self.n_jobs).fit(X),
            "_ranks": ranks,
            # The penalty of Plackett-Luce weights is in units of a row.
            "_row_weights": np.ones(len(ranks)) if weights is None else weights / weights.mean(),
            "_weighting": self.weights,
            "_consensus": self.consensus,
        }

    def _scores(self, X: Any) -> NDArray[np.float64]:
        distances, neighbors = self._search.kneighbors(X)
        weights = self._row_weights[neighbors]
        if self._weighting == "distance":
            weights = weights * _closeness(distances)
        bytes_of_a_point = 8 * neighbors.shape[1] * self._ranks.shape[1]
        return np.concatenate(
            [
                self._medians(self._ranks[neighbors[batch]], weights[batch])
                for batch in batches(len(neighbors), BATCH_BYTES // bytes_of_a_point)
            ]
        )

    def _medians(
        self, ranks: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Score the labels by the (g, n, K) ranks of the neighbours and their (g, n) weights."""
        if self._consensus == "plackett_luce":
            fitted: NDArray[np.float64] = np.log(plackett_luce_weights(ranks, weights, PENALTY))
            return np.round(fitted, 8)
        return MEDIANS[self._consensus](duels_won_by_group(ranks, weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _closeness(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return inverse distances relative to the nearest; where that is 0, only such rows count."""
    nearest = distances[:, :1]
    return np.where(distances > 0, nearest / np.where(distances > 0, distances, 1), 1)
