"""Models into the bytes of a skops file and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from duelrank._sklearn import predictor_inside
from duelrank.rankers import DuelRanker
from duelrank.shortlists import PlaceIntervals, Shortlister
from duelrank.storage._archive import ModelFileError, UntrustedTypesError
from duelrank.storage._checks import check_model
from duelrank.storage._packing import n_items, pack, unpack
from duelrank.storage._types import first_line, import_skops, trusted_types, types_beyond
from duelrank.storage._versions import explain_failure, explain_unknown_types


def dump(model: Any) -> tuple[bytes, int]:
    """Write a model as a skops file.

    Returns
    -------
    content : bytes
        The file.
    n_objects : int
        How many objects `build` will build from it.

    Raises
    ------
    TypeError
        If the model holds something that cannot be saved.
    """
    skops_io = import_skops()
    try:
        column = pack([model])
        content: bytes = skops_io.dumps(column)
        foreign = skops_io.get_untrusted_types(data=content)
    except Exception as error:
        raise TypeError(f"model cannot be saved: {first_line(error)}.") from error
    if any("<lambda>" in name for name in foreign):
        raise TypeError(
            "model cannot be saved: it holds a lambda, which has no name to find it by."
        )
    return content, n_items(column)


def build(
    path: str | os.PathLike[str],
    content: bytes,
    trusted: Iterable[str] | None,
    most_objects: int,
    versions: Mapping[str, str],
) -> Any:
    """Build the model in a skops file, if all its types are trusted and its arrays fit together.

    Parameters
    ----------
    path : path
        Where the file was read, for messages.
    content : bytes
        The file.
    trusted : iterable of str or None
        Full names of more types to trust.
    most_objects : int
        How many objects may be built.
    versions : mapping of str to str
        The versions that the file was saved with.
    """
    if isinstance(trusted, (str, bool)):
        raise TypeError(f"trusted must be a list of names of types, got {trusted!r}.")
    skops_io = import_skops()
    names = [*trusted_types(), *(trusted or ())]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # ours says more
            (model,) = unpack(skops_io.loads(content, trusted=names), most=most_objects)
        check_model(model)
        ranker_inside(model)
    except skops_io.exceptions.UntrustedTypesFoundException as error:
        untrusted = types_beyond(names, content)
        sentence = explain_unknown_types(untrusted, versions)
        if sentence is not None:
            raise ModelFileError(f"{path} {sentence}.") from error
        raise UntrustedTypesError(
            f"{path} holds types that are not trusted: {', '.join(untrusted)}. If you know where "
            "the file comes from, name them in trusted.",
            untrusted,
        ) from error
    except Exception as error:
        reason = first_line(error)
        sentence = explain_failure(reason, versions) or f"was not written by duelrank: {reason}"
        raise ModelFileError(f"{path} {sentence}.") from error
    return model


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
