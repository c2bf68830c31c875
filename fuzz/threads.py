"""Fits that overlap in threads: the same bits as alone, and BLAS gets its threads back."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.cases import Case, Find, Kind

ENGINES = (
    "logistic",
    "logistic",
    "scale",
    "rows",
    "cv",
    "anchored",
    "stumps",
    "forest",
    "kernel",
    "stacked",
    "bayes",
    "neighbours",
    "neighbours",
)
THREADS = 2  # of BLAS, before and after
ROUNDS = 3  # fits of every thread
PATIENCE = 20.0  # seconds that a forked child may take


def make_case(random: random.Random, materials: Any) -> Case:
    """Choose what runs at the same time."""
    tasks: list[dict[str, Any]] = [
        {
            "engine": random.choice(ENGINES),
            "seed": random.getrandbits(32),
            "fails": random.random() < 0.2,
            "forks": random.random() < 0.1,
            "waits": random.choice([0.0, 0.0, 0.001, 0.01]),
        }
        for _ in range(random.choice([2, 2, 3, 4]))
    ]
    told = ", ".join(
        t["engine"] + " that fails" * t["fails"] + " that forks" * t["forks"] for t in tasks
    )
    return Case({}, [f"at the same time: {told}"], {"tasks": tasks})


def run_case(case: Case, folder: Path) -> str:
    """Run tasks one by one, then at the same time."""
    from sklearn.exceptions import ConvergenceWarning

    libraries = _blas()
    _set_threads(libraries, 1)  # bits must not depend on the threads of BLAS either
    tasks = case.facts["tasks"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Python 3.12 warns of forks beside threads, which are what this is about.
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        alone = [_fit({**task, "forks": False, "waits": 0.0}) for task in tasks]
        _set_threads(libraries, THREADS)
        before = [library.num_threads for library in libraries]
        together: list[Any] = [None] * len(tasks)
        threads = [
            threading.Thread(target=_answer, args=(task, together, place), daemon=True)
            for place, task in enumerate(tasks)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for task, expected, got in zip(tasks, alone, together, strict=True):
        if isinstance(got, BaseException):
            raise got
        if expected != got:
            raise Find(f"{task['engine']}: other bits in a thread", f"{expected} and {got}")
    after = [library.num_threads for library in libraries]
    if after != before:
        raise Find("threads of BLAS are not given back", f"{before} before, {after} after")
    return "same bits"


def _set_threads(libraries: list[Any], n_threads: int) -> None:
    for library in libraries:
        library.set_num_threads(n_threads)


def _answer(task: dict[str, Any], answers: list[Any], place: int) -> None:
    try:
        time.sleep(task["waits"])
        digests = {_fit(task) for _ in range(ROUNDS)}
        answers[place] = digests.pop() if len(digests) == 1 else "it varies"
    except BaseException as error:
        answers[place] = error


def _fit(task: dict[str, Any]) -> str:
    """Fit and rank; return a digest of the margins, or what went wrong."""
    X, codes = _data(task)
    if task["forks"]:
        _fit_in_child(task)
    if task["fails"]:
        X[0, 0] = np.nan
        X[1:, 0] = np.inf
    try:
        engine = _engine(task["engine"])
        margins = engine.fit(X, codes, 3).margins(X)
    except ValueError as error:
        if not task["fails"]:
            raise
        return str(error).splitlines()[0]
    return hashlib.sha256(np.ascontiguousarray(margins).tobytes()).hexdigest()


def _fit_in_child(task: dict[str, Any]) -> None:
    """Fork while others are fitting; the child must be able to fit and to end."""
    child = os.fork()
    if child == 0:
        os._exit(0 if _fit({**task, "forks": False, "engine": "logistic"}) else 1)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise Find("a forked child cannot fit", f"status {status}")
            return
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise Find("a forked child hangs")


def _data(task: dict[str, Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    source = np.random.default_rng(task["seed"])
    n_rows, n_features = (60, 300) if task["engine"] == "rows" else (400, 40)
    codes = np.arange(n_rows) % 3
    X = source.normal(size=(n_rows, n_features))
    X[:, 0] += codes
    return X, codes


def _engine(name: str) -> Any:
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier

    from duelrank import (
        AnchoredDuels,
        EstimatorDuels,
        ForestDuels,
        KernelDuels,
        LogisticDuels,
        LogisticDuelsCV,
        StackedDuels,
        StumpDuels,
    )

    return {
        "logistic": LogisticDuels(),
        "scale": LogisticDuels(C="scale"),
        "rows": LogisticDuels(),
        "cv": LogisticDuelsCV(Cs=2, cv=2),
        "anchored": AnchoredDuels(rivals=1),
        "stumps": StumpDuels(),
        "forest": ForestDuels(5, random_state=0),
        "kernel": KernelDuels(20, random_state=0),
        "stacked": StackedDuels(
            [("forest", ForestDuels(2, random_state=0)), ("stumps", StumpDuels())],
            cv=2,
            random_state=0,
        ),
        "bayes": EstimatorDuels(GaussianNB(), n_jobs=1),
        # It limits the threads of BLAS by itself.
        "neighbours": EstimatorDuels(KNeighborsClassifier(algorithm="brute"), n_jobs=1),
    }[name]


def _blas() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def read_materials(folder: Path) -> None:
    """Import, before workers are forked, what all of them need."""
    import duelrank  # noqa: F401


# Every thread takes address space, for its stack and for what it allocates.
KIND = Kind(
    "threads",
    make_case,
    run_case,
    read_materials=read_materials,
    cases=500,
    seconds=180.0,  # more than the patience with all children that one thread forks
    megabytes=8192,
)
