"""``duelrank evaluate``: duels and baselines side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from duelrank._choices import STREAM
from duelrank.cli._files import check_figure, check_inputs, make_folder_of
from duelrank.cli._fit import learn_all_labels, missing_columns, read_training_data
from duelrank.cli._labels import as_known, known_codes
from duelrank.cli._options import (
    TARGET_HELP,
    column_options,
    make_ranker,
    ranker_options,
    reading_options,
    shown_option,
)
from duelrank.cli._terminal import count_of, note, plain, progress, say, show, table

if TYPE_CHECKING:
    from duelrank.evaluation import Result
    from duelrank.preprocessing import TrainingData

TOP = 5


@click.command()
@click.argument("data", metavar="[DATA]", required=False)
@click.option("--target", "targets", multiple=True, metavar="COL", help=TARGET_HELP)
@shown_option
@click.option("--test", metavar="FILE", help="Table to test on, instead of cross-validation.")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True)
@click.option("--drop-rare", is_flag=True, help="Leave out labels with fewer rows than folds.")
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
    figure: str | None,
    ignore: tuple[str, ...],
    categorical: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
    **ranker: Any,
) -> None:
    """Compare duels with logistic regression on the table DATA.

    The baselines are multinomial and one-vs-rest logistic regression on the same columns. top-k is
    the share of rows whose label is among the first k, cycles the share of rows whose duels
    contradict each other. If rows have lists of labels, duels learn from whole lists and the
    baselines from the first labels; the first labels count in top-k. With --shown, duels learn from
    choices and the baselines from the labels picked; top-k counts these among all labels, and
    picked is the share of rows whose label comes before all others that were shown. Without DATA,
    scikit-learn's handwritten digits are ranked.
    """
    if data is None and (targets or shown or test is not None):
        raise click.UsageError("--target, --shown and --test need DATA.")
    if data is not None and not targets:
        raise click.UsageError("DATA needs --target, the column with the labels.")
    if figure is not None:
        check_figure(figure, data, test)
    check_inputs(data, test)
    from duelrank.evaluation import RareLabelError, baselines
    from duelrank.evaluation import evaluate as measure

    duels = make_ranker(**ranker)
    penalty = ranker["penalty"] or 1.0
    if data is None:
        name, X, y, first_steps, tested = _digits()
        feedback, choices = {}, None
    else:
        training = read_training_data(
            data, targets, shown, ignore, categorical, delimiter, encoding
        )
        if test is None and drop_rare:
            training = _without_rare_labels(training, folds)
        name, X, y, first_steps, tested = _from_table(
            data, training, targets[0], shown, test, delimiter, encoding
        )
        feedback, choices = {"duels": training.feedback}, training.shown
        learn_all_labels(duels, training)
    if len(set(y.tolist())) < 2:
        single = "there is a single"
        if data is not None and training.lists is not None:
            single = "every list begins with the same"
        if choices is not None:
            single = "every row picks the same"
        raise click.ClickException(f"{single} label; ranking needs two.")
    rankers = {
        called: _pipeline(first_steps, classifier)
        for called, classifier in {"duels": duels, **baselines(penalty)}.items()
    }
    n_fits = len(rankers) * (folds if tested is None else 1)
    try:
        with progress("fitting", n_fits) as advance:
            results = measure(
                rankers,
                X,
                y,
                feedback=feedback,
                shown=choices,
                test=tested,
                folds=folds,
                top=min(TOP, len(set(y.tolist()))),
                random_state=ranker["seed"],
                on_step=lambda: advance(1),
            )
    except RareLabelError as error:
        raise ValueError(f"{str(error)[:-1]}; take fewer --folds or --drop-rare.") from error
    show(_headline(name, y, folds, tested))
    show("")
    show(_result_table(results))
    if figure is not None:
        _draw(figure, results, name)
        say(f"Drew {plain(figure)}.")


def _digits() -> tuple[str, Any, Any, list[Any], None]:
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import StandardScaler

    X, y = load_digits(return_X_y=True)
    return "digits", X, y, [StandardScaler()], None


def _from_table(
    data: str,
    training: TrainingData,
    target: str,
    shown: tuple[str, ...],
    test: str | None,
    delimiter: str | None,
    encoding: str,
) -> tuple[str, Any, Any, list[Any], tuple[Any, ...] | None]:
    from duelrank.preprocessing import make_preprocessing

    tested = None
    if test is not None:
        tested = _test_data(test, training, target, shown, delimiter, encoding)
    name = "standard input" if data == STREAM else Path(data).stem
    return name, training.X, training.y, [make_preprocessing(training.kinds)], tested


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
    column = first_labels(rows[target])
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


def _pipeline(first_steps: list[Any], classifier: Any) -> Any:
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*map(clone, first_steps), classifier)


def _headline(name: str, y: Any, folds: int, tested: tuple[Any, ...] | None) -> str:
    how = f"{folds} folds" if tested is None else f"{len(tested[1])} test rows"
    return f"{plain(name)}: {len(y)} rows, {len(set(y.tolist()))} labels, {how}"


def _result_table(results: list[Result]) -> Any:
    top = len(results[0].accuracies)
    of_choices = any(result.choice_accuracy == result.choice_accuracy for result in results)
    shares = ["picked"] * of_choices + [f"top-{k}" for k in range(1, top + 1)]
    headings = [("ranking by", "left"), *((share, "right") for share in shares)]
    made = table([*headings, ("cycles", "right"), ("fit", "right"), ("rank", "right")])
    for result in results:
        cycles = "–" if result.cycle_share != result.cycle_share else f"{result.cycle_share:.0%}"
        made.add_row(
            result.name,
            *[f"{result.choice_accuracy:.3f}"] * of_choices,
            *(f"{accuracy:.3f}" for accuracy in result.accuracies),
            cycles,
            _seconds(result.fit_seconds),
            _seconds(result.rank_seconds),
        )
    return made


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


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
