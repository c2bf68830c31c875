"""Predictions of rows that come in blocks: one wrapper around ordinary functions."""

import numpy as np
import pytest

da = pytest.importorskip("dask.array", reason="needs the extra dask")

import dask  # noqa: E402

from duelrank import DuelRanker, predict_order, predict_ranks, predict_top  # noqa: E402
from duelrank.blocks import RowBlocks, predict_by_blocks  # noqa: E402

METHODS = [
    "predict",
    "decision_function",
    "predict_ranks",
    "predict_order",
    "predict_proba",
    "predict_log_proba",
]


@pytest.fixture(params=[2, 3])
def model(request, iris):
    X, y = iris
    kept = y < request.param
    return DuelRanker(random_state=0).fit(X[kept], np.array(["a", "b", "c"])[y[kept]])


@pytest.mark.parametrize("method", METHODS)
def test_tasks_are_named_and_typed_before_they_are_computed(model, method, iris):
    X = iris[0]
    lazy = getattr(model, method)(da.from_array(X, chunks=(40, -1)))
    expected = getattr(model, method)(X)
    assert lazy.name.startswith(f"{method}-")
    assert lazy.shape == expected.shape
    assert lazy.dtype == expected.dtype
    assert lazy.chunks[0] == (40, 40, 40, 30)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(lazy.compute(), expected)


def test_free_functions_do_the_same(model, iris):
    X = iris[0]
    lazy = da.from_array(X, chunks=(40, -1))
    with dask.config.set(scheduler="synchronous"):
        for predict in (predict_ranks, predict_order):
            assert predict(model, lazy).name.startswith(f"{predict.__name__}-")
            np.testing.assert_array_equal(predict(model, lazy).compute(), predict(model, X))
        assert predict_top(model, lazy, 2).name.startswith("predict_top-")
        np.testing.assert_array_equal(
            predict_top(model, lazy, 2).compute(), predict_top(model, X, 2)
        )


def scores(estimator, X):
    return np.tile([3.0, 1.0, 2.0], (len(X), 1))


def best(estimator, scores):
    return estimator.classes_[scores.argmax(axis=1)]


def test_any_function_of_scores_is_wrapped():
    class Model:
        classes_ = np.array([10, 20, 30])

    np.testing.assert_array_equal(
        predict_by_blocks("best", scores, best, Model(), np.zeros((2, 1))), [10, 10]
    )
    lazy = predict_by_blocks("best", scores, best, Model(), da.zeros((5, 1), chunks=2))
    assert lazy.dtype == np.intp
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(lazy.compute(), [10] * 5)
    with pytest.raises(TypeError, match=r"X must be rows in memory .*write_rankings"):
        predict_by_blocks("best", scores, best, Model(), RowBlocks.from_array(np.zeros((2, 1))))
