from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from duelrank import consensus, pairs, predict_ranks
from duelrank.competitors import (
    LabelwiseRanker,
    MulticlassRanker,
    NeighborsRanker,
    RankingForest,
    RankingTree,
    StructuredRanker,
    SubsetRanker,
)
from duelrank.competitors._embeddings import (
    expected_places,
    lehmer_codes,
    permutation_matrices,
    ranks_from_lehmer_codes,
    ranks_from_matrices,
)
from duelrank.competitors._structured import _Kernel, _regress
from duelrank.feedback import check_feedback, outcomes
from duelrank.losses import kendall_tau
from duelrank.rankings import ranks_from_scores
from random_duels import random_ranks

COMPETITORS = [
    NeighborsRanker(5, random_state=0),
    RankingTree(random_state=0),
    RankingForest(10, random_state=0),
    StructuredRanker("kemeny", random_state=0),
    StructuredRanker("hamming", random_state=0),
    StructuredRanker("lehmer", random_state=0),
    SubsetRanker(random_state=0),
    SubsetRanker(size=3, random_state=0),
    LabelwiseRanker(random_state=0),
    MulticlassRanker(random_state=0),
]
every_competitor = pytest.mark.parametrize("ranker", COMPETITORS, ids=repr)


@pytest.fixture
def table(rng):
    """Rankings of five labels by how far points lie in their directions, with noise."""
    X = rng.normal(size=(120, 2))
    angles = np.array([0.0, 1.1, 2.6, 3.7, 5.0])
    scores = X @ np.stack([np.cos(angles), np.sin(angles)]) + 0.2 * rng.normal(size=(120, 5))
    return X, ranks_from_scores(scores).astype(float)


def only_top(ranks, m):
    return np.where(ranks <= m, ranks, np.nan)


def missing_at_random(ranks, rng, share=0.4):
    hidden = rng.random(ranks.shape) < share
    hidden[hidden.sum(axis=1) > ranks.shape[1] - 2] = False  # every row says something
    return np.where(hidden, np.nan, ranks)


# Neighbours are counted and not weighed, and so are rows drawn for a forest's trees.
NOT_WEIGHED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "rows are counted, not weighed"
    for kind in ("dense", "sparse")
}


def expected_failures(ranker):
    return NOT_WEIGHED if isinstance(ranker, (NeighborsRanker, RankingForest)) else {}


@parametrize_with_checks(
    [
        NeighborsRanker(),
        RankingTree(min_samples_leaf=1),
        RankingForest(10),
        StructuredRanker("kemeny"),
        StructuredRanker("hamming", gamma=1.0, penalty=0.1),
        StructuredRanker("lehmer", gamma=1.0, penalty=0.1),
        SubsetRanker(),
        SubsetRanker(size=3),
        LabelwiseRanker(),
        MulticlassRanker(),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Feedback


@every_competitor
def test_labels_are_one_label_rankings(ranker, table):
    X, ranks = table
    labels = ranks.argmin(axis=1)
    assert len(np.unique(labels)) == 5
    from_labels = ranker.fit(X, labels).decision_function(X)
    from_ranks = ranker.fit(X, only_top(ranks, 1)).decision_function(X)
    np.testing.assert_array_equal(from_labels, from_ranks)


@every_competitor
@pytest.mark.parametrize("feedback", ["full", "top", "missing", "tied", "labels"])
def test_all_feedback_is_learned_from(ranker, feedback, table, rng):
    X, ranks = table
    y = {
        "full": ranks,
        "top": only_top(ranks, 3),
        "missing": missing_at_random(ranks, rng),
        "tied": np.where(ranks <= 2, 1, ranks),
        "labels": ranks.argmin(axis=1),
    }[feedback]
    # It learns nothing where the first place is shared everywhere.
    if isinstance(ranker, MulticlassRanker) and feedback == "tied":
        y[:60] = ranks[:60]
    predicted = ranker.fit(X, y).predict_ranks(X)
    np.testing.assert_array_equal(np.sort(predicted, axis=1), np.tile(np.arange(1, 6), (120, 1)))
    tau = kendall_tau(ranks, predicted).mean()
    assert tau > {"full": 0.55, "top": 0.5, "missing": 0.35, "tied": 0.45, "labels": 0.2}[feedback]


@every_competitor
def test_rows_that_weigh_or_say_nothing_leave_no_trace(ranker, table):
    X, ranks = table
    expected = ranker.fit(X[:80], ranks[:80], np.ones(80)).decision_function(X)
    weighed = ranker.fit(X, ranks, sample_weight=np.arange(120) < 80).decision_function(X)
    np.testing.assert_allclose(weighed, expected, atol=1e-6)
    ranks[80:] = np.nan
    with pytest.warns(UserWarning, match="40 of 120 rows of y"):
        silent = ranker.fit(X, ranks, np.ones(120)).decision_function(X)
    np.testing.assert_allclose(silent, expected, atol=1e-6)
    assert ranker.n_silent_rows_ == 40


@every_competitor
def test_columns_of_dataframes_and_classes_name_labels(ranker, table):
    X, ranks = table
    names = ["d", "a", "c", "e", "b"]
    ranker.fit(X, pd.DataFrame(ranks, columns=names))
    assert ranker.classes_.tolist() == ["a", "b", "c", "d", "e"]
    tops = np.array(names)[ranks.argmin(axis=1)]
    assert np.mean(ranker.predict(X) == tops) > 0.5
    named = type(ranker)(**{**ranker.get_params(), "classes": names}).fit(X, ranks)
    np.testing.assert_array_equal(named.predict_order(X), ranker.predict_order(X))


@every_competitor
def test_works_in_pipelines_and_searches(ranker, table):
    X, ranks = table
    pipeline = make_pipeline(StandardScaler(), ranker)
    assert cross_val_score(pipeline, X, ranks, cv=KFold(3)).mean() > 0.35
    assert predict_ranks(pipeline.fit(X, ranks), X[:3]).shape == (3, 5)
    search = GridSearchCV(
        ranker, {"unplaced": ["behind", "unknown"]}, cv=KFold(2), error_score="raise"
    )
    assert search.fit(X, only_top(ranks, 4)).best_score_ > 0.35


@every_competitor
def test_no_label_is_favoured_for_its_index(ranker):
    # Nothing tells labels 1 and 2 apart; over seeds either one leads.
    X = np.array([[0.0], [1.0], [2.0], [3.0], [0.5], [1.5], [2.5], [3.5]])
    ranks = np.array([[1, 2, 2]] * 4 + [[3, 1, 1]] * 4)
    if isinstance(ranker, MulticlassRanker):
        ranks = np.array([[1, 2, 2]] * 8)
    leads = []
    for seed in range(20):
        order = ranker.set_params(random_state=seed).fit(X, ranks).predict_ranks(X[:1])[0]
        leads.append(order[1] < order[2])
    ranker.set_params(random_state=0)
    assert 0 < np.sum(leads) < 20


# Embeddings


def completions(row):
    """All full rankings that agree with a row of feedback."""
    for full in permutations(range(1, len(row) + 1)):
        if all(
            not (row[a] < row[b]) or full[a] < full[b]
            for a in range(len(row))
            for b in range(len(row))
        ):
            yield np.array(full, dtype=float)


PARTIAL_ROWS = st.tuples(
    st.permutations([1, 2, 3, 4, 5]), st.lists(st.booleans(), min_size=5, max_size=5), st.booleans()
)


def partial_row(drawn):
    places, hidden, tied = drawn
    row = np.where(hidden, np.nan, np.array(places, dtype=float))
    return np.where(row <= 2, 1, row) if tied else row


@given(PARTIAL_ROWS)
def test_embeddings_average_over_completions(drawn):
    row = partial_row(drawn)[np.newaxis]
    full = np.array(list(completions(row[0])))
    placed = ~np.isnan(row[0])
    np.testing.assert_allclose(expected_places(row)[0, placed], full.mean(axis=0)[placed])
    assert np.isnan(expected_places(row)[0, ~placed]).all()
    np.testing.assert_allclose(
        permutation_matrices(row)[0],
        (full[:, :, np.newaxis] == np.arange(1, 6)).mean(axis=0),
        atol=1e-12,
    )
    np.testing.assert_allclose(lehmer_codes(row)[0], lehmer_codes(full).mean(axis=0), atol=1e-12)


def test_lehmer_codes_count_lower_codes_behind():
    np.testing.assert_array_equal(lehmer_codes(np.array([[2.0, 3.0, 1.0]])), [[0, 0, 2]])


@given(st.permutations(range(1, 7)))
def test_embeddings_round_trip(ranks):
    ranks = np.array([ranks], dtype=float)
    np.testing.assert_array_equal(ranks_from_lehmer_codes(lehmer_codes(ranks)), ranks)
    np.testing.assert_array_equal(ranks_from_matrices(permutation_matrices(ranks)), ranks)


def embed(ranks, embedding):
    vectors = {"kemeny": outcomes, "hamming": permutation_matrices, "lehmer": lehmer_codes}
    return vectors[embedding](ranks).reshape(len(ranks), -1)


@pytest.mark.parametrize("embedding", ["kemeny", "hamming", "lehmer"])
def test_the_ranking_with_the_closest_vector_is_predicted(embedding, rng):
    X = rng.normal(size=(40, 3))
    ranks = random_ranks(rng, 40, 4)  # pure noise, so that predictions are far from rankings
    points = rng.normal(size=(200, 3))
    ranker = StructuredRanker(embedding, penalty=1e-3, random_state=3).fit(X, ranks)
    vectors = ranker._regression.predict(points)
    every = np.array(list(permutations(range(1, 5))), dtype=float)
    distances = ((vectors[:, np.newaxis] - embed(every, embedding)) ** 2).sum(axis=2)
    closest = every[distances.argmin(axis=1)][:, np.argsort(ranker.label_order_)]
    np.testing.assert_array_equal(ranker.predict_ranks(points), closest)


@pytest.mark.parametrize("decoder", ["copeland", "borda"])
def test_signs_can_be_counted_or_summed(decoder, rng):
    X, ranks = rng.normal(size=(40, 3)), random_ranks(rng, 40, 4)
    ranker = StructuredRanker(decoder=decoder, random_state=0).fit(X, ranks)
    signs = ranker._regression.predict(X)
    scores = np.zeros((40, 4))
    for duel, (a, b) in enumerate(zip(*pairs(4))):
        speaks = np.sign(signs[:, duel]) if decoder == "copeland" else signs[:, duel]
        scores[:, b] += speaks
        scores[:, a] -= speaks
    scores = scores[:, np.argsort(ranker.label_order_)]
    predicted = -ranker.predict_ranks(X)
    for a, b in combinations(range(4), 2):
        gap = scores[:, a] - scores[:, b]
        told = np.abs(gap) > 1e-6
        np.testing.assert_array_equal(
            np.sign(predicted[:, a] - predicted[:, b])[told], np.sign(gap)[told]
        )


def test_kernel_features_are_exact(rng):
    X = rng.normal(size=(30, 2))
    features = _Kernel(X, 0.7).features(X)
    np.testing.assert_allclose(features @ features.T, rbf_kernel(X, gamma=0.7), atol=1e-7)


def test_regression_is_ridge_and_its_error_is_that_of_leaving_rows_out(rng):
    X, vectors = rng.normal(size=(25, 2)), rng.normal(size=(25, 3))
    weights = rng.uniform(0.5, 2, size=25)
    kernel = _Kernel(X, 0.5)
    features = kernel.features(X)
    fitted = {p: _regress(kernel, X, vectors, weights, [p]) for p in (0.01, 1.0)}
    for penalty, ours in fitted.items():
        theirs = Ridge(penalty).fit(features, vectors, sample_weight=weights)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(features), atol=1e-8)
        error = 0.0
        for i in range(25):
            others = np.arange(25) != i
            one_out = Ridge(penalty).fit(features[others], vectors[others], weights[others])
            error += weights[i] * np.sum((vectors[i] - one_out.predict(features[[i]])) ** 2)
        np.testing.assert_allclose(ours.error, error, rtol=1e-6)
    best = min(fitted, key=lambda penalty: fitted[penalty].error)
    assert _regress(kernel, X, vectors, weights, [0.01, 1.0]).penalty == best


def test_few_rows_may_span_the_regression(table):
    X, ranks = table
    exact = StructuredRanker(gamma=1.0, penalty=0.1, random_state=0).fit(X, ranks)
    fewer = StructuredRanker(gamma=1.0, penalty=0.1, n_components=60, random_state=0).fit(X, ranks)
    assert len(fewer._regression.kernel.basis) == 60
    gaps = np.abs(fewer._regression.predict(X) - exact._regression.predict(X))
    assert 0 < gaps.mean() < 0.01
    assert (exact.gamma_, exact.penalty_) == (1.0, 0.1)


# Local medians


@pytest.mark.parametrize("median", ["borda", "copeland", "kemeny", "plackett_luce"])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_neighbors_ranker_is_a_loop_over_points(median, weights, table, rng):
    X, ranks = table
    ranks = missing_at_random(ranks, rng, 0.2)
    row_weights = rng.uniform(0.5, 2, size=120)
    points = rng.normal(size=(30, 2))
    ranker = NeighborsRanker(
        8, weights=weights, consensus=median, unplaced="unknown", random_state=1
    ).fit(X, ranks, row_weights)
    predicted = ranker.predict_ranks(points)
    for point, ours in zip(points, predicted):
        distances = np.linalg.norm(X - point, axis=1)
        near = np.argsort(distances)[:8]
        shares = row_weights[near]
        if weights == "distance":
            shares = shares / distances[near] * distances[near].min()
        drawn = ranks[near][:, ranker.label_order_]
        if median == "plackett_luce":
            fitted = consensus.plackett_luce(drawn, shares, unplaced="unknown", penalty=0.1)
            theirs = ranks_from_scores(np.round(np.log(fitted), 8))
        else:
            won = consensus.duels_won_by_group(drawn[np.newaxis], shares[np.newaxis])
            theirs = consensus.MEDIANS[median](won, np.arange(5))[0]
        np.testing.assert_array_equal(ours[ranker.label_order_], theirs)


def test_a_row_at_no_distance_outweighs_all_others():
    X, ranks = [[0], [1], [2]], [[1, 2, 3], [3, 2, 1], [3, 2, 1]]
    ranker = NeighborsRanker(3, weights="distance", random_state=0).fit(X, ranks)
    np.testing.assert_array_equal(ranker.predict_ranks([[0], [0.9]]), [[1, 2, 3], [3, 2, 1]])


@pytest.mark.parametrize("median", ["borda", "copeland", "kemeny"])
def test_leaves_hold_medians(median, table, rng):
    X, ranks = table
    row_weights = rng.uniform(0.5, 2, size=120)
    tree = RankingTree(min_samples_leaf=7, consensus=median, random_state=0)
    predicted = tree.fit(X, ranks, row_weights).predict_ranks(X)
    leaves = tree.tree_.apply(X)
    assert len(np.unique(leaves)) > 3
    for leaf in np.unique(leaves):
        drawn = ranks[leaves == leaf][:, tree.label_order_]
        won = consensus.duels_won_by_group(
            drawn[np.newaxis], row_weights[leaves == leaf][np.newaxis]
        )
        theirs = consensus.MEDIANS[median](won, np.arange(5))
        ours = predicted[leaves == leaf][:, tree.label_order_]
        np.testing.assert_array_equal(ours, np.broadcast_to(theirs, ours.shape))


def test_forest_ranks_by_mean_places_of_its_medians(table):
    X, ranks = table
    forest = RankingForest(7, min_samples_leaf=4, random_state=0).fit(X, ranks)
    places = np.zeros((120, 5))
    for leaves in forest.forest_.apply(X).T:
        for leaf in np.unique(leaves):
            in_leaf = leaves == leaf
            won = consensus.duels_won_by_group(ranks[in_leaf][np.newaxis])
            scores = consensus.borda_scores(won)[0]
            ahead = (scores[:, np.newaxis] < scores).sum(axis=1)
            tied = (scores[:, np.newaxis] == scores).sum(axis=1) - 1
            places[in_leaf] += 1 + ahead + tied / 2
    in_drawn_order = ranks_from_scores(-places[:, forest.label_order_])
    np.testing.assert_array_equal(forest.predict_ranks(X)[:, forest.label_order_], in_drawn_order)


def test_leaves_of_a_forest_leave_open_what_their_rows_do():
    # Where x is 0, no row places label 2, and no tree says that it is between 0 and 1.
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    ranks = np.repeat([[1, 2, np.nan], [1, 2, 3]], 10, axis=0)
    forest = RankingForest(5, unplaced="unknown", random_state=0).fit(X, ranks)
    scores = forest.decision_function([[0.0], [1.0]])
    np.testing.assert_allclose(scores, [[5, -5, 0], [10, 0, -10]])


def test_splits_are_on_expected_places(rng):
    # Unknown places are set to the mean and split nothing off; known ones do.
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 5)
    ranks = np.where(X[:, [0]] == 0, [1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    ranks[X[:, 1] == 1, 1] = np.nan
    tree = RankingTree(max_depth=1, unplaced="unknown", random_state=0).fit(X, ranks)
    assert tree.tree_.tree_.feature[0] == 0


# Decompositions


def revealed(ranks, a, b):
    rows = ~np.isnan(ranks[:, a]) & ~np.isnan(ranks[:, b]) & (ranks[:, a] != ranks[:, b])
    return rows, ranks[:, b] < ranks[:, a]


def test_pairs_vote(table, rng):
    X, ranks = table
    ranks = missing_at_random(ranks, rng)
    votes, sums = np.zeros((120, 5)), np.zeros((120, 5))
    for a, b in combinations(range(5), 2):
        rows, second_wins = revealed(ranks, a, b)
        vote = RidgeClassifier().fit(X[rows], second_wins[rows]).predict(X)
        votes[:, b] += vote
        votes[:, a] += ~vote
        chance = LogisticRegression(max_iter=1000).fit(X[rows], second_wins[rows])
        sums[:, b] += chance.predict_proba(X)[:, 1]
        sums[:, a] += chance.predict_proba(X)[:, 0]
    by_votes = SubsetRanker(RidgeClassifier(), unplaced="unknown", random_state=0).fit(X, ranks)
    order = by_votes.label_order_
    np.testing.assert_array_equal(
        by_votes.predict_ranks(X)[:, order], ranks_from_scores(votes[:, order])
    )
    by_sums = SubsetRanker(unplaced="unknown", random_state=0).fit(X, ranks)
    np.testing.assert_array_equal(by_sums.predict_ranks(X), ranks_from_scores(sums))


def test_triples_are_classified_by_their_order(table, rng):
    X, ranks = table
    ranks = missing_at_random(ranks, rng, 0.1)
    scores = np.zeros((120, 5))
    for triple in map(list, combinations(range(5), 3)):
        rows = ~np.isnan(ranks[:, triple]).any(axis=1)
        orders = ["".join(map(str, row)) for row in np.argsort(ranks[rows][:, triple], axis=1)]
        classifier = KNeighborsClassifier(9).fit(X[rows], orders)
        for order, chance in zip(classifier.classes_, classifier.predict_proba(X).T):
            for place, label in enumerate(order):
                scores[:, triple[int(label)]] += (2 - place) * chance
    ranker = SubsetRanker(KNeighborsClassifier(9), size=3, unplaced="unknown", random_state=0)
    order = ranker.fit(X, ranks).label_order_
    np.testing.assert_array_equal(
        ranker.predict_ranks(X)[:, order], ranks_from_scores(np.round(scores, 8)[:, order])
    )


def test_triples_of_labels_are_multinomial(iris):
    X, y = iris
    subset = SubsetRanker(size=3, random_state=0).fit(X, y)
    multiclass = MulticlassRanker(random_state=0).fit(X, y)
    np.testing.assert_array_equal(subset.predict_order(X), multiclass.predict_order(X))


def test_subsets_that_no_row_or_one_order_tells():
    # 0 is always ahead of 1; 2 and 3 never meet.
    ranks = [[1, 2, 3, np.nan], [1, 2, np.nan, 4]] * 4
    X = np.arange(8.0)[:, np.newaxis]
    ranker = SubsetRanker(unplaced="unknown", random_state=0).fit(X, ranks)
    assert ranker.estimators_ == [None] * 6
    assert ranker.predict_ranks(X)[:, :2].tolist() == [[1, 2]] * 8


def test_labelwise_regressions(table, rng):
    X, ranks = table
    ranks = missing_at_random(ranks, rng)
    places = expected_places(ranks)
    weights = rng.uniform(0.5, 2, size=120)
    predictions = np.zeros((120, 5))
    for label in range(5):
        rows = ~np.isnan(ranks[:, label])
        regressor = LinearRegression().fit(X[rows], places[rows, label], weights[rows])
        predictions[:, label] = regressor.predict(X)
    ranker = LabelwiseRanker(LinearRegression(), unplaced="unknown", random_state=0)
    ranker.fit(X, ranks, weights)
    np.testing.assert_array_equal(ranker.predict_ranks(X), ranks_from_scores(-predictions))


def test_labels_that_no_row_places_are_in_the_middle():
    X, ranks = [[0], [1]], [[1, 3, np.nan], [1, 3, np.nan]]
    ranker = LabelwiseRanker(random_state=0).fit(X, ranks)
    assert ranker.predict_ranks([[0.5]]).tolist() == [[1, 3, 2]]


def test_labels_missing_at_random_shrink_places_alike(rng):
    # Where half of four labels are missing, the first is expected at 1·5/(m + 1) for m labels.
    ranks = np.tile([1.0, 2.0, 3.0, 4.0], (20_000, 1))
    two_hidden = np.argsort(rng.random(ranks.shape), axis=1) < 2
    places = expected_places(np.where(two_hidden, np.nan, ranks))
    # A label is first or second of two: at 5/3 or 10/3, first if the other one is behind it.
    expected = 5 / 3 + 5 / 3 * np.arange(4) / 3
    standard_error = 5 / 6 / np.sqrt(10_000 * 0.9)
    np.testing.assert_allclose(np.nanmean(places, axis=0), expected, atol=5 * standard_error)


def test_multiclass_scores_rank_and_other_labels_come_last(table):
    X, ranks = table
    reference = LogisticRegression(max_iter=1000).fit(X, ranks.argmin(axis=1))
    ranker = MulticlassRanker(random_state=0).fit(X, ranks)
    np.testing.assert_array_equal(ranker.predict_ranks(X), predict_ranks(reference, X))
    seen = ranks[ranks[:, 3] > 1]
    ranker = MulticlassRanker(DecisionTreeClassifier(), random_state=0)
    ranker.fit(X[ranks[:, 3] > 1], seen)
    assert set(ranker.predict_ranks(X)[:, 3]) == {5}
    always_first = MulticlassRanker(random_state=0).fit(X, np.tile([2, 3, 1], (120, 1)))
    assert set(always_first.predict(X)) == {2}


def test_rows_without_one_first_label_are_left_out(table):
    X, ranks = table
    tied = ranks.copy()
    tied[:40] = np.where(ranks[:40] <= 2, 1, ranks[:40])
    ours = MulticlassRanker(random_state=0).fit(X, tied).decision_function(X)
    np.testing.assert_allclose(
        ours, MulticlassRanker(random_state=0).fit(X[40:], ranks[40:]).decision_function(X)
    )
    with pytest.raises(ValueError, match="y must place one label ahead of all others"):
        MulticlassRanker().fit(X, np.where(ranks <= 2, 1, ranks))


# Reproducible, and clear about what is wrong


@pytest.mark.parametrize(
    "ranker",
    [
        RankingForest(8, random_state=5),
        SubsetRanker(DecisionTreeClassifier(max_features=1), size=3, random_state=5),
        LabelwiseRanker(RandomForestRegressor(5), random_state=5),
    ],
    ids=repr,
)
def test_same_seed_same_scores_whatever_the_jobs(ranker, table):
    X, ranks = table
    once = ranker.set_params(n_jobs=1).fit(X, ranks).decision_function(X)
    again = ranker.set_params(n_jobs=2).fit(X, ranks).decision_function(X)
    np.testing.assert_array_equal(once, again)


def test_silent_rows_are_named_where_fit_is_called(table):
    X, ranks = table
    ranks[0] = np.nan
    with pytest.warns(UserWarning, match="1 of 120 rows") as caught:
        LabelwiseRanker().fit(X, ranks)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (NeighborsRanker(0), "n_neighbors must be a positive integer, got 0"),
        (NeighborsRanker(weights="near"), "weights must be one of 'uniform', 'distance'"),
        (NeighborsRanker(consensus="mean"), "consensus must be one of 'borda'"),
        (RankingTree(consensus="plackett_luce"), "consensus must be one of 'borda'"),
        (RankingForest(2, consensus=None), "consensus must be one of 'borda'"),
        (StructuredRanker("spearman"), "embedding must be one of 'kemeny', 'hamming', 'lehmer'"),
        (StructuredRanker("lehmer", decoder="borda"), "decoder must be one of 'auto', 'insertion'"),
        (StructuredRanker(gamma=()), r"gamma must be a positive number, or several; got \(\)"),
        (StructuredRanker(penalty=-1.0), "penalty must be a positive number, or several; got -1"),
        (StructuredRanker(penalty="low"), "penalty must be a positive number, or several"),
        (StructuredRanker(n_components=0), "n_components must be a positive integer, got 0"),
        (SubsetRanker(size=4), "size must be 2 or 3, got 4"),
        (LabelwiseRanker(unplaced="last"), "unplaced must be one of 'auto', 'behind', 'unknown'"),
    ],
    ids=repr,
)
def test_wrong_parameters(ranker, message, table):
    with pytest.raises(ValueError, match=message):
        ranker.fit(*table)
    assert not hasattr(ranker, "classes_")


@pytest.mark.parametrize(
    "ranker",
    [
        SubsetRanker(LinearRegression()),
        MulticlassRanker(LogisticRegression),
        LabelwiseRanker(RidgeClassifier()),
    ],
    ids=repr,
)
def test_wrong_estimators(ranker, table):
    with pytest.raises(TypeError, match=r"estimator must be an instance of a (class|regress)"):
        ranker.fit(*table)


def test_weights_that_cannot_be_used(table):
    X, ranks = table
    with pytest.raises(ValueError, match="KNeighborsRegressor does not support sample weights"):
        LabelwiseRanker(KNeighborsRegressor()).fit(X, ranks, np.ones(120))
    pipeline = make_pipeline(StandardScaler(), Ridge())
    weights = 1.0 + np.arange(120)
    weighed = LabelwiseRanker(pipeline, random_state=0).fit(X, ranks, weights)
    theirs = pipeline.fit(X, ranks[:, 0], ridge__sample_weight=weights).predict(X)
    np.testing.assert_allclose(-weighed._label_scores(X)[:, 0], theirs, atol=1e-9)
    ranks[60:] = np.nan
    message = "sample_weight must be positive for a row"
    with pytest.warns(UserWarning, match="60 of"), pytest.raises(ValueError, match=message):
        LabelwiseRanker().fit(X, ranks, np.arange(120) >= 60)


def test_plackett_luce_takes_ties_at_the_end_only(table):
    X, ranks = table
    ranker = NeighborsRanker(consensus="plackett_luce", random_state=0)
    assert ranker.fit(X, np.minimum(ranks, 4)).score(X, ranks) > 0.5
    with pytest.raises(ValueError, match="takes no ties but those at the end"):
        ranker.fit(X, np.maximum(ranks, 2) - (ranks <= 2))


@pytest.mark.parametrize("ranker", COMPETITORS[:3], ids=repr)
def test_sparse_points(ranker, table):
    X, ranks = table
    dense = ranker.fit(X, ranks).predict_ranks(X)
    np.testing.assert_array_equal(ranker.fit(csr_array(X), ranks).predict_ranks(X), dense)


def test_feedback_is_what_it_is_elsewhere():
    # The embeddings rely on labels behind a list sharing a place.
    ranks = check_feedback([[1, np.nan, 2, np.nan]]).ranks
    np.testing.assert_allclose(expected_places(ranks), [[1, 3.5, 2, 3.5]])
