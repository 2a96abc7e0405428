"""The rows of a snapshot install.  Byte table: `docs/formats/journal.md`.

INSTALLING  the durable contents of the partitions' files when the install begins or has made progress; they are a
            prefix of the snapshot at (index, term)
INSTALLED   the state of the shard when the files hold the whole snapshot; the shard's log begins after the snapshot
PART        some of the bytes of a later INSTALLING or INSTALLED row, which can be larger than a block, or even than
            the ring
"""

from struct import Struct
from typing import Final

from tidemill.raft.entry import Entry
from tidemill.raft.voters import Membership
from tidemill.storage.disk import Buffer
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.machine_sections import load_sections, read_sections
from tidemill.storage.partition.partition_state import ByteReader, PartitionState, encode_partitions

INSTALL_KINDS: Final = frozenset({RowKind.INSTALLING, RowKind.INSTALLED, RowKind.PART})
_TIME: Final = Struct(">q")


def installing_row(index: int, term: int, states: list[PartitionState]) -> Entry:
    return Entry(RowKind.INSTALLING, encode_partitions(states), index=index, term=term)


def installed_row(
    index: int, term: int, last_append_time: int, membership: Membership, states: list[PartitionState], sections: Buffer
) -> Entry:
    """Return an INSTALLED row.  `sections` are the machine sections from the snapshot offer."""
    payload = _TIME.pack(last_append_time) + membership.encode() + encode_partitions(states) + sections
    return Entry(RowKind.INSTALLED, payload, index=index, term=term)


def split_install_row(row: Entry, bytes_max: int) -> list[Entry]:
    """
    Split a row into PART rows, followed by the row itself with the rest of the bytes.  Each of these rows has at most
    `bytes_max` bytes; its base offset is the position of its first byte within the original payload.
    """
    payload = row.payload
    assert payload is not None, f"{row} has lost its bytes"
    last = max(len(payload) - 1, 0) // bytes_max * bytes_max
    parts = [Entry(RowKind.PART, payload[at : at + bytes_max], base_offset=at) for at in range(0, last, bytes_max)]
    return [*parts, Entry(row.kind, payload[last:], base_offset=last, index=row.index, term=row.term)]


def apply_install_row(log: ShardLog, row: Entry) -> None:
    """
    Apply a complete row to the shard: when it is queued, or when recovery has joined its parts.  Raises UnknownSection
    and struct.error before the shard changes.
    """
    assert row.payload is not None, f"{row} has lost its bytes"
    reader = ByteReader(memoryview(row.payload))
    if row.kind == RowKind.INSTALLING:
        log.begin_install(row.index, row.term, reader.partitions())
        return
    (last_append_time,) = reader.numbers(_TIME)
    membership, states, sections = reader.membership(), reader.partitions(), read_sections(reader, log.machines)
    log.end_install(row.index, row.term, last_append_time, membership)
    log.restore_partitions(states)
    load_sections(log.machines, sections)


def replay_install_row(log: ShardLog, row: Entry) -> None:
    """
    Replay the next install row or part of one, and apply the row once it is complete.  A row whose first parts are
    missing is ignored: the checkpoint already contains it.
    """
    assert row.payload is not None, f"{row} has lost its bytes"
    parts = log.install_parts
    if row.base_offset == 0:
        parts.clear()
    if row.base_offset != sum(map(len, parts)):
        return
    parts.append(bytes(row.payload))
    if row.kind != RowKind.PART:
        row.payload = b"".join(parts)
        parts.clear()
        apply_install_row(log, row)
