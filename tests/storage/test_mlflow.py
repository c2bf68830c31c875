"""MLflow keeps rankers, and docs/how_to/mlflow.md says how: its code runs here."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, predict_order

pytest.importorskip("skops.io")

from duelrank import storage
from duelrank.shortlists import PlaceIntervals, Shortlister
from duelrank.storage import ModelFileError, UntrustedTypesError, save

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "mlflow.md"
X, Y = load_iris(return_X_y=True)
RANKS = np.stack([Y + 1, (Y + 1) % 3 + 1, (Y + 2) % 3 + 1], axis=1)


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """MLflow with a store in a folder of its own, and without a word to anyone."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.chdir(tmp_path)
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    pytest.importorskip("mlflow.sklearn")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(None)


def code_of(page):
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE))


@pytest.mark.filterwarnings("ignore")  # MLflow's own, which differ from version to version
@pytest.mark.skipif(not PAGE.exists(), reason="there are no docs in a source archive")
def test_the_page_about_mlflow_runs(mlflow):
    told = {}
    exec(code_of(PAGE.read_text(encoding="utf-8")), told)
    order = predict_order(told["model"], told["X"])
    assert order.shape == (178, 3)
    np.testing.assert_array_equal(told["order"], order)
    np.testing.assert_array_equal(told["first_two"], order[:, :2])
    np.testing.assert_array_equal(told["all_labels"], order)
    np.testing.assert_array_equal(predict_order(told["ranker"], told["X"]), order)
    assert type(told["same"]) is type(told["model"])


# What MLflow calls, with and without MLflow


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def test_the_first_labels_of_a_model_file(path):
    pandas = pytest.importorskip("pandas")
    names = np.array(["setosa", "versicolor", "virginica"])
    model = make_pipeline(StandardScaler(), DuelRanker(random_state=0)).fit(X, names[Y])
    save(model, path)
    order = predict_order(model, X)
    np.testing.assert_array_equal(storage._load_pyfunc(str(path)).predict(X), order)
    first = storage._load_pyfunc(str(path), {"k": 1})
    np.testing.assert_array_equal(first.predict(X), order[:, :1])
    # A server makes a table of a request, also for a model that was fitted on an array.
    table = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    np.testing.assert_array_equal(first.predict(table, params=None), order[:, :1])
    save(model.fit(table, names[Y]), path)
    np.testing.assert_array_equal(storage._load_pyfunc(str(path)).predict(table), order)
    with pytest.raises(ValueError, match="k must be"):
        storage._load_pyfunc(str(path), {"k": 4}).predict(table)


def test_texts_are_the_only_column_of_a_table(path):
    pandas = pytest.importorskip("pandas")
    texts = ["red green", "red blue", "green blue", "red", "green", "blue"] * 5
    model = make_pipeline(TfidfVectorizer(), DuelRanker(random_state=0)).fit(texts, [0, 1, 2] * 10)
    for columns in (None, {"body": "text"}):
        save(model, path, columns=columns)
        loaded = storage._load_pyfunc(str(path))
        for given in (texts, pandas.DataFrame({"body": texts})):
            np.testing.assert_array_equal(loaded.predict(given), predict_order(model, texts))


def test_shortlists_and_intervals_rank_as_what_they_are_made_of(path):
    lists = Shortlister(coverage=0.8, random_state=0).fit(X, Y)
    places = PlaceIntervals(coverage=0.8, random_state=0).fit(X, RANKS)
    for model in (lists, places):
        save(model, path)
        np.testing.assert_array_equal(
            storage._load_pyfunc(str(path)).predict(X), predict_order(model.estimator_, X)
        )


class Stranger(StandardScaler):
    """A type that is neither ours nor scikit-learn's."""


@pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")
def test_what_load_refuses_is_refused(path):
    save(make_pipeline(Stranger(), DuelRanker(random_state=0)).fit(X, Y), path)
    with pytest.raises(UntrustedTypesError):
        storage._load_pyfunc(str(path))
    path.write_bytes(b"\x80nothing.")
    with pytest.raises(ModelFileError, match="a pickle"):
        storage._load_pyfunc(str(path))


def test_texts_come_in_one_column(path):
    pandas = pytest.importorskip("pandas")
    texts = ["a red rose", "a blue iris", "a white lily"] * 4
    model = make_pipeline(TfidfVectorizer(), DuelRanker(random_state=0)).fit(texts, [0, 1, 2] * 4)
    save(model, path)
    loaded = storage._load_pyfunc(path, {"k": 1})
    table = pandas.DataFrame({"body": texts, "channel": "mail"})
    assert loaded.predict(table[["body"]])[:3, 0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"must have one column, the texts, got \['channel', 'b"):
        loaded.predict(table[["channel", "body"]])
