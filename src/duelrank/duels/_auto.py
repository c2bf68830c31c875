"""AutoDuels: whichever engine ranks held-out rows best.

A part of the rows is held out once. Every candidate learns from the others, where engines that
search find their strengths too, and ranks the held-out rows. The best one learns from all rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from duelrank._batches import margin_batches
from duelrank._pairs import beats_from_square, square
from duelrank._parameters import check_count
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank.blocks import refuse_blocks
from duelrank.duels._forest import ForestDuels
from duelrank.duels._points import FLOATS, check_fitted_attribute, check_points
from duelrank.duels._protocol import DuelEngine, Engine, check_counts, check_engine
from duelrank.duels._sides import check_rows, first_labels
from duelrank.duels.anchored import AnchoredDuelsCV
from duelrank.duels.logistic import LogisticDuels, LogisticDuelsCV
from duelrank.duels.logistic._strength import mean_square
from duelrank.feedback import SparseRanks, as_ranks
from duelrank.losses import count_known_pairs, kendall_tau_of_known_pairs
from duelrank.rankings import ranks_from_scores

__all__ = ["AutoDuels"]

RIVALS = 10  # of a label, whose duels the anchored candidate corrects
# Above so many labels, independent duels are no candidate: K(K−1)/2 of them take too long.
MANY_LABELS = 300
# The same for forests: they rank by tables of nodes and duels, and grow one output for each label
# where rows are rankings.
MANY_LABELS_OF_TREES, MANY_RANKED_LABELS = 150, 50
# More columns are those of embeddings, no one of which tells a tree much.
MANY_COLUMNS_OF_TREES = 300
# Of scores on sparse X, for rows of length one: margins may be about as large as their roots. More
# ranks text no better, and the search takes half as long again.
STRENGTHS = np.geomspace(1, 1e3, 4)
# On dense X, whose columns should have the standard scale.
TABLE_STRENGTHS, TABLE_TOL = (0.01, 0.1, 1.0, 10.0, 100.0), 1e-4
# Rows times columns times labels of dense X, above which anchored duels are no candidate: the path
# of their strengths takes minutes.
MUCH_WORK = 3e7
ROUGH_TOL = 1e-2  # of scores of text: closer ones rank no better, and take twice as long
MOST_TESTED = 5_000  # held-out rows
LONGEST_LIST = 5  # whose accuracy matters
TOP_NAME, TAU_NAME = "mean of the top-1 to top-{} accuracies", "Kendall's τ of what rows tell"


def _chosen_has(name: str) -> Callable[[AutoDuels], bool]:
    """Return what tells whether the chosen engine has a method."""

    def has_it(engine: AutoDuels) -> bool:
        # Before the fit nobody knows; all engines that are tried by default have these methods.
        chosen = vars(engine).get("engine_")
        return engine.candidates is None if chosen is None else hasattr(chosen, name)

    return has_it


class AutoDuels(Engine):
    """Duels by the engine that suits the data.

    A share of the rows is held out. Every candidate learns from the others and ranks the held-out
    rows, and the best one is fitted on all rows. Where rows have labels, the score is the mean of
    the top-1 to top-5 accuracies; where they have rankings, lists or choices, it is Kendall's τ
    over the pairs of labels whose order a row tells.

    Parameters
    ----------
    candidates : mapping of str to engine, default=None
        Engines to choose from, by name. The first one that is within one standard error of the best
        is taken, so those to be preferred come first. By default logistic duels, anchored duels and
        `ForestDuels`; if X is sparse, as text is, anchored duels and logistic duels. The strengths
        of penalties are chosen from the data. Some take no part where they would take minutes:
        logistic duels above 300 labels, forests above 150 (50 with rankings) or 300 columns,
        anchored duels if X is dense and large.
    test_size : float, default=0.2
        Share of the rows that is held out, at most 5,000 rows. One row of every label is learned
        from.
    max_rows : int, default=20000
        Most rows that candidates learn from, drawn at random; the best one learns from all.
    n_jobs : int, default=None
        Number of jobs, for candidates that have `n_jobs` and leave it None.
    random_state : int, RandomState instance or None, default=None
        Draws the rows that are held out, and the randomness of candidates that have a
        `random_state` and leave it None.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    engine_ : duel engine
        The best candidate, fitted on all rows.
    chosen_ : str
        Its name.
    trials_ : list of dict
        Of every candidate its ``"name"``, its mean ``"score"`` on the held-out rows, and the
        ``"seconds"`` that it took to fit it and to rank them. The score of the chosen one is a
        little too good, because the same rows have chosen it.
    score_name_ : str
        What the scores are.
    n_held_out_ : int
        Number of rows that they were compared on.
    n_classes_ : int
        Number of labels K.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import AutoDuels, DuelRanker
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(AutoDuels(), random_state=0).fit(X, y)
    >>> [trial["name"] for trial in ranker.duels_.trials_]
    ['logistic', 'anchored', 'forest']
    >>> ranker.predict_order(X[[0, 83]])
    array([[0, 1, 2],
           [2, 1, 0]])
    """

    takes_sparse_feedback = True

    def __init__(
        self,
        candidates: Mapping[str, Any] | None = None,
        *,
        test_size: float = 0.2,
        max_rows: int = 20_000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.candidates = candidates
        self.test_size = test_size
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None) -> AutoDuels:
        """Choose an engine, and fit it on all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Finite numbers. Sparse X stays sparse.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K), or SparseRanks
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self : AutoDuels
            The fitted engine.
        """
        self._check_parameters()
        refuse_blocks(X, "LogisticDuels takes blocks")
        X, feedback, weights = self._check_rows(X, feedback, n_classes, sample_weight)
        if hasattr(self, "engine_"):  # if a candidate fails, nothing is half-fitted
            delattr(self, "engine_")
        rng = check_random_state(self.random_state)
        tells = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights > 0)
        split = _hold_out(first_labels(feedback)[tells], self.test_size, self.max_rows, rng)
        train, test = (tells[part] for part in split)
        seed = rng.randint(np.iinfo(np.int32).max)
        part = None if weights is None else weights[train]
        candidates = self._candidates(X, feedback, n_classes, train, part, rng)
        trials, engines, scores = [], {}, {}
        counts = np.ones(len(test)) if weights is None else weights[test]
        with Progress(self, len(candidates) + 1, "engine", bool(self.verbose)) as progress:
            for name, candidate in candidates.items():
                start = time.perf_counter()
                engine = _ready(candidate, self.n_jobs, seed)
                engine = _fit(engine, X[train], feedback[train], n_classes, part)
                scores[name] = _scores_of_rows(engine, X[test], feedback[test], n_classes)
                seconds = time.perf_counter() - start
                score = _mean(scores[name], counts)
                trials.append({"name": name, "score": score, "seconds": seconds})
                engines[name] = engine.settled() if hasattr(engine, "settled") else clone(engine)
                progress.step()
            chosen = _first_of_the_best(scores, counts)
            self.engine_ = _fit(engines[chosen], X, feedback, n_classes, weights)
            progress.step()
        self.chosen_, self.trials_, self.n_held_out_ = chosen, trials, len(test)
        longest = min(LONGEST_LIST, n_classes - 1)
        of_labels = "top-1 accuracy" if longest == 1 else TOP_NAME.format(longest)
        self.score_name_ = of_labels if feedback.ndim == 1 else TAU_NAME
        self.n_classes_ = n_classes
        return self

    def margins(self, X: Any) -> NDArray[np.floating]:
        """Return the margins of all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Positive when the second label of the duel wins.
        """
        margins: NDArray[np.floating] = self._fitted().margins(self._check_points(X))
        return margins

    @available_if(_chosen_has("probabilities"))
    def probabilities(self, X: Any) -> Any:
        """Return the probability that the second label wins, for all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.


        Returns
        -------
        probabilities : ndarray of shape (n, K(K−1)/2)
            One column per duel.
        """
        return self._fitted().probabilities(self._check_points(X))

    @available_if(_chosen_has("margins_and_probabilities"))
    def margins_and_probabilities(self, X: Any) -> Any:
        """Return both at once.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.


        Returns
        -------
        margins, probabilities : ndarrays of shape (n, K(K−1)/2)
            As by the methods of these names.
        """
        return self._fitted().margins_and_probabilities(self._check_points(X))

    @available_if(_chosen_has("wins"))
    def wins(self, X: Any, label_order: NDArray[np.intp], with_expected: bool = True) -> Any:
        """Count the duels that every label wins, and those it can expect to win.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.
        label_order : ndarray of int, of shape (K,)
            Codes, favoured label first: it wins a duel with margin 0.
        with_expected : bool, default=True
            Whether the second result is wanted.


        Returns
        -------
        wins : ndarray of int, of shape (n, K)
            Number of duels won.
        expected : ndarray of float, of shape (n, K)
            Sum of the probabilities to win.
        """
        return self._fitted().wins(self._check_points(X), label_order, with_expected)

    @available_if(_chosen_has("top_wins"))
    def top_wins(self, X: Any, label_order: NDArray[np.intp], k: int) -> Any:
        """Count like `wins`, as far as the first k places need it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.
        label_order : ndarray of int, of shape (K,)
            Codes, favoured label first: it wins a duel with margin 0.
        k : int
            How many places matter.

        Returns
        -------
        wins : ndarray of int, of shape (n, K)
            Number of duels won; smaller ones than that of the k-th best may be other ones.
        expected : ndarray of float, of shape (n, K)
            Sum of the probabilities to win, where they matter.
        """
        return self._fitted().top_wins(self._check_points(X), label_order, k)

    @available_if(_chosen_has("duel_coefficients"))
    def duel_coefficients(self, duels: NDArray[np.intp]) -> Any:
        """Return the coefficients and intercepts of some duels.

        Parameters
        ----------
        duels : ndarray of int, of shape (m,)
            Their numbers, in the order of `duelrank.pairs`.

        Returns
        -------
        coef : ndarray of shape (m, n_features)
            Positive ones speak for the second label of a duel.
        intercept : ndarray of shape (m,)
            What margins are at a point of zeros.
        """
        check_is_fitted(self, "engine_")
        return self.engine_.duel_coefficients(duels)

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
        check_counts(type(self.n_classes_) is int and self.n_classes_ == n_classes)
        chosen = self.engine_
        check_counts(isinstance(chosen, DuelEngine) and not isinstance(chosen, AutoDuels))
        check_engine(self.engine_, n_classes)

    def inner_estimator(self) -> Any:
        """Return the engine that was chosen, which gets X as it comes."""
        return self.engine_

    def _fitted(self) -> Any:
        check_fitted_attribute(self, "engine_")
        return self.engine_

    def _check_points(self, X: Any) -> Any:
        refuse_blocks(X, "a DuelRanker takes blocks")
        return check_points(self, X, *FLOATS)

    def _check_parameters(self) -> None:
        if not (isinstance(self.test_size, Real) and 0 < self.test_size < 1):
            raise ValueError(f"test_size must be between 0 and 1, got {self.test_size!r}.")
        check_count("max_rows", self.max_rows)
        if self.candidates is None:
            return
        if not isinstance(self.candidates, Mapping) or not self.candidates:
            raise ValueError(
                f"candidates must be a dictionary of engines by name, got {self.candidates!r}."
            )
        for name, engine in self.candidates.items():
            is_engine = isinstance(engine, DuelEngine) and not isinstance(engine, type)
            if not is_engine or isinstance(engine, AutoDuels):
                raise ValueError(f"candidates[{name!r}] must be a duel engine, got {engine!r}.")

    def _check_rows(self, X: Any, feedback: Any, n_classes: int, sample_weight: Any) -> Any:
        codes = np.zeros(len(feedback), dtype=np.intp)
        is_sparse = isinstance(feedback, SparseRanks)
        rows = check_rows(
            self,
            X,
            codes if is_sparse else feedback,
            n_classes,
            sample_weight,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
        )
        weights = None if sample_weight is None else rows.weights
        return rows.X, feedback if is_sparse else rows.feedback, weights

    def _candidates(
        self,
        X: Any,
        feedback: Any,
        n_classes: int,
        train: NDArray[np.intp],
        weights: NDArray[np.float64] | None,
        rng: np.random.RandomState,
    ) -> dict[str, Any]:
        """Make the candidates for the rows that they learn from; weights are those of these."""
        if self.candidates is not None:
            return dict(self.candidates)
        # The rows that candidates learn from are split once more, for their strengths.
        learned: Any = X[train]
        inner = [_hold_out(first_labels(feedback[train]), self.test_size, len(train), rng)]
        if sparse.issparse(X):
            Cs = _strengths_for(learned, weights)
            made: dict[str, Any] = {
                "anchored": AnchoredDuelsCV(Cs, rivals=0, cv=inner, tol=ROUGH_TOL),
                "logistic": LogisticDuels(C="scale"),
            }
        else:
            made = {
                "logistic": LogisticDuelsCV(
                    TABLE_STRENGTHS,
                    cv=inner,
                    scoring="neg_log_loss",
                    shared_C=True,
                    tol=TABLE_TOL,
                ),
                "anchored": AnchoredDuelsCV(rivals=RIVALS, cv=inner),
                "forest": ForestDuels(),
            }
            if len(train) * X.shape[1] * n_classes > MUCH_WORK:
                del made["anchored"]
            most = MANY_LABELS_OF_TREES if feedback.ndim == 1 else MANY_RANKED_LABELS
            if n_classes > most or X.shape[1] > MANY_COLUMNS_OF_TREES:
                del made["forest"]
        if n_classes > MANY_LABELS:
            del made["logistic"]
        if not made:  # the cheapest that there is
            Cs = _strengths_for(learned, weights)
            made["anchored"] = AnchoredDuelsCV(Cs[:3], rivals=0, cv=inner, tol=ROUGH_TOL)
        return made


def _hold_out(
    codes: NDArray[np.intp], share: float, most: int, rng: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw rows to learn from and rows to test on: every so many, label by label.

    So labels have their share of both, and rare ones together as well. One row of every label is
    learned from.
    """
    shuffled = rng.permutation(len(codes))
    by_label = shuffled[np.argsort(codes[shuffled], kind="stable")]
    passed = np.floor(share * np.arange(len(codes) + 1) + rng.random_sample())
    is_first = np.diff(codes[by_label], prepend=-1) != 0
    tests = (np.diff(passed) > 0) & ~is_first
    if not tests.any():  # every label has a single row
        tests[rng.permutation(len(codes))[: max(1, int(share * len(codes)))]] = True
    train, test = by_label[~tests], by_label[tests]
    train, test = (rng.permutation(rows) for rows in (train, test))
    return np.sort(train[:most]), np.sort(test[:MOST_TESTED])


def _strengths_for(X: Any, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return C's for rows of this length, as round numbers."""
    scaled = STRENGTHS / mean_square(X, weights, centre=True)
    return np.array([float(f"{C:.2g}") for C in scaled])


def _ready(candidate: Any, n_jobs: int | None, seed: int) -> Any:
    """Return a copy with what it leaves open."""
    engine = clone(candidate)
    params = engine.get_params()
    if n_jobs is not None and params.get("n_jobs", 1) is None:
        engine.set_params(n_jobs=n_jobs)
    if params.get("random_state", 0) is None:
        engine.set_params(random_state=seed)
    return engine


def _fit(engine: Any, X: Any, feedback: Any, n_classes: int, weights: Any) -> Any:
    if isinstance(feedback, SparseRanks) and not getattr(engine, "takes_sparse_feedback", False):
        feedback = feedback.dense()
    options = {} if weights is None else {"sample_weight": weights}
    return engine.fit(X, feedback, n_classes, **options)


def _scores_of_rows(engine: Any, X: Any, feedback: Any, n_classes: int) -> NDArray[np.float64]:
    """Return how well an engine ranks each row, by top-k accuracies or by τ."""
    scores = _copeland_scores(engine, X, n_classes)
    if feedback.ndim == 1:
        longest = min(LONGEST_LIST, n_classes - 1)
        own = np.take_along_axis(scores, feedback[:, np.newaxis], axis=1)
        places = np.sum(scores >= own, axis=1)
        return np.asarray(np.maximum(longest + 1 - places, 0) / longest)
    ranks = ranks_from_scores(scores)
    if isinstance(feedback, SparseRanks):
        return _tau_of_sparse_ranks(feedback, ranks)
    return kendall_tau_of_known_pairs(as_ranks(feedback, n_classes), ranks)


def _tau_of_sparse_ranks(feedback: SparseRanks, ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return τ over the pairs whose order rows tell, from the labels that they place alone."""
    n_rows, n_classes = feedback.shape
    told, right = np.zeros(n_rows), np.zeros(n_rows)
    for n_placed in np.unique(feedback.n_placed).tolist():
        rows = np.flatnonzero(feedback.n_placed == n_placed)
        some = feedback[rows].ranks
        labels = some.indices.reshape(len(rows), n_placed)
        own = np.take_along_axis(ranks[rows], labels, axis=1)
        known = count_known_pairs(some.data.reshape(len(rows), n_placed), own)
        told[rows], right[rows] = known
        if feedback.unplaced == "behind":
            # Behind a label are all that have a later place, those that rows place among them.
            placed = np.arange(n_placed)[np.newaxis, ::-1]
            told[rows] += n_placed * (n_classes - n_placed)
            right[rows] += np.sum(n_classes - np.sort(own, axis=1) - placed, axis=1)
    return np.divide(2 * right - told, told, out=np.full(n_rows, np.nan), where=told > 0)


def _mean(of_rows: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the mean of what rows say; those that say nothing are NaN."""
    known = ~np.isnan(of_rows)
    return float(np.average(of_rows[known], weights=weights[known])) if known.any() else 0.0


def _first_of_the_best(
    scores: Mapping[str, NDArray[np.float64]], weights: NDArray[np.float64]
) -> str:
    """Return the first name whose scores are within one standard error of the best ones."""
    best = max(scores.values(), key=lambda of_rows: _mean(of_rows, weights))
    for name, of_rows in scores.items():
        known = ~np.isnan(best - of_rows)
        behind, own = (best - of_rows)[known], weights[known]
        mean = _mean(behind, own)
        if mean * own.sum() <= np.sqrt(np.sum((own * (behind - mean)) ** 2)):
            return name
    raise AssertionError("the best is within one standard error of itself")


def _copeland_scores(engine: Any, X: Any, n_classes: int) -> NDArray[np.float64]:
    """Return duels won, with ties broken by duels that a label can expect to win."""
    if hasattr(engine, "wins"):
        wins, expected = engine.wins(X, np.arange(n_classes))
        return np.asarray(wins + expected / (2 * n_classes))
    scores = np.empty((X.shape[0], n_classes))
    for rows in margin_batches(X.shape[0], n_classes):
        margins = square(engine.margins(X[rows]), n_classes)
        evidence = (margins / (1 + np.abs(margins))).sum(axis=2)
        scores[rows] = beats_from_square(margins).sum(axis=2) + evidence / (4 * n_classes)
    return scores
