import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.rankings import (
    check_k,
    check_ranks,
    codes_from_labels,
    order_from_ranks,
    order_from_scores,
    ranks_from_lists,
    ranks_from_order,
    ranks_from_scores,
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
