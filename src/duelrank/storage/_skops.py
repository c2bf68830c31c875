"""Models into the bytes of a skops file and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from duelrank._sklearn import predictor_inside
from duelrank.rankers import DuelRanker
from duelrank.shortlists import PlaceIntervals, Shortlister
from duelrank.storage._archive import Archive, ModelFileError, UntrustedTypesError, skops_file
from duelrank.storage._arrays import check_arrays
from duelrank.storage._audit import AuditError, audit, reset_for_caller
from duelrank.storage._packing import n_items, pack, unpack
from duelrank.storage._types import (
    OTHER_NAMES,
    first_line,
    import_skops,
    trusted_types,
    types_beyond,
    types_of_skops_file,
)
from duelrank.storage._versions import explain_failure, explain_unknown_types


def dump(model: Any) -> tuple[bytes, int, list[str]]:
    """Write a model as a skops file.

    Returns
    -------
    content : bytes
        The file.
    n_objects : int
        How many objects `build` will build from it.
    untrusted : list of str
        Names of the types that `build` will have to be told.

    Raises
    ------
    TypeError
        If the model holds something that cannot be saved.
    """
    skops_io = import_skops()
    try:
        column = pack([model])
        content: bytes = skops_io.dumps(column)
        untrusted = types_of_skops_file(content)
    except Exception as error:
        raise TypeError(f"model cannot be saved: {first_line(error)}.") from error
    if any("<lambda>" in name for name in untrusted):
        raise TypeError(
            "model cannot be saved: it holds a lambda, which has no name to find it by."
        )
    return content, n_items(column), _with_unaudited(model, untrusted)


def _with_unaudited(model: Any, untrusted: list[str]) -> list[str]:
    """Add the types that are audited in general, but hold here what the audit does not know."""
    names = list(untrusted)
    while True:
        try:
            audit(model, names)
            return sorted(names)
        except AuditError as error:
            if error.name in names or not error.name.startswith("sklearn."):
                return sorted(names)
            names.append(error.name)
        except Exception:  # `build` will say what is wrong
            return sorted(names)


def build(
    path: str | os.PathLike[str],
    archive: Archive,
    trusted: Iterable[str] | None,
    versions: Mapping[str, str],
) -> Any:
    """Build the model in a file, if all its types are trusted and its arrays fit together.

    Parameters
    ----------
    path : path
        Where the file was read, for messages.
    archive : Archive
        What was read. Its members are gone afterwards, since they take as much memory as the model.
    trusted : iterable of str or None
        Full names of more types to trust.
    versions : mapping of str to str
        The versions that the file was saved with.
    """
    if isinstance(trusted, (str, bool)):
        raise TypeError(f"trusted must be a list of names of types, got {trusted!r}.")
    skops_io = import_skops()
    told = [str(name) for name in trusted or ()]
    content, schema = skops_file(path, archive), archive.schema()
    archive.members.clear()
    try:
        untrusted = types_beyond(told, schema)
        if not untrusted:
            check_arrays(content)
            try:
                column = _read(skops_io, content, told)
            except skops_io.exceptions.UntrustedTypesFoundException:
                untrusted = types_beyond(told, schema, content)
            else:
                (model,) = unpack(column, most=archive.most_objects)
                audit(model, told)
                ranker_inside(model)
                reset_for_caller(model)
                return model
    except Exception as error:
        reason = first_line(error)
        told_by = explain_failure(reason, versions) or f"was not written by duelrank: {reason}"
        raise ModelFileError(f"{path} {told_by}.") from error
    sentence = explain_unknown_types(untrusted, versions)
    if sentence is not None:
        raise ModelFileError(f"{path} {sentence}.")
    raise UntrustedTypesError(
        f"{path} holds types that are not trusted: {', '.join(untrusted)}. duelrank does not check "
        "what they hold, so a hostile file could crash the process or run their code on its "
        "numbers; if you know where the file comes from, name them: "
        f"load({str(path)!r}, trusted={untrusted!r}).",
        untrusted,
    )


def _read(skops_io: Any, content: bytes, told: list[str]) -> Any:
    """Let skops build what a file holds, if it finds no other types than those to be trusted."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # of numbers to be refused
        warnings.simplefilter("ignore", InconsistentVersionWarning)  # ours says more
        return skops_io.loads(content, trusted=[*trusted_types(), *OTHER_NAMES, *told])


def ranker_inside(model: Any) -> DuelRanker:
    """Return the fitted DuelRanker at the end of pipelines and searches, or below shortlists."""
    if isinstance(model, (Shortlister, PlaceIntervals)):
        check_is_fitted(model)
    if isinstance(model, PlaceIntervals):
        model = model.estimator_
    try:
        ranker = predictor_inside(model)
    except AttributeError as error:  # shortlists inside a pipeline
        raise NotFittedError("model must be fitted, but its shortlists are not.") from error
    if not isinstance(ranker, DuelRanker):
        inner = "" if ranker is model else f" of {type(ranker).__name__}"
        raise TypeError(
            "model must be a fitted DuelRanker, a pipeline or refitted search that ends in one, or "
            f"a Shortlister of these; got {type(model).__name__}{inner}."
        )
    check_is_fitted(ranker)
    return ranker
