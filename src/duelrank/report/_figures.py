"""Figures as inline SVG: numbers in, markup out.

Figures are 360 units wide, about the width of a phone, so that their text is readable there.
Colours and fonts are those of the page's style sheet. Every figure has a title for readers who
cannot see it, and a table or sentence next to it has the same numbers.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 14, 42
WIDEST_BAR = 60
LOW_HEIGHT, NAME_LENGTH = 130, 10  # of histograms side by side
HIGH = HEIGHT - TOP - BOTTOM - 24  # of curves that have a name above them
COVERAGES = (0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
LONG, LENGTHS = 10, (0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
CHARACTER = 7  # width of a character, a little generous


def curves(
    title: str,
    series: Sequence[tuple[str, str, Sequence[float]]],
    x_label: str,
) -> str:
    """Draw shares over 1, 2, …, k.

    Parameters
    ----------
    title : str
        What the figure shows.
    series : sequence of (class, name, shares)
        The style-sheet class, the name in the legend and the values of every curve.
    x_label : str
        What is counted along the horizontal axis.
    """
    n = max(len(shares) for _, _, shares in series)
    lowest = min(min(shares) for _, _, shares in series)
    bottom = min(0.9, int(lowest * 10) / 10)
    step = 0.1 if bottom >= 0.5 else 0.2
    if bottom >= 0.85:
        step = 0.02

    def x(k: float) -> float:
        return LEFT + (k - 1) / max(n - 1, 1) * (WIDTH - LEFT - RIGHT)

    def y(share: float) -> float:
        return TOP + (1 - share) / (1 - bottom) * (HEIGHT - TOP - BOTTOM)

    parts = []
    level = 1.0
    while level > bottom - 1e-9:
        parts.append(_grid_line(y(level), f"{level:.0%}"))
        level -= step
    every = max(1, -(-n // 10))
    for k in range(1, n + 1):
        if k == 1 or k % every == 0:
            parts.append(_text(x(k), HEIGHT - BOTTOM + 16, str(k), "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle"))
    for style, name, shares in series:
        at = [(x(k), y(share)) for k, share in enumerate(shares, start=1)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in at)
        parts.append(f'<polyline class="curve {style}" points="{path}"/>')
        if n <= 30:
            for k, ((px, py), share) in enumerate(zip(at, shares, strict=True), start=1):
                hint = html.escape(f"{name}: {share:.1%} among the first {k}")
                parts.append(
                    f'<circle class="dot {style}" cx="{px:.1f}" cy="{py:.1f}" r="3">'
                    f"<title>{hint}</title></circle>"
                )
    return _figure(title, parts)


def lengths(
    title: str, points: Sequence[tuple[float, float]], marked: Sequence[tuple[float, float]]
) -> str:
    """Draw mean lengths of lists over coverages, on the scale of log-odds.

    Parameters
    ----------
    title : str
        What the figure shows.
    points : sequence of (coverage, length)
        The curve, by increasing coverage. Coverages are between 0 and 1.
    marked : sequence of (coverage, length)
        Lists to mark.
    """
    ends = log_odds(points[0][0]), log_odds(points[-1][0])
    every = [length for _, length in [*points, *marked]]
    is_long = max(every) > LONG
    # Lists may be empty, which has no place on a logarithmic scale.
    shortest = max(min(every), 0.1) if is_long else float(math.floor(min(every)))

    def x(coverage: float) -> float:
        share = (log_odds(coverage) - ends[0]) / ((ends[1] - ends[0]) or 1.0)
        return LEFT + 8 + share * (WIDTH - LEFT - RIGHT - 16)

    def height(length: float) -> float:
        return math.log(max(length, shortest)) if is_long else length

    ticks = LENGTHS if is_long else _even_ticks(shortest, max(every))
    levels = [level for level in ticks if shortest <= level <= max(every) + 1e-9]
    bottom, top = height(shortest), max(height(max(every)), height(shortest) + 1e-9)

    def y(length: float) -> float:
        return HEIGHT - BOTTOM - 6 - (height(length) - bottom) / (top - bottom) * HIGH

    parts = [_text(6, TOP, "mean length of a list", "start")]
    parts += [_grid_line(y(level), f"{level:g}") for level in levels]
    free = 0.0  # where there is room for the next name
    for coverage in COVERAGES:
        name = f"{100 * coverage:.4g}%"
        half = CHARACTER * len(name) / 2
        if points[0][0] <= coverage <= points[-1][0] and x(coverage) - half >= free:
            parts.append(_text(x(coverage), HEIGHT - BOTTOM + 16, name, "middle"))
            free = x(coverage) + half + 3
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "coverage asked for", "middle"))
    path = " ".join(f"{x(coverage):.1f},{y(length):.1f}" for coverage, length in points)
    parts.append(f'<polyline class="curve ours" points="{path}"/>')
    for coverage, length in marked:
        hint = html.escape(f"{100 * coverage:.6g}%: {length:.2f} labels")
        parts.append(
            f'<circle class="dot ours" cx="{x(coverage):.1f}" cy="{y(length):.1f}" r="5">'
            f"<title>{hint}</title></circle>"
        )
    return _figure(title, parts)


def log_odds(share: float) -> float:
    """Return the logarithm of the odds of a share between 0 and 1."""
    return math.log(share / (1 - share))


def bars(
    title: str,
    heights: Sequence[tuple[str, float]],
    x_label: str,
    *,
    values: Sequence[str] | None = None,
    end: str | None = None,
) -> str:
    """Draw named bars.

    Parameters
    ----------
    title : str
        What the figure shows.
    heights : sequence of (name, share)
        The bars, from left to right.
    x_label : str
        What the names are.
    values : sequence of str, optional
        What is written above the bars; by default the share in percent.
    end : str, optional
        Makes a histogram: bars touch, their names are those of their left edges, and `end` is
        written at the right end.
    """
    highest = max((share for _, share in heights), default=0) or 1.0
    slot = min(WIDEST_BAR, (WIDTH - 2 * RIGHT) / max(len(heights), 1))
    floor = HEIGHT - BOTTOM
    every = max(1, -(-len(heights) // 12))
    gap = 0.12 if end is None else 0.02
    parts = []
    for number, (name, share) in enumerate(heights):
        left = RIGHT + number * slot
        height = share / highest * (floor - TOP - 16)
        value = values[number] if values is not None else f"{share:.0%}"
        parts.append(
            f'<rect class="bar" x="{left + slot * gap:.1f}" y="{floor - height:.1f}" '
            f'width="{slot * (1 - 2 * gap):.1f}" height="{max(height, 0.5):.1f}">'
            f"<title>{html.escape(f'{name}: {value}')}</title></rect>"
        )
        if slot >= 27:
            parts.append(_text(left + slot / 2, floor - height - 5, value, "middle"))
        if number % every == 0:
            middle = left + slot / 2 if end is None else left
            parts.append(_text(middle, floor + 16, name, "middle"))
    parts.append(
        f'<line class="axis" x1="{RIGHT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}"/>'
    )
    if end is not None:
        parts.append(_text(WIDTH - RIGHT, floor + 16, end, "middle"))
    parts.append(_text(WIDTH / 2, HEIGHT - 6, x_label, "middle"))
    return _figure(title, parts)


def two_bars(title: str, heights: Sequence[tuple[str, float, float]]) -> str:
    """Draw two histograms in one: bars of training rows, and beside them those of other rows.

    Parameters
    ----------
    title : str
        What the figure shows.
    heights : sequence of (name, share, share)
        The pairs of bars, from left to right.
    """
    highest = max((max(a, b) for _, a, b in heights), default=0) or 1.0
    slot = (WIDTH - 2 * RIGHT) / max(len(heights), 1)
    bottom, tall = LOW_HEIGHT - 24, LOW_HEIGHT - 24 - TOP - 4
    # Of numbers only some have room for a name; short ones have all.
    longest = max(1, min(max((len(name) for name, _, _ in heights), default=1), NAME_LENGTH))
    every = max(1, math.ceil((longest + 1) * CHARACTER / slot))
    parts = [_text(RIGHT, TOP - 2, f"{highest:.0%}", "start")]
    for number, (name, before, now) in enumerate(heights):
        left = RIGHT + number * slot
        for style, share, shift in (("bar before", before, 0.08), ("bar", now, 0.5)):
            height = share / highest * tall
            hint = html.escape(f"{name}: {share:.1%}")
            parts.append(
                f'<rect class="{style}" x="{left + slot * shift:.1f}" y="{bottom - height:.1f}" '
                f'width="{slot * 0.42:.1f}" height="{max(height, 0.5):.1f}">'
                f"<title>{hint}</title></rect>"
            )
        if number % every == 0:
            shown = name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
            anchor = "start" if every > 1 else "middle"
            at = left + slot * 0.08 if every > 1 else left + slot / 2
            if at + longest * CHARACTER <= WIDTH or every == 1:
                parts.append(_text(at, bottom + 16, shown, anchor))
    parts.append(
        f'<line class="axis" x1="{RIGHT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    )
    return _figure(title, parts, LOW_HEIGHT)


def scatter(title: str, points: Sequence[tuple[float, float]], x_label: str, y_label: str) -> str:
    """Draw shares against shares on equal axes, with the diagonal.

    Parameters
    ----------
    title : str
        What the figure shows.
    points : sequence of (x, y)
        Shares between 0 and 1.
    x_label, y_label : str
        What is drawn along the axes.
    """
    highest = max((max(point) for point in points), default=0.0)
    step = next((s for s in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if 5 * s >= highest), 0.2)
    end = 5 * step
    decimals = 1 if step == 0.005 else 0

    def x(share: float) -> float:
        return LEFT + share / end * (WIDTH - LEFT - RIGHT)

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - share / end * (HEIGHT - TOP - BOTTOM - 14)

    parts = [_text(6, TOP, y_label, "start")]
    for number in range(6):
        level = step * number
        parts.append(_grid_line(y(level), f"{level:.{decimals}%}"))
        # In the corner the names of both axes meet, and the last name must not stick out.
        anchor = "start" if number == 0 else "end" if number == 5 else "middle"
        parts.append(_text(x(level), HEIGHT - BOTTOM + 18, f"{level:.{decimals}%}", anchor))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle"))
    parts.append(
        f'<line class="diagonal" x1="{x(0):.1f}" y1="{y(0):.1f}" '
        f'x2="{x(end):.1f}" y2="{y(end):.1f}"/>'
    )
    parts += [f'<circle class="scatter" cx="{x(a):.1f}" cy="{y(b):.1f}" r="3"/>' for a, b in points]
    return _figure(title, parts)


def meter(share: float, style: str = "", *, mark: float | None = None) -> str:
    """Draw a share as a small bar for a table; its number stands beside it.

    A full bar is 100%, as everywhere on the page; a mark may show another share to compare with.
    """
    width = 100 * min(max(share, 0.0), 1.0)
    parts = [
        '<rect class="rest" width="100" height="8"/>',
        f'<rect class="part {style}" width="{width:.1f}" height="8"/>',
    ]
    if mark is not None:
        at = 100 * mark
        parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="8"/>')
    return (
        '<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _figure(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    title = html.escape(title)
    return (
        f'<svg class="figure" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">'
        f"{''.join(parts)}</svg>"
    )


def _even_ticks(low: float, high: float) -> list[float]:
    """Return about five numbers in even steps, from the lower one on."""
    step = next((s for s in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if 5 * s >= high - low), 2)
    return [low + step * number for number in range(math.floor((high - low) / step + 1e-9) + 1)]


def _grid_line(y: float, name: str) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        + _text(LEFT - 6, y + 4, name, "end")
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'
