"""Any fitted classifier: its labels, and a score for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from duelrank._pairs import n_pairs
from duelrank._sklearn import is_parameter, predictor_inside


def known_labels(estimator: Any) -> NDArray[Any]:
    """Return the labels of a fitted classifier, and raise for anything else.

    Parameters
    ----------
    estimator : fitted classifier, pipeline or search
        Anything with one vector ``classes_``.
    """
    if hasattr(estimator, "fit") and not hasattr(estimator, "classes_"):
        check_is_fitted(estimator)  # takes longer than the ranking of one point
    if not hasattr(estimator, "classes_") or isinstance(estimator.classes_, list):
        raise TypeError(
            "estimator must be a fitted single-output classifier, "
            f"got an instance of {type(estimator).__name__}."
        )
    return np.asarray(estimator.classes_)


def label_scores(estimator: Any, X: Any) -> NDArray[np.float64]:
    """Return one score per label from any fitted classifier.

    Parameters
    ----------
    estimator : fitted classifier, pipeline or search
        As in `duelrank.predict_ranks`.
    X : array-like with n rows
        Query points.

    Returns
    -------
    scores : ndarray of shape (n, K)
        Columns follow ``estimator.classes_``. They are those of ``decision_function``, where two
        labels get both signs, or else of ``predict_proba``.
    """
    n_classes = len(known_labels(estimator))
    shapes = []
    for method in ("decision_function", "predict_proba"):
        if not hasattr(estimator, method):
            continue
        scores = np.asarray(getattr(estimator, method)(X))
        if np.isnan(scores).any():
            raise ValueError(f"{method} of {estimator!r} contains NaN.")
        if scores.ndim == 1 and n_classes == 2:
            return np.stack([-scores, scores], axis=1)
        # Three labels have as many pairs: only then parameters tell what the scores are of.
        may_score_pairs = method == "decision_function" and scores.shape[1:] == (
            n_pairs(n_classes),
        )
        if may_score_pairs and _scores_pairs(estimator):
            shapes.append(
                "decision_function scores pairs of labels (decision_function_shape='ovo')"
            )
        elif scores.shape[1:] == (n_classes,):
            return scores
        else:
            shapes.append(f"{method} has shape {scores.shape}")
    raise TypeError(
        "estimator must score every label by decision_function or predict_proba, "
        f"but {'; '.join(shapes) or 'it has neither'}: {estimator!r}."
    )


def log_probabilities(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of probabilities; that of 0 is −inf, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _scores_pairs(estimator: Any) -> bool:
    """Tell a support vector machine with one score per pair, also inside a pipeline or search."""
    # A frozen estimator does not tell the parameters of the one inside.
    params = [*estimator.get_params().items(), *predictor_inside(estimator).get_params().items()]
    return len(estimator.classes_) > 2 and any(
        is_parameter(name, "decision_function_shape") and value == "ovo" for name, value in params
    )
