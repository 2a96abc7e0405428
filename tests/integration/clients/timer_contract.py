"""
The part of the client contract that is about timer topics.  Each case works with all libraries.

Kafka has no such topics, so these cases have no oracle; `client_contract` has the cases that Kafka fulfils, too.
"""

import os
import time

import pytest

from tests.integration.clients.client_contract import (
    INVALID_CONFIG,
    JUNE_2013,
    Case,
    Stage,
    everything,
    resumes_where_it_committed,
    stored_once_after_a_retry,
)
from tests.integration.clients.client_port import Acknowledgement, Headers, Outgoing, Record
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.timer_choice import TimerChoice, due_at
from tidemill.client.timer_client import TimerClient

INVALID_RECORD = 87
AIOKAFKA_UNKNOWN = -1  # instead of a code that aiokafka does not know
HOUR: Headers = (("tidemill-delay", b"1h"),)
TIMER_CASES: list[Case] = []


def case(function: Case) -> Case:
    TIMER_CASES.append(function)
    return function


def timer_topic(stage: Stage, partitions: int = 1, **configs: str) -> str:
    return stage.topic(partitions, tidemill_kind="timer", **configs)


def delayed(ms: int) -> Headers:
    return (("tidemill-delay", b"%d" % ms),)


def number(record: Record, name: str) -> int:
    """Return the value of a header, which is there once, in digits."""
    (value,) = (value for key, value in record.headers if key == name)
    assert value is not None
    return int(value)


@case
def a_delayed_record_comes_when_it_is_due(stage: Stage) -> None:
    """
    A record has its own headers and those of the broker, and is stamped when it is delivered.
    """
    topic = timer_topic(stage)
    headers: Headers = (("a", b"1"), *delayed(500), ("b", None))
    before = time.time_ns() // 1_000_000

    places = stage.send(topic, [Outgoing(value=b"v", key=b"k", partition=0, timestamp=JUNE_2013, headers=headers)])

    (record,) = stage.read(topic, 1)
    due = number(record, "tidemill-deliver-at")
    assert [(0, 0)] == places
    assert (0, b"k", b"v") == everything([record])[0]
    assert [name for name, _ in record.headers[:3]] == ["a", "tidemill-deliver-at", "b"]
    assert {name for name, _ in record.headers[3:]} == {"tidemill-arrival", "tidemill-timestamp"}
    assert (0, JUNE_2013) == (number(record, "tidemill-arrival"), number(record, "tidemill-timestamp"))
    assert before + 500 <= due <= record.timestamp <= time.time_ns() // 1_000_000


@case
def the_offset_of_a_response_is_the_arrival_number(stage: Stage) -> None:
    """
    Producers get arrival numbers, dense from 0.  Consumers see offsets, dense from 0 in the order of delivery; the end
    offset counts nothing that waits.
    """
    topic = timer_topic(stage)
    first = stage.send(topic, [Outgoing(value=b"in an hour", partition=0, headers=HOUR)] * 2)
    assert stage.consumer().bounds((topic, 0)) == (0, 0)

    later = stage.send(
        topic,
        [
            Outgoing(value=b"later", partition=0, headers=delayed(900)),
            Outgoing(value=b"now", partition=0, headers=delayed(0)),
            Outgoing(value=b"soon", partition=0, headers=delayed(300)),
        ],
    )

    records = stage.read(topic, 3)
    assert [(0, arrival) for arrival in range(5)] == first + later
    arrivals = {record.value: number(record, "tidemill-arrival") for record in records}
    assert {b"later": 2, b"now": 3, b"soon": 4} == arrivals
    assert [0, 1, 2] == [record.offset for record in records]
    assert stage.consumer().bounds((topic, 0)) == (0, 3)
    if stage.replicas == 1:  # while leaders move, all may be due before there is a leader, or not at the same time
        places = [(number(record, "tidemill-deliver-at"), number(record, "tidemill-arrival")) for record in records]
        assert sorted(places) == places


@case
def a_record_may_say_the_time_instead_of_a_delay(stage: Stage) -> None:
    topic = timer_topic(stage)
    due = time.time_ns() // 1_000_000 + 700

    stage.send(topic, [Outgoing(value=b"v", partition=0, headers=(("tidemill-deliver-at", b"%d" % due),))])

    (record,) = stage.read(topic, 1)
    assert due == number(record, "tidemill-deliver-at")
    assert due <= record.timestamp


@case
def records_of_every_codec_are_delayed(stage: Stage) -> None:
    """
    The broker reads the headers of compressed batches, too.
    """
    topic = timer_topic(stage)
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        outgoing = Outgoing(value=codec.encode() * 100, partition=0, headers=delayed(300))
        stage.producer(compression=codec).send(topic, [outgoing] * 3)

    records = stage.read(topic, 15)

    assert sorted(codec.encode() * 100 for codec in codecs for _ in range(3)) == sorted(
        it.value or b"" for it in records
    )
    assert list(range(15)) == sorted(number(record, "tidemill-arrival") for record in records)
    assert all(number(record, "tidemill-deliver-at") <= record.timestamp for record in records)


@case
def a_later_record_of_a_timer_replaces_the_one_that_waits(stage: Stage) -> None:
    """
    The record of a timer whose id comes again is not delivered any more; `tidemill-cancel` delivers none.
    """
    topic = timer_topic(stage)
    first, second = (("tidemill-timer-id", b"1"),), (("tidemill-timer-id", b"2"),)
    stage.send(
        topic,
        [
            Outgoing(value=b"old", key=b"k", partition=0, headers=(*first, *delayed(60_000))),
            Outgoing(value=b"cancelled", key=b"k", partition=0, headers=(*second, *delayed(60_000))),
        ],
    )

    stage.send(
        topic,
        [
            Outgoing(value=b"new", key=b"k", partition=0, headers=(*first, *delayed(300))),
            Outgoing(value=None, key=b"k", partition=0, headers=(*second, ("tidemill-cancel", b""))),
        ],
    )

    (record,) = stage.read(topic, 1)
    assert (b"new", 2) == (record.value, number(record, "tidemill-arrival"))


@case
def a_senseless_delay_is_refused(stage: Stage) -> None:
    topic = timer_topic(stage)
    producer = stage.producer()
    wrong: list[Headers] = [(("tidemill-delay", b"soon"),), (*HOUR, ("tidemill-deliver-at", b"2030-01-01T00:00:00Z"))]

    codes = [
        stage.refusal(
            lambda headers=headers: producer.send(topic, [Outgoing(value=b"v", partition=0, headers=headers)])
        )  # type: ignore[misc]
        for headers in wrong
    ]

    assert all(code in (INVALID_RECORD, AIOKAFKA_UNKNOWN) for code in codes), codes
    assert [(0, 0)] == producer.send(topic, [Outgoing(value=b"after", partition=0)])


@case
def a_topic_of_kind_log_has_no_delays(stage: Stage) -> None:
    """
    There, the header of a record is like any other one.
    """
    topic = stage.topic()

    stage.send(topic, [Outgoing(value=b"v", partition=0, headers=HOUR)])

    (record,) = stage.read(topic, 1)
    assert HOUR == record.headers


@case
def a_timer_topic_has_no_timestamps_of_producers(stage: Stage) -> None:
    topic = timer_topic(stage)

    created = stage.refusal(lambda: timer_topic(stage, message_timestamp_type="CreateTime"))
    altered = stage.refusal(lambda: stage.client.alter_topic_config(topic, "message.timestamp.type", "CreateTime"))

    assert (INVALID_CONFIG, INVALID_CONFIG) == (created, altered)
    assert stage.client.topic_configs(topic)["message.timestamp.type"] == "LogAppendTime"


@case
def delivered_records_are_found_by_time(stage: Stage) -> None:
    """
    The times are those of the deliveries, not of the arrivals.
    """
    topic = timer_topic(stage)
    place = (topic, 0)
    stage.send(
        topic, [Outgoing(value=b"later", partition=0, headers=delayed(800)), Outgoing(value=b"now", partition=0)]
    )
    first, second = (record.timestamp for record in stage.read(topic, 2))
    if first == second:
        pytest.skip("both records came with one leader's first release")
    consumer = stage.consumer()

    found = [consumer.offsets_for_times({place: at})[place] for at in (JUNE_2013, first, first + 1, second, second + 1)]

    assert [0, 0, 1, 1, None] == found


@case
def a_group_of_a_timer_topic_commits_and_resumes(stage: Stage) -> None:
    resumes_where_it_committed(stage, timer_topic(stage), delayed(300))


@case
def share_consumers_accept_delayed_records(stage: Stage) -> None:
    topic = timer_topic(stage)
    consumer = stage.share_consumer(f"{stage.name}-share", topic)
    values = {b"%d" % index for index in range(20)}
    stage.send(topic, [Outgoing(value=value, partition=0, headers=delayed(300)) for value in values])

    confirmed = stage.share(
        [consumer], lambda got: {it.value for it in got} == values, lambda _: Acknowledgement.ACCEPT
    )

    if stage.replicas == 1:
        assert {1} == {record.delivery_count for record in confirmed}
        assert list(range(20)) == sorted(record.offset for record in confirmed)


@case
def delete_records_deletes_nothing_that_waits(stage: Stage) -> None:
    topic = timer_topic(stage)
    stage.send(topic, [Outgoing(value=b"waits", partition=0, headers=HOUR)])
    stage.send(topic, [Outgoing(value=b"%d" % index, partition=0) for index in range(10)])
    stage.read(topic, 10)

    stage.client.delete_records((topic, 0), 10)

    assert stage.consumer().bounds((topic, 0)) == (10, 10)
    cluster = ClusterMetadata(from_keys({"bootstrap.servers": stage.client.bootstrap}))
    TimerClient(cluster).resolve(topic, TimerChoice(), due_at(time.time_ns() // 1_000_000))
    cluster.close()
    (record,) = stage.read(topic, 1, start=10)
    assert (10, b"waits", 0) == (record.offset, record.value, number(record, "tidemill-arrival"))


@case
def retention_counts_from_the_delivery(stage: Stage) -> None:
    """
    Old segments of delivered records are deleted; records stay by the time of their delivery, not by their timestamp.
    """
    interval_ms = int(stage.client.broker_configs()["log.retention.check.interval.ms"])
    if interval_ms > 2_000:
        pytest.skip(f"the broker checks for expired segments only every {interval_ms} ms")
    topic, other = timer_topic(stage, segment_bytes="1048576"), stage.topic(segment_bytes="1048576")
    producer = stage.producer()
    for name in (topic, other):
        for _ in range(3):
            lot = [Outgoing(value=os.urandom(100_000), partition=0, timestamp=JUNE_2013) for _ in range(9)]
            producer.send(name, lot)
    consumer = stage.consumer()
    stage.read(topic, 27)
    stage.until(lambda: consumer.bounds((other, 0)) == (27, 27), "the segments of the topic of kind log are deleted")
    assert consumer.bounds((topic, 0)) == (0, 27)

    stage.client.alter_topic_config(topic, "retention.ms", "1")

    stage.until(lambda: consumer.bounds((topic, 0)) == (27, 27), "the delivered records are deleted")
    stage.client.alter_topic_config(topic, "retention.ms", "-1")
    stage.until(lambda: stage.client.topic_configs(topic)["retention.ms"] == "-1", "the new value is described")
    producer.send(topic, [Outgoing(value=b"young", partition=0, headers=delayed(2_000))])
    (record,) = stage.read(topic, 1, start=27)
    assert (27, b"young", 27) == (record.offset, record.value, number(record, "tidemill-arrival"))


@case
def idempotent_records_are_delayed_once(stage: Stage) -> None:
    topic = timer_topic(stage, partitions=3)
    outgoing = [
        Outgoing(value=b"%06d" % index, partition=index % 3, headers=delayed(index % 700)) for index in range(3_000)
    ]

    places = stage.producer(idempotent=True).send(topic, outgoing)

    records = stage.read(topic, 3_000, partitions=3)
    assert [(index % 3, index // 3) for index in range(3_000)] == places
    expected = {place: each.value for place, each in zip(places, outgoing, strict=True)}
    assert expected == {(it.partition, number(it, "tidemill-arrival")): it.value for it in records}
    assert len(expected) == len(records)


@case
def a_retry_keeps_its_arrival_number(stage: Stage) -> None:
    """
    The duplicates of `a_retry_of_what_was_stored_is_stored_once` get the numbers of the originals, and are released
    once.
    """
    stored_once_after_a_retry(stage, timer_topic(stage), delayed(300))
