"""Strange arrays: numpy's files with other numbers, shapes and types, or no arrays at all."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"\x93NUMPY"
WHOLE = (0, -1, 1, 2, -2, 7, 2**15, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
REAL = (0.0, -0.0, 1.0, -1.0, 1e-320, 1e300, -1e300, 1.8e308, np.inf, -np.inf, np.nan, 0.5, 1e17)
TYPES = (
    "|V0",
    "|V8",
    "|O",
    "<f4",
    "<f8",
    ">f8",
    "<f2",
    "<c16",
    "<i8",
    ">i8",
    "<i4",
    "|u1",
    "<u8",
    "|b1",
    "<U0",
    "<U3",
    "|S4",
    "<M8[D]",
    "<m8[ns]",
    "<f16",
)
RECORDS = ([("a", "<f8"), ("b", "<i8")], [("a", "|O")], [("left_child", "<i8")], [("", "|V0")])
DATE = (1980, 1, 1, 0, 0, 0)


def altered(content: bytes, random: random.Random, story: list[str]) -> bytes:
    """Alter a file of numpy, one array or an archive of several.

    Parameters
    ----------
    content : bytes
        The file.
    random : Random
        Source of all choices.
    story : list of str
        Gets a line that says what was done.
    """
    if content.startswith(b"PK"):
        return _altered_archive(content, random, story)
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
        shape, order, dtype = _header(content)
    except Exception:  # it was altered before
        return _altered_bytes(content, random, story)
    body = content[len(content) - array.nbytes :]
    way = random.randrange(12)
    if way < 6 and array.size:
        return _with_numbers(array, random, story)
    if way == 6:
        claimed = random.choice([*TYPES, *RECORDS])
        story.append(f"an array of {dtype} claims to be of {claimed}")
        return _file(repr(claimed), order, shape, body)
    if way == 7:
        other = _other_shape(shape, random)
        story.append(f"an array of shape {shape} claims shape {other}")
        return _file(repr(np.lib.format.dtype_to_descr(dtype)), order, other, body)
    if way == 8:
        new: Any = random.choice([name for name in TYPES if name not in ("|O", "|V0")])
        story.append(f"an array of {dtype} becomes one of {new}")
        with np.errstate(all="ignore"):
            try:
                return saved(array.astype(new))
            except (TypeError, ValueError):
                return saved(np.zeros(array.shape, new))
    if way == 9:
        return _resized(array, random, story)
    if way == 10:
        return _altered_bytes(content, random, story)
    story.append(f"an array of shape {shape} is there in the other order")
    return _file(repr(np.lib.format.dtype_to_descr(dtype)), not order, shape, body)


def _header(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0
    shape, order, dtype = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(
        stream
    )
    return shape, order, dtype


def saved(array: NDArray[Any]) -> bytes:
    """Return the file of an array."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _file(descr: str, order: bool, shape: Any, body: bytes) -> bytes:
    """Write an array whose header may say anything."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    padding = -(len(MAGIC) + 4 + len(text) + 1) % 64
    header = (text + " " * padding + "\n").encode("latin-1")
    return MAGIC + b"\x01\x00" + struct.pack("<H", len(header)) + header + body


def _other_shape(shape: tuple[int, ...], random: random.Random) -> Any:
    return random.choice(
        [
            (),
            (0,),
            (-1,),
            (*shape, 0),
            (*shape, 1),
            (1, *shape),
            shape[::-1],
            shape[1:],
            (2**31,),
            (2**40, 2**40),
            (10**9,),
            (2**62, 0),
            tuple(n + 1 for n in shape),
            tuple(max(0, n - 1) for n in shape),
            (int(np.prod(shape)),),
            (1,) * 70,
            "(1.5,)",
            "None",
        ]
    )


def _number(dtype: np.dtype[Any], random: random.Random) -> Any:
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return max(int(bounds.min), min(int(bounds.max), random.choice(WHOLE)))
    if dtype.kind == "f":
        return random.choice(REAL)
    if dtype.kind == "b":
        return bool(random.randrange(2))
    if dtype.kind in "US":
        return random.choice(["", "\x1b[31m", "a", "\ud800" if dtype.kind == "U" else "b"])
    return None


def _with_numbers(array: NDArray[Any], random: random.Random, story: list[str]) -> bytes:
    """Put other numbers into an array, into one field of it if it has fields."""
    array = array.copy()
    target, where = array, "an array"
    if array.dtype.names:
        name = random.choice(array.dtype.names)
        target, where = array[name], f"field {name} of an array"
    flat = target.reshape(-1) if target.flags.c_contiguous or array.dtype.names else target
    if flat.ndim != 1:
        flat = target.ravel(order="K")
    n_changed = random.choice([1, 1, 1, 2, 5, flat.size])
    for _ in range(min(n_changed, flat.size)):
        place = random.randrange(flat.size)
        if random.random() < 0.3:
            value = flat[random.randrange(flat.size)]
        elif random.random() < 0.3 and flat.dtype.kind in "if":
            with np.errstate(all="ignore"):
                value = flat[place] + flat.dtype.type(random.choice([1, -1]))
        else:
            value = _number(flat.dtype, random)
        if value is None:
            break
        with np.errstate(all="ignore"):
            flat[place] = value
        story.append(f"{where} of shape {array.shape}: number {place} is {value!r}")
    if not array.dtype.names and not np.shares_memory(flat, array):
        array = flat.reshape(array.shape)
    return saved(array)


def _resized(array: NDArray[Any], random: random.Random, story: list[str]) -> bytes:
    """Take rows away from an array, or repeat some."""
    way = random.randrange(4)
    if array.ndim == 0 or len(array) == 0:
        array = array[np.newaxis]
    elif way == 0:
        array = array[: random.randrange(len(array))]
    elif way == 1:
        array = np.concatenate([array, array[-1:]])
    elif way == 2:
        array = array[::-1]
    else:
        array = array[..., :-1] if array.shape[-1] else array.T
    story.append(f"an array has shape {array.shape} now")
    return saved(array)


def _altered_bytes(content: bytes, random: random.Random, story: list[str]) -> bytes:
    place = random.randrange(len(content) + 1)
    story.append(f"the bytes of an array are altered at {place}")
    way = random.randrange(4)
    if way == 0:
        return content[:place]
    if way == 1:
        return content + random.randbytes(random.randrange(1, 50))
    if way == 2:
        return content[:place] + random.randbytes(1) + content[place + 1 :]
    return content[:place] + random.randbytes(8) + content[place:]


def _altered_archive(content: bytes, random: random.Random, story: list[str]) -> bytes:
    """Alter one member of an archive of arrays: of a sparse matrix or a checkpoint."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(sorted(members))
    story.append(f"in the member {name} of an archive:")
    if random.random() < 0.05:
        del members[name]
    else:
        members[name] = altered(members[name], random, story)
    return archive_of(members)


def archive_of(members: dict[str, bytes]) -> bytes:
    """Return a zip archive that depends on its members alone."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), member, zipfile.ZIP_DEFLATED, 1)
    return stream.getvalue()
