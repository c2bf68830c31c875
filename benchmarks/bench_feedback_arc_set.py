"""Exact minimum feedback arc sets of random tournaments: against one scipy milp per row."""

from itertools import permutations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from duelrank import pairs
from duelrank.tournaments import beats_from_margins, feedback_arc_set
from side_by_side import best_of, report


def milp_cost(weights: np.ndarray) -> float:
    """The textbook program: a variable per ordered pair, all triangle inequalities."""
    n_classes = len(weights)
    number = {pair: i for i, pair in enumerate(permutations(range(n_classes), 2))}
    rows, lower, upper = [], [], []
    for (a, b), column in number.items():
        if a < b:
            rows.append([column, number[b, a]])
            lower.append(1)
            upper.append(1)
    for a, b, c in permutations(range(n_classes), 3):
        rows.append([number[a, b], number[b, c], number[c, a]])
        lower.append(0)
        upper.append(2)
    matrix = csr_array(
        (
            np.ones(sum(map(len, rows))),
            (np.repeat(np.arange(len(rows)), list(map(len, rows))), np.concatenate(rows)),
        ),
        shape=(len(rows), len(number)),
    )
    # Placing a before b loses weights[b, a].
    cost = np.array([weights[b, a] for a, b in number])
    result = milp(
        cost,
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, lower, upper),
    )
    return result.fun


def main() -> None:
    rng = np.random.default_rng(0)
    n_rows, n_classes, n_peer = 10_000, 10, 40
    beats = beats_from_margins(rng.normal(size=(n_rows, len(pairs(n_classes)[0]))), n_classes)
    ours, result = best_of(lambda: feedback_arc_set(beats))
    assert result.exact.all()
    theirs, costs = best_of(lambda: [milp_cost(beats[i] * 1.0) for i in range(n_peer)], 1)
    assert np.allclose(costs, result.cost[:n_peer])
    report(
        f"feedback arc sets of {n_rows} random tournaments of {n_classes} labels",
        ours,
        theirs * n_rows / n_peer,
        f"scipy milp per row (timed on {n_peer} rows)",
        key="feedback-arc-set",
    )


if __name__ == "__main__":
    main()
