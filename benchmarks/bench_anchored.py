"""Anchored duels beside multinomial and one-vs-rest models: text, thousands of labels, choices.

- ``text``: BANKING77, 77 intents, as TF-IDF of words and of characters inside words.
- ``occupations``: O*NET's job titles, 1,015 occupations; a random fifth of the titles is held out.
  Titles of several occupations are feedback with a tie at the first place. For the labels behind
  the first, rankings are compared with O*NET's own lists of related occupations.
- ``choices``: BANKING77 as choices among five labels, and as preferences between two.
- ``digits``: MNIST, next to duels that share nothing.

``python benchmarks/bench_anchored.py occupations`` runs one part.
"""

from __future__ import annotations

import csv
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_union
from sklearn.svm import LinearSVC

from bench_text import banking
from duelrank import AnchoredDuels, DuelRanker, LogisticDuels, predict_top
from duelrank.datasets import load_images, load_text
from duelrank.rankings import ranks_from_choices, ranks_from_pairs, ranks_from_sets
from side_by_side import figure, record, report, run_parts, skipped

FOLDER = Path(os.environ.get("DUELRANK_DATA", ".")) / "text"


def timed(work: Callable[[], object]) -> tuple[object, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def show(name: str, seconds: float, rank_seconds: float, hits: list[float], more: str = "") -> None:
    shares = " / ".join(f"{hit:.3f}" for hit in hits)
    print(
        f"{name:46} fit {seconds:6.1f} s  rank {rank_seconds:5.2f} s  {shares}  {more}", flush=True
    )


def record_fits(part: str, fits: dict[str, tuple[float, list[float]]], peer: str = "") -> None:
    """Record seconds and hits of all fits of a part, next to those of a peer if it has one."""
    shares = {name: " / ".join(f"{hit:.3f}" for hit in hits) for name, (_, hits) in fits.items()}
    for name, (seconds, _) in fits.items():
        if name != peer:
            record(
                f"anchored/{part}/{name}".replace(",", "").replace('"', "").replace(" ", "-"),
                f"{part}: fit of {name}, hits {shares[name]}",
                seconds,
                peer=peer,
                theirs=fits[peer][0] if peer else None,
                note=f"hits {shares[peer]}" if peer else "",
            )


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def peak() -> str:
    return f"peak {peak_gigabytes():.1f} GB"


def text() -> None:
    X, y, X_test, y_test = banking()
    models = {
        "anchored duels, C=50, C_own=5, 10 rivals": DuelRanker(AnchoredDuels(50, 5, 10)),
        "anchored duels, C=50, C_own=5, 3 rivals": DuelRanker(AnchoredDuels(50, 5, 3)),
        "anchored duels, C=50, C_own=5": DuelRanker(AnchoredDuels(50, 5)),
        "scores alone, C=50": DuelRanker(AnchoredDuels(50, rivals=0)),
        'duels that share nothing, C="scale"': DuelRanker(LogisticDuels(C="scale")),
        "multinomial LogisticRegression, C=10": LogisticRegression(C=10, max_iter=1000),
    }
    fits = {}
    for name, model in models.items():
        if isinstance(model, DuelRanker):
            model.set_params(random_state=0)
        _, seconds = timed(lambda: model.fit(X, y))
        top, ranking = timed(lambda: predict_top(model, X_test, 5))
        hits = [float((top[:, :k] == y_test[:, None]).any(axis=1).mean()) for k in (1, 3, 5)]
        show(name, seconds, ranking, hits, peak())
        fits[name] = seconds, hits
    record_fits("text", fits, peer=list(models)[-1])


def titles() -> tuple[sparse.csr_matrix, list[list[str]], sparse.csr_matrix, list[list[str]], list]:
    """Return points and occupations of titles, four fifths and the rest, and all occupations."""
    of_title: dict[str, list[str]] = {}
    for title, occupation in zip(*load_text("onet")):
        of_title.setdefault(title, []).append(occupation)
    names = list(of_title)
    order = np.random.default_rng(0).permutation(len(names))
    held_out = [names[i] for i in order[: len(names) // 5]]
    learned = [names[i] for i in order[len(names) // 5 :]]
    vectorizer = make_union(
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), dtype=np.float32),
        TfidfVectorizer(
            sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 5), dtype=np.float32
        ),
    )
    X = vectorizer.fit_transform(learned).tocsr()
    X_test = vectorizer.transform(held_out).tocsr()
    classes = sorted({occupation for several in of_title.values() for occupation in several})
    return X, [of_title[t] for t in learned], X_test, [of_title[t] for t in held_out], classes


def occupations() -> None:
    X, sets, X_test, truth, classes = titles()
    print(f"{X.shape[0]:,} titles, {len(classes):,} occupations, {X.shape[1]:,} columns")
    related: dict[str, list[str]] = {}
    with (FOLDER / "onet_related.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            related.setdefault(row["occupation"], []).append(row["related"])
    y = ranks_from_sets(sets, classes, sparse=True)
    rows = np.repeat(np.arange(len(sets)), [len(several) for several in sets])
    labels = np.array([occupation for several in sets for occupation in several])

    def anchored(**parameters: object) -> Callable[[], object]:
        engine = AnchoredDuels(tol=1e-2, **parameters)
        ranker = DuelRanker(engine, random_state=0, unplaced="behind", classes=classes)
        return lambda: ranker.fit(X, y)

    # The same rows once for every occupation, as other classifiers want them.
    def on_pairs(model: object) -> Callable[[], object]:
        return lambda: model.fit(X[rows], labels)

    rivals = DuelRanker(AnchoredDuels(5, 1, 5, tol=1e-2), random_state=0)
    models = {
        "anchored duels, scores alone, C=5": anchored(C=5, rivals=0),
        "anchored duels, 5 rivals, C=5, C_own=1": on_pairs(rivals),
        "LinearSVC, C=0.2": on_pairs(LinearSVC(C=0.2)),
    }
    if "--all" in sys.argv:
        models["LinearSVC, C=0.5"] = on_pairs(LinearSVC(C=0.5))
        models["LinearSVC, C=0.1"] = on_pairs(LinearSVC(C=0.1))
    fits = {}
    for name, fit in models.items():
        model, seconds = timed(fit)
        if not fits:  # later ones cannot tell their own peak
            question = f"occupations: peak memory of the fit of {name}"
            figure(question, peak_gigabytes(), "GB", key="occupations/memory")
        # A ranker's own method spares the ties far behind, which the function has to break.
        own = isinstance(model, DuelRanker)
        top, ranking = timed(
            lambda: model.predict_top(X_test, 11) if own else predict_top(model, X_test, 11)
        )
        per_pair = [
            sum(len(set(first[:k]) & set(right)) for first, right in zip(top.tolist(), truth))
            / sum(map(len, truth))
            for k in (1, 5, 10)
        ]
        any_of = [
            np.mean(
                [bool(set(first[:k]) & set(right)) for first, right in zip(top.tolist(), truth)]
            )
            for k in (1, 5, 10)
        ]
        agree = []
        for first, right in zip(top.tolist(), truth):
            others = [label for label in first if label not in right][:10]
            known = {near for label in right for near in related.get(label, [])} - set(right)
            if known:
                agree.append(np.mean([label in known for label in others]))
        shares = " / ".join(f"{hit:.3f}" for hit in any_of)
        more = f"any of a title's: {shares}; related among the ten others: {np.mean(agree):.3f}"
        show(name, seconds, ranking, per_pair, f"{more}; {peak()}")
        fits[name] = seconds, per_pair
    first, _, peer = list(fits)[:3]
    question = f"fit of {len(classes):,} occupations, {first}"
    report(question, fits.pop(first)[0], fits[peer][0], peer, key="occupations/fit")
    record_fits("occupations", fits, peer)


def words() -> tuple[sparse.csr_matrix, np.ndarray, sparse.csr_matrix, np.ndarray]:
    texts, y = load_text("banking77")
    texts_test, y_test = load_text("banking77", subset="test")
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    return vectorizer.fit_transform(texts), y, vectorizer.transform(texts_test), y_test


def kinds_of_choices(X: sparse.csr_matrix, y: np.ndarray, seed: int = 0) -> dict[str, object]:
    """Make choices of labels: five random labels, a preference, five of a weak recommender."""
    rng = np.random.RandomState(seed)
    classes, codes = np.unique(y, return_inverse=True)
    n, n_classes = len(codes), len(classes)
    others = np.argsort(
        rng.random_sample((n, n_classes)) + 2.0 * (np.arange(n_classes) == codes[:, None])
    )
    random_five = np.column_stack([codes, others[:, :4]])
    # It has learned from three rows of every label, and shows the five labels it finds likeliest.
    few = np.concatenate(
        [rng.permutation(np.flatnonzero(codes == k))[:3] for k in range(n_classes)]
    )
    likely = MultinomialNB(alpha=0.1).fit(X[few], codes[few]).predict_log_proba(X)
    weak_five = np.argsort(-likely, axis=1)[:, :5]
    shown = np.any(weak_five == codes[:, None], axis=1)
    picked = np.where(shown, y, None)
    options = {"classes": classes, "sparse": True}
    return {
        "five random labels shown, the right one picked": ranks_from_choices(
            classes[random_five], y, **options
        ),
        "one preference, the right label over another": ranks_from_pairs(
            y, classes[others[:, 0]], **options
        ),
        "five of a weak recommender, the right one picked": ranks_from_choices(
            classes[weak_five], picked, **options
        ),
    }


def choices() -> None:
    X, y, X_test, y_test = words()
    classes = np.unique(y)
    for kind, ranks in kinds_of_choices(X, y).items():
        print(kind)
        fits = {}
        for name, engine in {
            "anchored duels, scores alone, C=20": AnchoredDuels(20, rivals=0),
            "anchored duels, C=20, C_own=0.1": AnchoredDuels(20, 0.1, 10),
            "duels that share nothing, C=10": LogisticDuels(C=10),
        }.items():
            ranker = DuelRanker(engine, random_state=0, unplaced="unknown", classes=classes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # rows in which nothing was picked
                _, seconds = timed(lambda: ranker.fit(X, ranks))
            top, ranking = timed(lambda: ranker.predict_top(X_test, 5))
            hits = [float((top[:, :k] == y_test[:, None]).any(axis=1).mean()) for k in (1, 3, 5)]
            show(name, seconds, ranking, hits)
            fits[name] = seconds, hits
        record_fits(f"choices, {kind}", fits)


def digits() -> None:
    """Follow the paper: raw pixels, and a PCA that keeps 95 % of the variance."""
    X, y, X_test, y_test = load_images("mnist")
    X, X_test = (part.reshape(len(part), -1).astype(np.float64) for part in (X, X_test))
    pca = PCA(0.95, svd_solver="full", random_state=0).fit(X)
    X, X_test = pca.transform(X), pca.transform(X_test)
    fits = {}
    for name, engine in {
        "anchored duels, C=1e-7, C_own=3e-5": AnchoredDuels(1e-7, 3e-5),
        "anchored duels, C=1e-8, C_own=1e-4": AnchoredDuels(1e-8, 1e-4),
        "anchored duels, C=1e-6, C_own=1e-4": AnchoredDuels(1e-6, 1e-4),
        "anchored duels, C=1e-4, C_own=1e-4": AnchoredDuels(1e-4, 1e-4),
        "duels that share nothing, C=1e-4": LogisticDuels(C=1e-4),
        "duels that share nothing, C=3e-5": LogisticDuels(C=3e-5),
        "scores alone, C=1e-4": AnchoredDuels(1e-4, rivals=0),
    }.items():
        ranker = DuelRanker(engine, random_state=0)
        _, seconds = timed(lambda: ranker.fit(X, y))
        top, ranking = timed(lambda: ranker.predict_top(X_test, 5))
        hits = [float((top[:, :k] == y_test[:, None]).any(axis=1).mean()) for k in (1, 3, 5)]
        show(name, seconds, ranking, hits, f"wrong: {round(len(y_test) * (1 - hits[0]))}")
        fits[name] = seconds, hits
    record_fits("digits", fits)


PARTS = {"text": text, "occupations": occupations, "choices": choices, "digits": digits}


def main() -> None:
    """Run every part in a process of its own, because peak memory is that of a process."""
    asked = [name for name in sys.argv[1:] if name in PARTS]
    if "DUELRANK_DATA" not in os.environ:
        skipped("all parts", "set DUELRANK_DATA to a folder with text/banking77_train.csv etc.")
    elif len(asked) != 1:
        run_parts(__file__, asked or PARTS)
    else:
        print(f"\n{asked[0]}", flush=True)
        warnings.simplefilter("ignore", ConvergenceWarning)
        PARTS[asked[0]]()


if __name__ == "__main__":
    main()
