"""Digests of rows: they tell data from other data, however it comes."""

import numpy as np
import pytest
from scipy import sparse

from duelrank.blocks import digest_in_order, digests_of_labels, row_digests


def test_storage_and_precision_make_no_difference(rng):
    X = rng.integers(-3, 4, size=(40, 7)) * (rng.random((40, 7)) < 0.5)
    dense = row_digests(X.astype(np.float64))
    for same in (
        X.astype(np.float32),
        sparse.csr_array(X.astype(np.float64)),
        sparse.csr_matrix(X.astype(np.float32)),
        np.asfortranarray(X, dtype=np.float64),
        np.where(X == 0, -0.0, X),
    ):
        np.testing.assert_array_equal(row_digests(same), dense)
    stored = sparse.csr_array(X + 9.0)
    stored.data -= 9.0  # zeros that are stored
    np.testing.assert_array_equal(row_digests(stored), dense)


def test_rows_without_entries():
    X = sparse.csr_array((3, 5))
    np.testing.assert_array_equal(row_digests(X), row_digests(np.zeros((3, 5))))
    assert row_digests(np.zeros((0, 5))).shape == (0,)


def test_different_rows_have_different_digests(rng):
    X = np.unique(rng.integers(0, 5, size=(20_000, 8)), axis=0).astype(float)
    assert len(np.unique(row_digests(X))) == len(X)
    weights = np.arange(1.0, 1000.0)
    assert len(np.unique(row_digests(np.ones((999, 3)), weights))) == 999
    np.testing.assert_array_equal(row_digests(X), row_digests(X, np.ones(len(X))))


@pytest.mark.parametrize("column", [0, 3])
def test_sums_notice_a_column_whose_rows_were_permuted(rng, column):
    X = rng.integers(0, 3, size=(300, 4)).astype(float)
    other = X.copy()
    other[:, column] = rng.permutation(X[:, column])
    codes = np.zeros(300, dtype=np.intp)
    assert digests_of_labels(row_digests(X), codes, 1) != digests_of_labels(
        row_digests(other), codes, 1
    )


def test_sums_notice_ranks_that_were_permuted(rng):
    X, ranks = rng.normal(size=(50, 3)), np.argsort(rng.random((50, 4)), axis=1) + 1.0
    ranks[:10, 0] = np.nan
    codes = np.zeros(50, dtype=np.intp)
    sums = [
        digests_of_labels(row_digests(X, None, these), codes, 1)[0]
        for these in (ranks, ranks[::-1])
    ]
    assert sums[0] != sums[1]


def test_only_the_digest_in_order_depends_on_it(rng):
    X, codes = rng.normal(size=(60, 3)), rng.integers(0, 4, 60)
    order = rng.permutation(60)
    digests = row_digests(X)
    np.testing.assert_array_equal(row_digests(X[order]), digests[order])
    np.testing.assert_array_equal(
        digests_of_labels(digests, codes, 4), digests_of_labels(digests[order], codes[order], 4)
    )
    assert digest_in_order(digests) != digest_in_order(digests[order])
