"""Rank distributions: the places at which every label ends up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank._parameters import check_choice
from duelrank.plotting._canvas import check_top, display_names, legend_below, row_height
from duelrank.plotting._heat_map import Look, NamedMatrix, heat_map, heat_map_axes
from duelrank.plotting._points import (
    check_classes,
    codes_of,
    model_name,
    places_of,
    true_codes,
    weights_of,
)
from duelrank.predictions import predict_ranks
from duelrank.rankings import check_ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RankDistributionDisplay"]

POINTS = ("own", "all")
DEFAULT_MAX_RANK = 10


class RankDistributionDisplay:
    """Where labels end up in the rankings.

    Parameters
    ----------
    share : array-like of shape (K, K)
        ``share[k, r]``: share of the points of label k for which it is at place r + 1. The rows
        sum to 1, or are NaN for labels without points.
    classes : array-like of shape (K,), default=None
        The labels; by default 0, …, K−1.
    points : {"own", "all"}, default="own"
        Which points count for a label: its own, which have it as true label, or all.
    name : str, default=None
        Name of the ranker, for the title.

    Attributes
    ----------
    mean_rank : ndarray of shape (K,)
        Mean place of every label.
    image_ : matplotlib AxesImage
        The shares.
    means_ : matplotlib Line2D or None
        The markers at the mean places.
    text_ : ndarray of matplotlib Text or None
        The values in the cells, where they are written.
    ax_, figure_ : matplotlib Axes and Figure
        Where the distributions are.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> from duelrank.plotting import RankDistributionDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(random_state=0).fit(X[::2], y[::2])
    >>> display = RankDistributionDisplay.from_estimator(ranker, X[1::2], y[1::2])
    >>> display.share
    array([[1.  , 0.  , 0.  ],
           [0.96, 0.04, 0.  ],
           [1.  , 0.  , 0.  ]])
    """

    def __init__(
        self,
        share: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        points: str = "own",
        name: str | None = None,
    ) -> None:
        check_choice("points", points, POINTS)
        self.share = np.asarray(share, dtype=np.float64)
        if self.share.ndim != 2 or self.share.shape[0] != self.share.shape[1]:
            raise ValueError(f"share must have shape (K, K), got {self.share.shape}.")
        empty = np.isnan(self.share).all(axis=1)
        filled = self.share[~empty]
        if not (np.all(filled >= 0) and np.allclose(filled.sum(axis=1), 1)):
            raise ValueError("share must hold rows of non-negative numbers that sum to 1, or NaN.")
        self.classes = np.arange(len(self.share)) if classes is None else np.asarray(classes)
        if self.classes.shape != self.share.shape[:1]:
            raise ValueError(
                f"classes must have one entry per row of share: {len(self.share)}, "
                f"got shape {self.classes.shape}."
            )
        self.points = points
        self.name = name

    @property
    def mean_rank(self) -> NDArray[np.float64]:
        """Mean place of every label, (K,)."""
        mean: NDArray[np.float64] = self.share @ np.arange(1, len(self.share) + 1)
        return mean

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        points: str = "own",
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> RankDistributionDisplay:
        """Draw the places by a fitted model.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            Ranked as by `duelrank.predict_ranks`.
        X : array-like with n rows
            Points that the model was not fitted with.
        y : array-like of shape (n,), default=None
            Their labels, needed for ``points="own"``.
        points : {"own", "all"}, default="own"
            Which points count for a label: its own, which have it as true label, or all.
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
        display : RankDistributionDisplay
            The drawn display.
        """
        check_choice("points", points, POINTS)
        ranks = predict_ranks(estimator, X)
        codes = None if points == "all" else codes_of(estimator, X, _check_given(y, "y"))
        share = _shares(ranks, codes, sample_weight)
        name = model_name(estimator) if name is None else name
        display = cls(share, classes=estimator.classes_, points=points, name=name)
        return display.plot(ax=ax, **plot_kw)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        ranks: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        points: str = "own",
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> RankDistributionDisplay:
        """Draw the places of predicted ranks.

        Parameters
        ----------
        y_true : array-like of shape (n,) or None
            True labels. They may be None for ``points="all"`` if `classes` are given.
        ranks : array-like of shape (n, K)
            ``ranks[i, k]`` is the place of ``classes[k]`` in row i.
        classes : array-like of shape (K,), default=None
            Labels of the columns; by default the sorted labels of `y_true`, if these are K.
        points : {"own", "all"}, default="own"
            Which points count for a label: its own, which have it as true label, or all.
        sample_weight : array-like of shape (n,), default=None
            Weights of the points.
        name : str, default=None
            Name of the ranker.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : RankDistributionDisplay
            The drawn display.
        """
        check_choice("points", points, POINTS)
        places = np.atleast_2d(check_ranks(ranks))
        if points == "own" or classes is None:
            _check_given(y_true, "y_true")
        labels = check_classes(y_true, classes, places.shape[1])
        codes = None if points == "all" else true_codes(y_true, labels)
        if codes is not None and len(codes) != len(places):
            raise ValueError(
                f"ranks must have one row per label of y_true: {len(codes)}, got {len(places)}."
            )
        share = _shares(places, codes, sample_weight)
        return cls(share, classes=labels, points=points, name=name).plot(ax=ax, **plot_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        top: int | str | None = None,
        max_rank: int | None = None,
        sort_labels: bool = False,
        show_mean: bool = True,
        include_values: bool | None = None,
        cmap: Any = "viridis",
        colorbar: bool = True,
        im_kw: dict[str, Any] | None = None,
        text_kw: dict[str, Any] | None = None,
    ) -> RankDistributionDisplay:
        """Draw one row of places per label.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure that grows with the number of labels.
        top : int or "all", default=None
            How many labels to draw: those with the worst mean places in their own points, or with
            the best ones in all points. By default all of up to 15, and ten of more.
        max_rank : int, default=None
            The last place with a column of its own; all places behind it share one. By default
            all of up to 15 places for ``points="all"``, and ten otherwise.
        sort_labels : bool, default=False
            Whether to sort the labels by their mean place.
        show_mean : bool, default=True
            Whether to mark the mean place of every label.
        include_values : bool, default=None
            Whether to write the shares, in percent; by default where they are readable.
        cmap : str or matplotlib Colormap, default="viridis"
            Colours.
        colorbar : bool, default=True
            Whether to draw the scale of the colours.
        im_kw, text_kw : dict, default=None
            Arguments of matplotlib's ``imshow``, and of ``text`` for the values.

        Returns
        -------
        self : RankDistributionDisplay
            With `ax_`, `figure_`, `image_`, `means_` and `text_`.
        """
        n_classes = len(self.share)
        n_drawn = check_top(top, n_classes, lowest=1)
        if max_rank is None:
            all_points = self.points == "all"
            max_rank = (
                check_top(None, n_classes) if all_points else min(n_classes, DEFAULT_MAX_RANK)
            )
        elif not isinstance(max_rank, (int, np.integer)) or not 1 <= max_rank <= n_classes:
            raise ValueError(
                f"max_rank must be an integer from 1 to {n_classes}, got {max_rank!r}."
            )
        mean = self.mean_rank
        order = self._first_labels(n_drawn)
        if sort_labels:
            order = order[np.argsort(mean[order], kind="stable")]
        values, places = _first_places(self.share[order], max_rank)
        matrix = NamedMatrix(values, display_names(self.classes[order]), places)
        ax = heat_map_axes(ax, matrix)
        of = "true label" if self.points == "own" else "label"
        title = f"Places of every {of}"
        if self.name is not None:
            title = f"{title}, {self.name}"
        if n_drawn < n_classes:
            which = "worst" if self.points == "own" else "best"
            title += f"\n(the {n_drawn} labels with the {which} mean places, of {n_classes})"
        ax.set(xlabel="place", ylabel=of, title=title)
        self.image_, self.text_ = heat_map(
            ax,
            matrix,
            Look(include_values, cmap, colorbar, im_kw, text_kw),
            limits=(0.0, float(np.nanmax(values, initial=0.0)) or 1.0),
            meaning="share of the points",
        )
        self.means_ = None
        if show_mean:
            columns = np.minimum(mean[order] - 1, values.shape[1] - 1)
            # Below the values, if they are written.
            self.means_ = _mark_means(
                ax, columns, np.arange(n_drawn) + (0.32 if self.text_ is not None else 0.0)
            )
            legend_below(ax, [self.means_], ["mean place"])
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _first_labels(self, n_drawn: int) -> NDArray[np.intp]:
        """Return the codes of the labels to draw, in the order of the classes."""
        mean = self.mean_rank
        # Labels without points have no mean place, and come last.
        chosen_first = np.argsort(mean if self.points == "all" else -mean, kind="stable")
        return np.sort(chosen_first[:n_drawn])


def _check_given(labels: Any, name: str) -> Any:
    if labels is None:
        raise ValueError(f"{name} must be given, got None.")
    return labels


def _shares(
    ranks: NDArray[np.int64], codes: NDArray[np.intp] | None, sample_weight: Any
) -> NDArray[np.float64]:
    """Count the places of every label in its own points, or in all if there are no codes."""
    n_points, n_classes = ranks.shape
    weights = weights_of(sample_weight, np.arange(n_points))
    labels = np.broadcast_to(np.arange(n_classes), ranks.shape) if codes is None else codes
    places = ranks if codes is None else places_of(codes, ranks)
    repeated = np.repeat(weights, n_classes) if codes is None else weights
    cells = (labels * n_classes + places - 1).ravel()
    counted = np.bincount(cells, weights=repeated, minlength=n_classes**2)
    counts = counted.reshape(n_classes, n_classes)
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=1, keepdims=True)


def _first_places(
    share: NDArray[np.float64], max_rank: int
) -> tuple[NDArray[np.float64], list[str]]:
    """Return a column for each of the first places and one for the rest, and their names."""
    names = [str(place) for place in range(1, max_rank + 1)]
    if max_rank == share.shape[1]:
        return share, names
    behind = share[:, max_rank:].sum(axis=1, keepdims=True)
    return np.hstack([share[:, :max_rank], behind]), [*names, f"{max_rank + 1}+"]


def _mark_means(ax: Axes, columns: NDArray[np.float64], rows: NDArray[np.floating]) -> Any:
    """Mark mean places by white diamonds with a dark edge, which show on every colour."""
    (line,) = ax.plot(
        columns,
        rows,
        linestyle="none",
        marker="D",
        markersize=float(np.clip(20 * row_height(ax), 1.5, 4)),
        markerfacecolor="white",
        markeredgecolor="black",
        markeredgewidth=0.8,
        label="mean place",
    )
    return line
