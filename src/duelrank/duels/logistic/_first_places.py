"""The first places of many labels, without most of the duels.

To know the first k labels of a point, one needs all duels of these and of the labels that tie with
the last of them. Any other label is out as soon as it has lost more duels than the k-th best loses
altogether. So all labels fight a few opponents first, the first ones of the label order, which is
random. Then those that have lost least fight all their duels, some labels at a time. What the
others lose to them counts as well, and few labels win against the best. This goes on until no label
is left that may have lost as few duels as the k-th best. Points where that would take long, because
even the best labels lose many duels, are counted with all duels.

Labels are numbered by their places in the label order, as in `duelrank.duels.logistic._tally`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank._batches import batches
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._tally import Tally, points_at_once

OPPONENTS = 48  # of all labels
MOST_LOST = 1 / 6  # share of these duels that the k-th best label may lose
AT_A_TIME = 24  # labels of a point that fight all their duels, if not four times as many as places
MOST_ROUNDS = 4
MOST_COUNTS = 2**23  # of labels at points that are held
# With fewer labels, or fewer points for each of them, it takes no longer to count all duels.
FEWEST_LABELS, FEWEST_POINTS = 32, 24  # times and divided by the labels at a time


def wins_of_first(tally: Tally, points: Floats, k: int) -> NDArray[np.int64]:
    """Count the wins of those labels of every point that may be among its first k.

    Parameters
    ----------
    tally : Tally
        The duels.
    points : ndarray of shape (n, d)
        Some points; no more than `most_points` says.
    k : int
        How many places matter, fewer than there are labels.

    Returns
    -------
    wins : ndarray of int, of shape (n, K)
        Duels won, by code. A label that cannot be among the first k has the most that it may win,
        which is less than what the k-th best wins.
    """
    n_points, n_classes = len(points), len(tally.label_order)
    # What labels have lost so far, and whether they have fought all their duels.
    lost = np.empty((n_points, n_classes), dtype=np.int16 if n_classes < 2**15 else np.int32)
    is_done = np.zeros(lost.shape, dtype=bool)
    for some in batches(n_points, points_at_once(n_classes)):
        lost[some], n_opponents = tally.losses_to_first(points[some], OPPONENTS)
    is_done[:, :n_opponents] = True
    size = max(AT_A_TIME, 4 * k)
    takes_long = np.partition(lost, k - 1, axis=1)[:, k - 1] > MOST_LOST * n_opponents
    going = np.flatnonzero(~takes_long)
    for number in range(MOST_ROUNDS + 1):
        candidates = _candidates(lost[going], is_done[going], k)
        n_candidates = candidates.sum(axis=1)
        if number:  # before, any label may be a candidate
            takes_long[going] = n_candidates > (MOST_ROUNDS - number) * size
        stays = (n_candidates > 0) & ~takes_long[going]
        going, candidates = going[stays], candidates[stays]
        if len(going) == 0:
            break
        fighting = _best(lost[going], candidates, size)
        for label in np.flatnonzero(fighting.any(axis=0)).tolist():
            mine = going[fighting[:, label]]
            loses = tally.losses_of(label, points[mine])
            losses = lost[mine]
            losses += ~(loses | is_done[mine])
            losses[:, label] = loses.sum(axis=1)
            lost[mine] = losses
            is_done[mine, label] = True
    wins = np.empty((n_points, n_classes), dtype=np.int64)
    wins[:, tally.label_order] = n_classes - 1 - lost
    again = np.flatnonzero(takes_long)
    for some in batches(len(again), points_at_once(n_classes)):
        wins[again[some]], _ = tally.wins(points[again[some]], with_expected=False)
    return wins


def most_points(n_classes: int) -> int:
    """Return how many points `wins_of_first` can be asked for at a time."""
    return max(1, MOST_COUNTS // n_classes)


def saves_work(n_points: int, n_classes: int, k: int) -> bool:
    """Tell whether `wins_of_first` should be faster than counting all duels.

    Parameters
    ----------
    n_points : int
        How many points it will be asked for at a time.
    n_classes : int
        Number of labels K.
    k : int
        How many places matter.
    """
    size = max(AT_A_TIME, 4 * k)
    return n_classes >= FEWEST_LABELS * size and n_points * size >= FEWEST_POINTS * n_classes


def _candidates(lost: NDArray[Any], is_done: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
    """Tell which labels may still be among the first k, or tie with the last of them, (n, K)."""
    n_classes = lost.shape[1]
    in_all = np.where(is_done, lost, n_classes)
    of_kth = np.partition(in_all, k - 1, axis=1)[:, k - 1 : k]
    return ~is_done & (lost <= of_kth)


def _best(lost: NDArray[Any], candidates: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """Choose as many candidates that have lost least, and those that have lost no more, (n, K)."""
    of_candidates = np.where(candidates, lost, lost.shape[1])
    bound = np.partition(of_candidates, size - 1, axis=1)[:, size - 1 : size]
    return candidates & (lost <= bound)
