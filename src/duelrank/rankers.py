"""Rankers: classifiers that order all labels of a point.

`DuelRanker` fits one duel per pair of labels and ranks by duels won. The free functions
`predict_ranks`, `predict_order` and `predict_top` of `duelrank.predictions` read a ranking off any
other classifier; they are names of this module too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from duelrank._batches import margin_batches
from duelrank._choices import AGGREGATIONS, TIES
from duelrank._classifiers import log_probabilities
from duelrank._label_names import named_labels
from duelrank._label_ranker import LabelRanker
from duelrank._pairs import beats_from_square, duels_by_labels, n_pairs, square
from duelrank._parameters import ParametersInside, check_choice
from duelrank._sklearn import (
    CallbackSupportMixin,
    as_indexable,
    fit_of_subestimator,
    is_parameter,
    route_fit_metadata,
    take_rows,
    with_callbacks,
)
from duelrank._training import encode, encode_blocks, encode_more
from duelrank.blocks import in_blocks, predict_by_blocks, refuse_blocks
from duelrank.duels import DuelEngine, EstimatorDuels, LogisticDuels, NewLabelsError
from duelrank.predictions import predict_order, predict_ranks, predict_top
from duelrank.rankings import check_codes, codes_from_labels, order_from_scores
from duelrank.tournaments import (
    Tournaments,
    aggregate,
    copeland_from_wins,
    needs_expected_wins,
    posteriors_from_probabilities,
    project_onto_order,
    soft_from_wins,
    top_from_wins,
)

__all__ = ["DuelRanker", "predict_order", "predict_ranks", "predict_top"]

NEW_LABELS = ("add", "error")
MANY_LABELS = 256  # above so many, probabilities are only asked for where labels tie
TOURNAMENT_BATCH_BYTES = 2**24  # of tournaments that are made together: small ones suit a cache

# Margins and probabilities of duels, (n, P), and scores of labels, (n, K), or None.
DuelBatch = tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.float64] | None]


def _engine_can(method: str) -> Callable[[DuelRanker], bool]:
    def can(ranker: DuelRanker) -> bool:
        return hasattr(getattr(ranker, "duels_", None) or ranker._make_engine(), method)

    return can


class DuelRanker(ParametersInside, CallbackSupportMixin, LabelRanker):
    """Rank all labels of a point by the duels they win.

    One binary classifier is fitted for every two labels, on those rows that tell which of the two
    comes first: rows with one of them as label, or with a ranking of both. The duels of a
    point form a tournament, and labels are ranked by 1 + the number of duels they lose
    (Copeland's rule; Clémençon & Vogel 2020). Where the duels contradict each other, labels tie;
    by default the tie is broken by evidence, not by the order in which labels happen to be listed.

    Parameters
    ----------
    estimator : duel engine or classifier, default=None
        What fights the duels: an engine such as `StumpDuels`, or any scikit-learn classifier,
        which stands for ``EstimatorDuels(estimator)``. A ``class_weight`` dictionary inside is
        given by label. None means ``LogisticDuels()``, logistic regressions solved together; to
        search over their parameters, pass it: ``DuelRanker(LogisticDuels())`` has
        ``estimator__C``.
    aggregation : {"copeland", "expected_wins", "coupling", "feedback_arc_set"}, default="copeland"
        How a tournament becomes a ranking:

        - "copeland": by the number of duels won;
        - "expected_wins": by the number of duels that a label can expect to win, the sum of its
          duel probabilities (a soft Borda count): close duels count for little;
        - "coupling": by the posterior that fits the duels' probabilities best (Wu, Lin & Weng
          2004, second method);
        - "feedback_arc_set": so that the fewest duels are contradicted, exactly where cycles have
          up to 16 labels (`tournaments.feedback_arc_set` says what happens above).
    ties : {"probability", "feedback_arc_set", "random", "index"}, default="probability"
        What decides between labels that the aggregation leaves equal:

        - "probability": how many duels a label can expect to win, the sum of its duel
          probabilities (for engines without probabilities, of 1/2 + m / (2 + 2|m|) with m the
          margin);
        - "feedback_arc_set": the order of the tied labels that contradicts the fewest duels,
          and of these the least certain ones;
        - "random": an order of all labels drawn once at fit, from `random_state`;
        - "index": the order of `classes_`, reproducible and arbitrary.

        With the aggregation "feedback_arc_set" it decides between equally small sets; with
        "expected_wins" and "coupling", what is too close or too small to tell apart is decided by
        duels won and then by `ties`. What the evidence cannot decide, a duel with margin 0
        included, goes by the order drawn at fit.
    n_jobs : int, default=None
        Number of jobs over the duels, for engines that have `n_jobs` and leave it None.
    random_state : int, RandomState instance or None, default=None
        Source of the label order drawn at fit, and of the engine's randomness if it has a
        `random_state` and leaves it None. Pass an int for reproducible rankings: a seed of the
        classifier inside alone leaves the label order to chance.
    verbose : bool, default=False
        Whether the engine shows its progress on standard error. With scikit-learn 1.9 or newer,
        ``set_callbacks(sklearn.callback.ProgressBar())`` draws a bar instead.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        What it means that a row of ranks leaves labels out:

        - "behind": they come behind all labels that it places, as in a top-m list;
        - "unknown": they are missing by accident and may be anywhere;
        - "auto": "behind" if every row fills the places 1..m, "unknown" if at least a quarter of
          the rows that leave labels out have gaps, and an error between these. Choices and
          preferences, and rankings with labels missing that were numbered anew, cannot be told from
          lists. So "behind" comes with a warning if a row that leaves labels out places one label
          ahead of another; single labels and sets of tied labels are clear.
    classes : array-like of shape (K,), default=None
        All labels, in the order of the columns of ranks. By default those that y names: the labels
        in it, the columns of a dataframe of ranks, or 0..K−1 for an array of ranks. A label that no
        row tells anything about has undecided duels.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted; columns of ranks, scores and probabilities follow them.
    n_classes_ : int
        Number of labels K.
    duels_ : duel engine
        The fitted engine.
    label_order_ : ndarray of int, of shape (K,)
        The order that decides what the evidence does not: codes, favoured label first.
    unplaced_ : {"behind", "unknown"}
        What labels left out were taken for.
    n_silent_rows_ : int
        Number of rows that told nothing, because they place no label ahead of another.
    rank_columns_ : ndarray of shape (K,)
        The labels in the order of the columns of ranks in fit; `classes_` if it was given labels.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(random_state=0).fit(X, y)
    >>> ranker.predict_order(X[[0, 83]])
    array([[0, 1, 2],
           [2, 1, 0]])
    >>> ranker.predict_top(X[[0, 83]], k=2)
    array([[0, 1],
           [2, 1]])
    """

    # Weights go to the duels, and the engine says whether it wants them.
    __metadata_request__fit = {"sample_weight": UNUSED}  # noqa: RUF012
    __metadata_request__partial_fit = {  # noqa: RUF012
        "classes": UNUSED,
        "new_labels": UNUSED,
        "sample_weight": UNUSED,
    }

    def __init__(
        self,
        estimator: Any = None,
        aggregation: str = "copeland",
        ties: str = "probability",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        unplaced: str = "auto",
        classes: Any = None,
    ) -> None:
        self.estimator = estimator
        self.aggregation = aggregation
        self.ties = ties
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.unplaced = unplaced
        self.classes = classes

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> DuelRanker:
        """Fit all duels.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n, n_features), or blocks of rows
            Whatever the engine takes. `LogisticDuels` takes blocks too: a Dask array or dataframe,
            or `duelrank.blocks.RowBlocks` of files; y and weights come in the same blocks then,
            and y holds labels.
        y : array-like of shape (n,) or (n, K), or sparse of shape (n, K)
            Class labels, at least two different ones; or ranks, one column per label, 1 for the
            best and NaN for labels without a place. Labels at the same place are tied, which says
            nothing about their duel. `duelrank.rankings` makes ranks of top-m lists
            (`ranks_from_lists`), choices, preferences and sets. The stored entries of sparse ranks
            are places; all other labels have none. The columns are named by `classes`, by a
            dataframe, or else 0..K−1. For ranks with NaN, cross-validation needs a splitter,
            ``cv=KFold(5)``: an int looks into y. Of scikit-learn's functions only searches take
            sparse y.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights of the rows.
        **fit_params : dict
            Metadata for the classifiers inside, sliced to the rows of each duel. Of evaluation sets
            (``eval_set``, ``eval_X`` and ``eval_y``, ``X_val`` and ``y_val``), every duel gets the
            rows of its two labels. Needs ``sklearn.set_config(enable_metadata_routing=True)``.

        Returns
        -------
        self : DuelRanker
            The fitted ranker.
        """
        check_choice("aggregation", self.aggregation, AGGREGATIONS)
        check_choice("ties", self.ties, TIES)
        if not (self.n_jobs is None or isinstance(self.n_jobs, Integral)):
            raise ValueError(f"n_jobs must be an integer or None, got {self.n_jobs!r}.")
        engine = self._make_engine()
        if self.aggregation == "coupling" and not hasattr(engine, "probabilities"):
            raise ValueError(
                f"aggregation='coupling' needs duel probabilities, which {engine!r} does not give; "
                "a classifier with predict_proba does, for example CalibratedClassifierCV."
            )
        metadata = route_fit_metadata(self, sample_weight, fit_params)
        if in_blocks(X):
            _check_takes_blocks(engine)
            training = encode_blocks(self, X, y, metadata.pop("sample_weight", None))
        else:
            _refuse_weights_in_blocks(metadata.get("sample_weight"))
            training = encode(self, X, y)
        classes = training.classes
        rng = check_random_state(self.random_state)
        label_order = rng.permutation(len(classes))
        self._configure(engine, classes, rng)
        sparse_or_not = getattr(engine, "takes_sparse_feedback", False)
        feedback = training.feedback if sparse_or_not else training.dense_feedback
        with fit_of_subestimator(self, engine, "duels"), named_labels(classes):
            engine.fit(training.X, feedback, len(classes), **metadata)

        self.classes_ = classes
        self.unplaced_, self.n_silent_rows_ = training.unplaced, training.n_silent_rows
        self.rank_columns_ = training.rank_columns
        self.label_order_ = np.arange(len(classes)) if self.ties == "index" else label_order
        self.duels_ = engine
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(engine, name):
                setattr(self, name, getattr(engine, name))
            elif hasattr(self, name):
                delattr(self, name)
        return self

    @available_if(_engine_can("partial_fit"))
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        new_labels: str = "add",
    ) -> DuelRanker:
        """Learn from more rows, also of labels that were never seen.

        The first call is a fit. A later one solves the duels of the labels in y; all others stay
        as they are to the last bit. With ``LogisticDuels(keep_rows=True)`` the result is that of a
        fit of all rows so far, up to the solver's tolerance, with the C of the first fit; without,
        it is an approximation, for labels that had rows before. The engine keeps the parameters
        that it had in the first call. If anything goes wrong, the ranker stays as it was.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n, n_features)
            New rows, in memory.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like, default=None
            All labels that may come; y must hold no other. A later call may name more, but must
            name all that are known. By default those that are known and those in y.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights of the new rows.
        new_labels : {"add", "error"}, default="add"
            What to do, in a later call, about labels that are not known yet: add them to
            `classes_`, or raise an error, as scikit-learn's classifiers do. `label_order_` is drawn
            anew for them.

        Returns
        -------
        self : DuelRanker
            The updated ranker.
        """
        check_choice("new_labels", new_labels, NEW_LABELS)
        if not hasattr(self, "duels_"):
            return self._first_fit(X, y, classes, sample_weight)
        check_is_fitted(self)
        codes, labels = encode_more(X, y, self.classes_, classes, new_labels)
        known = np.searchsorted(labels, self.classes_)
        engine = self._renumbered_engine(known)
        try:
            with named_labels(labels):
                engine.partial_fit(X, codes, len(labels), sample_weight, known)
        except NewLabelsError as error:
            named = labels[error.codes].tolist()
            raise ValueError(
                f"partial_fit without keep_rows takes labels that had rows before; {named} had "
                "none. Fit with LogisticDuels(keep_rows=True), which can add labels."
            ) from None
        self._renew(engine, labels)
        return self

    @available_if(_engine_can("drop_labels"))
    def drop_labels(self, labels: Any) -> DuelRanker:
        """Forget some labels: their duels and their rows; all other duels stay as they are.

        Parameters
        ----------
        labels : array-like
            Labels of `classes_`; at least two others must remain.

        Returns
        -------
        self : DuelRanker
            The smaller ranker. `label_order_` is drawn anew.
        """
        check_is_fitted(self)
        if isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
            raise ValueError(f"labels must be a list of labels, got {labels!r}.")
        codes = np.unique(codes_from_labels(list(labels), self.classes_, "labels"))
        left = np.setdiff1d(np.arange(len(self.classes_)), codes)
        if len(left) < 2:
            raise ValueError(
                f"labels must leave at least two of {self.classes_.tolist()}, got {list(labels)}."
            )
        number = np.full(len(self.classes_), -1)
        number[left] = np.arange(len(left))
        engine = self._renumbered_engine(number)
        engine.drop_labels(codes)
        self._renew(engine, self.classes_[left])
        return self

    @available_if(_engine_can("drop_labels"))
    def drop_label(self, label: Any) -> DuelRanker:
        """Forget one label, as `drop_labels` forgets several.

        Parameters
        ----------
        label : label
            One of `classes_`.

        Returns
        -------
        self : DuelRanker
            The smaller ranker.
        """
        return self.drop_labels([label])

    def _first_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> DuelRanker:
        """Fit, with other `classes` than the parameter if there are any."""
        if classes is None:
            return self.fit(X, y, sample_weight)
        other = copy.copy(self)
        other.classes = classes
        fitted = vars(other.fit(X, y, sample_weight))
        self.__dict__ = {**fitted, "classes": self.classes}
        return self

    def _renumbered_engine(self, number: NDArray[np.intp]) -> Any:
        """Return a copy of the fitted engine with class weights by new codes, −1 for none."""
        engine = copy.copy(self.duels_)
        for name, value in engine.get_params().items():
            if is_parameter(name, "class_weight") and isinstance(value, dict):
                by_code = {
                    int(number[code]): weight for code, weight in value.items() if number[code] >= 0
                }
                engine.set_params(**{name: by_code})
        return engine

    def _renew(self, engine: Any, labels: NDArray[Any]) -> None:
        """Take over an updated engine, all at once."""
        renewed: dict[str, Any] = {"classes_": labels, "duels_": engine}
        if not np.array_equal(labels, self.classes_):
            drawn = check_random_state(self.random_state).permutation(len(labels))
            renewed["label_order_"] = np.arange(len(labels)) if self.ties == "index" else drawn
            old = self.rank_columns_[np.isin(self.rank_columns_, labels)]
            renewed["rank_columns_"] = old if len(old) == len(labels) else labels
        self.__dict__.update(renewed)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores whose descending order is the ranking.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        scores : ndarray of shape (n, K), or (n,) for two labels
            With "copeland" the number of duels won plus a term between −1/2 and 1/2 that breaks
            ties; with "expected_wins" the number a label can expect to win; with "coupling" the
            posterior; with "feedback_arc_set" the number of labels placed behind, plus such a term.
            No two scores of a row are equal. For two labels,
            as scikit-learn has it, the score of the second minus that of the first.
        """
        return super().decision_function(X)

    @available_if(_engine_can("probabilities"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return posteriors from pairwise coupling that never contradict the ranking.

        Where the coupled posteriors order labels differently from the ranking, they are
        projected isotonically onto the ranking's order.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        probabilities : ndarray of shape (n, K)
            Columns follow `classes_`; strictly decreasing along the ranking.
        """
        return predict_by_blocks("predict_proba", _posteriors, _unchanged, self, X)

    @available_if(_engine_can("probabilities"))
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like with n rows, or Dask array or dataframe
            Query points; of Dask the answer is a Dask array, not yet computed.

        Returns
        -------
        log_probabilities : ndarray of shape (n, K)
            Columns follow `classes_`; −inf where a probability is 0.
        """
        return predict_by_blocks("predict_log_proba", _posteriors, _logarithms, self, X)

    def tournament(self, X: Any) -> Tournaments:
        """Return the duels behind the rankings, for explanation.

        Parameters
        ----------
        X : array-like with n rows
            Query points.

        Returns
        -------
        tournaments : duelrank.tournaments.Tournaments
            Who beats whom and how surely, cycles, scores and ranks. ``tournaments[i]`` shows
            one point as a table.
        """
        refuse_blocks(X, "pass the few that are to be explained")
        parts = list(self._tournament_batches(X, with_probabilities=True))
        return Tournaments(
            self.classes_,
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("beats", "probabilities", "scores", "exact")
            ),
        )

    def own_duels(
        self, X: Any, codes: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], NDArray[np.floating]]:
        """Return the duels between every point's own label and each other label.

        Only these K − 1 of a point's K(K−1)/2 duels are kept, so that many points fit in memory.

        Parameters
        ----------
        X : array-like with n rows
            Points whose labels are known.
        codes : ndarray of int, of shape (n,)
            Their own labels, as indices into `classes_`.

        Returns
        -------
        won : ndarray of bool, of shape (n, K)
            Whether the own label wins its duel with label k; False where k is the own label.
        probabilities : ndarray of float, of shape (n, K)
            Probability that the own label wins its duel with label k, one half where k is the own
            label, in the engine's floating type. An engine without probabilities has numbers of
            the same order here, as in `duelrank.tournaments.Tournaments`.
        """
        refuse_blocks(X, "pass the few whose duels are wanted")
        X = self._check_points(X)
        n_classes = len(self.classes_)
        codes = check_codes(codes, n_classes)
        check_consistent_length(X, codes)
        duel_of, speaks_for = duels_by_labels(n_classes)
        place = np.argsort(self.label_order_)
        favoured = place[:, np.newaxis] < place  # who gets a duel of margin 0
        won, probabilities = [], []
        for rows in margin_batches(len(codes), n_classes):
            own = codes[rows]
            duels, is_second = duel_of[own], speaks_for[own] > 0
            margins, chances = self._ask_engine(take_rows(X, rows), with_probabilities=True)
            margins = np.take_along_axis(margins, duels, axis=1)
            margins = np.where(is_second, margins, -margins)
            wins = np.where(margins == 0, favoured[own], margins > 0)
            chances = np.take_along_axis(chances, duels, axis=1)
            chances = np.where(is_second, chances, 1 - chances)
            against_itself = np.arange(len(own)), own
            wins[against_itself], chances[against_itself] = False, 0.5
            won.append(wins)
            probabilities.append(chances)
        return np.concatenate(won), np.concatenate(probabilities)

    def _default_estimator(self) -> str:
        return "LogisticDuels()"

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata to the duels."""
        router = MetadataRouter(owner=self).add_self_request(self)
        engine = self._make_engine()
        mapping = MethodMapping().add(caller="fit", callee="fit")
        if hasattr(engine, "partial_fit"):
            mapping.add(caller="partial_fit", callee="partial_fit")
        return router.add(estimator=engine, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(TypeError):  # fit will say what is wrong with the estimator
            tags.input_tags = get_tags(self._given_engine()).input_tags
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "duels_")

    def _make_engine(self) -> Any:
        """Return an unfitted engine for `estimator`."""
        return clone(self._given_engine())

    def _given_engine(self) -> Any:
        """Return the engine for `estimator`, which is not cloned: that takes long."""
        if self.estimator is None:
            return LogisticDuels()
        if isinstance(self.estimator, type):
            raise TypeError(
                f"estimator must be an instance, got the class {self.estimator.__name__}."
            )
        if isinstance(self.estimator, DuelEngine):
            return self.estimator
        if hasattr(self.estimator, "fit") and is_classifier(self.estimator):
            return EstimatorDuels(self.estimator)
        raise TypeError(
            f"estimator must be a duel engine or a scikit-learn classifier, got {self.estimator!r}."
        )

    def _configure(self, engine: Any, classes: NDArray[Any], rng: np.random.RandomState) -> None:
        """Hand down what the engine leaves open, and write class weights by code."""
        params = engine.get_params()
        if self.n_jobs is not None and params.get("n_jobs", 1) is None:
            engine.set_params(n_jobs=self.n_jobs)
        if self.random_state is not None and params.get("random_state", 0) is None:
            engine.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
        if self.verbose and "verbose" in params:
            engine.set_params(verbose=True)
        for name, value in params.items():
            if is_parameter(name, "class_weight") and isinstance(value, dict):
                engine.set_params(**{name: _weights_by_code(value, classes)})
            elif name.endswith(("param_grid", "param_distributions")):
                _refuse_class_weights(name, value)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # raises; it takes longer than the ranking of one point

    def _label_scores(self, X: Any) -> NDArray[np.float64]:
        self._check_fitted()
        if self._counting_suffices():
            return self._counted_scores(self._check_points(X))
        return np.concatenate([part.scores for part in self._tournament_batches(X)])

    def _counted_scores(self, X: Any) -> NDArray[np.float64]:
        engine, n_classes = self.duels_, len(self.classes_)
        soft = self.aggregation == "expected_wins"
        with_expected = soft or needs_expected_wins(self.ties, n_classes)
        if n_classes > MANY_LABELS and with_expected and not soft and hasattr(engine, "top_wins"):
            # The expected wins of labels that do not tie decide nothing.
            wins, expected = engine.top_wins(X, self.label_order_, n_classes)
        else:
            wins, expected = engine.wins(X, self.label_order_, with_expected=with_expected)
        copeland = copeland_from_wins(wins, expected, self.ties, self.label_order_)
        return soft_from_wins(copeland, expected) if soft else copeland

    def _top_codes(self, X: Any, k: int) -> NDArray[np.intp]:
        self._check_fitted()
        engine, by_evidence = self.duels_, self.ties == "probability"
        if not (by_evidence and self.aggregation == "copeland" and hasattr(engine, "top_wins")):
            return super()._top_codes(X, k)
        wins, expected = engine.top_wins(self._check_points(X), self.label_order_, k)
        return top_from_wins(wins, expected, self.label_order_, k)

    def _counting_suffices(self) -> bool:
        """Tell whether scores follow from the duels that labels win and expect to win."""
        return (
            hasattr(self.duels_, "wins")
            and self.aggregation in ("copeland", "expected_wins")
            and self.ties != "feedback_arc_set"
        )

    def _tournament_batches(
        self, X: Any, with_probabilities: bool = False
    ) -> Iterator[Tournaments]:
        """Yield the tournaments of a bounded number of points at a time."""
        for margins, probabilities, counted in self._duel_batches(X, with_probabilities):
            made = self._tournaments(margins, probabilities)
            # Counted and aggregated scores may differ by rounding; all methods return the
            # counted ones.
            yield made if counted is None else replace(made, scores=counted)

    def _duel_batches(self, X: Any, with_probabilities: bool) -> Iterator[DuelBatch]:
        """Yield the duels of a bounded number of points at a time, and scores if they are counted.

        `_posteriors` needs no tournaments where scores are counted.
        """
        X = self._check_points(X)
        n_rows, n_classes = X.shape[0], len(self.classes_)
        with_probabilities |= (
            self.aggregation != "copeland" or self.ties not in ("random", "index") or n_classes == 2
        )
        for rows in margin_batches(n_rows, n_classes):
            points = X if rows == slice(0, n_rows) else take_rows(X, rows)
            margins, probabilities = self._ask_engine(points, with_probabilities)
            counted = self._counted_scores(points) if self._counting_suffices() else None
            for part in margin_batches(len(margins), n_classes, TOURNAMENT_BATCH_BYTES):
                scores = None if counted is None else counted[part]
                yield margins[part], probabilities[part], scores

    def _ask_engine(
        self, points: Any, with_probabilities: bool
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return margins and probabilities, or what stands in for them if there are none."""
        engine = self.duels_
        if not (with_probabilities and hasattr(engine, "probabilities")):
            margins = engine.margins(points)
            probabilities = 0.5 + 0.5 * margins / (1 + np.abs(margins))
        elif hasattr(engine, "margins_and_probabilities"):
            margins, probabilities = engine.margins_and_probabilities(points)
        else:
            margins, probabilities = engine.margins(points), engine.probabilities(points)
        expected = (points.shape[0], n_pairs(len(self.classes_)))
        for name, values in (("margins", margins), ("probabilities", probabilities)):
            if np.shape(values) != expected:
                raise ValueError(
                    f"{name} of {engine!r} must have shape {expected}, got {np.shape(values)}."
                )
            if np.isnan(values).any():
                raise ValueError(f"{name} of {engine!r} contain NaN.")
        return margins, probabilities

    def _check_points(self, X: Any) -> Any:
        """Check shape and names of features, which does not depend on the engine."""
        self._check_fitted()
        check_choice("aggregation", self.aggregation, AGGREGATIONS)
        check_choice("ties", self.ties, TIES)
        X = as_indexable(X)
        if hasattr(self, "n_features_in_"):
            if len(X.shape) < 2:
                raise ValueError(
                    f"X must be 2D, one row per point, got shape {X.shape}. Reshape your data "
                    "with X.reshape(1, -1) if it is a single point."
                )
            if hasattr(X, "columns") or not self._has_its_columns(X):
                validate_data(self, X, reset=False, skip_check_array=True)
        return X

    def _has_its_columns(self, X: Any) -> bool:
        """Tell whether an array without names has as many columns as X had in fit, without names.

        scikit-learn would find no fault either, and take longer than the ranking of one point.
        """
        return not hasattr(self, "feature_names_in_") and X.shape[1] == self.n_features_in_

    def _tournaments(
        self, margins: NDArray[np.floating], probabilities: NDArray[np.floating]
    ) -> Tournaments:
        """Aggregate with the labels numbered by `label_order_`, and number them back."""
        n_classes = len(self.classes_)
        rows = np.arange(len(margins))
        drawn = np.ix_(rows, self.label_order_, self.label_order_)
        evidence = self._evidence(probabilities)
        beats = beats_from_square(square(margins, n_classes)[drawn])
        outcome = aggregate(beats, evidence[drawn], self.aggregation, self.ties)
        number = np.argsort(self.label_order_)
        return Tournaments(
            self.classes_,
            beats[np.ix_(rows, number, number)],
            evidence + 0.5,
            outcome.scores[:, number],
            outcome.exact,
        )

    def _evidence(self, probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
        return square(probabilities.astype(np.float64) - 0.5, len(self.classes_))


def _check_takes_blocks(engine: Any) -> None:
    if not getattr(engine, "takes_blocks", False):
        raise TypeError(
            "X comes in blocks of rows, which LogisticDuels learns from; "
            f"{type(engine).__name__} needs all rows in memory."
        )


def _refuse_weights_in_blocks(sample_weight: Any) -> None:
    if in_blocks(sample_weight):
        raise TypeError(
            f"sample_weight must be in memory as X is, got {type(sample_weight).__name__}."
        )


def _posteriors(ranker: DuelRanker, X: Any) -> NDArray[np.float64]:
    """Couple the probabilities of the duels; a function of the module, because it travels."""
    posteriors = []
    for margins, probabilities, scores in ranker._duel_batches(X, with_probabilities=True):
        if scores is None:
            scores = ranker._tournaments(margins, probabilities).scores
        coupled = posteriors_from_probabilities(ranker._evidence(probabilities) + 0.5)
        posteriors.append(project_onto_order(coupled, order_from_scores(scores)))
    return np.concatenate(posteriors)


def _unchanged(ranker: DuelRanker, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return probabilities


def _logarithms(ranker: DuelRanker, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return log_probabilities(probabilities)


def _weights_by_code(weights: dict[Any, float], classes: NDArray[Any]) -> dict[int, float]:
    """Translate class weights by label into weights by code; unnamed labels weigh 1."""
    labels = classes.tolist()
    unknown = [label for label in weights if label not in labels]
    if unknown:
        raise ValueError(
            f"class_weight must be given for labels of y; {unknown} are not among {labels}."
        )
    return {code: weights.get(label, 1.0) for code, label in enumerate(labels)}


def _refuse_class_weights(name: str, grid: Any) -> None:
    """Raise for class weights by label in the grid of a search inside the duels."""
    for grid_part in grid if isinstance(grid, list) else [grid]:
        for parameter, values in dict(grid_part).items():
            if is_parameter(parameter, "class_weight") and any(
                isinstance(value, dict) for value in np.atleast_1d(np.asarray(values, dtype=object))
            ):
                raise ValueError(
                    f"{name} must not hold dictionaries for class_weight: inside a duel, labels "
                    "have other names. Search over the DuelRanker instead."
                )
