"""The codec of Raft messages decodes what it has encoded, and rejects anything else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.entry import BATCH, COMMAND, Entry
from tidemill.raft.message_codec import MalformedMessage, decode, encode
from tidemill.raft.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Damaged,
    Message,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotPull,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tidemill.raft.voters import Membership

NUMBERS = st.integers(0, (1 << 63) - 1)
FLAGS = st.booleans()
VOTERS = st.lists(
    st.builds(lambda number: ReplicaKey(BrokerId(number), DirectoryId(b"d" * 16)), st.integers(0, 99)), max_size=3
)
MEMBERSHIPS = st.builds(lambda voters, learners: Membership(tuple(voters), tuple(learners)), VOTERS, VOTERS)
SIMPLE = st.one_of(
    st.builds(
        VoteRequest, term=NUMBERS, last_index=NUMBERS, last_term=NUMBERS, is_pre=FLAGS, is_transfer=FLAGS
    ),
    st.builds(VoteResponse, term=NUMBERS, is_granted=FLAGS, is_pre=FLAGS),
    st.builds(
        AppendEntriesResponse,
        term=NUMBERS,
        serial=NUMBERS,
        match_index=NUMBERS,
        commit_index=NUMBERS,
        rejected_index=NUMBERS,
        hint_index=NUMBERS,
        hint_term=NUMBERS,
        is_installing=FLAGS,
    ),
    st.builds(TimeoutNow, term=NUMBERS),
    st.builds(Damaged, term=NUMBERS, last_index=NUMBERS, last_term=NUMBERS),
    st.builds(SnapshotPull, term=NUMBERS, index=NUMBERS, partition=st.integers(0, 1 << 31), offset=NUMBERS),
    st.builds(
        SnapshotOffer,
        term=NUMBERS,
        index=NUMBERS,
        index_term=NUMBERS,
        append_time=NUMBERS,
        membership=MEMBERSHIPS,
        state=st.binary(max_size=99),
    ),
)  # fmt: skip


def append(*payloads: bytes, commit: int = 7) -> AppendEntries:
    entries = tuple(
        Entry(
            BATCH if payload else COMMAND,
            payload,
            partition=3,
            base_offset=100 + number,
            record_count=2,
            append_time=1_700_000_000_000,
            index=8 + number,
            term=4,
        )
        for number, payload in enumerate(payloads)
    )
    return AppendEntries(term=5, prev_index=7, prev_term=3, entries=entries, commit_index=commit, serial=9)


def joined(message: Message) -> bytearray:
    return bytearray().join(encode(message))


def control_rows(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.kind,
        bytes(entry.payload or b""),
        entry.partition,
        entry.base_offset,
        entry.record_count,
        entry.append_time,
        entry.index,
        entry.term,
        entry.payload_bytes,
    )


@settings(deadline=None)
@given(message=SIMPLE)
def test_a_message_without_entries_survives_encoding(message: Message) -> None:
    """Encoding and decoding preserve every field of a message without entries."""
    assert message == decode(memoryview(joined(message)))


@settings(deadline=None)
@given(payloads=st.lists(st.binary(max_size=200), max_size=5))
def test_entries_survive_encoding(payloads: list[bytes]) -> None:
    """Encoding and decoding preserve the payloads and all fields of entries."""
    sent = append(*payloads)

    came = decode(memoryview(joined(sent)))

    assert isinstance(came, AppendEntries)
    assert (5, 7, 3, 7, 9) == (came.term, came.prev_index, came.prev_term, came.commit_index, came.serial)
    assert [control_rows(entry) for entry in sent.entries] == [control_rows(entry) for entry in came.entries]


def test_bytes_of_entries_are_not_copied() -> None:
    """A payload is not copied: it is one of the encoded parts, and a view of the received frame."""
    batch = bytearray(b"batch")
    data = memoryview(joined(append(bytes(batch))))

    parts = encode(append(batch))  # type: ignore[arg-type]
    came = decode(data)

    assert parts[1] is batch
    assert isinstance(came, AppendEntries)
    assert came.entries[0].payload.obj is data.obj  # type: ignore[union-attr]


def test_bytes_of_a_chunk_are_not_copied() -> None:
    """The batches of a chunk are not copied: they are sent as they were read, and received as views."""
    batch = bytearray(b"batch")
    chunk = SnapshotChunk(term=5, index=7, partition=3, offset=100, payload=(batch, b"more"))
    data = memoryview(joined(chunk))

    came = decode(data)

    assert encode(chunk)[1] is batch
    assert isinstance(came, SnapshotChunk)
    assert (5, 7, 3, 100) == (came.term, came.index, came.partition, came.offset)
    assert b"batchmore" == came.payload[0]
    assert came.payload[0].obj is data.obj  # type: ignore[union-attr]


def test_a_corrupted_snapshot_offer_is_rejected() -> None:
    """A corrupted or truncated snapshot offer is rejected, so that it cannot reach a disk."""
    data = joined(
        SnapshotOffer(term=5, index=7, index_term=3, append_time=9, membership=Membership(()), state=b"files")
    )
    changed = data[:-1] + b"x"

    for wrong in (changed, data[:-1], data[:20], data + b"x"):
        with pytest.raises(MalformedMessage):
            decode(memoryview(wrong))


@settings(deadline=None)
@given(cut=st.integers(0, 200))
def test_a_truncated_message_is_rejected(cut: int) -> None:
    """A message that is truncated at any byte, or has trailing bytes, is rejected."""
    data = joined(append(b"one", b"two"))

    with pytest.raises(MalformedMessage):
        decode(memoryview(data)[: min(cut, len(data) - 1)])
    with pytest.raises(MalformedMessage):
        decode(memoryview(data + b"x"))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        pytest.param(0, 99, id="kind"),
        pytest.param(7, 3, id="more entries than there are"),
        pytest.param(16 + 23, 200, id="commit index"),
        pytest.param(48 + 7, 9, id="index of an entry"),
        pytest.param(48 + 16, 18, id="kind of an entry"),
        pytest.param(48 + 39, 200, id="length"),
        pytest.param(-1, 0, id="bytes"),
    ],
)
def test_a_corrupted_message_is_rejected(at: int, value: int) -> None:
    """A corrupted message is rejected, so that it cannot reach a log."""
    data = joined(append(b"one", b"two"))
    data[at] = value

    with pytest.raises(MalformedMessage):
        decode(memoryview(data))
