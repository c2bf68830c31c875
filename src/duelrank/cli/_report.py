"""``duelrank report``: a page about a model and some data."""

from __future__ import annotations

import click

from duelrank.cli._files import check_inputs, check_output
from duelrank.cli._model import load_model
from duelrank.cli._options import reading_options, trust_option
from duelrank.cli._terminal import note, plain, say


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
    cycles, and every row with its ranking. Rows that the model has not seen tell more.
    """
    if not output.lower().endswith((".html", ".htm")):
        raise click.UsageError(f"--output {output} must end in .html.")
    check_inputs(model_file, data)
    check_output(output)
    model = load_model(model_file, trust)
    from duelrank.report import write_report
    from duelrank.tables import is_labelled, open_table

    with open_table(data, delimiter=delimiter, encoding=encoding) as source:
        asked = target or model.description.target
        others = [] if asked is None or (asked not in source.columns and not target) else [asked]
        X, table = model.read(source, [*others, *([names] if names else [])])
    y = None
    if others:
        assert asked is not None
        labelled = is_labelled(table[asked])
        if not labelled.all():
            count = int((~labelled).sum())
            note(f"{count} row{'s' * (count > 1)} without a label left out.")
            X = X[labelled] if hasattr(X, "dtype") else X.filter(labelled)
            table = table.filter(labelled)
        y = model.labels(asked, table[asked])
    else:
        note("no column with labels, so the page has no accuracies.")
    row_names = [str(name) for name in table[names].to_pylist()] if names else None
    write_report(model.model, X, y, output, title=title, names=row_names)
    say(f"Wrote {plain(output)}.")
