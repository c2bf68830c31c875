"""An engine that someone writes in a file of their own can do what the engines of duelrank can.

The engines here know `duelrank.duels.DuelEngine` and scikit-learn, nothing else of the package.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank import DuelRanker, StackedDuels, StumpDuels, pairs, predict_order
from duelrank.blocks import LabeledBlocks, RowBlocks
from duelrank.duels import DuelEngine
from duelrank.report import write_report

pytest.importorskip("skops")

from duelrank.storage import (
    ModelFileError,
    UntrustedTypesError,
    describe,
    load,
    save,
)

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")

X, Y = load_iris(return_X_y=True)
COLUMNS = ["sepal length", "sepal width", "petal length", "petal width"]
FRAME = pd.DataFrame(X, columns=COLUMNS)
NAMES = np.array(["setosa", "versicolor", "virginica"], dtype=object)
LABELS = NAMES[Y]


class CentroidDuels(BaseEstimator):
    """Duels that the label with the nearer centroid wins."""

    def __init__(self, slope=1.0):
        self.slope = slope

    def fit(self, X, feedback, n_classes, sample_weight=None):
        X = validate_data(self, X, dtype=np.float64)
        feedback = np.asarray(feedback)
        first = feedback if feedback.ndim == 1 else np.nanargmin(feedback, axis=1)
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        sums = np.zeros((n_classes, X.shape[1]))
        np.add.at(sums, first, weights[:, np.newaxis] * X)
        self.counts_ = np.bincount(first, weights, minlength=n_classes)
        self.centroids_ = sums / np.maximum(self.counts_, 1e-300)[:, np.newaxis]
        return self

    def margins(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        squared = ((X[:, np.newaxis, :] - self.centroids_) ** 2).sum(axis=2)
        first, second = pairs(len(self.centroids_))
        margins = self.slope * (squared[:, first] - squared[:, second])
        seen = self.counts_ > 0
        return np.where(
            seen[first] & seen[second], margins, seen[second].astype(float) - seen[first]
        )

    def probabilities(self, X):
        return expit(self.margins(X))

    def check_fitted(self, n_classes):
        if self.centroids_.shape != (n_classes, self.n_features_in_):
            raise ValueError("the centroids are not counted right")


class LeastDuels(BaseEstimator):
    """The least that an engine is: two methods, and what it has fitted."""

    def fit(self, X, feedback, n_classes, sample_weight=None):
        feedback = np.asarray(feedback)
        code = feedback if feedback.ndim == 1 else np.nanargmin(feedback, axis=1)
        last = np.asarray(X)[:, -1]
        weights = np.ones(len(last)) if sample_weight is None else sample_weight
        counts = np.maximum(np.bincount(code, weights, minlength=n_classes), 1e-9)
        self.means_ = np.bincount(code, weights * last, minlength=n_classes) / counts
        return self

    def margins(self, X):
        first, second = pairs(len(self.means_))
        middle = (self.means_[first] + self.means_[second]) / 2
        larger = np.sign(self.means_[second] - self.means_[first])
        return larger * (np.asarray(X)[:, [-1]] - middle)


class EncodedDuels(BaseEstimator):
    """Duels over categories: every label has a score for every category."""

    def fit(self, X, feedback, n_classes, sample_weight=None):
        validate_data(self, X, skip_check_array=True)
        self.encoder_ = OneHotEncoder(handle_unknown="ignore").fit(X)
        wins = (feedback[:, np.newaxis] == np.arange(n_classes)).astype(float)
        self.scores_ = self.encoder_.transform(X).T @ wins
        return self

    def margins(self, X):
        first, second = pairs(self.scores_.shape[1])
        scores = self.encoder_.transform(X) @ self.scores_
        return scores[:, second] - scores[:, first]

    def inner_estimator(self):
        return self.encoder_


def name_of(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


ENGINES = {"centroids": CentroidDuels(0.5), "least": LeastDuels()}
STACKS = {
    f"stack with {name}": StackedDuels(
        [
            ("new", engine),
            ("scaled", make_pipeline(StandardScaler(), clone(engine))),
            ("stumps", StumpDuels()),
        ],
        cv=3,
    )
    for name, engine in ENGINES.items()
}
TRUSTED = [name_of(CentroidDuels), name_of(LeastDuels)]


@pytest.fixture(params=[*ENGINES, *STACKS])
def engine(request):
    return clone((ENGINES | STACKS)[request.param])


@pytest.fixture
def ranker(engine):
    return DuelRanker(engine, random_state=0).fit(FRAME, LABELS)


def test_it_is_an_engine(engine):
    assert isinstance(engine, DuelEngine)


def test_it_ranks(ranker):
    order = ranker.predict_order(FRAME)
    assert (order[:, 0] == LABELS).mean() > 0.9
    assert np.array_equal(ranker.classes_, NAMES)
    assert np.array_equal(np.sort(order, axis=1), np.tile(NAMES, (len(X), 1)))
    np.testing.assert_array_equal(predict_order(ranker, FRAME), order)


def test_the_nearest_centroid_is_first():
    ranker = DuelRanker(CentroidDuels(), random_state=0).fit(X, Y)
    centroids = np.stack([X[k == Y].mean(axis=0) for k in range(3)])
    distances = ((X[:, np.newaxis] - centroids) ** 2).sum(axis=2)
    np.testing.assert_array_equal(ranker.predict_order(X), np.argsort(distances, axis=1))
    probabilities = ranker.predict_proba(X)
    np.testing.assert_array_equal(np.argsort(-probabilities, axis=1), ranker.predict_order(X))
    assert not hasattr(DuelRanker(LeastDuels()).fit(X, Y), "predict_proba")


def test_it_learns_from_rankings_and_weights(engine):
    ranks = np.argsort(np.argsort(Y[:, np.newaxis] != np.arange(3), kind="stable")) + 1.0
    ranker = DuelRanker(engine, random_state=0).fit(X, ranks)
    assert (ranker.predict(X) == Y).mean() > 0.8
    # Rows that weigh nothing have other labels: whoever ignores weights is misled by them.
    misleading = np.r_[Y, (Y + 1) % 3, (Y + 2) % 3]
    weights = np.r_[np.ones(len(X)), np.zeros(2 * len(X))]
    weighted = DuelRanker(engine, random_state=0)
    weighted.fit(np.tile(X, (3, 1)), misleading, sample_weight=weights)
    assert (weighted.predict(X) == Y).mean() > 0.8


def test_it_is_searched_and_put_into_pipelines():
    model = make_pipeline(StandardScaler(), DuelRanker(CentroidDuels(), random_state=0))
    search = GridSearchCV(model, {"duelranker__estimator__slope": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert search.best_estimator_[-1].duels_.slope in (0.1, 1.0)
    assert (predict_order(search, X)[:, 0] == Y).mean() > 0.8


def test_a_stack_gives_it_a_weight():
    stack = DuelRanker(clone(STACKS["stack with centroids"]), random_state=0).fit(X, Y).duels_
    assert isinstance(stack.engines_["new"], CentroidDuels)
    assert sum(stack.weights_[name] for name in ("new", "scaled")) > 0


def test_it_needs_all_rows_in_memory_unless_it_says_otherwise(engine):
    points, labels = (RowBlocks([partial(np.copy, values)]) for values in (X, Y))
    with pytest.raises(TypeError, match=f"{type(engine).__name__} needs all rows in memory"):
        DuelRanker(engine).fit(points, labels)


def test_an_engine_that_takes_blocks_gets_them():
    class BlockDuels(LeastDuels):
        takes_blocks = True

        def fit(self, X, feedback, n_classes, sample_weight=None):
            self.X_, self.feedback_ = X, feedback
            self.means_ = np.zeros(n_classes)
            return self

    points, labels = (RowBlocks([partial(np.copy, values)]) for values in (X, Y))
    engine = DuelRanker(BlockDuels()).fit(points, labels).duels_
    assert engine.feedback_ is None
    assert isinstance(engine.X_, LabeledBlocks)
    assert engine.X_.classes.tolist() == [0, 1, 2]


def test_it_is_saved_and_loaded(ranker, tmp_path):
    save(ranker, tmp_path / "model.skops")
    same = load(tmp_path / "model.skops", trusted=TRUSTED)
    np.testing.assert_array_equal(same.decision_function(FRAME), ranker.decision_function(FRAME))
    again = clone(same).fit(FRAME, LABELS)
    np.testing.assert_array_equal(again.decision_function(FRAME), ranker.decision_function(FRAME))
    with pytest.raises(UntrustedTypesError) as caught:
        load(tmp_path / "model.skops")
    assert len(caught.value.names) == 1
    assert caught.value.names[0] in TRUSTED


def test_what_it_fitted_is_checked_when_it_is_loaded(tmp_path):
    path = tmp_path / "model.skops"
    alone = DuelRanker(CentroidDuels(), random_state=0).fit(X, Y)
    stacked = DuelRanker(clone(STACKS["stack with centroids"]), random_state=0).fit(X, Y)
    engines = stacked.duels_.engines_
    for ranker, altered in ((alone, alone.duels_), (stacked, engines["new"])):
        altered.centroids_ = altered.centroids_[1:]
        save(ranker, path)
        with pytest.raises(ModelFileError, match="centroids are not counted right"):
            load(path, trusted=TRUSTED)
    engines["new"] = clone(engines["new"]).fit(X, Y, 3)
    save(stacked, path)
    load(path, trusted=TRUSTED)
    engines["scaled"][-1].centroids_ = np.zeros((3, 3))
    save(stacked, path)
    with pytest.raises(ModelFileError, match="centroids are not counted right"):
        load(path, trusted=TRUSTED)


def test_a_file_cannot_hide_its_check(tmp_path):
    ranker = DuelRanker(CentroidDuels(), random_state=0).fit(X, Y)
    ranker.duels_.centroids_ = ranker.duels_.centroids_[1:]
    ranker.duels_.check_fitted = None
    save(ranker, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="centroids are not counted right"):
        load(tmp_path / "model.skops", trusted=TRUSTED)


def test_a_file_tells_what_its_columns_hold(tmp_path):
    path = tmp_path / "model.skops"
    save(DuelRanker(CentroidDuels(), random_state=0).fit(FRAME, Y), path)
    assert describe(path).columns == dict.fromkeys(COLUMNS, "number")
    codes = pd.DataFrame({"code": NAMES[Y], "flag": Y > 0})
    ranker = DuelRanker(EncodedDuels(), random_state=0).fit(codes, Y)
    save(ranker, path)
    assert describe(path).columns == {"code": "category", "flag": "boolean"}
    same = load(path, trusted=[name_of(EncodedDuels)])
    np.testing.assert_array_equal(same.predict(codes), Y)


def test_its_tournaments_explain_its_rankings(ranker):
    tournaments = ranker.tournament(FRAME)
    assert tournaments.beats.shape == (len(X), 3, 3)
    np.testing.assert_array_equal(tournaments.ranks, ranker.predict_ranks(FRAME))
    assert ranker.predict(FRAME.iloc[:1])[0] in str(tournaments[0])


def test_the_command_ranks_and_explains(ranker, tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("rich")
    invoke = pytest.importorskip("click.testing").CliRunner().invoke
    from duelrank.cli._commands import duelrank as command

    model, data = str(tmp_path / "model.skops"), str(tmp_path / "data.csv")
    save(ranker, model, target="kind")
    FRAME.assign(kind=LABELS).to_csv(data, index=False)
    trust = [word for name in TRUSTED for word in ("--trust", name)]
    explained = invoke(command, ["explain", model, data, "--row", "60", *trust])
    assert explained.exit_code == 0, explained.output
    assert "its label is versicolor" in " ".join(explained.output.split())
    lines = [line.split() for line in explained.output.splitlines()]
    placed = [words[1] for words in lines if words and words[0] in ("1", "2", "3")]
    assert placed == ranker.predict_order(FRAME)[60].tolist()
    ranked = invoke(command, ["rank", model, data, "--top", "1", *trust])
    assert ranked.exit_code == 0, ranked.output
    assert all(name in ranked.output for name in NAMES)
    refused = invoke(command, ["explain", model, data, "--row", "60"])
    assert refused.exit_code == 1
    assert "holds types whose contents duelrank cannot check" in " ".join(refused.output.split())


def test_a_report_is_written_about_it(ranker, tmp_path):
    path = write_report(ranker, FRAME, LABELS, tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    assert type(ranker.duels_).__name__ in page
    assert "Right label first" in page
    assert "The hardest label pairs" in page
