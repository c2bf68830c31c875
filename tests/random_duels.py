"""Random tournaments and rankings for the tests, and brute force over all K! orders."""

from itertools import permutations

import numpy as np
from hypothesis import strategies as st

from duelrank import pairs
from duelrank.rankings import ranks_from_scores


def random_margins(rng, n_rows, n_classes):
    return rng.normal(size=(n_rows, len(pairs(n_classes)[0])))


def random_ranks(rng, n_rows, n_classes):
    return np.argsort(rng.random((n_rows, n_classes)), axis=1) + 1


def ranks_of_rows(n_classes, n_rows):
    """Strategy: (n_rows, K) ranks."""
    row = st.permutations(range(1, n_classes + 1))
    return st.lists(row, min_size=n_rows, max_size=n_rows).map(np.array)


def feedback_of_every_kind(rng, codes, n_classes):
    """Return labels, and rankings that begin with them: full, with losses, and lists of two."""
    utility = rng.random((len(codes), n_classes))
    utility[np.arange(len(codes)), codes] += 1
    full = (-utility).argsort(axis=1).argsort(axis=1) + 1.0
    lossy = np.where(rng.random(full.shape) < 0.4, np.nan, full)
    return {"labels": codes, "full": full, "lossy": lossy, "lists": np.minimum(full, 3)}


def ranked_points(rng):
    """Points, and rankings of five labels by how far these lie in their directions, with noise."""
    X = rng.normal(size=(120, 2))
    angles = np.array([0.0, 1.1, 2.6, 3.7, 5.0])
    scores = X @ np.stack([np.cos(angles), np.sin(angles)]) + 0.2 * rng.normal(size=(120, 5))
    return X, ranks_from_scores(scores).astype(float)


def missing_at_random(ranks, rng, share=0.4):
    hidden = rng.random(ranks.shape) < share
    hidden[hidden.sum(axis=1) > ranks.shape[1] - 2] = False  # every row says something
    return np.where(hidden, np.nan, ranks)


def cheapest_by_brute_force(weights):
    """Cost of the best order of one (K, K) weight matrix."""
    n_classes = len(weights)
    return min(
        np.tril(weights[np.ix_(order, order)], k=-1).sum()
        for order in map(list, permutations(range(n_classes)))
    )
