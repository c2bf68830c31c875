"""Runs of benchmarks: small scripts instead of those that take minutes."""

import json
import subprocess
import sys

import numpy as np
import pytest

import bench_many_labels
import machine
import run
from peers import PEERS
from side_by_side import MEASUREMENTS, best_of

SCRIPTS = {
    "fine": """
from side_by_side import figure, record, report
report("a question", 2.0, 30.0, "a peer", key="fine/first", note="a note")
figure("some memory", 1.5, "GB", key="fine/memory")
record("fine/table", "in a table", 1.0, peer="a peer", theirs=0.5)
print("also this")
""",
    "fails": """
from side_by_side import report
report("before the error", 1.0, 2.0, "a peer", key="fails/before")
raise ValueError("this is wrong")
""",
    "skips": """
from side_by_side import skipped
skipped("MNIST", "there is no data")
""",
    "repeats": """
from side_by_side import figure
for _ in range(2):
    figure("the same", 1.0, "s", key="repeats/same")
""",
    "parts": """
import sys
from side_by_side import figure, run_parts
if len(sys.argv) == 1:
    run_parts(__file__, ["good", "bad", "better"])
elif sys.argv[1] == "bad":
    sys.exit(3)
else:
    figure(sys.argv[1], 1.0, "s", key=f"parts/{sys.argv[1]}")
""",
}


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(machine, "SIZE", 100)
    monkeypatch.setattr(run, "describe_machine", machine.describe)


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(run.HERE))
    paths = [tmp_path / f"bench_{name}.py" for name in SCRIPTS]
    for path, text in zip(paths, SCRIPTS.values(), strict=True):
        path.write_text(text)
    return paths


def test_the_others_go_on_after_an_error(scripts, tmp_path, small_machine, capsys):
    folder = tmp_path / "output" / "benchmarks"
    path = run.run_all(scripts, folder)
    (written,) = run.read_runs(folder)
    done = {one["name"]: one for one in written["benchmarks"]}
    assert list(done) == list(SCRIPTS)
    keys = {name: [line["key"] for line in one["lines"]] for name, one in done.items()}
    assert keys["fine"] == ["fine/first", "fine/memory", "fine/table"]
    assert keys["fails"] == ["fails/before"]
    assert keys["parts"] == ["parts/good", "parts/better"]
    assert done["skips"]["skipped"] == [{"skipped": "MNIST", "why": "there is no data"}]
    failed = {name: one["failed"] for name, one in done.items() if "failed" in one}
    assert failed == {
        "fails": "ValueError: this is wrong",
        "repeats": "it measured twice: repeats/same",
        "parts": "these parts failed: bad",
    }
    log = path.with_suffix(".log").read_text()
    assert "also this" in log
    assert log in capsys.readouterr().out

    run.write_page(folder)
    page = (folder / "benchmarks.md").read_text()
    assert "| a question | 2.0 s | a peer (a note) | 30 s | 15× |" in page
    assert "| in a table | 1.0 s | a peer | 0.5 s | **0.5×** |" in page
    assert "- fails, run 1: failed: ValueError: this is wrong" in page
    assert "- skips, run 1: MNIST: skipped, there is no data" in page


def test_the_command(tmp_path):
    def call(*arguments):
        command = [sys.executable, str(run.HERE / "run.py"), "--folder", str(tmp_path), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    unknown = call("nothing")
    assert unknown.returncode == 2
    assert "no benchmark is called nothing; there are anchored, " in unknown.stderr
    assert "there are no runs in" in call("--page").stderr
    numbers = dict.fromkeys(["cores", "memory", "load", "single", "double"], 1)
    about = {"processor": "some", "versions": {}, **numbers}
    made_up = {"started": "2026-03-01", "start": about, "end": about, "benchmarks": []}
    (tmp_path / "one.json").write_text(json.dumps(made_up))
    assert call("--page").returncode == 0
    assert "2026-03-01" in (tmp_path / "benchmarks.md").read_text("utf-8")


def test_the_machine_is_described(small_machine):
    about = machine.describe()
    assert about["cores"] >= 1
    assert about["memory"] > 0.1
    assert min(about["single"], about["double"]) > 0
    assert about["versions"]["numpy"] == np.__version__
    json.dumps(about)


def test_best_of_counts_its_runs():
    calls = []
    seconds, result = best_of(lambda: calls.append(1) or len(calls), 4)
    assert result == len(calls) == 4
    assert seconds >= 0


def test_many_labels_in_small(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    monkeypatch.setenv(MEASUREMENTS, str(path))
    bench_many_labels.thousand_labels(12)
    bench_many_labels.hundred_labels(3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    measured = {line["key"]: line for line in lines if "key" in line}
    assert {f"labels-12/{name}" for name in ("fit", "memory", "rank", "top-5")} <= set(measured)
    ours = ("newton-cholesky", "lbfgs", "newton-cg", "liblinear")
    assert {f"labels-3/fit/{name}" for name in ours} <= set(measured)
    # Peers that are not installed are told.
    told = len(measured) - 4 + sum("skipped" in line for line in lines)
    assert told == len(PEERS)
