"""scikit-learn's own checks, for DuelRanker over every engine."""

from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

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
        reason = "folds of repeated rows are not those of weighted rows"
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
