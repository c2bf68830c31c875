"""Rows that come in blocks: from Dask, from Parquet files and from memory maps.

When rows no longer fit in memory, they come in *blocks* of consecutive rows. Each block is made
when it is needed and forgotten afterwards. A fit takes *passes* over all blocks: it applies a
kernel to each of them and sums the results up as a tree; in this process, or on a Dask cluster of
any size.

`RowBlocks` says what the blocks are, `DuelRanker.fit` takes it in place of an array (Dask arrays
and dataframes as well), and `write_rankings` ranks block after block into Parquet files.
"""

from __future__ import annotations

# For other rooms: labelled rows in blocks, their digests, passes over them, and predictions block
# by block.
from duelrank.blocks._census import Census as Census
from duelrank.blocks._digest import Digests as Digests
from duelrank.blocks._digest import digest_in_order as digest_in_order
from duelrank.blocks._digest import digests_of_labels as digests_of_labels
from duelrank.blocks._digest import row_digests as row_digests
from duelrank.blocks._kernels import Columns as Columns
from duelrank.blocks._kernels import add_up as add_up
from duelrank.blocks._labeled import LabeledBlocks as LabeledBlocks
from duelrank.blocks._lazy import predict_by_blocks as predict_by_blocks
from duelrank.blocks._lazy import refuse_blocks as refuse_blocks
from duelrank.blocks._passes import Passes as Passes
from duelrank.blocks._ranking import write_rankings
from duelrank.blocks._sources import RowBlocks
from duelrank.blocks._sources import in_blocks as in_blocks

__all__ = ["RowBlocks", "write_rankings"]
