"""Mistakes in file names, found before anything is imported or read."""

from __future__ import annotations

import os
from pathlib import Path

STREAM = "-"
OUTPUT_ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")


def check_inputs(*paths: str | None) -> None:
    """Refuse files that are not there."""
    for path in paths:
        if path is None or path == STREAM:
            continue
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder, not a file.")
        if not os.path.exists(path):
            raise ValueError(f"{path} does not exist.")


def check_output(path: str) -> None:
    """Refuse files that cannot be written where they should be."""
    if path == STREAM:
        return
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder, not a file.")
    if not Path(path).absolute().parent.is_dir():
        raise ValueError(f"{path} cannot be written: its folder does not exist.")


def check_table_output(path: str) -> None:
    """Refuse tables whose name does not say how to write them."""
    if path != STREAM and Path(path).suffix.lower() not in OUTPUT_ENDINGS:
        endings = ", ".join(OUTPUT_ENDINGS)
        raise ValueError(f"{path} must end in one of {endings}, which say how to write it.")
    check_output(path)
