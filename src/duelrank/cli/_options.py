"""Options that several commands share, and the ranker that they describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from duelrank._choices import AGGREGATIONS, COVERAGE_BY, TIES, is_delimiter

DELIMITERS = {"tab": "\t", "\\t": "\t"}
Command = TypeVar("Command", bound=Callable[..., Any])

ENGINES = (
    "auto",
    "logistic",
    "logistic-cv",
    "anchored",
    "stacked",
    "stumps",
    "forest",
    "forests",
    "boosting",
)


CLOSEST_RIVALS = 10  # of a label, whose duels the engine anchored corrects


def _together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _check_delimiter(_: click.Context, __: click.Parameter, written: str | None) -> str | None:
    if written is None:
        return None
    delimiter = DELIMITERS.get(written, written)
    if not is_delimiter(delimiter):
        raise click.BadParameter(
            f"must be one ASCII character that is neither a quote nor a line break, or tab; "
            f"got {written!r}."
        )
    return delimiter


def _check_coverage(_: click.Context, __: click.Parameter, share: float | None) -> float | None:
    if share is not None and not 0 < share < 1:
        raise click.BadParameter(f"must be between 0 and 1, such as 0.95; got {share:g}.")
    return share


reading_options = _together(
    click.option(
        "--delimiter",
        callback=_check_delimiter,
        metavar="CHAR",
        help="What separates the cells of CSV, for example ; or tab.  [default: comma]",
    ),
    click.option("--encoding", default="utf-8", help="Encoding of CSV.", show_default=True),
)

TARGET_HELP = (
    "The column with the labels. Several columns, or one of lists, hold the best few labels of a "
    "row, best first (repeatable)."
)

shown_option = click.option(
    "--shown",
    multiple=True,
    metavar="COL",
    help="A column with a label that was shown, where --target was picked among several; or one "
    "column of lists (repeatable). If --target was preferred to one other label, the column of "
    "that one.",
)

column_options = _together(
    click.option("--ignore", multiple=True, metavar="COL", help="Leave a column out (repeatable)."),
    click.option(
        "--categorical",
        multiple=True,
        metavar="COL",
        help="Take a column for categories, though it looks like numbers or text (repeatable).",
    ),
    click.option(
        "--text",
        multiple=True,
        metavar="COL",
        help="Take a column for text, though it looks like categories (repeatable).",
    ),
)

ranker_options = _together(
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        help="What fights the duels: whatever ranks held-out rows best (auto), one fit for all "
        "(logistic, logistic-cv, anchored, stacked, stumps, forest), or a model of scikit-learn "
        "for each (forests, boosting). logistic-cv and anchored choose the strengths of their "
        "penalties.  [default: auto, or logistic with -C]",
    ),
    click.option(
        "-C",
        "penalty",
        type=click.FloatRange(0, min_open=True),
        metavar="NUMBER",
        help="Inverse strength of the penalty of the engine logistic.  [default: 1]",
    ),
    click.option(
        "--aggregation",
        type=click.Choice(AGGREGATIONS),
        default="copeland",
        show_default=True,
        help="How a tournament becomes a ranking.",
    ),
    click.option(
        "--ties",
        type=click.Choice(TIES),
        default="probability",
        show_default=True,
        help="What decides between labels that win as many duels.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of random choices."),
    click.option("--jobs", type=int, metavar="N", help="Processes; -1 is one per core."),
)

coverage_option = click.option(
    "--coverage",
    type=float,
    callback=_check_coverage,
    metavar="SHARE",
    help="Make lists that hold the right label this often, for example 0.95. A fifth of the rows "
    "is kept to find out how long they must be.",
)

coverage_by_option = click.option(
    "--coverage-by",
    type=click.Choice(COVERAGE_BY),
    help="For whom the coverage holds: for all rows together, for the rows of every label, or of "
    "clusters of labels that are alike.  [default: all]",
)

training_rows_option = click.option(
    "--no-training-rows",
    is_flag=True,
    help="Keep training rows out of the model file, which may be larger then.",
)

updatable_option = click.option(
    "--updatable",
    is_flag=True,
    help="Keep all training rows in the model file, so that `update` can add rows and labels. "
    "Implies --engine logistic, with a -C that goes by the scale of the rows unless it is given.",
)

profile_option = click.option(
    "--no-profile",
    is_flag=True,
    help="Keep the profile of the training rows, which `check` needs, out of the model file: it "
    "holds quantiles and frequent values.",
)

trust_option = click.option(
    "--trust",
    multiple=True,
    metavar="TYPE",
    help="Trust a type in the model file whose contents duelrank cannot check (repeatable), if you "
    "know where the file comes from.",
)


def make_ranker(
    engine: str | None,
    penalty: float | None,
    aggregation: str,
    ties: str,
    seed: int,
    jobs: int | None,
    updatable: bool = False,
) -> Any:
    """Make the ranker that the options describe."""
    engine = engine or ("auto" if penalty is None and not updatable else "logistic")
    if updatable and engine != "logistic":
        raise click.UsageError(f"--updatable is for the engine logistic, not for {engine}.")
    if penalty is not None and engine != "logistic":
        raise click.UsageError(f"-C is an option of the engine logistic, not of {engine}.")
    from duelrank import DuelRanker

    fighter = _make_engine(engine, 1.0 if penalty is None else penalty)
    if updatable:
        fighter.set_params(keep_rows=True, C="scale" if penalty is None else penalty)
    return DuelRanker(fighter, aggregation=aggregation, ties=ties, n_jobs=jobs, random_state=seed)


def _make_engine(engine: str, penalty: float) -> Any:
    from duelrank import (
        AnchoredDuelsCV,
        AutoDuels,
        ForestDuels,
        LogisticDuels,
        LogisticDuelsCV,
        StackedDuels,
        StumpDuels,
    )

    ours = {
        "auto": AutoDuels(),
        "logistic": LogisticDuels(C=penalty),
        "logistic-cv": LogisticDuelsCV(),
        "anchored": AnchoredDuelsCV(rivals=CLOSEST_RIVALS),
        "stacked": StackedDuels(),
        "stumps": StumpDuels(),
        "forest": ForestDuels(),
    }
    if engine in ours:
        return ours[engine]
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    return RandomForestClassifier() if engine == "forests" else HistGradientBoostingClassifier()
