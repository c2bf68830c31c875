"""``duelrank check``: whether new rows are like those that a model was fitted on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from duelrank.cli._files import check_inputs
from duelrank.cli._labels import known_codes
from duelrank.cli._model import Model, load_model
from duelrank.cli._options import reading_options, trust_option
from duelrank.cli._terminal import count_of, note, plain, show, table

if TYPE_CHECKING:
    import pyarrow as pa

    from duelrank.drift import Check, Finding, Profile
    from duelrank.storage import ModelDescription
    from duelrank.tables import Source

DRIFTED = 3  # the exit code of --fail-on-drift
ROWS_SHOWN, OTHERS_SHOWN, UNSEEN_SHOWN = 5, 6, 5
WIDEST_NAME = 24  # characters of the name of a column, in a table
SAMPLE = 100  # cells that tell whether a column holds something else altogether
NOT_THERE = (
    "{} has no profile of its training rows, so nothing can be compared; fit the model again with "
    "this version of duelrank, and without --no-profile."
)


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data", metavar="DATA")
@click.option("--target", metavar="COL", help="Column with the labels.  [default: as in training]")
@click.option("--json", "as_json", is_flag=True, help="Write everything as JSON.")
@click.option("--all", "everything", is_flag=True, help="Show also what did not change.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="How often a check raises an alarm, if nothing changed.",
)
@click.option("--fail-on-drift", is_flag=True, help=f"Exit with {DRIFTED} if anything changed.")
@trust_option
@reading_options
def check(
    model_file: str,
    data: str,
    target: str | None,
    as_json: bool,
    everything: bool,
    level: float,
    fail_on_drift: bool,
    trust: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
) -> None:
    """Tell whether the rows of the table DATA are like those that a model was fitted on.

    Columns, labels if DATA has them, rankings and lists are compared with the profile that `fit`
    has stored in the model file; rows unlike training are named. If nothing changed, an alarm is
    raised in one of twenty checks (--level); changes of less than 5% of the rows raise none, nor
    do values never seen in less than 1%.
    """
    check_inputs(model_file, data)
    model = load_model(model_file, trust)
    profile = read_profile(model.description, model_file)
    if profile is None:
        raise click.ClickException(NOT_THERE.format(plain(model_file)))
    from duelrank.drift import compare
    from duelrank.tables import TableError, open_table

    with open_table(data, delimiter=delimiter, encoding=encoding) as source:
        if target is not None and target not in source.columns:
            raise TableError(f"{source.name} has no column {plain(target)!r}.")
        asked = target or model.description.target
        asked = asked if asked in source.columns else None
        rows = source.read()
    if len(rows) == 0:
        raise TableError(f"{source.name} has no rows.")
    X, unreadable = _readable(model, source, rows, profile)
    y = None if asked is None else labels_of(asked, rows[asked], model)
    made = compare(profile, model.model, X, y, level=level, unreadable=unreadable)
    if as_json:
        json.dump(made.to_dict(), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
        sys.stdout.write("\n")
    else:
        _show(made, everything)
        _note_others(model, source, asked)
        if asked is None and profile.label_counts:
            note("labels were not compared, because the table has none (--target names them).")
    if fail_on_drift and made.drifted:
        click.get_current_context().exit(DRIFTED)


def read_profile(description: ModelDescription, path: str) -> Profile | None:
    """Return the profile in a model file; None if there is none."""
    if description.profile is None:
        return None
    from duelrank.drift import Profile
    from duelrank.storage import ModelFileError

    try:
        return Profile.from_dict(description.profile)
    except ValueError as error:
        raise ModelFileError(f"{plain(path)} is damaged: {error}") from error


def labels_of(target: str, column: pa.ChunkedArray, model: Model) -> Any:
    """Return labels as the model writes them, unknown ones as they are written, and None."""
    import numpy as np

    from duelrank.preprocessing import first_labels
    from duelrank.tables import is_labelled

    column = first_labels(column, target)
    rows = np.flatnonzero(is_labelled(column))
    y = np.full(len(column), None, dtype=object)
    if len(rows) == 0:
        note(f"{target!r} holds no labels.")
        return None
    codes, written = known_codes(target, column.take(rows), model.model.classes_)
    known = model.model.classes_.tolist()
    for row, code, label in zip(rows.tolist(), codes.tolist(), written, strict=True):
        y[row] = known[code] if code >= 0 else label
    return y


def _readable(
    model: Model, source: Source, rows: pa.Table, profile: Profile
) -> tuple[Any, dict[str, str]]:
    """Return the columns that can be read as in training, and what is wrong with the others.

    Single cells that hold something else are taken for missing.
    """
    if not model.description.columns or model.takes_texts:
        # Fitted on an array or on texts: columns have no names to look for.
        names = model.columns_in(source)
        kind = "text" if model.takes_texts else "number"
        return model.features(rows, dict.fromkeys(names, kind)), {}
    import pyarrow as pa

    from duelrank.tables import TableError, features

    kinds = {name: profile.columns[name].kind for name in profile.columns}
    kinds |= {name: kind for name, kind in model.description.columns.items() if kind}
    there = set(rows.column_names)
    kinds = {name: kind for name, kind in kinds.items() if name in there}
    try:
        return features(rows, kinds), {}
    except TableError:  # of some column, which is looked for below
        columns, unreadable = {}, {}
    for name, kind in kinds.items():
        cells, wrong = _cells(name, rows[name], kind)
        if cells is None:
            unreadable[name] = wrong or "other cells"
            continue
        if wrong:
            note(f"column {plain(name)!r} should hold {kind}s; taken for missing: {plain(wrong)}.")
        columns[name] = cells
    return pa.table(columns), unreadable


def _cells(name: str, column: pa.ChunkedArray, kind: str) -> tuple[Any, str | None]:
    """Convert a column, cell by cell where it has to be; None if nothing can be converted."""
    import pyarrow as pa

    from duelrank.tables import TableError, features

    def convert(cells: pa.ChunkedArray) -> Any:
        try:
            return features(pa.table({name: cells}), {name: kind})[name]
        except TableError:
            return None

    converted = convert(column)
    if converted is not None:
        return converted, None
    if not pa.types.is_string(column.type):
        return None, str(column.type)
    sample = column.slice(0, SAMPLE)
    if all(convert(sample.slice(row, 1)) is None for row in range(len(sample))):
        known = sample.drop_null()
        return None, f"cells such as {plain(known[0].as_py())!r}" if len(known) else "nothing"
    good: list[Any] = []
    bad: list[str] = []
    waiting = [column]
    while waiting:
        cells = waiting.pop()
        converted = convert(cells)
        if converted is not None:
            good += converted.to_pylist()
        elif len(cells) == 1:
            good.append(None)
            bad.append(str(cells[0].as_py()))
        else:
            half = len(cells) // 2
            waiting += [cells.slice(half), cells.slice(0, half)]
    examples = ", ".join(repr(text) for text in list(dict.fromkeys(bad))[:3])
    whole = pa.chunked_array([pa.array(good, convert(column.slice(0, 0)).type)])
    return whole, f"{count_of(len(bad), 'cell')}, such as {examples}"


def _note_others(model: Model, source: Source, target: str | None) -> None:
    """Name the columns that training did not have."""
    if not model.description.columns:
        return
    others = model.unknown_in(source, [target])
    if others:
        from duelrank.cli._fit import listed

        note(f"not known to the model and not compared: {listed(others)}.")


def _show(made: Check, everything: bool) -> None:
    show(plain(made.summary))
    alarms = made.alarms
    others = [finding for finding in made.findings if not finding.alarm]
    if alarms or everything:
        show("")
        show(_finding_table([*alarms, *(others if everything else [])]))
    if others and not everything:
        show("")
        names = [plain(finding.name) for finding in others]
        more = f" and {len(names) - OTHERS_SHOWN} more" if len(names) > OTHERS_SHOWN else ""
        show(f"As in training: {', '.join(names[:OTHERS_SHOWN])}{more} (--all shows them).")
    if made.unseen_values:
        show("")
        show("Values that no training row had, and their rows:")
        show(_listing((name, _some_values(v)) for name, v in made.unseen_values.items()))
    if made.unusual_rows:
        show("")
        finding = next(f for f in made.findings if f.part == "row")
        show(
            f"{made.n_unlike:,} of {made.n_rows:,} rows ({finding.new}) are unlike training, where "
            f"{finding.training} are unlike the others:"
        )
        shown = made.unusual_rows[:ROWS_SHOWN]
        show(_listing((f"row {u.row}", "; ".join(u.reasons)) for u in shown))
    for remark in made.notes:
        note(f"{remark}.")


def _some_values(values: dict[str, int]) -> str:
    some = [f"{value!r} ({n:,})" for value, n in list(values.items())[:UNSEEN_SHOWN]]
    more = f" and {len(values) - UNSEEN_SHOWN} more" if len(values) > UNSEEN_SHOWN else ""
    return ", ".join(some) + more


def _listing(lines: Iterable[tuple[str, str]]) -> Any:
    from rich.padding import Padding
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, words in lines:
        grid.add_row(plain(name), plain(words))
    return Padding(grid, (0, 0, 0, 2))


def _finding_table(findings: list[Finding]) -> Any:
    texts, numbers = ("what", "how", "training", "new"), ("moved", "chance")
    made = table([*((text, "left") for text in texts), *((number, "right") for number in numbers)])
    for column in (made.columns[0], *made.columns[-2:]):
        column.no_wrap = True
    made.columns[0].max_width = WIDEST_NAME
    for finding in findings:
        made.add_row(
            plain(finding.name),
            plain(finding.told),
            plain(finding.training),
            plain(finding.new),
            f"{finding.change:.0%}",
            finding.chance,
        )
    return made
