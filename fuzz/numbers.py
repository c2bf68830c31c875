"""Extreme numbers: a fit that says it has converged is within 1e-6 of the best objective known."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.cases import Case, Find, Kind
from fuzz.objectives import Corrected, Objective, ScoreObjective

TOLERANCE = 1e-6  # relative, of the objective
NEGLIGIBLE = r"columns \[[\d, ]+\]( and \d+ more)? of X are too small to matter"  # documented
SCALES = (1e-300, 1e-150, 1e-30, 1e-12, 1e-6, 1e-3, 1.0, 1.0, 1.0, 1e3, 1e6, 1e12, 1e30, 1e150)
OFFSETS = (0.0, 0.0, 0.0, 1.0, 1e3, 1e6, -1e9, 1e12)
STRENGTHS = (1.0, 1.0, 1e-6, 1e-3, 1e-1, 1e1, 1e3, 1e6)
# Of stumps, forests and kernels there is no objective to compare: only errors and warnings.
OTHERS = ("anchored", "stumps", "forest", "kernel", "logistic-cv")
OTHER_EVERY = 10
# Rows in memory, in blocks of so many, or as if they were too large to be checked.
WAYS = ("in memory",) * 13 + ("in blocks of 7", "in blocks of 50", "too large to check")


def make_case(random: random.Random, materials: Any) -> Case:
    """Make rows, labels, weights and parameters."""
    source = np.random.default_rng(random.getrandbits(64))
    n_classes = random.choice([2, 2, 2, 3, 4])
    n_rows = random.choice([4, 10, 30, 60, 120])
    n_features = random.choice([1, 2, 3, 5, 8, 8, 40])
    story = [f"{n_rows} rows, {n_features} columns, {n_classes} labels"]
    codes = source.integers(n_classes, size=n_rows)
    signal = random.choice([0.0, 0.3, 1.0, 3.0, 30.0])
    X = source.normal(size=(n_rows, n_features))
    X += signal * source.normal(size=(n_classes, n_features))[codes]
    weights = _weights(n_rows, random, source, story)
    with np.errstate(all="ignore"):
        for _ in range(random.choice([0, 1, 1, 2, 3])):
            X = _strange(X, codes, random, source, story)
        if random.random() < 0.5:
            X = _scaled(X, random, story)
        X = X.astype(random.choice([np.float64, np.float64, np.float64, np.float32]))
    facts = {
        "n_classes": n_classes,
        "C": random.choice(STRENGTHS),
        "fit_intercept": random.random() < 0.85,
        "class_weight": random.choice([None, None, None, "balanced"]),
        "sparse": random.random() < 0.2,
        "keep_rows": random.random() < 0.05,
        "engine": random.choice(OTHERS) if random.randrange(OTHER_EVERY) == 0 else "logistic",
        "way": random.choice(WAYS),
    }
    story.append(str(facts["way"]))
    arrays = {"X": X, "codes": codes} | ({} if weights is None else {"weights": weights})
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return Case({"rows.npz": stream.getvalue()}, story, facts)


def _strange(
    X: NDArray[Any],
    codes: NDArray[Any],
    random: random.Random,
    source: np.random.Generator,
    story: list[str],
) -> NDArray[Any]:
    X = X.copy()
    n_rows, n_features = X.shape
    column, row = random.randrange(n_features), random.randrange(n_rows)
    way = random.randrange(11)
    if way == 0:
        X[:, column] = random.choice([0.0, 1.0, 1e9, 0.1])
        story.append(f"column {column} is constant")
    elif way == 1:
        X[:, column] = X[:, 0] * random.choice([1.0, -1.0, 1e6, 1e-6])
        story.append(f"column {column} is a multiple of column 0")
    elif way == 2:
        X[row] = X[random.randrange(n_rows)]
        story.append("two rows are the same")
    elif way == 3:
        X[row, column] = random.choice([1e3, 1e6, -1e9, 1e12, 1e100, 1e300])
        story.append(f"row {row} has {X[row, column]:g} in column {column}")
    elif way == 4:
        X[:, column] = codes + 1e-3 * source.normal(size=n_rows)
        story.append(f"column {column} tells the labels apart")
    elif way == 5:
        X[:] = X[0]
        story.append("all rows are the same")
    elif way == 6:
        X[source.random(X.shape) < 0.8] = 0.0
        story.append("most numbers are 0")
    elif way == 7:
        X = np.round(X)
        story.append("whole numbers")
    elif way == 8:
        X[:, column] = np.where(source.random(n_rows) < 0.05, 1.0, 0.0)
        story.append(f"column {column} is 1 in few rows")
    elif way == 9:
        X[row] *= random.choice([1e-6, 1e6, 1e12])
        story.append(f"row {row} is on another scale")
    else:
        X[:, column] = np.exp(random.choice([3.0, 10.0, 30.0]) * X[:, column].clip(-10, 10))
        story.append(f"column {column} is an exponential")
    return X


def _scaled(X: NDArray[Any], random: random.Random, story: list[str]) -> NDArray[Any]:
    """Bring columns to other scales, and away from zero."""
    n_features = X.shape[1]
    if random.random() < 0.3:
        scales = [random.choice(SCALES)] * n_features
    else:
        chosen = SCALES if random.random() < 0.3 else SCALES[3:12]
        scales = [random.choice(chosen) for _ in range(n_features)]
    offsets = [random.choice(OFFSETS) for _ in range(n_features)]
    story.append(f"scales {scales[:8]}, offsets {offsets[:8]}")
    scaled: NDArray[Any] = (X + np.array(offsets)) * np.array(scales)
    return scaled


def _weights(
    n_rows: int, random: random.Random, source: np.random.Generator, story: list[str]
) -> NDArray[Any] | None:
    way = random.randrange(8)
    if way > 3:
        return None
    weights = source.random(n_rows)
    if way == 1:
        weights = 10.0 ** source.uniform(-6, 6, size=n_rows)
    elif way == 2:
        weights = source.integers(3, size=n_rows).astype(float)
    elif way == 3:
        weights[:] = random.choice([1e-12, 1e6, 1e12])
    story.append(f"weights from {weights.min():g} to {weights.max():g}")
    return weights


def run_case(case: Case, folder: Path) -> str:
    """Fit, and compare every duel that has converged with the best objective known."""
    from sklearn.exceptions import ConvergenceWarning

    with np.load(io.BytesIO(case.files["rows.npz"])) as archive:
        arrays = {name: archive[name] for name in archive.files}
    facts = case.facts
    engine = _engine(facts)
    X, codes, weights = arrays["X"], arrays["codes"], arrays.get("weights")
    given: Any = X
    if facts["sparse"]:
        from scipy import sparse

        given = sparse.csr_array(X)
    learned = given
    if facts["way"].startswith("in blocks") and facts["engine"] == "logistic":
        from duelrank.blocks import RowBlocks

        learned = RowBlocks.from_array(X, int(facts["way"].split()[-1]))
    with warnings.catch_warnings(), _limits(facts["way"]):
        warnings.simplefilter("ignore", ConvergenceWarning)  # documented
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        warnings.filterwarnings("ignore", NEGLIGIBLE, UserWarning)
        try:
            engine.fit(learned, codes, facts["n_classes"], weights)
        except (ValueError, TypeError) as error:
            if facts["engine"] == "logistic" and not isinstance(error, ValueError):
                raise
            return "refused"
        margins = engine.margins(given)
    if not np.isfinite(margins).all():
        raise Find(f"{facts['engine']}: margins that are not finite", str(margins))
    if facts["engine"] == "anchored":
        check_anchored(engine, X, codes, weights, sparse=facts["sparse"])
    if facts["engine"] not in ("logistic", "logistic-cv"):
        return "fitted"
    n_converged = check_certificates(engine, X, codes, weights)
    return "converged" if n_converged else "not converged"


def _engine(facts: dict[str, Any]) -> Any:
    from duelrank import (
        AnchoredDuels,
        ForestDuels,
        KernelDuels,
        LogisticDuels,
        LogisticDuelsCV,
        StumpDuels,
    )

    shared = {name: facts[name] for name in ("fit_intercept", "class_weight")}
    if facts["engine"] == "logistic":
        keep_rows = facts["keep_rows"] and not facts["way"].startswith("in blocks")
        return LogisticDuels(facts["C"], keep_rows=keep_rows, **shared)
    made = {
        "anchored": AnchoredDuels(
            facts["C"], rivals=1, fit_intercept=facts["fit_intercept"], tol=TOLERANCE / 100
        ),
        "stumps": StumpDuels(),
        "forest": ForestDuels(3, random_state=0),
        "kernel": KernelDuels(10, random_state=0),
        "logistic-cv": LogisticDuelsCV(Cs=3, cv=2, **shared),
    }
    return made[facts["engine"]]


@contextmanager
def _limits(way: str) -> Iterator[None]:
    """Let duels be too large to be checked in such cases; those that are would take too long."""
    from duelrank.duels.logistic import _certificate

    most = _certificate.MOST_NUMBERS
    if way == "too large to check":
        _certificate.MOST_NUMBERS = 0
    try:
        yield
    finally:
        _certificate.MOST_NUMBERS = most


def check_certificates(
    engine: Any, X: NDArray[Any], codes: NDArray[Any], weights: NDArray[Any] | None
) -> bool:
    """Raise a find if a duel has converged, but not to the minimum; tell whether all have.

    Parameters
    ----------
    engine : LogisticDuels or LogisticDuelsCV
        Fitted.
    X : ndarray of shape (n, d)
        Its rows.
    codes : ndarray of shape (n,)
        Their labels.
    weights : ndarray of shape (n,) or None
        Their weights.
    """
    from duelrank import pairs

    coef, intercept = np.asarray(engine.coef_), np.asarray(engine.intercept_)
    strength = np.broadcast_to(engine.C_, intercept.shape)
    for duel, (first, second) in enumerate(zip(*pairs(engine.n_classes_), strict=True)):
        if not engine.converged_[duel]:
            continue
        mine = (codes == first) | (codes == second)
        sides = np.where(codes[mine] == second, 1.0, -1.0)
        counted = np.ones(len(sides)) if weights is None else weights[mine].astype(float)
        both = [counted[sides == side].sum() for side in (-1, 1)]
        if min(both) <= 0:
            continue  # one-sided: there is no minimum
        if engine.class_weight == "balanced":
            counted = counted * (sum(both) / 2 / np.where(sides < 0, *both))
        objective = Objective(X[mine], sides, strength[duel] * counted, bool(engine.fit_intercept))
        own = objective.value(coef[duel], float(intercept[duel]))
        best, who = objective.best(coef[duel], float(intercept[duel]))
        excess = (own - best) / max(best, np.finfo(float).tiny)
        if not excess <= TOLERANCE:
            raise Find(
                f"false certificate, by {_order(excess)}{' (float32)' * (X.dtype == np.float32)}",
                f"duel {duel}: objective {own!r}, but {who} has {best!r}: {excess:.3g} above; "
                f"decrement {engine.decrement_[duel]!r}, {engine.n_iter_[duel]} iterations",
            )
    return bool(np.all(engine.converged_))


def check_anchored(
    engine: Any, X: NDArray[Any], codes: NDArray[Any], weights: NDArray[Any] | None, sparse: bool
) -> None:
    """Raise a find if scores or corrections have converged, but not to their minima.

    Parameters
    ----------
    engine : AnchoredDuels
        Fitted.
    X : ndarray of shape (n, d)
        Its rows.
    codes : ndarray of shape (n,)
        Their labels.
    weights : ndarray of shape (n,) or None
        Their weights.
    sparse : bool
        Whether rows were sparse; then corrections are penalised at zero, not at the mean.
    """
    from scipy.sparse import csr_array

    from duelrank import pairs
    from duelrank.duels.logistic._strength import mean_square

    counted = np.ones(len(X)) if weights is None else weights.astype(float)
    used = counted > 0
    X, codes, counted = X[used], codes[used], counted[used]
    n_classes, with_intercept = engine.n_classes_, bool(engine.fit_intercept)
    given = csr_array(X) if sparse else X
    penalty = 1 / (10.0**2 * mean_square(given, counted, with_intercept))
    centre = np.zeros(X.shape[1])
    if with_intercept:
        centre = (counted / counted.sum() @ X).astype(X.dtype).astype(float)
    coef, intercept = np.asarray(engine.score_coef_), np.asarray(engine.score_intercept_)
    if engine.score_converged_:
        scores = ScoreObjective(
            X, codes, engine.C_ * counted, n_classes, centre, penalty if with_intercept else None
        )
        _compare("scores", *scores.value_and_best(coef, intercept), engine.score_decrement_)
    if sparse:
        centre = np.zeros(X.shape[1])
    own_coef = engine.own_coef_ if isinstance(engine.own_coef_, np.ndarray) else None
    own_coef = engine.own_coef_.toarray() if own_coef is None else own_coef
    first, second = pairs(n_classes)
    for number, duel in enumerate(engine.corrected_duels_):
        if not engine.converged_[number]:
            continue
        k, j = first[duel], second[duel]
        mine = (codes == k) | (codes == j)
        anchor = X[mine].astype(np.longdouble) @ (coef[j] - coef[k]) + intercept[j] - intercept[k]
        objective = Objective(
            X[mine],
            np.where(codes[mine] == j, 1.0, -1.0),
            engine.C_own_ * counted[mine],
            with_intercept,
            Corrected(anchor, centre, penalty),
        )
        own = own_coef[number], float(engine.own_intercept_[number])
        best, _ = objective.best(*own)
        _compare(f"correction {duel}", objective.value(*own), best, engine.decrement_[number])


def _compare(name: str, own: float, best: float, decrement: float) -> None:
    excess = (own - best) / max(best, np.finfo(float).tiny)
    if not excess <= TOLERANCE:
        raise Find(
            f"false certificate of anchored {name.split()[0]}, by {_order(excess)}",
            f"{name}: objective {own!r}, but {best!r} is possible; decrement {decrement!r}",
        )


def _order(excess: float) -> str:
    if not np.isfinite(excess):
        return "no number"
    return "less than 1e-4" if excess < 1e-4 else "less than 1e-1" if excess < 0.1 else "much"


def read_materials(folder: Path) -> None:
    """Import, before workers are forked, what all of them need."""
    import duelrank  # noqa: F401


KIND = Kind("numbers", make_case, run_case, read_materials=read_materials, cases=3000)
