import os

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.preprocessing import StandardScaler

from duelrank import AnchoredDuels, AnchoredDuelsCV, DuelRanker
from duelrank.losses import partial_kendall_tau
from experiments import anchored_criteria, results
from experiments.anchored_criteria import CHOICES, CURRENT, HINDSIGHT, INDEPENDENT, SETS
from experiments.label_ranking import load

needs_data = pytest.mark.skipif(
    "DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder"
)


def test_results_of_all_sets_and_choices_are_committed(capsys):
    table = results.read("anchored_criteria")
    found = list(zip(table["data"].tolist(), table["choice"].tolist(), strict=True))
    names = (*CHOICES, INDEPENDENT, HINDSIGHT)
    assert found == [(data, name) for data in SETS for name in names]
    assert "seed" in results.settings("anchored_criteria")
    anchored_criteria.draw()
    assert len(capsys.readouterr().out.splitlines()) == len(names)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 3))
    utility = X @ rng.normal(size=(3, 4)) + rng.normal(size=(60, 4))
    return X, (-utility).argsort(axis=1).argsort(axis=1) + 1.0


def test_losses_are_those_of_the_duels_of_every_row(table):
    X, truth = table
    codes = np.argmin(truth, axis=1)
    ranker = DuelRanker(AnchoredDuels(C_own=10), random_state=0).fit(X, truth)
    found = anchored_criteria.losses_of_rows(ranker, X, truth)
    others = np.arange(4) != codes[:, np.newaxis]
    chances = ranker.own_duels(X, codes)[1][others].reshape(60, 3)
    np.testing.assert_allclose(found["own"], -np.log(chances).mean(axis=1))
    odds = chances / (1 - chances)
    np.testing.assert_allclose(found["first"], np.log1p((1 / odds).sum(axis=1)))
    ranker.set_params(aggregation="coupling")
    posteriors = ranker.predict_proba(X)[np.arange(60), codes]
    np.testing.assert_allclose(found["coupled"], -np.log(posteriors))
    ranker.set_params(aggregation="copeland")
    taus = partial_kendall_tau(truth, ranker.predict_ranks(X))
    np.testing.assert_array_equal(found["tau"], -taus)


def test_posteriors_of_scores_alone_are_the_same_either_way(table):
    X, truth = table
    ranker = DuelRanker(AnchoredDuels(rivals=0), random_state=0).fit(X, truth)
    found = anchored_criteria.losses_of_rows(ranker, X, truth)
    log_p = log_softmax(ranker.duels_.scores(X), axis=1)[np.arange(60), np.argmin(truth, axis=1)]
    for name in ("first", "coupled"):
        np.testing.assert_allclose(found[name], -log_p)


@needs_data
def test_one_after_the_other_is_what_the_search_does():
    X, truth = load("posteriors/iris")
    points, codes = StandardScaler().fit_transform(X), np.argmin(truth, axis=1)
    rows, strengths = np.arange(len(X)), np.array([0.1, 1.0, 10.0])
    parts = list(anchored_criteria.parts_of(rows, codes))
    grid = [[anchored_criteria.anchored(C, own) for own in (0.0, *strengths)] for C in strengths]
    losses = anchored_criteria.held_out_losses(grid, points, truth, parts, seed=0)
    search = AnchoredDuelsCV(strengths, strengths, cv=parts).fit(points, codes, 3)
    C, C_own = CHOICES[CURRENT](losses)
    assert (search.C_, search.C_own_) == (strengths[C], search.C_owns_[C_own])
    # Intercepts of the search are penalised around the mean of all rows.
    np.testing.assert_allclose(search.score_losses_, losses["first"][:, 0], rtol=0.02)
    np.testing.assert_allclose(search.own_losses_, losses["own"][C], rtol=0.02)
