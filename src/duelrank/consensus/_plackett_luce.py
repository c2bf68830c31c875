"""Maximum likelihood for the Plackett-Luce model, many groups at once.

A ranking is a sequence of *choices*: its first label is chosen out of all that it places, the
second one out of the others, and so on; label a with probability w_a / Σ w over those left. With
w = exp θ the log-likelihood of a group is concave,

    f(θ) = Σ over choices of  (share of the ranking) · (θ_chosen − log Σ_{left} exp θ).

Write S for the sums of a ranking's choices, c_a for the sum of 1/S and q_a for that of 1/S² over
the choices at which a is among those left (all up to its own). As these grow from choice to
choice, two labels are left together at the choices that make up the smaller of their sums:

    ∂f/∂θ_a      = wins_a − w_a Σ c_a
    ∂²f/∂θ_a∂θ_b = w_a w_b Σ min(q_a, q_b)   for a ≠ b; the rows of the Hessian sum to 0.

So Newton's method costs K²/2 minima a ranking and step. A step d is shortened by log(1 + ρ) / ρ
with ρ = max d − min d: |f'''| ≤ ρ|f''| along d, and so f increases all the way without a search.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from duelrank.consensus._groups import batches_of_groups, check_groups, duels_won_by_group
from duelrank.rankings import describe_row

MAX_STEPS = 200
# A step as narrow as this is the last one; it is still taken, and doubles the number of digits.
NARROW = 1e-7
# Where hardly anything determines a label's weight, rounding errors keep steps wide. There the last
# step is one that gains no more than this share of the log-likelihood's total weight.
NO_GAIN = 1e-18
# Keeps matrices regular where labels are connected by less than rounding errors.
RIDGE = 1e-15
# A weight of e^−300 can still be squared and inverted.
LOWEST = -300.0


def plackett_luce(
    ranks: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    unplaced: str = "auto",
    penalty: float = 0.0,
) -> NDArray[np.float64]:
    """Fit the weights of the Plackett-Luce model by maximum likelihood.

    Parameters
    ----------
    ranks : array-like of shape (n, K) or (g, n, K)
        Rankings, in one group or in g of them. Places from 1 to K, NaN for labels not placed. Only
        labels at the end of a ranking may be tied: they come behind the others. A row of NaN says
        nothing, so smaller groups may be filled up with it.
    weights : array-like of shape (n,) or (g, n), default=None
        Weights of the rankings, not negative; 1 by default.
    unplaced : {"auto", "behind", "unknown"}, default="auto"
        Where labels are that are not placed: behind all others, as in top-m lists, or anywhere. If
        anywhere, a ranking's choices are among the labels that it places.
        "auto" looks at the rankings of all groups that leave labels out: it is "behind" if none of
        them leaves a place vacant, and "unknown" if a quarter of them or more do. In between it is
        an error.
    penalty : float, default=0.0
        Adds two duels between every two labels, one won by each of them, with this weight. There is
        no maximum without it if some labels are never placed ahead of any of the others.

    Returns
    -------
    weights : ndarray of float, of shape (K,) or (g, K)
        Weights of the labels: positive, and their sum is 1.

    Examples
    --------
    >>> from duelrank.posteriors import sample_plackett_luce
    >>> ranks = sample_plackett_luce([0.5, 0.2, 0.3], n_samples=10_000, random_state=0)
    >>> plackett_luce(ranks).round(2)
    array([0.5, 0.2, 0.3])
    >>> plackett_luce([[1, 2, 3], [1, 3, 2]], penalty=1).round(2)
    array([0.56, 0.22, 0.22])
    """
    groups = check_groups(ranks, weights, unplaced)
    if not (isinstance(penalty, Real) and 0 <= penalty < np.inf):
        raise ValueError(f"penalty must be a finite number, not negative; got {penalty!r}.")
    _check_ties(groups.ranks)
    if penalty == 0:
        _check_connected(duels_won_by_group(groups.ranks, groups.weights), groups.alone)
    fitted = plackett_luce_weights(groups.ranks, groups.weights, float(penalty))
    return fitted[0] if groups.alone else fitted


def plackett_luce_weights(
    ranks: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    penalty: float = 0.0,
) -> NDArray[np.float64]:
    """Maximise the likelihood of every group; kernel of `plackett_luce`.

    Parameters
    ----------
    ranks : ndarray of float, of shape (g, n, K)
        As in `duelrank.feedback.Feedback`, ties only at the end.
    weights : ndarray of float, of shape (g, n), default=None
        Weights of the rankings; 1 by default.
    penalty : float, default=0.0
        Weight of the added duels. If 0, every label must be ahead of any other one in some
        ranking, at least through labels between them.

    Returns
    -------
    weights : ndarray of float, of shape (g, K)
        Weights of the labels; their sum is 1.
    """
    fitted = np.empty((len(ranks), ranks.shape[2]))
    n_open = 0
    for batch in batches_of_groups(ranks.shape):
        choices = _choices(ranks[batch], None if weights is None else weights[batch])
        fitted[batch], converged = _maximise(choices, penalty)
        n_open += int(np.count_nonzero(~converged))
    if n_open:
        warnings.warn(
            f"the weights of {n_open} of {len(ranks)} groups have not converged in {MAX_STEPS} "
            "steps: labels hardly ever win; a larger penalty helps.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return fitted


def early_ties(ranks: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find ties before the end of a ranking, for which its likelihood is not defined.

    Parameters
    ----------
    ranks : ndarray of float, of shape (n, K)
        As in `duelrank.feedback.Feedback`.

    Returns
    -------
    tied : ndarray of bool, of shape (n, K − 1)
        ``tied[i, r]``: whether the labels at places r + 1 and r + 2 of row i have such a tie.
    """
    in_order = np.sort(ranks, axis=1)
    last = np.fmax.reduce(ranks, axis=1, keepdims=True, initial=0)
    tied: NDArray[np.bool_] = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] < last)
    return tied


class _Choices(NamedTuple):
    """The choices of g groups of n rankings, places or labels along the first axis."""

    share: NDArray[np.float64]  # (K, g, n) by place: of the choice; 0 where none is made
    placed: NDArray[np.bool_]  # (K, g, n) by place: whether there is a label
    label: NDArray[np.intp]  # (K, g, n) by place: where its label is in a flat (g, K) array
    place: NDArray[np.intp]  # (K, g, n) by label: where its place is in a flat (K, g, n) array
    wins: NDArray[np.float64]  # (g, K) shares of the choices that a label is chosen at


def _choices(ranks: NDArray[np.float64], weights: NDArray[np.float64] | None) -> _Choices:
    n_groups, n_rows, n_classes = ranks.shape
    by_label = np.moveaxis(ranks, 2, 0)
    order = np.argsort(by_label, axis=0)  # NaN last
    in_order = np.take_along_axis(by_label, order, axis=0)
    share = np.zeros(order.shape)
    # A choice is made as long as it leaves labels behind; NaN is behind nothing.
    share[:-1] = in_order[:-1] < in_order[1:]
    if weights is not None:
        share *= weights
    place = np.empty_like(order)
    rankings = np.arange(n_groups * n_rows).reshape(n_groups, n_rows)
    from_place = np.arange(n_classes)[:, np.newaxis, np.newaxis] * rankings.size + rankings
    np.put_along_axis(place, order, from_place, axis=0)
    wins = np.take(share, place).sum(axis=2).T
    label = order + n_classes * np.arange(n_groups)[:, np.newaxis]
    return _Choices(share, ~np.isnan(in_order), label, place, wins)


def _maximise(choices: _Choices, penalty: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Take Newton steps from equal weights until all groups are done; tell which ones are."""
    n_groups, n_classes = choices.wins.shape
    groups, diagonal = np.arange(n_groups), np.arange(n_classes)
    total = choices.wins.sum(axis=1) + penalty * n_classes * (n_classes - 1)
    theta = np.zeros(choices.wins.shape)
    done = np.zeros(n_groups, dtype=bool)
    for _ in range(MAX_STEPS):
        gradient, curvature = _derivatives(theta, choices, penalty)
        curvature[:, diagonal, diagonal] *= 1 + RIDGE
        # f does not change if all θ move by the same amount, so one label is held in place by
        # doubling its diagonal entry. An added constant would cost small curvatures their digits.
        held = curvature[:, diagonal, diagonal].argmax(axis=1)
        curvature[groups, held, held] *= 2
        step = np.linalg.solve(curvature, gradient[:, :, np.newaxis])[:, :, 0]
        width = np.ptp(step, axis=1, keepdims=True)
        length = np.divide(np.log1p(width), width, out=np.ones_like(width), where=width > 0)
        theta += length * step
        theta -= theta.max(axis=1, keepdims=True)
        np.maximum(theta, LOWEST, out=theta)
        gain = np.einsum("gk,gk->g", step, gradient)
        done |= (width[:, 0] <= NARROW) | (gain <= NO_GAIN * total)
        if np.all(done):
            break
    fitted = np.exp(theta)
    return fitted / fitted.sum(axis=1, keepdims=True), done


def _derivatives(
    theta: NDArray[np.float64], choices: _Choices, penalty: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the gradient (g, K) of f and its negative Hessian (g, K, K)."""
    n_groups, n_classes = theta.shape
    w = np.exp(theta)
    left = np.where(choices.placed, np.take(w, choices.label), 0.0)
    left = np.cumsum(left[::-1], axis=0)[::-1]
    inverse = np.divide(1.0, left, out=np.zeros_like(left), where=choices.placed)
    first = choices.share * inverse
    second = first * inverse
    c = np.where(choices.placed, np.cumsum(first, axis=0), 0.0)
    q = np.where(choices.placed, np.cumsum(second, axis=0), 0.0)
    c, q = np.take(c, choices.place), np.take(q, choices.place)

    gradient = choices.wins - w * c.sum(axis=2).T
    together = np.zeros((n_groups, n_classes, n_classes))
    for a in range(n_classes - 1):
        together[:, a, a + 1 :] = np.minimum(q[a], q[a + 1 :]).sum(axis=2).T
    together += np.swapaxes(together, 1, 2)
    if penalty > 0:
        sums = w[:, :, np.newaxis] + w[:, np.newaxis, :]
        diagonal = np.arange(n_classes)
        duels = 2 * penalty / sums
        duels[:, diagonal, diagonal] = 0
        gradient += penalty * (n_classes - 1) - w * duels.sum(axis=2)
        together += duels / sums
    curvature = -together * w[:, :, np.newaxis] * w[:, np.newaxis, :]
    diagonal = np.arange(n_classes)
    curvature[:, diagonal, diagonal] = -curvature.sum(axis=2)
    return gradient, curvature


def _check_ties(ranks: NDArray[np.float64]) -> None:
    rows = ranks.reshape(-1, ranks.shape[-1])
    tied = early_ties(rows)
    if np.any(tied):
        raise ValueError(
            "ranks must have no ties but one at the end of a ranking for the Plackett-Luce model, "
            f"but {describe_row(rows, tied)}."
        )


def _check_connected(won: NDArray[np.float64], alone: bool) -> None:
    """Raise where some labels are never ahead of any other: their weights would go to 0."""
    n_classes = won.shape[-1]
    reaches = (won > 0) | np.eye(n_classes, dtype=bool)
    for k in range(n_classes):
        reaches |= reaches[:, :, k, np.newaxis] & reaches[:, np.newaxis, k, :]
    n_reached = reaches.sum(axis=2)
    if np.all(n_reached == n_classes):
        return
    group = int(np.flatnonzero((n_reached < n_classes).any(axis=1))[0])
    behind = np.flatnonzero(reaches[group, n_reached[group].argmin()]).tolist()
    where = "" if alone else f" in group {group}"
    raise ValueError(
        f"ranks must place every label ahead of some other one{where} for a Plackett-Luce fit, but "
        f"none of {behind} is placed ahead of any other label; pass penalty > 0 to allow it."
    )
