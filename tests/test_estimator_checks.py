"""scikit-learn's own checks, for DuelRanker over every engine."""

from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from duelrank import DuelRanker, EstimatorDuels, LogisticDuels, StumpDuels


@parametrize_with_checks(
    [
        DuelRanker(),
        DuelRanker(LogisticDuels(C=0.01, fit_intercept=False), aggregation="coupling"),
        DuelRanker(LogisticRegression(C=0.1)),
        DuelRanker(EstimatorDuels(RidgeClassifier())),
        DuelRanker(DecisionTreeClassifier(max_depth=3)),
        DuelRanker(GaussianNB(), aggregation="coupling"),
        DuelRanker(StumpDuels()),
        DuelRanker(StumpDuels(), aggregation="feedback_arc_set"),
        DuelRanker(StumpDuels(), ties="feedback_arc_set"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
