"""The journal, the only way to make rows durable: a ring of zero-filled files, overwritten in place.

The event loop reserves space and gathers blocks; one thread writes and syncs them, with one sync per block.
`docs/formats/journal.md` describes the ring, the blocks and the rules.
"""

import errno
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidemill.storage import paths
from tidemill.storage.disk import Buffer, Disk, DiskFull, File, SyncFailed
from tidemill.storage.journal.journal_block import PAGE_BYTES, decode_header

RESERVE_DIVISOR: Final = 8  # an eighth of the ring is reserved for rows that free space (rule J7)
ZERO_STEP_BYTES: Final = 4 << 20  # one step of preparing a file, which takes no longer than writing a block


class RingFile(NamedTuple):
    number: int
    file: File
    size: int


class Extent(NamedTuple):
    """A range of bytes in one file."""

    file: File
    position: int
    size: int


class JournalPosition(NamedTuple):
    """The position at which a block begins."""

    number: int  # the number of the journal file
    position: int


class Journal:
    """The ring's files, and the part of the ring that is in use.  Sizes are in bytes and are multiples of a page."""

    def __init__(self, disk: Disk, ring: list[RingFile], *, head: JournalPosition, sequence: int) -> None:
        self._disk = disk
        self.ring = ring
        self.capacity = sum(file.size for file in ring)
        self._slot = next(i for i, file in enumerate(ring) if file.number == head.number)
        self._position = head.position
        self.sequence = sequence  # the sequence of the newest block
        self.synced = 0  # the newest sequence known to be synced
        self.written = 0  # the sequence of the newest synced block, set by the journal's thread
        self.used = 0
        self.laps = 0
        self._live: deque[tuple[int, int]] = deque()  # (sequence, size) of the blocks in use
        self.prepared: File | None = None
        self.prepared_size = 0

    @property
    def free(self) -> int:
        return self.capacity - self.used

    @property
    def free_for_entries(self) -> int:
        """The bytes that ordinary rows may use; the other free bytes are reserved for rows that free space."""
        return self.free - self.capacity // RESERVE_DIVISOR

    @property
    def row_bytes_max(self) -> int:
        """The size of the largest row that can ever be written, in a block of its own and an empty ring."""
        return self.capacity - self.capacity // RESERVE_DIVISOR - PAGE_BYTES

    @property
    def head(self) -> JournalPosition:
        """
        The position at which the next block will be reserved.  At the end of a file, the block begins in the next file.
        """
        return JournalPosition(self.ring[self._slot].number, self._position)

    def resume(self, journal_position: JournalPosition) -> None:
        """Continue at `journal_position`, after the last complete block that recovery found."""
        self._slot = next(i for i, file in enumerate(self.ring) if file.number == journal_position.number)
        self._position = journal_position.position
        self.synced = self.written = self.sequence

    def account(self, sequence: int, size: int) -> None:
        """Mark the space of a block that recovery has found as used."""
        self._live.append((sequence, size))
        self.used += size

    def reserve(self, size: int) -> tuple[list[Extent], RingFile | None]:
        """
        Reserve space for the next block.  Return its extents, and the prepared file that must join the ring to hold it,
        if any.  The caller must have checked that the block fits.
        """
        assert size <= self.free, f"a block of {size} B does not fit into {self.free} B"
        self.sequence += 1
        self._live.append((self.sequence, size))
        self.used += size
        joined = None
        extents = []
        while size:
            here = self.ring[self._slot]
            if self._position == here.size:
                grown = self._next_slot()
                joined = joined or grown
                continue
            run = min(size, here.size - self._position)
            extents.append(Extent(here.file, self._position, run))
            self._position += run
            size -= run
        return extents, joined

    def _next_slot(self) -> RingFile | None:
        joined = None
        if self._slot == len(self.ring) - 1 and self.prepared is not None:
            joined = RingFile(self.ring[-1].number + 1, self.prepared, self.prepared_size)
            self.ring.append(joined)
            self.capacity += joined.size
            self.prepared = None
        self._slot += 1
        if self._slot == len(self.ring):
            self._slot = 0
            self.laps += 1
        self._position = 0
        return joined

    def release(self, sequence: int) -> None:
        """Free every block up to `sequence`."""
        live = self._live
        while live and live[0][0] <= sequence:
            self.used -= live.popleft()[1]

    def check_follows(self, sequence: int) -> None:
        """
        Raise SyncFailed if the block before `sequence` is not durable (rule J10): after a restart, another block could
        get the missing number, and the next recovery would mistake block `sequence` for that block's successor.  Runs
        on the journal's thread.
        """
        if self.written != sequence - 1:
            raise SyncFailed(errno.EIO, f"block {sequence} is not written: block {sequence - 1} was not")

    def join(self, joined: RingFile) -> None:
        """Durably rename a prepared file (rule J1), before the block is written.  Runs on the journal's thread."""
        self._disk.rename(paths.JOURNAL_NEXT, paths.journal_file(joined.number))
        self._disk.sync_directory(paths.JOURNAL)


def write_block(extents: list[Extent], parts: list[Buffer]) -> None:
    """Write a block's parts to its extents and sync them.  Raises SyncFailed; the process must then stop."""
    if len(extents) == 1:
        extent = extents[0]
        extent.file.write_durably(extent.position, parts)
        return
    remaining = deque(memoryview(part) for part in parts)
    for extent in extents:
        run: list[Buffer] = []
        room = extent.size
        while room:
            part = remaining.popleft()
            if len(part) > room:
                remaining.appendleft(part[room:])
                part = part[:room]
            run.append(part)
            room -= len(part)
        extent.file.write_durably(extent.position, run)


def prepare_file(disk: Disk, size: int, *, step_bytes: int = ZERO_STEP_BYTES) -> Iterator[File | None]:
    """
    Fill `journal/next` with zeros and sync it, one step at a time.  Yields None after each step, and finally the file.
    Raises DiskFull.
    """
    file = disk.open(paths.JOURNAL_NEXT, create=True)
    file.truncate(0)
    zeros = bytes(step_bytes)
    try:
        for position in range(0, size, step_bytes):
            file.write(position, [zeros[: size - position]])
            file.sync()
            yield None
    except DiskFull:
        file.truncate(0)  # free the space for the segments
        file.close()
        raise
    yield file


def read_extents(ring: list[RingFile], start: JournalPosition, size: int) -> bytes:
    """Return `size` bytes of the ring from `start`; fewer if a file is shorter than the size given in `ring`."""
    slot = next(i for i, file in enumerate(ring) if file.number == start.number)
    position = start.position
    found = []
    while size:
        here = ring[slot]
        run = min(size, here.size - position)
        if run:
            data = here.file.read(position, run)
            found.append(data)
            if len(data) < run:
                break
        size -= run
        position += run
        if position == here.size:
            slot, position = (slot + 1) % len(ring), 0
    return found[0] if len(found) == 1 else b"".join(found)


def position_after(ring: list[RingFile], start: JournalPosition, size: int) -> JournalPosition:
    """Return the position after a block of `size` bytes at `start`."""
    slot = next(i for i, file in enumerate(ring) if file.number == start.number)
    position = start.position + size
    while position > ring[slot].size:
        position -= ring[slot].size
        slot = (slot + 1) % len(ring)
    return JournalPosition(ring[slot].number, position)


def newest_synced(ring: list[RingFile], key: bytes) -> int:
    """Return the greatest synced position in any valid block header of the ring; 0 if there is none."""
    newest = 0
    for ring_file in ring:
        for start in range(0, ring_file.size, ZERO_STEP_BYTES):
            data = memoryview(ring_file.file.read(start, ZERO_STEP_BYTES))
            for at in range(0, len(data), PAGE_BYTES):
                header = decode_header(key, data[at : at + PAGE_BYTES])
                if header is not None and header.synced > newest:
                    newest = header.synced
    return newest
