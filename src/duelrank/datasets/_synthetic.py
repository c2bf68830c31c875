"""The paper's synthetic family: posteriors over [0, 1] from a complete binary tree.

With the function of the supplement, for the exponent a = (1 − α) / α of a noise exponent α::

    h(x) = 1/2 + sign(2x − 1) |2x − 1|^a / 2          on [0, 1], crossing 1/2 at 1/2,
    h_s(x) = h warped so that it crosses 1/2 at s,

a tree of depth D has 2^(D+1) leaves, one per label. Its root separates at s = 1/2, the children of
a node at depth j with separator s at s ± 2^−(j+2). Going right multiplies by h_s(x), going left by
1 − h_s(x); the posterior of a label is the product along the path to its leaf.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

Floats = NDArray[np.float64]


def make_label_ranking(
    n_samples: int = 1000,
    noise_exponent: float = 0.8,
    depth: int = 2,
    random_state: Any = None,
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Draw points, labels and their posteriors from the paper's synthetic family.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of points n, drawn uniformly from [0, 1].
    noise_exponent : float, default=0.8
        The paper's α, from 0 (labels are pure noise) to 1 (labels follow from the point).
    depth : int, default=2
        Depth D of the tree; there are K = 2^(D+1) labels.
    random_state : int, RandomState instance or None, default=None
        Source of points and labels.

    Returns
    -------
    X : ndarray of shape (n, 1)
        The points.
    y : ndarray of int, of shape (n,)
        Labels 0..K−1, drawn from the posteriors.
    eta : ndarray of shape (n, K)
        Posteriors of all labels at every point.

    Examples
    --------
    >>> from duelrank.datasets import make_label_ranking
    >>> from duelrank.posteriors import optimal_ranks
    >>> X, y, eta = make_label_ranking(3, noise_exponent=0.5, depth=1, random_state=0)
    >>> X.ravel().round(2)
    array([0.55, 0.72, 0.6 ])
    >>> optimal_ranks(eta)
    array([[4, 2, 1, 3],
           [4, 3, 1, 2],
           [4, 2, 1, 3]])
    """
    if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 1:
        raise ValueError(f"n_samples must be a positive integer, got {n_samples!r}.")
    # Imported here, as the other data sets do not need what posteriors import.
    from duelrank.posteriors import sample_labels

    rng = check_random_state(random_state)
    X = rng.uniform(size=(int(n_samples), 1))
    eta = synthetic_posteriors(X, noise_exponent, depth)
    return X, sample_labels(eta, rng), eta


def synthetic_posteriors(X: ArrayLike, noise_exponent: float, depth: int = 2) -> Floats:
    """Return the posteriors of the paper's synthetic family at given points.

    Parameters
    ----------
    X : array-like of shape (n, 1) or (n,)
        Points in [0, 1].
    noise_exponent : float
        The paper's α, from 0 to 1.
    depth : int, default=2
        Depth D of the tree; there are K = 2^(D+1) labels.

    Returns
    -------
    eta : ndarray of shape (n, K)
        Posteriors; every row sums to one.
    """
    points = np.asarray(X, dtype=np.float64)
    if points.ndim not in (1, 2) or (points.ndim == 2 and points.shape[1] != 1):
        raise ValueError(f"X must have shape (n, 1) or (n,), got {points.shape}.")
    points = points.ravel()
    if not np.all((points >= 0) & (points <= 1)):
        raise ValueError("X must hold points between 0 and 1.")
    if not isinstance(noise_exponent, Real) or not 0 <= noise_exponent <= 1:
        raise ValueError(f"noise_exponent must be between 0 and 1, got {noise_exponent!r}.")
    if not isinstance(depth, Integral) or isinstance(depth, bool) or not 0 <= depth <= 12:
        raise ValueError(f"depth must be an integer from 0 to 12, got {depth!r}.")
    exponent = np.inf if noise_exponent == 0 else (1 - noise_exponent) / noise_exponent
    eta = np.ones((len(points), 1))
    for level in range(int(depth) + 1):
        n_nodes = 2**level
        separators = (2 * np.arange(n_nodes) + 1) / (2 * n_nodes)
        right = _crossing_half_at(separators, points, exponent)
        eta = np.stack([eta * (1 - right), eta * right], axis=2).reshape(len(points), 2 * n_nodes)
    return eta


def _crossing_half_at(separators: Floats, points: Floats, exponent: float) -> Floats:
    """Return h_s(x) for every point and separator, (n, n_separators)."""
    distances = points[:, np.newaxis] - separators
    room = np.where(distances < 0, separators, 1 - separators)
    return 0.5 + 0.5 * np.where(distances > 0, 1, -1) * np.abs(distances / room) ** exponent
