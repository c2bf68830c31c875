"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file completely or not at all.

    Parameters
    ----------
    path : path
        The file to write. An old file stays until the new one is complete, and stays for good if
        something interrupts the writing.

    Yields
    ------
    partial : Path
        The file to write to: a new one in the same folder, which replaces `path` in the end. If
        `path` is not a regular file but a pipe, for example, it is `path` itself.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        if target.is_dir():
            raise IsADirectoryError(f"{path} is a folder.")
        yield target
        return
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        # The file is created here, so that its mode is the usual one of a new file.
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
