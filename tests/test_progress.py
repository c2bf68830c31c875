import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import (
    AnchoredDuels,
    DuelRanker,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    StackedDuels,
    StumpDuels,
)
from duelrank._progress import Progress, listening

STACK = StackedDuels([("linear", LogisticDuels()), ("stumps", StumpDuels())], cv=2)


@pytest.mark.parametrize(
    "engine", [GaussianNB(), StumpDuels(), ForestDuels(3), KernelDuels(9), STACK, AnchoredDuels()]
)
def test_silent_by_default(iris, capfd, engine):
    DuelRanker(engine).fit(*iris)
    assert capfd.readouterr() == ("", "")


def test_verbose_writes_to_standard_error(iris, capfd):
    DuelRanker(GaussianNB(), verbose=True).fit(*iris)
    out, err = capfd.readouterr()
    assert out == ""
    assert "[EstimatorDuels] duel 3 of 3" in err
    DuelRanker(StumpDuels(), verbose=True).fit(*iris)
    assert "[StumpDuels] feature 4 of 4" in capfd.readouterr().err
    DuelRanker(STACK, verbose=True).fit(*iris)
    assert "[StackedDuels] engine 2 of 2" in capfd.readouterr().err


class Tasks:
    """Callback that counts tasks, and travels from a meta-estimator to the ones inside."""

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


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_callbacks_hear_of_every_duel(iris, n_jobs):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    tasks = Tasks()
    ranker = DuelRanker(LogisticRegression(max_iter=500), n_jobs=n_jobs)
    ranker.set_callbacks(tasks).fit(*iris)
    assert tasks.ended.count(("EstimatorDuels", "duel")) == 3
    assert tasks.ended[0] == "setup"
    assert tasks.ended[-1] == "teardown"
    tasks.ended.clear()
    DuelRanker(StumpDuels()).set_callbacks(tasks).fit(*iris)
    assert tasks.ended.count(("StumpDuels", "feature")) == 4


@pytest.mark.parametrize(
    ("engine", "task", "times"),
    [(ForestDuels(3), "forest", 1), (KernelDuels(9), "kernel", 5), (STACK, "engine", 2)],
)
def test_callbacks_hear_of_engines_that_fit_all_duels_at_once(iris, engine, task, times):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    tasks = Tasks()
    ranker = DuelRanker(engine, random_state=0).set_callbacks(tasks).fit(*iris)
    name = type(engine).__name__
    assert tasks.ended.count((name, task)) == times
    assert tasks.ended.count((name, "fit")) == 1
    assert (tasks.ended[0], tasks.ended[-1]) == ("setup", "teardown")
    silent = DuelRanker(engine, random_state=0).fit(*iris)
    assert (ranker.decision_function(iris[0]) == silent.decision_function(iris[0])).all()


def test_callbacks_hear_of_the_fit_of_any_engine(iris):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")

    class Foreign(BaseEstimator):
        def fit(self, X, codes, n_classes, sample_weight=None):
            return self

        def margins(self, X):
            return X[:, :3]

    tasks = Tasks()
    DuelRanker(Foreign()).set_callbacks(tasks).fit(*iris)
    assert tasks.ended[0] == "setup"
    assert ("DuelRanker", "duels") in tasks.ended
    assert tasks.ended[-1] == "teardown"


def test_callbacks_are_torn_down_after_an_error(iris):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    tasks = Tasks()
    X, y = iris
    with pytest.raises(ValueError, match="NaN"):
        DuelRanker(GaussianNB()).set_callbacks(tasks).fit(X * float("nan"), y)
    assert tasks.ended[-1] == "teardown"


@pytest.mark.parametrize(
    "engine", [StumpDuels(), ForestDuels(3), KernelDuels(9), STACK, AnchoredDuels()]
)
def test_progress_bar_of_scikit_learn(iris, capfd, engine):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    pytest.importorskip("rich")
    bar = callback.ProgressBar(max_propagation_depth=2)
    make_pipeline(StandardScaler(), DuelRanker(engine)).set_callbacks(bar).fit(*iris)
    assert type(engine).__name__ in capfd.readouterr().out


def test_whoever_listens_hears_the_share_that_is_done():
    shares = []

    class Step(BaseEstimator):
        pass

    with listening(shares.append), Progress(Step(), 2, "outer", verbose=False) as outer:
        with Progress(Step(), 4, "inner", verbose=False) as inner:
            inner.step()
            inner.step()
        outer.step()
        with Progress(Step(), 1, "inner", verbose=False) as inner:
            inner.step()
        outer.step()
    assert shares == [0, 0, 0.125, 0.25, 0.5, 0.5, 1, 1]
    with Progress(Step(), 1, "unheard", verbose=False) as alone:
        alone.step()
    assert len(shares) == 8
