"""The tournament of one point: its ranking, the duels that contradict it, and its cycles.

An *upset* is a duel that the label placed behind wins. Without upsets the duels agree with the
ranking. A cycle holds at least one upset, whatever the ranking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from duelrank._pairs import beats_from_square
from duelrank._parameters import check_choice
from duelrank._sklearn import as_indexable, take_rows, unwrap
from duelrank.plotting._canvas import check_top, display_names
from duelrank.plotting._heat_map import Look, NamedMatrix, heat_map, heat_map_axes
from duelrank.plotting._ladder import (
    CYCLE,
    UPSET,
    add_frame_legend,
    add_legend,
    draw_rungs,
    draw_upsets,
    frame,
    ladder_axes,
    name_rungs,
)
from duelrank.rankings import order_from_scores
from duelrank.tournaments import Tournaments, aggregate, check_beats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TournamentDisplay"]

KINDS = ("ladder", "matrix")
UPSETS_WITH_VALUES = 7
LONGEST_TITLE = 48


class TournamentDisplay:
    """The duels of one point, and why its ranking is as it is.

    Parameters
    ----------
    tournament : duelrank.tournaments.Tournaments
        The tournament of one point, such as ``DuelRanker.tournament(X)[i]``.
    name : str, default=None
        Name of the point, for the title.

    Attributes
    ----------
    order : ndarray of int, of shape (K,)
        Codes of the labels, best first.
    upsets : ndarray of int, of shape (n_upsets, 2)
        Places, from 1, of winner and loser of every duel won by the label placed behind.
    cycles : list of arrays of labels
        The labels of every cycle, as they are ranked.
    bars_, expected_, arrows_ : matplotlib BarContainer, Line2D and list of patches
        Duels won, wins expected and upsets of a ladder.
    image_, text_ : matplotlib AxesImage, and ndarray of Text or None
        Probabilities of a matrix.
    ax_, figure_ : matplotlib Axes and Figure
        Where the tournament is.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.plotting import TournamentDisplay
    >>> chances = np.array([[0.5, 0.9, 0.3], [0.1, 0.5, 0.6], [0.7, 0.4, 0.5]])
    >>> display = TournamentDisplay.from_predictions(chances, classes=["a", "b", "c"])
    >>> display.order, display.upsets
    (array([0, 2, 1]), array([[2, 1],
           [3, 2]]))
    """

    def __init__(self, tournament: Tournaments, *, name: str | None = None) -> None:
        if not isinstance(tournament, Tournaments):
            raise TypeError(
                f"tournament must be a Tournaments object, got {type(tournament).__name__}."
            )
        if len(tournament) != 1:
            raise ValueError(
                f"tournament must be of one point, got {len(tournament)}: index one of them."
            )
        self.tournament = tournament
        self.name = name
        self.order: NDArray[np.intp] = order_from_scores(tournament.scores)[0]
        beats = tournament.beats[0][np.ix_(self.order, self.order)]
        winners, losers = np.nonzero(np.tril(beats))
        self.upsets = np.stack([winners, losers], axis=1) + 1
        self.cycles = tournament.cycles[0]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        row: int = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> TournamentDisplay:
        """Draw the tournament of a point by a fitted model.

        Parameters
        ----------
        estimator : fitted DuelRanker, or pipeline or search around one
            What ranks the point.
        X : array-like with n rows
            Query points.
        row : int, default=0
            Which of them to draw.
        name : str, default=None
            Name of the point.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : TournamentDisplay
            The drawn display.
        """
        if hasattr(estimator, "fit"):
            check_is_fitted(estimator)
        X = as_indexable(X)
        n_points = X.shape[0]
        if not isinstance(row, (int, np.integer)) or not -n_points <= row < n_points:
            raise ValueError(f"row must be the number of one of {n_points} rows, got {row!r}.")
        row = int(row) % n_points
        ranker, point = unwrap(estimator, take_rows(X, slice(row, row + 1)))
        if not hasattr(ranker, "tournament"):
            raise TypeError(
                "estimator must be a fitted DuelRanker, or a pipeline or search around one; "
                f"{type(ranker).__name__} fights no duels."
            )
        return cls(ranker.tournament(point), name=name).plot(ax=ax, **plot_kw)

    @classmethod
    def from_predictions(
        cls,
        probabilities: ArrayLike,
        *,
        beats: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> TournamentDisplay:
        """Draw the tournament of duel probabilities, ranked by duels won and then expected.

        Parameters
        ----------
        probabilities : array-like of shape (K, K)
            ``probabilities[a, b]``: probability that label a beats b, with
            ``probabilities[b, a]`` its complement. The diagonal is ignored.
        beats : array-like of bool, of shape (K, K), default=None
            Who beats whom; by default the label that more probably does, and the first label if
            both are equally probable.
        classes : array-like of shape (K,), default=None
            The labels; by default 0, …, K−1.
        name : str, default=None
            Name of the point.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : TournamentDisplay
            The drawn display.
        """
        tournament = _tournament(probabilities, beats, classes)
        return cls(tournament, name=name).plot(ax=ax, **plot_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: str = "ladder",
        top: int | str | None = None,
        include_values: bool | None = None,
        cmap: Any = "PuOr",
        colorbar: bool = True,
        im_kw: dict[str, Any] | None = None,
        text_kw: dict[str, Any] | None = None,
    ) -> TournamentDisplay:
        """Draw the tournament.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure that grows with the number of labels.
        kind : {"ladder", "matrix"}, default="ladder"
            How to draw it. Both kinds show the labels in the order of the ranking:

            - "ladder": how many duels every label wins and could expect to win, with a band
              behind every cycle and an arrow for every upset, from winner to loser;
            - "matrix": the probability that the label of the row beats that of the column, with
              frames around upsets and cycles.
        top : int or "all", default=None
            How many places to draw; by default all of up to 15, and the first ten of more.
        include_values : bool, default=None
            Whether to write the probabilities, in percent; by default where they are readable.
        cmap : str or matplotlib Colormap, default="PuOr"
            Colours of the matrix. Its middle is one half: duels that are even are pale, and the
            two ends of the colours tell who is favoured.
        colorbar : bool, default=True
            Whether to draw the scale of the matrix.
        im_kw, text_kw : dict, default=None
            Arguments of matplotlib's ``imshow`` for the matrix, and of ``text`` for the values.

        Returns
        -------
        self : TournamentDisplay
            With `ax_` and `figure_`.
        """
        check_choice("kind", kind, KINDS)
        n_drawn = check_top(top, len(self.order))
        names = display_names(self.tournament.classes[self.order[:n_drawn]])
        if kind == "ladder":
            ax = self._draw_ladder(ax, names, include_values, text_kw)
        else:
            ax = self._draw_matrix(ax, names, Look(include_values, cmap, colorbar, im_kw, text_kw))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_ladder(
        self,
        ax: Axes | None,
        names: list[str],
        include_values: bool | None,
        text_kw: dict[str, Any] | None,
    ) -> Axes:
        top = len(names)
        ax = ladder_axes(ax, names)
        ax.set_title(self._title(top))
        upsets = self.upsets[(self.upsets <= top).all(axis=1)] - 1
        spans = [(low, min(high, top - 1)) for low, high in self._cycle_places() if low < top]
        wins = (len(self.order) - 1 - self.tournament.losses[0])[self.order[:top]]
        chances = self._chances()
        expected = np.nansum(chances, axis=1)[:top]
        self.bars_, self.expected_ = draw_rungs(ax, wins, expected, len(self.order), spans)
        if include_values is None:
            include_values = len(upsets) <= UPSETS_WITH_VALUES
        values = [chances[winner, loser] for winner, loser in upsets] if include_values else None
        self.arrows_ = draw_upsets(ax, upsets, values, text_kw)
        add_legend(ax, self.bars_, self.expected_, has_upsets=len(upsets) > 0)
        name_rungs(ax, names, self.expected_)
        return ax

    def _draw_matrix(self, ax: Axes | None, names: list[str], look: Look) -> Axes:
        top = len(names)
        row_names = [f"{place})  {name}" for place, name in enumerate(names, start=1)]
        matrix = NamedMatrix(self._chances()[:top, :top], row_names, names)
        ax = heat_map_axes(ax, matrix)
        ax.set(xlabel="opponent", ylabel="place and label", title=self._title(top))
        self.image_, self.text_ = heat_map(
            ax, matrix, look, limits=(0.0, 1.0), meaning="probability that the row wins"
        )
        for low, high in self._cycle_places():
            if low < top:
                frame(ax, low, low, high - low + 1, CYCLE)
        for winner, loser in (self.upsets - 1).tolist():
            if winner < top:
                frame(ax, loser, winner, 1, UPSET)
        ax.set(xlim=(-0.5, top - 0.5), ylim=(top - 0.5, -0.5))
        add_frame_legend(ax, bool(self.cycles), len(self.upsets) > 0)
        return ax

    def _chances(self) -> NDArray[np.float64]:
        """Return the probabilities that labels beat each other, by place, NaN on the diagonal."""
        chances = self.tournament.probabilities[0][np.ix_(self.order, self.order)]
        np.fill_diagonal(chances, np.nan)
        return chances

    def _cycle_places(self) -> list[tuple[int, int]]:
        """Return the first and the last place, from 0, that the labels of every cycle take.

        Rankings by duels won keep a cycle together; others may put labels in between.
        """
        place = np.argsort(self.order)
        code = {label: number for number, label in enumerate(self.tournament.classes.tolist())}
        taken = [[place[code[label]] for label in cycle.tolist()] for cycle in self.cycles]
        return [(int(min(places)), int(max(places))) for places in taken]

    def _title(self, top: int) -> str:
        if not self.cycles:
            said = "no cycle"
        elif len(self.cycles) > 1:
            said = f"{len(self.cycles)} cycles"
        else:
            labels = display_names(self.cycles[0])
            said = f"a cycle through {', '.join(labels)}"
            if len(said) > LONGEST_TITLE:
                said = f"a cycle through {len(labels)} labels"
        name = "Tournament" if self.name is None else self.name
        n_classes = len(self.order)
        part = "" if top == n_classes else f"\n(first {top} of {n_classes} places)"
        return f"{name}: {said}{part}"


def _tournament(
    probabilities: ArrayLike, beats: ArrayLike | None, classes: ArrayLike | None
) -> Tournaments:
    """Check one tournament and rank it by duels won and then expected."""
    chances = np.array(probabilities, dtype=np.float64)
    if chances.ndim != 2 or chances.shape[0] != chances.shape[1] or len(chances) < 2:
        raise ValueError(f"probabilities must have shape (K, K), K ≥ 2, got {chances.shape}.")
    np.fill_diagonal(chances, 0.5)
    if not (np.all((chances >= 0) & (chances <= 1)) and np.allclose(chances + chances.T, 1)):
        raise ValueError(
            "probabilities must lie between 0 and 1 and be complementary: "
            "probabilities[a, b] + probabilities[b, a] = 1."
        )
    n_classes = len(chances)
    labels = np.arange(n_classes) if classes is None else np.asarray(classes)
    if labels.shape != (n_classes,):
        raise ValueError(
            f"classes must have one entry per label: {n_classes}, got shape {labels.shape}."
        )
    evidence = ((chances - chances.T) / 2)[np.newaxis]
    if beats is None:
        duels = beats_from_square(evidence)
    else:
        duels = check_beats(beats)
        if duels.shape != chances.shape:
            raise ValueError(
                f"beats must have the shape of probabilities, {chances.shape}, got {duels.shape}."
            )
        duels = duels[np.newaxis]
    outcome = aggregate(duels, evidence, "copeland", "probability")
    return Tournaments(labels, duels, chances[np.newaxis], outcome.scores, outcome.exact)
