"""Rows that come in blocks: from Dask, from Parquet files and from memory maps.

When rows no longer fit in memory, they come in *blocks* of consecutive rows, each made when it is
needed and forgotten afterwards. A fit takes *passes* over all blocks: a kernel on each of them, and
the results summed up as a tree; in this process, or on a Dask cluster of any size.

`RowBlocks` says what the blocks are, `DuelRanker.fit` takes it in place of an array (Dask arrays
and dataframes as well), and `write_rankings` ranks block after block into Parquet files.
"""

from __future__ import annotations

from duelrank.blocks._ranking import write_rankings
from duelrank.blocks._sources import RowBlocks

__all__ = ["RowBlocks", "write_rankings"]
