import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_digits, load_iris

# Timing on shared machines is noise: a slow example is not a failing one.
settings.register_profile("default", deadline=None, max_examples=60)
settings.load_profile("default")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="session")
def digits():
    return load_digits(return_X_y=True)
