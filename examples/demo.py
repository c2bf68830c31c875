"""Rank the ten digits: duels against multinomial logistic regression.

Fits both on one half of scikit-learn's digits, prints the top-1 to top-5 accuracies on the other
half, the share of query points whose duels contain a cycle, and the fit times, and draws the
accuracies to output/demo.png.
"""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, predict_ranks
from duelrank.losses import top_k_loss

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TOP = range(1, 6)


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    models = {
        "duels": DuelRanker(random_state=0),
        "multinomial": LogisticRegression(max_iter=1000),
    }
    rows = {}
    for name, model in models.items():
        pipeline = make_pipeline(StandardScaler(), model)
        start = time.perf_counter()
        pipeline.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        ranks = predict_ranks(pipeline, X_test)
        accuracies = [1 - top_k_loss(y_test, ranks, k).mean() for k in TOP]
        cycles = cycle_share(pipeline, X_test) if name == "duels" else None
        rows[name] = (accuracies, cycles, seconds)
    print_table(rows, len(y_train), len(y_test))
    print(f"\nfigure: {draw(rows)}")


def cycle_share(pipeline, X) -> float:
    tournament = pipeline[-1].tournament(pipeline[:-1].transform(X))
    return float(np.mean(~tournament.is_transitive))


def print_table(rows, n_train: int, n_test: int) -> None:
    print(f"digits: {n_train} training rows, {n_test} query points, 10 labels\n")
    heads = "".join(f"{f'top-{k}':>8}" for k in TOP)
    print(f"{'ranking by':<12}{heads}{'cycles':>9}{'fit time':>11}")
    for name, (accuracies, cycles, seconds) in rows.items():
        cells = "".join(f"{accuracy:8.3f}" for accuracy in accuracies)
        share = "–" if cycles is None else f"{cycles:.0%}"
        print(f"{name:<12}{cells}{share:>9}{seconds:9.3f} s")


def draw(rows) -> Path:
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for (name, (accuracies, _, _)), marker in zip(rows.items(), "os", strict=True):
        axes.plot(TOP, np.array(accuracies) * 100, marker=marker, label=name)
    axes.set(
        title="Digits: how often the true label is among the first k",
        xlabel="k",
        ylabel="top-k accuracy (%)",
        xticks=list(TOP),
    )
    axes.grid(alpha=0.3)
    axes.legend(title="ranking by")
    path = Path("output") / "demo.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    main()
