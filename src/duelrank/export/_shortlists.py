"""Calibrated shortlists: the labels whose score is no more than a threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.export._rankings import Rankings
from duelrank.shortlists import (
    BELOW_ONE_PLACE,
    ON_PROBABILITIES,
    RAPS_FREE_PLACES,
    RAPS_PENALTY,
    Shortlister,
)

OTHERS = "outputs=('label', 'ranks') leaves them out."


class Lists(NamedTuple):
    """How the lists of a fitted `Shortlister` are made.

    Attributes
    ----------
    score : str
        The conformity score.
    thresholds : ndarray of shape (K,)
        The largest score with which every label is in a list, columns as in `classes_`.
    always_first : bool
        Whether the first label is in every list.
    max_length : int or None
        Length of the longest list.
    abstains : bool
        Whether a longer one becomes empty. Otherwise it is cut.
    """

    score: str
    thresholds: NDArray[np.float64]
    always_first: bool
    max_length: int | None
    abstains: bool

    @property
    def on_probabilities(self) -> bool:
        """Whether lists need the probabilities of the labels."""
        return self.score in ON_PROBABILITIES

    @classmethod
    def of(cls, shortlister: Shortlister) -> Lists:
        """Read off a fitted Shortlister, or raise TypeError if it does more than compare."""
        try:
            thresholds = shortlister.score_thresholds()
        except ValueError as error:
            raise TypeError(f"the lists cannot be written as ONNX: {error} {OTHERS}") from error
        if len(thresholds) > 1:
            raise TypeError(
                f"lists of one coverage can be written as ONNX, got {len(thresholds)}; {OTHERS}"
            )
        return cls(
            shortlister.score_,
            thresholds[0],
            not shortlister.settings_["allow_empty"],
            shortlister.max_length,
            shortlister.longer == "abstain",
        )


def write_shortlist(rankings: Rankings, lists: Lists, output: str) -> None:
    """Write which labels are in the lists of points, (n, K), columns as in `classes_`."""
    nodes, n_classes = rankings.nodes, rankings.n_classes
    thresholds = nodes.constant(lists.thresholds[rankings.label_order])
    allowed = nodes("Gather", thresholds, rankings.order, axis=0)
    is_in = nodes("LessOrEqual", _scores_along(rankings, lists.score), allowed)
    if lists.always_first:
        is_in = nodes("Or", is_in, nodes.constant(np.arange(n_classes) == 0))
    if lists.max_length is not None:
        counted = nodes("CumSum", nodes.cast(is_in, np.float32), nodes.constant(1, np.int64))
        longest = nodes.constant(lists.max_length, np.float32)
        if lists.abstains:
            counted = nodes.columns(counted, n_classes - 1, n_classes)
        is_in = nodes("And", is_in, nodes("LessOrEqual", counted, longest))
    by_label = nodes("GatherElements", nodes.cast(is_in, np.int32), rankings.places, axis=1)
    nodes.cast(by_label, np.bool_, output)


def _scores_along(rankings: Rankings, score: str) -> str:
    """Write how odd the labels are, along the ranking, as `duelrank.shortlists` has it."""
    nodes, n_classes = rankings.nodes, rankings.n_classes
    places = np.arange(1.0, n_classes + 1)
    if score == "rank":
        return nodes.constant(places[np.newaxis])
    if score == "evidence":
        share = BELOW_ONE_PLACE / (n_classes - 1)
        evidence = rankings.along(rankings.expected_wins)
        return nodes("Sub", nodes.constant(places), nodes("Mul", evidence, nodes.constant(share)))
    if score == "probability":
        return nodes("Neg", nodes("Log", rankings.probabilities_along))
    mass = nodes("CumSum", rankings.probabilities_along, nodes.constant(1, np.int64))
    if score == "aps":
        return mass
    penalty = RAPS_PENALTY * np.maximum(places - RAPS_FREE_PLACES, 0)
    return nodes("Add", mass, nodes.constant(penalty))
