"""The types that a model file may hold.

`load` opens a file without being told if all its types are plain data, ours, or *audited*: types
of scikit-learn whose contents `_audited` checks completely. Others, also of scikit-learn, must be
named. Every part of a skops file says by which *loader* it is built; a type is known for some
loaders only, so that nothing is called that ought to be held.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from duelrank import losses
from duelrank.storage._archive import SCHEMA, ModelFileError, read_archive, skops_file
from duelrank.storage._audited import audited_names
from duelrank.storage._names import dictionaries_in, public_name, rename
from duelrank.storage._ours import OURS

# Harmless types that skops does not trust by itself; `our_types` has the others.
TRUSTED = (
    "functools.partial",  # its function must be trusted too
    "pathlib.PosixPath",  # the path of a checkpoint, which loading does not read
    "pathlib.WindowsPath",
    "numpy.dtype",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
)
LOSS = "sklearn._loss._loss.CyHalfBinomialLoss"
NAMED_BY = ("__module__", "__class__")
NAME = re.compile(r"[\w.<>-]+")
NUMBERS = (
    "bool bool_ str_ int8 int16 int32 int64 intc longlong uint8 uint16 uint32 uint64 uintc "
    "ulonglong float16 float32 float64 longdouble datetime64 timedelta64"
)
SCALARS = tuple(f"numpy.{name}" for name in NUMBERS.split())
# By loader: what it may build. Functions and objects of ours and of scikit-learn come on top.
PLAIN: dict[str, tuple[str, ...]] = {
    "DictNode": ("builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"),
    "ListNode": ("builtins.list",),
    "TupleNode": ("builtins.tuple",),
    "SetNode": ("builtins.set",),
    "SliceNode": ("builtins.slice",),
    "JsonNode": ("builtins.str",),
    "NdArrayNode": ("numpy.ndarray", *SCALARS),
    "MaskedArrayNode": ("numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"),
    "DTypeNode": ("numpy.dtype",),
    "TypeNode": ("builtins.str", "builtins.int", "builtins.float", "builtins.bool", *SCALARS),
    "SparseMatrixNode": tuple(name for name in TRUSTED if name.startswith("scipy.")),
    "RandomStateNode": ("numpy.random.mtrand.RandomState",),
    "RandomGeneratorNode": ("numpy.random._generator.Generator",),
    "PartialNode": ("functools.partial",),
    "ConstructorFromReduceNode": ("pathlib.PosixPath", "pathlib.WindowsPath"),
    "FunctionNode": ("sklearn.utils.validation.check_array",),
    "LossNode": (LOSS,),
}
# Names of other versions, which skops knows under those of the version that is here.
OTHER_NAMES = (*PLAIN["LossNode"], *PLAIN["MaskedArrayNode"])


def trusted_types() -> list[str]:
    """Name the types that `load` trusts besides those that skops trusts by itself.

    They are the argument ``trusted`` with which ``skops.io.load`` opens rankers that were written
    by ``skops.io.dump``. skops itself trusts all estimators of scikit-learn and looks at none of
    their arrays; `load` trusts fewer of them, and checks what they hold. Compiled parts, such as
    decision trees, are not among the names: wrong numbers in these can crash the process.

    Returns
    -------
    names : list of str
        Full names, sorted. Ours are there twice: where users find them, as in model files, and
        where they are defined, as skops writes them.

    Examples
    --------
    >>> from duelrank.storage import trusted_types
    >>> "duelrank.rankers.DuelRanker" in trusted_types()
    True
    """
    return sorted({*TRUSTED, *_our_names(), *audited_names()})


def untrusted_types(path: str | os.PathLike[str]) -> list[str]:
    """Name the types in a model file that `load` does not trust without being told.

    The model is not built, and nothing that the file names is imported.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    names : list of str
        Full names, sorted; none if `load` needs no ``trusted``.

    Raises
    ------
    ModelFileError
        If the file is no model file, truncated or altered.
    """
    import_skops()  # before the file is read, to say what is missing
    archive = read_archive(path)
    content = skops_file(path, archive)
    try:
        return types_beyond((), archive.schema(), content)
    except Exception as error:
        reason = first_line(error)
        raise ModelFileError(f"{path} was not written by duelrank: {reason}.") from error


def types_of_skops_file(content: bytes) -> list[str]:
    """Name the types in a skops file of our own that `load` does not trust without being told."""
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        schema = json.loads(members.read(SCHEMA))
    rename(schema, public_name)
    return types_beyond((), schema, content)


def types_beyond(names: Iterable[str], schema: Any, content: bytes | None = None) -> list[str]:
    """Name the types in a skops file that are trusted neither by `load` nor by these names.

    Parameters
    ----------
    names : iterable of str
        Full names of more types that are trusted.
    schema : nested lists and dictionaries
        The schema of the file.
    content : bytes, default=None
        The file, whose schema was checked, so that skops can read it. Without it, skops is not
        asked for what only it knows; it asks itself before it builds anything.
    """
    told = set(names)
    found = _unknown_types(schema)
    if content is not None:
        # skops knows what else there is to trust, such as the methods that are held by name.
        found |= set(import_skops().get_untrusted_types(data=content)) - {
            *trusted_types(),
            *OTHER_NAMES,
        }
    return sorted(found - told)


def _unknown_types(schema: Any) -> set[str]:
    """Return the names that a schema has for other loaders than those that may build them."""
    known = _known()
    found = set()
    for part in dictionaries_in(schema):
        if "__loader__" not in part:
            continue
        loader, module, own_name = (part.get(key) for key in ("__loader__", *NAMED_BY))
        if not all(isinstance(text, str) for text in (loader, module, own_name)):
            raise ValueError("it does not name its types")
        name = f"{module}.{own_name}"
        if not NAME.fullmatch(name):
            raise ValueError("it names types that cannot be")
        is_known = name in known.get(str(loader), ()) or (
            loader == "FunctionNode" and _is_arithmetic(str(module), str(own_name))
        )
        if loader == "LossNode" and not _is_without_state(part):
            is_known = False  # it has numbers inside
        if not is_known:
            found.add(name)
    return found


def _known() -> dict[str, Collection[str]]:
    objects = {*_our_names(), *audited_names()}
    functions = {*PLAIN["FunctionNode"], *map(public_name, map(_name, our_functions()))}
    return {**PLAIN, "ObjectNode": objects, "FunctionNode": functions}


def _is_arithmetic(module: str, name: str) -> bool:
    """Tell whether this is one of numpy's functions of one number."""
    function = vars(np).get(name)  # the module itself may be asked, and warn
    return (
        (module == "numpy" or module.startswith("numpy."))
        and isinstance(function, np.ufunc)
        and function.nin == function.nout == 1
    )


def _is_without_state(part: Any) -> bool:
    try:
        return not part["content"]["content"] and not part["__reduce__"]["args"]["content"]
    except (KeyError, TypeError):
        return False


def import_skops() -> Any:
    """Return the module ``skops.io``, or say how to install it."""
    try:
        import skops.io
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError(
            "saved models need skops; install it with: pip install 'duelrank[io]'"
        ) from error
    return skops.io


def first_line(error: BaseException) -> str:
    """Return what an error says, as a part of a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def our_types() -> list[Any]:
    """Return the types of ours that a file may hold: rankers, lists, engines, transformers."""
    return list(OURS)


def our_functions() -> list[Any]:
    """Return what the scorers measure."""
    return [losses.kendall_distance, losses.kendall_tau, losses.kendall_tau_of_known_pairs]


def _our_names() -> set[str]:
    """Return what is ours under both its names: where users find it, and where it is defined."""
    names = [_name(thing) for thing in [*our_types(), *our_functions()]]
    return {*names, *map(public_name, names)}


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
