"""What model files hold of the training data, and files without training rows."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import KNNImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from duelrank import (
    AnchoredDuels,
    DuelRanker,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StackedDuels,
)

pytest.importorskip("skops.io")

from duelrank.storage import ModelFileError, _archive, describe, load, save

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")

N_ROWS, N_LABELS = 60, 5
LABELS = np.arange(N_ROWS) % N_LABELS
RNG = np.random.RandomState(0)
WORDS = np.array([f"word{i}" for i in range(300)])
TEXTS = [" ".join(RNG.choice(WORDS, 8)) for _ in range(N_ROWS)]
POINTS = RNG.randn(N_ROWS, 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def of_texts(engine, *steps):
    return make_pipeline(TfidfVectorizer(), *steps, DuelRanker(engine, random_state=0))


SEARCH = GridSearchCV(of_texts(LogisticDuels()), {"duelranker__estimator__C": [1.0, 10.0]}, cv=2)
WITH_ROWS = {
    "logistic": of_texts(LogisticDuels(C="scale")),
    "logistic-cv": of_texts(LogisticDuelsCV(Cs=2, cv=2)),
    "search": SEARCH,
}


@pytest.mark.parametrize("name", WITH_ROWS)
def test_rows_are_left_out_where_they_were_kept(name, path):
    model = WITH_ROWS[name].fit(TEXTS, LABELS)
    ranker = getattr(model, "best_estimator_", model)[-1]
    before = model.decision_function(TEXTS)
    attributes = dict(vars(ranker.duels_))
    assert ranker.duels_.keeps_training_rows
    save(model, path)
    assert describe(path).training_data["rows"] == 1
    save(model, path, training_rows=False)
    assert describe(path).training_data["rows"] == 0
    # The model in memory is what it was.
    assert vars(ranker.duels_).keys() == attributes.keys()
    assert all(vars(ranker.duels_)[key] is value for key, value in attributes.items())
    assert model.decision_function(TEXTS).tobytes() == before.tobytes()
    same = load(path)
    engine = getattr(same, "best_estimator_", same)[-1].duels_
    assert not engine.keeps_training_rows
    np.testing.assert_allclose(engine.coef_, ranker.duels_.coef_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(same.decision_function(TEXTS), before, atol=1e-5)
    # A model without rows is saved like any other.
    save(same, path, training_rows=False)
    assert load(path).decision_function(TEXTS).tobytes() == (
        same.decision_function(TEXTS).tobytes()
    )


def arrays_in(path):
    """Return all numbers that are in a file."""
    found = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith((".npy", ".npz")):
                with archive.open(name) as member:
                    loaded = np.load(member)
                    found += [loaded[part] for part in loaded] if name.endswith("z") else [loaded]
    return found


def test_no_row_is_in_a_file_without_rows(path):
    points = sparse.csr_array(RNG.rand(N_ROWS, 400) * (RNG.rand(N_ROWS, 400) < 0.03))
    ranker = DuelRanker(LogisticDuels(C=10), random_state=0).fit(points, LABELS)
    for training_rows in (True, False):
        save(ranker, path, training_rows=training_rows)
        numbers = np.concatenate([a.ravel() for a in arrays_in(path) if a.dtype == np.float64])
        assert np.isin(points.data, numbers).all() == training_rows
        assert np.isin(points.data, numbers).any() == training_rows


def test_columns_without_entries_stay_left_out(path):
    points = sparse.csr_array(
        sparse.hstack([TfidfVectorizer().fit_transform(TEXTS), np.zeros((60, 9))])
    )
    ranker = DuelRanker(random_state=0).fit(points, LABELS)
    save(ranker, path, training_rows=False)
    kept = load(path).duels_.kept_
    assert len(kept["columns"]) == kept["coef"].shape[1] == points.shape[1] - 9


@pytest.mark.parametrize(
    "engine",
    [None, AnchoredDuels(rivals=1), ForestDuels(3), LogisticRegression()],
    ids=lambda engine: type(engine).__name__,
)
def test_models_that_keep_no_rows_are_saved_as_they_are(engine, path):
    ranker = DuelRanker(engine, random_state=0).fit(POINTS, LABELS)
    save(ranker, path, training_rows=False)
    assert describe(path).training_data == {"rows": 0, "terms": 0, "categories": 0}
    assert load(path).decision_function(POINTS).tobytes() == (
        ranker.decision_function(POINTS).tobytes()
    )


NEED_ROWS = {
    "KernelDuels": KernelDuels(20),
    "KernelDuels in a stack": StackedDuels(
        [("kernel", KernelDuels(9)), ("logistic", LogisticDuels())], cv=2
    ),
    "KNeighborsClassifier": KNeighborsClassifier(3),
    "SVC": SVC(),
    "GaussianProcess": GaussianProcessClassifier(optimizer=None),
    "Nystroem": make_pipeline(Nystroem(n_components=9), LogisticRegression()),
    "KNNImputer": make_pipeline(KNNImputer(), LogisticRegression()),
}


@pytest.mark.parametrize("name", NEED_ROWS)
def test_models_that_need_their_rows_say_so(name, path):
    ranker = DuelRanker(NEED_ROWS[name], random_state=0).fit(POINTS, LABELS)
    who = name.removesuffix(" in a stack")
    sentence = rf"training_rows must be True: \w*{who}\w* cannot do without its training rows\.$"
    with pytest.raises(ValueError, match=sentence):
        save(ranker, path, training_rows=False)
    assert not path.exists()
    save(ranker, path)
    assert describe(path).training_data["rows"] == 1


def test_an_engine_that_was_not_taken_needs_no_rows(path):
    grid = {"estimator": [LogisticDuels(), KernelDuels(9)]}
    search = GridSearchCV(DuelRanker(random_state=0), grid, cv=2, refit=lambda results: 0)
    search.fit(POINTS, LABELS).refit = True
    save(search, path, training_rows=False)
    assert describe(path).training_data["rows"] == 0


def test_rows_of_stacked_engines_are_left_out(path):
    points = TfidfVectorizer().fit_transform(TEXTS).toarray()
    stack = StackedDuels(
        [("linear", make_pipeline(StandardScaler(), LogisticDuels())), ("forest", ForestDuels(3))],
        cv=2,
    )
    # Dense rows are kept where there are more duels than rows.
    ranker = DuelRanker(stack, random_state=0).fit(points, np.arange(N_ROWS) % 15)
    save(ranker, path)
    assert describe(path).training_data["rows"] == 1
    save(ranker, path, training_rows=False)
    same = load(path)
    assert not same.duels_.engines_["linear"][-1].keeps_training_rows
    assert ranker.duels_.engines_["linear"][-1].keeps_training_rows
    np.testing.assert_allclose(same.decision_function(points), ranker.decision_function(points))


def test_the_description_counts_terms_and_categories(path):
    frame = pd.DataFrame({"body": TEXTS, "title": TEXTS[::-1], "city": list("abc") * 20})
    step = make_column_transformer(
        (TfidfVectorizer(), "body"), (CountVectorizer(), "title"), (OneHotEncoder(), ["city"])
    )
    model = make_pipeline(step, DuelRanker(random_state=0)).fit(frame, LABELS)
    save(model, path)
    n_terms = len({word for text in TEXTS for word in text.split()})
    assert describe(path).training_data == {"rows": 1, "terms": 2 * n_terms, "categories": 3}


def described(path, training_data):
    """Write a file whose description says something else about the training data."""
    save(DuelRanker(random_state=0).fit(POINTS, LABELS), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(members.pop("duelrank.json"))
    for name in ("checksum", "training_data"):
        description.pop(name)
    if training_data is not None:
        description["training_data"] = training_data
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    _archive.write_archive(path, path.read_bytes(), description)


def test_older_files_do_not_tell(path):
    described(path, None)
    assert describe(path).training_data is None
    load(path)


@pytest.mark.parametrize("told", [3, [], "rows", {"rows": "yes"}, {"terms": 1.5}, {"rows": None}])
def test_descriptions_that_tell_strange_things_are_refused(told, path):
    described(path, told)
    with pytest.raises(ModelFileError, match="its description cannot be read"):
        describe(path)


def test_coefficients_that_are_too_large_are_not_made(path, monkeypatch):
    from duelrank.duels.logistic import _kept

    model = of_texts(LogisticDuels()).fit(TEXTS, LABELS)
    monkeypatch.setattr(_kept, "bytes_of_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="coef_ would be 10 x"):
        save(model, path, training_rows=False)
    assert not path.exists()
