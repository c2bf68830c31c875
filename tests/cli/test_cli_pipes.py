"""Tables through pipes whose writers do not come, or say no more: signals end the command."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("skops")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs pipes and signals")

# Imports are slow, so one process imports what the command needs, and all cases are its children.
SCRIPT = """
import json, os, signal, sys, time
import pyarrow.csv, pyarrow.parquet, sklearn.pipeline
import duelrank.cli._fit, duelrank.preprocessing
from duelrank.cli._commands import duelrank
from duelrank.drift import Profile
from duelrank.storage import save
from duelrank.tables import _reading

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells in the background ignore it
HEADS = {"csv": b"a,y\\n", "parquet": b"PAR1\\n"}
told, tells = os.pipe()
opens = _reading._open_bytes
_reading._open_bytes = lambda path: os.write(tells, b".") and opens(path)

def begin(name):
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(name + ".err", os.O_WRONLY | os.O_CREAT), 2)
    code = 0
    try:
        duelrank(["fit", name, "--target", "y", "-o", name + ".skops"])
    except SystemExit as end:
        code = end.code
    os._exit(code)  # to tidy up twelve copies of what was imported takes seconds

running = []
for ending, head in HEADS.items():
    for state in ("no writer", "silence", "silence after rows"):
        for sent in (signal.SIGINT, signal.SIGTERM):
            name = f"{state} {sent.name}.{ending}"
            os.mkfifo(name)
            running.append((begin(name), sent, name))
            os.read(told, 1)
            if state != "no writer":
                writer = os.open(name, os.O_WRONLY)
                if state == "silence after rows":
                    os.write(writer, head)
                    for _ in range(3):
                        os.write(writer, b"1.5,2\\n" * 2**18)
time.sleep(0.3)
started = time.monotonic()
for child, sent, _ in running:
    os.kill(child, sent)
codes = {name: "hangs" for _, _, name in running}
while "hangs" in codes.values() and time.monotonic() < started + 5:
    time.sleep(0.02)
    for child, _, name in running:
        if codes[name] == "hangs":
            gone, status = os.waitpid(child, os.WNOHANG)
            codes[name] = os.waitstatus_to_exitcode(status) if gone else "hangs"
for child, _, name in running:
    if codes[name] == "hangs":
        os.kill(child, signal.SIGKILL)
print(json.dumps(codes))
"""


def test_signals_end_commands_that_wait_for_a_pipe(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    assert len(codes) == 12
    assert codes == {name: 130 if "SIGINT" in name else 143 for name in codes}
    for name in codes:
        word = "interrupted" if "SIGINT" in name else "terminated"
        said = (tmp_path / f"{name}.err").read_text()
        assert said == f"Error: {word}; files that were there are as before.\n"
    assert not list(tmp_path.glob("*.skops"))
