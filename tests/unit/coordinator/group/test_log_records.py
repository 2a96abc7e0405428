"""The encoding of records in `__consumer_offsets`, compared with the bytes that Kafka itself writes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.coordinator.group import log_records
from tidemill.coordinator.group.log_records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    LoggedMember,
    OffsetKey,
    SnapshotEnd,
    SnapshotEndKey,
)
from tidemill.coordinator.record_fields import BadRecord
from tidemill.model.topic import TopicId

# Keys and values by version, in hexadecimal, as written by the generated classes of Apache Kafka 4.3.1
# (MessageUtil.toVersionPrefixedByteBuffer).
OFFSET_KEYS = {
    0: "0000000762696c6c696e670007666c696768747300000005",
    1: "0001000762696c6c696e670007666c696768747300000005",
}
OFFSET_VALUES = {
    0: "000000000000000010680004686572650000018bcfe56800",
    1: "000100000000000010680004686572650000018bcfe568000000018bcfee8fc0",
    2: "000200000000000010680004686572650000018bcfe56800",
    3: "00030000000000001068000000070004686572650000018bcfe56800",
    4: ("000400000000000010680000000705686572650000018bcfe56800010010112233445566778899aabbccddeeff00"),
}
GROUP_VALUES = {
    0: (
        "00000008636f6e73756d657200000003000572616e676500036d2d310000000200036d2d310003617070000a"
        "2f3132372e302e302e310000afc80000000300010200000002090800036d2d320003617070000a2f3132372e"
        "302e302e31000017700000000000000000"
    ),
    1: (
        "00010008636f6e73756d657200000003000572616e676500036d2d310000000200036d2d310003617070000a"
        "2f3132372e302e302e31000493e00000afc80000000300010200000002090800036d2d320003617070000a2f"
        "3132372e302e302e310000ea60000017700000000000000000"
    ),
    2: (
        "00020008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000200036d2d"
        "310003617070000a2f3132372e302e302e31000493e00000afc80000000300010200000002090800036d2d32"
        "0003617070000a2f3132372e302e302e310000ea60000017700000000000000000"
    ),
    3: (
        "00030008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000200036d2d"
        "3100046465736b0003617070000a2f3132372e302e302e31000493e00000afc8000000030001020000000209"
        "0800036d2d32ffff0003617070000a2f3132372e302e302e310000ea60000017700000000000000000"
    ),
    4: (
        "000409636f6e73756d6572000000030672616e6765046d2d310000018bcfe5680003046d2d31056465736b04"
        "6170700b2f3132372e302e302e31000493e00000afc80400010203090800046d2d3200046170700b2f313237"
        "2e302e302e310000ea600000177001010000"
    ),
}
EMPTY_GROUP_VALUES = {
    0: "00000008636f6e73756d657200000004ffffffff00000000",
    1: "00010008636f6e73756d657200000004ffffffff00000000",
    2: "00020008636f6e73756d657200000004ffffffff0000018bcfe5680000000000",
    3: "00030008636f6e73756d657200000004ffffffff0000018bcfe5680000000000",
    4: "000409636f6e73756d65720000000400000000018bcfe568000100",
}
OFFSET_VALUE_WITHOUT_TOPIC_ID = "000400000000000010680000000705686572650000018bcfe5680000"
GROUP_KEY = "0002000762696c6c696e67"

NOW_MS = 1_700_000_000_000
TOPIC_ID = TopicId(bytes.fromhex("112233445566778899aabbccddeeff00"))
OFFSET_KEY = OffsetKey(group_id="billing", topic="flights", partition=5)


def offset_value(version):
    return CommittedOffset(
        offset=4200,
        leader_epoch=7 if version >= 3 else -1,
        metadata="here",
        committed_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + 600_000 if version == 1 else -1,
        topic_id=TOPIC_ID if version >= 4 else TopicId(bytes(16)),
    )


def group_value(version):
    return GroupMetadata(
        protocol_type="consumer",
        generation=3,
        protocol_name="range",
        leader="m-1",
        state_since_ms=NOW_MS if version >= 2 else -1,
        members=(
            LoggedMember(
                member_id="m-1",
                instance_id="desk" if version >= 3 else None,
                client_id="app",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=300_000 if version >= 1 else -1,
                session_timeout_ms=45_000,
                subscription=b"\x00\x01\x02",
                assignment=b"\x09\x08",
            ),
            LoggedMember(
                member_id="m-2",
                client_id="app",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=60_000 if version >= 1 else -1,
                session_timeout_ms=6_000,
                subscription=b"",
                assignment=b"",
            ),
        ),
    )


def empty_group_value(version):
    return GroupMetadata(
        protocol_type="consumer",
        generation=4,
        protocol_name=None,
        leader=None,
        state_since_ms=NOW_MS if version >= 2 else -1,
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_kafkas_values_can_be_read(version):
    """A partition may still contain values that were written by older versions of Kafka."""
    assert log_records.read_offset(bytes.fromhex(OFFSET_VALUES[version])) == offset_value(version)
    assert log_records.read_group(bytes.fromhex(GROUP_VALUES[version])) == group_value(version)
    assert log_records.read_group(bytes.fromhex(EMPTY_GROUP_VALUES[version])) == empty_group_value(version)


def test_kafkas_keys_can_be_read():
    """Keys that Kafka has written can be read; the version of a key determines its kind."""
    assert log_records.read_key(bytes.fromhex(OFFSET_KEYS[0])) == OFFSET_KEY
    assert log_records.read_key(bytes.fromhex(OFFSET_KEYS[1])) == OFFSET_KEY
    assert log_records.read_key(bytes.fromhex(GROUP_KEY)) == GroupKey(group_id="billing")


@pytest.mark.parametrize("version", [*range(3, 23), 31_999])
def test_unknown_key_versions_are_ignored(version):
    """
    Keys with an unknown version are ignored, because Kafka's newer types of groups write their records to the same
    topic.
    """
    assert log_records.read_key(version.to_bytes(2, "big") + b"whatever") is None


def test_written_records_equal_kafkas():
    """Offset values in version 4 and group values in version 3 have the same bytes as those that Kafka writes."""
    plain = log_records.offset_commit(OFFSET_KEY, offset_value(4))
    group = log_records.group_metadata("billing", group_value(3))
    empty = log_records.group_metadata("billing", empty_group_value(3))

    assert (plain.key.hex(), plain.value.hex()) == (OFFSET_KEYS[1], OFFSET_VALUES[4])
    assert (group.key.hex(), group.value.hex()) == (GROUP_KEY, GROUP_VALUES[3])
    assert empty.value.hex() == EMPTY_GROUP_VALUES[3]


def test_a_commit_with_a_retention_keeps_its_topic_id():
    """
    Kafka writes such a commit in version 1, which has no topic id.  A record without a topic id matches no topic if it
    is replayed before the topic's name is known.
    """
    value = offset_value(4)
    value.expires_at_ms = NOW_MS + 600_000

    written = log_records.offset_commit(OFFSET_KEY, value).value

    assert log_records.read_offset(written) == value
    assert written.hex().endswith("02" + "0010" + TOPIC_ID.hex() + "904e08" + "0000018bcfee8fc0")


def test_an_expiry_of_wrong_length_is_refused():
    """
    A commit whose expiry has a wrong length is refused: either the record is damaged, or another program uses the same
    tag.
    """
    damaged = bytes.fromhex(OFFSET_VALUE_WITHOUT_TOPIC_ID[:-2] + "01" + "904e04" + "00000000")

    with pytest.raises(log_records.BadRecord, match="expiry of 4 bytes"):
        log_records.read_offset(damaged)


def test_a_commit_without_a_topic_id_has_no_tag():
    """
    A commit without a topic id is encoded without a tagged field: Tidemill, like Kafka, omits tagged fields that have
    their default value.
    """
    value = offset_value(4)
    value.topic_id = TopicId(bytes(16))

    assert log_records.offset_commit(OFFSET_KEY, value).value.hex() == OFFSET_VALUE_WITHOUT_TOPIC_ID


def test_tombstones_are_keys_without_a_value():
    """
    A tombstone has the same key as the record that it deletes, and a null value, as compaction and Kafka's tools
    expect.
    """
    assert log_records.offset_tombstone(OFFSET_KEY) == (bytes.fromhex(OFFSET_KEYS[1]), None)
    assert log_records.group_tombstone("billing") == (bytes.fromhex(GROUP_KEY), None)


def test_a_snapshot_ends_with_a_record_of_our_own():
    """The end record is unknown to Kafka, and its bytes are those shown on the documentation page of the format."""
    end = SnapshotEnd(first_offset=4200, record_count=36, written_at_ms=NOW_MS)

    record = log_records.snapshot_end(end)

    assert record.key.hex() == "7d00"
    assert record.value.hex() == "0000" + "0000000000001068" + "00000024" + "0000018bcfe56800"
    assert log_records.read_key(record.key) == SnapshotEndKey()
    assert log_records.read_snapshot_end(record.value) == end


@pytest.mark.parametrize("tag_bytes", ["0105021234", "02001011223344556677889900112233445566" + "0905aabbccddee"])
def test_unknown_tags_are_skipped(tag_bytes):
    """Unknown tagged fields are skipped, because later versions of Kafka add nothing but tagged fields (KIP-915)."""
    plain = OFFSET_VALUE_WITHOUT_TOPIC_ID[:-2]

    assert log_records.read_offset(bytes.fromhex(plain + tag_bytes)).offset == 4200


@given(
    offset=st.integers(0, 2**63 - 1),
    epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=200),
    topic_id=st.binary(min_size=16, max_size=16),
)
def test_an_offset_survives_a_round_trip(offset, epoch, metadata, topic_id):
    """Any offset and any metadata text can be written and read back."""
    value = CommittedOffset(
        offset=offset, leader_epoch=epoch, metadata=metadata, committed_at_ms=NOW_MS, topic_id=TopicId(topic_id)
    )

    record = log_records.offset_commit(OFFSET_KEY, value)

    assert log_records.read_offset(record.value) == value


@given(
    golden=st.sampled_from([*OFFSET_VALUES.values(), *GROUP_VALUES.values()]),
    cut=st.integers(0, 200),
    flips=st.lists(st.tuples(st.integers(0, 199), st.integers(0, 255)), max_size=3),
)
def test_damaged_records_raise_only_bad_record(golden, cut, flips):
    """
    A damaged record raises BadRecord and no other exception, because every length in it is checked against the number
    of bytes that are left.
    """
    data = bytearray.fromhex(golden)[:cut]
    for at, byte in flips:
        if at < len(data):
            data[at] = byte

    for read in (log_records.read_offset, log_records.read_group, log_records.read_key):
        with contextlib.suppress(BadRecord):
            read(bytes(data))
