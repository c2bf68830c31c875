"""Pictures of rankings, duels and probabilities: displays in the style of scikit-learn.

A *display* holds arrays and draws them. ``from_estimator`` computes the arrays from a fitted model
and points that it was not fitted with, ``from_predictions`` computes them from predictions, and
the constructor takes arrays. ``plot(ax=...)`` draws, as often as wanted, and returns the display
with its ``ax_`` and ``figure_``. A model is a `DuelRanker`, or any classifier if the picture makes
sense for it, also inside pipelines and searches.

- `TopKAccuracyDisplay`: how often the true label is among the first k, for several rankers;
- `ShortlistDisplay`: how long lists are that hold the right label as often as asked for;
- `DuelMatrixDisplay`: which labels lose their duels, and to whom;
- `TournamentDisplay`: the duels of one point, its ranking and its cycles;
- `RankDistributionDisplay`: the places at which every label ends up;
- `ReliabilityDisplay`: whether probabilities mean what they say;
- `ContributionsDisplay`: which words and columns spoke for a label, and which for its rival.

Matplotlib (``pip install 'duelrank[plot]'``) is imported when something is drawn, not before.
Colour-blind readers can tell the colours apart. Greyscale prints keep curves and shares apart, and
show how sure duels are; who is favoured is told by the values.
"""

from duelrank.plotting._contributions import ContributionsDisplay
from duelrank.plotting._duel_matrix import DuelMatrixDisplay
from duelrank.plotting._rank_distribution import RankDistributionDisplay
from duelrank.plotting._reliability import ReliabilityDisplay
from duelrank.plotting._shortlists import ShortlistDisplay
from duelrank.plotting._top_k import TopKAccuracyDisplay
from duelrank.plotting._tournament import TournamentDisplay

__all__ = [
    "ContributionsDisplay",
    "DuelMatrixDisplay",
    "RankDistributionDisplay",
    "ReliabilityDisplay",
    "ShortlistDisplay",
    "TopKAccuracyDisplay",
    "TournamentDisplay",
]
