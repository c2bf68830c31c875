"""What a comparison tells: findings, one for each thing that was compared, and unusual rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Check", "Finding", "UnusualRow"]

PARTS = ("column", "label", "prediction", "list", "row")


@dataclass(frozen=True)
class Finding:
    """One thing that was compared.

    Attributes
    ----------
    part : {"column", "label", "prediction", "list", "row"}
        What it is about: a column, the labels of new rows, how the model ranks them, its
        shortlists, or rows unlike training.
    name : str
        The name of the column, or what was compared.
    told : str
        What changed, in a few words.
    training, new : str
        What was seen there and here.
    change : float
        How much it changed, from 0 to 1: a share of rows, or of the places.
    p_value : float
        How often chance alone would make as much of a difference, in one of as many comparisons as
        there are. It is 0 where there is nothing to test, such as a missing column.
    alarm : bool
        Whether it changed: not by chance, and not by a trifle.
    """

    part: str
    name: str
    told: str
    training: str
    new: str
    change: float
    p_value: float
    alarm: bool

    @property
    def chance(self) -> str:
        """The p-value as it is shown; a dash where there was nothing to test."""
        if self.p_value == 0:
            return "–"
        if self.p_value < 0.001:
            return "<0.001"
        return f"{self.p_value:.3f}" if self.p_value < 0.1 else f"{self.p_value:.2f}"


@dataclass(frozen=True)
class UnusualRow:
    """A row unlike training.

    Attributes
    ----------
    row : int
        Its number, from 0.
    reasons : tuple of str
        What about it no training row had.
    """

    row: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """What `compare` found.

    Attributes
    ----------
    n_rows, n_training_rows : int
        How many rows were compared with how many.
    level : float
        How often a check raises an alarm, if nothing changed.
    findings : tuple of Finding
        What was compared, alarms first, those with the largest change first of these.
    unseen_values : dict of str to dict of str to int
        Categories that no training row had, by column, and how many rows have them. Of many only
        the most frequent ones are here.
    unusual_rows : tuple of UnusualRow
        The rows that are most unlike training.
    n_unlike : int
        How many rows are unlike training.
    figures : tuple of Figure
        What changed most, as histograms.
    notes : tuple of str
        What could not be compared, and why.
    """

    n_rows: int
    n_training_rows: int
    level: float
    findings: tuple[Finding, ...]
    unseen_values: dict[str, dict[str, int]]
    unusual_rows: tuple[UnusualRow, ...]
    n_unlike: int
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]

    @property
    def drifted(self) -> bool:
        """Whether anything changed."""
        return any(finding.alarm for finding in self.findings)

    @property
    def alarms(self) -> list[Finding]:
        """The findings that are alarms."""
        return [finding for finding in self.findings if finding.alarm]

    @property
    def summary(self) -> str:
        """The check in one or two sentences."""
        compared = f"{self.n_rows:,} new rows, {self.n_training_rows:,} training rows"
        if not self.drifted:
            return f"No change found ({compared})."
        said: list[str] = []
        columns = [finding.name for finding in self.alarms if finding.part == "column"]
        n_columns = sum(finding.part == "column" for finding in self.findings)
        if columns:
            names = ", ".join(columns[:3]) + (", ..." if len(columns) > 3 else "")
            plural = "s" * (n_columns > 1)
            said.append(f"{len(columns)} of {n_columns} column{plural} changed ({names})")
        named = {finding.name for finding in self.alarms if finding.part != "column"}
        others = [words for name, words in _SAID.items() if name in named]
        said += others[:MOST_SAID]
        n_more = len(others) - MOST_SAID
        more = f"; {n_more} more change{'s' * (n_more > 1)}" if n_more > 0 else ""
        listed = "; ".join(said)
        return f"{listed[0].upper()}{listed[1:]}{more} ({compared})."

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the findings as rows of a table, for any dataframe.

        Returns
        -------
        rows : list of dict
            One for each finding, with its attributes.
        """
        return [asdict(finding) for finding in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it.

        Returns
        -------
        check : dict
            The attributes, `drifted` and `summary`; no figures.
        """
        return {
            "drifted": self.drifted,
            "summary": self.summary,
            "rows": self.n_rows,
            "training_rows": self.n_training_rows,
            "level": self.level,
            "findings": self.to_rows(),
            "unseen_values": self.unseen_values,
            "rows_unlike_training": self.n_unlike,
            "unusual_rows": [
                {"row": unusual.row, "reasons": list(unusual.reasons)}
                for unusual in self.unusual_rows
            ],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Figure:
    """Two histograms.

    Attributes
    ----------
    name : str
        What is drawn.
    names : tuple of str
        The names of the bars.
    training, new : tuple of float
        Shares of the rows.
    """

    name: str
    names: tuple[str, ...]
    training: tuple[float, ...]
    new: tuple[float, ...]


# Names of findings that are not about columns, and what the summary says if they are alarms.
LABEL_SHARES, NEW_LABELS = "shares of labels", "new labels"
ACCURACY, FIRST_PLACES, MEAN_PLACES = "accuracy", "first places", "mean places"
LENGTHS, UNLIKE = "lengths of lists", "rows unlike training"
MOST_SAID = 3
_SAID = {
    ACCURACY: "the model is right less often",
    UNLIKE: "more rows are unlike training",
    NEW_LABELS: "there are labels that the model does not know",
    LABEL_SHARES: "labels have other shares",
    FIRST_PLACES: "other labels come first",
    LENGTHS: "lists have other lengths",
    MEAN_PLACES: "labels have other places",
}
