"""Many labels: 4,950 duels against OneVsOneClassifier, and half a million duels on their own.

The ranking of half a million duels stands next to the matrix product that it cannot do without: the
duels of one label with all later ones, times the points, in single precision.
"""

import resource

import numpy as np

from duelrank import DuelRanker, LogisticDuels
from peers import compare_fits, objectives
from side_by_side import best_of, figure, report

POINTS_AT_ONCE = 1000  # of the bare product; it is slower with ten times as many or a tenth


def clusters(n_classes: int, rows: int, n_features: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, n_features))
    y = np.repeat(np.arange(n_classes), rows)
    return centres[y] + rng.normal(size=(len(y), n_features)), y


def bare_product(coef: np.ndarray, points: np.ndarray, n_classes: int) -> None:
    """Compute the margins of all duels, (duels of a label, points) at a time, and forget them."""
    margins = np.empty((n_classes - 1) * POINTS_AT_ONCE, dtype=coef.dtype)
    for start in range(0, len(points), POINTS_AT_ONCE):
        columns = np.ascontiguousarray(points[start : start + POINTS_AT_ONCE].T)
        end = 0
        for size in range(n_classes - 1, 0, -1):
            out = margins[: size * columns.shape[1]].reshape(size, -1)
            np.matmul(coef[end : end + size], columns, out=out)
            end += size
        assert end == len(coef)


def hundred_labels(n_classes: int = 100) -> None:
    X, y = clusters(n_classes, 200, 64)
    ours, duels = best_of(lambda: LogisticDuels().fit(X, y, n_classes), 5)
    assert duels.converged_.all()
    minima = objectives(X, y, 1.0, duels.coef_, duels.intercept_)  # within 1e-8
    question = f"fit of {len(minima):,} duels, 200 rows a label, 64 features"
    compare_fits(question, f"labels-{n_classes}/fit", ours, X, y, 1.0, minima, {"lbfgs": 2})


def thousand_labels(n_classes: int = 1000) -> None:
    X, y = clusters(n_classes, 110, 64)
    train = np.arange(len(y)) % 110 < 100
    points = X[~train]
    fit_seconds, ranker = best_of(lambda: DuelRanker(random_state=0).fit(X[train], y[train]), 1)
    memory = peak_gigabytes()
    rank_seconds, ranks = best_of(lambda: ranker.predict_ranks(points), 2)
    top_seconds, _ = best_of(lambda: ranker.predict_top(points, 5), 2)
    coef, single = ranker.duels_.coef_.astype(np.float32), points.astype(np.float32)
    product, _ = best_of(lambda: bare_product(coef, single, n_classes))
    place = ranks[np.arange(len(ranks)), y[~train]]
    converged = ranker.duels_.converged_.mean()
    accuracies = f"top-1 {np.mean(place == 1):.3f}, top-5 {np.mean(place <= 5):.3f}"
    key, labels = f"labels-{n_classes}", f"{n_classes:,} labels"
    about = f"{labels}, {len(coef):,} duels, 100 rows a label, 64 features"
    note = f"{converged:.1%} converged; {accuracies}"
    figure(f"fit of {about}", fit_seconds, "s", key=f"{key}/fit", note=note)
    figure(f"peak memory of the fit of {labels}", memory, "GB", key=f"{key}/memory")
    for question, seconds, name in [
        (f"{labels}: whole ranking of {len(points):,} points", rank_seconds, "rank"),
        (f"{labels}: first five of {len(points):,} points", top_seconds, "top-5"),
    ]:
        report(question, seconds, product, "the bare product, float32", key=f"{key}/{name}")


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    thousand_labels()  # first, because the peak of memory is that of the process
    hundred_labels()
