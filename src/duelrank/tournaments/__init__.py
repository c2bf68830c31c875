"""Tournaments: the duels of a point, and the scores and orders that come out of them.

A *tournament* says for every two of K labels which one wins: ``beats[a, b]`` is True when a
wins its duel with b, and then ``beats[b, a]`` is False. Arrays hold n of them, (n, K, K).
A label's *losses* are the duels it loses; the tournament is *transitive* when the losses are
0, 1, …, K−1 in some order, and then one plus the losses are the ranks. Otherwise it has a
*cycle*, and labels tie.

>>> import numpy as np
>>> beats = beats_from_margins([[-1.0, 2.0, -0.5]], n_classes=3)
>>> duel_losses(beats)
array([[1, 1, 1]])
>>> is_transitive(beats)
array([False])
>>> feedback_arc_set_order(beats)
array([[0, 1, 2]])
"""

from duelrank.tournaments._copeland import beats_from_margins, copeland_scores, duel_losses
from duelrank.tournaments._coupling import couple
from duelrank.tournaments._cycles import components, in_cycle, is_transitive
from duelrank.tournaments._feedback_arc_set import (
    FeedbackArcSet,
    feedback_arc_set,
    feedback_arc_set_order,
)
from duelrank.tournaments._tournament import Tournaments

__all__ = [
    "FeedbackArcSet",
    "Tournaments",
    "beats_from_margins",
    "components",
    "copeland_scores",
    "couple",
    "duel_losses",
    "feedback_arc_set",
    "feedback_arc_set_order",
    "in_cycle",
    "is_transitive",
]

# For other rooms: kernels on plain arrays that check nothing, and checks.
from duelrank.tournaments._aggregation_and_ties import EVIDENCE_DECIMALS as EVIDENCE_DECIMALS
from duelrank.tournaments._aggregation_and_ties import POSTERIOR_DECIMALS as POSTERIOR_DECIMALS
from duelrank.tournaments._aggregation_and_ties import aggregate as aggregate
from duelrank.tournaments._aggregation_and_ties import copeland_from_wins as copeland_from_wins
from duelrank.tournaments._aggregation_and_ties import needs_expected_wins as needs_expected_wins
from duelrank.tournaments._aggregation_and_ties import soft_from_wins as soft_from_wins
from duelrank.tournaments._aggregation_and_ties import top_from_wins as top_from_wins
from duelrank.tournaments._aggregation_and_ties import without_ties as without_ties
from duelrank.tournaments._copeland import check_beats as check_beats
from duelrank.tournaments._copeland import count_losses as count_losses
from duelrank.tournaments._coupling import check_probabilities as check_probabilities
from duelrank.tournaments._coupling import (
    posteriors_from_probabilities as posteriors_from_probabilities,
)
from duelrank.tournaments._coupling import project_onto_order as project_onto_order
from duelrank.tournaments._cycles import transitive_from_losses as transitive_from_losses
from duelrank.tournaments._feedback_arc_set import MAX_SUBSETS_SIZE as MAX_SUBSETS_SIZE
from duelrank.tournaments._feedback_arc_set import solve_feedback_arc_set as solve_feedback_arc_set
