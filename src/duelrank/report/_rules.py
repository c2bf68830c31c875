"""How a ranker ranks, in words: one sentence for its aggregation and one for its ties."""

from __future__ import annotations

RANKED_BY = {
    "copeland": "Labels are ranked by the number of duels they win.",
    "expected_wins": (
        "Labels are ranked by the number of duels they can expect to win: the sum of their duel "
        "probabilities."
    ),
    "coupling": (
        "Labels are ranked by the posterior that fits the duels’ probabilities best "
        "(pairwise coupling)."
    ),
    "feedback_arc_set": (
        "Labels are ranked so that the fewest duels are contradicted (minimum feedback arc set)."
    ),
}
TIES_BY = {
    "probability": (
        "Ties go to the label that can expect to win more duels: the sum of its duel probabilities."
    ),
    "feedback_arc_set": (
        "Ties are ordered so that the fewest duels among the tied labels are contradicted, and of "
        "these the least certain ones."
    ),
    "random": "Ties go by an order of the labels drawn once, when the model was fitted.",
    "index": "Ties go by the order in which the labels are sorted, which is arbitrary.",
}
