"""ContributionsDisplay: what spoke for a label, and what for its rival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from duelrank.explanations import DuelExplanation, explain_duel
from duelrank.plotting._canvas import (
    BLUE,
    VERMILION,
    name_ticks,
    name_width,
    new_axes,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LONGEST_NAME = 40


class ContributionsDisplay:
    """Contributions of words and columns to the margin of a duel, as bars.

    Parameters
    ----------
    names : sequence of str
        What contributes.
    contributions : array-like of shape (m,)
        Positive ones speak for `label`, negative ones for `rival`.
    label, rival : str
        The two labels of the duel.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Where it was drawn.
    bars_ : BarContainer
        The bars.

    Examples
    --------
    >>> from duelrank.plotting import ContributionsDisplay
    >>> display = ContributionsDisplay(["card", "rate"], [1.5, -0.5], "cards", "rates")
    >>> display.margin
    1.0
    """

    def __init__(
        self, names: Sequence[str], contributions: ArrayLike, label: Any, rival: Any
    ) -> None:
        self.names = [str(name) for name in names]
        self.contributions = np.asarray(contributions, dtype=np.float64)
        self.label, self.rival = str(label), str(rival)
        if self.contributions.shape != (len(self.names),):
            raise ValueError(
                f"contributions must be {len(self.names)} numbers, one for every name; got shape "
                f"{self.contributions.shape}."
            )

    @property
    def margin(self) -> float:
        """The sum of all contributions."""
        return float(self.contributions.sum())

    @classmethod
    def from_explanation(
        cls, explanation: DuelExplanation, *, top: int = 10, ax: Axes | None = None, **style: Any
    ) -> ContributionsDisplay:
        """Draw an explanation.

        Parameters
        ----------
        explanation : DuelExplanation
            From `duelrank.explanations.explain_duel`.
        top : int, default=10
            How many contributions to draw, the largest; the sum of all others is one more.
        ax : Axes, default=None
            Where to draw; a new figure by default.
        **style
            Keyword arguments of the bars.

        Returns
        -------
        display : ContributionsDisplay
            Drawn.
        """
        several = len({item.column for item in explanation.items}) > 1
        shown, rest = explanation.items[:top], explanation.items[top:]
        names = [_name(item, several) for item in shown]
        values = [item.contribution for item in shown]
        if rest:
            names.append(f"{len(rest)} more")
            values.append(sum(item.contribution for item in rest))
        names.append("before anything is known")
        values.append(explanation.baseline)
        return cls(names, values, explanation.label, explanation.rival).plot(ax, **style)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        label: Any = None,
        rival: Any = None,
        *,
        top: int = 10,
        ax: Axes | None = None,
        **style: Any,
    ) -> ContributionsDisplay:
        """Explain the duel of two labels at one point, and draw it.

        Parameters
        ----------
        estimator : fitted DuelRanker, or a pipeline or search that ends in one
            With linear duels.
        X : dataframe, array, sparse matrix or list with one row
            The point.
        label, rival : labels, default=None
            By default the first two of the ranking.
        top : int, default=10
            How many contributions to draw.
        ax : Axes, default=None
            Where to draw; a new figure by default.
        **style
            Keyword arguments of the bars.

        Returns
        -------
        display : ContributionsDisplay
            Drawn.
        """
        explanation = explain_duel(estimator, X, label, rival)
        return cls.from_explanation(explanation, top=top, ax=ax, **style)

    def plot(self, ax: Axes | None = None, **bar_kw: Any) -> ContributionsDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; a new figure by default.
        **bar_kw
            Keyword arguments of the bars.

        Returns
        -------
        display : ContributionsDisplay
            Itself.
        """
        from matplotlib.patches import Rectangle

        names = [_short(name) for name in self.names]
        label, rival = _short(self.label), _short(self.rival)
        ax = new_axes(ax, name_width(names) + 4.5, 0.3 * len(names) + 1.4)
        colors = np.where(self.contributions >= 0, BLUE, VERMILION)
        places = np.arange(len(names))
        options = style({"color": colors.tolist(), "height": 0.7}, bar_kw, Rectangle)
        self.bars_ = ax.barh(places, self.contributions, **options)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.axvline(0, color="black", linewidth=0.8)
        name_ticks(ax, "y", names)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(f"← speaks for {rival}      speaks for {label} →")
        ax.set_title(f"Margin {self.margin:+.2f}: the sum of all bars")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _short(name: str) -> str:
    """Cut a long name, and let matplotlib take it literally."""
    cut = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return cut.replace("$", r"\$")


def _name(item: Any, several: bool) -> str:
    """Name a word, or a column with its value."""
    if item.is_word:
        return f"“{item.text}”" + (f" ({item.column})" if several else "")
    return f"{item.column} = {item.text}" if item.text else str(item.column)
