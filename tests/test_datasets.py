import gzip
import os

import numpy as np
import pytest

from duelrank import datasets
from duelrank.datasets import load_images

needs_data = pytest.mark.skipif(
    "DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder"
)


@needs_data
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "fashion-mnist-csv"])
def test_images_from_a_folder(name):
    X_train, y_train, X_test, y_test = load_images(name)
    assert X_train.shape == (60_000, 784)
    assert X_test.shape == (10_000, 784)
    assert X_train.dtype == np.uint8
    assert set(y_train) == set(y_test) == set(range(10))


def test_altered_and_missing_files_are_refused(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="data_dir must hold mnist/train-images"):
        load_images("mnist", data_dir=tmp_path)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(ValueError, match="its checksum differs"):
        load_images("mnist", data_dir=tmp_path)


def test_unknown_names_are_refused(monkeypatch):
    monkeypatch.delenv("DUELRANK_DATA", raising=False)
    with pytest.raises(ValueError, match="name must be one of mnist"):
        load_images("cifar")
    with pytest.raises(ValueError, match="fashion-mnist-csv is not on OpenML"):
        load_images("fashion-mnist-csv")


def test_openml_where_there_is_no_folder(monkeypatch):
    monkeypatch.delenv("DUELRANK_DATA", raising=False)

    def fetch(name, **options):
        assert name == "mnist_784"
        return np.zeros((70_000, 784)), np.array(["3"] * 70_000, dtype=object)

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    images = load_images("mnist")
    assert images.X_test.shape == (10_000, 784)
    assert images.y_train[0] == 3

    def unreachable(name, **options):
        raise OSError("no route")

    monkeypatch.setattr(datasets, "fetch_openml", unreachable)
    with pytest.raises(
        OSError, match=r"could not be fetched from OpenML \(no route\); pass data_dir"
    ):
        load_images("mnist")
