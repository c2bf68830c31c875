"""MNIST with the paper's preprocessing, from the folder that DUELRANK_DATA names."""

import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA


def load_mnist_pca():
    """Return raw pixels projected on the components that keep 95 % of the variance."""
    folder = Path(os.environ["DUELRANK_DATA"]) / "mnist"

    def read(name, offset):
        with gzip.open(folder / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset)

    X, X_test = (
        read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float64)
        for part in ("train", "t10k")
    )
    y, y_test = (read(f"{part}-labels-idx1-ubyte.gz", 8).astype(int) for part in ("train", "t10k"))
    pca = PCA(0.95, svd_solver="covariance_eigh").fit(X)
    return pca.transform(X), y, pca.transform(X_test), y_test
