"""scikit-learn's own checks, for DuelRanker over every engine."""

import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from duelrank import (
    AnchoredDuels,
    AnchoredDuelsCV,
    DuelRanker,
    EstimatorDuels,
    ForestDuels,
    KernelDuels,
    LogisticDuels,
    StackedDuels,
    StumpDuels,
)


def expected_failures(ranker):
    if isinstance(ranker.estimator, AnchoredDuelsCV):
        # The check gives folds to a parameter called cv only.
        reason = (
            "folds of repeated rows are not those of weighted rows; on folds that are given, "
            "test_weights_of_anchored_duels_whose_folds_are_given does the same"
        )
        names = ("dense_data", "sparse_data")
        return {f"check_sample_weight_equivalence_on_{name}": reason for name in names}
    if not isinstance(ranker.estimator, (ForestDuels, StackedDuels)):
        return {}
    # tests/duels/test_weights.py compares rows in the same order.
    reason = "the check shuffles rows; which are drawn or in one fold depends on their order"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks(
    [
        DuelRanker(),
        DuelRanker(LogisticDuels(C=0.01, fit_intercept=False), aggregation="coupling"),
        DuelRanker(AnchoredDuels()),
        DuelRanker(AnchoredDuelsCV(2, 2, cv=2)),
        DuelRanker(AnchoredDuels(C="scale", C_own=0.1, rivals=1), aggregation="expected_wins"),
        DuelRanker(LogisticRegression(C=0.1)),
        DuelRanker(EstimatorDuels(RidgeClassifier())),
        DuelRanker(DecisionTreeClassifier(max_depth=3)),
        DuelRanker(GaussianNB(), aggregation="coupling"),
        DuelRanker(StumpDuels()),
        DuelRanker(StumpDuels(), aggregation="feedback_arc_set"),
        DuelRanker(StumpDuels(), ties="feedback_arc_set"),
        DuelRanker(ForestDuels(5)),
        DuelRanker(KernelDuels(), aggregation="coupling"),
        DuelRanker(StackedDuels([("kernel", KernelDuels(20)), ("linear", LogisticDuels())], cv=3)),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class AnchoredOnFolds(DuelRanker):
    """A ranker by AnchoredDuelsCV whose folds are a parameter of its own, called cv."""

    def __init__(self, cv=5, random_state=None):
        super().__init__(AnchoredDuelsCV(2, 2), random_state=random_state)
        self.cv = cv

    def fit(self, X, y, sample_weight=None):
        self.estimator = AnchoredDuelsCV(2, 2, cv=self.cv, tol=1e-10)
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    "check",
    [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data],
)
def test_weights_of_anchored_duels_whose_folds_are_given(check):
    check("AnchoredOnFolds", AnchoredOnFolds())
