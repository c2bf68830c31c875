"""Duels that are kept as training rows: the same ones come back, or none."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from duelrank import DuelRanker, LogisticDuels, LogisticDuelsCV

pytest.importorskip("skops.io")

from duelrank.storage import ModelFileError, load, save

N_ROWS, N_LABELS = 60, 5
LABELS = np.arange(N_ROWS) % N_LABELS
# Every column has an entry, or some columns have none: the latter are left out.
ENTRIES = np.arange(800)
FULL = sparse.csr_array(
    (np.random.RandomState(0).rand(800), (ENTRIES * 7 % N_ROWS, ENTRIES % 400)), shape=(N_ROWS, 400)
)
WITH_GAPS = sparse.csr_array(sparse.hstack([FULL, sparse.csr_array((N_ROWS, 30))]))
FEW_COLUMNS = WITH_GAPS[:, 390:410]
POINTS = {
    "all columns": FULL,
    "columns left out": WITH_GAPS,
    "single precision": FULL.astype(np.float32),
    "matrix": sparse.csr_matrix(FULL),
    "coefficients": FEW_COLUMNS,
}
ENGINES = [LogisticDuels(C=10), LogisticDuelsCV(Cs=[0.1, 10], cv=2)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def fitted(points, engine=None):
    # A copy, because some tests alter what is kept.
    return DuelRanker(engine or LogisticDuels(C=10), random_state=0).fit(points.copy(), LABELS)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("name", POINTS)
def test_kept_duels_rank_to_the_same_bytes(name, engine, path):
    points = POINTS[name]
    ranker = fitted(points, engine)
    kept = ranker.duels_.kept_
    assert sparse.issparse(kept["rows"]) == (name != "coefficients")
    assert (kept["columns"] is None) == (name not in ("columns left out", "coefficients"))
    save(ranker, path)
    same = load(path)
    for method in ("decision_function", "predict_ranks", "predict_proba"):
        if hasattr(ranker, method):
            expected = getattr(ranker, method)(points)
            assert getattr(same, method)(points).tobytes() == expected.tobytes()
    assert same.duels_.margins(points).tobytes() == ranker.duels_.margins(points).tobytes()
    assert same.duels_.coef_.tobytes() == ranker.duels_.coef_.tobytes()


@pytest.mark.parametrize("name", POINTS)
def test_everything_that_is_kept_comes_back(name, path):
    ranker = fitted(POINTS[name])
    save(ranker, path)
    before, after = ranker.duels_.kept_, load(path).duels_.kept_
    assert list(after) == list(before)
    for key, value in before.items():
        assert type(after[key]) is type(value)
        if sparse.issparse(value):
            assert after[key].shape == value.shape
            for part in ("data", "indices", "indptr"):
                assert np.array_equal(getattr(after[key], part), getattr(value, part))
            assert after[key].dtype == value.dtype
        elif isinstance(value, np.ndarray):
            assert after[key].dtype == value.dtype
            assert after[key].flags.f_contiguous == value.flags.f_contiguous
            assert after[key].tobytes() == value.tobytes()
        else:
            assert after[key] == value


def test_text_ranks_to_the_same_bytes(path):
    rng = np.random.RandomState(0)
    words = np.array([f"word{i}" for i in range(300)])
    texts = [" ".join(rng.choice(words, 8)) for _ in range(N_ROWS)]
    model = make_pipeline(TfidfVectorizer(), DuelRanker(random_state=0)).fit(texts, LABELS)
    assert isinstance(model[-1].duels_.kept_["rows"], sparse.csr_array)
    save(model, path)
    same = load(path)
    assert same.decision_function(texts).tobytes() == model.decision_function(texts).tobytes()


def test_a_loaded_model_with_kept_duels_is_saved_to_the_same_rankings(path):
    ranker = fitted(WITH_GAPS)
    save(ranker, path)
    save(load(path), path)
    same = load(path)
    assert same.decision_function(WITH_GAPS).tobytes() == (
        ranker.decision_function(WITH_GAPS).tobytes()
    )


# Altered files


def put(name, place, value):
    """Return what puts a value into an array that is kept."""

    def alter(kept):
        array = kept["rows"]
        for part in name.split("."):
            array = kept[part] if part in kept else getattr(array, part)
        array[place] = value

    alter.__name__ = f"{value} in {name}"
    return alter


def change(name, function):
    """Return what changes something that is kept."""

    def alter(kept):
        kept[name] = function(kept[name])

    alter.__name__ = f"{name} changed"
    return alter


def shape(*lengths):
    """Return what gives sparse rows another shape, whatever their indices are."""

    def alter(rows):
        rows = rows.copy()
        rows._shape = lengths
        return rows

    return alter


ALTERED = {
    "index beyond the columns": put("rows.indices", 0, 400),
    "index far beyond": put("rows.indices", 0, 10**6),
    "index below zero": put("rows.indices", 0, -1),
    "end below zero": put("rows.indptr", 1, -1),
    "end before its start": put("rows.indptr", 1, 10**6),
    "first end": put("rows.indptr", 0, 1),
    "last end beyond the entries": put("rows.indptr", -1, 10**6),
    "entry that is no number": put("rows.data", 0, np.nan),
    "infinite entry": put("rows.data", 0, np.inf),
    "fewer columns of rows": change("rows", lambda rows: rows[:, 1:]),
    "fewer rows": change("rows", lambda rows: rows[1:]),
    "no rows": change("rows", lambda rows: rows[:0]),
    "rows in another form": change("rows", sparse.csc_array),
    "rows of a matrix": change("rows", sparse.csr_matrix),
    "whole numbers in rows": change("rows", lambda rows: rows.astype(np.int64)),
    "complex rows": change("rows", lambda rows: rows.astype(complex)),
    "rows that are None": change("rows", lambda rows: None),
    "dense rows of three axes": change("rows", lambda rows: rows.toarray()[..., np.newaxis]),
    "more columns than there are": change("rows", shape(N_ROWS, 10**6)),
    "other number of features": change("n_features", lambda n: n + 1),
    "column beyond the features": change("columns", lambda _: np.arange(1, 401)),
    "column below zero": change("columns", lambda _: np.arange(-1, 399)),
    "fewer columns": change("columns", lambda _: np.arange(399)),
    "columns that are no integers": change("columns", lambda _: np.arange(400.0)),
    "row beyond the rows": put("row_numbers", 0, N_ROWS),
    "row below zero": put("row_numbers", 0, -1),
    "fewer row numbers": change("row_numbers", lambda a: a[1:]),
    "row numbers of two axes": change("row_numbers", lambda a: a[:, np.newaxis]),
    "row numbers between integers": change("row_numbers", lambda a: a + 0.5),
    "labels that end too late": put("row_ends", -1, 10**6),
    "labels that begin too late": put("row_ends", 0, 1),
    "label that ends before it begins": put("row_ends", 1, 40),
    "label that ends below zero": put("row_ends", 1, -1),
    "fewer labels": change("row_ends", lambda a: a[1:]),
    "fewer coefficients of rows": change("row_coef", lambda a: a[1:]),
    "coefficients of fewer labels": change("row_coef", lambda a: a[:, 1:]),
    "coefficient that is no number": put("row_coef", (0, 0), np.nan),
    "infinite coefficient": put("row_coef", (0, 0), -np.inf),
    "whole coefficients": change("row_coef", lambda a: a.astype(np.int64)),
    "coefficients of objects": change("row_coef", lambda a: a.astype(object)),
    "duel beyond the duels": change("coef_duels", lambda _: np.array([10])),
    "duel without coefficients": change("coef_duels", lambda _: np.array([0])),
    "coefficients without a duel": change("coef", lambda _: np.zeros((1, 400))),
    "coefficients of fewer features": change("coef", lambda a: a[:, 1:]),
}


@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
def test_kept_duels_that_do_not_fit_together_are_refused(alter, path):
    ranker = fitted(FULL)
    save(ranker, path)
    load(path)
    alter(ranker.duels_.kept_)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)


COEFFICIENTS_ALTERED = {
    "no number": put("coef", (0, 0), np.nan),
    "infinite": put("coef", (0, 0), np.inf),
    "fewer duels": change("coef", lambda a: a[1:]),
    "duels that are fewer": change("coef_duels", lambda a: a[1:]),
    "column beyond the features": change("columns", lambda a: a + 11),
    "column below zero": change("columns", lambda a: a - 1),
    "duel below zero": change("coef_duels", lambda a: a - 1),
}


@pytest.mark.parametrize("alter", COEFFICIENTS_ALTERED.values(), ids=COEFFICIENTS_ALTERED)
def test_kept_coefficients_that_do_not_fit_together_are_refused(alter, path):
    ranker = fitted(FEW_COLUMNS)
    save(ranker, path)
    load(path)
    alter(ranker.duels_.kept_)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)


@pytest.mark.parametrize("name", ["rows", "columns", "row_coef", "n_features"])
def test_kept_duels_without_a_part_are_refused(name, path):
    ranker = fitted(FULL)
    del ranker.duels_.kept_[name]
    save(ranker, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)


@pytest.mark.parametrize("kept", [None, [], "rows", {"rows": 1}, {}])
def test_what_is_no_kept_duels_is_refused(kept, path):
    ranker = fitted(FULL)
    ranker.duels_.kept_ = kept
    save(ranker, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        load(path)


def _too_wide(duels):
    """Claim columns by the million, which cost a sparse matrix nothing."""
    rows = duels.kept_["rows"]
    shape = (rows.shape[0], 2 * 10**8)
    duels.kept_["rows"] = sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=shape)
    duels.kept_["coef"] = np.zeros((0, shape[1]))


BESIDE = {
    "more columns than features": _too_wide,
    "no finite intercept": lambda duels: duels.intercept_.__setitem__(0, np.nan),
    "half precision": lambda duels: setattr(
        duels, "intercept_", duels.intercept_.astype(np.float16)
    ),
    "labels counted in floats": lambda duels: setattr(duels, "n_classes_", 5.0),
    "features counted in floats": lambda duels: duels.kept_.update(n_features=400.0),
    "coefficients as well": lambda duels: vars(duels).update(coef_=np.zeros((10, 400))),
}


@pytest.mark.parametrize("alter", BESIDE.values(), ids=BESIDE)
def test_what_stands_beside_kept_duels_must_fit(alter, path):
    ranker = fitted(FULL)
    alter(ranker.duels_)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="not counted right"):
        load(path)


def test_coefficients_that_are_not_finite_are_refused(path):
    ranker = DuelRanker(random_state=0).fit(FULL.toarray()[:, :3], LABELS)
    ranker.duels_.coef_[2, 1] = np.inf
    save(ranker, path)
    with pytest.raises(ModelFileError, match="not counted right"):
        load(path)
