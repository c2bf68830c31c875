"""How much a model file may grow while it is read.

Compressed zeros take a thousandth of their size, and a packed column of a million equal values
takes no more space than a column of one. So a small file could ask for more memory than there is.
What it says that it unpacks to is therefore counted before it is unpacked, in bytes and in objects,
against limits that its size on the disk sets.
"""

from __future__ import annotations

# In bytes, for all that is compressed in a file: members, and sparse matrices inside members.
LARGEST_RATIO, LARGEST_UNPACKED = 100, 2**27
# How many objects a file may build per byte, and how many however small it is. Thousands of
# decision stumps need 3/2 in a compressed file. `save` does not compress what would need more.
OBJECTS_PER_BYTE, MOST_OBJECTS = 2, 2**18


class Allowance:
    """How much more may be unpacked.

    Parameters
    ----------
    most : int
        How many bytes or objects, all together.
    sentence : str
        What the error says if it is more.
    """

    def __init__(self, most: int, sentence: str) -> None:
        self._left, self._sentence = most, sentence

    def spend(self, amount: int) -> None:
        """Count bytes or objects, and raise a ValueError if there are too many by now."""
        self._left -= amount
        if self._left < 0:
            raise ValueError(self._sentence)


def most_bytes(file_size: int) -> int:
    """Return how many bytes a file of this size may unpack to."""
    return max(LARGEST_UNPACKED, LARGEST_RATIO * file_size)


def most_objects(file_size: int) -> int:
    """Return how many objects may be built from a file of this size."""
    return max(MOST_OBJECTS, OBJECTS_PER_BYTE * file_size)


def allowed_bytes(file_size: int) -> Allowance:
    """Return the allowance of a file for what is compressed in it."""
    most = most_bytes(file_size)
    return Allowance(
        most, f"unpacks to more than the {most:,} bytes that {file_size:,} bytes may hold"
    )


def allowed_json(file_size: int) -> Allowance:
    """Return the allowance of a file for the parts of its JSON."""
    most = most_objects(file_size)
    return Allowance(
        most,
        f"has more than the {most:,} parts of JSON that {file_size:,} bytes may hold",
    )


def parts_of_json(text: bytes) -> int:
    """Count the parts of JSON, from each of which Python builds an object or two; or count more.

    All but the first follow one of these signs. A backslash can hide the others in strings, which
    skops reads as JSON in turn.
    """
    return sum(text.count(sign) for sign in (b"{", b"[", b",", b"\\"))
