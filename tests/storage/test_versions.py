"""Files of other versions of scikit-learn and duelrank, which hold what is not known here."""

import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker, StumpDuels, predict_order

pytest.importorskip("skops.io")

from duelrank.storage import (
    ModelFileError,
    ModelVersionWarning,
    UntrustedTypesError,
    describe,
    load,
    save,
    untrusted_types,
)
from duelrank.storage._archive import read_archive, write_archive
from duelrank.storage._members import write_members
from duelrank.storage._names import dictionaries_in
from duelrank.storage._versions import installed_versions

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")

X, Y = load_iris(return_X_y=True)
HERE = installed_versions()
SCALER = "sklearn.preprocessing._data.StandardScaler"
STUMPS = "duelrank.duels.StumpDuels"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.skops"
    save(make_pipeline(StandardScaler(), DuelRanker(StumpDuels(), random_state=0)).fit(X, Y), path)
    return path


def write_as_if(path, versions, renamed=()):
    """Write a file anew as if other versions had saved it, which call some types otherwise."""
    archive = read_archive(path)
    schema = json.loads(archive.members["schema.json"])
    found = set()
    for part in dictionaries_in(schema):
        name = f"{part.get('__module__')}.{part.get('__class__')}"
        if name in dict(renamed):
            part["__module__"], _, part["__class__"] = dict(renamed)[name].rpartition(".")
            found.add(name)
    assert found == set(dict(renamed))
    archive.members["schema.json"] = json.dumps(schema).encode()
    archive.description["versions"] |= versions
    write_archive(path, write_members(archive.members, compress=False), archive.description)


@pytest.mark.parametrize("there", ["99.1.0", "1.2.3", f"{HERE['scikit-learn']}.post1"])
def test_types_of_another_scikit_learn_are_told_as_such(there, path):
    new = "sklearn.preprocessing._data.NewThing"
    write_as_if(path, {"scikit-learn": there}, [(SCALER, new)])
    sentence = (
        f"{path} was saved with scikit-learn {there} (here: {HERE['scikit-learn']}) and holds what "
        f"is not known here: {new}; load it with the version that saved it, or fit the model again "
        "with this one."
    )
    with pytest.raises(ModelFileError, match=f"^{re.escape(sentence)}$") as caught:
        load(path)
    assert not isinstance(caught.value, UntrustedTypesError)
    assert untrusted_types(path) == [new]
    assert describe(path).versions["scikit-learn"] == there


def test_trusting_what_is_not_there_does_not_help(path):
    new = "sklearn.preprocessing._data.NewThing"
    write_as_if(path, {"scikit-learn": "99.1.0"}, [(SCALER, new)])
    with pytest.raises(
        ModelFileError,
        match=r"was saved with scikit-learn 99\.1\.0 \(here: .*\) and cannot be built here "
        r"\(.*NewThing.*\); load it with the versions that saved it, or fit",
    ):
        load(path, trusted=[new])


def test_types_of_another_duelrank_are_told_as_such(path):
    renamed = [(STUMPS, "duelrank.duels.NewDuels"), (SCALER, "mypackage.Scaler")]
    write_as_if(path, {"duelrank": "99.0", "scikit-learn": "99.1.0"}, renamed)
    with pytest.raises(
        ModelFileError,
        match=r"was saved with duelrank 99\.0 \(here: [^)]*\) and holds what is not known here: "
        r"duelrank\.duels\.NewDuels; load it with",
    ):
        load(path)


def test_types_that_are_there_are_a_matter_of_trust(path):
    known = "sklearn.utils.validation.check_is_fitted"
    write_as_if(path, {"scikit-learn": "99.1.0"}, [(SCALER, known)])
    with pytest.raises(UntrustedTypesError) as caught:
        load(path)
    assert caught.value.names == [known]


def test_types_of_this_version_are_a_matter_of_trust(path):
    new = "sklearn.preprocessing._data.NewThing"
    write_as_if(path, {}, [(SCALER, new)])
    with pytest.raises(UntrustedTypesError, match=f"not trusted: {new}"):
        load(path)


def test_types_of_other_packages_are_a_matter_of_trust(path):
    write_as_if(path, {"scikit-learn": "99.1.0"}, [(SCALER, "mypackage.Scaler")])
    with pytest.raises(UntrustedTypesError, match=r"not trusted: mypackage\.Scaler"):
        load(path)


def test_attributes_of_another_version_are_told_as_such(path):
    """As if a fitted engine had other attributes in the version that saved it."""
    ranker = DuelRanker(StumpDuels(), random_state=0).fit(X, Y)
    names = [name for name, value in vars(ranker.duels_).items() if isinstance(value, np.ndarray)]
    for name in names:
        delattr(ranker.duels_, name)
    save(ranker, path)
    with pytest.raises(ModelFileError, match="was not written by duelrank: "):
        load(path)
    for package, there in (("duelrank", "99.0"), ("scikit-learn", "1.2.3"), ("skops", "99.0")):
        save(ranker, path)
        write_as_if(path, {package: there})
        with pytest.raises(
            ModelFileError,
            match=rf"was saved with {package} {there} \(here: {HERE[package]}\) and cannot be "
            r"built here \(.*\); load it with the versions that saved it, or fit the model again",
        ):
            load(path)


def test_what_is_known_is_loaded_with_a_warning(path):
    expected = predict_order(load(path), X)
    write_as_if(path, {"scikit-learn": "99.1.0"})
    with pytest.warns(ModelVersionWarning, match=r"saved with scikit-learn 99\.1\.0 \(here"):
        assert np.array_equal(predict_order(load(path), X), expected)
