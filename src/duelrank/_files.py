"""Files that are written completely or not at all."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

PARTIAL = ".partial"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file completely or not at all.

    Parameters
    ----------
    path : path
        The file to write. An old file stays until the new one is complete, and stays for good if
        something interrupts the writing. What an earlier process could not remove, because it was
        killed, is removed.

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
    remove_abandoned(target)
    partial, lock = _new_partial(target)
    try:
        with lock:
            if target.exists():
                shutil.copymode(target, partial)
            yield partial
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(partial, target)
        _sync_folder(target.parent)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _new_partial(target: Path) -> tuple[Path, IO[bytes]]:
    """Create a file beside the target, with the usual mode of a new file, and lock it."""
    while True:
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PARTIAL}")
        lock = partial.open("xb")
        _try_lock(lock)
        if partial.exists():
            return partial, lock
        lock.close()  # another process took it for abandoned before it was locked


def remove_abandoned(target: Path) -> None:
    """Remove what a process that was killed has left behind while it wrote a file.

    Files that are still being written are locked.

    Parameters
    ----------
    target : Path
        The file that was to be written.
    """
    if fcntl is None:
        return
    for left in target.parent.glob(f".{glob.escape(target.name)}.????????{PARTIAL}"):
        with suppress(OSError), left.open("r+b") as file:
            if _try_lock(file):
                left.unlink()


def _try_lock(file: IO[bytes]) -> bool:
    """Lock a file, for as long as it is open in this process; tell whether nobody else has."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or on a file system without locks
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Let the new name of a file survive a loss of power, where folders can be synchronised."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
