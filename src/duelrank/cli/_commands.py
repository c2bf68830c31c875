"""All commands, as commands of ``duelrank``."""

from __future__ import annotations

from duelrank.cli._check import check
from duelrank.cli._evaluate import evaluate
from duelrank.cli._explain import explain
from duelrank.cli._export import export
from duelrank.cli._fit import fit
from duelrank.cli._group import duelrank
from duelrank.cli._info import info
from duelrank.cli._rank import rank
from duelrank.cli._report import report
from duelrank.cli._update import update

__all__ = ["duelrank"]

for command in (evaluate, fit, update, rank, explain, check, report, export, info):
    duelrank.add_command(command)
