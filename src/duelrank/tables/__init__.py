"""Tables of data: CSV and Parquet, files and standard streams, in and out.

Every table in here is a pyarrow Table; any other dataframe becomes one through narwhals. From CSV
all columns come as text, exactly as written, because only the whole column tells what it holds.
What a column is for is its *kind*:

- "number": numbers;
- "boolean": true and false, which become 1 and 0;
- "date": dates and times, which become days since 1970;
- "category": text, or anything else with few different values.

`kinds_of` finds the kinds when a model is fitted; `features` turns the columns of any later table
into these kinds, or says which column it could not. Labels are never converted: ``01`` stays
``01``. Empty cells are missing, and so is what `MISSING` lists, in features but not in labels.

- `_reading`: a file or a stream becomes a `Source`, read at once or in batches;
- `_kinds`: columns become features and labels;
- `_rankings`: points are ranked, and rankings become columns;
- `_writing`: tables become a file, whole or not at all, or a stream.

>>> import pyarrow as pa
>>> table = pa.table({"age": ["31", "", "12"], "town": ["Bonn", "Ulm", "Bonn"]})
>>> kinds = kinds_of(table, as_text=True)
>>> kinds
{'age': 'number', 'town': 'category'}
>>> features(table, kinds)["age"].to_pylist()
[31.0, None, 12.0]
"""

from duelrank._choices import OUTPUT_ENDINGS, STREAM
from duelrank.tables._kinds import KINDS, MISSING, features, is_labelled, kinds_of, labels
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
    "is_labelled",
    "kinds_of",
    "label_array",
    "labels",
    "open_table",
    "output_ending",
    "rank_points",
    "wide_columns",
    "writing",
]
