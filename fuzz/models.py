"""Model files that were altered: `load` refuses them with its own error, or they rank."""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import archives, commands
from fuzz.archives import Members
from fuzz.cases import Case, Find, Kind, find_of, memory_error_in

N_ROWS, N_FEATURES = 48, 5
LABELS = np.array(["a", "b", "c", "ü"], dtype=object)
WORDS = (
    *("printer", "jams", "paper", "screen", "black", "login"),
    *("password", "reset", "invoice", "wrong", "twice", "paid"),
)
MODEL = "model.skops"
COMMAND_EVERY = 12  # of so many cases, one asks the command as well
RANKED = 6  # rows
UNTRUSTED, TRUSTED_SHARE = " (untrusted)", 0.9
# What ranking with a strange model may raise: the errors of scikit-learn for data and models that
# do not fit together. A function of numpy refuses texts with a TypeError that names its kind.
DOCUMENTED = (ValueError,)
UFUNC = "ufunc"


def _numbers() -> tuple[Any, Any]:
    source = np.random.default_rng(0)
    codes = np.arange(N_ROWS) % len(LABELS)
    return source.normal(size=(N_ROWS, N_FEATURES)) + codes[:, np.newaxis] / 2, LABELS[codes]


def _texts() -> tuple[Any, Any]:
    source = random.Random(0)
    codes = np.arange(N_ROWS) % len(LABELS)
    texts = [
        " ".join([*source.choices(WORDS, k=4), WORDS[3 * code], WORDS[3 * code + 1]])
        for code in codes
    ]
    return texts, LABELS[codes]


def table() -> str:
    """Return a table as CSV, with columns of every kind, as the command reads it."""
    X, y = _numbers()
    texts, _ = _texts()
    lines = ["size,weight,colour,seen,body,team"]
    for i in range(N_ROWS):
        size = "" if i % 9 == 4 else f"{X[i, 0]:.4f}"
        colour, day = ["red", "blue", "NA"][i * 7 % 3], 1 + i % 28
        body = f"{texts[i]} number {i}"
        lines.append(f"{size},{X[i, 1]:.4f},{colour},2024-01-{day:02},{body},{y[i]}")
    return "\n".join(lines) + "\n"


def _saved(model: Any, texts: bool = False, by_ranks: bool = False) -> Callable[[Path], None]:
    """Return what fits a model and saves it."""

    def make(path: Path) -> None:
        from duelrank import save

        X, y = _texts() if texts else _numbers()
        if by_ranks:
            y = 1 + (np.arange(len(LABELS)) - np.arange(N_ROWS)[:, np.newaxis]) % len(LABELS)
        save(model.fit(X, y), path)

    return make


def _by_command(*options: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "table.csv"
            data.write_text(table(), encoding="utf-8")
            said = commands.run(["fit", data, "--target", "team", "-o", path, *options])
        if said.code:
            raise RuntimeError(said.messages)

    return make


def recipes() -> dict[str, Callable[[Path], None]]:
    """Return what makes model files, by name; the names begin with what rows they rank."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import (
        AdaBoostClassifier,
        BaggingClassifier,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
    )
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        FunctionTransformer,
        KBinsDiscretizer,
        OneHotEncoder,
        PolynomialFeatures,
        StandardScaler,
    )
    from sklearn.svm import SVC

    from duelrank import (
        AnchoredDuels,
        DuelRanker,
        ForestDuels,
        KernelDuels,
        LogisticDuels,
        LogisticDuelsCV,
        StackedDuels,
        StumpDuels,
    )
    from duelrank.preprocessing import TextFeatures
    from duelrank.shortlists import PlaceIntervals, Shortlister

    engines = {
        "logistic": LogisticDuels(),
        "logistic-cv": LogisticDuelsCV(Cs=2, cv=2),
        "updatable": LogisticDuels(keep_rows=True),
        "anchored": AnchoredDuels(rivals=1),
        "stumps": StumpDuels(),
        "forest": ForestDuels(3),
        "kernel": KernelDuels(10),
        "stacked": StackedDuels([("forest", ForestDuels(2)), ("stumps", StumpDuels())], cv=2),
        "forests": RandomForestClassifier(2, max_depth=3),
        "boosting": HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=3),
        "gradient": GradientBoostingClassifier(n_estimators=2),
        "adaboost": AdaBoostClassifier(n_estimators=2),
        "bagging": BaggingClassifier(n_estimators=2),
        "neighbours": KNeighborsClassifier(3, algorithm="kd_tree"),
        "support": SVC(),
        "bayes": GaussianNB(),
        "calibrated": CalibratedClassifierCV(LogisticRegression(), cv=2),
        "steps": make_pipeline(KBinsDiscretizer(3, strategy="uniform"), LogisticRegression()),
    }
    made = {
        f"numbers {name}": _saved(DuelRanker(engine, random_state=0))
        for name, engine in engines.items()
    }
    ranker = DuelRanker(LogisticDuels(), random_state=0)
    made["numbers pipeline"] = _saved(make_pipeline(SimpleImputer(), StandardScaler(), ranker))
    rare = OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist")
    made["numbers functions"] = _saved(make_pipeline(FunctionTransformer(np.rint), rare, ranker))
    made["numbers powers"] = _saved(make_pipeline(PolynomialFeatures(), ranker))
    made["numbers search"] = _saved(GridSearchCV(ranker, {"estimator__C": [0.1, 1.0]}, cv=2))
    made["numbers lists"] = _saved(Shortlister(ranker, 0.8, random_state=0))
    made["numbers places"] = _saved(PlaceIntervals(ranker, 0.8, random_state=0), by_ranks=True)
    for name, vectorizer in {
        "tfidf": TfidfVectorizer(),
        "hashing": HashingVectorizer(n_features=32),
        "ours": TextFeatures(),
    }.items():
        made[f"texts {name}"] = _saved(make_pipeline(vectorizer, ranker), texts=True)
    made["texts svd"] = _saved(
        make_pipeline(TfidfVectorizer(), TruncatedSVD(3, random_state=0), ranker), texts=True
    )
    for engine in ("logistic", "stumps", "forests", "boosting", "anchored"):
        ignored = ("--ignore", "body") if engine in ("stumps", "boosting") else ()
        made[f"table {engine}"] = _by_command("--engine", engine, *ignored)
    made["table updatable"] = _by_command("--updatable")
    made["table coverage"] = _by_command("--engine", "logistic", "--coverage", "0.7")
    return made


def make_materials(folder: Path) -> None:
    """Fit and save all models; those whose types are not all trusted say so in their names."""
    from duelrank.storage import UntrustedTypesError, load

    for name, make in recipes().items():
        path = folder / f"{name}.skops"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a model holds what must be trusted by name
            make(path)
        try:
            load(path)
        except UntrustedTypesError:
            path.rename(folder / f"{name}{UNTRUSTED}.skops")


def read_materials(folder: Path) -> dict[str, Members]:
    """Return the members of all models by name."""
    _import()
    return {
        path.stem: archives.canonical(path.read_bytes()) for path in sorted(folder.glob("*.skops"))
    }


def _import() -> None:
    """Import, before workers are forked, what all of them need."""
    import duelrank.cli._commands
    import duelrank.cli._info
    import duelrank.cli._rank
    import duelrank.storage._skops  # noqa: F401


def make_case(random: random.Random, materials: dict[str, Members]) -> Case:
    """Alter a model file."""
    # The others are refused before most of their parts are looked at.
    trusted = [name for name in sorted(materials) if not name.endswith(UNTRUSTED)]
    name = random.choice(trusted if random.random() < TRUSTED_SHARE else sorted(materials))
    story = [f"the model {name!r}"]
    members, others = materials[name], list(materials.values())
    if random.random() < 0.1:
        content = archives.damaged(archives.signed(members), random, story)
    else:
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            try:
                members = archives.altered(members, others, random, story)
            except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
                break  # what was altered before cannot be read any more
        content = archives.signed(members)
    ask = random.randrange(COMMAND_EVERY) == 0
    return Case({MODEL: content}, story, {"rows": name.split()[0], "ask_command": ask})


def run_case(case: Case, folder: Path) -> str:
    """Describe, load and rank."""
    from duelrank.storage import ModelFileError, ModelVersionWarning, describe, load

    path = folder / MODEL
    path.write_bytes(case.files[MODEL])
    try:
        describe(path)
    except ModelFileError as error:
        _check_memory(error, "describe")
    except Exception as error:
        raise find_of(error, "describe") from error
    if case.facts["ask_command"]:
        commands.run(["info", path])
        _rank_by_command(path, case.facts["rows"], folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelVersionWarning)
            model = load(path)
    except ModelFileError as error:
        _check_memory(error, "load")
        return "refused"
    except Exception as error:
        raise find_of(error, "load") from error
    return _rank(model, rows_of(case.facts["rows"]))


def rows_of(kind: str) -> Any:
    """Return a few rows that a model ranks."""
    if kind == "numbers":
        return _numbers()[0][:RANKED]
    if kind == "texts":
        return _texts()[0][:RANKED]
    import io

    import pandas as pd  # type: ignore[import-untyped]

    return pd.read_csv(io.StringIO(table())).drop(columns="team")[:RANKED]


METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "predict_ranks",
    "predict_shortlist",
    "predict_intervals",
)


def _rank(model: Any, rows: Any) -> str:
    """Let a loaded model rank in every way that it can.

    Steps of scikit-learn may warn of the numbers that were put into them, or let SciPy warn.
    """
    outcome = "accepted"
    for method in METHODS:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", module=r"(sklearn|scipy)\.")
                if hasattr(model, method):
                    getattr(model, method)(rows)
        except DOCUMENTED:
            outcome = "refused rows"
        except Exception as error:
            if not (isinstance(error, TypeError) and UFUNC in str(error)):
                raise find_of(error, method) from error
            outcome = "refused rows"
    return outcome


def _rank_by_command(path: Path, rows: str, folder: Path) -> None:
    if rows == "table":
        data = folder / "rows.csv"
        data.write_text("\n".join(table().splitlines()[: RANKED + 1]) + "\n", encoding="utf-8")
        commands.run(["rank", path, data, "-o", folder / "ranked.csv"])


def _check_memory(error: BaseException, where: str) -> None:
    if memory_error_in(error):
        raise Find(f"{where}: memory beyond the limit", find_of(error).report)


KIND = Kind(
    "models",
    make_case,
    run_case,
    make_materials,
    read_materials,
    cases=4000,
    seconds=20.0,
)
