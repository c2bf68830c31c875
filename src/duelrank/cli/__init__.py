"""The ``duelrank`` command.

Every command has a file. The commands share `_group` (errors and exit codes), `_options`, `_files`
(checks of file names), `_terminal` (text for people to read), `_model` (a model file and the data
it takes) and `_labels` (labels of different files).
Nothing heavy is imported before there is work to do, so help and error messages appear at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of the process."""
    # Threads of boosting that wait for each other sleep. By default they spin, and where others use
    # the cores too, that takes several times as long. Libraries look at it when they are loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from duelrank.cli._commands import duelrank
        from duelrank.cli._group import INTERRUPTED, TERMINATED
    except ImportError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"The duelrank command needs {error.name}: pip install 'duelrank[cli]'")
    try:
        duelrank()
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            # Threads of libraries that were at work could abort the interpreter on its way out.
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(end.code)
        raise
