"""Digests of rows: numbers that tell data from other data.

Equal rows have equal digests, in whatever blocks, precision or storage they come. The digests of
many rows are added up, so that their order does not matter. They find changes that happen, not
changes that someone has made up to go unnoticed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import batches

Digests = NDArray[np.uint64]

SEED = 20200101
ROWS_AT_ONCE = 512  # of which the bits are copied, in a cache


def row_digests(
    X: Any,
    weights: NDArray[np.floating] | None = None,
    ranks: NDArray[np.floating] | None = None,
) -> Digests:
    """Return a number for every row that depends on all its features, its weight and its ranks.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
        Finite numbers.
    weights : ndarray of shape (n,), default=None
        Weights of the rows; by default 1.
    ranks : ndarray of shape (n, K), default=None
        Ranks, or NaN.

    Returns
    -------
    digests : ndarray of uint64, of shape (n,)
        The same for a row of zeros and one without entries.
    """
    n_rows, n_features = X.shape
    factors = np.random.default_rng(SEED).integers(2**64, size=n_features + 1, dtype=np.uint64)
    factors |= np.uint64(1)
    if not isinstance(X, np.ndarray):
        sums = np.zeros(len(X.data) + 1, dtype=np.uint64)
        np.cumsum(_bits(X.data) * factors[X.indices], out=sums[1:])
        total = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    else:
        total = np.empty(n_rows, dtype=np.uint64)
        for rows in batches(n_rows, ROWS_AT_ONCE):
            np.einsum("ij,j->i", _bits(X[rows]), factors[:-1], out=total[rows])
    total += _bits(np.ones(n_rows) if weights is None else weights) * factors[-1]
    if ranks is not None:
        total += row_digests(np.where(np.isnan(ranks), -1.0, ranks))
    return _mixed(total)


def digests_of_labels(digests: Digests, codes: NDArray[np.intp], n_classes: int) -> Digests:
    """Add up the digests of every label's rows, (K,)."""
    totals = np.zeros(n_classes, dtype=np.uint64)
    np.add.at(totals, codes, digests)
    return totals


def digest_in_order(digests: Digests) -> Digests:
    """Return a number, (1,), that depends on the order of the rows as well."""
    places = _mixed(np.arange(len(digests), dtype=np.uint64)) | np.uint64(1)
    return np.atleast_1d(np.sum(digests * places, dtype=np.uint64))


def _bits(values: NDArray[np.floating]) -> Digests:
    """Return the bits of numbers in double precision, the upper ones folded onto the lower ones.

    Small whole numbers have only zeros for lower bits, which no product would carry upwards.
    """
    bits = np.add(values, 0.0, dtype=np.float64).view(np.uint64)  # of 0 for −0
    bits ^= bits >> np.uint64(32)
    return bits


def _mixed(numbers: Digests) -> Digests:
    """Mix the bits of every number (Stafford 2011, variant 13): sums of these tell them apart."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
