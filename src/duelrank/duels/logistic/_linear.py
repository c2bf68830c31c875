"""LinearDuels: duels with linear margins, and how many of them every label wins."""

from __future__ import annotations

import copy
from typing import Any, Self, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from duelrank._batches import batches, even_batches
from duelrank._pairs import n_pairs
from duelrank._threads import one_blas_thread, threads_of_blas
from duelrank.blocks import refuse_blocks
from duelrank.duels._points import check_fitted_attribute, check_points, in_precision
from duelrank.duels._protocol import Engine, check_counts
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._counting import FEW_LABELS, Counting, Runs
from duelrank.duels.logistic._extremes import quiet
from duelrank.duels.logistic._first_places import points_at_once, wins_of_first
from duelrank.duels.logistic._kept import KeptDuels, are_coefficients
from duelrank.duels.logistic._margins import FeatureMargins, RowMargins, margins_of_kept
from duelrank.duels.logistic._result import FittedDuels
from duelrank.duels.logistic._tally import (
    Tally,
    close_ties,
    even_points,
    sum_again,
    sure_margins,
    ties_among,
    unsure_margins,
)

# Above so many labels, most margins are computed in single precision.
MOST_LABELS_IN_DOUBLE = 256
# How many points are counted at a time, with many labels or few.
WIN_ROWS = 256
FEW_LABELS_ROWS = 2048
POINTS_OF_TIES = 512  # whose ties are looked for at a time

# With so many labels: the most points that are counted faster run by run, and the
# most places where labels that tie are summed up one by one.
FEW_POINTS, FEW_PLACES = 8, 20

# What was prepared to compute margins, by engine and precision, and to count; a model file has no
# use for it.
_prepared: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


class LinearDuels(Engine):
    """Duels with linear margins ``X @ coef_.T + intercept_``: the parent of the logistic ones."""

    tol: float
    max_iter: int
    intercept_: Floats
    decrement_: Floats
    n_iter_: NDArray[np.intp]
    converged_: NDArray[np.bool_]
    n_classes_: int
    negligible_columns_: NDArray[np.intp]
    kept_: dict[str, Any]  # `KeptDuels` as a dictionary, where coefficients are not kept as such

    @property
    def coef_(self) -> Floats:
        """Coefficients of every duel, (K(K−1)/2, n_features), computed on demand if need be."""
        if "coef_" in vars(self):
            return cast(Floats, vars(self)["coef_"])
        if "kept_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no coef_ before it is fitted.")
        return KeptDuels(**self.kept_).all_coef()

    @coef_.setter
    def coef_(self, coef: Floats) -> None:
        self.__dict__.pop("kept_", None)
        _prepared.pop(self, None)
        self.__dict__["coef_"] = coef

    @property
    def keeps_training_rows(self) -> bool:
        """Whether the duels are kept as training rows and coefficients of these."""
        return self._has_row_coefficients()

    def _has_row_coefficients(self) -> bool:
        kept = vars(self).get("kept_")
        return isinstance(kept, dict) and len(kept.get("row_numbers", ())) > 0

    def without_training_rows(self) -> Self:
        """Return a copy that keeps coefficients of features in place of training rows.

        Returns
        -------
        engine : engine of the same class
            Its margins are the same up to rounding.

        Raises
        ------
        MemoryError
            If the coefficients do not fit in memory.
        """
        check_is_fitted(self, "intercept_")
        engine = copy.copy(self)
        if self._has_row_coefficients():
            engine._keep_coefficients(KeptDuels(**self.kept_).without_rows())
        return engine

    def margins(self, X: Any) -> Floats:
        """Return the margins of all duels, the log-odds that the second label wins.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Positive when the second label of the duel wins.
        """
        with quiet():
            return self._margins(X)

    def _margins(self, X: Any) -> Floats:
        X = self._check_points(X)
        source = self._margins_in(self.intercept_.dtype)
        runs = Runs.of(self.n_classes_, source.run_length(X), source.dtype)
        margins = np.empty((X.shape[0], len(self.intercept_)), dtype=self.intercept_.dtype)
        with one_blas_thread():
            for rows in batches(X.shape[0], source.points_at_once(X) or X.shape[0]):
                margins_of = source.of(X[rows], self.intercept_)
                for run in runs.slices:
                    margins[rows, run] = margins_of(run)
        return margins

    def probabilities(self, X: Any) -> Floats:
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
        margins = self.margins(X)
        return expit(margins, out=margins)

    def margins_and_probabilities(self, X: Any) -> tuple[Floats, Floats]:
        """Return both from one product.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.

        Returns
        -------
        margins, probabilities : ndarrays of shape (n, K(K−1)/2)
            As by the methods of these names.
        """
        margins = self.margins(X)
        return margins, expit(margins)

    def wins(
        self, X: Any, label_order: NDArray[np.intp], with_expected: bool = True
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count the duels that every label wins, and those it can expect to win.

        Margins are computed for some points and duels at a time, and never held together.

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
            Sum of the probabilities to win; zeros if not wanted.
        """
        with quiet():
            return self._count(X, label_order, with_expected)

    def top_wins(
        self, X: Any, label_order: NDArray[np.intp], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count like `wins`, with no more probabilities than the first k places need.

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
            Number of duels won. Labels that win fewer than the k-th best may have another number
            that is smaller than that of the k-th best.
        expected : ndarray of float, of shape (n, K)
            Sum of the probabilities to win, for points where labels with equally many wins are
            among the first k or next to them; for other points any numbers from 0 to K−1.
        """
        with quiet():
            return self._count(X, label_order, True, k)

    def _count(
        self, X: Any, label_order: NDArray[np.intp], with_expected: bool, first: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        X = self._check_points(X)
        dense = "coef_" in vars(self) and not sparse.issparse(X)
        if not dense or self.n_classes_ <= MOST_LABELS_IN_DOUBLE:
            return self._count_runs(X, label_order, with_expected, first)
        few_places = first is not None and first <= FEW_PLACES
        unsure_below = self._longest() * unsure_margins(X)
        at_once = 0 if first is None else points_at_once(X.shape[0], self.n_classes_, first)
        if X.shape[0] <= FEW_POINTS:
            wins, expected = self._count_runs(X, label_order, with_expected, first, unsure_below)
        elif first is not None and at_once:
            wins, expected = self._count_first_places(X, label_order, first, at_once)
        else:
            wins, expected = self._count_by_label(X, label_order, with_expected and not few_places)
        if with_expected:
            self._decide_ties(X, wins, expected, unsure_below, first, few_places)
        return wins, expected

    def _count_runs(
        self,
        X: Any,
        label_order: NDArray[np.intp],
        with_expected: bool,
        first: int | None,
        unsure_below: Floats | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count run by run: any points, and any kind of margins.

        Margins of dense points that are not above `unsure_below`, (n,), are computed in double
        precision, if it is given.
        """
        source = self._margins_in(self._dtype_of_wins())
        runs = Runs.of(self.n_classes_, source.run_length(X), source.dtype)
        counting = Counting.of(label_order, source.dtype, with_expected, first)
        intercept = self.intercept_.astype(source.dtype, copy=False)
        wins = np.empty((X.shape[0], self.n_classes_), dtype=np.int64)
        expected = np.empty((X.shape[0], self.n_classes_))

        def count(rows: slice) -> None:
            points = in_precision(X if len(parts) == 1 else X[rows], source.dtype)
            margins_of = source.of(points, intercept)
            if unsure_below is not None:
                duels = self.coef_, self.intercept_
                margins_of = sure_margins(margins_of, X[rows], *duels, unsure_below[rows])
            wins[rows], expected[rows] = counting.duels(margins_of, points.shape[0], runs)

        at_once = FEW_LABELS_ROWS if self.n_classes_ <= FEW_LABELS else WIN_ROWS
        parts = list(even_batches(X.shape[0], min(at_once, source.points_at_once(X) or at_once)))
        if len(parts) == 1:
            with one_blas_thread():
                count(parts[0])
        else:
            with quiet(), threads_of_blas() as threads:
                threads.map(count, parts)
        return wins, expected

    def _count_by_label(
        self, X: Floats, label_order: NDArray[np.intp], with_expected: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count label by label: several dense points, and many labels."""
        tally = self._tally(label_order)
        wins = np.empty((X.shape[0], self.n_classes_), dtype=np.int64)
        expected = np.empty((X.shape[0], self.n_classes_))

        def count(rows: slice) -> None:
            wins[rows], expected[rows] = tally.wins(X[rows], with_expected)

        with quiet(), threads_of_blas() as threads:
            threads.map(count, even_points(X.shape[0]))
        return wins, expected

    def _count_first_places(
        self, X: Floats, label_order: NDArray[np.intp], k: int, at_once: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count the wins of labels that may be among the first k: many dense points and labels."""
        tally = self._tally(label_order)
        wins = np.empty((X.shape[0], self.n_classes_), dtype=np.int64)

        def count(rows: slice) -> None:
            wins[rows] = wins_of_first(tally, X[rows], k)

        with quiet(), threads_of_blas() as threads:
            threads.map(count, list(even_batches(X.shape[0], at_once)))
        return wins, np.zeros(wins.shape)

    def _decide_ties(
        self,
        X: Floats,
        wins: NDArray[np.int64],
        expected: Floats,
        unsure_below: Floats,
        first: int | None,
        all_ties: bool,
    ) -> None:
        """Sum up the expected wins of labels that tie again, in place, in double precision.

        Of all labels that tie, or of those that single precision cannot tell apart.
        """
        again = np.empty(wins.shape, dtype=bool)

        def look(rows: slice) -> None:
            again[rows] = (
                ties_among(wins[rows], first)
                if all_ties
                else close_ties(wins[rows], expected[rows], unsure_below[rows], first)
            )

        with quiet(), threads_of_blas() as threads:
            threads.map(look, list(batches(X.shape[0], POINTS_OF_TIES)))
            sum_again(X, self.coef_, self.intercept_, expected, again, threads)

    def _tally(self, label_order: NDArray[np.intp]) -> Tally:
        """Return what counts label by label; it is prepared once."""
        duels = self.coef_, self.intercept_
        prepared = _prepared.setdefault(self, {})
        tally = prepared.get("tally")
        if not (isinstance(tally, Tally) and tally.counts(*duels, label_order)):
            tally = prepared["tally"] = Tally.of(*duels, label_order, self._longest())
        return tally

    def _longest(self) -> float:
        """Return the largest length of a duel's coefficients with its intercept, found once."""
        prepared = _prepared.setdefault(self, {})
        intercept, longest = prepared.get("longest", (None, 0.0))
        if intercept is not self.intercept_:
            intercept, coef = self.intercept_, self.coef_
            squares = np.einsum("pj,pj->p", coef, coef) + intercept.astype(np.float64) ** 2
            longest = float(np.sqrt(squares.max(initial=0)))
            prepared["longest"] = intercept, longest
        return float(longest)

    def duel_coefficients(self, duels: NDArray[np.intp]) -> tuple[Floats, Floats]:
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
        check_is_fitted(self, "intercept_")
        if "kept_" in vars(self):
            return KeptDuels(**self.kept_).coef_of_duels(duels), self.intercept_[duels]
        return self.coef_[duels], self.intercept_[duels]

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
        n_duels = n_pairs(n_classes)
        check_counts(
            are_coefficients(self.intercept_, (n_duels,))
            and type(self.n_classes_) is int
            and self.n_classes_ == n_classes
            and ("kept_" in vars(self)) != ("coef_" in vars(self))
        )
        if "kept_" in vars(self):
            check_counts(KeptDuels(**self.kept_).fits_together(n_classes, self.n_features_in_))
        else:
            check_counts(are_coefficients(self.coef_, (n_duels, self.n_features_in_)))

    def _keep(self, fitted: FittedDuels, kept: KeptDuels) -> None:
        """Keep the result of a fit, and its coefficients in the form they are in."""
        self._keep_coefficients(kept)
        self.intercept_ = fitted.intercept
        self.decrement_, self.n_iter_ = fitted.decrement, fitted.n_iter
        self.converged_ = fitted.decrement <= self.tol
        self.n_classes_ = kept.n_classes

    def _keep_coefficients(self, kept: KeptDuels) -> None:
        self.coef_ = kept.coef  # forgets what an earlier fit has kept
        if not kept.is_plain:
            del self.__dict__["coef_"]
            self.kept_ = kept._asdict()

    def _forget_margins(self) -> None:
        """Forget what was prepared to compute margins."""
        _prepared.pop(self, None)

    def _margins_in(self, dtype: np.dtype[Any]) -> FeatureMargins | RowMargins:
        """Return what computes margins in a precision; it is prepared once."""
        has_coefficients = "kept_" not in vars(self)
        if has_coefficients and self.coef_.dtype == dtype:
            return FeatureMargins(self.coef_)
        prepared = _prepared.setdefault(self, {})
        if dtype not in prepared:
            prepared[dtype] = (
                FeatureMargins(self.coef_.astype(dtype))
                if has_coefficients
                else margins_of_kept(KeptDuels(**self.kept_), dtype)
            )
        return cast(FeatureMargins | RowMargins, prepared[dtype])

    def _dtype_of_wins(self) -> np.dtype[Any]:
        """Return the precision in which wins are counted.

        Sparse kept rows take single precision, which halves the numbers to be read.
        """
        kept = KeptDuels(**self.kept_) if "kept_" in vars(self) else None
        if (kept and kept.has_rows and not kept.dense) or self.n_classes_ > MOST_LABELS_IN_DOUBLE:
            return np.dtype(np.float32)
        return self.intercept_.dtype

    def _check_points(self, X: Any) -> Any:
        check_fitted_attribute(self, "intercept_")
        refuse_blocks(X, "a DuelRanker takes blocks")
        return check_points(self, X, self.intercept_.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
