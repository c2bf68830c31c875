"""The formulas behind the bounds, in the paper's letters, and the checks of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import binom, xlogy

Floats = NDArray[np.float64]


class Symbols(NamedTuple):
    """The paper's letters as arrays of one shape, and L = log(2/δ), δ being one duel's share."""

    n: Floats
    L: Floats
    alpha: Floats
    B: Floats
    epsilon: Floats
    V: Floats
    K: Floats
    C: Floats
    k: Floats


_ACCEPTED: dict[str, tuple[Callable[[Floats], Any], str]] = {
    "n_samples": (lambda n: n >= 1, "at least 1"),
    "confidence": (lambda delta: (delta > 0) & (delta < 1), "between 0 and 1, exclusive"),
    "noise_exponent": (lambda alpha: (alpha >= 0) & (alpha <= 1), "between 0 and 1"),
    "noise_constant": (lambda B: B > 0, "positive"),
    "min_mass": (lambda epsilon: (epsilon > 0) & (epsilon <= 1), "positive and at most 1"),
    "vc_dimension": (lambda V: (V >= 1) & _is_whole(V), "a whole number of at least 1"),
    "n_classes": (lambda K: (K >= 2) & _is_whole(K), "a whole number of at least 2"),
    "constant": (lambda C: C > 0, "positive"),
    "bias": (lambda bias: (bias >= 0) & (bias <= 1), "between 0 and 1"),
    "k": (lambda k: (k >= 1) & _is_whole(k), "a whole number from 1 to n_classes"),
}


def check_symbols(k: ArrayLike = 1, **arguments: ArrayLike) -> Symbols:
    """Check the public arguments and give them one shape."""
    arguments["k"] = k
    checked = {name: _check_number(name, value) for name, value in arguments.items()}
    _check_broadcast(checked)
    shape = np.broadcast_shapes(*(numbers.shape for numbers in checked.values()))
    whole = {name: np.broadcast_to(numbers, shape) for name, numbers in checked.items()}
    if np.any(whole["k"] > whole["n_classes"]):
        raise ValueError(f"k must be {_ACCEPTED['k'][1]}, got {whole['k'].max():g}.")
    return Symbols(
        n=whole["n_samples"],
        L=np.log(2) + np.log(_n_duels(whole["n_classes"])) - np.log(whole["confidence"]),
        alpha=whole["noise_exponent"],
        B=whole["noise_constant"],
        epsilon=whole["min_mass"],
        V=whole["vc_dimension"],
        K=whole["n_classes"],
        C=whole["constant"],
        k=whole["k"],
    )


def _check_number(name: str, value: ArrayLike) -> Floats:
    numbers = np.asarray(value)
    accepts, accepted = _ACCEPTED[name]
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number or an array of numbers, got {value!r}.")
    numbers = numbers.astype(np.float64)
    refused = ~(np.isfinite(numbers) & accepts(numbers))
    if np.any(refused):
        raise ValueError(f"{name} must be {accepted}, got {numbers[refused][0]:g}.")
    return numbers


def _check_broadcast(numbers: dict[str, Floats]) -> None:
    shapes = {name: array.shape for name, array in numbers.items() if array.ndim > 0}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        got = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise ValueError(f"The arguments must broadcast against each other, got {got}.") from None


def check_bias(bias: ArrayLike, symbols: Symbols) -> Floats:
    """Return the biases with an axis of duels: all of them, or a single one that stands for all."""
    biases = np.atleast_1d(_check_number("bias", bias))
    n_given = biases.shape[-1]
    if n_given != 1 and np.any(_n_duels(symbols.K) != n_given):
        raise ValueError(
            f"bias must be one number, or have one number per duel along its last axis "
            f"(n_classes (n_classes - 1) / 2 = {_n_duels(symbols.K).flat[0]:g}), "
            f"got shape {biases.shape}."
        )
    _check_broadcast({"bias without its last axis": biases[..., 0], "the rest": symbols.n})
    return biases


def check_method(method: str, accepted: tuple[str, str]) -> None:
    if method not in accepted:
        raise ValueError(f"method must be {accepted[0]!r} or {accepted[1]!r}, got {method!r}.")


def _is_whole(numbers: Floats) -> NDArray[np.bool_]:
    return np.floor(numbers) == numbers


def _n_duels(n_classes: Floats) -> Floats:
    """Return the number of duels in floats: infinite where `_pairs.n_pairs` would overflow."""
    return n_classes * (n_classes - 1) / 2


# The kernels take logarithms: 1/(n h) and the powers 1/(1−α) leave the range of floats easily.


def _log_beta(symbols: Symbols) -> Floats:
    """Return log β, β = B^(1−α) / ((1−α)^(1−α) α^α); the supplement's β is β/ε."""
    alpha = symbols.alpha
    entropy = -xlogy(1 - alpha, 1 - alpha) - xlogy(alpha, alpha)  # 0 log 0 = 0
    return np.asarray((1 - alpha) * np.log(symbols.B) + entropy, dtype=np.float64)


def _log_terms(symbols: Symbols) -> tuple[Floats, Floats]:
    """Return the logarithms of the two terms whose maximum is half the rate, eq. (pre-conclu-2)."""
    n, alpha, epsilon = symbols.n, symbols.alpha, symbols.epsilon
    power = 1 / (2 - alpha)
    log_h = (3 - 2 * alpha) * np.log(epsilon) - _log_beta(symbols)
    with np.errstate(divide="ignore"):  # log n is 0 at n = 1
        complexity = np.log(4 * symbols.V * np.log(n)) + 2 * np.log(symbols.C)
    first = power * (np.log(16) - np.log(n) - log_h) + np.logaddexp(
        power * complexity, power * np.log(2 * symbols.L)
    )
    second = np.log(32 * symbols.L / 3) - np.log(epsilon) - np.log(n)
    return first, second


def log_rate(symbols: Symbols) -> Floats:
    rate: Floats = np.log(2) + np.maximum(*_log_terms(symbols))
    return rate


def exact_threshold(symbols: Symbols) -> NDArray[np.int64]:
    """Search for the smallest n whose first term dominates: the terms cross once (eq. ineq-n1)."""

    def dominates(n: Floats) -> NDArray[np.bool_]:
        first, second = _log_terms(symbols._replace(n=n))
        return np.asarray(first >= second)

    high = np.ones(symbols.n.shape)
    while not np.all(enough := dominates(high)):
        high = np.where(enough, high, 2 * high)
        if np.any(high > 2**53):
            raise ValueError(
                f"noise_constant must not be so small that the threshold exceeds 2**53, got "
                f"{symbols.B.min():g}; no distribution has less than 1, and method='closed' "
                "takes any."
            )
    low = np.floor(high / 2)  # too few, or 0
    while np.any(high - low > 1):
        middle = np.where(high - low > 1, np.floor((low + high) / 2), high)
        enough = dominates(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high.astype(np.int64)


def closed_threshold(symbols: Symbols) -> Floats:
    alpha, epsilon = symbols.alpha, symbols.epsilon
    base = (2 - alpha) * np.log(16 / 3) - np.log(32) - _log_beta(symbols)
    base = base + (1 - alpha) * np.log(epsilon)
    with np.errstate(divide="ignore"):  # at α = 1 base is negative: the term is exp(−∞) = 0
        second = np.log(symbols.L) + base / (1 - alpha)
    first = exp(np.log(symbols.L) - 2 * np.log(symbols.C) - np.log(2 * symbols.V))
    return np.ceil(exp(np.maximum(first, second)))


def sum_over_duels(symbols: Symbols, biases: Floats) -> Floats:
    """Sum the bounds of P{ĝ_kl(X) ≠ g*_kl(X)} over all duels, as the theorem does."""
    # A single bias stands for all duels: the mean times their number is the sum in either case.
    bias_powers = _powers(biases, symbols.alpha).mean(axis=-1)
    return _times(_n_duels(symbols.K), _disagreement(symbols, bias_powers))


def sum_over_sets(symbols: Symbols, biases: Floats) -> Floats:
    """Multiply the largest such bound by binom(K, k) k (K−k), as the proposition does."""
    K, k = symbols.K, symbols.k
    bias_powers = _powers(biases, symbols.alpha).max(axis=-1)
    counted = K * (K - 1) * binom(K - 2, k - 1)
    return _times(counted, _disagreement(symbols, bias_powers))


def _disagreement(symbols: Symbols, bias_powers: Floats) -> Floats:
    """Return (β/ε) (r_n^α + 2 bias^α), eq. (bound_bin)."""
    log_factor = _log_beta(symbols) - np.log(symbols.epsilon)
    rate = log_factor + symbols.alpha * log_rate(symbols)
    return exp(rate) + 2 * _times(exp(log_factor), bias_powers)


def _powers(biases: Floats, alpha: Floats) -> Floats:
    return np.where(biases > 0, biases ** alpha[..., np.newaxis], 0.0)


def _times(first: Floats, second: Floats) -> Floats:
    """Multiply; products that are too large are infinite, and 0 times anything is 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where((first == 0) | (second == 0), 0.0, first * second)


def exp(logarithm: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logarithm))
