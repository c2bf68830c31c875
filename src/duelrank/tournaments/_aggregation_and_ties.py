"""From the duels of a row to scores without ties: the aggregations and the tie policies.

*Evidence* is what the duels tell beyond who wins: ``evidence[i, a, b]`` is the probability that a
beats b minus one half, exactly antisymmetric. Values that may be equal are rounded before they are
compared, so that rounding errors decide nothing.

Where nothing else decides, `aggregate` prefers the lower code. `DuelRanker` therefore numbers the
labels by its `label_order_` before it calls `aggregate`, and numbers them back afterwards.
`copeland_from_wins` takes the label order as an argument.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank._pairs import n_pairs
from duelrank._threads import rows_in_threads
from duelrank.rankings import top_from_scores
from duelrank.tournaments._copeland import count_losses
from duelrank.tournaments._coupling import posteriors_from_probabilities
from duelrank.tournaments._feedback_arc_set import solve_feedback_arc_set

EVIDENCE_DECIMALS = 10  # of expected wins
POSTERIOR_DECIMALS = 12  # the linear systems of coupling are not more precise
CERTAINTY_LEVELS = 10_000  # whole numbers, so that sums of certainties are exact


class Outcome(NamedTuple):
    """Scores of n rows, (n, K), and whether each row's order is proved optimal, (n,)."""

    scores: NDArray[np.float64]
    exact: NDArray[np.bool_]


def aggregate(
    beats: NDArray[np.bool_], evidence: NDArray[np.float64], aggregation: str, ties: str
) -> Outcome:
    """Score the labels of every row.

    Parameters
    ----------
    beats : ndarray of shape (n, K, K)
        Tournaments.
    evidence : ndarray of shape (n, K, K)
        Probability that a beats b minus one half, antisymmetric.
    aggregation : {"copeland", "expected_wins", "coupling", "feedback_arc_set"}
        What the score is made of.
    ties : {"probability", "feedback_arc_set", "random", "index"}
        What decides where the aggregation does not. "random" and "index" both leave it to the
        codes.
    """
    if aggregation == "coupling":
        return _by_coupling(beats, evidence, ties)
    if aggregation == "feedback_arc_set":
        order, exact = solve_feedback_arc_set(_lexicographic(beats, evidence, ties))
        return Outcome(_wins_of_order(order) + _tie_term(expected_wins(evidence)), exact)
    wins = beats.shape[-1] - 1 - count_losses(beats)
    if aggregation == "expected_wins":
        copeland, exact = aggregate(beats, evidence, "copeland", ties)
        return Outcome(soft_from_wins(copeland, expected_wins(evidence)), exact)
    if ties == "feedback_arc_set" and beats.shape[-1] > 2:
        order, exact = solve_feedback_arc_set(
            _inside_ties(_lexicographic(beats, evidence, ties), wins)
        )
        return Outcome(wins + _tie_term(_wins_of_order(order)), exact)
    return Outcome(
        copeland_from_wins(wins, expected_wins(evidence), ties), np.ones(len(beats), dtype=bool)
    )


def copeland_from_wins(
    wins: NDArray[np.int64],
    expected: NDArray[np.float64],
    ties: str,
    label_order: NDArray[np.intp] | None = None,
) -> NDArray[np.float64]:
    """Score by duels won, ties by the expected number of wins or by the label order.

    An engine that can count both need not build its tournaments, unless ties go by feedback arc
    set. Two labels never tie; their expected wins make the score say how sure the duel is. The
    label order is that of the codes by default.
    """
    n_classes = wins.shape[-1]
    place = np.arange(n_classes) if label_order is None else np.argsort(label_order)
    if needs_expected_wins(ties, n_classes):

        def scores(wins: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
            return without_ties(_wins_and_evidence(wins, expected), place)

        return rows_in_threads(scores, wins, expected)
    return wins + _tie_term(n_classes - 1.0 - place)


def top_from_wins(
    wins: NDArray[np.int64], expected: NDArray[np.float64], label_order: NDArray[np.intp], k: int
) -> NDArray[np.intp]:
    """Return the codes of the first k labels, (n, k), by duels won, ties by the expected wins.

    They are the first k by `copeland_from_wins`. Wins below those of the k-th best may be any
    numbers below them. The expected wins of rows without ties among or next to these k labels may
    be any numbers from 0 to K−1.
    """
    scores = _wins_and_evidence(wins, expected)[:, label_order]
    return label_order[top_from_scores(scores, k)]


def soft_from_wins(
    copeland: NDArray[np.float64], expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Score by the expected number of wins; equal ones go by their Copeland scores."""
    expected = np.round(expected, EVIDENCE_DECIMALS)
    return _decreasing_along(expected, np.lexsort((-copeland, -expected), axis=-1))


def needs_expected_wins(ties: str, n_classes: int) -> bool:
    """Tell whether `copeland_from_wins` looks at the expected wins."""
    return ties == "probability" or n_classes == 2


def expected_wins(evidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum each label's probabilities to win its duels."""
    return evidence.sum(axis=-1) + (evidence.shape[-1] - 1) / 2


def _by_coupling(beats: NDArray[np.bool_], evidence: NDArray[np.float64], ties: str) -> Outcome:
    """Order by posterior; where posteriors are too close or too small to tell, by Copeland."""
    posteriors = posteriors_from_probabilities(evidence + 0.5)
    copeland, exact = aggregate(beats, evidence, "copeland", ties)
    order = np.lexsort((-copeland, -np.round(posteriors, POSTERIOR_DECIMALS)), axis=-1)
    return Outcome(_decreasing_along(posteriors, order), exact)


def _wins_and_evidence(
    wins: NDArray[np.int64], expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    return wins + _tie_term(np.round(expected, EVIDENCE_DECIMALS))


def _tie_term(decides: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shrink numbers between 0 and K−1, which decide ties, to terms between −1/2 and 1/2."""
    n_classes = decides.shape[-1]
    return (decides - (n_classes - 1) / 2) / n_classes


def _lexicographic(
    beats: NDArray[np.bool_], evidence: NDArray[np.float64], ties: str
) -> NDArray[np.float64]:
    """Weigh contradicted duels: their number first, then the evidence for their winners.

    A smallest set of reversed duels is rarely unique (a 3-cycle has three). Unless the tie policy
    refuses evidence, the least certain duels are reversed: one duel weighs more than the
    certainties of all duels together.
    """
    if ties not in ("probability", "feedback_arc_set"):
        return beats.astype(np.float64)
    one_duel = CERTAINTY_LEVELS * (n_pairs(beats.shape[-1]) + 1)
    certainty = np.round(2 * CERTAINTY_LEVELS * np.maximum(evidence, 0))
    return beats * (one_duel + certainty)


def _inside_ties(weights: NDArray[np.float64], wins: NDArray[np.int64]) -> NDArray[np.float64]:
    """Keep the weights of duels between labels with equal wins; other labels go by their wins."""
    ahead = wins[:, :, np.newaxis] - wins[:, np.newaxis, :]
    return np.where(ahead == 0, weights, ahead > 0)


def _wins_of_order(order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return K−1 for the first label of the order, down to 0 for the last."""
    wins = np.empty(order.shape)
    places = np.arange(order.shape[-1] - 1, -1, -1, dtype=np.float64)
    np.put_along_axis(wins, order, np.broadcast_to(places, order.shape), axis=-1)
    return wins


def without_ties(scores: NDArray[np.float64], place: NDArray[np.intp]) -> NDArray[np.float64]:
    """Lower equal scores by the smallest steps there are; the label with the lower place leads."""
    in_order = np.sort(scores, axis=-1)
    tied = np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=-1))
    if len(tied) == 0:
        return scores
    rows = scores[tied]
    order = np.lexsort((np.broadcast_to(place, rows.shape), -rows), axis=-1)
    lowered = scores.copy()
    lowered[tied] = _decreasing_along(rows, order)
    return lowered


def _decreasing_along(scores: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Lower scores, as little as possible, until they decrease along the order."""
    along = np.take_along_axis(scores, order, axis=-1)
    tied = np.flatnonzero((along[:, 1:] >= along[:, :-1]).any(axis=-1))
    if len(tied) == 0:
        return scores
    strict = along[tied]
    for place in range(1, strict.shape[1]):
        below = np.nextafter(strict[:, place - 1], -np.inf)
        strict[:, place] = np.minimum(strict[:, place], below)
    lowered = scores.copy()
    rows = lowered[tied]
    np.put_along_axis(rows, order[tied], strict, axis=-1)
    lowered[tied] = rows
    return lowered
