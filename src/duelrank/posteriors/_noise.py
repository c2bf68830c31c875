"""The noise condition: how often duels are close to a fair coin.

With G = |2 η_kl(X) − 1| the gap of a duel, the condition with noise exponent α in [0, 1] and
noise constant B is (Clémençon & Vogel 2020, Section 3.3)

    P{G < t} ≤ B t^(α/(1−α))   for all t ≥ 0.

α = 0 asks for nothing; the larger α, the rarer are points at which the duel is hard. Since gaps
are at most 1, B is never below 1. Read literally, α = 1 leaves only G = 1, labels without
noise. It usually stands for Massart's condition, G ≥ m for a margin m > 0, under which every
α < 1 holds with B = m^(−α/(1−α)); see `massart_margin`. The paper's H is m/2.

The functions take a sample of gaps, (n,) for one duel or (n, P) for P of them, and return a number
or one number per column. `duel_gaps` makes such samples from known posteriors.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class NoiseExponent(NamedTuple):
    """An estimate of the noise exponent α and its standard error; numbers or arrays (P,)."""

    estimate: Any
    standard_error: Any


def massart_margin(gaps: ArrayLike) -> Any:
    """Return the smallest gap.

    Parameters
    ----------
    gaps : array-like of shape (n,) or (n, P)
        Values of |2p − 1|, p the probability of the duel.

    Returns
    -------
    margin : float, or ndarray of shape (P,)
        The largest m with |2p − 1| ≥ m throughout the sample. The paper's H bounds |p − 1/2|:
        it is m/2. The margin of a sample can only shrink as the sample grows.

    Examples
    --------
    >>> massart_margin([[0.4, 0.5], [0.1, 0.8], [0.9, 0.6]])
    array([0.1, 0.5])
    """
    return _check_gaps(gaps).min(axis=0)[()]


def noise_constant(gaps: ArrayLike, noise_exponent: Any, *, resolution: float | None = None) -> Any:
    """Return the smallest B with which the noise condition holds for the sample.

    The share of gaps below t jumps just after each gap g, so the supremum over t of
    P{G < t} / t^(α/(1−α)) is the largest P{G ≤ g} / g^(α/(1−α)) over the sample.

    Parameters
    ----------
    gaps : array-like of shape (n,) or (n, P)
        Values of |2p − 1|, p the probability of the duel.
    noise_exponent : float, or array-like of shape (P,)
        The paper's α, from 0 to 1; one for all duels or one for each.
    resolution : float, default=None
        The condition is checked for t > resolution. By default, 64 times the rounding error of the
        type of gaps (1.4e-14 for double precision): below it, gaps of rounded probabilities are
        noise, or 0. With 0, a single gap of 0 makes B infinite for every α > 0.

    Returns
    -------
    noise_constant : float, or ndarray of shape (P,)
        At least 1, and exactly 1 for α = 0. For α = 1 it is infinite if a gap is below 1. As the
        largest of n ratios it is sensitive to the few smallest gaps: of a sample it overestimates
        the B of the distribution.

    Examples
    --------
    >>> float(noise_constant([0.25, 0.5, 0.75, 1.0], 0.5))  # α/(1−α) = 1: uniform gaps
    1.0
    >>> float(noise_constant([0.1, 0.5, 0.75, 1.0], 0.5).round(12))  # a quarter is ≤ 0.1
    2.5
    """
    checked = _check_gaps(gaps)
    in_order = np.sort(np.maximum(checked, _check_resolution(resolution, gaps)), axis=0)
    try:
        exponents = np.asarray(noise_exponent, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"noise_exponent must be a number or one per duel, got {noise_exponent!r}."
        ) from None
    if exponents.ndim > 0 and exponents.shape != in_order.shape[1:]:
        raise ValueError(
            f"noise_exponent must be a number or one per duel: shape {in_order.shape[1:]}, "
            f"got {exponents.shape}."
        )
    if not np.all((exponents >= 0) & (exponents <= 1)):
        raise ValueError(f"noise_exponent must lie between 0 and 1, got {noise_exponent!r}.")
    n_gaps = len(in_order)
    # Of equal gaps the last one counts them all, and has the largest ratio.
    share = np.arange(1, n_gaps + 1).reshape(-1, *[1] * (in_order.ndim - 1)) / n_gaps
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        power = exponents / (1 - exponents)
        log_ratios = np.log(share) - power * np.log(in_order)
        # 0 · log 0 and ∞ · log 1 are not defined; here both are the logarithm of 1.
        log_ratios = np.where(np.isnan(log_ratios), np.log(share), log_ratios)
        return np.exp(log_ratios.max(axis=0))[()]


def noise_exponent(
    gaps: ArrayLike, n_smallest: int | None = None, *, resolution: float | None = None
) -> NoiseExponent:
    """Estimate the noise exponent from the smallest gaps.

    If P{G < t} = B t^(α/(1−α)) for small t, then −log G has an exponential tail of mean
    (1−α)/α. Hill's estimator of that mean is the average of log(g_(m+1) / g_(i)) over the m
    smallest gaps g_(1) ≤ … ≤ g_(m). Gaps below the resolution are only known to be below it, and
    count as censored there: the sum is divided by the number of the others.

    Parameters
    ----------
    gaps : array-like of shape (n,) or (n, P)
        Values of |2p − 1|, p the probability of the duel; at least two.
    n_smallest : int, default=None
        How many of the smallest gaps to use, m < n. By default n^(2/3).
    resolution : float, default=None
        Below it gaps cannot be told from 0. By default, 64 times the rounding error of the type
        of gaps (1.4e-14 for double precision). With small α, gaps below that are not rare, and
        gaps of 0 come from rounding.

    Returns
    -------
    noise_exponent : NoiseExponent
        The estimate, and its standard error α(1−α)/√m, with m without the censored ones. If all
        of the m smallest gaps are below the resolution, the estimate is 0 and its standard error
        NaN, as they do not tell how far from 0 α is; if they are equal, the estimate is 1.

    Notes
    -----
    Where the power law holds exactly up to g_(m+1), the estimate is too large by
    about α(1−α)²/m, less than its standard error. Where it holds only for small t, a larger m
    brings a bias of its own: under Massart's condition, for example, the estimate tends to the
    true α = 1 from below, and only as m/n goes to 0. Errors of size s in estimated probabilities
    blur all gaps below s: from such gaps, the estimate says more about the errors than about the
    duel.

    Examples
    --------
    >>> import numpy as np
    >>> gaps = np.random.default_rng(0).random(10_000) ** 3  # P{G < t} = t^(1/3): α = 1/4
    >>> estimate, standard_error = noise_exponent(gaps)
    >>> print(f"{estimate:.3f} ± {standard_error:.3f}")
    0.254 ± 0.009
    """
    checked = _check_gaps(gaps)
    resolution = _check_resolution(resolution, gaps)
    n_gaps = len(checked)
    if n_gaps < 2:
        raise ValueError(f"gaps must hold at least two values of a duel, got {n_gaps}.")
    if n_smallest is None:
        n_smallest = max(1, int(n_gaps ** (2 / 3)))
    elif not isinstance(n_smallest, (int, np.integer)) or not 1 <= n_smallest < n_gaps:
        raise ValueError(
            f"n_smallest must be an integer from 1 to {n_gaps - 1}, got {n_smallest!r}."
        )
    # Sorted, so that the sum does not depend on the order in which partition leaves them.
    smallest = np.sort(np.partition(checked, n_smallest, axis=0)[: n_smallest + 1], axis=0)
    n_seen = (smallest[:-1] > resolution).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.maximum(smallest, resolution))
        mean_excess = (logs[-1] - logs[:-1]).sum(axis=0) / n_seen
    mean_excess = np.where(n_seen == 0, np.inf, mean_excess)
    estimate = 1 / (1 + mean_excess)
    with np.errstate(invalid="ignore"):  # 0/0 where no gap is seen
        standard_error = estimate * (1 - estimate) / np.sqrt(n_seen)
    return NoiseExponent(estimate[()], standard_error[()])


def _check_resolution(resolution: float | None, gaps: ArrayLike) -> float:
    if resolution is None:
        dtype = np.asarray(gaps).dtype
        return 64 * float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)
    if not isinstance(resolution, Real) or not 0 <= resolution < 1:
        raise ValueError(f"resolution must be at least 0 and below 1, got {resolution!r}.")
    return resolution


def _check_gaps(gaps: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(gaps, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("gaps must be numbers, in rows of equal length.") from None
    if array.ndim not in (1, 2) or len(array) == 0:
        raise ValueError(
            f"gaps must have shape (n,), or (n, P) for P duels, n ≥ 1; got {array.shape}."
        )
    if not np.all((array >= 0) & (array <= 1)):
        raise ValueError("gaps must lie between 0 and 1: they are values of |2p − 1|.")
    return array
