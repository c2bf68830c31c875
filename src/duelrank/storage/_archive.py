"""The file itself: a skops archive with ``duelrank.json`` beside its members.

Members are compressed where it makes them smaller; sparse matrices are compressed inside their
members. `_limits` says how much a file may grow, `_members` reads it within these limits. What is
handed on to skops is not compressed any more, so it takes the memory that it takes here. `_packing`
limits how much packed columns may grow.

The checksum covers the members and the description, so it finds damage; it is no signature and does
not tell who wrote the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duelrank._files import replacing
from duelrank.storage._limits import (
    Allowance,
    allowed_bytes,
    allowed_json,
    most_objects,
    parts_of_json,
)
from duelrank.storage._members import (
    END,
    END_SIZE,
    SIGNATURE,
    bytes_compressed,
    read_members,
    write_members,
)
from duelrank.storage._names import current_name, dictionaries_in, public_name, rename
from duelrank.storage._schema import SchemaError, check_schema

# 1: version 0.1.0, whose files name classes by the modules that define them. 2: by public names.
# 3: members may be compressed, and many texts are arrays.
FORMAT = 3
DESCRIPTION = "duelrank.json"
SCHEMA = "schema.json"
# How the names of members end that skops reads as arrays and as sparse matrices; the others are
# bytes. Only what is called a sparse matrix is unpacked within the limits.
ENDINGS = {"NdArrayNode": ".npy", "SparseMatrixNode": ".npz"}
ARRAY = b"\x93NUMPY"  # how an array begins; numpy would open another archive in its place


class ModelFileError(ValueError):
    """A model file that cannot be opened, and why."""


class UntrustedTypesError(ModelFileError):
    """A model file that holds types which are not trusted.

    Attributes
    ----------
    names : list of str
        The full names of these types, such as ``"mypackage.MyTransformer"``.
    """

    def __init__(self, message: str, names: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.names = list(names)


@dataclass
class Archive:
    """What was read from a model file.

    Attributes
    ----------
    description : dict
        What ``duelrank.json`` says, without the checksum.
    members : dict of str to bytes
        All other members.
    most_objects : int
        How many objects may be built from the file.
    unpacking : Allowance
        How many more bytes may be unpacked.
    """

    description: dict[str, Any]
    members: dict[str, bytes]
    most_objects: int
    unpacking: Allowance

    def schema(self) -> Any:
        """Return the schema, with the names that classes have today."""
        parsed = json.loads(self.members[SCHEMA])
        if self.description["format"] == 1:
            rename(parsed, current_name)
        return parsed


def write_archive(
    path: str | os.PathLike[str], skops_file: bytes, description: Any, n_objects: int = 0
) -> None:
    """Add the description and the checksum to a skops file and write it.

    Parameters
    ----------
    path : path
        Where to.
    skops_file : bytes
        The members that skops wrote.
    description : mapping
        What the file says about itself.
    n_objects : int, default=0
        How many objects will be built from the file.
    """
    members = read_members(skops_file, _without_limit())
    members[SCHEMA] = _renamed(members[SCHEMA], public_name)
    complete = _with_description(members, description)
    content = write_members(complete, compress=True)
    if not _is_within_limits(complete, len(content), n_objects):
        # It compresses so well that it looks like a hostile file.
        complete = _with_description(_unpacked(members), description)
        content = write_members(complete, compress=False)
    with replacing(path) as partial:
        partial.write_bytes(content)


def read_archive(path: str | os.PathLike[str]) -> Archive:
    """Read a model file, after checking everything but the types and sparse matrices in it."""
    content = Path(path).read_bytes()
    if not content.startswith(SIGNATURE):
        raise ModelFileError(f"{path} is not a duelrank model file{_what_else(content)}.")
    try:
        return _read_archive(path, content)
    except ModelFileError:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ModelFileError(f"{path} is truncated or damaged ({reason}).") from error


def _read_archive(path: str | os.PathLike[str], content: bytes) -> Archive:
    if not content[-END_SIZE:].startswith(END):
        raise ModelFileError(f"{path} is truncated or damaged (it does not end where it should).")
    size = len(content)
    unpacking = allowed_bytes(size)
    try:
        members = read_members(content, unpacking)
        _check_json(members, size)
        _check_arrays(members)
    except ValueError as error:
        raise ModelFileError(f"{path} {error}.") from error
    if DESCRIPTION not in members or SCHEMA not in members:
        raise ModelFileError(
            f"{path} is a zip archive, but not a duelrank model file: it has no {DESCRIPTION}."
        )
    description = _parse_description(path, members.pop(DESCRIPTION))
    if description.pop("checksum", None) != _checksum(members, description):
        raise ModelFileError(f"{path} was altered after it was saved: its checksum differs.")
    _check_references(path, members[SCHEMA])
    return Archive(description, members, most_objects(size), unpacking)


def skops_file(path: str | os.PathLike[str], archive: Archive) -> bytes:
    """Return the skops file in a model file, as if it had been written today, not compressed.

    Parameters
    ----------
    path : path
        Where the file was read, for messages.
    archive : Archive
        What was read.
    """
    members = dict(archive.members)
    if archive.description["format"] == 1:
        try:
            members[SCHEMA] = _renamed(members[SCHEMA], current_name)
        except RecursionError as error:
            raise ModelFileError(f"{path} is damaged: its schema cannot be read.") from error
    try:
        return write_members(_unpacked(members, archive.unpacking), compress=False)
    except ValueError as error:
        raise ModelFileError(f"{path} is damaged: a sparse matrix in it {error}.") from error


def _without_limit() -> Allowance:
    return Allowance(sys.maxsize, "")


def _unpacked(members: Mapping[str, bytes], allowance: Allowance | None = None) -> dict[str, bytes]:
    """Return members with sparse matrices that are not compressed inside."""
    allowance = allowance or _without_limit()
    return {
        name: write_members(read_members(member, allowance), compress=False)
        if name.endswith(".npz")
        else member
        for name, member in members.items()
    }


def _is_within_limits(members: Mapping[str, bytes], file_size: int, n_objects: int) -> bool:
    """Tell whether a file of this size may hold these members, and so many objects."""
    unpacking = allowed_bytes(file_size)
    try:
        for name, member in members.items():
            unpacking.spend(len(member))
            if name.endswith(".npz"):
                unpacking.spend(bytes_compressed(member))
        _check_json(members, file_size)
    except ValueError:
        return False
    return n_objects <= most_objects(file_size)


def _check_json(members: Mapping[str, bytes], file_size: int) -> None:
    allowance = allowed_json(file_size)
    for name, member in members.items():
        if name.endswith(".json"):
            allowance.spend(parts_of_json(member))


def _check_arrays(members: Mapping[str, bytes]) -> None:
    for name, member in members.items():
        if name.endswith(".npy") and not member.startswith(ARRAY):
            raise ValueError(f"holds {name!r}, which is no array")


def _with_description(
    members: Mapping[str, bytes], description: Mapping[str, Any]
) -> dict[str, bytes]:
    described = {**description, "format": FORMAT}
    described["checksum"] = _checksum(members, described)
    return {**members, DESCRIPTION: json.dumps(described, indent=1).encode()}


def _renamed(schema: bytes, new_name: Callable[[str], str]) -> bytes:
    """Rename the classes in a schema, and drop the spaces, which are most of it."""
    parsed = json.loads(schema)
    rename(parsed, new_name)
    return json.dumps(parsed, separators=(",", ":")).encode()


def _what_else(content: bytes) -> str:
    if not content:
        return ": it is empty"
    if content[:1] == b"\x80" and content[-1:] == b".":
        return " but a pickle, which could run any code; duelrank does not open pickles"
    return ""


def _parse_description(path: str | os.PathLike[str], content: bytes) -> dict[str, Any]:
    try:
        description = json.loads(content)
        written = description["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its description cannot be read.") from error
    if not isinstance(written, int) or written < 1:
        raise ModelFileError(f"{path} is damaged: its format is {written!r}.")
    if written > FORMAT:
        raise ModelFileError(
            f"{path} has format {written}, which needs a newer duelrank; "
            f"this one reads formats up to {FORMAT}."
        )
    return dict(description)


def _checksum(members: Mapping[str, bytes], description: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(members):
        digest.update(f"{name} {len(members[name])}\n".encode())
        digest.update(members[name])
    return digest.hexdigest()


def _check_references(path: str | os.PathLike[str], schema: bytes) -> None:
    """Check that members are read as what they are, and once, and that objects do not multiply.

    Otherwise a small file could fill memory, or keep skops busy for years.
    """
    try:
        parsed = json.loads(schema)
        check_schema(parsed)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, SchemaError) else "its schema cannot be read"
        raise ModelFileError(f"{path} is damaged: {reason}.") from error
    readers: dict[str, Any] = {}
    for part in dictionaries_in(parsed):
        name = part.get("file")
        if isinstance(name, str):
            if not name.endswith(ENDINGS.get(str(part.get("__loader__")), ".bin")):
                raise ModelFileError(f"{path} is damaged: it uses {name!r} as what it is not.")
            # An object that occurs in several places has one number and is read once.
            reader = part.get("__id__") or object()
            if readers.setdefault(name, reader) != reader:
                raise ModelFileError(f"{path} is damaged: it uses {name!r} more than once.")
