"""The campaign finds what is planted, and the same seed makes the same cases."""

import copy
import io
import json
import math
import os
import random
import signal
import sys
import time
import warnings

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")
if not sys.platform.startswith("linux"):
    pytest.skip("needs fork and the limits of Linux", allow_module_level=True)

from sklearn.linear_model import LogisticRegression

from duelrank import DuelRanker, LogisticDuels, LogisticDuelsCV, StumpDuels, save
from duelrank.storage import ModelFileError, describe, load
from fuzz import (
    __main__,
    archives,
    checkpoints,
    commands,
    models,
    numbers,
    strangers,
    tables,
    threads,
)
from fuzz.campaign import replay, run_kind
from fuzz.cases import Case, Find, Kind, random_of
from fuzz.objectives import Objective, ScoreObjective
from fuzz.workers import Answer, run_one

# Python 3.12 warns of forks in a process with threads; pytest-xdist has one.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def hang():
    time.sleep(60)


def take_memory():
    np.zeros(2**29, dtype=np.uint8).fill(1)


def raise_undocumented():
    raise KeyError("nobody documents this")


def warn():
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


def speak():
    os.write(2, b"Traceback (most recent call last)\n")


def exit_quietly():
    os._exit(0)


PLANTED = {
    crash: "crash by signal SIGSEGV at test_fuzz.py:crash",
    hang: "hang at test_fuzz.py:hang",
    take_memory: "MemoryError at test_fuzz.py:take_memory",
    raise_undocumented: "KeyError at test_fuzz.py:raise_undocumented",
    warn: "warning RuntimeWarning at test_fuzz.py: overflow",
    speak: "output: Traceback",
    exit_quietly: "crash by exit status 0",
}


def planted_kind(fault):
    """Return a kind of which every third case has a fault."""

    def make_case(random, materials):
        return Case({"input.txt": str(random.random()).encode()}, ["a number"], {})

    def run_case(case, folder):
        if float(case.files["input.txt"]) < 1 / 3:
            fault()
        return "accepted"

    return Kind(
        "planted", make_case, run_case, seconds=2.0 if fault is hang else 60.0, megabytes=256
    )


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.__name__)
def test_planted_faults_are_found(fault, tmp_path):
    kind = planted_kind(fault)
    n_faults = sum(random_of("planted", 0, n).random() < 1 / 3 for n in range(6))
    assert 0 < n_faults < 6
    tally = run_kind(kind, 0, cases=6, jobs=2, folder=tmp_path)
    assert tally.outcomes == {"accepted": 6 - n_faults, "find": n_faults}
    (signature,) = tally.signatures
    assert signature.startswith(PLANTED[fault])
    number = tally.signatures[signature][0]
    place = tmp_path / f"planted-0-{number}"
    assert f"--replay planted:0:{number}" in (place / "find.txt").read_text()
    _, answer = replay(kind, 0, number, tmp_path)
    assert answer.signature == signature
    assert (tmp_path / "replayed" / place.name / "input.txt").read_bytes() == (
        place / "input.txt"
    ).read_bytes()


def test_a_campaign_ends_when_its_time_is_over(tmp_path):
    def wait(case, folder):
        time.sleep(0.05)
        return "accepted"

    kind = Kind("planted", lambda random, materials: Case(), wait)
    tally = run_kind(kind, 0, minutes=0.01, jobs=2, folder=tmp_path)
    assert tally.cases <= 40  # of any number, as none was given
    assert tally.finds == 0
    assert not any(tmp_path.iterdir())


def test_a_campaign_that_is_interrupted_tells_what_it_had(tmp_path, monkeypatch, capfd):
    def interrupted(*args):
        yield Answer(0, "find", signature="odd")
        raise KeyboardInterrupt

    monkeypatch.setattr("fuzz.campaign._answers", interrupted)
    kind = Kind("planted", lambda random, materials: Case(), lambda case, folder: "accepted")
    tally = run_kind(kind, 7, cases=100, folder=tmp_path)
    assert (tally.interrupted, tally.cases, tally.finds) == (True, 1, 1)
    assert "find planted:7:0: odd" in capfd.readouterr().err


def saved(engine, folder):
    path = folder / "model.skops"
    X, y = models._numbers()
    save(DuelRanker(engine, random_state=0).fit(X, y), path)
    return path


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Members of two small models, as `models.read_materials` returns them."""
    folder = tmp_path_factory.mktemp("models")
    engines = {"numbers logistic": LogisticDuels(), "numbers stumps": StumpDuels()}
    return {
        name: archives.canonical(saved(engine, folder).read_bytes())
        for name, engine in engines.items()
    }


MATERIALS = {tables: dict.fromkeys(tables.MODELS, b"a model")}


@pytest.mark.parametrize("kind", [models, tables, numbers, checkpoints, threads])
def test_the_same_seed_makes_the_same_cases(kind, material):
    name, given = kind.KIND.name, MATERIALS.get(kind, material)

    def case(seed, number):
        made = kind.make_case(random_of(name, seed, number), given)
        return made.files, made.story, made.facts

    cases = [case(0, number) for number in range(40)]
    assert cases == [case(0, number) for number in range(40)]
    assert cases != [case(1, number) for number in range(40)]


def test_the_same_model_gives_the_same_bytes(material, tmp_path):
    again = archives.canonical(saved(LogisticDuels(), tmp_path).read_bytes())
    assert archives.signed(again) == archives.signed(material["numbers logistic"])


def model_case(content):
    return Case({models.MODEL: content}, [], {"rows": "numbers", "ask_command": True})


@pytest.mark.parametrize("name", ["numbers logistic", "numbers stumps"])
def test_files_that_were_put_together_again_are_accepted(name, material, tmp_path):
    content = archives.signed(material[name])
    assert run_one(models.KIND, model_case(content), tmp_path) == "accepted"


def test_damaged_files_are_refused(material, tmp_path):
    content = archives.signed(material["numbers logistic"])[:-50]
    assert run_one(models.KIND, model_case(content), tmp_path) == "refused"


def test_altered_files_have_a_checksum_that_fits(material, tmp_path):
    members = dict(material["numbers logistic"])
    description = json.loads(members["duelrank.json"])
    description["facts"]["rows"] = 7
    members["duelrank.json"] = json.dumps(description).encode()
    path = tmp_path / "model.skops"
    path.write_bytes(archives.signed(members))
    assert describe(path).facts["rows"] == 7


def test_errors_of_a_loaded_model_are_finds():
    class Model:
        def predict(self, X):
            raise self.error

    model = Model()
    model.error = ValueError("documented")
    assert models._rank(model, None) == "refused rows"
    model.error = TypeError("ufunc 'exp' not supported for the input types")
    assert models._rank(model, None) == "refused rows"
    model.error = IndexError("not documented")
    with pytest.raises(Find, match="predict: IndexError"):
        models._rank(model, None)


STRANGERS = (
    "is a masked array",
    "are one array",
    "is numpy.",
    "is the type",
    "is a list of",
    "is a partial of",
    "is a FunctionTransformer of a partial of",
)


def test_strangers_get_into_files(material, tmp_path):
    path, told, outcomes = tmp_path / "model.skops", [], set()
    for number in range(80):
        story = []
        members = dict(material["numbers logistic"])
        schema = json.loads(members.pop("schema.json"))
        strangers.put_in(schema, members, random_of("strangers", 0, number), story)
        members["schema.json"] = json.dumps(schema).encode()
        path.write_bytes(archives.signed(members))
        told += story
        try:
            load(path)
            outcomes.add("loaded")
        except ModelFileError as error:
            outcomes.add("damaged" if "damaged" in str(error) else "refused")
    assert outcomes == {"loaded", "refused"}  # for what it holds, not for how it is written
    for words in STRANGERS:
        assert any(words in line for line in told), words


@pytest.fixture(scope="module")
def duels():
    source = np.random.default_rng(0)
    X, codes = source.normal(size=(60, 3)), np.arange(60) % 3
    X[:, 0] += codes
    weights = source.random(60)
    engine = LogisticDuels(C=10.0, class_weight="balanced").fit(X, codes, 3, weights)
    return engine, X, codes, weights


def test_a_right_certificate_is_no_find(duels):
    assert numbers.check_certificates(*duels)


def test_a_false_certificate_is_found(duels):
    engine = copy.deepcopy(duels[0])
    engine.intercept_[1] += 0.01
    with pytest.raises(Find, match="false certificate, by less than 1e-"):
        numbers.check_certificates(engine, *duels[1:])
    engine.converged_[1] = False
    assert not numbers.check_certificates(engine, *duels[1:])


def test_a_false_certificate_of_a_search_is_found(duels):
    _, X, codes, weights = duels
    search = LogisticDuelsCV([0.1, 10.0], cv=3, class_weight="balanced")
    search.fit(X, codes, 3, weights)
    assert len(set(search.C_)) == 2  # duels have a C of their own
    assert numbers.check_certificates(search, X, codes, weights)
    search.intercept_[1] += 0.01
    with pytest.raises(Find, match="false certificate, by less than 1e-"):
        numbers.check_certificates(search, X, codes, weights)


@pytest.mark.parametrize("engine", ["logistic", "logistic-cv"])
@pytest.mark.parametrize("way", sorted(set(numbers.WAYS)))
def test_extreme_rows_converge_in_memory_alone(way, engine, tmp_path):
    source = np.random.default_rng(0)
    X, codes = source.normal(size=(60, 2)) * [1.0, 1e8], np.arange(60) % 2
    stream = io.BytesIO()
    np.savez(stream, X=X, codes=codes)
    facts = {
        "n_classes": 2,
        "C": 1.0,
        "fit_intercept": True,
        "class_weight": None,
        "sparse": False,
        "keep_rows": True,
        "engine": engine,
        "way": way,
    }
    checked = way == "in memory" or (way.startswith("in blocks") and engine == "logistic-cv")
    outcome = numbers.run_case(Case({"rows.npz": stream.getvalue()}, [], facts), tmp_path)
    assert outcome == ("converged" if checked else "not converged")


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_the_best_objective_is_not_above_that_of_scikit_learn(scale):
    source = np.random.default_rng(1)
    X = source.normal(size=(40, 3)) * [1.0, scale, 1.0] + [0.0, 0.0, 1e6]
    sides = np.where(X[:, 0] + source.normal(size=40) > 0, 1.0, -1.0)
    objective = Objective(X, sides, np.ones(40), fit_intercept=True)
    best, _ = objective.best(np.zeros(3), 0.0)
    model = LogisticRegression(tol=1e-10, max_iter=1000).fit(X - [0.0, 0.0, 1e6], sides)
    intercept = model.intercept_[0] - 1e6 * model.coef_[0, 2]
    assert best <= objective.value(model.coef_[0], intercept) * (1 + 1e-9)
    assert best < objective.value(np.zeros(3), 0.0)


def test_losses_of_labels_that_are_certain_keep_their_digits():
    X, codes, coef = np.array([[1e6], [-1e6]]), np.array([0, 1]), np.array([[4e-5], [-4e-5], [0]])
    objective = ScoreObjective(X, codes, np.full(2, 1e15), 3, np.zeros(1), None)
    own, best = objective.value_and_best(coef, np.zeros(3))
    loss = 1e15 * (math.exp(-40) + math.exp(-80))
    assert own == pytest.approx(2 * loss + (coef**2).sum() / 2, rel=1e-12)
    assert best < own


def test_an_ordinary_table_is_ranked(tmp_path):
    facts = {
        "command": "fit",
        "data": "data.csv",
        "options": ["--target", "team", "--engine", "logistic"],
        "pipes": False,
        "reads_all": True,
        "parquet": False,
    }
    case = Case({"data.csv": models.table().encode()}, [], facts)
    assert run_one(tables.KIND, case, tmp_path) == "done"


@pytest.mark.parametrize(
    ("said", "signature"),
    [
        (commands.Said(5, "", "Error: x"), "rank: exit code 5"),
        (commands.Said(1, "", "Traceback (most recent call last)"), "rank: a traceback"),
        (commands.Said(1, "", "Error: x; run with --debug for the traceback"), "rank: an error"),
        (commands.Said(1, "", "what?"), "rank: exit code 1 without a sentence"),
        (commands.Said(0, "", "Note: overflow encountered in exp"), "rank: a warning of numpy"),
        (commands.Said(0, "", "\x1b[31m"), "rank: control characters"),
    ],
)
def test_what_the_command_should_not_say_is_found(said, signature):
    with pytest.raises(Find, match=signature):
        commands._checked(["rank"], said)


def test_what_the_command_may_say_is_no_find():
    said = commands.Said(1, "", "Note: x\nError: the table is empty.\n")
    assert commands._checked(["rank"], said) is said


@pytest.mark.parametrize("way", checkpoints.WAYS)
def test_stopped_fits_go_on_or_are_refused(way, tmp_path):
    case = checkpoints.make_case(random.Random(0), None)
    case.facts |= {"way": way, "stop": "max_iter", "after": 1, "scale": 1.0, "n_features": 6}
    outcomes = {"untouched": "went on", "no file": "began anew"}
    if way not in ("damaged", "altered", "signed"):  # whether these are refused is chance
        outcome = run_one(checkpoints.KIND, case, tmp_path)
        assert outcome == outcomes.get(way, "refused")


def test_another_result_than_without_a_checkpoint_is_found(duels):
    engine = copy.deepcopy(duels[0])
    engine.intercept_ += 0.1
    checkpoints._check_same(duels[0], duels[0], duels[1])
    with pytest.raises(Find, match="another result"):
        checkpoints._check_same(duels[0], engine, duels[1])


def test_a_campaign_by_command(tmp_path, capsys):
    code = __main__.main(
        ["numbers", "threads", "--cases", "3", "--jobs", "1", "--output", str(tmp_path)]
    )
    printed = capsys.readouterr().out
    assert code == int("finds among" in printed)
    assert printed.splitlines()[1].split()[:3] == ["numbers", "0", "3"]
    told = json.loads((tmp_path / "summary-threads-0.json").read_text())
    assert told["cases"] == 3


def test_one_case_by_command(tmp_path, capsys):
    code = __main__.main(["--replay", "threads:0:1", "--output", str(tmp_path)])
    assert code == 0
    assert "same bits" in capsys.readouterr().out
    assert (tmp_path / "replayed" / "threads-0-1" / "find.txt").exists()


@pytest.mark.parametrize("arguments", [["--replay", "threads"], ["nothing"]])
def test_mistakes_in_arguments(arguments, capsys):
    with pytest.raises(SystemExit):
        __main__.main(arguments)
