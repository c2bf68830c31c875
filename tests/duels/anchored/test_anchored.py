"""AnchoredDuels as users meet them: in rankers, pipelines, searches and files, and their errors."""

import re
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anchored_by_hand import LAYOUTS, K, points, rankings
from duelrank import AnchoredDuels, DuelRanker
from duelrank.blocks import RowBlocks
from duelrank.feedback import SparseRanks, check_feedback
from duelrank.rankings import (
    ranks_from_choices,
    ranks_from_lists,
    ranks_from_pairs,
    ranks_from_sets,
)

NAMES = ["b", "e", "a", "d", "c"]
RIVALS = pytest.mark.parametrize("rivals", [None, 1, 0])


def ranker_of(rivals=None, **parameters):
    return DuelRanker(AnchoredDuels(rivals=rivals), random_state=0, **parameters)


def best_first(ranks):
    return np.array(NAMES)[np.argsort(ranks, axis=1)]


def feedback_of(kind, ranks, rng, sparse=False):
    """What a table of full rankings becomes if less is told, and what NaN means there."""
    order = best_first(ranks)
    n = len(ranks)
    if kind == "lists":
        return ranks_from_lists(order[:, :2], NAMES, sparse=sparse), "behind"
    if kind == "sets":
        sets = [set(row[: 1 + i % 3]) for i, row in enumerate(order)]
        return ranks_from_sets(sets, NAMES, sparse=sparse), "behind"
    shown = np.sort(np.array([rng.permutation(K)[:3] for _ in range(n)]), axis=1)
    names = np.take_along_axis(order, shown, axis=1)
    if kind == "pairs":
        return ranks_from_pairs(names[:, 0], names[:, 1], NAMES, sparse=sparse), "unknown"
    return ranks_from_choices(names, names[:, 0], NAMES, sparse=sparse), "unknown"


@RIVALS
@pytest.mark.parametrize("kind", ["lists", "sets", "pairs", "choices"])
@pytest.mark.parametrize("layout", ["dense tall", "sparse tall"])
def test_everything_that_rows_may_say(layout, kind, rivals, rng):
    """Sparse ranks rank as dense ones do, and find the labels that rows were made for.

    Guesses would be right in 20 % of the rows, give or take 2.3.
    """
    X, y = points(layout, rng, n_rows=300)
    ranks = rankings(X, y, rng, "full")
    state = rng.bit_generator.state
    found = []
    for stored in (False, True):
        rng.bit_generator.state = state
        feedback, unplaced = feedback_of(kind, ranks, rng, stored)
        assert sparse.issparse(feedback) == stored
        ranker = ranker_of(rivals, unplaced=unplaced, classes=NAMES)
        found.append(ranker.fit(X, feedback).decision_function(X))
        assert ranker.classes_.tolist() == sorted(NAMES)
    np.testing.assert_allclose(found[0], found[1], atol=0.05)
    assert np.mean(ranker.predict(X) == np.array(NAMES)[y]) > 0.27


@RIVALS
def test_labels_are_one_label_rankings(rivals, rng):
    X, y = points("dense tall", rng)
    tied = np.where(np.arange(K) == y[:, np.newaxis], 1.0, 2.0)
    from_labels = ranker_of(rivals).fit(X, y)
    np.testing.assert_array_equal(
        ranker_of(rivals).fit(X, tied).decision_function(X), from_labels.decision_function(X)
    )
    alone = AnchoredDuels(rivals=rivals)
    np.testing.assert_allclose(
        clone(alone).fit(X, y, K).margins(X), clone(alone).fit(X, tied, K).margins(X), atol=1e-4
    )


def test_an_engine_takes_sparse_ranks_itself(rng):
    X, y = points("dense tall", rng)
    stored, unplaced = feedback_of("choices", rankings(X, y, rng, "full"), rng, sparse=True)
    assert AnchoredDuels.takes_sparse_feedback
    ranker = ranker_of(1, unplaced=unplaced, classes=NAMES).fit(X, stored)
    dense = check_feedback(
        np.where(stored.toarray() == 0, np.nan, stored.toarray()), unplaced=unplaced
    ).ranks[:, np.argsort(NAMES)]
    np.testing.assert_allclose(
        ranker.duels_.margins(X), AnchoredDuels(rivals=1).fit(X, dense, K).margins(X), atol=1e-4
    )


# Parameters


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C must be a positive number or 'scale', got 0."),
        ({"C": "auto"}, "C must be a positive number or 'scale', got 'auto'."),
        ({"C_own": -1.0}, "C_own must be a positive number or 'scale', got -1.0."),
        ({"C_own": np.nan}, "C_own must be a positive number or 'scale', got nan."),
        (
            {"rivals": -1},
            "rivals must be None, for all other labels, or an integer from 0 on; got -1.",
        ),
        (
            {"rivals": 1.5},
            "rivals must be None, for all other labels, or an integer from 0 on; got 1.5.",
        ),
        (
            {"rivals": True},
            "rivals must be None, for all other labels, or an integer from 0 on; got True.",
        ),
        (
            {"rivals": "all"},
            "rivals must be None, for all other labels, or an integer from 0 on; got 'all'.",
        ),
        ({"tol": 0}, "tol must be a positive number, got 0."),
        ({"max_iter": 0}, "max_iter must be a positive integer, got 0."),
        ({"max_iter": 2.5}, "max_iter must be a positive integer, got 2.5."),
        ({"working_memory": 0}, "working_memory must be a positive number, got 0."),
        ({"dtype": "int64"}, "dtype must be None, 'float32' or 'float64', got 'int64'."),
    ],
)
def test_bad_parameters(parameters, message, iris):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AnchoredDuels(**parameters).fit(*iris, 3)


@pytest.mark.parametrize("rivals", [np.int64(1), np.int8(1)])
def test_rivals_may_be_any_integer(rivals, iris):
    X, y = iris
    found = AnchoredDuels(rivals=rivals).fit(X, y, 3)
    np.testing.assert_array_equal(found.margins(X), AnchoredDuels(rivals=1).fit(X, y, 3).margins(X))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strengths_that_go_by_the_rows(layout, rng):
    X, y = points(layout, rng)
    dense = X.toarray() if sparse.issparse(X) else X
    square = np.square(dense - dense.mean(axis=0)).sum(axis=1).mean()
    scaled = AnchoredDuels("scale", "scale", tol=1e-8).fit(X, y, K)
    np.testing.assert_allclose(scaled.C_, 100 / square)
    assert scaled.C_own_ == scaled.C_
    plain = AnchoredDuels(scaled.C_, scaled.C_own_, tol=1e-8).fit(X, y, K)
    np.testing.assert_array_equal(scaled.margins(X), plain.margins(X))
    larger = AnchoredDuels("scale", "scale", tol=1e-8).fit(1000 * X, y, K)
    np.testing.assert_allclose(larger.margins(1000 * X), scaled.margins(X), atol=1e-3)


def test_few_iterations_are_reported(rng):
    X, y = points("dense tall", rng)
    message = "the scores of the labels and 10 of 10 corrections of duels did not converge within"
    with pytest.warns(ConvergenceWarning, match=message) as told:
        engine = AnchoredDuels(100.0, 1e4, max_iter=1, tol=1e-9).fit(X, y, K)
    assert "max_iter=1 iterations. Raise max_iter or tol, or lower C and C_own." in str(
        told[0].message
    )
    assert told[0].filename == __file__
    assert not engine.score_converged_
    assert not engine.converged_.any()
    assert engine.score_n_iter_ == 1
    with pytest.warns(ConvergenceWarning, match="^the scores of the labels did not converge"):
        AnchoredDuels(100.0, rivals=0, max_iter=1, tol=1e-9).fit(X, y, K)
    with pytest.warns(ConvergenceWarning, match="^10 of 10 corrections of duels did not converge"):
        AnchoredDuels(1e-9, 1e4, max_iter=2, tol=1e-7).fit(X, y, K)


def test_results_of_a_fit(rng):
    X, y = points("dense tall", rng)
    engine = AnchoredDuels(rivals=2).fit(X, y, K)
    n_duels = len(engine.corrected_duels_)
    assert engine.score_coef_.shape == (K, X.shape[1])
    assert engine.score_intercept_.shape == (K,)
    assert engine.own_coef_.shape == (n_duels, X.shape[1])
    assert engine.decrement_.shape == engine.n_iter_.shape == engine.own_intercept_.shape
    assert (engine.decrement_ <= engine.tol).all()
    assert 0 < engine.score_decrement_ <= engine.tol
    assert engine.score_converged_ is True
    np.testing.assert_allclose(
        engine.scores(X), X @ engine.score_coef_.T + engine.score_intercept_, atol=1e-12
    )
    assert (engine.C_, engine.C_own_, engine.n_classes_) == (1.0, 1.0, K)


def test_a_fit_leaves_its_arguments_alone(rng):
    for layout in LAYOUTS:
        X, y = points(layout, rng)
        ranks, weights = rankings(X, y, rng, "partial"), rng.integers(0, 3, size=len(y)) + 0.0
        before = [array.copy() for array in (X, ranks, weights)]
        AnchoredDuels().fit(X, ranks, K, sample_weight=weights).wins(X, np.arange(K))
        assert (before[0] != X).sum() == 0
        np.testing.assert_array_equal(before[1], ranks)
        np.testing.assert_array_equal(before[2], weights)


# Points


def test_columns_without_an_entry_cost_nothing(rng):
    X, y = points("sparse tall", rng)
    wide = sparse.csr_array((X.data, 1000 * X.indices + 7, X.indptr), shape=(len(y), 2**23))
    wide.sort_indices()
    for rivals in (None, 1, 0):
        engine = AnchoredDuels(rivals=rivals).fit(wide, y, K)
        narrow = AnchoredDuels(rivals=rivals).fit(X, y, K)
        np.testing.assert_allclose(engine.margins(wide), narrow.margins(X), atol=1e-12)
        assert engine.kept_["score_coef"].shape == (X.shape[1], K)
        assert engine.own_coef_.shape == (len(narrow.corrected_duels_), 2**23)
        unknown = sparse.csr_array(([5.0], [4], [0, 1]), shape=(1, 2**23))
        np.testing.assert_array_equal(engine.scores(unknown)[0], engine.score_intercept_)


def test_coefficients_of_columns_without_an_entry_are_zero(rng):
    X, y = points("sparse tall", rng)
    gaps = sparse.csr_array((X.data, 2 * X.indices, X.indptr), shape=(len(y), 2 * X.shape[1]))
    engine, narrow = (AnchoredDuels(rivals=2).fit(given, y, K) for given in (gaps, X))
    np.testing.assert_allclose(engine.score_coef_[:, ::2], narrow.score_coef_, atol=1e-12)
    own = engine.own_coef_.toarray()
    np.testing.assert_allclose(own[:, ::2], narrow.own_coef_.toarray(), atol=1e-12)
    assert not engine.score_coef_[:, 1::2].any()
    assert not own[:, 1::2].any()
    np.testing.assert_allclose(engine.margins(gaps.toarray()), engine.margins(gaps), atol=1e-12)


@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_array"])
def test_other_forms_of_sparse_points(form, rng):
    X, y = points("sparse wide", rng)
    other = getattr(sparse, form)(X)
    expected = AnchoredDuels(rivals=2).fit(X, y, K).margins(X)
    engine = AnchoredDuels(rivals=2).fit(other, y, K)
    np.testing.assert_array_equal(engine.margins(other), expected)


def test_whole_numbers_as_points(rng):
    X, y = rng.integers(-3, 4, size=(60, 4)), np.arange(60) % 3
    whole, real = (AnchoredDuels().fit(given, y, 3) for given in (X, X.astype(float)))
    np.testing.assert_array_equal(whole.margins(X), real.margins(X.astype(float)))


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_hardly_any_rows(n_rows, convert, rng):
    X = convert(rng.normal(size=(n_rows, 4)))
    for feedback in (np.arange(n_rows), np.tile([2.0, 1, 3], (n_rows, 1))):
        engine = AnchoredDuels().fit(X, feedback, 3)
        assert np.isfinite(engine.margins(X)).all()
    assert (engine.wins(X, np.arange(3))[0] == [1, 2, 0]).all()


@pytest.mark.parametrize("feedback", [np.ones((9, 3)), np.full((9, 3), np.nan)])
def test_rows_that_say_nothing(feedback, rng):
    X = rng.normal(size=(9, 2))
    for rivals in (None, 1, 0):
        engine = AnchoredDuels(rivals=rivals).fit(X, feedback, 3)
        assert (engine.margins(X) == 0).all()
        assert len(engine.corrected_duels_) == 0
        wins, expected = engine.wins(X, np.array([2, 0, 1]))
        assert (wins == [1, 0, 2]).all()
        assert (expected == 1).all()


def test_one_label_in_all_rows(rng):
    X = rng.normal(size=(30, 2))
    engine = AnchoredDuels().fit(X, np.full(30, 1), 3)
    assert len(engine.corrected_duels_) == 0
    assert (engine.wins(X, np.arange(3))[0][:, 1] == 2).all()
    assert np.abs(engine.scores(X)).max() < 30


def test_two_labels(rng):
    X, y = points("dense tall", rng)
    engine = AnchoredDuels(rivals=1).fit(X, y % 2, 2)
    assert engine.corrected_duels_.tolist() == [0]
    assert engine.margins(X).shape == (len(y), 1)
    wins, _ = engine.wins(X, np.arange(2))
    np.testing.assert_array_equal(wins[:, 1] == 1, engine.margins(X)[:, 0] > 0)


def test_columns_that_are_constant(rng):
    X, y = points("dense tall", rng)
    constant = np.column_stack([X, np.zeros(len(y)), np.full(len(y), 1e7)])
    engine, plain = (
        AnchoredDuels(tol=1e-9).fit(constant, y, K),
        AnchoredDuels(tol=1e-9).fit(X, y, K),
    )
    np.testing.assert_allclose(engine.margins(constant), plain.margins(X), atol=1e-4)


def test_rows_without_weight_are_not_there(rng):
    for layout in LAYOUTS:
        X, y = points(layout, rng)
        weights = (np.arange(len(y)) % 3 > 0) + 0.0
        engine = AnchoredDuels(rivals=2, tol=1e-9).fit(X, y, K, sample_weight=weights)
        plain = AnchoredDuels(rivals=2, tol=1e-9).fit(X[weights > 0], y[weights > 0], K)
        np.testing.assert_allclose(engine.margins(X), plain.margins(X), atol=1e-3)


def test_blocks_are_refused(iris):
    X, y = iris
    blocks, labels = (RowBlocks([partial(rows.copy)]) for rows in iris)
    with pytest.raises(TypeError, match="in memory, got RowBlocks; LogisticDuels takes blocks"):
        AnchoredDuels().fit(blocks, y, 3)
    with pytest.raises(TypeError, match="AnchoredDuels"):
        DuelRanker(AnchoredDuels()).fit(blocks, labels)
    engine = AnchoredDuels().fit(X, y, 3)
    for method in (engine.margins, engine.scores):
        with pytest.raises(TypeError, match="in memory, got RowBlocks; a DuelRanker takes blocks"):
            method(blocks)


def test_points_that_do_not_fit(rng):
    X, y = points("dense tall", rng)
    engine = AnchoredDuels()
    for method in (engine.margins, engine.scores, engine.probabilities):
        with pytest.raises(NotFittedError):
            method(X)
    with pytest.raises(NotFittedError):
        engine.wins(X, np.arange(K))
    for name in ("score_coef_", "own_coef_"):
        with pytest.raises(NotFittedError):
            getattr(engine, name)
    engine.fit(X, y, K)
    with pytest.raises(ValueError, match="X has 5 features, but AnchoredDuels is expecting 6"):
        engine.margins(X[:, :5])
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        engine.margins(X[:0])
    with pytest.raises(ValueError, match="NaN"):
        engine.margins(np.full((1, 6), np.nan))


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        (np.array([0, 1, 5]), "between 0 and 4, got values from 0 to 5"),
        (np.array([0.5, 1, 2]), "vector of integers"),
        (np.array([0, 1]), "inconsistent numbers of samples"),
        (np.ones((3, 4)), "5"),
    ],
)
def test_feedback_that_does_not_fit(feedback, message):
    with pytest.raises(ValueError, match=message):
        AnchoredDuels().fit(np.eye(3), feedback, K)


def test_sparse_ranks_that_do_not_fit(rng):
    stored = sparse.csr_array(np.tile([1.0, 2, 0, 0], (3, 1)))
    with pytest.raises(ValueError, match="one column per label: 5, got 4"):
        AnchoredDuels().fit(np.eye(3), SparseRanks(stored, "unknown"), K)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        AnchoredDuels().fit(np.eye(4), SparseRanks(stored, "unknown"), 4)


def test_feature_names(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    engine = AnchoredDuels().fit(frame, y, 3)
    assert engine.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        engine.margins(frame[list("dcba")])


# In company


def test_pipelines_and_searches(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), ranker_of())
    grid = {
        "duelranker__estimator__C": [0.01, 1.0],
        "duelranker__estimator__C_own": [0.01, 1.0],
        "duelranker__estimator__rivals": [None, 1, 0],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 12
    assert search.best_score_ > 0.9
    scores = search.cv_results_["mean_test_score"]
    assert len(np.unique(scores)) > 1
    assert search.score(X, y) > 0.9


def test_text(rng):
    words = [f"word{i}" for i in range(40)]
    y = np.arange(80) % 4
    texts = [
        " ".join([*rng.choice(words, 5), *rng.choice(words[10 * label : 10 * label + 10], 3)])
        for label in y
    ]
    model = make_pipeline(TfidfVectorizer(), ranker_of(1)).fit(texts, y)
    assert sparse.issparse(model[-1].duels_.own_coef_)
    assert model.score(texts, y) > 0.8


def test_parameters_are_cloned():
    engine = AnchoredDuels(2.0, "scale", 3, tol=1e-3, dtype="float32")
    assert clone(engine).get_params() == engine.get_params()
    assert list(engine.get_params()) == sorted(engine.get_params())


def test_progress(iris, capfd, monkeypatch):
    X, y = iris
    DuelRanker(AnchoredDuels(), random_state=0).fit(X, y)
    assert capfd.readouterr() == ("", "")
    # A clock of its own: other threads of this process ask the real one.
    clock = SimpleNamespace(monotonic=iter(range(0, 10**6, 60)).__next__)
    monkeypatch.setattr("duelrank._progress.time", clock)
    DuelRanker(AnchoredDuels(verbose=True), random_state=0).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "[AnchoredDuels] iteration 1 of at most 200, 60.0 s" in err


def test_callbacks_hear_of_iterations(iris):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")

    class Tasks:
        max_propagation_depth = None

        def __init__(self):
            self.ended = []

        def setup(self, estimator, context):
            self.ended.append("setup")

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.ended.append((context.estimator_name, context.task_name))

        def teardown(self, estimator, context):
            self.ended.append("teardown")

    X, y = iris
    tasks = Tasks()
    ranker = DuelRanker(AnchoredDuels(), random_state=0).set_callbacks(tasks).fit(X, y)
    engine = ranker.duels_
    n_steps = tasks.ended.count(("AnchoredDuels", "iteration"))
    assert n_steps >= engine.score_n_iter_ + engine.n_iter_.max()
    assert (tasks.ended[0], tasks.ended[-1]) == ("setup", "teardown")
    silent = DuelRanker(AnchoredDuels(), random_state=0).fit(X, y)
    assert (ranker.decision_function(X) == silent.decision_function(X)).all()


def test_the_same_again(rng):
    X, y = points("dense tall", rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two = (ranker_of(2).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
