"""Predictions for rows that come in blocks: ordinary predictions, one for each block.

`predict_by_blocks` is the one wrapper around what predicts. `refuse_blocks` is for what cannot take
blocks. Each block is answered by the process that has it, and the model is the result of one task,
from which workers copy it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from duelrank._classifiers import known_labels
from duelrank.blocks._dask import as_task
from duelrank.blocks._sources import RowBlocks, in_blocks, is_dask_frame

# Takes a classifier and points; returns (n, K) scores or probabilities.
Scores = Callable[[Any, Any], NDArray[Any]]
# Takes a classifier and such scores; returns what is predicted.
Answer = Callable[[Any, NDArray[Any]], NDArray[Any]]


def predict_by_blocks(name: str, scores: Scores, answer: Answer, estimator: Any, X: Any) -> Any:
    """Return ``answer(estimator, scores(estimator, X))``; of Dask, a Dask array to be computed.

    Parameters
    ----------
    name : str
        What Dask shows as the name of the tasks.
    scores : callable
        Scores labels. Like `answer`, it is a function of a module, because it travels.
    answer : callable
        Turns scores into the prediction. What it returns for no rows tells Dask the columns and the
        type.
    estimator : fitted classifier
        The classifier.
    X : rows in memory, or Dask array or dataframe
        Query points.
    """
    if not in_blocks(X):
        return answer(estimator, scores(estimator, X))
    if isinstance(X, RowBlocks):
        raise TypeError(
            "X must be rows in memory or a Dask array or dataframe, "
            f"got {X!r}; duelrank.blocks.write_rankings ranks it into files."
        )
    empty = answer(estimator, np.empty((0, len(known_labels(estimator)))))
    _check_columns(estimator, X)
    predict = partial(_predict_block, scores, answer, empty)
    return _mapped(name, predict, X, as_task(estimator), empty)


def refuse_blocks(X: Any, advice: str) -> None:
    """Raise if rows come in blocks where they have to be in memory.

    Parameters
    ----------
    X : anything
        The points.
    advice : str
        What to do instead.
    """
    if in_blocks(X):
        raise TypeError(f"X must be rows in memory, got {type(X).__name__}; {advice}.")


def _check_columns(estimator: Any, X: Any) -> None:
    """Compare number and names of features with those of fit, before any row is made."""
    if hasattr(estimator, "n_features_in_") and isinstance(estimator, BaseEstimator):
        head = X._meta if is_dask_frame(X) else np.empty((0, *X.shape[1:]))
        if head.ndim == 2:
            validate_data(estimator, head, reset=False, skip_check_array=True)


def _predict_block(
    scores: Scores, answer: Answer, empty: NDArray[Any], block: Any, estimator: Any
) -> NDArray[Any]:
    return answer(estimator, scores(estimator, block)) if block.shape[0] else empty


def _mapped(
    name: str, predict: Callable[[Any, Any], NDArray[Any]], X: Any, model: Any, empty: NDArray[Any]
) -> Any:
    """Return the Dask array of ``predict(block, model)`` for all blocks of rows."""
    import dask.array as da

    if is_dask_frame(X):
        from dask import delayed

        run = delayed(predict, pure=False)
        shape = (np.nan, *empty.shape[1:])
        answers = [run(part, model) for part in RowBlocks.from_dask(X).parts]
        blocks = [da.from_delayed(part, shape, meta=empty) for part in answers]
        return da.concatenate(blocks, axis=0, allow_unknown_chunksizes=True)
    return da.blockwise(
        predict,
        "ik"[: empty.ndim],
        X,
        "ij"[: X.ndim],
        model,
        None,
        new_axes=dict(zip("k", empty.shape[1:])),
        concatenate=True,  # of blocks of columns, if there are any
        meta=empty,
        token=name,
    )
