"""What words and columns say about a duel adds up to its margin."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from duelrank import (
    AnchoredDuels,
    AnchoredDuelsCV,
    AutoDuels,
    DuelRanker,
    EstimatorDuels,
    ForestDuels,
    LogisticDuels,
    LogisticDuelsCV,
    explanations,
)
from duelrank._pairs import duel_numbers
from duelrank.explanations import can_explain, explain_duel, explain_first, explain_points
from duelrank.preprocessing import TextFeatures, VectorFeatures, make_preprocessing

X, Y = load_iris(return_X_y=True)
TEXTS = [
    "my card has not arrived", "where is my new card", "the card is late", "card lost again",
    "what is the exchange rate", "rates for euros to dollars", "do you exchange pounds", "a rate",
    "I forgot my pin", "the pin is blocked", "change my pin please", "new pin number",
]  # fmt: skip
TEAMS = np.repeat(["cards", "currencies", "pins"], 4)
LINEAR = {
    "logistic": LogisticDuels(C="scale"),
    "searched": LogisticDuelsCV(3, cv=2),
    "anchored": AnchoredDuels(C=50, C_own=5),
    "rivals": AnchoredDuels(C=50, C_own=5, rivals=1),
    "scores": AnchoredDuels(C=50, rivals=0),
    "both searched": AnchoredDuelsCV(3, 3, cv=2),
    "chosen": AutoDuels({"linear": LogisticDuels(C="scale")}),
    "classifiers": EstimatorDuels(LogisticRegression()),
    "support vectors": EstimatorDuels(LinearSVC()),
}


def margin_of(model, point, label, rival):
    """The margin by the engine itself."""
    ranker = model[-1]
    codes = [ranker.classes_.tolist().index(one) for one in (label, rival)]
    duel = duel_numbers(np.array([min(codes)]), np.array([max(codes)]), len(ranker.classes_))
    margin = ranker.duels_.margins(model[:-1].transform(point))[0, duel[0]]
    return margin if codes[0] > codes[1] else -margin


def total(why):
    return why.baseline + sum(item.contribution for item in why.items)


@pytest.mark.parametrize("engine", LINEAR.values(), ids=LINEAR)
@pytest.mark.parametrize(("label", "rival"), [("cards", "pins"), ("pins", "currencies")])
def test_contributions_of_words_add_up_to_the_margin(engine, label, rival):
    model = make_pipeline(TextFeatures(), DuelRanker(engine, random_state=0)).fit(TEXTS, TEAMS)
    text = ["Is my NEW card blocked, or the rate?"]
    why = explain_duel(model, text, label, rival)
    assert why.margin == pytest.approx(margin_of(model, text, label, rival), abs=1e-6)
    assert total(why) == pytest.approx(why.margin, abs=1e-9)
    pieces = why.texts["text"]
    assert [piece.text for piece in pieces][:4] == ["Is", "my", "NEW", "card"]
    assert sum(piece.value for piece in pieces) == pytest.approx(why.margin - why.baseline)
    other_way = explain_duel(model, text, rival, label)
    assert other_way.margin == pytest.approx(-why.margin)


@pytest.mark.parametrize("engine", LINEAR.values(), ids=LINEAR)
def test_coefficients_of_some_duels_are_those_of_all(engine):
    fitted = DuelRanker(engine, random_state=0).fit(X, Y).duels_
    duels = np.array([2, 0])
    coef, intercept = fitted.duel_coefficients(duels)
    np.testing.assert_allclose(
        X @ coef.T + intercept, fitted.margins(X)[:, duels], rtol=1e-5, atol=1e-8
    )


def test_rows_kept_in_place_of_coefficients_tell_the_same():
    points = TextFeatures().fit_transform(TEXTS)
    engine = LogisticDuels(C=10).fit(points, np.unique(TEAMS, return_inverse=True)[1], 3)
    coef, _ = engine.duel_coefficients(np.arange(3))
    np.testing.assert_allclose(coef, engine.coef_, atol=1e-9)


def test_words_speak_for_their_label():
    model = make_pipeline(TextFeatures(), DuelRanker(LINEAR["anchored"], random_state=0))
    model.fit(TEXTS, TEAMS)
    why = explain_duel(model, ["card, card or pin?"], "cards", "pins")
    said = {word.text: word.contribution for word in why.words}
    assert said["card"] > 0 > said["pin"]
    assert set(said) == {"card", "or", "pin"}
    assert why.share(said["card"]) == pytest.approx(said["card"] / why.margin)
    first, second = explain_first(model, ["card, card or pin?"], 2)
    assert first.label == second.label == "cards"
    assert {first.rival, second.rival} == {"pins", "currencies"}
    assert "cards against" in str(first)


def test_columns_are_not_told_apart_by_their_names():
    pd = pytest.importorskip("pandas")
    n = 60
    teams = np.tile(["x", "y", "z"], n // 3)
    frame = pd.DataFrame({"a": np.where(teams == "x", "b_x", "c"), "a_b": ["y"] * n})
    frame.loc[:9, "a_b"] = "x"
    kinds = {"a": "category", "a_b": "category"}
    ranker = DuelRanker(LogisticDuels(), random_state=0)
    model = make_pipeline(make_preprocessing(kinds), ranker).fit(frame, teams)
    items = {item.column: item for item in explain_duel(model, frame.iloc[[0]], "x", "y").items}
    assert items["a"].text == "b_x"
    assert items["a"].contribution > abs(items["a_b"].contribution)


@pytest.mark.parametrize("columns", [[0, 1], slice(0, 2), [True, True], ["p", "q"]], ids=str)
def test_columns_may_be_named_in_any_way(columns):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"p": ["u", "v", "w"] * 10, "q": ["a", "b"] * 15})
    encoder = ColumnTransformer([("both", OneHotEncoder(), columns)])
    model = make_pipeline(encoder, DuelRanker(random_state=0)).fit(frame, Y[::5])
    why = explain_duel(model, frame.iloc[[1]])
    assert {(item.column, item.text) for item in why.items} == {("p", "v"), ("q", "b")}
    assert total(why) == pytest.approx(why.margin)


def test_a_text_that_two_transformers_read_adds_up():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"body": TEXTS})
    twice = ColumnTransformer(
        [("one", TextFeatures(), ["body"]), ("two", TextFeatures(min_rows=2), ["body"])]
    )
    model = make_pipeline(twice, DuelRanker(LINEAR["logistic"], random_state=0)).fit(table, TEAMS)
    why = explain_duel(model, table.slice(0, 1))
    assert sum(piece.value for piece in why.texts["body"]) == pytest.approx(
        why.margin - why.baseline
    )
    assert total(why) == pytest.approx(why.margin)
    assert [item.text for item in why.items].count("card") == 1
    assert len({(item.column, item.text) for item in why.items}) == len(why.items)


def test_many_points_are_explained_like_one():
    model = make_pipeline(TextFeatures(), DuelRanker(LINEAR["anchored"], random_state=0))
    model.fit(TEXTS, TEAMS)
    assert can_explain(model)
    for text, why in zip(TEXTS, explain_points(model, TEXTS), strict=True):
        alone = explain_duel(model, [text])
        assert (why.label, why.rival) == (alone.label, alone.rival)
        assert why.margin == pytest.approx(alone.margin)
        assert why.texts == alone.texts


def mixed():
    pa = pytest.importorskip("pyarrow")
    rng = np.random.RandomState(0)
    n = len(TEXTS) * 5
    texts, teams = TEXTS * 5, np.tile(TEAMS, 5)
    table = pa.table(
        {
            "age": rng.randn(n) + (teams == "pins"),
            "channel": np.where(teams == "cards", "mail", "phone").tolist(),
            "channel_2": ["a", None, "b"] * (n // 3),
            "body": [None if i % 11 == 0 else text for i, text in enumerate(texts)],
            "embedding": rng.randn(n, 3).tolist(),
        }
    )
    kinds = {
        "age": "number", "channel": "category", "channel_2": "category", "body": "text",
        "embedding": "vector",
    }  # fmt: skip
    return table, kinds, teams


@pytest.mark.parametrize("row", [0, 1])
def test_columns_of_a_table_add_up_too(row):
    table, kinds, teams = mixed()
    model = make_pipeline(make_preprocessing(kinds), DuelRanker(LINEAR["anchored"], random_state=0))
    model.fit(table, teams)
    point = table.slice(row, 1)
    why = explain_duel(model, point, "cards", "pins")
    assert total(why) == pytest.approx(margin_of(model, point, "cards", "pins"), abs=1e-9)
    by_column = {item.column: item for item in why.items if not item.is_word}
    assert set(by_column) == {"age", "channel", "channel_2", "embedding"}
    assert by_column["channel"].text == "mail"
    assert by_column["channel"].contribution > 0
    assert by_column["channel_2"].text == ["a", "missing"][row]
    assert by_column["embedding"].text == ""
    assert bool(why.words) == (row == 1)
    pd = pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    from_pandas = explain_duel(model, frame.iloc[[row]], "cards", "pins")
    assert [item.column for item in from_pandas.items] == [item.column for item in why.items]


def test_arrays_and_other_transformers():
    ranker = DuelRanker(LogisticDuels(), random_state=0)
    alone = explain_duel(ranker.fit(X, Y), X[[100]])
    assert {item.column for item in alone.items} == {"x0", "x1", "x2", "x3"}
    assert next(item.text for item in alone.items if item.column == "x0") == "6.3"
    frame = load_iris(as_frame=True).data
    named = explain_duel(DuelRanker(random_state=0).fit(frame, Y), frame.iloc[[100]])
    assert ("petal width (cm)", "2.5") in {(item.column, item.text) for item in named.items}
    scaled = make_pipeline(StandardScaler(), DuelRanker(random_state=0))
    why = explain_duel(scaled.fit(frame, Y), frame.iloc[[100]], 2, 1)
    assert "petal width (cm)" in {item.column for item in why.items}
    rotated = make_pipeline(StandardScaler(), PCA(2), DuelRanker(random_state=0)).fit(X, Y)
    why = explain_duel(rotated, X[[100]])
    assert {item.column for item in why.items} == {"pca0", "pca1"}
    assert total(why) == pytest.approx(margin_of(rotated, X[[100]], why.label, why.rival))


def test_tables_without_transformers():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"p": X[:, 0], "q": X[:, 3]})
    ranker = DuelRanker(random_state=0).fit(table, Y)
    why = explain_duel(ranker, table.slice(100, 1))
    assert {(item.column, item.text) for item in why.items} == {("p", "6.3"), ("q", "2.5")}
    assert total(why) == pytest.approx(why.margin)


@pytest.mark.parametrize("passed", [["q"], ["q", "r"]], ids=len)
def test_columns_that_are_passed_on_show_their_values(passed):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, :3], columns=["p", "q", "r"])[["p", *passed]]
    rest = ColumnTransformer([("scaled", StandardScaler(), ["p"])], remainder="passthrough")
    named = ColumnTransformer([("as is", "passthrough", passed), ("s", StandardScaler(), ["p"])])
    for columns in (rest, named):
        model = make_pipeline(columns, DuelRanker(random_state=0)).fit(frame, Y)
        shown = {item.column: item.text for item in explain_duel(model, frame.iloc[[100]]).items}
        assert shown == {"p": "6.3"} | {name: {"q": "3.3", "r": "6"}[name] for name in passed}


def test_there_is_no_object_for_every_term():
    model = make_pipeline(TfidfVectorizer(), DuelRanker(LINEAR["logistic"], random_state=0))
    model.fit(TEXTS, TEAMS)
    assert len(explanations._Points.of(model, ["the pin"]).sources) == 1
    assert {item.column for item in explain_duel(model, ["the pin"]).items} == {"the", "pin"}


def test_mistakes_are_found_before_the_first_point():
    with pytest.raises(TypeError, match="model must have linear duels"):
        explain_points(DuelRanker(ForestDuels(3), random_state=0).fit(X, Y), X)
    explained = explain_points(DuelRanker(random_state=0).fit(X, Y), X)
    assert next(explained).margin > 0


def test_vectorizers_of_scikit_learn_are_explained_by_their_terms():
    model = make_pipeline(TfidfVectorizer(), DuelRanker(LINEAR["logistic"], random_state=0))
    why = explain_duel(model.fit(TEXTS, TEAMS), ["the pin is blocked"], "pins", "cards")
    assert {item.column for item in why.items} == {"the", "pin", "is", "blocked"}
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"body": TEXTS, "day": ["mon", "tue"] * 6, "vector": [[1.0, 2.0]] * 12})
    columns = ColumnTransformer(
        [
            ("words", TfidfVectorizer(), "body"),
            ("days", OneHotEncoder(), ["day"]),
            ("vectors", VectorFeatures(), ["vector"]),
        ]
    )
    model = make_pipeline(columns, DuelRanker(LINEAR["logistic"], random_state=0)).fit(frame, TEAMS)
    why = explain_duel(model, frame.iloc[[0]])
    assert {"day", "vector"} <= {item.column for item in why.items}
    assert total(why) == pytest.approx(margin_of(model, frame.iloc[[0]], why.label, why.rival))


def test_mistakes_are_named():
    forest = DuelRanker(ForestDuels(3), random_state=0).fit(X, Y)
    assert not can_explain(forest)
    with pytest.raises(TypeError, match=r"model must have linear duels, .* got ForestDuels"):
        explain_duel(forest, X[:1])
    assert not can_explain(DuelRanker(GaussianNB(), random_state=0).fit(X, Y))
    one_sided = EstimatorDuels(LogisticRegression()).fit(X[:100], Y[:100], 3)
    assert one_sided.duel_coefficients(np.array([1]))[1] == [-1]
    ranker = DuelRanker(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="X must be a single row, got 2"):
        explain_duel(ranker, X[:2])
    with pytest.raises(ValueError, match="label and rival must be two labels, got 1 twice"):
        explain_duel(ranker, X[:1], 1, 1)
    with pytest.raises(ValueError, match=r"^label holds"):
        explain_duel(ranker, X[:1], 7, 1)
    with pytest.raises(ValueError, match=r"^rival holds"):
        explain_duel(ranker, X[:1], 1, 7)
    with pytest.raises(ValueError, match="n_rivals"):
        explain_first(ranker, X[:1], -1)
    first = explain_duel(ranker, X[:1]).label
    assert explain_duel(ranker, X[:1], rival=first).label != first
    with pytest.raises(NotFittedError):
        can_explain(DuelRanker())
    with pytest.raises(TypeError, match="model must be a fitted DuelRanker"):
        explain_duel(StandardScaler().fit(X), X[:1])
