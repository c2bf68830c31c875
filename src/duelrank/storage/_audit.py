"""Everything that can be reached from a loaded model is known, and fits together.

Plain data pass: numbers, texts, containers, arrays of numbers and of texts, sparse matrices,
random generators. An object passes if its type stands in one of the tables `AUDITED`, `HELPERS` and
`OURS`, and it passes the check there. Types that the user trusts by name pass with what
`_checks` knows about some of them; nothing is promised about these. Whatever else there is, also an
attribute that nobody knows, is refused.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.utils import Bunch
from sklearn.utils.validation import check_array

from duelrank.rankers import DuelRanker
from duelrank.storage._arrays import KINDS
from duelrank.storage._audited import (
    ANYWHERE,
    AUDITED,
    CHECKED_BEFORE,
    HELPERS,
    Audited,
)
from duelrank.storage._checks import check_estimator
from duelrank.storage._fitted_checks import checks_arrays, is_count
from duelrank.storage._names import public_name
from duelrank.storage._ours import OURS, check_own_engine
from duelrank.storage._types import our_functions

MASKED = np.ma.MaskedArray
SEARCHES = (GridSearchCV, RandomizedSearchCV)
LEAVES = frozenset((type(None), bool, int, float, str, slice))
SEQUENCES = frozenset((list, tuple, set))
MAPPINGS = frozenset((dict, Bunch, OrderedDict))
SPARSE = (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix)
RANDOM = (np.random.RandomState, np.random.Generator)
# Where a random generator is in its table of numbers, which it follows without looking.
PLACES = {"MT19937": ("pos", 624), "Philox": ("buffer_pos", 4)}
WITHOUT_TABLE = ("PCG64", "PCG64DXSM", "SFC64")
_KNOWN: dict[type, Audited] = {**AUDITED, **HELPERS, **OURS}


class AuditError(ValueError):
    """Something in a model that is not known, or does not fit together.

    Attributes
    ----------
    name : str
        The full name of its type.
    """

    def __init__(self, kind: type, sentence: str) -> None:
        super().__init__(sentence)
        self.name = full_name(kind)


def full_name(kind: Any) -> str:
    """Return the name of a type or function in model files."""
    return public_name(f"{kind.__module__}.{kind.__name__}")


def audit(model: Any, trusted: Collection[str] = ()) -> None:
    """Check everything that can be reached from a model.

    Parameters
    ----------
    model : object
        What was built from a file.
    trusted : collection of str
        Full names of types and functions that the user trusts.

    Raises
    ------
    ValueError
        If something is not known or does not fit together, an `AuditError` mostly.
    """
    walk = _Walk(trusted)
    seen: set[int] = set()
    waiting = [(model, False)]
    while waiting:
        thing, in_trusted = waiting.pop()
        if id(thing) not in seen:
            seen.add(id(thing))
            parts = [part for part in walk.parts(thing, in_trusted) if type(part) not in LEAVES]
            in_trusted = in_trusted or walk.is_trusted(thing)
            waiting += [(part, in_trusted) for part in parts]


def reset_for_caller(model: Any) -> None:
    """Set `n_jobs` to None and `verbose` to False or 0 in all of a model that was audited.

    Whoever loads it decides how many processes work for it, and whether it tells what it does.
    """
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        thing = waiting.pop()
        if type(thing) in LEAVES or id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            waiting += thing.values()
        elif type(thing) in SEQUENCES:
            waiting += thing
        elif isinstance(thing, np.ndarray):
            waiting += thing.ravel().tolist() if thing.dtype == object else []
        elif hasattr(thing, "__dict__") and not isinstance(thing, type):
            if isinstance(thing, BaseEstimator):
                if "n_jobs" in vars(thing):
                    thing.n_jobs = None
                if "verbose" in vars(thing):  # a number or a bool, so that it prints as it did
                    thing.verbose = False if isinstance(thing.verbose, bool) else 0
            waiting += vars(thing).values()


class _Walk:
    """Checks objects one by one.

    Parameters
    ----------
    trusted : collection of str
        Full names of types and functions that the user trusts.
    """

    def __init__(self, trusted: Collection[str]) -> None:
        self._trusted = frozenset(trusted)
        self._functions = our_functions()
        self._checked: set[int] = set()  # engines that their ranker has checked
        self._valid: set[Any] = set()  # parameters that were found valid before

    def is_trusted(self, thing: Any) -> bool:
        """Tell whether the user trusts the type of an object."""
        return bool(self._trusted) and full_name(type(thing)) in self._trusted

    def parts(self, thing: Any, in_trusted: bool = False) -> Iterable[Any]:
        """Check an object, and return what is in it.

        What is in an object of a type that the user trusts may have been made by its own code, as
        the names in the file were checked before; it need not be known.
        """
        kind = type(thing)
        if kind in LEAVES or isinstance(thing, pathlib.PurePath):
            return ()
        if kind in RANDOM:
            _require(_is_random(thing), kind, "a random generator points outside of its numbers")
            return ()
        if kind in SEQUENCES:
            return thing
        if kind in MAPPINGS:
            return [*thing.keys(), *thing.values()]
        if kind is np.ndarray:
            return _parts_of_array(thing)
        if isinstance(thing, np.generic):
            _require(thing.dtype.kind in KINDS, kind, "a number is none")
            return ()
        if isinstance(thing, np.dtype):
            _require(thing.kind in KINDS + "O", np.dtype, "a type of numbers is none")
            return ()
        if kind in SPARSE:
            thing.check_format(full_check=True)
            _require(thing.data.dtype.kind in "biuf", kind, "a sparse matrix holds no numbers")
            return ()
        if kind is functools.partial:
            # An argument of a function of numpy's could be an array that it writes to.
            inner = thing.func
            plain = _is_harmless_function(inner) or isinstance(inner, functools.partial)
            _require(
                checks_arrays(thing) or not plain,
                kind,
                "a function gets arguments that it must not have",
            )
            return [thing.func, *thing.args, *thing.keywords.values(), *vars(thing).values()]
        if kind in _KNOWN:
            return self._parts_of_known(thing)
        if kind in CHECKED_BEFORE:
            return ()
        return self._parts_of_trusted(thing, in_trusted)

    def _parts_of_known(self, thing: Any) -> Iterable[Any]:
        kind = type(thing)
        if isinstance(thing, BaseEstimator):
            check_estimator(thing)
        if kind is DuelRanker:
            self._checked.add(id(vars(thing).get("duels_")))
        if kind in OURS:
            if id(thing) not in self._checked:
                check_own_engine(thing)
            self._check_audited(thing, OURS[kind])
        elif not self.is_trusted(thing):
            self._check_audited(thing, _KNOWN[kind])
        if kind in SEARCHES and "cv_results_" in vars(thing):
            results = vars(thing)["cv_results_"]
            parts = [part for name, part in vars(thing).items() if name != "cv_results_"]
            tried = [np.ma.getdata(v) if type(v) is MASKED else v for v in results.values()]
            return [*parts, *tried]
        return vars(thing).values()

    def _parts_of_trusted(self, thing: Any, in_trusted: bool) -> Iterable[Any]:
        """Pass functions and types that are known, and objects that the user trusts."""
        kind = type(thing)
        is_ours = any(thing is function for function in self._functions)
        if is_ours or _is_harmless_function(thing) or _is_plain_type(thing):
            return ()
        own = thing if hasattr(thing, "__name__") and hasattr(thing, "__module__") else kind
        names = {full_name(own), f"{own.__module__}.{own.__name__}"}
        owner = getattr(thing, "__self__", None)  # of a method
        if owner is not None and not inspect.ismodule(owner):
            names.add(f"{full_name(type(owner))}.{thing.__name__}")
        if names.isdisjoint(self._trusted):
            if in_trusted:
                return ()
            raise AuditError(own, f"it holds {full_name(own)}, which has no place in it")
        if isinstance(thing, BaseEstimator):
            check_estimator(thing)
        return vars(thing).values() if hasattr(thing, "__dict__") and own is kind else ()

    def _check_audited(self, thing: Any, spec: Audited) -> None:
        kind: Any = type(thing)
        there, short = set(vars(thing)), kind.__name__
        parameters, allowed = _names_of(kind)
        if parameters:
            missing = [name for name in parameters if name not in there]
            _require(not missing, kind, f"a {short} has no {', '.join(missing)}")
            self._check_parameters(thing, parameters)
        surplus = sorted(there - allowed)
        _require(not surplus, kind, f"a {short} has what is not known: {', '.join(surplus)}")
        _check_features(thing)
        lacking = [name for name in spec.fitted if name not in there]
        if spec.fitted and len(lacking) == len(spec.fitted):
            return  # it is not fitted
        _require(not lacking, kind, f"a {short} has no {', '.join(lacking)}")
        try:
            correct = spec.fits is bool or spec.fits(thing)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise AuditError(kind, f"what a {short} holds cannot be read") from error
        _require(correct, kind, f"what a {short} holds does not fit together")

    def _check_parameters(self, estimator: Any, names: tuple[str, ...]) -> None:
        """Let scikit-learn check parameters, those that were checked before excepted."""
        kind = type(estimator)
        values = {name: vars(estimator)[name] for name in names if name != "random_state"}
        plain = all(type(value) in LEAVES and type(value) is not slice for value in values.values())
        key = (kind, *((type(v), v) for v in values.values())) if plain else None
        if key is not None and key in self._valid:
            return
        check = getattr(estimator, "_validate_params", None)
        if check is not None and hasattr(kind, "_parameter_constraints"):
            check()
        if key is not None:
            self._valid.add(key)


@functools.cache
def _names_of(kind: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of the parameters and of all attributes of a type in the tables."""
    spec = _KNOWN[kind]
    if not issubclass(kind, BaseEstimator):
        return (), frozenset((*spec.fitted, *spec.optional))
    parameters = tuple(kind._get_param_names())
    return parameters, frozenset((*spec.fitted, *spec.optional, *parameters, *ANYWHERE))


def _check_features(thing: Any) -> None:
    """Check the number and the names of the columns that an estimator was fitted on."""
    kind = type(thing)
    n_features = vars(thing).get("n_features_in_")
    names = vars(thing).get("feature_names_in_")
    _require(
        "n_features_in_" not in vars(thing) or is_count(n_features),
        kind,
        f"a {kind.__name__} does not count its features",
    )
    _require(
        "feature_names_in_" not in vars(thing)
        or (
            type(names) is np.ndarray
            and names.dtype.kind in "OU"
            and names.shape == (n_features,)
            and all(type(name) in (str, np.str_) for name in names.tolist())
        ),
        kind,
        f"the names of the features of a {kind.__name__} do not fit",
    )
    output = vars(thing).get("_sklearn_output_config", {})
    _require(
        type(output) is dict
        and set(output) <= {"transform"}
        and set(output.values()) <= {None, "default", "pandas", "polars"},
        kind,
        f"a {kind.__name__} answers with tables that are not known",
    )


def _parts_of_array(array: Any) -> Iterable[Any]:
    if array.dtype == object:
        return list(np.asarray(array).ravel().tolist())
    _require(array.dtype.kind in KINDS, np.ndarray, "an array holds neither numbers nor texts")
    return ()


def _is_random(generator: Any) -> bool:
    if isinstance(generator, np.random.RandomState):
        state: Any = generator.get_state(legacy=False)
    else:
        state = generator.bit_generator.state
    name = state["bit_generator"]
    if name not in PLACES:
        return name in WITHOUT_TABLE
    key, last = PLACES[name]
    return 0 <= int(state.get(key, state["state"].get(key))) <= last


def _is_harmless_function(thing: Any) -> bool:
    """Tell whether this is numpy's arithmetic of one argument, or the check of arrays."""
    is_arithmetic = isinstance(thing, np.ufunc) and thing.nin == thing.nout == 1
    return thing is check_array or (is_arithmetic and vars(np).get(thing.__name__) is thing)


def _is_plain_type(thing: Any) -> bool:
    return isinstance(thing, type) and (
        thing in (str, int, float, bool, object)
        or (issubclass(thing, np.generic) and not issubclass(thing, np.void))
    )


def _require(correct: Any, kind: type, sentence: str) -> None:
    if not correct:
        raise AuditError(kind, sentence)
