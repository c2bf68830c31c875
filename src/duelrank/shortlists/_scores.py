"""How odd every label of a row would be, if it were the right one.

Scores grow along the ranking, so that the labels below a threshold are the first ones. They are
made of what a fitted classifier says: its ranking, by ``decision_function`` or else
``predict_proba``, and a number for every label that says how likely it is.

- "probability": −log p of the label. On probabilities that are right, no lists are shorter
  (Sadinle, Lei & Wasserman 2019).
- "evidence": the place of the label minus its evidence, a number below 1: between lists of k and of
  k + 1 labels, rows whose label at place k + 1 has more evidence get it first (Luo & Zhou 2024).
  The evidence of a duel ranker is the share of its duels that a label can expect to win.
- "rank": the place.
- "aps": the probability of all labels down to this one (Romano, Sesia & Candès 2020).
- "raps": the same plus a penalty for every place behind the first (Angelopoulos et al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import margin_batches
from duelrank._classifiers import label_scores
from duelrank._sklearn import take_rows, unwrap
from duelrank.rankers import DuelRanker
from duelrank.rankings import order_from_scores

SCORES = ("auto", "probability", "evidence", "rank", "aps", "raps")
ON_PROBABILITIES = ("probability", "aps", "raps")
RAPS_PENALTY, RAPS_FREE_PLACES = 0.1, 1


def label_oddness(
    model: Any, X: Any, score: str, always_first: bool, uniform: Uniform | None
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64] | None]:
    """Return the scores of all labels of all rows.

    Parameters
    ----------
    model : fitted classifier, pipeline or search
        With K labels.
    X : array-like with n rows
        Query points.
    score : {"probability", "evidence", "rank", "aps", "raps"}
        Which score.
    always_first : bool
        Whether the first label is never odd, so that it is in every list.
    uniform : Uniform or None
        Draws numbers for every row from what is known of it, if lists are randomised.

    Returns
    -------
    oddness : ndarray of shape (n, K)
        Columns follow the classes of the model. They grow along the ranking.
    order : ndarray of int, of shape (n, K)
        Codes, best first.
    drawn : ndarray of shape (n, 1) or None
        A number between 0 and 1 for every row, to decide between equal scores.
    """
    by_label = label_scores(model, X)
    order = order_from_scores(by_label)
    inside, drawn = (None, None) if uniform is None else uniform(by_label)
    along = _ALONG_THE_RANKING[score](model, X, order, inside)
    # A classifier may rank by other numbers than its probabilities.
    along = np.maximum.accumulate(along, axis=1)
    if always_first and along.shape[1]:
        along[:, 0] = -np.inf
    oddness = np.empty_like(along)
    np.put_along_axis(oddness, order, along, axis=1)
    return oddness, order, drawn


class Uniform:
    """Two numbers between 0 and 1 for every row, that depend on the row and on a seed alone.

    So a row gets the same list whichever rows are asked about together with it. The first number
    is for scores that are randomised themselves, the second one decides between equal scores: rows
    that are alike have equal scores of the first kind, so one number cannot be both.
    """

    def __init__(self, seed: int) -> None:
        self.seed = np.uint64(seed)

    def __call__(
        self, by_label: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        bits = np.ascontiguousarray(by_label, dtype=np.float64).view(np.uint64)
        mixed = np.full(len(bits), self.seed)
        for column in bits.T:
            mixed = _mix(mixed ^ column)
        return _as_shares(mixed), _as_shares(_mix(mixed))


def _as_shares(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    return ((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)[:, np.newaxis]


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter 64 bits over 64 bits (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        bits = bits + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


Order = NDArray[np.intp]
Drawn = NDArray[np.float64] | None


def _probabilities(model: Any, X: Any, order: Order) -> NDArray[np.float64]:
    """Return probabilities along the ranking."""
    return np.take_along_axis(np.asarray(model.predict_proba(X), np.float64), order, axis=1)


def _by_probability(model: Any, X: Any, order: Order, drawn: Drawn) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return -np.log(_probabilities(model, X, order))


def _by_rank(model: Any, X: Any, order: Order, drawn: Drawn) -> NDArray[np.float64]:
    return np.broadcast_to(np.arange(1.0, order.shape[1] + 1), order.shape).copy()


def _by_evidence(model: Any, X: Any, order: Order, drawn: Drawn) -> NDArray[np.float64]:
    evidence = np.take_along_axis(_evidence(model, X), order, axis=1)
    below_one = 1 - 2.0**-20  # the next place is always more odd
    return _by_rank(model, X, order, drawn) - below_one * evidence


def _by_mass(model: Any, X: Any, order: Order, drawn: Drawn) -> NDArray[np.float64]:
    probabilities = _probabilities(model, X, order)
    own = 1.0 if drawn is None else drawn
    return np.cumsum(probabilities, axis=1) - (1 - own) * probabilities


def _by_penalised_mass(model: Any, X: Any, order: Order, drawn: Drawn) -> NDArray[np.float64]:
    behind = np.arange(1, order.shape[1] + 1) - RAPS_FREE_PLACES
    return _by_mass(model, X, order, drawn) + RAPS_PENALTY * np.maximum(behind, 0)


_ALONG_THE_RANKING: dict[str, Callable[[Any, Any, Order, Drawn], NDArray[np.float64]]] = {
    "probability": _by_probability,
    "evidence": _by_evidence,
    "rank": _by_rank,
    "aps": _by_mass,
    "raps": _by_penalised_mass,
}


def _evidence(model: Any, X: Any) -> NDArray[np.float64]:
    """Return how much speaks for every label, from 0 to 1, columns by class."""
    ranker, points = unwrap(model, X)
    if isinstance(ranker, DuelRanker):
        return _expected_wins(ranker, points) / max(1, len(ranker.classes_) - 1)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)
    scores = label_scores(model, X)
    return np.asarray(0.5 + 0.5 * scores / (1 + np.abs(scores)))  # large scores still differ


def _expected_wins(ranker: DuelRanker, points: Any) -> NDArray[np.float64]:
    """Return how many duels every label can expect to win."""
    n_classes = len(ranker.classes_)
    if hasattr(ranker.duels_, "wins"):
        return np.asarray(ranker.duels_.wins(points, ranker.label_order_)[1], dtype=np.float64)
    expected = np.empty((points.shape[0], n_classes))
    for rows in margin_batches(points.shape[0], n_classes):
        tournaments = ranker.tournament(take_rows(points, rows))
        expected[rows] = tournaments.probabilities.sum(axis=2) - 0.5
    return expected
