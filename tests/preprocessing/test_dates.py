"""Dates become days, whatever they come as."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

from duelrank import DuelRanker
from duelrank.preprocessing import DateFeatures, make_preprocessing

pa = pytest.importorskip("pyarrow")
DAYS = [[2.0], [np.nan], [0.5]]
TEXTS = ["1970-01-03", None, "1970-01-01T12:00"]
MOMENTS = [datetime(1970, 1, 3), None, datetime(1970, 1, 1, 12)]


def moments(unit="s"):
    return np.array([["1970-01-03"], ["NaT"], ["1970-01-01T12:00"]], dtype=f"datetime64[{unit}]")


def frames():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return [
        pd.DataFrame({"day": TEXTS}),
        pd.DataFrame({"day": pd.to_datetime(pd.Series(TEXTS), format="ISO8601")}),
        pl.DataFrame({"day": TEXTS}),
        pl.DataFrame({"day": MOMENTS}),
        pa.table({"day": TEXTS}),
        pa.table({"day": pa.array(MOMENTS, pa.timestamp("us"))}),
        pa.table({"day": [2.0, None, 0.5]}),
        [[text] for text in TEXTS],
        np.array(DAYS),
    ]


@pytest.mark.parametrize("number", range(9))
def test_days_of_dates(number):
    X = frames()[number]
    np.testing.assert_array_equal(DateFeatures().fit_transform(X), DAYS)


@pytest.mark.parametrize("unit", ["m", "s", "ms", "us", "ns"])
def test_moments_of_numpy_in_any_unit(unit):
    np.testing.assert_array_equal(DateFeatures().fit_transform(moments(unit)), DAYS)


def test_time_zones_and_plain_dates():
    cells = ["1970-01-02T01:00+01:00", datetime(1970, 1, 2, tzinfo=UTC), date(1970, 1, 2)]
    X = np.array(cells, dtype=object)[:, np.newaxis]
    assert DateFeatures().fit_transform(X).tolist() == [[1.0]] * 3


def test_other_values_are_refused():
    features = DateFeatures().fit(pa.table({"day": TEXTS}))
    with pytest.raises(ValueError, match=r"column 'day' must hold dates .* row 1 .* '31\.05\.24'"):
        features.transform(pa.table({"day": ["2024-05-31", "31.05.24"]}))
    with pytest.raises(ValueError, match=r"column 0 must hold dates .* row 1 .* has inf"):
        DateFeatures().fit_transform(np.array([[1.0], [np.inf]]))
    with pytest.raises(ValueError, match=r"X must hold columns of dates, .* got shape \(3,\)"):
        DateFeatures().fit(np.arange(3))
    with pytest.raises(ValueError, match="feature names"):
        features.transform(pytest.importorskip("pandas").DataFrame({"night": TEXTS}))


def test_a_table_of_dates_in_python():
    """Dates of a dataframe, as pandas reads them, rank like days since 1970."""
    pd = pytest.importorskip("pandas")
    from sklearn.pipeline import make_pipeline

    days = np.arange(40) * 10
    texts = [str(np.datetime64("1990-01-01") + int(day)) for day in days]
    y = np.where(days > 200, "late", "early")
    model = make_pipeline(make_preprocessing({"day": "date"}), DuelRanker(random_state=0))
    model.fit(pd.DataFrame({"day": texts}), y)
    expected = model.decision_function(pd.DataFrame({"day": texts}))
    assert (model.predict(pd.DataFrame({"day": texts})) == y).mean() > 0.9
    moments = pd.DataFrame({"day": pd.to_datetime(texts)})
    np.testing.assert_array_equal(model.decision_function(moments), expected)
    since = (np.datetime64("1990-01-01") - np.datetime64("1970-01-01")).astype(int) + days
    numbers = pa.table({"day": since.astype(float)})
    np.testing.assert_array_equal(model.decision_function(numbers), expected)


@pytest.mark.parametrize("kind", [lambda dates: dates, lambda dates: dates.astype(object)])
def test_dates_that_would_wrap_around_are_refused(kind):
    far = np.array([["2024-01-01"], ["300000000-01-01"], ["NaT"]], dtype="datetime64[s]")
    cells = kind(far)
    if cells.dtype == object:
        cells[:, 0] = list(far[:, 0])  # as scalars of numpy
    with pytest.raises(ValueError, match=r"must hold dates such as .*, but row 1 \(from 0\)"):
        DateFeatures().fit_transform(cells)
    assert DateFeatures().fit_transform(cells[::2])[0, 0] == 19723
