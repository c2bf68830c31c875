"""Lists of numbers become columns."""

import numpy as np
import pytest

from duelrank.preprocessing import VectorFeatures

pa = pytest.importorskip("pyarrow")
ROWS = [[3.0, 4.0], None, [0.0, 5.0]]
EXPECTED = [[0.6, 0.8], [0.3, 0.9], [0.0, 1.0]]


def column(cells):
    array = np.empty((len(cells), 1), dtype=object)
    array[:, 0] = cells
    return array


def test_lists_are_scaled_and_missing_ones_are_the_mean():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame({"v": ROWS})
    for X in (frame, pl.DataFrame({"v": ROWS}), pa.table({"v": ROWS}), column(ROWS)):
        vectors = VectorFeatures().fit(X)
        np.testing.assert_allclose(vectors.transform(X), EXPECTED)
    assert VectorFeatures().fit(frame).get_feature_names_out().tolist() == ["v[0]", "v[1]"]
    assert vectors.transform(column([])).shape == (0, 2)
    assert vectors.get_feature_names_out(["w"]).tolist() == ["w[0]", "w[1]"]


def test_other_lists_are_refused():
    vectors = VectorFeatures().fit(column(ROWS))
    with pytest.raises(ValueError, match=r"lists of 2 numbers, but row 1 .from 0. has shape \(3,"):
        vectors.transform(column([[1.0, 2.0], [1.0, 2.0, 3.0]]))
    with pytest.raises(ValueError, match="finite numbers, but row 0 has others"):
        vectors.transform(column([[1.0, np.inf]]))
    with pytest.raises(ValueError, match="finite numbers, but row 2 has others"):
        VectorFeatures().fit(column([None, [1.0], [np.nan]]))
    with pytest.raises(ValueError, match="holds numbers that are too large"):
        VectorFeatures().fit(column([[1e200, 2.0]]))
    with pytest.raises(ValueError, match=r"lists of 2 numbers, but row 0 .from 0. has text"):
        vectors.transform(column(["ab"]))
    with pytest.raises(ValueError, match="a single column, got 2"):
        VectorFeatures().fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match="must hold lists of numbers, got none"):
        VectorFeatures().fit(column([None, None]))


def test_zeros_stay_zeros():
    assert VectorFeatures().fit_transform(column([[0.0], [0.0]])).tolist() == [[0.0], [0.0]]


def test_altered_arrays_are_found():
    for name, value in (
        ("mean_", np.array([np.nan])),
        ("mean_", [1.0]),
        ("scale_", 0.0),
        ("scale_", np.float64(1)),
    ):
        vectors = VectorFeatures().fit(column(ROWS))
        vectors.check_fitted()
        setattr(vectors, name, value)
        with pytest.raises(ValueError, match="the vectors of a column are not counted right"):
            vectors.check_fitted()
