"""``duelrank rank``: from a model file and a table to rankings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from duelrank._choices import COMPRESSED_ENDINGS, JSON_LINES_ENDINGS, STREAM
from duelrank.cli._files import check_inputs, check_table_output, make_folder_of
from duelrank.cli._model import Model, load_model
from duelrank.cli._options import reading_options, trust_option
from duelrank.cli._shortlists import ListMaker, list_maker
from duelrank.cli._terminal import count_of, is_watched, note, plain, progress, say

if TYPE_CHECKING:
    import pyarrow as pa

    from duelrank.tables import Rankings

SHAPES = ("wide", "long", "jsonl")
TOP = 5  # labels per row, if a model makes no lists
WIDEST_LIST = 10  # places of lists that have a column, if the model has no limit
DECIMALS = 6  # of probabilities in text; Parquet keeps all
SAMPLE_BYTES = 2**20  # the part of a CSV file that tells about how many rows there are


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data", metavar="DATA")
@click.option(
    "--top",
    type=click.IntRange(1),
    help="Labels per row.  [default: 5, or as many as are in the list, if the model makes lists]",
)
@click.option(
    "--output",
    "-o",
    default=STREAM,
    metavar="OUT",
    help="CSV, TSV, Parquet, JSON lines.  [default: -]",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(SHAPES),
    help="One column per place, one row per place, or JSON lines.  [default: wide]",
)
@click.option("--keep", multiple=True, metavar="COLS", help="Columns of DATA to keep: a,b or all.")
@click.option("--no-probabilities", is_flag=True, help="Write labels only, which is faster.")
@click.option(
    "--batch", type=click.IntRange(1), default=10_000, show_default=True, help="Rows at a time."
)
@trust_option
@reading_options
def rank(
    model_file: str,
    data: str,
    top: int | None,
    output: str,
    shape: str | None,
    keep: tuple[str, ...],
    no_probabilities: bool,
    batch: int,
    trust: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
) -> None:
    """Rank the labels of every row of the table DATA.

    Data of any size is read, ranked and written in batches. An old output file is replaced when
    the new one is complete. A model that was fitted with --coverage makes a list for every row, as
    long as it has to be; --top writes so many labels of every row instead.
    """
    check_table_output(output, model_file, data)
    check_inputs(model_file, data)
    from duelrank.tables import open_table, output_ending, writing

    ending = output_ending(output, ".jsonl" if shape == "jsonl" else ".csv")
    shape = _check_shape(shape, ending)
    model = load_model(model_file, trust)
    with_probabilities = not no_probabilities and _has_probabilities(model)
    lists = list_maker(model) if top is None else None
    most = top or TOP if lists is None else lists.longest or WIDEST_LIST
    places = min(most, len(model.model.classes_))
    decimals = None if ending == ".parquet" else DECIMALS
    start = time.perf_counter()
    n_rows = n_cut = 0
    with (
        open_table(data, delimiter=delimiter, encoding=encoding) as source,
        progress("ranking", _total(data, source), exact=not source.as_text) as advance,
    ):
        kept = _kept_columns(keep, source.columns)
        _check_kept(kept, shape, places, lists is not None)
        batches = ranked_batches(model, source, batch, kept, places, with_probabilities, lists)
        make_folder_of(output)
        default = ".jsonl" if shape == "jsonl" else ".csv"
        with writing(output, default=default, delimiter=delimiter) as write:
            for ranked in batches:
                write(_SHAPES[shape](ranked.rounded(decimals)))
                n_rows += len(ranked.rankings.labels)
                n_cut += ranked.n_longer_than(places)
                advance(len(ranked.rankings.labels))
    if n_cut and shape == "wide":
        were = "is" if n_cut == 1 else "are"
        note(
            f"{count_of(n_cut, 'list')} {were} longer than the {places} columns; "
            "--format long or jsonl writes all labels."
        )
    if output != STREAM:
        seconds = time.perf_counter() - start
        say(f"Ranked {n_rows} rows in {seconds:.2f} s; wrote {plain(output)}.")


@dataclass(frozen=True)
class _Batch:
    """Rankings of a batch.

    The number of rows before it, the columns to keep, the rankings, how many places have columns in
    the wide form; and how many labels of every row are in its list, if there are lists.
    """

    before: int
    kept: pa.Table
    rankings: Rankings
    places: int
    lengths: Any = None

    def n_longer_than(self, places: int) -> int:
        """Count the lists with more labels than that."""
        return 0 if self.lengths is None else int((self.lengths > places).sum())

    def n_labels(self) -> Any:
        """Return how many labels every row has."""
        import numpy as np

        n_rows, places = self.rankings.labels.shape
        return np.full(n_rows, places) if self.lengths is None else self.lengths

    def rounded(self, decimals: int | None) -> _Batch:
        """Round the probabilities; None keeps them."""
        probabilities = self.rankings.probabilities
        if probabilities is None or decimals is None:
            return self
        rankings = self.rankings._replace(probabilities=probabilities.round(decimals))
        return replace(self, rankings=rankings)


def ranked_batches(
    model: Model,
    source: Any,
    rows: int,
    keep: list[str],
    places: int,
    with_probabilities: bool,
    lists: ListMaker | None = None,
) -> Iterator[_Batch]:
    """Read and rank a table, so many rows at a time; with lists, if there is what makes them."""
    from duelrank.tables import rank_points

    for points in model.points(source, rows, keep):
        if lists is None:
            rankings, lengths = rank_points(model.model, points.X, places, with_probabilities), None
        else:
            rankings, lengths = lists.lists(points.X, places, with_probabilities)
        yield _Batch(points.before, points.kept, rankings, places, lengths)


def _total(data: str, source: Any) -> int | None:
    """Return how many rows there are, or about how many, if that is cheap to find out."""
    if not is_watched() or data == STREAM or not os.path.isfile(data):
        return None
    if not source.as_text:
        from pyarrow.parquet import read_metadata

        return int(read_metadata(data).num_rows)
    if data.endswith(COMPRESSED_ENDINGS):
        return None
    with open(data, "rb") as file:
        sample = file.read(SAMPLE_BYTES)
    return os.path.getsize(data) * sample.count(b"\n") // max(len(sample), 1) or None


def _check_shape(shape: str | None, ending: str) -> str:
    is_lines = ending in JSON_LINES_ENDINGS
    if shape is None:
        return "jsonl" if is_lines else "wide"
    if (shape == "jsonl") != is_lines:
        raise click.UsageError(
            f"--format {shape} cannot be written to a {ending} file"
            + ("; JSON lines end in .jsonl." if shape == "jsonl" else ".")
        )
    return shape


def _has_probabilities(model: Model) -> bool:
    if hasattr(model.model, "predict_proba"):
        return True
    note("the duels of this model know no probabilities, so none are written.")
    return False


def _kept_columns(keep: tuple[str, ...], columns: list[str]) -> list[str]:
    """Read column names off --keep: single ones, lists with commas, or "all"."""
    kept: list[str] = []
    for asked in keep:
        if asked in columns:
            kept.append(asked)
        else:
            kept += columns if asked == "all" else [name.strip() for name in asked.split(",")]
    return list(dict.fromkeys(kept))


def _check_kept(kept: list[str], shape: str, places: int, has_lists: bool) -> None:
    ours = {"row", "ranking"} if shape == "jsonl" else {"row", "place", "label", "probability"}
    if shape == "wide":
        ours = {f"{what}_{p}" for what in ("label", "probability") for p in range(1, places + 1)}
        ours |= {"length"} if has_lists else set()
    clashing = [name for name in kept if name in ours]
    if clashing:
        raise click.UsageError(f"--keep {clashing[0]}: the output has a column of that name.")


def _wide(batch: _Batch) -> pa.Table:
    import pyarrow as pa

    from duelrank.tables import wide_columns

    if batch.lengths is None:
        return pa.table(_columns_of(batch.kept) | wide_columns(batch.rankings))
    import numpy as np

    places = slice(0, batch.places)
    labels, probabilities = batch.rankings
    cut = batch.rankings._replace(
        labels=labels[:, places],
        probabilities=None if probabilities is None else probabilities[:, places],
    )
    columns = wide_columns(cut)
    for place in range(1, batch.places + 1):
        # Behind the end of a list, there is no row to take a cell from.
        taken = pa.array(np.arange(len(labels)), mask=batch.lengths < place)
        for name in (f"label_{place}", f"probability_{place}"):
            if name in columns:
                columns[name] = columns[name].take(taken)
    return pa.table(_columns_of(batch.kept) | {"length": pa.array(batch.lengths)} | columns)


def _long(batch: _Batch) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    n_labels = batch.n_labels()
    rows = np.repeat(np.arange(len(n_labels)), n_labels)
    columns = {"row": pa.array(rows + batch.before)}
    columns |= _columns_of(batch.kept.take(pa.array(rows)))
    before = np.cumsum(n_labels) - n_labels
    columns["place"] = pa.array(np.arange(len(rows)) - before[rows] + 1)
    return pa.table(columns | _one_below_the_other(batch))


def _json_lines(batch: _Batch) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    n_labels = batch.n_labels()
    parts = _one_below_the_other(batch)
    items = pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
    ends = pa.array(np.concatenate([[0], np.cumsum(n_labels)]), pa.int32())
    return pa.table(
        {
            "row": pa.array(np.arange(len(n_labels)) + batch.before),
            **_columns_of(batch.kept),
            "ranking": pa.ListArray.from_arrays(ends, items),
        }
    )


def _one_below_the_other(batch: _Batch) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    from duelrank.tables import label_array

    labels, probabilities = batch.rankings
    written = np.arange(labels.shape[1]) < batch.n_labels()[:, np.newaxis]
    columns = {"label": label_array(labels[written])}
    if probabilities is not None:
        columns["probability"] = pa.array(probabilities[written])
    return columns


def _columns_of(table: pa.Table) -> dict[str, Any]:
    return {name: table[name] for name in table.column_names}


_SHAPES = {"wide": _wide, "long": _long, "jsonl": _json_lines}
