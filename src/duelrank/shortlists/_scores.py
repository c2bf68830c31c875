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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import margin_batches
from duelrank._classifiers import label_scores
from duelrank._sklearn import take_rows, unwrap
from duelrank.rankers import DuelRanker
from duelrank.rankings import order_from_scores

SCORES = ("auto", "probability", "evidence", "rank", "aps", "raps")
ON_PROBABILITIES = ("probability", "aps", "raps")
LARGE = 1e15
RAPS_PENALTY, RAPS_FREE_PLACES = 0.1, 1
BELOW_ONE_PLACE = 1 - 2.0**-20  # what evidence counts for: the next place is always more odd


class Oddness(NamedTuple):
    """How odd the labels of rows are, and what was asked of the classifier on the way.

    Attributes
    ----------
    scores : ndarray of shape (n, K)
        Columns follow the classes of the model. They grow along the ranking.
    order : ndarray of int, of shape (n, K)
        Codes, best first.
    drawn : ndarray of shape (n, 1) or None
        A number between 0 and 1 for every row, to decide between equal scores.
    probabilities : ndarray of shape (n, K) or None
        Those of the classifier, if they were needed.
    """

    scores: NDArray[np.float64]
    order: NDArray[np.intp]
    drawn: NDArray[np.float64] | None
    probabilities: NDArray[np.float64] | None


def label_oddness(
    model: Any, X: Any, score: str, always_first: bool, uniform: Uniform | None
) -> Oddness:
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
    """
    by_label = label_scores(model, X)
    order = order_from_scores(by_label)
    probabilities = None
    if score in ON_PROBABILITIES:
        probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
        if np.isnan(probabilities).any():
            raise ValueError(f"predict_proba of {type(model).__name__} contains NaN.")
        numbers = np.take_along_axis(probabilities, order, axis=1)
    elif score == "evidence":
        numbers = np.take_along_axis(_evidence(model, X), order, axis=1)
    else:
        numbers = np.zeros(order.shape)
    inside, drawn = (None, None) if uniform is None else uniform(by_label)
    # A classifier may rank by other numbers than its probabilities.
    along = np.maximum.accumulate(_ALONG_THE_RANKING[score](numbers, inside), axis=1)
    if always_first:
        along[:, :1] = -np.inf
    scores = np.empty_like(along)
    np.put_along_axis(scores, order, along, axis=1)
    return Oddness(scores, order, drawn, probabilities)


class Uniform:
    """Two numbers between 0 and 1 for every row, from the scores of its labels and a seed alone.

    So a row gets the same list whichever rows are asked about together with it; scores are rounded,
    because sums of products differ in their last bits with the number of rows. The first number
    is for scores that are randomised themselves, the second one decides between equal scores: rows
    that are alike have equal scores of the first kind, so one number cannot be both.
    """

    def __init__(self, seed: int) -> None:
        self.seed = np.uint64(seed)

    def __call__(
        self, by_label: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        largest = np.max(np.abs(by_label), axis=1, initial=0.0, keepdims=True)
        with np.errstate(invalid="ignore"):
            share = np.divide(by_label, largest, out=np.zeros(by_label.shape), where=largest > 0)
        bits = np.ascontiguousarray(np.round(share, 7) + 0.0).view(np.uint64)  # no -0
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


# From probabilities or evidence along the ranking, (n, K), and numbers drawn for the rows.
Drawn = NDArray[np.float64] | None


def _by_probability(numbers: NDArray[np.float64], drawn: Drawn) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return -np.log(numbers)


def _by_rank(numbers: NDArray[np.float64], drawn: Drawn) -> NDArray[np.float64]:
    return np.tile(np.arange(1.0, numbers.shape[1] + 1), (len(numbers), 1))


def _by_evidence(numbers: NDArray[np.float64], drawn: Drawn) -> NDArray[np.float64]:
    return _by_rank(numbers, drawn) - BELOW_ONE_PLACE * numbers


def _by_mass(numbers: NDArray[np.float64], drawn: Drawn) -> NDArray[np.float64]:
    own = 1.0 if drawn is None else drawn
    return np.cumsum(numbers, axis=1) - (1 - own) * numbers


def _by_penalised_mass(numbers: NDArray[np.float64], drawn: Drawn) -> NDArray[np.float64]:
    behind = np.arange(1, numbers.shape[1] + 1) - RAPS_FREE_PLACES
    return _by_mass(numbers, drawn) + RAPS_PENALTY * np.maximum(behind, 0)


_ALONG_THE_RANKING: dict[str, Callable[..., NDArray[np.float64]]] = {
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
    scores = np.clip(label_scores(model, X), -LARGE, LARGE)  # infinite ones too
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
