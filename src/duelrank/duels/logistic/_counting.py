"""How many duels every label wins, counted from margins that are never held together."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._batches import batches
from duelrank._pairs import n_pairs, pairs, sides_of_labels, sparse_sides_of_labels
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._loss import wrong_side

# With few labels, dense products count the duels of all labels faster than sparse ones.
FEW_LABELS = 40
MOST_HELD = 2**22  # margins of some points that are held until it is known which labels tie

# Takes a slice of the duels and returns their margins, (n, n_duels).
MarginsOfRun = Callable[[slice], Floats]


class Runs(NamedTuple):
    """The duels in runs whose margins are computed at a time.

    Attributes
    ----------
    slices : list of slice
        The duels of every run.
    sides : list of arrays of shape (K, n_duels), dense or sparse
        1 for the second and −1 for the first label of every duel of a run.
    """

    slices: list[slice]
    sides: list[Any]

    @staticmethod
    def of(n_classes: int, most_duels: int, dtype: np.dtype[Any]) -> Runs:
        """Cut the duels of K labels into runs of so many at most."""
        # The rounding of a dense product depends on how many points there are. In double precision
        # that does not matter, because sums are compared after rounding.
        dense = n_classes <= FEW_LABELS and dtype == np.float64
        return _runs(n_classes, most_duels, dtype, dense)


# Both take longer to make than one point takes to rank.


@lru_cache(maxsize=8)
def _threshold(label_order: bytes, dtype: np.dtype[Any]) -> Floats:
    place = np.argsort(np.frombuffer(label_order, dtype=np.intp))
    first, second = pairs(len(place))
    below_zero = -np.finfo(dtype).smallest_subnormal
    return np.where(place[second] < place[first], below_zero, 0).astype(dtype)


@lru_cache(maxsize=8)
def _runs(n_classes: int, most_duels: int, dtype: np.dtype[Any], dense: bool) -> Runs:
    slices = list(batches(n_pairs(n_classes), most_duels))
    if dense:
        of_labels = sides_of_labels(n_classes).astype(dtype)
        return Runs(slices, [of_labels[run].T for run in slices])
    sides = sparse_sides_of_labels(n_classes).astype(dtype)
    return Runs(slices, [sparse.csr_array(sides[run].T) for run in slices])


class Counting(NamedTuple):
    """What is counted of the duels of points.

    Attributes
    ----------
    n_classes : int
        Number of labels K.
    threshold : ndarray of shape (P,)
        The margins above which the second label wins.
    with_expected : bool
        Whether expected wins are wanted.
    first : int or None
        Expected wins are wanted only of points where a tie reaches the first so many places; None
        for all points.
    """

    n_classes: int
    threshold: Floats
    with_expected: bool
    first: int | None

    @classmethod
    def of(
        cls,
        label_order: NDArray[np.intp],
        dtype: np.dtype[Any],
        with_expected: bool,
        first: int | None,
    ) -> Counting:
        """Count duels that a favoured label wins at a margin of 0, with margins of a precision."""
        threshold = _threshold(label_order.astype(np.intp, copy=False).tobytes(), dtype)
        return cls(len(label_order), threshold, with_expected, first)

    def duels(
        self, margins_of: MarginsOfRun, n_points: int, runs: Runs
    ) -> tuple[NDArray[np.int64], Floats]:
        """Count the duels that every label wins and those that it can expect to win, (n, K)."""
        dtype = self.threshold.dtype
        at_once = self.with_expected and self.first is None
        hold = self.with_expected and n_points * len(self.threshold) <= MOST_HELD
        held: list[Floats] = []
        won = np.zeros((self.n_classes, n_points), dtype=dtype)
        chance = np.zeros((self.n_classes, n_points), dtype=dtype)
        for run, sides in zip(*runs, strict=True):
            margins = margins_of(run)
            won += sides @ (margins > self.threshold[run]).astype(dtype).T
            if at_once:
                chance -= sides @ wrong_side(margins, out=margins).T
            elif hold:
                held.append(margins)
        # Of K−1 duels, label k is the second one in k and the first one in the others.
        as_second = np.arange(self.n_classes)
        wins = won.T.astype(np.int64) + (self.n_classes - 1 - as_second)
        tied = np.zeros(n_points, dtype=bool)
        if self.with_expected and self.first is not None:
            tied = _ties_reach(wins, self.first)
        if tied.any():
            for number, (run, sides) in enumerate(zip(*runs, strict=True)):
                margins = held[number] if hold else margins_of(run)
                chance[:, tied] -= sides @ wrong_side(margins[tied]).T
        return wins, chance.T + as_second if self.with_expected else chance.T


def _ties_reach(wins: NDArray[np.int64], first: int) -> NDArray[np.bool_]:
    """Tell in which rows labels with equal wins are among the first so many or next to them."""
    n_classes = wins.shape[1]
    n_best = min(first + 1, n_classes)
    best = np.sort(np.partition(wins, n_classes - n_best, axis=1)[:, n_classes - n_best :], axis=1)
    return (best[:, 1:] == best[:, :-1]).any(axis=1)
