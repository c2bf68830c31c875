"""What a ranker learns from, out of the y that users give."""

from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from duelrank._training import encode, encode_blocks
from duelrank.blocks import LabeledBlocks, RowBlocks, _dask

RANKER = SimpleNamespace(classes=None, unplaced="behind")


@pytest.fixture
def no_client(monkeypatch):
    monkeypatch.setattr(_dask, "has_client", lambda: False)


def test_labels_become_codes_and_nothing_given_is_changed():
    X, y = np.arange(6.0).reshape(3, 2), np.array(["pear", "fig", "pear"])
    before = X.copy(), y.copy()
    training = encode(RANKER, X, y)
    assert training.X is X
    np.testing.assert_array_equal(training.classes, ["fig", "pear"])
    np.testing.assert_array_equal(training.feedback, [1, 0, 1])
    np.testing.assert_array_equal(training.ranks, [[2, 1], [1, 2], [2, 1]])
    for given, copy in zip((X, y), before, strict=True):
        np.testing.assert_array_equal(given, copy)
    with pytest.raises(FrozenInstanceError):
        training.classes = np.arange(2)


def test_ranks_follow_the_sorted_labels_and_stay_as_they_were_given():
    ranks = pd.DataFrame({"pear": [1.0, 3.0], "fig": [2.0, 1.0], "kiwi": [np.nan, 2.0]})
    copy = ranks.copy()
    training = encode(RANKER, np.zeros((2, 1)), ranks)
    np.testing.assert_array_equal(training.classes, ["fig", "kiwi", "pear"])
    np.testing.assert_array_equal(training.rank_columns, ["pear", "fig", "kiwi"])
    np.testing.assert_array_equal(training.feedback, [[2, 3, 1], [1, 2, 3]])
    pd.testing.assert_frame_equal(ranks, copy)


def test_blocks_bring_their_labels_along(no_client):
    X = RowBlocks.from_array(np.arange(8.0).reshape(4, 2), 3)
    y, weights = np.array(["pear", "fig", "pear", "fig"]), np.array([1.0, 2.0, 3.0, 0.0])
    training = encode_blocks(RANKER, X, y, weights)
    assert isinstance(training.X, LabeledBlocks)
    assert training.feedback is None
    np.testing.assert_array_equal(training.classes, ["fig", "pear"])
    np.testing.assert_array_equal(training.X.census.weights, [2, 4])
    with pytest.raises(FrozenInstanceError):
        training.X.classes = np.arange(2)


def test_all_labels_may_be_named(no_client):
    X = RowBlocks.from_array(np.arange(8.0).reshape(4, 2), 3)
    named = SimpleNamespace(classes=["pear", "fig", "kiwi"])
    y = np.array(["pear", "fig", "pear", "fig"])
    training = encode_blocks(named, X, y, None)
    np.testing.assert_array_equal(training.X.classes, ["fig", "kiwi", "pear"])
    with pytest.raises(ValueError, match=r"not among classes: \['fig'\]; these are"):
        encode_blocks(SimpleNamespace(classes=["pear", "kiwi"]), X, y, None)
    with pytest.raises(ValueError, match="at least two different classes"):
        encode_blocks(RANKER, X, np.full(4, "fig"), None)


def test_there_must_be_something_to_learn(no_client):
    with pytest.raises(ValueError, match="requires y to be passed"):
        encode(RANKER, np.zeros((2, 1)), None)
    with pytest.raises(ValueError, match="requires y to be passed"):
        encode_blocks(RANKER, RowBlocks.from_array(np.zeros((2, 1))), None, None)
