"""What a model file says about itself.

The description is plain data: reading it imports no library and builds no model.
"""

from __future__ import annotations

import os
from dataclasses import MISSING, dataclass, fields
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
        The engine that learned the duels, with its parameters.
    aggregation, ties : str
        How tournaments become rankings.
    steps : list of str
        The steps before the ranker.
    columns : dict of str to str or None
        Names of the input columns and their kinds, such as "number" and "category", in order;
        None where the kind is not known. Empty if the model was fitted on columns without names.
    target : str or None
        Name of the column that held the labels, if it had one; the first of several.
    facts : dict
        Other facts that were saved, such as the number of rows.
    created : str
        When the model was saved, in UTC.
    versions : dict of str to str
        Versions of the packages and of Python that saved the model.
    training_data : dict of str to int, or None
        What the file holds of the training data: "rows" is 1 if there are training rows in it, else
        0; "terms" and "categories" are how many terms all vocabularies and how many categories all
        encoders have together; "profiled", if there is a profile, how many columns it describes.
        None in files of older versions, which do not tell.
    shortlists : dict or None
        If the model makes shortlists: "coverage", a list of numbers; "by" and "score", as of
        `Shortlister`; "calibration_rows", their number; and "labels_together", how many labels were
        too rare to be calibrated each on its own, if that was asked for.
    profile : dict or None
        What the training rows looked like, if that was saved: `duelrank.drift.Profile.from_dict`
        reads and checks it.
    trust : list of str or None
        Names of the types that `load` must be told to trust, as the file says; None if there are
        none, and in files of older versions. `untrusted_types` looks itself.
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
    training_data: dict[str, int] | None = None
    shortlists: dict[str, Any] | None = None
    profile: dict[str, Any] | None = None
    trust: list[str] | None = None

    @property
    def learned_from_lists(self) -> bool:
        """Whether the targets held lists of labels, best first."""
        names = self.facts.get("targets")
        return isinstance(names, list) and all(isinstance(name, str) for name in names)

    @property
    def shown(self) -> list[str]:
        """Names of the columns with the labels that were shown, if the target was picked."""
        names = self.facts.get("shown")
        return [str(name) for name in names] if isinstance(names, list) else []

    @property
    def targets(self) -> list[str]:
        """Names of all columns that held labels, if they had names."""
        if self.learned_from_lists:
            return list(self.facts["targets"])
        return [] if self.target is None else [self.target]


def describe(path: str | os.PathLike[str]) -> ModelDescription:
    """Read what a model file says about itself, without building the model.

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
    return parse_description(path, read_archive(path).description)


def parse_description(
    path: str | os.PathLike[str], description: dict[str, Any]
) -> ModelDescription:
    """Check the description of an archive.

    It needs every field that has no default. A new field must have one, or older files could not be
    read.
    """
    names = [
        f.name for f in fields(ModelDescription) if f.default is MISSING or f.name in description
    ]
    try:
        known = ModelDescription(**{name: description[name] for name in names})
        correct = (
            isinstance(known.labels, list)
            and isinstance(known.facts, dict)
            and isinstance(known.target, str | None)
            and isinstance(known.steps, list)
            and isinstance(known.columns, dict)
            and isinstance(known.versions, dict)
            and isinstance(known.training_data, dict | None)
            and all(isinstance(n, int) for n in (known.training_data or {}).values())
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
            and (known.shortlists is None or _are_shortlists(known.shortlists))
            and isinstance(known.profile, dict | None)
            and isinstance(known.trust, list | None)
            and all(isinstance(name, str) for name in known.trust or ())
        )
    except KeyError as error:
        raise ModelFileError(f"{path} is damaged: its description lacks {error}.") from error
    if not correct:
        raise ModelFileError(f"{path} is damaged: its description cannot be read.")
    return known


def _are_shortlists(told: Any) -> bool:
    return (
        isinstance(told, dict)
        and isinstance(told.get("coverage"), list)
        and all(isinstance(coverage, float) for coverage in told["coverage"])
        and isinstance(told.get("by"), str)
        and isinstance(told.get("score"), str)
        and type(told.get("calibration_rows")) is int
        and type(told.get("labels_together")) is int
    )
