"""The ``duelrank`` command.

Every command has a file. The commands share `_group` (errors and exit codes), `_options`, `_files`
(checks of file names), `_terminal` (text for people to read), `_model` (a model file and the data
it takes) and `_labels` (labels of different files).
Nothing heavy is imported before there is work to do, so help and error messages appear at once.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of the process."""
    # Threads of boosting that wait for each other sleep. By default they spin, and where others use
    # the cores too, that takes several times as long. Libraries look at it when they are loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from duelrank.cli._commands import duelrank
    except ImportError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"The duelrank command needs {error.name}: pip install 'duelrank[cli]'")
    duelrank()
