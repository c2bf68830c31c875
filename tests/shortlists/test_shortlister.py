"""Lists of any classifier: what is in them, by brute force, and what is refused."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import shuffle
from sklearn.utils.estimator_checks import parametrize_with_checks

from duelrank import DuelRanker, EstimatorDuels, LogisticDuels, predict_order, predict_ranks
from duelrank.shortlists import (
    PlaceIntervals,
    Shortlister,
    length_curve,
    measure_shortlists,
    rows_needed,
)

X, Y = shuffle(*load_digits(return_X_y=True), random_state=0)
RANKER = DuelRanker(LogisticDuels(C=1e-4), random_state=0).fit(X[:200], Y[:200])
FROZEN = FrozenEstimator(RANKER)
CALIBRATING, NEW = slice(200, 600), slice(600, 900)
SCORES = ("probability", "evidence", "rank", "aps", "raps")


def lists_of(coverage=0.95, estimator=FROZEN, **options):
    return Shortlister(estimator, coverage, **options).fit(X[CALIBRATING], Y[CALIBRATING])


@parametrize_with_checks(
    [
        Shortlister(LogisticRegression(), coverage=0.5, random_state=0),
        Shortlister(coverage=0.5, cv=3, conformity_score="evidence", random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("score", SCORES)
def test_lists_are_the_first_labels_of_the_ranking(score):
    fitted = lists_of([0.8, 0.95, 0.99], conformity_score=score)
    by_coverage, mask = fitted.predict_shortlist(X[NEW]), fitted.shortlist_mask(X[NEW])
    order = predict_order(RANKER, X[NEW])
    assert list(by_coverage) == [0.8, 0.95, 0.99]
    for lists, inside in zip(by_coverage.values(), mask, strict=True):
        assert [len(row) for row in lists] == inside.sum(axis=1).tolist()
        assert all(row == order[i, : len(row)].tolist() for i, row in enumerate(lists))
        assert all(set(row) == set(fitted.classes_[inside[i]]) for i, row in enumerate(lists))
        assert min(map(len, lists)) >= 1
    assert np.all(mask[0] <= mask[1])
    assert np.all(mask[1] <= mask[2])
    assert mask[2].sum() > mask[0].sum()


def test_p_values_by_brute_force():
    fitted = lists_of(conformity_score="probability", allow_empty=True)
    proba = RANKER.predict_proba(X[CALIBRATING])
    odd = -np.log(proba[np.arange(400), Y[CALIBRATING]])
    new = -np.log(RANKER.predict_proba(X[NEW]))
    expected = [[(1 + np.sum(odd >= score)) / 401 for score in row] for row in new]
    np.testing.assert_allclose(fitted.p_values(X[NEW]), expected, rtol=1e-12)
    k = int(np.ceil(401 * 0.95))
    np.testing.assert_array_equal(fitted.shortlist_mask(X[NEW]), new <= np.sort(odd)[k - 1])


def test_the_first_label_is_not_odd_unless_lists_may_be_empty():
    """Then the threshold is that of the labels behind the first, and nothing is paid."""
    fitted = lists_of(0.98)
    proba, codes = RANKER.predict_proba(X[CALIBRATING]), Y[CALIBRATING]
    is_first = predict_ranks(RANKER, X[CALIBRATING])[np.arange(400), codes] == 1
    odd = np.where(is_first, -np.inf, -np.log(proba[np.arange(400), codes]))
    threshold = np.sort(odd)[int(np.ceil(401 * 0.98)) - 1]
    places = predict_ranks(RANKER, X[NEW])
    expected = (places == 1) | (-np.log(RANKER.predict_proba(X[NEW])) <= threshold)
    np.testing.assert_array_equal(fitted.shortlist_mask(X[NEW]), expected)
    assert expected.sum() > len(places)


@pytest.mark.parametrize("n_rows", [9, 10, 19, 99])
def test_few_rows_and_round_coverages(n_rows):
    """0.9 of n + 1 = 10 rows is the ninth smallest score, whatever floats make of 0.9."""
    rows = slice(200, 200 + n_rows)
    fitted = Shortlister(FROZEN, 0.9, allow_empty=True).fit(X[rows], Y[rows])
    odd = -np.log(RANKER.predict_proba(X[rows])[np.arange(n_rows), Y[rows]])
    k = -(-9 * (n_rows + 1) // 10)
    expected = -np.log(RANKER.predict_proba(X[NEW])) <= np.sort(odd)[k - 1]
    np.testing.assert_array_equal(fitted.shortlist_mask(X[NEW]), expected)


def test_cross_conformal_lists_by_brute_force():
    splitter = KFold(3)
    model = DuelRanker(LogisticDuels(C=1e-4), random_state=0)
    options = {"cv": splitter, "conformity_score": "probability", "allow_empty": True}
    fitted = Shortlister(model, 0.9, **options).fit(X[:150], Y[:150])
    below = np.zeros((50, 10))
    for learning, calibrating in splitter.split(X[:150]):
        fold = clone(model).fit(X[learning], Y[learning])
        odd = -np.log(fold.predict_proba(X[calibrating])[np.arange(50), Y[calibrating]])
        new = -np.log(fold.predict_proba(X[200:250]))
        below += np.sum(odd[:, np.newaxis, np.newaxis] < new, axis=0)
    np.testing.assert_array_equal(fitted.shortlist_mask(X[200:250]), below < 0.9 * 151 - 1e-9)
    # The order is that of a model of all rows.
    order = clone(model).fit(X[:150], Y[:150]).predict_order(X[200:250])
    for row, labels in zip(order.tolist(), fitted.predict_shortlist(X[200:250]), strict=True):
        assert labels == [label for label in row if label in labels]


def test_a_fold_without_a_label():
    y = Y[:60].astype(str).astype(object)
    y[0] = "rare"
    fitted = Shortlister(RANKER, 0.9, cv=KFold(3), random_state=0).fit(X[:60], y)
    assert "rare" not in fitted.fold_estimators_[0].classes_
    code = fitted.classes_.tolist().index("rare")
    # Its own row is as odd as can be, and so is the label for that fold.
    assert sorted(np.isinf(scores).sum() for scores in fitted.calibration_scores_)[-1] >= 1
    assert np.isinf(fitted.calibration_scores_[0][-1])
    above, equal = np.zeros(300), np.zeros(300)
    for number, fold in enumerate(fitted.fold_estimators_):
        odd = np.full(300, np.inf)
        if "rare" in fold.classes_:
            own = fold.classes_.tolist().index("rare")
            first = predict_ranks(fold, X[NEW])[:, own] == 1
            odd = np.where(first, -np.inf, -np.log(fold.predict_proba(X[NEW])[:, own]))
        scores = fitted.calibration_scores_[number]
        above += np.sum(scores > odd[:, np.newaxis], axis=1)
        equal += np.sum(scores == odd[:, np.newaxis], axis=1)
    expected = (above + equal + 1) / 61
    expected[predict_ranks(fitted.estimator_, X[NEW])[:, code] == 1] = 1
    np.testing.assert_allclose(fitted.p_values(X[NEW])[:, code], expected)


def test_rows_that_are_held_out_are_not_learned_from():
    class Remembers(LogisticRegression):
        def fit(self, X, y):
            self.seen_ = X.copy()
            return super().fit(X, y)

    model = Remembers(max_iter=5000)
    fitted = Shortlister(model, 0.9, calibration_size=0.25, random_state=0).fit(X[:400], Y[:400])
    assert len(fitted.estimator_.seen_) == 300
    assert fitted.n_calibration_ == 100
    assert not hasattr(model, "seen_")


def test_labels_of_a_single_row_are_learned_and_counted_as_missed():
    labels = np.repeat([0, 1, 2], [39, 20, 1])
    lost = []
    for seed in range(8):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = Shortlister(DuelRanker(), 0.8, random_state=seed).fit(X[:60], labels)
        assert made.classes_.tolist() == [0, 1, 2]
        assert made.n_calibration_ == 12
        is_lost = np.isinf(made.calibration_scores_[0][-1])
        told = [str(warning.message) for warning in caught]
        assert is_lost == any("1 of 12 rows that were drawn for calibration" in m for m in told)
        lost.append(is_lost)
    assert 0 < sum(lost) < 8


def test_parameters_of_the_calibration_are_those_of_the_fit():
    fitted = lists_of(0.95)
    expected = fitted.predict_shortlist(X[NEW])
    fitted.set_params(allow_empty=True, randomize=True, coverage=[0.5, 0.6])
    assert fitted.predict_shortlist(X[NEW]) == expected
    with pytest.raises(ValueError, match="max_length must be a positive integer, got 0"):
        fitted.set_params(max_length=0).predict_shortlist(X[NEW])


def test_no_rows_have_no_lists():
    forest = FrozenEstimator(Looks())
    fitted = Shortlister(forest, 0.8).fit(np.arange(20)[:, np.newaxis], np.arange(20) % 3)
    assert fitted.predict_shortlist(np.zeros((0, 1))) == []
    assert fitted.shortlist_mask(np.zeros((0, 1))).shape == (0, 3)


class Looks(ClassifierMixin, BaseEstimator):
    """A fitted classifier that also takes no rows, and scores some labels as infinite."""

    def __init__(self):
        self.classes_ = np.arange(3)

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        scores = np.full((len(X), 3), -np.inf)
        scores[np.arange(len(X)), np.arange(len(X)) % 3] = np.inf
        return scores


def test_infinite_scores_are_evidence():
    numbers = np.arange(20)[:, np.newaxis]
    fitted = Shortlister(FrozenEstimator(Looks()), 0.8).fit(numbers, np.arange(20) % 3)
    assert fitted.score_ == "evidence"
    assert not np.isnan(fitted.calibration_scores_[0]).any()
    assert fitted.predict_shortlist(numbers[:3]) == [[0], [1], [2]]


def test_splits_must_be_a_partition():
    for splitter in (ShuffleSplit(3), RepeatedKFold(n_splits=3, n_repeats=2)):
        with pytest.raises(ValueError, match="cv must test every row once"):
            Shortlister(None, 0.8, cv=splitter).fit(X[:90], Y[:90])


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999])
def test_rows_that_a_coverage_needs(coverage):
    assert rows_needed(coverage) == round(1 / (1 - coverage)) - 1


def test_any_classifier_pipeline_or_search():
    search = GridSearchCV(DuelRanker(LogisticDuels()), {"estimator__C": [1e-4, 1e-3]}, cv=2)
    models = [
        RandomForestClassifier(20, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), DuelRanker(random_state=0)),
        search,
        make_pipeline(StandardScaler(), LinearSVC(C=0.01)),
        None,
    ]
    for model in models:
        fitted = Shortlister(model, 0.95, random_state=0).fit(X[:600], Y[:600])
        has_proba = model is not models[-2]
        assert fitted.score_ == ("probability" if has_proba else "evidence")
        assert hasattr(fitted, "predict_proba") is has_proba
        assert hasattr(fitted, "predict_log_proba") is has_proba
        if has_proba:
            logarithms = fitted.predict_log_proba(X[NEW])
            np.testing.assert_allclose(np.exp(logarithms), fitted.predict_proba(X[NEW]))
        assert fitted.n_classes_ == 10
        quality = measure_shortlists(fitted.shortlist_mask(X[NEW]), Y[NEW])
        assert quality.coverage > 0.9
        assert quality.mean_length < 2
        np.testing.assert_array_equal(
            predict_order(fitted, X[NEW]), predict_order(fitted.estimator_, X[NEW])
        )
        np.testing.assert_array_equal(fitted.predict(X[NEW]), fitted.estimator_.predict(X[NEW]))


def test_evidence_of_duels_are_expected_wins():
    slow = DuelRanker(EstimatorDuels(LogisticRegression(max_iter=500)), random_state=0)
    slow.fit(X[:200], Y[:200])
    for ranker in (RANKER, slow):
        fitted = lists_of(0.99, FrozenEstimator(ranker), conformity_score="evidence")
        expected = ranker.tournament(X[CALIBRATING]).probabilities.sum(axis=2) - 0.5
        places = predict_ranks(ranker, X[CALIBRATING])
        odd = np.where(places == 1, -np.inf, places - (1 - 2.0**-20) * expected / 9)
        own = np.sort(odd[np.arange(400), Y[CALIBRATING]])
        np.testing.assert_allclose(fitted.calibration_scores_[0], own, rtol=1e-6)


def test_other_kinds_of_rows_and_labels():
    pd = pytest.importorskip("pandas")
    names = np.array([f"digit {label}" for label in Y], dtype=object)
    frame = pd.DataFrame(X, columns=[f"pixel{number}" for number in range(64)])
    kinds = {
        "frame": (frame, names),
        "sparse": (sparse.csr_array(X), names),
        "lists": (X.tolist(), names.tolist()),
    }
    expected = Shortlister(coverage=0.95, random_state=0).fit(X[:500], names[:500])
    for name, (points, labels) in kinds.items():
        cut = slice(0, 500)
        part = points.iloc[cut] if name == "frame" else points[cut]
        fitted = Shortlister(coverage=0.95, random_state=0).fit(part, labels[cut])
        new = points.iloc[NEW] if name == "frame" else points[NEW]
        assert fitted.predict_shortlist(new) == expected.predict_shortlist(X[NEW])
        assert hasattr(fitted, "feature_names_in_") is (name == "frame")


def test_a_row_has_its_list_whoever_is_asked_about_with_it():
    options = {"randomize": True, "allow_empty": True, "random_state": 3}
    multinomial = LogisticRegression(max_iter=5000).fit(X[:200], Y[:200])
    for score, model in itertools.product(("rank", "aps"), (RANKER, multinomial)):
        frozen = FrozenEstimator(model)
        fitted = lists_of(0.9, frozen, conformity_score=score, **options)
        together = fitted.predict_shortlist(X[NEW])
        assert together == [fitted.predict_shortlist(X[[row]])[0] for row in range(600, 900)]
        again = lists_of(0.9, frozen, conformity_score=score, **options)
        assert together == again.predict_shortlist(X[NEW])
        other = lists_of(0.9, frozen, conformity_score=score, **(options | {"random_state": 4}))
        assert together != other.predict_shortlist(X[NEW])


def test_the_longest_list():
    free = lists_of(0.99).predict_shortlist(X[NEW])
    assert max(map(len, free)) > 2
    cut = lists_of(0.99, max_length=2).predict_shortlist(X[NEW])
    assert cut == [row[:2] for row in free]
    fitted = lists_of(0.99, max_length=2, longer="abstain")
    abstained = fitted.predict_shortlist(X[NEW])
    assert abstained == [None if len(row) > 2 else row for row in free]
    mask = fitted.shortlist_mask(X[NEW])
    assert mask.sum(axis=1).tolist() == [len(row) if len(row) < 3 else 0 for row in free]


def test_rare_labels_are_taken_together_or_are_in_every_list():

    def calibrated(n_of_rare):
        """Calibrate by few rows of 8 and of 9, and many of the others."""
        rows = np.arange(200, 900)
        for label in (8, 9):
            own = rows[Y[rows] == label]
            rows = np.setdiff1d(rows, own[n_of_rare:])
        return Shortlister(FROZEN, 0.95, by="label").fit(X[rows], Y[rows])

    with pytest.warns(UserWarning, match=r"fewer than 19 .* calibrated together: 8, 9\."):
        fitted = calibrated(12)
    assert fitted.label_groups_.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert not fitted.shortlist_mask(X[NEW])[:, 8].all()
    with pytest.warns(UserWarning, match=r"in every list: 8, 9\. .* 12 rows; .* 0\.95 needs 19\."):
        fitted = calibrated(6)
    assert fitted.shortlist_mask(X[NEW])[:, 8:].all()


def test_rows_that_make_clusters_do_not_calibrate():
    rows = slice(200, 1_700)
    fitted = Shortlister(FROZEN, 0.9, by="cluster", random_state=0).fit(X[rows], Y[rows])
    assert len(set(fitted.label_groups_)) > 2
    assert 1_200 < fitted.n_calibration_ < 1_400  # K / (75 + K) of them make clusters
    rows = slice(200, 260)  # too few to tell labels apart
    few = Shortlister(FROZEN, 0.9, by="cluster", random_state=0)
    with pytest.warns(UserWarning, match="too few calibration rows to find clusters"):
        few.fit(X[rows], Y[rows])
    assert set(few.label_groups_) == {0}
    assert few.n_calibration_ == 60


def test_groups_are_known_by_name():
    groups = np.where(X[:, 20] > 8, "dark", "light")
    fitted = Shortlister(FROZEN, 0.9, by="group")
    fitted.fit(X[CALIBRATING], Y[CALIBRATING], groups=groups[CALIBRATING])
    for name in ("dark", "light"):
        own = groups[CALIBRATING] == name
        alone = Shortlister(FROZEN, 0.9).fit(X[CALIBRATING][own], Y[CALIBRATING][own])
        rows = groups[NEW] == name
        np.testing.assert_array_equal(
            fitted.shortlist_mask(X[NEW], groups[NEW])[rows], alone.shortlist_mask(X[NEW][rows])
        )
    for given, sentence in [
        (None, "groups must be given, because by is 'group'; got None"),
        (groups[:3], "groups must have 300 rows as X has, got 3"),
        (np.full(300, "grey"), "grey"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            fitted.predict_shortlist(X[NEW], given)
    with pytest.raises(ValueError, match=r"needs at least 9 calibration rows in group tiny, got 1"):
        fitted.fit(X[CALIBRATING], Y[CALIBRATING], groups=["tiny"] + ["big"] * 399)
    with pytest.raises(ValueError, match="groups must be given if by is 'group', got None"):
        fitted.fit(X[CALIBRATING], Y[CALIBRATING])
    with pytest.raises(ValueError, match="groups are used with by='group' only, got by='all'"):
        lists_of().predict_shortlist(X[NEW], groups[NEW])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"coverage": 1.0}, r"coverage must be between 0 and 1, such as 0.95; got 1\.0"),
        ({"coverage": 0}, "coverage must be between 0 and 1, such as 0.95; got 0"),
        ({"coverage": "90%"}, "coverage must be one number between 0 and 1 or several, got '90%'"),
        ({"coverage": []}, r"coverage must be one number or different ones, got \[\]"),
        ({"coverage": [0.9, 0.9]}, "coverage must be one number or different ones"),
        ({"coverage": [0.9, 2]}, "coverage must be between 0 and 1, such as 0.95; got 2"),
        ({"coverage": 0.999}, "coverage of 0.999 needs at least 999 calibration rows, got 400"),
        ({"conformity_score": "lac"}, "conformity_score must be one of 'auto', .*; got 'lac'"),
        ({"by": "team"}, "by must be one of 'all', 'label', 'cluster', 'group'; got 'team'"),
        ({"longer": "no"}, "longer must be one of 'cut', 'abstain'; got 'no'"),
        ({"max_length": 0}, "max_length must be a positive integer, got 0"),
        ({"calibration_size": 1.5}, "calibration_size must be between 0 and 1, got 1.5"),
        ({"cv": 3}, "cv must be None if estimator is frozen"),
        ({"cv": 0, "estimator": None}, "cv must be a positive integer, got 0"),
    ],
)
def test_bad_arguments_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        lists_of(**options)


def test_bad_rows_are_named():
    with pytest.raises(ValueError, match="11"):
        Shortlister(FROZEN).fit(X[CALIBRATING], np.where(Y[CALIBRATING] == 3, 11, Y[CALIBRATING]))
    svc = FrozenEstimator(LinearSVC().fit(X[:200], Y[:200]))
    with pytest.raises(ValueError, match="needs an estimator with predict_proba; for LinearSVC"):
        lists_of(estimator=svc, conformity_score="aps")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Shortlister(FROZEN).fit(X[:10], Y[:9])


def test_altered_calibrations_are_refused():
    changes = [
        {"calibration_scores_": [np.zeros(3)]},
        {"calibration_scores_": [np.full(400, np.nan)]},
        {"calibration_begins_": [np.array([0, 500])]},
        {"calibration_begins_": []},
        {"score_": "other"},
        {"settings_": {"allow_empty": False}},
        {"settings_": {"allow_empty": 1, "randomize": False, "several": False}},
        {"label_groups_": np.zeros(3, dtype=np.intp)},
        {"label_groups_": np.full(10, 7)},
    ]
    for change in changes:
        fitted = lists_of()
        fitted.check_fitted()
        vars(fitted).update(change)
        with pytest.raises(ValueError, match="not counted right"):
            fitted.check_fitted()


def test_measures():
    mask = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 1]], dtype=bool)
    quality = measure_shortlists(mask, [0, 2, 1, 1])
    assert quality.coverage == 0.5
    assert quality.mean_length == 1.25
    assert quality.rows_by_length.tolist() == [1, 1, 2, 0]
    np.testing.assert_array_equal(quality.coverage_by_length, [0, 1, 0.5, np.nan])
    np.testing.assert_array_equal(quality.coverage_by_label, [1, 0.5, 0])
    fitted = lists_of([0.9, 0.99])
    curve = length_curve(fitted.p_values(X[NEW]), Y[NEW], [0.9, 0.99])
    for number, one in enumerate(fitted.shortlist_mask(X[NEW])):
        expected = measure_shortlists(one, Y[NEW])
        assert curve.coverage[number] == expected.coverage
        assert curve.mean_length[number] == expected.mean_length
    assert fitted.measure(X[NEW], Y[NEW])[0.99].coverage == curve.coverage[1]
    assert lists_of(0.9).measure(X[NEW], Y[NEW]).mean_length == curve.mean_length[0]
    with pytest.raises(ValueError, match=r"mask must have shape \(n, K\)"):
        measure_shortlists([True], [0])
    with pytest.raises(ValueError, match="codes must have 4 rows as mask has, got 1"):
        measure_shortlists(mask, [0])


def test_places_by_brute_force():
    points, _ = load_iris(return_X_y=True)
    ranks = 1 + np.argsort(np.argsort(-points[:, :3], axis=1), axis=1)
    ranks[::7] = ranks[::7, ::-1]  # some surprises
    ranker = DuelRanker(random_state=0).fit(points[:50], ranks[:50])
    fitted = PlaceIntervals(FrozenEstimator(ranker), 0.7, width="constant")
    fitted.fit(points[50:], ranks[50:])
    errors = np.abs(predict_ranks(ranker, points[50:]) - ranks[50:]).max(axis=1)
    assert fitted.half_width_ == np.sort(errors)[int(np.ceil(101 * 0.7)) - 1]
    places = predict_ranks(ranker, points)
    ends = fitted.predict_intervals(points)
    np.testing.assert_array_equal(ends[..., 0], np.maximum(places - fitted.half_width_, 1))
    np.testing.assert_array_equal(ends[..., 1], np.minimum(places + fitted.half_width_, 3))
    np.testing.assert_array_equal(fitted.predict_ranks(points), places)
    own = PlaceIntervals(coverage=0.8, random_state=0).fit(points, ranks)
    assert own.width_ == "duels"
    assert own.n_calibration_ == 30
    assert PlaceIntervals(ranker, 0.8).fit(points, ranks).estimator_ is not ranker


def test_mistakes_with_places_are_named():
    ranks = np.tile([1, 2, 3], (40, 1))
    ranks[::2] = [3, 1, 2]
    points = np.arange(40.0)[:, np.newaxis]
    ranker = DuelRanker(random_state=0).fit(points, ranks)
    for fitted, y, sentence in [
        (
            PlaceIntervals(coverage=2),
            ranks,
            "coverage must be between 0 and 1, such as 0.95; got 2",
        ),
        (PlaceIntervals(width="wide"), ranks, "width must be one of"),
        (PlaceIntervals(coverage=0.99), ranks, "needs at least 99 calibration rows, got 8"),
        (PlaceIntervals(calibration_size=0), ranks, "calibration_size must be between 0 and 1"),
        (PlaceIntervals(), ranks[:3], "y must have 40 rows as X has, got 3"),
        (PlaceIntervals(), ranks * 2, r"y must hold a permutation of 1\.\.3 in every row"),
        (PlaceIntervals(FrozenEstimator(ranker)), ranks[:, :2] % 2 + 1, "permutation|columns"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            fitted.fit(points, y)
    forest = FrozenEstimator(RandomForestClassifier(3).fit(points, np.arange(40) % 3))
    with pytest.raises(ValueError, match="width='duels' needs a DuelRanker"):
        PlaceIntervals(forest, width="duels").fit(points, ranks[:, [0, 1, 2]])


@pytest.mark.filterwarnings("ignore:labels ")
@pytest.mark.parametrize("by", ["all", "label"])
def test_thresholds_say_what_is_in_a_list(by, digits):
    """By rank, the first label aside, those whose place is no more than the threshold are in."""
    X, y = digits
    lists = Shortlister(
        DuelRanker(LogisticDuels(C=1e-3), random_state=0),
        coverage=[0.8, 0.9, 0.97],
        by=by,
        conformity_score="rank",
        allow_empty=True,
        random_state=0,
    ).fit(X[:600], y[:600])
    places = predict_ranks(lists.estimator_, X[600:])
    thresholds = lists.score_thresholds()
    assert thresholds.shape == (3, 10)
    assert (np.diff(thresholds, axis=0) >= 0).all()
    expected = places <= thresholds[:, np.newaxis]
    np.testing.assert_array_equal(lists.shortlist_mask(X[600:]), expected)


def test_lists_without_thresholds(digits):
    X, y = digits
    lists = Shortlister(randomize=True, random_state=0).fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="no thresholds with randomize: lists are drawn"):
        lists.score_thresholds()
