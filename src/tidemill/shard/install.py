"""The follower's side of an install, from the leader's offer to a log that begins after the snapshot.

    offer ─▶ all queued rows are durable ─▶ cut files (`InstallCopy.begin`) ─▶ INSTALLING is durable ─▶ clean
          ─▶ pull and write, chunk by chunk ─▶ sync ─▶ INSTALLED is durable ─▶ the replica acknowledges

Each arrow is a job off the event loop, a sync of the journal, or a message.  Only one is in progress at a time, so an
install needs memory for only one chunk.  The follower can switch to a newer offer between two of these steps, and then
keeps the bytes that it has copied.  After a crash, the install continues from the last durable row: recovery cuts the
bytes that were copied after that row, and the follower copies them again.
"""

from collections.abc import Callable
from enum import StrEnum
from struct import error
from typing import Final, Protocol, TypeVar

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Buffer, Entry
from tidemill.raft.messages import Message, SnapshotChunk, SnapshotOffer, SnapshotPull
from tidemill.raft.replica import Replica
from tidemill.shard.jobs import Workers
from tidemill.storage.disk import DiskFull
from tidemill.storage.install.install_copy import ChunkRefused, InstallCopy, SnapshotContradicts
from tidemill.storage.install.install_row import installed_row, installing_row
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.machine_sections import UnknownSection, read_sections
from tidemill.storage.partition.partition_state import ByteReader, PartitionState
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.store import Store

RETRY_MS: Final = 500  # an unanswered pull counts as lost after this time
PROGRESS_BYTES: Final = 256 << 20  # copied between two INSTALLING rows; a restart repeats at most this much

T = TypeVar("T")


class Stage(StrEnum):
    IDLE = "idle"
    DRAINING = "draining"  # waiting until the rows queued before the install are in the segments
    WORKING = "working"  # a job is working on the files
    JOURNALING = "journaling"
    PULLING = "pulling"
    FULL = "full"  # the disk is full; each tick retries the write


class InstallOwner(Protocol):
    """The part of a shard that its installs use."""

    def send(self, to: ReplicaKey, message: Message) -> None: ...

    def high_watermarks(self) -> dict[int, int]:
        """Return the high watermark of each partition: an install keeps the records below it."""
        ...

    def install_changed(self) -> None:
        """Called when an install has changed the log, even before the change is durable, and when it has ended."""
        ...

    def damage_found(self, problem: SegmentDamaged) -> None:
        """Called when bytes that the install should have kept are damaged."""
        ...


class Install:
    """Executes the installs of one shard, one after another.  Runs on the event loop."""

    def __init__(self, store: Store, log: ShardLog, replica: Replica, owner: InstallOwner, workers: Workers) -> None:
        """`workers.background` is a single worker, so no other background work of the store runs at the same time."""
        self._store = store
        self._log = log
        self._replica = replica
        self._owner = owner
        self._workers = workers
        self.stage = Stage.IDLE
        self.refused = 0  # number of chunks that did not directly follow the copied bytes
        self._is_stopped = False
        self._copy: InstallCopy | None = None
        self._offer: SnapshotOffer | None = None  # the offer that is being installed
        self._next: SnapshotOffer | None = None  # a newer offer, whose install has not begun
        self._sections: Buffer = b""  # the offer's machine sections
        self._asked: tuple[int, int] | None = None  # partition and offset of the pull in flight
        self._asked_ms = 0
        self._now_ms = 0

    def stop(self) -> None:
        """Ignore the results of jobs from now on."""
        self._is_stopped = True

    def tick(self, now_ms: int) -> None:
        """Repeat an unanswered pull, or a write that failed because the disk was full.  Called a few times a second."""
        self._now_ms = now_ms
        if self.stage is Stage.PULLING and now_ms - self._asked_ms >= RETRY_MS:
            self._pull()
        elif self.stage is Stage.FULL:
            self._write(self._files.flush)
        else:
            self.resume()

    def offered(self, offer: SnapshotOffer) -> None:
        is_known = self._next is None and self._offer is not None and self._offer.index == offer.index
        if is_known:
            if self.stage is Stage.PULLING:
                self._pull()  # the leader may have changed, and a new leader has not received a pull yet
            return
        self._next = offer
        if self.stage is Stage.IDLE:
            self.stage = Stage.DRAINING
        elif self.stage is Stage.PULLING:
            self._cut()
        self.resume()

    def received(self, chunk: SnapshotChunk) -> None:
        """Write `chunk` if it answers the pull in flight; ignore a late chunk of an earlier pull."""
        is_asked = self._asked == (chunk.partition, chunk.offset)
        if self.stage is not Stage.PULLING or self._offer is None or chunk.index != self._offer.index or not is_asked:
            return
        files = self._files
        self._write(lambda: files.write(chunk.partition, chunk.offset, chunk.payload))

    def row_is_durable(self) -> None:
        """Begin to clean up the files: the INSTALLING row, which lists what to keep, has become durable."""
        if self.stage is not Stage.JOURNALING:
            return
        if self._next is not None:
            self._cut()
            return
        self._work(self._files.clean, lambda _: self._pull())

    def resume(self) -> None:
        """Continue if the rows that the install waits for are durable."""
        if self.stage is Stage.DRAINING:
            if self._store.is_written_back(self._log.shard_id):
                self._copy = InstallCopy(self._store.disk, self._log, self._owner.high_watermarks())
                self._cut()
        elif self.stage is Stage.JOURNALING and self._replica.installing is None:
            self.stage = Stage.IDLE
            self._copy = self._offer = None
            self._owner.install_changed()

    # Methods that execute the steps of an install.

    @property
    def _files(self) -> InstallCopy:
        assert self._copy is not None, "nothing is installed"
        return self._copy

    def _cut(self) -> None:
        """
        Begin to install the newest offer.  Bytes that were copied for an earlier offer are kept where they match.
        """
        offer, self._next = self._next, None
        assert offer is not None, "nothing was offered"
        self._offer = offer
        files, machines = self._files, self._log.machines

        def cut() -> list[PartitionState] | SegmentDamaged | str:
            try:
                reader = ByteReader(memoryview(offer.state))
                partitions = reader.partitions()
                self._sections = reader.data[reader.at :]
                read_sections(reader, machines)  # rejects an unknown or corrupt section before any file is cut
                if reader.at != len(reader.data):
                    raise error(f"{len(reader.data) - reader.at} B follow the last section")
                return files.begin(partitions)
            except SegmentDamaged as problem:
                return problem
            except (SnapshotContradicts, UnknownSection, error) as problem:
                return f"the snapshot at {offer.index} cannot be installed: {problem}"

        def done(found: list[PartitionState] | SegmentDamaged | str) -> None:
            if isinstance(found, list):
                self._journal(installing_row(offer.index, offer.index_term, found))
                return
            self.stage = Stage.IDLE
            self._copy = self._offer = None  # when the leader repeats the offer, a new install begins
            if isinstance(found, SegmentDamaged):
                self._owner.damage_found(found)  # marks the damage: the next install keeps only undamaged bytes
            else:
                self._log.damage = found  # the files are not cut: they may be the only copy left
                self._replica.mark_damaged()

        self._work(cut, done)

    def _journal(self, row: Entry) -> None:
        if self._next is not None:
            self._cut()
            return
        self._store.install(self._log, row)
        self.stage = Stage.JOURNALING
        if row.kind == RowKind.INSTALLED:
            assert self._offer is not None, "nothing was offered"
            self._replica.installed(self._offer.membership)
        self._owner.install_changed()

    def _pull(self) -> None:
        """Pull the next chunk, or finish if the snapshot is complete."""
        if self._next is not None:
            self._cut()
            return
        self.stage = Stage.PULLING
        files = self._files
        self._asked = files.next_pull()
        offer, leader = self._offer, self._replica.leader
        assert offer is not None, "nothing was offered"
        if self._asked is None:
            self._work(files.sync, lambda _: self._end(offer))
        elif files.bytes_since_sync >= PROGRESS_BYTES:
            self._work(
                files.sync,
                lambda _: self._journal(installing_row(offer.index, offer.index_term, files.progress())),
            )
        else:
            self._asked_ms = self._now_ms
            if leader is not None:
                partition, offset = self._asked
                self._owner.send(
                    leader, SnapshotPull(term=self._replica.term, index=offer.index, partition=partition, offset=offset)
                )

    def _end(self, offer: SnapshotOffer) -> None:
        states, sections = self._files.result(), self._sections
        self._journal(
            installed_row(offer.index, offer.index_term, offer.append_time, offer.membership, states, sections)
        )

    def _write(self, write: Callable[[], None]) -> None:
        def outcome() -> Exception | None:
            try:
                write()
            except (ChunkRefused, DiskFull) as problem:
                return problem
            return None

        def done(problem: Exception | None) -> None:
            if problem is None:
                self._pull()
            elif isinstance(problem, DiskFull):
                self.stage = Stage.FULL
            else:
                self.refused += 1
                self.stage = Stage.PULLING  # `tick` pulls again

        self._work(outcome, done)

    def _work(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        self.stage = Stage.WORKING

        def reported(result: T) -> None:
            if not self._is_stopped:
                done(result)

        self._workers.background.submit(job, reported, self._workers.failed)
