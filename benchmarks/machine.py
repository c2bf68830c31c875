"""What a benchmark ran on, as JSON: the processor, how busy it is, and versions.

The rate of large matrix products is that of the machine at this moment. If it differs between the
start and the end of a run, others have used the machine too.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from duelrank import __version__
from side_by_side import best_of

PACKAGES = [
    "numpy",
    "scipy",
    "scikit-learn",
    "scikit-learn-intelex",
    "cyanure",
    "snapml",
    "mapie",
    "onnxruntime",
]
SIZE = 2000  # of the matrices whose product is timed


def describe() -> dict[str, Any]:
    """Return the processor, the load, the rates of products in Gflop/s, and versions."""
    load = os.getloadavg()[0]  # before the products
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30,
        "load": load,
        "single": _product_rate(np.float32),
        "double": _product_rate(np.float64),
        "versions": _versions(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _product_rate(dtype: type) -> float:
    A = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype(dtype)
    seconds, _ = best_of(lambda: A @ A)
    return 2 * SIZE**3 / seconds / 1e9


def _versions() -> dict[str, str]:
    versions = {"Python": platform.python_version(), "duelrank": __version__ + _commit()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            kind = f"{pool['internal_api']} {pool['version']}, {pool.get('architecture', '?')}"
            versions["BLAS"] = f"{kind}, threads: {pool['num_threads']}"
    return versions


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({done.stdout.strip()})"


if __name__ == "__main__":
    print(json.dumps(describe()))
