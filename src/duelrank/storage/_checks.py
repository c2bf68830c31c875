"""Checks that loaded arrays fit together.

A file may hold trusted types only and still be hostile. Compiled code in scikit-learn does not
check the node numbers of a tree, the counts of a support vector machine or the indices of a sparse
matrix; wrong ones make it read memory that belongs to something else. So they are checked here,
before they are used; `_text_checks` has the vocabularies. Engines check themselves, when
`duelrank.duels.check_engine` asks them, and so do shortlists, and transformers of ours that have a
method ``check_fitted()``. All checks raise ValueError, which `load` turns into its own error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.ensemble import BaggingClassifier

from duelrank._pairs import n_pairs
from duelrank.duels import DuelEngine, check_engine
from duelrank.rankers import DuelRanker
from duelrank.shortlists import PlaceIntervals, Shortlister
from duelrank.storage._sklearn_models import (
    NODE_DTYPE,
    PREDICTOR_RECORD_DTYPE,
    BaseGradientBoosting,
    BaseLibSVM,
    Tree,
    TreePredictor,
)
from duelrank.storage._text_checks import check_columns, check_vectorizer

LEAF = -1
MOST_FEATURES = np.iinfo(np.int64).max
FLAGS = ("is_leaf", "is_categorical", "missing_go_to_left")  # of nodes of histogram boosting
OURS = "duelrank."


def check_packed(correct: bool) -> None:
    """Raise unless packed arrays have the form in which `pack` leaves them."""
    if not correct:
        raise ValueError("its packed arrays do not fit together")


def check_trees(states: list[Any]) -> None:
    """Check the arrays of decision trees before the trees are built from them."""
    for state in states:
        _check_tree_arrays(state)
    if not states:
        return
    sizes = np.array([len(state["nodes"]) for state in states])
    left, right, feature = (
        np.concatenate([state["nodes"][name] for state in states])
        for name in ("left_child", "right_child", "feature")
    )
    is_leaf = left == LEAF
    limits = np.array([state["n_features"] for state in states])
    _check_nodes(left, right, feature, is_leaf, np.repeat(limits, sizes), sizes)
    depths = np.array([state["max_depth"] for state in states])
    _require(
        bool(np.all((_depths(left, right, is_leaf, sizes) <= depths) & (depths <= sizes))),
        "the levels of a tree are not counted right",
    )


def _check_tree_arrays(state: Any) -> None:
    """Check types and shapes of the arrays of a tree, and that its numbers are numbers."""
    _require(isinstance(state, dict), "a tree has no arrays")
    n_features, n_classes, n_outputs = (
        state.get(name) for name in ("n_features", "n_classes", "n_outputs")
    )
    nodes, values, depth = (state.get(name) for name in ("nodes", "values", "max_depth"))
    _require(
        isinstance(n_features, int)
        and isinstance(n_outputs, int)
        and type(n_classes) is np.ndarray
        and n_classes.dtype == np.intp
        and n_classes.shape == (n_outputs,)
        and n_outputs >= 1
        and bool((n_classes >= 1).all()),
        "the outputs of a tree are not counted right",
    )
    _require(
        type(nodes) is np.ndarray
        and type(values) is np.ndarray
        and nodes.dtype == NODE_DTYPE
        and nodes.ndim == 1
        and len(nodes) >= 1
        and values.shape == (len(nodes), n_outputs, n_classes.max())
        and values.dtype == np.float64
        and bool(np.isfinite(values).all())
        and state.get("node_count") == len(nodes),
        "the nodes of a tree are not counted right",
    )
    _require(
        type(depth) is int and 0 <= depth <= len(nodes) and abs(n_features) <= MOST_FEATURES,
        "the levels of a tree are not counted right",
    )


def _depths(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    is_leaf: NDArray[np.bool_],
    sizes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the depths of trees that passed `_check_nodes`; every step doubles what is known."""
    starts = np.cumsum(sizes) - sizes
    parents = np.flatnonzero(~is_leaf)
    first = np.repeat(starts, sizes)[parents]
    above = np.arange(len(is_leaf))  # an ancestor of every node; roots have themselves
    above[left[parents] + first] = above[right[parents] + first] = parents
    depth = (above != np.arange(len(above))).astype(np.int64)  # how far the ancestor is away
    while not np.array_equal(further := above[above], above):
        depth += depth[above]
        above = further
    return np.maximum.reduceat(depth, starts)


def check_tree_predictor(state: Any) -> None:
    """Check the arrays of a tree of histogram gradient boosting, except for its features."""
    nodes = state.get("nodes")
    _require(
        type(nodes) is np.ndarray
        and nodes.dtype == PREDICTOR_RECORD_DTYPE
        and nodes.ndim == 1
        and len(nodes) >= 1
        and all((nodes[flag] <= 1).all() for flag in FLAGS)
        and bool(np.isfinite(nodes["value"]).all()),
        "the nodes of a tree are not counted right",
    )
    for name in ("binned_left_cat_bitsets", "raw_left_cat_bitsets"):
        bitsets = state.get(name)
        _require(
            type(bitsets) is np.ndarray
            and bitsets.dtype == np.uint32
            and bitsets.ndim == 2
            and bitsets.shape[1] == 8
            and not (nodes["bitset_idx"][nodes["is_categorical"] != 0] >= len(bitsets)).any(),
            "the categories of a tree are not counted right",
        )
    is_leaf = nodes["is_leaf"].astype(bool)
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    sizes = np.array([len(nodes)])
    _check_nodes(left, right, nodes["feature_idx"], is_leaf, MOST_FEATURES, sizes)


def _check_nodes(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    feature: NDArray[np.int64],
    is_leaf: NDArray[np.bool_],
    n_features: int | NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Check that children come after their parents, no child twice, and that features exist.

    Parameters
    ----------
    left, right, feature, is_leaf : ndarrays of shape (n,)
        The nodes of trees, one after the other. Every tree counts its own nodes from 0.
    n_features : int or ndarray of shape (n,)
        How many features there are, for every node.
    sizes : ndarray of int
        How many nodes every tree has.
    """
    parents = np.flatnonzero(~is_leaf)
    starts, ends = (np.repeat(place, sizes) for place in (np.cumsum(sizes) - sizes, sizes))
    own_number = parents - starts[parents]
    lower, upper = np.minimum(left[parents], right[parents]), np.maximum(left, right)[parents]
    _require(
        bool(np.all((lower > own_number) & (upper < ends[parents]))),
        "the nodes of a tree form no tree",
    )
    children = np.concatenate([left[parents], right[parents]]) + np.tile(starts[parents], 2)
    _require(not (np.bincount(children) > 1).any(), "the nodes of a tree form no tree")
    used = feature[parents]
    limit = n_features if isinstance(n_features, int) else n_features[parents]
    _require(
        not ((used < 0) | (used >= limit)).any(), "a tree asks for a feature that is not there"
    )


def check_estimator(estimator: Any) -> None:
    """Check what is known about an estimator, of whatever type."""
    tree = getattr(estimator, "tree_", None)
    if isinstance(tree, Tree):
        _require(
            tree.n_features == estimator.n_features_in_ and tree.n_outputs == estimator.n_outputs_,
            "a tree was fitted on other features than its classifier",
        )
    if isinstance(estimator, BaseGradientBoosting) and hasattr(estimator, "estimators_"):
        # A duel has two sides, so every iteration has one tree.
        _require(
            np.ndim(estimator.estimators_) == 2
            and estimator.estimators_.shape[1] == estimator.n_trees_per_iteration_ == 1,
            "the trees of a gradient boosting are not counted right",
        )
    if isinstance(estimator, BaseLibSVM) and hasattr(estimator, "_n_support"):
        _check_support_vectors(estimator)
    if hasattr(estimator, "_fit_X") and hasattr(estimator, "_y"):
        _require(
            estimator._y.shape[:1] == estimator._fit_X.shape[:1],
            "the neighbours of a classifier are not counted right",
        )
    _check_ensemble(estimator)
    if hasattr(estimator, "_predictors"):
        check_histogram_boosting(estimator)
    if isinstance(estimator, DuelRanker) and hasattr(estimator, "duels_"):
        _check_ranker(estimator)
    if isinstance(estimator, Shortlister) and hasattr(estimator, "calibration_scores_"):
        _check_shortlister(estimator)
    if isinstance(estimator, PlaceIntervals) and hasattr(estimator, "half_width_"):
        _require(
            type(estimator.half_width_) is float
            and estimator.width_ in ("constant", "duels")
            and _are_same_labels(estimator.classes_, estimator.estimator_.classes_),
            "the calibration of the places is not counted right",
        )
    check_vectorizer(estimator)
    check_columns(estimator)
    if isinstance(estimator, TransformerMixin) and type(estimator).__module__.startswith(OURS):
        _check_transformer(estimator)


def _check_ensemble(ensemble: Any) -> None:
    """Check that trees take as many features as their ensemble gives them; it does not check."""
    members = getattr(ensemble, "estimators_", None)
    if not isinstance(members, (list, np.ndarray)) or not hasattr(ensemble, "n_features_in_"):
        return
    listed = members.ravel().tolist() if type(members) is np.ndarray else members
    trees = [member for member in listed if hasattr(member, "tree_")]
    expected = {ensemble.n_features_in_}
    if isinstance(ensemble, BaggingClassifier):
        expected = {len(features) for features in ensemble.estimators_features_}
    _require(
        {tree.n_features_in_ for tree in trees} <= expected and len(expected) == 1,
        "a tree was fitted on other features than its ensemble",
    )


def _check_support_vectors(machine: Any) -> None:
    n_support, coefficients = machine._n_support, machine._dual_coef_
    n_vectors, n_duels = len(machine.support_), n_pairs(len(n_support))
    _require(
        n_support.ndim == 1
        and len(n_support) >= 2
        and bool((n_support >= 0).all())
        and int(n_support.sum()) == n_vectors
        and coefficients.shape == (len(n_support) - 1, n_vectors)
        and _is_full(coefficients)
        and len(machine._intercept_) == n_duels
        and len(machine._probA) == len(machine._probB)
        and len(machine._probA) in (0, n_duels),
        "the support vectors of a machine are not counted right",
    )
    # For sparse points, libsvm copies the probabilities if this flag is set.
    expected = getattr(machine, "_effective_probability", machine.probability)
    _require(not expected or len(machine._probA) == n_duels, "a machine has no probabilities")
    if machine.kernel == "precomputed" or callable(machine.kernel):
        is_given = machine.kernel == "precomputed"
        n_rows = machine.n_features_in_ if is_given else machine._BaseLibSVM__Xfit.shape[0]
        outside = (machine.support_ < 0) | (machine.support_ >= n_rows)
        correct = not machine._sparse and machine.shape_fit_[0] == n_rows and not outside.any()
    else:
        correct = machine.support_vectors_.shape == (n_vectors, machine.n_features_in_)
    _require(correct, "the support vectors of a machine do not fit its features")
    forms = {getattr(matrix, "format", None) for matrix in (machine.support_vectors_, coefficients)}
    _require(
        forms == {"csr" if machine._sparse else None},
        "the support vectors of a machine are not stored like its points",
    )


def _is_full(coefficients: Any) -> bool:
    """Tell whether a matrix has all its values in memory, as libsvm assumes."""
    if type(coefficients) is np.ndarray:
        return True
    n_rows, n_columns = coefficients.shape
    return bool(len(coefficients.data) == coefficients.nnz == n_rows * n_columns)


def check_histogram_boosting(boosting: Any) -> None:
    """Check that the trees of a histogram gradient boosting ask for features that are there."""
    is_categorical = np.asarray(boosting._bin_mapper.is_categorical_, dtype=bool)
    _require(
        is_categorical.shape == (boosting.n_features_in_,),
        "the features of a gradient boosting are not counted right",
    )
    for predictor in (p for iteration in boosting._predictors for p in iteration):
        _require(isinstance(predictor, TreePredictor), "a tree is missing")
        nodes = predictor.nodes[~predictor.nodes["is_leaf"].astype(bool)]
        _require(
            not (nodes["feature_idx"] >= len(is_categorical)).any()
            and bool(is_categorical[nodes["feature_idx"][nodes["is_categorical"] != 0]].all()),
            "a tree asks for a feature that is not there",
        )


def _check_ranker(ranker: DuelRanker) -> None:
    """Check that the labels and their order fit together, and let the engine check itself."""
    classes, order, engine = ranker.classes_, ranker.label_order_, ranker.duels_
    n_classes = len(classes)
    _require(isinstance(engine, DuelEngine), "a ranker has no engine")
    _require(
        type(classes) is np.ndarray
        and classes.ndim == 1
        and n_classes >= 2
        and len(set(classes.tolist())) == n_classes
        and type(order) is np.ndarray
        and np.array_equal(np.sort(order), np.arange(n_classes)),
        "the labels are not counted right",
    )
    check_engine(engine, n_classes)


def _check_shortlister(lists: Shortlister) -> None:
    """Let shortlists check themselves, and check that they have the labels of what ranks them."""
    Shortlister.check_fitted(lists)
    _require(
        isinstance(lists.coverages_, np.ndarray)
        and lists.coverages_.ndim == 1
        and lists.coverages_.dtype == np.float64
        and type(lists.n_calibration_) is int
        and _are_same_labels(lists.classes_, lists.estimator_.classes_),
        "the calibration of the lists is not counted right",
    )


def _are_same_labels(labels: Any, others: Any) -> bool:
    return (
        type(labels) is np.ndarray
        and type(others) is np.ndarray
        and labels.tolist() == others.tolist()
    )


def _check_transformer(transformer: Any) -> None:
    """Let a transformer of ours check itself; a new one that is not fitted has nothing to check."""
    # Asked of the class: a file could hide the method behind an attribute of the same name.
    check_fitted = getattr(type(transformer), "check_fitted", None)
    if check_fitted is not None:
        check_fitted(transformer)


def _require(correct: Any, sentence: str) -> None:
    if not correct:
        raise ValueError(sentence)
