"""From the duels of a row to scores without ties: the aggregations and the tie policies.

Everything here prefers the lower code when nothing else decides. That is how an order of the
labels drawn at random comes in: the caller numbers the labels by that order first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.tournaments._copeland import count_losses
from duelrank.tournaments._coupling import posteriors_from_probabilities
from duelrank.tournaments._feedback_arc_set import solve

AGGREGATIONS = ("copeland", "coupling", "feedback_arc_set")
TIES = ("probability", "feedback_arc_set", "random", "index")


class Outcome(NamedTuple):
    """Scores of n rows, (n, K), and whether each row's order is proved optimal, (n,)."""

    scores: NDArray[np.float64]
    exact: NDArray[np.bool_]


def beats_from_square(margins: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Decide all duels of antisymmetric (n, K, K) margins; an even duel goes to the lower code."""
    n_classes = margins.shape[-1]
    upper = np.triu(np.ones((n_classes, n_classes), dtype=bool), k=1)
    return np.where(upper, margins >= 0, margins > 0)


def aggregate(
    beats: NDArray[np.bool_],
    probabilities: NDArray[np.float64],
    aggregation: str,
    ties: str,
) -> Outcome:
    """Score the labels of every row.

    Parameters
    ----------
    beats : ndarray of shape (n, K, K)
        Tournaments.
    probabilities : ndarray of shape (n, K, K)
        Probability that a beats b.
    aggregation : {"copeland", "coupling", "feedback_arc_set"}
        What the score is made of.
    ties : {"probability", "feedback_arc_set", "random", "index"}
        What decides where the aggregation does not. "random" and "index" both leave it to the
        codes.
    """
    exact = np.ones(len(beats), dtype=bool)
    if aggregation == "coupling":
        scores = posteriors_from_probabilities(probabilities)
    elif aggregation == "feedback_arc_set":
        order, exact = solve(_lexicographic(beats, probabilities, ties))
        scores = _wins_of_order(order) + _tie_term(_expected_wins(probabilities))
    else:
        wins = beats.shape[-1] - 1 - count_losses(beats)
        if ties != "feedback_arc_set":
            return Outcome(copeland_from_wins(wins, _expected_wins(probabilities), ties), exact)
        weights = _lexicographic(beats, probabilities, ties)
        order, exact = solve(_inside_ties(weights, wins))
        scores = wins + _tie_term(_wins_of_order(order))
    return Outcome(_without_ties(scores), exact)


def copeland_from_wins(
    wins: NDArray[np.int64], expected: NDArray[np.float64], ties: str
) -> NDArray[np.float64]:
    """Score by duels won, ties by duels that can be expected to be won, or by code.

    These two counts are all that "copeland" needs, except with ties by feedback arc set: an engine
    that can count need not spell out its tournaments.
    """
    if ties != "probability":
        expected = np.arange(wins.shape[-1] - 1, -1, -1, dtype=np.float64)
    return _without_ties(wins + _tie_term(expected))


def _expected_wins(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum each label's chances to win its duels (the diagonal of one half is left out)."""
    return probabilities.sum(axis=-1) - 0.5


def _tie_term(evidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shrink evidence between 0 and K−1 to a term between −1/2 and 1/2, exclusive."""
    n_classes = evidence.shape[-1]
    return (evidence - (n_classes - 1) / 2) / n_classes


def _lexicographic(
    beats: NDArray[np.bool_], probabilities: NDArray[np.float64], ties: str
) -> NDArray[np.float64]:
    """Weigh contradicted duels: their number first, then the evidence against them.

    A smallest set of reversed duels is rarely unique (a 3-cycle has three). Unless the tie
    policy refuses evidence, the least certain duels are reversed: the certainties |2p − 1| of
    all duels together weigh less than one duel.
    """
    weights = beats.astype(np.float64)
    if ties in ("probability", "feedback_arc_set"):
        n_classes = beats.shape[-1]
        certainty = np.abs(2 * probabilities - 1)
        weights += beats * certainty / (n_classes * (n_classes - 1) / 2 + 1)
    return weights


def _inside_ties(weights: NDArray[np.float64], wins: NDArray[np.int64]) -> NDArray[np.float64]:
    """Let only the duels between labels with equal wins matter, below the order of the wins."""
    ahead = wins[:, :, np.newaxis] - wins[:, np.newaxis, :]
    return np.where(ahead == 0, weights, ahead > 0)


def _wins_of_order(order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return K−1 for the first label of the order, down to 0 for the last."""
    wins = np.empty(order.shape)
    places = np.arange(order.shape[-1] - 1, -1, -1, dtype=np.float64)
    np.put_along_axis(wins, order, np.broadcast_to(places, order.shape), axis=-1)
    return wins


def _without_ties(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower equal scores by the smallest steps there are; the lower code stays ahead."""
    order = np.argsort(-scores, axis=-1, kind="stable")
    along = np.take_along_axis(scores, order, axis=-1)
    tied = np.flatnonzero((along[:, 1:] >= along[:, :-1]).any(axis=-1))
    if len(tied) == 0:
        return scores
    strict = along[tied]
    for place in range(1, strict.shape[1]):
        below = np.nextafter(strict[:, place - 1], -np.inf)
        strict[:, place] = np.minimum(strict[:, place], below)
    scores = scores.copy()
    rows = scores[tied]
    np.put_along_axis(rows, order[tied], strict, axis=-1)
    scores[tied] = rows
    return scores
