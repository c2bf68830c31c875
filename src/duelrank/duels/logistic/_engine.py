"""LogisticDuels: all K(K−1)/2 logistic regressions in one batched solve."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from duelrank._label_names import label_names
from duelrank._pairs import pairs
from duelrank._parameters import check_count, check_positive
from duelrank._progress import Progress
from duelrank._sklearn import has_wrapped_fit, with_callbacks
from duelrank._threads import threads_of_blas
from duelrank.blocks import LabeledBlocks, in_blocks
from duelrank.duels.logistic._blocks import fit_blocks
from duelrank.duels.logistic._fit import fit_in_memory
from duelrank.duels.logistic._kept import KeptDuels, kept_duels
from duelrank.duels.logistic._linear import LinearDuels
from duelrank.duels.logistic._rows import (
    Settings,
    StartProgress,
    check_settings,
    check_training_rows,
)
from duelrank.duels.logistic._strength import (
    strength_for_census,
    strength_for_rows,
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
    C_ : float
        The C that was used.
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
    def fit(
        self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None
    ) -> LogisticDuels:
        """Fit all duels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), or blocks of rows
            Finite numbers. Sparse X stays sparse. Blocks are a Dask array or dataframe, or
            `duelrank.blocks.RowBlocks`; feedback (codes) and weights come in the same blocks then.
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
        with threads_of_blas() as threads, ExitStack() as opened:
            start_progress = self._progress_in(opened)
            if isinstance(X, LabeledBlocks):
                validate_data(self, X.census.head, skip_check_array=True)
                C = strength_for_census(self.C, X.census, centre=bool(self.fit_intercept))
                fitted = fit_blocks(X, self.dtype, self._settings(C), threads, start_progress)
                kept = KeptDuels.of_features(fitted.coef, n_classes)
            else:
                rows = check_training_rows(self, X, feedback, n_classes, sample_weight)
                rows = rows.with_weight().without_empty_columns()
                C = strength_for_rows(self.C, rows, centre=bool(self.fit_intercept))
                fitted = fit_in_memory(rows, self._settings(C), threads, start_progress)
                kept = kept_duels(fitted, rows, self.n_features_in_)
        self._keep(fitted, kept)
        self.C_ = C
        warn_unless_converged(self, self.converged_)
        return self

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


def warn_unless_converged(
    engine: LinearDuels, converged: NDArray[np.bool_], models: str = "duels"
) -> None:
    """Count the models that have not converged, (K(K−1)/2, …), and name their duels.

    They are named by labels if a ranker fits the engine, else by codes.
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
    warnings.warn(
        f"{np.count_nonzero(~converged)} of {converged.size} {models} did not converge within "
        f"max_iter={engine.max_iter} iterations{by_number}: {named}{more}. "
        "Raise max_iter or tol, or lower C.",
        ConvergenceWarning,
        stacklevel=3 + has_wrapped_fit(engine),  # of whoever called the engine's fit
    )
