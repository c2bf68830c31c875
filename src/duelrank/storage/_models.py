"""`save` and `load`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import duelrank
from duelrank import duels, losses, scoring
from duelrank.duels._stacked import WithSquares
from duelrank.rankers import DuelRanker
from duelrank.storage._archive import (
    ModelFileError,
    UntrustedTypesError,
    read_archive,
    write_archive,
)
from duelrank.storage._checks import check_model
from duelrank.storage._columns import column_kinds
from duelrank.storage._description import ModelDescription, parse_description
from duelrank.storage._packing import MOST_ITEMS, pack, unpack

# Harmless parts of scikit-learn's and numpy's that skops wants to hear of by name.
TRUSTED = (
    "functools.partial",  # of functions that are trusted themselves
    "pathlib.PosixPath",  # names of checkpoints, which nothing is read from
    "pathlib.WindowsPath",
    "numpy.dtype",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",  # in scorers of older versions
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
    "sklearn.utils.validation.check_array",
    *(
        f"sklearn.model_selection._split.{name}"
        for name in (
            "GroupKFold",
            "KFold",
            "LeaveOneOut",
            "RepeatedKFold",
            "RepeatedStratifiedKFold",
            "ShuffleSplit",
            "StratifiedGroupKFold",
            "StratifiedKFold",
            "StratifiedShuffleSplit",
            "TimeSeriesSplit",
        )
    ),
)
# Of thousands of duels, the classifiers with the fewest numbers need a quarter of an object a byte.
ITEMS_A_BYTE = 2
PACKAGES = ("duelrank", "scikit-learn", "numpy", "scipy", "skops")


class ModelVersionWarning(UserWarning):
    """A model was saved with other versions than the ones that read it."""


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    target: str | Sequence[str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Save a fitted ranker to a file that can be opened without running what is in it.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline or search that ends in one
        What to save.
    path : path
        Where to; by convention with the ending ``.skops``. A file that is there is replaced when
        the new one is complete, and stays as it is if anything goes wrong.
    columns : mapping of str to str, default=None
        Kinds of the input columns by name, for `describe` and for the command, which reads CSV
        by them: "number", "boolean", "date" or "category". By default names and kinds are those
        that the fitted model remembers, with None for a kind that it does not tell. Of booleans
        and numbers it remembers the same, so name the kinds if there are columns of true and
        false.
    target : str or sequence of str, default=None
        Name of the column with the labels, for `describe`; a sequence of names, also of one, if
        the columns held lists of labels, best first.
    facts : mapping, default=None
        Anything else worth remembering that JSON can hold, for `describe`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> from duelrank.storage import describe, load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = DuelRanker(random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     save(ranker, Path(folder) / "iris.skops")
    ...     same = load(Path(folder) / "iris.skops")
    ...     describe(Path(folder) / "iris.skops").labels
    [0, 1, 2]
    >>> bool((same.predict_ranks(X) == ranker.predict_ranks(X)).all())
    True
    """
    ranker = _ranker_in(model)
    skops_io = _import_skops()
    facts = dict(facts or {})
    if not (target is None or isinstance(target, str)):
        # The field for the target holds one name, and every version can read the file.
        names = list(target)
        facts["targets"] = names
        target = names[0] if names else None
    description = ModelDescription(
        labels=[_as_json(label) for label in ranker.classes_.tolist()],
        engine=_on_one_line(ranker.duels_),
        aggregation=ranker.aggregation,
        ties=ranker.ties,
        steps=_describe_steps(model),
        columns=dict(columns) if columns is not None else column_kinds(model),
        target=target,
        facts=facts,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
    )
    try:
        content = skops_io.dumps(pack([model]))
        foreign = skops_io.get_untrusted_types(data=content)
    except Exception as error:
        raise TypeError(f"model cannot be saved: {_first_line(error)}.") from error
    if any("<lambda>" in name for name in foreign):
        raise TypeError(
            "model cannot be saved: it holds a lambda, which has no name to find it by."
        )
    write_archive(path, content, asdict(description))


def load(path: str | os.PathLike[str], trusted: Iterable[str] | None = None) -> Any:
    """Load a model that was saved with `save`.

    Nothing in the file is executed. Types that are neither ours nor scikit-learn's nor numpy's are
    refused, and so is a file that was truncated or altered.

    Parameters
    ----------
    path : path
        The model file.
    trusted : iterable of str, default=None
        Full names of more types to trust, such as ``"mypackage.MyTransformer"``. Their code runs
        on what the file holds: name them only if you know where the file comes from.

    Returns
    -------
    model : DuelRanker, pipeline or search
        What was saved.

    Raises
    ------
    ModelFileError
        A ValueError that says what is wrong with the file. It is an `UntrustedTypesError`, with
        their `names`, if there is nothing wrong but types that are not trusted.

    Warns
    -----
    ModelVersionWarning
        If the file was written with other versions of duelrank, scikit-learn or numpy.
    """
    description, content = read_archive(path)
    known = parse_description(path, description)
    model = build(path, content, trusted)
    warn_of_versions(path, known.versions)
    return model


def build(path: str | os.PathLike[str], content: bytes, trusted: Iterable[str] | None) -> Any:
    """Build the model of a file that was read."""
    if isinstance(trusted, (str, bool)):
        raise TypeError(f"trusted must be a list of names of types, got {trusted!r}.")
    skops_io = _import_skops()
    names = [*TRUSTED, *_our_types(), *(trusted or ())]
    most = max(MOST_ITEMS, ITEMS_A_BYTE * len(content))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # ours says it all
            (model,) = unpack(skops_io.loads(content, trusted=names), most=most)
        check_model(model)
        _ranker_in(model)
    except skops_io.exceptions.UntrustedTypesFoundException as error:
        untrusted = sorted(set(skops_io.get_untrusted_types(data=content)) - set(names))
        raise UntrustedTypesError(
            f"{path} holds types that are not trusted: {', '.join(untrusted)}. If you know where "
            "the file comes from, name them in trusted.",
            untrusted,
        ) from error
    except Exception as error:
        reason = _first_line(error)
        raise ModelFileError(f"{path} was not written by duelrank: {reason}.") from error
    return model


def warn_of_versions(path: str | os.PathLike[str], saved: Mapping[str, str]) -> None:
    """Warn the caller of the caller if the file was saved with other versions."""
    here = _versions()
    differing = [
        f"{name} {saved.get(name, '(unknown)')} (here: {here[name]})"
        for name, parts in (("duelrank", 3), ("scikit-learn", 3), ("numpy", 1))
        if str(saved.get(name)).split(".")[:parts] != here[name].split(".")[:parts]
    ]
    if differing:
        warnings.warn(
            f"{Path(path).name} was saved with {' and '.join(differing)}; its rankings may differ "
            "from what they were, so fit it again if that matters.",
            ModelVersionWarning,
            stacklevel=3,
        )


def _import_skops() -> Any:
    try:
        import skops.io
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError(
            "saved models need skops; install it with: pip install 'duelrank[io]'"
        ) from error
    return skops.io


def _ranker_in(model: Any) -> DuelRanker:
    """Return the fitted DuelRanker at the end of pipelines and searches."""
    inner = model
    while not isinstance(inner, DuelRanker):
        if isinstance(inner, Pipeline):
            inner = inner.steps[-1][1]
        elif hasattr(inner, "best_estimator_"):
            inner = inner.best_estimator_
        else:
            raise TypeError(
                "model must be a fitted DuelRanker, or a pipeline or refitted search that ends in "
                f"one; got {type(model).__name__}."
            )
    check_is_fitted(inner)
    return inner


def _our_types() -> list[str]:
    """Name our estimators, and the scorers that a search may hold with what they measure."""
    engines = (getattr(duels, name) for name in duels.__all__)
    kinds: list[Any] = [DuelRanker, scoring.TopKScorer, scoring.RankingScorer]
    kinds += [losses.kendall_distance, losses.kendall_tau]
    kinds += [scoring.kendall_tau_scorer().partial_measure, WithSquares]
    kinds += [e for e in engines if isinstance(e, type) and issubclass(e, BaseEstimator)]
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]


def _describe_steps(model: Any) -> list[str]:
    """Write down what happens before the duels, a line each."""
    if hasattr(model, "best_estimator_"):
        return _describe_steps(model.best_estimator_)
    if not isinstance(model, Pipeline):
        return []
    lines = []
    for _, step in model.steps[:-1]:
        if isinstance(step, ColumnTransformer):
            lines += [
                f"{name}: {_on_one_line(part)} on {len(chosen)} column{'s' * (len(chosen) != 1)}"
                if isinstance(chosen, list)
                else f"{name}: {_on_one_line(part)}"
                for name, part, chosen in step.transformers_
            ]
        else:
            lines.append(_on_one_line(step))
    return lines + _describe_steps(model.steps[-1][1])


def _on_one_line(estimator: Any) -> str:
    if isinstance(estimator, Pipeline):
        return ", ".join(_on_one_line(step) for _, step in estimator.steps)
    return " ".join(str(estimator).split())


def _as_json(label: Any) -> Any:
    return label if isinstance(label, (str, int, float, bool)) else str(label)


def _versions() -> dict[str, str]:
    python = ".".join(map(str, sys.version_info[:3]))
    installed = {name: version(name) for name in PACKAGES if name != "duelrank"}
    return {"duelrank": duelrank.__version__, **installed, "python": python}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
