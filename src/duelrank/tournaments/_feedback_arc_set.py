"""Minimum feedback arc sets: the order of the labels that loses the least.

`weights[i, a, b]` is what is lost by placing b before a. With ``weights = beats`` the loss is
the number of duels that the order contradicts; reversing these is the smallest change that
makes the tournament transitive (the minimum feedback arc set).

Two labels on their own are best placed in the direction that weighs more. These directions form a
tournament, and they contradict each other only inside its components of three or more labels. So
every row is cut into components. Equal components are solved once, by the first method that can:

- up to 16 labels: dynamic programming over subsets, all components of one size together, exact;
- up to 24 labels: a mixed integer program (``scipy.optimize.milp``), exact (to the solver's
  tolerance, 1e-7 of the largest weight) unless it needs more nodes than it may search;
- otherwise: an order improved by moving single labels until no move helps, a heuristic.

The result says for every row whether its order is proved to be optimal. Tournaments without
structure are the hardest: a cycle of 16 labels takes about a tenth of a second, one of 24 seconds.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from duelrank._batches import batches
from duelrank._pairs import pairs
from duelrank.tournaments._cycles import components_from_losses

MAX_SUBSETS_SIZE = 16
MAX_MILP_SIZE = 24
# A limit of nodes and not of seconds: the same input gives the same order on every machine.
MILP_NODES = 200
BATCH_BYTES = 2**25  # of the sums over subsets of a batch of components


class FeedbackArcSet(NamedTuple):
    """Result of `feedback_arc_set`.

    Attributes
    ----------
    order : ndarray of int, of shape (n, K) or (K,)
        Codes of the labels, best first.
    cost : ndarray of float, of shape (n,), or float
        What the order loses: Σ weights[a, b] over all b placed before a.
    exact : ndarray of bool, of shape (n,), or bool
        Whether the order is proved to lose the least: False where the heuristic for large cycles
        was used.
    """

    order: Any
    cost: Any
    exact: Any


def feedback_arc_set(weights: ArrayLike) -> FeedbackArcSet:
    """Find the order that loses the least, its cost, and whether it is proved optimal.

    Parameters
    ----------
    weights : array-like of shape (n, K, K) or (K, K)
        ``weights[i, a, b]``: what is lost by placing b before a; non-negative. The diagonal is
        ignored. A tournament's ``beats`` count contradicted duels.

    Returns
    -------
    result : FeedbackArcSet
        Named tuple of order, cost and exact. Of equally good orders of up to 16 labels, the
        lexicographically first one is returned.

    Examples
    --------
    >>> import numpy as np
    >>> cycle = np.array([[0, 2, 0], [0, 0, 5], [3, 0, 0]])
    >>> order, cost, exact = feedback_arc_set(cycle)
    >>> order
    array([1, 2, 0])
    >>> float(cost), bool(exact)
    (2.0, True)
    """
    array = np.asarray(weights)
    if array.dtype.kind not in "iufb":
        raise ValueError(f"weights must be numbers, got dtype {array.dtype}.")
    if array.ndim not in (2, 3) or array.shape[-1] != array.shape[-2]:
        raise ValueError(
            f"weights must have shape (n, K, K), or (K, K) for one row; got {array.shape}."
        )
    if array.shape[-1] == 0:
        raise ValueError(f"weights must have at least one label, got shape {array.shape}.")
    n_classes = array.shape[-1]
    batch = array.reshape(-1, n_classes, n_classes).astype(np.float64)
    batch[:, np.arange(n_classes), np.arange(n_classes)] = 0
    wrong = ~(np.isfinite(batch) & (batch >= 0))
    if np.any(wrong):
        raise ValueError(
            f"weights must be finite and not negative off the diagonal, got {batch[wrong][0]}."
        )
    order, exact = solve_feedback_arc_set(batch)
    later, earlier = np.tril_indices(n_classes, k=-1)
    cost = batch[np.arange(len(batch))[:, None], order[:, later], order[:, earlier]].sum(axis=1)
    shape = array.shape[:-2]
    return FeedbackArcSet(
        order.reshape(array.shape[:-1]), cost.reshape(shape)[()], exact.reshape(shape)[()]
    )


def feedback_arc_set_order(weights: ArrayLike) -> NDArray[np.intp]:
    """Return the order of the labels that loses the least.

    Parameters
    ----------
    weights : array-like of shape (n, K, K) or (K, K)
        ``weights[i, a, b]``: what is lost by placing b before a; non-negative.

    Returns
    -------
    order : ndarray of int, of shape (n, K) or (K,)
        Codes of the labels, best first. `feedback_arc_set` also tells whether the order is
        proved to be optimal.
    """
    order: NDArray[np.intp] = feedback_arc_set(weights).order
    return order


def solve_feedback_arc_set(
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Order (n, K, K) weights; kernel of `feedback_arc_set`.

    Of two labels that nothing tells apart, the one with the lower code comes first.
    """
    n_rows, n_classes = weights.shape[:2]
    weights = _narrowed(weights)
    # For the decomposition an even pair may point either way: both orders cost the same.
    preferred = weights > np.swapaxes(weights, 1, 2)
    first, second = pairs(n_classes)
    preferred[:, first, second] = ~preferred[:, second, first]
    component = components_from_losses(preferred.sum(axis=1, dtype=np.int64))
    order = np.argsort(component, axis=1, kind="stable")
    exact = np.ones(n_rows, dtype=bool)

    numbers = np.take_along_axis(component, order, axis=1)
    starts = np.ones((n_rows, n_classes), dtype=bool)
    starts[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    begin_row, begin = np.nonzero(starts)
    end = np.append(begin[1:], n_classes)
    end[np.append(begin_row[1:] != begin_row[:-1], True)] = n_classes
    size = end - begin
    for m in np.unique(size[size >= 3]):
        rows, places = begin_row[size == m], begin[size == m]
        columns = places[:, None] + np.arange(m)
        labels = order[rows[:, None], columns]
        cyclic = weights[rows[:, None, None], labels[:, :, None], labels[:, None, :]]
        inner, proved = _solve_components(cyclic)
        order[rows[:, None], columns] = np.take_along_axis(labels, inner, axis=1)
        exact[rows] &= proved
    return order, exact


def _solve_components(
    weights: NDArray[Any],
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Order components of one size, each different one once."""
    n_rows, size = weights.shape[:2]
    diagonal = np.arange(size)
    weights[:, diagonal, diagonal] = 0
    if n_rows > 1:
        flat = np.ascontiguousarray(weights.reshape(n_rows, -1))
        keys = flat.view(np.dtype((np.void, flat.itemsize * flat.shape[1]))).ravel()
        _, representative, inverse = np.unique(keys, return_index=True, return_inverse=True)
        weights, inverse = weights[representative], inverse.ravel()
    else:
        inverse = np.zeros(n_rows, dtype=np.intp)
    if size <= MAX_SUBSETS_SIZE:
        order, exact = _order_by_subsets(weights), np.ones(len(weights), dtype=bool)
    else:
        method = _order_by_milp if size <= MAX_MILP_SIZE else _order_by_moves
        solved = [method(single) for single in weights.astype(np.float64)]
        order = np.array([labels for labels, _ in solved], dtype=np.intp)
        exact = np.array([proved for _, proved in solved], dtype=bool)
    return order[inverse], exact[inverse]


def _narrowed(weights: NDArray[np.float64]) -> NDArray[Any]:
    """Return small whole weights, as those of duels won and lost, as small integers.

    Their sums are as exact, and take an eighth of the memory that dynamic programming reads.
    """
    most = weights.sum(axis=(1, 2)).max(initial=0)
    for narrow in (np.uint8, np.uint16):
        if most < np.iinfo(narrow).max and (weights == np.floor(weights)).all():
            return weights.astype(narrow)
    return weights


def _order_by_subsets(weights: NDArray[Any]) -> NDArray[np.intp]:
    """Dynamic programming over the subsets of labels that are still to be placed.

    The least that a set S loses inside is min over its first label v of
    Σ_{u in S} weights[u, v] + loss(S without v). A set is the integer of its bits.
    """
    n_rows, size = weights.shape[:2]
    most_rows = BATCH_BYTES // (weights.itemsize * size * 2**size)
    return np.concatenate(
        [_order_batch_by_subsets(weights[batch]) for batch in batches(n_rows, most_rows)]
    )


def _order_batch_by_subsets(weights: NDArray[Any]) -> NDArray[np.intp]:
    n_rows, size = weights.shape[:2]
    n_sets = 2**size
    # first_loss[v, S] = Σ_{u in S} weights[u, v]: each label u doubles the sets known so far.
    first_loss = np.empty((size, n_sets, n_rows), dtype=weights.dtype)
    first_loss[:, 0] = 0
    for u, lost in enumerate(np.ascontiguousarray(weights.transpose(1, 2, 0))):
        known = 2**u
        np.add(first_loss[:, :known], lost[:, None], out=first_loss[:, known : 2 * known])

    sets = np.arange(n_sets)
    has = (sets[:, None] >> np.arange(size)) & 1 == 1
    n_members = has.sum(axis=1)
    least = np.zeros((n_sets, n_rows), dtype=weights.dtype)
    for m in range(1, size + 1):
        layer = np.flatnonzero(n_members == m)
        members = np.nonzero(has[layer])[1].reshape(-1, m)
        best = None
        for v in members.T:  # the first member of every set of the layer, then the second, ...
            loss = first_loss[v, layer]
            loss += least[layer - 2**v]
            best = loss if best is None else np.minimum(best, loss, out=best)
        least[layer] = best

    order = np.empty((n_rows, size), dtype=np.intp)
    row, remaining = np.arange(n_rows), np.full(n_rows, n_sets - 1)
    for place in range(size):
        goal = least[remaining, row]
        for label in reversed(range(size)):  # the first that loses the least is written last
            loss = first_loss[label, remaining, row]
            loss += least[remaining & ~(1 << label), row]
            order[(loss == goal) & has[remaining, label], place] = label
        remaining -= 2 ** order[:, place]
    return order


def _order_by_milp(weights: NDArray[np.float64]) -> tuple[NDArray[np.intp], bool]:
    """Linear ordering as an integer program, its triangle inequalities added when violated.

    x[d] = 1 places first[d] before second[d]. An order never goes around in a triangle
    a < b < c: 0 ≤ x[ab] + x[bc] − x[ac] ≤ 1.
    """
    size = len(weights)
    first, second = pairs(size)
    duel = np.zeros((size, size), dtype=np.intp)
    duel[first, second] = np.arange(len(first))
    triangles = np.array(list(combinations(range(size), 3)))
    a, b, c = triangles.T
    # scipy before 1.13 hands sparse indices to HiGHS as they are, and it wants 32 bits.
    sides = np.stack([duel[a, b], duel[b, c], duel[a, c]], axis=1).astype(np.int32)
    cost = weights[second, first] - weights[first, second]
    cost = cost / np.abs(cost).max()  # the solver's tolerances are absolute

    active = np.zeros(len(sides), dtype=bool)
    integral = False
    x = (cost < 0).astype(float)
    while True:
        around = x[sides[:, 0]] + x[sides[:, 1]] - x[sides[:, 2]]
        violated = (around < -1e-6) | (around > 1 + 1e-6)
        if not violated.any() and np.all(np.abs(x - np.round(x)) < 1e-6):
            break
        # Once the solution of the relaxation goes around in no triangle, ask for integers.
        integral = integral or not violated.any()
        active |= violated
        rows = np.repeat(np.arange(active.sum(), dtype=np.int32), 3)
        matrix = csr_array(
            (np.tile([1.0, 1.0, -1.0], active.sum()), (rows, sides[active].ravel())),
            shape=(active.sum(), len(cost)),
        )
        result = milp(
            cost,
            integrality=np.full(len(cost), int(integral)),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, 0, 1),
            options={"node_limit": MILP_NODES, "mip_rel_gap": 0.0},
        )
        if result.status != 0:
            return _order_by_moves(weights, x if result.x is None else result.x)
        x = result.x
    return _order_of_pairs(x, size), True


def _order_of_pairs(x: NDArray[np.float64], size: int) -> NDArray[np.intp]:
    """Order labels by how many they come before; x[d] = 1 places first[d] before second[d]."""
    first, second = pairs(size)
    before = np.zeros((size, size))
    before[first, second] = x
    before[second, first] = 1 - x
    return np.argsort(-before.sum(axis=1).round(6), kind="stable")


def _order_by_moves(
    weights: NDArray[np.float64], x: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.intp], bool]:
    """Move single labels while that lowers the loss, from a relaxation's order or Copeland's."""
    gain = weights - weights.T
    order = np.argsort(-np.sign(gain).sum(axis=1), kind="stable")
    if x is not None:
        order = _order_of_pairs(x, len(weights))
    negligible = 1e-12 * np.abs(gain).sum()
    improved = True
    while improved:
        improved = False
        for label in order.copy():
            others = order[order != label]
            # The loss of putting the label at each place, up to a constant.
            losses = np.concatenate([[0.0], np.cumsum(gain[label, others])])
            here = int(np.flatnonzero(order == label)[0])
            there = int(np.argmin(losses))
            if losses[there] < losses[here] - negligible:
                order = np.insert(others, there, label)
                improved = True
    return order, False
