"""Tables of many columns: the work grows with their number, not with its square."""

import cProfile

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("skops")

import pyarrow.csv as pc  # noqa: E402
from click.testing import CliRunner  # noqa: E402

from duelrank.cli._check import _readable  # noqa: E402
from duelrank.cli._commands import duelrank  # noqa: E402
from duelrank.cli._fit import MANY_COLUMNS  # noqa: E402
from duelrank.cli._model import load_model  # noqa: E402
from duelrank.drift import Profile  # noqa: E402
from duelrank.preprocessing import make_preprocessing  # noqa: E402
from duelrank.storage import load  # noqa: E402
from duelrank.tables import open_table  # noqa: E402

SIZES = (200, 400, 800)


def run(*arguments):
    result = CliRunner().invoke(duelrank, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


def wide_table(n_columns, n_rows=12):
    """Make numbers, and categories in every fourth column; the first column tells the label."""
    rng = np.random.default_rng(0)
    labels = np.arange(n_rows) % 3
    columns = {
        f"c{number}": rng.permutation(["red", "blue"] * (n_rows // 2))
        if number % 4 == 3
        else rng.normal(size=n_rows).round(3)
        for number in range(n_columns)
    }
    columns["c0"] = columns["c0"] + 5 * labels
    return pa.table(columns | {"label": np.array(["a", "b", "c"])[labels]})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write tables, and fit a model on each, so that all modules are imported."""
    folder = tmp_path_factory.mktemp("wide")
    for size in SIZES:
        pc.write_csv(wide_table(size), folder / f"{size}.csv")
        fit(folder, size)
    return folder


def fit(folder, size):
    data, model = folder / f"{size}.csv", folder / f"{size}.duel"
    run("fit", data, "--target", "label", "-o", model, "--engine", "logistic", "-C", 1)


COMMANDS = {
    "fit": fit,
    "rank": lambda f, size: run("rank", f / f"{size}.duel", f / f"{size}.csv", "-o", f / "r.csv"),
    "check": lambda f, size: run("check", f / f"{size}.duel", f / f"{size}.csv"),
}


def n_calls(work, *arguments):
    """Count the functions that are called, those written in C included."""
    profiler = cProfile.Profile()
    profiler.runcall(work, *arguments)
    return sum(function.callcount for function in profiler.getstats())


@pytest.mark.parametrize("command", COMMANDS)
def test_twice_as_many_columns_need_at_most_about_twice_as_many_calls(command, files):
    if command != "fit":  # which the fixture did
        COMMANDS[command](files, SIZES[0])
    few, more, many = (n_calls(COMMANDS[command], files, size) for size in SIZES)
    # Of linear growth, the second step is twice the first one; of quadratic growth, four times.
    assert many - more < 2.7 * (more - few)


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    n_compared = 0

    def __eq__(self, other):
        Name.n_compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_columns_are_not_looked_for_one_by_one_when_many_are_fitted():
    table = wide_table(400).drop_columns(["label"])
    kinds = {
        Name(n): "category" if pa.types.is_string(table[n].type) else "number"
        for n in table.column_names
    }
    Name.n_compared = 0
    by_place = make_preprocessing(kinds, by_place=True).fit(table)
    assert Name.n_compared <= 10 * len(kinds)
    # The transformers are the same, and take new rows by the names of columns.
    by_name = make_preprocessing({str(name): kind for name, kind in kinds.items()}).fit(table)
    other_order = table.select(table.column_names[::-1])
    np.testing.assert_array_equal(by_place.transform(other_order), by_name.transform(table))
    assert by_place.get_feature_names_out().tolist() == by_name.get_feature_names_out().tolist()
    for fitted in (by_place, by_name):
        with pytest.raises(ValueError, match=r"columns are missing: \{'c7'\}"):
            fitted.transform(table.drop_columns(["c7"]))


class CountedTable:
    """A table that counts how often its columns are listed."""

    def __init__(self, table):
        self.table, self.n_listed = table, 0

    @property
    def column_names(self):
        self.n_listed += 1
        return self.table.column_names

    @property
    def columns(self):
        self.n_listed += 1
        return self.table.columns

    def __getattr__(self, name):
        return getattr(self.table, name)

    def __getitem__(self, key):
        return self.table[key]

    def __len__(self):
        return len(self.table)


def test_names_are_listed_a_few_times_however_many_there_are(files):
    model = load_model(str(files / "200.duel"), ())
    with open_table(str(files / "200.csv")) as source:
        rows = source.read()
        profile = Profile.from_dict(model.description.profile)
        counted = CountedTable(rows)
        X, unreadable = _readable(model, source, counted, profile)
    assert X.num_columns == 200
    assert unreadable == {}
    assert counted.n_listed < 10
    training = CountedTable(X)
    Profile.of(model.model, training, rows["label"].to_numpy(zero_copy_only=False))
    assert training.n_listed < 50


def test_a_wide_model_ranks_by_name_and_reads_cells_as_a_narrow_one(tmp_path):
    size = MANY_COLUMNS + 10
    table = wide_table(size)
    pc.write_csv(table, tmp_path / "fit.csv")
    run("fit", tmp_path / "fit.csv", "--target", "label", "-o", tmp_path / "m.duel", "-C", 1)
    model = load(tmp_path / "m.duel")
    assert all(type(place) is int for _, _, some in model[0].transformers_ for place in some)
    assert model.feature_names_in_.tolist() == table.column_names[:-1]
    pc.write_csv(table.select(table.column_names[::-1]), tmp_path / "turned.csv")
    for name in ("fit", "turned"):
        run(
            "rank",
            tmp_path / "m.duel",
            tmp_path / f"{name}.csv",
            "-o",
            tmp_path / f"{name}-ranked.csv",
        )
    ranked = (tmp_path / "fit-ranked.csv").read_text()
    assert (tmp_path / "turned-ranked.csv").read_text() == ranked
    missing = table.drop_columns(["c1000"])
    pc.write_csv(missing, tmp_path / "missing.csv")
    result = CliRunner().invoke(
        duelrank, ["rank", str(tmp_path / "m.duel"), str(tmp_path / "missing.csv")]
    )
    assert result.exit_code == 1
    assert "has no column 'c1000'" in result.output
