"""The duelrank command with lists that hold the right label as often as promised."""

import csv
import json

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, StumpDuels, predict_order
from duelrank.shortlists import PlaceIntervals, Shortlister, measure_shortlists

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

import pyarrow.parquet as pq  # noqa: E402

from duelrank.cli import _rank  # noqa: E402
from duelrank.storage import describe, load, save  # noqa: E402
from test_cli import fail, succeed  # noqa: E402

TEAMS = np.array(["01", "1", "cards", "NA", "loans"], dtype=object)
LOGISTIC = ["--target", "team", "--engine", "logistic"]


def made(n_rows, seed):
    """Points around five corners, not all of them near their own one."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(TEAMS), size=n_rows)
    points = 1.5 * np.eye(len(TEAMS))[codes][:, :3] + rng.normal(size=(n_rows, 3))
    return points, codes


def features(points, codes):
    kinds = [["x", "y"][k] for k in codes % 2]
    return pa.table({**dict(zip("abc", points.T, strict=True)), "kind": kinds})


def write(path, n_rows, seed):
    points, codes = made(n_rows, seed)
    table = features(points, codes).append_column("team", pa.array(TEAMS[codes]))
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        writer.writerows(zip(*table.to_pydict().values(), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with tables and a model with lists."""
    folder = tmp_path_factory.mktemp("teams")
    write(folder / "tickets.csv", 400, 0)
    write(folder / "new.csv", 60, 1)
    write(folder / "new.parquet", 60, 1)
    fitted = succeed(
        "fit", folder / "tickets.csv", *LOGISTIC, "--coverage", 0.9, "-o", folder / "m.skops"
    )
    (folder / "fitted.txt").write_text(fitted.stderr)
    succeed("fit", folder / "tickets.csv", *LOGISTIC, "-o", folder / "plain.skops")
    return folder


@pytest.fixture
def tickets(folder):
    return folder / "tickets.csv"


@pytest.fixture
def model(folder):
    return folder / "m.skops"


def new_points():
    """The new rows as the loaded model takes them."""
    points, codes = made(60, 1)
    return features(points, codes), codes


def lists_in(path):
    """The lists in a JSON-lines file."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [[item["label"] for item in row["ranking"]] for row in rows]


# Fitting


def test_fit_keeps_a_fifth_of_the_rows(folder, model):
    said = (folder / "fitted.txt").read_text()
    assert "shortlists   80  rows kept for calibration, coverage 90%" in said
    assert "Fitted 10 duels between 5 labels and their lists on 400 rows" in said
    loaded = load(model)
    assert isinstance(loaded, Shortlister)
    assert (loaded.coverage, loaded.by, loaded.n_calibration_) == (0.9, "all", 80)
    description = describe(model)
    assert (description.target, description.facts["rows"]) == ("team", 400)
    assert description.columns == {"a": "number", "b": "number", "c": "number", "kind": "category"}


def test_lists_hold_the_label_about_as_often_as_asked_for(model):
    points, codes = made(2000, 2)
    table = features(points, codes)
    loaded = load(model)
    place = {label: code for code, label in enumerate(loaded.classes_.tolist())}
    right = [place[label] for label in TEAMS[codes]]
    quality = measure_shortlists(loaded.shortlist_mask(table), right)
    assert 0.82 < quality.coverage < 0.97
    assert 1 < quality.mean_length < 4


def test_the_seed_draws_the_rows(folder, tickets, tmp_path):
    scores = []
    for seed in (0, 0, 1):
        out = tmp_path / "m.skops"
        succeed("fit", tickets, *LOGISTIC, "--coverage", 0.9, "--seed", seed, "-o", out)
        scores.append(load(out).calibration_scores_[0].tolist())
    assert scores[0] == scores[1] == load(folder / "m.skops").calibration_scores_[0].tolist()
    assert scores[0] != scores[2]


def test_the_engine_that_was_chosen_is_told(tickets, tmp_path):
    fitted = succeed("fit", tickets, "--target", "team", "--coverage", 0.8, "-o", tmp_path / "m")
    assert "engine           " in fitted.stderr
    assert "held-out rows" in fitted.stderr
    assert "engine_trials" in describe(tmp_path / "m").facts


def test_coverage_by_label_and_by_cluster(tickets, tmp_path):
    out = tmp_path / "m.skops"
    for by in ("label", "cluster", "all"):
        fitted = succeed(
            "fit", tickets, *LOGISTIC, "--coverage", 0.8, "--coverage-by", by, "-o", out
        )
        assert load(out).by == by
        whom = {"label": "of the rows of every label", "cluster": "of every cluster of labels"}
        assert whom.get(by, "of all rows").split("of ")[-1] in fitted.stderr
        # A fifth of 400 rows are too few to find clusters in.
        assert ("Note: labels have too few" in fitted.stderr) == (by == "cluster")


def test_rare_labels_are_a_note(folder, tmp_path):
    lines = (folder / "tickets.csv").read_text().splitlines()
    rare = [line.rpartition(",")[0] + ",rare" for line in lines[1:11]]
    (tmp_path / "d.csv").write_text("\n".join([*lines, *rare]) + "\n")
    options = ("--coverage", 0.9, "--coverage-by", "label", "-o", tmp_path / "m.skops")
    fitted = succeed("fit", tmp_path / "d.csv", *LOGISTIC, *options)
    (noted,) = [line for line in fitted.stderr.splitlines() if "every list" in line]
    assert noted.startswith("Note: labels with too few calibration rows are in every list: rare.")
    assert "Warning" not in fitted.stderr


MISTAKES = {
    "as percents": (["--coverage", 95], 2, "must be between 0 and 1, such as 0.95; got 95."),
    "nothing": (["--coverage", 0], 2, "must be between 0 and 1"),
    "everything": (["--coverage", 1], 2, "must be between 0 and 1"),
    "no number": (["--coverage", "nan"], 2, "must be between 0 and 1"),
    "too few rows": (
        ["--coverage", 0.99],
        1,
        "--coverage 0.99 needs at least 99 rows for calibration, but a fifth of 400 is 80; "
        "take more rows or a lower coverage.",
    ),
    "several targets": (
        ["--coverage", 0.9, "--target", "kind"],
        2,
        "--coverage needs a single --target, the column with the right label; got 2.",
    ),
    "choices": (
        ["--coverage", 0.9, "--shown", "kind"],
        2,
        "--coverage needs labels that are right, so it excludes --shown.",
    ),
    "by alone": (["--coverage-by", "label"], 2, "--coverage-by needs --coverage."),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_sentence(mistake, tickets, tmp_path):
    options, code, sentence = MISTAKES[mistake]
    out = tmp_path / "m.skops"
    assert sentence in fail("fit", tickets, *LOGISTIC, *options, "-o", out, code=code)
    assert not out.exists()
    if "--coverage-by" not in options and mistake != "too few rows":
        assert sentence in fail("evaluate", tickets, *LOGISTIC, *options, code=code)


def test_columns_of_lists_are_refused(tmp_path):
    table = pa.table({"x": np.arange(100.0), "best": [["a", "b"], ["b", "a"]] * 50})
    pq.write_table(table, tmp_path / "d.parquet")
    options = ("--target", "best", "--coverage", 0.9)
    sentence = "--coverage needs one label for each row, not lists of labels."
    assert fail("fit", tmp_path / "d.parquet", *options, "-o", tmp_path / "m") == sentence
    assert fail("evaluate", tmp_path / "d.parquet", *options) == sentence


# Ranking


@pytest.mark.parametrize("by", ["all", "label"])
def test_lists_are_those_of_python(by, folder, tmp_path):
    out = tmp_path / "m.skops"
    options = ("--coverage", 0.8, "--coverage-by", by)
    succeed("fit", folder / "tickets.csv", *LOGISTIC, *options, "-o", out)
    loaded = load(out)
    table, _ = new_points()
    expected = loaded.predict_shortlist(table)
    chances = loaded.predict_proba(table)
    code_of = {label: code for code, label in enumerate(loaded.classes_.tolist())}
    assert len({len(labels) for labels in expected}) > 1
    for data in ("new.csv", "new.parquet"):
        written = tmp_path / "out.jsonl"
        succeed("rank", out, folder / data, "-o", written, "--batch", 7)
        assert lists_in(written) == expected

        written = tmp_path / "long.parquet"
        succeed("rank", out, folder / data, "--format", "long", "--keep", "team", "-o", written)
        rows = pq.read_table(written).to_pylist()
        assert [row["label"] for row in rows] == [label for row in expected for label in row]
        assert [row["row"] for row in rows] == [i for i, row in enumerate(expected) for _ in row]
        assert [r["place"] for r in rows] == [k + 1 for row in expected for k in range(len(row))]
        for row in rows:
            probability = chances[row["row"], code_of[row["label"]]]
            assert row["probability"] == pytest.approx(probability, abs=1e-12)

        written = tmp_path / "wide.csv"
        succeed("rank", out, folder / data, "-o", written, "--keep", "team", "--batch", 7)
        with written.open(newline="") as file:
            wide = list(csv.DictReader(file))
        assert list(wide[0])[:4] == ["team", "length", "label_1", "probability_1"]
        assert [int(row["length"]) for row in wide] == [len(labels) for labels in expected]
        for row, labels in zip(wide, expected, strict=True):
            cells = [row[f"label_{place}"] for place in range(1, 6)]
            assert cells == [*labels, *[""] * (5 - len(labels))]
            filled = [row[f"probability_{place}"] != "" for place in range(1, 6)]
            assert filled == [cell != "" for cell in cells]


def test_cells_behind_a_list_are_missing_in_parquet(folder, model, tmp_path):
    succeed("rank", model, folder / "new.csv", "-o", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    lengths = np.array(table["length"].to_pylist())
    for place in range(1, 6):
        for name in ("label", "probability"):
            missing = [cell is None for cell in table[f"{name}_{place}"].to_pylist()]
            assert missing == (lengths < place).tolist()


def test_top_asks_for_so_many_labels(folder, model):
    ranked = succeed("rank", model, folder / "new.csv", "--top", 2)
    header, *rows = ranked.stdout.splitlines()
    assert header == "label_1,probability_1,label_2,probability_2"
    table, _ = new_points()
    expected = predict_order(load(model), table)[:, :2].tolist()
    assert [row.split(",")[::2] for row in rows] == expected


def test_models_without_lists_rank_as_before(folder):
    ranked = succeed("rank", folder / "plain.skops", folder / "new.csv")
    assert ranked.stdout.splitlines()[0].startswith("label_1,")
    assert ranked.stdout.splitlines()[0].endswith("label_5,probability_5")


def test_lists_without_probabilities(folder, model):
    ranked = succeed("rank", model, folder / "new.csv", "--no-probabilities")
    assert ranked.stdout.splitlines()[0] == "length,label_1,label_2,label_3,label_4,label_5"
    table, _ = new_points()
    lengths = [int(row.split(",")[0]) for row in ranked.stdout.splitlines()[1:]]
    assert lengths == [len(labels) for labels in load(model).predict_shortlist(table)]


def test_no_rows_have_no_lists(folder, model, tmp_path):
    (tmp_path / "none.csv").write_text("a,b,c,kind\n")
    for shape in ("wide", "long", "jsonl"):
        succeed("rank", model, tmp_path / "none.csv", "--format", shape)


def test_lists_longer_than_the_columns_are_a_note(folder, model, monkeypatch):
    monkeypatch.setattr(_rank, "WIDEST_LIST", 2)
    ranked = succeed("rank", model, folder / "new.csv")
    table, _ = new_points()
    lengths = [len(labels) for labels in load(model).predict_shortlist(table)]
    cut = sum(length > 2 for length in lengths)
    assert cut > 1
    assert f"Note: {cut} lists are longer than the 2 columns; --format long or" in ranked.stderr
    rows = [row.split(",") for row in ranked.stdout.splitlines()]
    assert rows[0] == ["length", "label_1", "probability_1", "label_2", "probability_2"]
    assert [int(row[0]) for row in rows[1:]] == lengths
    assert "longer" not in succeed("rank", model, folder / "new.csv", "--format", "long").stderr


def test_columns_to_keep_must_not_have_our_names(folder, model, tmp_path):
    lines = (folder / "new.csv").read_text().splitlines()
    lines = [lines[0] + ",length", *(line + ",1" for line in lines[1:])]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    keep = ("--keep", "length")
    sentence = "--keep length: the output has a column of that name."
    assert fail("rank", model, tmp_path / "d.csv", *keep, code=2) == sentence
    succeed("rank", model, tmp_path / "d.csv", *keep, "--top", 2)


# Models from Python


def from_python(path, lists, **fit):
    points, codes = made(400, 0)
    lists.fit(points, codes, **fit)
    save(lists, path)
    return lists


def write_points(path, n_rows=60):
    points, _ = made(n_rows, 1)
    path.write_text("\n".join(["a,b,c", *(",".join(map(repr, p.tolist())) for p in points)]) + "\n")
    return points


def scaled():
    return make_pipeline(StandardScaler(), DuelRanker(random_state=0))


FROM_PYTHON = {
    "folds": lambda: Shortlister(scaled(), 0.8, cv=3, random_state=0),
    "frozen": lambda: Shortlister(FrozenEstimator(scaled().fit(*made(400, 7))), 0.8),
    "aps": lambda: Shortlister(scaled(), 0.8, conformity_score="aps", randomize=True,
                               random_state=0),
    "no probabilities": lambda: Shortlister(DuelRanker(StumpDuels(), random_state=0), 0.8,
                                            conformity_score="evidence", random_state=0),
    "empty lists": lambda: Shortlister(scaled(), 0.4, allow_empty=True, random_state=0),
}  # fmt: skip


@pytest.mark.parametrize("name", FROM_PYTHON)
def test_lists_of_models_from_python(name, tmp_path):
    lists = from_python(tmp_path / "m.skops", FROM_PYTHON[name]())
    points = write_points(tmp_path / "new.csv")
    succeed("rank", tmp_path / "m.skops", tmp_path / "new.csv", "-o", tmp_path / "out.jsonl")
    assert lists_in(tmp_path / "out.jsonl") == lists.predict_shortlist(points)
    succeed("explain", tmp_path / "m.skops", tmp_path / "new.csv", "--row", 3)


def test_lists_at_the_end_of_a_pipeline(tmp_path):
    lists = Shortlister(DuelRanker(random_state=0), 0.8, random_state=0)
    model = from_python(tmp_path / "m.skops", make_pipeline(StandardScaler(), lists))
    points = write_points(tmp_path / "new.csv")
    succeed("rank", tmp_path / "m.skops", tmp_path / "new.csv", "-o", tmp_path / "out.jsonl")
    expected = model[-1].predict_shortlist(model[0].transform(points))
    assert lists_in(tmp_path / "out.jsonl") == expected


@pytest.mark.parametrize("longer", ["cut", "abstain"])
def test_lists_of_limited_length(longer, tmp_path):
    lists = Shortlister(scaled(), 0.9, max_length=2, longer=longer, random_state=0)
    from_python(tmp_path / "m.skops", lists)
    points = write_points(tmp_path / "new.csv")
    ranked = succeed("rank", tmp_path / "m.skops", tmp_path / "new.csv")
    assert ranked.stderr == ""
    header, *rows = ranked.stdout.splitlines()
    assert header == "length,label_1,probability_1,label_2,probability_2"
    expected = [len(labels or []) for labels in lists.predict_shortlist(points)]
    assert [int(row.split(",")[0]) for row in rows] == expected
    uncut = lists.p_values(points) > 0.1 + 1e-9
    (row, *_) = np.flatnonzero(uncut.sum(axis=1) > 2).tolist()
    told = succeed("explain", tmp_path / "m.skops", tmp_path / "new.csv", "--row", row).stdout
    told = " ".join(told.split())
    if longer == "cut":
        assert "Lists have 2 labels at most, so" in told
    else:
        assert "No label is in the list at coverage 90%" in told


def test_of_several_coverages_the_first_counts(tmp_path):
    lists = from_python(tmp_path / "m.skops", Shortlister(scaled(), (0.7, 0.9), random_state=0))
    points = write_points(tmp_path / "new.csv")
    out = tmp_path / "out.jsonl"
    ranked = succeed("rank", tmp_path / "m.skops", tmp_path / "new.csv", "-o", out)
    assert "Note: the model has lists of several coverages; those of 70% count." in ranked.stderr
    assert lists_in(out) == lists.predict_shortlist(points)[0.7]
    assert "coverage 70% and 90% of all rows" in succeed("info", tmp_path / "m.skops").stdout


def test_lists_by_groups_of_rows_are_left_to_python(tmp_path):
    lists = Shortlister(scaled(), 0.8, by="group", random_state=0)
    from_python(tmp_path / "m.skops", lists, groups=np.arange(400) % 2)
    write_points(tmp_path / "new.csv")
    ranked = succeed("rank", tmp_path / "m.skops", tmp_path / "new.csv")
    assert "depend on groups of rows, which only Python can give" in ranked.stderr
    assert ranked.stdout.startswith("label_1,")
    succeed("explain", tmp_path / "m.skops", tmp_path / "new.csv", "--row", 0)
    page = ("-o", tmp_path / "r.html")
    reported = succeed("report", tmp_path / "m.skops", tmp_path / "new.csv", *page)
    assert "depend on groups of rows" in reported.stderr


def test_intervals_of_places_are_ranked_by_their_ranker(tmp_path):
    points, _ = made(200, 0)
    ranks = 1 + np.argsort(np.argsort(-points @ np.eye(3, 5), kind="stable"), kind="stable")
    model = PlaceIntervals(DuelRanker(random_state=0), 0.8, random_state=0).fit(points, ranks)
    save(model, tmp_path / "m.skops")
    new = write_points(tmp_path / "new.csv")
    ranked = succeed("rank", tmp_path / "m.skops", tmp_path / "new.csv", "--top", 1)
    firsts = [int(row.split(",")[0]) for row in ranked.stdout.splitlines()[1:]]
    assert firsts == predict_order(model.estimator_, new)[:, 0].tolist()


# Explaining and describing


def test_explain_tells_who_is_in_the_list_and_why(folder, model):
    table, codes = new_points()
    loaded = load(model)
    values, expected = loaded.p_values(table), loaded.predict_shortlist(table)
    classes = loaded.classes_.tolist()
    # Rows whose own label is in the list, is the next one, or comes later.
    right = np.array([classes.index(label) for label in TEAMS[codes]])
    odd = np.argsort(values[np.arange(60), right], kind="stable")
    for row in [*odd[:3].tolist(), *range(6)]:
        told = " ".join(succeed("explain", model, folder / "new.csv", "--row", row).stdout.split())
        inside = expected[row]
        assert f"In the list at coverage 90%: {', '.join(inside)} (of 5)." in told
        outside = [label for label in predict_order(loaded, table)[row] if label not in inside]
        if outside:
            share = f"{100 * values[row, classes.index(outside[0])]:.2g}%"
            assert (
                f"{outside[0]} is the first that is not in: {share} of the calibration rows had a "
                "right label at least as odd, and more than 10% are needed." in told
            )
        own = TEAMS[codes[row]]
        assert (f"The label of the row, {own}, has" in told) == (own in outside[1:])
    assert any(values[odd[:3], right[odd[:3]]] < 0.1)
    assert "In the list" not in succeed(
        "explain", folder / "plain.skops", folder / "new.csv", "--row", 0
    ).stdout  # fmt: skip


def test_explain_names_the_rows_that_judge_a_label(tickets, folder, tmp_path):
    options = ("--coverage", 0.8, "--coverage-by", "label", "-o", tmp_path / "m.skops")
    succeed("fit", tickets, *LOGISTIC, *options)
    told = succeed("explain", tmp_path / "m.skops", folder / "new.csv", "--row", 1).stdout
    assert "of the calibration rows by which it is judged had" in " ".join(told.split())


def test_info_tells_the_lists(folder, model):
    told = " ".join(succeed("info", model).stdout.split())
    assert "shortlists coverage 90% of all rows, by probability, 80 calibration rows" in told
    assert "shortlists" not in succeed("info", folder / "plain.skops").stdout


def test_report_takes_models_with_lists(folder, model, tmp_path):
    succeed("report", model, folder / "new.csv", "-o", tmp_path / "r.html")
    assert "<html" in (tmp_path / "r.html").read_text()


# Evaluating


def test_evaluate_tells_coverage_and_length(tickets, folder):
    options = (*LOGISTIC, "--baselines", "multinomial,majority", "--coverage", 0.9)
    told = succeed("evaluate", tickets, *options, "--folds", 3).stdout
    assert max(map(len, told.splitlines())) <= 80
    assert "top-5" in told
    assert "Lists with a coverage of 90%:" in told
    rows = [line.split() for line in told.partition("mean length")[2].splitlines()[2:]]
    assert [row[0] for row in rows] == ["duels", "multinomial", "majority"]
    assert all(0.8 < float(coverage) <= 1 for _, coverage, _ in rows)
    assert float(rows[0][2]) < float(rows[2][2])
    told = succeed("evaluate", tickets, *options, "--test", folder / "new.csv").stdout
    assert "mean length" in told
    told = succeed("evaluate", tickets, *LOGISTIC, "--baselines", "none", "--folds", 2).stdout
    assert "mean length" not in told


def test_evaluate_needs_rows_enough(tickets):
    sentence = fail("evaluate", tickets, *LOGISTIC, "--coverage", 0.985, "--folds", 3)
    assert "needs at least 66 rows for calibration, but a fifth of 266 is 53" in sentence
