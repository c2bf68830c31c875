"""Fits that were stopped: what goes on from their file comes to the same end, or says why not."""

from __future__ import annotations

import io
import os
import random
import signal
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.duels.logistic import _checkpoint
from fuzz import archives, arrays
from fuzz.cases import Case, Find, Kind

TOL = {"float64": 1e-10, "float32": 1e-6}
# How far apart margins may be that were found in two ways, relative to the largest: about the root
# of the tolerance.
CLOSE = {"float64": 1e-4, "float32": 1e-2}
FILE = "fit.npz"
WAYS = ("untouched", "damaged", "altered", "signed", "other data", "other parameters", "no file")
STOPS = ("killed", "killed", "max_iter")


def make_case(random: random.Random, materials: Any) -> Case:
    """Choose data, how the fit is stopped, and what happens to its file."""
    way = random.choice(WAYS)
    facts = {
        "seed": random.getrandbits(32),
        "n_classes": random.choice([2, 3, 5]),
        "n_rows": random.choice([20, 40, 80]),
        "n_features": random.choice([2, 6, 6, 200]),
        "C": random.choice([0.1, 1.0, 100.0]),
        "scale": random.choice([1.0, 1.0, 1e4]),
        "dtype": random.choice(["float64", "float64", "float32"]),
        "sparse": random.random() < 0.2,
        "working_memory": random.choice([512, 512, 0.01]),
        "stop": random.choice(STOPS),
        "after": random.choice([1, 1, 2, 3, 5]),
        "way": way,
        "seed_of_damage": random.getrandbits(32),
    }
    return Case({}, [f"a fit is stopped ({facts['stop']}); its file: {way}"], facts)


def _data(facts: dict[str, Any], other: bool = False) -> tuple[Any, NDArray[Any]]:
    source = np.random.default_rng(facts["seed"] + other)
    codes = np.arange(facts["n_rows"]) % facts["n_classes"]
    X = source.normal(size=(facts["n_rows"], facts["n_features"]))
    X[:, 0] += codes
    X = (facts["scale"] * X).astype(facts["dtype"])
    if facts["sparse"]:
        from scipy import sparse

        X[np.abs(X) < facts["scale"]] = 0
        return sparse.csr_array(X), codes
    return X, codes


def _engine(facts: dict[str, Any], **parameters: Any) -> Any:
    from duelrank import LogisticDuels

    tol = TOL[facts["dtype"]]
    given = {"C": facts["C"], "working_memory": facts["working_memory"], "tol": tol}
    return LogisticDuels(**(given | parameters))


def run_case(case: Case, folder: Path) -> str:
    """Fit without a file, stop a fit with one, and go on from what it left."""
    from sklearn.exceptions import ConvergenceWarning

    facts, path = case.facts, folder / FILE
    X, codes = _data(facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # documented
        alone = _engine(facts).fit(X, codes, facts["n_classes"])
        _stop(facts, X, codes, path)
        damage = random.Random(facts["seed_of_damage"])
        _alter(case, path, damage)
        parameters: dict[str, Any] = {}
        if facts["way"] == "other data":
            X, codes = _data(facts, other=True)
        if facts["way"] == "other parameters":
            parameters = damage.choice([{"C": 7.0}, {"fit_intercept": False}])
        engine = _engine(facts, checkpoint=path, **parameters)
        was_there = path.exists()
        left = path.read_bytes() if was_there else b""
        try:
            engine.fit(X, codes, facts["n_classes"])
        except ValueError as error:
            if "checkpoint" not in str(error):
                raise
            if not was_there or facts["way"] in ("untouched", "no file"):
                raise Find(f"its own file is refused ({facts['stop']})", str(error)) from error
            if path.read_bytes() != left:
                raise Find("a file that was refused has changed", str(error)) from error
            return "refused"
    others = [name for name in os.listdir(folder) if name != FILE]
    if others:
        raise Find("files were left behind", str(others))
    if not was_there:
        outcome = "began anew"
    elif facts["way"] in ("untouched", "damaged", "altered"):
        outcome = "went on"
    elif facts["way"] == "signed":
        return "went on from what someone wrote"  # who can write a checksum can write anything
    else:
        raise Find(f"the file of another fit is taken for its own ({facts['way']})")
    if facts["way"] in ("untouched", "damaged", "altered", "no file"):
        _check_same(alone, engine, X)
    return outcome


def _stop(facts: dict[str, Any], X: Any, codes: NDArray[Any], path: Path) -> None:
    """Leave the file of a fit that did not come to its end."""
    if facts["stop"] == "max_iter":
        parameters = {"checkpoint": path, "checkpoint_every": 1, "max_iter": facts["after"]}
        _engine(facts, **parameters).fit(X, codes, facts["n_classes"])
        return
    child = os.fork()
    if child == 0:
        try:
            _die_while_writing(facts["after"])
            engine = _engine(facts, checkpoint=path, checkpoint_every=1)
            engine.fit(X, codes, facts["n_classes"])
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _die_while_writing(after: int) -> None:
    """Let this process be killed when it writes for the second, third ... time, or just after."""
    save, n_written = np.savez, 0

    def save_and_die(file: Any, **written: Any) -> None:
        nonlocal n_written
        n_written += 1
        if n_written > after:
            file.write(b"PK\x03\x04 half a file")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        save(file, **written)

    np.savez = save_and_die  # type: ignore[assignment]


def _alter(case: Case, path: Path, damage: random.Random) -> None:
    """Do to the file what the case says, and remember the file."""
    way = case.facts["way"]
    if way == "no file":
        path.unlink(missing_ok=True)
    if not path.exists():
        return
    content = path.read_bytes()
    if way == "damaged":
        content = archives.damaged(content, damage, case.story)
    elif way == "altered":
        content = arrays.altered(content, damage, case.story)
    elif way == "signed":
        content = _signed(arrays.altered(content, damage, case.story))
    path.write_bytes(content)
    case.files[FILE] = content


def _signed(content: bytes) -> bytes:
    """Write the right checksum into a file, if all its arrays can be read."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            read = {name: archive[name] for name in archive.files}
        stream = io.BytesIO()
        np.save(stream, _checkpoint._checksum(read))
    except Exception:  # one of them is no array any more
        return content
    return arrays.archive_of({**members, "checksum.npy": stream.getvalue()})


def _check_same(alone: Any, engine: Any, X: Any) -> None:
    if not (np.all(alone.converged_) and np.all(engine.converged_)):
        return
    expected, got = alone.margins(X), engine.margins(X)
    distance = np.abs(expected - got).max() / max(1.0, np.abs(expected).max())
    if not distance <= CLOSE[str(expected.dtype)]:
        raise Find("another result than without a file", f"margins differ by {distance:.3g}")


def read_materials(folder: Path) -> None:
    """Import, before workers are forked, what all of them need."""
    import duelrank  # noqa: F401


KIND = Kind("checkpoints", make_case, run_case, read_materials=read_materials, cases=1000)
