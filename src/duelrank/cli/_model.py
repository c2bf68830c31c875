"""A model file, and the data that its model takes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from duelrank.cli._arrays import as_texts, give_arrays
from duelrank.cli._fit import listed, missing_columns
from duelrank.cli._terminal import note, plain

if TYPE_CHECKING:
    import pyarrow as pa

    from duelrank.storage import ModelDescription
    from duelrank.tables import Source


@dataclass(frozen=True)
class Model:
    """A loaded model and what its file says about it."""

    model: Any
    description: ModelDescription

    @cached_property
    def takes_texts(self) -> bool:
        """Whether the model was fitted on texts alone, and takes one column of them."""
        from duelrank.storage import takes_texts

        # Where the first step could take anything, the name that was saved tells.
        is_told = list(self.description.columns.values()) == ["text"]
        return takes_texts(self.model) or (is_told and not hasattr(self.model, "feature_names_in_"))

    def columns_in(self, source: Source, wanted: Sequence[str] = ()) -> list[str]:
        """Return the columns of a table that the model takes, and note which are ignored."""
        from duelrank.tables import TableError

        known = list(self.description.columns)
        targets = [*self.description.targets, *self.description.shown]
        there = set(source.columns)
        missing = [name for name in [*known, *wanted] if name not in there]
        if missing:
            raise TableError(missing_columns(source, missing))
        if self.takes_texts and len(known) != 1:
            known = [self._text_column(source, wanted)]
        elif not known:  # fitted on arrays
            others = {*targets, *wanted}
            known = [name for name in source.columns if name not in others]
            expected = getattr(self.model, "n_features_in_", len(known))
            if len(known) != expected:
                raise TableError(
                    f"the model takes {expected} columns, but {source.name} has {len(known)}."
                )
        ignored = self.unknown_in(source, [*known, *wanted])
        if ignored:
            note(f"not known to the model and ignored: {listed(ignored)}.")
        return known

    def unknown_in(self, source: Source, others: Sequence[str | None]) -> list[str]:
        """Return the columns of a table that training did not have, and that are no others."""
        told, left_out = self.description, self.description.facts.get("left_out")
        not_taken = map(str, left_out) if isinstance(left_out, list) else ()
        known = {*told.columns, *told.targets, *told.shown, *not_taken, *others}
        return [name for name in source.columns if name not in known]

    def points(self, source: Source, rows: int, keep: Sequence[str] = ()) -> Iterator[_Points]:
        """Read points in batches, as the model takes them."""
        names = self.columns_in(source, keep)
        before = 0
        for batch in source.batches(list(dict.fromkeys([*names, *keep])), rows):
            kinds = self._kinds(source, names, batch)
            yield _Points(self.features(batch, kinds, before), batch.select(list(keep)), before)
            before += len(batch)

    def read(self, source: Source, others: Sequence[str] = ()) -> tuple[Any, pa.Table]:
        """Read all points, as the model takes them, and some other columns."""
        names = self.columns_in(source, others)
        table = source.read(list(dict.fromkeys([*names, *others])))
        X = self.features(table, self._kinds(source, names, table))
        return X, table.select(list(dict.fromkeys(others)))

    def features(self, table: pa.Table, kinds: dict[str, str], before: int = 0) -> Any:
        """Turn columns into features; into an array, if the model was fitted on one."""
        from duelrank.tables import features

        X = features(table, kinds, before)
        if self.takes_texts:
            return as_texts(X.column(0))
        if self.description.columns:
            return X
        import numpy as np

        return np.column_stack([X[name].to_numpy() for name in X.column_names])

    def _text_column(self, source: Source, wanted: Sequence[str]) -> str:
        """Return the column of a table that holds the texts, if there is no doubt."""
        from duelrank.tables import TableError

        labels = {*self.description.targets, *self.description.shown}
        possible = [name for name in source.columns if name not in labels]
        if len(possible) > 1:
            possible = [name for name in possible if name not in wanted]
        if len(possible) == 1:
            return possible[0]
        raise TableError(
            f"the model takes one column of texts, but {source.name} has {listed(source.columns)}; "
            "name the column when you save the model: save(model, path, columns={'body': 'text'})."
        )

    def _kinds(self, source: Source, names: list[str], table: pa.Table) -> dict[str, str]:
        """Return the kinds of columns, from the model file or else from their types.

        Values do not tell: in one batch, or in a short file, they can look like another kind.
        """
        from duelrank.tables import KINDS, TableError, kinds_of

        if self.takes_texts:
            return dict.fromkeys(names, "text")
        told = self.description.columns
        kinds = {name: kind for name, kind in told.items() if kind in KINDS}
        untold = [name for name in names if name not in kinds]
        if not source.as_text:
            found = kinds_of(table.select(untold), as_text=False)
        elif not told:  # fitted on an array of numbers
            found = dict.fromkeys(untold, "number")
        elif untold:
            raise TableError(
                f"the model file does not tell whether {plain(untold[0])!r} holds numbers or "
                "categories, and neither does CSV; take a Parquet file, which has types."
            )
        else:
            found = {}
        kinds |= found
        return {name: kinds[name] for name in names}


@dataclass(frozen=True)
class _Points:
    """A batch: features, columns to keep, and the number of rows before it."""

    X: Any
    kept: pa.Table
    before: int

    def __len__(self) -> int:
        return len(self.kept) if self.kept.num_columns else self.X.shape[0]


def load_model(path: str, trust: tuple[str, ...]) -> Model:
    """Load a model file, to rank with."""
    model, description = open_model(path, trust)
    if hasattr(model, "predict_intervals"):
        model = model.estimator_  # the command has no use for intervals of places
    give_arrays(model)
    return Model(model, description)


def with_arrays(model: Any) -> Any:
    """Return a copy of a pipeline whose transformers take the columns that `Model` reads."""
    from sklearn.pipeline import Pipeline

    if not isinstance(model, Pipeline):
        return model
    transformers = copy.deepcopy(model.steps[:-1])
    give_arrays(transformers)
    model = copy.copy(model)
    model.steps = [*transformers, model.steps[-1]]
    return model


def open_model(path: str, trust: tuple[str, ...]) -> tuple[Any, ModelDescription]:
    """Load the model of a file as it is, and what the file says about it."""
    from duelrank.storage import ModelFileError, UntrustedTypesError, load_with_description

    try:
        return load_with_description(path, trusted=trust)
    except UntrustedTypesError as error:
        options = " ".join(f"--trust {plain(name)}" for name in error.names)
        raise ModelFileError(
            f"{path} holds types whose contents duelrank cannot check, so a hostile file could "
            f"crash the process; if you know where the file comes from, name them: {options}."
        ) from error
