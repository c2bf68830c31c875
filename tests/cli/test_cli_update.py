"""duelrank fit --updatable, and duelrank update."""

import inspect
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

from click.testing import CliRunner

from duelrank import DuelRanker, LogisticDuels
from duelrank.cli import _update
from duelrank.cli._commands import duelrank
from duelrank.storage import describe, load, save

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
# Until click 8.2 the two streams had to be asked for apart.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}


def run(*arguments):
    return CliRunner(**APART).invoke(duelrank, [str(a) for a in arguments])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output + result.stderr
    return result


def fail(*arguments, code=1):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr.strip().splitlines()[-1].removeprefix("Error: ")


@pytest.fixture(scope="module")
def table():
    table = pd.DataFrame(X.round(1), columns=list("abcd"))
    table["word"] = np.array(["pink rose", "blue iris", "white lily"])[Y]
    table["species"] = NAMES[Y]
    return table.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture
def files(table, tmp_path):
    """Rows of two labels in one file, and the others in another one."""
    old = (table.species != "setosa") & (np.arange(len(table)) < 120)
    table[old].to_csv(tmp_path / "old.csv", index=False)
    table[~old].to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


@pytest.fixture
def model(files):
    path = files / "model.skops"
    succeed("fit", files / "old.csv", "--target", "species", "--updatable", "--output", path)
    return path


def test_a_model_learns_new_rows_and_labels(files, model, table):
    before = load(model)
    said = succeed("update", model, files / "new.csv").stderr
    assert "new labels    1  setosa" in said
    assert "ranks 3 labels now" in said
    after = load(model)
    engine = LogisticDuels(before[-1].duels_.C_, keep_rows=True)
    scratch = DuelRanker(engine, random_state=0)
    old, new = (pd.read_csv(files / name) for name in ("old.csv", "new.csv"))
    both = pd.concat([old, new])
    scratch.fit(before[:-1].transform(both), both.species)
    points = before[:-1].transform(table)
    assert np.array_equal(after[-1].predict_ranks(points), scratch.predict_ranks(points))
    assert after[-1].classes_.tolist() == NAMES.tolist()
    description = describe(model)
    assert description.facts["rows"] == 150
    assert description.facts["notes"][-1].startswith("updated with 70 rows of")
    assert description.facts["notes"][-1].endswith("new labels setosa")
    assert description.labels == NAMES.tolist()
    assert description.training_data["rows"] == 1
    assert description.columns == describe(model).columns
    assert "updated with 70 rows" in " ".join(succeed("info", model).stdout.split())
    ranked = succeed("rank", model, files / "new.csv", "--top", 1).stdout
    assert "setosa" in ranked


def test_labels_are_dropped_and_come_back(files, model):
    succeed("update", model, files / "new.csv", "--output", files / "sub" / "all.skops")
    assert describe(model).facts["rows"] == 80
    said = succeed("update", files / "sub" / "all.skops", "--drop-label", "virginica").stderr
    assert "dropped       1  virginica" in said
    description = describe(files / "sub" / "all.skops")
    assert description.labels == ["setosa", "versicolor"]
    assert description.facts["rows"] == 100
    assert description.facts["notes"][-1] == "updated without virginica"
    both = ["--drop-label", "versicolor", "--drop-label", "setosa"]
    assert "leave at least two" in fail("update", files / "sub" / "all.skops", *both)
    succeed("update", files / "sub" / "all.skops", files / "new.csv")
    assert describe(files / "sub" / "all.skops").labels == NAMES.tolist()


def test_rows_without_a_label_are_left_out(files, model, table):
    table.assign(species=np.where(np.arange(150) < 3, "", table.species)).to_csv(
        files / "some.csv", index=False
    )
    said = succeed("update", model, files / "some.csv").stderr
    assert "3 rows without a label left out" in said
    assert describe(model).facts["rows"] == 80 + 147
    table.assign(species="").to_csv(files / "none.csv", index=False)
    assert "holds no label" in fail("update", model, files / "none.csv")


def test_labels_that_are_numbers(files):
    table = pd.DataFrame(X, columns=list("abcd")).assign(species=Y)
    table[Y < 2].to_parquet(files / "old.parquet")
    path = files / "numbers.skops"
    succeed("fit", files / "old.parquet", "--target", "species", "--updatable", "-o", path)
    table[Y == 2].to_csv(files / "two.csv", index=False)
    succeed("update", path, files / "two.csv")
    assert describe(path).labels == [0, 1, 2]
    table[Y == 2].assign(species="x").to_csv(files / "x.csv", index=False)
    assert "'x' is new and no number" in fail("update", path, files / "x.csv")


def test_a_model_of_a_program_is_updated(files, table):
    ranker = DuelRanker(LogisticDuels(keep_rows=True), random_state=0)
    pipeline = make_pipeline(StandardScaler(), ranker).fit(table[list("abcd")], table.species)
    path = files / "program.skops"
    save(pipeline, path)
    assert "does not name the column" in fail("update", path, files / "new.csv", code=2)
    succeed("update", path, files / "new.csv", "--target", "species")
    assert len(load(path)[-1].duels_.training_rows_["codes"]) == 150 + 70


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--coverage", "0.9"], "exclude each other"),
        (["--engine", "forest"], "not for forest"),
        (["--engine", "auto"], "not for auto"),
        (["--no-training-rows"], "leave out --no-training-rows"),
        (["--shown", "word"], "not lists or choices"),
        (["--target", "word"], "not lists or choices"),
    ],
)
def test_what_cannot_be_updatable(files, options, sentence):
    arguments = ["fit", files / "old.csv", "--target", "species", "--updatable", "-o"]
    assert sentence in fail(*arguments, files / "no.skops", *options, code=2)
    assert not (files / "no.skops").exists()


def test_other_models_are_refused(files):
    path, fit = files / "other.skops", ["fit", files / "old.csv", "--target", "species", "-o"]
    succeed(*fit, path, "--engine", "logistic")
    assert "keeps no training rows for updates" in fail("update", path, files / "new.csv")
    succeed(*fit, path, "--engine", "stumps")
    assert "StumpDuels, which cannot be updated" in fail("update", path, files / "new.csv")
    succeed(*fit, path, "--engine", "logistic", "--coverage", "0.8")
    assert "makes shortlists" in fail("update", path, files / "new.csv")
    several = ["fit", files / "old.csv", "--target", "species", "--target", "word", "-o", path]
    succeed(*several, "--engine", "logistic")
    assert "lists or choices" in fail("update", path, files / "new.csv")


def test_mistakes_leave_the_file_as_it_was(files, model, table, monkeypatch):
    content = model.read_bytes()
    assert "Give a table DATA" in fail("update", model, code=2)
    assert "does not exist" in fail("update", model, files / "nothing.csv")
    assert "is no label of the model" in fail("update", model, "--drop-label", "rose")
    assert "standard output" in fail("update", model, files / "new.csv", "-o", "-", code=2)
    same = ["update", model, files / "new.csv", "-o", files / "new.csv"]
    assert "would overwrite" in fail(*same, code=2)
    table.drop(columns="species").to_csv(files / "short.csv", index=False)
    assert "has no column 'species'" in fail("update", model, files / "short.csv")
    table.drop(columns="a").to_csv(files / "short.csv", index=False)
    assert "has no column 'a'" in fail("update", model, files / "short.csv")

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(_update, "_new_facts", interrupted)
    assert "interrupted" in fail("update", model, files / "new.csv", code=130)
    assert model.read_bytes() == content


def test_columns_are_still_compared_after_an_update(files, table, tmp_path):
    model = tmp_path / "m.skops"
    succeed("fit", tmp_path / "old.csv", "--target", "species", "--updatable", "-o", model)
    assert describe(model).profile["ranked"] is not None or describe(model).facts["rows"] < 80
    succeed("update", model, tmp_path / "new.csv")
    profile = describe(model).profile
    assert set(profile["columns"]) == {"a", "b", "c", "d", "word"}
    shifted = table.assign(a=table.a + 100, species="tulip")
    shifted.to_csv(tmp_path / "shifted.csv", index=False)
    told = succeed("check", model, tmp_path / "shifted.csv")
    assert "not compared, because the model was updated" in " ".join(told.output.split())
    found = json.loads(succeed("check", model, tmp_path / "shifted.csv", "--json").stdout)
    alarms = {finding["name"] for finding in found["findings"] if finding["alarm"]}
    assert {"a", "new labels"} <= alarms


def test_new_labels_are_not_taken_for_true(table, tmp_path):
    data = table.assign(species=table.species == "setosa")
    data.to_parquet(tmp_path / "old.parquet")
    data.assign(species="maybe").to_parquet(tmp_path / "new.parquet")
    model = tmp_path / "m.skops"
    succeed("fit", tmp_path / "old.parquet", "--target", "species", "--updatable", "-o", model)
    assert "'maybe' is neither true nor false" in fail("update", model, tmp_path / "new.parquet")
