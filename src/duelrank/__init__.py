"""duelrank: rank all labels of a point, learning from class labels alone.

The path from data to a ranking, with the shapes of n points, K labels and P = K(K−1)/2 duels::

    X, y ──duels──▶ margins ──tournaments──▶ beats, scores ──rankings──▶ ranks, order ──losses──▶ how wrong
          (n, P)               (n, K, K)                 (n, K)

- :mod:`duelrank.duels` fit one binary problem per pair of labels;
- :mod:`duelrank.tournaments` make scores of who beats whom, cycles and ties included;
- :mod:`duelrank.rankings` turn scores into ranks and orders;
- :mod:`duelrank.losses` measure how wrong they are;
- :mod:`duelrank.rankers` walk the whole path as a scikit-learn classifier.
"""  # noqa: E501

from duelrank import losses, rankings, tournaments
from duelrank._pairs import pairs
from duelrank.duels import EstimatorDuels, LogisticDuels, LogisticDuelsCV, StumpDuels
from duelrank.rankers import DuelRanker, predict_order, predict_ranks, predict_top

__version__ = "0.1.0"

__all__ = [
    "DuelRanker",
    "EstimatorDuels",
    "LogisticDuels",
    "LogisticDuelsCV",
    "StumpDuels",
    "losses",
    "pairs",
    "predict_order",
    "predict_ranks",
    "predict_top",
    "rankings",
    "tournaments",
]
