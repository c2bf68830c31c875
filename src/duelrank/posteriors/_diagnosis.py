"""Diagnosis: which label pairs are hard for a fitted ranker, and how hard.

Every duel is judged on the held-out points of its two labels: how often it errs there, and how
close to one half its probabilities are. The second part can be trusted as far as the probabilities
can. They can be trusted if the error that they expect is near the error that is seen.

All of it is conditional on the two labels. The noise condition of `duelrank.bounds` is about all
points, whatever their label.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from duelrank._intervals import wilson_interval
from duelrank._pairs import n_pairs, pairs
from duelrank._sklearn import unwrap
from duelrank.posteriors._noise import massart_margin, noise_constant, noise_exponent
from duelrank.rankings import codes_from_labels

GAP_QUANTILES = (0.1, 0.5, 0.9)
TABLE_ROWS = 10
LABEL_WIDTH = 24


@dataclass(frozen=True, repr=False, eq=False)
class Diagnosis:
    """How hard every duel is, on held-out points of its two labels.

    Its repr is a table of the hardest duels; ``pandas.DataFrame(diagnosis.to_dict())`` has them
    all. Arrays have one entry per duel, in the order of `duelrank.pairs`, and NaN where the
    held-out points do not tell.

    Exponent, margin and constant are those of the gaps *given that the label is one of the two*:
    points at which both labels are rare are hardly seen. Do not pass these numbers to
    `duelrank.bounds`, whose noise condition is about all points, whatever their label. Where eta is
    known, the bounds take ``noise_constant(duel_gaps(eta), noise_exponent)`` of
    `duelrank.posteriors`.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels.
    n_points : ndarray of int, of shape (P,)
        Held-out points of the two labels.
    error : ndarray of shape (P,)
        Share of them that lose the duel to the other label.
    error_low, error_high : ndarrays of shape (P,)
        Wilson's 95 % confidence interval of the error.
    expected_error : ndarray of shape (P,)
        The error that the duel's own probabilities expect, the mean of min(p, 1 − p). If it is far
        from `error`, the probabilities cannot be trusted, nor can the attributes below.
    gap_quantiles : ndarray of shape (P, 3)
        Quantiles 10 %, 50 % and 90 % of the gaps |2p − 1|; a gap of 0 is a fair coin.
    noise_exponent, noise_exponent_standard_error : ndarrays of shape (P,)
        Estimate of α in P{gap < t | one of the two labels} ≤ B t^(α/(1−α)), by
        `duelrank.posteriors.noise_exponent`.
    massart_margin : ndarray of shape (P,)
        The smallest gap.
    noise_constant : ndarray of shape (P,)
        The smallest such B, at the duel's own estimate of α unless `diagnose` was given another
        one; infinite where that is 1 and there is noise.
    """

    classes: NDArray[Any]
    n_points: NDArray[np.int64]
    error: NDArray[np.float64]
    error_low: NDArray[np.float64]
    error_high: NDArray[np.float64]
    expected_error: NDArray[np.float64]
    gap_quantiles: NDArray[np.float64]
    noise_exponent: NDArray[np.float64]
    noise_exponent_standard_error: NDArray[np.float64]
    massart_margin: NDArray[np.float64]
    noise_constant: NDArray[np.float64]

    def hardest(self, n: int | None = None) -> NDArray[np.intp]:
        """Return the indices of the hardest duels, hardest first.

        Duels are compared by the lower end of the confidence interval of their error, so that
        one with a handful of points is not the hardest by chance; equal ones by their median gap.

        Parameters
        ----------
        n : int, default=None
            How many duels; all that have held-out points by default.

        Returns
        -------
        duels : ndarray of int
            Indices into the arrays of this diagnosis. Duels without held-out points are left out.
        """
        if n is not None and (not isinstance(n, (int, np.integer)) or n < 0):
            raise ValueError(f"n must be a non-negative integer or None, got {n!r}.")
        hardest = np.lexsort((self.gap_quantiles[:, 1], -self.error_low))
        return hardest[self.n_points[hardest] > 0][:n]

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a table with one row per duel, for ``pandas.DataFrame``."""
        first, second = pairs(len(self.classes))
        quantiles = {
            f"gap_{quantile:.0%}": self.gap_quantiles[:, column]
            for column, quantile in enumerate(GAP_QUANTILES)
        }
        return {
            "first": self.classes[first],
            "second": self.classes[second],
            "n_points": self.n_points,
            "error": self.error,
            "error_low": self.error_low,
            "error_high": self.error_high,
            "expected_error": self.expected_error,
            **quantiles,
            "noise_exponent": self.noise_exponent,
            "noise_exponent_standard_error": self.noise_exponent_standard_error,
            "massart_margin": self.massart_margin,
            "noise_constant": self.noise_constant,
        }

    def __repr__(self) -> str:
        shown = self.hardest(TABLE_ROWS)
        n_empty = int((self.n_points == 0).sum())
        title = f"{len(shown)} hardest of {len(self.n_points)} duels of {len(self.classes)} labels"
        rows = [
            ("label", "label", "points", "error", "(95%)", "expected")
            + ("median gap", "smallest gap", "exponent", "constant"),
            *(self._row(duel) for duel in shown.tolist()),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [title]
        for row in rows:
            labels = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths[:2], strict=True)]
            numbers = [f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(labels + numbers))
        if n_empty:
            lines.append(f"{n_empty} without held-out points")
        if np.isnan(self.massart_margin[shown]).any():
            lines.append("the duels give no probabilities, so gaps are not known")
        return "\n".join(lines)

    def _row(self, duel: int) -> tuple[str, ...]:
        first, second = pairs(len(self.classes))
        estimate = self.noise_exponent[duel]
        exponent = "?"
        if not np.isnan(estimate):
            standard_error = self.noise_exponent_standard_error[duel]
            spread = "?" if np.isnan(standard_error) else f"{standard_error:.2f}"
            exponent = f"{estimate:.2f} ± {spread}"
        return (
            _short(self.classes[first[duel]]),
            _short(self.classes[second[duel]]),
            f"{self.n_points[duel]:,}",
            f"{self.error[duel]:.1%}",
            f"({self.error_low[duel]:.1%} to {self.error_high[duel]:.1%})",
            "?" if np.isnan(self.expected_error[duel]) else f"{self.expected_error[duel]:.1%}",
            _number(self.gap_quantiles[duel, 1]),
            _number(self.massart_margin[duel]),
            exponent,
            _number(self.noise_constant[duel]),
        )


def diagnose(estimator: Any, X: Any, y: Any, *, noise_exponent: float | None = None) -> Diagnosis:
    """Tell which label pairs are hard for a fitted ranker, and how hard.

    Every duel is judged on the points of its two labels. Its noise exponent, constant and margin
    are therefore conditional on these: points at which both labels are rare are hardly seen. Use
    them to compare duels with each other. Do not pass them to `duelrank.bounds`, whose noise
    condition is about all points. With known eta, use ``noise_constant(duel_gaps(eta), ...)``.

    Parameters
    ----------
    estimator : DuelRanker, or pipeline or search that ends in one
        Fitted.
    X : array-like with n rows
        Held-out points: on the training points every duel looks easier than it is.
    y : array-like of shape (n,)
        Their labels; labels of the fit may be missing.
    noise_exponent : float, default=None
        The α at which noise constants are wanted, from 0 to 1; by default, the estimate for each
        duel.

    Returns
    -------
    diagnosis : Diagnosis
        Errors, gaps and noise of every duel. Memory grows as n times K.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from duelrank import DuelRanker
    >>> X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    >>> diagnosis = diagnose(DuelRanker(random_state=0).fit(X, y), X_test, y_test)
    >>> table = diagnosis.to_dict()
    >>> [(int(table["first"][duel]), int(table["second"][duel])) for duel in diagnosis.hardest(1)]
    [(1, 8)]
    """
    if noise_exponent is not None and not (
        isinstance(noise_exponent, Real) and 0 <= noise_exponent <= 1
    ):
        raise ValueError(
            f"noise_exponent must lie between 0 and 1, or be None; got {noise_exponent!r}."
        )
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)  # before a pipeline transforms X
    ranker, X = unwrap(estimator, X)
    if not hasattr(ranker, "own_duels"):
        raise TypeError(
            "estimator must be a fitted DuelRanker, or a pipeline or search that ends in one; "
            f"got {type(ranker).__name__}."
        )
    check_is_fitted(ranker)
    codes = codes_from_labels(y, ranker.classes_, "y")
    if len(codes) == 0:
        raise ValueError("y must hold the label of at least one held-out point, got none.")
    won, probabilities = ranker.own_duels(X, codes)
    # The floating type is kept: it tells which gaps are too small to be told from 0.
    gaps = np.abs(2 * probabilities - 1)
    if not hasattr(ranker.duels_, "probabilities"):
        gaps[:] = np.nan
    return _judge(ranker.classes_, codes, gaps, won, noise_exponent)


def _judge(
    classes: NDArray[Any],
    codes: NDArray[np.intp],
    gaps: NDArray[np.floating],
    won: NDArray[np.bool_],
    exponent: float | None,
) -> Diagnosis:
    """Summarise the points of both labels of every duel."""
    n_classes = len(classes)
    by_code = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=n_classes))[:-1]
    # Labels are along the first axis, so that the values of a duel are contiguous.
    gaps_of = [np.ascontiguousarray(part.T) for part in np.split(gaps[by_code], ends)]
    won_of = [np.ascontiguousarray(part.T) for part in np.split(won[by_code], ends)]

    n_duels = n_pairs(n_classes)
    n_points = np.zeros(n_duels, dtype=np.int64)
    n_errors = np.zeros(n_duels, dtype=np.int64)
    columns = np.full((5 + len(GAP_QUANTILES), n_duels), np.nan)
    for duel, (a, b) in enumerate(zip(*map(np.ndarray.tolist, pairs(n_classes)), strict=True)):
        of_duel = np.concatenate([gaps_of[a][b], gaps_of[b][a]])
        n_points[duel] = len(of_duel)
        n_errors[duel] = len(of_duel) - won_of[a][b].sum() - won_of[b][a].sum()
        if len(of_duel) > 0 and not np.isnan(of_duel[0]):
            columns[:, duel] = _noise_of(of_duel, exponent)

    n = np.where(n_points > 0, n_points, np.nan)
    error = n_errors / n
    low, high = wilson_interval(error, n)
    expected, estimate, standard_error, margin, constant = columns[:5]
    return Diagnosis(
        classes=classes,
        n_points=n_points,
        error=error,
        error_low=low,
        error_high=high,
        expected_error=expected,
        gap_quantiles=columns[5:].T,
        noise_exponent=estimate,
        noise_exponent_standard_error=standard_error,
        massart_margin=margin,
        noise_constant=constant,
    )


def _noise_of(gaps: NDArray[np.floating], exponent: float | None) -> list[float]:
    """Return expected error, noise exponent and its error, margin, constant and quantiles."""
    estimate, standard_error = noise_exponent(gaps) if len(gaps) > 1 else (np.nan, np.nan)
    at = estimate if exponent is None else exponent
    constant = np.nan if np.isnan(at) else noise_constant(gaps, at)
    quantiles = np.quantile(gaps, GAP_QUANTILES)
    expected = (1 - gaps.mean(dtype=np.float64)) / 2
    return [expected, estimate, standard_error, massart_margin(gaps), constant, *quantiles]


def _number(value: float) -> str:
    return "?" if np.isnan(value) else f"{value:.3g}"


def _short(label: Any) -> str:
    name = str(label)
    return name if len(name) <= LABEL_WIDTH else name[: LABEL_WIDTH - 1] + "…"
