import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsOneClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from duelrank import (
    AnchoredDuels,
    DuelRanker,
    EstimatorDuels,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    StackedDuels,
    StumpDuels,
    pairs,
)
from duelrank.feedback import as_ranks
from duelrank.tournaments import duel_losses

STACK = StackedDuels([("kernel", KernelDuels(20)), ("linear", LogisticDuels())], cv=2)


class Recorder(ClassifierMixin, BaseEstimator):
    """Classifier that remembers what its fit was given."""

    def fit(self, X, y, sample_weight=None, group=None):
        self.X_, self.y_, self.sample_weight_, self.group_ = X, y, sample_weight, group
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(X.shape[0], dtype=int)


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(max_iter=500),
        make_pipeline(StandardScaler(), LogisticRegression()),
        SVC(),
        LinearSVC(random_state=0, max_iter=5000),
        GaussianNB(),
        KNeighborsClassifier(3),
    ],
    ids=lambda c: type(c).__name__,
)
def test_duels_and_votes_equal_one_vs_one(digits, classifier):
    X, y = digits[0][:600] / 16, digits[1][:600]
    theirs = OneVsOneClassifier(classifier).fit(X, y)
    ranker = DuelRanker(classifier, random_state=0).fit(X, y)
    tournament = ranker.tournament(X[:200])
    first, second = pairs(10)
    for duel, estimator in enumerate(theirs.estimators_):
        np.testing.assert_array_equal(
            tournament.beats[:, second[duel], first[duel]], estimator.predict(X[:200]) == 1
        )
    votes = np.round(theirs.decision_function(X[:200]))
    np.testing.assert_array_equal(9 - duel_losses(tournament.beats), votes)


@pytest.mark.parametrize(
    "classifier",
    [
        DecisionTreeClassifier(max_depth=4),
        RandomForestClassifier(10),
        HistGradientBoostingClassifier(max_iter=5, early_stopping=False),
        SVC(),
        Perceptron(),
    ],
    ids=lambda c: type(c).__name__,
)
def test_margins_agree_with_predictions_of_any_classifier(iris, classifier):
    X, y = iris
    duels = EstimatorDuels(classifier, random_state=0).fit(X, y, n_classes=3)
    margins = duels.margins(X)
    for duel, estimator in enumerate(duels.estimators_):
        decided = margins[:, duel] != 0
        np.testing.assert_array_equal(
            margins[decided, duel] > 0, estimator.predict(X[decided]) == 1
        )


def test_margins_by_predictions_alone(iris):
    X, y = iris
    duels = EstimatorDuels(Recorder()).fit(X, y, n_classes=3)
    assert (duels.margins(X) == -0.5).all()
    assert not hasattr(duels, "probabilities")


def test_probabilities_are_those_of_the_second_label(iris):
    X, y = iris
    duels = EstimatorDuels(GaussianNB()).fit(X, y, n_classes=3)
    for duel, estimator in enumerate(duels.estimators_):
        np.testing.assert_array_equal(
            duels.probabilities(X)[:, duel], estimator.predict_proba(X)[:, 1]
        )


def test_each_duel_sees_its_own_rows_and_weights(iris):
    X, y = iris
    weights = np.arange(150.0) + 1
    duels = EstimatorDuels(Recorder()).fit(X, y, n_classes=3, sample_weight=weights)
    for estimator, first, second in zip(duels.estimators_, *pairs(3), strict=True):
        rows = np.flatnonzero((y == first) | (y == second))
        np.testing.assert_array_equal(estimator.X_, X[rows])
        np.testing.assert_array_equal(estimator.y_, y[rows] == second)
        np.testing.assert_array_equal(estimator.sample_weight_, weights[rows])


def test_metadata_is_routed_and_sliced(iris):
    X, y = iris
    group = np.arange(150)
    with config_context(enable_metadata_routing=True):
        inner = Recorder().set_fit_request(group=True, sample_weight=False)
        ranker = DuelRanker(inner).fit(X, y, group=group)
        for estimator, first, second in zip(ranker.duels_.estimators_, *pairs(3), strict=True):
            rows = np.flatnonzero((y == first) | (y == second))
            np.testing.assert_array_equal(estimator.group_, group[rows])
            assert estimator.sample_weight_ is None
        weighted = Recorder().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler(), DuelRanker(EstimatorDuels(weighted)))
        pipeline[0].set_fit_request(sample_weight=False)
        pipeline.fit(X, y, sample_weight=group + 1.0)
        assert pipeline[-1].duels_.estimators_[0].sample_weight_[0] == 1
        # Engines that take weights want them without being asked for.
        for ranker in (DuelRanker(), DuelRanker(StumpDuels())):
            ranker.fit(X, y, sample_weight=group + 1.0)
        scored = DuelRanker(GaussianNB()).set_score_request(sample_weight=True).fit(X, y)
        assert make_pipeline(scored).score(X, y, sample_weight=group + 1.0) > 0.9
        with pytest.raises(TypeError, match="unexpected argument"):
            DuelRanker(GaussianNB()).fit(X, y, colour=group)
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        DuelRanker(Recorder()).fit(X, y, group=group)


def test_sample_weights_reach_the_last_step_of_a_pipeline(iris):
    X, y = iris
    weights = (np.arange(150) % 3).astype(float)
    piped = DuelRanker(make_pipeline(StandardScaler(with_std=False, with_mean=False), GaussianNB()))
    plain = DuelRanker(GaussianNB())
    np.testing.assert_allclose(
        piped.fit(X, y, sample_weight=weights).duels_.margins(X),
        plain.fit(X, y, sample_weight=weights).duels_.margins(X),
    )
    with pytest.raises(ValueError, match="KNeighborsClassifier does not support sample weights"):
        DuelRanker(KNeighborsClassifier()).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("to_sparse", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_input_stays_sparse(iris, to_sparse):
    X, y = iris
    duels = EstimatorDuels(Recorder()).fit(to_sparse(X), y, n_classes=3)
    assert all(sparse.issparse(estimator.X_) for estimator in duels.estimators_)
    model = LogisticRegression(max_iter=500)
    dense = DuelRanker(model).fit(X, y).decision_function(X)
    np.testing.assert_allclose(
        DuelRanker(model).fit(to_sparse(X), y).decision_function(to_sparse(X)), dense, atol=1e-3
    )


def test_precomputed_kernels(iris):
    X, y = iris
    kernel = rbf_kernel(X)
    theirs = DuelRanker(SVC(kernel="rbf", gamma=1 / 4), random_state=0).fit(X, y)
    ours = DuelRanker(SVC(kernel="precomputed"), random_state=0).fit(kernel, y)
    np.testing.assert_allclose(ours.duels_.margins(kernel), theirs.duels_.margins(X), atol=1e-6)


@pytest.mark.parametrize("backend", ["threading", "multiprocessing", "loky"])
def test_any_backend_of_joblib_gives_the_same_bytes(backend):
    """Also where jobs get fewer BLAS threads: the products here are large enough to be split."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 200)), rng.integers(3, size=3000)
    model = LogisticRegression(max_iter=20, tol=1e-2)
    alone = EstimatorDuels(model).fit(X, y, 3).margins(X)
    with parallel_config(backend=backend, n_jobs=2):
        together = EstimatorDuels(model).fit(X, y, 3).margins(X)
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("n_jobs", [-1, 2])
def test_the_same_seed_gives_the_same_duels_whatever_the_jobs(iris, n_jobs):
    X, y = iris
    reference = DuelRanker(RandomForestClassifier(5), random_state=3).fit(X, y)
    again = DuelRanker(RandomForestClassifier(5), random_state=3, n_jobs=n_jobs).fit(X, y)
    np.testing.assert_array_equal(reference.duels_.margins(X), again.duels_.margins(X))
    other = DuelRanker(RandomForestClassifier(5), random_state=4).fit(X, y)
    assert (reference.duels_.margins(X) != other.duels_.margins(X)).any()
    seeds = {estimator.random_state for estimator in reference.duels_.estimators_}
    assert len(seeds) == 3


def test_kernels_in_a_dataframe(iris):
    X, y = iris
    kernel = rbf_kernel(X)
    ranker = DuelRanker(SVC(kernel="precomputed"), random_state=0)
    np.testing.assert_array_equal(
        ranker.fit(pd.DataFrame(kernel), y).predict_ranks(pd.DataFrame(kernel)),
        ranker.fit(kernel, y).predict_ranks(kernel),
    )


def test_chosen_thresholds_are_respected(iris):
    X, y = iris
    model = FixedThresholdClassifier(GaussianNB(), threshold=0.99)
    duels = EstimatorDuels(model).fit(X, y, 3)
    for margins in (duels.margins(X), duels.margins_and_probabilities(X)[0]):
        for d, estimator in enumerate(duels.estimators_):
            np.testing.assert_array_equal(margins[:, d] > 0, estimator.predict(X) == 1)


def test_probabilities_are_predicted_once(iris):
    class Counts(GaussianNB):
        calls = 0

        def predict_proba(self, X):
            Counts.calls += 1
            return super().predict_proba(X)

    X, y = iris
    ranker = DuelRanker(Counts(), random_state=0).fit(X, y)
    Counts.calls = 0
    ranker.predict(X)
    assert Counts.calls == 3


@pytest.mark.parametrize(
    "engine", [EstimatorDuels(GaussianNB()), StumpDuels(), ForestDuels(5), KernelDuels(), STACK]
)
def test_one_sided_and_empty_duels(engine):
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    codes = np.array([0, 0, 2, 2])  # nobody has seen 1 and 3
    engine.fit(X, codes, n_classes=4)
    margins = engine.margins(X)
    outcome = {pair: margins[:, d] for d, pair in enumerate(zip(*pairs(4), strict=True))}
    assert (outcome[0, 1] < 0).all()
    assert (outcome[0, 3] < 0).all()
    assert (outcome[1, 2] > 0).all()
    assert (outcome[2, 3] < 0).all()
    assert (outcome[1, 3] == 0).all()
    probabilities = engine.probabilities(X)
    assert (probabilities[:, 4] == 0.5).all()
    assert (probabilities[:, 0] < 0.5).all()


@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), StumpDuels(), ForestDuels(5), KernelDuels(20), STACK, AnchoredDuels()],
)
def test_labels_without_weight_lose_their_duels(iris, estimator):
    X, y = iris
    ranker = DuelRanker(estimator, random_state=0).fit(X, y, sample_weight=(y != 1) * 1.0)
    assert (ranker.predict_ranks(X)[:, 1] == 3).all()


def stump_error_by_brute_force(X, second, weights):
    best = min(weights[second].sum(), weights[~second].sum())
    for column in X.T:
        for threshold in column:
            wrong = weights[(column > threshold) != second].sum()
            best = min(best, wrong, weights.sum() - wrong)
    return best / weights.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rounded", [False, True])
def test_stumps_reach_the_least_training_error(rng, weighted, rounded):
    for n_rows in (4, 15, 60):
        X = rng.normal(size=(n_rows, 3))
        X = np.round(X) if rounded else X  # many equal values
        codes = rng.integers(4, size=n_rows)
        weights = rng.integers(0, 4, size=n_rows) + 0.0 if weighted else np.ones(n_rows)
        weights[0] = 1
        duels = StumpDuels().fit(X, codes, 4, sample_weight=weights)
        margins = duels.margins(X)
        for duel, (a, b) in enumerate(zip(*pairs(4), strict=True)):
            rows = np.flatnonzero(((codes == a) | (codes == b)) & (weights > 0))
            if len(rows) == 0:
                continue
            second = codes[rows] == b
            best = stump_error_by_brute_force(X[rows], second, weights[rows])
            assert duels.training_error_[duel] == pytest.approx(best)
            if duels.sign_[duel] != 0:
                wrong = (margins[rows, duel] > 0) != second
                assert np.average(wrong, weights=weights[rows]) == pytest.approx(best)


@pytest.mark.parametrize("batch_bytes", [1, 2**24])
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 40), st.integers(1, 12))
def test_stumps_of_labels_are_those_of_rankings(batch_bytes, seed, n_classes, n_rows, n_values):
    """Labels are counted together, rankings duel by duel."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_values, size=(n_rows, 2)).astype(float)
    codes = rng.integers(0, n_classes, size=n_rows)
    weights = rng.integers(0, 3, size=n_rows)
    weights[0] = 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duelrank.duels._stump.BATCH_BYTES", batch_bytes)
        together = StumpDuels().fit(X, codes, n_classes, sample_weight=weights)
    apart = StumpDuels().fit(X, as_ranks(codes, n_classes), n_classes, sample_weight=weights)
    for name in ("feature_", "threshold_", "sign_", "training_error_", "leaf_probabilities_"):
        np.testing.assert_array_equal(getattr(together, name), getattr(apart, name))


def test_stumps_cut_half_way_between_their_own_rows():
    X = np.array([[0.0], [1.0], [0.4], [0.6]])
    duels = StumpDuels().fit(X, np.array([0, 1, 2, 2]), n_classes=3)
    assert duels.threshold_[0] == 0.5
    assert duels.threshold_[1] == 0.2


def test_stumps_between_neighbouring_floats():
    low = 1.0
    X = np.array([[low], [np.nextafter(low, 2)]])
    duels = StumpDuels().fit(X, np.array([0, 1]), n_classes=2)
    np.testing.assert_array_equal(duels.margins(X), [[-1], [1]])


def test_stump_that_knows_nothing_is_a_coin():
    duels = StumpDuels().fit(np.ones((4, 2)), np.array([0, 0, 1, 1]), n_classes=2)
    np.testing.assert_array_equal(duels.margins([[0.0, 5.0]]), [[0]])
    np.testing.assert_array_equal(duels.probabilities([[0.0, 5.0]]), [[0.5]])


def test_fractional_weights_tie_like_whole_ones(rng):
    X, codes = np.ones((6, 1)), np.array([0, 0, 0, 1, 1, 1])
    duels = StumpDuels().fit(X, codes, 2, sample_weight=[0.1, 0.2, 0.3, 0.3, 0.2, 0.1])
    assert duels.sign_[0] == 0
    for _ in range(50):
        X, codes = rng.integers(4, size=(12, 2)) + 0.0, rng.integers(2, size=12)
        weights = rng.integers(1, 4, size=12)
        whole = StumpDuels().fit(X, codes, 2, sample_weight=weights)
        tenths = StumpDuels().fit(X, codes, 2, sample_weight=weights / 10)
        np.testing.assert_array_equal(whole.margins(X), tenths.margins(X))


def test_stumps_agree_with_their_probabilities(digits):
    X, y = digits
    duels = StumpDuels().fit(X, y, n_classes=10)
    assert ((duels.probabilities(X) - 0.5) * duels.margins(X) >= 0).all()


def test_feature_names_reach_the_classifiers(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    duels = EstimatorDuels(LogisticRegression(max_iter=500)).fit(frame, y, n_classes=3)
    assert duels.feature_names_in_.tolist() == list("abcd")
    assert duels.estimators_[0].feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize(
    "engine",
    [
        EstimatorDuels(GaussianNB()),
        StumpDuels(),
        ForestDuels(5),
        KernelDuels(),
        STACK,
        AnchoredDuels(),
    ],
)
@pytest.mark.parametrize(
    ("codes", "n_classes", "message"),
    [
        ([0, 1, 2], 2, "between 0 and 1, got values from 0 to 2"),
        ([0.0, 1.0, 1.0], 2, "vector of integers"),
        ([0, 0, 0], 1, "n_classes must be at least 2"),
        ([0, 1], 2, "inconsistent numbers of samples"),
    ],
)
def test_bad_codes(engine, codes, n_classes, message):
    with pytest.raises(ValueError, match=message):
        engine.fit(np.eye(3), codes, n_classes)


def test_a_failing_duel_is_named(iris):
    class Fails(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("broken")

    X, y = iris
    with pytest.raises(ValueError, match="broken") as failure:
        EstimatorDuels(Fails()).fit(X, y, n_classes=3)
    assert failure.value.__notes__ == [
        "This happened in the duel between the labels number 0 and 1."
    ]


def test_only_classifiers_fight():
    with pytest.raises(TypeError, match="estimator must be a scikit-learn classifier"):
        EstimatorDuels(LinearRegression()).fit(np.eye(2), [0, 1], n_classes=2)
