"""The names that our classes and functions have in model files.

skops writes down where a class is defined, such as ``duelrank.duels._stump.StumpDuels``. A model
file says where users find it, ``duelrank.duels.StumpDuels``. So a class can move to another private
module, and files that hold it can still be loaded.

The *schema* of a skops file is nested JSON. A part of it that stands for an object has a
``__module__`` and a ``__class__``; for a function, its name is the class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

# What files of format 1 (version 0.1.0) call things that have other names now.
OLD_NAMES = {
    "duelrank.duels._estimator.EstimatorDuels": "duelrank.duels.EstimatorDuels",
    "duelrank.duels._forest.ForestDuels": "duelrank.duels.ForestDuels",
    "duelrank.duels._kernel.KernelDuels": "duelrank.duels.KernelDuels",
    "duelrank.duels._logistic.LogisticDuels": "duelrank.duels.LogisticDuels",
    "duelrank.duels._logistic_cv.LogisticDuelsCV": "duelrank.duels.LogisticDuelsCV",
    "duelrank.duels._stacked.StackedDuels": "duelrank.duels.StackedDuels",
    "duelrank.duels._stacked.WithSquares": "duelrank.duels.WithSquares",
    "duelrank.duels._stump.StumpDuels": "duelrank.duels.StumpDuels",
    "duelrank.losses.RankingScorer": "duelrank.scoring.RankingScorer",
    "duelrank.losses.TopKScorer": "duelrank.scoring.TopKScorer",
    "duelrank.losses._told_tau": "duelrank.losses.kendall_tau_of_known_pairs",
}


# Before version 1.8, scikit-learn's losses name a module that can be found only if it is loaded.
LOSS_NAMES = {"_loss.CyHalfBinomialLoss": "sklearn._loss._loss.CyHalfBinomialLoss"}


def public_name(name: str) -> str:
    """Return the name under which users find a class or function of ours; other names stay.

    The loss of scikit-learn's boosting gets the name of the module that holds it.

    Parameters
    ----------
    name : str
        Where it is defined, in a module that is imported.
    """
    if name in LOSS_NAMES:
        return LOSS_NAMES[name]
    module, _, own_name = name.rpartition(".")
    room = ".".join(module.split(".")[:2])
    defined = getattr(sys.modules.get(module), own_name, None)
    is_public = (
        room.startswith("duelrank.")
        and defined is not None
        and getattr(sys.modules.get(room), own_name, None) is defined
    )
    return f"{room}.{own_name}" if is_public else name


def current_name(name: str) -> str:
    """Return what a class or function of a file of format 1 is called now."""
    return OLD_NAMES.get(name, name)


def rename(schema: Any, new_name: Callable[[str], str]) -> None:
    """Give classes and functions in a schema other names.

    Parameters
    ----------
    schema : nested lists and dictionaries
        It is changed.
    new_name : callable
        Takes a full name and returns one.
    """
    for part in dictionaries_in(schema):
        module, own_name = part.get("__module__"), part.get("__class__")
        if isinstance(module, str) and isinstance(own_name, str):
            name = f"{module}.{own_name}"
            if new_name(name) != name:
                part["__module__"], _, part["__class__"] = new_name(name).rpartition(".")


def dictionaries_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all dictionaries of a schema, however deep they are."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
            yield part
