"""ForestDuels: one forest for all duels.

The trees are grown on K numbers per row: for every label, the duels that it wins minus those that
it loses. Every node counts the outcomes of every duel among its rows. Where few rows of a leaf tell
the outcome of a duel, the nodes above contribute. With w wins of the second label among the r rows
that tell the outcome,

    p(node) = (w + shrinkage · p(parent)) / (r + shrinkage).

So one forest serves labels, lists and rankings. The probability of a point is the mean over the
trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._pairs import n_pairs, sides_of_labels
from duelrank._parameters import check_count, check_positive
from duelrank._progress import Progress
from duelrank._sklearn import bootstrap_weights, with_callbacks
from duelrank.duels._protocol import Engine, check_counts, is_finite_array
from duelrank.duels._sides import check_rows
from duelrank.feedback import outcomes, reveals_nothing

# Most nodes times duels of a table, which holds the probabilities of some trees.
TABLE_SIZE = 8_000_000
# Log-odds are those of probabilities that are at least this far from 0 and 1.
LEAST_PROBABILITY = 0.01
NO_CHILD = -1  # in place of the children of a leaf


_Table = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]
# Tables of engines in use. They are no attributes, so that copies and files do not hold them.
_cached_tables: WeakKeyDictionary[ForestDuels, list[_Table]] = WeakKeyDictionary()


class ForestDuels(Engine):
    """Duels fought by one random forest that they share.

    All duels share the trees, so the cost of growing these hardly depends on the number of labels.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    random_splits : bool, default=False
        Whether thresholds are drawn at random, as in extremely randomised trees.
    max_features : int, float, {"sqrt", "log2"} or None, default=0.5
        Features looked at for a split, as in scikit-learn's forests.
    min_samples_leaf : int, default=1
        Fewest rows of a leaf.
    max_samples : int, default=10000
        Most rows drawn for a tree, with replacement; it bounds the cost of a tree.
    shrinkage : float, default=0.3
        How many rows the parent of a node counts for.
    n_jobs : int, default=None
        Number of jobs over the trees.
    random_state : int, RandomState instance or None, default=None
        Draws the rows and the features of the trees.

    Attributes
    ----------
    forest_ : RandomForestRegressor or ExtraTreesRegressor
        The trees.
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
    >>> ranker = DuelRanker(ForestDuels(20), random_state=0).fit(X, y)
    >>> ranker.predict_order(X[[50, 100]])
    array([[1, 2, 0],
           [2, 1, 0]])
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        random_splits: bool = False,
        max_features: Any = 0.5,
        min_samples_leaf: Any = 1,
        max_samples: int = 10_000,
        shrinkage: float = 0.3,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.random_splits = random_splits
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_samples = max_samples
        self.shrinkage = shrinkage
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None) -> ForestDuels:
        """Grow the trees.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Finite numbers.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; their sum does not matter.

        Returns
        -------
        self : ForestDuels
            The fitted engine.
        """
        self._check_settings()
        rows = check_rows(self, X, feedback, n_classes, sample_weight, dtype=np.float32)
        X, weights, ranks = rows.X, rows.weights, rows.ranks(n_classes)
        used = (weights > 0) & ~reveals_nothing(ranks)
        if not used.any():  # then trees have one leaf, where all duels are undecided
            used = weights > 0
        X, outcome = X[used], outcomes(ranks[used])
        weights = weights[used] / weights[used].mean()
        grow = ExtraTreesRegressor if self.random_splits else RandomForestRegressor
        forest = grow(
            self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            max_samples=min(len(X), self.max_samples),
            bootstrap=True,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        with Progress(self, 1, "forest", verbose=False) as progress:
            forest.fit(X, _net_wins(outcome, n_classes), sample_weight=weights)
            progress.step()

        _cached_tables.pop(self, None)
        self.forest_, self.n_classes_ = forest, n_classes
        # Model files hold these under their names: which rows are used, their outcomes, (m, P),
        # their leaf in every tree, and their weight in its bootstrap sample, (m, T).
        self._told, self._decided = used, outcome
        self._leaves = forest.apply(X).astype(np.int32)
        self._drawn = bootstrap_weights(forest, weights).astype(np.float32)
        # Of all rows together, with half a win added on both sides.
        self._prior = (weights @ (outcome > 0) + 0.5) / (weights @ (outcome != 0) + 1)
        return self

    def margins(self, X: Any) -> NDArray[np.float64]:
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
        return _log_odds(self.probabilities(X))

    def probabilities(self, X: Any) -> NDArray[np.float64]:
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
        check_is_fitted(self, "forest_")
        X = validate_data(self, X, reset=False, dtype=np.float32)
        leaves = self.forest_.apply(X)
        return self._mean(leaves, np.ones(leaves.shape, dtype=bool))

    def margins_and_probabilities(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both from one walk through the trees.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        margins, probabilities : ndarrays of shape (n, K(K−1)/2)
            As by the methods of these names.
        """
        probabilities = self.probabilities(X)
        return _log_odds(probabilities), probabilities

    def held_out_margins(self) -> NDArray[np.float64]:
        """Return the margins of the rows of fit, each by the trees that have not seen it.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Log-odds. A row that all trees have seen gets those of all rows together.
        """
        check_is_fitted(self, "forest_")
        margins = np.tile(_log_odds(self._prior), (len(self._told), 1))
        margins[self._told] = _log_odds(self._mean(self._leaves, self._drawn == 0))
        return margins

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
        forest = self.forest_
        check_counts(isinstance(forest, (RandomForestRegressor, ExtraTreesRegressor)))
        trees = [tree.tree_ for tree in forest.estimators_]
        n_rows, n_duels = len(self._decided), n_pairs(n_classes)
        check_counts(
            self.n_classes_ == n_classes
            and forest.n_features_in_ == self.n_features_in_
            and len(trees) >= 1
            and is_finite_array(self._told, "b", (len(self._told),))
            and np.count_nonzero(self._told) == n_rows >= 1
            and is_finite_array(self._decided, "i", (n_rows, n_duels))
            and is_finite_array(self._prior, "f", (n_duels,))
            and is_finite_array(self._drawn, "f", (n_rows, len(trees)))
            and is_finite_array(self._leaves, "i", (n_rows, len(trees)))
        )
        # Every row lies in a leaf of every tree.
        check_counts(
            all(
                leaves.min() >= 0
                and leaves.max() < tree.node_count
                and (tree.children_left[leaves] == NO_CHILD).all()
                for tree, leaves in zip(trees, self._leaves.T, strict=True)
            )
        )

    def _check_settings(self) -> None:
        check_count("n_estimators", self.n_estimators)
        check_count("max_samples", self.max_samples)
        check_positive("shrinkage", self.shrinkage)

    def _mean(self, leaves: NDArray[np.integer], counts: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Average the probabilities in the leaves of points, (n, T), over the trees that count."""
        total = np.zeros((len(leaves), self._decided.shape[1]))
        for trees, start, probabilities in self._tables():
            these = counts[:, trees]
            ends = np.concatenate([[0], np.cumsum(np.count_nonzero(these, axis=1))])
            where = (leaves[:, trees] + start)[these]
            lookup = sparse.csr_array(
                (np.ones(len(where), dtype=np.float32), where, ends),
                shape=(len(leaves), len(probabilities)),
            )
            total += lookup @ probabilities
        n_trees = np.count_nonzero(counts, axis=1)[:, np.newaxis]
        return np.where(n_trees > 0, total / np.maximum(n_trees, 1), self._prior)

    def _tables(self) -> Iterable[_Table]:
        """Return one table of all trees and cache it; or several, not cached, if it is large."""
        if self not in _cached_tables:
            n_nodes = sum(tree.tree_.node_count for tree in self.forest_.estimators_)
            if n_nodes * self._decided.shape[1] > TABLE_SIZE:
                return self._make_tables()
            _cached_tables[self] = list(self._make_tables())
        return _cached_tables[self]

    def _make_tables(self) -> Iterator[_Table]:
        """Yield numbers of trees, their first nodes in the table, and the nodes' probabilities."""
        n_nodes = np.array([tree.tree_.node_count for tree in self.forest_.estimators_])
        most = max(int(n_nodes.max()), TABLE_SIZE // self._decided.shape[1])
        wins = (self._decided > 0).astype(np.float32)
        tells_outcome = (self._decided != 0).astype(np.float32)
        prior = self._prior.astype(np.float32)
        part = (np.cumsum(n_nodes) - 1) // most
        for number in np.unique(part):
            trees = np.flatnonzero(part == number)
            start = np.cumsum(n_nodes[trees]) - n_nodes[trees]
            nodes = _Nodes([self.forest_.estimators_[t].tree_ for t in trees], start)
            rows, of_tree = np.nonzero(self._drawn[:, trees])
            leaves = self._leaves[rows, trees[of_tree]] + start[of_tree]
            in_leaf = sparse.csr_array(
                (self._drawn[rows, trees[of_tree]], (leaves, rows)),
                shape=(int(n_nodes[trees].sum()), len(wins)),
            )
            won, fought = nodes.sums(in_leaf @ wins), nodes.sums(in_leaf @ tells_outcome)
            yield trees, start, nodes.shrunk(won, fought, prior, np.float32(self.shrinkage))


class _Nodes:
    """The nodes of some trees, numbered consecutively, and their levels from the roots down."""

    def __init__(self, trees: list[Any], start: NDArray[np.intp]) -> None:
        left, right = (
            np.concatenate(
                [
                    np.where(getattr(tree, side) < 0, -1, getattr(tree, side) + first)
                    for tree, first in zip(trees, start, strict=True)
                ]
            )
            for side in ("children_left", "children_right")
        )
        self.roots = start
        # For every level: its nodes with children, their left children, their right children.
        self.levels: list[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]] = []
        level = start
        while len(inner := level[left[level] >= 0]):
            self.levels.append((inner, left[inner], right[inner]))
            level = np.concatenate([left[inner], right[inner]])

    def sums(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add up the values of leaves, (nodes, P), in the nodes above them."""
        for inner, left, right in reversed(self.levels):
            values[inner] = values[left] + values[right]
        return values

    def shrunk(
        self,
        won: NDArray[np.float32],
        fought: NDArray[np.float32],
        prior: NDArray[np.float32],
        shrinkage: np.float32,
    ) -> NDArray[np.float32]:
        """Return the probabilities of all nodes, each shrunk towards that of its parent.

        `won` and `fought`, (nodes, P), count the rows where the second label wins, and all rows
        that tell the outcome. `won` is overwritten.
        """
        roots, p = self.roots, won
        p[roots] = (won[roots] + shrinkage * prior) / (fought[roots] + shrinkage)
        for inner, left, right in self.levels:
            from_parent = shrinkage * p[inner]
            for child in (left, right):
                p[child] = (won[child] + from_parent) / (fought[child] + shrinkage)
        return p


def _net_wins(outcome: NDArray[np.int8], n_classes: int) -> NDArray[np.float64]:
    """Count the duels that every label wins minus those it loses, (n, K)."""
    return outcome @ sides_of_labels(n_classes)


def _log_odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    bounded = np.clip(probabilities, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    odds: NDArray[np.float64] = np.log(bounded / (1 - bounded))
    return odds
