"""Heat maps: a matrix of shares with a name at every row and column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.plotting._canvas import (
    inches,
    name_ticks,
    name_width,
    new_axes,
    pyplot,
    settle,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

__all__ = ["Look", "NamedMatrix", "heat_map", "heat_map_axes", "percent"]

NO_VALUE = "0.88"
EVEN_LUMINANCE = 0.179  # at which black and white texts have the same contrast, above 4.5
# A cell this wide and high, in inches, holds two or three digits.
CELL_WITH_VALUE = (0.27, 0.17)
COLOR_BAR_INCHES, COLOR_BAR_WIDTH = 1.1, 0.2
TITLE_INCHES = 0.7


class NamedMatrix(NamedTuple):
    """Shares with a name at every row and column; NaN where there is none."""

    values: NDArray[np.float64]
    row_names: Sequence[str]
    column_names: Sequence[str]


class Look(NamedTuple):
    """How a heat map looks: the arguments that the displays' ``plot`` methods share."""

    include_values: bool | None
    cmap: Any
    colorbar: bool
    im_kw: dict[str, Any] | None
    text_kw: dict[str, Any] | None


def heat_map_axes(ax: Axes | None, matrix: NamedMatrix) -> Axes:
    """Return axes that have room for the cells of a matrix and the names at its sides."""
    row_names, column_names = matrix.row_names, matrix.column_names
    width, height = _side(len(column_names)), _side(len(row_names))
    upright = name_width(column_names) > width / len(column_names)
    below = name_width(column_names) if upright else 0.2
    return new_axes(
        ax,
        width + name_width(row_names) + 0.4 + COLOR_BAR_INCHES,
        height + below + 0.4 + TITLE_INCHES,
    )


def heat_map(
    ax: Axes, matrix: NamedMatrix, look: Look, *, limits: tuple[float, float], meaning: str
) -> tuple[AxesImage, NDArray[Any] | None]:
    """Draw shares as colours, NaN as grey, and write them into the cells where they are readable.

    Titles and axis labels take room, so they should be there before.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    matrix : NamedMatrix
        The shares.
    look : Look
        What users said about colours and values.
    limits : tuple of float
        The shares at both ends of the colours.
    meaning : str
        What the shares are, for the colour bar.

    Returns
    -------
    image : matplotlib AxesImage
        The colours.
    texts : ndarray of matplotlib Text or None
        The values in the cells, if they are written.
    """
    from matplotlib.image import AxesImage
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    given = {"interpolation": "nearest", "vmin": limits[0], "vmax": limits[1], "aspect": "auto"}
    colours = pyplot().get_cmap(look.cmap).with_extremes(bad=NO_VALUE)
    image = ax.imshow(matrix.values, **style({**given, "cmap": colours}, look.im_kw, AxesImage))
    ax.tick_params(length=2)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if look.colorbar:
        decimals = 0 if limits[1] >= 0.05 else 1
        bar = ax.figure.colorbar(
            image,
            ax=ax,
            format=PercentFormatter(1, decimals=decimals),
            ticks=MaxNLocator(nbins=6, steps=[1, 2, 5, 10]),
            fraction=0.05,
            pad=0.02,
            aspect=inches(ax)[1] / COLOR_BAR_WIDTH,
        )
        bar.set_label(meaning)
        bar.outline.set_visible(False)
    # Twice: the names take room from the cells, and the size of the cells decides which names fit.
    for _ in range(2):
        name_ticks(ax, "x", matrix.column_names)
        name_ticks(ax, "y", matrix.row_names)
        settle(ax)
    return image, _write_values(ax, image, matrix.values, look)


def percent(share: float) -> str:
    """Write a share in whole percent; 0 and 100 are written only if exact."""
    if 0 < share < 0.005:
        return "<1"
    if 0.995 <= share < 1:
        return ">99"
    return f"{100 * share:.0f}"


def _write_values(
    ax: Axes, image: AxesImage, values: NDArray[np.float64], look: Look
) -> NDArray[Any] | None:
    """Write the shares in percent into the cells; by default where they are readable."""
    from matplotlib.text import Text

    n_rows, n_columns = values.shape
    include_values = look.include_values
    if include_values is None:
        width, height = inches(ax)
        enough = (width / n_columns, height / n_rows)
        include_values = enough[0] >= CELL_WITH_VALUE[0] and enough[1] >= CELL_WITH_VALUE[1]
    if not include_values:
        return None
    texts = np.full(values.shape, None, dtype=object)
    for row, column in zip(*np.nonzero(~np.isnan(values)), strict=True):
        value = values[row, column]
        background = image.cmap(image.norm(value))
        given = {
            "ha": "center",
            "va": "center",
            "fontsize": 8,
            "color": "black" if _luminance(background) > EVEN_LUMINANCE else "white",
        }
        texts[row, column] = ax.text(
            column, row, percent(value), **style(given, look.text_kw, Text)
        )
    return texts


def _side(n_cells: int) -> float:
    """Return the inches for so many cells: up to 12 hold readable values, up to 75 names."""
    return float(np.clip(max(min(0.45 * n_cells, 5.4), 0.18 * n_cells), 3.0, 13.5))


def _luminance(colour: Any) -> float:
    """Return how much light a colour sends, from 0 to 1, linear in the light."""
    channels = np.asarray(colour[:3], dtype=np.float64)
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
