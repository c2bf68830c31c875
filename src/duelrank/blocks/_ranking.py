"""Rankings of rows that come in blocks: into files, or as Dask arrays to be computed later.

`write_rankings` is for users. `by_blocks` decorates whatever predicts, so that it takes Dask
collections as well, and `refuse_blocks` is for what cannot. In all of them a block is ranked by the
process that has it, and the model is the result of one task, from which workers copy it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches
from sklearn.utils.validation import validate_data

from duelrank._progress import Progress
from duelrank._sklearn import take_rows
from duelrank._templates import known_labels
from duelrank.blocks._passes import as_task, passes_over
from duelrank.blocks._sources import RowBlocks, as_row_blocks, in_blocks, is_dask_frame

RANKS_BYTES = 2**28  # of the ranks of the rows of a block that are ranked at a time
UNFINISHED = ".unfinished-"
PART = re.compile(r"part-\d{5,}\.parquet")

Predict = TypeVar("Predict", bound=Callable[..., Any])


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
        ``part-00000.parquet`` and so on, are replaced, and all other files are let be.
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
        # Blocks have no callbacks: only standard error hears of them.
        Progress(blocks, len(blocks), "block", verbose) as progress,
    ):
        digits = max(5, len(str(len(blocks) - 1)))
        output = _Output(str(unfinished), digits, places, n_labels, bool(probabilities))
        done = progress.step if verbose else None
        names = passes_over([blocks]).each(_write_block, model, output, done=done)
        return _replace_parts(target, unfinished, names, overwrite)


def by_blocks(template: Callable[..., NDArray[Any]]) -> Callable[[Predict], Predict]:
    """Let ``predict(estimator, X, *args)`` take a Dask collection, and return a Dask array.

    Parameters
    ----------
    template : callable
        ``template(estimator, *args)`` checks the arguments, and returns the answer for no rows: an
        array with the right columns and type.

    Returns
    -------
    decorate : callable
        For functions and methods that can be imported by their name, since they travel.
    """

    def decorate(predict: Predict) -> Predict:
        @wraps(predict)
        def predict_any(estimator: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
            if not in_blocks(X):
                return predict(estimator, X, *args, **kwargs)
            if isinstance(X, RowBlocks):
                raise TypeError(
                    "X must be rows in memory or a Dask array or dataframe, "
                    f"got {X!r}; duelrank.blocks.write_rankings ranks it into files."
                )
            nothing = template(estimator, *args, **kwargs)
            _check_columns(estimator, X)
            answer = partial(_answer, predict_any, nothing, args, kwargs)
            return _lazily(answer, X, as_task(estimator), nothing, predict.__name__.strip("_"))

        return cast("Predict", predict_any)

    return decorate


def refuse_blocks(X: Any, advice: str) -> None:
    """Raise if rows come in blocks where they have to be in memory.

    Parameters
    ----------
    X : anything
        The points.
    advice : str
        What to do instead.
    """
    if in_blocks(X):
        raise TypeError(f"X must be rows in memory, got {type(X).__name__}; {advice}.")


def _check_columns(estimator: Any, X: Any) -> None:
    """Compare number and names of features with those of fit, before any row is made."""
    if hasattr(estimator, "n_features_in_") and isinstance(estimator, BaseEstimator):
        head = X._meta if is_dask_frame(X) else np.empty((0, *X.shape[1:]))
        if head.ndim == 2:
            validate_data(estimator, head, reset=False, skip_check_array=True)


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
    # What a process left behind that was killed is no reason to stop.
    if not overwrite and not all(file.name.startswith(UNFINISHED) for file in files):
        raise FileExistsError(
            f"folder must be empty or new, unless overwrite=True; {folder} has files in it."
        )


@contextmanager
def _unfinished_in(folder: Path) -> Iterator[Path]:
    """Make a folder for what is not finished, and remove it in the end with all that is in it.

    That takes along what workers were writing when they died.
    """
    path = folder / f"{UNFINISHED}{secrets.token_hex(4)}"
    path.mkdir()
    try:
        yield path
    finally:
        # Tasks that are still running after an error cannot write to a name they do not know.
        with suppress(OSError):
            shutil.rmtree(path.rename(path.with_suffix(".gone")))


class _Output(NamedTuple):
    """Where and how the rankings of a block are written."""

    folder: str
    digits: int
    places: int
    n_labels: int
    with_probabilities: bool


def _write_block(number: int, X: Any, model: Any, output: _Output) -> str:
    """Rank a block into a file, and return the file's name."""
    import pyarrow as pa

    from duelrank.tables import rank_points, wide_columns, writing

    name = f"part-{number:0{output.digits}}.parquet"
    with writing(str(Path(output.folder, name))) as write:
        # Of no rows there is one batch, for the columns.
        for rows in gen_batches(max(X.shape[0], 1), max(RANKS_BYTES // (8 * output.n_labels), 1)):
            points = take_rows(X, rows)
            rankings = rank_points(model, points, output.places, output.with_probabilities)
            write(pa.table(wide_columns(rankings)))
    return name


def _replace_parts(folder: Path, unfinished: Path, names: list[str], overwrite: bool) -> list[Path]:
    """Move new files into a folder, and remove the old ones that would pass for theirs."""
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


def _answer(
    predict: Callable[..., NDArray[Any]],
    nothing: NDArray[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    block: Any,
    estimator: Any,
) -> NDArray[Any]:
    return predict(estimator, block, *args, **kwargs) if block.shape[0] else nothing


def _lazily(
    answer: Callable[..., NDArray[Any]], X: Any, model: Any, nothing: NDArray[Any], name: str
) -> Any:
    """Return the Dask array of ``answer(block, model)`` for all blocks of rows."""
    import dask.array as da

    if is_dask_frame(X):
        from dask import delayed

        run = delayed(answer, pure=False)
        shape = (np.nan, *nothing.shape[1:])
        answers = [run(part, model) for part in RowBlocks.from_dask(X).parts]
        blocks = [da.from_delayed(part, shape, meta=nothing) for part in answers]
        return da.concatenate(blocks, axis=0, allow_unknown_chunksizes=True)
    return da.blockwise(
        answer,
        "ik"[: nothing.ndim],
        X,
        "ij"[: X.ndim],
        model,
        None,
        new_axes=dict(zip("k", nothing.shape[1:])),
        concatenate=True,  # of blocks of columns, if there are any
        meta=nothing,
        token=name,
    )
