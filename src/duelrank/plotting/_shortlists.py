"""How long lists are for the coverage that is asked for, of one or several shortlisters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank._intervals import wilson_interval
from duelrank.plotting._canvas import (
    axes_below,
    axes_named,
    curve_style,
    legend_name,
    legend_outside,
    new_axes,
    style,
)
from duelrank.plotting._points import codes_of, model_name
from duelrank.shortlists import LengthCurve, Shortlister, length_curve, measure_shortlists

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ShortlistDisplay"]

REACHED, DIAGONAL = "duelrank-reached", "duelrank-diagonal"
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999)
LENGTHS = (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
LONG = 10  # lists of this mean length call for a logarithmic scale
N_COVERAGES = 80
LOWEST, HIGHEST = 0.5, 0.999
EDGE = 0.04  # room beside the curves, as a share of the axis


class ShortlistDisplay:
    """Curves of how long lists are, by the coverage that is asked for.

    Above, the mean number of labels in a list; below, how often lists hold the right label. The
    scale of coverages is that of log-odds, so that 95%, 98% and 99% are well apart.

    Parameters
    ----------
    curves : LengthCurve or sequence of LengthCurve
        One for every model, as by `duelrank.shortlists.length_curve`.
    names : sequence of str, default=None
        One name per model, for the legend.
    marked : LengthCurve or sequence of LengthCurve, default=None
        For every model, the lists to mark by points, such as those of the coverages that it was
        made for.
    n_rows : int, default=None
        Number of rows that lists were measured on, for the confidence intervals of what marked
        lists reach.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One curve of lengths per model.
    reached_lines_ : list of matplotlib Line2D
        One curve of coverages per model; empty if they are not drawn.
    points_ : list of matplotlib Line2D
        The marked lists of every model among the lengths; empty if none are marked.
    ax_, figure_ : matplotlib Axes and Figure
        Where the lengths are.
    reached_ax_ : matplotlib Axes or None
        Where the coverages are.

    See Also
    --------
    TopKAccuracyDisplay : How often lists of a fixed length hold the right label.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from duelrank.plotting import ShortlistDisplay
    >>> from duelrank.shortlists import Shortlister
    >>> X, y = load_digits(return_X_y=True)
    >>> lists = Shortlister(coverage=0.98, random_state=0).fit(X[::2], y[::2])
    >>> display = ShortlistDisplay.from_estimator(lists, X[1::2], y[1::2])
    >>> display.marked[0].asked
    array([0.98])
    """

    def __init__(
        self,
        curves: LengthCurve | Sequence[LengthCurve],
        *,
        names: Sequence[str] | None = None,
        marked: LengthCurve | Sequence[LengthCurve] | None = None,
        n_rows: int | None = None,
    ) -> None:
        self.curves = _as_curves(curves, "curves")
        self.names = None if names is None else [str(name) for name in names]
        if self.names is not None and len(self.names) != len(self.curves):
            raise ValueError(
                f"names must name the {len(self.curves)} models of curves, got {self.names}."
            )
        self.marked = None if marked is None else _as_curves(marked, "marked")
        if self.marked is not None and len(self.marked) != len(self.curves):
            raise ValueError(
                f"marked must hold one LengthCurve for each of the {len(self.curves)} models of "
                f"curves, got {len(self.marked)}."
            )
        if n_rows is not None and n_rows < 1:
            raise ValueError(f"n_rows must be 1 or more, got {n_rows!r}.")
        self.n_rows = n_rows

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        coverages: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> ShortlistDisplay:
        """Draw the curves of one or several fitted shortlisters.

        Parameters
        ----------
        estimator : fitted Shortlister, or dict of them by name
            The coverages that they were made for are marked, with `max_length` as it is. The
            curves show lists of any length.
        X : array-like with n rows
            Points that were neither learned from nor used to calibrate.
        y : array-like of shape (n,)
            Their labels.
        groups : array-like of shape (n,), default=None
            The group of every row, for shortlisters that are made by group.
        coverages : array-like of shape (m,), default=None
            Coverages to draw, between 0 and 1. By default about as many as a curve needs, from
            where the first label alone is not enough, up to 99.9% or what the calibration rows
            allow.
        name : str, default=None
            Name of a single model; by default that of its class.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : ShortlistDisplay
            The drawn display.
        """
        models = _by_name(estimator, name)
        codes = {each: codes_of(model, X, y) for each, model in models.items()}
        values = {
            each: model.p_values(X, groups if model.by == "group" else None)
            for each, model in models.items()
        }
        asked = (
            _default_coverages(models, values, codes)
            if coverages is None
            else np.unique(np.asarray(coverages, dtype=np.float64))
        )
        curves = [length_curve(values[each], codes[each], asked) for each in models]
        marked = [
            _lists_of(model, X, groups, values[each], codes[each]) for each, model in models.items()
        ]
        n_rows = len(next(iter(codes.values())))
        made = cls(curves, names=list(models), marked=marked, n_rows=n_rows)
        return made.plot(ax=ax, **plot_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        reached: bool = True,
        errors: bool = True,
        line_kw: dict[str, Any] | None = None,
    ) -> ShortlistDisplay:
        """Draw the lengths, and the coverages below them.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw, after the curves that are there; by default in a new figure.
        reached : bool, default=True
            Whether to draw the coverages that lists reach, in axes of their own that take the
            lower part of `ax`, and the diagonal on which they are as asked for.
        errors : bool, default=True
            Whether to draw 95% confidence intervals of what marked lists reach, if `n_rows` is
            known.
        line_kw : dict, default=None
            Arguments of matplotlib's ``plot``, for all curves.

        Returns
        -------
        self : ShortlistDisplay
            With `ax_`, `figure_`, `lines_` and `reached_ax_`.
        """
        ax = new_axes(ax, 6, 6.2 if reached else 4)
        from matplotlib.lines import Line2D

        self.lines_, self.points_, self.reached_lines_ = [], [], []
        below: Any = None
        if reached:
            below = axes_named(ax, REACHED) or axes_below(ax, REACHED, 0.42)
        for number, curve in enumerate(self.curves):
            given: dict[str, Any] = {**curve_style(ax), "linewidth": 1.6}
            marker = given.pop("marker")
            if self.names is not None:
                given["label"] = legend_name(self.names[number])
            given = style(given, line_kw, Line2D)
            (line,) = ax.plot(curve.asked, curve.mean_length, **given)
            self.lines_.append(line)
            at = {"linestyle": "", "marker": marker, "markersize": 7, "color": line.get_color()}
            lists = None if self.marked is None else self.marked[number]
            if lists is not None:
                self.points_ += ax.plot(lists.asked, lists.mean_length, **at)
                line.set(marker=marker, markersize=7, markevery=[])  # for the legend
            if below is None:
                continue
            plain = {key: each for key, each in given.items() if key not in ("label", "gid")}
            self.reached_lines_ += below.plot(curve.asked, curve.coverage, **plain)
            if lists is not None:
                below.plot(lists.asked, lists.coverage, **at)
                if errors and self.n_rows is not None:
                    counted = np.full(len(lists.asked), float(self.n_rows))
                    ends = wilson_interval(lists.coverage, counted)
                    below.vlines(lists.asked, *ends, color=line.get_color(), lw=1)
        _scale_lengths(ax)
        low, high = _scale_coverages(ax)
        ax.set(
            xlabel="coverage asked for",
            ylabel="mean length of a list",
            title="How long lists are for the coverage asked for",
        )
        ax.grid(alpha=0.3)
        if below is not None:
            _finish_reached(ax, below, low, high)
        if self.names is not None:
            legend_outside(ax, axes_named(ax, REACHED))
        self.ax_, self.figure_, self.reached_ax_ = ax, ax.figure, below
        return self


def _as_curves(given: LengthCurve | Sequence[LengthCurve], name: str) -> list[LengthCurve]:
    curves = [given] if isinstance(given, LengthCurve) else list(given)
    if not curves:
        raise ValueError(f"{name} must hold at least one LengthCurve, got none.")
    return [_checked(curve, name) for curve in curves]


def _checked(curve: Any, name: str) -> LengthCurve:
    """Return a curve as arrays, by increasing coverage."""
    if not isinstance(curve, LengthCurve):
        raise TypeError(f"{name} must be made of LengthCurve, got {type(curve).__name__}.")
    asked, coverage, length = (np.asarray(values, dtype=np.float64) for values in curve)
    if asked.ndim != 1 or len(asked) == 0 or not asked.shape == coverage.shape == length.shape:
        raise ValueError(
            f"{name} must have asked, coverage and mean_length of one shape (m,), got "
            f"{asked.shape}, {coverage.shape} and {length.shape}."
        )
    shares = np.concatenate([asked, coverage])
    if not (np.all((shares >= 0) & (shares <= 1)) and np.all((asked > 0) & (asked < 1))):
        raise ValueError(f"{name} must have coverages between 0 and 1.")
    if not np.all(length >= 0):
        raise ValueError(f"{name} must have lengths of 0 or more.")
    along = np.argsort(asked, kind="stable")
    return LengthCurve(asked[along], coverage[along], length[along])


def _by_name(given: Any, name: str | None) -> dict[str, Shortlister]:
    """Return a mapping as it is, and a single shortlister under its name."""
    several = given if isinstance(given, Mapping) else {None: given}
    if not several:
        raise ValueError("at least one shortlister must be given, got an empty dict.")
    if name is not None and isinstance(given, Mapping):
        raise ValueError(f"name must be None where a dict names several, got {name!r}.")
    for each in several.values():
        if not isinstance(each, Shortlister):
            raise TypeError(
                f"estimator must be a fitted Shortlister or a dict of them, got "
                f"{type(each).__name__}."
            )
    if isinstance(given, Mapping):
        return {str(each): model for each, model in given.items()}
    return {model_name(given) if name is None else str(name): given}


def _default_coverages(
    models: Mapping[str, Shortlister],
    values: Mapping[str, NDArray[np.float64]],
    codes: Mapping[str, NDArray[np.intp]],
) -> NDArray[np.float64]:
    """Return coverages that are evenly spread over the scale, and those the models have."""
    fitted = np.concatenate([model.coverages_ for model in models.values()])
    # Below this coverage lists have one label, or as few as there are.
    start = min(
        float(length_curve(values[each], codes[each], [1e-6]).coverage[0]) for each in models
    )
    lowest = float(np.clip(np.floor(10 * start) / 10, LOWEST, 0.9))
    allowed = max(1 - 1 / (model.n_calibration_ + 1) for model in models.values())
    low, high = min(lowest, float(fitted.min())), max(min(HIGHEST, allowed), float(fitted.max()))
    ends = np.log(low / (1 - low)), np.log(high / (1 - high))
    spread = 1 / (1 + np.exp(-np.linspace(*ends, N_COVERAGES)))
    return np.unique(np.concatenate([spread[1:-1], [low, high], fitted]))


def _lists_of(
    model: Shortlister,
    X: Any,
    groups: Any,
    values: NDArray[np.float64],
    codes: NDArray[np.intp],
) -> LengthCurve:
    """Measure the lists that a shortlister makes."""
    if model.max_length is None:
        return length_curve(values, codes, model.coverages_)
    masks = model.shortlist_mask(X, groups if model.by == "group" else None)
    measured = [measure_shortlists(mask, codes) for mask in masks.reshape(-1, *values.shape)]
    return LengthCurve(
        model.coverages_,
        np.array([quality.coverage for quality in measured]),
        np.array([quality.mean_length for quality in measured]),
    )


def _curve_data(ax: Axes, axis: int) -> NDArray[np.float64]:
    """Return the coordinates of all curves and points, also of displays drawn before."""
    parts = [np.asarray(line.get_data()[axis], dtype=np.float64) for line in ax.get_lines()]
    return np.concatenate(parts)


def _scale_lengths(ax: Axes) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    lengths = _curve_data(ax, 1)
    if lengths.max() <= LONG:
        ax.set_yscale("linear")
        ax.autoscale(axis="y")
        return
    ax.set_yscale("log", nonpositive="mask")
    ax.yaxis.set_major_locator(FixedLocator(LENGTHS))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda length, _: f"{length:g}")
    low, high = lengths[lengths > 0].min(), lengths.max()
    room = (high / low) ** EDGE
    ax.set_ylim(low / room, high * room)


def _scale_coverages(ax: Axes) -> tuple[float, float]:
    """Spread high coverages along the x axis, and return its ends."""
    asked = _curve_data(ax, 0)
    ends = np.log(asked.min() / (1 - asked.min())), np.log(asked.max() / (1 - asked.max()))
    room = EDGE * (ends[1] - ends[0]) or 1.0
    low, high = (1 / (1 + np.exp(-np.array([ends[0] - room, ends[1] + room])))).tolist()
    _spread(ax, "x", low, high)
    return low, high


def _spread(ax: Axes, which: str, low: float, high: float) -> None:
    """Give an axis the scale of log-odds, with ticks where people ask for coverages."""
    from matplotlib.ticker import FixedLocator, NullLocator

    set_scale = ax.set_xscale if which == "x" else ax.set_yscale
    set_limits = ax.set_xlim if which == "x" else ax.set_ylim
    axis: Any = ax.xaxis if which == "x" else ax.yaxis
    set_scale("logit", nonpositive="clip")
    axis.set_major_locator(FixedLocator([tick for tick in TICKS if low <= tick <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda share, _: f"{100 * share:.4g}%")
    set_limits(low, high)


def _finish_reached(ax: Axes, below: Axes, low: float, high: float) -> None:
    """Draw the diagonal, and give both axes of the lower part the scale of coverages."""
    if DIAGONAL not in {line.get_gid() for line in below.get_lines()}:
        below.plot([TICKS[0], TICKS[-1]], [TICKS[0], TICKS[-1]], ":", color="0.35", gid=DIAGONAL)
    _spread(below, "x", low, high)
    _spread(below, "y", low, high)
    below.set(xlabel=ax.get_xlabel(), ylabel="coverage reached")
    below.grid(alpha=0.3)
    ax.set_xlabel("")
    ax.tick_params(labelbottom=False)
