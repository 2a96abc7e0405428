"""`tidemill log dump`: the rows of the journal and the batches of the segments, in the order of the files.

Read-only; a broker may be running in the directory.  Only CRCs are checked; `storage/inspect/log_verify.py` checks
offsets, epochs and checkpoints, too.
"""

from collections.abc import Iterator
from typing import Any

from tidemill.batches.batch import BatchHeader, crc_matches, read_header
from tidemill.raft.entry import BATCH, Entry
from tidemill.storage import paths
from tidemill.storage.disk import Disk
from tidemill.storage.inspect.directory_view import DirectoryView, view_directory
from tidemill.storage.journal.journal import read_extents
from tidemill.storage.journal.journal_block import decode_rows
from tidemill.storage.journal.row import RowKind, kind_name
from tidemill.storage.partition.segment import SegmentDamaged, walk

Row = dict[str, Any]  # one line of JSON


def dump(disk: Disk) -> Iterator[Row]:
    """Yield one dictionary per checkpoint, row and batch.  Raises DirectoryProblem and JournalDamaged."""
    view = view_directory(disk)
    try:
        yield {
            "type": "checkpoint",
            "file": paths.checkpoint_file(view.checkpoint.number),
            "number": view.checkpoint.number,
            "sequence": view.checkpoint.sequence,
        }
        yield from _journal_rows(view)
        yield from _batches(disk)
    finally:
        view.close()


def _journal_rows(view: DirectoryView) -> Iterator[Row]:
    for journal_position, header in view.walked:
        rows = decode_rows(header, memoryview(read_extents(view.ring, journal_position, header.size_bytes)))
        where = {
            "file": paths.journal_file(journal_position.number),
            "position": journal_position.position,
            "sequence": header.sequence,
        }
        if rows is None:
            yield {"type": "block", **where, "problem": "the block was overwritten while it was read"}
            return
        if not rows:
            yield {"type": "block", **where, "synced": header.synced, "rows": 0}
        for shard_id, row in rows:
            yield {"type": "row", **where, "synced": header.synced, "shard": shard_id, **_entry(row)}


def _entry(row: Entry) -> Row:
    found: Row = {"kind": kind_name(row.kind), "log_index": row.index, "term": row.term, "partition": row.partition}
    found |= {"base_offset": row.base_offset, "records": row.record_count, "append_time": row.append_time}
    found["bytes"] = len(row.payload or b"")
    if row.kind == BATCH:
        found |= {"segment": row.segment_base, "segment_position": row.position}
    if row.kind == RowKind.DAMAGED:
        found["problem"] = bytes(row.payload or b"").decode()
    return found


def _batches(disk: Disk) -> Iterator[Row]:
    for topic in disk.list(paths.TOPICS):
        partitions = disk.list(f"{paths.TOPICS}/{topic}")
        for partition in sorted(partitions, key=lambda name: (len(name), name)):
            directory = f"{paths.TOPICS}/{topic}/{partition}"
            for name in disk.list(directory):
                if name.endswith(".log"):
                    yield from _segment_batches(disk, f"{directory}/{name}", topic, partition)


def _segment_batches(disk: Disk, path: str, topic: str, partition: str) -> Iterator[Row]:
    where = {"type": "batch", "topic_id": topic, "partition": paths.partition_number(partition), "file": path}
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return  # a running broker has removed the file since the directory was listed
    try:
        for position, _, header in walk(file, path, 0, file.size(), paths.segment_base(path.rpartition("/")[2]) or 0):
            data = file.read(position, header.size_bytes)
            is_whole = len(data) == header.size_bytes and read_header(data) == header and crc_matches(data)
            yield {**where, "position": position, **_batch(header), "crc_matches": is_whole}
    except SegmentDamaged as problem:
        yield {**where, "position": problem.position, "problem": str(problem)}
    finally:
        file.close()


def _batch(header: BatchHeader) -> Row:
    return {
        "bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "end_offset": header.end_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "codec": header.codec,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }
