"""Shortlists of any classifier that ranks labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.utils import assert_all_finite, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from duelrank._classifiers import known_labels, label_scores, log_probabilities
from duelrank._parameters import ParametersInside, check_choice, check_count
from duelrank._sklearn import as_indexable, input_tags_of, take_rows
from duelrank.predictions import predict_order, predict_ranks
from duelrank.rankers import DuelRanker
from duelrank.rankings import codes_from_labels
from duelrank.shortlists._calibration import (
    Calibration,
    check_coverages,
    check_enough,
    exceeds,
    p_values,
    rows_needed,
)
from duelrank.shortlists._clusters import cluster_labels
from duelrank.shortlists._measures import measure_shortlists
from duelrank.shortlists._rows import check_share, hold_out
from duelrank.shortlists._scores import ON_PROBABILITIES, SCORES, Oddness, Uniform, label_oddness

__all__ = ["RankedLists", "Shortlister"]

BY = ("all", "label", "cluster", "group")
LONGER = ("cut", "abstain")
MANY_ROWS = 100  # of which not a single one is wrong: they may have been learned from


def _has_probabilities(shortlister: Shortlister) -> bool:
    estimator = getattr(shortlister, "estimator_", shortlister.estimator)
    return estimator is None or hasattr(estimator, "predict_proba")


class RankedLists(NamedTuple):
    """The lists of points, with what they are made of.

    Attributes
    ----------
    order : ndarray of int, of shape (n, K)
        All labels as numbers in `classes_`, best first.
    p_values : ndarray of shape (n, K)
        How well every label would fit in with the calibration rows.
    masks : ndarray of bool, of shape (n_coverages, n, K)
        Which labels are in the lists.
    probabilities : ndarray of shape (n, K) or None
        Those of the estimator, if the conformity score needs them.
    """

    order: NDArray[np.intp]
    p_values: NDArray[np.float64]
    masks: NDArray[np.bool_]
    probabilities: NDArray[np.float64] | None


class Shortlister(ParametersInside, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""For every point, as many of the first labels of its ranking as hold the right one.

    With a share `coverage` of all rows, the right label is in the list. This holds for any
    `estimator`, however good or bad, and for any distribution of the data, if calibration rows and
    new rows are *exchangeable*: drawn alike, in any order. For n calibration rows,

    .. math:: \text{coverage} \le P(\text{the right label is in the list}),

    over the draw of the calibration rows and of the new row. If lists may be empty and no two
    scores are equal, the right side is at most coverage + 1/(n + 1); and given the calibration
    rows, the coverage follows a beta distribution, with parameters k = ⌈(n + 1) · coverage⌉ and
    n + 1 − k: with 1,000 rows it is within 2 points of 90% in 19 of 20 cases. Otherwise it is no
    less. It is an average over rows: easy rows are right more often, hard ones less. `by` asks for
    more. Labels that the estimator does not know are in no list, so a frozen estimator keeps the
    promise for rows with labels that it knows; a row drawn for calibration whose label no other row
    has counts as one whose label was in no list.

    With `cv`, all rows are used to learn from and to calibrate (cross-conformal, CV+). What is
    guaranteed then is less, 1 − 2 · (1 − coverage) − min(2 (1 − 1/F) / (n/F + 1),
    (1 − F/n) / (F + 1)) for F equal folds (Romano, Sesia & Candès 2020), if the order of the rows
    does not matter to the estimator; what is seen is close to `coverage`. It is not known for
    `randomize` and for clusters.

    Parameters
    ----------
    estimator : classifier, pipeline or search, default=None
        It ranks labels by ``decision_function``, or else by ``predict_proba``. If it is a
        `sklearn.frozen.FrozenEstimator`, it is fitted already, on other rows than those given to
        `fit`, all of which are calibration rows. By default `DuelRanker()`.
    coverage : float or sequence of floats, default=0.9
        How often the right label is in the list, between 0 and 1. With several, lists are made for
        each.
    conformity_score : {"auto", "probability", "evidence", "rank", "aps", "raps"}, default="auto"
        By what labels are taken into a list. "probability": the labels whose probability is above
        a threshold; if probabilities are right, no lists are shorter. "evidence": the first k
        labels, and the next one if its evidence is above a threshold; for a `DuelRanker`, the
        evidence is the share of its duels that a label can expect to win. "rank": the first k
        labels. "aps" and "raps": the first labels whose probabilities add up to a threshold,
        without and with a penalty for long lists. "auto" is "probability", or "evidence" if
        `estimator` has no ``predict_proba``.
    by : {"all", "label", "cluster", "group"}, default="all"
        For whom the coverage holds: for all rows together; for the rows of every label, so that
        every team is served; for the rows of clusters of labels with similar scores, if labels are
        rare (Ding et al. 2023); or for every group of rows, given to `fit` and to
        `predict_shortlist`. Labels with fewer than coverage / (1 − coverage) calibration rows are
        calibrated together; if these are too few, they are in every list. A warning names them.
        With "label" and "cluster", a list need not be the first labels of the ranking: a label may
        be in that comes behind one which is not.
    cv : int or splitter, default=None
        None: rows to calibrate are held out, and the estimator is fitted on the others. A number of
        folds or a splitter: one estimator for each fold is fitted on the other folds and calibrated
        on this one, and one is fitted on all rows for the order of the labels.
    calibration_size : float, default=0.2
        Share of the rows to hold out, if `cv` is None and `estimator` is not frozen.
    allow_empty : bool, default=False
        Whether a list may be empty. By default the first label is always in, and is not counted as
        odd when calibrating; so the coverage is never below the accuracy of the first label, even
        if less was asked for, and lists are no longer than they have to be.
    max_length : int, default=None
        Length of the longest list, by default any.
    longer : {"cut", "abstain"}, default="cut"
        What becomes of a longer list: only its first `max_length` labels stay, or none at all.
        Both lower the coverage.
    randomize : bool, default=False
        Whether to draw, where scores are equal, which labels are in, so that the coverage is
        exactly as asked for on average over `random_state`, if lists may be empty; "aps" and "raps"
        are randomised themselves. What is drawn depends on the scores of a row's labels alone, so a
        row gets the same list whenever it is asked for, and rows with equal scores are drawn alike.
    random_state : int, RandomState instance or None, default=None
        Draws the calibration rows or the folds, and what `randomize` needs.

    Attributes
    ----------
    estimator_ : classifier
        It ranks the labels.
    classes_ : ndarray of shape (K,)
        The labels.
    n_classes_ : int
        Number of labels K.
    coverages_ : ndarray of float
        The coverages asked for.
    score_ : str
        The conformity score in use.
    n_calibration_ : int
        Number of calibration rows.
    label_groups_ : ndarray of int, of shape (K,), or None
        With `by` "label" or "cluster": labels with equal numbers are calibrated together.
    groups_ : ndarray or None
        With `by` "group": the groups.
    settings_ : dict of str to bool
        What the calibration was made for: "allow_empty", "randomize", "several" coverages.
    n_features_in_, feature_names_in_
        Those of `estimator_`, if it has them.

    See Also
    --------
    PlaceIntervals : Between which places all labels of a point are.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> lists = Shortlister(model, coverage=0.9, random_state=0).fit(X, y)
    >>> lists.predict_shortlist(X[[0, 61]])
    [[0], [1]]
    >>> lists.shortlist_mask(X[[0, 61]])
    array([[ True, False, False],
           [False,  True, False]])
    """

    def __init__(
        self,
        estimator: Any = None,
        coverage: float | Sequence[float] = 0.9,
        *,
        conformity_score: str = "auto",
        by: str = "all",
        cv: Any = None,
        calibration_size: float = 0.2,
        allow_empty: bool = False,
        max_length: int | None = None,
        longer: str = "cut",
        randomize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.conformity_score = conformity_score
        self.by = by
        self.cv = cv
        self.calibration_size = calibration_size
        self.allow_empty = allow_empty
        self.max_length = max_length
        self.longer = longer
        self.randomize = randomize
        self.random_state = random_state

    @property
    def n_classes_(self) -> int:
        """Number of labels."""
        return len(self.classes_)

    def fit(self, X: Any, y: Any, groups: Any = None) -> Shortlister:
        """Fit the estimator, unless it is frozen, and calibrate the lists.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Points, as the estimator takes them.
        y : array-like of shape (n,)
            Their labels. A frozen estimator must know all of them.
        groups : array-like of shape (n,), default=None
            The group of every row, if `by` is "group".

        Returns
        -------
        self : Shortlister
            The fitted shortlister.
        """
        coverages = check_coverages(self.coverage)
        self._check_parameters()
        X, y = as_indexable(X), column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        groups, known_groups = self._read_groups(groups, len(y))
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        parts, estimator, lost = self._fit_estimators(X, y, rng, seed)
        classes = known_labels(estimator)
        codes = codes_from_labels(y, classes, "y")
        check_enough(sum(len(rows) for _, rows in parts), coverages, "calibration rows")
        if isinstance(self.estimator, FrozenEstimator):
            _warn_if_learned_from(estimator, X, codes)
        score = _settled_score(self.conformity_score, estimator)
        uniform = Uniform(seed) if self.randomize else None
        own = [
            self._oddness(model, classes, take_rows(X, rows), score, uniform)[
                np.arange(len(rows)), codes[rows]
            ]
            for model, rows in parts
        ]
        # A calibration row is judged by its group: all rows, those of a label, or those given.
        calibrating, scores = np.concatenate([rows for _, rows in parts]), np.concatenate(own)
        fold = np.repeat(np.arange(len(parts)), [len(rows) for _, rows in parts])
        label_groups, judged = None, np.zeros(len(scores), dtype=np.intp)
        if self.by in ("label", "cluster"):
            label_groups, stay = self._group_labels(
                scores, codes[calibrating], classes, coverages, rng
            )
            calibrating, scores, fold = calibrating[stay], scores[stay], fold[stay]
            judged = label_groups[codes[calibrating]]
        elif len(lost):
            calibrating, fold = np.append(calibrating, lost), np.append(fold, 0 * lost)
            scores = np.append(scores, np.full(len(lost), np.inf))
            judged = np.zeros(len(scores), dtype=np.intp)
            warnings.warn(
                f"{len(lost)} of {len(scores)} rows that were drawn for calibration have a label "
                "that no other row has; so will some new rows, and lists are longer for it.",
                stacklevel=2,
            )
        if groups is not None and known_groups is not None:
            judged = groups[calibrating]
            _check_groups(np.bincount(judged, minlength=len(known_groups)), known_groups, coverages)
        n_groups = 1 if known_groups is None else len(known_groups)
        n_groups = n_groups if label_groups is None else int(label_groups.max()) + 1
        made = [
            Calibration.of(scores[fold == number], judged[fold == number], n_groups)
            for number in range(len(parts))
        ]
        self.estimator_, self.classes_ = estimator, classes
        self.fold_estimators_ = [model for model, _ in parts] if self.cv is not None else None
        self.calibration_scores_ = [calibration.scores for calibration in made]
        self.calibration_begins_ = [calibration.begins for calibration in made]
        self.coverages_, self.score_, self.seed_ = np.array(coverages), score, seed
        self.n_calibration_ = len(scores)
        self.settings_ = {
            "allow_empty": bool(self.allow_empty),
            "randomize": bool(self.randomize),
            "several": not isinstance(self.coverage, Real),
        }
        self.label_groups_, self.groups_ = label_groups, known_groups
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
            elif hasattr(self, name):
                delattr(self, name)
        return self

    def predict_shortlist(self, X: Any, groups: Any = None) -> Any:
        """Return the lists of points.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.
        groups : array-like of shape (n,), default=None
            The group of every row, if `by` is "group".

        Returns
        -------
        lists : list of n lists of labels, or dict of float to such a list
            The labels of every row, best first. None where `longer` is "abstain" and the list would
            have been too long. If several coverages were asked for, a dictionary by coverage.
        """
        ranked, abstained = self._lists(X, groups)
        made = {
            coverage: _as_lists(self.classes_, ranked.order, mask, given_up)
            for coverage, mask, given_up in zip(
                self.coverages_.tolist(), ranked.masks, abstained, strict=True
            )
        }
        return made if self.settings_["several"] else next(iter(made.values()))

    def shortlist_mask(self, X: Any, groups: Any = None) -> NDArray[np.bool_]:
        """Tell which labels are in the lists of points.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.
        groups : array-like of shape (n,), default=None
            The group of every row, if `by` is "group".

        Returns
        -------
        mask : ndarray of bool, of shape (n, K), or (n_coverages, n, K) for several coverages
            Columns follow `classes_`.
        """
        masks = self.ranked_lists(X, groups).masks
        return masks if self.settings_["several"] else masks[0]

    def ranked_lists(self, X: Any, groups: Any = None) -> RankedLists:
        """Return all that is known about the lists of points, asking the estimator once.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.
        groups : array-like of shape (n,), default=None
            The group of every row, if `by` is "group".

        Returns
        -------
        ranked : RankedLists
            Order, p-values, lists and probabilities.
        """
        return self._lists(X, groups)[0]

    def measure(self, X: Any, y: Any, groups: Any = None) -> Any:
        """Measure the lists of points whose labels are known.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Points that neither the estimator nor the calibration has seen.
        y : array-like of shape (n,)
            Their labels.
        groups : array-like of shape (n,), default=None
            The group of every row, if `by` is "group".

        Returns
        -------
        quality : ShortlistQuality, or dict of float to ShortlistQuality
            Coverage and lengths. If several coverages were asked for, a dictionary by coverage.
        """
        masks = self.ranked_lists(X, groups).masks
        codes = codes_from_labels(column_or_1d(y), self.classes_, "y")
        made = {
            coverage: measure_shortlists(mask, codes)
            for coverage, mask in zip(self.coverages_.tolist(), masks, strict=True)
        }
        return made if self.settings_["several"] else next(iter(made.values()))

    def p_values(self, X: Any, groups: Any = None) -> NDArray[np.float64]:
        """Return how well every label would fit in with the calibration rows.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.
        groups : array-like of shape (n,), default=None
            The group of every row, if `by` is "group".

        Returns
        -------
        values : ndarray of shape (n, K)
            About the share of calibration rows whose right label was at least as odd. A label is in
            the list of a coverage if its p-value is above 1 − coverage.
        """
        return self.ranked_lists(X, groups).p_values

    def score_thresholds(self) -> NDArray[np.float64]:
        """Return the largest scores with which labels are in lists, for whoever compares alone.

        Returns
        -------
        thresholds : ndarray of shape (n_coverages, K)
            A label is in the list of a coverage if its conformity score is no more than this, or if
            it is the first one and lists may not be empty.

        Raises
        ------
        ValueError
            If lists are not made by comparison with a number for every label: with `cv`, with
            `randomize`, or by groups of rows.
        """
        check_is_fitted(self)
        for is_so, what in (
            (self.fold_estimators_ is not None, "cv: lists compare with the models of all folds"),
            (self.settings_["randomize"], "randomize: lists are drawn"),
            (self.groups_ is not None, "by='group': lists depend on the groups of rows"),
        ):
            if is_so:
                raise ValueError(f"there are no thresholds with {what}.")
        calibration = Calibration(self.calibration_scores_[0], self.calibration_begins_[0])
        judged = self.label_groups_
        groups = np.zeros(len(self.classes_), dtype=np.intp) if judged is None else judged
        return np.stack([calibration.thresholds(c)[groups] for c in self.coverages_.tolist()])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the first label of every point.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        labels : ndarray of shape (n,)
            As by `estimator_`.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of the labels, which carry the ranking.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        scores : ndarray of shape (n, K), or (n,) for two labels
            Those of `estimator_`; its probabilities if it has no others.
        """
        check_is_fitted(self)
        scores = label_scores(self.estimator_, X)
        return (scores[:, 1] - scores[:, 0]) / 2 if scores.shape[1] == 2 else scores

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the labels.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        probabilities : ndarray of shape (n, K)
            Those of `estimator_`.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        log_probabilities : ndarray of shape (n, K)
            −inf where a probability is 0.
        """
        return log_probabilities(self.predict_proba(X))

    def predict_order(self, X: Any) -> NDArray[Any]:
        """Return all labels from most to least probable.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix with n rows
            Query points.

        Returns
        -------
        order : ndarray of labels, of shape (n, K)
            One row per point.
        """
        check_is_fitted(self)
        return predict_order(self.estimator_, X)

    def _default_estimator(self) -> str:
        return "DuelRanker()"

    def check_fitted(self) -> None:
        """Raise ValueError if the fitted arrays do not fit together, as in an altered file."""
        n_classes = len(self.classes_)
        n_folds = 1 if self.fold_estimators_ is None else len(self.fold_estimators_)
        made = zip(self.calibration_scores_, self.calibration_begins_, strict=False)
        sizes = {len(begins) for begins in self.calibration_begins_}
        fits = (
            len(self.calibration_scores_) == len(self.calibration_begins_) == n_folds
            and len(sizes) == 1
            and all(_is_calibration(scores, begins) for scores, begins in made)
            and self.score_ in SCORES[1:]
            and isinstance(self.settings_, dict)
            and sorted(self.settings_) == ["allow_empty", "randomize", "several"]
            and all(type(value) is bool for value in self.settings_.values())
        )
        if fits and self.label_groups_ is not None:
            groups, n_groups = self.label_groups_, sizes.pop() - 1
            fits = (
                isinstance(groups, np.ndarray)
                and groups.shape == (n_classes,)
                and groups.dtype.kind == "i"
                and bool(np.all((groups >= 0) & (groups < n_groups)))
            )
        if not fits:
            raise ValueError("the calibration of the lists is not counted right")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags_of(DuelRanker() if self.estimator is None else self.estimator)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_scores_")

    def _check_parameters(self) -> None:
        check_choice("conformity_score", self.conformity_score, SCORES)
        check_choice("by", self.by, BY)
        check_choice("longer", self.longer, LONGER)
        if self.max_length is not None:
            check_count("max_length", self.max_length)
        check_share(self.calibration_size)
        if isinstance(self.estimator, FrozenEstimator) and self.cv is not None:
            raise ValueError("cv must be None if estimator is frozen: it cannot be fitted again.")

    def _read_groups(
        self, groups: Any, n_rows: int
    ) -> tuple[NDArray[np.intp] | None, NDArray[Any] | None]:
        """Return the groups of the rows as codes, and what they are; None if not asked for."""
        if self.by != "group":
            if groups is not None:
                raise ValueError(f"groups are used with by='group' only, got by={self.by!r}.")
            return None, None
        if groups is None:
            raise ValueError("groups must be given if by is 'group', got None.")
        groups = column_or_1d(groups)
        if len(groups) != n_rows:
            raise ValueError(f"groups must have {n_rows} rows as X has, got {len(groups)}.")
        known, codes = np.unique(groups, return_inverse=True)
        return codes, known

    def _fit_estimators(
        self, X: Any, y: NDArray[Any], rng: np.random.RandomState, seed: int
    ) -> tuple[list[tuple[Any, NDArray[np.intp]]], Any, NDArray[np.intp]]:
        """Return models with the rows that calibrate them, the model that ranks, and rows lost."""
        nothing = np.zeros(0, dtype=np.intp)
        if isinstance(self.estimator, FrozenEstimator):
            fitted = self.estimator.estimator
            return [(fitted, np.arange(len(y)))], fitted, nothing
        unfitted = DuelRanker(random_state=seed) if self.estimator is None else self.estimator
        if self.cv is None:
            learning, calibrating, lost = hold_out(y, float(self.calibration_size), rng)
            what = f"calibration rows, held out of n_samples={len(y)}"
            check_enough(len(calibrating), check_coverages(self.coverage), what)
            fitted = clone(unfitted).fit(take_rows(X, learning), y[learning])
            return [(fitted, calibrating)], fitted, lost
        splitter = self.cv
        if not hasattr(splitter, "split"):
            check_count("cv", splitter)
            splitter = KFold(splitter, shuffle=True, random_state=rng)
        splits = list(splitter.split(np.zeros(len(y)), y))
        tested = np.sort(np.concatenate([np.asarray(rows) for _, rows in splits]))
        if not np.array_equal(tested, np.arange(len(y))):
            raise ValueError("cv must test every row once, as KFold does; got other splits.")
        check_enough(len(y), check_coverages(self.coverage), "calibration rows")
        folds = [
            (clone(unfitted).fit(take_rows(X, learning), y[learning]), np.asarray(calibrating))
            for learning, calibrating in splits
        ]
        return folds, clone(unfitted).fit(X, y), nothing

    def _oddness(
        self, model: Any, classes: NDArray[Any], X: Any, score: str, uniform: Uniform | None
    ) -> NDArray[np.float64]:
        """Return the scores of all labels; those that a model of a fold lacks are most odd."""
        odd = label_oddness(model, X, score, not self.allow_empty, uniform).scores
        known = known_labels(model)
        if len(known) == len(classes):
            return odd
        everywhere = np.full((len(odd), len(classes)), np.inf)
        everywhere[:, codes_from_labels(known, classes, "y")] = odd
        return everywhere

    def _group_labels(
        self,
        scores: NDArray[np.float64],
        codes: NDArray[np.intp],
        classes: NDArray[Any],
        coverages: Sequence[float],
        rng: np.random.RandomState,
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Say which labels are calibrated together, and which rows are left to do that."""
        needed = rows_needed(max(coverages))
        stay = np.ones(len(codes), dtype=bool)
        if self.by == "cluster":
            groups, used = cluster_labels(scores, codes, len(classes), needed, rng)
            stay[used] = False
            if len(used) == 0:
                warnings.warn(
                    "labels have too few calibration rows to find clusters, so all are calibrated "
                    "together.",
                    stacklevel=3,
                )
        else:
            is_rare = np.bincount(codes, minlength=len(classes)) < needed
            groups = np.where(is_rare, np.count_nonzero(~is_rare), np.cumsum(~is_rare) - 1)
        sizes = np.bincount(groups[codes[stay]], minlength=int(groups.max()) + 1)
        always = sizes[groups] < needed
        if always.any():
            warnings.warn(
                "labels with too few calibration rows are in every list: "
                f"{_some(classes[always])}. Together they have {int(sizes[groups[always]][0])} "
                f"rows; a coverage of {max(coverages):g} needs {needed}.",
                stacklevel=3,
            )
        elif self.by == "label" and is_rare.any():
            warnings.warn(
                f"labels with fewer than {needed} calibration rows are calibrated together: "
                f"{_some(classes[is_rare])}. The coverage of {max(coverages):g} holds for all of "
                "these, not for each.",
                stacklevel=3,
            )
        return groups, stay

    def _p_values(self, X: Any, groups: Any) -> tuple[Oddness, NDArray[np.float64]]:
        """Return how odd labels are, and the p-values of that."""
        check_is_fitted(self)
        X = as_indexable(X)
        judged: NDArray[np.intp] = np.zeros((1, 1), dtype=np.intp)
        if self.label_groups_ is not None:
            judged = self.label_groups_[np.newaxis]
        elif self.groups_ is not None:
            judged = self._known_groups(groups, X.shape[0])[:, np.newaxis]
        elif groups is not None:
            raise ValueError(f"groups are used with by='group' only, got by={self.by!r}.")
        uniform = Uniform(self.seed_) if self.settings_["randomize"] else None
        always_first = not self.settings_["allow_empty"]
        oddness = label_oddness(self.estimator_, X, self.score_, always_first, uniform)
        odd = oddness.scores
        above = equal = np.zeros(odd.shape, dtype=np.intp)
        n_rows: NDArray[np.intp] = np.zeros(1, dtype=np.intp)
        models = [None] if self.fold_estimators_ is None else self.fold_estimators_
        for number, model in enumerate(models):
            if model is not None:
                odd = self._oddness(model, self.classes_, X, self.score_, uniform)
            calibration = Calibration(
                self.calibration_scores_[number], self.calibration_begins_[number]
            )
            of_fold = calibration.count(odd, judged)
            above, equal = above + of_fold[0], equal + of_fold[1]
            n_rows = n_rows + calibration.counts()
        values = p_values(above, equal, n_rows[np.broadcast_to(judged, odd.shape)], oddness.drawn)
        if always_first:
            np.put_along_axis(values, oddness.order[:, :1], 1.0, axis=1)
        return oddness, values

    def _known_groups(self, groups: Any, n_rows: int) -> NDArray[np.intp]:
        if groups is None:
            raise ValueError("groups must be given, because by is 'group'; got None.")
        groups = column_or_1d(groups)
        if len(groups) != n_rows:
            raise ValueError(f"groups must have {n_rows} rows as X has, got {len(groups)}.")
        assert self.groups_ is not None
        return codes_from_labels(groups, self.groups_, "groups")

    def _lists(self, X: Any, groups: Any) -> tuple[RankedLists, list[NDArray[np.bool_]]]:
        """Return the lists, and for every coverage the rows that have none for being too long."""
        if self.max_length is not None:
            check_count("max_length", self.max_length)
        check_choice("longer", self.longer, LONGER)
        oddness, values = self._p_values(X, groups)
        order = oddness.order
        masks, abstained = [], []
        for coverage in self.coverages_.tolist():
            mask = exceeds(values, coverage)
            too_long = np.zeros(len(mask), dtype=bool)
            if self.max_length is not None:
                along = np.take_along_axis(mask, order, axis=1)
                too_long = along.sum(axis=1) > self.max_length
                along &= np.cumsum(along, axis=1) <= self.max_length
                np.put_along_axis(mask, order, along, axis=1)
                too_long &= self.longer == "abstain"
                mask[too_long] = False
            masks.append(mask)
            abstained.append(too_long)
        return RankedLists(order, values, np.stack(masks), oddness.probabilities), abstained


def _some(labels: NDArray[Any]) -> str:
    names = [str(label) for label in labels.tolist()]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _check_groups(
    counts: NDArray[np.intp], groups: NDArray[Any], coverages: Sequence[float]
) -> None:
    fewest = int(counts.argmin())
    check_enough(int(counts[fewest]), coverages, f"calibration rows in group {groups[fewest]!s}")


def _settled_score(score: str, estimator: Any) -> str:
    has_probabilities = hasattr(estimator, "predict_proba")
    if score == "auto":
        return "probability" if has_probabilities else "evidence"
    if score in ON_PROBABILITIES and not has_probabilities:
        raise ValueError(
            f"conformity_score={score!r} needs an estimator with predict_proba; for "
            f"{type(estimator).__name__} take 'evidence' or 'rank'."
        )
    return score


def _warn_if_learned_from(estimator: Any, X: Any, codes: NDArray[np.intp]) -> None:
    """Warn where calibration rows look as if the estimator had been fitted on them."""
    if len(codes) < MANY_ROWS:
        return
    places = predict_ranks(estimator, X)[np.arange(len(codes)), codes]
    if (places == 1).all():
        warnings.warn(
            f"all {len(codes)} calibration rows have their label in the first place; if the "
            "estimator was fitted on these rows, lists will be too short: calibrate on others.",
            stacklevel=3,
        )


def _as_lists(
    classes: NDArray[Any],
    order: NDArray[np.intp],
    mask: NDArray[np.bool_],
    abstained: NDArray[np.bool_],
) -> list[list[Any] | None]:
    along = np.take_along_axis(mask, order, axis=1)
    labels = classes[order[along]].tolist()
    ends = [0, *np.cumsum(along.sum(axis=1)).tolist()]
    lists = [labels[begin:end] for begin, end in pairwise(ends)]
    return [None if none else row for row, none in zip(lists, abstained.tolist(), strict=True)]


def _is_calibration(scores: Any, begins: Any) -> bool:
    return (
        isinstance(scores, np.ndarray)
        and scores.ndim == 1
        and scores.dtype == np.float64
        and not bool(np.isnan(scores).any())
        and isinstance(begins, np.ndarray)
        and begins.ndim == 1
        and begins.dtype.kind == "i"
        and len(begins) > 1
        and begins[0] == 0
        and begins[-1] == len(scores)
        and bool(np.all(np.diff(begins) >= 0))
    )
