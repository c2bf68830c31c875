"""Files that are written whole or not at all."""

import os
import subprocess
import sys

import pytest

from duelrank._files import replacing

# Writes a part of a file, says so, and waits.
WRITER = """
import sys
from duelrank._files import replacing

with replacing(sys.argv[1]) as partial:
    partial.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks of files")


@pytest.fixture
def writer(tmp_path):
    """A process that is in the middle of writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "[a].txt")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def partials(folder):
    return [path for path in folder.iterdir() if path.name.endswith(".partial")]


def test_what_a_kill_leaves_behind_is_removed_by_the_next_writer(writer, tmp_path):
    writer.kill()
    writer.wait()
    assert len(partials(tmp_path)) == 1
    (tmp_path / ".b.txt.01234567.partial").touch()  # of another file
    with replacing(tmp_path / "[a].txt") as partial:
        partial.write_text("whole")
        assert {path.name for path in partials(tmp_path)} == {
            partial.name,
            ".b.txt.01234567.partial",
        }
    assert (tmp_path / "[a].txt").read_text() == "whole"
    assert [path.name for path in partials(tmp_path)] == [".b.txt.01234567.partial"]


def test_what_another_process_still_writes_stays(writer, tmp_path):
    with replacing(tmp_path / "[a].txt") as partial:
        partial.write_text("ours")
        assert len(partials(tmp_path)) == 2
    assert (tmp_path / "[a].txt").read_text() == "ours"
    writer.communicate(b"")
    assert writer.returncode == 0
    assert (tmp_path / "[a].txt").read_text() == "half"  # who ends last has the last word
    assert partials(tmp_path) == []


def test_the_folder_is_synchronised_after_the_name_has_changed(tmp_path, monkeypatch):
    done = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda *names: done.append("replace") or replace(*names))

    def recorded(descriptor):
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    with replacing(tmp_path / "a.txt") as partial:
        partial.write_text("whole")
    if os.path.isdir("/proc/self/fd"):
        assert done == ["file", "replace", "folder"]
