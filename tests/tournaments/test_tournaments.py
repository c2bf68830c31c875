import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from duelrank import pairs
from duelrank.tournaments import _feedback_arc_set as fas_module
from duelrank.tournaments import (
    beats_from_margins,
    components,
    copeland_scores,
    couple,
    duel_losses,
    feedback_arc_set,
    feedback_arc_set_order,
    in_cycle,
    is_transitive,
)
from duelrank.tournaments._coupling import project_onto_order
from random_duels import cheapest_by_brute_force, random_margins

tournaments = st.integers(1, 7).flatmap(
    lambda n_classes: st.lists(
        st.booleans(), min_size=len(pairs(n_classes)[0]), max_size=len(pairs(n_classes)[0])
    ).map(lambda won: beats_from_margins(np.where(won, 1.0, -1.0), n_classes))
)


def as_graph(beats):
    return nx.from_numpy_array(beats.astype(int), create_using=nx.DiGraph)


def cost_of(weights, order):
    return np.tril(weights[np.ix_(order, order)], k=-1).sum()


def test_margins_decide_duels(rng):
    margins = random_margins(rng, 5, 4)
    beats = beats_from_margins(margins, 4)
    for duel, (first, second) in enumerate(zip(*pairs(4), strict=True)):
        np.testing.assert_array_equal(beats[:, second, first], margins[:, duel] > 0)
        np.testing.assert_array_equal(beats[:, first, second], margins[:, duel] <= 0)


@given(tournaments)
def test_copeland_is_wins_minus_losses(beats):
    n_classes = len(beats)
    wins, losses = beats.sum(axis=1), duel_losses(beats)
    np.testing.assert_array_equal(copeland_scores(beats), wins - losses)
    np.testing.assert_array_equal((n_classes + 1 - copeland_scores(beats)) / 2, 1 + losses)


@given(tournaments)
def test_transitive_means_losses_are_a_permutation_means_no_cycle(beats):
    losses_are_permutation = sorted(duel_losses(beats)) == list(range(len(beats)))
    acyclic = nx.is_directed_acyclic_graph(as_graph(beats))
    assert is_transitive(beats) == losses_are_permutation == acyclic


@given(tournaments)
def test_components_are_the_strongly_connected_ones_in_order(beats):
    numbers = components(beats)
    ours = {frozenset(np.flatnonzero(numbers == c)) for c in np.unique(numbers)}
    theirs = {frozenset(c) for c in nx.strongly_connected_components(as_graph(beats))}
    assert ours == theirs
    ahead = numbers[:, None] < numbers
    assert beats[ahead].all()
    cyclic = {label for component in theirs if len(component) > 1 for label in component}
    assert set(np.flatnonzero(in_cycle(beats))) == cyclic


def test_functions_take_one_row_or_many(rng):
    beats = beats_from_margins(random_margins(rng, 6, 5), 5)
    for function in (duel_losses, copeland_scores, is_transitive, components, in_cycle):
        one_by_one = [function(single) for single in beats]
        np.testing.assert_array_equal(function(beats), one_by_one)
    result = feedback_arc_set(beats)
    for row, single in enumerate(beats):
        order, cost, exact = feedback_arc_set(single)
        np.testing.assert_array_equal(result.order[row], order)
        assert (result.cost[row], result.exact[row]) == (cost, exact)


@given(tournaments.filter(lambda beats: len(beats) <= 6))
def test_feedback_arc_set_equals_brute_force(beats):
    weights = beats.astype(float)
    result = feedback_arc_set(weights)
    assert sorted(result.order) == list(range(len(beats)))
    assert result.cost == cost_of(weights, result.order) == cheapest_by_brute_force(weights)
    assert result.exact


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6])
def test_weighted_feedback_arc_set_equals_brute_force(rng, n_classes):
    weights = rng.random((20, n_classes, n_classes))
    weights[10:] = rng.integers(0, 3, size=weights[10:].shape)  # many ties and zeros
    result = feedback_arc_set(weights)
    for row, single in enumerate(weights):
        assert result.cost[row] == pytest.approx(cheapest_by_brute_force(single))
        assert result.cost[row] == pytest.approx(cost_of(single, result.order[row]))


@pytest.mark.parametrize("most", [1, 4, 700, 70_000])
def test_small_whole_weights_give_the_order_of_other_numbers(rng, most):
    """They are added as integers of one or two bytes; halves of odd numbers are not whole."""
    weights = 2.0 * rng.integers(0, most + 1, size=(30, 8, 8)) + (most > 1)
    whole, halves = feedback_arc_set(weights), feedback_arc_set(weights / 4)
    np.testing.assert_array_equal(whole.order, halves.order)
    np.testing.assert_array_equal(whole.cost, 4 * halves.cost)


@pytest.mark.parametrize("weighted", [False, True])
def test_integer_program_equals_dynamic_programming(rng, monkeypatch, weighted):
    weights = beats_from_margins(random_margins(rng, 8, 9), 9) * 1.0
    if weighted:
        weights *= rng.random(weights.shape)
    by_subsets = feedback_arc_set(weights)
    monkeypatch.setattr(fas_module, "MAX_SUBSETS_SIZE", 2)
    by_program = feedback_arc_set(weights)
    np.testing.assert_allclose(by_program.cost, by_subsets.cost)
    assert by_program.exact.all()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("weights", ["duels", "duels and certainties", "random"])
def test_integer_program_with_branching_equals_dynamic_programming(
    rng, monkeypatch, weights, scale
):
    """17 labels without structure: the relaxation alone does not do."""
    beats = beats_from_margins(random_margins(rng, 2, 17), 17) * 1.0
    if weights == "duels and certainties":
        beats *= 1 + rng.random(beats.shape) / 137
    elif weights == "random":
        beats *= rng.random(beats.shape)
    by_program = feedback_arc_set(scale * beats)
    monkeypatch.setattr(fas_module, "MAX_SUBSETS_SIZE", 17)
    by_subsets = feedback_arc_set(scale * beats)
    np.testing.assert_allclose(
        by_program.cost[by_program.exact], by_subsets.cost[by_program.exact], rtol=1e-6
    )
    assert by_program.exact.any()


def test_large_cycles_say_that_they_are_not_proved(rng, monkeypatch):
    beats = beats_from_margins(random_margins(rng, 1, 60), 60)
    result = feedback_arc_set(beats)
    assert not result.exact.any()
    assert sorted(result.order[0]) == list(range(60))
    by_wins = np.argsort(-beats[0].sum(axis=1), kind="stable")
    assert result.cost[0] <= cost_of(beats[0] * 1.0, by_wins)
    # The heuristic is close where the truth is known.
    small = beats_from_margins(random_margins(rng, 30, 10), 10) * 1.0
    exact = feedback_arc_set(small).cost
    monkeypatch.setattr(fas_module, "MAX_SUBSETS_SIZE", 2)
    monkeypatch.setattr(fas_module, "MAX_MILP_SIZE", 2)
    heuristic = feedback_arc_set(small)
    assert not heuristic.exact[exact > 0].any()
    assert (heuristic.cost >= exact).all()
    assert heuristic.cost.mean() <= 1.1 * exact.mean()


def test_search_that_exceeds_its_nodes_is_not_called_exact(rng, monkeypatch):
    weights = beats_from_margins(random_margins(rng, 1, 22), 22)
    monkeypatch.setattr(fas_module, "MILP_NODES", 0)
    result = feedback_arc_set(weights)
    assert not result.exact.any()
    assert sorted(result.order[0]) == list(range(22))


def test_the_diagonal_is_ignored():
    weights = np.array([[np.nan, 2.0], [1.0, -5.0]])
    assert feedback_arc_set(weights).cost == 1


def test_transitive_tournaments_cost_nothing():
    beats = np.triu(np.ones((100, 100), dtype=bool), k=1)
    order, cost, exact = feedback_arc_set(beats)
    np.testing.assert_array_equal(order, np.arange(100))
    assert cost == 0
    assert exact


@given(
    st.integers(2, 8).flatmap(
        lambda k: st.lists(st.floats(1e-6, 1.0), min_size=k, max_size=k).map(np.array)
    )
)
def test_coupling_recovers_consistent_posteriors(weights):
    eta = weights / weights.sum()
    np.testing.assert_allclose(couple(eta[:, None] / (eta[:, None] + eta)), eta, atol=1e-9)


def test_coupling_minimises_its_objective(rng):
    upper = np.triu(rng.random((4, 4)), k=1)
    r = upper + np.tril(1 - upper.T, k=-1)

    def objective(p):
        return ((r.T * p[:, None] - r * p) ** 2).sum()

    p = couple(r)
    assert p.min() > 0
    for _ in range(100):
        step = rng.normal(size=4) * 0.01
        assert objective(p + step - step.mean()) > objective(p)


def test_coupling_of_two_labels_is_the_duel():
    np.testing.assert_allclose(couple([[0.5, 0.8], [0.2, 0.5]]), [0.8, 0.2])


def test_coupling_of_sure_duels():
    np.testing.assert_allclose(
        couple([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), [1, 0, 0]
    )
    cycle = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    np.testing.assert_allclose(couple(cycle), [1 / 3] * 3)


def test_projection_agrees_with_scipy_and_is_strict(rng):
    if not hasattr(optimize, "isotonic_regression"):
        pytest.skip("scipy.optimize.isotonic_regression needs scipy 1.12")
    posteriors = rng.dirichlet(np.ones(6), size=50)
    order = np.argsort(rng.random((50, 6)), axis=1)
    projected = project_onto_order(posteriors, order)
    along = np.take_along_axis(projected, order, axis=1)
    assert (np.diff(along, axis=1) < 0).all()
    np.testing.assert_allclose(projected.sum(axis=1), 1)
    for row in range(50):
        theirs = optimize.isotonic_regression(posteriors[row, order[row]], increasing=False).x
        np.testing.assert_allclose(along[row], theirs, atol=1e-8)


def test_projection_leaves_agreeing_rows_alone(rng):
    posteriors = rng.dirichlet(np.ones(5), size=10)
    order = np.argsort(-posteriors, axis=1)
    np.testing.assert_array_equal(project_onto_order(posteriors, order), posteriors)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: beats_from_margins([1.0, 2.0], 3), "one column per duel of 3 labels: 3"),
        (lambda: beats_from_margins([np.nan], 2), "margins must not contain NaN"),
        (lambda: duel_losses(np.zeros((2, 3))), r"shape \(n, K, K\)"),
        (lambda: duel_losses(np.ones((2, 2))), "exactly one beats the other"),
        (lambda: components(np.full((2, 2), 0.5)), "must hold booleans"),
        (lambda: feedback_arc_set_order(-np.ones((2, 2))), "finite and not negative"),
        (lambda: feedback_arc_set_order(np.ones(3)), r"shape \(n, K, K\)"),
        (lambda: couple(np.full((2, 2), 0.7)), "complementary"),
        (lambda: couple([[0.5, 1.2], [-0.2, 0.5]]), "between 0 and 1"),
        (lambda: couple(np.ones(4)), r"shape \(n, K, K\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
