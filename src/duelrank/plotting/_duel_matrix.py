"""The duel matrix: which labels lose their duels, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from duelrank._pairs import pairs
from duelrank._sklearn import unwrap
from duelrank.plotting._canvas import check_top, display_names
from duelrank.plotting._heat_map import Look, NamedMatrix, heat_map, heat_map_axes
from duelrank.plotting._points import (
    check_classes,
    codes_of,
    model_name,
    true_codes,
    weights_of,
)
from duelrank.predictions import predict_ranks
from duelrank.rankings import check_ranks
from duelrank.tournaments import check_beats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DuelMatrixDisplay"]


class DuelMatrixDisplay:
    """Which labels are confused: the error of every duel, by true label.

    Parameters
    ----------
    error : array-like of shape (K, K)
        ``error[a, b]``: share of the points with label a whose duel between a and b is won by b.
        NaN where there are none; the diagonal is ignored.
    classes : array-like of shape (K,), default=None
        The labels; by default 0, …, K−1.
    name : str, default=None
        Name of the ranker, for the title.
    counts : array-like of shape (K,), default=None
        Number, or total weight, of the points of every label.
    by_pair : bool, default=False
        Whether `error` has one number per pair, as `pair_error` has.

    Attributes
    ----------
    pair_error : ndarray of shape (K, K)
        Symmetric: share of the points of both labels whose duel is won by the wrong one.
    image_ : matplotlib AxesImage
        The matrix.
    text_ : ndarray of matplotlib Text or None
        The values in the cells, where they are written.
    ax_, figure_ : matplotlib Axes and Figure
        Where the matrix is.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> from duelrank.plotting import DuelMatrixDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(random_state=0).fit(X[::2], y[::2])
    >>> display = DuelMatrixDisplay.from_estimator(ranker, X[1::2], y[1::2])
    >>> display.error
    array([[ nan, 0.  , 0.  ],
           [0.  ,  nan, 0.04],
           [0.  , 0.  ,  nan]])
    """

    def __init__(
        self,
        error: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        name: str | None = None,
        counts: ArrayLike | None = None,
        by_pair: bool = False,
    ) -> None:
        matrix = np.array(error, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise ValueError(f"error must have shape (K, K), K ≥ 2, got {matrix.shape}.")
        np.fill_diagonal(matrix, np.nan)
        if not np.all((matrix >= 0) & (matrix <= 1) | np.isnan(matrix)):
            raise ValueError("error must hold numbers from 0 to 1 off the diagonal, or NaN.")
        if by_pair and not np.allclose(matrix, matrix.T, equal_nan=True):
            raise ValueError("error must be symmetric with by_pair=True.")
        n_classes = len(matrix)
        self.error = matrix
        self.by_pair = by_pair
        self.classes = np.arange(n_classes) if classes is None else np.asarray(classes)
        self.counts = np.ones(n_classes) if counts is None else np.asarray(counts, dtype=float)
        for argument, array in (("classes", self.classes), ("counts", self.counts)):
            if array.shape != (n_classes,):
                raise ValueError(
                    f"{argument} must have one entry per row of error: {n_classes}, "
                    f"got shape {array.shape}."
                )
        self.name = name

    @property
    def pair_error(self) -> NDArray[np.float64]:
        """Share of the points of both labels whose duel is won by the wrong one, (K, K)."""
        points = np.where(np.isnan(self.error), 0, self.counts[:, np.newaxis])
        wrong = np.nan_to_num(self.error) * points
        with np.errstate(invalid="ignore"):
            pair_error: NDArray[np.float64] = (wrong + wrong.T) / (points + points.T)
        return pair_error

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        by_pair: bool = False,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> DuelMatrixDisplay:
        """Draw the duels of a fitted model.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            A `DuelRanker` has duels. For any other classifier, the label that it ranks before
            the other one wins.
        X : array-like with n rows
            Points that the model was not fitted with; on points of the fit, errors are too small.
        y : array-like of shape (n,)
            Their labels.
        by_pair : bool, default=False
            Whether to average the errors of both labels of a pair.
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
        display : DuelMatrixDisplay
            The drawn display.
        """
        codes = codes_of(estimator, X, y)
        weights = weights_of(sample_weight, codes)
        ranker, points = unwrap(estimator, X)
        if hasattr(ranker, "own_duels"):
            lost = ~ranker.own_duels(points, codes)[0]
        else:
            lost = _lost_by_ranks(predict_ranks(estimator, X), codes)
        display = cls._from_lost(lost, codes, weights, np.asarray(estimator.classes_), by_pair)
        display.name = model_name(estimator) if name is None else name
        return display.plot(ax=ax, **plot_kw)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        classes: ArrayLike | None = None,
        by_pair: bool = False,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_kw: Any,
    ) -> DuelMatrixDisplay:
        """Draw the duels of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        y_pred : array-like of shape (n, K, K) or (n, K)
            Either ``beats[i, a, b]``, whether a wins its duel with b in row i; or ranks, where
            the label that is ranked before the other one wins.
        classes : array-like of shape (K,), default=None
            Labels of the columns; by default the sorted labels of `y_true`, if these are K.
        by_pair : bool, default=False
            Whether to average the errors of both labels of a pair.
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
        display : DuelMatrixDisplay
            The drawn display.
        """
        array = np.asarray(y_pred)
        if array.ndim not in (2, 3) or array.shape[1] != array.shape[-1]:
            raise ValueError(
                "y_pred must be beats of shape (n, K, K) or ranks of shape (n, K), "
                f"got shape {array.shape}."
            )
        labels = check_classes(y_true, classes, array.shape[-1])
        codes = true_codes(y_true, labels)
        if len(array) != len(codes):
            raise ValueError(
                f"y_pred must have one row per label of y_true: {len(codes)}, got {len(array)}."
            )
        if array.ndim == 3:
            lost = check_beats(array)[np.arange(len(codes)), :, codes]
        else:
            lost = _lost_by_ranks(check_ranks(array, name="y_pred"), codes)
        display = cls._from_lost(lost, codes, weights_of(sample_weight, codes), labels, by_pair)
        display.name = name
        return display.plot(ax=ax, **plot_kw)

    @classmethod
    def from_diagnosis(
        cls, diagnosis: Any, *, name: str | None = None, ax: Axes | None = None, **plot_kw: Any
    ) -> DuelMatrixDisplay:
        """Draw the errors of a diagnosis, one number per pair.

        Parameters
        ----------
        diagnosis : duelrank.posteriors.Diagnosis
            What `duelrank.posteriors.diagnose` returns.
        name : str, default=None
            Name of the ranker.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        **plot_kw : dict
            Further arguments of `plot`.

        Returns
        -------
        display : DuelMatrixDisplay
            The drawn display.
        """
        n_classes = len(diagnosis.classes)
        first, second = pairs(n_classes)
        error = np.full((n_classes, n_classes), np.nan)
        error[first, second] = error[second, first] = diagnosis.error
        display = cls(error, classes=diagnosis.classes, name=name, by_pair=True)
        return display.plot(ax=ax, **plot_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        top: int | str | None = None,
        sort_labels: bool = False,
        include_values: bool | None = None,
        cmap: Any = "viridis",
        colorbar: bool = True,
        im_kw: dict[str, Any] | None = None,
        text_kw: dict[str, Any] | None = None,
    ) -> DuelMatrixDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure that grows with the number of labels.
        top : int or "all", default=None
            How many labels to draw: those of the hardest duels. By default all of up to 15, and
            ten of more.
        sort_labels : bool, default=False
            Whether to put labels that are confused next to each other, by average linkage.
        include_values : bool, default=None
            Whether to write the errors, in percent; by default where they are readable.
        cmap : str or matplotlib Colormap, default="viridis"
            Colours.
        colorbar : bool, default=True
            Whether to draw the scale of the colours.
        im_kw, text_kw : dict, default=None
            Arguments of matplotlib's ``imshow``, and of ``text`` for the values.

        Returns
        -------
        self : DuelMatrixDisplay
            With `ax_`, `figure_`, `image_` and `text_`.
        """
        n_drawn = check_top(top, len(self.classes))
        order = np.sort(_hardest_labels(self.pair_error)[:n_drawn])
        if sort_labels:
            order = order[_leaf_order(self.pair_error[np.ix_(order, order)])]
        names = display_names(self.classes[order])
        matrix = NamedMatrix(self.error[np.ix_(order, order)], names, names)
        ax = heat_map_axes(ax, matrix)
        title = "Duel error" if self.name is None else f"Duel error of {self.name}"
        if n_drawn < len(self.classes):
            title += f"\n(the {n_drawn} labels of the hardest duels, of {len(self.classes)})"
        if self.by_pair:
            ax.set(xlabel="label", ylabel="label", title=title)
        else:
            ax.set(xlabel="label that wins", ylabel="true label", title=title)
        self.image_, self.text_ = heat_map(
            ax,
            matrix,
            Look(include_values, cmap, colorbar, im_kw, text_kw),
            limits=(0.0, float(np.nanmax(matrix.values, initial=0.0)) or 1.0),
            meaning="duels won by the wrong label",
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def _from_lost(
        cls,
        lost: NDArray[np.bool_],
        codes: NDArray[np.intp],
        weights: NDArray[np.float64],
        classes: NDArray[Any],
        by_pair: bool,
    ) -> DuelMatrixDisplay:
        """Average over the points of every label.

        lost[i, b] tells whether b beats the true label of row i. The true label's own entry is
        ignored.
        """
        n_classes = len(classes)
        counts = np.bincount(codes, weights=weights, minlength=n_classes)
        errors = np.zeros((n_classes, n_classes))
        for code in range(n_classes):
            rows = codes == code
            errors[code] = weights[rows] @ lost[rows]
        with np.errstate(invalid="ignore"):
            errors /= counts[:, np.newaxis]
        display = cls(np.minimum(errors, 1), classes=classes, counts=counts)
        if not by_pair:
            return display
        return cls(display.pair_error, classes=classes, counts=counts, by_pair=True)


def _lost_by_ranks(ranks: NDArray[np.int64], codes: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which labels are ranked before the true label, (n, K)."""
    return ranks < np.take_along_axis(ranks, codes[:, np.newaxis], axis=1)


def _hardest_labels(pair_error: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return all labels, those of the hardest duels first."""
    first, second = pairs(len(pair_error))
    hardest = np.argsort(-np.nan_to_num(pair_error[first, second], nan=-1.0), kind="stable")
    labels = np.stack([first[hardest], second[hardest]], axis=1).ravel()
    return np.array(list(dict.fromkeys(labels.tolist())), dtype=np.intp)


def _leaf_order(pair_error: NDArray[np.float64]) -> NDArray[np.intp]:
    """Order labels so that confused ones are neighbours."""
    if len(pair_error) < 3:
        return np.arange(len(pair_error))
    similarity = np.nan_to_num(pair_error)
    distance = similarity.max() - similarity
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), method="average", optimal_ordering=True)
    return np.asarray(leaves_list(tree), dtype=np.intp)
