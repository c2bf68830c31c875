"""Mistakes in file names, found before anything is imported or read.

The folder of an output is made just before the output is written, so a command that fails earlier
leaves nothing behind.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from duelrank._choices import OUTPUT_ENDINGS, STREAM

FIGURE_ENDINGS = (".png", ".svg", ".pdf")


class Mistake(click.ClickException):
    """A mistake in the arguments that one sentence explains, without the usage around it."""

    exit_code = 2


def check_inputs(*paths: str | None) -> None:
    """Raise if a file does not exist."""
    for path in paths:
        if path is None or path == STREAM:
            continue
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder, not a file.")
        if not os.path.exists(path):
            raise ValueError(f"{path} does not exist.")


def check_output(path: str, *inputs: str | None) -> None:
    """Raise if a file cannot be written, or is one of the inputs."""
    if path == STREAM:
        return
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder, not a file.")
    for read in inputs:
        if read is not None and _is_same(path, read):
            name = "standard input" if read == STREAM else read
            raise Mistake(f"{path} would overwrite {name}, which is read; write to another file.")
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        return
    folder = next(parent for parent in Path(path).absolute().parents if parent.exists())
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: {folder} is no folder.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: permission denied.")


def check_table_output(path: str, *inputs: str | None) -> None:
    """Raise if the name of a table does not say how to write it."""
    if path != STREAM and Path(path).suffix.lower() not in OUTPUT_ENDINGS:
        endings = ", ".join(OUTPUT_ENDINGS)
        raise ValueError(f"{path} must end in one of {endings}, which say how to write it.")
    check_output(path, *inputs)


def check_figure(path: str, *inputs: str | None) -> None:
    """Raise if the name of a figure does not say how to draw it."""
    if Path(path).suffix.lower() not in FIGURE_ENDINGS:
        raise Mistake(f"{path} must end in .png, .svg or .pdf, which say how to draw it.")
    check_output(path, *inputs)


def make_folder_of(path: str) -> None:
    """Make the folder of an output, if it does not exist."""
    if path != STREAM:
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)


def _is_same(output: str, read: str) -> bool:
    try:
        there = os.stat(0) if read == STREAM else os.stat(read)
        return os.path.samestat(os.stat(output), there)
    except OSError:  # one of them does not exist
        return False
