"""What a fitted model holds of its training data, and a model without training rows.

Vocabularies, categories and labels are parts of what a model has learned. Rows are more than that:
with a vectorizer, they tell the words of every training text. A profile is between the two: it
holds quantiles, extreme numbers and frequent values, but no rows. Engines tell whether they keep
rows, and can do without (`duelrank.duels`); of scikit-learn's models, those that keep rows need
them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem

from duelrank.drift import Profile

TERMS = ("vocabulary_", "words_", "characters_")  # of scikit-learn's vectorizers, and of ours
# Attributes of scikit-learn's models that hold training rows: of nearest neighbours, support vector
# machines, Gaussian processes, kernel methods, label propagation and embeddings.
ROWS = ("_fit_X", "support_vectors_", "X_train_", "X_fit_", "X_", "training_data_")


def training_data(model: Any, profile: Profile | None = None) -> dict[str, int]:
    """Tell what a fitted model holds of its training data.

    Parameters
    ----------
    model : fitted estimator
        The model.
    profile : Profile or None
        What else the file holds, besides the model.

    Returns
    -------
    held : dict of str to int
        "rows": whether there are training rows, 1 or 0; "terms": how many terms all vocabularies
        have together; "categories": how many categories all encoders know together; and, if there
        is a profile, "profiled": how many columns it describes.
    """
    parts = list(_estimators_in(model))
    held = {
        "rows": int(any(map(_keeps_rows, parts))),
        "terms": sum(_size(vars(part).get(name)) for part in parts for name in TERMS),
        "categories": sum(_size(vars(part).get("categories_")) for part in parts),
    }
    return held if profile is None else held | {"profiled": len(profile.columns)}


def without_training_rows(model: Any) -> Any:
    """Return a model that ranks alike and holds no training rows.

    Parameters
    ----------
    model : fitted estimator
        It is not changed; what holds no rows is shared.

    Raises
    ------
    ValueError
        If a part of the model cannot do without its training rows.
    """
    return _without_rows(model, {})


def _estimators_in(model: Any) -> Iterator[Any]:
    """Yield all estimators that can be reached from a model, each of them once."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, BaseEstimator):
            yield thing
        waiting.extend(value for _, value in _parts(thing))


def _parts(thing: Any) -> list[tuple[Any, Any]]:
    """Return the names or places of what may hold estimators, and what is there."""
    if _has_attributes(thing):
        return list(vars(thing).items())
    if isinstance(thing, dict):
        return list(thing.items())
    return list(enumerate(thing)) if type(thing) in (list, tuple) else []


def _has_attributes(thing: Any) -> bool:
    """Tell whether this is an estimator, or a part of one, such as a calibrated classifier."""
    is_theirs = type(thing).__module__.startswith(("sklearn.", "duelrank."))
    return isinstance(thing, BaseEstimator) or (is_theirs and hasattr(thing, "__dict__"))


def _without_rows(thing: Any, done: dict[int, Any]) -> Any:
    if id(thing) not in done:
        done[id(thing)] = _copy_without_rows(thing, done)
    return done[id(thing)]


def _copy_without_rows(thing: Any, done: dict[int, Any]) -> Any:
    if isinstance(thing, BaseEstimator) and _keeps_rows(thing):
        if not hasattr(thing, "without_training_rows"):
            raise ValueError(
                f"training_rows must be True: {type(thing).__name__} cannot do without its "
                "training rows."
            )
        thing = thing.without_training_rows()
    changed = {
        name: new for name, old in _parts(thing) if (new := _without_rows(old, done)) is not old
    }
    if not changed:
        return thing
    if type(thing) is tuple:
        return tuple(changed.get(place, part) for place, part in enumerate(thing))
    thing = copy.copy(thing)
    if _has_attributes(thing):
        vars(thing).update(changed)
    else:
        for name, new in changed.items():
            thing[name] = new
    return thing


def _keeps_rows(estimator: Any) -> bool:
    return (
        bool(getattr(estimator, "keeps_training_rows", False))
        or any(vars(estimator).get(name) is not None for name in ROWS)
        or (isinstance(estimator, Nystroem) and hasattr(estimator, "components_"))
    )


def _size(values: Any) -> int:
    """Count the texts in a vocabulary, or the categories of all columns."""
    if isinstance(values, (list, tuple)) and not any(isinstance(part, str) for part in values):
        return sum(_size(part) for part in values)
    return len(values) if hasattr(values, "__len__") else 0
