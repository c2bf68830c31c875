"""ForestDuels: one forest for all duels.

The trees are grown on K numbers per row: for every label, the duels that it wins minus those that
it loses. If rows have single labels, this is what a classifier does that splits by Gini's index.
Every node counts the outcomes of every duel among its rows. Where few rows of a leaf tell the
outcome of a duel, the nodes above contribute. With w wins of the second label among the r rows that
tell the outcome,

    p(node) = (w + shrinkage · p(parent)) / (r + shrinkage).

So one forest serves labels, lists and rankings. The probability of a point is the mean over the
trees.

Nodes times duels are many numbers: 100 trees and 100 labels may have more than 10⁹. If they are
few, one table holds them all and is cached. Otherwise small tables are made when they are needed,
each for some trees and some duels.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from duelrank._batches import batches
from duelrank._pairs import n_pairs, sides_of_labels, sparse_sides_of_labels
from duelrank._parameters import check_count, check_positive
from duelrank._progress import Progress
from duelrank._sklearn import bootstrap_weights, with_callbacks
from duelrank.duels._forest_nodes import LabelCounts, Nodes, OutcomeCounts
from duelrank.duels._points import validated_points
from duelrank.duels._protocol import Engine, check_counts, is_finite_array
from duelrank.duels._sides import Rows, check_rows, count_sides
from duelrank.feedback import outcomes, reveals_nothing, single_labels

# Most nodes times duels of a table, unless a single tree has more.
TABLE_SIZE = 8_000_000
# Duels of a table, if it does not hold all of them.
TABLE_WIDTH = 256
# Points whose wins are counted together.
MOST_POINTS = 2**15
# Log-odds are those of probabilities that are at least this far from 0 and 1.
LEAST_PROBABILITY = 0.01
# Weights, and what nodes are shrunk by, are within this factor of 1: single precision has them.
LARGEST = 1e30
LARGEST_SHARE = 1 + 1e-6  # of a label in a node, rounded
NO_CHILD = -1  # in place of the children of a leaf

CLASSIFIERS = (RandomForestClassifier, ExtraTreesClassifier)
REGRESSORS = (RandomForestRegressor, ExtraTreesRegressor)


class _TreeBatch(NamedTuple):
    """Trees that share a table.

    Attributes
    ----------
    trees : slice
        Which trees of the forest.
    nodes : Nodes
        Their nodes.
    counts : LabelCounts or OutcomeCounts
        What the rows in the nodes say.
    """

    trees: slice
    nodes: Nodes
    counts: LabelCounts | OutcomeCounts


# Nodes and tables of engines in use. They are no attributes, so that copies and files do not hold
# them.
_cached_tables: WeakKeyDictionary[ForestDuels, tuple[Nodes, NDArray[np.float32]]] = (
    WeakKeyDictionary()
)


def _needs_several_tables(engine: ForestDuels) -> bool:
    return hasattr(engine, "forest_") and not engine._fits_in_one_table()


class ForestDuels(Engine):
    """Duels fought by one random forest that they share.

    All duels share the trees, so the cost of growing these hardly depends on the number of labels.
    The cost of a prediction grows with the number of duels.

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
        Draws the rows and the features of the trees. Which rows they are depends on their order.

    Attributes
    ----------
    forest_ : forest of scikit-learn
        The trees: a random forest, or extra-trees with `random_splits`. It is a classifier if all
        rows told a single label each, else a regressor.
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
            Finite numbers that single precision can hold, up to 3.4e38 in absolute value.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows. Whole numbers are counts, as long as they sum to 100,000 at most: a
            row that weighs 3 is drawn as if there were three of it. Of other weights only the
            ratios matter; so divide weights that are costs by their mean.

        Returns
        -------
        self : ForestDuels
            The fitted engine.
        """
        self._check_settings()
        rows = check_rows(self, X, feedback, n_classes, sample_weight, dtype=np.float32)
        used = rows.weights > 0
        if rows.feedback.ndim == 2 and (tells := used & ~reveals_nothing(rows.feedback)).any():
            used = tells  # otherwise trees have one leaf, where all duels are undecided
        rows = Rows(rows.X[used], rows.feedback[used], rows.weights[used])
        copies, origin = rows.counted()
        X, feedback = rows.X, rows.feedback
        weights = copies.weights / copies.weights.mean()
        codes = feedback if feedback.ndim == 1 else single_labels(feedback)
        target: NDArray[Any]
        if codes is None:
            outcome = outcomes(feedback)
            target = _net_wins(outcome, n_classes)
        else:  # of labels the trees know all counts
            outcome, target = None, codes
        forest = self._make_forest(len(copies.X), is_classifier=outcome is None)
        with Progress(self, 1, "forest", verbose=False) as progress:
            forest.fit(copies.X, target[origin], sample_weight=weights)
            progress.step()

        _cached_tables.pop(self, None)
        self.forest_, self.n_classes_ = forest, n_classes
        # Model files hold these under their names: which rows are used, their outcomes, (m, P), or
        # None if they are labels, their leaf in every tree, and their weight in its bootstrap
        # sample, (m, T).
        self._told, self._decided = used, outcome
        self._leaves = forest.apply(X).astype(np.int32)
        first_copies = np.flatnonzero(np.diff(origin, prepend=-1))
        drawn = np.add.reduceat(bootstrap_weights(forest, weights), first_copies)
        self._drawn = drawn.astype(np.float32)
        # Of all rows together, with half a win added on both sides.
        of_rows = np.add.reduceat(weights, first_copies)
        lost, won = count_sides(feedback if codes is None else codes, n_classes, of_rows)
        self._prior = (won + 0.5) / (lost + won + 1)
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
        X = self._check_points(X)
        probabilities = np.empty((len(X), n_pairs(self.n_classes_)))
        for duels, of_duels in self._means(self.forest_.apply(X)):
            probabilities[:, duels] = of_duels
        return probabilities

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

    @available_if(_needs_several_tables)
    def wins(
        self, X: Any, label_order: NDArray[np.intp], with_expected: bool = True
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count the duels that every label wins, and those it can expect to win.

        Forests whose nodes times duels fit in one table do not have this method: a ranker then
        makes its tournaments from the margins, which it needs for probabilities anyway.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.
        label_order : ndarray of int, of shape (K,)
            Codes, favoured label first: it wins a duel with margin 0.
        with_expected : bool, default=True
            Whether the second result is wanted; it costs next to nothing here.

        Returns
        -------
        wins : ndarray of int, of shape (n, K)
            Number of duels won.
        expected : ndarray of float, of shape (n, K)
            Sum of the probabilities to win.
        """
        X = self._check_points(X)
        sides = sparse_sides_of_labels(self.n_classes_)
        favours_second = np.sign(sides @ -np.argsort(label_order))
        net_wins, evidence = np.zeros((2, len(X), self.n_classes_))
        for rows in batches(len(X), MOST_POINTS):
            for duels, probabilities in self._means(self.forest_.apply(X[rows])):
                surplus = probabilities - 0.5
                winners = np.where(surplus == 0, favours_second[duels], np.sign(surplus))
                net_wins[rows] += winners @ sides[duels]
                evidence[rows] += surplus @ sides[duels]
        most = self.n_classes_ - 1
        return (net_wins.astype(np.int64) + most) // 2, evidence + most / 2

    def held_out_margins(self) -> NDArray[np.float64]:
        """Return the margins of the rows of fit, each by the trees that have not seen it.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Log-odds. A row that all trees have seen gets those of all rows together. Of a row that
            weighs more than 1, they have seen no copy.
        """
        check_is_fitted(self, "forest_")
        margins = np.tile(_log_odds(self._prior), (len(self._told), 1))
        for duels, probabilities in self._means(self._leaves, self._drawn == 0):
            margins[self._told, duels] = _log_odds(probabilities)
        return margins

    def leaf_probabilities(self) -> tuple[NDArray[np.float32], list[NDArray[np.intp]]]:
        """Return the probabilities of all duels in all leaves, for whoever walks the trees.

        Returns
        -------
        table : ndarray of float32, of shape (number of leaves, K(K−1)/2)
            Probability that the second label of every duel wins. The probability of a point is the
            mean over the leaves that it is in.
        rows : list of ndarrays of int
            For every tree, the row of every node in the table; −1 for nodes that are no leaves.
        """
        check_is_fitted(self, "forest_")
        trees = [tree.tree_ for tree in self.forest_.estimators_]
        is_leaf = np.concatenate([tree.children_left == NO_CHILD for tree in trees])
        rows = np.where(is_leaf, np.cumsum(is_leaf) - 1, -1)
        batch = self._tree_batch(slice(len(trees)))
        places = batch.nodes.place[is_leaf]
        table = np.empty((len(places), n_pairs(self.n_classes_)), dtype=np.float32)
        for duels in batches(table.shape[1], TABLE_WIDTH):
            table[:, duels] = self._table(batch, duels)[places]
        return table, np.split(rows, np.cumsum(self._n_nodes())[:-1])

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
        check_counts(isinstance(forest, CLASSIFIERS + REGRESSORS))
        trees = [tree.tree_ for tree in forest.estimators_]
        n_rows, n_duels = int(np.count_nonzero(self._told)), n_pairs(n_classes)
        check_counts(
            self.n_classes_ == n_classes
            and forest.n_features_in_ == self.n_features_in_
            and len(trees) >= 1
            and n_rows >= 1
            and is_finite_array(self._told, "b", (len(self._told),))
            and is_finite_array(self._prior, "f", (n_duels,))
            and is_finite_array(self._drawn, "f", (n_rows, len(trees)))
            and is_finite_array(self._leaves, "i", (n_rows, len(trees)))
        )
        if not (
            isinstance(self.shrinkage, Real)
            and 1 / LARGEST <= float(self.shrinkage) <= LARGEST
            and 0 <= self._prior.min() <= self._prior.max() <= 1
            and 0 <= self._drawn.min() <= self._drawn.max() <= LARGEST
        ):
            raise ValueError("a forest has weights or probabilities that cannot be")
        if isinstance(forest, CLASSIFIERS):
            check_counts(self._decided is None)
            _check_label_counts(trees, forest.classes_, n_classes)
        else:
            check_counts(is_finite_array(self._decided, "i", (n_rows, n_duels)))
        # Every row lies in a leaf of every tree.
        sizes, leaves = np.array([tree.node_count for tree in trees]), self._leaves
        check_counts(bool(np.all((leaves.min(axis=0) >= 0) & (leaves.max(axis=0) < sizes))))
        is_leaf = np.concatenate([tree.children_left for tree in trees]) == NO_CHILD
        check_counts(bool(is_leaf[leaves + (np.cumsum(sizes) - sizes)].all()))

    def _check_points(self, X: Any) -> Any:
        check_is_fitted(self, "forest_")
        return validated_points(self, X, dtype=np.float32)

    def _check_settings(self) -> None:
        check_count("n_estimators", self.n_estimators)
        check_count("max_samples", self.max_samples)
        check_positive("shrinkage", self.shrinkage)
        if not 1 / LARGEST <= float(self.shrinkage) <= LARGEST:
            raise ValueError(
                f"shrinkage must be between {1 / LARGEST:g} and {LARGEST:g}, got {self.shrinkage}."
            )

    def _make_forest(self, n_rows: int, is_classifier: bool) -> Any:
        random_forest, extra_trees = CLASSIFIERS if is_classifier else REGRESSORS
        return (extra_trees if self.random_splits else random_forest)(
            self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            max_samples=min(n_rows, self.max_samples),
            bootstrap=True,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def _means(
        self, leaves: NDArray[np.integer], is_asked: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield some duels at a time, and the means of their probabilities over trees, (n, D).

        `leaves` and `is_asked`, (n, T), are the leaf of every point in every tree, and whether the
        tree is asked about the point; by default all trees are. A point that no tree is asked about
        gets the probabilities of all rows together.
        """
        if is_asked is None:
            is_asked = np.ones(leaves.shape, dtype=bool)
        n_asked = np.count_nonzero(is_asked, axis=1)[:, np.newaxis]
        for duels, total in self._sums(leaves, is_asked):
            means = total / np.maximum(n_asked, 1)
            yield duels, np.where(n_asked > 0, means, self._prior[duels])

    def _sums(
        self, leaves: NDArray[np.integer], is_asked: NDArray[np.bool_]
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield some duels at a time, and the sums of their probabilities over trees, (n, D)."""
        n_duels = n_pairs(self.n_classes_)
        if self._fits_in_one_table():
            nodes, table = self._cached_table()
            total = _lookup(nodes, leaves, is_asked) @ table
            yield slice(n_duels), total.astype(np.float64)
            return
        of_trees = list(self._tree_batches(leaves))
        lookups = [
            _lookup(batch.nodes, leaves[:, batch.trees], is_asked[:, batch.trees])
            for batch in of_trees
        ]
        for duels in batches(n_duels, TABLE_WIDTH):
            total = np.zeros((len(leaves), duels.stop - duels.start))
            for batch, lookup in zip(of_trees, lookups, strict=True):
                total += lookup @ self._table(batch, duels)
            yield duels, total

    def _fits_in_one_table(self) -> bool:
        return sum(self._n_nodes()) * n_pairs(self.n_classes_) <= TABLE_SIZE

    def _n_nodes(self) -> list[int]:
        return [tree.tree_.node_count for tree in self.forest_.estimators_]

    def _cached_table(self) -> tuple[Nodes, NDArray[np.float32]]:
        """Return the nodes of all trees, and the probabilities of all duels in them."""
        if self not in _cached_tables:
            batch = self._tree_batch(slice(len(self.forest_.estimators_)))
            _cached_tables[self] = batch.nodes, self._table(batch, slice(None))
        return _cached_tables[self]

    def _tree_batches(self, leaves: NDArray[np.integer]) -> Iterator[_TreeBatch]:
        """Yield batches of trees. Which trees they hold does not depend on the points."""
        most_nodes = max(1, TABLE_SIZE // TABLE_WIDTH)
        number = (np.cumsum(self._n_nodes()) - 1) // most_nodes
        ends = [*np.flatnonzero(np.diff(number)) + 1, len(number)]
        for start, stop in pairwise([0, *ends]):
            yield self._tree_batch(slice(start, stop), leaves[:, start:stop])

    def _tree_batch(self, numbers: slice, leaves: NDArray[np.integer] | None = None) -> _TreeBatch:
        """Return trees and what their nodes count, for points in these leaves or anywhere."""
        forest = self.forest_
        trees = [tree.tree_ for tree in forest.estimators_[numbers]]
        if self._decided is None:
            nodes = Nodes(trees, leaves)
            counts = LabelCounts(trees, nodes, forest.classes_, self.n_classes_)
            return _TreeBatch(numbers, nodes, counts)
        nodes = Nodes(trees)
        rows = self._leaves[:, numbers], self._drawn[:, numbers], self._decided
        return _TreeBatch(numbers, nodes, OutcomeCounts(nodes, *rows))

    def _table(self, batch: _TreeBatch, duels: slice) -> NDArray[np.float32]:
        """Return the probabilities of some duels in the nodes of some trees, (N, D)."""
        prior = self._prior[duels].astype(np.float32)
        won, fought = batch.counts.outcomes(duels)
        return batch.nodes.shrunk(won, fought, prior, np.float32(self.shrinkage))


def _lookup(
    nodes: Nodes, leaves: NDArray[np.integer], is_asked: NDArray[np.bool_]
) -> sparse.csr_array:
    """Return a matrix that sums rows of a table for every point, those of its leaves, (n, N)."""
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(is_asked, axis=1))])
    places = nodes.place[(leaves + nodes.start)[is_asked]]
    ones = np.ones(len(places), dtype=np.float32)
    return sparse.csr_array((ones, places, ends), shape=(len(leaves), len(nodes)))


def _check_label_counts(trees: list[Any], codes: Any, n_classes: int) -> None:
    """Check that the trees of a classifier count labels."""
    check_counts(
        is_finite_array(codes, "i", (np.size(codes),))
        and codes[0] >= 0
        and codes[-1] < n_classes
        and (np.diff(codes) > 0).all()
    )
    for tree in trees:
        shares, weights = tree.value, tree.weighted_n_node_samples
        check_counts(
            shares.shape == (tree.node_count, 1, len(codes))
            and 0 <= shares.min() <= shares.max() <= LARGEST_SHARE
            and 0 <= weights.min() <= weights.max() <= LARGEST
        )


def _net_wins(outcome: NDArray[np.int8], n_classes: int) -> NDArray[np.float64]:
    """Count the duels that every label wins minus those it loses, (n, K)."""
    return outcome @ sides_of_labels(n_classes)


def _log_odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    bounded = np.clip(probabilities, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    odds: NDArray[np.float64] = np.log(bounded / (1 - bounded))
    return odds
