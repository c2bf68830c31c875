"""``duelrank update``: new rows and labels for a model file, and labels that go."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from duelrank._choices import STREAM
from duelrank.cli._check import read_profile
from duelrank.cli._files import Mistake, check_inputs, check_output, make_folder_of
from duelrank.cli._fit import listed, missing_columns
from duelrank.cli._labels import known_code, known_codes
from duelrank.cli._model import Model, open_model, with_arrays
from duelrank.cli._options import reading_options, trust_option
from duelrank.cli._terminal import count_of, note, plain, say

if TYPE_CHECKING:
    from duelrank.storage import ModelDescription


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data", metavar="[DATA]", required=False)
@click.option(
    "--output", "-o", metavar="MODEL", help="Where to save the new model.  [default: MODEL itself]"
)
@click.option(
    "--target", metavar="COL", help="The column with the labels.  [default: that of the fit]"
)
@click.option(
    "--drop-label",
    "dropped",
    multiple=True,
    metavar="LABEL",
    help="Forget a label with all its rows, before new rows are learned (repeatable).",
)
@trust_option
@reading_options
def update(
    model_file: str,
    data: str | None,
    output: str | None,
    target: str | None,
    dropped: tuple[str, ...],
    trust: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
) -> None:
    """Let a model learn from the new rows of the table DATA, or forget labels.

    The model must be fitted with --updatable. The result is that of a fit of all rows, old and new;
    only the duels of labels with new rows are solved again. Labels that were never seen are added.
    Columns, vocabularies, scales and the penalty stay as they were fitted. The old file is replaced
    when the new one is complete.
    """
    output = output or model_file
    if output == STREAM:
        raise Mistake("--output must be a file: models are not written to standard output.")
    if data is None and not dropped:
        raise click.UsageError("Give a table DATA with new rows, or labels with --drop-label.")
    check_inputs(model_file, data)
    check_output(output, data)
    from duelrank.storage import save

    start = time.perf_counter()
    model, description = open_model(model_file, trust)
    ranker = _ranker_to_update(model_file, model, description, needs_rows=data is not None)
    new = None
    if data is not None:
        new = _read_rows(data, model, description, target, delimiter, encoding)
    before = ranker.classes_.tolist()
    if dropped:
        ranker.drop_labels(_as_known(dropped, ranker))
    known = ranker.classes_.tolist()
    if new is not None:
        ranker.partial_fit(new.X, new.y)
    added = [label for label in ranker.classes_.tolist() if label not in known]
    facts = _new_facts(description, ranker, data, 0 if new is None else len(new.y), added, dropped)
    make_folder_of(output)
    told = {name: kind for name, kind in description.columns.items() if kind is not None}
    profile = read_profile(description, model_file)
    if profile is not None:  # the rows are not there any more that the rest was about
        profile = profile.of_columns()
    target = description.target
    save(model, output, columns=told, target=target, facts=facts, profile=profile)
    if dropped:
        gone = [str(label) for label in before if label not in known]
        say(f"{'dropped':<10} {len(gone):>4}  {listed(gone)}")
    if added:
        say(f"{'new labels':<10} {len(added):>4}  {listed([str(label) for label in added])}")
    seconds = time.perf_counter() - start
    rows = "" if new is None else f" with {count_of(len(new.y), 'row')}"
    say(
        f"Updated the model{rows}, which ranks {len(ranker.classes_)} labels now, in "
        f"{seconds:.2f} s; saved {plain(output)}."
    )


class _NewRows(NamedTuple):
    """Rows as the ranker takes them, and their labels."""

    X: Any
    y: Any


def _ranker_to_update(
    path: str, model: Any, description: ModelDescription, needs_rows: bool
) -> Any:
    """Return the ranker inside a model, or say why the model cannot be updated."""
    from sklearn.pipeline import Pipeline

    from duelrank import DuelRanker

    if description.shortlists is not None or hasattr(model, "predict_shortlist"):
        raise ValueError(
            f"{path} makes shortlists, and their coverage would not hold after an update; fit "
            "anew with --coverage, on all rows."
        )
    if description.learned_from_lists or description.shown:
        raise ValueError(
            f"{path} has learned from lists or choices, and updates take one label a row; fit anew."
        )
    ranker = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(ranker, DuelRanker):
        raise ValueError(
            f"{path} holds a {type(ranker).__name__}, and updates are for a DuelRanker or a "
            "pipeline that ends in one; fit anew."
        )
    if not hasattr(ranker, "partial_fit"):
        raise ValueError(
            f"{path} was fitted with {type(ranker.duels_).__name__}, which cannot be updated; fit "
            "with --updatable."
        )
    if needs_rows and not hasattr(ranker.duels_, "training_rows_"):
        raise ValueError(
            f"{path} keeps no training rows for updates; fit with --updatable, and without "
            "--no-training-rows."
        )
    return ranker


def _read_rows(
    data: str,
    model: Any,
    description: ModelDescription,
    target: str | None,
    delimiter: str | None,
    encoding: str,
) -> _NewRows:
    """Read new rows, transformed as those of the fit were."""
    from duelrank._sklearn import unwrap
    from duelrank.tables import TableError, is_labelled, open_table

    target = target or description.target
    if target is None:
        raise click.UsageError("The model file does not name the column with the labels: --target.")
    with open_table(data, delimiter=delimiter, encoding=encoding) as source:
        if target not in source.columns:
            raise TableError(missing_columns(source, [target]))
        reader = Model(with_arrays(model), description)
        X, labels = reader.read(source, [target])
    column = labels[target]
    told = is_labelled(column)
    if not told.all():
        note(f"{count_of(int((~told).sum()), 'row')} without a label left out.")
    if not told.any():
        raise TableError(f"{plain(target)!r} of {source.name} holds no label.")
    ranker, X = unwrap(reader.model, X)
    codes, written = known_codes(target, column.filter(told), ranker.classes_)
    known = ranker.classes_.tolist()
    y = [
        known[code] if code >= 0 else _new_label(label, known)
        for code, label in zip(codes.tolist(), written, strict=True)
    ]
    return _NewRows(X[told] if not told.all() else X, y)


def _new_label(written: str, known: list[Any]) -> Any:
    """Return a new label, of the type that the known ones have."""
    kind = type(known[0])
    if kind is str:
        return written
    if kind is bool:  # any text is true
        raise ValueError(
            f"the label {plain(written)!r} is neither true nor false, as the labels of the model "
            "are."
        )
    try:
        return kind(written)
    except ValueError as error:
        raise ValueError(
            f"the label {plain(written)!r} is new and no number, as the labels of the model are."
        ) from error


def _as_known(dropped: tuple[str, ...], ranker: Any) -> list[Any]:
    """Return labels to be dropped as the model knows them."""
    codes = [known_code(label, ranker.classes_) for label in dropped]
    unknown = [label for label, code in zip(dropped, codes, strict=True) if code is None]
    labels = ranker.classes_.tolist()
    if unknown:
        raise ValueError(
            f"--drop-label {plain(unknown[0])} is no label of the model; it has "
            f"{listed([str(label) for label in labels])}."
        )
    known = list(dict.fromkeys(labels[code] for code in codes if code is not None))
    if len(labels) - len(known) < 2:
        raise ValueError("--drop-label must leave at least two labels.")
    return known


def _new_facts(
    description: ModelDescription,
    ranker: Any,
    data: str | None,
    n_rows: int,
    added: list[Any],
    dropped: tuple[str, ...],
) -> dict[str, Any]:
    """Return what the new file says about itself: its rows, and a note on the update."""
    facts = copy.deepcopy(description.facts)
    learned = getattr(ranker.duels_, "training_rows_", None)
    if learned is not None:
        facts["rows"] = len(learned["codes"])
    else:
        facts.pop("rows", None)
    changes = [f"without {', '.join(dropped)}"] if dropped else []
    if data is not None:
        new = f", new labels {', '.join(map(str, added))}" if added else ""
        changes.append(f"with {n_rows} rows of {data}{new}")
    notes = facts.get("notes")
    notes = list(notes) if isinstance(notes, list) else []
    facts["notes"] = [*notes, f"updated {' and '.join(changes)}"]
    return facts
