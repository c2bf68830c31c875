"""MNIST as the paper prepares it: the principal components that hold 95 % of the variance."""

from __future__ import annotations

import os
import sys

import numpy as np
from sklearn.decomposition import PCA

from duelrank.datasets import load_images
from side_by_side import skipped


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test rows and labels; leave if there is no data."""
    if "DUELRANK_DATA" not in os.environ:
        skipped("MNIST", "set DUELRANK_DATA to a folder with mnist/train-images-idx3-ubyte.gz etc.")
        sys.exit(0)
    X, y, X_test, y_test = load_images("mnist")
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X.astype(np.float64))
    return pca.transform(X.astype(np.float64)), y, pca.transform(X_test.astype(np.float64)), y_test
