"""What competitors share: any feedback in, scores without ties out, no label favoured.

A competitor says how it learns and how it scores. It sees the labels numbered by an order drawn at
fit. So where it prefers the lower of two codes, chance decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._label_ranker import LabelRanker
from duelrank._sklearn import check_sample_weight, take_rows
from duelrank._training import encode
from duelrank.blocks import refuse_blocks
from duelrank.feedback import reveals_nothing
from duelrank.tournaments import without_ties


class Competitor(LabelRanker):
    """Parent of the competitors: children have `_learn`, `_scores` and these parameters.

    ``_learn(X, ranks, weights, rng)`` gets the rows that place some label ahead of another one and
    have a positive weight, their ranks as in `Feedback`, and weights or None. It returns the
    attributes that were learned and sets none of them: a fit that fails leaves the ranker as it
    was. ``_scores(X)`` returns (n, K) scores; equal ones are told apart here. The columns of both
    follow `label_order_`.
    """

    classes: Any
    unplaced: str
    random_state: Any

    def _learn(
        self,
        X: Any,
        ranks: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        rng: np.random.RandomState,
    ) -> dict[str, Any]:
        raise NotImplementedError

    def _scores(self, X: Any) -> NDArray[np.float64]:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn to rank.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            The points; whatever the estimator inside takes, if there is one.
        y : array-like of shape (n,) or (n, K), or sparse of shape (n, K)
            Class labels, at least two different ones; or ranks, one column per label, 1 for the
            best and NaN (or no stored entry) for labels without a place. Labels at the same place
            are tied. The columns are named by `classes`, by a dataframe, or else 0..K−1.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights of the rows.

        Returns
        -------
        self : estimator
            The fitted ranker.
        """
        refuse_blocks(X, f"{type(self).__name__} does not learn from blocks, DuelRanker does")
        points = self._as_points(X)
        targets = encode(self, points, y)
        ranks = targets.ranks
        used = ~reveals_nothing(ranks)
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, points)
            used &= weights > 0
            if not used.any():
                raise ValueError(
                    "sample_weight must be positive for a row that places one label ahead of "
                    "another; it is zero for all of them."
                )
            weights = weights[used]
        rng = check_random_state(self.random_state)
        label_order = rng.permutation(len(targets.classes))
        rows = np.flatnonzero(used)
        learned = self._learn(take_rows(points, rows), ranks[rows][:, label_order], weights, rng)
        validate_data(self, X, skip_check_array=True)  # sets the features' number and names
        learned |= {
            "classes_": targets.classes,
            "label_order_": label_order,
            "unplaced_": targets.unplaced,
            "n_silent_rows_": targets.n_silent_rows,
            "rank_columns_": targets.rank_columns,
        }
        for name, value in learned.items():
            setattr(self, name, value)
        return self

    def _label_scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        points = self._as_points(X)
        if hasattr(self, "n_features_in_") and len(points.shape) < 2:
            raise ValueError(
                f"X must be 2D, one row per point, got shape {points.shape}. Reshape your data "
                "with X.reshape(1, -1) if it is a single point."
            )
        validate_data(self, X, reset=False, skip_check_array=True)
        scores = self._scores(points)
        in_drawn_order = without_ties(scores, np.arange(scores.shape[1]))
        return in_drawn_order[:, np.argsort(self.label_order_)]

    def _as_points(self, X: Any) -> Any:
        """Check what the points are, and return them in a form whose rows can be taken."""
        accepts = get_tags(self).input_tags
        return check_array(
            X,
            accept_sparse="csr" if accepts.sparse else False,
            ensure_all_finite="allow-nan" if accepts.allow_nan else True,
            estimator=self,
            input_name="X",
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")
