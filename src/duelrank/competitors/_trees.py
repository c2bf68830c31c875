"""RankingTree and RankingForest: medians of the rankings in a leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from duelrank._parameters import check_choice
from duelrank.competitors._competitor import Competitor
from duelrank.competitors._embeddings import expected_places
from duelrank.consensus import MEDIANS, duels_won_by_cell


class RankingTree(Competitor):
    """Rank labels by the consensus of the rows in the same leaf of a regression tree.

    The tree is grown on the places of all labels together (scikit-learn's multi-output regression
    tree): in a leaf the rows' places differ little. Places that a row leaves open are averaged as
    by `LabelwiseRanker`, and places of unknown labels are set to the label's mean.

    Cheng, Hühn & Hüllermeier (2009) split by the likelihood of Mallows' model and Yu, Wan & Lee
    (2011) by the impurity of pairs or choices; here splits minimise the squared error of the
    expected places.

    Parameters
    ----------
    max_depth : int, default=None
        The largest depth; unlimited by default.
    min_samples_leaf : int or float, default=5
        The least number, or share, of rows in a leaf.
    max_features : int, float, {"sqrt", "log2"} or None, default=None
        Number, or share, of the features to look at for a split; all by default.
    consensus : {"borda", "copeland", "kemeny"}, default="borda"
        Which median of the rankings in a leaf, as in `duelrank.consensus`.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`.
    random_state : int, RandomState instance or None, default=None
        Source of the label order that decides between labels that nothing tells apart, and of the
        tree's randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    label_order_ : ndarray of int, of shape (K,)
        Codes of the labels. Of two labels that nothing else tells apart, the first one here wins.
    estimator_ : DecisionTreeRegressor
        The regression tree.
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
    >>> from duelrank.competitors import RankingTree
    >>> X, ranks = [[0], [1], [2], [3]], [[1, 2, 3], [1, 2, 3], [2, 3, 1], [2, 3, 1]]
    >>> RankingTree(min_samples_leaf=1, random_state=0).fit(X, ranks).predict_ranks([[0], [2.5]])
    array([[1, 2, 3],
           [2, 3, 1]])
    """

    def __init__(
        self,
        *,
        max_depth: int | None = None,
        min_samples_leaf: float = 5,
        max_features: Any = None,
        consensus: str = "borda",
        classes: Any = None,
        unplaced: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.consensus = consensus
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
        check_choice("consensus", self.consensus, MEDIANS)
        tree = DecisionTreeRegressor(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            random_state=rng.randint(np.iinfo(np.int32).max),
        ).fit(X, _complete_places(ranks, weights), sample_weight=weights)
        nodes, scores, _ = _medians_of_leaves(tree.apply(X), ranks, weights, self.consensus)
        return {"estimator_": tree, "_medians": _by_node(tree, nodes, scores)}

    def _scores(self, X: Any) -> NDArray[np.float64]:
        return self._medians[self.estimator_.apply(X)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class RankingForest(Competitor):
    """Rank labels by the mean place that the medians of many trees give them (Borda).

    The trees are those of scikit-learn's random forest, grown as in `RankingTree` on rows drawn
    with replacement; the median of a leaf is that of all rows that end up in it. The median says
    nothing about two labels that none of these rows compares. So a leaf scores a label by the
    number of labels that it is ahead of, minus the number of those it is behind. Partial feedback
    needs larger leaves. The splits differ from those of Cheng, Hühn & Hüllermeier (2009) and Yu,
    Wan & Lee (2011) as those of `RankingTree` do.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    max_depth : int, default=None
        The largest depth; unlimited by default.
    min_samples_leaf : int or float, default=1
        The least number, or share, of rows in a leaf.
    max_features : int, float, {"sqrt", "log2"} or None, default="sqrt"
        Number, or share, of the features to look at for a split.
    consensus : {"borda", "copeland", "kemeny"}, default="borda"
        Which median of the rankings in a leaf, as in `duelrank.consensus`.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks; by default those that y names.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed, as in `duelrank.feedback.check_feedback`.
    n_jobs : int, default=None
        Number of jobs over the trees.
    random_state : int, RandomState instance or None, default=None
        Source of the label order that decides between labels that nothing tells apart, and of the
        forest's randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    label_order_ : ndarray of int, of shape (K,)
        Codes of the labels. Of two labels that nothing else tells apart, the first one here wins.
    estimator_ : RandomForestRegressor
        The regression forest.
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
    >>> from sklearn.datasets import load_iris
    >>> from duelrank.competitors import RankingForest
    >>> X, y = load_iris(return_X_y=True)
    >>> RankingForest(10, random_state=0).fit(X, y).predict_order(X[[60, 120]])
    array([[1, 2, 0],
           [2, 1, 0]])
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int | None = None,
        min_samples_leaf: float = 1,
        max_features: Any = "sqrt",
        consensus: str = "borda",
        classes: Any = None,
        unplaced: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
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
        check_choice("consensus", self.consensus, MEDIANS)
        forest = RandomForestRegressor(
            self.n_estimators,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            n_jobs=self.n_jobs,
            random_state=rng.randint(np.iinfo(np.int32).max),
        ).fit(X, _complete_places(ranks, weights), sample_weight=weights)
        by_tree = []
        for tree, leaves in zip(forest.estimators_, forest.apply(X).T):
            nodes, scores, compared = _medians_of_leaves(leaves, ranks, weights, self.consensus)
            ahead = compared & (scores[:, :, np.newaxis] > scores[:, np.newaxis, :])
            net_wins = ahead.sum(axis=2, dtype=np.int32) - ahead.sum(axis=1, dtype=np.int32)
            by_tree.append(_by_node(tree, nodes, net_wins))
        return {"estimator_": forest, "_net_wins": by_tree}

    def _scores(self, X: Any) -> NDArray[np.float64]:
        total = np.zeros((X.shape[0], len(self.classes_)))
        for net_wins, leaves in zip(self._net_wins, self.estimator_.apply(X).T):
            total += net_wins[leaves]
        return total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _complete_places(
    ranks: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return expected places, those of unknown labels replaced by the label's mean."""
    places = expected_places(ranks)
    known = ~np.isnan(places)
    share = known * (1.0 if weights is None else weights[:, np.newaxis])
    mass = share.sum(axis=0)
    sums = (share * np.where(known, places, 0)).sum(axis=0)
    middle = (ranks.shape[1] + 1) / 2
    means = np.where(mass > 0, sums / np.where(mass > 0, mass, 1), middle)
    return np.where(known, places, means)


def _medians_of_leaves(
    leaves: NDArray[np.intp],
    ranks: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    consensus: str,
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the nodes that are leaves, (m,), and of every leaf two arrays.

    These are the scores of its median, (m, K), and whether some of its rows compares two labels,
    (m, K, K).
    """
    nodes, cells = np.unique(leaves, return_inverse=True)
    won = duels_won_by_cell(ranks, cells, len(nodes), weights)
    compared = (won > 0) | (np.swapaxes(won, 1, 2) > 0)
    return nodes, MEDIANS[consensus](won), compared


def _by_node(
    tree: DecisionTreeRegressor, nodes: NDArray[np.intp], values: NDArray[Any]
) -> NDArray[Any]:
    """Write values of leaves, (m, K), as those of all nodes, zero inside the tree."""
    table = np.zeros((tree.tree_.node_count, values.shape[1]), dtype=values.dtype)
    table[nodes] = values
    return table
