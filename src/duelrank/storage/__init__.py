"""Saved models: files that can be opened without running what is in them.

A *model file* is a skops file, that is a zip archive of plain arrays and a description of the
objects around them, plus our own ``duelrank.json``: versions, labels, columns and a checksum of
everything. `load` refuses types that are neither ours nor scikit-learn's, and it looks at what
scikit-learn would believe unseen, such as the node numbers of decision trees.

The path of a model into a file, with the file that walks each step; `load` walks it backwards:

- `_packing`: the same attribute of all duels becomes one array, however many duels there are;
- `_checks`: what is loaded must fit together, or the process could crash;
- `_archive`: one file with a checksum, written whole or not at all;
- `_description`: what the file says about itself, for `describe`;
- `_columns`: of what kind its columns are, as far as the model tells;
- `_models`: `save` and `load`;
- `_opening`: a model and its description from one reading of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duelrank.storage._archive import ModelFileError, UntrustedTypesError
from duelrank.storage._description import ModelDescription, describe

if TYPE_CHECKING:
    from duelrank.storage._models import ModelVersionWarning, load, save

__all__ = [
    "ModelDescription",
    "ModelFileError",
    "ModelVersionWarning",
    "UntrustedTypesError",
    "describe",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    # Describing a file, or finding out that it is none, should not wait for scikit-learn.
    if name in ("ModelVersionWarning", "load", "save"):
        from duelrank.storage import _models

        return getattr(_models, name)
    raise AttributeError(f"module 'duelrank.storage' has no attribute {name!r}")
