"""Saved models: files that can be opened without running what is in them.

A *model file* is a skops file, that is a zip archive of plain arrays and a description of the
objects around them, plus our own ``duelrank.json``: versions, labels, columns and a checksum of
everything. `load` opens what it can check completely: ours, plain data, and an audited few of
scikit-learn's types. Others must be trusted by name.

The modules, in the order of the steps from a model to a file and back:

- `_saving`: `save`, and the description of the model;
- `_training_data`: what a model holds of its training data, and a model without training rows;
- `_shortlists`: what makes the model's shortlists, if it makes any;
- `_columns`: the kinds of the model's columns, as far as the model tells;
- `_packing`: the same attribute of all duels becomes one array, however many duels there are;
- `_texts`: many texts become two arrays, however many texts there are;
- `_skops`: arrays and objects become a skops file;
- `_types`: which types a file may hold without being trusted by name;
- `_names`: the names of our classes in a file;
- `_archive`: one file with a checksum, written whole or not at all;
- `_members`: its members, compressed where it pays, and read no larger than they claim;
- `_limits`: how much a file may grow while it is read;
- `_schema`: the description of its objects must not be larger than it looks;
- `_arrays`: its arrays must hold numbers or texts, and as many bytes as they claim;
- `_description`: what the file says about itself, for `describe`;
- `_loading`: `load`;
- `_audit`: everything in a loaded model must be known and fit together, or the process could
  crash; `_audited` is the table of scikit-learn's types with the check of each, `_checks` looks at
  trees, at our own models and at types that were trusted by name, `_text_checks` at what turns
  texts into columns, and `_sklearn_models` has what is private in scikit-learn's fitted models;
- `_versions`: the versions that a model was saved with;
- `_pyfunc`: model files in MLflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duelrank.storage._archive import ModelFileError, UntrustedTypesError
from duelrank.storage._description import ModelDescription, describe
from duelrank.storage._loading import load

# For the command.
from duelrank.storage._loading import load_with_description as load_with_description

# For MLflow, which asks a module for this name.
from duelrank.storage._pyfunc import _load_pyfunc as _load_pyfunc
from duelrank.storage._versions import ModelVersionWarning

if TYPE_CHECKING:
    from duelrank.storage._columns import column_kinds as column_kinds
    from duelrank.storage._columns import takes_texts as takes_texts
    from duelrank.storage._saving import ModelTrustWarning, save
    from duelrank.storage._types import trusted_types, untrusted_types

__all__ = [
    "ModelDescription",
    "ModelFileError",
    "ModelTrustWarning",
    "ModelVersionWarning",
    "UntrustedTypesError",
    "describe",
    "load",
    "save",
    "trusted_types",
    "untrusted_types",
]


def __getattr__(name: str) -> Any:
    # These need scikit-learn. Describing a file, or refusing one, should not wait for it.
    if name in ("ModelTrustWarning", "save"):
        from duelrank.storage import _saving

        return getattr(_saving, name)
    if name in ("trusted_types", "untrusted_types"):
        from duelrank.storage import _types

        return getattr(_types, name)
    if name in ("column_kinds", "takes_texts"):  # for export and the command
        from duelrank.storage import _columns

        return getattr(_columns, name)
    raise AttributeError(f"module 'duelrank.storage' has no attribute {name!r}")
