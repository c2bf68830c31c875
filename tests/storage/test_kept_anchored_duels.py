"""Saved anchored duels: the same ones come back, or none."""

import numpy as np
import pytest
from scipy import sparse

from duelrank import AnchoredDuels, DuelRanker

pytest.importorskip("skops.io")

from duelrank.storage import ModelFileError, load, save

N_ROWS, N_LABELS, N_COLUMNS = 60, 5, 12
LABELS = np.arange(N_ROWS) % N_LABELS
DENSE = np.random.RandomState(0).normal(size=(N_ROWS, N_COLUMNS)) + np.eye(N_COLUMNS)[LABELS]
SPARSE = sparse.csr_array(np.where(np.random.RandomState(1).rand(*DENSE.shape) < 0.4, DENSE, 0))
WITH_GAPS = sparse.csr_array(
    (SPARSE.data, 2 * SPARSE.indices, SPARSE.indptr), shape=(N_ROWS, 2 * N_COLUMNS)
)
POINTS = {
    "dense": DENSE,
    "sparse": SPARSE,
    "columns left out": WITH_GAPS,
    "single precision": DENSE.astype(np.float32),
    "wide": np.hstack([DENSE] * 10),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def fitted(points, rivals=2):
    return DuelRanker(AnchoredDuels(rivals=rivals), random_state=0).fit(points.copy(), LABELS)


@pytest.mark.parametrize("rivals", [None, 2, 0])
@pytest.mark.parametrize("name", POINTS)
def test_saved_duels_rank_to_the_same_bytes(name, rivals, path):
    points = POINTS[name]
    ranker = fitted(points, rivals)
    assert (ranker.duels_.kept_["columns"] is None) == (name != "columns left out")
    save(ranker, path)
    same = load(path)
    for method in ("decision_function", "predict_ranks", "predict_proba"):
        expected = getattr(ranker, method)(points)
        assert getattr(same, method)(points).tobytes() == expected.tobytes()
    for method in ("margins", "scores", "probabilities"):
        expected = getattr(ranker.duels_, method)(points)
        assert getattr(same.duels_, method)(points).tobytes() == expected.tobytes()
    assert same.duels_.get_params() == ranker.duels_.get_params()
    save(same, path)
    assert load(path).duels_.margins(points).tobytes() == ranker.duels_.margins(points).tobytes()


def put(name, place, value):
    """Return what puts a value into an array that is kept, or into an attribute."""

    def alter(engine):
        array = engine.kept_[name] if name in engine.kept_ else getattr(engine, name)
        array[place] = value

    return alter


def change(name, function):
    """Return what changes something that is kept, or an attribute."""

    def alter(engine):
        if name in engine.kept_:
            engine.kept_[name] = function(engine.kept_[name])
        else:
            setattr(engine, name, function(getattr(engine, name)))

    return alter


ALTERED = {
    "score that is no number": put("score_coef", (0, 0), np.nan),
    "infinite score": put("score_coef", (0, 0), np.inf),
    "scores of fewer labels": change("score_coef", lambda a: a[:, 1:]),
    "scores of fewer columns": change("score_coef", lambda a: a[1:]),
    "scores of one axis": change("score_coef", np.ravel),
    "whole scores": change("score_coef", lambda a: a.astype(np.int64)),
    "scores in half precision": change("score_coef", lambda a: a.astype(np.float16)),
    "scores of objects": change("score_coef", lambda a: a.astype(object)),
    "scores that are None": change("score_coef", lambda a: None),
    "scores in a list": change("score_coef", lambda a: a.tolist()),
    "intercept that is no number": put("score_intercept_", 0, np.nan),
    "fewer intercepts": change("score_intercept_", lambda a: a[1:]),
    "intercepts in half precision": change("score_intercept_", lambda a: a.astype(np.float16)),
    "own intercept that is no number": put("own_intercept_", 0, np.nan),
    "fewer own intercepts": change("own_intercept_", lambda a: a[1:]),
    "own intercepts that are None": change("own_intercept_", lambda a: None),
    "duel beyond the duels": put("corrected_duels_", -1, 10),
    "duel below zero": put("corrected_duels_", 0, -1),
    "duels that decrease": change("corrected_duels_", lambda a: a[::-1].copy()),
    "duels that repeat": put("corrected_duels_", 0, 1),
    "fewer duels": change("corrected_duels_", lambda a: a[1:]),
    "duels between integers": change("corrected_duels_", lambda a: a + 0.5),
    "duels in a list": change("corrected_duels_", lambda a: a.tolist()),
    "duels of two axes": change("corrected_duels_", lambda a: a[:, np.newaxis]),
    "labels counted in floats": change("n_classes_", float),
    "other number of labels": change("n_classes_", lambda n: n + 1),
    "column beyond the features": change("columns", lambda a: np.arange(13, 25)),
    "column below zero": change("columns", lambda a: np.arange(-1, 11)),
    "columns that decrease": change("columns", lambda a: np.arange(12)[::-1].copy()),
    "fewer columns": change("columns", lambda a: np.arange(11)),
    "columns between integers": change("columns", lambda a: np.arange(12.0)),
    "columns that are a number": change("columns", lambda a: 12),
    "columns that are text": change("columns", lambda a: "abcdefghijkl"),
    "columns of two axes": change("columns", lambda a: np.arange(12)[:, np.newaxis]),
    "corrections that are None": change("own_coef", lambda a: None),
    "corrections of fewer duels": change("own_coef", lambda a: a[:, 1:]),
    "corrections of fewer columns": change("own_coef", lambda a: a[1:]),
    "kept that is None": lambda engine: setattr(engine, "kept_", None),
    "kept that lacks a part": lambda engine: engine.kept_.pop("own_coef"),
    "kept with something else": lambda engine: engine.kept_.update(rows=1),
}
OF_DENSE = {
    "correction that is no number": put("own_coef", (0, 0), np.nan),
    "infinite correction": put("own_coef", (0, 0), -np.inf),
    "corrections of three axes": change("own_coef", lambda a: a[..., np.newaxis]),
    "no columns where there are some": change("columns", lambda a: np.arange(0)),
}


def of_entries(name, place, value):
    """Return what puts a value into the arrays of sparse corrections."""

    def alter(engine):
        getattr(engine.kept_["own_coef"], name)[place] = value

    return alter


def reshaped(*shape):
    def alter(engine):
        engine.kept_["own_coef"]._shape = shape

    return alter


OF_SPARSE = {
    "entry that is no number": of_entries("data", 0, np.nan),
    "infinite entry": of_entries("data", 0, np.inf),
    "index beyond the duels": of_entries("indices", 0, 10**6),
    "index below zero": of_entries("indices", 0, -1),
    "end below zero": of_entries("indptr", 1, -1),
    "end before its start": of_entries("indptr", 1, 10**6),
    "first end": of_entries("indptr", 0, 1),
    "last end beyond the entries": of_entries("indptr", -1, 10**6),
    "more rows than there are": reshaped(10**6, 7),
    "more duels than there are": reshaped(N_COLUMNS, 10**6),
    "corrections in another form": change("own_coef", sparse.csc_array),
    "corrections of a matrix": change("own_coef", sparse.csr_matrix),
    "whole corrections": change("own_coef", lambda a: a.astype(np.int64)),
    "complex corrections": change("own_coef", lambda a: a.astype(complex)),
}


@pytest.mark.parametrize(
    ("name", "alter"),
    [
        *(
            pytest.param("dense", alter, id=f"dense: {id}")
            for id, alter in (ALTERED | OF_DENSE).items()
        ),
        *(
            pytest.param("sparse", alter, id=f"sparse: {id}")
            for id, alter in (ALTERED | OF_SPARSE).items()
        ),
    ],
)
def test_duels_that_do_not_fit_together_are_refused(name, alter, path):
    ranker = fitted(POINTS[name])  # which is loaded as it is, says the test before
    alter(ranker.duels_)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)
