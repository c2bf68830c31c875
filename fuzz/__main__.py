"""``python -m fuzz [KIND ...]``: strange inputs, and whether anything undocumented happens."""

from __future__ import annotations

import os

# Before numpy is imported: workers share the cores, and a fork must find no threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
from importlib import import_module
from pathlib import Path

from fuzz.campaign import FOLDER, Tally, replay, run_kind, write_summary
from fuzz.cases import Kind

KINDS = ("models", "tables", "checkpoints", "numbers", "threads")
MEGABYTE = 2**20
SHOWN = 12  # signatures of finds that are listed for a kind
MINUTES = 10.0  # of all kinds together, unless cases or minutes are asked for
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; return the exit status, 1 if there are finds."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0, help="of all choices (default: 0)")
    parser.add_argument("--cases", type=int, help="of every kind (default: hundreds, by kind)")
    parser.add_argument(
        "--minutes", type=float, help="at most, for all kinds together (default: 10)"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--output", type=Path, default=FOLDER, help=f"for finds ({FOLDER})")
    parser.add_argument("--replay", metavar="KIND:SEED:NUMBER", help="run one case again")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.kinds if name not in KINDS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(KINDS)}")
    if chosen.replay is not None:
        return _replay(parser, chosen.replay, chosen.output)
    kinds = [kind_of(name) for name in chosen.kinds or KINDS]
    tallies = []
    for kind in kinds:
        cases, minutes = chosen.cases, chosen.minutes
        if cases is None and minutes is None:
            cases, minutes = kind.cases, MINUTES
        tallies.append(
            run_kind(
                kind,
                chosen.seed,
                cases=cases,
                minutes=None if minutes is None else minutes / len(kinds),
                jobs=chosen.jobs,
                first=chosen.first,
                folder=chosen.output,
            )
        )
        if tallies[-1].interrupted:
            break
    write_summary(chosen.output, tallies)
    print(table(tallies))
    if tallies[-1].interrupted:
        return INTERRUPTED
    return int(any(tally.finds for tally in tallies))


def kind_of(name: str) -> Kind:
    """Return a kind by its name."""
    kind: Kind = import_module(f"fuzz.{name}").KIND
    return kind


def table(tallies: list[Tally]) -> str:
    """Return the figures of a campaign, and what its finds were."""
    head = f"{'kind':<12}{'seed':>5}{'cases':>8}{'finds':>7}{'minutes':>9}"
    lines = [f"{head}{'slowest':>10}{'memory':>10}  outcomes"]
    for tally in tallies:
        others = sorted((name, n) for name, n in tally.outcomes.items() if name != "find")
        told = ", ".join(f"{name} {n}" for name, n in others)
        lines.append(
            f"{tally.kind:<12}{tally.seed:>5}{tally.cases:>8}{tally.finds:>7}"
            f"{tally.seconds / 60:>9.1f}{tally.slowest:>8.1f} s"
            f"{tally.peak_bytes / MEGABYTE:>7.0f} MB  {told}"
        )
    for tally in tallies:
        by_frequency = sorted(tally.signatures.items(), key=lambda pair: -len(pair[1]))
        if by_frequency:
            lines += ["", f"finds among {tally.kind}, {len(by_frequency)} different ones:"]
        for signature, numbers in by_frequency[:SHOWN]:
            first = f"{tally.kind}:{tally.seed}:{numbers[0]}"
            lines.append(f"{len(numbers):>6} x {signature}  (--replay {first})")
        if len(by_frequency) > SHOWN:
            lines.append(f"       and {len(by_frequency) - SHOWN} more")
    return "\n".join(lines)


def _replay(parser: argparse.ArgumentParser, name: str, folder: Path) -> int:
    kind, _, rest = name.partition(":")
    seed, _, number = rest.partition(":")
    if kind not in KINDS or not (seed.isdigit() and number.isdigit()):
        parser.error(f"--replay takes KIND:SEED:NUMBER, got {name!r}")
    case, answer = replay(kind_of(kind), int(seed), int(number), folder)
    print("\n".join([*case.story, f"{answer.outcome} {answer.signature}", answer.report]))
    print(f"its files are in {folder / 'replayed' / name.replace(':', '-')}")
    return int(answer.outcome == "find")


if __name__ == "__main__":
    sys.exit(main())
