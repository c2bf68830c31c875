"""How wrong duels can be: the theorem, proposition and corollary of Clémençon & Vogel (2020).

The guarantees are about duels that minimise the training error over a class of rules of finite
VC dimension V, such as `StumpDuels`, and hold with probability at least 1 − δ over the training
sample, for every single sample size n. Their ingredients have one name everywhere:

- `n_samples`, n: rows of the training sample, all labels together;
- `confidence`, δ in (0, 1): the probability that the bound fails — small when cautious;
- `noise_exponent`, α in [0, 1], and `noise_constant`, B: every duel fulfils
  P{|2 η_kl(X) − 1| < t} ≤ B t^(α/(1−α)) for all t ≥ 0. α = 0 asks for nothing. α = 1 leaves no
  noise at all; duels of margin m > 0, |2 η_kl − 1| ≥ m (Massart's condition), fulfil every α < 1
  with B = m^(−α/(1−α)). The paper's H, a bound of |η_kl − 1/2|, is m/2;
- `min_mass`, ε: η_k(x) + η_l(x) > ε for every two labels and every x;
- `vc_dimension`, V; `n_classes`, K, with P = K(K−1)/2 duels;
- `constant`, C: the constant of the VC inequality E R_n{f : T(f) ≤ r} ≤ C r √(V log n / n). The
  paper calls it universal and gives no value; with the default 1 the bounds show how things
  scale and are no certificate;
- `bias`: how much worse the best rule of the class is than the best rule of all,
  inf L_kl(g) − L*_kl: one number for all duels, or a last axis of one number per duel in the
  order of `duelrank.pairs`.

Every argument may be an array; they are broadcast against each other (`bias` without its last
axis). No distribution has B < 1, or ε ≥ 2/K; the formulas are evaluated there all the same.

A bound of 1 or more says nothing about a probability. It is returned as it is, and flagged:

>>> problem = dict(noise_exponent=0.8, noise_constant=1, min_mass=0.4, vc_dimension=2, n_classes=3)
>>> bound = ranking_error_bound([10**4, 10**7], **problem)
>>> print(bound.round(2))
[19.44  0.27]
>>> bound.vacuous
array([ True, False])
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from duelrank.bounds._terms import (
    check_bias,
    check_method,
    check_symbols,
    closed_threshold,
    exact_threshold,
    exp,
    log_rate,
    sum_over_duels,
    sum_over_sets,
)

__all__ = [
    "Bound",
    "classification_excess_bound",
    "learning_rate",
    "ranking_error_bound",
    "sample_threshold",
    "top_k_excess_bound",
]


class Bound(np.ndarray[Any, np.dtype[np.float64]]):
    """Upper bounds of a probability or of an excess risk: an array that tells which say nothing.

    Made by the functions of this module. Arithmetic and comparisons give plain arrays.

    Examples
    --------
    >>> import numpy as np
    >>> bound = np.array([0.25, 1.5]).view(Bound)
    >>> bound.vacuous
    array([False,  True])
    >>> 2 * bound
    array([0.5, 3. ])
    """

    @property
    def vacuous(self) -> Any:
        """Whether the bound is 1 or more, and therefore true of every rule: bool or array."""
        return np.asarray(self) >= 1

    def __array_ufunc__(
        self, ufunc: Any, method: Any, *inputs: Any, out: Any = (), **kwargs: Any
    ) -> Any:
        if out:
            kwargs["out"] = tuple(_plain(array) for array in out)
        return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)


def learning_rate(
    n_samples: ArrayLike,
    *,
    noise_exponent: ArrayLike,
    noise_constant: ArrayLike,
    min_mass: ArrayLike,
    vc_dimension: ArrayLike,
    n_classes: ArrayLike = 2,
    confidence: ArrayLike = 0.05,
    constant: ArrayLike = 1.0,
) -> Any:
    """Return r_n(δ): how much a duel's risk exceeds twice the bias of its class, at most.

    With β = B^(1−α) / ((1−α)^(1−α) α^α), where 0⁰ = 1, and h = ε^(3−2α) / β (Lemma 2)::

        r_n(δ) = 2 (1 / (n h))^(1/(2−α)) [ (64 C² V log n)^(1/(2−α)) + (32 log(2/δ))^(1/(2−α)) ]

    for all n ≥ n₀, see `sample_threshold`. For n < n₀ that formula proves nothing, and r_n is the
    larger term of the supplement's eq. (pre-conclu-2), 64 log(2/δ) / (3 ε n). So the rate and all
    bounds made of it hold for every n.

    Parameters
    ----------
    n_samples : float or array-like
        At least 1.
    noise_exponent, noise_constant, min_mass, vc_dimension, constant : float or array-like
        α, B, ε, V and C of this module's introduction.
    n_classes : int or array-like, default=2
        With K labels the duels share the confidence, and the rate is r_n(δ / P), P = K(K−1)/2.
    confidence : float or array-like, default=0.05
        δ.

    Returns
    -------
    rate : float or ndarray
        Positive; may exceed 1. Decreasing in n from n = 3 on.

    Examples
    --------
    >>> rate = learning_rate(
    ...     10**6, noise_exponent=1, noise_constant=1, min_mass=0.5, vc_dimension=2
    ... )
    >>> print(f"{rate:.5f}")
    0.00755
    """
    symbols = check_symbols(
        n_samples=n_samples,
        confidence=confidence,
        noise_exponent=noise_exponent,
        noise_constant=noise_constant,
        min_mass=min_mass,
        vc_dimension=vc_dimension,
        n_classes=n_classes,
        constant=constant,
    )
    return exp(log_rate(symbols))[()]


def sample_threshold(
    *,
    noise_exponent: ArrayLike,
    noise_constant: ArrayLike,
    min_mass: ArrayLike,
    vc_dimension: ArrayLike,
    n_classes: ArrayLike = 2,
    confidence: ArrayLike = 0.05,
    constant: ArrayLike = 1.0,
    method: Literal["exact", "closed"] = "exact",
) -> Any:
    """Return n₀: the sample size from which the formula of `learning_rate` is the rate.

    It is the smallest n, and so is every larger n, with (eq. ineq-n1, where β is this module's)::

        n^((1−α)/(2−α)) [ (4 C² V log n)^(1/(2−α)) + (2 log(2/δ))^(1/(2−α)) ]
            ≥ (32/3) log(2/δ) / (16 β ε^(α−1))^(1/(2−α))

    n₀ is small: at most 1 + 3.56 log(2/δ) whenever B ≥ 1. It is not the n from which a bound says
    something. To find that n, evaluate `ranking_error_bound` over a range of n.

    Parameters
    ----------
    noise_exponent, noise_constant, min_mass, vc_dimension, constant : float or array-like
        α, B, ε, V and C of this module's introduction.
    n_classes : int or array-like, default=2
        With K labels the duels share the confidence: δ / P takes the place of δ. The theorem
        writes n₀(δ), but its proof needs the lemma at δ / P.
    confidence : float or array-like, default=0.05
        δ.
    method : {"exact", "closed"}, default="exact"
        "exact" searches for n₀. "closed" is the supplement's upper bound, rounded up::

            max{ (2/δ)^(1/(2C²V)), log(2/δ) ((16/3)^(2−α) / (32 β ε^(α−1)))^(1/(1−α)) }

        at α = 1 its second term is 0.

    Returns
    -------
    n_samples : int or ndarray of int; for "closed", float or ndarray of float
        Whole numbers; "closed" may be infinite when C² V is tiny.

    Examples
    --------
    >>> problem = dict(noise_exponent=0.2, noise_constant=1, min_mass=0.6, vc_dimension=2)
    >>> int(sample_threshold(**problem, confidence=0.01))
    2
    >>> float(sample_threshold(**problem, confidence=0.01, method="closed"))
    4.0
    """
    symbols = check_symbols(
        n_samples=1,
        confidence=confidence,
        noise_exponent=noise_exponent,
        noise_constant=noise_constant,
        min_mass=min_mass,
        vc_dimension=vc_dimension,
        n_classes=n_classes,
        constant=constant,
    )
    check_method(method, ("exact", "closed"))
    return (exact_threshold(symbols) if method == "exact" else closed_threshold(symbols))[()]


def ranking_error_bound(
    n_samples: ArrayLike,
    *,
    noise_exponent: ArrayLike,
    noise_constant: ArrayLike,
    min_mass: ArrayLike,
    vc_dimension: ArrayLike,
    n_classes: ArrayLike,
    confidence: ArrayLike = 0.05,
    constant: ArrayLike = 1.0,
    bias: ArrayLike = 0.0,
) -> Bound:
    """Bound the probability that the learned ranking of a new point is not the optimal one.

    With probability at least 1 − δ over the training sample (the theorem)::

        P{σ̂(X) ≠ σ*(X)} ≤ (β/ε) { P r_n(δ/P)^α + Σ_{k<l} 2 bias_kl^α },   P = K(K−1)/2

    A duel without bias adds nothing to the sum, whatever α is.

    Parameters
    ----------
    n_samples, confidence, noise_exponent, noise_constant, min_mass, vc_dimension, n_classes, \
constant, bias : float or array-like
        n, δ, α, B, ε, V, K, C and the biases of this module's introduction.

    Returns
    -------
    bound : Bound
        Positive; its attribute ``vacuous`` is true where the bound is 1 or more.

    Examples
    --------
    >>> problem = dict(noise_exponent=0.8, noise_constant=1, min_mass=0.4, vc_dimension=2)
    >>> bound = ranking_error_bound(10**7, n_classes=3, bias=[0.01, 0, 0], **problem)
    >>> print(f"{bound:.2f}", bool(bound.vacuous))
    0.48 False
    """
    symbols = check_symbols(
        n_samples=n_samples,
        confidence=confidence,
        noise_exponent=noise_exponent,
        noise_constant=noise_constant,
        min_mass=min_mass,
        vc_dimension=vc_dimension,
        n_classes=n_classes,
        constant=constant,
    )
    biases = check_bias(bias, symbols)
    return sum_over_duels(symbols, biases).view(Bound)


def top_k_excess_bound(
    k: ArrayLike,
    n_samples: ArrayLike,
    *,
    noise_exponent: ArrayLike,
    noise_constant: ArrayLike,
    min_mass: ArrayLike,
    vc_dimension: ArrayLike,
    n_classes: ArrayLike,
    confidence: ArrayLike = 0.05,
    constant: ArrayLike = 1.0,
    bias: ArrayLike = 0.0,
    method: Literal["paper", "union"] = "paper",
) -> Bound:
    """Bound how much more often the learned first k places miss the label than the optimal ones.

    With probability at least 1 − δ over the training sample (the proposition)::

        W_k(σ̂) − W_k* ≤ (β/ε) binom(K, k) k (K−k) ( r_n(δ/P)^α + 2 max bias_kl^α )

    The first k places are right when all duels between them and the others are. The proposition
    counts such duels once for each of the binom(K, k) sets that may be right; counting each of
    the P duels once is enough, and gives for k < K the bound of the theorem, which is smaller by
    a factor of 2 binom(K−2, k−1) or more::

        W_k(σ̂) − W_k* ≤ (β/ε) { P r_n(δ/P)^α + Σ_{k<l} 2 bias_kl^α },   P = K(K−1)/2

    Parameters
    ----------
    k : int or array-like
        From 1 to K. All K places never miss: there the bound is 0.
    n_samples, confidence, noise_exponent, noise_constant, min_mass, vc_dimension, n_classes, \
constant, bias : float or array-like
        n, δ, α, B, ε, V, K, C and the biases of this module's introduction.
    method : {"paper", "union"}, default="paper"
        The first or the second formula.

    Returns
    -------
    bound : Bound
        Not negative; its attribute ``vacuous`` is true where the bound is 1 or more.

    Examples
    --------
    >>> problem = dict(noise_exponent=0.8, noise_constant=1, min_mass=0.2, vc_dimension=2)
    >>> print(top_k_excess_bound([1, 2, 5], 10**9, n_classes=5, **problem).round(3))
    [0.376 1.127 0.   ]
    >>> union = top_k_excess_bound([1, 2, 5], 10**9, n_classes=5, method="union", **problem)
    >>> print(union.round(3))
    [0.188 0.188 0.   ]
    """
    symbols = check_symbols(
        k=k,
        n_samples=n_samples,
        confidence=confidence,
        noise_exponent=noise_exponent,
        noise_constant=noise_constant,
        min_mass=min_mass,
        vc_dimension=vc_dimension,
        n_classes=n_classes,
        constant=constant,
    )
    biases = check_bias(bias, symbols)
    check_method(method, ("paper", "union"))
    over = sum_over_duels if method == "union" else sum_over_sets
    return np.where(symbols.k < symbols.K, over(symbols, biases), 0.0).view(Bound)


def classification_excess_bound(
    n_samples: ArrayLike,
    *,
    noise_exponent: ArrayLike,
    noise_constant: ArrayLike,
    min_mass: ArrayLike,
    vc_dimension: ArrayLike,
    n_classes: ArrayLike,
    confidence: ArrayLike = 0.05,
    constant: ArrayLike = 1.0,
    bias: ArrayLike = 0.0,
    method: Literal["paper", "union"] = "paper",
) -> Bound:
    """Bound how much more often the label at the first place is wrong than the best classifier.

    With probability at least 1 − δ over the training sample (the corollary; `top_k_excess_bound`
    at k = 1)::

        L(ḡ) − L* ≤ (β/ε) K (K−1) ( r_n(δ/P)^α + 2 max bias_kl^α ),   P = K(K−1)/2

    Parameters
    ----------
    n_samples, confidence, noise_exponent, noise_constant, min_mass, vc_dimension, n_classes, \
constant, bias : float or array-like
        n, δ, α, B, ε, V, K, C and the biases of this module's introduction.
    method : {"paper", "union"}, default="paper"
        "paper" is the formula above; "union" counts every duel once, at most half of it.

    Returns
    -------
    bound : Bound
        Positive; its attribute ``vacuous`` is true where the bound is 1 or more.

    Examples
    --------
    >>> problem = dict(noise_exponent=0.8, noise_constant=1, min_mass=0.2, vc_dimension=2)
    >>> print(f"{classification_excess_bound(10**9, n_classes=5, **problem):.3f}")
    0.376
    """
    return top_k_excess_bound(
        1,
        n_samples,
        noise_exponent=noise_exponent,
        noise_constant=noise_constant,
        min_mass=min_mass,
        vc_dimension=vc_dimension,
        n_classes=n_classes,
        confidence=confidence,
        constant=constant,
        bias=bias,
        method=method,
    )


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, Bound) else value
