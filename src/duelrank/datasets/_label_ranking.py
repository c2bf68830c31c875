"""The benchmark sets of label ranking: features with full rankings, or with posteriors.

A set is a CSV file with a header: columns ``A1, A2, …`` are features, columns ``L1, L2, …`` are the
ranks of the labels (1 = best, empty for a label not placed) or their posteriors. All other cells
must be finite numbers: a text is an error, and not a missing value.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets._csv import check_rows, read_csv
from duelrank.datasets._folder import data_folder
from duelrank.rankings import check_ranks

KINDS = ("ranks", "posteriors")


class LabelRankingData(NamedTuple):
    """Features of n points, (n, n_features), and ranks or posteriors of their labels, (n, K)."""

    X: NDArray[np.float64]
    target: NDArray[Any]


def load_label_ranking(
    name: str | os.PathLike[str],
    *,
    kind: str = "ranks",
    data_dir: str | os.PathLike[str] | None = None,
) -> LabelRankingData:
    """Load a benchmark set of label ranking.

    Parameters
    ----------
    name : str or path
        Name of a set, such as "iris" or "vowel", or the path of a file that ends in ".csv".
    kind : {"ranks", "posteriors"}, default="ranks"
        What the label columns hold. Some sets exist in both kinds.
    data_dir : path, default=None
        Folder that holds ``label_ranking/ranks/NAME.csv``, ``label_ranking/posteriors/NAME.csv``.
        By default the one that the environment variable ``DUELRANK_DATA`` names. Not used when
        `name` is a path.

    Returns
    -------
    data : LabelRankingData
        Named tuple of X (n, n_features) and target (n, K). Ranks are integers, or floats with NaN
        where labels are not placed; posteriors sum to one in every row.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    path = Path(name) if str(name).endswith(".csv") else _file_of_set(str(name), kind, data_dir)
    if not path.is_file():
        raise FileNotFoundError(f"name must be an existing CSV file or a set's name; no {path}.")
    columns, lines, cells = read_csv(path)
    is_feature = np.array([column[:1] == "A" for column in columns])
    is_label = np.array([column[:1] == "L" for column in columns])
    if not (is_feature.any() and is_label.any() and np.all(is_feature | is_label)):
        raise ValueError(f"{path} must have columns A1, A2, … and L1, L2, … only; got {columns}.")
    check_rows(path, len(columns), lines, cells)
    values = np.array([[_number(cell) for cell in row] for row in cells])
    may_be_empty = is_label & (kind == "ranks")
    for row, column in np.argwhere(~np.isfinite(values)).tolist():
        if cells[row][column].strip() or not may_be_empty[column]:
            accepted = "a finite number, or empty" if may_be_empty[column] else "a finite number"
            raise ValueError(
                f"{path}, line {lines[row]}, column {columns[column]} must hold {accepted}; "
                f"got {cells[row][column]!r}."
            )
    return LabelRankingData(
        np.ascontiguousarray(values[:, is_feature]), _target(values[:, is_label], kind, path)
    )


def _file_of_set(name: str, kind: str, data_dir: str | os.PathLike[str] | None) -> Path:
    folder = data_folder(data_dir)
    if folder is None:
        raise ValueError(
            f"{name!r} is read from a folder; pass data_dir, or set DUELRANK_DATA, to one that "
            f"holds label_ranking/{kind}/{name}.csv."
        )
    path = folder / "label_ranking" / kind / f"{name}.csv"
    if not path.is_file():
        known = sorted(file.stem for file in path.parent.glob("*.csv"))
        raise FileNotFoundError(
            f"name must be one of the sets with {kind} in {folder}: "
            f"{', '.join(known) or 'there are none'}; got {name!r}."
        )
    return path


def _number(cell: str) -> float:
    """Return NaN for what is no number, such as 1_000, which only Python takes for one."""
    try:
        return np.nan if "_" in cell else float(cell)
    except ValueError:
        return np.nan


def _target(values: NDArray[np.float64], kind: str, path: Path) -> NDArray[Any]:
    if kind == "ranks":
        partial = bool(np.isnan(values).any())
        return check_ranks(values, partial=partial, name=f"the ranks in {path.name}")
    sums = values.sum(axis=1, keepdims=True)
    # Posteriors are written with five digits, so their sums are not exact.
    if not np.all(values >= 0) or not np.allclose(sums, 1, atol=1e-3):
        raise ValueError(f"{path} must hold posteriors: numbers ≥ 0 that sum to one in every row.")
    return values / sums
