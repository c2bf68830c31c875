"""Posteriors: what is optimal when the label probabilities are known, and how hard it is to learn.

``eta[i, k]`` is the probability of label k at point i, (n, K), or (K,) for one point. Only ratios
matter, so rows need not sum to one: eta are equally well the *weights* of a Plackett-Luce model.
The theory of Clémençon & Vogel (2020) rests on four facts about eta, the four parts of this room:

- The *optimal ranks* order labels by decreasing eta; label a beats b in the *Bayes duel* when
  its *duel probability* eta_a / (eta_a + eta_b) is above one half. Duels of this form never
  contradict each other (strict stochastic transitivity).
- A label drawn from eta (`sample_labels`) is the top of a ranking drawn from the *Plackett-Luce*
  model with weights eta (coupling lemma), whose pairwise probabilities are these duel
  probabilities.
- The *gap* of a duel is |2p − 1|, p its probability: 0 if the duel is a fair coin, 1 if one label
  always wins.
  The *noise condition* bounds how often gaps are small: P{gap < t} ≤ B t^(α/(1−α)) for all t ≥ 0,
  with α the *noise exponent* and B the *noise constant*. A gap bounded below by a *Massart margin*
  is the best case.
- Where eta is not known, a fitted ranker's duels on held-out points give a *diagnosis*: which
  label pairs are hard, and how hard, at the points of the two labels.

>>> eta = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]
>>> optimal_ranks(eta)
array([[3, 1, 2],
       [1, 3, 2]])
>>> duel_gaps(eta).round(2)
array([[0.43, 0.2 , 0.25],
       [0.71, 0.33, 0.5 ]])
>>> complete_ranking(eta, codes=[2, 0], random_state=0)
array([[3, 2, 1],
       [1, 3, 2]])
"""

from duelrank.posteriors._diagnosis import Diagnosis, diagnose
from duelrank.posteriors._known import (
    bayes_beats,
    duel_gaps,
    duel_probabilities,
    is_strictly_transitive,
    optimal_ranks,
    sample_labels,
)
from duelrank.posteriors._noise import (
    NoiseExponent,
    massart_margin,
    noise_constant,
    noise_exponent,
)
from duelrank.posteriors._plackett_luce import (
    complete_ranking,
    plackett_luce_log_likelihood,
    sample_plackett_luce,
)

__all__ = [
    "Diagnosis",
    "NoiseExponent",
    "bayes_beats",
    "complete_ranking",
    "diagnose",
    "duel_gaps",
    "duel_probabilities",
    "is_strictly_transitive",
    "massart_margin",
    "noise_constant",
    "noise_exponent",
    "optimal_ranks",
    "plackett_luce_log_likelihood",
    "sample_labels",
    "sample_plackett_luce",
]
