"""Why one label comes before another: what every word and every column says about their duel.

The margin of a linear duel is a sum: an intercept, and a coefficient times a number for every
feature. `explain_duel` gathers these *contributions* by what a reader knows: the words of a text,
and the columns of a table. A `DuelExplanation` holds them; they add up to the margin.

>>> from sklearn.pipeline import make_pipeline
>>> from duelrank import AnchoredDuels, DuelRanker
>>> from duelrank.preprocessing import TextFeatures
>>> texts = ["my card is late", "card not here", "what is the rate", "the rate of euros"] * 3
>>> teams = ["cards", "cards", "rates", "rates"] * 3
>>> ranker = DuelRanker(AnchoredDuels(C=100, rivals=0), random_state=0)
>>> model = make_pipeline(TextFeatures(), ranker).fit(texts, teams)
>>> why = explain_duel(model, ["is my card at a bad rate"])
>>> why.label, why.rival
('cards', 'rates')
>>> why.words[0].text, why.words[0].contribution > 0
('card', True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from duelrank._pairs import duel_numbers
from duelrank._parameters import check_count
from duelrank._sklearn import (
    as_indexable,
    columns_of,
    predictor_inside,
    take_rows,
    transformers_inside,
    unwrap,
)
from duelrank.preprocessing import (
    DateFeatures,
    Piece,
    TextFeatures,
    cells_of,
    column_of,
    dates_written,
)
from duelrank.rankers import DuelRanker
from duelrank.rankings import codes_from_labels

__all__ = [
    "DuelExplanation",
    "Item",
    "can_explain",
    "explain_duel",
    "explain_first",
    "explain_points",
]


class Item(NamedTuple):
    """What a word or a column contributes to a margin.

    Attributes
    ----------
    column : str
        The column of the table, or the feature if the model takes an array.
    text : str
        The word, or the value of the column; empty if there is no short way to write it.
    contribution : float
        Positive if it speaks for the label, negative if for its rival.
    is_word : bool
        Whether it is a word of a text.
    """

    column: str
    text: str
    contribution: float
    is_word: bool = False


@dataclass(frozen=True)
class DuelExplanation:
    """Why a label wins or loses its duel with a rival, at one point.

    Attributes
    ----------
    label, rival : labels
        The two; a positive margin speaks for `label`.
    margin : float
        The margin, log-odds that `label` wins.
    baseline : float
        The intercept of the duel: what is left if nothing is known.
    items : list of Item
        Contributions of words and columns, the largest first. With the baseline, they add up to
        the margin.
    texts : dict of str to list of Piece
        The texts of the point, by column, in pieces whose values are their contributions.
    """

    label: Any
    rival: Any
    margin: float
    baseline: float
    items: list[Item]
    texts: dict[str, list[Piece]]

    @property
    def words(self) -> list[Item]:
        """The items that are words of a text, the largest contributions first."""
        return [item for item in self.items if item.is_word]

    def share(self, contribution: float) -> float:
        """Return a contribution as a share of the margin; NaN if the margin is 0."""
        return contribution / self.margin if self.margin else float("nan")

    def __str__(self) -> str:
        lines = [f"{self.label} against {self.rival}: margin {self.margin:.2f}"]
        for item in self.items[:10]:
            what = f"{item.column}: {item.text}" if item.text else item.column
            lines.append(f"  {item.contribution:+.2f}  {what}")
        if len(self.items) > 10:
            rest = sum(item.contribution for item in self.items[10:])
            lines.append(f"  {rest:+.2f}  {len(self.items) - 10} more")
        return "\n".join([*lines, f"  {self.baseline:+.2f}  before anything is known"])


def explain_duel(model: Any, X: Any, label: Any = None, rival: Any = None) -> DuelExplanation:
    """Explain the duel of two labels at one point.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline or search that ends in one
        Its engine must be linear: `LogisticDuels`, `AnchoredDuels`, their searches, or `AutoDuels`
        that chose one of these.
    X : dataframe, array, sparse matrix or list with one row
        The point, as `model` takes it.
    label, rival : labels, default=None
        The two labels; by default the first and the second of the ranking.

    Returns
    -------
    explanation : DuelExplanation
        What spoke for the label, and what for its rival.
    """
    return _single(model, X).explain(0, label, rival)


def explain_first(model: Any, X: Any, n_rivals: int = 1) -> list[DuelExplanation]:
    """Explain why the first label of a point is ahead of the labels behind it.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline or search that ends in one
        As in `explain_duel`.
    X : dataframe, array, sparse matrix or list with one row
        The point.
    n_rivals : int, default=1
        How many labels behind the first.

    Returns
    -------
    explanations : list of DuelExplanation
        The first label against the second, against the third and so on.
    """
    check_count("n_rivals", n_rivals)
    point = _single(model, X)
    return [point.explain(0, None, rival) for rival in point.order[0, 1 : 1 + n_rivals].tolist()]


def explain_points(model: Any, X: Any) -> Iterator[DuelExplanation]:
    """Explain why the first label is ahead of the second, at many points.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline or search that ends in one
        As in `explain_duel`.
    X : dataframe, array, sparse matrix or list with n rows
        The points.

    Returns
    -------
    explanations : iterator of DuelExplanation
        One for every point, made when it is asked for; arguments are checked at once.
    """
    points = _Points.of(model, X)
    return (points.explain(row, None, None) for row in range(len(points.order)))


def can_explain(model: Any) -> bool:
    """Tell whether a fitted model has linear duels, which can be explained.

    Parameters
    ----------
    model : fitted classifier, pipeline or search
        Any.

    Returns
    -------
    can : bool
        Whether `explain_duel` takes it.
    """
    ranker = predictor_inside(model)
    if not isinstance(ranker, DuelRanker):
        return False
    check_is_fitted(ranker)
    return hasattr(ranker.duels_, "duel_coefficients")


def _single(model: Any, X: Any) -> _Points:
    points = _Points.of(model, X)
    if len(points.order) != 1:
        raise ValueError(f"X must be a single row, got {len(points.order)}.")
    return points


@dataclass(frozen=True)
class _Points:
    """Points as a model sees them: their features, and which columns these come from."""

    ranker: DuelRanker
    features: Any
    order: NDArray[Any]
    sources: list[_Source | _Features]

    @classmethod
    def of(cls, model: Any, X: Any) -> _Points:
        X = as_indexable(X)
        ranker = predictor_inside(model)
        if not isinstance(ranker, DuelRanker):
            raise TypeError(
                "model must be a fitted DuelRanker, or a pipeline or search that ends in one; "
                f"got {type(ranker).__name__}."
            )
        if not can_explain(model):
            raise TypeError(
                "model must have linear duels, whose margins are sums, such as LogisticDuels or "
                f"AnchoredDuels; got {type(_chosen(ranker.duels_)).__name__}."
            )
        features = as_indexable(unwrap(model, X)[1])
        sources = _sources(transformers_inside(model), X, features, ranker)
        return cls(ranker, features, ranker.predict_order(features), sources)

    def explain(self, row: int, label: Any, rival: Any) -> DuelExplanation:
        order = self.order[row].tolist()
        if label is None:
            label = next(other for other in order if other != rival)
        if rival is None:
            rival = next(other for other in order if other != label)
        (code,) = codes_from_labels(np.array([label]), self.ranker.classes_, "label")
        (other,) = codes_from_labels(np.array([rival]), self.ranker.classes_, "rival")
        if code == other:
            raise ValueError(f"label and rival must be two labels, got {label!r} twice.")
        first, second = sorted((int(code), int(other)))
        duel = duel_numbers(np.array([first]), np.array([second]), len(self.ranker.classes_))
        coef, intercept = self.ranker.duels_.duel_coefficients(duel)
        side = 1.0 if code == second else -1.0
        contributions = side * coef[0].astype(np.float64) * _dense_row(self.features, row)
        baseline = side * float(intercept[0])
        texts: dict[str, list[Piece]] = {}
        said: dict[tuple[str, str, bool], float] = {}  # two transformers may read one column
        for source in self.sources:
            for item in source.items(row, contributions[source.where], texts):
                what = item.column, item.text, item.is_word
                said[what] = said.get(what, 0.0) + item.contribution
        items = [Item(*what[:2], value, what[2]) for what, value in said.items() if value]
        items.sort(key=lambda item: -abs(item.contribution))
        margin = baseline + float(contributions.sum())
        return DuelExplanation(label, rival, margin, baseline, items, texts)


@dataclass(frozen=True)
class _Source:
    """Features that come from a column: their places, and the values of the column."""

    column: str
    where: NDArray[np.intp]
    values: Sequence[Any] | None
    text: TextFeatures | None = None

    def items(
        self, row: int, contributions: NDArray[np.float64], texts: dict[str, list[Piece]]
    ) -> list[Item]:
        """Return what the words or the value of the column contribute."""
        if self.text is None:
            total = float(contributions.sum())
            written = "" if self.values is None else _written(self.values[row])
            return [Item(self.column, written, total)] if total else []
        assert self.values is not None
        pieces = self.text.spread(self.values[row], contributions)
        if self.column in texts:  # read by two transformers, which cut it alike
            before = zip(texts[self.column], pieces, strict=True)
            texts[self.column] = [a._replace(value=a.value + b.value) for a, b in before]
        else:
            texts[self.column] = pieces
        by_word: dict[str, float] = {}
        for piece in pieces:
            word = piece.text.lower().strip(".,;:!?\"'()[]") or piece.text
            by_word[word] = by_word.get(word, 0.0) + piece.value
        return [Item(self.column, word, value, True) for word, value in by_word.items() if value]


@dataclass(frozen=True)
class _Features:
    """Features that stand for themselves: their places and names, and the table that has them."""

    names: Sequence[str]
    where: NDArray[np.intp]
    table: Any = None  # None if nobody knows the values
    cells: dict[int, list[Any]] = field(default_factory=dict)  # of columns that were asked for

    def items(
        self, row: int, contributions: NDArray[np.float64], texts: dict[str, list[Piece]]
    ) -> list[Item]:
        """Return what the features contribute; most of those of texts say nothing."""
        places = np.flatnonzero(contributions).tolist()
        return [
            Item(self.names[place], self._written(row, place), float(contributions[place]))
            for place in places
        ]

    def _written(self, row: int, place: int) -> str:
        if self.table is None:
            return ""
        if place not in self.cells:
            self.cells[place] = cells_of(_column(self.table, place))
        return _written(self.cells[place][row])


def _dense_row(features: Any, row: int) -> NDArray[np.float64]:
    part: Any = take_rows(features, [row])
    dense = np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
    return dense[0]


def _sources(
    transformers: Sequence[Any], X: Any, features: Any, ranker: DuelRanker
) -> list[_Source | _Features]:
    """Find out which features come from which columns."""
    places = np.arange(features.shape[1])
    if len(transformers) == 1 and isinstance(transformers[0], ColumnTransformer):
        return list(_sources_of_columns(transformers[0], X, places))
    if len(transformers) == 1 and isinstance(transformers[0], TextFeatures):
        name = str(getattr(transformers[0], "feature_names_in_", ["text"])[0])
        return [_Source(name, places, cells_of(X), transformers[0])]
    names = _names(transformers, ranker, len(places))
    as_given = not transformers and not sparse.issparse(features)
    return [_Features(names, places, features if as_given else None)]


def _column(features: Any, place: int) -> Any:
    """Return a column of an array or dataframe by its place."""
    if isinstance(features, np.ndarray):
        return column_of(features, place)
    is_arrow = hasattr(features, "column_names")
    return column_of(features, (features.column_names if is_arrow else features.columns)[place])


def _sources_of_columns(
    transformer: ColumnTransformer, X: Any, features: NDArray[np.intp]
) -> Iterator[_Source | _Features]:
    """Go through the parts of a ColumnTransformer, which makes these features."""
    for name, part, _ in transformer.transformers_:
        places = features[transformer.output_indices_[name]]
        if len(places) == 0:
            continue
        columns = columns_of(transformer, name)
        if isinstance(part, TextFeatures):
            yield _Source(str(columns[0]), places, cells_of(column_of(X, columns[0])), part)
            continue
        owners = _owners(part, list(range(len(columns))))
        if owners is None or len(owners) != len(places):
            yield _Features(_names_out(part, [str(column) for column in columns], places), places)
            continue
        read = dates_written if _takes_dates(part) else cells_of
        for number, column in enumerate(columns):
            mine = places[np.array(owners) == number]
            if len(mine):
                yield _Source(str(column), mine, read(column_of(X, column)))


def _takes_dates(step: Any) -> bool:
    first = step.steps[0][1] if isinstance(step, Pipeline) else step
    return isinstance(first, DateFeatures)


def _owners(step: Any, owners: list[int]) -> list[int] | None:
    """Return the number of the column that every feature of a step comes from.

    Parameters
    ----------
    step : fitted transformer, or "passthrough"
        It takes as many features as there are owners.
    owners : list of int
        The columns of these; None is returned if it is not known what the step does with them.
    """
    if isinstance(step, (OneToOneFeatureMixin, str)) or (
        isinstance(step, FunctionTransformer) and step.func is None  # scikit-learn's passthrough
    ):
        return owners
    if len(set(owners)) == 1:
        try:
            return owners[:1] * len(step.get_feature_names_out())
        except (AttributeError, ValueError, TypeError):
            return None
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            after = _owners(part, owners)
            if after is None:
                return None
            owners = after
        return owners
    if isinstance(step, OneHotEncoder):
        return [owner for owner, n in zip(owners, _n_values(step), strict=True) for _ in range(n)]
    if isinstance(step, SimpleImputer):
        empty = [isinstance(value, float) and value != value for value in step.statistics_]
        kept = [o for o, e in zip(owners, empty, strict=True) if step.keep_empty_features or not e]
        missing = step.indicator_.features_.tolist() if step.add_indicator else []
        return kept + [owners[number] for number in missing]
    return None


def _n_values(encoder: OneHotEncoder) -> list[int]:
    """Return how many features an encoder makes of every column."""
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(encoder.categories_)
    drops = [None] * len(rare) if encoder.drop_idx_ is None else list(encoder.drop_idx_)
    return [
        len(values) - (0 if few is None else len(few) - 1) - (drop is not None)
        for values, few, drop in zip(encoder.categories_, rare, drops, strict=True)
    ]


def _names_out(part: Any, columns: list[str], places: NDArray[np.intp]) -> list[str]:
    """Return the names of what a transformer makes of columns; places if it has no names."""
    try:
        names = [str(name) for name in part.get_feature_names_out(columns)]
    except (AttributeError, ValueError, TypeError):
        names = columns
    return names if len(names) == len(places) else [f"feature {place}" for place in places]


def _names(transformers: Sequence[Any], ranker: DuelRanker, n_features: int) -> list[str]:
    """Return the names of the features of a ranker, as far as anybody knows them."""
    names = getattr(ranker, "feature_names_in_", None)
    if names is None and transformers:
        first = list(getattr(transformers[0], "feature_names_in_", [])) or None
        for transformer in transformers:
            try:
                first = transformer.get_feature_names_out(first)
            except (AttributeError, ValueError, TypeError):
                first = None
        names = first
    if names is None or len(names) != n_features:
        return [f"x{place}" for place in range(n_features)]
    return [str(name) for name in names]


def _written(value: Any) -> str:
    """Write a value shortly, or not at all."""
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:g}"
    if hasattr(value, "__len__") and not isinstance(value, str):
        return ""
    return str(value)


def _chosen(engine: Any) -> Any:
    """Return the engine that `AutoDuels` has chosen, or the engine itself."""
    return getattr(engine, "engine_", engine)
