"""Rankings of exported models are those of the library, row by row, up to rounding."""

import os
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("skl2onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")

from duelrank import (
    AnchoredDuels,
    AnchoredDuelsCV,
    AutoDuels,
    DuelRanker,
    ForestDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StumpDuels,
    datasets,
    predict_order,
    predict_ranks,
    predict_top,
)
from duelrank.export import to_onnx
from exported import Rounding, answers, random_ranker, session_of

HAS_DATA = pytest.mark.skipif(
    "DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder"
)
RUNTIME = tuple(int(part) for part in version("onnxruntime").split(".")[:2])
ALL = ("label", "ranks", "order", "top", "scores")
ENGINES = {
    "logistic": LogisticDuels(),
    "logistic-cv": LogisticDuelsCV(Cs=[0.01, 1.0], cv=2),
    "anchored": AnchoredDuels(),
    "two rivals": AnchoredDuels(rivals=2),
    "no rivals": AnchoredDuels(rivals=0),
    "anchored-cv": AnchoredDuelsCV(cv=2),
    "stumps": StumpDuels(),
    "forest": ForestDuels(15),
    "random splits": ForestDuels(10, random_splits=True),
    "auto": AutoDuels({"stumps": StumpDuels(), "logistic": LogisticDuels()}),
}


def assert_equal_but_for_rounding(ranker, points, ranks, scores):
    """Rows differ only where they may, and wins by no more than the close duels of a label."""
    rounding = Rounding(ranker, points)
    wrong = (ranks != rounding.ranks()).any(axis=1)
    assert not np.any(wrong & ~rounding.may_differ())
    assert np.all(np.abs(np.round(scores) - rounding.wins) <= rounding.n_close)
    return wrong, rounding


@pytest.mark.parametrize(
    ("name", "aggregation"),
    [(name, "copeland") for name in ENGINES]
    + [(name, "expected_wins") for name in ("two rivals", "stumps", "forest")],
)
def test_all_outputs_of_all_engines(name, aggregation, digits):
    X, y = digits
    labels = np.array([f"digit {k}" for k in range(10)])[y]
    ranker = DuelRanker(ENGINES[name], aggregation, random_state=0)
    model = make_pipeline(StandardScaler(), ranker).fit(X[:300], labels[:300])
    got = answers(model, X, ALL, "float64", k=3)
    np.testing.assert_array_equal(got["label"], model.predict(X))
    np.testing.assert_array_equal(got["ranks"], predict_ranks(model, X))
    np.testing.assert_array_equal(got["order"], predict_order(model, X))
    np.testing.assert_array_equal(got["top"], predict_top(model, X, 3))
    np.testing.assert_allclose(got["scores"], model.decision_function(X), atol=2e-10)


@pytest.mark.parametrize("ties", ["probability", "random", "index"])
@pytest.mark.parametrize("aggregation", ["copeland", "expected_wins", "coupling"])
@pytest.mark.parametrize("n_classes", [2, 3, 8])
def test_aggregations_and_ties(aggregation, ties, n_classes, rng):
    ranker = random_ranker(rng, n_classes, aggregation=aggregation, ties=ties)
    X = rng.normal(size=(400, 6))
    got = answers(ranker, X, ("ranks", "scores"), "float64")
    np.testing.assert_array_equal(got["ranks"], ranker.predict_ranks(X))
    scores = got["scores"]
    if n_classes == 2:
        scores = scores[:, 1] - scores[:, 0]
    np.testing.assert_allclose(scores, ranker.decision_function(X), atol=1e-12)


@settings(max_examples=20)
@given(st.integers(2, 7), st.integers(0, 2**31), st.sampled_from(["probability", "random"]))
def test_even_duels_and_equal_evidence_go_by_the_label_order(n_classes, seed, ties):
    """Margins that are small whole numbers: many are 0, and expected wins are equal exactly."""
    rng = np.random.default_rng(seed)
    ranker = random_ranker(rng, n_classes, n_features=2, ties=ties)
    engine = ranker.duels_
    engine.coef_ = rng.integers(-1, 2, size=engine.coef_.shape).astype(float)
    engine.intercept_ = np.zeros(len(engine.intercept_))
    X = rng.integers(-1, 2, size=(40, 2)).astype(float)
    for dtype in ("float32", "float64"):
        got = answers(ranker, X, ("ranks", "scores"), dtype)
        np.testing.assert_array_equal(got["ranks"], ranker.predict_ranks(X))
        if n_classes > 2:
            np.testing.assert_array_equal(got["scores"], ranker.decision_function(X))
            np.testing.assert_array_equal(np.argsort(np.argsort(-got["scores"])) + 1, got["ranks"])


@pytest.mark.parametrize("n_classes", [2, 10, 100, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_labels(n_classes, dtype, rng):
    ranker = random_ranker(rng, n_classes)
    X = rng.normal(size=(40 if n_classes < 1000 else 3, 6)).astype(np.float32)
    got = answers(ranker, X, ("ranks", "scores"), dtype)
    if dtype == "float64":
        np.testing.assert_array_equal(got["ranks"], Rounding(ranker, X).ranks())
        if n_classes <= 256:  # above, the library counts in single precision
            np.testing.assert_array_equal(got["ranks"], ranker.predict_ranks(X))
    assert_equal_but_for_rounding(ranker, X, got["ranks"], got["scores"])


def many_rows(rng, X, n_rows):
    """Repeat rows, and perturb them."""
    rows = X[rng.integers(len(X), size=n_rows)]
    return (rows + 0.1 * rng.normal(size=rows.shape)).astype(np.float32)


@pytest.mark.parametrize("aggregation", ["copeland", "expected_wins"])
def test_ten_thousand_rows_of_digits(aggregation, digits, rng):
    X, y = digits
    ranker = DuelRanker(aggregation=aggregation, random_state=0).fit(X[::2], y[::2])
    points = many_rows(rng, X, 10_000)
    exact = answers(ranker, points, ("ranks",), "float64")["ranks"]
    np.testing.assert_array_equal(exact, ranker.predict_ranks(points.astype(float)))
    single = answers(ranker, points, ("ranks", "scores"))
    wrong = (single["ranks"] != exact).any(axis=1)
    rounding = Rounding(ranker, points)
    assert not np.any(wrong & ~rounding.may_differ())
    assert rounding.may_differ().mean() < 0.05  # so the others are nearly all rows
    assert wrong.sum() <= 5


@HAS_DATA
def test_ten_thousand_rows_of_mnist(rng):
    images = datasets.load_images("mnist")
    X, points = images.X_train[:3000] / 255.0, images.X_test / 255.0
    ranker = DuelRanker(LogisticDuels(C=0.01), random_state=0).fit(X, images.y_train[:3000])
    exact = answers(ranker, points, ("ranks",), "float64")["ranks"]
    np.testing.assert_array_equal(exact, ranker.predict_ranks(points))
    single = answers(ranker, points, ("ranks", "scores"))
    wrong, _ = assert_equal_but_for_rounding(ranker, points, single["ranks"], single["scores"])
    assert wrong.mean() < 0.01


@HAS_DATA
@pytest.mark.slow
@pytest.mark.parametrize("engine", [LogisticDuels(C="scale"), AnchoredDuels(C=30, rivals=5)])
def test_banking77(engine):
    texts = datasets.load_text("banking77", subset="train")
    words = TfidfVectorizer(min_df=2)
    model = make_pipeline(words, DuelRanker(engine, random_state=0))
    model.fit(texts.texts[::4], texts.labels[::4])
    points = np.asarray(texts.texts, dtype=object)
    assert len(points) > 10_000
    exact = answers(model, points, ("label", "ranks"), "float64")
    single = answers(model, points, ("ranks", "scores"))
    np.testing.assert_array_equal(exact["label"], model.predict(points))
    ranks, features, n_wrong = predict_ranks(model, points), words.transform(points), 0
    for begin in range(0, len(points), 1000):
        rows = slice(begin, begin + 1000)
        some = features[rows].toarray()
        wrong, rounding = assert_equal_but_for_rounding(
            model[-1], some, single["ranks"][rows], single["scores"][rows]
        )
        n_wrong += wrong.sum()
        np.testing.assert_array_equal(exact["ranks"][rows], rounding.ranks())
        # The library keeps sparse training rows, and counts with these in single precision.
        differ = (exact["ranks"][rows] != ranks[rows]).any(axis=1)
        assert not np.any(differ & ~rounding.may_differ())
    assert n_wrong < 0.01 * len(points)


@pytest.mark.parametrize("outputs", [("label",), ("ranks",), ("scores",), ("probabilities",)])
def test_the_number_of_nodes_does_not_depend_on_the_number_of_labels(outputs, rng):
    def n_nodes(n_classes):
        graph = to_onnx(random_ranker(rng, n_classes), outputs=outputs).graph
        inner = [a.g.node for node in graph.node for a in node.attribute if a.HasField("g")]
        return len(graph.node), sum(len(body) for body in inner)

    assert n_nodes(2) == n_nodes(3) == n_nodes(40)
    assert n_nodes(3)[0] < 80


def test_kept_training_rows_become_coefficients(rng):
    """With fewer rows than features, duels keep rows; an exported model holds none."""
    X = sparse.random(60, 300, density=0.1, random_state=0, format="csr")
    y = np.arange(60) % 12
    ranker = DuelRanker(LogisticDuels(C=10.0), random_state=0).fit(X, y)
    assert ranker.duels_.keeps_training_rows
    got = answers(ranker, X.toarray(), ("ranks", "scores"), "float64")
    assert_equal_but_for_rounding(ranker, X.toarray(), got["ranks"], got["scores"])
    np.testing.assert_array_equal(got["ranks"], Rounding(ranker, X.toarray()).ranks())
    assert ranker.duels_.keeps_training_rows


def test_one_row(digits):
    X, y = digits
    ranker = DuelRanker(random_state=0).fit(X[:200], y[:200])
    assert answers(ranker, X[:1], ALL, k=2)["top"].shape == (1, 2)


@pytest.mark.skipif(RUNTIME < (1, 31), reason="older runtimes divide by the number of rows")
def test_no_rows(digits):
    X, y = digits
    ranker = DuelRanker(random_state=0).fit(X[:200], y[:200])
    session = session_of(to_onnx(ranker))
    label, ranks = session.run(None, {"X": np.zeros((0, 64), dtype=np.float32)})
    assert label.shape == (0,)
    assert ranks.shape == (0, 10)
