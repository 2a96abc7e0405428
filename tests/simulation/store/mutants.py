"""Plants bugs in the storage code.  Each breaks one rule of `docs/formats/journal.md`, and the exploration of crash
points must find it.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.simulation.summing_machine import machines_apply_at_append, machines_keep_what_was_truncated
from tidemill.raft.entry import Command
from tidemill.storage import recovery, store
from tidemill.storage.checkpoint import checkpoint, checkpointer
from tidemill.storage.checkpoint.checkpointer import Checkpointer
from tidemill.storage.journal import block, block_queue, journal, journal_block, row_queue
from tidemill.storage.journal.queued_rows import QueuedRows, VoteBefore
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.share_machine import ShareMachine


class Mutant(NamedTuple):
    name: str
    rule: str
    planted: Callable[[], AbstractContextManager[None]]
    kinds: frozenset[str]  # the kinds of violation by which the bug may be found
    states_max: int = 3_000  # the number of opened disks within which the bug must be found
    seed: int = 1  # of the script; a bug needs a script in which its rule matters


@contextmanager
def answers_before_its_sync() -> Iterator[None]:
    """Report a block as durable immediately, and sync it only when the next block is written."""
    owed: list[Any] = []

    class Unsynced:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write_durably(self, position: int, parts: Any) -> None:
            self.file.write(position, parts)
            owed.append(self.file)

    write = journal.write_block

    def late(extents: Any, parts: Any) -> None:
        files, owed[:] = list(owed), []
        for file in files:
            file.sync()
        wrappers = {extent.file: Unsynced(extent.file) for extent in extents}
        write([extent._replace(file=wrappers[extent.file]) for extent in extents], parts)

    with patch.object(block, "write_block", late):
        yield


@contextmanager
def compares_before_rewriting() -> Iterator[None]:
    """Let recovery skip rows whose bytes in the segment are already equal, although they may not be synced."""
    write_back = recovery.write_back_run

    def compared(disk: Any, run: Any, directories: list[str]) -> None:
        wanted = b"".join(run.parts)
        if disk.exists(run.segment.path) and disk.open(run.segment.path).read(run.position, len(wanted)) == wanted:
            return
        write_back(disk, run, directories)

    with patch.object(recovery, "write_back_run", compared):
        yield


@contextmanager
def leaves_the_newest_block() -> Iterator[None]:
    again = recovery._write_again
    with patch.object(recovery, "_write_again", lambda disk, trusted, ring, _: again(disk, trusted, ring, None)):
        yield


@contextmanager
def leaves_the_trusted_checkpoint() -> Iterator[None]:
    again = recovery._write_again

    def without(*arguments: Any) -> None:
        with patch.object(recovery, "write_checkpoint", lambda *_: None):
            again(*arguments)

    with patch.object(recovery, "_write_again", without):
        yield


@contextmanager
def frees_before_the_directories() -> Iterator[None]:
    """Free the journal after the sync of segments and checkpoint, and sync directories at the next checkpoint."""
    execute = Checkpointer._execute
    owed: list[str] = []

    def without(self: Any, capture: Any, *arguments: Any) -> Iterator[None]:
        for directory in owed:
            if self._disk.exists(directory):
                self._disk.sync_directory(directory)
        owed[:] = list(capture.directories)
        capture.directories = {}
        yield from execute(self, capture, *arguments)

    with patch.object(Checkpointer, "_execute", without):
        yield


@contextmanager
def checkpoint_before_its_segments() -> Iterator[None]:
    execute = Checkpointer._execute

    def reordered(self: Any, capture: Any, *arguments: Any) -> Iterator[None]:
        number = self.number + 1
        data = checkpoint.encode_checkpoint(self._key, number, capture.sequence, capture.head, capture.sections)
        checkpoint.write_checkpoint(self._disk, number, data)
        yield
        yield from execute(self, capture, *arguments)

    with patch.object(Checkpointer, "_execute", reordered):
        yield


@contextmanager
def carries_newer_votes() -> Iterator[None]:
    """Write into the checkpoint a vote that is only queued for the journal."""
    encode = checkpoint.encode_shard

    def newer(log: Any, queued: QueuedRows = checkpoint.NOTHING_QUEUED) -> bytes:
        return encode(log, dataclasses.replace(queued, vote=None))

    with patch.object(checkpointer, "encode_shard", newer):
        yield


@contextmanager
def carries_older_votes() -> Iterator[None]:
    """Write the vote of the previous checkpoint into the next one."""
    encode = checkpoint.encode_shard
    before: dict[Any, VoteBefore] = {}

    def older(log: Any, queued: QueuedRows = checkpoint.NOTHING_QUEUED) -> bytes:
        now = VoteBefore(log.term, log.voted_for)
        vote = before.get(log.shard_id, now)
        before[log.shard_id] = now
        return encode(log, dataclasses.replace(queued, vote=vote))

    with patch.object(checkpointer, "encode_shard", older):
        yield


@contextmanager
def forgets_truncations() -> Iterator[None]:
    """Execute truncations without journaling them."""
    queue = row_queue.RowQueue.put_control_row

    def forgetful(self: Any, shard_id: Any, row: Any) -> None:
        if row.kind == RowKind.TRUNCATE:
            row.index = 1 << 40  # truncates nothing: no entry has this index
        queue(self, shard_id, row)

    with patch.object(row_queue.RowQueue, "put_control_row", forgetful):
        yield


@contextmanager
def header_without_key() -> Iterator[None]:
    decode, encode = journal_block.decode_header, journal_block.encode_block
    with ExitStack() as stack:
        stack.enter_context(patch.object(block_queue, "encode_block", lambda _, *rest: encode(b"", *rest)))
        for module in (journal, recovery):
            stack.enter_context(patch.object(module, "decode_header", lambda _, data: decode(b"", data)))
        yield


@contextmanager
def cuts_before_all_is_replayed() -> Iterator[None]:
    """Let recovery truncate the files first, and then write every row in order, including rows that a later row
    truncates.
    """
    rewrite, fit = recovery._rewrite, recovery._fit_files

    def acts_early(opened: Any, walked: Any, damaged: Any) -> None:
        for log in opened.shards.values():
            for partition in log.partitions.values():
                fit(opened, log, partition.directory, partition.segments, recovery.RecoveryReport())
        rewrite(opened, walked, damaged)

    with (
        patch.object(recovery, "_rewrite", acts_early),
        patch.object(recovery, "_fit_files", lambda *_: None),
        patch.object(recovery, "_is_final", lambda *_: True),
    ):
        yield


@contextmanager
def removes_before_trimmed_is_synced() -> Iterator[None]:
    trim = store.Store.trim

    def hasty(self: Any, *arguments: Any) -> None:
        trim(self, *arguments)
        self.removals._segments = [(0, segment) for _, segment in self.removals._segments]

    with patch.object(store.Store, "trim", hasty):
        yield


@contextmanager
def skips_what_a_trim_commits() -> Iterator[None]:
    """Let recovery raise the commit index to the last trimmed entry without applying the commands up to it."""
    note_trimmed = ShardLog.note_trimmed

    def without(self: Any) -> None:
        with patch.object(ShardLog, "_entries_committed", lambda *_: None):
            note_trimmed(self)

    with patch.object(ShardLog, "note_trimmed", without):
        yield


@contextmanager
def log_starts_leave_the_shares() -> Iterator[None]:
    """Let retention move the log start without dropping the state that share groups have of the removed records."""
    committed = ShareMachine.committed

    def deaf(self: Any, entry: Any) -> None:
        if entry.payload[0] != Command.LOG_START:
            committed(self, entry)

    with patch.object(ShareMachine, "committed", deaf):
        yield


LOST, REFUSED, DIFFERENT, INVENTED = "lost", "refused", "different", "invented"
MUTANTS = (
    Mutant("reports a block before its sync", "J6", answers_before_its_sync, frozenset({LOST})),
    Mutant("does not rewrite equal bytes", "R3", compares_before_rewriting, frozenset({REFUSED, LOST, DIFFERENT})),
    Mutant("does not write the newest block again", "R2", leaves_the_newest_block, frozenset({LOST})),
    Mutant(
        "does not write the trusted checkpoint again", "R2", leaves_the_trusted_checkpoint, frozenset({REFUSED, LOST})
    ),
    Mutant("frees the journal before the directory sync", "C2", frees_before_the_directories, frozenset({REFUSED})),
    Mutant(
        "syncs the checkpoint before its segments",
        "C2",
        checkpoint_before_its_segments,
        frozenset({REFUSED, DIFFERENT}),
    ),
    Mutant("carries votes newer than P", "C1", carries_newer_votes, frozenset({DIFFERENT}), 8_000),
    Mutant("carries votes older than P", "C1", carries_older_votes, frozenset({DIFFERENT})),
    Mutant("forgets truncations", "R1", forgets_truncations, frozenset({REFUSED, DIFFERENT})),
    Mutant("does not key its headers", "J4", header_without_key, frozenset({REFUSED, INVENTED}), 8_000),
    Mutant("truncates before all is replayed", "R4", cuts_before_all_is_replayed, frozenset({DIFFERENT, REFUSED})),
    Mutant("machines apply at append", "C5", machines_apply_at_append, frozenset({DIFFERENT, REFUSED})),
    Mutant("skips the commands below a trim", "C5", skips_what_a_trim_commits, frozenset({DIFFERENT}), seed=5),
    Mutant("log starts leave the shares", "C5", log_starts_leave_the_shares, frozenset({DIFFERENT})),
    Mutant("machines keep what was truncated", "C5", machines_keep_what_was_truncated, frozenset({DIFFERENT, REFUSED})),
    Mutant(
        "removes before the offset is synced",
        "D1",
        removes_before_trimmed_is_synced,
        frozenset({REFUSED}),
        8_000,
    ),
)
