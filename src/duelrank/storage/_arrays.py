"""The arrays of a file, before numpy makes them.

An array says in its header what it holds. Elements of no bytes, such as ``V0``, could be claimed by
the billion in a file of a few bytes, and records are raw memory. So elements are numbers, truth
values, texts or dates, or nodes of trees, and an array has as many bytes as its header says.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from typing import IO, Any

import numpy as np

from duelrank.storage._sklearn_models import NODE_DTYPE, PREDICTOR_RECORD_DTYPE

# Kinds of arrays: truth, integers, floats, texts, dates. Records and raw bytes are not among them.
KINDS = "biufUSMm"
NODES = (NODE_DTYPE, PREDICTOR_RECORD_DTYPE)
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
LONGEST_HEADER = 10_000  # that NumPy reads
BYTES_OF_LENGTH = {(1, 0): 2, (2, 0): 4}  # a number, before the header
# NumPy reads a header as Python, and Python may warn of what it reads. NumPy writes nothing else.
TYPE = rb"'[<>|=]?[biufcOSUVMm]\d*(\[\w+\])?'"
HEADER = re.compile(
    rb"\{'descr': (%(type)s|\[(\('\w*', %(type)s\)(, )?)+\]), 'fortran_order': (True|False), "
    rb"'shape': \((\d+(, \d+)*,?)?\), \}\s*" % {b"type": TYPE},
    re.ASCII,
)


def check_arrays(content: bytes) -> None:
    """Check the headers of all arrays in a skops file that is not compressed.

    Parameters
    ----------
    content : bytes
        The file; parts of sparse matrices in it are not compressed either.

    Raises
    ------
    ValueError
        If an array is none, or holds what no model does.
    """
    _check_members(io.BytesIO(content))


def _check_members(archive: IO[bytes]) -> None:
    with zipfile.ZipFile(archive) as members:
        for member in members.infolist():
            with members.open(member) as stream:
                if member.filename.endswith(".npy"):
                    _check_array(stream, member.file_size)
                elif member.filename.endswith(".npz"):
                    _check_members(stream)


def _check_array(stream: IO[bytes], n_bytes: int) -> None:
    version: Any = np.lib.format.read_magic(stream)
    if version not in HEADERS or not _has_header(stream, BYTES_OF_LENGTH[version]):
        raise ValueError("an array in it has a header that is not known")
    shape, _, dtype = HEADERS[version](stream)
    if not ((dtype.kind in KINDS and dtype.itemsize) or dtype in NODES):
        raise ValueError("an array in it holds neither numbers nor texts")
    if math.prod(shape) * dtype.itemsize != n_bytes - stream.tell():
        raise ValueError("an array in it has other bytes than it claims")


def _has_header(stream: IO[bytes], bytes_of_length: int) -> bool:
    """Tell whether a header comes next, and leave the stream where it was."""
    here = stream.tell()
    length = int.from_bytes(stream.read(bytes_of_length), "little")
    header = stream.read(min(length, LONGEST_HEADER))
    stream.seek(here)
    return HEADER.fullmatch(header) is not None
