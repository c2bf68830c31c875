"""The members of a zip archive: written compressed where it pays, read no larger than they claim.

Python's `zipfile` finds the members, but does not unpack them here: a member that claims ten bytes
and holds gigabytes would be unpacked first and cut to ten bytes then. Before the first member is
unpacked, the sizes that all of them claim are counted; a member of another size is refused.

Errors are ValueErrors with the end of a sentence, which begins with the archive.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from itertools import pairwise

from duelrank.storage._limits import Allowance

MEMBER_NAME = re.compile(r"[\w-]+\.(json|npy|npz|bin)")
# Level 6 makes forests a tenth smaller and takes three times as long; 4 and 5 gain next to nothing.
LEVEL = 3
# A member is compressed if pieces of it, so many of so many bytes, shrink to less than this share.
# Coefficients hardly shrink, and take longer to compress than anything else.
PIECES, PIECE_BYTES = 8, 2**14
LARGEST_SHARE = 0.9
# What stands before a member: a signature, what the directory says too, and the lengths of its name
# and of what else is there.
LOCAL_HEADER = struct.Struct("<4s22xHH")
SIGNATURE = b"PK\x03\x04"
END, END_SIZE = b"PK\x05\x06", 22  # the last record of an archive without a comment
ENCRYPTED = 1  # a bit of the flags of a member


def write_members(members: Mapping[str, bytes], compress: bool) -> bytes:
    """Return a zip archive.

    Parameters
    ----------
    members : mapping of str to bytes
        Contents by name.
    compress : bool
        Whether to compress the members that become smaller by it.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members.items():
            pays = compress and _shrinks(name, member)
            method = zipfile.ZIP_DEFLATED if pays else zipfile.ZIP_STORED
            archive.writestr(name, member, method, LEVEL)
    return buffer.getvalue()


def read_members(content: bytes, allowance: Allowance) -> dict[str, bytes]:
    """Return all members of a zip archive.

    Parameters
    ----------
    content : bytes
        The archive.
    allowance : Allowance
        How many bytes compressed members may unpack to.
    """
    members = _directory(content)
    places = [_place(member, content) for member in members]
    _check_overlaps(members, places)
    allowance.spend(_bytes_compressed(members))
    view = memoryview(content)
    return {
        member.filename: _unpack(member, view[place])
        for member, place in zip(members, places, strict=True)
    }


def bytes_compressed(content: bytes) -> int:
    """Return how many bytes the compressed members of a zip archive unpack to, as they claim."""
    return _bytes_compressed(_directory(content))


def _shrinks(name: str, member: bytes) -> bool:
    if name.endswith(".npz"):
        return False  # a sparse matrix, which is compressed inside
    step = max(PIECE_BYTES, len(member) // PIECES)
    pieces = b"".join(member[i : i + PIECE_BYTES] for i in range(0, len(member), step))
    return len(zlib.compress(pieces, LEVEL)) < LARGEST_SHARE * len(pieces)


def _directory(content: bytes) -> list[zipfile.ZipInfo]:
    """Return what an archive says about its members, and check their names and kinds."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, struct.error) as error:
        raise ValueError(f"is truncated or damaged ({error})") from error
    names = set()
    for member in members:
        name = member.filename
        if not MEMBER_NAME.fullmatch(name):
            raise ValueError(f"holds {name!r}, which no duelrank model file does")
        if name in names:
            raise ValueError(f"holds a name twice, {name!r}")
        names.add(name)
        if member.flag_bits & ENCRYPTED:
            raise ValueError(f"holds {name!r}, which is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"holds {name!r}, which is compressed by another method than DEFLATE")
    return members


def _bytes_compressed(members: list[zipfile.ZipInfo]) -> int:
    # Members that are not compressed take their bytes from the file, and cannot grow.
    return sum(m.file_size for m in members if m.compress_type != zipfile.ZIP_STORED)


def _place(member: zipfile.ZipInfo, content: bytes) -> slice:
    """Return where the bytes of a member are."""
    begin = member.header_offset
    if 0 <= begin <= len(content) - LOCAL_HEADER.size:
        signature, *lengths = LOCAL_HEADER.unpack_from(content, begin)
        start = begin + LOCAL_HEADER.size + sum(lengths)
        if signature == SIGNATURE and start + member.compress_size <= len(content):
            return slice(start, start + member.compress_size)
    raise ValueError(
        f"holds {member.filename!r} in a place where it is not: it is damaged or was altered"
    )


def _check_overlaps(members: list[zipfile.ZipInfo], places: list[slice]) -> None:
    """Check that no byte belongs to two members; few bytes could be unpacked often that way."""
    in_order = sorted(zip(members, places, strict=True), key=lambda pair: pair[0].header_offset)
    for (member, place), (following, _) in pairwise(in_order):
        if place.stop > following.header_offset:
            raise ValueError(f"holds {member.filename!r} and {following.filename!r}, which overlap")


def _unpack(member: zipfile.ZipInfo, stored: memoryview) -> bytes:
    content, complete = bytes(stored), True
    if member.compress_type == zipfile.ZIP_DEFLATED:
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than it claims shows that a member is longer.
            content = unpacking.decompress(stored, member.file_size + 1)
        except zlib.error as error:
            raise ValueError(f"is truncated or damaged ({member.filename}: {error})") from error
        complete = unpacking.eof and not unpacking.unused_data
    if len(content) != member.file_size or not complete:
        raise ValueError(
            f"holds {member.filename!r}, which has another size than it claims: it is damaged or "
            "was altered"
        )
    if zlib.crc32(content) != member.CRC:
        raise ValueError(f"is truncated or damaged ({member.filename} has another checksum)")
    return content
