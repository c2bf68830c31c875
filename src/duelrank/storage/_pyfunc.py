"""Model files in MLflow, as functions from tables to labels.

MLflow calls such a model a *pyfunc*. It keeps a model file and the name of a module, and calls
`_load_pyfunc` of the module to open the file. With ``loader_module="duelrank.storage"``, the file
is opened as by `load`. MLflow itself is not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duelrank.storage._loading import load_with_description


class FirstLabels:
    """A model whose predictions are the first labels of its rankings.

    Parameters
    ----------
    model : DuelRanker, pipeline, search or Shortlister
        The loaded model.
    k : int or None
        How many labels; None for all of them.
    has_columns : bool
        Whether the model was fitted on columns with names.
    """

    def __init__(self, model: Any, k: int | None, has_columns: bool) -> None:
        from duelrank.storage._columns import takes_texts

        self.model, self.k = model, k
        self._has_columns, self._takes_texts = has_columns, takes_texts(model)

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return labels, best first.

        Parameters
        ----------
        model_input : dataframe or array-like with n rows
            Query points.
        params : mapping, default=None
            MLflow passes it on. There are no parameters.

        Returns
        -------
        labels : ndarray of shape (n, k)
            One row per point.
        """
        from duelrank.rankers import predict_order, predict_top

        X = self._as_points(model_input)
        return (
            predict_order(self.model, X) if self.k is None else predict_top(self.model, X, self.k)
        )

    def _as_points(self, table: Any) -> Any:
        """Turn what MLflow makes of a request, a dataframe, into what the model was fitted on."""
        if not hasattr(table, "columns") or (self._has_columns and not self._takes_texts):
            return table
        values = table.to_numpy()
        if not self._takes_texts:
            return values
        if values.shape[1] != 1:
            raise ValueError(
                f"model_input must have one column, the texts, got {list(table.columns)[:10]}."
            )
        return values[:, 0].tolist()


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> FirstLabels:
    """Load a model file for MLflow.

    Parameters
    ----------
    path : path
        The model file.
    model_config : mapping, default=None
        ``"k"``: how many labels predictions have, by default all. Nothing else counts.

    Returns
    -------
    model : FirstLabels
        What MLflow calls for predictions.
    """
    model, description = load_with_description(path)
    if hasattr(model, "predict_intervals"):
        model = model.estimator_  # labels have no use for intervals of places
    return FirstLabels(model, (model_config or {}).get("k"), bool(description.columns))
