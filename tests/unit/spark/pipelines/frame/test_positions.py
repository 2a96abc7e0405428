"""The text values of the options `start` and `end`."""

import pytest

from tidemill.columnar.offset_bound import (
    AtTimestamp,
    BeforeEnd,
    BeforeNow,
    Committed,
    Everywhere,
    Specific,
)
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.frame.positions import named_partitions, parse_position


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", Everywhere(-2)),
        ("latest", Everywhere(-1)),
        ("-10m", BeforeNow(600_000)),
        ("-1000", BeforeEnd(1_000)),
        ("group:billing", Committed("billing")),
        ("2013-01-01T00:00:00Z", AtTimestamp(1_356_998_400_000)),
        ("2013-01-01T01:00:00+01:00", AtTimestamp(1_356_998_400_000)),
        ("2013-01-01T00:00:00.0005Z", AtTimestamp(1_356_998_400_001)),
        ('{"0": 5, "2": 7}', Specific({TopicPartition("t", 0): 5, TopicPartition("t", 2): 7})),
        ('{"t": {"1": 5}}', Specific({TopicPartition("t", 1): 5})),
    ],
)
def test_a_position_is_a_word_a_time_a_group_or_offsets(text, bound):
    assert bound == parse_position("t", "start", text)


@pytest.mark.parametrize(
    "text", ["", "soon", "5", "-10x", "-0", "group:", "{", '{"0": -1}', '{"a": 1}', "{}", "2013-13-01"]
)
def test_other_texts_are_refused_by_name(text):
    with pytest.raises(ValueError) as failure:
        parse_position("t", "start", text)

    assert str(failure.value).startswith(f"start={text} is not a position: write for example earliest, latest, 2013-")


def test_a_time_without_a_zone_is_refused():
    """
    A time without a time zone is refused: with the machine's time zone, the range would depend on where the pipeline
    runs.
    """
    with pytest.raises(ValueError, match=r"^end=2013-01-01T00:00:00 has no time zone: add for example Z for UTC"):
        parse_position("t", "end", "2013-01-01T00:00:00")


def test_only_offsets_limit_the_partitions():
    assert named_partitions(parse_position("t", "start", "earliest")) is None
    assert {TopicPartition("t", 3)} == named_partitions(parse_position("t", "start", '{"3": 1}'))
