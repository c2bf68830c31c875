"""`save`, and what it writes down about a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from duelrank.storage import _versions
from duelrank.storage._archive import write_archive
from duelrank.storage._columns import column_kinds
from duelrank.storage._description import ModelDescription
from duelrank.storage._skops import dump, ranker_inside


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    target: str | Sequence[str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Save a fitted ranker to a file that can be opened without running what is in it.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline or search that ends in one
        What to save.
    path : path
        Where to; by convention with the ending ``.skops``. A file that is there is replaced when
        the new one is complete, and stays as it is if anything goes wrong.
    columns : mapping of str to str, default=None
        Kinds of the input columns by name, for `describe` and for the command, which reads CSV
        by them: "number", "boolean", "date" or "category". By default names and kinds are those
        that the fitted model remembers, with None for a kind that it does not tell. It cannot
        tell booleans from numbers, so name the kinds if there are columns of true and false.
    target : str or sequence of str, default=None
        Name of the column with the labels, for `describe`; a sequence of names, also of one, if
        the columns held lists of labels, best first.
    facts : mapping, default=None
        Anything else worth remembering that JSON can hold, for `describe`.

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
    ranker = ranker_inside(model)
    content, n_objects = dump(model)
    facts = dict(facts or {})
    if not (target is None or isinstance(target, str)):
        # The field `target` holds one name, as in files of older versions. All names are a fact.
        names = list(target)
        facts["targets"] = names
        target = names[0] if names else None
    description = ModelDescription(
        labels=[_as_json(label) for label in ranker.classes_.tolist()],
        engine=_on_one_line(ranker.duels_),
        aggregation=ranker.aggregation,
        ties=ranker.ties,
        steps=_describe_steps(model),
        columns=dict(columns) if columns is not None else column_kinds(model),
        target=target,
        facts=facts,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions.installed_versions(),
    )
    write_archive(path, content, asdict(description), n_objects)


def _describe_steps(model: Any) -> list[str]:
    """Write down what happens before the duels, a line each."""
    if hasattr(model, "best_estimator_"):
        return _describe_steps(model.best_estimator_)
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
