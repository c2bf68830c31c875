"""The canvas of a display: axes, colours, and labels that fit where they are written.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Curves also
differ in marker and line style, so they can be told apart in greyscale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BLUE",
    "CURVE",
    "GREY",
    "VERMILION",
    "axes_below",
    "axes_named",
    "check_ax",
    "check_top",
    "curve_style",
    "display_names",
    "inches",
    "legend_below",
    "legend_name",
    "legend_outside",
    "name_ticks",
    "name_width",
    "new_axes",
    "pyplot",
    "row_height",
    "settle",
    "style",
]

BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#999999"
COLOURS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
# Curves carry this id, so that a display drawn into the same axes goes on with the next style.
CURVE = "duelrank-curve"

POINTS_PER_INCH = 72
LARGEST_FONT, SMALLEST_FONT = 10.0, 6.0
LINE_HEIGHT = 1.3
# Width of an average character, as a share of the font size; a little generous.
CHARACTER_WIDTH = 0.62
LONGEST_NAME, SHORT_NAME = 20, 3
MOST_LABELS, FIRST_LABELS = 15, 10
LEGEND_ROOM = 1.2  # the widest legend below axes, as a share of their width


def pyplot() -> Any:
    """Import matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib; install it with: pip install 'duelrank[plot]'"
        ) from error
    return plt


def check_ax(ax: Any) -> None:
    """Raise unless ax is one matplotlib Axes or None."""
    pyplot()
    from matplotlib.axes import Axes

    if not (ax is None or isinstance(ax, Axes)):
        raise TypeError(f"ax must be one matplotlib Axes or None, got {type(ax).__name__}.")


def check_top(top: Any, n_classes: int, lowest: int = 2) -> int:
    """Return how many labels to draw: all, if these are few, or ten, unless users want others."""
    if top is None:
        return n_classes if n_classes <= MOST_LABELS else FIRST_LABELS
    if isinstance(top, str) and top == "all":
        return n_classes
    if not isinstance(top, (int, np.integer)) or not lowest <= top <= n_classes:
        raise ValueError(
            f"top must be an integer from {lowest} to {n_classes}, 'all' or None; got {top!r}."
        )
    return int(top)


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes, or the axes of a new figure of this size in inches."""
    check_ax(ax)
    if ax is not None:
        return ax
    axes: Axes = pyplot().subplots(figsize=(width, height), layout="constrained")[1]
    return axes


def axes_named(ax: Axes, name: str) -> Any:
    """Return the axes of this name that share the x axis with others, if there are any."""
    shared = ax.get_shared_x_axes()
    found = [a for a in ax.figure.axes if a.get_label() == name and shared.joined(a, ax)]
    return found[0] if found else None


def axes_below(ax: Axes, name: str, part: float) -> Any:
    """Split the room of the axes, and return new ones of this name in its lower part."""
    place = ax.get_subplotspec()
    if place is not None:
        parts = place.subgridspec(2, 1, height_ratios=[1 - part, part], hspace=0.08)
        ax.set_subplotspec(parts[0])
        return ax.figure.add_subplot(parts[1], sharex=ax, label=name)
    box = ax.get_position()
    gap = 0.04 * box.height
    upper = (1 - part) * box.height - gap
    ax.set_position((box.x0, box.y1 - upper, box.width, upper))
    lower = part * box.height
    return ax.figure.add_axes((box.x0, box.y0, box.width, lower), sharex=ax, label=name)


def style(defaults: dict[str, Any], given: dict[str, Any] | None, artist: Any) -> dict[str, Any]:
    """Replace defaults by what users gave, under any of matplotlib's names, such as c for color."""
    from matplotlib.cbook import normalize_kwargs

    return {**defaults, **normalize_kwargs(given or {}, artist)}


def curve_style(ax: Axes) -> dict[str, Any]:
    """Return colour, marker and line style of the next curve in these axes."""
    number = sum(line.get_gid() == CURVE for line in ax.get_lines())
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
        "gid": CURVE,
    }


def display_names(labels: ArrayLike) -> list[str]:
    """Write labels as short texts that matplotlib takes literally.

    The middle of a long name is left out, because names often differ only at their ends. Less is
    left out if two names would become equal.
    """
    array = np.asarray(labels)
    names = [" ".join(str(label).split()) or "''" for label in array.tolist()]
    longest = max(map(len, names), default=0)
    width = LONGEST_NAME
    short = [_without_middle(name, width) for name in names]
    while len(set(short)) < len(set(names)) and width < longest:
        width += 4
        short = [_without_middle(name, width) for name in names]
    return [name.replace("$", r"\$") for name in short]


def legend_name(name: str) -> str:
    """Write a name so that a legend shows it: matplotlib hides names that start with _."""
    literal = str(name).replace("$", r"\$")
    return f" {literal}" if literal.startswith("_") else literal


def legend_outside(ax: Axes, lowest: Axes | None = None) -> None:
    """Name the curves below the axes, where nothing is covered.

    Without a layout engine nobody makes room there, so the legend stays inside.

    Parameters
    ----------
    ax : matplotlib Axes
        What holds the curves.
    lowest : matplotlib Axes, default=None
        Axes below them, such as counts; the legend goes below these.
    """
    handles, names = ax.get_legend_handles_labels()
    for axes in (ax, lowest):
        old = None if axes is None else axes.get_legend()
        if old is not None:
            old.remove()
    if _figure(ax).get_layout_engine() is None:
        ax.legend(handles, names, loc="best")
    else:
        legend_below(ax if lowest is None else lowest, handles, names)


def legend_below(ax: Axes, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Put a legend below whatever is written at the x axis, in as few rows as fit."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.figure
    written = ax.xaxis.get_tightbbox()
    depth = 0.0 if written is None else max(0.0, ax.get_window_extent().y0 - written.y0)
    shift = ScaledTranslation(0, -depth / figure.dpi - 0.05, figure.dpi_scale_trans)
    room = LEGEND_ROOM * ax.get_window_extent().width
    for n_columns in range(len(names), 0, -1):
        legend = ax.legend(
            handles,
            names,
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=ax.transAxes + shift,
            ncols=n_columns,
            frameon=False,
            handlelength=1.6,
            columnspacing=1.4,
            borderaxespad=0,
        )
        if legend.get_window_extent().width <= room:
            break


def name_width(names: Sequence[str], font: float = LARGEST_FONT) -> float:
    """Return about how many inches the longest name takes."""
    return max(map(len, names), default=0) * CHARACTER_WIDTH * font / POINTS_PER_INCH


def inches(ax: Axes) -> tuple[float, float]:
    """Return width and height of the axes in inches."""
    extent = ax.get_window_extent()
    dpi = ax.figure.dpi
    return extent.width / dpi, extent.height / dpi


def settle(ax: Axes) -> None:
    """Run the figure's layout engine, if it has one, so that the size of the axes is final."""
    figure = _figure(ax)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def row_height(ax: Axes) -> float:
    """Return the inches between 0 and 1 of the y axis."""
    low, high = sorted(ax.get_ylim())
    return inches(ax)[1] / (high - low)


def name_ticks(ax: Axes, axis: str, names: Sequence[str]) -> None:
    """Write names at 0, 1, 2, … of one axis: smaller if there are many, and not all if too many.

    Along the x axis, names that are wider than their room stand upright. Short names, such as
    numbers, never do; some of them are left out instead.
    """
    low, high = sorted(ax.get_xlim())
    room = inches(ax)[0] / (high - low) if axis == "x" else row_height(ax)
    font = float(np.clip(room * POINTS_PER_INCH / LINE_HEIGHT, SMALLEST_FONT, LARGEST_FONT))
    needed = font * LINE_HEIGHT / POINTS_PER_INCH
    upright = False
    if axis == "x":
        width = name_width(names, font)
        crowded = width > 0.9 * room
        upright = crowded and max(map(len, names)) > SHORT_NAME
        if not upright:
            needed = 1.3 * width if crowded else 0.0
    step = max(1, int(np.ceil(needed / room - 1e-6)))
    shown = list(range(0, len(names), step))
    labels = [names[place] for place in shown]
    if axis == "x":
        ax.set_xticks(shown, labels, fontsize=font, rotation="vertical" if upright else None)
    else:
        ax.set_yticks(shown, labels, fontsize=font)


def _figure(ax: Axes) -> Any:
    """Return the figure itself, also for axes in a subfigure."""
    return ax.figure.canvas.figure


def _without_middle(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    head = width // 2
    return f"{name[:head]}…{name[len(name) - (width - head - 1) :]}"
