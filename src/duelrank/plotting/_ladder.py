"""The ladder of a tournament: a rung per label, and arrows for the duels against the ranking.

Rungs are at 0, 1, 2, … from the top. The left part of the axes holds bars of duels won and counts
duels. The right part holds the arrows and is measured in shares of the width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.plotting._canvas import (
    BLUE,
    VERMILION,
    legend_below,
    name_ticks,
    name_width,
    new_axes,
    row_height,
    settle,
    style,
)
from duelrank.plotting._heat_map import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CYCLE",
    "UPSET",
    "add_frame_legend",
    "add_legend",
    "draw_rungs",
    "draw_upsets",
    "frame",
    "ladder_axes",
    "name_rungs",
]

BAR_SHARE = 0.66
BAR = "#7FB3D5"
CYCLE, UPSET = "black", VERMILION


def ladder_axes(ax: Axes | None, names: list[str]) -> Axes:
    """Return axes that have room for the rungs."""
    height = float(np.clip(0.23 * len(names) + 1.6, 2.8, 16))
    return new_axes(ax, name_width(names) + 5.6, height)


def draw_rungs(
    ax: Axes,
    wins: NDArray[np.int64],
    expected: NDArray[np.float64],
    n_classes: int,
    cycles: list[tuple[int, int]],
) -> tuple[Any, Any]:
    """Draw duels won as bars, expected wins as diamonds, and a band behind every cycle."""
    from matplotlib.ticker import MaxNLocator

    rungs = np.arange(len(wins))
    for low, high in cycles:
        ax.axhspan(
            low - 0.46, high + 0.46, facecolor="0.9", edgecolor="0.45", linewidth=1, zorder=0
        )
    bars = ax.barh(rungs, wins, height=0.6, color=BAR, edgecolor=BLUE, linewidth=0.8)
    ax.set_ylim(len(wins) - 0.4, -0.6)
    (diamonds,) = ax.plot(
        expected,
        rungs,
        linestyle="none",
        marker="D",
        markerfacecolor="black",
        markeredgecolor="white",
        markeredgewidth=0.8,
    )
    ax.set_xlim(0, (n_classes - 1) / BAR_SHARE)
    ticks = MaxNLocator(nbins=6, integer=True).tick_values(0, n_classes - 1)
    ax.set_xticks([tick for tick in ticks if 0 <= tick <= n_classes - 1])
    ax.set_xlabel(f"duels won, of {n_classes - 1}", x=BAR_SHARE / 2)
    ax.tick_params(axis="y", length=0)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_bounds(0, n_classes - 1)
    return bars, diamonds


def name_rungs(ax: Axes, names: list[str], diamonds: Any) -> None:
    """Write places and names as large as there is room; everything else must be drawn before."""
    for _ in range(2):
        name_ticks(ax, "y", [f"{place})  {name}" for place, name in enumerate(names, start=1)])
        settle(ax)
    diamonds.set_markersize(float(np.clip(25 * row_height(ax), 1.5, 5)))


def draw_upsets(
    ax: Axes,
    upsets: NDArray[np.intp],
    values: list[float] | None,
    text_kw: dict[str, Any] | None,
) -> list[Any]:
    """Draw an arrow from the winner of every upset to the loser; long ones reach farther right."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path
    from matplotlib.text import Text

    if len(upsets) == 0:
        return []
    farthest = int((upsets[:, 0] - upsets[:, 1]).max())
    start, reach = BAR_SHARE + 0.03, 0.94 - BAR_SHARE
    transform = ax.get_yaxis_transform()
    crowded = len(upsets) > 30
    arrows = []
    for number, (winner, loser) in enumerate(upsets.tolist()):
        # A cubic curve goes three quarters of the way to its control points.
        turn = start + reach * (0.25 + 0.75 * np.sqrt((winner - loser) / farthest))
        path = Path(
            [(start, winner), (turn, winner), (turn, loser), (start, loser)],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        arrow = FancyArrowPatch(
            path=path,
            transform=transform,
            arrowstyle="-|>",
            mutation_scale=8 if crowded else 11,
            color=VERMILION,
            linewidth=0.7 if crowded else 1.4,
            alpha=0.6 if crowded else 1,
            shrinkA=0,
            shrinkB=0,
        )
        arrows.append(ax.add_patch(arrow))
        if values is not None:
            given: dict[str, Any] = {
                "ha": "center",
                "va": "center",
                "fontsize": 8,
                "color": "black",
            }
            given["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.9}
            ax.text(
                start + 0.75 * (turn - start),
                (winner + loser) / 2,
                f"{percent(values[number])}%",
                transform=transform,
                **style(given, text_kw, Text),
            )
    return arrows


def add_legend(ax: Axes, bars: Any, diamonds: Any, *, has_upsets: bool) -> None:
    """Say below the axes what bars, diamonds and arrows are."""
    from matplotlib.lines import Line2D

    handles = [bars, diamonds]
    names = ["duels won", "wins expected"]
    if has_upsets:
        handles.append(Line2D([], [], color=VERMILION, marker=">", markersize=5))
        names.append("beats a label placed above")
    legend_below(ax, handles, names)


def frame(ax: Axes, column: int, row: int, size: int, colour: str) -> None:
    """Frame a square of cells; a white line around the frame keeps it visible in greyscale."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    width = 2.0 if size > 1 else float(np.clip(7 * row_height(ax), 0.5, 2))
    inset = 0.04
    ax.add_patch(
        Rectangle(
            (column - 0.5 + inset, row - 0.5 + inset),
            size - 2 * inset,
            size - 2 * inset,
            fill=False,
            edgecolor=colour,
            linewidth=width,
            path_effects=[withStroke(linewidth=1.7 * width, foreground="white")],
        )
    )


def add_frame_legend(ax: Axes, has_cycles: bool, has_upsets: bool) -> None:
    """Say below the axes what the frames are."""
    from matplotlib.patches import Patch

    found = [
        (Patch(fill=False, edgecolor=CYCLE, linewidth=2), "cycle", has_cycles),
        (Patch(fill=False, edgecolor=UPSET, linewidth=2), "beats a label placed above", has_upsets),
    ]
    shown = [(handle, name) for handle, name, there in found if there]
    if shown:
        legend_below(ax, [handle for handle, _ in shown], [name for _, name in shown])
