"""Anchored duels on BANKING77: labels, choices and preferences."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_union

from duelrank import AnchoredDuels, DuelRanker
from duelrank.rankings import ranks_from_choices, ranks_from_pairs

pytestmark = pytest.mark.skipif(
    "DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder"
)


def banking(vectorizer):
    texts, labels = [], []
    for name in ("banking77_train.csv", "banking77_test.csv"):
        path = Path(os.environ["DUELRANK_DATA"]) / "text" / name
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        texts.append([row["text"] for row in rows])
        labels.append(np.array([row["category"] for row in rows]))
    X = vectorizer.fit_transform(texts[0])
    return X, labels[0], vectorizer.transform(texts[1]), labels[1]


@pytest.fixture(scope="module")
def words():
    return banking(TfidfVectorizer(sublinear_tf=True))


@pytest.fixture(scope="module")
def choices(words):
    """Five random labels, another label, and five labels of a weak recommender, beside y."""
    X, y, _, _ = words
    rng = np.random.RandomState(0)
    classes, codes = np.unique(y, return_inverse=True)
    is_own = np.arange(77) == codes[:, np.newaxis]
    others = np.argsort(rng.random_sample(is_own.shape) + 2.0 * is_own)
    five = np.column_stack([codes, others[:, :4]])
    few = np.concatenate([rng.permutation(np.flatnonzero(codes == k))[:3] for k in range(77)])
    likely = MultinomialNB(alpha=0.1).fit(X[few], codes[few]).predict_log_proba(X)
    weak = np.argsort(-likely, axis=1)[:, :5]
    seen = np.any(weak == codes[:, np.newaxis], axis=1)  # else nothing is picked
    options = {"classes": classes, "sparse": True}
    return {
        "random": ranks_from_choices(classes[five], y, **options),
        "preference": ranks_from_pairs(y, classes[others[:, 0]], **options),
        "weak": ranks_from_choices(classes[weak], np.where(seen, y, None), **options),
    }


@pytest.mark.filterwarnings("ignore:.* rows of y place no label ahead:UserWarning")
@pytest.mark.parametrize(
    ("kind", "at_least"), [("random", 0.85), ("preference", 0.82), ("weak", 0.70)]
)
def test_choices_and_preferences_suffice(kind, at_least, words, choices):
    X, y, X_test, y_test = words
    engine = AnchoredDuels(C=20, rivals=0)
    ranker = DuelRanker(engine, unplaced="unknown", classes=np.unique(y), random_state=0)
    assert ranker.fit(X, choices[kind]).score(X_test, y_test) >= at_least


@pytest.mark.slow
def test_labels_of_text():
    """With corrections between rivals only, at least as good as a multinomial model."""
    X, y, X_test, y_test = banking(
        make_union(
            TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
            TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 5)),
        )
    )
    ranker = DuelRanker(AnchoredDuels(C=50, C_own=5, rivals=10), random_state=0).fit(X, y)
    assert len(ranker.duels_.corrected_duels_) < 77 * 10
    top = ranker.predict_top(X_test, 5)
    hits = [np.mean(np.any(top[:, :k] == y_test[:, np.newaxis], axis=1)) for k in (1, 5)]
    assert hits[0] >= 0.917
    assert hits[1] >= 0.989
