"""duelrank check: whether new rows are like those of training."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

from drifting import rows
from duelrank import DuelRanker
from duelrank.drift import Profile
from duelrank.storage import describe, load, save
from test_cli import fail, run, succeed

DATA = os.environ.get("DUELRANK_DATA")
LOGISTIC = ["--target", "team", "--engine", "logistic"]


def made(n_rows, seed):
    frame, y = rows(n_rows, np.random.default_rng(seed), with_text=True)
    return frame.assign(team=y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    made(600, 0).to_csv(folder / "train.csv", index=False)
    made(300, 1).to_csv(folder / "same.csv", index=False)
    options = [*LOGISTIC, "--coverage", 0.9]
    succeed("fit", folder / "train.csv", *options, "-o", folder / "m.skops")
    succeed("fit", folder / "train.csv", *LOGISTIC, "--no-profile", "-o", folder / "none.skops")
    return folder


@pytest.fixture
def model(folder):
    return folder / "m.skops"


def changed(tmp_path, **columns):
    frame = made(300, 1).assign(**columns)
    frame.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def test_rows_of_the_same_kind_raise_no_alarm(folder, model):
    result = succeed("check", model, folder / "same.csv", "--fail-on-drift")
    assert result.stdout.startswith("No change found (300 new rows, 600 training rows).")
    assert "As in training: " in result.stdout


def test_everything_can_be_shown(folder, model):
    shown = succeed("check", model, folder / "same.csv", "--all").stdout
    for name in ("amount", "count", "town", "member", "day", "note", "first places", "accuracy"):
        assert name in shown
    assert "lengths of lists" in shown


def test_what_changed_comes_first_and_is_named(model, tmp_path):
    frame = made(300, 1)
    new = changed(tmp_path, amount=100 * frame["amount"], town="Atlantis")
    result = succeed("check", model, new)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("2 of 6 columns changed (")
    assert {line.split()[0] for line in lines if " never seen: " in line} == {"town"}
    assert "'Atlantis' (300)" in result.stdout
    assert "row " in result.stdout
    assert "is above all 600" in " ".join(result.stdout.split())


def test_the_exit_code_tells_if_it_is_asked_to(model, tmp_path):
    new = changed(tmp_path, town="Atlantis")
    assert run("check", model, new).exit_code == 0
    assert run("check", model, new, "--fail-on-drift").exit_code == 3


def test_all_of_it_is_there_as_json(model, tmp_path):
    result = succeed("check", model, changed(tmp_path, town="Atlantis"), "--json")
    told = json.loads(result.stdout)
    assert told["drifted"] is True
    assert told["findings"][0]["name"] == "town"
    assert told["unseen_values"] == {"town": {"Atlantis": 300}}
    assert told["rows_unlike_training"] == 300


def test_new_labels_are_named(model, tmp_path):
    shown = succeed("check", model, changed(tmp_path, team="unheard of")).stdout
    assert "new labels" in shown
    assert "'unheard of'" in " ".join(shown.split())


def test_without_labels_the_rest_is_compared(model, tmp_path):
    made(300, 1).drop(columns=["team"]).to_csv(tmp_path / "new.csv", index=False)
    done = succeed("check", model, tmp_path / "new.csv", "--all")
    assert "accuracy" not in done.stdout
    assert "first places" in done.stdout
    assert "labels were not compared, because the table has none" in done.stderr


def test_missing_columns_are_a_finding(model, tmp_path):
    made(300, 1).drop(columns=["amount"]).to_csv(tmp_path / "new.csv", index=False)
    result = succeed("check", model, tmp_path / "new.csv")
    assert "no such column" in result.stdout
    assert "nothing was ranked" in result.stderr


def test_columns_of_another_kind_are_a_finding(model, tmp_path):
    result = succeed("check", model, changed(tmp_path, count="several", day="some day"))
    assert "of another kind" in result.stdout
    assert "cells such as 'several'" in " ".join(result.stdout.split())


def test_single_cells_of_another_kind_are_taken_for_missing(model, tmp_path):
    count = made(300, 1)["count"].astype(object)
    count[[7, 70]] = "several", "none at all"
    result = succeed("check", model, changed(tmp_path, count=count))
    assert "'count' should hold numbers; taken for missing: 2 cells" in result.stderr
    assert "of another kind" not in result.stdout


def test_other_columns_are_noted(model, tmp_path):
    result = succeed("check", model, changed(tmp_path, colour="red"))
    assert "not known to the model and not compared: colour" in result.stderr


def test_a_model_without_a_profile_says_what_to_do(folder):
    sentence = fail("check", folder / "none.skops", folder / "same.csv")
    assert sentence.endswith(
        "has no profile of its training rows, so nothing can be compared; fit the model again "
        "with this version of duelrank, and without --no-profile."
    )
    assert describe(folder / "none.skops").profile is None


def test_a_file_of_an_older_version_has_no_profile(folder):
    old = Path(__file__).parents[1] / "storage" / "written_by_0_2" / "logistic.skops"
    assert "has no profile" in fail("check", old, folder / "same.csv")


def test_mistakes_are_one_sentence(folder, model, tmp_path):
    assert "does not exist" in fail("check", model, folder / "nothing.csv")
    sentence = fail("check", model, folder / "same.csv", "--target", "nothing")
    assert "has no column 'nothing'" in sentence
    (tmp_path / "empty.csv").write_text((folder / "same.csv").read_text().splitlines()[0] + "\n")
    assert "has no rows" in fail("check", model, tmp_path / "empty.csv")
    assert run("check", model, folder / "same.csv", "--level", "2").exit_code == 2


def test_a_hostile_profile_is_refused_in_one_sentence(folder, model, tmp_path):
    from duelrank.storage import _archive
    from duelrank.storage._members import read_members, write_members

    members = read_members(model.read_bytes(), _archive._without_limit())
    told = json.loads(members.pop(_archive.DESCRIPTION))
    del told["checksum"]
    told["profile"]["columns"]["amount"]["value"]["edges"] = [float("nan")] * 19
    complete = _archive._with_description(members, told)
    (tmp_path / "bad.skops").write_bytes(write_members(complete, compress=True))
    sentence = fail("check", tmp_path / "bad.skops", folder / "same.csv")
    assert "is damaged: the profile of column 'amount' is damaged" in sentence


def test_info_tells_of_the_profile(model):
    assert "a profile of 6 columns" in succeed("info", model).stdout


def test_models_of_texts_and_arrays_are_checked_too(tmp_path):
    texts = [f"{a} {b} of it" for a in ("red", "green", "blue") for b in "abcdefghijklmnop"] * 2
    y = np.repeat(["a", "b", "c"], 16).tolist() * 2
    model = make_pipeline(TfidfVectorizer(), DuelRanker(random_state=0)).fit(texts, y)
    save(model, tmp_path / "t.skops", profile=Profile.of(model, texts, y))
    pd.DataFrame({"body": ["etwas ganz und gar anderes"] * 90}).to_csv(
        tmp_path / "new.csv", index=False
    )
    assert "text" in succeed("check", tmp_path / "t.skops", tmp_path / "new.csv").stdout
    numbers = np.random.default_rng(0).normal(size=(96, 2))
    model = DuelRanker(random_state=0).fit(numbers, y)
    save(model, tmp_path / "n.skops", profile=Profile.of(model, numbers, y))
    pd.DataFrame(numbers + [0, 9], columns=["a", "b"]).to_csv(tmp_path / "n.csv", index=False)
    assert "x1" in succeed("check", tmp_path / "n.skops", tmp_path / "n.csv").stdout


def test_lists_and_choices_are_checked(tmp_path):
    frame = made(120, 0)[["amount", "count", "team"]]
    frame["second"] = "label 0"
    frame.loc[frame["team"] == "label 0", "second"] = "label 1"
    frame.to_csv(tmp_path / "lists.csv", index=False)
    for options in (
        ["--target", "team", "--target", "second"],
        ["--target", "team", "--shown", "second"],
    ):
        succeed(
            "fit",
            tmp_path / "lists.csv",
            *options,
            "--engine",
            "logistic",
            "-o",
            tmp_path / "m.skops",
        )
        assert load(tmp_path / "m.skops").classes_.tolist() == [f"label {k}" for k in range(5)]
        shown = succeed("check", tmp_path / "m.skops", tmp_path / "lists.csv").stdout
        assert shown.startswith("No change found")


def test_control_characters_do_not_reach_the_terminal(model, tmp_path):
    result = succeed("check", model, changed(tmp_path, town="\x1b[31mred"))
    assert "\x1b" not in result.stdout + result.stderr


def test_the_report_has_a_section_if_there_is_a_profile(folder, model, tmp_path):
    page = tmp_path / "page.html"
    succeed("report", model, changed(tmp_path, town="Atlantis"), "-o", page)
    assert "Is this data like the training data?" in page.read_text(encoding="utf-8")
    assert "Atlantis" in page.read_text(encoding="utf-8")
    succeed("report", folder / "none.skops", folder / "same.csv", "-o", page)
    assert "Is this data like the training data?" not in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="DUELRANK_DATA is not set")
def test_banking77_and_job_titles(tmp_path):
    """The test rows of BANKING77 have other shares of labels; titles of O*NET are another text."""
    texts = Path(DATA) / "text"
    model = tmp_path / "m.skops"
    options = ["--target", "category", "--engine", "logistic", "-C", 10]
    succeed("fit", texts / "banking77_train.csv", *options, "-o", model)
    result = succeed("check", model, texts / "banking77_test.csv", "--json")
    told = json.loads(result.stdout)
    alarms = {f["name"] for f in told["findings"] if f["alarm"]}
    assert "shares of labels" in alarms
    assert "accuracy" not in alarms
    assert "text" not in alarms
    with (tmp_path / "titles.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        titles = pd.read_csv(texts / "onet_titles.csv")["title"]
        writer.writerows([title] for title in titles.sample(2000, random_state=0))
    told = json.loads(succeed("check", model, tmp_path / "titles.csv", "--json").stdout)
    (text,) = [f for f in told["findings"] if f["name"] == "text"]
    assert text["alarm"]
    assert told["rows_unlike_training"] > 20
