"""Top-k accuracy curves of one or several rankers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.plotting._canvas import curve_style, legend_name, legend_outside, new_axes, style
from duelrank.plotting._points import (
    check_classes,
    codes_of,
    model_name,
    places_of,
    true_codes,
    weights_of,
)
from duelrank.predictions import predict_ranks
from duelrank.rankings import check_k, check_ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TopKAccuracyDisplay"]

DEFAULT_MAX_K = 10


class TopKAccuracyDisplay:
    """Curves of how often the true label is among the first k.

    Parameters
    ----------
    accuracy : array-like of shape (n_rankers, max_k) or (max_k,)
        ``accuracy[r, k - 1]`` is the top-k accuracy of ranker r.
    names : sequence of str, default=None
        One name per ranker, for the legend.
    standard_error : array-like of the shape of accuracy, default=None
        Standard errors of the accuracies, drawn as bands.
    n_classes : int, default=None
        Number of labels K, for the chance level k / K.

    Attributes
    ----------
    k : ndarray of shape (max_k,)
        1, 2, …, max_k.
    lines_ : list of matplotlib Line2D
        One curve per ranker.
    chance_line_ : matplotlib Line2D or None
        The chance level, if it is drawn.
    ax_, figure_ : matplotlib Axes and Figure
        Where the curves are.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from duelrank import DuelRanker
    >>> from duelrank.plotting import TopKAccuracyDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> models = {
    ...     "duels": DuelRanker(random_state=0).fit(X[::2], y[::2]),
    ...     "multinomial": LogisticRegression(max_iter=500).fit(X[::2], y[::2]),
    ... }
    >>> display = TopKAccuracyDisplay.from_estimator(models, X[1::2], y[1::2])
    >>> display.accuracy.round(2)
    array([[0.99, 1.  , 1.  ],
           [0.96, 1.  , 1.  ]])
    """

    def __init__(
        self,
        accuracy: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        standard_error: ArrayLike | None = None,
        n_classes: int | None = None,
    ) -> None:
        self.accuracy = _as_curves(accuracy, "accuracy")
        n_rankers, max_k = self.accuracy.shape
        self.names = None if names is None else [str(name) for name in names]
        if self.names is not None and len(self.names) != n_rankers:
            raise ValueError(
                f"names must name the {n_rankers} rankers of accuracy, got {self.names}."
            )
        self.standard_error = (
            None if standard_error is None else _as_curves(standard_error, "standard_error")
        )
        if self.standard_error is not None and self.standard_error.shape != self.accuracy.shape:
            raise ValueError(
                f"standard_error must have the shape of accuracy, {self.accuracy.shape}, "
                f"got {self.standard_error.shape}."
            )
        if n_classes is not None:
            check_k(max_k, n_classes)
        self.n_classes = n_classes
        self.k = np.arange(1, max_k + 1)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        max_k: int | None = None,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> TopKAccuracyDisplay:
        """Draw the curves of one or several fitted models.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search, or dict of them by name
            Ranked as by `duelrank.predict_ranks`.
        X : array-like with n rows
            Points that the models were not fitted with.
        y : array-like of shape (n,)
            Their labels.
        max_k : int, default=None
            The last k; by default K, or 10 if that is less.
        sample_weight : array-like of shape (n,), default=None
            Weights of the points.
        name : str, default=None
            Name of a single model; by default that of its class.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : TopKAccuracyDisplay
            The drawn display.
        """
        models = _by_name(estimator, name, model_name)
        found = {
            each: (predict_ranks(model, X), codes_of(model, X, y)) for each, model in models.items()
        }
        return cls._from_ranks(found, max_k, sample_weight).plot(ax=ax, **plot_kw)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        ranks: Any,
        *,
        classes: ArrayLike | None = None,
        max_k: int | None = None,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> TopKAccuracyDisplay:
        """Draw the curves of predicted ranks.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        ranks : array-like of shape (n, K), or dict of them by name
            ``ranks[i, k]`` is the place of ``classes[k]`` in row i.
        classes : array-like of shape (K,), default=None
            Labels of the columns; by default the sorted labels of `y_true`, if these are K.
        max_k : int, default=None
            The last k; by default K, or 10 if that is less.
        sample_weight : array-like of shape (n,), default=None
            Weights of the points.
        name : str, default=None
            Name of a single ranker.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : TopKAccuracyDisplay
            The drawn display.
        """
        found = {}
        for each, array in _by_name(ranks, name, lambda _: "ranker").items():
            checked = check_ranks(array)
            codes = true_codes(y_true, check_classes(y_true, classes, checked.shape[-1]))
            if checked.shape[:-1] != codes.shape:
                raise ValueError(
                    f"ranks must have one row per label of y_true: {len(codes)}, "
                    f"got shape {checked.shape}."
                )
            found[each] = (checked, codes)
        return cls._from_ranks(found, max_k, sample_weight).plot(ax=ax, **plot_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        errors: bool = True,
        plot_chance_level: bool = False,
        line_kw: dict[str, Any] | None = None,
    ) -> TopKAccuracyDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw, after the curves that are there; by default in a new figure.
        errors : bool, default=True
            Whether to draw a band of one standard error on both sides, where known.
        plot_chance_level : bool, default=False
            Whether to draw the accuracy k / K of ranking at random; needs `n_classes`.
        line_kw : dict, default=None
            Arguments of matplotlib's ``plot``, for all curves.

        Returns
        -------
        self : TopKAccuracyDisplay
            With `ax_`, `figure_` and `lines_`.
        """
        if plot_chance_level and self.n_classes is None:
            raise ValueError("plot_chance_level=True needs n_classes, which is None.")
        ax = new_axes(ax, 6, 4)
        from matplotlib.lines import Line2D
        from matplotlib.ticker import MaxNLocator

        self.lines_ = []
        for row, accuracy in enumerate(self.accuracy):
            given: dict[str, Any] = {**curve_style(ax), "markersize": 5, "linewidth": 1.6}
            if self.names is not None:
                given["label"] = legend_name(self.names[row])
            (line,) = ax.plot(self.k, accuracy, **style(given, line_kw, Line2D))
            self.lines_.append(line)
            if errors and self.standard_error is not None:
                low, high = accuracy - self.standard_error[row], accuracy + self.standard_error[row]
                ax.fill_between(
                    self.k,
                    low,
                    np.minimum(high, 1),
                    color=line.get_color(),
                    alpha=0.13,
                    linewidth=0,
                )
        self.chance_line_ = None
        if plot_chance_level:
            (self.chance_line_,) = ax.plot(
                self.k, self.k / self.n_classes, ":", color="0.35", label="chance"
            )
        ax.set(
            xlabel="k", ylabel="top-k accuracy", title="How often the true label is in the top k"
        )
        ax.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
        # As few decimals as the ticks need: 95%, but 97.5%.
        ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g}%")
        ax.grid(alpha=0.3)
        if self.names is not None or self.chance_line_ is not None:
            legend_outside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def _from_ranks(
        cls,
        found: dict[str, tuple[NDArray[np.int64], NDArray[np.intp]]],
        max_k: int | None,
        sample_weight: Any,
    ) -> TopKAccuracyDisplay:
        n_classes = min(ranks.shape[1] for ranks, _ in found.values())
        if max_k is None:
            max_k = min(n_classes, DEFAULT_MAX_K)
        elif not isinstance(max_k, (int, np.integer)) or not 1 <= max_k <= n_classes:
            raise ValueError(f"max_k must be an integer from 1 to {n_classes}, got {max_k!r}.")
        accuracies, errors = [], []
        for ranks, codes in found.values():
            weights = weights_of(sample_weight, codes)
            counts = np.bincount(
                places_of(codes, ranks) - 1, weights=weights, minlength=ranks.shape[1]
            )
            accuracy = np.minimum(np.cumsum(counts)[:max_k] / weights.sum(), 1)
            accuracies.append(accuracy)
            # Unequal weights are worth fewer points: Kish's effective sample size.
            n_effective = weights.sum() ** 2 / np.square(weights).sum()
            errors.append(np.sqrt(accuracy * (1 - accuracy) / n_effective))
        return cls(accuracies, names=list(found), standard_error=errors, n_classes=n_classes)


def _as_curves(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if array.ndim != 2 or array.size == 0 or not np.all((array >= 0) & (array <= 1)):
        raise ValueError(
            f"{name} must hold numbers from 0 to 1 in shape (n_rankers, max_k) or (max_k,), "
            f"got shape {array.shape}."
        )
    return array


def _by_name(given: Any, name: str | None, default: Any) -> dict[str, Any]:
    """Return a mapping as it is, and a single ranker under its name."""
    if not isinstance(given, Mapping):
        return {default(given) if name is None else str(name): given}
    if name is not None:
        raise ValueError(f"name must be None where a dict names several rankers, got {name!r}.")
    if not given:
        raise ValueError("at least one ranker must be given, got an empty dict.")
    return {str(each): value for each, value in given.items()}
