"""Which types a model file may hold, and which it holds."""

import importlib
import json
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import (
    AnchoredDuels,
    DuelRanker,
    KernelDuels,
    LogisticDuels,
    LogisticDuelsCV,
    StackedDuels,
    StumpDuels,
    predict_order,
)

skops_io = pytest.importorskip("skops.io")

from skops.io.exceptions import UntrustedTypesFoundException  # noqa: E402

from duelrank.preprocessing import TextFeatures  # noqa: E402
from duelrank.scoring import kendall_tau_scorer, top_k_scorer  # noqa: E402
from duelrank.shortlists import PlaceIntervals, Shortlister  # noqa: E402
from duelrank.storage import (  # noqa: E402
    ModelFileError,
    UntrustedTypesError,
    _archive,
    load,
    save,
    trusted_types,
    untrusted_types,
)

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")

X, Y = load_iris(return_X_y=True)
RANKS = np.stack([Y + 1, (Y + 1) % 3 + 1, (Y + 2) % 3 + 1], axis=1)

MODELS = [
    DuelRanker(random_state=0),
    DuelRanker(LogisticDuelsCV(2, cv=2), random_state=0),
    DuelRanker(AnchoredDuels(), random_state=0),
    DuelRanker(KernelDuels(10), random_state=0),
    DuelRanker(LogisticRegression(max_iter=500), random_state=0),
    DuelRanker(StackedDuels([("stumps", StumpDuels()), ("linear", LogisticDuels())], cv=2)),
    make_pipeline(StandardScaler(), DuelRanker(random_state=0)),
    GridSearchCV(DuelRanker(), {"ties": ["index"]}, scoring=top_k_scorer(1), cv=2),
    Shortlister(coverage=0.8, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: " ".join(str(m).split())[:60])
def test_skops_alone_opens_models_with_the_trusted_types(model):
    model.fit(X, Y)
    content = skops_io.dumps(model)
    with pytest.raises(UntrustedTypesFoundException):
        skops_io.loads(content)
    same = skops_io.loads(content, trusted=trusted_types())
    assert np.array_equal(predict_order(same, X), predict_order(model, X))


def test_skops_alone_opens_what_learned_from_rankings_and_texts():
    search = GridSearchCV(DuelRanker(), {"ties": ["index"]}, scoring=kendall_tau_scorer())
    search.set_params(cv=KFold(2, shuffle=True, random_state=0)).fit(X, RANKS)
    same = skops_io.loads(skops_io.dumps(search), trusted=trusted_types())
    assert same.score(X, RANKS) == search.score(X, RANKS)
    places = PlaceIntervals(coverage=0.8, random_state=0).fit(X, RANKS)
    same = skops_io.loads(skops_io.dumps(places), trusted=trusted_types())
    assert np.array_equal(same.predict_intervals(X), places.predict_intervals(X))
    texts = ["red green", "red blue", "green blue", "red", "green", "blue"] * 5
    words = make_pipeline(TextFeatures(), DuelRanker(random_state=0)).fit(texts, [0, 1, 2] * 10)
    same = skops_io.loads(skops_io.dumps(words), trusted=trusted_types())
    assert np.array_equal(predict_order(same, texts), predict_order(words, texts))


def test_trees_that_nobody_checks_are_not_trusted(tmp_path):
    """`load` checks the numbers of their nodes; skops does not."""
    ranker = DuelRanker(RandomForestClassifier(2), random_state=0).fit(X, Y)
    with pytest.raises(UntrustedTypesFoundException, match="Tree"):
        skops_io.loads(skops_io.dumps(ranker), trusted=trusted_types())
    save(ranker, tmp_path / "model.skops")
    assert untrusted_types(tmp_path / "model.skops") == []
    load(tmp_path / "model.skops")


def test_the_names_are_sorted_and_those_of_types_that_can_be_imported():
    names = trusted_types()
    assert names == sorted(set(names))
    assert {"duelrank.duels.LogisticDuels", "duelrank.rankers.DuelRanker"} <= set(names)
    assert LogisticDuels.__module__ + ".LogisticDuels" in names
    for name in names:
        if name.startswith("duelrank."):
            module, _, own_name = name.rpartition(".")
            assert hasattr(sys.modules[module], own_name)


class Doubled(TransformerMixin, BaseEstimator):
    """A type that is neither ours nor scikit-learn's."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return 2 * X


def test_a_file_tells_what_is_not_trusted(tmp_path):
    path = tmp_path / "model.skops"
    model = make_pipeline(Doubled(), DuelRanker(random_state=0)).fit(X, Y)
    save(model, path)
    names = untrusted_types(path)
    assert names == [f"{Doubled.__module__}.Doubled"]
    with pytest.raises(UntrustedTypesError) as caught:
        load(path)
    assert caught.value.names == names
    assert np.array_equal(predict_order(load(path, trusted=names), X), predict_order(model, X))
    save(model[-1], path)
    assert untrusted_types(path) == []


def test_asking_imports_nothing_that_the_file_names(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    (tmp_path / "scalers_of_mine.py").write_text(
        "from sklearn.preprocessing import StandardScaler\nclass Mine(StandardScaler): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("scalers_of_mine")
    save(make_pipeline(mine.Mine(), DuelRanker(random_state=0)).fit(X, Y), path)
    monkeypatch.delitem(sys.modules, "scalers_of_mine")
    assert untrusted_types(path) == ["scalers_of_mine.Mine"]
    assert "scalers_of_mine" not in sys.modules
    load(path, trusted=["scalers_of_mine.Mine"])
    assert "scalers_of_mine" in sys.modules


def test_only_model_files_are_asked(tmp_path):
    path = tmp_path / "model.skops"
    ranker = DuelRanker(random_state=0).fit(X, Y)
    skops_io.dump(ranker, path)
    with pytest.raises(ModelFileError, match=r"not a duelrank model file: it has no duelrank.json"):
        untrusted_types(path)
    save(ranker, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFileError, match="truncated"):
        untrusted_types(path)
    path.write_bytes(content)
    archive = _archive.read_archive(path)
    schema = json.loads(archive.members["schema.json"]) | {"__loader__": "NoSuchNode"}
    archive.members["schema.json"] = json.dumps(schema).encode()
    altered = _archive.write_members(archive.members, compress=False)
    _archive.write_archive(path, altered, archive.description)
    with pytest.raises(ModelFileError, match="was not written by duelrank"):
        untrusted_types(path)
