"""Checks of parameters: one sentence that names the parameter, what came and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless a parameter is one of the choices."""
    if not isinstance(value, str) or value not in tuple(choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def check_count(name: str, value: Any) -> None:
    """Raise unless a parameter is a positive integer."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")


def check_dtype(dtype: Any) -> None:
    """Raise unless a parameter `dtype` is None, or single or double precision."""
    try:
        known = dtype is None or np.dtype(dtype) in (np.float32, np.float64)
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"dtype must be None, 'float32' or 'float64', got {dtype!r}.")


def check_parameters_inside(model: Any, params: Mapping[str, Any], default: str) -> None:
    """Raise if ``set_params`` names parameters of an `estimator` that is None.

    Parameters
    ----------
    model : estimator
        It has a parameter `estimator`.
    params : mapping
        The parameters to set, by name.
    default : str
        What the estimator None stands for.
    """
    inside = [name for name in params if name.startswith("estimator__")]
    if inside and params.get("estimator", model.estimator) is None:
        kind = type(model).__name__
        raise ValueError(
            f"{inside[0]} cannot be set while estimator is None; pass what None stands for, "
            f"{kind}({default}), to set its parameters."
        )


def check_positive(name: str, value: Any, *choices: str) -> None:
    """Check that a parameter is a positive finite number, or one of some choices."""
    if isinstance(value, str) and value in choices:
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        others = "".join(f" or {choice!r}" for choice in choices)
        raise ValueError(f"{name} must be a positive number{others}, got {value!r}.")
