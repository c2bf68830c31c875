"""The 45 logistic duels of MNIST at C = 1e-4, and ranking with them: against OneVsOneClassifier."""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier

from duelrank import DuelRanker, LogisticDuels, pairs
from mnist_components import load
from side_by_side import best_of, report

C = 1e-4


def objectives(X, y, coef, intercept) -> np.ndarray:
    values = []
    for w, b, first, second in zip(coef, intercept, *pairs(10), strict=True):
        rows = (y == first) | (y == second)
        side = np.where(y[rows] == second, 1, -1)
        values.append(0.5 * w @ w + C * np.logaddexp(0, -side * (X[rows] @ w + b)).sum())
    return np.array(values)


def main() -> None:
    X, y, X_test, y_test = load()
    ours, ranker = best_of(lambda: DuelRanker(LogisticDuels(C), ties="index").fit(X, y), 5)
    ranks = ranker.predict_ranks(X_test)
    place = ranks[np.arange(len(y_test)), y_test]
    print(f"plain Copeland: top-1 {np.mean(place == 1):.4f}, top-5 {np.mean(place <= 5):.4f}")
    single, _ = best_of(lambda: LogisticDuels(C).fit(X.astype(np.float32), y, 10), 5)
    print(f"in single precision: {single:.3f} s")

    newton, peer = best_of(
        lambda: OneVsOneClassifier(LogisticRegression(C=C, solver="newton-cholesky")).fit(X, y)
    )
    exact = OneVsOneClassifier(
        LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=100)
    ).fit(X, y)
    best = objectives(
        X, y, [e.coef_[0] for e in exact.estimators_], [e.intercept_[0] for e in exact.estimators_]
    )
    duels = ranker.duels_
    gap = objectives(X, y, duels.coef_, duels.intercept_) / best - 1
    peer_gap = (
        objectives(
            X,
            y,
            [e.coef_[0] for e in peer.estimators_],
            [e.intercept_[0] for e in peer.estimators_],
        )
        / best
        - 1
    )
    print(f"relative excess of the objectives: duelrank {gap.max():.1e}, peer {peer_gap.max():.1e}")
    report("fit of 45 duels on MNIST", ours, newton, "OneVsOne, newton-cholesky")
    assert gap.max() < 1e-6

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its default does not converge in 100 iterations
        default, _ = best_of(lambda: OneVsOneClassifier(LogisticRegression(C=C)).fit(X, y))
    report("fit of 45 duels on MNIST", ours, default, "OneVsOne, default solver")

    for ties in ("index", "probability"):
        ranker.ties = ties
        seconds, _ = best_of(lambda: ranker.decision_function(X_test), 25)
        theirs, _ = best_of(lambda: peer.decision_function(X_test), 25)
        report(f"ranking 10,000 points, ties={ties!r}", seconds, theirs, "decision_function")


if __name__ == "__main__":
    main()
