"""Comparisons: quiet if nothing changed, and loud about what did."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from drifting import KINDS, KINDS_WITH_TEXT, rows
from duelrank import DuelRanker
from duelrank.drift import Profile, compare
from duelrank.preprocessing import make_preprocessing
from duelrank.shortlists import Shortlister

DATA = os.environ.get("DUELRANK_DATA")


def fitted(n_rows, rng, last=None, kinds=KINDS, coverage=None):
    frame, y = rows(n_rows, rng, with_text="note" in kinds)
    model = make_pipeline(make_preprocessing(kinds), last or GaussianNB())
    if coverage is not None:
        model = Shortlister(model, coverage, random_state=0)
    model.fit(frame, y)
    return model, Profile.of(model, frame, y, kinds=kinds)


# False alarms


def n_alarms(n_splits, n_rows, n_new, **options):
    raised = 0
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        model, profile = fitted(n_rows, rng, **options)
        new, y = rows(n_new, rng, with_text="note" in options.get("kinds", KINDS))
        raised += compare(profile, model, new, y).drifted
    return raised


def test_new_rows_of_the_same_kind_raise_an_alarm_in_one_of_twenty_checks():
    """200 checks; at 5%, more than 20 of them would come in one of a thousand runs."""
    raised = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 4, size=300)
        X = rng.normal(size=(300, 4)) + np.eye(4)[y]
        X[:, 3] = rng.poisson(2 + y)
        model = GaussianNB().fit(X[:180], y[:180])
        profile = Profile.of(model, X[:180], y[:180])
        raised += compare(profile, model, X[180:], y[180:]).drifted
    assert raised <= 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"last": DuelRanker(random_state=0), "kinds": KINDS_WITH_TEXT},
        {"last": LogisticRegression(), "kinds": KINDS_WITH_TEXT, "coverage": 0.9},
    ],
    ids=["unstable", "duels and text", "lists"],
)
@pytest.mark.parametrize("n_new", [200, 1200])
def test_so_do_rows_with_text_and_models_with_lists(options, n_new):
    assert n_alarms(200, 400, n_new, **options) <= 20


def test_a_million_rows_raise_no_alarm_for_a_trifle(rng):
    """A shift by a thirtieth of the deviation, of which a test with so many rows is sure."""
    X, y = rng.normal(size=(5000, 2)), rng.integers(0, 3, size=5000)
    model = GaussianNB().fit(X, y)
    profile = Profile.of(model, X, y)
    profile = Profile.from_dict(profile.to_dict() | {"ranked": None})
    check = compare(profile, model, rng.normal(size=(1_000_000, 2)) + [0.1, 0])
    (shifted,) = [finding for finding in check.findings if finding.name == "x0"]
    assert shifted.p_value < 0.001
    assert not shifted.alarm


# Power


@pytest.fixture(scope="module")
def known():
    rng = np.random.default_rng(1)
    return fitted(800, rng, LogisticRegression(), KINDS_WITH_TEXT, coverage=0.9)


@pytest.fixture
def new():
    frame, y = rows(300, np.random.default_rng(2), with_text=True)
    return frame, y


def alarms(check):
    return {alarm.name: alarm for alarm in check.alarms}


def test_what_is_not_changed_is_not_named(known, new):
    model, profile = known
    check = compare(profile, model, *new)
    assert not check.drifted
    assert check.summary == "No change found (300 new rows, 800 training rows)."
    assert {finding.told for finding in check.findings} == {"as in training"}
    assert {finding.part for finding in check.findings} == {
        "column",
        "row",
        "label",
        "prediction",
        "list",
    }


def test_a_shifted_column_is_named(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame.assign(count=frame["count"] + 2), y)
    assert alarms(check)["count"].told == "higher"
    assert check.summary.startswith("1 of 6 columns changed (count)")


def test_changed_units_are_named(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame.assign(amount=100 * frame["amount"]), y)
    assert check.findings[0].name == "amount"
    assert check.findings[0].training.startswith("median ")
    assert alarms(check)["accuracy"].told == "right label less often first"
    assert "rows unlike training" in alarms(check)
    assert "is above all 800 training rows (at most" in check.unusual_rows[0].reasons[0]
    assert check.figures[0].name == "amount"
    assert sum(check.figures[0].training) == pytest.approx(1)
    assert sum(check.figures[0].new) == pytest.approx(1)


def test_missing_cells_are_named(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame.assign(amount=frame["amount"].where(frame.index > 90)), y)
    assert alarms(check)["amount"].told == "more missing"
    check = compare(profile, model, frame.assign(day=frame["day"].where(frame.index > 90)))
    assert alarms(check)["day"].told == "more missing"
    assert any("day is missing, which it never was" in u.reasons for u in check.unusual_rows)


def test_new_categories_are_named(known, new):
    model, profile = known
    frame, y = new
    town = frame["town"].where(frame.index > 29, "Atlantis")
    check = compare(profile, model, frame.assign(town=town), y)
    assert alarms(check)["town"].told.startswith("never seen: 'Atlantis'")
    assert check.unseen_values["town"]["Atlantis"] == 30
    assert any("town = 'Atlantis' was never seen" in u.reasons for u in check.unusual_rows)


def test_categories_that_come_more_often_are_named(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame.assign(member=frame.index > 20), y)
    assert alarms(check)["member"].told in ("more 'true'", "less 'false'")


def test_text_in_another_language_is_named(known, new):
    model, profile = known
    frame, y = new
    note = ["ein Satz in einer anderen Sprache", "und noch einer"] * 150
    check = compare(profile, model, frame.assign(note=note), y)
    assert alarms(check)["note"].told == "more unknown words"
    assert int(alarms(check)["note"].new.removesuffix("%")) > 90


def test_longer_texts_are_named(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame.assign(note=[4 * f"{t} " for t in frame["note"]]), y)
    assert alarms(check)["note"].told == "longer texts"


def test_swapped_labels_are_found(known, new):
    model, profile = known
    frame, y = new
    swap = {"label 4": "label 0", "label 0": "label 4"}
    check = compare(profile, model, frame, [swap.get(label, label) for label in y])
    assert {"accuracy", "shares of labels"} <= set(alarms(check))
    assert "'label 4'" in alarms(check)["shares of labels"].told


def test_new_and_vanished_labels_are_named(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame, np.where(y == "label 4", "label 9", y))
    assert alarms(check)["new labels"].told == "not known to the model: 'label 9'"
    assert "vanished: 'label 4'" in alarms(check)["shares of labels"].told


def test_labels_that_are_ranked_elsewhere_are_named(known, new):
    """Rows of large numbers alone: the last label comes first."""
    model, profile = known
    frame, y = rows(2000, np.random.default_rng(3), with_text=True)
    few = y == "label 4"
    check = compare(profile, model, frame[few])
    assert alarms(check)["first places"].told.startswith("more 'label 4'")
    assert alarms(check)["mean places"].told == "'label 4' further ahead"


def test_longer_lists_are_found(known, new):
    """Nothing but a count tells the labels apart."""
    model, profile = known
    frame, _ = new
    check = compare(profile, model, frame.assign(amount=np.nan, note="word1", count=4.0))
    assert alarms(check)["lengths of lists"].told == "longer lists"


def test_missing_columns_are_findings(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame.drop(columns=["amount", "town"]), y)
    assert {name: alarm.told for name, alarm in alarms(check).items()} == {
        "amount": "missing",
        "town": "missing",
    }
    assert not any(finding.part == "prediction" for finding in check.findings)
    assert check.notes[0].startswith("nothing was ranked")


def test_columns_of_another_kind_are_findings(known, new):
    model, profile = known
    frame, _ = new
    check = compare(profile, model, frame.assign(amount="expensive"))
    assert alarms(check)["amount"].told == "of another kind"
    check = compare(
        profile, model, frame.drop(columns=["amount"]), unreadable={"amount": "cells such as 'x'"}
    )
    assert alarms(check)["amount"].new == "cells such as 'x'"


def test_other_columns_are_noted(known, new):
    model, profile = known
    frame, y = new
    check = compare(profile, model, frame.assign(colour="red"), y)
    assert check.notes == ("not compared, because the profile does not know them: colour",)


# The result


def test_rows_keep_their_numbers(known, new):
    model, profile = known
    frame, _ = new
    far = frame.assign(count=np.where(np.arange(300) == 17, 1e6, frame["count"]))
    check = compare(profile, model, far, row_numbers=1000 + np.arange(300))
    assert check.unusual_rows[0].row == 1017
    reason = check.unusual_rows[0].reasons[0]
    assert reason.startswith("count = 1,000,000 is above all 800 training rows (at most ")


def test_a_check_becomes_json_and_a_dataframe(known, new):
    model, profile = known
    check = compare(profile, model, new[0].assign(amount=1e6, town="nowhere"), new[1])
    told = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert told["drifted"] is True
    assert told["unseen_values"]["town"] == {"nowhere": 300}
    frame = pd.DataFrame(check.to_rows())
    assert list(frame["alarm"]) == sorted(frame["alarm"], reverse=True)
    changes = frame[frame["alarm"]]["change"]
    assert changes.is_monotonic_decreasing


def test_a_stored_profile_gives_the_same_check(known, new):
    model, profile = known
    again = Profile.from_dict(json.loads(json.dumps(profile.to_dict())))
    assert compare(again, model, *new) == compare(profile, model, *new)


def test_one_row_can_be_compared(known, new):
    model, profile = known
    check = compare(profile, model, new[0][:1], new[1][:1])
    assert check.n_rows == 1


@pytest.mark.parametrize("level", [0, 1, -0.1, "often", True])
def test_the_level_is_a_share(known, new, level):
    model, profile = known
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        compare(profile, model, new[0], level=level)


def test_no_rows_are_refused(known, new):
    model, profile = known
    with pytest.raises(ValueError, match="X must hold at least one row"):
        compare(profile, model, new[0][:0])


def test_missing_labels_are_left_out(known, new):
    model, profile = known
    frame, y = new
    some = [label if row % 2 else None for row, label in enumerate(y)]
    assert not compare(profile, model, frame, some).drifted
    assert not compare(profile, model, frame, [None] * 300).drifted


# Real data


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="DUELRANK_DATA is not set")
def test_banking77_is_like_itself_and_job_titles_are_not():
    """Halves of the training rows are alike; titles of O*NET are no questions to a bank."""
    folder = Path(DATA) / "text"
    table = pd.read_csv(folder / "banking77_train.csv")
    shuffled = table.sample(frac=1, random_state=0).reset_index(drop=True)
    texts, y = shuffled["text"].to_numpy(object), shuffled["category"].to_numpy(object)
    from duelrank.preprocessing import TextFeatures

    model = make_pipeline(TextFeatures(), DuelRanker(random_state=0)).fit(texts[:6000], y[:6000])
    profile = Profile.of(model, texts[:6000], y[:6000])
    assert len(json.dumps(profile.to_dict())) < 6_000
    check = compare(profile, model, texts[6000:], y[6000:])
    assert not check.drifted, check.to_rows()
    titles = pd.read_csv(folder / "onet_titles.csv")["title"][:2000].to_numpy(object)
    check = compare(profile, model, titles)
    assert "more unknown words" in [alarm.told for alarm in check.alarms]
    assert "first places" in alarms(check)


def test_few_rows_are_told_to_be_few(rng):
    model, profile = fitted(400, rng)
    few, y = rows(12, rng)
    assert any("12 new rows are few" in note for note in compare(profile, model, few, y).notes)
    many, y = rows(600, rng)
    assert not any("few" in note for note in compare(profile, model, many, y).notes)
