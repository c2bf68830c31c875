"""From a table to training data: which columns are features, and how they become numbers.

`training_data` splits the columns of a table into features and labels. Every row has a label, or
a *list* of its best labels, best first, or a label that was *picked* among some that were *shown*.
`make_preprocessing` makes the scikit-learn ColumnTransformer that is the first step of a model
fitted from the command line:

- numbers and booleans: the median replaces missing values, a second column says where values
  were missing, if any were, and all columns get the standard scale;
- dates: `DateFeatures`, days since 1970, then as numbers;
- categories: every value gets a column, and missing is one of the values. If there are too many,
  only the most frequent ones get a column. All others share one, and so do values that were not
  seen;
- text: `TextFeatures`, the words and the characters of every text, weighted by TF-IDF;
- vectors: `VectorFeatures`, lists of numbers such as embeddings, as columns.

- `_training_data`: a table becomes features and labels;
- `_columns`: kinds of columns become transformers;
- `_dates`: dates become days;
- `_text`: text becomes numbers, and numbers about these are spread over the text again;
- `_vectors`: lists of numbers become columns.

The transformers need scikit-learn alone; everything else here needs pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# For explanations: cells of columns, and dates as they are written.
from duelrank.preprocessing._cells import cells_of as cells_of
from duelrank.preprocessing._cells import column_of as column_of
from duelrank.preprocessing._columns import make_preprocessing
from duelrank.preprocessing._dates import DateFeatures
from duelrank.preprocessing._dates import dates_written as dates_written
from duelrank.preprocessing._text import Piece, TextFeatures
from duelrank.preprocessing._vectors import VectorFeatures

if TYPE_CHECKING:
    from duelrank.preprocessing._training_data import (
        TrainingData,
        first_labels,
        shown_labels,
        training_data,
    )

__all__ = [
    "DateFeatures",
    "Piece",
    "TextFeatures",
    "TrainingData",
    "VectorFeatures",
    "first_labels",
    "make_preprocessing",
    "shown_labels",
    "training_data",
]


def __getattr__(name: str) -> Any:
    # A loaded model needs the transformers, on machines that may have no pyarrow.
    if name in __all__:
        from duelrank.preprocessing import _training_data

        return getattr(_training_data, name)
    raise AttributeError(f"module 'duelrank.preprocessing' has no attribute {name!r}")
