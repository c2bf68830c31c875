"""Strings from files never command a terminal."""

import io
import sys

import pytest

pytest.importorskip("rich")
pytest.importorskip("pyarrow")

import pyarrow as pa
from click.testing import CliRunner
from rich.table import Table
from sklearn.datasets import load_iris

from duelrank import DuelRanker
from duelrank.cli._commands import duelrank
from duelrank.cli._terminal import note, plain_lines, say, show
from duelrank.storage import _archive, save
from duelrank.tables import writing

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"


def described_as(path, **changes):
    """Save a model whose file says something else about itself, with the right checksum."""
    X, y = load_iris(return_X_y=True)
    save(DuelRanker(random_state=0).fit(X, y), path)
    archive = _archive.read_archive(path)
    complete = _archive._with_description(archive.members, {**archive.description, **changes})
    path.write_bytes(_archive.write_members(complete, compress=False))


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"rows": ESCAPE, "data": ESCAPE}},
        {"facts": {"notes": [ESCAPE], "engine_trials": [{"name": ESCAPE, "score": 0.5}]}},
        {"facts": {"targets": [ESCAPE], "shown": [ESCAPE]}},
        {"labels": [ESCAPE, "b"], "columns": {ESCAPE: ESCAPE}},
        {"engine": ESCAPE, "aggregation": ESCAPE, "ties": ESCAPE, "steps": [ESCAPE]},
        {"versions": {ESCAPE: ESCAPE}, "created": ESCAPE, "target": ESCAPE},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_info_prints_no_control_characters(changes, tmp_path):
    described_as(tmp_path / "m.skops", **changes)
    result = CliRunner().invoke(duelrank, ["info", str(tmp_path / "m.skops")])
    assert result.exit_code == 0
    assert "owned" in result.output
    assert not set("\x1b\x07\x9b") & set(result.output)


def test_nothing_passes_the_functions_that_write(capsys):
    grid = Table.grid()
    grid.add_row(ESCAPE)
    for write in (note, say, show):
        write(f"a line {ESCAPE}")
    show(grid)
    written = "".join(capsys.readouterr())
    assert written.count("owned") == 4
    assert not set("\x1b\x07\x9b") & set(written)


def test_lines_stay_lines():
    assert plain_lines("one\ntwo\x1b\r") == "one\ntwo\ufffd\ufffd"


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", [Terminal, io.TextIOWrapper])
def test_tables_are_exact_except_on_a_terminal(kind, monkeypatch):
    stream = kind(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    with writing("-") as write:
        write(pa.table({"label": [ESCAPE, "a\tb"]}))
    written = stream.buffer.getvalue().decode()
    assert ("\x1b" in written) == (kind is not Terminal)
    assert "owned" in written
    assert "a\tb" in written
