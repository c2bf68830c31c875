"""The duelrank command on tables with text: tickets that are made up, and questions to a bank."""

import csv
import os
import re

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from duelrank import DuelRanker, LogisticDuels, predict_order, predict_top
from duelrank.datasets import load_text

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

import pyarrow.parquet as pq  # noqa: E402

from duelrank.evaluation import evaluate  # noqa: E402
from duelrank.preprocessing import make_preprocessing, training_data  # noqa: E402
from duelrank.storage import describe, load  # noqa: E402
from duelrank.tables import features as as_features  # noqa: E402
from test_cli import fail, succeed  # noqa: E402

N = 300
TOPICS = {
    "billing": ["invoice", "refund", "charged", "payment", "twice", "receipt", "amount"],
    "delivery": ["parcel", "courier", "late", "address", "arrived", "lost", "box"],
    "login": ["password", "account", "reset", "locked", "code", "email", "browser"],
}
FILLER = [
    *("hello", "please", "help", "me", "with", "this", "I", "have", "been"),
    *("waiting", "since", "monday", "thanks", "a", "lot"),
]
KINDS = {
    "subject": "text",
    "body": "text",
    "priority": "category",
    "customer_age": "number",
    "date": "date",
    "channel": "category",
}
# The engine that takes no search, where it does not matter which one there is.
QUICK = ("--engine", "logistic", "-C", "10")


def tickets(n=N, seed=0):
    """Draw tickets as columns of text, as in CSV.

    The words tell the topic, as a rule; the channel and the priority tell which of its two teams
    is asked.
    """
    rng = np.random.default_rng(seed)

    def written(topic, n_words, n_own):
        topic = topic if rng.random() < 0.9 else rng.choice(list(TOPICS))
        own = rng.choice(TOPICS[topic], size=n_own)
        words = rng.permutation([*own, *rng.choice(FILLER, size=n_words - n_own)])
        return " ".join(words.tolist())

    rows = []
    for number in range(n):
        topic = str(rng.choice(list(TOPICS)))
        channel = str(rng.choice(["mail", "phone", "chat"]))
        priority = str(rng.choice(["low", "high"]))
        urgent = channel == "phone" or (channel == "chat" and priority == "high")
        rows.append(
            {
                "subject": written(topic, 4, 1) + f" {number}",
                "body": written(topic, 12, 3),
                "priority": priority,
                "customer_age": "" if number % 17 == 3 else str(rng.integers(18, 90)),
                "date": f"2024-{1 + number % 12:02}-{1 + number % 28:02}",
                "channel": channel,
                "team": f"{topic} {'hotline' if urgent else 'desk'}",
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}


def write(path, columns):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


TICKETS = tickets()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of tickets, and a model of it by a fixed engine."""
    made = tmp_path_factory.mktemp("tickets")
    write(made / "tickets.csv", TICKETS)
    succeed("fit", made / "tickets.csv", "--target", "team", "-o", made / "quick.skops", *QUICK)
    return made


def accuracies_of(*ignored):
    """Return the top-1 and top-2 accuracies of duels without some columns."""
    data = training_data(pa.table(TICKETS), "team", as_text=True, ignore=ignored)
    ranker = DuelRanker(LogisticDuels(C=10), random_state=0)
    (result,) = evaluate(
        {"duels": ranker},
        data.X,
        data.y,
        preprocessing=make_preprocessing(data.kinds),
        folds=3,
        top=2,
        random_state=0,
    )
    return result.accuracies


def table_of(output):
    """Read the names and the first numbers of the table that evaluate shows."""
    lines = re.findall(r"^(\S+) +(\d\.\d{3}) ", output, flags=re.MULTILINE)
    return {name: float(accuracy) for name, accuracy in lines}


def test_text_tells_more_than_the_other_columns_and_all_columns_most():
    texts = [name for name, kind in KINDS.items() if kind == "text"]
    others = [name for name in KINDS if name not in texts]
    everything, text, no_text = accuracies_of(), accuracies_of(*others), accuracies_of(*texts)
    # One standard error is at most three points.
    assert text[0] > no_text[0] + 0.06
    assert text[1] > no_text[1] + 0.15
    assert everything[0] > text[0] + 0.3


def test_fit_says_which_columns_are_text(folder):
    arguments = ("fit", folder / "tickets.csv", "--target", "team", "-o", folder / "said.skops")
    said = succeed(*arguments, *QUICK).stderr.splitlines()
    assert said[0] == "text          2  subject, body"
    assert describe(folder / "said.skops").columns == KINDS


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (("--text", "channel"), {"channel": "text"}),
        (("--text", "customer_age", "--text", "date"), {"customer_age": "text", "date": "text"}),
        (("--categorical", "subject"), {"subject": "category"}),
        (("--categorical", "body", "--text", "priority"), {"body": "category", "priority": "text"}),
    ],
)
def test_options_say_what_a_column_is(folder, tmp_path, options, changed):
    path = tmp_path / "m.skops"
    succeed("fit", folder / "tickets.csv", "--target", "team", "-o", path, "-C", "10", *options)
    assert describe(path).columns == KINDS | changed
    assert succeed("rank", path, folder / "tickets.csv").stdout.count("\n") == N + 1


def test_options_that_contradict_each_other(folder, tmp_path):
    arguments = ("fit", folder / "tickets.csv", "--target", "team", "-o", tmp_path / "m.skops")
    sentence = fail(*arguments, "--text", "body", "--categorical", "body", code=2)
    assert sentence == "--text body is --categorical as well."
    assert "has no column 'message'; it has subject, " in fail(*arguments, "--text", "message")


@pytest.mark.parametrize("engine", ["stacked", "stumps", "forest", "boosting"])
def test_engines_that_take_no_text_say_so(folder, tmp_path, engine):
    options = (folder / "tickets.csv", "--target", "team", "--engine", engine)
    for command in (("fit", *options, "-o", tmp_path / "m.skops"), ("evaluate", *options)):
        sentence = fail(*command, code=2)
        assert sentence.startswith(f"--engine {engine} takes no text, which 'subject' holds")
    assert not (tmp_path / "m.skops").exists()


def test_the_command_ranks_as_python_does(folder, tmp_path):
    new = tickets(80, seed=1)
    ranked = tmp_path / "ranked.parquet"
    succeed("rank", folder / "quick.skops", write(tmp_path / "new.csv", new), "-o", ranked)
    data = training_data(pa.table(TICKETS), "team", as_text=True)
    assert data.kinds == KINDS
    ranker = DuelRanker(LogisticDuels(C=10), random_state=0)
    model = Pipeline([("columns", make_preprocessing(data.kinds)), ("ranker", ranker)])
    model.fit(data.X, data.y)
    points = training_data(pa.table(new), "team", as_text=True).X
    table = pq.read_table(ranked)
    got = np.column_stack([table[f"label_{place}"].to_pylist() for place in range(1, 6)])
    np.testing.assert_array_equal(got, predict_top(model, points, 5))
    best = np.max(model.predict_proba(points), axis=1)
    np.testing.assert_allclose(table["probability_1"].to_numpy(), best, rtol=1e-9)
    again = tmp_path / "again.parquet"  # in batches, words have the same weights
    succeed("rank", folder / "quick.skops", tmp_path / "new.csv", "-o", again, "--batch", 7)
    assert pq.read_table(again, columns=["label_5"]) == table.select(["label_5"])


ODD_TEXTS = {
    "empty": "",
    "missing": "NA",
    "blanks": " \t ",
    "HTML": "<p class='a'>My <b>invoice</b> &amp; the receipt<br/></p><!-- login -->",
    "emoji": "😀 refund 👩🏽‍💻 please 😡😡",
    "Chinese": "包裹丢失了，请帮忙",
    "lines": 'first line\r\nsecond "line", with a comma\n\nlast',
    "controls": "\x07 parcel \u202e late \u200b",
    "very long": "refund the invoice " * 60_000,  # more than a megabyte
}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_odd_texts_are_learned_from_and_ranked(tmp_path, ending):
    columns = TICKETS | {"body": [*ODD_TEXTS.values(), *TICKETS["body"][len(ODD_TEXTS) :]]}
    if ending == ".parquet":
        columns["body"] = [None if text == "NA" else text for text in columns["body"]]
    data, path = write(tmp_path / f"odd{ending}", columns), tmp_path / "m.skops"
    succeed("fit", data, "--target", "team", "-o", path, *QUICK)
    assert describe(path).columns["body"] == "text"
    ranked = succeed("rank", path, data, "--top", 1).stdout.splitlines()
    assert len(ranked) == N + 1
    hits = sum(row.startswith(team) for row, team in zip(ranked[1:], columns["team"], strict=True))
    assert hits > 0.9 * N


def test_what_odd_texts_say(folder, tmp_path):
    """HTML says what it shows, and words in capitals or of another encoding say the same."""
    one = {name: cells[:1] for name, cells in tickets(1, seed=2).items()} | {"subject": [""]}
    says = {}
    for name, body in {
        "plain": "My invoice & the receipt",
        "HTML": "<p class='parcel'>My <b>invoice</b> &amp; the receipt</p><!-- login -->",
        "capitals": "MY INVOICE & the receipt",
        "wide": "My ｉｎｖｏｉｃｅ & the receipt",
        "nothing": "",
        "missing": "NULL",
        "unknown words": "包裹",
    }.items():
        data = write(tmp_path / "one.csv", one | {"body": [body]})
        says[name] = succeed("rank", folder / "quick.skops", data, "--top", 6).stdout
    assert says["plain"] == says["HTML"] == says["capitals"] == says["wide"]
    assert says["plain"].splitlines()[1].startswith("billing")
    assert says["nothing"] == says["missing"] == says["unknown words"] != says["plain"]


def test_numbers_in_a_column_of_text_are_read_as_text(folder, tmp_path):
    new = tickets(20, seed=1)
    numbers = write(tmp_path / "n.parquet", new | {"subject": list(range(20))})
    written = write(tmp_path / "n.csv", new | {"subject": [str(i) for i in range(20)]})
    model = folder / "quick.skops"
    assert succeed("rank", model, numbers).stdout == succeed("rank", model, written).stdout


def test_a_column_of_text_that_is_not_there(folder, tmp_path):
    new = tickets(5, seed=1)
    del new["body"], new["team"]
    data = write(tmp_path / "new.csv", new)
    assert fail("rank", folder / "quick.skops", data) == (
        f"{data} has no column 'body'; it has subject, priority, customer_age, date, channel."
    )


def test_explain_tells_words_columns_and_dates(folder, tmp_path):
    model, wide = folder / "quick.skops", {"env": {"COLUMNS": "200"}}
    row = next(i for i, team in enumerate(TICKETS["team"]) if team == "login desk")
    told = succeed("explain", model, folder / "tickets.csv", "--row", row, **wide).stdout
    assert told.count("Why login desk before ") == 2
    assert re.search(rf"date = {TICKETS['date'][row]} +[+-]\d", told)  # not as days
    assert re.search(r"body: (password|account|reset|locked|code|email|browser) +\+", told)
    assert f"channel = {TICKETS['channel'][row]} " in told
    # A row whose label is far behind is explained against that label, too.
    wrong = {name: values[row : row + 1] for name, values in TICKETS.items()}
    features = pa.table({name: wrong[name] for name in KINDS})
    last = predict_order(load(model), as_features(features, KINDS))[0, -1]
    wrong["team"] = [last]
    told = succeed(
        "explain", model, write(tmp_path / "wrong.csv", wrong), "--row", 0, **wide
    ).stdout
    assert told.count("Why login desk before ") == 3
    assert f"Why login desk before {last}?" in told
    asked = ("explain", model, folder / "tickets.csv", "--row", row, "--rival")
    told = succeed(*asked, last, **wide).stdout
    assert told.count("Why login desk before ") == 1
    assert f"Why login desk before {last}?" in told
    assert fail(*asked, "login desk") == (
        "--rival 'login desk' is the first label; name another one."
    )
    assert fail(*asked, "the moon") == (
        "--rival 'the moon' is no label that the model knows; it knows billing desk, billing "
        "hotline, delivery desk and 3 more."
    )
    assert fail(*asked, "login dsk").endswith("knows; did you mean 'login desk'?")


def test_numbers_and_dates_in_another_notation_are_told(tmp_path):
    columns = {
        "price": [f"{number},50" for number in range(60)],
        "opened": [f"{1 + number % 28:02}.05.2024" for number in range(60)],
        "amount": [f"{number % 7 + 1},250" for number in range(60)],
        "y": ["a", "b"] * 30,
    }
    told = succeed(
        "fit", write(tmp_path / "d.csv", columns), "--target", "y", "-o", tmp_path / "m", *QUICK
    ).stderr
    assert "'price' is taken for categories, but looks like numbers with a decimal comma" in told
    assert "'opened' is taken for categories, but looks like dates; write them as 2024-05" in told
    assert "'amount' is taken for categories, but looks like numbers with " in told


def test_baselines_learn_from_the_same_text(folder):
    arguments = ("evaluate", folder / "tickets.csv", "--target", "team", "--folds", "2", *QUICK)
    wide = {"COLUMNS": "120"}
    chosen = succeed(*arguments, "--baselines", "majority,linear-svc", env=wide).stdout
    accuracies = table_of(chosen)
    assert list(accuracies) == ["duels", "linear-svc", "majority"]
    assert accuracies["linear-svc"] > accuracies["majority"] + 0.3
    assert accuracies["duels"] > accuracies["majority"] + 0.3
    assert "chosen" not in chosen  # a fixed engine
    assert list(table_of(succeed(*arguments, "--baselines", "none", env=wide).stdout)) == ["duels"]
    default = list(table_of(succeed(*arguments, env=wide).stdout))
    assert default == ["duels", "multinomial", "one-vs-rest", "linear-svc", "majority"]


@pytest.mark.parametrize(
    ("names", "unknown"), [("svm", "svm"), ("majority,svm", "svm"), ("", ""), ("none,all", "none")]
)
def test_unknown_baselines_are_refused(folder, names, unknown):
    arguments = ("evaluate", folder / "tickets.csv", "--target", "team", "--baselines", names)
    assert fail(*arguments, code=2) == (
        f"--baselines {unknown!r} is none of multinomial, one-vs-rest, linear-svc, forest, "
        "boosting, majority, all or none."
    )


def test_the_default_engine_says_what_it_chose(folder, tmp_path):
    path = tmp_path / "auto.skops"
    said = succeed("fit", folder / "tickets.csv", "--target", "team", "-o", path).stderr
    engine = load(path)[-1].duels_
    trials = {trial["name"]: trial["score"] for trial in engine.trials_}
    assert list(trials) == ["anchored", "logistic"]
    (other,) = set(trials) - {engine.chosen_}
    assert re.search(rf"^engine +{engine.chosen_}: \w+Duels\(", said, flags=re.MULTILINE)
    assert (
        f"on {engine.n_held_out_} held-out rows: {trials[engine.chosen_]:.3f} "
        f"({other} {trials[other]:.3f})" in said
    )
    assert describe(path).facts["engine_trials"] == engine.trials_
    info = " ".join(succeed("info", path).stdout.split())
    assert "2 text: subject, body" in info
    assert "text body: TextFeatures()" in info
    assert f"duels 15 by {type(engine.engine_).__name__}(" in info
    scores = ", ".join(f"{name} {score:.3f}" for name, score in trials.items())
    assert f"chosen on held-out rows, among {scores}" in info
    arguments = ("evaluate", folder / "tickets.csv", "--target", "team", "--folds", "2")
    shown = " ".join(succeed(*arguments, "--baselines", "none").stdout.split())
    assert re.search(r"Engine of the duels: (anchored|logistic) \([12] of 2 folds\)", shown)


@pytest.mark.skipif("DUELRANK_DATA" not in os.environ, reason="DUELRANK_DATA names no data folder")
def test_questions_to_a_bank(tmp_path):
    """Twelve of the 77 intents, of cards and payments, which are the harder ones."""
    parts = {}
    for subset in ("train", "test"):
        texts, labels = load_text("banking77", subset=subset)
        wanted = sorted(label for label in set(labels) if "card" in label or "top_up" in label)[:12]
        some = np.isin(labels, wanted)
        columns = {"text": texts[some].tolist(), "category": labels[some].tolist()}
        parts[subset] = write(tmp_path / f"{subset}.csv", columns)
    arguments = ("evaluate", parts["train"], "--target", "category", "--test", parts["test"])
    result = succeed(*arguments, "--baselines", "linear-svc", env={"COLUMNS": "120"})
    accuracies = table_of(result.stdout)
    assert result.stderr.startswith("text          1  text")
    assert accuracies["duels"] > 0.9
    assert accuracies["duels"] > accuracies["linear-svc"] - 0.02
