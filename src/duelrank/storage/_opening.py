"""A model and its description from one reading of the file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from duelrank.storage._archive import read_archive
from duelrank.storage._description import ModelDescription, parse_description


def load_described(
    path: str | os.PathLike[str], trusted: Iterable[str] | None = None
) -> tuple[Any, ModelDescription]:
    """Load a model and what its file says about it.

    Parameters
    ----------
    path : path
        The model file, which is read and checked once.
    trusted : iterable of str, default=None
        Full names of more types to trust, as for `load`.

    Returns
    -------
    model : DuelRanker, pipeline or search
        As from `load`.
    description : ModelDescription
        As from `describe`.

    Raises
    ------
    ModelFileError
        If the file cannot be opened; an `UntrustedTypesError` if types are not trusted.
    """
    description, content = read_archive(path)
    known = parse_description(path, description)
    # Only now: finding out that a file is no model file should not wait for scikit-learn.
    from duelrank.storage import _models

    model = _models.build(path, content, trusted)
    _models.warn_of_versions(path, known.versions)
    return model, known
