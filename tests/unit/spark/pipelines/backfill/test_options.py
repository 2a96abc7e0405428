"""Options of a backfill: what is refused, and how the size of a part is computed."""

import pytest

from tidemill.spark.pipelines.backfill.options import BackfillOptions
from tidemill.spark.pipelines.frame.option_values import build


def options(**values):
    needed = {"source": "dir", "topic": "t", "timestamp": "time", "format": "csv"}
    return build(BackfillOptions, {**needed, **values})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"topic": " "}, "topic is empty: set it"),
        ({"rate_records": 0}, "rate_records=0 is not above 0: set a larger number, or leave the option out"),
        ({"part_records": "-5"}, "part_records=-5 is not above 0"),
        ({"rate_records": 5, "rate_bytes": "1KiB"}, "rate_records=5 and rate_bytes=1024 are both set: leave one of"),
        ({"format": "parquet", "schema": "a INT"}, "schema=a INT is set for Parquet files, which have a schema"),
        ({"format": "orc"}, "format=orc: not known; choose one of parquet, csv, json"),
        ({"then": "t"}, "then=t is the topic that is written: name the topic with the live records"),
        ({"reader": "sep"}, "reader=sep is not KEY=VALUE,…: write for example nullValue=NA,sep=; or, for a value with"),
        ({"reader": "{sep"}, "reader={sep is no JSON object"),
        ({"reader": "[1]"}, "reader=[1] is not KEY=VALUE,…"),
        ({"key": "a,,b"}, "key=a,,b has an empty name: write columns separated by commas"),
        ({"headers": ","}, "headers=, has an empty name"),
    ],
)
def test_a_wrong_option_is_refused_with_its_value_and_the_fix(values, sentence):
    with pytest.raises(ValueError) as refused:
        options(**values)

    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (None, {}),
        ("nullValue=NA,sep=;", {"nullValue": "NA", "sep": ";"}),
        (" sep = =", {"sep": " ="}),
        ('{"sep": ",", "multiLine": true}', {"sep": ",", "multiLine": "true"}),
    ],
)
def test_options_of_the_reader_are_pairs_or_json(text, parsed):
    assert parsed == options(reader=text).reader_options()


def test_columns_are_separated_by_commas():
    assert ("a", "b c") == options(key="a, b c").key_columns
    assert () == options().header_columns


@pytest.mark.parametrize(
    ("values", "records", "size", "expected"),
    [
        ({}, 10**9, 10**11, 1_000_000),
        ({"part_records": 7, "rate_records": 5}, 10**9, 10**11, 7),
        ({"rate_records": 2_000}, 10**9, 10**11, 120_000),  # the records of one minute
        ({"rate_records": 1}, 10**9, 10**11, 10_000),  # the smallest part, although it takes longer than a minute
        ({"rate_records": 10**6}, 10**9, 10**11, 1_000_000),
        ({"rate_bytes": 200_000}, 10**9, 10**11, 120_000),  # the 100-byte records of one minute
        ({"rate_bytes": 200_000}, 0, 0, 1_000_000),
    ],
)
def test_a_part_takes_about_a_minute_at_the_rate(values, records, size, expected):
    """With parts of about a minute, a backfill stops soon after a request, and repeats little after a kill."""
    assert expected == options(**values).records_per_part(records, size)


def test_what_may_change_between_runs_is_no_part_of_the_identity():
    """The rate may change when a run resumes; an option that determines which records are written may not."""
    one = options(key="a", rate_records=5, part_records=7, tasks=1, allow_expired=True)
    other = options(key="a", rate_bytes=9)

    assert one.identity() == other.identity()
    assert {"key": "b"}.items() <= options(key="b").identity().items()
