"""Many texts as two arrays: their UTF-8 end to end, and how many bytes each of them takes.

In an array of text (numpy's ``<U``), every text takes the memory of the longest one. As JSON, every
word of a vocabulary is an object of its own, which takes skops a third of a millisecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.storage._checks import check_packed

Arrays = dict[str, Any]


def encode_texts(texts: list[str]) -> Arrays | None:
    """Turn texts into arrays, or return None if a text is no Unicode (half of a surrogate pair)."""
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        return None
    lengths = [len(part) for part in encoded]
    return {
        "utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "lengths": np.array(lengths, dtype=np.min_scalar_type(max(lengths, default=0))),
    }


def decode_texts(arrays: Arrays, n_texts: int) -> list[str]:
    """Turn arrays into texts, after checking that there are so many and that they fit."""
    utf8, lengths = arrays["utf8"], arrays["lengths"]
    check_packed(type(utf8) is np.ndarray and utf8.ndim == 1 and utf8.dtype == np.uint8)
    check_packed(type(lengths) is np.ndarray and lengths.shape == (n_texts,))
    check_packed(lengths.dtype.kind == "u")
    content, texts, begin = utf8.tobytes(), [], 0
    # In Python's integers, which do not overflow.
    sizes = lengths.tolist()
    check_packed(sum(sizes) == len(content))
    for size in sizes:
        texts.append(_decoded(content[begin : begin + size]))
        begin += size
    return texts


def _decoded(part: bytes) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        raise ValueError("its texts are no UTF-8") from error
