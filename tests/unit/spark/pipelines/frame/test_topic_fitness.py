"""Whether a topic will keep records with old timestamps."""

import pytest

from tidemill.spark.pipelines.frame.topic_fitness import refusals

NOW_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
FIRST_US, LAST_US = (NOW_MS - 10 * HOUR_MS) * 1_000, (NOW_MS - HOUR_MS) * 1_000


def judged(configs, *, is_expiry_allowed=False, last_us=LAST_US):
    return refusals(
        "t", configs, first_us=FIRST_US, last_us=last_us, partition_bytes=1_000, now_ms=NOW_MS,
        is_expiry_allowed=is_expiry_allowed,
    )  # fmt: skip


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"retention.ms": "-1", "retention.bytes": "-1"},
        {"retention.ms": str(10 * HOUR_MS), "retention.bytes": "1000"},
        {"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"},
        {"message.timestamp.before.max.ms": str(10 * HOUR_MS), "message.timestamp.after.max.ms": "0"},
        {"message.timestamp.type": "CreateTime"},
    ],
)
def test_a_topic_that_keeps_everything_is_fit(configs):
    """
    A topic that keeps old records unchanged is not refused.  A setting that the broker does not return is not checked.
    """
    assert [] == judged(configs)


@pytest.mark.parametrize(
    ("configs", "sentence"),
    [
        (
            {"retention.ms": str(10 * HOUR_MS - 1)},
            "retention.ms=35999999 of topic 't' removes records from before 2025-06-15 05:06:40 UTC, and the first "
            "event is at 2025-06-15 05:06:40 UTC: set retention.ms=-1, or allow_expired to write them anyway",
        ),
        (
            {"cleanup.policy": "compact,delete", "retention.bytes": "999"},
            "retention.bytes=999 of topic 't' keeps less than the 1000 bytes that a partition receives: set "
            "retention.bytes=-1, or allow_expired to write them anyway",
        ),
    ],
)
def test_a_topic_that_removes_records_is_refused_unless_that_is_allowed(configs, sentence):
    assert [sentence] == judged(configs)
    assert [] == judged(configs, is_expiry_allowed=True)


@pytest.mark.parametrize(
    ("configs", "start"),
    [
        ({"message.timestamp.type": "LogAppendTime"}, "message.timestamp.type=LogAppendTime of topic 't' replaces"),
        ({"message.timestamp.before.max.ms": "5"}, "message.timestamp.before.max.ms=5 of topic 't' refuses records"),
    ],
)
def test_a_topic_that_does_not_take_event_times_is_always_refused(configs, start):
    (sentence,) = judged(configs, is_expiry_allowed=True)

    assert sentence.startswith(start)


def test_events_of_the_future_are_refused_by_the_same_limit_as_the_broker_s():
    configs = {"message.timestamp.after.max.ms": str(HOUR_MS)}
    at_limit_us = (NOW_MS + HOUR_MS) * 1_000

    assert [] == judged(configs, last_us=at_limit_us)
    assert 1 == len(judged(configs, last_us=at_limit_us + 1))
