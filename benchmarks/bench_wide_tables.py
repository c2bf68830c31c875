"""How the command's time grows with the number of columns: 20,000 against 100,000.

The time is that of the processor, in a process of its own. Most of a small table is the time of
importing everything, so that of a table of ten columns is subtracted before the ratio is taken.
Linear growth has a ratio of 5, quadratic growth one of 25.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from side_by_side import record

SIZES = (10, 20_000, 100_000)
ROWS = {"fit": 60, "new": 6}


def write_table(path: Path, n_rows: int, n_columns: int) -> None:
    """Write numbers, of which the first column tells the label."""
    X = np.random.default_rng(n_rows).normal(size=(n_rows, n_columns)).round(3)
    codes = np.arange(n_rows) % 4
    X[:, 0] += codes
    columns = {f"c{number}": column for number, column in enumerate(X.T)}
    pa.csv.write_csv(pa.table(columns | {"label": np.array(list("abcd"))[codes]}), path)


def processor_seconds(*arguments: str) -> float:
    """Run the command, and return the seconds that it took of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "duelrank", *arguments]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            fit, new = (Path(folder) / f"{name}.csv" for name in ROWS)
            for path, n_rows in zip((fit, new), ROWS.values(), strict=True):
                write_table(path, n_rows, size)
            model, ranked = f"{folder}/model.skops", f"{folder}/ranked.csv"
            commands = {
                "fit": ("fit", str(fit), "--target", "label", "-o", model),
                "rank": ("rank", model, str(new), "-o", ranked),
                "check": ("check", model, str(new)),
                "info": ("info", model),
            }
            for name, arguments in commands.items():
                seconds.setdefault(name, []).append(processor_seconds(*arguments))
    for name, (least, some, many) in seconds.items():
        ratio = (many - least) / (some - least)
        print(
            f"{name}: {least:.1f} s for {SIZES[0]} columns, {some:.1f} s for {SIZES[1]:,}, "
            f"{many:.1f} s for {SIZES[2]:,}, ratio without the first {ratio:.1f}"
        )
        question = f"{name}: processor time, {SIZES[2]:,} columns over {SIZES[1]:,}"
        record(f"wide-tables/{name}", question, ratio, "times")


if __name__ == "__main__":
    main()
