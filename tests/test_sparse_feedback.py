"""Sparse ranks mean what dense ones do: their checks, what rows say, and taking rows of them."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from duelrank.feedback import (
    SparseRanks,
    check_feedback,
    check_sparse_feedback,
    is_ambiguous,
    reveals_nothing,
    single_labels,
)
from duelrank.rankings import ranks_from_choices, ranks_from_sets

NAN = np.nan
UNPLACED = ["auto", "behind", "unknown"]


def stored(places, form=sparse.csr_array):
    """Write places as sparse ranks: what is not NaN is stored."""
    rows, columns = np.nonzero(~np.isnan(places))
    entries = (places[rows, columns], (rows, columns))
    return form(sparse.coo_array(entries, shape=places.shape))


def outcome(check, *arguments, **options):
    """Return what a check returns, or its error up to the row that it shows."""
    try:
        return check(*arguments, **options)
    except ValueError as error:
        return str(error).split(" is ")[0]


@st.composite
def places_of_rows(draw):
    """Rows of places, right and wrong ones, of up to five labels."""
    n_classes = draw(st.integers(2, 5))
    place = st.sampled_from([NAN, 1, 2, 3, 1.5, 2.5, 4, 7, -1, 1.2, np.inf])
    good = st.permutations([*range(1, n_classes + 1)])
    tied = st.just([1.0] + [2.0] * (n_classes - 1))
    row = st.one_of(good, tied, st.lists(place, min_size=n_classes, max_size=n_classes))
    left_out = st.lists(st.booleans(), min_size=n_classes, max_size=n_classes)
    n_rows = draw(st.integers(1, 5))
    rows = [np.where(draw(left_out), NAN, np.array(draw(row), dtype=float)) for _ in range(n_rows)]
    return np.array(rows)


@given(places=places_of_rows(), unplaced=st.sampled_from(UNPLACED))
def test_sparse_rows_are_judged_as_dense_ones(places, unplaced):
    expected = outcome(check_feedback, places, unplaced=unplaced)
    told = outcome(check_sparse_feedback, stored(places), unplaced=unplaced)
    if isinstance(expected, str):
        assert told == expected
        return
    assert told.unplaced == expected.unplaced
    assert (len(told), told.shape, told.ndim) == (len(places), places.shape, 2)
    np.testing.assert_array_equal(told.dense(), expected.ranks)
    np.testing.assert_array_equal(told.n_placed, (~np.isnan(places)).sum(axis=1))
    np.testing.assert_array_equal(told.reveals_nothing(), reveals_nothing(expected.ranks))
    assert told.is_ambiguous() == is_ambiguous(places)
    codes = single_labels(expected.ranks)
    if codes is None:
        assert told.single_labels() is None
    else:
        np.testing.assert_array_equal(told.single_labels(), codes)


@given(places=places_of_rows(), data=st.data())
def test_rows_and_columns_are_those_of_the_dense_ranks(places, data):
    told = outcome(check_sparse_feedback, stored(places), unplaced="behind")
    if isinstance(told, str):
        return
    n_rows, n_classes = told.shape
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    numbers = np.array(data.draw(st.lists(st.integers(0, n_rows - 1))), dtype=int)
    for rows in (mask, numbers, slice(1, None), slice(None)):
        some = told[rows]
        assert isinstance(some, SparseRanks)
        assert some.unplaced == "behind"
        np.testing.assert_array_equal(some.dense(), told.dense()[rows])
    order = np.array(data.draw(st.permutations(range(n_classes))))
    moved = told.with_columns(order)
    assert moved.ranks.has_sorted_indices
    np.testing.assert_array_equal(moved.dense(), told.dense()[:, order])


def test_rows_are_taken_by_vectors_and_nothing_changes():
    told = check_sparse_feedback(sparse.csr_array([[1, 0, 2], [0, 1, 0]]), unplaced="unknown")
    with pytest.raises(TypeError, match=r"rows must be a slice or a vector, got shape \(\)"):
        told[0]
    with pytest.raises(FrozenInstanceError):
        told.unplaced = "behind"


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8])
def test_any_sparse_form_is_taken_and_stays_as_it_was(form, kind, dtype):
    places = np.array([[0, 2, 1, 2], [1, 0, 0, 2], [0, 0, 0, 0]])
    given_ = getattr(sparse, f"{form}_{kind}")(places.astype(dtype))
    told = check_sparse_feedback(given_, unplaced="unknown")
    assert isinstance(told.ranks, sparse.csr_array)
    assert told.ranks.dtype == np.float64
    assert told.ranks.has_sorted_indices
    np.testing.assert_array_equal(told.dense(), np.where(places == 0, NAN, places))
    np.testing.assert_array_equal(given_.toarray(), places)


def test_columns_are_sorted_and_stored_nan_is_no_place():
    unsorted = sparse.csr_array(([2.0, 1.0, NAN, 1.0], [3, 0, 1, 2], [0, 3, 4]), shape=(2, 4))
    told = check_sparse_feedback(unsorted, unplaced="unknown")
    np.testing.assert_array_equal(told.dense(), [[1, NAN, NAN, 2], [NAN, NAN, 1, NAN]])
    assert told.ranks.nnz == 3
    assert np.isnan(unsorted.data[2])


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        (np.eye(2), {}, r"^ranks must be sparse of shape \(n, K\), .* got ndarray of shape \(2, 2"),
        (sparse.csr_array([[1], [1]]), {}, r"K ≥ 2; got csr_array of shape \(2, 1\)\.$"),
        (sparse.csr_array([[1, 2]]), {"n_classes": 3}, "one column per label: 3, got 2"),
        (sparse.csr_array([[1j, 2]]), {"name": "y"}, "^y must be numbers, got dtype complex"),
        (sparse.csr_array([[1, 2]]), {"unplaced": "ahead"}, "^unplaced must be one of"),
        (
            sparse.csr_array([[1, 0, 2], [0, 5, 1]]),
            {},
            r"from 1 to 3, the number .* but row 1 is \{1: 5.0, 2: 1.0\}, places by column\.$",
        ),
        (
            sparse.csr_array(np.tile([[1.0, 2.0]], 20)),
            {},
            r"whole places, .* but row 0 is \{0: 1.0, .*, 11: 2.0, …\}, places by column\.$",
        ),
        (
            sparse.csr_array(([0.0, 1.0], [0, 1], [0, 2]), shape=(1, 3)),
            {},
            r"places from 1 to 3, .* but row 0 is \{0: 0.0, 1: 1.0\}",
        ),
    ],
)
def test_bad_sparse_ranks(ranks, options, message):
    with pytest.raises(ValueError, match=message):
        check_sparse_feedback(ranks, **options)


def test_the_first_bad_row_is_named_whatever_its_length():
    places = np.array([[1, 2, 3.0], [1, 1, 2], [2.2, NAN, NAN]])
    with pytest.raises(ValueError, match="but row 1 is"):
        check_sparse_feedback(stored(places))


def test_rows_are_judged_in_batches(monkeypatch):
    monkeypatch.setattr("duelrank.feedback.BATCH_SIZE", 4)
    places = np.tile([[1, 2, 3, NAN], [NAN, 2, 1, NAN]], (5, 1))
    np.testing.assert_array_equal(
        check_sparse_feedback(stored(places), unplaced="unknown").dense(), places
    )
    places[7] = [NAN, 2, 2, NAN]
    assert check_sparse_feedback(stored(places), unplaced="unknown").reveals_nothing()[7]
    places[7] = [NAN, 1.2, 2, NAN]
    with pytest.raises(ValueError, match="but row 7 is"):
        check_sparse_feedback(stored(places))


def test_many_labels_need_no_array_of_all():
    """An array of 30,000 rows and 100,000 labels would have 24 GB."""
    shown = np.arange(90_000).reshape(-1, 3)
    ranks = ranks_from_choices(shown, shown[:, 1], range(100_000), sparse=True)
    told = check_sparse_feedback(ranks, unplaced="unknown")
    assert told.shape == (30_000, 100_000)
    assert not told.reveals_nothing().any()
    assert told.is_ambiguous()
    assert told.single_labels() is None
    np.testing.assert_array_equal(told[[7]].dense()[0, 20:25], [NAN, 2, 1, 2, NAN])
    single = check_sparse_feedback(ranks_from_sets(shown[:, :1], range(100_000), sparse=True))
    np.testing.assert_array_equal(single.single_labels(), shown[:, 0])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1, 2, NAN, NAN], True),  # a list or a preference
        ([1, 2, 2, NAN], True),  # a choice
        ([1, NAN, NAN, NAN], False),  # a label
        ([1, 1, NAN, NAN], False),  # a set
        ([1, 2, 3, 4], False),
        ([NAN, NAN, NAN, NAN], False),
    ],
)
def test_what_could_be_meant_in_two_ways(row, expected):
    assert is_ambiguous(np.array([row])) == expected
    assert is_ambiguous(np.array([row, [1, 2, 3, 4]])) == expected
