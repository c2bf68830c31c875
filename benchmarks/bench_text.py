"""Text and embeddings, where duels have more features than rows, beside scikit-learn's models.

The text is BANKING77 (Casanueva et al. 2020): 10,003 questions of 77 intents, as TF-IDF of words
and of characters inside words. A truncated SVD of it to 768 columns stands in for dense embeddings.
Growth is measured on made-up text and drawn to output/text_growth.png.

``python benchmarks/bench_text.py single_rows`` runs one part.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_union
from sklearn.svm import LinearSVC

from duelrank import DuelRanker, LogisticDuels, LogisticDuelsCV, predict_ranks
from duelrank.datasets import load_text
from side_by_side import best_of, figure, report, run_parts, skipped

BASE = {"rows": 100, "labels": 40, "columns": 20_000}
GRID = {
    "rows": [25, 50, 100, 200, 400],
    "labels": [10, 20, 40, 80, 160],
    "columns": [5_000, 10_000, 20_000, 40_000, 80_000],
}


def banking() -> tuple[sparse.csr_matrix, np.ndarray, sparse.csr_matrix, np.ndarray]:
    texts, y = load_text("banking77")
    texts_test, y_test = load_text("banking77", subset="test")
    vectorizer = make_union(
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
        TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 5)),
    )
    return vectorizer.fit_transform(texts), y, vectorizer.transform(texts_test), y_test


def made_up_text(rows: int, labels: int, columns: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Make rows of 60 words each: a fifth from their label's own 200, the others from all."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(labels), rows)
    own = rng.integers(0, columns, size=(labels, 200))
    chosen = np.take_along_axis(own[y], rng.integers(0, 200, size=(len(y), 12)), axis=1)
    shared = (columns * rng.random((len(y), 48)) ** 3).astype(np.intp)
    words = np.hstack([chosen, shared])
    ends = 60 * np.arange(len(y) + 1)
    X = sparse.csr_array((np.full(words.size, 0.13), words.ravel(), ends), shape=(len(y), columns))
    X.sum_duplicates()
    return X, y


def top_k(ranks: np.ndarray, classes: np.ndarray, y: np.ndarray) -> str:
    place = ranks[np.arange(len(y)), np.searchsorted(classes, y)]
    return " / ".join(f"{np.mean(place <= k):.3f}" for k in (1, 3, 5))


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def text() -> None:
    X, y, X_test, y_test = banking()
    print(f"{X.shape[0]:,} rows, {X.shape[1]:,} columns, {peak_gigabytes():.2f} GB so far")
    ours, ranker = best_of(lambda: DuelRanker(LogisticDuels(10), random_state=0).fit(X, y))
    assert ranker.duels_.converged_.all()
    rank_ours, ranks = best_of(lambda: ranker.predict_ranks(X_test))
    top_ours, _ = best_of(lambda: ranker.predict_top(X_test, 5))
    figure("peak memory of fits and rankings", peak_gigabytes(), "GB", key="text/memory")
    print(f"top-1 / 3 / 5: {top_k(ranks, ranker.classes_, y_test)}")

    peer = OneVsOneClassifier(LogisticRegression(C=10, solver="liblinear"))
    theirs, peer = best_of(lambda: peer.fit(X, y), 2)
    fit = "fit of BANKING77, 2,926 duels"
    report(fit, ours, theirs, "OneVsOne, liblinear", key="text/fit/one-vs-one")
    theirs, _ = best_of(lambda: peer.decision_function(X_test))
    name = "OneVsOne's decision_function"
    report("ranking 3,080 texts", rank_ours, theirs, name, key="text/rank")
    report("the first five labels of 3,080 texts", top_ours, theirs, name, key="text/top-5")
    for name, key, other in [
        ("multinomial LogisticRegression", "multinomial", LogisticRegression(C=10)),
        ("LinearSVC", "linear-svc", LinearSVC()),
    ]:
        theirs, other = best_of(lambda: other.fit(X, y), 2)
        accuracies = top_k(predict_ranks(other, X_test), other.classes_, y_test)
        report(fit, ours, theirs, name, key=f"text/fit/{key}", note=f"top-1 / 3 / 5 {accuracies}")
    for name, key, engine in [
        ('C="scale"', "scale", LogisticDuels("scale")),
        ("10 C's, 5 folds, by log loss", "cv", LogisticDuelsCV(scoring="neg_log_loss")),
    ]:
        seconds, chosen = best_of(lambda: DuelRanker(engine, random_state=0).fit(X, y), 1)
        note = f"top-1 / 3 / 5 {top_k(chosen.predict_ranks(X_test), chosen.classes_, y_test)}"
        figure(f"{fit}, {name}", seconds, "s", key=f"text/fit/{key}", note=note)


def embeddings() -> None:
    X, y, X_test, y_test = banking()
    svd = TruncatedSVD(768, random_state=0).fit(X)
    X, X_test = svd.transform(X), svd.transform(X_test)
    ours, ranker = best_of(lambda: DuelRanker(LogisticDuels(10), random_state=0).fit(X, y))
    assert ranker.duels_.converged_.all()
    rank_ours, ranks = best_of(lambda: ranker.predict_ranks(X_test))
    print(f"768 dense columns: top-1 / 3 / 5: {top_k(ranks, ranker.classes_, y_test)}")
    theirs, peer = best_of(lambda: OneVsOneClassifier(LogisticRegression(C=10)).fit(X, y), 1)
    report("fit, dense", ours, theirs, "OneVsOne, default solver", key="embeddings/fit")
    theirs, _ = best_of(lambda: peer.decision_function(X_test), 2)
    name = "OneVsOne's decision_function"
    report("ranking, dense", rank_ours, theirs, name, key="embeddings/rank")


def single_rows() -> None:
    X, y, X_test, _ = banking()
    svd = TruncatedSVD(768, random_state=0).fit(X)
    codes = np.unique(y, return_inverse=True)[1]
    for n_labels in (10, 77, 150):
        # For 150 labels, those of odd and of even rows are told apart.
        labels = codes if n_labels <= 77 else 2 * codes + np.arange(len(y)) % 2
        some = labels < n_labels
        for kind, rows, row in [
            ("sparse", X[some], X_test[:1]),
            ("dense", svd.transform(X[some]), svd.transform(X_test[:1])),
        ]:
            ranker = DuelRanker(LogisticDuels(10), random_state=0).fit(rows, labels[some])
            peer = LogisticRegression(C=10, max_iter=20).fit(rows, labels[some])
            ours, _ = best_of(lambda: ranker.predict_ranks(row), 200)
            top, _ = best_of(lambda: ranker.predict_top(row, 5), 200)
            theirs, _ = best_of(lambda: peer.predict_proba(row), 200)
            name = "LogisticRegression.predict_proba"
            for what, key, seconds in (("ranking", "rank", ours), ("first five", "top-5", top)):
                report(
                    f"one {kind} row, {n_labels} labels, {what}",
                    seconds,
                    theirs,
                    name,
                    key=f"text/one-row/{kind}/{n_labels}-labels/{key}",
                )


MEASURE = """
import json, sys, tracemalloc
sys.path.insert(0, {folder!r})
from bench_text import made_up_text
from side_by_side import best_of
from duelrank import DuelRanker
X, y = made_up_text({rows}, {labels}, {columns})
fit, ranker = best_of(lambda: DuelRanker(random_state=0).fit(X, y))
rank, _ = best_of(lambda: ranker.predict_ranks(X[::10]))
tracemalloc.start()
DuelRanker(random_state=0).fit(X, y)
peak = tracemalloc.get_traced_memory()[1]
print(json.dumps([fit, 1e4 * rank / len(y), peak / 2**20]))
"""


def growth() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder = str(Path(__file__).parent)
    figure, axes = plt.subplots(3, 3, figsize=(11, 9), layout="constrained", sharey="row")
    names = ["fit (s)", "ranking 1,000 rows (s)", "memory of a fit (MB)"]
    for column, (name, values) in enumerate(GRID.items()):
        measured = []
        for value in values:
            code = MEASURE.format(folder=folder, **(BASE | {name: value}))
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            measured.append(json.loads(done.stdout))
            print(name, value, ", ".join(f"{what} {x:.3g}" for what, x in zip(names, measured[-1])))
        for panel, what, series in zip(axes[:, column], names, np.array(measured).T):
            slope = np.polyfit(np.log(values[-3:]), np.log(series[-3:]), 1)[0]
            panel.loglog(values, series, "o-")
            panel.set_title(f"at the end: {name}$^{{{slope:.1f}}}$", fontsize=10)
            panel.set_xticks(values, [f"{value:,}" for value in values], rotation=30)
            for formatter in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
                formatter(
                    lambda value, _: f"{value:g}" if f"{value:g}".strip("0.")[:1] in "125" else ""
                )
            panel.xaxis.set_minor_locator(plt.NullLocator())
            panel.grid(alpha=0.3)
            panel.set_ylabel(what if column == 0 else "")
        axes[-1, column].set_xlabel(f"{name} of a label" if name == "rows" else name)
    base = f"{BASE['rows']} rows a label, {BASE['labels']} labels, {BASE['columns']:,} columns"
    figure.suptitle(f"LogisticDuels on made-up text around {base}")
    path = Path("output") / "text_growth.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"figure: {path}")


PARTS: dict[str, Callable[[], None]] = {
    "text": text,
    "embeddings": embeddings,
    "single_rows": single_rows,
    "growth": growth,
}


def main() -> None:
    """Run every part in a process of its own, because peak memory is that of a process."""
    by_itself = Path(sys.argv[0]).name == Path(__file__).name
    asked = sys.argv[1:] if by_itself else []
    if len(asked) != 1:
        run_parts(__file__, asked or PARTS)
    elif "DUELRANK_DATA" not in os.environ and asked != ["growth"]:
        skipped(asked[0], "set DUELRANK_DATA to a folder with text/banking77_train.csv")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            PARTS[asked[0]]()


if __name__ == "__main__":
    main()
