from itertools import combinations

import numpy as np
import pytest

from duelrank import pairs
from duelrank._pairs import n_pairs, square


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_pairs_are_lexicographic(n_classes):
    first, second = pairs(n_classes)
    assert list(zip(first, second, strict=True)) == list(combinations(range(n_classes), 2))
    assert n_pairs(n_classes) == len(first)


def test_positive_margin_means_second_beats_first():
    matrix = square(np.array([[1.0, -2.0, 3.0]]), 3)
    assert matrix[0, 1, 0] == 1  # duel (0, 1): second won
    assert matrix[0, 0, 2] == 2  # duel (0, 2): first won
    assert matrix[0, 2, 1] == 3
    np.testing.assert_array_equal(matrix, -np.swapaxes(matrix, 1, 2))


@pytest.mark.parametrize("n_classes", [0, -1, 2.5, "3", None])
def test_bad_number_of_classes(n_classes):
    with pytest.raises(ValueError, match="n_classes must be a positive integer"):
        pairs(n_classes)
