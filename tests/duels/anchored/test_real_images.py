"""Anchored duels on MNIST, where every label has six thousand rows."""

import os

import numpy as np
import pytest
from sklearn.decomposition import PCA

from duelrank import AnchoredDuels, DuelRanker, LogisticDuels
from duelrank.datasets import load_images

pytestmark = pytest.mark.skipif(
    "DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder"
)


@pytest.mark.slow
def test_many_rows_of_a_label_do_not_suffer_from_scores():
    """On the components that hold 95 % of the variance, as the paper prepares images."""
    X, y, X_test, y_test = load_images("mnist")
    X, X_test = (part.reshape(len(part), -1).astype(np.float64) for part in (X, X_test))
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X)
    X, X_test = pca.transform(X), pca.transform(X_test)
    hits = {}
    for engine in (AnchoredDuels(C=1e-7, C_own=3e-5), LogisticDuels(C=1e-4)):
        top = DuelRanker(engine, random_state=0).fit(X, y).predict_top(X_test, 5)
        found = top == y_test[:, np.newaxis]
        hits[type(engine)] = [int(np.sum(found[:, :k])) for k in (1, 5)]  # of 10,000
    anchored, alone = hits[AnchoredDuels], hits[LogisticDuels]
    assert anchored[0] >= max(alone[0], 9464)
    assert anchored[1] >= max(alone[1], 9971)
