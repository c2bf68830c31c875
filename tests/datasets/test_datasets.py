import gzip
import hashlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.datasets import (
    _images,
    load_images,
    load_label_ranking,
    load_text,
    make_label_ranking,
    synthetic_posteriors,
)

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
    assert all(array.flags.writeable for array in (X_train, y_train, X_test, y_test))


def test_altered_and_missing_files_are_refused(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="data_dir must hold mnist/train-images"):
        load_images("mnist", data_dir=tmp_path)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(ValueError, match="its checksum differs"):
        load_images("mnist", data_dir=tmp_path)
    whole = gzip.compress(b"something else" * 100)
    turned = whole[:12] + bytes([whole[12] ^ 255]) + whole[13:]
    for damaged in (b"no gzip", whole[:20], turned, b""):
        (folder / "train-images-idx3-ubyte.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz (is damaged|does not)"):
            load_images("mnist", data_dir=tmp_path)


def test_images_of_a_folder_are_writable_pixels_and_labels(tmp_path, monkeypatch):
    folder = tmp_path / "mnist"
    folder.mkdir()
    pixels = bytes(range(256)) * 49  # 16 images
    contents = [bytes(16) + pixels, bytes(8) + bytes([3] * 16)] * 2
    checksums = tuple(hashlib.md5(content).hexdigest() for content in contents)
    for file, content in zip(_images.FILES, contents, strict=True):
        (folder / file).write_bytes(gzip.compress(content))
    monkeypatch.setitem(_images.CHECKSUMS, "mnist", checksums)
    monkeypatch.setenv("DUELRANK_DATA", str(tmp_path))
    for images in (load_images("mnist"), load_images("mnist", data_dir=tmp_path)):
        assert images.X_test.tobytes() == pixels
        assert images.X_test.shape == (16, 784)
        assert images.y_train.tolist() == [3] * 16
        assert all(array.flags.writeable for array in images)


def test_unknown_names_are_refused(monkeypatch):
    monkeypatch.delenv("DUELRANK_DATA", raising=False)
    with pytest.raises(ValueError, match="name must be one of mnist"):
        load_images("cifar")
    with pytest.raises(ValueError, match="fashion-mnist-csv is not on OpenML"):
        load_images("fashion-mnist-csv")


@pytest.mark.parametrize("folder", [None, "", "without images"])
def test_openml_where_there_is_no_folder(monkeypatch, tmp_path, folder):
    monkeypatch.delenv("DUELRANK_DATA", raising=False)
    if folder is not None:
        monkeypatch.setenv("DUELRANK_DATA", folder and str(tmp_path))
        with pytest.raises(ValueError, match="fashion-mnist-csv is not on OpenML; pass data_dir"):
            load_images("fashion-mnist-csv")

    def fetch(name, **options):
        assert name == "mnist_784"
        return np.zeros((70_000, 784)), np.array(["3"] * 70_000, dtype=object)

    monkeypatch.setattr(_images, "fetch_openml", fetch)
    images = load_images("mnist")
    assert images.X_test.shape == (10_000, 784)
    assert images.y_train[0] == 3
    # A folder that is asked for must have them.
    with pytest.raises(FileNotFoundError, match="data_dir must hold mnist/train-images"):
        load_images("mnist", data_dir=tmp_path)

    def unreachable(name, **options):
        raise OSError("no route")

    monkeypatch.setattr(_images, "fetch_openml", unreachable)
    with pytest.raises(
        OSError, match=r"could not be fetched from OpenML \(no route\); pass data_dir"
    ):
        load_images("mnist")


def h(x, s, noise_exponent):
    """The paper's h_{α,s}, as its supplement writes it."""
    u = x / (2 * s) if x < s else 0.5 + (x - s) / (2 * (1 - s))
    sign = 1 if 2 * u > 1 else -1
    return 0.5 + 0.5 * sign * abs(2 * u - 1) ** ((1 - noise_exponent) / noise_exponent)


@given(st.floats(0, 1), st.floats(0.05, 1))
def test_posteriors_are_products_along_the_paths_of_the_tree(x, noise_exponent):
    eta = synthetic_posteriors([x], noise_exponent, depth=2)[0]
    for label in range(8):
        separator, product = 0.5, 1.0
        for depth in range(3):
            goes_right = label >> (2 - depth) & 1
            right = h(x, separator, noise_exponent)
            product *= right if goes_right else 1 - right
            separator += (1 if goes_right else -1) * 2.0 ** -(depth + 2)
        np.testing.assert_allclose(eta[label], product, atol=1e-12)


@given(st.floats(0, 1), st.integers(0, 5))
def test_posteriors_sum_to_one(noise_exponent, depth):
    eta = synthetic_posteriors(np.linspace(0, 1, 101), noise_exponent, depth)
    assert eta.shape == (101, 2 ** (depth + 1))
    np.testing.assert_allclose(eta.sum(axis=1), 1)
    assert eta.min() >= 0


@pytest.mark.parametrize("noise_exponent", [0.2, 0.5, 0.8])
def test_sibling_leaves_fulfil_the_noise_condition_with_equality(noise_exponent):
    X = (np.arange(100_000)[:, np.newaxis] + 0.5) / 100_000
    eta = synthetic_posteriors(X, noise_exponent)
    for left in (0, 2, 4, 6):
        right = left + 1
        gaps = np.abs(eta[:, left] - eta[:, right]) / (eta[:, left] + eta[:, right])
        for t in (0.1, 0.5, 0.9):
            closed_form = t ** (noise_exponent / (1 - noise_exponent))
            assert np.mean(gaps < t) == pytest.approx(closed_form, abs=2e-4)


def test_labels_are_drawn_from_the_posteriors():
    X, y, eta = make_label_ranking(50_000, 0.5, random_state=0)
    assert X.shape == (50_000, 1)
    assert set(y) == set(range(8))
    cells = np.minimum((X[:, 0] * 10).astype(int), 9)
    for cell in range(10):
        rows = cells == cell
        expected = eta[rows].sum(axis=0)
        observed = np.bincount(y[rows], minlength=8)
        probable = expected > 5
        deviation = (observed - expected)[probable] ** 2 / expected[probable]
        assert stats.chi2.sf(deviation.sum(), probable.sum()) > 1e-4


def test_extreme_noise_exponents():
    _, y, eta = make_label_ranking(1000, noise_exponent=1, random_state=0)
    assert np.all(eta[np.arange(1000), y] == 1)
    np.testing.assert_allclose(synthetic_posteriors([0.1, 0.7], 0), 1 / 8)


def test_synthetic_data_are_reproducible():
    # Results that were computed once rest on these draws.
    X, y, _ = make_label_ranking(12, 0.5, random_state=0)
    assert y.tolist() == [4, 7, 1, 1, 0, 6, 5, 7, 7, 4, 5, 5]
    rng = np.random.RandomState(0)
    np.testing.assert_array_equal(X, rng.uniform(size=(12, 1)))
    first, second = (make_label_ranking(50, 0.3, random_state=7) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be a positive integer, got 0"),
        ({"noise_exponent": 1.5}, "noise_exponent must be between 0 and 1, got 1.5"),
        ({"noise_exponent": np.nan}, "noise_exponent must be between 0 and 1, got nan"),
        ({"depth": -1}, "depth must be an integer from 0 to 12, got -1"),
    ],
)
def test_bad_arguments_of_synthetic_data(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_label_ranking(**{"n_samples": 10, "noise_exponent": 0.5} | arguments)


def test_points_of_synthetic_posteriors():
    with pytest.raises(ValueError, match=r"X must have shape \(n, 1\) or \(n,\), got \(2, 3\)"):
        synthetic_posteriors(np.zeros((2, 3)), 0.5)
    with pytest.raises(ValueError, match="X must hold points between 0 and 1"):
        synthetic_posteriors([0.5, 1.5], 0.5)


@needs_data
def test_label_ranking_sets():
    X, ranks = load_label_ranking("vowel")
    assert X.shape == (528, 10)
    np.testing.assert_array_equal(np.sort(ranks, axis=1), np.tile(np.arange(1, 12), (528, 1)))
    X, eta = load_label_ranking("blocks", kind="posteriors")
    assert X.shape == (5472, 10)
    np.testing.assert_allclose(eta.sum(axis=1), 1)
    with pytest.raises(FileNotFoundError, match=r"name must be one of the sets .*: authorship, "):
        load_label_ranking("blocks")


def test_label_ranking_files(tmp_path, monkeypatch):
    monkeypatch.delenv("DUELRANK_DATA", raising=False)
    path = tmp_path / "three.csv"
    path.write_text("A1,A2,L1,L2,L3\n0.5,1,3,1,2\n-1,2,,1,2\n")
    X, ranks = load_label_ranking(path)
    np.testing.assert_array_equal(X, [[0.5, 1], [-1, 2]])
    np.testing.assert_array_equal(ranks, [[3, 1, 2], [np.nan, 1, 2]])
    path.write_text("A1,L1,L2\n0.5,0.25,0.75\n")
    np.testing.assert_array_equal(load_label_ranking(path, kind="posteriors")[1], [[0.25, 0.75]])
    with pytest.raises(ValueError, match=r"the ranks in three\.csv"):
        load_label_ranking(path)
    path.write_text("A1,L1,L2\n0.5,0.25,0.5\n")
    with pytest.raises(ValueError, match="must hold posteriors"):
        load_label_ranking(path, kind="posteriors")
    path.write_text("A1,price\n0.5,0.25\n")
    with pytest.raises(ValueError, match="must have columns A1, A2"):
        load_label_ranking(path)
    for empty in ("", "A1,L1,L2\n", "A1,L1,L2\n\n"):
        path.write_text(empty)
        with pytest.raises(ValueError, match=r"three\.csv must h"):
            load_label_ranking(path)
    path.write_bytes("A1,L1,L2\n0.5,é,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"three\.csv must be a CSV file in UTF-8"):
        load_label_ranking(path)
    with pytest.raises(FileNotFoundError, match="name must be an existing CSV file"):
        load_label_ranking(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="'iris' is read from a folder; pass data_dir"):
        load_label_ranking("iris")
    with pytest.raises(ValueError, match="kind must be one of 'ranks', 'posteriors'; got 'order'"):
        load_label_ranking("iris", kind="order")


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ("red,1,2", "ranks", "column A1 must hold a finite number; got 'red'"),
        (",1,2", "ranks", "column A1 must hold a finite number; got ''"),
        ("nan,1,2", "ranks", "column A1 must hold a finite number; got 'nan'"),
        ("0.5,1,first", "ranks", "column L2 must hold a finite number, or empty; got 'first'"),
        ("0.5,nan,1", "ranks", "column L1 must hold a finite number, or empty; got 'nan'"),
        ("0.5,1,inf", "ranks", "column L2 must hold a finite number, or empty; got 'inf'"),
        ("1_0,1,2", "ranks", "column A1 must hold a finite number; got '1_0'"),
        ("0.5,,1", "posteriors", "column L1 must hold a finite number; got ''"),
    ],
)
def test_cells_that_are_no_numbers_are_named(tmp_path, row, kind, message):
    path = tmp_path / "three.csv"
    good = "0.5,1,2" if kind == "ranks" else "0.5,0.25,0.75"
    path.write_text(f"A1,L1,L2\n{good}\n\n{row}\n{good}\n")
    with pytest.raises(ValueError, match=rf"three\.csv, line 4, {message}"):
        load_label_ranking(path, kind=kind)


@pytest.mark.parametrize("row", ["0.5,1", "0.5,1,2,3"])
def test_rows_of_another_length_are_named(tmp_path, row):
    path = tmp_path / "three.csv"
    path.write_text(f"A1,L1,L2\n0.5,1,2\n{row}\n")
    with pytest.raises(ValueError, match=rf"must have 3 cells .*; line 3 has {row.count(',') + 1}"):
        load_label_ranking(path)


def test_files_of_spreadsheets(tmp_path):
    path = tmp_path / "three.csv"
    path.write_bytes(b'\xef\xbb\xbf"A1", L1,L2\r\n 0.5 ,"1", \r\n1e3,2,1\r\n')
    X, ranks = load_label_ranking(path)
    np.testing.assert_array_equal(X, [[0.5], [1000]])
    np.testing.assert_array_equal(ranks, [[1, np.nan], [2, 1]])


@needs_data
def test_texts_of_the_data_folder():
    texts, labels = load_text("banking77")
    test = load_text("banking77", subset="test")
    assert (len(texts), len(test.texts)) == (10_003, 3_080)
    assert len(set(labels)) == 77
    assert set(labels) == set(test.labels)
    assert (test.texts[0], test.labels[0]) == ("How do I locate my card?", "card_arrival")
    titles, occupations = load_text("onet")
    assert len(titles) == len(occupations) > len(set(titles))  # some have several occupations
    assert len(set(occupations)) == 1_015


def test_texts_of_made_up_files(tmp_path, monkeypatch):
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "banking77_train.csv").write_text(
        'text,category\n"Hi,\nwhere is it?",card\n ünlocked ,pin\n', encoding="utf-8"
    )
    (folder / "banking77_test.csv").write_text("category,source,text\npin,web,007\n")
    (folder / "onet_titles.csv").write_text("title,occupation\nBaker,51-3011.00\n")
    monkeypatch.setenv("DUELRANK_DATA", str(tmp_path))
    for data in (load_text("banking77"), load_text("banking77", subset="train")):
        assert data.texts.dtype == data.labels.dtype == object
        assert data.texts.tolist() == ["Hi,\nwhere is it?", " ünlocked "]
        assert data.labels.tolist() == ["card", "pin"]
    test = load_text("banking77", subset="test", data_dir=tmp_path)
    assert (test.texts.tolist(), test.labels.tolist()) == (["007"], ["pin"])
    assert load_text("onet").labels.tolist() == ["51-3011.00"]


def test_texts_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.delenv("DUELRANK_DATA", raising=False)
    with pytest.raises(ValueError, match="name must be one of banking77, onet; got 'news'"):
        load_text("news")
    with pytest.raises(ValueError, match="subset of banking77 must be 'train' or 'test'; got 'a'"):
        load_text("banking77", subset="a")
    with pytest.raises(ValueError, match="subset of onet must be None, as the set has no parts"):
        load_text("onet", subset="test")
    with pytest.raises(ValueError, match=r"banking77 is read from a folder; .* \(2020\), CC BY"):
        load_text("banking77")
    with pytest.raises(
        FileNotFoundError, match=r"data_dir must hold text/onet_titles\.csv, .*O\*NET.* is missing"
    ):
        load_text("onet", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("question,category\na,b\n", r"must have the columns text and category; got \['question'"),
        ("text,category\n", "must hold at least one row"),
        ("text,category\na,b\nHi, where is it?,card\n", "must have 2 cells .*; line 3 has 3"),
        ("text,category\né,b\n", "must be a CSV file in UTF-8"),
    ],
)
def test_files_of_texts_that_are_not_whole(tmp_path, content, message):
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "banking77_train.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"banking77_train\.csv {message}"):
        load_text("banking77", data_dir=tmp_path)
