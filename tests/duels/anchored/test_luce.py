"""Luce's choices: losses, gradients and Hessians of everything that rows may say."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.metrics import log_loss

from duelrank.duels.anchored._luce import (
    CURVATURE_ON_THE_WAY,
    OrderedChoices,
    SetChoices,
    choices_of,
    sigmoids,
)
from duelrank.feedback import SparseRanks
from duelrank.posteriors import plackett_luce_log_likelihood

N, K = 12, 6
ALL = slice(0, N)


def loss_by_brute_force(feedback, scores, weights=None):
    """Add −log p of every label that has others behind it, chosen among itself and these."""
    weights = np.ones(len(scores)) if weights is None else weights
    total = 0.0
    for ranks, u, weight in zip(feedback, scores, weights, strict=True):
        for c in range(len(u)):
            behind = np.flatnonzero(ranks > ranks[c])  # never of NaN
            if len(behind):
                total += weight * (logsumexp(np.append(u[behind], u[c])) - u[c])
    return total


def forms(rng):
    codes = rng.integers(K, size=N)
    full = rng.random((N, K)).argsort(axis=1).argsort(axis=1) + 1.0
    places = np.where(rng.random((N, K)) < 0.3, np.nan, np.ceil(full / 2))
    places[0] = np.nan
    places[1] = 1
    places[2, 1:] = np.nan
    sets = np.where(full <= 1 + rng.integers(1, K - 1, size=(N, 1)), 1.0, 3.0)
    lists = np.minimum(full, 3)
    return {
        "codes": (codes, np.where(np.arange(K) == codes[:, np.newaxis], 1.0, 2.0)),
        "sets": (sets, sets),
        "full rankings": (full, full),
        "lists": (lists, lists),
        "ties and gaps": (places, places),
        "sparse, behind": _sparse(np.where(full <= 2, full, 0), "behind"),
        "sparse sets, behind": _sparse(np.where(full <= 2, 1, 0), "behind"),
        "sparse, unknown": _sparse(np.where(full <= 4, np.ceil(full / 2), 0), "unknown"),
        "sparse with an empty row": _sparse(
            np.where((full <= 3) & (np.arange(N) > 0)[:, np.newaxis], full, 0), "unknown"
        ),
    }


def _sparse(stored, unplaced):
    feedback = SparseRanks(sparse.csr_array(stored), unplaced)
    return feedback, feedback.dense()


FORMS = list(forms(np.random.default_rng(0)))
by_form = pytest.mark.parametrize("form", FORMS)
by_weight = pytest.mark.parametrize("weighted", [False, True])


def made(form, weighted, rng):
    feedback, ranks = forms(rng)[form]
    weights = rng.random(N) + 0.1 if weighted else None
    return choices_of(feedback, weights, K), ranks, weights


def of_all_labels(choices, gradient):
    spread = choices.spread(gradient)
    return spread if isinstance(spread, np.ndarray) else spread.toarray()


@by_form
@by_weight
def test_the_loss_is_that_of_all_choices(form, weighted, rng):
    choices, ranks, weights = made(form, weighted, rng)
    scores = 2 * rng.normal(size=(N, K))
    found = choices.evaluate(ALL, choices.gather(ALL, scores))
    assert found.loss == pytest.approx(loss_by_brute_force(ranks, scores, weights), rel=1e-13)


@by_form
@by_weight
def test_gradients_and_hessians_numerically(form, weighted, rng):
    choices, _, _ = made(form, weighted, rng)
    scores, vectors = rng.normal(size=(2, N, K))

    def evaluate(at):
        return choices.evaluate(ALL, choices.gather(ALL, at))

    at = evaluate(scores)
    gradient = of_all_labels(choices, at.gradient)
    numeric = np.zeros((N, K))
    for i, k in np.ndindex(N, K):
        change = np.zeros((N, K))
        change[i, k] = 1e-6
        numeric[i, k] = (evaluate(scores + change).loss - evaluate(scores - change).loss) / 2e-6
    np.testing.assert_allclose(gradient, numeric, atol=2e-8)
    product = choices.hessian_times(ALL, at.state, choices.gather(ALL, vectors))
    above, below = (evaluate(scores + step * vectors).gradient for step in (1e-6, -1e-6))
    np.testing.assert_allclose(product, (above - below) / 2e-6, atol=2e-8)


@by_form
@by_weight
def test_curvatures_bound_the_diagonal(form, weighted, rng):
    choices, _, weights = made(form, weighted, rng)
    scores = rng.normal(size=(N, K))
    state = choices.evaluate(ALL, choices.gather(ALL, scores)).state
    diagonal = np.zeros((N, choices.width))
    for k in range(choices.width):
        unit = np.zeros((N, choices.width))
        unit[:, k] = 1
        diagonal[:, k] = choices.hessian_times(ALL, state, unit)[:, k]
    bound = choices.curvature(ALL, state, 0.0)
    assert (bound >= diagonal - 1e-12).all()
    assert (bound <= K * (1 if weights is None else weights[:, np.newaxis])).all()
    if form == "codes":
        np.testing.assert_allclose(bound, diagonal, atol=1e-14)
    on_the_way = choices.curvature(ALL, state, CURVATURE_ON_THE_WAY)
    assert (on_the_way >= bound - 1e-15).all()
    assert (on_the_way > bound + 1e-3).any()


@by_form
def test_parts_of_the_rows_add_up(form, rng):
    choices, _, _ = made(form, True, rng)
    scores, vectors = (choices.gather(ALL, v) for v in rng.normal(size=(2, N, K)))
    whole = choices.evaluate(ALL, scores)
    parts = [slice(0, 5), slice(5, 6), slice(6, N)]
    found = [choices.evaluate(rows, scores[rows]) for rows in parts]
    assert sum(part.loss for part in found) == pytest.approx(whole.loss)
    np.testing.assert_allclose(
        np.vstack([part.gradient for part in found]), whole.gradient, atol=1e-14
    )
    products = [
        choices.hessian_times(rows, part.state, vectors[rows])
        for rows, part in zip(parts, found, strict=True)
    ]
    expected = choices.hessian_times(ALL, whole.state, vectors)
    np.testing.assert_allclose(np.vstack(products), expected, atol=1e-14)


def test_labels_have_the_loss_of_multinomial_regression(rng):
    codes, scores, weights = rng.integers(K, size=N), rng.normal(size=(N, K)), rng.random(N)
    probabilities = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    expected = log_loss(
        codes, probabilities, sample_weight=weights, labels=range(K), normalize=False
    )
    found = choices_of(codes, weights, K).evaluate(ALL, scores)
    assert found.loss == pytest.approx(expected)
    residual = probabilities - np.eye(K)[codes]
    np.testing.assert_allclose(found.gradient, weights[:, np.newaxis] * residual, atol=1e-14)


@pytest.mark.parametrize("given", ["ranks", "sparse ranks"])
def test_full_rankings_have_the_likelihood_of_plackett_and_luce(given, rng):
    ranks = rng.random((N, K)).argsort(axis=1).argsort(axis=1) + 1.0
    scores = rng.normal(size=(N, K))
    feedback = ranks if given == "ranks" else SparseRanks(sparse.csr_array(ranks), "unknown")
    choices = choices_of(feedback, None, K)
    found = choices.evaluate(ALL, choices.gather(ALL, scores))
    expected = -np.sum(plackett_luce_log_likelihood(np.exp(scores), ranks.astype(int)))
    assert found.loss == pytest.approx(expected)


def test_the_same_choices_are_the_same_in_every_form(rng):
    """Labels, ranks with two places, and sparse ranks whose other labels are behind."""
    codes, scores = rng.integers(K, size=N), rng.normal(size=(N, K))
    two_places = np.where(np.arange(K) == codes[:, np.newaxis], 1.0, 4.0)
    stored = sparse.csr_array((np.ones(N), codes, np.arange(N + 1)), shape=(N, K))
    with_gap = np.vstack([two_places, np.full(K, np.nan)])  # which sets cannot have
    expected = choices_of(codes, None, K).evaluate(ALL, scores)
    for feedback in (two_places, SparseRanks(stored, "behind")):
        choices = choices_of(feedback, None, K)
        assert isinstance(choices, SetChoices)
        found = choices.evaluate(ALL, scores)
        assert found.loss == expected.loss
        np.testing.assert_array_equal(found.gradient, expected.gradient)
    ordered = choices_of(with_gap, None, K)
    assert isinstance(ordered, OrderedChoices)
    every = slice(0, N + 1)
    found = ordered.evaluate(every, ordered.gather(every, scores[[*range(N), 0]]))
    assert found.loss == pytest.approx(expected.loss)
    gradient = of_all_labels(ordered, found.gradient)
    np.testing.assert_allclose(gradient[:N], expected.gradient, atol=1e-14)
    assert (gradient[N] == 0).all()


def test_few_of_many_labels_are_never_spread_out(rng):
    n_labels = 100
    ranks = np.zeros((N, n_labels))
    for row in ranks:
        row[rng.choice(n_labels, 3, replace=False)] = [1, 2, 2]
    feedback = SparseRanks(sparse.csr_array(ranks), "unknown")
    narrow, wide = (
        choices_of(feedback, None, n_labels),
        choices_of(feedback.dense(), None, n_labels),
    )
    assert narrow.width == 3
    assert wide.width == n_labels
    scores = rng.normal(size=(N, n_labels))
    gradients = []
    for choices in (narrow, wide):
        found = choices.evaluate(ALL, choices.gather(ALL, scores))
        gradients.append(choices.spread(found.gradient))
    assert sparse.issparse(gradients[0])
    np.testing.assert_allclose(gradients[0].toarray(), gradients[1], atol=1e-14)


def test_labels_that_are_compared():
    """0 and 2 by the first row, 2 and 4 by the second; 1 and 3 by the last; 5 by none."""
    ranks = np.full((4, K), np.nan)
    ranks[0, [0, 2]] = 1, 2
    ranks[1, [2, 4]] = 3, 1
    ranks[2, [4, 5, 1]] = 1  # says nothing
    ranks[3, [1, 3]] = 2, 1
    found = choices_of(ranks, None, K).components
    assert len(np.unique(found)) == 3
    assert found[0] == found[2] == found[4]
    assert found[1] == found[3]
    stored = SparseRanks(sparse.csr_array(np.where(np.isnan(ranks), 0, ranks)), "unknown")
    np.testing.assert_array_equal(choices_of(stored, None, K).components, found)
    assert not choices_of(np.array([1, 1]), None, K).components.any()


@pytest.mark.parametrize("row", ["nothing placed", "all tied", "one label placed"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_rows_with_nothing_to_say_add_nothing(row, form, rng):
    ranks = {
        "nothing placed": np.full(K, np.nan),
        "all tied": np.ones(K),
        "one label placed": np.where(np.arange(K) == 2, 1, np.nan),
    }[row]
    feedback = np.vstack([np.arange(K) + 1.0, ranks])
    if form == "sparse":
        stored = sparse.csr_array(np.where(np.isnan(feedback), 0, feedback))
        feedback = SparseRanks(stored, "unknown")
    choices = choices_of(feedback, None, K)
    scores, vectors = rng.normal(size=(2, 2, K))
    both = slice(0, 2)
    scores, vectors = choices.gather(both, scores), choices.gather(both, vectors)
    two = choices.evaluate(both, scores)
    assert choices.evaluate(slice(1, 2), scores[1:]).loss == 0
    assert (two.gradient[1] == 0).all()
    assert (choices.hessian_times(both, two.state, vectors)[1] == 0).all()
    assert (choices.curvature(both, two.state, CURVATURE_ON_THE_WAY)[1] == 0).all()


@by_form
@pytest.mark.parametrize("size", [300.0, 3000.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_differ_a_lot_lose_nothing(form, size, dtype, rng):
    """Rounded to whole numbers, which both precisions hold exactly."""
    choices, ranks, _ = made(form, False, rng)
    scores = np.round(size * rng.normal(size=(N, K))).astype(dtype)
    gathered = choices.gather(ALL, scores)
    found = choices.evaluate(ALL, gathered)
    expected = loss_by_brute_force(ranks, scores.astype(np.float64))
    assert found.loss == pytest.approx(expected, rel=1e-12 if dtype == np.float64 else 1e-6)
    assert found.gradient.dtype == dtype
    gradient = of_all_labels(choices, found.gradient)
    for i, k in np.ndindex(N, K):  # all choices are certain: slopes are whole numbers
        change = np.zeros((N, K))
        change[i, k] = 0.25
        scores64 = scores.astype(np.float64)
        slope = loss_by_brute_force(ranks[[i]], (scores64 + change)[[i]]) - loss_by_brute_force(
            ranks[[i]], (scores64 - change)[[i]]
        )
        assert gradient[i, k] == pytest.approx(2 * slope, abs=1e-2 * (size == 300) + 1e-4)
    product = choices.hessian_times(ALL, found.state, gathered)
    assert np.isfinite(product).all()
    assert np.isfinite(choices.curvature(ALL, found.state, 0.0)).all()


def test_a_long_ranking_that_is_certain():
    """Its best label is a thousand ahead of the last ones, which are as sure of their places."""
    ranks = np.arange(200)[np.newaxis] + 1.0
    choices = choices_of(ranks, None, 200)
    one = slice(0, 1)
    scores = -10.0 * np.arange(200)[np.newaxis]
    found = choices.evaluate(one, choices.gather(one, scores))
    assert found.loss == pytest.approx(loss_by_brute_force(ranks, scores))
    assert found.loss == pytest.approx(199 * np.exp(-10), rel=1e-3)
    gradient = of_all_labels(choices, found.gradient)[0]
    # A label loses to the one ahead as much as the next one loses to it.
    np.testing.assert_allclose(gradient[1:-1], 0, atol=1e-8)
    np.testing.assert_allclose(gradient[[0, -1]], [-np.exp(-10), np.exp(-10)], rtol=1e-3)


def test_sigmoids_keep_their_digits():
    values = np.array([-800.0, -40, -1e-20, 0, 1, 40, 800, np.inf, -np.inf])
    right, wrong = sigmoids(values)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(right, 1 / (1 + np.exp(-values)), rtol=1e-15)
        np.testing.assert_allclose(wrong, 1 / (1 + np.exp(values)), rtol=1e-15)
