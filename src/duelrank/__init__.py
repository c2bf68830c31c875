"""duelrank: rank all labels of a point, learning from labels, top-m lists or rankings.

The path from data to a ranking, with the shapes of n points, K labels and P = K(K−1)/2 duels::

    X, y ──duels──▶ margins ──tournaments──▶ beats, scores ──rankings──▶ ranks, order ──losses──▶ how wrong
          (n, P)               (n, K, K)                 (n, K)

- :mod:`duelrank.duels` fit one binary problem per pair of labels;
- :mod:`duelrank.tournaments` make scores of who beats whom, cycles and ties included;
- :mod:`duelrank.rankings` turn scores into ranks and orders;
- :mod:`duelrank.losses` measure how wrong they are;
- :mod:`duelrank.rankers` walk the whole path as a scikit-learn classifier.

:mod:`duelrank.predictions` read rankings off any other classifier, and :mod:`duelrank.scoring`
makes scorers of the losses. :mod:`duelrank.shortlists` are as many of the first labels as hold the
right one with a given probability.

In place of y there may be top-m lists or rankings: :mod:`duelrank.feedback` says what rows reveal
about duels, :mod:`duelrank.consensus` finds one ranking for many, and :mod:`duelrank.competitors`
are the other methods of label ranking behind the same interface.

Beside the path: :mod:`duelrank.posteriors` and :mod:`duelrank.bounds` say what can be known,
:mod:`duelrank.datasets` holds data to try it on, :mod:`duelrank.plotting` draws, and
:mod:`duelrank.report` writes a page about a fitted ranker. :mod:`duelrank.drift` tells whether new
rows are like those of training. :mod:`duelrank.storage` saves rankers, :mod:`duelrank.export` writes
them as ONNX models, :mod:`duelrank.evaluation` compares them, and the command ``duelrank`` does it
all on files.
:mod:`duelrank.blocks` are rows that come from files or a Dask cluster, more than memory holds.

Names are imported when they are first used, so that ``import duelrank`` costs next to nothing.
"""  # noqa: E501

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duelrank import (
        bounds,
        competitors,
        consensus,
        datasets,
        feedback,
        losses,
        plotting,
        posteriors,
        rankings,
        report,
        tournaments,
    )
    from duelrank._pairs import pairs
    from duelrank.duels import (
        AnchoredDuels,
        AnchoredDuelsCV,
        AutoDuels,
        EstimatorDuels,
        ForestDuels,
        KernelDuels,
        LogisticDuels,
        LogisticDuelsCV,
        StackedDuels,
        StumpDuels,
    )
    from duelrank.predictions import predict_order, predict_ranks, predict_top
    from duelrank.rankers import DuelRanker
    from duelrank.storage import load, save

__version__ = "0.2.0"

__all__ = [
    "AnchoredDuels",
    "AnchoredDuelsCV",
    "AutoDuels",
    "DuelRanker",
    "EstimatorDuels",
    "ForestDuels",
    "KernelDuels",
    "LogisticDuels",
    "LogisticDuelsCV",
    "StackedDuels",
    "StumpDuels",
    "bounds",
    "competitors",
    "consensus",
    "datasets",
    "feedback",
    "load",
    "losses",
    "pairs",
    "plotting",
    "posteriors",
    "predict_order",
    "predict_ranks",
    "predict_top",
    "rankings",
    "report",
    "save",
    "tournaments",
]

# Every room is an attribute, also a room whose main names are above.
_ROOMS = (
    "blocks",
    "bounds",
    "competitors",
    "consensus",
    "datasets",
    "drift",
    "duels",
    "evaluation",
    "explanations",
    "export",
    "feedback",
    "losses",
    "plotting",
    "posteriors",
    "predictions",
    "preprocessing",
    "rankers",
    "rankings",
    "report",
    "scoring",
    "shortlists",
    "storage",
    "tables",
    "tournaments",
)

# The rooms of the names above that are not rooms themselves.
_ROOM_OF = {
    "AnchoredDuels": "duels",
    "AnchoredDuelsCV": "duels",
    "AutoDuels": "duels",
    "DuelRanker": "rankers",
    "EstimatorDuels": "duels",
    "ForestDuels": "duels",
    "KernelDuels": "duels",
    "LogisticDuels": "duels",
    "LogisticDuelsCV": "duels",
    "StackedDuels": "duels",
    "StumpDuels": "duels",
    "load": "storage",
    "pairs": "_pairs",
    "predict_order": "predictions",
    "predict_ranks": "predictions",
    "predict_top": "predictions",
    "save": "storage",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"duelrank.{name}")
    if name in _ROOM_OF:
        return getattr(import_module(f"duelrank.{_ROOM_OF[name]}"), name)
    raise AttributeError(f"module 'duelrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
