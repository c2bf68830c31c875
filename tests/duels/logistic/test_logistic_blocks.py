"""Logistic duels fitted from blocks of rows are those fitted from rows in memory."""

import os
import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB

from duelrank import DuelRanker, LogisticDuels, LogisticDuelsCV, StumpDuels, pairs
from duelrank.blocks import LabeledBlocks, RowBlocks, _dask
from duelrank.duels.logistic import _blocks, _certificate, _plan, _tiles

pytest.importorskip("distributed", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd

NAMES = np.array(["apple", "fig", "kiwi", "pear"])
COLUMNS = ["width", "height", "weight", "hue", "age"]


@pytest.fixture
def no_client(monkeypatch):
    monkeypatch.setattr(_dask, "has_client", lambda: False)
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture(scope="module")
def fruit():
    """More rows of every label than the sample takes, so that there is something left to learn."""
    rng = np.random.default_rng(1)
    codes = rng.choice(4, size=6000, p=[0.4, 0.3, 0.2, 0.1])
    X = 1.5 * np.eye(4, 5)[codes] + rng.normal(size=(6000, 5)) @ rng.normal(size=(5, 5))
    sampled = max(_blocks.LEAST_SAMPLE_ROWS, _blocks.SAMPLE_ROWS_PER_COEFFICIENT * 6)
    assert np.bincount(codes).min() > sampled
    return X, NAMES[codes]


def objectives(ranker, X, y, weights):
    """Return what every duel minimises, in double precision, (P,)."""
    duels, values = ranker.duels_, []
    codes = np.searchsorted(ranker.classes_, y)
    X, coef, intercept = (v.astype(float) for v in (X, duels.coef_, duels.intercept_))
    for d, (a, b) in enumerate(zip(*pairs(len(ranker.classes_)), strict=True)):
        rows = (codes == a) | (codes == b)
        share, second = weights[rows], codes[rows] == b
        if duels.class_weight == "balanced":
            sums = share @ ~second, share @ second
            share = share * sum(sums) / (2 * np.where(second, sums[1], sums[0]))
        elif duels.class_weight is not None:
            share = share * [duels.class_weight.get(code, 1.0) for code in codes[rows]]
        margins = np.where(second, 1, -1) * (X[rows] @ coef[d] + intercept[d])
        values.append(0.5 * coef[d] @ coef[d] + duels.C * share @ np.logaddexp(0, -margins))
    return np.array(values)


def assert_same_fit(ours, reference, X, y, weights=None, gap=None, certain=True):
    """Check that our duels have come to what the reference has, and say so if that is certain."""
    weights = np.ones(len(X)) if weights is None else weights
    assert ours.duels_.converged_.all() == certain
    assert ours.classes_.dtype == reference.classes_.dtype
    np.testing.assert_array_equal(ours.classes_, reference.classes_)
    assert ours.duels_.coef_.dtype == reference.duels_.coef_.dtype
    assert ours.duels_.intercept_.dtype == reference.duels_.intercept_.dtype
    best = objectives(reference, X, y, weights)
    excess = (objectives(ours, X, y, weights) - best) / np.maximum(best, 1e-300)
    # The decrement, at most `tol`, is the share that the step after it has gained.
    assert excess.max() < (ours.duels_.tol if gap is None else gap)
    assert ours.n_features_in_ == X.shape[1]
    # By strong convexity weights are known to about the square root of that.
    scale = np.abs(reference.duels_.coef_).max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        ours.duels_.coef_ / (scale + (scale == 0)),
        reference.duels_.coef_ / (scale + (scale == 0)),
        atol=1e-3 if gap is None else 0.05,
    )


def fitted(X, y, weights=None, classes=None, **options):
    return DuelRanker(LogisticDuels(**options), random_state=0, classes=classes).fit(
        X, y, sample_weight=weights
    )


def reference_fit(X, y, weights=None, classes=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # closer than rounding allows
        return fitted(X, y, weights, classes, **{**options, "tol": 1e-13, "max_iter": 500})


def cases(X, y):
    rng = np.random.default_rng(2)
    in_order, separable = np.argsort(y, kind="stable"), X[:, :4] + 1000 * (y[:, None] == NAMES)
    rare = np.where((y == "pear") & (np.cumsum(y == "pear") > 3), "fig", y)
    weights = rng.exponential(size=len(y)) * (rng.random(len(y)) < 0.8)
    by_label = {"pear": 5.0, "fig": 0.2}
    far = X * np.logspace(-6, 6, 5) + np.logspace(0, 8, 5)
    yield "plain", X, y, {}
    yield "no intercept", X + 0.5, y, {"fit_intercept": False}
    yield "balanced", X, y, {"class_weight": "balanced"}
    yield "weights by label", X, y, {"class_weight": by_label}
    yield "weighted rows", X, y, {"weights": weights}
    yield "all weights", X, y, {"weights": weights, "class_weight": "balanced", "C": 0.1}
    yield "sorted by label", X[in_order], y[in_order], {}
    yield "rare label", X, rare, {}
    yield "rare label balanced", X, rare, {"class_weight": "balanced"}
    yield "unseen labels", X, y, {"classes": ["kiwi", "apple", "nut", "pear", "fig", "date"]}
    yield "strong penalty", X, y, {"C": 1e-6}
    yield "weak penalty", X, y, {"C": 1e5}
    yield "separable", separable, y, {"C": 1e-3}
    yield "badly scaled", far, y, {}
    yield "constant column", np.hstack([X, np.full((len(X), 1), 7.1)]), y, {}
    yield "one feature", X[:, :1], y, {}
    yield "two labels", X, np.where(y == "fig", 7, -3), {}
    yield "labels with gaps", X, np.searchsorted(NAMES, y) ** 2, {}
    yield "few rows", X[:40], y[:40], {}


NUMBER_OF_CASES = 19


@pytest.mark.parametrize("number", range(NUMBER_OF_CASES))
@pytest.mark.parametrize("own_hessians", [True, False])
def test_the_fit_in_memory_is_reached(fruit, number, own_hessians, no_client, monkeypatch):
    every = list(cases(*fruit))
    assert len(every) == NUMBER_OF_CASES
    name, X, y, options = every[number]
    monkeypatch.setattr(_plan, "own_hessians_pay", lambda *_: own_hessians)
    weights = options.get("weights")
    reference = reference_fit(X, y, **options)
    certain = name != "badly scaled"  # duels that need care are not checked
    with nullcontext() if certain else pytest.warns(ConvergenceWarning, match="Columns .0, 3, 4."):
        ours = fitted(RowBlocks.from_array(X, 700), y, **options)
    assert_same_fit(ours, reference, X, y, weights, certain=certain)
    assert ours.duels_.n_iter_.max() <= 15, name  # a few passes, thanks to the sample
    one_sided = reference.duels_.n_iter_ == 0
    np.testing.assert_array_equal(
        ours.duels_.intercept_[one_sided], reference.duels_.intercept_[one_sided]
    )


@pytest.mark.parametrize(("rows", "asked"), [("f4", None), ("f8", "float32"), ("f4", "float64")])
def test_precision(fruit, rows, asked, no_client):
    X, y = fruit[0].astype(rows), fruit[1]
    reference = reference_fit(X, y, dtype=asked)
    ours = fitted(RowBlocks.from_array(X, 700), y, dtype=asked, tol=1e-7)
    gap = None if asked == "float64" else 1e-5  # margins are off by 1e-7
    assert_same_fit(ours, reference, X, y, gap=gap)


def test_a_label_without_weight_is_known_all_the_same(fruit, no_client):
    X, y = fruit
    weights = np.where(y == "pear", 0.0, 1.0)
    for labels in (y, np.searchsorted(NAMES, y)):
        reference = fitted(X, labels, weights)
        ours = fitted(RowBlocks.from_array(X, 700), labels, weights)
        np.testing.assert_array_equal(ours.classes_, reference.classes_)
        np.testing.assert_allclose(ours.duels_.coef_, reference.duels_.coef_, atol=1e-4)
        np.testing.assert_array_equal(ours.duels_.intercept_[2], reference.duels_.intercept_[2])


# Where rows come from


def sources(X, y, weights, folder):
    """Yield rows, labels and weights in blocks of 1,500 rows, of every kind."""
    frame = pd.DataFrame(X, columns=COLUMNS)
    frame.assign(label=y, share=weights).to_parquet(folder / "all.parquet", row_group_size=500)
    columns = (COLUMNS, "label", "share")
    for name, values in (("X", X), ("weights", weights)):
        np.save(folder / f"{name}.npy", values)
    cut = partial(RowBlocks.from_array, rows_per_block=1500)
    mapped = [cut(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ("X", "weights")]
    read = dd.read_parquet(folder / "all.parquet")
    split = dd.from_pandas(frame.assign(label=y, share=weights), npartitions=4, sort=False)
    chunked = da.from_array(X, chunks=(1500, 2))
    yield "arrays", cut(X), cut(y), cut(weights)
    yield "arrays in memory", cut(X), list(y), pd.Series(weights)
    yield "memory maps", mapped[0], cut(y), mapped[1]
    yield "Parquet", *(RowBlocks.from_parquet(folder, names, 1500) for names in columns)
    yield "Dask arrays", chunked, da.from_array(y, chunks=1000), da.from_array(weights, chunks=1500)
    yield "Dask array and arrays", chunked, y, weights
    yield "persisted", chunked.persist(), da.from_array(y, chunks=1500).persist(), weights
    yield "read by Dask", read[COLUMNS], read["label"], read["share"]
    yield "dataframe", split[COLUMNS], split[["label"]], split["share"]
    yield "dataframe and array", split[COLUMNS], split["label"], split["share"].values


@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_any_source(fruit, where, tmp_path, request):
    request.getfixturevalue("client" if where == "cluster" else "no_client")
    X, y = fruit
    weights = np.random.default_rng(3).exponential(size=len(y))
    reference = reference_fit(X, y, weights)
    every = list(sources(X, y, weights, tmp_path))
    for name, points, labels, shares in every[2::2] if where == "cluster" else every:
        ours = fitted(points, labels, shares)
        gap = objectives(ours, X, y, weights) / objectives(reference, X, y, weights) - 1
        assert gap.max() < 1e-8, name
        assert ours.classes_.tolist() == NAMES.tolist(), name
        assert ours.n_features_in_ == 5, name
        named = isinstance(points, dd.DataFrame) or name == "Parquet"
        assert hasattr(ours, "feature_names_in_") == named, name
        query = pd.DataFrame(X[:500], columns=COLUMNS) if named else X[:500]
        np.testing.assert_array_equal(ours.predict_order(query), reference.predict_order(X[:500]))
        if named:
            assert ours.feature_names_in_.tolist() == COLUMNS


def test_the_same_bits_everywhere(fruit, cluster_of_two):
    X, y = fruit
    with cluster_of_two.as_current():
        on_cluster = fitted(RowBlocks.from_array(X, 650), y, C=100.0).duels_
    assert not _dask.has_client()
    here = fitted(RowBlocks.from_array(X, 650), y, C=100.0).duels_
    with dask.config.set(scheduler="threads"):
        on_threads = fitted(da.from_array(X, chunks=(650, 5)), y, C=100.0).duels_
    for other in (on_cluster, on_threads):
        for name in ("coef_", "intercept_", "decrement_", "n_iter_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(here, name))


def read_elsewhere(driver, path, start, stop):
    assert os.getpid() != driver, "rows have come to the driver"
    return np.load(path, mmap_mode="r")[start:stop]


def test_rows_stay_with_the_workers(fruit, client, tmp_path):
    X, y = fruit
    columns = []
    for name, values in (("X", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", values)
        recipe = partial(read_elsewhere, os.getpid(), tmp_path / f"{name}.npy")
        starts = range(0, len(X), 500)
        columns.append(RowBlocks([partial(recipe, start, start + 500) for start in starts]))
    assert_same_fit(fitted(*columns), reference_fit(X, y), X, y)


def test_coefficients_travel_once(digits, client, tmp_path, monkeypatch):
    X, y = digits
    for name, values in (("X", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", values)
    columns = [
        RowBlocks.from_array(np.load(tmp_path / f"{name}.npy", mmap_mode="r"), 100)
        for name in ("X", "y")
    ]
    graphs, compute = [], _dask.compute

    def watched(tasks, shared, **options):
        graph = dict(tasks[0].dask)
        graphs.append([len(cloudpickle.dumps(task)) for task in graph.values()])
        return compute(tasks, shared, **options)

    monkeypatch.setattr(_dask, "compute", watched)
    duels = LogisticDuels().fit(*columns, 10)
    sent = 8 * duels.coef_.size
    assert max(map(max, graphs)) >= sent  # coefficients, at least once
    for sizes in graphs:
        assert len(sizes) > len(columns[0])
        # Problems, coefficients and directions are single tasks; all others name them.
        assert sum(size > 2000 for size in sizes) <= 4
        assert sum(sizes) < 3 * sent + 2000 * len(sizes)


# What users see


def test_codes_without_a_ranker(fruit, no_client):
    X, codes = fruit[0], np.searchsorted(NAMES, fruit[1])
    duels = LogisticDuels(tol=1e-10).fit(RowBlocks.from_array(X, 700), codes, 5)
    reference = LogisticDuels(tol=1e-12).fit(X, codes, 5)
    np.testing.assert_allclose(duels.margins(X), reference.margins(X), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=r"not among the codes of 3 labels: \[3\]"):
        LogisticDuels().fit(RowBlocks.from_array(X, 700), codes, 3)


def test_names_are_forgotten_by_another_fit(fruit, no_client):
    X, y = fruit
    frame = pd.DataFrame(X, columns=COLUMNS)
    ranker = DuelRanker(random_state=0)
    ranker.fit(dd.from_pandas(frame, npartitions=2), dd.from_pandas(pd.Series(y), npartitions=2))
    with pytest.raises(ValueError, match="feature names"):
        ranker.predict(frame[COLUMNS[::-1]])
    ranker.fit(RowBlocks.from_array(X[:, :3], 3000), y)
    assert not hasattr(ranker, "feature_names_in_")
    assert ranker.n_features_in_ == ranker.duels_.n_features_in_ == 3


@pytest.mark.parametrize("engine", [StumpDuels(), GaussianNB(), LogisticDuelsCV()])
def test_engines_that_take_no_blocks_say_so(fruit, engine):
    with pytest.raises(TypeError, match="X comes in blocks of rows, which LogisticDuels learns"):
        DuelRanker(engine).fit(RowBlocks.from_array(fruit[0], 700), fruit[1])


def test_errors_leave_nothing_half_fitted(fruit, no_client):
    X, y = RowBlocks.from_array(fruit[0], 700), fruit[1]
    frame = dd.from_pandas(pd.DataFrame(fruit[0], columns=COLUMNS), npartitions=2)
    for points, labels, options, message in [
        (X, None, {}, r"\by\b"),
        (frame, None, {}, r"\by\b"),
        (X, y, {"classes": ["apple", "fig"]}, r"y holds labels .* \['kiwi', 'pear'\]"),
        (X, y, {"classes": ["apple", "apple"]}, "classes must name at least two labels"),
        (X, y, {"class_weight": {"plum": 2.0}}, "class_weight must be given for labels of y"),
        (X, y, {"C": -1.0}, "C must be"),
        (X, y, {"weights": np.ones((6000, 2))}, "(?i)sample.weight"),
    ]:
        ranker = DuelRanker(LogisticDuels(), classes=options.pop("classes", None))
        weights = options.pop("weights", None)
        with pytest.raises(ValueError, match=message):
            ranker.set_params(**{f"estimator__{k}": v for k, v in options.items()}).fit(
                points, labels, sample_weight=weights
            )
        assert not hasattr(ranker, "duels_")


def test_fits_that_do_not_converge_say_so(fruit, no_client):
    X, y = fruit
    with pytest.warns(ConvergenceWarning, match="6 of 6 duels did not converge .*max_iter=1"):
        ranker = fitted(RowBlocks.from_array(X, 700), y, tol=1e-14, max_iter=1)
    assert not ranker.duels_.converged_.any()
    assert set(ranker.duels_.n_iter_) == {1}


def two_labels():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    return X, (X.sum(axis=1) + rng.standard_normal(200) > 0).astype(np.intp)


@pytest.mark.parametrize("scale", [1e-18, 1e-100, 1e-300])
def test_a_tiny_column_in_blocks_changes_nothing_and_is_named(scale, no_client):
    X, codes = two_labels()
    alone = LogisticDuels().fit(X[:, 1:], codes, 2)
    rows = RowBlocks.from_array(X * [scale, 1, 1], 60)
    with pytest.warns(UserWarning, match=r"columns \[0\] of X are too small to matter"):
        engine = LogisticDuels().fit(rows, codes, 2)
    assert engine.converged_.all()
    assert engine.negligible_columns_.tolist() == [0]
    assert engine.coef_[0, 0] == 0
    np.testing.assert_allclose(engine.coef_[:, 1:], alone.coef_, rtol=1e-4)


EXTREMES = {
    "scale": lambda X: X * [1e8, 1, 1],
    "offset": lambda X: X + [1e9, 0, 0],
    "offset near rounding": lambda X: np.round(X * [1e-4, 1, 1], 5) + [1e9, 0, 0],
    "outlier": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 0, 1e10, X),
}


@pytest.mark.parametrize("extreme", EXTREMES)
def test_duels_of_extreme_columns_in_blocks_have_not_converged(extreme, no_client):
    X, codes = two_labels()
    rows = RowBlocks.from_array(EXTREMES[extreme](X), 60)
    with pytest.warns(ConvergenceWarning, match=r"Columns \[0\] of X .* standardise them"):
        engine = LogisticDuels(C=1e9 if "rounding" in extreme else 1).fit(rows, codes, 2)
    assert not engine.converged_.any()
    assert np.isinf(engine.decrement_).all()


def test_duels_of_extreme_weights_in_blocks_have_not_converged(no_client):
    X, codes = two_labels()
    weights = np.where(np.arange(200) == 70, 1e7, 1.0)
    with pytest.warns(ConvergenceWarning, match="the weights or C are very large or small"):
        engine = LogisticDuels().fit(RowBlocks.from_array(X, 60), codes, 2, sample_weight=weights)
    assert not engine.converged_.any()


def test_columns_in_blocks_that_are_constant_up_to_rounding_are_ordinary(no_client):
    X, codes = two_labels()
    X[:, 0] = 0.1
    X[::2, 0] = np.nextafter(0.1, 1)
    engine = LogisticDuels().fit(RowBlocks.from_array(X, 60), codes, 2)  # warnings are errors
    assert engine.converged_.all()
    assert not hasattr(engine, "negligible_columns_")


def test_duels_that_a_task_has_checked_have_converged(fruit, no_client, monkeypatch):
    X, y = fruit[0] * [1e8, 1, 1, 1, 1], fruit[1]
    ranges = [_tiles.LabelRange(0, 2), _tiles.LabelRange(2, 4)]
    monkeypatch.setattr(_blocks, "label_ranges", lambda *_: ranges)
    ours = fitted(RowBlocks.from_array(X, 700), y)
    assert_same_fit(ours, reference_fit(X, y), X, y)
    X[0, 0] = 1e9  # what a task cannot check has not
    monkeypatch.setattr(_certificate, "MOST_NUMBERS", 1)
    with pytest.warns(ConvergenceWarning, match=r"6 of 6 .* Columns \[0\]"):
        fitted(RowBlocks.from_array(X, 700), y)


@pytest.mark.parametrize("size", [1e151, 1e200, 1.7e308])
def test_numbers_in_blocks_whose_squares_overflow_are_refused(size, no_client):
    X, codes = two_labels()
    X[70, 1], X[71, 1] = -size, size / 2  # sums of both overflow in either direction
    X[72:75, 1], X[75:78, 2] = size, -size
    told = []
    for rows in (X, RowBlocks.from_array(X, 60)):
        with pytest.raises(ValueError, match="X must hold numbers between") as error:
            LogisticDuels().fit(rows, codes, 2)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_numbers_in_blocks_that_single_precision_cannot_hold_are_refused(no_client):
    X, codes = two_labels()
    X[70, 1] = 1e60
    for rows in (X, RowBlocks.from_array(X, 60)):
        with pytest.raises(ValueError, match=r"^Input X contains .* too large for dtype"):
            LogisticDuels(dtype="float32").fit(rows, codes, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e30, 3e37])
def test_numpy_does_not_warn_of_numbers_in_blocks(size, dtype, no_client):
    X, codes = two_labels()
    rows = RowBlocks.from_array(X * [size, 1, 1], 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="columns .* too small to matter")
        for C in (1.0, "scale"):
            LogisticDuels(C, dtype=dtype).fit(rows, codes, 2)


class Tasks:
    """Callback that counts tasks."""

    max_propagation_depth = None

    def __init__(self):
        self.ended = []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.ended.append((context.estimator_name, context.task_name))

    def teardown(self, estimator, context):
        pass


def test_progress_steps_with_every_iteration(fruit, no_client, capfd):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    blocks, y = RowBlocks.from_array(fruit[0], 700), fruit[1]
    tasks = Tasks()
    ranker = DuelRanker(LogisticDuels(C=100.0), random_state=0).set_callbacks(tasks).fit(blocks, y)
    assert tasks.ended.count(("LogisticDuels", "iteration")) == ranker.duels_.n_iter_.max() > 1
    assert capfd.readouterr() == ("", "")
    with pytest.warns(ConvergenceWarning):
        fitted(blocks, y, tol=1e-14, max_iter=2, verbose=True)
    assert "[LogisticDuels] iteration 2 of at most 2" in capfd.readouterr().err


def test_what_is_said_beside_labelled_blocks_must_agree(fruit, no_client):
    X, codes = fruit[0], np.searchsorted(NAMES, fruit[1])
    blocks = LabeledBlocks.of(RowBlocks.from_array(X, 700), codes)
    assert LogisticDuels().fit(blocks, None, 4).n_classes_ == 4
    with pytest.raises(ValueError, match="n_classes must be the number of labels of the blocks, 4"):
        LogisticDuels().fit(blocks, None, 5)
    with pytest.raises(ValueError, match=r"feedback must be None, .* got ndarray"):
        LogisticDuels().fit(blocks, codes, 4)
    with pytest.raises(ValueError, match="sample_weight must be None"):
        LogisticDuels().fit(blocks, None, 4, sample_weight=np.ones(len(X)))
