"""Rankers fitted from sparse ranks: the same as from dense ones, and engines that take them."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, StumpDuels
from duelrank.competitors import LabelwiseRanker
from duelrank.feedback import SparseRanks
from duelrank.posteriors import sample_plackett_luce
from duelrank.rankings import ranks_from_choices, ranks_from_lists, ranks_from_sets
from duelrank.scoring import kendall_tau_scorer

N, D, K = 150, 3, 5
NAMES = ["e", "a", "c", "b", "d"]
POINTS = np.random.default_rng(0).normal(size=(N, D))
WEIGHTS = np.exp(POINTS @ np.random.default_rng(1).normal(size=(D, K)))
RANKS = sample_plackett_luce(WEIGHTS, random_state=0)


def choices(sparse=False):
    """Three of five labels are shown, and the best of these is picked."""
    rng = np.random.default_rng(2)
    shown = np.array([rng.permutation(K)[:3] for _ in range(N)])
    best = np.take_along_axis(RANKS, shown, axis=1).argmin(axis=1)
    names = np.array(NAMES)[shown]
    return ranks_from_choices(names, names[np.arange(N), best], NAMES, sparse=sparse)


class RecordingDuels(StumpDuels):
    """An engine that keeps its feedback, and learns from dense ranks."""

    def fit(self, X, feedback, n_classes, sample_weight=None):
        self.feedback_ = feedback
        if isinstance(feedback, SparseRanks):
            feedback = feedback.dense()
        return super().fit(X, feedback, n_classes, sample_weight)


class SparseDuels(RecordingDuels):
    takes_sparse_feedback = True


@pytest.mark.parametrize("unplaced", ["behind", "unknown"])
@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array"])
def test_sparse_ranks_give_the_same_ranker(unplaced, form):
    dense, stored = choices(), getattr(sparse, form)(choices(sparse=True))
    for made in (DuelRanker, LabelwiseRanker):
        ranker = made(unplaced=unplaced, classes=NAMES, random_state=0)
        expected = ranker.fit(POINTS, dense).decision_function(POINTS)
        score = ranker.score(POINTS, dense)
        ranker.fit(POINTS, stored)
        assert ranker.unplaced_ == unplaced
        assert ranker.rank_columns_.tolist() == NAMES
        np.testing.assert_array_equal(ranker.decision_function(POINTS), expected)
        assert ranker.score(POINTS, stored) == score
        assert kendall_tau_scorer()(ranker, POINTS, stored) == score


def test_columns_without_names_are_numbers():
    lists = ranks_from_lists([[0, 2], [1, 0], [2, 1]], range(3), sparse=True)
    ranker = DuelRanker(unplaced="behind", random_state=0).fit(POINTS[:3], lists)
    assert ranker.classes_.tolist() == [0, 1, 2]


def test_an_engine_gets_sparse_ranks_if_it_takes_them():
    dense, stored = choices(), choices(sparse=True)
    models = {}
    for engine in (RecordingDuels(), SparseDuels()):
        ranker = DuelRanker(engine, unplaced="unknown", classes=NAMES, random_state=0)
        models[type(engine)] = ranker.fit(POINTS, stored)
    sorted_ranks = dense[:, np.argsort(NAMES)]
    np.testing.assert_array_equal(models[RecordingDuels].duels_.feedback_, sorted_ranks)
    told = models[SparseDuels].duels_.feedback_
    assert isinstance(told, SparseRanks)
    assert told.unplaced == "unknown"
    np.testing.assert_array_equal(told.dense(), sorted_ranks)
    np.testing.assert_array_equal(*(model.predict_ranks(POINTS) for model in models.values()))
    # Dense ranks and labels stay what they are.
    assert isinstance(ranker.fit(POINTS, dense).duels_.feedback_, np.ndarray)


def test_single_labels_become_codes():
    labels = RANKS.argmin(axis=1)
    stored = ranks_from_sets([[label] for label in labels], range(K), sparse=True)
    ranker = DuelRanker(SparseDuels(), random_state=0).fit(POINTS, stored)  # and no warning
    np.testing.assert_array_equal(ranker.duels_.feedback_, labels)
    by_label = DuelRanker(SparseDuels(), random_state=0).fit(POINTS, labels)
    np.testing.assert_array_equal(by_label.predict_ranks(POINTS), ranker.predict_ranks(POINTS))


def test_silent_rows_are_counted():
    stored = sparse.lil_array(choices(sparse=True))
    stored[3] = 0
    ranker = DuelRanker(unplaced="unknown", random_state=0)
    with pytest.warns(UserWarning, match=r"^1 of 150 rows of y place no label ahead") as told:
        ranker.fit(POINTS, stored)
    assert told[0].filename == __file__
    assert ranker.n_silent_rows_ == 1
    with pytest.raises(ValueError, match="no row does, labels without a place being anywhere"):
        ranker.fit(POINTS, sparse.csr_array(np.eye(K)[RANKS.argmin(axis=1)]))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (sparse.csr_array((N, 1)), r"y must have a column for every label, .* got shape \(150, 1"),
        (sparse.csr_array((N, K)), "y must place one label ahead of another in at least one row"),
        (sparse.csr_array(np.full((N, K), 7)), "^y must hold places from 1 to 5"),
        (sparse.csr_array((N - 1, K)), "inconsistent numbers of samples"),
        (sparse.csr_array(RANKS[:, :3]), "^y must have one column per label: 5, got 3"),
    ],
)
def test_bad_sparse_feedback(y, message):
    ranker = DuelRanker(classes=NAMES)
    with pytest.raises(ValueError, match=message):
        ranker.fit(POINTS, y)
    assert not hasattr(ranker, "duels_")


@pytest.mark.parametrize("made", [DuelRanker, LabelwiseRanker])
def test_sparse_ranks_that_would_fill_the_memory_are_refused(made, monkeypatch):
    monkeypatch.setattr("duelrank.feedback.bytes_of_memory", lambda: 2 * 8 * N * K - 1)
    ranker = made(unplaced="unknown")
    message = r"150 rows and 5 labels .* half of the memory; .* DuelRanker\(AnchoredDuels\(rivals=0"
    with pytest.raises(ValueError, match=message):
        ranker.fit(POINTS, choices(sparse=True))
    DuelRanker(SparseDuels(), unplaced="unknown").fit(POINTS, choices(sparse=True))


def test_searches_take_rows_of_sparse_ranks():
    """The cross_val_score of scikit-learn refuses sparse y; its searches do not."""
    model = make_pipeline(StandardScaler(), DuelRanker(unplaced="unknown", random_state=0))
    grid = {"duelranker__aggregation": ["copeland", "coupling"]}
    scores = [
        GridSearchCV(model, grid, cv=KFold(3)).fit(POINTS, y).cv_results_["mean_test_score"]
        for y in (choices(), choices(sparse=True))
    ]
    np.testing.assert_array_equal(*scores)
    assert scores[0].min() > 0.3
