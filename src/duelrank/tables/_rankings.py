"""Rankings of points, and the columns in which they are written."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Rankings(NamedTuple):
    """The first labels of every point.

    Attributes
    ----------
    labels : ndarray of shape (n, places)
        Most probable label first.
    probabilities : ndarray of float, of shape (n, places), or None
        Their probabilities, if these were asked for.
    """

    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None


def rank_points(model: Any, X: Any, places: int, with_probabilities: bool) -> Rankings:
    """Rank points by any fitted classifier, pipeline or search.

    Parameters
    ----------
    model : fitted classifier, pipeline or search
        As in `duelrank.predict_ranks`, with ``predict_proba`` for probabilities.
    X : array or dataframe with n rows
        The points; there may be none.
    places : int
        How many labels of every point.
    with_probabilities : bool
        Whether to ask for their probabilities as well.

    Returns
    -------
    rankings : Rankings
        Labels, and probabilities or None.
    """
    # Reading and writing tables does not need scikit-learn, so it is imported here.
    from duelrank._classifiers import label_scores
    from duelrank._sklearn import unwrap
    from duelrank.rankings import order_from_scores

    codes = np.zeros((0, places), dtype=np.intp)
    probabilities = np.zeros((0, places)) if with_probabilities else None
    if X.shape[0]:
        # The points are transformed once, for the ranks and for the probabilities.
        ranker, points = unwrap(model, X)
        codes = order_from_scores(label_scores(ranker, points))[:, :places]
        if with_probabilities:
            probabilities = np.take_along_axis(ranker.predict_proba(points), codes, axis=1)
    return Rankings(np.asarray(model.classes_)[codes], probabilities)


def wide_columns(rankings: Rankings) -> dict[str, pa.Array]:
    """Return a column for every place, and one for its probability if there are any.

    Parameters
    ----------
    rankings : Rankings
        Labels, and probabilities or None.

    Returns
    -------
    columns : dict
        ``label_1``, ``probability_1``, ``label_2`` and so on.
    """
    columns = {}
    for place in range(rankings.labels.shape[1]):
        columns[f"label_{place + 1}"] = label_array(rankings.labels[:, place])
        if rankings.probabilities is not None:
            columns[f"probability_{place + 1}"] = pa.array(rankings.probabilities[:, place])
    return columns


def label_array(labels: NDArray[Any]) -> pa.Array:
    """Return labels as a column: texts as such, and numbers as numbers.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        The labels; objects of any kind are written as texts.

    Returns
    -------
    column : pyarrow.Array
        The same labels.
    """
    if labels.dtype.kind in "OU":
        return pa.array([str(label) for label in labels.tolist()], pa.string())
    return pa.array(labels)
