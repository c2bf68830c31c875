"""The 45 logistic duels of MNIST at C = 1e-4, and ranking with them: against OneVsOneClassifier."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier

from duelrank import DuelRanker, LogisticDuels
from mnist_components import load
from peers import compare_fits, objectives
from side_by_side import best_of, figure, report

C = 1e-4


def main() -> None:
    X, y, X_test, y_test = load()
    ours, ranker = best_of(lambda: DuelRanker(LogisticDuels(C), ties="index").fit(X, y), 5)
    ranks = ranker.predict_ranks(X_test)
    place = ranks[np.arange(len(y_test)), y_test]
    print(f"plain Copeland: top-1 {np.mean(place == 1):.4f}, top-5 {np.mean(place <= 5):.4f}")
    single, _ = best_of(lambda: LogisticDuels(C).fit(X.astype(np.float32), y, 10), 5)
    figure("fit of 45 duels on MNIST in single precision", single, "s", key="mnist/fit/single")

    exact = OneVsOneClassifier(
        LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=100)
    ).fit(X, y)
    coef = [duel.coef_[0] for duel in exact.estimators_]
    minima = objectives(X, y, C, coef, [duel.intercept_[0] for duel in exact.estimators_])
    duels = ranker.duels_
    excess = np.max(objectives(X, y, C, duels.coef_, duels.intercept_) / minima - 1)
    print(f"excess of duelrank's objectives over their minima, relative to them: {excess:.0e}")
    assert excess < 1e-6

    for ties in ("index", "probability"):
        ranker.ties = ties
        seconds, _ = best_of(lambda: ranker.decision_function(X_test), 25)
        theirs, _ = best_of(lambda: exact.decision_function(X_test), 25)
        report(
            f"ranking MNIST's 10,000 test points, ties={ties!r}",
            seconds,
            theirs,
            "OneVsOne's decision_function",
            key=f"mnist/rank/{ties}",
        )
    repeats = {"newton-cholesky": 3, "lbfgs": 2, "intel": 2, "cyanure": 2}
    compare_fits("fit of 45 duels on MNIST", "mnist/fit", ours, X, y, C, minima, repeats)


if __name__ == "__main__":
    main()
