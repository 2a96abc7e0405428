"""The encoding of share groups' records, compared with the bytes that Kafka itself writes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.coordinator.record_fields import BadRecord
from tidemill.coordinator.share_group import log_records
from tidemill.coordinator.share_group.log_records import (
    AssignmentEpoch,
    CurrentAssignment,
    DeletedShare,
    GroupTopics,
    Kind,
    KnownTopic,
    MemberMetadata,
    RecordKey,
)
from tidemill.model.topic import TopicId

# Keys and values in hexadecimal, as written by the generated classes of Apache Kafka 4.3.1.
OF_MEMBER = "000762696c6c696e6700036d2d31"
OF_GROUP = "000762696c6c696e67"
KEYS = {
    Kind.MEMBER: "000a" + OF_MEMBER,
    Kind.GROUP: "000b" + OF_GROUP,
    Kind.ASSIGNMENT_EPOCH: "000c" + OF_GROUP,
    Kind.TARGET: "000d" + OF_MEMBER,
    Kind.CURRENT: "000e" + OF_MEMBER,
    Kind.TOPICS: "000f" + OF_GROUP,
}
MEMBER = "0000037231046170700b2f3132372e302e302e310308666c696768747306746964657300"
MEMBER_WITHOUT_RACK = "000000046170700b2f3132372e302e302e310100"
GROUP = "000000000007000000000000000000"
GROUP_WITH_HASH = "000000000007fffffffffffffffb00"
EPOCH_WITH_TIME = "0000000000070100080000018bcfe56800"
EPOCH = "00000000000700"
TARGET = "000002112233445566778899aabbccddeeff000300000000000000030000"
CURRENT = "000000000007000000060002112233445566778899aabbccddeeff000300000000000000030000"
TOPICS = (
    "00000200112233445566aa8899aabbccddee010674696465730300000000000000010002112233445566778899aabbccddeeff0008"
    "666c696768747304000000000000000100000002000200112233445566aa8899aabbccddee010674696465730000"
)
# Written by Tidemill, with the incarnations in tagged fields of its own.
OUR_TOPICS = (
    "00000102112233445566778899aabbccddeeff0008666c69676874730400000000000000010000000202914e080000018bcfe56800924e04"
    "000000020200112233445566aa8899aabbccddee0106746964657301914e08000000000000000500"
)

NOW_MS = 1_700_000_000_000
FLIGHTS = TopicId(bytes.fromhex("112233445566778899aabbccddeeff00"))
TIDES = TopicId(bytes.fromhex("00112233445566aa8899aabbccddee01"))
ASSIGNMENT = {FLIGHTS: (0, 3)}
READERS = (
    log_records.read_member,
    log_records.read_group,
    log_records.read_assignment_epoch,
    log_records.read_target,
    log_records.read_current,
    log_records.read_topics,
)


@pytest.mark.parametrize(
    ("record", "kind", "value"),
    [
        (
            log_records.member_record(
                "billing",
                "m-1",
                MemberMetadata(rack="r1", client_id="app", client_host="/127.0.0.1", topics=("flights", "tides")),
            ),
            Kind.MEMBER,
            MEMBER,
        ),
        (
            log_records.member_record(
                "billing", "m-1", MemberMetadata(client_id="app", client_host="/127.0.0.1", topics=())
            ),
            Kind.MEMBER,
            MEMBER_WITHOUT_RACK,
        ),
        (log_records.group_record("billing", 7), Kind.GROUP, GROUP),
        (
            log_records.assignment_epoch_record("billing", AssignmentEpoch(7, NOW_MS)),
            Kind.ASSIGNMENT_EPOCH,
            EPOCH_WITH_TIME,
        ),
        (log_records.assignment_epoch_record("billing", AssignmentEpoch(7)), Kind.ASSIGNMENT_EPOCH, EPOCH),
        (log_records.target_record("billing", "m-1", ASSIGNMENT), Kind.TARGET, TARGET),
        (
            log_records.current_record(
                "billing", "m-1", CurrentAssignment(epoch=7, previous_epoch=6, assignment=ASSIGNMENT)
            ),
            Kind.CURRENT,
            CURRENT,
        ),
    ],
    ids=["member", "member without a rack", "group", "epoch with a time", "epoch", "target", "current"],
)
def test_records_are_those_of_kafka(record, kind, value):
    """The records have exactly the bytes that Kafka writes, so Kafka's tools and brokers can read the log."""
    assert (bytes.fromhex(KEYS[kind]), bytes.fromhex(value)) == record


@pytest.mark.parametrize("kind", Kind)
def test_keys_are_those_of_kafka(kind):
    """
    The version number in a record's key determines the kind of the record.  Only the keys of three kinds contain a
    member id.
    """
    member_id = "m-1" if kind in log_records.OF_A_MEMBER else ""

    key = log_records.read_key(bytes.fromhex(KEYS[kind]))

    assert RecordKey(kind, "billing", member_id) == key
    assert (bytes.fromhex(KEYS[kind]), None) == log_records.tombstone(key)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9, 16, 32_000])
def test_other_keys_are_left_to_others(version):
    """
    `read_key` returns None for keys of records that are not about share groups: a committed offset, a classic group,
    one of Kafka's other group types, or the end of a snapshot.
    """
    assert log_records.read_key(version.to_bytes(2, "big") + bytes.fromhex(OF_GROUP)) is None


def test_values_of_kafka_are_read():
    """Every field that Tidemill uses is read from the values that Kafka writes; the metadata hash is skipped."""
    read = [
        log_records.read_member(bytes.fromhex(MEMBER)).topics,
        log_records.read_member(bytes.fromhex(MEMBER_WITHOUT_RACK)).rack,
        log_records.read_group(bytes.fromhex(GROUP_WITH_HASH)),
        log_records.read_assignment_epoch(bytes.fromhex(EPOCH_WITH_TIME)),
        log_records.read_assignment_epoch(bytes.fromhex(EPOCH)),
        log_records.read_target(bytes.fromhex(TARGET)),
        log_records.read_current(bytes.fromhex(CURRENT)),
    ]

    assert [
        ("flights", "tides"),
        None,
        7,
        AssignmentEpoch(7, NOW_MS),
        AssignmentEpoch(7),
        ASSIGNMENT,
        CurrentAssignment(epoch=7, previous_epoch=6, assignment=ASSIGNMENT),
    ] == read


def test_topics_of_kafka_have_no_incarnation():
    """
    Kafka's records contain no incarnations, so topics read from them get 0, which is smaller than every incarnation
    that Tidemill assigns.  A topic that Kafka is still initializing counts as known.
    """
    topics = log_records.read_topics(bytes.fromhex(TOPICS))

    assert {
        FLIGHTS: KnownTopic(name="flights", incarnation=0, partition_count=3, first_partition_count=3),
        TIDES: KnownTopic(name="tides", incarnation=0, partition_count=2, first_partition_count=2),
    } == topics.known
    assert {TIDES: DeletedShare(name="tides", incarnation=0)} == topics.deleted


def test_topics_carry_their_incarnation():
    """
    Tidemill's record of a group's topics has the incarnations in tagged fields, numbered as in
    `docs/formats/numbers.md`.  (Kafka 4.3.1 was seen to read these bytes and to skip the fields.)
    """
    topics = GroupTopics(
        known={
            FLIGHTS: KnownTopic(name="flights", incarnation=NOW_MS, partition_count=3, first_partition_count=2),
        },
        deleted={TIDES: DeletedShare(name="tides", incarnation=5)},
    )

    record = log_records.topics_record("billing", topics)

    assert bytes.fromhex(OUR_TOPICS) == record.value
    assert topics == log_records.read_topics(record.value)


def test_a_group_without_topics_has_no_record_of_them():
    """
    A group without topics gets a tombstone, so the log keeps nothing of a deleted group once its shares are closed.
    """
    assert (bytes.fromhex(KEYS[Kind.TOPICS]), None) == log_records.topics_record("billing", GroupTopics())


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (log_records.read_group, "0001" + GROUP[4:]),  # a newer version of the value
        (log_records.read_member, MEMBER[:-10]),  # the last five bytes are missing
        (log_records.read_topics, OUR_TOPICS.replace("914e08", "914e07")),  # an incarnation of 7 bytes
        (log_records.read_target, "0000ffffffff0f"),  # the number of topics exceeds the number of bytes
    ],
)
def test_damaged_values_are_rejected(read, value):
    """
    A damaged value, or one of an unknown version, raises BadRecord, which stops the load of the partition.  It is never
    read as a different state.
    """
    with pytest.raises(BadRecord):
        read(bytes.fromhex(value))


@given(st.binary(max_size=200), st.sampled_from(READERS))
def test_any_bytes_are_read_or_rejected(data, read):
    """
    Whatever bytes a reader gets, it returns a value or raises BadRecord, and allocates no more than the input's size.
    """
    with contextlib.suppress(BadRecord):
        read(b"\0\0" + data)
