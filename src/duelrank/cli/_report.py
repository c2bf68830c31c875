"""``duelrank report``: a page about a model and some data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duelrank.cli._check import labels_of, read_profile
from duelrank.cli._files import check_inputs, check_output, make_folder_of
from duelrank.cli._labels import known_codes
from duelrank.cli._model import Model, load_model
from duelrank.cli._options import reading_options, trust_option
from duelrank.cli._shortlists import without_groups
from duelrank.cli._terminal import count_of, note, plain, progress, say

if TYPE_CHECKING:
    import pyarrow as pa

    from duelrank.drift import Check


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data", metavar="DATA")
@click.option("--output", "-o", required=True, metavar="HTML", help="Where to write the page.")
@click.option("--title", help="Heading of the page.")
@click.option("--target", metavar="COL", help="Column with the labels.  [default: as in training]")
@click.option("--names", metavar="COL", help="Column with names for the rows.")
@trust_option
@reading_options
def report(
    model_file: str,
    data: str,
    output: str,
    title: str | None,
    target: str | None,
    names: str | None,
    trust: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
) -> None:
    """Write a page about a model and the rows of the table DATA.

    One HTML file that needs no network: accuracies if DATA has labels, the hardest pairs of labels,
    cycles, lists if the model makes some, whether DATA is like the training data, and every row
    with its ranking. Rows that the model has not seen tell more. If rows have lists of labels, the
    first label counts.
    """
    if not output.lower().endswith((".html", ".htm")):
        raise click.UsageError(f"--output {output} must end in .html.")
    check_inputs(model_file, data)
    check_output(output, model_file, data)
    model = load_model(model_file, trust)
    from duelrank.report import write_report
    from duelrank.tables import TableError, open_table, to_python

    with open_table(data, delimiter=delimiter, encoding=encoding) as source:
        asked = target or model.description.target
        others = [] if asked is None or (asked not in source.columns and not target) else [asked]
        X, table = model.read(source, [*others, *([names] if names else [])])
        name = source.name
    if X.shape[0] == 0:
        raise TableError(f"{name} has no rows.")
    made = _checked(model, model_file, X, None if not others else asked, table)
    y = rows = None
    if others:
        assert asked is not None
        rows, y = _labelled_rows(model, name, asked, table[asked])
        if len(rows) < X.shape[0]:
            X = X[rows] if hasattr(X, "dtype") else X.take(rows)
            table = table.take(rows)
    else:
        note("no column with labels, so the page has no accuracies; --target names one.")
    row_names = list(map(str, to_python(names, table[names]))) if names else None
    make_folder_of(output)
    with progress("ranking", X.shape[0]) as advance:
        write_report(
            without_groups(model.model),
            X,
            y,
            output,
            title=title,
            names=row_names,
            row_numbers=rows,
            check=made,
            on_rows=advance,
        )
    say(f"Wrote {plain(output)}.")


def _checked(
    model: Model, model_file: str, X: Any, target: str | None, table: pa.Table
) -> Check | None:
    """Compare the rows with those of training, if the model file has a profile of these."""
    profile = read_profile(model.description, model_file)
    if profile is None:
        return None
    from duelrank.drift import compare

    y = None if target is None else labels_of(target, table[target], model)
    return compare(profile, without_groups(model.model), X, y)


def _labelled_rows(
    model: Model, name: str, target: str, column: pa.ChunkedArray
) -> tuple[Any, Any]:
    """Return the numbers of the rows with labels that the model knows, and these labels."""
    import numpy as np

    from duelrank.preprocessing import first_labels
    from duelrank.tables import TableError, is_labelled

    column = first_labels(column, target)
    rows = np.flatnonzero(is_labelled(column))
    if len(rows) == 0:
        raise TableError(f"{name} has no row with a label in {target!r}.")
    if len(rows) < len(column):
        note(f"{count_of(len(column) - len(rows), 'row')} without a label left out.")
    classes = model.model.classes_
    codes, written = known_codes(target, column.take(rows), classes)
    known = codes >= 0
    if not known.all():
        example = plain(written[int(np.argmin(known))])
        if not known.any():
            raise TableError(f"{target!r} holds no label that the model knows, but {example!r}.")
        note(
            f"{count_of(int((~known).sum()), 'row')} left out, with labels that the model does "
            f"not know, such as {example!r}."
        )
    return rows[known], classes[codes[known]]
