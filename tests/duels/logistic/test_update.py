"""Updates of logistic duels: what they find, what they leave alone, and what they refuse."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from duelrank import LogisticDuels, LogisticDuelsCV, pairs
from duelrank.duels import NewLabelsError
from duelrank.duels.logistic import _fit
from duelrank.duels.logistic._kept import KeptDuels

TOL = 1e-8
SHAPES = {"tall": 3, "wide": 60}


def make_rows(rng, codes, n_features, is_sparse):
    """Rows that overlap, a little different from label to label."""
    X = rng.normal(size=(len(codes), n_features)) + 0.5 * np.sin(
        np.outer(codes + 1, np.arange(n_features) + 1)
    )
    if not is_sparse:
        return X + 3
    # Every label has words of its own, so that new rows bring new columns.
    return sparse.csr_array(X * (rng.random(X.shape) < 0.4))


def kept_of(engine):
    if "kept_" in vars(engine):
        return KeptDuels(**engine.kept_)
    return KeptDuels.of_features(engine.coef_, engine.n_classes_)


def assert_same_solution(updated, scratch, weights_of_labels):
    """The objective is at most tol above its minimum, relatively, and curved by 1 at least."""
    first, second = pairs(scratch.n_classes_)
    at_zero = scratch.C_ * np.log(2) * (weights_of_labels[first] + weights_of_labels[second])
    allowed = 2 * np.sqrt(2 * TOL * at_zero)
    distance = np.linalg.norm(updated.coef_ - scratch.coef_, axis=1)
    assert np.all(distance <= allowed + 1e-12)
    np.testing.assert_allclose(updated.intercept_, scratch.intercept_, rtol=1e-3, atol=2e-3)
    assert updated.converged_.all()
    updated.check_fitted(scratch.n_classes_)


class Story:
    """An engine that is updated, and all that it has learned from."""

    def __init__(self, rng, engine, n_features, is_sparse, weighted):
        self.rng, self.engine = rng, engine
        self.n_features, self.is_sparse, self.weighted = n_features, is_sparse, weighted
        self.X, self.codes, self.weights, self.n_classes = None, np.zeros(0, dtype=int), [], 0

    def add(self, codes, n_classes, known):
        X = make_rows(self.rng, codes, self.n_features, self.is_sparse)
        weights = self.rng.integers(0, 3, size=len(codes)) + 0.5 if self.weighted else None
        self.engine.partial_fit(X, codes, n_classes, weights, known)
        before = self.codes if known is None or len(known) == 0 else known[self.codes]
        self.codes = np.concatenate([before, codes])
        self.weights = np.concatenate([self.weights, np.ones(len(codes))])
        if weights is not None:
            self.weights[len(before) :] = weights
        stack = sparse.vstack if self.is_sparse else np.concatenate
        self.X = X if self.X is None else stack([self.X, X])
        self.n_classes = n_classes

    def add_rows(self, n_rows):
        labels = self.rng.integers(0, self.n_classes, size=2)
        self.add(self.rng.choice(labels, size=n_rows), self.n_classes, None)

    def add_label(self, n_rows):
        place = int(self.rng.integers(0, self.n_classes + 1))
        known = np.delete(np.arange(self.n_classes + 1), place)
        self.add(np.full(n_rows, place), self.n_classes + 1, known)

    def drop(self):
        if self.n_classes < 3:
            return
        code = int(self.rng.integers(0, self.n_classes))
        self.engine.drop_labels([code])
        stays = np.flatnonzero(self.codes != code)
        self.X = self.X.tocsr()[stays] if self.is_sparse else self.X[stays]
        self.codes, self.weights = self.codes[stays], self.weights[stays]
        self.codes = self.codes - (self.codes > code)
        self.n_classes -= 1

    def scratch(self):
        engine = LogisticDuels(
            self.engine.C_, fit_intercept=self.engine.fit_intercept, keep_rows=True
        )
        weights = self.weights if self.weighted else None
        return engine.fit(self.X, self.codes, self.n_classes, weights)

    def check(self):
        totals = np.bincount(self.codes, self.weights, minlength=self.n_classes)
        scratch = self.scratch()
        assert_same_solution(self.engine, scratch, totals)
        points = make_rows(self.rng, np.arange(20) % 5, self.n_features, self.is_sparse)
        ours, theirs = self.engine.margins(points), scratch.margins(points)
        clear = np.abs(theirs) > 0.05
        assert np.array_equal(ours[clear] > 0, theirs[clear] > 0)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add_rows"), st.integers(1, 12)),
        st.tuples(st.just("add_label"), st.integers(1, 12)),
        st.tuples(st.just("drop")),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25)
@given(
    operations=OPERATIONS,
    shape=st.sampled_from(sorted(SHAPES)),
    is_sparse=st.booleans(),
    weighted=st.booleans(),
    fit_intercept=st.booleans(),
    C=st.sampled_from([0.1, 1.0, "scale"]),
    seed=st.integers(0, 2**16),
)
def test_any_sequence_of_updates_is_a_fit_from_scratch(
    operations, shape, is_sparse, weighted, fit_intercept, C, seed
):
    rng = np.random.default_rng(seed)
    engine = LogisticDuels(C, fit_intercept=fit_intercept, keep_rows=True)
    story = Story(rng, engine, SHAPES[shape], is_sparse, weighted)
    story.add(np.repeat([0, 1, 2], 8), 3, None)
    for name, *arguments in operations:
        getattr(story, name)(*arguments)
    story.check()


def state_of(engine):
    """All that an engine has, in a form that tells whether it has changed."""
    arrays = copy.deepcopy(vars(engine))
    return {
        name: value.toarray() if sparse.issparse(value) else value
        for name, value in _flat(arrays).items()
    }


def _flat(values, prefix=""):
    flat = {}
    for name, value in values.items():
        more = {f"{prefix}{name}": value}
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else more
    return flat


def assert_unchanged(engine, state):
    now = state_of(engine)
    assert now.keys() == state.keys()
    for name, value in state.items():
        np.testing.assert_array_equal(now[name], value, err_msg=name)


@pytest.fixture(params=["tall", "wide", "sparse tall", "sparse wide"])
def form(request):
    n_features = SHAPES[request.param.split()[-1]]
    return n_features, request.param.startswith("sparse")


def fitted(form, n_classes=4, n_rows=10, **parameters):
    n_features, is_sparse = form
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_classes), n_rows)
    X = make_rows(rng, codes, n_features, is_sparse)
    parameters = {"keep_rows": True, **parameters}
    return LogisticDuels(**parameters).fit(X, codes, n_classes), X, codes


def new_rows(form, codes):
    return make_rows(np.random.default_rng(1), np.asarray(codes), *form)


def test_untouched_duels_keep_their_bytes(form):
    engine, _, _ = fitted(form)
    before = copy.deepcopy(engine)
    engine.partial_fit(new_rows(form, [2] * 5), [2] * 5, 5, known_codes=[0, 1, 3, 4])
    first, second = pairs(5)
    old = np.flatnonzero((first != 2) & (second != 2))
    for name in ("intercept_", "decrement_", "n_iter_"):
        assert np.array_equal(getattr(engine, name)[old], getattr(before, name))
    now, then = kept_of(engine), kept_of(before)
    if then.has_rows:
        rows_of_old = ~np.isin(np.repeat(np.arange(5), np.diff(now.row_ends)), [2])
        assert np.array_equal(now.row_coef[rows_of_old][:, [0, 1, 3, 4]], then.row_coef)
    else:
        columns = np.arange(form[0]) if then.columns is None else then.columns
        assert np.array_equal(engine.coef_[old][:, columns], before.coef_[:, columns])


def test_dropping_keeps_the_bytes_of_the_rest(form):
    engine, _, _ = fitted(form)
    before = copy.deepcopy(engine)
    engine.drop_labels([1])
    first, second = pairs(4)
    rest = np.flatnonzero((first != 1) & (second != 1))
    assert np.array_equal(engine.intercept_, before.intercept_[rest])
    np.testing.assert_allclose(engine.coef_, before.coef_[rest], rtol=1e-12, atol=1e-14)
    assert engine.n_classes_ == 3
    assert engine.training_rows_["codes"].tolist() == [0] * 10 + [1] * 10 + [2] * 10
    engine.check_fitted(3)


def test_rows_are_kept_once(form):
    engine, X, _ = fitted(form)
    engine.partial_fit(new_rows(form, [0, 1]), [0, 1], 4)
    learned = engine.training_rows_["X"]
    if kept_of(engine).has_rows:
        assert learned is None
    else:
        assert learned.shape[0] == X.shape[0] + 2
        assert not np.shares_memory(learned, X) if isinstance(X, np.ndarray) else learned is not X


def test_duels_go_from_features_to_rows_and_back():
    """Old duels stay as they are while new labels are short, and all fit together."""
    rng = np.random.default_rng(0)
    story = Story(rng, LogisticDuels(keep_rows=True), 30, False, False)
    story.add(np.repeat([0, 1], 40), 2, None)
    assert not kept_of(story.engine).has_rows
    for _ in range(8):
        story.add_label(3)
    kept = kept_of(story.engine)
    assert kept.has_rows
    assert 0 < len(kept.coef_duels) < len(story.engine.intercept_)
    story.check()
    story.add(np.repeat(np.arange(10), 40), 10, None)
    assert not kept_of(story.engine).has_rows
    story.check()


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}])
def test_class_weights(form, class_weight):
    engine, X, codes = fitted(form, class_weight=class_weight)
    if isinstance(class_weight, dict):
        engine.set_params(class_weight={1: 3.0, 3: 0.5})  # by the codes of now
    more = new_rows(form, [0] * 4 + [2] * 3)
    engine.partial_fit(more, [0] * 4 + [2] * 3, 5, known_codes=[1, 2, 3, 4])
    stack = sparse.vstack if form[1] else np.concatenate
    all_codes = np.concatenate([codes + 1, [0] * 4 + [2] * 3])
    scratch = LogisticDuels(class_weight=engine.class_weight)
    scratch.fit(stack([X, more]), all_codes, 5)
    assert_same_solution(engine, scratch, 3 * np.bincount(all_codes))


def test_labels_without_rows_come_later(form):
    engine = LogisticDuels(keep_rows=True)
    X, codes = new_rows(form, [0, 0, 0, 2, 2, 2]), [0, 0, 0, 2, 2, 2]
    engine.partial_fit(X[:3], codes[:3], 4)
    assert engine.intercept_.tolist() == [-100, -100, -100, 0, 0, 0]
    engine.partial_fit(X[3:], codes[3:], 4)
    scratch = LogisticDuels().fit(X, codes, 4)
    assert_same_solution(engine, scratch, np.bincount(codes, minlength=4).astype(float))


def test_sparse_rows_for_a_dense_engine_and_the_other_way_round():
    dense, X, codes = fitted((60, False))
    more = new_rows((60, True), [0, 1])
    dense.partial_fit(more, [0, 1], 4)
    scratch = LogisticDuels().fit(np.concatenate([X, more.toarray()]), [*codes, 0, 1], 4)
    assert_same_solution(dense, scratch, np.array([11.0, 11, 10, 10]))
    engine, X, codes = fitted((60, True))
    engine.partial_fit(more.toarray(), [0, 1], 4)
    scratch = LogisticDuels().fit(sparse.vstack([X, more]), [*codes, 0, 1], 4)
    assert_same_solution(engine, scratch, np.array([11.0, 11, 10, 10]))


def test_single_precision_stays(form):
    engine, X, codes = fitted(form, dtype="float32")
    more = new_rows(form, [3, 3])
    engine.partial_fit(more, [3, 3], 4)
    assert engine.intercept_.dtype == engine.coef_.dtype == np.float32
    engine.check_fitted(4)
    stack = sparse.vstack if form[1] else np.concatenate
    scratch = LogisticDuels(dtype="float32").fit(stack([X, more]), [*codes, 3, 3], 4)
    np.testing.assert_allclose(engine.coef_, scratch.coef_, atol=2e-3)


def test_rows_that_weigh_nothing_change_nothing(form):
    engine, _, _ = fitted(form)
    state = state_of(engine)
    engine.partial_fit(new_rows(form, [0, 1]), [0, 1], 4, [0, 1])
    changed = state_of(engine)["n_iter_"]
    first, second = pairs(4)
    others = (first != 1) & (second != 1)
    assert np.array_equal(changed[others], state["n_iter_"][others])


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_update_changes_nothing(form, monkeypatch, error):
    engine, _, _ = fitted(form)
    state = state_of(engine)

    def interrupted(*arguments, **keywords):
        raise error("now")

    for name in ("solve_tiles", "solve_by_rows"):
        with monkeypatch.context() as patch:
            patch.setattr(_fit, name, interrupted)
            if name == "solve_tiles" and kept_of(engine).has_rows:
                continue  # all duels go by rows
            with pytest.raises(error, match="now"):
                engine.partial_fit(new_rows(form, [4] * 5), [4] * 5, 5)
        assert_unchanged(engine, state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feedback": [0, 9]}, "between 0 and 3"),
        ({"feedback": [[1.0, 2, 3, 4]] * 2}, "must be codes in partial_fit"),
        ({"n_classes": 3}, "at least 4"),
        ({"known_codes": [0, 1, 2]}, "4 increasing codes"),
        ({"known_codes": [0, 2, 1, 3]}, "4 increasing codes"),
        ({"X": np.zeros((2, 2))}, "features"),
        ({"X": np.full((2, 3), np.nan)}, "NaN"),
        ({"sample_weight": [1, -1]}, "negative"),
    ],
)
def test_bad_updates_are_refused_and_change_nothing(change, message):
    engine, _, _ = fitted((3, False))
    state = state_of(engine)
    arguments = {"X": np.zeros((2, 3)), "feedback": [0, 1], "n_classes": 4, **change}
    with pytest.raises(ValueError, match=message):
        engine.partial_fit(**arguments)
    assert_unchanged(engine, state)


@pytest.mark.parametrize(
    ("codes", "message"),
    [([0, 1, 2], "at least two"), ([7], "between 0 and 3"), (["a"], "list of integers")],
)
def test_labels_that_cannot_be_dropped(codes, message):
    engine, _, _ = fitted((3, False))
    state = state_of(engine)
    with pytest.raises(ValueError, match=message):
        engine.drop_labels(codes)
    assert_unchanged(engine, state)


def test_rows_in_blocks_and_ranks_are_not_kept():
    dask_array = pytest.importorskip("dask.array", reason="needs the extra dask")
    X, codes = np.zeros((6, 2)), np.array([0, 1, 2, 0, 1, 2])
    blocks = dask_array.from_array(X, chunks=(3, 2))
    with pytest.raises(ValueError, match="keep_rows must be False for X in blocks"):
        LogisticDuels(keep_rows=True).fit(blocks, dask_array.from_array(codes, chunks=3), 3)
    with pytest.raises(ValueError, match="keep_rows must be False for feedback of ranks"):
        LogisticDuels(keep_rows=True).fit(X, np.tile([1.0, 2, 3], (6, 1)), 3)
    with pytest.raises(TypeError, match="X must be in memory"):
        LogisticDuels().partial_fit(blocks, codes, 3)


def test_other_engines_cannot_be_updated():
    assert not hasattr(LogisticDuelsCV(), "partial_fit")
    assert not hasattr(LogisticDuelsCV(), "drop_labels")


def test_without_the_rows_an_exact_update_is_refused(form):
    engine, _, _ = fitted(form)
    bare = engine.without_training_rows()
    assert engine.keeps_training_rows
    assert not bare.keeps_training_rows
    with pytest.raises(ValueError, match="does not have: it was fitted or saved without them"):
        bare.partial_fit(new_rows(form, [0]), [0], 4)
    bare.set_params(keep_rows=False).partial_fit(new_rows(form, [0]), [0], 4)


def objective_of_update(X, sides, weights, last, C):
    """½‖v − v_last‖² + C Σ losses and its gradient, with a last column of ones in X."""

    def value(v):
        folded = sides * (X @ v)
        losses = C * weights @ np.logaddexp(0, -folded)
        gradient = v - last - C * (sides * weights * expit(-folded)) @ X
        return 0.5 * np.sum((v - last) ** 2) + losses, gradient

    return value


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_an_update_without_rows_minimises_what_it_says(form, fit_intercept, weighted):
    engine, _, _ = fitted(form, keep_rows=False, fit_intercept=fit_intercept, C=0.5)
    codes = np.array([0, 0, 0, 1, 1, 3])
    more = new_rows(form, codes)
    weights = np.array([1.0, 2, 0.5, 1, 3, 1]) if weighted else np.ones(6)
    last = np.column_stack([engine.coef_, engine.intercept_])
    engine.partial_fit(more, codes, 4, weights if weighted else None)
    now = np.column_stack([engine.coef_, engine.intercept_])
    X = np.column_stack([more.toarray() if form[1] else more, np.full(6, float(fit_intercept))])
    for duel, (a, b) in enumerate(zip(*pairs(4), strict=True)):
        mine = (codes == a) | (codes == b)
        sides = np.where(codes[mine] == b, 1, -1)
        value = objective_of_update(X[mine], sides, weights[mine], last[duel], 0.5)
        best = minimize(value, last[duel], jac=True, tol=1e-10)
        assert value(now[duel])[0] <= best.fun * (1 + 1e-7) + 1e-12
    engine.check_fitted(4)
    assert not hasattr(engine, "training_rows_")
    assert engine.converged_.all()


def test_an_update_without_rows_leaves_other_duels_alone(form):
    engine, _, _ = fitted(form, keep_rows=False)
    before = copy.deepcopy(engine)
    engine.partial_fit(new_rows(form, [1, 1]), [1, 1], 4)
    first, second = pairs(4)
    others = (first != 1) & (second != 1)
    assert np.array_equal(engine.intercept_[others], before.intercept_[others])
    np.testing.assert_allclose(engine.coef_[others], before.coef_[others], rtol=1e-12, atol=1e-14)
    assert np.any(engine.coef_[~others] != before.coef_[~others], axis=1).all()


def test_new_labels_need_the_rows(form):
    engine, _, _ = fitted(form, keep_rows=False)
    state = state_of(engine)
    with pytest.raises(NewLabelsError, match=r"\[4\] had none. Fit with keep_rows=True"):
        engine.partial_fit(new_rows(form, [4]), [4], 5)
    assert_unchanged(engine, state)
    one_sided = LogisticDuels().fit(new_rows(form, [0, 1]), [0, 1], 3)
    with pytest.raises(NewLabelsError, match=r"\[2\]"):
        one_sided.partial_fit(new_rows(form, [2]), [2], 3)
    before = one_sided.intercept_.copy()
    one_sided.partial_fit(new_rows(form, [0]), [0], 3)
    assert one_sided.intercept_[1] == before[1] == -100  # label 2 was never seen


def test_balanced_weights_need_the_rows(form):
    engine, _, _ = fitted(form, keep_rows=False, class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight='balanced' needs all rows"):
        engine.partial_fit(new_rows(form, [0]), [0], 4)


def test_fits_from_ranks_and_blocks_go_on_from_their_solution():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    ranks = np.argsort(rng.random((30, 4)), axis=1) + 1.0
    engine = LogisticDuels().fit(X, ranks, 4)
    engine.partial_fit(X[:5], [0, 1, 2, 3, 0], 4)
    engine.drop_labels([0])
    engine.check_fitted(3)
    assert engine.margins(X).shape == (30, 3)


def test_convergence_is_warned_of():
    from sklearn.exceptions import ConvergenceWarning

    engine, _, _ = fitted((3, False))
    engine.set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="3 of 6 duels"):
        engine.partial_fit(10 * new_rows((3, False), [0] * 20), [0] * 20, 4)


def test_a_checkpoint_is_neither_read_nor_written(tmp_path):
    path = tmp_path / "fit.npz"
    engine, _, _ = fitted((3, False), checkpoint=path)
    path.write_text("no checkpoint")
    engine.partial_fit(new_rows((3, False), [0, 1]), [0, 1], 4)
    assert path.read_text() == "no checkpoint"


@pytest.mark.parametrize(
    "change",
    [
        {"codes": np.full(40, 9)},
        {"codes": np.zeros(40)},
        {"codes": np.zeros(7, dtype=np.intp)},
        {"weights": np.ones(7)},
        {"weights": -np.ones(40)},
        {"weights": "many"},
        {"X": np.ones((40, 2))},
        {"X": np.full((40, 3), np.nan)},
        {"X": "rows"},
        {"X": None},
    ],
)
def test_altered_rows_are_found(change):
    engine, _, _ = fitted((3, False))
    engine.training_rows_ = {**engine.training_rows_, **change}
    with pytest.raises(ValueError, match="not counted right"):
        engine.check_fitted(4)


def test_altered_codes_of_shared_rows_are_found():
    engine, _, _ = fitted((60, True))
    engine.training_rows_ = {**engine.training_rows_, "codes": np.arange(40) % 4}
    with pytest.raises(ValueError, match="not counted right"):
        engine.check_fitted(4)
    engine.training_rows_ = {"X": None}
    with pytest.raises(ValueError, match="not counted right"):
        engine.check_fitted(4)
