"""Fits that stop and go on from a file."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import duelrank
from duelrank import DuelRanker, LogisticDuels
from duelrank._progress import Progress
from duelrank.blocks import RowBlocks, _dask
from duelrank.duels.logistic import _blocks, _checkpoint

ROWS = {"memory": None, "blocks": 300, "other blocks": 170}


class Interrupted(Exception):
    pass


@pytest.fixture(autouse=True)
def slow_in_blocks(monkeypatch):
    """Let samples be so small that a fit from blocks takes several iterations."""
    monkeypatch.setattr(_dask, "has_client", lambda: False)
    monkeypatch.setattr(_blocks, "LEAST_SAMPLE_ROWS", 20)
    monkeypatch.setattr(_blocks, "SAMPLE_ROWS_PER_COEFFICIENT", 0)


@pytest.fixture
def steps(monkeypatch):
    """Count steps of progress; fits are interrupted when they come to `steps.last`."""

    class Steps:
        done, last = 0, None

    def step(progress):
        Steps.done += 1
        if Steps.done == Steps.last:
            raise Interrupted

    monkeypatch.setattr(Progress, "step", step)
    # However slow the disk is, the file of every step is written.
    monkeypatch.setattr(_checkpoint, "SHORT_WRITING", np.inf)
    return Steps


@pytest.fixture
def file(tmp_path):
    return tmp_path / "fit.npz"


@pytest.fixture(scope="module")
def data(digits):
    X, y = digits
    return X[y < 6], y[y < 6]


@pytest.fixture(scope="module")
def solution(data):
    return LogisticDuels(tol=1e-13).fit(*data, 6)


def fit(data, where, n_classes=6, **options):
    X, y = data
    rows = ROWS[where]
    blocks = X if rows is None else RowBlocks.from_array(X, rows)
    return LogisticDuels(**options).fit(blocks, y, n_classes)


def interrupt(steps, last, data, where, **options):
    steps.done, steps.last = 0, last
    with pytest.raises(Interrupted):
        fit(data, where, **options)
    steps.done, steps.last = 0, None


def contents(file):
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


# With tol=1e-8 an error of the weights is about the root of it, relative to their size of 0.5.
CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.mark.parametrize(
    ("before", "last", "after"),
    [
        ("memory", 2, "memory"),
        ("memory", 8, "memory"),
        ("memory", 11, "memory"),  # in double precision
        ("blocks", 5, "blocks"),
        ("blocks", 7, "other blocks"),
        ("blocks", 7, "memory"),
        ("memory", 3, "blocks"),
        ("memory", 8, "blocks"),  # some duels are done with single precision, but not with the fit
        ("memory", 11, "blocks"),
    ],
)
def test_an_interrupted_fit_goes_on(data, solution, steps, file, before, last, after):
    whole = fit(data, after)
    needed = steps.done
    interrupt(steps, last, data, before, checkpoint=file, checkpoint_every=1)
    assert [path.name for path in file.parent.iterdir()] == ["fit.npz"]  # and no part of one
    saved = contents(file)
    assert saved["progress"][1] == saved["n_iter"].max() == last
    assert not saved["solved"].any()
    resumed = fit(data, after, checkpoint=file)
    assert resumed.converged_.all()
    np.testing.assert_allclose(resumed.coef_, solution.coef_, **CLOSE)
    assert resumed.n_iter_.max() == steps.done + last  # counted on
    assert np.all(resumed.n_iter_ >= saved["n_iter"])
    if before == after:
        assert steps.done < needed
        assert abs(resumed.n_iter_.max() - whole.n_iter_.max()) <= 2
    assert not file.exists()


def test_how_often_the_file_is_written(data, steps, file):
    interrupt(steps, 2, data, "memory", checkpoint=file, checkpoint_every=3)
    assert not file.exists()
    interrupt(steps, 5, data, "memory", checkpoint=file, checkpoint_every=3)
    assert contents(file)["progress"][1] == 3
    file.unlink()
    interrupt(steps, 5, data, "memory", checkpoint=str(file))
    assert contents(file)["progress"][1] == 5


@pytest.mark.parametrize("where", ["memory", "blocks"])
def test_more_iterations_go_on_where_fewer_ended(data, solution, steps, file, where):
    with pytest.warns(ConvergenceWarning):
        short = fit(data, where, checkpoint=file, max_iter=5)
    assert set(short.n_iter_) == {5}
    np.testing.assert_array_equal(contents(file)["coef"], short.coef_)
    whole = fit(data, where)
    steps.done = 0
    resumed = fit(data, where, checkpoint=file, max_iter=30)
    assert resumed.converged_.all()
    assert steps.done < whole.n_iter_.max()
    assert resumed.n_iter_.max() == steps.done + 5
    np.testing.assert_allclose(resumed.coef_, solution.coef_, **CLOSE)
    assert not file.exists()


@pytest.mark.parametrize(("where", "last"), [("memory", 8), ("memory", 10), ("blocks", 6)])
def test_another_tolerance(data, solution, steps, file, where, last):
    interrupt(steps, last, data, where, checkpoint=file, checkpoint_every=1, tol=1e-3)
    saved = contents(file)
    assert saved["done"].any()  # some are good enough for the first tolerance
    resumed = fit(data, where, checkpoint=file, tol=1e-10)
    assert resumed.converged_.all()
    np.testing.assert_allclose(resumed.coef_, solution.coef_, rtol=0, atol=1e-5)


def changed_labels(X, y):
    three_or_five = (y == 3) | (y == 5)
    other = y.copy()
    other[three_or_five] = np.random.default_rng(0).permutation(y[three_or_five])
    return X, other


def permuted_within_labels(X, y):
    """Return rows of which no label has other means or scales: a feature changes its rows."""
    rng, other = np.random.default_rng(0), X.copy()
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        other[rows, 30] = X[rng.permutation(rows), 30]
    return other, y


def one_number_changed(X, y):
    other = X.copy()
    other[100, 20] = np.nextafter(X[100, 20], 99)
    return other, y


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda X, y: (2 * X, y), {}),
        (permuted_within_labels, {}),
        (one_number_changed, {}),
        (lambda X, y: (np.hstack([X, np.zeros((len(X), 1))]), y), {}),
        (lambda X, y: (X + 1, y), {}),
        (lambda X, y: (X[:, ::-1], y), {}),
        (lambda X, y: (X[:, :60], y), {}),
        (lambda X, y: (X[:-9], y[:-9]), {}),
        (lambda X, y: (X, np.where(y == 5, 4, y)), {}),
        (changed_labels, {}),
        (None, {"n_classes": 7}),
        (None, {"C": 2.0}),
        (None, {"class_weight": "balanced"}),
        (None, {"class_weight": {3: 2.0}}),
        (None, {"fit_intercept": False}),
    ],
)
@pytest.mark.parametrize("where", ["memory", "blocks"])
def test_files_of_other_fits_are_refused(data, steps, file, change, options, where):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    written = file.read_bytes()
    rows = data if change is None else change(*data)
    with pytest.raises(ValueError, match=r"checkpoint names the file of another fit, .*fit\.npz"):
        fit(rows, where, checkpoint=file, **options)
    assert file.read_bytes() == written
    assert steps.done == 0


def test_weights_of_labels_and_rows_are_known(iris, steps, file):
    X, y = iris
    options = {"class_weight": {0: 2.0, 2: 0.5}, "checkpoint": file, "checkpoint_every": 1}
    weights = np.linspace(1, 2, 150)
    steps.last = 3
    with pytest.raises(Interrupted):
        LogisticDuels(**options).fit(X, y, 3, sample_weight=weights)
    with pytest.raises(ValueError, match="another fit"):
        LogisticDuels(**options).fit(X, y, 3, sample_weight=weights[::-1])
    again = LogisticDuels(**options).fit(RowBlocks.from_array(X, 40), y, 3, sample_weight=weights)
    assert again.converged_.all()


def archive(**arrays):
    return lambda file: np.savez(file, **arrays)


def array(file):
    with file.open("wb") as opened:
        np.save(opened, np.ones(3))


def truncated(file):
    np.savez(file, coef=np.ones(1000))
    file.write_bytes(file.read_bytes()[:4000])


def zipped(file):
    with zipfile.ZipFile(file, "w") as zip_file:
        zip_file.writestr("parameters", "text")


@pytest.mark.parametrize(
    "garbage",
    [
        lambda file: file.touch(),
        lambda file: file.write_text("hello"),
        lambda file: file.write_bytes(b"\x93NUMPY"),
        lambda file: np.ones(3).dump(file),
        array,
        lambda file: file.mkdir(),
        truncated,
        zipped,
        archive(coef=np.ones(3)),
        archive(parameters=np.array([{}], dtype=object)),
    ],
)
def test_what_is_no_checkpoint_is_refused(iris, file, garbage):
    garbage(file)
    with pytest.raises(ValueError, match=r"checkpoint .*fit\.npz"):
        LogisticDuels(checkpoint=file).fit(*iris, 3)
    assert file.exists()


def test_a_folder_that_is_missing_is_missed_at_once(iris, steps, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match="nowhere"):
        LogisticDuels(checkpoint=tmp_path / "nowhere" / "fit.npz").fit(*iris, 3)
    assert steps.done == 0


def test_a_file_that_cannot_be_written_costs_a_warning(data, steps, file, monkeypatch):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    written = file.read_bytes()

    def full(target, **arrays):
        target.write(b"some of it")
        assert file.read_bytes() == written  # the last one stays
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.warns(RuntimeWarning, match=r"fit\.npz cannot be written: No space left") as caught:
        resumed = fit(data, "memory", checkpoint=file, checkpoint_every=1, tol=1e-10)
    assert resumed.converged_.all()
    assert len(caught) == 1  # however often it was tried
    assert not file.exists()  # removed, as the fit has converged


def test_a_file_that_cannot_be_removed_costs_a_warning(data, steps, file, monkeypatch):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)

    def denied(path, missing_ok=False):
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(Path, "unlink", denied)
    with pytest.warns(RuntimeWarning, match=r"fit\.npz cannot be removed: Operation not permitted"):
        assert fit(data, "memory", checkpoint=file).converged_.all()


def test_what_a_killed_fit_was_writing_is_removed_in_the_end(data, steps, file):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    half = file.with_name(f".{file.name}.0123abcd.partial")
    half.write_bytes(b"half a file")
    fit(data, "memory", checkpoint=file, checkpoint_every=1000)
    assert not any(file.parent.iterdir())


def with_checksum(arrays):
    return arrays | {"checksum": _checkpoint._checksum(arrays)}


def altered(name, number):
    """Return a change of one number of an array."""

    def change(saved):
        values = saved[name].copy()
        values.flat[values.size // 2] = number
        return saved | {name: values}

    return change


ALTERATIONS = {
    "coefficient": altered("coef", np.nan),
    "intercept": altered("intercept", np.inf),
    "decrement": altered("decrement", 0.0),
    "solved": altered("solved", True),
    "progress": altered("progress", 1),
    "shape": lambda saved: saved | {"coef": saved["coef"][:-1]},
    "dtype": lambda saved: saved | {"n_iter": saved["n_iter"].astype(float)},
    "parameters": lambda saved: saved | {"parameters": np.array("{")},
    "dates": lambda saved: saved | {"n_iter": saved["n_iter"].astype("M8[D]")},
    "more": lambda saved: saved | {"other": np.zeros(3)},
}


@pytest.mark.parametrize("change", list(ALTERATIONS.values()), ids=list(ALTERATIONS))
def test_files_that_were_altered_are_refused(data, steps, file, change):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    np.savez(file, **change(contents(file)))
    with pytest.raises(ValueError, match=r"checkpoint names a file that .* altered, .*fit\.npz"):
        fit(data, "memory", checkpoint=file)
    assert steps.done == 0


@pytest.mark.parametrize("name", ["coef", "decrement", "checksum", "label_digests", "progress"])
def test_files_without_an_array_are_refused(data, steps, file, name):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    saved = contents(file)
    del saved[name]
    np.savez(file, **(saved if name == "checksum" else with_checksum(saved)))
    with pytest.raises(ValueError, match=r"checkpoint names a file that .* altered, .*fit\.npz"):
        fit(data, "memory", checkpoint=file)


# The arrays of a file but its checksum.
STORED = (
    *("coef", "intercept", "decrement", "n_iter", "solved", "by_rows", "row_coef"),
    *("duels", "done", "progress"),
    *("parameters", "n_features", "label_digests", "row_order"),
)


def structured(name):
    """Return a change of an array into one of records, which NumPy compares with nothing else."""

    def change(saved):
        records = np.zeros(saved[name].shape, dtype=[("a", "i4"), ("b", "f8")])
        return saved | {name: records}

    return change


IMPOSSIBLE = {
    "coefficient": altered("coef", np.nan),
    "intercept": altered("intercept", np.inf),
    "decrement": altered("decrement", -1.0),
    "unknown decrement": altered("decrement", np.nan),
    "shape": lambda saved: saved | {"coef": saved["coef"][:-1]},
    "by rows": lambda saved: saved | {"by_rows": np.ones(3, dtype=bool)},
    "done": lambda saved: saved | {"done": saved["done"][:-1]},
    "dtype": lambda saved: saved | {"n_iter": saved["n_iter"].astype(float)},
    "by rows in no order": lambda saved: {
        name: values
        for name, values in altered("by_rows", True)(saved).items()
        if name != "row_order"
    },
    **{f"records of {name}": structured(name) for name in STORED},
}


@pytest.mark.parametrize("change", list(IMPOSSIBLE.values()), ids=list(IMPOSSIBLE))
def test_files_with_impossible_numbers_are_refused(data, steps, file, change):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    saved = contents(file)
    assert set(saved) == {*STORED, "checksum"}
    np.savez(file, **with_checksum(change(saved)))
    with pytest.raises(ValueError, match=r"checkpoint must name .*fit\.npz holds numbers that no"):
        fit(data, "memory", checkpoint=file)


@pytest.mark.parametrize("written", ["", "{", "7", "[1]", "null", "[" * 100_000])
def test_parameters_that_are_none_are_other_parameters(data, steps, file, written):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    np.savez(file, **with_checksum(contents(file) | {"parameters": np.array(written)}))
    with pytest.raises(ValueError, match=r"file of another fit, .*fit\.npz, with other param"):
        fit(data, "memory", checkpoint=file)


def test_an_array_whose_header_ends_early_is_refused(data, steps, file):
    interrupt(steps, 3, data, "memory", checkpoint=file, checkpoint_every=1)
    content = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["coef.npy"] = members["coef.npy"].replace(b"), }", b"    ", 1)
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    assert file.read_bytes() != content
    with pytest.raises(ValueError, match="checkpoint must name a file written by a fit"):
        fit(data, "memory", checkpoint=file)


def test_rounding_makes_no_other_fit(data, steps, file):
    # The mean of a constant column is only known up to rounding, which depends on the blocks.
    X, y = data
    constant = np.outer(np.ones(len(X)), [0.12345, 0.00005, 0.33335, 2.00005])
    extended = np.hstack([X, constant]), y
    for where in ("blocks", "other blocks"):
        interrupt(steps, 3, extended, "memory", checkpoint=file, checkpoint_every=1)
        assert fit(extended, where, checkpoint=file).converged_.all()


@pytest.mark.parametrize("where", ["memory", "blocks"])
def test_sets_of_duels_that_are_solved_stay_so(data, steps, file, where):
    small = {"working_memory": 0.05}
    whole = fit(data, where, **small)
    n_sets = steps.done
    assert n_sets > 3  # more than one set, and each of them is a step
    interrupt(steps, 3, data, where, checkpoint=file, checkpoint_every=1, **small)
    saved = contents(file)
    solved = saved["solved"]
    assert 0 < solved.sum() < 15
    resumed = fit(data, where, checkpoint=file, **small)
    assert steps.done <= n_sets - 3
    np.testing.assert_array_equal(resumed.coef_[solved], saved["coef"][solved])
    np.testing.assert_array_equal(resumed.n_iter_[solved], saved["n_iter"][solved])
    np.testing.assert_allclose(resumed.coef_, whole.coef_, **CLOSE)
    assert resumed.converged_.all()
    assert not file.exists()


def test_a_fit_inside_a_set_goes_on(data, steps, file, monkeypatch):
    """Interrupt between two sets, where iterations are no steps of progress."""
    from duelrank.duels.logistic._checkpoint import Checkpoint

    options = {"working_memory": 0.05, "checkpoint": file, "checkpoint_every": 4}
    whole, write, written = fit(data, "memory", working_memory=0.05), Checkpoint._write, []

    def counted(self, *args, **kwargs):
        write(self, *args, **kwargs)
        written.append(self.path)
        if len(written) == 8:
            raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "_write", counted)
        with pytest.raises(Interrupted):
            fit(data, "memory", **options)
    saved = contents(file)
    assert np.any((saved["n_iter"] > 0) & ~saved["solved"])  # a set is half done
    resumed = fit(data, "memory", **options)
    assert resumed.converged_.all()
    np.testing.assert_allclose(resumed.coef_, whole.coef_, **CLOSE)


# Checkpoints are a parameter like others


def test_parameters_are_kept_as_they_are(iris, file):
    engine = LogisticDuels(checkpoint=file, checkpoint_every=2)
    assert clone(engine).get_params() == engine.get_params()
    assert engine.get_params()["checkpoint"] is file
    ranker = DuelRanker(engine, random_state=0).fit(*iris)
    assert ranker.duels_.checkpoint == file
    assert not file.exists()
    with pytest.raises(ValueError, match="checkpoint_every"):
        LogisticDuels(checkpoint_every=0).fit(*iris, 3)


@pytest.mark.parametrize("kind", [str, lambda file: file])
def test_models_with_a_checkpoint_are_saved(iris, file, kind, tmp_path):
    pytest.importorskip("skops")
    X, y = iris
    ranker = DuelRanker(LogisticDuels(checkpoint=kind(file)), random_state=0).fit(X, y)
    duelrank.save(ranker, tmp_path / "model.skops")
    loaded = duelrank.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_order(X), ranker.predict_order(X))


# A file of version 0.1.0, written after two iterations: it does not tell which rows it is of


def test_files_of_older_versions_are_refused(tmp_path):
    old = Path(__file__).parent / "written_by_0_1" / "fit.npz"
    copied = Path(shutil.copy(old, tmp_path / "fit.npz"))
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + np.eye(3, 4)[y]
    with pytest.raises(ValueError, match=r"checkpoint names a file that another version has"):
        LogisticDuels(checkpoint=copied).fit(X, y, 3)
    assert copied.read_bytes() == old.read_bytes()


def test_strengths_that_are_rounded_otherwise_are_the_same(data, steps, file):
    interrupt(steps, 3, data, "memory", C="scale", checkpoint=file, checkpoint_every=1)
    assert fit(data, "other blocks", C="scale", checkpoint=file).converged_.all()
