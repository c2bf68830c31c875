"""Fit and rank rows that are larger than the memory of all workers together.

Run as a program, with a folder, how many times larger they shall be and the number of workers, so
that the memory of its processes is theirs alone: it prints the peak of each of them, the limit that
workers have, and the size of the data, in bytes, as JSON.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

from duelrank import DuelRanker, LogisticDuels
from duelrank.blocks import RowBlocks, write_rankings

N_FEATURES, N_CLASSES, ROWS_PER_BLOCK = 128, 3, 16_000
LIMIT = 400 * 2**20
CENTRES = np.random.default_rng(1).normal(0, 0.1, (N_CLASSES, N_FEATURES)).astype(np.float32)


def write_data(folder: Path, n_bytes: float) -> tuple[Path, Path]:
    """Write points and labels block by block; a label's points lie around its own centre."""
    rng = np.random.default_rng(0)
    X, y = folder / "X.bin", folder / "y.bin"
    with X.open("wb") as points, y.open("wb") as labels:
        while points.tell() < n_bytes:
            codes = rng.integers(0, N_CLASSES, ROWS_PER_BLOCK)
            rows = rng.standard_normal((ROWS_PER_BLOCK, N_FEATURES), dtype=np.float32)
            rows += CENTRES[codes]
            rows.tofile(points)
            codes.tofile(labels)
    return X, y


def peak() -> int:
    """Return the most memory that this process ever had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main(folder: Path, times: float, n_workers: int) -> None:
    """Fit, rank, and print what it took."""
    points, labels = write_data(folder, times * n_workers * LIMIT)
    n_rows = labels.stat().st_size // 8
    X = np.memmap(points, dtype=np.float32, mode="r", shape=(n_rows, N_FEATURES))
    y = np.memmap(labels, dtype=np.int64, mode="r")
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        blocks = RowBlocks.from_array(X, ROWS_PER_BLOCK)
        ranker = DuelRanker(LogisticDuels(tol=1e-3, working_memory=64), random_state=0)
        ranker.fit(blocks, RowBlocks.from_array(y, ROWS_PER_BLOCK))
        files = write_rankings(ranker, blocks, folder / "rankings", top=2)
        peaks = list(client.run(peak).values())
        survived = pids == client.run(os.getpid)
    # The label whose centre is nearest is the best guess that there can be.
    distances = ((X[:ROWS_PER_BLOCK, np.newaxis] - CENTRES) ** 2).sum(axis=2)
    best, guess = distances.argmin(axis=1), pq.read_table(files[0])["label_1"].to_numpy()
    report = {
        "workers": peaks,
        "driver": peak(),
        "limit": LIMIT,
        "data": points.stat().st_size,
        "n_rows": n_rows,
        "n_ranked": sum(pq.read_metadata(file).num_rows for file in files),
        "accuracy": float((guess == y[:ROWS_PER_BLOCK]).mean()),
        "best_accuracy": float((best == y[:ROWS_PER_BLOCK]).mean()),
        "survived": survived,
        "converged": bool(ranker.duels_.converged_.all()),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
