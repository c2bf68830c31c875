"""Numbers beyond what engines can square or hold are refused, and NumPy does not warn of them."""

import numpy as np
import pytest

from duelrank import ForestDuels, KernelDuels, LogisticDuels, StumpDuels


@pytest.mark.parametrize(
    ("engine", "number", "match"),
    [
        (KernelDuels(), 1e250, r"X must hold numbers between .* got 1e\+250"),
        (ForestDuels(3, random_state=0), 1e150, "too large for dtype"),
        (StumpDuels(), np.inf, "infinity"),
        (LogisticDuels(), np.inf, "infinity"),
    ],
)
def test_they_are_refused_in_one_sentence(engine, number, match, rng):
    X = rng.normal(size=(20, 3))
    codes = np.arange(20) % 2
    X[0, 0], X[1, 0] = number, -number
    with pytest.raises(ValueError, match=match):  # warnings are errors
        engine.fit(X, codes, 2)
    fitted = engine.fit(np.clip(X, -1, 1), codes, 2)
    if isinstance(engine, KernelDuels):  # far from all rows, no kernel is left
        assert np.isfinite(fitted.margins(np.full((2, 3), 1e308))).all()
    else:
        with pytest.raises(ValueError, match=match):
            fitted.margins(X)
