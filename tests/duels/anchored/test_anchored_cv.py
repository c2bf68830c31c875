"""AnchoredDuelsCV: what it chooses, and that it chooses by held-out rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from anchored_by_hand import LAYOUTS, K, points, rankings, renamed
from duelrank import AnchoredDuels, AnchoredDuelsCV, DuelRanker, StackedDuels, pairs
from duelrank._pairs import square
from duelrank.feedback import SparseRanks, feedback_from_codes


def made_up(n, K, d, rng, own=0.0):
    """Points whose labels come from linear scores, and, where `own`, from nothing shared at all."""
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, K))
    return X, np.argmax(scores + rng.gumbel(size=(n, K)) * (1 - own), axis=1)


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def log_loss_of_duels(margins, codes, n_classes):
    """Return the mean log loss of the duels of every row's label, one by one."""
    first, second = pairs(n_classes)
    losses = [
        np.logaddexp(0, -m if second[d] == code else m)
        for row, code in zip(margins, codes, strict=True)
        for d, m in enumerate(row)
        if code in (first[d], second[d])
    ]
    return np.mean(losses)


@pytest.mark.parametrize("layout", ["dense", "sparse", "wide"])
def test_losses_are_those_of_models_on_folds(layout, rng):
    n, d = (60, 90) if layout == "wide" else (240, 5)
    X, codes = made_up(n, 4, d, rng)
    X = sparse.csr_matrix(X) if layout == "sparse" else X
    splits = list(StratifiedKFold(3).split(np.zeros(n), codes))
    Cs, C_owns = [0.01, 0.1], [0.05, 0.5]
    search = AnchoredDuelsCV(Cs, C_owns, cv=splits, tol=1e-7).fit(X, codes, 4)
    score_losses, own_losses = np.zeros(2), np.zeros(3)
    for train, test in splits:
        for c, C in enumerate(Cs):
            scores = AnchoredDuels(C, rivals=0, tol=1e-9).fit(X[train], codes[train], 4)
            u = scores.scores(X[test])
            p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
            score_losses[c] -= np.log(p[np.arange(len(test)), codes[test]]).sum() / n
        for c, C_own in enumerate([0, *C_owns]):
            options = {"rivals": 0} if C_own == 0 else {"C_own": C_own}
            model = AnchoredDuels(search.C_, **options, tol=1e-9).fit(X[train], codes[train], 4)
            loss = log_loss_of_duels(model.margins(X[test]), codes[test], 4)
            own_losses[c] += loss * len(test) / n
    # Folds share the centre and the size of all rows, which matter to intercepts only.
    np.testing.assert_allclose(search.score_losses_, score_losses, rtol=2e-2)
    np.testing.assert_allclose(search.own_losses_, own_losses, rtol=2e-2)
    assert Cs[np.argmin(search.score_losses_)] == search.C_
    assert search.C_own_ == search.C_owns_[np.argmin(search.own_losses_)]


def test_the_final_fit_is_that_of_the_chosen_strengths(rng):
    X, codes = made_up(300, 5, 6, rng)
    search = AnchoredDuelsCV(rivals=2).fit(X, codes, 5)
    again = search.settled().fit(X, codes, 5)
    assert again.get_params()["C"] == search.C_
    np.testing.assert_allclose(search.margins(X), again.margins(X), atol=1e-8)
    np.testing.assert_array_equal(search.corrected_duels_, again.corrected_duels_)


def test_no_correction_where_none_helps(rng):
    """Labels that follow linear scores need no corrections, and few rows cannot pay for them."""
    X, codes = made_up(150, 3, 4, rng)
    search = AnchoredDuelsCV(C_owns=[1e3]).fit(X, codes, 3)
    assert search.C_own_ == 0
    assert len(search.corrected_duels_) == 0
    assert search.settled().rivals == 0


def test_corrections_where_they_help():
    """Labels on a line: scores that are linear in x cannot order all of them everywhere."""
    rng = np.random.RandomState(0)
    angle = rng.uniform(0, 2 * np.pi, size=3000)
    codes = (angle / (2 * np.pi) * 6).astype(int) % 6
    X = np.column_stack([np.cos(angle), np.sin(2 * angle)]) + 0.1 * rng.normal(size=(3000, 2))
    search = AnchoredDuelsCV().fit(X, codes, 6)
    assert search.C_own_ > 0
    assert search.own_losses_.min() < 0.99 * search.own_losses_[0]


def test_larger_strengths_are_not_tried_in_vain(rng):
    X, codes = made_up(200, 3, 4, rng)
    search = AnchoredDuelsCV(np.logspace(-3, 6, 10)).fit(X, codes, 3)
    tried = ~np.isnan(search.score_losses_)
    assert not tried.all()
    assert tried[: np.nanargmin(search.score_losses_) + 3].all()


def test_rankings_and_sparse_rankings(rng):
    X, codes = made_up(200, 4, 5, rng)
    ranks = feedback_from_codes(codes, 4)
    ranks[:, 3] = np.where(codes == 3, 1, np.nan)
    stored = sparse.csr_array(np.nan_to_num(ranks))
    dense = AnchoredDuelsCV(3, 3).fit(X, ranks, 4)
    thin = AnchoredDuelsCV(3, 3).fit(X, SparseRanks(stored, "unknown"), 4)
    np.testing.assert_allclose(dense.margins(X), thin.margins(X), atol=1e-10)


def test_weights_of_zero_leave_rows_out(rng):
    X, codes = made_up(200, 3, 4, rng)
    weights = np.ones(200)
    weights[::5] = 0
    splits = [(np.arange(200)[np.arange(200) % 3 != f], np.arange(f, 200, 3)) for f in range(3)]
    some = weights > 0
    number = np.cumsum(some) - 1
    fewer = [(number[a[some[a]]], number[b[some[b]]]) for a, b in splits]
    weighted = AnchoredDuelsCV(3, 3, cv=splits).fit(X, codes, 3, sample_weight=weights)
    without = AnchoredDuelsCV(3, 3, cv=fewer).fit(X[some], codes[some], 3)
    np.testing.assert_allclose(weighted.margins(X), without.margins(X), atol=1e-6)


@pytest.mark.parametrize("kind", ["labels", "full", "partial"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_are_repeated_rows(layout, kind):
    """On folds that are given, in which all copies of a row are on one side."""
    rng = np.random.default_rng(0)
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    times = rng.integers(0, 4, size=len(y))
    copies = np.repeat(np.arange(len(y)), times)
    fold = rng.permutation(len(y)) % 3
    splits, of_copies = (
        [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(3)]
        for folds in (fold, fold[copies])
    )
    search = AnchoredDuelsCV(3, 3, cv=splits, tol=1e-10)
    weighted = clone(search).fit(X, feedback, K, sample_weight=times.astype(float))
    repeated = clone(search).set_params(cv=of_copies).fit(X[copies], feedback[copies], K)
    for name in ("Cs_", "C_owns_", "C_", "C_own_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-12)
    for name in ("score_losses_", "own_losses_"):  # of models that are solved to FOLD_TOL
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-4)
    np.testing.assert_array_equal(weighted.corrected_duels_, repeated.corrected_duels_)
    np.testing.assert_allclose(weighted.margins(X), repeated.margins(X), atol=1e-6)


@pytest.mark.parametrize("kind", ["labels", "full", "partial"])
@pytest.mark.parametrize("layout", ["dense tall", "sparse wide"])
def test_other_names_of_the_labels_change_nothing(layout, kind):
    """Folds are stratified by label; of labels that tie at the first place, by the first code."""
    rng = np.random.default_rng(0)
    X, y = points(layout, rng)
    feedback = rankings(X, y, rng, kind)
    column = rng.permutation(K)
    folds = list(KFold(3).split(X)) if kind == "partial" else 3
    search = AnchoredDuelsCV(3, 3, cv=folds, tol=1e-10)
    plain = clone(search).fit(X, feedback, K)
    other = clone(search).fit(X, renamed(feedback, column), K)
    assert (other.C_, other.C_own_) == (plain.C_, plain.C_own_)
    np.testing.assert_allclose(other.score_losses_, plain.score_losses_, rtol=1e-4)
    np.testing.assert_allclose(other.own_losses_, plain.own_losses_, rtol=1e-4)
    found = square(other.margins(X), K)[:, column][:, :, column]
    np.testing.assert_allclose(found, square(plain.margins(X), K), atol=1e-6)


def test_a_stack_takes_it_as_a_member(rng):
    X, codes = made_up(300, 3, 4, rng)
    engines = [("anchored", AnchoredDuelsCV(3, 3, cv=None)), ("plain", AnchoredDuels())]
    ranker = DuelRanker(StackedDuels(engines, cv=3), random_state=0).fit(X, codes)
    assert set(ranker.duels_.weights_) == {"anchored", "plain"}
    assert np.mean(ranker.predict(X) == codes) > 0.5


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"Cs": 0}, "Cs must be a positive integer or a list of positive numbers, got 0"),
        ({"C_owns": [1, -1]}, "C_owns must be"),
        ({"Cs": "scale"}, "Cs must be"),
        (
            {"rivals": -1},
            "rivals must be None, for all other labels",
        ),
        ({"tol": 0}, "tol must be"),
    ],
)
def test_bad_parameters(parameters, sentence, rng):
    X, codes = made_up(30, 3, 2, rng)
    with pytest.raises(ValueError, match=sentence):
        AnchoredDuelsCV(**parameters).fit(X, codes, 3)


def test_labels_with_fewer_rows_than_folds(rng):
    """Half of the labels have one row: they are in the folds that they are in."""
    X, codes = made_up(120, 3, 4, rng)
    codes = np.where(np.arange(120) < 6, 3 + np.arange(120), codes)
    search = AnchoredDuelsCV(2, 2).fit(X, codes, 9)
    assert np.isfinite(search.margins(X)).all()


def test_more_labels_than_matrices_of_labels_fit(monkeypatch, rng):
    X, codes = made_up(60, 3, 2, rng)
    monkeypatch.setattr("duelrank.duels.anchored._engine.bytes_of_memory", lambda: 500.0)
    with pytest.raises(ValueError, match="rivals=0 ranks by the scores alone"):
        AnchoredDuels().fit(X, codes, 3)
    assert AnchoredDuels(rivals=0).fit(X, codes, 3).score_converged_
