"""Profiles of training rows in model files."""

import json
import zipfile

import pytest
from sklearn.datasets import load_iris

from duelrank import DuelRanker
from duelrank.drift import Profile, compare

pytest.importorskip("skops")

from duelrank.storage import ModelFileError, _archive, describe, load, save

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


@pytest.fixture(scope="module")
def model():
    return DuelRanker(random_state=0).fit(X, Y)


def rewritten(path, profile):
    """Put another profile into a file, with the right checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(members.pop(_archive.DESCRIPTION))
    del description["checksum"]
    description["profile"] = profile
    description["checksum"] = _archive._checksum(members, description)
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
        archive.writestr(_archive.DESCRIPTION, json.dumps(description))


def test_a_profile_is_saved_with_the_model(model, path):
    profile = Profile.of(model, X, Y)
    save(model, path, profile=profile)
    read = Profile.from_dict(describe(path).profile)
    assert read == profile
    assert describe(path).training_data["profiled"] == 4
    assert compare(read, load(path), X, Y) == compare(profile, model, X, Y)


def test_without_a_profile_there_is_none(model, path):
    save(model, path)
    assert describe(path).profile is None
    assert "profiled" not in describe(path).training_data


def test_a_profile_holds_no_training_rows(model, path):
    save(model, path, profile=Profile.of(model, X, Y), training_rows=False)
    assert describe(path).training_data["rows"] == 0
    assert describe(path).training_data["profiled"] == 4


def test_a_profile_makes_a_file_little_larger(model, path):
    save(model, path)
    before = path.stat().st_size
    save(model, path, profile=Profile.of(model, X, Y))
    assert path.stat().st_size < before + 1500


def test_what_is_no_profile_is_refused(model, path):
    with pytest.raises(TypeError, match=r"profile must be a duelrank\.drift\.Profile or None"):
        save(model, path, profile={"rows": 3})
    assert not path.exists()


@pytest.mark.parametrize("profile", [[], "profile", 3])
def test_a_file_with_something_else_is_damaged(model, path, profile):
    save(model, path)
    rewritten(path, profile)
    with pytest.raises(ModelFileError, match="its description cannot be read"):
        load(path)


def test_a_model_loads_whatever_its_profile_holds(model, path):
    """It is read when somebody wants to compare."""
    save(model, path)
    rewritten(path, {"rows": "many"})
    assert (load(path).predict(X) == model.predict(X)).all()
    with pytest.raises(ValueError, match="the profile is damaged"):
        Profile.from_dict(describe(path).profile)
