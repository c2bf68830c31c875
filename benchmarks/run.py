"""Run all benchmarks, or those named on the command line: ``run.py kendall stumps``.

Every benchmark runs in a process of its own; one that fails is told, and the others go on. A run
writes two files into output/benchmarks, named by the time at which it started: the measurements,
the machine and the versions (.json), and all that was printed (.log). The page
output/benchmarks/benchmarks.md is made from the measurements of all runs in the folder: delete
those that should not count.

- ``run.py --page`` makes the page again and runs nothing.
- ``run.py --keep`` puts the runs of the folder together as benchmarks/results.json, and their page
  next to it as results.md.
- ``run.py --readme`` makes the table of README.md from benchmarks/results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from page import make_page, merge, readme_table, with_table
from side_by_side import MEASUREMENTS

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
README = HERE.parent / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="kendall, stumps, ...; all if there is none")
    parser.add_argument("--folder", type=Path, default=Path("output") / "benchmarks")
    parser.add_argument("--page", action="store_true", help="make the page, run nothing")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results.json")
    parser.add_argument("--readme", action="store_true", help="make the table of README.md")
    options = parser.parse_args()
    known = {path.stem[6:]: path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
    if not (options.page or options.keep or options.readme):
        run_all([known[name] for name in options.names or known], options.folder)
    if not options.readme or options.page or options.keep:
        write_page(options.folder)
    if options.keep:
        keep(options.folder, RESULTS)
    if options.readme:
        write_table(RESULTS, README)


def run_all(scripts: Iterable[Path], folder: Path) -> Path:
    """Run scripts one after another; return the file with what they have measured."""
    started = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{started:%Y-%m-%dT%H-%M-%S}.json"
    run: dict[str, Any] = {"started": f"{started:%Y-%m-%d %H:%M} UTC", "start": describe_machine()}
    run["benchmarks"] = []
    with path.with_suffix(".log").open("w", encoding="utf-8") as log:
        for script in scripts:
            run["benchmarks"].append(run_one(script, log))
            path.write_text(json.dumps(run, indent=1), encoding="utf-8")
    run["end"] = describe_machine()
    path.write_text(json.dumps(run, indent=1), encoding="utf-8")
    return path


def run_one(script: Path, log: Any) -> dict[str, Any]:
    """Run one script, show what it prints, and return what it has measured."""
    name = script.stem.removeprefix("bench_")
    _show(f"\n{name}\n", log)
    start, last = time.perf_counter(), ""
    with TemporaryDirectory() as temporary:
        measurements = Path(temporary) / "lines"
        measurements.touch()
        environment = {**os.environ, MEASUREMENTS: str(measurements), "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        ) as process:
            for line in process.stdout or ():
                _show(line, log)
                last = line.strip() or last
        lines = [json.loads(line) for line in measurements.read_text("utf-8").splitlines()]
    done: dict[str, Any] = {"name": name, "seconds": time.perf_counter() - start}
    done["lines"] = [line for line in lines if "key" in line]
    done["skipped"] = [line for line in lines if "skipped" in line]
    keys = [line["key"] for line in done["lines"]]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if process.returncode:
        done["failed"] = last or f"it ended with {process.returncode}"
    elif twice:
        done["failed"] = f"it measured twice: {', '.join(twice)}"
    return done


def describe_machine() -> dict[str, Any]:
    """Describe the machine in another process, so that this one stays small."""
    command = [sys.executable, str(HERE / "machine.py")]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """Return all runs in a folder, in the order of time."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]


def write_page(folder: Path) -> None:
    """Make the page of all runs in a folder."""
    path = folder / "benchmarks.md"
    path.write_text(make_page(_merged(folder)), encoding="utf-8")
    print(f"page: {path}")


def keep(folder: Path, results: Path) -> None:
    """Put all runs in a folder together as one file, and its page next to it.

    Nothing is kept if the README's table cannot be made from it.
    """
    merged = _merged(folder)
    try:
        readme_table(merged)
    except ValueError as error:
        sys.exit(f"nothing was kept: {error}")
    results.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    results.with_suffix(".md").write_text(make_page(merged), encoding="utf-8")
    print(f"kept: {results}")


def write_table(results: Path, readme: Path) -> None:
    """Make the table of a README from kept results."""
    text = with_table(readme.read_text("utf-8"), json.loads(results.read_text("utf-8")))
    readme.write_text(text, encoding="utf-8")
    print(f"table: {readme}")


def _merged(folder: Path) -> dict[str, Any]:
    runs = read_runs(folder)
    if not runs:
        sys.exit(f"there are no runs in {folder}; `make bench` makes one")
    return merge(runs)


def _show(text: str, log: Any) -> None:
    print(text, end="", flush=True)
    log.write(text)
    log.flush()


if __name__ == "__main__":
    main()
