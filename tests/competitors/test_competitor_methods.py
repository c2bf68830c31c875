"""What each competitor computes, against loops, brute force and scikit-learn."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from duelrank import pairs, predict_ranks
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
from duelrank.competitors._trees import _complete_places
from duelrank.consensus import plackett_luce
from duelrank.consensus._medians import MEDIANS, borda_scores
from duelrank.feedback import check_feedback, duels_won, outcomes
from duelrank.rankings import ranks_from_scores
from random_duels import missing_at_random, random_ranks, ranked_points


@pytest.fixture
def table(rng):
    return ranked_points(rng)


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


def test_feedback_is_what_it_is_elsewhere():
    # The embeddings rely on labels behind a list sharing a place.
    ranks = check_feedback([[1, np.nan, 2, np.nan]]).ranks
    np.testing.assert_allclose(expected_places(ranks), [[1, 3.5, 2, 3.5]])


def test_few_rows_may_span_the_regression(table):
    X, ranks = table
    exact = StructuredRanker(gamma=1.0, penalty=0.1, random_state=0).fit(X, ranks)
    fewer = StructuredRanker(gamma=1.0, penalty=0.1, n_components=60, random_state=0).fit(X, ranks)
    assert len(fewer._regression.kernel.centres) == 60
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
        shares = row_weights[near] / row_weights.mean()
        if weights == "distance":
            shares = shares / distances[near] * distances[near].min()
        drawn = ranks[near][:, ranker.label_order_]
        if median == "plackett_luce":
            fitted = plackett_luce(drawn, shares, unplaced="unknown", penalty=0.1)
            theirs = ranks_from_scores(np.round(np.log(fitted), 8))
        else:
            theirs = ranks_from_scores(MEDIANS[median](duels_won(drawn, shares)[np.newaxis]))[0]
        np.testing.assert_array_equal(ours[ranker.label_order_], theirs)


@pytest.mark.parametrize("median", ["borda", "copeland", "kemeny", "plackett_luce"])
def test_neighbors_ranker_knows_no_unit_of_weight(median, table, rng):
    X, ranks = table
    weights = rng.uniform(0.5, 2, size=120)
    ranker = NeighborsRanker(consensus=median, random_state=0)
    once = ranker.fit(X, ranks, weights).decision_function(X)
    for unit in (1e-3, 1e3):
        scaled = ranker.fit(X, ranks, unit * weights).decision_function(X)
        np.testing.assert_allclose(scaled, once, atol=1e-6)
    alike = ranker.fit(X, ranks, np.full(120, 7.0)).decision_function(X)
    np.testing.assert_allclose(alike, ranker.fit(X, ranks).decision_function(X), atol=1e-6)


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
    leaves = tree.estimator_.apply(X)
    assert len(np.unique(leaves)) > 3
    for leaf in np.unique(leaves):
        drawn = ranks[leaves == leaf][:, tree.label_order_]
        won = duels_won(drawn, row_weights[leaves == leaf])
        theirs = ranks_from_scores(MEDIANS[median](won[np.newaxis]))
        ours = predicted[leaves == leaf][:, tree.label_order_]
        np.testing.assert_array_equal(ours, np.broadcast_to(theirs, ours.shape))


def test_forest_ranks_by_mean_places_of_its_medians(table):
    X, ranks = table
    forest = RankingForest(7, min_samples_leaf=4, random_state=0).fit(X, ranks)
    places = np.zeros((120, 5))
    for leaves in forest.estimator_.apply(X).T:
        for leaf in np.unique(leaves):
            in_leaf = leaves == leaf
            scores = borda_scores(duels_won(ranks[in_leaf])[np.newaxis])[0]
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


def test_splits_are_on_expected_places():
    # Labels 0 and 4, always first and last, are hidden where the second feature is 1: at one place
    # for both, whichever it is, they would split there and not where labels 1 and 2 change places.
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 5)
    ranks = np.where(X[:, [0]] == 0, [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, 2.0, 4.0, 5.0])
    ranks[np.ix_(X[:, 1] == 1, [0, 4])] = np.nan
    tree = RankingTree(max_depth=1, unplaced="unknown", random_state=0).fit(X, ranks)
    assert tree.estimator_.tree_.feature[0] == 0


def test_unknown_places_are_the_mean_of_those_known(table, rng):
    ranks = missing_at_random(table[1], rng)
    ranks[:, 2] = np.nan
    weights = rng.uniform(0.5, 2, size=120)
    known = ~np.isnan(ranks)
    for own, shares in ((None, np.ones(120)), (weights, weights)):
        complete = _complete_places(ranks, own)
        np.testing.assert_allclose(complete[known], expected_places(ranks)[known])
        for label in (0, 1, 3, 4):
            rows = known[:, label]
            mean = np.average(complete[rows, label], weights=shares[rows])
            np.testing.assert_allclose(complete[~rows, label], mean)
        np.testing.assert_array_equal(complete[:, 2], 3)  # nobody knows: in the middle


def test_plackett_luce_takes_ties_at_the_end_only(table):
    X, ranks = table
    ranker = NeighborsRanker(consensus="plackett_luce", random_state=0)
    assert ranker.fit(X, np.minimum(ranks, 4)).score(X, ranks) > 0.5
    with pytest.raises(ValueError, match="takes no ties but those at the end"):
        ranker.fit(X, np.maximum(ranks, 2) - (ranks <= 2))


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
