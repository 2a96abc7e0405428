"""The rows of an install: what the partitions hold when it begins, and what they and the shard are when it has ended.

INSTALLING  the files of the partitions hold this, durably, and it is alike with the snapshot at (index, term)
INSTALLED   they hold all of the snapshot; the shard's log begins behind it
Byte table: `docs/formats/journal.md`.
"""

from struct import Struct
from typing import Final

from tidemill.raft.entry import Entry, Kind
from tidemill.raft.voters import Membership
from tidemill.storage.partition_state import ByteReader, PartitionState, encode_partitions
from tidemill.storage.shard_log import ShardLog

_TIME: Final = Struct(">q")


def installing_row(index: int, term: int, states: list[PartitionState]) -> Entry:
    return Entry(Kind.INSTALLING, encode_partitions(states), index=index, term=term)


def installed_row(
    index: int, term: int, last_append_time: int, membership: Membership, states: list[PartitionState]
) -> Entry:
    payload = _TIME.pack(last_append_time) + membership.encode() + encode_partitions(states)
    return Entry(Kind.INSTALLED, payload, index=index, term=term)


def apply_install_row(log: ShardLog, row: Entry) -> None:
    """The same when it is queued, and when recovery meets it."""
    assert row.payload is not None, f"{row} has lost its bytes"
    reader = ByteReader(memoryview(row.payload))
    if row.kind == Kind.INSTALLING:
        log.begin_install(row.index, row.term, reader.partitions())
        return
    (last_append_time,) = reader.numbers(_TIME)
    log.end_install(row.index, row.term, last_append_time, reader.membership())
    log.restore_partitions(reader.partitions())
