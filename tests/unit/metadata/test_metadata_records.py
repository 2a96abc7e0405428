"""The encoding of metadata records (`docs/formats/metadata.md`)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.metadata.metadata_records import (
    TOPIC_KINDS,
    BrokerRecord,
    BrokerStateRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResource,
    Endpoint,
    FeatureRecord,
    MetadataFormatError,
    ProducerIdsRecord,
    Record,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    ReplicasRecord,
    ShardIdsRecord,
    ShardRecord,
    SnapshotEndRecord,
    TopicRecord,
    decode,
    encode,
)
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import METADATA_TOPIC_ID, TopicId

GOLDEN = Path(__file__).with_name("metadata_records.golden")
DIRECTORY = DirectoryId(bytes(range(16)))
TOPIC = TopicId(bytes(range(16, 32)))
ONE_OF_EACH: tuple[Record, ...] = (
    ClusterRecord("aGVsbG8gY2x1c3RlciBpZA"),
    FeatureRecord(1),
    BrokerRecord(BrokerId(1), DIRECTORY, (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),), None),
    BrokerRecord(BrokerId(300), DIRECTORY, (), "rack α"),
    TopicRecord(METADATA_TOPIC_ID, "__tidemill_metadata", "log"),
    TopicRecord(TOPIC, "timers", "timer"),
    ShardRecord(ShardId(7), TOPIC, 16, 300, (ReplicaKey(BrokerId(1), DIRECTORY), ReplicaKey(BrokerId(2), DIRECTORY))),
    RemoveTopicRecord(TOPIC),
    ConfigRecord(ConfigResource(2, "flights"), "retention.ms", "-1"),
    ConfigRecord(ConfigResource(4, ""), "log.retention.ms", None),
    ProducerIdsRecord((1 << 63) - 1, BrokerId(0)),
    ShardIdsRecord(ShardId(128)),
    SnapshotEndRecord(12),
    ReplicasRecord(ShardId(300), (ReplicaKey(BrokerId(2), DIRECTORY), ReplicaKey(BrokerId(300), DIRECTORY))),
    BrokerRecord(BrokerId(3), DIRECTORY, (), None, 2),
    ReplicasRecord(
        ShardId(7),
        (ReplicaKey(BrokerId(2), DIRECTORY),),
        (ReplicaKey(BrokerId(300), DIRECTORY), ReplicaKey(BrokerId(2), DIRECTORY)),
        Reason.DRAIN,
    ),
    BrokerStateRecord(BrokerId(300), Presence.SILENT, Drain.ALL),
    RemoveBrokerRecord(BrokerId(300)),
)

numbers = st.integers(0, (1 << 63) - 1)
broker_ids = numbers.map(BrokerId)
shard_ids = numbers.map(ShardId)
sixteen = st.binary(min_size=16, max_size=16)
resources = st.builds(ConfigResource, st.sampled_from([2, 4, 32]), st.text())
voters = st.lists(st.builds(ReplicaKey, broker_ids, sixteen.map(DirectoryId)), max_size=3).map(tuple)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(ClusterRecord, st.text()),
    st.builds(FeatureRecord, numbers),
    st.builds(
        BrokerRecord,
        broker_ids,
        sixteen.map(DirectoryId),
        st.lists(st.builds(Endpoint, st.text(), st.text(), st.integers(0, 65_535), st.text()), max_size=3).map(tuple),
        st.none() | st.text(),
        st.integers(1, 1 << 15),
    ),
    st.builds(TopicRecord, sixteen.map(TopicId), st.text(), st.sampled_from(TOPIC_KINDS)),
    st.builds(ShardRecord, shard_ids, sixteen.map(TopicId), numbers, numbers, voters),
    st.builds(ReplicasRecord, shard_ids, voters, voters, st.sampled_from(Reason)),
    st.builds(BrokerStateRecord, broker_ids, st.sampled_from(Presence), st.sampled_from(Drain)),
    st.builds(RemoveBrokerRecord, broker_ids),
    st.builds(RemoveTopicRecord, sixteen.map(TopicId)),
    st.builds(ConfigRecord, resources, st.text(), st.none() | st.text()),
    st.builds(ProducerIdsRecord, numbers, broker_ids),
    st.builds(ShardIdsRecord, shard_ids),
    st.builds(SnapshotEndRecord, numbers),
)


def test_records_encode_to_the_golden_file() -> None:
    """Records always encode to the bytes in the golden file, because old logs must stay readable."""
    golden = GOLDEN.read_text().split()

    written = [encode(record).hex() for record in ONE_OF_EACH]

    assert golden == written


def test_the_golden_file_decodes_to_the_records() -> None:
    """Decoding is tested against bytes that the current code did not write."""
    golden = GOLDEN.read_text().split()

    read = tuple(decode(bytes.fromhex(line)) for line in golden)

    assert read == ONE_OF_EACH


@pytest.mark.parametrize(
    "record",
    [
        BrokerRecord(BrokerId(3), DIRECTORY, (), None, 1),
        ReplicasRecord(ShardId(7), (ReplicaKey(BrokerId(2), DIRECTORY),), (), Reason.PLACED),
    ],
)
def test_a_record_that_says_nothing_new_has_version_0(record: Record) -> None:
    """
    A record that has only what version 0 can say is written in version 0: below feature level 2, brokers that read no
    other version may still run.
    """
    version = encode(record)[1]

    assert version == 0


@pytest.mark.parametrize("reason", [it for it in Reason if it is not Reason.PLACED])
def test_a_move_without_former_replicas_keeps_its_reason(reason: Reason) -> None:
    """Either of the two new fields of a ReplicasRecord is enough for version 1."""
    record = ReplicasRecord(ShardId(7), (ReplicaKey(BrokerId(2), DIRECTORY),), (), reason)

    back = decode(encode(record))

    assert record == back


@given(records)
def test_decode_inverts_encode(record: Record) -> None:
    """Every record survives a round trip."""
    value = encode(record)

    back = decode(value)

    assert record == back


@given(records, st.data())
def test_a_truncated_record_is_refused(record: Record, data: st.DataObject) -> None:
    """No prefix of a record is a valid record, so damage is never taken for a shorter record."""
    value = encode(record)
    size = data.draw(st.integers(0, len(value) - 1))

    with pytest.raises(MetadataFormatError):
        decode(value[:size])


@given(st.binary(max_size=64))
def test_arbitrary_bytes_decode_or_are_refused(value: bytes) -> None:
    """Decoding raises nothing but MetadataFormatError."""
    try:
        decode(value)
    except MetadataFormatError as refused:
        assert str(refused)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x63\x00", "unknown metadata record type 99"),
        (b"\x02\x01\x01", "type 2 has version 1; this version of Tidemill reads up to 0"),
        (b"\x03\x02\x01", "type 3 has version 2; this version of Tidemill reads up to 1"),
        (b"\x02\x00\x01\x01", "1 bytes after its last field"),
        (b"\x02\x00" + b"\x80" * 10 + b"\x01", "more than ten bytes"),
        (b"\x04\x00" + bytes(16) + b"\x01a\x03", "unknown topic kind 3"),
        (b"\x0b\x01\x07\x00\x00\x09", "unknown reason of a move 9"),
        (b"\x0f\x00\x01\x03\x00", "unknown presence of a broker 3"),
        (b"\x0f\x00\x01\x00\x03", "unknown drain of a broker 3"),
        (b"", "has no type and version"),
    ],
)
def test_a_format_error_names_its_cause(value: bytes, message: str) -> None:
    """The message of a format error shows whether an upgrade is needed or the record is damaged."""
    with pytest.raises(MetadataFormatError) as refused:
        decode(value)

    assert message in str(refused.value)
