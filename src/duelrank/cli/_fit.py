"""``duelrank fit``: from a table to a model file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from duelrank._choices import STREAM
from duelrank.cli._files import Mistake, check_inputs, check_output, make_folder_of
from duelrank.cli._options import (
    TARGET_HELP,
    column_options,
    coverage_by_option,
    coverage_option,
    make_ranker,
    profile_option,
    ranker_options,
    reading_options,
    shown_option,
    training_rows_option,
    updatable_option,
)
from duelrank.cli._shortlists import (
    CALIBRATION_SHARE,
    COVERED,
    check_options,
    check_rows,
    percent,
)
from duelrank.cli._terminal import fitting, note, plain, say

if TYPE_CHECKING:
    from duelrank.preprocessing import TrainingData


@click.command()
@click.argument("data", metavar="DATA")
@click.option("--target", "targets", multiple=True, required=True, metavar="COL", help=TARGET_HELP)
@shown_option
@click.option("--output", "-o", required=True, metavar="MODEL", help="Where to save the model.")
@coverage_option
@coverage_by_option
@ranker_options
@column_options
@training_rows_option
@updatable_option
@profile_option
@reading_options
def fit(
    data: str,
    targets: tuple[str, ...],
    shown: tuple[str, ...],
    output: str,
    coverage: float | None,
    coverage_by: str | None,
    ignore: tuple[str, ...],
    categorical: tuple[str, ...],
    text: tuple[str, ...],
    no_training_rows: bool,
    updatable: bool,
    no_profile: bool,
    delimiter: str | None,
    encoding: str,
    **ranker: Any,
) -> None:
    """Fit a ranker on the table DATA and save it.

    Text becomes TF-IDF of its words and characters; numbers get their median where they are
    missing, and the standard scale; categories become one column per value; dates become days since
    1970. Labels stay as they are written. With --shown, nothing is assumed about labels that were
    not shown. With --coverage, `rank` writes a list for every row, as long as it has to be. The
    file holds a profile of the training rows, so that `check` can tell whether new ones are alike.
    """
    if output == STREAM:
        raise Mistake("--output must be a file: models are not written to standard output.")
    if coverage_by is not None and coverage is None:
        raise click.UsageError("--coverage-by needs --coverage.")
    check_options(coverage, targets, shown)
    if updatable:
        _check_updatable(coverage, targets, shown, no_training_rows)
    check_inputs(data)
    check_output(output, data)
    from sklearn.pipeline import Pipeline

    from duelrank._pairs import n_pairs
    from duelrank._sklearn import predictor_inside
    from duelrank.storage import save

    duels = make_ranker(**ranker, updatable=updatable)
    columns = ColumnRoles(targets, shown, ignore, categorical, text)
    training = read_training_data(data, columns, delimiter, encoding)
    _check_labels(training, targets)
    check_takes_text(ranker["engine"], training)
    if updatable and training.lists is not None:
        raise click.UsageError("--updatable needs one label a row, not lists.")
    check_rows(coverage, training, len(training.y))
    learn_all_labels(duels, training)
    model: Any = Pipeline([("columns", preprocessing_of(training)), ("ranker", duels)])
    if coverage is not None:
        model = _with_lists(model, coverage, coverage_by, ranker["seed"])
    start = time.perf_counter()
    _fit_in_sight(model, training)
    seconds = time.perf_counter() - start
    chosen = _say_what_was_chosen(predictor_inside(model).duels_)
    if coverage is not None:
        kept = f"rows kept for calibration, coverage {percent(coverage)} {COVERED[model.by]}"
        say(f"{'shortlists':<10} {model.n_calibration_:>4}  {kept}")
    profile = None if no_profile else _profile(model, training, ranker["seed"])
    rows, labels = len(training.y), model.classes_
    facts = {
        "rows": rows,
        "data": data,
        "left_out": [*ignore, *training.left_out],
        "notes": training.notes,
        **chosen,
    }
    if shown:
        facts["shown"] = list(shown)
    make_folder_of(output)
    target = targets[0] if training.lists is None else targets
    save(
        model,
        output,
        columns=training.kinds,
        target=target,
        facts=facts,
        training_rows=not no_training_rows,
        profile=profile,
    )
    lists = "" if coverage is None else " and their lists"
    say(
        f"Fitted {n_pairs(len(labels))} duels between {len(labels)} labels{lists} on "
        f"{rows} rows in {seconds:.2f} s; saved {plain(output)}."
    )


def _check_updatable(
    coverage: float | None, targets: tuple[str, ...], shown: tuple[str, ...], no_rows: bool
) -> None:
    """Raise for options that an updatable model cannot have."""
    if coverage is not None:
        raise click.UsageError(
            "--updatable and --coverage exclude each other: lists would not hold what they promise "
            "after an update."
        )
    if len(targets) > 1 or shown:
        raise click.UsageError("--updatable needs one label a row, not lists or choices.")
    if no_rows:
        raise click.UsageError("--updatable needs the training rows: leave out --no-training-rows.")


def _profile(model: Any, training: TrainingData, seed: int) -> Any:
    """Describe the training rows, for `check`."""
    from duelrank.drift import Profile

    y = training.feedback
    return Profile.of(model, training.X, y, kinds=training.kinds, random_state=seed)


def _with_lists(model: Any, coverage: float, by: str | None, seed: int) -> Any:
    from duelrank.shortlists import Shortlister

    return Shortlister(
        model,
        coverage,
        by=by or "all",
        calibration_size=CALIBRATION_SHARE,
        random_state=seed,
    )


WITHOUT_TEXT = ("stacked", "stumps", "forest", "boosting")  # engines of dense columns
MANY_COLUMNS = 1_000  # a model of more takes them by place when it is fitted, which is faster
CLOSE = 0.7  # how alike names are that may have been mistaken for each other


class ColumnRoles(NamedTuple):
    """What the options say about columns."""

    target: tuple[str, ...]
    shown: tuple[str, ...]
    ignore: tuple[str, ...]
    categorical: tuple[str, ...]
    text: tuple[str, ...]

    def check(self) -> None:
        """Raise if two options contradict each other."""
        for option, columns in (("--target", self.target), ("--shown", self.shown)):
            twice = [name for name in columns if columns.count(name) > 1]
            if twice:
                raise click.UsageError(f"{option} {twice[0]} is there more than once.")
        if self.shown and len(self.target) > 1:
            raise click.UsageError(
                "--shown needs a single --target, the column with the label that was picked; "
                f"got {len(self.target)}."
            )
        if self.target[0] in self.shown:
            raise click.UsageError(f"--shown {self.target[0]} is the --target as well.")
        for option, columns in (("--text", self.text), ("--categorical", self.categorical)):
            labels = [name for name in columns if name in (*self.target, *self.shown)]
            if labels:
                raise click.UsageError(f"{option} {labels[0]} holds labels, not a feature.")
        both = [name for name in self.text if name in self.categorical]
        if both:
            raise click.UsageError(f"--text {both[0]} is --categorical as well.")


def read_training_data(
    data: str, columns: ColumnRoles, delimiter: str | None, encoding: str
) -> TrainingData:
    """Read a table to learn from, and say what kind its columns are."""
    columns.check()
    from duelrank.preprocessing import training_data
    from duelrank.tables import TableError, open_table

    with open_table(data, delimiter=delimiter, encoding=encoding) as source:
        missing = [name for role in columns for name in role if name not in source.columns]
        if missing:
            raise TableError(missing_columns(source, missing))
        options = columns._asdict()
        targets, shown = options.pop("target"), columns.shown
        training = training_data(source.read(), targets, as_text=source.as_text, **options)
    for kind, names in by_kind(training.kinds).items():
        say(f"{kind:<10} {len(names):>4}  {listed(names)}")
    if training.lists is not None:
        say(f"{'lists':<10} {max(map(len, training.lists)):>4}  {listed(list(targets))}")
    if training.shown is not None:
        say(f"{'shown':<10} {max(map(len, training.shown)):>4}  {listed(list(shown))}")
    for remark in training.notes:
        note(f"{remark}.")
    return training


def preprocessing_of(training: TrainingData) -> Any:
    """Make the transformer of the columns to learn from."""
    from duelrank.preprocessing import make_preprocessing

    return make_preprocessing(training.kinds, by_place=len(training.kinds) > MANY_COLUMNS)


def check_takes_text(engine: str | None, training: TrainingData) -> None:
    """Raise if there is text, of which an engine cannot take the many sparse columns."""
    texts = [name for name, kind in training.kinds.items() if kind == "text"]
    if texts and engine in WITHOUT_TEXT:
        raise click.UsageError(
            f"--engine {engine} takes no text, which {plain(texts[0])!r} holds; --ignore it, or "
            "take another engine."
        )


def learn_all_labels(ranker: Any, training: TrainingData) -> None:
    """Tell a ranker of lists or choices all labels, and where those are that a row leaves out."""
    if training.lists is not None:
        ranker.set_params(classes=training.classes, unplaced="behind")
    if training.shown is not None:
        ranker.set_params(classes=training.classes, unplaced="unknown")


def missing_columns(source: Any, missing: list[str]) -> str:
    """Say which columns a table lacks, and what may be the reason."""
    names = ", ".join(repr(plain(name)) for name in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    plural = "s" * (len(missing) > 1)
    sentence = f"{source.name} has no column{plural} {names}{more}; "
    if len(source.columns) == 1:
        return sentence + "it has a single column, so try another --delimiter."
    close = get_close_matches(missing[0], source.columns, 1, CLOSE)
    if close:
        return sentence + f"did you mean {plain(close[0])!r}?"
    return sentence + f"it has {listed(source.columns)}."


def by_kind(kinds: Mapping[str, str | None]) -> dict[str, list[str]]:
    """List columns by their kind."""
    listed_by: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        listed_by.setdefault(kind or "column", []).append(name)
    return listed_by


def listed(names: list[str], width: int = 62) -> str:
    """List names as far as they fit on a line."""
    shown = [plain(name) for name in names[:width]]
    count = len(shown)
    while count > 1 and len(_with_rest(shown[:count], len(names))) > width:
        count -= 1
    return _with_rest(shown[:count], len(names))


def _with_rest(names: list[str], total: int) -> str:
    rest = f" and {total - len(names)} more" if len(names) < total else ""
    return ", ".join(names) + rest


def _check_labels(training: TrainingData, targets: tuple[str, ...]) -> None:
    if len(training.classes) < 2:
        raise click.ClickException(
            f"{targets[0]!r} holds the single label {plain(training.classes[0])!r}; ranking needs "
            "two."
        )


def _fit_in_sight(model: Any, training: TrainingData) -> None:
    """Fit, and show the progress on a terminal."""
    with fitting("fitting"):
        model.fit(training.X, training.feedback)


def _say_what_was_chosen(engine: Any) -> dict[str, Any]:
    """Say which engine was chosen, and how others did; return the same as a fact."""
    from duelrank.duels import AutoDuels

    if not isinstance(engine, AutoDuels):
        return {}
    trials: Any = engine.trials_
    score_of = {trial["name"]: trial["score"] for trial in trials}
    own = score_of.pop(engine.chosen_)
    others = ", ".join(f"{name} {score:.3f}" for name, score in score_of.items())
    say(f"{'engine':<10}       {plain(engine.chosen_)}: {_on_one_line(engine.engine_)}")
    say(
        f"{'':<10}       {engine.score_name_}, on {engine.n_held_out_} held-out rows: "
        f"{own:.3f}" + (f" ({others})" if others else "")
    )
    if own < max(score_of.values(), default=own):
        say(f"{'':<10}       within one standard error of the best, and preferred to it")
    return {"engine_trials": engine.trials_}


def _on_one_line(estimator: Any) -> str:
    return " ".join(str(estimator).split())
