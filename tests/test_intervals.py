import numpy as np
import pytest
from scipy import stats

from duelrank._intervals import wilson_interval


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_wilsons_interval_is_scipys(n):
    came_true = np.arange(n + 1)
    low, high = wilson_interval(came_true / n, np.full(n + 1, float(n)))
    for k in (0, n // 2, n):
        interval = stats.binomtest(k, n).proportion_ci(method="wilson")
        assert low[k] == pytest.approx(interval.low, abs=1e-12)
        assert high[k] == pytest.approx(interval.high, abs=1e-12)


def test_the_ends_of_an_interval_are_exact_and_enclose_the_share():
    share, n = np.meshgrid(np.array([0, 1e-300, 1e-17, 0.3, 1 - 1e-16, 1]), np.geomspace(0.5, 1e9))
    low, high = wilson_interval(share, n)
    assert ((low >= 0) & (low <= share) & (share <= high) & (high <= 1)).all()
    assert (low[share == 0] == 0).all()
    assert (high[share == 1] == 1).all()


def test_there_is_no_interval_without_observations():
    low, high = wilson_interval(np.array([np.nan, 0.5]), np.array([np.nan, 4.0]))
    np.testing.assert_array_equal(np.isnan(low), [True, False])
    np.testing.assert_array_equal(np.isnan(high), [True, False])
