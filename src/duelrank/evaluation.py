"""How well duels rank some data, next to other classifiers.

`evaluate` fits rankers side by side, by cross-validation or on a given test set, and measures for
each of them the top-k accuracies, the share of points whose duels contain a cycle, the times to fit
and to rank, and the memory; if asked for, how often shortlists hold the label, and how long they
are. `baselines` are the rankers to compare duels with, what people would
use instead: logistic regression, multinomial (the paper's baseline) and one per label, linear
support vectors on text, forests and boosting on tables, and the labels by their frequency.

>>> from sklearn.datasets import load_iris
>>> from duelrank import DuelRanker
>>> X, y = load_iris(return_X_y=True)
>>> ranker = DuelRanker(random_state=0)
>>> table = evaluate({"duels": ranker}, X, y, folds=3, top=2, random_state=0)
>>> table[0].accuracies.round(2).tolist()
[0.97, 1.0]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from duelrank._batches import margin_batches
from duelrank._choices import BASELINES
from duelrank._sklearn import as_indexable, take_rows, unwrap
from duelrank.predictions import predict_ranks
from duelrank.rankers import DuelRanker
from duelrank.rankings import check_k
from duelrank.shortlists import Shortlister, hold_out

__all__ = ["BASELINES", "RareLabelError", "Result", "baselines", "evaluate", "rare_labels"]

CALIBRATION_SHARE = 0.2  # of the training rows, if there are shortlists
LINUX_STATUS, LINUX_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class RareLabelError(ValueError):
    """A label with too few rows to be in every fold."""


@dataclass(frozen=True)
class Result:
    """Measurements of one ranker, averaged over the folds.

    Attributes
    ----------
    name : str
        What the ranker is called.
    accuracies : ndarray of shape (top,)
        Share of test points whose label is among the first 1, 2, … labels.
    deviations : ndarray of shape (top,)
        Standard deviations of the accuracies over the folds; NaN with a single test set.
    cycle_share : float
        Share of test points whose duels contain a cycle; NaN for rankers without duels.
    fit_seconds, rank_seconds : float
        Mean times to fit a fold and to rank its test points, with the time to turn columns into
        numbers.
    peak_bytes : float, default=NaN
        Most memory that the process took while the ranker was fitted and ranked, with the data and
        all else that is in it; NaN where the system does not tell. Linux does, and its count of the
        process's peak is begun anew for every ranker.
    chosen : tuple of str, default=()
        The engines that `AutoDuels` has chosen, one for each fold.
    choice_accuracy : float, default=NaN
        Share of test points whose label comes before all other labels that were shown, of those
        where others were; NaN if it is not known what was shown.
    coverage, mean_length : float, default=NaN
        Share of test points whose shortlist holds their label, and the mean number of labels in a
        shortlist; NaN if these were not asked for.
    """

    name: str
    accuracies: NDArray[np.float64]
    deviations: NDArray[np.float64]
    cycle_share: float
    fit_seconds: float
    rank_seconds: float
    choice_accuracy: float = float("nan")
    peak_bytes: float = float("nan")
    chosen: tuple[str, ...] = ()
    coverage: float = float("nan")
    mean_length: float = float("nan")


def baselines(
    names: Collection[str] | None = None,
    *,
    on_text: bool = False,
    C: float | None = None,
    max_iter: int = 1000,
    random_state: Any = None,
) -> dict[str, Any]:
    """Return the rankers to compare duels with.

    Parameters
    ----------
    names : collection of str, default=None
        Some of `BASELINES`. By default all, but for those that do not suit the features:
        "linear-svc" without text; "forest" and "boosting" with text.
    on_text : bool, default=False
        Whether the features are TF-IDF of text, sparse and many.
    C : float, default=None
        Inverse strength of the penalties. By default scikit-learn's 1, and 10 for logistic
        regression on text, where 1 is far too small.
    max_iter : int, default=1000
        Limit of the solvers' iterations.
    random_state : int, RandomState instance or None, default=None
        Of forests, boosting and support vectors.

    Returns
    -------
    rankers : dict of str to classifier
        In the order of `BASELINES`.

    Examples
    --------
    >>> list(baselines(on_text=True))
    ['multinomial', 'one-vs-rest', 'linear-svc', 'majority']
    """
    if isinstance(names, str):
        raise ValueError(f"names must be a list of names, got the text {names!r}.")
    unsuited = ("forest", "boosting") if on_text else ("linear-svc",)
    wanted = [name for name in BASELINES if name not in unsuited] if names is None else names
    unknown = [name for name in wanted if name not in BASELINES]
    if unknown:
        raise ValueError(f"names must be some of {', '.join(BASELINES)}; got {unknown[0]!r}.")
    strength = (10.0 if on_text else 1.0) if C is None else C
    # One label against the rest is what liblinear is made for, if rows are sparse.
    single = LogisticRegression(
        C=strength, max_iter=max_iter, solver="liblinear" if on_text else "lbfgs"
    )
    made = {
        "multinomial": LogisticRegression(C=strength, max_iter=max_iter),
        "one-vs-rest": OneVsRestClassifier(single),
        "linear-svc": LinearSVC(
            C=1.0 if C is None else C, max_iter=max_iter, random_state=random_state
        ),
        "forest": RandomForestClassifier(random_state=random_state),
        # Early stopping would hold out rows of every label, which rare labels do not have.
        "boosting": HistGradientBoostingClassifier(early_stopping=False, random_state=random_state),
        "majority": DummyClassifier(strategy="prior"),
    }
    return {name: made[name] for name in BASELINES if name in wanted}


def rare_labels(y: Any, folds: int) -> dict[Any, int]:
    """Return the labels with fewer rows than folds, and how many they have.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.
    folds : int
        Number of folds.

    Returns
    -------
    rare : dict of label to int
        Rarest first.
    """
    values, counts = np.unique(np.asarray(y), return_counts=True)
    few = np.flatnonzero(counts < folds)
    in_order = few[np.argsort(counts[few], kind="stable")]
    return {values[i]: int(counts[i]) for i in in_order}


def evaluate(
    rankers: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    preprocessing: Any = None,
    feedback: Mapping[str, Any] | None = None,
    shown: Sequence[Collection[Any]] | None = None,
    test: tuple[Any, ...] | None = None,
    folds: int = 5,
    top: int = 5,
    coverage: float | None = None,
    random_state: Any = None,
    on_step: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Fit rankers side by side and measure how well they rank.

    Parameters
    ----------
    rankers : mapping of str to classifier
        What to compare: anything that `predict_ranks` takes once it is fitted.
    X : array-like or dataframe with n rows
        Training points.
    y : array-like of shape (n,)
        Their labels.
    preprocessing : transformer, default=None
        Turns points into features. It is fitted once for every fold, without labels, and shared by
        all rankers.
    feedback : mapping of str to array-like with n rows, default=None
        What to fit the rankers with these names to, instead of `y`: for example the (n, K) ranks
        of lists whose first labels are `y`. All rankers are measured by labels.
    shown : sequence of n collections of labels, default=None
        If `y` are choices, the labels among which each of them was picked.
    test : tuple of X and y, or of X, y and shown, default=None
        Test points and labels. A label that is not in `y` is never ranked, so it counts as wrong.
        By default the training data is cross-validated.
    folds : int, default=5
        Number of stratified folds, from 2 to the number of rows of the rarest label. More folds
        raise a `RareLabelError`.
    top : int, default=5
        Longest list whose accuracy is measured, at most the number of labels.
    coverage : float, default=None
        If given, every ranker gets a `Shortlister` with this coverage. A fifth of the training
        points calibrates it; neither rankers nor preprocessing learn from them.
    random_state : int, RandomState instance or None, default=None
        Decides which rows belong to which fold, and which calibrate.
    on_step : callable
        Is called after every fit, once for every ranker and fold.

    Returns
    -------
    results : list of Result
        One for each ranker, in their order.
    """
    y = np.asarray(y)
    X = as_indexable(X)
    n_labels = len(np.unique(y))
    check_k(top, n_labels)
    targets = {name: (feedback or {}).get(name, y) for name in rankers}
    targets = {name: t if issparse(t) else np.asarray(t) for name, t in targets.items()}
    check_consistent_length(y, *targets.values(), *([] if shown is None else [shown]))
    if coverage is not None and not 0 < coverage < 1:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}.")
    if test is None:
        _check_folds(y, folds)
    rng = check_random_state(random_state)
    parts = list(_splits(X, y, shown, test, folds, rng))
    measured: dict[str, list[_Measurement]] = {name: [] for name in rankers}
    for train, tested in parts:
        calibrated = None
        if coverage is not None:
            train, calibrating = _hold_out(y, train, rng)
            calibrated = _Calibrated(take_rows(X, calibrating), y[calibrating], coverage)
        X_train = X if len(train) == len(y) else take_rows(X, train)
        X_train, calibrated, tested = _prepare(preprocessing, X_train, calibrated, tested)
        for name, ranker in rankers.items():
            y_train = targets[name][train]
            fresh = clone(ranker)
            measured[name].append(_measure(fresh, X_train, y_train, calibrated, tested, top))
            on_step()
    return [_summarise(name, measurements) for name, measurements in measured.items()]


class _Tested(NamedTuple):
    """Points to test on, their labels, and the labels that were shown, if that is known.

    Their features were computed in some seconds, and those of the training points in others.
    """

    X: Any
    y: NDArray[Any]
    shown: Sequence[Collection[Any]] | None = None
    seconds: float = 0.0
    seconds_of_training: float = 0.0


class _Calibrated(NamedTuple):
    """Points to calibrate shortlists on, their labels, and the coverage."""

    X: Any
    y: NDArray[Any]
    coverage: float


@dataclass(frozen=True)
class _Measurement:
    """One fit of one ranker."""

    n_hits: NDArray[np.float64]  # test points whose label is among the first k
    n_cyclic: float
    n_points: int
    fit_seconds: float
    rank_seconds: float
    peak_bytes: float
    chosen: str | None  # the engine that AutoDuels has chosen
    chose_right: NDArray[np.bool_]  # of the test points where more than one label was shown
    n_covered: float = float("nan")  # test points whose shortlist holds their label
    n_listed: float = float("nan")  # labels in all shortlists


def _check_folds(y: NDArray[Any], folds: int) -> None:
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}.")
    rare = rare_labels(y, folds)
    if rare:
        label, rows = next(iter(rare.items()))
        others = f" (and {len(rare) - 1} more labels)" if len(rare) > 1 else ""
        raise RareLabelError(
            f"folds must be at most the rows of the rarest label, but label {label!s}{others} has "
            f"{rows} row{'s' * (rows != 1)} for {folds} folds."
        )


def _splits(
    X: Any,
    y: NDArray[Any],
    shown: Sequence[Collection[Any]] | None,
    test: tuple[Any, ...] | None,
    folds: int,
    random_state: Any,
) -> Iterator[tuple[NDArray[np.intp], _Tested]]:
    """Yield the training rows and the test points of every fold."""
    if test is not None:
        tested = _Tested(as_indexable(test[0]), np.asarray(test[1]), *test[2:])
        yield np.arange(len(y)), tested
        return
    splitter = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    for train, held_out in splitter.split(np.zeros(len(y)), y):
        shown_there = None if shown is None else [shown[row] for row in held_out]
        tested = _Tested(take_rows(X, held_out), y[held_out], shown_there)
        yield train, tested


def _hold_out(
    y: NDArray[Any], train: NDArray[np.intp], rng: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return training rows to learn from, with every label there is, and others to calibrate on."""
    split = hold_out(y[train], CALIBRATION_SHARE, rng)
    return train[split.learning], train[split.calibrating]


def _prepare(
    preprocessing: Any, X_train: Any, calibrated: _Calibrated | None, tested: _Tested
) -> tuple[Any, _Calibrated | None, _Tested]:
    """Turn training points, points to calibrate on and test points into features."""
    if preprocessing is None:
        return X_train, calibrated, tested
    start = time.perf_counter()
    transformer = clone(preprocessing)
    features = transformer.fit_transform(X_train)
    if calibrated is not None:
        calibrated = calibrated._replace(X=transformer.transform(calibrated.X))
    fitted = time.perf_counter()
    X_test = transformer.transform(tested.X)
    seconds = time.perf_counter() - fitted
    tested = tested._replace(X=X_test, seconds=seconds, seconds_of_training=fitted - start)
    return features, calibrated, tested


def _measure(
    ranker: Any,
    X_train: Any,
    y_train: Any,
    calibrated: _Calibrated | None,
    tested: _Tested,
    top: int,
) -> _Measurement:
    counts_memory = _forget_peak()
    start = time.perf_counter()
    ranker.fit(X_train, y_train)
    fitted = time.perf_counter()
    ranks = predict_ranks(ranker, tested.X)
    ranked = time.perf_counter()
    peak = _peak_bytes() if counts_memory else float("nan")
    code_of = {label: code for code, label in enumerate(np.asarray(ranker.classes_).tolist())}
    places = _places(ranks, code_of, tested.y)
    n_hits = np.array([np.count_nonzero(places <= k) for k in range(1, top + 1)], dtype=float)
    predictor, points = unwrap(ranker, tested.X)
    is_duels = isinstance(predictor, DuelRanker)
    return _Measurement(
        n_hits,
        _n_cyclic(predictor, points) if is_duels else np.nan,
        len(tested.y),
        fitted - start + tested.seconds_of_training,
        ranked - fitted + tested.seconds,
        peak,
        getattr(predictor.duels_, "chosen_", None) if is_duels else None,
        _chose_right(ranks, code_of, places, tested),
        *([] if calibrated is None else _measure_lists(ranker, code_of, calibrated, tested)),
    )


def _measure_lists(
    ranker: Any, code_of: dict[Any, int], calibrated: _Calibrated, tested: _Tested
) -> tuple[float, float]:
    """Count the test points whose shortlist holds their label, and the labels in all lists."""
    lists = Shortlister(FrozenEstimator(ranker), calibrated.coverage)
    with warnings.catch_warnings():
        # Here it is known that the ranker has not learned from these points.
        warnings.filterwarnings("ignore", message="all .* calibration rows")
        lists.fit(calibrated.X, calibrated.y)
    mask = lists.shortlist_mask(tested.X)
    codes = np.array([code_of.get(label, -1) for label in tested.y.tolist()], dtype=np.intp)
    holds = mask[np.arange(len(codes)), codes] & (codes >= 0)
    return float(holds.sum()), float(mask.sum())


def _n_cyclic(ranker: DuelRanker, points: Any) -> float:
    """Count the points whose duels contain a cycle, a batch at a time."""
    points = as_indexable(points)
    return float(
        sum(
            np.count_nonzero(~ranker.tournament(take_rows(points, rows)).is_transitive)
            for rows in margin_batches(points.shape[0], len(ranker.classes_))
        )
    )


def _forget_peak() -> bool:
    """Let the system count the most memory that this process takes from now on, if it can."""
    try:
        LINUX_PEAK.write_text("5")
    except OSError:
        return False
    return True


def _peak_bytes() -> float:
    """Return the most memory that this process has taken since then; NaN if nobody knows."""
    try:
        lines = LINUX_STATUS.read_text().splitlines()
    except OSError:
        return float("nan")
    kibibytes = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024.0 * int(kibibytes[0]) if kibibytes else float("nan")


def _places(
    ranks: NDArray[np.int64], code_of: dict[Any, int], y: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the place of each point's own label; infinity if the ranker never saw that label."""
    codes = np.array([code_of.get(label, -1) for label in y.tolist()], dtype=np.intp)
    places = ranks[np.arange(len(codes)), codes].astype(float)
    return np.where(codes < 0, np.inf, places)


def _chose_right(
    ranks: NDArray[np.int64],
    code_of: dict[Any, int],
    places: NDArray[np.float64],
    tested: _Tested,
) -> NDArray[np.bool_]:
    """Tell where a point's own label comes before all others shown, if there were others.

    A label that the ranker never saw comes last.
    """
    right = []
    if tested.shown is None:
        return np.zeros(0, dtype=bool)
    for row, (own, shown) in enumerate(zip(tested.y.tolist(), tested.shown, strict=True)):
        others = [label for label in shown if label != own]
        if others:
            rivals = [ranks[row, code_of[label]] for label in others if label in code_of]
            right.append(places[row] < min(rivals, default=np.inf))
    return np.array(right, dtype=bool)


def _summarise(name: str, measurements: list[_Measurement]) -> Result:
    hits = np.array([m.n_hits for m in measurements])
    points = np.array([[m.n_points] for m in measurements])
    chose_right = np.concatenate([m.chose_right for m in measurements])
    return Result(
        name,
        accuracies=hits.sum(axis=0) / points.sum(),
        deviations=np.std(hits / points, axis=0, ddof=1)
        if len(measurements) > 1
        else np.full(hits.shape[1], np.nan),
        cycle_share=float(sum(m.n_cyclic for m in measurements) / points.sum()),
        fit_seconds=float(np.mean([m.fit_seconds for m in measurements])),
        rank_seconds=float(np.mean([m.rank_seconds for m in measurements])),
        choice_accuracy=float(chose_right.mean()) if len(chose_right) else float("nan"),
        peak_bytes=max(m.peak_bytes for m in measurements),
        chosen=tuple(m.chosen for m in measurements if m.chosen is not None),
        coverage=float(sum(m.n_covered for m in measurements) / points.sum()),
        mean_length=float(sum(m.n_listed for m in measurements) / points.sum()),
    )
