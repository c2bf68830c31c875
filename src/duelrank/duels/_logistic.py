"""LogisticDuels: all K(K−1)/2 logistic regressions in one batched solve."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._pairs import pairs, sides_of_labels
from duelrank._parameters import check_count, check_positive
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank._threads import one_blas_thread
from duelrank.blocks._labeled import LabeledBlocks
from duelrank.blocks._ranking import refuse_blocks
from duelrank.blocks._sources import in_blocks
from duelrank.duels._logistic_blocks import fit_blocks
from duelrank.duels._logistic_checkpoint import Fitted
from duelrank.duels._logistic_fit import Announce, Settings, fit_held
from duelrank.duels._logistic_objective import Floats, crew, wrong_side
from duelrank.duels._logistic_rows import check_logistic_rows, check_settings, drop_weightless
from duelrank.duels._protocol import Engine

# Above so many labels, the sums that break ties are taken in single precision.
MOST_LABELS_IN_DOUBLE = 256
# How many points and duels are counted at a time, many labels or few.
WIN_ROWS, WIN_COLUMNS = 256, 1024
FEW_LABELS, FEW_LABELS_ROWS = 40, 2048


class LinearDuels(Engine):
    """Duels with linear margins ``X @ coef_.T + intercept_``: the parent of the logistic ones."""

    coef_: Floats
    intercept_: Floats
    n_classes_: int

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
        X = self._check_points(X)
        with one_blas_thread():
            margins: Floats = X @ self.coef_.T
        margins += self.intercept_
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

        Margins are computed a block of points and duels at a time and never held together.

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
        X = self._check_points(X)
        n_classes = self.n_classes_
        dtype = self.coef_.dtype if n_classes <= MOST_LABELS_IN_DOUBLE else np.dtype(np.float32)
        # The least margin with which the second label wins: 0 suffices if it is favoured.
        place = np.argsort(label_order)
        first, second = pairs(n_classes)
        below_zero = -np.finfo(dtype).smallest_subnormal
        threshold = np.where(place[second] < place[first], below_zero, 0).astype(dtype)
        coef, intercept = self.coef_.astype(dtype), self.intercept_.astype(dtype)
        few = n_classes <= FEW_LABELS
        wins = np.empty((X.shape[0], n_classes), dtype=np.int64)
        expected = np.zeros((X.shape[0], n_classes))
        # Of K−1 duels, label k is the second one in k and the first one in the others.
        as_second = np.arange(n_classes)

        def count(rows: slice) -> None:
            points = X[rows].astype(dtype, copy=False)
            won = np.zeros((points.shape[0], n_classes), dtype=dtype if few else np.int32)
            chance = np.zeros((points.shape[0], n_classes), dtype=dtype)
            for labels, duels in _runs(n_classes, WIN_COLUMNS):
                margins = points @ coef[duels].T
                margins += intercept[duels]
                second_wins = margins > threshold[duels]
                if few:
                    won += second_wins.astype(dtype) @ sides
                else:
                    for label, columns in labels:
                        won[:, label + 1 :] += second_wins[:, columns]
                        won[:, label] -= np.count_nonzero(second_wins[:, columns], axis=1)
                if not with_expected:
                    continue
                first_expects = wrong_side(margins, out=margins)
                if few:
                    chance -= first_expects @ sides
                else:
                    for label, columns in labels:
                        chance[:, label + 1 :] -= first_expects[:, columns]
                        chance[:, label] += first_expects[:, columns].sum(axis=1)
            wins[rows] = won + (n_classes - 1 - as_second)
            if with_expected:
                expected[rows] = chance + as_second

        if few:  # all duels are one run, and a product sums over them: second minus first label
            sides = sides_of_labels(n_classes).astype(dtype)
        step = FEW_LABELS_ROWS if few else WIN_ROWS
        with crew() as threads:
            starts = range(0, X.shape[0], step)
            threads.map(count, [slice(start, start + step) for start in starts])
        return wins, expected

    def _check_points(self, X: Any) -> Any:
        check_is_fitted(self, "coef_")
        refuse_blocks(X, "a DuelRanker takes blocks")
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=self.coef_.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LogisticDuels(LinearDuels):
    """Duels fought by L2-regularised logistic regressions, all solved together.

    Every duel minimises what scikit-learn's ``LogisticRegression`` minimises on the rows of its two
    labels, ½‖w‖² + C Σ_i s_i log(1 + exp(−y_i (x_i·w + b))), with an intercept b that is not
    penalised. The duels share all passes over the data, so that K(K−1)/2 of them take a fraction of
    the time that fitting them one by one takes.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty.
    fit_intercept : bool, default=True
        Whether the duels have an intercept.
    class_weight : dict or "balanced", default=None
        Weights of the labels: a dictionary by label (by code, when the engine is used without a
        ranker), or "balanced" for weights that make the two labels of each duel count the same.
    tol : float, default=1e-8
        Relative Newton decrement below which a duel has converged: roughly the relative gain in
        the objective that one more step could bring.
    max_iter : int, default=100
        Most Newton iterations.
    dtype : {"float64", "float32"}, default=None
        Precision of the coefficients; by default that of X. In "float64" only the last iterations
        take gradients in double precision.
    working_memory : float, default=512
        Mebibytes that the intermediate results of a fit should take, by estimate, besides X, sorted
        copies of X in both precisions and the coefficients. With many labels, blocks of duels are
        solved one after another.
    verbose : bool, default=False
        Whether to show progress on standard error.
    checkpoint : path, default=None
        A file to write what has been reached to, every few iterations. A fit of the same data and
        parameters that finds the file goes on from there, even with other blocks of rows or another
        `tol`; one of other data raises an error. The file is removed when all duels have converged;
        if some have not within `max_iter`, another fit goes on for as many iterations. Fits that
        run at the same time, as in a search, need files of their own.
    checkpoint_every : int, default=5
        Iterations between two times of writing; where duels are solved one block after another,
        blocks count as well.

    Attributes
    ----------
    coef_ : ndarray of shape (K(K−1)/2, n_features)
        Weights of every duel, in the order of `duelrank.pairs`.
    intercept_ : ndarray of shape (K(K−1)/2,)
        Intercepts. A duel of which only one label was seen has no weights and an intercept of ±100.
    decrement_ : ndarray of shape (K(K−1)/2,)
        Relative Newton decrement of every duel before its last step, its certificate.
    converged_ : ndarray of bool, of shape (K(K−1)/2,)
        Whether the decrement reached `tol`.
    n_iter_ : ndarray of int, of shape (K(K−1)/2,)
        Newton iterations over all rows of every duel.
    n_classes_ : int
        Number of labels K.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from duelrank import DuelRanker, LogisticDuels
    >>> X, y = load_digits(return_X_y=True)
    >>> ranker = DuelRanker(LogisticDuels(C=0.01), random_state=0).fit(X[:900], y[:900])
    >>> ranker.duels_.coef_.shape
    (45, 64)
    >>> bool(ranker.duels_.converged_.all())
    True
    """

    takes_blocks = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-8,
        max_iter: int = 100,
        dtype: Any = None,
        working_memory: float = 512,
        verbose: bool = False,
        checkpoint: Any = None,
        checkpoint_every: int = 5,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.working_memory = working_memory
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    @with_callbacks
    def fit(self, X: Any, codes: Any, n_classes: int, sample_weight: Any = None) -> LogisticDuels:
        """Fit all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), or blocks of rows
            Finite numbers. Sparse X stays sparse. Blocks are a Dask array or dataframe, or
            `duelrank.blocks.RowBlocks`; codes and weights come in the same blocks then.
        codes : array-like of int, of shape (n,), or of float, of shape (n, K)
            Labels as integers 0..K−1; or ranks, of which the lower one wins a duel, while equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self : LogisticDuels
            The fitted engine.
        """
        check_positive("C", self.C)
        check_settings(self)
        check_count("checkpoint_every", self.checkpoint_every)
        if isinstance(X, LabeledBlocks) or in_blocks(X):
            return self._fit_blocks(X, codes, n_classes, sample_weight)
        X, feedback, weights = check_logistic_rows(self, X, codes, n_classes, sample_weight)
        weights, X, feedback = drop_weightless(weights, X, feedback)
        with crew() as threads, ExitStack() as opened:
            fitted = fit_held(
                X, feedback, weights, n_classes, self._settings(), threads, self._announcer(opened)
            )
        return self._keep(fitted, n_classes)

    def _fit_blocks(self, X: Any, codes: Any, n_classes: int, sample_weight: Any) -> LogisticDuels:
        """Fit all duels from blocks of rows; those of a ranker bring their labels along."""
        if not isinstance(X, LabeledBlocks):
            X = LabeledBlocks(X, codes, sample_weight)
            X.classes = np.arange(n_classes)
            X.check_classes(X.classes, f"the codes of {n_classes} labels")
        validate_data(self, X.census.head, skip_check_array=True)
        with crew() as threads, ExitStack() as opened:
            fitted = fit_blocks(
                X, X.classes, self.dtype, self._settings(), threads, self._announcer(opened)
            )
        return self._keep(fitted, n_classes, stacklevel=5)

    def _settings(self) -> Settings:
        return Settings(*(getattr(self, name) for name in Settings._fields))

    def _announcer(self, opened: ExitStack) -> Announce:
        """Return what opens the progress of this fit once the number of steps is known."""

        def announce(n_steps: int, name: str, done: int) -> Callable[[], None]:
            # How many iterations it will take is not known, only how many it may.
            at_most = name == "iteration"
            progress = Progress(self, n_steps, name, bool(self.verbose), done, at_most)
            return opened.enter_context(progress).step

        return announce

    def _keep(self, fitted: Fitted, n_classes: int, stacklevel: int = 4) -> LogisticDuels:
        self.coef_, self.intercept_ = fitted.coef, fitted.intercept
        self.decrement_, self.n_iter_ = fitted.decrement, fitted.n_iter
        self.converged_ = fitted.decrement <= self.tol
        self.n_classes_ = n_classes
        warn_unless_converged(self.converged_, n_classes, self.max_iter, stacklevel=stacklevel)
        return self


def warn_unless_converged(
    converged: NDArray[np.bool_],
    n_classes: int,
    max_iter: int,
    models: str = "duels",
    stacklevel: int = 3,
) -> None:
    """Count the models that have not converged, (K(K−1)/2, …), and name their duels."""
    missing = np.flatnonzero(~converged.reshape(len(converged), -1).all(axis=1))
    if len(missing) == 0:
        return
    first, second = pairs(n_classes)
    named = ", ".join(f"{first[d]}-{second[d]}" for d in missing[:10])
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    warnings.warn(
        f"{np.count_nonzero(~converged)} of {converged.size} {models} did not converge within "
        f"max_iter={max_iter} iterations, by the numbers of their labels: {named}{more}. Raise "
        "max_iter or tol, or lower C.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def _runs(n_classes: int, most_columns: int) -> Iterator[tuple[list[tuple[int, slice]], slice]]:
    """Cut the duels into runs of about so many columns, whole first labels together.

    Yields the first labels of a run with their columns in it, and the run's slice of all duels.
    """
    labels: list[tuple[int, slice]] = []
    start = stop = 0
    for label in range(n_classes - 1):
        n_duels = n_classes - 1 - label
        labels.append((label, slice(stop - start, stop - start + n_duels)))
        stop += n_duels
        if stop - start >= most_columns or label == n_classes - 2:
            yield labels, slice(start, stop)
            labels, start = [], stop
