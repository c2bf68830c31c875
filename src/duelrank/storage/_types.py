"""The types that a model file may hold.

skops trusts many types by itself: numbers, containers, arrays, and scikit-learn's estimators. Here
are the others that `load` trusts, by full name, such as ``"duelrank.rankers.DuelRanker"``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from sklearn.base import BaseEstimator

from duelrank import duels, losses, preprocessing, scoring
from duelrank.rankers import DuelRanker
from duelrank.shortlists import PlaceIntervals, Shortlister
from duelrank.storage._archive import ModelFileError, read_archive, skops_file
from duelrank.storage._names import public_name

# Harmless types that skops does not trust by itself; `_ours` has the others.
TRUSTED = (
    "functools.partial",  # its function must be trusted too
    "pathlib.PosixPath",  # the path of a checkpoint, which loading does not read
    "pathlib.WindowsPath",
    "numpy.dtype",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
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


def trusted_types() -> list[str]:
    """Name the types that `load` trusts besides those that skops trusts by itself.

    They are the argument ``trusted`` with which ``skops.io.load`` opens rankers that were written
    by ``skops.io.dump``. Compiled parts of scikit-learn's models, such as decision trees, are not
    among them: wrong numbers in these can crash the process. `load` checks the numbers; skops does
    not.

    Returns
    -------
    names : list of str
        Full names, sorted. Ours are there twice: where users find them, as in model files, and
        where they are defined, as skops writes them.

    Examples
    --------
    >>> from duelrank.storage import trusted_types
    >>> "duelrank.rankers.DuelRanker" in trusted_types()
    True
    """
    ours = [f"{kind.__module__}.{kind.__qualname__}" for kind in _ours()]
    return sorted({*TRUSTED, *ours, *map(public_name, ours)})


def untrusted_types(path: str | os.PathLike[str]) -> list[str]:
    """Name the types in a model file that `load` does not trust without being told.

    The model is not built, and nothing that the file names is imported.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    names : list of str
        Full names, sorted; none if `load` needs no ``trusted``.

    Raises
    ------
    ModelFileError
        If the file is no model file, truncated or altered.
    """
    import_skops()  # before the file is read, to say what is missing
    content = skops_file(path, read_archive(path))
    try:
        return types_beyond(trusted_types(), content)
    except Exception as error:
        reason = first_line(error)
        raise ModelFileError(f"{path} was not written by duelrank: {reason}.") from error


def types_beyond(names: Iterable[str], content: bytes) -> list[str]:
    """Name the types in a skops file that neither skops nor these names trust."""
    return sorted(set(import_skops().get_untrusted_types(data=content)) - set(names))


def import_skops() -> Any:
    """Return the module ``skops.io``, or say how to install it."""
    try:
        import skops.io
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError(
            "saved models need skops; install it with: pip install 'duelrank[io]'"
        ) from error
    return skops.io


def first_line(error: BaseException) -> str:
    """Return what an error says, as a part of a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _ours() -> list[Any]:
    """Return what a file may hold of ours: rankers, lists, engines, transformers, scorers."""
    engines = (getattr(duels, name) for name in duels.__all__)
    kinds: list[Any] = [DuelRanker, Shortlister, PlaceIntervals, duels.WithSquares]
    kinds += [e for e in engines if isinstance(e, type) and issubclass(e, BaseEstimator)]
    kinds += [preprocessing.DateFeatures, preprocessing.TextFeatures, preprocessing.VectorFeatures]
    kinds += [scoring.RankingScorer, scoring.TopKScorer]
    # What the scorers measure.
    kinds += [losses.kendall_distance, losses.kendall_tau, losses.kendall_tau_of_known_pairs]
    return kinds
