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

from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._tally import Tally, even_points

OPPONENTS = 48  # of all labels
MOST_LOST = 1 / 6  # share of these duels that the k-th best label may lose
AT_A_TIME, OF_PLACES = 24, 4  # labels of a point that fight all their duels, and for every place
MOST_ROUNDS = 4
# Points are handled in so many shares for threads, or in two if there are few for every label that
# fights, and no more than can be held. With few points or labels it is faster to count all duels.
SHARES, MOST_COUNTS, FEWEST_POINTS = 4, 2**23, 48
FEWEST_LABELS = 32  # for every label that fights all its duels


def wins_of_first(tally: Tally, points: Floats, k: int) -> NDArray[np.int64]:
    """Count the wins of those labels of every point that may be among its first k.

    Parameters
    ----------
    tally : Tally
        The duels.
    points : ndarray of shape (n, d)
        Some points; as many as `points_at_once` says.
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
    for some in even_points(n_points):
        lost[some], n_opponents = tally.losses_to_first(points[some], OPPONENTS)
    is_done[:, :n_opponents] = True
    size = _labels_at_a_time(k)
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
    for some in even_points(len(again)):
        wins[again[some]], _ = tally.wins(points[again[some]], with_expected=False)
    return wins


def points_at_once(n_points: int, n_classes: int, k: int) -> int:
    """Return how many points to ask `wins_of_first` for at a time.

    Parameters
    ----------
    n_points : int
        Number of points.
    n_classes : int
        Number of labels K.
    k : int
        How many places matter.

    Returns
    -------
    at_once : int
        0 where it should be faster to count all duels.
    """
    size = _labels_at_a_time(k)
    fewest = -(-FEWEST_POINTS * n_classes // size)
    most = MOST_COUNTS // n_classes
    if n_classes < FEWEST_LABELS * size or min(n_points, most) < fewest:
        return 0
    return min(most, -(-n_points // 2), max(fewest, -(-n_points // SHARES)))


def _labels_at_a_time(k: int) -> int:
    return max(AT_A_TIME, OF_PLACES * k)


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
