"""Rankings of rows that come in blocks, written to files."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

from duelrank._batches import batches
from duelrank._classifiers import known_labels
from duelrank._progress import Progress
from duelrank._sklearn import take_rows
from duelrank.blocks._kernels import Columns
from duelrank.blocks._passes import passes_over
from duelrank.blocks._sources import as_row_blocks, in_blocks

RANKS_BYTES = 2**28  # of the ranks of a batch of rows of a block
UNFINISHED = ".unfinished-"
PART = re.compile(r"part-\d{5,}\.parquet")


def write_rankings(
    model: Any,
    X: Any,
    folder: str | os.PathLike[str],
    *,
    top: int | None = None,
    probabilities: bool = False,
    overwrite: bool = False,
    verbose: bool = False,
) -> list[Path]:
    """Rank the labels of all rows block by block, into one Parquet file per block.

    Blocks are made, ranked and written by the same task, on Dask if they come from there or a
    client is connected, and otherwise in this process one after the other. Their rows never get
    here.

    Parameters
    ----------
    model : fitted classifier, pipeline or search
        As in `duelrank.predict_ranks`.
    X : RowBlocks, Dask array or Dask dataframe
        Query points.
    folder : path
        Where to write; it is made if it does not exist. On a cluster all machines have to see it
        under this name. The files appear when all blocks are done, and not at all if one fails.
    top : int, default=None
        How many labels of every row, from 1 to K; by default all of them.
    probabilities : bool, default=False
        Whether to write their probabilities as well, for models with ``predict_proba``.
    overwrite : bool, default=False
        Whether `folder` may have files already. Rankings written there before,
        ``part-00000.parquet`` and so on, are replaced; all other files stay.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Returns
    -------
    files : list of Path
        ``part-00000.parquet``, ``part-00001.parquet`` and so on, in the order of the rows. Columns
        are ``label_1`` for the most probable label, ``probability_1`` if asked for, ``label_2`` and
        so on.

    Examples
    --------
    >>> import tempfile
    >>> from pyarrow.parquet import read_table
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> from duelrank.blocks import RowBlocks, write_rankings
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write_rankings(ranker, RowBlocks.from_array(X, 40), folder, top=2)
    ...     print(len(files), read_table(folder).slice(83, 1).to_pylist())
    4 [{'label_1': 2, 'label_2': 1}]
    """
    if not in_blocks(X):
        raise TypeError(
            "X must be a RowBlocks or a Dask array or dataframe, got "
            f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}; RowBlocks.from_array cuts "
            "arrays into blocks."
        )
    n_labels = len(known_labels(model))
    places = _check_top(top, n_labels)
    if probabilities and not hasattr(model, "predict_proba"):
        raise ValueError(
            "probabilities must be False for a model without predict_proba, such as "
            f"{type(model).__name__}, got {probabilities!r}."
        )
    target = Path(os.path.abspath(folder))
    _check_folder(target, overwrite)
    target.mkdir(parents=True, exist_ok=True)
    blocks = as_row_blocks(X)
    with (
        _unfinished_in(target) as unfinished,
        # Blocks have no callbacks: progress goes to standard error only.
        Progress(blocks, len(blocks), "block", verbose) as progress,
    ):
        digits = max(5, len(str(len(blocks) - 1)))
        output = _Output(str(unfinished), digits, places, n_labels, bool(probabilities))
        done = progress.step if verbose else None
        names = passes_over([blocks]).each(_write_block, model, output, done=done)
        return _replace_parts(target, unfinished, names, overwrite)


def _check_top(top: int | None, n_labels: int) -> int:
    if top is None:
        return n_labels
    if not isinstance(top, Integral) or isinstance(top, bool) or not 1 <= top <= n_labels:
        raise ValueError(f"top must be None or an integer from 1 to {n_labels}, got {top!r}.")
    return int(top)


def _check_folder(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"folder must be a folder, but {folder} is a file.")
    files = list(folder.iterdir()) if folder.is_dir() else []
    # Leftovers of a process that was killed are no reason to stop.
    if not overwrite and not all(file.name.startswith(UNFINISHED) for file in files):
        raise FileExistsError(
            f"folder must be empty or new, unless overwrite=True; {folder} has files in it."
        )


@contextmanager
def _unfinished_in(folder: Path) -> Iterator[Path]:
    """Make a folder for what is not finished, and remove it in the end with all that is in it.

    This also removes what workers were writing when they died.
    """
    path = folder / f"{UNFINISHED}{secrets.token_hex(4)}"
    path.mkdir()
    try:
        yield path
    finally:
        # Tasks may still run after an error; they cannot write to the new name.
        with suppress(OSError):
            shutil.rmtree(path.rename(path.with_suffix(".gone")))


class _Output(NamedTuple):
    """Where and how the rankings of a block are written."""

    folder: str
    digits: int
    places: int
    n_labels: int
    with_probabilities: bool


def _write_block(number: int, columns: Columns, model: Any, output: _Output) -> str:
    """Rank a block into a file, and return the file's name."""
    import pyarrow as pa

    from duelrank.tables import rank_points, wide_columns, writing

    name = f"part-{number:0{output.digits}}.parquet"
    with writing(str(Path(output.folder, name))) as write:
        for rows in batches(columns.X.shape[0], RANKS_BYTES // (8 * output.n_labels)):
            points = take_rows(columns.X, rows)
            rankings = rank_points(model, points, output.places, output.with_probabilities)
            write(pa.table(wide_columns(rankings)))
    return name


def _replace_parts(folder: Path, unfinished: Path, names: list[str], overwrite: bool) -> list[Path]:
    """Move new files into a folder, and remove old ones that could be taken for new ones."""
    files = [folder / name for name in names]
    for file in files:
        os.replace(unfinished / file.name, file)
    new = set(files)
    for file in folder.iterdir():
        if PART.fullmatch(file.name) and file not in new:
            file.unlink()
        elif overwrite and file.name.startswith(UNFINISHED) and file != unfinished:
            shutil.rmtree(file, ignore_errors=True)  # of a process that was killed
    return files
