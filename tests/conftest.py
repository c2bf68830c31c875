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


@pytest.hookimpl(tryfirst=True)  # before groups are read
def pytest_collection_modifyitems(items):
    """Let tests that share a cluster run in one process."""
    for item in items:
        # Those that run here and there ask for the cluster by the value of a parameter.
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        asked = any(isinstance(value, str) and value == "cluster" for value in params)
        if asked or "cluster_of_two" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def cluster_of_two():
    """A Dask cluster of two worker processes, started by the first test that asks for it."""
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # any free port: test processes have a cluster each
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(cluster_of_two):
    """The client of a cluster of two worker processes, which this test runs on."""
    with cluster_of_two.as_current():
        yield cluster_of_two
