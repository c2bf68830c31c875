"""The duelrank command where rows are choices: a label was picked among some that were shown."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from duelrank import DuelRanker, predict_ranks
from duelrank.datasets import make_label_ranking
from duelrank.posteriors import complete_ranking
from duelrank.rankings import ranks_from_choices, ranks_from_pairs

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

import pyarrow.parquet as pq  # noqa: E402

from duelrank.preprocessing import make_preprocessing  # noqa: E402
from duelrank.storage import describe, load  # noqa: E402
from test_cli import fail, succeed  # noqa: E402

NAMES = ["01", "1", "b", "NA"]
N = 150
SHOWN = ["--shown", "s1", "--shown", "s2", "--shown", "s3"]
CHOICES = ["--target", "picked", *SHOWN]


def choices():
    """Points on a line; two or three of four labels are shown, and the best of these is picked."""
    X, y, eta = make_label_ranking(N, random_state=0)
    ranks = complete_ranking(eta, y, random_state=0)[:, : len(NAMES)]
    rng = np.random.RandomState(0)
    shown = [rng.permutation(len(NAMES))[: rng.randint(2, 4)] for _ in range(N)]
    picked = [codes[ranks[row, codes].argmin()] for row, codes in enumerate(shown)]
    return X[:, 0], [[NAMES[k] for k in codes] for codes in shown], [NAMES[k] for k in picked]


X, LABELS, PICKED = choices()
NOISE = np.cos(37 * np.arange(N))
POINTS = pa.table({"x": X, "noise": NOISE})


def write(path, x=X, shown=LABELS, picked=PICKED):
    """Write a table in the form that the ending names."""
    noise = np.cos(37 * np.arange(len(picked)))
    if path.suffix == ".csv":
        cells = [[*row, "", "", ""][:3][::-1] for row in shown]  # empty cells come first
        rows = zip(x, noise, cells, picked, strict=True)
        lines = [",".join(map(str, (a, b, *three, label))) for a, b, three, label in rows]
        path.write_text("\n".join(["x,noise,s1,s2,s3,picked", *lines]) + "\n")
    else:
        columns = {"x": x, "noise": noise, "shown": shown, "picked": picked}
        pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("choices")
    write(made / "d.csv")
    write(made / "d.parquet")
    engine = ("--engine", "logistic")
    succeed("fit", made / "d.csv", *CHOICES, *engine, "-o", made / "m.skops")
    options = ("--target", "picked", "--shown", "shown", *engine)
    succeed("fit", made / "d.parquet", *options, "-o", made / "nested.skops")
    return made


def fitted(ranks, points=POINTS):
    first_step = make_preprocessing({"x": "number", "noise": "number"})
    ranker = DuelRanker(random_state=0, classes=sorted(NAMES), unplaced="unknown")
    return make_pipeline(first_step, ranker).fit(points, ranks)


def test_fit_learns_from_the_choices(folder):
    expected = fitted(ranks_from_choices(LABELS, PICKED, sorted(NAMES)))
    model = load(folder / "m.skops")
    assert model.classes_.tolist() == sorted(NAMES)
    assert model[-1].unplaced == "unknown"
    assert np.array_equal(model.decision_function(POINTS), expected.decision_function(POINTS))
    by_label = make_pipeline(make_preprocessing({"x": "number", "noise": "number"}), DuelRanker())
    by_label.fit(POINTS, np.array(PICKED))
    assert not np.array_equal(predict_ranks(model, POINTS), predict_ranks(by_label, POINTS))


def test_a_column_of_lists_is_the_same(folder):
    ranked = [
        succeed("rank", folder / model, folder / data, "--top", 4).stdout
        for model in ("m.skops", "nested.skops")
        for data in ("d.csv", "d.parquet")
    ]
    assert ranked[0] == ranked[2]
    assert ranked[1] == ranked[3]


def test_files_tell_what_was_shown(folder, tmp_path):
    told = succeed("fit", folder / "d.csv", *CHOICES, "-o", tmp_path / "m.skops").stderr
    assert told.splitlines()[:2] == [
        "number        2  x, noise",
        "shown         3  s1, s2, s3",
    ]
    assert "taken to come behind" not in told
    description = describe(folder / "m.skops")
    assert (description.target, description.targets) == ("picked", ["picked"])
    assert description.shown == ["s1", "s2", "s3"]
    assert not description.learned_from_lists
    assert list(description.columns) == ["x", "noise"]
    lines = succeed("info", folder / "m.skops", env={"COLUMNS": "100"}).stdout.splitlines()
    assert "target      picked (picked among the labels in s1, s2, s3)" in map(str.rstrip, lines)


def test_columns_of_shown_labels_are_expected_but_not_needed(folder, tmp_path):
    assert succeed("rank", folder / "m.skops", folder / "d.csv").stderr == ""
    bare = tmp_path / "bare.csv"
    bare.write_text("noise,x\n0.5,0.1\n")
    (line,) = succeed("rank", folder / "m.skops", bare, "--no-probabilities").stdout.split()[1:]
    assert sorted(line.split(",")) == sorted(NAMES)
    shown = succeed("explain", folder / "m.skops", folder / "d.csv", "--row", 5).stdout
    assert f"its label is {PICKED[5]}" in shown
    succeed("report", folder / "m.skops", folder / "d.csv", "-o", tmp_path / "page.html")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_preference_has_one_label_shown(ending, tmp_path):
    """The picked label need not be in the columns of those shown."""
    winners = PICKED
    losers = [
        next(label for label in row if label != picked)
        for row, picked in zip(LABELS, PICKED, strict=True)
    ]
    data, path = tmp_path / f"d{ending}", tmp_path / "m.skops"
    table = POINTS.append_column("winner", [winners]).append_column("loser", [losers])
    if ending == ".csv":
        rows = [",".join(map(str, row.values())) for row in table.to_pylist()]
        data.write_text("\n".join([",".join(table.column_names), *rows]) + "\n")
    else:
        pq.write_table(table, data)
    columns = ("--target", "winner", "--shown", "loser")
    succeed("fit", data, *columns, "--engine", "logistic", "-o", path)
    expected = fitted(ranks_from_pairs(winners, losers, sorted(NAMES)))
    model = load(path)
    assert np.array_equal(model.decision_function(POINTS), expected.decision_function(POINTS))


def measured(result):
    """Return the numbers of each ranker: picked, top-1 and so on."""
    lines = result.stdout.splitlines()
    assert lines[2].split()[:4] == ["ranking", "by", "picked", "top-1"]
    return {line.split()[0]: [float(cell) for cell in line.split()[1:6]] for line in lines[4:7]}


def test_evaluate_measures_choices(folder):
    result = succeed("evaluate", folder / "d.csv", *CHOICES, "--folds", 3)
    assert result.stdout.splitlines()[0] == f"d: {N} rows, 4 labels, 3 folds"
    options = ("--target", "picked", "--shown", "shown", "--folds", 3)
    assert measured(succeed("evaluate", folder / "d.parquet", *options)) == measured(result)
    of_labels = succeed(
        "evaluate", folder / "d.csv", "--target", "picked", "--folds", 3,
        "--ignore", "s1", "--ignore", "s2", "--ignore", "s3", "--baselines", "multinomial",
    )  # fmt: skip
    assert "picked" not in of_labels.stdout.splitlines()[2]
    top = [float(cell) for cell in of_labels.stdout.splitlines()[5].split()[1:5]]
    assert measured(result)["multinomial"][1:] == top
    # Of two or three labels shown, the best one is found more often than by chance.
    assert measured(result)["duels"][0] > 0.55


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_evaluate_on_a_test_file(ending, folder, tmp_path):
    """Of its labels and those shown, some are unknown, and some labels are missing."""
    shown = [["01", "b"], ["b", "rose"], ["01", "1"], *LABELS[:20]]
    picked = ["01", "rose", "" if ending == ".csv" else None, *PICKED[:20]]
    test = write(tmp_path / f"test{ending}", np.linspace(0, 1, 23), shown, picked)
    columns = CHOICES if ending == ".csv" else ["--target", "picked", "--shown", "shown"]
    options = (*columns, "--engine", "logistic", "--test", test)
    result = succeed("evaluate", folder / f"d{ending}", *options)
    assert result.stdout.startswith(f"d: {N} rows, 4 labels, 22 test rows\n")
    assert "1 row of" in result.stderr
    assert "1 label of" in result.stderr
    model = load(folder / ("m.skops" if ending == ".csv" else "nested.skops"))
    noise = np.cos(37 * np.arange(23))
    ranks = predict_ranks(model, pa.table({"x": np.linspace(0, 1, 23), "noise": noise}))
    place = [dict(zip(sorted(NAMES), row, strict=True)) for row in ranks.tolist()]
    hits = [
        min(labels, key=lambda label: place[row].get(label, 9)) == label_picked
        for row, (labels, label_picked) in enumerate(zip(shown, picked, strict=True))
        if row != 2
    ]
    assert measured(result)["duels"][0] == round(np.mean(hits), 3)


def test_labels_of_a_test_file_are_the_same_if_they_are_written_the_same(tmp_path):
    codes = [[NAMES.index(label) for label in row] for row in LABELS]
    picked = [NAMES.index(label) for label in PICKED]
    as_numbers = write(tmp_path / "numbers.parquet", X, codes, picked)
    as_text = tmp_path / "text.csv"
    write(as_text, X, codes, picked)
    test = tmp_path / "test.parquet"
    table = pa.table(
        {
            "x": X,
            "noise": NOISE,
            "picked": picked,
            **{
                f"s{k}": [row[k - 1] if k <= len(row) else None for row in codes] for k in (1, 2, 3)
            },
        }
    )
    pq.write_table(table, test)
    written = measured(succeed("evaluate", as_text, *CHOICES, "--test", test))
    options = ("--target", "picked", "--shown", "shown", "--test", as_numbers)
    assert written == measured(succeed("evaluate", as_numbers, *options))


def test_rare_picks_are_left_out_with_what_was_shown(tmp_path):
    shown = [["a", "b"], ["b", "a"]] * 10 + [["c", "a"]]
    data = write(tmp_path / "few.csv", np.arange(21.0), shown, ["a", "b"] * 10 + ["c"])
    assert "label c has 1 row for 5 folds" in fail("evaluate", data, *CHOICES)
    result = succeed("evaluate", data, *CHOICES, "--drop-rare")
    assert result.stdout.startswith("few: 20 rows, 2 labels, 5 folds")
    same = write(tmp_path / "same.csv", np.arange(20.0), [["a", "b"]] * 20, ["a"] * 20)
    assert fail("evaluate", same, *CHOICES) == "every row picks the same label; ranking needs two."
    succeed("fit", same, *CHOICES, "-o", tmp_path / "m.skops")


def test_rows_that_show_one_label_say_nothing(tmp_path):
    data, out = tmp_path / "d.csv", tmp_path / "m.skops"
    data.write_text("x,picked,other\n1,a,b\n2,b,a\n3,a,\n4,b,b\n")
    told = succeed("fit", data, "--target", "picked", "--shown", "other", "-o", out).stderr
    assert "2 of 4 rows of y place no label ahead of another" in told


def test_mistakes_in_choices(folder, tmp_path):
    data, out = tmp_path / "d.csv", tmp_path / "m.skops"

    def sentence(*lines):
        data.write_text("\n".join(["x,picked,s1,s2,s3", *lines]) + "\n")
        return fail("fit", data, *CHOICES, "-o", out)

    assert sentence("1,a,b,c,", "2,,a,b,c", "3,a,b,b,c") == (
        "the labels shown, in 's1', 's2', 's3', must name a label once, but row 2 (from 0) repeats "
        "'b'."
    )
    assert sentence("1,a,,,", "2,a,,,") == "'picked' holds the single label 'a'; ranking needs two."
    assert sentence("1,,a,b,", "2,,a,b,") == "no row has a label in 'picked'."
    assert sentence("1,a,,,", "2,b,,,").startswith("y must place one label ahead of another")
    assert "no column 's4'" in fail("fit", data, *CHOICES, "--shown", "s4", "-o", out)
    usage = {"code": 2}
    assert fail("fit", data, *CHOICES, "--target", "x", "-o", out, **usage) == (
        "--shown needs a single --target, the column with the label that was picked; got 2."
    )
    assert fail("fit", data, *CHOICES, "--shown", "s1", "-o", out, **usage) == (
        "--shown s1 is there more than once."
    )
    assert fail("fit", data, *CHOICES, "--shown", "picked", "-o", out, **usage) == (
        "--shown picked is the --target as well."
    )
    assert fail("evaluate", "--shown", "s1", **usage) == "--target, --shown and --test need DATA."
    options = ("--target", "shown", "--shown", "picked", "-o", out)
    assert fail("fit", folder / "d.parquet", *options) == (
        "if there are labels that were shown, the target must be one column with the label that "
        "was picked; got lists in 'shown'."
    )
    mixed = tmp_path / "mixed.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [1, 2], "z": ["2", "1"]}), mixed)
    assert fail("fit", mixed, "--target", "y", "--shown", "z", "-o", out) == (
        "the target 'y' must hold labels of the type of those shown, but it holds whole numbers, "
        "and 'z' such as '2'."
    )
    assert not out.exists()
