"""The duelrank command where rows have lists of labels: several columns, or a column of lists."""

import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from duelrank import DuelRanker, predict_order, predict_ranks
from duelrank.datasets import make_label_ranking
from duelrank.posteriors import complete_ranking
from duelrank.rankings import order_from_ranks, ranks_from_lists

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

import pyarrow.parquet as pq  # noqa: E402

from duelrank.preprocessing import make_preprocessing  # noqa: E402
from duelrank.storage import describe, load  # noqa: E402
from test_cli import fail, run, succeed  # noqa: E402

NAMES = ["01", "1", "b", "NA"]
TARGETS = ["--target", "best", "--target", "second", "--target", "third"]
N = 120


def lists_of_labels():
    """Points on a line, and lists of one to three of four labels."""
    X, y, eta = make_label_ranking(N, random_state=0)
    order = order_from_ranks(complete_ranking(eta, y, random_state=0)) % len(NAMES)
    rng = np.random.RandomState(0)
    lists = []
    for codes, length in zip(order.tolist(), rng.randint(1, 4, size=N), strict=True):
        lists.append([NAMES[code] for code in dict.fromkeys(codes)][:length])
    return X[:, 0], lists


X, LISTS = lists_of_labels()


def columns_of(lists):
    padded = [[*row, "", "", ""][:3] for row in lists]
    return dict(zip(("best", "second", "third"), zip(*padded, strict=True), strict=True))


def write(path, x=X, lists=LISTS):
    """Write a table in the form that the ending names."""
    noise = np.cos(37 * np.arange(len(lists)))
    if path.suffix == ".csv":
        cells = zip(x, noise, *columns_of(lists).values(), strict=True)
        lines = ["x,noise,best,second,third", *(",".join(map(str, row)) for row in cells)]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.table({"x": x, "noise": noise, "guesses": lists}), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("lists")
    write(made / "d.csv")
    write(made / "d.parquet")
    engine = ("--engine", "logistic")
    succeed("fit", made / "d.csv", *TARGETS, *engine, "-o", made / "m.skops")
    succeed("fit", made / "d.parquet", "--target", "guesses", *engine, "-o", made / "nested.skops")
    return made


def test_fit_learns_from_the_lists(folder):
    path = folder / "m.skops"
    model = load(path)
    points = pa.table({"x": X, "noise": np.cos(37 * np.arange(N))})
    classes = sorted(NAMES)
    first_step = make_preprocessing({"x": "number", "noise": "number"})
    ranker = DuelRanker(random_state=0, classes=classes, unplaced="behind")
    expected = make_pipeline(first_step, ranker)
    expected.fit(points, ranks_from_lists(LISTS, classes))
    assert model.classes_.tolist() == classes  # "01" stays "01", and "NA" is a label
    assert np.array_equal(model.decision_function(points), expected.decision_function(points))
    by_first = make_pipeline(first_step, DuelRanker(random_state=0))
    by_first.fit(points, np.array([row[0] for row in LISTS]))
    assert not np.array_equal(predict_ranks(model, points), predict_ranks(by_first, points))

    description = describe(path)
    assert description.target == "best"
    assert description.targets == ["best", "second", "third"]
    assert description.learned_from_lists
    assert list(description.columns) == ["x", "noise"]


def test_a_column_of_lists_is_the_same(folder):
    description = describe(folder / "nested.skops")
    assert description.targets == [description.target] == ["guesses"]
    assert description.learned_from_lists
    ranked = [
        succeed("rank", folder / model, folder / data, "--top", 4).stdout
        for model in ("m.skops", "nested.skops")
        for data in ("d.csv", "d.parquet")
    ]
    assert ranked[0] == ranked[2]
    assert ranked[1] == ranked[3]


@pytest.mark.parametrize("engine", ["logistic-cv", "stumps", "forest", "boosting"])
def test_every_engine_learns_from_lists(engine, folder, tmp_path):
    path = tmp_path / "m.skops"
    succeed("fit", folder / "d.csv", *TARGETS, "-o", path, "--engine", engine)
    shown = succeed("rank", path, folder / "d.csv", "--no-probabilities").stdout
    rankings = [line.split(",") for line in shown.splitlines()[1:]]
    assert all(sorted(ranking) == sorted(NAMES) for ranking in rankings)
    hits = [ranking[0] == row[0] for ranking, row in zip(rankings, LISTS, strict=True)]
    assert np.mean(hits) > 1.5 / len(NAMES)  # by chance 1 / len(NAMES)


def test_fit_and_info_tell_the_columns(folder, tmp_path):
    told = succeed("fit", folder / "d.csv", *TARGETS, "-o", tmp_path / "m.skops").stderr
    assert told.splitlines()[:2] == [
        "number        2  x, noise",
        "lists         3  best, second, third",
    ]
    assert f"6 duels between 4 labels on {N} rows" in told
    shown = succeed("info", folder / "m.skops", env={"COLUMNS": "100"}).stdout
    lines = [line.rstrip() for line in shown.splitlines()]
    assert "target      best, second, third (lists of labels, best first)" in lines
    assert "labels      4: 01, 1, NA, b" in lines


def test_rank_ignores_all_targets(folder, tmp_path):
    result = succeed("rank", folder / "m.skops", folder / "d.csv", "--keep", "second")
    assert result.stderr == ""
    assert result.stdout.splitlines()[0].startswith("second,label_1,")
    bare = tmp_path / "bare.csv"
    bare.write_text("noise,x\n0.5,0.1\n")
    (line,) = succeed("rank", folder / "m.skops", bare, "--no-probabilities").stdout.split()[1:]
    assert sorted(line.split(",")) == sorted(NAMES)


@pytest.mark.parametrize(("model", "data"), [("m.skops", "d.csv"), ("nested.skops", "d.parquet")])
def test_explain_and_report_take_the_first_label(model, data, folder, tmp_path):
    pipeline = load(folder / model)
    points = pa.table({"x": X, "noise": np.cos(37 * np.arange(N))})
    place = predict_order(pipeline, points)[5].tolist().index(LISTS[5][0]) + 1
    shown = succeed("explain", folder / model, folder / data, "--row", 5, env={"COLUMNS": "300"})
    assert shown.stdout.splitlines()[0].endswith(
        f"; its first label is {LISTS[5][0]} (place {place})"
    )
    page = tmp_path / "page.html"
    assert succeed("report", folder / model, folder / data, "-o", page).stderr == (
        f"Wrote {page}.\n"
    )
    inside = page.read_text().split('type="application/json"')[1].split(">", 1)[1]
    assert "place" in json.loads(inside.split("</script>")[0])["fields"]


def accuracies(result):
    return {
        line.split()[0]: [float(cell) for cell in line.split()[1:5]]
        for line in result.stdout.splitlines()[4:7]
    }


def test_evaluate_cross_validates_duels_from_lists(folder):
    result = succeed("evaluate", folder / "d.csv", *TARGETS, "--folds", 3)
    assert result.stdout.splitlines()[0] == f"d: {N} rows, 4 labels, 3 folds"
    nested = succeed("evaluate", folder / "d.parquet", "--target", "guesses", "--folds", 3)
    assert accuracies(nested) == accuracies(result)
    first = succeed(
        "evaluate", folder / "d.csv", "--target", "best", "--folds", 3,
        "--ignore", "second", "--ignore", "third", "--baselines", "multinomial,one-vs-rest",
    )  # fmt: skip
    for baseline in ("multinomial", "one-vs-rest"):
        assert accuracies(first)[baseline] == accuracies(result)[baseline]
    assert accuracies(first)["duels"] != accuracies(result)["duels"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_evaluate_on_a_test_file(ending, folder, tmp_path):
    targets = TARGETS if ending == ".csv" else ["--target", "guesses"]
    lists = [["01", "b"], [], ["rose"], *LISTS[:20]]
    test = write(tmp_path / f"test{ending}", np.linspace(0, 1, 23), lists)
    result = succeed("evaluate", folder / f"d{ending}", *targets, "--test", test)
    assert result.stdout.startswith(f"d: {N} rows, 4 labels, 22 test rows\n")
    assert "1 row of" in result.stderr
    assert "1 label of" in result.stderr


def test_rare_first_labels(tmp_path):
    lists = [["a", "b"], ["b", "a"]] * 10 + [["c", "d"]]
    data = write(tmp_path / "few.csv", np.arange(21.0), lists)
    assert "label c has 1 row for 5 folds" in fail("evaluate", data, *TARGETS)
    result = succeed("evaluate", data, *TARGETS, "--drop-rare")
    assert result.stdout.startswith("few: 20 rows, 2 labels, 5 folds")
    same = write(tmp_path / "same.csv", np.arange(20.0), [["a", "b"], ["a", "c"]] * 10)
    assert fail("evaluate", same, *TARGETS) == (
        "every list begins with the same label; ranking needs two."
    )
    succeed("fit", same, *TARGETS, "-o", tmp_path / "m.skops")


def test_mistakes_in_lists(tmp_path):
    data, out = tmp_path / "d.csv", tmp_path / "m.skops"

    def sentence(*lines):
        data.write_text("\n".join(["x,best,second,third", *lines]) + "\n")
        return fail("fit", data, *TARGETS, "-o", out)

    where = "the lists in 'best', 'second', 'third'"
    assert sentence("1,a,b,", "2,,,", "3,a,,c") == (
        f"{where} must have no gaps, but row 2 (from 0) has 'c' at place 3 and nothing at place 2."
    )
    assert sentence("1,a,b,", "2,,b,") == (
        f"{where} must have no gaps, but row 1 (from 0) has 'b' at place 2 and nothing at place 1."
    )
    assert sentence("1,a,b,", "2,,,", "3,a,b,a") == (
        f"{where} must name a label once, but row 2 (from 0) repeats 'a'."
    )
    assert sentence("1,,,", "2,,,") == "no row has a label in 'best'."
    assert sentence("1,a,,", "2,a,,") == "'best' holds the single label 'a'; ranking needs two."
    assert "no column 'fourth'" in fail("fit", data, *TARGETS, "--target", "fourth", "-o", out)
    assert fail("fit", data, *TARGETS, "--target", "best", "-o", out, code=2) == (
        "--target best is there more than once."
    )
    assert run("fit", data, "-o", out).exit_code == 2
    assert not out.exists()


def test_one_column_of_labels_stays_what_it_was(folder, tmp_path):
    out = tmp_path / "m.skops"
    arguments = ("--ignore", "second", "--ignore", "third", "-o", out)
    told = succeed("fit", folder / "d.csv", "--target", "best", *arguments).stderr
    assert "lists" not in told
    description = describe(out)
    assert (description.target, description.targets) == ("best", ["best"])
    assert not description.learned_from_lists
    assert "targets" not in description.facts
    assert load(out)[-1].classes is None


def test_columns_of_ranks_are_not_taken_for_lists(tmp_path):
    rows = ["x,a,b,c", *(f"{x},{x % 3 + 1},{(x + 1) % 3 + 1},{(x + 2) % 3 + 1}" for x in range(9))]
    data = tmp_path / "ranks.csv"
    data.write_text("\n".join(rows) + "\n")
    targets = ["--target", "a", "--target", "b", "--target", "c"]
    sentence = fail("fit", data, *targets, "--output", tmp_path / "model.skops")
    assert "hold ranks, one column per label; a target is a column of labels" in sentence
    assert not (tmp_path / "model.skops").exists()
