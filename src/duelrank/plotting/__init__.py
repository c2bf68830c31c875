"""Pictures of rankings, duels and probabilities: scikit-learn style displays.

A *display* holds what was computed, as arrays, and draws it: ``from_estimator`` computes from a
fitted model and labelled rows that it was not fitted with, ``from_predictions`` from its
predictions, the constructor takes what is computed already, and ``plot(ax=...)`` draws, again if
wanted, and returns the display with its ``ax_`` and ``figure_``. A model is a `DuelRanker`, or any
classifier where the picture makes sense, also inside pipelines and searches.

- `TopKAccuracyDisplay`: how often the true label is among the first k, for several rankers;
- `DuelMatrixDisplay`: which labels lose their duels, and to whom;
- `TournamentDisplay`: the duels of one point, its ranking and its cycles;
- `RankDistributionDisplay`: the places at which every label ends up;
- `ReliabilityDisplay`: whether probabilities mean what they say.

Matplotlib (``pip install 'duelrank[plot]'``) is imported when something is drawn, not before.
Colours are told apart by colour-blind eyes and in greyscale.
"""

from duelrank.plotting._duel_matrix import DuelMatrixDisplay
from duelrank.plotting._rank_distribution import RankDistributionDisplay
from duelrank.plotting._reliability import ReliabilityDisplay
from duelrank.plotting._top_k import TopKAccuracyDisplay
from duelrank.plotting._tournament import TournamentDisplay

__all__ = [
    "DuelMatrixDisplay",
    "RankDistributionDisplay",
    "ReliabilityDisplay",
    "TopKAccuracyDisplay",
    "TournamentDisplay",
]
