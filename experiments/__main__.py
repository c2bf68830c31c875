"""``python -m experiments [--full] [--draw] [NAME ...]``: compute and draw some or all of them."""

from __future__ import annotations

import argparse
import os
import time
from importlib import import_module

from experiments import journal

NAMES = (
    "posterior_curves",
    "noise_condition",
    "synthetic_grid",
    "inversions",
    "rates",
    "table_1",
    "known_posteriors",
)
# Baselines of Table 1 that take about an hour; their results are committed.
BASELINES = ("multinomial_cv", "one_vs_rest_cv")
# Run for long, and only when they are named; their results are committed.
BENCHMARKS = ("label_ranking", "aggregations", "anchored_criteria")
NEED_DATA = ("table_1", "known_posteriors", *BASELINES, *BENCHMARKS)
ALL = NAMES + BASELINES + BENCHMARKS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--full", action="store_true", help="cross-validate the baselines too")
    parser.add_argument("--draw", action="store_true", help="draw from the results that are there")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in ALL]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(ALL)}")
    for name in arguments.names or (BASELINES if arguments.full else ()) + NAMES:
        if name in NEED_DATA and not arguments.draw and "DUELRANK_DATA" not in os.environ:
            print(f"{name}: skipped, DUELRANK_DATA names no folder with its data\n")
            continue
        experiment = import_module(f"experiments.{name}")
        start = time.perf_counter()
        if not arguments.draw:
            experiment.compute()
            journal.discard(name)
        experiment.draw()
        print(f"{name}: {time.perf_counter() - start:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
