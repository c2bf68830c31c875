"""Texts with labels: questions to a bank and their intents, job titles and their occupations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets._csv import check_rows, read_csv
from duelrank.datasets._folder import data_folder


class _Set(NamedTuple):
    """A set of texts: its files by subset, the columns of text and labels, and its source."""

    files: dict[str | None, str]
    columns: tuple[str, str]
    source: str


SETS = {
    "banking77": _Set(
        {
            None: "banking77_train.csv",
            "train": "banking77_train.csv",
            "test": "banking77_test.csv",
        },
        ("text", "category"),
        "BANKING77 of Casanueva et al. (2020), CC BY 4.0",
    ),
    "onet": _Set(
        {None: "onet_titles.csv"},
        ("title", "occupation"),
        "the alternate titles of O*NET, U.S. Department of Labor, CC BY 4.0",
    ),
}


class Texts(NamedTuple):
    """Texts and their labels, n of each, as arrays of str objects."""

    texts: NDArray[Any]
    labels: NDArray[Any]


def load_text(
    name: str,
    *,
    subset: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Texts:
    """Load texts with labels.

    Parameters
    ----------
    name : {"banking77", "onet"}
        The data set. "banking77" are 13,083 questions to a bank, each with one of 77 intents
        (Casanueva et al. 2020, CC BY 4.0). "onet" are job titles and the codes of occupations, the
        alternate titles of O*NET (U.S. Department of Labor, CC BY 4.0). A title with several
        occupations is there once for each.
    subset : {"train", "test"}, default=None
        Part of "banking77", by default "train". "onet" has no parts: all pairs of a title and an
        occupation are returned.
    data_dir : path, default=None
        Folder that holds ``text/banking77_train.csv`` and ``text/banking77_test.csv``, with columns
        text and category, or ``text/onet_titles.csv``, with columns title and occupation. By
        default the one that the environment variable ``DUELRANK_DATA`` names. Nothing is
        downloaded.

    Returns
    -------
    data : Texts
        Named tuple of texts (n,) and labels (n,), arrays of str objects.
    """
    if name not in SETS:
        raise ValueError(f"name must be one of {', '.join(SETS)}; got {name!r}.")
    files, columns, source = SETS[name]
    if subset not in files:
        parts = [repr(part) for part in files if part is not None]
        accepted = " or ".join(parts) if parts else "None, as the set has no parts"
        raise ValueError(f"subset of {name} must be {accepted}; got {subset!r}.")
    path = _file_of(name, files[subset], source, data_dir)
    found, lines, cells = read_csv(path)
    if not set(columns) <= set(found):
        raise ValueError(f"{path} must have the columns {' and '.join(columns)}; got {found}.")
    check_rows(path, len(found), lines, cells)
    places = [found.index(column) for column in columns]
    return Texts(*(np.array([row[place] for row in cells], dtype=object) for place in places))


def _file_of(name: str, file: str, source: str, data_dir: str | os.PathLike[str] | None) -> Path:
    folder = data_folder(data_dir)
    if folder is None:
        raise ValueError(
            f"{name} is read from a folder; pass data_dir, or set DUELRANK_DATA, to one that holds "
            f"text/{file}: {source}."
        )
    path = folder / "text" / file
    if not path.is_file():
        raise FileNotFoundError(f"data_dir must hold text/{file}, {source}; {path} is missing.")
    return path
