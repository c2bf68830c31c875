"""The duelrank command with models of text that were saved from Python."""

import csv
import inspect
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

from click.testing import CliRunner

from duelrank import DuelRanker, predict_order
from duelrank.cli._commands import duelrank
from duelrank.storage import describe, save

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")

TEXTS = [
    "My card is LATE, so late",
    "where is the new card",
    "the exchange rate of the euro",
    "which rate, and for how long?",
    "I forgot my pin",
    "a new pin, please; ümlaut",
    "",
]
LABELS = ["card", "card", "rate", "rate", "pin", "pin", "pin"]
FRAME = pd.DataFrame({"body": TEXTS, "size": np.arange(7.0), "city": list("abababa")})
ALL = FRAME.assign(label=LABELS)
# Until click 8.2 the two streams had to be asked for apart.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}


def run(*arguments):
    return CliRunner(**APART).invoke(duelrank, [str(a) for a in arguments])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments):
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    return result.stderr.strip().splitlines()[-1].removeprefix("Error: ")


def ranked(*steps):
    return make_pipeline(*steps, DuelRanker(random_state=0))


def of_texts(*arguments):
    return [text.upper() for text in arguments[0]]


LETTERS = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3))
MODELS = {
    "texts": (ranked(TfidfVectorizer()), FRAME["body"]),
    "list of texts": (ranked(TfidfVectorizer()), TEXTS),
    "hashed texts": (ranked(HashingVectorizer(n_features=32)), TEXTS),
    "words and letters": (ranked(make_union(TfidfVectorizer(), LETTERS)), TEXTS),
    "duels of texts": (
        DuelRanker(make_pipeline(CountVectorizer(), LogisticRegression()), random_state=0),
        TEXTS,
    ),
    "columns": (
        ranked(
            make_column_transformer(
                (TfidfVectorizer(), "body"),
                (OneHotEncoder(), ["city"]),
                (StandardScaler(), ["size"]),
            )
        ),
        FRAME,
    ),
    "columns by number": (
        ranked(make_column_transformer((TfidfVectorizer(), 0), (StandardScaler(), [1]))),
        FRAME,
    ),
    "steps of a column": (
        ranked(
            make_column_transformer(
                (make_pipeline(make_union(CountVectorizer(), LETTERS), TruncatedSVD(3)), "body"),
                ("passthrough", ["size"]),
            )
        ),
        FRAME,
    ),
    "duels of columns": (
        DuelRanker(
            make_pipeline(
                make_column_transformer((CountVectorizer(), "body")), LogisticRegression()
            ),
            random_state=0,
        ),
        FRAME,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the same table as CSV and as Parquet, and one of texts and labels alone."""
    made = tmp_path_factory.mktemp("texts")
    ALL.to_csv(made / "all.csv", index=False)
    ALL.to_parquet(made / "all.parquet")
    ALL[["body", "label"]].to_csv(made / "few.csv", index=False)
    ALL.drop(columns="label").to_csv(made / "new.csv", index=False)
    return made


@pytest.mark.parametrize("data", ["all.csv", "all.parquet"])
@pytest.mark.parametrize("name", MODELS)
def test_models_of_text_rank_tables(name, data, folder, tmp_path):
    model, points = MODELS[name]
    model.fit(points, LABELS)
    file = tmp_path / "model.skops"
    columns = None if points is FRAME else {"body": "text"}
    save(model, file, columns=columns, target="label")
    assert describe(file).columns["body"] == "text"
    written = succeed("rank", file, folder / data, "--no-probabilities")
    rows = list(csv.reader(written.splitlines()))[1:]
    assert rows == predict_order(model, points).tolist()
    told = " ".join(succeed("explain", file, folder / data, "--row", 4).split())
    assert f"its label is {LABELS[4]} (place" in told
    succeed("report", file, folder / data, "-o", tmp_path / "page.html")
    assert "accura" in (tmp_path / "page.html").read_text().lower()


@pytest.mark.parametrize("name", ["texts", "words and letters", "duels of texts"])
def test_the_only_column_besides_the_target_holds_the_texts(name, folder, tmp_path):
    model, points = MODELS[name]
    model.fit(points, LABELS)
    file = tmp_path / "model.skops"
    save(model, file, target="label")
    expected = predict_order(model, points)[:, 0].tolist()
    for options in ([], ["--keep", "label"], ["--keep", "all"], ["--keep", "body"]):
        written = succeed("rank", file, folder / "few.csv", "--top", 1, *options)
        assert [row["label_1"] for row in csv.DictReader(written.splitlines())] == expected
    # Columns to keep are not the one with the texts.
    kept = ["--keep", "size,city"]
    written = succeed("rank", file, folder / "new.csv", "--top", 1, *kept)
    assert [row["label_1"] for row in csv.DictReader(written.splitlines())] == expected


@pytest.mark.parametrize("data", ["all.csv", "all.parquet", "new.csv"])
def test_of_several_columns_one_must_be_named(data, folder, tmp_path):
    file = tmp_path / "model.skops"
    save(ranked(TfidfVectorizer()).fit(TEXTS, LABELS), file)
    sentence = fail("rank", file, folder / data)
    assert sentence.startswith(f"the model takes one column of texts, but {folder / data} has body")
    assert sentence.endswith("save(model, path, columns={'body': 'text'}).")
    save(ranked(TfidfVectorizer()).fit(TEXTS, LABELS), file, columns={"words": "text"})
    assert "has no column 'words'" in fail("rank", file, folder / data)


def test_a_name_tells_that_a_function_takes_texts(folder, tmp_path):
    model = ranked(FunctionTransformer(of_texts), TfidfVectorizer()).fit(TEXTS, LABELS)
    file = tmp_path / "model.skops"
    save(model, file, columns={"body": "text"})
    trust = ["--trust", f"{of_texts.__module__}.of_texts", "--no-probabilities"]
    written = succeed("rank", file, folder / "all.csv", *trust)
    assert list(csv.reader(written.splitlines()))[1:] == predict_order(model, TEXTS).tolist()


@pytest.mark.parametrize("name", ["texts", "columns"])
def test_missing_text_is_empty(name, tmp_path):
    model, points = MODELS[name]
    model.fit(points, LABELS)
    file = tmp_path / "model.skops"
    save(model, file, columns={"body": "text"} if name == "texts" else None)
    missing = FRAME.assign(body=[*TEXTS[:5], None, None])
    missing.to_parquet(tmp_path / "new.parquet")
    missing.to_csv(tmp_path / "new.csv", index=False)
    filled = missing.fillna("")
    expected = predict_order(model, filled["body"] if name == "texts" else filled).tolist()
    for data in ("new.parquet", "new.csv"):
        written = succeed("rank", file, tmp_path / data, "--no-probabilities")
        assert list(csv.reader(written.splitlines()))[1:] == expected


def test_empty_tables_have_no_rankings(tmp_path):
    file = tmp_path / "model.skops"
    save(ranked(TfidfVectorizer()).fit(TEXTS, LABELS), file)
    (tmp_path / "none.csv").write_text("body\n")
    assert len(succeed("rank", file, tmp_path / "none.csv").splitlines()) == 1


def test_texts_are_ranked_without_pandas(folder, tmp_path):
    """It is no part of the extra that the command needs."""
    expected = {}
    for name in ("texts", "columns", "duels of columns"):
        model, points = MODELS[name]
        model.fit(points, LABELS)
        columns = None if points is FRAME else {"body": "text"}
        save(model, tmp_path / f"{name}.skops", columns=columns, target="label")
        expected[name] = predict_order(model, points).tolist()
    (tmp_path / "pandas.py").write_text("raise ImportError('there is no pandas')")
    code = (
        "import sys\n"
        "from duelrank.cli import main\n"
        f"for name in {[*expected]!r}:\n"
        "    out = ['-o', f'{name}.csv', '--no-probabilities']\n"
        f"    data = {str(folder / 'all.csv')!r}\n"
        "    sys.argv = ['duelrank', 'rank', f'{name}.skops', data, *out]\n"
        "    try: main()\n"
        "    except SystemExit as left: assert left.code == 0, name\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert ran.returncode == 0, ran.stderr
    for name, rankings in expected.items():
        with (tmp_path / f"{name}.csv").open(newline="") as written:
            assert [*csv.reader(written)][1:] == rankings, name


def test_info_tells_what_a_file_holds_of_the_training_data(tmp_path):
    model, points = MODELS["columns"]
    file = tmp_path / "model.skops"
    save(model.fit(points, LABELS), file)
    told = " ".join(succeed("info", file).split())
    n_terms = len(model[0].named_transformers_["tfidfvectorizer"].vocabulary_)
    assert (
        f"holds no training rows {n_terms} terms of vocabularies 2 categories of encoders" in told
    )
    # With many words and labels, the rows are smaller than the coefficients.
    texts = [" ".join(f"word{i * j % 311}" for j in range(1, 9)) for i in range(60)]
    model = ranked(TfidfVectorizer()).fit(texts, np.arange(60) % 5)
    for training_rows, holds in ((True, "holds training rows"), (False, "holds no training rows")):
        save(model, file, training_rows=training_rows)
        assert holds in " ".join(succeed("info", file).split())
