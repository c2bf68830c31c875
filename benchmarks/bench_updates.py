"""Updates of a fitted ranker beside a fit of all rows: labels and rows that come, labels that go.

Three kinds of rows: a table with more rows a duel than columns, dense rows with more columns, such
as embeddings, and sparse text. ``python benchmarks/bench_updates.py text`` runs one of them. The
last part measures what updates without kept rows lose, on the digits of scikit-learn.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits

from duelrank import DuelRanker, LogisticDuels
from side_by_side import best_of, report

LABELS = 101  # the last one comes later
Rows = tuple[Any, np.ndarray]


def table() -> Rows:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(LABELS), 200)
    return rng.normal(size=(LABELS, 64))[y] + 1.5 * rng.normal(size=(len(y), 64)), y


def embeddings() -> Rows:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(LABELS), 40)
    X = 0.3 * rng.normal(size=(LABELS, 384))[y] + rng.normal(size=(len(y), 384))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def text() -> Rows:
    """Rows of 20 words, a quarter of them from their label's own."""
    rng = np.random.default_rng(0)
    columns, y = 20_000, np.repeat(np.arange(LABELS), 80)
    own = rng.integers(0, columns, size=(LABELS, 200))
    chosen = np.take_along_axis(own[y], rng.integers(0, 200, size=(len(y), 5)), axis=1)
    shared = (columns * rng.random((len(y), 15)) ** 3).astype(np.intp)
    words = np.hstack([chosen, shared]).ravel()
    ends = 20 * np.arange(len(y) + 1)
    X = sparse.csr_array((np.full(len(words), 20**-0.5), words, ends), shape=(len(y), columns))
    X.sum_duplicates()
    return X, y


def time_of(ranker: DuelRanker, change: Callable[[DuelRanker], Any]) -> float:
    """Time a change of a ranker, which stays as it is: an update replaces all arrays."""
    shortest = np.inf
    for _ in range(3):
        changed = copy.copy(ranker)
        changed.duels_ = copy.copy(ranker.duels_)
        seconds, _ = best_of(lambda changed=changed: change(changed), repeats=1)
        shortest = min(shortest, seconds)
    return shortest


def updates(name: str, make_rows: Callable[[], Rows]) -> None:
    X, y = make_rows()
    old, late = np.flatnonzero(y < LABELS - 1), np.flatnonzero(y == LABELS - 1)
    first = DuelRanker(LogisticDuels(C="scale", keep_rows=True), random_state=0).fit(X[old], y[old])
    engine = LogisticDuels(first.duels_.C_)
    refit, whole = best_of(lambda: DuelRanker(engine, random_state=0).fit(X, y), repeats=2)
    updated = copy.deepcopy(first).partial_fit(X[late], y[late])
    same = np.mean(updated.predict_ranks(X[::20]) == whole.predict_ranks(X[::20]))
    print(f"{name}: {LABELS - 1} labels and one more, {X.shape[0]} rows, {X.shape[1]} columns")
    print(f"  places that agree with those of a fit: {same:.4%}")
    some = np.flatnonzero(y == 7)[:100]
    changes: dict[str, tuple[DuelRanker, Callable[[DuelRanker], Any]]] = {
        "add a label": (first, lambda ranker: ranker.partial_fit(X[late], y[late])),
        "add 1 row": (updated, lambda ranker: ranker.partial_fit(1.01 * X[some[:1]], [7])),
        f"add {len(some)} rows of a label": (
            updated,
            lambda ranker: ranker.partial_fit(1.01 * X[some], y[some]),
        ),
        "drop a label": (updated, lambda ranker: ranker.drop_labels([7])),
    }
    for what, (ranker, change) in changes.items():
        report(
            f"  {name}: {what}",
            time_of(ranker, change),
            refit,
            "a fit of all rows",
            key=f"updates/{name}/{what.replace(' ', '-')}",
        )


def without_rows() -> None:
    """Compare batches that go on from the last solution with a fit of all rows."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:1200], order[1200:]
    for C in (1e-4, 1e-3, 1e-2):
        engine = LogisticDuels(C)
        whole = DuelRanker(engine, random_state=0).fit(X[train], y[train])
        line = f"  C={C:g}: accuracy of a fit of 1200 digits {whole.score(X[test], y[test]):.3f}"
        for batches in (2, 6, 24):
            ranker = DuelRanker(engine, random_state=0)
            for batch in np.array_split(train, batches):
                ranker.partial_fit(X[batch], y[batch], classes=np.arange(10))
            line += f", of {batches} batches {ranker.score(X[test], y[test]):.3f}"
        part = train[: len(train) // 6]
        alone = DuelRanker(engine, random_state=0).fit(X[part], y[part])
        print(f"{line}, of the first 200 alone {alone.score(X[test], y[test]):.3f}")


PARTS: dict[str, Callable[[], None]] = {
    "table": lambda: updates("table", table),
    "embeddings": lambda: updates("embeddings", embeddings),
    "text": lambda: updates("text", text),
    "without_rows": without_rows,
}

if __name__ == "__main__":
    named = [name for name in sys.argv[1:] if name in PARTS]
    for part in named or PARTS:
        PARTS[part]()
