"""One row is ranked as among others, and fast: what is plainly in order skips the slow checks."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_info, threadpool_limits

from duelrank import AnchoredDuels, AutoDuels, DuelRanker, LogisticDuels, pairs
from duelrank._threads import blas_threads, one_blas_thread
from duelrank.duels import _points
from duelrank.duels._points import FLOATS, check_points

N_FEATURES = 6


def by_hand(n_classes, dtype=np.float64, seed=0):
    """A ranker of whole-numbered coefficients: margins are exact, and some are 0."""
    rng = np.random.default_rng(seed)
    n_duels = len(pairs(n_classes)[0])
    engine = LogisticDuels(dtype=dtype)
    engine.coef_ = rng.integers(-2, 3, size=(n_duels, N_FEATURES)).astype(dtype)
    engine.intercept_ = rng.integers(-1, 2, size=n_duels).astype(dtype)
    return ranker_of(engine, n_classes)


def anchored_by_hand(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    n_duels = len(pairs(n_classes)[0])
    engine = AnchoredDuels()
    engine.corrected_duels_ = np.sort(rng.choice(n_duels, n_duels // 3, replace=False))
    n_corrected = len(engine.corrected_duels_)
    engine.kept_ = {
        "columns": None,
        "score_coef": rng.integers(-2, 3, size=(N_FEATURES, n_classes)).astype(float),
        "own_coef": rng.integers(-2, 3, size=(N_FEATURES, n_corrected)).astype(float),
    }
    engine.score_intercept_ = rng.integers(-1, 2, size=n_classes).astype(float)
    engine.own_intercept_ = rng.integers(-1, 2, size=n_corrected).astype(float)
    return ranker_of(engine, n_classes)


def ranker_of(engine, n_classes):
    engine.n_classes_, engine.n_features_in_ = n_classes, N_FEATURES
    ranker = DuelRanker(engine, random_state=0)
    ranker.classes_ = np.arange(n_classes)
    ranker.label_order_ = np.random.default_rng(1).permutation(n_classes)
    ranker.duels_, ranker.n_features_in_ = engine, N_FEATURES
    return ranker


def whole_numbers(rng, n_rows):
    return rng.integers(-3, 4, size=(n_rows, N_FEATURES)).astype(float)


@pytest.fixture(scope="module")
def text_ranker():
    """Its engine keeps training rows, which are sparse."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 12)
    X = sparse.random_array((len(y), 3000), density=0.01, rng=rng, format="csr")
    ranker = DuelRanker(LogisticDuels(10), random_state=0).fit(X, y)
    assert ranker.duels_.keeps_training_rows
    return ranker


@pytest.mark.parametrize("as_rows", [np.array, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize(
    "ranker",
    [
        by_hand(2),
        by_hand(5),
        by_hand(5, np.float32),
        by_hand(45),
        by_hand(45, np.float32),
        by_hand(260),
        anchored_by_hand(5),
        anchored_by_hand(45),
    ],
    ids=lambda ranker: f"{type(ranker.duels_).__name__}-{len(ranker.classes_)}",
)
def test_a_row_is_ranked_alone_as_among_others(rng, ranker, as_rows):
    X = as_rows(whole_numbers(rng, 12))
    k = min(3, len(ranker.classes_))
    for answer in (
        ranker.predict,
        ranker.predict_ranks,
        ranker.predict_order,
        lambda points: ranker.predict_top(points, k),
    ):
        together = answer(X)
        for row in range(12):
            np.testing.assert_array_equal(answer(X[row : row + 1])[0], together[row])
    # Sums of many probabilities are taken in single precision, and in another order.
    tolerance = 1e-6 if len(ranker.classes_) > 256 else 0
    scores = ranker.decision_function(X)
    for row in range(12):
        alone = ranker.decision_function(X[row : row + 1])[0]
        np.testing.assert_allclose(alone, scores[row], rtol=0, atol=tolerance)


def test_a_text_is_ranked_alone_as_among_others(text_ranker):
    X = sparse.random_array((20, 3000), density=0.02, rng=np.random.default_rng(1), format="csr")
    together = text_ranker.decision_function(X)
    for row in range(20):
        alone = text_ranker.decision_function(X[row : row + 1])[0]
        np.testing.assert_array_equal(alone, together[row])


def test_all_methods_agree_on_single_rows(rng):
    for ranker in (by_hand(7), by_hand(60), by_hand(260), anchored_by_hand(30)):
        X = whole_numbers(rng, 5)
        for row in (X[i : i + 1] for i in range(5)):
            order = ranker.predict_order(row)[0]
            assert ranker.predict(row)[0] == order[0]
            np.testing.assert_array_equal(ranker.predict_top(row, 4)[0], order[:4])
            np.testing.assert_array_equal(np.argsort(ranker.predict_ranks(row)[0]), order)
            tournament = ranker.tournament(row)
            np.testing.assert_array_equal(tournament.order[0], order)
            np.testing.assert_array_equal(tournament.scores, ranker.decision_function(row))
            probabilities = ranker.predict_proba(row)[0]
            assert (np.diff(probabilities[order]) < 0).all()


@given(
    st.sampled_from(FLOATS),
    st.sampled_from([FLOATS, FLOATS[:1], FLOATS[1:]]),
    st.sampled_from([np.ascontiguousarray, np.asfortranarray, sparse.csr_array, lambda X: X[::2]]),
    st.integers(1, 9),
)
def test_plain_points_pass_as_scikit_learn_returns_them(given_in, wanted, form, n_rows):
    engine = by_hand(4).duels_
    X = form(whole_numbers(np.random.default_rng(n_rows), n_rows).astype(given_in))
    fast = _points._plain_points(engine, X, wanted)
    slow = validate_data(engine, X, reset=False, accept_sparse="csr", dtype=wanted)
    assert type(fast) is type(slow)
    assert fast.dtype == slow.dtype
    if sparse.issparse(X):
        fast, slow = fast.toarray(), slow.toarray()
    assert fast.strides == slow.strides
    np.testing.assert_array_equal(fast, slow)


def frame(columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(np.zeros((2, len(columns))), columns=columns)


def with_entry(entry, dtype=float):
    X = np.ones((2, N_FEATURES), dtype=dtype)
    X[1, 2] = entry
    return X


UNUSUAL = {
    "NaN": lambda: with_entry(np.nan),
    "infinity": lambda: with_entry(np.inf),
    "too large for single precision": lambda: with_entry(1e300),
    "NaN in sparse rows": lambda: sparse.csr_array(with_entry(np.nan)),
    "infinity in sparse rows": lambda: sparse.csr_matrix(with_entry(-np.inf)),
    "a feature too many": lambda: np.ones((2, N_FEATURES + 1)),
    "a feature too few": lambda: np.ones((2, N_FEATURES - 1)),
    "sparse, a feature too few": lambda: sparse.csr_array(np.ones((2, N_FEATURES - 1))),
    "no rows": lambda: np.ones((0, N_FEATURES)),
    "a single row as a vector": lambda: np.ones(N_FEATURES),
    "three dimensions": lambda: np.ones((2, N_FEATURES, 1)),
    "a number": lambda: 3.0,
    "integers": lambda: np.ones((2, N_FEATURES), dtype=int),
    "booleans": lambda: np.ones((2, N_FEATURES), dtype=bool),
    "half precision": lambda: with_entry(2, np.float16),
    "complex numbers": lambda: with_entry(1j, complex),
    "objects": lambda: with_entry(1.5, object),
    "words as objects": lambda: with_entry("word", object),
    "words": lambda: np.full((2, N_FEATURES), "word"),
    "numbers as words": lambda: np.full((2, N_FEATURES), "1.5"),
    "a list": lambda: with_entry(2.0).tolist(),
    "a list of unequal rows": lambda: [[1.0], [1.0, 2.0]],
    "other sparse rows": lambda: sparse.coo_array(with_entry(2.0)),
    "sparse integers": lambda: sparse.csr_array(with_entry(2, int)),
    "a masked array": lambda: np.ma.masked_invalid(with_entry(np.nan)),
    "an unnamed dataframe": lambda: frame(list(range(N_FEATURES))),
    "a dataframe": lambda: frame(list("abcdef")),
    "other names": lambda: frame(list("abcdeg")),
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_points_get_the_answers_and_errors_of_the_slow_way(kind, dtype, named, monkeypatch):
    ranker = by_hand(4, dtype)
    if named:
        ranker.feature_names_in_ = np.array(list("abcdef"), dtype=object)
        ranker.duels_.feature_names_in_ = ranker.feature_names_in_
    fast = outcome(ranker, UNUSUAL[kind]())
    monkeypatch.setattr(_points, "_plain_points", lambda *_: None)
    assert fast == outcome(ranker, UNUSUAL[kind]())


def outcome(ranker, X):
    """Answers, or errors, of a ranker and of its engine; and warnings."""
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for answer in (ranker.predict_order, ranker.duels_.margins):
            try:
                told.append(answer(X).tolist())
            except Exception as error:
                told.append((type(error), str(error)))
    return told, [(warning.category, str(warning.message)) for warning in caught]


def test_what_is_not_fitted_says_so():
    X = np.ones((1, N_FEATURES))
    for engine in (LogisticDuels(), AnchoredDuels(), AutoDuels()):
        with pytest.raises(ValueError, match=f"This {type(engine).__name__} instance is not"):
            engine.margins(X)
        ranker = DuelRanker(engine)
        for method, arguments in (("predict", ()), ("predict_ranks", ()), ("predict_top", (2,))):
            with pytest.raises(ValueError, match="This DuelRanker instance is not fitted yet"):
                getattr(ranker, method)(X, *arguments)


def test_coefficients_are_not_converted_at_every_call(rng):
    many, single = by_hand(260).duels_, by_hand(260, np.float32).duels_
    X = whole_numbers(rng, 2)
    kept = [engine._margins_in(np.dtype(np.float32)).coef for engine in (many, single)]
    assert np.shares_memory(kept[1], single.coef_)
    label_order = np.arange(260)
    before = many.wins(X, label_order)[0]
    assert many._margins_in(np.dtype(np.float32)).coef is kept[0]
    many.coef_ = -many.coef_  # what was converted is forgotten
    many.intercept_ = -many.intercept_
    after = many.wins(X, label_order[::-1])[0]
    np.testing.assert_array_equal(after, 259 - before)


def test_what_is_prepared_is_forgotten_in_the_next_fit(rng):
    X = sparse.random_array((60, 40), density=0.2, rng=rng, format="csr")
    engine = AnchoredDuels(rivals=2)
    for n_classes, columns in ((3, 40), (5, 30)):
        rows, codes = X[:, :columns], np.arange(60) % n_classes
        refitted = engine.fit(rows, codes, n_classes)
        fresh = AnchoredDuels(rivals=2).fit(rows, codes, n_classes)
        for ours, theirs in zip(
            refitted.wins(rows, np.arange(n_classes)),
            fresh.wins(rows, np.arange(n_classes)),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("n_classes", [10, 150])
def test_answers_do_not_depend_on_the_threads_of_blas(rng, n_classes):
    ranker = by_hand(n_classes)
    X = rng.normal(size=(2, N_FEATURES))
    answers = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            answers.append(
                (ranker.predict_proba(X).tobytes(), ranker.decision_function(X).tobytes())
            )
    assert answers[0] == answers[1]


def threads_now():
    return [library["num_threads"] for library in threadpool_info()]


def test_threads_of_blas_are_given_back():
    with threadpool_limits(2, user_api="blas"):
        before = threads_now()
        with one_blas_thread():
            with one_blas_thread():
                assert blas_threads() == 1
            assert blas_threads() == 1
        assert threads_now() == before
        with pytest.raises(RuntimeError, match="inside"), one_blas_thread():
            raise RuntimeError("inside")
        assert threads_now() == before
        assert blas_threads() == 2


def test_points_are_checked_once_they_leave_single_precision():
    """A number that only double precision holds is an error for duels in single precision."""
    engine = by_hand(4, np.float32).duels_
    with pytest.raises(ValueError, match="infinity"):
        check_points(engine, with_entry(1e300), FLOATS[1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_bad_number_among_many_is_found(value):
    engine = by_hand(4, np.float64).duels_
    points = np.ones((5000, engine.n_features_in_))
    points[-1, -1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        check_points(engine, points, *FLOATS)
    points[-1, -1] = 1e300  # whose square is infinite
    assert check_points(engine, points, *FLOATS) is points
