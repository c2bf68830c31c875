"""The labels behind codes, for messages and for labels that engines get from users.

Engines see codes. While a ranker fits an engine, `label_names` tells the engine what users call the
labels. An engine that is used alone has no labels, and its messages name codes. Metadata goes to
classifiers unseen, so labels in evaluation sets are still those of the user.

The names belong to the thread that fits. An engine that sends jobs elsewhere asks before it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from numpy.typing import NDArray

_LABELS: ContextVar[list[Any] | None] = ContextVar("labels", default=None)


@contextmanager
def named_labels(classes: NDArray[Any]) -> Iterator[None]:
    """Let the engines that are fitted inside know the labels.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        The labels, in the order of their codes.
    """
    token = _LABELS.set(classes.tolist())
    try:
        yield
    finally:
        _LABELS.reset(token)


def label_names(n_classes: int) -> list[Any] | None:
    """Return the labels of the ranker whose engine is being fitted; None if there is none.

    Parameters
    ----------
    n_classes : int
        Number of labels K of the engine. Labels of another number are not its labels.
    """
    labels = _LABELS.get()
    return labels if labels is not None and len(labels) == n_classes else None
