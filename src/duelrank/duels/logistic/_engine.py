"""LogisticDuels: all K(K−1)/2 logistic regressions in one batched solve."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._label_names import label_names
from duelrank._pairs import n_pairs, pairs
from duelrank._parameters import check_count, check_positive
from duelrank._progress import Progress
from duelrank._sklearn import has_wrapped_fit, with_callbacks
from duelrank._threads import threads_of_blas
from duelrank.blocks import LabeledBlocks, in_blocks
from duelrank.duels._protocol import check_counts, is_finite_array
from duelrank.duels._sides import check_magnitude
from duelrank.duels.logistic._assembly import Objective
from duelrank.duels.logistic._blocks import fit_blocks
from duelrank.duels.logistic._extremes import Extremes, advice, listed, quiet
from duelrank.duels.logistic._fit import fit_in_memory
from duelrank.duels.logistic._kept import KeptDuels, kept_duels, own_rows
from duelrank.duels.logistic._linear import LinearDuels
from duelrank.duels.logistic._rows import (
    Settings,
    StartProgress,
    TrainingRows,
    check_settings,
    check_training_rows,
)
from duelrank.duels.logistic._strength import (
    strength_for_census,
    strength_for_rows,
)
from duelrank.duels.logistic._update import (
    Solution,
    add_rows,
    add_rows_alone,
    check_labels_left,
    check_last_solution_suffices,
    check_new_rows,
    check_numbering,
    drop_labels,
    duels_of,
    in_columns,
    join_rows,
    rows_fit_together,
)


class LogisticDuels(LinearDuels):
    """Duels fought by L2-regularised logistic regressions, all solved together.

    Every duel minimises what scikit-learn's ``LogisticRegression`` minimises on the rows of its two
    labels, ½‖w‖² + C Σ_i s_i log(1 + exp(−y_i (x_i·w + b))), with an intercept b that is not
    penalised. The duels share all passes over the data, so that K(K−1)/2 of them take a fraction of
    the time that fitting them one by one takes.

    Parameters
    ----------
    C : float or "scale", default=1.0
        Inverse strength of the penalty. The default is scikit-learn's; it suits standardised
        columns and is too small for text. "scale" goes by the rows: 100 divided by their mean
        squared distance from their mean (from zero, without an intercept). It does well on text,
        embeddings and pixels, and on tables whose columns are in comparable units.
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
        copies of X in both precisions and the coefficients. With many labels, sets of duels, called
        tiles, are solved one after another.
    verbose : bool, default=False
        Whether to show progress on standard error.
    checkpoint : path, default=None
        A file to which the fit writes its progress, every few iterations. A fit of the same data
        and parameters that finds the file goes on from there, even with other blocks of rows or
        another `tol`; a fit of other data raises an error. If duels have fewer rows than features,
        the rows must come in the same order, and in memory. The file is removed when all duels have
        converged. If some have not within `max_iter`, another fit goes on for as many iterations.
        Fits that run at the same time, as in a search, need files of their own.
    checkpoint_every : int, default=5
        Iterations between two times of writing; where duels are solved one tile after another,
        tiles count as well.
    keep_rows : bool, default=False
        Whether the fitted engine keeps all rows (`training_rows_`), so that `partial_fit` finds
        what a fit of all rows finds. Without them, `partial_fit` goes from the last solution to the
        new rows, which is an approximation. Rows must come in memory, with codes.

    Attributes
    ----------
    coef_ : ndarray of shape (K(K−1)/2, n_features)
        Coefficients of every duel, in the order of `duelrank.pairs`; positive ones speak for the
        second label. If the engine keeps rows (`kept_`), they are computed at every access, and an
        error says so if they would take more than half of the memory.
    kept_ : dict
        Only where coefficients are not kept as such: coefficients of training rows, and the rows,
        or coefficients of the columns that have entries.
    intercept_ : ndarray of shape (K(K−1)/2,)
        Intercepts. A duel of which only one label was seen has coefficients of 0 and an intercept
        of ±100.
    training_rows_ : dict
        Only with `keep_rows`: the rows that weigh anything, X, codes and weights, as updates need
        them. X has n x n_features numbers, or those of sparse X; it is None if `kept_` has the same
        rows.
    C_ : float
        The C that was used; updates take it as it is.
    decrement_ : ndarray of shape (K(K−1)/2,)
        Relative Newton decrement of every duel before its last step, its certificate.
    converged_ : ndarray of bool, of shape (K(K−1)/2,)
        Whether the decrement reached `tol`.
    negligible_columns_ : ndarray of int
        Only where there are any: columns of X whose numbers are so small that no coefficient the
        penalty allows would change an objective by more than 1e-12 of it. They have coefficients of
        zero.
    n_iter_ : ndarray of int, of shape (K(K−1)/2,)
        Newton iterations over all rows of every duel, in the fit or update that solved it last.
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
    keep_rows = False  # of models that were saved before there was this parameter
    training_rows_: dict[str, Any]

    # Codes are arguments, but not metadata that users could route.
    __metadata_request__partial_fit: ClassVar[dict[str, Any]] = {
        "feedback": UNUSED,
        "known_codes": UNUSED,
        "n_classes": UNUSED,
        "sample_weight": True,
    }

    def __init__(
        self,
        C: float | str = 1.0,
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
        keep_rows: bool = False,
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
        self.keep_rows = keep_rows

    @with_callbacks
    def fit(
        self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None
    ) -> LogisticDuels:
        """Fit all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), or blocks of rows
            Finite numbers, at most 1e150 in absolute value. Sparse X stays sparse. Blocks are a
            Dask array or dataframe, or `duelrank.blocks.RowBlocks`; feedback (codes) and weights
            come in the same blocks then.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
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
        check_positive("C", self.C, "scale")
        check_settings(self)
        check_count("checkpoint_every", self.checkpoint_every)
        if in_blocks(X):
            name = f"the codes of {n_classes} labels"
            X = LabeledBlocks.of(X, feedback, sample_weight, np.arange(n_classes), name)
        elif isinstance(X, LabeledBlocks):
            _check_blocks(X, feedback, n_classes, sample_weight)
        with quiet(), threads_of_blas() as threads, ExitStack() as opened:
            start_progress = self._progress_in(opened)
            learned: TrainingRows | None = None
            extremes: Extremes | None = None
            if isinstance(X, LabeledBlocks):
                self._refuse_to_keep("X in blocks of rows")
                _check_numbers(X, self.dtype)
                validate_data(self, X.census.head, skip_check_array=True)
                C = strength_for_census(self.C, X.census, centre=bool(self.fit_intercept))
                settings = self._settings(C)
                fitted, extremes = fit_blocks(X, self.dtype, settings, threads, start_progress)
                kept = KeptDuels.of_features(fitted.coef, n_classes)
            else:
                rows = check_training_rows(self, X, feedback, n_classes, sample_weight)
                if rows.feedback.ndim > 1:
                    self._refuse_to_keep("feedback of ranks")
                rows = rows.with_weight().without_empty_columns()
                C = strength_for_rows(self.C, rows, centre=bool(self.fit_intercept))
                settings = self._settings(C)
                objective = Objective.from_rows(rows, settings)
                extremes = objective.extremes.in_columns(rows.columns)
                fitted = fit_in_memory(rows, settings, threads, start_progress, objective=objective)
                keep_rows = bool(self.keep_rows)
                kept = kept_duels(fitted, rows, self.n_features_in_, keep_rows)
                if keep_rows:
                    learned = own_rows(rows, with_points=not kept.has_rows)
        self._keep(fitted, kept)
        self._keep_rows(learned)
        self.C_ = C
        tell_extremes(self, extremes)
        warn_unless_converged(self, self.converged_, extremes=extremes)
        return self

    def partial_fit(
        self,
        X: Any,
        feedback: Any,
        n_classes: int,
        sample_weight: Any = None,
        known_codes: Any = None,
    ) -> LogisticDuels:
        """Learn from more rows, possibly of more labels; the first call is a fit.

        Only the duels of labels with new rows are solved, from where they were; all others keep
        their bytes. With `keep_rows`, the result is that of a fit of all rows so far, up to `tol`.
        Without, these duels minimise ½‖v − v_last‖² + C Σ losses of the new rows, where v are
        their coefficients and their intercept: an approximation, for labels that had rows before.

        C stays `C_`, and other parameters must stay as they were. Nothing is written to a
        `checkpoint`. If anything goes wrong, the engine is as it was.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            New rows, in memory.
        feedback : array-like of int, of shape (n,)
            Their codes, by the numbers that labels have from now on.
        n_classes : int
            Number of labels K from now on, those without rows included.
        sample_weight : array-like of shape (n,), default=None
            Weights of the new rows.
        known_codes : array-like of int, default=None
            The codes that the labels of before have from now on, increasing; by default those that
            they had, so that new labels come last. A dictionary in `class_weight` is by the codes
            of now.

        Returns
        -------
        self : LogisticDuels
            The updated engine.
        """
        if in_blocks(X) or isinstance(X, LabeledBlocks):
            raise TypeError(
                f"X must be in memory for partial_fit, got {type(X).__name__}; fit takes blocks."
            )
        if "intercept_" not in vars(self):
            return self.fit(X, feedback, n_classes, sample_weight)
        check_settings(self)
        last = self._solution()
        numbering = check_numbering(known_codes, self.n_classes_, n_classes)
        new = check_new_rows(self, X, feedback, n_classes, sample_weight)
        C = float(vars(self).get("C_", self.C))  # models of version 0.2 have no C_
        settings = self._settings(C)._replace(checkpoint=None)
        rows = None
        with quiet(), threads_of_blas() as threads:
            if self.keep_rows:
                rows = join_rows(self._rows_of_before(), new, numbering, self.n_features_in_)
                n_new = len(new.feedback)
                solution = add_rows(last, rows, n_new, numbering, settings, threads)
            else:
                check_last_solution_suffices(last, new, numbering, settings)
                margins = cache(lambda: self.margins(new.X))
                some = in_columns(new, last.kept.columns, self.n_features_in_)
                solution = add_rows_alone(last, some, margins, settings, threads)
        self._renew(solution, rows)
        touched = duels_of(np.unique(new.feedback), n_classes)
        warn_unless_converged(self, self.converged_ | ~touched, fit_is_wrapped=False)
        return self

    def drop_labels(self, codes: Any) -> LogisticDuels:
        """Forget some labels: their duels and their rows; all other duels keep their bytes.

        Parameters
        ----------
        codes : array-like of int
            The codes of these labels. Those that stay, at least two, are numbered anew in the same
            order.

        Returns
        -------
        self : LogisticDuels
            The smaller engine.
        """
        check_is_fitted(self, "intercept_")
        left = check_labels_left(codes, self.n_classes_)
        solution, rows = drop_labels(self._solution(), left), None
        if self.keep_rows and "training_rows_" in vars(self):
            before = self._rows_of_before()
            number = np.full(self.n_classes_, -1)
            number[left] = np.arange(len(left))
            codes_left = number[before.feedback]
            stays = codes_left >= 0
            rows = TrainingRows(
                solution.kept.rows if solution.kept.has_rows else before.X[stays],
                codes_left[stays],
                None if before.weights is None else before.weights[stays],
                len(left),
                before.columns,
            )
        self._renew(solution, rows)
        return self

    @property
    def keeps_training_rows(self) -> bool:
        """Whether there are training rows, for updates or as a part of the duels."""
        return "training_rows_" in vars(self) or super().keeps_training_rows

    def without_training_rows(self) -> Self:
        """Return a copy that keeps coefficients of features and no training rows.

        Returns
        -------
        engine : LogisticDuels
            Its margins are the same up to rounding. If the engine had `keep_rows`, `partial_fit`
            of the copy raises an error, until the parameter is set to False.

        Raises
        ------
        MemoryError
            If the coefficients do not fit in memory.
        """
        engine = super().without_training_rows()
        engine.__dict__.pop("training_rows_", None)
        return engine

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
        super().check_fitted(n_classes)
        n_duels, C = n_pairs(n_classes), vars(self).get("C_", 1.0)  # version 0.2 had no C_
        check_counts(
            isinstance(self.decrement_, np.ndarray)
            and self.decrement_.dtype.kind == "f"
            and self.decrement_.shape == (n_duels,)
            and is_finite_array(self.n_iter_, "i", (n_duels,))
            and isinstance(C, int | float)
            and 0 < C < np.inf
        )
        if "training_rows_" in vars(self):
            kept = self._solution().kept
            check_counts(rows_fit_together(self.training_rows_, kept, self.intercept_.dtype))

    def _solution(self) -> Solution:
        """Return the duels."""
        if "kept_" in vars(self):
            kept = KeptDuels(**self.kept_)
        else:
            kept = KeptDuels.of_features(self.coef_, self.n_classes_)
        return Solution(kept, self.intercept_, self.decrement_, self.n_iter_)

    def _rows_of_before(self) -> TrainingRows:
        if "training_rows_" not in vars(self):
            raise ValueError(
                "keep_rows=True needs the rows of fit, which this engine does not have: it was "
                "fitted or saved without them. Set keep_rows=False to go on from the last solution."
            )
        learned, kept = self.training_rows_, self._solution().kept
        X = kept.rows if learned["X"] is None else learned["X"]
        return TrainingRows(X, learned["codes"], learned["weights"], kept.n_classes, kept.columns)

    def _renew(self, solution: Solution, rows: TrainingRows | None) -> None:
        """Take over an updated solution, all of it at once."""
        renewed = copy.copy(self)
        renewed._keep_coefficients(solution.kept)
        renewed._keep_rows(rows)
        renewed.intercept_, renewed.n_iter_ = solution.intercept, solution.n_iter
        renewed.decrement_ = solution.decrement
        renewed.converged_ = solution.decrement <= self.tol
        renewed.n_classes_ = solution.kept.n_classes
        self._forget_margins()
        self.__dict__ = renewed.__dict__

    def _keep_rows(self, rows: TrainingRows | None) -> None:
        """Keep rows for updates, or none; the arrays must be the engine's own."""
        self.__dict__.pop("training_rows_", None)
        if rows is not None:
            X = None if self._has_row_coefficients() else rows.X  # not twice
            self.training_rows_ = {"X": X, "codes": rows.feedback, "weights": rows.weights}

    def _refuse_to_keep(self, what: str) -> None:
        if self.keep_rows:
            raise ValueError(
                f"keep_rows must be False for {what}: updates need rows in memory, with codes."
            )

    def _settings(self, C: float) -> Settings:
        return Settings(C, *(getattr(self, name) for name in Settings._fields[1:]))

    def _progress_in(self, opened: ExitStack) -> StartProgress:
        """Return what opens the progress of this fit once the number of steps is known."""

        def start(n_steps: int, name: str, done: int) -> Callable[[], None]:
            # Of iterations only the largest possible number is known.
            at_most = name == "iteration"
            progress = Progress(self, n_steps, name, bool(self.verbose), done, at_most)
            return opened.enter_context(progress).step

        return start


def _check_blocks(blocks: LabeledBlocks, feedback: Any, n_classes: int, sample_weight: Any) -> None:
    """Raise unless all that is said besides labelled blocks agrees with them."""
    if len(blocks.classes) != n_classes:
        raise ValueError(
            f"n_classes must be the number of labels of the blocks, {len(blocks.classes)}, "
            f"got {n_classes}."
        )
    for name, value in (("feedback", feedback), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"{name} must be None, as labelled blocks bring theirs along; "
                f"got {type(value).__name__}."
            )


def _check_numbers(blocks: LabeledBlocks, dtype: Any) -> None:
    """Raise unless all numbers are as small as they have to be in memory."""
    ends = np.stack([blocks.census.least, blocks.census.most])
    check_magnitude(ends)
    if dtype is not None and np.abs(ends).max(initial=0) > np.finfo(dtype).max:
        raise ValueError(f"Input X contains infinity or a value too large for {np.dtype(dtype)!r}.")


def warn_unless_converged(
    engine: LinearDuels,
    converged: NDArray[np.bool_],
    models: str = "duels",
    fit_is_wrapped: bool | None = None,
    extremes: Extremes | None = None,
) -> None:
    """Count the models that have not converged, (K(K−1)/2, …), and name their duels.

    They are named by labels if a ranker fits the engine, else by codes. If columns need care, these
    are named as well, or whatever else does.
    """
    missing = np.flatnonzero(~converged.reshape(len(converged), -1).all(axis=1))
    if len(missing) == 0:
        return
    first, second = pairs(engine.n_classes_)
    labels = label_names(engine.n_classes_)
    names = labels or range(engine.n_classes_)
    named = ", ".join(f"{names[first[d]]!r}-{names[second[d]]!r}" for d in missing[:10])
    by_number = "" if labels else ", by the numbers of their labels"
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    helps = "Raise max_iter or tol, or lower C."
    if extremes is not None and extremes.need_care:
        helps = advice(extremes, single=engine.intercept_.dtype == np.float32)
    warnings.warn(
        f"{np.count_nonzero(~converged)} of {converged.size} {models} did not converge within "
        f"max_iter={engine.max_iter} iterations{by_number}: {named}{more}. {helps}",
        ConvergenceWarning,
        # Of whoever called the engine's fit.
        stacklevel=3 + (has_wrapped_fit(engine) if fit_is_wrapped is None else fit_is_wrapped),
    )


def tell_extremes(engine: LinearDuels, extremes: Extremes | None) -> None:
    """Name the columns that cannot matter, in an attribute and in a warning."""
    engine.__dict__.pop("negligible_columns_", None)
    if extremes is None or len(extremes.told) == 0:
        return
    engine.negligible_columns_ = extremes.told
    warnings.warn(
        f"columns {listed(extremes.told)} of X are too small to matter with this C and get "
        "coefficients of zero: multiply them by a constant if they should matter.",
        UserWarning,
        stacklevel=3 + has_wrapped_fit(engine),
    )
