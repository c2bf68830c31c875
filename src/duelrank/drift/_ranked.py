"""How a model ranks rows: labels that come first, their places, and the lengths of lists.

On rows that a model was fitted on, it is too sure of itself. So what is normal is measured on
others: on the calibration rows of shortlists, or by fitting the last step again.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from duelrank._batches import margin_batches
from duelrank._classifiers import known_labels
from duelrank._sklearn import is_parameter, take_rows, unwrap
from duelrank.drift._statistics import spread_of_shares
from duelrank.predictions import predict_ranks
from duelrank.rankings import ranks_from_order
from duelrank.shortlists import Shortlister, hold_out, shortlister_inside

MOST_LEARNED, MOST_RANKED = 2_500, 1_500  # rows of the second fit
HELD_OUT = 0.25  # share of the rows that are ranked, if that is fewer
FEWEST_RANKED = 20
MOST_LABELS = 1_000  # that are described
LIST = 5  # the longest list whose accuracy is kept


@dataclass(frozen=True)
class Ranked:
    """How rows are ranked.

    Attributes
    ----------
    n_rows : int
        How many rows.
    same_model : bool
        Whether the model itself ranked them, and not one that was fitted on a part of the rows.
    first : tuple of int
        How often every label came first.
    mean_places, deviations : tuple of float
        The mean place of every label, and the standard deviation of its places.
    n_labelled, n_top_1, n_top_5 : int
        How many rows have a label that is known, in how many of them it came first, and in how many
        among the first five.
    first_spread, place_spread : float
        How much another model, fitted on half of the rows, ranks these rows differently: the mean
        of (difference)² / share of first places, and the variance of the difference of mean places.
        0 if the model itself ranked them.
    lengths : tuple of int, or None
        Numbers of lists with 0, 1, 2, ... labels, if the model makes lists; the last number is that
        of all longer ones.
    """

    n_rows: int
    same_model: bool
    first: tuple[int, ...]
    mean_places: tuple[float, ...]
    deviations: tuple[float, ...]
    n_labelled: int
    n_top_1: int
    n_top_5: int
    first_spread: float
    place_spread: float
    lengths: tuple[int, ...] | None


class Rows(NamedTuple):
    """Which training rows a model has learned from, and the numbers of those to rank, if known."""

    learned: NDArray[np.bool_]
    held_out: NDArray[np.intp] | None


LONGEST = 50  # longer lists are counted together


def learned_rows(model: Any, codes: NDArray[np.intp]) -> Rows:
    """Find out which rows a model has learned from, and which ones calibrated its lists."""
    everything = np.ones(len(codes), dtype=bool)
    if (
        not isinstance(model, Shortlister)
        or model.cv is not None
        or isinstance(model.estimator, FrozenEstimator)
        or not isinstance(model.random_state, Integral)
    ):
        return Rows(everything, None)
    lists = model
    # As in `Shortlister.fit`, which draws a seed first.
    rng = np.random.RandomState(lists.random_state)
    rng.randint(np.iinfo(np.int32).max)
    split = hold_out(codes, float(lists.calibration_size), rng)
    if len(split.calibrating) + len(split.lost) != lists.n_calibration_ and lists.by != "cluster":
        return Rows(everything, None)
    everything[split.calibrating] = False
    return Rows(everything, split.calibrating)


def rank_unseen(
    model: Any,
    X: Any,
    y: Any,
    codes: NDArray[np.intp],
    held_out: NDArray[np.intp] | None,
    rng: np.random.RandomState,
) -> Ranked | None:
    """Rank rows that the model, or one like it, was not fitted on; None if they are too few.

    Parameters
    ----------
    model : fitted classifier, pipeline or search
        The model.
    X, y
        What it was fitted on.
    codes : ndarray of int, of shape (n,)
        The first labels.
    held_out : ndarray of int or None
        Rows that it has not learned from, if there are any.
    rng : RandomState
        Draws rows.
    """
    if held_out is not None and len(held_out) >= FEWEST_RANKED:
        rows = np.sort(rng.permutation(held_out)[:MOST_RANKED])
        return rank_rows(model, take_rows(X, rows), codes[rows])
    learning, ranked = _drawn(codes, rng)
    if len(ranked) < FEWEST_RANKED:
        return None
    rows = np.concatenate([learning, ranked])
    predictor, points = unwrap(model, take_rows(X, rows))
    half = _half(codes[learning], rng)
    last = take_rows(points, np.arange(len(learning), len(rows)))
    made = []
    for part in (np.arange(len(learning)), half):
        again = _again(predictor)
        try:
            with warnings.catch_warnings():
                # What there is to say was said when the model itself was fitted.
                warnings.simplefilter("ignore")
                again.fit(take_rows(points, part), take_rows(y, learning[part]))
        except ValueError:  # such as too few rows of a label for the folds of a search
            return None
        if not np.array_equal(known_labels(again), known_labels(predictor)):
            return None
        made.append(rank_rows(again, last, codes[ranked], same_model=False))
    one, other = made
    moved = np.array(one.mean_places) - np.array(other.mean_places)
    spread = spread_of_shares(np.array(one.first), np.array(other.first))
    return replace(one, first_spread=_short(spread), place_spread=_short(np.mean(moved**2)))


def _half(codes: NDArray[np.intp], rng: np.random.RandomState) -> NDArray[np.intp]:
    """Draw half of the rows, at least one of every label."""
    order = rng.permutation(len(codes))
    _, once = np.unique(codes[order], return_index=True)
    others = np.setdiff1d(np.arange(len(order)), once)
    n_others = max(len(order) // 2 - len(once), 0)
    return np.sort(order[np.concatenate([once, others[:n_others]])])


def _short(number: float) -> float:
    return float(f"{number:.4g}")


def _drawn(
    codes: NDArray[np.intp], rng: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw rows to learn from, at least one of every label, and others to rank."""
    order = rng.permutation(len(codes))
    _, once = np.unique(codes[order], return_index=True)
    is_needed = np.zeros(len(order), dtype=bool)
    is_needed[once] = True
    free = order[~is_needed]
    n_ranked = min(MOST_RANKED, int(HELD_OUT * len(codes)), len(free))
    others = free[n_ranked:][: max(MOST_LEARNED - len(once), 0)]
    return np.sort(np.concatenate([order[is_needed], others])), np.sort(free[:n_ranked])


def _again(predictor: Any) -> Any:
    """Return a predictor to fit again, with nothing left to search."""
    again = clone(predictor)
    # The file of another fit is none of ours, and rows need not be kept.
    others = {"checkpoint": None, "keep_rows": False, "verbose": False}
    for name in again.get_params():
        for other, value in others.items():
            if is_parameter(name, other):
                again.set_params(**{name: value})
    engine = getattr(predictor, "duels_", None)
    params = predictor.get_params()
    by_label = any(
        is_parameter(name, "class_weight") and isinstance(value, dict)
        for name, value in params.items()
    )
    if engine is None or by_label:  # the engine knows weights by code, its parent by label
        return again
    chosen = getattr(engine, "engine_", engine)  # of AutoDuels
    if hasattr(chosen, "settled"):
        again.set_params(estimator=chosen.settled())
    elif chosen is not engine:
        again.set_params(estimator=clone(chosen))
    return again


def rank_rows(
    model: Any,
    X: Any,
    codes: NDArray[np.intp] | None,
    *,
    same_model: bool = True,
) -> Ranked:
    """Rank rows, batch by batch, and count.

    Parameters
    ----------
    model : fitted classifier, pipeline or search
        What ranks.
    X : table with n rows
        As it takes them.
    codes : ndarray of int, of shape (n,), or None
        Their labels, if they are known; −1 is a label that the model does not know.
    same_model : bool, default=True
        Whether this is the model itself.
    """
    n_rows, n_classes = X.shape[0], len(known_labels(model))
    lists, transformers = shortlister_inside(model)
    if lists is not None and lists.by == "group":
        lists = None
    first = np.zeros(n_classes, dtype=np.int64)
    total, squares = np.zeros(n_classes), np.zeros(n_classes)
    places, lengths = [], []
    for rows in margin_batches(n_rows, n_classes):
        points = X if rows == slice(0, n_rows) else take_rows(X, rows)
        ranks, mask = _ranks(model, lists, transformers, points)
        first += np.bincount(ranks.argmin(axis=1), minlength=n_classes)
        total += ranks.sum(axis=0)
        squares += (ranks.astype(np.float64) ** 2).sum(axis=0)
        if codes is not None:
            places.append(np.where(codes[rows] < 0, 0, ranks[np.arange(len(ranks)), codes[rows]]))
        if mask is not None:
            lengths.append(mask.sum(axis=1))
    mean = total / n_rows
    spread = np.sqrt(np.maximum(squares / n_rows - mean**2, 0) * n_rows / max(n_rows - 1, 1))
    own = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
    listed = None
    if lengths:
        clipped = np.minimum(np.concatenate(lengths), LONGEST)
        listed = tuple(np.bincount(clipped, minlength=min(n_classes, LONGEST) + 1).tolist())
    return Ranked(
        n_rows=int(n_rows),
        same_model=same_model,
        first=tuple(first[:MOST_LABELS].tolist()),
        mean_places=tuple(float(f"{place:.5g}") for place in mean[:MOST_LABELS].tolist()),
        deviations=tuple(float(f"{place:.4g}") for place in spread[:MOST_LABELS].tolist()),
        n_labelled=int((own > 0).sum()),
        n_top_1=int((own == 1).sum()),
        n_top_5=int(((own > 0) & (own <= LIST)).sum()),
        first_spread=0.0,
        place_spread=0.0,
        lengths=listed,
    )


def _ranks(
    model: Any, lists: Shortlister | None, transformers: list[Any], points: Any
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    if lists is None:
        return predict_ranks(model, points), None
    for transformer in transformers:
        points = transformer.transform(points)
    ranked = lists.ranked_lists(points)
    return ranks_from_order(ranked.order), ranked.masks[0]
