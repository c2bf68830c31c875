"""A model file, and the data that its model takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duelrank.cli._fit import listed, missing_columns
from duelrank.cli._terminal import note

if TYPE_CHECKING:
    import pyarrow as pa

    from duelrank.storage import ModelDescription
    from duelrank.tables import Source


@dataclass(frozen=True)
class Model:
    """A loaded model and what its file says about it."""

    model: Any
    description: ModelDescription

    def columns_in(self, source: Source, wanted: Sequence[str] = ()) -> list[str]:
        """Name the columns of a table that the model takes, and tell what is ignored."""
        from duelrank.tables import TableError

        known, target = list(self.description.columns), self.description.target
        missing = [name for name in [*known, *wanted] if name not in source.columns]
        if missing:
            raise TableError(missing_columns(source, missing))
        if not known:  # fitted on arrays
            known = [name for name in source.columns if name not in {target, *wanted}]
            expected = getattr(self.model, "n_features_in_", len(known))
            if len(known) != expected:
                raise TableError(
                    f"the model takes {expected} columns, but {source.name} has {len(known)}."
                )
        left_out = self.description.facts.get("left_out")
        expected_others = {target, *(map(str, left_out) if isinstance(left_out, list) else ())}
        ignored = [n for n in source.columns if n not in {*known, *wanted, *expected_others}]
        if ignored:
            note(f"not known to the model and ignored: {listed(ignored)}.")
        return known

    def points(self, source: Source, rows: int, keep: Sequence[str] = ()) -> Iterator[_Points]:
        """Read points in batches, as the model takes them."""
        names = self.columns_in(source, keep)
        kinds = self._known_kinds(names)
        before = 0
        for batch in source.batches(list(dict.fromkeys([*names, *keep])), rows):
            kinds = self._with_kinds(kinds, batch, source.as_text)
            yield _Points(self.features(batch, kinds, before), batch.select(list(keep)), before)
            before += len(batch)

    def read(self, source: Source, others: Sequence[str] = ()) -> tuple[Any, pa.Table]:
        """Read all points, as the model takes them, and some other columns."""
        names = self.columns_in(source, others)
        table = source.read(list(dict.fromkeys([*names, *others])))
        kinds = self._with_kinds(self._known_kinds(names), table, source.as_text)
        return self.features(table, kinds), table.select(list(others))

    def features(self, table: pa.Table, kinds: dict[str, str], before: int = 0) -> Any:
        """Turn columns into features; into an array, if the model was fitted on one."""
        from duelrank.tables import features

        X = features(table, kinds, before)
        if self.description.columns:
            return X
        import numpy as np

        return np.column_stack([X[name].to_numpy() for name in X.column_names])

    def labels(self, name: str, column: pa.ChunkedArray) -> Any:
        """Return the labels of rows as the model knows them."""
        import numpy as np

        from duelrank.tables import TableError, is_labelled, labels

        if not is_labelled(column).all():
            raise TableError(f"{name!r} has rows without a label.")
        known = {str(label): label for label in self.model.classes_.tolist()}
        written = [str(label) for label in labels(name, column).tolist()]
        foreign = sorted(set(written) - set(known))
        if foreign:
            raise TableError(f"{name!r} holds labels that the model does not know: {foreign[0]!r}.")
        return np.array([known[label] for label in written], dtype=self.model.classes_.dtype)

    def _known_kinds(self, names: list[str]) -> dict[str, str]:
        from duelrank.tables import KINDS

        told = self.description.columns
        return {name: told[name] if told.get(name) in KINDS else "" for name in names}

    def _with_kinds(self, kinds: dict[str, str], table: pa.Table, as_text: bool) -> dict[str, str]:
        """Find the kinds that the model file does not tell, for models saved from Python."""
        from duelrank.tables import kinds_of

        unknown = [name for name, kind in kinds.items() if not kind]
        return kinds | kinds_of(table.select(unknown), as_text=as_text) if unknown else kinds


@dataclass(frozen=True)
class _Points:
    """A batch: features, columns to keep, and the number of rows before it."""

    X: Any
    kept: pa.Table
    before: int

    def __len__(self) -> int:
        return len(self.kept) if self.kept.num_columns else self.X.shape[0]


def load_model(path: str, trust: tuple[str, ...]) -> Model:
    """Load a model file."""
    from duelrank.storage import ModelFileError, describe

    description = describe(path)  # a file that is none is found out before anything is imported
    from duelrank.storage import load

    try:
        return Model(load(path, trusted=trust), description)
    except ModelFileError as error:
        if "are not trusted" not in str(error):
            raise
        sentence = str(error).replace("name them in trusted", "name them with --trust")
        raise ModelFileError(sentence) from error
