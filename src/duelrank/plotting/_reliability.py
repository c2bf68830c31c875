"""Reliability: whether probabilities mean what they say.

Statements are put into bins by their probability; in a reliable bin the share that came true is the
mean probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from duelrank._parameters import check_choice
from duelrank._sklearn import unwrap
from duelrank.plotting._canvas import (
    axes_below,
    axes_named,
    curve_style,
    legend_name,
    legend_outside,
    new_axes,
    style,
)
from duelrank.plotting._points import (
    check_classes,
    codes_of,
    model_name,
    true_codes,
    weights_of,
)
from duelrank.plotting._statements import (
    STATEMENTS,
    about_duels,
    bins,
    check_binning,
    check_probabilities,
    from_posteriors,
    lowest_probability,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReliabilityDisplay"]

# The axes below the curve carry this label, so that a second display finds them.
COUNTS = "duelrank-counts"


class ReliabilityDisplay:
    """Reliability diagram: how often what has probability p comes true.

    Parameters
    ----------
    probability : array-like of shape (n_bins,)
        Mean probability of the statements in every bin, increasing.
    frequency : array-like of shape (n_bins,)
        Share of them that came true.
    counts : array-like of shape (n_bins,)
        Number, or total weight, of the statements.
    edges : array-like of shape (n_bins, 2), default=None
        Lower and upper edge of every bin, for the bars of the counts.
    interval : array-like of shape (n_bins, 2), default=None
        Lower and upper end of a confidence interval of the frequency. The other constructors take
        Wilson's at 95 %. It assumes independent statements; statements about one point are not.
    of : {"top", "duels", "labels"}, default="top"
        What the statements are about; see `from_predictions`.
    name : str, default=None
        Name of the model, for the legend.

    Attributes
    ----------
    calibration_error : float
        Mean distance between probability and frequency, bins weighted by their counts.
    line_ : matplotlib Line2D
        The curve.
    intervals_ : matplotlib LineCollection or None
        The confidence intervals.
    counts_ax_ : matplotlib Axes or None
        The counts below the curve, if they are drawn.
    ax_, figure_ : matplotlib Axes and Figure
        Where the curve is.

    Examples
    --------
    >>> from duelrank.plotting import ReliabilityDisplay
    >>> display = ReliabilityDisplay([0.25, 0.75], [0.25, 0.65], counts=[100, 300])
    >>> round(display.calibration_error, 3)
    0.075
    """

    def __init__(
        self,
        probability: ArrayLike,
        frequency: ArrayLike,
        counts: ArrayLike,
        edges: ArrayLike | None = None,
        interval: ArrayLike | None = None,
        *,
        of: str = "top",
        name: str | None = None,
    ) -> None:
        check_choice("of", of, STATEMENTS)
        self.probability = np.asarray(probability, dtype=np.float64)
        self.frequency = np.asarray(frequency, dtype=np.float64)
        self.counts = np.asarray(counts, dtype=np.float64)
        shape = self.probability.shape
        if self.probability.ndim != 1 or self.probability.size == 0:
            raise ValueError(f"probability must have shape (n_bins,), n_bins ≥ 1, got {shape}.")
        for argument, array in (("frequency", self.frequency), ("counts", self.counts)):
            if array.shape != shape:
                raise ValueError(
                    f"{argument} must have the shape of probability, {shape}, got {array.shape}."
                )
        for argument, array in (("probability", self.probability), ("frequency", self.frequency)):
            if not np.all((array >= 0) & (array <= 1)):
                raise ValueError(f"{argument} must hold numbers from 0 to 1, got {array.tolist()}.")
        if not (np.all(self.counts >= 0) and self.counts.sum() > 0):
            raise ValueError(f"counts must not be negative, nor all 0; got {self.counts.tolist()}.")
        self.edges = None if edges is None else np.asarray(edges, dtype=np.float64)
        self.interval = None if interval is None else np.asarray(interval, dtype=np.float64)
        for argument, ends in (("edges", self.edges), ("interval", self.interval)):
            if ends is not None and ends.shape != (*shape, 2):
                raise ValueError(f"{argument} must have shape {(*shape, 2)}, got {ends.shape}.")
        self.of = of
        self.name = name

    @property
    def calibration_error(self) -> float:
        """Mean distance between probability and frequency, bins weighted by their counts."""
        distance = np.abs(self.probability - self.frequency)
        return float(np.average(distance, weights=self.counts))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        of: str = "top",
        n_bins: int = 10,
        strategy: str = "uniform",
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> ReliabilityDisplay:
        """Draw the reliability of a fitted model.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            Anything with ``predict_proba``. A `DuelRanker` has duels; for other classifiers the
            probabilities of duels follow from ``predict_proba``.
        X : array-like with n rows
            Points that the model was not fitted with.
        y : array-like of shape (n,)
            Their labels.
        of, n_bins, strategy : str, int, str
            As in `from_predictions`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the points.
        name : str, default=None
            Name of the model; by default that of its class.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : ReliabilityDisplay
            The drawn display.
        """
        check_binning(of, n_bins, strategy)
        codes = codes_of(estimator, X, y)
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"estimator must have predict_proba, which {estimator!r} does not; "
                "around a classifier, CalibratedClassifierCV gives it one."
            )
        weights = weights_of(sample_weight, codes)
        ranker, points = unwrap(estimator, X) if of == "duels" else (estimator, X)
        if of == "duels" and hasattr(ranker, "own_duels"):
            true_wins = ranker.own_duels(points, codes)[1].astype(np.float64)
            statements = about_duels(true_wins, codes, weights)
        else:
            statements = from_posteriors(estimator.predict_proba(X), codes, weights, of)
        display = cls(*bins(*statements, of, n_bins, strategy), of=of)
        display.name = model_name(estimator) if name is None else name
        return display.plot(ax=ax, **plot_kw)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        probabilities: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        of: str = "top",
        n_bins: int = 10,
        strategy: str = "uniform",
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> ReliabilityDisplay:
        """Draw the reliability of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        probabilities : array-like of shape (n, K) or (n, K, K)
            Posteriors of the labels; or, for ``of="duels"``, the probabilities that label a beats
            b in row i. Posteriors η give the duels η_a / (η_a + η_b).
        classes : array-like of shape (K,), default=None
            Labels of the columns; by default the sorted labels of `y_true`, if these are K.
        of : {"top", "duels", "labels"}, default="top"
            What the probabilities state:

            - "top": that the most probable label is the true one;
            - "duels": that the favourite of a duel is the true label, for all duels of the true
              label. A favourite has a probability of one half or more, and an even duel counts
              as half true;
            - "labels": that a label is the true one, for all labels of all points.
        n_bins : int, default=10
            Number of bins; empty ones are left out.
        strategy : {"uniform", "quantile"}, default="uniform"
            Whether bins are equally wide or hold equally many statements.
        sample_weight : array-like of shape (n,), default=None
            Weights of the points.
        name : str, default=None
            Name of the model.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : ReliabilityDisplay
            The drawn display.
        """
        check_binning(of, n_bins, strategy)
        array = check_probabilities(probabilities, of)
        codes = true_codes(y_true, check_classes(y_true, classes, array.shape[-1]))
        if len(array) != len(codes):
            raise ValueError(
                f"probabilities must have one row per label of y_true: {len(codes)}, "
                f"got {len(array)}."
            )
        weights = weights_of(sample_weight, codes)
        if array.ndim == 3:
            statements = about_duels(array[np.arange(len(codes)), codes], codes, weights)
        else:
            statements = from_posteriors(array, codes, weights, of)
        display = cls(*bins(*statements, of, n_bins, strategy), of=of, name=name)
        return display.plot(ax=ax, **plot_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        counts: bool = True,
        errors: bool = True,
        ref_line: bool = True,
        line_kw: dict[str, Any] | None = None,
    ) -> ReliabilityDisplay:
        """Draw the curve, and the counts of the bins below it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw, after the curves that are there; by default in a new figure.
        counts : bool, default=True
            Whether to draw the counts, in axes of their own that take the lower fifth of `ax`.
        errors : bool, default=True
            Whether to draw the confidence intervals of the frequencies, where known.
        ref_line : bool, default=True
            Whether to draw the diagonal on which reliable probabilities lie.
        line_kw : dict, default=None
            Arguments of matplotlib's ``plot`` for the curve.

        Returns
        -------
        self : ReliabilityDisplay
            With `ax_`, `figure_`, `line_` and `counts_ax_`.
        """
        ax = new_axes(ax, 5.2, 5.6 if counts else 4.4)
        from matplotlib.lines import Line2D
        from matplotlib.ticker import PercentFormatter

        low = lowest_probability(self.of)
        labels = {line.get_label() for line in ax.get_lines()}
        if ref_line and "reliable" not in labels:
            ax.plot([low, 1], [low, 1], linestyle=":", color="0.35", label="reliable")
        given = {**curve_style(ax), "markersize": 5, "linewidth": 1.6}
        error = f"calibration error {self.calibration_error:.1%}"
        given["label"] = error if self.name is None else f"{legend_name(self.name)}, {error}"
        kept = self.counts > 0
        self.intervals_ = None
        (self.line_,) = ax.plot(
            self.probability[kept], self.frequency[kept], **style(given, line_kw, Line2D)
        )
        if errors and self.interval is not None:
            low_ends, high_ends = self.interval[kept].T
            self.intervals_ = ax.vlines(
                self.probability[kept], low_ends, high_ends, color=self.line_.get_color(), lw=1
            )
        xlabel = {
            "top": "probability of the top label",
            "duels": "probability of the duel's favourite",
            "labels": "probability of a label",
        }[self.of]
        ax.set(xlabel=xlabel, ylabel="how often it is the true label", title="Reliability")
        ax.set_xlim(low - 0.02 * (1 - low), 1 + 0.02 * (1 - low))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.grid(alpha=0.3)
        self.counts_ax_ = _draw_counts(ax, self) if counts else None
        legend_outside(ax, axes_named(ax, COUNTS))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _draw_counts(ax: Axes, display: ReliabilityDisplay) -> Any:
    """Draw the counts below the curve, into the axes of an earlier display if there is one."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    below: Any = axes_named(ax, COUNTS) or axes_below(ax, COUNTS, 0.2)
    below.set(xlabel=ax.get_xlabel(), ylabel="count")
    below.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    below.yaxis.set_major_formatter(EngFormatter(sep=""))
    below.grid(alpha=0.3)
    ax.set_xlabel("")
    ax.tick_params(labelbottom=False)
    edges = display.edges
    if edges is None:
        middle = (display.probability[1:] + display.probability[:-1]) / 2
        sides = np.concatenate([[lowest_probability(display.of)], middle, [1.0]])
        edges = np.stack([sides[:-1], sides[1:]], axis=1)
    colour = display.line_.get_color()
    below.bar(
        edges[:, 0],
        display.counts,
        width=edges[:, 1] - edges[:, 0],
        align="edge",
        facecolor=(colour, 0.25),
        edgecolor=colour,
        linestyle=display.line_.get_linestyle(),
    )
    return below
