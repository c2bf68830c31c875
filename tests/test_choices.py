from duelrank._choices import AGGREGATIONS, OUTPUT_ENDINGS, TIES


def test_names_that_users_rely_on():
    assert AGGREGATIONS == ("copeland", "expected_wins", "coupling", "feedback_arc_set")
    assert TIES == ("probability", "feedback_arc_set", "random", "index")
    assert OUTPUT_ENDINGS == (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
