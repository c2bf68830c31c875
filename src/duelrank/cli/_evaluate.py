"""``duelrank evaluate``: duels and baselines side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from duelrank._choices import BASELINES, STREAM
from duelrank.cli._files import check_figure, check_inputs, make_folder_of
from duelrank.cli._fit import (
    ColumnRoles,
    check_takes_text,
    learn_all_labels,
    missing_columns,
    preprocessing_of,
    read_training_data,
)
from duelrank.cli._labels import as_known, known_codes
from duelrank.cli._options import (
    TARGET_HELP,
    column_options,
    coverage_option,
    make_ranker,
    ranker_options,
    reading_options,
    shown_option,
)
from duelrank.cli._shortlists import check_enough, check_options, check_rows, percent
from duelrank.cli._terminal import count_of, fitting, note, plain, say, show, table

if TYPE_CHECKING:
    from duelrank.evaluation import Result
    from duelrank.preprocessing import TrainingData

TOP = 5
MUCH_BOOSTING = 1_000_000  # rows times labels, from which on boosting takes minutes


@click.command()
@click.argument("data", metavar="[DATA]", required=False)
@click.option("--target", "targets", multiple=True, metavar="COL", help=TARGET_HELP)
@shown_option
@click.option("--test", metavar="FILE", help="Table to test on, instead of cross-validation.")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True)
@click.option("--drop-rare", is_flag=True, help="Leave out labels with fewer rows than folds.")
@click.option(
    "--baselines",
    "compared",
    metavar="NAMES",
    help=f"What to compare with: some of {', '.join(BASELINES)}, with commas; or all, or none.  "
    "[default: those that suit the columns]",
)
@coverage_option
@click.option("--figure", metavar="PATH", help="Draw the accuracies, for example to top.png.")
@ranker_options
@column_options
@reading_options
def evaluate(
    data: str | None,
    targets: tuple[str, ...],
    shown: tuple[str, ...],
    test: str | None,
    folds: int,
    drop_rare: bool,
    compared: str | None,
    coverage: float | None,
    figure: str | None,
    ignore: tuple[str, ...],
    categorical: tuple[str, ...],
    text: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
    **ranker: Any,
) -> None:
    """Compare duels with what one would use instead on the table DATA.

    The baselines learn from the same columns: logistic regression (multinomial and one per
    label), linear support vectors on text, a forest and boosting on tables without text, and
    the labels by their frequency (majority). top-k is the share of rows whose label is among
    the first k, cycles the share of rows whose duels contradict each other, memory the most
    that the process takes. If rows have lists of labels, duels learn from whole lists and the
    baselines from the first labels; the first labels count in top-k. With --shown, duels learn
    from choices and the baselines from the labels picked; top-k counts these among all labels,
    and picked is the share of rows whose label comes before all others that were shown. With
    --coverage, a second table tells how often the lists of each ranker hold the label, and how
    many labels they have; all rankers learn from four fifths of the training rows then. Without
    DATA, scikit-learn's handwritten digits are ranked.
    """
    if data is None and (targets or shown or test is not None):
        raise click.UsageError("--target, --shown and --test need DATA.")
    if data is not None and not targets:
        raise click.UsageError("DATA needs --target, the column with the labels.")
    check_options(coverage, targets, shown)
    if figure is not None:
        check_figure(figure, data, test)
    check_inputs(data, test)
    wanted = _wanted_baselines(compared)
    from duelrank.evaluation import RareLabelError
    from duelrank.evaluation import evaluate as measure

    duels = make_ranker(**ranker)
    if data is None:
        name, X, y, preprocessing, tested = _digits()
        feedback, choices, on_text = {}, None, False
        check_enough(coverage, _n_training_rows(y, folds, tested))
    else:
        columns = ColumnRoles(targets, shown, ignore, categorical, text)
        training = read_training_data(data, columns, delimiter, encoding)
        check_takes_text(ranker["engine"], training)
        if test is None and drop_rare:
            training = _without_rare_labels(training, folds)
        name, X, y, preprocessing, tested = _from_table(
            data, training, targets[0], shown, test, delimiter, encoding
        )
        on_text = "text" in training.kinds.values()
        feedback, choices = {"duels": training.feedback}, training.shown
        check_rows(coverage, training, _n_training_rows(y, folds, tested))
        learn_all_labels(duels, training)
    if len(set(y.tolist())) < 2:
        single = "there is a single"
        if data is not None and training.lists is not None:
            single = "every list begins with the same"
        if choices is not None:
            single = "every row picks the same"
        raise click.ClickException(f"{single} label; ranking needs two.")
    others = _baselines(wanted, on_text, y, ranker["penalty"], ranker["seed"])
    rankers = {"duels": duels, **others}
    n_fits = len(rankers) * (folds if tested is None else 1)
    try:
        with fitting("fitting", n_fits) as advance:
            results = measure(
                rankers,
                X,
                y,
                preprocessing=preprocessing,
                feedback=feedback,
                shown=choices,
                test=tested,
                folds=folds,
                top=min(TOP, len(set(y.tolist()))),
                coverage=coverage,
                random_state=ranker["seed"],
                on_step=advance,
            )
    except RareLabelError as error:
        raise ValueError(f"{str(error)[:-1]}; take fewer --folds or --drop-rare.") from error
    show(_headline(name, y, folds, tested))
    show("")
    show(_result_table(results))
    if coverage is not None:
        show("")
        show(f"Lists with a coverage of {percent(coverage)}:")
        show("")
        show(_list_table(results))
    for line in _what_was_chosen(results[0].chosen):
        show(line)
    if figure is not None:
        _draw(figure, results, name)
        say(f"Drew {plain(figure)}.")


def _wanted_baselines(compared: str | None) -> list[str] | None:
    """Read --baselines: a list of names, or None for those that suit the columns."""
    if compared is None:
        return None
    names = [name.strip() for name in compared.split(",")]
    if names in (["all"], ["none"]):
        return list(BASELINES) if names == ["all"] else []
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise click.UsageError(
            f"--baselines {unknown[0]!r} is none of {', '.join(BASELINES)}, all or none."
        )
    return names


def _baselines(
    wanted: list[str] | None, on_text: bool, y: Any, penalty: float | None, seed: int
) -> dict[str, Any]:
    """Make the baselines; those that would take too long are left out, unless asked for."""
    from duelrank.evaluation import baselines

    if on_text and wanted is not None and "boosting" in wanted:
        if wanted != list(BASELINES):
            raise click.UsageError("--baselines boosting takes no text; leave it out.")
        wanted = [name for name in wanted if name != "boosting"]
        note("boosting left out, because it takes no text.")
    made = baselines(wanted, on_text=on_text, C=penalty, random_state=seed)
    n_trees = len(y) * len(set(y.tolist()))  # the cost of an iteration of boosting
    if wanted is None and "boosting" in made and n_trees > MUCH_BOOSTING:
        del made["boosting"]
        note("boosting left out, because it would take long; --baselines boosting asks for it.")
    return made


def _what_was_chosen(chosen: tuple[str, ...]) -> list[str]:
    """Say which engines were chosen, on how many folds."""
    if not chosen:
        return []
    counts = {name: chosen.count(name) for name in dict.fromkeys(chosen)}
    listed = ", ".join(f"{name} ({n} of {len(chosen)} folds)" for name, n in counts.items())
    return [
        "",
        f"Engine of the duels: {chosen[0] if len(chosen) == 1 else listed}.",
        "It and its strength are chosen on held-out training rows; baselines have fixed ones.",
    ]


def _digits() -> tuple[str, Any, Any, Any, None]:
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import StandardScaler

    X, y = load_digits(return_X_y=True)
    return "digits", X, y, StandardScaler(), None


def _from_table(
    data: str,
    training: TrainingData,
    target: str,
    shown: tuple[str, ...],
    test: str | None,
    delimiter: str | None,
    encoding: str,
) -> tuple[str, Any, Any, Any, tuple[Any, ...] | None]:
    tested = None
    if test is not None:
        tested = _test_data(test, training, target, shown, delimiter, encoding)
    name = "standard input" if data == STREAM else Path(data).stem
    return name, training.X, training.y, preprocessing_of(training), tested


def _test_data(
    test: str,
    training: TrainingData,
    target: str,
    shown: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
) -> tuple[Any, ...]:
    """Read the points to test on, and their labels as the training data writes them.

    If labels were shown, these come third.
    """
    import numpy as np

    from duelrank.preprocessing import first_labels, shown_labels
    from duelrank.tables import TableError, features, is_labelled, open_table

    with open_table(test, delimiter=delimiter, encoding=encoding) as source:
        names = [*training.kinds, target, *shown]
        missing = [name for name in names if name not in source.columns]
        if missing:
            raise TableError(missing_columns(source, missing))
        rows = source.read(names)
    column = first_labels(rows[target], target)
    labelled = is_labelled(column)
    if not labelled.any():
        raise TableError(f"{source.name} has no row with a label in {target!r} to test on.")
    if not labelled.all():
        note(f"{count_of(int((~labelled).sum()), 'row')} of {test} without a label left out.")
    X = features(rows, training.kinds).filter(labelled)
    known = training.classes
    codes, written = known_codes(target, column.filter(labelled), np.array(known, dtype=object))
    unseen = {label for label, code in zip(written, codes.tolist(), strict=True) if code < 0}
    if (codes < 0).all():
        raise TableError(
            f"no label of {source.name} is in the training data, for example {min(unseen)!r}."
        )
    if unseen:
        plural = "is" if len(unseen) == 1 else "are"
        note(
            f"{count_of(len(unseen), 'label')} of {test} {plural} not in the training data; "
            f"{count_of(int((codes < 0).sum()), 'row')} with them count as wrong."
        )
    y = [known[code] if code >= 0 else label for code, label in zip(codes, written, strict=True)]
    labels = np.array(y, dtype=object)
    if not shown:
        return X, labels
    choices = shown_labels(rows, shown)
    kept = [row for row, stays in zip(choices, labelled.tolist(), strict=True) if stays]
    return X, labels, as_known(kept, known)


def _without_rare_labels(training: TrainingData, folds: int) -> TrainingData:
    from dataclasses import replace

    import numpy as np

    from duelrank.evaluation import rare_labels

    rare = rare_labels(training.y, folds)
    if not rare:
        return training
    stays = np.array([label not in rare for label in training.y.tolist()])
    note(
        f"{count_of(len(rare), 'label')} with fewer than {folds} rows left out, "
        f"{count_of(int((~stays).sum()), 'row')}."
    )
    if not stays.any():
        raise click.ClickException(f"every label has fewer than {folds} rows.")
    lists, shown = (
        rows and [row for row, kept in zip(rows, stays.tolist(), strict=True) if kept]
        for rows in (training.lists, training.shown)
    )
    X, y = training.X.filter(stays), training.y[stays]
    return replace(training, X=X, y=y, lists=lists, shown=shown)


def _headline(name: str, y: Any, folds: int, tested: tuple[Any, ...] | None) -> str:
    how = f"{folds} folds" if tested is None else f"{len(tested[1])} test rows"
    return f"{plain(name)}: {len(y)} rows, {len(set(y.tolist()))} labels, {how}"


def _result_table(results: list[Result]) -> Any:
    top = len(results[0].accuracies)
    of_choices = any(result.choice_accuracy == result.choice_accuracy for result in results)
    shares = ["picked"] * of_choices + [f"top-{k}" for k in range(1, top + 1)]
    headings = [("ranking by", "left"), *((share, "right") for share in shares)]
    measures = ["cycles", "fit", "rank", "memory"]
    made = table([*headings, *((measure, "right") for measure in measures)])
    for column in made.columns:
        column.no_wrap = True
    for result in results:
        cycles = "–" if result.cycle_share != result.cycle_share else f"{result.cycle_share:.0%}"
        made.add_row(
            result.name,
            *[f"{result.choice_accuracy:.3f}"] * of_choices,
            *(f"{accuracy:.3f}" for accuracy in result.accuracies),
            cycles,
            _seconds(result.fit_seconds),
            _seconds(result.rank_seconds),
            _bytes(result.peak_bytes),
        )
    return made


def _n_training_rows(y: Any, folds: int, tested: tuple[Any, ...] | None) -> int:
    """Return how many rows there are to learn from, in the smallest fold."""
    return len(y) if tested is not None else len(y) - -(-len(y) // folds)


def _list_table(results: list[Result]) -> Any:
    made = table([("lists by", "left"), ("coverage", "right"), ("mean length", "right")])
    for result in results:
        made.add_row(result.name, f"{result.coverage:.3f}", f"{result.mean_length:.2f}")
    return made


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _bytes(n_bytes: float) -> str:
    if n_bytes != n_bytes:
        return "–"
    return f"{n_bytes / 2**20:.0f} MB" if n_bytes < 2**30 else f"{n_bytes / 2**30:.1f} GB"


def _draw(figure: str, results: list[Result], name: str) -> None:
    from matplotlib.figure import Figure

    from duelrank._files import replacing
    from duelrank.plotting import TopKAccuracyDisplay

    drawing = Figure(figsize=(6, 4), layout="constrained")
    axes = drawing.subplots()
    TopKAccuracyDisplay(
        [result.accuracies for result in results], names=[result.name for result in results]
    ).plot(axes)
    axes.set_title(f"{plain(name)}: how often the label is among the first k")
    make_folder_of(figure)
    with replacing(figure) as partial:
        drawing.savefig(partial, dpi=150, format=Path(figure).suffix[1:].lower())
