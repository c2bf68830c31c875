"""Messages of engines name labels where a ranker knows them, and codes where nobody does."""

import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, EstimatorDuels, LogisticDuels, LogisticDuelsCV, StackedDuels
from duelrank._label_names import label_names, named_labels

FLOWERS = np.array(["setosa", "versicolor", "virginica"])
ALL = "'setosa'-'versicolor', 'setosa'-'virginica', 'versicolor'-'virginica'"


def messages_of(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(w.message) for w in caught if w.category is ConvergenceWarning]


def test_duels_without_convergence_are_named_by_their_labels(iris):
    X, y = iris
    slow = LogisticDuels(max_iter=1)
    (alone,) = messages_of(lambda: slow.fit(X, y, 3))
    assert "max_iter=1 iterations, by the numbers of their labels: 0-1, 0-2, 1-2. Raise" in alone
    pipeline = make_pipeline(StandardScaler(), DuelRanker(slow, random_state=0))
    (told,) = messages_of(lambda: pipeline.fit(X, FLOWERS[y]))
    assert f"3 of 3 duels did not converge within max_iter=1 iterations: {ALL}. Raise" in told
    (numbers,) = messages_of(lambda: DuelRanker(slow, random_state=0).fit(X, 10 + 5 * y))
    assert "max_iter=1 iterations: 10-15, 10-20, 15-20. Raise" in numbers
    (after,) = messages_of(lambda: slow.fit(X, y, 3))
    assert after == alone


def test_models_on_folds_and_engines_of_a_stack_are_named_by_their_labels(iris):
    X, y = iris
    folds = LogisticDuelsCV([1.0], cv=2, max_iter=1)
    stack = StackedDuels([("linear", LogisticDuels(max_iter=1))], cv=2)
    for engine in (folds, stack):
        ranker = DuelRanker(engine, random_state=0)
        told = messages_of(partial(ranker.fit, X, FLOWERS[y]))
        assert len(told) > 1
        assert all("max_iter=1 iterations: 'setosa'-'versicolor'" in message for message in told)


class Fails(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("broken")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_failing_duel_is_named_by_its_labels(n_jobs, iris):
    X, y = iris
    with parallel_config(backend="threading"), pytest.raises(ValueError, match="broken") as failure:
        DuelRanker(Fails(), n_jobs=n_jobs).fit(X, FLOWERS[y])
    (told,) = failure.value.__notes__
    # With two jobs, either may fail first.
    second = "versicolor" if n_jobs == 1 else "(versicolor|virginica)"
    assert re.fullmatch(
        f"This happened in the duel between the labels 'setosa' and '{second}'.", told
    )
    with pytest.raises(ValueError, match="broken") as failure:
        EstimatorDuels(Fails()).fit(X, y, 3)
    assert failure.value.__notes__ == [
        "This happened in the duel between the labels number 0 and 1."
    ]


def test_rankers_inside_duels_name_the_two_sides(iris):
    """The outer labels are not those of the ranker inside."""
    X, y = iris
    inner = DuelRanker(LogisticDuels(max_iter=1), random_state=0)
    told = messages_of(lambda: DuelRanker(inner, random_state=0).fit(X, FLOWERS[y]))
    assert len(told) == 3
    assert all("iterations: 0-1. Raise" in message for message in told)


def test_names_are_known_inside_only_and_to_their_own_thread():
    assert label_names(3) is None
    with named_labels(FLOWERS):
        assert label_names(3) == FLOWERS.tolist()
        assert label_names(2) is None
        with named_labels(FLOWERS[:2]):
            assert label_names(2) == ["setosa", "versicolor"]
        assert label_names(3) == FLOWERS.tolist()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(label_names, 3).result() is None
    assert label_names(3) is None
