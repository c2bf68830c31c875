"""Text as numbers: TF-IDF of words and of characters, and back from numbers to the words.

A text is *cleaned* first: HTML loses its tags and entities, characters are normalised (NFKC), and
very long texts are cut. Its *terms* are words, pairs of words, and the character sequences inside
what stands between spaces. Languages without spaces have no words here, and live by characters.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from duelrank._parameters import check_count
from duelrank._sklearn import check_feature_names
from duelrank.preprocessing._cells import cells_of, check_one_column

__all__ = ["Piece", "TextFeatures"]

# More characters of a text are not read: they make the fit slow and hardly tell more.
MOST_CHARACTERS = 100_000
# An opening or closing tag or a declaration; not the sign in "a < b".
TAG = re.compile(r"<[!/?]?[a-zA-Z][^<>]*>")
# Words of two characters and more; what is longer is no word, but for example an encoded file.
LONGEST_WORD = 40
WORD = rf"(?u)\b\w{{2,{LONGEST_WORD}}}\b"
WORDS = re.compile(WORD)
# How scikit-learn says that no text has a term, or that none is frequent enough.
NO_TERMS = ("empty vocabulary", "After pruning, no terms remain", "max_df corresponds to < ")
N_WORDS, N_CHARACTERS = (1, 2), (2, 5)
# Scripts without spaces between words: what one character says is shown, not what a sentence does.
SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)


class Piece(NamedTuple):
    """A piece of a text, and what is said about it.

    Attributes
    ----------
    text : str
        What stands between spaces, or a character of a script without spaces.
    value : float
        A number, such as what the piece contributes to a margin.
    spaced : bool
        Whether a space follows.
    """

    text: str
    value: float
    spaced: bool


class TextFeatures(TransformerMixin, BaseEstimator):
    """Turn a column of text into TF-IDF of its words and characters.

    The columns are words and pairs of words, and sequences of two to five characters inside what
    stands between spaces. Counts c become 1 + log c, times the inverse document frequency, and the
    words and the characters of a row have length one each. HTML is taken for the text that it
    shows, case does not matter, and of a text longer than 100,000 characters only so many are read.
    Missing text has no words.

    Parameters
    ----------
    max_terms : int, default=100000
        Most words, and most character sequences, that get a column: the most frequent ones.
    min_rows : int, default=1
        Terms in fewer rows get no column. With 2, no term is kept that a single row has; names and
        numbers of a person, for example.

    Attributes
    ----------
    words_, characters_ : ndarrays of str
        The terms, sorted.
    word_idf_, character_idf_ : ndarrays of float
        Their inverse document frequencies, log((1 + n) / (1 + rows with the term)) + 1.
    n_features_in_ : int
        1, the column of text; not there if X was a list or series.
    feature_names_in_ : ndarray of shape (1,)
        The name of the column, if it had one.

    Examples
    --------
    >>> texts = ["Where is my card?", "<b>My card</b> is late", None]
    >>> features = TextFeatures().fit(texts)
    >>> features.words_.tolist()[:4]
    ['card', 'card is', 'is', 'is late']
    >>> features.transform(texts).shape[0]
    3
    """

    def __init__(self, max_terms: int = 100_000, min_rows: int = 1) -> None:
        self.max_terms = max_terms
        self.min_rows = min_rows

    def fit(self, X: Any, y: Any = None) -> TextFeatures:
        """Learn the terms and their frequencies.

        Parameters
        ----------
        X : dataframe or array of shape (n, 1), or list or series of n texts
            Text or None; anything else is written as text.
        y : None
            Ignored.

        Returns
        -------
        self : TextFeatures
            The fitted transformer.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> sparse.csr_array:
        """Learn the terms, and return the numbers of the same texts.

        Parameters
        ----------
        X : dataframe or array of shape (n, 1), or list or series of n texts
            Text or None.
        y : None
            Ignored.

        Returns
        -------
        features : CSR array of shape (n, n_terms)
            Columns are words first, then characters.
        """
        return self._fit(X)

    def _fit(self, X: Any) -> sparse.csr_array:
        check_count("max_terms", self.max_terms)
        check_count("min_rows", self.min_rows)
        texts = self._read(X, reset=True)
        counted = []
        for name, options in _ANALYSES.items():
            terms, counts = _learn(texts, options, self.max_terms, self.min_rows)
            n_rows = np.bincount(counts.indices, minlength=len(terms))
            idf = np.log((1 + len(texts)) / (1 + n_rows)) + 1
            setattr(self, f"{name}s_", terms)
            setattr(self, f"{name}_idf_", idf)
            counted.append(_weigh(counts, idf))
        return sparse.csr_array(sparse.hstack(counted, format="csr"))

    def transform(self, X: Any) -> sparse.csr_array:
        """Return the numbers of texts.

        Parameters
        ----------
        X : dataframe or array of shape (n, 1), or list or series of n texts
            Text or None; anything else is written as text.

        Returns
        -------
        features : CSR array of shape (n, n_terms)
            Columns are words first, then characters.
        """
        check_is_fitted(self, "words_")
        texts = self._read(X, reset=False)
        parts = [
            _weigh(_count(texts, self._vocabulary(terms), options), idf)
            for (terms, idf), options in zip(self._learned(), _ANALYSES.values(), strict=True)
        ]
        return sparse.csr_array(sparse.hstack(parts, format="csr"))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : array-like of one str, default=None
            The name of the column of text, if it had none at fit; "x0" by default. If it had one,
            this must be the same.

        Returns
        -------
        names : ndarray of str objects, of shape (n_terms,)
            The name of the column of text and the term: "body: late fee"; characters are in
            brackets, with a space where a word begins or ends: "body: [ fee]".
        """
        check_is_fitted(self, "words_")
        (name,) = check_feature_names(self, input_features, n_features=1)
        words = [f"{name}: {term}" for term in self.words_.tolist()]
        characters = [f"{name}: [{term}]" for term in self.characters_.tolist()]
        return np.array(words + characters, dtype=object)

    def spread(self, text: Any, values: NDArray[np.floating]) -> list[Piece]:
        """Spread numbers about terms over the text that they come from.

        The number of a term is divided among the places where it occurs, and there among its
        characters. So the numbers of all pieces add up to those of the terms in the text.

        Parameters
        ----------
        text : str or None
            A text, as `transform` takes it.
        values : ndarray of shape (n_terms,)
            A number for every column; those of terms that the text does not have are not used.

        Returns
        -------
        pieces : list of Piece
            The cleaned text, in order.
        """
        check_is_fitted(self, "words_")
        values = np.asarray(values)
        n_words, n_terms = len(self.words_), len(self.words_) + len(self.characters_)
        if values.shape != (n_terms,):
            raise ValueError(
                f"values must have the shape ({n_terms},), a number for every column; "
                f"got {values.shape}."
            )
        # The few characters that become two in lower case are shown like that.
        chunks = [c if len(c.lower()) == len(c) else c.lower() for c in _clean(text).split()]
        shares = np.zeros(sum(map(len, chunks)))
        for terms, numbers, places_of in (
            (self.words_, values[:n_words], _places_of_words),
            (self.characters_, values[n_words:], _places_of_characters),
        ):
            shares += _spread(numbers, self._vocabulary(terms), places_of(chunks), len(shares))
        return list(_pieces(chunks, shares))

    def words_in(self, X: Any) -> list[list[str]]:
        """Return the words of texts, in order, whether they were learned or not.

        Parameters
        ----------
        X : dataframe or array of shape (n, 1), or list or series of n texts
            Text or None.

        Returns
        -------
        words : list of n lists of str
            In lower case, as they are in `words_` if they were learned.
        """
        return [WORDS.findall(_clean(cell).lower()) for cell in cells_of(X)]

    def check_fitted(self) -> None:
        """Raise ValueError if the fitted arrays do not fit together, as in an altered file."""
        fitted = [name for name in _LEARNED if name in vars(self)]
        if not fitted:
            return
        n_features = vars(self).get("n_features_in_", 1)
        names = vars(self).get("feature_names_in_", np.array(["x0"]))
        if not (
            len(fitted) == len(_LEARNED)
            and type(n_features) is int
            and n_features == 1
            and isinstance(names, np.ndarray)
            and names.shape == (1,)
            and isinstance(names[0], str)
        ):
            raise ValueError("the words of a text are not counted right")
        for terms, idf in self._learned():
            if not (
                isinstance(terms, np.ndarray)
                and terms.dtype.kind == "U"
                and terms.ndim == 1
                and bool(np.all(terms[1:] > terms[:-1]))  # sorted, and none of them twice
                and isinstance(idf, np.ndarray)
                and idf.dtype == np.float64
                and idf.shape == terms.shape
                and bool(np.isfinite(idf).all())
            ):
                raise ValueError("the words of a text are not counted right")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def _vocabulary(self, terms: NDArray[np.str_]) -> dict[str, int]:
        """Return the columns of terms; for the terms of this transformer, they are remembered."""
        known = _vocabularies.get(self)
        if known is None or known[0] is not self.words_ or known[1] is not self.characters_:
            both = [
                {term: column for column, term in enumerate(part.tolist())}
                for part in (self.words_, self.characters_)
            ]
            known = self.words_, self.characters_, both
            _vocabularies[self] = known
        return known[2][0 if terms is self.words_ else 1]

    def _learned(self) -> list[tuple[Any, Any]]:
        return [(self.words_, self.word_idf_), (self.characters_, self.character_idf_)]

    def _read(self, X: Any, reset: bool) -> list[str]:
        """Return the cleaned texts, in lower case."""
        if isinstance(X, str):
            raise ValueError(f"X must hold one text per row, got the text {X[:50]!r}.")
        is_single = not hasattr(X, "__len__") or getattr(X, "shape", None) == ()
        if is_single or isinstance(X, bytes) or sparse.issparse(X):
            raise ValueError(f"X must hold one text per row, got {_kind(X)}.")
        check_one_column(X)
        cells = cells_of(X)
        for row, cell in enumerate(cells):
            if isinstance(cell, _NO_TEXT):
                raise ValueError(
                    f"X must hold one text per row, but row {row} (from 0) holds {_kind(cell)}."
                )
        if reset and not cells:
            raise ValueError("X must hold at least one text, got none.")
        if hasattr(X, "shape") and len(X.shape) == 2:
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:  # texts without a column
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
        return [_clean(cell).lower() for cell in cells]


# What a fit learns.
_LEARNED = ("words_", "word_idf_", "characters_", "character_idf_")
# Cells that would be written in a way nobody means.
_NO_TEXT = (list, tuple, np.ndarray, bytes, bytearray, memoryview)

# How words and characters are counted.
_ANALYSES: dict[str, dict[str, Any]] = {
    "word": {"analyzer": "word", "token_pattern": WORD, "ngram_range": N_WORDS},
    "character": {"analyzer": "char_wb", "ngram_range": N_CHARACTERS},
}


# Dictionaries of the terms of transformers in use. They are no attributes, so that copies and files
# do not hold them.
_vocabularies: WeakKeyDictionary[TextFeatures, tuple[Any, Any, list[dict[str, int]]]] = (
    WeakKeyDictionary()
)


def _clean(text: Any) -> str:
    """Return the text that a reader sees, in one normal form."""
    if text is None:
        return ""
    text = str(text)[:MOST_CHARACTERS].replace("\0", " ")  # which arrays of text cannot end in
    if "<" in text:
        text = TAG.sub(" ", _without_comments(text))
    if "&" in text:
        text = html.unescape(text)
    return unicodedata.normalize("NFKC", text)[:MOST_CHARACTERS]  # some become eighteen


def _kind(value: Any) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _without_comments(text: str) -> str:
    """Leave out comments of HTML; one that does not end is none."""
    parts, start = [], 0
    while (begin := text.find("<!--", start)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        parts.append(text[start:begin])
        start = end + 3
    return " ".join([*parts, text[start:]])


def _learn(
    texts: list[str], options: dict[str, Any], max_terms: int, min_rows: int
) -> tuple[NDArray[np.str_], sparse.csr_array]:
    """Return the most frequent terms, sorted, and how often each text has them."""
    counter = CountVectorizer(
        lowercase=False, max_features=max_terms, min_df=min_rows, dtype=np.float64, **options
    )
    try:
        counts = counter.fit_transform(texts)
    except ValueError as error:
        if not str(error).startswith(NO_TERMS):
            raise
        return np.zeros(0, dtype="<U1"), sparse.csr_array((len(texts), 0))
    terms = np.array(sorted(counter.vocabulary_), dtype=np.str_)
    return terms, sparse.csr_array(counts)


def _count(
    texts: list[str], vocabulary: dict[str, int], options: dict[str, Any]
) -> sparse.csr_array:
    """Return how often each text has the terms."""
    if not vocabulary or not texts:
        return sparse.csr_array((len(texts), len(vocabulary)))
    counter = CountVectorizer(lowercase=False, vocabulary=vocabulary, dtype=np.float64, **options)
    return sparse.csr_array(counter.transform(texts))


def _weigh(counts: sparse.csr_array, idf: NDArray[np.float64]) -> Any:
    """Return TF-IDF with rows of length one; rows without terms stay zero."""
    weighed = counts.copy()
    weighed.data = (1 + np.log(weighed.data)) * idf[weighed.indices]
    return normalize(weighed, copy=False) if weighed.nnz else weighed


class _Places(NamedTuple):
    """The terms of a text, each as often as it occurs, and their parts: a pair of words has two."""

    terms: list[str]
    owners: NDArray[np.intp]  # the numbers of the terms that parts belong to
    starts: NDArray[np.intp]  # where parts begin and end if all chunks stand in one line
    stops: NDArray[np.intp]


def _places_of_words(chunks: list[str]) -> _Places:
    """Find words and pairs of words."""
    word = re.compile(WORD)
    words, spans, before = [], [], 0
    for chunk in chunks:
        for match in word.finditer(chunk.lower()):
            words.append(match.group())
            spans.append((before + match.start(), before + match.end()))
        before += len(chunk)
    starts, stops = np.array(spans, dtype=np.intp).reshape(-1, 2).T
    n, n_pairs = len(words), max(len(words) - 1, 0)
    pairs = np.arange(n, n + n_pairs)
    return _Places(
        words + [f"{one} {other}" for one, other in pairwise(words)],
        np.concatenate([np.arange(n), pairs, pairs]),
        np.concatenate([starts, starts[:-1], starts[1:]]),
        np.concatenate([stops, stops[:-1], stops[1:]]),
    )


def _places_of_characters(chunks: list[str]) -> _Places:
    """Find character sequences as scikit-learn's "char_wb" does."""
    shortest, longest = N_CHARACTERS
    terms: list[str] = []
    begins: list[int] = []
    runs, before = [], 0  # terms of the same length in a chunk
    for chunk in chunks:
        padded, after = f" {chunk.lower()} ", before + len(chunk)
        for length in range(shortest, longest + 1):
            n = max(len(padded) - length + 1, 1)
            terms += [padded[start : start + length] for start in range(n)]
            begins += range(before - 1, before - 1 + n)
            runs.append((n, length, before, after))
            if n == 1:  # longer ones would be the same
                break
        before = after
    table = np.array(runs, dtype=np.intp).reshape(-1, 4)
    lengths, firsts, lasts = np.repeat(table[:, 1:], table[:, 0], axis=0).T
    starts = np.array(begins, dtype=np.intp)
    # Without the spaces around a chunk.
    stops = np.minimum(starts + lengths, lasts)
    return _Places(terms, np.arange(len(terms)), np.maximum(starts, firsts), stops)


def _spread(
    numbers: NDArray[np.floating], column_of: dict[str, int], places: _Places, n_characters: int
) -> NDArray[np.float64]:
    """Divide the numbers of terms among the characters at their places."""
    columns = np.array([column_of.get(term, -1) for term in places.terms], dtype=np.intp)
    known = np.flatnonzero(columns >= 0)
    times = np.bincount(columns[known])
    lengths = np.bincount(places.owners, weights=places.stops - places.starts)
    shares = np.zeros(len(columns))
    shares[known] = numbers[columns[known]] / times[columns[known]] / lengths[known]
    speaks = np.flatnonzero(shares[places.owners])
    share = shares[places.owners[speaks]]
    starts, stops = places.starts[speaks], places.stops[speaks]
    # What a character has differs from what the one before has by the parts that begin or end here.
    n = n_characters + 1
    sums = np.cumsum(np.bincount(starts, share, n) - np.bincount(stops, share, n))
    n_parts = np.cumsum(np.bincount(starts, minlength=n) - np.bincount(stops, minlength=n))
    # Where there is no part, rounding would leave a little.
    return np.where(n_parts > 0, sums, 0.0)[:-1]


def _pieces(chunks: list[str], shares: NDArray[np.float64]) -> Iterator[Piece]:
    before = 0
    for chunk in chunks:
        share = shares[before : before + len(chunk)]
        before += len(chunk)
        if not SPACELESS.search(chunk):
            yield Piece(chunk, float(share.sum()), True)
            continue
        for number, (character, value) in enumerate(zip(chunk, share.tolist(), strict=True), 1):
            yield Piece(character, value, number == len(chunk))
