"""What `duelrank evaluate` computes."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import top_k_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import AutoDuels, DuelRanker, LogisticDuels
from duelrank.evaluation import BASELINES, RareLabelError, baselines, evaluate, rare_labels
from duelrank.rankings import ranks_from_choices
from duelrank.shortlists import Shortlister, measure_shortlists

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"], dtype=object)


def test_cross_validation_agrees_with_scikit_learn():
    model = make_pipeline(StandardScaler(), LogisticRegression())
    (result,) = evaluate({"regression": model}, X, Y, folds=4, top=2, random_state=3)
    splitter = StratifiedKFold(4, shuffle=True, random_state=3)
    scores = cross_val_predict(model, X, Y, cv=splitter, method="predict_proba")
    expected = [top_k_accuracy_score(Y, scores, k=k) for k in (1, 2)]
    np.testing.assert_allclose(result.accuracies, expected, rtol=0, atol=1e-12)
    assert np.isnan(result.cycle_share)
    by_fold = [np.mean(scores[rows].argmax(axis=1) == Y[rows]) for _, rows in splitter.split(X, Y)]
    assert result.deviations[0] == pytest.approx(np.std(by_fold, ddof=1))


def test_a_test_set_and_its_cycles():
    ranker = DuelRanker(random_state=0)
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    y = NAMES[Y]
    (result,) = evaluate({"duels": ranker}, X[train], y[train], test=(X[test], y[test]), top=3)
    ranker.fit(X[train], y[train])
    assert result.accuracies[0] == pytest.approx(ranker.score(X[test], y[test]))
    assert result.accuracies[2] == 1
    cyclic = ~ranker.tournament(X[test]).is_transitive
    assert result.cycle_share == pytest.approx(cyclic.mean())
    assert np.isnan(result.deviations).all()
    assert result.fit_seconds > 0
    assert result.rank_seconds > 0


def test_labels_that_were_not_seen_count_as_wrong():
    seen = Y < 2
    (result,) = evaluate({"duels": DuelRanker()}, X[seen], Y[seen], test=(X, Y), top=2)
    assert result.accuracies[1] == pytest.approx(2 / 3)


def test_steps_are_counted():
    steps = []
    rankers = {"duels": DuelRanker(random_state=0), **baselines(["multinomial", "majority"])}
    results = evaluate(rankers, X, Y, folds=2, top=1, on_step=lambda: steps.append(1))
    assert len(steps) == 2 * 3
    assert [result.name for result in results] == ["duels", "multinomial", "majority"]
    assert results[2].accuracies[0] == pytest.approx(1 / 3)


def test_baselines_suit_the_features():
    on_tables = ["multinomial", "one-vs-rest", "forest", "boosting", "majority"]
    assert list(baselines()) == on_tables
    assert list(baselines(on_text=True)) == ["multinomial", "one-vs-rest", "linear-svc", "majority"]
    assert list(baselines(["forest", "multinomial"])) == ["multinomial", "forest"]
    assert baselines([]) == {}
    assert baselines(on_text=True)["multinomial"].C == 10
    assert baselines(on_text=True, C=2.0)["linear-svc"].C == 2
    with pytest.raises(ValueError, match=r"names must be some of multinomial, .*; got 'svm'"):
        baselines(["svm"])


def test_every_baseline_ranks():
    results = evaluate(baselines(BASELINES, random_state=0), X, Y, folds=2, top=2)
    assert [result.name for result in results] == list(BASELINES)
    assert all(result.accuracies[1] > 0.6 for result in results)
    assert all(np.isnan(result.peak_bytes) or result.peak_bytes > 1e6 for result in results)


def test_baselines_take_labels_of_few_rows():
    y = np.arange(60) % 10
    results = evaluate(baselines(random_state=0), np.vstack([X[::5], X[::5]]), y, folds=2, top=2)
    assert len(results) == 5


def test_memory_is_not_told_where_it_cannot_be_counted(monkeypatch, tmp_path):
    monkeypatch.setattr("duelrank.evaluation.LINUX_PEAK", tmp_path / "no" / "such")
    (result,) = evaluate(baselines(["majority"]), X, Y, folds=2, top=2)
    assert np.isnan(result.peak_bytes)


def test_preprocessing_is_shared_and_fitted_on_training_rows_only():
    class Counted(StandardScaler):
        fits: ClassVar[list[int]] = []

        def fit(self, X, y=None, sample_weight=None):
            Counted.fits.append(len(X))
            return super().fit(X, y)

    rankers = {"a": LogisticRegression(), "b": LogisticRegression()}
    shared = evaluate(rankers, X, Y, preprocessing=Counted(), folds=3, top=2, random_state=0)
    assert Counted.fits == [100, 100, 100]
    alone = make_pipeline(StandardScaler(), LogisticRegression())
    (expected,) = evaluate({"a": alone}, X, Y, folds=3, top=2, random_state=0)
    for result in shared:
        np.testing.assert_array_equal(result.accuracies, expected.accuracies)


def test_the_engines_that_were_chosen_are_told():
    ranker = DuelRanker(AutoDuels({"linear": LogisticDuels()}), random_state=0)
    (result,) = evaluate({"duels": ranker}, X, Y, folds=2, top=1, random_state=0)
    assert result.chosen == ("linear", "linear")


def test_rare_labels():
    y = np.array(list("aaaabbbcc"), dtype=object)
    assert rare_labels(y, 4) == {"c": 2, "b": 3}
    assert rare_labels(y, 2) == {}
    points = np.arange(9.0).reshape(-1, 1)
    with pytest.raises(
        RareLabelError, match=r"label c \(and 1 more labels\) has 2 rows for 4 folds"
    ):
        evaluate({"duels": DuelRanker()}, points, y, folds=4, top=1)
    with pytest.raises(ValueError, match="folds must be at least 2, got 1"):
        evaluate({"duels": DuelRanker()}, points, y, folds=1, top=1)
    with pytest.raises(ValueError, match="k must"):
        evaluate({"duels": DuelRanker()}, points, y, folds=2, top=4)


def test_rankers_can_learn_from_more_than_labels():
    ranks = np.where(Y[:, np.newaxis] == np.arange(3), 1.0, np.nan)
    ranks[np.arange(150), (Y + 1) % 3] = 2
    duels = DuelRanker(unplaced="behind", random_state=0)
    rankers = {"by lists": duels, "by labels": duels}
    lists, labels = evaluate(
        rankers, X, Y, feedback={"by lists": ranks}, folds=3, top=2, random_state=0
    )
    hits = np.zeros(2)
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    for train, test in splitter.split(X, Y):
        order = duels.fit(X[train], ranks[train]).predict_order(X[test])
        hits += [np.sum(order[:, 0] == Y[test]), np.sum(order[:, :2] == Y[test, np.newaxis])]
    np.testing.assert_allclose(lists.accuracies, hits / 150)
    (alone,) = evaluate({"by labels": duels}, X, Y, folds=3, top=2, random_state=0)
    assert labels.accuracies.tolist() == alone.accuracies.tolist()
    assert lists.accuracies.tolist() != labels.accuracies.tolist()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        evaluate(rankers, X, Y, feedback={"by lists": ranks[:9]}, top=2)


@pytest.mark.filterwarnings("ignore:.*place no label ahead of another:UserWarning")
@pytest.mark.parametrize("is_sparse", [False, True])
def test_choices_are_measured_among_what_was_shown(is_sparse):
    """Rows in which nothing else was shown do not count; labels that were never seen come last."""
    y = NAMES[Y]
    rng = np.random.default_rng(0)
    shown = [{own, *rng.choice(NAMES, 1), "rose"} if i % 5 else {own} for i, own in enumerate(y)]
    told = [labels - {"rose"} for labels in shown]
    ranks = ranks_from_choices(told, y, NAMES, sparse=is_sparse)
    duels = DuelRanker(classes=NAMES, unplaced="unknown", random_state=0)
    rankers = {"duels": duels, "labels": LogisticRegression(max_iter=1000)}
    test = (X, np.append(y[:-1], "tulip"), shown)
    learned = {"duels": ranks}
    results = evaluate(rankers, X, y, feedback=learned, test=test, top=1)
    expected = duels.fit(X, ranks).predict_order(X)
    first = [next(k for k in row if k in s) for row, s in zip(expected, shown, strict=True)]
    hits = [a == b for a, b in zip(first, test[1], strict=True)]
    assert results[0].choice_accuracy == np.mean([hits[i] for i in range(150) if i % 5])
    assert 0.8 < results[1].choice_accuracy < 1
    folded, _ = evaluate(rankers, X, y, feedback=learned, shown=shown, folds=3, top=1)
    assert 0.8 < folded.choice_accuracy <= 1
    (plain,) = evaluate({"duels": DuelRanker()}, X, y, folds=2, top=1)
    assert np.isnan(plain.choice_accuracy)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        evaluate(rankers, X, y, shown=shown[:9], top=1)


# Shortlists


def test_lists_are_not_measured_unless_asked_for():
    (result,) = evaluate({"duels": DuelRanker(random_state=0)}, X, Y, folds=2, top=1)
    assert np.isnan([result.coverage, result.mean_length]).all()


def test_lists_are_calibrated_on_rows_that_nobody_has_learned_from():
    seen = []

    class Scaler(StandardScaler):
        def fit(self, X, y=None):
            seen.append(len(X))
            return super().fit(X)

    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    rankers = {"duels": DuelRanker(random_state=0), **baselines(["multinomial", "linear-svc"])}
    results = evaluate(
        rankers, X[train], NAMES[Y[train]], preprocessing=Scaler(), coverage=0.9, top=2,
        test=(X[test], NAMES[Y[test]]), random_state=0,
    )  # fmt: skip
    assert seen == [60]
    calibrates = np.zeros(75, dtype=bool)
    calibrates[np.random.RandomState(0).permutation(75)[:15]] = True
    for result, ranker in zip(results, rankers.values(), strict=True):
        model = make_pipeline(StandardScaler(), ranker).fit(
            X[train[~calibrates]], NAMES[Y[train[~calibrates]]]
        )
        lists = Shortlister(FrozenEstimator(model), 0.9)
        lists.fit(X[train[calibrates]], NAMES[Y[train[calibrates]]])
        expected = measure_shortlists(lists.shortlist_mask(X[test]), Y[test])
        assert (result.coverage, result.mean_length) == (expected.coverage, expected.mean_length)
        assert result.accuracies[0] == pytest.approx(model.score(X[test], NAMES[Y[test]]))


def test_lists_of_folds_hold_the_label_as_often_as_asked_for():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, size=1500)
    points = np.eye(6)[y] + rng.normal(size=(1500, 6))
    rankers = {"duels": DuelRanker(random_state=0), **baselines(["multinomial", "majority"])}
    results = evaluate(rankers, points, y, folds=3, top=2, coverage=0.8, random_state=0)
    # All rows of the majority have one list, so there is none between five labels and four.
    assert all(result.coverage > 0.76 for result in results)
    assert all(result.coverage < 0.84 for result in results[:2])
    duels, multinomial, majority = (result.mean_length for result in results)
    assert abs(duels - multinomial) < 0.2
    assert duels < 3 < 4.5 < majority


def test_labels_that_were_not_seen_are_in_no_list():
    seen = Y < 2
    ranker = DuelRanker(random_state=0)
    options = {"test": (X, Y), "top": 1, "coverage": 0.9, "random_state": 0}
    (result,) = evaluate({"duels": ranker}, X[seen], Y[seen], **options)
    assert result.coverage == pytest.approx(2 / 3)


def test_lists_need_rows_and_a_coverage():
    for coverage in (0, 1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="coverage must be between 0 and 1, got"):
            evaluate({"duels": DuelRanker()}, X, Y, top=1, coverage=coverage)
    with pytest.raises(ValueError, match="needs at least 99 calibration rows, got 15"):
        evaluate({"duels": DuelRanker()}, X, Y, coverage=0.99, folds=2, top=1)
