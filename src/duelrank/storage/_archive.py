"""The file itself: a skops archive with ``duelrank.json`` beside its members.

Members are stored, not compressed, and each is read once: plain arrays take no more memory than
they take in the file. Sparse matrices are compressed inside their members; all of them together may
unpack to `LARGEST_RATIO` times their size, or to `LARGEST_UNPACKED` if that is more. `_packing`
limits how much packed columns may grow.

The checksum covers the members and the description, so it finds damage; it is no signature and does
not tell who wrote the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from duelrank._files import replacing
from duelrank.storage._names import current_name, dictionaries_in, public_name, rename

# 1: version 0.1.0, whose files name classes by the modules that define them. 2: by public names.
FORMAT = 2
DESCRIPTION = "duelrank.json"
SCHEMA = "schema.json"
MEMBER_NAME = re.compile(r"[\w-]+\.(json|npy|npz|bin)")
# In bytes, for all sparse matrices of a file together; no model that `save` wrote has more.
LARGEST_RATIO, LARGEST_UNPACKED = 100, 2**27


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


def write_archive(path: str | os.PathLike[str], skops_file: bytes, description: Any) -> None:
    """Add the description and the checksum to a skops file and write it."""
    with zipfile.ZipFile(io.BytesIO(skops_file)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[SCHEMA] = _renamed(members[SCHEMA], public_name)
    described = {**description, "format": FORMAT}
    described["checksum"] = _checksum(members, described)
    members[DESCRIPTION] = json.dumps(described, indent=1).encode()
    with replacing(path) as partial:
        _write_members(partial, members)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bytes]:
    """Return the description and the skops file, after checking everything but the types in it."""
    content = Path(path).read_bytes()
    if not content.startswith(b"PK\x03\x04"):
        raise ModelFileError(f"{path} is not a duelrank model file{_what_else(content)}.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_members(path, archive.infolist(), len(content))
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelFileError(f"{path} is truncated or damaged ({error}).") from error
    if DESCRIPTION not in members or SCHEMA not in members:
        raise ModelFileError(
            f"{path} is a zip archive, but not a duelrank model file: it has no {DESCRIPTION}."
        )
    description = _parse_description(path, members.pop(DESCRIPTION))
    if description.pop("checksum", None) != _checksum(members, description):
        raise ModelFileError(f"{path} was altered after it was saved: its checksum differs.")
    _check_references(path, members[SCHEMA])
    _check_sparse(path, [member for name, member in members.items() if name.endswith(".npz")])
    if description["format"] == 1:
        content = _with_current_names(path, members)
    return description, content


def _with_current_names(path: str | os.PathLike[str], members: dict[str, bytes]) -> bytes:
    """Return the skops file of a file of format 1, as if it had been written today."""
    buffer = io.BytesIO()
    try:
        schema = _renamed(members[SCHEMA], current_name)
    except RecursionError as error:
        raise ModelFileError(f"{path} is damaged: its schema cannot be read.") from error
    _write_members(buffer, {**members, SCHEMA: schema})
    return buffer.getvalue()


def _renamed(schema: bytes, new_name: Callable[[str], str]) -> bytes:
    """Rename the classes in a schema, and drop the spaces, which are most of it."""
    parsed = json.loads(schema)
    rename(parsed, new_name)
    return json.dumps(parsed, separators=(",", ":")).encode()


def _write_members(file: Any, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)


def _what_else(content: bytes) -> str:
    if not content:
        return ": it is empty"
    if content[:1] == b"\x80" and content[-1:] == b".":
        return " but a pickle, which could run any code; duelrank does not open pickles"
    return ""


def _check_members(
    path: str | os.PathLike[str], members: list[zipfile.ZipInfo], file_size: int
) -> None:
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise ModelFileError(f"{path} is not a duelrank model file: it holds a name twice.")
    for member in members:
        if not MEMBER_NAME.fullmatch(member.filename):
            raise ModelFileError(
                f"{path} is not a duelrank model file: it holds {member.filename!r}."
            )
        if member.compress_type != zipfile.ZIP_STORED:
            raise ModelFileError(
                f"{path} is not a duelrank model file: it holds compressed members."
            )
    if sum(member.file_size for member in members) > file_size:
        raise ModelFileError(f"{path} is damaged: it claims to hold more than its own size.")


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


def _checksum(members: dict[str, bytes], description: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(members):
        digest.update(f"{name} {len(members[name])}\n".encode())
        digest.update(members[name])
    return digest.hexdigest()


def _check_references(path: str | os.PathLike[str], schema: bytes) -> None:
    """Check that no member is read more than once; a small file could fill memory that way."""
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its schema cannot be read.") from error
    readers: dict[str, Any] = {}
    for part in dictionaries_in(parsed):
        name = part.get("file")
        if isinstance(name, str):
            # An object that occurs in several places has one number and is read once.
            reader = part.get("__id__") or object()
            if readers.setdefault(name, reader) != reader:
                raise ModelFileError(f"{path} is damaged: it uses {name!r} more than once.")


def _check_sparse(path: str | os.PathLike[str], members: list[bytes]) -> None:
    unpacked = 0
    for member in members:
        try:
            with zipfile.ZipFile(io.BytesIO(member)) as archive:
                unpacked += sum(part.file_size for part in archive.infolist())
        except zipfile.BadZipFile as error:
            raise ModelFileError(f"{path} is damaged: a sparse matrix cannot be read.") from error
    if unpacked > max(LARGEST_UNPACKED, LARGEST_RATIO * sum(map(len, members))):
        raise ModelFileError(f"{path} holds sparse matrices that unpack to {unpacked:,} bytes.")
