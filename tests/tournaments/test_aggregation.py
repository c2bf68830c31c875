"""Aggregations and tie policies, through an engine whose margins are given."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chisquare
from sklearn.base import BaseEstimator

from duelrank import DuelRanker, pairs
from duelrank._choices import AGGREGATIONS, TIES
from duelrank.losses import kendall_distance
from duelrank.rankings import ranks_from_scores
from duelrank.tournaments import beats_from_margins, couple, duel_losses, feedback_arc_set
from random_duels import random_margins

EVIDENCE = ("probability", "feedback_arc_set")


class GivenDuels(BaseEstimator):
    """Engine whose features are the margins."""

    def fit(self, X, codes, n_classes, sample_weight=None):
        return self

    def margins(self, X):
        return np.asarray(X)

    def probabilities(self, X):
        return expit(X)


class MarginDuels(BaseEstimator):
    """The same without probabilities."""

    def fit(self, X, codes, n_classes, sample_weight=None):
        return self

    def margins(self, X):
        return np.asarray(X)


def ranker_of(n_classes, seed=0, engine=None, **options):
    margins = np.zeros((n_classes, len(pairs(n_classes)[0])))
    ranker = DuelRanker(engine or GivenDuels(), random_state=seed, **options)
    return ranker.fit(margins, np.arange(n_classes))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_scores_have_no_ties(rng, aggregation, ties, n_classes):
    ranker = ranker_of(n_classes, aggregation=aggregation, ties=ties)
    margins = random_margins(rng, 200, n_classes)
    margins[:50] = np.sign(margins[:50])  # equal evidence
    margins[50:60] = 0  # no evidence at all
    margins[60:70] = 1e-300
    scores = ranker.tournament(margins).scores
    assert (np.diff(np.sort(scores, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize("ties", TIES)
def test_ties_never_overturn_a_duel_count(rng, ties):
    margins = random_margins(rng, 300, 7) * rng.choice([1e-3, 1, 1e3], size=(300, 1))
    tournament = ranker_of(7, ties=ties).tournament(margins)
    wins = 6 - tournament.losses
    assert (np.abs(tournament.scores - wins) < 0.5).all()
    fewer_losses = tournament.losses[:, :, None] < tournament.losses[:, None, :]
    better_rank = tournament.ranks[:, :, None] < tournament.ranks[:, None, :]
    assert (better_rank >= fewer_losses).all()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_consistent_duels_give_the_true_order(rng, aggregation):
    eta = rng.dirichlet(np.ones(6), size=100)
    first, second = pairs(6)
    margins = np.log(eta[:, second] / eta[:, first])
    for ties in TIES:
        ranker = ranker_of(6, aggregation=aggregation, ties=ties)
        np.testing.assert_array_equal(ranker.predict_ranks(margins), ranks_from_scores(eta))
        np.testing.assert_allclose(ranker.predict_proba(margins), eta, atol=1e-9)


@pytest.mark.parametrize(
    ("aggregation", "ties"),
    [(a, t) for a in ("copeland", "feedback_arc_set") for t in EVIDENCE],
)
def test_reversing_every_margin_reverses_the_ranking(rng, aggregation, ties):
    ranker = ranker_of(6, aggregation=aggregation, ties=ties)
    margins = random_margins(rng, 300, 6)
    forward, backward = ranker.predict_ranks(margins), ranker.predict_ranks(-margins)
    np.testing.assert_array_equal(forward + backward, 7)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", TIES)
def test_reversing_consistent_margins_reverses_the_ranking(rng, aggregation, ties):
    eta = rng.dirichlet(np.ones(5), size=100)
    first, second = pairs(5)
    margins = np.log(eta[:, second] / eta[:, first])
    ranker = ranker_of(5, aggregation=aggregation, ties=ties)
    np.testing.assert_array_equal(ranker.predict_ranks(margins) + ranker.predict_ranks(-margins), 6)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", EVIDENCE)
def test_relabelling_the_classes_relabels_the_ranking(rng, aggregation, ties):
    n_classes = 5
    first, second = pairs(n_classes)
    margins = random_margins(rng, 200, n_classes)
    square = np.zeros((200, n_classes, n_classes))
    square[:, second, first], square[:, first, second] = margins, -margins
    new_name = rng.permutation(n_classes)  # label k becomes new_name[k]
    renamed = np.empty_like(square)
    renamed[:, new_name[:, None], new_name] = square
    ranker = ranker_of(n_classes, aggregation=aggregation, ties=ties)
    ranks = ranker.predict_ranks(margins)
    np.testing.assert_array_equal(
        ranker.predict_ranks(renamed[:, second, first])[:, new_name], ranks
    )


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", [t for t in TIES if t != "index"])
@pytest.mark.parametrize("evidence", ["signs only", "none"])
def test_no_label_is_favoured_for_its_index(aggregation, ties, evidence):
    """Over seeds, every label is as often first as any other."""
    n_classes, n_seeds, n_rows = 4, 300, 1
    rng = np.random.default_rng(7)
    firsts = np.zeros(n_classes)
    lasts = np.zeros(n_classes)
    for seed in range(n_seeds):
        margins = np.sign(random_margins(rng, n_rows, n_classes))
        margins *= evidence != "none"
        order = ranker_of(n_classes, seed, aggregation=aggregation, ties=ties).predict_order(
            margins
        )
        # One order is drawn per fit, so only one row of it is an independent draw.
        firsts += np.bincount(order[:1, 0], minlength=n_classes)
        lasts += np.bincount(order[:1, -1], minlength=n_classes)
    assert chisquare(firsts).pvalue > 1e-3
    assert chisquare(lasts).pvalue > 1e-3


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", [t for t in TIES if t != "index"])
@pytest.mark.parametrize("probability", [2 / 3, 0.8, 0.9, 1.0])
@pytest.mark.parametrize("turned", [1, -1])
def test_even_cycles_favour_nobody(aggregation, ties, probability, turned):
    """Rounding must not decide between labels of which each beats the next equally surely."""
    margin = 1e3 if probability == 1 else np.log(probability / (1 - probability))
    cycle = turned * margin * np.array([[1.0, -1.0, 1.0]])
    firsts, lasts = np.zeros(3), np.zeros(3)
    for seed in range(100):
        order = ranker_of(3, seed, aggregation=aggregation, ties=ties).predict_order(cycle)[0]
        firsts[order[0]] += 1
        lasts[order[-1]] += 1
    assert chisquare(firsts).pvalue > 1e-4
    assert chisquare(lasts).pvalue > 1e-4


@pytest.mark.parametrize("ties", TIES)
def test_coupling_leaves_what_it_cannot_tell_to_the_duels(rng, ties):
    """Sure or very lopsided duels have posteriors of 0 or rounding noise."""
    eta_logits = rng.normal(scale=40, size=(200, 8))
    first, second = pairs(8)
    margins = eta_logits[:, second] - eta_logits[:, first]
    truth = ranks_from_scores(eta_logits)
    for scale in (1, 100):
        ranker = ranker_of(8, aggregation="coupling", ties=ties)
        np.testing.assert_array_equal(ranker.predict_ranks(scale * margins), truth)


def test_probabilities_against_the_winner_are_no_evidence_for_it():
    """The duel that its own probability contradicts is the one to reverse."""

    class Contradicts(GivenDuels):
        def probabilities(self, X):
            # 1 beats 0 (60 %), 0 beats 2 (10 %!), 2 beats 1 (90 %).
            return np.tile([0.6, 0.9, 0.9], (len(X), 1))

    for options in ({"aggregation": "feedback_arc_set"}, {"ties": "feedback_arc_set"}):
        ranker = ranker_of(3, engine=Contradicts(), **options)
        np.testing.assert_array_equal(ranker.predict_order([[1.0, -1.0, 1.0]]), [[2, 1, 0]])


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", TIES)
def test_two_labels_keep_how_sure_they_are(rng, aggregation, ties):
    margins = rng.normal(size=(50, 1))
    scores = ranker_of(2, aggregation=aggregation, ties=ties).decision_function(margins)
    np.testing.assert_array_equal(np.argsort(scores), np.argsort(margins[:, 0]))


@pytest.mark.parametrize(
    ("margins", "message"),
    [
        (np.full((2, 3), np.nan), "margins of .* contain NaN"),
        (np.ones((2, 1)), r"margins of .* must have shape \(2, 3\), got \(2, 1\)"),
    ],
)
def test_engines_that_misbehave_are_found_out(margins, message):
    class Misbehaves(MarginDuels):
        def margins(self, X):
            return margins

    with pytest.raises(ValueError, match=message):
        ranker_of(3, engine=Misbehaves()).predict_ranks(np.zeros((2, 3)))


def test_unhelpful_parameters_set_after_fit_are_refused(rng):
    ranker = ranker_of(3).set_params(aggregation="borda")
    with pytest.raises(ValueError, match="aggregation must be one of"):
        ranker.predict_ranks(random_margins(rng, 2, 3))


def test_index_ties_follow_the_classes():
    ranker = ranker_of(4, ties="index")
    np.testing.assert_array_equal(ranker.predict_order(np.zeros((1, 6))), [[0, 1, 2, 3]])


def test_a_ranking_does_not_depend_on_its_batch(rng):
    margins = np.sign(random_margins(rng, 50, 5))
    for aggregation in AGGREGATIONS:
        for ties in TIES:
            ranker = ranker_of(5, aggregation=aggregation, ties=ties)
            together = ranker.predict_ranks(margins)
            alone = [ranker.predict_ranks(margins[i : i + 1])[0] for i in range(50)]
            np.testing.assert_array_equal(together, alone)


def test_feedback_arc_set_aggregation_contradicts_the_fewest_duels(rng):
    margins = random_margins(rng, 100, 6)
    beats = beats_from_margins(margins, 6)
    best = feedback_arc_set(beats).cost
    for ties in TIES:
        tournament = ranker_of(6, aggregation="feedback_arc_set", ties=ties).tournament(margins)
        behind = tournament.ranks[:, :, None] > tournament.ranks[:, None, :]
        np.testing.assert_array_equal((tournament.beats & behind).sum(axis=(1, 2)), best)
        assert tournament.exact.all()


def test_feedback_arc_set_ties_contradict_the_fewest_duels_among_equals(rng):
    """Of all orders by wins, brute force finds none that contradicts fewer duels."""
    from itertools import permutations

    margins = random_margins(rng, 40, 5)
    tournament = ranker_of(5, ties="feedback_arc_set").tournament(margins)
    orders = np.array(list(permutations(range(5))))
    for row, beats in enumerate(tournament.beats):
        along = tournament.losses[row][orders]
        by_wins = orders[(np.diff(along, axis=1) >= 0).all(axis=1)]
        costs = [np.tril(beats[np.ix_(o, o)], k=-1).sum() for o in by_wins]
        ours = np.argsort(tournament.ranks[row])
        assert np.tril(beats[np.ix_(ours, ours)], k=-1).sum() == min(costs)


def test_least_certain_duel_of_a_cycle_is_reversed():
    # 1 beats 0, 2 beats 1, 0 beats 2, and the last one is least certain.
    margins = np.array([[2.0, -0.1, 3.0]])
    for options in ({"aggregation": "feedback_arc_set"}, {"ties": "feedback_arc_set"}):
        order = ranker_of(3, **options).predict_order(margins)
        np.testing.assert_array_equal(order, [[2, 1, 0]])


def test_expected_wins_rank_by_the_sum_of_probabilities(rng):
    margins = random_margins(rng, 50, 5)
    ranker = ranker_of(5, aggregation="expected_wins")
    tournament = ranker.tournament(margins)
    off_diagonal = np.where(np.eye(5, dtype=bool), 0, tournament.probabilities)
    np.testing.assert_array_equal(
        ranker.predict_ranks(margins), ranks_from_scores(off_diagonal.sum(axis=2))
    )
    assert np.any(ranker.predict_ranks(margins) != ranker_of(5).predict_ranks(margins))


def test_coupling_aggregation_ranks_by_posterior(rng):
    margins = random_margins(rng, 50, 5)
    ranker = ranker_of(5, aggregation="coupling")
    posteriors = couple(ranker.tournament(margins).probabilities)
    np.testing.assert_array_equal(ranker.predict_ranks(margins), ranks_from_scores(posteriors))
    np.testing.assert_allclose(ranker.predict_proba(margins), posteriors)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ties", TIES)
def test_probabilities_never_contradict_the_ranking(rng, aggregation, ties):
    margins = random_margins(rng, 300, 6) * 3
    margins[:50] = np.sign(margins[:50]) * 1e3  # probabilities of exactly 0 and 1
    margins[50:60] = 0
    ranker = ranker_of(6, aggregation=aggregation, ties=ties)
    probabilities = ranker.predict_proba(margins)
    np.testing.assert_array_equal(ranks_from_scores(probabilities), ranker.predict_ranks(margins))
    assert (np.diff(np.sort(probabilities, axis=1), axis=1) > 0).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_engines_without_probabilities(rng):
    ranker = ranker_of(5, engine=MarginDuels())
    assert not hasattr(ranker, "predict_proba")
    tournament = ranker.tournament(random_margins(rng, 50, 5))
    assert ((tournament.probabilities > 0.5) == tournament.beats).all()
    # Evidence does not run out: these cycles differ in their margins only.
    cycle = np.array([[2.0, -1.0, 3.0]])
    for scale in (1, 100, 1e4):
        orders = [
            ranker_of(3, seed, engine=MarginDuels()).predict_order(scale * cycle)[0].tolist()
            for seed in range(10)
        ]
        assert orders == [orders[0]] * 10
    with pytest.raises(ValueError, match=r"aggregation='coupling' needs duel probabilities"):
        ranker_of(5, engine=MarginDuels(), aggregation="coupling")


def test_blocks_do_not_change_the_result(rng, monkeypatch):
    margins = random_margins(rng, 37, 5)
    whole = ranker_of(5).tournament(margins)
    monkeypatch.setattr("duelrank._batches.MARGIN_BATCH_BYTES", 10 * 8 * 25)
    monkeypatch.setattr("duelrank.rankers.TOURNAMENT_BATCH_BYTES", 3 * 8 * 25)
    parts = ranker_of(5).tournament(margins)
    for name in ("beats", "probabilities", "scores", "exact"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_tournament_explains_itself():
    # a beats b, b beats c, c beats a; d loses to all.
    margins = np.array([[-2.0, 1.0, -3.0, -0.5, -3.0, -3.0], [-1.0, -1, -1, -1, -1, -1]])
    ranker = DuelRanker(GivenDuels(), random_state=0).fit(np.zeros((4, 6)), ["a", "b", "c", "d"])
    tournament = ranker.tournament(margins)
    assert len(tournament) == 2
    assert tournament.is_transitive.tolist() == [False, True]
    assert tournament.in_cycle[0].tolist() == [True, True, True, False]
    assert [c.tolist() for c in tournament.cycles[0]] == [tournament.order[0, :3].tolist()]
    assert tournament.cycles[1] == []
    assert repr(tournament) == (
        "Tournaments of 2 points between 4 labels, 1 with a cycle; index one to see it"
    )
    assert repr(tournament[0]).splitlines() == [
        "place  label  won  lost to",
        "    1  a        2  c (73%)",
        "    2  c        2  b (62%)",
        "    3  b        2  a (88%)",
        "    4  d        0  a (95%), c (95%), b (95%)",
        "a cycle runs through these 3: a, c, b",
    ]
    assert repr(tournament[-1]).endswith("no cycle: the duels agree with the ranking")
    assert [len(single) for single in tournament] == [1, 1]
    with pytest.raises(IndexError, match="row 2 is out of range for 2 points"):
        tournament[2]


def test_kendall_distance_of_copeland_to_truth_is_bounded_by_wrong_duels(rng):
    """One wrong duel moves the Copeland order a little; none leaves it right."""
    eta = rng.dirichlet(np.ones(6), size=200)
    first, second = pairs(6)
    margins = np.log(eta[:, second] / eta[:, first])
    wrong = rng.integers(len(first), size=200)
    margins[np.arange(200), wrong] *= -1
    truth = ranks_from_scores(eta)
    assert (kendall_distance(truth, ranker_of(6).predict_ranks(margins)) <= 6).all()
    assert (duel_losses(beats_from_margins(margins, 6)) != truth - 1).any()
