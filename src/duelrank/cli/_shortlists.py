"""Shortlists on the command line: where they can be made, and those of a model file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from duelrank.cli._terminal import note

if TYPE_CHECKING:
    from duelrank.cli._model import Model
    from duelrank.preprocessing import TrainingData
    from duelrank.shortlists import Shortlister
    from duelrank.tables import Rankings

COVERED = {
    "all": "of all rows",
    "label": "of the rows of every label",
    "cluster": "of the rows of every cluster of labels",
    "group": "of every group of rows",
}
CALIBRATION_SHARE = 0.2  # of the rows, as by default in Shortlister
ROUNDING = 1e-9  # coverages such as 0.9 are no exact floats


def check_options(coverage: float | None, targets: tuple[str, ...], shown: tuple[str, ...]) -> None:
    """Raise if --coverage contradicts other options."""
    if coverage is None:
        return
    if len(targets) > 1:
        raise click.UsageError(
            "--coverage needs a single --target, the column with the right label; "
            f"got {len(targets)}."
        )
    if shown:
        raise click.UsageError("--coverage needs labels that are right, so it excludes --shown.")


def check_rows(coverage: float | None, training: TrainingData, n_rows: int) -> None:
    """Raise if the training data cannot calibrate lists, of so many rows to learn from."""
    if coverage is None:
        return
    if training.lists is not None:
        raise click.ClickException("--coverage needs one label for each row, not lists of labels.")
    check_enough(coverage, n_rows)


def check_enough(coverage: float | None, n_rows: int) -> None:
    """Raise if a fifth of the rows is too few for lists of this coverage."""
    if coverage is None:
        return
    from duelrank.shortlists import rows_needed

    needed = rows_needed(coverage)
    n_calibrating = round(CALIBRATION_SHARE * n_rows)
    if n_calibrating < needed:
        raise click.ClickException(
            f"--coverage {coverage:g} needs at least {needed} rows for calibration, but a fifth of "
            f"{n_rows} is {n_calibrating}; take more rows or a lower coverage."
        )


def percent(share: float) -> str:
    """Write a share with as many digits as it has, such as 95% or 99.9%."""
    return f"{100 * share:.6g}%"


class Lists(NamedTuple):
    """Labels of points, those of their lists first, and the lengths of the lists."""

    rankings: Rankings
    lengths: Any


@dataclass(frozen=True)
class ListMaker:
    """Makes the lists of a model."""

    shortlister: Shortlister
    transformers: list[Any]

    @property
    def coverage(self) -> float:
        """The coverage, the first one if the model has several."""
        return float(self.shortlister.coverages_[0])

    @property
    def longest(self) -> int | None:
        """Length of the longest list, if there is a limit."""
        return self.shortlister.max_length

    def points(self, X: Any) -> Any:
        """Return points as the shortlister takes them."""
        for transformer in self.transformers:
            X = transformer.transform(X)
        return X

    def lists(self, X: Any, at_least: int, with_probabilities: bool) -> Lists:
        """Return the lists of points, and other labels behind them up to some place."""
        import numpy as np

        from duelrank.tables import Rankings

        classes = np.asarray(self.shortlister.classes_)
        if X.shape[0] == 0:
            nothing = np.zeros((0, at_least))
            labels = classes[nothing.astype(np.intp)]
            rankings = Rankings(labels, nothing if with_probabilities else None)
            return Lists(rankings, np.zeros(0, dtype=np.int64))
        points = self.points(X)
        ranked = self.shortlister.ranked_lists(points)
        is_in = np.take_along_axis(ranked.masks[0], ranked.order, axis=1)
        lengths = is_in.sum(axis=1)
        first = np.argsort(~is_in, axis=1, kind="stable")[:, : max(at_least, int(lengths.max()))]
        codes = np.take_along_axis(ranked.order, first, axis=1)
        probabilities = None
        if with_probabilities:
            known = ranked.probabilities
            known = self.shortlister.predict_proba(points) if known is None else known
            probabilities = np.take_along_axis(known, codes, axis=1)
        return Lists(Rankings(classes[codes], probabilities), lengths)


def without_groups(model: Any) -> Any:
    """Return what ranks for a model whose lists depend on groups of rows; other models stay."""
    from duelrank.shortlists import Shortlister

    if isinstance(model, Shortlister) and model.by == "group":
        note("the lists of this model depend on groups of rows, which only Python can give.")
        return model.estimator_
    return model


def list_maker(model: Model) -> ListMaker | None:
    """Return what makes the lists of a model; None if it makes none that can be asked for here."""
    from duelrank.shortlists import shortlister_inside

    shortlister, transformers = shortlister_inside(model.model)
    if shortlister is None:
        return None
    if without_groups(shortlister) is not shortlister:
        return None
    maker = ListMaker(shortlister, transformers)
    if len(shortlister.coverages_) > 1:
        note(f"the model has lists of several coverages; those of {percent(maker.coverage)} count.")
    return maker
