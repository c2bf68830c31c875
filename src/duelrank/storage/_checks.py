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
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import BaggingClassifier

from duelrank._pairs import n_pairs
from duelrank.duels import check_engine
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
OURS = "duelrank."


def check_packed(correct: bool) -> None:
    """Raise unless packed arrays have the form in which `pack` leaves them."""
    if not correct:
        raise ValueError("its packed arrays do not fit together")


def check_model(model: Any) -> None:
    """Check everything that can be reached from a loaded model."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if sparse.issparse(thing):
            if hasattr(thing, "check_format"):
                thing.check_format(full_check=True)
        elif isinstance(thing, dict):
            waiting.extend(thing.values())
        elif hasattr(thing, "__dict__") and not isinstance(thing, type):
            if isinstance(thing, BaseEstimator):
                _check_estimator(thing)
            waiting.extend(vars(thing).values())
        elif isinstance(thing, (list, tuple, set)):
            waiting.extend(thing)
        elif isinstance(thing, np.ndarray) and thing.dtype == object:
            waiting.extend(thing.ravel().tolist())


def check_tree(state: Any) -> None:
    """Check the arrays of a decision tree before the tree is built from them."""
    _require(isinstance(state, dict), "a tree has no arrays")
    n_features, n_classes, n_outputs = (
        state.get(name) for name in ("n_features", "n_classes", "n_outputs")
    )
    nodes, values = state.get("nodes"), state.get("values")
    _require(
        isinstance(n_features, int)
        and isinstance(n_outputs, int)
        and isinstance(n_classes, np.ndarray)
        and n_classes.dtype == np.intp
        and n_classes.shape == (n_outputs,)
        and n_outputs >= 1
        and bool((n_classes >= 1).all()),
        "the outputs of a tree are not counted right",
    )
    _require(
        isinstance(nodes, np.ndarray)
        and isinstance(values, np.ndarray)
        and nodes.dtype == NODE_DTYPE
        and nodes.ndim == 1
        and len(nodes) >= 1
        and values.shape == (len(nodes), n_outputs, n_classes.max())
        and state.get("node_count") == len(nodes),
        "the nodes of a tree are not counted right",
    )
    is_leaf = nodes["left_child"] == LEAF
    _check_nodes(nodes["left_child"], nodes["right_child"], nodes["feature"], is_leaf, n_features)


def check_tree_predictor(state: Any) -> None:
    """Check the arrays of a tree of histogram gradient boosting, except for its features."""
    nodes = state.get("nodes")
    _require(
        isinstance(nodes, np.ndarray)
        and nodes.dtype == PREDICTOR_RECORD_DTYPE
        and nodes.ndim == 1
        and len(nodes) >= 1,
        "the nodes of a tree are not counted right",
    )
    for name in ("binned_left_cat_bitsets", "raw_left_cat_bitsets"):
        bitsets = state.get(name)
        _require(
            isinstance(bitsets, np.ndarray)
            and bitsets.dtype == np.uint32
            and bitsets.ndim == 2
            and bitsets.shape[1] == 8
            and not (nodes["is_categorical"] & (nodes["bitset_idx"] >= len(bitsets))).any(),
            "the categories of a tree are not counted right",
        )
    is_leaf = nodes["is_leaf"].astype(bool)
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    _check_nodes(left, right, nodes["feature_idx"], is_leaf, np.iinfo(np.int64).max)


def _check_nodes(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    feature: NDArray[np.int64],
    is_leaf: NDArray[np.bool_],
    n_features: int,
) -> None:
    """Check that children come after their parents, no child twice, and that features exist."""
    parents = np.flatnonzero(~is_leaf)
    children = np.concatenate([left[parents], right[parents]])
    after = (left[parents] > parents) & (right[parents] > parents)
    _require(
        bool(after.all())
        and not (children >= len(is_leaf)).any()
        and len(np.unique(children)) == len(children),
        "the nodes of a tree form no tree",
    )
    used = feature[parents]
    _require(
        not ((used < 0) | (used >= n_features)).any(), "a tree asks for a feature that is not there"
    )


def _check_estimator(estimator: Any) -> None:
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
        _check_histogram_boosting(estimator)
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
    listed = members.ravel().tolist() if isinstance(members, np.ndarray) else members
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
    if isinstance(coefficients, np.ndarray):
        return True
    n_rows, n_columns = coefficients.shape
    return bool(len(coefficients.data) == coefficients.nnz == n_rows * n_columns)


def _check_histogram_boosting(boosting: Any) -> None:
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
    _require(
        isinstance(classes, np.ndarray)
        and classes.ndim == 1
        and n_classes >= 2
        and len(set(classes.tolist())) == n_classes
        and isinstance(order, np.ndarray)
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
        isinstance(labels, np.ndarray)
        and isinstance(others, np.ndarray)
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
