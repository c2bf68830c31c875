"""Nodes of trees: what the rows in them say about duels, and the probabilities that follow.

Every node counts its rows in which the second label of a duel wins (`won`), and all of its rows
that tell the outcome (`fought`). There are two ways to count: a row with a single label tells the
outcome of all duels of that label, so that label counts suffice (`LabelCounts`); rankings are
counted duel by duel (`OutcomeCounts`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._pairs import pairs

Floats = NDArray[np.float32]


class Nodes:
    """Nodes of some trees, numbered level by level from the roots down.

    Parameters
    ----------
    trees : list of Tree
        Trees of scikit-learn.
    leaves : ndarray of int, of shape (n, number of trees), default=None
        The leaf of every point in every tree. Nodes that no point passes are left out. By default
        no node is.

    Attributes
    ----------
    start : ndarray of int, of shape (number of trees,)
        The first node of every tree, when the nodes of all trees are counted one after the other.
    nodes : ndarray of int, of shape (N,)
        The nodes, counted this way. Those of a level follow each other, and siblings as well.
    place : ndarray of int
        The position of every node in `nodes`; −1 if it is left out.
    """

    def __init__(self, trees: list[Any], leaves: NDArray[np.integer] | None = None) -> None:
        sizes = np.array([tree.node_count for tree in trees])
        self.start = np.cumsum(sizes) - sizes
        left, right = (_children(trees, self.start, side) for side in ("left", "right"))
        inner = np.flatnonzero(left >= 0)
        parent = np.arange(len(left))
        parent[left[inner]] = parent[right[inner]] = inner
        is_passed = np.ones(len(left), dtype=bool)
        if leaves is not None:
            is_passed = _passed(np.unique(leaves + self.start), parent)

        level, levels = self.start[is_passed[self.start]], []
        while len(level):
            levels.append(level)
            inner = level[left[level] >= 0]
            children = np.stack([left[inner], right[inner]], axis=1).ravel()
            level = children[is_passed[children]]
        self.nodes = np.concatenate(levels) if levels else self.start[:0]
        self.place = np.full(len(left), -1)
        self.place[self.nodes] = np.arange(len(self.nodes))
        self._parents = self.place[parent[self.nodes]]
        self._ends = np.cumsum([len(level) for level in levels]).tolist()

    def __len__(self) -> int:
        return len(self.nodes)

    def sums(self, values: Floats) -> Floats:
        """Add up the values of leaves, (N, D), in the nodes above them; no node is left out."""
        for start, stop in reversed(list(pairwise(self._ends))):
            both = values[start:stop:2] + values[start + 1 : stop : 2]
            values[self._parents[start:stop:2]] = both
        return values

    def shrunk(self, won: Floats, fought: Floats, prior: Floats, shrinkage: np.float32) -> Floats:
        """Return the probabilities in all nodes, each shrunk towards that of its parent, (N, D).

        Both counts, (N, D), are overwritten.
        """
        p = won
        fought += shrinkage
        for start, stop in pairwise([0, *self._ends]):
            above = p[self._parents[start:stop]] if start else prior
            p[start:stop] += shrinkage * above
            p[start:stop] /= fought[start:stop]
        return p


class LabelCounts:
    """The label counts of nodes, for rows with a single label.

    Parameters
    ----------
    trees : list of Tree
        Trees of a classifier: they know the shares of the labels in their nodes.
    nodes : Nodes
        Nodes of these trees.
    codes : ndarray of int
        The labels that the classifier knows.
    n_classes : int
        Number of labels K.
    """

    def __init__(
        self, trees: list[Any], nodes: Nodes, codes: NDArray[np.intp], n_classes: int
    ) -> None:
        self._counts = np.zeros((len(nodes), n_classes), dtype=np.float32)
        for tree, start in zip(trees, nodes.start, strict=True):
            places = nodes.place[start : start + tree.node_count]
            passed = np.flatnonzero(places >= 0)
            n_rows = tree.weighted_n_node_samples[passed, np.newaxis]
            self._counts[np.ix_(places[passed], codes)] = tree.value[passed, 0] * n_rows
        self._first, self._second = pairs(n_classes)

    def outcomes(self, duels: slice) -> tuple[Floats, Floats]:
        """Return the rows in which the second label wins, and those that tell the outcome."""
        won = np.take(self._counts, self._second[duels], axis=1)
        fought = np.take(self._counts, self._first[duels], axis=1)
        fought += won
        return won, fought


class OutcomeCounts:
    """The outcomes of duels in nodes, for rankings.

    Parameters
    ----------
    nodes : Nodes
        All nodes of some trees.
    leaves : ndarray of int, of shape (m, number of trees)
        The leaf of every row in every tree.
    weights : ndarray of float32, of shape (m, number of trees)
        What every row weighs in every tree.
    outcomes : ndarray of int8, of shape (m, P)
        1 where the second label wins, −1 where the first one does, 0 where a row says nothing.
    """

    def __init__(
        self,
        nodes: Nodes,
        leaves: NDArray[np.integer],
        weights: Floats,
        outcomes: NDArray[np.int8],
    ) -> None:
        rows, trees = np.nonzero(weights)
        places = nodes.place[leaves[rows, trees] + nodes.start[trees]]
        self._in_leaf = sparse.csr_array(
            (weights[rows, trees], (places, rows)), shape=(len(nodes), len(outcomes))
        )
        self._nodes, self._outcomes = nodes, outcomes

    def outcomes(self, duels: slice) -> tuple[Floats, Floats]:
        """Return the rows in which the second label wins, and those that tell the outcome."""
        outcomes = self._outcomes[:, duels]
        # Rows must be contiguous: a sparse product copies them for every tree otherwise.
        won, fought = (
            self._nodes.sums(self._in_leaf @ rows.astype(np.float32, order="C"))
            for rows in (outcomes > 0, outcomes != 0)
        )
        return won, fought


def _children(trees: list[Any], start: NDArray[np.intp], side: str) -> NDArray[np.intp]:
    """Return the left or right child of every node, counted over all trees; −1 if it is a leaf."""
    children = [getattr(tree, f"children_{side}") for tree in trees]
    return np.concatenate(
        [
            np.where(of_tree < 0, -1, of_tree + first)
            for of_tree, first in zip(children, start, strict=True)
        ]
    )


def _passed(leaves: NDArray[np.intp], parent: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which nodes are these leaves or lie above them; a root is its own parent."""
    is_passed = np.zeros(len(parent), dtype=bool)
    nodes = leaves
    while len(nodes):
        is_passed[nodes] = True
        above = parent[nodes]
        nodes = above[~is_passed[above]]
    return is_passed
