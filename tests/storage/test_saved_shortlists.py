"""Models with shortlists and with intervals of places, saved and loaded."""

import json
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, predict_ranks
from duelrank.datasets import make_label_ranking
from duelrank.shortlists import PlaceIntervals, Shortlister

pytest.importorskip("skops")

from duelrank.storage import ModelFileError, _archive, describe, load, save

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"], dtype=object)[Y]
TEXTS = [f"flower w{int(10 * row[2])} w{int(10 * row[3])} v{i % 40}" for i, row in enumerate(X)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def pipeline():
    return make_pipeline(StandardScaler(), DuelRanker(random_state=0))


def fitted_elsewhere():
    return FrozenEstimator(pipeline().fit(X[::2], NAMES[::2]))


MODELS = {
    "a ranker": lambda: Shortlister(DuelRanker(random_state=0), random_state=0).fit(X, NAMES),
    "the default": lambda: Shortlister(random_state=0).fit(X, Y),
    "a pipeline": lambda: Shortlister(pipeline(), random_state=0).fit(X, NAMES),
    "frozen": lambda: Shortlister(fitted_elsewhere(), 0.95).fit(X[1::2], NAMES[1::2]),
    "folds": lambda: Shortlister(pipeline(), cv=3, random_state=0).fit(X, NAMES),
    "a splitter": lambda: Shortlister(pipeline(), cv=KFold(3, shuffle=True, random_state=0)).fit(
        X, NAMES
    ),
    "by label": lambda: Shortlister(pipeline(), 0.8, by="label", random_state=0).fit(X, NAMES),
    "several coverages": lambda: Shortlister(pipeline(), (0.8, 0.9), random_state=0).fit(X, NAMES),
    "drawn, and short": lambda: Shortlister(
        pipeline(),
        conformity_score="aps",
        randomize=True,
        max_length=2,
        longer="abstain",
        random_state=0,
    ).fit(X, NAMES),
    "at the end of a pipeline": lambda: make_pipeline(
        StandardScaler(), Shortlister(DuelRanker(random_state=0), random_state=0)
    ).fit(X, NAMES),
}


def lists_of(model):
    if hasattr(model, "predict_shortlist"):
        return model.predict_shortlist(X)
    return model[-1].predict_shortlist(model[:-1].transform(X))


@pytest.mark.parametrize("name", MODELS)
def test_loaded_lists_are_the_same(name, path):
    model = MODELS[name]()
    save(model, path)
    same = load(path)
    assert lists_of(same) == lists_of(model)
    assert np.array_equal(same.predict_proba(X), model.predict_proba(X))
    assert str(same.get_params()) == str(model.get_params())
    save(same, path)
    assert lists_of(load(path)) == lists_of(model)


def test_groups_of_rows_are_kept(path):
    groups = np.arange(len(X)) % 2
    model = Shortlister(pipeline(), 0.8, by="group", random_state=0).fit(X, NAMES, groups)
    save(model, path)
    expected = model.predict_shortlist(X, groups)
    assert load(path).predict_shortlist(X, groups) == expected


def test_a_frozen_model_is_written_once(path):
    points = np.random.default_rng(0).normal(size=(150, 2000))
    ranker = DuelRanker(random_state=0).fit(points[::2], Y[::2])
    save(ranker, path)
    alone = path.stat().st_size
    save(Shortlister(FrozenEstimator(ranker)).fit(points[1::2], Y[1::2]), path)
    assert path.stat().st_size < 1.2 * alone
    same = load(path)
    assert same.estimator.estimator is same.estimator_


def test_frozen_steps_are_saved(path):
    model = make_pipeline(FrozenEstimator(StandardScaler().fit(X)), DuelRanker(random_state=0))
    model.fit(X, Y)
    save(model, path)
    assert np.array_equal(predict_ranks(load(path), X), predict_ranks(model, X))


def test_searches_over_lists_are_saved(path):
    search = GridSearchCV(Shortlister(pipeline(), random_state=0), {"coverage": [0.8, 0.9]}, cv=2)
    search.fit(X, NAMES)
    save(search, path)
    expected = search.best_estimator_.predict_shortlist(X)
    assert load(path).best_estimator_.predict_shortlist(X) == expected
    assert describe(path).shortlists["coverage"] == [search.best_params_["coverage"]]


def test_intervals_of_places_are_saved(path):
    points, _, eta = make_label_ranking(200, random_state=0)
    ranks = 1 + np.argsort(np.argsort(-eta))
    for width in ("duels", "constant"):
        model = PlaceIntervals(DuelRanker(random_state=0), 0.8, width=width, random_state=0)
        save(model.fit(points, ranks), path)
        same = load(path)
        assert np.array_equal(same.predict_intervals(points), model.predict_intervals(points))
    assert describe(path).labels == model.classes_.tolist()
    assert describe(path).shortlists is None
    model.half_width_ = np.array([1.0, 2.0])
    refused(model, path, "the calibration of the places is not counted right")


def test_the_description_tells_the_lists(path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = Shortlister(pipeline(), 0.95, by="label", random_state=0)
    with pytest.warns(UserWarning, match="calibrated together"):
        model.fit(frame, NAMES)
    save(model, path, target="species")
    description = describe(path)
    assert description.shortlists == {
        "coverage": [0.95],
        "by": "label",
        "score": "probability",
        "calibration_rows": 30,
        "labels_together": 3,
    }
    assert description.columns == dict.fromkeys("abcd", "number")
    assert description.steps == ["StandardScaler()"]
    assert description.engine == "LogisticDuels()"
    save(model.estimator_, path)
    assert describe(path).shortlists is None


@pytest.mark.parametrize(
    "told", [3, [], {"coverage": 0.9}, {"coverage": ["a"], "by": "", "score": ""}]
)
def test_descriptions_that_tell_strange_things_are_refused(told, path):
    save(MODELS["a ranker"](), path)
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read("duelrank.json")) | {"shortlists": told}
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in ("checksum", "format"):
        description.pop(name, None)
    members.pop("duelrank.json")
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    _archive.write_archive(path, path.read_bytes(), description)
    with pytest.raises(ModelFileError, match="its description cannot be read"):
        describe(path)


def test_lists_without_training_rows(path):
    texts = [" ".join(f"word{i * 7 * j % 300}" for j in range(9)) for i in range(60)]
    model = Shortlister(make_pipeline(CountVectorizer(), DuelRanker(random_state=0)), 0.8, cv=2)
    model.fit(texts, [0, 1, 2, 3, 4] * 12)
    save(model, path)
    assert describe(path).training_data["rows"] == 1
    save(model, path, training_rows=False)
    assert describe(path).training_data["rows"] == 0
    assert load(path).predict_shortlist(texts) == model.predict_shortlist(texts)


def test_only_fitted_lists_of_duels_are_saved(path):
    for model in (Shortlister(), PlaceIntervals(), make_pipeline(StandardScaler(), Shortlister())):
        with pytest.raises(NotFittedError):
            save(model, path)
    regression = Shortlister(LogisticRegression(max_iter=1000), random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="or a Shortlister of these; got Shortlister"):
        save(regression, path)
    assert not path.exists()


# Altered models


def refused(model, path, sentence):
    """Show that a model is loaded no more after it was altered."""
    save(model, path)
    with pytest.raises(ModelFileError, match=f"was not written by duelrank: {sentence}"):
        load(path)


def put(name, value):
    """Return what changes an attribute."""
    return lambda model: setattr(model, name, value)


ALTERED = {
    "scores that are none": lambda m: m.calibration_scores_[0].fill(np.nan),
    "scores too many": lambda m: m.calibration_scores_.append(np.zeros(3)),
    "scores cut": put("calibration_scores_", [np.zeros(3)]),
    "beyond the scores": lambda m: m.calibration_begins_[0].fill(10**6),
    "unknown score": put("score_", "luck"),
    "groups of labels that are not there": put("label_groups_", np.array([0, 1, 10**6])),
    "fewer groups than labels": put("label_groups_", np.array([0])),
    "other labels": put("classes_", np.array(["a", "b", "c", "d"], dtype=object)),
    "coverages that are no numbers": put("coverages_", "much"),
    "rows that are no number": put("n_calibration_", "many"),
}


@pytest.mark.parametrize("how", ALTERED)
def test_altered_lists_are_refused(how, path, monkeypatch):
    model = Shortlister(pipeline(), 0.8, by="label", random_state=0).fit(X, NAMES)
    ALTERED[how](model)
    # What is written down about the lists is not what is tested here.
    monkeypatch.setattr("duelrank.storage._saving.describe_shortlists", lambda model: None)
    refused(model, path, "the calibration of the lists is not counted right")


def test_lists_behind_a_vectorizer_take_its_columns(path):
    lists = Shortlister(DuelRanker(random_state=0), random_state=0)
    model = make_pipeline(CountVectorizer(), lists).fit(TEXTS, NAMES)
    save(model, path)
    load(path)
    vocabulary = model[0].vocabulary_
    vocabulary.pop(max(vocabulary, key=vocabulary.get))
    refused(model, path, "a vectorizer makes other columns than the next step takes")
