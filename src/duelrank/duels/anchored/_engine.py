"""AnchoredDuels: scores that all duels share, and corrections of each duel's own."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from numbers import Integral
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from duelrank._batches import batches, bytes_of_memory
from duelrank._pairs import labels_of_duels, n_pairs, pairs
from duelrank._parameters import check_count, check_dtype, check_positive
from duelrank._progress import Progress
from duelrank._sklearn import has_wrapped_fit, with_callbacks
from duelrank._threads import one_blas_thread, threads_of_blas
from duelrank.blocks import refuse_blocks
from duelrank.duels._points import check_fitted_attribute, check_points
from duelrank.duels._protocol import Engine, check_counts
from duelrank.duels.anchored._certificate import can_be_checked, certify
from duelrank.duels.anchored._corrections import Corrections
from duelrank.duels.anchored._fit import Training, correct
from duelrank.duels.anchored._solver import Solution
from duelrank.duels.anchored._wins import Rivalries, count_wins
from duelrank.duels.logistic._columns import Columns
from duelrank.duels.logistic._extremes import NEED_CARE, Extremes, listed, quiet
from duelrank.duels.logistic._kept import are_coefficients, are_numbers
from duelrank.duels.logistic._rows import (
    Settings,
    StartProgress,
    TrainingRows,
    check_training_rows,
)
from duelrank.duels.logistic._strength import strength_for_rows
from duelrank.feedback import SparseRanks

Floats = NDArray[Any]

MATRICES_OF_LABELS = 4  # of K × K doubles, or as much, that the choice of rivals takes
NUMBERS_AT_ONCE = 2**20  # of scores and corrections of points that are ranked together


class Prepared(NamedTuple):
    """What predictions need besides coefficients, which takes longer to make than one ranking.

    Attributes
    ----------
    kept : dict
        The coefficients that it was made for.
    columns : Columns or None
        The columns of points that have coefficients; None if all have.
    rivalries : Rivalries
        The corrected duels.
    """

    kept: dict[str, Any]
    columns: Columns | None
    rivalries: Rivalries


_prepared: WeakKeyDictionary[Any, Prepared] = WeakKeyDictionary()  # not in a model file


class LinearScores(Engine):
    """Duels by linear scores and corrections: the parent of `AnchoredDuels` and its search."""

    takes_sparse_feedback = True

    rivals: int | None
    fit_intercept: bool
    tol: float
    max_iter: int
    dtype: Any
    working_memory: float
    verbose: bool
    C_: float
    C_own_: float
    kept_: dict[str, Any]  # columns of X that have entries, and coefficients of these
    score_intercept_: Floats
    own_intercept_: Floats
    corrected_duels_: NDArray[np.intp]
    n_classes_: int

    @property
    def score_coef_(self) -> Floats:
        """Coefficients of the scores of the labels, (K, n_features)."""
        check_is_fitted(self, "kept_")
        return self._of_all_columns(self.kept_["score_coef"]).T

    @property
    def own_coef_(self) -> Any:
        """Coefficients of the corrections, (R, n_features), sparse if X was."""
        check_is_fitted(self, "kept_")
        return self._of_all_columns(self.kept_["own_coef"]).T

    def scores(self, X: Any) -> Floats:
        """Return the scores of all labels, before any correction.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Query points.

        Returns
        -------
        scores : ndarray of shape (n, K)
            The duel of two labels has the difference of their scores as its margin, unless it is
            corrected.
        """
        X = self._check_points(X)
        with quiet(), one_blas_thread():
            return self._scores(X)

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
        first, second = pairs(self.n_classes_)
        with quiet(), one_blas_thread():
            scores = self._scores(X)
            margins: Floats = scores[:, second] - scores[:, first]
            margins[:, self.corrected_duels_] += self._corrections(X)
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

        Duels without a correction are counted by sorting the scores.

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
        with quiet():
            return self._count(X, label_order, "all" if with_expected else "none")

    def top_wins(
        self, X: Any, label_order: NDArray[np.intp], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Count like `wins`, with expected wins only of labels that win as many duels as others.

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
            Number of duels won.
        expected : ndarray of float, of shape (n, K)
            Sum of the probabilities to win, for labels that tie among the first k or next to them;
            numbers from 0 to K−1 for others.
        """
        with quiet():
            return self._count(X, label_order, "tied", k)

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
        check_is_fitted(self, "kept_")
        first, second = labels_of_duels(duels, self.n_classes_)
        scores = self.kept_["score_coef"]
        coef = scores[:, second] - scores[:, first]
        intercept = self.score_intercept_[second] - self.score_intercept_[first]
        place = np.searchsorted(self.corrected_duels_, duels)
        known = np.append(self.corrected_duels_, -1)[place] == duels
        own = self.kept_["own_coef"][:, place[known]]
        coef[:, known] += own if isinstance(own, np.ndarray) else own.toarray()
        intercept[known] += self.own_intercept_[place[known]]
        return self._of_all_columns(coef).T, intercept

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
        kept = self.kept_
        check_counts(
            isinstance(kept, dict)
            and set(kept) == {"columns", "score_coef", "own_coef"}
            and type(self.n_classes_) is int
            and self.n_classes_ == n_classes
            and isinstance(self.corrected_duels_, np.ndarray)
        )
        n_columns, duels = self.n_features_in_, self.corrected_duels_
        if kept["columns"] is not None:
            n_columns = len(kept["columns"])
            check_counts(are_numbers(kept["columns"], (n_columns,), self.n_features_in_, True))
        own = kept["own_coef"]
        if isinstance(own, sparse.csr_array):
            own.check_format(full_check=True)  # raises ValueError
            check_counts(own.shape == (n_columns, len(duels)))
            own = own.data
            shape = own.shape
        else:
            shape = n_columns, len(duels)
        check_counts(
            are_coefficients(own, shape)
            and are_coefficients(kept["score_coef"], (n_columns, n_classes))
            and are_coefficients(self.score_intercept_, (n_classes,))
            and are_coefficients(self.own_intercept_, (len(duels),))
            and are_numbers(duels, (len(duels),), n_pairs(n_classes), True)
        )

    def _check_rows(
        self, X: Any, feedback: Any, n_classes: int, sample_weight: Any
    ) -> TrainingRows:
        """Validate the arguments of a fit."""
        n_bytes = MATRICES_OF_LABELS * 8 * n_classes**2
        if self.rivals != 0 and n_bytes > bytes_of_memory() / 2:
            raise ValueError(
                f"corrections of the duels between {n_classes} labels would take "
                f"{n_bytes / 2**30:.0f} GiB, more than half of the memory; rivals=0 ranks by the "
                "scores alone."
            )
        if not isinstance(feedback, SparseRanks):
            return check_training_rows(self, X, feedback, n_classes, sample_weight)
        if self.rivals != 0:
            feedback.check_memory("rivals=0 ranks by the scores alone, and needs no array")
        if feedback.shape[1] != n_classes:
            raise ValueError(
                f"feedback must have one column per label: {n_classes}, got {feedback.shape[1]}."
            )
        codes = np.zeros(len(feedback), dtype=np.intp)
        rows = check_training_rows(self, X, codes, n_classes, sample_weight)
        return rows._replace(feedback=feedback)  # type: ignore[arg-type]

    def _settings(self, C_own: float) -> Settings:
        """Return the parameters of the corrections' solver."""
        return Settings(
            C_own, self.fit_intercept, None, self.tol, self.max_iter, self.working_memory
        )

    def _progress_in(self, opened: ExitStack) -> StartProgress:
        """Return what opens the progress of this fit once the number of steps is known."""

        def start(n_steps: int, name: str, done: int) -> Any:
            at_most = name == "iteration"
            progress = Progress(self, n_steps, name, bool(self.verbose), done, at_most)
            return opened.enter_context(progress).step

        return start

    def _keep(
        self, training: Training, solution: Solution, corrections: Corrections, n_classes: int
    ) -> None:
        """Keep the result of a fit."""
        rows = training.rows
        with quiet():
            coef, intercept = training.points.unscaled(solution.coef)
            extremes = training.extremes(max(self.C_, self.C_own_))
            if can_be_checked(training, len(corrections.duels)):
                small = training.hides_small_columns(max(self.C_, self.C_own_))
                extremes = extremes._replace(everywhere=extremes.everywhere or small)
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            coef, intercept = np.zeros_like(coef), np.zeros_like(intercept)
            solution = solution._replace(decrement=np.inf)
        if extremes.need_care or extremes.negligible.any():
            # The decrements are those of rows as they were prepared, and that is not enough.
            with quiet(), one_blas_thread():
                of_scores, own = certify(
                    training, coef, intercept, self.C_, corrections, self.C_own_
                )
            solution = solution._replace(decrement=max(of_scores, solution.decrement))
            own = np.maximum(own, corrections.decrement)
            corrections = corrections._replace(decrement=own)
        self.kept_ = {
            "columns": rows.columns,
            "score_coef": np.ascontiguousarray(coef),
            "own_coef": corrections.coef,
        }
        self.score_intercept_ = np.ascontiguousarray(intercept)
        self.own_intercept_ = corrections.intercept
        self.corrected_duels_ = corrections.duels
        self.score_decrement_, self.score_n_iter_ = solution.decrement, solution.n_iter
        self.decrement_, self.n_iter_ = corrections.decrement, corrections.n_iter
        self.score_converged_ = bool(solution.decrement <= self.tol)
        self.converged_ = corrections.decrement <= self.tol
        self.n_classes_ = n_classes
        self._warn_unless_converged(extremes)

    def _warn_unless_converged(self, extremes: Extremes) -> None:
        missing = np.flatnonzero(~self.converged_)
        if self.score_converged_ and len(missing) == 0:
            return
        named = [] if self.score_converged_ else ["the scores of the labels"]
        if len(missing):
            named.append(f"{len(missing)} of {len(self.converged_)} corrections of duels")
        told = (
            f"did not converge within max_iter={self.max_iter} iterations. "
            "Raise max_iter or tol, or lower C and C_own."
        )
        if extremes.need_care or extremes.negligible.any():
            told = f"may be far from their minimum: {_what_is_extreme(extremes)}."
        warnings.warn(
            f"{' and '.join(named)} {told}",
            ConvergenceWarning,
            stacklevel=4 + has_wrapped_fit(self),
        )

    def _of_all_columns(self, coef: Any) -> Any:
        """Return coefficients (d, …) of all columns, zeros for those without entries in fit."""
        columns = self.kept_["columns"]
        if columns is None:
            return coef
        n_features = self.n_features_in_
        if isinstance(coef, np.ndarray):
            spread = np.zeros((n_features, coef.shape[1]), dtype=coef.dtype)
            spread[columns] = coef
            return spread
        entries = coef.tocoo()
        return sparse.csr_array(
            (entries.data, (columns[entries.row], entries.col)), shape=(n_features, coef.shape[1])
        )

    def _scores(self, X: Any) -> Floats:
        scores: Floats = X @ self.kept_["score_coef"]
        scores = scores + self.score_intercept_
        return scores if np.isfinite(scores).all() else _finite(scores)

    def _corrections(self, X: Any) -> Floats:
        """Return the corrections of corrected duels, (n, R)."""
        products = X @ self.kept_["own_coef"]
        dense: Floats = products if isinstance(products, np.ndarray) else products.toarray()
        corrections = dense + self.own_intercept_
        return corrections if np.isfinite(corrections).all() else _finite(corrections)

    def _count(
        self, X: Any, label_order: NDArray[np.intp], expected_of: str, first_k: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        X = self._check_points(X)
        rivalries = self._prepare().rivalries
        wins = np.empty((X.shape[0], self.n_classes_), dtype=np.int64)
        expected = np.empty((X.shape[0], self.n_classes_))

        def count(rows: slice) -> None:
            points = X if len(parts) == 1 else X[rows]
            scores, corrections = self._scores(points), self._corrections(points)
            wins[rows], expected[rows] = count_wins(
                scores, corrections, rivalries, label_order, expected_of, first_k
            )

        at_once = NUMBERS_AT_ONCE // max(self.n_classes_, len(self.corrected_duels_))
        parts = list(batches(X.shape[0], at_once))
        if len(parts) == 1:
            with one_blas_thread():
                count(parts[0])
        else:
            with quiet(), threads_of_blas() as threads:
                threads.map(count, parts)
        return wins, expected

    def _check_points(self, X: Any) -> Any:
        check_fitted_attribute(self, "kept_")
        refuse_blocks(X, "a DuelRanker takes blocks")
        X = check_points(self, X, self.score_intercept_.dtype)
        columns = self._prepare().columns
        if columns is not None:
            X = columns.of(X)
        if isinstance(X, np.ndarray):
            return X
        return sparse.csr_array(X)

    def _prepare(self) -> Prepared:
        """Return what predictions need besides coefficients; it is prepared once."""
        prepared = _prepared.get(self)
        if prepared is None or prepared.kept is not self.kept_:
            columns = self.kept_["columns"]
            prepared = Prepared(
                self.kept_,
                None if columns is None else Columns(columns, self.n_features_in_),
                Rivalries.of(self.corrected_duels_, self.n_classes_),
            )
            _prepared[self] = prepared
        return prepared

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class AnchoredDuels(LinearScores):
    """Duels that start from scores which all of them share, with corrections of their own.

    The margin of the duel between labels k and l is u_l(x) − u_k(x) + δ_kl(x). The *scores* u are
    linear and learned from all rows: by multinomial logistic regression where rows have labels, by
    the Plackett-Luce model where they have rankings. The *correction* δ of a duel is linear too. It
    is learned from the rows that tell who wins this duel, as `LogisticDuels` would learn all of the
    margin. Two penalties say how much of the work each does:

        ½ Σ_k ‖u_k‖² + C Σ_i −log p(row i | u),    then    ½ ‖δ_kl‖² + C_own Σ_i log(1 + exp(∓m_i)).

    A tiny `C_own` leaves the ranking of the scores; a tiny `C` and a large `C_own` leave duels that
    share nothing, as the paper has them. In between, a duel that few rows tell anything about
    follows the scores, and a duel with many rows goes its own way. A duel follows the scores
    altogether if no row tells anything about it, or if one label wins it in all rows.

    With many labels most duels need no correction. `rivals` limits them to every label's closest
    rivals; then a fit takes K·m duels instead of K²/2, and so does a ranking.

    Parameters
    ----------
    C : float or "scale", default=1.0
        Inverse strength of the penalty on the scores. "scale" goes by the rows, as in
        `LogisticDuels`.
    C_own : float or "scale", default=1.0
        Inverse strength of the penalty on the corrections.
    rivals : int, default=None
        How many rivals of every label have their duels corrected: those that the scores tell apart
        worst on the training rows. None means all other labels, 0 none: the ranking is that of
        the scores then.
    fit_intercept : bool, default=True
        Whether scores and corrections have intercepts. They are penalised a little, so that labels
        that are rarely seen, or always win, keep finite ones.
    tol : float, default=1e-4
        Relative Newton decrement below which scores and corrections have converged: roughly the
        relative gain in the objective that one more step could bring.
    max_iter : int, default=200
        Most iterations.
    dtype : {"float64", "float32"}, default=None
        Precision of the coefficients; by default that of X. "float32" saves half of the memory.
    working_memory : float, default=512
        Mebibytes that the intermediate results of the corrections should take, by estimate.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    score_coef_ : ndarray of shape (K, n_features)
        Coefficients of the labels' scores.
    score_intercept_ : ndarray of shape (K,)
        Their intercepts.
    corrected_duels_ : ndarray of int, of shape (R,)
        Numbers of the duels that have a correction, in the order of `duelrank.pairs`.
    own_coef_ : ndarray or sparse array of shape (R, n_features)
        Coefficients of the corrections; positive ones speak for the second label.
    own_intercept_ : ndarray of shape (R,)
        Their intercepts.
    C_, C_own_ : float
        The strengths that were used.
    score_decrement_, decrement_ : float and ndarray of shape (R,)
        Relative Newton decrements of scores and corrections before their last steps.
    score_converged_, converged_ : bool and ndarray of bool, of shape (R,)
        Whether these reached `tol`.
    score_n_iter_, n_iter_ : int and ndarray of int, of shape (R,)
        Iterations.
    n_classes_ : int
        Number of labels K.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from duelrank import AnchoredDuels, DuelRanker
    >>> X, y = load_digits(return_X_y=True)
    >>> engine = AnchoredDuels(C=0.01, C_own=0.01, rivals=3)
    >>> ranker = DuelRanker(engine, random_state=0).fit(X[:900], y[:900])
    >>> ranker.predict_top(X[[905]], 3)
    array([[1, 8, 4]])
    >>> len(ranker.duels_.corrected_duels_)  # of 45
    20
    """

    def __init__(
        self,
        C: float | str = 1.0,
        C_own: float | str = 1.0,
        rivals: int | None = None,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 200,
        dtype: Any = None,
        working_memory: float = 512,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.C_own = C_own
        self.rivals = rivals
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.working_memory = working_memory
        self.verbose = verbose

    @with_callbacks
    def fit(
        self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None
    ) -> AnchoredDuels:
        """Fit the scores of all labels, and the corrections of duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Finite numbers, at most 1e150 in absolute value. Sparse X stays sparse.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K), or SparseRanks
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self : AnchoredDuels
            The fitted engine.
        """
        check_positive("C", self.C, "scale")
        check_positive("C_own", self.C_own, "scale")
        check_rivals(self.rivals)
        check_parameters(self)
        refuse_blocks(X, "LogisticDuels takes blocks")
        rows = self._check_rows(X, feedback, n_classes, sample_weight)
        rows = rows.with_weight().without_empty_columns()
        centre = bool(self.fit_intercept)
        with quiet(), threads_of_blas() as threads:
            C, C_own = (strength_for_rows(C, rows, centre) for C in (self.C, self.C_own))
            training = Training.of(rows, centre, threads)
            with ExitStack() as opened:
                step = self._progress_in(opened)(self.max_iter, "iteration", 0)
                solution = training.fit_scores(C, self.tol, self.max_iter, step=step)
            with ExitStack() as opened:
                corrections = correct_rivals(
                    training,
                    solution,
                    self.rivals,
                    self._settings(C_own),
                    self._progress_in(opened),
                )
        self.C_, self.C_own_ = C, C_own
        self._keep(training, solution, corrections, n_classes)
        return self


def correct_rivals(
    training: Training,
    solution: Solution,
    n_rivals: int | None,
    settings: Settings,
    start_progress: StartProgress,
) -> Corrections:
    """Choose the rivals of all labels by the scores, and correct their duels."""
    if n_rivals == 0:
        return Corrections.none(training.rows)
    anchor = training.anchor([solution])
    duels = training.rivals(anchor.scores[0], n_rivals)
    return correct(training, anchor, duels, settings, start_progress)


def _finite(values: Floats) -> Floats:
    """Bring scores of points beyond all measure to where their sums are finite."""
    largest = float(np.finfo(values.dtype).max) / 8
    return np.clip(np.nan_to_num(values, nan=0.0), -largest, largest).astype(values.dtype)


def _what_is_extreme(extremes: Extremes) -> str:
    """Tell what keeps a fit from being certified, and what helps."""
    columns = np.union1d(extremes.careful, extremes.told)
    if len(columns) == 0:
        return "X, weights or C are beyond all measure; multiply them by a constant"
    return f"columns {listed(columns)} of X {NEED_CARE}; standardise them"


def check_rivals(rivals: Any) -> None:
    """Raise unless `rivals` is None or a number of labels."""
    if rivals is not None and (
        not isinstance(rivals, Integral) or isinstance(rivals, bool) or rivals < 0
    ):
        raise ValueError(
            f"rivals must be None, for all other labels, or an integer from 0 on; got {rivals!r}."
        )


def check_parameters(engine: Any) -> None:
    """Check the parameters that `AnchoredDuels` and its search share."""
    check_positive("tol", engine.tol)
    check_positive("working_memory", engine.working_memory)
    check_count("max_iter", engine.max_iter)
    check_dtype(engine.dtype)
