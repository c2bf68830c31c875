"""The versions that a model is saved with, and a warning where it is loaded with others."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from duelrank import __version__

PACKAGES = ("scikit-learn", "numpy", "scipy", "skops")


class ModelVersionWarning(UserWarning):
    """A model was saved with other versions than the ones that read it."""


def installed_versions() -> dict[str, str]:
    """Return the versions of duelrank, of what it needs to save models, and of Python."""
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
    here = installed_versions()
    differing = [
        f"{name} {saved.get(name, '(unknown)')} (here: {here[name]})"
        for name, parts in (("duelrank", 3), ("scikit-learn", 3), ("numpy", 1))
        if str(saved.get(name)).split(".")[:parts] != here[name].split(".")[:parts]
    ]
    if differing:
        warnings.warn(
            f"{Path(path).name} was saved with {' and '.join(differing)}; its rankings may differ "
            "from what they were, so fit it again if that matters.",
            ModelVersionWarning,
            stacklevel=stacklevel + 1,
        )
