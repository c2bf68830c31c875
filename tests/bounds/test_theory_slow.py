"""What the paper proves about known posteriors and duels, by Monte Carlo."""

from itertools import combinations, permutations

import numpy as np
import pytest

from duelrank import DuelRanker, StumpDuels
from duelrank.losses import top_k_loss, zero_one_distance
from duelrank.posteriors import duel_gaps, massart_margin, optimal_ranks
from duelrank.rankings import ranks_from_order

pytestmark = pytest.mark.slow


def draw_labels(eta, rng):
    return (eta.cumsum(axis=1) > rng.uniform(size=(len(eta), 1))).argmax(axis=1)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_top_k_risk_is_minimised_by_the_optimal_ranks(k):
    """W_k(s) = P{Y not among the first k of s(X)}, against all rules, each point on its own.

    A rule on finitely many points is any choice of one of the K! rankings for each, so the best
    rule is the best ranking at each point.
    """
    rng = np.random.RandomState(k)
    n_points, n_draws, n_classes = 25, 4_000, 5
    eta = rng.dirichlet(np.full(n_classes, 2.0), size=n_points)
    codes = draw_labels(np.repeat(eta, n_draws, axis=0), rng)
    point = np.repeat(np.arange(n_points), n_draws)
    best = optimal_ranks(eta)
    loss_of_best = top_k_loss(codes, best[point], k).reshape(n_points, n_draws)

    excess_of_rules = []
    for ranks in permutations(range(1, n_classes + 1)):
        rule = np.tile(ranks, (n_points, 1))
        difference = top_k_loss(codes, rule[point], k).reshape(n_points, n_draws) - loss_of_best
        excess = difference.mean(axis=1)
        standard_error = difference.std(axis=1) / np.sqrt(n_draws)
        # The excess is the probability that the optimal top k has more, and that is not negative.
        expected = (eta * (best <= k)).sum(axis=1) - (eta * (rule <= k)).sum(axis=1)
        assert (expected >= -1e-12).all()
        assert (np.abs(excess - expected) <= 5.5 * standard_error + 1e-12).all()
        same_top = ((best <= k) == (rule <= k)).all(axis=1)
        assert (excess[same_top] == 0).all()
        assert (expected[~same_top] > 0).all()
        excess_of_rules.append(excess)
    # The best of all rules on the sample, chosen with hindsight, gains no more than noise.
    assert np.min(excess_of_rules, axis=0).mean() > -2 / np.sqrt(n_draws)


def massart_family(n_classes, ratio=2.0):
    """Thresholds in [0, 1] and (segments, K) posteriors whose Bayes duels are all stumps.

    From left to right the order of the labels is reversed by swaps of neighbours, so every two
    labels change places exactly once. The label at place r has probability ∝ ratio^−r: every
    gap is at least (ratio − 1) / (ratio + 1).
    """
    order = list(range(n_classes))
    orders = [list(order)]
    for last in range(n_classes - 1, 0, -1):
        for place in range(last):
            order[place], order[place + 1] = order[place + 1], order[place]
            orders.append(list(order))
    weights = ratio ** -ranks_from_order(np.array(orders)).astype(float)
    thresholds = np.arange(1, len(orders)) / len(orders)
    return thresholds, weights / weights.sum(axis=1, keepdims=True)


def test_duels_recover_the_optimal_ranks_under_massarts_condition():
    n_classes, n_trials = 6, 10
    thresholds, segments = massart_family(n_classes)
    assert massart_margin(duel_gaps(segments)).min() == pytest.approx(1 / 3)
    rng = np.random.RandomState(0)
    errors = {n_samples: [] for n_samples in (1_000, 10_000, 100_000)}
    for n_samples, of_size in errors.items():
        for _ in range(n_trials):
            X = rng.uniform(size=(n_samples, 1))
            y = draw_labels(segments[np.searchsorted(thresholds, X[:, 0])], rng)
            X_test = rng.uniform(size=(10_000, 1))
            optimal = optimal_ranks(segments[np.searchsorted(thresholds, X_test[:, 0])])
            ranker = DuelRanker(StumpDuels(), random_state=0).fit(X, y)
            wrong = zero_one_distance(optimal, ranker.predict_ranks(X_test)) == 1
            of_size.append(wrong.mean())
            if n_samples == 100_000:
                # What is still wrong lies next to a threshold.
                distance = np.abs(X_test - thresholds).min(axis=1)
                assert not wrong[distance > 0.02].any()
    means = {n_samples: np.mean(of_size) for n_samples, of_size in errors.items()}
    assert means[100_000] < 0.02
    # The rate with α = 1 is 1/n up to a logarithm; 1/√n would be a factor of 3.2.
    assert means[100_000] < means[10_000] / 5 < means[1_000] / 10


def test_in_the_massart_family_every_bayes_duel_is_a_stump():
    thresholds, segments = massart_family(5)
    assert len(segments) == 1 + 5 * 4 / 2
    for a, b in combinations(range(5), 2):
        wins = segments[:, a] > segments[:, b]
        assert (wins[1:] != wins[:-1]).sum() == 1
    assert len(thresholds) == len(segments) - 1
