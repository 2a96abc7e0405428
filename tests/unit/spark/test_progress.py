"""The lag of a query is computed from its progress."""

import pytest

from tidemill.spark.progress import offsets_behind_latest


def test_the_lag_has_the_names_of_sparks_kafka_source():
    """
    The lag has the names and the format of the metrics of Spark's Kafka source.
    """
    source = {"endOffset": '{"t": {"0": 10, "1": 5}}', "latestOffset": '{"t": {"0": 10, "1": 8, "2": 9}}'}

    assert {
        "avgOffsetsBehindLatest": "1.5",
        "maxOffsetsBehindLatest": "3",
        "minOffsetsBehindLatest": "0",
    } == offsets_behind_latest(source)


@pytest.mark.parametrize("missing", ["None", "null", None])
def test_without_offsets_there_is_no_lag(missing):
    """
    If the progress contains no offsets, no lag is reported.
    """
    assert {} == offsets_behind_latest({"endOffset": '{"t": {"0": 10}}', "latestOffset": missing})
