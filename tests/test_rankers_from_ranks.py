"""Rankers fitted from ranks: bad feedback, silent rows, names of labels, model selection."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import (
    AnchoredDuels,
    DuelRanker,
    EstimatorDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StumpDuels,
    predict_order,
    predict_ranks,
)
from duelrank.feedback import reveals_nothing
from duelrank.losses import kendall_tau, partial_kendall_tau
from duelrank.posteriors import sample_plackett_luce
from duelrank.scoring import kendall_tau_scorer, top_k_scorer

N, D, K = 240, 4, 5
ENGINES = [
    LogisticDuels(),
    LogisticDuelsCV(Cs=[0.1, 1], cv=3),
    AnchoredDuels(tol=1e-6),
    EstimatorDuels(GaussianNB()),
    StumpDuels(),
]
by_type = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).normal(size=(N, D))


@pytest.fixture(scope="module")
def ranks(points):
    weights = np.exp(points @ np.random.default_rng(1).normal(size=(D, K)))
    return sample_plackett_luce(weights, random_state=0) + 0.0


@pytest.fixture(scope="module")
def missing(ranks):
    """Rankings with labels missing at random; some rows say nothing."""
    return np.where(np.random.default_rng(2).random((N, K)) < 0.4, np.nan, ranks)


@by_type
def test_silent_rows_are_allowed_counted_and_reported(engine, points, ranks):
    silent = np.arange(N) % 3 == 0
    with_silent = np.where(silent[:, np.newaxis], 1, ranks)
    with_silent[3] = np.nan
    weights = np.linspace(0.5, 1.5, N)
    says = np.flatnonzero(~silent)
    ranker = DuelRanker(clone(engine), random_state=0, unplaced="unknown")
    alone = DuelRanker(clone(engine), random_state=0)
    if isinstance(engine, LogisticDuelsCV):  # the same folds for both
        ranker.set_params(estimator__cv=[(says[::2], says[1::2]), (says[1::2], says[::2])])
        own = np.arange(len(says))
        alone.set_params(estimator__cv=[(own[::2], own[1::2]), (own[1::2], own[::2])])
    message = r"^80 of 240 rows of y place no label ahead of another and say nothing\.$"
    with pytest.warns(UserWarning, match=message) as caught:
        ranker.fit(points, with_silent, sample_weight=weights)
    assert caught[0].filename == __file__
    alone.fit(points[says], ranks[says], sample_weight=weights[says])
    assert (ranker.n_silent_rows_, alone.n_silent_rows_) == (80, 0)
    margins = alone.duels_.margins(points)
    np.testing.assert_allclose(ranker.duels_.margins(points), margins, atol=1e-3)


@by_type
@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ([1, 1, 2, 3, 4], {}, r"^y must hold whole places, different ones unless labels are tied"),
        ([0, 1, 2, 3, 4], {}, r"^y must hold places from 1 to 5, .* but row 7 is \["),
        ([1, 2, 3, 4, 6], {}, r"^y must hold places from 1 to 5, .* but row 7 is \["),
        ([1, 2, 3, 4, np.inf], {}, r"^y must hold places from 1 to 5"),
        ([1, 2, 3, 4, 4.5], {}, r"^y must hold whole places, .* but row 7 is \["),
        ([1, 2, 3, 4, 5], {"unplaced": "last"}, r"^unplaced must be one of 'auto', .* got 'last'"),
    ],
)
def test_bad_feedback_leaves_nothing_half_fitted(engine, row, options, message, points, ranks):
    bad = ranks.copy()
    bad[7] = row
    ranker = DuelRanker(engine, random_state=0, **options)
    with pytest.raises(ValueError, match=message):
        ranker.fit(points, bad)
    with pytest.raises(NotFittedError):
        ranker.predict_ranks(points)
    assert not [name for name in vars(ranker) if name.endswith("_")]
    ranker.set_params(unplaced="auto").fit(points, ranks)
    before = ranker.predict_ranks(points)
    with pytest.raises(ValueError, match=message):
        ranker.set_params(**options).fit(points[:, :2], bad[:, ::-1])
    np.testing.assert_array_equal(ranker.predict_ranks(points), before)


def test_other_bad_feedback(points, ranks):
    repeated = pd.DataFrame(ranks, columns=list("abcda"))
    of_two_types = pd.DataFrame(ranks, columns=["b", 1, "a", 0, 2])
    for y, message in (
        (np.ones((N, K)), r"^y must place one label ahead .* at least one row; no row does\.$"),
        (np.full((N, K), np.nan), r"^y must place one label ahead of another in at least one row"),
        (np.where(ranks == 3, 3, np.nan), r"no row does, labels without a place being anywhere\.$"),
        (np.full((N, K), "a"), r"^y must hold ranks, which are numbers; lists of labels become"),
        (pd.Series([["a"], ["b", "a"]] * (N // 2)), r"^y holds lists; turn lists of labels into"),
        ([["a", "b"]] * N, r"^y holds lists; turn lists of labels into ranks first"),
        ([["a"], ["b", "a"]] * (N // 2), r"^y holds lists; turn lists of labels into ranks first"),
        ((ranks > 2).astype(int), r"^y must hold places from 1 to 5"),
        ([[1, 2, 3]] * (N - 1) + [[1, 2]], r"^y holds lists; turn lists of labels into ranks"),
        (ranks[1:], r"inconsistent numbers of samples: \[240, 239\]"),
        (repeated, r"^the columns of y must name .* each once; got \['a', 'b', 'c', 'd', 'a'\]\.$"),
        (
            of_two_types,
            r"^the columns of y must name labels of one type, got \['b', 1, 'a'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            DuelRanker().fit(points, y)
    for classes, message in (
        (range(4), r"^y must have one column per label: 4, got 5\.$"),
        (list("abcda"), r"^classes must name at least two labels, each once"),
        (5, r"^classes must be a list of labels, got 5\.$"),
        ("abcde", r"^classes must be a list of labels, got 'abcde'\.$"),
        ([*"abcd", None], r"^classes must not hold None or NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            DuelRanker(classes=classes).fit(points, ranks)
    for engine in ENGINES:
        with pytest.raises(ValueError, match=r"one column per label if they are ranks: 4, got"):
            clone(engine).fit(points, ranks, 4)


@by_type
def test_all_that_says_something_may_weigh_nothing(engine, points, ranks):
    silent = np.arange(N) < N // 2
    ranker = DuelRanker(engine, random_state=0)
    with pytest.warns(UserWarning, match="120 of 240 rows"):
        ranker.fit(points, np.where(silent[:, np.newaxis], 1, ranks), sample_weight=silent)
    assert (ranker.duels_.margins(points) == 0).all()
    order = ranker.predict_order(points)
    np.testing.assert_array_equal(order, np.tile(ranker.label_order_, (N, 1)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("form", ["ranks", "missing"])
def test_columns_name_and_sort_the_labels(library, form, request, points):
    frames = pytest.importorskip(library)
    y = request.getfixturevalue(form)
    X, y = points[~reveals_nothing(y)], y[~reveals_nothing(y)]
    names = ["d", "a", "e", "c", "b"]
    frame = frames.DataFrame(dict(zip(names, y.T, strict=True)))
    ranker = DuelRanker(LogisticDuels(class_weight={"e": 3.0}), random_state=0).fit(X, frame)
    assert ranker.classes_.tolist() == sorted(names)
    in_order = y[:, np.argsort(names)]
    plain = DuelRanker(LogisticDuels(class_weight={4: 3.0}), random_state=0).fit(X, in_order)
    np.testing.assert_array_equal(ranker.predict_ranks(X), plain.predict_ranks(X))
    np.testing.assert_array_equal(ranker.predict_order(X), ranker.classes_[plain.predict_order(X)])
    np.testing.assert_array_equal(ranker.predict_top(X, 2), ranker.predict_order(X)[:, :2])
    np.testing.assert_array_equal(ranker.predict(X), ranker.predict_order(X)[:, 0])
    assert ranker.score(X, frame) == plain.score(X, in_order) > 0.3


def test_classes_name_the_columns_of_arrays(points, ranks):
    """In any order, in fit and in scores; where a dataframe has names too, these go first."""
    names = ["d", "a", "e", "c", "b"]
    frame = pd.DataFrame(ranks, columns=names)
    expected = DuelRanker(random_state=0).fit(points, frame)
    for classes, y in ((names, ranks), (names, frame), (sorted(names), frame)):
        ranker = DuelRanker(random_state=0, classes=classes).fit(points, y)
        np.testing.assert_array_equal(ranker.classes_, expected.classes_)
        np.testing.assert_array_equal(ranker.predict_order(points), expected.predict_order(points))
        pipeline = make_pipeline(StandardScaler(), clone(ranker)).fit(points, y)
        for measured in (y, np.minimum(y, 3)):  # full and tied
            score = expected.score(points, np.minimum(frame, 3) if measured is not y else frame)
            assert ranker.score(points, measured) == score
            assert pipeline.score(points, measured) == pytest.approx(score, abs=0.02)
        in_order = frame[sorted(names)].to_numpy()
        scorer = kendall_tau_scorer()  # as metadata, columns follow the sorted labels
        assert scorer(ranker, points, None, ranks_true=in_order) == expected.score(points, frame)
    with pytest.raises(ValueError, match="y must have one column per label: 5, got 4"):
        ranker.score(points, sample_plackett_luce(np.ones((N, 4)), random_state=0))


def test_pickle_and_clone(points, ranks):
    ranker = DuelRanker(random_state=0, unplaced="unknown").fit(points, ranks)
    again = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(again.decision_function(points), ranker.decision_function(points))
    assert again.unplaced_ == clone(ranker).unplaced == "unknown"
    assert not hasattr(clone(ranker), "duels_")


@pytest.mark.filterwarnings("ignore:.*place no label ahead of another:UserWarning")
@pytest.mark.parametrize(("form", "cv"), [("ranks", 3), ("ranks", KFold(3)), ("missing", KFold(3))])
def test_cross_validation_and_searches(form, cv, request, points):
    y = request.getfixturevalue(form)
    pipeline = make_pipeline(StandardScaler(), DuelRanker(LogisticDuels(), random_state=0))
    scores = cross_val_score(pipeline, points, y, cv=cv)
    for score, (train, test) in zip(scores, KFold(3).split(points), strict=True):
        fitted = clone(pipeline).fit(points[train], y[train])
        predicted = predict_ranks(fitted, points[test])
        tau = partial_kendall_tau(y[test], predicted, unplaced="unknown")
        assert score == pytest.approx(np.nanmean(tau))
    small = clone(pipeline).set_params(duelranker__estimator__C=1e-4)
    grid = {"duelranker__estimator__C": [1e-4, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=cv).fit(points, y)
    theirs = [cross_val_score(small, points, y, cv=cv).mean(), scores.mean()]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], theirs)
    np.testing.assert_array_equal(predict_order(search, points)[:, 0], search.predict(points))
    assert search.score(points, y) == search.best_estimator_.score(points, y)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_numbers_of_folds_need_places_for_all(points, missing):
    """Told only how many folds, scikit-learn looks for classes in y and meets NaN: pass KFold."""
    with pytest.raises(ValueError, match="Input y contains NaN"):
        cross_val_score(DuelRanker(), points, missing, cv=3)


def test_columns_must_be_the_labels(points, ranks):
    other = pd.DataFrame(ranks, columns=list("edcbx"))
    with pytest.raises(ValueError, match=r"^y has the columns \['e', .*\], but the labels are"):
        DuelRanker(classes=list("abcde")).fit(points, other)
    ranker = DuelRanker(random_state=0).fit(points, other)
    with pytest.raises(ValueError, match=r"^y has the columns .* but the labels are \['b', 'c'"):
        ranker.score(points, other.rename(columns={"x": "y"}))


def test_missing_integers_are_labels_left_out(points, ranks):
    lists = np.where(ranks <= 2, ranks, np.nan)
    frame = pd.DataFrame(lists, columns=list("abcde"))
    ranker = DuelRanker(unplaced="behind", random_state=0)
    nullable = clone(ranker).fit(points, frame.astype("Int64"))
    plain = clone(ranker).fit(points, frame)
    np.testing.assert_array_equal(nullable.predict_ranks(points), plain.predict_ranks(points))


def test_unplaced_is_checked_whatever_y_is(points):
    with pytest.raises(ValueError, match=r"^unplaced must be one of 'auto'"):
        DuelRanker(unplaced="ahead").fit(points, np.arange(N) % 3)


def test_arrays_are_scored_in_the_order_of_fit(points, ranks):
    frame = pd.DataFrame(ranks, columns=list("ecabd"))
    ranker = DuelRanker(random_state=0).fit(points, frame)
    assert ranker.rank_columns_.tolist() == list("ecabd")
    truth = kendall_tau(frame[ranker.classes_], ranker.predict_ranks(points)).mean()
    for y in (frame, frame.to_numpy(), frame[list("abcde")]):
        assert ranker.score(points, y) == pytest.approx(truth)
        assert kendall_tau_scorer()(ranker, points, y) == pytest.approx(truth)
    for measure in (kendall_tau, partial_kendall_tau):
        with pytest.raises(ValueError, match=r"compare ranks_true\[ranker\.classes_\]\.$"):
            measure(frame, ranker.predict_ranks(points))


def test_top_k_accuracy_is_for_labels(points, ranks):
    ranker = DuelRanker(random_state=0).fit(points, ranks)
    with pytest.raises(ValueError, match=r"^TopKScorer\(k=2\) measures labels, but y holds ranks"):
        top_k_scorer(2)(ranker, points, ranks)


def test_auto_says_what_it_took_short_rankings_for(points, ranks):
    """Lists and choices look alike; a label alone, and labels that are all tied, are clear."""
    lists = np.where(ranks <= 2, ranks, np.nan)
    choices = np.where(ranks <= 3, np.minimum(ranks, 2), np.nan)
    one_list = np.where(np.arange(N)[:, np.newaxis] == 7, lists, ranks)
    for y in (lists, choices, one_list, pd.DataFrame(lists)):
        ranker = DuelRanker(random_state=0)
        with pytest.warns(UserWarning, match=r"^Labels that rows .* Say unplaced='behind'") as told:
            ranker.fit(points, y)
        assert [warning.filename for warning in told] == [__file__]
        assert ranker.unplaced_ == "behind"
        for unplaced in ("behind", "unknown"):  # and no warning
            DuelRanker(unplaced=unplaced, random_state=0).fit(points, y)
    labels = np.where(ranks == 1, 1, np.nan)
    sets = np.where(ranks <= 2, 1, np.nan)
    with_gaps = np.where((ranks == 1) | (ranks == 3), ranks, np.nan)
    for y in (labels, sets, ranks, with_gaps, ranks.argmin(axis=1)):
        DuelRanker(random_state=0).fit(points, y)  # and no warning
