"""Columns of a table as arrays, for steps of scikit-learn that take no pyarrow.

A ColumnTransformer takes tables of pyarrow, but hands columns on as they are: the values of a
single column are no str, and columns that should pass through are a table of a kind that
scikit-learn does not write. The steps that get such columns are given arrays in their place, and
empty texts for missing ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def as_texts(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Return a column of text as an array of str; missing text is empty."""
    import numpy as np

    texts = ["" if text is None else text for text in column.to_pylist()]
    return np.array(texts, dtype=object)


def give_arrays(model: Any) -> None:
    """Let every ColumnTransformer in a fitted model give arrays to steps that take no pyarrow.

    Parameters
    ----------
    model : fitted estimator
        It is changed, and ranks as before otherwise.
    """
    from sklearn.base import BaseEstimator
    from sklearn.compose import ColumnTransformer

    seen: set[int] = set()
    waiting = [model]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, BaseEstimator):
            waiting.extend(vars(thing).values())
        elif isinstance(thing, (list, tuple)):
            waiting.extend(part for part in thing if not isinstance(part, (str, int)))
        elif isinstance(thing, dict):
            waiting.extend(thing.values())
        if isinstance(thing, ColumnTransformer) and hasattr(thing, "transformers_"):
            thing.transformers_ = [
                (name, _TakesArrays(step) if _needs_array(step, columns) else step, columns)
                for name, step, columns in thing.transformers_
            ]


def _needs_array(step: Any, columns: Any) -> bool:
    from sklearn.preprocessing import FunctionTransformer

    if type(step).__module__.startswith("duelrank."):
        return False  # ours take pyarrow
    is_single = isinstance(columns, (str, int)) and hasattr(step, "transform")
    return is_single or (isinstance(step, FunctionTransformer) and step.func is None)


class _TakesArrays:
    """A fitted step that gets columns of pyarrow as arrays."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def transform(self, X: Any, **params: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        if isinstance(X, pa.Table):
            X = np.column_stack([X[name].to_numpy() for name in X.column_names])
        elif isinstance(X, pa.ChunkedArray):
            X = as_texts(X) if pa.types.is_string(X.type) else X.to_numpy()
        return self.step.transform(X, **params)

    def get_feature_names_out(self, names: Any = None) -> Any:
        return self.step.get_feature_names_out(names)
