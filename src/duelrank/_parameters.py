"""Checks of parameters: one sentence that names the parameter, what came and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, Self

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


class ParametersInside:
    """Mixin of estimators with a parameter `estimator` that may be None, in front of the others.

    scikit-learn's own error for a parameter of None does not say what to do.
    """

    estimator: Any

    def _default_estimator(self) -> str:
        """Write what the estimator None stands for."""
        raise NotImplementedError

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator and of what is inside.

        Parameters
        ----------
        **params : dict
            Values by name; ``estimator__`` and a name is a parameter of `estimator`, which must not
            be None for that.

        Returns
        -------
        self : estimator
            The estimator.
        """
        inside = [name for name in params if name.startswith("estimator__")]
        if inside and params.get("estimator", self.estimator) is None:
            raise ValueError(
                f"{inside[0]} cannot be set while estimator is None; pass what None stands for, "
                f"{type(self).__name__}({self._default_estimator()}), to set its parameters."
            )
        super().set_params(**params)  # type: ignore[misc]
        return self


def check_positive(name: str, value: Any, *choices: str) -> None:
    """Check that a parameter is a positive finite number, or one of some choices."""
    if isinstance(value, str) and value in choices:
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        others = "".join(f" or {choice!r}" for choice in choices)
        raise ValueError(f"{name} must be a positive number{others}, got {value!r}.")
