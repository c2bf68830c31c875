import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from duelrank.rankings import (
    check_k,
    check_ranks,
    codes_from_labels,
    order_from_ranks,
    order_from_scores,
    ranks_from_choices,
    ranks_from_lists,
    ranks_from_order,
    ranks_from_pairs,
    ranks_from_scores,
    ranks_from_sets,
    top_from_scores,
)
from random_duels import random_ranks, ranks_of_rows

nan = np.nan


@given(st.integers(1, 7).flatmap(lambda n_classes: ranks_of_rows(n_classes, 4)))
def test_ranks_order_and_scores_are_one_thing(ranks):
    order = order_from_ranks(ranks)
    np.testing.assert_array_equal(np.take_along_axis(ranks, order, axis=1), np.sort(ranks, axis=1))
    np.testing.assert_array_equal(ranks_from_order(order), ranks)
    np.testing.assert_array_equal(ranks_from_scores(-ranks), ranks)
    np.testing.assert_array_equal(order_from_scores(-ranks), order)


def test_single_row_gives_single_row(rng):
    ranks = random_ranks(rng, 3, 5)
    np.testing.assert_array_equal(order_from_ranks(ranks)[1], order_from_ranks(ranks[1]))
    np.testing.assert_array_equal(
        ranks_from_order(order_from_ranks(ranks[1])), ranks_from_scores(-ranks[1].astype(float))
    )


def test_partial_rankings():
    scores = np.array([[0.1, nan, 0.9, nan], [3.0, 2.0, 1.0, 0.0]])
    order = order_from_scores(scores)
    np.testing.assert_array_equal(order, [[2, 0, -1, -1], [0, 1, 2, 3]])
    ranks = ranks_from_scores(scores)
    np.testing.assert_array_equal(ranks, [[2, nan, 1, nan], [1, 2, 3, 4]])
    np.testing.assert_array_equal(ranks_from_order(order), ranks)
    np.testing.assert_array_equal(order_from_ranks(ranks), order)


def test_top_lists_as_order():
    ranks = ranks_from_order([[3, 1], [0, -1]], n_classes=4)
    np.testing.assert_array_equal(ranks, [[nan, 2, nan, 1], [1, nan, nan, nan]])


def test_equal_scores_keep_the_order_of_the_columns():
    np.testing.assert_array_equal(ranks_from_scores([0.5, 0.7, 0.5]), [2, 1, 3])


@given(
    st.integers(1, 9).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 4), min_size=9, max_size=9), min_size=1).map(
            lambda rows: (k, np.array(rows, dtype=float))
        )
    )
)
def test_the_top_is_the_beginning_of_the_order(k_and_scores):
    k, scores = k_and_scores
    for dtype in (np.float64, np.float32, np.int64, np.uint8, bool):
        typed = scores.astype(dtype)
        np.testing.assert_array_equal(top_from_scores(typed, k), order_from_scores(typed)[:, :k])


def test_full_ranks_are_integers_and_partial_ones_floats():
    assert ranks_from_scores([0.5, 0.7]).dtype.kind == "i"
    assert ranks_from_scores([0.5, nan]).dtype.kind == "f"
    assert ranks_from_scores([True, False]).tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(1100, 1000), (2, 600_000)])
def test_many_rows_are_ranked_as_one_by_one(shape, rng):
    scores = rng.integers(100, size=shape).astype(np.float64)
    scores[-1, 0] = nan
    rows = [0, -2, -1]
    ranks = ranks_from_scores(scores)
    assert ranks.shape == shape
    np.testing.assert_array_equal(ranks[rows], [ranks_from_scores(scores[row]) for row in rows])
    expected = [order_from_scores(scores[row]) for row in rows]
    np.testing.assert_array_equal(order_from_scores(scores)[rows], expected)
    assert ranks_from_scores(scores[:-1]).dtype == np.int64


def test_infinite_scores_are_scores():
    np.testing.assert_array_equal(ranks_from_scores([-np.inf, 0.0, np.inf]), [3, 2, 1])


def test_ranks_from_lists():
    ranks = ranks_from_lists([["b", "a"], [], ["c"]], classes=["a", "b", "c"])
    np.testing.assert_array_equal(ranks, [[2, 1, nan], [nan, nan, nan], [nan, nan, 1]])


def test_smallest_integers_are_the_smallest():
    for dtype in (np.int8, np.int64):
        scores = np.array([np.iinfo(dtype).min, 0, 5, 0], dtype=dtype)
        np.testing.assert_array_equal(ranks_from_scores(scores), [4, 2, 1, 3])


@pytest.mark.parametrize(
    ("lists", "classes", "message"),
    [
        (["ba"], ["a", "b"], "row 0 is 'ba'"),
        ("ba", ["a", "b"], "got str"),
        ([{"a", "b"}], ["a", "b"], "one list of labels per row"),
        ([None], ["a", "b"], "row 0 is None"),
    ],
)
def test_lists_must_be_lists(lists, classes, message):
    with pytest.raises(TypeError, match=message):
        ranks_from_lists(lists, classes)


def test_codes_are_places_among_the_classes():
    for classes in (["b", "a", "c"], ("b", "a", "c"), np.array(["b", "a", "c"])):
        np.testing.assert_array_equal(codes_from_labels(["a", "c", "a"], classes), [1, 2, 1])
        with pytest.raises(ValueError, match=r"not among the classes: \['d'\]; these are \['b', "):
            codes_from_labels(["a", "d"], classes)
    np.testing.assert_array_equal(codes_from_labels(np.array([2, 1]), [1, 2]), [1, 0])
    for classes in (["a", "a"], [], np.zeros((2, 2)), "a"):
        with pytest.raises(ValueError, match="classes must be different labels, at least one"):
            codes_from_labels(["a"], classes)


def test_classes_of_lists_must_differ():
    with pytest.raises(ValueError, match="classes must be different labels"):
        ranks_from_lists([["a"]], ["a", "a"])


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([["a"], ["z"]], r"row 1 holds 'z', classes are \['a', 'b'\]"),
        ([["a", "b", "a"]], "row 0 repeats 'a'"),
    ],
)
def test_bad_lists(lists, message):
    with pytest.raises(ValueError, match=message):
        ranks_from_lists(lists, classes=["a", "b"])


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        ([[1, 2, 3], [1, 1, 3]], {}, r"permutation of 1..3 in every row, but row 1 is \[1, 1, 3\]"),
        ([[0, 1, 2]], {}, "permutation of 1..3"),
        ([[1, 2, nan]], {}, "row 0 contains NaN"),
        ([[1, 2, 3]], {"n_classes": 4}, "one column per label: 4, got 3"),
        ([[1, 1, nan]], {"partial": True}, "distinct whole ranks from 1 upwards"),
        ([[0, 1, nan]], {"partial": True}, "distinct whole ranks from 1 upwards"),
        ([[1.5, 1.7, 3.0]], {"partial": True}, "distinct whole ranks from 1 upwards"),
        ([], {}, r"shape \(n, K\)"),
        ([[1, 2], [1]], {}, "rows of equal length"),
        ([[1, np.inf, nan]], {"partial": True}, "distinct whole ranks from 1 upwards"),
        ([[[1, 2]]], {}, r"shape \(n, K\)"),
        ([["a", "b"]], {}, "must be numbers"),
    ],
)
def test_bad_ranks(ranks, options, message):
    with pytest.raises(ValueError, match=message):
        check_ranks(ranks, **options)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([[0, 0, 1]], "row 0 repeats one"),
        ([[0, 1, 3]], "codes from 0 to 2"),
        ([[0, 1, -2]], "codes from 0 to 2"),
        ([[0, 1, 1.5]], "codes from 0 to 2"),
    ],
)
def test_bad_order(order, message):
    with pytest.raises(ValueError, match=message):
        ranks_from_order(order)


@pytest.mark.parametrize("k", [0, 4, 1.0, True, "1"])
def test_bad_k(k):
    with pytest.raises(ValueError, match="k must be an integer from 1 to 3"):
        check_k(k, 3)


def test_lists_may_be_filled_up_with_nothing():
    lists = [["b", "a", None], ["c", np.nan, float("nan")], [None, None, None]]
    expected = ranks_from_lists([["b", "a"], ["c"], []], classes=["a", "b", "c"])
    np.testing.assert_array_equal(ranks_from_lists(lists, ["a", "b", "c"]), expected)
    with pytest.raises(ValueError, match=r"row 0 holds None, classes are"):
        ranks_from_lists([[None, "a"]], ["a", "b"])
    with pytest.raises(ValueError, match=r"row 0 holds \['a', 'b'\], classes are"):
        ranks_from_lists([["c", ["a", "b"]]], ["a", "b", "c"])


NAMES = ["d", "a", "c", "b", "e"]


def dense(ranks):
    """The array that sparse ranks stand for."""
    assert isinstance(ranks, csr_array)
    assert ranks.dtype == np.float64
    assert ranks.has_sorted_indices
    array = np.full(ranks.shape, nan)
    entries = ranks.tocoo()
    array[entries.row, entries.col] = entries.data
    return array


some_labels = st.lists(st.sampled_from(NAMES), unique=True)


@given(rows=st.lists(some_labels, min_size=1), data=st.data())
def test_choices_place_what_was_shown(rows, data):
    picked = [data.draw(st.sampled_from([None, *row])) for row in rows]
    ranks = ranks_from_choices(rows, picked, NAMES)
    for row, shown in enumerate(rows):
        for code, label in enumerate(NAMES):
            expected = nan
            if picked[row] is not None and label in shown:
                expected = 1 if label == picked[row] else 2
            np.testing.assert_equal(ranks[row, code], expected)
    np.testing.assert_array_equal(
        dense(ranks_from_choices(rows, picked, NAMES, sparse=True)), ranks
    )
    mask = np.array([[label in shown for label in NAMES] for shown in rows])
    np.testing.assert_array_equal(ranks_from_choices(mask, picked, NAMES), ranks)
    filled = np.array([[*shown, *[None] * (5 - len(shown))][::-1] for shown in rows], dtype=object)
    np.testing.assert_array_equal(ranks_from_choices(filled, picked, NAMES), ranks)
    np.testing.assert_array_equal(ranks_from_choices(map(set, rows), picked, NAMES), ranks)


@given(rows=st.lists(some_labels))
def test_sparse_lists_and_sets_are_the_dense_ones(rows):
    lists = ranks_from_lists(rows, NAMES)
    np.testing.assert_array_equal(dense(ranks_from_lists(rows, NAMES, sparse=True)), lists)
    sets = ranks_from_sets(map(set, rows), NAMES)
    np.testing.assert_array_equal(sets, np.where(np.isnan(lists), nan, 1))
    np.testing.assert_array_equal(dense(ranks_from_sets(rows, NAMES, sparse=True)), sets)


def test_pairs_are_choices_between_two():
    winners, losers = ["a", "c", "a"], np.array(["b", "a", "e"])
    ranks = ranks_from_pairs(winners, losers, NAMES)
    shown = list(zip(winners, losers, strict=True))
    np.testing.assert_array_equal(ranks, ranks_from_choices(shown, winners, NAMES))
    np.testing.assert_array_equal(
        dense(ranks_from_pairs(winners, losers, NAMES, sparse=True)), ranks
    )


def test_labels_of_choices_may_be_numbers_or_booleans():
    shown = np.array([[3, 1, nan], [2, nan, 3]])
    ranks = ranks_from_choices(shown, pd.Series([1, 3]), classes=range(4))
    np.testing.assert_array_equal(ranks, [[nan, 1, nan, 2], [nan, nan, 2, 1]])
    np.testing.assert_array_equal(
        ranks_from_choices(np.array([[True, False]]), [True], classes=[False, True]), [[2, 1]]
    )
    np.testing.assert_array_equal(
        ranks_from_choices([["a", "b"], ["a", "b"]], ["a", nan], ["a", "b"]), [[1, 2], [nan, nan]]
    )
    missing = pd.array(["a", None], dtype="string")
    np.testing.assert_array_equal(
        ranks_from_choices([["a", "b"], ["a", "b"]], missing, ["a", "b"]), [[1, 2], [nan, nan]]
    )


@pytest.mark.parametrize(
    ("shown", "picked", "message"),
    [
        ([["a"], ["b", "c"]], ["a", "e"], "row 1 picks 'e', shown are ['b', 'c']."),
        ([["a"], ["b", "z"]], ["a", "b"], "shown must hold labels of classes; row 1 holds 'z'"),
        ([["a"], ["b", "c"]], ["a", "z"], "picked must hold labels of classes; row 1 holds 'z'"),
        ([["a"], ["b", "c", "b"]], ["a", "b"], "shown must name a label once; row 1 repeats 'b'."),
        ([["a"], ["b", "c"]], ["a"], "picked must hold one label per row of shown: 2, got 1."),
        ([["a"]], np.array([["a", "b"]]), "picked must hold one label per row, got shape (1, 2)."),
        ([[["a"]]], ["a"], "row 0 holds ['a'], classes are ['d', 'a', 'c', 'b', 'e']."),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_bad_choices(shown, picked, message, sparse):
    with pytest.raises(ValueError, match=re.escape(message)):
        ranks_from_choices(shown, picked, NAMES, sparse=sparse)


@pytest.mark.parametrize(
    ("winners", "losers", "message"),
    [
        (["a", "b"], ["b", "b"], "losers must differ from winners; row 1 holds 'b' in both."),
        (["a", None], ["b", "a"], "winners must hold labels of classes; row 1 holds None"),
        (["a"], ["z"], "losers must hold labels of classes; row 0 holds 'z'"),
        (["a"], ["b", "c"], "losers must hold one label per row of winners: 1, got 2."),
    ],
)
def test_bad_pairs(winners, losers, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ranks_from_pairs(winners, losers, NAMES)


def test_bad_sets():
    with pytest.raises(TypeError, match="sets must hold one list of labels per row; row 1 is 'ab'"):
        ranks_from_sets([["a"], "ab"], NAMES)
    with pytest.raises(
        TypeError, match="sets must be a sequence of lists of labels, got DataFrame"
    ):
        ranks_from_sets(pd.DataFrame([["a", "b"]]), NAMES)
    with pytest.raises(ValueError, match="sets must name a label once; row 0 repeats 'a'"):
        ranks_from_sets([["a", "a"]], NAMES)


def test_of_many_classes_only_a_few_are_told():
    with pytest.raises(ValueError, match=r"classes are \[0, 1, .*, 9, …\] \(1000 labels\)\.$"):
        ranks_from_sets([[1000]], range(1000))


def test_sparse_ranks_need_no_array_of_all_labels():
    """An array of 30,000 rows and 100,000 labels would have 24 GB."""
    shown = np.arange(90_000).reshape(-1, 3)
    ranks = ranks_from_choices(shown, shown[:, 1], range(100_000), sparse=True)
    assert ranks.shape == (30_000, 100_000)
    np.testing.assert_array_equal(ranks.indices, shown.ravel())
    np.testing.assert_array_equal(ranks.data, np.tile([2, 1, 2], 30_000))
