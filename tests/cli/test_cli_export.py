"""duelrank export: models of tables as ONNX files that onnxruntime runs."""

import csv

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")
pytest.importorskip("skl2onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")

from click.testing import CliRunner  # noqa: E402

from duelrank.cli._commands import duelrank  # noqa: E402

PLACES = ("label_1", "label_2", "label_3")
CITIES = ["Bern", "Oslo", "Rom"]


def run(*arguments):
    return CliRunner().invoke(duelrank, [str(argument) for argument in arguments])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of numbers, one of numbers and categories, and one of texts."""
    made, rng = tmp_path_factory.mktemp("weather"), np.random.default_rng(0)
    numbers, mixed, texts = [], [], []
    for i in range(300):
        wind, rain = rng.normal(size=2).round(3)
        city = CITIES[rng.integers(3)]
        label = "hot" if wind > 0.4 else ("mild" if city == "Rom" else "cold")
        wind = "" if i % 9 == 0 else wind
        numbers.append([wind, rain, label])
        mixed.append([wind, "" if i % 13 == 0 else city, rain, label])
        texts.append([f"{city} has wind {i} times and rain today", label])
    for name, header, rows in (
        ("numbers", ["wind", "rain in mm", "label"], numbers),
        ("mixed", ["wind", "city", "rain in mm", "label"], mixed),
        ("texts", ["report", "label"], texts),
    ):
        with open(made / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    return made


def columns(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def feed(session, rows, dtype):
    given = {}
    for tensor in session.get_inputs():
        cells = [row[tensor.name] for row in rows]
        if "string" in tensor.type:
            given[tensor.name] = np.array(cells, dtype=object)[:, np.newaxis]
        else:
            numbers = [float(cell) if cell else np.nan for cell in cells]
            given[tensor.name] = np.array(numbers, dtype=dtype)[:, np.newaxis]
    return given


@pytest.mark.parametrize(
    ("table", "engine"),
    [("numbers", "auto")]
    + [("mixed", engine) for engine in ("logistic", "anchored", "stumps", "forest")],
)
def test_an_exported_model_ranks_as_the_command_does(table, engine, folder, tmp_path):
    data, model = folder / f"{table}.csv", tmp_path / "model.skops"
    exported, ranked = tmp_path / "new" / "model.onnx", tmp_path / "ranked.csv"
    succeed("fit", data, "--target", "label", "--engine", engine, "-o", model)
    said = succeed("export", model, "-o", exported, "--outputs", "order", "--dtype", "float64")
    assert "answers with order." in said
    succeed("rank", model, data, "-o", ranked, "--top", "3")
    session = onnxruntime.InferenceSession(str(exported), providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_inputs()]
    assert names == [name for name in columns(data)[0] if name != "label"]
    (order,) = session.run(None, feed(session, columns(data), "float64"))
    written = [[row[f"label_{place}"] for place in (1, 2, 3)] for row in columns(ranked)]
    np.testing.assert_array_equal(order, written)


def test_lists_travel_along(folder, tmp_path):
    model, exported = tmp_path / "model.skops", tmp_path / "model.onnx"
    data = folder / "numbers.csv"
    options = ("--engine", "logistic", "--coverage", "0.95", "--seed", "0")
    succeed("fit", data, "--target", "label", *options, "-o", model)
    said = succeed("export", model, "-o", exported, "--dtype", "float64", "--outputs", "shortlist")
    assert "answers with shortlist." in said
    # One of the rows that were learned from is just at the threshold of lists, up to rounding.
    others, ranked = tmp_path / "others.csv", tmp_path / "ranked.csv"
    between = [
        (f"{row['wind']}4" if row["wind"] else "", f"{row['rain in mm']}4") for row in columns(data)
    ]
    others.write_text("\n".join(["wind,rain in mm", *(f"{wind},{rain}" for wind, rain in between)]))
    succeed("rank", model, others, "-o", ranked, "--no-probabilities")
    session = onnxruntime.InferenceSession(str(exported), providers=["CPUExecutionProvider"])
    (mask,) = session.run(None, feed(session, columns(others), "float64"))
    labels = np.array(["cold", "hot", "mild"])
    listed = [
        {cell for name, cell in row.items() if name in PLACES and cell} for row in columns(ranked)
    ]
    assert [set(labels[row]) for row in mask] == listed
    assert "label, ranks, shortlist" in succeed("export", model, "-o", exported)
    succeed("export", model, "-o", exported, "--dtype", "float64", "-k", "2")
    session = onnxruntime.InferenceSession(str(exported), providers=["CPUExecutionProvider"])
    assert [tensor.name for tensor in session.get_outputs()] == ["label", "ranks", "top"]


MISTAKES = {
    "must end in .onnx": (2, ["export", "{model}", "-o", "{folder}/model.txt"]),
    "got 'places'": (2, ["export", "{model}", "-o", "{folder}/m.onnx", "--outputs", "places"]),
    "does not exist": (1, ["export", "{folder}/none.skops", "-o", "{folder}/m.onnx"]),
    "k must be": (1, ["export", "{model}", "-o", "{folder}/m.onnx", "--top", "9"]),
    "needs a model that makes lists": (
        1,
        ["export", "{model}", "-o", "{folder}/m.onnx", "--outputs", "shortlist"],
    ),
    "TextFeatures cannot be written as ONNX": (1, ["export", "{text}", "-o", "{folder}/m.onnx"]),
}


@pytest.fixture(scope="module")
def models(folder):
    found = {"folder": folder, "model": folder / "numbers.skops", "text": folder / "texts.skops"}
    for name, table in (("model", "numbers"), ("text", "texts")):
        options = ("--target", "label", "--engine", "logistic")
        kinds = ("--text", "report") if name == "text" else ()
        succeed("fit", folder / f"{table}.csv", *options, *kinds, "-o", found[name])
    return found


@pytest.mark.parametrize("sentence", MISTAKES)
def test_mistakes_are_one_sentence(sentence, models):
    code, arguments = MISTAKES[sentence]
    result = run(*(argument.format(**models) for argument in arguments))
    assert result.exit_code == code, result.output
    assert sentence in result.output.strip().splitlines()[-1]
    assert "Traceback" not in result.output
    assert not (models["folder"] / "m.onnx").exists()
