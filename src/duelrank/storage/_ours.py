"""The attributes of duelrank's own types, and what they must be.

Rankers, engines, shortlists and transformers check that their arrays fit together, with their
methods ``check_fitted``. This table has the names of all attributes that a fit sets, and the types
of those that these methods do not look at. What is not in it is refused.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from duelrank import duels, preprocessing, scoring
from duelrank._choices import AGGREGATIONS, TIES
from duelrank.duels import DuelEngine, check_engine
from duelrank.rankers import DuelRanker
from duelrank.shortlists import PlaceIntervals, Shortlister
from duelrank.storage._audited import Audited
from duelrank.storage._fitted_checks import Test, are_labels, is_count, is_number, is_numbers


def _is_anything(value: Any) -> bool:
    """Pass what ``check_fitted`` has looked at."""
    return True


def _array(kinds: str, n_axes: int = 1) -> Test:
    """Return a test for arrays of a kind; NaN and infinity say that something is not known."""
    return lambda value: is_numbers(value, *[None] * n_axes, kinds=kinds, finite=False)


def _is(*kinds: type) -> Test:
    return lambda value: type(value) in kinds


def _is_none_or(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _fitted(*names: str, fits: Test = bool, **tests: Test) -> Audited:
    """Return the entry of a type.

    Parameters
    ----------
    *names : str
        What ranking needs, which ``check_fitted`` looks at.
    fits : callable, default=bool
        A test of the whole object.
    **tests : callable
        Tests of other attributes by name; files of older versions may not have them.
    """

    def test(thing: Any) -> bool:
        there = vars(thing)
        return all(right(there[name]) for name, right in tests.items() if name in there) and bool(
            fits is bool or fits(thing)
        )

    return Audited(names, tuple(tests), test)


def check_own_engine(engine: Any) -> None:
    """Check a fitted engine of ours, for as many labels as it says that it has.

    Parameters
    ----------
    engine : object
        One that is no engine, or has not been fitted, passes.
    """
    spec = OURS.get(type(engine))
    if spec is None or not isinstance(engine, DuelEngine):
        return
    there = vars(engine)
    if any(name in there for name in spec.fitted):
        n_classes = there.get("n_classes_")
        if n_classes is None:
            n_duels = len(there["outcomes_"] if "outcomes_" in there else there["sign_"])
            n_classes = (1 + isqrt(1 + 8 * n_duels)) // 2
        check_engine(engine, n_classes)


def _ranker(ranker: Any) -> bool:
    """Check that a ranker says of its columns what its engine says."""
    columns = vars(ranker).get("rank_columns_")
    return (
        vars(ranker).get("n_features_in_") == getattr(ranker.duels_, "n_features_in_", None)
        and ranker.aggregation in AGGREGATIONS
        and ranker.ties in TIES
        and are_labels(ranker.classes_, 2)
        and is_numbers(ranker.label_order_, len(ranker.classes_), kinds="i")
        and (columns is None or (are_labels(columns) and len(columns) == len(ranker.classes_)))
    )


def _classifiers(engine: Any) -> bool:
    """Check that every duel has a classifier or an outcome, and rows that could be."""
    return (
        is_numbers(engine.outcomes_, None, finite=False)
        and type(engine.estimators_) is list
        and type(engine._rows) is list
        and all(
            (classifier is None) == known and (rows is None or _are_places(rows))
            for classifier, known, rows in zip(
                engine.estimators_,
                np.isfinite(engine.outcomes_).tolist(),
                engine._rows,
                strict=True,
            )
        )
    )


def _are_places(rows: Any) -> bool:
    return is_numbers(rows, None, kinds="i") and not (rows < 0).any()


def _stack(engine: Any) -> bool:
    """Check that a stack holds engines, or pipelines that end in one, of its own columns."""
    for part in engine.engines_.values():
        first, last = (part[0], part[-1]) if type(part) is Pipeline else (part, part)
        n_features = getattr(first, "n_features_in_", engine.n_features_in_)  # others need not tell
        if not isinstance(last, DuelEngine) or n_features != engine.n_features_in_:
            return False
    return True


def _calibration(lists: Any) -> bool:
    coverages = lists.coverages_
    return (
        is_numbers(coverages, None)
        and len(coverages) >= 1
        and bool(np.all((coverages > 0) & (coverages < 1)))
        and (lists.fold_estimators_ is None or type(lists.fold_estimators_) is list)
        and _has_estimator(lists)
    )


def _has_estimator(model: Any) -> bool:
    return model.estimator is None or isinstance(model.estimator, BaseEstimator)


def _places(places: Any) -> bool:
    return is_count(places.n_calibration_) and places.half_width_ >= 0 and _has_estimator(places)


_FEATURES = {"n_features_in_": is_count}
_SOLVED: dict[str, Test] = {
    "decrement_": _array("f"),
    "n_iter_": _array("i"),
    "converged_": _array("b"),
    **_FEATURES,
}
_LINEAR = ("intercept_", "n_classes_")
_LINEAR_TESTS: dict[str, Test] = {
    "coef_": _is_anything,
    "kept_": _is_anything,
    "negligible_columns_": _array("i"),
    **_SOLVED,
}
_ANCHORED = ("kept_", "score_intercept_", "own_intercept_", "corrected_duels_", "n_classes_")
_ANCHORED_TESTS: dict[str, Test] = {
    **_SOLVED,
    "score_decrement_": _is(float, np.float64),
    "score_n_iter_": is_count,
    "score_converged_": _is(bool),
    "C_": is_number,
    "C_own_": is_number,
}
_RANKED: dict[str, Test] = {
    "unplaced_": lambda value: type(value) is str and value in ("behind", "unknown"),
    "n_silent_rows_": is_count,
    "rank_columns_": _is_anything,
    **_FEATURES,
}
_CALIBRATED = ("estimator_", "classes_", "n_calibration_")

OURS: dict[type, Audited] = {
    DuelRanker: _fitted("classes_", "label_order_", "duels_", fits=_ranker, **_RANKED),
    Shortlister: _fitted(
        *_CALIBRATED,
        "calibration_scores_",
        "calibration_begins_",
        "coverages_",
        "fold_estimators_",
        "score_",
        "settings_",
        fits=_calibration,
        seed_=_is_none_or(is_count),
        groups_=_is_none_or(are_labels),
        label_groups_=_is_anything,
        **_FEATURES,
    ),
    PlaceIntervals: _fitted(
        *_CALIBRATED,
        "half_width_",
        "width_",
        fits=_places,
        **_FEATURES,
    ),
    duels.LogisticDuels: _fitted(
        *_LINEAR, **_LINEAR_TESTS, C_=is_number, training_rows_=_is_anything
    ),
    duels.LogisticDuelsCV: _fitted(
        *_LINEAR,
        **_LINEAR_TESTS,
        C_=_array("f"),
        Cs_=_array("f"),
        scores_=_array("f", 3),
        fold_converged_=_array("b", 3),
    ),
    duels.AnchoredDuels: _fitted(*_ANCHORED, **_ANCHORED_TESTS),
    duels.AnchoredDuelsCV: _fitted(
        *_ANCHORED,
        **_ANCHORED_TESTS,
        Cs_=_array("f"),
        score_losses_=_array("f"),
        C_owns_=_array("f"),
        own_losses_=_array("f"),
    ),
    duels.AutoDuels: _fitted(
        "engine_",
        "n_classes_",
        fits=lambda engine: engine.engine_.n_features_in_ == engine.n_features_in_,
        chosen_=_is(str),
        trials_=_is(list),
        n_held_out_=is_count,
        score_name_=_is(str),
        **_FEATURES,
    ),
    duels.EstimatorDuels: _fitted(
        "outcomes_", "estimators_", "_rows", fits=_classifiers, **_FEATURES
    ),
    duels.ForestDuels: _fitted(
        "forest_",
        "n_classes_",
        "n_features_in_",
        "_told",
        "_decided",
        "_leaves",
        "_drawn",
        "_prior",
    ),
    duels.KernelDuels: _fitted(
        "n_classes_",
        "n_features_in_",
        "_mean",
        "_scale",
        "_centres",
        "_roots",
        "_coef",
        "_offset",
        "_held_out",
        "gamma_",
        "slope_",
        fits=lambda engine: (
            is_number(engine.gamma_) and engine.gamma_ > 0 and is_number(engine.slope_)
        ),
        alpha_=is_number,
    ),
    duels.StackedDuels: _fitted("engines_", "n_classes_", "weights_", fits=_stack, **_FEATURES),
    duels.StumpDuels: _fitted(
        "feature_",
        "threshold_",
        "sign_",
        "leaf_probabilities_",
        "n_features_in_",
        training_error_=_array("f"),
    ),
    duels.WithSquares: _fitted("n_features_in_"),
    preprocessing.DateFeatures: _fitted("n_features_in_"),
    preprocessing.TextFeatures: _fitted(
        "words_", "word_idf_", "characters_", "character_idf_", **_FEATURES
    ),
    preprocessing.VectorFeatures: _fitted("mean_", "scale_", **_FEATURES),
    scoring.RankingScorer: Audited(("measure", "greater_is_better", "partial_measure")),
    scoring.TopKScorer: Audited(("k",), fits=lambda scorer: is_count(scorer.k, 1)),
}
