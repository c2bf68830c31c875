"""Names that users choose from: aggregations, ties, baselines, lists, and files of tables.

The command offers them in its help and checks them, so this file imports nothing.
"""

from __future__ import annotations

ONNX_OUTPUTS = ("label", "ranks", "order", "top", "scores", "probabilities", "shortlist")
ONNX_DTYPES = ("float32", "float64")
AGGREGATIONS = ("copeland", "expected_wins", "coupling", "feedback_arc_set")
TIES = ("probability", "feedback_arc_set", "random", "index")
# What `evaluate` compares duels with.
BASELINES = ("multinomial", "one-vs-rest", "linear-svc", "forest", "boosting", "majority")
# For whom the coverage of shortlists holds.
COVERAGE_BY = ("all", "label", "cluster")

# The name of standard input and standard output.
STREAM = "-"
JSON_LINES_ENDINGS = (".jsonl", ".ndjson")
OUTPUT_ENDINGS = (".csv", ".tsv", ".parquet", *JSON_LINES_ENDINGS)
# CSV files with these endings are read without being unpacked first.
COMPRESSED_ENDINGS = (".gz", ".bz2", ".zst")


def is_delimiter(text: str) -> bool:
    """Tell whether a text can separate the cells of CSV: one ASCII character, with exceptions."""
    return len(text) == 1 and text.isascii() and text not in '"\r\n\0'
