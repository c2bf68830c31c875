"""A benchmark of label ranking: duels and other methods, from four kinds of feedback.

The 17 sets of rankings and the 11 of posteriors are those of the literature. The truth of a row is
its ranking, or the order of its posteriors; equal posteriors (most often zeros) tie. A method
learns nothing from a tie, and the measure, Kendall's τ, is over the label pairs whose order the
truth tells. A *regime* says which part of the truth a method learns from:

- full: all of it;
- missing_30, missing_60: every label of every row is lost with this probability, independently of
  everything else, drawn once for a repeat. The order of the other labels is known, but not how many
  lost labels come between them (Cheng, Hühn & Hüllermeier 2009). Rows without two different places
  say nothing and are dropped;
- top: the label that comes first.

All methods learn from the same folds and the same places, and are measured on the whole truth.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import AnchoredDuelsCV, DuelRanker, LogisticDuels, predict_ranks
from duelrank.competitors import (
    LabelwiseRanker,
    MulticlassRanker,
    NeighborsRanker,
    RankingForest,
    StructuredRanker,
    SubsetRanker,
)
from duelrank.datasets import load_label_ranking
from duelrank.duels import ForestDuels, StackedDuels
from duelrank.feedback import feedback_from_codes, reveals_nothing
from duelrank.losses import partial_kendall_tau
from experiments import journal, results
from experiments.results import Row

NAME = "label_ranking"
SEED = 2020
N_FOLDS = 10
N_REPEATS, N_REPEATS_LARGE = 5, 1
# The largest first. "large" are sets above 5,000 rows, "small" those below 1,000.
DATA_SETS = {
    "large": (
        "ranks/fried", "ranks/calhousing", "ranks/elevators", "ranks/pendigits",
        "posteriors/pendigits", "ranks/cpu", "posteriors/satimage", "posteriors/blocks",
    ),
    "middle": ("ranks/diau", "ranks/heat", "posteriors/segment", "ranks/cold", "ranks/dtt"),
    "small": (
        "ranks/vowel", "posteriors/vowel", "ranks/authorship", "posteriors/authorship",
        "ranks/vehicle", "posteriors/vehicle", "ranks/housing", "ranks/bodyfat", "ranks/glass",
        "posteriors/glass", "posteriors/breast", "ranks/wine", "posteriors/wine", "ranks/iris",
        "posteriors/iris",
    ),
}  # fmt: skip
MISSING = {"missing_30": 0.3, "missing_60": 0.6}
REGIMES = ("full", *MISSING, "top")

# Trees of a forest, for methods of one forest and for those with one per label or pair, and rows
# of a tree: what fits into an hour or two.
TREES, TREES_OF_MANY = 60, 30
FEATURES = 0.5  # share of the features that a split looks at, in all forests
MOST_ROWS_OF_A_TREE = 10_000


class Method(NamedTuple):
    """A way to rank: ``make(n_rows, regime, random_state=…, unplaced=…)`` makes its estimator."""

    make: Callable[..., Any]
    is_duelrank: bool = False
    most_labels: int | None = None  # takes part in sets with no more labels than this
    regimes: tuple[str, ...] = REGIMES  # takes part in these
    regimes_of_large_sets: tuple[str, ...] = REGIMES
    repeats: int = N_REPEATS


def _scaled(ranker: Any) -> Any:
    return make_pipeline(StandardScaler(), ranker)


def _neighbours(n: int, regime: str, **options: Any) -> Any:
    """Return local medians whose number of neighbours is chosen by cross-validation."""
    few = KFold(3, shuffle=True, random_state=SEED)
    many = ShuffleSplit(1, test_size=min(n // 5, 1_000), random_state=SEED)
    return GridSearchCV(
        _scaled(NeighborsRanker(**options)),
        {"neighborsranker__n_neighbors": [1, 3, 5, 10, 20, 40, 80]},
        cv=few if n < 5_000 else many,
    )


def _structured(embedding: str, **takes_part: Any) -> Method:
    # As many centres and the same kernels to choose from as KernelDuels has in a stack.
    parameters = {"gamma": (0.1, 0.3, 1.0, 3.0), "n_components": 300}
    return Method(
        lambda n, regime, **options: _scaled(StructuredRanker(embedding, **parameters, **options)),
        **takes_part,
    )


def _subsets(size: int, **takes_part: Any) -> Method:
    return Method(
        lambda n, regime, **options: _scaled(SubsetRanker(size=size, **options)),
        **takes_part,
    )


def _forest(kind: Any, n_trees: int, n: int, **options: Any) -> Any:
    most_rows = MOST_ROWS_OF_A_TREE if n > MOST_ROWS_OF_A_TREE else None
    return kind(n_trees, max_features=FEATURES, max_samples=most_rows, **options)


def _ranking_forest(n: int, regime: str, **options: Any) -> Any:
    """Return a ranking forest; partial feedback wants larger leaves."""
    leaf = 1 if regime == "full" else 5
    return RankingForest(TREES, max_features=FEATURES, min_samples_leaf=leaf, **options)


# Expensive ones first. Some have fewer repeats, and on large sets learn from full rankings only, or
# do not take part. The names are those of the tables. Multiclass methods learn from top labels
# only, so they take part in one regime.
METHODS = {
    "pairwise forest": Method(
        lambda n, regime, **options: DuelRanker(
            _forest(RandomForestClassifier, TREES_OF_MANY, n), **options
        ),
        is_duelrank=True,
        regimes=("full", "top"),
        regimes_of_large_sets=(),
        repeats=1,
    ),
    "stacked duels": Method(
        lambda n, regime, **options: DuelRanker(StackedDuels(), **options), is_duelrank=True
    ),
    "forest duels": Method(
        lambda n, regime, **options: DuelRanker(ForestDuels(TREES), **options),
        is_duelrank=True,
        regimes_of_large_sets=("full",),
        repeats=1,
    ),
    "linear duels": Method(
        lambda n, regime, **options: _scaled(DuelRanker(LogisticDuels(), **options)),
        is_duelrank=True,
    ),
    "anchored duels": Method(
        lambda n, regime, **options: _scaled(DuelRanker(AnchoredDuelsCV(), **options)),
        is_duelrank=True,
        regimes=("top",),
        regimes_of_large_sets=("top",),
    ),
    "label-wise forest": Method(
        lambda n, regime, **options: LabelwiseRanker(
            _forest(RandomForestRegressor, TREES_OF_MANY, n), **options
        ),
        regimes_of_large_sets=("full",),
        repeats=1,
    ),
    "ranking forest": Method(_ranking_forest),
    "Kemeny embedding": _structured("kemeny"),
    "Hamming embedding": _structured("hamming", regimes_of_large_sets=("full",), repeats=1),
    "Lehmer embedding": _structured("lehmer", regimes_of_large_sets=("full",), repeats=1),
    "subsets of 3": _subsets(3, most_labels=7, regimes_of_large_sets=("full",), repeats=1),
    "subsets of 2": _subsets(2),
    "neighbours": Method(_neighbours),
    "multiclass forest": Method(
        lambda n, regime, **options: MulticlassRanker(
            _forest(RandomForestClassifier, TREES, n, min_samples_leaf=5), **options
        ),
        regimes=("top",),
        regimes_of_large_sets=("top",),
    ),
    "multiclass logistic": Method(
        lambda n, regime, **options: _scaled(MulticlassRanker(**options)),
        regimes=("top",),
        regimes_of_large_sets=("top",),
    ),
    "label-wise linear": Method(lambda n, regime, **options: _scaled(LabelwiseRanker(**options))),
}
# The method that duelrank recommends; the others are compared with it.
DEFAULT = "stacked duels"


def compute() -> None:
    """Cross-validate all methods on all sets."""
    # A run that is stopped has the first repeats of most sets.
    stages = [
        ("small", range(1)),
        ("middle", range(1)),
        ("small", range(1, N_REPEATS)),
        ("middle", range(1, N_REPEATS)),
        ("large", range(N_REPEATS_LARGE)),
    ]
    tasks = [
        {"data": data, "method": name, "regime": regime, "repeat": repeat}
        for size, repeats in stages
        for repeat in repeats
        for data in DATA_SETS[size]
        for name, method in METHODS.items()
        for regime in (method.regimes_of_large_sets if size == "large" else method.regimes)
        if repeat < method.repeats
    ]
    settings = {
        "seed": SEED,
        "folds": N_FOLDS,
        "repeats": N_REPEATS,
        "repeats_of_large_sets": N_REPEATS_LARGE,
        "default": DEFAULT,
        "duelrank": [name for name, method in METHODS.items() if method.is_duelrank],
        "methods": {
            name: " ".join(repr(method.make(20_000, "full")).split())
            for name, method in METHODS.items()
        },
    }
    rows = journal.run(NAME, cross_validate, tasks, settings)
    results.write(NAME, summarise(rows), **settings)


def draw() -> None:
    """Draw how far methods are behind the best one, and write the tables."""
    from experiments import label_ranking_tables

    label_ranking_tables.draw()


def cross_validate(data: str, method: str, regime: str, repeat: int) -> list[Row]:
    """Return, for each of 10 folds, the mean τ and the seconds of fitting and of ranking.

    Seconds are those of this process on a core: other work on the machine does not count.
    """
    X, truth = load(data)
    most_labels = METHODS[method].most_labels
    if most_labels is not None and truth.shape[1] > most_labels:
        return []
    seen = feedback(truth, regime, repeat)
    speaks = ~reveals_nothing(seen)
    folds = KFold(N_FOLDS, shuffle=True, random_state=SEED + repeat).split(X)
    rows = []
    for fold, (train, test) in enumerate(folds):
        train = train[speaks[train]]
        seed = SEED + N_FOLDS * repeat + fold
        model = METHODS[method].make(len(train), regime, random_state=seed, unplaced="unknown")
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[train], seen[train])
        fitted = time.process_time()
        ranks = predict_ranks(model, X[test])
        ranked = time.process_time()
        tau = float(np.mean(partial_kendall_tau(truth[test], ranks)))
        rows.append(
            {
                "fold": fold,
                "tau": tau,
                "fit_seconds": fitted - start,
                "rank_seconds": ranked - fitted,
            }
        )
    return rows


@lru_cache(maxsize=2)
def load(data: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and the true ranks of a set; tied labels share the first place they take.

    Parameters
    ----------
    data : str
        Kind and name, such as "ranks/vowel".
    """
    kind, name = data.split("/")
    X, target = load_label_ranking(name, kind=kind)
    ranks = target if kind == "ranks" else stats.rankdata(-target, method="min", axis=1)
    return X, ranks.astype(np.float64)


def feedback(truth: np.ndarray, regime: str, repeat: int) -> np.ndarray:
    """Return the part of the true ranks that a method learns from; NaN is an unknown place."""
    if regime == "full":
        return truth
    if regime == "top":  # labels that are never first need a column too
        return feedback_from_codes(np.argmin(truth, axis=1), truth.shape[1])
    rng = np.random.RandomState([SEED, repeat])
    stays = np.where(rng.random_sample(truth.shape) < MISSING[regime], np.nan, truth)
    return stats.rankdata(stays, method="min", axis=1, nan_policy="omit")


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Average over folds: one row a set, regime and method.

    ``se`` is the standard error of the mean τ of ten folds. Repeats test on the same rows again, so
    they do not make this error smaller. ``difference`` is the mean of τ minus the default's on the
    same folds, and ``difference_se`` its standard error, also of ten folds.
    """
    groups: dict[tuple[str, str, str], dict[tuple[int, int], Row]] = {}
    for row in rows:
        group = groups.setdefault((row["data"], row["regime"], row["method"]), {})
        group[row["repeat"], row["fold"]] = row
    summary = []
    for (data, regime, method), folds in groups.items():
        default = groups[data, regime, DEFAULT]
        tau = np.array([row["tau"] for row in folds.values()])
        gaps = np.array([folds[fold]["tau"] - default[fold]["tau"] for fold in folds])
        summary.append(
            {
                "data": data,
                "regime": regime,
                "method": method,
                "repeats": 1 + max(repeat for repeat, _ in folds),
                "folds": len(folds),
                "tau": tau.mean(),
                "se": tau.std(ddof=1) / np.sqrt(N_FOLDS),
                "difference": gaps.mean(),
                "difference_se": gaps.std(ddof=1) / np.sqrt(N_FOLDS),
                "fit_seconds": np.mean([row["fit_seconds"] for row in folds.values()]),
                "rank_seconds": np.mean([row["rank_seconds"] for row in folds.values()]),
            }
        )
    return summary
