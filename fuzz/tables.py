"""Strange tables, given to the command: it works, or says in one sentence why not."""

from __future__ import annotations

import csv
import gzip
import io
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from fuzz import commands, models
from fuzz.archives import damaged
from fuzz.cases import Case, Find, Kind

COLUMNS = ("size", "weight", "colour", "seen", "body", "team")
TARGET = "team"
MODELS = {
    "plain": ("--engine", "logistic"),
    "updatable": ("--updatable",),
    "lists": ("--engine", "logistic", "--coverage", "0.7"),
}
ENGINES = ("logistic", "logistic", "logistic", "stumps", "forest")
PROCESS_EVERY = 60  # of so many cases, one runs in a process of its own, with pipes
CELLS = (
    "",
    " ",
    "0",
    "-0",
    "inf",
    "-inf",
    "Infinity",
    "nan",
    "NaN",
    "NA",
    "None",
    "null",
    "1e300",
    "-1e308",
    "1e-320",
    "1e999",
    "1,5",
    "1_000",
    "0x1F",
    "１２３",
    "٣٫١٤",
    "1 000",
    "$5",
    "50%",
    "true",
    "FALSE",
    "2024-02-30",
    "0001-01-01",
    "9999-12-31",
    "12/31/2024",
    "2024-01-01T00:00:00Z",
    "2024-01-01 25:61",
    "\x1b[31mred\x1b[0m",
    "\x07",
    "\u202e",
    "\ufeff",
    "\u2028",
    "[bold]x[/bold]",
    "=1+1",
    "a\nb",
    "a\r\nb",
    "a\rb",
    '"',
    '""',
    "'",
    "a,b",
    "\t",
    "\0",
    "ü",
    "日本語",
    "🎉",
    "🏳️‍🌈",
    "\ud7ff",
    "x" * 5000,
    "word " * 2000,
    "9" * 400,
    "-",
    ".",
    "[1, 2]",
    "{}",
    "a|b",
)
NAMES = ("", " ", "team", "size", "TEAM", "\x1b[31m", "a,b", 'a"b', "a\nb", "ü", "x" * 3000, "0")
ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "cp1252", "utf-32")


def make_materials(folder: Path) -> None:
    """Fit the models that rank, check and update."""
    data = folder / "table.csv"
    data.write_text(models.table(), encoding="utf-8")
    for name, options in MODELS.items():
        said = commands.run(
            ["fit", data, "--target", TARGET, "-o", folder / f"{name}.skops", *options]
        )
        if said.code:
            raise RuntimeError(said.messages)


def read_materials(folder: Path) -> dict[str, bytes]:
    """Return the model files by name."""
    import duelrank.cli._check
    import duelrank.cli._commands
    import duelrank.cli._evaluate
    import duelrank.cli._rank
    import duelrank.cli._update
    import duelrank.evaluation
    import duelrank.storage._skops  # noqa: F401

    return {name: (folder / f"{name}.skops").read_bytes() for name in MODELS}


def make_case(random: random.Random, materials: dict[str, bytes]) -> Case:
    """Make a table, and a command that gets it."""
    story: list[str] = []
    rows = list(csv.reader(io.StringIO(models.table())))
    for _ in range(random.choice([0, 1, 1, 2, 3, 6])):
        _alter_rows(rows, random, story)
    delimiter = random.choice([",", ",", ",", ";", "\t"])
    encoding = random.choice(ENCODINGS)
    ending, content = _written(rows, delimiter, encoding, random, story)
    name = f"data{ending}"
    files = {name: content}
    command = random.choice(["fit", "fit", "fit", "rank", "rank", "check", "update", "evaluate"])
    options: list[str] = []
    if random.random() < 0.95 and delimiter != "," and ending != ".parquet":
        options += ["--delimiter", delimiter]
    if random.random() < 0.95 and encoding != "utf-8" and ending != ".parquet":
        options += ["--encoding", encoding]
    if random.random() < 0.02:
        options += ["--encoding", random.choice(["rot13", "nothing", "hex", "utf-7", "idna"])]
    model = _of_command(command, options, random)
    if model:
        files["model.skops"] = materials[model]
    story.append(" ".join([command, name, *options]))
    facts = {
        "command": command,
        "data": name,
        "options": options,
        "pipes": random.randrange(PROCESS_EVERY) == 0,
        "reads_all": random.random() < 0.5,
        "parquet": random.random() < 0.2,
    }
    return Case(files, story, facts)


def _of_command(command: str, options: list[str], random: random.Random) -> str:
    """Add options of a command; return the model that it needs, if any."""
    roles = ["--target", TARGET]
    if random.random() < 0.1:
        roles += ["--target", random.choice(COLUMNS)]
    if random.random() < 0.15:
        role = random.choice(["--ignore", "--text", "--categorical", "--shown"])
        roles += [role, random.choice(COLUMNS)]
    if command == "fit":
        if random.random() < 0.2:
            options += [*roles, "--updatable"]
            return ""
        options += [*roles, "--engine", random.choice(ENGINES)]
        options += random.choice([[], [], ["--coverage", "0.8"], ["--no-training-rows"]])
        return ""
    if command == "evaluate":
        options += [*roles, "--engine", "logistic", "--folds", "2"]
        options += ["--baselines", random.choice(["none", "majority"])]
        options += random.choice([[], ["--drop-rare"]])
        return ""
    if command == "rank":
        options += random.choice([[], ["--top", "2"], ["--no-probabilities"]])
        return random.choice(["plain", "lists"])
    if command == "check":
        options += random.choice([[], ["--fail-on-drift"]])
        return random.choice(["plain", "lists"])
    options += random.choice([[], ["--drop-label", "a"]])
    return random.choice(["updatable", "updatable", "plain"])


def _alter_rows(rows: list[list[str]], random: random.Random, story: list[str]) -> None:
    way = random.choice([0, 0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 9, 10])
    column = random.randrange(len(rows[0]) or 1)
    if way < 3:
        for _ in range(random.choice([1, 3, 20])):
            row = rows[random.randrange(len(rows))] if random.random() < 0.1 else None
            row = row or rows[random.randrange(1, len(rows)) if len(rows) > 1 else 0]
            if row:
                place = min(column, len(row) - 1)
                row[place] = random.choice(CELLS)
                story.append(f"a cell of column {place} is {row[place][:40]!r}")
    elif way == 3:
        cell = random.choice(CELLS)
        for row in rows[1:]:
            if column < len(row):
                row[column] = cell
        story.append(f"all cells of column {column} are {cell[:40]!r}")
    elif way == 4:
        name = random.choice(NAMES)
        if rows[0]:
            rows[0][column] = name
        story.append(f"column {column} is called {name[:40]!r}")
    elif way == 5:
        del rows[random.choice([0, 1, 2, 3, 5, len(rows)]) :]
        rows[:] = rows or [[]]
        story.append(f"{len(rows) - 1} rows")
    elif way == 6:
        row = random.choice(rows)
        if random.random() < 0.5:
            row.append("more")
        elif row:
            row.pop()
        story.append("a row of another length")
    elif way == 7:
        for row in rows:
            row[column : column + 1] = row[column : column + 1] * 2
        story.append(f"column {column} is there twice")
    elif way == 8:
        for row in rows[1:]:
            if column < len(row):
                row[column] = random.choice(CELLS)
        story.append(f"column {column} holds anything")
    elif way == 9:
        scale = random.choice(["e300", "e-300", "e12", "e-12", "000000000"])
        for row in rows[1:]:
            if len(row) > 1 and row[1]:
                row[1] += scale
        story.append(f"column 1 has another scale, {scale}")
    else:
        for row in rows:
            del row[column : column + 1]
        story.append(f"column {column} is missing")


def _written(
    rows: list[list[str]],
    delimiter: str,
    encoding: str,
    random: random.Random,
    story: list[str],
) -> tuple[str, bytes]:
    """Write a table as a file of some ending."""
    if random.random() < 0.25 and rows[0]:
        made = _parquet(rows, random, story)
        if made is not None:
            if random.random() < 0.2:
                made = damaged(made, random, story)
            return ".parquet", made
    stream = io.StringIO()
    ends = random.choice(["\n", "\n", "\r\n", "\r"])
    quoting: Any = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    csv.writer(stream, delimiter=delimiter, lineterminator=ends, quoting=quoting).writerows(rows)
    text = stream.getvalue()
    way = random.randrange(12)
    if way == 0:
        text = text.replace('"', "")
        story.append("without quotes")
    elif way == 1:
        place = random.randrange(len(text) + 1)
        sign = random.choice(['"', "\n", "\0", "\r", "\ufeff", '""', ","])
        text = text[:place] + sign + text[place:]
        story.append(f"a strange sign at {place}")
    elif way == 2:
        text = text.rstrip("\r\n")
        story.append("no end of the last line")
    elif way == 3:
        text = "\n\n" + text.replace("\n", "\n\n", 3)
        story.append("empty lines")
    elif way == 4:
        text = text.replace("\n", "\r\n", random.randrange(1, 10))
        story.append("mixed ends of lines")
    content = text.encode(encoding, errors="replace")
    story.append(f"CSV in {encoding}")
    if random.random() < 0.1:
        content = damaged(content or b"\n", random, story)
    ending = random.choice([".csv", ".csv", ".csv", ".txt", ".csv.gz"])
    if delimiter == "\t":
        ending = ".tsv"
    if ending == ".csv.gz":
        content = gzip.compress(content, 1, mtime=0)
        if random.random() < 0.3:
            content = damaged(content, random, story)
    return ending, content


def _parquet(rows: list[list[str]], random: random.Random, story: list[str]) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = len(rows[0])
    arrays: list[Any] = []
    for column in range(width):
        cells = [row[column] if column < len(row) else None for row in rows[1:]]
        arrays.append(_typed(cells, random, story))
    try:
        table = pa.Table.from_arrays(arrays, names=rows[0])
        stream = io.BytesIO()
        pq.write_table(table, stream, compression=random.choice(["snappy", "none", "zstd"]))
    except (pa.ArrowException, UnicodeError):
        return None
    story.append("Parquet")
    return stream.getvalue()


def _typed(cells: list[Any], random: random.Random, story: list[str]) -> Any:
    """Return a column of Parquet, of a type that the cells may have or of a strange one."""
    import datetime

    import pyarrow as pa

    as_text = pa.array([c and c.encode("utf-8", "replace").decode() for c in cells])
    n = len(cells)
    whole = [random.choice([None, 0, 1, -1, 2**31, 2**62]) for _ in range(n)]
    floats = [random.choice([None, 0.0, 1.5, 1e300, float("nan"), float("inf")]) for _ in range(n)]
    moment = datetime.datetime(2024, 1, 1)
    way = random.randrange(30)
    makers = {
        0: lambda: pa.array(whole, pa.int64()),
        1: lambda: pa.array(floats, pa.float64()),
        2: lambda: pa.array([None] * n, pa.null()),
        3: lambda: pa.array([[1.0, 2.0, 3.0]] * n, pa.list_(pa.float64())),
        4: lambda: pa.array([[1.0] * (i % 3) for i in range(n)], pa.list_(pa.float32())),
        5: lambda: as_text.dictionary_encode(),
        6: lambda: pa.array([{"a": 1}] * n),
        7: lambda: pa.array([b"\xff\x00"] * n, pa.binary()),
        8: lambda: pa.array([moment] * n, pa.timestamp("ns", "UTC")),
        9: lambda: pa.array([moment.date()] * n, pa.date32()),
        10: lambda: pa.array([i % 2 == 0 for i in range(n)], pa.bool_()),
        11: lambda: pa.array([["a", "b"]] * n, pa.list_(pa.string())),
        12: lambda: pa.array([datetime.timedelta(1)] * n),
        13: lambda: pa.array([datetime.time(1)] * n),
        14: lambda: pa.array([1.5] * n, pa.float32()).cast(pa.float16()),
        15: lambda: pa.array([None if c is None else 12 for c in cells], pa.decimal128(5, 2)),
        16: lambda: as_text.cast(pa.large_string()),
        17: lambda: pa.array([2**40] * n, pa.timestamp("s")),
        18: lambda: pa.array([i % 200 for i in range(n)], pa.uint8()),
    }
    if way in makers:
        made = makers[way]()
        story.append(f"a column of Parquet is of {made.type}")
        return made
    return as_text


def run_case(case: Case, folder: Path) -> str:
    """Run the command; a table that was fitted on can be ranked."""
    facts = case.facts
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    command, data, model = facts["command"], folder / facts["data"], folder / "model.skops"
    fitted, ranked = folder / "fitted.skops", folder / "ranked.csv"
    if facts["parquet"]:
        ranked = folder / "ranked.parquet"
    before = {path.name for path in folder.iterdir()}
    output = {"fit": fitted, "rank": ranked, "update": fitted}.get(command)
    words: list[object] = [command]
    if command in ("rank", "check", "update"):
        words.append(model)
    if facts["pipes"]:
        written = [] if command in ("rank", "evaluate", "check") else ["-o", output]
        said = commands.run_process(
            [*words, "-", *facts["options"], *written],
            data.read_bytes(),
            facts["reads_all"],
        )
        allowed = {fitted.name} if written and said.code == 0 else set()
        commands.check_nothing_left(folder, before, allowed)
        return "done" if said.code in (0, 3) else "refused"
    written = [] if output is None else ["-o", output]
    said = commands.run([*words, data, *facts["options"], *written])
    is_done = said.code in (0, 3)
    commands.check_nothing_left(folder, before, {output.name} if output and is_done else set())
    if model.exists() and model.read_bytes() != case.files["model.skops"]:
        raise Find(f"{command} changed the model that it read")
    if not is_done:
        return "refused"
    if output is not None and not output.exists():
        raise Find(f"{command} wrote nothing", said.messages)
    if command == "fit":
        reading = _reading_options(facts["options"])
        again = commands.run(["rank", fitted, data, *reading, "-o", ranked])
        if again.code:
            last = again.messages.strip().splitlines()[-1][:60]
            raise Find(f"a table that was fitted on cannot be ranked: {last}", again.messages)
    return "done"


def _reading_options(options: list[str]) -> list[str]:
    """Return the options that say how a table is read."""
    kept = []
    for name, value in pairwise(options):
        if name in ("--delimiter", "--encoding"):
            kept += [name, value]
    return kept


# Processes of their own have the same limit, and need address space for all that they import.
KIND = Kind(
    "tables", make_case, run_case, make_materials, read_materials, cases=1000, megabytes=4096
)
