"""`save`, and what it writes down about a model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from duelrank.drift import Profile
from duelrank.shortlists import PlaceIntervals, Shortlister
from duelrank.storage import _versions
from duelrank.storage._archive import write_archive
from duelrank.storage._columns import column_kinds, takes_texts
from duelrank.storage._description import ModelDescription
from duelrank.storage._shortlists import describe_shortlists
from duelrank.storage._skops import dump, ranker_inside
from duelrank.storage._training_data import training_data, without_training_rows


class ModelTrustWarning(UserWarning):
    """A model was saved that can be loaded only by those who trust some of its types by name."""


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    target: str | Sequence[str] | None = None,
    facts: Mapping[str, Any] | None = None,
    training_rows: bool = True,
    profile: Profile | None = None,
) -> None:
    """Save a fitted ranker to a file that can be opened without running what is in it.

    Parameters
    ----------
    model : fitted DuelRanker, a pipeline or search that ends in one, or a Shortlister of these
        What to save. It may be `PlaceIntervals` as well.
    path : path
        Where to; by convention with the ending ``.skops``. A file that is there is replaced when
        the new one is complete, and stays as it is if anything goes wrong.
    columns : mapping of str to str, default=None
        Kinds of input columns by name, for `describe` and for the command, which reads CSV by
        them: "number", "boolean", "date", "category" or "text". They are added to the names and
        kinds that the fitted model remembers, and replace these where they differ. A kind that
        the model does not tell is None. It cannot tell booleans from numbers, so name the kinds
        of columns of true and false. For a model that was fitted on a list of texts, name the
        column that holds them.
    target : str or sequence of str, default=None
        Name of the column with the labels, for `describe`; a sequence of names, also of one, if
        the columns held lists of labels, best first.
    facts : mapping, default=None
        Anything else worth remembering that JSON can hold, for `describe`.
    training_rows : bool, default=True
        Whether the file may hold training rows, where the model keeps them. If not, duels are
        saved as coefficients of features, which takes more space and ranks alike up to rounding;
        kernels and nearest neighbours cannot do without their rows, and are refused. The model
        itself is not changed. Vocabularies, categories and labels are in the file either way.
    profile : duelrank.drift.Profile, default=None
        What the training rows looked like, for ``duelrank check`` and the report. It holds no rows,
        but quantiles, the smallest and the largest numbers, and frequent categories.

    Warns
    -----
    ModelTrustWarning
        If the model holds types that `load` must be told to trust; the message names them.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> from duelrank.storage import describe, load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     save(ranker, Path(folder) / "iris.skops")
    ...     same = load(Path(folder) / "iris.skops")
    ...     describe(Path(folder) / "iris.skops").labels
    [0, 1, 2]
    >>> bool((same.predict_ranks(X) == ranker.predict_ranks(X)).all())
    True
    """
    ranker_inside(model)
    if not isinstance(profile, Profile | None):
        raise TypeError(
            "profile must be a duelrank.drift.Profile or None, got an instance of "
            f"{type(profile).__name__}."
        )
    if not training_rows:
        model = without_training_rows(model)
    ranker = ranker_inside(model)
    kinds = _columns(model, columns or {})
    content, n_objects, untrusted = dump(model)
    facts = dict(facts or {})
    if not (target is None or isinstance(target, str)):
        # The field `target` holds one name, as in files of older versions. All names are a fact.
        names = list(target)
        facts["targets"] = names
        target = names[0] if names else None
    description = ModelDescription(
        labels=[_as_json(label) for label in ranker.classes_.tolist()],
        # Of an engine that chooses among others, the one that was chosen.
        engine=_on_one_line(getattr(ranker.duels_, "engine_", ranker.duels_)),
        aggregation=ranker.aggregation,
        ties=ranker.ties,
        steps=_describe_steps(model),
        columns=kinds,
        target=target,
        facts=facts,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions.installed_versions(),
        training_data=training_data(model, profile),
        shortlists=describe_shortlists(model),
        profile=None if profile is None else profile.to_dict(),
        trust=untrusted or None,
    )
    write_archive(path, content, asdict(description), n_objects)
    if untrusted:
        warnings.warn(
            f"to load {Path(path).name}, trust what duelrank cannot check: "
            f"load({str(path)!r}, trusted={untrusted!r}). A hostile file with these types can "
            "crash the process.",
            ModelTrustWarning,
            stacklevel=2,
        )


def _columns(model: Any, given: Mapping[str, str]) -> dict[str, str | None]:
    """Return the columns that a model takes and their kinds; those that are given count."""
    found = column_kinds(model)
    unknown = [name for name in given if name not in found]
    if found and unknown:
        raise ValueError(
            f"columns must be columns that the model takes; it does not take "
            f"{', '.join(map(repr, unknown))}."
        )
    if len(given) > 1 and takes_texts(model):
        raise ValueError(
            "columns must name the one column of texts that the model takes; got "
            f"{', '.join(map(repr, given))}."
        )
    return {**found, **given}


def _describe_steps(model: Any) -> list[str]:
    """Write down what happens before the duels, a line each."""
    if hasattr(model, "best_estimator_"):
        return _describe_steps(model.best_estimator_)
    if isinstance(model, (Shortlister, PlaceIntervals)):
        return _describe_steps(model.estimator_)
    if not isinstance(model, Pipeline):
        return []
    lines = []
    for _, step in model.steps[:-1]:
        if isinstance(step, ColumnTransformer):
            lines += [
                f"{name}: {_on_one_line(part)} on {len(chosen)} column{'s' * (len(chosen) != 1)}"
                if isinstance(chosen, list)
                else f"{name}: {_on_one_line(part)}"
                for name, part, chosen in step.transformers_
            ]
        else:
            lines.append(_on_one_line(step))
    return lines + _describe_steps(model.steps[-1][1])


def _on_one_line(estimator: Any) -> str:
    if isinstance(estimator, Pipeline):
        return ", ".join(_on_one_line(step) for _, step in estimator.steps)
    return " ".join(str(estimator).split())


def _as_json(label: Any) -> Any:
    return label if isinstance(label, (str, int, float, bool)) else str(label)
