"""Clusters of labels whose right rows have similar scores (Ding et al. 2023)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9)  # by which the scores of two labels are compared


def cluster_labels(
    scores: NDArray[np.float64],
    codes: NDArray[np.intp],
    n_classes: int,
    needed: int,
    rng: np.random.RandomState,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Say which labels are calibrated together, and which rows told it.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of the right labels of calibration rows.
    codes : ndarray of int, of shape (n,)
        These labels.
    n_classes : int
        Number of labels K.
    needed : int
        Rows that a label must have to be compared with others; labels with fewer are one cluster.
    rng : RandomState
        Draws the rows, and the centres that are tried.

    Returns
    -------
    clusters : ndarray of int, of shape (K,)
        The cluster of every label, from 0 on.
    used : ndarray of int
        The rows that clusters were made of. They must not calibrate.
    """
    counts = np.bincount(codes, minlength=n_classes)
    frequent = np.flatnonzero(counts >= max(needed, 2))
    fewest = int(counts[frequent].min()) if len(frequent) else 0
    # As Ding et al. balance it: the more labels, the more rows tell how they are alike.
    share = n_classes / (75 + n_classes)
    n_clusters = int(share * fewest / 2)
    if n_clusters < 2 or len(frequent) < 2:  # nothing can be told apart
        return np.zeros(n_classes, dtype=np.intp), np.zeros(0, dtype=np.intp)
    is_used = rng.random_sample(len(codes)) < share
    described = [label for label in frequent.tolist() if np.any(is_used & (codes == label))]
    finite = scores[np.isfinite(scores)]
    lowest, highest = (finite.min() - 1, finite.max() + 1) if len(finite) else (0.0, 1.0)
    bounded = np.clip(scores, lowest, highest)
    points = np.array([np.quantile(bounded[is_used & (codes == k)], QUANTILES) for k in described])
    n_clusters = min(n_clusters, len(described))
    weights = np.sqrt(counts[described])
    found = KMeans(n_clusters, n_init=10, random_state=rng).fit(points, sample_weight=weights)
    clusters = np.full(n_classes, n_clusters, dtype=np.intp)  # rare labels are the last cluster
    clusters[described] = found.labels_
    _, numbered = np.unique(clusters, return_inverse=True)
    return numbered, np.flatnonzero(is_used)
