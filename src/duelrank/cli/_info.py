"""``duelrank info``: what a model file says about itself."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import click

from duelrank.cli._files import check_inputs
from duelrank.cli._fit import by_kind, listed
from duelrank.cli._shortlists import COVERED, percent
from duelrank.cli._terminal import count_of, plain, show

if TYPE_CHECKING:
    from duelrank.storage import ModelDescription


@click.command()
@click.argument("model_file", metavar="MODEL")
def info(model_file: str) -> None:
    """Show what is in a model file, without opening the model."""
    check_inputs(model_file)
    from duelrank.storage import describe

    description = describe(model_file)
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for heading, lines in _sections(description):
        for number, line in enumerate(lines):
            grid.add_row(heading if number == 0 else "", plain(line))
    show(grid)


def _as_list(thing: object) -> list[object]:
    return thing if isinstance(thing, list) else []


def _target(description: ModelDescription) -> str:
    more = " (lists of labels, best first)" if description.learned_from_lists else ""
    if description.shown:
        more = f" (picked among the labels in {listed(description.shown)})"
    return f"{listed(description.targets) or '(not named)'}{more}"


def _training_data(description: ModelDescription) -> list[str]:
    """Say what the file holds of the training data; nothing if it does not tell."""
    held = description.training_data
    if held is None:
        return []
    lines = ["training rows" if held.get("rows") else "no training rows"]
    lines += [
        f"{held[name]} {name} {where}"
        for name, where in (("terms", "of vocabularies"), ("categories", "of encoders"))
        if held.get(name)
    ]
    if held.get("profiled"):
        described = count_of(held["profiled"], "column")
        lines.append(f"a profile of {described}: quantiles and frequent values")
    return lines


def _trust(description: ModelDescription) -> list[str]:
    """Name the options with which other commands open the model; nothing if it needs none."""
    names = description.trust or []
    return [" ".join(f"--trust {plain(name)}" for name in names)] if names else []


def _shortlists(description: ModelDescription) -> list[str]:
    """Say how often lists hold the right label; nothing if the model makes no lists."""
    told = description.shortlists
    if told is None:
        return []
    coverages = " and ".join(percent(coverage) for coverage in told["coverage"])
    lines = [
        f"coverage {coverages} {COVERED.get(told['by'], plain(told['by']))}, "
        f"by {plain(told['score'])}, {count_of(told['calibration_rows'], 'calibration row')}"
    ]
    if told["labels_together"]:
        lines.append(f"{count_of(told['labels_together'], 'rare label')} calibrated together")
    return lines


def _trials(trials: object) -> list[str]:
    """Say which engines were compared on held-out rows, and how they did."""
    compared = [
        f"{plain(trial['name'])} {trial['score']:.3f}"
        for trial in _as_list(trials)
        if isinstance(trial, dict)
        and isinstance(trial.get("score"), (int, float))
        and "name" in trial
    ]
    return [f"on held-out rows, among {', '.join(compared)}"] if compared else []


def _sections(description: ModelDescription) -> list[tuple[str, list[str]]]:
    n_labels = len(description.labels)
    facts = description.facts
    rows = f" on {facts['rows']} rows of {facts.get('data', '?')}" if "rows" in facts else ""
    versions = ", ".join(f"{name} {number}" for name, number in description.versions.items())
    columns = [
        f"{len(names)} {plain(kind)}: {listed(names)}"
        for kind, names in by_kind(description.columns).items()
    ]
    sections = [
        ("fitted", [plain(f"{description.created}{rows}")]),
        ("target", [_target(description)]),
        ("labels", [f"{n_labels}: {listed([str(label) for label in description.labels])}"]),
        ("columns", columns or ["(not named)"]),
        ("steps", [plain(step) for step in description.steps] or ["(none)"]),
        # Not n_pairs, which needs numpy: this command answers without it.
        ("duels", [f"{comb(n_labels, 2)} by {plain(description.engine)}"]),
        ("chosen", _trials(facts.get("engine_trials"))),
        ("ranking", [plain(f"{description.aggregation}, ties by {description.ties}")]),
        ("shortlists", _shortlists(description)),
        ("holds", _training_data(description)),
        ("needs", _trust(description)),
        ("notes", [plain(note) for note in _as_list(facts.get("notes"))]),
        ("saved with", [plain(versions)]),
    ]
    return [(heading, lines) for heading, lines in sections if lines]
