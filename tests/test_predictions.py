import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from duelrank import predictions, rankers
from duelrank.predictions import predict_order, predict_ranks, predict_top


@pytest.fixture
def flowers(iris):
    X, y = iris
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.parametrize("name", predictions.__all__)
def test_rankers_have_these_names_too(name):
    assert getattr(rankers, name) is getattr(predictions, name)


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(max_iter=500),
        RandomForestClassifier(5, random_state=0),
        SVC(),
        GaussianNB(),
        RidgeClassifier(),
    ],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_free_functions_rank_any_classifier(flowers, classifier, n_classes):
    X, y = flowers
    X, y = X[: 50 * n_classes], y[: 50 * n_classes]
    model = classifier.fit(X, y)
    ranks, order = predict_ranks(model, X), predict_order(model, X)
    np.testing.assert_array_equal(order[:, 0], model.predict(X))
    np.testing.assert_array_equal(model.classes_[np.argsort(ranks, axis=1)], order)


def test_free_functions_refuse_what_cannot_rank(flowers):
    X, y = flowers
    ovo = SVC(decision_function_shape="ovo").fit(np.tile(X, (2, 1)), np.r_[y, [f"{k}2" for k in y]])
    for model in (
        ovo,
        make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")).fit(X, y),
    ):
        with pytest.raises(TypeError, match="decision_function scores pairs of labels"):
            predict_ranks(model, X)
    calibrated = SVC(decision_function_shape="ovo", kernel="linear")
    two = calibrated.fit(X[:100], y[:100])  # two labels have one score either way
    np.testing.assert_array_equal(predict_order(two, X[:100])[:, 0], two.predict(X[:100]))
    with pytest.raises(TypeError, match="fitted single-output classifier"):
        predict_ranks(LinearRegression().fit(X, X[:, 0]), X)
    with pytest.raises(NotFittedError):
        predict_ranks(LogisticRegression(), X)
    with pytest.raises(ValueError, match="k must be an integer from 1 to 3, got 4"):
        predict_top(GaussianNB().fit(X, y), X, 4)
