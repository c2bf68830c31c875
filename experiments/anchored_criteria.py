"""How anchored duels should choose their strengths: criteria on held-out rows.

The sets are those of the benchmark of label ranking below 1,000 rows, with its ten folds and the
top label only. In every fold, all pairs of strengths (C, C_own) are fitted on four fifths of the
training rows at a time. A criterion takes the pair that is best on the held-out fifths:

- own: the mean log loss of the duels of a row's label, Σ log(1 + exp(−margin)) / (K − 1);
- first: −log p of a row's label if its odds are those of its duels, log(1 + Σ exp(−margin));
- coupled: −log of the posterior of a row's label by pairwise coupling;
- tau: −τ, Kendall's τ with the whole truth of the held-out rows. Labels do not tell this.

The model of that pair on all training rows is measured on the test rows: Kendall's τ with the
truth, and how often the first label is the true one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from duelrank import AnchoredDuels, DuelRanker, LogisticDuels, pairs
from duelrank.losses import partial_kendall_tau
from duelrank.tournaments import couple
from experiments import journal, results
from experiments.label_ranking import DATA_SETS, N_FOLDS, SEED, feedback, load
from experiments.results import Row

NAME = "anchored_criteria"
SETS = DATA_SETS["small"]
N_PARTS = 5  # of the training rows, as AnchoredDuelsCV has them
# Divided by the mean squared distance of the rows from their mean. They are the first five of the
# six of AnchoredDuelsCV; on vowel, the sixth would take longer than the five.
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
CRITERIA = ("own", "first", "coupled", "tau")

Losses = dict[
    str, np.ndarray
]  # of every criterion, (n_Cs, 1 + n_C_owns): without corrections first


def of_scores(losses: Losses) -> tuple[int, int]:
    """Choose C by −log p of the scores alone, and no correction."""
    return int(np.argmin(losses["first"][:, 0])), 0


def one_after_the_other(losses: Losses) -> tuple[int, int]:
    """Choose C by −log p of the scores alone, then C_own by the log loss of own duels."""
    C = of_scores(losses)[0]
    return C, int(np.argmin(losses["own"][C]))


def together(criterion: str) -> Callable[[Losses], tuple[int, int]]:
    """Choose both strengths by one criterion."""

    def choose(losses: Losses) -> tuple[int, int]:
        C, C_own = np.unravel_index(np.argmin(losses[criterion]), losses[criterion].shape)
        return int(C), int(C_own)

    return choose


CURRENT = "C by first, then C_own by own"  # what AnchoredDuelsCV does
CHOICES = {
    "scores alone, C by first": of_scores,
    CURRENT: one_after_the_other,
    **{f"both by {criterion}": together(criterion) for criterion in CRITERIA},
}
INDEPENDENT = "independent duels, C by own"
HINDSIGHT = "hindsight"  # the pair with the best mean τ on the test rows of all folds of a set


def compute() -> None:
    """Fit all pairs of strengths on all sets, and choose in all ways."""
    settings = {
        "seed": SEED,
        "folds": N_FOLDS,
        "parts": N_PARTS,
        "strengths_times_mean_square": STRENGTHS,
    }
    tasks = [{"data": data} for data in SETS]
    results.write(NAME, journal.run(NAME, compare, tasks, settings), **settings)


def draw() -> None:
    """Print the means over sets, next to what AnchoredDuelsCV does; there is no figure."""
    table = results.read(NAME)
    current = table["tau"][table["choice"] == CURRENT]
    for choice in (INDEPENDENT, *CHOICES, HINDSIGHT):
        mine = table["choice"] == choice
        gains = table["tau"][mine] - current
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        print(
            f"{choice:30} τ {table['tau'][mine].mean():.4f}, {gains.mean():+.4f} ± {error:.4f}; "
            f"first label {table['first'][mine].mean():.4f}; "
            f"corrected {table['corrected'][mine].mean():.0%}"
        )


def compare(data: str) -> list[Row]:
    """Return, for every choice, the means over ten folds of what its models do on test rows.

    ``corrected`` is the share of folds in which corrections were chosen, and ``largest`` that of
    folds in which C or C_own was the largest one.
    """
    X, truth = load(data)
    chosen: dict[str, list[tuple[int, int]]] = {name: [] for name in (*CHOICES, INDEPENDENT)}
    measured: list[np.ndarray] = []
    alone: list[np.ndarray] = []
    for fold, (train, test) in enumerate(KFold(N_FOLDS, shuffle=True, random_state=SEED).split(X)):
        scaler = StandardScaler().fit(X[train])
        points, seed = scaler.transform(X), SEED + fold
        strengths = np.array(STRENGTHS) / points[train].var(axis=0).sum()
        grid = [[anchored(C, C_own) for C_own in (0.0, *strengths)] for C in strengths]
        independent = [[LogisticDuels(C)] for C in strengths]
        parts = list(parts_of(train, np.argmin(truth, axis=1)))
        losses = held_out_losses(grid, points, truth, parts, seed)
        for name, choose in CHOICES.items():
            chosen[name].append(choose(losses))
        own = held_out_losses(independent, points, truth, parts, seed)["own"]
        chosen[INDEPENDENT].append((int(np.argmin(own)), 0))
        measured.append(on_test_rows(grid, points, truth, train, test, seed))
        alone.append(on_test_rows(independent, points, truth, train, test, seed))
    mean_tau = np.mean(measured, axis=0)[..., 0]
    best = np.unravel_index(np.argmax(mean_tau), mean_tau.shape)
    chosen[HINDSIGHT] = [(int(best[0]), int(best[1]))] * N_FOLDS
    rows = []
    for name, places in chosen.items():
        of_folds = alone if name == INDEPENDENT else measured
        tau, first = np.mean([of_fold[place] for of_fold, place in zip(of_folds, places)], axis=0)
        corrected = np.mean([C_own > 0 for _, C_own in places])
        largest = np.mean([len(STRENGTHS) in (C + 1, C_own) for C, C_own in places])
        shares = {"corrected": corrected, "largest": largest}
        rows.append({"choice": name, "tau": tau, "first": first} | shares)
    return rows


def anchored(C: float, C_own: float) -> AnchoredDuels:
    """Return anchored duels, without corrections if C_own is 0."""
    return AnchoredDuels(C, C_own) if C_own > 0 else AnchoredDuels(C, rivals=0)


def parts_of(train: np.ndarray, codes: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Split training rows, stratified by label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # labels with fewer rows than parts
        for rest, part in StratifiedKFold(N_PARTS).split(train, codes[train]):
            yield train[rest], train[part]


def held_out_losses(
    grid: list[list[Any]],
    points: np.ndarray,
    truth: np.ndarray,
    parts: list[tuple[np.ndarray, np.ndarray]],
    seed: int,
) -> Losses:
    """Return the mean losses of all engines of a grid on rows that they have not seen."""
    n_rows = sum(len(held_out) for _, held_out in parts)
    losses = {name: np.zeros((len(grid), len(grid[0]))) for name in CRITERIA}
    for rest, held_out in parts:
        for place in np.ndindex(len(grid), len(grid[0])):
            ranker = fitted(grid[place[0]][place[1]], points, truth, rest, seed)
            for name, values in losses_of_rows(ranker, points[held_out], truth[held_out]).items():
                losses[name][place] += values.sum() / n_rows
    return losses


def on_test_rows(
    grid: list[list[Any]],
    points: np.ndarray,
    truth: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
) -> np.ndarray:
    """Return the mean τ of all engines of a grid, and how often the first label is right."""
    found = np.empty((len(grid), len(grid[0]), 2))
    for place in np.ndindex(found.shape[:2]):
        ranks = fitted(grid[place[0]][place[1]], points, truth, train, seed).predict_ranks(
            points[test]
        )
        right = np.argmin(ranks, axis=1) == np.argmin(truth[test], axis=1)
        found[place] = partial_kendall_tau(truth[test], ranks).mean(), right.mean()
    return found


def fitted(
    engine: Any, points: np.ndarray, truth: np.ndarray, rows: np.ndarray, seed: int
) -> DuelRanker:
    """Fit a ranker to the top labels of some rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker: DuelRanker = DuelRanker(engine, random_state=seed).fit(
            points[rows], feedback(truth[rows], "top", repeat=0)
        )
    return ranker


def losses_of_rows(ranker: DuelRanker, X: np.ndarray, truth: np.ndarray) -> Losses:
    """Return the losses of all criteria on every row."""
    n, n_classes = truth.shape
    first, second = pairs(n_classes)
    margins = ranker.duels_.margins(X)
    lead = np.zeros((n, n_classes, n_classes))  # of the first of two labels, its log-odds to win
    lead[:, second, first], lead[:, first, second] = margins, -margins
    number, code = np.arange(n), np.argmin(truth, axis=1)
    behind = -lead[number, code]
    posterior = couple(expit(lead))[number, code]
    return {
        "own": (np.logaddexp(0, behind).sum(axis=1) - np.log(2)) / (n_classes - 1),
        "first": logsumexp(behind, axis=1),
        "coupled": -np.log(np.maximum(posterior, np.finfo(np.float64).eps)),
        "tau": -partial_kendall_tau(truth, ranker.predict_ranks(X)),
    }
