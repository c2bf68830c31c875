"""Duel engines: X and labels in, the margins of all K(K−1)/2 duels out.

:mod:`duelrank.duels._protocol` says what an engine is. Each engine has a file, or a package.
"""

from duelrank.duels._auto import AutoDuels
from duelrank.duels._estimator import EstimatorDuels
from duelrank.duels._forest import ForestDuels
from duelrank.duels._kernel import KernelDuels
from duelrank.duels._protocol import DuelEngine

# For the ranker: what an update may not be able to do.
from duelrank.duels._protocol import NewLabelsError as NewLabelsError

# For storage: how it checks a loaded engine, and a transformer inside the default stack.
from duelrank.duels._protocol import check_engine as check_engine
from duelrank.duels._stacked import StackedDuels
from duelrank.duels._stacked import WithSquares as WithSquares
from duelrank.duels._stump import StumpDuels
from duelrank.duels.anchored import AnchoredDuels, AnchoredDuelsCV
from duelrank.duels.logistic import LogisticDuels, LogisticDuelsCV

__all__ = [
    "AnchoredDuels",
    "AnchoredDuelsCV",
    "AutoDuels",
    "DuelEngine",
    "EstimatorDuels",
    "ForestDuels",
    "KernelDuels",
    "LogisticDuels",
    "LogisticDuelsCV",
    "StackedDuels",
    "StumpDuels",
]
