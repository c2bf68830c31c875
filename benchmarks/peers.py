"""Logistic regressions of others, one for each duel, with the penalty of scikit-learn's C.

Cyanure, Snap ML and the extension of scikit-learn by Intel take part if they can be imported:
``pip install scikit-learn-intelex cyanure snapml``. All have their own tolerances, and some stop
early or penalise the intercept. So the time of a peer is reported together with its excess: how far
the objectives of its duels are above their minimum, relative to it, in the worst duel.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier

from duelrank import pairs
from side_by_side import best_of, report, skipped

Floats = NDArray[np.floating[Any]]


class CyanureDuel(ClassifierMixin, BaseEstimator):
    """Cyanure's logistic regression, whose penalty is divided by the number of rows.

    Parameters
    ----------
    C : float
        Inverse of the strength of the penalty, as in scikit-learn.
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Floats, y: NDArray[Any]) -> CyanureDuel:
        """Fit it."""
        from cyanure.estimators import LogisticRegression as Cyanure

        model = Cyanure(lambda_1=1 / (self.C * len(y)), fit_intercept=True, verbose=False)
        model.fit(X, y)
        self.coef_, self.intercept_ = model.coef_, model.intercept_
        return self


class Peer(NamedTuple):
    """Who it is, and how to make an estimator of a duel: this may fail to import what it needs."""

    key: str
    name: str
    make: Callable[[float], Any]
    note: str = ""
    optional: bool = False


def _intel(C: float) -> Any:
    from sklearnex.linear_model import LogisticRegression as Intel

    return Intel(C=C)


def _cyanure(C: float) -> Any:
    import cyanure  # noqa: F401

    return CyanureDuel(C)


def _snap(C: float) -> Any:
    from snapml import LogisticRegression as Snap

    return Snap(regularizer=1 / C, fit_intercept=True, n_jobs=os.cpu_count())


def _solver(name: str) -> Callable[[float], Any]:
    return lambda C: LogisticRegression(C=C, solver=name)


PENALISED = "penalises the intercept"
PEERS = [
    Peer("newton-cholesky", "OneVsOne, newton-cholesky", _solver("newton-cholesky")),
    Peer("lbfgs", "OneVsOne, default solver", _solver("lbfgs"), "at most 100 iterations"),
    Peer("newton-cg", "OneVsOne, newton-cg", _solver("newton-cg")),
    Peer("liblinear", "OneVsOne, liblinear", _solver("liblinear"), PENALISED),
    Peer("intel", "OneVsOne, scikit-learn-intelex", _intel, "at most 100 iterations", True),
    Peer("cyanure", "OneVsOne, Cyanure", _cyanure, "", True),
    Peer("snapml", "OneVsOne, Snap ML", _snap, PENALISED, True),
]


def compare_fits(
    question: str,
    key: str,
    ours: float,
    X: Floats,
    y: NDArray[np.intp],
    C: float,
    minima: Floats,
    repeats: dict[str, int],
) -> None:
    """Time the peers, each as often as `repeats` says or once, and report them next to our time."""
    for peer in PEERS:
        try:
            model = OneVsOneClassifier(peer.make(C))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the excess says how far they have come
                theirs, fitted = best_of(lambda: model.fit(X, y), repeats.get(peer.key, 1))
        except Exception as error:
            if not peer.optional:
                raise
            skipped(f"{question}, {peer.name}", f"{type(error).__name__}: {error}")
            continue
        coef = [np.ravel(duel.coef_) for duel in fitted.estimators_]
        intercept = [np.ravel(duel.intercept_)[0] for duel in fitted.estimators_]
        excess = np.max(objectives(X, y, C, coef, intercept) / minima - 1)
        note = f"excess {excess:.0e}" + (f", {peer.note}" if peer.note else "")
        report(question, ours, theirs, peer.name, key=f"{key}/{peer.key}", note=note)


def objectives(X: Floats, y: NDArray[np.intp], C: float, coef: Any, intercept: Any) -> Floats:
    """Return the objectives of all duels: half the squared coefficients, and C times the loss."""
    rows_of = [np.flatnonzero(y == label) for label in range(y.max() + 1)]
    values = []
    for w, b, first, second in zip(coef, intercept, *pairs(len(rows_of)), strict=True):
        margins = X[rows_of[first]] @ w + b, -(X[rows_of[second]] @ w + b)
        values.append(0.5 * w @ w + C * np.logaddexp(0, np.concatenate(margins)).sum())
    return np.array(values)
