"""MNIST and Fashion-MNIST, from files in the format of their authors or from OpenML."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

from duelrank.datasets._folder import data_folder

# MD5 of the decompressed files: training images and labels, test images and labels.
CHECKSUMS = {
    "mnist": (
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    "fashion-mnist": (
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
    "fashion-mnist-csv": (
        "66f0043fc0797d889438347ff2e63854",
        "9018921c3c673c538a1fc5bad174d6f9",
        "647a0e6355d3f0d44af3224f6aba1076",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
}
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
OPENML_NAMES = {"mnist": "mnist_784", "fashion-mnist": "Fashion-MNIST"}
N_TRAIN = 60_000


class Images(NamedTuple):
    """Grey images as rows of 784 pixels 0..255 (uint8), and their labels 0..9."""

    X_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]


def load_images(name: str, *, data_dir: str | os.PathLike[str] | None = None) -> Images:
    """Load MNIST or Fashion-MNIST.

    Parameters
    ----------
    name : {"mnist", "fashion-mnist", "fashion-mnist-csv"}
        The data set. "fashion-mnist-csv" is an edition that circulates in other file formats, with
        the images split anew; it can only be read from a folder.
    data_dir : path, default=None
        Folder with a subfolder `name` that holds the four files of the original distribution; it
        must be there. By default the folder that the environment variable ``DUELRANK_DATA`` names,
        if it has such a subfolder; if not, the data come from OpenML, into scikit-learn's cache.

    Returns
    -------
    images : Images
        Named tuple of X_train (60000, 784), y_train, X_test (10000, 784) and y_test.
    """
    if name not in CHECKSUMS:
        raise ValueError(f"name must be one of {', '.join(CHECKSUMS)}; got {name!r}.")
    folder = data_folder(data_dir)
    # The environment may name a folder that holds other data only.
    if folder is not None and (data_dir is not None or (folder / name).is_dir()):
        return _read_folder(folder / name, CHECKSUMS[name])
    if name not in OPENML_NAMES:
        raise ValueError(
            f"{name} is not on OpenML; pass data_dir, or set DUELRANK_DATA, to a folder with it."
        )
    return _fetch(OPENML_NAMES[name])


def _read_folder(folder: Path, checksums: tuple[str, ...]) -> Images:
    arrays: list[Any] = []
    for file, checksum in zip(FILES, checksums, strict=True):
        path = folder / file
        if not path.is_file():
            raise FileNotFoundError(f"data_dir must hold {folder.name}/{file}; {path} is missing.")
        content = _decompress(path)
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != checksum:
            raise ValueError(f"{path} does not hold the data it should: its checksum differs.")
        if "images" in file:
            # Copied, as the bytes cannot be written to.
            arrays.append(np.frombuffer(content, np.uint8, offset=16).reshape(-1, 784).copy())
        else:
            arrays.append(np.frombuffer(content, np.uint8, offset=8).astype(np.int64))
    return Images(*arrays)


def _decompress(path: Path) -> bytes:
    compressed = path.read_bytes()
    try:
        return gzip.decompress(compressed)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged or no gzip file: {error}.") from error


def _fetch(openml_name: str) -> Images:
    try:
        X, y = fetch_openml(
            openml_name, version=1, return_X_y=True, as_frame=False, parser="liac-arff"
        )
    except OSError as error:
        raise OSError(
            f"{openml_name} could not be fetched from OpenML ({error}); pass data_dir, or set "
            "DUELRANK_DATA, to a folder with it."
        ) from error
    X, y = X.astype(np.uint8), y.astype(np.int64)
    return Images(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:])
