"""The time of a pass over blocks of rows next to the solver in memory, and the memory of a fit.

A pass (the mean of a gradient and of a product with the Hessians) is timed on memory-mapped files:
in this process, and on a Dask cluster with one and with two worker processes. The peer is the
solver in memory, which computes the same from the same rows. A model explains the seconds on
clusters:

    t = t_pass + t_task B + c_sum B P (d+1)
        + (t_block B + c_feature n d + c_product n d (K−1) + c_margin n (K−1)) / workers

with B blocks, n rows, d features, K labels and P = K(K−1)/2 duels. The seven constants are the same
for all cases and both clusters. The results are in output/blocks.json and output/blocks.png.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster
from scipy.optimize import nnls

from duelrank._pairs import n_pairs
from duelrank._threads import threads_of_blas
from duelrank.blocks import LabeledBlocks, RowBlocks, add_up
from duelrank.duels.logistic._assembly import Objective, problem_batches
from duelrank.duels.logistic._batch import join_small
from duelrank.duels.logistic._blocks import LabelCounts
from duelrank.duels.logistic._groups import GroupedRows
from duelrank.duels.logistic._passes import (
    Along,
    BlockProblems,
    Coding,
    evaluate_block,
    hessian_block,
)
from duelrank.duels.logistic._problems import ProblemsInMemory
from duelrank.duels.logistic._rows import Settings, TrainingRows
from duelrank.duels.logistic._table import RowTable
from side_by_side import best_of, record

SETTINGS = Settings(1.0, True, None, 1e-8, 100, 512)
BASE = {"rows": 400_000, "features": 32, "labels": 10, "rows_per_block": 20_000}
GRID = {
    "rows_per_block": [1_000, 3_000, 10_000, 30_000, 100_000],
    "rows": [100_000, 200_000, 400_000, 800_000, 1_600_000],
    "features": [8, 16, 32, 64, 128],
    "labels": [3, 5, 10, 20, 40],
}
CONSTANTS = ["t_pass", "t_task", "c_sum", "t_block", "c_feature", "c_product", "c_margin"]
CLUSTERS = (1, 2)  # workers
REPEATS = 6
MEMORY_ROWS = [100_000, 200_000, 400_000, 800_000, 1_600_000]
MEMORY = """
import json, os, sys
from pathlib import Path
import numpy as np
from distributed import Client, LocalCluster
from duelrank import DuelRanker, LogisticDuels
from duelrank.blocks import RowBlocks

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

if __name__ == "__main__":
    folder, where = Path(sys.argv[1]), sys.argv[2]
    X, y = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    model = DuelRanker(LogisticDuels(working_memory=128), random_state=0)
    peaks = {}
    if where == "in memory":
        model.fit(np.array(X), np.array(y))
    else:
        rows = RowBlocks.from_array(X, 20_000), RowBlocks.from_array(y, 20_000)
        if where == "blocks, one process":
            model.fit(*rows)
        else:
            options = {"threads_per_worker": 1, "dashboard_address": ":0"}
            with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
                model.fit(*rows)
                peaks["a worker"] = max(client.run(peak).values())
            where = "driver and scheduler"
    print(json.dumps({where: peak(), **peaks}))
"""


def write_data(folder: Path, rows: int, features: int, labels: int) -> None:
    """Write points around the centres of their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, labels, rows)
    X = np.lib.format.open_memmap(
        folder / "X.npy", mode="w+", dtype=np.float64, shape=(rows, features)
    )
    centres = rng.normal(size=(labels, features))
    for start in range(0, rows, 100_000):
        part = slice(start, start + 100_000)
        X[part] = centres[y[part]] + 2 * rng.normal(size=X[part].shape)
    X.flush()
    np.save(folder / "y.npy", y)


def blocks_of(folder: Path, rows_per_block: int) -> LabeledBlocks:
    X, y = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    return LabeledBlocks.of(
        RowBlocks.from_array(X, rows_per_block), RowBlocks.from_array(y, rows_per_block)
    )


def questions(folder: Path, case: dict[str, int]) -> list[Callable[[], object]]:
    """Return two functions: one pass for a gradient, one for a product with the Hessians."""
    blocks = blocks_of(folder, case["rows_per_block"])
    coding = Coding(blocks.classes, blocks.census.dtype)
    weights = LabelCounts.of(blocks).weights
    objective = Objective.from_census(blocks.census, weights, coding.dtype, SETTINGS)
    duels = np.arange(n_pairs(case["labels"]))
    problems = BlockProblems(coding, objective, duels)
    W = np.random.default_rng(0).normal(0, 0.1, (len(duels), case["features"] + 1))
    single = W.astype(np.float32)
    return [
        lambda: blocks.passes.reduce(evaluate_block, add_up, problems, W),
        lambda: blocks.passes.reduce(hessian_block, add_up, problems, Along(single, single)),
    ]


def a_pass(folder: Path, case: dict[str, int]) -> float:
    """Return the seconds of a pass, in this process or on the connected cluster."""
    return float(np.mean([best_of(ask, REPEATS)[0] for ask in questions(folder, case)]))


def received(dask_worker: object) -> int:
    """Return how many bytes a worker has got from others."""
    return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)


def measure_traffic() -> list[dict[str, float]]:
    """Count the bytes that two workers send each other in a pass, and compute the upper limit."""
    measured = []
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": "ERROR"}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        for name in ("rows_per_block", "labels"):
            for value in GRID[name]:
                case = BASE | {name: value}
                with TemporaryDirectory() as temporary:
                    folder = Path(temporary)
                    write_data(folder, case["rows"], case["features"], case["labels"])
                    ask, _ = questions(folder, case)
                    before = sum(client.run(received).values())
                    ask()
                    sent = sum(client.run(received).values()) - before
                n_blocks = -(-case["rows"] // case["rows_per_block"])
                sums = 8 * n_pairs(case["labels"]) * (case["features"] + 1)
                most = sums * (2 + n_blocks + n_blocks / 7)
                measured.append({**case, "bytes": sent, "most": most})
                print(f"{name} {value}: {sent:,} of at most {most:,.0f} bytes", flush=True)
    return measured


def held(folder: Path, case: dict[str, int]) -> float:
    """Return the seconds of the solver in memory for the same computation."""
    blocks = blocks_of(folder, case["rows_per_block"])
    census, weights = blocks.census, LabelCounts.of(blocks).weights
    objective = Objective.from_census(census, weights, census.dtype, SETTINGS)
    rows = TrainingRows(np.load(folder / "X.npy"), np.load(folder / "y.npy"), None, case["labels"])
    duels = np.arange(n_pairs(case["labels"]))
    W = np.random.default_rng(0).normal(0, 0.1, (len(duels), case["features"] + 1))
    with threads_of_blas() as threads:
        grouped = GroupedRows(rows.feedback, rows.n_classes)
        table = RowTable(rows, grouped.groups, objective.scaling, threads)
        batches = join_small(problem_batches(table, grouped, objective, duels))
        problems = ProblemsInMemory(batches, len(duels), threads)
        gradient, at = best_of(lambda: problems.evaluate(W, np.float64), REPEATS)
        live, vectors = np.ones(len(duels), dtype=bool), W.astype(np.float32)
        product, _ = best_of(lambda: problems.hessian_times(at, vectors, live), REPEATS)
    return (gradient + product) / 2


def terms_of(case: dict[str, int], workers: int) -> list[float]:
    """Return the factors of the model's constants."""
    n, d, K = case["rows"], case["features"], case["labels"]
    n_blocks = -(-n // case["rows_per_block"])
    shared = np.array([n_blocks, n * d, n * d * (K - 1), n * (K - 1)]) / workers
    return [1, n_blocks, n_blocks * n_pairs(K) * (d + 1), *shared]


def measure() -> list[dict[str, float]]:
    """Time passes over a grid around the base case."""
    cases = [
        dict(case)
        for case in {
            tuple((BASE | {name: value}).items())
            for name, values in GRID.items()
            for value in values
        }
    ]
    cases.sort(key=lambda case: tuple(case.values()))
    measured = []
    clusters = {
        workers: LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs="ERROR"
        )
        for workers in CLUSTERS
    }
    for case in cases:
        with TemporaryDirectory() as name:
            folder = Path(name)
            write_data(folder, case["rows"], case["features"], case["labels"])
            seconds = {"held": held(folder, case), "here": a_pass(folder, case)}
            for workers, cluster in clusters.items():
                with Client(cluster):
                    seconds[f"{workers} workers"] = a_pass(folder, case)
        measured.append({**case, **seconds})
        overheads = ", ".join(f"{k} {v / seconds['held']:.1f}x" for k, v in seconds.items())
        print(f"{case}: in memory {seconds['held']:.3f} s; {overheads}", flush=True)
        if case == BASE:
            record_base(seconds)
    for cluster in clusters.values():
        cluster.close()
    return measured


def record_base(seconds: dict[str, float]) -> None:
    """Record the base case: how much longer passes over blocks take than those in memory."""
    names = {"here": "one process", "1 workers": "one worker", "2 workers": "two workers"}
    for key, name in names.items():
        record(
            f"blocks/{name.replace(' ', '-')}",
            f"a pass over {BASE['rows']:,} rows in blocks, {name}",
            seconds[key],
            peer="the solver in memory",
            theirs=seconds["held"],
        )


def fit_model(measured: list[dict[str, float]]) -> dict[str, float]:
    """Fit the constants to the seconds on all clusters, by relative errors."""
    cases = [(case, workers) for case in measured for workers in CLUSTERS]
    design = np.array([terms_of(*case) for case in cases], dtype=float)
    seconds = np.array([case[f"{workers} workers"] for case, workers in cases])
    size = design.max(axis=0)
    solution, _ = nnls(design / size / seconds[:, np.newaxis], np.ones(len(seconds)))
    return dict(zip(CONSTANTS, solution / size, strict=True))


def predict(model: dict[str, float], case: dict[str, float], workers: int) -> float:
    return float(np.dot(terms_of(case, workers), list(model.values())))


def unseen(measured: list[dict[str, float]], workers: int) -> list[float]:
    """Return model / measured of every case, by a model fitted to all others."""
    models = [fit_model([other for other in measured if other is not case]) for case in measured]
    return [
        predict(model, case, workers) / case[f"{workers} workers"]
        for model, case in zip(models, measured, strict=True)
    ]


def measure_memory() -> list[dict[str, float]]:
    """Return the peak memory of all processes of a fit, for several numbers of rows."""
    measured = []
    for rows in MEMORY_ROWS:
        peaks: dict[str, float] = {"rows": rows}
        with TemporaryDirectory() as name:
            folder = Path(name)
            write_data(folder, rows, BASE["features"], BASE["labels"])
            script = folder / "memory.py"
            script.write_text(MEMORY)
            for where in ("in memory", "blocks, one process", "blocks, two workers"):
                done = subprocess.run(
                    [sys.executable, script, folder, where],
                    capture_output=True,
                    text=True,
                    check=True,
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                )
                peaks |= json.loads(done.stdout)
        measured.append(peaks)
        print(", ".join(f"{name} {value:,.0f}" for name, value in peaks.items()), flush=True)
    return measured


def draw(results: dict, path: Path) -> None:
    measured, model, memory = results["passes"], results["model"], results["memory"]
    figure, grid = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
    axes = grid.ravel()
    styles = {
        "held": ("in memory", "#777777"),
        "here": ("one process", "#2a78b8"),
        "1 workers": ("one worker", "#c2571a"),
        "2 workers": ("two workers", "#2e8b57"),
    }
    for panel, (name, values) in zip(axes, GRID.items(), strict=False):
        others = {key: value for key, value in BASE.items() if key != name}
        line = [c for c in measured if all(c[key] == value for key, value in others.items())]
        line.sort(key=lambda case: case[name])
        places = [case[name] for case in line]
        for key, (label, color) in styles.items():
            marker = "s" if key == "held" else "o"
            panel.loglog(places, [c[key] for c in line], marker, color=color, label=label, ms=5)
            if key in ("1 workers", "2 workers"):
                workers = int(key[0])
                panel.loglog(places, [predict(model, c, workers) for c in line], color=color, lw=1)
        panel.set_xlabel(name.replace("_", " "))
        panel.set_xticks(values, [f"{value:,}" for value in values], rotation=30, fontsize=8)
        panel.xaxis.set_minor_locator(plt.NullLocator())
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.yaxis.set_minor_formatter(plt.NullFormatter())
        panel.grid(alpha=0.3)
    for panel in (axes[0], axes[3]):
        panel.set_ylabel("seconds of a pass")
    axes[5].axis("off")
    axes[5].legend(
        *axes[0].get_legend_handles_labels(),
        loc="center",
        title="a pass: marks measured, lines by the model",
    )
    names = [name for name in memory[0] if name != "rows"]
    for name in names:
        axes[4].semilogx([m["rows"] for m in memory], [m[name] for m in memory], "o-", label=name)
    axes[4].set_xticks(
        MEMORY_ROWS, [f"{value:,}" for value in MEMORY_ROWS], rotation=30, fontsize=8
    )
    axes[4].xaxis.set_minor_locator(plt.NullLocator())
    axes[4].set_ylim(0)
    axes[4].set_xlabel("rows")
    axes[4].set_ylabel("peak memory of a fit (MB)")
    axes[4].grid(alpha=0.3)
    axes[4].legend(fontsize=8)
    base = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in BASE.items())
    figure.suptitle(f"Passes over blocks of rows, around {base}", fontsize=11)
    figure.savefig(path, dpi=130)


def main() -> None:
    measured = measure()
    model = fit_model(measured)
    print("constants:", {name: f"{value:.3g}" for name, value in model.items()})
    for workers in CLUSTERS:
        seen = [predict(model, case, workers) / case[f"{workers} workers"] for case in measured]
        for name, ratios in (("fitted", seen), ("left out", unseen(measured, workers))):
            low, middle, high = np.quantile(ratios, [0, 0.5, 1])
            print(
                f"model / measured, {workers} workers, cases {name}: "
                f"{low:.2f} to {high:.2f}, median {middle:.2f}"
            )
    results = {
        "passes": measured,
        "model": model,
        "traffic": measure_traffic(),
        "memory": measure_memory(),
    }
    path = Path("output") / "blocks.png"
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(results, indent=1))
    draw(results, path)
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
