"""The shortlists of a model, wherever they are in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from duelrank.shortlists._shortlister import Shortlister


def n_labels_together(shortlister: Shortlister) -> int:
    """Count the labels that were too rare to be calibrated each on its own, if that was asked for.

    Parameters
    ----------
    shortlister : Shortlister
        Fitted.
    """
    if shortlister.by != "label" or shortlister.label_groups_ is None:
        return 0
    sizes = np.bincount(shortlister.label_groups_)
    return int(sizes[sizes > 1].sum())


def shortlister_inside(model: Any) -> tuple[Shortlister | None, list[Any]]:
    """Find what makes the shortlists of a model.

    Parameters
    ----------
    model : fitted estimator
        Shortlists, or a pipeline or search that ends in them, or any other model.

    Returns
    -------
    shortlister : Shortlister or None
        None if the model makes no shortlists.
    transformers : list of transformers
        What points pass before they come to the shortlister.
    """
    transformers: list[Any] = []
    while not isinstance(model, Shortlister):
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        elif isinstance(model, Pipeline):
            steps = [step for _, step in model.steps]
            transformers += [s for s in steps[:-1] if s is not None and s != "passthrough"]
            model = steps[-1]
        else:
            return None, []
    return model, transformers
