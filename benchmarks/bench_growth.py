"""How time and memory of LogisticDuels grow with n, K and d, next to the machine's GEMM limit.

Draws output/growth.png. The limit of a fit is the time that its matrix products would take at the
rate of one large matrix product, which is measured in the same run (products that build Hessians
are not counted). Memory is what a fit allocates beside its data; tracemalloc sees NumPy's arrays.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np

from side_by_side import best_of, record

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BASE = {"rows": 20_000, "labels": 20, "features": 64}
GRID = {
    "rows": [5_000, 10_000, 20_000, 40_000, 80_000, 160_000],
    "labels": [5, 10, 20, 40, 80, 160],
    "features": [8, 16, 32, 64, 128, 256],
}
FIT = """
import json, sys, tracemalloc
sys.path.insert(0, {folder!r})
from bench_many_labels import clusters
from side_by_side import best_of
from duelrank import LogisticDuels
from duelrank.duels.logistic._problems import ProblemsInMemory

flops = 0

def counted(method):
    def call(problems, *arguments):
        global flops
        batches = problems.accumulator.batches
        flops += 4 * sum(b.n_rows * b.problems.size for b in batches) * ({features} + 1)
        return method(problems, *arguments)
    return call

X, y = clusters({labels}, {rows} // {labels}, {features})
seconds, duels = best_of(lambda: LogisticDuels().fit(X, y, {labels}))
tracemalloc.start()
LogisticDuels().fit(X, y, {labels})
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
ProblemsInMemory.evaluate = counted(ProblemsInMemory.evaluate)
ProblemsInMemory.hessian_times = counted(ProblemsInMemory.hessian_times)
LogisticDuels().fit(X, y, {labels})
print(json.dumps([seconds, peak / 2**20, flops]))
"""


def gemm_rate() -> float:
    """Return flops per second of a large single precision product."""
    A = np.random.default_rng(0).normal(size=(3000, 3000)).astype(np.float32)
    seconds, _ = best_of(lambda: A @ A, 5)
    return 2 * 3000**3 / seconds


def main() -> None:
    rate = gemm_rate()
    print(f"single precision GEMM: {rate / 1e9:.0f} Gflop/s")
    folder = str(Path(__file__).parent)
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.5), layout="constrained", sharey="row")
    for column, (name, values) in enumerate(GRID.items()):
        measured = []
        for value in values:
            code = FIT.format(folder=folder, **(BASE | {name: value}))
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            seconds, megabytes, flops = json.loads(done.stdout)
            measured.append((seconds, megabytes, flops / rate))
            print(
                f"{name} {value}: {seconds:.3f} s, {megabytes:.0f} MB, "
                f"products alone {flops / rate:.3f} s",
                flush=True,
            )
        seconds, megabytes, limit = np.array(measured).T
        slope = np.polyfit(np.log(values[-3:]), np.log(seconds[-3:]), 1)[0]
        question = f"seconds of a fit grow with the {name}, from {values[-3]:,} to {values[-1]:,}"
        record(f"growth/{name}", question, slope, "(exponent)")
        time_axes, memory_axes = axes[:, column]
        time_axes.loglog(values, seconds, "o-", label="fit")
        time_axes.loglog(values, limit, "s--", label="its products at the GEMM rate")
        time_axes.set_title(f"growth at the end: {name}$^{{{slope:.1f}}}$", fontsize=10)
        memory_axes.loglog(values, megabytes, "o-")
        memory_axes.set_xlabel(name)
        for panel in (time_axes, memory_axes):
            panel.set_xticks(values, [f"{value:,}" for value in values], rotation=30)
            panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            panel.xaxis.set_minor_locator(plt.NullLocator())
            panel.grid(alpha=0.3)
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("peak memory of a fit (MB)")
    axes[0, 0].legend(fontsize=8)
    base = ", ".join(f"{value:,} {name}" for name, value in BASE.items())
    figure.suptitle(f"LogisticDuels around {base}")
    path = Path("output") / "growth.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
