"""What a model file says about shortlists."""

from __future__ import annotations

from typing import Any

from duelrank.shortlists import n_labels_together, shortlister_inside


def describe_shortlists(model: Any) -> dict[str, Any] | None:
    """Say of what kind the shortlists of a fitted model are; None if it makes none."""
    lists, _ = shortlister_inside(model)
    if lists is None:
        return None
    return {
        "coverage": lists.coverages_.tolist(),
        "by": lists.by,
        "score": lists.score_,
        "calibration_rows": int(lists.n_calibration_),
        "labels_together": n_labels_together(lists),
    }
