"""What a row of ranks says about its duels, and how rankings are scored by such rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, pairs, predict_ranks
from duelrank.feedback import (
    check_feedback,
    duels_won,
    feedback_from_codes,
    outcomes,
    reveals_nothing,
    single_labels,
)
from duelrank.losses import (
    kendall_distance,
    kendall_distance_scorer,
    kendall_tau,
    kendall_tau_scorer,
    partial_kendall_tau,
    top_k_scorer,
)
from duelrank.rankings import ranks_from_lists
from random_duels import random_ranks

NAN = np.nan
NOTATIONS = ["min", "average"]  # scipy's names for 1, 2, 2, 4 and 1, 2.5, 2.5, 4


@st.composite
def weak_orders(draw):
    """Levels of labels (lower is better, equal is tied), and which labels are left out."""
    n_classes = draw(st.integers(2, 6))
    levels = st.lists(st.integers(0, n_classes - 1), min_size=n_classes, max_size=n_classes)
    left_out = st.lists(st.booleans(), min_size=n_classes, max_size=n_classes)
    n_rows = draw(st.integers(1, 4))
    rows = st.lists(st.tuples(levels, left_out), min_size=n_rows, max_size=n_rows)
    levels, left_out = zip(*draw(rows), strict=True)
    return np.array(levels), np.array(left_out)


def written(levels, left_out, notation):
    """Places of the whole weak order, of which some are then lost."""
    places = stats.rankdata(levels, method=notation, axis=1).astype(float)
    return np.where(left_out, NAN, places)


def winner(levels, left_out, a, b, unplaced):
    """Who wins a duel of one row: a, b or None. The definition, spelled out."""
    if left_out[a] or left_out[b]:
        if unplaced == "unknown" or (left_out[a] and left_out[b]):
            return None
        return b if left_out[a] else a
    if levels[a] == levels[b]:
        return None
    return a if levels[a] < levels[b] else b


@given(rows=weak_orders(), notation=st.sampled_from(NOTATIONS), data=st.data())
def test_outcomes_are_those_of_the_definition(rows, notation, data):
    levels, left_out = rows
    n_classes = levels.shape[1]
    unplaced = data.draw(st.sampled_from(["behind", "unknown"]))
    ranks, settled = check_feedback(written(*rows, notation), unplaced=unplaced)
    assert settled == unplaced
    told = outcomes(ranks)
    weights = np.arange(1.0, len(ranks) + 1)
    won = np.zeros((n_classes, n_classes))
    for row in range(len(ranks)):
        for duel, (a, b) in enumerate(zip(*pairs(n_classes), strict=True)):
            first = winner(levels[row], left_out[row], a, b, unplaced)
            assert told[row, duel] == {a: -1, b: 1, None: 0}[first]
            if first is not None:
                won[first, a + b - first] += weights[row]
    np.testing.assert_array_equal(duels_won(ranks, weights), won)
    np.testing.assert_array_equal(duels_won(ranks), duels_won(ranks, np.ones(len(ranks))))
    np.testing.assert_array_equal(reveals_nothing(ranks), (told == 0).all(axis=1))
    some = np.array(data.draw(st.lists(st.integers(0, told.shape[1] - 1), min_size=1)))
    np.testing.assert_array_equal(outcomes(ranks, some), told[:, some])
    np.testing.assert_array_equal(outcomes(ranks, slice(1)), told[:, :1])


@given(rows=weak_orders())
def test_auto_goes_by_gaps(rows):
    """Without ties a gap is plain to see: the places of a row are not 1..m."""
    left_out = rows[1]
    ranks = np.argsort(np.argsort(rows[0], axis=1, kind="stable"), axis=1) + 1.0
    ranks[left_out] = NAN
    partial = [row for row in ranks if 0 < np.isnan(row).sum() < len(row)]
    gaps = sum(sorted(row[row > 0]) != [*range(1, 1 + (row > 0).sum())] for row in partial)
    if 0 < gaps < len(partial) / 4:
        with pytest.raises(ValueError, match=f"{len(partial)} rows, of which {gaps} have gaps"):
            check_feedback(ranks)
        return
    expected = "unknown" if gaps else "behind"
    feedback = check_feedback(ranks)
    assert feedback.unplaced == expected
    explicit = check_feedback(ranks, unplaced=expected)
    np.testing.assert_array_equal(feedback.ranks, explicit.ranks)


def test_auto_does_not_guess_from_a_few_gaps():
    """One gap among lists is more likely a mistake than the only ranking with a label missing."""
    lists = np.tile([1, 2, NAN, NAN], (59, 1))
    one_gap = np.vstack([lists, [1, NAN, 4, NAN]])
    message = (
        r"^ranks leaves labels out in 60 rows, of which 1 have gaps .* for example row 59: say"
    )
    with pytest.raises(ValueError, match=message):
        check_feedback(one_gap)
    for unplaced in ("behind", "unknown"):
        assert check_feedback(one_gap, unplaced=unplaced).unplaced == unplaced


@pytest.mark.parametrize("notation", NOTATIONS)
@given(rows=weak_orders(), data=st.data())
def test_tops_of_tied_rankings_have_no_gap(notation, rows, data):
    """Lists that are cut off between two levels fill their places, ties or not."""
    levels = rows[0]
    cut = np.array(data.draw(st.lists(st.integers(0, 6), min_size=len(levels))))[: len(levels)]
    ranks = written(levels, levels >= cut[:, np.newaxis], notation)
    assert check_feedback(ranks).unplaced == "behind"


@pytest.mark.parametrize(
    ("row", "duels_0_1_and_0_2_and_1_2"),
    [
        ([1, 2, 2], [-1, -1, 0]),
        ([1, 2.5, 2.5], [-1, -1, 0]),
        ([1, 1, 3], [0, -1, -1]),
        ([1.5, 1.5, 3], [0, -1, -1]),
        ([1, 1, 1], [0, 0, 0]),
        ([2, 2, 2], [0, 0, 0]),
        ([2, 1, NAN], [1, -1, -1]),  # a list: the third one is behind
        ([1, NAN, NAN], [-1, -1, 0]),
        ([NAN, 1, 1], [1, 1, 0]),
        ([NAN, 1.5, 1.5], [1, 1, 0]),
        ([3, 1, NAN], [1, 0, 0]),  # a gap: the third one may be anywhere
        ([3, NAN, NAN], [0, 0, 0]),
        ([NAN, 2, 2], [0, 0, 0]),
        ([NAN, NAN, NAN], [0, 0, 0]),
    ],
)
def test_one_row(row, duels_0_1_and_0_2_and_1_2):
    assert outcomes(check_feedback([row]).ranks)[0].tolist() == duels_0_1_and_0_2_and_1_2


def test_one_gap_changes_the_meaning_of_every_row():
    lists = [[1, NAN, NAN], [2, 1, NAN]]
    assert not np.isnan(check_feedback(lists).ranks).any()
    ranks, unplaced = check_feedback([*lists, [1, 3, NAN]])
    assert unplaced == "unknown"
    np.testing.assert_array_equal(np.isnan(ranks), np.isnan([*lists, [1, 3, NAN]]))
    behind = check_feedback([*lists, [1, 3, NAN]], unplaced="behind").ranks
    assert outcomes(behind)[2].tolist() == [-1, -1, -1]
    # Three labels tied for the places 1 to 3 by their average, or for 2 to 4 by the first of them.
    assert check_feedback([[2, 2, 2, NAN]]).unplaced == "behind"
    assert check_feedback([[3, 3, 3, NAN]]).unplaced == "unknown"


@pytest.mark.parametrize("kind", [list, np.float32, np.int64, object, pd.DataFrame])
def test_forms_of_ranks(kind):
    ranks = np.array([[1, 2, 2], [3, 1, 2]])
    convert = {list: np.ndarray.tolist, pd.DataFrame: pd.DataFrame}
    form = convert[kind](ranks) if kind in convert else ranks.astype(kind)
    checked = check_feedback(form).ranks
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, ranks)
    np.testing.assert_array_equal(check_feedback([[1, None], [2, 1]]).ranks, [[1, 2], [2, 1]])


RANGE = r"^ranks must hold places from 1 to 3, the number of labels, or NaN .* but row 1 is \["
WHOLE = r"^ranks must hold whole places, different ones unless labels are tied, .* but row 1 is \["


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0, 1, 2], RANGE + r"0.0, 1.0, 2.0\]\.$"),
        ([1, 2, 4], RANGE + r"1.0, 2.0, 4.0\]\.$"),
        ([1, 2, np.inf], RANGE),
        ([1, 2, -np.inf], RANGE),
        ([1, 2, -1], RANGE),
        ([0.5, 1, 2], RANGE),
        ([4, NAN, NAN], RANGE),
        ([1, 1, 2], WHOLE + r"1.0, 1.0, 2.0\]\.$"),
        ([1, 2, 1], WHOLE),
        ([1, 3, 3], WHOLE),
        ([3, 3, NAN], WHOLE),
        ([1, 1, NAN, 2], WHOLE),
        ([1.5, 2, 3], WHOLE),
        ([1.2, 2, 3], WHOLE),
        ([1, 2.25, NAN], WHOLE),
        ([1, 1.5, 1.5], WHOLE),
        ([1, 2.4, 2.4], WHOLE),
    ],
)
def test_bad_rows_are_named(row, message):
    good = np.arange(1, len(row) + 1)
    with pytest.raises(ValueError, match=message):
        check_feedback([good, row, good])


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        (
            [1, 2, 3],
            {},
            r"^ranks must have shape \(n, K\), one column per label, K ≥ 2; got \(3,\)",
        ),
        ([[1], [1]], {}, r"one column per label, K ≥ 2; got \(2, 1\)\.$"),
        ([[1, 2], [1]], {}, r"^ranks must have rows of equal length\.$"),
        ([["a", "b"]], {}, r"^ranks must be numbers, got dtype <U1\.$"),
        ([[1, 2]], {"n_classes": 3}, r"^ranks must have one column per label: 3, got 2\.$"),
        ([[0, 1]], {"name": "y"}, r"^y must hold places from 1 to 2"),
        (
            [[1, 2]],
            {"unplaced": "ahead"},
            r"^unplaced must be one of 'auto', 'behind', 'unknown'; got 'ahead'\.$",
        ),
        ([[1, 2]], {"unplaced": None}, "^unplaced must be one of .* got None"),
        ([[1, 2]], {"unplaced": ["behind"]}, "^unplaced must be one of"),
    ],
)
def test_bad_arguments(ranks, options, message):
    with pytest.raises(ValueError, match=message):
        check_feedback(ranks, **options)


def test_bad_lists():
    with pytest.raises(ValueError, match=r"row 1 holds 'd', classes are \['a', 'b', 'c'\]"):
        ranks_from_lists([["a"], ["b", "d"]], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="must name a label once; row 0 repeats 'a'"):
        ranks_from_lists([["a", "a"]], classes=["a", "b", "c"])


def test_labels_are_one_label_rankings(rng):
    codes = rng.integers(4, size=30)
    tied = feedback_from_codes(codes, 4)
    lists = check_feedback(ranks_from_lists([[code] for code in codes], range(4))).ranks
    np.testing.assert_array_equal(tied, lists)
    for ranks in (tied, check_feedback(np.where(tied == 2, 3.0, 1.0)).ranks):  # 2..4 on average
        np.testing.assert_array_equal(single_labels(ranks), codes)
    for other in ([1, 2, 3, 3], [1, 1, 3, 3], [1, 1, 1, 1], [1, 2, 2, NAN], [2, 2, 2, 1.0]):
        alone = single_labels(np.array([other], dtype=float))
        assert (alone is None) == (other != [2, 2, 2, 1.0])
        if alone is None:
            assert single_labels(np.vstack([tied, other])) is None
    np.testing.assert_array_equal(single_labels(np.array([[1.0, 2.0], [2.0, 1.0]])), [0, 1])


@given(rows=weak_orders(), notation=st.sampled_from(NOTATIONS), seed=st.integers(0, 9))
def test_partial_tau_counts_the_pairs_that_are_told(rows, notation, seed):
    ranks = written(*rows, notation)
    n_rows, n_classes = ranks.shape
    predicted = random_ranks(np.random.default_rng(seed), n_rows, n_classes)
    for unplaced in ("behind", "unknown"):
        tau = partial_kendall_tau(ranks, predicted, unplaced=unplaced)
        for row in range(n_rows):
            signs = []
            for a, b in zip(*pairs(n_classes), strict=True):
                first = winner(rows[0][row], rows[1][row], a, b, unplaced)
                if first is not None:
                    second = a + b - first
                    signs.append(np.sign(predicted[row, second] - predicted[row, first]))
            assert np.isnan(tau[row]) if not signs else tau[row] == pytest.approx(np.mean(signs))


def test_partial_tau_of_full_rankings_is_tau(rng):
    true, pred = random_ranks(rng, 20, 5), random_ranks(rng, 20, 5)
    np.testing.assert_allclose(partial_kendall_tau(true, pred), kendall_tau(true, pred))
    with pytest.raises(ValueError, match="ranks_pred must have one column per label: 5, got 4"):
        partial_kendall_tau(true, random_ranks(rng, 20, 4))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        partial_kendall_tau(true, pred[1:])
    with pytest.raises(ValueError, match="ranks_pred must place every label"):
        partial_kendall_tau(true, np.where(pred == 5, NAN, pred))


@pytest.fixture(scope="module")
def ranked():
    """A ranker fitted from full rankings, and points with partial ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    scores = X @ rng.normal(size=(3, 4)) + rng.gumbel(size=(120, 4))
    ranks = np.argsort(np.argsort(-scores, axis=1), axis=1) + 1.0
    ranker = DuelRanker(random_state=0).fit(X[:60], ranks[:60])
    return ranker, X[60:], ranks[60:]


def test_scorers_take_ranks_for_y(ranked, rng):
    ranker, X, ranks = ranked
    predicted, weights = ranker.predict_ranks(X), rng.random(60)
    scorer = pickle.loads(pickle.dumps(kendall_tau_scorer()))
    assert scorer(ranker, X, ranks) == pytest.approx(kendall_tau(ranks, predicted).mean())
    assert ranker.score(X, ranks) == scorer(ranker, X, ranks)
    assert kendall_distance_scorer()(ranker, X, ranks, sample_weight=weights) == pytest.approx(
        -np.average(kendall_distance(ranks, predicted), weights=weights)
    )
    lists = np.where(ranks <= 2, ranks, NAN)
    lists[:5] = NAN  # these rows have no τ
    tau = partial_kendall_tau(lists, predicted)
    assert np.isnan(tau[:5]).all()
    for score in (scorer(ranker, X, lists), ranker.score(X, lists)):
        assert score == pytest.approx(tau[5:].mean())
    weighted = np.average(tau[5:], weights=weights[5:])
    assert scorer(ranker, X, lists, sample_weight=weights) == pytest.approx(weighted)
    assert ranker.score(X, lists, sample_weight=weights) == pytest.approx(weighted)
    assert np.isnan(scorer(ranker, X[:5], lists[:5]))
    # In place of y, as metadata, and of a classifier that knows nothing of rankings.
    codes = np.argmin(ranks, axis=1)
    assert scorer(ranker, X, codes, ranks_true=lists) == scorer(ranker, X, lists)
    plain = LogisticRegression().fit(X, codes)
    expected = partial_kendall_tau(lists[5:], predict_ranks(plain, X[5:])).mean()
    assert scorer(plain, X, lists) == pytest.approx(expected)
    assert ranker.score(X, codes) == np.mean(np.argmin(predicted, axis=1) == codes)


def test_scorers_go_by_the_names_of_columns(ranked):
    ranker, X, ranks = ranked
    frame = pd.DataFrame(ranks)[[2, 0, 3, 1]]
    assert ranker.score(X, frame) == ranker.score(X, ranks) != ranker.score(X, frame.to_numpy())
    tied = np.minimum(frame, 3)
    assert ranker.score(X, tied) == ranker.score(X, np.minimum(ranks, 3))


def test_scorers_take_left_out_labels_for_what_the_ranker_does(ranked):
    """Of lists all alike it cannot be seen that the labels behind them are missing by accident."""
    _, X, ranks = ranked
    lists = np.where(ranks <= 2, ranks, NAN)
    scorer = kendall_tau_scorer()
    with_gaps = np.vstack([lists[1:], [NAN, 4, 1, NAN]])
    for y, options, meaning, other in (
        (ranks, {"unplaced": "unknown"}, "unknown", "behind"),
        (with_gaps, {"unplaced": "unknown"}, "unknown", "behind"),
        (lists, {"unplaced": "behind"}, "behind", "unknown"),
        (ranks, {"unplaced": "behind"}, "behind", "unknown"),
    ):
        ranker = DuelRanker(random_state=0, **options)
        pipeline = make_pipeline(StandardScaler(), ranker)
        search = GridSearchCV(pipeline, {"duelranker__ties": ["index"]}, cv=KFold(2))
        for model in (ranker.fit(X, y), pipeline.fit(X, y), search.fit(X, y)):
            expected = partial_kendall_tau(lists, predict_ranks(model, X), unplaced=meaning)
            assert scorer(model, X, lists) == pytest.approx(expected.mean())
            assert (
                expected.mean()
                != partial_kendall_tau(lists, predict_ranks(model, X), unplaced=other).mean()
            )


@pytest.mark.parametrize("partial", [False, True])
def test_scorers_refuse_other_numbers_of_labels(ranked, partial):
    ranker, X, _ = ranked
    for n_classes in (3, 5):
        ranks = random_ranks(np.random.default_rng(0), 60, n_classes).astype(float)
        if partial:
            ranks[ranks > 2] = NAN
        message = f"^y must have one column per label: 4, got {n_classes}\\.$"
        for score in (ranker.score, lambda X, y: kendall_tau_scorer()(ranker, X, y)):
            with pytest.raises(ValueError, match=message):
                score(X, ranks)


def test_scorers_refuse_what_they_cannot_measure(ranked):
    ranker, X, ranks = ranked
    lists = np.where(ranks <= 2, ranks, NAN)
    with pytest.raises(ValueError, match=r"^y must place every label, but row 0 contains NaN"):
        kendall_distance_scorer()(ranker, X, lists)
    with pytest.raises(ValueError, match=r"^y must hold whole places, different ones unless"):
        ranker.score(X, np.tile([1, 1, 2, 3], (60, 1)))
    with pytest.raises(ValueError, match=r"^y must hold places from 1 to 4"):
        ranker.score(X, ranks - 1)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ranker.score(X, lists[1:])
    with pytest.raises(ValueError, match="measures labels, but y holds ranks"):
        top_k_scorer(2)(ranker, X, ranks)
