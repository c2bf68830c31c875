"""Duels from rankings: one solve for all against one LogisticRegression per duel, and growth."""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from duelrank import LogisticDuels
from duelrank.feedback import outcomes
from duelrank.posteriors import sample_plackett_luce
from side_by_side import best_of, figure, report


def rankings(n_rows: int, n_classes: int, n_features: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    utilities = X @ rng.normal(size=(n_features, n_classes)) / np.sqrt(n_features)
    return X, sample_plackett_luce(np.exp(2 * utilities), random_state=seed).astype(float)


def one_by_one(X: np.ndarray, ranks: np.ndarray) -> None:
    for decided in outcomes(ranks).T:
        rows = np.flatnonzero(decided)
        LogisticRegression(solver="newton-cholesky").fit(X[rows], decided[rows])


def main() -> None:
    X, ranks = rankings(20_000, 10, 30)
    top_3 = np.where(ranks <= 3, ranks, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, feedback in (("full rankings", ranks), ("top-3 lists", top_3)):
            ours, duels = best_of(lambda: LogisticDuels().fit(X, feedback, 10))
            assert duels.converged_.all()
            theirs, _ = best_of(lambda: one_by_one(X, feedback), 2)
            report(
                f"20,000 {name} of 10 labels, 30 features",
                ours,
                theirs,
                "LogisticRegression per duel, newton-cholesky",
                key=f"rankings/{name.replace(' ', '-')}",
            )
    for n_classes in (10, 20, 40):
        X, ranks = rankings(5_000, n_classes, 30)
        full, _ = best_of(lambda: LogisticDuels().fit(X, ranks, n_classes), 2)
        top = np.where(ranks <= 3, ranks, 4)
        lists, _ = best_of(lambda: LogisticDuels().fit(X, top, n_classes), 2)
        about, key = f"5,000 rows, {n_classes} labels", f"rankings/{n_classes}-labels"
        figure(f"{about}, full rankings", full, "s", key=f"{key}/full-rankings")
        figure(f"{about}, top-3 lists", lists, "s", key=f"{key}/top-3-lists")


if __name__ == "__main__":
    main()
