"""Many labels: 4,950 duels against OneVsOneClassifier, and half a million duels on their own."""

import resource
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier

from duelrank import DuelRanker, LogisticDuels
from side_by_side import best_of, report


def clusters(n_classes: int, rows: int, n_features: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, n_features))
    y = np.repeat(np.arange(n_classes), rows)
    return centres[y] + rng.normal(size=(len(y), n_features)), y


def main() -> None:
    X, y = clusters(100, 200, 64)
    ours, duels = best_of(lambda: LogisticDuels().fit(X, y, 100), 5)
    assert duels.converged_.all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, _ = best_of(lambda: OneVsOneClassifier(LogisticRegression()).fit(X, y), 2)
    report("4,950 duels, 200 rows a label, 64 features", ours, theirs, "OneVsOne, default solver")

    before = peak_gigabytes()
    X, y = clusters(1000, 110, 64)
    train = np.arange(len(y)) % 110 < 100
    fit_seconds, ranker = best_of(lambda: DuelRanker(random_state=0).fit(X[train], y[train]), 1)
    rank_seconds, ranks = best_of(lambda: ranker.predict_ranks(X[~train]), 1)
    place = ranks[np.arange(len(ranks)), y[~train]]
    print(
        f"1,000 labels, 499,500 duels, 100 rows a label, 64 features: fit {fit_seconds:.0f} s, "
        f"ranking 10,000 points {rank_seconds:.1f} s, peak memory {peak_gigabytes():.2f} GB "
        f"({before:.2f} before), converged {ranker.duels_.converged_.mean():.1%}, "
        f"top-1 {np.mean(place == 1):.3f}, top-5 {np.mean(place <= 5):.3f}"
    )


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
