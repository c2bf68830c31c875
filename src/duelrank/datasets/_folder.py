"""The folder of data sets that are read from files."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder that the argument or else ``DUELRANK_DATA`` names, None without both."""
    folder = data_dir if data_dir is not None else os.environ.get("DUELRANK_DATA") or None
    return None if folder is None else Path(folder)
