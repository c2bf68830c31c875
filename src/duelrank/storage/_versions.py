"""The versions that a model is saved with, and what is said where it is loaded with others."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from duelrank import __version__

PACKAGES = ("scikit-learn", "numpy", "scipy", "skops")
# By the first part of the names of their types.
PACKAGE_OF = {
    "duelrank": "duelrank",
    "sklearn": "scikit-learn",
    "numpy": "numpy",
    "scipy": "scipy",
}
# How many parts of a version make a difference to what a model predicts.
PARTS_THAT_COUNT: dict[str, int | None] = {"duelrank": 3, "scikit-learn": 3, "numpy": 1}


class ModelVersionWarning(UserWarning):
    """A model was saved with other versions than the ones that read it."""


def installed_versions() -> dict[str, str]:
    """Return the versions of duelrank, of what it needs to save models, and of Python."""
    return dict(_found_versions())


@cache
def _found_versions() -> dict[str, str]:
    """Find the versions; that takes longer than to load a small model, so it is done once."""
    python = ".".join(map(str, sys.version_info[:3]))
    packages = {name: version(name) for name in PACKAGES}
    return {"duelrank": __version__, **packages, "python": python}


def warn_of_versions(
    path: str | os.PathLike[str], saved: Mapping[str, str], stacklevel: int
) -> None:
    """Warn if a file was saved with versions whose models may rank differently.

    Parameters
    ----------
    path : path
        The model file.
    saved : mapping of str to str
        The versions that it was saved with.
    stacklevel : int
        Whom to warn: 1 is the caller of this function.
    """
    differing = differences(saved, PARTS_THAT_COUNT)
    if differing:
        warnings.warn(
            f"{Path(path).name} was saved with {' and '.join(differing)}; its rankings may differ "
            "from what they were, so fit it again if that matters.",
            ModelVersionWarning,
            stacklevel=stacklevel + 1,
        )


def differences(saved: Mapping[str, str], parts: Mapping[str, int | None]) -> list[str]:
    """Tell which packages have other versions here than in a file.

    Parameters
    ----------
    saved : mapping of str to str
        The versions that the file was saved with.
    parts : mapping of str to int or None
        The packages that matter, and how many parts of their versions; None for all parts.

    Returns
    -------
    told : list of str
        Such as "scikit-learn 1.6.0 (here: 1.7.1)".
    """
    here = installed_versions()
    return [
        f"{name} {saved.get(name, '(unknown)')} (here: {here[name]})"
        for name, n_parts in parts.items()
        if str(saved.get(name)).split(".")[:n_parts] != here[name].split(".")[:n_parts]
    ]


def explain_unknown_types(names: Iterable[str], saved: Mapping[str, str]) -> str | None:
    """Return the end of a sentence about a file with types that its versions have and ours lack.

    Parameters
    ----------
    names : iterable of str
        Full names of types that are not trusted.
    saved : mapping of str to str
        The versions that the file was saved with.

    Returns
    -------
    sentence : str or None
        None if there are no such types.
    """
    unknown = [name for name in names if _is_of_another_version(name, saved)]
    if not unknown:
        return None
    packages: dict[str, None] = dict.fromkeys(PACKAGE_OF[name.split(".")[0]] for name in unknown)
    differing = differences(saved, packages)
    return (
        f"was saved with {' and '.join(differing)} and holds what is not known here: "
        f"{', '.join(unknown)}; load it with the version that saved it, or fit the model again "
        "with this one"
    )


def explain_failure(reason: str, saved: Mapping[str, str]) -> str | None:
    """Return the end of a sentence about a file of other versions that cannot be built.

    Parameters
    ----------
    reason : str
        What went wrong.
    saved : mapping of str to str
        The versions that the file was saved with.

    Returns
    -------
    sentence : str or None
        None if the versions are the same.
    """
    differing = differences(saved, PARTS_THAT_COUNT | {"skops": 2})
    if not differing:
        return None
    return (
        f"was saved with {' and '.join(differing)} and cannot be built here ({reason}); load it "
        "with the versions that saved it, or fit the model again with these"
    )


def _is_of_another_version(name: str, saved: Mapping[str, str]) -> bool:
    """Tell whether a type belongs to a package of another version and is not there in ours.

    Nothing is imported for that: the name comes from a file that nobody trusts yet.
    """
    module, _, own_name = name.rpartition(".")
    package = PACKAGE_OF.get(name.split(".")[0])
    if package is None or saved.get(package) == installed_versions()[package]:
        return False
    return not hasattr(sys.modules.get(module), own_name)
