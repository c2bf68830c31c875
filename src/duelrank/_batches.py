"""Batches: rows that are handled together, so that they fit in memory; and how large that is."""

from __future__ import annotations

import os
from collections.abc import Iterator

# An engine may have a cost per call, so it is asked for the margins of many rows at once.
MARGIN_BATCH_BYTES = 2**27


def batches(n_rows: int, most_rows: int) -> Iterator[slice]:
    """Cut n rows into slices of at most so many rows.

    A slice has at least one row, and there is at least one slice: of no rows, an empty one.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    most_rows : int
        Most rows of a slice; anything below 1 counts as 1.
    """
    most_rows = max(1, most_rows)
    for start in range(0, max(n_rows, 1), most_rows):
        yield slice(start, min(start + most_rows, n_rows))


def even_batches(n: int, most: int) -> Iterator[slice]:
    """Cut n items into slices of about the same size, so that threads have as much to do each.

    Their number is even where that can be, and does not depend on how many threads there are. Few
    items are one slice.

    Parameters
    ----------
    n : int
        Number of items.
    most : int
        Most items of a slice; anything below 1 counts as 1.
    """
    n_batches = -(-n // max(1, most))
    if n_batches > 1:
        n_batches += n_batches % 2
    yield from batches(n, -(-n // max(1, n_batches)))


def margin_batches(n_rows: int, n_classes: int, most_bytes: int | None = None) -> Iterator[slice]:
    """Cut n rows into slices whose margins, K × K doubles for a row, fit in so many bytes.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_classes : int
        Number of labels K.
    most_bytes : int, default=None
        Memory for the margins of a slice; `MARGIN_BATCH_BYTES` by default.
    """
    most_bytes = MARGIN_BATCH_BYTES if most_bytes is None else most_bytes
    return batches(n_rows, most_bytes // (8 * n_classes * n_classes))


def bytes_of_memory() -> float:
    """Return how many bytes of memory this machine has; infinity where it does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
