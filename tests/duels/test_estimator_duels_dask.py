import os
import pickle
import signal
import time
from pathlib import Path
from threading import Lock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from joblib.parallel import get_active_backend
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from duelrank import DuelRanker, EstimatorDuels
from duelrank._pairs import pairs
from duelrank._threads import blas_threads
from duelrank.duels._jobs import wrap_points
from duelrank.duels._sides import DuelRows

pytestmark = pytest.mark.xdist_group("cluster")

N_CLASSES = 5
N_DUELS = 10


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = rng.integers(N_CLASSES, size=600)
    X = rng.normal(size=(600, 8)) + 2 * np.eye(N_CLASSES, 8)[codes]
    return X, codes, rng.uniform(0.5, 1.5, size=600)


@pytest.fixture
def dask(client):
    client.wait_for_workers(2, timeout=60)  # with one worker joblib stays at home
    with parallel_config(backend="dask"):
        yield client


@pytest.fixture
def hoarding(dask):
    """A cluster that keeps all copies; by default idle ones may go, every two seconds."""
    dask.amm.stop()
    yield dask
    dask.amm.start()


@pytest.fixture
def sent(client, monkeypatch):
    """What joblib sends: bytes of every job, and what goes ahead of the jobs."""
    cloudpickle = pytest.importorskip("cloudpickle")
    sent = {"jobs": [], "ahead": []}
    submit, scatter = client.submit, client.scatter

    def weigh_and_submit(function, *args, tasks, **kwargs):
        sent["jobs"] += [len(cloudpickle.dumps(task)) for task in tasks]
        return submit(function, *args, tasks=tasks, **kwargs)

    def note_and_scatter(value, *args, **kwargs):
        sent["ahead"].append(type(value).__name__)
        return scatter(value, *args, **kwargs)

    monkeypatch.setattr(client, "submit", weigh_and_submit)
    monkeypatch.setattr(client, "scatter", note_and_scatter)
    return sent


def assert_same_duels(one, other, X):
    for a, b in zip(one.estimators_, other.estimators_, strict=True):
        for name, value in vars(a).items():
            if isinstance(value, np.ndarray) and value.dtype != object:
                assert value.tobytes() == getattr(b, name).tobytes(), name
    assert one.margins(X).tobytes() == other.margins(X).tobytes()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "engine",
    [
        EstimatorDuels(LogisticRegression()),
        EstimatorDuels(RandomForestClassifier(5), random_state=3),
        EstimatorDuels(SVC(kernel="rbf", gamma="scale")),
    ],
    ids=["logistic", "forest", "svc"],
)
def test_the_same_bytes_here_and_there(data, client, engine, weighted):
    X, codes, weights = data
    fit_params = {"sample_weight": weights} if weighted else {}
    here = DuelRanker(engine).fit(X, codes, **fit_params).duels_
    with parallel_config(backend="loky", n_jobs=2):
        processes = DuelRanker(engine).fit(X, codes, **fit_params).duels_
    with parallel_config(backend="dask"):
        there = DuelRanker(engine).fit(X, codes, **fit_params).duels_
        margins = there.margins(X)
    assert_same_duels(here, processes, X)
    assert_same_duels(here, there, X)
    assert margins.tobytes() == here.margins(X).tobytes()


def test_the_same_probabilities_of_rankings_and_kernels(data, client):
    X, codes, _ = data
    ranks = np.argsort(np.random.default_rng(1).gumbel(size=(600, N_CLASSES)), axis=1) + 1.0
    for engine, points, feedback in [
        (EstimatorDuels(GaussianNB()), X, ranks),
        (EstimatorDuels(SVC(kernel="precomputed")), rbf_kernel(X), codes),
    ]:
        method = "probabilities" if hasattr(engine, "probabilities") else "margins"
        here = engine.fit(points, feedback, N_CLASSES)
        expected = getattr(here, method)(points)
        with parallel_config(backend="dask"):
            there = engine.fit(points, feedback, N_CLASSES)
            assert getattr(there, method)(points).tobytes() == expected.tobytes()


def test_routed_metadata_reach_the_workers(data, dask):
    X, codes, weights = data
    with config_context(enable_metadata_routing=True):
        classifier = LogisticRegression().set_fit_request(sample_weight=True)
        there = EstimatorDuels(classifier).fit(X, codes, N_CLASSES, sample_weight=list(weights))
    with parallel_config(backend="sequential"):
        here = EstimatorDuels(LogisticRegression()).fit(X, codes, N_CLASSES, sample_weight=weights)
        assert_same_duels(here, there, X)


def make_polars(X):
    return pytest.importorskip("polars").DataFrame(X)


@pytest.mark.parametrize(
    "container",
    [np.asarray, pd.DataFrame, make_polars, sparse.csr_matrix, sparse.csr_array, np.ndarray.tolist],
)
def test_jobs_carry_no_data(data, dask, sent, container):
    X, codes, weights = (np.repeat(values, 5, axis=0) for values in data)
    X = container(X)
    engine = EstimatorDuels(LogisticRegression())
    engine.fit(X, codes, N_CLASSES, sample_weight=weights)
    assert len(sent["jobs"]) == N_DUELS
    # The weights alone would take 24,000 bytes, those of a duel about 9,600.
    assert max(sent["jobs"]) < 5000
    assert len(sent["ahead"]) == 2
    sent["jobs"].clear()
    engine.margins(X)
    assert len(sent["jobs"]) == N_DUELS
    assert max(sent["jobs"]) < 5000
    assert len(sent["ahead"]) == 3


def test_workers_pass_polars_tables_on_without_touching_them(data):
    # Pickling a table while another thread works with it can end in a deadlock.
    arrived = pickle.loads(pickle.dumps(wrap_points(make_polars(data[0]))))
    arrived.X = None
    passed_on = pickle.loads(pickle.dumps(arrived))
    np.testing.assert_array_equal(passed_on.X.to_numpy(), data[0])


def test_kernel_matrix_goes_ahead_of_predictions(data, dask, sent):
    X, codes, _ = data
    kernel = rbf_kernel(X)
    engine = EstimatorDuels(KNeighborsClassifier(metric="precomputed"))
    engine.fit(1 - kernel, codes, N_CLASSES)
    sent["ahead"].clear()
    engine.margins(1 - kernel)
    assert sent["ahead"] == ["ndarray"]


def test_what_users_have_scattered_is_not_sent_again(data, client, sent):
    X, codes, _ = data
    with parallel_config(backend="dask", scatter=[X]):
        EstimatorDuels(GaussianNB()).fit(X, codes, N_CLASSES)
    assert sent["ahead"] == ["list", "FitArguments"]


ARRIVALS: list[int] = []


class Stamp:
    """A value of a table that leaves a trace wherever it arrives."""

    def __reduce__(self):
        return arrive, ()


def arrive():
    ARRIVALS.append(os.getpid())
    return Stamp()


def take_arrivals():
    arrivals = len(ARRIVALS)
    ARRIVALS.clear()
    return arrivals


class OwnTable(pd.DataFrame):
    @property
    def _constructor(self):
        return OwnTable


def numbers_only(X):
    return np.asarray(X)[:, :-1].astype(float)


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, OwnTable])
def test_data_reach_a_worker_once(data, hoarding, container):
    X, codes, _ = data
    stamped = np.column_stack([X.astype(object), np.zeros(len(X), dtype=object)])
    stamped[0, -1] = Stamp()
    table = container(stamped)
    classifier = make_pipeline(FunctionTransformer(numbers_only), GaussianNB())
    hoarding.run(take_arrivals)
    engine = EstimatorDuels(classifier).fit(table, codes, N_CLASSES)
    arrivals = list(hoarding.run(take_arrivals).values())
    assert max(arrivals) == 1, arrivals
    engine.margins(table)
    arrivals = list(hoarding.run(take_arrivals).values())
    assert max(arrivals) == 1, arrivals


class Told(ClassifierMixin, BaseEstimator):
    """Does what it is told in the duel between the last two labels, by their first feature."""

    def __init__(self, what="nothing", file=None):
        self.what = what
        self.file = file

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.mean_ = X[:, 1:].mean(axis=0)
        self.backend_ = type(get_active_backend()[0]).__name__
        if X[:, 0].min() == N_CLASSES - 2:
            getattr(self, f"_{self.what}")()
        elif self.file is not None:
            Path(self.file).with_name(f"fitted-{os.getpid()}").touch()
        return self

    def decision_function(self, X):
        return X[:, 1:] @ self.mean_

    def _nothing(self):
        pass

    def _wait(self):
        wait_until(Path(self.file).exists)

    def _die_once(self):
        get_worker = pytest.importorskip("distributed").get_worker
        died = Path(self.file)
        if not died.exists():
            get_worker()  # raises an error in the test process, which must not die
            wait_until(lambda: len(list(died.parent.glob("fitted-*"))) == 2)
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def _fail(self):
        raise ValueError("I do not like these two.")

    def _fail_strangely(self):
        raise StrangeError(1, 2)

    def _fail_because_of_something_strange(self):
        raise ValueError("Not here.") from StrangeError(1, 2)

    def _keep_a_lock(self):
        self.lock_ = Lock()


def wait_until(condition):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("It did not happen before the last duel.")
        time.sleep(0.01)


class StrangeError(Exception):
    """An error that pickle cannot make anew."""

    def __init__(self, one, other):
        super().__init__("strange")


@pytest.fixture(scope="module")
def told_data(data):
    X, codes, _ = data
    return np.column_stack([codes, X]), codes


class FirstStep:
    """Callback that leaves a file when the first duel is done."""

    max_propagation_depth = None

    def __init__(self, file):
        self.file = file
        self.n_steps = 0

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "duel":
            self.n_steps += 1
            self.file.touch()

    def teardown(self, estimator, context):
        pass


def test_steps_are_seen_while_duels_are_fitted(told_data, dask, tmp_path, capfd):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    pytest.importorskip("joblib", minversion="1.4", reason="older ones tell results at the end")
    callback = FirstStep(tmp_path / "step")
    engine = EstimatorDuels(Told("wait", str(callback.file)), verbose=True)
    engine.set_callbacks(callback).fit(*told_data, N_CLASSES)
    assert callback.n_steps == N_DUELS
    assert "[EstimatorDuels] duel 10 of 10" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("fail", ValueError, "I do not like these two"),
        ("fail_strangely", RuntimeError, "StrangeError: strange"),
        ("fail_because_of_something_strange", RuntimeError, "ValueError: Not here"),
        ("keep_a_lock", TypeError, "A Told cannot be pickled"),
    ],
)
def test_one_clear_error_and_the_cluster_goes_on(told_data, dask, what, error, message):
    workers = set(dask.run(os.getpid).values())
    with pytest.raises(error, match=message) as caught:
        EstimatorDuels(Told(what)).fit(*told_data, N_CLASSES)
    assert caught.value.__notes__ == [
        "This happened in the duel between the labels number 3 and 4."
    ]
    X, codes = told_data
    with pytest.raises(error, match=message) as caught:
        DuelRanker(Told(what)).fit(X, np.array([*"abcde"])[codes])
    assert caught.value.__notes__ == ["This happened in the duel between the labels 'd' and 'e'."]
    engine = EstimatorDuels(Told()).fit(*told_data, N_CLASSES)
    assert len(engine.estimators_) == N_DUELS
    assert set(dask.run(os.getpid).values()) == workers


def test_one_clear_error_in_prediction(told_data, dask):
    X, codes = told_data
    engine = EstimatorDuels(Told()).fit(X, codes, N_CLASSES)
    for classifier in engine.estimators_:
        classifier.decision_function = _raise_strangely
    with pytest.raises(RuntimeError, match="StrangeError: strange"):
        engine.margins(X)


def _raise_strangely(X):
    raise StrangeError(1, 2)


def test_a_lost_worker_changes_nothing(told_data, hoarding, tmp_path):
    X, codes = told_data
    there = EstimatorDuels(Told("die_once", str(tmp_path / "died"))).fit(X, codes, N_CLASSES)
    assert (tmp_path / "died").exists()
    with parallel_config(backend="sequential"):
        assert_same_duels(EstimatorDuels(Told()).fit(X, codes, N_CLASSES), there, X)


def test_classifiers_send_no_jobs_of_their_own(told_data, dask):
    engine = EstimatorDuels(Told()).fit(*told_data, N_CLASSES)
    assert {classifier.backend_ for classifier in engine.estimators_} == {"ThreadingBackend"}


def test_search_over_rankers(data, client):
    X, codes, _ = data
    search = GridSearchCV(DuelRanker(GaussianNB(), random_state=0), {"ties": ["index"]}, cv=2)
    expected = search.fit(X, codes).cv_results_["mean_test_score"]
    with parallel_config(backend="dask"):
        assert search.fit(X, codes).cv_results_["mean_test_score"] == expected


class CountsThreads(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.full(len(X), float(blas_threads()))


def test_predictions_use_one_thread_of_blas_each(data):
    X, codes, _ = data
    with threadpool_limits(2, user_api="blas"):
        assert np.all(EstimatorDuels(CountsThreads()).fit(X, codes, N_CLASSES).margins(X) == 1)


@given(st.data(), st.booleans(), st.booleans())
def test_rows_of_duels(draw, ranked, weighted):
    n, n_classes = draw.draw(st.integers(1, 12)), draw.draw(st.integers(2, 5))
    rng = np.random.default_rng(draw.draw(st.integers(0, 2**32 - 1)))
    feedback = rng.integers(n_classes, size=(n, n_classes) if ranked else n)
    feedback = feedback.astype(float) if ranked else feedback
    weights = rng.integers(2, size=n).astype(float) if weighted else None
    duels = DuelRows(feedback, n_classes, weights)
    ranks = feedback if ranked else 1 - np.eye(n_classes)[feedback]  # the label is first
    share = np.ones(n) if weights is None else weights
    for a, b in zip(*pairs(n_classes), strict=True):
        won = np.sign(ranks[:, a] - ranks[:, b])
        seen = [side for side in (-1, 1) if share[won == side].sum() > 0]
        expected = np.flatnonzero(np.isin(won, seen))
        rows, second_won = duels.of(a, b)
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(second_won, won[expected] > 0)
