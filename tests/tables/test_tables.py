"""Tables: what is written is read back the same, and columns are what they look like."""

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from duelrank.tables import (  # noqa: E402
    MISSING,
    TableError,
    features,
    from_dataframe,
    is_labelled,
    kinds_of,
    labels,
    open_table,
    output_ending,
    writing,
)
from duelrank.tables._pipes import Pipe, is_pipe  # noqa: E402

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# A byte-order mark in front of a file is not part of its first name; NUL ends a CSV cell.
TEXT = st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"]), max_size=8)
CELLS = st.one_of(st.none(), TEXT)


@st.composite
def text_tables(draw):
    names = draw(st.lists(TEXT.filter(lambda n: n != ""), min_size=1, max_size=4, unique=True))
    n_rows = draw(st.integers(0, 6))
    return pa.table(
        {
            name: pa.array(draw(st.lists(CELLS, min_size=n_rows, max_size=n_rows)), pa.string())
            for name in names
        }
    )


@st.composite
def typed_tables(draw, nan=False):
    n_rows = draw(st.integers(1, 6))

    def column(values, kind):
        some = st.lists(st.one_of(st.none(), values), min_size=n_rows, max_size=n_rows)
        return pa.array(draw(some), kind)

    return pa.table(
        {
            "text": column(TEXT, pa.string()),
            "whole": column(st.integers(-(2**63), 2**63 - 1), pa.int64()),
            "real": column(st.floats(allow_nan=nan), pa.float64()),
            "truth": column(st.booleans(), pa.bool_()),
            "day": column(st.dates(), pa.date32()),
        }
    )


def written(path, *tables, **options):
    with writing(str(path), **options) as write:
        for table in tables:
            write(table)
    return str(path)


def read(path, **options):
    with open_table(str(path), **options) as source:
        return source.read()


@QUICK
@given(table=text_tables(), ending=st.sampled_from([".csv", ".tsv"]))
def test_text_comes_back_from_csv(table, ending, tmp_path):
    path = written(tmp_path / f"table{ending}", table)
    back = read(path)
    assert back.column_names == table.column_names
    assert back.to_pydict() == table.to_pydict()
    with open_table(path) as source:
        batches = list(source.batches(table.column_names, rows=2))
    assert all(len(batch) <= 2 for batch in batches)
    assert pa.concat_tables(batches).to_pydict() == table.to_pydict()


@QUICK
@given(table=typed_tables())
def test_everything_comes_back_from_parquet(table, tmp_path):
    path = written(tmp_path / "table.parquet", table.slice(0, 2), table.slice(2))
    assert read(path).equals(table)
    with open_table(path) as source:
        assert pa.concat_tables(source.batches(table.column_names, 2)).equals(table)


@QUICK
@given(table=typed_tables())
def test_values_come_back_from_csv_by_their_kind(table, tmp_path):
    back = read(written(tmp_path / "table.csv", table))
    assert back["text"].to_pylist() == table["text"].to_pylist()
    for name, convert in (("whole", int), ("real", float)):
        cells = [None if cell is None else convert(cell) for cell in back[name].to_pylist()]
        assert cells == table[name].to_pylist()
    truth = [None if cell is None else cell == "true" for cell in back["truth"].to_pylist()]
    assert truth == table["truth"].to_pylist()
    days = [None if day is None else day.isoformat() for day in table["day"].to_pylist()]
    assert back["day"].to_pylist() == days


@QUICK
@given(table=typed_tables(nan=True))
def test_json_lines_hold_the_same_rows(table, tmp_path):
    path = written(tmp_path / "table.jsonl", table.drop_columns(["day"]))
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line, parse_constant=no_json) for line in file.read().split("\n")[:-1]]
    expected = table.drop_columns(["day"]).to_pylist()
    for row in expected:
        finite = row["real"] is not None and np.isfinite(row["real"])
        row["real"] = row["real"] if finite else None
    assert rows == expected


def no_json(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_json_lines_know_no_infinity_inside_lists_either(tmp_path):
    table = pa.table({"a": [[0.5, float("nan")]], "b": [{"c": float("-inf")}], "d": [np.nan]})
    path = written(tmp_path / "table.jsonl", table)
    assert Path(path).read_text() == '{"a": [0.5, null], "b": {"c": null}, "d": null}\n'


def test_standard_streams(monkeypatch):
    table = pa.table({"a": ["x", "y"], "b": ["1", None]})

    class Stream:
        def __init__(self, content=b""):
            self.buffer = io.BytesIO(content)

        def isatty(self):
            return False

    monkeypatch.setattr(sys, "stdout", Stream())
    written("-", table)
    content = sys.stdout.buffer.getvalue()
    assert content == b"a,b\nx,1\ny,\n"
    monkeypatch.setattr(sys, "stdin", Stream(content))
    assert read("-").equals(table)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    monkeypatch.setattr(sys, "stdin", Stream(buffer.getvalue()))
    assert read("-").equals(table)


def test_compressed_and_differently_encoded_csv(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read(path).to_pydict() == {"a": ["1"], "b": ["2"]}
    path = tmp_path / "latin.csv"
    path.write_bytes("name;ort\nJörg;Köln\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"latin\.csv cannot be read: it is not UTF-8"):
        read(path, delimiter=";")
    assert read(path, delimiter=";", encoding="latin-1")["ort"].to_pylist() == ["Köln"]
    with pytest.raises(TableError, match="unknown encoding"):
        read(path, encoding="klingon")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes("\ufeffa,b\r\n1,2\r\n".encode())
    assert read(path).to_pydict() == {"a": ["1"], "b": ["2"]}


def test_any_dataframe_becomes_a_table():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    columns = {"a": [1.5, 2.5], "b": ["x", "y"]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert from_dataframe(frame).to_pydict() == columns


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,a\n1,2\n", "more than one column named 'a'"),
        (b"a,b\n1,2,3\n", "cannot be read: CSV parse error: Expected 2 columns, got 3"),
        (b"PAR1 and then nothing", "cannot be read: "),
        (b"x" * 131_073 + b",b\n1,2\n", "its first line is no CSV .field larger than field limit"),
        (bytes(range(1, 9)) + bytes(50) + b"\n\x00", "its first line is no text in utf-8"),
        (b"\x89\x01" * 10**5, "its first line is no CSV"),
    ],
)
def test_unreadable_tables_are_told_in_one_sentence(content, sentence, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=sentence) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("delimiter", ["", ";;", "§", '"', "\n", "\\t"])
def test_delimiters_are_single_ascii_characters(delimiter, tmp_path):
    path = written(tmp_path / "table.csv", pa.table({"a": ["x"], "b": ["y"]}))
    with pytest.raises(TableError, match="delimiter must be one ASCII character"):
        read(path, delimiter=delimiter)
    with pytest.raises(TableError, match="delimiter must be one ASCII character"):
        written(path, pa.table({"a": ["new"]}), delimiter=delimiter)
    assert read(path).to_pydict() == {"a": ["x"], "b": ["y"]}


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(TableError, match="does not exist"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(TableError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(TableError, match="its folder does not exist"):
        written(tmp_path / "no" / "out.csv", pa.table({"a": [1]}))
    with pytest.raises(TableError, match=r"must end in one of \.csv"):
        written(tmp_path / "out.xlsx", pa.table({"a": [1]}))
    assert output_ending("OUT.CSV") == ".csv"


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_an_interrupted_write_leaves_the_old_file(ending, tmp_path):
    path = written(tmp_path / f"out{ending}", pa.table({"a": ["old"]}))
    before = Path(path).read_bytes()

    def interrupted():
        with writing(path) as write:
            write(pa.table({"a": ["new"]}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Path(path).read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [f"out{ending}"]


def test_only_cells_that_need_quotes_have_them(tmp_path):
    cells = ["plain", "", None, 'say "hi"', "a,b", " space", "two\nlines", "ü"]
    path = written(tmp_path / "out.csv", pa.table({"a b": cells, "n": list(range(8))}))
    assert Path(path).read_bytes().decode() == (
        'a b,n\nplain,0\n"",1\n,2\n"say ""hi""",3\n"a,b",4\n" space",5\n"two\nlines",6\nü,7\n'
    )


def test_lists_are_no_cells(tmp_path):
    nested = pa.table({"a": pa.array([{"x": 1}])})
    with pytest.raises(TableError, match="column 'a' holds struct"):
        written(tmp_path / "out.csv", nested)


# Kinds


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", " 2.5 ", "", "1e3"], "number", [1.0, 2.5, None, 1000.0]),
        (["-1", "NA", "?", "nan"], "number", [-1.0, None, None, None]),
        (["0", "0.5", "-0"], "number", [0.0, 0.5, -0.0]),
        (["007", "12", "13"], "category", ["007", "12", "13"]),
        (["true", "False", ""], "boolean", [1.0, 0.0, None]),
        (["true", " True", "false\t"], "boolean", [1.0, 1.0, 0.0]),
        (["1970-01-02", "", "1970-01-03 12:00:00"], "date", [1.0, None, 2.5]),
        (["1970-01-02T00:00:00Z"], "date", [1.0]),
        (["red", "N/A", "blue"], "category", ["red", None, "blue"]),
        (["1", "2", "x"], "category", ["1", "2", "x"]),
        (["", "NA"], "category", [None, None]),
        ([], "category", []),
    ],
)
def test_text_is_what_it_looks_like(cells, kind, values):
    table = pa.table({"a": pa.array(cells, pa.string())})
    assert kinds_of(table, as_text=True) == {"a": kind}
    assert features(table, {"a": kind})["a"].to_pylist() == values


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([1, None], pa.int32()), "number", [1.0, None]),
        (pa.array([2**60 + 1], pa.int64()), "number", [float(2**60)]),
        (pa.array([1.5, None], pa.float32()), "number", [1.5, None]),
        (pa.array([1.5]).cast(pa.decimal128(5, 2)), "number", [1.5]),
        (pa.array([True, None]), "boolean", [1.0, None]),
        (pa.array([86_400_000_000_001], pa.timestamp("ns")), "date", [1.0]),
        (pa.array([1], pa.date32()), "date", [1.0]),
        (pa.array(["1", "2"]), "category", ["1", "2"]),
        (pa.array(["a", None], pa.large_string()), "category", ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "category", ["a", "b", "a"]),
        (pa.array([None, None], pa.null()), "category", [None, None]),
    ],
)
def test_types_are_kept(array, kind, values):
    table = pa.table({"a": array})
    assert kinds_of(table, as_text=False) == {"a": kind}
    assert features(table, {"a": kind})["a"].to_pylist() == values


def test_kinds_can_be_chosen_and_nested_types_are_refused():
    table = pa.table({"zip": [1, 2], "list": [["a"], ["b"]]})
    assert kinds_of(table.select(["zip"]), as_text=False, categorical=["zip"]) == {
        "zip": "category"
    }
    assert features(table, {"zip": "category"})["zip"].to_pylist() == ["1", "2"]
    with pytest.raises(TableError, match="column 'list' holds list"):
        kinds_of(table, as_text=False)


TEXTS = [f"the {w} parcel {i} has not come" for i, w in enumerate(["red", "blue", "old"] * 10)]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (TEXTS, "text"),
        (TEXTS[:3], "text"),
        (TEXTS[:15] + [None, "", "NA"] * 5, "text"),
        (TEXTS[:3] * 10, "category"),  # the same few again and again
        ([f"Town {i}" for i in range(30)], "category"),  # names
        ([f"id-{i}" for i in range(30)], "category"),
        ([f"我的银行卡第{i}次没有收到" for i in range(30)], "text"),
        ([f"บัตรของฉันยังไม่มา{i}" for i in range(30)], "text"),
        ([f"東京{i}" for i in range(30)], "category"),
        ([f"2024-01-{i + 1:02}" for i in range(30)], "date"),
    ],
    ids=range(10),
)
@pytest.mark.parametrize("as_text", [True, False])
def test_text_has_several_words_and_mostly_different_ones(cells, kind, as_text):
    if kind == "date" and not as_text:
        pytest.skip("typed tables have typed dates")
    table = pa.table({"a": pa.array(cells, pa.string())})
    assert kinds_of(table, as_text=as_text) == {"a": kind}
    assert kinds_of(table, as_text=as_text, text=["a"]) == {"a": "text"}
    assert kinds_of(table, as_text=as_text, categorical=["a"]) == {"a": "category"}
    categorical = table.set_column(0, "a", table["a"].dictionary_encode())
    assert kinds_of(categorical, as_text=False) == {"a": "category"}


def test_text_takes_whatever_comes_later():
    numbers = pa.table({"a": [7, None, 9]})
    assert features(numbers, {"a": "text"})["a"].to_pylist() == ["7", None, "9"]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.int64(), 2), pa.large_list(pa.float64())], ids=str
)
def test_lists_of_numbers_are_vectors(kind):
    table = pa.table({"a": pa.array([[1, 2], None, [3, 4]], kind)})
    kinds = kinds_of(table, as_text=False)
    assert kinds == {"a": "vector"}
    assert features(table, kinds)["a"].to_pylist() == [[1.0, 2.0], None, [3.0, 4.0]]


def test_vectors_may_all_be_missing():
    for empty in (pa.nulls(2), pa.array([None, None], pa.list_(pa.float32())), pa.array([])):
        column = features(pa.table({"a": empty}), {"a": "vector"})["a"]
        assert column.to_pylist() == [None] * len(empty)
        assert column.type == pa.list_(pa.float64())


@pytest.mark.parametrize("cells", [[[1.0], [1.0, 2.0]], [[np.nan]], [[None]], [1.0]], ids=str)
def test_lists_that_are_no_vectors_are_refused(cells):
    with pytest.raises(TableError, match="'a' must hold lists of finite numbers, all of one len"):
        features(pa.table({"a": cells}), {"a": "vector"})


@pytest.mark.parametrize(
    ("kind", "cells", "sentence"),
    [
        ("number", ["1", "", "abc", "x"], "'a' must hold numbers, but row 12 .from 0. holds 'abc'"),
        ("boolean", ["true", "2.5"], "must hold true or false, but row 11"),
        ("date", ["2024-01-01", "soon"], "must hold dates such as 2024-05-31, but row 11"),
        ("number", ["1", "inf"], "'a' holds infinity in row 11"),
        ("number", ["", "-2e300"], r"'a' holds -2e\+300 in row 11 .* between -1e\+150 and 1e\+150"),
    ],
)
def test_what_cannot_be_converted_is_named(kind, cells, sentence):
    with pytest.raises(TableError, match=sentence):
        features(pa.table({"a": cells}), {"a": kind}, rows_before=10)


def test_types_that_cannot_be_converted_are_named():
    with pytest.raises(TableError, match="'a' must hold numbers, but it holds list"):
        features(pa.table({"a": [[1]]}), {"a": "number"})


def test_missing_words_are_missing_in_features_only():
    table = pa.table({"a": list(MISSING)})
    assert features(table, {"a": "category"})["a"].null_count == len(MISSING)
    assert is_labelled(table["a"]).tolist() == [False] + [True] * (len(MISSING) - 1)


# Labels


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["01", "1", " x", "NA"]), ["01", "1", " x", "NA"]),
        (pa.array([3, 1], pa.int16()), [3, 1]),
        (pa.array([3.0, 1.0]), [3, 1]),
        (pa.array([True, False]), [True, False]),
        (pa.array(["b", "a"]).dictionary_encode(), ["b", "a"]),
        (pa.array([1], pa.date32()), ["1970-01-02"]),
    ],
)
def test_labels_stay_as_they_are_written(array, expected):
    found = labels("y", pa.chunked_array([array]))
    assert found.tolist() == expected
    assert [type(label) for label in found.tolist()] == [type(label) for label in expected]


def test_decimals_and_lists_are_no_labels():
    with pytest.raises(TableError, match=r"holds decimals such as 0\.5"):
        labels("y", pa.chunked_array([[1.0, 0.5]]))
    with pytest.raises(TableError, match="'y' must hold labels"):
        labels("y", pa.chunked_array([[[1], [2]]]))


def test_labels_in_half_precision():
    half = pa.array(np.array([1.0, 2.0, 2048.0], dtype=np.float16))
    assert labels("y", pa.chunked_array([half])).tolist() == [1, 2, 2048]
    with pytest.raises(TableError, match=r"holds decimals such as 1\.5"):
        labels("y", pa.chunked_array([pa.array(np.array([1.5], dtype=np.float16))]))


@pytest.mark.parametrize("number", [np.inf, -np.inf, 1e300, 2.0**53 + 2])
def test_numbers_that_would_become_other_labels_are_refused(number):
    with pytest.raises(TableError, match=r"'y' must hold labels, but it holds numbers such as"):
        labels("y", pa.chunked_array([[1.0, number]]))
    with pytest.raises(TableError, match=r"'y' must hold labels below 2\^63, but it holds 18446"):
        labels("y", pa.chunked_array([pa.array([1, 2**64 - 1], pa.uint64())]))


@pytest.mark.parametrize(
    "moments",
    [
        np.array(["2024-01-01", "300000000-01-01"], dtype="datetime64[s]"),
        pa.array([19000, 2**31 - 1], pa.int32()).cast(pa.date32()),
    ],
)
def test_moments_that_would_wrap_around_are_refused(moments):
    table = pa.table({"a": moments})
    assert kinds_of(table, as_text=False) == {"a": "date"}
    with pytest.raises(TableError, match=r"'a' must hold dates .* but row 11 \(from 0\) is out of"):
        features(table, {"a": "date"}, rows_before=10)
    nanoseconds = np.array(["1970-01-02T12:00:00.000000001"], dtype="datetime64[ns]")
    assert features(pa.table({"a": nanoseconds}), {"a": "date"})["a"].to_pylist() == [1.5]


def moments(kind, *numbers):
    """Return a column whose moments are so many days, or other units, after the start of 1970."""
    whole = pa.int32() if kind in (pa.date32(), pa.time32("s")) else pa.int64()
    return pa.chunked_array([pa.array([0, *numbers], whole).cast(kind)])


FAR = {
    "days": moments(pa.date32(), 2**31 - 1),
    "days before": moments(pa.date32(), 1, -(2**31)),
    "milliseconds of days": moments(pa.date64(), 86_400_000 * 2**36),
    "seconds": moments(pa.timestamp("s"), 2**62),
    "milliseconds": moments(pa.timestamp("ms"), -(2**62)),
    "microseconds": moments(pa.timestamp("us"), 2**62),
    "seconds in a time zone": moments(pa.timestamp("s", "Europe/Berlin"), 2**62),
    "time of a day": moments(pa.time32("s"), 86_400),
}


@pytest.mark.parametrize("column", FAR.values(), ids=FAR)
def test_moments_that_cannot_be_written_are_neither_labels_nor_categories(column):
    """pyarrow writes <value out of range: 2147483647> for them."""
    with pytest.raises(TableError, match=r"'a' must hold labels, .* \w+\[.* out of range, such as"):
        labels("a", column)
    row = len(column) - 1
    for kind in ("category", "text"):
        with pytest.raises(TableError, match=rf"'a' must hold text, but row {row + 10} .* out of"):
            features(pa.table({"a": column}), {"a": kind}, rows_before=10)
    near = column.slice(0, row)
    assert labels("a", near)[0] == features(pa.table({"a": near}), {"a": "text"})["a"][0].as_py()


@pytest.mark.parametrize("column", FAR.values(), ids=FAR)
def test_moments_that_cannot_be_written_leave_no_file(column, tmp_path):
    path = tmp_path / "out.csv"
    with (
        pytest.raises(TableError, match=r"'a' holds \w+\[.* out of range, such as -?\d+\.$"),
        writing(str(path)) as write,
    ):
        write(pa.table({"a": column}))
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
def test_parquet_through_a_pipe(tmp_path):
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    pq.write_table(table, tmp_path / "table.parquet")
    pipe = tmp_path / "pipe.parquet"
    os.mkfifo(pipe)
    content = (tmp_path / "table.parquet").read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()
    with open_table(str(pipe)) as source:
        assert source.read().equals(table)
    writer.join(10)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
def test_pipes_are_read_from_where_somebody_stopped():
    reads, writes = os.pipe()
    content = bytes(range(256)) * 20_000
    writer = threading.Thread(target=lambda: (os.write(writes, content), os.close(writes)))
    with os.fdopen(reads, "rb") as file:
        assert is_pipe(file)
        writer.start()
        begun = file.read(10)
        pipe = Pipe(file)
        parts = [pipe.read(size) for size in (0, 1, 100, 2**21)]
        assert [len(part) for part in parts] == [0, 1, 100, 2**21]
        assert b"".join([begun, *parts, pipe.read()]) == content
        assert pipe.read() == pipe.read(5) == b""
        pipe.close()
    writer.join(10)


def test_many_columns_are_told_apart_at_once(tmp_path):
    """Counting every name among all others would take hours."""
    names = [f"c{number}" for number in range(300_000)]
    (tmp_path / "wide.csv").write_text(",".join([*names, "c7"]) + "\n")
    with (
        pytest.raises(TableError, match="more than one column named 'c7'"),
        open_table(str(tmp_path / "wide.csv")),
    ):
        pass


def test_rows_without_a_label():
    assert is_labelled(pa.chunked_array([["a", None, ""]])).tolist() == [True, False, False]
    assert is_labelled(pa.chunked_array([[1.0, None, np.nan]])).tolist() == [True, False, False]
    assert is_labelled(pa.chunked_array([[1, None]])).tolist() == [True, False]


def test_slices_of_text_are_read_and_written_whole(tmp_path):
    column = pa.chunked_array([[f"{row}, {row}" for row in range(30)]]).slice(7, 9)
    path = tmp_path / "slice.csv"
    with writing(str(path)) as write:
        write(pa.table({"text": column}))
    with open_table(str(path)) as source:
        assert source.read(["text"])["text"].to_pylist() == column.to_pylist()
    numbers = pa.table({"x": pa.chunked_array([[str(row) for row in range(30)]]).slice(7, 9)})
    assert features(numbers, {"x": "number"})["x"].to_pylist() == list(range(7, 16))
