"""RowBlocks: long tables and columns that are made block by block, by whoever needs a block."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from duelrank._parameters import check_count

ROWS_PER_BLOCK = 100_000


class RowBlocks:
    """A table or a column cut into blocks of consecutive rows, none of which is held.

    A RowBlocks knows only how to make each block: which rows of which file, or which task of a Dask
    graph. The process that needs a block makes it, and forgets it afterwards.

    Use `from_parquet`, `from_array` or `from_dask`; `DuelRanker.fit` takes Dask collections as they
    are.

    Parameters
    ----------
    parts : sequence
        One recipe per block: a ``functools.partial`` to call without arguments, or a Dask Delayed.
        A block is an array, (m, n_features) or (m,), or a dataframe or series.
    lengths : sequence of int, default=None
        Number of rows of every block, where that is known.

    Attributes
    ----------
    parts : list
        The recipes.
    lengths : tuple of int, or None
        The number of rows of the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.blocks import RowBlocks
    >>> blocks = RowBlocks.from_array(np.arange(10), rows_per_block=4)
    >>> blocks
    RowBlocks(3 blocks, 10 rows)
    >>> blocks.parts[-1]()
    array([8, 9])
    """

    def __init__(self, parts: Sequence[Any], lengths: Iterable[int] | None = None) -> None:
        self.parts = list(parts)
        self.lengths = None if lengths is None else tuple(int(length) for length in lengths)
        if not self.parts:
            raise ValueError("parts must hold at least one block, got none.")
        if self.lengths is not None and len(self.lengths) != len(self.parts):
            raise ValueError(
                f"lengths must have one number for each of {len(self.parts)} parts, "
                f"got {len(self.lengths)}."
            )

    @classmethod
    def from_array(cls, array: Any, rows_per_block: int = ROWS_PER_BLOCK) -> RowBlocks:
        """Cut an array, or one mapped from a file, into blocks.

        Parameters
        ----------
        array : ndarray, dataframe or memmap, of shape (n, n_features) or (n,)
            For a ``numpy.memmap`` (or ``numpy.load(path, mmap_mode="r")``) only the name of the
            file is kept, and blocks are read from the file. On a cluster all machines have to see
            the file under that name. An array in memory stays there, and its blocks travel to
            whoever needs them, again in every pass: that suits labels and weights.
        rows_per_block : int, default=100,000
            Most rows of a block. A few megabytes, up to a few hundred, make a good block.

        Returns
        -------
        blocks : RowBlocks
            The last one may be shorter.
        """
        check_count("rows_per_block", rows_per_block)
        shape = getattr(array, "shape", ())
        if not 1 <= len(shape) <= 2 or sparse.issparse(array) or is_dask(array):
            is_sparse = sparse.issparse(array)
            advice = " A fit takes sparse rows as they are, without blocks." if is_sparse else ""
            raise ValueError(
                "array must be a dense array of shape (n, n_features) or (n,), got "
                f"{type(array).__name__}{f' of shape {shape}' if shape else ''}.{advice}"
            )
        if array.shape[0] == 0:
            raise ValueError(f"array must have at least one row, got shape {array.shape}.")
        starts = range(0, array.shape[0], int(rows_per_block))
        stops = [min(start + int(rows_per_block), array.shape[0]) for start in starts]
        lengths = [stop - start for start, stop in zip(starts, stops, strict=True)]
        recipe = _rows_of_file(array) if isinstance(array, np.memmap) else partial(_slice, array)
        return cls([recipe(*ends) for ends in zip(starts, stops, strict=True)], lengths)

    @classmethod
    def from_parquet(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        columns: str | Sequence[str],
        rows_per_block: int = ROWS_PER_BLOCK,
    ) -> RowBlocks:
        """Cut Parquet files into blocks of whole row groups.

        Parameters
        ----------
        path : path or list of paths
            A file, a folder of ``*.parquet`` files, a pattern such as ``"train/*.parquet"``, or a
            list of files. On a cluster all machines have to see them under these names.
        columns : str or list of str
            The features, whose blocks are dataframes; or the name of one column, such as the
            labels, whose blocks are arrays. Blocks of different columns of the same files agree.
        rows_per_block : int, default=100,000
            Row groups, the smallest parts that a Parquet file is read in, are put together as long
            as a block has no more rows. A larger row group is a block of its own.

        Returns
        -------
        blocks : RowBlocks
            In the order of the files, these sorted by name if they were not listed.
        """
        check_count("rows_per_block", rows_per_block)
        parts, lengths = [], []
        names = [columns] if isinstance(columns, str) else list(columns)
        if not names:
            raise ValueError("columns must name at least one column, got none.")
        for file in _parquet_files(path):
            with _parquet().ParquetFile(file) as parquet:
                missing = [name for name in names if name not in parquet.schema_arrow.names]
                if missing:
                    raise ValueError(
                        f"columns must be among those of {file}; it has no {missing[0]!r}."
                    )
                metadata = parquet.metadata
                sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
            for groups in _runs(sizes, int(rows_per_block)):
                parts.append(partial(_read_parquet, file, groups, columns))
                lengths.append(sum(sizes[g] for g in groups))
        return cls(parts, lengths)

    @classmethod
    def from_dask(cls, collection: Any) -> RowBlocks:
        """Take the blocks of a Dask array, dataframe or series.

        Parameters
        ----------
        collection : dask.array.Array, dask.dataframe.DataFrame or Series
            If an array is also cut into blocks of columns, its rows are put together first.

        Returns
        -------
        blocks : RowBlocks
            One for each block of rows, or for each partition of a dataframe. Dask may read several
            partitions as one, more of them the fewer columns are asked for: give `DuelRanker.fit` a
            dataframe and a series as they are, and it keeps them together.
        """
        if not is_dask(collection):
            raise TypeError(
                "collection must be a Dask array, dataframe or series, "
                f"got {type(collection).__name__}."
            )
        if is_dask_frame(collection):
            return cls(collection.to_delayed())
        if collection.ndim == 2 and len(collection.chunks[1]) > 1:
            collection = collection.rechunk({1: -1})
        lengths = collection.chunks[0]
        known = not any(np.isnan(length) for length in lengths)
        parts = collection.to_delayed().ravel().tolist()
        if parts[0].key not in parts[0].dask:  # optimizing loses what has been persisted
            parts = collection.to_delayed(optimize_graph=False).ravel().tolist()
        return cls(parts, lengths if known else None)

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        rows = "an unknown number of" if self.lengths is None else sum(self.lengths)
        return f"RowBlocks({len(self)} block{'s' * (len(self) != 1)}, {rows} rows)"


def is_dask(values: Any) -> bool:
    """Tell whether something is a Dask array, dataframe or series, without importing Dask."""
    # The type is asked, because a Delayed object claims to have every attribute.
    return hasattr(type(values), "__dask_graph__") and hasattr(type(values), "to_delayed")


def is_dask_frame(values: Any) -> bool:
    """Tell whether something is a Dask dataframe or series."""
    return is_dask(values) and not hasattr(values, "chunks")


def in_blocks(values: Any) -> bool:
    """Tell whether rows come in blocks."""
    return isinstance(values, RowBlocks) or is_dask(values)


def as_row_blocks(values: Any, like: RowBlocks | None = None, name: str = "X") -> RowBlocks:
    """Return anything that comes in blocks as RowBlocks; cut an array like other blocks.

    Parameters
    ----------
    values : RowBlocks, Dask collection or array-like
        The rows.
    like : RowBlocks, default=None
        Blocks to agree with.
    name : str, default="X"
        The argument's name, for the error message.
    """
    if is_dask(values):
        lengths = None if like is None else like.lengths
        if lengths is not None and hasattr(values, "chunks") and values.shape[0] == sum(lengths):
            values = values.rechunk({0: lengths})
        values = RowBlocks.from_dask(values)
    elif not isinstance(values, RowBlocks):
        values = _cut_like(values, like, name)
    if like is None:
        return values
    if len(values) != len(like) or (
        None not in (values.lengths, like.lengths) and values.lengths != like.lengths
    ):
        raise ValueError(
            f"{name} must come in the same blocks as X, got {values!r} for {like!r}: give both the "
            "same rows_per_block, rechunk them alike, or take both from one Dask dataframe, as "
            "dataframe and series (to arrays Dask may give other blocks)."
        )
    return values


def load(part: Any) -> Any:
    """Make a block, unless Dask has made it already."""
    return part() if isinstance(part, partial) else part


def _cut_like(values: Any, like: RowBlocks | None, name: str) -> RowBlocks:
    if like is None or like.lengths is None:
        raise TypeError(
            f"{name} must come in blocks as X does, which does not tell how many rows a block has; "
            f"got {type(values).__name__}."
        )
    column = np.asarray(values)
    if column.ndim == 0 or len(column) != sum(like.lengths):
        raise ValueError(
            f"{name} must have one row for each of the {sum(like.lengths)} rows of X, "
            f"got shape {column.shape}."
        )
    ends = np.cumsum(like.lengths).tolist()
    pieces = [_slice(column, end - length, end) for end, length in zip(ends, like.lengths)]
    return RowBlocks(pieces, like.lengths)


def _slice(array: NDArray[Any], start: int, stop: int) -> Any:
    # The recipe holds only the rows of the block, so only these travel with it.
    return partial(_itself, array[start:stop])


def _itself(rows: Any) -> Any:
    return rows


def _rows_of_file(array: np.memmap[Any, Any]) -> Callable[[int, int], Any]:
    """Return what makes recipes for rows of a memory map."""
    if array.filename is None or array.mode == "c" or not array.flags.c_contiguous:
        raise ValueError(
            "array must be a contiguous part of a file, in rows, without changes of its own (mode "
            "'c'), if it is a memory map; numpy.array(array) takes the others into memory."
        )
    path = os.path.abspath(array.filename)
    offset = _offset_in_file(array)
    width = array.shape[1:]
    row_bytes = array.dtype.itemsize * int(np.prod(width, dtype=np.int64))

    def recipe(start: int, stop: int) -> Any:
        begin = offset + start * row_bytes
        return partial(_read_array, path, array.dtype, begin, (stop - start, *width))

    return recipe


def _offset_in_file(array: np.memmap[Any, Any]) -> int:
    """Return where in its file the first row of a memory map is, also of a part of one."""
    mapped: Any = array
    while not isinstance(mapped, mmap.mmap):
        mapped = mapped.base
    map_address = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    map_begins = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    return int(map_begins + array.ctypes.data - map_address)


def _read_array(
    path: str, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...]
) -> NDArray[Any]:
    # Read and not mapped: mapped pages count as memory of the process.
    return np.fromfile(path, dtype, count=int(np.prod(shape)), offset=offset).reshape(shape)


def _parquet_files(path: Any) -> list[str]:
    if not isinstance(path, (str, os.PathLike)):
        files = [os.path.abspath(file) for file in path]
    elif Path(path).is_dir():
        files = sorted(str(file.absolute()) for file in Path(path).glob("*.parquet"))
    elif Path(path).is_file():
        files = [os.path.abspath(path)]
    else:
        files = sorted(os.path.abspath(file) for file in glob(str(path)))
    if not files:
        raise FileNotFoundError(f"path names no Parquet file: {path!r}.")
    return files


def _runs(sizes: list[int], most: int) -> list[list[int]]:
    """Put consecutive numbers together while their sizes do not sum up to more than `most`."""
    runs: list[list[int]] = []
    total = 0
    for number, size in enumerate(sizes):
        if runs and total + size <= most:
            runs[-1].append(number)
            total += size
        else:
            runs.append([number])
            total = size
    return runs


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'duelrank[dask]'.") from error
    return pyarrow.parquet


def _read_parquet(path: str, groups: list[int], columns: str | Sequence[str]) -> Any:
    names = [columns] if isinstance(columns, str) else list(columns)
    with _parquet().ParquetFile(path) as parquet:
        # One thread and no read-ahead: many such tasks run side by side.
        table = parquet.read_row_groups(groups, columns=names, use_threads=False)
    if isinstance(columns, str):
        return table[columns].to_numpy()
    try:
        return table.select(names).to_pandas()
    except ImportError as error:
        raise ImportError(
            "Features of Parquet files need pandas: pip install 'duelrank[dask]'."
        ) from error
