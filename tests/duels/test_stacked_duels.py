"""Stacks: their weights against direct optimisation, and rows that never predict themselves."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import (
    AnchoredDuels,
    DuelRanker,
    EstimatorDuels,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StackedDuels,
    StumpDuels,
    pairs,
)
from duelrank.duels import _stacked
from duelrank.feedback import feedback_from_codes, outcomes
from random_duels import feedback_of_every_kind

CHEAP = [("linear", LogisticDuels()), ("stumps", StumpDuels())]


class Told(BaseEstimator):
    """Engine whose held-out margins are given."""

    def __init__(self, held_out):
        self.held_out = held_out

    def fit(self, X, codes, n_classes, sample_weight=None):
        self.n_duels_ = len(pairs(n_classes)[0])
        return self

    def margins(self, X):
        return np.ones((len(X), self.n_duels_))

    def held_out_margins(self):
        return self.held_out


class Memory(BaseEstimator):
    """Engine that knows the outcomes of its own rows by heart, and nothing else."""

    def fit(self, X, codes, n_classes, sample_weight=None):
        ranks = feedback_from_codes(codes, n_classes) if codes.ndim == 1 else codes
        self.n_duels_ = len(pairs(n_classes)[0])
        self.known_ = dict(zip(map(tuple, X.tolist()), outcomes(ranks), strict=True))
        return self

    def margins(self, X):
        nothing = np.zeros(self.n_duels_)
        return 5.0 * np.array([self.known_.get(tuple(x), nothing) for x in X.tolist()])


class Recorder(BaseEstimator):
    """Engine that notes what it is fitted with, in a list that its clones share."""

    def __init__(self, fits, cv=None, random_state=None, n_jobs=None):
        self.fits = fits
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_clone__(self):
        return Recorder(self.fits, self.cv, self.random_state, self.n_jobs)

    def fit(self, X, codes, n_classes, sample_weight=None):
        self.fits.append((self, X, codes, sample_weight))
        self.n_duels_ = len(pairs(n_classes)[0])
        return self

    def margins(self, X):
        return np.zeros((len(X), self.n_duels_))


@pytest.fixture
def held_out(rng):
    """Outcomes of rankings, and log-odds of three engines: good, fair and overconfident."""
    ranks = feedback_of_every_kind(rng, rng.integers(4, size=300), 4)["lossy"]
    decided = outcomes(ranks)
    signal = np.where(decided == 0, rng.choice([-1, 1], decided.shape), decided)
    margins = [
        slope * (signal * shift + rng.normal(size=decided.shape))
        for slope, shift in ((1.0, 1.0), (0.5, 0.4), (2.0, 0.3))
    ]
    return ranks, margins


def objective(weights, margins, ranks, row_weights):
    """Return the log loss of outcomes, with the penalty of the weights."""
    decided = outcomes(ranks)
    mixed = sum(w * np.clip(m, -6, 6) for w, m in zip(weights, margins, strict=True))
    losses = np.where(decided != 0, np.logaddexp(0, -decided * mixed), 0).sum(axis=1)
    total = row_weights @ np.count_nonzero(decided, axis=1)
    return row_weights @ losses / total + 0.5e-3 * np.dot(weights, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_minimise_the_log_loss_of_held_out_outcomes(held_out, rng, weighted):
    ranks, margins = held_out
    row_weights = rng.integers(1, 5, size=300) * 0.7 if weighted else np.ones(300)
    margins = [*margins, -margins[0] + rng.normal(size=margins[0].shape)]  # wrong most of the time
    stack = StackedDuels([(f"engine {i}", Told(m)) for i, m in enumerate(margins)])
    stack.fit(np.zeros((300, 1)), ranks, 4, sample_weight=row_weights if weighted else None)
    found = np.array(list(stack.weights_.values()))
    direct = minimize(
        objective,
        np.ones(4),
        (margins, ranks, row_weights),
        method="SLSQP",
        bounds=[(0, None)] * 4,
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(found, direct.x, atol=2e-3)
    assert found[3] == 0
    assert objective(found, margins, ranks, row_weights) <= direct.fun + 1e-7


def test_weights_are_those_of_a_logistic_regression_if_none_is_negative(held_out):
    ranks, margins = held_out
    stack = StackedDuels([(f"engine {i}", Told(m)) for i, m in enumerate(margins)])
    stack.fit(np.zeros((300, 1)), ranks, 4)
    decided = outcomes(ranks)
    told = decided != 0
    inputs = np.stack([np.clip(m, -6, 6)[told] for m in margins], axis=1)
    theirs = LogisticRegression(C=1 / (1e-3 * told.sum()), fit_intercept=False, tol=1e-8)
    theirs.fit(inputs, decided[told])
    assert (theirs.coef_ > 0).all()
    np.testing.assert_allclose(list(stack.weights_.values()), theirs.coef_[0], atol=2e-3)


def test_log_odds_are_bounded(held_out):
    ranks, margins = held_out
    extreme = np.where(np.abs(margins[0]) > 2, 1e9 * margins[0], margins[0])
    bounded = np.where(np.abs(margins[0]) > 2, np.copysign(6, margins[0]), margins[0])
    one, same = (
        StackedDuels([("a", Told(m)), ("b", Told(margins[1]))]).fit(np.zeros((300, 1)), ranks, 4)
        for m in (extreme, bounded)
    )
    assert one.weights_ == same.weights_


def test_outcomes_that_an_engine_does_not_tell_are_left_out(held_out):
    ranks, margins = held_out
    partly = margins[1].copy()
    partly[::2] = np.nan
    X = np.zeros((300, 1))
    some = StackedDuels([("a", Told(margins[0])), ("b", Told(partly))]).fit(X, ranks, 4)
    half = StackedDuels([("a", Told(margins[0][1::2])), ("b", Told(partly[1::2]))])
    assert half.fit(X[1::2], ranks[1::2], 4).weights_ == some.weights_
    none = StackedDuels([("a", Told(margins[0])), ("b", Told(np.nan * partly))]).fit(X, ranks, 4)
    assert none.weights_ == {"a": 0.5, "b": 0.5}


def test_many_outcomes_are_drawn_from(held_out, monkeypatch):
    ranks, margins = held_out
    engines = [(f"engine {i}", Told(m)) for i, m in enumerate(margins)]
    X = np.zeros((300, 1))
    every = StackedDuels(engines, random_state=0).fit(X, ranks, 4).weights_
    monkeypatch.setattr(_stacked, "MOST_OUTCOMES", 400)
    some = StackedDuels(engines, random_state=0).fit(X, ranks, 4).weights_
    assert some == StackedDuels(engines, random_state=0).fit(X, ranks, 4).weights_
    assert some != every
    # Of 400 outcomes a weight has a standard error of about 1 / √(400 · 0.2 · var(margins)).
    errors = [1 / np.sqrt(400 * 0.2 * margins[i].var()) for i in range(3)]
    for name, error in zip(every, errors, strict=True):
        assert some[name] == pytest.approx(every[name], abs=4 * error)


def test_an_engine_of_random_margins_gets_no_weight(iris, rng):
    X, y = iris
    noise = rng.normal(size=(150, 3))
    stack = StackedDuels([*CHEAP, ("noise", Told(noise))], random_state=0).fit(X, y, 3)
    # Beside margins that explain almost everything, the information of an outcome about a weight
    # is small; as if nothing were known it would be 1/4, and the standard error 2 / √300.
    alone = StackedDuels([("coin", Told(np.zeros((150, 3)))), ("noise", Told(noise))]).fit(X, y, 3)
    assert alone.weights_["noise"] < 4 * 2 / np.sqrt(300)
    assert stack.weights_["noise"] < 0.2 * stack.weights_["linear"]


def test_a_row_never_predicts_itself(rng):
    X, codes = rng.normal(size=(90, 2)), rng.integers(3, size=90)
    codes[X[:, 0] > 0] = 0
    held_out = _stacked._held_out(
        Memory().fit(X, codes, 3), X, codes, 3, None, list(KFold(4).split(X))
    )
    assert (held_out == 0).all()
    stack = StackedDuels([("memory", Memory()), ("stumps", StumpDuels())], random_state=0)
    stack.fit(X, codes, 3)
    assert stack.weights_["memory"] == pytest.approx(0, abs=1e-3)
    assert stack.weights_["stumps"] > 0.5
    everything = stack.engines_["memory"].margins(X)  # but at last it learns from all rows
    np.testing.assert_array_equal(everything, 5 * outcomes(feedback_from_codes(codes, 3)))


def test_every_engine_is_fitted_on_all_rows_and_on_all_but_one_fold(iris):
    X, y = iris
    fits = []
    weights = np.arange(1.5, 151.0)  # no counts
    stack = StackedDuels([("it", Recorder(fits))], cv=3, n_jobs=2, random_state=0)
    stack.fit(X, y, 3, sample_weight=weights)
    assert [len(points) for _, points, _, _ in fits] == [150, 100, 100, 100]
    rows = {(*x, w) for x, w in zip(X, weights, strict=True)}
    held_out = []
    for engine, points, codes, given in fits:
        row = given.astype(int) - 1  # rows are numbered by weight
        np.testing.assert_array_equal(codes, y[row])
        np.testing.assert_array_equal(points, X[row])
        assert np.bincount(codes).tolist() in ([50] * 3, [33, 33, 34], [33, 34, 33], [34, 33, 33])
        held_out += sorted(rows - {(*x, w) for x, w in zip(points, given, strict=True)})
        assert isinstance(engine.random_state, int)
        assert (engine.n_jobs, engine.cv) == (2, None)
    assert sorted(held_out) == sorted(rows)
    fits.clear()
    StackedDuels([("it", Recorder(fits))], cv=3).fit(X, y, 3)
    assert all(given is None for *_, given in fits)


@pytest.mark.parametrize(
    "cv",
    [
        2,
        KFold(3),
        ShuffleSplit(4, random_state=0),
        [(list(range(100)), list(range(100, 150)))],
        None,
    ],
)
def test_folds_are_given_in_any_form(iris, cv):
    X, y = iris
    order = np.random.default_rng(0).permutation(150)
    fits = []
    StackedDuels([("it", Recorder(fits)), *CHEAP], cv=cv).fit(X[order], y[order], 3)
    n_folds = {int: lambda: cv, list: lambda: 1, type(None): lambda: 5}
    assert len(fits) == 1 + n_folds.get(type(cv), lambda: cv.get_n_splits())()


def test_labels_with_fewer_rows_than_folds(rng):
    X, codes = rng.normal(size=(40, 2)), np.repeat([0, 1, 2, 3], [18, 18, 3, 1])
    stack = StackedDuels(CHEAP, cv=5, random_state=0).fit(X, codes, 5)
    assert np.isfinite(stack.margins(X)).all()


def test_one_engine_alone_ranks_as_if_there_were_no_stack(iris):
    X, y = iris
    for engine in (LogisticDuels(), KernelDuels(30, random_state=1), StumpDuels()):
        alone = DuelRanker(engine, random_state=0).fit(X, y)
        stacked = DuelRanker(StackedDuels([("it", engine)]), random_state=0).fit(X, y)
        (weight,) = stacked.duels_.weights_.values()
        assert weight > 0
        np.testing.assert_array_equal(stacked.predict_ranks(X), alone.predict_ranks(X))
        np.testing.assert_allclose(
            stacked.duels_.margins(X), weight * np.clip(alone.duels_.margins(X), -6, 6)
        )


def test_margins_are_weighted_sums(iris):
    X, y = iris
    engines = [*CHEAP, ("scaled", make_pipeline(StandardScaler(), LogisticDuels(C=0.1)))]
    stack = StackedDuels(engines, random_state=0).fit(X, y, 3)
    assert list(stack.weights_) == list(stack.engines_) == ["linear", "stumps", "scaled"]
    parts = [stack.engines_[name].margins(X) for name in ("linear", "stumps")]
    scaler, last = stack.engines_["scaled"]
    parts.append(last.margins(scaler.transform(X)))
    expected = sum(
        w * np.clip(part, -6, 6) for w, part in zip(stack.weights_.values(), parts, strict=True)
    )
    margins, probabilities = stack.margins_and_probabilities(X)
    np.testing.assert_allclose(margins, expected)
    np.testing.assert_array_equal(margins, stack.margins(X))
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-margins)))
    np.testing.assert_array_equal(probabilities, stack.probabilities(X))


@pytest.mark.parametrize(
    "engine",
    [
        EstimatorDuels(GaussianNB()),
        make_pipeline(StandardScaler(), EstimatorDuels(GaussianNB())),
        make_pipeline(StandardScaler(), KernelDuels(20)),
        make_pipeline("passthrough", RBFSampler(n_components=20), LogisticDuels()),
        make_pipeline(LogisticDuels()),
        StackedDuels(CHEAP, cv=2),
        LogisticDuelsCV(3, cv=2),
    ],
    ids=lambda engine: type(engine).__name__,
)
@pytest.mark.parametrize("kind", ["labels", "full"])
def test_engines_and_pipelines_of_users(iris, rng, engine, kind):
    X, y = iris
    ranker = DuelRanker(StackedDuels([("it", engine), *CHEAP], cv=3), random_state=0)
    ranker.fit(X, feedback_of_every_kind(rng, y, 3)[kind])
    assert ranker.duels_.weights_["it"] >= 0
    assert (ranker.predict(X) == y).mean() > 0.8


@pytest.mark.parametrize("kind", ["labels", "full"])
def test_a_forest_per_duel_next_to_anchored_duels(rng, kind):
    """One coordinate tells labels apart by a line, the other one by intervals."""
    X = rng.uniform(-2, 2, size=(240, 2))
    codes = 2 * (X[:, 0] > 0) + (np.abs(X[:, 1]) > 1)
    feedback = feedback_of_every_kind(rng, codes, 4)[kind]
    forest = EstimatorDuels(RandomForestClassifier(10))
    engines = [("anchored", AnchoredDuels(C=1, C_own=1)), ("forest", forest)]
    one, other = (
        DuelRanker(StackedDuels(engines, cv=3), random_state=0).fit(X[:180], feedback[:180])
        for _ in range(2)
    )
    stack = one.duels_
    assert [type(duel) for duel in stack.engines_["forest"].estimators_] == [
        RandomForestClassifier
    ] * 6
    assert stack.weights_["anchored"] > 0
    assert stack.weights_["forest"] > 0
    expected = sum(
        stack.weights_[name] * np.clip(engine.margins(X), -6, 6)
        for name, engine in stack.engines_.items()
    )
    np.testing.assert_allclose(stack.margins(X), expected)
    np.testing.assert_array_equal(other.decision_function(X), one.decision_function(X))
    assert np.mean(one.predict(X[180:]) == codes[180:]) > 0.85


def test_the_default_engines(iris):
    X, y = iris
    stack = StackedDuels(random_state=0).fit(X, y, 3)
    assert list(stack.engines_) == ["linear", "squares", "kernel", "forest", "random splits"]
    assert (DuelRanker(StackedDuels(), random_state=0).fit(X, y).predict(X) == y).mean() > 0.95
    squares = stack.engines_["squares"]
    points = squares[0].transform(X)
    np.testing.assert_array_equal(squares[1].transform(points)[:, :4], points)
    np.testing.assert_allclose(
        squares[1].transform(points)[:, 4:], (np.clip(points, -4, 4) ** 2 - 1) / 2
    )
    splits = stack.engines_["linear"][-1].cv
    assert [len(test) for _, test in splits] == [30] * 5
    assert splits is squares[-1].cv
    assert len(set(stack.engines_["linear"][-1].C_)) == 1


def test_labels_are_rankings_of_one_label(iris):
    X, y = iris
    engines = [*CHEAP, ("forest", ForestDuels(5))]
    labels, ranks = (
        StackedDuels(engines, random_state=0).fit(X, feedback, 3).margins(X)
        for feedback in (y, feedback_from_codes(y, 3))
    )
    np.testing.assert_allclose(labels, ranks, rtol=1e-6)  # logistic duels group their rows
    ranker = DuelRanker(StackedDuels(engines), random_state=0)
    np.testing.assert_array_equal(
        ranker.fit(X, y).decision_function(X),
        ranker.fit(X, feedback_from_codes(y, 3)).decision_function(X),
    )


RANDOM = [
    ("forest", ForestDuels(5)),
    ("sampled", make_pipeline(RBFSampler(n_components=10), LogisticDuels())),
]


def test_the_same_seed_gives_the_same_stack(iris):
    X, y = iris
    engines = [*RANDOM, *CHEAP]
    one, same, other, first, second = (
        StackedDuels(engines, random_state=seed).fit(X, y, 3).margins(X)
        for seed in (0, 0, 1, None, None)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert (first != second).any()
    for name, engine in RANDOM:  # alone: each is seeded, and none is touched
        alone = [StackedDuels([(name, engine)], random_state=5).fit(X, y, 3) for _ in range(2)]
        np.testing.assert_array_equal(alone[0].margins(X), alone[1].margins(X))
        assert all(
            value is None for key, value in engine.get_params().items() if "random_state" in key
        )


def test_the_ranker_seeds_the_stack(iris):
    X, y = iris
    one, same = (
        DuelRanker(StackedDuels(RANDOM), random_state=0).fit(X, y).decision_function(X)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, same)


def test_one_number_weighs_all_rows(iris):
    X, y = iris
    plain = StackedDuels(CHEAP, random_state=0).fit(X, y, 3)
    weighted = StackedDuels(CHEAP, random_state=0).fit(X, y, 3, sample_weight=1.0)
    np.testing.assert_allclose(plain.margins(X), weighted.margins(X))


def test_stacks_are_cloned_and_pickled(iris):
    X, y = iris
    stack = StackedDuels([*CHEAP, *RANDOM], random_state=0).fit(X, y, 3)
    copied = clone(stack)
    assert [name for name, _ in copied.engines] == [name for name, _ in stack.engines]
    assert copied.engines[0][1] is not stack.engines[0][1]
    np.testing.assert_array_equal(copied.fit(X, y, 3).margins(X), stack.margins(X))
    again = pickle.loads(pickle.dumps(stack))
    np.testing.assert_array_equal(again.margins(X), stack.margins(X))
    with pytest.raises(NotFittedError):
        clone(stack).margins(X)


@pytest.mark.parametrize(
    "engines",
    [
        [],
        (),
        {},
        "linear",
        LogisticDuels(),
        [LogisticDuels()],
        [("linear", LogisticDuels()), StumpDuels()],
        [("linear", LogisticDuels(), 1.0)],
        [(1, LogisticDuels())],
        [("same", LogisticDuels()), ("same", StumpDuels())],
    ],
    ids=str,
)
def test_engines_need_names(iris, engines):
    with pytest.raises(ValueError, match=r"engines must be a list of \(name, engine\) tuples"):
        StackedDuels(engines).fit(*iris, n_classes=3)


@pytest.mark.parametrize(
    "engine", [GaussianNB(), LogisticDuels, None, make_pipeline(StandardScaler(), GaussianNB())]
)
def test_only_engines_fight(iris, engine):
    with pytest.raises(TypeError, match="engines must hold duel engines; 'it' is"):
        StackedDuels([*CHEAP, ("it", engine)]).fit(*iris, n_classes=3)


def test_settled_engines_keep_what_was_found(iris):
    X, y = iris
    shared = LogisticDuelsCV(
        [0.01, 1, 100], cv=3, shared_C=True, fit_intercept=False, tol=1e-6, class_weight="balanced"
    )
    with pytest.raises(NotFittedError):
        shared.settled()
    settled = shared.fit(X, y, 3).settled()
    assert type(settled) is LogisticDuels
    assert not hasattr(settled, "coef_")
    assert pytest.approx(shared.C_[0]) == settled.C
    assert (settled.fit_intercept, settled.tol, settled.class_weight) == (False, 1e-6, "balanced")
    np.testing.assert_allclose(settled.fit(X, y, 3).margins(X), shared.margins(X), rtol=1e-2)
    own = LogisticDuelsCV([0.01, 1, 100], cv=3).fit(X, y, 3)
    assert len(set(own.C_)) > 1
    assert pytest.approx(np.prod(own.C_) ** (1 / 3)) == own.settled().C


def test_rows_without_weight_are_as_good_as_left_out(rng):
    X = rng.normal(size=(60, 2))
    ranks = np.argsort(rng.normal(size=(60, 3)) + X[:, [0, 1, 0]], axis=1) + 1.0
    far = np.vstack([X, [[1e6, -1e6]]])
    weights = np.append(np.ones(60), 0)
    folds = [(np.setdiff1d(np.arange(60), part), part) for part in np.split(np.arange(60), 3)]
    engines = [("linear", make_pipeline(StandardScaler(), LogisticDuels()))]
    apart = StackedDuels(engines, cv=folds, random_state=0).fit(X, ranks, 3)
    together = StackedDuels(engines, cv=folds, random_state=0).fit(
        far, np.vstack([ranks, [3, 2, 1]]), 3, sample_weight=weights
    )
    np.testing.assert_allclose(together.margins(X), apart.margins(X))


def test_parameters_of_engines_have_names():
    stack = StackedDuels([("linear", LogisticDuels()), ("forest", ForestDuels())])
    stack.set_params(forest__n_estimators=7, linear__C=0.1)
    assert stack.get_params()["linear__C"] == 0.1
    assert clone(stack).engines[1][1].n_estimators == 7


def test_class_weights_inside_a_stack_are_by_label(rng):
    X = rng.normal(size=(90, 2))
    y = np.array(list("abc"))[np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(90, 3)), 1)]
    weights = {"a": 1000.0}
    stack = StackedDuels([("linear", LogisticDuels(class_weight=weights))])
    by_stack = DuelRanker(stack, random_state=0).fit(X, y)
    alone = DuelRanker(LogisticDuels(class_weight=weights), random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_stack.predict_ranks(X), alone.predict_ranks(X))
    with pytest.raises(ValueError, match=r"\['zzz'\] are not among"):
        DuelRanker(stack.set_params(linear__class_weight={"zzz": 3})).fit(X, y)


def test_few_rows_have_few_folds():
    X = np.arange(4.0)[:, np.newaxis]
    stack = StackedDuels([("linear", LogisticDuels())], cv=np.int64(5)).fit(X, [0, 1, 0, 1], 2)
    assert stack.margins(X).shape == (4, 1)
    with pytest.raises(ValueError, match=r"^cv must leave two folds, got cv=5 and 1 rows\.$"):
        StackedDuels().fit(X[:1], [0], 2)
