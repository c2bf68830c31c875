from itertools import combinations

import numpy as np
import pytest

from duelrank import pairs
from duelrank._pairs import n_pairs, square_margins, square_probabilities


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_pairs_are_lexicographic(n_classes):
    first, second = pairs(n_classes)
    assert list(zip(first, second, strict=True)) == list(combinations(range(n_classes), 2))
    assert n_pairs(n_classes) == len(first)


def test_positive_margin_means_second_beats_first():
    square = square_margins(np.array([[1.0, -2.0, 3.0]]), 3)
    assert square[0, 1, 0] == 1  # duel (0, 1): second won
    assert square[0, 0, 2] == 2  # duel (0, 2): first won
    assert square[0, 2, 1] == 3
    np.testing.assert_array_equal(square, -np.swapaxes(square, 1, 2))


def test_square_probabilities_are_complementary():
    square = square_probabilities(np.array([[0.9, 0.2, 0.5]]), 3)
    assert square[0, 1, 0] == 0.9
    np.testing.assert_allclose(square + np.swapaxes(square, 1, 2), 1)
