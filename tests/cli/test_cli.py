"""The duelrank command: installed, in a process of its own, and with every mistake one can make."""

import base64
import csv
import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

import pyarrow.parquet as pq  # noqa: E402
from click.testing import CliRunner  # noqa: E402

from duelrank import DuelRanker, predict_order, tables  # noqa: E402
from duelrank.cli import _files, _rank, main  # noqa: E402
from duelrank.cli._commands import duelrank  # noqa: E402
from duelrank.storage import describe, load, save  # noqa: E402

COMMAND = Path(sys.executable).with_name("duelrank")
SPECIES = ["01", "1", "virginica"]
X, Y = load_iris(return_X_y=True)
# Until click 8.2 the two streams had to be asked for apart.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
QUICK = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def run(*arguments, **options):
    """Run the command in this process."""
    return CliRunner(**APART).invoke(duelrank, [str(a) for a in arguments], **options)


def succeed(*arguments, **options):
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result


def fail(*arguments, code=1, **options):
    """Run the command with a mistake and return the one sentence about it."""
    result = run(*arguments, **options)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    sentence = result.stderr.strip().splitlines()[-1]
    assert sentence.startswith("Error: ")
    return sentence.removeprefix("Error: ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of flowers and a model of them."""
    made = tmp_path_factory.mktemp("flowers")
    lines = ["id,length,width,colour,seen,species"]
    for i, (row, k) in enumerate(zip(X, Y, strict=True)):
        length = "" if i % 11 == 5 else f"{row[2]}"
        colour = ["red", "blue", "NA"][(i * 7) % 3]
        lines.append(f"f{i},{length},{row[3]},{colour},2024-01-{1 + i % 28:02},{SPECIES[k]}")
    (made / "flowers.csv").write_text("\n".join(lines) + "\n")
    options = ("--target", "species", "--engine", "logistic")
    succeed("fit", made / "flowers.csv", *options, "-o", made / "flowers.skops")
    return made


@pytest.fixture
def flowers(folder):
    return folder / "flowers.csv"


@pytest.fixture
def model(folder):
    return folder / "flowers.skops"


@pytest.fixture(scope="module")
def loaded(folder):
    return load(folder / "flowers.skops")


# The installed command


def command(*arguments, **options):
    environment = os.environ | {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        env=environment,
        check=False,
        **options,
    )


@pytest.mark.skipif(not COMMAND.exists(), reason="the package is not installed")
def test_a_day_with_the_installed_command(flowers, tmp_path):
    fitted = command("fit", flowers, "--target", "species", "-o", "my model.skops", cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stdout == b""
    assert b"Fitted 3 duels between 3 labels on 150 rows" in fitted.stderr

    with flowers.open("rb") as stdin:
        ranked = command("rank", "my model.skops", "-", "--top", 2, stdin=stdin, cwd=tmp_path)
    assert ranked.returncode == 0, ranked.stderr
    header, *rows = ranked.stdout.decode().splitlines()
    assert header == "label_1,probability_1,label_2,probability_2"
    assert len(rows) == 150

    out = command("rank", "my model.skops", flowers, "-o", "ranked.parquet", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    table = pq.read_table(tmp_path / "ranked.parquet")
    assert table["label_1"].to_pylist() == [row.split(",")[0] for row in rows]

    wrong = command("rank", "my model.skops", "nothing.csv", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (1, b"")
    assert wrong.stderr == b"Error: nothing.csv does not exist.\n"


ERRORS = {
    "missing file": ("rank flowers.skops nothing.csv", "nothing.csv does not exist."),
    "missing model": ("info nothing.skops", "nothing.skops does not exist."),
    "unknown column": (
        "fit flowers.csv --target kind -o new.skops",
        "flowers.csv has no column 'kind'; it has id, length, width, colour, seen, species.",
    ),
    "wrong columns": (
        "rank flowers.skops wrong.csv -o new.csv",
        "wrong.csv has no columns 'width', 'colour', 'seen'; it has length, extra.",
    ),
    "wrong content": (
        "rank flowers.skops broken.csv -o new.csv",
        "column 'length' must hold numbers, but row 0 (from 0) holds 'long'.",
    ),
    "foreign model": (
        "rank flowers.csv flowers.csv -o new.csv",
        "flowers.csv is not a duelrank model file.",
    ),
    "unreadable model": (
        "explain cut.skops flowers.csv --row 0",
        "cut.skops is truncated or damaged (it does not end where it should).",
    ),
    "overwritten data": (
        "fit flowers.csv --target species -o ./flowers.csv",
        "./flowers.csv would overwrite flowers.csv, which is read; write to another file.",
    ),
}


@pytest.fixture
def here(monkeypatch, capfdbinary, tmp_path):
    """The command as it is installed, down to the bytes that it writes, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")

    def ran(*arguments, given=b""):
        monkeypatch.setattr(sys, "argv", ["duelrank", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capfdbinary.readouterr()

    return ran


@pytest.mark.parametrize("mistake", ERRORS)
def test_errors_are_one_line(mistake, model, flowers, tmp_path, here):
    (tmp_path / "flowers.csv").write_bytes(flowers.read_bytes())
    (tmp_path / "flowers.skops").write_bytes(model.read_bytes())
    (tmp_path / "cut.skops").write_bytes(model.read_bytes()[:-100])
    (tmp_path / "wrong.csv").write_text("length,extra\n1,2\n")
    (tmp_path / "broken.csv").write_text("length,width,colour,seen\nlong,1,red,2024-01-01\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    line, sentence = ERRORS[mistake]
    code, output, errors = here(*line.split())
    assert errors.decode() == f"Error: {sentence}\n"
    assert output == b""
    assert code == (2 if mistake == "overwritten data" else 1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_golden_bytes(model, here):
    rows = 'id,length,width,colour,seen\nx,1.4,0.2,red,2024-01-01\n"a,b",,1.5,blue,\n'
    arguments = ("--top", 2, "--format", "long", "--keep", "id", "--no-probabilities")
    code, output, errors = here("rank", model, "-", *arguments, given=rows.encode())
    assert (code, errors) == (0, b"")
    assert output == b'row,id,place,label\n0,x,1,01\n0,x,2,1\n1,"a,b",1,1\n1,"a,b",2,virginica\n'


def test_help_and_mistakes_import_nothing_heavy(tmp_path):
    """What is imported for them decides how fast they answer."""
    script = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from duelrank.cli._commands import duelrank\n"
        "run = CliRunner().invoke\n"
        "assert run(duelrank, ['--help']).exit_code == 0\n"
        "assert run(duelrank, ['fit', '--help']).exit_code == 0\n"
        "assert run(duelrank, ['fit', 'no.csv', '--target', 'y', '-o', 'm']).exit_code == 1\n"
        "assert run(duelrank, ['rank', 'no', 'no', '-o', 'a.xyz']).exit_code == 1\n"
        "assert run(duelrank, ['info', 'foreign.skops']).exit_code == 1\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow', 'skops', 'matplotlib', 'rich'}\n"
        "print(heavy & set(sys.modules))\n"
    )
    (tmp_path / "foreign.skops").write_text("no model")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, cwd=tmp_path, check=False
    )
    assert done.stdout == b"set()\n", done.stderr


@pytest.mark.skipif(not COMMAND.exists(), reason="the package is not installed")
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, 143, b"terminated")],
)
def test_an_interrupt_leaves_the_old_output(sent, code, word, model, flowers, tmp_path):
    header, rows = flowers.read_text().split("\n", 1)
    (tmp_path / "many.csv").write_text(header + "\n" + rows * 400)
    out = tmp_path / "out.csv"
    out.write_text("old")
    process = subprocess.Popen(
        [COMMAND, "rank", model, "many.csv", "-o", "out.csv", "--batch", "20"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        # A shell in the background hands on that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while process.poll() is None and not list(tmp_path.glob(".out.csv.*")):
        time.sleep(0.02)
    process.send_signal(sent)
    _, errors = process.communicate()
    assert process.returncode == code, errors
    assert errors == b"Error: " + word + b"; files that were there are as before.\n"
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["many.csv", "out.csv"]


@pytest.mark.skipif(not COMMAND.exists(), reason="the package is not installed")
@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
def test_a_reader_that_goes_away_is_no_error(model, flowers):
    header, rows = flowers.read_text().split("\n", 1)
    process = subprocess.Popen(
        [COMMAND, "rank", model, "-", "--batch", "20"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    _, errors = process.communicate((header + "\n" + rows * 20).encode())
    assert errors == b""
    assert process.returncode == 141


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"], ["info"]])
def test_readers_go_away_from_every_command(model, arguments):
    arguments = [*arguments, *([model] if arguments == ["info"] else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "duelrank", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    _, errors = process.communicate()
    assert errors == b""
    assert process.returncode == 141


def test_labels_of_any_length_are_cut_in_messages(tmp_path):
    long = "x" * 100_000
    (tmp_path / "a.csv").write_text(f"a,y\n1,{long}\n2,{long}\n")
    told = run("fit", tmp_path / "a.csv", "--target", "y", "-o", tmp_path / "m.skops").stderr
    assert "'y' holds the single label 'xxx" in told
    assert "ranking needs two." in told
    assert len(told) < 1500


def test_labels_of_any_length_are_cut_in_explanations(tmp_path):
    long = [f"{letter}{'x' * 100_000}{letter}" for letter in "uvw"]
    data, model = tmp_path / "long.parquet", tmp_path / "m.skops"
    rows = {"a": X[::5, 2], "b": np.array(long)[Y[::5]], "y": np.array(long)[Y[::5]]}
    pq.write_table(pa.table(rows), data)
    options = ("--target", "y", "--categorical", "b", "--engine", "logistic", "--coverage", "0.6")
    succeed("fit", data, *options, "-o", model)
    told = succeed("explain", model, data, "--row", 0).stdout
    assert len(told) < 30_000
    assert "its label is uxxx" in told
    assert "xxx … xxx" in told


@pytest.mark.skipif(not COMMAND.exists(), reason="the package is not installed")
@pytest.mark.skipif(os.name != "posix", reason="needs a terminal")
def test_progress_on_a_terminal_only(flowers, tmp_path):
    watched, silent = tmp_path / "watched.skops", tmp_path / "silent.skops"
    arguments = ["fit", flowers, "--target", "species", "--engine", "stumps", "-o"]
    succeed(*arguments, silent)
    ours, theirs = os.openpty()
    environment = os.environ | {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm"}
    done = subprocess.run(
        [COMMAND, *arguments, watched],
        stderr=theirs,
        env=environment,
        check=False,
    )
    shown = os.read(ours, 100_000)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, shown
    assert b"fitting" in shown
    # Who looked on is no part of the model.
    assert describe(watched).engine == describe(silent).engine == "StumpDuels()"
    assert str(load(watched)) == str(load(silent))


def test_totals_of_progress(flowers, tmp_path, monkeypatch):
    parquet = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": X[:, 0]}), parquet)
    monkeypatch.setattr(_rank, "is_watched", lambda: True)
    for path, low, high in ((parquet, 150, 150), (flowers, 140, 160)):
        with tables.open_table(str(path)) as source:
            assert low <= _rank._total(str(path), source) <= high
            assert _rank._total("-", source) is None
    monkeypatch.setattr(_rank, "is_watched", lambda: False)
    with tables.open_table(str(parquet)) as source:
        assert _rank._total(str(parquet), source) is None


# fit and info


def test_fit_tells_what_columns_are_taken_for(flowers, tmp_path):
    result = succeed("fit", flowers, "--target", "species", "-o", tmp_path / "m.skops", "-C", "0.5")
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[:4] == [
        "number        2  length, width",
        "category      1  colour",
        "date          1  seen",
        "Note: 'id' left out: different in every row.",
    ]
    description = describe(tmp_path / "m.skops")
    assert description.labels == SPECIES
    assert description.target == "species"
    assert description.engine == "LogisticDuels(C=0.5)"
    assert description.columns == {
        "length": "number",
        "width": "number",
        "colour": "category",
        "seen": "date",
    }
    assert description.facts["rows"] == 150


def test_info_shows_the_preprocessing(model):
    shown = succeed("info", model, env={"COLUMNS": "80"}).stdout
    lines = [line.rstrip() for line in shown.splitlines()]
    assert all(len(line) <= 80 for line in lines)
    assert "target      species" in lines
    assert "labels      3: 01, 1, virginica" in lines
    assert "columns     2 number: length, width" in lines
    assert "duels       3 by LogisticDuels()" in lines
    flat = " ".join(" ".join(lines).split())
    assert "StandardScaler() on 2 columns" in flat
    assert "dates: DateFeatures(), SimpleImputer(" in flat
    assert "OneHotEncoder(handle_unknown='infrequent_if_exist'" in flat


@pytest.mark.parametrize("engine", ["logistic-cv", "stumps", "forest"])
def test_every_engine_can_be_saved_and_ranks(engine, flowers, tmp_path):
    path = tmp_path / "m.skops"
    succeed("fit", flowers, "--target", "species", "-o", path, "--engine", engine)
    out = tmp_path / "out.csv"
    succeed("rank", path, flowers, "-o", out, "--top", 1)
    hits = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    assert np.mean([hit == SPECIES[k] for hit, k in zip(hits, Y, strict=True)]) > 0.9


def test_integers_in_parquet_stay_integers(tmp_path):
    data = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 2], "y": Y + 7}), data)
    succeed("fit", data, "--target", "y", "-o", tmp_path / "m.skops")
    assert load(tmp_path / "m.skops").classes_.tolist() == [7, 8, 9]
    succeed("rank", tmp_path / "m.skops", data, "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["label_1"].type == pa.int64()


@pytest.mark.parametrize(
    "moments",
    [
        pa.array([1, 2, 2**31 - 1] * 50, pa.int32()).cast(pa.date32()),
        pa.array([1, 2, 2**62] * 50, pa.int64()).cast(pa.timestamp("ms")),
    ],
    ids=["days", "milliseconds"],
)
def test_moments_that_cannot_be_written_are_refused(moments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    near = pa.table({"a": X[:, 2], "d": ["x", "y", "z"] * 50, "y": Y})
    lists = pa.ListArray.from_arrays(pa.array(np.arange(151), pa.int32()), moments)
    pq.write_table(near, "near.parquet")
    pq.write_table(near.set_column(1, "d", moments), "far.parquet")
    pq.write_table(near.append_column("l", lists), "lists.parquet")
    engine = ["--engine", "logistic", "-o"]
    category = ["--target", "y", "--categorical", "d"]
    succeed("fit", "near.parquet", *category, *engine, "d.skops")
    succeed("fit", "near.parquet", "--target", "y", "--ignore", "d", *engine, "no_d.skops")
    files = sorted(os.listdir())
    for arguments, named in (
        (["fit", "far.parquet", "--target", "d", *engine, "far.skops"], "'d' must hold labels"),
        (["fit", "lists.parquet", "--target", "l", *engine, "far.skops"], "'l' holds"),
        (["fit", "far.parquet", *category, *engine, "far.skops"], "'d' must hold text"),
        (["rank", "d.skops", "far.parquet", "-o", "out.csv"], "'d' must hold text"),
        (["rank", "no_d.skops", "far.parquet", "--keep", "d", "-o", "out.csv"], "'d' holds"),
        (["rank", "no_d.skops", "far.parquet", "--keep", "d", "-o", "out.jsonl"], "'d' holds"),
        (["report", "no_d.skops", "far.parquet", "--names", "d", "-o", "out.html"], "'d' holds"),
    ):
        sentence = fail(*arguments)
        assert f"column {named}" in sentence
        assert "out of range" in sentence
    assert sorted(os.listdir()) == files


def test_the_seed_decides(flowers, tmp_path):
    paths = [tmp_path / "a.skops", tmp_path / "b.skops"]
    for path in paths:
        succeed("fit", flowers, "--target", "species", "-o", path, "--seed", 3, "--ties", "random")
    orders = [load(path)[-1].label_order_.tolist() for path in paths]
    assert orders[0] == orders[1]


# rank


def test_golden_outputs(model, tmp_path):
    data = tmp_path / "new.csv"
    data.write_text("id,length,width,colour,seen\nx,1.4,0.2,red,2024-01-01\ny,,1.5,blue,\n")
    outputs = {
        shape: succeed("rank", model, data, "--top", 2, "--format", shape, "--keep", "id").stdout
        for shape in ("wide", "long", "jsonl")
    }
    probability = load_probabilities(outputs["jsonl"])
    golden = [[0.9633, 0.0319], [0.5460, 0.3781]]
    np.testing.assert_allclose(probability, golden, rtol=0, atol=1e-3)
    (a, b), (c, d) = probability
    assert outputs["wide"] == (
        f"id,label_1,probability_1,label_2,probability_2\nx,01,{a},1,{b}\ny,1,{c},virginica,{d}\n"
    )
    assert outputs["long"] == (
        "row,id,place,label,probability\n"
        f"0,x,1,01,{a}\n"
        f"0,x,2,1,{b}\n"
        f"1,y,1,1,{c}\n"
        f"1,y,2,virginica,{d}\n"
    )
    assert outputs["jsonl"].splitlines()[0] == (
        '{"row": 0, "id": "x", "ranking": [{"label": "01", "probability": '
        f'{a}}}, {{"label": "1", "probability": {b}}}]}}'
    )
    assert succeed("rank", model, data, "--top", 2, "--no-probabilities").stdout == (
        "label_1,label_2\n01,1\n1,virginica\n"
    )


def load_probabilities(lines):
    return [
        [item["probability"] for item in json.loads(line)["ranking"]] for line in lines.splitlines()
    ]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("batch", [7, 1000])
def test_rank_equals_predict_order(model, flowers, ending, batch, tmp_path):
    out = tmp_path / f"out{ending}"
    succeed("rank", model, flowers, "-o", out, "--batch", batch, "--top", 99)
    pipeline = load(model)
    kinds = describe(model).columns
    with tables.open_table(str(flowers)) as source:
        features = tables.features(source.read(), kinds)
    expected = predict_order(pipeline, features).tolist()
    assert expected == pipeline[-1].predict_order(pipeline[:-1].transform(features)).tolist()
    proba = -np.sort(-pipeline.predict_proba(features), axis=1)
    if ending == ".jsonl":
        rankings = [json.loads(line)["ranking"] for line in out.read_text().splitlines()]
        found = [[item["label"] for item in ranking] for ranking in rankings]
        chances = [[item["probability"] for item in ranking] for ranking in rankings]
    else:
        with tables.open_table(str(out)) as source:
            table = source.read()
        found = list(zip(*(table[f"label_{p}"].to_pylist() for p in (1, 2, 3)), strict=True))
        chances = [table[f"probability_{p}"].cast(pa.float64()).to_numpy() for p in (1, 2, 3)]
        chances = np.column_stack(chances)
    assert [list(row) for row in found] == expected
    np.testing.assert_allclose(chances, proba, rtol=0, atol=1e-15 if ending == ".parquet" else 1e-6)


NUMBERS = st.one_of(st.none(), st.floats(-100, 100))


@QUICK
@given(
    rows=st.lists(
        st.tuples(NUMBERS, NUMBERS, st.sampled_from(["red", "blue", None, "new", 'q"'])),
        min_size=1,
        max_size=12,
    ),
    batch=st.integers(1, 5),
    shuffled=st.permutations(["length", "width", "colour", "seen"]),
)
def test_rank_equals_predict_order_on_any_rows(model, loaded, rows, batch, shuffled, tmp_path):
    columns = {
        "length": pa.array([row[0] for row in rows], pa.float64()),
        "width": pa.array([row[1] for row in rows], pa.float64()),
        "colour": pa.array([row[2] for row in rows], pa.string()),
        "seen": pa.array([19_000 + i for i in range(len(rows))], pa.date32()),
    }
    table = pa.table({name: columns[name] for name in shuffled})
    kinds = describe(model).columns
    expected = predict_order(loaded, tables.features(table, kinds)).tolist()
    for ending in (".csv", ".parquet"):
        path = str(tmp_path / f"rows{ending}")
        with tables.writing(path) as write:
            write(table)
        lines = succeed("rank", model, path, "--batch", batch, "--no-probabilities").stdout
        assert [line.split(",") for line in lines.splitlines()[1:]] == expected


def test_columns_to_keep(model, flowers, tmp_path):
    header = succeed("rank", model, flowers, "--top", 1, "--keep", "species,id").stdout
    assert header.splitlines()[:2][0] == "species,id,label_1,probability_1"
    everything = succeed("rank", model, flowers, "--top", 1, "--keep", "all").stdout.splitlines()
    assert everything[0] == "id,length,width,colour,seen,species,label_1,probability_1"
    original = flowers.read_text().splitlines()
    assert [line.rsplit(",", 2)[0] for line in everything] == original
    assert "no column 'nope'" in fail("rank", model, flowers, "--keep", "nope")
    clash = tmp_path / "clash.csv"
    clash.write_text("length,width,colour,seen,label_1\n1,1,red,2024-01-01,x\n")
    sentence = fail("rank", model, clash, "--keep", "label_1", code=2)
    assert sentence == "--keep label_1: the output has a column of that name."


def test_extra_and_missing_columns(model, tmp_path):
    data = tmp_path / "new.csv"
    data.write_text("length,width,colour,seen,extra\n1,1,red,2024-01-01,x\n")
    assert succeed("rank", model, data).stderr == (
        "Note: not known to the model and ignored: extra.\n"
    )
    data.write_text("length,width\n1,1\n")
    assert fail("rank", model, data) == (
        f"{data} has no columns 'colour', 'seen'; it has length, width."
    )
    data.write_text("length;width;colour;seen\n1;1;red;2024-01-01\n")
    assert fail("rank", model, data).endswith("a single column, so try another --delimiter.")
    assert succeed("rank", model, data, "--delimiter", ";", "--top", 1).exit_code == 0


def test_data_without_rows(model, tmp_path):
    data = tmp_path / "empty.csv"
    data.write_text("length,width,colour,seen\n")
    for shape, expected in (("wide", "label_1,probability_1\n"), ("jsonl", "")):
        shown = succeed("rank", model, data, "--top", 1, "--format", shape).stdout
        assert shown == expected
    succeed("rank", model, data, "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 0


def test_an_error_in_a_later_batch_leaves_the_old_output(model, tmp_path):
    data = tmp_path / "new.csv"
    row = "1,1,red,2024-01-01\n"
    data.write_text("length,width,colour,seen\n" + 30 * row + "oops,1,red,2024-01-01\n")
    out = tmp_path / "out.csv"
    out.write_text("old")
    assert fail("rank", model, data, "-o", out, "--batch", 10) == (
        "column 'length' must hold numbers, but row 30 (from 0) holds 'oops'."
    )
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "out.csv"]


def test_models_saved_from_python(tmp_path):
    data = tmp_path / "data.csv"
    rows = ["a,b,c,d"] + [",".join(map(str, row)) for row in X]
    data.write_text("\n".join(rows) + "\n")
    ranker = DuelRanker(LinearSVC(random_state=0), random_state=0).fit(X, Y)
    save(ranker, tmp_path / "m.skops")
    result = succeed("rank", tmp_path / "m.skops", data)
    assert "know no probabilities" in result.stderr
    found = [[int(cell) for cell in line.split(",")] for line in result.stdout.splitlines()[1:]]
    assert found == ranker.predict_order(X).tolist()
    data.write_text("a,b\n1,2\n")
    assert fail("rank", tmp_path / "m.skops", data).startswith("the model takes 4 columns, but")


def test_kinds_are_never_guessed_from_a_batch(tmp_path):
    """Codes of which the first batch holds numbers only."""
    codes = np.array(["1", "2", "a"] * 60)
    frame = pd.DataFrame({"code": codes})
    encoder = OneHotEncoder(handle_unknown="ignore")
    fitted = make_pipeline(encoder, DuelRanker(random_state=0)).fit(frame, codes)
    path = tmp_path / "m.skops"
    new = pd.DataFrame({"code": ["1", "2", "2", "1", "a", "2"]})
    new.to_csv(tmp_path / "new.csv", index=False)
    pq.write_table(pa.table({"code": new["code"].tolist()}), tmp_path / "new.parquet")
    expected = predict_order(fitted, new)[:, 0].tolist()
    assert expected == new["code"].tolist()
    arguments = ("--top", 1, "--no-probabilities", "--batch")

    def ranked(data, batch):
        shown = succeed("rank", path, tmp_path / data, *arguments, batch).stdout
        return shown.splitlines()[1:]

    save(fitted, path)
    assert ranked("new.csv", 3) == ranked("new.csv", 100) == expected
    save(fitted, path, columns={"code": ""})  # not told
    assert ranked("new.parquet", 3) == ranked("new.parquet", 100) == expected
    assert fail("rank", path, tmp_path / "new.csv") == (
        "the model file does not tell whether 'code' holds numbers or categories, and neither does "
        "CSV; take a Parquet file, which has types."
    )


# explain and report


def test_explain_tells_who_beats_whom(model, flowers):
    result = succeed("explain", model, flowers, "--row", 0, env={"COLUMNS": "200"})
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == f"Row 0 of {flowers}; its label is 01 (place 1)"
    assert lines[2].split() == ["place", "label", "chance", "won", "expected", "lost", "to"]
    assert lines[4].split()[:2] == ["1", "01"]
    assert lines[4].endswith("nobody")
    story = lines.index("No cycle: every duel agrees with the ranking.")
    assert lines[story + 2].startswith("Why 01 before ")
    sentence = fail("explain", model, flowers, "--row", 150)
    assert sentence == f"{flowers} has 150 rows, so there is no row 150 (counted from 0)."


@pytest.fixture(scope="module")
def cyclic(tmp_path_factory):
    """A model of many labels in two dimensions, where cycles abound, and the row of one."""
    folder = tmp_path_factory.mktemp("cyclic")
    rng = np.random.RandomState(0)
    y = rng.randint(12, size=400)
    points = rng.randn(12, 2)[y] + rng.randn(400, 2)
    labels = [f"[red]{label}\x1b[31m" for label in y]
    table = pa.table({"a": points[:, 0], "b": points[:, 1], "y": labels})
    pq.write_table(table, folder / "d.parquet")
    options = ("--target", "y", "--engine", "logistic", "-o", folder / "m.skops")
    succeed("fit", folder / "d.parquet", *options)
    pipeline = load(folder / "m.skops")
    tournament = pipeline[-1].tournament(pipeline[:-1].transform(table.select(["a", "b"])))
    sizes = [[len(cycle) for cycle in cycles] for cycles in tournament.cycles]
    return folder, tournament, next(i for i, s in enumerate(sizes) if s == [3])


def test_explain_tells_the_cycle_and_how_it_was_broken(cyclic):
    folder, tournament, row = cyclic
    arguments = ("explain", folder / "m.skops", folder / "d.parquet", "--row", row)
    text = succeed(*arguments, env={"COLUMNS": "200"}).stdout
    assert "\x1b" not in text  # no label writes to the terminal
    assert "[red]" in text  # and none is read as markup
    members = [str(label).replace("\x1b", "\ufffd") for label in tournament[row].cycles[0][0]]
    cycle = next(line for line in text.splitlines() if line.startswith("A cycle: "))
    assert all(f"{member} beats" in cycle for member in members)
    assert "Labels are ranked by the number of duels they win. Ties go to the label that" in text
    ranks, beats = tournament[row].ranks[0], tournament[row].beats[0]
    upsets = int((beats & (ranks[:, np.newaxis] > ranks)).sum())
    assert f"That overrules {upsets} duel" in text
    assert text.count("but is ranked below") == upsets
    assert "2 more" in text.splitlines()[14]  # of twelve labels, ten are shown


def test_the_report_is_written(model, flowers, tmp_path):
    pytest.importorskip("duelrank.report")
    page = tmp_path / "page.html"
    succeed("report", model, flowers, "-o", page, "--title", "<b>Flowers</b>", "--names", "id")
    text = page.read_text()
    assert "virginica" in text
    assert "<b>Flowers" not in text
    assert "&lt;b&gt;Flowers" in text
    bare = tmp_path / "bare.csv"
    bare.write_text("length,width,colour,seen\n1,1,red,2024-01-01\n2,1,red,2024-01-01\n")
    assert "no column with labels" in succeed("report", model, bare, "-o", page).stderr
    strange = tmp_path / "strange.csv"
    strange.write_text("length,width,colour,seen,species\n1,1,red,2024-01-01,rose\n")
    assert fail("report", model, strange, "-o", page) == (
        "'species' holds no label that the model knows, but 'rose'."
    )
    strange.write_text("length,width,colour,seen,species\n1,1,red,2024-01-01,\n")
    assert fail("report", model, strange, "-o", page) == (
        f"{strange} has no row with a label in 'species'."
    )
    assert "must end in .html" in fail("report", model, flowers, "-o", tmp_path / "p.pdf", code=2)


def test_rows_of_the_page_are_rows_of_the_file(model, flowers, tmp_path):
    header, *rows = flowers.read_text().splitlines()
    rows[0] = rows[0].rsplit(",", 1)[0] + ","
    rows[3] = rows[3].rsplit(",", 1)[0] + ",rose"
    data, page = tmp_path / "data.csv", tmp_path / "new" / "page.html"
    data.write_text("\n".join([header, *rows[:6]]) + "\n")
    told = succeed("report", model, data, "-o", page, "--names", "id").stderr
    assert "1 row without a label left out." in told
    assert "1 row left out, with labels that the model does not know, such as 'rose'." in told
    inside = json.loads(re.search(r"<script[^>]*json[^>]*>(.*?)</script>", page.read_text())[1])
    numbers = np.frombuffer(base64.b64decode(inside["fields"]["rows"]["base64"]), "<u4")
    assert numbers.tolist() == [1, 2, 4, 5]
    assert inside["names"] == ["f1", "f2", "f4", "f5"]


def test_whole_numbers_that_come_as_decimals_are_labels(tmp_path):
    """Some programs write integers as decimals once a cell is missing."""
    data, path = tmp_path / "data.parquet", tmp_path / "m.skops"
    labels = pa.array([None, *Y[1:].astype(float)], pa.float64())
    pq.write_table(pa.table({"a": X[:, 2], "b": X[:, 3], "y": labels}), data)
    succeed("fit", data, "--target", "y", "-o", path)
    first = succeed("explain", path, data, "--row", 0, env={"COLUMNS": "200"}).stdout
    assert first.splitlines()[0] == f"Row 0 of {data}"
    second = succeed("explain", path, data, "--row", 1, env={"COLUMNS": "200"}).stdout
    assert second.splitlines()[0] == f"Row 1 of {data}; its label is 0 (place 1)"


# evaluate


def test_evaluate_by_cross_validation(flowers, tmp_path):
    figure = tmp_path / "new folder" / "top.png"
    result = succeed(
        "evaluate", flowers, "--target", "species", "--folds", 2, "--figure", figure,
        "--engine", "logistic", "--baselines", "multinomial,forest,majority",
        env={"COLUMNS": "80"},
    )  # fmt: skip
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "flowers: 150 rows, 3 labels, 2 folds"
    assert lines[2].split() == [
        "ranking", "by", "top-1", "top-2", "top-3", "cycles", "fit", "rank", "memory",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[4:8]] == [
        "duels",
        "multinomial",
        "forest",
        "majority",
    ]
    for line in lines[4:7]:
        accuracies = [float(cell) for cell in line.split()[1:4]]
        assert 0.8 < accuracies[0] <= accuracies[1] <= accuracies[2] == 1
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "must end in .png" in fail(
        "evaluate", "no.csv", "--target", "y", "--figure", tmp_path / "top.xyz", code=2
    )


def test_evaluate_on_a_test_file(flowers, tmp_path):
    header, *rows = flowers.read_text().splitlines()
    (tmp_path / "test.csv").write_text(
        "\n".join([header, *rows[::3], "x,1,1,red,2024-01-01,rose\n"])
    )
    result = succeed("evaluate", flowers, "--target", "species", "--test", tmp_path / "test.csv")
    assert result.stdout.startswith("flowers: 150 rows, 3 labels, 51 test rows\n")
    assert "1 label of" in result.stderr
    (tmp_path / "test.csv").write_text("length,species\n1,01\n")
    assert "has no columns 'width', 'colour', 'seen'" in fail(
        "evaluate", flowers, "--target", "species", "--test", tmp_path / "test.csv"
    )


def test_labels_are_the_same_in_every_format(tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.parquet"
    train.write_text("a,b,y\n" + "".join(f"{r[2]},{r[3]},{k}\n" for r, k in zip(X, Y, strict=True)))
    pq.write_table(pa.table({"a": X[:, 2], "b": X[:, 3], "y": Y}), test)
    arguments = ("evaluate", train, "--target", "y", "--test")
    by_format = [succeed(*arguments, path).stdout.splitlines()[4].split() for path in (train, test)]
    assert by_format[0][:4] == by_format[1][:4]
    assert float(by_format[1][1]) > 0.9
    pq.write_table(pa.table({"a": [1.0], "b": [1.0], "y": ["rose"]}), test)
    assert fail(*arguments, test) == (
        f"no label of {test} is in the training data, for example 'rose'."
    )
    for labels in ([None], []):
        empty = pa.table({"a": [1.0] * len(labels), "b": [1.0] * len(labels)})
        pq.write_table(empty.append_column("y", pa.array(labels, pa.string())), test)
        assert fail(*arguments, test) == f"{test} has no row with a label in 'y' to test on."


def test_evaluate_needs_rows_for_its_folds(tmp_path):
    data = tmp_path / "few.csv"
    data.write_text("x,y\n" + "".join(f"{i},{'abc'[i % 2]}\n" for i in range(20)) + "5,c\n")
    sentence = fail("evaluate", data, "--target", "y")
    assert sentence == (
        "folds must be at most the rows of the rarest label, but label c has 1 row for 5 folds; "
        "take fewer --folds or --drop-rare."
    )
    result = succeed("evaluate", data, "--target", "y", "--drop-rare")
    assert result.stdout.startswith("few: 20 rows, 2 labels, 5 folds")
    assert "1 label with fewer than 5 rows left out, 1 row." in result.stderr


# Mistakes


def test_mistakes_in_names(model, flowers, tmp_path):
    out = tmp_path / "m.skops"
    assert fail("fit", "no.csv", "--target", "y", "-o", out) == "no.csv does not exist."
    assert fail("fit", tmp_path, "--target", "y", "-o", out).endswith("is a folder, not a file.")
    assert fail("fit", flowers, "--target", "kind", "-o", out) == (
        f"{flowers} has no column 'kind'; it has id, length, width, colour, seen, species."
    )
    assert fail("fit", flowers, "--target", "species", "-o", flowers / "m").endswith(
        f"cannot be written: {flowers} is no folder."
    )
    assert fail("fit", flowers, "--target", "species", "-o", "-", code=2).endswith(
        "models are not written to standard output."
    )
    assert f"{flowers} has no column 'kind'" in fail(
        "fit", flowers, "--target", "species", "-o", out, "--ignore", "kind"
    )
    sentence = fail("rank", model, flowers, "-o", tmp_path / "out.xlsx")
    assert "must end in one of .csv, .tsv, .parquet, .jsonl, .ndjson" in sentence
    assert "cannot be written to a .csv file" in fail(
        "rank", model, flowers, "-o", tmp_path / "out.csv", "--format", "jsonl", code=2
    )
    assert fail("evaluate", flowers, code=2).startswith("DATA needs --target")
    assert fail("evaluate", "--target", "y", code=2) == "--target, --shown and --test need DATA."
    assert "not of forest" in fail(
        "fit", flowers, "--target", "species", "-o", out, "--engine", "forest", "-C", 1, code=2
    )
    assert not out.exists()
    assert _files.OUTPUT_ENDINGS == tables.OUTPUT_ENDINGS


def test_no_input_is_overwritten(model, flowers, tmp_path):
    data, copied, link = tmp_path / "d.csv", tmp_path / "m.csv", tmp_path / "link.csv"
    data.write_bytes(flowers.read_bytes())
    copied.write_bytes(model.read_bytes())
    link.symlink_to(data)
    pictured = tmp_path / "link.png"
    os.link(data, pictured)
    page = tmp_path / "page.html"
    page.symlink_to(data)
    target = ("--target", "species")
    for arguments in (
        ("fit", data, *target, "-o", data),
        ("fit", data, *target, "-o", link),
        ("rank", model, data, "-o", link),
        ("rank", copied, data, "-o", copied),
        ("report", model, data, "-o", page),
        ("evaluate", data, *target, "--figure", pictured),
        ("evaluate", flowers, *target, "--test", data, "--figure", pictured),
    ):
        assert "would overwrite" in fail(*arguments, code=2)
    assert data.read_bytes() == flowers.read_bytes()
    assert copied.read_bytes() == model.read_bytes()


def test_delimiters(flowers, tmp_path):
    out, data = tmp_path / "new folder" / "m.skops", tmp_path / "flowers.txt"
    data.write_text(flowers.read_text().replace(",", "\t"))
    for delimiter in ("\t", "\\t", "tab"):
        succeed("fit", data, "--target", "species", "-o", out, "--delimiter", delimiter)
    for delimiter in (";;", "", "·", '"', "\n"):
        assert "must be one ASCII character" in fail(
            "fit", data, "--target", "species", "-o", out, "--delimiter", delimiter, code=2
        )


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (csv.Error("field larger than field limit"), "field larger than field limit"),
        (KeyError("what"), "KeyError: 'what'; run with --debug for the traceback"),
        (RuntimeError(), "RuntimeError; run with --debug for the traceback"),
    ],
)
def test_whatever_goes_wrong_is_one_sentence(error, sentence, model, monkeypatch):
    def fails(path):
        raise error

    monkeypatch.setattr("duelrank.storage.describe", fails)
    assert fail("info", model).startswith(sentence)
    assert run("--debug", "info", model).exception is error


def test_mistakes_in_data(tmp_path):
    out, data = tmp_path / "m.skops", tmp_path / "data.csv"

    def sentence(content):
        data.write_text(content)
        return fail("fit", data, "--target", "y", "-o", out)

    assert sentence("") == f"{data} is empty."
    assert "more than one column named 'x'" in sentence("x,x,y\n1,2,a\n")
    assert "'y' holds the single label 'a'" in sentence("x,y\n1,a\n2,a\n")
    assert "Expected 2 columns, got 3" in sentence("x,y\n1,a\n2,b,c\n")
    assert "no row has a label" in sentence("x,y\n1,\n")
    assert "no column to learn from" in sentence("x,y\n1,a\n1,b\n")
    assert "holds infinity in row 1" in sentence("x,y\n1,a\ninf,b\n2,a\n")


def test_mistakes_in_model_files(model, flowers, tmp_path):
    broken = tmp_path / "broken.skops"
    for command_line in (("rank", broken, flowers), ("info", broken),
                         ("explain", broken, flowers, "--row", 0)):  # fmt: skip
        broken.unlink(missing_ok=True)
        assert fail(*command_line) == f"{broken} does not exist."
        broken.write_text("not a model")
        assert fail(*command_line) == f"{broken} is not a duelrank model file."
        broken.write_bytes(model.read_bytes()[:-100])
        assert f"{broken} is truncated or damaged" in fail(*command_line)


@pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")
def test_types_in_model_files_can_be_trusted(flowers, tmp_path):
    transformer = FunctionTransformer(np.abs)
    trusted = make_pipeline(StandardScaler(), transformer, DuelRanker(random_state=0)).fit(X, Y)
    trusted[1].func = plus_nothing
    save(trusted, tmp_path / "m.skops")
    data = tmp_path / "data.csv"
    data.write_text("a,b,c,d\n1,2,3,4\n")
    name = f"{plus_nothing.__module__}.plus_nothing"
    assert fail("rank", tmp_path / "m.skops", data) == (
        f"{tmp_path / 'm.skops'} holds types whose contents duelrank cannot check, so a hostile "
        "file could crash the process; if you know where the file comes from, name them: "
        f"--trust {name}."
    )
    succeed("rank", tmp_path / "m.skops", data, "--trust", name)


def plus_nothing(points):
    return points


def test_other_versions_are_a_note(model, flowers, tmp_path, monkeypatch):
    from duelrank.storage import _versions

    here = _versions.installed_versions()
    monkeypatch.setattr(_versions, "installed_versions", lambda: here | {"scikit-learn": "9.9"})
    result = succeed("rank", model, flowers, "--top", 1)
    assert result.stderr.startswith("Note: flowers.skops was saved with scikit-learn")


def test_tracebacks_on_demand(tmp_path):
    result = run("--debug", "fit", tmp_path / "no.csv", "--target", "y", "-o", "m")
    assert isinstance(result.exception, ValueError)


def test_the_package_runs_as_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "duelrank", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("duelrank, version ")


def test_threads_that_wait_sleep_unless_somebody_says_otherwise():
    """As libraries look at the environment when they are loaded, it is set before they are."""
    code = "import os, sys; sys.argv = ['duelrank', '--version']; from duelrank.cli import main\n"
    code += "try: main()\nfinally: print(os.environ['OMP_WAIT_POLICY'], 'sklearn' in sys.modules)"
    others = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for said, expected in [({}, "passive False"), ({"OMP_WAIT_POLICY": "active"}, "active False")]:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=others | said
        )
        assert done.stdout.splitlines()[-1] == expected


@pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")
def test_info_names_what_must_be_trusted(tmp_path):
    save(DuelRanker(KNeighborsClassifier(3)).fit(X, Y), tmp_path / "model.skops")
    told = "".join(run("info", tmp_path / "model.skops").stdout.split())
    assert "--trustsklearn.neighbors._classification.KNeighborsClassifier" in told
