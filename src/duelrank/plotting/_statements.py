"""Statements: probabilities, and whether what they state came true.

A *statement* has a probability and an outcome, which is 1 if the statement came true. It states
that the favourite of a duel is the true label, that the top label is, or that a given label is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank._intervals import wilson_interval
from duelrank._parameters import check_choice

__all__ = [
    "STATEMENTS",
    "about_duels",
    "bins",
    "check_binning",
    "check_probabilities",
    "from_posteriors",
    "lowest_probability",
]

STATEMENTS = ("top", "duels", "labels")
STRATEGIES = ("uniform", "quantile")

Floats = NDArray[np.float64]
Statements = tuple[Floats, Floats, Floats]


def lowest_probability(of: str) -> float:
    """Return the smallest probability that a statement can have: favourites have half or more."""
    return 0.5 if of == "duels" else 0.0


def check_binning(of: str, n_bins: int, strategy: str) -> None:
    check_choice("of", of, STATEMENTS)
    check_choice("strategy", strategy, STRATEGIES)
    if not isinstance(n_bins, (int, np.integer)) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins must be a positive integer, got {n_bins!r}.")


def check_probabilities(probabilities: ArrayLike, of: str) -> Floats:
    array = np.asarray(probabilities, dtype=np.float64)
    square = array.ndim == 3 and array.shape[1] == array.shape[2] and of == "duels"
    if not (array.ndim == 2 or square):
        raise ValueError(
            "probabilities must have shape (n, K), or (n, K, K) with of='duels'; "
            f"got {array.shape} with of={of!r}."
        )
    values = array[:, ~np.eye(array.shape[-1], dtype=bool)] if square else array
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError("probabilities must lie between 0 and 1.")
    return array


def about_duels(true_wins: Floats, codes: NDArray[np.intp], weights: Floats) -> Statements:
    """State that the favourite is the true label, for all duels of the true label.

    true_wins[i, k] is the probability that the true label of row i beats k.
    """
    n_classes = true_wins.shape[1]
    values = true_wins[np.arange(n_classes) != codes[:, np.newaxis]]
    outcome = (values > 0.5) + 0.5 * (values == 0.5)
    return np.maximum(values, 1 - values), outcome, np.repeat(weights, n_classes - 1)


def from_posteriors(
    posteriors: ArrayLike, codes: NDArray[np.intp], weights: Floats, of: str
) -> Statements:
    """State what (n, K) posteriors say about the top label, the duels, or all labels."""
    eta = np.asarray(posteriors, dtype=np.float64)
    if of == "top":
        outcome = np.argmax(eta, axis=1) == codes
        return eta.max(axis=1), outcome.astype(np.float64), weights
    if of == "duels":
        return about_duels(_true_wins(eta, codes), codes, weights)
    n_classes = eta.shape[1]
    outcome = np.arange(n_classes) == codes[:, np.newaxis]
    return eta.ravel(), outcome.ravel().astype(np.float64), np.repeat(weights, n_classes)


def bins(
    probability: Floats,
    outcome: Floats,
    weights: Floats,
    of: str,
    n_bins: int,
    strategy: str,
) -> tuple[Floats, ...]:
    """Return probability, frequency, counts, edges and interval of the bins that are not empty."""
    low = lowest_probability(of)
    if strategy == "uniform":
        edges = np.linspace(low, 1, n_bins + 1)
    else:
        edges = np.quantile(probability, np.linspace(0, 1, n_bins + 1))
    # As in scikit-learn's calibration_curve, a probability on an edge falls into the lower bin.
    number = np.searchsorted(edges[1:-1], probability)
    counts, means, came, squares = (
        np.bincount(number, weights=values, minlength=n_bins).astype(np.float64)
        for values in (weights, weights * probability, weights * outcome, weights**2)
    )
    kept = counts > 0
    frequency = np.clip(came[kept] / counts[kept], 0, 1)
    effective_size = counts[kept] ** 2 / squares[kept]  # Kish's, of weighted statements
    return (
        np.clip(means[kept] / counts[kept], 0, 1),
        frequency,
        counts[kept],
        np.stack([edges[:-1], edges[1:]], axis=1)[kept],
        np.stack(wilson_interval(frequency, effective_size), axis=1),
    )


def _true_wins(eta: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return η_y / (η_y + η_k), and one half where both are 0."""
    true = np.take_along_axis(eta, codes[:, np.newaxis], axis=1)
    both = true + eta
    return np.divide(true, both, out=np.full_like(eta, 0.5), where=both > 0)
