"""Tables of data: CSV and Parquet, files and standard streams, in and out.

Every table in here is a pyarrow Table; any other dataframe becomes one through narwhals. All
columns of CSV come as text, exactly as written, because only the whole column tells what it holds.
Every column has a *kind*:

- "number": numbers;
- "boolean": true and false, which become 1 and 0;
- "date": dates and times, which become days since 1970;
- "category": words or anything else with few different values;
- "text": several words, mostly different ones in every row;
- "vector": lists of as many numbers, such as embeddings (in Parquet).

`kinds_of` finds the kinds when a model is fitted. `features` converts the columns of any later
table to these kinds, or says which column cannot be converted. Labels are never converted: ``01``
stays ``01``. Empty cells are missing; in features, so are the words of `MISSING`.

- `_reading`: a file or a stream becomes a `Source`, read at once or in batches;
- `_pipes`: what comes through pipes can be waited for and given up;
- `_kinds`: columns become features and labels;
- `_rankings`: points are ranked, and rankings become columns;
- `_writing`: tables become a file, written completely or not at all, or a stream.

>>> import pyarrow as pa
>>> table = pa.table({"age": ["31", "", "12"], "town": ["Bonn", "Ulm", "Bonn"]})
>>> kinds = kinds_of(table, as_text=True)
>>> kinds
{'age': 'number', 'town': 'category'}
>>> features(table, kinds)["age"].to_pylist()
[31.0, None, 12.0]
"""

from duelrank._choices import OUTPUT_ENDINGS, STREAM
from duelrank.tables._kinds import (
    KINDS,
    MISSING,
    features,
    holds_lists,
    is_labelled,
    kinds_of,
    labels,
    to_python,
)
from duelrank.tables._rankings import Rankings, label_array, rank_points, wide_columns
from duelrank.tables._reading import Source, TableError, from_dataframe, open_table
from duelrank.tables._writing import output_ending, writing

__all__ = [
    "KINDS",
    "MISSING",
    "OUTPUT_ENDINGS",
    "STREAM",
    "Rankings",
    "Source",
    "TableError",
    "features",
    "from_dataframe",
    "holds_lists",
    "is_labelled",
    "kinds_of",
    "label_array",
    "labels",
    "open_table",
    "output_ending",
    "rank_points",
    "to_python",
    "wide_columns",
    "writing",
]
