"""Pages and tables of what was measured; no benchmark runs here.

`merge` puts runs together: lines with the same key are one line, with a value for every run (None
if a run does not have it). Ratios are taken run by run.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

BEGIN = "<!-- `benchmarks/run.py --readme` makes what follows -->"
END = "<!-- up to here -->"

INTRODUCTION = """\
Every peer is timed in the same process as duelrank. A time is the best of several, or the only one
if it is long. A ratio is the time of the peer divided by that of duelrank: **below 1, in bold, the
peer is faster.** (A bare product is no peer. It is a part of the work and tells what could still be
gained.) Of several runs, the lowest and the highest are shown. The excess of a peer is how far its
objectives are above their minimum, relative to it, in the worst duel; that of duelrank is below
1e-6.
"""
ONLY_PRINTED = "measures no times; what it printed is in the log of the run"


class Row(NamedTuple):
    """A row of the table in the README: its first cell, whose key, and words for the peer."""

    name: str
    key: str
    peer: str = ""
    more: str = ""  # key of a figure that stands next to our time


ROWS = [
    Row("MNIST, 45 duels, C = 1e-4", "mnist/fit/newton-cholesky", "one-vs-one, newton-cholesky"),
    Row("", "mnist/fit/lbfgs", "one-vs-one, default solver"),
    Row("MNIST 3, 5, 8 with 10 C's, 5 folds", "mnist/cv", "LogisticRegressionCV per duel"),
    Row("MNIST, all 45 duels with 10 C's, 5 folds", "mnist/cv/all", "the paper reports 40 min"),
    Row("100 labels, 4,950 duels", "labels-100/fit/lbfgs", "one-vs-one, default solver"),
    Row(
        'ranking MNIST\'s 10,000 test points, `ties="index"`',
        "mnist/rank/index",
        "`OneVsOneClassifier.decision_function`",
    ),
    Row("1,000 labels, 499,500 duels", "labels-1000/fit", more="labels-1000/memory"),
    Row(
        "ranking 10,000 such points",
        "labels-1000/rank",
        "the matrix product alone, in single precision",
    ),
    Row("the first five labels of each", "labels-1000/top-5", "the same product"),
    Row("feedback arc sets, 10,000 tournaments", "feedback-arc-set", "scipy's `milp` per row"),
    Row(
        "stumps, 20,000 rows, 30 labels, 10 features",
        "stumps/30-labels",
        "`DecisionTreeClassifier(max_depth=1)` per pair",
    ),
    Row(
        "text: 77 intents, 43,948 columns, 2,926 duels",
        "text/fit/one-vs-one",
        "one-vs-one, liblinear",
    ),
    Row("ranking 3,080 such texts", "text/rank", "`OneVsOneClassifier.decision_function`"),
    Row(
        "1,015 occupations from job titles, 87,474 columns, `AnchoredDuels`",
        "occupations/fit",
        "`LinearSVC`, less accurate",
        more="occupations/memory",
    ),
]


def merge(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Put runs together.

    Parameters
    ----------
    runs : list of dict
        What `run.py` has written, in the order of time.

    Returns
    -------
    dict
        "runs": when and on what; "lines": what was measured; "missing": what was not.
    """
    merged: dict[str, dict[str, Any]] = {}
    missing = []
    for number, run in enumerate(runs):
        for benchmark in run["benchmarks"]:
            for line in benchmark["lines"]:
                known = merged.setdefault(
                    line["key"], {"ours": [None] * len(runs), "theirs": [None] * len(runs)}
                )
                words = ("key", "question", "unit", "peer", "note")  # those of the last run count
                known |= {"benchmark": benchmark["name"], **{w: line.get(w, "") for w in words}}
                known["ours"][number] = line["ours"]
                known["theirs"][number] = line.get("theirs")
            about = {"run": number, "benchmark": benchmark["name"]}
            missing += [
                {**about, "what": f"{one['skipped']}: skipped, {one['why']}"}
                for one in benchmark["skipped"]
            ]
            if "failed" in benchmark:
                missing.append({**about, "what": f"failed: {benchmark['failed']}"})
            elif not benchmark["lines"] and not benchmark["skipped"]:
                missing.append({**about, "what": ONLY_PRINTED})
    about_runs = [
        {
            "started": run["started"],
            "minutes": sum(one["seconds"] for one in run["benchmarks"]) / 60,
            "start": run["start"],
            "end": run.get("end"),
        }
        for run in runs
    ]
    return {"runs": about_runs, "lines": list(merged.values()), "missing": missing}


def make_page(merged: dict[str, Any]) -> str:
    """Return the page of merged runs, in Markdown."""
    parts = ["# Benchmarks\n", INTRODUCTION, _about_runs(merged["runs"]), _versions(merged["runs"])]
    names = dict.fromkeys(line["benchmark"] for line in merged["lines"])
    for name in names:
        rows = [_cells(line) for line in merged["lines"] if line["benchmark"] == name]
        title = name.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n" + _table(["", "duelrank", "peer", "", "ratio"], rows))
    parts.append("## Not measured\n\n" + _missing(merged["missing"]))
    return "\n".join(parts)


def readme_table(merged: dict[str, Any]) -> str:
    """Return what stands in the README: how it was measured, and a table of chosen lines."""
    lines = {line["key"]: line for line in merged["lines"]}
    keys = [key for row in ROWS for key in (row.key, row.more) if key]
    absent = [key for key in keys if key not in lines]
    if absent:
        raise ValueError(f"the results lack {', '.join(absent)}; run these benchmarks first")
    rows = []
    for row in ROWS:
        line = lines[row.key]
        ours = _middle(line["ours"], line["unit"])
        if row.more:
            ours += f", {_middle(lines[row.more]['ours'], lines[row.more]['unit'])}"
        if row.name == "":
            ours = ""  # the same as in the row above
        ratios = _ratios(line)
        peer = f"{row.peer}: {_middle(line['theirs'], line['unit'])}" if ratios else row.peer
        rows.append([row.name, ours, peer, _times(ratios)])
    return f"{_how(merged['runs'])}\n\n" + _table(["", "duelrank", "peer", "ratio"], rows)


def with_table(text: str, merged: dict[str, Any]) -> str:
    """Return the text of a README with its table made anew, between the two marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"the README must have each of these lines once: {BEGIN} and {END}")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{readme_table(merged)}\n{END}{after}"


def _how(runs: list[dict[str, Any]]) -> str:
    days = sorted({run["started"][:10] for run in runs})
    machines = {_machine(run["start"]): None for run in runs}
    names = ("duelrank", "scikit-learn", "numpy", "Python")
    versions = ", ".join(f"{name} {_of_all(runs, name)}" for name in names)
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    many = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    spread = "" if len(runs) == 1 else " Times are medians, ratios range over the runs."
    return (
        f"Measured next to the peer in the same process (`make bench`, {many}, {when}).{spread}\n"
        f"On {'; '.join(machines)}, with {versions}. All lines, also those\n"
        "where peers are faster, are in [benchmarks/results.md](benchmarks/results.md):"
    )


def _machine(start: dict[str, Any]) -> str:
    return f"{start['processor']}, {start['cores']} cores, {start['memory']:.0f} GB of memory"


def _about_runs(runs: list[dict[str, Any]]) -> str:
    head = [
        "run",
        "started",
        "minutes",
        "machine",
        "load, start → end",
        "float32 products, Gflop/s",
        "float64 products, Gflop/s",
    ]
    rows = []
    for number, run in enumerate(runs, 1):
        ends = [run["start"], run["end"]]
        pairs = [
            " → ".join(format(end[what], spec) if end else "?" for end in ends)
            for what, spec in (("load", ".1f"), ("single", ".0f"), ("double", ".0f"))
        ]
        about = [str(number), run["started"], f"{run['minutes']:.0f}", _machine(run["start"])]
        rows.append([*about, *pairs])
    table = _table(head, rows)
    return (
        f"## Runs\n\n{table}\nThe load, and rates of large matrix products that fell, tell "
        "whether others used the machine. A run with ? was stopped.\n"
    )


def _versions(runs: list[dict[str, Any]]) -> str:
    names = dict.fromkeys(name for run in runs for name in run["start"]["versions"])
    return _table(["", "version"], [[name, _of_all(runs, name)] for name in names])


def _of_all(runs: list[dict[str, Any]], name: str) -> str:
    """Return the versions of a package in all runs, each once."""
    return " / ".join(dict.fromkeys(run["start"]["versions"].get(name, "?") for run in runs))


def _cells(line: dict[str, Any]) -> list[str]:
    ratios, question, peer = _ratios(line), line["question"].strip(), line["peer"]
    note = f" ({line['note']})" if line["note"] else ""
    if peer:
        peer += note
    else:
        question += note
    theirs = _span(line["theirs"], line["unit"]) if ratios else ""
    return [question, _span(line["ours"], line["unit"]), peer, theirs, _times(ratios)]


def _missing(missing: list[dict[str, Any]]) -> str:
    if not missing:
        return "Nothing failed, and nothing was skipped.\n"
    runs: dict[tuple[str, str], list[str]] = {}
    for one in missing:
        runs.setdefault((one["benchmark"], one["what"]), []).append(str(one["run"] + 1))
    return "".join(
        f"- {benchmark}, run {', '.join(numbers)}: {what}\n"
        for (benchmark, what), numbers in runs.items()
    )


def _ratios(line: dict[str, Any]) -> list[float]:
    both = zip(line["ours"], line["theirs"], strict=True)
    return [theirs / ours for ours, theirs in both if ours is not None and theirs is not None]


def _times(ratios: list[float]) -> str:
    if not ratios:
        return ""
    text = f"{_from_to(ratios)}×"
    return f"**{text}**" if min(ratios) < 1 else text


def _span(values: list[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    scale, unit = _readable(known, unit)
    return f"{_from_to([scale * value for value in known])} {unit}"


def _middle(values: list[float | None], unit: str) -> str:
    value = median(value for value in values if value is not None)
    scale, unit = _readable([value], unit)
    return f"{_digits(scale * value)} {unit}"


def _readable(values: list[float], unit: str) -> tuple[float, str]:
    """Return a factor and the unit after it: seconds may be too few to be read as seconds."""
    if unit != "s" or max(values) >= 0.1:
        return 1.0, unit
    return (1e3, "ms") if max(values) >= 1e-4 else (1e6, "µs")


def _from_to(values: list[float]) -> str:
    return "–".join(dict.fromkeys([_digits(min(values)), _digits(max(values))]))


def _digits(value: float) -> str:
    """Return a number with two digits, or more if it has more before the point."""
    if value >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("|" + "".join(map(_cell, line)) + "\n" for line in lines)


def _cell(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return f" {escaped} |" if escaped else " |"
