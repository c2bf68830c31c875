"""Pipes: what comes through them can be waited for and given up.

pyarrow reads streams in a thread of its own, and the thread that called it waits without looking at
signals. So nobody could interrupt a command whose input has gone silent. Here pyarrow is called in
one more thread, the caller waits for it in Python, and if it is interrupted, the reading ends.
"""

from __future__ import annotations

import os
import selectors
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar

Result = TypeVar("Result")
PART_BYTES = 2**20  # read at a time; a pipe of Linux holds 64 KiB


def is_pipe(file: Any) -> bool:
    """Tell whether a file is a pipe or a socket of the system."""
    try:
        mode = os.fstat(file.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # it is none of the system's files
        return False
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


class Pipe:
    """A pipe to read from, until it ends or is given up.

    Parameters
    ----------
    file : BufferedReader
        The pipe; nobody else may read from it afterwards.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._begun: bytes = file.read1()  # what somebody has buffered already, or what comes first
        self._lock = threading.Lock()
        self._given_up = False
        self._woken, self._wakes = os.pipe()
        self._waiting = selectors.DefaultSelector()
        for descriptor in (file.fileno(), self._woken):
            self._waiting.register(descriptor, selectors.EVENT_READ)

    def read(self, size: int | None = None) -> bytes:
        """Read so many bytes, fewer only at the end; all of them by default."""
        with self._lock:
            return b"".join(self._parts(-1 if size is None else size))

    def _parts(self, size: int) -> Iterator[bytes]:
        while size != 0:
            most = PART_BYTES if size < 0 else min(size, PART_BYTES)
            if self._begun:
                part, self._begun = self._begun[:most], self._begun[most:]
            else:
                self._waiting.select()
                if self._given_up:
                    raise OSError("it was given up")
                part = os.read(self._file.fileno(), most)
            if not part:
                return
            yield part
            size = size if size < 0 else size - len(part)

    def give_up(self) -> None:
        """Let whoever waits for the pipe wait no more."""
        self._given_up = True
        os.write(self._wakes, b"\0")

    def close(self) -> None:
        """Close what was opened here; the file is left to the caller."""
        self.give_up()
        with self._lock:
            self._waiting.close()
            os.close(self._woken)
            os.close(self._wakes)


def waiting_for(
    file: BinaryIO | Pipe, function: Callable[..., Result], *arguments: Any, **options: Any
) -> Result:
    """Call a function that reads a file; if it is a pipe, an interrupt ends the call."""
    if not isinstance(file, Pipe):
        return function(*arguments, **options)
    with ThreadPoolExecutor(1) as executor:
        call = executor.submit(function, *arguments, **options)
        try:
            return call.result()
        except BaseException:
            file.give_up()
            raise
