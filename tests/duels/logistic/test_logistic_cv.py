import os
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import ShuffleSplit, StratifiedKFold

from duelrank import DuelRanker, LogisticDuels, LogisticDuelsCV, pairs
from duelrank.datasets import load_images


def peer_scores(X, codes, duel, folds, Cs, **options):
    """Scores of LogisticRegressionCV on the rows of one duel, (n_folds, n_Cs)."""
    rows = np.flatnonzero(np.isin(codes, duel))
    own = np.full(len(codes), -1)
    own[rows] = np.arange(len(rows))
    own_folds = [tuple(own[part][own[part] >= 0] for part in fold) for fold in folds]
    peer = LogisticRegressionCV(
        Cs=Cs, cv=own_folds, solver="newton-cholesky", tol=1e-9, max_iter=1000, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(X[rows], codes[rows] == duel[1])
    scores = peer.scores_
    scores = next(iter(scores.values())) if isinstance(scores, dict) else scores
    return np.asarray(scores).reshape(len(folds), len(Cs))


def assert_same_choice(duels, d, theirs, tolerance):
    """The C of duel d has the peer's best average score, up to `tolerance`."""
    np.testing.assert_allclose(duels.scores_[d], theirs, atol=tolerance)
    best = theirs.mean(axis=0)
    chosen = np.flatnonzero(duels.Cs_ == duels.C_[d])[0]
    assert best[chosen] >= best.max() - tolerance
    assert (best[:chosen] < best[chosen] + tolerance).all()


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_scikit_learn_agrees_on_digits(digits, scoring, class_weight):
    X, y = digits[0][:700] / 16, digits[1][:700]
    keep = np.isin(y, [3, 5, 8, 9])
    X, codes = X[keep], np.searchsorted([3, 5, 8, 9], y[keep])
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, codes))
    Cs = np.logspace(-3, 3, 5)
    duels = LogisticDuelsCV(Cs, cv=folds, scoring=scoring, class_weight=class_weight)
    duels.fit(X, codes, 4)
    assert duels.fold_converged_.all()
    for d, duel in enumerate(zip(*pairs(4), strict=True)):
        theirs = peer_scores(X, codes, duel, folds, Cs, scoring=scoring, class_weight=class_weight)
        assert_same_choice(duels, d, theirs, 1e-4 if scoring == "neg_log_loss" else 1e-12)
        refit = LogisticDuels(duels.C_[d], class_weight=class_weight).fit(X, codes, 4)
        np.testing.assert_allclose(duels.coef_[d], refit.coef_[d], rtol=1e-4, atol=1e-5)


def blobs(rng, n_rows, n_features, distance, n_flipped):
    """Three labels, separable but for some rows with another label."""
    codes = np.arange(n_rows) % 3
    X = rng.normal(size=(n_rows, n_features)) + distance * np.eye(3, n_features)[codes]
    codes[:n_flipped] = (codes[:n_flipped] + 1) % 3
    return X, codes


@pytest.mark.parametrize(
    ("n_rows", "distance", "n_flipped"),
    [(600, 12, 0), (600, 7, 0), (600, 12, 3), (45, 12, 0)],
    ids=["far apart", "barely separable", "a few outliers", "few rows"],
)
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_scikit_learn_agrees_on_separable_duels(rng, n_rows, distance, n_flipped, scoring):
    X, codes = blobs(rng, n_rows, 8, distance, n_flipped)
    X *= 30  # as with pixels, nearly every C is a large one
    folds = list(StratifiedKFold(3).split(X, codes))
    Cs = np.logspace(-4, 4, 7)
    duels = LogisticDuelsCV(Cs, cv=folds, scoring=scoring).fit(X, codes, 3)
    assert duels.fold_converged_.all()
    assert duels.converged_.all()
    for d, duel in enumerate(zip(*pairs(3), strict=True)):
        theirs = peer_scores(X, codes, duel, folds, Cs, scoring=scoring)
        assert_same_choice(duels, d, theirs, 1e-3 if scoring == "neg_log_loss" else 1e-12)


@pytest.mark.parametrize("n_features", [5, 60], ids=["own Hessians", "eigenbasis"])
def test_models_on_folds_know_nothing_of_other_rows(rng, n_features):
    """Rows that a fold does not train on may be anything."""
    X, codes = blobs(rng, 900, n_features, 9, 4)
    train, held_out, elsewhere = np.arange(450), np.arange(450, 600), np.arange(600, 900)
    folds = [(train, held_out), (np.concatenate([held_out, elsewhere]), train)]
    engine = LogisticDuelsCV(np.logspace(-3, 5, 5), cv=folds, scoring="neg_log_loss")
    scores = engine.fit(X, codes, 3).scores_.copy()
    X[elsewhere] = rng.permutation(X[elsewhere]) + 20 * rng.normal(size=(300, n_features))
    codes[elsewhere] = rng.permutation(codes[elsewhere])
    other = engine.fit(X, codes, 3)
    assert other.fold_converged_[:, 0].all()
    np.testing.assert_allclose(other.scores_[:, 0], scores[:, 0], rtol=1e-3, atol=1e-6)
    assert (np.abs(other.scores_[:, 1] - scores[:, 1]) > 0.01).all()


def test_a_C_does_not_depend_on_its_neighbours(digits):
    """Where on the path a model starts has no effect on where it ends."""
    X, y = digits[0][:400] / 16, digits[1][:400]
    Cs = [1e-3, 0.1, 0.1, 30.0, 1e4]
    together = LogisticDuelsCV(Cs[::-1], cv=3, scoring="neg_log_loss").fit(X, y, 10)
    np.testing.assert_array_equal(together.Cs_, Cs)
    for c in (1, 2, 4):
        alone = LogisticDuelsCV([Cs[c]], cv=3, scoring="neg_log_loss").fit(X, y, 10)
        np.testing.assert_allclose(
            together.scores_[..., c], alone.scores_[..., 0], rtol=0.01, atol=1e-4
        )


def test_what_has_not_converged_is_counted_and_named(rng):
    X, codes = blobs(rng, 300, 6, 3, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        duels = LogisticDuelsCV([1e-3, 1e3], cv=3, max_iter=3).fit(X, codes, 3)
    assert not duels.fold_converged_.all()
    n_failed = np.count_nonzero(~duels.fold_converged_)
    messages = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert f"{n_failed} of 18 models on folds did not converge within max_iter=3" in messages[0]
    failed = np.flatnonzero(~duels.fold_converged_.all(axis=(1, 2)))
    named = ", ".join(f"{pairs(3)[0][d]}-{pairs(3)[1][d]}" for d in failed)
    assert f"by the numbers of their labels: {named}. " in messages[0]


def test_one_hard_duel_is_named_alone(rng):
    """Two labels that are the same cloud far away take longer than those that are apart."""
    X, codes = blobs(rng, 600, 6, 0, 0)
    X[codes == 2, 0] += 1e4
    enough = LogisticDuelsCV([1e-2], cv=3).fit(X, codes, 3)
    assert enough.fold_converged_.all()
    with pytest.warns(ConvergenceWarning) as caught:
        duels = LogisticDuelsCV([1e-2], cv=3, max_iter=3).fit(X, codes, 3)
    assert duels.fold_converged_[0].all()
    assert "models on folds" in str(caught[0].message)
    assert "labels: 0-2, 1-2. " in str(caught[0].message)


def test_folds_by_number_mean_the_rows_given(digits):
    X, y = digits[0][:300] / 16, digits[1][:300]
    weights = np.where(np.arange(300) < 60, 0.0, 1.0)
    folds = list(StratifiedKFold(3).split(X, y))
    kept = np.flatnonzero(weights)
    place = np.cumsum(weights > 0) - 1
    own = [tuple(place[np.intersect1d(part, kept)] for part in fold) for fold in folds]
    dropped = LogisticDuelsCV(Cs=3, cv=own).fit(X[kept], y[kept], 10)
    weightless = LogisticDuelsCV(Cs=3, cv=folds).fit(X, y, 10, sample_weight=weights)
    np.testing.assert_allclose(weightless.scores_, dropped.scores_)


def test_weights_count_as_copies(digits):
    X, y = digits[0][:200] / 16, digits[1][:200]
    weights = 1.0 + np.arange(200) % 3
    copies = np.arange(200).repeat(weights.astype(int))
    folds = list(StratifiedKFold(3).split(X, y))
    copied_folds = [tuple(np.flatnonzero(np.isin(copies, part)) for part in f) for f in folds]
    for scoring in ("balanced_accuracy", "neg_log_loss"):
        engine = LogisticDuelsCV(Cs=4, scoring=scoring)
        weighted = engine.set_params(cv=folds).fit(X, y, 10, sample_weight=weights).scores_.copy()
        copied = engine.set_params(cv=copied_folds).fit(X[copies], y[copies], 10).scores_
        np.testing.assert_allclose(weighted, copied, rtol=1e-3, atol=1e-6)


def test_shared_C(digits):
    X, y = digits[0][:400] / 16, digits[1][:400]
    duels = LogisticDuelsCV(Cs=5, cv=3, shared_C=True).fit(X, y, 10)
    assert len(np.unique(duels.C_)) == 1
    best = duels.Cs_[np.argmax(duels.scores_.mean(axis=(0, 1)))]
    assert duels.C_[0] == best
    tiled = LogisticDuelsCV(Cs=5, cv=3, shared_C=True, working_memory=1).fit(X, y, 10)
    np.testing.assert_allclose(tiled.coef_, duels.coef_, atol=1e-5)
    refit = LogisticDuels(best).fit(X, y, 10)
    np.testing.assert_allclose(duels.coef_, refit.coef_, atol=1e-4)
    ranker = DuelRanker(LogisticDuelsCV(Cs=[0.01, 1.0], cv=3), random_state=0).fit(X, y)
    assert ranker.score(X, y) > 0.95


def test_overlapping_folds_weights_and_memory(digits):
    X, y = digits[0][:300] / 16, digits[1][:300]
    cv = ShuffleSplit(4, random_state=0)
    weights = np.where(np.arange(300) % 3 == 0, 0.0, 1.0)
    whole = LogisticDuelsCV(Cs=3, cv=cv).fit(X, y, 10, sample_weight=weights)
    tiled = LogisticDuelsCV(Cs=3, cv=cv, working_memory=1).fit(X, y, 10, sample_weight=weights)
    np.testing.assert_allclose(whole.coef_, tiled.coef_, atol=1e-5)
    np.testing.assert_allclose(whole.scores_, tiled.scores_, atol=1e-12)


def test_sparse_equals_dense(rng):
    X = rng.poisson(0.3, size=(300, 40)) * rng.random((300, 40))
    y = (X[:, :4].argmax(axis=1) + rng.integers(2, size=300)) % 4
    engine = LogisticDuelsCV(Cs=[0.01, 1, 100], cv=3, scoring="neg_log_loss")
    dense = engine.fit(X, y, 4).scores_.copy()
    np.testing.assert_allclose(engine.fit(sparse.csr_array(X), y, 4).scores_, dense, rtol=1e-3)


def test_labels_missing_from_a_fold_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(41, 3))
    codes = np.array([0] * 20 + [1] * 20 + [2])
    for scoring in ("accuracy", "balanced_accuracy", "neg_log_loss"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the least populated class has one member
            duels = LogisticDuelsCV(Cs=2, cv=2, scoring=scoring).fit(X, codes, 3)
        assert np.isfinite(duels.scores_[0]).all()
        assert np.isnan(duels.scores_[1]).any()
        assert np.isfinite(duels.coef_).all()


def test_a_duel_without_held_out_rows_has_no_score(rng):
    X, codes = rng.normal(size=(40, 2)), np.arange(40) % 4
    testing = np.flatnonzero(codes < 2)[:10]
    folds = [(np.setdiff1d(np.arange(40), testing), testing)]
    for scoring in ("accuracy", "balanced_accuracy"):
        duels = LogisticDuelsCV(Cs=2, cv=folds, scoring=scoring).fit(X, codes, 4)
        first, second = pairs(4)
        np.testing.assert_array_equal(
            np.isnan(duels.scores_).all(axis=(1, 2)), (first >= 2) & (second >= 2)
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": 0}, "Cs must be a positive integer or a list"),
        ({"Cs": []}, "Cs must be a positive integer or a list"),
        ({"Cs": [1, -1]}, "Cs must be a positive number, got -1"),
        ({"scoring": "f1"}, "scoring must be one of"),
        ({"cv": 1}, "n_splits=1|k-fold"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        LogisticDuelsCV(**options).fit(np.eye(4), [0, 1, 0, 1], 2)


@pytest.mark.skipif("DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder")
@pytest.mark.parametrize(
    ("n_rows", "first", "among_five"),
    [(6_000, 0.915, 0.994), pytest.param(60_000, 0.943, 0.997, marks=pytest.mark.slow)],
)
def test_mnist(n_rows, first, among_five):
    """The protocol and the accuracies of the paper's Table 1; large C's separate some duels.

    From a tenth of the rows they are ours, not the paper's.
    """
    X, y, X_test, y_test = load_images("mnist")
    X, y = X[:n_rows], y[:n_rows]
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X.astype(np.float64))
    X, X_test = pca.transform(X.astype(np.float64)), pca.transform(X_test.astype(np.float64))
    ranker = DuelRanker(LogisticDuelsCV(Cs=10, cv=5), ties="index").fit(X, y)
    assert ranker.duels_.fold_converged_.all()
    assert ranker.duels_.converged_.all()
    ranks = ranker.predict_ranks(X_test)
    place = ranks[np.arange(len(y_test)), y_test]
    assert abs(np.mean(place == 1) - first) < 0.002
    assert abs(np.mean(place <= 5) - among_five) < 0.002
