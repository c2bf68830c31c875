"""From a table to what duels can learn from."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from sklearn.pipeline import make_pipeline  # noqa: E402

from duelrank import DuelRanker, predict_order  # noqa: E402
from duelrank.preprocessing import (  # noqa: E402
    _columns,
    make_preprocessing,
    training_data,
)
from duelrank.tables import KINDS, TableError, features  # noqa: E402

N = 60


def table(**columns):
    base = {"y": [["a", "b", "c"][i % 3] for i in range(N)]}
    return pa.table(base | columns)


def cells(make):
    return [make(i) for i in range(N)]


def pick(data, **options):
    return training_data(data, "y", as_text=True, **options)


def test_columns_that_tell_nothing_are_left_out():
    data = table(
        useful=cells(str),
        empty=[""] * N,
        constant=["7"] * N,
        identifier=cells(lambda i: f"id{i}"),
        **{"": cells(str)},
    )
    picked = pick(data)
    assert picked.kinds == {"useful": "number"}
    assert sorted(picked.left_out) == ["", "constant", "empty", "identifier"]
    assert sorted(picked.notes) == [
        "'' left out: row numbers",
        "'constant' left out: always the same value",
        "'empty' left out: empty",
        "'identifier' left out: different in every row",
    ]
    assert "identifier" in pick(data, categorical=["identifier"]).kinds


def test_rows_without_a_label_are_dropped():
    data = pa.table({"x": ["1", "2", "3", "4"], "y": ["a", "", None, "b"]})
    picked = pick(data)
    assert picked.y.tolist() == ["a", "b"]
    assert picked.X["x"].to_pylist() == [1.0, 4.0]
    assert picked.notes == ["2 rows without a label left out"]


def test_stray_texts_in_numbers_are_told():
    data = table(age=cells(lambda i: "n.a." if i == 17 else str(i)))
    picked = pick(data)
    assert picked.kinds == {"age": "category"}
    assert picked.notes == [
        "'age' is mostly numbers but holds 'n.a.', so it is taken for categories; "
        "leave those cells empty to take it for numbers"
    ]


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda i: f"{i}_000", "looks like numbers with underscores; write 1000 for 1_000"),
        (lambda i: f"{i}_000" if i % 2 else str(i), "looks like numbers with underscores"),
        (lambda i: str(i).translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")), "other digits"),
        (lambda i: "1_000" if i == 17 else str(i), "is mostly numbers but holds '1_000'"),
        (lambda i: "٣" if i == 17 else str(i), "is mostly numbers but holds '٣'"),
    ],
)
def test_numbers_that_only_python_would_read_are_told(write, told):
    picked = pick(table(age=cells(write)))
    assert picked.kinds == {"age": "category"}
    (remark,) = picked.notes
    assert told in remark


def test_codes_with_leading_zeros_are_told_nothing():
    assert pick(table(age=cells(lambda i: f"00{i % 5}"))).notes == []


def test_many_values_are_told():
    words = [f"w{i // 2}" for i in range(400)]
    data = pa.table({"word": words, "y": [str(i % 2) for i in range(400)]})
    (remark,) = training_data(data, "y", as_text=True).notes
    assert remark.startswith("'word' has 200 different values, of which the most frequent 99")
    labels = pa.table({"x": words, "y": [f"label{i}" for i in range(400)]})
    assert "'y' has 400 labels in 400 rows, so it may be no label" in (
        training_data(labels, "y", as_text=True).notes
    )


def test_what_is_not_there_is_told():
    with pytest.raises(TableError, match="target column 'z' is not in the table"):
        training_data(table(), "z", as_text=True)
    with pytest.raises(TableError, match="ignore column 'z'"):
        pick(table(), ignore=["z"])
    with pytest.raises(TableError, match="no column to learn from"):
        pick(table())
    with pytest.raises(TableError, match="no row has a label"):
        pick(pa.table({"x": ["1"], "y": [""]}))


@pytest.fixture
def mixed():
    rng = np.random.RandomState(0)
    shift = np.arange(N) % 3
    return table(
        number=[f"{v:.3f}" if i % 7 else "" for i, v in enumerate(rng.randn(N) + shift)],
        colour=[["red", "blue", ""][k] if i % 5 else "green" for i, k in enumerate(shift)],
        day=[f"2024-01-{1 + i % 28:02}" for i in range(N)],
        flag=cells(lambda i: str(i % 2 == 0)),
    )


def test_the_preprocessing_takes_missing_and_unseen_values(mixed):
    picked = pick(mixed)
    assert set(picked.kinds.values()) == {"number", "category", "date", "boolean"}
    model = make_pipeline(make_preprocessing(picked.kinds), DuelRanker(random_state=0))
    model.fit(picked.X, picked.y)
    strange = pa.table({"number": [""], "colour": ["purple"], "day": [""], "flag": [""]})
    X = features(strange, picked.kinds)
    assert np.isfinite(model[0].transform(X)).all()
    assert sorted(predict_order(model, X)[0]) == ["a", "b", "c"]


def test_kinds_are_those_of_tables():
    assert _columns.KINDS == KINDS
    with pytest.raises(ValueError, match=r"kinds must be some of number, .*; got 'txt'"):
        make_preprocessing({"subject": "txt"})


def test_missing_values_that_training_did_not_have(mixed):
    data = mixed.set_column(2, "colour", pa.array(["red", "blue"] * (N // 2)))
    picked = pick(data, ignore=["number"])
    steps = make_preprocessing(picked.kinds).fit(picked.X)
    strange = pa.table({"colour": ["", "blue"], "day": ["2024-01-01"] * 2, "flag": ["True"] * 2})
    encoded = steps.transform(features(strange, picked.kinds))
    names = steps.get_feature_names_out().tolist()
    columns = [names.index("colour_blue"), names.index("colour_red")]
    assert encoded[:, columns].tolist() == [[0.0, 0.0], [1.0, 0.0]]


def test_a_model_takes_any_dataframe(mixed):
    pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    picked = pick(mixed)
    model = make_pipeline(make_preprocessing(picked.kinds), DuelRanker(random_state=0))
    expected = predict_order(model.fit(picked.X, picked.y), picked.X)
    for frame in (picked.X.to_pandas(), pl.from_arrow(picked.X)):
        assert np.array_equal(predict_order(model, frame), expected)


LISTS = [["b", "a"], ["c"], [], ["a", "b", "c"]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
        pa.list_(pa.string(), 3),
    ],
    ids=str,
)
def test_lists_in_a_column(kind):
    cells = [[*row, None, None, None][:3] for row in LISTS]
    cells[2] = None
    data = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "y": pa.array(cells, kind)})
    picked = training_data(data, "y", as_text=False)
    assert picked.lists == [["b", "a"], ["c"], ["a", "b", "c"]]
    assert picked.y.tolist() == ["b", "c", "a"]
    assert picked.classes == ["a", "b", "c"]
    assert picked.feedback.tolist()[2] == [1, 2, 3]
    assert picked.X["x"].to_pylist() == [1.0, 2.0, 4.0]
    assert picked.notes == ["1 row without a label left out"]


def test_lists_in_columns():
    nothing = pa.array([None] * 4)
    data = pa.table(
        {
            "x": [1.0, 2.0, 3.0, 4.0],
            "first": pa.array([2, 1, None, 3]),
            "second": pa.array([1.0, np.nan, None, 2.0]),  # as some programs write integers
            "third": nothing,
        }
    )
    picked = training_data(data, ["first", "second", "third"], as_text=False)
    assert picked.lists == [[2, 1], [1], [3, 2]]
    assert picked.y.tolist() == [2, 1, 3]
    np.testing.assert_array_equal(
        picked.feedback, [[2, 1, np.nan], [1, np.nan, np.nan], [np.nan, 2, 1]]
    )
    assert list(picked.kinds) == ["x"]
    assert picked.left_out == []


def test_mistakes_in_lists():
    mixed = pa.table({"x": [1, 2], "y": ["a", "b"], "z": [1, 2]})
    with pytest.raises(TableError, match="one type, but 'y' holds text and 'z' holds whole num"):
        training_data(mixed, ["y", "z"], as_text=False)
    for cells, sentence in (
        ([["a"], [None, "b"]], r"row 1 \(from 0\) has 'b' at place 2 and nothing at place 1"),
        ([[], ["b", "a", "b"]], r"row 1 \(from 0\) repeats 'b'"),
        ([[["a"]], [["b"]]], "must hold labels, but it holds list"),
        ([[0.5], [1.0]], "it holds decimals such as 0.5"),
    ):
        with pytest.raises(TableError, match=sentence):
            training_data(pa.table({"x": [1, 2], "y": cells}), "y", as_text=False)
    with pytest.raises(TableError, match="target column 'w' is not in the table"):
        training_data(mixed, ["y", "w"], as_text=False)


def test_choices_have_labels_that_were_shown():
    data = pa.table(
        {
            "x": [1.0, 2.0, 3.0, 4.0],
            "left": pa.array([2, 1, 3, 2]),
            "right": pa.array([1.0, np.nan, 2.0, None]),
            "picked": pa.array([1, 3, None, 2]),
        }
    )
    picked = training_data(data, "picked", shown=["left", "right"], as_text=False)
    assert picked.y.tolist() == [1, 3, 2]
    assert picked.shown == [[2, 1], [3, 1], [2]]  # what was picked is added
    assert picked.classes == [1, 2, 3]
    assert picked.lists is None
    assert picked.notes == ["1 row without a label left out"]
    np.testing.assert_array_equal(picked.feedback.toarray(), [[1, 2, 0], [2, 0, 1], [0, 1, 0]])
    assert list(picked.kinds) == ["x"]
    assert picked.left_out == []
    with pytest.raises(TableError, match="shown column 'middle' is not in the table"):
        training_data(data, "picked", shown=["middle"], as_text=False)


def test_mistakes_in_what_was_shown():
    data = pa.table({"x": [1, 2], "y": ["a", "b"], "s": ["b", "a"], "t": [0.5, 1.0], "u": [1, 2]})
    for shown, sentence in (
        (["t"], "column 't' must hold labels, but it holds decimals such as 0.5"),
        (["s", "u"], "one type, but 's' holds text and 'u' holds whole numbers"),
        (["u"], "the target 'y' must hold labels of the type .* it holds text, and 'u' such as 1"),
    ):
        with pytest.raises(TableError, match=sentence):
            training_data(data, "y", shown=shown, as_text=False)
