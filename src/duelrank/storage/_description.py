"""What a model file says about itself; nothing of it needs the model, or any library.

The description is plain data: reading it imports nothing and builds nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from duelrank.storage._archive import ModelFileError, read_archive


@dataclass(frozen=True)
class ModelDescription:
    """What a model file says about itself.

    Attributes
    ----------
    labels : list
        The labels, as in ``classes_``.
    engine : str
        What fights the duels.
    aggregation, ties : str
        How tournaments become rankings.
    steps : list of str
        What happens to the columns before the duels.
    columns : dict of str to str or None
        Names of the input columns and their kinds, such as "number" and "category", in order;
        None where the kind is not known. Empty if the model was fitted on columns without names.
    target : str or None
        Name of the column that held the labels, if it had one; the first of several.
    facts : dict
        Whatever else was written down at saving, such as the number of rows.
    created : str
        When the model was saved, in UTC.
    versions : dict of str to str
        What it was saved with.
    """

    labels: list[Any]
    engine: str
    aggregation: str
    ties: str
    steps: list[str]
    columns: dict[str, str | None]
    target: str | None
    facts: dict[str, Any]
    created: str
    versions: dict[str, str]

    @property
    def learned_from_lists(self) -> bool:
        """Whether the targets held lists of labels, best first."""
        told = self.facts.get("targets")
        return isinstance(told, list) and all(isinstance(name, str) for name in told)

    @property
    def targets(self) -> list[str]:
        """Names of all columns that held labels, as far as they had names."""
        if self.learned_from_lists:
            return list(self.facts["targets"])
        return [] if self.target is None else [self.target]


def describe(path: str | os.PathLike[str]) -> ModelDescription:
    """Read what is in a model file without building the model.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    description : ModelDescription
        Labels, columns, engine, versions and date.

    Raises
    ------
    ModelFileError
        If the file is no model file, truncated or altered.
    """
    return parse_description(path, read_archive(path)[0])


def parse_description(
    path: str | os.PathLike[str], description: dict[str, Any]
) -> ModelDescription:
    """Check the description of an archive."""
    try:
        known = ModelDescription(**{f.name: description[f.name] for f in fields(ModelDescription)})
        correct = (
            isinstance(known.labels, list)
            and isinstance(known.facts, dict)
            and isinstance(known.target, str | None)
            and isinstance(known.steps, list)
            and isinstance(known.columns, dict)
            and isinstance(known.versions, dict)
            and all(
                isinstance(text, str)
                for text in (
                    known.engine,
                    known.aggregation,
                    known.ties,
                    known.created,
                    *known.steps,
                    *known.versions.values(),
                )
            )
            and all(isinstance(kind, str | None) for kind in known.columns.values())
        )
    except KeyError as error:
        raise ModelFileError(f"{path} is damaged: its description lacks {error}.") from error
    if not correct:
        raise ModelFileError(f"{path} is damaged: its description cannot be read.")
    return known
