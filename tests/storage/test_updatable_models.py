"""Model files of rankers that keep their rows for updates."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from duelrank import DuelRanker, LogisticDuels

pytest.importorskip("skops")

from duelrank.storage import ModelFileError, describe, load, save

FORMS = {"tall": (3, False), "wide": (80, False), "sparse": (80, True)}


@pytest.fixture(params=sorted(FORMS))
def rows(request, rng):
    n_features, is_sparse = FORMS[request.param]
    y = np.repeat(["a", "b", "c", "d"], 10)
    X = rng.normal(size=(40, n_features)) + np.repeat(np.eye(4, n_features), 10, axis=0)
    return sparse.csr_array(X * (rng.random(X.shape) < 0.3)) if is_sparse else X, y


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def make(**parameters):
    return DuelRanker(LogisticDuels(keep_rows=True, **parameters), random_state=0)


@pytest.mark.parametrize("weighted", [True, False])
def test_a_loaded_model_learns_on(rows, path, rng, weighted):
    X, y = rows
    weights = rng.random(40) + 0.5 if weighted else None
    first = np.flatnonzero(y != "b")
    some = None if weights is None else weights[first]
    save(make().fit(X[first], y[first], some), path)
    assert describe(path).training_data["rows"] == 1
    loaded = load(path)
    late = np.flatnonzero(y == "b")
    loaded.partial_fit(X[late], y[late], sample_weight=None if weights is None else weights[late])
    scratch = make().fit(X, y, weights)
    np.testing.assert_allclose(loaded.duels_.coef_, scratch.duels_.coef_, atol=1e-3)
    assert np.array_equal(loaded.predict(X), scratch.predict(X))


def test_rows_can_be_left_out_of_the_file(rows, path):
    X, y = rows
    ranker = make().fit(X, y)
    save(ranker, path, training_rows=False)
    assert describe(path).training_data["rows"] == 0
    loaded = load(path)
    assert not hasattr(loaded.duels_, "training_rows_")
    assert np.array_equal(loaded.predict(X), ranker.predict(X))
    with pytest.raises(ValueError, match="Set keep_rows=False to go on from the last solution"):
        loaded.partial_fit(X[:2], y[:2])
    loaded.duels_.set_params(keep_rows=False)
    loaded.partial_fit(X[:2], y[:2]).drop_labels(["a"])
    assert hasattr(ranker.duels_, "training_rows_")


@pytest.mark.parametrize("name", ["codes", "weights", "X"])
def test_altered_rows_do_not_load(rows, path, name):
    X, y = rows
    ranker = make().fit(X, y)
    altered = {"codes": np.arange(40), "weights": np.zeros(40), "X": np.zeros((40, 2))}
    ranker.duels_.training_rows_ = {**ranker.duels_.training_rows_, name: altered[name]}
    save(ranker, path)
    with pytest.raises(ModelFileError, match="not counted right"):
        load(path)


def test_indices_of_kept_rows_are_checked(path, rng):
    X = sparse.csr_array(rng.random((30, 3)))
    ranker = make().fit(X, np.arange(30) % 3)
    kept = ranker.duels_.training_rows_["X"]
    kept.indices[0] = 1000
    save(ranker, path)
    with pytest.raises(ModelFileError):
        load(path)


def test_sparse_matrices_are_kept_as_arrays(path, rng):
    X = sparse.csr_matrix(rng.random((30, 3)))
    save(make().fit(X, np.arange(30) % 3), path)
    loaded = load(path).partial_fit(X[:4], [0, 1, 2, 7])
    assert loaded.classes_.tolist() == [0, 1, 2, 7]


@pytest.mark.filterwarnings("ignore::duelrank.storage.ModelVersionWarning")
def test_models_of_older_versions_go_on_from_their_solution():
    folder = Path(__file__).parent / "written_by_0_2"
    old = load(folder / "logistic.skops")[-1]
    labels = old.classes_[:2]
    assert old.duels_.keep_rows is False
    points = sparse.csr_array(np.zeros((2, old.n_features_in_)))
    old.partial_fit(points, labels)
    old.drop_labels(labels[:1])
    assert labels[0] not in old.classes_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_iter_", np.zeros(2, dtype=np.intp)),
        ("n_iter_", np.array(["x"] * 6)),
        ("decrement_", np.array(["x"] * 6)),
        ("C_", float("nan")),
        ("C_", "x"),
    ],
)
def test_altered_state_of_the_solver_does_not_load(path, rng, name, value):
    ranker = make().fit(rng.normal(size=(40, 3)), np.repeat(["a", "b", "c", "d"], 10))
    setattr(ranker.duels_, name, value)
    save(ranker, path)
    with pytest.raises(ModelFileError):
        load(path)
