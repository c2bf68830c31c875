"""StumpDuels: the best threshold on one feature, for every duel.

A stump predicts the second label of its duel on one side of a threshold and the first label on
the other. StumpDuels finds a feature, a threshold and a side with the fewest (weighted) training
errors: it minimises the empirical 0-1 risk exactly.

All duels share one sort per feature. Along the sorted rows, the errors of a duel are a running sum
over its own rows. If rows have single labels, this sum is the difference of two running counts, one
for each label: K counts serve all duels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from duelrank._batches import batches
from duelrank._pairs import n_pairs, pairs
from duelrank._progress import Progress
from duelrank._sklearn import with_callbacks
from duelrank.duels._points import validated_points
from duelrank.duels._protocol import Engine, check_counts, is_finite_array
from duelrank.duels._sides import DuelRows, check_rows, count_sides, split_by

BATCH_BYTES = 2**24  # of the running counts of some labels
ROUNDING = 1e-9  # of probabilities in files of earlier versions


class StumpDuels(Engine):
    """Duels fought by decision stumps that minimise the training error exactly.

    Parameters
    ----------
    verbose : bool, default=False
        Whether to show progress over the features on standard error.

    Attributes
    ----------
    feature_ : ndarray of int, of shape (K(K−1)/2,)
        Feature of every duel.
    threshold_ : ndarray of float, of shape (K(K−1)/2,)
        Half way between two neighbouring rows of the duel; −inf if one label is always predicted.
    sign_ : ndarray of int, of shape (K(K−1)/2,)
        1 if the second label wins above the threshold, −1 if the first does, 0 if no stump
        does better than a coin.
    training_error_ : ndarray of float, of shape (K(K−1)/2,)
        Weighted share of misclassified training rows of the duel; 0 for an empty duel.
    leaf_probabilities_ : ndarray of float, of shape (K(K−1)/2, 2)
        Share of the second label below and above the threshold, with one more row of each
        label added on both sides (Laplace). Weights should therefore count rows, not sum to 1.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.1], [0.2], [0.4], [0.6]])
    >>> duels = StumpDuels().fit(X, np.array([0, 0, 1, 1]), n_classes=2)
    >>> duels.threshold_.round(3), duels.training_error_
    (array([0.3]), array([0.]))
    """

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, feedback: Any, n_classes: int, sample_weight: Any = None) -> StumpDuels:
        """Find the best stump of every duel.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Finite numbers.
        feedback : array-like of int, of shape (n,), or of float, of shape (n, K)
            Codes, labels as integers 0..K−1; or ranks: the lower of two wins their duel, equal
            ones and NaN say nothing.
        n_classes : int
            Number of labels K.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self : StumpDuels
            The fitted engine.
        """
        X, feedback, weights = check_rows(
            self, X, feedback, n_classes, sample_weight, dtype=(np.float64, np.float32), order="F"
        )
        seen = weights > 0
        if not seen.all():
            X, feedback, weights = X[seen], feedback[seen], weights[seen]

        best = _BestStumps(count_sides(feedback, n_classes, weights))
        weights = _as_counts_if_whole(weights)
        with Progress(self, X.shape[1], "feature", self.verbose) as progress:
            for feature in range(X.shape[1]):
                _search_feature(best, feature, X[:, feature], feedback, n_classes, weights)
                progress.step()

        self.feature_ = best.feature
        self.threshold_ = best.threshold
        self.sign_ = best.sign
        total = best.total.sum(axis=1)
        self.training_error_ = np.divide(
            best.error, total, out=np.zeros(len(total)), where=total > 0
        )
        # Rounding may leave less than nothing on the right.
        leaves = np.stack([best.left, np.maximum(best.total - best.left, 0)], axis=1)
        self.leaf_probabilities_ = (leaves[..., 1] + 1) / (leaves.sum(axis=-1) + 2)
        return self

    def margins(self, X: Any) -> NDArray[np.float64]:
        """Return 1 where the second label wins its duel, −1 where the first does, 0 for a coin.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        margins : ndarray of shape (n, K(K−1)/2)
            Signs.
        """
        above = self._above(X)
        sign = self.sign_.astype(np.float64)
        return np.where(above, sign, -sign)

    def probabilities(self, X: Any) -> NDArray[np.float64]:
        """Return the share of the second label on the point's side of the threshold.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Query points.

        Returns
        -------
        probabilities : ndarray of shape (n, K(K−1)/2)
            One column per duel.
        """
        above = self._above(X)
        return np.where(above, self.leaf_probabilities_[:, 1], self.leaf_probabilities_[:, 0])

    def check_fitted(self, n_classes: int) -> None:
        """Check that the fitted arrays fit together.

        Parameters
        ----------
        n_classes : int
            Number of labels K.

        Raises
        ------
        ValueError
            If they do not, as in a file that was altered.
        """
        n_duels = n_pairs(n_classes)
        check_counts(
            self.feature_.shape == self.threshold_.shape == self.sign_.shape == (n_duels,)
            and self.leaf_probabilities_.shape == (n_duels, 2)
            and self.feature_.dtype.kind == "i"
            and ((self.feature_ >= 0) & (self.feature_ < self.n_features_in_)).all()
            and self.sign_.dtype.kind == "i"
            and self.threshold_.dtype.kind == "f"
            and not np.isnan(self.threshold_).any()
            and is_finite_array(self.leaf_probabilities_, "f", (n_duels, 2))
        )
        signs, shares = self.sign_, self.leaf_probabilities_
        if not (
            ((signs >= -1) & (signs <= 1)).all()
            and ((shares >= -ROUNDING) & (shares <= 1 + ROUNDING)).all()
        ):
            raise ValueError("the stumps have signs or probabilities that cannot be")

    def _above(self, X: Any) -> NDArray[np.bool_]:
        check_is_fitted(self, "sign_")
        X = validated_points(self, X, dtype=(np.float64, np.float32))
        above: NDArray[np.bool_] = X[:, self.feature_] > self.threshold_
        return above


class _BestStumps:
    """The best stump of every duel so far. At first it always predicts the more frequent label."""

    def __init__(self, sides: NDArray[np.float64]) -> None:
        self.total = sides.T
        n_duels = len(self.total)
        self.feature = np.zeros(n_duels, dtype=np.intp)
        self.threshold = np.full(n_duels, -np.inf)
        # Sums of fractions are rounded: errors that differ by less are equal.
        self.negligible = 1e-12 * self.total.sum(axis=1)
        lead = self.total[:, 1] - self.total[:, 0]
        self.sign = np.sign(np.where(np.abs(lead) <= self.negligible, 0, lead)).astype(np.intp)
        self.error = self.total.min(axis=1)
        self.left = np.zeros((n_duels, 2))


class _SortedFeature(NamedTuple):
    """A feature: its number, its values in increasing order, and the weights of their rows."""

    number: int
    values: NDArray[np.floating]
    weights: NDArray[Any]


def _as_counts_if_whole(weights: NDArray[np.float64]) -> NDArray[Any]:
    """Return whole weights as integers, which have half the bytes and are summed exactly."""
    is_whole = weights.sum() <= np.iinfo(np.int32).max and (weights == np.floor(weights)).all()
    return weights.astype(np.int32) if is_whole else weights


def _search_feature(
    best: _BestStumps,
    number: int,
    values: NDArray[np.floating],
    feedback: NDArray[Any],
    n_classes: int,
    weights: NDArray[Any],
) -> None:
    """Improve every duel's stump with the thresholds of one feature."""
    # Sums of counts do not depend on the order of equal values, and a stable sort is slower.
    are_counts = weights.dtype.kind == "i"
    by_value = np.argsort(values, kind="quicksort" if are_counts else "stable")
    feature = _SortedFeature(number, values[by_value], weights[by_value])
    if feedback.ndim == 1:
        _search_labels(best, feature, feedback[by_value], n_classes)
        return
    rows = DuelRows(feedback[by_value], n_classes)
    for duel, labels in enumerate(zip(*pairs(n_classes), strict=True)):
        places, second_won = rows.of(*labels)
        _search_duel(best, duel, feature, places, second_won > 0)


class _RunningCount(NamedTuple):
    """Where a label has rows, and the weight of its rows up to there.

    A place is the number of a value among the different values of the feature.
    """

    places: NDArray[np.intp]
    weights: NDArray[Any]

    def at(self, place: int) -> tuple[Any, list[int]]:
        """Return the weight up to a place, and the label's next place, if there is one."""
        after = int(np.searchsorted(self.places, place, side="right"))
        return (self.weights[after - 1] if after else 0.0), self.places[after : after + 1].tolist()

    def at_all(self, n_places: int) -> NDArray[Any]:
        """Return the weight up to every place."""
        steps = np.diff(self.places, prepend=0, append=n_places)
        zero = np.zeros(1, dtype=self.weights.dtype)
        return np.repeat(np.concatenate([zero, self.weights]), steps)


def _search_labels(
    best: _BestStumps, feature: _SortedFeature, codes: NDArray[np.intp], n_classes: int
) -> None:
    """Improve the stumps of all duels of rows with single labels.

    If label a is predicted up to a cut and label b above it, the errors are W_a − A + B, where A
    and B are the weights of their rows up to the cut. They are fewest right after a row of a.
    """
    is_end = np.append(feature.values[1:] != feature.values[:-1], True)
    ends, place = np.flatnonzero(is_end), np.cumsum(is_end) - is_end
    counts = []
    for rows in split_by(codes, n_classes):
        places = place[rows]
        weights = np.cumsum(feature.weights[rows], dtype=feature.weights.dtype)
        is_last = np.append(places[1:] != places[:-1], True)[: len(rows)]
        counts.append(_RunningCount(places[is_last], weights[is_last]))

    first, second = pairs(n_classes)
    total, negligible = np.zeros(n_classes), np.zeros((n_classes, n_classes))
    total[first], total[second] = best.total.T
    negligible[first, second] = negligible[second, first] = best.negligible
    errors = np.tile(total[:, None], n_classes)  # of a below the cut and b above it
    cuts = np.zeros((n_classes, n_classes), dtype=np.intp)
    for some in batches(n_classes, max(1, BATCH_BYTES // (8 * len(ends)))):
        others = np.arange(n_classes)[some]
        upto = np.empty((len(others), len(ends)), dtype=feature.weights.dtype)
        for b, running in zip(others, upto, strict=True):
            running[:] = counts[b].at_all(len(ends))
        for a, own in enumerate(counts):
            if len(own.places) == 0:
                continue
            excess = upto.take(own.places, axis=1)
            excess -= own.weights
            number, first_least = np.arange(len(others)), excess.argmin(axis=1)
            if excess.dtype.kind == "f":  # what is equal may be rounded
                least = excess[number, first_least] + negligible[a, others]
                first_least = np.argmax(excess <= least[:, None], axis=1)
            cuts[a, others] = own.places[first_least]
            errors[a, others] = total[a] + excess[number, first_least]

    above, below = errors[first, second], errors[second, first]
    # Of equal errors the earlier cut is taken, so that neither label is favoured.
    equal = np.abs(above - below) <= best.negligible
    rising = np.where(equal, cuts[first, second] < cuts[second, first], above < below)
    error = np.where(rising, above, below)
    cut = np.where(rising, cuts[first, second], cuts[second, first])
    for duel in np.flatnonzero(error < best.error - best.negligible):
        sides = [counts[label].at(cut[duel]) for label in (first[duel], second[duel])]
        following = [place for _, places in sides for place in places]
        if not following:  # a cut above all rows is none, and better by rounding only
            continue
        best.feature[duel] = feature.number
        best.threshold[duel] = _half_way(
            feature.values[ends[cut[duel]]], feature.values[ends[min(following)]]
        )
        best.sign[duel] = 1 if rising[duel] else -1
        best.error[duel] = error[duel]
        best.left[duel] = [weight for weight, _ in sides]


def _search_duel(
    best: _BestStumps,
    duel: int,
    feature: _SortedFeature,
    places: NDArray[np.intp],
    is_second: NDArray[np.bool_],
) -> None:
    """Improve one duel's stump; `places` are its rows along the sorted feature."""
    values, weights = feature.values[places], feature.weights[places]
    cuts = np.flatnonzero(values[1:] != values[:-1])  # a cut lies between its row and the next
    if len(cuts) == 0:
        return
    # Weight of the second label minus weight of the first one, up to each cut. If the second label
    # is predicted above the cut, the errors are second labels below and first labels above it:
    # W₁ + excess.
    signed = np.where(is_second, weights, -weights)
    excess = np.cumsum(signed)[cuts]
    negligible = best.negligible[duel]
    above = int(np.argmax(excess <= excess.min() + negligible))  # the first of equals
    below = int(np.argmax(excess >= excess.max() - negligible))
    above_error = best.total[duel, 0] + excess[above]
    below_error = best.total[duel, 1] - excess[below]
    # Of equal errors the earlier cut is taken, so that neither label is favoured.
    equal = abs(above_error - below_error) <= negligible
    if above < below if equal else above_error < below_error:
        sign, cut, error = 1, above, above_error
    else:
        sign, cut, error = -1, below, below_error
    if error >= best.error[duel] - negligible:
        return
    row = cuts[cut]
    best.feature[duel] = feature.number
    best.threshold[duel] = _half_way(values[row], values[row + 1])
    best.sign[duel] = sign
    best.error[duel] = error
    below_cut = weights[: row + 1]
    second_below = below_cut[is_second[: row + 1]].sum()
    best.left[duel] = below_cut.sum() - second_below, second_below


def _half_way(low: np.floating, high: np.floating) -> np.floating:
    middle = low / 2 + high / 2
    # Between neighbouring floats there is no other one. The threshold stays below the upper one.
    return low if middle >= high or middle < low else middle
