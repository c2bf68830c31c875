"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file whole or not at all.

    Parameters
    ----------
    path : path
        The file to write. What is there stays until the new file is complete, and whenever
        something interrupts.

    Yields
    ------
    partial : Path
        A new file in the same folder to write to, which takes the place of `path` in the end. What
        is no regular file, such as a pipe, is yielded itself.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        if target.is_dir():
            raise IsADirectoryError(f"{path} is a folder.")
        yield target
        return
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        # Created here, so that the mode of a new file is the usual one.
        partial.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, partial)
        yield partial
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
