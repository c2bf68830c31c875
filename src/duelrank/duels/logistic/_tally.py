"""Wins of many labels, counted while the margins of a few labels' duels are at hand.

Labels are numbered by their places in the label order here, so that the first label of a duel is
the favoured one: the second one wins if its margin is above zero. The duels of label a with all
later ones are consecutive, and one product of their coefficients, and those of some more labels if
they are few, with some points gives margins (K−1−a, n). A comparison makes bytes of them, which are
1 where the later label wins. Added up over a, they are the wins of all labels against earlier ones;
summed for one a, they are what a loses. Eight bytes are added at a time, as one number.

Products are in single precision. Margins that it cannot tell from zero are computed again in double
precision, one by one, so the wins of a point do not depend on the batch that it is in. Expected
wins are sums of probabilities, p = ½ + ½ tanh(½ margin), in single precision as well. Where labels
with equally many wins have sums too close to be told apart, `sum_again` takes double precision. If
only the first k places matter, it sums up all labels that tie there, and no others need to be.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from duelrank._batches import batches, even_batches
from duelrank._pairs import duel_numbers, labels_of_duels, pairs
from duelrank._threads import Threads
from duelrank.duels.logistic._batch import Floats
from duelrank.duels.logistic._counting import MarginsOfRun

DUELS_AT_ONCE = 512  # that are multiplied with points, unless one label has more
# Points that are counted together: threads wait for each other where they are few, and have nothing
# to share where they are as many as all.
FEWEST_AT_ONCE, MOST_AT_ONCE, SHARES = 256, 1024, 4
BYTES = 8  # that are added at a time
MOST_IN_BYTE = 255  # terms of a sum that a byte can hold
MOST_IN_SINGLE = 32  # terms of a sum in single precision
MOST_UNSURE = 1 / 16  # share of words of eight margins up to which these are computed one by one
AT_ONCE = 2**14  # margins that are computed one by one
# Sums of K probabilities in single precision are off by less than this share of K.
ROUNDING = 1e-6
UNIT = 2.0**-24  # of rounding in single precision
UNIT_OF_DOUBLE = 2.0**-53
LARGEST = 1e38  # product of lengths that single precision holds


class Tally(NamedTuple):
    """How the duels of K labels are counted, for dense points.

    Attributes
    ----------
    coef, intercept : ndarrays of shapes (P, d) and (P,)
        The duels as they are kept.
    label_order : ndarray of int, of shape (K,)
        Codes by place.
    numbers, signs : ndarrays of shape (P,)
        The duels between places: their numbers among those of codes, and −1 where the label with
        the lower code comes later.
    halves : ndarray of shape (P, d + 1)
        Half of their coefficients and, in the last column, of their intercepts, in single
        precision.
    longest : float
        The largest length of a duel's coefficients with its intercept.
    """

    coef: Floats
    intercept: Floats
    label_order: NDArray[np.intp]
    numbers: NDArray[np.intp]
    signs: Floats
    halves: Floats
    longest: float

    @classmethod
    def of(
        cls, coef: Floats, intercept: Floats, label_order: NDArray[np.intp], longest: float
    ) -> Tally:
        """Prepare to count duels, which a favoured label wins at a margin of 0."""
        first, second = (label_order[places] for places in pairs(len(label_order)))
        lower, higher = np.minimum(first, second), np.maximum(first, second)
        numbers = duel_numbers(lower, higher, len(label_order))
        signs = np.where(first < second, 1, -1).astype(np.float32)
        halves = np.empty((len(numbers), coef.shape[1] + 1), dtype=np.float32)
        halves[:, :-1], halves[:, -1] = coef[numbers], intercept[numbers]
        halves *= 0.5 * signs[:, np.newaxis]
        return cls(coef, intercept, label_order, numbers, signs, halves, longest)

    def counts(self, coef: Floats, intercept: Floats, label_order: NDArray[np.intp]) -> bool:
        """Tell whether this was prepared for these duels and this label order."""
        same = self.coef is coef and self.intercept is intercept
        return same and np.array_equal(self.label_order, label_order)

    def wins(self, points: Floats, with_expected: bool) -> tuple[NDArray[np.int64], Floats]:
        """Count the duels that labels win and, if asked for, those that they can expect to win.

        Parameters
        ----------
        points : ndarray of shape (n, d)
            Some points; best as many as `even_points` cuts.
        with_expected : bool
            Whether the second result is wanted.

        Returns
        -------
        wins, expected : ndarrays of shape (n, K)
            The second one is zeros if not wanted.
        """
        n_points, n_classes = len(points), len(self.label_order)
        leads = _Leads(n_classes, _width(n_points)) if with_expected else None
        ahead, behind = self._count(points, _runs_of_labels(n_classes), leads)
        wins = np.empty((n_points, n_classes), dtype=np.int64)
        wins[:, self.label_order] = ahead - behind + np.arange(n_classes - 1, -1, -1)
        expected = np.zeros(wins.shape)
        if leads is not None:
            expected[:, self.label_order] = 0.5 * (leads.total()[:, :n_points].T + n_classes - 1)
        return wins, expected

    def losses_to_first(self, points: Floats, n_opponents: int) -> tuple[NDArray[np.int64], int]:
        """Count what labels lose in the duels of the first ones of the label order with all.

        Parameters
        ----------
        points : ndarray of shape (n, d)
            Some points; best as many as `even_points` cuts.
        n_opponents : int
            How many labels fight all others, at least.

        Returns
        -------
        losses : ndarray of int, of shape (n, K)
            By place in the label order.
        n_opponents : int
            How many labels have fought all others.
        """
        n_classes = len(self.label_order)
        runs = [run for run in _runs_of_labels(n_classes) if run[0].start < n_opponents]
        n_opponents = runs[-1][0].stop
        ahead, behind = self._count(points, runs, None)
        return np.minimum(np.arange(n_classes), n_opponents) - ahead + behind, n_opponents

    def losses_of(self, label: int, points: Floats) -> NDArray[np.bool_]:
        """Tell to whom a label loses.

        Parameters
        ----------
        label : int
            Its place in the label order.
        points : ndarray of shape (n, d)
            Some points.

        Returns
        -------
        loses : ndarray of bool, of shape (n, K)
            Whether it loses to the label at each place; False at its own.
        """
        n_points, n_classes = len(points), len(self.label_order)
        others = np.delete(np.arange(n_classes), label)
        duels = duel_numbers(np.minimum(others, label), np.maximum(others, label), n_classes)
        rows = np.ones((n_points, points.shape[1] + 1), dtype=np.float32)
        rows[:, :-1] = points
        halves, limit = rows @ self.halves[duels].T, self._limit(points)
        later_wins = halves > limit
        in_doubt = np.flatnonzero(~(later_wins | (halves < -limit)))  # of what is no number, too
        numbers, of_others = divmod(in_doubt, n_classes - 1)
        later_wins[numbers, of_others] = self._are_won(duels[of_others], points, numbers)
        loses = np.zeros((n_points, n_classes), dtype=bool)
        loses[:, :label] = ~later_wins[:, :label]
        loses[:, label + 1 :] = later_wins[:, label:]
        return loses

    def _count(
        self, points: Floats, runs: list[tuple[range, slice]], leads: _Leads | None
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Count what labels win against earlier ones, and lose to later ones, in some runs, (n, K).

        How far they lead is added to `leads`, if given.
        """
        n_points, n_classes = len(points), len(self.label_order)
        width = _width(n_points)
        columns = np.zeros((points.shape[1] + 1, width))
        columns[:-1, :n_points], columns[-1] = points.T, 1
        single, limit = columns.astype(np.float32), self._limit(points)
        most = max((duels.stop - duels.start for _, duels in runs), default=0)
        margins = np.empty((most, width), dtype=np.float32)
        won, unsure = np.empty((2, most, width), dtype=bool)
        ahead, behind = np.zeros((2, n_classes, width), dtype=np.int32)
        in_bytes = np.zeros((n_classes, width // BYTES), dtype=np.uint64)
        doubtful: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []  # duels and points
        for labels, run in runs:
            size = run.stop - run.start
            halves = np.matmul(self.halves[run], single, out=margins[:size])
            np.greater(halves, limit, out=won[:size])
            # Neither above the limit nor below minus the limit.
            np.greater_equal(halves, -limit, out=unsure[:size])
            words_won, not_sure = won[:size].view(np.uint64), unsure[:size].view(np.uint64)
            not_sure ^= words_won
            rows = np.flatnonzero(np.bitwise_or.reduce(not_sure, axis=1))  # mostly none or few
            row, word = np.nonzero(not_sure[rows])
            if len(word) > MOST_UNSURE * not_sure.size or np.isinf(limit):
                halves[:], won[:size, :n_points] = self._in_double(run, points, columns)
            elif len(word):
                of_words = unsure[:size].reshape(size, -1, BYTES)[rows[row], word]
                which, byte = np.nonzero(of_words)
                numbers = word[which] * BYTES + byte
                there = numbers < n_points
                doubtful.append((run.start + rows[row[which[there]]], numbers[there]))
            if leads is not None:
                np.tanh(halves, out=halves)
            end = 0
            for first in labels:
                mine = slice(end, end := end + n_classes - 1 - first)
                in_bytes[first + 1 :] += words_won[mine]
                if (first + 1) % MOST_IN_BYTE == 0:
                    ahead += in_bytes.view(np.uint8)
                    in_bytes[:] = 0
                for some in batches(mine.stop - mine.start, MOST_IN_BYTE):
                    lost = np.add.reduce(words_won[mine][some], axis=0)
                    behind[first] += lost.view(np.uint8)
                if leads is not None:
                    leads.add(first, halves[mine])
        ahead += in_bytes.view(np.uint8)
        if doubtful:
            # They were taken for lost by the later label.
            duels, numbers = map(np.concatenate, zip(*doubtful, strict=True))
            won_after_all = self._are_won(duels, points, numbers)
            duels, numbers = duels[won_after_all], numbers[won_after_all]
            first_of, second_of = labels_of_duels(duels, n_classes)
            np.add.at(ahead, (second_of, numbers), 1)
            np.add.at(behind, (first_of, numbers), 1)
        return ahead[:, :n_points].T, behind[:, :n_points].T

    def _limit(self, points: Floats) -> np.float32:
        """Return below which size half a margin is not sure, for any duel and point.

        It is infinite where numbers are too large for single precision.
        """
        largest = unsure_margins(points).max(initial=0)
        if max(1.0, self.longest) * largest > LARGEST * UNIT * points.shape[1]:
            return np.float32(np.inf)
        return np.float32(0.5 * self.longest * largest)

    def _in_double(
        self, run: slice, points: Floats, columns: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return half of the margins of a run of duels, and whether later labels win, (P', n)."""
        numbers, n_points = self.numbers[run], len(points)
        halves = self.coef[numbers] @ columns[:-1]
        halves += self.intercept[numbers][:, np.newaxis]
        halves *= 0.5 * self.signs[run][:, np.newaxis]
        won = halves[:, :n_points] > 0
        # How a product is rounded depends on how many points there are, so it does not decide.
        limit = UNIT_OF_DOUBLE / UNIT * 0.5 * self.longest * unsure_margins(points)
        in_doubt = ~(np.abs(halves[:, :n_points]) > limit)
        duels, of_points = np.nonzero(in_doubt)
        won[duels, of_points] = self._are_won(run.start + duels, points, of_points)
        return halves, won

    def _are_won(
        self, duels: NDArray[np.intp], points: Floats, numbers: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Tell in double precision whether later labels win duels, each at a point."""
        chosen = self.numbers[duels]
        margins = margins_one_by_one(points, numbers, self.coef, self.intercept, chosen)
        won: NDArray[np.bool_] = self.signs[duels] * margins > 0
        return won


@lru_cache(maxsize=8)
def _runs_of_labels(n_classes: int) -> list[tuple[range, slice]]:
    """Return consecutive labels whose duels with later ones are multiplied together, and these."""
    runs: list[tuple[range, slice]] = []
    label = stop = 0
    while label < n_classes - 1:
        begin, start = label, stop
        while label < n_classes - 1 and (
            label == begin or stop - start + n_classes - 1 - label <= DUELS_AT_ONCE
        ):
            stop += n_classes - 1 - label
            label += 1
        runs.append((range(begin, label), slice(start, stop)))
    return runs


def _width(n_points: int) -> int:
    """Return a number of points as a multiple of 8."""
    return -(-n_points // BYTES) * BYTES


class _Leads:
    """Sums of tanh(½ margin): how far every label leads, against earlier and later ones.

    Parameters
    ----------
    n_classes, width : int
        Number of labels K, and of points.
    """

    def __init__(self, n_classes: int, width: int) -> None:
        self.sums = np.zeros((n_classes, width))
        self.single = np.zeros((n_classes, width), dtype=np.float32)
        self.ones = np.ones((1, MOST_IN_SINGLE), dtype=np.float32)

    def add(self, first: int, of_later: Floats) -> None:
        """Add how far all later labels lead against one, (K−1−first, n)."""
        self.single[first + 1 :] += of_later
        whole = len(of_later) // MOST_IN_SINGLE * MOST_IN_SINGLE
        parts = self.ones @ of_later[:whole].reshape(-1, MOST_IN_SINGLE, of_later.shape[1])
        self.sums[first] -= parts.sum(axis=(0, 1), dtype=np.float64)
        self.sums[first] -= of_later[whole:].sum(axis=0)
        if (first + 1) % MOST_IN_SINGLE == 0:
            self._empty()

    def total(self) -> Floats:
        """Return the sums, (K, n)."""
        self._empty()
        return self.sums

    def _empty(self) -> None:
        self.sums += self.single
        self.single[:] = 0


def even_points(n_points: int) -> list[slice]:
    """Cut points into slices that are counted together."""
    at_once = min(max(FEWEST_AT_ONCE, -(-n_points // SHARES)), MOST_AT_ONCE)
    return list(even_batches(n_points, at_once))


def unsure_margins(points: Floats) -> Floats:
    """Return below which size single precision may err about a margin's sign, (n,).

    It is that of duels whose coefficients, with the intercept, have a length of one.
    """
    squares = np.einsum("nj,nj->n", points, points, dtype=np.float64)
    lengths: Floats = np.sqrt(squares + 1)
    return UNIT * (points.shape[1] + 4) * lengths


def sure_margins(
    margins_of: MarginsOfRun, points: Floats, coef: Floats, intercept: Floats, unsure_below: Floats
) -> MarginsOfRun:
    """Return margins, in double precision where single precision is not sure of their sign.

    Parameters
    ----------
    margins_of : callable
        Margins of some points in single precision.
    points : ndarray of shape (n, d)
        The points.
    coef, intercept : ndarrays of shapes (P, d) and (P,)
        The duels as they are kept.
    unsure_below : ndarray of shape (n,)
        Sizes up to which margins are not sure.
    """

    def margins(run: slice) -> Floats:
        result = margins_of(run)
        rows, duels = np.nonzero(~(np.abs(result) > unsure_below[:, np.newaxis]))
        exact = margins_one_by_one(points, rows, coef, intercept, run.start + duels)
        result[rows, duels] = exact
        return result

    return margins


def margins_one_by_one(
    points: Floats,
    rows: NDArray[np.intp],
    coef: Floats,
    intercept: Floats,
    duels: NDArray[np.intp],
) -> Floats:
    """Return the margins of some points in one duel each, in double precision."""
    margins = np.empty(len(duels))
    for part in batches(len(duels), AT_ONCE):
        of_points, of_duels = points[rows[part]], coef[duels[part]]
        margins[part] = np.einsum("uj,uj->u", of_points, of_duels, dtype=np.float64)
        margins[part] += intercept[duels[part]]
    return margins


def ties_among(wins: NDArray[np.int64], first: int | None = None) -> NDArray[np.bool_]:
    """Tell which labels win as many duels, 0 to K−1, as another label of their row, (n, K).

    Labels that tie behind the first so many places are left out, if this is given.
    """
    n_points, n_classes = wins.shape
    in_row = wins + n_classes * np.arange(n_points)[:, np.newaxis]
    n_equal = np.bincount(in_row.ravel(), minlength=in_row.size)
    tied: NDArray[np.bool_] = n_equal[in_row] > 1
    if first is not None and first < n_classes:
        last = n_classes - first
        tied &= wins >= np.partition(wins, last, axis=1)[:, last : last + 1]
    return tied


def close_ties(
    wins: NDArray[np.int64],
    expected: Floats,
    unsure_below: Floats,
    first: int | None = None,
) -> NDArray[np.bool_]:
    """Tell which labels are too close to another with equally many wins, (n, K).

    Parameters
    ----------
    wins, expected : ndarrays of shape (n, K)
        Counted in single precision.
    unsure_below : ndarray of shape (n,)
        How far margins may be off. Errors of K of them add up like random ones.
    first : int, default=None
        Labels that tie behind the first so many places are left out, if this is given.
    """
    n_classes = wins.shape[1]
    key = 2.0 * n_classes * wins + expected  # of labels with other wins, more than K apart
    order = np.argsort(key, axis=1)
    off = 2 * ROUNDING * n_classes + np.sqrt(n_classes) * unsure_below
    too_close = np.minimum(off, n_classes)
    distance = np.diff(np.take_along_axis(key, order, axis=1), axis=1)
    close = _beside(distance <= too_close[:, np.newaxis], order)
    return close if first is None else close & ties_among(wins, first)


def sum_again(
    points: Floats,
    coef: Floats,
    intercept: Floats,
    expected: Floats,
    wanted: NDArray[np.bool_],
    threads: Threads,
) -> None:
    """Replace the expected wins of some labels by sums in double precision.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        The points.
    coef, intercept : ndarrays of shapes (P, d) and (P,)
        The duels.
    expected : ndarray of shape (n, K)
        Expected wins, changed in place.
    wanted : ndarray of bool, of shape (n, K)
        Which ones are to be replaced.
    threads : Threads
        The threads.
    """
    n_classes = wanted.shape[1]

    def sum_up(label: int) -> None:
        rows = np.flatnonzero(wanted[:, label])
        others = np.delete(np.arange(n_classes), label)
        duels = duel_numbers(np.minimum(label, others), np.maximum(label, others), n_classes)
        margins = points[rows].astype(np.float64) @ coef[duels].astype(np.float64).T
        margins += intercept[duels]
        margins[:, label:] *= -1
        expected[rows, label] = expit(margins).sum(axis=1)

    threads.map(sum_up, np.flatnonzero(wanted.any(axis=0)).tolist())


def _beside(equal: NDArray[np.bool_], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which labels, (n, K), are equal to one next to them in an order; `equal` is (n, K−1)."""
    beside = np.zeros(order.shape, dtype=bool)
    beside[:, 1:] |= equal
    beside[:, :-1] |= equal
    result = np.empty_like(beside)
    np.put_along_axis(result, order, beside, axis=1)
    return result
