"""Cross-validated duels of MNIST's 3, 5 and 8: against LogisticRegressionCV per duel.

The peer takes minutes, so it is timed once. All 45 duels would take it most of an hour, so they are
fitted once and without the peer.
"""

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from duelrank import DuelRanker, LogisticDuelsCV, pairs
from mnist_components import load
from side_by_side import best_of, figure, report

LABELS = np.array([3, 5, 8])


def main() -> None:
    X, y, X_test, y_test = load()
    three_labels(X, y)
    all_labels(X, y, X_test, y_test)


def three_labels(X: np.ndarray, y: np.ndarray) -> None:
    keep = np.isin(y, LABELS)
    X, codes = X[keep], np.searchsorted(LABELS, y[keep])
    ours, duels = best_of(lambda: LogisticDuelsCV(Cs=10, cv=5).fit(X, codes, 3), 5)
    folds = list(StratifiedKFold(5).split(X, codes))
    theirs = 0.0
    for duel, (first, second) in enumerate(zip(*pairs(3), strict=True)):
        rows = np.flatnonzero((codes == first) | (codes == second))
        own = np.full(len(codes), -1)
        own[rows] = np.arange(len(rows))
        own_folds = [tuple(own[part][own[part] >= 0] for part in fold) for fold in folds]
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = LogisticRegressionCV(Cs=10, cv=own_folds, max_iter=2000)
            peer.fit(X[rows], codes[rows] == second)
        theirs += time.perf_counter() - start
        scores = peer.scores_
        scores = np.asarray(scores[True] if isinstance(scores, dict) else scores).reshape(5, 10)
        chosen = np.flatnonzero(duels.Cs_ == duels.C_[duel])[0]
        print(
            f"{LABELS[first]} against {LABELS[second]}: C {duels.C_[duel]:.3g}, peer's "
            f"{float(np.ravel(peer.C_)[0]):.3g}; its score at our C is "
            f"{scores.mean(axis=0)[chosen]:.5f}, its best {scores.mean(axis=0).max():.5f}",
            flush=True,
        )
    report(
        "3, 5 and 8: 3 duels, 10 C's, 5 folds",
        ours,
        theirs,
        "LogisticRegressionCV(Cs=10, cv=5, max_iter=2000) per duel",
        key="mnist/cv",
    )


def all_labels(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> None:
    ranker = DuelRanker(LogisticDuelsCV(Cs=10, cv=5), ties="index")
    start, cpu_start = time.perf_counter(), time.process_time()
    ranker.fit(X, y)
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    converged = ranker.duels_.fold_converged_
    place = ranker.predict_ranks(X_test)[np.arange(len(y_test)), y_test]
    note = (
        f"{cpu:.1f} s of CPU, {converged.sum()} of {converged.size} models on folds converged; "
        f"top-1 {np.mean(place == 1):.4f}, top-5 {np.mean(place <= 5):.4f}"
    )
    figure("all digits: 45 duels, 10 C's, 5 folds", elapsed, "s", key="mnist/cv/all", note=note)


if __name__ == "__main__":
    main()
