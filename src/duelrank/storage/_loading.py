"""`load`, and the same with what the file says about the model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from duelrank.storage._archive import read_archive
from duelrank.storage._description import ModelDescription, parse_description
from duelrank.storage._versions import warn_of_versions


def load(path: str | os.PathLike[str], trusted: Iterable[str] | None = None) -> Any:
    """Load a model that was saved with `save`.

    Nothing in the file is executed. A file that was truncated or altered is refused. So are types
    whose contents duelrank cannot check completely, also of scikit-learn, unless you trust them by
    name. `n_jobs` is None and `verbose` False or 0 in everything that is loaded: the file does not
    decide how many processes work here, nor what is printed.

    Parameters
    ----------
    path : path
        The model file.
    trusted : iterable of str, default=None
        Full names of more types to trust, such as ``"mypackage.MyTransformer"`` or
        ``"sklearn.svm._classes.SVC"``; `untrusted_types` lists those of a file. Their code runs on
        what the file holds, and wrong numbers in it can crash the process: name them only if you
        know where the file comes from.

    Returns
    -------
    model : DuelRanker, pipeline, search or Shortlister
        What was saved.

    Raises
    ------
    ModelFileError
        A ValueError that says what is wrong with the file. It is an `UntrustedTypesError`, with
        their `names`, if there is nothing wrong but types that are not trusted. If a file of other
        versions cannot be read, the error names both versions.

    Warns
    -----
    ModelVersionWarning
        If the file was written with other versions of duelrank, scikit-learn or numpy.
    """
    return _load(path, trusted)[0]


def load_with_description(
    path: str | os.PathLike[str], trusted: Iterable[str] | None = None
) -> tuple[Any, ModelDescription]:
    """Load a model and what its file says about it, from one reading of the file.

    Parameters
    ----------
    path : path
        The model file.
    trusted : iterable of str, default=None
        As for `load`.

    Returns
    -------
    model : DuelRanker, pipeline, search or Shortlister
        As from `load`.
    description : ModelDescription
        As from `describe`.

    Raises
    ------
    ModelFileError
        As from `load`.
    """
    return _load(path, trusted)


def _load(
    path: str | os.PathLike[str], trusted: Iterable[str] | None
) -> tuple[Any, ModelDescription]:
    archive = read_archive(path)
    known = parse_description(path, archive.description)
    # Importing this takes a second. A file that is no model file has been refused before.
    from duelrank.storage._skops import build

    model = build(path, archive, trusted, known.versions)
    warn_of_versions(path, known.versions, stacklevel=3)  # the caller of `load`
    return model, known
